"""The elimination order of degrees of freedom and multipliers, which depends only on the topology.

Degrees of freedom are eliminated from the leaves on, as in every recursion up the tree. A constraint follows when all degrees
of freedom of its equations are eliminated: below the last body that its loop has in common, the column that it *closes under*.
Among constraints that close under the same column, the one coupled with the fewest others is eliminated first (minimum
degree).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..loops import Constraint
from ..loops.relative import RelativeConstraint
from ..model import Tree
from ..model.topology import Topology


@dataclass(frozen=True)
class Coupling:
    """The coupling of one constraint: its rows, the columns of its bodies (-1 for the world) and of its coordinates.

    `relative`: If True, only the relative placement of the bodies matters.
    """

    rows: tuple[int, ...]
    bodies: tuple[int, ...]
    coordinates: tuple[int, ...]
    relative: bool

    def closes_under(self, tree: Tree) -> int:
        """Returns the lowest column above all degrees of freedom that the rows depend on; -1 is the world."""
        if self.bodies and not self.relative:
            return -1
        paths = [_path(tree, column) for column in self.bodies]
        paths += [_path(tree, tree.parents[column]) for column in self.coordinates]
        common = [columns[0] for columns in zip(*paths) if len(set(columns)) == 1]
        return common[-1]


def _path(tree: Tree, column: int) -> list[int]:
    """Returns the columns from the world, -1, down to this one."""
    path = []
    while column >= 0:
        path.append(column)
        column = tree.parents[column]
    return [-1, *reversed(path)]


@dataclass(frozen=True, eq=False)
class Order:
    """The elimination steps, last step first, so that a step passes its remainder to a step with a lower number.

    - `tree`: The tree of the steps.
    - `columns`: The column that each step eliminates; one past the last column if it eliminates a row.
    - `choices`: For each step, the row that it may eliminate in each slot, and -1 for none. A slot stores a row while it
      is open. A constraint takes one step per row, and each step chooses among the remaining rows.
    - `begins`: Flags of the steps that are the first of a constraint.
    - `attached`: The step and slot, as `step width + slot`, where each wrench of a constraint on a body enters, and -1 for
      the world.
    - `driven`: The same for each coefficient of a coordinate.
    """

    tree: Tree
    columns: np.ndarray
    choices: np.ndarray
    begins: np.ndarray
    attached: np.ndarray
    driven: np.ndarray

    @property
    def width(self) -> int:
        """The number of slots."""
        return self.choices.shape[1]

    @cached_property
    def rows(self) -> np.ndarray:
        """Flags of the steps that eliminate a multiplier."""
        return np.max(self.choices, axis=1, initial=-1) >= 0


@functools.lru_cache(maxsize=64)
def elimination_order(tree: Tree, couplings: tuple[Coupling, ...]) -> Order:
    """Returns the order for these columns and constraints."""
    return _Planner(tree, couplings).order()


class _Planner:
    def __init__(self, tree: Tree, couplings: tuple[Coupling, ...]):
        self.columns, self.couplings = tree, couplings
        self.above = [coupling.closes_under(tree) for coupling in couplings]
        #: Steps in the order of elimination, ("column", j) or ("constraint", i), and the open constraints after each.
        self.steps: list[tuple[str, int]] = []
        self.open: list[frozenset[int]] = []
        self._eliminate()

    def _eliminate(self) -> None:
        entering = [set() for _ in range(self.columns.size)]
        closing: dict[int, set[int]] = {}
        for index, coupling in enumerate(self.couplings):
            if not coupling.rows:  # a loop joint with all degrees of freedom
                continue
            closing.setdefault(self.above[index], set()).add(index)
            for column in (*coupling.bodies, *coupling.coordinates):
                if column != self.above[index]:
                    entering[column].add(index)
        left_below: dict[int, list[frozenset[int]]] = {}
        for column in reversed(range(self.columns.size)):
            left = self._close(left_below.pop(column, []), closing.get(column, set())) | entering[column]
            self._take("column", column, left)
            left_below.setdefault(self.columns.parents[column], []).append(left)
        self._close(left_below.pop(-1, []), closing.get(-1, set()))

    def _take(self, kind: str, index: int, left: Iterable[int]) -> None:
        self.steps.append((kind, index))
        self.open.append(frozenset(left))

    def _close(self, groups: list[frozenset[int]], closing: set[int]) -> frozenset[int]:
        """Eliminates the constraints `closing` here, given groups of coupled constraints; returns the open ones."""
        neighbours: dict[int, set[int]] = {index: set() for index in closing}
        for group in groups:
            for index in group:
                neighbours.setdefault(index, set()).update(group - {index})
        left = sorted(closing)
        while left:
            best = min(left, key=lambda index: sum(len(self.couplings[i].rows) for i in neighbours[index]))
            left.remove(best)
            entangled = neighbours.pop(best)
            for index in entangled:
                neighbours[index] |= entangled
                neighbours[index] -= {index, best}
            self._take("constraint", best, entangled)
        return frozenset(neighbours)

    def order(self) -> Order:
        position = {step: number for number, step in enumerate(self.steps)}
        counts = [1 if kind == "column" else len(self.couplings[index].rows) for kind, index in self.steps]
        total, slots = sum(counts), self._slots()
        width = 1 + max(slots.values(), default=-1)
        #: The number of the first step of each column or constraint; numbers count down.
        first = dict(zip(self.steps, (total - 1 - np.cumsum([0, *counts])).tolist()))
        parents, columns = np.full(total, -1), np.full(total, self.columns.size)
        choices, begins = np.full((total, width), -1), np.zeros(total, bool)
        for step, left, count in zip(self.steps, self.open, counts, strict=True):
            (kind, index), start = step, first[step]
            receiver = self._receiver(step, left, position)
            parents[start - count + 1 : start + 1] = np.arange(start - count, start)
            parents[start - count + 1] = -1 if receiver is None else first[receiver]
            if kind == "column":
                columns[start] = index
                continue
            begins[start] = True
            for row in self.couplings[index].rows:
                choices[start - count + 1 : start + 1, slots[row]] = row
        entries = self._entries(first, slots, width)
        return Order(Tree(parents.tolist(), self.columns.traversal), columns, choices, begins, *entries)

    def _receiver(self, step, left, position):
        """Returns the step that receives the remainder of this step: the next step that depends on it."""
        kind, index = step
        above = self.columns.parents[index] if kind == "column" else self.above[index]
        waiting = [("constraint", i) for i in left if self.above[i] == above]
        if waiting:
            return min(waiting, key=position.__getitem__)
        return ("column", above) if above >= 0 else None

    def _slots(self) -> dict[int, int]:
        """Returns a slot for every row, such that rows that are open simultaneously have different slots."""
        slots: dict[int, int] = {}
        for (kind, index), left in zip(reversed(self.steps), reversed(self.open), strict=True):
            if kind == "constraint":
                taken = {slots[row] for other in left for row in self.couplings[other].rows}
                free = (
                    slot for slot in range(len(taken) + len(self.couplings[index].rows)) if slot not in taken
                )
                slots.update(zip(self.couplings[index].rows, free))
        return slots

    def _entries(
        self, first: dict[tuple[str, int], int], slots: dict[int, int], width: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the places where wrenches and coefficients enter."""
        attached, driven = [], []
        for index, (coupling, above) in enumerate(zip(self.couplings, self.above, strict=True)):
            for column in coupling.bodies:
                for row in coupling.rows:
                    # On the common body of the loop, a wrench enters only at the step of the constraint.
                    place = ("constraint", index) if column == above else ("column", column)
                    attached.append(first[place] * width + slots[row] if column >= 0 else -1)
            for column in coupling.coordinates:
                driven += [first["column", column] * width + slots[row] for row in coupling.rows]
        return np.array(attached, int), np.array(driven, int)


def couplings_of(topology: Topology, constraints: tuple[Constraint, ...]) -> tuple[Coupling, ...]:
    """Returns the couplings of the constraints of a model."""
    couplings, start = [], 0
    for constraint in constraints:
        carriers = [
            -1 if body == "world" else topology.carriers[topology.body_index(body)]
            for body in constraint.bodies
        ]
        bodies = [int(topology.last_column[carrier]) if carrier >= 0 else -1 for carrier in carriers]
        joints = [topology.joint_index(joint) for joint in constraint.joints]
        coordinates = [int(topology.v_column[topology.joint_v(joint)[0]]) for joint in joints]
        rows = tuple(range(start, start := start + constraint.rows))
        relative = isinstance(constraint, RelativeConstraint)
        couplings.append(Coupling(rows, tuple(bodies), tuple(coordinates), relative))
    return tuple(couplings)
