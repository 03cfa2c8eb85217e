"""Manual poses: within limits, with closed loops, and with bodies at their dragged positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from constraints.mechanisms import four_bar
from support import assert_close

import rbd_jax as rbd
from rbd_jax.view.posing import Posing


ARM = """<robot name="gripper"><link name="base"/><link name="arm"/><link name="left"/><link name="right"/><link name="wheel"/>
  <joint name="turn" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="0.5" effort="1" velocity="1"/></joint>
  <joint name="grip" type="prismatic"><parent link="arm"/><child link="left"/><axis xyz="0 1 0"/>
    <limit lower="0" upper="0.1" effort="1" velocity="1"/></joint>
  <joint name="other" type="prismatic"><parent link="arm"/><child link="right"/><axis xyz="0 -1 0"/>
    <mimic joint="grip" multiplier="2"/><limit lower="0" upper="0.2" effort="1" velocity="1"/></joint>
  <joint name="roll" type="continuous"><parent link="arm"/><child link="wheel"/><axis xyz="1 0 0"/></joint>
</robot>"""


@pytest.fixture(scope="module")
def gripper():
    return rbd.load_urdf(ARM)


def test_there_is_a_slider_for_each_coordinate_that_is_free(gripper):
    sliders = {slider.name: slider for slider in Posing(gripper, size=0.3).sliders}
    assert list(sliders) == ["turn", "grip", "roll"]
    assert (sliders["turn"].lower, sliders["turn"].upper) == (-1.0, 0.5)
    assert (sliders["roll"].lower, sliders["roll"].upper) == (-np.pi, np.pi)
    # Joints with several coordinates have one slider each, joints on curved manifolds have none.
    names = [slider.name for slider in Posing(rbd.load("humanoid")).sliders]
    assert "neck[0]" in names and "neck[1]" in names and len(names) == 14
    # Without limits, the range is a few lengths of the model.
    assert Posing(rbd.load("cartpole"), size=0.3).sliders[0].upper > 0


def test_a_joint_moves_within_its_limits_and_others_follow(gripper):
    posing = Posing(gripper)
    turn, grip, _ = posing.sliders
    posing.set_joint(turn, 2.0)
    posing.set_joint(grip, 0.05)
    np.testing.assert_allclose(posing.q, [0.5, 0.05, 0.0])
    frames = rbd.forward_kinematics(gripper, jax.device_put(posing.q))
    apart = frames.position[gripper.body_index("right")] - frames.position[gripper.body_index("left")]
    assert np.linalg.norm(apart) == pytest.approx(0.15)
    assert posing.q.dtype == gripper.dtype and not posing.note


@pytest.mark.slow
def test_loops_stay_closed_and_what_cannot_be_is_not_done():
    model = four_bar("hinge")
    posing = Posing(model, jnp.array([0.9, -0.8, 0.8]))
    assert float(np.abs(rbd.constraint_residual(model, jax.device_put(posing.q))).max()) < 1e-10
    posing.set_joint(posing.sliders[0], 1.2)
    assert posing.q[0] == pytest.approx(1.2, abs=1e-12) and not posing.note
    assert_close(posing.q, [1.2, -1.2, 1.2], 1e-8)
    # A loop of rods of 1, 1 and 0.2 m on a ground of 3 m.
    builder = rbd.ModelBuilder()
    rod = rbd.Inertia.box(1.0, (1.0, 0.0, 0.0), (0.5, 0.0, 0.0))
    builder.add_body("crank", "world", rbd.joints.Revolute(), inertia=rod)
    builder.add_body("coupler", "crank", rbd.joints.Revolute(), (1.0, 0.0, 0.0), rod)
    builder.add_constraint(rbd.constraints.HingeLoop("coupler", (1.0, 0, 0), "world", (1.9, 0.0, 0.0)))
    short = builder.build()
    posing = Posing(short, jnp.array([0.3, -0.6]))
    before = posing.q.copy()
    posing.set_joint(posing.sliders[0], 2.0)
    assert "stay open" in posing.note
    np.testing.assert_array_equal(posing.q, before)


@pytest.mark.slow
def test_a_body_comes_to_where_it_is_pulled_within_limits():
    model = rbd.load("arm7")
    posing = Posing(model)
    body, point = model.body_index("tool"), np.array([0.0, 0.0, 0.05])
    where = lambda q: jax.tree.map(
        lambda x: np.asarray(x)[body], rbd.forward_kinematics(model, jax.device_put(q))
    )
    for target in ([0.4, 0.2, 0.5], [0.35, 0.25, 0.45]):
        assert posing.drag(body, point, np.array(target)) < 1e-3
        frame = where(posing.q)
        assert_close(frame.position + frame.rotation @ point, target, 1e-3)
    # The same with rotations.
    wanted = rbd.Transform.from_xyz_rpy((0.4, 0.1, 0.4), (0.0, np.pi, 0.0))
    for _ in range(3):
        off = posing.drag(body, np.zeros(3), wanted.position, wanted.rotation)
    assert off < 1e-3 and not posing.note
    assert_close(where(posing.q).rotation, wanted.rotation, 2e-3)
    # For a target out of reach, the arm extends toward it.
    off = posing.drag(body, np.zeros(3), np.array([5.0, 0.0, 0.4]))
    assert "out of reach" in posing.note and off > 3
    assert (posing.q >= np.asarray(model.lower) - 1e-9).all() and (
        posing.q <= np.asarray(model.upper) + 1e-9
    ).all()
    assert where(posing.q).position[0] > 0.6


@pytest.mark.slow
def test_what_floats_is_held_by_its_base_unless_that_is_pulled():
    builder = rbd.ModelBuilder()
    rod = rbd.Inertia.box(1.0, (1.0, 0.1, 0.1), (0.5, 0.0, 0.0))
    builder.add_body("base", joint=rbd.joints.Free(), inertia=rod)
    builder.add_body("arm", "base", rbd.joints.Revolute(), (1.0, 0.0, 0.0), rod)
    model = builder.build()
    posing = Posing(model)
    tip = np.array([1.0, 0.0, 0.0])
    posing.drag(1, tip, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(posing.q[:7], np.asarray(rbd.neutral(model))[:7])
    assert posing.q[7] == pytest.approx(np.pi / 2, abs=1e-3)
    posing.drag(0, np.zeros(3), np.array([0.0, 0.0, 2.0]))
    assert_close(posing.q[:3], [0, 0, 2], 1e-3)


@pytest.mark.slow
def test_the_variables_of_a_reduced_model_have_sliders():
    tree = rbd.load("double_pendulum")
    posing = Posing(rbd.ReducedModel(tree, lambda y: jnp.concatenate([y, -2 * y]), 1))
    (slider,) = posing.sliders
    posing.set_joint(slider, 0.4)
    np.testing.assert_allclose(posing.q, [0.4])
    place = rbd.forward_kinematics(tree, jnp.array([0.3, -0.6])).position[1]
    posing.drag(1, np.zeros(3), np.asarray(place))
    assert posing.q[0] == pytest.approx(0.3, abs=1e-3)
