"""Energy balance of samples: the energy that is dissipated, and the energy that integration errors add."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from .. import forces, joints
from ..contact.law import contact_law
from ..dynamics import forward_kinematics, momentum
from ..forces.actuators import Actuator, Drive
from ..forces.actuators.drive import actuators_of
from ..model import Model
from ..parallel import energies_along
from ..parallel.batch import batch_map
from ..simulate.result import Result
from ..simulate.trajectory import Trajectory


#: A sample that gains more than this fraction of its energy of motion is in error.
GAIN = 0.05


def energies(model: Model, path: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """Returns each sample's change of energy, and its largest rise, relative to the energy of motion.

    Evaluates the energy at up to 21 times. Both values are NaN for samples that did not complete. For a freely falling
    model, the energy is that about the center of mass. Otherwise the energy of the fall, which nothing can change, would
    dominate.
    """
    frames = np.unique(np.linspace(0, path.t.shape[1] - 1, 21).astype(int)).tolist()
    with np.errstate(all="ignore"):
        if falls_freely(model):
            model, path = _about_center_of_mass(model, path, frames)
        kinetic, potential = np.moveaxis(energies_along(model, path, frames), -1, 0)
    return relative(kinetic, potential)


def relative(kinetic: np.ndarray, potential: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the change of energy and its largest rise, from energies along axis 0."""
    with np.errstate(all="ignore"):
        total = kinetic + potential
        # The largest kinetic energy that the motion could reach, at its lowest potential. The loss is smaller, so at most
        # 100 % is dissipated. Without losses it is the energy exchanged between kinetic and potential.
        scale = np.maximum(total.max(axis=0) - potential.min(axis=0), np.finfo(np.float32).tiny)
        risen = (total - np.minimum.accumulate(total, axis=0)).max(axis=0)
        change, risen = (total[-1] - total[0]) / scale, risen / scale
    whole = np.isfinite(total).all(axis=0) & np.isfinite(scale)
    return np.where(whole, change, np.nan), np.where(whole, risen, np.nan)


def falls_freely(model: Model) -> bool:
    """Returns whether all bodies float without contact, and only gravity acts on them from outside."""
    topology = model.topology
    roots = [body for body, parent in enumerate(topology.parents) if parent < 0]
    floating = all(isinstance(model.joints[topology.kind_of[root][0]], joints.Free) for root in roots)
    inner = not model.constraints and all(isinstance(force, forces.JointLimit) for force in _acting(model))
    if not floating or not inner or contact_law(model) is not None:
        return False
    along = np.concatenate([np.arange(model.nv)[model.v_slice(root)] for root in roots])
    names = "damping", "friction", "stiffness"
    return not any(np.any(np.asarray(getattr(model, name))[along]) for name in names)


def _about_center_of_mass(model: Model, path: Trajectory, frames: list[int]) -> tuple[Model, Trajectory]:
    """Returns the model without gravity, and the trajectory with velocities relative to the center of mass."""
    roots = [body for body, parent in enumerate(model.topology.parents) if parent < 0]

    def relative_velocity(q, v):
        fall = momentum(model, q, v)[3:] / jnp.sum(model.inertias.mass)
        rotations = forward_kinematics(model, q).rotation
        for root in roots:
            v = v.at[model.v_slice(root)].add(
                jnp.concatenate([jnp.zeros(3, v.dtype), -fall @ rotations[root]])
            )
        return v

    ask = jax.jit(batch_map(relative_velocity))
    v = path.v
    for i in frames:
        v = v.at[:, i].set(ask(path.q[:, i], v[:, i]))
    weightless = dataclasses.replace(model, gravity=jnp.zeros_like(model.gravity))
    return weightless, dataclasses.replace(path, v=v)


def in_error(model: Model, path: Trajectory) -> np.ndarray:
    """Returns the samples that shorter steps may correct: diverged samples, and samples that gained energy."""
    code = np.asarray(path.code)
    fine = Result.SUCCESS, Result.SINGULAR, Result.CONSTRAINTS_OPEN, Result.CONTACTS_LOST, Result.OVERLAPPING
    failed = ~np.isin(code, fine)
    # Kinematically driven joints do work, and compliant contacts return energy.
    if model.topology.rheonomic or any(map(works, actuators_of(model))) or contact_law(model) is not None:
        return failed
    return failed | (energies(model, path)[1] > GAIN)


def loses(model: Model) -> bool:
    """Returns whether the model dissipates energy."""
    rubs = np.any(np.asarray(model.damping)) or np.any(np.asarray(model.friction))
    return bool(rubs or _acting(model) or contact_law(model) is not None)


def works(actuator: Actuator) -> bool:
    """Returns whether an actuator acts without a control: a servo does, a motor does not."""
    return actuator.bias is not None


def _acting(model: Model) -> list[forces.Force]:
    """Returns the forces other than those of joints that act without controls."""
    idle = not any(map(works, actuators_of(model)))
    return [force for force in forces.carried_forces(model) if not (idle and isinstance(force, Drive))]
