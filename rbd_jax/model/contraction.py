"""Order of assembling a tree from its bodies with few sequential steps (book §7.5).

The order is that of rake and compress (Miller & Reif, 1985). Each round joins all leaves to their parents. It also merges
nodes with one child each in pairs of neighbors to a *segment*, which interacts with others at its two ends. Each round removes
at least a quarter of the nodes, so n bodies take at most log n to the base 4/3 rounds for any tree. A chain is halved in each
round, and a star takes two rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Round:
    """The operations of one round. Each remaining node has a *place*, and each segment also has a *row*.

    - `places`, `rows`: the numbers of places and rows before the round.
    - `converted`, `converted_bodies`: the places of single bodies that become segments in this round, and the bodies. Their
      rows follow the rows of the existing segments.
    - `raked`, `raked_rows`: the leaves, single bodies first.
    - `ending`: flags for leaves that were segments before; these bear the loads joined to their ends.
    - `above`: the places of the parents of the leaves, -1 for the world.
    - `upper`, `lower`, `upper_rows`, `lower_rows`: the pairs of segments that are merged.
    - `kept`, `kept_rows`: the unchanged nodes. They are first in the next round, followed by the new segments.
    """

    places: int
    rows: int
    converted: np.ndarray
    converted_bodies: np.ndarray
    raked: np.ndarray
    raked_rows: np.ndarray
    ending: np.ndarray
    above: np.ndarray
    upper: np.ndarray
    lower: np.ndarray
    upper_rows: np.ndarray
    lower_rows: np.ndarray
    kept: np.ndarray
    kept_rows: np.ndarray


def contraction(parents: Sequence[int]) -> tuple[Round, ...]:
    """Returns the rounds that assemble a forest completely.

    >>> from rbd_jax.model.contraction import contraction
    >>> len(contraction(range(-1, 999))), len(contraction([-1] + [0] * 999))  # a chain and a star of 1000
    (11, 2)
    """
    parent = [int(above) for above in parents]
    left = list(range(len(parent)))  # by place; a segment is represented by its last body
    row_of: dict[int, int] = {}
    rounds = []
    while left:
        place = {node: i for i, node in enumerate(left)}
        children: dict[int, list[int]] = {node: [] for node in left}
        for node in left:
            if parent[node] >= 0:
                children[parent[node]].append(node)
        raked = [node for node in left if not children[node]]
        pairs = _pairs(left, parent, children)
        merged = [node for pair in pairs for node in pair]
        converted = [node for node in raked + merged if node not in row_of]
        rows = row_of | {node: len(row_of) + i for i, node in enumerate(converted)}
        gone = {*raked, *merged}
        kept = [node for node in left if node not in gone]
        kept_segments = [node for node in row_of if node not in gone]
        upper, lower = [x for x, _ in pairs], [x for _, x in pairs]
        numbers = lambda of, nodes: np.array([of[node] for node in nodes], int)
        rounds.append(
            Round(
                len(left),
                len(row_of),
                numbers(place, converted),
                np.array(converted, int),
                numbers(place, raked),
                numbers(rows, raked),
                np.array([node in row_of for node in raked], bool),
                np.array([place[parent[node]] if parent[node] >= 0 else -1 for node in raked], int),
                numbers(place, upper),
                numbers(place, lower),
                numbers(rows, upper),
                numbers(rows, lower),
                numbers(place, kept),
                numbers(rows, kept_segments),
            )
        )
        for above, below in pairs:
            parent[below] = parent[above]
        left = kept + lower
        row_of = {node: i for i, node in enumerate(kept_segments + lower)}
    return tuple(rounds)


def _pairs(left, parent, children) -> list[tuple[int, int]]:
    """Returns disjoint pairs of neighbors with one child each, from the top of each chain of such nodes."""
    pairs = []
    single = {node for node in left if len(children[node]) == 1}
    for node in left:
        if node not in single or parent[node] in single:
            continue
        while node in single and children[node][0] in single:
            below = children[node][0]
            pairs.append((node, below))
            node = children[below][0]
    return pairs
