"""Benchmark mechanisms with published accurate solutions, or with solutions from one scalar equation."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import at

import rbd_jax as rbd
from rbd_jax import constraints as rc, forces, joints


RIGHT, UP = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])


# Andrews' squeezing mechanism (IFToMM A03; "andrews" of the Test Set for IVP Solvers). Seven bodies in a plane. Lengths
# have the names of the test set.
D, DA, E, EA, RR, RA = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
SS, SA, SB, SC, SD = 0.035, 0.01874, 0.01043, 0.018, 0.02
TA, TB, U, UA, UB, ZF, ZT, FA = 0.02308, 0.00916, 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421
A, B, C = (np.array([*point, 0.0]) for point in ((-0.06934, -0.00227), (-0.03635, 0.03273), (0.014, 0.072)))

#: Each body's parent, position, mass, moment of inertia and center of mass. Keys are the test set's names of the
#: angles, in order.
SQUEEZER = {
    "beta": ("world", 0 * RIGHT, 0.04325, 2.194e-6, RA * RIGHT),
    "Theta": ("beta", RR * RIGHT, 0.00365, 4.410e-7, -DA * RIGHT),
    "gamma": ("world", B, 0.02373, 5.255e-6, SB * RIGHT - SA * UP),
    "Phi": ("delta", ZT * RIGHT, 0.00706, 5.667e-7, (EA - E) * UP),
    "delta": ("world", A, 0.07050, 1.169e-5, TA * RIGHT + TB * UP),
    "Omega": ("eps", -U * UP, 0.00706, 5.667e-7, (ZF - FA) * RIGHT),
    "eps": ("world", A, 0.05498, 1.912e-5, -UB * RIGHT - UA * UP),
}


def squeezer():
    """Returns the mechanism. Its constraints are the negatives of the published ones.

    The published equation is `M a = f - Gᵀ λ`; the library has `+ Gᵀ λ`.
    """
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0), name="squeezer")
    for name in ("beta", "Theta", "gamma", "delta", "Phi", "eps", "Omega"):
        parent, place, mass, moment, center = SQUEEZER[name]
        inertia = rbd.Inertia.from_mass_com(mass, center, moment * np.eye(3))
        builder.add_body(name, parent, joints.Revolute(), at(place), inertia)
    for name, tip in (("gamma", -SS * UP), ("Phi", -E * UP), ("Omega", ZF * RIGHT)):
        builder.add_constraint(rc.Connect("Theta", -D * RIGHT, name, tip))
    return builder.build()


SPRING = forces.SpringDamper(("world", "gamma"), (C, SD * RIGHT - SC * UP), 0.07785, 4530.0)
START = (-0.0617138900142764496, 0.0, 0.455279819163070380, 0.222668390165885885)
START = (*START, 0.487364979543842550, -0.222668390165885885, 1.23054744454982120)
#: Angles, rates, accelerations and multipliers after 0.03 s, with the digits of PSIDE at a tolerance of 1e-14.
ANGLES = (15.81077119629904, -15.75637105984298, 0.04082224013073101, -0.5347301163226948)
ANGLES = (*ANGLES, 0.5244099658805304, 0.5347301163226948, 1.048080741042263)
RATES = (1139.920302151208, -1424.379294994111, 11.03291221937134, 19.29337464421385)
RATES = (*RATES, 0.5735699284790808, -19.29337464421385, 0.3231791658026955)
ACCELERATIONS = (-2.463176316945196e4, 5.185037701610329e4, 3.241025686413781e5, 5.667493645176213e5)
ACCELERATIONS = (*ACCELERATIONS, 1.674362929479361e4, -5.667493645176222e5, 9.826520791458422e3)
MULTIPLIERS = (199.1753333731910, -29.75531228015052, 23.06654119098399)
MULTIPLIERS = (*MULTIPLIERS, 31.45271365475927, 22.64249232082739, 11.61740700019673)


@pytest.mark.slow
def test_squeezer():
    model = squeezer()
    order = np.array([model.v_slice(name).start for name in SQUEEZER])
    drive, q = np.zeros(model.nv), np.zeros(model.nv)
    drive[model.v_slice("beta")], q[order] = 0.033, START
    drive, q = jax.device_put((drive, q))
    scheme = rbd.Adaptive(diffrax.Dopri8(), rtol=1e-10, atol=1e-11, max_steps=2000)

    @jax.jit
    def run(q):
        def motion(q, v):
            return rbd.constrained_dynamics(model, q, v, drive + SPRING(model, q, v))

        v = jnp.zeros(model.nv)
        path = rbd.rollout(model, rbd.State(q, v), drive[None], dt=0.03, scheme=scheme, forces=(SPRING,))
        end = path.final
        residual = rbd.constraint_residual(model, end.q)
        return motion(q, v), path, motion(end.q, end.v), residual

    first, path, last, residual = run(q)
    assert path.code == rbd.Result.SUCCESS
    # Rows of Connect are x, y and z of each loop. The z row is always zero, and so is its multiplier.
    plane = np.array([0, 1, 3, 4, 6, 7])
    assert first.rank == last.rank == 6
    np.testing.assert_allclose(last.multipliers[2::3], 0, atol=1e-12)
    np.testing.assert_allclose(
        first.acceleration[order], [14222.4439199541, -10666.8329399656, 0, 0, 0, 0, 0], rtol=1e-12, atol=1e-8
    )
    np.testing.assert_allclose(
        first.multipliers[plane], [98.566870396241, -6.122688344256, 0, 0, 0, 0], rtol=1e-12, atol=1e-11
    )
    np.testing.assert_allclose(path.final.q[order], ANGLES, rtol=3e-9)
    # The published solution solves position constraints for the multipliers, which loses digits with each derivative.
    np.testing.assert_allclose(path.final.v[order], RATES, rtol=1e-7)
    np.testing.assert_allclose(last.acceleration[order], ACCELERATIONS, rtol=3e-6)
    np.testing.assert_allclose(last.multipliers[plane], MULTIPLIERS, rtol=3e-6)
    assert np.abs(residual).max() < 1e-11


def rolled(model, state, dt, steps, save_every, forces=(), scheme=None):
    """Returns a trajectory with its constraint residual, energy, momentum and body twists about the world's origin."""

    @jax.jit
    def run(state):
        path = rbd.rollout(
            model,
            state,
            dt=dt,
            steps=steps,
            save_every=save_every,
            scheme=scheme or rbd.RungeKutta4(),
            forces=forces,
        )
        residual = jax.vmap(lambda q: rbd.constraint_residual(model, q))(path.q)
        energy = lambda q, v: rbd.kinetic_energy(model, q, v) + rbd.potential_energy(model, q)
        momentum = lambda q, v: rbd.momentum(model, q, v)
        twists = lambda q, v: rbd.body_velocities(model, q, v)
        return path, residual, *(jax.vmap(f)(path.q, path.v) for f in (energy, momentum, twists))

    return run(state)


