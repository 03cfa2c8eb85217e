"""Event-driven steps for systems whose velocities jump: rigid contact with impacts (book table 11.1)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._core.arguments import whole_number
from .._core.derivatives import custom_jvp
from ..optimize.implicit import recomputed, remembered
from ._explicit import ExplicitRungeKutta
from .result import Result
from .runge_kutta_4 import RungeKutta4
from .scheme import Scheme
from .state import State
from .system import System
from .trajectory import between


#: Number of bisections on the interpolated motion within a step, and of subsequent Newton steps on the steps of the scheme.
HALVINGS, TRIALS = 24, 5


class EventDriven(Scheme):
    """An explicit scheme that stops at each event within a step, applies the event, and continues.

    It is for models with `rbd.contact.Hard`; for other models it equals the underlying scheme. Between events the order is
    that of the scheme (second order if a contact force decreases to zero within a step). Event times are computed on the
    steps of the scheme, to rounding, and differentiated by the implicit function theorem.

    - `scheme`: an explicit scheme with steps of fixed length, by default `RungeKutta4()`.
    - `events`: maximum number of events within a step; more events are reported by `Result.TOO_MANY_EVENTS`.

    >>> builder = rbd.ModelBuilder()
    >>> body = builder.add_body("ball", joint=rbd.joints.Prismatic(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> ball = rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1))
    >>> floor = rbd.Shape("floor", "world", rbd.shapes.Plane())
    >>> model = rbd.attach(builder.build(), ball, floor, rbd.contact.Hard(restitution=0.5))
    >>> path = rbd.rollout(model, rbd.State(jnp.array([0.5]), jnp.zeros(1)), dt=0.05, steps=10, scheme=rbd.EventDriven())
    >>> print(path.q[::2, 0])
    [0.5   0.451 0.304 0.119 0.196 0.175]
    """

    scheme: ExplicitRungeKutta
    events: int = eqx.field(static=True)

    finds_events = True
    fallible = True
    recomputes = True

    def __init__(self, scheme: ExplicitRungeKutta | None = None, events: int = 4):
        self.scheme = RungeKutta4() if scheme is None else scheme
        self.events = whole_number("EventDriven", "events", events)
        if not isinstance(self.scheme, ExplicitRungeKutta):
            raise TypeError(
                f"EventDriven: scheme must be an explicit scheme with steps of fixed length, as rbd.RungeKutta4(), got {scheme!r}"
            )

    def step(self, here, memory, dt):
        system, time, state = here.system, here.time, here.state
        if not system.jumps:
            return recomputed(lambda state: self._steps(system, time, state, dt))(state)

        @recomputed
        def phase(at, number):
            advance = recomputed(lambda at: self._to_event(system, time, dt, number == self.events, *at))
            return lax.cond(at[1] < dt, advance, lambda at: at, at), None

        start = state, jnp.zeros_like(dt), jnp.zeros((), bool)
        # One more phase than events; the last phase has no search for its end.
        (end, _, missed), _ = lax.scan(phase, start, jnp.arange(self.events + 1, dtype=jnp.int32))
        return end, memory, jnp.where(missed, Result.TOO_MANY_EVENTS, Result.SUCCESS).astype(jnp.int32)

    def within(self, system, time, state, new, dt, share):
        return self.step(system.evaluate(time, state), (), share * dt)[0]

    def _steps(self, system: System, time, state: State, dt):
        """Makes a step of the underlying scheme."""
        return self.scheme.step(system.evaluate(time, state), (), dt)

    def _to_event(self, system: System, time, dt, last, state: State, since, missed):
        """Advances to the next event, without applying it, or to the end of the step.

        Args:
          system: The system.
          time: Time at the start of the step.
          dt: Length of the step.
          last: True in the last phase, which ignores events.
          state: The current state.
          since: Time of this state since the start of the step.
          missed: True if an event was ignored before.

        Returns:
          The state, its time since the start of the step, and a flag that is True if an event was ignored.
        """
        now, left = time + since, dt - since
        moving, state = system.evaluate(now, state).begun()
        # The derivative of the event time comes from `_at_event`, not from the search.
        search = self._search(*lax.stop_gradient((moving, now, state, left)), last)
        span, which = remembered(lax.stop_gradient(search))
        happens = (which >= 0) & ~last
        span = jnp.where(happens, span, left)
        reached, rate = self.scheme.step_and_rate(moving, now, state, span)
        reached, later = _at_event(moving, now + span, reached, lax.stop_gradient(rate), which, happens)
        return reached, jnp.where(happens, since + span + later, dt), missed | ((which >= 0) & last)

    def _search(self, moving: System, now, first: State, whole, last):
        """Finds the time to the first event within the step, and the index of its guard, -1 without an event.

        Newton's method on the steps of the scheme starts from the crossing of the interpolated motion.
        """

        def trial(k, found):
            span, which, rate = found
            reached = self._steps(moving, now, first, span)[0]
            guards = moving.evaluate(now + span, reached).until()

            def looked():
                def inside(s):
                    return moving.evaluate(now + s * whole, between(moving, first, reached, whole, s)).until()

                share, which, rate = _first(inside, guards, jnp.ones_like(span))
                some = which >= 0
                return jnp.where(some, share, 1) * whole, which, jnp.where(some, rate, -1) / whole

            def nearer():
                moved = span - guards[which] / jnp.where(rate < 0, rate, -jnp.inf)
                return jnp.where((which >= 0) & ~last, jnp.clip(moved, 0, whole), span), which, rate

            return lax.cond(k == 0, looked, nearer)

        nowhere = whole, jnp.int32(-1), -jnp.ones_like(whole)
        span, which, _ = lax.fori_loop(0, TRIALS, trial, nowhere)
        return span, which


def _first(guards, end, one):
    """Finds the first zero crossing of the guards by bisection.

    Args:
      guards: Returns the guards at a share of the step.
      end: The guards at the end of the step.
      one: The number one in the precision of the state.

    Returns:
      The approximate share of the step, the index of the guard (-1 if none crosses), and the slope of this guard.
    """

    def halve(k, found):
        low, high, start, below, above = found
        middle = jnp.where(k == 0, 0 * one, (low + high) / 2)
        values = guards(middle)
        start = jnp.where(k == 0, values, start)
        ahead = (k == 0) | jnp.all(jnp.where((end < 0) & (end < start), values, 1) > 0)
        lower = jnp.where(ahead, middle, low), jnp.where(ahead, values, below)
        upper = jnp.where(ahead, high, middle), jnp.where(ahead, above, values)
        return lower[0], upper[0], start, lower[1], upper[1]

    # The first iteration evaluates the guards at the start.
    begin = 0 * one, one, end, end, end
    low, high, start, below, above = lax.fori_loop(0, HALVINGS + 1, halve, begin)
    crosses = (end < 0) & (end < start)
    which = jnp.argmin(jnp.where(crosses, above, jnp.inf))
    slope = (above - below)[which] / (high - low)
    return high, jnp.where(jnp.any(crosses), which, -1).astype(jnp.int32), slope


@custom_jvp
def _at_event(moving: System, time, reached: State, rate: State, which, happens):
    """Returns the state at an event and a delay of zero, which carry the derivatives of the time at which a guard is zero.

    `rate` is the rate of the state.
    """
    return reached, jnp.zeros_like(time)


@_at_event.defjvp
def _at_event_jvp(primals, tangents):
    moving, time, reached, rate, which, happens = primals
    guard = lambda moving, time, reached: moving.evaluate(time, reached).until()[which]

    def onward(later):
        q = moving.move(reached.q, later * rate.q)
        return State(q, reached.v + later * rate.v, reached.internal + later * rate.internal)

    zero, one = jnp.zeros_like(time), jnp.ones_like(time)
    slope = jax.jvp(lambda later: guard(moving, time + later, onward(later)), (zero,), (one,))[1]
    slope = jnp.where(happens & (slope < 0), slope, -jnp.inf)
    later = jnp.where(happens, -jax.jvp(guard, primals[:3], tangents[:3])[1] / slope, 0)
    change = jax.jvp(onward, (zero,), (later,))[1]
    return (reached, zero), (jax.tree.map(jnp.add, tangents[2], change), later)
