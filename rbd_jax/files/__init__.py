"""Models from files.

- `load_urdf`: the model that a URDF file describes
- `load_mjcf`: the model that an MJCF file describes
"""

__all__ = ["load_urdf", "load_mjcf"]

from .mjcf import load_mjcf as load_mjcf
from .urdf import load_urdf as load_urdf