# The stiff flyball governor (IFToMM A05): rods and a slider on a spinning shaft, connected by stiff springs and
# dampers.
OFFSET, TILT, SPIN = 0.05, np.pi / 6, 2 * np.pi


def governor():
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, -9.81), name="governor")
    shaft = rbd.Inertia.box(0.3, (0.01, 0.01, 1.0), (0.0, 0.0, 0.5))
    builder.add_body("shaft", "world", joints.Revolute(), inertia=shaft)
    slider = rbd.Inertia.box(3.0, (0.1, 0.1, 0.1))
    builder.add_body("slider", "shaft", joints.Prismatic(), inertia=slider)
    ball = rbd.Inertia.from_mass_com(5.0, (1.0, 0.0, 0.0), np.zeros((3, 3)))
    rod = rbd.Inertia.box(0.3, (1.0, 0.01, 0.01), (0.5, 0.0, 0.0)) + ball
    for name, turned in (("right", 0.0), ("left", np.pi)):
        hinge = at((OFFSET * np.cos(turned), 0.0, 1.0), (0.0, 0.0, turned))
        builder.add_body(name, "shaft", joints.Revolute((0.0, 1.0, 0.0)), hinge, rod)
    return builder.build()


SPRINGS = forces.Together(
    *(
        forces.SpringDamper((name, "slider"), ((0.5, 0, 0), (side * OFFSET, 0, 0)), 0.5, 8e5, 4e4)
        for name, side in (("right", 1), ("left", -1))
    )
)
TURNING = np.array([0.0, 0.5, TILT, TILT]), np.array([SPIN, 0.0, 0.0, 0.0])


@pytest.mark.slow
def test_flyball_governor():
    """The height of the slider and the angular momentum about the shaft match the reference."""
    path, _, _, momentum, _ = rolled(governor(), rbd.State(*TURNING), 1e-4, 5000, 500, (SPRINGS,))
    q = np.asarray(path.q)
    np.testing.assert_allclose(q[[2, 5, 10], 1], [0.523836476, 0.622092722, 0.743249425], atol=1e-9)
    np.testing.assert_allclose(np.asarray(momentum)[:, 2], 53.86899866, atol=5e-9)
    np.testing.assert_allclose(q[:, 2], q[:, 3], atol=1e-12)


@pytest.mark.slow
def test_flyball_governor_of_free_bodies():
    """Free bodies with twenty constraints reach the same height after 0.1 s as the tree."""
    model = governor()
    free = rbd.maximal_coordinates(model)
    state = rbd.State(*jax.jit(rbd.to_maximal)(model, free, *TURNING))
    path, residual, _, momentum, _ = rolled(free, state, 1e-4, 1000, 1000, (SPRINGS,))
    np.testing.assert_allclose(path.q[-1, free.q_slice("slider")][2], 0.523836476, atol=1e-8)
    np.testing.assert_allclose(momentum[:, 2], 53.86899866, atol=1e-6)
    assert residual.shape[1] == 20 and np.abs(residual).max() < 1e-7


