"""Rigid contact in steps (Sueda eqs. 1.76 to 1.80; with friction, eq. 1.88)."""

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


#: A guess is taken so much of the way towards how the model would move without contact. What pushed in the step before then does
#: so where the search begins; at the guess itself rounding says on which side of a surface it is that hardly gives way.
PRESSED = 3e-3


class Rigid(ConvexLaw):
    """Contact that does not give way, with Coulomb's friction: one convex problem a step (Anitescu and Hart, 2004).

    What touches does not approach by the end of a step; what would touch within it comes as far as the surface. Stops and dry
    friction of joints and tendons are held alike. It is a law of velocities, for schemes that make a step of one acceleration
    (`SemiImplicitEuler`); the others, and `rbd.acceleration`, take what it would do in a step of `timestep`.

    - `cone`: of friction, `"elliptic"` or `"pyramidal"`.
    - `restitution`: e: what is hit parts e times as fast as it came, as far as there is no more energy afterwards than without
      contact. By default it does not.
    - `stabilization`: the share of an overlap that goes in a step.
    - `smoothing`: how much less stiff than rigid it is, as a share of what the bodies give way by themselves. Forces are smooth
      functions of the state by that. By default the root of the precision.
    - `limits`, `friction`: whether the law takes the stops of joints and tendons, and their dry friction.
    - `most`, `pairs`: bounds on contacts that act and on pairs that are looked at, as of `Soft`.

    What slides hovers by the step times the coefficient of friction times its speed, the price of a convex problem. The numbers
    `solref` and `solimp` of shapes and joints do not matter here.

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
            """Returns what is hit. What would not be reached within the step is not: it is asked for less than to stop."""
            return push.there & (push.velocity[:, 0] < 0) & (push.wanted > 0) & (e > 0)

        def parting(push: Pushes) -> Pushes:
            back = -(1 + e) * push.velocity[:, 0] / hold.step
            return push._replace(wanted=jnp.where(hits(push), jnp.maximum(push.wanted, back), push.wanted))

        hit = jnp.any(
            jnp.array([jnp.any(one.each(lambda push: jnp.any(hits(push)))) for one in posed.touching])
        )
        parted = solve_soft(posed.problem(parting), stopped.acceleration)
        # Where nothing is hit both are one, and what they differ by is rounding, of which nothing should be asked.
        parted = jax.tree.map(lambda a, b: jnp.where(hit, b, a), stopped, parted)
        # Where several contacts and friction play together, such a law may make energy.
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
