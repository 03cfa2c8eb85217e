"""Gradients through long motions with contact: a ball that bounces, slides and rolls for a thousand steps."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.contact import Rigid, Soft


STEPS = 1000

#: The scalar to differentiate weights the final position, orientation and velocity.
WEIGHTS = np.random.default_rng(0).normal(size=13)

#: Contact model and time step.
LAWS = {
    "soft pyramids": (Soft(), 1e-3),
    "soft cones": (Soft("elliptic"), 1e-3),
    "rigid": (Rigid(restitution=0.6, smoothing=1.0), 5e-4),
}
SPRING = (-3e4, -20.0)

#: The default smoothing of `Rigid`: the square root of the machine precision.
USUAL = 2.0**-26


def ball(law):
    touching = {"friction": (0.3, 0, 0), "solref": SPRING}
    builder = rbd.ModelBuilder(name="thrown")
    builder.add_body("ball", "world", rbd.joints.Free(), None, rbd.Inertia.sphere(1.0, 0.1))
    builder.attach(
        rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1), **touching),
        rbd.Shape("floor", "world", rbd.shapes.Plane(), **touching),
        law,
    )
    return builder.build()


def softened(model, softness):
    """Returns the model with another smoothing of `Rigid`."""
    is_law = lambda x: isinstance(x, Rigid)
    soften = lambda law: eqx.tree_at(lambda law: law.smoothing, law, softness) if is_law(law) else law
    return jax.tree.map(soften, model, is_leaf=is_law)


def thrown(model, dt, x):
    """Simulates a ball of radius 0.1 m with height above the floor and velocity `x` = [z, ω, v]."""
    q = model.reference.at[2].set(0.1 + x[0])
    return rbd.rollout(model, rbd.State(q, x[1:]), dt=dt, steps=STEPS, save_every=STEPS)


@functools.cache
def followed(name):
    """Returns a function of initial states and smoothing, with a scalar of the final state, the code and the gradient."""
    law, dt = LAWS[name]
    model = ball(law)

    def value(x, softness):
        path = thrown(softened(model, softness), dt, x)
        return jnp.sum(WEIGHTS * jnp.concatenate([path.q[-1], path.v[-1]])), path.code

    return jax.jit(jax.vmap(jax.value_and_grad(value, has_aux=True)))


def run(name, x, softness=USUAL):
    (values, codes), slopes = followed(name)(jnp.asarray(x), jnp.full(len(x), softness))
    assert (np.asarray(codes) == 0).all(), name
    return np.asarray(values), np.asarray(slopes)


def starts(count):
    """Returns states of balls that are thrown down with spin and bounce a few times."""
    random = np.random.default_rng(1)
    x = random.normal(size=(count, 7)) * [0, 3, 3, 3, 2, 2, 0.3]
    x[:, 0] = random.uniform(0.05, 0.2, count)
    return x


def by_differences(name, x, step):
    """Returns central differences (n, 7), and the change of the derivative, from the difference of both one-sided ones."""
    moved = x[:, None, None] + step * np.array([1, -1])[:, None, None] * np.eye(7)
    values = run(name, moved.reshape(-1, 7))[0].reshape(len(x), 2, 7)
    here = run(name, x)[0][:, None]
    ahead, behind = values[:, 0] - here, here - values[:, 1]
    return (ahead + behind) / (2 * step), np.abs(ahead - behind) / step


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_they_are_differences_where_the_motion_is_smooth(name):
    """Gradients agree with differences where the motion is smooth.

    Perturbations grow at each bounce, so that smooth pieces are as short as 1e-7 in the initial state. Differences of
    two sizes identify them.
    """
    x = starts(16)
    slopes = run(name, x)[1]
    (wide, _), (narrow, change) = (by_differences(name, x, step) for step in (1e-7, 5e-8))
    size = np.maximum(np.abs(narrow).max(axis=1), 1)
    # If two differences agree up to the third derivative, there is no kink or jump between them. Rigid bounces close to
    # sliding have such large curvature that rounding errors of 1e-11 in forces become 1e-5 of the derivative.
    same = np.abs(wide - narrow).max(axis=1) < 3e-5 * size
    smooth = same & (change.max(axis=1) < (1e-4 if name == "rigid" else 0.1) * size)
    assert smooth.sum() >= 8, (name, smooth.sum())
    expected = narrow + (narrow - wide) / 3
    error = np.abs(slopes - expected).max(axis=1) / size
    assert error[smooth].max() < 1e-5, (name, error[smooth].max())


#: Nonsmooth initial states, as height above the floor and velocities [ω, v]: exactly touching, at rest, falling
#: vertically, rolling, spinning in place, sliding without spin, slightly in the floor, and each of them within
#: rounding.
SPECIAL = {
    "at rest on the floor": [0, 0, 0, 0, 0, 0, 0],
    "at rest above it": [0.1, 0, 0, 0, 0, 0, 0],
    "falling straight on it": [0, 0, 0, 0, 0, 0, -1],
    "falling straight": [0.1, 0, 0, 0, 0, 0, -1],
    "parting": [0, 0, 0, 0, 0, 0, 1],
    "rolling": [0, 0, 10, 0, 1, 0, 0],
    "turning on the spot": [0, 0, 0, 3, 0, 0, 0],
    "spinning against it": [0, 0, -10, 0, 0, 0, 0],
    "sliding": [0, 0, 0, 0, 1, 0, 0],
    "sliding and falling": [0, 0, 0, 0, 1, 0, -1],
    "falling along the edge of the pyramid": [0.05, 0, 0, 0, 1, 1, -1],
    "in the floor": [-1e-3, 0, 0, 0, 0, 0, 0],
    "in the floor and sliding": [-1e-3, 0, 0, 0, 1, 0, 0],
    "within rounding of touching": [1e-17, 0, 0, 0, 1e-17, 0, -1e-17],
    "hardly moving": [0, 1e-160, 0, 0, 1e-160, 0, 0],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_they_are_finite_everywhere(name):
    random = np.random.default_rng(2)
    x = np.concatenate([np.array(list(SPECIAL.values()), float), starts(48)])
    # Sets random numbers of the other states exactly to zero.
    x[len(SPECIAL) :] *= random.integers(0, 2, (48, 7))
    values, slopes = run(name, x)
    finite = np.isfinite(values) & np.isfinite(slopes).all(axis=1)
    assert finite.all(), (name, [list(x[i]) for i in np.flatnonzero(~finite)])


@pytest.mark.slow
def test_those_of_smoothed_contact_become_those_of_rigid():
    """The error is proportional to the smoothing, once the motion is the same."""
    x = starts(16)
    slopes = run("rigid", x)[1]
    size = np.maximum(np.abs(slopes).max(axis=1), 1)
    softness = np.array([1e-4, 1e-5, 1e-6, 1e-7])
    errors = np.array([np.abs(run("rigid", x, s)[1] - slopes).max(axis=1) / size for s in softness])
    assert (np.median(errors, axis=1) < 10 * softness).all(), np.median(errors, axis=1)
    # A few initial states are excluded, because rounding decides their final state.
    assert np.quantile(errors[-1], 0.9) < 1e-4, errors[-1]
