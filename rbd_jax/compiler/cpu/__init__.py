"""Machine code for CPUs, compiled by LLVM."""
