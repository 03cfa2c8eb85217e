"""Videos of a motion: MP4 by PyAV, GIF by Pillow, rendered without a display."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from .._core.arguments import number, whole_number
from .._core.files import whole_file
from ..simulate.systems import Simulated
from ..simulate.trajectory import Trajectory
from .camera import Camera
from .painter import Painter
from .picture import stamped
from .recording import Recording
from .scene import scene_of
from .shot import Shot, shot_of


#: Opacity of ghosts, and the time (s) for which the last frame of a failed motion is held.
GHOST, HELD = 0.28, 1.0

#: Maximum frame rate of a GIF: its time unit is 10 ms, and browsers show each frame for at least 20 ms.
MOST_IN_GIF = 50


def save_video(
    model: Simulated,
    trajectory: Trajectory,
    path: str | Path,
    *,
    fps: float | int = 30,
    size: Sequence[int] = (640, 480),
    camera: Camera | Mapping[str, Any] | None = None,
    follow: bool | str | None = None,
    sample: SupportsIndex = 0,
    ghosts: Sequence[int] = (),
    speed: float | int = 1.0,
    progress: bool | Callable[[int, int], None] = True,
) -> None:
    """Writes a video of a motion: an .mp4 file, which requires `pip install 'rbd_jax[view]'`, or a .gif file.

    It needs no display and no GPU. A failed motion is shown up to its failure, and its last frame reports the time and the cause.

    Args:
      model: The simulated model.
      trajectory: The result of `rbd.rollout` or `rbd.simulate_batch`, with any batch axes.
      path: The file; its suffix determines the format.
      fps: Frames per second.
      size: Width and height in pixels; even numbers for .mp4.
      camera: The viewpoint, `rbd.view.Camera(azimuth=..., elevation=..., distance=..., look_at=...)`. Attributes that are not
        set are chosen so that the complete motion is in the picture.
      follow: True if the camera follows the model, or the name of a body to follow; by default it follows if the motion travels
        far.
      sample: The sample to show, counted over all batch axes.
      ghosts: Further samples, shown translucent.
      speed: Playback speed relative to real time.
      progress: If True, shows a progress bar; or a function of the number of finished frames and the total number.

    >>> model = rbd.load("double_pendulum")
    >>> path = rbd.rollout(model, rbd.State(jnp.array([1.0, 0.5]), jnp.zeros(2)), dt=0.01, steps=20)
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rbd.save_video(model, path, f"{folder}/run.gif", size=(64, 48), fps=10, progress=False)
    ...     print(pathlib.Path(folder, "run.gif").read_bytes()[:6])
    b'GIF89a'
    """
    path = checked_path("save_video", path, WRITERS, "a film")
    writer = WRITERS[path.suffix.lower()]
    fps = float(number("save_video", "fps", fps, above=0, most=1000))
    speed = float(number("save_video", "speed", speed, above=0))
    size = checked_size("save_video", size)
    writer_checks(path, fps, size)
    recording = Recording(model, trajectory)
    samples = checked_samples("save_video", recording, sample, ghosts)
    sample = samples[0]
    first, last = recording.t[sample][0], recording.t[sample][recording.shown(sample) - 1]
    count = int(np.floor(abs(last - first) * fps / speed * (1 + 1e-9))) + 1
    shot = shot_of(
        "save_video",
        recording,
        scene_of(model),
        size,
        samples=samples,
        opacity=(1.0, *(GHOST,) * (len(samples) - 1)),
        camera=camera,
        follow=follow,
        most=max(8 * count, 1000),
    )
    start = shot.poses[0].t[0]
    times = start + np.arange(count) * speed / fps
    failure = recording.failure(sample)
    held = round(HELD * fps) if failure else 0
    film = _Film(shot.at(np.append(times, np.full(held, shot.poses[0].t[-1]))), size, count, failure)
    with whole_file(path) as part:
        writer(part, _told(film.pictures(), count + held, progress), fps, film)


def checked_path(function: str, path: str | Path, endings: Iterable[str], what: str) -> Path:
    """Returns the output path; raises an error before the work begins if it cannot be written."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        known = " or ".join(endings)
        raise ValueError(
            f"{function}: {str(path)!r} ends in {path.suffix or 'nothing'!r}; {what} ends in {known}"
        )
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{function}: cannot write {path}: there is no folder {folder}; make it first"
        )
    if path.is_dir() or not os.access(folder, os.W_OK):
        why = "it is a folder" if path.is_dir() else f"{folder} is not writable"
        raise PermissionError(f"{function}: cannot write {path}: {why}; choose another path")
    return path


def checked_size(function: str, size) -> tuple[int, int]:
    try:
        width, height = size
    except (TypeError, ValueError):
        raise ValueError(
            f"{function}: size is {size!r}; it must be a width and a height, in pixels"
        ) from None
    wanted = "it must be a number of pixels"
    return whole_number(function, "size[0]", width, wanted), whole_number(function, "size[1]", height, wanted)


