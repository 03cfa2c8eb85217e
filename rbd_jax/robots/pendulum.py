"""Pendulums: single, double, and double with a motor. They have no friction, so energy is conserved."""

from ..forces.actuators import Motor
from ..joints import Revolute
from ..model import Model, ModelBuilder
from ..shapes.site import Site
from ._links import Solid, add, add_joint_sensors, at, ball


def pendulum() -> Model:
    """Returns a ball of 1 kg on a massless rod of 1 m, which swings about the y axis. It hangs down at q = 0.

    >>> model = rbd.robots.pendulum()
    >>> print(rbd.gravity_force(model, jnp.array([jnp.pi / 2])))
    [9.81]
    """
    builder = ModelBuilder(name="pendulum")
    add(builder, "bob", "world", Revolute((0, 1, 0)), None, _bob(), joint_name="swing")
    return builder.build(strict=True)


def double_pendulum() -> Model:
    """Returns two pendulums in series, the second attached to the ball of the first. Both hang down at q = 0.

    >>> print(rbd.robots.double_pendulum())
    double_pendulum: 2 bodies, nq = 2, nv = 2
    └─ upper (shoulder)  Revolute v[0:1], 1 kg
       └─ lower (elbow)  Revolute v[1:2], 1 kg
    """
    return _double("double_pendulum").build(strict=True)


def acrobot() -> Model:
    """Returns the double pendulum with a motor of at most 20 Nm at the elbow only. Both links hang down at q = 0.

    Sensors read both joints; the site `tip` is at the end.

    >>> model = rbd.robots.acrobot()
    >>> print(model.nv, [actuator.name for actuator in model.actuators])
    2 ['motor']
    """
    builder = _double("acrobot")
    builder.attach(Motor("motor", "elbow", control_range=(-20.0, 20.0)), Site("tip", "lower", (0, 0, -1)))
    add_joint_sensors(builder, "shoulder", "elbow")
    return builder.build(strict=True)


def _double(name: str) -> ModelBuilder:
    builder = ModelBuilder(name=name)
    add(builder, "upper", "world", Revolute((0, 1, 0)), None, _bob(), joint_name="shoulder")
    add(builder, "lower", "upper", Revolute((0, 1, 0)), at(0, 0, -1), _bob(), joint_name="elbow")
    return builder


def _bob() -> Solid:
    return ball(1.0, 0.05, com=(0.0, 0.0, -1.0))
