"""Every scheme on every type of system: trees, a loop, a blade, reduced variables, and forces with internal states.

A step is compared with the adaptive scheme at a tight tolerance, and its derivative with finite differences of the scheme
itself. The models are as small as possible: the tests show that each scheme supports all features of a system.
"""

import functools
import inspect
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import constraints, forces, joints, simulate


ROOT = Path(__file__).resolve().parents[2]

#: Schemes with fixed steps, and their orders.
ORDERS = {
    "LieEuler": 1, "SemiImplicitEuler": 1, "MujocoEuler": 1, "LinearlyImplicitEuler": 1, "BDF1": 1,
    "RKMK2": 2, "CommutatorFree2": 2, "BDF2": 2, "ImplicitMidpoint": 2, "GeneralizedAlpha": 2,
    "Rattle": 2, "VariationalMidpoint": 2, "EnergyMomentum": 2,
    "RKMK3": 3, "CommutatorFree3": 3, "CrouchGrossman3": 3,
    "RungeKutta4": 4, "CommutatorFree4": 4, "EventDriven": 4,
}  # fmt: skip

#: A long and a short step, and cases where the first step has a lower order than later ones. There the scheme's own
#: accelerations are not yet accurate. Closing loops only in positions also causes velocity errors across them.
LONG, SHORT = 0.02, 0.01
FIRST_STEP = {("GeneralizedAlpha", name): 1 for name in ("tree", "loop", "reduced", "remembering")}
FIRST_STEP |= {(name, "loop"): 1 for name in ("EnergyMomentum", "LinearlyImplicitEuler", "BDF1")} | {
    ("BDF2", "loop"): 2
}
FIRST_STEP |= {(name, "blade"): 1 for name in ("GeneralizedAlpha", "EnergyMomentum", "LinearlyImplicitEuler")}

#: Weights of the entries of the result whose derivative is compared.
WEIGHTS = np.array([0.7, -1.1, 0.4, 0.9, -0.6, 1.3, 0.8])


def rod(builder, name, parent, at=(0.0, 0.0, 0.0), joint=None, **along):
    joint = joints.Revolute((0.0, 1.0, 0.0)) if joint is None else joint
    inertia = rbd.Inertia.from_mass_com(1.2, (0.3, 0.0, 0.1), np.diag([0.02, 0.05, 0.04]))
    builder.add_body(name, parent, joint, rbd.Transform.from_xyz_rpy(at), inertia, **along)


def pendulum(**along):
    builder = rbd.ModelBuilder(name="double pendulum")
    rod(builder, "upper", "world", **along)
    rod(builder, "lower", "upper", (0.7, 0.0, 0.0), **along)
    return builder.build()


def tree():
    return pendulum(damping=0.2, stiffness=3.0), [0.3, -0.4], [0.5, 1.0]


def loop():
    """A crank, a slide and a rod between them."""
    builder = rbd.ModelBuilder(name="slider-crank")
    rod(builder, "crank", "world")
    rod(builder, "slide", "world", joint=joints.Prismatic((1.0, 0.0, 0.0)), damping=0.3)
    builder.add_constraint(constraints.Distance("crank", (0.5, 0.0, 0.0), "slide", (0.0, 0.0, 0.0), 1.0))
    model = builder.build()
    q = rbd.assemble(model, jnp.asarray(np.array([0.4, 1.4])), hold=["crank"]).q
    return model, q, rbd.project_velocity(model, q, jnp.asarray(np.array([1.0, 0.0])))


def blade():
    """A body that slides in the plane along its blade."""
    builder = rbd.ModelBuilder(name="sleigh")
    builder.add_body("x", "world", joints.Prismatic((1.0, 0.0, 0.0)), damping=0.3)
    builder.add_body("y", "x", joints.Prismatic((0.0, 1.0, 0.0)))
    rod(builder, "sleigh", "y", joint=joints.Revolute((0.0, 0.0, 1.0)))
    builder.add_constraint(constraints.KnifeEdge("world", "sleigh", None))
    angle, speed = 0.4, 1.2
    return builder.build(), [0.0, 0.0, angle], [speed * np.cos(angle), speed * np.sin(angle), 1.5]


def reduced():
    """Two joints that one variable moves."""
    return rbd.ReducedModel(pendulum(damping=0.2), fold, 1), [0.3], [1.0]


def fold(y):
    return jnp.concatenate([y, 0.2 - 0.5 * jnp.sin(y)])


