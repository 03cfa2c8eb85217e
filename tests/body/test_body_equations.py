"""The split, director and reduced formulations agree with Euler's equations.

The equations are from Gebhardt & Romero 2020.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from body_cases import BODY, INERTIA

from rbd_jax import body
from rbd_jax._core.errors import ModelError, ModelWarning
from rbd_jax.lie import S2, SO3


VELOCITY, MOMENT = (jnp.asarray(np.array(x)) for x in ([0.7, -1.1, 0.9], [-0.6, 0.2, 1.3]))


@jax.jit
def _frame_and_across(turn, velocity):
    frame = SO3.exp(turn)
    return frame, S2.project(frame[:, 2], velocity)


FRAME, ACROSS = _frame_and_across(jnp.asarray(np.array([0.4, -0.8, 0.3])), VELOCITY)


def test_euler_inertia():
    """Eq. (111) in both directions: `𝒥 = ½ tr(J) I - J` and `J = tr(𝒥) I - 𝒥`."""
    expected = np.array([[3, 1 / 7, 0], [1 / 7, 2, 0], [0, 0, 1]])
    np.testing.assert_allclose(BODY.euler_inertia, expected, atol=1e-15)
    np.testing.assert_allclose(np.trace(expected) * np.eye(3) - expected, INERTIA, atol=1e-15)


@jax.jit
def formulations():
    """Evaluates one motion of the body in every formulation; for directors also without twist."""
    split = body.split_state(BODY, FRAME, VELOCITY)
    directors = body.director_state(BODY, FRAME, VELOCITY)
    straight = body.director_state(BODY, FRAME, ACROSS)
    reduced = body.non_twisting_state(BODY, FRAME, VELOCITY)
    return {
        "split": split,
        "split momentum": body.split_angular_momentum(split),
        "split energy": body.split_energy(BODY, split),
        "split velocity": body.split_velocity(BODY, split),
        "split parts": S2.split(FRAME @ INERTIA @ FRAME.T, FRAME[:, 2], FRAME[:, 2]),
        "directors": directors,
        "director momentum": body.director_angular_momentum(directors),
        "director energy": body.director_energy(BODY, directors.rates),
        "director velocity": body.director_velocity(FRAME, directors.rates),
        "mass": body.director_mass_matrix(BODY),
        "hamiltonian": body.director_hamiltonian(BODY, body.Orthonormal(), directors),
        "hamiltonian across": body.director_hamiltonian(BODY, body.NonTwisting(), directors),
        "energy across": body.director_energy(BODY, straight.rates),
        "reduced velocity": body.non_twisting_velocity(BODY, reduced),
        "reduced energy": body.non_twisting_energy(BODY, reduced),
    }


def test_momenta_and_energies_agree():
    """Eqs. (30), (33)-(40), (54), (61), (65), (88) and (109)."""
    seen = jax.device_get(formulations())
    frame, velocity = np.asarray(FRAME), np.asarray(VELOCITY)
    spatial = frame @ INERTIA @ frame.T
    momentum, energy = spatial @ velocity, velocity @ spatial @ velocity / 2
    d3, split, directors = frame[:, 2], seen["split"], seen["directors"]
    for formulation in ("split", "director"):
        np.testing.assert_allclose(seen[f"{formulation} momentum"], momentum, atol=1e-14)
        np.testing.assert_allclose(seen[f"{formulation} energy"], energy, rtol=1e-14)
        np.testing.assert_allclose(seen[f"{formulation} velocity"], VELOCITY, atol=1e-14)
    np.testing.assert_allclose(seen["hamiltonian"], energy, rtol=1e-14)

    across, along = jax.device_get(jax.jit(lambda: body.split_vector(FRAME[:, 2], VELOCITY))())
    np.testing.assert_allclose(across + along * d3, VELOCITY, atol=1e-15)
    tensor_across, tensor_along = seen["split parts"]
    np.testing.assert_allclose(split.perpendicular, tensor_across @ across, atol=1e-14)
    np.testing.assert_allclose(split.parallel * d3, tensor_along @ (along * d3), atol=1e-14)

    stacked, mass = directors.rates.T.reshape(9), seen["mass"]
    np.testing.assert_allclose(stacked @ mass @ stacked / 2, energy, rtol=1e-14)
    np.testing.assert_allclose((mass @ stacked).reshape(3, 3).T, directors.momenta, atol=1e-14)

    np.testing.assert_allclose(seen["reduced velocity"], ACROSS, atol=1e-15)
    np.testing.assert_allclose(seen["reduced energy"], seen["energy across"], rtol=1e-14)
    np.testing.assert_allclose(seen["hamiltonian across"], seen["energy across"], rtol=1e-14)


def test_split_equations_are_those_of_euler():
    """The sum of both parts is `π̇ = m`, eqs. (53) and (54b).

    Eq. (51a) holds as printed. Eq. (51b) holds with the sign from the paper's proof.
    """

    @jax.jit
    def ask():
        state = body.split_state(BODY, FRAME, VELOCITY)
        rates = body.split_rates(BODY, state, MOMENT)
        return state, rates, S2.project(FRAME[:, 2], rates.perpendicular), S2.project(FRAME[:, 2], MOMENT)

    state, rates, covariant, tangential = jax.device_get(ask())
    frame, velocity, moment = (np.asarray(x) for x in (FRAME, VELOCITY, MOMENT))
    d3, rate = frame[:, 2], np.cross(velocity, frame[:, 2])
    np.testing.assert_allclose(rates.frame, np.cross(velocity[:, None], frame, axis=0), atol=1e-15)
    total = rates.perpendicular + rates.parallel * d3 + state.parallel * rate
    np.testing.assert_allclose(total, MOMENT, atol=1e-14)
    np.testing.assert_allclose(covariant + state.parallel * rate, tangential, atol=1e-14)
    # d/dt (π_⊥·d₃) = 0 keeps the perpendicular part in the moving tangent plane.
    np.testing.assert_allclose(rates.perpendicular @ d3 + state.perpendicular @ rate, 0, atol=1e-14)
    turning = state.perpendicular @ rate
    np.testing.assert_allclose(rates.parallel - turning, moment @ d3, atol=1e-14)
    assert abs(turning) > 0.5  # With the printed sign the error would be 2·turning.


def test_load_on_the_directors_does_the_work_of_the_moment():
    """Eqs. (55) and (68)."""
    load = body.director_load(FRAME, MOMENT)
    work = [np.sum(load * np.cross(turn, FRAME.T).T) for turn in np.eye(3)]
    np.testing.assert_allclose(work, MOMENT, atol=1e-15)


@pytest.mark.parametrize("inertia", [INERTIA, np.diag([1.0, 1, 2])], ids=["of the paper", "flat disc"])
def test_director_accelerations(inertia):
    """Director accelerations agree with Euler's equations, eq. (64).

    Without twist they agree with the reduced equations, eq. (81), for every `a`. The disc has no mass off its plane, so
    that Euler's tensor, the mass of the directors, is singular.
    """
    subject = body.RotatingBody(jnp.asarray(inertia))

    def expected(velocity, acceleration):
        """Returns `D̈ = (Λ Ẇ)× D + w× w× D`."""
        return body.director_rates(FRAME, FRAME @ acceleration) + body.director_rates(
            body.director_rates(FRAME, velocity), velocity
        )

    @jax.jit
    def actual(constraints, velocity):
        rates = body.director_rates(FRAME, velocity)
        return body.director_acceleration(subject, constraints, FRAME, rates, MOMENT)

    W, M = FRAME.T @ VELOCITY, FRAME.T @ MOMENT
    euler = np.linalg.solve(inertia, np.cross(inertia @ W, W) + M)
    np.testing.assert_allclose(actual(body.Orthonormal(), VELOCITY)[0], expected(VELOCITY, euler), atol=5e-14)

    state = body.non_twisting_state(subject, FRAME, VELOCITY)
    rates = body.non_twisting_rates(subject, state, MOMENT)
    reduced = np.linalg.solve(inertia, np.append(rates.momentum, 0))
    reaction = body.twist_reaction(subject, state, MOMENT)
    for a in (0.0, 0.3, 1.0):
        acceleration, multipliers = actual(body.NonTwisting(a), ACROSS)
        np.testing.assert_allclose(acceleration, expected(ACROSS, reduced), atol=5e-14)
        np.testing.assert_allclose(multipliers[6], reaction, atol=5e-14)


def test_non_twisting_equations():
    """Eqs. (71), (73), (78), (79): only the moment changes the momenta, transport is parallel, and `π̇ = m - μ d₃`."""
    state = body.non_twisting_state(BODY, FRAME, VELOCITY)
    rates = body.non_twisting_rates(BODY, state, MOMENT)
    np.testing.assert_allclose(rates.momentum, (FRAME.T @ MOMENT)[:2], atol=1e-15)
    np.testing.assert_allclose(body.twist_rate(FRAME, rates.frame), 0, atol=1e-15)
    change = rates.frame[:, :2] @ state.momentum + FRAME[:, :2] @ rates.momentum
    d3, reaction = FRAME[:, 2], body.twist_reaction(BODY, state, MOMENT)
    np.testing.assert_allclose(S2.project(d3, change), S2.project(d3, MOMENT), atol=1e-14)
    np.testing.assert_allclose(change, MOMENT - reaction * d3, atol=1e-14)
    assert abs(reaction - MOMENT @ d3) > 0.1  # The spatial momentum is not constant.


def test_what_the_printed_equations_of_the_non_twisting_body_do():
    """Case 1 of §6 by eq. (71), in space: (71a) is right as printed, (71b) has the wrong sign of the reaction.

    `∇ π_⊥ = 0` is `π̇_⊥ = -(π_⊥·ḋ₃) d₃`, which transports the momentum as `free_motion` does. Read as `π̇_⊥ = 0` it
    would be the equation of the standard body, and the momentum would leave the tangent plane.

    The reaction is `-μ d₃` with `μ = π_⊥·ḋ₃ = 468/7`. With the printed `μ = -π_⊥·ḋ₃` it drives the twist that it should
    prevent, at twice μ over J₃₃: 26.7 rad/s². The correct reaction does no work. With the printed reaction the energy
    grows by a third in half a second.
    """
    start = body.non_twisting_state(BODY, jnp.eye(3), jnp.array([6.0, -18, 0]))

    def covariant(state):
        """Returns the rates of the frame and of π_⊥ as a spatial vector."""
        frame, momentum = state
        w = frame @ jnp.linalg.solve(INERTIA, frame.T @ momentum)
        d3, rate = frame[:, 2], jnp.cross(w, frame[:, 2])
        return jnp.cross(w[:, None], frame, axis=0), -(momentum @ rate) * d3

    def reacting(sign):
        """Returns Euler's equations with the reaction as a moment."""

        def rate(state):
            frame, momentum = state
            w = frame @ jnp.linalg.solve(INERTIA, frame.T @ momentum)
            d3 = frame[:, 2]
            across = momentum - (momentum @ d3) * d3
            return jnp.cross(w[:, None], frame, axis=0), -sign * (across @ jnp.cross(w, d3)) * d3

        return rate

    def run(rate, steps=500, h=1e-3):
        def advance(state, _):
            moved = lambda k, s: jax.tree.map(lambda x, y: x + s * y, state, k)
            k1 = rate(state)
            k2 = rate(moved(k1, h / 2))
            k3 = rate(moved(k2, h / 2))
            k4 = rate(moved(k3, h))
            mean = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, k1, k2, k3, k4)
            return moved(mean, h), None

        first = (start.frame, start.frame[:, :2] @ start.momentum)
        return jax.lax.scan(advance, first, None, steps)[0]

    @jax.jit
    def ends():
        plain = run(lambda state: (covariant(state)[0], jnp.zeros(3)))
        return run(covariant), plain, run(reacting(1.0)), run(reacting(-1.0)), run(reacting(-1.0), 1)

    transported, plain, right, printed, first = ends()
    exact = body.free_motion(BODY, start, jnp.array(0.5))
    for frame, momentum in (transported, right):
        np.testing.assert_allclose(frame, exact.frame, atol=1e-7)
        np.testing.assert_allclose(momentum, exact.frame[:, :2] @ exact.momentum, atol=1e-5)
    material = [
        np.asarray(frame.T @ momentum) for frame, momentum in (transported, plain, right, printed, first)
    ]
    twists, energies = zip(*((m[2] / 5, m @ np.linalg.solve(INERTIA, m) / 2) for m in material), strict=True)
    np.testing.assert_allclose(energies[::2][:2], 5022 / 7, rtol=1e-7)
    np.testing.assert_allclose(twists[4] / 1e-3, 2 * 468 / 7 / 5, rtol=1e-4)
    np.testing.assert_allclose([twists[0], twists[2]], 0, atol=1e-7)
    assert abs(twists[1]) > 10
    # The work of the printed reaction is half of the twist's energy.
    np.testing.assert_allclose(energies[3] - 5022 / 7, 5 / 4 * twists[3] ** 2, rtol=1e-6)
    np.testing.assert_allclose([twists[3], energies[3]], [14.0987, 965.895], rtol=1e-5)


