"""Result codes of solvers."""

import enum


class Code(enum.IntEnum):
    """The result of a solver. Every code except zero is a failure, and the returned values are not a solution.

    >>> print([code.name for code in rbd.control.Code])
    ['CONVERGED', 'NOT_CONVERGED', 'NOT_FINITE', 'STALLED', 'INFEASIBLE', 'UNBOUNDED']
    """

    #: The optimality conditions hold to the tolerance. `SOLVED` is an alias.
    CONVERGED = 0
    SOLVED = 0
    #: The solver reached its maximum number of iterations.
    NOT_CONVERGED = 1
    #: An iterate is not finite. In optimal control, the first trajectory or its cost is not finite.
    NOT_FINITE = 2
    #: The line search found no improvement, and the conditions do not hold.
    STALLED = 3
    #: The constraints contradict each other, or a goal is out of reach.
    INFEASIBLE = 4
    #: The objective has no lower bound.
    UNBOUNDED = 5
