"""Soft equality constraints and the schemes of MJCF files against MuJoCo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd


mujoco = pytest.importorskip("mujoco")

SCENE = """<mujoco><option timestep="0.004"/><worldbody><geom type="plane" size="5 5 1"/>
<body name="a" pos="0 0 1"><freejoint/><geom type="box" size=".1 .2 .05" mass="1"/><site name="sa" pos=".1 0 0" euler="10 20 30"/>
 <body name="b" pos=".3 0 0"><joint name="j1" axis="0 1 0" ref="10"/><geom type="capsule" size=".03 .1" mass=".5"/>
 <body name="c" pos=".3 0 0"><joint name="j2" axis="0 0 1"/><joint name="j3" type="slide" axis="1 0 0" stiffness="5"/>
  <geom type="sphere" size=".05" mass=".3"/><site name="sc"/></body></body></body>
<body name="d" pos="0 1 1"><freejoint/><geom type="sphere" size=".1" mass="2" pos=".02 0 0"/>
 <site name="sd" pos="0 .1 0" euler="0 40 0"/></body>
<body name="e" pos="1 1 1"><joint name="ball" type="ball" damping=".1"/>
 <geom type="capsule" size=".03 .1" mass=".5" pos=".1 0 0"/><site name="se" pos=".2 0 0"/></body></worldbody>
<tendon><fixed name="t1"><joint joint="j1" coef="1"/><joint joint="j2" coef="-.5"/></fixed>
<spatial name="t2" damping=".2"><site site="sa"/><site site="sd"/></spatial></tendon>
<equality>%s</equality>
<actuator><position joint="j1" kp="20" kv="1"/><velocity tendon="t2" kv=".3"/><general joint="j2" dyntype="filter" dynprm=".03"/>
<general joint="j3" dyntype="filterexact" dynprm=".03" actlimited="true" actrange="-.1 .1"/></actuator></mujoco>"""

#: Constraints of all types, in two scenes: of bodies and coordinates, and of sites, tendons and the world.
EQUALITIES = {
    "bodies": """<connect body1="a" body2="d" anchor=".2 .1 0" solref="0.03 .8"/>
<weld body1="c" body2="e" anchor=".1 .2 .3" relpose=".1 0 .2 .8 .6 0 0" solimp=".5 .9 .3 .4 3" torquescale=".3"/>
<joint joint1="j1" joint2="j2" polycoef=".1 2 .3 -.2 .1"/>""",
    "sites": """<connect site1="sa" site2="sd"/><weld site1="sc" site2="se" torquescale="2"/>
<joint joint1="j3" polycoef=".1 0 0 0 0"/>
<tendon tendon1="t1" tendon2="t2" polycoef=".1 .5 .2 0 0"/><connect body1="d" anchor="0 .1 .2" solref="-300 -10"/>""",
}
CONTROLS = jnp.array([0.3, -0.2, 0.5, 0.4])


def scene(name, integrator="Euler"):
    """Returns the model, MuJoCo's model with an exact solver, and its data at a random velocity."""
    text = (SCENE % EQUALITIES[name]).replace(
        'timestep="0.004"', f'timestep="0.004" integrator="{integrator}"'
    )
    there = mujoco.MjModel.from_xml_string(text)
    there.opt.tolerance, there.opt.iterations, there.opt.ls_iterations = 1e-15, 200, 200
    data = mujoco.MjData(there)
    data.qvel[:] = 0.5 * np.random.default_rng(0).normal(size=there.nv)
    data.ctrl[:] = CONTROLS
    return rbd.load_mjcf(text), there, data


def start(model, there, data):
    state = rbd.interop.MujocoMap(model, there).state(data)
    return rbd.State(state.q, state.v, jnp.asarray(data.act))


def test_of_a_double_pendulum():
    text = """<mujoco><worldbody><body name="a"><joint name="j1" axis="0 1 0"/><geom type="capsule" size=".03 .1" pos="0 0 -.2"/>
<body name="b" pos="0 0 -.4"><joint name="j2" axis="0 1 0" damping=".1"/><geom type="capsule" size=".03 .1" pos="0 0 -.2"/></body>
</body></worldbody><equality><connect body1="b" anchor=".1 0 -.4"/>
<joint joint1="j1" joint2="j2" polycoef=".1 .5 0 0 0"/></equality></mujoco>"""
    model, there = rbd.load_mjcf(text), mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(there)
    data.qvel[:] = 0.5, -0.3
    state = rbd.State(jnp.zeros(2), jnp.asarray(data.qvel))
    path = rbd.rollout(model, state, dt=0.002, steps=20)
    mujoco.mj_step(there, data, 20)
    assert_close(path.q[-1], data.qpos, 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "integrator"), [("bodies", "Euler"), ("sites", "implicitfast")])
