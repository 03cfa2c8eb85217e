"""Processor seconds of first calls: tracing, lowering and compiling programs that users wait for. Prints a table.

    python benchmarks/compile_times.py [NAME ...]

Each row runs in a separate process, without a compilation cache, with the library's default flags.
"""

import collections
import json
import resource
import subprocess
import sys

import jax
import jax.monitoring


jax.config.update("jax_enable_x64", True)

import equinox as eqx
import jax.numpy as jnp

import rbd_jax as rbd


def bouncing_ball():
    """Returns a function of speed and height: the position of a ball under `Hard` after 100 steps of 10 ms."""
    builder = rbd.ModelBuilder()
    ball = rbd.shapes.Sphere(0.1)
    at = jnp.array([0, 0, 0.1, 1.0, 0, 0, 0])
    builder.add_body("ball", "world", rbd.joints.Free(), None, ball.inertia(1000.0), reference=at)
    builder.attach(
        rbd.Shape("ball", "ball", ball),
        rbd.Shape("floor", "world", rbd.shapes.Plane()),
        rbd.contact.Hard(0.8),
    )
    model = builder.build()

    def end(x):
        state = rbd.State(model.reference.at[2].add(x[1]), jnp.zeros(6).at[3].set(x[0]))
        q = rbd.rollout(model, state, dt=0.01, steps=100, scheme=rbd.EventDriven()).q[-1]
        return q[0] + q[2]

    return end, jnp.array([1.5, 0.5])


def event_driven():
    end, x = bouncing_ball()
    jax.jit(end)(x)


def event_driven_gradient():
    end, x = bouncing_ball()
    jax.jit(jax.grad(end))(x)


def pendulum(**options):
    control = rbd.control
    return control.Problem(
        rbd.load("pendulum"),
        rbd.State(jnp.array([0.3]), jnp.zeros(1)),
        steps=8,
        dt=0.12,
        running=[0.1 * control.Effort(), 0.3 * control.Posture(jnp.array([0.5]))],
        terminal=[2.0 * control.Velocity()],
        constraints=[control.Constraint(control.Posture(jnp.array([1.0])), at="end")],
        bounds=control.Bounds(control=(-6.0, 6.0)),
        **options,
    )


def solved_by(problem, solver):
    """Returns a function from a problem's floating-point parameters to the cost of its solution, and these parameters."""
    numbers, rest = eqx.partition(problem, eqx.is_inexact_array)
    return lambda numbers: rbd.control.solve(eqx.combine(numbers, rest), solver), numbers


def collocation():
    solve, numbers = solved_by(pendulum(), rbd.control.Collocation())
    jax.jit(solve)(numbers)


def collocation_jvp():
    solve, numbers = solved_by(pendulum(), rbd.control.Collocation())
    jax.jit(lambda n: jax.jvp(solve, (n,), (n,)))(numbers)


def collocation_vjp():
    solve, numbers = solved_by(pendulum(), rbd.control.Collocation())
    jax.jit(jax.grad(lambda n: solve(n).cost))(numbers)


def cartpole_ddp_gradient():
    control = rbd.control
    problem = control.Problem(
        rbd.load("cartpole"),
        rbd.State(jnp.array([0.0, 3.0]), jnp.zeros(2)),
        steps=30,
        dt=0.05,
        running=[0.01 * control.Effort()],
        terminal=[10.0 * control.Posture(jnp.array([0.0, 3.14])), control.Velocity()],
    )
    solve, numbers = solved_by(problem, control.DDP())
    jax.jit(jax.grad(lambda n: solve(n).cost))(numbers)


def contact_forces(robot):
    model = rbd.attach(rbd.load(robot), rbd.contact.Soft())
    rbd.contact_forces(model, rbd.State(model.reference, jnp.zeros(model.nv)))


def humanoid_rollout_gradient():
    model = rbd.detach(rbd.load("humanoid"), "shape")
    q = rbd.neutral(model)

    def loss(v):
        return jnp.sum(rbd.rollout(model, rbd.State(q, v), dt=1e-3, steps=500).q[-1])

    jax.jit(jax.grad(loss))(0.1 * jnp.ones(model.nv))


def four_bar():
    """Two cranks and a coupler of length 1, closed by a hinge."""
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="four-bar")
    rod, tip = (
        rbd.Inertia.box(1.0, (1.0, 0.1, 0.1), (0.5, 0, 0)),
        rbd.Transform.from_position((1.0, 0.0, 0.0)),
    )
    builder.add_body("crank", inertia=rod, joint=rbd.joints.Revolute())
    builder.add_body("coupler", "crank", rbd.joints.Revolute(), tip, rod)
    builder.add_body("follower", "world", rbd.joints.Revolute(), tip, rod)
    builder.add_constraint(rbd.constraints.HingeLoop("coupler", tip, "follower", tip))
    return builder.build()


def assemble():
    model = four_bar()
    rbd.assemble(model, jnp.array([0.3, 0.1, 0.2]))


def project_velocity():
    model = four_bar()
    rbd.project_velocity(model, jnp.array([0.3, 0.1, 0.2]), jnp.ones(3))


def simulate_batch_of_all_joints():
    model = rbd.load("all_joints")
    q = jnp.broadcast_to(rbd.neutral(model), (64, model.nq))
    rbd.simulate_batch(model, rbd.State(q, jnp.zeros((64, model.nv))), dt=1e-3, steps=20)


ROWS = {
    "event_driven": event_driven,
    "event_driven_gradient": event_driven_gradient,
    "collocation": collocation,
    "collocation_jvp": collocation_jvp,
    "collocation_vjp": collocation_vjp,
    "cartpole_ddp_gradient": cartpole_ddp_gradient,
    "contact_forces_quadruped": lambda: contact_forces("quadruped"),
    "contact_forces_humanoid": lambda: contact_forces("humanoid"),
    "humanoid_rollout_gradient": humanoid_rollout_gradient,
    "assemble": assemble,
    "project_velocity": project_velocity,
    "simulate_batch_of_all_joints": simulate_batch_of_all_joints,
}
EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "XLA",
}


def measure(name: str) -> dict:
    """Measures one row in this process."""
    seconds, counts = collections.Counter(), collections.Counter()

    def listen(event, duration, **_):
        if event in EVENTS:
            seconds[EVENTS[event]] += duration
            counts[EVENTS[event]] += 1

    jax.monitoring.register_event_duration_secs_listener(listen)
    rbd.load("pendulum")  # one-time cost of every process
    seconds.clear()
    counts.clear()
    start = processor_seconds()
    ROWS[name]()
    return {"total": processor_seconds() - start, "programs": counts["XLA"], **seconds}


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(names):
    print("| first call | processor seconds | lowering, wall | XLA, wall | programs |\n|---|--:|--:|--:|--:|")
    for name in names or ROWS:
        output = subprocess.run(
            [sys.executable, __file__, "--one", name], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        row = json.loads(output.splitlines()[-1])
        cells = (f"{row.get(key, 0):.1f}" for key in ("total", "lower", "XLA"))
        print("|", " | ".join([name, *cells, str(row["programs"])]), "|", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        main(sys.argv[1:])
