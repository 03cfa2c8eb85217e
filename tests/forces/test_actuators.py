"""Actuators: lengths, moments, forces and activation rates against MuJoCo; derivatives, edits, and controls of rollouts."""

import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from driven import XML
from support import assert_close

import rbd_jax as rbd
from rbd_jax import actuators


@pytest.fixture(scope="module")
def both():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = rbd.load_mjcf(XML, contact=False)
    theirs = mujoco.MjModel.from_xml_string(XML)
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    return model, theirs, rbd.interop.MujocoMap(model, theirs)


def drive_of(model, u=None, activations=None):
    return actuators.Drive(model.actuators, u, activations)


@jax.jit
def asked(model, state, u):
    """Returns all actuator quantities in a state."""
    q, v = state.q, state.v
    motion, drive = rbd.dynamics.Motion(model, q, v), drive_of(model, u, state.own)
    return {
        "length": actuators.actuator_lengths(model, q),
        "velocity": actuators.actuator_velocities(model, q, v),
        "moment": actuators.actuator_moments(model, q),
        "force": drive.forces(motion),
        "act_dot": drive.own_rate(motion),
        "qfrc_actuator": drive.generalized_force(motion),
        "resistance": drive.joint_resistance(motion),
    }


def a_state(theirs, seed):
    random, data = np.random.default_rng(seed), mujoco.MjData(theirs)
    data.qpos[:] = theirs.qpos0 + 0.5 * random.normal(size=theirs.nq)
    mujoco.mj_normalizeQuat(theirs, data.qpos)
    data.qvel[:] = random.normal(size=theirs.nv)
    data.ctrl[:], data.act[:] = random.normal(size=theirs.nu), random.uniform(0.1, 0.9, theirs.na)
    mujoco.mj_forward(theirs, data)
    return data


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_as_mujoco(both, seed):
    """All transmissions, force laws and activation dynamics agree with MuJoCo to 1e-12."""
    model, theirs, to = both
    data = a_state(theirs, seed)
    state, told = to.state(data), to.controls(data.ctrl)
    found = asked(model, state, told.u)
    moments = np.zeros((theirs.nu, theirs.nv))
    places = data.moment_rownnz, data.moment_rowadr, data.moment_colind
    mujoco.mju_sparse2dense(moments, data.actuator_moment, *places)
    assert_close(found["length"], data.actuator_length, 1e-12)
    assert_close(found["velocity"], data.actuator_velocity, 1e-12)
    assert_close([to.force(state.q, row) for row in found["moment"]], moments, 1e-12)
    assert_close(found["force"], data.actuator_force, 1e-12)
    assert_close(found["act_dot"], data.act_dot, 1e-12)
    assert_close(to.force(state.q, found["qfrc_actuator"]), data.qfrc_actuator, 1e-12)
    assert_close(to.ctrl(told), data.ctrl, 0)
    read = rbd.sense(model, state, told)
    assert_close(to.sensordata(read), data.sensordata, 1e-10)
    back = mujoco.MjData(theirs)
    to.to_data(state, back, told)
    assert_close(back.act, data.act, 0)
    assert_close(back.ctrl, data.ctrl, 0)


@pytest.mark.slow
def test_derivatives(both):
    """Derivatives of forces, generalized forces and rates by all inputs agree with differences; they are finite at
    range limits.
    """
    model, theirs, to = both
    data = a_state(theirs, 2)
    state, u = to.state(data), jnp.asarray(data.ctrl)
    random = np.random.default_rng(0)
    along = [jnp.asarray(random.normal(size=n)) for n in (model.nv, model.nv, len(state.own), model.nu)]

    @jax.jit
    def at(state, u, share):
        def moved(share):
            q = rbd.integrate(model, state.q, share * along[0])
            own = state.own + share * along[2]
            return asked(model, rbd.State(q, state.v + share * along[1], own), u + share * along[3])

        return jax.jvp(moved, (share,), (1.0,))

    h = 1e-5
    (_, slopes), (ahead, _), (behind, _) = (at(state, u, share) for share in (0.0, h, -h))
    for name in ("length", "velocity", "moment", "force", "act_dot", "qfrc_actuator"):
        assert_close(slopes[name], (ahead[name] - behind[name]) / (2 * h), 1e-7, name)
    # Derivatives are finite at rest, in the straight configuration, and at the ends of all ranges.
    still = rbd.State(rbd.neutral(model), jnp.zeros(model.nv), jnp.array([0.0, 2.0, 1.0, 0.0, 1.0, 0.0]))
    for told in (jnp.ones(model.nu), jnp.zeros(model.nu)):
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(at(still, told, 0.0)))


