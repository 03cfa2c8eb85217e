"""A pole on a cart: the classical underactuated control problem."""

from ..forces.actuators import Motor
from ..joints import Prismatic, Revolute
from ..model import Model, ModelBuilder
from ._links import add, add_joint_sensors, box, rod


def cartpole() -> Model:
    """Returns a cart of 1 kg on a rail along x, with a pole of 0.2 kg and 1 m that rotates about y.

    The pole stands upright at q = 0, an unstable equilibrium. The motor drives the cart with at most 20 N. Sensors read both
    joints.

    >>> model = rbd.robots.cartpole()
    >>> print(rbd.gravity_force(model, jnp.array([0.0, 0.1])))  # it pulls the pole further down
    [ 0.    -0.098]
    """
    builder = ModelBuilder(name="cartpole")
    add(
        builder,
        "cart",
        "world",
        Prismatic((1, 0, 0)),
        None,
        box(1.0, (0.3, 0.2, 0.1)),
        joint_name="slide",
        lower=-2.0,
        upper=2.0,
        effort_limit=20.0,
    )
    pole = rod(0.2, (0, 0, 0), (0, 0, 1), 0.01)
    add(builder, "pole", "cart", Revolute((0, 1, 0)), None, pole, joint_name="hinge")
    builder.attach(Motor("motor", "slide", control_range=(-20.0, 20.0)))
    add_joint_sensors(builder, "slide", "hinge")
    return builder.build(strict=True)
