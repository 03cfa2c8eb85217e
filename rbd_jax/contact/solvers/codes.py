"""How a solver ended."""

import enum


class Code(enum.IntEnum):
    """How a solver ended. Anything but zero is a failure, and what is returned then solves nothing.

    >>> print([code.name for code in rbd.contact.solvers.Code])
    ['SOLVED', 'INFEASIBLE', 'UNBOUNDED', 'NOT_CONVERGED']
    """

    SOLVED = 0
    #: Nothing satisfies all conditions.
    INFEASIBLE = 1
    #: What is to be least falls without end.
    UNBOUNDED = 2
    NOT_CONVERGED = 3
