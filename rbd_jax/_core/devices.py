"""Which devices batches are split over, where that has been set: `parallel.use_devices` sets it, or `jax.set_mesh`."""

from __future__ import annotations

from collections.abc import Hashable

import jax


#: A mesh, or None. What JAX has compiled for one is not taken for another.
in_use = jax.make_user_context(None)


def set_devices():
    """The mesh that has been set: of `jax.set_mesh` the one that programs are traced for; or None."""
    around = jax.sharding.get_abstract_mesh()
    return in_use.value if around.empty else around


def compiled_for() -> Hashable:
    """What a program that is compiled now can be used with."""
    return in_use.value, jax.sharding.get_mesh()
