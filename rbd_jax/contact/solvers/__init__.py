"""Problems of contact as matrices and vectors, knowing no model.

Each is solved for one sample, says by a `Code` how that went, may begin with a guess, and is differentiable by its data.

- `solve_qp`: a convex quadratic program
- `solve_lcp`: a linear complementarity problem with a positive semidefinite matrix
- `lemke`: one with any matrix, exactly, by pivots
- `solve_cone`: contact forces within cones of friction
- `solve_pyramid`: the same within pyramids
- `staggered_projections`: forces and friction in turns, until neither changes
- `solve_soft`: soft constraints as one problem in the acceleration
- `Code`: how it went
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
