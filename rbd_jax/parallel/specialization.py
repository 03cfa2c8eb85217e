"""Functions of one model, without arithmetic that its parameters make unnecessary (book §10.4)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.array import is_known
from .._core.derivatives import custom_jvp
from ..dynamics import (
    bias_force,
    forward_dynamics,
    gravity_force,
    inertia_force,
    inverse_dynamics,
    mass_matrix,
    solve_mass_matrix,
)
from ..dynamics.body_coordinates import composite_bodies, forward_by_factors, newton_euler, solve_by_factors


try:
    from ..compiler import ScalarProgram
except ImportError:  # the library also works without this part, but slower
    ScalarProgram = None


def _solve(model, q, rhs):
    matrix = composite_bodies(model, q)
    if rhs.ndim == 1:
        return solve_by_factors(model, matrix, rhs)
    return jnp.stack([solve_by_factors(model, matrix, column) for column in rhs.T], axis=1)


def _momentum_rate(model, q, a):
    if a.ndim == 1:
        return newton_euler(model, q, None, a, gravity=False)
    return jnp.stack([newton_euler(model, q, None, column, gravity=False) for column in a.T], axis=1)


#: The same functions in body frames, which are cheaper for known model parameters.
IN_BODY_COORDINATES: dict[Callable, Callable] = {
    inverse_dynamics: newton_euler,
    bias_force: lambda model, q, v, f_ext=None: newton_euler(model, q, v, None, f_ext),
    gravity_force: lambda model, q: newton_euler(model, q, None, None),
    inertia_force: _momentum_rate,
    mass_matrix: composite_bodies,
    forward_dynamics: forward_by_factors,
    solve_mass_matrix: _solve,
}


def specialize(function: Callable, model, keep: Callable | None = None) -> Callable:
    """Returns a function specialized to one model: arithmetic that its parameters make unnecessary is left out.

    The program of the function is split into scalar operations, the model's parameters are inserted, and the rules
    of book §10.4 are applied: constant expressions are evaluated, `x · 0`, `x · 1`, `x + 0` are simplified, common
    subexpressions are computed once, and unused results are removed. Inverse dynamics of `arm7` needs 191 of 4508
    multiplications. The dynamics of a model (`inverse_dynamics`, `forward_dynamics`, `mass_matrix`, `bias_force`,
    `gravity_force`, `inertia_force`, `solve_mass_matrix`) starts from another form of the algorithms, in suitable body frames.

    The result is for one sample, as all functions are: `vmap`, `batch_map`, `jit` and derivatives apply to it. Its derivatives
    are those of the original function, at the same cost. For cheaper derivatives specialize a function that computes them,
    such as `inverse_dynamics_derivatives` or a gradient.

    Infinite and NaN inputs propagate to everything that depends on them, although `x · 0` is simplified. Only an overflow or a
    division by zero of finite inputs may give a finite result that would not be finite in plain arithmetic. Loops whose length
    depends on an input, and operations such as sorting, are not changed. The length and the compile time of the program grow
    with the number of operations. It is for robots of up to about ten degrees of freedom: beyond that, fewer operations do not
    take less time, because compilers handle loops better than long programs and there are many results. `benchmarks/README.md`
    has the figures.

    Args:
      function: A function whose first argument is a model: one of this library, or your own. Write
        `specialize(lambda model, q: ..., model)` for a combination.
      model: The model, or any PyTree of known numbers.
      keep: Selects the parameters that are not known yet: `lambda model: model.inertias.mass`, or a tuple of several.

    Returns:
      A function of the other arguments of `function`; with `keep`, the kept parameters are its first argument.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> fast = rbd.specialize(rbd.inverse_dynamics, model)
    >>> print(fast(q, v, jnp.array([1.0, 0.0])))
    [16.543 12.168]
    >>> rbd.count_operations(fast, q, v, v).multiplications
    13
    >>> with_masses = rbd.specialize(rbd.gravity_force, model, keep=lambda model: model.inertias.mass)
    >>> print(with_masses(model.inertias.mass, q))
    [19.192  9.785]
    """
    if not callable(function):
        raise TypeError(f"specialize: function is {type(function).__name__}; it is a function of a model")
    if not is_known(model):
        raise ValueError(
            "specialize: the numbers of the model are not known while a function is traced; specialize before that, and `keep` "
            "what is to vary"
        )
    cheaper = IN_BODY_COORDINATES.get(function, function)
    programs: dict = {}

    def placed(of: Callable, *args, **kwargs):
        """Calls `of` with the model, in which the kept parameters are replaced by the first argument."""
        if keep is None:
            return of(model, *args, **kwargs)
        kept, *args = args
        return of(eqx.tree_at(keep, model, kept), *args, **kwargs)

    @functools.wraps(function, assigned=("__name__", "__doc__"))
    def specialized(*args, **kwargs):
        if keep is not None and not args:
            raise TypeError("specialize: the first argument must be the kept parameters of the model")
        leaves, structure = jax.tree.flatten((args, kwargs))
        are_numbers = tuple(isinstance(x, jax.Array | np.ndarray | np.inexact | float) for x in leaves)
        numbers = [jnp.asarray(x) for x, is_one in zip(leaves, are_numbers) if is_one]
        others = tuple(x for x, is_one in zip(leaves, are_numbers) if not is_one)
        key = structure, are_numbers, others, tuple((x.shape, x.dtype) for x in numbers)
        if key not in programs:

            def run(of, numbers):
                numbers, rest = iter(numbers), iter(others)
                own = [next(numbers) if is_one else next(rest) for is_one in are_numbers]
                args, kwargs = jax.tree.unflatten(structure, own)
                return placed(of, *args, **kwargs)

            kept = 0 if keep is None else len(jax.tree.leaves(args[0]))
            programs[key] = _specialized(function, cheaper, run, numbers, kept)
        return programs[key](*numbers)

    return specialized


def _specialized(function: Callable, cheaper: Callable, run: Callable, numbers, kept: int) -> Callable:
    """Returns the simplified program for numbers of these shapes, with the derivative of the original.

    The first `kept` numbers are the parameters selected by `keep`.
    """
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in numbers]
    original = lambda *numbers: run(function, numbers)
    expected = jax.eval_shape(original, *shapes)  # also raises the function's own errors
    if ScalarProgram is None:
        return jax.jit(original)

    def simplified(*numbers):
        found = run(cheaper, numbers)
        if cheaper is function:
            return found
        # The other algorithm may not use all inputs; this makes results non-finite for all non-finite inputs.
        guard = sum(jnp.sum(0 * x) for x in numbers[kept:])
        return jax.tree.map(lambda y: y + guard, found)

    closed, found = jax.make_jaxpr(simplified, return_shape=True)(*shapes)
    if jax.tree.structure(expected) != jax.tree.structure(found):
        raise AssertionError("the form in body coordinates returns something else")
    program, structure = ScalarProgram(closed), jax.tree.structure(expected)

    @custom_jvp
    def call(*numbers):
        return jax.tree.unflatten(structure, program(*numbers))

    @call.defjvp
    def _(primals, tangents):
        return jax.jvp(original, primals, tangents)

    return jax.jit(call)
