"""The systems of models."""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Array, Float

from ..constraints import Stabilization
from ..constraints.closure import ReducedModel
from ..model import Model
from .reduced_system import ReducedSystem
from .system import System
from .tree_system import Acting, TreeSystem


Simulated: TypeAlias = Model | ReducedModel
"""The type of models that can be simulated: `Model` or `ReducedModel`.

>>> print(isinstance(rbd.load("pendulum"), rbd.simulate.Simulated))
True
"""


def tree_of(model: Simulated) -> Model:
    """Returns the model of the bodies: the tree of a reduced model."""
    return model if isinstance(model, Model) else model.model


def system_of(
    model: Simulated,
    tau,
    forces: tuple[Acting, ...] = (),
    stabilization: Stabilization | None = None,
    u: Float[Array, "nu"] | None = None,
) -> System:
    """Returns the system of a model.

    Args:
      model: The model.
      tau: The generalized force of the controls.
      forces: Forces in addition to those that the model carries.
      stabilization: Stabilization of constraints; None for a reduced model.
      u: The controls of the actuators, by default zero.

    >>> system = rbd.simulate.system_of(rbd.load("double_pendulum"), jnp.array([1.0, 0.0]))
    >>> print(system.name, system.nu, system.rheonomic)
    double_pendulum 0 False
    """
    if isinstance(model, Model):
        return TreeSystem(model=model, tau=tau, forces=forces, stabilization=stabilization, u=u)
    if stabilization is not None:
        raise ValueError(
            f"rollout: the reduced model {model.name!r} has no constraints to stabilize; omit stabilization"
        )
    return ReducedSystem(reduced=model, tau=tau, forces=forces, u=u)
