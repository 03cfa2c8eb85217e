"""Learning."""

from .short_horizon_actor_critic import ShortHorizonActorCritic as ShortHorizonActorCritic
