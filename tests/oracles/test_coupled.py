"""Mimic joints, compared with the free model and a dense solution with the coupling as a constraint.

With `v_free = G v`, `M = Gᵀ M_free G` and so on; other tests compare the free model with Pinocchio.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_robots import STATES, Worst, compiled, load, random_states, spread, urdf_files

import rbd_jax as rbd
from rbd_jax import constraints as rc


TOLERANCE = 1e-9
FILES = urdf_files()
COUPLED = [name for name, path in FILES.items() if b"<mimic" in path.read_bytes()]

#: Mimic joints above and next to their leader, one that follows a mimic joint, a slide that follows a hinge, and a weld
#: between them.
_INERTIA = (
    '<inertial><origin xyz=".1 .2 .1" rpy=".1 .2 .3"/><mass value="1.5"/>'
    '<inertia ixx=".1" iyy=".2" izz=".25" ixy=".01" ixz=".02" iyz="0"/></inertial>'
)
_JOINTS = (
    ("base", "a", "revolute", '<mimic joint="d" multiplier="-.7" offset=".2"/>'),
    ("a", "b", "continuous", ""),
    ("b", "c", "prismatic", '<mimic joint="e" multiplier="1.5"/>'),
    ("c", "d", "revolute", ""),
    ("b", "e", "revolute", '<mimic joint="d" multiplier="2" offset="-.1"/>'),
    ("e", "f", "fixed", ""),
    ("f", "g", "revolute", '<mimic joint="b"/>'),
)
FILES["a hand"] = (
    f'<robot name="hand"><link name="base">{_INERTIA}</link>'
    + "".join(
        f'<link name="{child}">{_INERTIA}</link><joint name="{child}" type="{kind}"><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz=".3 0 .1" rpy="{i} .5 0"/><axis xyz="1 {i} -1"/>'
        f'<limit lower="-3" upper="3" effort="1" velocity="1"/>{mimic}</joint>'
        for i, (parent, child, kind, mimic) in enumerate(_JOINTS)
    )
    + "</robot>"
)
#: Quantities that are compared every day.
EVERY_DAY = ("placements", "mass matrix", "bias", "jacobian rates")


def expansion(model, free) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the matrices of `q_free = Q q + q_0` and `v_free = G v`."""
    Q, q0, G = np.zeros((free.nq, model.nq)), np.zeros(free.nq), np.zeros((free.nv, model.nv))
    topology = model.topology
    for body, joint in enumerate(model.joint_names):
        rows_q, rows_v = free.q_slice(joint), free.v_slice(joint)
        if topology.is_mimic[body]:
            place = topology.mimic_joints.tolist().index(body)
            leader = model.joint_names[topology.leaders[body]]
            factor = model.mimic_multiplier[place]
            Q[rows_q, model.q_slice(leader)] = G[rows_v, model.v_slice(leader)] = factor
            q0[rows_q] = model.mimic_offset[place]
        else:
            Q[rows_q, model.q_slice(joint)] = np.eye(topology.joint_nq[body])
            G[rows_v, model.v_slice(joint)] = np.eye(topology.joint_nv[body])
    return Q, q0, G


def altered(model):
    """Returns the model with offsets and with multipliers other than one, which robots rarely have."""
    steps = 0.1 * np.arange(1.0, len(model.topology.mimic_joints) + 1)
    numbers = np.asarray(model.mimic_multiplier) * (1 + steps), np.asarray(model.mimic_offset) + steps
    return eqx.tree_at(lambda m: (m.mimic_multiplier, m.mimic_offset), model, jax.device_put(numbers))


#: Files that cannot be compared, with the reason.
NOTHING = {"alex_psyonic_hands": "its joints mimic joints that are not there"}


#: Robots whose mass matrix is singular: their fingers have no mass.
SINGULAR = {"romeo"}


