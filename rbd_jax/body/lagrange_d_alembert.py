"""The discrete Lagrange-d'Alembert scheme for directors (Cortés & Martínez 2001; Gebhardt & Romero 2020, §6.4).

With the discrete Lagrangian `L_d = h L((D₁ - D₀)/h)`, the scheme balances `D₂L_d(D₋, D₀) + D₁L_d(D₀, D₊)` with constraint
forces that act on `D₀` and with half of the load of each step. The nonholonomic constraint holds for the chord, at
the midpoint of the step. With `Orthonormal` directors it is the variational scheme of a holonomic system, SHAKE.
"""

from ._director_scheme import DirectorScheme
from .directors import DirectorState, director_load, director_momenta


class DirectorLagrangeDAlembert(DirectorScheme):
    """Second order, implicit, a two-step formula in its momentum form.

    The rates of a state are those of the chord that ends at it, so `director_energy` is the energy half a step
    earlier. The momenta belong to the state's own time, so `director_hamiltonian` is the energy at that time.

    >>> top, free = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0]))), rbd.body.Orthonormal()
    >>> scheme = rbd.body.DirectorLagrangeDAlembert()
    >>> path = rbd.body.simulate(
    ...     top, jnp.eye(3), jnp.array([0.1, 1.0, 0.1]), dt=0.1, steps=50, constraints=free, scheme=scheme
    ... )
    >>> momentum = jax.vmap(rbd.body.director_angular_momentum)(path.state)
    >>> print(momentum[0], jnp.abs(momentum - momentum[:1]).max() < 1e-9)
    [0.1 2.  0.3] True
    """

    def step(self, body, constraints, moment, time, state, dt):
        end, code, iterations = self._next_frame(
            body, constraints, moment, time, state, dt, lambda start, middle: start
        )
        rates = (end - state.frame) / dt
        middle = (state.frame + end) / 2
        impulse = dt / 2 * director_load(middle, moment(time + dt / 2, middle))
        return DirectorState(end, rates, director_momenta(body, rates) + impulse), code, iterations
