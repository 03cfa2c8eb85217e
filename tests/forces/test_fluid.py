"""Both fluid models against MuJoCo's `qfrc_fluid`, and properties without MuJoCo."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax import forces


SWIMMER = """
<mujoco><option density="1.2" viscosity="{viscosity}" wind="0.3 -0.2 0.5"/><worldbody>
  <geom type="plane" size="1 1 1"/>
  <body pos="0 0 1"><freejoint/><geom type="capsule" size=".1 .2" euler="20 30 40" {fluid}/>
    <body pos="0 0 .4"><joint axis="0 1 0"/><geom type="ellipsoid" size=".1 .2 .3" pos="0 .1 .2" {fluid}/>
      <body pos=".4 0 0"><joint type="ball"/><geom type="box" size=".1 .2 .15" pos=".1 0 .2"/>
        <geom type="cylinder" size=".1 .2" pos="-.1 0 .2" euler="30 0 0" {fluid}/>
        <body pos="0 0 .3"><geom type="sphere" size=".1" {fluid}/></body>
</body></body></body></worldbody></mujoco>"""
FRAME = rbd.Transform(*map(jnp.asarray, (np.eye(3)[None], np.zeros((1, 3)))))
ELLIPSOIDS = 'fluidshape="ellipsoid" fluidcoef="0.4 0.3 1.2 0.9 0.8"'


@pytest.mark.parametrize("fluid", ["", ELLIPSOIDS], ids=["boxes", "ellipsoids"])
@pytest.mark.parametrize("viscosity", [pytest.param(0.0, marks=pytest.mark.slow), 0.3])
def test_as_mujoco(fluid, viscosity):
    xml = SWIMMER.format(fluid=fluid, viscosity=viscosity)
    theirs = mujoco.MjModel.from_xml_string(xml)
    data, model, rng = mujoco.MjData(theirs), rbd.load_mjcf(xml, strict=True), np.random.default_rng(0)
    between = rbd.interop.MujocoMap(model, theirs)

    @jax.jit
    def ask(model, qpos, qvel):
        q = between.configuration_from(qpos)
        v = between.velocity_from(q, qvel)
        return between.force(q, sum(force(model, q, v) for force in model.forces))

    for fused in (model, rbd.fuse_fixed(model)):
        data.qpos[:], data.qvel[:] = rng.normal(size=theirs.nq), 3 * rng.normal(size=theirs.nv)
        mujoco.mj_normalizeQuat(theirs, data.qpos)
        mujoco.mj_forward(theirs, data)
        assert_close(ask(fused, data.qpos, data.qvel), data.qfrc_fluid, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("family", [forces.BoxDrag, forces.EllipsoidDrag])
def test_in_its_own_wind_a_body_feels_nothing(family):
    """At rest in the fluid, the force is zero and derivatives are finite: linear drag remains, quadratic drag vanishes."""
    builder = rbd.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body("ball", joint=rbd.joints.Free(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    model, wind = builder.build(), np.array([0.3, -0.2, 0.5])
    drag = family("ball", FRAME, [[0.1, 0.2, 0.3]], 1.2, 0.3, wind)

    @jax.jit
    def ask(q, v):
        return drag(model, q, v), drag.damping(model, q, v), drag.stiffness(model, q, v)

    force, damping, stiffness = ask(rbd.neutral(model), np.concatenate([np.zeros(3), wind]))
    assert_close(force, np.zeros(6), 1e-15)
    assert np.isfinite(stiffness).all()
    size = 0.2 if family is forces.BoxDrag else 0.4
    expected = 0.3 * np.pi * size * np.array([size**2] * 3 + [3.0] * 3)
    assert_close(damping, np.diag(expected), 1e-12)


def test_what_is_refused():
    with pytest.raises(rbd.ModelError, match="placements must have one frame per body"):
        forces.BoxDrag(("a", "b"), FRAME, np.ones((2, 3)))
    with pytest.raises(ValueError, match="EllipsoidDrag: semiaxes is .*; it must be greater than 0"):
        forces.EllipsoidDrag("a", FRAME, [[0.0, 1.0, 1.0]])
    with pytest.raises(ValueError, match="BoxDrag: density is -1"):
        forces.BoxDrag("a", FRAME, [[1.0, 1.0, 1.0]], -1.0)
