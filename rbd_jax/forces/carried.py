"""All forces that a model carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtyping import Array, Float

from ..model import Model
from .actuators import Drive
from .actuators.drive import actuators_of
from .tendon import TendonForces, tendons_of


if TYPE_CHECKING:
    from .force import Force


def carried_forces(model: Model, u: Float[Array, "nu"] | None = None) -> tuple[Force, ...]:
    """Returns the forces of a model: force elements, springs and dampers of tendons, and actuators.

    Internal states are in this order: the states of the force elements, then the activations.

    Args:
      model: The model.
      u: Controls of the actuators, shape (nu,). Default: zero.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.actuators.Motor("motor", "elbow", gear=50.0))
    >>> rbd.forces.carried_forces(model, jnp.array([0.1]))[0](model, jnp.zeros(2), jnp.zeros(2))
    Array([0., 5.], dtype=float64)
    """
    forces: tuple[Force, ...] = model.forces  # pyright: ignore[reportAssignmentType]
    if tendons := [one for one in tendons_of(model) if one.acts]:
        forces = (*forces, TendonForces(tendons))
    if model.actuators:
        forces = (*forces, Drive(actuators_of(model), u))
    return forces


def activation_places(model: Model) -> dict[str, int]:
    """Returns the index of each actuator's activation among the internal states of the model's forces, by actuator name.

    >>> servo = rbd.actuators.Position("servo", "elbow", kp=10.0, time_constant=0.1)
    >>> rbd.forces.activation_places(rbd.attach(rbd.load("double_pendulum"), servo))
    {'servo': 0}
    """
    carried = carried_forces(model)
    start = sum(force.own.size for force in carried if not isinstance(force, Drive))
    active = [one.name for one in actuators_of(model) if one.dynamics is not None]
    return {name: start + place for place, name in enumerate(active)}
