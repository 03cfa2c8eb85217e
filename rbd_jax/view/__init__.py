"""Pictures of models and of their motion."""

from .plot import (
    mechanical_energy as mechanical_energy,
    plot_model as plot_model,
    plot_trajectory as plot_trajectory,
)
