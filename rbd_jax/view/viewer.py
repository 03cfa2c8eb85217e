"""A model in the browser: its motion, a pose set by the user, or an interactive simulation.

`stage`, `posing` and `live` compute, and `drawing` draws. This module contains the panel and one thread that handles all
requests. A new request replaces a pending one of the same kind, so that slow computations do not lag behind the user.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from .._core.arguments import configuration
from .._core.figures import COLORS
from ..constraints.closure import ReducedModel
from ..model import Model
from ..sensors import Readings
from ..simulate.control import Controls
from ..simulate.keyframes import keyframe
from ..simulate.scheme import Scheme
from ..simulate.sensing import sense
from ..simulate.state import State
from ..simulate.systems import Simulated
from ..simulate.trajectory import Trajectory
from ..simulate.tree_system import Acting
from .drawing import Drawing
from .live import Live
from .posing import Posing, Slider
from .recording import Poses
from .server import address, serve, stop
from .shot import shot_of
from .stage import MOST_ROWS, Moment, Stage, loads


#: The display mode: the trajectory, a pose set by the user, or a simulation.
Mode = Literal["motion", "pose", "live"]

#: Maximum frame rate, and the update rate of the panel, in Hz.
RATE, TOLD = 60.0, 10.0

#: Time span of the sensor plot of a simulation, in s.
WINDOW = 5.0

#: Maximum number of ghost samples shown.
MOST_GHOSTS = 100


def view(
    model: Simulated,
    trajectory: Trajectory | None = None,
    port: int | None = None,
    *,
    host: str = "localhost",
    sample: int = 0,
    ghosts: Sequence[int] = (),
    dt: float | None = None,
    scheme: Scheme | None = None,
    forces: Sequence[Acting] = (),
    policy: Callable[..., Any] | None = None,
    memory: Any = None,
) -> Viewer:
    """Shows a model in the browser, with its motion if one is given. Prints the address to open; `stop()` ends it.

    The page has three modes. *Motion* plays a trajectory, with controls for time, speed, the sample of a batch, and other
    samples as ghosts. *Pose* sets configurations: by a slider for each coordinate within its limits, or by dragging a body,
    which the joints follow by inverse kinematics; loops stay closed. *Live* simulates the model from the current state in
    real time; a spring pulls a body that the user drags. Each mode can show frames, sites, the center of mass, contacts,
    reactions of joints and constraints, and sensor readings. A model without shapes is drawn by its links and inertias.

    By default the address is accessible only from this machine. A failed sample is shown up to its failure, and marked.

    Args:
      model: The model.
      trajectory: The result of `rollout` or `simulate_batch` for this model, with any batch axes. Only the displayed samples
        are computed and sent.
      port: By default the first free port from 8080.
      host: The host to listen on; "0.0.0.0" gives access to every machine that can reach this one.
      sample: The sample that is shown initially, counted from 0 over all batch axes.
      ghosts: Other samples that are shown initially, translucent.
      dt: Time step of the live simulation; by default that of the model's file, or else 2 ms.
      scheme: The scheme of the live simulation, as for `rollout`.
      forces: The forces of the live simulation and of the rollout.
      policy: The policy of the live simulation, `controls` of `rollout`.
      memory: The initial memory of the policy, as for `rollout`.

    Returns:
      A `Viewer`. It serves as long as the process runs: call `viewer.wait()` in a script. A notebook displays it as the last
      line of a cell.

    >>> viewer = rbd.view(rbd.load("quadruped"))  # doctest: +ELLIPSIS
    quadruped: http://localhost:...
    >>> viewer.stop()
    """
    stage = Stage(model, trajectory, forces=forces)
    samples = stage.recording.samples
    for name, wanted in (("sample", [sample]), ("ghosts", list(ghosts))):
        if outside := [one for one in wanted if not 0 <= one < samples]:
            raise IndexError(
                f"view: {name}: there is no sample {outside[0]}; there are {samples}, counted from 0"
            )
    live = {"dt": dt, "scheme": scheme, "forces": forces, "policy": policy, "memory": memory}
    return Viewer(stage, host, port, sample, tuple(ghosts), live)


class Viewer:
    """A model that is shown in a browser, the result of `rbd.view`.

    - `url`: its address.
    - `mode`: "motion", "pose" or "live".
    - `sample`, `time`: the displayed sample and time of the trajectory.
    - `posing`, `live`: the pose set by the user, and the simulation, None before its start.

    As a context manager, it stops at the end of the block.

    >>> model = rbd.load("double_pendulum")
    >>> with rbd.view(model) as viewer:  # doctest: +ELLIPSIS
    ...     viewer.show(jnp.array([0.5, 1.0]))
    ...     viewer.settle()  # until it is shown
    double_pendulum: http://localhost:...
    >>> print(viewer.posing.q)
    [0.5 1. ]
    """

    def __init__(
        self, stage: Stage, host: str, port: int | None, sample: int, ghosts: tuple[int, ...], live: dict
    ):
        self.stage, self.sample, self.ghosts, self._live_options = stage, sample, ghosts, live
        recording = stage.recording
        self.moves = recording.rows > 1
        self.mode: Mode = "motion" if self.moves else "pose"
        motion = stage.motion(sample)
        self.time = float(motion.t[0])
        self.playing, self.speed, self.loops = False, 1.0, True
        self.posing = Posing(stage.model, recording.q[sample][0], stage.scene.size)
        self.live: Live | None = None
        self.running = False
        # A square framing fits into a window of any shape.
        self._shot = shot_of("view", recording, stage.scene, (1, 1), samples=(sample,), most=MOST_ROWS)
        self._trace: tuple[np.ndarray, Readings] | None = None
        self._read: list[tuple[float, Any]] = []
        self._poses, self._grabbed = motion, None

        name = stage.tree.name or "model"
        self._server = serve("rbd.view", host, port, name)
        self.url = address(host, self._server.get_port())
        self._lock = threading.Lock()
        self._asked: dict[str, Callable[[], object]] = {}
        self._woken, self._stopped, self._settled = threading.Event(), threading.Event(), threading.Event()
        try:
            self._drawing = Drawing(self._server, stage.scene, stage.sites, self._shot.setting)
            self._camera()
            self._panel()
            self._drawing.ghosts(len(ghosts))
            self._draw()
        except BaseException:
            stop(self._server)
            raise
        self._clock = time.monotonic()
        self._thread = threading.Thread(target=self._serve, name=f"view of {name}", daemon=True)
        self._thread.start()
        atexit.register(self.stop)
        print(f"{name}: {self.url}", flush=True)

    # Public methods.

    def stop(self) -> None:
        """Stops the viewer: the page stays unchanged, and the port becomes free."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._woken.set()
        atexit.unregister(self.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5.0)
        stop(self._server)

    def wait(self) -> None:
        """Blocks until `stop()` is called in another thread or the user presses Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            while not self._stopped.wait(0.5):
                pass
        self.stop()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def _repr_html_(self) -> str:
        if self._stopped.is_set():
            return f"<p>A view of {self.stage.tree.name}, stopped.</p>"
        return f'<iframe src="{self.url}" width="100%" height="500" frameborder="0"></iframe>'

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else f"at {self.url}"
        return f"Viewer of {self.stage.tree.name!r}, {state}"

    def show(self, q: Any) -> None:
        """Shows a configuration, after closing its loops."""
        q = configuration("view", self.stage.model, "q", q)

        def pose():
            self._enter("pose")
            self.posing.set(q)

        self._ask("pose", pose)

    def seek(self, time: float) -> None:
        """Shows the trajectory at a time."""

        def seek():
            self._enter("motion")
            self.time = float(np.clip(time, *self._span))

        self._ask("time", seek)

    def play(self, speed: float = 1.0) -> None:
        """Plays the trajectory or runs the simulation, at a speed relative to real time."""

        def play():
            self.speed = float(speed)
            if self.mode == "live":
                self.running = True
            else:
                self._enter("motion")
                self._play(True)

        self._ask("play", play)

    def pause(self) -> None:
        """Pauses the trajectory or the simulation."""

        def pause():
            self._play(False)
            self.running = False

        self._ask("play", pause)

    def settle(self, timeout: float = 120.0) -> None:
        """Waits until all requests are shown; raises a TimeoutError after `timeout` seconds."""
        self._settled.clear()
        self._woken.set()
        if not self._settled.wait(timeout):
            raise TimeoutError(f"view: the requests are not shown after {timeout:g} s")

    # The worker thread.

    def _ask(self, key: str, action: Callable[[], object]) -> None:
        """Queues an action, in place of a pending one with the same key."""
        with self._lock:
            self._asked.pop(key, None)
            self._asked[key] = action
            self._settled.clear()
        self._woken.set()

    def _serve(self) -> None:
        while not self._stopped.is_set():
            moving = self.playing or self.running
            self._woken.wait(timeout=1 / RATE if moving else 0.5)
            self._woken.clear()
            if self._stopped.is_set():
                return
            with self._lock:
                asked, self._asked = list(self._asked.values()), {}
            now = time.monotonic()
            elapsed, self._clock = min(now - self._clock, 0.25), now
            try:
                for action in asked:
                    action()
                moved = self._advance(elapsed)
                if asked or moved:
                    self._draw()
            except Exception as error:  # the viewer continues and shows the error
                self.playing = self.running = False
                traceback.print_exc()
                self._tell(f"**{type(error).__name__}**: {error}")
            with self._lock:
                if not self._asked:
                    self._settled.set()
            spent = time.monotonic() - now
            if moving and spent < 1 / RATE:
                self._stopped.wait(1 / RATE - spent)

    def _advance(self, elapsed: float) -> bool:
        """Advances the motion or the simulation; returns whether one is running."""
        if self.mode == "motion" and self.playing:
            begin, end = self._span
            self.time += self.speed * elapsed
            if self.time >= end and self.loops and end > begin:
                self.time = begin + (self.time - begin) % (end - begin)
            elif self.time >= end:
                self.time = end
                self._play(False)
            return True
        if self.mode == "live" and self.running and self.live is not None:
            if self.live.time == 0:
                self._tell("compiling ...")
            self.live.advance(self.speed * elapsed)
            self.running = self.live.failed is None
            return True
        return False

    @property
    def _span(self) -> tuple[float, float]:
        t = self.stage.motion(self.sample).t
        return float(t[0]), float(t[-1])

    def _enter(self, mode: Mode) -> None:
        """Switches to another mode, starting from the displayed state."""
        if mode == self.mode:
            return
        if mode == "motion" and not self.moves:
            raise ValueError("view: there is no trajectory to play; rbd.view(model, trajectory)")
        moment = self._moment()
        self._play(False)
        self.running, before, self.mode = False, self.mode, mode
        if mode == "pose" and before != "pose":
            self.posing.set(moment.state.q)
        if mode == "live":
            self._begin_live(moment)
            self.running = True
        self._read = []
        self._panel_for_mode()

    def _begin_live(self, moment: Moment) -> None:
        """Starts the simulation from a moment, with its controls."""
        if self.live is None:
            contact = self._contact.value
            self.live = Live(self.stage.model, moment.state, contact=contact, **self._live_options)
        self.live.put(moment.state, moment.controls.u)

    def _moment(self) -> Moment:
        """Returns the displayed state."""
        if self.mode == "live" and self.live is not None:
            return self.live.moment
        if self.mode == "motion":
            return self.stage.moment(self.sample, self.time)
        model = self.stage.model
        dtype, still = model.dtype, np.zeros(model.nv, model.dtype)
        nu = self.stage.tree.nu
        return Moment(0.0, State(self.posing.q, still), Controls(np.zeros(nu, dtype), still))

    # Drawing.

    def _draw(self) -> None:
        poses = self._seen()
        drawing, center = self._drawing, self.stage.center_of_mass(poses)
        followed = center - self._center if self._follow.value else None
        self._poses, self._center = poses, center
        arrows = self._loads() if self._show_contacts.value or self._show_reactions.value else None
        scale = self._scale.value * self.stage.scene.size / self.stage.weight
        failure, setting = self._failure(), self._shot.setting
        with self._server.atomic():
            drawing.move(poses)
            beside = self.ghosts if self.mode == "motion" else ()
            drawing.move_ghosts([self.stage.motion(one).at(np.array([self.time])) for one in beside])
            drawing.mass(center if self._show_mass.value else None)
            drawing.contacts(arrows.contacts if arrows and self._show_contacts.value else None, scale)
            drawing.reactions(arrows.reactions if arrows and self._show_reactions.value else None, scale)
            drawing.mark(failure, center + 0.6 * setting.reach * setting.up[2])
        if followed is not None and np.linalg.norm(followed) > 1e-9:
            for client in self._server.get_clients().values():
                client.camera.position = client.camera.position + followed
        self._plot()
        self._tell_state(failure)

    def _seen(self) -> Poses:
        if self.mode == "motion":
            return self.stage.motion(self.sample).at(np.array([self.time]))
        if self.mode == "live" and self.live is not None:
            return self.stage.poses(self.live.state.q, self.live.time)
        return self.stage.poses(self.posing.q)

    def _loads(self):
        moment = self._moment()
        if self.mode == "live" and self.live is not None and isinstance(self.live.model, Model):
            return loads(self.live.model, self.live.acting, moment)
        return self.stage.loads(moment)

    def _failure(self) -> str | None:
        if self.mode == "live" and self.live is not None:
            return self.live.failed
        if self.mode != "motion":
            return None
        failure = self.stage.recording.failure(self.sample)
        return failure if self.time >= self._span[1] else None

    def _camera(self) -> None:
        camera, setting = self._server.initial_camera, self._shot.setting
        self._center = self.stage.center_of_mass(self._poses)
        eye, _ = self._shot.frame(0)
        camera.fov = 2 * np.arctan(1 / eye.focal)
        camera.look_at, camera.position = setting.up.T @ eye.target, setting.up.T @ eye.point
        distance = float(np.linalg.norm(eye.point - eye.target))
        camera.near, camera.far = 0.01 * min(setting.reach, distance), 1000 * max(setting.reach, distance)

    # The panel.

    def _panel(self) -> None:
        gui = self._server.gui
        gui.main_panel.dock_right()  # so that the panel does not cover the picture
        self._status = gui.add_markdown("")
        modes = [mode for mode in ("motion", "pose", "live") if self.moves or mode != "motion"]
        self._mode = gui.add_dropdown("Mode", modes, initial_value=self.mode)
        self._on(self._mode, lambda value: self._enter(value), "mode")
        self._play_button = gui.add_button("Play")
        self._play_button.on_click(lambda _: self._ask("play", self._toggle))
        self._speed = gui.add_slider("Speed", 0.05, 4.0, 0.05, 1.0)
        self._on(self._speed, lambda value: setattr(self, "speed", value), "speed")
        self._motion_panel()
        self._pose_panel()
        self._live_panel()
        self._show_panel()
        self._sensors_panel()
        self._told = 0.0
        self._panel_for_mode()

    def _on(self, handle: Any, action: Callable[[Any], object], key: str) -> None:
        """Connects an action to changes by the user in the panel, not to changes by the program."""

        @handle.on_update
        async def _(event) -> None:  # async handlers run in order
            if event.client is not None:
                value = event.target.value
                self._ask(key, lambda: action(value))

    def _motion_panel(self) -> None:
        gui, recording = self._server.gui, self.stage.recording
        self._motion_folder = gui.add_folder("Motion")
        with self._motion_folder:
            begin, end = self._span
            self._time = gui.add_slider("Time", begin, max(end, begin + 1e-9), _fine(end - begin), begin)
            self._on(self._time, self._seek, "time")
            loop = gui.add_checkbox("Loop", self.loops)
            self._on(loop, lambda value: setattr(self, "loops", value), "loops")
            if recording.samples > 1:
                picked = gui.add_number("Sample", self.sample, min=0, max=recording.samples - 1, step=1)
                self._on(picked, lambda value: self._pick(int(value)), "sample")
                beside = gui.add_text(
                    "Ghosts",
                    ", ".join(map(str, self.ghosts)),
                    hint="samples to show beside it, as 1, 5, 10-19",
                )
                self._on(beside, self._pick_ghosts, "ghosts")

    def _seek(self, value: float) -> None:
        self._enter("motion")
        self._play(False)
        self.time = float(value)

    def _pick(self, sample: int) -> None:
        self._enter("motion")
        self.stage.motion(sample)  # raises an error for a sample without finite rows, before any change
        self.sample, self._trace = sample, None
        begin, end = self._span
        self.time = float(np.clip(self.time, begin, end))
        self._time.min, self._time.max, self._time.step = begin, max(end, begin + 1e-9), _fine(end - begin)

    def _pick_ghosts(self, text: str) -> None:
        ghosts = ghosts_of(text, self.stage.recording.samples)
        for one in ghosts:
            self.stage.motion(one)
        self.ghosts = ghosts
        self._drawing.ghosts(len(ghosts))

    def _pose_panel(self) -> None:
        gui, tree = self._server.gui, self.stage.tree
        self._pose_folder = gui.add_folder("Pose")
        with self._pose_folder:
            self._body = gui.add_dropdown("Handle on", ("none", *tree.body_names), hint="or drag a body")
            self._on(self._body, lambda _: self._place_handle(), "handle")
            self._turns = gui.add_checkbox("Turn with it", False)
            self._on(self._turns, lambda _: self._place_handle(), "handle")
            self._keyframes(lambda q: self.posing.set(q), "pose")
            self._sliders: list[tuple[Slider, Any]] = []
            with gui.add_folder("Joints", expand_by_default=len(self.posing.sliders) <= 30):
                for slider in self.posing.sliders:
                    value = float(np.clip(self.posing.q[slider.place], slider.lower, slider.upper))
                    span = max(slider.upper - slider.lower, 1e-9)
                    handle = gui.add_slider(
                        slider.name, slider.lower, slider.lower + span, _fine(span), value
                    )
                    self._on(
                        handle,
                        lambda value, slider=slider: self._set_joint(slider, value),
                        f"joint {slider.place}",
                    )
                    self._sliders.append((slider, handle))
        size = self.stage.scene.size
        self._handle = self._server.scene.add_transform_controls(
            "/handle", 0.6 * size, disable_rotations=True, depth_test=False, visible=False
        )
        self._dragging = False

        @self._handle.on_update
        async def _(event) -> None:
            position, turned = (np.array(x, float) for x in (event.target.position, event.target.wxyz))
            self._dragging = event.phase != "end"
            body = self._body.value
            if event.client is not None and body != "none":
                self._ask("drag", lambda: self._reach(tree.body_index(body), np.zeros(3), position, turned))

    def _keyframes(self, take: Callable[[Any], object], key: str) -> None:
        """Adds controls for the initial configuration: the reference configuration or a keyframe."""
        gui, tree = self._server.gui, self.stage.tree
        if isinstance(self.stage.model, ReducedModel):
            return
        names = tuple(one.name for one in tree.keyframes if one.name)
        begin = gui.add_dropdown("Begin in", ("as described", *names))
        button = gui.add_button("Begin anew")

        def anew() -> None:
            name = begin.value
            take(tree.reference if name == "as described" else keyframe(tree, name).q)

        button.on_click(lambda _: self._ask(f"{key} anew", anew))
        self._on(begin, lambda _: anew(), f"{key} anew")

    def _set_joint(self, slider: Slider, value: float) -> None:
        self._enter("pose")
        if isinstance(self.stage.model, Model) and self.stage.model.constraints:
            self._tell("compiling ...")
        self.posing.set_joint(slider, value)

    def _reach(self, body: int, point: np.ndarray, position: np.ndarray, turned: np.ndarray | None) -> None:
        self._enter("pose")
        if not self._has_reached:
            self._tell("compiling ...")
            self._has_reached = True
        rotation = None
        if turned is not None and self._turns.value:
            rotation = Poses(np.zeros(1), position[None, None], turned[None, None]).rotation[0, 0]
        self.posing.drag(body, point, position, rotation)

    _has_reached = False

    def _place_handle(self) -> None:
        chosen = self._body.value
        self._handle.visible = self.mode == "pose" and chosen != "none"
        self._handle.disable_rotations = not self._turns.value
        if chosen != "none" and not self._dragging:
            body = self.stage.tree.body_index(chosen)
            self._handle.position = self._poses.position[0, body]
            self._handle.wxyz = self._poses.quaternion[0, body]

    def _live_panel(self) -> None:
        gui = self._server.gui
        self._live_folder = gui.add_folder("Live")
        with self._live_folder:
            self._said = gui.add_markdown("")
            self._strength = gui.add_slider(
                "Pull", 0.1, 10.0, 0.1, 1.0, hint="how strong a dragged body is pulled"
            )
            names = tuple(one.name for one in self.stage.tree.keyframes if one.name)
            begin = gui.add_dropdown("Begin in", ("what was shown", *names))
            reset = gui.add_button("Begin anew")

            def anew() -> None:
                if self.live is not None:
                    self.live.reset(None if begin.value == "what was shown" else begin.value)
                    self._read = []
                    self._tell_controls()

            reset.on_click(lambda _: self._ask("live anew", anew))
            self._contact = gui.add_checkbox(
                "Contacts and joint limits", True, hint="if the model has no contact model"
            )
            self._on(self._contact, lambda _: self._simulate_otherwise(), "contact")
            self._actuators: list[Any] = []
            actuators = self.stage.tree.actuators
            if actuators and self._live_options["policy"] is None and isinstance(self.stage.model, Model):
                with gui.add_folder("Actuators", expand_by_default=len(actuators) <= 12):
                    for place, one in enumerate(actuators):
                        given = getattr(one, "control_range", None)
                        low, high = (-1.0, 1.0) if given is None else map(float, np.asarray(given))
                        value = float(np.clip(0.0, low, high))
                        handle = gui.add_slider(
                            one.name or f"u[{place}]", low, high, _fine(high - low), value
                        )
                        self._on(
                            handle,
                            lambda value, place=place: self.live and self.live.set_control(place, value),
                            f"control {place}",
                        )
                        self._actuators.append(handle)

    def _simulate_otherwise(self) -> None:
        if self.live is not None:
            moment, self.live = self.live.moment, None
            if self.mode == "live":
                self._begin_live(moment)
                self._panel_for_mode()

    def _show_panel(self) -> None:
        gui, stage = self._server.gui, self.stage
        with gui.add_folder("Show", expand_by_default=False):
            shapes = gui.add_checkbox("Shapes", True)
            frames = gui.add_checkbox("Frames", False)
            sites = gui.add_checkbox("Sites", False, visible=bool(stage.sites))
            ground = gui.add_checkbox("Ground", True, visible=self._drawing.invents_ground)
            show = lambda _: self._drawing.show(shapes.value, frames.value, sites.value, ground.value)
            for name, handle in (
                ("shapes", shapes),
                ("frames", frames),
                ("sites", sites),
                ("ground", ground),
            ):
                self._on(handle, show, name)
            redraw = lambda _: None
            self._show_mass = gui.add_checkbox("Center of mass", False)
            self._show_contacts = gui.add_checkbox("Contacts", False, visible=stage.knows_loads)
            self._show_reactions = gui.add_checkbox("Reactions", False, visible=stage.knows_loads)
            self._scale = gui.add_slider(
                "Length of forces", 0.1, 10.0, 0.1, 1.0, hint="of the weight, in lengths of the model"
            )
            self._follow = gui.add_checkbox("Camera follows", self._shot.follows)
            fine = gui.add_checkbox(
                "Fine", False, hint="all triangles, shadows, light from all around: for a GPU"
            )

            def refine(value: bool) -> None:
                self._drawing.fine(value)
                show(value)
                self._hold_bodies()

            self._on(fine, refine, "fine")
            for handle in (self._show_mass, self._scale, self._follow):
                self._on(handle, redraw, handle.label)
            for handle in (self._show_contacts, self._show_reactions):
                self._on(handle, lambda value: self._tell("compiling ...") if value else None, handle.label)

    def _sensors_panel(self) -> None:
        gui, names = self._server.gui, tuple(one.name or "" for one in self.stage.tree.sensors)
        self._sensor, self._plotted = None, None
        if not names or not self.stage.knows_loads:
            return
        self._sensors_folder = gui.add_folder("Sensors", expand_by_default=False)
        with self._sensors_folder:
            self._sensor = gui.add_dropdown("Sensor", ("none", *names))
            self._on(self._sensor, lambda _: self._plot_anew(), "sensor")
            self._values = gui.add_markdown("")

    def _panel_for_mode(self) -> None:
        self._mode.value = self.mode
        self._motion_folder.visible = self.mode == "motion"
        self._pose_folder.visible = self.mode == "pose"
        self._live_folder.visible = self.mode == "live"
        self._play_button.visible = self._speed.visible = self.mode != "pose"
        self._place_handle()
        if self.mode == "live" and self.live is not None:
            self._said.content = f"{self.live.dt:g} s a step. {self.live.said}"
            self._tell_controls()
        self._hold_bodies()

    def _hold_bodies(self) -> None:
        """Makes bodies draggable, except while a motion is shown."""
        for body, mesh in self._drawing.meshes:
            mesh.remove_drag_callback()
            if self.mode != "motion":
                mesh.on_drag("left")(self._dragged(body))

    def _dragged(self, body: int) -> Callable:
        """Returns the handler for dragging a body."""

        async def drag(event) -> None:
            # The grabbed point, in the frame of the body.
            target = np.array(event.end_position, float)
            if event.phase == "start":
                place, turned = self._poses.position[0, body], self._poses.rotation[0, body]
                self._grabbed = turned.T @ (np.array(event.start_position, float) - place)
            point = self._grabbed
            if point is None:
                return
            if self.mode == "pose":
                self._dragging = event.phase != "end"
                self._ask("drag", lambda: self._reach(body, point, target, None))
            elif event.phase == "end":
                self._ask("release", self.release)
            else:
                self._ask("pull", lambda: self.pull(body, point, target))

        return drag

    def pull(self, body: int, point: Any, target: Any) -> None:
        """Pulls a point of a body to a point of the world, in the live simulation.

        Args:
          body: The index of the body.
          point: The point in the frame of the body.
          target: The target in the world.
        """
        if self.live is None:
            return
        held = self.live.held
        if held is None or held[0] != body or not np.array_equal(held[1], np.asarray(point, np.float32)):
            if held is None:
                self._tell("compiling ...")
            self.live.grab(body, point, self._strength.value)
        self.live.pull(target)

    def release(self) -> None:
        """Releases the pulled body in the live simulation."""
        if self.live is not None:
            self.live.release()

    # Status of the panel.

    def _toggle(self) -> None:
        if self.mode == "live":
            self.running = not self.running
        elif self.mode == "motion":
            begin, end = self._span
            if not self.playing and self.time >= end:
                self.time = begin
            self._play(not self.playing)

    def _play(self, playing: bool) -> None:
        self.playing = playing

    def _tell(self, words: str) -> None:
        self._status.content = words
        self._server.flush()

    def _tell_state(self, failure: str | None) -> None:
        now = time.monotonic()
        self._play_button.label = "Pause" if self.playing or self.running else "Play"
        if (self.playing or self.running) and now - self._told < 1 / TOLD:
            return
        self._told = now
        if self.mode == "motion":
            samples = self.stage.recording.samples
            which = f", sample {self.sample} of {samples}" if samples > 1 else ""
            words = f"t = {self.time:.3f} s{which}"
            if abs(self._time.value - self.time) > 1e-12:
                self._time.value = self.time
        elif self.mode == "live":
            words = f"t = {self.live.time:.3f} s" if self.live is not None else ""
        else:
            words = self.posing.note or "drag a body, or move a joint"
            self._tell_joints()
        self._status.content = f"{words}, **{failure}**" if failure else words

    def _tell_joints(self) -> None:
        for slider, handle in self._sliders:
            value = float(np.clip(self.posing.q[slider.place], slider.lower, slider.upper))
            if abs(handle.value - value) > handle.step:
                handle.value = value
        self._place_handle()

    def _tell_controls(self) -> None:
        if self.live is not None:
            for handle, value in zip(self._actuators, np.asarray(self.live.controls.u, float)):
                handle.value = float(np.clip(value, handle.min, handle.max))

    # Sensors.

    def _plot_anew(self) -> None:
        if self._plotted is not None:
            self._plotted.remove()
            self._plotted = None
        self._values.content, self._plot_time = "", 0.0

    _plot_time = 0.0

    def _plot(self) -> None:
        """Plots the selected sensor over time: along the sample, or over the last seconds of the simulation."""
        if self._sensor is None or self._sensor.value == "none":
            return
        now = time.monotonic()
        if (self.playing or self.running) and now - self._plot_time < 0.2:
            return
        self._plot_time = now
        name, traced = self._sensor.value, self._traced()
        if traced is None:
            self._values.content = "available in *motion* and *live* only"
            return
        t, values = traced
        rows = values.reshape(len(t), -1)
        data = (np.asarray(t, float), *np.asarray(rows, float).T)
        here = rows[int(np.clip(np.searchsorted(t, self._moment().t, side="right") - 1, 0, len(t) - 1))]
        self._values.content = f"{name}: " + ", ".join(f"{x:.4g}" for x in here)
        if self._plotted is None:
            series: Any = ({"label": "t"}, *(
                {"label": f"{i}", "stroke": COLORS[i % len(COLORS)], "width": 1} for i in range(rows.shape[1])
            ))  # fmt: skip
            with self._sensors_folder:
                self._plotted = self._server.gui.add_uplot(
                    data, series, height=180, scales={"x": {"time": False}}
                )
        else:
            self._plotted.data = data

    def _traced(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns times and the readings of the selected sensor; None if not available."""
        assert self._sensor is not None
        name = self._sensor.value
        if self.mode == "motion":
            if self._trace is None:
                self._tell("compiling ...")
                self._trace = self.stage.traces(self.sample)
            return None if self._trace is None else (self._trace[0], np.asarray(self._trace[1][name]))
        if self.mode != "live" or self.live is None or not isinstance(self.live.model, Model):
            return None
        moment = self.live.moment
        if not self._read or self._read[-1][0] < moment.t:
            read = sense(
                self.live.model, moment.state, moment.controls, time=moment.t, forces=self.live.acting
            )
            self._read.append((moment.t, read))
        self._read = [one for one in self._read if one[0] > moment.t - WINDOW]
        return np.array([t for t, _ in self._read]), np.stack(
            [np.asarray(read[name]) for _, read in self._read]
        )


def ghosts_of(text: str, samples: int) -> tuple[int, ...]:
    """Parses the samples that the user enters in the panel, as in "1, 5, 10-19"."""
    found: list[int] = []
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"view: {part!r} is no sample and no range of samples, as in 1, 5, 10-19")
        found += range(int(first), int(last or first) + 1)
    if outside := [one for one in found if one >= samples]:
        raise IndexError(f"view: there is no sample {outside[0]}; there are {samples}, counted from 0")
    found = list(dict.fromkeys(found))
    if len(found) > MOST_GHOSTS:
        raise ValueError(f"view: {len(found)} ghosts are more than the maximum of {MOST_GHOSTS}")
    return tuple(found)


def _fine(span: float) -> float:
    """Returns the step of a slider."""
    return max(span / 1000, 1e-9)
