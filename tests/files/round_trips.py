"""Random models, and comparisons of mechanisms, for the tests of writers."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from support import assert_close

import rbd_jax as rbd
from rbd_jax import joints


STATES = 3

#: Joints of both formats, with the library's coordinates.
BOTH = {
    "revolute": lambda random: joints.Revolute(random.normal(size=3)),
    "prismatic": lambda random: joints.Prismatic(random.normal(size=3)),
    "fixed": lambda random: joints.Fixed(),
    "cylindrical": lambda random: joints.Cylindrical(random.normal(size=3)),
    "universal": lambda random: joints.Universal(random.normal(size=3), random.normal(size=3)),
    "translational": lambda random: joints.Translational(),
    "spherical_euler": lambda random: joints.SphericalEuler("yzx"),
    "composite": lambda random: joints.Composite(
        (joints.Revolute((0, 1, 0)), joints.Prismatic((0, 0, 1)), joints.Revolute((1, 1, 0)))
    ),
}
#: Joints of URDF alone, and of MJCF alone.
URDF = BOTH | {
    "helical": lambda random: joints.Helical(random.normal(size=3), 0.3),
    "rack": lambda random: joints.RackAndPinion(0.2),
    "free": lambda random: joints.Free(),
    "planar": lambda random: joints.Planar((0, 0, 1)),
    "tilted": lambda random: joints.Planar(random.normal(size=3)),
}
MJCF = BOTH | {
    "ball": lambda random: joints.Spherical(),
    "telescope": lambda random: joints.Composite((joints.Spherical(), joints.Prismatic((0, 1, 0)))),
    "floats": lambda random: joints.Free3D(),
}


def tree(families, seed=0, free=False, **along) -> rbd.Model:
    """Returns a random tree with one joint per family, named after it; with `free` on a floating body."""
    random = np.random.default_rng(seed)
    builder = rbd.ModelBuilder(name=f"tree_{seed}")
    names = ["world"]
    if free:
        builder.add_body("base", "world", joints.Free(), None, inertia(random), joint_name="root")
        names.append("base")
    for name, make in families.items():
        builder.add_body(
            f"on_{name}", names[random.integers(len(names))], make(random), placement(random), inertia(random),
            joint_name=name, **{key: give(random) for key, give in along.items()},
        )  # fmt: skip
        names.append(f"on_{name}")
    return builder.build(strict=True)


def placement(random) -> rbd.Transform:
    rotation = np.asarray(rbd.lie.quaternion.to_matrix(jnp.asarray(random.normal(size=4))))
    return rbd.Transform(jnp.asarray(rotation), jnp.asarray(random.normal(size=3)))


def inertia(random) -> rbd.Inertia:
    square = random.normal(size=(3, 3))
    square = square @ square.T
    central = np.trace(square) * np.eye(3) - square  # central inertia of a body with these second moments
    return rbd.Inertia.from_mass_com(random.uniform(0.5, 2), random.normal(size=3), central)


def quietly(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rbd.ModelWarning)
        return function(*args, **options)


def coordinates(first: rbd.Model, second: rbd.Model, of="q") -> np.ndarray:
    """Returns the indices of the first model's coordinates in the second, where its joints may be split into parts."""
    found = []
    for name in first.joint_names:
        if first.topology.is_mimic[first.topology.joint_index(name)]:
            continue
        size = first.q_slice(name).stop - first.q_slice(name).start
        parts = [name] if name in second.joint_names else []
        parts = parts or [part for part in second.joint_names if part.startswith(f"{name}:")]
        slices = [getattr(second, f"{of}_slice")(part) for part in parts] if size else []
        found += [i for own in slices for i in range(own.start, own.stop)]
    return np.array(found, int)


def assert_same_mechanism(first, second, tolerance=1e-9, seed=0):
    """Checks that frames, mass matrix and bias agree at random states, in the coordinates of the first model."""
    q_at, v_at = coordinates(first, second, "q"), coordinates(first, second, "v")
    assert sorted(q_at) == list(range(second.nq)) and sorted(v_at) == list(range(second.nv))
    random = np.random.default_rng(seed)
    q, v = random.normal(size=(STATES, first.nq)), random.normal(size=(STATES, first.nv))
    q2, v2 = np.zeros_like(q), np.zeros_like(v)
    q2[:, q_at], v2[:, v_at] = q, v
    ours, theirs = seen(first, q, v), seen(second, q2, v2)
    for name in first.body_names:
        if name not in second.body_names:
            assert not float(first.inertias.mass[first.body_index(name)]), name
            continue
        i, k = first.body_index(name), second.body_index(name)
        for a, b in zip(jax.tree.leaves(ours["frames"]), jax.tree.leaves(theirs["frames"]), strict=True):
            assert_close(b[:, k], a[:, i], tolerance, f"frame of {name}")
    if first.nv:
        assert_close(theirs["mass"][:, v_at][:, :, v_at], ours["mass"], tolerance, "mass matrix")
        assert_close(theirs["bias"][:, v_at], ours["bias"], tolerance, "bias")


def seen(model, q, v):
    """Returns frames, mass matrix and bias force at states."""

    def look(q, v):
        return {
            "frames": rbd.forward_kinematics(model, q),
            "mass": rbd.mass_matrix(model, q),
            "bias": rbd.bias_force(model, q, v),
        }

    found = jax.jit(jax.vmap(look)).lower(q, v).compile()(q, v)
    return jax.tree.map(np.asarray, found)


def assert_same_model(first, second, tolerance=1e-12):
    """Checks that names, tree and numbers agree."""
    assert (first.body_names, first.joint_names) == (second.body_names, second.joint_names)
    assert first.topology.parents == second.topology.parents
    assert jax.tree.structure(first.joints) == jax.tree.structure(second.joints)
    assert first.settings == second.settings
    for name in ("placements", "inertias", "joints", "mimic_multiplier", "mimic_offset", *ALONG):
        for a, b in zip(
            jax.tree.leaves(getattr(first, name)), jax.tree.leaves(getattr(second, name)), strict=True
        ):
            a, b = np.asarray(a), np.asarray(b)
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=name)
    assert [thing.label for thing in first.attached] == [thing.label for thing in second.attached]
    for one, other in zip(first.attached, second.attached, strict=True):
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=one.label)


ALONG = ("gravity", "armature", "damping", "friction", "stiffness", "spring_reference", "lower", "upper") + (
    "reference",
    "velocity_limit",
    "effort_limit",
)
