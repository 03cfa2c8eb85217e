"""Effects of rounding on rigid-body dynamics, in single and in double precision (book §10.1 and §10.2).

    python scripts/round_off.py [--figure docs/images/round_off.png]

Three experiments: one body in coordinates with a distant origin (fig. 10.2), an arm whose base is far from the
world's origin, and increasingly long chains, which are increasingly sensitive (fig. 10.3). Exact results are
computed in extended precision from the same rounded inputs, so the figures show only the error of the
algorithms. `docs/accuracy.md` has the conclusions.
"""

import argparse
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import rbd_jax as rbd


PRECISIONS = (np.float32, np.float64)


# One body (eq. 10.1).


def far_body_error(distance: float, dtype, directions: int = 64) -> float:
    """Returns the acceleration error of a unit body at a distance from the origin of coordinates; a mean over directions.

    Unit mass and unit inertia about the center C, `v_C = [1 0 0]`, `f_C = [1 -1 1]`. The result computed about
    O is transformed to C exactly, and compared with `a_C = [1 -1 1]`. Infinite if the inertia is singular, that
    is, if rounding cancels the body's own inertia.
    """
    errors = []
    for angle in np.linspace(0.05, 2 * np.pi, directions):
        x, y = (dtype(distance * np.cos(angle)), dtype(distance * np.sin(angle)))
        one, zero = dtype(1), dtype(0)
        inertia = np.array([[one + x * x + y * y, -y, x], [-y, one, zero], [x, zero, one]], dtype)
        velocity = np.array([one, y, -x], dtype)
        momentum = inertia @ velocity
        cross = np.array([[0, x, y], [0, 0, -1], [0, 1, 0]], dtype)
        force = np.array([one + x + y, -one, one], dtype)
        try:
            found = np.linalg.solve(inertia, force - cross @ momentum).astype(np.longdouble)
        except np.linalg.LinAlgError:
            return np.inf
        x, y = np.longdouble(x), np.longdouble(y)
        at_centre = np.array([found[0], found[1] - y * found[0], found[2] + x * found[0]])
        errors.append(float(np.abs(at_centre - np.array([1, -1, 1])).max()))
    return float(np.mean(errors))


# An arm far from the origin.


def absolute_mass_matrix(model: rbd.Model, q):
    """Returns `Σ Jᵀ I J` with all quantities about the world's origin, which this library avoids."""
    frames = rbd.forward_kinematics(model, q)
    inertias = model.inertias.placed(frames)
    jacobians = jnp.stack(
        [
            rbd.jacobian(model, q, name, point=-inverse, frame="world_aligned")
            for name, inverse in _origins(model, frames)
        ]
    )
    momenta = jax.vmap(lambda inertia, j: jax.vmap(inertia.momentum, 1, 1)(j))(inertias, jacobians)
    return jnp.einsum("bki,bkj->ij", jacobians, momenta, precision="highest")


def _origins(model, frames):
    for index, name in enumerate(model.body_names):
        yield name, jnp.matmul(frames.rotation[index].T, frames.position[index], precision="highest")


def far_arm_errors(distance: float, samples: int = 8) -> dict[str, float]:
    """Returns relative errors of an arm's mass matrix and accelerations in float32, with its base far from the origin."""
    base = rbd.load("arm7")
    builder_of = lambda dtype: _moved(rbd.astype(base, dtype), distance)
    model, exact = builder_of(jnp.float32), builder_of(jnp.float64)
    random = np.random.default_rng(0)
    q, v, tau = random.uniform(-1, 1, (3, samples, model.nv)).astype(np.float32)
    functions = {
        "forward dynamics": lambda m, q, v, tau: rbd.forward_dynamics(m, q, v, tau),
        "mass matrix": lambda m, q, v, tau: rbd.mass_matrix(m, q),
        "mass matrix about the origin": lambda m, q, v, tau: (
            absolute_mass_matrix(m, q) + jnp.diag(m.armature)
        ),
    }
    errors = {}
    for name, function in functions.items():
        run = jax.jit(jax.vmap(function, (None, 0, 0, 0)))
        found = np.asarray(run(model, q, v, tau), np.float64)
        wanted = np.asarray(run(exact, *(x.astype(np.float64) for x in (q, v, tau))))
        axes = tuple(range(1, found.ndim))
        error = np.sum((found - wanted) ** 2, axis=axes) / np.sum(wanted**2, axis=axes)
        errors[name] = float(np.sqrt(np.median(error)))
    return errors


