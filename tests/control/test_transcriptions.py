"""Multiple shooting and collocation on every kind of system: solutions satisfy the equations of motion."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd


C: Any = rbd.control
STEPS, DT = 10, 0.05
TRANSCRIPTIONS = {
    "shooting": C.Shooting(hessian="gauss-newton"),
    "trapezoid": C.Collocation("trapezoid", hessian="gauss-newton"),
    "hermite-simpson": C.Collocation(hessian="gauss-newton"),
}


def fixed():
    model = rbd.load("double_pendulum")
    return model, rbd.State(jnp.array([0.3, -0.2]), jnp.zeros(2)), jnp.array([0.6, 0.1])


def floating():
    """Returns a free-floating body with a wheel, the only actuated joint."""
    builder = rbd.ModelBuilder(gravity=(0, 0, 0))
    inertia = lambda mass: rbd.Inertia.from_mass_com(mass, (0, 0, 0), 0.1 * mass * np.eye(3))
    builder.add_body("hull", parent="world", joint=rbd.joints.Free(), inertia=inertia(2.0))
    builder.add_body("wheel", parent="hull", joint=rbd.joints.Revolute((0, 0.6, 0.8)), inertia=inertia(1.0))
    model = builder.build()
    q = jnp.concatenate([rbd.neutral(model)[:3], jnp.array([0.8, 0.0, 0.6, 0.0, 0.0])])
    v = jnp.array([0.3, -0.2, 0.5, 0.1, 0.0, 0.2, 0.0])
    return model, rbd.State(q, v), rbd.integrate(model, q, 0.3 * v)


def reduced():
    tree = rbd.load("double_pendulum")
    model = rbd.ReducedModel(tree, lambda y: jnp.concatenate([y, 0.3 - 0.5 * y]), 1)
    return model, rbd.State(jnp.array([0.3]), jnp.zeros(1)), jnp.array([0.5])


def remembering():
    """Returns a pendulum whose motor effort follows its command with a first-order filter."""
    pendulum = rbd.load("pendulum")
    motor = rbd.actuators.Motor("motor", pendulum.joint_names[0], dynamics=rbd.actuators.Filter(0.1))
    model = rbd.attach(pendulum, motor)
    return model, rbd.State(jnp.array([0.2]), jnp.zeros(1), jnp.array([0.4])), jnp.array([0.4])


SYSTEMS = {"fixed": fixed, "floating": floating, "reduced": reduced, "remembering": remembering}


def problem_of(system, **options):
    model, state, goal = SYSTEMS[system]()
    return C.Problem(
        model,
        state,
        steps=STEPS,
        dt=DT,
        running=[C.Effort(), 0.1 * C.Velocity()],
        terminal=[100.0 * C.Posture(goal)],
        bounds=C.Bounds(control=(-20.0, 20.0)),
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("way", TRANSCRIPTIONS)
def test_what_is_found_is_a_motion(way, system):
    """Shooting returns the steps of its scheme.

    Collocation returns a motion that a fine simulation under its controls follows.
    """
    problem = problem_of(system)
    solution = C.solve(problem, TRANSCRIPTIONS[way])
    assert C.Code(int(solution.code)) == C.Code.CONVERGED
    told = (lambda u: rbd.Controls(u)) if problem.told_actuators else (lambda u: u)
    given = lambda control: told(jax.vmap(problem.told)(control).tau) if problem.actuation else told(control)
    if way == "shooting":
        path = rbd.rollout(problem.model, problem.state, given(solution.control), dt=DT)
        assert_close(path.q, solution.q, 1e-7)
        return
    # Cost and constraints match the quadrature rule. Optimality is not reported, because the controls alone do not lead
    # there.
    found = C.appraise(problem, solution)
    np.testing.assert_allclose(sum(one.value for one in found.costs), solution.cost, rtol=1e-12)
    assert found.missed < 1e-6 and found.broken(1e-6) == () and found.optimality is None
    assert C.explain(problem, solution).startswith("converged: ") and "\n" not in C.explain(problem, solution)
    with pytest.raises(ValueError, match="control.optimality: solution is a collocation"):
        C.optimality(problem, solution)
    fine = 50
    nodes, order = np.asarray(solution.control_nodes), 3 if way == "hermite-simpson" else 2
    at = (np.arange(STEPS * fine) + 0.5) / fine
    control = np.empty((len(at), nodes.shape[1]))
    for k in range(STEPS):
        piece = nodes[(order - 1) * k : (order - 1) * (k + 1) + 1]
        inside = slice(k * fine, (k + 1) * fine)
        for column in range(nodes.shape[1]):
            fit = np.polynomial.Polynomial.fit(np.linspace(0, 1, order), piece[:, column], order - 1)
            control[inside, column] = fit(at[inside] - k)
    scheme = rbd.RungeKutta4()
    path = rbd.rollout(problem.model, problem.state, given(jnp.asarray(control)), dt=DT / fine, scheme=scheme)
    assert_close(path.q[::fine], solution.q, 2e-3 if way == "trapezoid" else 2e-5)
    assert_close(path.v[::fine], solution.v, 2e-2 if way == "trapezoid" else 2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("way", TRANSCRIPTIONS)
def test_a_free_duration_is_as_long_as_it_should_be(way):
    """A sliding mass with effort bounded by u that is at rest again after a distance d takes 2 √(d m / u)."""
    builder = rbd.ModelBuilder(gravity=(0, 0, 0))
    inertia = rbd.Inertia.from_mass_com(2.0, (0, 0, 0), np.eye(3))
    builder.add_body("cart", parent="world", joint=rbd.joints.Prismatic((1, 0, 0)), inertia=inertia)
    problem = C.Problem(
        builder.build(),
        rbd.State(jnp.zeros(1), jnp.zeros(1)),
        steps=20,
        dt=0.2,
        scheme=rbd.RungeKutta4(),
        duration=(0.5, 20.0),
        duration_cost=1.0,
        bounds=C.Bounds(control=(-4.0, 4.0)),
        constraints=[
            C.Constraint(C.Posture(jnp.array([2.0])), at="end"),
            C.Constraint(C.Velocity(), at="end"),
        ],
    )
    ways = {
        "shooting": C.Shooting(),
        "trapezoid": C.Collocation("trapezoid"),
        "hermite-simpson": C.Collocation(),
    }
    solution = C.solve(problem, ways[way])
    assert solution.code == C.Code.CONVERGED
    # Controls that are linear between knots need a step to reverse. Parabolas are bounded at three points only.
    tolerance = {"shooting": 1e-6, "trapezoid": 1e-2, "hermite-simpson": 1e-2}[way]
    np.testing.assert_allclose(20 * solution.dt, 2.0, rtol=tolerance)
    assert np.abs(np.asarray(solution.control)).max() <= 4.0


def found(way, steps):
    problem = C.Problem(
        rbd.load("pendulum"),
        rbd.State(jnp.array([0.5]), jnp.zeros(1)),
        steps=steps,
        dt=1.6 / steps,
        running=[C.Effort(), C.Posture(jnp.array([1.0]))],
        terminal=[5.0 * C.Velocity()],
    )
    solution = C.solve(problem, TRANSCRIPTIONS[way])
    assert solution.code == C.Code.CONVERGED
    return np.asarray(solution.q)


@pytest.mark.slow
@pytest.mark.parametrize(
    "way, order, tolerance", [("shooting", 1, 2e-2), ("trapezoid", 2, 5e-4), ("hermite-simpson", 4, 1e-7)]
)
def test_errors_fall_with_the_length_of_the_steps(way, order, tolerance):
    """All three converge to the same motion: extrapolation of two time steps removes the leading error."""
    steps = 16
    fine, coarse, finer = (
        found(*one) for one in (("hermite-simpson", 8 * steps), (way, steps), (way, 2 * steps))
    )
    error = lambda q: np.abs(q - fine[:: (len(fine) - 1) // (len(q) - 1)]).max()
    assert 2 ** (order - 0.3) < error(coarse) / error(finer) < 2 ** (order + 0.6)
    rate = 2**order
    assert error((rate * finer[::2] - coarse) / (rate - 1)) < tolerance


def test_what_jumps_cannot_be_collocated():
    builder = rbd.ModelBuilder()
    ball = rbd.shapes.Sphere(0.1)
    builder.add_body("ball", "world", rbd.joints.Prismatic((0, 0, 1)), None, ball.inertia(1000.0))
    floor = rbd.Shape("floor", "world", rbd.shapes.Plane())
    builder.attach(rbd.Shape("ball", "ball", ball), floor, rbd.contact.Hard())
    state = rbd.State(*jax.device_put((np.ones(1), np.zeros(1))))
    problem = C.Problem(builder.build(), state, steps=5, dt=0.1, running=[C.Effort()])
    with pytest.raises(ValueError, match="makes velocities jump, so they have no rate to collocate"):
        C.solve(problem, C.Collocation())
