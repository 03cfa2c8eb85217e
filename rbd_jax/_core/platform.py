"""The platform that programs are traced for."""

import jax


def platform() -> str:
    """Platform of `jax.default_device` if it is set, else JAX's default backend: `"cpu"` or `"gpu"`, for instance.

    Functions with a faster form per platform choose it while they are traced, because tracing all forms, as
    `jax.lax.platform_dependent` does, would double the time. Exports for other platforms therefore contain the form of this one.
    """
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def is_cpu() -> bool:
    """Whether `platform` is the CPU."""
    return platform() == "cpu"
