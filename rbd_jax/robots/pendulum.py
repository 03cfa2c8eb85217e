"""A pendulum, single and double: the simplest models, without friction, so that energy is kept."""

from ..joints import Revolute
from ..model import Model, ModelBuilder
from ._links import Solid, add, at, ball


def pendulum() -> Model:
    """A ball of 1 kg on a massless rod of 1 m, which swings about the y axis. It hangs down at q = 0."""
    builder = ModelBuilder(name="pendulum")
    add(builder, "bob", "world", Revolute((0, 1, 0)), None, _bob(), joint_name="swing")
    return builder.build(strict=True)


def double_pendulum() -> Model:
    """Two such pendulums, the second on the ball of the first. Both hang down at q = 0."""
    builder = ModelBuilder(name="double_pendulum")
    add(builder, "upper", "world", Revolute((0, 1, 0)), None, _bob(), joint_name="shoulder")
    add(builder, "lower", "upper", Revolute((0, 1, 0)), at(0, 0, -1), _bob(), joint_name="elbow")
    return builder.build(strict=True)


def _bob() -> Solid:
    return ball(1.0, 0.05, com=(0.0, 0.0, -1.0))
