"""RATTLE on the manifold, the Störmer–Verlet scheme of mechanics on Lie groups (Hante & Arnold 2021)."""

from ._variational import Variational


class Rattle(Variational):
    """`L_d = h/2 (L(q0, ξ/h) + L(q1, ξ/h))`, forces half at either end: second order, symplectic for every model.

    Where the mass matrix is constant, as in coordinates of bodies that loops hold together, it is RATTLE: a kick, a drift along
    ⊕ and a kick, with the loops closed in positions and in velocities.
    """

    def momenta(self, system, time, q0, q1, v, dt):
        step, end = dt * v, time + dt
        by_q0, by_v0 = system.slopes(time, q0, v)
        by_q1, by_v1 = system.slopes(end, q1, v)
        by_rate = (by_v0 + by_v1) / 2
        before = system.chart_rate_transposed(q1, -step, by_rate)
        after = system.chart_rate_transposed(q0, step, by_rate)
        kick0 = dt / 2 * (by_q0 + system.force(time, q0, v))
        kick1 = dt / 2 * (by_q1 + system.force(end, q1, v))
        return before - kick0, after + kick1
