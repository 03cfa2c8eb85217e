"""Machine code of processors, by LLVM."""
