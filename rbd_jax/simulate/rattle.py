"""RATTLE on the manifold, the Störmer–Verlet scheme of mechanics on Lie groups (Hante & Arnold 2021)."""

from ._variational import Variational


class Rattle(Variational):
    """`L_d = h/2 (L(q0, ξ/h) + L(q1, ξ/h))`, forces half at either end: second order, symplectic for every model.

    Where the mass matrix is constant, as in coordinates of bodies that loops hold together, it is RATTLE: a kick, a drift along
    ⊕ and a kick, with the loops closed in positions and in velocities.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.Rattle())
    >>> print(path.q[-1], int(path.code))
    [-0.499] 0
    """

    def missing(self, system, time, start, end, dt, momentum):
        v = start.v
        by_q0, by_v0 = system.lagrangian_gradients(time, start.q, v)
        by_v1 = system.momentum(time + dt, end.q, v)
        kicked = momentum + dt / 2 * (by_q0 + system.force(time, start))
        return (by_v0 + by_v1) / 2 - system.chart_velocity_transposed(end.q, -dt * v, kicked)

    def end_momentum(self, system, time, start, end, dt):
        v = start.v
        by_v0 = system.momentum(time, start.q, v)
        by_q1, by_v1 = system.lagrangian_gradients(time + dt, end.q, v)
        carried = system.chart_rate_transposed(start.q, dt * v, (by_v0 + by_v1) / 2)
        return carried + dt / 2 * (by_q1 + system.force(time + dt, end))

    def own_rate(self, system, time, start, end, dt):
        return (system.own_rate(time, start) + system.own_rate(time + dt, end)) / 2
