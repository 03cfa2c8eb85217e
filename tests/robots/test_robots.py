"""The bundled robots are sound models, and `load` finds them, reads files and explains errors."""

import inspect
import re
import warnings

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import ModelError, joints, robots
from rbd_jax.model import faults
from rbd_jax.robots import _links


URDF = '<robot name="tiny"><link name="only"/></robot>'


@pytest.fixture(scope="module")
def model_of():
    """Returns each robot, built once."""
    built = {}

    def get(name):
        if name not in built:
            built[name] = rbd.load(name)
        return built[name]

    return get


def random_state(model, seed):
    """Returns a configuration near the neutral one, a velocity and an acceleration, all of order one."""
    offset, v, a = np.random.default_rng(seed).normal(size=(3, model.nv))
    return np.asarray(rbd.integrate(model, rbd.neutral(model), 0.3 * offset)), v, a


@pytest.mark.parametrize("name", robots.NAMES)
def test_the_model_is_sound(model_of, name):
    model = model_of(name)
    assert model.name == name
    assert model.nv > 0
    mass = np.asarray(model.inertias.mass)
    assert (mass >= 0).all()
    assert not list(faults.of_inertias(model.inertias))
    # A massless body is a marker on its parent.
    welded = [isinstance(model.joint(body), joints.Fixed) for body in range(model.nb)]
    assert all(mass > 0 or weld for mass, weld in zip(mass, welded))
    assert (np.asarray(model.damping) >= 0).all()
    assert (np.asarray(model.effort_limit) > 0).all()


@pytest.mark.parametrize("name", robots.NAMES)
def test_the_neutral_configuration_is_inside_the_limits(model_of, name):
    model = model_of(name)
    lower, q, upper = map(np.asarray, (model.lower, rbd.neutral(model), model.upper))
    assert np.all((lower <= q) & (q <= upper))


SIZES = {  # nq, nv, mass
    "pendulum": (1, 1, 1.0, 1.0),
    "double_pendulum": (2, 2, 2.0, 2.0),
    "acrobot": (2, 2, 2.0, 2.0),
    "cartpole": (2, 2, 1.2, 1.2),
    "reacher": (2, 2, 1.0, 1.0),
    "arm7": (7, 7, 18.0, 25.0),
    "quadruped": (19, 18, 12.0, 15.0),
    "hopper": (6, 6, 8.0, 8.0),
    "humanoid": (41, 35, 45.0, 75.0),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_mass(model_of, name):
    nq, nv, least, most = SIZES[name]
    model = model_of(name)
    assert (model.nq, model.nv) == (nq, nv)
    assert least - 1e-9 <= np.asarray(model.inertias.mass).sum() <= most + 1e-9


@pytest.fixture(
    scope="module",
    params=[
        # The robot with every joint family takes a minute to compile.
        pytest.param(name, marks=() if name == "cartpole" else pytest.mark.slow)
        for name in robots.NAMES
    ],
)
def at_random(request, model_of):
    """A robot in a random state and its dynamics, compiled once for all tests below."""
    model = model_of(request.param)

    @jax.jit
    def evaluate(q, v, a):
        def along(step):
            return rbd.potential_energy(model, rbd.integrate(model, q, step * v))

        return {
            "acceleration": rbd.forward_dynamics(model, q, v, rbd.inverse_dynamics(model, q, v, a)),
            "mass_matrix": rbd.mass_matrix(model, q),
            "potential_rate": jax.jvp(along, (jnp.zeros((), q.dtype),), (jnp.ones((), q.dtype),))[1],
            "gravity_force": rbd.gravity_force(model, q),
        }

    state = random_state(model, robots.NAMES.index(request.param))
    return model, state, jax.device_get(evaluate(*state))


def test_inverse_undoes_forward_dynamics(at_random):
    _, (_, _, a), found = at_random
    # Conditioning costs digits: the smallest inertia of a degree of freedom is some 1e-5 of the largest.
    np.testing.assert_allclose(found["acceleration"], a, atol=1e-9 * (1 + np.abs(a).max()))


def test_every_freedom_moves_inertia(at_random):
    """This holds without armature."""
    model, _, found = at_random
    moments = np.linalg.eigvalsh(found["mass_matrix"] - np.diag(model.armature))
    assert moments[0] > 1e-6 * moments[-1]


def test_gravity_is_the_slope_of_the_potential_energy(at_random):
    _, (_, v, _), found = at_random
    power = np.vdot(found["gravity_force"], v)
    np.testing.assert_allclose(found["potential_rate"], power, rtol=1e-9, atol=1e-9)


def test_all_joints_has_every_family_once(model_of):
    model = model_of("all_joints")

    def is_abstract(thing):
        return inspect.isabstract(thing) or thing in (joints.Joint, joints.ConstantSubspaceJoint)

    # These are made from other joints during model construction, or are results about joints.
    besides = {"Reversed", "Offset", "InPlane", "Subspaces"}

    public = {
        name: thing for name, thing in vars(joints).items() if name[0] != "_" and not inspect.ismodule(thing)
    }
    families = {
        name: thing
        for name, thing in public.items()
        if name[0].isupper() and not is_abstract(thing) and name not in besides
    }
    named = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): thing for name, thing in families.items()}
    assert sorted(model.joint_names) == sorted(named)
    for name, family in named.items():
        joint = model.joint(name)
        if inspect.isclass(family):
            assert type(joint) is family
        else:  # a function that returns a joint of another family
            assert jax.tree.structure(joint) == jax.tree.structure(family())


