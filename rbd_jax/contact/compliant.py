"""Contact by surfaces that give way: a force between two shapes (book §11.8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import choice, names, number
from .._core.array import matvec, vecmat, with_precision
from .._core.errors import ModelError, suggest
from ..dynamics import Motion
from ..dynamics.sites import fixed_frames
from ..forces import Force
from ..forces.own_state import relaxed
from ..model import Model
from ..shapes.shape import Shape
from ..spatial import Reference, no_frames
from .contacts import Contacts, contact_jacobian, contact_wrenches
from .geometry.pairs import contact_points


#: So many contacts two shapes have at most.
POINTS = 4


class Compliant(Force):
    """What two shapes do to each other where they overlap: a force by how deep, how fast, and how they slide. See `add_forces`.

    Along the normal it is `k δⁿ + d δⁿ δ̇` (`law="hunt-crossley"`), or `k δ + d δ̇` (`"linear"`; eqs. 11.74, 11.75
    with z = p), of the overlap δ, as long as that pushes: a surface that is left is at once what it was. Under
    `law="viscoelastic"` it comes back by and by: it is pressed in by z, a state of its own, `f = s max(δ - z, 0)` and
    `ż = (f - k z) / d` (eqs. 11.73, 11.76), z falling as `exp(-k t / d)` when it is left. The spring s is what presses it, in
    series with the surface; the stiffer, the nearer is that to (11.74). Across the normal it is Coulomb's friction as one of two:

    - `"regularized"`: `-μ f v / √(v² + s²)`, with the speed s of `slip_speed`. What should stick creeps.
    - `"bristle"` (eqs. 11.77 to 11.79): `-K x - D ẋ` up to `μ f`, the bending x of bristles being a state of its own. It sticks.

    It acts in every scheme. Stiff contacts need a scheme that takes all forces implicitly, `LinearlyImplicitEuler` or `BDF2`:
    those are stable at any step. The default scheme takes x and z implicitly, so they may decay as fast as they like, and the
    force at the start of the step: it needs steps that are short beside `√(m / k)` and `√(m / K)`. Explicit schemes also
    need steps that are short beside `D / K` and `d / (k + s)`.

    - `first`, `second`: the names of the shapes. They need not touch otherwise.
    - `stiffness` k, `damping` d, `exponent` n: of the normal force, in N/mⁿ and N s/mⁿ⁺¹ (or N s/m).
    - `friction`: μ.
    - `slip_speed`: s.
    - `bristle_stiffness`, `bristle_damping`: K and D, in N/m and N s/m.
    - `bending`: where x starts, at each of four contacts along both tangents.
    - `series_stiffness`, `pressed`: of a viscoelastic surface, s in N/m, and where z starts at each of four contacts. It takes a
      `damping`, and its exponent is 1.

    >>> builder = rbd.ModelBuilder()
    >>> body = builder.add_body("ball", joint=rbd.joints.Prismatic(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> shapes = rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1)), rbd.Shape("floor", "world", rbd.shapes.Plane())
    >>> touch = rbd.contact.Compliant("floor", "ball", stiffness=1e4, exponent=1.0)
    >>> model = rbd.attach(builder.build(), *shapes)
    >>> print(touch(model, jnp.array([0.099]), jnp.zeros(1)))  # 1 mm deep
    [10.]
    """

    first: str = eqx.field(static=True)
    second: str = eqx.field(static=True)
    law: Literal["hunt-crossley", "linear", "viscoelastic"] = eqx.field(static=True)
    sliding: Literal["regularized", "bristle"] = eqx.field(static=True)
    normal_stiffness: Float[Array, ""]
    normal_damping: Float[Array, ""]
    exponent: Float[Array, ""]
    friction: Float[Array, ""]
    slip_speed: Float[Array, ""]
    bristle_stiffness: Float[Array, ""]
    bristle_damping: Float[Array, ""]
    bending: Float[Array, "4 2"]
    series_stiffness: Float[Array, ""] | None
    pressed: Float[Array, "4"]

    def __init__(
        self,
        first: str,
        second: str,
        stiffness: Any,
        damping: Any = 0.0,
        friction: Any = 0.0,
        *,
        law: Literal["hunt-crossley", "linear", "viscoelastic"] = "hunt-crossley",
        exponent: Any = 1.5,
        sliding: Literal["regularized", "bristle"] = "regularized",
        slip_speed: Any = 1e-3,
        bristle_stiffness: Any = 1e4,
        bristle_damping: Any = 1e2,
        bending: Any = 0.0,
        series_stiffness: Any = None,
        pressed: Any = 0.0,
    ):
        (self.first,), (self.second,) = (
            names("Compliant", "first", first, 1),
            names("Compliant", "second", second, 1),
        )
        owner = f"Compliant of {first!r} and {second!r}"
        if first == second:
            raise ModelError(f"{owner}: it takes two shapes")
        self.law = choice(owner, "law", law, ("hunt-crossley", "linear", "viscoelastic"))  # pyright: ignore[reportAttributeAccessIssue]
        self.sliding = choice(owner, "sliding", sliding, ("regularized", "bristle"))  # pyright: ignore[reportAttributeAccessIssue]
        self.normal_stiffness = number(owner, "stiffness", stiffness, least=0)
        viscoelastic = law == "viscoelastic"
        if viscoelastic != (series_stiffness is not None):
            raise ModelError(
                f"{owner}: law={law!r} {'takes a' if viscoelastic else 'knows no'} series_stiffness, by which a viscoelastic "
                "surface is pressed"
            )
        self.normal_damping = number(
            owner, "damping", damping, least=None if viscoelastic else 0, above=0 if viscoelastic else None
        )
        self.series_stiffness = (
            number(owner, "series_stiffness", series_stiffness, above=0) if viscoelastic else None
        )
        self.exponent = number(owner, "exponent", exponent, least=1)
        self.friction = number(owner, "friction", friction, least=0)
        self.slip_speed = number(owner, "slip_speed", slip_speed, above=0)
        self.bristle_stiffness = number(owner, "bristle_stiffness", bristle_stiffness, above=0)
        self.bristle_damping = number(owner, "bristle_damping", bristle_damping, above=0)
        shape = () if np.shape(bending) == () else (POINTS, 2)
        self.bending = jnp.broadcast_to(number(owner, "bending", bending, shape), (POINTS, 2))
        shape = () if np.shape(pressed) == () else (POINTS,)
        self.pressed = jnp.broadcast_to(number(owner, "pressed", pressed, shape, least=0), (POINTS,))

    # What it is attached to.

    @property
    def label(self):
        return f"Compliant({self.first!r}, {self.second!r})"

    @property
    def frames(self):
        return no_frames()

    @property
    def refers(self):
        return Reference("shape", self.first), Reference("shape", self.second)

    def called(self, name, refers):
        return self.changed(first=refers[0].name, second=refers[1].name)

    # The states of the bristles, and of the surface.

    @property
    def own(self):
        bending = self.bending.reshape(-1) if self.sliding == "bristle" else jnp.zeros(0)
        pressed = jnp.zeros(0) if self.series_stiffness is None else self.pressed
        return jnp.concatenate([bending, pressed])

    def holding(self, own):
        changed, bent = {}, 2 * POINTS if self.sliding == "bristle" else 0
        if bent:
            changed["bending"] = own[:bent].reshape(POINTS, 2)
        if self.series_stiffness is not None:
            changed["pressed"] = own[bent:]
        return self.changed(**changed)

    #: The force of a step is that of the states at its start, as of all forces between bodies.
    coupled = False

    def own_rate(self, motion):
        found, normal, slip = self._touching(motion)
        rates = [jnp.zeros(0, motion.q.dtype)]
        if self.sliding == "bristle":
            # (eq. 11.77): of what does not slip, that is how the surfaces move.
            bent = self.bending[: len(slip)]
            across = self._held(self._sticking(bent, slip), normal)
            rates.append(
                _at_all(-(self.bristle_stiffness * bent + across) / self.bristle_damping).reshape(-1)
            )
        if self.series_stiffness is not None:
            rates.append(self._pressing(found)(self.pressed))
        return jnp.concatenate(rates)

    def own_after(self, motion, v, step):
        if not self.own.size:
            return self.own
        found, normal, slip = self._touching(motion.with_velocity(v))
        states = [jnp.zeros(0, motion.q.dtype)]
        if self.sliding == "bristle":
            # The implicit Euler method on (11.77) has a closed form: the friction points where it would point without slip.
            bent = self.bending[: len(slip)]
            stiffness, damping = self.bristle_stiffness, self.bristle_damping
            across = self._held(self._sticking(bent + step * slip, slip), normal)
            states.append(
                _at_all((damping * bent - step * across) / (damping + step * stiffness)).reshape(-1)
            )
        if self.series_stiffness is not None:
            states.append(relaxed(self._pressing(found), self.pressed, step))
        return jnp.concatenate(states)

    def _pressing(self, found: Contacts):
        """The rate as a function of how far the surface is pressed in."""
        depth, stiffness = _at_all(_overlap(found)), self.series_stiffness
        assert stiffness is not None

        def rate(pressed):
            normal = stiffness * jnp.maximum(depth - pressed, 0)
            return (normal - self.normal_stiffness * pressed) / self.normal_damping

        return rate

    # What it does.

    def contacts(self, motion: Motion) -> Contacts:
        """Where the shapes touch, with what the first does there to the second."""
        found, pushes = self._acting(motion)
        padded = jnp.pad(pushes, ((0, 0), (0, 3)))
        return replace(found, force=padded)

    def generalized_force(self, motion):
        found, pushes = self._acting(motion)
        rows = contact_jacobian(motion, found, 3)
        return vecmat(pushes.reshape(-1), rows.reshape(-1, motion.v.size))

    def body_wrenches_in(self, motion):
        found, pushes = self._acting(motion)
        return contact_wrenches(motion, found, jnp.pad(pushes, ((0, 0), (0, 3))))

    def stored_energy(self, motion):
        found = self._found(motion)
        if self.series_stiffness is not None:
            energy = 0.5 * self.series_stiffness * jnp.sum(self._beyond(_overlap(found)) ** 2)
            energy = energy + 0.5 * self.normal_stiffness * jnp.sum(self.pressed**2)
        else:
            n = self._power
            energy = self.normal_stiffness / (n + 1) * jnp.sum(_power(_overlap(found), n + 1))
        if self.sliding == "bristle":
            energy = energy + 0.5 * self.bristle_stiffness * jnp.sum(self.bending**2)
        return energy

    @property
    def _power(self):
        return self.exponent if self.law == "hunt-crossley" else jnp.ones_like(self.exponent)

    def _beyond(self, depth: Float[Array, "n"]) -> Float[Array, "n"]:
        """By how much more the shapes overlap than the surface is pressed in."""
        return _positive(depth - self.pressed[: len(depth)])

    def _acting(self, motion: Motion) -> tuple[Contacts, Float[Array, "n 3"]]:
        """Where the shapes touch, and the force on the second, in the frames there."""
        found, normal, slip = self._touching(motion)
        if self.sliding == "regularized":
            size = jnp.sqrt(jnp.sum(slip**2, axis=1, keepdims=True) + self.slip_speed**2)
            across = -(self.friction * normal)[:, None] * slip / size
        else:
            across = self._held(self._sticking(self.bending[: len(slip)], slip), normal)
        return found, jnp.concatenate([normal[:, None], across], axis=1)

    def _touching(self, motion: Motion) -> tuple[Contacts, Float[Array, "n"], Float[Array, "n 2"]]:
        """Where the shapes touch, the normal forces, and the velocities across the normals."""
        found = self._found(motion)
        rows = contact_jacobian(motion, found, 3)
        speeds = matvec(rows, jnp.broadcast_to(motion.v, (len(rows), *motion.v.shape)))
        depth = _overlap(found)
        if self.series_stiffness is not None:
            normal = self.series_stiffness * self._beyond(depth)
        else:
            by_depth = _power(depth, self._power)
            damped = by_depth if self.law == "hunt-crossley" else (depth > 0).astype(depth.dtype)
            normal = jnp.maximum(
                self.normal_stiffness * by_depth - self.normal_damping * damped * speeds[:, 0], 0
            )
        return found, normal, speeds[:, 1:]

    def _sticking(self, bent: Float[Array, "n 2"], slip: Float[Array, "n 2"]) -> Float[Array, "n 2"]:
        """The forces of bristles that move with both surfaces."""
        return -self.bristle_stiffness * bent - self.bristle_damping * slip

    def _held(self, stick: Float[Array, "n 2"], normal: Float[Array, "n"]) -> Float[Array, "n 2"]:
        """Such forces, up to the friction that the normal ones allow."""
        most = (self.friction * normal)[:, None]
        square = jnp.sum(stick**2, axis=1, keepdims=True)
        slips = square > most**2
        length = jnp.sqrt(jnp.where(slips, square, 1))
        return jnp.where(slips, most * stick / length, stick)

    def _found(self, motion: Motion) -> Contacts:
        known = motion.known(self._key)
        return _between(motion, self.first, self.second) if known is None else known

    def placed(self, motion):
        return motion.computed("frames").knowing(
            self._key, lambda motion: _between(motion, self.first, self.second)
        )

    @property
    def _key(self) -> str:
        return f"contacts of {self.first!r} and {self.second!r}"


def _between(motion: Motion, first: str, second: str) -> Contacts:
    """Where two shapes touch."""
    ends = [_shape(motion.model, name) for name in (first, second)]
    placed = fixed_frames(motion, ends)
    geometries = with_precision(tuple(end.geometry for end in ends), motion.q.dtype)
    frames = [jax.tree.map(lambda x, k=k: x[k], placed.frames) for k in (0, 1)]
    points = contact_points(geometries[0], frames[0], geometries[1], frames[1])
    n, dtype = len(points.distance), motion.q.dtype
    if n > POINTS:
        raise ModelError(f"Compliant: {first!r} and {second!r} have {n} contacts; up to {POINTS} are known")
    zeros = lambda *shape: jnp.zeros((n, *shape), dtype)
    return Contacts(
        points.distance,
        points.position + placed.origin[None],
        points.frame,
        zeros(),
        zeros(5),
        zeros(2),
        zeros(5),
        jnp.asarray(np.zeros(n, int)),
        ((first, second),),
        (3,) * n,
    )


def _shape(model: Model, name: str) -> Shape:
    shapes: tuple[Shape, ...] = model.shapes  # pyright: ignore[reportAssignmentType]
    for shape in shapes:
        if shape.name == name:
            return shape
    known = [shape.name for shape in shapes]
    raise ModelError(f"Compliant: model {model.name!r} has no shape {name!r}{suggest(name, known)}")


def _at_all(x: Float[Array, "n *k"]) -> Float[Array, "4 *k"]:
    """With zeros for the contacts that the two shapes do not have."""
    return jnp.pad(x, ((0, POINTS - len(x)), *((0, 0),) * (x.ndim - 1)))


def _overlap(found: Contacts) -> Float[Array, "n"]:
    return _positive(jnp.where(jnp.isfinite(found.distance), -found.distance, 0))


def _positive(x):
    """`x` where it is above zero. At zero, where shapes only touch, derivatives are those of shapes that are apart."""
    return jnp.where(x > 0, x, 0)


def _power(x, n):
    """`xⁿ` for x ≥ 0 and n ≥ 1, with derivatives at zero."""
    some = x > 0
    return jnp.where(some, jnp.where(some, x, 1) ** n, 0)
