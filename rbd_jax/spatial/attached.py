"""Attachments of a model: constraints, force elements, and everything else with frames on bodies or effects at joints.

An attachment names bodies (each with a frame on it) and joints, and its parameters are leaves. It may have a name, and may
refer to other attachments by name, as a sensor refers to its site. It holds no model. The model carries it, and every edit of
the model (names, frames of bodies, welds, locked joints, precision) changes it only through the methods below.
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
    """A reference to another attachment of the same model, by its role and its name.

    >>> print(rbd.spatial.Reference("sites", "tool"))
    Reference(role='sites', name='tool')
    """

    role: str
    name: str


class Attached(eqx.Module):
    """Something fixed to bodies of a model by frames, or acting along the coordinates of its joints.

    - `bodies`: The names of the bodies, or "world".
    - `frames`: A frame on each of these bodies, in the frame of the body: (k,).
    - `joints`: The names of the joints.
    - `name`: Its name within its role; empty without a name.
    - `refers`: The attachments that it refers to by name.
    - `cuts`: Bodies that stay separate when welds are fused, because something is measured between them and the body that they
      are welded to. Each is a body, `Reference("body", name)`, or the body of another attachment.

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

    #: The role under which a model lists it: `model.attached_as(role)`.
    role: ClassVar[str]

    #: If True, each of the joints must have one degree of freedom.
    scalar_joints: ClassVar[bool] = True

    #: If True, a model has at most one attachment in this role, and it applies to the entire model.
    single: ClassVar[bool] = False

    #: If True, the attachment depends explicitly on time.
    rheonomic: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The type and the name, or without a name the bodies and joints."""
        named = (self.name,) if self.name else (*self.bodies, *self.joints)
        return f"{type(self).__name__}({', '.join(map(repr, named))})"

    def at_time(self: A, time: Float[Array, ""]) -> A:
        """Returns the attachment at this time; unchanged unless it is `rheonomic`."""
        return self

    def bound(self: A, bodies: Sequence[str], joints: Sequence[str]) -> A:
        """Returns it with "all" replaced by the names of the model's bodies, or of its joints with coordinates."""
        return self

    def fault(self, carriers: Sequence[int]) -> str | None:
        """Returns why it is invalid on these bodies, or None; `carriers` are the indices of the moving bodies, -1 the world."""
        return None

    def joint_fault(self, joint: str, nq: int, nv: int) -> str | None:
        """Returns why it is invalid on one of its joints, with `nq` coordinates and `nv` degrees of freedom, or None."""
        if not self.scalar_joints or (nq, nv) == (1, 1):
            return None
        return (
            f"joint {joint!r} has {nv} degrees of freedom; its coordinate can be taken only where there is one. Attach to the "
            "bodies instead, as a LoopJoint is"
        )

    def doubt(self, loop: Callable[[], list]) -> str | None:
        """Returns why it is probably a mistake, or None.

        `loop()` lists the joints of the tree between its two bodies. Each joint comes with the rotation of its successor frame
        in the first of the frames, in the configuration in which the model is described.
        """
        return None

    def attached(self: A, bodies: Sequence[str], frames: Transform, joints: Sequence[str]) -> A:
        """Returns the same attachment on other bodies and joints, or with other frames on them."""
        return self.changed(bodies=tuple(bodies), frames=frames, joints=tuple(joints))

    def called(self: A, name: str, refers: Sequence[Reference]) -> A:
        """Returns the same attachment with another name and other references."""
        if tuple(refers) != self.refers:
            raise ModelError(
                f"{type(self).__name__} refers to other attachments and must implement `called` to change these references"
            )
        return self if name == self.name else self.changed(name=name)

    def without(self: A, gone: Collection[Reference]) -> A | None:
        """Returns the attachment without the removed references; None (the default) if it needs them."""
        return None

    def locked(self: A, joints: Sequence[str]) -> A | None:
        """Returns the attachment when these of its joints are locked; None if it has no effect any more.

        The default raises an error, because a force on a coordinate is meaningless without the coordinate.
        """
        raise ModelError(
            f"{self.label}: joint {joints[0]!r} has 0 degrees of freedom once it is locked, and no coordinate to act on; "
            "take this off the model first"
        )

    def changed(self: A, **fields) -> A:
        """Returns the same attachment with other values in some fields."""
        return changed(self, **fields)


def no_frames() -> Transform:
    """Returns an empty batch of frames, for attachments on no body: (0,).

    >>> print(rbd.spatial.no_frames().position.shape)
    (0, 3)
    """
    return Transform(zeros((0, 3, 3)), zeros((0, 3)))
