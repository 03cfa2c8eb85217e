"""Learning to control: policies from gradients through the simulation.

- `train`: train a policy for a task
- `Trained`: the result of training
- `ShortHorizonActorCritic`: the training algorithm and its settings
- `Learner`: the state of training between two epochs
- `settings_for`: recommended settings for a bundled task
- `Settings`: the recommended settings of a task
- `evaluate`: evaluate a policy in many episodes
- `Evaluation`: the result of an evaluation
- `play`: play one episode and return all its steps
- `Episode`: a played episode
- `Policy`: a policy: a function from observations to actions
- `Controller`: a policy as the controls of a rollout
- `save`: write a policy to a file
- `load`: read a policy from a file
- `Network`: a multilayer perceptron
- `Normalization`: normalization of observations
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