def test_motions_are_mujocos(name, integrator):
    model, there, data = scene(name, integrator)
    assert not model.unsupported and not model.constraints
    state, back = start(model, there, data), rbd.interop.MujocoMap(model, there)
    path = jax.jit(
        lambda state: rbd.rollout(model, state, lambda t, x: rbd.Controls(CONTROLS), dt=0.004, steps=40)
    )(state)
    for step in (1, 40):
        while round(data.time / 0.004) < step:
            mujoco.mj_step(there, data)
        assert_close(path.q[step], back.state(data).q, 1e-9, f"q after {step}")
        assert_close(path.v[step], back.state(data).v, 1e-7, f"v after {step}")
        assert_close(path.own[step], data.act, 1e-12, f"act after {step}")


@pytest.mark.slow
def test_what_is_written_is_read_again():
    model, there, data = scene("sites")
    again = rbd.load_mjcf(rbd.to_mjcf(model))
    state = start(model, there, data)
    found = [
        jax.jit(lambda s, one=one: rbd.acceleration(one, s, rbd.Controls(CONTROLS)))(state)
        for one in (model, again)
    ]
    assert_close(found[1], found[0], 1e-9)


@pytest.mark.slow
def test_derivatives():
    model, there, data = scene("bodies")
    state = start(model, there, data)

    def after(shift):
        soft = rbd.attach(
            rbd.detach(model, "soft equality"),
            *(one.changed(solref=one.solref * (1 + shift[-1])) for one in model.attached_as("soft equality")),
        )
        q = rbd.integrate(model, state.q, shift[0] * state.v)
        return jnp.sum(
            rbd.acceleration(soft, rbd.State(q, state.v + shift[1], state.own), rbd.Controls(CONTROLS))
        )

    slope = jax.jit(jax.grad(after))(jnp.zeros(3))
    after = jax.jit(after)
    ends = [[after(sign * 1e-7 * np.eye(3)[k]) for sign in (1, -1)] for k in range(3)]
    assert_close(slope, np.array([(a - b) / 2e-7 for a, b in ends]), 1e-5)


@pytest.mark.slow
def test_at_rest_in_place_derivatives_are_finite():
    """The norm of a zero residual has no derivative."""
    coupling = rbd.constraints.CoordinateCoupling({"elbow": (0.0, 1.0), "shoulder": (0.0, -1.0)})
    pin = rbd.constraints.Connect("world", (0.0, 0.0, -2.0), "lower", (0.0, 0.0, -1.0))
    model = rbd.attach(
        rbd.load("double_pendulum"),
        rbd.contact.SoftEquality(coupling),
        rbd.contact.SoftEquality(pin),
        rbd.contact.Soft(),
    )
    value = lambda x: jnp.sum(rbd.acceleration(model, rbd.State(x[:2], x[2:])) ** 2)
    for at in (jnp.zeros(4), jnp.array([0.2, 0.2, 0.0, 0.0])):
        assert jnp.all(jnp.isfinite(jax.jit(jax.hessian(value))(at)))


@pytest.mark.slow
def test_rigid_contact_closes_them_in_each_step():
    coupling = rbd.constraints.CoordinateCoupling({"elbow": (0.0, 1.0), "shoulder": (0.0, -1.0)})
    tie = rbd.contact.SoftEquality(coupling)
    model = rbd.attach(rbd.load("double_pendulum"), tie, rbd.contact.Rigid())
    state = rbd.State(jnp.array([0.5, 0.4]), jnp.array([0.0, 1.0]))
    path = rbd.rollout(model, state, dt=0.002, steps=50)
    # `Rigid` has a small compliance.
    assert_close(path.q[1:, 0], path.q[1:, 1], 1e-8)


def test_errors():
    pin = rbd.contact.SoftEquality(rbd.constraints.Connect("world", (0, 0, -2), "lower", (0, 0, -1)))
    model = rbd.attach(rbd.load("double_pendulum"), pin)
    with pytest.raises(rbd.ModelError, match="has soft equality constraints and no contact model"):
        rbd.rollout(model, rbd.State(jnp.zeros(2), jnp.zeros(2)), dt=0.01, steps=1)
    with pytest.raises(rbd.ModelError, match="the contact model Hard"):
        rbd.acceleration(rbd.attach(model, rbd.contact.Hard()), rbd.State(jnp.zeros(2), jnp.zeros(2)))
    with pytest.raises(rbd.ModelError, match="constrains velocities alone"):
        rbd.contact.SoftEquality(rbd.constraints.KnifeEdge("world", "lower", (0, 0, 0)))
    text = SCENE % EQUALITIES["bodies"]
    hard = rbd.load_mjcf(text, equalities="hard")
    assert len(hard.constraints) == 3 and "softness of equality constraints" in hard.unsupported
