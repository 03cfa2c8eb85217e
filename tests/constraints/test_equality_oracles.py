"""Constrained accelerations of closed loops agree with those of MuJoCo and Pinocchio, from the same model files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import constraints as rc
from rbd_jax.interop import MujocoMap, PinocchioMap


# MuJoCo. Its constraints are compliant.

_LUMP = '<geom type="ellipsoid" size=".1 .14 .18" pos=".05 .02 .1" euler=".3 .2 .1"/>'


def _body(name, pos, joint, inside=""):
    return f'<body name="{name}" pos="{pos}"><joint name="{name}" {joint}/>{_LUMP}{inside}</body>'


#: A planar four-bar with a redundant point closure; a trunk with two arms that hold one another; gears; and a free body
#: with each type of loop.
SCENE = f"""<mujoco><compiler angle="radian"/><option gravity="1 -2 -9" jacobian="dense" solver="Newton" tolerance="1e-14">
<flag contact="disable" island="disable" warmstart="disable"/></option><worldbody>
{_body("crank", "0 0 0", 'axis="0 1 0"', _body("coupler", ".3 0 .4", 'axis="0 1 0"'))}
{_body("follower", "1 0 0", 'axis="0 1 0"')}
{
    _body(
        "trunk",
        "2 0 0",
        'axis="1 1 0"',
        _body("left upper", ".2 .3 .1", 'axis="1 0 .2"', _body("left", ".1 .3 .2", 'type="ball"'))
        + _body(
            "right upper",
            "-.2 .3 .1",
            'axis="0 1 .2"',
            _body("right lower", ".1 .1 .2", 'axis="1 0 1"', _body("right", ".1 .3 .2", 'type="ball"')),
        ),
    )
}
{_body("pinion", "4 0 0", 'axis="1 0 0" ref=".3"')}
{_body("rack", "4 1 0", 'type="slide" axis="0 0 1" ref="-.2"')}
{_body("latch", "4 2 0", 'axis="1 0 0" ref=".4"')}
<body name="free" pos="6 0 0"><freejoint name="free"/>{_LUMP}
    {
    _body(
        "wing",
        ".1 .3 0",
        'axis="1 0 .2"',
        _body("rod", ".2 .2 0", 'type="ball"', '<site name="end" pos=".3 .1 .1"/>'),
    )
}
    {_body("fin", ".1 -.3 0", 'axis="1 .2 0"', '<site name="hook" pos=".2 .1 .3"/>')}
    {_body("lid", "-.2 0 .2", 'axis="0 1 0"')}
    {_body("tail", "-.4 0 0", 'type="ball"', _body("tip", "-.2 .1 0", 'type="ball"'))}</body>
</worldbody><equality>
<connect body1="coupler" body2="follower" anchor=".5 0 .2"/>
<weld body1="left" body2="right" anchor=".1 .2 .3"/>
<joint joint1="rack" joint2="pinion" polycoef="0 .4 .3 -.2 .1"/>
<joint joint1="latch"/>
<connect site1="end" site2="hook"/>
<weld body1="tip" body2="free"/>
<joint joint1="lid" joint2="wing" polycoef="0 -1.5 0 0 0"/>
</equality></mujoco>"""
MECHANISMS = {
    "four-bar": ("crank", "coupler", "follower"),
    "weld": ("trunk", "left upper", "left", "right upper", "right lower", "right"),
    "gear": ("pinion", "rack", "latch"),
    "mixed": ("free", "wing", "rod", "fin", "lid", "tail", "tip"),
}

#: MuJoCo's constraint impedances. 1 would be rigid, and 0.9999 is MuJoCo's limit.
IMPEDANCES = np.array([0.99, 0.999, 0.9993, 0.9996, 0.9998, 0.9999])


def slope(mujoco, mj_model, data, qpos):
    """Returns MuJoCo's constraint Jacobian at a configuration."""
    data.qpos[:] = qpos
    mujoco.mj_fwdPosition(mj_model, data)
    return data.efc_J.reshape(-1, mj_model.nv).copy()


