"""Visualization of models and trajectories. The package is also the function `view`: `rbd.view(model, trajectory)`.

- `view`: shows a model in the browser: its motion, poses set by hand, or an interactive simulation
- `Viewer`: the result of `view`
- `plot_model`: draws a model in one configuration
- `plot_trajectory`: draws poses, coordinates and energy of a trajectory
- `plot_excitation`: draws an excitation motion for system identification, between its limits
- `plot_solution`: draws an optimized motion, between its bounds
- `plot_learning`: draws the learning curves of a policy
- `Player`: a page that plays a motion, also in a notebook
- `Camera`: the viewpoint of a picture
"""

__all__ = [
    "view",
    "Viewer",
    "plot_model",
    "plot_trajectory",
    "plot_excitation",
    "plot_solution",
    "plot_learning",
    "Player",
    "Camera",
]


from .._core.callable import make_callable
from .._core.deprecation import at_the_top
from .camera import Camera as Camera
from .excitation import plot_excitation as plot_excitation
from .learning import plot_learning as plot_learning
from .optimization import plot_solution as plot_solution
from .player import Player as Player
from .plot import plot_model as plot_model, plot_trajectory as plot_trajectory
from .viewer import Viewer as Viewer, view as view


make_callable(__name__, view)


#: Names that moved to the top of the library, `rbd_jax`; access through this package is deprecated.
__getattr__ = at_the_top(
    __name__,
    {
        "save_html": ".player",
        "save_video": ".film",
    },
)
