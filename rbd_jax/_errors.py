"""The faults that the library reports about what it is given."""


class ModelError(ValueError):
    """A model description that cannot be built; the message names the element and says the remedy."""


class ModelWarning(UserWarning):
    """A model description that can be built but is suspicious; the message names the elements."""


class UnknownNameError(ModelError, KeyError):
    """A name that the model does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


def suggest(name: str, known) -> str:
    """`; did you mean 'x'?` where a known name is close, else the known names."""
    import difflib

    known = list(known)
    close = difflib.get_close_matches(str(name), known, 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    listed = ", ".join(map(repr, known[:12])) + (", ..." if len(known) > 12 else "")
    return f"; there are: {listed}" if known else "; there are none"
