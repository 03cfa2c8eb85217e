"""Contact points of pairs of geometries: compile time in seconds, and microseconds per pair in a batch. Prints a table.

python benchmarks/contact_geometry.py [BATCH]
"""

import sys
import time

import jax
import numpy as np

import rbd_jax as rbd
from rbd_jax.shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Mesh, Plane, Sphere


ROUNDS = 5
CORNERS = np.random.default_rng(0).normal(size=(30, 3))
GEOMETRIES = {
    "plane": Plane(),
    "sphere": Sphere(0.4),
    "capsule": Capsule(0.2, 0.4),
    "ellipsoid": Ellipsoid((0.3, 0.5, 0.2)),
    "cylinder": Cylinder(0.3, 0.4),
    "box": Box((0.3, 0.2, 0.5)),
    "mesh": Mesh(CORNERS / np.linalg.norm(CORNERS, axis=1, keepdims=True) / 2, [[0, 1, 2]]),
    "terrain": HeightField(np.random.default_rng(1).uniform(size=(20, 20)), (2.0, 2.0)),
}
PAIRS = [
    *(("plane", other) for other in ("sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh")),
    *(("sphere", other) for other in ("sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh")),
    ("capsule", "capsule"),
    ("capsule", "box"),
    ("box", "box"),
    ("capsule", "cylinder"),
    ("ellipsoid", "ellipsoid"),
    ("cylinder", "cylinder"),
    ("cylinder", "box"),
    ("box", "mesh"),
    ("mesh", "mesh"),
    ("terrain", "sphere"),
]


def placements(key, batch):
    rotation, position = jax.random.split(key)
    rotations = rbd.lie.SO3.exp(2 * jax.random.normal(rotation, (batch, 3)))
    return rbd.Transform(rotations, 0.4 * jax.random.normal(position, (batch, 3)))


def main(batch=1000):
    print(f"{'pair':22}{'points':>7}{'compiles':>10}{'a pair':>12}")
    first, second = (placements(jax.random.key(i), batch) for i in range(2))
    for a, b in PAIRS:
        touch = lambda at_a, at_b: rbd.contact.contact_points(GEOMETRIES[a], at_a, GEOMETRIES[b], at_b)  # noqa: B023
        lowered = jax.jit(jax.vmap(touch)).lower(first, second)
        start = time.perf_counter()
        compiled = lowered.compile()
        compiling = time.perf_counter() - start
        points = compiled(first, second).distance.shape[1]
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            jax.block_until_ready(compiled(first, second))
            times.append(time.perf_counter() - start)
        print(f"{a + ' ' + b:22}{points:7}{compiling:8.1f} s{1e6 * min(times) / batch:9.2f} µs", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
