"""Result codes of steps, and their messages.

A compiled loop cannot raise an exception. A scheme that cannot complete a step returns a code instead, and from that step on
the states are NaN. Warnings about open constraints or contacts leave the states unchanged, and are reported if no step failed.
"""

from __future__ import annotations

import enum


class Result(enum.IntEnum):
    """The result code of a step. A trajectory stores the first failure, or else the first warning.

    The first three codes equal those of `optimize.outcome.Code`.

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
        """A short title."""
        return self.name.lower().replace("_", " ")

    @property
    def message(self) -> str:
        """The cause and the remedy."""
        return _MESSAGES[self]


_MESSAGES = {
    Result.SUCCESS: "every step was completed",
    Result.NOT_CONVERGED: "Newton's iteration found no solution of an implicit step; take shorter steps",
    Result.NOT_FINITE: "a state (or the value of an event function) is not finite: the motion diverged (take shorter steps), or "
    "a force is not finite",
    Result.STEP_TOO_SMALL: "the tolerance requires steps too short to change the time; relax it, or check for a discontinuous "
    "force",
    Result.TOO_MANY_STEPS: "the tolerance requires more than max_steps steps between two rows; raise max_steps or relax it",
    Result.CONSTRAINTS_OPEN: "constraints are open by more than constraint_tolerance: they are violated at the start, drift (see "
    "stabilization), or contradict each other",
    Result.DIVERGED: "a speed exceeds the speed of light: the motion diverged; take shorter steps, and check that no shapes "
    "overlap at the start and that constraints do not open before (Trajectory.opening)",
    Result.SINGULAR: "the mass matrix is singular: a degree of freedom moves no inertia, as at the gimbal lock of Euler angles "
    "or between two hinges on one axis with a massless body; add armature or mass, or use other joints",
    Result.CONTACTS_LOST: "more contacts were active at once than the contact model supports, so some were ignored; raise its "
    "`most`",
    Result.OVERLAPPING: "at the start shapes overlapped by more than a quarter of the radius of the smaller one, so the "
    "direction of separation is a guess; rbd.contacts(model, q).distance is the depth, and "
    "rbd.contact.separated(model, q) returns a nearby configuration without overlaps",
    Result.TOO_MANY_EVENTS: "more events happened within a step than the scheme searches for, as for a ball with ever shorter "
    "bounces; take shorter steps, or raise its `events` or the `rest_speed` of rbd.contact.Hard",
    Result.STEP_NOT_POSITIVE: "dt is zero or negative; take a positive dt",
    Result.CONTACTS_UNSOLVED: "the contact solver did not converge; take shorter steps, or use float64",
}
