"""Properties of single force families: zero length, slack, joint limits, fields; and rejected arguments."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from acting import BOX, ROD, mechanism, state
from support import assert_close

import rbd_jax as rbd
from rbd_jax import forces
from rbd_jax.forces._one_sided import compression, engagement, work


TWO = (("a", "b"), np.zeros((2, 3)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_zero_length_is_finite(dtype):
    """Force, first and second derivatives in both modes are finite where the points coincide, and close to it."""
    families = [
        forces.PointToPoint(*TWO, 30.0),
        forces.SpringDamper(*TWO, 0.5, 30.0, 2.0),
        forces.Cable(*TWO, 0.5, 30.0, 2.0),
        forces.Muscle(*TWO, 30.0, 0.5, 0.1, 10.0, 0.5),
        forces.SpringNetwork(*TWO, [(0, 1)], 0.5, 30.0, 2.0),
    ]
    families = jax.tree.map(lambda x: x.astype(dtype), families)
    apart = jnp.asarray([0.0, 1e-30, 1e-15, 1e-8, 1e-4], dtype)

    def pulls(x):
        positions, velocities = x
        return [f.pulls(positions, velocities) for f in families]

    def energies(x):
        return [f.energy_of(x[0], jnp.zeros(3, dtype)) for f in families]

    @jax.jit
    @jax.vmap
    def ask(distance):
        ends = jnp.zeros((2, 2, 3), dtype).at[0, 1].set(distance).at[1, 1].set(1)
        first = jax.jacfwd(pulls)(ends), jax.jacrev(energies)(ends)
        return pulls(ends), first, jax.jacfwd(jax.jacrev(pulls))(ends)

    values, first, second = ask(apart)
    for leaf in jax.tree.leaves((values, first, second)):
        assert np.isfinite(leaf).all()
    # A spring of zero rest length is smooth there; the others have no direction, and zero force.
    assert all(not np.any(value[0]) for value in values)
    np.testing.assert_allclose(first[0][0][0][0, :, 0, 1], 30 * np.eye(3))


def test_cable_goes_slack_and_never_pushes():
    cable = forces.Cable(*TWO, 1.0, 50.0, 10.0, 0.1)

    compiled = jax.jit(lambda length, rate: (cable.tension_at(length, rate), cable.energy_at(length)))

    def tension(length, rate):
        return float(compiled(length, rate)[0])

    assert tension(0.99, 5.0) == 0 == float(compiled(0.9, 0.0)[1])
    np.testing.assert_allclose(tension(1.5, 0.0), 50 * (0.5 - 0.05))
    np.testing.assert_allclose(tension(1.5, 0.3) - tension(1.5, 0.0), 3.0)
    assert tension(1.2, -50.0) == 0


def test_one_sided_spring_is_smooth():
    """`work` is the double integral of `engagement`, which is continuous with its slope."""
    x = np.linspace(-0.05, 0.25, 301)
    assert (x == 0.0).any() or np.abs(x).min() < 1e-12

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, None))
    def ask(x, width):
        return [jax.value_and_grad(function)(x, width) for function in (work, compression, engagement)]

    (_, push), (pushed, slope), (engaged, bend) = jax.tree.map(np.asarray, ask(x, np.array(0.1)))
    np.testing.assert_allclose(slope, engaged, atol=1e-12)
    np.testing.assert_allclose(push, pushed, atol=1e-13)
    assert np.abs(np.diff(bend)).max() < 1.3 * 6 / 0.1**2 * 1e-3  # no jump: its slope is at most 6/width²
    assert pushed[0] == 0 and np.all(np.diff(pushed) >= 0)


def test_joint_limits_push_back_inside():
    """Beyond the smooth zone the force is `k (x - transition/2)`, per joint; other joints have zero force."""
    builder = rbd.ModelBuilder(name="stops")
    builder.add_body("slide", joint=rbd.joints.Prismatic(), inertia=ROD, lower=-1.0, upper=2.0)
    builder.add_body("hinge", "slide", rbd.joints.Revolute(), inertia=ROD, lower=-0.5)
    builder.add_body("ball", "hinge", rbd.joints.Spherical(), inertia=ROD)
    model = builder.build()
    rest, still = rbd.neutral(model), jnp.zeros(model.nv)

    @jax.jit
    @jax.vmap
    def ask(slide, hinge, rate):
        q, v = rest.at[0].set(slide).at[1].set(hinge), still.at[0].set(rate)
        pair = forces.JointLimit(100.0, 7.0, 0.1), forces.JointLimit(100.0, 7.0, 0.1, "hinge")
        return [f(model, q, v) for f in pair]

    slides, hinges = np.array([0.0, 2.5, -1.5, 2.5]), np.array([0.0, -1.0, 50.0, 0.0])
    both, only = ask(slides, hinges, np.array([1.0, 0.0, 0.0, 2.0]))
    expected = np.zeros((4, model.nv))
    expected[1, :2], expected[2, 0], expected[3, 0] = (-45.0, 45.0), 45.0, -45.0 - 14.0
    np.testing.assert_allclose(both, expected, atol=1e-12)
    expected[:, 0] = 0
    np.testing.assert_allclose(only, expected, atol=1e-12)


def test_joint_limits_of_coordinates_that_are_not_velocities():
    """A planar joint's velocity is in body axes: the limit in x acts along both axes if the body is rotated."""
    builder = rbd.ModelBuilder(name="plane")
    limits = {"lower": [-9.0, -9.0, -9.0], "upper": [9.0, 0.5, 9.0]}
    builder.add_body("puck", joint=rbd.joints.Planar(), inertia=BOX, **limits)
    model, stop = builder.build(), forces.JointLimit(100.0, 0.0, 0.1)
    q, v = np.array([0.8, 1.0, 0.3]), np.array([0.2, -0.5, 0.9])
    tau, lost = jax.jit(lambda q, v: (stop(model, q, v), stop.dissipation(model, q, v)))(q, v)
    np.testing.assert_allclose(lost, 0.0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(tau), 45.0)
    np.testing.assert_allclose(tau, -45.0 * np.array([0.0, np.cos(0.8), -np.sin(0.8)]), atol=1e-12)


