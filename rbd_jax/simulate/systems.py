"""Which system belongs to what is simulated."""

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
"""What can be simulated: a `Model`, or a `ReducedModel` of one.

>>> print(isinstance(rbd.load("pendulum"), rbd.simulate.Simulated))
True
"""


def tree_of(model: Simulated) -> Model:
    """The model whose bodies move."""
    return model if isinstance(model, Model) else model.model


def system_of(
    model: Simulated,
    tau,
    forces: tuple[Acting, ...] = (),
    stabilization: Stabilization | None = None,
    u: Float[Array, "nu"] | None = None,
) -> System:
    """The system of a model with the control `tau`, and `u` of its actuators.

    >>> system = rbd.simulate.system_of(rbd.load("double_pendulum"), jnp.array([1.0, 0.0]))
    >>> print(system.name, system.nu, system.rheonomic)
    double_pendulum 0 False
    """
    if isinstance(model, Model):
        return TreeSystem(model=model, tau=tau, forces=forces, stabilization=stabilization, u=u)
    if stabilization is not None:
        raise ValueError(
            f"rollout: the closure of the reduced model {model.name!r} leaves nothing to stabilize; leave stabilization out"
        )
    return ReducedSystem(reduced=model, tau=tau, forces=forces, u=u)
