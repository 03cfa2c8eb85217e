"""How tests compile. It does not import JAX, since XLA's flags are read with the first array."""

from importlib.metadata import version


#: What XLA knows no more, from which version of jaxlib on: it ends a process that has a flag that it does not know.
GONE = {"xla_cpu_use_fusion_emitters": (0, 11, 1)}


def known(flag: str) -> bool:
    """Whether the XLA that is installed has a flag."""
    installed = tuple(int(part) for part in version("jaxlib").split(".")[:3])
    return installed < GONE.get(flag, (999,))


_QUICKLY = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": "true",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_parallel_codegen_split_count": "1",
    "xla_disable_hlo_passes": "constant_folding",
}

#: What is compiled here runs a few times: to compile it as for use would take six times as long for nothing.
QUICKLY = " ".join(f"--{flag}={value}" for flag, value in _QUICKLY.items() if known(flag))
