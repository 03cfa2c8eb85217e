"""Compiler flags of the tests. Does not import JAX, because XLA reads its flags with the first array."""

from importlib.metadata import version


#: Flags that XLA has removed, by jaxlib version. XLA aborts the process on unknown flags.
GONE = {"xla_cpu_use_fusion_emitters": (0, 11, 1)}


def known(flag: str) -> bool:
    """Returns whether the installed XLA has a flag."""
    installed = tuple(int(part) for part in version("jaxlib").split(".")[:3])
    return installed < GONE.get(flag, (999,))


_QUICKLY = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": "true",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_parallel_codegen_split_count": "1",
    "xla_disable_hlo_passes": "constant_folding",
}

#: Tests run compiled code only a few times: full optimization would take six times as long.
QUICKLY = " ".join(f"--{flag}={value}" for flag, value in _QUICKLY.items() if known(flag))
