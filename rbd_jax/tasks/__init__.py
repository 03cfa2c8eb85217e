"""Tasks of reinforcement learning and of control: what is to be learned, on this library's own simulation.

- `load`: one of the bundled tasks by its name
- `NAMES`: the names that it knows
- `Task`: a model to control, how an episode begins, what is seen, what is wanted: `rbd.Task`
- `TaskState`: an episode after some steps
- `Situation`: a moment of an episode, as a task sees it
- `Randomization`: a rule that draws the numbers of a model for every episode
"""

__all__ = ["load", "NAMES", "Task", "TaskState", "Situation", "Randomization"]

from typing import Any

from .._arguments import choice
from .cartpole import Cartpole as Cartpole, cartpole as cartpole
from .randomization import Randomization as Randomization
from .situation import Situation as Situation, TaskState as TaskState
from .task import Task as Task


_BUNDLED = {make.__name__: make for make in (cartpole,)}

#: The names of the bundled tasks.
NAMES = tuple(_BUNDLED)


def load(name: str, **options: Any) -> Task:
    """A bundled task by its name.

    **Arguments**

    - `name`: one of `rbd.tasks.NAMES`.
    - `options`: those of `rbd.Task`, and of the task: `model`, `dt`, `substeps`, `scheme`, `episode_length`, `randomization`.

    >>> task = rbd.tasks.load("cartpole")
    >>> task.observation_size, task.action_size
    (5, 1)
    """
    choice("load", "name", name, NAMES)
    return _BUNDLED[name](**options)
