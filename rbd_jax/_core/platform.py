"""The platform that programs are traced for."""

import jax


def platform() -> str:
    """Returns the platform of `jax.default_device` if it is set, else JAX's default backend, for example `"cpu"` or `"gpu"`.

    Functions with a faster form per platform choose it while they are traced, because tracing all forms, as
    `jax.lax.platform_dependent` does, would double the time. Exports for other platforms therefore contain the form of this one.
    """
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def is_cpu() -> bool:
    """Returns whether `platform` is the CPU."""
    return platform() == "cpu"
