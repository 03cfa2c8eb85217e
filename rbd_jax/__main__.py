"""The command line: `python -m rbd_jax simulate ROBOT`, `python -m rbd_jax info ROBOT`."""

import sys

from .cli import main as main


if __name__ == "__main__":
    sys.exit(main())