def tilting(gravity):
    """Returns a ball joint with a welded part."""
    builder = rbd.ModelBuilder(gravity, "tilting")
    builder.add_body("arm", joint=rbd.joints.Spherical(), inertia=ROD)
    builder.add_body("tool", "arm", placement=(0.0, 0.1, -1.0), inertia=BOX)
    return builder.build()


def test_uniform_field_is_the_gravity_of_the_model():
    heavy, light = tilting((0.3, -0.2, -9.81)), tilting((0.0, 0.0, 0.0))
    field = forces.GravityField(lambda x: -jnp.dot(heavy.gravity, x))
    q, _ = state(heavy)

    @jax.jit
    def ask(q):
        v = jnp.zeros(heavy.nv)
        return (
            field(light, q, v),
            -rbd.gravity_force(heavy, q),
            field.energy(light, q),
            rbd.potential_energy(heavy, q),
        )

    tau, weight, energy, expected = ask(q)
    assert_close(tau, weight, 1e-12)
    assert_close(energy, expected, 1e-12)


def test_central_field():
    """The force is `μ m/r²` towards the center, and the gravity-gradient moment `3 μ/r³ n × I n` about the center of mass."""
    builder = rbd.ModelBuilder((0.0, 0.0, 0.0), "satellite")
    inertia = rbd.Inertia.from_mass_com(2.0, (0.1, 0.2, -0.1), np.diag([1.0, 2.0, 2.5]))
    builder.add_body("satellite", joint=rbd.joints.Free(), inertia=inertia)
    builder.add_body("label", "satellite")
    model, field = builder.build(), forces.GravityField(forces.CentralPotential(5.0, (1.0, 0.0, 0.0)))
    q = np.array([80.0, -40.0, 30.0, 0.5, -0.4, 0.7, 0.1])
    ask = jax.jit(lambda q: (field.wrenches(model, q, jnp.zeros(6)), rbd.forward_kinematics(model, q)))
    wrenches, frames = jax.tree.map(np.asarray, ask(q))
    R, p = frames.rotation[0], frames.position[0]
    center = p + R @ np.array([0.1, 0.2, -0.1])
    apart = center - np.array([1.0, 0.0, 0.0])
    r, n = np.linalg.norm(apart), apart / np.linalg.norm(apart)
    moment = wrenches[0, :3] - np.cross(center, wrenches[0, 3:])
    I = R @ np.diag([1.0, 2.0, 2.5]) @ R.T
    np.testing.assert_allclose(moment, 15.0 / r**3 * np.cross(n, I @ n), rtol=1e-6)
    # The shape's relative contribution to the force is of the order (size/r)².
    np.testing.assert_allclose(wrenches[0, 3:], -5.0 * 2.0 / r**2 * n, atol=10 * 5.0 / r**4)
    assert not np.any(wrenches[1])


