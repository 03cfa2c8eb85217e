"""What is compiled for."""

import jax


def platform() -> str:
    """The platform that what is traced at the moment is for, `"cpu"` for instance: that of `jax.default_device`, or JAX's own.

    Where both forms of something are right and one is faster, it says which to trace. To trace both and choose when they are
    lowered would take twice the time.
    """
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def is_cpu() -> bool:
    return platform() == "cpu"