def check(name: str, floating: bool, wanted=()) -> None:
    if name in NOTHING:
        pytest.skip(NOTHING[name])
    model = altered(load(FILES[name], floating_base=floating))
    free = load(FILES[name], floating_base=floating, mimic="free")
    if not len(model.topology.mimic_joints):
        pytest.skip("its mimic joints are welded")
    assert len(model.topology.mimic_joints) == free.nv - model.nv
    Q, q0, G = expansion(model, free)
    bodies = spread(model.body_names, 3)

    def of(model, q, v, a):
        numbers = {
            "placements": lambda: rbd.forward_kinematics(model, q).matrix,
            "mass matrix": lambda: rbd.mass_matrix(model, q),
            "bias": lambda: rbd.bias_force(model, q, v),
            "gravity": lambda: rbd.gravity_force(model, q),
            "coriolis": lambda: rbd.coriolis_matrix(model, q, v),
            "inverse dynamics": lambda: rbd.inverse_dynamics(model, q, v, a),
            "jacobians": lambda: jnp.stack([rbd.jacobian(model, q, body) for body in bodies]),
            "jacobian rates": lambda: jnp.stack(
                [rbd.jacobian_derivative(model, q, v, body) for body in bodies]
            ),
            "centroidal momentum matrix": lambda: rbd.centroidal_momentum_matrix(model, q),
            "kinetic energy": lambda: rbd.kinetic_energy(model, q, v),
        }
        return {name: number() for name, number in numbers.items() if name in wanted or not wanted}

    def both(q, v, a, tau):
        ours = of(model, q, v, a)
        ours["forward dynamics"] = rbd.forward_dynamics(model, q, v, tau)
        if not wanted:
            ours["inverse mass matrix"] = rbd.solve_mass_matrix(model, q, jnp.eye(model.nv))
        return ours, of(free, Q @ q + q0, G @ v, G @ a)

    state = random_states(model)
    results = jax.tree.map(np.asarray, compiled(jax.vmap(both), *state)(*state))
    worst = Worst()
    for i in range(STATES):
        (ours, theirs), tau = jax.tree.map(lambda x, i=i: x[i], results), state[3][i]
        # Forces are projected along G, and motions are expanded.
        for what in theirs.keys() & {"bias", "gravity", "inverse dynamics"}:
            theirs[what] = G.T @ theirs[what]
        for what in theirs.keys() & {"mass matrix", "coriolis"}:
            theirs[what] = G.T @ theirs[what] @ G
        for what in theirs.keys() & {"jacobians", "jacobian rates", "centroidal momentum matrix"}:
            theirs[what] = theirs[what] @ G
        if name not in SINGULAR:
            if not wanted:
                theirs["inverse mass matrix"] = np.linalg.inv(theirs["mass matrix"])
            theirs["forward dynamics"] = np.linalg.solve(theirs["mass matrix"], tau - theirs["bias"])
        for what in theirs:
            worst.compare(what, ours[what], theirs[what])
    print(worst)
    assert not {what: error for what, error in worst.items() if not error <= TOLERANCE}


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [EVERY_DAY, ()], ids=["some", "all"])
def test_a_hand(wanted):
    check("a hand", True, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("name", COUPLED)
def test_all_robots(name, floating):
    check(name, floating)


@pytest.mark.slow
def test_couplings_as_constraints():
    """A robot whose mimic joints are separate joints with constraints moves like the coupled robot."""
    model, free = load(FILES["a hand"]), load(FILES["a hand"], mimic="free")
    Q, q0, G = expansion(model, free)
    topology = model.topology
    for place, body in enumerate(topology.mimic_joints):
        coefficients = [-np.asarray(x)[place] for x in (model.mimic_offset, model.mimic_multiplier)]
        leader = model.joint_names[topology.leaders[body]]
        tie = {model.joint_names[body]: (0, 1), leader: np.array(coefficients)}
        free = rbd.add_constraints(free, rc.CoordinateCoupling(tie))

    def both(q, v, tau):
        tied = Q @ q + q0, G @ v
        motion = rbd.constrained_dynamics(free, *tied, tau)
        broken = rbd.constraint_residual(free, tied[0]), rbd.constraint_velocity(free, *tied)
        return G @ rbd.forward_dynamics(model, q, v, tau @ G), motion.acceleration, broken

    q, v, _, _ = random_states(model)
    tau = np.random.default_rng(1).normal(size=(STATES, free.nv))
    coupled, constrained, broken = compiled(jax.vmap(both), q, v, tau)(q, v, tau)
    for residual in broken:
        np.testing.assert_allclose(residual, 0, atol=1e-13)
    np.testing.assert_allclose(constrained, coupled, rtol=0, atol=1e-10 * np.abs(coupled).max())
