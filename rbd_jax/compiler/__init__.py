"""A function of one sample compiled for whole batches, as machine code of a processor or as a kernel of a GPU.

It knows nothing of rigid bodies. `README.md` beside this file shows how a program goes through it.

- `each`: a function of each row of arrays, which a kernel computes row by row
- `mapped`: a function of each sample of a batch, as one operation of JAX: a kernel where that is possible and worth it
- `Mapped`: that function
- `single`: a function as one operation that `jax.vmap` turns into such a function
- `in_lanes`: `jax.lax.map` over groups of samples, for functions that cannot be kernels
- `ScalarProgram`: a function with some of its numbers known, without the arithmetic that they spare
- `count_operations`: what a function computes
- `Operations`: how many operations that are
- `kernels_in`: what is made of each mapped function within another, and why
- `Explanation`: that
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
