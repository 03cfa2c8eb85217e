"""Derivatives of closed loops by lengths, loop frames, masses, springs and efforts, also where a loop loses rank."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints


#: Parameters of a four-bar with three different rods: lengths, offset of the loop hinge, masses, forces and initial
#: state.
NUMBERS = {
    "ground": 0.9,
    "crank": 0.4,
    "coupler": 1.1,
    "follower": 0.8,
    "tip": 0.05,
    "crank mass": 0.7,
    "coupler mass": 1.3,
    "follower mass": 0.9,
    "first push": 1.2,
    "last push": -0.4,
    "angle": 0.6,
    "rate": 2.0,
}
AT = jnp.array(list(NUMBERS.values()))


def linkage(x, loop):
    zero = jnp.zeros_like(x["ground"])
    where = lambda length, aside=zero: rbd.Transform(
        jnp.eye(3, dtype=zero.dtype), jnp.stack([length, aside, zero])
    )

    def rod(name):
        half = jnp.stack([x[name] / 2, zero, zero])
        moments = x[f"{name} mass"] * x[name] ** 2 / 12 * jnp.eye(3, dtype=zero.dtype)
        return rbd.Inertia.from_mass_com(x[f"{name} mass"], half, moments)

    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="linkage")
    builder.add_body("crank", "world", joints.Revolute(), inertia=rod("crank"))
    builder.add_body("coupler", "crank", joints.Revolute(), where(x["crank"]), rod("coupler"))
    builder.add_body("follower", "world", joints.Revolute(), where(x["ground"]), rod("follower"))
    builder.add_constraint(loop("coupler", where(x["coupler"], x["tip"]), "follower", where(x["follower"])))
    return rbd.astype(builder.build(), zero.dtype)


def hinge(*ends):
    return rc.LoopJoint(*ends, joints.Revolute())


def closed(x, angle):
    """Returns the closed configuration, from the triangle of crank tip, follower pivot and loop hinge."""
    arm = lambda length, angle: length * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    along = lambda vector: jnp.arctan2(vector[1], vector[0])
    pivot = arm(x["ground"], jnp.zeros_like(angle))
    tip, length = arm(x["crank"], angle), jnp.hypot(x["coupler"], x["tip"])
    across = jnp.hypot(*(pivot - tip))
    cosine = (across**2 + length**2 - x["follower"] ** 2) / (2 * across * length)
    hinge = along(pivot - tip) + jnp.arccos(cosine)
    coupler = hinge - jnp.arctan2(x["tip"], x["coupler"])
    return jnp.stack([angle, coupler - angle, along(tip + arm(length, hinge) - pivot)])


def solved(x, model):
    """Returns the same state by assembly from a rough initial guess, and projection."""
    zero = jnp.zeros_like(x["rate"])
    q = rbd.assemble(model, jnp.stack([x["angle"], zero, zero + 1.2]), hold=("crank",)).q
    v = rbd.project_velocity(model, q, jnp.stack([x["rate"], zero, zero]))
    return q, v * (x["rate"] / v[0])


def reached(numbers, find=None):
    """Returns a scalar of the final state after a rollout from the crank's angle and rate under a control."""
    x = dict(zip(NUMBERS, numbers, strict=True))
    model = linkage(x, hinge)
    if find is None:
        q, v = jax.jvp(lambda angle: closed(x, angle), (x["angle"],), (x["rate"],))
    else:
        q, v = find(x, model)
    share = jnp.linspace(0, 1, 10, dtype=q.dtype)
    pushes = x["first push"] * (1 - share) + x["last push"] * share
    controls = pushes[:, None] * jnp.array([1, 0, 0], q.dtype)[None]
    end = rbd.rollout(model, rbd.State(q, v), controls, dt=0.02, scheme=rbd.RungeKutta4()).final
    return jnp.sum(jnp.array([1.0, 0.3, -0.5], q.dtype) * (end.q + 0.1 * end.v))


STEP = 1e-5


@pytest.mark.slow
def test_a_rollout_of_a_loop_by_all_its_numbers():
    """Reverse-mode derivatives under jit and vmap agree with central differences, with a redundant loop joint."""
    moves = STEP * jnp.asarray([1.0, -1.0])[:, None, None] * jnp.eye(len(AT))[None]
    points = jnp.concatenate([AT[None], (AT[None, None] + moves).reshape(-1, len(AT))])
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(reached)))(points)
    up, down = np.asarray(values[1:]).reshape(2, -1)
    slopes = (up - down) / (2 * STEP)
    np.testing.assert_allclose(gradients[0], slopes, rtol=1e-6)
    assert np.abs(slopes).min() > 1e-2  # every parameter has an effect


@pytest.mark.slow
def test_through_assembly_forward_and_in_single_precision():
    """Gradients through assembly and projection, forward derivatives, and single precision agree with the direct gradient."""
    direction = jnp.asarray(np.random.default_rng(0).normal(size=len(AT)))

    @jax.jit
    def run(x, single):
        forward = jax.jvp(reached, (x,), (direction,))
        through = lambda x: jax.value_and_grad(lambda x: reached(x, solved))(x)
        return forward, jax.value_and_grad(reached)(x), through(x), through(single)

    forward, reverse, through, single = run(AT, AT.astype(jnp.float32))
    np.testing.assert_allclose(forward[0], reverse[0], rtol=1e-12)
    np.testing.assert_allclose(forward[1], reverse[1] @ direction, rtol=1e-9)
    for found, in_single, exact in zip(through, single, reverse):
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-11)
        assert in_single.dtype == jnp.float32
        np.testing.assert_allclose(in_single, exact, rtol=1e-3, atol=1e-3)


def stretched(x, loop):
    """Simulates a rhombus whose rods are in a line at the start."""
    length, mass, rate, push = x
    numbers = (
        NUMBERS | dict.fromkeys(("ground", "crank", "coupler", "follower"), length) | {"tip": 0 * length}
    )
    numbers |= {name: mass for name in numbers if name.endswith("mass")}
    model = linkage({name: jnp.asarray(value) for name, value in numbers.items()}, loop)
    q, share = jnp.zeros(3), jnp.array([1.0, -1.0, 1.0])
    controls = push * jnp.array([1.0, 0.0, 0.0])[None] * jnp.ones((5, 1))
    path = rbd.rollout(model, rbd.State(q, rate * share), controls, dt=0.02, scheme=rbd.RungeKutta4())
    motion = rbd.constrained_dynamics(model, q, rate * share, controls[0])
    return path.final.q @ share, (path, motion.rank, rbd.mobility(model, q))


@pytest.mark.slow
@pytest.mark.parametrize("loop", [hinge, rc.HingeLoop])
def test_a_rollout_that_starts_where_the_loop_loses_rank(loop):
    """In a line one of two rows is redundant. The rank reports this, and state and derivatives are finite."""
    x = jnp.array([1.0, 1.0, 1.5, 0.3])
    run = jax.jit(jax.value_and_grad(lambda x: stretched(x, loop), has_aux=True))
    (_, (path, rank, mobility)), gradient = run(x)
    assert (rank, mobility) == (1, 2)
    assert path.code == rbd.Result.SUCCESS and np.isfinite(gradient).all()
    assert np.abs(path.q[-1, 0]) > 0.05
