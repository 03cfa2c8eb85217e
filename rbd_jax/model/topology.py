"""The static structure of a model: names, parents of bodies, and the coordinates of each joint.

A `Topology` is static under `jit`. It contains only numbers and names, with cached index tables for the
algorithms. It uses three kinds of indices:

- *bodies*, each with the joint that attaches it to its parent, in the order of the model;
- *moving bodies*, the bodies with a movable joint: a welded body is a part of the moving body that carries it;
- *columns*, the single degrees of freedom of the moving bodies in tree order (the book's expanded parent array). A rheonomic
  joint without degrees of freedom owns one column that moves nothing.

A mimic joint has columns but no coordinates: its q and v are the scaled ones of its leader.
"""

from __future__ import annotations

import operator
import reprlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._core.errors import UnknownNameError, suggest
from .tree import Traversal, Tree


@dataclass(frozen=True)
class JointKind:
    """One group of equal joints: the sizes that they share, and the bodies that they attach, in order."""

    nq: int
    nv: int
    fixed: bool
    rheonomic: bool
    bodies: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Topology:
    """The static part of a model. `leaders[b]` is the body whose joint the joint of body b mimics, or -1.

    >>> topology = rbd.load("cartpole").topology
    >>> print(topology.parents, topology.nv, topology.body_index("pole"))
    (-1, 0) 2 1
    """

    name: str
    body_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    parents: tuple[int, ...]
    kinds: tuple[JointKind, ...]
    leaders: tuple[int, ...]
    traversal: Traversal = "auto"

    @cached_property
    def _content(self) -> tuple:
        fields = (
            self.name,
            self.body_names,
            self.joint_names,
            self.parents,
            self.kinds,
            self.leaders,
            self.traversal,
        )
        return hash(fields), fields

    def __eq__(self, other) -> bool:
        return self is other or (isinstance(other, Topology) and self._content == other._content)

    def __hash__(self) -> int:
        return self._content[0]

    @property
    def nb(self) -> int:
        """The number of bodies."""
        return len(self.parents)

    @cached_property
    def kind_of(self) -> np.ndarray:
        """The group of each body's joint, and its index in the group: (nb, 2)."""
        table = np.zeros((self.nb, 2), int)
        for kind, group in enumerate(self.kinds):
            for place, body in enumerate(group.bodies):
                table[body] = kind, place
        return table

    @cached_property
    def joint_nq(self) -> np.ndarray:
        return np.array([self.kinds[kind].nq for kind, _ in self.kind_of], int)

    @cached_property
    def joint_nv(self) -> np.ndarray:
        return np.array([self.kinds[kind].nv for kind, _ in self.kind_of], int)

    @cached_property
    def is_mimic(self) -> np.ndarray:
        """Flags of the bodies whose joints mimic another."""
        return np.array(self.leaders, int) >= 0

    @cached_property
    def q_offsets(self) -> np.ndarray:
        """The start of each joint's coordinates in q, and the end of the last: (nb + 1,)."""
        return np.concatenate([[0], np.cumsum(np.where(self.is_mimic, 0, self.joint_nq))]).astype(int)

    @cached_property
    def v_offsets(self) -> np.ndarray:
        """The start of each joint's coordinates in v, and the end of the last: (nb + 1,)."""
        return np.concatenate([[0], np.cumsum(np.where(self.is_mimic, 0, self.joint_nv))]).astype(int)

    @property
    def nq(self) -> int:
        return int(self.q_offsets[-1])

    @property
    def nv(self) -> int:
        return int(self.v_offsets[-1])

    # Mimic joints: their coordinates follow all others, in the order of their bodies.

    @cached_property
    def mimic_joints(self) -> np.ndarray:
        """The bodies whose joints mimic another."""
        return np.flatnonzero(self.is_mimic)

    @cached_property
    def leader_q(self) -> np.ndarray:
        """For each mimic joint, the entry of q that it follows."""
        return self.q_offsets[np.array(self.leaders, int)[self.mimic_joints]]

    @cached_property
    def leader_v(self) -> np.ndarray:
        """For each mimic joint, the entry of v that it follows."""
        return self.v_offsets[np.array(self.leaders, int)[self.mimic_joints]]

    def joint_q(self, body: int) -> np.ndarray:
        """Returns the entries of `[q, coordinates of the mimic joints]` that belong to a body's joint."""
        return self._entries(body, self.q_offsets, self.joint_nq, self.nq)

    def joint_v(self, body: int) -> np.ndarray:
        """Returns the entries of `[v, velocities of the mimic joints]` that belong to a body's joint."""
        return self._entries(body, self.v_offsets, self.joint_nv, self.nv)

    def _entries(self, body, offsets, sizes, own):
        start = own + int(np.searchsorted(self.mimic_joints, body)) if self.is_mimic[body] else offsets[body]
        return start + np.arange(sizes[body])

    # Moving bodies: the nodes of recursions over bodies.

    @cached_property
    def fixed(self) -> np.ndarray:
        """Flags of the bodies that are welded to their parents."""
        return np.array([self.kinds[kind].fixed for kind, _ in self.kind_of], bool)

    @cached_property
    def moving_bodies(self) -> np.ndarray:
        """The bodies with a movable joint."""
        return np.flatnonzero(~self.fixed)

    @cached_property
    def carriers(self) -> np.ndarray:
        """For each body the moving body that carries it, as an index into `moving_bodies`; -1 if the world carries it."""
        carriers = np.full(self.nb, -1)
        for body, parent in enumerate(self.parents):
            if not self.fixed[body]:
                carriers[body] = np.searchsorted(self.moving_bodies, body)
            elif parent >= 0:
                carriers[body] = carriers[parent]
        return carriers

    @cached_property
    def moving_tree(self) -> Tree:
        """The tree of the moving bodies."""
        parents = [self.parents[body] for body in self.moving_bodies]
        return Tree([int(self.carriers[parent]) if parent >= 0 else -1 for parent in parents], self.traversal)

    # Columns: the nodes of recursions over degrees of freedom.

    @cached_property
    def column_counts(self) -> np.ndarray:
        """The number of columns of each moving body: its degrees of freedom, or one for a moving body without any."""
        return np.maximum(self.joint_nv[self.moving_bodies], 1)

    @cached_property
    def tree(self) -> Tree:
        """The tree of the columns."""
        return self.moving_tree.expanded(self.column_counts.tolist())

    @cached_property
    def column_owner(self) -> np.ndarray:
        """The moving body that each column belongs to."""
        return np.repeat(np.arange(len(self.moving_bodies)), self.column_counts)

    @cached_property
    def place_in_joint(self) -> np.ndarray:
        """The index of each column among the columns of its moving body."""
        return np.arange(self.tree.size) - (self.last_column - self.column_counts + 1)[self.column_owner]

    @cached_property
    def last_column(self) -> np.ndarray:
        """The last column of each moving body, which carries the body."""
        return np.cumsum(self.column_counts) - 1

    @cached_property
    def column_parent(self) -> np.ndarray:
        """The column above the first column of each moving body, -1 for a root."""
        parents = np.asarray(self.moving_tree.parents, int)
        return np.where(parents >= 0, self.last_column[parents], -1) if len(parents) else parents

    @cached_property
    def column_v(self) -> np.ndarray:
        """For each column its entry of `[v, velocities of the mimic joints, 0]`."""
        idle = self.nv + len(self.mimic_joints)
        entries = [self.joint_v(int(body)) if self.joint_nv[body] else [idle] for body in self.moving_bodies]
        return np.concatenate([*entries, np.zeros(0, int)]).astype(int)

    @cached_property
    def v_column(self) -> np.ndarray:
        """For each entry of `[v, velocities of the mimic joints]` its column."""
        real = np.flatnonzero(self.column_v < self.nv + len(self.mimic_joints))
        return real[np.argsort(self.column_v[real])]

    @cached_property
    def columns_are_v(self) -> bool:
        """True if column i is entry i of v, for all i."""
        return np.array_equal(self.column_v, np.arange(self.nv))

    @cached_property
    def idle(self) -> np.ndarray:
        """Flags of the columns that move nothing."""
        return self.column_v == self.nv + len(self.mimic_joints)

    @property
    def rheonomic(self) -> bool:
        """True if some joint has a prescribed motion in time."""
        return any(kind.rheonomic for kind in self.kinds)

    # Names.

    def body_index(self, body: str | int) -> int:
        """Returns the index of a body, given by its name or index."""
        if isinstance(body, str):
            if body not in self._body_numbers:
                raise UnknownNameError(
                    f"model {self.name!r} has no body {body!r}{suggest(body, self.body_names)}"
                )
            return self._body_numbers[body]
        try:
            number = operator.index(body)
        except TypeError as error:
            raise UnknownNameError(
                f"model {self.name!r} has no body {reprlib.repr(body)}: give a name, or an index from 0"
            ) from error
        if not 0 <= number < self.nb:
            raise UnknownNameError(
                f"model {self.name!r} has no body number {number}: it has {self.nb} bodies, from 0"
            )
        return number

    def joint_index(self, joint: str | int) -> int:
        """Returns the index of the body that a joint attaches, given by the joint's name or the body's index."""
        if isinstance(joint, str):
            if joint not in self._joint_numbers:
                raise UnknownNameError(
                    f"model {self.name!r} has no joint {joint!r}{suggest(joint, self.joint_names)}"
                )
            return self._joint_numbers[joint]
        return self.body_index(joint)

    @cached_property
    def _body_numbers(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.body_names)}

    @cached_property
    def _joint_numbers(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.joint_names)}
