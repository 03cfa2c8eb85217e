"""Every quantity that MuJoCo computes too, on the MJCF models of mujoco-mjx and brax.

MuJoCo's numbers are brought into our conventions by `MujocoMap`; the free joint is the only one where they differ. Its
constraints (contacts, limits, equalities, dry friction) are switched off, as are the effects that `OTHERWISE` lists, which
are no part of a tree of bodies.
"""

import importlib.util
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.interop import MujocoMap
from rbd_jax.model.mjcf import body_names, load_mjcf


mujoco = pytest.importorskip("mujoco")

STATES = 10
TOLERANCE = 1e-8

#: What a model has that is no part of a tree, and is switched off in MuJoCo for the comparison.
OTHERWISE = {
    "a fluid": lambda m: (setattr(m.opt, "density", 0), setattr(m.opt, "viscosity", 0)),
    "gravity compensation": lambda m: fill(m, "body_gravcomp", 0),
    "forces of tendons": lambda m: [fill(m, f"tendon_{x}", 0) for x in ("stiffness", "damping", "armature")],
    "springs at free joints": lambda m: m.jnt_stiffness.__setitem__(m.jnt_type == 0, 0),
    "nonlinear springs or dampers": lambda m: [fill(m, x, 0) for x in ("jnt_stiffnesspoly", "dof_dampingpoly")],
}


def fill(thing, name, value):
    getattr(thing, name)[:] = value


def folder(package: str, *below: str) -> Path | None:
    """A folder in an installed package, found without importing that."""
    top = importlib.util.find_spec(package.partition(".")[0])
    if top is None or not top.submodule_search_locations:
        return None
    path = Path(list(top.submodule_search_locations)[0], *package.split(".")[1:], *below)
    return path if path.is_dir() else None


def files() -> dict[str, Path]:
    """All MJCF models of the two packages, by package and path."""
    found = {}
    for package, root in (("mjx", folder("mujoco.mjx", "test_data")), ("brax", folder("brax", "envs", "assets"))):
        for path in sorted(root.rglob("*.xml")) if root else ():
            found[f"{package}/{path.relative_to(root)}"] = path
    return found


FILES = files()

#: A few that take little time: series of hinges and slides, free joint, ball joints, anchors off the origin.
FAST = ("brax/ant.xml", "brax/hopper.xml", "mjx/pendula.xml", "mjx/humanoid/humanoid.xml")


def relative(ours, theirs) -> float:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    size = np.linalg.norm(theirs)
    return float(np.linalg.norm(ours - theirs) / size) if size > 0 else float(np.linalg.norm(ours))


def quantities(model, bodies):
    """Everything that is compared, of one state."""
    smooth = eqx.tree_at(lambda m: m.friction, model, jnp.zeros_like(model.friction))

    def of(q, v, a, tau):
        return {
            "placements": rbd.forward_kinematics(model, q),
            "jacobians": [rbd.jacobian(model, q, body, frame="world_aligned") for body in bodies],
            "mass matrix": rbd.mass_matrix(model, q),
            "bias": rbd.bias_force(model, q, v),
            "inverse dynamics": rbd.inverse_dynamics(model, q, v, a),
            "forward dynamics": rbd.forward_dynamics(model, q, v, tau),
            "passive": rbd.passive_force(smooth, q, v),
            "kinetic energy": rbd.kinetic_energy(model, q, v),
        }

    return of


