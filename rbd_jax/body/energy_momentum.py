"""The energy-momentum scheme for directors (Gebhardt & Romero 2020, §5, eqs. 86-110).

With `Orthonormal` directors it is the basic scheme (eq. 86), which conserves the kinetic energy and the spatial angular
momentum. With `NonTwisting` directors it is the specialized scheme (eq. 92), which conserves the energy and the momenta Π₁ and
Π₂ in the body's axes. The paper proves the latter up to O(h²) (eqs. 99-108); it holds to rounding, for every `a`.
"""

from ._director_scheme import DirectorScheme
from .directors import DirectorState, director_momenta


class DirectorEnergyMomentum(DirectorScheme):
    """Second order, implicit; without a moment it conserves the energy and the momenta exactly.

    The constraint forces act on the mean directors: both Jacobians are linear in the directors, so their average
    along the step (eqs. 89, 93) is their value at the midpoint.

    >>> top, free = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0]))), rbd.body.Orthonormal()
    >>> scheme = rbd.body.DirectorEnergyMomentum()
    >>> path = rbd.body.simulate(
    ...     top, jnp.eye(3), jnp.array([0.1, 1.0, 0.1]), dt=0.1, steps=50, constraints=free, scheme=scheme
    ... )
    >>> momentum = jax.vmap(rbd.body.director_angular_momentum)(path.state)
    >>> print(momentum[0], jnp.abs(momentum - momentum[:1]).max() < 1e-9)
    [0.1 2.  0.3] True
    """

    def step(self, body, constraints, moment, time, state, dt):
        end, code, iterations = self._next_frame(
            body, constraints, moment, time, state, dt, lambda start, middle: middle
        )
        rates = 2 / dt * (end - state.frame) - state.rates
        return DirectorState(end, rates, director_momenta(body, rates)), code, iterations
