"""Products with the Jacobians of all bodies, and dynamics in maximal coordinates projected to reduced ones (Sueda ch. 2)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import (
    FRAMES,
    assert_close,
    build,
    coupled,
    driven,
    floating,
    forest,
    mixed,
    pair,
    some_states,
    track,
)
from support import quotient

import rbd_jax as rbd
from rbd_jax import joints
from rbd_jax.dynamics import products
from rbd_jax.spatial import cross_force


#: Bodies of the forest: one welded to the world, one welded to a moving body, a tip, and a body of the other tree.
BODIES = np.array([0, 2, 5, 8])


def by_definition(model, q, v, a, wrenches, frame):
    """Returns the products by the explicit Jacobians of `BODIES`."""
    stack = lambda function, *args: jnp.stack([function(model, *args, int(b), None, frame) for b in BODIES])
    columns, rates = stack(rbd.jacobian, q), stack(rbd.jacobian_derivative, q, v)
    return (
        jnp.einsum("bij,j->bi", columns, a),
        jnp.einsum("bij,j->bi", rates, a),
        jnp.einsum("bij,bi->j", columns, wrenches[BODIES]),
    )


def by_products(model, q, v, a, wrenches, frame):
    loaded = jnp.asarray(np.isin(np.arange(model.nb), BODIES), wrenches.dtype)
    return (
        products.jacobian_product(model, q, a, frame)[BODIES],
        products.jacobian_derivative_product(model, q, v, a, frame)[BODIES],
        products.jacobian_transposed_product(model, q, wrenches * loaded[:, None], frame),
    )


@pytest.mark.slow
def test_products_of_jacobians():
    """Sueda's algorithms 1, 2, 5 and 6."""
    model = forest()
    states = some_states(model, 3, 2)

    @jax.jit
    def run(model, *given):
        both = lambda frame: [
            jax.vmap(partial(way, frame=frame), in_axes=(None, 0, 0, 0, 0))(model, *given)
            for way in (by_products, by_definition)
        ]
        return [both(frame) for frame in FRAMES]

    for found, expected in run(model, states.q, states.v, states.a, states.f_ext):
        jax.tree.map(assert_close, found, expected)


def random_terms(model, seed=0):
    """Returns positive numbers for the degrees of freedom, and positive definite blocks for the bodies."""
    rng = np.random.default_rng(seed)
    spread = rng.normal(size=(model.nb, 6, 6))
    return rng.uniform(0.1, 0.5, model.nv), 0.1 * spread @ np.swapaxes(spread, 1, 2)


def reduced(model, q, v, tau, joint_terms, body_terms):
    """Returns mass matrix, forward dynamics and matrix of implicit schemes, by maximal coordinates and by the library."""
    columns = jax.vmap(lambda x: products.jacobian_product(model, q, x, "body"), out_axes=2)(
        jnp.eye(model.nv)
    )
    # Velocity-product accelerations of the bodies: accelerations without q̈ give `M J̇ q̇`.
    still = rbd.body_accelerations(model, q, v, jnp.zeros_like(v), "body")
    velocities = rbd.body_velocities(model, q, v, "body")
    inertias = model.inertias
    gravity = jnp.einsum("bij,i->bj", rbd.forward_kinematics(model, q).rotation, model.gravity)
    falling = jnp.concatenate([jnp.zeros_like(gravity), gravity], axis=1)
    wrenches = -cross_force(velocities, inertias.momentum(velocities)) - inertias.momentum(still - falling)
    blocks = jnp.diag(model.armature) + jnp.einsum("bij,bik,bkl->jl", columns, inertias.matrix, columns)
    force = tau + products.jacobian_transposed_product(model, q, wrenches, "body")
    augmented = blocks + jnp.diag(joint_terms) + jnp.einsum("bij,bik,bkl->jl", columns, body_terms, columns)
    solved = products.solve_augmented_mass_matrix(model, q, augmented, joint_terms, body_terms)
    acceleration = rbd.forward_dynamics(model, q, v, tau)
    none = jnp.zeros_like(joint_terms), jnp.zeros_like(body_terms)
    by_inverse = products.solve_augmented_mass_matrix(model, q, tau - rbd.bias_force(model, q, v), *none)
    prescribed = jnp.arange(model.nv) % 2 == 0
    hybrid = rbd.hybrid_dynamics(
        model,
        q,
        v,
        jnp.where(prescribed, jnp.nan, tau),
        jnp.where(prescribed, acceleration, jnp.nan),
        prescribed,
    )
    return {
        "algorithm 9": (hybrid.acceleration, acceleration),
        "algorithm 9, forces": (hybrid.tau, tau),
        "algorithm 10": (by_inverse, acceleration),
        "mass matrix": (rbd.mass_matrix(model, q), blocks),
        "reduced from maximal": (rbd.forward_dynamics(model, q, v, tau), jnp.linalg.solve(blocks, force)),
        "augmented inverse": (solved, jnp.eye(model.nv)),
    }


