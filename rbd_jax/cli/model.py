"""The model that the arguments name, with what is suspicious about it."""

from __future__ import annotations

import warnings

from .. import ModelError, ModelWarning, robots


class Refused(Exception):
    """Something that the user asked for cannot be done; the message is one line."""


def load(arguments, console):
    """The model, with what is suspicious about it in yellow."""
    options = {"floating_base": True} if arguments.floating_base else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        try:
            model = robots.load(arguments.robot, **options)
        except ModelError as error:
            raise Refused(str(error)) from error
        except (ImportError, OSError) as error:
            raise Refused(f"{arguments.robot}: {error}") from error
    for warning in caught:
        if issubclass(warning.category, ModelWarning):
            first, *rest = str(warning.message).split("; ")
            head, _, fault = first.partition(": ")
            console.print(f"warning: {head}", style="yellow", highlight=False, markup=False, soft_wrap=True)
            for line in (fault, *rest) if fault else rest:
                console.print(f"  - {line}", style="yellow", highlight=False, markup=False, soft_wrap=True)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return model
