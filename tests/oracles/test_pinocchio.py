"""Every quantity that Pinocchio also computes, on the URDF files of example-robot-data, with fixed and free base.

`PinocchioMap` converts Pinocchio's values into our conventions. Its `getFrameJacobianTimeVariation` is the rate of
`getFrameJacobian` in all three frames (in LOCAL and LOCAL_WORLD_ALIGNED for a moving reference), like our rate of
`jacobian`. Its frame accelerations are spatial, like ours. Its derivatives with respect to q are on the tangent space of q,
in the body frame for a free base, like ours.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_robots import STATES, Worst, compiled, load, random_states, spread, urdf_files

import rbd_jax as rbd
from rbd_jax.interop.pinocchio import PinocchioMap, spatial_vector


pin = pytest.importorskip("pinocchio")

TOLERANCE = 1e-9
FILES = urdf_files()
FRAMES = {"world": pin.WORLD, "body": pin.LOCAL, "world_aligned": pin.LOCAL_WORLD_ALIGNED}

#: Fast cases for every day: a robot, whether its base is free, and the compared quantities.
FAST = [
    (
        "solo12",
        True,
        ("placements", "inverse dynamics, pushed", "forward dynamics, pushed", "mass matrix", "coriolis")
        + ("centroidal momentum matrix", "accelerations, body", "jacobian rate, world_aligned")
        + ("floating base, forward", "floating base, inverse"),
    )
]

#: Files that Pinocchio does not read, with the reason.
REFUSED = {"ur3": "it is the empty leaf of a xacro that failed: a robot without name or links"}

_INVERSES = (
    "forward dynamics",
    "forward dynamics, pushed",
    "floating base, forward",
    "inverse mass matrix",
    "acceleration by q",
    "acceleration by v",
    "acceleration by tau",
)

#: Robots with a different tolerance for quantities that divide by the mass matrix, with the reason.
EXCEPTIONS = {
    "romeo": (np.inf, "the fingers have no mass, M is singular: neither result is finite"),
    "romeo_laas_small": (np.inf, "the grippers have no mass, M is singular: neither result is finite"),
    "icub": (
        3e-8,
        "the condition of M is 1e8, and a few times 1e-16 * 1e8 is what double precision has left",
    ),
}


def compute(model, bodies, wanted, floating):
    """Returns a function of one state that computes the wanted quantities with this library."""

    def of(q, v, a, tau, wrenches):
        numbers = {
            "placements": lambda: rbd.forward_kinematics(model, q),
            "inverse dynamics": lambda: rbd.inverse_dynamics(model, q, v, a),
            "inverse dynamics, pushed": lambda: rbd.inverse_dynamics(model, q, v, a, wrenches),
            "forward dynamics": lambda: rbd.forward_dynamics(model, q, v, tau),
            "forward dynamics, pushed": lambda: rbd.forward_dynamics(model, q, v, tau, wrenches),
            "mass matrix": lambda: rbd.mass_matrix(model, q),
            "bias": lambda: rbd.bias_force(model, q, v),
            "gravity": lambda: rbd.gravity_force(model, q),
            "coriolis": lambda: rbd.coriolis_matrix(model, q, v),
            "inverse mass matrix": lambda: rbd.solve_mass_matrix(model, q, jnp.eye(model.nv)),
            "center of mass": lambda: rbd.center_of_mass(model, q),
            "center of mass jacobian": lambda: rbd.center_of_mass_jacobian(model, q),
            "centroidal momentum matrix": lambda: rbd.centroidal_momentum_matrix(model, q),
            "momentum": lambda: rbd.momentum(model, q, v),
            "centroidal inertia": lambda: rbd.centroidal_inertia(model, q).matrix,
            "locked inertia": lambda: rbd.locked_inertia(model, q).matrix,
            "average velocity": lambda: rbd.average_velocity(model, q, v, rbd.center_of_mass(model, q)),
            "kinetic energy": lambda: rbd.kinetic_energy(model, q, v),
            "potential energy": lambda: rbd.potential_energy(model, q),
        }
        for frame in FRAMES:
            each = lambda function, *state, frame=frame: [
                function(model, *state, b, frame=frame) for b in bodies
            ]
            numbers |= {
                f"velocities, {frame}": lambda frame=frame: rbd.body_velocities(model, q, v, frame),
                f"accelerations, {frame}": lambda frame=frame: rbd.body_accelerations(model, q, v, a, frame),
                f"jacobian, {frame}": lambda each=each: each(rbd.jacobian, q),
                f"jacobian rate, {frame}": lambda each=each: each(rbd.jacobian_derivative, q, v),
            }
        if floating:
            numbers |= {
                "floating base, forward": lambda: jnp.concatenate(
                    list(rbd.floating_base_forward_dynamics(model, q, v, tau[6:], wrenches))
                ),
                "floating base, inverse": lambda: jnp.concatenate(
                    list(rbd.floating_base_inverse_dynamics(model, q, v, a[6:], wrenches))
                ),
                "floating base, mass matrix": lambda: rbd.floating_base_mass_matrix(model, q),
            }
        result = {name: number() for name, number in numbers.items() if name in wanted or not wanted}
        for name, function, last, x in (
            ("torque", rbd.inverse_dynamics_derivatives, "a", a),
            ("acceleration", rbd.forward_dynamics_derivatives, "tau", tau),
        ):
            if name in wanted or not wanted:
                rates = function(model, q, v, x)
                result |= {f"{name} by {by}": rate for by, rate in zip(("q", "v", last), rates)}
        return result

    return of


exchanged = jax.jit(spatial_vector)


def symmetric(upper):
    """Returns the symmetric matrix with the upper triangle of `upper`: Pinocchio does not set the lower one."""
    return np.triu(upper) + np.triu(upper, 1).T


def _angular_first(matrix):
    """Reorders a spatial inertia of Pinocchio, whose linear part comes first."""
    return np.block([[matrix[3:, 3:], matrix[3:, :3]], [matrix[:3, 3:], matrix[:3, :3]]])


def compare(worst, model, conversion, pin_model, data, bodies, ours, state):
    """Compares one state with Pinocchio."""
    q, v, a, tau, wrenches = state
    q_pin = np.asarray(conversion.configuration(q))
    v_pin, a_pin, tau_pin = (np.asarray(conversion.velocity(x)) for x in (v, a, tau))
    # Here a root link called "world" that is not the world is named "world_link".
    names = [name if pin_model.existFrame(name) else name.removesuffix("_link") for name in model.body_names]
    frames = [pin_model.getFrameId(name, pin.FrameType.BODY) for name in names]
    back, matrix, six = conversion.force_from, conversion.matrix_from, exchanged

    def check(name, theirs, of=None, part=lambda x: x):
        """Compares `name`, if requested, with Pinocchio's value: our value of `name` (or of `of`), or a part of it."""
        if (of or name) in ours:
            worst.compare(name, part(ours[of or name]), theirs)

    pin.forwardKinematics(pin_model, data, q_pin, v_pin, a_pin)
    pin.updateFramePlacements(pin_model, data)
    placed = [data.oMf[frame] for frame in frames]
    check("rotations", np.stack([p.rotation for p in placed]), "placements", lambda x: x.rotation)
    check("positions", np.stack([p.translation for p in placed]), "placements", lambda x: x.position)
    for name, frame in FRAMES.items():
        velocities = [pin.getFrameVelocity(pin_model, data, f, frame).vector for f in frames]
        accelerations = [pin.getFrameAcceleration(pin_model, data, f, frame).vector for f in frames]
        check(f"velocities, {name}", six(np.stack(velocities)))
        check(f"accelerations, {name}", six(np.stack(accelerations)))

    pin.computeJointJacobiansTimeVariation(pin_model, data, q_pin, v_pin)
    for name, frame in FRAMES.items():
        for i, body in enumerate(bodies):
            f = frames[model.body_index(body)]
            jacobian = pin.getFrameJacobian(pin_model, data, f, frame)
            rate = pin.getFrameJacobianTimeVariation(pin_model, data, f, frame)
            one = lambda x, i=i: x[i]
            check(f"jacobian, {name}", conversion.jacobian_from(jacobian), part=one)
            check(f"jacobian rate, {name}", conversion.jacobian_from(rate), part=one)

    pushes = [pin.Force.Zero() for _ in range(pin_model.njoints)]
    for wrench, frame in zip(np.asarray(wrenches), frames, strict=True):
        joint = pin_model.frames[frame].parentJoint
        pushes[joint] += data.oMi[joint].actInv(pin.Force(np.asarray(six(wrench))))
    check("inverse dynamics", back(pin.rnea(pin_model, data, q_pin, v_pin, a_pin)))
    check("inverse dynamics, pushed", back(pin.rnea(pin_model, data, q_pin, v_pin, a_pin, pushes)))
    bias = pin.nonLinearEffects(pin_model, data, q_pin, v_pin).copy()
    gravity = pin.computeGeneralizedGravity(pin_model, data, q_pin).copy()
    check("bias", back(bias))
    check("gravity", back(gravity))
    M = matrix(symmetric(pin.crba(pin_model, data, q_pin)))
    check("mass matrix", M)
    if "floating base, mass matrix" in ours:
        check("floating base, mass matrix", M[6:, 6:] - M[6:, :6] @ np.linalg.solve(M[:6, :6], M[:6, 6:]))
    coriolis = matrix(pin.computeCoriolisMatrix(pin_model, data, q_pin, v_pin))
    check("coriolis", coriolis)
    check("coriolis times velocity", back(bias - gravity), "coriolis", lambda x: x @ v)

    if "floating base, forward" in ours:
        # The base is not driven, so Pinocchio's joint forces are ours with zeros at the base.
        driven = np.asarray(conversion.velocity(np.concatenate([np.zeros(6), tau[6:]])))
        check("floating base, forward", back(pin.aba(pin_model, data, q_pin, v_pin, driven, pushes)))
        moving = np.asarray(conversion.velocity(np.concatenate([ours["floating base, inverse"][:6], a[6:]])))
        needed = back(pin.rnea(pin_model, data, q_pin, v_pin, moving, pushes))
        check("floating base, inverse", needed, part=lambda x: np.concatenate([np.zeros(6), x[6:]]))
    check("forward dynamics", back(pin.aba(pin_model, data, q_pin, v_pin, tau_pin)))
    check("forward dynamics, pushed", back(pin.aba(pin_model, data, q_pin, v_pin, tau_pin, pushes)))
    check("inverse mass matrix", matrix(symmetric(pin.computeMinverse(pin_model, data, q_pin))))

    pin.computeRNEADerivatives(pin_model, data, q_pin, v_pin, a_pin)
    check("torque by q", matrix(data.dtau_dq))
    check("torque by v", matrix(data.dtau_dv))
    check("torque by a", matrix(symmetric(data.M)))
    pin.computeABADerivatives(pin_model, data, q_pin, v_pin, tau_pin)
    check("acceleration by q", matrix(data.ddq_dq))
    check("acceleration by v", matrix(data.ddq_dv))
    check("acceleration by tau", matrix(symmetric(data.Minv)))

    center = pin.centerOfMass(pin_model, data, q_pin, v_pin).copy()
    check("center of mass", center)
    jacobian = pin.jacobianCenterOfMass(pin_model, data, q_pin)
    check("center of mass jacobian", jacobian[:, conversion._back])
    check("centroidal momentum matrix", conversion.jacobian_from(pin.ccrba(pin_model, data, q_pin, v_pin)))
    locked, at = data.Ig.copy(), pin.SE3(np.eye(3), center)
    check("centroidal inertia", _angular_first(locked.matrix()))
    check("locked inertia", _angular_first(at.act(locked).matrix()))
    average = np.linalg.solve(locked.matrix(), np.concatenate([data.hg.linear, data.hg.angular]))
    check("average velocity", np.concatenate([average[3:], average[:3]]))
    momentum = data.hg.angular + np.cross(center, data.hg.linear)
    check("momentum", np.concatenate([momentum, data.hg.linear]))
    check("kinetic energy", pin.computeKineticEnergy(pin_model, data, q_pin, v_pin))
    # Our energy includes bodies welded to the world.
    grounded = pin_model.inertias[0].mass * pin_model.inertias[0].lever @ pin_model.gravity.linear
    check("potential energy", pin.computePotentialEnergy(pin_model, data, q_pin) - grounded)


