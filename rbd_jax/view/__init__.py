"""Pictures of models and of their motion."""

from .plot import plot_model as plot_model, plot_trajectory as plot_trajectory
