"""How a solver ended."""

import enum


class Code(enum.IntEnum):
    """How a solver ended. Anything but zero is a failure, and what is returned then is no solution.

    >>> print([code.name for code in rbd.control.Code])
    ['CONVERGED', 'NOT_CONVERGED', 'NOT_FINITE', 'STALLED', 'INFEASIBLE', 'UNBOUNDED']
    """

    #: The conditions of a solution hold to the tolerance. `SOLVED` is another name of it.
    CONVERGED = 0
    SOLVED = 0
    #: As many iterations as allowed.
    NOT_CONVERGED = 1
    #: A number on the way is not finite: of an optimal control, the first motion or its cost.
    NOT_FINITE = 2
    #: No step along the direction of search makes it better, and the conditions do not hold.
    STALLED = 3
    #: The constraints contradict each other, or a goal is out of reach: what is violated cannot be made less.
    INFEASIBLE = 4
    #: There is no least value: it goes down without end.
    UNBOUNDED = 5
