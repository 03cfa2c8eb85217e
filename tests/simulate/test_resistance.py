"""Damping, springs, soft limits and dry friction at the end of a step: stability, and exact Coulomb friction."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from support import assert_each_close

import rbd_jax as rbd
from rbd_jax import constraints, forces, joints
from rbd_jax.simulate._resistance import Resistance, resisted


DT = 0.005
ROTOR = rbd.Inertia.from_mass_com(0.1, (0.0, 0.0, 0.0), 2e-4 * np.eye(3))
ROD = rbd.Inertia.from_mass_com(1.2, (0.3, 0.0, 0.1), np.diag([0.02, 0.05, 0.04]))
TIP = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))

IMPLICIT = [
    rbd.SemiImplicitEuler(),
    pytest.param(rbd.LinearlyImplicitEuler(), marks=pytest.mark.slow, id="LinearlyImplicitEuler"),
]


def rotor(inertia=ROTOR, **along):
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0), name="rotor")
    builder.add_body("rotor", joint=joints.Revolute(), inertia=inertia, **along)
    return builder.build()


def chain(links=4, **along):
    builder = rbd.ModelBuilder(name="chain")
    parent = "world"
    for i in range(links):
        axis = [(0.0, 1.0, 0.0), (1.0, 0.3, 0.0)][i % 2]
        builder.add_body(f"{i}", parent, joints.Revolute(axis), TIP, ROD, **along)
        parent = f"{i}"
    return builder.build()


def with_friction(model, sizes):
    return dataclasses.replace(model, friction=jnp.asarray(np.asarray(sizes, float)))


@functools.partial(jax.jit, static_argnums=(3, 4))
def _run(model, state, controls, scheme, stabilization):
    return rbd.rollout(model, state, controls, dt=DT, scheme=scheme, stabilization=stabilization)


def run(model, q, v, controls, scheme=None, stabilization="auto"):
    state = rbd.State(np.asarray(q, float), np.asarray(v, float))
    path = _run(model, state, np.asarray(controls, float), scheme or rbd.SemiImplicitEuler(), stabilization)
    return jax.tree.map(np.asarray, path)


@pytest.mark.parametrize("scheme", IMPLICIT)
def test_a_rotor_with_friction(scheme):
    """It stops within a step, sticks, and breaks loose."""
    model = rotor(friction=0.5)
    stopped = run(model, [0.0], [1.0], np.zeros((3, 1)), scheme)
    assert np.abs(stopped.v[1:]).max() < 1e-9 and np.abs(stopped.q).max() < 1e-9
    assert np.abs(run(model, [0.0], [0.0], np.full((3, 1), 0.499), scheme).v).max() < 1e-9
    loose = run(model, [0.0], [0.0], np.full((3, 1), -0.6), scheme)
    assert_each_close(loose.v[:, 0], -0.1 * DT / 2e-4 * np.arange(4), 1e-8)
    sliding = run(model, [0.0], [50.0], np.zeros((3, 1)), scheme)
    assert_each_close(sliding.v[:, 0], 50 - 0.5 * DT / 2e-4 * np.arange(4), 1e-8)


def coulomb(model, state, tau, v):
    """Returns the friction implied by the final velocity v, and its violation of Coulomb's law."""
    ahead = dataclasses.replace(model, armature=model.armature + DT * model.damping)
    a = (v - state.v) / DT
    push = tau - model.damping * state.v - rbd.inverse_dynamics(ahead, state.q, state.v, a)
    slides = jnp.abs(v) > 1e-9
    return jnp.where(
        slides, push - jnp.sign(v) * model.friction, jnp.maximum(jnp.abs(push) - model.friction, 0)
    )


def test_joints_stick_and_slide_together():
    """Each joint of a coupled chain satisfies Coulomb's law at the end of the step, for any state of the others."""
    rng, count = np.random.default_rng(0), 60
    model = with_friction(chain(damping=0.1), [3.0, 2.0, 1.0, 0.5])
    q = rng.normal(size=(count, 4))
    v = rng.normal(size=(count, 4)) * rng.choice([0.0, 1e-3, 0.05, 1.0], size=(count, 4))
    push = 3 * rng.normal(size=(count, 4))

    @jax.jit
    @jax.vmap
    def step(state, push):
        tau = rbd.gravity_force(model, state.q) + push
        end = _run(model, state, tau[None], rbd.SemiImplicitEuler(), "auto").v[1]
        return end, coulomb(model, state, tau, end)

    end, broken = step(rbd.State(q, v), push)
    assert np.abs(broken).max() < 1e-6
    sticking = (np.abs(end) < 1e-9).mean()
    assert 0.1 < sticking < 0.9