def _moved(model: rbd.Model, distance: float) -> rbd.Model:
    root = model.topology.parents.index(-1)
    position = model.placements.position.at[root, 0].add(distance)
    return eqx.tree_at(lambda m: m.placements.position, model, position)


# Chains.


def chain(links: int, dtype) -> rbd.Model:
    """Returns a chain of unit rods that turn about z (fig. 10.3)."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0), name=f"chain of {links}")
    rod = rbd.Inertia.from_mass_com(1.0, (0.5, 0.0, 0.0), np.diag([0.01, 1 / 12, 1 / 12]))
    parent, placement = "world", rbd.Transform.identity()
    for link in range(links):
        parent = builder.add_body(f"link{link}", parent, rbd.joints.Revolute(), placement, rod)
        placement = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))
    return rbd.astype(builder.build(), dtype)


def exact_mass_matrix(q: np.ndarray) -> np.ndarray:
    """Returns the mass matrix of a chain in extended precision: `Σ (J_Cᵀ J_C + 1/12)` over the links."""
    angles = np.cumsum(q.astype(np.longdouble))
    steps = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    joints = np.concatenate([np.zeros((1, 2), np.longdouble), np.cumsum(steps, axis=0)])
    n = len(q)
    matrix = np.zeros((n, n), np.longdouble)
    for link in range(n):
        centre = joints[link] + steps[link] / 2
        arms = centre - joints[: link + 1]
        matrix[: link + 1, : link + 1] += arms @ arms.T + np.longdouble(1) / 12
    return matrix


def exact_solution(matrix: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Returns `H⁻¹ τ` in extended precision, by elimination."""
    a, x, n = matrix.copy(), rhs.astype(np.longdouble).copy(), len(rhs)
    for k in range(n):
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            a[i, k:] -= factor * a[k, k:]
            x[i] -= factor * x[k]
    for k in range(n - 1, -1, -1):
        x[k] = (x[k] - a[k, k + 1 :] @ x[k + 1 :]) / a[k, k]
    return x


def condition_number(matrix: np.ndarray) -> float:
    """Returns the ratio of largest to smallest eigenvalue: the largest growth of relative errors from force to acceleration."""
    return float(np.linalg.cond(np.asarray(matrix, np.float64)))


#: Forward dynamics algorithms, by their names in the book.
ALGORITHMS = {
    "articulated bodies": lambda model, q, tau: rbd.forward_dynamics(model, q, jnp.zeros_like(q), tau),
    "mass matrix, factored": lambda model, q, tau: jax.scipy.linalg.cho_solve(
        jax.scipy.linalg.cho_factor(rbd.mass_matrix(model, q)), tau
    ),
}


def chain_errors(links: int, dtype, samples: int = 32, bend: float = np.deg2rad(75.0)) -> dict[str, float]:
    """Returns median relative errors of the accelerations of a zigzag chain over forces, by algorithm, and cond(H)."""
    model = chain(links, dtype)
    random = np.random.default_rng(0)
    q = (bend * np.where(np.arange(links) % 2, 1, -1)).astype(dtype)
    matrix = exact_mass_matrix(q)
    # Forces for accelerations of the order of one, as a controller would command them.
    wanted = random.normal(size=(samples, links))
    tau = np.stack([(matrix @ a).astype(dtype) for a in wanted])
    exact = np.stack([exact_solution(matrix, x) for x in tau])
    found = {"condition number": condition_number(matrix)}
    for name, algorithm in ALGORITHMS.items():
        a = np.asarray(jax.jit(jax.vmap(algorithm, (None, None, 0)))(model, jnp.asarray(q), jnp.asarray(tau)))
        error = np.linalg.norm((a - exact).astype(float), axis=1) / np.linalg.norm(
            exact.astype(float), axis=1
        )
        found[name] = float(np.median(error))
    return found


