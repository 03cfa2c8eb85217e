"""Elimination along the mechanism agrees with dense decompositions on random mechanisms, and has linear cost for long
ones.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import ROD, TIP, at, bricard, four_bar, four_bars, four_bars_state, inertia, placement

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints
from rbd_jax.constraints._elimination import Elimination
from rbd_jax.constraints.solving import factorize


def random_tie(rng, kind, a, b, frame_a, frame_b):
    axis, (point_a, point_b) = rng.normal(size=3), (frame_a.position, frame_b.position)
    families = [
        lambda: rc.Connect(a, point_a, b, point_b),
        lambda: rc.Weld(a, frame_a, b, frame_b),
        lambda: rc.LoopJoint(a, frame_a, b, frame_b, joints.Revolute(axis)),
        lambda: rc.PointOnLine(a, point_a, axis, b, point_b),
        lambda: rc.HingeLoop(a, frame_a, b, frame_b),
        lambda: rc.LoopJoint(a, frame_a, b, frame_b, joints.Prismatic(axis)),
        lambda: rc.Distance(a, frame_a.point(jnp.ones(3)), b, point_b, np.sqrt(3.0)),
    ]
    return families[kind]()


def random_mechanism(seed):
    """Returns a random tree with constraints of random families, and a configuration that satisfies them."""
    rng = np.random.default_rng(seed)
    axis = lambda: rng.normal(size=3)
    families = [
        *[lambda: joints.Revolute(axis())] * 5,
        lambda: joints.Prismatic(axis()),
        joints.Spherical,
        joints.Universal,
        joints.Cylindrical,
        joints.Free,
        joints.Planar,
        joints.Fixed,
    ]
    builder, names = rbd.ModelBuilder(name=f"random {seed}"), []
    for i in range(rng.integers(3, 9)):
        parent = "world" if i == 0 or rng.random() < 0.2 else names[rng.integers(max(0, i - 3), i)]
        builder.add_body(f"b{i}", parent, rng.choice(families)(), placement(rng), inertia(rng))
        names.append(f"b{i}")
    loose = builder.build()
    q = rbd.random_configuration(loose, jax.random.key(seed))
    placed = rbd.forward_kinematics(loose, q)
    single = [joint for joint, size in zip(names, loose.topology.joint_nv) if size == 1]
    carriers = dict(zip(names, loose.topology.carriers), world=-1)

    def seen_from(body, frame):
        return frame if body == "world" else placed[names.index(body)].inverse() @ frame

    wanted = rng.integers(1, 5)
    while len(builder.attached) < wanted:
        a, b = map(str, rng.choice(["world", *names], 2, replace=False))
        if carriers[a] == carriers[b]:
            continue
        common = placement(rng)
        frame_a, frame_b = seen_from(a, common), seen_from(b, common)
        kind = rng.integers(0, 7)
        if kind == 6 and len(single) > 1:
            first, second = map(str, rng.choice(single, 2, replace=False))
            off = q[loose.q_slice(first)][0] - 2 * q[loose.q_slice(second)][0]
            tie = rc.CoordinateCoupling({first: (-float(off), 1.0), second: (0.0, -2.0)})
        else:
            tie = random_tie(rng, kind, a, b, frame_a, frame_b)
        builder.add_constraint(tie)
        if rng.random() < 0.2:
            builder.add_constraint(tie)
    return builder.build(), q


def compare(model, q, v, tau):
    """Checks that both methods give the same acceleration, multipliers and rank."""

    @jax.jit
    def run(model, q, v, tau):
        methods = ("elimination", "range_space")
        return [rbd.constrained_dynamics(model, q, v, tau, method=method) for method in methods]

    found, expected = jax.device_get(run(model, q, v, tau))
    assert int(found.rank) == int(expected.rank)
    scale = 1 + np.abs(expected.multipliers).max()
    np.testing.assert_allclose(found.acceleration, expected.acceleration, atol=1e-11 * scale)
    np.testing.assert_allclose(found.multipliers, expected.multipliers, atol=1e-11 * scale)


@pytest.mark.parametrize(
    "seed",
    range(60),
)
@pytest.mark.slow
def test_random_mechanisms(seed):
    model, q = random_mechanism(seed)
    rng = np.random.default_rng(seed)
    compare(model, q, rng.normal(size=model.nv), rng.normal(size=model.nv))


def carried_four_bars(count):
    """Returns four-bars with revolute loop joints, each on the coupler of the previous one; three of five rows are
    redundant.
    """
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="carried four-bars")
    base = "world"
    for i in range(count):
        builder.add_body(f"crank {i}", base, joints.Revolute(), inertia=ROD)
        builder.add_body(f"coupler {i}", f"crank {i}", joints.Revolute(), TIP, ROD)
        builder.add_body(f"follower {i}", base, joints.Revolute(), TIP, ROD)
        base = f"coupler {i}"
        builder.add_constraint(rc.LoopJoint(base, TIP, f"follower {i}", TIP, joints.Revolute()))
    return builder.build()


def ladder(count):
    """Returns two chains from the world with a rod between them at each link, so that all loops close at the world."""
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="ladder")
    left = right = "world"
    for i in range(count):
        builder.add_body(f"left {i}", left, joints.Revolute(), TIP if i else at((0.0, 0.0, 0.0)), ROD)
        builder.add_body(f"right {i}", right, joints.Revolute(), TIP if i else at((0.0, 1.0, 0.0)), ROD)
        left, right = f"left {i}", f"right {i}"
        builder.add_constraint(rc.Distance(left, (1.0, 0.0, 0.0), right, (1.0, 0.0, 0.0), 1.0))
    return builder.build()


def bent(count):
    return np.tile([0.7, -0.7, 0.7], count)


CHAINS = {
    "carried": (lambda: carried_four_bars(3), bent(3)),
    "carried, five": (lambda: carried_four_bars(5), bent(5)),
    "carried, in a line": (lambda: carried_four_bars(3), np.zeros(9)),
    "side by side": (lambda: four_bars(6), four_bars_state(6, 1.1, -1.0).q),
    "side by side, in a line": (lambda: four_bars(3), four_bars_state(3, 0.0, -1.0).q),
    "ladder": (lambda: ladder(4), np.full(8, 0.1)),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "carried" else pytest.mark.slow) for name in CHAINS]
)
def test_chains_of_loops(name):
    """Book §8.9."""
    make, q = CHAINS[name]
    model = make()
    compare(model, q, np.linspace(-1, 1, model.nv), np.linspace(1, -2, model.nv))


@pytest.mark.slow
def test_rows_that_nearly_depend_on_others():
    """Near this configuration the first rows of the loop almost depend on each other, but not on the other rows."""
    q = [1.5708900825125351, -0.5235987743295049, 1.5708900825123329, -0.5235987743295234, 1.5708900825126029]
    v = [
        2.2258358461326244,
        6.024212131523955e-05,
        2.225835846132457,
        6.024212714655558e-05,
        2.2258358461327012,
    ]
    compare(bricard(), np.array(q), np.array(v), np.zeros(5))


def test_open_multipliers_do_not_grow_with_the_chain():
    for count in (4, 40):
        assert Elimination.order_of(carried_four_bars(count)).width == 5
        assert Elimination.order_of(four_bars(count)).width == 4
        assert Elimination.order_of(ladder(count)).width == count
    assert Elimination.pays(four_bars(40)) and not Elimination.pays(ladder(40))


def test_of_free_bodies_few_multipliers_are_open():
    """Book §8.13, (8.64): all bodies and joints form one sparse system, also for a ladder whose loops close at the world."""
    for count in (4, 16):
        bodies = rbd.maximal_coordinates(rc.without_constraints(four_bars(count)))
        assert Elimination.order_of(bodies).width <= 10
    assert Elimination.order_of(rbd.maximal_coordinates(ladder(40))).width < 25


@pytest.mark.slow
def test_a_constraint_that_is_not_relative_reaches_the_world():
    """A constraint in world axes depends on all degrees of freedom between its bodies and the world, not only those of
    its loop.
    """

    class Level(rc.Constraint):
        """Keeps two points at the same height."""

        rows = 1

        def __init__(self, body_a, body_b):
            self.bodies, self.joints = (body_a, body_b), ()
            place = rbd.Transform.from_position(TIP.position)
            self.frames = jax.tree.map(lambda x: jax.device_put(np.stack([x, x])), place)

        def residual(self, placements, coordinates):
            return (placements.position[1] - placements.position[0])[1:2]

    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0))
    builder.add_body("base", "world", joints.Revolute(), inertia=ROD)
    builder.add_body("left", "base", joints.Revolute(), TIP, ROD)
    builder.add_body("right", "base", joints.Revolute(), at((0.2, 0.5, 0.0)), ROD)
    builder.add_constraint(Level("left", "right"))
    compare(builder.build(), np.array([0.4, -0.3, 0.9]), np.array([1.0, 2.0, -1.0]), np.zeros(3))


def test_mimics_are_refused():
    xml = """<robot name="pair"><link name="a"/><link name="b"/><link name="c"/>
    <joint name="one" type="continuous"><parent link="a"/><child link="b"/></joint>
    <joint name="two" type="continuous"><parent link="a"/><child link="c"/><mimic joint="one"/></joint></robot>"""
    model = rbd.load_urdf(xml)
    model = rbd.add_constraints(model, rc.CoordinateCoupling({"one": (0.0, 1.0)}))
    with pytest.raises(ValueError, match="mimic"):
        jax.jit(lambda q: factorize(rbd.Motion(model, q), "elimination"))(np.zeros(1))
    assert not Elimination.pays(model)


@pytest.mark.slow
def test_single_precision():
    """Redundant rows are detected, and the acceleration agrees with double precision to 2e-5."""
    double = four_bar("revolute")
    single = jax.tree.map(lambda x: x.astype(jnp.float32), double)
    q, v = np.array([0.7, -0.7, 0.7]), np.array([1.0, -1.0, 1.0])
    run = jax.jit(rbd.constrained_dynamics)
    exact = run(double, q, v, np.zeros(3))
    found = run(single, *(x.astype(np.float32) for x in (q, v, np.zeros(3))))
    assert found.acceleration.dtype == jnp.float32 and int(found.rank) == int(exact.rank) == 2
    scale = np.abs(exact.acceleration).max()
    np.testing.assert_allclose(found.acceleration, exact.acceleration, atol=2e-5 * scale)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make, q", [(carried_four_bars, bent), (four_bars, lambda n: four_bars_state(n, 1.1, -1.0).q)]
)
def test_cost_is_linear(make, q):
    """From 4 to 128 loops the time per loop stays within a factor of two. In theory it is constant."""
    shares = {}
    for count in (4, 16, 128):
        model = make(count)
        qs = jnp.tile(q(count), (1024 // count, 1))
        still = jnp.zeros((len(qs), model.nv))
        run = jax.jit(
            lambda q, v, model=model: jax.lax.map(
                lambda x: rbd.constrained_dynamics(model, *x, x[1]).acceleration, (q, v)
            )
        )
        jax.block_until_ready(run(qs, still))
        times = []
        for _ in range(9):
            start = time.perf_counter()
            jax.block_until_ready(run(qs, still))
            times.append(time.perf_counter() - start)
        shares[count] = min(times) / len(qs) / count
    assert shares[128] < 2 * shares[16] and shares[128] < 2 * shares[4], shares


@pytest.mark.slow
def test_a_loop_joint_with_all_freedoms_changes_nothing():
    model = four_bar()
    free = rbd.add_constraints(model, rc.LoopJoint("coupler", TIP, "world", TIP, joints.Free()))
    q, v = np.array([0.7, -0.7, 0.7]), np.array([1.0, -1.0, 1.0])
    found, expected = (rbd.constrained_dynamics(m, q, v, np.zeros(3)) for m in (free, model))
    np.testing.assert_allclose(found.acceleration, expected.acceleration, atol=1e-13)
