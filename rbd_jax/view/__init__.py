"""Models and their motion to be seen. The package is itself the function `view`: `rbd.view(model, trajectory)`.

- `view`: a model in the browser: its motion, configurations put together by hand, a simulation that is pulled at
- `Viewer`: what it returns
- `plot_model`: a model in one configuration
- `plot_trajectory`: how a model moved, its coordinates and its energy
- `plot_excitation`: a motion that was designed to identify a model, between its limits
- `plot_solution`: a motion that was optimized, between its bounds
- `plot_learning`: how a policy was learned
- `Player`: such a page, which shows itself in a notebook
- `Camera`: from where a model is seen
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


#: What is at the top of the library, `rbd_jax`, and was here as well.
__getattr__ = at_the_top(
    __name__,
    {
        "save_html": ".player",
        "save_video": ".film",
    },
)
