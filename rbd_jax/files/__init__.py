"""Models from files, and into files.

- `load_urdf`: the model that a URDF file describes
- `load_mjcf`: the model that an MJCF file describes
- `load_sdf`: the model that an SDF file describes
- `save_urdf`: write a model as a URDF file
- `to_urdf`: the text of one
- `save_mjcf`: write a model as an MJCF file
- `to_mjcf`: the text of one
- `Limits`: how large a file may be that a model is read from
"""

__all__ = ["load_urdf", "load_mjcf", "load_sdf", "save_urdf", "to_urdf", "save_mjcf", "to_mjcf", "Limits"]

from .limits import Limits as Limits
from .mjcf import load_mjcf as load_mjcf
from .sdf import load_sdf as load_sdf
from .urdf import load_urdf as load_urdf
from .writing import (
    save_mjcf as save_mjcf,
    save_urdf as save_urdf,
    to_mjcf as to_mjcf,
    to_urdf as to_urdf,
)