@jax.jit
def standing(model):
    """Returns the frames of the bodies and the center of mass in the neutral configuration."""
    q = rbd.neutral(model)
    return rbd.forward_kinematics(model, q), rbd.center_of_mass(model, q)


def test_the_quadruped_stands(model_of):
    model = model_of("quadruped")
    frames, center = jax.device_get(standing(model))
    feet = np.stack([frames.position[model.body_index(f"{leg}_foot")] for leg in ("FL", "FR", "RL", "RR")])
    np.testing.assert_allclose(feet[:, 2], feet[0, 2], atol=1e-9)
    assert -0.4 < feet[0, 2] < -0.25
    assert feet[:, 0].min() < center[0] < feet[:, 0].max()
    np.testing.assert_allclose(center[1], 0, atol=1e-9)


def test_the_humanoid_stands(model_of):
    model = model_of("humanoid")
    frames, center = jax.device_get(standing(model))
    left, right = (model.body_index(f"{side}_foot") for side in ("left", "right"))
    np.testing.assert_allclose(frames.rotation[left], np.eye(3), atol=1e-9)
    np.testing.assert_allclose(
        frames.position[left] * np.array([1.0, -1.0, 1.0]), frames.position[right], atol=1e-9
    )
    heel, toe = frames.position[left, 0] - 0.07, frames.position[left, 0] + 0.17
    assert heel < center[0] < toe
    lowest, highest = frames.position[:, 2].min(), frames.position[model.body_index("head"), 2] + 0.25
    assert 1.5 < highest - lowest < 1.8


def test_the_arm_reaches_forward_and_points_down(model_of):
    model = model_of("arm7")
    frames, _ = jax.device_get(standing(model))
    tool = model.body_index("tool")
    np.testing.assert_allclose(frames.rotation[tool, :, 2], [0, 0, -1], atol=1e-9)
    assert frames.position[tool, 0] > 0.2
    assert frames.position[tool, 2] > 0


#: Numbers of actuators, sensors and sensor readings.
EQUIPMENT = {
    "acrobot": (1, 4, 4),
    "cartpole": (1, 4, 4),
    "reacher": (2, 5, 7),
    "quadruped": (12, 27, 34),
    "hopper": (3, 6, 6),
    "humanoid": (29, 15, 30),
}


