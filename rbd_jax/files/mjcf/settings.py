"""Reads the simulation settings and the custom numbers and texts of an MJCF file."""

from __future__ import annotations

import numpy as np

from ...model import Settings
from .compiled import disabled_effects


def settings_of(mujoco, compiled, unsupported: list[str]) -> Settings:
    """Returns the settings of a compiled model; `unsupported` lists the elements without effect."""
    custom: dict[str, str | np.ndarray] = {}
    for i in range(compiled.nnumeric):
        start, size = compiled.numeric_adr[i], compiled.numeric_size[i]
        custom[compiled.numeric(i).name] = np.array(compiled.numeric_data[start : start + size])
    for i in range(compiled.ntext):
        start, size = compiled.text_adr[i], compiled.text_size[i]
        name = compiled.names[compiled.name_textadr[i] :].split(b"\0", 1)[0].decode()
        custom[name] = compiled.text_data[start : start + size - 1].decode(errors="replace")
    integrator = mujoco.mjtIntegrator(compiled.opt.integrator).name.removeprefix("mjINT_")
    off = disabled_effects(mujoco, compiled)
    switched_off = [effect.lower() for effect in ("CONTACT", "CONSTRAINT") if effect in off]
    return Settings(float(compiled.opt.timestep), integrator.lower(), custom, unsupported, switched_off)
