"""Models of a graph of bodies and joints move alike for any spanning tree, order, polarity and root."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax import joints


at = rbd.Transform.from_xyz_rpy
KINDS = (
    joints.Revolute((1.0, -2.0, 0.5)),
    joints.Spherical(),
    joints.Cylindrical((0.4, 1.0, 0.3)),
    joints.RackAndPinion(0.4),
    joints.Universal((1.0, 0.2, 0.1), (0.3, 1.0, -0.2)),
    joints.SphericalEuler("zyx"),
    joints.Planar((0.3, -0.5, -1.0)),
    joints.Prismatic((0.3, 0.2, -1.0)),
    joints.Fixed(),
)


@dataclasses.dataclass
class Drawn:
    """A graph's topology: which joints connect which bodies, and whether the world is one of them."""

    bodies: list
    arcs: list  # (name, predecessor, successor, joint)


def drawn(seed):
    rng = np.random.default_rng(seed)
    bodies = [f"body {i}" for i in range(rng.integers(3, 6))]
    grounded = bool(rng.integers(2))
    known, arcs = (["world"] if grounded else [bodies[0]]), []

    def connect(one, other, kinds):
        ends = (one, other) if rng.integers(2) else (other, one)
        arcs.append((f"joint {len(arcs)}", *ends, KINDS[rng.choice(kinds)]))

    for body in bodies if grounded else bodies[1:]:
        connect(body, str(rng.choice(known)), [0, 1, 2, 3, 4, 5, 6, 7])
        known.append(body)
    for _ in range(rng.integers(1, 3)):
        connect(*rng.choice(known, 2, replace=False).tolist(), [1, 2, 4, 6])
    return Drawn(bodies, [arcs[i] for i in rng.permutation(len(arcs))])


def numbers(graph, seed):
    """Returns body poses, inertias, and consistent joint frames, for a random configuration of each joint."""
    rng = np.random.default_rng(seed)
    pose = {name: at(rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 3)) for name in graph.bodies}
    pose["world"] = rbd.Transform.identity()
    inertias, placed, configured = {}, {}, {}
    for name in graph.bodies:
        spread = rng.normal(size=(3, 3))
        own = 0.3 * np.eye(3) + 0.02 * spread @ spread.T
        inertias[name] = rbd.Inertia.from_mass_com(rng.uniform(0.5, 2), rng.uniform(-0.3, 0.3, 3), own)
    for name, first, second, joint in graph.arcs:
        q = joint.random(jax.random.key(rng.integers(1000))).astype(float)
        frame = at(rng.uniform(-0.5, 0.5, 3), rng.uniform(-1, 1, 3))
        configured[name] = q
        placed[name] = frame, pose[second].inverse() @ pose[first] @ frame @ joint.transform(q)
    return pose, inertias, placed, configured


def built(graph, values, tree=(), root=None, order=None):
    _, inertias, placed, _ = values
    builder = rbd.GraphBuilder(name="graph")
    rng = np.random.default_rng(order)
    shuffled = lambda things: things if order is None else [things[i] for i in rng.permutation(len(things))]
    for name, first, second, joint in shuffled(graph.arcs):
        builder.add_joint(name, first, second, joint, *placed[name])
    for name in shuffled(graph.bodies):
        builder.add_body(name, inertias[name])
    return builder.build(tree=tree, root=root)


def state_of(model, values):
    """Returns the configuration of a model in which every body has its pose."""
    pose, _, _, configured = values
    q = []
    for index, name in enumerate(model.joint_names):
        if name in configured:
            q.append(configured[name])
        else:  # a free joint
            own = pose[model.body_names[index]]
            q.append(jnp.concatenate([own.position, rbd.lie.quaternion.from_matrix(own.rotation)]))
    return jnp.concatenate(q)


