"""Planar models move as the spatial ones that they were made of (book §2.16)."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close, differences

import rbd_jax as rbd
from rbd_jax import joints
from rbd_jax.spatial import planar


rng = np.random.default_rng(1)
X = np.array([0.8, 0.6, 0.0])
NORMAL = np.array([0.36, -0.48, 0.8])
AXES = np.stack([X, np.cross(NORMAL, X)])


def mechanism(parents, families, spread=1.0, gravity=(0.4, -0.3, -9.81), **build):
    """Bodies in frames of any attitude that move in a plane of any attitude.

    A family is made for the normal of the plane and a direction in it, both in the frame of the body, or is a joint whose
    frame has the axes of the plane. What the plane does not know is `spread` wide.
    """
    random = np.random.default_rng(0)
    builder, attitudes = rbd.ModelBuilder(gravity=gravity), [np.eye(3)]
    for i, (parent, family) in enumerate(zip(parents, families, strict=True)):
        own = np.linalg.qr(random.normal(size=(3, 3)))[0]
        own = own * np.sign(np.linalg.det(own))
        if isinstance(family, joints.Joint):
            own = np.stack([*AXES, NORMAL], axis=1)
        attitudes.append(own)
        above = attitudes[parent + 1]
        place = above.T @ (AXES.T @ random.uniform(-0.4, 0.4, 2) + spread * random.normal() * NORMAL)
        joint = family
        if not isinstance(family, joints.Joint):
            joint = family(own.T @ NORMAL, own.T @ (AXES.T @ np.array([0.6, 0.8])))
        # In the plane the same body for any spread: thicker along the normal, off it, with other products of inertia.
        com = own.T @ (AXES.T @ random.uniform(-0.2, 0.2, 2) + 0.1 * spread * random.normal() * NORMAL)
        frame = own.T @ np.stack([*AXES, NORMAL], axis=1)
        central = np.diag([0.5 + spread, 0.6 + spread, 0.7])
        central[2, :2] = central[:2, 2] = 0.1 * spread
        inertia = rbd.Inertia.from_mass_com(random.uniform(0.5, 2.0), com, frame @ central @ frame.T)
        placement = rbd.Transform(jnp.asarray(above.T @ own), jnp.asarray(place))
        builder.add_body(
            f"b{i}",
            f"b{parent}" if parent >= 0 else "world",
            joint,
            placement,
            inertia,
            armature=0.1 * i,
            damping=0.05,
        ) if joint.nv else builder.add_body(
            f"b{i}", f"b{parent}" if parent >= 0 else "world", joint, placement, inertia
        )
    return builder.build(**build)


def hinge(normal, along):
    return joints.Revolute(normal)


def back(normal, along):
    return joints.Revolute(-normal)


def slide(normal, along):
    return joints.Prismatic(along)


def free(normal, along):
    return joints.Planar(-normal)


def weld(normal, along):
    return joints.Fixed()


def both(normal, along):
    return joints.Composite([joints.Prismatic(along), joints.Revolute(normal)])


def led(normal, along):
    return joints.ConstantVelocity(joints.Prismatic(along), [0.7])


#: A branched tree of the three families of the plane, with welds.
TREE = mechanism([-1, 0, 0, 1, 1, 2, 3, -1], [hinge, slide, back, hinge, weld, hinge, free, free])
FLAT = rbd.planar(TREE, AXES)
#: And what else moves in one: a wheel on a rack, a joint of two, one of the other polarity, one that is led.
OTHERS = mechanism(
    [-1, 0, 1, 2, 3],
    [joints.RackAndPinion(0.2), both, led, joints.Reversed(joints.RackAndPinion(0.3)), hinge],
)


def samples(model, count=4):
    keys = jax.random.split(jax.random.key(0), 3)
    q = jax.vmap(lambda key: rbd.random_configuration(model, key))(jax.random.split(keys[0], count))
    return (q, *(jax.random.normal(key, (count, model.nv)) for key in keys[1:]))


QUANTITIES = {
    "inverse dynamics": lambda model, q, v, a: rbd.inverse_dynamics(model, q, v, a),
    "forward dynamics": lambda model, q, v, a: rbd.forward_dynamics(model, q, v, a),
    "mass matrix": lambda model, q, v, a: rbd.mass_matrix(model, q),
    "kinetic energy": lambda model, q, v, a: rbd.kinetic_energy(model, q, v),
    "bias force": lambda model, q, v, a: rbd.bias_force(model, q, v),
    "gravity force": lambda model, q, v, a: rbd.gravity_force(model, q),
    "product with the mass matrix": lambda model, q, v, a: rbd.inertia_force(model, q, a),
    "solution of the mass matrix": lambda model, q, v, a: rbd.solve_mass_matrix(model, q, a),
}


def all_of(model):
    return lambda *x: {name: quantity(model, *x) for name, quantity in QUANTITIES.items()}


def each_close(found, expected, tolerance):
    for name in expected:
        assert_close(found[name], expected[name], tolerance, name)


@pytest.mark.parametrize("model", [TREE, OTHERS], ids=["tree", "others"])
def test_planar_is_spatial(model):
    x = samples(model)
    found, expected = (jax.jit(jax.vmap(all_of(one)))(*x) for one in (rbd.planar(model, AXES), model))
    each_close(found, expected, 1e-12)


def into_plane(x):
    """The planar entries of a spatial vector in the axes of the world, or of a point."""
    x = np.asarray(x)
    if x.shape[-1] == 3:
        return x @ AXES.T
    return np.concatenate([x[..., :3] @ NORMAL[:, None], x[..., 3:] @ AXES.T], axis=-1)


def test_kinematics_are_the_shadows_of_spatial_ones():
    q, v, a = (x[0] for x in samples(TREE))
    whole, flat = (rbd.forward_kinematics(one, q) for one in (TREE, FLAT))
    assert_close(flat.position, into_plane(whole.position), 1e-13)
    # A planar frame has the axes that the plane has in the body.
    axes = np.stack([own_axes(FLAT, body) for body in range(TREE.nb)])
    assert_close(flat.direction, into_plane(np.einsum("bij,bj->bi", whole.rotation, axes[:, 0])), 1e-13)
    for frame in ("world", "world_aligned"):
        for function, given in ((rbd.body_velocities, (q, v)), (rbd.body_accelerations, (q, v, a))):
            found, expected = (function(one, *given, frame=frame) for one in (FLAT, TREE))
            assert_close(found, into_plane(expected), 1e-12, f"{function.__name__}, {frame}")
    found, expected = (np.asarray(rbd.body_velocities(one, q, v, frame="body")) for one in (FLAT, TREE))
    assert_close(found[:, 1:], np.einsum("bij,bj->bi", axes, expected[:, 3:]), 1e-12)
    for function, given in ((rbd.momentum, (q, v)), (rbd.center_of_mass, (q,))):
        assert_close(function(FLAT, *given), into_plane(function(TREE, *given)), 1e-12, function.__name__)


def own_axes(model, body):
    """The axes of the plane in a body's frame: what the joint has that attaches it."""
    return np.asarray(model.joint(body).axes)


