"""The classical Runge–Kutta scheme on the configuration manifold, after Munthe-Kaas.

In a vector space it is the classical scheme, on other manifolds the scheme of Munthe-Kaas (often called RKMK4).
"""

from ._explicit import MuntheKaas


class RungeKutta4(MuntheKaas):
    """Fourth order, four evaluations.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.RungeKutta4())
    >>> energy = jax.vmap(lambda q, v: rbd.mechanical_energy(model, q, v))(path.q, path.v)
    >>> print(path.q[-1], f"{jnp.ptp(energy):.0e}")
    [-0.499] 2e-09
    """

    stages = (((1 / 2,),), ((0, 1 / 2),), ((0, 0, 1),))
    end = ((1 / 6, 1 / 3, 1 / 3, 1 / 6),)
