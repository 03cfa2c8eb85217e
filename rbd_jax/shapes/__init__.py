"""What bodies look like and touch with, and named frames on them.

- `Site`: a named frame on a body
"""

__all__ = ["Site"]

from .site import Site as Site
