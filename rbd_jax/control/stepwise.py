"""A search with host code between its iterations, to report progress and to save intermediate states.

Each iteration is a call of one compiled program. The state between iterations determines the rest of the search, so a saved
search resumes with identical results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Array, Bool

from ..checkpoints import Checkpoint, plain_leaves, running, with_leaves
from .solution import Solution


#: A callback after each iteration, with the number of iterations, the cost, and the violation of constraints.
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
    """Runs a search, and returns its solution.

    Args:
      owner: The calling function, for messages.
      begin: Returns the state before the first iteration.
      iterate: Returns the state after another iteration.
      look: Returns the current solution, and whether another iteration is necessary.
      most: Maximum number of iterations. It may be larger than when the search was saved.
      key: The other inputs that determine the result, see `rbd.Checkpoint.run`.
      on_iteration: The callback.
      checkpoint: The file to save to and resume from.
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