@pytest.mark.parametrize("name", EQUIPMENT)
def test_what_they_are_equipped_with(model_of, name):
    model = model_of(name)
    sizes = [sensor.size for sensor in model.sensors]
    assert (model.nu, len(sizes), sum(sizes)) == EQUIPMENT[name]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "reacher" else pytest.mark.slow) for name in EQUIPMENT]
)
def test_as_mujoco_with_its_actuators_and_sensors(model_of, name):
    """Exported to MuJoCo without contact and limits: the acceleration under random controls, and all readings, agree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rbd.ModelWarning)  # MJCF has no velocity limits
        text = rbd.to_mjcf(model_of(name))
    theirs, model = mujoco.MjModel.from_xml_string(text), rbd.load_mjcf(text)
    off = mujoco.mjtDisableBit
    theirs.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT
    data, to = mujoco.MjData(theirs), rbd.interop.MujocoMap(model, theirs)
    q, v, _ = random_state(model, 1)
    u = np.random.default_rng(2).normal(size=model.nu)
    send = lambda q, v, u: (to.configuration(q), to.velocity(q, v), to.ctrl(rbd.Controls(u)))
    data.qpos[:], data.qvel[:], data.ctrl[:] = jax.jit(send)(q, v, u)
    mujoco.mj_forward(theirs, data)

    @jax.jit
    def found(q, v, u, qacc):
        system = rbd.simulate.system_of(model, jnp.zeros(model.nv), u=u)
        state = rbd.State(q, v, system.own)
        readings = rbd.sense(model, state, rbd.Controls(u)).vector
        return system.acceleration(jnp.zeros(()), state), readings, to.acceleration_from(q, v, qacc)

    acceleration, readings, expected = map(np.asarray, found(q, v, u, data.qacc))
    for one, other in ((acceleration, expected), (readings, data.sensordata)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_servos_hold_the_pose(model_of):
    """The quadruped's servos, with a fixed trunk: the legs sag by a few hundredths of a radian."""
    model = rbd.lock_joints(model_of("quadruped"), ["trunk"])
    run = jax.jit(
        lambda q, v: rbd.rollout(model, rbd.State(q, v), rbd.Controls(jnp.zeros((200, model.nu))), dt=0.005)
    )
    path = run(0.3 * np.ones(model.nq), np.zeros(model.nv))
    assert path.code == rbd.Result.SUCCESS
    q, v = np.asarray(path.q)[-1], np.asarray(path.v)[-1]
    assert 1e-4 < np.abs(q).max() < 0.05 and np.abs(v).max() < 1e-3


def test_taken_off(model_of):
    """`detach` removes single objects or all of a role, and objects that refer to them."""
    model = model_of("reacher")
    bare = rbd.detach(model, "actuator", "sensor", "shape")
    assert bare.nu == 0 and not bare.sensors and not bare.shapes and len(bare.sites) == 2
    fingertip, target = model.sites
    left = rbd.detach(model, target, model.actuators[0])
    assert left.sites == (fingertip,) and [one.name for one in left.actuators] == ["elbow"]
    assert "to_target" not in [one.name for one in left.sensors] and len(left.sensors) == 4
    with pytest.raises(
        ModelError, match=r"detach: models carry nothing as 'actuators'; did you mean 'actuator'"
    ):
        rbd.detach(model, "actuators")
    with pytest.raises(ModelError, match=r"detach: model 'pendulum' does not carry Site\('target'"):
        rbd.detach(model_of("pendulum"), target)


