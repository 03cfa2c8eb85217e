"""What is attached to a model: constraints, force elements, and whatever else has frames on bodies or acts at joints.

An attached thing names bodies (each with a frame on it) and joints, and has numbers that are leaves. It may have a name of its
own, and refer to others by theirs: a sensor to its site. It knows no model: that carries it along, and every edit of a model
(names, frames of bodies, welds, locked joints, precision) moves it by the methods below and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import equinox as eqx
from jaxtyping import Array, Float

from .._core.array import zeros
from .._core.errors import ModelError
from .._core.module import changed
from .transform import Transform


A = TypeVar("A", bound="Attached")


class Reference(NamedTuple):
    """Something else that is attached to the same model, by its role and its name there.

    >>> print(rbd.spatial.Reference("sites", "tool"))
    Reference(role='sites', name='tool')
    """

    role: str
    name: str


class Attached(eqx.Module):
    """Something fixed to bodies of a model by frames, or acting along the coordinates of its joints.

    - `bodies`: the names of the bodies, or "world".
    - `frames`: a frame on each of them, in the frame of the body: (k,).
    - `joints`: the names of the joints.
    - `name`: what it is called among those of its role; empty where it has no name.
    - `refers`: the other things that it means by name.
    - `cuts`: the bodies that stay apart from what they are welded to when welds are fused, since something is measured in
      between: they themselves, `Reference("body", name)`, or those that other things are on.

    >>> model = rbd.load("arm7")
    >>> tool = rbd.Site("tool", "link7", (0.0, 0.0, 0.1))
    >>> print(isinstance(tool, rbd.Attached), tool.bodies, tool.frames.position)
    True ('link7',) [[0.  0.  0.1]]
    """

    if TYPE_CHECKING:  # fields of some, properties of others
        bodies: tuple[str, ...]
        frames: Transform
        joints: tuple[str, ...]
        name: str
        refers: tuple[Reference, ...]
        cuts: tuple[Reference, ...]
    else:
        name = ""
        refers = ()
        cuts = ()

    #: What a model lists it under: `model.attached_as(role)`.
    role: ClassVar[str]

    #: Whether each of the joints must have one degree of freedom.
    scalar_joints: ClassVar[bool] = True

    #: Whether a model has one at most in this role: a law that holds for all of it.
    single: ClassVar[bool] = False

    #: Whether it changes by itself as time passes.
    rheonomic: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The family and its name, or else what it is attached to."""
        named = (self.name,) if self.name else (*self.bodies, *self.joints)
        return f"{type(self).__name__}({', '.join(map(repr, named))})"

    def at_time(self: A, time: Float[Array, ""]) -> A:
        """As it is at that time; itself unless it is `rheonomic`."""
        return self

    def bound(self: A, bodies: Sequence[str], joints: Sequence[str]) -> A:
        """With whatever stood for "all" spelled out: the bodies of a model, and its joints that have coordinates."""
        return self

    def fault(self, carriers: Sequence[int]) -> str | None:
        """Why it makes no sense on these bodies, or None; `carriers` are the moving bodies they are part of, -1 the world."""
        return None

    def joint_fault(self, joint: str, nq: int, nv: int) -> str | None:
        """Why it makes no sense on one of its joints, which has so many coordinates and degrees of freedom, or None."""
        if not self.scalar_joints or (nq, nv) == (1, 1):
            return None
        return (
            f"joint {joint!r} has {nv} degrees of freedom; its coordinate can be taken only where there is one. Attach to the "
            "bodies instead, as a LoopJoint is"
        )

    def doubt(self, loop: Callable[[], list]) -> str | None:
        """Why it is probably not what was meant, or None. `loop()` has the joints of the tree between its two bodies, each with
        the rotation of its successor frame in the first of the frames, as the model is described."""
        return None

    def attached(self: A, bodies: Sequence[str], frames: Transform, joints: Sequence[str]) -> A:
        """The same thing on other bodies and joints, or with other frames on them."""
        return self.changed(bodies=tuple(bodies), frames=frames, joints=tuple(joints))

    def called(self: A, name: str, refers: Sequence[Reference]) -> A:
        """The same thing under another name, and where what it refers to has other names."""
        if tuple(refers) != self.refers:
            raise ModelError(
                f"{type(self).__name__} does not say how it refers to others: it implements `called`"
            )
        return self if name == self.name else self.changed(name=name)

    def without(self: A, gone: Collection[Reference]) -> A | None:
        """The same thing where others that it refers to are gone; None, as by default, where nothing of it is left."""
        return None

    def locked(self: A, joints: Sequence[str]) -> A | None:
        """The same thing when these of its joints are locked; None where nothing of it is left.

        By default that is refused: what is on a coordinate means nothing without it.
        """
        raise ModelError(
            f"{self.label}: joint {joints[0]!r} has 0 degrees of freedom once it is locked, and no coordinate to act on; "
            "take this off the model first"
        )

    def changed(self: A, **fields) -> A:
        """The same thing with other values in some fields."""
        return changed(self, **fields)


def no_frames() -> Transform:
    """The frames of what is on no body: (0,).

    >>> print(rbd.spatial.no_frames().position.shape)
    (0, 3)
    """
    return Transform(zeros((0, 3, 3)), zeros((0, 3)))
