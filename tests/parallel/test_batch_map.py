"""`batch_map` equals `vmap` for every public function and every type of argument."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


SIZE = 3


def arm():
    """Returns a free body with a hinge and a ball joint on it."""
    builder = rbd.ModelBuilder(name="arm")
    inertia = rbd.Inertia.box(1.0, (0.2, 0.3, 0.4), (0.1, 0.0, 0.2))
    placement = rbd.Transform.from_xyz_rpy((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    builder.add_body("trunk", "world", rbd.joints.Free(), placement, inertia)
    builder.add_body("upper", "trunk", rbd.joints.Revolute(), placement, inertia, damping=0.1)
    builder.add_body("fore", "upper", rbd.joints.Spherical(), placement, inertia, stiffness=0.2)
    return builder.build()


MODEL = rbd.attach(
    arm(),
    rbd.Site("tip", "fore", (0.1, 0.0, 0.2)),
    rbd.Site("wall", "world", (1.0, 0.0, 0.0)),
    rbd.Shape("ball", "fore", rbd.shapes.Sphere(0.1)),
    rbd.sensors.Accelerometer("accelerometer", "tip"),
)
TIED = rbd.add_constraints(MODEL, rbd.constraints.Distance("world", None, "fore", (0.1, 0.2, 0.3), 0.8))
REROOTED = rbd.reroot(arm(), "fore")
Q = np.random.default_rng(2).normal(size=(SIZE, MODEL.nq))  # quaternions of any length
V, A, TAU = np.random.default_rng(0).normal(size=(3, SIZE, MODEL.nv))
KEYS = jax.random.split(jax.random.key(3), SIZE)
WRENCH = np.random.default_rng(1).normal(size=(SIZE, 6))

FUNCTIONS = {
    "forward_kinematics": (lambda q: rbd.forward_kinematics(MODEL, q), (Q,)),
    "body_velocities": (lambda q, v: rbd.body_velocities(MODEL, q, v), (Q, V)),
    "body_accelerations": (lambda q, v, a: rbd.body_accelerations(MODEL, q, v, a), (Q, V, A)),
    "jacobian": (lambda q: rbd.jacobian(MODEL, q, "fore"), (Q,)),
    "jacobian_derivative": (lambda q, v: rbd.jacobian_derivative(MODEL, q, v, "fore"), (Q, V)),
    "inverse_dynamics": (
        lambda q, v, a, f: rbd.inverse_dynamics(MODEL, q, v, a, {"upper": f}),
        (Q, V, A, WRENCH),
    ),
    "forward_dynamics": (
        lambda q, v, t, f: rbd.forward_dynamics(MODEL, q, v, t, f),
        (Q, V, TAU, {"fore": WRENCH}),
    ),
    "forward_dynamics_by_assembly": (
        lambda q, v, t: rbd.forward_dynamics_by_assembly(MODEL, q, v, t),
        (Q, V, TAU),
    ),
    "inertia_force": (lambda q, a: rbd.inertia_force(MODEL, q, a), (Q, A)),
    "transfer_state": (lambda q, v: rbd.transfer_state(MODEL, REROOTED, q, v), (Q, V)),
    "mass_matrix": (lambda q: rbd.mass_matrix(MODEL, q), (Q,)),
    "solve_mass_matrix": (lambda q, x: rbd.solve_mass_matrix(MODEL, q, x), (Q, TAU)),
    "inverse_dynamics_derivatives": (
        lambda q, v, a: rbd.inverse_dynamics_derivatives(MODEL, q, v, a),
        (Q, V, A),
    ),
    "forward_dynamics_derivatives": (
        lambda q, v, t: rbd.forward_dynamics_derivatives(MODEL, q, v, t),
        (Q, V, TAU),
    ),
    "joint_wrenches": (lambda q, v, a: rbd.joint_wrenches(MODEL, q, v, a), (Q, V, A)),
    "step": (lambda q, v, t: rbd.step(MODEL, rbd.State(q, v), t, 0.01), (Q, V, TAU)),
    "step_derivatives": (lambda q, v, t: rbd.step_derivatives(MODEL, rbd.State(q, v), t, 0.01), (Q, V, TAU)),
    "inverse_dynamics_regressor": (lambda q, v, a: rbd.inverse_dynamics_regressor(MODEL, q, v, a), (Q, V, A)),
    "momentum_regressor": (lambda q, v: rbd.momentum_regressor(MODEL, q, v), (Q, V)),
    "kinetic_energy_regressor": (lambda q, v: rbd.kinetic_energy_regressor(MODEL, q, v), (Q, V)),
    "potential_energy_regressor": (lambda q: rbd.potential_energy_regressor(MODEL, q), (Q,)),
    "inverse_operational_inertia": (lambda q: rbd.inverse_operational_inertia(MODEL, q, "fore"), (Q,)),
    "operational_inertia": (lambda q: rbd.operational_inertia(MODEL, q, 0), (Q,)),
    "hybrid_dynamics": (
        lambda q, v, t: rbd.hybrid_dynamics(MODEL, q, v, t, t, ["upper"]).acceleration,
        (Q, V, TAU),
    ),
    "jacobian_product": (lambda q, v: rbd.jacobian_product(MODEL, q, v), (Q, V)),
    "jacobian_derivative_product": (lambda q, v: rbd.jacobian_derivative_product(MODEL, q, v, v), (Q, V)),
    "jacobian_transposed_product": (
        lambda q, f: rbd.jacobian_transposed_product(MODEL, q, jnp.tile(f[None], (MODEL.nb, 1))),
        (Q, WRENCH),
    ),
    "solve_augmented_mass_matrix": (
        lambda q, x: rbd.solve_augmented_mass_matrix(MODEL, q, x, x**2, jnp.zeros((MODEL.nb, 6, 6))),
        (Q, TAU),
    ),
    "constrained_dynamics": (
        lambda q, v, t: rbd.constrained_dynamics(TIED, q, v, t).acceleration,
        (Q, V, TAU),
    ),
    "constrained_dynamics_derivatives": (
        lambda q, v, t: rbd.constrained_dynamics_derivatives(TIED, q, v, t),
        (Q, V, TAU),
    ),
    "site_frames": (lambda q: rbd.site_frames(MODEL, q), (Q,)),
    "site_velocities": (lambda q, v: rbd.site_velocities(MODEL, q, v), (Q, V)),
    "site_jacobian": (lambda q: rbd.site_jacobian(MODEL, q, "tip"), (Q,)),
    "shape_frames": (lambda q: rbd.shape_frames(MODEL, q), (Q,)),
    "ray_distances": (
        lambda q, t: rbd.ray_distances(MODEL, q, t[:3][None], t[3:6][None]),
        (Q, TAU),
    ),
    "sense": (lambda q, v, t: rbd.sense(MODEL, rbd.State(q, v), t).vector, (Q, V, TAU)),
    "constraint_residual": (lambda q: rbd.constraint_residual(TIED, q), (Q,)),
    "constraint_jacobian": (lambda q: rbd.constraint_jacobian(TIED, q), (Q,)),
    "constraint_velocity": (lambda q, v: rbd.constraint_velocity(TIED, q, v), (Q, V)),
    "constraint_force": (
        lambda q, v: rbd.constraint_force(TIED, q, jnp.resize(v, len(rbd.constraint_residual(TIED, q)))),
        (Q, V),
    ),
    "constraint_bias": (lambda q, v: rbd.constraint_bias(TIED, q, v), (Q, V)),
    "lagrangian_gradients": (lambda q, v: rbd.lagrangian_gradients(MODEL, q, v), (Q, V)),
    "bias_force": (lambda q, v: rbd.bias_force(MODEL, q, v), (Q, V)),
    "gravity_force": (lambda q: rbd.gravity_force(MODEL, q), (Q,)),
    "coriolis_matrix": (lambda q, v: rbd.coriolis_matrix(MODEL, q, v), (Q, V)),
    "kinetic_energy": (lambda q, v: rbd.kinetic_energy(MODEL, q, v), (Q, V)),
    "potential_energy": (lambda q: rbd.potential_energy(MODEL, q), (Q,)),
    "mechanical_energy": (lambda q, v: rbd.mechanical_energy(MODEL, q, v), (Q, V)),
    "momentum": (lambda q, v: rbd.momentum(MODEL, q, v), (Q, V)),
    "center_of_mass": (lambda q: rbd.center_of_mass(MODEL, q), (Q,)),
    "center_of_mass_jacobian": (lambda q: rbd.center_of_mass_jacobian(MODEL, q), (Q,)),
    "centroidal_momentum_matrix": (lambda q: rbd.centroidal_momentum_matrix(MODEL, q), (Q,)),
    "locked_inertia": (lambda q: rbd.locked_inertia(MODEL, q), (Q,)),
    "centroidal_inertia": (lambda q: rbd.centroidal_inertia(MODEL, q), (Q,)),
    "average_velocity": (lambda q, v: rbd.average_velocity(MODEL, q, v), (Q, V)),
    "floating_base_mass_matrix": (lambda q: rbd.floating_base_mass_matrix(MODEL, q), (Q,)),
    "floating_base_jacobian": (lambda q: rbd.floating_base_jacobian(MODEL, q, "fore"), (Q,)),
    "floating_base_equation": (lambda q, v: rbd.floating_base_equation(MODEL, q, v), (Q, V)),
    "floating_base_inverse_dynamics": (
        lambda q, v, a: rbd.floating_base_inverse_dynamics(MODEL, q, v, a[6:]),
        (Q, V, A),
    ),
    "floating_base_forward_dynamics": (
        lambda q, v, t: rbd.floating_base_forward_dynamics(MODEL, q, v, t[6:]),
        (Q, V, TAU),
    ),
    "passive_force": (lambda q, v: rbd.passive_force(MODEL, q, v), (Q, V)),
    "integrate": (lambda q, v: rbd.integrate(MODEL, q, v), (Q, V)),
    "difference": (lambda q, r: rbd.difference(MODEL, q, r), (Q, Q[::-1])),
    "configuration_rate": (lambda q, v: rbd.configuration_rate(MODEL, q, v), (Q, V)),
    "random_configuration": (
        lambda key: rbd.random_configuration(MODEL, key),
        (KEYS,),
    ),
    "rollout": (
        lambda state, controls: rbd.rollout(MODEL, state, controls, dt=0.01),
        (rbd.State(*jax.device_put((Q, V))), np.stack([TAU, A], axis=1)),
    ),
}


def same(found, expected, tolerance=1e-12):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


#: One of each type: traversals down and up, structured results, dictionaries of inputs, keys.
EVERY_DAY = ("forward_kinematics", "forward_dynamics", "random_configuration")


@pytest.mark.slow
@pytest.mark.parametrize("names", [EVERY_DAY, tuple(FUNCTIONS)], ids=["every day", "all"])
def test_batch_map_is_vmap(names):
    """Each way uses one compilation for all functions."""

    def everything(batching):
        def run(arguments):
            return {name: batching(FUNCTIONS[name][0])(*given) for name, given in arguments.items()}

        return jax.jit(run)({name: FUNCTIONS[name][1] for name in names})

    expected = everything(jax.vmap)
    # With two lanes, a copy pads the third sample.
    for batching in (rbd.batch_map, partial(rbd.batch_map, lanes=2)):
        found = everything(batching)
        for name in names:
            assert jax.tree.structure(found[name]) == jax.tree.structure(expected[name])
            same(found[name], expected[name])


def test_every_public_function_of_a_state_is_there():
    """The exceptions are functions about models, and functions without a sample."""
    others = {
        "at_time",
        "lock_joints",
        "fuse_fixed",
        "with_traversal",
        "astype",
        "concatenate",
        "neutral",
        "checked",
        "reroot",
        "denavit_hartenberg",
        "planar",
        "specialize",
        "base_parameters",
    }
    others |= {
        "batch_map",
        "explain",
        "shard",
        "count_operations",
        "load",
        "load_urdf",
        "load_mjcf",
        "load_sdf",
    }
    others |= {"save_urdf", "save_mjcf", "to_urdf", "to_mjcf", "keyframe", "keyframe_controls"}
    others |= {"view", "plot", "save_html", "save_video"}
    others |= {
        "add_constraints",
        "add_forces",
        "attach",
        "detach",
        "rename",
        "maximal_coordinates",
        "check",
        "check_consistent",
    }
    # These take batches themselves.
    others |= {"simulate_batch", "sense_along"}
    # These take states; the contact tests run them under vmap.
    others |= {"acceleration", "contacts", "contact_forces"}
    # These are iterative, and have separate tests under vmap.
    others |= {
        "assemble",
        "project",
        "project_velocity",
        "mobility",
        "constrained_inverse_dynamics",
        "to_maximal",
        "from_maximal",
    }
    functions = {
        name for name in dir(rbd) if name.islower() and name[0] != "_" and callable(getattr(rbd, name))
    }
    assert functions - others == set(FUNCTIONS)


def test_axes_shared_and_batched():
    """None marks arguments shared by all samples, including whole trees."""
    function = lambda model, q, given: model.gravity @ q[:3] + given["x"] * jnp.sum(given["y"])
    falling = Q[:, :3] @ np.asarray(MODEL.gravity)
    given = {"x": np.arange(3.0), "y": np.ones((3, 2))}
    same(rbd.batch_map(function, (None, 0, 0))(MODEL, Q, given), falling + 2 * np.arange(3.0))
    one = {"x": np.array(2.0), "y": np.ones(2)}
    same(rbd.batch_map(function, (None, 0, None))(MODEL, Q, one), falling + 4)
    same(rbd.batch_map(lambda q: q.sum(), 0)(Q), Q.sum(axis=1))


def test_batches_of_models():
    heavier = jax.vmap(lambda g: eqx.tree_at(lambda m: m.gravity, MODEL, g * MODEL.gravity))
    models, scales = jax.jit(heavier)(np.arange(1.0, 4.0)), np.arange(1.0, 4.0)
    found = jax.jit(rbd.batch_map(rbd.potential_energy, (0, None)))(models, Q[0])
    same(found, np.asarray(jax.jit(rbd.potential_energy)(MODEL, Q[0])) * scales)


def test_a_batch_of_one():
    same(rbd.batch_map(lambda q: 2 * q)(Q[:1]), 2 * Q[:1])


def test_gradients_go_through():
    """Gradients of a sum over the batch, with respect to batched and shared arguments."""

    def loss(batching):
        def value(gravity, q):
            model = eqx.tree_at(lambda m: m.gravity, MODEL, gravity)
            return jnp.sum(batching(lambda q: rbd.gravity_force(model, q))(q) ** 2)

        return jax.jit(jax.grad(value, argnums=(0, 1)))(np.asarray(MODEL.gravity), Q)

    same(loss(rbd.batch_map), loss(jax.vmap), 1e-11)


@pytest.mark.parametrize(
    "arguments, in_axes, said",
    [
        ((np.zeros((3, 2)), np.zeros((4, 2))), 0, "(3, 2), (4, 2)"),
        ((np.zeros((3, 2)), np.zeros(())), 0, "(3, 2), ()"),
        ((np.zeros((0, 2)), np.zeros((0, 2))), 0, "(0, 2), (0, 2)"),
        ((np.zeros(2), np.zeros(2)), None, "no argument has a batch axis"),
        ((np.zeros(2), np.zeros(2)), (0,), "each of the 2 positional arguments"),
        ((np.zeros(2), np.zeros(2)), (0, 1), "0 or None"),
        ((1.0, np.zeros(2)), 0, "(), (2,)"),
    ],
)
def test_refused(arguments, in_axes, said):
    with pytest.raises(ValueError, match="^batch_map: ") as caught:
        rbd.batch_map(lambda a, b: a + b, in_axes)(*arguments)
    assert said in str(caught.value)


def test_arguments_by_name_are_batched():
    def function(a, b, *, c=1.0):
        return a * b["x"] + c

    a, b, c = np.arange(3.0), {"x": np.arange(3.0, 6.0)}, np.full(3, 0.5)
    same(rbd.batch_map(function)(a, b=b, c=c), function(a, b, c=c))
    same(rbd.batch_map(function, (None,))(a[2], b=b), a[2] * b["x"] + 1)
    same(rbd.batch_map(function)(a=a, b=b), a * b["x"] + 1)
    with pytest.raises(ValueError, match=r"^batch_map: .* \(3,\), \(\)"):
        rbd.batch_map(function)(a, b=b, c=0.5)


def test_a_policy_that_remembers():
    """The policy's memory is per sample, and is returned."""

    def policy(time, state, memory):
        return -state.v, memory + state.v

    def one(state, memory):
        return rbd.rollout(MODEL, state, policy, dt=0.01, steps=3, memory=memory)

    states, memory = rbd.State(*jax.device_put((Q, V))), np.zeros_like(V)
    found = jax.device_get(rbd.batch_map(one)(states, memory=memory))
    expected = np.sum(found.v[:, :-1], axis=1)
    assert found.memory.shape == V.shape and not np.allclose(found.memory[0], found.memory[1])
    same(found.memory, expected)


