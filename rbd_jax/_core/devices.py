"""The devices over which batches are split, as set by `parallel.use_devices` or `jax.set_mesh`."""

from __future__ import annotations

from collections.abc import Hashable

import jax


#: A mesh, or None. JAX does not reuse programs compiled for another mesh.
in_use = jax.make_user_context(None)


def set_devices():
    """Returns the mesh that has been set, for `jax.set_mesh` the abstract mesh of the current trace; or None."""
    around = jax.sharding.get_abstract_mesh()
    return in_use.value if around.empty else around


def compiled_for() -> Hashable:
    """Returns a key of the devices for which a program is compiled now."""
    return in_use.value, jax.sharding.get_mesh()
