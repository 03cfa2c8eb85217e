"""A few models that together have all features, states to test them in, and the library's results.

Quantities are in groups. A group is compiled as one program when a test first requires one of its quantities.

- `mixed`: a floating base and a branched tree with joints of every other type, welds between, armature.
- `chain`: six revolute joints in series.
- `forest`: two trees of hinges far from the world's origin and from each other, with welds, one of them to the world.
  It is the default model: compile time grows with the number of joint types, not with the number of bodies.
- `driven`: driven joints inside the tree.
- `floating`: a free base with two hinges on it.
- `coupled`: mimic joints on two branches.
- `track`: joints along splines. They take so long to compile that they have a separate model and test.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import support

import rbd_jax as rbd
from rbd_jax import joints


SAMPLES = 3
MODELS = ("chain", "forest", "coupled", "driven", "floating", "mixed")
#: Models for the long test runs. In the default run `forest` and the tests with a separate model represent them.
LONG = ("chain", "coupled", "driven", "floating", "mixed")
#: Models whose Jacobians are tested in all forms. The forms are the same for all joints, and take long to compile.
POINTED = ("chain", "forest", "coupled")
#: The point of a body for Jacobians, in the body's frame.
POINT = np.array([0.3, -0.2, 0.5])
FRAMES = ("world", "body", "world_aligned")
#: The time for driven joints.
TIME = 0.4


def each(names):
    """Returns the names as test parameters, with those of `LONG` marked slow."""
    return [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in names]


class Wobble(eqx.Module):
    """A prescribed motion: `center + amplitude sin(rate t)`."""

    center: jax.Array
    amplitude: jax.Array
    rate: jax.Array

    def __call__(self, time):
        return self.center + self.amplitude * jnp.sin(self.rate * time)


def wobble(size, seed):
    rng = np.random.default_rng(seed)
    return Wobble(*jax.device_put(list(rng.uniform(0.3, 1.2, (3, size)))))


def some_inertia(rng):
    spread = rng.normal(size=(3, 3))
    central = 0.3 * np.eye(3) + 0.02 * spread @ spread.T
    return rbd.Inertia.from_mass_com(rng.uniform(0.5, 2.0), rng.uniform(-0.3, 0.3, 3), central)


def some_placement(rng):
    return rbd.Transform.from_xyz_rpy(rng.uniform(-0.5, 0.5, 3), rng.uniform(-2.0, 2.0, 3))


def build(name, bodies, seed=0, gravity=(0.4, -0.7, -9.6), **along):
    """Returns a model of `(name, parent, joint)` entries, each body with a random inertia and placement.

    `along` has further arguments for some bodies: armature, mimic, placement.
    """
    rng, builder = np.random.default_rng(seed), rbd.ModelBuilder(gravity, name)
    for body, parent, joint in bodies:
        own = {"placement": some_placement(rng), "inertia": some_inertia(rng)} | along.get(body, {})
        builder.add_body(body, parent, joint, **own)
    return builder.build(strict=True)


def mixed():
    bodies = [
        ("base", "world", joints.Free()),
        ("plate", "base", joints.Fixed()),
        ("arm", "plate", joints.Revolute((1.0, -2.0, 0.5))),
        ("elbow", "arm", joints.Universal((1.0, 0.2, 0.1), (0.3, 1.0, -0.2))),
        ("wheel", "elbow", joints.RackAndPinion(0.4)),
        ("tool", "wheel", joints.Fixed()),
        ("screw", "plate", joints.Helical((1.0, 0.2, -0.4), 0.3)),
        ("tube", "screw", joints.Cylindrical((0.4, 1.0, 0.3))),
        ("bracket", "tube", joints.Fixed()),
        ("sled", "bracket", joints.Planar((0.3, -0.5, -1.0))),
        ("ball", "tube", joints.Spherical()),
        ("gantry", "base", joints.Translational()),
        ("wrist", "gantry", joints.SphericalEuler("zyx")),
        ("slide", "wrist", joints.Prismatic((0.3, 0.2, -1.0))),
        ("knob", "gantry", joints.SphericalExponential()),
    ]
    # On joints of several degrees of freedom the armature is the same about all axes, like the inertia of a spinning
    # ball. It then has no gyroscopic moment.
    armature = {"arm": 0.3, "wheel": 0.1, "screw": 0.2, "ball": 0.05, "slide": 0.4}
    return build("mixed", bodies, **{body: {"armature": x} for body, x in armature.items()})


def pair():
    """Returns two hinges, the smallest nontrivial model."""
    bodies = [
        ("upper", "world", joints.Revolute((1.0, -2.0, 0.5))),
        ("lower", "upper", joints.Revolute((0.3, 1.0, -0.2))),
    ]
    return build("pair", bodies, seed=7, lower={"armature": 0.3})


HINGE = joints.Revolute((0.2, 1.0, 0.3))


def floating(tip=HINGE):
    bodies = [
        ("base", "world", joints.Free()),
        ("arm", "base", joints.Revolute((1.0, -2.0, 0.5))),
        ("tip", "arm", tip),
    ]
    return build("floating", bodies, seed=2, arm={"armature": 0.3})


def chain():
    axes = np.random.default_rng(1).normal(size=(6, 3))
    names = [f"link{i}" for i in range(6)]
    bodies = [(*pair, joints.Revolute(axis)) for *pair, axis in zip(names, ["world", *names], axes)]
    return build("chain", bodies, seed=1)


def forest():
    turn = lambda *axis: joints.Revolute(axis)
    bodies = [
        ("post", "world", joints.Fixed()),
        ("a", "post", turn(0.0, 0.3, 1.0)),
        ("a flange", "a", joints.Fixed()),
        ("a left", "a flange", turn(1.0, 0.0, 0.0)),
        ("a right", "a flange", turn(0.0, 1.0, 0.2)),
        ("a tip", "a left", turn(0.0, 1.0, 0.0)),
        ("a end", "a tip", joints.Fixed()),
        ("b", "world", turn(0.2, 0.1, 1.0)),
        ("b left", "b", turn(1.0, 0.5, 0.0)),
        ("b right", "b", turn(0.0, 1.0, 0.5)),
    ]
    along = {
        "post": {"placement": rbd.Transform.from_xyz_rpy((30.0, -20.0, 5.0), (0.3, -0.4, 1.0))},
        "b": {"placement": rbd.Transform.from_xyz_rpy((-40.0, 10.0, 8.0), (1.0, 0.2, -0.5))},
        "a left": {"armature": 0.2},
    }
    return rbd.with_traversal(build("forest", bodies, seed=2, **along), "scan")


def track():
    rng = np.random.default_rng(3)
    curve = rbd.lie.SE3.exp(jnp.asarray(rng.uniform(-0.6, 0.6, (5, 6))))
    surface = jnp.asarray(rng.uniform(-0.7, 0.7, (4, 5, 6)))
    bodies = [("bead", "world", joints.SplineCurve(curve)), ("skate", "bead", joints.SplineSurface(surface))]
    return build("track", bodies, seed=5)


#: The motions of the driven joints of `driven`.
SWING, TWIST, SPIN = wobble(2, 5), wobble(1, 6), jax.device_put(np.array([0.7, -0.4, 0.9]))


def driven(free=False):
    """Returns a model with driven joints; with `free`, the same mechanism with ordinary joints in their place."""
    swing, twist, spin = (
        joints.Cylindrical((0.2, 1.0, 0.0)),
        joints.Helical((1.0, 0.0, 0.3), 0.2),
        joints.Spherical(),
    )
    if not free:
        swing, twist = joints.Driven(swing, SWING, TIME), joints.Driven(twist, TWIST, TIME)
        spin = joints.ConstantVelocity(spin, SPIN, time=TIME)
    bodies = [
        ("arm", "world", joints.Revolute((0.0, 0.3, 1.0))),
        ("swing", "arm", swing),
        ("ball", "swing", joints.Spherical()),
        ("flange", "ball", joints.Fixed()),
        ("spin", "arm", spin),
        ("slide", "spin", joints.Prismatic((1.0, 0.2, 0.0))),
        ("screw", "flange", joints.Composite((joints.Revolute((1.0, 0.5, 0.0)), twist, joints.Prismatic()))),
    ]
    return build("driven", bodies, seed=3, arm={"armature": 0.2})


#: The mimic relations of `coupled`: `q = multiplier q_a + offset`.
FOLLOWS = {"a": (1.0, 0.0), "c": (-0.7, 0.4), "e": (1.6, -0.2)}


def coupled(free=False):
    """Returns a model with mimic joints; with `free`, the same mechanism with independent joints."""
    turn = lambda *axis: joints.Revolute(axis)
    bodies = [
        ("a", "world", turn(0.0, 0.3, 1.0)),
        ("b", "a", turn(1.0, 0.0, 0.4)),
        ("c", "b", joints.Prismatic((0.2, 1.0, 0.0))),
        ("d", "c", turn(0.3, 1.0, 0.0)),
        ("e", "a", turn(1.0, 1.0, 0.0)),
        ("f", "e", joints.Spherical()),
    ]
    # The mimic joint's armature is added to its leader, times the multiplier squared.
    along = {"c": {"armature": 0.1}, "d": {"armature": 0.2}}
    for body in () if free else ("c", "e"):
        along[body] = along.get(body, {}) | {"mimic": rbd.Mimic("a", *FOLLOWS[body])}
    return build("coupled", bodies, seed=4, **along)


@dataclass(frozen=True)
class States:
    """States of a model with accelerations and external forces, one per row."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    f_ext: np.ndarray