ROUND = """<mujoco><worldbody><site name="seen"/><body><joint name="ball" type="ball"/><geom size=".1"/><site name="own"/></body>
</worldbody><actuator><position joint="ball" kp="2" kv=".3" gear="1 0 0 0 0 0"/>
<position jointinparent="ball" kp="2" gear=".5 .7 0 0 0 0"/><intvelocity joint="ball" kp="2" gear="0 1 0 0 0 0"/>
<general joint="ball" gainprm="2" biastype="affine" biasprm=".5 -2 -.3" gear="1 0 0 0 0 0"/>
<general joint="ball" gainprm="3" biastype="affine" biasprm="0 -2 -.3" gear="1 0 0 0 0 0"/>
<position site="own" refsite="seen" kp="2" gear="0 0 0 2 0 0"/><position site="own" refsite="seen" kp="2" gear="1 0 0 2 0 0"/>
</actuator></mujoco>"""


def test_servos_of_rotations_take_the_shorter_way():
    model, theirs = rbd.load_mjcf(ROUND), mujoco.MjModel.from_xml_string(ROUND)
    to = rbd.interop.MujocoMap(model, theirs)

    @jax.jit
    def forces(qpos, qvel, u, act):
        q = to.configuration_from(qpos)
        motion = rbd.dynamics.Motion(model, q, to.velocity_from(q, qvel))
        return drive_of(model, u, act).forces(motion)

    for told in (-3.0, 2.0, 9.0):
        data = mujoco.MjData(theirs)
        data.qpos[:], data.qvel[:] = (np.cos(1.5), 0.8 * np.sin(1.5), 0.6 * np.sin(1.5), 0.0), 0.7
        data.ctrl[:], data.act[:] = told, told
        mujoco.mj_forward(theirs, data)
        found = forces(data.qpos, data.qvel, np.full(theirs.nu, told), data.act)
        assert_close(found, data.actuator_force, 1e-12)


def test_resistance_is_the_slope_along_each_joint(both):
    """Damping and stiffness at joints with one degree of freedom agree with differentiation."""
    model, theirs, _ = both
    names = ("servo", "lagging", "actuator_7", "actuator_9", "actuator_10")
    some = tuple(model.named("actuator", name) for name in names)
    model = replace(model, attached=some, effort_limit=jnp.asarray(np.full(model.nv, np.inf)))
    data = a_state(theirs, 0)
    q, v, u = data.qpos, data.qvel, np.array([0.3, 0.0, 0.4, 0.7, 0.2])
    state = np.array([q[model.q_slice("slide")][0], 0.1])
    weak = replace(model, effort_limit=jnp.asarray(np.full(model.nv, 1e-3)))

    @jax.jit
    def ask(q, v, u, state):
        drive, motion = drive_of(model, u, state), rbd.dynamics.Motion(model, q, v)
        return (
            drive.joint_resistance(motion),
            drive.damping(model, q, v),
            drive.stiffness(model, q, v),
            drive_of(model, u, state + 50.0).joint_resistance(motion),
            drive.joint_resistance(rbd.dynamics.Motion(weak, q, v)),
        )

    (damping, stiffness), by_v, by_q, far, limited = jax.tree.map(np.asarray, ask(q, v, u, state))
    np.testing.assert_allclose(damping, np.maximum(np.diag(by_v), 0), atol=1e-12)
    np.testing.assert_allclose(stiffness, -np.diag(by_q), atol=1e-12)
    assert (damping > 0).sum() == 2 and (stiffness > 0).sum() == 2  # one has negative damping
    # A servo beyond its force range has no resistance, nor do actuators at a joint beyond its effort limit.
    assert far[1][model.v_slice("slide")] < stiffness[model.v_slice("slide")]
    assert not np.any(limited[0])


@pytest.mark.slow
def test_edits(both):
    """Edits of a model also edit its actuators: they are renamed, removed with locked joints, concatenated and cast."""
    model, theirs, to = both
    data = a_state(theirs, 0)
    q, v, u = to.state(data).q, to.state(data).v, jnp.asarray(data.ctrl)
    own = to.state(data).own
    expected = asked(model, rbd.State(q, v, own), u)
    renamed = rbd.rename(
        model, attached={("actuator", "servo"): "other", ("tendon", "sum"): "both"}, joints={"slide": "rail"}
    )
    found = asked(renamed, rbd.State(q, v, own), u)
    for name in ("length", "force", "qfrc_actuator"):
        assert_close(found[name], expected[name], 1e-12)
    assert renamed.actuators[5].name == "other" and renamed.actuators[6].joints == ("rail",)
    locked = rbd.lock_joints(model, ["hinge"])
    gone = {one.name for one in model.actuators} - {one.name for one in locked.actuators}
    assert gone == {"servo", "actuator_22"} and "sum" in [one.name for one in locked.tendons]
    twice = rbd.concatenate(model, model, names=("a", "b"))
    assert twice.nu == 2 * model.nu and twice.actuators[-1].joints == ("b/hinge",)
    assert rbd.astype(model, jnp.float32).actuators[0].gear.dtype == jnp.float32


