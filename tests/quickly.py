"""How tests compile. It imports nothing, since XLA's flags are read with the first array."""

#: What is compiled here runs a few times: to compile it as for use would take six times as long for nothing.
QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_disable_hlo_passes=constant_folding"
)
