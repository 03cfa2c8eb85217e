"""Identified models elsewhere: written as URDF for Pinocchio and as MJCF for MuJoCo, they have M(q) and h(q, v) of ours, and
what was identified of the joints where the format has it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_robots import STATES, Worst, compiled, random_states

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.interop import MujocoMap, PinocchioMap


#: Identified numbers are written with all their digits: what is left is rounding.
TOLERANCE = 1e-9
JOINTS = (identify.damping, identify.coulomb, identify.armature)


def arm():
    """An arm as it was bought, and as it is: with a payload, friction and other rotors."""
    bought = rbd.fuse_fixed(rbd.detach(rbd.load("arm7"), "shape", "actuator", "sensor", "keyframe"))
    bought = replace(bought, velocity_limit=jnp.full(7, jnp.inf))  # of which MJCF knows nothing
    carried = rbd.Inertia.sphere(2.0, 0.08, (0.02, 0.01, 0.16)).parameters
    size = jnp.linspace(1, 0.3, 7)
    true = replace(
        bought,
        inertias=rbd.Inertia.from_parameters(bought.inertias.parameters.at[6].add(carried)),
        friction=0.8 * size,
        damping=0.9 * size,
        armature=bought.armature + 0.05 * size,
    )
    return bought, true, [identify.inertias("link7"), *(kind() for kind in JOINTS)]


def floating():
    """A box that floats, with a tail, both of them other bodies than was thought."""
    builder = rbd.ModelBuilder(name="floating")
    tail = rbd.Inertia.box(1.0, (0.1, 0.1, 0.5), (0.0, 0.0, -0.25))
    hip = rbd.Transform.from_xyz_rpy((0.0, 0.1, -0.2))
    builder.add_body("trunk", "world", rbd.joints.Free(), inertia=rbd.Inertia.box(3.0, (0.2, 0.3, 0.4)))
    builder.add_body("tail", "trunk", rbd.joints.Revolute((1, 0, 0)), hip, inertia=tail, joint_name="hinge")
    thought = builder.build()
    roots = jnp.linalg.cholesky(thought.inertias.pseudo_inertia)
    roots = roots @ (jnp.eye(4)[None] + 0.2 * np.random.default_rng(3).normal(size=(2, 4, 4)))
    hinge = jnp.zeros(7).at[6].set(1.0)
    true = replace(
        thought,
        inertias=rbd.Inertia.from_pseudo_inertia(roots @ jnp.swapaxes(roots, 1, 2)),
        damping=0.2 * hinge,
        friction=0.1 * hinge,
        armature=0.03 * hinge,
    )
    return thought, true, [identify.inertias(), *(kind("hinge") for kind in JOINTS)]


@pytest.fixture(scope="module", params=[arm, floating])
def identified(request):
    """What is found in a log of positions and of torques, these with 1 % of noise; it is near the truth."""
    thought, true, free = request.param()
    random, t = np.random.default_rng(0), np.arange(800) / 200
    speed = 2 * np.pi * random.uniform(0.3, 0.9, (2, true.nv))
    ways = np.sum(np.sin(speed * t[:, None, None]) * random.uniform(0.3, 0.8, (2, true.nv)), axis=1)
    q = np.asarray(jax.vmap(lambda way: rbd.integrate(true, rbd.neutral(true), way))(ways))
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
    """States, and the mass matrix and bias force there."""
    q, v, *_ = random_states(model)
    both = jax.vmap(lambda q, v: (rbd.mass_matrix(model, q), rbd.bias_force(model, q, v)))
    return q, v, *(np.asarray(x) for x in compiled(both, q, v)(q, v))


def test_in_pinocchio(identified, tmp_path):
    """URDF has no armature, which is told; there M is ours without it."""
    pin = pytest.importorskip("pinocchio")
    with pytest.warns(rbd.ModelWarning, match="armature"):
        rbd.save_urdf(identified, tmp_path / "found.urdf")
    theirs = pin.buildModelFromUrdf(str(tmp_path / "found.urdf"))
    there, data, worst = PinocchioMap(identified, theirs), theirs.createData(), Worst()
    q, v, mass, bias = ours(identified)
    for i in range(STATES):
        q_pin, v_pin = np.asarray(there.configuration(q[i])), np.asarray(there.velocity(v[i]))
        upper = np.triu(pin.crba(theirs, data, q_pin))
        known = there.matrix_from(upper + np.triu(upper, 1).T) + np.diag(identified.armature)
        worst.compare("mass matrix", mass[i], known)
        worst.compare("bias", bias[i], there.force_from(pin.nonLinearEffects(theirs, data, q_pin, v_pin)))
    for name, values in (("damping", theirs.damping), ("friction", friction_of(theirs))):
        worst.compare(name, getattr(identified, name), there.force_from(np.asarray(values)))
    print(worst)
    assert all(error <= TOLERANCE for error in worst.values()), worst


def friction_of(theirs):
    """Newer ones have it by direction."""
    return theirs.friction if hasattr(theirs, "friction") else theirs.upperDryFrictionLimit


def test_in_mujoco(identified, tmp_path):
    mujoco = pytest.importorskip("mujoco")
    rbd.save_mjcf(identified, tmp_path / "found.xml", strict=True)
    theirs = mujoco.MjModel.from_xml_path(str(tmp_path / "found.xml"))
    there, data, worst = MujocoMap(identified, theirs), mujoco.MjData(theirs), Worst()
    q, v, mass, bias = ours(identified)
    turn, M = np.asarray(jax.vmap(there.velocity_matrix)(q)), np.zeros((theirs.nv, theirs.nv))
    for i in range(STATES):
        data.qpos[:], data.qvel[:] = there.configuration(q[i]), there.velocity(q[i], v[i])
        mujoco.mj_forward(theirs, data)
        mujoco.mj_fullM(theirs, M, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(theirs, data, M)
        worst.compare("mass matrix", mass[i], turn[i].T @ M @ turn[i])
        # Where our velocity of a free joint turns with the body, the same motion has another rate of it.
        rates = np.asarray(there.acceleration(q[i], v[i], np.zeros(identified.nv)))
        worst.compare("bias", bias[i], there.force_from(q[i], data.qfrc_bias + M @ rates))
    fields = {"damping": "dof_damping", "friction": "dof_frictionloss", "armature": "dof_armature"}
    for name, field in fields.items():
        # Of a free joint all are zero, so that its turning frames do not matter.
        worst.compare(name, getattr(identified, name), there.force_from(q[0], getattr(theirs, field)))
    print(worst)
    assert all(error <= TOLERANCE for error in worst.values()), worst
