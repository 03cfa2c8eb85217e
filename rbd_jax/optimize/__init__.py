"""Numerical solvers that are independent of mechanics, and derivatives of their solutions.

- `outcome.py`: `Code`, the result codes of solvers
- `newton.py`: Newton's method for small systems of equations
- `quadratic_program.py`: dense convex quadratic programs by an interior-point method
- `conic.py`, `cones.py`: quadratic programs over second-order cones
- `bounded.py`: quadratic functions with bounds
- `implicit.py`: implicit differentiation, and checkpointing of searches in reverse mode
"""

__all__ = []
