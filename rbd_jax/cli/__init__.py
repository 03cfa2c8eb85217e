"""The command line: parses arguments, calls the library, and prints a report.

- `main`: runs a command and returns its exit code
"""

__all__ = ["main"]

from .arguments import main as main