def quaternions(joint, start=0):
    """Yields the slices of a joint's quaternions in a configuration; the joint's coordinates begin at `start`."""
    if isinstance(joint, joints.Composite):
        for part in joint.joints:
            yield from quaternions(part, start)
            start += part.nq
    elif joint.quaternion is not None:
        yield slice(start + joint.quaternion.start, start + joint.quaternion.stop)


def some_configurations(model, rng, samples):
    """Returns configurations with arbitrary hinge angles, other angles up to 1 rad, lengths up to 1 m, and unit
    quaternions.
    """
    q = rng.uniform(-1, 1, (samples, model.nq))
    for body in np.flatnonzero(~np.asarray(model.topology.is_mimic)):
        joint, own = model.joints[model.topology.kind_of[body][0]], model.q_slice(int(body))
        if isinstance(joint, joints.Revolute):
            q[:, own] *= np.pi
        for four in quaternions(joint, own.start):
            q[:, four] /= np.linalg.norm(q[:, four], axis=1, keepdims=True)
    return q


def some_states(model, seed=0, samples=SAMPLES):
    rng = np.random.default_rng(seed)
    v, a = rng.normal(size=(2, samples, model.nv))
    f_ext = rng.normal(size=(samples, model.nb, 6))
    return States(some_configurations(model, rng, samples), v, a, f_ext)


