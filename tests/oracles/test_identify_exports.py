"""Identified models, exported as URDF for Pinocchio and as MJCF for MuJoCo, have the same M(q) and h(q, v).

Identified joint parameters are exported if the format supports them.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_robots import STATES, Worst, compiled, random_states

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.interop import MujocoMap, PinocchioMap


#: Identified parameters are written with all digits, so only rounding errors remain.
TOLERANCE = 1e-9
JOINTS = (identify.damping, identify.coulomb, identify.armature)


def arm():
    """Returns the nominal arm, and the true one with a payload, friction and other rotor inertias."""
    bought = rbd.fuse_fixed(rbd.detach(rbd.load("arm7"), "shape", "actuator", "sensor", "keyframe"))
    bought = replace(bought, velocity_limit=jax.device_put(np.full(7, np.inf)))  # MJCF has no velocity limits
    parameters, size = np.array(bought.inertias.parameters), np.linspace(1, 0.3, 7)
    parameters[6] += rbd.Inertia.sphere(2.0, 0.08, (0.02, 0.01, 0.16)).parameters
    true = replace(
        bought,
        inertias=rbd.Inertia.from_parameters(jax.device_put(parameters)),
        friction=jnp.asarray(0.8 * size),
        damping=jnp.asarray(0.9 * size),
        armature=jax.device_put(np.asarray(bought.armature) + 0.05 * size),
    )
    return bought, true, [identify.inertias("link7"), *(kind() for kind in JOINTS)]


def floating():
    """Returns a floating box with a tail; their initial inertias are wrong."""
    builder = rbd.ModelBuilder(name="floating")
    tail = rbd.Inertia.box(1.0, (0.1, 0.1, 0.5), (0.0, 0.0, -0.25))
    hip = rbd.Transform.from_xyz_rpy((0.0, 0.1, -0.2))
    builder.add_body("trunk", "world", rbd.joints.Free(), inertia=rbd.Inertia.box(3.0, (0.2, 0.3, 0.4)))
    builder.add_body("tail", "trunk", rbd.joints.Revolute((1, 0, 0)), hip, inertia=tail, joint_name="hinge")
    thought = builder.build()
    roots = np.linalg.cholesky(thought.inertias.pseudo_inertia)
    roots = roots @ (np.eye(4) + 0.2 * np.random.default_rng(3).normal(size=(2, 4, 4)))
    hinge = np.eye(7)[6]
    true = replace(
        thought,
        inertias=rbd.Inertia.from_pseudo_inertia(jax.device_put(roots @ np.swapaxes(roots, 1, 2))),
        damping=jnp.asarray(0.2 * hinge),
        friction=jnp.asarray(0.1 * hinge),
        armature=jnp.asarray(0.03 * hinge),
    )
    return thought, true, [identify.inertias(), *(kind("hinge") for kind in JOINTS)]


@pytest.fixture(scope="module", params=[pytest.param(arm, marks=pytest.mark.slow), floating])
def identified(request):
    """The model identified from a log of positions, and torques with 1 % noise; it is close to the true model."""
    thought, true, free = request.param()
    random, t = np.random.default_rng(0), np.arange(800) / 200
    speed = 2 * np.pi * random.uniform(0.3, 0.9, (2, true.nv))
    ways = np.sum(np.sin(speed * t[:, None, None]) * random.uniform(0.3, 0.8, (2, true.nv)), axis=1)
    q = np.asarray(jax.jit(jax.vmap(lambda way: rbd.integrate(true, rbd.neutral(true), way)))(ways))
    known = identify.with_rates(true, identify.Log(t, q), cutoff=20.0)
    motion = [getattr(known, name).values for name in "qva"]
    needed = jax.vmap(lambda q, v, a: rbd.inverse_dynamics(true, q, v, a) - rbd.passive_force(true, q, v))
    tau = np.asarray(compiled(needed, *motion)(*motion))
    tau = tau + 0.01 * np.nanstd(tau, axis=0) * random.normal(size=tau.shape)
    found = identify.physical_least_squares(thought, identify.Log(t, *motion, tau), free)
    off = found.seen.grouping @ (found.values - np.asarray(found.parameters.values_of(true)))
    assert found.converged and (np.abs(off) < 5 * found.base_standard_errors).all()
    return found.model


def ours(model):
    """Returns states, and the mass matrix and bias force there."""
    q, v, *_ = random_states(model)
    both = jax.vmap(lambda q, v: (rbd.mass_matrix(model, q), rbd.bias_force(model, q, v)))
    return q, v, *(np.asarray(x) for x in compiled(both, q, v)(q, v))


def test_in_pinocchio(identified, tmp_path):
    """URDF has no armature, which causes a warning; M in Pinocchio equals ours without it."""
    pin = pytest.importorskip("pinocchio")
    with pytest.warns(rbd.ModelWarning, match="armature"):
        rbd.save_urdf(identified, tmp_path / "found.urdf")
    theirs = pin.buildModelFromUrdf(str(tmp_path / "found.urdf"))
    there, data, worst = PinocchioMap(identified, theirs), theirs.createData(), Worst()
    q, v, mass, bias = ours(identified)
    to = jax.jit(jax.vmap(lambda q, v: (there.configuration(q), there.velocity(v))))
    masses, forces = [], []
    for q_pin, v_pin in zip(*map(np.asarray, to(q, v)), strict=True):
        upper = np.triu(pin.crba(theirs, data, q_pin))
        masses.append(upper + np.triu(upper, 1).T)
        forces.append(pin.nonLinearEffects(theirs, data, q_pin, v_pin).copy())
    forces += [np.asarray(theirs.damping), np.asarray(friction_of(theirs))]
    known = np.asarray(jax.jit(jax.vmap(there.matrix_from))(np.array(masses)))
    *biases, damping, friction = np.asarray(jax.jit(jax.vmap(there.force_from))(np.array(forces)))
    for i in range(STATES):
        worst.compare("mass matrix", mass[i], known[i] + np.diag(identified.armature))
        worst.compare("bias", bias[i], biases[i])
    for name, values in (("damping", damping), ("friction", friction)):
        worst.compare(name, getattr(identified, name), values)
    print(worst)
    assert all(error <= TOLERANCE for error in worst.values()), worst


def friction_of(theirs):
    """Newer versions store friction by direction."""
    return theirs.friction if hasattr(theirs, "friction") else theirs.upperDryFrictionLimit


def test_in_mujoco(identified, tmp_path):
    mujoco = pytest.importorskip("mujoco")
    rbd.save_mjcf(identified, tmp_path / "found.xml", strict=True)
    theirs = mujoco.MjModel.from_xml_path(str(tmp_path / "found.xml"))
    there, data, worst = MujocoMap(identified, theirs), mujoco.MjData(theirs), Worst()
    q, v, mass, bias = ours(identified)

    def to(q, v):
        # Our velocity of a free joint rotates with the body, so the same motion has a different rate.
        rates = there.acceleration(q, v, np.zeros(identified.nv))
        return there.configuration(q), there.velocity(q, v), rates, there.velocity_matrix(q)

    qpos, qvel, rates, turn = map(np.asarray, jax.jit(jax.vmap(to))(q, v))
    M, forces = np.zeros((theirs.nv, theirs.nv)), []
    for i in range(STATES):
        data.qpos[:], data.qvel[:] = qpos[i], qvel[i]
        mujoco.mj_forward(theirs, data)
        mujoco.mj_fullM(theirs, M, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(theirs, data, M)
        worst.compare("mass matrix", mass[i], turn[i].T @ M @ turn[i])
        forces.append(data.qfrc_bias + M @ rates[i])
    fields = {"damping": "dof_damping", "friction": "dof_frictionloss", "armature": "dof_armature"}
    # These are all zero for a free joint, so its rotating frames do not matter.
    forces += [getattr(theirs, field) for field in fields.values()]
    states = np.concatenate([q, q[:1].repeat(len(fields), axis=0)])
    found = np.asarray(jax.jit(jax.vmap(there.force_from))(states, np.array(forces)))
    for i in range(STATES):
        worst.compare("bias", bias[i], found[i])
    for name, values in zip(fields, found[STATES:], strict=True):
        worst.compare(name, getattr(identified, name), values)
    print(worst)
    assert all(error <= TOLERANCE for error in worst.values()), worst
