"""Transmissions of a URDF."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd


LINKS = "".join(
    f'<link name="{name}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    for name in "abcd"
)
JOINTS = "".join(
    f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><axis xyz="0 1 0"/>'
    f'<limit effort="{effort}" lower="-1" upper="1"/></joint>'
    for name, kind, parent, child, effort in (
        ("one", "revolute", "a", "b", 20),
        ("two", "revolute", "b", "c", 30),
        ("held", "fixed", "c", "d", 0),
    )
)


def robot(*transmissions):
    return f'<robot name="arm">{LINKS}{JOINTS}{"".join(transmissions)}</robot>'


def transmission(kind, joints, motors, name="t"):
    """Returns a transmission of joints and motors with their reductions, in the order of their roles."""
    inside = ""
    for tag, given in (("joint", joints), ("actuator", motors)):
        for place, (one, ratio) in reversed(list(enumerate(given.items(), 1))):
            role = f"<role>{tag}{place}</role><mechanicalReduction>{ratio}</mechanicalReduction>"
            inside += f'<{tag} name="{one}">{role}</{tag}>'
    return f'<transmission name="{name}"><type>transmission_interface/{kind}Transmission</type>{inside}</transmission>'


@jax.jit
def _effort(model, u):
    motion = rbd.dynamics.Motion(model, jnp.zeros(model.nq))
    return rbd.actuators.Drive(model.actuators, u).generalized_force(motion)


def effort(model, u):
    """Returns the generalized force of the motors."""
    return np.asarray(_effort(model, np.asarray(u)))


def test_simple():
    """The torque is the motor's effort times the reduction, within the joint's limit."""
    model = rbd.load_urdf(robot(transmission("Simple", {"two": 1}, {"motor": -50})))
    assert model.nu == 1 and model.actuators[0].name == "motor" and model.unsupported == ()
    assert_close(model.actuators[0].control_range, [-0.6, 0.6], 1e-15)
    assert_close(effort(model, [0.1]), [0.0, -5.0], 1e-15)
    assert_close(effort(model, [2.0]), [0.0, -30.0], 1e-15)


def test_differential():
    """Both joints depend on both motors: `τ1 = n1 (m1 u1 + m2 u2)`, `τ2 = n2 (m1 u1 - m2 u2)`."""
    model = rbd.load_urdf(robot(transmission("Differential", {"one": 2, "two": 3}, {"left": 5, "right": -4})))
    assert [one.name for one in model.actuators] == ["left", "right"]
    u = np.array([0.1, 0.2])
    assert_close(effort(model, u), [2 * (5 * u[0] - 4 * u[1]), 3 * (5 * u[0] + 4 * u[1])], 1e-14)
    locked = rbd.lock_joints(model, ["one"])
    assert_close(effort(locked, u), [3 * (5 * u[0] + 4 * u[1])], 1e-14)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            transmission("FourBarLinkage", {"one": 1, "two": 1}, {"m": 1, "n": 1}),
            "transmissions (FourBarLinkage) 't'",
        ),
        (
            transmission("Simple", {"held": 1}, {"m": 1}),
            "transmissions of joints that are fixed, coupled or missing 't'",
        ),
        (
            transmission("Simple", {"none": 1}, {"m": 1}),
            "transmissions of joints that are fixed, coupled or missing 't'",
        ),
    ],
)
def test_what_has_no_effect_is_told(given, said):
    model = rbd.load_urdf(robot(given))
    assert model.unsupported == (said,) and model.nu == 0


def test_a_motor_that_does_nothing():
    with pytest.raises(rbd.ModelError, match="Motor 'm': gear is zero"):
        rbd.load_urdf(robot(transmission("Simple", {"one": 1}, {"m": 0})))


def test_written():
    """Motors round-trip. Other actuators and properties cannot be written, and the error names them."""
    model = rbd.load_urdf(robot(transmission("Simple", {"two": 1}, {"motor": -50})))
    again = rbd.load_urdf(rbd.to_urdf(model, strict=True))
    assert jax.tree.structure(again.actuators) == jax.tree.structure(model.actuators)
    for ours, back in zip(jax.tree.leaves(model.actuators), jax.tree.leaves(again.actuators)):
        np.testing.assert_array_equal(ours, back)
    weaker = rbd.actuators.Motor("weaker", "one", control_range=(-0.1, 0.1))
    servo = rbd.actuators.Position("servo", "one", kp=3.0)
    with pytest.raises(rbd.ModelError, match="control ranges of actuators 'weaker'; actuators 'servo'"):
        rbd.to_urdf(rbd.attach(model, weaker, servo), strict=True)