ONE = """<mujoco><worldbody><body><joint name="j" axis="0 1 0" range="-1 1"/><geom size=".1" pos=".3 0 0"/></body></worldbody>
<actuator>{}</actuator></mujoco>"""
AT = actuators

#: MuJoCo's actuator shortcuts and ours.
SHORTCUTS = {
    '<motor joint="j" gear="3" ctrlrange="-1 1"/>': AT.Motor("a", "j", gear=3.0, control_range=(-1, 1)),
    '<position joint="j" kp="20" kv="2" forcerange="-9 9"/>': AT.Position(
        "a", "j", 20.0, 2.0, force_range=(-9, 9)
    ),
    '<position joint="j" kp="20" timeconst=".2"/>': AT.Position("a", "j", 20.0, time_constant=0.2),
    '<velocity joint="j" kv="2" gear="2"/>': AT.Velocity("a", "j", 2.0, gear=2.0),
    '<intvelocity joint="j" kp="5" kv="1" actrange="-1 1"/>': AT.IntegratedVelocity(
        "a", "j", 5.0, 1.0, activation_range=(-1, 1)
    ),
    '<damper joint="j" kv="2" ctrlrange="0 1"/>': AT.Damper("a", "j", 2.0),
    '<cylinder joint="j" area="3" timeconst=".5" bias="1 2 3"/>': AT.Cylinder(
        "a", "j", 3.0, 0.5, (1.0, 2.0, 3.0)
    ),
    '<muscle joint="j" force="7" lengthrange="-1 1" timeconst=".02 .05"/>': AT.Muscle(
        "a", "j", AT.MuscleCurves(7.0, (-1.0, 1.0)), rising=0.02, falling=0.05
    ),
}


@pytest.mark.parametrize("xml", SHORTCUTS)
def test_shortcuts(xml):
    """Force and activation rate agree with those of MuJoCo's shortcut."""
    loaded = rbd.load_mjcf(ONE.format(xml))
    bare = replace(loaded, attached=())
    made = rbd.attach(bare, SHORTCUTS[xml])

    @jax.jit
    def ask(q, v, u, own):
        motion = rbd.dynamics.Motion(bare, q, v)
        drives = [drive_of(one, u).holding(own) for one in (made, loaded)]
        return [(drive.generalized_force(motion), drive.own_rate(motion)) for drive in drives]

    for numbers in ((0.3, 0.7, 0.6, 0.4), (-0.8, -2.0, 1.7, 0.4)):
        ours, theirs = ask(*(np.array([x]) for x in numbers))
        for one, other in zip(ours, theirs, strict=True):
            assert_close(one, other, 1e-14)
        assert np.abs(theirs[0]).sum() > 0


# Simulations.


def arm():
    model = rbd.load("double_pendulum")
    servo = AT.Position("servo", "shoulder", kp=40.0, kv=2.0, control_range=(-1, 1))
    lagging = AT.Position("lagging", "elbow", kp=10.0, kv=0.3, time_constant=0.1)
    up = rbd.Keyframe("up", {"shoulder": [3.0]}, controls={"lagging": 0.2}, activations={"lagging": 0.3})
    return rbd.attach(model, servo, lagging, up, AT.Motor("motor", "elbow", gear=5.0))


START = rbd.State(*(jnp.asarray(np.array(x)) for x in ([0.5, 1.0], [0.0, 0.0])))
U = jnp.asarray(np.array([0.4, -0.5, 0.3]))


