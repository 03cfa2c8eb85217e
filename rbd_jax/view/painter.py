"""A software renderer in NumPy: shaded pictures of a scene with shadows, on a ground that fades out. Decision 0058.

The renderer first finds the opaque surfaces, at several points in each pixel, and then blends the translucent ones over them
from back to front. Light comes from the sun, behind the camera, and from the sky. Colors are mixed as their squares, which
approximates the addition of light.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .camera import Eye
from .normals import with_normals
from .raster import Fragments, doubled_area, fragments, nearest, plane_of, stacked
from .scene import Scene, Surface


#: Points along each side of a pixel, and texels along the longer side of the shadow map.
POINTS, TEXELS = 2, 512

#: Number of points that are computed at once; their data fit into the cache of a processor.
CHUNK = 8192

#: Colors of the ground, of its lines, and of the sky at the bottom and at the top of a picture.
GROUND, LINES, HORIZON, ZENITH = (
    (0.87, 0.885, 0.90),
    (0.72, 0.745, 0.77),
    (0.975, 0.98, 0.985),
    (0.80, 0.87, 0.935),
)

#: Brightness of sun and sky, darkness of a shadow on the ground, and brightness of a highlight.
SUN, SKY, SHADE, GLOSS = 0.80, 0.42, 0.62, 0.10

#: Angles of the sun to the left of the camera and above the horizon, in degrees.
SUN_AROUND, SUN_ABOVE = 50.0, 58.0


class Placed(NamedTuple):
    """The bodies in a picture: positions (nb, 3), rotations (nb, 3, 3), and their opacity."""

    position: np.ndarray
    rotation: np.ndarray
    opacity: float = 1.0


@dataclass(frozen=True)
class Setting:
    """The surroundings of a motion.

    - `up`: the rotation (3, 3) that takes the world to one with z up.
    - `ground`: the height of the ground there; None without ground.
    - `reach`: the radius around the camera's target that contains the scene; the ground fades out beyond.
    """

    up: np.ndarray
    ground: float | None
    reach: float

    @property
    def spacing(self) -> float:
        """The spacing of the lines on the ground: a round length."""
        return round_length(0.4 * self.reach)


def round_length(most: float) -> float:
    """Returns the largest number of the sequence 1, 2, 5, 10, ... times powers of ten that is not greater than `most`."""
    power = 10.0 ** np.floor(np.log10(max(most, 1e-12)))
    return float(
        max(factor * power for factor in (1, 2, 5) if factor == 1 or factor * power <= most * (1 + 1e-9))
    )


class _Triangles(NamedTuple):
    """Triangles in the world: corners (t, 3, 3), normals, color with opacity (t, 4), and a mask of two-sided ones."""

    corners: np.ndarray
    normals: np.ndarray
    rgba: np.ndarray
    open: np.ndarray

    def of(self, which) -> _Triangles:
        return _Triangles(*(field[which] for field in self))


class Painter:
    """Renders a scene in a setting, in pictures of one size (width, height)."""

    def __init__(self, scene: Scene, setting: Setting, size: tuple[int, int]):
        self.setting, self.size = setting, size
        drawn = [
            surface
            for surface in scene.surfaces
            if len(surface.faces)
            and not (surface.endless and setting.ground is not None and is_ground(surface, setting))
        ]
        self.moving = _Meshes([surface for surface in drawn if surface.body >= 0])
        still = _Meshes([surface for surface in drawn if surface.body < 0])
        still.bodies[:] = 0
        self.still = still.placed(Placed(np.zeros((1, 3)), setting.up[None]))
        self._ground: tuple[Eye, _Ground] | None = None

    def paint(self, eye: Eye, all_placed: Sequence[Placed]) -> np.ndarray:
        """Returns the picture, shape (height, width, 3), uint8."""
        parts = [self.still]
        for placed in all_placed:
            turned = Placed(
                placed.position @ self.setting.up.T, self.setting.up @ placed.rotation, placed.opacity
            )
            parts.append(self.moving.placed(turned))
        world = _Triangles(*(np.concatenate(field) for field in zip(*parts)))
        world = world.of(np.isfinite(world.corners).all(axis=(1, 2)))
        sun = _sun(eye)
        shadows = _Shadows(world.of(world.rgba[:, 3] >= 1), sun, self.setting, eye.target)
        ground = self._ground_from(eye, sun)
        picture = ground.shaded(shadows)
        pixel, light = _painted(world, eye, self.size, self.setting, sun, shadows)
        width, height = self.size
        share = [np.bincount(pixel, channel, width * height) for channel in light.T]
        picture *= (1 - share[3])[:, None]
        picture += np.stack(share[:3], axis=-1)
        shown = 255 * np.sqrt(np.clip(picture, 0, 1)) + 0.5
        return shown.astype(np.uint8).reshape(height, width, 3)

    def _ground_from(self, eye: Eye, sun: np.ndarray) -> _Ground:
        """Returns the ground, cached while the camera does not move."""
        last = self._ground
        if last is None or not all(np.array_equal(a, b) for a, b in zip(last[0], eye)):
            last = self._ground = (eye, _Ground(eye, self.size, self.setting, sun))
        return last[1]


def is_ground(surface: Surface, setting: Setting) -> bool:
    """Returns whether an unbounded plane is painted as the ground."""
    height = surface.vertices @ setting.up[2]
    return setting.ground is not None and bool(
        np.abs(height - setting.ground).max() < 1e-6 + 1e-3 * setting.reach
    )


def _sun(eye: Eye) -> np.ndarray:
    """Returns the direction towards the sun."""
    back = eye.axes[2]
    around = (
        np.arctan2(back[1], back[0])
        if np.hypot(*back[:2]) > 1e-9
        else np.arctan2(-eye.axes[0][0], eye.axes[0][1])
    )
    around, above = around - np.radians(SUN_AROUND), np.radians(SUN_ABOVE)
    return np.array([np.cos(above) * np.cos(around), np.cos(above) * np.sin(around), np.sin(above)])


class _Meshes:
    """Surfaces merged into one array of vertices and one of faces."""

    def __init__(self, surfaces: Sequence[Surface]):
        vertices, normals, faces, bodies, rgba, open_, count = [], [], [], [], [], [], 0
        for surface in surfaces:
            corners, closed = surface.vertices, _closed(surface.vertices, surface.faces)
            sides = surface.faces
            if closed and _volume(corners, sides) < 0:  # faces point inwards
                sides = sides[:, ::-1]
            points, sides, outward = with_normals(corners, sides)
            vertices.append(points)
            normals.append(outward)
            faces.append(sides + count)
            bodies.append(np.full(len(points), surface.body))
            rgba.append(np.broadcast_to(np.asarray(surface.rgba, np.float32), (len(sides), 4)))
            open_.append(np.full(len(sides), not closed))
            count += len(points)
        join = lambda parts, *shape: np.concatenate(parts) if parts else np.zeros(shape)
        self.vertices, self.normals = join(vertices, 0, 3), join(normals, 0, 3)
        self.faces, self.bodies = join(faces, 0, 3).astype(int), join(bodies, 0).astype(int)
        self.rgba, self.open = join(rgba, 0, 4).astype(np.float32), join(open_, 0).astype(bool)

    def placed(self, placed: Placed) -> _Triangles:
        rotation = placed.rotation[self.bodies]
        points = np.einsum("vij,vj->vi", rotation, self.vertices) + placed.position[self.bodies]
        normals = np.einsum("vij,vj->vi", rotation, self.normals)
        rgba = self.rgba
        if placed.opacity < 1:
            rgba = rgba * np.array([1, 1, 1, placed.opacity], np.float32)
        return _Triangles(points[self.faces], normals[self.faces], rgba, self.open)


def _closed(vertices: np.ndarray, faces: np.ndarray) -> bool:
    """Returns whether each edge belongs to two triangles that traverse it in opposite directions."""
    _, place = np.unique(np.asarray(vertices, float), axis=0, return_inverse=True)
    faces = place.reshape(-1)[faces]
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2).astype(np.int64)
    ends = ends[ends[:, 0] != ends[:, 1]]
    forth, back = (np.sort(one * (len(vertices) + 1) + other) for one, other in (ends.T, ends.T[::-1]))
    return np.array_equal(forth, back)


def _volume(vertices: np.ndarray, faces: np.ndarray) -> float:
    a, b, c = np.moveaxis(vertices[faces] - vertices.mean(axis=0), 1, 0)
    return float(np.einsum("ti,ti->", a, np.cross(b, c)))


# Surfaces.


def _painted(world: _Triangles, eye: Eye, size, setting: Setting, sun, shadows: _Shadows):
    """Returns pixels with surfaces, possibly repeated, and their contributions: premultiplied color and opacity (n, 4)."""
    width, height = (POINTS * side for side in size)
    seen, normals, which = _in_front(eye.seen(world.corners), world.normals, 1e-3 * setting.reach)
    scale = eye.focal * height / 2
    screen = np.stack(
        [width / 2 + scale * seen[..., 0] / seen[..., 2], height / 2 - scale * seen[..., 1] / seen[..., 2]],
        axis=-1,
    )
    facing = (doubled_area(screen) < 0) | world.open[which]  # y is down in the picture
    screen, seen, normals, which = screen[facing], seen[facing], normals[facing], which[facing]
    near = 1 / seen[..., 2]
    # The normal divided by the depth is linear in the picture and has the direction of the normal.
    planes = plane_of(screen, np.concatenate([near[..., None], normals * near[..., None]], axis=-1)).astype(
        np.float32
    )
    rgba = world.rgba[which]
    lit = _Light(eye, (width, height), setting, sun, shadows, planes, rgba, world.open[which])

    solid = np.flatnonzero(rgba[:, 3] >= 1)
    veiled = np.flatnonzero((rgba[:, 3] < 1) & (rgba[:, 3] > 0))
    depths = planes[..., 0].astype(float)
    found, front = nearest(
        _numbered(fragments(screen[solid], depths[solid], width, height), solid), width * height
    )
    if not len(veiled):
        found, pixel, share = _once_a_pixel(found, size)
        return pixel, lit(found) * share[:, None]
    front_light = lit(found)
    over = _numbered(fragments(screen[veiled], depths[veiled], width, height), veiled)
    over = over.of(over.nearness > front[over.pixel])
    pixels = np.union1d(found.pixel, over.pixel)
    light = np.zeros((len(pixels), 4), np.float32)
    light[np.searchsorted(pixels, found.pixel)] = front_light
    for layer in stacked(over):
        places, shade = np.searchsorted(pixels, layer.pixel), lit(layer)
        light[places] = shade + (1 - shade[:, 3:]) * light[places]
    row, column = np.divmod(pixels, width)
    return (row // POINTS) * size[0] + column // POINTS, light / np.float32(POINTS**2)


def _once_a_pixel(found: Fragments, size: tuple[int, int]) -> tuple[Fragments, np.ndarray, np.ndarray]:
    """Returns the first point of each triangle in each pixel, the pixel, and the share of its points that the triangle covers."""
    width, height = (POINTS * side for side in size)
    number = np.full((height, width), -1, np.int32)
    number.ravel()[found.pixel] = np.arange(len(found.pixel), dtype=np.int32)
    triangle = np.where(number >= 0, found.triangle[number] if len(found.pixel) else -1, -1)
    parts = [(slice(i, None, POINTS), slice(j, None, POINTS)) for i in range(POINTS) for j in range(POINTS)]
    first, pixels, shares = [], [], []
    for k, part in enumerate(parts):
        own = triangle[part]
        new, count = own >= 0, np.ones(own.shape, np.float32)
        for other in parts[:k]:
            new &= own != triangle[other]
        for other in parts[k + 1 :]:
            count += own == triangle[other]
        pixel = np.flatnonzero(new)
        first.append(number[part].ravel()[pixel])
        pixels.append(pixel)
        shares.append(count.ravel()[pixel] / np.float32(POINTS**2))
    return found.of(np.concatenate(first)), np.concatenate(pixels), np.concatenate(shares)


def _numbered(found: Fragments, numbers: np.ndarray) -> Fragments:
    return found._replace(triangle=numbers.astype(np.int32)[found.triangle])


def _in_front(seen: np.ndarray, normals: np.ndarray, least: float):
    """Clips triangles at the depth `least`; returns corners, normals, and the indices of the original triangles."""
    ahead = seen[..., 2] > least
    count = ahead.sum(axis=1)
    whole = np.flatnonzero(count == 3)
    parts = [(seen[whole], normals[whole], whole)]
    for number in (1, 2):
        cut = np.flatnonzero(count == number)
        if not len(cut):
            continue
        # The single corner on one side becomes the first one.
        alone = np.argmax(ahead[cut] == (number == 1), axis=1)
        order = (alone[:, None] + np.arange(3)) % 3
        both = np.concatenate([seen, normals], axis=-1)[cut[:, None], order]
        depth = both[..., 2]
        share = (least - depth[:, :1]) / (depth[:, 1:] - depth[:, :1])
        crossed = both[:, :1] + share[..., None] * (both[:, 1:] - both[:, :1])
        if number == 1:
            shapes = [np.stack([both[:, 0], crossed[:, 0], crossed[:, 1]], axis=1)]
        else:
            shapes = [
                np.stack([crossed[:, 0], both[:, 1], both[:, 2]], axis=1),
                np.stack([crossed[:, 0], both[:, 2], crossed[:, 1]], axis=1),
            ]
        parts += [(shape[..., :3], shape[..., 3:], cut) for shape in shapes]
    return tuple(np.concatenate(field) for field in zip(*parts))


class _Light(NamedTuple):
    """The shading of fragments."""

    eye: Eye
    size: tuple[int, int]
    setting: Setting
    sun: np.ndarray
    shadows: _Shadows
    planes: np.ndarray
    rgba: np.ndarray
    open: np.ndarray

    def __call__(self, found: Fragments) -> np.ndarray:
        """Returns premultiplied red, green and blue, and the opacity, shape (n, 4)."""
        count = len(found.pixel)
        parts = [self._of(found.of(slice(at, at + CHUNK))) for at in range(0, count, CHUNK)]
        return np.concatenate(parts) if parts else np.zeros((0, 4), np.float32)

    def _of(self, found: Fragments) -> np.ndarray:
        width, height = self.size
        row, column = np.divmod(found.pixel, np.int32(width))
        x, y = (place.astype(np.float32) + np.float32(0.5) for place in (column, row))
        a, b, c = np.moveaxis(self.planes[found.triangle, :, 1:], 1, 0)
        normal = a * x[:, None] + b * y[:, None] + c
        normal /= np.maximum(np.sqrt(np.einsum("ni,ni->n", normal, normal)), 1e-20)[:, None]
        axes = self.eye.axes.astype(np.float32)
        scale = np.float32(self.eye.focal * height / 2)
        right, down = (x - np.float32(width / 2)) / scale, (y - np.float32(height / 2)) / scale
        ray = right[:, None] * axes[0] - down[:, None] * axes[1] - axes[2]
        point = ray / found.nearness[:, None]
        point += self.eye.point.astype(np.float32)
        two_sided = self.open[found.triangle]
        if two_sided.any():
            away = two_sided & (np.einsum("ni,ni->n", normal, ray) > 0)
            normal[away] *= -1
        rgba = self.rgba[found.triangle]
        sun = self.sun.astype(np.float32)
        facing = normal @ sun
        direct = np.maximum(facing, 0)
        bright = np.flatnonzero(direct > 0)
        direct[bright] *= 1 - self.shadows.on(point[bright], normal[bright])
        ambient = SKY * (0.68 + 0.32 * normal[:, 2])
        ray /= np.sqrt(np.einsum("ni,ni->n", ray, ray))[:, None]
        half = sun - ray
        gloss = np.einsum("ni,ni->n", half, normal) / np.sqrt(np.einsum("ni,ni->n", half, half))
        gloss = GLOSS * np.maximum(gloss, 0) ** 32 * (direct > 0)
        light = rgba[:, :3] ** 2 * (ambient + SUN * direct)[:, None] + gloss[:, None]
        opacity = rgba[:, 3].copy()
        if self.setting.ground is not None and self.eye.point[2] > self.setting.ground:
            opacity[point[:, 2] < self.setting.ground - 2e-3 * self.setting.reach] = 0
        return np.concatenate([light * opacity[:, None], opacity[:, None]], axis=1).astype(np.float32)


# The ground and the sky.


class _Ground:
    """The background from one camera: ground and sky."""

    def __init__(self, eye: Eye, size: tuple[int, int], setting: Setting, sun: np.ndarray):
        width, height = size
        low, high = np.array(HORIZON, np.float32) ** 2, np.array(ZENITH, np.float32) ** 2
        share = np.linspace(1, 0, height, dtype=np.float32)[:, None]
        self.picture = np.repeat(low + share * (high - low), width, axis=0)
        self.pixel = np.zeros(0, int)
        self.sun = sun
        if setting.ground is None or eye.point[2] <= setting.ground:
            return
        self.pixel, ray = _downwards(eye, size)
        height_above = np.float32(eye.point[2] - setting.ground)
        along = -height_above / ray[:, 2]
        point = eye.point[:2].astype(np.float32) + along[:, None] * ray[:, :2]
        reach = np.float32(setting.reach)
        away = np.hypot(*(point - eye.target[:2].astype(np.float32)).T) / reach
        fade = np.exp(-((away / 5) ** 2) - (along / (12 * reach + 2 * height_above)) ** 2)
        # Distance on the ground between neighboring pixels.
        moved, slope = np.zeros_like(point), ray[:, :2] / ray[:, 2:]
        for side in eye.axes[:2].astype(np.float32):
            moved += np.abs(side[:2] - slope * side[2])
        moved *= along[:, None] / np.float32(eye.focal * height / 2)
        step = np.float32(setting.spacing)
        line = np.zeros_like(along)
        for axis in range(2):
            off = np.abs((point[:, axis] / step + np.float32(0.5)) % 1 - np.float32(0.5)) * step
            broad, blur = np.float32(0.012) * step, np.maximum(moved[:, axis], np.float32(1e-9))
            cover = np.clip((broad + blur / 2 - off) / blur, 0, 1) * np.minimum(1, 2 * broad / blur)
            line = np.maximum(line, cover * np.exp(-((blur / step * np.float32(2.5)) ** 2)))
        plain, lines = np.array(GROUND, np.float32) ** 2, np.array(LINES, np.float32) ** 2
        self.color = (plain + line[:, None] * (lines - plain)) * fade[:, None]
        self.rest = (1 - fade)[:, None] * self.picture[self.pixel]
        self.point = np.column_stack([point, np.full_like(along, setting.ground)])

    def shaded(self, shadows: _Shadows) -> np.ndarray:
        """Returns a new picture of the background with shadows, shape (pixels, 3)."""
        picture = self.picture.copy()
        if len(self.pixel):
            picture[self.pixel] = (
                self.rest + self.color * (1 - SHADE * shadows.on_ground(self.point))[:, None]
            )
        return picture


def _downwards(eye: Eye, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pixels whose rays point downwards, and the rays, with component 1 ahead."""
    width, height = size
    scale = eye.focal * height / 2
    right, up, back = eye.axes.astype(np.float32)
    x = ((np.arange(width) + 0.5 - width / 2) / scale).astype(np.float32)
    y = ((height / 2 - np.arange(height) - 0.5) / scale).astype(np.float32)
    ray = (x[None, :, None] * right + y[:, None, None] * up - back).reshape(-1, 3)
    pixel = np.flatnonzero(ray[:, 2] < -1e-4)
    return pixel, ray[pixel]


