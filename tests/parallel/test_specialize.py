"""Functions specialized for a model: same results, and the operation counts of the book (tables 10.1, 10.2)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close, by_xla, quotient

import rbd_jax as rbd
from rbd_jax import joints
from rbd_jax.compiler.scalarize import ScalarProgram
from rbd_jax.dynamics import body_coordinates
from rbd_jax.parallel.specialization import IN_BODY_COORDINATES


def chain(n, seed=0):
    """Returns the book's GU(n): n hinges in a row, general inertias and geometry."""
    random = np.random.default_rng(seed)
    builder = rbd.ModelBuilder(name=f"GU({n})")
    for i in range(n):
        placement = rbd.Transform.from_xyz_rpy(random.normal(size=3), random.normal(size=3))
        inertia = rbd.Inertia.box(1.0, random.uniform(0.2, 0.4, 3), random.normal(size=3))
        parent = f"link {i - 1}" if i else "world"
        builder.add_body(f"link {i}", parent, joints.Revolute(random.normal(size=3)), placement, inertia)
    return builder.build()


def tree():
    """Returns a tree with branches, welds, a slide, a helix, a ball, a mimic joint and a joint with two degrees of freedom."""
    random = np.random.default_rng(3)
    builder = rbd.ModelBuilder(name="tree")

    def add(name, parent, joint, **along):
        placement = rbd.Transform.from_xyz_rpy(random.normal(size=3), random.normal(size=3))
        inertia = rbd.Inertia.box(random.uniform(0.5, 2), random.uniform(0.2, 0.4, 3), random.normal(size=3))
        return builder.add_body(name, parent, joint, placement, inertia, **along)

    base = add("base", "world", joints.Fixed())
    arm = add("arm", base, joints.Revolute((0, 1, 0)), armature=0.3)
    slide = add("slide", arm, joints.Prismatic((1, 0, 1)))
    add("end", slide, joints.Revolute((1, 2, 0)))
    plate = add("plate", arm, joints.Fixed())
    ball = add("ball", plate, joints.Spherical())
    add("screw", ball, joints.Helical((0, 0, 1), 0.2))
    add("cardan", slide, joints.Universal())
    add("second", "world", joints.Revolute(), mimic=rbd.Mimic("arm", 0.5, 0.1))
    return builder.build()


def samples(model, count=3, dtype=None):
    keys = lambda: jax.random.split(jax.random.key(0), count)
    q = np.asarray(jax.jit(lambda: jax.vmap(lambda key: rbd.random_configuration(model, key))(keys()))())
    v, a = np.random.default_rng(1).normal(size=(2, count, model.nv))
    return tuple(x if dtype is None else x.astype(dtype) for x in (q, v, a))


def sample(model, dtype=None):
    return tuple(x[0] for x in samples(model, dtype=dtype))


FUNCTIONS = {
    "inverse_dynamics": lambda q, v, a: (q, v, a),
    "forward_dynamics": lambda q, v, a: (q, v, a),
    "mass_matrix": lambda q, v, a: (q,),
    "bias_force": lambda q, v, a: (q, v),
    "gravity_force": lambda q, v, a: (q,),
    "inertia_force": lambda q, v, a: (q, a),
    "solve_mass_matrix": lambda q, v, a: (q, a),
    "kinetic_energy": lambda q, v, a: (q, v),
    "forward_kinematics": lambda q, v, a: (q,),
}

ARM = rbd.load("arm7")


# The same function.


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_function_on_an_arm(name):
    same_function(name, ARM)


def test_same_function_on_a_chain():
    same_function("mass_matrix", chain(2))


