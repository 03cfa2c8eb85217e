"""How a simulation begins: what it is given, checked and in one precision, as a system and a state."""

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
    """What a simulation begins with. The system has no control yet.

    - `fault`: the code with which every step fails, SUCCESS where none does; None where that is known.
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
    """The arguments that all simulations have, checked for the function `owner`; in the finest precision among them."""
    a_model(owner, model, planar=True)
    model, state = in_one_precision(owner, model, state)
    scheme = default_scheme(model) if scheme is None else scheme
    dt = default_step(owner, model) if dt is None else dt
    if not isinstance(scheme, Scheme):
        raise TypeError(
            f"{owner}: scheme is {scheme!r}; it must be an instance of rbd.Scheme, as rbd.RungeKutta4(), or, of a solver of "
            "diffrax, rbd.Adaptive(solver)"
        )
    refuse_faults(owner, tree_of(model))
    q, v, dtype = state.q, state.v, state.q.dtype
    given = dt  # as an array of JAX it is not known where a function is traced
    dt, time = (number(owner, name, value, dtype=dtype) for name, value in (("dt", dt), ("t0", time)))
    forces = checked_forces(owner, forces)
    for force in forces if is_planar(model) else ():
        if isinstance(force, Force) and not fits_planar(force):
            raise ValueError(
                f"{owner}: model {model.name!r} is planar, and {force.label} does not act along joints alone; simulate the model "
                "that `rbd.planar` was given"
            )
    if isinstance(model, ReducedModel) and bearings_of(model.model):
        raise ValueError(
            f"{owner}: model {model.name!r} has bearings, and what joints transmit is not known where the model moves with a few "
            "variables; simulate its tree with constraints"
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
            f"{owner}: under the contact law of model {system.name!r} velocities jump, at events that "
            f"{type(scheme).__name__} does not find; scheme=rbd.EventDriven()"
        )
    fault = checked_step(owner, given)
    return Begin(system, scheme, State(q, v, own.astype(dtype)), time, dt, fault)


def checked_step(owner: str, dt) -> Int[Array, ""] | None:
    """Refuses a time step that is known not to be positive. Returns the code of each step where it is traced, else None."""
    if not is_known(dt):
        return jnp.where(jnp.asarray(dt) > 0, Result.SUCCESS, Result.STEP_NOT_POSITIVE).astype(jnp.int32)
    if not np.asarray(dt) > 0:
        raise ValueError(
            f"{owner}: dt must be positive, got {float(dt):g}. A conservative motion runs backwards from a state with -v"
        )
    return None


def may_rub(model: Simulated) -> bool:
    """Whether joints may have dry friction, as far as the model's numbers are known."""
    friction = tree_of(model).friction
    return not is_known(friction) or bool(np.any(np.asarray(friction)))


def in_one_precision(owner: str, model: M, state: State) -> tuple[M, State]:
    """A model and its state, checked, in the finer precision of the two, so that nothing is lost. `own` stays as it is."""
    instance(owner, "state", state, State, "a State, of q and v")
    q, v = configuration(owner, model, "q", state.q), velocity(owner, model, "v", state.v)
    dtype = functools.reduce(np.promote_types, (q.dtype, v.dtype, model.dtype))
    model = model if model.dtype == dtype else with_precision(model, dtype)
    return model, State(q.astype(dtype), v.astype(dtype), state.own)


def default_scheme(model: Simulated) -> Scheme:
    """The scheme that the file of a model asks for."""
    if isinstance(contact_law(tree_of(model)), JumpingLaw):
        return EventDriven()
    return RungeKutta4() if tree_of(model).settings.integrator == "rk4" else SemiImplicitEuler()


def default_step(owner: str, model: Simulated) -> float:
    """The time step that the file of a model says."""
    step = tree_of(model).settings.timestep
    if step is None:
        raise ValueError(
            f"{owner}: dt is missing, and the file of model {model.name!r} says no timestep: dt=0.01"
        )
    return step


def checked_forces(owner: str, forces) -> tuple[Acting, ...]:
    """What acts, each of it a force element or a function."""
    if not isinstance(forces, Sequence):
        raise ValueError(f"{owner}: forces is {reprlib.repr(forces)}; it takes a sequence of them: [force]")
    for index, force in enumerate(forces):
        if not callable(force) and not isinstance(force, Force):
            raise ValueError(
                f"{owner}: forces[{index}] is {reprlib.repr(force)}; it takes an instance of rbd.forces.Force or a function "
                "(model, state, t) -> tau"
            )
    warn_of_old(owner, forces)
    return tuple(forces)


def _holding(owner: str, model: Simulated, scheme: Scheme, given) -> Stabilization | None:
    """What holds the constraints, if nothing is said of it."""
    if isinstance(given, Stabilization) or given is None:
        return given
    choice(owner, "stabilization", given, ("auto",))
    loose = isinstance(model, Model) and len(model.constraints) > 0 and not scheme.closes_loops
    return Projection() if loose else None
