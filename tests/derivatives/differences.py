"""Small models around every joint family, as functions of one flat vector of all their numbers, and their finite differences."""

import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import rbd_jax as rbd


sys.path.append(str(Path(__file__).parents[1] / "joints"))

from families import FAMILIES as FAMILIES  # noqa: E402


def body_inertia(rng):
    """That of a real body: five times a unit cuboid, its centre of mass anywhere."""
    return rbd.Inertia.box(rng.uniform(0.5, 2), rng.uniform(0.3, 1, 3), rng.uniform(-0.5, 0.5, 3))


def placement(rng):
    return rbd.Transform.from_xyz_rpy(rng.uniform(-0.5, 0.5, 3), rng.uniform(-2, 2, 3))


def along(rng, joint, q=None):
    """What acts along a joint, no number special, and limits on some of it."""
    numbers = {name: rng.uniform(0.1, 0.5, joint.nv) for name in ("armature", "damping", "friction", "stiffness")}
    reference = joint.neutral() if q is None else q
    return numbers | {"spring_reference": reference, "upper": 9.0, "effort_limit": 50.0}


def add(builder, rng, name, parent, joint, **options):
    if joint.nq:
        # A spring's pull jumps where the joint is half a turn from the spring's rest: keep the rest off the states below.
        rest = joint.integrate(joint.neutral(), jnp.asarray(rng.uniform(0.2, 0.4, joint.nv)))
        options = along(rng, joint, rest) | options
    builder.add_body(name, parent, joint, placement(rng), body_inertia(rng), **options)


def family_model(family):
    """The family's joint between a free base and one more link, and a welded part on top."""
    rng = np.random.default_rng(len(family))
    builder = rbd.ModelBuilder(gravity=(0.4, -0.7, -9.0), name=family)
    add(builder, rng, "base", "world", rbd.joints.Free())
    add(builder, rng, "middle", "base", FAMILIES[family])
    add(builder, rng, "tip", "middle", rbd.joints.Revolute((0.2, 1.0, -0.3)))
    builder.add_body("tool", "tip", placement=placement(rng), inertia=body_inertia(rng))
    return builder.build()


def mixed_model(walk="auto"):
    """A forest with branches, welds, a joint that mimics another, one that moves by itself, and quaternions."""
    rng = np.random.default_rng(3)
    joints = rbd.joints
    builder = rbd.ModelBuilder(gravity=(0.4, -0.7, -9.0), name="mixed", walk=walk)
    add(builder, rng, "base", "world", joints.Free())
    add(builder, rng, "shoulder", "base", joints.Spherical())
    add(builder, rng, "elbow", "shoulder", joints.Revolute((1.0, 0.2, 0.0)))
    builder.add_body("camera", "shoulder", placement=placement(rng), inertia=body_inertia(rng))
    add(builder, rng, "led", "base", FAMILIES["driven"])
    add(builder, rng, "slide", "led", joints.Prismatic((0.3, 0.2, -1.0)))
    add(builder, rng, "post", "world", joints.Universal())
    add(builder, rng, "flap", "post", joints.Revolute((0.0, 1.0, 0.0)))
    return builder.build()


def coupled_model():
    """A finger whose last joint mimics the first."""
    rng = np.random.default_rng(4)
    revolute = rbd.joints.Revolute
    builder = rbd.ModelBuilder(name="coupled")
    add(builder, rng, "near", "world", revolute((1.0, 0.2, 0.0)))
    add(builder, rng, "twist", "near", rbd.joints.Spherical())
    builder.add_body(
        "far", "twist", revolute(), placement(rng), body_inertia(rng), mimic=rbd.model.Mimic("near", 0.7, 0.1)
    )
    return builder.build()


#: Steps within one joint at which something special happens: a gimbal lock, or a whole turn.
SPECIAL = {
    "euler zyx": [0.0, np.pi / 2, 0.0],
    "euler xzx": [0.3, np.pi, 0.2],
    "exponential": [2 * np.pi, 0.0, 0.0],
    "planar": [2 * np.pi, 0.1, 0.2],
}


