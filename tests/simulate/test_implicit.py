"""Implicit schemes: comparison with explicit formulas, and energies of published scenes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from schemes import IMPLICIT, VARIATIONAL, scheme
from simulated import energy
from support import assert_each_close

import rbd_jax as rbd


MASS, STIFFNESS, DAMPING, DT = 2.0, 300.0, 5.0, 0.05


def spring_damper():
    """Returns a slide with a spring and a damper, without gravity."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body(
        "mass",
        joint=rbd.joints.Prismatic((1.0, 0.0, 0.0)),
        inertia=rbd.Inertia.sphere(MASS, 0.1),
        stiffness=STIFFNESS,
        damping=DAMPING,
    )
    return builder.build()


def by_hand(name, steps, force):
    """Returns the steps of the formulas for `ẏ = A y + b`, `y = (x, ẋ)`."""
    a = np.array([[0.0, 1.0], [-STIFFNESS / MASS, -DAMPING / MASS]])
    b, one = np.array([0.0, force / MASS]), np.eye(2)
    ys = [np.array([0.1, -0.4])]

    def implicit(known, span):
        return np.linalg.solve(one - span * a, known + span * b)

    for number in range(steps):
        y = ys[-1]
        if name in ("BDF1", "LinearlyImplicitEuler"):
            ys.append(implicit(y, DT))
        elif name == "ImplicitMidpoint":
            ys.append(np.linalg.solve(one - DT / 2 * a, y + DT / 2 * a @ y + DT * b))
        elif number == 0:
            share = (2 - np.sqrt(2)) / 2
            stage = implicit(y, share * DT)
            ys.append(implicit(y + (1 - share) * DT * (a @ stage + b), share * DT))
        else:
            ys.append(implicit((4 * y - ys[-2]) / 3, 2 / 3 * DT))
    return np.array(ys)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LinearlyImplicitEuler", "BDF1", "BDF2", "ImplicitMidpoint"])
def test_of_a_spring_and_a_damper(name):
    state = rbd.State(np.array([0.1]), np.array([-0.4]))
    path = rbd.rollout(spring_damper(), state, jnp.asarray(np.full((6, 1), 0.7)), dt=DT, scheme=scheme(name))
    assert_each_close(np.concatenate([path.q, path.v], axis=1), by_hand(name, 6, 0.7), 1e-13)


@pytest.mark.slow
def test_damping_at_infinity():
    """For a spring with infinite stiffness relative to the step, generalized-α damps the fastest part by ρ∞ per step."""
    stiff = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    stiff.add_body(
        "mass",
        joint=rbd.joints.Prismatic((1.0, 0.0, 0.0)),
        inertia=rbd.Inertia.sphere(MASS, 0.1),
        stiffness=1e12,
    )
    model, state = stiff.build(), rbd.State(jnp.array([1e-6]), jnp.array([0.0]))
    for rho in (0.3, 0.8):
        path = jax.jit(
            lambda s, rho=rho: rbd.rollout(
                model, s, dt=DT, steps=60, scheme=scheme("GeneralizedAlpha", rho_infinity=rho)
            )
        )(state)
        size = np.abs(path.q[:, 0])
        found = (size[50:60].max() / size[30:40].max()) ** (1 / 20)
        np.testing.assert_allclose(found, rho, rtol=0.1)
    with pytest.raises(ValueError, match="rho_infinity must be from 0 .* got 1.5"):
        scheme("GeneralizedAlpha", rho_infinity=1.5)


def box(sides):
    return rbd.Inertia.box(float(np.prod(sides)), sides)


