"""Inverse kinematics: configurations at which residuals vanish, or are as small as limits and constraints allow.

The search takes damped Gauss-Newton steps (Levenberg-Marquardt) on the tangent space, within the limits of the joints, from
many starts. Newton's method with an augmented Lagrangian then finds the nearest point to unreachable targets, or minimizes
secondary costs within the remaining freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import zero_from_primal
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._core.arguments import a_model, configuration, instance, names, number, whole_number
from .._core.array import with_precision
from .._core.derivatives import custom_jvp
from .._core.jit import compiled
from .._core.platform import is_cpu
from ..model import Model, neutral, random_configuration
from ..optimize.implicit import moving_arguments
from ..optimize.outcome import Code
from ..simulate import Simulated
from ._configurations import Aims, apart, limits_of, own_constraints, weights
from ._search import Search
from ._sensitivity import Changes
from ._settling import Settled, Task, settled
from .constraint import Bounds, Constraint
from .residual import Cost, Residual, residual_of


#: Targets: residuals, weights times residuals, or functions `(t, state, control) -> numbers`.
Asked: TypeAlias = Sequence[Cost | Residual | Callable[..., Any]] | Cost | Residual


class InverseKinematics(eqx.Module):
    """The result of `inverse_kinematics`: a configuration, and the remaining errors.

    - `q`: within the limits.
    - `code`: a `Code`: `CONVERGED` if the targets are reached, `INFEASIBLE` if they are out of reach, and q is as near as
      possible.
    - `error`: the largest entry of the targets (m, rad), without weights; `errors`: the largest entry of each target.
    - `violation`: the largest violation of a constraint, including closures of loops.
    - `stationarity`: the largest derivative of the last objective along directions that can still move.
    - `iterations`: number of linearizations of the residuals, of all starts together.
    - `start`: the index of the start that led to q.

    >>> model = rbd.load("double_pendulum")
    >>> found = rbd.control.inverse_kinematics(model, [rbd.control.Position("lower", (0.0, 0.0, -5.0))])  # out of reach
    >>> print(found.converged, rbd.control.Code(int(found.code)).name, found.error.round(2))
    False INFEASIBLE 4.0
    """

    q: Float[Array, "*batch nq"]
    code: Int[Array, "*batch"]
    error: Float[Array, "*batch"]
    errors: Float[Array, "*batch targets"]
    violation: Float[Array, "*batch"]
    stationarity: Float[Array, "*batch"]
    iterations: Int[Array, "*batch"]
    start: Int[Array, "*batch"]

    @property
    def converged(self) -> Bool[Array, "*batch"]:
        """True if all targets are reached."""
        return self.code == Code.CONVERGED


def inverse_kinematics(
    model: Simulated,
    targets: Asked,
    q: Float[Array, "nq"] | None = None,
    *,
    constraints: Sequence[Constraint] = (),
    secondary: Asked = (),
    bounds: Bounds | None = None,
    hold: Sequence[str] = (),
    starts: SupportsIndex = 32,
    at_once: SupportsIndex | None = None,
    key: PRNGKeyArray | None = None,
    tolerance: float | None = None,
    max_steps: SupportsIndex = 50,
    time: float | Float[Array, ""] = 0.0,
) -> InverseKinematics:
    """Returns a configuration at which the targets are zero or, if they are out of reach, `½ Σ w r²` is least.

    The result is within limits, satisfies the constraints, and closes the loops. The search proceeds from start to start
    until all targets and constraints hold to the tolerance, so weights matter only for unreachable targets. With `secondary`
    costs, the remaining freedom minimizes them. For unreachable targets the result is the nearest point, and `secondary`
    selects among several.

    The function compiles on the first call, and works under `jit` and `vmap`. Derivatives of q with respect to the data of
    targets, constraints and bounds are those of the conditions that q satisfies. They are the least change along
    undetermined directions, and keep entries at limits there.

    Args:
      model: The model.
      targets: Residuals, or weights times residuals: `[Pose("tool", frame)]`, `[Position("left", a), 10 * Pointing(...)]`.
      q: First start, by default the middle of the limits. If the targets can be reached from it, the result is near it, and
        the random other starts are not used.
      constraints: Conditions that hold in any case: `Constraint(Clearance(), lower=0.02)` keeps shapes two centimeters
        apart, including those of the robot itself.
      secondary: Residuals whose squares select among the configurations that reach the targets: `[Posture()]`.
      bounds: `Bounds` of q; by default the limits of the model.
      hold: Joints that keep their values of `q`.
      starts: Maximum number of starts.
      at_once: Number of starts that are searched in parallel; by default one on a CPU and all elsewhere.
      key: Random key of the starts.
      tolerance: Size up to which a target or constraint counts as zero, in m and rad: 1e-8, in single precision 1e-5.
      max_steps: Maximum number of steps of each start.
      time: The time for residuals that depend on it.

    Returns:
      An `InverseKinematics`. Check its `code`.

    >>> model = rbd.load("arm7")
    >>> target = rbd.Transform.from_xyz_rpy((0.5, 0.2, 0.4), (0.0, np.pi, 0.0))
    >>> found = rbd.control.inverse_kinematics(model, [rbd.control.Pose("tool", target)])
    >>> print(found.code, found.error < 1e-8)
    0 True
    >>> print(rbd.forward_kinematics(model, found.q).position[model.body_index("tool")])
    [0.5 0.2 0.4]
    """
    owner = "inverse_kinematics"
    aims, guess, key, exactly = _checked(
        owner, model, targets, q, constraints, secondary, bounds, hold, key, tolerance, time
    )
    starts = whole_number(owner, "starts", starts)
    at_once = _at_once(starts) if at_once is None else whole_number(owner, "at_once", at_once)
    max_steps = whole_number(owner, "max_steps", max_steps)
    return _solved(aims, guess, key, exactly, starts, min(at_once, starts), max_steps)


def _at_once(starts: int) -> int:
    return 1 if is_cpu() else starts


def _checked(
    owner, model, targets, q: Any, constraints, secondary, bounds, hold, key, tolerance: Any, time
) -> tuple[Aims, Array, PRNGKeyArray, Array]:
    a_model(owner, model)
    targets = _costs(owner, "targets", targets)
    if not targets:
        raise ValueError(f"{owner}: targets is empty; it takes residuals: [control.Pose('tool', target)]")
    secondary = _costs(owner, "secondary", secondary)
    constraints = (constraints,) if isinstance(constraints, Constraint) else tuple(constraints)
    for one in constraints:
        instance(owner, "constraints", one, Constraint, "control.Constraints")
    constraints = (*constraints, *own_constraints(model))
    given = None if q is None else configuration(owner, model, "q", q)
    dtype = model.dtype if given is None else np.promote_types(given.dtype, model.dtype)
    start: Any = (
        given if given is not None else neutral(model) if isinstance(model, Model) else jnp.zeros(model.nq)
    )
    lower, upper = limits_of(owner, model, bounds, dtype)
    if given is None:
        limited = jnp.isfinite(lower) & jnp.isfinite(upper)
        start = jnp.where(
            limited, 0.5 * (jnp.where(limited, lower, 0) + jnp.where(limited, upper, 0)), start.astype(dtype)
        )
    hold = () if not len(hold) else names(owner, "hold", hold)
    time = number(owner, "time", time, dtype=dtype)
    aims = Aims(model, targets, constraints, secondary, lower, upper, time, hold)
    aims = with_precision(aims, dtype)
    aims.system.dof(hold)
    if tolerance is None:
        tolerance = 1e-8 if dtype == np.float64 else 1e-5
    tolerance = number(owner, "tolerance", tolerance, dtype=dtype, above=0)
    key = jax.random.key(0) if key is None else key
    return aims, start.astype(dtype), key, tolerance


def _costs(owner: str, name: str, given) -> tuple[Cost, ...]:
    given = (given,) if isinstance(given, Cost | Residual) else given
    if not isinstance(given, tuple | list):
        raise TypeError(
            f"{owner}: {name} is {given!r}; it takes a list of residuals, or of weights times residuals"
        )
    return tuple(
        one if isinstance(one, Cost) else Cost(residual_of(f"{owner}: {name}[{i}]", one))
        for i, one in enumerate(given)
    )


class _Outcome(NamedTuple):
    """The result of the search and the refinement."""

    q: Float[Array, "nq"]
    code: Int[Array, ""]
    reached: Bool[Array, ""]
    stationarity: Float[Array, ""]
    iterations: Int[Array, ""]
    start: Int[Array, ""]


@compiled
def _solved(
    aims: Aims,
    q: Float[Array, "nq"],
    key: PRNGKeyArray,
    tolerance: Float[Array, ""],
    starts: int,
    at_once: int,
    max_steps: int,
) -> InverseKinematics:
    """Computes the result from checked arguments."""
    rows, still = aims.rows(), jnp.zeros(aims.model.nv, q.dtype)
    # Closed-over values become arguments, so that the result can be differentiated with respect to them.
    known, constants = jax.closure_convert(lambda q, step: aims.at(q, step), q, still)
    impl = jax.random.key_impl(key)
    bare = replace(aims, targets=(), constraints=(), secondary=())
    beginning = lax.stop_gradient((bare, q, jax.random.key_data(key), tolerance))

    @custom_jvp
    def found(constants, beginning):
        bare, q, data, tolerance = beginning
        at = lambda q, step: known(q, step, *constants)
        draw = lambda start: drawn(bare, q, jax.random.wrap_key_data(data, impl=impl), start)
        search = Search(at, rows, tolerance, draw, starts, max_steps)
        return _found(search, jnp.zeros_like(still), at_once)

    def implicit(primals, tangents):
        constants, (_, _, _, tolerance) = primals
        end = found(*primals)
        changes = jax.tree.map(zero_from_primal, end)
        moving = moving_arguments(constants, tangents[0])
        if moving is None:
            return end, changes
        function, values, by = moving
        look = lambda *values: known(end.q, jnp.zeros_like(still), *function(*values))
        local, by = jax.jvp(look, values, by)
        at = lambda q, step: known(q, step, *constants)
        step = Changes(at, local, by, rows, tolerance).change(end.reached)
        moved = jax.jvp(lambda step: at(end.q, step).q, (jnp.zeros_like(step),), (step,))[1]
        return end, changes._replace(q=moved)

    found.defjvp(implicit, symbolic_zeros=True)
    end = found(tuple(constants), beginning)
    local = known(end.q, still, *constants)
    off = jnp.where(local.weight > 0, jnp.abs(apart(local)), 0)
    largest = lambda part: jnp.max(off[part], initial=0)
    code = jnp.where(jnp.all(jnp.isfinite(local.r)), end.code, Code.NOT_FINITE).astype(jnp.int32)
    return InverseKinematics(
        end.q,
        code,
        largest(rows.targets),
        jnp.stack([largest(part) for part in rows.each[: len(aims.targets)]]),
        largest(rows.constraints),
        end.stationarity,
        end.iterations,
        end.start,
    )


def _found(search: Search, still: Float[Array, "nv"], at_once: int) -> _Outcome:
    """Runs the search, and refines its result if targets are out of reach or secondary costs are given."""
    at, rows, tolerance = search.at, search.rows, search.tolerance
    first = search.run(still, at_once)
    reached, local = first.reached, at(first.q, still)
    whose = lambda part: jnp.zeros(len(local.r), bool).at[part].set(True)
    targets, constraints = whose(rows.targets) & (local.weight > 0), whose(rows.constraints)

    def settle() -> Settled:
        task = Task(weights(local, rows, reached), constraints | (targets & reached))
        return settled(at, first.q, still, task, tolerance)

    def there() -> Settled:
        yes, none = jnp.asarray(True), jnp.zeros_like(tolerance)
        return Settled(first.q, none, yes, none, jnp.int32(0))

    if rows.secondary.stop > rows.secondary.start:
        end = settle()
        # Keep the result of the search if the refinement violates its targets.
        kept = ~reached | (end.broken <= tolerance)
        end = end._replace(q=jnp.where(kept, end.q, first.q), stationary=end.stationary & kept)
    else:
        end = lax.cond(reached, there, settle)
    done, iterations = end.stationary, first.iterations + end.iterations
    code = jnp.where(done, jnp.where(reached, Code.CONVERGED, Code.INFEASIBLE), Code.NOT_CONVERGED)
    return _Outcome(end.q, code.astype(jnp.int32), reached, end.stationarity, iterations, first.start)


def drawn(bare: Aims, q: Float[Array, "nq"], key: PRNGKeyArray, start: Int[Array, ""]) -> Float[Array, "nq"]:
    """Returns a start: the given configuration for index 0, else a random one. Held joints keep their given values."""
    model, lower, upper = bare.model, bare.lower, bare.upper
    key, own = jax.random.split(jax.random.fold_in(key, start))
    if isinstance(model, Model):
        other = random_configuration(model, key).astype(q.dtype)
    else:
        other = jax.random.uniform(key, q.shape, q.dtype, -jnp.pi, jnp.pi)
    limited = jnp.isfinite(lower) & jnp.isfinite(upper)
    within = lower + jax.random.uniform(own, q.shape, q.dtype) * jnp.where(limited, upper - lower, 0)
    other = jnp.where(limited, within, other)
    if bare.hold and isinstance(model, Model):
        kept = np.zeros(model.nq, bool)
        for joint in bare.hold:
            kept[model.q_slice(joint)] = True
        other = jnp.where(kept, q, other)
    return jnp.clip(jnp.where(start == 0, q, other), lower, upper)