def a_tree(graph, seed):
    """Returns a random spanning tree."""
    rng = np.random.default_rng(seed)
    above, tree = {name: name for name in [*graph.bodies, "world"]}, []

    def top(name):
        return name if above[name] == name else top(above[name])

    for i in rng.permutation(len(graph.arcs)):
        name, first, second, _ = graph.arcs[i]
        if top(first) != top(second):
            above[top(first)] = top(second)
            tree.append(name)
    return tree


def moving(names):
    """Returns the function of a model's motion: frames, velocities and accelerations of bodies, under external forces."""

    @jax.jit
    @jax.vmap
    def of(model, q, twists, f_ext):
        order = np.array([model.body_index(name) for name in names])
        jacobian = jnp.concatenate([rbd.jacobian(model, q, name, frame="body") for name in names])
        v = jnp.linalg.lstsq(jacobian, twists.reshape(-1))[0]
        v = rbd.project_velocity(model, q, v)
        wrenches = jnp.zeros((model.nb, 6)).at[order].set(f_ext)
        found = rbd.constrained_dynamics(model, q, v, jnp.zeros(model.nv), wrenches)
        accelerations = rbd.body_accelerations(model, q, v, found.acceleration, "body")[order]
        frames = rbd.forward_kinematics(model, q)
        open_by = jnp.max(jnp.abs(rbd.constraint_residual(model, q)), initial=0)
        return accelerations, rbd.body_velocities(model, q, v, "body")[order], frames.position[order], open_by

    return of


def stacked(models):
    return jax.tree.map(lambda *x: jnp.stack(x), *models)