def test_external_forces_are_planar():
    q, v, tau = (x[0] for x in samples(TREE))
    force = rng.normal(size=(TREE.nb, 3))
    whole = np.concatenate([force[:, :1] * NORMAL, force[:, 1:] @ AXES], axis=1)
    for function in (rbd.inverse_dynamics, rbd.forward_dynamics):
        found, expected = (
            function(FLAT, q, v, tau, jnp.asarray(force)),
            function(TREE, q, v, tau, jnp.asarray(whole)),
        )
        assert_close(found, expected, 1e-12)
    one = rbd.inverse_dynamics(FLAT, q, v, tau, {"b3": force[3]})
    assert_close(one, rbd.inverse_dynamics(TREE, q, v, tau, {"b3": whole[3]}), 1e-12)
    with pytest.raises(ValueError, match=r"a wrench \[n; f_x; f_y\] in a plane has shape \(3,\)"):
        rbd.inverse_dynamics(FLAT, q, v, tau, {"b3": whole[3]})


def test_what_the_plane_does_not_know_has_no_effect():
    """Thicker bodies, beside each other, with other products of inertia: the same planar model, and the same motion in space."""
    thin = mechanism([-1, 0, 0], [hinge, slide, back], spread=0.0)
    thick = mechanism([-1, 0, 0], [hinge, slide, back], spread=3.0)
    flat, other = rbd.planar(thin, AXES), rbd.planar(thick, AXES)
    for part in ("gravity", "placements", "inertias"):
        for a, b in zip(*(jax.tree.leaves(getattr(one, part)) for one in (flat, other)), strict=True):
            assert_close(a, b, 1e-14, part)
    x = [part[0] for part in samples(thin)]
    assert_close(rbd.forward_dynamics(thin, *x), rbd.forward_dynamics(thick, *x), 1e-13)
    assert float(jnp.max(jnp.abs(thin.inertias.rotational - thick.inertias.rotational))) > 1


