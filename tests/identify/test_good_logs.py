"""Valid logs of all bundled robots pass the checks without warnings: a false alarm is worse than a miss."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.identify import Channel, Log, LogWarning, check_log
from rbd_jax.identify._motion import quaternions


EVERY_DAY = ["cartpole", "quadruped"]


class Motions:
    """Smooth motions of a robot over several seconds, evaluated at any times: positions, velocities and accelerations."""

    def __init__(self, name: str):
        self.model = rbd.load(name)
        model = self.model
        here = jnp.asarray(rbd.neutral(model))
        step = 1e-4

        @jax.jit
        def along(ways):
            """Returns configurations, and velocities at the middle of three."""
            q = jax.vmap(lambda way: rbd.integrate(model, here, way))(ways.reshape(-1, model.nv)).reshape(
                -1, 3, model.nq
            )
            v = jax.vmap(lambda row: rbd.difference(model, row[0], row[2]) / (2 * step))(q)
            return q[:, 1], v

        self._along, self._step = along, step

    def states(self, seed: int, t: np.ndarray, size: float = 1.0, still=()):
        """Returns q, v and a; the degrees of freedom in `still` do not move."""
        random, nv = np.random.default_rng(seed), self.model.nv
        speed = 2 * np.pi * random.uniform(0.1, 0.8, (3, nv))
        much = size * random.uniform(0.1, 0.4, (3, nv)) * random.choice([0.2, 1.0], nv)
        much[:, list(still)] = 0
        phase = random.uniform(0, 6, (3, nv))
        way = lambda t: np.sum(much * np.sin(speed * (t - t0)[..., None, None] + phase), axis=-2)
        t0 = t[0]
        at = lambda t: [
            np.asarray(x, float)
            for x in self._along(way(self._padded(t)[:, None] + self._step * np.array([-1, 0, 1])))
        ]
        q, v = (x[: len(t)].copy() for x in at(t))
        before, after = (at(t + end)[1][: len(t)] for end in (-1e-3, 1e-3))
        return q, v, (after - before) / 2e-3

    def _padded(self, t):
        """Pads to a common length, to avoid recompilation."""
        return np.concatenate([t, np.full(2000 - len(t), t[-1])])


@pytest.fixture(
    scope="module",
    params=[
        name if name in EVERY_DAY else pytest.param(name, marks=pytest.mark.slow) for name in rbd.robots.NAMES
    ],
)
def motions(request):
    return Motions(request.param)


def unit(model, q):
    """Normalizes quaternions, as in measured data."""
    for _, at in quaternions(model):
        q[:, at] /= np.linalg.norm(q[:, at], axis=1, keepdims=True)
    return q


def plain(motions, seed):
    t = np.arange(800) / 200
    return Log(t, *motions.states(seed, t))


def short(motions, seed):
    count = [2, 3, 5, 9, 12, 40][seed % 6]
    t = np.arange(count) / 100
    return Log(t, *motions.states(seed, t))


def noisy(motions, seed):
    """Noise in all channels, from negligible to as large as the motion."""
    t, random = np.arange(800) / 200, np.random.default_rng(seed)
    q, v, a = motions.states(seed, t, size=[1.0, 0.3, 0.05, 0.01][seed % 4])
    size = 10 ** random.uniform(-5, -2)
    add = lambda x, much: x + much * random.normal(size=x.shape)
    return Log(t, unit(motions.model, add(q, size)), add(v, 10 * size), add(a, 100 * size))


def of_differences(motions, seed):
    """Velocities are differences of noisy positions, as many controllers send them."""
    t, random = np.arange(1000) / 500, np.random.default_rng(seed)
    q, v, a = motions.states(seed, t)
    return Log(t, q, v + 1e-4 * 500 * np.diff(random.normal(size=(1001, v.shape[1])), axis=0))


def offset(motions, seed):
    """Velocities with a constant error, and slowly filtered velocities."""
    t, random = np.arange(800) / 200, np.random.default_rng(seed)
    q, v, a = motions.states(seed, t)
    lag = motions.states(seed, t - 0.02)[1] if seed % 2 else v
    return Log(t, q, lag + 0.03 * random.normal(size=v.shape[1]), a)


def partly_at_rest(motions, seed):
    """Some joints do not move, with or without measurement noise."""
    t, random = np.arange(600) / 100, np.random.default_rng(seed)
    nv = motions.model.nv
    still = random.choice(nv, size=max(nv // 2, 1), replace=False)
    q, v, a = motions.states(seed, t, still=still if seed % 3 else range(nv))
    size = 1e-3 * (seed % 2)
    add = lambda x, much: x + much * random.normal(size=x.shape)
    return Log(t, unit(motions.model, add(q, size)), add(v, 5 * size))


def quantized(motions, seed):
    """Coarse encoders, and single precision."""
    t = np.arange(1500) / 1000
    q, v, a = motions.states(seed, t)
    line = 2 * np.pi / [4096, 1024][seed % 2]
    rounded = np.round(q / line) * line if motions.model.nq == motions.model.nv else q.astype(np.float32)
    return Log(t, rounded, v.astype(np.float32))


def rates(motions, seed):
    """Rates from 10 Hz to 1 kHz, uneven times, and Unix time stamps."""
    random = np.random.default_rng(seed)
    rate = [10, 25, 60, 250, 1000][seed % 5]
    even = np.arange(min(8 * rate, 1500)) / rate
    t = 1.7e9 + even + random.uniform(-0.3, 0.3, len(even)) / rate
    return Log(t, *motions.states(seed, t, size=[1, 0.2][seed % 2]))


def with_gaps(motions, seed):
    t, random = np.arange(900) / 150, np.random.default_rng(seed)
    q, v, a = motions.states(seed, t)
    rows = np.setdiff1d(np.arange(900), np.arange(200, 420))
    for x in (q, v, a):
        x[random.uniform(size=x.shape) < 0.05] = np.nan
    return Log(t[rows], q[rows], v[rows], a[rows])


def other_clocks(motions, seed):
    t, slow = np.arange(1000) / 250, np.arange(100) / 25 - 0.013
    q, v, a = motions.states(seed, t)
    return Log(
        t,
        q,
        Channel(motions.states(seed, slow)[1], slow + 0.1, 0.1),
        Channel(motions.states(seed, t - 0.03)[2], delay=0.03),
    )


def signs_jump(motions, seed):
    """Quaternions have either sign."""
    t, random = np.arange(800) / 200, np.random.default_rng(seed)
    q, v, a = motions.states(seed, t)
    for _, at in quaternions(motions.model):
        q[:, at] *= random.choice([-1, 1], (len(t), 1))
    return Log(t, Channel(q, t + 0.001), v, a)


def beyond_limits(motions, seed):
    """Positions slightly beyond limits, as with compliant limits, and torques up to the peak of motors."""
    t = np.arange(800) / 200
    model = motions.model
    q, v, a = motions.states(seed, t)
    limit = np.where(np.isfinite(model.effort_limit), model.effort_limit, 100.0)
    tau = 2 * limit * np.sin(7 * t)[:, None]
    if model.nq == model.nv:
        low, high = (np.asarray(end, float) for end in (model.lower, model.upper))
        known = np.isfinite(low) & np.isfinite(high)
        q[:, known] = (q + np.where(known, high * 1.1, 0) - q.max(axis=0))[:, known]
    return Log(t, q, v, a, tau)


GOOD = [
    plain,
    short,
    noisy,
    of_differences,
    offset,
    partly_at_rest,
    quantized,
    rates,
    with_gaps,
    other_clocks,
    signs_jump,
    beyond_limits,
]
SEEDS = 5


@pytest.mark.parametrize("kind", GOOD)
def test_right_logs_pass(motions, kind):
    for seed in range(SEEDS):
        log = kind(motions, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error", LogWarning)
            check_log(motions.model, log)
