"""Rigid contact never increases energy or momentum, for random heaps, velocities, coefficients and time steps."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import rbd_jax as rbd
from rbd_jax import contact
from rbd_jax.contact._energy import as_energy_allows


RADIUS = 0.2


def balls(law, floor: bool):
    """Returns three balls that touch each other, two below and one on top, without gravity."""
    builder = rbd.ModelBuilder(gravity=(0, 0, 0), name="heap")
    top = RADIUS * (1 + np.sqrt(3))
    for index, place in enumerate([(0, 0, RADIUS), (2 * RADIUS, 0, RADIUS), (RADIUS, 0, top)]):
        name, at = f"b{index}", np.array([*place, 1.0, 0, 0, 0])
        inertia = rbd.Inertia.sphere((0.3, 1.0, 4.0)[index], RADIUS)
        builder.add_body(name, "world", rbd.joints.Free(), None, inertia, reference=at)
        builder.attach(rbd.Shape(name, name, rbd.shapes.Sphere(RADIUS), friction=(0.6, 0, 0)))
    if floor:
        builder.attach(rbd.Shape("floor", "world", rbd.shapes.Plane(), friction=(0.6, 0, 0)))
    builder.attach(law)
    return builder.build()


def drawn(model, n, seed=0):
    """Returns random velocities, time steps from 0.1 ms to 1 s, configurations with no or small gaps, and restitutions."""
    rng = np.random.default_rng(seed)
    v, dt = rng.normal(size=(n, model.nv)), 10 ** rng.uniform(-4, 0, n)
    apart = 1 + rng.choice([0, 1e-3, 0.05], size=(n, 1))
    q = np.tile(np.asarray(model.reference), (n, 1)).reshape(n, -1, 7)
    q[:, :, :3] *= apart[:, None]
    return map(jnp.asarray, (q.reshape(n, -1), v, dt, rng.uniform(size=n) ** 0.3))


def after_a_step(model, restitution: bool):
    """Returns a function that simulates one step of a heap, with its code."""

    def one(q, v, dt, e):
        own = model
        if restitution:
            own = eqx.tree_at(lambda m: m.attached_as("contact law")[0].restitution, model, e)
        path = rbd.rollout(own, rbd.State(q, v), dt=dt, steps=1)
        return path.q[-1], path.v[-1], path.code

    return jax.jit(jax.vmap(one))


CASES = [("elliptic", True, False), ("pyramidal", True, True), ("elliptic", False, True)]


@pytest.mark.slow
@pytest.mark.parametrize(("cone", "bounces", "floor"), CASES)
def test_contact_makes_no_energy_at_any_step(cone, bounces, floor):
    model = balls(contact.Rigid(cone, restitution=0.5 if bounces else None), floor)
    q, v, dt, e = drawn(model, 200)
    there, end, code = after_a_step(model, bounces)(q, v, dt, e)
    assert (code == 0).all()
    energy = jax.vmap(lambda q, v: rbd.kinetic_energy(model, q, v))
    before, after = np.asarray(energy(q, v)), np.asarray(energy(there, end))
    assert (after <= before * (1 + 1e-6)).all()
    assert (after < 0.99 * before).mean() > 0.3  # many balls collide and lose energy
    if floor:
        return
    # Linear and angular momentum about the origin are conserved. A ball's rotational inertia is the same in all
    # directions.
    masses = np.asarray(model.inertias.mass)
    places = np.asarray(q).reshape(len(q), -1, 7)[:, :, :3]

    def momentum(q, v):
        turned = np.asarray(rbd.lie.quaternion.to_matrix(q.reshape(len(q), -1, 7)[:, :, 3:]))
        spin, speed = (
            np.einsum("nbij,nbj->nbi", turned, v.reshape(len(v), -1, 2, 3)[:, :, k]) for k in (0, 1)
        )
        linear = masses[:, None] * speed
        angular = 0.4 * masses[:, None] * RADIUS**2 * spin + np.cross(places, linear)
        return linear.sum(1), angular.sum(1)

    for one, other in zip(momentum(q, v), momentum(there, end)):
        assert_allclose(one, other, atol=1e-7)


@jax.jit
def allowed(before, stopped, after):
    """Returns the share of the restitution that energy allows, for unit masses."""
    return as_energy_allows(lambda u: u, before, stopped, after)


def test_restitution_within_rounding_of_the_energy_there_was():
    """Without a collision, velocities before and after differ only by rounding: the share and its derivative stay finite."""
    before, stopped = np.array([1.0, 0.5]), np.array([1.0 + 2e-16, 0.5])
    ways = np.array([-3e-16, -1e-300, 0.0, 3e-16])

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(None, None, 0))
    def ask(before, stopped, way):
        share = lambda way: allowed(before, stopped, stopped + way * jnp.array([1.0, 0.0]))
        return jax.value_and_grad(share)(way)

    value, slope = ask(before, stopped, ways)
    assert np.isfinite(value).all() and np.isfinite(slope).all()
    assert np.min(value) >= 0 and np.max(value) <= 1
    # The velocity is reversed to the same energy; everything beyond it is cut off.
    turned = float(allowed(before, stopped, -2 * stopped))
    after = stopped + turned * (-2 * stopped - stopped)
    assert_allclose(np.sum(after**2), np.sum(before**2), rtol=1e-12)


def test_the_share_that_energy_allows():
    """The share solves `|stopped + s way|² = |before|²`, also where both velocities are the same to rounding."""
    share = allowed
    rng = np.random.default_rng(0)
    for _ in range(20):
        before, stopped, way = rng.normal(size=(3, 4))
        stopped *= rng.uniform(0, 1) * np.linalg.norm(before) / np.linalg.norm(stopped)
        s = float(share(before, stopped, stopped + 10 * way))
        assert 0 < s < 1
        assert_allclose(np.linalg.norm(stopped + 10 * s * way), np.linalg.norm(before), rtol=1e-12)
        assert share(before, stopped, 0.9 * stopped) == 1
    # No energy is available, and the direction first loses energy. This case once returned 0 / 0.
    one, other = np.array([1.0, 0.0]), np.array([-3.0, 0.0])
    assert_allclose(share(one, one, other), 0.5)
    slopes = jax.jit(jax.grad(share, argnums=(0, 1, 2)))(one, one, other)
    assert np.isfinite(np.concatenate(slopes)).all()
    for tiny in (0.0, 1e-17, 1e-200):
        assert 0 <= share(one, one, one * (1 + tiny) + tiny * other[::-1]) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("apart", [0.0, 0.8])
def test_a_ball_flies_between_its_bounces(apart):
    """The ball flies for seconds, in steps on most of which contact contributes only rounding."""
    builder = rbd.ModelBuilder(name="ball")
    builder.add_body("ball", "world", rbd.joints.Free(), None, rbd.Inertia.sphere(0.1, 0.04))
    builder.attach(
        rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.04)), rbd.Shape("floor", "world", rbd.shapes.Plane())
    )
    for e in (0.75, 0.9):
        model = rbd.attach(builder.build(), contact.Rigid(restitution=e))
        start = rbd.State(model.reference.at[2].set(1.04), jnp.zeros(6).at[3].set(apart))
        assert rbd.rollout(model, start, dt=1e-3, steps=4000).code == 0