def test_potential_energies_differ_by_a_constant():
    """What gravity has along the normal does no work."""
    found, expected = (
        jax.jit(jax.vmap(lambda q, one=one: rbd.potential_energy(one, q)))(samples(TREE)[0])
        for one in (FLAT, TREE)
    )
    assert_close(found - found[0], expected - expected[0], 1e-12)


def test_forward_undoes_inverse():
    def back_and_forth(q, v, a):
        return rbd.forward_dynamics(FLAT, q, v, rbd.inverse_dynamics(FLAT, q, v, a))

    x = samples(TREE)
    assert_close(jax.jit(jax.vmap(back_and_forth))(*x), x[2], 1e-11)


@pytest.mark.parametrize("angle", [0.0, np.pi])
def test_derivatives_at_singular_angles(angle):
    """By q, v and tau against differences, stretched and folded."""
    arm = rbd.planar(mechanism([-1, 0, 1], [hinge, slide, back]), AXES)
    zero = jnp.array([0.3, -0.2, 0.5])
    state = jnp.concatenate([jnp.full(3, angle), zero, -zero])

    def accelerations(x):
        return rbd.forward_dynamics(arm, *jnp.split(x, 3))

    found = jax.jit(jax.jacrev(accelerations))(state)
    assert_close(found, differences(jax.jit(jax.vmap(accelerations)), state[None])[0], 1e-7)
    assert_close(jax.jit(jax.jacfwd(accelerations))(state), found, 1e-12)


@pytest.mark.parametrize(
    "model", [TREE, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["tree", "others"]
)
def test_derivatives_are_the_spatial_ones(model):
    """By q, v, a: the closed form has a part for each algebra."""
    x = [part[0] for part in samples(model)]
    found, expected = (
        jax.jit(jax.jacfwd(lambda *x, one=one: rbd.inverse_dynamics(one, *x), (0, 1, 2)))(*x)
        for one in (rbd.planar(model, AXES), model)
    )
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, 1e-12)


@pytest.mark.parametrize(
    "function",
    [
        rbd.inverse_dynamics_derivatives,
        rbd.forward_dynamics_derivatives,
        lambda model, q, v, x: rbd.hybrid_dynamics(model, q, v, x, -x, ["b0", "b3"]),
    ],
    ids=["of inverse dynamics", "of forward dynamics", "hybrid dynamics"],
)
def test_derivative_matrices_and_hybrid_dynamics(function):
    x = [part[0] for part in samples(TREE)]
    for a, b in zip(function(FLAT, *x), function(TREE, *x), strict=True):
        assert_close(a, b, 1e-11)


def test_derivatives_by_the_numbers_of_the_model():
    """The gradient by every number of a planar model, and through `planar` by those of the spatial one."""
    model = mechanism([-1, 0], [hinge, slide])
    q, v, tau = (x[0] for x in samples(model))
    energy = lambda model: jnp.sum(rbd.forward_dynamics(model, q, v, tau))
    of_space = jax.grad(energy)(model)
    through = jax.grad(lambda model: energy(rbd.planar(model, AXES)))(model)
    assert_close(through.inertias.mass, of_space.inertias.mass, 1e-12)
    assert_close(through.gravity, AXES.T @ AXES @ of_space.gravity, 1e-12)
    assert_close(through.armature, of_space.armature, 1e-12)
    flat = rbd.planar(model, AXES)
    own = jax.grad(energy)(flat)
    for where in (lambda m: m.inertias.mass, lambda m: m.inertias.rotational, lambda m: m.gravity):
        batched = jax.vmap(lambda x, where=where: energy(eqx.tree_at(where, flat, x)))
        assert_close(where(own), differences(batched, where(flat)[None])[0], 1e-7)


