"""Ensembles of simulations: smooth motions, and a pushed cube whose motion has jumps."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.identify.problem import ensembles


MODEL = rbd.load("pendulum")
TRUTH = identify.Parameters(MODEL, identify.damping()).with_values(jnp.array([0.3]))


def test_places_of_an_ensemble():
    """Linear functions keep their mean and slopes: the points are symmetric pairs, uncorrelated, with unit variance."""
    for count, size in ((8, 4), (64, 14), (30, 15)):
        many = ensembles(3, count, size)
        assert many.shape == (3, count, size)
        for places in many:
            np.testing.assert_allclose(places.mean(axis=0), 0, atol=1e-15)
            np.testing.assert_allclose(places.T @ places, count * np.eye(size), atol=1e-12)
        assert not np.array_equal(many, ensembles(3, count, size, 1))


@pytest.fixture(scope="module")
def log():
    """Positions of a swinging pendulum, with noise."""
    path = rbd.rollout(TRUTH, rbd.State(np.array([1.0]), np.zeros(1)), dt=0.05, steps=59)
    q = np.asarray(path.q) + 2e-3 * np.asarray(jax.random.normal(jax.random.key(0), path.q.shape))
    return identify.Log(np.arange(60) / 20, q, tau=np.zeros((60, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["joined", "free"])
def test_smooth_motions_have_the_same_estimate(log, nodes):
    """For smooth motions, the mean and slopes of an ensemble equal those of its central simulation."""
    single, many = (
        identify.solve(
            identify.Problem(
                MODEL, log, identify.damping(), identify.OutputError(1.0, nodes=nodes, ensemble=ensemble)
            )
        )
        for ensemble in (None, 8)
    )
    assert single.converged and many.converged
    assert abs(many.values - single.values) < 0.1 * single.standard_errors
    np.testing.assert_allclose(many.standard_errors, single.standard_errors, rtol=0.05)
    assert abs(many.values[0] - 0.3) < 4 * single.standard_errors[0]


@pytest.mark.slow
def test_the_loss_has_the_slope_of_its_differences(log):
    compare = identify.OutputError(1.0, nodes="free", ensemble=8)
    problem = identify.Problem(MODEL, log, identify.damping(), compare, noise={"q": 2e-3})
    began = problem.start(TRUTH)
    loss = jax.jit(problem.loss)
    slope = jax.grad(loss)(began)
    for name in ("x", "states"):
        step = 1e-5 * jnp.ones_like(getattr(began, name))
        up, down = (began._replace(**{name: getattr(began, name) + sign * step}) for sign in (1, -1))
        expected = (loss(up) - loss(down)) / 2
        assert abs(jnp.sum(getattr(slope, name) * step) - expected) < 1e-6 * abs(expected) + 1e-9


def test_what_an_ensemble_takes(log):
    with pytest.raises(
        ValueError, match="ensemble is 4, but for the 3 unknowns of a window it must be 6 or more"
    ):
        identify.Problem(MODEL, log, identify.damping(), identify.OutputError(1.0, ensemble=4))
    with pytest.raises(ValueError, match="nodes is 'measured'"):
        identify.OutputError(nodes="measured", ensemble=8)


# A cube pushed over a table.

CUBE = """<mujoco><option timestep="0.002" cone="elliptic"/><worldbody>
<geom name="table" type="plane" size="5 5 .1" friction="{friction}"/>
<body name="cube" pos="0 0 0.1"><freejoint name="cube"/>
<geom name="cube" type="box" size=".1 .1 .1" mass="{mass}" friction="{friction}" priority="1"/></body></worldbody></mujoco>"""


def pushed(mass, friction, noise, seed, count):
    """Returns a MuJoCo log: forces at the cube's center, and its pose. Without noise it also has velocities."""
    real = mujoco.MjModel.from_xml_string(CUBE.format(mass=mass, friction=friction))
    model = rbd.load_mjcf(CUBE.format(mass=1.0, friction=0.5))
    data, random = mujoco.MjData(real), np.random.default_rng(seed)
    mujoco.mj_step(real, data, 500)
    phase, places = random.uniform(0, 6, 5), rbd.interop.MujocoMap(model, real)
    q, v, tau = [], [], []
    for t in 0.002 * np.arange(count):
        wave = lambda hertz, i, t=t: np.sin(2 * np.pi * hertz * t + phase[i])
        push = np.array([9 * wave(0.9, 0) + 5 * wave(2.1, 1), 8 * wave(1.1, 2) + 4 * wave(1.7, 3), 0.0])
        twist = np.array([0.0, 0.0, 0.25 * wave(1.3, 4)])
        data.xfrc_applied[1] = np.concatenate([push, twist])
        turn = data.xmat[1].reshape(3, 3)
        q.append(np.asarray(places.configuration_from(data.qpos)))
        v.append(np.asarray(places.velocity_from(data.qpos, data.qvel)))
        tau.append(np.concatenate([turn.T @ twist, turn.T @ push]))
        mujoco.mj_step(real, data)
    q, t = np.array(q), 0.002 * np.arange(count)
    if not noise:
        return model, identify.Log(t, q, np.array(v), tau=np.array(tau))
    error = jax.device_put(noise * random.normal(size=(count, 6)))
    q = jax.vmap(lambda q, step: rbd.integrate(model, q, step))(jax.device_put(q), error)
    return model, identify.Log(t, q, tau=np.array(tau))


FREE = [identify.masses("cube"), identify.sliding_friction("cube")]


@pytest.mark.slow
@pytest.mark.parametrize(("mass", "friction", "seed"), [(1.3, 0.42, 0), (0.8, 0.6, 1)])
def test_mass_and_friction_of_a_pushed_cube(mass, friction, seed):
    """Identifies from positions with noise of 0.2 mm and 0.2 mrad, twice the penetration; guesses are 30 % and 20 % off.

    Chatter that no ensemble predicts occurs in bursts, so large errors get smaller weights.
    """
    model, log = pushed(mass, friction, 2e-4, seed, 1000)
    compare = identify.OutputError(window=0.25, nodes="free", ensemble=48)
    found = identify.solve(identify.Problem(model, log, FREE, compare, robust=True))
    np.testing.assert_allclose(found.values, [mass, friction], rtol=0.01)


@pytest.mark.slow
def test_mass_and_friction_of_a_pushed_cube_from_exact_states():
    """With exact states, each step equals MuJoCo's up to its solver error.

    This error is 2e-5 of the mass, and chatter amplifies it over several steps.
    """
    model, log = pushed(1.3, 0.42, 0.0, 0, 500)
    found = identify.solve(
        identify.Problem(model, log, FREE, identify.OutputError(window=0.002, nodes="measured"))
    )
    np.testing.assert_allclose(found.values, [1.3, 0.42], rtol=1e-4)
