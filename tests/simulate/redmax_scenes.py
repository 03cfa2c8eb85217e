"""The scenes of the reference implementation of Sueda's notes (github.com/sueda/redmax), in g, cm and s.

All bodies are cuboids of density one. The frame of a body is that of its joint; the cuboid's center is a point in this
frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd
from rbd_jax import constraints, forces, joints


PI = np.pi
at = rbd.Transform.from_xyz_rpy
X, Y, Z = np.eye(3)


@dataclass(frozen=True)
class Scene:
    """A simulation, and the energy `T + V - V(0)` that linearly implicit Euler reaches in the reference."""

    model: rbd.Model
    state: rbd.State
    energy: float
    seconds: float = 2.0
    dt: float = 1e-2
    scheme: rbd.LinearlyImplicitEuler = field(default_factory=rbd.LinearlyImplicitEuler)
    controls: Callable | None = None
    forces: tuple[forces.Force, ...] = ()

    @property
    def steps(self) -> int:
        return round(self.seconds / self.dt)


def build(bodies, gravity=(0.0, 0.0, -980.0), loops=(), **along):
    """Returns a model of `(parent, joint, place in the parent, sides, center)`; `along` applies to every joint."""
    builder = rbd.ModelBuilder(gravity, "scene")
    for number, (parent, joint, place, sides, centre) in enumerate(bodies):
        inertia = rbd.Inertia.box(float(np.prod(sides)), sides, tuple(float(x) for x in centre))
        name = "world" if parent < 0 else f"body {parent}"
        builder.add_body(f"body {number}", name, joint, at(place), inertia, **along)
    for loop in loops:
        builder.add_constraint(loop)
    return builder.build()


def state(q, v=None):
    q = jnp.asarray(q, float)
    return rbd.State(q, jnp.zeros_like(q) if v is None else jnp.asarray(v, float))


def chain(*hinges):
    """Returns a series of bars of 10 cm along x."""
    return [(i - 1, hinge, 10 * X if i else 0 * X, (10, 1, 1), 5 * X) for i, hinge in enumerate(hinges)]


def turn(axis):
    return joints.Revolute(tuple(axis))


def slide(axis):
    return joints.Prismatic(tuple(axis))


def two_bars():
    return Scene(build(chain(turn(Y), turn(Y))), state([PI / 2, PI / 4]), -3697.4545694454)


def welded_bars():
    hinges = [joints.Fixed() if i % 2 else turn(Y) for i in range(5)]
    return Scene(build(chain(*hinges)), state([PI / 4] * 3), -5930.8171118835)


def other_axes():
    return Scene(build(chain(turn(Z), turn(Y), turn(Z))), state([0, PI / 2, PI / 2]), -9423.2594023734)


def balls():
    """Two bars on ball joints in exponential coordinates."""
    bodies = [
        (i - 1, joints.SphericalExponential(), -10 * Z if i else 0 * Z, (1, 1, 10), -5 * Z) for i in (0, 1)
    ]
    start = state([PI / 8, 0, 0] * 2, [0, 0, 2, 0, 0, 0])
    return Scene(build(bodies), start, 7788.8055603543, 3.0)


def loop():
    """A four-bar linkage with a fifth bar on it."""
    tie = constraints.HingeLoop("body 2", -10 * Z, "body 3", 20 * X, tuple(Y))
    scheme = rbd.LinearlyImplicitEuler(baumgarte=5.0)
    return Scene(
        build(loop_bodies(), loops=[tie]), state([0] * 4, [0, 0, 0, 5]), 3987.2011847696, scheme=scheme
    )


def loop_bodies():
    return [
        (-1, joints.Fixed(), 0 * X, (20, 1, 1), 0 * X),
        (0, turn(Y), -10 * X, (1, 1, 10), -5 * Z),
        (0, turn(Y), 10 * X, (1, 1, 10), -5 * Z),
        (1, turn(Y), -10 * Z, (20, 1, 1), 10 * X),
        (3, turn(Y), 10 * X, (1, 1, 10), -5 * Z),
    ]


def proportional_angles(tied=True):
    """Three bars, each rotated half as far as the previous one; with constraints, or for reduction."""
    names = [f"body {i}" for i in range(3)]
    ties = [
        constraints.CoordinateCoupling({first: (0.0, 0.5), second: (0.0, -1.0)})
        for first, second in zip(names, names[1:])
    ]
    model = build(chain(*[turn(Y)] * 3), loops=ties if tied else ())
    scheme = rbd.LinearlyImplicitEuler(baumgarte=5.0)
    return Scene(model, state([0] * 3), 42645.1541420990, dt=2e-2, scheme=scheme)


def led_joint():
    """Hybrid dynamics: the first of three bars has a prescribed rotation through three quarters of a turn."""

    def angle(time):
        share = 2 * (time / 7 - 0.5)
        return jnp.where(time < 7, 1.5 * PI / (1 + jnp.exp(-7 * share)), 1.5 * PI)

    def velocities(time, state):
        end = time + 2e-2
        speed = jax.jvp(angle, (end,), (jnp.ones_like(end),))[1]
        return jnp.zeros(3).at[0].set(speed + 5 * (angle(end) - state.q[0]))

    model = build(chain(*[turn(Y)] * 3), (0.0, 0.0, 0.0))
    scheme = rbd.LinearlyImplicitEuler(prescribed=("body 0",))
    return Scene(model, state([0] * 3), 199570.9300431804, 10.0, 2e-2, scheme, velocities)


def mass_springs():
    """Two bars and two deformables with free nodes, whose end nodes are constrained; explicit springs."""
    builder = rbd.ModelBuilder.from_model(build(chain(turn(Y), turn(Y))))
    ends = np.array([30 * X + 10 * Z, 20 * X, 5 * X, 15 * X])
    places = np.insert(ends, 1, ends[:2].mean(axis=0), axis=0)
    edges = [(0, 1), (1, 2), (3, 4)]
    lengths = np.array([np.linalg.norm(places[j] - places[i]) for i, j in edges])
    springs = forces.add_deformable(
        builder, "node", places, edges, masses=[1 / 3] * 3 + [1 / 2] * 2, spring_constants=1e5 / lengths**2
    )  # fmt: skip
    ties = [(0, "world", ends[0]), (2, "body 1", 10 * X), (3, "body 0", 5 * X), (4, "body 1", 5 * X)]
    for node, body, point in ties:
        builder.add_constraint(constraints.Connect(body, point, f"node {node}", (0.0, 0.0, 0.0)))
    model, scheme = builder.build(), rbd.LinearlyImplicitEuler(baumgarte=5.0)
    # As controls held over the step, the springs are explicit.
    controls = lambda time, state: springs(model, state.q, state.v)
    return Scene(model, state([0] * model.nq), -11740.4013565295, 1.0, 5e-3, scheme, controls), springs


def loop_by_a_spring():
    tie = forces.PointToPoint(("body 2", "body 3"), [-10 * Z, 20 * X], 1e7)
    return Scene(build(loop_bodies()), state([0] * 4, [0, 0, 0, 5]), 0.0, 1.0, forces=(tie,))


def spring_damper(first, second, place, length):
    """Returns a spring with coefficients per length, as in the reference."""
    return forces.SpringDamper((first, second), place, length, 1e6 / length, 1e3 / length)


def springs_and_dampers():
    """Two bars with a spring to the world and one between them."""
    holding = spring_damper(
        "world", "body 1", [-5 * X - 5 * Z, 5 * X - 2 * Z], float(np.linalg.norm([20, 0, 3]))
    )
    between = spring_damper("body 0", "body 1", [5 * X + 2 * Z, 5 * X + 2 * Z], 10.0)
    return Scene(build(chain(turn(Y), turn(Y))), state([0, 0]), 0.0, 1.0, forces=(holding, between))


def cable():
    """Two bars held by a cable that runs to a slide on a spring."""
    builder = rbd.ModelBuilder.from_model(build(chain(turn(Y), turn(Y))))
    box = rbd.Inertia.box(1.0, (1.0, 1.0, 1.0))
    builder.add_body("slide", "world", slide(X), at(10 * X), box, stiffness=1e4, damping=1e3)
    pull = forces.Cable(("slide", "body 0", "body 1"), [0 * X, X + Z, X + Z], 1.0, 1e6, 1e3)
    model, start = builder.build(), state([PI / 2, -PI / 2, 0])
    length = float(pull.length(model, start.q))
    pull = forces.Cable(pull.bodies, pull.points, length, 1e6 / length, 1e3 / length, 1e-9)
    return Scene(model, start, 0.0, 1.0, forces=(pull,))


def stiff_joints():
    model = build(chain(*[turn(Y)] * 3), (0.0, 0.0, 0.0), stiffness=1e4, damping=1e3)
    return Scene(model, state([0] * 3, [1, 0, 0]), 2659.7218894234, 5.0, 2e-2)


def on_a_plate(base):
    return [
        (-1, base, 0 * X, (10, 10, 1), 0 * X),
        (0, turn(Y), -5 * X, (1, 1, 10), -5 * Z),
        (0, turn(X), -5 * Y, (1, 1, 10), -5 * Z),
    ]


def planar_base():
    model = build(on_a_plate(joints.Composite((slide(X), slide(Y)))))
    return Scene(model, state([0, 0, PI / 2, PI / 4]), 1027.3404900101)


def translational_base(speeds=(2, 1), energy=836.2350063174):
    model = build(on_a_plate(joints.Translational()), (0.0, 0.0, 0.0))
    return Scene(model, state([0] * 5, [0, 0, 0, *speeds]), energy)


def free_body():
    joint = joints.Composite((joints.Translational(), joints.SphericalExponential()))
    model = build([(-1, joint, 0 * X, (1, 1, 1), 0 * X)], (0.0, 0.0, -1.0))
    return Scene(model, state([0] * 6, [0, 0, 3, 0.2, 0.4, 0.6]), 4.5116666667, 7.0)


def balls_in_angles():
    """Two bars on ball joints in Euler angles, which the reference also uses at the start."""
    joint = joints.SphericalEuler("xyz")
    bodies = [(i - 1, joint, -10 * Z if i else 0 * Z, (1, 1, 10), -5 * Z) for i in (0, 1)]
    return Scene(build(bodies), state([PI / 8, 0, 0, PI / 2, 0, 0], [2, 2, 2, 0, 0, 0]), 0.0, 1.0, 2e-3)


def free_body_in_angles():
    joint = joints.Composite((joints.Translational(), joints.SphericalEuler("xyz")))
    model = build([(-1, joint, 0 * X, (1, 1, 1), 0 * X)], (0.0, 0.0, -1.0))
    return Scene(model, state([0] * 6, [0, 0, 3, 0.2, 0.4, 0.6]), 0.0, 6.0, 5e-2)


def turning_slide():
    joint = joints.Composite((turn(X), slide(X)))
    model = build([(-1, joint, 0 * X, (1, 1, 10), 5 * Z)])
    return Scene(model, state([0.1, 0], [0, 1]), 918.5086593281, dt=2e-2)


def spline():
    """A bar that slides along a closed curve of frames."""
    place = np.array([-10 * X, -2 * Z, 10 * X, 2 * Z])
    angles = np.array([PI, PI / 2, 0, -PI / 2])
    bodies = [
        (-1, turn(Y), 0 * X, (1, 1, 10), -5 * Z),
        (0, joints.SplineCurve(at(place, angles[:, None] * Y)), -10 * Z, (10, 1, 1), 5 * X),
        (1, turn(Y), 10 * X, (10, 1, 1), 5 * X),
    ]
    return Scene(build(bodies), state([0, 0, 15 * PI / 16]), -30627.8479814097, dt=5e-3)


class InTwists(forces.Force):
    """A force that is implicit as in (2.79): `Jᵀ K J` with K the symmetric stiffness in body twists and constant J.

    The exact derivative also has the change of `Jᵀ` under the current wrenches, a first-order effect in the step.
    """

    force: forces.Force

    def generalized_force(self, motion):
        model, q, v = motion.model, jax.lax.stop_gradient(motion.q), jax.lax.stop_gradient(motion.v)
        stiffness, damping = (f(model, q, v) for f in (self.force.body_stiffness, self.force.body_damping))
        bodies = jnp.array(self.force.acts_on(model))
        column = lambda dv: rbd.jacobian_product(model, q, dv, "body")[bodies].reshape(-1)
        J = jax.vmap(column, out_axes=1)(jnp.eye(model.nv))
        step = (stiffness + stiffness.T) / 2 @ (J @ rbd.difference(model, q, motion.q))
        return self.force(model, q, v) + J.T @ (step - damping @ (J @ (motion.v - v)))

    def stored_energy(self, motion):
        return self.force.stored_energy(motion)


class HingeInTheWorld(constraints.Constraint):
    """The loop of a mechanism in the x-z plane, with its gap in world axes as the reference stabilizes it.

    `HingeLoop` has the gap in the axes of its first body. Both vanish together, but `ġ = -γ g` differs.
    """

    rows = 2

    def __init__(self, body_a, point_a, body_b, point_b):
        self.bodies, self.joints = (body_a, body_b), ()
        self.frames = rbd.Transform.from_position(jnp.stack([jnp.asarray(point_a), jnp.asarray(point_b)]))

    def residual(self, placements, coordinates):
        return (placements[0].position - placements[1].position)[::2]


class LedTip(constraints.NonholonomicConstraint):
    """Prescribed motion of a body in the x-z plane: its rotation, and its center's velocity in body axes.

    It moves back and turns for two seconds, turns back, leaves while turning the other way, and stops after eight. Over a
    step, the reference uses the velocity at the end in the axes of the start.
    """

    time: jax.Array

    rows = 3
    rheonomic = True

    def __init__(self, body, centre):
        self.attach("world", None, body, centre)
        self.time = jnp.zeros(())

    def at_time(self, time):
        return self.changed(time=time)

    def slip(self, relative, twist):
        t = self.time + 5e-2
        corners = jnp.array([0.0, 2, 4, 6, 8])
        turning = jnp.interp(t, corners, jnp.array([0.0, -2, 0, 2, 0]))
        along = jnp.interp(t, corners, jnp.array([0.0, 0, 0, -4, 0]))
        turns, moves = relative.rotation.T @ twist[:3], relative.rotation.T @ (twist[3:] - along * X)
        return jnp.stack([turns[1] - turning, moves[0], moves[2]])


def led_tip():
    """Four bars in a row, the last with prescribed motion: one degree of freedom is left."""
    bodies = [
        (-1, turn(Y), 0 * X, (1, 1, 10), -5 * Z),
        (0, turn(Y), -10 * Z, (10, 1, 1), 5 * X),
        (1, turn(Y), 10 * X, (1, 1, 10), 5 * Z),
        (2, turn(Y), 10 * Z, (10, 1, 1), 5 * X),
    ]
    model = build(bodies, loops=[LedTip("body 3", 5 * X)])
    scheme = rbd.LinearlyImplicitEuler(baumgarte=5.0)
    return Scene(model, state([0] * 4), -765.6565884021, 10.0, 5e-2, scheme)


def led_tip_and_joint():
    """Five bars in a row, the last body and one joint with prescribed motion."""

    def angle(time):
        return PI / 2 / (1 + jnp.exp(-7 * (2 * (time / 10 - 0.5))))

    def velocities(time, state):
        end = time + 5e-2
        speed = jax.jvp(angle, (end,), (jnp.ones_like(end),))[1]
        return jnp.zeros(5).at[2].set(speed + 5 * (angle(end) - state.q[2]))

    bodies = [
        (-1, turn(Y), 0 * X, (1, 1, 10), -5 * Z),
        (0, turn(Y), -10 * Z, (10, 1, 1), 5 * X),
        (1, turn(Y), 10 * X, (10, 1, 1), 5 * X),
        (2, turn(Y), 10 * X, (1, 1, 10), 5 * Z),
        (3, turn(Y), 10 * Z, (10, 1, 1), 5 * X),
    ]
    model = build(bodies, loops=[LedTip("body 4", 5 * X)])
    scheme = rbd.LinearlyImplicitEuler(baumgarte=5.0, prescribed=("body 2",))
    return Scene(model, state([0] * 5), 50368.3587015155, 10.0, 5e-2, scheme, velocities)


def driven_linkage():
    """A crank and two rods on a hanging bar; the crank turns twice per second."""
    z, crank, speed = np.sqrt(1280) / 3, 22 / 3, 4 * PI
    lean = crank - 6

    def rod(length, x, centre):
        box = rbd.Inertia.box(length / 4, (length, 0.5, 0.5))
        return box.placed(at(np.asarray(centre), (0.0, -np.arctan2(z, x), 0.0)))

    builder = rbd.ModelBuilder((0.0, 0.0, -980.0), "scene")
    builder.add_body("body 0", "world", turn(Y), at(10 * Z), rbd.Inertia.box(2.5, (10, 0.5, 0.5)))
    builder.add_body(
        "body 1", "body 0", turn(Y), at(-5 * X), rbd.Inertia.box(1.0, (4, 0.5, 0.5), (2.0, 0, 0))
    )
    builder.add_body("body 2", "body 1", turn(Y), at(4 * X), rod(14, crank, (crank * X + z * Z) / 2))
    builder.add_body(
        "body 3", "body 2", turn(Y), at(crank * X + z * Z), rod(12, lean, -(lean * X + z * Z) / 2)
    )
    builder.add_constraint(HingeInTheWorld("body 3", -lean * X - z * Z, "body 0", 5 * X))
    scheme = rbd.LinearlyImplicitEuler(baumgarte=20.0, prescribed=("body 1",))
    led = lambda time, state: jnp.zeros(4).at[1].set(speed)
    return Scene(builder.build(), state([PI, 0, 0, 0]), 4641.9162041538, 1.0, 5e-3, scheme, led)


def branching():
    """A post, a crossbar, and an arm on each of its ends; three directions of axes."""
    bodies = [
        (-1, turn(X), 15 * Z, (1, 1, 10), -5 * Z),
        (0, turn(Z), -10 * Z, (1, 20, 1), 0 * X),
        (1, turn(X), -10 * Y, (1, 1, 10), -5 * Z),
        (1, turn(Y), 10 * Y, (1, 1, 10), -5 * Z),
    ]
    return Scene(build(bodies), state([0, 0, PI / 4, PI / 4]), -1123.9825362491)


def steps_of_torque():
    """Three bars with torques that change twice; each step uses the torque at its end."""

    def torques(time, state):
        phase = jnp.sum((time + 5e-2 > jnp.array([3.0, 6.0]) - 1e-6).astype(int))
        return 100 * jnp.array([[0.0, 0, 1], [0, 1, -1], [1, -1, 0]])[phase]

    model = build(chain(*[turn(Y)] * 3), (0.0, 0.0, 0.0))
    return Scene(model, state([0] * 3), 170.5971183035, 10.0, 5e-2, controls=torques)


def coupled_loop():
    """Six hinges in a loop, one rotated half as far as another, and an arm on it."""
    bodies = [
        (-1, joints.Fixed(), 0 * X, (10, 1, 1), 0 * X),
        (0, turn(Y), 5 * X, (1, 1, 10), -5 * Z),
        (1, turn(Y), -10 * Z, (1, 1, 10), -5 * Z),
        (2, turn(Y), -10 * Z, (10, 1, 1), -5 * X),
        (3, turn(Y), -10 * X, (1, 1, 10), 5 * Z),
        (4, turn(Y), 10 * Z, (1, 1, 10), 5 * Z),
        (3, turn(Y), -5 * X, (1, 1, 10), -5 * Z),
    ]
    close = HingeInTheWorld("body 5", 10 * Z, "body 0", -5 * X)
    couple = constraints.CoordinateCoupling({"body 2": (0.0, 0.5), "body 5": (0.0, -1.0)})
    model = build(bodies, loops=[close, couple])
    scheme = rbd.LinearlyImplicitEuler(baumgarte=5.0)
    return Scene(model, state([0] * 6, [0] * 5 + [10]), 14677.4348748326, dt=2e-2, scheme=scheme)


def pulled_chain():
    """Three bars with damping in body axes, pulled at the tip by a force that is explicit in the reference."""
    model = build(chain(*[turn(Y)] * 3), (0.0, 0.0, 0.0))
    centre = at(5 * X)
    resisting = tuple(InTwists(forces.ViscousDamping(f"body {i}", 10.0, centre)) for i in range(3))
    pull = forces.DirectionalForce("body 2", 10 * X, 1e3 * Z)
    controls = lambda time, state: pull(model, state.q, state.v)
    return Scene(model, state([0] * 3), 1088.3425711375, controls=controls, forces=resisting)


def universal_joints():
    """Three bars, each rotated about one of the two axes of its joint."""
    bodies = [(i - 1, joints.Universal(), -10 * Z if i else 0 * Z, (1, 1, 10), -5 * Z) for i in range(3)]
    start = state([PI / 8, 0, 0, PI / 8, PI / 8, 0])
    return Scene(build(bodies), start, 9679.3365423127)


def sliding_loop():
    """A four-bar linkage with one sliding joint, with an arm on the long bar."""
    bodies = [
        (-1, joints.Fixed(), 0 * X, (22, 1, 1), 0 * X),
        (0, turn(Y), -11 * X, (1, 1, 10), -5 * Z),
        (1, slide(X), -10 * Z, (22, 1, 1), 11 * X),
        (2, turn(Y), 22 * X, (1, 1, 10), 5 * Z),
        (2, turn(Y), 11 * X, (1, 1, 10), -5 * Z),
    ]
    close = HingeInTheWorld("body 3", 10 * Z, "body 0", 11 * X)
    scheme = rbd.LinearlyImplicitEuler(baumgarte=5.0)
    start = state([0, 0, 0, 3 * PI / 4])
    return Scene(build(bodies, loops=[close]), start, -17427.8561972516, scheme=scheme)


def surface():
    """A bar that slides on a bowl of frames and carries another."""
    share = np.linspace(-1, 1, 4)
    x, y = np.meshgrid(15 * share, 15 * share, indexing="ij")
    tilt = np.broadcast_to((PI / 4 * share)[:, None], (4, 4))
    controls = np.stack([x, y, 0.05 * (x**2 + y**2), tilt, tilt, 0 * x], axis=-1)
    bodies = [
        (-1, turn(X), 0 * X, (1, 1, 10), -5 * Z),
        (0, joints.SplineSurface(controls), -14 * Z, (1, 1, 10), -5 * Z),
        (1, turn(Y), -10 * Z, (1, 1, 10), -5 * Z),
    ]
    return Scene(build(bodies), state([PI / 8, 0.5, 0.5, PI / 4]), 2154.9740571400)


def springs_between_bars():
    """Four bars, with springs of zero rest length between neighbors."""
    model = build(chain(*[turn(Y)] * 4))
    ties = tuple(
        InTwists(forces.PointToPoint((f"body {i}", f"body {i + 1}"), [4 * X, 10 * X], 1e2)) for i in range(3)
    )
    start = state([PI / 2] + [PI / 16] * 3)
    return Scene(model, start, 2125.1442936081, forces=ties)


def composite_body():
    """A bar with a cylinder across its end, as one body (eqs. 1.25 and 1.26)."""
    bar = rbd.Inertia.box(10.0, (1, 1, 10), (0.0, 0.0, -5.0))
    rod = rbd.Inertia.cylinder(10 * PI, 1.0, 10.0).placed(at((5.0, 0.0, -10.0), (0.0, PI / 2, 0.0)))
    builder = rbd.ModelBuilder((0.0, 0.0, -980.0), "scene")
    builder.add_body("body 0", "world", turn(Y), inertia=bar + rod)
    return Scene(builder.build(), state([0]), 1261.6057602037)


def two_blocks():
    """Two blocks; the reference uses a mesh with rounded coordinates and integrals."""
    block = np.array([[x, y, z] for x in (0, 1) for y in (-1, 1) for z in (-3, 0)], float)
    faces = [(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1)]
    faces += [(2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)]
    inertia = rbd.Inertia.from_mesh(block, faces, density=1.0)
    builder = rbd.ModelBuilder((0.0, 0.0, -980.0), "scene")
    builder.add_body("body 0", "world", turn(Y), inertia=inertia)
    builder.add_body("body 1", "body 0", turn(Y), at(-3 * Z), inertia)
    return Scene(builder.build(), state([0, 0]), 59.8820887156, 1.0)


def sliding_bar():
    """A bar that slides, with an arm on its end."""
    bodies = [(-1, slide(X), 0 * X, (20, 1, 1), 0 * X), (0, turn(Y), -10 * X, (1, 1, 10), -5 * Z)]
    return Scene(build(bodies), state([0, PI / 2]), 0.0, 1.0)


def stops():
    """Three hanging bars on hinges that turn only one way, with limits made of springs and dampers."""
    model = build(chain(*[turn(Y)] * 3), (980.0, 0.0, 0.0), damping=1e2, lower=-PI / 2, upper=0.0)
    stop = forces.JointLimit(1e5, 1e2, transition=1e-9)
    return Scene(model, state([0, -PI / 6, -PI / 6]), 0.0, 1.0, 5e-3, forces=(stop,))


def thrown_in_the_plane():
    model = build([(-1, joints.Free2D(), 0 * X, (1, 1, 1), 0 * X)], (0.0, -980.0, 0.0))
    return Scene(model, state([-10, -10, 0], [50, 200, 20]), 0.0, 0.4, 5e-3)


def free_in_the_plane():
    bodies = [
        (-1, joints.Free2D(), 0 * X, (10, 1, 1), 0 * X),
        (0, turn(Z), 5 * X, (10, 1, 1), 5 * X),
    ]
    start = state([0] * 4, [0, 0, 1, -1])
    return Scene(build(bodies, (0.0, -1.0, 0.0)), start, 166.9232451757, 10.0)