def test_no_friction_no_search():
    """Without friction in the model, there is no search."""
    extra = (
        lambda model, state, t: state.v,
    )  # a plain function prevents separate compilation of the equations

    def step(model, q):
        return rbd.rollout(model, rbd.State(q, q), dt=DT, steps=1, forces=extra).q

    for model, loops in ((chain(), 0), (chain(friction=0.1), 1)):
        traced = str(jax.make_jaxpr(functools.partial(step, model))(np.zeros(4)))
        assert traced.count("while[") == loops


TWO_LINKS = """<mujoco><option timestep="0.005" integrator="implicitfast"/><worldbody><body pos="0 0 1">
<joint axis="0 1 0" damping="0.5"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size=".02" mass="1"/>
<body pos="0.3 0 0"><joint axis="0 1 0" damping="0.5"/><geom type="capsule" fromto="0 0 0 0.1 0 0" size=".01" mass="0.02"/>
</body></body></worldbody></mujoco>"""


def test_strong_damping_is_as_in_mujoco(tmp_path):
    """The damping of a light link would make explicit steps diverge."""
    (tmp_path / "two.xml").write_text(TWO_LINKS)
    model, of_mujoco = rbd.load_mjcf(tmp_path / "two.xml"), mujoco.MjModel.from_xml_string(TWO_LINKS)
    data, expected = mujoco.MjData(of_mujoco), []
    data.qvel[:] = 1.0, -2.0
    for _ in range(100):
        mujoco.mj_step(of_mujoco, data)
        expected.append(data.qpos.copy())
    path = run(model, [0.0, 0.0], [1.0, -2.0], np.zeros((100, 2)))
    assert_each_close(path.q[1:], np.array(expected), 1e-10)
    explicit = run(
        model, [0.0, 0.0], [1.0, -2.0], np.zeros((100, 2)), rbd.SemiImplicitEuler(passive="explicit")
    )
    assert explicit.code != rbd.Result.SUCCESS


@pytest.mark.parametrize("stiffness", [0.5, pytest.param(1e6, id="stiff")])
def test_springs_lose_no_energy(stiffness):
    """Springs of any stiffness are stable; stiff ones are softened according to the step."""
    model = rotor(inertia=rbd.Inertia.from_mass_com(1.0, (0.0, 0.0, 0.0), np.eye(3)), stiffness=stiffness)
    path = run(model, [0.1], [0.0], np.zeros((2000, 1)))
    softened = stiffness / (1 + 0.5 * DT**2 * stiffness)
    q, v = np.asarray(path.q[:, 0]), np.asarray(path.v[:, 0])
    kept = v**2 + softened * q**2 - DT * softened * q * v
    np.testing.assert_allclose(kept, kept[0], rtol=1e-9)
    assert np.abs(q).max() < 0.15


def test_stiff_stops_hold():
    """A rod falls onto a limit too stiff for explicit steps, and comes to rest there."""
    model = chain(1, upper=0.2, lower=-0.2)
    model = rbd.add_forces(model, forces.JointLimit(1e6, 1e4, 1e-3))
    path = run(model, [0.0], [0.0], np.zeros((400, 1)))
    assert path.code == rbd.Result.SUCCESS
    assert 0.2 < path.q[-1, 0] < 0.202 and np.abs(path.v[-1]).max() < 1e-3 and path.q.max() < 0.25


def test_explicit_is_what_it_was():
    model = with_friction(chain(2, damping=0.3, stiffness=2.0), [0.4, 0.3])
    q, v, tau = np.random.default_rng(3).normal(size=(3, 2))
    path = run(model, q, v, tau[None], rbd.SemiImplicitEuler(passive="explicit"))
    push = lambda q, v, tau: rbd.forward_dynamics(model, q, v, tau + rbd.passive_force(model, q, v))
    assert_each_close(path.v[1], v + DT * np.asarray(jax.jit(push)(q, v, tau)), 1e-12)


def four_bar(loop, **along):
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="four-bar")
    rod = rbd.Inertia.box(1.0, (1.0, 0.05, 0.05), (0.5, 0.0, 0.0))
    builder.add_body("crank", "world", joints.Revolute(), inertia=rod, **along)
    builder.add_body("coupler", "crank", joints.Revolute(), TIP, rod, **along)
    builder.add_body("follower", "world", joints.Revolute(), TIP, rod, **along)
    if loop:
        builder.add_constraint(constraints.HingeLoop("coupler", TIP, "follower", TIP))
    return builder.build()