def errors(path) -> dict[str, float]:
    """The largest relative error of each quantity over the states."""
    compiled = mujoco.MjModel.from_xml_path(str(path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_mjcf(path)
    for warning in caught:
        for what, switch_off in OTHERWISE.items():
            if what in str(warning.message):
                switch_off(compiled)
    disable = mujoco.mjtDisableBit
    compiled.opt.disableflags |= int(disable.mjDSBL_CONSTRAINT) | int(disable.mjDSBL_ACTUATION)
    compiled.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    data = mujoco.MjData(compiled)
    conversion = MujocoMap(model, compiled)

    names = body_names(compiled)
    numbers = [model.body_index(name) for name in names[1:]]
    chosen = sorted({0, len(numbers) // 2, len(numbers) - 1})
    keys = jax.random.split(jax.random.key(0), (4, STATES))
    q = jax.vmap(lambda key: rbd.random_configuration(model, key))(keys[0])
    v, a, tau = (jax.vmap(lambda key: jax.random.normal(key, (model.nv,)))(row) for row in keys[1:])
    ours = jax.jit(jax.vmap(quantities(model, [numbers[i] for i in chosen])))(q, v, a, tau)

    def to_mujoco(q, v, a, tau):
        c = conversion
        return {
            "qpos": c.configuration(q),
            "qvel": c.velocity(q, v),
            "qacc": c.acceleration(q, v, a),
            "tau": c.force(q, tau),
            "drift": c.acceleration(q, v, jnp.zeros_like(a)),
            "T": c.velocity_matrix(q),
        }

    states = jax.tree.map(np.asarray, jax.jit(jax.vmap(to_mujoco))(q, v, a, tau))
    from_force = jax.jit(conversion.force_from)
    from_acceleration = jax.jit(conversion.acceleration_from)
    worst: dict[str, float] = {}

    def compare(name, ours, theirs):
        worst[name] = max(worst.get(name, 0.0), relative(ours, theirs))

    # Free joints with armature: what it weighs is not quite the same acceleration there.
    free = compiled.jnt_type == 0
    weighed = any(compiled.dof_armature[adr : adr + 6].any() for adr in compiled.jnt_dofadr[free])
    full = np.zeros((compiled.nv, compiled.nv))
    for i in range(STATES):
        one = jax.tree.map(lambda x, i=i: x[i], ours)
        s = {name: x[i] for name, x in states.items()}
        data.qpos[:], data.qvel[:], data.qacc[:] = s["qpos"], s["qvel"], s["qacc"]
        mujoco.mj_inverse(compiled, data)
        # Its inverse dynamics counts the passive forces in.
        inverse = data.qfrc_inverse + data.qfrc_passive
        data.qfrc_applied[:] = s["tau"] - data.qfrc_passive
        mujoco.mj_forward(compiled, data)
        mujoco.mj_fullM(compiled, data, full)
        placed = one["placements"][np.array(numbers)]
        compare("positions", placed.position, data.xpos[1:])
        compare("rotations", placed.rotation, data.xmat[1:].reshape(-1, 3, 3))
        for j, jacobian in zip(chosen, one["jacobians"], strict=True):
            linear, angular = np.zeros((3, compiled.nv)), np.zeros((3, compiled.nv))
            mujoco.mj_jacBody(compiled, data, linear, angular, j + 1)
            compare("jacobians", jacobian, np.concatenate([angular, linear]) @ s["T"])
        compare("mass matrix", one["mass matrix"], s["T"].T @ full @ s["T"])
        compare("passive", one["passive"], from_force(q[i], data.qfrc_passive))
        compare("kinetic energy", one["kinetic energy"], data.energy[1])
        if not weighed:
            bias = data.qfrc_bias + full @ s["drift"]
            compare("bias", one["bias"], from_force(q[i], bias))
            compare("inverse dynamics", one["inverse dynamics"], from_force(q[i], inverse))
            compare("forward dynamics", one["forward dynamics"], from_acceleration(q[i], v[i], data.qacc))
    return worst


def check(name):
    path = FILES[name]
    worst = errors(path)
    print(f"{name}: " + ", ".join(f"{what} {error:.1e}" for what, error in worst.items()))
    wrong = {what: error for what, error in worst.items() if not error <= TOLERANCE}
    assert not wrong


@pytest.mark.parametrize("name", FAST)
def test_models(name):
    if name not in FILES:
        pytest.skip("mujoco-mjx and brax are not installed")
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FILES) - set(FAST)))
def test_all_models(name):
    check(name)
