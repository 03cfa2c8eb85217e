"""Every quantity that MuJoCo also computes, on the MJCF models of mujoco-mjx and brax.

`MujocoMap` converts MuJoCo's values into our conventions; they differ only for the free joint. MuJoCo's constraints
(contacts, limits, equalities, dry friction) are disabled, and so are the effects that `OTHERWISE` lists, which are not part
of a tree of bodies.
"""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_robots import STATES, Worst, compiled, mjcf_files, random_states, spread

import rbd_jax as rbd
from rbd_jax.files.mjcf import body_names, load_mjcf
from rbd_jax.interop import MujocoMap


mujoco = pytest.importorskip("mujoco")

TOLERANCE = 1e-8

#: Features of models that are not part of a tree, and are disabled in MuJoCo for the comparison.
OTHERWISE = {
    "gravity compensation": lambda m: fill(m, "jnt_actgravcomp", 0),
    "armature of tendons": lambda m: fill(m, "tendon_armature", 0),
    "springs at free joints": lambda m: m.jnt_stiffness.__setitem__(m.jnt_type == 0, 0),
    "nonlinear springs or dampers": lambda m: [
        fill(m, x, 0) for x in ("jnt_stiffnesspoly", "dof_dampingpoly")
    ],
}


#: Files that cannot be compared, with the reason.
NOTHING = {
    "mjx/actuator/arm26.xml": "MuJoCo's compiler fails at the length ranges of its muscles",
    "mjx/constraints.xml": "MuJoCo's compiler refuses its tendon over a ball joint",
    "mjx/ray.xml": "it has no bodies",
}

#: Quantities that are not compared, with the reason.
EXCEPTIONS = {
    ("mjx/actuator/general_dyntype.xml", "forward dynamics"): "a slide without any mass has no acceleration",
}


def fill(thing, name, value):
    getattr(thing, name)[:] = value


FILES = mjcf_files()

#: A few fast ones: series of hinges and slides, free joint, ball joints, offset anchors.
FAST = ("brax/ant.xml", "brax/hopper.xml", "mjx/pendula.xml", "mjx/humanoid/humanoid.xml")


def quantities(model, bodies):
    """Returns a function of one state that computes all compared quantities."""
    smooth = eqx.tree_at(lambda m: m.friction, model, np.zeros(model.friction.shape))

    carried = [one for one in rbd.forces.carried_forces(model) if not isinstance(one, rbd.actuators.Drive)]

    def of(q, v, a, tau):
        return {
            "placements": rbd.forward_kinematics(model, q),
            "jacobians": [rbd.jacobian(model, q, body, frame="world_aligned") for body in bodies],
            "mass matrix": rbd.mass_matrix(model, q),
            "bias": rbd.bias_force(model, q, v),
            "inverse dynamics": rbd.inverse_dynamics(model, q, v, a),
            "forward dynamics": rbd.forward_dynamics(model, q, v, tau),
            "passive": rbd.passive_force(smooth, q, v) + sum(force(model, q, v) for force in carried),
            "kinetic energy": rbd.kinetic_energy(model, q, v),
        }

    return of


def errors(name: str) -> Worst:
    """Returns the largest relative error of each quantity over the states."""
    path = FILES[name]
    mj_model = mujoco.MjModel.from_xml_path(str(path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_mjcf(path, contact=False)
    for warning in caught:
        for what, switch_off in OTHERWISE.items():
            if what in str(warning.message):
                switch_off(mj_model)
    disable, enable = mujoco.mjtDisableBit, mujoco.mjtEnableBit
    mj_model.opt.disableflags |= int(disable.mjDSBL_CONSTRAINT) | int(disable.mjDSBL_ACTUATION)
    mj_model.opt.enableflags |= int(enable.mjENBL_ENERGY)
    conversion = MujocoMap(model, mj_model)

    def to_mujoco(q, v, a, tau):
        return {
            "qpos": conversion.configuration(q),
            "qvel": conversion.velocity(q, v),
            "qacc": conversion.acceleration(q, v, a),
            "qfrc": conversion.force(q, tau),
            "drift": conversion.acceleration(q, v, jnp.zeros_like(a)),
            "T": conversion.velocity_matrix(q),
        }

    numbers = spread(range(1, mj_model.nbody), 3)
    indices = [model.body_index(name) for name in body_names(mj_model)[1:]]

    def everything(q, v, a, tau):
        return to_mujoco(q, v, a, tau), quantities(model, [indices[i - 1] for i in numbers])(q, v, a, tau)

    state = random_states(model)
    theirs, ours = jax.tree.map(np.asarray, compiled(jax.vmap(everything), *state)(*state))

    # A free joint with armature: its inertia acts on a slightly different acceleration in MuJoCo.
    free = mj_model.jnt_dofadr[mj_model.jnt_type == 0]
    weighed = any(mj_model.dof_armature[start : start + 6].any() for start in free)
    worst, data = Worst(), mujoco.MjData(mj_model)
    full = np.zeros((mj_model.nv, mj_model.nv))
    for i in range(STATES):
        s, one = jax.tree.map(lambda x, i=i: x[i], (theirs, ours))
        T = s["T"]
        data.qpos[:], data.qvel[:], data.qacc[:] = s["qpos"], s["qvel"], s["qacc"]
        mujoco.mj_inverse(mj_model, data)
        inverse = data.qfrc_inverse + data.qfrc_passive  # qfrc_inverse excludes passive forces
        data.qfrc_applied[:] = s["qfrc"] - data.qfrc_passive
        mujoco.mj_forward(mj_model, data)
        full_mass_matrix(mj_model, data, full)
        placed = one["placements"]
        worst.compare("positions", placed.position[indices], data.xpos[1:])
        worst.compare("rotations", placed.rotation[indices], data.xmat[1:].reshape(-1, 3, 3))
        jacobians = []
        for number in numbers:
            linear, angular = np.zeros((2, 3, mj_model.nv))
            mujoco.mj_jacBody(mj_model, data, linear, angular, number)
            jacobians.append(np.concatenate([angular, linear]) @ T)
        worst.compare("jacobians", one["jacobians"], jacobians)
        # Forces are dual to velocities: ours are Tᵀ times MuJoCo's.
        worst.compare("mass matrix", one["mass matrix"], T.T @ full @ T)
        worst.compare("passive", one["passive"], T.T @ data.qfrc_passive)
        worst.compare("kinetic energy", one["kinetic energy"], data.energy[1])
        if not weighed:
            worst.compare("bias", one["bias"], T.T @ (data.qfrc_bias + full @ s["drift"]))
            worst.compare("inverse dynamics", one["inverse dynamics"], T.T @ inverse)
            accelerations = np.linalg.solve(T, data.qacc - s["drift"])
            worst.compare("forward dynamics", one["forward dynamics"], accelerations)
    return worst


def full_mass_matrix(mj_model, data, full):
    """Handles the different arguments in MuJoCo 3 and 4."""
    try:
        mujoco.mj_fullM(mj_model, data, full)
    except TypeError:
        mujoco.mj_fullM(mj_model, full, data.qM)


def check(name: str):
    if name in NOTHING:
        pytest.skip(NOTHING[name])
    worst = errors(name)
    print(f"{name}: {worst}")
    wrong = {what: error for what, error in worst.items() if not error <= TOLERANCE}
    assert not [what for what in wrong if (name, what) not in EXCEPTIONS], wrong


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "brax/hopper.xml")) for name in FAST]
)
def test_models(name):
    if name not in FILES:
        pytest.skip("mujoco-mjx and brax are not installed")
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FILES if name not in FAST])
def test_all_models(name):
    check(name)