def rhombus(y):
    return jnp.concatenate([y, -y, y])


@pytest.mark.slow
def test_with_loops_and_in_fewer_variables():
    """A rhombus with friction, dampers and springs, closed by a constraint and by a function, sliding and sticking."""
    tau = np.zeros((5, 3))
    for rate, friction in ((2.0, 2.0), (0.0, 50.0)):
        along = {"damping": 0.3, "stiffness": 40.0, "friction": friction}
        whole = run(four_bar(True, **along), [0.3, -0.3, 0.3], [rate, -rate, rate], tau, None, None)
        reduced = rbd.ReducedModel(four_bar(False, **along), rhombus, 1)
        less = run(reduced, [0.3], [rate], tau[:, :1], None, None)
        assert whole.code == less.code == rbd.Result.SUCCESS
        # The first step is the same; then the loop opens by the error of a first-order step.
        assert_each_close(whole.v[1, 0], less.v[1, 0], 1e-9)
        sticks = rate == 0
        assert (np.abs(less.v[1:]).max() < 1e-9) == sticks


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [rbd.SemiImplicitEuler(), *IMPLICIT[1:]])
def test_derivatives(scheme):
    """With respect to friction, damping, stiffness, torque and state, for sliding and sticking joints."""
    model = chain()
    rng = np.random.default_rng(5)
    q, v = jnp.asarray(rng.normal(size=4)), jnp.array([1.0, 0.0, -0.7, 0.0])
    start = {
        "friction": jnp.array([0.5, 60.0, 0.3, 50.0]),
        "damping": jnp.full(4, 0.2),
        "stiffness": jnp.full(4, 3.0),
        "tau": jnp.asarray(rng.normal(size=4)),
        "q": q,
        "v": v,
    }
    weights = jnp.asarray(rng.normal(size=8))

    def value(x):
        changed = dataclasses.replace(
            model, **{name: x[name] for name in ("friction", "damping", "stiffness")}
        )
        end = rbd.rollout(changed, rbd.State(x["q"], x["v"]), x["tau"][None], dt=DT, scheme=scheme).final
        return weights @ jnp.concatenate([end.q, end.v])

    along = {name: jnp.asarray(rng.normal(size=4)) for name in start}
    along["v"] = along["v"].at[jnp.array([1, 3])].set(0.0)  # sticking joints have zero velocity
    moved = lambda step: jax.tree.map(lambda x, dx: x + step * dx, start, along)
    ends = jax.jit(jax.vmap(lambda step: value(moved(step))))(jnp.array([1e-6, -1e-6]))
    reverse, forward = jax.jit(lambda x: (jax.grad(value)(x), jax.jvp(value, (x,), (along,))[1]))(start)
    total = sum(jnp.sum(reverse[name] * along[name]) for name in along)
    np.testing.assert_allclose(total, (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
    np.testing.assert_allclose(forward, total, rtol=1e-12)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(reverse))


@pytest.mark.slow
def test_in_single_precision():
    model = rbd.astype(with_friction(chain(2), [3.0, 2.0]), jnp.float32)
    start = rbd.State(np.zeros(2, np.float32), np.full(2, 0.5, np.float32))
    path = rbd.rollout(model, start, dt=DT, steps=50)
    assert path.v.dtype == jnp.float32 and path.code == rbd.Result.SUCCESS
    free = rbd.rollout(rotor32(), rbd.State(np.zeros(1, np.float32), np.ones(1, np.float32)), dt=DT, steps=3)
    assert np.abs(free.v)[1:].max() < 1e-5


def rotor32():
    return rbd.astype(rotor(friction=0.5), jnp.float32)


def test_a_wrong_word_is_refused(unchecked):
    with pytest.raises(
        ValueError,
        match="SemiImplicitEuler: passive is 'implicitly'; it must be one of 'implicit', 'explicit'",
    ):
        rbd.SemiImplicitEuler(passive="implicitly")


def test_a_search_that_comes_to_no_end_is_no_number():
    """These equations contradict every assumption, which is impossible for a mechanism."""

    def contrary(known, force, added):
        a = jnp.where(added > 0, 100.0, -100.0)
        return a, a

    @jax.jit
    def search(one, zero):
        friction = forces.JointFriction.dry(one, 1e-9)
        return resisted(contrary, None, Resistance(one, zero, zero, zero, friction, jnp.asarray(0.1)))

    assert np.isnan(search(np.ones(1), np.zeros(1))).all()
