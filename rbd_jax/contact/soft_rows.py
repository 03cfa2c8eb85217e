"""The rows of soft constraints of a model in motion, with MuJoCo's stiffness, damping and reference accelerations.

Each row has a position that should not be below zero (or be zero), a velocity, and numbers for how soft it is: `solimp`, by
which its impedance d grows with the position, and `solref`, a time constant and a damping ratio (or, negative, stiffness and
damping). It should have the acceleration `-B v - K d r`, and pushes back with the stiffness `D = d / ((1 - d) A)`, where A is
about the acceleration that a unit of force gives it, in the configuration that the model is described in.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._array import gather_or_zero, matmul, matvec, transpose
from ..dynamics import Motion
from ..dynamics.jacobians import body_jacobian
from ..dynamics.mass_matrix import composite_rigid_body
from ..model import Model
from .contacts import Contacts, contact_jacobian
from .solvers.soft import Cones, Rows


#: What impedances, and what is divided by, are kept from being: MuJoCo's.
LEAST_IMPEDANCE, MOST_IMPEDANCE, TINY = 1e-4, 0.9999, 1e-15


class Mobilities(NamedTuple):
    """About how much degrees of freedom and bodies give way, in the configuration that a model is described in.

    - `dof`: the acceleration of each by a unit of force, the mean of those of a ball, and of a free body's three and three.
    - `bodies`: the mean acceleration of the centre of mass of each moving body by unit forces, and its angular one by torques.
    """

    dof: Float[Array, "nv"]
    bodies: Float[Array, "m 2"]


def mobilities(model: Model) -> Mobilities:
    """Those of a model. They do not depend on its motion."""
    motion = Motion(model, model.reference)
    inverse = jnp.linalg.inv(composite_rigid_body(motion))
    diagonal = jnp.diagonal(inverse)
    topology = model.topology
    means = np.eye(model.nv)
    for body in range(model.nb):
        size = int(topology.joint_nv[body])
        if topology.is_mimic[body] or size not in (3, 6) or model.joint(body).flat:
            continue
        own = np.arange(model.nv)[model.v_slice(body)]
        for part in np.split(own, size // 3):
            means[np.ix_(part, part)] = 1 / 3
    bodies = []
    for body in topology.moving_bodies:
        com = model.inertias[int(body)].com
        j = body_jacobian(motion, int(body), com, "world_aligned")
        answer = jnp.diagonal(matmul(j, matmul(inverse, transpose(j))))
        bodies.append(jnp.stack([jnp.mean(answer[3:]), jnp.mean(answer[:3])]))
    return Mobilities(matvec(jnp.asarray(means, diagonal.dtype), diagonal), jnp.stack(bodies))


class Softness(NamedTuple):
    """Of some rows: impedance, stiffness K and damping B of the reference acceleration."""

    impedance: Float[Array, "k"]
    stiffness: Float[Array, "k"]
    damping: Float[Array, "k"]


def softness(
    position: Float[Array, "k"], solref: Float[Array, "k 2"], solimp: Float[Array, "k 5"], least_time: float
) -> Softness:
    """Of rows at these positions. Time constants are at least `least_time`, so that a step does not jump over them."""
    least, most = (jnp.clip(solimp[:, i], LEAST_IMPEDANCE, MOST_IMPEDANCE) for i in (0, 1))
    width, power = jnp.maximum(solimp[:, 2], 0), jnp.maximum(solimp[:, 4], 1)
    middle = jnp.clip(solimp[:, 3], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    wide = width > TINY
    x = jnp.where(wide, jnp.abs(position) / jnp.where(wide, width, 1), 1)
    inside = (x > 0) & (x < 1)
    x = jnp.where(inside, x, 0.5)
    rising = x <= middle
    base = jnp.where(rising, x / middle, (1 - x) / (1 - middle))
    share = jnp.where(rising, middle * base**power, 1 - (1 - middle) * base**power)
    share = jnp.where(power == 1, x, share)
    beyond = jnp.abs(position) >= width
    share = jnp.where(inside, share, jnp.where(beyond, jnp.ones_like(share), 0))
    impedance = jnp.where(wide & (least != most), least + share * (most - least), 0.5 * (least + most))
    time = jnp.where(solref[:, 0] > 0, jnp.maximum(solref[:, 0], least_time), 1)
    ratio = jnp.where(solref[:, 1] > 0, solref[:, 1], 1)
    stiffness = jnp.where(
        solref[:, 0] > 0, 1 / jnp.maximum(TINY, (most * time * ratio) ** 2), -solref[:, 0] / most**2
    )
    damping = jnp.where(solref[:, 1] > 0, 2 / (most * time), -solref[:, 1] / most)
    return Softness(impedance, stiffness, damping)


#: MuJoCo's least coefficient of friction.
LEAST_FRICTION = 1e-5


class Pushes(NamedTuple):
    """What all rows of a contact share.

    - `jacobian`: of the motions along and about its axes (n, 6, nv), and `velocity` by that (n, 6).
    - `wanted`: the reference acceleration along the normal, `damping` across it.
    - `gives`: about how much translations and rotations give way (n, 2).
    - `impedance`: where a contact is not there, it does nothing: `there`.
    """

    jacobian: Float[Array, "n 6 nv"]
    velocity: Float[Array, "n 6"]
    wanted: Float[Array, "n"]
    damping: Float[Array, "n"]
    gives: Float[Array, "n 2"]
    impedance: Float[Array, "n"]
    there: Bool[Array, "n"]


def pushes(motion: Motion, found: Contacts, give: Mobilities, least_time: float) -> Pushes:
    """Of contacts of a model in motion."""
    j = contact_jacobian(motion, found)
    velocity = matvec(j, jnp.broadcast_to(motion.v, (len(j), motion.model.nv)))
    there = found.active
    depth = jnp.where(there, found.distance - found.margin, 0)
    soft = softness(depth, found.solref, found.solimp, least_time)
    wanted = -soft.damping * velocity[:, 0] - soft.stiffness * soft.impedance * depth
    ends = np.array(_carriers(motion.model, found.shapes), int).reshape(-1, 2)
    both = gather_or_zero(give.bodies, ends[:, 0]) + gather_or_zero(give.bodies, ends[:, 1])
    return Pushes(j, velocity, wanted, soft.damping, both[found.pair], soft.impedance, there)


def stiffness_of(gives: Float[Array, "..."], impedance: Float[Array, "..."], there: Bool[Array, "..."]):
    """`D = 1 / R`, `R = (1 - d) / d A`; zero where nothing is."""
    r = jnp.maximum(TINY, (1 - impedance) / impedance * gives)
    return jnp.where(there, 1 / r, 0)


def frictionless_rows(own: Pushes, of: np.ndarray) -> Rows:
    """Contacts that only push."""
    d = stiffness_of(own.gives[of, 0], own.impedance[of], own.there[of])
    return one_sided(own.jacobian[of, 0], own.wanted[of], d)


def pyramid_rows(own: Pushes, friction: Float[Array, "n 5"], of: np.ndarray, size: int, ratio: float) -> Rows:
    """The edges of pyramids, `n ± μ t`: two for each direction that has friction, of contacts with as many dimensions."""
    mu = jnp.maximum(friction[of, : size - 1], LEAST_FRICTION)
    edges, wanted = [], []
    for k in range(1, size):
        for sign in (1.0, -1.0):
            edges.append(own.jacobian[of, 0] + sign * mu[:, k - 1, None] * own.jacobian[of, k])
            moved = sign * mu[:, k - 1] * own.velocity[of, k]
            wanted.append(own.wanted[of] - own.damping[of] * moved)
    gives = own.gives[of, 0] + mu[:, 0] ** 2 * own.gives[of, 0]
    first = stiffness_of(gives, own.impedance[of], own.there[of])
    # Softer by how much the first edge is, so that the pyramid is about as stiff as the cone.
    d = first * ratio / (2 * mu[:, 0] ** 2)
    return one_sided(jnp.concatenate(edges), jnp.concatenate(wanted), jnp.tile(d, 2 * (size - 1)))


def one_sided(jacobian, reference, stiffness) -> Rows:
    """Rows that only push."""
    return Rows(jacobian, reference, stiffness, jnp.zeros_like(reference), jnp.full_like(reference, jnp.inf))


def elliptic_cones(
    own: Pushes, friction: Float[Array, "n 5"], of: np.ndarray, sizes: np.ndarray, ratio: float
) -> Cones:
    """Contacts of several dimensions, padded to the most; across the normal they are `ratio` times stiffer."""
    size = int(sizes.max(initial=3))
    has = jnp.asarray(np.arange(1, size)[None] < sizes[:, None])
    mu = jnp.where(has, jnp.maximum(friction[of, : size - 1], LEAST_FRICTION), 0)
    normal = stiffness_of(own.gives[of, 0], own.impedance[of], own.there[of])
    across = normal[:, None] * ratio * (mu / mu[:, :1]) ** 2
    wanted = jnp.concatenate(
        [own.wanted[of][:, None], -own.damping[of][:, None] * own.velocity[of, 1:size]], axis=1
    )
    return Cones(
        own.jacobian[of, :size],
        wanted,
        jnp.concatenate([normal[:, None], across], axis=1),
        mu,
        mu[:, 0] / np.sqrt(ratio),
    )


def _carriers(model: Model, shapes) -> list[list[int]]:
    """The moving bodies of pairs of shapes, -1 the world."""
    topology = model.topology

    def carrier(name: str) -> int:
        [body] = model.named("shape", name).bodies
        return -1 if body == "world" else int(topology.carriers[topology.body_index(body)])

    return [[carrier(name) for name in pair] for pair in shapes]