@pytest.mark.parametrize("name", robots.NAMES)
def test_bodies_weigh_what_their_shapes_do(model_of, name):
    """Inertias are proportional: every body with mass is a solid with the shape that is drawn."""
    model = model_of(name)
    inertias = {body: np.zeros(10) for body in model.body_names}
    for shape in model.shapes:
        if shape.body != "world":
            inertias[shape.body] += shape.inertia(1.0).parameters
    for body, inertia in zip(model.body_names, np.asarray(model.inertias.parameters)):
        mass = inertias[body][0] or 1.0
        np.testing.assert_allclose(inertias[body] * inertia[0] / mass, inertia, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name, feet", [("quadruped", 4), ("hopper", 2), ("humanoid", 2)])
def test_feet_stand_on_the_floor(model_of, name, feet):
    """The floor is below the trunk, and only feet reach it."""
    model = model_of(name)
    frames = rbd.shape_frames(model, rbd.neutral(model))
    rows = {shape.name: row for row, shape in enumerate(model.shapes)}
    position, rotation = np.asarray(frames.position), np.asarray(frames.rotation)
    floor, lowest = position[rows.pop("floor"), 2], {}
    for shape, row in rows.items():
        vertices, _ = model.shapes[row].geometry.triangles()
        placed = vertices @ rotation[row].T + position[row]
        lowest[shape] = placed[:, 2].min() - floor
    standing = [shape for shape, height in lowest.items() if height < 1e-3]
    assert len(standing) == feet and all(shape.endswith(("foot", "heel", "toe")) for shape in standing)
    # A ball is drawn with 32 sides, with its corners on the surface.
    np.testing.assert_allclose([lowest[shape] for shape in standing], 0, atol=1e-4)


# load


def test_load_reads_files_by_their_ending_and_root(tmp_path):
    for ending in ("urdf", "URDF", "xml"):
        path = tmp_path / f"tiny.{ending}"
        path.write_text(URDF)
        assert rbd.load(path).name == "tiny"
        assert rbd.load(str(path), floating_base=True).nv == 6


def test_load_reads_mjcf(tmp_path):
    pytest.importorskip("mujoco")
    body = '<body name="ball"><freejoint/><geom type="sphere" size="0.1"/></body>'
    for ending in ("xml", "mjcf"):
        path = tmp_path / f"ball.{ending}"
        path.write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
        assert rbd.load(path).nv == 6
    with pytest.raises(ModelError, match="load_mjcf has no option 'floating_base'"):
        rbd.load(path, floating_base=True)


@pytest.mark.parametrize("name", robots.NAMES)
def test_load_in_a_function_that_is_traced(model_of, name):
    made = jax.jit(lambda: rbd.load(name))()
    assert jax.tree.structure(made) == jax.tree.structure(model_of(name))
    jax.tree.map(np.testing.assert_array_equal, made, model_of(name))


def test_load_says_what_it_cannot_read(tmp_path):
    (tmp_path / "robot.stl").touch()
    (tmp_path / "robot.xacro").touch()
    (tmp_path / "robot.xml").write_text("nothing")
    cases = {
        "quadrupd": "no robot 'quadrupd'; did you mean 'quadruped'\\? .*pendulum.*\\.urdf, \\.xml, \\.mjcf or \\.sdf",
        "xyz": "no robot 'xyz'. The bundled ones are .*arm7",
        "missing.urdf": "no such file",
        str(tmp_path / "quadruped"): "no such file",
        str(tmp_path / "robot.stl"): "end in \\.urdf, \\.xml, \\.mjcf or \\.sdf",
        str(tmp_path / "robot.xacro"): "expand xacro",
        "x" * 5000: "no robot",
        "a\0b": "no robot",
    }
    for name, message in cases.items():
        with pytest.raises(ModelError, match=message):
            rbd.load(name)
    with pytest.raises(ModelError, match="has no options, got 'floating_base'"):
        rbd.load("arm7", floating_base=True)
    path = tmp_path / "tiny.urdf"
    path.write_text(URDF)
    with pytest.raises(ModelError, match="no option 'floatingbase'; did you mean 'floating_base'"):
        rbd.load(path, floatingbase=True)


def test_the_solids_are_those_of_inertia():
    com = (0.1, -0.2, 0.3)
    pairs = [
        (_links.box(2.0, (1.0, 2.0, 3.0), com), rbd.Inertia.box(2.0, (1.0, 2.0, 3.0), com)),
        (_links.ball(2.0, 0.5, com), rbd.Inertia.sphere(2.0, 0.5, com)),
        (
            _links.rod(2.0, (0.1, -0.2, -0.7), (0.1, -0.2, 1.3), 0.5),
            rbd.Inertia.cylinder(2.0, 0.5, 2.0, com),
        ),
    ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours.inertia.parameters, theirs.parameters, rtol=1e-12, atol=1e-12)
        drawn = rbd.Shape("a", "b", ours.geometry, ours.placement).inertia(1.0)
        np.testing.assert_allclose(
            drawn.parameters * 2.0 / drawn.mass, theirs.parameters, rtol=1e-12, atol=1e-12
        )
