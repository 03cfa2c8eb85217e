"""Start of a simulation: checks the arguments, converts them to one precision, and builds a system and a state."""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._core.arguments import a_model, choice, configuration, instance, is_planar, number, velocity
from .._core.array import by_numpy, is_known, with_precision
from ..constraints import Projection, Stabilization
from ..constraints.closure import ReducedModel
from ..constraints.consistency import check_consistent
from ..contact.law import JumpingLaw, contact_law
from ..forces import Force
from ..forces.bearing import bearings_of
from ..model import Model, at_time
from ..model.attachments import fits_planar
from ..model.check import refuse_faults
from ..model.configuration import check_quaternions
from .event_driven import EventDriven
from .functions import warn_of_old
from .mujoco_euler import MujocoEuler
from .result import Result
from .runge_kutta_4 import RungeKutta4
from .scheme import Scheme
from .semi_implicit_euler import SemiImplicitEuler
from .state import State
from .system import System
from .systems import Simulated, system_of, tree_of
from .tree_system import Acting


M = TypeVar("M", Model, ReducedModel, Simulated)


class Begin(NamedTuple):
    """The initial data of a simulation. The system has no control yet.

    - `fault`: the code with which every step fails, or SUCCESS; None if `dt` is known and was checked.
    """

    system: System
    scheme: Scheme
    state: State
    time: Float[Array, ""]
    dt: Float[Array, ""]
    fault: Int[Array, ""] | None = None


def begun(
    owner: str,
    model: Simulated,
    state: State,
    dt,
    time,
    scheme: Scheme | None,
    forces: Sequence[Acting],
    stabilization: Stabilization | Literal["auto"] | None,
) -> Begin:
    """Checks the arguments that all simulations have in common, and converts them to the finest precision among them.

    Args:
      owner: Name of the calling function, for messages.
      model: The model.
      state: The initial state.
      dt: Length of a step; None for the timestep of the model's file.
      time: Time of the initial state.
      scheme: The scheme; None for the default of the model.
      forces: Forces in addition to those that the model carries.
      stabilization: Stabilization of constraints; see `rollout`.
    """
    a_model(owner, model, planar=True)
    model, state = in_one_precision(owner, model, state)
    scheme = default_scheme(model) if scheme is None else scheme
    dt = default_step(owner, model) if dt is None else dt
    if not isinstance(scheme, Scheme):
        raise TypeError(
            f"{owner}: scheme is {scheme!r}; it must be an instance of rbd.Scheme, as rbd.RungeKutta4(), or "
            "rbd.Adaptive(solver) for a solver of diffrax"
        )
    refuse_faults(owner, tree_of(model))
    q, v, dtype = state.q, state.v, state.q.dtype
    given = dt  # conversion to a JAX array would make it unknown under tracing
    dt, time = (number(owner, name, value, dtype=dtype) for name, value in (("dt", dt), ("t0", time)))
    forces = checked_forces(owner, forces)
    for force in forces if is_planar(model) else ():
        if isinstance(force, Force) and not fits_planar(force):
            raise ValueError(
                f"{owner}: model {model.name!r} is planar, and {force.label} does not act along joints alone; simulate the "
                "original model, the argument of `rbd.planar`"
            )
    if isinstance(model, ReducedModel) and bearings_of(model.model):
        raise ValueError(
            f"{owner}: model {model.name!r} has bearings, and a reduced model does not determine the wrenches that its joints "
            "transmit; simulate its tree with constraints"
        )
    if isinstance(model, Model):
        check_quaternions(owner, model, q)
        check_consistent(at_time(model, time), q, v)
    held = _holding(owner, model, scheme, stabilization)
    system = system_of(model, by_numpy(lambda xp: xp.zeros(model.nv, dtype)), forces, held)
    system = replace(system, rubs=may_rub(model))
    own = system.own if state.own is None else number(owner, "own", state.own, system.own.shape)
    if system.jumps and not scheme.finds_events:
        raise ValueError(
            f"{owner}: with the contact model of model {system.name!r} velocities jump at events, which "
            f"{type(scheme).__name__} does not find; pass scheme=rbd.EventDriven()"
        )
    fault = checked_step(owner, given)
    return Begin(system, scheme, State(q, v, own.astype(dtype)), time, dt, fault)


def checked_step(owner: str, dt) -> Int[Array, ""] | None:
    """Raises an error if the time step is known and not positive. Returns the code of every step if it is traced, else None."""
    if not is_known(dt):
        return jnp.where(jnp.asarray(dt) > 0, Result.SUCCESS, Result.STEP_NOT_POSITIVE).astype(jnp.int32)
    if not np.asarray(dt) > 0:
        raise ValueError(
            f"{owner}: dt must be positive, got {float(dt):g}. A conservative motion runs backwards from a state with -v"
        )
    return None


def may_rub(model: Simulated) -> bool:
    """Returns whether joints may have dry friction, as far as the parameters of the model are known."""
    friction = tree_of(model).friction
    return not is_known(friction) or bool(np.any(np.asarray(friction)))


def in_one_precision(owner: str, model: M, state: State) -> tuple[M, State]:
    """Checks a model and its state, and converts both to the finer precision of the two. `own` stays unchanged."""
    instance(owner, "state", state, State, "a State, of q and v")
    q, v = configuration(owner, model, "q", state.q), velocity(owner, model, "v", state.v)
    dtype = functools.reduce(np.promote_types, (q.dtype, v.dtype, model.dtype))
    model = model if model.dtype == dtype else with_precision(model, dtype)
    return model, State(q.astype(dtype), v.astype(dtype), state.own)


def default_scheme(model: Simulated) -> Scheme:
    """Returns the default scheme of a model: the integrator of its file, or `EventDriven` if velocities jump."""
    if isinstance(contact_law(tree_of(model)), JumpingLaw):
        return EventDriven()
    match tree_of(model).settings.integrator:
        case "rk4":
            return RungeKutta4()
        case "euler":
            return MujocoEuler("damping")
        case "implicit" | "implicitfast":
            return MujocoEuler("velocities")
    return SemiImplicitEuler()


def default_step(owner: str, model: Simulated) -> float:
    """Returns the time step of the model's file."""
    step = tree_of(model).settings.timestep
    if step is None:
        raise ValueError(
            f"{owner}: dt is missing, and the file of model {model.name!r} has no timestep; pass for example dt=0.01"
        )
    return step


def checked_forces(owner: str, forces) -> tuple[Acting, ...]:
    """Returns the forces as a tuple, after a check that each is a force element or a function."""
    if not isinstance(forces, Sequence):
        raise ValueError(f"{owner}: forces must be a sequence, as [force], got {reprlib.repr(forces)}")
    for index, force in enumerate(forces):
        if not callable(force) and not isinstance(force, Force):
            raise ValueError(
                f"{owner}: forces[{index}] must be an instance of rbd.forces.Force or a function (model, state, t) -> tau, got "
                f"{reprlib.repr(force)}"
            )
    warn_of_old(owner, forces)
    return tuple(forces)


def _holding(owner: str, model: Simulated, scheme: Scheme, given) -> Stabilization | None:
    """Returns the stabilization of constraints, which for "auto" is the default of the scheme."""
    if isinstance(given, Stabilization) or given is None:
        return given
    choice(owner, "stabilization", given, ("auto",))
    loose = isinstance(model, Model) and len(model.constraints) > 0 and not scheme.closes_loops
    return Projection() if loose else None
