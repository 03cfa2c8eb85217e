"""Every URDF of example-robot-data, exported as URDF for Pinocchio and as MJCF for MuJoCo, and every MJCF.

The exported model has the same mass matrix, bias force and frames. Mimic joints become free: MuJoCo has none, and Pinocchio
does not read all of them. An exported MJCF file has the same actuator forces, tendons, sensors and accelerations as before.
"""

import warnings

import jax
import numpy as np
import pytest
from oracle_robots import STATES, Worst, all_mjcf_files, compiled, load, random_states, urdf_files

import rbd_jax as rbd
from rbd_jax.interop import MujocoMap, PinocchioMap


TOLERANCE = 1e-9
FILES = urdf_files()

#: The robot of the everyday test.
FAST = "solo12"

#: Files that are not read, with the reason.
REFUSED = {"ur3": "it is the empty leaf of a xacro that failed: a robot without name or links"}

#: Reported by MJCF export for some robots: MuJoCo rejects such inertias. Then only frames are compared.
UNPHYSICAL = "physically inconsistent inertias"


def seen(model, q, v):
    """Returns frames, mass matrix and bias force of the model at states."""

    def look(q, v):
        return rbd.forward_kinematics(model, q), rbd.mass_matrix(model, q), rbd.bias_force(model, q, v)

    function = jax.vmap(look)
    return jax.tree.map(np.asarray, compiled(function, q, v)(q, v))


def with_pinocchio(model, q, v) -> Worst:
    pin = pytest.importorskip("pinocchio")
    content, _ = written(rbd.to_urdf, model)
    theirs = pin.buildModelFromXML(content)
    there, data, worst = PinocchioMap(model, theirs), theirs.createData(), Worst()
    frames = [theirs.getFrameId(name, pin.FrameType.BODY) for name in model.body_names]
    placed, mass, bias = seen(model, q, v)
    to = jax.jit(jax.vmap(lambda q, v: (there.configuration(q), there.velocity(v))))
    masses, biases = [], []
    for i, (q_pin, v_pin) in enumerate(zip(*map(np.asarray, to(q, v)), strict=True)):
        pin.forwardKinematics(theirs, data, q_pin)
        pin.updateFramePlacements(theirs, data)
        worst.compare(
            "rotations", placed.rotation[i], np.stack([data.oMf[frame].rotation for frame in frames])
        )
        worst.compare(
            "positions", placed.position[i], np.stack([data.oMf[frame].translation for frame in frames])
        )
        upper = np.triu(pin.crba(theirs, data, q_pin))
        masses.append(upper + np.triu(upper, 1).T)
        biases.append(pin.nonLinearEffects(theirs, data, q_pin, v_pin).copy())
    back = jax.jit(jax.vmap(lambda matrix, force: (there.matrix_from(matrix), there.force_from(force))))
    found = map(np.asarray, back(np.array(masses), np.array(biases)))
    for i, (matrix, force) in enumerate(zip(*found, strict=True)):
        worst.compare("mass matrix", mass[i], matrix)
        worst.compare("bias", bias[i], force)
    return worst