@cache
def compiled(function):
    """Returns `function(model, ...)` compiled over a batch of states. The parameters of the model are arguments too."""
    batched = lambda model, *states: jax.vmap(partial(function, model))(*states)
    fast = jax.jit(batched)
    return lambda model, *states: jax.tree.map(np.asarray, fast(model, *states))


def last(model):
    return model.nb - 1


def velocities(frame):
    return lambda m, q, v: rbd.body_velocities(m, q, v, frame)


def jacobian(frame, point=None):
    return lambda m, q, v: rbd.jacobian(m, q, last(m), point, frame)


def accelerations(frame):
    return lambda m, q, v, a, f: rbd.body_accelerations(m, q, v, a, frame)


def jacobian_rate(frame, point=None):
    return lambda m, q, v, a, f: rbd.jacobian_derivative(m, q, v, last(m), point, frame)


#: Kinematic quantities of a model in motion, at one time: `(model, q, v)`.
KINEMATICS = [
    {
        "frames": lambda m, q, v: rbd.forward_kinematics(m, q).matrix,
        "mass matrix": lambda m, q, v: rbd.mass_matrix(m, q),
        "kinetic energy": rbd.kinetic_energy,
        "potential energy": lambda m, q, v: rbd.potential_energy(m, q),
        "momentum": rbd.momentum,
        "center": lambda m, q, v: rbd.center_of_mass(m, q),
        "centroidal matrix": lambda m, q, v: rbd.centroidal_momentum_matrix(m, q),
        "center jacobian": lambda m, q, v: rbd.center_of_mass_jacobian(m, q),
        "velocities, world": velocities("world"),
        "velocities, body": velocities("body"),
        "jacobian, world": jacobian("world"),
        "jacobian, body": jacobian("body"),
    },
    {
        "velocities, world_aligned": velocities("world_aligned"),
        "jacobian, world_aligned, point": jacobian("world_aligned", POINT),
    },
    {
        "jacobian, world_aligned": jacobian("world_aligned"),
        "jacobian, world, point": jacobian("world", POINT),
        "jacobian, body, point": jacobian("body", POINT),
    },
]
#: Other quantities: `(model, q, v, a, f_ext)`.
ALGORITHMS = [
    {
        "tau": rbd.inverse_dynamics,
        "mass matrix": lambda m, q, v, a, f: rbd.mass_matrix(m, q),
        "bias": lambda m, q, v, a, f: rbd.bias_force(m, q, v),
        "bias, external": lambda m, q, v, a, f: rbd.bias_force(m, q, v, f),
        "gravity": lambda m, q, v, a, f: rbd.gravity_force(m, q),
        "coriolis": lambda m, q, v, a, f: rbd.coriolis_matrix(m, q, v),
    },
    {
        "acceleration": lambda m, q, v, a, f: rbd.forward_dynamics(
            m, q, v, rbd.inverse_dynamics(m, q, v, a, f), f
        ),
        "solved": lambda m, q, v, a, f: rbd.solve_mass_matrix(m, q, rbd.mass_matrix(m, q)),
    },
    {
        "back and forth": lambda m, q, v, a, f: rbd.inverse_dynamics(
            m, q, v, rbd.forward_dynamics(m, q, v, a)
        ),
        "solved, one": lambda m, q, v, a, f: rbd.solve_mass_matrix(m, q, rbd.mass_matrix(m, q)[:, 0]),
    },
    {
        "accelerations, world": accelerations("world"),
        "accelerations, body": accelerations("body"),
        "jacobian rate, world": jacobian_rate("world"),
        "jacobian rate, body": jacobian_rate("body"),
    },
    {
        "accelerations, world_aligned": accelerations("world_aligned"),
        "jacobian rate, world_aligned, point": jacobian_rate("world_aligned", POINT),
    },
    {
        "jacobian rate, world_aligned": jacobian_rate("world_aligned"),
        "jacobian rate, world, point": jacobian_rate("world", POINT),
        "jacobian rate, body, point": jacobian_rate("body", POINT),
    },
]


