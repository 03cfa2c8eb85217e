"""Drag and lift of bodies that move through a fluid at rest or in a wind, by the two fluid models of MuJoCo."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names, number
from .._core.array import cross, dot, vecmat
from .._core.errors import ModelError
from ..dynamics.sites import fixed_frames, generalized_force_at
from ..spatial.transform import Transform
from .force import Force


class FluidForce(Force):
    """A wrench on each of some frames, as a function of its velocity through a fluid. A family implements `wrench`.

    - `bodies`, `placements`: the body of each frame, and the frame on the body.
    - `density` (kg/m³), `viscosity` (Pa s): properties of the fluid.
    - `wind`: the velocity of the fluid, in the world's axes.

    >>> center = rbd.Transform.from_position(jnp.zeros((1, 3)))
    >>> air = rbd.forces.BoxDrag(["bob"], center, [(0.1, 0.1, 2.0)], density=1.2, wind=(3.0, 0.0, 0.0))
    >>> print(isinstance(air, rbd.forces.FluidForce), air.bodies)
    True ('bob',)
    """

    bodies: tuple[str, ...] = eqx.field(static=True)
    placements: Transform
    density: Float[Array, ""]
    viscosity: Float[Array, ""]
    wind: Float[Array, "3"]

    def __init__(self, bodies: str | Sequence[str], placements: Transform, density, viscosity, wind):
        family = type(self).__name__
        self.bodies = names(family, "bodies", bodies)
        if placements.position.shape != (len(self.bodies), 3):
            raise ModelError(
                f"{family}: placements must have one frame per body, (k,), for {len(self.bodies)} bodies"
            )
        self.placements = placements
        self.density = number(family, "density", density, least=0)
        self.viscosity = number(family, "viscosity", viscosity, least=0)
        self.wind = number(family, "wind", wind, (3,))

    @property
    def frames(self):
        return self.placements

    def attached(self, bodies, frames, joints):
        return self.changed(bodies=tuple(bodies), placements=frames)

    @abc.abstractmethod
    def wrench(self, twists: Float[Array, "k 6"]) -> Float[Array, "k 6"]:
        """Returns the wrench `[n; f]` on each frame from its velocity `[ω; v]` through the fluid, in its own axes."""

    def generalized_force(self, motion):
        at = fixed_frames(motion, (self,))
        wind = vecmat(self.wind, at.frames.rotation)
        through = at.twists - jnp.concatenate([jnp.zeros_like(wind), wind], axis=-1)
        return generalized_force_at(motion, (self,), self.wrench(through))

    def stored_energy(self, motion):
        return jnp.zeros((), motion.q.dtype)


class BoxDrag(FluidForce):
    """Drag on cuboids, and Stokes' friction of a sphere of equal size, for moving bodies.

    - `sides`: the sides of the cuboid that represents each body, along the axes of its frame: (k, 3).

    >>> center = rbd.Transform.from_position(jnp.zeros((1, 3)))
    >>> air = rbd.forces.BoxDrag(["bob"], center, [(0.1, 0.1, 2.0)], density=1.2)
    >>> print(air(rbd.load("pendulum"), jnp.zeros(1), jnp.array([2.0])))
    [-0.12]
    """

    sides: Float[Array, "k 3"]

    def __init__(
        self,
        bodies,
        placements,
        sides,
        density: float | Array = 0.0,
        viscosity: float | Array = 0.0,
        wind=(0.0,) * 3,
    ):
        super().__init__(bodies, placements, density, viscosity, wind)
        self.sides = number("BoxDrag", "sides", sides, (len(self.bodies), 3), least=0)

    def wrench(self, twists):
        spin, velocity = twists[:, :3], twists[:, 3:]
        x, y, z = self.sides.T
        diameter = jnp.mean(self.sides, axis=1)[:, None]
        torque = -jnp.pi * diameter**3 * self.viscosity * spin
        force = -3 * jnp.pi * diameter * self.viscosity * velocity
        area = jnp.stack([y * z, x * z, x * y], axis=-1)
        fourth = jnp.stack([x * (y**4 + z**4), y * (x**4 + z**4), z * (x**4 + y**4)], axis=-1)
        torque = torque - self.density / 64 * fourth * jnp.abs(spin) * spin
        force = force - self.density / 2 * area * jnp.abs(velocity) * velocity
        return jnp.concatenate([torque, force], axis=-1)


class EllipsoidDrag(FluidForce):
    """Drag, lift and added mass of ellipsoids (Andersen, Pesavento & Wang 2005, as MuJoCo extends it to three dimensions).

    - `semiaxes`: the semiaxes of each ellipsoid, along the axes of its frame: (k, 3).
    - `coefficients`: for each ellipsoid, the coefficients of blunt drag, slender drag, angular drag,
      Kutta lift and Magnus lift: (k, 5).
    - `added_masses`, `added_inertias`: added masses and inertias of the fluid over its density, along the axes: (k, 3). Their
      effect on accelerations is ignored, as in MuJoCo.

    >>> center = rbd.Transform.from_position(jnp.zeros((1, 3)))
    >>> air = rbd.forces.EllipsoidDrag(["bob"], center, [(0.1, 0.1, 1.0)], density=1.2, viscosity=1.8e-5)
    >>> print(air(rbd.load("pendulum"), jnp.zeros(1), jnp.array([2.0])))
    [-1.206]
    """

    semiaxes: Float[Array, "k 3"]
    coefficients: Float[Array, "k 5"]
    added_masses: Float[Array, "k 3"]
    added_inertias: Float[Array, "k 3"]

    def __init__(
        self,
        bodies,
        placements,
        semiaxes,
        density: float | Array = 0.0,
        viscosity: float | Array = 0.0,
        wind=(0.0, 0.0, 0.0),
        coefficients=(0.5, 0.25, 1.5, 1.0, 1.0),
        added_masses=(0.0, 0.0, 0.0),
        added_inertias=(0.0, 0.0, 0.0),
    ):
        super().__init__(bodies, placements, density, viscosity, wind)
        count = len(self.bodies)
        self.semiaxes = number("EllipsoidDrag", "semiaxes", semiaxes, (count, 3), above=0)
        given = {"coefficients": coefficients, "added_masses": added_masses, "added_inertias": added_inertias}
        for name, value in given.items():
            shape = (count, 5 if name == "coefficients" else 3)
            value = np.broadcast_to(value, shape) if np.ndim(value) == 1 else value
            setattr(self, name, number("EllipsoidDrag", name, value, shape, least=0))

    def wrench(self, twists):
        spin, velocity = twists[:, :3], twists[:, 3:]
        momentum, turning = (
            self.density * self.added_masses * velocity,
            self.density * self.added_inertias * spin,
        )
        torque = cross(momentum, velocity) + cross(turning, spin)
        force = cross(momentum, spin)

        blunt, slender, angular, kutta, magnus = (x[:, None] for x in self.coefficients.T)
        s = self.semiaxes
        smallest, largest = jnp.min(s, axis=1), jnp.max(s, axis=1)
        middle = jnp.sum(s, axis=1) - smallest - largest
        volume = 4 / 3 * jnp.pi * jnp.prod(s, axis=1)[:, None]
        force = force + magnus * self.density * volume * cross(spin, velocity)

        # The projected area in the direction of the flow, and its normal.
        opposite = jnp.stack([s[:, 1] * s[:, 2], s[:, 2] * s[:, 0], s[:, 0] * s[:, 1]], axis=-1) ** 2
        normal = opposite * velocity
        square, steep = dot(normal, velocity), dot(normal, normal)
        moves = square > _tiny(s.dtype)
        square, steep = jnp.where(moves, square, 1), jnp.where(moves, steep, 1)
        speed = jnp.where(moves, jnp.sqrt(jnp.where(moves, dot(velocity, velocity), 1)), 0)[:, None]
        area = jnp.where(moves, jnp.pi * jnp.sqrt(steep / square), 0)[:, None]
        slope = jnp.where(moves, square / (jnp.where(moves, speed[:, 0], 1) * steep), 0)[:, None]
        circulation = kutta * self.density * slope * area * cross(normal, velocity)
        force = force + cross(circulation, velocity)

        diameter = 2 / 3 * jnp.sum(s, axis=1)[:, None]
        widest = (jnp.pi * largest * middle)[:, None]
        drag = 3 * jnp.pi * diameter * self.viscosity
        drag = drag + self.density * speed * (area * blunt + slender * (widest - area))

        others = jnp.stack([jnp.maximum(s[:, (i + 1) % 3], s[:, (i + 2) % 3]) for i in range(3)], axis=-1)
        moment = 8 / 15 * jnp.pi * s * others**4
        most = (8 / 15 * jnp.pi * middle * largest**4)[:, None]
        resisted = spin * (angular * moment + slender * (most - moment))
        turns = dot(resisted, resisted) > _tiny(s.dtype)
        resistance = jnp.where(turns, jnp.sqrt(jnp.where(turns, dot(resisted, resisted), 1)), 0)[:, None]
        braking = jnp.pi * diameter**3 * self.viscosity + self.density * resistance
        return jnp.concatenate([torque - braking * spin, force - drag * velocity], axis=-1)


def _tiny(dtype) -> float:
    return float(jnp.finfo(dtype).tiny) ** 0.5
