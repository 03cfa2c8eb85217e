"""Small models with all joint families, as functions of one flat vector of all numbers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from joints.families import FAMILIES

import rbd_jax as rbd
from rbd_jax.model import Mimic


#: Joint families per model. Several families share a model, because the cost of a compiled derivative is similar for
#: every model.
GROUPS = {
    "axes": ("fixed", "revolute", "prismatic", "helical", "cylindrical", "planar", "translational"),
    "turns": ("spherical", "free", "universal", "euler zyx", "euler xzx", "exponential", "rack and pinion"),
    "series": ("composite", "free 2d", "free 3d", "reversed", "offset"),
    "driven": ("driven", "driven in a composite", "constant velocity"),
    "splines": ("spline curve", "open spline curve", "spline surface"),
}

#: Steps from a joint's zero configuration to a special one: coincident axes, or a full revolution. The other joints
#: move by 0.3.
SPECIAL = {
    "euler zyx": [0.0, np.pi / 2, 0.0],
    "euler xzx": [0.3, np.pi, 0.2],
    "exponential": [2 * np.pi, 0.0, 0.0],
    "planar": [2 * np.pi, 0.1, 0.2],
}


def body_inertia(rng):
    """Returns a physically consistent inertia: a box with an arbitrary center of mass."""
    return rbd.Inertia.box(rng.uniform(0.5, 2), rng.uniform(0.3, 1, 3), rng.uniform(-0.5, 0.5, 3))


def placement(rng):
    return rbd.Transform.from_xyz_rpy(rng.uniform(-0.5, 0.5, 3), rng.uniform(-2, 2, 3))


def hang(builder, rng, name, parent, joint):
    """Adds a body with all passive joint terms, with generic numbers."""
    along = {}
    if joint.nv:
        terms = ("armature", "damping", "friction", "stiffness")
        along = {term: rng.uniform(0.1, 0.5, joint.nv) for term in terms} | {
            "upper": 9.0,
            "effort_limit": 50.0,
        }
        # A spring torque jumps half a revolution from its rest position, which must not be half a revolution from the
        # states below.
        step = rng.uniform(0.2, 0.4, joint.nv)
        along["spring_reference"] = jax.jit(lambda step: joint.integrate(joint.neutral(), step))(step)
    builder.add_body(name, parent, joint, placement(rng), body_inertia(rng), **along)


def family_model(group):
    """Returns a free base, a chain with one joint per family, and a last link with a welded part."""
    rng = np.random.default_rng(len(group))
    builder = rbd.ModelBuilder(gravity=(0.4, -0.7, -9.0), name=group)
    hang(builder, rng, "base", "world", rbd.joints.Free())
    names = ["base", *GROUPS[group], "tip"]
    for parent, name in zip(names[:-1], names[1:]):
        hang(builder, rng, name, parent, FAMILIES.get(name, rbd.joints.Revolute((0.2, 1.0, -0.3))))
    builder.add_body("tool", "tip", placement=placement(rng), inertia=body_inertia(rng))
    return builder.build()


def mixed_model(traversal="auto"):
    """Returns a forest with branches, welds, a driven joint and quaternions."""
    rng = np.random.default_rng(3)
    joints = rbd.joints
    builder = rbd.ModelBuilder(gravity=(0.4, -0.7, -9.0), name="mixed", traversal=traversal)
    hang(builder, rng, "base", "world", joints.Free())
    hang(builder, rng, "shoulder", "base", joints.Spherical())
    hang(builder, rng, "elbow", "shoulder", joints.Revolute((1.0, 0.2, 0.0)))
    hang(builder, rng, "camera", "shoulder", joints.Fixed())
    hang(builder, rng, "driven", "base", FAMILIES["constant velocity"])
    hang(builder, rng, "flap", "driven", joints.Revolute((0.3, 0.2, -1.0)))
    hang(builder, rng, "post", "world", joints.Universal())
    hang(builder, rng, "door", "post", joints.Revolute((0.0, 1.0, 0.0)))
    return builder.build()


def branched_model():
    """Returns a ball joint that carries two arms, one of them behind a weld."""
    rng = np.random.default_rng(5)
    builder = rbd.ModelBuilder(gravity=(0.4, -0.7, -9.0), name="branched")
    hang(builder, rng, "trunk", "world", rbd.joints.Spherical())
    hang(builder, rng, "left", "trunk", rbd.joints.Universal())
    hang(builder, rng, "shoulder", "trunk", rbd.joints.Fixed())
    hang(builder, rng, "right", "shoulder", rbd.joints.Universal((0.0, 0.6, 0.8), (1.0, 0.0, 0.0)))
    return builder.build()


def coupled_model():
    """Returns a finger whose last joint mimics the first."""
    rng = np.random.default_rng(4)
    builder = rbd.ModelBuilder(name="coupled")
    hang(builder, rng, "near", "world", rbd.joints.Revolute((1.0, 0.2, 0.0)))
    hang(builder, rng, "twist", "near", rbd.joints.Spherical())
    joint, mimic = rbd.joints.Revolute((0.1, 1.0, 0.0)), Mimic("near", 0.7, 0.1)
    builder.add_body("far", "twist", joint, placement(rng), body_inertia(rng), mimic=mimic)
    return builder.build()


def straight_arm():
    """Returns an arm along x with parallel axes, two of them coincident, and massless intermediate bodies."""
    builder = rbd.ModelBuilder(name="straight arm")
    along = rbd.Transform.from_xyz_rpy((0.5, 0.0, 0.0))
    rod = rbd.Inertia.box(1.0, (0.5, 0.1, 0.1), (0.25, 0.0, 0.0))
    acting = {"armature": 0.1, "damping": 0.2, "friction": 0.3, "stiffness": 0.4}
    builder.add_body("upper", "world", rbd.joints.Revolute(), **acting)
    builder.add_body("ring", "upper", rbd.joints.Revolute(), along, **acting)
    builder.add_body("fore", "ring", rbd.joints.Revolute(), **acting)
    builder.add_body("hand", "fore", rbd.joints.Revolute(), along, rod, **acting)
    return builder.build()


MODELS = {group: functools.partial(family_model, group) for group in GROUPS}
MODELS |= {"mixed": mixed_model, "coupled": coupled_model, "straight arm": straight_arm}

#: Names of the states in `states`, in order.
STATES = ("random", "zero, moving", "zero, at rest", "half turns", "special")


def states(model):
    """Returns the stacked configurations and velocities of `STATES`."""
    zero, half, special = np.array(rbd.neutral(model)), np.zeros(model.nv), np.full(model.nv, 0.3)
    for body in range(model.nb):
        if model.topology.is_mimic[body] or not model.joint(body).nv:
            continue
        own = model.v_slice(body)
        half[own.start] = np.pi
        if model.body_names[body] in SPECIAL:
            special[own] = SPECIAL[model.body_names[body]]

    @jax.jit
    def configurations(model, zero, steps):
        random = rbd.random_configuration(model, jax.random.key(0))
        turned = jax.vmap(lambda step: rbd.integrate(model, zero, step))(steps)
        return jnp.concatenate([jnp.stack([random, zero, zero]), turned])

    if "spline curve" in model.joint_names:  # its third derivative jumps at integers
        zero[model.q_slice("spline curve")] = 0.5
    q = np.array(configurations(model, zero, np.stack([half, special])))
    v = np.random.default_rng(0).normal(size=(len(q), model.nv))
    v[STATES.index("zero, at rest")] = 0
    return q, v


def flattened(tree):
    """Returns all numbers of a tree as one vector, and the inverse function."""
    leaves, structure = jax.tree.flatten(tree)
    shapes, ends = [np.shape(leaf) for leaf in leaves], np.cumsum([np.size(leaf) for leaf in leaves])

    def unravel(flat):
        parts = jnp.split(flat, ends[:-1])
        return structure.unflatten([part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)])

    return np.concatenate([np.ravel(leaf) for leaf in leaves]), unravel


def points(model):
    """Returns all inputs of the dynamics as one flat vector per state of `STATES`, and the inverse function."""
    rng = np.random.default_rng(0)
    flat = []
    for q, v in zip(*states(model), strict=True):
        # At rest all other inputs are zero.
        acts = float(np.any(v))
        given = {"model": model, "q": q, "v": v}
        for name, shape in {"tau": model.nv, "a": model.nv, "f_ext": (model.nb, 6)}.items():
            given[name] = acts * rng.normal(size=shape)
        row, unravel = flattened(given)
        flat.append(row)
    return np.stack(flat), unravel


def entry_names(tree):
    """Returns the leaf path of each entry of the flat vector."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [jax.tree_util.keystr(path) for path, leaf in leaves for _ in range(np.size(leaf))]


def weights(size, seed=0):
    """Returns fixed random weights that reduce a vector to a scalar."""
    return np.random.default_rng(seed).uniform(0.5, 1.5, size)


def dynamics_scalar(unravel):
    """Returns a scalar function of the flat vector, which evaluates forward and inverse dynamics with all forces."""

    def scalar(flat):
        x = unravel(flat)
        model, q, v = x["model"], x["q"], x["v"]
        tau = x["tau"] + rbd.passive_force(model, q, v)
        acceleration = rbd.forward_dynamics(model, q, v, tau, x["f_ext"])
        force = rbd.inverse_dynamics(model, q, v, x["a"], x["f_ext"])
        return weights(model.nv) @ acceleration + weights(model.nv, 1) @ force

    return scalar