class Seen(dict):
    """Values by name. A group is computed, and compiled as one program, when one of its values is first read."""

    def __init__(self, groups, compute):
        super().__init__()
        self.groups, self.compute = [tuple(group) for group in groups], compute

    def __missing__(self, name):
        self.update(self.compute(next(group for group in self.groups if name in group)))
        return self[name]


#: First derivative by fourth-order differences: `(f(-2h) - 8 f(-h) + 8 f(h) - f(2h)) / 12h`.
STEP = 1e-3
TIMES = STEP * np.array([0.0, -2.0, -1.0, 1.0, 2.0])
WEIGHTS = np.array([0.0, 1.0, -8.0, 8.0, -1.0]) / (12 * STEP)
#: Its error: `STEP⁴/30` times the fifth derivative, and about 1e-13 of rounding. The bodies rotate at up to 10 rad/s.
BY_DIFFERENCES = 2e-8


def rate_of(values):
    """Returns the rate at the middle, from values at `TIMES`."""
    return jax.tree.map(lambda x: jnp.tensordot(WEIGHTS, x, 1), values)


@cache
def motion(names):
    """Returns a compiled function for some of the `KINEMATICS` and their rates, by differences along the motion."""
    chosen = {name: group[name] for group in KINEMATICS for name in names if name in group}

    def now_and_rate(model, q, v, a):
        def at(step):
            now = rbd.at_time(model, TIME + step) if model.topology.rheonomic else model
            here, speed = rbd.integrate(model, q, step * v), v + step * a
            return {name: function(now, here, speed) for name, function in chosen.items()}

        values = jax.vmap(at)(TIMES)
        return jax.tree.map(lambda x: x[0], values), rate_of(values)

    return compiled(now_and_rate)


