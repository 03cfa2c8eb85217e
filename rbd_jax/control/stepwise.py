"""A search with the host between its iterations: to tell how far it is, and to save where it is on the way.

Each iteration is a call of one compiled program. What is handed from iteration to iteration is all that the rest of the search
depends on, so that one which was saved goes on as if it had not been interrupted, to the same numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Array, Bool

from ..checkpoints import Checkpoint, plain_leaves, running, with_leaves
from .solution import Solution


#: What is called after each iteration: with how many there were, the cost, and by how much constraints are broken.
OnIteration = Callable[[int, float, float], Any]


def stepwise(
    owner: str,
    begin: Callable[[], Any],
    iterate: Callable[[Any], Any],
    look: Callable[[Any], tuple[Solution, Bool[Array, ""]]],
    *,
    most: int,
    key: Callable[[], Mapping[str, Any]],
    on_iteration: OnIteration | None,
    checkpoint: Checkpoint | str | os.PathLike | None,
) -> Solution:
    """Where a search comes to.

    - `begin`, `iterate`: what the search is before the first iteration, and after another one.
    - `look`: what was found so far, and whether there is another iteration to make.
    - `most`: how many iterations are allowed. There may be more than when it was saved.
    - `key`: what else decides on the numbers, see `rbd.Checkpoint.run`.
    """
    with running(owner, checkpoint, key) as run:
        search, told = begin(), []
        if run.found:
            search, told = with_leaves(search, run.found["search"]), run.found["told"].tolist()
        solution, going_on = look(search)
        if (there := int(solution.iterations)) > most:
            run.refuse([f"iterations: {there} there, {most} here"])
        if on_iteration is not None:
            for iterations, *rest in told:
                on_iteration(int(iterations), *rest)
        reached = lambda: {"search": plain_leaves(search), "told": np.reshape(np.array(told, float), (-1, 3))}
        moved = not run.found
        while going_on:
            search, moved = iterate(search), True
            solution, going_on = look(search)
            told.append([int(solution.iterations), float(solution.cost), float(solution.violation)])
            run.offer(reached)
            if on_iteration is not None:
                on_iteration(*told[-1])
        if moved:
            run.save(reached())
        return solution
