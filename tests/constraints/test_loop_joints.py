"""Active forces along loop joints, and mechanisms in terms of independent joints (book §8.4, §8.6, §8.8)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import L1, L2, TIP, at, four_bar, inertia, loose, placement, slider_closure, slider_loop
from support import assert_close, differences, quotient

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints


# Active forces.


def cut(where):
    """Returns a spatial four-bar of three joint types, cut at one of them, so that its state is that of the uncut chain."""
    rng = np.random.default_rng(0)
    kinds = joints.Spherical(), joints.Cylindrical((0.2, 1.0, 0.0)), joints.Universal()
    builder, frames, parent = rbd.ModelBuilder(name="chain"), [], "world"
    for i, joint in enumerate(kinds):
        frame, own = placement(rng), inertia(rng)
        frames.append(frame)
        if i != where:
            builder.add_body(f"{i}", parent, joint, frame, own)
        else:
            builder.add_body(f"{i}", "world", joints.Free(), inertia=own)
            builder.add_constraint(rc.LoopJoint(parent, frame, f"{i}", None, joint))
        parent = f"{i}"
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize("where", range(3))
def test_a_driven_joint_may_be_cut(where):
    """The same efforts at a joint give the same accelerations, as a tree joint or as a loop joint.

    This holds for any T_a. Book eq. 8.28, tables 8.2 and 8.3.
    """
    whole, model = cut(None), cut(where)
    q = rbd.random_configuration(whole, jax.random.key(1))
    v, tau = jax.random.normal(jax.random.key(2), (2, whole.nv))
    own = whole.v_slice(f"{where}")

    @jax.jit
    def run(q, v, tau):
        frames, twists = rbd.forward_kinematics(whole, q), rbd.body_velocities(whole, q, v, "body")
        here, moving = [], []
        for i in range(3):
            here.append(q[whole.q_slice(f"{i}")])
            moving.append(v[whole.v_slice(f"{i}")])
        here[where] = jnp.concatenate(
            [frames.position[where], rbd.lie.quaternion.from_matrix(frames.rotation[where])]
        )
        moving[where] = twists[where]
        cut_q, cut_v = jnp.concatenate(here), jnp.concatenate(moving)
        efforts = jnp.concatenate(
            [np.zeros(6) if i == where else tau[whole.v_slice(f"{i}")] for i in range(3)]
        )
        active = rc.loop_joint_force(model, cut_q, {0: tau[own]})
        a = rbd.constrained_dynamics(model, cut_q, cut_v, efforts + active).acceleration
        expected = rbd.forward_dynamics(whole, q, v, tau)
        state = rc.loop_joint_state(model, cut_q, cut_v, 0)
        back = rbd.difference(whole, q, jnp.concatenate([q[: whole.q_slice(f"{where}").start], state[0],
                                                         q[whole.q_slice(f"{where}").stop :]]))  # fmt: skip
        bodies = rbd.body_accelerations(model, cut_q, cut_v, a), rbd.body_accelerations(whole, q, v, expected)
        return bodies, active @ cut_v, tau[own] @ v[own], back, state[1]

    bodies, power, expected_power, back, speeds = run(q, v, tau)
    assert_close(bodies[0], bodies[1], 1e-9)
    assert_close(power, expected_power, 1e-10)  # `τ q̇`, along the loop joint
    assert_close(back, np.zeros(whole.nv), 1e-8)
    assert_close(speeds, v[own], 1e-8)


@pytest.mark.slow
def test_derivatives_of_loop_joint_forces():
    """Derivatives by q and by efforts, in an inconsistent state, for joints whose directions rotate with them."""
    model = rbd.add_constraints(
        loose(), rc.LoopJoint("arm", at((0.3, 0.1, 0.2)), "other", None, joints.Universal())
    )
    model = rbd.add_constraints(model, rc.LoopJoint("world", None, "tail", TIP, joints.Helical(pitch=0.2)))
    q = rbd.random_configuration(model, jax.random.key(3))
    steps = jax.random.normal(jax.random.key(4), (2, model.nv))

    def force(step, efforts):
        moved = rbd.integrate(model, q, step)
        return rc.loop_joint_force(model, moved, {0: efforts[:2], 1: efforts[2:]})

    efforts, zero = np.array([0.4, -0.7, 1.2]), np.zeros(model.nv)
    by_step, by_efforts = jax.jit(jax.jacfwd(force, (0, 1)))(zero, efforts)
    fast = jax.jit(force)
    for step in steps:
        assert_close(by_step @ step, quotient(lambda h, step=step: fast(h * step, efforts)), 1e-6)
    assert_close(by_efforts @ efforts, fast(zero, efforts), 1e-12)


def test_what_is_no_loop_joint_is_refused():
    model, still = four_bar("hinge"), np.zeros(3)
    with pytest.raises(ValueError, match="is a HingeLoop; only a LoopJoint"):
        rc.loop_joint_force(model, still, {0: np.ones(1)})
    with pytest.raises(ValueError, match="no constraint number 3"):
        rc.loop_joint_state(model, still, still, 3)
    with pytest.raises(ValueError, match=r"efforts\[0\] has shape \(2,\).*must be \(1,\)"):
        rc.loop_joint_force(four_bar("revolute"), still, {0: np.ones(2)})


# Independent joints.


@pytest.mark.slow
def test_the_mechanism_of_figure_8_3_by_independent_joints():
    """G and g of figure 8.3 for arm and hand agree with the book's closed forms and with γ, from five rows of rank two.

    Other choices of independent joints give the same motion, `Gᵀ M G ÿ = Gᵀ (tau - C - M g)` (eqs. 8.46, 8.51).
    """
    model, y, rate = slider_loop(), np.array([0.6, 0.2]), np.array([0.9, -0.4])
    tau = np.array([0.4, -0.3, 1.2, 0.5])
    closed = jax.jit(lambda y, rate: rc.close(model, slider_closure, y, rate))(y, rate)
    found = rc.independent_joints(model, closed.q, closed.v, ["arm", "hand"])
    d = np.sqrt(L1**2 + L2**2 - 2 * L1 * L2 * np.cos(0.6))
    u1, u2 = (L2**2 - L1 * L2 * np.cos(0.6)) / d**2, L1 * L2 * np.sin(0.6) / d
    u3 = (L1**2 - L2**2) * L1 * L2 * np.sin(0.6) / d**4 * 0.9**2
    u4 = (L1 * L2 * np.cos(0.6) - u2**2) / d * 0.9**2
    assert_close(found.jacobian, [[1, 0], [u1, 0], [u2, 0], [0, 1]], 1e-12)
    assert_close(found.bias, [0, u3, u4, 0], 1e-12)
    assert_close(found.jacobian, closed.jacobian, 1e-12)
    assert_close(found.bias, closed.bias, 1e-12)
    a = rbd.constrained_dynamics(model, closed.q, closed.v, tau).acceleration
    mass, bias = rbd.mass_matrix(model, closed.q), rbd.bias_force(model, closed.q, closed.v)
    for chosen in (["arm", "hand"], ["hand", "slider"], ["guide", "hand"]):
        other = rc.independent_joints(model, closed.q, closed.v, chosen)
        G, g = np.asarray(other.jacobian), np.asarray(other.bias)
        places = [model.v_slice(joint).start for joint in chosen]
        assert_close(G[places], np.eye(2), 1e-14)
        assert_close(G @ closed.v[np.array(places)], closed.v, 1e-12)
        ÿ = np.linalg.solve(G.T @ mass @ G, G.T @ (tau - bias - mass @ g))
        assert_close(G @ ÿ + g, a, 1e-9)
    # Ex. 8.2, with G from the constraints: motors at the slider and the hand.
    needed = rbd.inverse_dynamics(model, closed.q, closed.v, a)
    u = np.linalg.solve(found.jacobian[2:].T, found.jacobian.T @ needed)
    assert_close(u, np.array([[1 / u2, u1 / u2, 1, 0], [0, 0, 0, 1]]) @ needed, 1e-10)
    efforts = rbd.constrained_inverse_dynamics(model, closed.q, closed.v, a, actuators=("slider", "hand"))
    assert_close(efforts.tau[2:], u, 1e-10)


@pytest.mark.slow
def test_derivatives_of_independent_joints():
    """Derivatives of G and g along motions that keep the loop closed."""
    model = slider_loop()

    def found(x):
        closed = rc.close(model, slider_closure, x[:2], x[2:])
        by = rc.independent_joints(model, closed.q, closed.v, ["arm", "hand"])
        return jnp.concatenate([by.jacobian.reshape(-1), by.bias])

    x = np.array([[0.6, 0.2, 0.9, -0.4]])
    assert_close(
        jax.jit(jax.vmap(jax.jacfwd(found)))(x), differences(jax.jit(jax.vmap(found)), x, 1e-3, 4), 1e-7
    )


def closed_slider(y, rate):
    model = slider_loop()
    return model, jax.jit(lambda y, rate: rc.close(model, slider_closure, y, rate))(y, rate)


@pytest.mark.parametrize(
    "chosen",
    [
        *(pytest.param(names, marks=pytest.mark.slow) for names in (["hand"], ["arm", "guide", "hand"])),
        ["arm", "slider"],
    ],
    ids=", ".join,
)
def test_joints_that_do_not_determine_the_others(chosen):
    """Too few joints, too many, two dependent joints, or a duplicated joint."""
    model, closed = closed_slider(np.array([0.6, 0.2]), np.array([0.9, -0.4]))
    with pytest.raises(ValueError, match="do not determine how the others move"):
        rc.independent_joints(model, closed.q, closed.v, chosen)
    with pytest.raises(ValueError, match="a joint twice"):
        rc.independent_joints(model, closed.q, closed.v, ["hand", "hand"])


@pytest.mark.slow
def test_a_crank_at_its_dead_point_does_not_determine_the_others():
    """The crank is in line with the rod; under `jit` the Jacobian is NaN."""
    model, dead = closed_slider(np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="do not determine"):
        rc.independent_joints(model, dead.q, dead.v, ["slider", "hand"])
    blind = jax.jit(lambda q, v: rc.independent_joints(model, q, v, ["slider", "hand"]).jacobian)
    assert np.isnan(blind(dead.q, dead.v)).all()


def test_a_model_without_constraints_has_all_its_joints_independent():
    model = rbd.load("double_pendulum")
    q, v = np.array([0.5, 1.0]), np.array([1.0, 2.0])
    found = rc.independent_joints(model, q, v, ["elbow", "shoulder"])
    assert_close(found.jacobian, [[0, 1], [1, 0]], 0)
    assert_close(found.bias, np.zeros(2), 0)
