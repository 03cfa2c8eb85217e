"""Impacts: the book's numbers, energy and momentum, restitution, friction, and models with loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support import assert_close, quotient

import rbd_jax as rbd
from rbd_jax.contact import impact, impulse_response
from rbd_jax.contact.solvers import Code


def balls(*places, mass=1.0, radius=0.2, friction=0.5, floor=True, slides=False):
    """Returns free balls, or balls on slides along x, at these positions, with a floor at height zero."""
    builder = rbd.ModelBuilder(name="balls")
    for index, (place, own) in enumerate(zip(places, np.broadcast_to(mass, len(places)))):
        name, place = f"b{index}", np.array(place, float)
        joint = rbd.joints.Prismatic((1, 0, 0)) if slides else rbd.joints.Free()
        at = rbd.Transform.from_xyz_rpy(place) if slides else None
        inertia = rbd.Inertia.sphere(float(own), radius)
        reference = None if slides else np.array([*place, 1.0, 0, 0, 0])
        builder.add_body(name, "world", joint, at, inertia, reference=reference)
        builder.attach(rbd.Shape(name, name, rbd.shapes.Sphere(radius), friction=(friction, 0, 0)))
    if floor:
        builder.attach(rbd.Shape("floor", "world", rbd.shapes.Plane(), friction=(friction, 0, 0)))
    return builder.build()


def energy(model, v):
    return rbd.kinetic_energy(model, model.reference, v)


@pytest.mark.slow
def test_a_sphere_that_sticks():
    """Book eq. 11.72: `v_x` and `R ω` become 5/7."""
    model = balls((0, 0, 0.2), friction=5.0)
    hit = impact(model, model.reference, jnp.array([0, 0, 0, 1.0, 0, -2.0]), restitution=0.6)
    assert hit.code == Code.SOLVED
    assert_allclose(hit.velocity, [0, 5 / 7 / 0.2, 0, 5 / 7, 0, 1.2], atol=1e-9)


@pytest.mark.slow
def test_a_sphere_that_slides_is_not_thrown_up_by_friction():
    model = balls((0, 0, 0.2), friction=0.1)
    hit = impact(model, model.reference, jnp.array([0, 0, 0, 3.0, 0, -2.0]))
    # λ = 2 along the normal and 0.2 tangentially.
    assert_allclose(hit.velocity, [0, 0.2 * 0.2 / (0.4 * 0.2**2), 0, 2.8, 0, 0], atol=1e-9)
    assert_allclose(np.abs(hit.impulse[0, :3]).max(), 2.0, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["newton", "poisson"])
def test_head_on(law):
    """Book eq. 11.65."""
    model = balls((0, 0, 1), (0.4, 0, 1), mass=[1.0, 3.0], floor=False, slides=True)
    q, v = model.reference, jnp.array([2.0, -1.0])
    for e, force, lost in ((0.0, 2.25, 3.375), (0.5, 3.375, 2.53125), (1.0, 4.5, 0.0)):
        hit = impact(model, q, v, e, law=law)
        assert_allclose(hit.impulse[0, 0], force, rtol=1e-9)
        assert_allclose(hit.velocity, [2 - force, -1 + force / 3], atol=1e-9)
        assert_allclose(energy(model, v) - energy(model, hit.velocity), lost, atol=1e-8)


@pytest.mark.slow
def test_a_box_on_its_corner():
    """M = 1/m + r²/I and λ = (1 + e) 3 / M, for an impulse half a meter from the center. Book eqs. 11.55 to 11.59."""
    builder = rbd.ModelBuilder(name="box")
    inertia = rbd.Inertia.from_mass_com(2.0, jnp.zeros(3), jnp.diag(jnp.array([0.1, 0.2, 0.3])))
    builder.add_body("box", "world", rbd.joints.Free(), None, inertia)
    foot = rbd.Shape("foot", "box", rbd.shapes.Sphere(0.01), (0.5, 0, 0.01))
    builder.attach(foot, rbd.Shape("floor", "world", rbd.shapes.Plane()))
    model = builder.build()
    hit = impact(model, model.reference, jnp.zeros(6).at[5].set(-3.0), 0.5, friction=0.0)
    assert_allclose(hit.impulse[0, 0], 4.5 / 1.75, rtol=1e-9)
    answer = impulse_response(
        model, model.reference, jnp.zeros(6), {"box": jnp.array([0, -0.5, 0, 0, 0, 1.0])}
    )
    assert_allclose(answer @ jnp.array([0, -0.5, 0, 0, 0, 1.0]), 1.75, rtol=1e-12)


@pytest.mark.slow
def test_newtons_cradle():
    """The impulse propagates along a row of balls: energy does not grow and momentum is conserved."""
    model = balls(*((0.4 * k, 0, 1) for k in range(3)), floor=False, slides=True)
    hit = impact(model, model.reference, jnp.array([1.0, 0, 0]), 1.0)
    assert_allclose(jnp.sum(hit.velocity), 1.0, rtol=1e-9)
    assert energy(model, hit.velocity) <= 0.5 + 1e-9


def heap(seed):
    """Returns balls in contact with each other and the floor."""
    rng = np.random.default_rng(seed)
    places = [(0, 0, 0.2), (0.4, 0, 0.2), (0.2, 0, 0.2 + 0.4 * np.sqrt(3) / 2)]
    return balls(*places, mass=rng.uniform(0.2, 5, 3), friction=0.6), rng


@pytest.mark.slow
@pytest.mark.parametrize("law", ["newton", "poisson"])
def test_energy_never_grows_and_momentum_is_exchanged(law):
    model, rng = heap(0)
    v = jnp.asarray(rng.normal(size=(64, model.nv)))
    e = jnp.asarray(rng.uniform(0, 1, 64))
    hit = jax.jit(jax.vmap(lambda v, e: impact(model, model.reference, v, e, law=law)))(v, e)
    assert (hit.code == Code.SOLVED).all()
    before, after = (np.asarray(jax.vmap(lambda v: energy(model, v))(x)) for x in (v, hit.velocity))
    assert (after <= before * (1 + 1e-9)).all() and (after < 0.999 * before).any()
    contacts = rbd.contacts(model, model.reference)
    force = np.einsum("nij,knj->kni", contacts.frame, hit.impulse[:, :, :3])
    # The net impulse on each ball.
    pairs = [contacts.shapes[k] for k in contacts.pair]
    for index in range(3):
        gets = sum(
            force[:, k] * (second == f"b{index}") - force[:, k] * (first == f"b{index}")
            for k, (first, second) in enumerate(pairs)
        )
        mass = model.inertias.mass[index]
        changed = hit.velocity[:, 6 * index + 3 : 6 * index + 6] - v[:, 6 * index + 3 : 6 * index + 6]
        assert_allclose(mass * changed, gets, atol=1e-8)
    # Impulses are repulsive and within their cones, and no contact has an approach velocity.
    assert (hit.impulse[:, :, 0] >= -1e-9).all()
    across = np.linalg.norm(hit.impulse[:, :, 1:3], axis=-1)
    assert (across <= 0.6 * hit.impulse[:, :, 0] + 1e-8).all()


@pytest.mark.slow
def test_derivatives():
    model, rng = heap(1)
    v, ways = jnp.asarray(rng.normal(size=model.nv)), jnp.asarray(rng.normal(size=(2, model.nv)))

    def after(h, e):
        return impact(model, model.reference, v + h * ways[0], e).velocity @ ways[1]

    both = jax.jit(jax.value_and_grad(after, argnums=(0, 1)))
    slopes = both(0.0, 0.4)[1]
    assert_allclose(slopes[0], quotient(lambda h: both(h, 0.4)[0], 1e-6), rtol=1e-6, atol=1e-7)
    assert_allclose(slopes[1], quotient(lambda h: both(0.0, 0.4 + h)[0], 1e-6), rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_loops_stay_closed():
    builder = rbd.ModelBuilder(name="slider")
    builder.add_body("x", "world", rbd.joints.Prismatic((1, 0, 0)), None, rbd.Inertia.sphere(0.5, 0.1))
    builder.add_body("z", "x", rbd.joints.Prismatic((0, 0, 1)), None, rbd.Inertia.sphere(1.0, 0.1))
    builder.attach(
        rbd.Shape("ball", "z", rbd.shapes.Sphere(0.1)),
        rbd.Shape("floor", "world", rbd.shapes.Plane(), (0, 0, -0.1)),
    )
    tied = rbd.add_constraints(
        builder.build(), rbd.constraints.CoordinateCoupling({"x": [0, -2], "z": [0, 1]})
    )
    # z = 2 x, with energy ½ (1.5/4 + 1) ż².
    hit = impact(tied, jnp.zeros(2), jnp.array([-0.5, -1.0]), 0.5, friction=0.0)
    assert_allclose(hit.velocity, [0.25, 0.5], atol=1e-9)
    assert_allclose(hit.impulse[0, 0], 1.5 * (1.5 / 4 + 1), rtol=1e-9)


@pytest.mark.slow
def test_nothing_touches_and_single_precision():
    model = balls((0, 0, 0.2), (2, 0, 3.0))
    v = jnp.asarray(np.random.default_rng(3).normal(size=12)).at[5].set(-1.0)
    hit = impact(model, model.reference, v, 0.3)
    assert_allclose(hit.velocity[6:], v[6:])
    single = rbd.astype(model, jnp.float32)
    found = impact(single, single.reference, v.astype(jnp.float32), 0.3)
    assert found.velocity.dtype == jnp.float32
    assert_close(found.velocity, hit.velocity, 1e-4)
    up = impact(model, model.reference, v.at[5].set(1.0), 0.3)
    assert_allclose(up.velocity[5], 1.0, atol=1e-9)


@pytest.mark.parametrize(
    "words, said",
    [
        ({"restitution": 1.5}, "restitution is 1.5; it cannot be more than 1"),
        ({"restitution": -0.1}, "restitution is -0.1; it cannot be less than 0"),
        ({"friction": -1.0}, "friction is -1.0"),
        ({"law": "hooke"}, "law"),
    ],
)
def test_what_no_impact_is(words, said, unchecked):
    model = balls((0, 0, 0.2))
    with pytest.raises(ValueError, match=said):
        impact(model, model.reference, jnp.asarray(np.zeros(6)), **words)
