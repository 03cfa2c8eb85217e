"""A short check of an installation: simulation, derivatives and batches of a bundled robot."""

import jax
import jax.numpy as jnp

import rbd_jax as rbd


def main() -> None:
    model = rbd.load("quadruped")
    state = rbd.State(model.reference, jnp.zeros(model.nv))
    distance = lambda v: rbd.rollout(model, rbd.State(state.q, v), dt=0.004, steps=5).q[-1, 0]
    value, slope = jax.jit(jax.value_and_grad(distance))(state.v)
    assert jnp.isfinite(value) and jnp.all(jnp.isfinite(slope))
    tau = jnp.ones((64, model.nv))
    accelerations = jax.jit(jax.vmap(lambda tau: rbd.forward_dynamics(model, state.q, state.v, tau)))(tau)
    inverse = rbd.inverse_dynamics(model, state.q, state.v, accelerations[0])
    assert jnp.max(jnp.abs(inverse - tau[0])) < 1e-2, inverse
    print(f"rbd_jax {rbd.__version__} works with JAX {jax.__version__} on {jax.default_backend()}")


if __name__ == "__main__":
    main()
