"""Tendons against MuJoCo: lengths, rates, moments and forces, with pulleys and wrapping; derivatives, energy and edits."""

import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax import forces
from rbd_jax.forces.wrapping import wrapped


XML = """
<mujoco><worldbody><site name="w" pos="-.3 .2 1.4"/>
<geom name="peg" type="cylinder" size=".08 .3" pos="-.1 0 1.2" euler="80 20 0"/>
<site name="aside" pos="-.1 .3 1.3"/>
<body name="a" pos="0 0 1"><joint name="swing" type="ball"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 -.4"/>
  <site name="a1" pos=".1 0 -.1"/><geom name="knee" type="sphere" size=".09" pos="0 0 -.4"/>
  <site name="front" pos=".12 0 -.4"/>
  <site name="within" pos=".02 0 -.4"/>
  <body name="b" pos="0 0 -.4"><joint name="bend" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 -.4"/>
    <site name="b1" pos=".05 .03 -.25"/><site name="b2" pos="-.15 .03 -.25"/>
    <body name="c" pos="0 0 -.4"><joint name="slide" type="slide" axis="0 0 1"/><geom size=".1"/>
      <site name="c1" pos="0 0 .1"/></body>
</body></body></worldbody>
<tendon>
  <fixed name="sum" stiffness="3" springlength=".1 .2" damping=".4"><joint joint="bend" coef="2"/>
    <joint joint="slide" coef="-1.5"/></fixed>
  <spatial name="string" stiffness="20" springlength=".5" damping="2"><site site="w"/><site site="a1"/><site site="c1"/></spatial>
  <spatial name="around" stiffness="9" springlength="0 .3"><site site="w"/><geom geom="peg" sidesite="aside"/><site site="a1"/>
    <geom geom="knee" sidesite="front"/><site site="b1"/></spatial>
  <spatial name="free side"><site site="a1"/><geom geom="knee"/><site site="b2"/></spatial>
  <spatial name="hoist" damping="1"><site site="w"/><site site="a1"/><pulley divisor="2"/>
    <site site="a1"/><geom geom="knee"/><site site="b1"/><pulley divisor="3"/><site site="b1"/><site site="c1"/></spatial>
</tendon></mujoco>
"""


@pytest.fixture(scope="module")
def both():
    model, theirs = rbd.load_mjcf(XML), mujoco.MjModel.from_xml_string(XML)
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    return model, theirs, rbd.interop.MujocoMap(model, theirs)


@jax.jit
def asked(model, q, v):
    motion = rbd.dynamics.Motion(model, q, v)
    carried = rbd.forces.carried_forces(model)
    return {
        "length": forces.tendon_lengths(model, q),
        "rate": forces.tendon_velocities(model, q, v),
        "moment": forces.tendon_moments(model, q),
        "force": sum(force.generalized_force(motion) for force in carried),
        "energy": sum(force.stored_energy(motion) for force in carried),
    }


def states(theirs, count):
    random = np.random.default_rng(1)
    for _ in range(count):
        data = mujoco.MjData(theirs)
        data.qpos[:] = theirs.qpos0 + 0.8 * random.normal(size=theirs.nq)
        mujoco.mj_normalizeQuat(theirs, data.qpos)
        data.qvel[:] = random.normal(size=theirs.nv)
        mujoco.mj_forward(theirs, data)
        yield data


@pytest.mark.slow
def test_as_mujoco(both):
    """Agreement to 1e-12, in states with and without wrapping."""
    model, theirs, to = both
    assert model.unsupported in ((), ("contacts between shapes",))
    wraps = set()
    for data in states(theirs, 12):
        q = to.configuration_from(data.qpos)
        v = to.velocity_from(q, data.qvel)
        found = asked(model, q, v)
        moments = np.zeros((theirs.ntendon, theirs.nv))
        source = theirs if hasattr(theirs, "ten_J_rownnz") else data
        places = source.ten_J_rownnz, source.ten_J_rowadr, np.ravel(source.ten_J_colind)
        mujoco.mju_sparse2dense(moments, np.ravel(data.ten_J), *places)
        assert_close(found["length"], data.ten_length, 1e-12)
        assert_close(found["rate"], data.ten_velocity, 1e-12)
        assert_close([to.force(q, row) for row in found["moment"]], moments, 1e-12)
        assert_close(to.force(q, found["force"]), data.qfrc_passive, 1e-12)
        wraps.add(tuple(data.ten_wrapnum.tolist()))
    assert len(wraps) > 2


SURFACE = """<mujoco><worldbody><site name="a" pos="1 .5 .1"/><site name="b" pos="1 1 .2"/><site name="s" pos=".2 -.02 .3"/>
<geom name="g" type="{}" size=".2 .5"/><body><joint type="slide"/><geom size=".01" pos="3 3 3"/></body></worldbody>
<tendon><spatial><site site="a"/><geom geom="g" {}/><site site="b"/></spatial></tendon></mujoco>"""


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, None, None))
def around(three, is_sphere, sided):
    """Returns the length of a string between two points around a surface, and whether it wraps; the third point is the
    side.
    """
    a, b, s = three
    found = wrapped(a, b, jnp.array(0.2), is_sphere, s, sided)
    norm = lambda x: jnp.sqrt(jnp.sum(x**2))
    whole = norm(a - found.first) + found.length + norm(b - found.second)
    return jnp.where(found.wraps, whole, norm(a - b)), found.wraps