def consistent(mujoco, mj_model, qpos, qvel):
    """Returns a nearby consistent state, by Newton's method on MuJoCo's residual."""
    data, qpos = mujoco.MjData(mj_model), qpos.copy()
    for _ in range(20):
        jacobian = slope(mujoco, mj_model, data, qpos)
        mujoco.mj_integratePos(mj_model, qpos, -np.linalg.pinv(jacobian, 1e-8) @ data.efc_pos, 1)
    jacobian = slope(mujoco, mj_model, data, qpos)
    np.testing.assert_allclose(data.efc_pos, 0, atol=1e-13)
    return qpos, qvel - np.linalg.pinv(jacobian, 1e-8) @ (jacobian @ qvel)


def accelerations(mujoco, mj_model, qpos, qvel, qfrc):
    """Returns `qacc` for each impedance."""
    data, step, ends = mujoco.MjData(mj_model), 1e-5, []
    for sign in (1, -1):
        moved = qpos.copy()
        mujoco.mj_integratePos(mj_model, moved, qvel, sign * step)
        ends.append(slope(mujoco, mj_model, data, moved) @ qvel)
    found = []
    for impedance in IMPEDANCES:
        mj_model.eq_solimp[:, :2] = impedance
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = qpos, qvel, qfrc
        mujoco.mj_forward(mj_model, data)
        data.efc_aref[:] = -(ends[0] - ends[1]) / (2 * step)
        mujoco.mj_fwdConstraint(mj_model, data)
        found.append(data.qacc.copy())
    return np.stack(found)


@pytest.mark.slow
def test_mujoco_in_the_limit_of_stiff_constraints():
    """Errors are proportional to `(1 - d) / d`, where d is the impedance, and vanish in the extrapolated limit.

    Where the constraints hold, MuJoCo solves `J qacc = 0`. It omits `J̇ qvel`, so that moving loops would open at
    second order without its springs. The test adds the omitted term to `efc_aref`, from differences of MuJoCo's
    Jacobian.
    """
    mujoco = pytest.importorskip("mujoco")
    mj_model, model = mujoco.MjModel.from_xml_string(SCENE), rbd.load_mjcf(SCENE)
    there, rng = MujocoMap(model, mj_model), np.random.default_rng(0)

    @jax.jit
    def ours(qpos, qvel, qfrc):
        q = there.configuration_from(qpos)
        v = there.velocity_from(q, qvel)
        motion = rbd.constrained_dynamics(model, q, v, there.force_from(q, qfrc))
        broken = rbd.constraint_residual(model, q), rbd.constraint_velocity(model, q, v)
        return there.acceleration(q, v, motion.acceleration), motion.rank, broken

    for moving in (0, 1):
        start = mj_model.qpos0.copy()
        mujoco.mj_integratePos(mj_model, start, rng.normal(size=model.nv), 0.2)
        qpos, qvel = consistent(mujoco, mj_model, start, moving * rng.normal(size=model.nv))
        qfrc = rng.normal(size=model.nv)
        qacc, rank, broken = ours(qpos, qvel, qfrc)
        for residual in broken:
            np.testing.assert_allclose(residual, 0, atol=1e-12)
        assert rank == 2 + 6 + 2 + 3 + 5 + 1
        theirs = accelerations(mujoco, mj_model, qpos, qvel, qfrc)
        softness = (1 - IMPEDANCES) / IMPEDANCES
        # Extrapolates to zero with the interpolating polynomial.
        others = [np.delete(softness, i) for i in range(len(softness))]
        weights = [np.prod(other / (other - own)) for other, own in zip(others, softness)]
        limit = np.tensordot(weights, theirs, 1)
        for name, joints in MECHANISMS.items():
            dofs = np.concatenate(
                [np.arange(mj_model.nv)[mj_model.dof_jntid == mj_model.joint(j).id] for j in joints]
            )
            size = np.abs(qacc[dofs]).max()
            errors = np.abs(theirs[:, dofs] - qacc[dofs][None]).max(axis=1) / size
            # The softest constraint is outside the linear range.
            np.testing.assert_allclose(errors[1:] / errors[-1], softness[1:] / softness[-1], rtol=0.15)
            np.testing.assert_allclose(limit[dofs], qacc[dofs], rtol=0, atol=1e-7 * size, err_msg=name)


# Pinocchio. Its constraints are rigid.

