"""Compliant contact: a force between two shapes (book §11.8)."""

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


#: Maximum number of contacts of two shapes.
POINTS = 4


class Compliant(Force):
    """A contact force between two shapes that depends on their overlap, its rate, and the sliding velocity. See `add_forces`.

    For an overlap δ the normal force is `k δⁿ + d δⁿ δ̇` (`law="hunt-crossley"`) or `k δ + d δ̇` (`"linear"`; eqs. 11.74, 11.75
    with z = p), and zero if this is negative. Under these two laws an unloaded surface recovers at once. Under
    `law="viscoelastic"` it recovers gradually: the indentation z is an internal state, with `f = s max(δ - z, 0)` and
    `ż = (f - k z) / d` (eqs. 11.73, 11.76). Without load z decays as `exp(-k t / d)`. The spring s acts in series with the
    surface; the stiffer it is, the closer the force is to (11.74). The tangential force is Coulomb friction in one of two forms:

    - `"regularized"`: `-μ f v / √(v² + s²)`, with the speed s of `slip_speed`. Contacts that should stick creep.
    - `"bristle"` (eqs. 11.77 to 11.79): `-K x - D ẋ`, limited to `μ f`. The bristle deflection x is an internal state. Contacts
      stick without creep.

    The force acts in every scheme. Stiff contacts need a scheme that treats all forces implicitly, `LinearlyImplicitEuler` or
    `BDF2`; both are stable at any step. The default scheme treats x and z implicitly, so they may decay arbitrarily fast. It
    evaluates the force at the start of the step, which requires steps much shorter than `√(m / k)` and `√(m / K)`. Explicit
    schemes also need steps much shorter than `D / K` and `d / (k + s)`.

    - `first`, `second`: the names of the shapes. They need not be candidates for other contact models.
    - `stiffness`, `damping`, `exponent`: k, d and n of the normal force, in N/mⁿ and N s/mⁿ⁺¹ (or N s/m).
    - `friction`: the friction coefficient μ.
    - `slip_speed`: the regularization speed s, in m/s.
    - `bristle_stiffness`, `bristle_damping`: K and D, in N/m and N s/m.
    - `bending`: the initial value of x, at each of four contacts along both tangents.
    - `series_stiffness`: s of a viscoelastic surface, in N/m. Such a surface needs a positive `damping`, and n is 1.
    - `pressed`: the initial value of z of a viscoelastic surface, at each of four contacts.

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
            raise ModelError(f"{owner}: first and second must be different shapes")
        self.law = choice(owner, "law", law, ("hunt-crossley", "linear", "viscoelastic"))  # pyright: ignore[reportAttributeAccessIssue]
        self.sliding = choice(owner, "sliding", sliding, ("regularized", "bristle"))  # pyright: ignore[reportAttributeAccessIssue]
        self.normal_stiffness = number(owner, "stiffness", stiffness, least=0)
        viscoelastic = law == "viscoelastic"
        if viscoelastic != (series_stiffness is not None):
            raise ModelError(
                f"{owner}: law={law!r} {'requires' if viscoelastic else 'does not support'} series_stiffness, the spring in "
                "series with a viscoelastic surface"
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

    # Attachment.

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

    # Internal states: bristle deflections and surface indentations.

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

    #: A step uses the force of the states at its start, as for all forces between bodies.
    coupled = False

    def own_rate(self, motion):
        found, normal, slip = self._touching(motion)
        rates = [jnp.zeros(0, motion.q.dtype)]
        if self.sliding == "bristle":
            # (eq. 11.77): without slip the bristles follow the surfaces.
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
            # The implicit Euler step of (11.77) has a closed form: friction has the same direction as without slip.
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
        """Returns the rate of the indentation as a function of the indentation."""
        depth, stiffness = _at_all(_overlap(found)), self.series_stiffness
        assert stiffness is not None

        def rate(pressed):
            normal = stiffness * jnp.maximum(depth - pressed, 0)
            return (normal - self.normal_stiffness * pressed) / self.normal_damping

        return rate

    # Forces and energy.

    def contacts(self, motion: Motion) -> Contacts:
        """Returns the contact points, with the force of the first shape on the second."""
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
        """Returns the overlap beyond the indentation of the surface."""
        return _positive(depth - self.pressed[: len(depth)])

    def _acting(self, motion: Motion) -> tuple[Contacts, Float[Array, "n 3"]]:
        """Returns the contact points and the forces on the second shape, in the contact frames."""
        found, normal, slip = self._touching(motion)
        if self.sliding == "regularized":
            size = jnp.sqrt(jnp.sum(slip**2, axis=1, keepdims=True) + self.slip_speed**2)
            across = -(self.friction * normal)[:, None] * slip / size
        else:
            across = self._held(self._sticking(self.bending[: len(slip)], slip), normal)
        return found, jnp.concatenate([normal[:, None], across], axis=1)

    def _touching(self, motion: Motion) -> tuple[Contacts, Float[Array, "n"], Float[Array, "n 2"]]:
        """Returns the contact points, the normal forces, and the tangential velocities."""
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
        """Returns the forces of bristles without slip."""
        return -self.bristle_stiffness * bent - self.bristle_damping * slip

    def _held(self, stick: Float[Array, "n 2"], normal: Float[Array, "n"]) -> Float[Array, "n 2"]:
        """Returns the bristle forces, limited to the friction that the normal forces allow."""
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
    """Returns the contact points of two shapes."""
    ends = [_shape(motion.model, name) for name in (first, second)]
    placed = fixed_frames(motion, ends)
    geometries = with_precision(tuple(end.geometry for end in ends), motion.q.dtype)
    frames = [jax.tree.map(lambda x, k=k: x[k], placed.frames) for k in (0, 1)]
    points = contact_points(geometries[0], frames[0], geometries[1], frames[1])
    n, dtype = len(points.distance), motion.q.dtype
    if n > POINTS:
        raise ModelError(
            f"Compliant: {first!r} and {second!r} have {n} contacts; at most {POINTS} are supported"
        )
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
    """Pads with zeros for the contacts that the two shapes do not have."""
    return jnp.pad(x, ((0, POINTS - len(x)), *((0, 0),) * (x.ndim - 1)))


def _overlap(found: Contacts) -> Float[Array, "n"]:
    return _positive(jnp.where(jnp.isfinite(found.distance), -found.distance, 0))


def _positive(x):
    """Returns `max(x, 0)`. At zero, where shapes just touch, derivatives are those of separated shapes."""
    return jnp.where(x > 0, x, 0)


def _power(x, n):
    """Returns `xⁿ` for x ≥ 0 and n ≥ 1, with finite derivatives at zero."""
    some = x > 0
    return jnp.where(some, jnp.where(some, x, 1) ** n, 0)
