"""Functions reject wrong arguments with a message that names the argument, its value and the requirement."""

import re
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import rbd_jax as rbd


def arm():
    """Returns a model with nq = 8, nv = 7, nb = 2."""
    builder = rbd.ModelBuilder(name="crane")
    inertia = rbd.Inertia.sphere(1.0, 0.1)
    builder.add_body("trunk", "world", rbd.joints.Free(), inertia=inertia)
    builder.add_body("hand", "trunk", rbd.joints.Revolute(), inertia=inertia, joint_name="wrist")
    return builder.build()


MODEL = arm()
Q, V, WRENCH = rbd.neutral(MODEL), jnp.zeros(7), jnp.zeros(6)

#: Each function with valid arguments.
FUNCTIONS = {
    "forward_kinematics": {"q": Q},
    "body_velocities": {"q": Q, "v": V, "frame": "world"},
    "body_accelerations": {"q": Q, "v": V, "a": V, "frame": "body"},
    "jacobian": {"q": Q, "body": "hand", "point": None, "frame": "world"},
    "jacobian_derivative": {"q": Q, "v": V, "body": "hand", "point": None, "frame": "world"},
    "inverse_dynamics": {"q": Q, "v": V, "a": V, "f_ext": None},
    "forward_dynamics": {"q": Q, "v": V, "tau": V, "f_ext": None},
    "inverse_dynamics_derivatives": {"q": Q, "v": V, "a": V, "f_ext": None},
    "forward_dynamics_derivatives": {"q": Q, "v": V, "tau": V, "f_ext": None},
    "mass_matrix": {"q": Q},
    "solve_mass_matrix": {"q": Q, "rhs": V},
    "bias_force": {"q": Q, "v": V, "f_ext": None},
    "gravity_force": {"q": Q},
    "coriolis_matrix": {"q": Q, "v": V},
    "kinetic_energy": {"q": Q, "v": V},
    "potential_energy": {"q": Q},
    "momentum": {"q": Q, "v": V},
    "center_of_mass": {"q": Q},
    "center_of_mass_jacobian": {"q": Q},
    "centroidal_momentum_matrix": {"q": Q},
    "locked_inertia": {"q": Q, "point": None},
    "centroidal_inertia": {"q": Q},
    "average_velocity": {"q": Q, "v": V, "point": None},
    "passive_force": {"q": Q, "v": V},
    "lagrangian_gradients": {"q": Q, "v": V},
    "constraint_residual": {"q": Q},
    "constraint_jacobian": {"q": Q},
    "constraint_velocity": {"q": Q, "v": V},
    "constraint_bias": {"q": Q, "v": V},
    "constrained_dynamics": {"q": Q, "v": V, "tau": V, "f_ext": None},
    "constrained_dynamics_derivatives": {"q": Q, "v": V, "tau": V, "f_ext": None},
    "constrained_inverse_dynamics": {"q": Q, "v": V, "a": V, "f_ext": None},
    "mobility": {"q": Q},
    "project_velocity": {"q": Q, "v": V},
    "assemble": {"q": Q},
    "integrate": {"q": Q, "dv": V},
    "difference": {"q0": Q, "q1": Q},
    "configuration_rate": {"q": Q, "v": V},
}

LENGTHS = {"q": 8, "q0": 8, "q1": 8, "v": 7, "a": 7, "tau": 7, "dv": 7}

VECTORS = [(function, name) for function, given in FUNCTIONS.items() for name in given if name in LENGTHS]
WITH = {
    argument: [function for function, given in FUNCTIONS.items() if argument in given]
    for argument in ("body", "frame", "point", "f_ext")
}


