"""Time-stepping rigid contact (Sueda eqs. 1.76 to 1.80; with friction, eq. 1.88)."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import choice, number, whole_number
from .._core.array import matvec, times
from .._core.positive import solve_positive
from ..dynamics.floating import turning_rates
from ..dynamics.mass_matrix import composite_rigid_body
from ._energy import as_energy_allows
from .convex import ConvexLaw
from .soft_rows import Pushes, WithinStep
from .solvers.soft import Solution, solve_soft


#: Fraction by which the initial guess is moved towards the motion without contact. Contacts that acted in the previous step
#: then also act at the start of the search. At the guess itself, rounding would decide whether a nearly rigid contact acts.
PRESSED = 3e-3


class Rigid(ConvexLaw):
    """Rigid contact with Coulomb friction, as one convex problem per step (Anitescu and Hart, 2004).

    Closed contacts have no approach velocity at the end of the step. A contact that would close within the step ends at the
    surface. The limits and the dry friction of joints and tendons are treated alike. The model acts on velocities, so it suits
    schemes that use one acceleration per step (`SemiImplicitEuler`). Other schemes, and `rbd.acceleration`, use the forces of a
    step of length `timestep`.

    - `cone`: the friction cone, `"elliptic"` or `"pyramidal"`.
    - `restitution`: the coefficient of restitution e: after an impact the separation speed is e times the approach speed. It is
      reduced if the energy would exceed that of the motion without contact. By default there is no restitution.
    - `stabilization`: the fraction of an overlap that one step removes.
    - `smoothing`: compliance of the contacts relative to the compliance of the bodies. It makes forces smooth functions of the
      state. The default is the square root of the machine precision.
    - `timestep`: step length for schemes that do not use one acceleration per step, and outside of steps, in s.
    - `limits`, `friction`: if True, the contact model covers the limits, or the dry friction, of joints and tendons.
    - `most`, `pairs`: bounds on the numbers of active contacts and of tested pairs, as in `Soft`.

    A sliding body hovers at a height of step times friction coefficient times speed, which is an artifact of the convex
    problem. The parameters `solref` and `solimp` of shapes and joints have no effect.

    >>> builder = rbd.ModelBuilder()
    >>> ball = builder.add_body("ball", joint=rbd.joints.Prismatic(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> shapes = rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1)), rbd.Shape("floor", "world", rbd.shapes.Plane())
    >>> model = rbd.attach(builder.build(), *shapes, rbd.contact.Rigid())
    >>> print(rbd.rollout(model, rbd.State(jnp.array([0.2]), jnp.zeros(1)), dt=0.01, steps=50).q[-1])  # it lies on the floor
    [0.1]
    """

    cone: Literal["pyramidal", "elliptic"] = eqx.field(static=True)
    restitution: Float[Array, ""] | None
    stabilization: Float[Array, ""]
    smoothing: Float[Array, ""] | None
    timestep: Float[Array, ""]
    impratio: Float[Array, ""]
    limits: bool = eqx.field(static=True)
    friction: bool = eqx.field(static=True)
    most: int | None = eqx.field(static=True)
    pairs: int | None = eqx.field(static=True)

    def __init__(
        self,
        cone: Literal["pyramidal", "elliptic"] = "elliptic",
        *,
        restitution: Any = None,
        stabilization: Any = 0.2,
        smoothing: Any = None,
        timestep: Any = 0.001,
        limits: bool = True,
        friction: bool = True,
        most: int | None = None,
        pairs: int | None = None,
    ):
        self.cone = choice("Rigid", "cone", cone, ("pyramidal", "elliptic"))  # pyright: ignore[reportAttributeAccessIssue]
        self.restitution = (
            None if restitution is None else number("Rigid", "restitution", restitution, least=0, most=1)
        )
        self.stabilization = number("Rigid", "stabilization", stabilization, least=0, most=1)
        self.smoothing = None if smoothing is None else number("Rigid", "smoothing", smoothing, above=0)
        self.timestep = number("Rigid", "timestep", timestep, above=0)
        self.impratio = number("Rigid", "impratio", 1.0)
        self.limits, self.friction = bool(limits), bool(friction)
        self.most = None if most is None else whole_number("Rigid", "most", most)
        self.pairs = None if pairs is None else whole_number("Rigid", "pairs", pairs)

    def hold(self, model, dtype, step):
        smoothing = float(jnp.finfo(dtype).eps) ** 0.5 if self.smoothing is None else self.smoothing
        step = self.timestep if step is None else step
        return WithinStep(*(jnp.asarray(x, dtype) for x in (step, self.stabilization, smoothing)))

    def solved(self, posed, guess):
        motion = posed.motion
        free = solve_positive(*posed.problem()[:2])
        if guess is not None:
            guess = guess + PRESSED * (free - guess)
        stopped = super().solved(posed, guess)
        if self.restitution is None:
            return stopped
        hold: WithinStep = posed.hold  # pyright: ignore[reportAssignmentType]
        e = self.restitution.astype(motion.q.dtype)

        def hits(push: Pushes):
            """Returns which contacts have an impact. A contact that stays open within the step has none."""
            return push.there & (push.velocity[:, 0] < 0) & (push.wanted > 0) & (e > 0)

        def parting(push: Pushes) -> Pushes:
            back = -(1 + e) * push.velocity[:, 0] / hold.step
            return push._replace(wanted=jnp.where(hits(push), jnp.maximum(push.wanted, back), push.wanted))

        hit = jnp.any(
            jnp.array([jnp.any(one.each(lambda push: jnp.any(hits(push)))) for one in posed.touching])
        )
        parted = solve_soft(posed.problem(parting), stopped.acceleration)
        # Without an impact both solutions differ only by rounding, and their difference must not be used.
        parted = jax.tree.map(lambda a, b: jnp.where(hit, b, a), stopped, parted)
        # With several contacts and friction, Newton's restitution may increase the energy.
        turning, inertia = turning_rates(motion), composite_rigid_body(motion)

        def after(acceleration):
            at = posed.within
            a = acceleration if at is None else matvec(at.jacobian, acceleration) + at.bias
            return motion.v + hold.step * (a + turning)

        share = as_energy_allows(
            lambda u: times(inertia, u),
            after(free),
            after(stopped.acceleration),
            after(parted.acceleration),
        )
        acceleration, forces = jax.tree.map(lambda a, b: a + share * (b - a), stopped[:2], parted[:2])
        steps, converged = stopped.steps + parted.steps, stopped.converged & parted.converged
        return Solution(acceleration, forces, steps, converged)
