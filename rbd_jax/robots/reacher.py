"""An arm with two links that reaches for a target: the simplest reaching task."""

from ..forces.actuators import Motor
from ..joints import Revolute
from ..model import Model, ModelBuilder
from ..sensors import FramePosition
from ..shapes.site import Site
from ._links import add, add_joint_sensors, at, rod


#: The length of a link.
LINK = 0.3


def reacher() -> Model:
    """Returns two links of 0.3 m and 0.5 kg that rotate about z in a horizontal plane, straight along x at q = 0.

    Both joints have a motor of at most 1 Nm, damping, and sensors. The site `target` is in the world at (0.3, 0.3, 0). The
    sensor `to_target` reads its position relative to the site `fingertip`.

    >>> model = rbd.robots.reacher()
    >>> print(rbd.site_frames(model, jnp.zeros(2)).position)
    [[0.6 0.  0. ]
     [0.3 0.3 0. ]]
    """
    builder = ModelBuilder(name="reacher")
    link = rod(0.5, (0, 0, 0), (LINK, 0, 0), 0.02)
    add(builder, "upper", "world", Revolute((0, 0, 1)), None, link, joint_name="shoulder", damping=0.05)
    add(
        builder, "lower", "upper", Revolute((0, 0, 1)), at(LINK, 0, 0), link,
        joint_name="elbow", lower=-2.8, upper=2.8, damping=0.05,
    )  # fmt: skip
    for joint in ("shoulder", "elbow"):
        builder.attach(Motor(joint, joint, control_range=(-1.0, 1.0)))
    builder.attach(Site("fingertip", "lower", (LINK, 0, 0)), Site("target", "world", (LINK, LINK, 0)))
    add_joint_sensors(builder, "shoulder", "elbow")
    builder.attach(FramePosition("to_target", "target", relative_to="fingertip"))
    return builder.build(strict=True)