def checked_samples(
    function: str, recording: Recording, sample: SupportsIndex, ghosts: Any
) -> tuple[int, ...]:
    """Returns the sample to show, followed by the ghosts that can be shown."""
    (sample,) = checked_numbers(function, recording, "sample", (sample,))
    ghosts = checked_numbers(function, recording, "ghosts", ghosts)
    return sample, *(ghost for ghost in ghosts if ghost != sample and recording.shown(ghost))


def checked_numbers(function: str, recording: Recording, name: str, given: Any) -> tuple[int, ...]:
    """Returns checked sample numbers."""
    if isinstance(given, (int, np.integer)):
        raise TypeError(
            f"{function}: {name} is {given!r}; it must be a sequence of samples, such as ({given},)"
        )
    for one in given:
        whole = isinstance(one, (int, np.integer)) and not isinstance(one, bool)
        if not (whole and 0 <= one < recording.samples):
            many = f"there are {recording.samples}, counted from 0"
            there = many if recording.samples > 1 else "there is one, 0"
            raise IndexError(f"{function}: {name} names sample {one!r}; {there}")
    return tuple(int(one) for one in given)


class _Film:
    """The frames of a film; from number `moving` on, they repeat the last one with the text of the failure."""

    def __init__(self, shot: Shot, size: tuple[int, int], moving: int, failure: str | None):
        self.shot, self.size, self.moving, self.failure = shot, size, moving, failure
        self.painter = Painter(shot.scene, shot.setting, size)

    def picture(self, number: int) -> np.ndarray:
        picture = self.painter.paint(*self.shot.frame(number))
        return stamped(picture, self.failure) if self.failure and number >= self.moving else picture

    def pictures(self) -> Iterator[np.ndarray]:
        """Yields the frames in order, rendered ahead by up to eight threads."""
        numbers = range(min(self.moving + 1, len(self.shot)))
        threads = max(1, min(len(numbers), os.cpu_count() or 1, 8))
        waiting: deque = deque()
        with ThreadPoolExecutor(threads) as pool:
            for number in numbers:
                waiting.append(pool.submit(self.picture, number))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while len(waiting) > 1:
                yield waiting.popleft().result()
            last = waiting.popleft().result()
        for _ in range(1 + len(self.shot) - len(numbers)):
            yield last

    def keys(self, count: int = 6) -> list[np.ndarray]:
        """Returns some frames that together contain the colors of all."""
        return [
            self.picture(number)
            for number in np.unique(np.linspace(0, len(self.shot) - 1, count).astype(int)).tolist()
        ]


def _told(pictures: Iterator[np.ndarray], count: int, progress) -> Iterator[np.ndarray]:
    """Yields the frames and reports progress."""
    if callable(progress):
        for done, picture in enumerate(pictures, 1):
            yield picture
            progress(done, count)
    elif progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("filming", total=count)
            for picture in pictures:
                yield picture
                bar.advance(task)
    else:
        yield from pictures


# The formats.


def writer_checks(path: Path, fps: float, size: tuple[int, int]) -> None:
    """Raises an error before the work begins if the format does not support the options."""
    if path.suffix.lower() == ".gif":
        if fps > MOST_IN_GIF:
            raise ValueError(
                f"save_video: fps is {fps:g}; a .gif shows {MOST_IN_GIF} pictures a second at most: take fewer, or an .mp4"
            )
        return
    try:
        pyav()
    except ImportError as error:
        raise ImportError(f"rbd.save_video {error}: pip install 'rbd_jax[view]', or write a .gif") from error
    if size[0] % 2 or size[1] % 2:
        even = size[0] + size[0] % 2, size[1] + size[1] % 2
        raise ValueError(f"save_video: size is {size}; .mp4 takes even numbers, such as {even}")


def pyav():
    """Imports the writer of .mp4 files."""
    try:
        import av
    except ImportError as error:
        raise ImportError("needs PyAV for .mp4") from error
    return av


def _write_mp4(path: Path, pictures: Iterator[np.ndarray], fps: float, film: _Film) -> None:
    from fractions import Fraction

    av = pyav()
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
        stream.width, stream.height = film.size
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "20", "preset": "medium"}
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def _write_gif(path: Path, pictures: Iterator[np.ndarray], fps: float, film: _Film) -> None:
    from PIL import Image

    # One palette for all frames, so that static parts keep their color.
    keys = Image.fromarray(np.concatenate(film.keys()))
    palette = keys.quantize(255, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    plain = {"palette": palette, "dither": Image.Dither.NONE}
    images = [Image.fromarray(picture).quantize(**plain) for picture in pictures]
    ends = np.round(np.arange(len(images) + 1) * 100 / fps).astype(int)
    times = [int(10 * step) for step in np.diff(ends)]
    options = {"save_all": True, "append_images": images[1:], "duration": times, "loop": 0, "disposal": 1}
    images[0].save(path, format="GIF", optimize=False, **options)


WRITERS = {".mp4": _write_mp4, ".gif": _write_gif}