def scene(number):
    """Returns model and initial state of RedMax scenes 0, 1 and 17. Body frames are the joint frames here."""
    gravity = (0.0, 0.0, 0.0) if number == 17 else (0.0, 0.0, -980.0)
    builder = rbd.ModelBuilder(gravity=gravity)
    hinge = {axis: rbd.joints.Revolute(np.eye(3)["xyz".index(axis)]) for axis in "xyz"}
    rod = rbd.Inertia.box(10.0, (10.0, 1.0, 1.0), (5.0, 0.0, 0.0))
    along = rbd.Transform.from_xyz_rpy((10.0, 0.0, 0.0))
    if number == 17:
        builder.add_body("base", joint=rbd.joints.Translational(), inertia=box((10.0, 10.0, 1.0)))
        leg = rbd.Inertia.box(10.0, (1.0, 1.0, 10.0), (0.0, 0.0, -5.0))
        builder.add_body("one", "base", hinge["y"], rbd.Transform.from_xyz_rpy((-5.0, 0.0, 0.0)), leg)
        builder.add_body("two", "base", hinge["x"], rbd.Transform.from_xyz_rpy((0.0, -5.0, 0.0)), leg)
        return builder.build(), rbd.State(jnp.zeros(5), jnp.array([0.0, 0.0, 0.0, 2.0, 1.0]))
    axes = "yfyfy" if number == 0 else "zyz"
    for i, axis in enumerate(axes):
        joint = rbd.joints.Fixed() if axis == "f" else hinge[axis]
        place = rbd.Transform.identity() if i == 0 else along
        builder.add_body(f"rod {i}", "world" if i == 0 else f"rod {i - 1}", joint, place, rod)
    q = jnp.full(3, jnp.pi / 4) if number == 0 else jnp.array([0.0, jnp.pi / 2, jnp.pi / 2])
    return builder.build(), rbd.State(q, jnp.zeros(3))


SCENES = {
    (0, "LinearlyImplicitEuler"): (2.0, -5930.8171118835),
    (1, "LinearlyImplicitEuler"): (2.0, -9423.2594023734),
    (17, "LinearlyImplicitEuler"): (2.0, 836.2350063174),
    (0, "BDF1"): (1.0, -127053.98823490),
    (0, "BDF2"): (1.0, 2605.80081790),
    (1, "BDF1"): (1.0, -38359.07425859),
    (1, "BDF2"): (1.0, -971.38545813),
    (17, "BDF1"): (2.0, 33661.70415138),
    (17, "BDF2"): (2.0, 33377.46489022),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SCENES)
def test_energies_of_published_scenes(case):
    """The energy changes match RedMax's scenes, with initial states of its author's two test suites."""
    (number, name), (span, expected) = case, SCENES[case]
    model, state = scene(number)
    if number == 17 and name != "LinearlyImplicitEuler":
        state = rbd.State(state.q, jnp.array([0.0, 0.0, 0.0, -10.0, 10.0]))
    steps = round(span / 0.01)
    path = jax.jit(
        lambda s: rbd.rollout(model, s, dt=0.01, steps=steps, save_every=steps, scheme=scheme(name))
    )(state)
    before = rbd.potential_energy(model, state.q)
    np.testing.assert_allclose(
        energy(model, path.final) - before, expected, atol=2e-6 * max(1, abs(expected) / 1e4)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", IMPLICIT | VARIATIONAL)
def test_multipliers(name):
    """A pendulum of a sliding point and a rod equals one described by an angle."""
    builder = rbd.ModelBuilder()
    builder.add_body("bob", joint=rbd.joints.Translational(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    builder.add_constraint(rbd.constraints.Distance("world", None, "bob", None, 1.0))
    model, angle = builder.build(), 0.6
    start = rbd.State(jnp.array([np.sin(angle), 0.0, -np.cos(angle)]), jnp.zeros(3))

    @functools.partial(jax.jit, static_argnums=2)
    def run(start, dt, steps):
        return rbd.rollout(model, start, dt=dt, steps=steps, scheme=scheme(name))

    hinge = rbd.ModelBuilder()
    bob = rbd.Inertia.from_mass_com(1.0, (0.0, 0.0, -1.0), np.zeros((3, 3)))
    hinge.add_body("bob", joint=rbd.joints.Revolute((0.0, -1.0, 0.0)), inertia=bob)
    exact = rbd.rollout(
        hinge.build(),
        rbd.State(jnp.array([angle]), jnp.zeros(1)),
        dt=5e-4,
        steps=1000,
        scheme=rbd.RungeKutta4(),
    ).final.q[0]
    errors = []
    for steps in (50, 100):
        path = run(start, 0.5 / steps, steps)
        assert path.code == 0
        if name != "LinearlyImplicitEuler":
            np.testing.assert_allclose(jnp.sum(path.q**2, axis=1), 1, atol=1e-9)
        errors.append(abs(jnp.arctan2(path.q[-1, 0], -path.q[-1, 2]) - exact))
    expected = 1 if name in ("BDF1", "LinearlyImplicitEuler") else 2
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), expected, atol=0.3)
