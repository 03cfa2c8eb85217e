"""The rows of soft constraints of a model in motion, with MuJoCo's stiffness, damping and reference accelerations.

Each row has a position that should not be below zero (or be zero), a velocity, and numbers for how soft it is: `solimp`, by which
its impedance d grows with the position, and `solref`, a time constant and a damping ratio (or, negative, stiffness and damping).
It then should have the acceleration `-B v - K d r`, and pushes back with the stiffness `D = d / ((1 - d) A)`, where A is about the
acceleration that a unit of force gives it, in the configuration that the model is described in.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._array import gather, gather_or_zero, matmul, matvec, transpose
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
