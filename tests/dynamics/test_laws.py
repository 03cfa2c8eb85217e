"""Laws of mechanics that relate the algorithms to each other, without reference numbers.

Driven joints satisfy all laws except energy balances, which `test_driven.py` has. `cases.py` computes the quantities,
once for each model.
"""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import (
    BY_DIFFERENCES,
    FRAMES,
    POINT,
    POINTED,
    TIME,
    TIMES,
    apply,
    assert_close,
    compiled,
    rate_of,
    transpose,
)

import rbd_jax as rbd
from rbd_jax.dynamics import lagrangian_gradients
from rbd_jax.spatial import classical_acceleration


SLOW = pytest.mark.slow


# The three recursions and the mass matrix.


def test_forward_dynamics_inverts_inverse_dynamics(case):
    """Book eqs. 1.2 and 1.3, 3.3 and 3.4."""
    assert_close(case.seen["acceleration"], case.states.a)


@SLOW
def test_inverse_dynamics_inverts_forward_dynamics(case):
    assert_close(case.seen["back and forth"], case.states.a)


def test_inverse_dynamics_is_linear_in_the_acceleration(case):
    """`ID = M a + bias`. Book eqs. 3.1, 6.1 and 6.2."""
    seen = case.seen
    assert_close(apply(seen["mass matrix"], case.states.a) + seen["bias, external"], seen["tau"])


def test_mass_matrix_is_symmetric_and_positive_definite(case):
    mass = case.seen["mass matrix"]
    np.testing.assert_allclose(mass, transpose(mass), rtol=0, atol=1e-14 * np.abs(mass).max())
    assert np.linalg.eigvalsh(mass).min() > 0


def test_solve_mass_matrix_inverts_the_mass_matrix(case):
    solved = case.seen["solved"]
    assert_close(solved, np.broadcast_to(np.eye(case.model.nv), solved.shape))


@SLOW
def test_solve_mass_matrix_takes_one_column_too(case):
    assert_close(case.seen["solved, one"], case.seen["solved"][..., 0])


def kinetic_hessian(model, q, v):
    return jax.hessian(rbd.kinetic_energy, 2)(model, q, v)


def test_mass_matrix_is_the_hessian_of_the_kinetic_energy(case):
    """`M = ∂²T/∂v²`."""
    states = case.states
    assert_close(compiled(kinetic_hessian)(case.model, states.q, states.v), case.seen["mass matrix"])


def test_kinetic_energy_is_the_form_of_the_mass_matrix(scleronomic):
    """`T = ½ vᵀ M v` (book eq. 3.2)."""
    v = scleronomic.states.v
    energy = 0.5 * np.einsum("ni,nij,nj->n", v, scleronomic.seen["mass matrix"], v)
    assert_close(energy, scleronomic.motion["now"]["kinetic energy"])


# Lagrange's equations.


def lagrange(model, q, v, a):
    """Returns `d/dt ∂L/∂ẋ - ∂L/∂x` in the chart `x -> q ⊕ x` around the configuration.

    A chart has holonomic coordinates for all joints, so that Lagrange's equations hold unchanged. At x = 0 its velocity
    is v and its acceleration `v̇`, since `t -> q ⊕ t v` has the constant velocity v (or the joint's coordinates).
    """

    def lagrangian(x, rate, time):
        now = rbd.at_time(model, TIME + time) if model.topology.rheonomic else model
        here = rbd.integrate(model, q, x)

        def ahead(step):
            return rbd.difference(model, here, rbd.integrate(model, q, x + step * rate))

        velocity = jax.jvp(ahead, (jnp.zeros(()),), (jnp.ones(()),))[1]
        return rbd.kinetic_energy(now, here, velocity) - rbd.potential_energy(now, here)

    def slopes(time):
        return jax.grad(lagrangian, (0, 1))(time * v + time**2 / 2 * a, v + time * a, time)

    along_x, momenta = jax.vmap(slopes)(TIMES)
    return rate_of(momenta) - along_x[0]


@SLOW
def test_inverse_dynamics_is_lagranges_equation(case):
    """`tau = d/dt ∂L/∂ẋ - ∂L/∂x` for every joint, with every c_J, every Ṡ and explicit dependence on time.

    Book eqs. 3.40, 3.41.
    """
    states = case.states
    expected = compiled(lagrange)(case.model, states.q, states.v, states.a)
    assert_close(apply(case.seen["mass matrix"], states.a) + case.seen["bias"], expected, BY_DIFFERENCES)


