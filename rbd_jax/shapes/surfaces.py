"""Surfaces as triangles for drawing: counterclockwise as viewed from outside, and closed if the body is."""

from __future__ import annotations

import numpy as np


#: Vertices (v, 3), and three vertex indices per triangle (f, 3).
Triangles = tuple[np.ndarray, np.ndarray]

#: Number of sides of a drawn round surface.
SIDES = 32


def revolved(radii: np.ndarray, heights: np.ndarray, sides: int = SIDES) -> Triangles:
    """Returns the surface of revolution of a profile about z. The profile starts and ends on the axis, and goes up."""
    angles = 2 * np.pi * np.arange(sides) / sides
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inner = slice(1, -1)
    rings = [np.column_stack([r * ring, np.full(sides, z)]) for r, z in zip(radii[inner], heights[inner])]
    vertices = np.vstack([[[0, 0, heights[0]]], *rings, [[0, 0, heights[-1]]]])
    here, after = np.arange(sides), (np.arange(sides) + 1) % sides
    bottom, top = np.zeros(sides, int), np.full(sides, len(vertices) - 1)
    faces = [np.column_stack([bottom, 1 + after, 1 + here])]
    for level in range(len(rings) - 1):
        low, high = 1 + level * sides, 1 + (level + 1) * sides
        faces.append(np.column_stack([low + here, low + after, high + after]))
        faces.append(np.column_stack([low + here, high + after, high + here]))
    last = 1 + (len(rings) - 1) * sides
    faces.append(np.column_stack([last + here, last + after, top]))
    return vertices, np.vstack(faces)


def capsule(radius: float, half_length: float) -> Triangles:
    """Returns half balls about `±half_length` on z, and the cylinder between them."""
    angles = np.linspace(0, np.pi / 2, SIDES // 4 + 1)
    radii, heights = radius * np.sin(angles), half_length + radius * np.cos(angles)
    radii[0] = 0
    return revolved(np.append(radii, radii[::-1]), np.append(-heights, heights[::-1]))


def ball() -> Triangles:
    """Returns the unit ball."""
    angles = np.linspace(0, np.pi, SIDES // 2 + 1)
    return revolved(np.sin(angles), -np.cos(angles))


def cylinder(radius: float, half_length: float) -> Triangles:
    """Returns a cylinder along z."""
    return revolved(radius * np.array([0, 1, 1, 0]), half_length * np.array([-1, -1, 1, 1]))


def box(half_sizes: np.ndarray) -> Triangles:
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    squares = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [triangle for a, b, c, d in squares for triangle in ((a, b, c), (a, c, d))]
    return corners * half_sizes, np.array(faces)


def grid(rows: int, columns: int) -> np.ndarray:
    """Returns two triangles per cell of a grid of points, rows along y and columns along x, viewed from above."""
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    right, up, across = corner + 1, corner + columns, corner + columns + 1
    return np.vstack([np.column_stack([corner, right, across]), np.column_stack([corner, across, up])])
