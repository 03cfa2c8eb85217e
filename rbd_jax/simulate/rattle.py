"""RATTLE on the manifold, the Störmer–Verlet scheme of mechanics on Lie groups (Hante & Arnold 2021)."""

from ._variational import Variational


class Rattle(Variational):
    """The scheme `L_d = h/2 (L(q0, ξ/h) + L(q1, ξ/h))`: second order, symplectic for every model.

    Half of the forces acts at either end. If the mass matrix is constant, as in coordinates of bodies with loop constraints,
    it is RATTLE: a kick, a drift along ⊕ and a kick, with the loops closed in positions and in velocities.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.Rattle())
    >>> print(path.q[-1], int(path.code))
    [-0.499] 0
    """

    def missing(self, start, end, dt, momentum):
        start, v = start.prepared(), start.v
        by_q0, by_v0 = start.lagrangian_gradients()
        kicked = momentum + dt / 2 * (by_q0 + start.force())
        there = start.system.evaluate(start.time + dt, end)
        by_v1, rate = there.momentum(), (start.own_rate() + there.own_rate()) / 2
        return (by_v0 + by_v1) / 2 - start.system.chart_velocity_transposed(end.q, -dt * v, kicked), rate

    def end_momentum(self, start, end, dt):
        there = start.system.evaluate(start.time + dt, end).prepared()
        by_q1, by_v1 = there.lagrangian_gradients()
        carried = start.system.chart_rate_transposed(start.q, dt * start.v, (start.momentum() + by_v1) / 2)
        return carried + dt / 2 * (by_q1 + there.force())
