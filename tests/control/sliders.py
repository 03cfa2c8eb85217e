"""Two stacked sliding masses: a linear system whose problems are quadratic programs that SciPy solves."""

import dataclasses
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

import rbd_jax as rbd


C = rbd.control
INF = np.inf
STEPS, DT, MASSES = 12, 0.1, np.array([1.0, 2.0])
OPEN = ((-INF, -INF), (INF, INF))


def sliders():
    """Returns the model."""
    builder = rbd.ModelBuilder(gravity=(0, 0, 0), name="sliders")
    on = "world"
    for name, axis, mass in (("a", (1, 0, 0), MASSES[0]), ("b", (0, 1, 0), MASSES[1])):
        inertia = rbd.Inertia.from_mass_com(mass, (0, 0, 0), np.eye(3))
        builder.add_body(name, parent=on, joint=rbd.joints.Prismatic(axis), inertia=inertia)
        on = name
    return builder.build()


def sum_of(t, state, control):
    return state.q[0] + state.q[1]


def posed():
    """Returns a problem with two final goals and a sum of positions that can be bounded, compiled once for all tests."""
    goal = C.Posture(np.array([0.3, 0.2]))
    wide = (np.array(side) for side in OPEN)
    return C.Problem(
        sliders(),
        rbd.State(jax.device_put(np.zeros(2)), jax.device_put(np.zeros(2))),
        steps=STEPS,
        dt=DT,
        running=[C.Effort(), 0.1 * C.Posture()],
        constraints=[
            C.Constraint(goal, at="end"),
            C.Constraint(goal, at="end"),
            C.Constraint(sum_of, lower=np.array(-INF), upper=np.array(INF), at=[4, 8]),
        ],
        bounds=C.Bounds(control=OPEN, q=OPEN, v=tuple(wide)),
    )


def changed(problem, *, goal=(0.3, 0.2), other=None, total=(-INF, INF), **bounds):
    """Returns the same problem with other parameters."""
    first, second, third = problem.constraints
    at = lambda x: C.Posture(jnp.asarray(x, float))
    pairs = {name: tuple(jnp.asarray(side, float) for side in pair) for name, pair in bounds.items()}
    return dataclasses.replace(
        problem,
        constraints=(
            dataclasses.replace(first, residual=at(goal)),
            dataclasses.replace(second, residual=at(goal if other is None else other)),
            dataclasses.replace(
                third, lower=jnp.asarray(total[0], float), upper=jnp.asarray(total[1], float)
            ),
        ),
        bounds=dataclasses.replace(problem.bounds, **pairs),
    )


def motion_of(u, start=(0.0, 0.0)):
    """Returns positions and velocities at all knots, by semi-implicit Euler steps."""
    mass = np.array([MASSES.sum(), MASSES[1]])
    v = np.concatenate([np.zeros((1, 2)), np.cumsum(DT * u / mass, axis=0)])
    q = np.concatenate([np.zeros((1, 2)), np.cumsum(DT * v[1:], axis=0)]) + np.array(start)
    return q, v


def reference(goal=(0.3, 0.2), total=(-INF, INF), control=OPEN, q=OPEN, v=OPEN):
    """Returns the optimal controls by SciPy's sequential quadratic programming."""

    units = np.eye(2 * STEPS).reshape(-1, STEPS, 2)
    positions = np.array([motion_of(u)[0][:-1].ravel() for u in units])

    def cost(flat):
        """Returns the cost and its derivative. Finite differences are not accurate enough."""
        at = positions.T @ flat
        return DT * 0.5 * (flat @ flat + 0.1 * (at @ at)), DT * (flat + 0.1 * (positions @ at))

    def linear(fun):
        """Returns the derivative of a linear function."""
        zero = np.ravel(fun(np.zeros(2 * STEPS)))
        rows = np.array([np.ravel(fun(u.ravel())) - zero for u in units]).T
        return lambda flat: rows

    # A mass that cannot move is already at its goal, and its row would be zero.
    moves = np.array(control[0]) < np.array(control[1])
    missed = lambda flat: (motion_of(flat.reshape(STEPS, 2))[0][-1] - np.array(goal))[moves]
    held = [{"type": "eq", "fun": missed}]
    sides = [(total, lambda q, v: q[[4, 8]].sum(axis=1)), (q, lambda q, v: q[1:]), (v, lambda q, v: v[1:])]
    for (pair, values), (which, sign) in product(sides, ((0, 1), (1, -1))):
        bound = np.array(pair[which])
        if np.isfinite(bound).any():
            held.append(
                {
                    "type": "ineq",
                    "fun": lambda flat, values=values, bound=bound, sign=sign: np.ravel(
                        np.where(
                            np.isfinite(bound),
                            sign * (values(*motion_of(flat.reshape(STEPS, 2))) - np.nan_to_num(bound)),
                            1,
                        )
                    ),
                }
            )
    held = [constraint | {"jac": linear(constraint["fun"])} for constraint in held]
    limits = list(zip(np.tile(control[0], STEPS), np.tile(control[1], STEPS), strict=True))
    found = scipy.optimize.minimize(
        cost,
        np.zeros(2 * STEPS),
        method="SLSQP",
        jac=True,
        bounds=limits,
        constraints=held,
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success, found.message
    return found.x.reshape(STEPS, 2), found.fun


#: Active bounds of each kind.
BOUNDED = {
    "nothing": {},
    "controls": dict(control=((-2.0, -1.0), (1.2, 1.0))),
    "speeds": dict(v=((-0.1, -INF), (0.35, 0.25))),
    "positions": dict(q=((-INF, 0.0), (0.3, INF)), control=((-1.5, -1.5), (1.5, 1.5))),
    "on the way": dict(total=(0.4, INF)),
    "one value": dict(total=(0.1, 0.1)),
    "none of one control": dict(control=((-INF, 0.0), (INF, 0.0)), goal=(0.3, 0.0)),
}

#: Contradictory constraints.
IMPOSSIBLE = {
    "out of reach": dict(goal=(9.0, 0.0), control=((-1.0, -1.0), (1.0, 1.0))),
    "two goals": dict(other=(0.5, 0.2)),
    "bounds that exclude a constraint": dict(total=(2.0, 3.0), q=((-INF, -INF), (0.5, 0.5))),
    "a goal out of bounds": dict(q=((-INF, -INF), (0.2, INF))),
}
