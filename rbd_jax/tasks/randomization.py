"""Domain randomization: the numbers of a model, drawn anew for every episode."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from .._arguments import instance
from ..simulate import Simulated


class Randomization(eqx.Module):
    """A rule that draws numbers of a model: `(key, model) -> model`, with the same structure and the same shapes."""

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray, model: Simulated) -> Simulated:
        """The model with other numbers."""


class ByFunction(Randomization):
    """One given as a function, `(key, model) -> model`."""

    function: Callable = eqx.field(static=True)

    def __call__(self, key, model):
        return self.function(key, model)


def randomizations(given: Any) -> tuple[Randomization, ...]:
    """One or several, each an object or a function, in the order in which they are to be applied."""
    listed = given if isinstance(given, Sequence) else () if given is None else (given,)
    for index, one in enumerate(listed):
        if isinstance(one, type) or not callable(one):
            instance(
                "Task",
                f"randomization[{index}]",
                one,
                Randomization,
                "a function (key, model) -> model, or a Randomization as rbd.tasks.scaled_masses(0.8, 1.2)",
            )
    return tuple(one if isinstance(one, Randomization) else ByFunction(one) for one in listed)


def randomized(rules: tuple[Randomization, ...], key: PRNGKeyArray, model: Simulated) -> Any:
    """The numbers that are drawn, in a PyTree like the model; None where they are those of the model itself."""
    if not rules:
        return jax.tree.map(lambda leaf: None, model)
    drawn = _apply(rules, key, model)
    same = _untouched(rules, key, model)
    return jax.tree.unflatten(
        jax.tree.structure(model),
        [None if kept else leaf for leaf, kept in zip(jax.tree.leaves(drawn), same)],
    )


def _apply(rules: tuple[Randomization, ...], key: PRNGKeyArray, model: Simulated) -> Simulated:
    """The model under all rules, one after the other, each with a key of its own."""
    for index, rule in enumerate(rules):
        new = rule(jax.random.fold_in(key, index), model)
        _refuse_other(f"randomization[{index}]", model, new)
        model = new
    return model


def _refuse_other(owner: str, model: Simulated, new: Any) -> None:
    """Where a rule returns anything but the model with other numbers."""
    if jax.tree.structure(new) != jax.tree.structure(model):
        what = "a model of another structure" if isinstance(new, type(model)) else f"a {type(new).__name__}"
        raise ValueError(
            f"Task: {owner} returned {what}; it returns the model that it is given with other numbers, by equinox.tree_at for "
            "example. What changes the tree, or what is attached, makes a model of its own and so a task of its own"
        )
    for (path, old), leaf in zip(jax.tree_util.tree_leaves_with_path(model), jax.tree.leaves(new)):
        before, after = (np.shape(old), old.dtype), (np.shape(leaf), jax.numpy.result_type(leaf))
        if before != after:
            place = jax.tree_util.keystr(path, simple=True, separator=".")
            raise ValueError(
                f"Task: {owner} returned {place} as {after[1]}{list(after[0])}; it was {before[1]}{list(before[0])}"
            )


def _untouched(rules: tuple[Randomization, ...], key: PRNGKeyArray, model: Simulated) -> list[bool]:
    """Which leaves the rules hand on as they are. That is read off the program, so that it is the same wherever it is asked."""
    leaves, structure = jax.tree.flatten(model)

    def run(key, leaves):
        return jax.tree.leaves(_apply(rules, key, jax.tree.unflatten(structure, leaves)))

    program = jax.make_jaxpr(run)(key, leaves).jaxpr
    return [out is given for out, given in zip(program.outvars, program.invars[-len(leaves) :])]
