"""Properties of all force families: derivatives, energy, power, action and reaction.

Compilation dominates the run time. One compiled function of parameters and state therefore serves all differences.
Derivatives of the library are tested for two forces on a small model, and for all forces in the slow run.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from acting import ALL, ON_BODIES, ROD, mechanism, state
from jax.flatten_util import ravel_pytree
from support import assert_close

import rbd_jax as rbd
from rbd_jax import Motion
from rbd_jax.forces import Bodies, Gear, SpringDamper, Together


MODEL = mechanism()
FLAT, UNRAVEL = ravel_pytree(ALL)
STEP = 1e-5


@pytest.fixture(scope="module")
def rows():
    """Returns a function with tau and energy of each force, for rows of parameters, steps of q, and v."""
    q, _ = state(MODEL)

    @jax.jit
    @jax.vmap
    def each(flat, step, v):
        motion = Motion(MODEL, rbd.integrate(MODEL, q, step), v)
        return {
            name: (force.generalized_force(motion), force.stored_energy(motion))
            for name, force in UNRAVEL(flat).items()
        }

    return each


@pytest.fixture(scope="module")
def slopes(rows):
    """Returns values and central differences by parameters, q and v, at v and at zero velocity."""
    nv, size = MODEL.nv, FLAT.size
    steps = STEP * np.eye(size + 2 * nv)
    steps, flat = np.concatenate([np.zeros((1, size + 2 * nv)), steps, -steps]), np.asarray(FLAT)

    def at(v):
        values = rows(flat + steps[:, :size], steps[:, size : size + nv], v + steps[:, size + nv :])

        def slope(x):
            forth, back = np.split(np.asarray(x[1:]), 2)
            by = np.split(np.moveaxis((forth - back) / (2 * STEP), 0, -1), [size, size + nv], axis=-1)
            return np.asarray(x[0]), *by

        return {name: tuple(map(slope, pair)) for name, pair in values.items()}

    v = np.asarray(state(MODEL)[1])
    return at(v), at(np.zeros_like(v))


@pytest.fixture(
    scope="module",
    params=[pytest.param(names, marks=pytest.mark.slow) for names in (("spring", "gear"), tuple(ALL))],
    ids=["some", "all"],
)
def chosen(request):
    """Names of forces. Derivatives of complete models take long to compile."""
    return request.param


@pytest.fixture(scope="module")
def together(chosen):
    force = Together(*[ALL[name] for name in chosen])

    @jax.jit
    def ask(q, v):
        return {
            "tau": force(MODEL, q, v),
            "power": force.power(MODEL, q, v),
            "dissipation": force.dissipation(MODEL, q, v),
            "stiffness": force.stiffness(MODEL, q, v),
            "damping": force.damping(MODEL, q, v),
        }

    return ask(*state(MODEL))


def test_every_family_acts_in_this_state(slopes):
    for name, ((tau, *_), _) in slopes[0].items():
        assert np.abs(tau).max() > 1e-2, name


#: Forces with an energy source: a muscle, and drag in a wind.
DRIVEN = ("muscle", "box drag", "ellipsoid drag")


def test_conservative_forces_are_the_slope_of_their_energy(slopes):
    """At rest all forces are conservative, except for the active muscle and for drag in a wind."""
    for name, ((tau, *_), (_, _, by_q, by_v)) in slopes[1].items():
        if name not in DRIVEN:
            assert_close(tau, -by_q, 1e-7, name)
            assert_close(by_v, np.zeros(MODEL.nv), 1e-14, name)


def test_together_is_the_sum(slopes, together, chosen):
    assert_close(together["tau"], sum(slopes[0][name][0][0] for name in chosen), 1e-12)


def test_stiffness_and_damping_are_the_changes_of_the_force(slopes, together, chosen):
    assert_close(together["stiffness"], sum(slopes[0][name][0][2] for name in chosen), 1e-7)
    assert_close(together["damping"], -sum(slopes[0][name][0][3] for name in chosen), 1e-7)


def test_power_and_dissipation_account_for_the_energy(slopes, together, chosen):
    """`tau · v + dV/dt + dissipation = 0`."""
    _, v = state(MODEL)
    assert_close(together["power"], together["tau"] @ v, 1e-12)
    stored = sum(slopes[0][name][1][2] for name in chosen) @ v
    assert_close(together["power"] + stored + together["dissipation"], 0.0, 1e-7)


def test_dampers_take_energy_out(slopes):
    """The energy rate of each force separately, by differences."""
    _, v = state(MODEL)
    for name, ((tau, *_), (_, _, by_q, _)) in slopes[0].items():
        lost = -(tau + by_q) @ v
        if name in ("viscous damping", "spring", "network", "cable", "gear", "joint limits"):
            assert lost > 1e-4, name
        elif name not in DRIVEN:
            assert_close(lost, 0.0, 1e-7, name)


def test_gradients_by_parameters(slopes, chosen):
    """By every number of every force."""
    q, v = state(MODEL)
    weights = jnp.asarray(np.random.default_rng(1).normal(size=MODEL.nv))

    @jax.jit
    @jax.grad
    def gradient(flat):
        motion, every = Motion(MODEL, q, v), UNRAVEL(flat)
        each = [weights @ every[name].generalized_force(motion) for name in chosen]
        return sum(each) + sum(0.3 * every[name].stored_energy(motion) for name in chosen)

    parts = [slopes[0][name] for name in chosen]
    expected = sum(np.asarray(weights) @ tau[1] + 0.3 * energy[1] for tau, energy in parts)
    assert_close(gradient(FLAT), expected, 1e-6)


def test_what_follows_from_a_force():
    """The same properties for a spring and a gear on a hinge on a slider."""
    builder = rbd.ModelBuilder(name="sliding hinge")
    builder.add_body("slide", joint=rbd.joints.Prismatic((0.0, 0.6, 0.8)), inertia=ROD)
    builder.add_body("hinge", "slide", rbd.joints.Revolute((1.0, 0.2, 0.0)), inertia=ROD)
    model = builder.build()
    spring = SpringDamper(("hinge", "world"), [[0.1, 0.2, -0.8], [0.5, 0.3, 0.2]], 0.4, 50.0, 3.0)
    force = Together(spring, Gear("slide", "hinge", 1.7, 20.0, 3.0, 0.3))
    q, v = np.array([0.3, -0.4]), np.array([0.8, 0.5])
    steps = STEP * np.concatenate([np.eye(4), -np.eye(4), np.zeros((1, 4))])

    @jax.jit
    def ask(q, v):
        at = jax.vmap(lambda q, v: (force(model, q, v), force.energy(model, q)))
        rates = force.power(model, q, v), force.dissipation(model, q, v)
        matrices = force.stiffness(model, q, v), force.damping(model, q, v)
        parts = [one(model, q, v) for one in force.forces]
        return at(q[None] + steps[:, :2], v[None] + steps[:, 2:]), rates, matrices, parts

    (taus, energies), (power, dissipation), (stiffness, damping), parts = jax.tree.map(np.asarray, ask(q, v))
    by_q, by_v = np.split((taus[:4] - taus[4:8]).T / (2 * STEP), 2, axis=1)
    assert_close(taus[8], sum(parts), 1e-12)
    assert_close(stiffness, by_q, 1e-7)
    assert_close(damping, -by_v, 1e-7)
    assert_close(power, taus[8] @ v, 1e-12)
    stored = (energies[:2] - energies[4:6]) / (2 * STEP) @ v
    assert dissipation > 0.1
    assert_close(power + stored + dissipation, 0.0, 1e-7)


#: Forces between pairs of points.
PULLING = ("point to point", "spring", "muscle")


@pytest.fixture(scope="module")
def wrenches():
    """Returns the wrenches of all forces on bodies, for every body in the world's frame."""

    @jax.jit
    def ask(q, v):
        motion = Motion(MODEL, q, v)
        rest = {name: force for name, force in ON_BODIES.items() if name not in PULLING}
        world = {
            name: motion.world_frames.force(force.body_wrenches_in(motion)) for name, force in rest.items()
        }
        return world | {name: ON_BODIES[name].wrenches(MODEL, q, v) for name in PULLING}

    return jax.tree.map(np.asarray, ask(*state(MODEL)))


