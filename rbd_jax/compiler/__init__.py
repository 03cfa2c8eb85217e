"""Compiles a function of one sample for complete batches, as machine code of a CPU or as a GPU kernel.

The package is independent of rigid-body dynamics. Its `README.md` describes the stages of the compiler.

- `each`: applies a function to each row of arrays; a kernel computes the rows separately
- `mapped`: applies a function to each sample of a batch, as one JAX operation, which becomes a kernel where that is worthwhile
- `Mapped`: a function of one sample, the parameter of this operation
- `single`: a function as one operation that `jax.vmap` turns into a `Mapped` function
- `in_lanes`: `jax.lax.map` over groups of samples, for functions that cannot be kernels
- `ScalarProgram`: a function simplified for known arguments
- `count_operations`: counts the operations of a function
- `Operations`: the numbers of operations
- `kernels_in`: explains for each mapped function of a program whether it becomes a kernel
- `Explanation`: one such explanation
- `why_no_kernels`: the reason why kernels are unavailable
"""

__all__ = [
    "each",
    "mapped",
    "Mapped",
    "single",
    "in_lanes",
    "ScalarProgram",
    "count_operations",
    "Operations",
    "kernels_in",
    "Explanation",
    "why_no_kernels",
]

from .cost import Operations as Operations, count_operations as count_operations
from .faults import why_no_kernels as why_no_kernels
from .lanes import in_lanes as in_lanes
from .primitive import (
    Explanation as Explanation,
    Mapped as Mapped,
    each as each,
    kernels_in as kernels_in,
    mapped as mapped,
)
from .scalarize import ScalarProgram as ScalarProgram
from .single import single as single
