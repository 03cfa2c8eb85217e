"""Derivatives at kinks where typical values lie: at rest, at a limit, at a bound, at touching contact.

Such a value may be the boundary of the admissible set. The derivative is then the one-sided derivative from inside,
which predicts the effect of admissible changes. The derivative of `jnp.clip` and `jnp.maximum` would be the mean of
both sides.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax import actuators as AT, forces
from rbd_jax._core.array import at_least, beyond, clamped
from rbd_jax.contact.soft_rows import softness
from rbd_jax.contact.solvers.terms import Rows
from rbd_jax.dynamics import Motion
from rbd_jax.forces._one_sided import compression, engagement, work
from rbd_jax.forces.wrapping import wrapped
from rbd_jax.sensors.errors import delayed
from rbd_jax.tasks.task import Task


STEP = 1e-6


def agrees(function, at, sides, tolerance=1e-5, step=STEP, modes=2):
    """Checks derivatives of a vector function against difference quotients, and returns them.

    `sides` has 1 or -1 for each entry of each point; entries with side zero are not checked. With `modes=1` only
    forward mode is checked.
    """
    at, sides = np.asarray(at, float), np.asarray(sides, float)

    @jax.jit
    def ask(at, sides):
        def one(x, sides):
            here, push = jax.linearize(function, x)
            forward = jax.vmap(push, out_axes=-1)(jnp.eye(x.size))
            quotients = (jax.vmap(function)(x[None] + step * jnp.diag(sides)) - here[None]) / step
            if modes == 1:
                return forward, forward, quotients
            pull = jax.linear_transpose(push, x)
            reverse = jax.vmap(lambda y: pull(y)[0])(jnp.eye(here.size).reshape(here.size, *here.shape))
            return forward, reverse.reshape(forward.shape), quotients

        return jax.vmap(one)(at, sides)

    forward, reverse, quotients = map(np.asarray, ask(at, sides))
    assert_close(reverse, forward, 1e-12)
    expected = np.moveaxis(quotients, 1, -1) * sides.reshape(len(at), *[1] * (forward.ndim - 2), -1)
    asked = np.broadcast_to(sides.reshape(len(at), *[1] * (forward.ndim - 2), -1) != 0, forward.shape)
    assert_close(np.where(asked, forward, 0), np.where(asked, expected, 0), tolerance)
    return forward


def pair(first, second):
    """Returns all pairs from two lists of (point, side): points and sides, (n, 2) each."""
    points = [[a, b] for a, _ in first for b, _ in second]
    return np.array(points), np.array([[a, b] for _, a in first for _, b in second])


def test_ranges():
    """Values at the ends of a range, which may have zero width; at a lower bound; and at the ends of a slack range."""
    inside = lambda x: clamped(x, jnp.asarray([0.0, 0.0, -jnp.inf]), jnp.asarray([1.0, 1.0, 1.0]))
    agrees(inside, [[0.0, 1.0, 1.0], [-1.0, 2.0, 0.5]], [[1, -1, -1], [1, 1, 1]])
    agrees(lambda x: at_least(x, 0.0), [[0.0, 1.0, -1.0]], [[1, 1, 1]])
    agrees(lambda x: beyond(x, 0.0, 1.0), [[0.0, 1.0, 0.5]], [[-1, 1, 1]])
    # In a range of zero width the value does not change with the input, for any change of the width.
    of_width = lambda x: clamped(x[0], -x[1], x[1])[None]
    slopes = agrees(of_width, [[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], [[1, 1]] * 3)
    assert not slopes[0].any()
    # A spring without slack acts on both sides.
    found = agrees(lambda x: beyond(x, 1.0, 1.0), [[1.0], [1.0]], [[1], [-1]])
    np.testing.assert_array_equal(found, 1)


ACTIVATIONS = {
    "integrator": AT.Integrator(),
    "filter": AT.Filter(0.1),
    "muscle": AT.MuscleActivation(),
    "smooth muscle": AT.MuscleActivation(smoothing=0.3),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_rates_of_activations(name):
    """By control and activation at the ends of their ranges and between, from inside.

    Where a muscle's activation equals its control, activation and deactivation have different time constants. No single
    derivative predicts changes of both control and activation. The result is the one-sided derivative for the control,
    with one of the two time constants.
    """
    rate, kinked = ACTIVATIONS[name].rate, name == "muscle"
    ends = [(0.0, 1), (0.84, 1), (1.0, -1)]
    at, sides = pair(ends, ends)
    equal = (at[:, 0] == at[:, 1]) & kinked
    sides[equal, 1] = 0
    slopes = agrees(lambda x: rate(x[0], x[1]), at, sides, 1e-3)
    np.testing.assert_allclose(slopes[equal, 1], -slopes[equal, 0], rtol=1e-12)


def test_rest_is_no_jump_for_an_implicit_step():
    """An implicit step from zero activation is the limit of steps from small activations."""
    curves = AT.MuscleCurves(peak_force=100.0, length_range=(0.0, 1.0))
    model = rbd.attach(rbd.load("pendulum"), AT.Muscle("muscle", "swing", curves))

    @jax.jit
    @jax.vmap
    def step(activation, u):
        state = rbd.State(jnp.full(1, 0.3), jnp.zeros(1), activation[None])
        return rbd.step(model, state, rbd.Controls(u[None]), 0.01, rbd.LinearlyImplicitEuler()).own

    rest, near = np.asarray(step(np.array([0.0, 1e-7]), np.array([0.84, 0.84])))
    assert_close(near, rest, 1e-6)


def swing(*things):
    return rbd.attach(rbd.load("pendulum"), *things)


def driven(x, **options):
    """Returns an actuator's generalized force, its force, and its activation rate if it has one.

    x is (control, activation, q, v).
    """
    motor = AT.Actuator("motor", "swing", gain=2.0, bias=AT.Affine(0.0, -3.0, -0.5), **options)
    model = replace(swing(motor), effort_limit=jnp.full(1, 2.0))
    drive = AT.Drive(model.actuators, x[:1], x[1:2] if motor.dynamics is not None else None)
    motion = Motion(model, x[2:3], x[3:4])
    own = drive.own_rate(motion) if motor.dynamics is not None else jnp.zeros(0)
    return jnp.concatenate([drive.generalized_force(motion), drive.forces(motion), own])


DRIVEN = {
    "control": ({"control_range": (-1, 1)}, [[1, 0, 0.3, 0.1]], [[-1, 0, 1, 1]]),
    # At both ends of the force range. 2 N m is the effort limit as well as the largest force.
    "force": ({"force_range": (-2, 2)}, [[1, 0, 0, 0], [-1, 0, 0, 0]], [[-1, 0, 1, 1], [1, 0, -1, -1]]),
    "rest": ({"dynamics": AT.MuscleActivation(), "activation_range": (0, 1), "control_range": (0, 1)},
             [[0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]],
             [[1, 0, 1, 1], [-1, 0, 1, 1], [-1, 1, 1, 1], [1, 0, 1, 1]]),
}  # fmt: skip


@pytest.mark.parametrize("name", DRIVEN)
def test_actuators_at_their_ranges(name):
    options, at, sides = DRIVEN[name]
    agrees(lambda x: driven(x, **options), at, sides, 1e-3)


def test_dampers_that_are_not_there_yet():
    """An implicit step is differentiable by an actuator's damping and stiffness coefficients, which are zero and can
    only increase.
    """
    model = swing()
    state = rbd.State(jnp.full(1, 0.3), jnp.full(1, 2.0))

    def after(x):
        bias = AT.Affine(0.0, -x[0], -x[1])
        motor = AT.Actuator("motor", "swing", gain=1.0, bias=bias)
        motion = Motion(rbd.attach(model, motor), state.q, state.v)
        by_rate, by_length = AT.Drive((motor,)).joint_resistance(motion)
        return jnp.concatenate([by_rate, by_length])

    found = agrees(after, [[0.0, 0.0], [1.0, 0.0]], [[1, 1], [1, 1]])
    assert_close(found[0], np.eye(2)[::-1], 1e-12)


def test_springs_on_one_side():
    """One-sided springs of cables and joint limits have derivatives where the force begins and where the rounded corner
    ends.

    Energy, force and stiffness are smooth there.
    """
    width = 0.1
    of = lambda function: lambda x: jax.vmap(lambda x: function(x, jnp.asarray(width)))(x)
    second = jax.vmap(jax.grad(lambda x: work(x, jnp.asarray(width))))
    for function in (of(work), of(compression), of(engagement), second):
        at = [[0.0, width], [0.0, width], [-1.0, 1.0]]
        agrees(function, at, [[1, 1], [-1, -1], [1, 1]], 1e-3)
    bends = jax.jit(jax.vmap(jax.grad(jax.grad(lambda x: work(x, jnp.asarray(width))))))(np.array([0, width]))
    np.testing.assert_allclose(bends, [0, 1], atol=1e-12)


def spring(rest):
    """Returns the force of a tendon whose length is twice q."""
    rope = forces.FixedTendon("rope", {"swing": 2.0}, spring_constant=3.0, rest_length=rest)
    tendons = forces.tendon.TendonForces((rope,))
    return lambda x: tendons.generalized_force(Motion(swing(rope), x[:1], jnp.zeros(1)))


def test_tendons_at_their_rest_lengths():
    """At both ends of the slack range the spring acts; with a single rest length it acts on both sides."""
    agrees(spring((0.0, 1.0)), [[0.0], [0.5], [0.25]], [[-1], [1], [1]])
    found = agrees(spring(1.0), [[0.5], [0.5]], [[1], [-1]])
    np.testing.assert_allclose(found, -12)


def test_strings_that_only_touch():
    """The length of a string that is tangent to a sphere or a cylinder, and is moved further onto it.

    The last entry of x selects the surface.
    """

    def length(x):
        still = lambda value: jnp.asarray(value, x.dtype)
        rise = jnp.where(x[4] > 0, still(0.0), 0.3)
        a, b = jnp.stack([-1.0 + x[1], x[0], still(0.0)]), jnp.stack([1.0 + x[2], x[3], rise])
        wrap = wrapped(a, b, still(0.5), x[4] > 0, still([0.0, 0.5, 0.0]), jnp.asarray(True))
        part = lambda p, q: jnp.sqrt(jnp.sum((p - q) ** 2))
        bent = part(a, wrap.first) + wrap.length + part(b, wrap.second)
        return jnp.where(wrap.wraps, bent, part(a, b))[None]

    at = [[0.5, 0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 0.0, 0.5, -1.0]]
    agrees(length, at, [[-1, 1, 1, -1, 0]] * 2, 2e-3, modes=1)  # reverse mode takes seconds to compile


def test_readings_that_are_cut_off_or_late():
    """A reading at its cutoff has the derivative from inside. Delays of zero or a whole number of rows can increase."""
    model = swing(rbd.sensors.JointPosition("angle", "swing", cutoff=1.0))
    read = lambda x: rbd.sense(model, rbd.State(x, jnp.zeros(1)))["angle"]
    agrees(read, [[1.0], [-1.0]], [[-1], [1]])
    sensor = rbd.sensors.JointPosition("angle", "swing", delay=0.0)
    rows = np.array([0.0, 1.0, 4.0, 9.0, 16.0])[:, None]

    def late(x):
        one = eqx.tree_at(lambda sensor: sensor.delay, sensor, x[0])
        return delayed([one], jnp.asarray(np.linspace(0, 1, 5)), jnp.asarray(rows))[:, 0]

    found = agrees(late, [[0.0], [0.25], [0.3]], [[1], [1], [1]])
    np.testing.assert_allclose(found[0, :, 0], [0, -4, -12, -20, -28])


class Pushed(Task):
    """A pendulum whose torque is the action."""

    action_size = 1

    def controls(self, now, action):
        return action

    def observe(self, now):
        return now.q

    def reward(self, before, action, now):
        return {"angle": now.q[0]}

    def begin(self, model, key):
        return rbd.State(model.reference, jnp.zeros(model.nv))


def test_actions_at_their_bounds():
    task = Pushed(rbd.load("pendulum"), dt=0.1)

    def after(action):
        return task.step(task.reset(jax.random.key(0)), action).state.v

    slopes = agrees(after, [[1.0], [-1.0]], [[-1], [1]])
    assert (np.abs(slopes) > 0.01).all()


SOFT = [0.9, 0.95, 0.001, 0.5, 2.0]


def test_numbers_of_soft_rows():
    """By `solref` and `solimp` at their bounds.

    The time constant equals two steps, impedances are at their limits or equal, and the power is one.
    """
    numbers = np.array([[0.02, 1.0, *SOFT]] * 5)
    sides = np.ones_like(numbers)
    numbers[1, 2:4], sides[1, 2:4] = 0.9999, -1
    numbers[2, 2:4], sides[2, 2:4] = 1e-4, 1
    numbers[3, 2:4] = 0.95
    numbers[4, 6] = 1.0
    position = jnp.asarray(np.array([-4e-4]))

    def of(x):
        found = softness(position, x[None, :2], x[None, 2:], jnp.asarray(0.02, x.dtype))
        return jnp.concatenate([found.impedance, jnp.log(found.stiffness), jnp.log(found.damping)])

    agrees(of, numbers, sides, 1e-4, 1e-8)


def test_friction_that_is_not_there_yet():
    """The force of a dry-friction row by its bound, which is zero: it opposes motion and vanishes at rest."""

    def force(x):
        size, zero = x[:1], jnp.zeros(1)
        row = Rows(jnp.ones((1, 1)), zero, jnp.full(1, 1e3), -size, size)
        return row.force(row.rows(x[1:]))

    slopes = agrees(force, [[0.0, 1.0], [0.0, -1.0], [0.0, 0.0]], [[1, 1]] * 3)
    np.testing.assert_array_equal(slopes[:, 0], [[-1, 0], [1, 0], [0, 0]])


@pytest.mark.slow
@pytest.mark.parametrize("law", [rbd.contact.Soft, rbd.contact.Rigid])
def test_steps_by_friction_that_is_not_there_yet(law):
    """Steps of a joint by its dry friction, which is zero, in a model with a contact model."""
    builder = rbd.ModelBuilder()
    builder.add_body(
        "slide", joint=rbd.joints.Prismatic(axis=(1, 0, 0)), inertia=rbd.Inertia.sphere(1.0, 0.1)
    )
    ball = rbd.Shape("ball", "slide", rbd.shapes.Sphere(0.1))
    wall = rbd.Shape("wall", "world", rbd.shapes.Box((0.1, 1, 1)), (-5.0, 0, 0))
    model = rbd.attach(builder.build(), ball, wall, law())

    def after(x):
        state = rbd.State(jnp.zeros(1), x[1:])
        return rbd.step(replace(model, friction=x[:1]), state, dt=0.01).v

    slopes = agrees(after, [[0.0, 1.0], [0.0, -1.0], [0.0, 0.0]], [[1, 1]] * 3)
    np.testing.assert_allclose(slopes[:, 0, 0], [-0.01, 0.01, 0], atol=1e-12)


COMPLIANT = {
    "hunt-crossley": {"damping": 0.1},
    "linear": {"law": "linear"},
    "viscoelastic": {"law": "viscoelastic", "damping": 1.0, "series_stiffness": 50.0},
}


@pytest.mark.parametrize("law", COMPLIANT)
def test_shapes_that_only_touch(law):
    """The derivative of the force is one-sided: the shapes are apart, and the force is zero."""
    options = COMPLIANT[law]
    builder = rbd.ModelBuilder()
    builder.add_body("fall", joint=rbd.joints.Prismatic(axis=(0, 0, 1)), inertia=rbd.Inertia.sphere(1.0, 0.1))
    ball = rbd.Shape("ball", "fall", rbd.shapes.Sphere(0.125))
    floor = rbd.Shape("floor", "world", rbd.shapes.Plane())
    model = rbd.attach(builder.build(), ball, floor)
    touch = rbd.contact.Compliant("floor", "ball", 100.0, **options)
    agrees(lambda x: touch(model, x[:1], x[1:]), [[0.125, 0.0], [0.125, -1.0]], [[1, 1], [1, 1]])


@pytest.mark.parametrize("shape", [rbd.shapes.Box((0.1, 1.0, 1.0)), rbd.shapes.Cylinder(1.0, 0.2)])
def test_balls_in_the_middle(shape):
    """In the middle plane of a box or cylinder the distance changes along the reported normal."""
    ball = rbd.shapes.Sphere(0.1)

    def distance(x):
        at = rbd.Transform.from_position(x)
        return rbd.contact.contact_points(ball, at, shape, rbd.Transform.from_position(jnp.zeros(3)))

    at = np.array([0.0, 0.1, 0.0])
    found, slope = jax.jit(lambda x: (distance(x), jax.jacfwd(lambda x: distance(x).distance[0])(x)))(at)
    assert np.abs(np.asarray(found.normal[0])).max() == 1
    np.testing.assert_allclose(slope, -np.asarray(found.normal[0]), atol=1e-12)


def test_reach_of_links_without_length():
    """A body at its parent's origin, or with its center of mass there, contributes nothing to the reach or its
    derivatives.
    """
    model = rbd.load("double_pendulum")

    def reach(x):
        placements = replace(model.placements, position=model.placements.position + x.reshape(2, 3))
        return rbd.constraints.reach(replace(model, placements=placements))[None]

    assert np.isfinite(agrees(reach, [np.zeros(6)], [[0, 0, 0, 1, 1, 1]], 1e-4)).all()
