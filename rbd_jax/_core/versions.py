"""JAX names that differ between versions, from 0.9 on."""

try:
    from jax.extend.core import get_opaque_trace_state as get_opaque_trace_state
except ImportError:  # before 0.10
    from jax.core import get_opaque_trace_state as get_opaque_trace_state

from jax._src.interpreters.batching import BatchTracer as BatchTracer
from jax.interpreters.partial_eval import DynamicJaxprTracer as DynamicJaxprTracer


#: The trace state when nothing is being traced.
NOTHING_TRACED = get_opaque_trace_state()
