"""Planar models move like the spatial models that they were converted from (book §2.16)."""

import functools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import some_states
from support import assert_close, differences

import rbd_jax as rbd
from rbd_jax import joints
from rbd_jax.spatial import planar


SLOW = pytest.mark.slow

rng = np.random.default_rng(1)
X = np.array([0.8, 0.6, 0.0])
NORMAL = np.array([0.36, -0.48, 0.8])
AXES = np.stack([X, np.cross(NORMAL, X)])


def mechanism(parents, families, spread=1.0, gravity=(0.4, -0.3, -9.81), **build):
    """Returns bodies with arbitrary frames that move in an arbitrary plane.

    A family is either a joint whose frame has the plane's axes, or a function that returns a joint. Its arguments are
    the plane's normal and a direction in the plane, both in the body's frame. `spread` scales the quantities that have
    no effect in the plane.
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
        # In the plane the body is the same for any spread: thicker along the normal, offset, with other products of
        # inertia.
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


@functools.cache
def space_tree():
    """Returns a branched tree of the three planar joint families, with welds."""
    return mechanism([-1, 0, 0, 1, 1, 2, 3, -1], [hinge, slide, back, hinge, weld, hinge, free, free])


@functools.cache
def flat_tree():
    return in_plane(space_tree())


def space_others():
    """Returns other joints that move in a plane: a wheel on a rack, a composite, a reversed and a driven joint."""
    return mechanism(
        [-1, 0, 1, 2, 3],
        [joints.RackAndPinion(0.2), both, led, joints.Reversed(joints.RackAndPinion(0.3)), hinge],
    )


def in_plane(model):
    """Returns the planar model, converted by one program."""
    return jax.jit(lambda model: rbd.planar(model, AXES))(model)


def samples(model, count=4):
    states = some_states(model, samples=count)
    return states.q, states.v, states.a


def one_sample(model):
    return [part[0] for part in samples(model)]


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


@SLOW
@pytest.mark.parametrize("make", [space_tree, space_others], ids=["tree", "others"])
def test_planar_is_spatial(make):
    model = make()
    x = samples(model)
    found, expected = (jax.jit(jax.vmap(all_of(one)))(*x) for one in (in_plane(model), model))
    each_close(found, expected, 1e-12)


def into_plane(x):
    """Returns the planar entries of a spatial vector in world axes, or of a point."""
    x = np.asarray(x)
    if x.shape[-1] == 3:
        return x @ AXES.T
    return np.concatenate([x[..., :3] @ NORMAL[:, None], x[..., 3:] @ AXES.T], axis=-1)


@SLOW
def test_kinematics_are_the_shadows_of_spatial_ones():
    q, v, a = one_sample(space_tree())
    whole, flat = (rbd.forward_kinematics(one, q) for one in (space_tree(), flat_tree()))
    assert_close(flat.position, into_plane(whole.position), 1e-13)
    # A planar frame has the axes of the plane in the body.
    axes = np.stack([own_axes(flat_tree(), body) for body in range(space_tree().nb)])
    assert_close(flat.direction, into_plane(np.einsum("bij,bj->bi", whole.rotation, axes[:, 0])), 1e-13)
    for frame in ("world", "world_aligned"):
        for function, given in ((rbd.body_velocities, (q, v)), (rbd.body_accelerations, (q, v, a))):
            found, expected = (function(one, *given, frame=frame) for one in (flat_tree(), space_tree()))
            assert_close(found, into_plane(expected), 1e-12, f"{function.__name__}, {frame}")
    found, expected = (
        np.asarray(rbd.body_velocities(one, q, v, frame="body")) for one in (flat_tree(), space_tree())
    )
    assert_close(found[:, 1:], np.einsum("bij,bj->bi", axes, expected[:, 3:]), 1e-12)
    for function, given in ((rbd.momentum, (q, v)), (rbd.center_of_mass, (q,))):
        assert_close(
            function(flat_tree(), *given),
            into_plane(function(space_tree(), *given)),
            1e-12,
            function.__name__,
        )


def own_axes(model, body):
    """Returns the axes of the plane in a body's frame, which are those of the body's joint."""
    return np.asarray(model.joint(body).axes)


@SLOW
def test_external_forces_are_planar():
    q, v, tau = one_sample(space_tree())
    force = rng.normal(size=(space_tree().nb, 3))
    whole = np.concatenate([force[:, :1] * NORMAL, force[:, 1:] @ AXES], axis=1)
    for function in (rbd.inverse_dynamics, rbd.forward_dynamics):
        found, expected = (
            function(flat_tree(), q, v, tau, force),
            function(space_tree(), q, v, tau, whole),
        )
        assert_close(found, expected, 1e-12)
    one = rbd.inverse_dynamics(flat_tree(), q, v, tau, {"b3": force[3]})
    assert_close(one, rbd.inverse_dynamics(space_tree(), q, v, tau, {"b3": whole[3]}), 1e-12)
    with pytest.raises(ValueError, match=r"a wrench \[n; f_x; f_y\] in a plane has shape \(3,\)"):
        rbd.inverse_dynamics(flat_tree(), q, v, tau, {"b3": whole[3]})


def test_what_the_plane_does_not_know_has_no_effect():
    """Bodies that are thicker, offset, or have other products of inertia have the same planar model and the same motion."""
    thin = mechanism([-1, 0, 0], [hinge, slide, back], spread=0.0)
    thick = mechanism([-1, 0, 0], [hinge, slide, back], spread=3.0)
    flat, other = in_plane(thin), in_plane(thick)
    for part in ("gravity", "placements", "inertias"):
        for a, b in zip(*(jax.tree.leaves(getattr(one, part)) for one in (flat, other)), strict=True):
            assert_close(a, b, 1e-14, part)
    x = one_sample(thin)
    assert_close(rbd.forward_dynamics(thin, *x), rbd.forward_dynamics(thick, *x), 1e-13)
    assert np.abs(np.asarray(thin.inertias.rotational) - np.asarray(thick.inertias.rotational)).max() > 1


def test_potential_energies_differ_by_a_constant():
    """Gravity along the normal does no work."""
    models = flat_tree(), space_tree()
    both = jax.jit(jax.vmap(lambda q: [rbd.potential_energy(model, q) for model in models]))
    found, expected = jax.device_get(both(samples(space_tree())[0]))
    assert_close(found - found[0], expected - expected[0], 1e-12)


def test_forward_undoes_inverse():
    model = flat_tree()

    def back_and_forth(q, v, a):
        return rbd.forward_dynamics(model, q, v, rbd.inverse_dynamics(model, q, v, a))

    x = samples(space_tree())
    assert_close(jax.jit(jax.vmap(back_and_forth))(*x), x[2], 1e-11)


@functools.cache
def accelerations_of_an_arm():
    """Returns functions for batched accelerations of states `(q, v, tau)`, and for their derivatives by rows and by
    columns.
    """
    arm = in_plane(mechanism([-1, 0, 1], [hinge, slide, back]))

    def accelerations(x):
        return rbd.forward_dynamics(arm, *jnp.split(x, 3))

    slopes = jax.jit(lambda x: (jax.jacrev(accelerations)(x), jax.jacfwd(accelerations)(x)))
    return jax.jit(jax.vmap(accelerations)), slopes


@SLOW
@pytest.mark.parametrize("angle", [0.0, np.pi])
def test_derivatives_at_singular_angles(angle):
    """Derivatives by q, v and tau agree with differences, for stretched and folded arms."""
    zero = np.array([0.3, -0.2, 0.5])
    state = np.concatenate([np.full(3, angle), zero, -zero])
    accelerations, slopes = accelerations_of_an_arm()
    by_rows, by_columns = slopes(state)
    assert_close(by_rows, differences(accelerations, state[None])[0], 1e-7)
    assert_close(by_columns, by_rows, 1e-12)


@SLOW
@pytest.mark.parametrize("make", [space_tree, space_others], ids=["tree", "others"])
def test_derivatives_are_the_spatial_ones(make):
    """Derivatives by q, v, a, whose closed form has a part for each algebra."""
    model = make()
    x = one_sample(model)
    both = in_plane(model), model
    slopes = [jax.jacfwd(lambda *x, one=one: rbd.inverse_dynamics(one, *x), (0, 1, 2)) for one in both]
    found, expected = jax.jit(lambda *x: [slope(*x) for slope in slopes])(*x)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, 1e-12)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(rbd.inverse_dynamics_derivatives, marks=SLOW),
        pytest.param(rbd.forward_dynamics_derivatives, marks=SLOW),
        lambda model, q, v, x: rbd.hybrid_dynamics(model, q, v, x, -x, ["b0", "b3"]),
    ],
    ids=["of inverse dynamics", "of forward dynamics", "hybrid dynamics"],
)
def test_derivative_matrices_and_hybrid_dynamics(function):
    x = one_sample(space_tree())
    for a, b in zip(function(flat_tree(), *x), function(space_tree(), *x), strict=True):
        assert_close(a, b, 1e-11)


@SLOW
def test_derivatives_by_the_numbers_of_the_model():
    """Gradients by all parameters of a planar model, and through `planar` by those of the spatial one."""
    model = mechanism([-1, 0], [hinge, slide])
    q, v, tau = one_sample(model)
    energy = lambda model: jnp.sum(rbd.forward_dynamics(model, q, v, tau))
    of_space = jax.grad(energy)(model)
    through = jax.grad(lambda model: energy(rbd.planar(model, AXES)))(model)
    assert_close(through.inertias.mass, of_space.inertias.mass, 1e-12)
    assert_close(through.gravity, AXES.T @ AXES @ of_space.gravity, 1e-12)
    assert_close(through.armature, of_space.armature, 1e-12)
    flat = in_plane(model)
    own = jax.grad(energy)(flat)
    for where in (lambda m: m.inertias.mass, lambda m: m.inertias.rotational, lambda m: m.gravity):
        batched = jax.vmap(lambda x, where=where: energy(eqx.tree_at(where, flat, x)))
        assert_close(where(own), differences(batched, where(flat)[None])[0], 1e-7)


@SLOW
def test_single_precision():
    x = [part.astype(np.float32) for part in samples(space_tree())]
    flat = rbd.astype(flat_tree(), jnp.float32)
    found, expected = (
        jax.jit(jax.vmap(all_of(flat)))(*x),
        jax.jit(jax.vmap(all_of(space_tree())))(*samples(space_tree())),
    )
    assert all(value.dtype == jnp.float32 for value in found.values())
    each_close(found, expected, 2e-4)


SCHEMES = {
    "semi-implicit Euler": rbd.SemiImplicitEuler(),
    "Runge-Kutta": rbd.RungeKutta4(),
    "implicit midpoint": rbd.ImplicitMidpoint(),
    "variational midpoint": rbd.VariationalMidpoint(),
    "linearly implicit Euler": rbd.LinearlyImplicitEuler(),
}


@SLOW
@pytest.mark.parametrize("scheme", SCHEMES)
def test_rollouts_are_the_spatial_ones(scheme):
    """Rollouts with dry friction and springs at the joints."""
    model = mechanism([-1, 0, 0, -1], [hinge, slide, back, free])
    model = replace(model, stiffness=jnp.full(model.nv, 2.0), friction=jnp.full(model.nv, 0.1))
    state = rbd.State(*jax.device_put(one_sample(model)[:2]))
    ends = []
    for one in (in_plane(model), model):
        trajectory = rbd.rollout(one, state, steps=20, dt=0.01, scheme=SCHEMES[scheme])
        assert int(trajectory.code) == 0
        ends.append(jnp.concatenate([trajectory.q[-1], trajectory.v[-1]]))
    assert_close(*ends, 1e-11)


@SLOW
def test_energy_is_kept():
    model = replace(flat_tree(), damping=jnp.zeros(flat_tree().nv))
    state = rbd.State(*jax.device_put(one_sample(model)[:2]))
    trajectory = rbd.rollout(model, state, steps=50, dt=1e-3, scheme=rbd.RungeKutta4())
    energy = jax.vmap(lambda q, v: rbd.mechanical_energy(model, q, v))(trajectory.q, trajectory.v)
    assert_close(energy, np.full(energy.shape, energy[0]), 1e-8)


@SLOW
def test_gradient_of_a_rollout():
    model = in_plane(mechanism([-1, 0], [hinge, slide]))
    state = rbd.State(jnp.array([0.3, 0.1]), jnp.array([-0.5, 0.2]))

    def reach(tau):
        trajectory = rbd.rollout(model, state, jnp.tile(tau, (8, 1)), dt=0.02, scheme=rbd.RungeKutta4())
        return rbd.forward_kinematics(model, trajectory.q[-1]).position[-1, 0]

    tau = jnp.array([0.4, -0.3])
    assert_close(jax.grad(reach)(tau), differences(jax.vmap(reach), tau[None], 1e-4)[0], 1e-8)


# Detection of planes, and rejected models.


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        pytest.param("double_pendulum", [[1, 0, 0], [0, 0, 1]], marks=SLOW),
        pytest.param("cartpole", [[1, 0, 0], [0, 0, 1]], marks=SLOW),
        ("reacher", [[1, 0, 0], [0, 1, 0]]),
    ],
)
def test_planes_are_found(name, axes):
    """For a coordinate plane of the world the axes are those of the world, with y upwards."""
    model = rbd.load(name)
    flat = rbd.planar(model)
    assert_close(flat.gravity, np.array(axes) @ np.asarray(model.gravity), 1e-15)
    assert flat.actuators and not flat.sensors or name == "double_pendulum"
    state = rbd.State(*jax.device_put((np.array([0.3, 0.5]), np.array([0.2, -0.4]))))
    controls = rbd.Controls(jax.device_put(np.full((5, model.nu), 0.3))) if model.nu else None
    ends = [rbd.rollout(one, state, controls, steps=5, dt=0.01).q[-1] for one in (flat, model)]
    assert_close(*ends, 1e-13)


def test_a_tilted_plane_is_found():
    """The axes are taken from the first hinge, with y upwards; the dynamics do not depend on them."""
    flat = rbd.planar(space_tree())
    q, v, tau = one_sample(space_tree())
    assert_close(rbd.forward_dynamics(flat, q, v, tau), rbd.forward_dynamics(flat_tree(), q, v, tau), 1e-12)
    lower = rbd.planar(mechanism([-1, 0], [slide, slide], gravity=tuple(-AXES[0])))
    assert_close(np.linalg.norm(lower.gravity), 1.0, 1e-14)


def test_the_drawing_says_planar():
    assert str(flat_tree()).startswith(f"{space_tree().name}: planar, 8 bodies")
    assert "Prismatic" in str(flat_tree())


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
    with pytest.raises(
        rbd.ModelError, match="is planar and supports attachments along joints only, not the site"
    ):
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
    with pytest.raises(rbd.ModelError, match="do not determine in which plane it moves; give the axes"):
        rbd.planar(mechanism([-1], [slide], gravity=(0.0, 0.0, 0.0)))


def test_numbers_that_no_body_has_are_told():
    flat = rbd.planar(rbd.load("double_pendulum"))
    rbd.check(flat)
    wrong = replace(
        flat, inertias=planar.Inertia(*(flat.inertias.mass, flat.inertias.first_moment, jnp.zeros(2)))
    )
    with pytest.warns(rbd.ModelWarning, match="'upper': the rotational inertia has the negative moment"):
        rbd.check(wrong)
