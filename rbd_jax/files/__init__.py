"""Limits on the files that models are loaded from.

- `Limits`: the maximum size of a file
"""

__all__ = ["Limits"]


from .._core.deprecation import at_the_top
from .limits import Limits as Limits


#: Names that moved to the top-level package `rbd_jax`.
__getattr__ = at_the_top(
    __name__,
    {
        "load_mjcf": ".mjcf",
        "load_sdf": ".sdf",
        "load_urdf": ".urdf",
        "save_mjcf": ".writing",
        "save_urdf": ".writing",
        "to_mjcf": ".writing",
        "to_urdf": ".writing",
    },
)