# Shadows.


class _Shadows:
    """The shadow map of the sun."""

    def __init__(self, solid: _Triangles, sun: np.ndarray, setting: Setting, focus: np.ndarray):
        z = sun
        x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
        x /= np.linalg.norm(x)
        self.axes = np.stack([x, np.cross(z, x), z])
        corners = solid.corners @ self.axes.T
        center = self.axes @ focus
        around = 4 * setting.reach
        near = (np.abs(corners - center) < around).all(axis=(1, 2))
        if setting.ground is not None:
            near &= solid.corners[..., 2].max(axis=1) > setting.ground
        self.some = bool(near.any())
        if not self.some:
            return
        solid, corners = solid.of(near), corners[near]
        low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
        self.texel = float((high - low)[:2].max()) / (TEXELS - 16) or 1.0
        self.low = low - 8 * self.texel
        self.width, self.height = (int(side) for side in np.ceil((high - self.low)[:2] / self.texel) + 8)
        screen = (corners[..., :2] - self.low[:2]) / self.texel
        facing = (doubled_area(screen) > 0) | solid.open
        screen, level = screen[facing], corners[facing][..., 2] - self.low[2]
        found = fragments(screen, plane_of(screen, level[..., None])[..., 0], self.width, self.height)
        top = np.zeros(self.width * self.height, np.float32)
        np.maximum.at(top, found.pixel, found.nearness)
        self.top = top
        self.cover = None

    def on(self, point: np.ndarray, normal: np.ndarray) -> np.ndarray:
        """Returns the share of the sun that is hidden from surface points (n, 3), averaged over 4 x 4 texels for soft edges."""
        if not self.some or not len(point):
            return np.zeros(len(point), np.float32)
        place = (point + normal * np.float32(1.5 * self.texel)) @ self.axes.T.astype(np.float32)
        place -= self.low.astype(np.float32)
        level = place[:, 2] + np.float32(0.5 * self.texel)
        x, y = (place[:, axis] / np.float32(self.texel) - np.float32(0.5) for axis in range(2))
        column, row = np.floor(x).astype(np.int32), np.floor(y).astype(np.int32)
        fx, fy = x - column.astype(np.float32), y - row.astype(np.float32)
        inside = (column >= 1) & (column < self.width - 2) & (row >= 1) & (row < self.height - 2)
        base = np.where(inside, row * self.width + column, self.width + 1)
        along, across = ((1 - f, np.float32(1), np.float32(1), f) for f in (fx, fy))
        hidden = np.zeros(len(point), np.float32)
        for i, down in enumerate(across):
            of_row = np.zeros(len(point), np.float32)
            for j, right in enumerate(along):
                of_row += right * (self.top[base + ((i - 1) * self.width + j - 1)] > level)
            hidden += down * of_row
        return np.where(inside, hidden / 9, 0)

    def on_ground(self, point: np.ndarray) -> np.ndarray:
        """Returns the same for points of the ground, from a coverage map that is blurred once."""
        if not self.some:
            return np.zeros(len(point), np.float32)
        if self.cover is None:
            cover = (self.top > 0).astype(np.float32).reshape(self.height, self.width)
            for _ in range(2):
                cover = _blurred(_blurred(cover, 2).T, 2).T
            self.cover = np.ascontiguousarray(cover).ravel()
        shadow = np.zeros(len(point), np.float32)
        axes = (self.axes[:2] / self.texel).astype(np.float32)
        x, y = axes @ point.T - (self.low[:2] / self.texel + 0.5).astype(np.float32)[:, None]
        some = np.flatnonzero((x >= 0) & (x < self.width - 1) & (y >= 0) & (y < self.height - 1))
        x, y = x[some].astype(np.float32), y[some].astype(np.float32)
        column, row = x.astype(np.int32), y.astype(np.int32)
        fx, fy = x - column.astype(np.float32), y - row.astype(np.float32)
        at = row * self.width + column
        above = (1 - fx) * self.cover[at] + fx * self.cover[at + 1]
        below = (1 - fx) * self.cover[at + self.width] + fx * self.cover[at + self.width + 1]
        shadow[some] = (1 - fy) * above + fy * below
        return shadow


def _blurred(image: np.ndarray, radius: int) -> np.ndarray:
    """Returns means over 2 radius + 1 rows."""
    padded = np.pad(image, ((radius + 1, radius), (0, 0)))
    total = np.cumsum(padded, axis=0, dtype=np.float32)
    return (total[2 * radius + 1 :] - total[: -2 * radius - 1]) / (2 * radius + 1)