def with_mujoco(model, q, v) -> tuple[Worst, str]:
    mujoco = pytest.importorskip("mujoco")
    content, lost = written(rbd.to_mjcf, model)
    theirs = mujoco.MjModel.from_xml_string(content)
    there, data, worst = MujocoMap(model, theirs), mujoco.MjData(theirs), Worst()
    order = np.array([theirs.body(name).id for name in model.body_names])
    placed, mass, bias = seen(model, q, v)

    def to(q, v):
        # Our velocity of a free joint rotates with the body, so the same motion has a different rate.
        rates = there.acceleration(q, v, np.zeros(model.nv))
        return there.configuration(q), there.velocity(q, v), rates, there.velocity_matrix(q)

    qpos, qvel, rates, turn = map(np.asarray, jax.jit(jax.vmap(to))(q, v))
    M, forces = np.zeros((theirs.nv, theirs.nv)), []
    for i in range(STATES):
        data.qpos[:], data.qvel[:] = qpos[i], qvel[i]
        mujoco.mj_kinematics(theirs, data)
        worst.compare("rotations", placed.rotation[i], data.xmat[order].reshape(-1, 3, 3))
        worst.compare("positions", placed.position[i], data.xpos[order])
        mujoco.mj_forward(theirs, data)
        mujoco.mj_fullM(theirs, M, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(theirs, data, M)
        worst.compare("mass matrix", mass[i], turn[i].T @ M @ turn[i])
        forces.append(data.qfrc_bias + M @ rates[i])
    found = np.asarray(jax.jit(jax.vmap(there.force_from))(q, np.array(forces)))
    for ours, force in zip(bias, found, strict=True):
        worst.compare("bias", ours, force)
    return worst, lost


def written(write, model) -> tuple[str, str]:
    """Returns the text and the warnings about omitted parts of the model."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        content = write(model, strict=False)
    return content, "; ".join(str(warning.message) for warning in caught)


def check(name: str, floating: bool, format: str):
    if name in REFUSED:
        pytest.skip(REFUSED[name])
    model = load(FILES[name], floating_base=floating, mimic="free")
    if not model.nv:
        pytest.skip("nothing can move")
    q, v, *_ = random_states(model)
    if format == "urdf":
        worst = with_pinocchio(model, q, v)
    else:
        worst, lost = with_mujoco(model, q, v)
        if UNPHYSICAL in lost:
            print(f"{name}: {lost}")
            worst = {key: worst[key] for key in ("rotations", "positions")}
    print(f"{name}, {format}: {dict(worst)}")
    assert all(error <= TOLERANCE for error in worst.values())


@pytest.mark.parametrize("format", ["urdf", "mjcf"])
def test_robots(format):
    if FAST not in FILES:
        pytest.skip("example-robot-data is not installed")
    check(FAST, True, format)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["urdf", "mjcf"])
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("name", FILES)
def test_all_robots(name, floating, format):
    check(name, floating, format)


MJCF = all_mjcf_files()

#: Quantities that MuJoCo computes from an MJCF file. (Exported files may have more tendons, for sums of coordinates.)
SMOOTH = (
    "qfrc_bias", "qfrc_spring", "qfrc_damper", "qfrc_fluid", "qfrc_gravcomp", "actuator_length", "actuator_velocity",
    "actuator_force", "act_dot", "qacc_smooth",
)  # fmt: skip

#: Features that models, and thus their files, do not have, by the words of the loader's warning.
UNREAD = (
    "armature of tendons",
    "limits of actuator forces",
    "nonlinear springs",
    "actuators (",
    "of actuators",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", MJCF)
def test_all_mjcf(name):
    """The exported file has every number, and MuJoCo computes the same."""
    mujoco = pytest.importorskip("mujoco")
    try:
        first = mujoco.MjModel.from_xml_path(str(MJCF[name]))
    except ValueError as error:
        pytest.skip(f"MuJoCo does not compile it: {error}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rbd.ModelWarning)
        model = rbd.load_mjcf(MJCF[name])
        content = rbd.to_mjcf(model)
        again = rbd.load_mjcf(content)
    assert (again.body_names, again.joint_names) == (model.body_names, model.joint_names)
    settings = [(one.timestep, one.integrator, one.custom) for one in (model.settings, again.settings)]
    assert settings[0] == settings[1]
    # Frames of geoms become sites, to which sensors then refer.
    known = {(thing.role, thing.name) for thing in model.attached}
    made = [one for one in again.attached if (one.role, one.name) not in known]
    assert all(one.role in ("site", "shape") and ":" in one.name for one in made)
    things = [one for one in again.attached if (one.role, one.name) in known]
    assert [thing.label for thing in things] == [thing.label for thing in model.attached]
    for ours, theirs in zip(things, model.attached, strict=True):
        geometry = getattr(ours, "geometry", None)
        if ours.refers == theirs.refers and not isinstance(
            geometry, rbd.shapes.Mesh
        ):  # its frame is at its center
            single = isinstance(geometry, rbd.shapes.HeightField)  # MuJoCo's heights are in single precision
            same_numbers(ours, theirs, ours.label, 1e-6 if single else 1e-11)
    for field in (
        "placements",
        "inertias",
        "joints",
        "armature",
        "damping",
        "stiffness",
        "friction",
        "lower",
        "upper",
    ):
        same_numbers(getattr(again, field), getattr(model, field), field)
    second = mujoco.MjModel.from_xml_string(content)
    if any(what in line for line in model.unsupported for what in UNREAD):
        return
    worst = Worst()
    random = np.random.default_rng(0)
    for _ in range(STATES):
        q, v = np.array(first.qpos0), random.normal(size=first.nv)
        mujoco.mj_integratePos(first, q, random.normal(size=first.nv), 1.0)
        seen = [in_motion(mujoco, one, q, v, random.bit_generator.state) for one in (first, second)]
        for field in SMOOTH:
            worst.compare(field, *(getattr(data, field) for data in seen))
        worst.compare("sensordata", *(readings(*pair, model.sensors) for pair in zip((first, second), seen)))
    print(f"{name}: {dict(worst)}")
    assert all(error <= TOLERANCE for error in worst.values())


def same_numbers(ours, theirs, what: str, tolerance=1e-11) -> None:
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        b = np.asarray(b)
        size = 1 + np.abs(b[np.isfinite(b)]).max(initial=0)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size, err_msg=what)


def in_motion(mujoco, model, q, v, state):
    """Returns MuJoCo's results in a state, with controls and activations from a generator in the given state."""
    random, data = np.random.default_rng(0), mujoco.MjData(model)
    random.bit_generator.state = state
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    data.qpos[:], data.qvel[:] = q, v
    data.ctrl[:], data.act[:] = random.normal(size=data.ctrl.size), random.uniform(size=data.act.size)
    mujoco.mj_forward(model, data)
    return data


def readings(model, data, sensors) -> np.ndarray:
    """Returns the readings of the given sensors; a file may have more."""
    names = [model.sensor(i).name or f"sensor_{i}" for i in range(model.nsensor)]
    rows = [names.index(sensor.name) for sensor in sensors]
    parts = [data.sensordata[model.sensor_adr[i] :][: model.sensor_dim[i]] for i in rows]
    return np.concatenate([np.zeros(0), *parts])
