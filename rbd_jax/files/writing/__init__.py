"""Writing models: as URDF, and as MJCF.

Both formats have turns and slides in series where the library has joints of several degrees of freedom (`series`), and each has
words for some of what a model carries; what it has none for is gathered (`losses`) and told.
"""

from .mjcf import save_mjcf as save_mjcf, to_mjcf as to_mjcf
from .urdf import save_urdf as save_urdf, to_urdf as to_urdf
