"""Small mechanisms with loops for the tests of constraints."""

import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints


at = rbd.Transform.from_xyz_rpy
TIP = at((1.0, 0.0, 0.0))
ROD = rbd.Inertia.box(1.0, (1.0, 0.0, 0.0), (0.5, 0.0, 0.0))


def inertia(rng):
    spread = rng.normal(size=(3, 3))
    return rbd.Inertia.from_mass_com(
        rng.uniform(0.5, 2.0), rng.uniform(-0.3, 0.3, 3), 0.3 * np.eye(3) + 0.02 * spread @ spread.T
    )


def placement(rng):
    return at(rng.uniform(-0.5, 0.5, 3), rng.uniform(-1.0, 1.0, 3))


def four_bar(loop="hinge"):
    """Returns a planar rhombus of a crank, coupler and follower of length 1, `q = (θ, -θ, θ)`.

    `loop="revolute"` closes it with a redundant revolute loop joint.
    """
    loops = {
        "hinge": rc.HingeLoop("coupler", TIP, "follower", TIP),
        "revolute": rc.LoopJoint("coupler", TIP, "follower", TIP, joints.Revolute()),
    }
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="four-bar")
    builder.add_body("crank", "world", joints.Revolute(), inertia=ROD)
    builder.add_body("coupler", "crank", joints.Revolute(), TIP, ROD)
    builder.add_body("follower", "world", joints.Revolute(), TIP, ROD)
    builder.add_constraint(loops[loop])
    return builder.build()


def four_bars(count):
    """Returns `count` rhombi of rods of 1 m and 1 kg, side by side and hinged to the ground (IFToMM benchmark A02)."""
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="four-bars")
    for i in range(count + 1):
        builder.add_body(f"post {i}", "world", joints.Revolute(), at((float(i), 0.0, 0.0)), ROD)
    for i in range(count):
        builder.add_body(f"beam {i}", f"post {i}", joints.Revolute(), TIP, ROD)
        builder.add_constraint(rc.HingeLoop(f"beam {i}", TIP, f"post {i + 1}", TIP))
    return builder.build()


def four_bars_state(count, angle, rate):
    share = np.concatenate([np.ones(count + 1), -np.ones(count)])
    return rbd.State(angle * share, rate * share)


#: The book's example of figure 8.3: two pivots on the ground, and a slider on the second link that carries the first
#: link's tip.
L1, L2 = 0.7, 1.3


def slider_loop():
    rng = np.random.default_rng(0)
    builder = rbd.ModelBuilder(name="figure 8.3")
    builder.add_body("arm", "world", joints.Revolute(), inertia=inertia(rng))
    builder.add_body("guide", "world", joints.Revolute(), at((L1, 0.0, 0.0)), inertia(rng))
    turned = at((0.0, 0.0, 0.0), (0.0, np.pi / 2, 0.0))
    builder.add_body("slider", "guide", joints.Prismatic(), turned, inertia(rng))
    builder.add_body("hand", "arm", joints.Revolute(), at((0.4, 0.2, 0.0)), inertia(rng))
    back = at((0.0, 0.0, 0.0), (0.0, -np.pi / 2, 0.0))
    builder.add_constraint(rc.LoopJoint("arm", at((L2, 0.0, 0.0)), "slider", back, joints.Revolute()))
    return builder.build()


def slider_closure(y):
    """The loop-closure function of book figure 8.3 (book eq. 8.56)."""
    x, z = L2 * jnp.cos(y[0]) - L1, L2 * jnp.sin(y[0])
    return jnp.stack([y[0], jnp.arctan2(z, x), jnp.sqrt(x**2 + z**2), y[1]])


def tree():
    """Returns a branched tree with several joint types, for conversion to maximal coordinates."""
    rng = np.random.default_rng(2)
    builder = rbd.ModelBuilder(name="tree")
    builder.add_body("trunk", "world", joints.Spherical(), placement(rng), inertia(rng))
    builder.add_body("arm", "trunk", joints.Revolute((1.0, 0.2, 0.3)), placement(rng), inertia(rng))
    builder.add_body("slide", "arm", joints.Cylindrical((0.2, 1.0, 0.0)), placement(rng), inertia(rng))
    builder.add_body("leg", "trunk", joints.Universal(), placement(rng), inertia(rng))
    return builder.build()


def loose(seed=3, mimicking=True):
    """Returns two free bodies with an arm, a ball and a driven joint between them, whose motion can violate any
    constraint.
    """
    rng = np.random.default_rng(seed)
    builder = rbd.ModelBuilder(name="loose")
    builder.add_body("base", "world", joints.Free(), placement(rng), inertia(rng))
    builder.add_body("arm", "base", joints.Revolute((1.0, 0.2, 0.3)), placement(rng), inertia(rng))
    builder.add_body("ball", "arm", joints.Spherical(), placement(rng), inertia(rng))
    turning = joints.ConstantVelocity(joints.Revolute(), [0.7])
    builder.add_body("carousel", "base", turning, placement(rng), inertia(rng))
    builder.add_body("leg", "carousel", joints.Revolute((0.0, 1.0, 0.3)), placement(rng), inertia(rng))
    builder.add_body("other", "world", joints.Free(), placement(rng), inertia(rng))
    mimic = rbd.Mimic("leg", 0.6, 0.1) if mimicking else None
    builder.add_body("tail", "other", joints.Revolute(), placement(rng), inertia(rng), mimic=mimic)
    return builder.build()


def bricard():
    """Returns a closed chain of five rods and six hinges, the last hinge as a loop joint (IFToMM A04)."""
    points = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)], float)
    axes = np.eye(3)[[1, 2, 0, 1, 2, 0]]
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="Bricard")
    parent, before = "world", np.zeros(3)
    for i in range(5):
        along = points[i + 1] - points[i]
        sides = np.where(along != 0, 1.0, 0.1)
        rod = rbd.Inertia.box(1.0, sides, along / 2)
        builder.add_body(f"rod {i}", parent, joints.Revolute(axes[i]), at(before), rod)
        parent, before = f"rod {i}", along
    ground, tip = at(points[5]), at(before)
    builder.add_constraint(rc.LoopJoint("world", ground, parent, tip, joints.Revolute(axes[5])))
    return builder.build()
