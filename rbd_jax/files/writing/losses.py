"""What of a model a file cannot say: gathered while it is written, and told at the end."""

from __future__ import annotations

import warnings

from ..._core.errors import ModelError, ModelWarning


class Losses:
    """What is left out of a file, each kind with the names of those that have it, in the order in which it is found."""

    def __init__(self, model: str, format: str):
        self._model, self._format = model, format
        self._found: dict[str, list[str]] = {}

    def add(self, what: str, *names: str) -> None:
        """`what` of these is left out; `what` alone, where nothing has a name."""
        known = self._found.setdefault(what, [])
        known += [name for name in names if name not in known]

    def __iter__(self):
        for what, names in self._found.items():
            yield f"{what} {', '.join(map(repr, names))}" if names else what

    def report(self, strict: bool) -> None:
        """One error if `strict`, or else one warning; nothing where nothing is left out."""
        if not self._found:
            return
        message = f"model {self._model!r} has what {self._format} cannot say: {'; '.join(self)}"
        if strict:
            raise ModelError(
                f"{message}. Take it off the model, or give strict=False and the file goes without"
            )
        warnings.warn(f"{message}. The file goes without", ModelWarning, stacklevel=4)
