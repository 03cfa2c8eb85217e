"""Solvers for contact problems given as matrices and vectors, independent of models.

Each function solves one sample and is differentiable by the problem data. Most accept an initial guess and return a `Code`.

- `solve_qp`: a convex quadratic program
- `solve_lcp`: a linear complementarity problem with a positive semidefinite matrix
- `lemke`: a linear complementarity problem with any matrix, exactly, by pivoting
- `solve_cone`: contact forces in friction cones
- `solve_pyramid`: contact forces in friction pyramids
- `staggered_projections`: normal and friction impulses, alternately, until neither changes
- `solve_soft`: soft constraints as one problem in the acceleration
- `Code`: the result code of a solver
"""

__all__ = [
    "solve_qp",
    "solve_lcp",
    "lemke",
    "solve_cone",
    "solve_pyramid",
    "staggered_projections",
    "solve_soft",
    "Code",
]

from ...optimize.outcome import Code as Code
from .friction import solve_cone as solve_cone, solve_pyramid as solve_pyramid
from .lcp import lemke as lemke, solve_lcp as solve_lcp
from .qp import solve_qp as solve_qp
from .soft import solve_soft as solve_soft
from .staggered import staggered_projections as staggered_projections
