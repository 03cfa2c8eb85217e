"""The command line: arguments in, calls of the library, a report out."""

from .arguments import main as main
