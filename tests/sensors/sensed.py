"""A mechanism with a sensor of every type that MuJoCo has, and MuJoCo's readings."""

import jax
import mujoco
import numpy as np


GEOM = '<geom type="ellipsoid" size=".1 .2 .3" pos=".05 .02 .1" euler=".3 .2 .1"/>'

#: An arm with an offset hinge, a ball, a weld, a slide and a hinge in series; and a floating body with an arm.
BODIES = f"""<option gravity="1 -2 -9.81" magnetic=".1 -.4 .3"><flag energy="enable" contact="disable"/></option>
<compiler angle="radian"/><worldbody>
<geom name="post" type="box" size=".1 .2 .3" pos="1 2 3" euler="1 0 2"/><site name="ground" pos="1 2 3" euler=".1 .2 .3"/>
<body name="upper" pos=".1 0 .3" euler=".3 0 .2">{GEOM}<site name="elbow" pos=".1 .2 .3" euler="1 2 3"/>
  <joint name="turn" axis="0 .6 .8" pos=".1 .2 .1" armature=".02" damping=".3" stiffness="2" ref=".3" springref=".2"/>
  <camera name="eye" pos=".1 .2 .3" euler="1 1 1"/>
  <body name="lower" pos=".4 .2 0"><joint name="ball" type="ball" damping=".1"/>{GEOM}
    <site name="rod" pos=".2 -.1 .3" euler="-1 .2 .3"/>
    <body name="flange" pos="0 0 .3" euler="1 0 0"><site name="wrist" euler=".2 .3 0" pos="0 .1 0"/>
      <geom name="tool" type="box" size=".1 .1 .1" pos=".1 0 .1" mass=".5" euler="1 0 1"/>
      <body name="finger" pos=".1 .1 .1">{GEOM}<site name="tip" pos="0 .1 .2"/>
        <joint name="slide" type="slide" axis="1 0 1" range="-.2 .3" limited="true" margin=".1"/>
        <joint name="bend" axis="0 1 1" range="-1 .5" limited="true"/></body></body></body></body>
<body name="hull" pos="1 1 1"><freejoint name="free"/>{GEOM}<site name="box" pos=".1 .1 .1" euler="1 0 0"/>
  <body name="wing" pos=".2 0 0"><joint name="flap" axis="1 0 0"/>{GEOM}<site name="edge" pos="0 0 .2"/></body></body>
</worldbody>"""

SITES = ("ground", "elbow", "wrist", "tip", "box", "edge")
AT_SITES = ("gyro", "accelerometer", "velocimeter", "magnetometer", "force", "torque")
FRAMES = ("framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis", "framelinvel", "frameangvel")
#: Objects and reference objects, of every type.
PAIRS = (
    ("site", "elbow", None, None),
    ("body", "upper", "site", "tip"),
    ("xbody", "lower", "body", "hull"),
    ("geom", "tool", "xbody", "world"),
    ("camera", "eye", "geom", "tool"),
    ("site", "box", "camera", "eye"),
    ("geom", "post", "site", "ground"),
    ("site", "ground", "site", "box"),
    ("body", "wing", None, None),
)


def sensors() -> list[str]:
    """Returns the elements of sensors of every type, on all types of objects."""
    found = [
        f'<{kind} site="{site}"/>'
        for site in SITES
        for kind in AT_SITES
        if site != "ground" or kind not in ("force", "torque")
    ]
    for kind, name, other, other_name in PAIRS:
        seen = f'reftype="{other}" refname="{other_name}"' if other else ""
        found += [f'<{frame} objtype="{kind}" objname="{name}" {seen}/>' for frame in FRAMES]
        found += [f'<{frame} objtype="{kind}" objname="{name}"/>' for frame in ("framelinacc", "frameangacc")]
    for body in ("world", "upper", "flange", "hull"):
        found += [f'<{kind} body="{body}"/>' for kind in ("subtreecom", "subtreelinvel", "subtreeangmom")]
    for joint in ("turn", "slide", "bend", "flap"):
        found += [f'<{kind} joint="{joint}"/>' for kind in ("jointpos", "jointvel")]
    for joint in ("slide", "bend"):
        found += [f'<{kind} joint="{joint}"/>' for kind in ("jointlimitpos", "jointlimitvel")]
    found += ['<ballquat joint="ball"/>', '<ballangvel joint="ball"/>']
    found += ["<e_potential/>", "<e_kinetic/>", "<clock/>"]
    return [
        *found,
        '<jointpos joint="bend" cutoff=".1"/>',
        '<gyro name="named" site="rod" cutoff=".3" noise=".2"/>',
    ]


XML = f"<mujoco>{BODIES}<sensor>{' '.join(sensors())}</sensor></mujoco>"


def theirs(mj_model, to, states, *, constrained: bool):
    """Returns MuJoCo's `sensordata` in states `q, v, tau`, one per row; quaternions have `w >= 0`, like ours."""
    off = mujoco.mjtDisableBit
    mj_model.opt.disableflags = int(off.mjDSBL_CONTACT) | (0 if constrained else int(off.mjDSBL_CONSTRAINT))
    there = jax.jit(lambda q, v, tau: (to.configuration(q), to.velocity(q, v), to.force(q, tau)))
    data, rows = mujoco.MjData(mj_model), []
    for state in zip(*states):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = jax.device_get(there(*state))
        data.time = 1.5
        mujoco.mj_forward(mj_model, data)
        mujoco.mj_forward(mj_model, data)  # its kinetic energy is that of the previous call
        rows.append(upright(mj_model, np.array(data.sensordata)))
    return np.stack(rows)


def upright(mj_model, row):
    """Changes the sign of quaternions such that `w >= 0`."""
    for start, kind in zip(mj_model.sensor_adr, mj_model.sensor_datatype):
        if kind == mujoco.mjtDataType.mjDATATYPE_QUATERNION and row[start] < 0:
            row[start : start + 4] *= -1
    return row