@cache
def algorithms(names):
    """Returns a compiled function for some of the `ALGORITHMS`."""
    chosen = {name: group[name] for group in ALGORITHMS for name in names if name in group}
    return compiled(lambda *state: {name: function(*state) for name, function in chosen.items()})


def outline(model, q, v, a, f_ext):
    """Returns the quantities that must agree between descriptions of the same mechanism."""
    return {
        "frames": rbd.forward_kinematics(model, q).matrix,
        "velocities, world": rbd.body_velocities(model, q, v),
        "accelerations, world": rbd.body_accelerations(model, q, v, a),
        "jacobian rate, world": rbd.jacobian_derivative(model, q, v, model.nb - 1),
        "mass matrix": rbd.mass_matrix(model, q),
        "coriolis": rbd.coriolis_matrix(model, q, v),
        "bias, external": rbd.bias_force(model, q, v, f_ext),
        "kinetic energy": rbd.kinetic_energy(model, q, v),
        "potential energy": rbd.potential_energy(model, q),
        "momentum": rbd.momentum(model, q, v),
    }


class Case:
    """A model with states, and the computed quantities for all tests."""

    def __init__(self, model, seed=0):
        self.model, self.states = model, some_states(model, seed)

    @cached_property
    def motion(self):
        return self.moving(self.model, self.states.a)

    @cached_property
    def seen(self):
        return self.algorithms(self.model)

    @cached_property
    def still(self):
        """The same configurations at zero velocity: only the motion of driven joints remains."""
        none = np.zeros_like(self.states.v)
        return Seen(KINEMATICS, lambda names: motion(names)(self.model, self.states.q, none, none)[0])

    def moving(self, model, a, groups=KINEMATICS):
        """Returns the kinematic quantities and their rates."""
        both = cache(lambda names: motion(names)(model, self.states.q, self.states.v, a))
        return {
            "now": Seen(groups, lambda names: both(names)[0]),
            "rate": Seen(groups, lambda names: both(names)[1]),
        }

    def algorithms(self, model, groups=ALGORITHMS, **changed):
        """Returns the other quantities."""
        s = replace(self.states, **changed)
        return Seen(groups, lambda names: algorithms(names)(model, s.q, s.v, s.a, s.f_ext))


@cache
def case_of(name):
    return Case(
        {
            "floating": floating,
            "mixed": mixed,
            "chain": chain,
            "forest": forest,
            "driven": driven,
            "coupled": coupled,
            "track": track,
        }[name]()
    )


#: Rounding, amplified by condition numbers of the mass matrices of up to 1e4.
EXACT = 1e-10


def assert_close(a, b, tolerance=EXACT):
    """Checks equality to a tolerance, relative to the largest entry."""
    support.assert_close(a, b, tolerance)


def apply(matrix, vector):
    return np.einsum("...ij,...j->...i", matrix, vector)


def transpose(matrix):
    return np.swapaxes(matrix, -1, -2)