def same_function(name, model):
    function, given = getattr(rbd, name), FUNCTIONS[name](*samples(model))
    fast = rbd.specialize(function, model)
    both = by_xla(lambda *x: (fast(*x), function(model, *x)))
    for found, one in zip(*map(jax.tree.leaves, both(*given)), strict=True):
        assert_close(found, one, 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inverse_dynamics", "mass_matrix", "forward_dynamics"])
def test_body_coordinates_of_every_kind_of_joint(name):
    """The underlying algorithms equal those in the common frame, on a tree of all joint types, also with a traced model."""
    model, function = tree(), getattr(rbd, name)
    given = FUNCTIONS[name](*samples(model))
    cheaper = IN_BODY_COORDINATES[function]
    expected = by_xla(lambda *x: function(model, *x))(*given)
    assert_close(by_xla(lambda *x: cheaper(model, *x))(*given), expected, 1e-11)
    assert_close(by_xla(cheaper, (None,) + (0,) * len(given))(model, *given), expected, 1e-11)


@pytest.mark.slow
def test_joints_that_move_by_themselves():
    """Their velocity enters inverse dynamics, but not functions evaluated at rest."""
    builder = rbd.ModelBuilder()
    spinning = joints.ConstantVelocity(joints.Revolute((0, 1, 0)), np.array([2.0]), time=0.3)
    parent = "world"
    for i, joint in enumerate((joints.Revolute((1, 0, 0)), spinning, joints.Revolute((0, 0, 1)))):
        inertia = rbd.Inertia.box(1.0, (0.2, 0.3, 0.4), (0.1, -0.2, 0.3))
        parent = builder.add_body(
            f"body {i}", parent, joint, rbd.Transform.from_xyz_rpy((0.1, 0.5, 0)), inertia
        )
    model = builder.build()
    q, v, a = sample(model)
    for function, given in (
        (rbd.inverse_dynamics, (q, v, a)),
        (rbd.gravity_force, (q,)),
        (rbd.inertia_force, (q, a)),
        (rbd.mass_matrix, (q,)),
        (rbd.forward_dynamics, (q, v, a)),
    ):
        assert_close(jax.jit(IN_BODY_COORDINATES[function])(model, *given), function(model, *given), 1e-11)


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param([joints.Revolute] * 8, id="hinges", marks=pytest.mark.slow),
        pytest.param([joints.Revolute, joints.Prismatic] * 4, id="slides", marks=pytest.mark.slow),
        pytest.param([joints.Revolute, joints.Prismatic] * 2, id="two slides"),
    ],
)
def test_special_geometries(kinds):
    """Parallel, opposed, intersecting or coincident axes have no unique common perpendicular."""
    random = np.random.default_rng(0)
    axes = [(0, 0, 1), (0, 0, -1), (0, 0, 1), (1, 0, 0), (0, 1, 0), (-1, 0, 0), (0, 0, 1), (0, 0, 1)]
    places = [(0, 0, 0), (1, 0, 0), (0, 0, 0.5), (0, 0, 1), (0, 0, 0), (0.3, 0, 0), (0, 0.2, 0), (0, 0, 0.7)]
    builder, parent = rbd.ModelBuilder(gravity=(1.0, -2.0, -9.0)), "world"
    for i, (axis, place, kind) in enumerate(zip(axes, places, kinds)):
        inertia = rbd.Inertia.box(1.0, random.uniform(0.2, 0.4, 3), random.normal(size=3))
        parent = builder.add_body(f"link {i}", parent, kind(axis), rbd.Transform.from_xyz_rpy(place), inertia)
    model = builder.build()
    q, v, a = sample(model)

    @jax.jit
    def both(q, v, a):
        force = body_coordinates.newton_euler(model, q, v, a), rbd.inverse_dynamics(model, q, v, a)
        return force, (body_coordinates.composite_bodies(model, q), rbd.mass_matrix(model, q))

    force, mass = both(q, v, a)
    assert_close(*force, 1e-11)
    assert_close(*mass, 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_derivatives_are_those_of_the_original(name):
    q, v, a = sample(ARM)
    function = getattr(rbd, name)
    fast = rbd.specialize(function, ARM)
    weigh = np.arange(1.0, ARM.nv + 1)
    gradient = lambda f: jax.jit(jax.grad(lambda *x: jnp.dot(weigh, f(*x)), argnums=(0, 1, 2)))(q, v, a)
    for found, one in zip(gradient(fast), gradient(lambda *x: function(ARM, *x)), strict=True):
        assert_close(found, one, 1e-11)
    along = jax.jit(lambda x, by: jax.jvp(fast, x, by))
    at = lambda s: np.asarray(along((q + s * v, v + s * a, a + s * q), (v, a, q))[0])
    assert_close(along((q, v, a), (v, a, q))[1], quotient(at, 1e-6), 1e-7)


@pytest.mark.slow
def test_a_derivative_can_be_specialized():
    q, v, a = sample(ARM)
    original = lambda model, q, v: jax.grad(lambda q: jnp.sum(rbd.bias_force(model, q, v)))(q)
    fast = rbd.specialize(original, ARM)
    assert_close(*jax.jit(lambda q, v: (fast(q, v), original(ARM, q, v)))(q, v), 1e-11)
    before = rbd.count_operations(original, ARM, q, v).total
    assert rbd.count_operations(fast, q, v).total < before / 2


@pytest.mark.slow
def test_kept_numbers():
    """Kept parameters are the first argument, and derivatives with respect to them match those of the model."""
    q, v, a = sample(ARM)
    masses = np.asarray(ARM.inertias.mass)
    fast = rbd.specialize(rbd.inverse_dynamics, ARM, keep=lambda model: model.inertias.mass)
    heavier = eqx.tree_at(lambda model: model.inertias.mass, ARM, 1.5 * masses)
    assert_close(jax.jit(fast)(1.5 * masses, q, v, a), rbd.inverse_dynamics(heavier, q, v, a), 1e-11)
    by_mass = jax.jit(jax.grad(lambda m: jnp.sum(fast(m, q, v, a))))(masses)
    model = jax.jit(jax.grad(lambda model: jnp.sum(rbd.inverse_dynamics(model, q, v, a))))(ARM)
    assert_close(by_mass, model.inertias.mass, 1e-11)
    with pytest.raises(TypeError, match="first argument"):
        fast()


@pytest.mark.slow
def test_single_precision_and_external_forces():
    model = rbd.astype(ARM, jnp.float32)
    q, v, a = sample(ARM, dtype=np.float32)
    force = {"link3": np.arange(6, dtype=np.float32)}
    fast = rbd.specialize(rbd.inverse_dynamics, model)
    found = jax.jit(fast)(q, v, a, force)
    assert found.dtype == jnp.float32
    assert_close(found, rbd.inverse_dynamics(model, q, v, a, force), 1e-4)


def test_bad_input_is_refused_as_by_the_function():
    fast = rbd.specialize(rbd.inverse_dynamics, ARM)
    with pytest.raises(ValueError, match="inverse_dynamics: q"):
        fast(np.zeros(6), np.zeros(7), np.zeros(7))
    with pytest.raises(TypeError):
        rbd.specialize(ARM, ARM)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="not known while"):
        jax.jit(lambda model: rbd.specialize(rbd.gravity_force, model)(jnp.zeros(7)))(ARM)