@pytest.mark.slow
def test_joints_along_splines_obey_lagranges_equation(cases):
    case = cases("track")
    q, v, a = case.states.q, case.states.v, case.states.a
    tau = compiled(rbd.inverse_dynamics)(case.model, q, v, a)
    assert_close(tau, compiled(lagrange)(case.model, q, v, a), BY_DIFFERENCES)
    assert_close(compiled(rbd.forward_dynamics)(case.model, q, v, tau), a)


def slopes_by_recursion_and_of_the_energies(model, q, v):
    """Returns `∂L/∂q` and `∂L/∂v`; `∂T/∂q` and `∂T/∂v`; `∂V/∂q`."""
    model = rbd.at_time(model, TIME) if model.topology.rheonomic else model

    def energies(x, v):
        here = rbd.integrate(model, q, x)
        return rbd.kinetic_energy(model, here, v), rbd.potential_energy(model, here)

    _, pull = jax.vjp(energies, jnp.zeros_like(v), v)
    one, zero = jnp.ones(()), jnp.zeros(())
    return lagrangian_gradients(model, q, v), pull((one, zero)), pull((zero, one))[0]


@cache
def energy_slopes(case):
    return compiled(slopes_by_recursion_and_of_the_energies)(case.model, case.states.q, case.states.v)


def test_gradients_of_the_lagrangian(case):
    """`∂L/∂q` along ⊕ and `∂L/∂v`, for every joint, including mimic and driven joints."""
    (along_q, along_v), (kinetic, momenta), potential = energy_slopes(case)
    assert_close(along_q, kinetic - potential)
    assert_close(along_v, momenta)


def test_gravity_force_is_the_gradient_of_the_potential_energy(case):
    """The gradient is on the tangent space of configurations. Book eq. 5.12."""
    assert_close(case.seen["gravity"], energy_slopes(case)[2])


def test_gravity_force_is_the_bias_force_at_rest(scleronomic):
    still = scleronomic.algorithms(scleronomic.model, v=np.zeros_like(scleronomic.states.v))
    assert_close(still["bias"], scleronomic.seen["gravity"])


def test_coriolis_matrix_gives_the_velocity_product_forces(scleronomic):
    """`C v = bias - g`."""
    seen = scleronomic.seen
    assert_close(apply(seen["coriolis"], scleronomic.states.v), seen["bias"] - seen["gravity"])


def test_coriolis_matrix_keeps_the_rate_of_the_mass_matrix(case):
    """`C + Cᵀ = Ṁ`, so that `Ṁ - 2 C` is antisymmetric."""
    coriolis = case.seen["coriolis"]
    assert_close(coriolis + transpose(coriolis), case.motion["rate"]["mass matrix"], BY_DIFFERENCES)


def christoffel(model, q, v):
    """`C_ij = Σ_k ½ (∂M_ij/∂q_k + ∂M_ik/∂q_j - ∂M_jk/∂q_i) v_k`."""
    slope = jax.jacfwd(lambda q: rbd.mass_matrix(model, q))(q)
    symbols = (slope + jnp.swapaxes(slope, 1, 2) - jnp.transpose(slope, (2, 0, 1))) / 2
    return jnp.einsum("ijk,k->ij", symbols, v)


def coriolis_both_ways(model, q, v):
    return rbd.coriolis_matrix(model, q, v), christoffel(model, q, v)


def test_coriolis_matrix_is_christoffels_for_revolute_joints(cases):
    """Book eq. 5.6."""
    case = cases("chain")
    assert_close(*compiled(coriolis_both_ways)(case.model, case.states.q, case.states.v))


# Energy and momentum.


def body_powers(case):
    """Returns the power of the external forces, summed over the bodies."""
    return np.einsum("nbi,nbi->n", case.states.f_ext, case.motion["now"]["velocities, world"])


def test_energy_changes_by_the_power_of_what_acts(scleronomic):
    """`d/dt (T + V) = vᵀ tau + Σ f · v` along any motion."""
    rate = scleronomic.motion["rate"]
    power = np.sum(scleronomic.states.v * scleronomic.seen["tau"], axis=1) + body_powers(scleronomic)
    assert_close(rate["kinetic energy"] + rate["potential energy"], power, BY_DIFFERENCES)


