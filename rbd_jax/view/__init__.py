"""Pictures of models and of their motion.

- `plot_model`: a model in one configuration
- `plot_trajectory`: how a model moved, its coordinates and its energy
"""

__all__ = [
    "plot_model",
    "plot_trajectory",
]

from .plot import plot_model as plot_model, plot_trajectory as plot_trajectory