def test_generalized_force_is_that_of_the_wrenches(slopes, wrenches):
    """Sueda eqs. 1.12 and 1.13 map forces at points to bodies."""
    q, v = state(MODEL)
    through = jax.jit(jax.vmap(lambda f: rbd.bias_force(MODEL, q, v) - rbd.bias_force(MODEL, q, v, f)))
    for name, tau in zip(wrenches, np.asarray(through(np.stack(list(wrenches.values()))))):
        assert_close(slopes[0][name][0][0], tau, 1e-12, name)


def test_action_is_reaction(wrenches):
    for name in PULLING:
        assert np.abs(wrenches[name]).max() > 1e-2, name
        assert_close(wrenches[name].sum(axis=0), np.zeros(6), 1e-12, name)


@pytest.mark.slow
def test_body_matrices_are_the_changes_of_the_wrenches():
    """Matrices agree with differences by steps `E exp(δ)` of the frames and steps of the twists.

    Other forces are compared with formulas. Sueda §1.9.1, eqs. 1.57 to 1.64.
    """
    names = "viscous damping", "cable", "central field"
    size = 6 * MODEL.nb

    @jax.jit
    def ask(q, v):
        everything = Motion(MODEL, q, v).bodies(range(MODEL.nb))

        def moved(step):
            dE, dφ = (part.reshape(-1, 6) for part in jnp.split(step, 2))
            there, results = everything.moved(dE), {}
            for name in names:
                own = jnp.asarray(ALL[name].acts_on(MODEL))
                bodies = Bodies(there.frames[own], (there.twists + dφ)[own], there.origin)
                results[name] = ALL[name].body_wrenches(MODEL, bodies)
            return results

        steps = STEP * np.concatenate([np.eye(2 * size), -np.eye(2 * size)])
        own = {
            name: (ALL[name].body_stiffness(MODEL, q, v), ALL[name].body_damping(MODEL, q, v))
            for name in names
        }
        return own, jax.vmap(moved)(jnp.asarray(steps))

    found, stepped = ask(*state(MODEL))
    for name, values in stepped.items():
        forth, back = np.split(np.asarray(values).reshape(4 * size, -1), 2)
        by_frame, by_twist = np.split((forth - back).T / (2 * STEP), 2, axis=-1)
        own = np.concatenate([np.arange(6 * body, 6 * body + 6) for body in ALL[name].acts_on(MODEL)])
        assert_close(found[name][0], by_frame[:, own], 1e-7, name)
        assert_close(found[name][1], -by_twist[:, own], 1e-7, name)


@pytest.mark.slow
def test_far_away_digits_are_kept():
    """A kilometer from the world's origin single precision has 0.06 mm; a spring inside a robot does not lose accuracy
    there.
    """
    spring = SpringDamper(("trunk", "forearm"), ALL["spring"].points, 0.4, 50.0, 1.0)
    model, (q, v) = rbd.astype(MODEL, jnp.float32), map(np.asarray, state(MODEL))
    far = q.copy()
    far[:3] += 1000.0
    compute = jax.jit(lambda model, q, v: spring(model, q, v))
    found = compute(model, far.astype(np.float32), v.astype(np.float32))
    assert found.dtype == jnp.float32
    assert_close(found, compute(MODEL, q, v), 1e-6)
