"""Normals of triangles for shading: smooth on round surfaces, separate at edges."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


#: Two triangles that meet at a smaller angle (rad) count as parts of a round surface.
CREASE = np.radians(35.0)


def with_normals(
    vertices: np.ndarray, faces: np.ndarray, crease: float = CREASE
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns vertices, faces, and a unit normal of each vertex, pointing outwards for counterclockwise faces.

    Triangles around a point share its normal if each meets the next at an angle below `crease`. This normal is the mean of the
    triangle normals, weighted by their angles there. A point with several normals becomes several vertices. Points with equal
    coordinates are merged, and triangles without area are removed.
    """
    vertices, faces = np.asarray(vertices, float), np.asarray(faces, int)
    _, first, place = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
    vertices, faces = vertices[first], place.reshape(-1)[faces]
    corners = vertices[faces]
    sides = np.roll(corners, -1, axis=1) - corners  # from each corner to the next
    across = np.cross(sides[:, 0], sides[:, 1])
    lengths = np.linalg.norm(sides, axis=-1)
    area = np.linalg.norm(across, axis=-1)
    solid = area > 1e-9 * lengths.max(axis=1, initial=0) ** 2
    faces, sides, lengths = faces[solid], sides[solid], lengths[solid]
    flat = across[solid] / area[solid, None]

    units = sides / lengths[..., None]
    cosines = -np.sum(units * np.roll(units, 1, axis=1), axis=-1)
    angles = np.arccos(np.clip(cosines, -1, 1))

    # Corners at one point share a normal if their triangles meet at a smooth edge.
    count = faces.size
    corner = np.arange(count).reshape(-1, 3)
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2)
    those = np.stack([corner, np.roll(corner, -1, axis=1)], axis=-1).reshape(-1, 2)
    turned = ends[:, 0] > ends[:, 1]
    ends[turned], those[turned] = ends[turned, ::-1], those[turned, ::-1]
    order = np.lexsort(ends.T)
    ends, those, owner = ends[order], those[order], np.repeat(np.arange(len(faces)), 3)[order]
    same = (ends[1:] == ends[:-1]).all(axis=1)
    smooth = same & (np.sum(flat[owner[1:]] * flat[owner[:-1]], axis=-1) > np.cos(crease))
    one, other = those[:-1][smooth].ravel(), those[1:][smooth].ravel()
    joined = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(count, count))
    number, group = connected_components(joined, directed=False)

    weighted = angles.reshape(-1, 1) * np.repeat(flat, 3, axis=0)
    normals = np.stack([np.bincount(group, weighted[:, axis], number) for axis in range(3)], axis=-1)
    size = np.linalg.norm(normals, axis=-1, keepdims=True)
    # The normals at the tip of a cone without height cancel.
    normals = np.where(size > 1e-9, normals / np.maximum(size, 1e-9), np.array([0.0, 0.0, 1.0]))
    point = np.empty(number, int)
    point[group] = faces.ravel()
    return vertices[point], group.reshape(-1, 3).astype(int), normals
