"""Errors and warnings about user input."""

from unicodedata import category


#: Maximum length of a message, in bytes, since messages contain text from files.
LONGEST = 2000


def shown(message: object) -> object:
    """Returns a message with control characters escaped, and with the middle of a long message cut out."""
    if not isinstance(message, str):
        return message
    text = "".join(one if one == "\n" or is_plain(one) else ascii(one)[1:-1] for one in message)
    if len(text) > LONGEST or len(text.encode(errors="replace")) > LONGEST:
        kept = text.encode(errors="replace")
        half = LONGEST // 2 - 20
        start, end = (part.decode(errors="ignore") for part in (kept[:half], kept[-half:]))
        text = f"{start} [...] {end}"
    return text


def is_plain(text: str) -> bool:
    """Returns whether text has no control, direction, line or surrogate characters, which are invisible."""
    return text.isprintable() or not any(category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") for one in text)


class ModelError(ValueError):
    """A model description that cannot be built; the message names the element and the remedy.

    >>> try:
    ...     rbd.planar(rbd.load("arm7"))
    ... except rbd.ModelError as error:
    ...     print(str(error)[:65])
    planar: joint 'joint2' of model 'arm7' turns about (0, 1, 0) in t
    """

    def __init__(self, *args):
        super().__init__(*map(shown, args))


class ModelWarning(UserWarning):
    """A model description that can be built but is suspicious; the message names the elements.

    >>> import warnings
    >>> builder = rbd.ModelBuilder()
    >>> impossible = rbd.Inertia.from_mass_com(1.0, (0.0, 0.0, 0.0), jnp.diag(jnp.array([1.0, 1.0, 5.0])))
    >>> wheel = builder.add_body("wheel", joint=rbd.joints.Revolute(), inertia=impossible)
    >>> with warnings.catch_warnings(record=True) as told:
    ...     model = builder.build()
    >>> print(told[0].category.__name__)
    ModelWarning
    """

    def __init__(self, *args):
        super().__init__(*map(shown, args))


class UnknownNameError(ModelError, KeyError):
    """A name that the model does not have.

    >>> model = rbd.load("double_pendulum")
    >>> try:
    ...     model.body_index("uper")
    ... except rbd.UnknownNameError as error:
    ...     print(error)
    model 'double_pendulum' has no body 'uper'; did you mean 'upper'?
    """

    def __str__(self) -> str:
        return str(self.args[0])


def continued(text: str, more: str, mark: str = ".") -> str:
    """Returns a message with another sentence after it. The mark in between is left out after a question or a sentence end."""
    return f"{text}{'' if text.endswith(('?', '.', '!')) else mark} {more}"


def suggest(name: str, known, more: str = "", *, listed: bool = True) -> str:
    """Returns the end of a message about an unknown name: `; did you mean 'x'?` for a close name, else the known names.

    No text may follow it in the message, because it ends with a question mark or without punctuation.

    Args:
      name: The unknown name.
      known: The known names.
      more: A sentence that follows, without its period.
      listed: If True, known names are listed if none is close.
    """
    import difflib

    known = list(known)
    close = difflib.get_close_matches(str(name), known, 1)
    if close:
        hint = f"; did you mean {close[0]!r}?"
    elif listed:
        shown = ", ".join(map(repr, known[:12])) + (", ..." if len(known) > 12 else "")
        hint = f"; there are: {shown}" if known else "; no names are known"
    else:
        hint = ""
    return continued(hint, more) if more else hint


# They are displayed with the name by which users catch them.
for error in (ModelError, ModelWarning, UnknownNameError):
    error.__module__ = "rbd_jax"


def missing_package(package: str, what: str) -> ImportError:
    """Returns the error for a package of the extra `cli` that is not installed.

    Args:
      package: The package.
      what: The plural subject of "need" in the message.
    """
    return ImportError(f"{package} is not installed, which {what} need: pip install 'rbd_jax[cli]'")