@pytest.mark.slow
def test_what_does_not_move():
    builder = rbd.ModelBuilder(name="still")
    builder.add_body("block", "world", rbd.joints.Fixed(), None, rbd.Inertia.sphere(1.0, 0.1))
    model, nothing = builder.build(), np.zeros(0)
    for function in (rbd.forward_dynamics, rbd.inverse_dynamics):
        assert rbd.specialize(function, model)(nothing, nothing, nothing).shape == (0,)
    assert rbd.specialize(rbd.solve_mass_matrix, model)(nothing, nothing).shape == (0,)


def test_what_stays_as_it_is():
    """Loops with input-dependent length, sorting and factorizations are not transformed, and are correct."""

    def function(fixed, x, n):
        looped = jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * fixed), (0.0, x[0]))[1]
        matrix = jnp.outer(x, x) + 3 * jnp.eye(3)
        picked = jax.lax.dynamic_index_in_dim(x, jnp.argmax(x), keepdims=False)
        return (
            jnp.sort(x),
            looped,
            jnp.linalg.cholesky(matrix),
            picked,
            jnp.zeros(3).at[jnp.array([0, 2, 0])].add(x),
        )

    x, n, fixed = np.array([0.3, -1.0, 2.0]), 4.0, jnp.asarray(1.5)
    fast = rbd.specialize(function, fixed)
    for found, one in zip(*jax.jit(lambda x, n: (fast(x, n), function(fixed, x, n)))(x, n), strict=True):
        assert_close(found, one, 1e-12)


# Operation counts.


def counted(function, *args):
    found = rbd.count_operations(function, *args)
    return found.multiplications + found.divisions, found.additions


#: The lowest rows of table 10.1: multiplications and additions.
INVERSE_DYNAMICS = lambda n: (93 * n - 108, 81 * n - 100)
MASS_MATRIX = lambda n: (10 * n**2 + 22 * n - 32, 6 * n**2 + 37 * n - 43)


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 7])
def test_table_10_1(n):
    """The general chain costs less than the best published figures, but at most a fifth less: no operation is skipped."""
    model = chain(n)
    q, v, a = sample(model)
    for function, given, book in (
        (rbd.inverse_dynamics, (q, v, a), INVERSE_DYNAMICS(n)),
        (rbd.mass_matrix, (q,), MASS_MATRIX(n)),
    ):
        found = counted(rbd.specialize(function, model), *given)
        print(model.name, function.__name__, found, book)
        assert all(x <= y for x, y in zip(found, book)) and found[0] > 0.7 * book[0]