@pytest.mark.parametrize("pulled", [False, True], ids=["alone", "pulled"])
def test_momentum_of_a_floating_tree_changes_by_the_external_forces(cases, pulled):
    """`ḣ = Σ f + weight`: internal forces do not change the momentum (book ex. 9.3)."""
    case = cases("floating")
    gravity = np.asarray(case.model.gravity) if pulled else np.zeros(3)
    model = replace(case.model, gravity=jax.device_put(gravity))
    f_ext = case.states.f_ext if pulled else np.zeros_like(case.states.f_ext)
    inner = case.states.a.copy()
    inner[:, :6] = 0
    acceleration = compiled(rbd.forward_dynamics)(model, case.states.q, case.states.v, inner, f_ext)
    motion = case.moving(model, acceleration, groups=[("center", "momentum")])
    weight = float(np.sum(model.inertias.mass)) * gravity
    moment = np.cross(motion["now"]["center"], weight)
    expected = np.sum(f_ext, axis=1) + np.concatenate([moment, np.broadcast_to(weight, moment.shape)], axis=1)
    assert_close(motion["rate"]["momentum"], expected, BY_DIFFERENCES)
    assert np.abs(motion["now"]["momentum"]).max() > 1


def test_centroidal_matrix_gives_the_momentum_about_the_centre_of_mass(case):
    """`A v = h_C`, apart from the motion of driven joints."""
    now, still = case.motion["now"], case.still
    momentum = now["momentum"] - still["momentum"]
    momentum[:, :3] -= np.cross(now["center"], momentum[:, 3:])
    assert_close(apply(now["centroidal matrix"], case.states.v), momentum)


def test_linear_momentum_is_mass_times_the_velocity_of_the_centre_of_mass(case):
    now, rate = case.motion["now"], case.motion["rate"]
    grounded = case.model.topology.carriers < 0
    mass = float(np.sum(np.asarray(case.model.inertias.mass)[~grounded]))
    assert_close(mass * rate["center"], now["momentum"][:, 3:], BY_DIFFERENCES)
    own = case.still["momentum"][:, 3:] / mass
    assert_close(apply(now["center jacobian"], case.states.v) + own, rate["center"], BY_DIFFERENCES)


# Velocities, accelerations and Jacobians.


def rigid_twist(frames, rates):
    """Returns `[ω; ṗ]` of moving frames in world axes, from the rate of their matrices."""
    spin = rates[..., :3, :3] @ transpose(frames[..., :3, :3])
    angular = np.stack([spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]], axis=-1)
    return np.concatenate([angular, rates[..., :3, 3]], axis=-1)


def moved(twist, by):
    """Returns a motion vector at another point: `v - by × ω`."""
    return np.concatenate([twist[..., :3], twist[..., 3:] - np.cross(by, twist[..., :3])], axis=-1)


def turned(rotation, twist):
    return np.concatenate([apply(rotation, twist[..., :3]), apply(rotation, twist[..., 3:])], axis=-1)


def test_velocities_are_the_rates_of_the_frames(case):
    """Book eqs. 2.45 and 4.4; Sueda eqs. 1.8 and 1.9."""
    now, frames = case.motion["now"], case.motion["now"]["frames"]
    twist = rigid_twist(frames, case.motion["rate"]["frames"])
    if case.model.name in POINTED:
        assert_close(now["velocities, world_aligned"], twist, BY_DIFFERENCES)
    assert_close(now["velocities, world"], moved(twist, -frames[..., :3, 3]), BY_DIFFERENCES)
    assert_close(now["velocities, body"], turned(transpose(frames[..., :3, :3]), twist), BY_DIFFERENCES)


@pytest.mark.parametrize("frame", ["world", "body"])
def test_jacobian_gives_the_velocity(case, frame):
    """Apart from the motion of driven joints. Book eqs. 2.18, 4.6 and 5.3."""
    now, still = case.motion["now"], case.still
    velocity = now[f"velocities, {frame}"][:, -1] - still[f"velocities, {frame}"][:, -1]
    assert_close(apply(now[f"jacobian, {frame}"], case.states.v), velocity)


# The default run tests each frame once, with or without a point.
@pytest.mark.parametrize("frame", [*(pytest.param(frame, marks=SLOW) for frame in FRAMES[:2]), FRAMES[2]])
def test_jacobian_at_a_point_gives_the_velocity_of_the_point(pointed, frame):
    """Book eq. 2.1."""
    now, still = pointed.motion["now"], pointed.still
    at_body = now["velocities, body"][:, -1] - still["velocities, body"][:, -1]
    at_point = moved(at_body, POINT)
    if frame != "body":
        at_point = turned(now["frames"][:, -1, :3, :3], at_point)
    assert_close(apply(now[f"jacobian, {frame}, point"], pointed.states.v), at_point)


