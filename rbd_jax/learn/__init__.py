"""Learning to control: policies from gradients through the simulation.

- `train`: a policy for a task
- `Trained`: what training has come to
- `ShortHorizonActorCritic`: how it is learned
- `Learner`: what is learned, and where the episodes are, between two epochs
- `settings_for`: what suits a bundled task
- `Settings`: such settings
- `evaluate`: what a policy comes to in many episodes
- `Evaluation`: that
- `play`: one episode, step by step
- `Episode`: that
- `Policy`: what to do by what is observed
- `Controller`: a policy as the controls of a rollout
- `save`: a policy, written to a file
- `load`: and read from it
- `Network`: a perceptron
- `Normalization`: of what is observed
"""

__all__ = [
    "train",
    "Trained",
    "ShortHorizonActorCritic",
    "Learner",
    "settings_for",
    "Settings",
    "evaluate",
    "Evaluation",
    "play",
    "Episode",
    "Policy",
    "Controller",
    "save",
    "load",
    "Network",
    "Normalization",
]

from .controller import Controller as Controller
from .network import Network as Network, Normalization as Normalization
from .playing import Episode as Episode, Evaluation as Evaluation, evaluate as evaluate, play as play
from .policy import Policy as Policy, load as load, save as save
from .settings import Settings as Settings, settings_for as settings_for
from .short_horizon_actor_critic import (
    Learner as Learner,
    ShortHorizonActorCritic as ShortHorizonActorCritic,
)
from .training import Trained as Trained, train as train