def test_single_precision():
    x = [part.astype(jnp.float32) for part in samples(TREE)]
    flat = rbd.astype(FLAT, jnp.float32)
    found, expected = jax.jit(jax.vmap(all_of(flat)))(*x), jax.jit(jax.vmap(all_of(TREE)))(*samples(TREE))
    assert all(value.dtype == jnp.float32 for value in found.values())
    each_close(found, expected, 2e-4)


SCHEMES = {
    "semi-implicit Euler": rbd.SemiImplicitEuler(),
    "Runge-Kutta": rbd.RungeKutta4(),
    "implicit midpoint": rbd.ImplicitMidpoint(),
    "variational midpoint": rbd.VariationalMidpoint(),
    "linearly implicit Euler": rbd.LinearlyImplicitEuler(),
}


@pytest.mark.parametrize(
    "scheme",
    [pytest.param(name, marks=() if name == "semi-implicit Euler" else pytest.mark.slow) for name in SCHEMES],
)
def test_rollouts_are_the_spatial_ones(scheme):
    """With dampers, springs and a spring element at a joint."""
    model = mechanism([-1, 0, 0, -1], [hinge, slide, back, free])
    model = replace(model, stiffness=jnp.full(model.nv, 2.0), friction=jnp.full(model.nv, 0.1))
    state = rbd.State(*(x[0] for x in samples(model)[:2]))
    ends = []
    for one in (rbd.planar(model, AXES), model):
        trajectory = rbd.rollout(one, state, steps=20, dt=0.01, scheme=SCHEMES[scheme])
        assert int(trajectory.code) == 0
        ends.append(jnp.concatenate([trajectory.q[-1], trajectory.v[-1]]))
    assert_close(*ends, 1e-11)


def test_energy_is_kept():
    model = replace(FLAT, damping=jnp.zeros(FLAT.nv))
    state = rbd.State(*(x[0] for x in samples(model)[:2]))
    trajectory = rbd.rollout(model, state, steps=50, dt=1e-3, scheme=rbd.RungeKutta4())
    energy = jax.vmap(lambda q, v: jnp.sum(rbd.mechanical_energy(model, q, v)))(trajectory.q, trajectory.v)
    assert_close(energy, np.full(energy.shape, energy[0]), 1e-8)


def test_gradient_of_a_rollout():
    model = rbd.planar(mechanism([-1, 0], [hinge, slide]), AXES)
    state = rbd.State(jnp.array([0.3, 0.1]), jnp.array([-0.5, 0.2]))

    def reach(tau):
        trajectory = rbd.rollout(model, state, jnp.tile(tau, (8, 1)), dt=0.02, scheme=rbd.RungeKutta4())
        return rbd.forward_kinematics(model, trajectory.q[-1]).position[-1, 0]

    tau = jnp.array([0.4, -0.3])
    assert_close(jax.grad(reach)(tau), differences(jax.vmap(reach), tau[None], 1e-4)[0], 1e-8)


# What is read off a model, and what is refused.


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("double_pendulum", [[1, 0, 0], [0, 0, 1]]),
        ("cartpole", [[1, 0, 0], [0, 0, 1]]),
        ("reacher", [[1, 0, 0], [0, 1, 0]]),
    ],
)
def test_planes_are_found(name, axes):
    """In the axes of the world where the plane is one of the world's, with y upwards."""
    model = rbd.load(name)
    flat = rbd.planar(model)
    assert_close(flat.gravity, np.array(axes) @ np.asarray(model.gravity), 1e-15)
    assert flat.actuators and not flat.sensors or name == "double_pendulum"
    state = rbd.State(jnp.array([0.3, 0.5]), jnp.array([0.2, -0.4]))
    controls = rbd.Controls(jnp.full((5, model.nu), 0.3)) if model.nu else None
    ends = [rbd.rollout(one, state, controls, steps=5, dt=0.01).q[-1] for one in (flat, model)]
    assert_close(*ends, 1e-13)