@pytest.fixture(autouse=True)
def without_type_checks():
    """Users do not have the import hook of the tests, which would raise first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def refusal(call, *said, error=ValueError):
    """Returns the message of the exception, which must contain all of `said` and must not come from inside JAX."""
    with pytest.raises(error) as caught:
        call()
    inside = [
        frame.filename for frame in traceback.extract_tb(caught.tb) if "jax" in Path(frame.filename).parts
    ]
    assert not inside, inside
    message = str(caught.value)
    for part in said:
        assert part in message, message
    return message


def call(function, **wrong):
    return getattr(rbd, function)(MODEL, **(FUNCTIONS[function] | wrong))


def call_in_order(function, **wrong):
    return getattr(rbd, function)(MODEL, *(FUNCTIONS[function] | wrong).values())


@pytest.mark.parametrize("function, name", VECTORS)
def test_wrong_vectors(function, name):
    """Wrong shapes, None, strings and complex numbers are rejected, by keyword and by position."""
    length = LENGTHS[name]
    size = f"n{'q' if length == 8 else 'v'} = {length}"
    for value, said in [
        (jnp.zeros(3), "has shape (3,)"),
        (jnp.zeros(()), "has shape ()"),
        (0.5, "has shape ()"),
        ([1, 2, 3], "has shape (3,)"),
        (jnp.zeros((5, length)), f"has shape (5, {length})"),
        (jnp.zeros((2, 3)), "has shape (2, 3)"),
        (None, "is None"),
        ("zero", "is 'zero'"),
        ({"x": 1.0}, "is {'x': 1.0}"),
        ([[1.0], [1.0, 2.0]], "is [[1.0], [1.0, 2.0]]"),
        (jnp.zeros(length, complex), "is "),
    ]:
        for way in (call, call_in_order):
            message = refusal(lambda way=way, value=value: way(function, **{name: value}), said, size)
            assert message.startswith(f"{function}: {name} {said}")
    batch = refusal(lambda: call(function, **{name: jnp.zeros((5, length))}))
    assert "jax.vmap or rbd.batch_map" in batch


@pytest.mark.parametrize("function, name", [pair for pair in VECTORS if LENGTHS[pair[1]] == 7])
def test_velocities_as_long_as_configurations(function, name):
    """Passing a velocity of length nq, a common mistake with quaternions, raises an explanation."""
    refusal(lambda: call(function, **{name: Q}), f"{function}: {name} has shape (8,)", "nv = 7", "quaternion")


@pytest.mark.parametrize(
    "value", [jnp.zeros(8), jnp.zeros((8, 2)), jnp.zeros((7, 2, 2)), jnp.zeros(()), None, "x"]
)
def test_wrong_right_hand_sides(value):
    message = refusal(lambda: call("solve_mass_matrix", rhs=value), "(nv,) or (nv, k) with nv = 7")
    assert message.startswith("solve_mass_matrix: rhs ")


@pytest.mark.parametrize("function", WITH["body"])
def test_unknown_bodies(function):
    """The message suggests the nearest existing name."""
    unknown = rbd.UnknownNameError
    said = f"{function}: body: model 'crane' has no body 'hnad'; did you mean 'hand'?"
    assert refusal(lambda: call(function, body="hnad"), error=unknown) == said
    refusal(lambda: call(function, body="zzz"), "there are: 'trunk', 'hand'", error=unknown)
    refusal(
        lambda: call(function, body=2), f"{function}: body", "no body number 2", "2 bodies", error=unknown
    )
    refusal(lambda: call(function, body=-1), "no body number -1", error=unknown)
    refusal(lambda: call(function, body=None), f"{function}: body is None", "name of a body or its index")
    refusal(lambda: call(function, body=1.5), f"{function}: body is 1.5")


@pytest.mark.parametrize("function", WITH["frame"])
@pytest.mark.parametrize("frame", ["local", None, 0, "World"])
def test_unknown_frames(function, frame):
    refusal(
        lambda: call(function, frame=frame),
        f"{function}: frame is {frame!r}",
        "'world', 'body', 'world_aligned'",
    )


@pytest.mark.parametrize("function", WITH["point"])
def test_wrong_points(function):
    refusal(lambda: call(function, point=jnp.zeros(2)), f"{function}: point has shape (2,)", "(3,)")
    refusal(lambda: call(function, point=jnp.zeros((5, 3))), f"{function}: point has shape (5, 3)", "(3,)")
    refusal(lambda: call(function, point="origin"), f"{function}: point is 'origin'")


@pytest.mark.parametrize("function", WITH["f_ext"])
def test_wrong_external_forces(function):
    expected = "a dict {body: wrench} or an array (nb, 6) with nb = 2"
    for value in (jnp.zeros(6), jnp.zeros((3, 6)), jnp.zeros((2, 3)), jnp.zeros((4, 2, 6))):
        refusal(
            lambda value=value: call(function, f_ext=value),
            f"{function}: f_ext has shape {value.shape}",
            expected,
        )
    refusal(lambda: call(function, f_ext="none"), f"{function}: f_ext is 'none'", expected)
    refusal(
        lambda: call(function, f_ext={"hand": WRENCH, "hnad": WRENCH}),
        f"{function}: f_ext: model 'crane' has no body 'hnad'; did you mean 'hand'?",
        error=rbd.UnknownNameError,
    )
    for wrench in (jnp.zeros(3), jnp.zeros((2, 6)), 1.0):
        shape = jnp.shape(wrench)
        said = f"{function}: f_ext['hand'] has shape {shape}"
        refusal(lambda wrench=wrench: call(function, f_ext={"hand": wrench}), said, "(6,)")
    refusal(lambda: call(function, f_ext={"hand": None}), f"{function}: f_ext['hand'] is None")


@pytest.mark.parametrize("slices", [MODEL.q_slice, MODEL.v_slice])
def test_unknown_joints(slices):
    said = "model 'crane' has no joint 'writs'; did you mean 'wrist'?"
    assert refusal(lambda: slices("writs"), error=rbd.UnknownNameError) == said
    refusal(lambda: slices("hand"), "has no joint 'hand'", "'trunk', 'wrist'", error=rbd.UnknownNameError)
    refusal(lambda: slices(7), "2 bodies", error=rbd.UnknownNameError)
    refusal(lambda: MODEL.body_index("wrist"), "has no body 'wrist'", error=rbd.UnknownNameError)


def test_a_joint_that_mimics_has_no_slice():
    builder = rbd.ModelBuilder()
    inertia = rbd.Inertia.sphere(1.0, 0.1)
    builder.add_body("near", "world", rbd.joints.Revolute(), inertia=inertia)
    builder.add_body("far", "near", rbd.joints.Revolute(), inertia=inertia, mimic=rbd.Mimic("near"))
    model = builder.build()
    refusal(lambda: model.q_slice("far"), "joint 'far' has no coordinates of its own: it mimics 'near'")


@pytest.mark.parametrize(
    "function", [*FUNCTIONS, "neutral", "fuse_fixed", "rename", "add_forces", "add_constraints"]
)
def test_what_is_no_model(function):
    for value, said in (({}, "a dict"), (None, "a NoneType"), (rbd.Inertia, "the class Inertia")):
        call = lambda value=value: getattr(rbd, function)(value, **FUNCTIONS.get(function, {}))
        refusal(call, f"{function}: model is {said}; it takes a Model")


def test_numbers_beyond_all_and_keys():
    refusal(lambda: call("mass_matrix", q=[2**70] * 8), "q is [1180591620717411303424", "length nq = 8")
    refusal(lambda: call("mass_matrix", q=jax.random.split(jax.random.key(0), 8)), "q is ", "length nq = 8")


def test_wrenches_by_names_and_indices():
    """`f_ext` accepts names and indices of bodies together, but no body twice."""
    wrench, other = jnp.arange(6.0), jnp.ones(6)
    together = call("forward_dynamics", f_ext={"hand": wrench, 0: other})
    apart = call("forward_dynamics", f_ext={"hand": wrench, MODEL.body_names[0]: other})
    np.testing.assert_array_equal(together, apart)
    refusal(
        lambda: call("forward_dynamics", f_ext={"hand": wrench, MODEL.body_index("hand"): other}),
        "'hand' twice",
    )


def test_refused_while_compiling_too():
    """Shapes are static, so the message under `jit` is the same."""
    with pytest.raises(
        ValueError, match=re.escape("mass_matrix: q has shape (3,), but model 'crane' has nq = 8")
    ):
        jax.jit(rbd.mass_matrix)(MODEL, jnp.zeros(3))
    with pytest.raises(ValueError, match="forward_dynamics: tau has shape"):
        jax.eval_shape(jax.vmap(lambda tau: rbd.forward_dynamics(MODEL, Q, V, tau)), jnp.zeros((7, 3)))


def test_lists_and_integers_are_arrays():
    """Inputs that can be converted to arrays are converted."""
    q = [0, 0, 0, 1, 0, 0, 0, 0]
    assert rbd.gravity_force(MODEL, q).dtype == jnp.float64
    assert rbd.jacobian(MODEL, q, 1, point=[0, 0, 1]).shape == (6, 7)
    assert rbd.bias_force(MODEL, q, [0] * 7, {"hand": [0] * 6}).shape == (7,)