def remembering():
    """A muscle during activation, bristle friction with deflected bristles, a servo with lag, and a motor on a tendon."""
    ends = ("world", "upper"), [(0.0, 0.0, 0.3), (0.4, 0.0, 0.0)]
    timing = {"excitation": 0.8, "activation": 0.1, "activation_time": 0.2}
    muscle = forces.ActivatedMuscle(*ends, 40.0, 0.4, **timing)
    friction = forces.BristleFriction("lower", 0.5, stiffness=5.0, damping=0.1, stribeck_velocity=2.0)
    both = rbd.forces.FixedTendon("both", {"upper": 1.0, "lower": -0.5}, 2.0, 0.3, 0.1)
    servo = rbd.actuators.Position("servo", "lower", kp=4.0, kv=0.2, time_constant=0.3)
    motor = rbd.actuators.Motor("motor", rbd.actuators.OnTendon("both"), gear=2.0)
    model = rbd.attach(rbd.add_forces(pendulum(), muscle, friction), both, servo, motor)
    return model, [0.3, -0.4], [0.5, 1.0]


SYSTEMS = {make.__name__: make for make in (tree, loop, blade, reduced, remembering)}


@functools.cache
def case(name):
    model, q, v = SYSTEMS[name]()
    return model, *(jnp.asarray(np.asarray(x, float)) for x in (q, v))


def step(scheme, model, dt, q, v):
    """Returns the result of one step from the start, and its code."""
    told = jnp.array([0.4, -0.7])[: simulate.systems.tree_of(model).nu]
    system = simulate.system_of(model, jnp.zeros(model.nv), u=told)
    state, time = rbd.State(q, v, system.own), jnp.zeros(())
    end, _, code = scheme.step(system.evaluate(time, state), scheme.init(system, time, state, dt), dt)
    return jnp.concatenate([end.q, end.v, end.internal]), jnp.asarray(code)


@functools.cache
def exact(name, dt):
    model, q, v = case(name)
    return np.asarray(_tight(name)(model, np.asarray(dt), q, v)[0])


@functools.cache
def _tight(name):
    return jax.jit(functools.partial(step, rbd.RKMK45(1e-12, 1e-12)))


def forward(function, x):
    """Returns the result, the weighted derivative in forward mode, and the code."""
    end, slope, code = jax.jvp(function, (x,), (jnp.ones(()),), has_aux=True)
    return end, WEIGHTS[: end.size] @ slope, code


def reverse(function, x):
    end, back, code = jax.vjp(function, x, has_aux=True)
    return end, back(WEIGHTS[: end.size])[0], code


#: The everyday tests run each scheme on one system; `test_schemes` has more. Others take seconds to compile.
EVERY_DAY = {
    "LieEuler": "remembering", "SemiImplicitEuler": "tree", "LinearlyImplicitEuler": "tree", "RKMK2": "tree",
    "CommutatorFree2": "reduced", "RKMK3": "tree", "CommutatorFree3": "tree", "CrouchGrossman3": "tree",
    "EventDriven": "tree", "GeneralizedAlpha": "tree",
}  # fmt: skip


@pytest.mark.parametrize("direction", [forward, pytest.param(reverse, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name, system",
    [
        pytest.param(name, system, marks=() if EVERY_DAY.get(name) == system else pytest.mark.slow)
        for name in ORDERS
        for system in SYSTEMS
    ],
)
def test_a_step_and_its_derivative(name, system, direction):
    """The error of a step has the expected order, including internal states; its derivative matches finite differences."""
    scheme, (model, q, v) = getattr(rbd, name)(), case(system)

    @jax.jit
    def along(model, share, dt):
        # A scaled velocity still satisfies the constraints.
        return direction(lambda share: step(scheme, model, dt, q, (1 + share) * v), share)

    at = lambda share, dt: jax.tree.map(np.asarray, along(model, np.asarray(share), np.asarray(dt)))
    end, slope, code = at(0.0, LONG)
    assert code == rbd.Result.SUCCESS
    errors = [np.abs(at(0.0, dt)[0] - exact(system, dt)).max() for dt in (LONG, SHORT)]
    wanted = ORDERS[name] + 1 - FIRST_STEP.get((name, system), 0)
    assert errors[1] < 1e-10 or np.log2(errors[0] / errors[1]) > wanted - 0.4, errors
    small = 1e-5
    difference = WEIGHTS[: end.size] @ (at(small, LONG)[0] - at(-small, LONG)[0]) / (2 * small)
    np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-8)


def test_every_scheme_is_named():
    """Schemes with fixed steps are in the list; adaptive ones have separate tests."""
    classes = {kind for kind in vars(rbd).values() if isinstance(kind, type) and issubclass(kind, rbd.Scheme)}
    made = {kind for kind in classes if not inspect.isabstract(kind)}
    assert made == {getattr(rbd, name) for name in [*ORDERS, "Adaptive", "RKMK45"]}
    # docs/reference/names.md lists two of them and counts the others; the changelog counts all of them.
    more = {17: "seventeen", 18: "eighteen", 19: "nineteen"}[len(made) - 2]
    assert f"and {more} more schemes" in (ROOT / "docs" / "reference" / "names.md").read_text()
    assert "Twenty-one schemes" in (ROOT / "CHANGELOG.md").read_text() and len(made) == 21