def test_a_tilted_plane_is_found():
    """From the first hinge, with y upwards; the numbers of the motion do not depend on the axes."""
    flat = rbd.planar(TREE)
    q, v, tau = (x[0] for x in samples(TREE))
    assert_close(rbd.forward_dynamics(flat, q, v, tau), rbd.forward_dynamics(FLAT, q, v, tau), 1e-12)
    lower = rbd.planar(mechanism([-1, 0], [slide, slide], gravity=tuple(-AXES[0])))
    assert_close(float(jnp.linalg.norm(lower.gravity)), 1.0, 1e-14)


def test_the_drawing_says_planar():
    assert str(FLAT).startswith(f"{TREE.name}: planar, 8 bodies")
    assert "Prismatic" in str(FLAT)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (
            lambda n, along: joints.Revolute(along),
            r"joint 'b1' .* turns about .* where the normal of the plane is",
        ),
        (lambda n, along: joints.Prismatic(n), r"joint 'b1' .* moves along .* out of the plane"),
        (
            lambda n, along: joints.Helical(n, 0.1),
            r"joint 'b1' .* moves along .* lock the joint by rbd.lock_joints",
        ),
        (lambda n, along: joints.Free(), r"joint 'b1' .* turns about"),
    ],
    ids=["turn", "slide", "screw", "free"],
)
def test_joints_that_leave_the_plane_are_refused(family, message):
    with pytest.raises(rbd.ModelError, match=message):
        rbd.planar(mechanism([-1, 0], [hinge, family]))


def test_what_acts_in_space_is_refused():
    model = rbd.load("double_pendulum")
    loop = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    with pytest.raises(rbd.ModelError, match="planar: model .* carries the constraint PointOnPlane"):
        rbd.planar(rbd.add_constraints(model, loop))
    flat = rbd.planar(model)
    cable = rbd.forces.SpringDamper(
        ["world", "lower"], jnp.zeros((2, 3)), rest_length=0.1, spring_constant=1.0
    )
    with pytest.raises(rbd.ModelError, match="planar: model .* carries the force SpringDamper"):
        rbd.planar(rbd.add_forces(model, cable))
    with pytest.raises(ValueError, match="SpringDamper.* does not act along joints alone"):
        rbd.rollout(flat, rbd.State(jnp.zeros(2), jnp.zeros(2)), steps=1, dt=0.1, forces=[cable])
    with pytest.raises(rbd.ModelError, match="is planar, and carries what acts along joints, not the site"):
        rbd.attach(flat, rbd.Site("tip", "lower", (0, 0, -1)))
    with pytest.raises(ValueError, match="jacobian: model 'double_pendulum' is planar"):
        rbd.jacobian(flat, jnp.zeros(2), "lower")
    with pytest.raises(ValueError, match="lock_joints: model 'double_pendulum' is planar"):
        rbd.lock_joints(flat, "elbow")
    with pytest.raises(ValueError, match="from_model: model 'double_pendulum' is planar"):
        rbd.ModelBuilder.from_model(flat)
    with pytest.raises(ValueError, match="planar: model 'double_pendulum' is planar"):
        rbd.planar(flat)


def test_the_plane_must_be_said_where_it_cannot_be_seen():
    model = rbd.load("double_pendulum")
    with pytest.raises(rbd.ModelError, match="traced, so its plane cannot be found; give its axes"):
        jax.jit(lambda model: rbd.planar(model).gravity)(model)
    with pytest.raises(rbd.ModelError, match="two unit vectors at a right angle"):
        rbd.planar(model, [[1, 0, 0], [1, 0, 0]])
    with pytest.raises(rbd.ModelError, match="do not say in which plane it moves; give the axes"):
        rbd.planar(mechanism([-1], [slide], gravity=(0.0, 0.0, 0.0)))


def test_numbers_that_no_body_has_are_told():
    flat = rbd.planar(rbd.load("double_pendulum"))
    rbd.check(flat)
    wrong = replace(
        flat, inertias=planar.Inertia(*(flat.inertias.mass, flat.inertias.first_moment, jnp.zeros(2)))
    )
    with pytest.warns(rbd.ModelWarning, match="'upper': the rotational inertia has the negative moment"):
        rbd.check(wrong)
