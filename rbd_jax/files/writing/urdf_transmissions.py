"""Writes the motors of a URDF as simple `<transmission>` elements, as `files/urdf_transmissions.py` reads them."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

import numpy as np

from ...forces.actuators import Actuator, Constant, OnJoint
from ...model import Model
from .losses import Losses
from .numerals import check_name, text


#: ROS's name for a motor with an effort command.
EFFORT = "hardware_interface/EffortJointInterface"


def write_transmission(robot: Element, model: Model, actuator: Actuator, losses: Losses) -> bool:
    """Writes a motor on a joint with one degree of freedom.

    Returns whether the actuator is such a motor. Only the joint can have a limit.
    """
    on = actuator.transmission
    if not isinstance(on, OnJoint) or actuator.gear.size != 1 or not _is_motor(actuator):
        return False
    body = model.topology.joint_index(on.joint)
    if model.topology.joint_nv[body] != 1 or model.topology.is_mimic[body]:
        return False
    check_name("actuator", actuator.name)
    gear = float(actuator.gear[0])
    most = float(model.effort_limit[model.v_slice(on.joint)][0]) / abs(gear)
    said = None if not np.isfinite(most) or most == 0 else (-most, most)
    given = None if actuator.control_range is None else tuple(np.asarray(actuator.control_range, float))
    if given != said:
        losses.add("control ranges of actuators", actuator.name)
    if actuator.delay is not None and actuator.delay > 0:
        losses.add("delays of actuators", actuator.name)
    element = SubElement(robot, "transmission", name=actuator.name)
    SubElement(element, "type").text = "transmission_interface/SimpleTransmission"
    for tag, name in (("joint", on.joint), ("actuator", actuator.name)):
        SubElement(SubElement(element, tag, name=name), "hardwareInterface").text = EFFORT
    SubElement(element[-1], "mechanicalReduction").text = text(gear)
    return True


def _is_motor(actuator: Actuator) -> bool:
    """Returns whether the actuator's force equals its control."""
    unit = type(actuator.gain) is Constant and float(actuator.gain.value) == 1
    return unit and actuator.bias is None and actuator.dynamics is None and actuator.force_range is None