@pytest.mark.slow
def test_what_a_rollout_is_told():
    """A table of controls, a policy and repeated steps agree; controls are zero by default; generalized forces are added."""
    model, table = arm(), jnp.tile(U, (5, 1))
    path = rbd.rollout(model, START, rbd.Controls(table), dt=0.01)
    asked = rbd.rollout(model, START, lambda t, state: rbd.Controls(U), dt=0.01, steps=5)
    state = START
    for _ in range(5):
        state = rbd.step(model, state, rbd.Controls(U), 0.01)
    for one in (asked.final, state):
        assert_close(one.q, path.final.q, 1e-14)
        assert_close(one.own, path.final.own, 1e-14)
    assert path.u.tolist() == table.tolist() and not np.any(path.tau)
    none = rbd.rollout(model, START, dt=0.01, steps=5)
    zero = rbd.rollout(model, START, rbd.Controls(0 * table), dt=0.01)
    assert_close(none.q, zero.q, 0)
    assert not np.allclose(
        none.final.q, rbd.rollout(rbd.load("double_pendulum"), START, dt=0.01, steps=5).final.q
    )
    # A motor exerts a torque times its gear.
    tau = jnp.tile(jnp.array([0.0, 1.5]), (5, 1))
    beside = rbd.rollout(model, START, rbd.Controls(table.at[:, 2].set(0.0), tau), dt=0.01)
    assert_close(beside.q, path.q, 1e-13)
    assert_close(
        rbd.rollout(model, START, tau, dt=0.01).q,
        rbd.rollout(model, START, rbd.Controls(0 * table, tau), dt=0.01).q,
        0,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "plain", [pytest.param(True, id="analytic"), pytest.param(False, id="with activations")]
)
def test_linearized(plain):
    """A and B of a step by u, or by u and tau, agree with differences."""
    model = arm()
    if plain:
        model = replace(
            model, attached=tuple(one for one in model.attached if one.name in ("servo", "motor"))
        )
    u = U[: model.nu]
    own = START if plain else rbd.State(START.q, START.v, jnp.array([0.2]))
    by_state, by_u = rbd.step_derivatives(model, own, rbd.Controls(u), 0.01)
    whole, by_both = rbd.step_derivatives(model, own, rbd.Controls(u, jnp.zeros(2)), 0.01)
    _, by_tau = rbd.step_derivatives(model, own, jnp.zeros(2), 0.01)
    assert (
        by_u.shape == (len(by_state), model.nu) and by_both.shape[1] == model.nu + 2 and by_tau.shape[1] == 2
    )
    assert_close(by_both[:, : model.nu], by_u, 1e-14)

    def end(x, u, tau):
        n = model.nv
        state = rbd.State(x[:n], x[n : 2 * n], x[2 * n :])
        new = rbd.step(model, state, rbd.Controls(u, tau), 0.01)
        return jnp.concatenate([new.q, new.v, new.internal])

    x = jnp.concatenate([own.q, own.v, own.internal])
    expected = jax.jacfwd(end, (0, 1, 2))(x, u, jnp.zeros(2))
    for ours, theirs in zip((whole, by_both[:, : model.nu], by_both[:, model.nu :]), expected, strict=True):
        assert_close(ours, theirs, 1e-12)


def test_servos_are_implicit():
    """A velocity servo, too stiff for an explicit step, takes the same step as with MuJoCo's `implicitfast`."""
    xml = ONE.format('<velocity joint="j" kv="500"/>').replace(
        "<worldbody>", '<option integrator="implicitfast" timestep=".01"/><worldbody>'
    )
    theirs, model = mujoco.MjModel.from_xml_string(xml), rbd.load_mjcf(xml)
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    data = mujoco.MjData(theirs)
    data.qvel[:], data.ctrl[:] = 1.0, 3.0
    start = rbd.State(np.zeros(1), np.ones(1))
    after = rbd.step(model, start, rbd.Controls(jnp.asarray(np.array([3.0]))))
    mujoco.mj_step(theirs, data)
    assert_close(after.v, data.qvel, 1e-12)
    assert_close(after.q, data.qpos, 1e-12)


def test_keyframes_and_what_the_file_says_of_time():
    model = arm()
    state, told = rbd.keyframe(model, "up"), rbd.keyframe_controls(model, "up")
    assert (
        state.q.tolist() == [3.0, 0.0] and state.own.tolist() == [0.3] and told.u.tolist() == [0.0, 0.2, 0.0]
    )
    settings = rbd.model.Settings(timestep=0.004, integrator="rk4")
    model = replace(model, settings=settings)
    policy = lambda t, s: told
    path = rbd.rollout(model, state, policy, steps=3)
    wanted = rbd.rollout(model, state, policy, steps=3, dt=0.004, scheme=rbd.RungeKutta4())
    assert_close(path.q, wanted.q, 0)
    assert_close(path.t, 0.004 * np.arange(4), 1e-15)
    with pytest.raises(
        ValueError, match="dt is missing, and the file of model 'double_pendulum' has no timestep"
    ):
        rbd.rollout(arm(), START, steps=1)


