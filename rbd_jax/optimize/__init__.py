"""Numerical solvers without mechanics, and derivatives of their solutions.

- `outcome.py`: `Code`, how a solver ended
- `newton.py`: Newton's method for small systems of equations
- `quadratic_program.py`: dense convex quadratic programs by an interior-point method
- `conic.py`, `cones.py`: quadratic programs over second-order cones
- `bounded.py`: quadratics with bounds
- `implicit.py`: implicit differentiation, and checkpointing of searches in reverse mode
"""

__all__ = []
