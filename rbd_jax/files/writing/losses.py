"""Collects the parts of a model that a file format cannot express, and reports them after writing."""

from __future__ import annotations

import warnings

from ..._core.errors import ModelError, ModelWarning


class Losses:
    """The parts left out of a file: for each kind the names of its elements, in the order of detection."""

    def __init__(self, model: str, format: str):
        self._model, self._format = model, format
        self._found: dict[str, list[str]] = {}

    def add(self, what: str, *names: str) -> None:
        """Adds elements of the kind `what` that are left out; without names, only the kind is listed."""
        known = self._found.setdefault(what, [])
        known += [name for name in names if name not in known]

    def __iter__(self):
        for what, names in self._found.items():
            yield f"{what} {', '.join(map(repr, names))}" if names else what

    def report(self, strict: bool) -> None:
        """Raises one error if `strict`, otherwise issues one warning. Does nothing if nothing is left out."""
        if not self._found:
            return
        message = (
            f"model {self._model!r} has properties that {self._format} cannot express: {'; '.join(self)}"
        )
        if strict:
            raise ModelError(
                f"{message}. Remove them from the model, or pass strict=False to leave them out of the file"
            )
        warnings.warn(f"{message}. They are left out of the file", ModelWarning, stacklevel=4)