@pytest.mark.parametrize("frame", ["world", "body"])
def test_jacobian_derivative_is_the_rate_of_the_jacobian(case, frame):
    """Sueda eqs. 2.15 to 2.17: J̇ agrees with differences."""
    expected = case.motion["rate"][f"jacobian, {frame}"]
    assert_close(case.seen[f"jacobian rate, {frame}"], expected, BY_DIFFERENCES)


@pytest.mark.parametrize(
    "frame",
    [
        *(pytest.param(frame, marks=SLOW) for frame in ("world_aligned", "world, point", "body, point")),
        "world_aligned, point",
    ],
)
def test_jacobian_derivative_at_a_point_is_the_rate_of_the_jacobian(pointed, frame):
    expected = pointed.motion["rate"][f"jacobian, {frame}"]
    assert_close(pointed.seen[f"jacobian rate, {frame}"], expected, BY_DIFFERENCES)


@pytest.mark.parametrize("frame", ["world", "body"])
def test_accelerations_are_the_rates_of_the_velocities(case, frame):
    """Also in body coordinates, since `v × v = 0` (book eq. 2.43)."""
    expected = case.motion["rate"][f"velocities, {frame}"]
    assert_close(case.seen[f"accelerations, {frame}"], expected, BY_DIFFERENCES)


def test_classical_acceleration_is_that_of_the_bodys_origin(pointed):
    """`[ω̇; r̈]` (book eq. 2.50)."""
    velocity = pointed.motion["now"]["velocities, world_aligned"]
    classical = jax.jit(classical_acceleration)(velocity, pointed.seen["accelerations, world_aligned"])
    assert_close(classical, pointed.motion["rate"]["velocities, world_aligned"], BY_DIFFERENCES)


@pytest.mark.parametrize("frame", ["world", "body"])
def test_acceleration_is_of_jacobian_and_its_rate(scleronomic, frame):
    """`a = J q̈ + J̇ q̇`. Book eqs. 2.57 and 5.5."""
    jacobian = scleronomic.motion["now"][f"jacobian, {frame}"]
    rate = scleronomic.seen[f"jacobian rate, {frame}"]
    expected = apply(jacobian, scleronomic.states.a) + apply(rate, scleronomic.states.v)
    assert_close(scleronomic.seen[f"accelerations, {frame}"][:, -1], expected)


# External forces.


@cache
def body_jacobians(bodies):
    return compiled(lambda model, q: jnp.stack([rbd.jacobian(model, q, body) for body in bodies]))


#: In `forest`: a body welded to the world, one welded to a moving body, and one of each tree.
SOME = ("post", "a flange", "a right", "b left")


@pytest.mark.parametrize(
    "name, names",
    [
        pytest.param("forest", SOME, id="forest"),
        pytest.param("forest", None, id="forest, all", marks=SLOW),
        pytest.param("coupled", None, id="coupled", marks=SLOW),
    ],
)
def test_external_forces_act_through_the_jacobians(cases, name, names):
    """`bias(f) = bias - Σ Jᵀ f`, also for bodies welded to others and to the world."""
    case = cases(name)
    bodies = tuple(case.model.body_index(name) for name in names or case.model.body_names)
    f_ext = np.zeros_like(case.states.f_ext)
    f_ext[:, bodies] = case.states.f_ext[:, bodies]
    acting = np.einsum("nbij,nbi->nj", body_jacobians(bodies)(case.model, case.states.q), f_ext[:, bodies])
    pushed = case.algorithms(case.model, f_ext=f_ext)
    assert_close(pushed["bias, external"], case.seen["bias"] - acting)


def bias_by_name(model, q, v, f_ext):
    named = {name: f_ext[model.body_index(name)] for name in ("post", "b left", "a flange")}
    return rbd.bias_force(model, q, v, named)


def test_external_forces_by_name_are_those_by_row(cases):
    case = cases("forest")
    rows = [case.model.body_index(name) for name in ("post", "b left", "a flange")]
    some = np.zeros_like(case.states.f_ext)
    some[:, rows] = case.states.f_ext[:, rows]
    expected = case.algorithms(case.model, f_ext=some)["bias, external"]
    states = case.states
    assert_close(compiled(bias_by_name)(case.model, states.q, states.v, states.f_ext), expected)


def test_a_force_on_what_is_welded_to_the_world_does_nothing(cases):
    case = cases("forest")
    post = np.zeros_like(case.states.f_ext)
    post[:, 0] = case.states.f_ext[:, 0]
    seen = case.algorithms(case.model, f_ext=post)
    np.testing.assert_array_equal(seen["bias, external"], seen["bias"])
