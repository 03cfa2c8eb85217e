"""Every URDF of example-robot-data, read here and written again: as URDF for Pinocchio, as MJCF for MuJoCo.

What they read there has the mass matrix, the bias force and the frames of the model here. Mimic joints are taken as
free ones: MuJoCo has none, and Pinocchio does not read all of them.
"""

import warnings

import jax
import numpy as np
import pytest
from oracle_robots import STATES, Worst, compiled, load, random_states, urdf_files

import rbd_jax as rbd
from rbd_jax.interop import MujocoMap, PinocchioMap


TOLERANCE = 1e-9
FILES = urdf_files()

#: A robot for every day.
FAST = "solo12"

#: Files that are not read, and why.
REFUSED = {"ur3": "it is the empty leaf of a xacro that failed: a robot without name or links"}

#: What MJCF cannot say of some robots that moves them: MuJoCo refuses such inertias. Then frames are compared.
UNPHYSICAL = "inertias that no real body has"


def seen(model, q, v):
    """Frames, mass matrix and bias force of the model at states."""

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
    for i in range(STATES):
        q_pin, v_pin = np.asarray(there.configuration(q[i])), np.asarray(there.velocity(v[i]))
        pin.forwardKinematics(theirs, data, q_pin)
        pin.updateFramePlacements(theirs, data)
        worst.compare(
            "rotations", placed.rotation[i], np.stack([data.oMf[frame].rotation for frame in frames])
        )
        worst.compare(
            "positions", placed.position[i], np.stack([data.oMf[frame].translation for frame in frames])
        )
        upper = np.triu(pin.crba(theirs, data, q_pin))
        worst.compare("mass matrix", mass[i], there.matrix_from(upper + np.triu(upper, 1).T))
        worst.compare("bias", bias[i], there.force_from(pin.nonLinearEffects(theirs, data, q_pin, v_pin)))
    return worst


def with_mujoco(model, q, v) -> tuple[Worst, str]:
    mujoco = pytest.importorskip("mujoco")
    content, lost = written(rbd.to_mjcf, model)
    theirs = mujoco.MjModel.from_xml_string(content)
    there, data, worst = MujocoMap(model, theirs), mujoco.MjData(theirs), Worst()
    order = np.array([theirs.body(name).id for name in model.body_names])
    placed, mass, bias = seen(model, q, v)
    turn = np.asarray(jax.vmap(there.velocity_matrix)(q))
    M = np.zeros((theirs.nv, theirs.nv))
    for i in range(STATES):
        data.qpos[:], data.qvel[:] = there.configuration(q[i]), there.velocity(q[i], v[i])
        mujoco.mj_kinematics(theirs, data)
        worst.compare("rotations", placed.rotation[i], data.xmat[order].reshape(-1, 3, 3))
        worst.compare("positions", placed.position[i], data.xpos[order])
        mujoco.mj_forward(theirs, data)
        mujoco.mj_fullM(theirs, M, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(theirs, data, M)
        worst.compare("mass matrix", mass[i], turn[i].T @ M @ turn[i])
        # Where our velocity of a free joint turns with the body, the same motion has another rate of it.
        rates = np.asarray(there.acceleration(q[i], v[i], np.zeros(model.nv)))
        worst.compare("bias", bias[i], there.force_from(q[i], data.qfrc_bias + M @ rates))
    return worst, lost


def written(write, model) -> tuple[str, str]:
    """The text, and what of the model is not in it."""
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