def compare(seed, samples):
    """Compares a graph on its shallowest tree with another tree, root and order, for several random parameters."""
    graph = drawn(seed)
    values = [numbers(graph, 100 * seed + i) for i in range(samples)]
    floating = not any("world" in arc[1:3] for arc in graph.arcs)
    tree, root = a_tree(graph, seed), graph.bodies[-1] if floating else None
    plain = [built(graph, one) for one in values]
    other = [built(graph, one, tree, root, order=seed) for one in values]
    assert floating == isinstance(plain[0].joint(0), joints.Free)
    of, rng = moving(graph.bodies), np.random.default_rng(seed)
    wrenches = jnp.asarray(rng.normal(size=(samples, len(graph.bodies), 6)))
    qs = [jnp.stack([state_of(one, x) for one, x in zip(models, values)]) for models in (plain, other)]
    wanted = jnp.asarray(rng.normal(size=(samples, len(graph.bodies), 6)))
    first = of(stacked(plain), qs[0], wanted, wrenches)
    second = of(stacked(other), qs[1], first[1], wrenches)
    for a, b, c in zip(first[3], second[3], range(samples)):
        assert a < 1e-12 and b < 1e-12, c
    for one, two, what in zip(second, first, ("accelerations", "velocities", "places")):
        scale = 1 + np.abs(np.asarray(two)).max()
        np.testing.assert_allclose(one / scale, two / scale, atol=1e-10, err_msg=what)
    assert np.abs(np.asarray(first[0])).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_the_tree_does_not_matter(seed):
    """Book §4.1.1, §4.1.2."""
    compare(seed, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_tree_does_not_matter_to_many(seed):
    """Two hundred graphs: twenty topologies with ten sets of parameters each."""
    compare(seed, 10)


def robot():
    builder = rbd.ModelBuilder(name="robot")
    rng = np.random.default_rng(0)
    place = lambda: at(rng.uniform(-0.5, 0.5, 3), rng.uniform(-1, 1, 3))
    own = lambda: rbd.Inertia.from_mass_com(rng.uniform(0.5, 2), rng.uniform(-0.3, 0.3, 3), 0.3 * np.eye(3))
    builder.add_body("base", joint=joints.Free(), placement=place(), inertia=own())
    builder.add_body("arm", "base", joints.RackAndPinion(0.3), place(), own(), damping=0.3)
    builder.add_body("hand", "arm", joints.Spherical(), place(), own())
    builder.add_body("tool", "hand", joints.Revolute(), place(), own(), stiffness=2.0)
    builder.add_body("leg", "base", joints.Revolute(), place(), own())
    builder.attach(rbd.Site("tip", "tool", (0, 0, 0.3)))
    return builder.build()


@pytest.mark.slow
def test_another_root_moves_alike_and_back():
    """Bodies move as before under joint and external forces, joint quantities stay, and rerooting back restores the model."""
    model = robot()
    turned = rbd.reroot(model, "hand")
    again = rbd.reroot(turned, "base")
    assert turned.body_names[0] == "hand" and turned.joint_names[0] == "base"
    assert isinstance(again.joint(again.body_index("arm")), joints.RackAndPinion)
    rng = np.random.default_rng(1)
    q = jax.jit(rbd.random_configuration)(model, jax.random.key(2))
    v, efforts = jnp.asarray(rng.normal(size=model.nv)), rng.normal(size=model.nv)
    order = np.array([turned.body_index(name) for name in model.body_names])

    def tau(it):
        """Returns the same efforts for every joint except the free one."""
        force = np.zeros(it.nv)
        for joint in model.joint_names[1:]:
            force[it.v_slice(joint)] = efforts[model.v_slice(joint)]
        return jnp.asarray(force)

    @jax.jit
    def both(q, v):
        q2, v2 = rbd.transfer_state(model, turned, q, v)
        back = rbd.transfer_state(turned, model, q2, v2)
        third = rbd.transfer_state(model, again, q, v)

        def of(it, q, v, order):
            a = rbd.forward_dynamics(it, q, v, tau(it) + rbd.passive_force(it, q, v))
            frames, energy = rbd.forward_kinematics(it, q), rbd.mechanical_energy(it, q, v)
            return (
                rbd.body_accelerations(it, q, v, a, "body")[order],
                rbd.body_velocities(it, q, v, "body")[order],
                frames.position[order],
                frames.rotation[order],
                energy,
            )

        here = np.array([again.body_index(name) for name in model.body_names])
        return of(model, q, v, np.arange(model.nb)), of(turned, q2, v2, order), of(again, *third, here), back

    first, second, third, (q0, v0) = both(q, v)
    for one, two, three in zip(first, second, third, strict=True):
        assert_close(two, one, 1e-10)
        assert_close(three, one, 1e-10)
    np.testing.assert_allclose(rbd.difference(model, q0, q), 0, atol=1e-12)
    np.testing.assert_allclose(v0, v, atol=1e-12)
    # The reference configuration is the same pose.
    pose = [rbd.forward_kinematics(it, it.reference).position for it in (model, turned)]
    np.testing.assert_allclose(pose[1][order], pose[0], atol=1e-12)


@pytest.mark.slow
def test_loops_that_are_cut_elsewhere():
    """A four-bar on either tree: the state is converted, and the former loop joint has its angle."""
    rod = rbd.Inertia.box(1.0, (1.0, 0.1, 0.1), (0.5, 0.0, 0.0))

    def four_bar(tree):
        graph = rbd.GraphBuilder(gravity=(0, -9.81, 0))
        graph.add_joint("c", "follower", "coupler", joints.Revolute(), (1, 0, 0), (1, 0, 0))
        for name, first, second, place in (
            ("a", "world", "crank", 0),
            ("b", "crank", "coupler", 1),
            ("d", "world", "follower", 1),
        ):
            graph.add_joint(name, first, second, joints.Revolute(), (place, 0, 0))
        for name in ("coupler", "crank", "follower"):
            graph.add_body(name, rod)
        return graph.build(tree=tree)

    one, other = four_bar(["a", "b", "d"]), four_bar(["a", "b", "c"])
    assert other.joint_names == ("a", "b", "c") and other.constraints[0].bodies == ("world", "follower")
    angles = {"a": 0.7, "b": -0.7, "d": 0.7}
    q = jnp.array([angles[name] for name in one.joint_names])
    v = rbd.project_velocity(one, q, q)
    there, rate = rbd.transfer_state(one, other, q, v)
    np.testing.assert_allclose(rbd.constraint_residual(other, there), 0, atol=1e-12)
    np.testing.assert_allclose(rbd.constraint_velocity(other, there, rate), 0, atol=1e-12)
    # The joint's angle is the coupler's relative to the follower, 0 - 0.7; the joint is reversed in this tree, q is the
    # same.
    np.testing.assert_allclose(there, [0.7, -0.7, -0.7], atol=1e-12)
    a, b = (
        rbd.constrained_dynamics(it, *state, jnp.zeros(3)).acceleration
        for it, state in ((one, (q, v)), (other, (there, rate)))
    )
    np.testing.assert_allclose(a[one.v_slice("a")], b[other.v_slice("a")], atol=1e-10)


@pytest.mark.slow
def test_free_bodies_with_the_same_joints():
    """In maximal coordinates, joints that the tree reverses keep their description, and bodies move alike."""
    graph = rbd.GraphBuilder(name="two")
    graph.add_joint(
        "hinge", "low", "high", joints.RackAndPinion(0.3), at((0.1, 0.2, 0), (0.3, 0, 1)), (0.2, 0, 0.1)
    )
    graph.add_joint("foot", "world", "high", joints.Universal(), (1.0, 0, 0), (0, 0.3, 0))
    for name in ("low", "high"):
        graph.add_body(name, rbd.Inertia.box(1.0, (0.3, 0.4, 0.5), (0.1, 0.0, 0.2)))
    model = graph.build()
    maximal = rbd.maximal_coordinates(model)
    assert [one.bodies for one in maximal.constraints] == [("world", "high"), ("low", "high")]
    q, v = jnp.array([0.3, -0.4, 0.7]), jnp.array([1.0, 0.5, -2.0])
    there = rbd.to_maximal(model, maximal, q, v)
    np.testing.assert_allclose(rbd.constraint_residual(maximal, there[0]), 0, atol=1e-12)
    np.testing.assert_allclose(rbd.constraint_velocity(maximal, *there), 0, atol=1e-12)
    a = rbd.forward_dynamics(model, q, v, jnp.zeros(3))
    free = rbd.constrained_dynamics(maximal, *there, jnp.zeros(12)).acceleration
    for name in ("low", "high"):
        one = rbd.body_accelerations(model, q, v, a, "body")[model.body_index(name)]
        two = rbd.body_accelerations(maximal, *there, free, "body")[maximal.body_index(name)]
        np.testing.assert_allclose(two, one, atol=1e-10)


def test_refusals():
    graph = rbd.GraphBuilder()
    graph.add_joint("a", "world", "one", joints.Revolute())
    with pytest.raises(rbd.ModelError, match="there is no body 'one'"):
        graph.build()
    graph.add_body("one")
    graph.add_body("two", rbd.Inertia.sphere(1.0, 0.1))
    with pytest.raises(rbd.ModelError, match="connects 'one' with itself"):
        graph.add_joint("x", "one", "one")
    with pytest.raises(rbd.ModelError, match="needs a name of its own"):
        graph.add_joint("a", "one", "two")
    with pytest.raises(rbd.ModelError, match="'one' is connected with the world"):
        graph.build(root="one")
    graph.add_joint("b", "one", "two", joints.Revolute(), damping=0.3)
    graph.add_joint("c", "world", "two", joints.Spherical(), stiffness=2.0)
    with pytest.raises(rbd.ModelError, match="'c' closes a loop"):
        graph.build(tree=["a"])
    assert len(graph.build().constraints) == 1
    with pytest.raises(TypeError, match="unknown argument 'dampng'.*damping"):
        graph.add_joint("d", "one", "two", dampng=3.0)
    with pytest.raises(rbd.ModelError, match="only a tree that floats"):
        rbd.reroot(rbd.load("pendulum"), "bob")
