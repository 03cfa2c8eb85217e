"""The compared libraries, each behind the same few functions.

A JAX library is a class with methods of one sample: `fd(q, v, tau)`, `id(q, v, a)`, `mass(q)`. A compiled
library has methods that run a whole batch. `q` always contains the joint angles after an identity base, in the
library's own layout; speed does not depend on it. A class defines only the operations that its library offers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from robots import Robot, mjcf, sdf, urdf


def base(robot: Robot, layout: str):
    """Returns the coordinates of the base at rest: `xyzw` or `wxyz` for its quaternion."""
    if not robot.floating:
        return np.zeros(0)
    return np.array([0, 0, 0, 0, 0, 0, 1.0] if layout == "xyzw" else [0, 0, 0, 1.0, 0, 0, 0])


class JaxLibrary:
    """A library that runs under `jax.vmap`."""

    layout = "wxyz"

    def batched(self, function):
        return jax.vmap(function)

    def samples(self, robot: Robot, size: int, dtype, seed=0):
        rng = np.random.default_rng(seed)
        angles = rng.uniform(-1, 1, (size, len(robot.parents)))
        q = np.concatenate([np.tile(base(robot, self.layout), (size, 1)), angles], axis=1)
        v, tau = rng.normal(size=(2, size, robot.nv))
        return tuple(jnp.asarray(x, dtype) for x in (q, v, tau))


class Rbd(JaxLibrary):
    name = "rbd_jax"

    def __init__(self, robot, dtype):
        import rbd_jax as rbd

        rbd.parallel.keep_memory()  # the other libraries also reuse the memory of their results
        self.rbd = rbd
        self.model = rbd.astype(rbd.load_urdf(urdf(robot), floating_base=robot.floating), dtype)

    def batched(self, function):
        return self.rbd.batch_map(function)

    def fd(self, q, v, tau):
        return self.rbd.forward_dynamics(self.model, q, v, tau)

    def id(self, q, v, a):
        return self.rbd.inverse_dynamics(self.model, q, v, a)

    def mass(self, q):
        return self.rbd.mass_matrix(self.model, q)

    def dfd(self, q, v, tau):
        return self.rbd.forward_dynamics_derivatives(self.model, q, v, tau)

    def did(self, q, v, a):
        return self.rbd.inverse_dynamics_derivatives(self.model, q, v, a)

    def vjp_model(self, q, v, tau):
        return jax.grad(lambda *x: jnp.sum(self.rbd.forward_dynamics(*x)), argnums=(0, 1, 2, 3))(
            self.model, q, v, tau
        )

    def rollout(self, q, v, tau, steps):
        controls = jnp.broadcast_to(0.01 * tau, (steps, tau.shape[0]))
        path = self.rbd.rollout(self.model, self.rbd.State(q, v), controls, dt=0.001, save_every=steps)
        return path.final.q


class Vmapped(Rbd):
    """The same under `jax.vmap`: the reference for the GPU kernel."""

    name = "vmap"

    def batched(self, function):
        return jax.vmap(function)


class Frax(JaxLibrary):
    name = "frax"

    def __init__(self, robot, dtype):
        from frax import Robot as FraxRobot

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "robot.urdf")
            path.write_text(urdf(robot))
            self.robot = FraxRobot(str(path), floating_base="quaternion" if robot.floating else None)

    def fd(self, q, v, tau):
        return self.robot.forward_dynamics(q, v, tau, None)

    def id(self, q, v, a):
        return self.robot.rnea(q, v, a, jnp.array([0, 0, -9.81, 0, 0, 0], q.dtype), None)

    def mass(self, q):
        return self.robot.crba(q)


class Mjx(JaxLibrary):
    name = "mjx"

    def __init__(self, robot, dtype):
        import mujoco
        from mujoco import mjx

        self.mjx = mjx
        self.model = mjx.put_model(mujoco.MjModel.from_xml_string(mjcf(robot)))
        self.data = mjx.make_data(self.model)

    def fd(self, q, v, tau):
        return self.mjx.forward(self.model, self.data.replace(qpos=q, qvel=v, qfrc_applied=tau)).qacc

    def id(self, q, v, a):
        return self.mjx.inverse(self.model, self.data.replace(qpos=q, qvel=v, qacc=a)).qfrc_inverse

    def mass(self, q):
        data = self.data.replace(qpos=q)
        for stage in (self.mjx.kinematics, self.mjx.com_pos, self.mjx.crb):
            data = stage(self.model, data)
        return self.mjx.full_m(self.model, data)


class Brax(JaxLibrary):
    name = "brax"

    def __init__(self, robot, dtype):
        import mujoco
        from brax.generalized import pipeline
        from brax.io import mjcf as reader

        self.system, self.pipeline = reader.load_model(mujoco.MjModel.from_xml_string(mjcf(robot))), pipeline

    def fd(self, q, v, tau):
        from brax.generalized import dynamics, mass

        state = self.pipeline.init(self.system, q, v)
        state = mass.matrix_inv(self.system, dynamics.transform_com(self.system, state), 0)
        return jnp.linalg.solve(state.mass_mx, dynamics.forward(self.system, state, tau))


class Jaxsim(JaxLibrary):
    name = "jaxsim"

    def __init__(self, robot, dtype):
        import jaxsim.api as js

        self.js, self.floating = js, robot.floating
        self.model = js.model.JaxSimModel.build_from_model_description(sdf(robot), is_urdf=False)

    def _data(self, q, v):
        first = (7, 6) if self.floating else (0, 0)
        return self.js.data.JaxSimModelData.build(
            self.model, joint_positions=q[first[0] :], joint_velocities=v[first[1] :]
        )

    def fd(self, q, v, tau):
        efforts = tau[6:] if self.floating else tau
        return self.js.model.forward_dynamics_aba(self.model, self._data(q, v), joint_forces=efforts)[1]

    def id(self, q, v, a):
        joints = a[6:] if self.floating else a
        return self.js.model.inverse_dynamics(self.model, self._data(q, v), joint_accelerations=joints)[1]

    def mass(self, q):
        data = self._data(q, jnp.zeros(q.shape[0] - self.floating, q.dtype))
        return self.js.model.free_floating_mass_matrix(self.model, data)


class Adam(JaxLibrary):
    name = "adam"

    def __init__(self, robot, dtype):
        from adam.jax import KinDynComputations

        names = [f"joint{i}" for i in range(len(robot.parents))]
        self.floating, self.count = robot.floating, len(names)
        self.robot = KinDynComputations(urdf(robot), names)

    def fd(self, q, v, tau):
        one = jnp.eye(4, dtype=q.dtype)
        joints, rates, efforts = q[-self.count :], v[-self.count :], tau[-self.count :]
        return self.robot.aba(one, joints, jnp.zeros(6, q.dtype), rates, efforts)

    def mass(self, q):
        return self.robot.mass_matrix(jnp.eye(4, dtype=q.dtype), q[-self.count :])


class Pinocchio:
    """C++, one thread, called once per sample: about 0.3 µs of each figure is call overhead."""

    name, layout = "pin", "xyzw"

    def __init__(self, robot, dtype):
        import pinocchio

        self.pin = pinocchio
        root = [pinocchio.JointModelFreeFlyer()] if robot.floating else []
        self.model = pinocchio.buildModelFromXML(urdf(robot), *root)
        self.data = self.model.createData()

    samples = JaxLibrary.samples

    def _loop(self, function, samples):
        model, data = self.model, self.data
        for sample in zip(*samples):
            function(model, data, *sample)

    def fd(self, q, v, tau):
        self._loop(self.pin.aba, (q, v, tau))

    def id(self, q, v, a):
        self._loop(self.pin.rnea, (q, v, a))

    def mass(self, q):
        self._loop(self.pin.crba, (q,))

    def dfd(self, q, v, tau):
        self._loop(self.pin.computeABADerivatives, (q, v, tau))

    def did(self, q, v, a):
        self._loop(self.pin.computeRNEADerivatives, (q, v, a))

    def rollout(self, q, v, tau, steps):
        for state, rate, effort in zip(q, v, tau):
            for _ in range(steps):
                rate = rate + 0.001 * self.pin.aba(self.model, self.data, state, rate, 0.01 * effort)
                state = self.pin.integrate(self.model, state, 0.001 * rate)


class Mujoco:
    """C, one thread: the state is set once, then the computation runs once per sample."""

    name, layout = "mujoco", "wxyz"

    def __init__(self, robot, dtype):
        import mujoco

        self.mujoco = mujoco
        self.model = mujoco.MjModel.from_xml_string(mjcf(robot))
        self.model.opt.timestep = 0.001
        self.data = mujoco.MjData(self.model)

    samples = JaxLibrary.samples

    def _loop(self, function, samples):
        for field, value in zip(("qpos", "qvel", "qfrc_applied"), samples):
            setattr(self.data, field, np.asarray(value[0]))
        for _ in range(len(samples[0])):
            function(self.model, self.data)

    def fd(self, q, v, tau):
        self._loop(self.mujoco.mj_forward, (q, v, tau))

    def id(self, q, v, a):
        self._loop(self.mujoco.mj_inverse, (q, v, a))

    def rollout(self, q, v, tau, steps):
        for state in zip(q, v, 0.01 * np.asarray(tau)):
            self._loop(self.mujoco.mj_step, [np.broadcast_to(x, (steps, *x.shape)) for x in state])


LIBRARIES = {
    library.name: library for library in (Rbd, Vmapped, Pinocchio, Mujoco, Frax, Mjx, Brax, Jaxsim, Adam)
}