FACTOR_AND_SOLVE = lambda n: (n**3 / 6 + 3 * n**2 / 2 - 2 * n / 3, n**3 / 6 + n**2 - 7 * n / 6)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 6])
def test_table_10_1_factor_and_solve(n):
    """F&S except n multiplications: with reciprocals of the pivots there are n divisions instead of n (n + 1) / 2."""
    model, random = chain(n), np.random.default_rng(0)
    matrix, rhs = random.normal(size=(n, n)) + 5 * np.eye(n), np.ones(n)
    solve = jax.jit(lambda matrix, rhs: body_coordinates.solve_by_factors(model, matrix + matrix.T, rhs))
    assert_close(solve(matrix, rhs), np.linalg.solve(matrix + matrix.T, rhs), 1e-12)
    program = ScalarProgram(
        jax.make_jaxpr(lambda m, x: body_coordinates.solve_by_factors(model, m, x))(matrix, rhs)
    )
    products, sums = FACTOR_AND_SOLVE(n)
    assert counted(program, matrix, rhs) == (pytest.approx(products + n), pytest.approx(sums))


@pytest.mark.slow
def test_forward_dynamics_costs_less_than_its_parts():
    """For seven joints it uses the mass matrix: its three parts cost less than articulated bodies, as in the book for n ≤ 8."""
    parts = lambda n: [INVERSE_DYNAMICS(n), MASS_MATRIX(n), FACTOR_AND_SOLVE(n)]
    articulated = lambda n: 224 * n - 259 + 205 * n - 248
    by_matrix = lambda n: sum(map(sum, parts(n)))
    assert all((by_matrix(n) < articulated(n)) == (n <= 8) for n in range(2, 20))
    model = chain(7)
    q, v, tau = sample(model)
    found = counted(rbd.specialize(rbd.forward_dynamics, model), q, v, tau)
    print(found, [sum(x) for x in zip(*parts(7))])
    assert all(x < sum(y) for x, y in zip(found, zip(*parts(7))))


@pytest.mark.slow
def test_branches():
    """Eqs. 10.4 to 10.12: one of two children has Denavit and Hartenberg's frames. A binary tree of seven general hinges."""
    random = np.random.default_rng(0)
    builder = rbd.ModelBuilder()
    for i in range(7):
        placement = rbd.Transform.from_xyz_rpy(random.normal(size=3), random.normal(size=3))
        inertia = rbd.Inertia.box(1.0, random.uniform(0.2, 0.4, 3), random.normal(size=3))
        parent = f"link {(i - 1) // 2}" if i else "world"
        builder.add_body(f"link {i}", parent, joints.Revolute(random.normal(size=3)), placement, inertia)
    model = builder.build()
    q, _, _ = sample(model)
    # Three bodies with each type of transform, carrying 3, 1 and 1 bodies.
    book = 3 * 32 + 3 * 47 + 5 * 20 + 5 * 24, 3 * 43 + 3 * 58 + 5 * 12 + 5 * 18
    found = counted(rbd.specialize(rbd.mass_matrix, model), q)
    print(found, book)
    assert all(x <= y for x, y in zip(found, book)) and found[0] > 0.6 * book[0]
    assert_close(jax.jit(rbd.specialize(rbd.mass_matrix, model))(q), rbd.mass_matrix(model, q), 1e-11)


@pytest.mark.slow
def test_costs_of_the_arm():
    """With parallel or perpendicular axes, the count is far below the general chain's 543 multiplications."""
    q, v, a = sample(ARM)
    found = counted(rbd.specialize(rbd.inverse_dynamics, ARM), q, v, a)
    print(found)
    assert found[0] < INVERSE_DYNAMICS(7)[0] / 2
    assert found[0] <= 200


@pytest.mark.slow
def test_table_10_2():
    """Transforms between Denavit-Hartenberg frames: a vector 20 m + 12 a, an inertia 32 m + 33 a (before eq. 10.3)."""
    c, s = np.cos(0.4), np.sin(0.4)
    reach, mass = np.array([0.3, 0.0, 0.7]), jnp.asarray(2.0)

    def turn(q):
        return body_coordinates.Turn([("x", c, s), ("z", q[0], q[1])])

    def vector(q, moment, force):
        moment, force = turn(q).up(moment), turn(q).up(force)
        return moment + jnp.cross(reach, force), force

    def inertia(q, first, triangle):
        a, b, c, d, e, f = triangle
        second = jnp.array([[a, b, c], [b, d, e], [c, e, f]])
        return body_coordinates._carried(turn(q), reach, mass, first, second)

    q, x = np.array([0.6, 0.8]), np.arange(1.0, 4.0)
    cost = lambda function, *given: counted(ScalarProgram(jax.make_jaxpr(function)(*given)), *given)
    assert cost(vector, q, x, x) == (20, 12)
    found = cost(inertia, q, x, np.arange(6.0))
    assert found[0] == 32 and abs(found[1] - 33) <= 1
