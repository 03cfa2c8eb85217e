"""How a step can fail: the codes that a trajectory carries, and what they mean.

A compiled loop cannot raise an exception. A scheme that cannot complete a step reports a code instead, and from that step on
the states are NaN. Doubts, that constraints have opened or something about contacts, leave the states as they are, and are
reported where no step failed.
"""

from __future__ import annotations

import enum


class Result(enum.IntEnum):
    """How a step ended. A trajectory keeps the first failure, or else the first doubt.

    The first three are those of `optimize.outcome.Code`.

    >>> result = rbd.Result(7)
    >>> print(result.name, "-", result.title)
    SINGULAR - singular
    """

    SUCCESS = 0
    NOT_CONVERGED = 1
    NOT_FINITE = 2
    STEP_TOO_SMALL = 3
    TOO_MANY_STEPS = 4
    CONSTRAINTS_OPEN = 5
    DIVERGED = 6
    SINGULAR = 7
    CONTACTS_LOST = 8
    OVERLAPPING = 9
    CONTACTS_UNSOLVED = 10
    TOO_MANY_EVENTS = 11
    STEP_NOT_POSITIVE = 12

    @property
    def title(self) -> str:
        """In few words."""
        return self.name.lower().replace("_", " ")

    @property
    def message(self) -> str:
        """What happened, and what helps."""
        return _MESSAGES[self]


_MESSAGES = {
    Result.SUCCESS: "every step was completed",
    Result.NOT_CONVERGED: "Newton's iteration found no solution of an implicit step; take shorter steps",
    Result.NOT_FINITE: "a state (or an event's number) is not finite: the motion diverged (take shorter steps), or something "
    "that acts is not a number",
    Result.STEP_TOO_SMALL: "the tolerance asks for steps too short to change the time; relax it, or look for a force that jumps",
    Result.TOO_MANY_STEPS: "the tolerance asks for more steps than max_steps between two rows; raise max_steps or relax it",
    Result.CONSTRAINTS_OPEN: "constraints are open by more than constraint_tolerance: broken at the start, drifting (see "
    "stabilization), or contradicting each other",
    Result.DIVERGED: "a speed is beyond that of light: the motion diverged; take shorter steps, and see that nothing overlaps at "
    "the start and that constraints do not open before (Trajectory.opening)",
    Result.SINGULAR: "the mass matrix is singular: a degree of freedom moves no inertia, as at the gimbal lock of Euler angles "
    "or between two hinges on one axis with a massless body; give it armature or mass, or take other joints",
    Result.CONTACTS_LOST: "more contacts acted at once than the contact law takes, so that some were left out; raise its `most`",
    Result.OVERLAPPING: "at the start shapes overlapped by more than a quarter of the radius of the smaller one, so that the "
    "direction in which they part is a guess; rbd.contacts(model, q).distance says by how much, and "
    "rbd.contact.separated(model, q) is a configuration near by in which nothing overlaps",
    Result.TOO_MANY_EVENTS: "more events happened within a step than the scheme looks for, as of a ball that bounces ever less; "
    "take shorter steps, or raise its `events` or the `rest_speed` of rbd.contact.Hard",
    Result.STEP_NOT_POSITIVE: "dt is zero or negative; take a positive dt",
    Result.CONTACTS_UNSOLVED: "the search for the forces of contact ended without them; take shorter steps, or float64",
}
