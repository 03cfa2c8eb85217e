"""Compliant contact: penetration at rest, bounces, sticking and creeping, and all kinds of systems."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support import quotient

import rbd_jax as rbd
from rbd_jax.contact import Compliant


def ball(*things, gravity=(0, 0, -9.81), high=0.1, turns=False):
    """Returns a ball of 2 kg and radius 0.1 m above a floor.

    It slides along x and z, or with `turns` is a free body.
    """
    builder = rbd.ModelBuilder(gravity, "ball")
    inertia = rbd.Inertia.sphere(2.0, 0.1)
    if turns:
        builder.add_body(
            "ball", "world", rbd.joints.Free(), None, inertia, reference=np.array([0, 0, high, 1.0, 0, 0, 0])
        )
    else:
        builder.add_body("x", "world", rbd.joints.Prismatic((1, 0, 0)), None, rbd.Inertia.zero())
        at = rbd.Transform.from_xyz_rpy((0, 0, high))
        builder.add_body("ball", "x", rbd.joints.Prismatic((0, 0, 1)), at, inertia)
    shapes = (
        rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1)),
        rbd.Shape("floor", "world", rbd.shapes.Plane()),
    )
    builder.attach(*shapes, *things)
    return builder.build()


def run(model, v, steps, dt=0.002, **options):
    state = rbd.State(model.reference, np.asarray(v))
    return jax.tree.map(np.asarray, rbd.rollout(model, state, dt=dt, steps=steps, **options))


@pytest.mark.slow
def test_it_lies_as_deep_as_its_weight_presses():
    """The penetration is `m g / k` for high stiffness.

    A step of 20 ms is 40 times an explicit scheme's limit. Book eq. 11.74.
    """
    model = ball(Compliant("floor", "ball", 1e7, 1e4, law="linear"))
    path = run(model, [0.0, 0.0], 100, dt=0.02, scheme=rbd.LinearlyImplicitEuler())
    assert path.code == 0
    assert_allclose(path.q[-1], [0, -2 * 9.81 / 1e7], atol=1e-9)


@pytest.fixture(scope="module")
def bounced():
    """Returns a function of the damping that simulates a bounce.

    The ball hits the floor at 1 m/s. The function returns the final velocity, its derivative, and the energy along the
    motion.
    """
    model = ball(Compliant("floor", "ball", 1e5), high=0.11, gravity=(0, 0, 0))

    def energies(damping):
        force = Compliant("floor", "ball", 1e5, damping)
        other = rbd.attach(rbd.detach(model, "force"), force)
        path = rbd.rollout(
            other,
            rbd.State(jnp.zeros(2), jnp.array([0.0, -1.0])),
            dt=2e-4,
            steps=300,
            scheme=rbd.RungeKutta4(),
        )
        kept = jax.vmap(lambda q: force.energy(other, q))(path.q)
        return path.v[:, 1] ** 2 + kept, path.v[-1, 1]

    return jax.jit(jax.value_and_grad(lambda d: (energies(d)[1], energies(d)[0]), has_aux=True))


@pytest.mark.slow
def test_a_bounce_keeps_energy_without_damping_and_loses_it_with(bounced):
    (speed, energy), _ = bounced(0.0)
    assert_allclose(energy, 1.0, atol=1e-5)
    assert_allclose(speed, 1.0, atol=1e-5)
    (slower, energy), slope = bounced(2e4)
    assert 0.2 < slower < 0.95 and (np.diff(energy) < 1e-6).all()
    assert_allclose(slope, quotient(lambda h: bounced(2e4 + h)[0][0], 1.0), rtol=1e-5)


def test_a_surface_that_is_left_comes_back():
    """The surface recovers by `exp(-k t / d)` while a ball hovers within the indentation (book eqs. 11.73, 11.76)."""
    force = Compliant("floor", "ball", 1e3, 50.0, law="viscoelastic", series_stiffness=1e5, pressed=0.02)
    path = run(ball(force, gravity=(0, 0, 0), high=0.09), [0.0, 0.0], 50, scheme=rbd.RungeKutta4())
    falling = 0.02 * np.exp(-1e3 / 50 * np.asarray(path.t))
    away = falling > 0.01
    assert 10 < away.sum() < 50
    assert_allclose(path.own[away, 0], falling[away], rtol=1e-6)
    assert_allclose(path.own[:, 1:], np.broadcast_to(falling[:, None], (51, 3)), rtol=1e-6)
    # afterwards the surface pushes the ball up
    assert np.abs(path.v[away]).max() < 1e-12 and path.v[-1, 1] > 0


@pytest.fixture(scope="module")
def viscoelastic():
    """Returns a function of the surface parameters that simulates a fall by 1 cm with bounces.

    The function returns the ball's speed after its first bounce, the gradient, the energy, and the final state.
    """
    plain = ball(high=0.11)

    def fallen(numbers):
        k, d, s = numbers
        force = Compliant("floor", "ball", k, d, law="viscoelastic", series_stiffness=s)
        model = rbd.attach(plain, force)
        start = rbd.State(jnp.zeros(2), jnp.zeros(2))
        path = rbd.rollout(model, start, dt=2e-4, steps=6000, scheme=rbd.RungeKutta4())

        def energy(q, v, own):
            held = force.holding(own)
            return rbd.kinetic_energy(model, q, v) + rbd.potential_energy(model, q) + held.energy(model, q)

        return path.v[400, 1], (jax.vmap(energy)(path.q, path.v, path.own), path.final)

    return jax.jit(jax.value_and_grad(fallen, has_aux=True))


@pytest.mark.slow
def test_a_viscoelastic_bounce(viscoelastic):
    """The energy never increases, although the surface is hit again before it has recovered.

    At rest both springs carry the weight. Derivatives agree with differences.
    """
    numbers = jnp.array([2e4, 100.0, 1e6])
    (speed, (energy, final)), slopes = viscoelastic(numbers)
    assert energy[0] - energy[-1] > 0.1 and np.diff(energy).max() < 1e-7
    weight = 2 * 9.81
    assert_allclose(final.q[1], -0.01 - weight / 2e4 - weight / 1e6, rtol=1e-3)
    assert_allclose(final.own[0], weight / 2e4, rtol=1e-2)
    for place in range(3):
        step = 1e-5 * numbers * np.eye(3)[place]
        rise = viscoelastic(numbers + step)[0][0] - viscoelastic(numbers - step)[0][0]
        assert_allclose(slopes[place], rise / (2e-5 * numbers[place]), rtol=1e-3)


@pytest.mark.slow
def test_a_stiff_series_is_the_linear_law():
    """Until the contact separates the bounce is the same, because a stiff surface follows at once (book eq. 11.74)."""
    common = {"gravity": (0, 0, 0), "high": 0.102}
    ends = []
    for force in (
        Compliant("floor", "ball", 2e4, 100.0, law="linear"),
        Compliant("floor", "ball", 2e4, 100.0, law="viscoelastic", series_stiffness=1e7),
    ):
        path = run(ball(force, **common), [0.0, -1.0], 2000, dt=2e-5, scheme=rbd.RungeKutta4())
        ends.append(float(path.v[-1, 1]))
    assert 0.3 < ends[0] < 0.95
    assert_allclose(ends[1], ends[0], rtol=5e-3)


def test_what_a_viscoelastic_surface_takes():
    for wrong in ({"law": "viscoelastic"}, {"law": "linear", "series_stiffness": 1.0}):
        with pytest.raises(rbd.ModelError, match="series_stiffness"):
            Compliant("floor", "ball", 1e3, 1.0, **wrong)
    with pytest.raises(ValueError, match="damping"):
        Compliant("floor", "ball", 1e3, 0.0, law="viscoelastic", series_stiffness=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("sliding", ["regularized", "bristle"])
def test_friction(sliding):
    """On a slope below the friction angle bristles hold and regularized friction creeps; above it both slide equally.

    Book eqs. 11.77 to 11.79.
    """
    force = Compliant("floor", "ball", 1e5, 1e3, 0.5, law="linear", sliding=sliding)
    gravity = lambda angle: 9.81 * jnp.array([np.sin(angle), 0, -np.cos(angle)])
    scheme = rbd.LinearlyImplicitEuler()
    held = run(ball(force, gravity=gravity(0.3)), [0.0, 0.0], 400, scheme=scheme)
    share = np.tan(0.3) / 0.5
    creep = 1e-3 * share / np.sqrt(1 - share**2) if sliding == "regularized" else 0.0
    assert_allclose(held.v[-1], [creep, 0], atol=1e-6)
    if sliding == "bristle":
        assert_allclose(held.q[-1, 0], 2 * 9.81 * np.sin(0.3) / 1e4, atol=2e-4)
    slides = run(ball(force, gravity=gravity(0.6)), [0.0, 0.0], 200, scheme=scheme)
    expected = 9.81 * (np.sin(0.6) - 0.5 * np.cos(0.6))
    assert_allclose((slides.v[-1, 0] - slides.v[-51, 0]) / 0.1, expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme", [rbd.RungeKutta4(), rbd.BDF2(), rbd.ImplicitMidpoint(), rbd.SemiImplicitEuler()]
)
def test_schemes_roll_alike(scheme):
    force = Compliant("floor", "ball", 1e6, 1e7, 0.5, sliding="bristle")
    path = run(ball(force, turns=True, high=0.0995), [0, 0, 0, 1.0, 0, 0], 1000, dt=1e-3, scheme=scheme)
    v = rbd.lie.quaternion.rotate(*map(jnp.asarray, (path.q[-1, 3:], path.v[-1, 3:])))
    # Sliding turns into rolling at 5/7 of the initial speed.
    assert_allclose(v, [5 / 7, 0, 0], atol=0.02)


@pytest.mark.slow
def test_loops_reduced_models_edits_and_single_precision():
    force = Compliant("floor", "ball", 1e4, 1e3, 0.5, sliding="bristle")
    model = ball(force, high=0.15)
    tied = rbd.add_constraints(model, rbd.constraints.CoordinateCoupling({"x": [0, -2], "ball": [0, 1]}))
    reduced = rbd.ReducedModel(model, lambda y: jnp.concatenate([0.5 * y, y]), 1)
    whole = run(tied, [0.0, 0.0], 200, scheme=rbd.LinearlyImplicitEuler())
    few = rbd.rollout(
        reduced,
        rbd.State(jnp.zeros(1), jnp.zeros(1)),
        dt=0.002,
        steps=200,
        scheme=rbd.LinearlyImplicitEuler(),
    )
    assert_allclose(whole.q[:, 1], few.q[:, 0], atol=1e-7)
    other = rbd.rename(model, attached={("shape", "ball"): "b"})
    q, v = jnp.array([0.1, -0.06]), jnp.array([0.3, -0.2])
    expected = model.forces[0](model, q, v)
    assert np.abs(expected).min() > 1
    assert_allclose(other.forces[0](other, q, v), expected)
    single = rbd.astype(model, jnp.float32)
    found = single.forces[0](single, q.astype(jnp.float32), v.astype(jnp.float32))
    assert found.dtype == jnp.float32
    assert_allclose(found, expected, rtol=1e-4)
    two = rbd.detach(model, "shape")
    assert not two.forces  # forces between shapes are removed with the shapes


@pytest.mark.slow
def test_forces_on_bodies_and_along_joints_are_one():
    force = Compliant("floor", "ball", 1e4, 1e3, 0.5)
    model = ball(force, turns=True, high=0.095)
    q, v = model.reference, jnp.array([1.0, 2, 3, 0.4, 0.5, -0.6])
    tau = force(model, q, v)
    motion = rbd.dynamics.Motion(model, q, v)
    assert_allclose(force.body_wrenches_in(motion)[0], tau, atol=1e-9)
    found = force.contacts(motion)
    assert_allclose(found.distance, [-0.005], atol=1e-12)
    across = np.linalg.norm(found.force[0, 1:3])
    assert_allclose(across, 0.5 * found.force[0, 0], rtol=1e-4)
    assert force.dissipation(model, q, v) > 0


@pytest.mark.parametrize(
    "words, said",
    [
        ({"second": "floor"}, "different shapes"),
        ({"stiffness": -1.0}, "stiffness is -1.0"),
        ({"friction": -0.1}, "friction is -0.1"),
        ({"law": "hertz"}, "law"),
        ({"exponent": 0.5}, "exponent is 0.5"),
    ],
)
def test_what_no_force_is(words, said, unchecked):
    with pytest.raises(ValueError, match=said):
        Compliant(**{"first": "floor", "second": "ball", "stiffness": 1.0, **words})


def test_shapes_that_are_not_there():
    with pytest.raises(rbd.ModelError, match="bll"):
        ball(Compliant("floor", "bll", 1.0))


@pytest.mark.slow
def test_its_forces_are_among_those_of_the_contacts():
    """Contact results include a compliant force, beside a contact model or in place of a contact without force."""
    force = Compliant("floor", "ball", 1e5, law="linear")
    for law in ((), (rbd.contact.Soft(),)):
        model = ball(force, *law)
        state = rbd.State(model.reference.at[1].add(-1e-3), jnp.zeros(2))
        found = rbd.contact_forces(model, state)
        assert found.shapes[-1] == ("floor", "ball")
        assert found.active.sum() == 1 + len(law)
        assert_allclose(found.force[-1, 0], 100.0, rtol=1e-9)
        path = rbd.rollout(model, state, dt=1e-4, steps=2, scheme=rbd.SemiImplicitEuler())
        assert_allclose(path.contacts(model).force[0, -1, 0], 100.0, rtol=1e-9)
