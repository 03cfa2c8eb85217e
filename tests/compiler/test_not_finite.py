"""Infinite or NaN inputs give non-finite results at the same positions in every form as under `vmap`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import by_xla

import rbd_jax as rbd


#: Functions of a model, and how many configurations and tangent vectors each takes.
FUNCTIONS = {
    "forward dynamics": (rbd.forward_dynamics, 1, 2),
    "inverse dynamics": (rbd.inverse_dynamics, 1, 2),
    "mass matrix": (rbd.mass_matrix, 1, 0),
    "mass matrix solved": (rbd.solve_mass_matrix, 1, 1),
    "gravity": (rbd.gravity_force, 1, 0),
    "bias": (rbd.bias_force, 1, 1),
    "Coriolis": (rbd.coriolis_matrix, 1, 1),
    "kinetic energy": (rbd.kinetic_energy, 1, 1),
    "kinematics": (rbd.forward_kinematics, 1, 0),
    "velocities": (rbd.body_velocities, 1, 1),
    "jacobian": (lambda model, q: rbd.jacobian(model, q, model.body_names[-1]), 1, 0),
    "center of mass": (rbd.center_of_mass, 1, 0),
    "derivatives forward": (rbd.forward_dynamics_derivatives, 1, 2),
    "derivatives inverse": (rbd.inverse_dynamics_derivatives, 1, 2),
    "regressor": (rbd.inverse_dynamics_regressor, 1, 2),
    "integrated": (rbd.integrate, 1, 1),
    "difference": (rbd.difference, 2, 0),
    "at rest at zero": (lambda model, a: rbd.inverse_dynamics(model, model.reference, 0 * a, a), 0, 1),
    "from zero": (lambda model, v, tau: rbd.forward_dynamics(model, model.reference, v, tau), 0, 2),
    "along": (
        lambda model, q, v: jax.jvp(lambda q: rbd.gravity_force(model, q), (model.reference,), (q,))[1] + v,
        1,
        1,
    ),
}

MODELS = {
    "double_pendulum": lambda: rbd.load("double_pendulum"),
    "free": lambda: rbd.load_urdf(
        '<robot name="free"><link name="a"><inertial><origin xyz="0.1 0 0"/><mass value="2"/>'
        '<inertia ixx="1" iyy="2" izz="2" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
        '</link><joint name="j" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 1 0"/></joint></robot>',
        floating_base=True,
    ),
    "arm7": lambda: rbd.load("arm7"),
    "quadruped": lambda: rbd.detach(rbd.load("quadruped"), "contact law"),
}


def with_bad_numbers(given):
    """Returns the sample unchanged, and copies with NaN, ∞ and -∞ in place of each number."""
    places = [(number, place) for number, x in enumerate(given) for place in range(x.size)]
    batch = [np.tile(x, (3 * len(places) + 1, 1)) for x in given]
    for row, (number, place) in enumerate(places):
        batch[number][3 * row + 1 : 3 * row + 4, place] = np.nan, np.inf, -np.inf
    return batch


def check(name, robot, forms):
    function, configurations, vectors = FUNCTIONS[name]
    model = MODELS[robot]()
    random = np.random.default_rng(0)
    q = np.asarray(model.reference)
    given = [q + 0.1 * np.arange(len(q)) / len(q) for _ in range(configurations)]
    batch = with_bad_numbers([*given, *(random.normal(size=model.nv) for _ in range(vectors))])
    one = lambda *x: function(model, *x)
    expected = jax.tree.leaves(by_xla(one)(*batch))
    for form in forms:
        mapped = {
            "kernel": lambda: rbd.batch_map(one, fused=True),
            "kernel of a GPU": lambda: rbd.batch_map(one, fused="interpret"),
            "lanes": lambda: rbd.batch_map(one, lanes=8),
            "specialized": lambda: by_xla(rbd.specialize(function, model)),
        }[form]()
        for found, wanted in zip(jax.tree.leaves(mapped(*batch)), expected, strict=True):
            finite, may_be = np.isfinite(found), np.isfinite(wanted)
            # Specialized functions use another algorithm, in which more results may depend on an input.
            wrong = finite & ~may_be if form == "specialized" else finite != may_be
            assert not wrong.any(), (form, np.argwhere(wrong))


@pytest.mark.parametrize("name", ["inverse dynamics", "mass matrix", "at rest at zero", "from zero", "along"])
def test_in_every_form(name):
    check(name, "double_pendulum", ["kernel", "kernel of a GPU", "lanes", "specialized"])


@pytest.mark.parametrize("name", ["forward dynamics", "kinematics"])
def test_of_a_free_body(name):
    check(name, "free", ["kernel", "specialized"])


@pytest.mark.slow
@pytest.mark.parametrize("robot", MODELS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_every_model(name, robot):
    check(name, robot, ["kernel"] if robot == "quadruped" else ["kernel", "lanes", "specialized"])


def test_round_by_round():
    """The loop has carried values, values per row, and values that are the same in every iteration."""

    def function(x, rows):
        def step(carry, row):
            y, z = carry
            return (0.9 * y + 0.0 * z + row, z * 0.0 + 1.0), 0.0 * y + row

        (y, z), told = jax.lax.scan(step, (x[0], x[1]), rows)
        return y, z, told[::100]

    batch = with_bad_numbers([np.array([0.3, 0.5]), np.linspace(0.0, 1.0, 300)])
    expected = by_xla(function)(*batch)
    for form in (True, "interpret"):
        for found, wanted in zip(rbd.batch_map(function, fused=form)(*batch), expected, strict=True):
            np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))


def ball_on_the_floor():
    builder, ball = rbd.ModelBuilder(), rbd.shapes.Sphere(0.1)
    at = jnp.array([0, 0, 0.099, 1.0, 0, 0, 0])
    builder.add_body("ball", "world", rbd.joints.Free(), None, ball.inertia(1000.0), reference=at)
    floor = rbd.Shape("floor", "world", rbd.shapes.Plane())
    builder.attach(rbd.Shape("ball", "ball", ball), floor, rbd.contact.Soft())
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [ball_on_the_floor, lambda: rbd.attach(rbd.load("quadruped"), rbd.contact.Soft(most=4))]
)
def test_searches(make):
    """Steps on the floor, where the solver iterates for each sample separately."""
    model = make()
    steps = lambda q, v: (lambda path: (path.q, path.v))(
        rbd.rollout(model, rbd.State(q, v), dt=5e-3, steps=3)
    )
    batch = with_bad_numbers([np.asarray(model.reference), np.random.default_rng(0).normal(size=model.nv)])
    expected = by_xla(steps)(*batch)
    for form in (True, "interpret"):
        for found, wanted in zip(rbd.batch_map(steps, fused=form)(*batch), expected, strict=True):
            np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))
    assert np.isfinite(expected[0][0]).all()


def test_a_rollout_that_diverges():
    model = rbd.load("double_pendulum")
    end = lambda v: rbd.rollout(model, rbd.State(model.reference, v), dt=1e-2, steps=300).q[-1]
    v = with_bad_numbers([np.array([0.3, -0.2])])[0]
    expected = by_xla(end)(v)
    np.testing.assert_array_equal(np.isfinite(rbd.batch_map(end, fused=True)(v)), np.isfinite(expected))
    assert np.isfinite(expected[0]).all() and not np.isfinite(expected[1:]).any()


def test_overflow_may_be_hidden_by_a_known_zero():
    """As documented, a kernel may return a finite result where an intermediate value overflows."""
    function = lambda x: x[0] + 0.0 * jnp.exp(x[1])
    x = np.tile(np.array([1.0, 1e4]), (8, 1))
    assert np.isnan(jax.vmap(function)(x)).all()
    assert np.asarray(rbd.batch_map(function, fused=True)(x)).tolist() == [1.0] * 8