# The spatial slider-crank of the same collection: a crank about x, a slider along x, and a rod between them. The rod
# has a ball joint at the crank and a universal joint at the slider, with axes along the slide and across the rod.
CRANK, ROD, PIVOT = 0.08, 0.3, np.array([0.0, 0.1, 0.12])


def crank_tip(angle):
    return PIVOT + CRANK * np.array([0.0, -np.sin(angle), np.cos(angle)])


def slider_crank():
    tip = crank_tip(0.0)
    reach = np.sqrt(ROD**2 - tip @ tip)
    back = tip - np.array([reach, 0.0, 0.0])
    along = back / ROD
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, -9.81), name="slider-crank")
    arm = rbd.Inertia.from_mass_com(0.12, (0.0, 0.0, CRANK / 2), np.diag([1e-4, 1e-4, 1e-5]))
    builder.add_body("crank", "world", joints.Revolute(RIGHT), at(PIVOT), arm)
    block = rbd.Inertia.from_mass_com(2.0, (0.0, 0.0, 0.0), 1e-4 * np.eye(3))
    builder.add_body("slider", "world", joints.Prismatic(RIGHT), inertia=block)
    lengthwise = np.outer(along, along)
    rod = rbd.Inertia.from_mass_com(0.5, back / 2, 4e-4 * lengthwise + 4e-3 * (np.eye(3) - lengthwise))
    builder.add_body("rod", "slider", joints.Universal(RIGHT, np.cross(RIGHT, along)), inertia=rod)
    builder.add_constraint(rc.Connect("crank", (0.0, 0.0, CRANK), "rod", back))
    return builder.build(), jnp.array([0.0, reach, 0.0, 0.0])


def slider_crank_energies(angle):
    """Returns the kinetic energy at unit rate and the potential energy, from plane geometry."""
    (_, y, z), (_, y_rate, z_rate) = crank_tip(angle), crank_tip(angle + np.pi / 2) - PIVOT
    reach = np.sqrt(ROD**2 - y**2 - z**2)
    slide = -(y * y_rate + z * z_rate) / reach
    middle = np.array([slide, y_rate, z_rate]) / 2
    turning = np.array([-slide, y_rate, z_rate]) / ROD
    spinning = (y * z_rate - z * y_rate) / (y**2 + z**2) * reach / ROD
    twice = (1e-4 + 0.12 * (CRANK / 2) ** 2) + 0.5 * middle @ middle + 2.0 * slide**2
    twice += 4e-3 * turning @ turning + 4e-4 * spinning**2
    return twice / 2, 9.81 * (0.12 * (PIVOT[2] + z) / 2 + 0.5 * z / 2)


@pytest.mark.slow
def test_spatial_slider_crank():
    """Initial rates match the published ones, and times match a quadrature of the energy equation."""
    model, q = slider_crank()
    jacobian = np.asarray(jax.jit(rbd.constraint_jacobian)(model, q))
    v = np.linalg.solve(np.vstack([np.eye(4)[:1], jacobian]), [6.0, 0.0, 0.0, 0.0])
    path, residual, energy, _, twists = rolled(model, rbd.State(q, jnp.asarray(v)), 2.5e-4, 4000, 200)
    np.testing.assert_allclose(twists[0, 2, :3], [1.92, -0.96, 0.48], atol=1e-13)
    np.testing.assert_allclose(v[1], 0.24, atol=1e-14)
    tip, end = crank_tip(0.0), np.array([q[1], 0.0, 0.0])
    center = twists[0, 2, 3:] + np.cross(twists[0, 2, :3], (tip + end) / 2)
    np.testing.assert_allclose(center, [0.12, -0.24, 0.0], atol=1e-13)

    inertia, height = slider_crank_energies(0.0)
    total = 36 * inertia + height
    np.testing.assert_allclose(energy, total, atol=2e-9)
    assert np.abs(residual).max() < 1e-9
    nodes, weights = np.polynomial.legendre.leggauss(20)

    def duration(first, last):
        angles = (first + last) / 2 + (last - first) / 2 * nodes
        inertia, height = np.transpose([slider_crank_energies(angle) for angle in angles])
        return (last - first) / 2 * np.sum(weights * np.sqrt(inertia / (total - height)))

    angles = np.asarray(path.q[:, 0])
    assert angles[-1] > 2 * np.pi  # more than one revolution
    durations = [duration(first, last) for first, last in zip(angles, angles[1:])]
    np.testing.assert_allclose(durations, 0.05, atol=1e-9)