def random_tree(seed):
    """Returns a tree with joints of all families in random order, each attached to a random previous body."""
    rng = np.random.default_rng(seed)
    turn, slide = joints.Revolute(rng.normal(size=3)), joints.Prismatic(rng.normal(size=3))
    families = [
        turn,
        slide,
        joints.Fixed(),
        joints.Helical(rng.normal(size=3), 0.3),
        joints.Cylindrical(rng.normal(size=3)),
        joints.Planar(rng.normal(size=3)),
        joints.Universal(),
        joints.Spherical(),
        joints.SphericalEuler("zyx"),
        joints.SphericalExponential(),
        joints.Translational(),
        joints.RackAndPinion(0.4),
        joints.Free(),
        joints.Free2D(),
        joints.Free3D(),
        joints.Composite((turn, slide)),
    ]
    names = [f"body {i}" for i in range(len(families))]
    parents = ["world", *(names[rng.integers(i)] for i in range(1, len(families)))]
    order = rng.permutation(len(families))
    return build("random", list(zip(names, parents, [families[i] for i in order])), seed=seed)


# Seeds of trees whose inertias are physically consistent.
MANY = [pair, floating, coupled, mixed, track, driven, *(partial(random_tree, seed) for seed in (0, 2))]


@pytest.mark.slow
@pytest.mark.parametrize("make", MANY)
def test_reduced_dynamics(make):
    """`Jᵀ M J q̈ = tau + Jᵀ (f - M J̇ q̇)` (eq. 2.19) agrees with the recursions, for joints of every family.

    The recursions are the articulated-body algorithm, algorithm 9 with half of the accelerations prescribed, and
    algorithm 10.
    """
    model = make()
    states = some_states(model, 4, 2)
    terms = random_terms(model)

    @jax.jit
    def run(model, *given):
        return jax.vmap(lambda q, v, tau: reduced(model, q, v, tau, *terms))(*given)

    for found, expected in run(model, states.q, states.v, states.a).values():
        assert_close(found, expected, 1e-11)


@pytest.mark.parametrize("make", [pair, pytest.param(forest, marks=pytest.mark.slow)])
def test_derivatives_of_the_augmented_solve(make):
    """Derivatives by configuration, terms and right-hand side agree with differences."""
    model = make()
    states, terms = some_states(model, 5, 1), random_terms(model)
    given = (states.v[0], states.q[0], *terms)
    rng = np.random.default_rng(1)
    along = [rng.normal(size=x.shape) for x in given]
    along = (*along[:3], along[3] + np.swapaxes(along[3], 1, 2))

    @jax.jit
    def slopes(given, along):
        def value(given):
            rhs, q, *terms = given
            return jnp.sum(jnp.sin(products.solve_augmented_mass_matrix(model, q, rhs, *terms)))

        moved = lambda h: value(jax.tree.map(lambda x, d: x + h * d, given, along))
        products_ = jax.tree.map(lambda g, d: jnp.sum(g * d), jax.grad(value)(given), along)
        return sum(jax.tree.leaves(products_)), quotient(moved)

    np.testing.assert_allclose(*slopes(given, along), rtol=1e-7)


def test_printed_material_jacobian():
    """(1.12) of Sueda's notes and the numbers after it. The numbers for the velocity along x are misprinted as (0, 1, 0)."""
    builder = rbd.ModelBuilder(name="free")
    builder.add_body("body", "world", joints.Free(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    model = builder.build()
    q, point = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])
    gamma = np.asarray(rbd.jacobian(model, q, "body", point, "world_aligned"))[3:]
    np.testing.assert_array_equal(gamma, [[0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 1, 0], [0, -1, 0, 0, 0, 1]])
    np.testing.assert_array_equal(gamma @ np.eye(6)[:, [3, 2]], np.array([[1, 0, 0], [0, 1, 0]]).T)
