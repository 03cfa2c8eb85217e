"""Solvers that know nothing of mechanics, and derivatives of what they find.

- `outcome.py`: how a solver ended, one `Code` for all
- `newton.py`: a few equations, by Newton's method
- `quadratic_program.py`: a dense convex quadratic program, by an interior-point method
- `conic.py`, `cones.py`: quadratic problems over second-order cones, and over numbers as the cones of dimension one
- `bounded.py`: a quadratic within bounds
- `implicit.py`: derivatives of a solution from its equation, and what reverse mode stores of a search
"""

__all__ = []
