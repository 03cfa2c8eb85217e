"""Models from files, and into files.

- `Limits`: how large a file may be that a model is read from
"""

__all__ = ["Limits"]


from .._core.deprecation import at_the_top
from .limits import Limits as Limits


#: What is at the top of the library, `rbd_jax`, and was here as well.
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
