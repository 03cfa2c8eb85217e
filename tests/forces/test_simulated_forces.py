"""Forces over time: conserved and dissipated energy, conserved momentum."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from acting import BOX, ROD

import rbd_jax as rbd
from rbd_jax import forces


pytestmark = pytest.mark.slow


def model():
    """Returns two floating bodies, one with a limb, in free space."""
    builder = rbd.ModelBuilder((0.0, 0.0, 0.0), "free space")
    builder.add_body("trunk", joint=rbd.joints.Free(), inertia=BOX)
    below = rbd.Transform.from_xyz_rpy((0.0, 0.0, -0.5))
    builder.add_body("limb", "trunk", rbd.joints.Revolute((1.0, 0.0, 0.0)), below, ROD, lower=-0.3, upper=0.4)
    builder.add_body("stone", joint=rbd.joints.Free(), inertia=BOX)
    return builder.build()


MODEL = model()
CONSERVATIVE = forces.Together(
    forces.PointToPoint(("limb", "stone"), [[0.0, 0.1, -1.0], [0.2, 0.0, 0.0]], 8.0),
    forces.SpringDamper(("trunk", "stone"), [[0.3, 0.1, 0.0], [0.0, 0.2, 0.3]], 0.7, 20.0),
    forces.Muscle(
        ("trunk", "limb", "stone"), [[0.2, 0.3, 0.0], [0.0, 0.0, -0.5], [0.1, 0.0, 0.0]], 20.0, 0.8, 0.2
    ),
    forces.Cable(
        ("trunk", "limb", "stone"), [[0.0, 0.3, 0.0], [0.1, 0.0, -0.7], [0.0, 0.0, 0.2]], 1.2, 30.0, 0.0, 0.2
    ),
    forces.JointLimit(60.0, 0.0, 0.2),
)


def damped(together):
    """Returns the same forces with dampers."""
    wanted = [1, 3, 4]
    return eqx.tree_at(
        lambda t: [t.forces[i].damping_constant for i in wanted],
        together,
        [np.asarray(x) for x in (1.0, 2.0, 1.0)],
    )


@pytest.fixture(scope="module")
def simulated():
    @jax.jit
    def run(force, state):
        path = rbd.rollout(
            MODEL, state, dt=0.001, steps=2000, save_every=40, scheme=rbd.RungeKutta4(), forces=(force,)
        )

        def seen(q, v):
            stored = force.energy(MODEL, q)
            return stored, rbd.kinetic_energy(MODEL, q, v), rbd.momentum(MODEL, q, v)

        return path, jax.vmap(seen)(path.q, path.v)

    start = jnp.zeros(MODEL.nv).at[-3:].set(jnp.array([1.0, 0.2, -0.3]))
    q = rbd.integrate(MODEL, rbd.neutral(MODEL), start)
    v = jnp.asarray(np.random.default_rng(2).normal(size=MODEL.nv))
    return {
        name: run(f, rbd.State(q, v)) for name, f in (("kept", CONSERVATIVE), ("lost", damped(CONSERVATIVE)))
    }


def test_energy_is_kept(simulated):
    _, (stored, kinetic, _) = simulated["kept"]
    total = np.asarray(stored + kinetic)
    assert np.ptp(stored) > 1.0  # energy is exchanged
    np.testing.assert_allclose(total, total[0], rtol=1e-6)


def test_energy_is_lost_to_dampers(simulated):
    _, (stored, kinetic, _) = simulated["lost"]
    total = np.asarray(stored + kinetic)
    assert (np.diff(total) < 1e-6).all() and total[-1] < 0.9 * total[0]


def test_momentum_is_kept(simulated):
    """Momentum about the world's origin is conserved also with dampers, because all forces act along lines between bodies."""
    for path, (_, _, momentum) in simulated.values():
        assert np.abs(np.diff(path.v, axis=0)).max() > 0.1
        np.testing.assert_allclose(momentum, np.broadcast_to(momentum[0], momentum.shape), atol=5e-6)
