"""Every scheme on every kind of system: a tree, a tree with a loop, a model in fewer variables, a model whose forces remember.

The motions are compared with those of the adaptive scheme at a tight tolerance, and gradients with differences of the scheme
itself. The models are as small as their kind allows: what is tested is that nothing of a kind is missing in a scheme.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import constraints, forces, joints, simulate


#: Schemes with fixed steps, and their orders.
ORDERS = {
    "LieEuler": 1, "SemiImplicitEuler": 1, "LinearlyImplicitEuler": 1, "BDF1": 1,
    "RKMK2": 2, "CommutatorFree2": 2, "BDF2": 2, "ImplicitMidpoint": 2, "GeneralizedAlpha": 2,
    "Rattle": 2, "VariationalMidpoint": 2, "EnergyMomentum": 2,
    "RKMK3": 3, "CommutatorFree3": 3, "CrouchGrossman3": 3,
    "RungeKutta4": 4, "CommutatorFree4": 4,
}  # fmt: skip

#: The step, how many, and how far from the exact motion a scheme of each order may end.
DT, STEPS = 0.005, 8
ERRORS = {1: 3e-2, 2: 1e-3, 3: 2e-5, 4: 1e-6}


def rod(builder, name, parent, at=(0.0, 0.0, 0.0), joint=None, **along):
    joint = joints.Revolute((0.0, 1.0, 0.0)) if joint is None else joint
    inertia = rbd.Inertia.from_mass_com(1.2, (0.3, 0.0, 0.1), jnp.diag(jnp.array([0.02, 0.05, 0.04])))
    builder.add_body(name, parent, joint, rbd.Transform.from_position(jnp.array(at)), inertia, **along)


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
    q = rbd.assemble(model, jnp.array([0.4, 1.4]), hold=["crank"]).q
    return model, q, rbd.project_velocity(model, q, jnp.array([1.0, 0.0]))


def reduced():
    """Two joints that move with one variable."""
    return constraints.ReducedModel(pendulum(damping=0.2), fold, 1), [0.3], [1.0]


def fold(y):
    return jnp.concatenate([y, 0.2 - 0.5 * jnp.sin(y)])


def remembering():
    """A muscle that is being activated, and friction whose bristles are bent."""
    ends = ("world", "upper"), [(0.0, 0.0, 0.3), (0.4, 0.0, 0.0)]
    muscle = forces.ActivatedMuscle(*ends, 40.0, 0.4, excitation=0.8, activation=0.1)
    friction = forces.BristleFriction("lower", 0.5, stiffness=200.0, damping=0.5, stribeck_velocity=0.1)
    return rbd.add_forces(pendulum(), muscle, friction), [0.3, -0.4], [0.5, 1.0]


SYSTEMS = {make.__name__: make for make in (tree, loop, reduced, remembering)}


@functools.cache
def case(name):
    model, q, v = SYSTEMS[name]()
    return model, jnp.asarray(q, float), jnp.asarray(v, float)


def end_of(scheme, model, q, v):
    path = rbd.rollout(model, rbd.State(q, v), dt=DT, steps=STEPS, save_every=STEPS, scheme=scheme)
    return jnp.concatenate([path.q[-1], path.v[-1], path.own[-1]]), path.code


@functools.cache
def exact(name):
    model, q, v = case(name)
    return np.asarray(jax.jit(functools.partial(end_of, rbd.RKMK45(1e-11, 1e-11)))(model, q, v)[0])


def reached(scheme, model, q, v, weights):
    """The end of a motion, its gradient by the start's velocity along the possible ones, and the same by differences."""
    ways = v[None]  # along itself the velocity stays one that constraints allow

    def weighed(share):
        end, code = end_of(scheme, model, q, v + share @ ways)
        return jnp.sum(weights[: end.size] * end), (end, code)

    step = 1e-5
    gradient, (end, code) = jax.grad(weighed, has_aux=True)(jnp.zeros(1))
    ahead, behind = jax.vmap(lambda share: weighed(share)[0])(jnp.array([[step], [-step]]))
    return end, code, gradient[0], (ahead - behind) / (2 * step)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", ORDERS)
def test_values_and_gradients(name, system):
    scheme, (model, q, v) = getattr(rbd, name)(), case(system)
    weights = jnp.array([0.3, -0.8, 0.7, 0.4, -0.5, 0.9])
    end, code, gradient, difference = jax.jit(functools.partial(reached, scheme))(model, q, v, weights)
    assert code == simulate.Result.SUCCESS
    np.testing.assert_allclose(end, exact(system), rtol=0, atol=ERRORS[ORDERS[name]])
    np.testing.assert_allclose(gradient, difference, rtol=1e-6, atol=1e-8)


def test_every_scheme_is_named():
    """Those with fixed steps are in the list; those that choose their own have tests of their own."""
    classes = {
        kind for kind in vars(simulate).values() if isinstance(kind, type) and issubclass(kind, rbd.Scheme)
    }
    assert classes == {getattr(rbd, name) for name in [*ORDERS, "Scheme", "Adaptive", "RKMK45"]}