DEVICES = """
import json
import sys
import jax
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_enable_x64", True)
import rbd_jax as rbd
import jax.numpy as jnp
import numpy as np

joint = rbd.joints.Spherical()
builder = rbd.ModelBuilder()
builder.add_body("ball", "world", joint, inertia=rbd.Inertia.box(1.0, (0.1, 0.2, 0.3), (0.3, 0.2, 0.1)))
model = builder.build()
report = {"devices": len(jax.devices()), "worst": 0.0}

def function(q, shared):
    return {"a": rbd.gravity_force(model, q["q"]) * shared, "b": rbd.potential_energy(model, q["q"])}

mapped, plain = rbd.batch_map(function, (0, None)), jax.vmap(function, (0, None))

def slope(function):
    return jax.grad(lambda q, shared: jnp.sum(function(q, shared)["a"] ** 2), argnums=(0, 1))

shared = jnp.array(2.0)
sizes = ((1, False), (2, False), (5, True)) if sys.argv[1] == "all" else ((5, False),)
for size, both in sizes:
    q = {"q": jnp.asarray(np.random.default_rng(size).normal(size=(size, 4)))}
    found, expected = [jax.jit(mapped)(q, shared)], [jax.jit(plain)(q, shared)]
    if both:
        found.append(jax.jit(slope(mapped))(q, shared))
        expected.append(jax.jit(slope(plain))(q, shared))
        found.append(mapped(q, shared))
        expected.append(expected[0])
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        assert x.shape == y.shape, (size, x.shape, y.shape)
        report["worst"] = max(report["worst"], float(jnp.max(jnp.abs(x - y))))
report["spread"] = len(jax.jit(mapped)(q, shared)["a"].sharding.device_set)
print(json.dumps(report))
"""


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["one", "all"])
def test_several_devices(sizes):
    """Two CPU devices, batch sizes that are and are not multiples of two, values and gradients."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "JAX_PLATFORMS": "cpu"}
    environment.pop("XLA_FLAGS", None)
    done = subprocess.run(
        [sys.executable, "-c", DEVICES, sizes], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["devices"] == 2 and report["spread"] == 2
    assert report["worst"] < 1e-11
