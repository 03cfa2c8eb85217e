"""Models derived from models: correct dynamics, preserved fields, and derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


def body(mass, com=(0.1, 0.2, -0.1)):
    return rbd.Inertia.box(mass, (0.2, 0.3, 0.4), com)


def at(*numbers):
    return rbd.Transform.from_xyz_rpy(numbers[:3], numbers[3:])


@pytest.fixture(scope="module")
def machine():
    """A floating hull with two coupled arms, welds in all positions, and a crane on a pole."""
    builder = rbd.ModelBuilder(name="machine")
    builder.add_body("hull", joint=rbd.joints.Free(), inertia=body(5.0), damping=0.1)
    builder.add_body("mast", "hull", placement=at(0.1, 0.0, 0.5, 0.3, 0.0, 0.1), inertia=body(1.0))
    builder.add_body("lamp", "mast", placement=at(0.0, 0.2, 0.5, 0.0, -0.7, 0.1), inertia=body(0.5))
    builder.add_body(
        "left", "lamp", rbd.joints.Revolute((0.0, 1.0, 1.0)), at(0.2, 0.1, 0.0, 1.0, 0.2, 0.3), body(2.0),
        joint_name="left joint", damping=0.5, armature=0.1, lower=-1.0, upper=2.0, effort_limit=9.0,
    )  # fmt: skip
    builder.add_body(
        "right", "mast", rbd.joints.Revolute((1.0, 0.0, 0.0)), at(-0.2, 0.1, 0.0, 0.0, 0.0, 0.3), body(2.0),
        joint_name="right joint", mimic=rbd.Mimic("left joint", -2.0, 0.3),
    )  # fmt: skip
    builder.add_body(
        "hand", "right", rbd.joints.Prismatic((0.0, 0.0, 1.0)), at(0.0, 0.0, 0.4, 0.0, 0.1, 0.0), body(0.3)
    )
    builder.add_body("pole", placement=at(1.0, 2.0, 3.0, 0.1, 0.2, 0.3), inertia=body(7.0))
    builder.add_body(
        "crane", "pole", rbd.joints.Revolute(), at(0.0, 0.0, 1.0, 0.0, 0.5, 0.0), body(3.0), stiffness=4.0
    )
    return builder.build()


@pytest.fixture(scope="module")
def state(machine):
    q = jax.jit(lambda key: rbd.random_configuration(machine, key))(jax.random.key(1))
    return np.asarray(q), np.random.default_rng(1).normal(size=machine.nv)


_motion = jax.jit(lambda model, q, v: (rbd.mass_matrix(model, q), rbd.bias_force(model, q, v)))
_frames = jax.jit(lambda model, q: rbd.forward_kinematics(model, q).matrix)


def motion(model, q, v):
    """Returns all quantities of the equations of motion in one state, as NumPy arrays."""
    return jax.device_get(_motion(model, q, v))


def frames(model, q):
    """Returns the matrices of all body frames, as a NumPy array."""
    return np.asarray(_frames(model, q))


def close(a, b, atol=1e-12):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=atol)


def same_numbers(a, b):
    assert a.topology == b.topology
    jax.tree.map(np.testing.assert_array_equal, a, b)


#: Derivatives with respect to the model and the configuration.
energy_slopes = jax.jit(jax.grad(rbd.kinetic_energy, (0, 1)))


def same_slopes(model, a, b):
    """Asserts that two gradients with respect to a model are equal.

    Gradients with respect to rotation matrices are compared only along rotations, by the antisymmetric part of RᵀG. Off the
    rotation group, formulas that agree for rotations may differ.
    """

    def along_rotations(slope):
        product = np.swapaxes(model.placements.rotation, -1, -2) @ np.asarray(slope.placements.rotation)
        return eqx.tree_at(lambda m: m.placements.rotation, slope, product - np.swapaxes(product, -1, -2))

    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9),
        along_rotations(a),
        along_rotations(b),
    )


# Locking.


def entries(model, joints, space):
    part = model.q_slice if space == "q" else model.v_slice
    size = model.nq if space == "q" else model.nv
    return np.concatenate([np.arange(size)[part(joint)] for joint in joints])


def test_locked_joints_stand_still(machine, state):
    q, v = state
    angle = 0.7
    q = q.copy()
    q[machine.q_slice("left joint")], q[machine.q_slice("crane")] = angle, 0.0
    model = rbd.lock_joints(machine, {"left joint": angle, "crane": None})
    rest = ["hull", "hand"]
    assert model.body_names == machine.body_names and model.joint_names == machine.joint_names
    assert (model.nq, model.nv, len(model.topology.mimic_joints)) == (8, 7, 0)
    kept_q, kept_v = entries(machine, rest, "q"), entries(machine, rest, "v")
    close(frames(model, q[kept_q]), frames(machine, q))
    still = np.zeros(machine.nv)
    still[kept_v] = v[kept_v]
    mass, bias = motion(model, q[kept_q], v[kept_v])
    full_mass, full_bias = motion(machine, q, still)
    close(mass, full_mass[np.ix_(kept_v, kept_v)])
    close(bias, full_bias[kept_v])
    for name in ("damping", "armature", "velocity_limit", "effort_limit"):
        np.testing.assert_array_equal(getattr(model, name), np.asarray(getattr(machine, name))[kept_v])
    for name in ("lower", "upper", "spring_reference"):
        np.testing.assert_array_equal(getattr(model, name), np.asarray(getattr(machine, name))[kept_q])


def test_what_is_not_locked_stays(machine):
    model = rbd.lock_joints(machine, ["hand"])
    assert model.topology.leaders == machine.topology.leaders
    np.testing.assert_array_equal(model.mimic_multiplier, machine.mimic_multiplier)
    for name in ("lower", "upper", "damping", "armature", "effort_limit"):
        ours, theirs = getattr(model, name), getattr(machine, name)
        np.testing.assert_array_equal(
            ours[model.q_slice("left joint") if len(ours) == model.nq else model.v_slice("left joint")],
            theirs[
                machine.q_slice("left joint") if len(theirs) == machine.nq else machine.v_slice("left joint")
            ],
        )
    same_numbers(rbd.lock_joints(machine, "hand"), model)
    same_numbers(rbd.lock_joints(machine, {"hand": jnp.zeros(1)}), model)
    same_numbers(rbd.lock_joints(model, ["hand", "pole"]), model)


@pytest.mark.slow
def test_locking_is_differentiable(machine, state):
    q, v = state
    rest = np.setdiff1d(np.arange(machine.nq), entries(machine, ["left joint"], "q"))
    moving = np.setdiff1d(np.arange(machine.nv), entries(machine, ["left joint"], "v"))

    def energy(machine, angle):
        model = rbd.lock_joints(machine, {"left joint": angle})
        return rbd.kinetic_energy(model, q[rest], v[moving])

    joint = machine.q_slice("left joint")
    of_model, of_angle = jax.jit(jax.grad(energy, (0, 1)))(machine, q[joint][0])
    still = v.copy()
    still[machine.v_slice("left joint")] = 0.0
    expected_of_model, expected_of_q = energy_slopes(machine, q, still)
    same_slopes(machine, of_model, expected_of_model)
    np.testing.assert_allclose(of_angle, expected_of_q[joint][0], rtol=1e-9)
    assert float(of_angle) != 0


def test_bad_locks(machine):
    with pytest.raises(rbd.UnknownNameError, match="no joint 'crain' to lock; did you mean 'crane'?"):
        rbd.lock_joints(machine, "crain")
    with pytest.raises(rbd.ModelError, match="'right joint' cannot be locked, since it mimics 'left joint'"):
        rbd.lock_joints(machine, ["right joint"])
    with pytest.raises(rbd.ModelError, match=r"'hull' cannot be locked .* shape \(6,\); it has nq = 7"):
        rbd.lock_joints(machine, {"hull": np.zeros(6)})


# Fusing.


def test_fused_welds_leave_the_dynamics(machine, state):
    model = rbd.fuse_fixed(machine)
    assert model.body_names == ("hull", "left", "right", "hand", "crane")
    assert model.joint_names == ("hull", "left joint", "right joint", "hand", "crane")
    assert model.topology.parents == (-1, 0, 0, 2, -1)
    assert model.topology.leaders == (-1, -1, 1, -1, -1) and not model.topology.fixed.any()
    close(float(model.inertias.mass.sum()), 5 + 1 + 0.5 + 2 + 2 + 0.3 + 3)
    jax.tree.map(close, motion(model, *state), motion(machine, *state))
    ours, theirs = frames(model, state[0]), frames(machine, state[0])
    close(ours, theirs[[machine.body_index(name) for name in model.body_names]])
    # Its description builds the same model: the topology is that of the builder.
    again = rbd.ModelBuilder.from_model(model).build()
    assert again.topology == model.topology
    assert rbd.fuse_fixed(model) is model


@pytest.mark.slow
def test_fusing_is_differentiable(machine, state):
    ours = jax.jit(jax.grad(lambda model: rbd.kinetic_energy(rbd.fuse_fixed(model), *state)))(machine)
    theirs, _ = energy_slopes(machine, *state)
    same_slopes(machine, ours, theirs)
    assert float(jnp.abs(ours.placements.position[machine.body_index("lamp")]).max()) > 0


def test_all_welded_is_nothing_left():
    builder = rbd.ModelBuilder()
    builder.add_body("a", inertia=body(1.0))
    builder.add_body("b", "a", inertia=body(1.0))
    assert rbd.fuse_fixed(builder.build()).nb == 0


# Concatenation.


@pytest.mark.slow
def test_two_in_one_world(machine, state):
    """Book eq. 3.10."""
    q, v = state
    place = at(0.5, -1.0, 2.0, 0.3, 0.2, 0.1)
    model = rbd.concatenate(machine, machine, names=(None, "twin"), placements=(None, place))
    nb, nv = machine.nb, machine.nv
    assert model.nb == 2 * nb and model.nv == 2 * nv
    assert model.body_names[:nb] == machine.body_names and model.body_names[nb:] == tuple(
        f"twin/{name}" for name in machine.body_names
    )
    assert model.joint_names[nb + 3] == "twin/left joint" and model.topology.leaders[nb + 4] == nb + 3
    both_q, both_v = np.concatenate([q, q]), np.concatenate([v, v])
    placed = frames(model, both_q)
    close(placed[:nb], frames(machine, q))
    close(placed[nb:], np.asarray(place.matrix) @ frames(machine, q))
    mass, _ = motion(model, both_q, both_v)
    single, _ = motion(machine, q, v)
    close(mass, np.kron(np.eye(2), single))
    for name in ("damping", "armature", "stiffness", "lower", "upper", "effort_limit", "mimic_offset"):
        np.testing.assert_array_equal(getattr(model, name), np.tile(getattr(machine, name), 2))


@pytest.mark.slow
def test_putting_together_is_differentiable(machine):
    @jax.jit
    @jax.grad
    def slope(height, machine):
        place = rbd.Transform.from_position(jnp.stack([jnp.zeros(()), jnp.zeros(()), height]))
        model = rbd.concatenate(machine, machine, names=("a", "b"), placements=(place, None))
        return rbd.potential_energy(model, rbd.neutral(model))

    # The whole machine is raised.
    close(slope(jnp.array(0.2), machine), 9.81 * float(machine.inertias.mass.sum()))


def test_bad_concatenations(machine):
    single = rbd.astype(machine, jnp.float32)
    moon = eqx.tree_at(lambda m: m.gravity, machine, jnp.array([0.0, 0.0, -1.62]))
    for models, options, words in (
        ((), {}, "there is no model"),
        ((machine, machine), {}, "'machine' and 'machine' both have a body 'hull'.*names="),
        ((machine, machine), {"names": ("a", "a")}, "both have a body 'a/hull'"),
        ((machine, machine), {"names": ("a",)}, "names has 1 entries for 2 models"),
        ((machine,), {"placements": ()}, "placements has 0 entries for 1 models"),
        ((machine, single), {"names": ("a", "b")}, "float64.*float32.*cast one with astype"),
        ((machine, moon), {"names": ("a", "b")}, "one world has one gravity"),
    ):
        with pytest.raises(rbd.ModelError, match=words):
            rbd.concatenate(*models, **options)


# Other edits.


@pytest.mark.slow
def test_another_walk_is_the_same_model(machine, state):
    for traversal in ("scan", "levels", "doubling"):
        model = rbd.with_traversal(machine, traversal)
        assert (
            model.topology.traversal == model.topology.tree.traversal == traversal
            and model.topology != machine.topology
        )
        same_numbers(rbd.with_traversal(model, machine.topology.traversal), machine)
    # The machine uses a scan on a CPU.
    jax.tree.map(close, motion(model, *state), motion(machine, *state))


def test_other_precisions(machine, state):
    single = rbd.astype(machine, jnp.float32)
    assert single.dtype == jnp.float32 and {leaf.dtype for leaf in jax.tree.leaves(single)} == {
        jnp.dtype("float32")
    }
    assert single.topology == machine.topology
    mass, bias = motion(single, *(x.astype(np.float32) for x in state))
    assert mass.dtype == bias.dtype == jnp.float32
    np.testing.assert_allclose(mass, motion(machine, *state)[0], rtol=1e-4, atol=1e-4)
    same_numbers(rbd.astype(machine, "float64"), machine)
    # Edits preserve the precision.
    assert rbd.lock_joints(single, {"left joint": 0.3}).dtype == rbd.fuse_fixed(single).dtype == jnp.float32
    assert jax.jit(rbd.fuse_fixed)(single).dtype == jnp.float32
    turned = lambda angle: rbd.lock_joints(single, {"left joint": angle}).placements.rotation.sum()
    assert np.isfinite(jax.jit(jax.grad(turned))(0.3))
    heavy = rbd.ModelBuilder()
    heavy.add_body("heavy", joint=rbd.joints.Revolute(), damping=1e300)
    with pytest.raises(rbd.ModelError, match="too large for float32: .damping"):
        rbd.astype(heavy.build(), jnp.float32)
    for bad, words in ((int, "floating-point, got int64"), ("real", "'real' is not a floating-point type")):
        with pytest.raises(rbd.ModelError, match=words):
            rbd.astype(machine, bad)


def test_joints_that_move_by_themselves_are_set_to_a_time(machine):
    builder = rbd.ModelBuilder()
    for name, rate in (("slow", 0.5), ("fast", 4.0)):
        joint = rbd.joints.ConstantVelocity(rbd.joints.Revolute(), jnp.array([rate]))
        builder.add_body(name, joint=joint, inertia=body(1.0))
        builder.add_body(f"{name} arm", name, rbd.joints.Revolute((0.0, 1.0, 0.0)), inertia=body(1.0))
    model = builder.build()

    def turned(model, time):
        model = rbd.at_time(model, time)
        return jnp.stack(
            [model.joint(name).transform(jnp.zeros(0)).rotation[1, 0] for name in ("slow", "fast")]
        )

    time = np.array(0.3)
    found, rates = jax.jit(lambda time: (turned(model, time), jax.jacfwd(turned, 1)(model, time)))(time)
    close(found, np.sin([0.15, 1.2]))
    close(rates, [0.5 * np.cos(0.15), 4 * np.cos(1.2)])
    same_numbers(rbd.at_time(rbd.at_time(model, time), 0), model)
    later = rbd.at_time(model, 0.3)
    np.testing.assert_array_equal(later.joint("slow arm").axis, model.joint("slow arm").axis)
    # A locked joint stays in place.
    stopped = rbd.lock_joints(later, "fast")
    assert stopped.topology.fixed.tolist() == [False, False, True, False]
    close(np.asarray(stopped.placements.rotation)[2, 1, 0], np.sin(1.2))
    assert rbd.at_time(machine, 1.0) is machine
    with pytest.raises(ValueError, match=r"time has shape \(2,\).*jax.vmap"):
        rbd.at_time(model, jnp.zeros(2))