def errors(name: str, floating: bool, wanted=()) -> Worst:
    """Returns the largest relative error over the states of each wanted quantity, by default of all."""
    path = str(FILES[name])
    arguments = (path, pin.JointModelFreeFlyer()) if floating else (path,)
    pin_model = pin.buildModelFromUrdf(*arguments)
    model = load(FILES[name], floating_base=floating, mimic="free")
    if not model.nv:
        pytest.skip("nothing can move")
    conversion = PinocchioMap(model, pin_model)
    bodies = spread(model.body_names, 3)
    wrenches = np.random.default_rng(1).normal(size=(STATES, model.nb, 6))
    state = (*random_states(model), wrenches)
    ours = jax.tree.map(
        np.asarray, compiled(jax.vmap(compute(model, bodies, wanted, floating)), *state)(*state)
    )
    worst, data, conversion = Worst(), pin_model.createData(), Compiled(conversion)
    for i in range(STATES):
        one = jax.tree.map(lambda x, i=i: x[i], (ours, state))
        compare(worst, model, conversion, pin_model, data, bodies, *one)
    return worst


class Compiled:
    """The compiled methods of a `PinocchioMap`."""

    def __init__(self, conversion):
        self._back = conversion._back
        for name in ("configuration", "velocity", "force_from", "matrix_from", "jacobian_from"):
            run = jax.jit(getattr(conversion, name))
            setattr(self, name, lambda x, run=run: np.asarray(run(np.asarray(x))))


def check(name: str, floating: bool, wanted=()):
    if name in REFUSED:
        with pytest.raises(ValueError):
            pin.buildModelFromUrdf(str(FILES[name]))
        pytest.skip(f"Pinocchio: {REFUSED[name]}")
    worst = errors(name, floating, wanted)
    print(f"{name}, {'free' if floating else 'fixed'} base: {worst}")
    wrong = {}
    for what, error in worst.items():
        exempt = what in _INVERSES and name in EXCEPTIONS
        if not error <= (EXCEPTIONS[name][0] if exempt else TOLERANCE):
            wrong[what] = error
    assert not wrong


@pytest.mark.parametrize("name, floating, wanted", FAST, ids=[name for name, *_ in FAST])
def test_robots(name, floating, wanted):
    if name not in FILES:
        pytest.skip("example-robot-data is not installed")
    check(name, floating, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("name", FILES)
def test_all_robots(name, floating):
    check(name, floating)
