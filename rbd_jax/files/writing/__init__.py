"""Writes models as URDF and MJCF.

`series` splits joints of several degrees of freedom into the rotations and translations that both formats have. `losses`
collects and reports the parts of a model that a format cannot express.
"""

from .mjcf import save_mjcf as save_mjcf, to_mjcf as to_mjcf
from .urdf import save_urdf as save_urdf, to_urdf as to_urdf
