"""The midpoint variational scheme in generalized coordinates."""

from ._variational import Variational


class VariationalMidpoint(Variational):
    """`L_d = h L(q ⊕ ξ/2, ξ/h)`, forces at the midpoint: second order, symplectic for every model."""

    def momenta(self, system, time, q0, q1, v, dt):
        half, middle = dt / 2 * v, time + dt / 2
        q = system.move(q0, half)
        by_q, by_v = system.slopes(middle, q, v)
        by_q = by_q + system.force(middle, q, v)
        # The midpoint moves with ξ, by half of it, and with the start.
        by_rate = by_v + dt / 2 * system.chart_velocity_transposed(q0, half, by_q)
        before = system.chart_rate_transposed(q1, -2 * half, by_rate)
        after = system.chart_rate_transposed(q0, 2 * half, by_rate)
        return before - dt * system.carried(q, -half, by_q), after
