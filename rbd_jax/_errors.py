"""The faults that the library reports about what it is given."""


class ModelError(ValueError):
    """A model description that cannot be built; the message names the element and says the remedy.

    >>> try:
    ...     rbd.planar(rbd.load("arm7"))
    ... except rbd.ModelError as error:
    ...     print(str(error)[:65])
    planar: joint 'joint2' of model 'arm7' turns about (0, 1, 0) in t
    """


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


def suggest(name: str, known) -> str:
    """`; did you mean 'x'?` where a known name is close, else the known names."""
    import difflib

    known = list(known)
    close = difflib.get_close_matches(str(name), known, 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    listed = ", ".join(map(repr, known[:12])) + (", ..." if len(known) > 12 else "")
    return f"; there are: {listed}" if known else "; there are none"