def test_free_motion():
    """The free motion obeys the equations, its frame does not twist, and its curve is a great circle."""
    state = body.non_twisting_state(BODY, FRAME, VELOCITY)
    path = lambda t: body.free_motion(BODY, state, t)

    @jax.jit
    def along(times):
        frames = jax.vmap(path)(times).frame
        expected = body.non_twisting_rates(BODY, path(times[1]), jnp.zeros(3))
        return jax.jacfwd(path)(times[1]), expected, frames, body.non_twisting_frames(frames[:, :, 2], FRAME)

    rates, expected, frames, without_twist = along(np.linspace(0, 1, 9))
    for a, b in zip(jax.tree.leaves(rates), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)
    np.testing.assert_allclose(without_twist, frames, atol=1e-14)
    d3 = np.asarray(FRAME)[:, 2]
    normal = np.cross(d3, np.cross(np.asarray(ACROSS), d3))
    np.testing.assert_allclose(np.asarray(frames)[:, :, 2] @ normal, 0, atol=1e-14)


def test_unfit_inertias_are_refused():
    for inertia, message in (
        (np.eye(2), r"inertia has shape \(2, 2\)"),
        (np.diag([1.0, 1, -1]), "not positive definite"),
        (np.eye(3) + np.eye(3, k=1), "not symmetric"),
        (np.eye(3) + 0.1 * (np.eye(3, k=2) + np.eye(3, k=-2)), "third axis is not a principal one"),
        (np.diag([1.0, np.nan, 1]), "not finite"),
    ):
        with pytest.raises(ModelError, match=message):
            body.RotatingBody(inertia)


def test_inertias_of_no_real_body_are_reported_once():
    """The constructor warns once. Simulations do not repeat the warning, and traced inertias give none."""
    with pytest.warns(ModelWarning, match="moments 1, 1, 5 break the triangle inequality") as caught:
        subject = body.RotatingBody(np.diag([1.0, 1, 5]))
        body.simulate(subject, *jax.device_put((np.eye(3), np.array([1.0, 0, 0]))), dt=0.1, steps=1)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        body.RotatingBody(np.diag([2.0, 3, 5]))
        jax.eval_shape(body.RotatingBody, jnp.diag(jnp.array([1.0, 1, 5])))
