"""Constraints and bounds of a motion: residuals within bounds, and bounds on controls, configurations and velocities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import floating, gather, is_known
from ..forces.actuators.drive import actuators_of
from ..model import Model
from ..simulate.controls import Actuation
from .driven import driven_dof
from .residual import Residual, residual_of


#: Knots of a constraint: "path", every knot where a step begins; "end", the last knot; "all"; or indices of knots, -1 for
#: the last.
Where: TypeAlias = Literal["path", "end", "all"] | Sequence[int]


class Constraint(eqx.Module):
    """A residual r that must be zero, or between `lower` and `upper`.

    - `residual`, or a function `(t, state, control) -> numbers`.
    - `lower`, `upper`: a number or one for each entry of r, which may be infinite. An omitted side has no bound. Without
      both, r must be zero: an equality.
    - `at`: "path" (every knot except the last), "end" (the last knot, which has no control), "all", or indices of knots.

    >>> goal = rbd.control.Constraint(rbd.control.Position("tool", jnp.array([0.4, 0.0, 0.5])), at="end")
    >>> above = rbd.control.Constraint(lambda t, state, control: state.q[2], lower=0.1)
    """

    residual: Residual
    lower: Float[Array, "*k"] | None
    upper: Float[Array, "*k"] | None
    at: Literal["path", "end", "all"] | tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        residual: Residual | Callable[..., Any],
        lower: Any = None,
        upper: Any = None,
        at: Where = "path",
    ):
        owner = "control.Constraint"
        self.residual = residual_of(f"{owner}: residual", residual)
        self.lower, self.upper = (None if side is None else floating(side) for side in (lower, upper))
        _refuse_crossed(owner, "lower", self.lower, "upper", self.upper)
        if isinstance(at, str):
            if at not in ("path", "end", "all"):
                raise ValueError(
                    f"{owner}: at is {at!r}; it must be 'path', 'end', 'all', or indices of knots: [50, -1]"
                )
            self.at = at  # pyright: ignore[reportAttributeAccessIssue]
        else:
            self.at = tuple(int(knot) for knot in at)

    @property
    def equality(self) -> bool:
        """True if r must be zero."""
        return self.lower is None and self.upper is None

    def sides(self, size: int, dtype) -> tuple[Float[Array, "size"], Float[Array, "size"]]:
        """Returns the bounds of each entry of r: zeros for an equality, infinite for an open side."""
        lower, upper = (0.0, 0.0) if self.equality else (-np.inf, np.inf)
        return _side(self.lower, lower, size, dtype), _side(self.upper, upper, size, dtype)

    def knots(self, steps: int) -> np.ndarray:
        """Returns a mask of the steps + 1 knots at which the constraint holds."""
        held = np.zeros(steps + 1, bool)
        if isinstance(self.at, str):
            held[:-1], held[-1] = self.at in ("path", "all"), self.at in ("end", "all")
            return held
        for knot in self.at:
            if not -steps - 1 <= knot <= steps:
                raise ValueError(
                    f"control.Constraint: at names knot {knot}, and the problem has knots 0 to {steps}"
                )
            held[knot] = True
        return held


def _side(given: Array | None, missing: float, size: int, dtype) -> Float[Array, "size"]:
    if given is None:
        return jnp.full(size, missing, dtype)
    if given.ndim > 1 or (given.ndim and given.shape != (size,)):
        raise ValueError(
            f"control.Constraint: a bound has shape {given.shape}; it must be one number, or one for each of the residual's "
            f"{size}"
        )
    return jnp.broadcast_to(given, (size,)).astype(dtype)


class Bounds(eqx.Module):
    """Bounds on the control and the state of every knot. Omitted quantities have no bounds.

    - `control`: a pair `(lower, upper)` for the decision variables (see `Problem`): numbers, or one for each control.
    - `q`: a pair for the configuration, one number for each entry of q. For joints whose configuration is not a vector
      (balls, free bodies) they must be infinite.
    - `v`: a pair for the velocity.

    >>> bounds = rbd.control.Bounds(control=(-20.0, 20.0), q=(jnp.array([-1.0, -jnp.inf]), jnp.array([1.0, jnp.inf])))
    """

    control: tuple[Array, Array] | None
    q: tuple[Array, Array] | None
    v: tuple[Array, Array] | None

    def __init__(self, control: Any = None, q: Any = None, v: Any = None):
        self.control, self.q, self.v = (
            _pair(name, pair) for name, pair in (("control", control), ("q", q), ("v", v))
        )

    @staticmethod
    def of(
        model: Model,
        actuation: Actuation | None = None,
        *,
        control: bool = True,
        q: bool = True,
        v: bool = True,
    ) -> Bounds:
        """Returns the limits of a model: of its joints' positions and velocities, and of the controls of a `Problem`.

        The controls are the ranges of the actuators. Without actuators, or with `actuation`, they are the efforts of the
        joints.

        Args:
          model: The model.
          actuation: The driven joints, as for `Problem`.
          control, q, v: Which limits to include.

        >>> print(rbd.control.Bounds.of(rbd.load("arm7")).control[1])
        [120. 120.  90.  90.  20.  20.  20.]
        """
        given = None
        if control and model.nu and actuation is None:
            open_ends = np.array([-np.inf, np.inf])
            ranges = [one.control_range for one in actuators_of(model)]
            pairs = jnp.stack([jnp.asarray(open_ends if one is None else one, model.dtype) for one in ranges])
            given = pairs[:, 0], pairs[:, 1]
        elif control:
            most = gather(model.effort_limit, driven_dof(model, actuation))
            given = -most, most
        return Bounds(
            control=given,
            q=(model.lower, model.upper) if q else None,
            v=(-model.velocity_limit, model.velocity_limit) if v else None,
        )


def _pair(name: str, pair: Any) -> tuple[Array, Array] | None:
    if pair is None:
        return None
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"control.Bounds: {name} is {pair!r}; it takes a pair (lower, upper)")
    lower, upper = floating(pair[0]), floating(pair[1])
    _refuse_crossed(f"control.Bounds: {name}", "lower", lower, "upper", upper)
    return lower, upper


def _refuse_crossed(owner: str, low: str, lower: Array | None, high: str, upper: Array | None) -> None:
    """Raises a ValueError if bounds cross, or contain NaN."""
    for name, side in ((low, lower), (high, upper)):
        if side is not None and is_known(side) and np.isnan(np.asarray(side)).any():
            raise ValueError(f"{owner}: {name} is {side}; use infinity for an open bound, not NaN")
    if lower is None or upper is None or not is_known((lower, upper)):
        return
    crossed = np.broadcast_arrays(np.asarray(lower), np.asarray(upper))
    if (crossed[0] > crossed[1]).any():
        where = np.argwhere(crossed[0] > crossed[1])[0]
        which = f"[{', '.join(map(str, where))}]" if len(where) else ""
        raise ValueError(
            f"{owner}: {low}{which} is {crossed[0][tuple(where)]:g} and {high}{which} is {crossed[1][tuple(where)]:g}: the "
            "bounds cross"
        )