def test_a_reduced_model_is_driven():
    """A motor acts on a joint of the tree that moves with the reduced variable."""
    model = rbd.attach(
        rbd.load("double_pendulum"), AT.Motor("motor", "elbow"), AT.Velocity("brake", "shoulder", 3.0)
    )
    reduced = rbd.ReducedModel(model, lambda y: jnp.concatenate([y, 0.2 - 0.5 * y]), 1)
    state = rbd.State(np.array([0.3]), np.array([1.0]))

    def told(u, tau):
        controls = rbd.Controls(*(jnp.asarray(np.array([x])) for x in (u, tau)))
        return rbd.rollout(reduced, state, controls, dt=0.01)

    path, effort = told([2.0, 0.4], [0.0]), told([0.0, 0.4], [-1.0])
    assert_close(path.v, effort.v, 1e-12)


REFUSED = {
    "zero gear": (lambda: AT.Motor("m", "elbow", gear=0.0), "Motor 'm': gear is zero"),
    "no joint": (
        lambda: rbd.attach(rbd.load("double_pendulum"), AT.Motor("m", "elbw")),
        "there is no joint 'elbw'; did you mean",
    ),
    "no tendon": (
        lambda: rbd.attach(rbd.load("double_pendulum"), AT.Motor("m", AT.OnTendon("rope"))),
        "there is no tendon 'rope'",
    ),
    "wide gear": (
        lambda: rbd.attach(rbd.load("double_pendulum"), AT.Motor("m", "elbow", gear=(1, 2, 3))),
        "joint 'elbow' has 1 degrees of freedom, and gear 3 numbers",
    ),
    "narrow gear": (lambda: AT.Motor("m", AT.OnSite("tip")), "gear has 1 numbers; on OnSite it must have 6"),
    "falling range": (
        lambda: AT.Motor("m", "elbow", control_range=(1, -1)),
        "control_range is .* it must rise",
    ),
    "no activation": (
        lambda: AT.Motor("m", "elbow", activation_range=(0, 1)),
        "it has activation_range, but no dynamics",
    ),
    "a negative damper": (lambda: AT.Damper("m", "elbow", control_range=(-1, 1)), "must begin at zero"),
    "muscle range": (lambda: AT.MuscleCurves(1.0, (1.0, 1.0)), "length_range .* must rise"),
    "u for tau": (
        lambda: rbd.rollout(arm(), START, jnp.asarray(np.zeros((4, 3))), dt=0.01),
        r"controls of its actuators are rbd.Controls\(u\)",
    ),
    "short u": (
        lambda: rbd.rollout(arm(), START, rbd.Controls(jnp.asarray(np.zeros((4, 2)))), dt=0.01),
        r"u of controls has shape \(4, 2\)",
    ),
    "u of a step": (
        lambda: rbd.step(arm(), START, rbd.Controls(jnp.asarray(np.zeros(2))), 0.01),
        r"u of tau has shape \(2,\)",
    ),
    "no keyframe": (lambda: rbd.keyframe(arm(), "uo"), "no keyframe 'uo'; there are: 'up'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    make, message = REFUSED[case]
    with pytest.raises((ValueError, rbd.ModelError), match=message):
        make()


@pytest.mark.slow
@pytest.mark.parametrize("end", [-1.0, 1.0])
def test_at_the_end_of_a_range_the_derivative_is_that_from_inside(end):
    """At the end of a control range the derivative is that from inside, so that solvers see the effect of controls at
    bounds.
    """
    motor = AT.Motor("motor", "shoulder", gear=3.0, control_range=(-1, 1))
    model, state = rbd.attach(rbd.load("double_pendulum"), motor), rbd.State(jnp.ones(2), jnp.zeros(2))

    @jax.jit
    @jax.vmap
    def slopes(u):
        after = lambda u: rbd.step(model, state, rbd.Controls(u[None]), dt=0.01).v
        return jax.jacfwd(after)(u), jax.jacrev(after)(u)

    forward, reverse = map(np.asarray, slopes(end * np.array([0.5, 1.0, 1.5])))
    assert_close(forward, reverse, 1e-14)
    assert_close(forward[1], forward[0], 1e-12)
    assert np.abs(forward[0]).max() > 1e-3 and not forward[2].any()
    by_u = rbd.step_derivatives(model, state, rbd.Controls(jnp.asarray(np.array([end]))), dt=0.01)[1]
    assert_close(np.asarray(by_u)[2:, 0], forward[0], 1e-12)
