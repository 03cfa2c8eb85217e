"""Configurations as points of a manifold: neutral and random configurations, integration and difference."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._core.arguments import a_model, configuration, random_key, takes, velocity
from .._core.array import gather, is_known
from .._core.jit import compiled
from .model import Model


def neutral(model: Model) -> Float[Array, "nq"]:
    """Returns the reference configuration: every joint at its zero unless the model file defines another one.

    It is `model.reference`. For an MJCF file it is `qpos0`: free bodies at their positions in the file, joints at their `ref`.

    >>> print(rbd.neutral(rbd.load("double_pendulum")))
    [0. 0.]
    """
    a_model("neutral", model, planar=True)
    return model.reference


def random_configuration(model: Model, key: PRNGKeyArray) -> Float[Array, "nq"]:
    """Returns a random configuration over each joint's range, within the model's finite limits.

    Args:
      model: The model.
      key: Random key.

    >>> model = rbd.load("double_pendulum")
    >>> q = rbd.random_configuration(model, jax.random.key(0))
    >>> bool(jnp.all(abs(q) <= jnp.pi))
    True
    """
    a_model("random_configuration", model, planar=True)
    return _drawn(model, random_key("random_configuration", key))


@compiled
def _drawn(model: Model, key: PRNGKeyArray) -> Float[Array, "nq"]:
    keys = jax.random.split(key, model.nb + 1)
    by_kind = [keys[np.array(_owners(model, kind), int)] for kind in range(len(model.joints))]
    drawn = _assemble(model, lambda joint, key: joint.random(key).astype(model.dtype), "q", by_kind)
    lower, upper = jax.lax.stop_gradient(model.lower), jax.lax.stop_gradient(model.upper)
    limited = jnp.isfinite(lower) & jnp.isfinite(upper)
    share = jax.random.uniform(keys[-1], drawn.shape, drawn.dtype)
    within = jnp.where(limited, lower, 0) + share * jnp.where(limited, upper - lower, 0)
    return jnp.where(limited, within, drawn)


@takes(planar=True, q=configuration, dv=velocity)
def integrate(model: Model, q: Float[Array, "nq"], dv: Float[Array, "nv"]) -> Float[Array, "nq"]:
    """Returns `q ⊕ dv`: the configuration after moving from `q` at the constant velocity `dv` for unit time.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      dv: Velocity, shape (nv,).

    >>> model = rbd.load("double_pendulum")
    >>> print(rbd.integrate(model, jnp.array([0.5, 1.0]), jnp.array([0.1, 0.2])))
    [0.6 1.2]
    """
    arguments = _by_kind(model, q, "q"), _by_kind(model, dv, "v")
    return _assemble(model, lambda joint, q, dv: joint.integrate(q, dv), "q", *arguments)


@takes(planar=True, q0=configuration, q1=configuration)
def difference(model: Model, q0: Float[Array, "nq"], q1: Float[Array, "nq"]) -> Float[Array, "nv"]:
    """Returns `q1 ⊖ q0`: the constant velocity that moves `q0` to `q1` in unit time; the inverse of `integrate`.

    Args:
      model: The model.
      q0: Initial configuration, shape (nq,).
      q1: Final configuration, shape (nq,).

    >>> model = rbd.load("double_pendulum")
    >>> print(rbd.difference(model, q0=jnp.array([0.5, 1.0]), q1=jnp.array([0.6, 1.2])))
    [0.1 0.2]
    """
    arguments = _by_kind(model, q0, "q"), _by_kind(model, q1, "q")
    return _assemble(model, lambda joint, q0, q1: joint.difference(q0, q1), "v", *arguments)


def chart_velocity(
    model: Model, q: Float[Array, "nq"], dv: Float[Array, "nv"], rate: Float[Array, "nv"]
) -> Float[Array, "nv"]:
    """Returns the velocity of `q ⊕ dv` if `dv` changes at `rate`: `dexp`, for steps in the tangent space at q.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      dv: Step in the tangent space at q, shape (nv,).
      rate: Time derivative of `dv`, shape (nv,).

    >>> builder = rbd.ModelBuilder()
    >>> ball = builder.add_body("ball", joint=rbd.joints.Spherical(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> model = builder.build()
    >>> turned, rate = jnp.array([0.0, 0.0, 1.0]), jnp.array([1.0, 0.0, 0.0])
    >>> print(rbd.model.chart_velocity(model, rbd.neutral(model), turned, rate))
    [ 0.841 -0.46   0.   ]
    """
    arguments = (_by_kind(model, x, space) for x, space in ((q, "q"), (dv, "v"), (rate, "v")))
    return _assemble(model, lambda joint, *x: joint.chart_velocity(*x), "v", *arguments)


def chart_rate(
    model: Model, q: Float[Array, "nq"], dv: Float[Array, "nv"], v: Float[Array, "nv"]
) -> Float[Array, "nv"]:
    """Returns the time derivative of `dv` if `q ⊕ dv` moves at `v`: the inverse of `chart_velocity`.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      dv: Step in the tangent space at q, shape (nv,).
      v: Velocity of `q ⊕ dv`, shape (nv,).

    >>> builder = rbd.ModelBuilder()
    >>> ball = builder.add_body("ball", joint=rbd.joints.Spherical(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> model = builder.build()
    >>> turned, velocity = jnp.array([0.0, 0.0, 1.0]), jnp.array([1.0, 0.0, 0.0])
    >>> print(rbd.model.chart_rate(model, rbd.neutral(model), turned, velocity))
    [0.915 0.5   0.   ]
    """
    arguments = (_by_kind(model, x, space) for x, space in ((q, "q"), (dv, "v"), (v, "v")))
    return _assemble(model, lambda joint, *x: joint.chart_rate(*x), "v", *arguments)


def check_quaternions(owner: str, model: Model, q: Float[Array, "nq"]) -> None:
    """Raises an error for zero quaternions, which define no rotation, in concrete configurations."""
    if not is_known(q):
        return
    for kind, joint in enumerate(model.joints):
        for body in _owners(model, kind) if joint.quaternion else ():
            if not np.any(np.asarray(q)[model.q_slice(body)][joint.quaternion]):
                raise ValueError(
                    f"{owner}: q has a quaternion of zero for joint {model.joint_names[body]!r}; the identity is (1, 0, 0, 0), "
                    "as in rbd.neutral(model)"
                )


def charted(model: Model) -> bool:
    """Returns whether a joint has singular coordinates somewhere, so that `reparametrized` may change the state."""
    return any(joint.charted for joint in model.joints)


def reparametrized(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], near: Float[Array, "nq"] | None = None
) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
    """Returns the same state in the best-conditioned coordinates, or in the coordinates nearest to `near`."""
    arguments = [list(_by_kind(model, q, "q")), list(_by_kind(model, v, "v"))]
    arguments += [] if near is None else [list(_by_kind(model, near, "q"))]
    here = _assemble(model, lambda joint, *x: joint.reparametrize(*x)[0], "q", *arguments)
    return here, _assemble(model, lambda joint, *x: joint.reparametrize(*x)[1], "v", *arguments)


@takes(planar=True, q=configuration, v=velocity)
def configuration_rate(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nq"]:
    """Returns `q̇`, the time derivative of the stored coordinates of q at the velocity `v` (book's qdfn, eq. 3.7).

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).

    >>> model = rbd.load("double_pendulum")
    >>> print(rbd.configuration_rate(model, jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])))
    [1. 2.]
    """
    arguments = _by_kind(model, q, "q"), _by_kind(model, v, "v")
    return _assemble(model, lambda joint, q, v: joint.configuration_rate(q, v), "q", *arguments)


def _owners(model: Model, kind: int) -> list[int]:
    """Returns the bodies of a group of joints that have their own coordinates (joints that do not mimic others)."""
    topology = model.topology
    return [body for body in topology.kinds[kind].bodies if not topology.is_mimic[body]]


def _by_kind(model: Model, x, space: str):
    """Yields the rows of `x` that belong to the joints of each group."""
    entries = model.topology.joint_q if space == "q" else model.topology.joint_v
    for kind, group in enumerate(model.topology.kinds):
        table = [entries(body) for body in _owners(model, kind)]
        width = group.nq if space == "q" else group.nv
        yield gather(x, np.array(table, int).reshape(-1)).reshape(len(table), width)


def _assemble(model: Model, method, space: str, *arguments):
    """Applies a joint's method to every joint with its own coordinates, and returns the results in the order of q or v.

    `arguments` are the arguments of the method, each as an iterable over the groups of joints.
    """
    entries = model.topology.joint_q if space == "q" else model.topology.joint_v
    parts, positions = [], [np.zeros(0, int)]
    for kind, (joints, *rows) in enumerate(zip(model.joints, *arguments, strict=True)):
        bodies = _owners(model, kind)
        if bodies:
            members = jax.tree.map(
                lambda leaf, own=model.topology.kind_of[bodies, 1]: gather(leaf, own), joints
            )
            parts.append(jax.vmap(method, axis_size=len(bodies))(members, *rows).reshape(-1))
            positions += [entries(body) for body in bodies]
    if not parts:
        return jnp.zeros(0, model.dtype)
    return gather(jnp.concatenate(parts), np.argsort(np.concatenate(positions), kind="stable"))