def spring(bodies=("tool", "stone"), points=((0.0, 0.0, 0.0),) * 2, rest_length=1.0, spring_constant=2.0):
    return forces.SpringDamper(bodies, points, rest_length, spring_constant)


REFUSED = {
    "rest length zero": (lambda: spring(rest_length=0.0), "rest_length.*greater than 0.*PointToPoint"),
    "negative length": (lambda: spring(rest_length=-1.0), "rest_length"),
    "negative stiffness": (lambda: spring(spring_constant=-1.0), "spring_constant.*less than 0"),
    "not finite": (lambda: spring(spring_constant=np.nan), "spring_constant.*not finite"),
    "a vector": (lambda: spring(rest_length=[1.0, 2.0]), r"rest_length has shape \(2,\); it is one number"),
    "not a number": (lambda: spring(rest_length="long"), "rest_length.*one number"),
    "points of another shape": (
        lambda: spring(points=np.zeros((3, 3))),
        r"points has shape \(3, 3\).*\(2, 3\)",
    ),
    "three bodies": (lambda: spring(bodies=("a", "b", "c")), "bodies has 3 names; it takes 2"),
    "a body by number": (lambda: spring(bodies=(0, 1)), "bodies.*names"),
    "nothing but the world": (lambda: spring(bodies=("world", "world")), "all its points are in the world"),
    "a path of one point": (lambda: forces.Cable(("a",), np.zeros((1, 3)), 1.0, 1.0), "two points or more"),
    "cable of no length": (lambda: forces.Cable(*TWO, 0.0, 1.0), "Cable: rest_length"),
    "activation": (lambda: forces.Muscle(*TWO, 1.0, 1.0, activation=1.5), "activation.*more than 1"),
    "optimal length": (lambda: forces.Muscle(*TWO, 1.0, 0.0), "Muscle: optimal_length"),
    "coefficients": (lambda: forces.ViscousDamping("tool", [1.0, 2.0]), r"coefficients has shape \(2,\)"),
    "force": (lambda: forces.DirectionalForce("tool", np.zeros(3), [1.0]), r"force has shape \(1,\)"),
    "transition": (lambda: forces.JointLimit(1.0, transition=0.0), "transition.*greater than 0"),
    "potential": (lambda: forces.GravityField(9.81), "function of a point"),
    "gear by itself": (lambda: forces.Gear("wheel", "wheel", 1.0, 1.0), "cannot drive itself"),
    "not a force": (lambda: forces.Together(lambda model, q, v: v), r"forces\[0\].*not a Force"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_parameters_are_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_use_is_refused():
    model = mechanism()
    q, v = state(model)
    with pytest.raises(
        rbd.UnknownNameError, match="SpringDamper: bodies: .*no body 'ston'; did you mean 'stone'"
    ):
        spring(bodies=("tool", "ston"))(model, q, v)
    with pytest.raises(rbd.UnknownNameError, match="ViscousDamping.*no body 'leg'"):
        forces.ViscousDamping("leg", 1.0).wrenches(model, q, v)
    with pytest.raises(ValueError, match="SpringDamper: v has shape"):
        spring()(model, q, jnp.asarray(np.zeros(3)))
    with pytest.raises(ValueError, match="SpringDamper: q has shape"):
        spring().energy(model, v)
    with pytest.raises(ValueError, match="joint 'arm' must have one degree of freedom"):
        forces.Gear("arm", "wheel", 1.0, 1.0)(model, q, v)
    with pytest.raises(ValueError, match="'pinion' has no coordinates of its own: it mimics 'wheel'"):
        forces.JointLimit(1.0, joints="pinion")(model, q, v)
