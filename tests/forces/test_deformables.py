"""Masses and springs, free and attached to rigid bodies: the equations of Sueda §2.7 and their consequences."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from acting import BOX, ROD
from support import assert_close

import rbd_jax as rbd
from rbd_jax import forces


at = rbd.Transform.from_xyz_rpy
GRAVITY = np.array([0.3, -0.2, -9.81])


def arm(name="arm"):
    """Returns a builder with a ball joint, a hinge, and a plate welded to the second link."""
    builder = rbd.ModelBuilder(GRAVITY, name)
    builder.add_body("upper", "world", rbd.joints.Spherical(), at((0.1, 0.2, 0.3)), BOX)
    builder.add_body("lower", "upper", rbd.joints.Revolute((1.0, 0.2, 0.0)), at((0.0, 0.1, -1.0)), ROD)
    builder.add_body("plate", "lower", placement=at((0.0, 0.1, -1.0), (0.4, 0.2, 0.1)), inertia=ROD)
    return builder


#: A net of three by three nodes with diagonals, some of them attached.
GRID = np.stack(np.meshgrid(np.arange(3), np.arange(3), indexing="ij"), axis=-1).reshape(-1, 2)
EDGES = [(i, j) for i in range(9) for j in range(i + 1, 9) if np.abs(GRID[i] - GRID[j]).max() == 1]
HELD = {0: "upper", 2: "plate", 5: "plate", 6: "world"}
FREE = [node for node in range(9) if node not in HELD]
RNG = np.random.default_rng(0)
PLACES = 0.3 * np.column_stack([GRID, np.zeros(9)]) + RNG.uniform(-0.05, 0.05, (9, 3))
MASSES = RNG.uniform(0.1, 0.3, 9)
STIFFNESS, DAMPING = RNG.uniform(20.0, 40.0, len(EDGES)), RNG.uniform(0.5, 1.0, len(EDGES))
#: The arm's configuration when the net is attached.
POSE = jnp.asarray(np.array([0.9, 0.1, -0.2, 0.3, 0.4]))


def net(damping: Any = DAMPING):
    """Returns the arm with the net, and the springs."""
    builder = arm()
    springs = forces.add_deformable(
        builder, "net", PLACES, EDGES, masses=MASSES, spring_constants=STIFFNESS, damping_constants=damping,
        attach=HELD, q=POSE,
    )  # fmt: skip
    return builder.build(), springs


@functools.cache
def bare():
    """Returns the arm alone."""
    return arm().build()


@functools.cache
def both():
    """Returns the cached result of `net`. It may be created inside a traced function."""
    with jax.ensure_compile_time_eval():
        return net()


def netted():
    return both()[0]


def net_springs():
    return both()[1]


def state(seed=1):
    """Returns a state with the arm in another configuration and the nodes near their rest positions."""
    rng = np.random.default_rng(seed)
    nodes = rng.uniform(-0.1, 0.1, 3 * len(FREE))
    q = np.concatenate([np.asarray(POSE) + rng.uniform(-0.3, 0.3, bare().nq), nodes])
    return jnp.asarray(q), jnp.asarray(rng.normal(size=netted().nv))


def skew(x):
    return np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


def by_definition(q, v):
    """Assembles attached Jacobians with their rates (2.87, 2.88), and the acceleration of (2.92), by their definitions."""
    q0, v0, nr = q[: bare().nq], v[: bare().nv], bare().nv

    @jax.jit
    def known(q, v):
        ask = lambda function, *state: {
            body: function(bare(), *state, body, None, "body") for body in ("upper", "plate")
        }
        return (
            rbd.forward_kinematics(bare(), q),
            ask(rbd.jacobian, q),
            ask(rbd.jacobian_derivative, q, v),
            rbd.forward_kinematics(bare(), POSE),
            rbd.mass_matrix(bare(), q),
            rbd.bias_force(bare(), q, v),
        )

    frames, columns, rates, first, mass, bias = jax.tree.map(np.asarray, known(q0, v0))
    size = nr + 3 * len(FREE)
    positions, jacobians, products = np.zeros((9, 3)), np.zeros((9, 3, size)), np.zeros((9, 3))
    for node in range(9):
        body = HELD.get(node)
        if body == "world":
            positions[node] = PLACES[node]
        elif body is None:
            own = 3 * FREE.index(node)
            jacobians[node][:, nr + own : nr + own + 3] = np.eye(3)
            positions[node] = PLACES[node] + np.asarray(q)[bare().nq + own : bare().nq + own + 3]
        else:
            index = bare().body_index(body)
            x = first.rotation[index].T @ (PLACES[node] - first.position[index])
            R, gamma = frames.rotation[index], np.hstack([skew(x).T, np.eye(3)])
            omega = (columns[body] @ v0)[:3]
            jacobians[node][:, :nr] = R @ gamma @ columns[body]
            products[node] = (R @ skew(omega) @ gamma @ columns[body] + R @ gamma @ rates[body]) @ v0
            positions[node] = R @ x + frames.position[index]
    velocities = jacobians @ np.asarray(v)
    pulls = np.zeros((9, 3))
    for (i, j), k, d in zip(EDGES, STIFFNESS, DAMPING, strict=True):
        rest = np.linalg.norm(PLACES[j] - PLACES[i])
        delta = positions[j] - positions[i]
        length = np.linalg.norm(delta)
        strain = (length - rest) / rest
        elastic = (k * rest**2) * strain / rest  # (2.86)
        pull = (elastic + d * (velocities[j] - velocities[i]) @ delta / length) * delta / length
        pulls[i], pulls[j] = pulls[i] + pull, pulls[j] - pull
    M = np.zeros((size, size))
    M[:nr, :nr] = mass
    f = np.concatenate([-bias, np.zeros(3 * len(FREE))])
    for node in range(9):
        J = jacobians[node]
        M += MASSES[node] * J.T @ J
        f += J.T @ (pulls[node] + MASSES[node] * (GRAVITY - products[node]))
    return positions, np.einsum("kis,ki->s", jacobians, pulls), M, np.linalg.solve(M, f), jacobians, products


@pytest.fixture(scope="module")
def found():
    @jax.jit
    def ask(q, v):
        points = [(node, body) for node, body in HELD.items() if body != "world"]
        columns = [
            rbd.jacobian(netted(), q, body, net_springs().points[node], "world_aligned")[3:]
            for node, body in points
        ]

        def turned(step):
            there = rbd.integrate(netted(), q, step * v)
            return [
                rbd.jacobian(netted(), there, body, net_springs().points[node], "world_aligned")[3:] @ v
                for node, body in points
            ]

        rates = jax.jvp(turned, (jnp.zeros(()),), (jnp.ones(()),))[1]
        tau = net_springs()(netted(), q, v)
        lengths = net_springs().lengths(netted(), q)
        return (
            tau,
            rbd.mass_matrix(netted(), q),
            rbd.forward_dynamics(netted(), q, v, tau),
            lengths,
            columns,
            rates,
        )

    return ask(*state())


@pytest.mark.slow
def test_the_equation_of_motion(found):
    """`Jᵀ M J q̈ = Jᵀ (f - M J̇ q̇)` with separate node masses (2.92) equals the dynamics of bodies with added masses."""
    positions, tau, M, acceleration, *_ = by_definition(*state())
    assert_close(found[0], tau, 1e-12)
    assert_close(found[1], M, 1e-12)
    assert_close(found[2], acceleration, 1e-11)
    lengths = [np.linalg.norm(positions[j] - positions[i]) for i, j in EDGES]
    assert_close(found[3], lengths, 1e-13)


@pytest.mark.slow
def test_attached_nodes_move_with_their_bodies(found):
    """`J_am` and `J̇_am q̇` by (2.87) and (2.88), by the library, and the rate by automatic differentiation, agree."""
    *_, jacobians, products = by_definition(*state())
    for node, column, rate in zip([0, 2, 5], found[4], found[5], strict=True):
        assert_close(column, jacobians[node], 1e-13)
        assert_close(rate, products[node], 1e-12)


def test_attached_masses_are_the_bodies():
    """The inertia of a body with attached nodes is the sum."""

    @jax.jit
    def make():
        model, springs = net()
        return model, model.inertias.matrix, springs.points, arm().build().inertias.matrix

    model, matrices, points, alone = make()
    for body in ("upper", "plate"):
        index = model.body_index(body)
        nodes = [node for node, other in HELD.items() if other == body]
        x = np.asarray(points)[nodes]
        matrix = np.asarray(alone)[index]
        for place, mass in zip(x, MASSES[nodes], strict=True):
            gamma = np.hstack([skew(place).T, np.eye(3)])
            matrix = matrix + mass * gamma.T @ gamma
        assert_close(np.asarray(matrices)[index], matrix, 1e-14)
    assert model.body_names[3:] == tuple(f"net {node}" for node in FREE)


@pytest.mark.slow
def test_one_network_is_many_springs():
    """Forces, energies and both matrices equal those of separate spring-dampers; initially all springs are at rest length."""
    q, v = state()
    some = [
        0,
        6,
        8,
        10,
    ]  # Edges between a free node and either body, two nodes on one body, and a free node and the world.
    ends = [(net_springs().bodies[i], net_springs().bodies[j]) for i, j in np.array(EDGES)[some]]
    few = forces.SpringNetwork(
        net_springs().bodies, net_springs().points, np.array(EDGES)[some], 0.2, 30.0, STIFFNESS[some]
    )
    each = forces.Together(
        *[
            forces.SpringDamper(pair, net_springs().points[np.array(EDGES[edge])], 0.2, 30.0, STIFFNESS[edge])
            for pair, edge in zip(ends, some, strict=True)
        ]
    )
    size = netted().nv
    steps = 1e-5 * jnp.concatenate([jnp.zeros((1, 2 * size)), jnp.eye(2 * size), -jnp.eye(2 * size)])

    @jax.jit
    def ask(q, v):
        def moved(step):
            return net_springs()(netted(), rbd.integrate(netted(), q, step[:size]), v + step[size:])

        two = [(f(netted(), q, v), f.energy(netted(), q), f.dissipation(netted(), q, v)) for f in (few, each)]
        matrices = net_springs().stiffness(netted(), q, v), net_springs().damping(netted(), q, v)
        start = jnp.concatenate([POSE, jnp.zeros(3 * len(FREE))])
        return two, matrices, jax.vmap(moved)(steps), net_springs()(netted(), start, jnp.zeros(size))

    (network, single), (stiffness, damping), stepped, at_rest = ask(q, v)
    for a, b in zip(network, single, strict=True):
        assert_close(a, b, 1e-12)
    assert network[2] > 0.1
    forth, back = np.split(np.asarray(stepped[1:]), 2)
    by_q, by_v = np.split((forth - back).T / 2e-5, 2, axis=1)
    assert_close(stiffness, by_q, 1e-8)
    assert_close(damping, -by_v, 1e-8)
    assert_close(at_rest, np.zeros(size), 1e-12)


@pytest.mark.slow
def test_the_tree_preconditions_implicit_steps():
    """Algorithm 10 with the diagonal blocks of springs at rest is close to the inverse of the matrix of (2.79).

    It is the inverse if every spring connects a body to the world.
    """
    q, v, h = jnp.concatenate([POSE, jnp.zeros(3 * len(FREE))]), jnp.zeros(netted().nv), 0.1
    points = np.random.default_rng(3).uniform(-0.5, 0.5, (4, 3))
    moored = forces.SpringNetwork(
        ("upper", "plate", "net 4", "world"), points, [(0, 3), (1, 3), (2, 3)], 1.0, 300.0, 2.0
    )

    @jax.jit
    def ask(q, v):
        def matrices(springs):
            own = h * springs.body_damping(netted(), q, v) - h**2 * springs.body_stiffness(netted(), q, v)
            acted = springs.acts_on(netted())
            blocks = own.reshape(len(acted), 6, len(acted), 6)
            blocks = jnp.stack([0.5 * (blocks[i, :, i] + blocks[i, :, i].T) for i in range(len(acted))])
            terms = jnp.zeros((netted().nb, 6, 6)).at[jnp.array(acted)].set(blocks)
            added = h * springs.damping(netted(), q, v) - h**2 * springs.stiffness(netted(), q, v)
            matrix, none = rbd.mass_matrix(netted(), q) + added, jnp.zeros(netted().nv)
            return matrix, rbd.solve_augmented_mass_matrix(netted(), q, matrix, none, terms)

        at_rest = eqx.tree_at(lambda s: s.rest_lengths, moored, moored.lengths(netted(), q))
        return matrices(at_rest)[1], *matrices(net_springs()), rbd.mass_matrix(netted(), q)

    one, matrix, near_one, inertia = ask(q, v)
    assert_close(one, np.eye(netted().nv), 1e-10)

    def spread(product):
        values = np.linalg.eigvals(np.asarray(product)).real
        return values.max() / values.min()

    assert spread(matrix) > 50
    assert 1 < spread(near_one) < 0.5 * spread(np.linalg.solve(inertia, matrix))


@pytest.mark.slow
def test_energy_is_kept():
    """A net without dampers on a falling arm exchanges energy, and a scheme of fourth order conserves the total."""
    model, springs = net(0.0)
    q, v = state()

    @jax.jit
    def run(springs, v):
        path = rbd.rollout(
            model,
            rbd.State(q, v),
            dt=2e-3,
            steps=600,
            save_every=20,
            scheme=rbd.RungeKutta4(),
            forces=(springs,),
        )

        def energies(q, v):
            stored = springs.energy(model, q), rbd.potential_energy(model, q)
            return jnp.stack([rbd.kinetic_energy(model, q, v), *stored])

        return jax.vmap(energies)(path.q, path.v)

    energies = np.asarray(run(springs, v))
    total = energies.sum(axis=1)
    assert (np.ptp(energies, axis=0) > 0.5).all()
    np.testing.assert_allclose(total, total[0], atol=1e-6 * np.ptp(energies))


def rope(count, mass=0.1, constant=1e3, damping=0.0, length=1.0):
    """Returns a hanging rope with springs at rest length, and its springs."""
    builder = rbd.ModelBuilder(name="rope")
    places = np.zeros((count + 1, 3))
    places[:, 2] = -length / count * np.arange(count + 1)
    springs = forces.add_deformable(
        builder, "rope", places, [(i, i + 1) for i in range(count)], masses=mass, spring_constants=constant,
        damping_constants=damping, attach={0: "world"},
    )  # fmt: skip
    return builder.build(), springs


def test_a_rope_hangs_by_its_weight():
    """In equilibrium every edge carries the weight below it: `k (l - L) = g Σ m`."""
    count, mass, constant = 30, 0.1, 1e3
    model, springs = jax.jit(lambda: rope(count, mass, constant))()
    weights = 9.81 * mass * np.arange(count, 0, -1)
    q = np.zeros((count, 3))
    q[:, 2] = -np.cumsum(weights / constant)

    @jax.jit
    def ask(q):
        still = jnp.zeros_like(q)
        tau = springs(model, q, still)
        return rbd.forward_dynamics(model, q, still, tau), springs.tensions(model, q, still)

    acceleration, tensions = ask(jnp.asarray(q.reshape(-1)))
    np.testing.assert_allclose(acceleration, 0, atol=1e-9)
    np.testing.assert_allclose(tensions, weights, rtol=1e-11)


def primitives(jaxpr):
    """Returns the number of operations in a program, with those of loops counted once."""
    inner = [x for equation in jaxpr.eqns for x in jax.tree.leaves(equation.params, is_leaf=_is_program)]
    return len(jaxpr.eqns) + sum(primitives(getattr(x, "jaxpr", x)) for x in inner if _is_program(x))


def _is_program(x):
    return hasattr(x, "eqns") or hasattr(getattr(x, "jaxpr", None), "eqns")


def test_programs_do_not_grow_with_the_number_of_springs():
    def size(count):
        model, springs = jax.jit(lambda: rope(count))()
        q = np.zeros(model.nq)
        return primitives(jax.make_jaxpr(lambda q, v: springs(model, q, v))(q, q).jaxpr)

    assert size(40) == size(60)


#: A rope so stiff that explicit schemes would need steps of less than 2/ω ≈ 2 √(m/4k) = 0.3 ms.
STIFF = {"count": 4, "mass": 0.01, "constant": 1e5, "damping": 1.0}


@pytest.mark.slow
def test_stiff_springs_want_an_implicit_scheme():
    model, springs = rope(**STIFF)
    q = jnp.zeros(model.nq)
    v = jnp.zeros((4, 3)).at[-1].set(jnp.array([1.0, 0.0, 0.5])).reshape(-1)

    @jax.jit
    def run(springs):
        ways = rbd.LinearlyImplicitEuler(), rbd.SemiImplicitEuler()
        path = lambda scheme: rbd.rollout(
            model, rbd.State(q, v), dt=0.01, steps=100, scheme=scheme, forces=(springs,)
        )
        return [path(scheme) for scheme in ways]

    implicit, explicit = run(springs)
    assert implicit.code == 0 and np.abs(implicit.q).max() < 1.0 and np.abs(implicit.v).max() < 5.0
    assert explicit.code != 0 or not np.abs(explicit.q).max() < 1e3


@pytest.mark.parametrize(
    "scheme",
    [rbd.SemiImplicitEuler(), rbd.LinearlyImplicitEuler()],
    ids=["explicit", "implicit"],
)
@pytest.mark.slow
def test_gradient_by_stiffness(scheme):
    """The gradient through a rollout by every spring constant agrees with differences."""
    model, springs = rope(3, damping=0.5, constant=300.0)
    q = jnp.zeros(model.nq)
    v = jnp.zeros((3, 3)).at[-1].set(jnp.array([1.0, 0.2, 0.5])).reshape(-1)

    @jax.jit
    def run(constants, step):
        def tip(constants):
            now = eqx.tree_at(lambda s: s.spring_constants, springs, constants)
            path = rbd.rollout(model, rbd.State(q, v), dt=0.01, steps=30, scheme=scheme, forces=(now,))
            return jnp.sum(path.q[-1, -3:] * jnp.array([1.0, 2.0, -3.0]))

        return jax.grad(tip)(constants), jax.vmap(lambda d: tip(constants + d))(step)

    step = 1e-3 * jnp.concatenate([jnp.eye(3), -jnp.eye(3)])
    gradient, values = run(springs.spring_constants, step)
    forth, back = np.split(np.asarray(values), 2)
    np.testing.assert_allclose(gradient, (forth - back) / 2e-3, rtol=1e-5, atol=1e-11)


def test_what_is_refused():
    def add(**given):
        base: dict[str, Any] = dict(
            positions=np.eye(3), edges=[(0, 1), (1, 2)], masses=1.0, spring_constants=1.0
        )
        builder = given.pop("builder", None) or arm()
        return forces.add_deformable(builder, "net", **(base | given))

    with pytest.raises(
        ValueError, match=r"edges\[1\] is \(1, 3\); it must join two different nodes of the 3"
    ):
        add(edges=[(0, 1), (1, 3)])
    with pytest.raises(ValueError, match=r"edges\[0\] is \(1, 1\)"):
        add(edges=[(1, 1)])
    with pytest.raises(ValueError, match="it takes pairs of integers"):
        add(edges=[(0.5, 1)])
    with pytest.raises(ValueError, match="node 0 is free and has no mass"):
        add(masses=0.0)
    with pytest.raises(ValueError, match=r"masses has shape \(2,\); it is an array of shape \(3,\)"):
        add(masses=[1.0, 2.0])
    with pytest.raises(ValueError, match="attach names node 3; there are 3, from 0"):
        add(attach={3: "upper"})
    with pytest.raises(rbd.UnknownNameError, match="add_deformable: attach: .*no body 'uper'"):
        add(attach={0: "uper"})
    with pytest.raises(ValueError, match="rest_lengths is .* must be greater than 0"):
        add(positions=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="all its points are in the world"):
        add(attach=dict.fromkeys(range(3), "world"))