@pytest.mark.parametrize("side", ["", 'sidesite="s"'], ids=["any side", "one side"])
@pytest.mark.parametrize("kind", ["cylinder", "sphere"])
def test_every_way_round(kind, side):
    """Strings between random points, with the side point inside and outside, wrap as in MuJoCo."""
    theirs = mujoco.MjModel.from_xml_string(SURFACE.format(kind, side))
    data, random = mujoco.MjData(theirs), np.random.default_rng(0)
    points = 0.4 * random.normal(size=(500, 3, 3))
    expected, wraps = [], []
    for three in points:
        theirs.site_pos[:] = three
        mujoco.mj_forward(theirs, data)
        expected.append(data.ten_length[0])
        wraps.append(data.ten_wrapnum[0] == 4)
    lengths, ours = around(points, np.array(kind == "sphere"), np.array(bool(side)))
    assert ours.tolist() == wraps and 50 < sum(wraps) < 450
    # MuJoCo computes strings inside a surface to seven digits.
    assert_close(lengths, expected, 1e-6 if side else 1e-12)


@pytest.mark.slow
def test_derivatives(both):
    """A moment is the derivative of a length, and a spring force that of its energy."""
    model, theirs, to = both
    still = jnp.zeros(model.nv)

    @jax.jit
    def by_q(q):
        def values(step):
            moved = rbd.integrate(model, q, step)
            motion = rbd.dynamics.Motion(model, moved)
            energy = sum(force.stored_energy(motion) for force in rbd.forces.carried_forces(model))
            return forces.tendon_lengths(model, moved), energy

        return jax.jacrev(values)(still)

    for data in states(theirs, 3):
        q = to.configuration_from(data.qpos)
        found = asked(model, q, still)
        by_length, by_energy = by_q(q)
        assert_close(by_length, found["moment"], 1e-12)
        assert_close(-by_energy, found["force"], 1e-12)


@pytest.mark.slow
def test_finite_where_lengths_vanish():
    """Two coincident points: the length is zero and derivatives are finite."""
    rope = forces.SpatialTendon("rope", [("upper", (0, 0, -1)), ("lower", (0, 0, 0))], 3.0, 0.2, 0.1)
    model = rbd.attach(rbd.load("double_pendulum"), rope)
    slopes = jax.jit(jax.jacfwd(lambda q: asked(model, q, jnp.ones(2))))(np.array([0.3, 0.0]))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


@pytest.mark.slow
def test_edits(both):
    model, theirs, to = both
    data = next(states(theirs, 1))
    q = to.configuration_from(data.qpos)
    v = to.velocity_from(q, data.qvel)
    expected = asked(model, q, v)
    renamed = rbd.rename(
        model, attached={("site", "a1"): "pin", ("tendon", "hoist"): "lift"}, joints={"slide": "rail"}
    )
    twice = rbd.concatenate(model, model, names=("x", "y"))
    assert renamed.tendons[0].joints == ("bend", "rail") and renamed.tendons[4].name == "lift"
    both_q, both_v = jnp.concatenate([q, q]), jnp.concatenate([v, v])
    assert_close(forces.tendon_lengths(renamed, q), expected["length"], 1e-14)
    assert_close(forces.tendon_lengths(twice, both_q), jnp.tile(expected["length"], 2), 1e-14)
    assert_close(forces.tendon_velocities(twice, both_q, both_v), jnp.tile(expected["rate"], 2), 1e-13)
    locked = rbd.lock_joints(model, {"slide": q[model.q_slice("slide")][0]})
    left = np.delete(np.arange(model.nq), np.arange(model.nq)[model.q_slice("slide")])
    fused = rbd.fuse_fixed(locked)
    assert_close(forces.tendon_lengths(fused, q[left])[1:], expected["length"][1:], 1e-13)
    shift = -1.5 * q[model.q_slice("slide")][0]
    assert_close(forces.tendon_lengths(fused, q[left])[0] + shift, expected["length"][0], 1e-13)


REFUSED = {
    "one point": (
        lambda: forces.SpatialTendon("t", [("world", (0, 0, 0))]),
        "SpatialTendon 't': a string of its path has 1 points",
    ),
    "none": (lambda: forces.SpatialTendon("t", []), "has 0 points"),
    "ends around": (
        lambda: forces.SpatialTendon("t", ["a", "b", forces.Around("world", (0, 0, 0), 1.0)]),
        "and then an Around",
    ),
    "begins around": (
        lambda: forces.SpatialTendon("t", [forces.Around("world", (0, 0, 0), 1.0), "a"]),
        "must stand between two points",
    ),
    "a number": (lambda: forces.SpatialTendon("t", ["a", 3]), "its path has 3; it takes points"),
    "no site": (
        lambda: rbd.attach(rbd.load("double_pendulum"), forces.SpatialTendon("t", ["a", "b"])),
        "there is no site 'a'",
    ),
    "no joints": (lambda: forces.FixedTendon("t", {}), "it takes {joint: number}"),
    "a torus": (lambda: forces.Around("world", (0, 0, 0), 1.0, "torus"), "it must be 'sphere' or 'cylinder'"),
    "free joint": (
        lambda: rbd.attach(rbd.load("quadruped"), forces.FixedTendon("t", {"trunk": 1.0})),
        "degrees of freedom; its coordinate can be taken only where there is one",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    make, message = REFUSED[case]
    with pytest.raises((ValueError, rbd.ModelError), match=message):
        make()