#: A leg: per joint the parent link, the child link, the axis and the position.
LEG = (
    ("base", "hip", "0.3 1 -.2", ".1 .2 -.1"),
    ("hip", "thigh", "0 1 0", "0 0 -.1"),
    ("thigh", "shin", "0 1 0", ".1 0 -.4"),
    ("shin", "tarsus", "0 1 0", ".05 0 -.4"),
    ("thigh", "yoke", "0 1 0", "-.1 0 -.05"),
    ("yoke", "rod", "1 0 0", "0 0 0"),
    ("rod", "socket", "1 0 0", "0 0 -.7"),
    ("socket", "cross", "0 1 0", "0 0 0"),
    ("cross", "heel", "0 0 1", "0 0 0"),
    ("tarsus", "crank", "0 1 0", "0 0 -.1"),
    ("crank", "bar", "0 1 0", ".1 0 0"),
    ("bar", "end", "{last}", "0 0 -.1"),
    ("tarsus", "toe", "0 1 0", "-.05 0 -.35"),
)
SIDES = {"left": 1, "right": -1}


def legs(last: str) -> str:
    """Returns the URDF of a floating base with two legs like Cassie's, with rods from thigh and crank to tarsus and toe."""
    rng = np.random.default_rng(0)

    def link(name):
        mass, *numbers = rng.uniform(0.5, 2.0, 7)
        com, moments = 0.05 * np.array(numbers[:3]), 0.05 + 0.02 * np.array(numbers[3:])
        return (
            f'<link name="{name}"><inertial><origin xyz="{com[0]} {com[1]} {-com[2]}" rpy=".1 .2 .3"/><mass value="{mass}"/>'
            f'<inertia ixx="{moments[0]}" iyy="{moments[1]}" izz="{moments[2]}" ixy=".004" ixz="-.003" iyz=".002"/>'
            "</inertial></link>"
        )

    text = link("base")
    for side, sign in SIDES.items():
        for above, name, axis, place in LEG:
            above = above if above == "base" else f"{side} {above}"
            place = " ".join(str(x) for x in np.array(place.split(), float) * [1, sign, 1])
            turn = f"{sign * 0.2} .1 .4" if name == "hip" else "0 0 0"
            text += link(f"{side} {name}") + (
                f'<joint name="{side} {name}" type="revolute"><parent link="{above}"/><child link="{side} {name}"/>'
                f'<origin xyz="{place}" rpy="{turn}"/><axis xyz="{axis.format(last=last)}"/>'
                '<limit lower="-9" upper="9" effort="9" velocity="9"/></joint>'
            )
    return f'<robot name="legs">{text}</robot>'


class Legs:
    """The legs in both libraries, with loops that are closed in any given configuration."""

    def __init__(self, pin, last: str):
        self.pin, text = pin, legs(last)
        self.tree = rbd.load_urdf(text, floating_base=True)
        self.pin_model = pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
        self.there = PinocchioMap(self.tree, self.pin_model)

    def closed(self, q, rng):
        """Returns our model and Pinocchio's constraints.

        Each loop connects a frame on one link with the coincident frame on another.
        """
        pin, data = self.pin, self.pin_model.createData()
        pin.forwardKinematics(self.pin_model, data, np.asarray(self.there.configuration(q)))
        ours, theirs = [], pin.StdVec_RigidConstraintModel()
        for side in SIDES:
            for kind, above, below in (("3D", "toe", "end"), ("6D", "tarsus", "heel")):
                a, b = (self.pin_model.getJointId(f"{side} {name}") for name in (above, below))
                on_a = pin.SE3(pin.exp3(rng.normal(size=3)), rng.uniform(-0.1, 0.1, 3))
                on_b = data.oMi[b].actInv(data.oMi[a] * on_a)
                if kind == "3D":
                    on_b.rotation = pin.exp3(rng.normal(size=3))
                ends = [
                    rbd.Transform(jnp.asarray(end.rotation), jnp.asarray(end.translation))
                    for end in (on_a, on_b)
                ]
                family = rc.Connect if kind == "3D" else rc.Weld
                ours.append(family(f"{side} {above}", ends[0], f"{side} {below}", ends[1]))
                contact = getattr(pin.ContactType, f"CONTACT_{kind}")
                local = pin.ReferenceFrame.LOCAL
                theirs.append(pin.RigidConstraintModel(contact, self.pin_model, a, on_a, b, on_b, local))
        return rbd.add_constraints(self.tree, *ours), theirs

    def accelerations(self, constraints, q, v, tau):
        """Returns Pinocchio's accelerations in our order, its multipliers in our convention, and a correction for each
        weld.

        The correction is `(ω₁ + ω₂) x (ṗ₂ - ṗ₁)` in world axes. Pinocchio's force acts on the first link in the axes of
        the frame there. Ours acts on the second link, and for a point in world axes.
        """
        pin, data = self.pin, self.pin_model.createData()
        states = pin.StdVec_RigidConstraintData()
        for constraint in constraints:
            states.append(constraint.createData())
        pin.initConstraintDynamics(self.pin_model, data, constraints, states)
        q, v, tau = (
            np.asarray(x)
            for x in (self.there.configuration(q), self.there.velocity(v), self.there.force(tau))
        )
        settings = pin.ProximalSettings(1e-14, 1e-10, 200)
        a = pin.constraintDynamics(self.pin_model, data, q, v, tau, constraints, states, settings)
        multipliers, turned = [], []
        pin.forwardKinematics(self.pin_model, data, q, v)
        for constraint, state in zip(constraints, states):
            force, rotation = state.contact_force, state.oMc1.rotation
            if constraint.type == pin.ContactType.CONTACT_6D:
                multipliers.append(-force.angular)
                ends = (constraint.joint1_id, state.oMc1), (constraint.joint2_id, state.oMc2)
                twists = [data.oMi[joint].act(data.v[joint]) for joint, _ in ends]
                speeds = [t.linear + np.cross(t.angular, at.translation) for t, (_, at) in zip(twists, ends)]
                turned.append(np.cross(twists[0].angular + twists[1].angular, speeds[1] - speeds[0]))
            multipliers.append(-rotation @ force.linear)
        return np.asarray(self.there.acceleration_from(a)), np.concatenate(multipliers), turned


