"""The command line: arguments in, calls of the library, a report out.

- `main`: runs it; returns the exit code
"""

__all__ = ["main"]

from .arguments import main as main
