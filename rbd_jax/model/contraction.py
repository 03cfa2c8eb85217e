"""In which order a tree is put together from its bodies, so that few assemblies wait for one another (book §7.5).

The assemblies are those of rake and compress (Miller & Reif, 1985). In every round all that has nothing below it is joined to its
parent, and of what has one child each, two neighbours at a time become one: a *segment*, which acts at its two ends. At
least a quarter of what there is goes in each round, so n bodies take no more rounds than the logarithm of n to the base 4/3,
however the tree looks. Of a chain half goes in each, and a star takes two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Round:
    """What is joined at once. Whatever is left has a *place*, and segments have a *row* besides.

    - `places`, `rows`: how many there are before the round.
    - `converted`, `converted_bodies`: the places of single bodies that become segments now, and the bodies. Their rows come
      after those of the segments there were.
    - `raked`, `raked_rows`: what has nothing below it, single bodies first.
    - `ending`: which of them were segments before; these bear what was joined to their ends.
    - `above`: the places of the parents of the raked, -1 for the world.
    - `upper`, `lower`, `upper_rows`, `lower_rows`: which two segments become one.
    - `kept`, `kept_rows`: what stays as it is. It comes first in the next round, and the new segments after it.
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
    """The rounds in which a forest is put together, until nothing is left.

    >>> from rbd_jax.model.contraction import contraction
    >>> len(contraction(range(-1, 999))), len(contraction([-1] + [0] * 999))  # a chain and a star of 1000
    (11, 2)
    """
    parent = [int(above) for above in parents]
    left = list(range(len(parent)))  # by place; the last body of a segment stands for it
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
    """Neighbours that have one child each, two at a time from the top of each row of such."""
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
