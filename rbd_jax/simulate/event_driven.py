"""Steps from event to event, for systems whose velocities jump: rigid contact with impacts (book table 11.1)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .._arguments import whole_number
from ._explicit import ExplicitRungeKutta
from .result import Result
from .runge_kutta_4 import RungeKutta4
from .scheme import Scheme
from .state import State
from .system import System
from .trajectory import between


#: Halvings of a step on what is known of the motion within, and steps of the scheme itself after them.
HALVINGS, TRIALS = 24, 5


class EventDriven(Scheme):
    """An explicit scheme that stops at each event within a step, lets happen what happens there, and goes on.

    For models under `rbd.contact.Hard`; others are stepped by the scheme itself. Between events the order is that of the scheme
    (the second where a force of contact goes down to zero within a step). When events are is found on the scheme's own steps, to
    rounding, and is differentiated by the implicit function theorem.

    - `scheme`: any explicit one with steps of fixed length, by default `RungeKutta4()`.
    - `events`: so many within a step at most; more are told, by `Result.TOO_MANY_EVENTS`.

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

    def __init__(self, scheme: ExplicitRungeKutta | None = None, events: int = 4):
        self.scheme = RungeKutta4() if scheme is None else scheme
        self.events = whole_number("EventDriven", "events", events)
        if not isinstance(self.scheme, ExplicitRungeKutta):
            raise TypeError(
                f"EventDriven: scheme is {scheme!r}; it takes an explicit scheme whose steps have one length, as "
                "rbd.RungeKutta4()"
            )

    def step(self, system, time, state, memory, dt):
        if not system.jumps:
            return self.scheme.step(system, time, state, memory, dt)

        def phase(at, number):
            advance = lambda at: self._to_event(system, time, dt, number == self.events, *at)
            return lax.cond(at[1] < dt, advance, lambda at: at, at), None

        start = state, jnp.zeros_like(dt), jnp.zeros((), bool)
        # One phase more than there are events: of the last the end is not looked for.
        (end, _, missed), _ = lax.scan(phase, start, jnp.arange(self.events + 1, dtype=jnp.int32))
        # Backwards there are no impacts.
        end = jax.tree.map(lambda x: jnp.where(dt >= 0, x, jnp.nan), end)
        return end, memory, jnp.where(missed, Result.TOO_MANY_EVENTS, Result.SUCCESS).astype(jnp.int32)

    def within(self, system, time, state, new, dt, share):
        return self.step(system, time, state, (), share * dt)[0]

    def _to_event(self, system: System, time, dt, last, state: State, since, missed):
        """The state at the next event, before what happens there, or at the end of the step; how far that is, and whether the
        event was passed over, as after the `last` that is looked for."""
        now, left = time + since, dt - since
        moving, state = system.phase_from(now, state)

        def at(moving: System, state: State, span) -> State:
            return self.scheme.step(moving, now, state, (), span)[0]

        # Nothing of the search is differentiated.
        fixed, first, whole = lax.stop_gradient((moving, state, left))
        values = lambda span, reached: fixed.until(now + span, reached)
        start = values(0 * whole, first)

        def trial(k, found):
            span, which, rate = found
            reached = at(fixed, first, span)
            here = values(span, reached)

            def looked():
                crosses = (here < 0) & (here < start)
                inside = lambda s: values(s * whole, between(fixed, first, reached, whole, s))
                share, which = _first(inside, crosses, jnp.ones_like(span))
                _, rate = jax.jvp(lambda s: inside(s)[which], (share,), (jnp.ones_like(share),))
                some = jnp.any(crosses)
                return jnp.where(some, share, 1) * whole, jnp.where(some, which, -1), rate / whole

            def nearer():
                moved = span - here[which] / jnp.where(rate < 0, rate, -jnp.inf)
                return jnp.where((which >= 0) & ~last, jnp.clip(moved, 0, whole), span), which, rate

            return lax.cond(k == 0, looked, nearer)

        nowhere = whole, jnp.int32(-1), -jnp.ones_like(whole)
        span, which, _ = lax.stop_gradient(lax.fori_loop(0, TRIALS, trial, nowhere))
        happens = (which >= 0) & ~last
        span = jnp.where(happens, span, left)
        reached = at(moving, state, span)
        # It happens later by zero, but for derivatives: they are those of the time at which the number is zero.
        a = moving.acceleration(now + span, reached)
        own = moving.own_rate(now + span, reached)

        def onward(later):
            q = moving.move(reached.q, later * reached.v)
            return State(q, reached.v + later * a, reached.internal + later * own)

        ahead = lambda later: moving.until(now + span + later, onward(later))[which]
        value, rate = jax.jvp(ahead, (0 * span,), (jnp.ones_like(span),))
        rate = lax.stop_gradient(jnp.where(happens & (rate < 0), rate, -jnp.inf))
        later = jnp.where(happens, -(value - lax.stop_gradient(value)) / rate, 0)
        return onward(later), jnp.where(happens, since + span + later, dt), missed | ((which >= 0) & last)


def _first(values, crosses, one):
    """About where the first of the numbers that will cross zero does so, and which it is."""

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        ahead = jnp.all(jnp.where(crosses, values(middle), 1) > 0)
        return jnp.where(ahead, middle, low), jnp.where(ahead, high, middle)

    _, high = lax.fori_loop(0, HALVINGS, halve, (0 * one, one))
    return high, jnp.argmin(jnp.where(crosses, values(high), jnp.inf)).astype(jnp.int32)
