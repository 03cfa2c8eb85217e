"""Operation counts of the algorithms, from their traces, compared with the formulas of the book.

    python scripts/count_operations.py

The book counts for chains of hinges with Denavit–Hartenberg axes, in body coordinates, with every known zero
exploited (tables 10.1 and 6.6, eq. 10.3). Here hinges turn about any axis and all quantities are in world axes.
The recursions need no transforms, but every inertia is transformed to world axes, and no zeros are known in
advance. "needed" excludes operations with an operand that is zero.
"""

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import rbd_jax as rbd
from rbd_jax.dynamics.factorization import ltdl, pack


#: Multiplications and additions of table 10.1 for a chain of n hinges; the general formula of each algorithm.
BOOK = {
    "inverse dynamics": lambda n: (130 * n - 68, 101 * n - 56),
    "mass matrix": lambda n: (12 * n * n + 56 * n - 27, 7 * n * n + 67 * n - 53),
    "forward dynamics": lambda n: (300 * n - 267, 279 * n - 259),
}


def chain(n: int) -> rbd.Model:
    """Returns a chain of n hinges of general geometry."""
    random = np.random.default_rng(0)
    builder = rbd.ModelBuilder()
    for i in range(n):
        placement = rbd.Transform.from_xyz_rpy(random.normal(size=3), random.normal(size=3))
        inertia = rbd.Inertia.box(1.0, random.uniform(0.2, 0.4, 3), random.normal(size=3))
        joint = rbd.joints.Revolute(random.normal(size=3))
        builder.add_body(f"link {i}", f"link {i - 1}" if i else "world", joint, placement, inertia)
    return builder.build()


def algorithms(model: rbd.Model):
    q, v, a = (jnp.asarray(x) for x in np.random.default_rng(1).normal(size=(3, model.nv)))
    return {
        "inverse dynamics": (rbd.inverse_dynamics, model, q, v, a),
        "mass matrix": (rbd.mass_matrix, model, q),
        "forward dynamics": (rbd.forward_dynamics, model, q, v, a),
    }


def factorization(name: str, tree: rbd.Tree) -> tuple[str, ...]:
    """Returns a table row for LTDL on a tree: counts, and the formulas of table 6.6."""
    lower = np.where(tree.supports, np.random.default_rng(0).uniform(1, 2, tree.supports.shape), 0)
    counted = rbd.count_operations(
        lambda m: ltdl(tree, m), pack(tree, jnp.asarray(lower.T @ lower)), zeros=False
    )
    depth = tree.depths + 1
    d1, d2 = int((depth - 1).sum()), int((depth * (depth - 1)).sum()) // 2
    found = f"{counted.divisions} div, {counted.multiplications} m, {counted.additions} a"
    dense = (tree.size**3 - tree.size) // 6
    return name, found, f"{d1} div, {d2} m, {d2} a", f"{dense} m, {dense} a"


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    console = Console()
    table = Table(title="Chains of n hinges: multiplications + additions")
    for column in ("algorithm", "n", "written", "needed", "book"):
        table.add_column(column, justify="left" if column == "algorithm" else "right")
    for n in (4, 8, 16):
        for name, (function, *given) in algorithms(chain(n)).items():
            everything = rbd.count_operations(function, *given)
            needed = rbd.count_operations(function, *given, zeros=False)
            book = BOOK[name](n)
            cells = [f"{x.multiplications + x.divisions} + {x.additions}" for x in (everything, needed)]
            table.add_row(name, str(n), *cells, f"{book[0]} + {book[1]}")
    console.print(table)
    table = Table(title="Factorization along the tree (LTDL), operations with numbers that are not zero")
    for column in ("tree", "counted", "table 6.6", "dense"):
        table.add_column(column)
    for n in (7, 15, 31):
        table.add_row(*factorization(f"chain of {n}", rbd.Tree(range(-1, n - 1))))
        table.add_row(
            *factorization(f"binary tree of {n}", rbd.Tree([(i - 1) // 2 if i else -1 for i in range(n)]))
        )
    console.print(table)


if __name__ == "__main__":
    main()