@pytest.mark.slow
def test_pinocchio():
    """Legs with independent loops, and legs with a redundant planar loop.

    Accelerations agree where the constraints hold. For point constraints they also agree elsewhere, since both
    libraries constrain the difference of the points' accelerations. For frame constraints they may differ: Pinocchio
    constrains the relative twist in the axes of the first frame, we constrain the difference of accelerations.
    Pinocchio's Baumgarte corrector has no gains by default, and `constraintDynamics` does not read
    `desired_contact_acceleration`. For redundant rows Pinocchio's iteration returns multipliers that are not quite the
    minimum-norm ones.
    """
    pin = pytest.importorskip("pinocchio")

    @jax.jit
    def ours(model, q, v, tau):
        motion = rbd.constrained_dynamics(model, q, v, tau)
        broken = rbd.constraint_residual(model, q), rbd.constraint_velocity(model, q, v)
        return motion, rbd.constraint_jacobian(model, q), rbd.constraint_bias(model, q, v), broken

    def agree(x, y):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-10 * np.abs(y).max())

    for last, rank in (("0 0 1", 18), ("0 1 0", 16)):
        robot, rng = Legs(pin, last), np.random.default_rng(1)
        for _ in range(3):
            q = np.concatenate([rng.normal(size=7), rng.uniform(-0.4, 0.4, robot.tree.nv - 6)])
            v, tau = rng.normal(size=(2, robot.tree.nv))
            model, constraints = robot.closed(q, rng)
            _, jacobian, _, (_, opening) = ours(model, q, v, tau)
            kept = v - np.linalg.pinv(jacobian, 1e-8) @ opening
            motion, _, _, broken = ours(model, q, kept, tau)
            np.testing.assert_allclose(np.concatenate(broken), 0, atol=1e-13)
            a, multipliers, _ = robot.accelerations(constraints, q, kept, tau)
            assert motion.rank == rank
            agree(motion.acceleration, a)
            if rank < len(multipliers):  # ours have minimum norm
                assert np.linalg.norm(motion.multipliers) <= np.linalg.norm(multipliers) * (1 + 1e-9)
                continue
            agree(motion.multipliers, multipliers)
            # Velocities that violate all loops, in a configuration that violates the point constraints.
            for side in SIDES:
                q[model.q_slice(f"{side} bar")] += 0.3
            a, _, turned = robot.accelerations(constraints, q, v, tau)
            _, jacobian, bias, _ = ours(model, q, v, tau)
            expected = [row for linear in turned for row in (np.zeros(3), np.zeros(3), linear)]
            agree(jacobian @ a + bias, np.concatenate(expected))
