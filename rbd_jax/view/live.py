"""An interactive simulation: steps in real time, with a body pulled by the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._core.array import cross, matmul, matvec, transpose, vecmat
from .._core.jit import compiled
from ..constraints.closure import ReducedModel
from ..constraints.consistency import assemble
from ..contact import Soft
from ..contact.compliant import Compliant
from ..contact.law import contact_law
from ..contact.pairs import touching
from ..dynamics import forward_kinematics, solve_mass_matrix
from ..forces import Force
from ..model import Model, attach, integrate, neutral
from ..simulate.begin import default_scheme
from ..simulate.control import Controls
from ..simulate.keyframes import keyframe, keyframe_controls
from ..simulate.result import Result
from ..simulate.rollouts import rollout
from ..simulate.scheme import Scheme
from ..simulate.state import State
from ..simulate.systems import Simulated, tree_of
from ..simulate.tree_system import Acting
from .stage import Moment


#: Simulated time per frame in s, and the time step of a model whose file has none.
FRAME, STEP = 1 / 60, 0.002

#: Natural frequency of the pull in rad/s, for a point with the mass of the complete model.
PULL = 8.0


class Pull(Force):
    """A spring with a damper from a point of a body to a point of the world, which may change at each step.

    - `body`: the index of the body, -1 for none; a leaf, so that one compiled step serves all bodies.
    - `point`: the point in the frame of the body; `target`: the point in the world.
    - `spring_constant`, `damping_constant`: in N/m and N s/m.
    """

    body: Int[Array, ""]
    point: Float[Array, "3"]
    target: Float[Array, "3"]
    spring_constant: Float[Array, ""]
    damping_constant: Float[Array, ""]

    def __init__(self, body, point, target, spring_constant, damping_constant):
        self.body, self.point, self.target = body, point, target
        self.spring_constant, self.damping_constant = spring_constant, damping_constant

    @staticmethod
    def none(dtype) -> Pull:
        """Returns a pull without effect."""
        zero, nothing = jnp.zeros((), dtype), jnp.zeros(3, dtype)
        return Pull(jnp.asarray(-1, jnp.int32), nothing, nothing, zero, zero)

    def body_wrenches_in(self, motion):
        frame, twist = self._held(motion.world_frames), self._held(motion.twists)
        off = vecmat(self._off(frame), frame.rotation)  # in body axes
        moves = twist[3:] + cross(twist[:3], self.point)
        force = self.spring_constant * off - self.damping_constant * moves
        wrench = jnp.concatenate([cross(self.point, force), force])
        return jnp.where(self._on(motion)[:, None], wrench[None], 0)

    def generalized_force(self, motion):
        return motion.generalized_force(range(motion.model.nb), self.body_wrenches_in(motion))

    def stored_energy(self, motion):
        off = self._off(self._held(motion.world_frames))
        return jnp.where(jnp.any(self._on(motion)), 0.5 * self.spring_constant * jnp.sum(off**2), 0)

    def _held(self, of_bodies):
        """Selects the entry of the held body, or of body 0 without a held body."""
        return jax.tree.map(lambda x: x[jnp.maximum(self.body, 0)], of_bodies)

    def _off(self, frame):
        return self.target - frame.position - matvec(frame.rotation, self.point)

    def _on(self, motion):
        return jnp.arange(motion.model.nb, dtype=jnp.int32) == self.body


class Live:
    """A simulation that the user advances, pulls and resets.

    - `model`: the simulated model. A model without a contact model gets `rbd.contact.Soft()` if its shapes can touch or its
      joints have limits, unless `contact` is False; `said` describes such changes.
    - `state`, `time`, `controls`: the current state, time and controls. Without a policy, the controls are constant.
    - `failed`: the failure that ended the simulation; None while it continues.
    - `dt`: the time step, by default that of the model's file or else 2 ms. `scheme`, `forces`, `policy`, `memory` are those of
      `rbd.rollout`, which evaluates the policy `(t, state) -> rbd.Controls(u)` or `-> tau` at the start of every step.
    """

    def __init__(
        self,
        model: Simulated,
        state: State | None = None,
        *,
        dt: float | None = None,
        scheme: Scheme | None = None,
        forces: Sequence[Acting] = (),
        policy: Callable[..., Any] | None = None,
        memory: Any = None,
        contact: bool = True,
    ):
        self.model, self.said = _simulated(model, contact)
        self.forces, self.policy, self._memories = tuple(forces), policy, memory
        self.scheme = default_scheme(self.model) if scheme is None else scheme
        self.dt = float(dt or tree_of(model).settings.timestep or STEP)
        self.substeps = max(1, round(FRAME / self.dt))
        self.keyframes = tuple(one.name for one in tree_of(model).keyframes if one.name)
        if isinstance(model, ReducedModel):
            self.keyframes = ()
        self.put(_at_rest(model) if state is None else state)

    def reset(self, name: str | None = None) -> None:
        """Resets to the initial state, or to a keyframe of the model."""
        dtype, tree = self.model.dtype, tree_of(self.model)
        begin, u = self._begin
        if name is not None:
            begin, u = keyframe(tree, name), keyframe_controls(tree, name).u
        own = None if begin.own is None else jnp.asarray(begin.own, dtype)
        self.state = State(jnp.asarray(begin.q, dtype), jnp.asarray(begin.v, dtype), own)
        self.controls = Controls(jnp.asarray(u, dtype), jnp.zeros(self.model.nv, dtype))
        self.time, self.failed, self._owed, self._memory = 0.0, None, 0.0, self._memories
        self.release()

    def put(self, state: State, u: Any = None) -> None:
        """Sets a new initial state and the controls `u` there, by default zero, and resets."""
        self._begin = state, np.zeros(tree_of(self.model).nu) if u is None else u
        self.reset()

    @property
    def moment(self) -> Moment:
        """The current time, state and controls."""
        return Moment(self.time, self.state, self.controls)

    @property
    def acting(self) -> tuple[Acting, ...]:
        """The forces in addition to those that the model carries, including the pull."""
        return (*self.forces, self._pull)

    @property
    def span(self) -> float:
        """The time of one advance, in s."""
        return self.substeps * self.dt

    def advance(self, seconds: float, at_most: int = 4) -> float:
        """Advances by about `seconds`, and returns the simulated time.

        The simulation advances by whole spans, at most `at_most` of them. The rest of the time is added to the next call.
        """
        self._owed = min(self._owed + seconds, at_most * self.span)
        begin = self.time
        while self._owed >= self.span and self.failed is None:
            self._owed -= self.span
            self._go_on()
        return self.time - begin

    def _go_on(self) -> None:
        dtype = self.model.dtype
        state, controls, memory, code = _advanced(
            self.model,
            self.state,
            self.controls,
            self.acting,
            jnp.asarray(self.time, dtype),
            jnp.asarray(self.dt, dtype),
            self._memory,
            scheme=self.scheme,
            substeps=self.substeps,
            policy=self.policy,
        )
        if np.isfinite(np.asarray(state.q)).all() and np.isfinite(np.asarray(state.v)).all():
            self.state, self.controls, self._memory = state, controls, memory
            self.time += self.span
        else:
            self.failed = f"failed at t = {self.time:.3g} s: {Result(int(code)).title}"

    # User interaction.

    def set_control(self, place: int, value: float) -> None:
        """Sets the control of one actuator."""
        u = np.array(self.controls.u)
        u[place] = value
        self.controls = Controls(jnp.asarray(u), self.controls.tau)

    def grab(self, body: int, point: Any, strength: float = 1.0) -> None:
        """Attaches the pull to a point of a body, given in its frame, at its current position.

        The spring is as strong as the time step allows.
        """
        dtype = self.model.dtype
        at = jnp.asarray(np.asarray(point), dtype)
        where, felt, whole = _felt(self.model, self.state.q, jnp.asarray(body, jnp.int32), at)
        felt, whole = float(felt), float(whole)
        # Stability limits of explicit steps for a spring and a damper on the effective mass, with a margin.
        spring = min(strength * whole * PULL**2, 0.05 * felt / self.dt**2)
        damping = min(2 * np.sqrt(spring * felt), 0.2 * felt / self.dt)
        spring, damping = (jnp.asarray(x, dtype) for x in (spring, damping))
        self._pull = Pull(jnp.asarray(body, jnp.int32), at, where, spring, damping)

    def pull(self, target: Any) -> None:
        """Sets the target of the pull in the world."""
        self._pull = self._pull.changed(target=jnp.asarray(np.asarray(target), self.model.dtype))

    def release(self) -> None:
        """Removes the pull."""
        self._pull = Pull.none(self.model.dtype)

    @property
    def held(self) -> tuple[int, np.ndarray, np.ndarray] | None:
        """The pulled body, the point on it, and the target; None without a pull."""
        if int(self._pull.body) < 0:
            return None
        point, target = (np.asarray(x, float) for x in (self._pull.point, self._pull.target))
        return int(self._pull.body), point, target


@compiled
def _advanced(
    model, state: State, controls: Controls, forces, time, dt, memory, *, scheme, substeps: int, policy
):
    table = jax.tree.map(lambda x: jnp.broadcast_to(x, (substeps, *x.shape)), controls)
    path = rollout(
        model,
        state,
        table if policy is None else policy,
        dt=dt,
        scheme=scheme,
        steps=substeps,
        forces=forces,
        save_every=substeps,
        t0=time,
        memory=memory,
    )
    u = controls.u if path.u is None else path.u[-1]
    return path.final, Controls(u, path.tau[-1]), path.memory, path.code


@compiled
def _felt(model: Simulated, q, body, point):
    """Returns the position of a point of a body, its effective mass in the direction of least resistance, and the total mass."""
    tree = tree_of(model)
    q = model.closure(q) if isinstance(model, ReducedModel) else q

    def where(step):
        frame = jax.tree.map(lambda x: x[body], forward_kinematics(tree, integrate(tree, q, step)))
        return frame.position + matvec(frame.rotation, point)

    still = jnp.zeros(tree.nv, q.dtype)
    jacobian = jax.jacfwd(where)(still)
    answer = matmul(jacobian, solve_mass_matrix(tree, q, transpose(jacobian)))
    easiest = jnp.sqrt(jnp.sum(answer**2))  # upper bound of the largest eigenvalue
    felt = jnp.where(easiest > 0, 1 / jnp.where(easiest > 0, easiest, 1), 0)
    return where(still), felt, jnp.sum(tree.inertias.mass)


def _at_rest(model: Simulated) -> State:
    """Returns the neutral configuration at rest, with loops closed."""
    if isinstance(model, ReducedModel):
        return State(jnp.zeros(model.nq, model.dtype), jnp.zeros(model.nv, model.dtype))
    q = neutral(model).astype(model.dtype)
    q = assemble(model, q).q if model.constraints else q
    return State(q, jnp.zeros(model.nv, model.dtype))


def _simulated(model: Simulated, contact: bool) -> tuple[Simulated, str]:
    """Returns the model to simulate, and a description of its changes."""
    if not isinstance(model, Model):
        return model, ""
    said, late = [], [one for one in model.actuators if getattr(one, "delay", None) is not None]
    if late:
        kept = tuple(one.changed(delay=None) if one in late else one for one in model.attached)
        model = replace(model, attached=kept)
        said.append("actuators without their delays")
    if contact_law(model) is None and contact and not any(isinstance(one, Compliant) for one in model.forces):
        limited = np.isfinite(np.asarray(model.lower)) | np.isfinite(np.asarray(model.upper))
        pairs = touching(model)
        if pairs or limited.any():
            model = attach(model, Soft())
            what = [word for word, there in (("contacts", pairs), ("joint limits", limited.any())) if there]
            said.append(f"{' and '.join(what)} by contact.Soft()")
    return model, "; ".join(said)