def states(model, step=None, seed=0):
    """Random and special states, stacked: (q, v).

    In order: two random ones; the zero configuration moving, then at rest; half a turn of each joint, the sense of
    `step` within the second joint instead if given.
    """
    keys = jax.random.split(jax.random.key(seed), 3)
    zero, half = rbd.neutral(model), np.zeros(model.nv)
    for body in range(model.nb):
        if not model.topology.follows[body] and model.joint(body).nv:
            half[model.v_slice(body).start] = np.pi
    turned = [half]
    if step is not None:
        turned.append(np.where(half == 0, 0, 0.3))
        turned[1][model.v_slice(1)] = step
    q = [rbd.random_configuration(model, keys[0]), rbd.random_configuration(model, keys[1]), zero, zero]
    q += [rbd.integrate(model, zero, jnp.asarray(dv)) for dv in turned]
    v = jax.random.normal(keys[2], (len(q), model.nv)).at[3].set(0)
    return jnp.stack(q), v


def points(model, step=None, seed=0):
    """All that a scalar of the dynamics depends on, flat, at each of the `states`; and the way back from flat."""
    q, v = states(model, step, seed)
    rng = np.random.default_rng(seed)

    def numbers(q, v):
        given = {"tau": rng.normal(size=model.nv), "a": rng.normal(size=model.nv)}
        given["f_ext"] = rng.normal(size=(model.nb, 6))
        # At rest, nothing pushes either.
        given = {name: jnp.asarray(x if jnp.any(v) else 0 * x) for name, x in given.items()}
        return {"model": model, "q": q, "v": v} | given

    flat = [ravel_pytree(numbers(*sample)) for sample in zip(q, v, strict=True)]
    return jnp.stack([x for x, _ in flat]), flat[0][1]


def weights(size, seed=0):
    """Fixed numbers that make a scalar of a vector, each entry with a weight of its own."""
    return jnp.asarray(np.random.default_rng(seed).uniform(0.5, 1.5, size))


def dynamics_scalar(unravel):
    """Forward and inverse dynamics, everything that acts included, as one number of a flat vector."""

    def scalar(flat):
        x = unravel(flat)
        model, q, v = x["model"], x["q"], x["v"]
        tau = x["tau"] + rbd.passive_force(model, q, v)
        acceleration = rbd.forward_dynamics(model, q, v, tau, x["f_ext"])
        force = rbd.inverse_dynamics(model, q, v, x["a"], x["f_ext"])
        w = weights(model.nv)
        return jnp.sum(w * acceleration) + jnp.sum(w[::-1] * force)

    return scalar


def differences(batched, x, step=1e-4):
    """The gradient at each row of `x` by central differences of fourth order; `batched` maps rows to numbers.

    One call takes all steps in all directions. Infinite entries, which no step changes, give zero.
    """
    x = np.asarray(x)
    rows, size = x.shape
    steps = np.array([-2, -1, 1, 2]) * step
    moved = x[:, None, None, :] + steps[None, None, :, None] * np.eye(size)[None, :, None, :]
    values = np.asarray(batched(jnp.asarray(moved.reshape(-1, size)))).reshape(rows, size, 4)
    return values @ np.array([1, -8, 8, -1]) / (12 * step)


def assert_close(found, expected, tolerance):
    """Equal to `tolerance` of the largest entry of each row, and finite."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert np.isfinite(found).all() and np.isfinite(expected).all()
    scale = np.abs(expected).max(axis=-1, keepdims=True) if expected.ndim else np.abs(expected)
    error = np.abs(found - expected) / np.maximum(scale, 1)
    assert error.max(initial=0) < tolerance, error.max()


def is_number(leaf):
    return eqx.is_inexact_array(leaf)