DISTANCES = np.logspace(-2, 5, 15)
FAR = (0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0)
LINKS = (2, 4, 8, 16, 32, 64)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--figure", type=Path)
    figure = parser.parse_args().figure
    jax.config.update("jax_enable_x64", True)
    console = Console(width=170)

    bodies = {dtype: [far_body_error(d, dtype) for d in DISTANCES] for dtype in PRECISIONS}
    table = Table(title="A unit body at a distance: error of its acceleration")
    for column in ("distance", "float32", "float64"):
        table.add_column(column, justify="right")
    for i in range(0, len(DISTANCES), 2):
        table.add_row(f"{DISTANCES[i]:g}", *(f"{bodies[dtype][i]:.1e}" for dtype in PRECISIONS))
    console.print(table)

    arms = [far_arm_errors(d) for d in FAR]
    table = Table(title="arm7 with its base at a distance from the world's origin, float32: relative errors")
    for column in ("distance", *arms[0]):
        table.add_column(column, justify="right")
    for distance, errors in zip(FAR, arms, strict=True):
        table.add_row(f"{distance:g}", *(f"{x:.1e}" for x in errors.values()))
    console.print(table)

    chains = {dtype: [chain_errors(n, dtype) for n in LINKS] for dtype in PRECISIONS}
    table = Table(title="Zigzag chains at ±75°: relative errors of the accelerations")
    for column in (
        "links",
        "cond(H)",
        "straight",
        "4 n⁴",
        *(f"{x}, {p.__name__}" for p in PRECISIONS for x in ALGORITHMS),
    ):
        table.add_column(column, justify="right")
    for i, links in enumerate(LINKS):
        straight = condition_number(exact_mass_matrix(np.zeros(links)))
        cells = [f"{chains[dtype][i][x]:.1e}" for dtype in PRECISIONS for x in ALGORITHMS]
        condition = chains[np.float64][i]["condition number"]
        table.add_row(str(links), f"{condition:.2e}", f"{straight:.2e}", f"{4 * links**4:.2e}", *cells)
    console.print(table)
    if figure is not None:
        draw(figure, bodies, arms, chains)


def draw(path: Path, bodies, arms, chains) -> None:
    """Plots the three experiments side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawing, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    for dtype, style in zip(PRECISIONS, ("o-", "s-"), strict=True):
        left.loglog(DISTANCES, bodies[dtype], style, ms=3, label=dtype.__name__)
    left.loglog(DISTANCES[6:], 1e-16 * DISTANCES[6:] ** 2, "k:", lw=1, label="distance²")
    left.set(
        title="One body of unit size", xlabel="distance of the origin", ylabel="error of the acceleration"
    )
    for name in arms[0]:
        middle.loglog(np.maximum(FAR, 0.1), [x[name] for x in arms], "o-", ms=3, label=name)
    middle.set(title="arm7, float32", xlabel="distance of the base from the origin", ylabel="relative error")
    for dtype, style in zip(PRECISIONS, ("o", "s"), strict=True):
        for name, line in zip(ALGORITHMS, ("-", "--"), strict=True):
            errors = [x[name] for x in chains[dtype]]
            right.loglog(LINKS, errors, style + line, ms=3, label=f"{name}, {dtype.__name__}")
    unit = np.array([x["condition number"] for x in chains[np.float64]]) * np.finfo(np.float64).eps
    right.loglog(LINKS, unit, "k:", lw=1, label="cond(H) × 2e-16")
    right.set(title="Zigzag chains", xlabel="links", ylabel="relative error of the accelerations")
    right.set_xscale("log", base=2)
    for axes in (left, middle, right):
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
