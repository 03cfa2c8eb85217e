"""Films last as long as the motion, follow the camera settings, and stop when a sample failed."""

from typing import Any

import jax
import numpy as np
import pytest
from recorded import of

import rbd_jax as rbd
from rbd_jax.view.camera import Camera
from rbd_jax.view.recording import Recording
from rbd_jax.view.scene import scene_of
from rbd_jax.view.shot import shot_of, upright


SMALL: dict[str, Any] = {"size": (64, 48), "progress": False}


@pytest.fixture(autouse=True)
def _as_for_users(unchecked):
    pass


@pytest.fixture(scope="module")
def model():
    return rbd.load("double_pendulum")


def path_of(model, q, seconds=1.0):
    q = np.asarray(q, float)
    return of(np.linspace(0.0, seconds, q.shape[-2]), q, model.nv)


@pytest.fixture(scope="module")
def swing(model):
    angle = np.linspace(0, np.pi / 2, 21)
    return path_of(model, np.stack([angle, 0 * angle], axis=-1))


@pytest.fixture(scope="module")
def many(model):
    angle = (
        np.linspace(0, 1, 11)[:, None]
        * np.array([[1.0, 1.0], [-1.0, 0.0], [0.5, 2.0], [np.nan, 0.0]])[:, None]
    )
    angle[3, :5] = 0.1
    return path_of(model, angle.reshape(2, 2, 11, 2))


def gif(path):
    """Returns the frames, and their durations (s)."""
    from PIL import Image

    image: Any = Image.open(path)
    pictures, times = [], []
    for number in range(image.n_frames):
        image.seek(number)
        pictures.append(np.asarray(image.convert("RGB")).astype(int))
        times.append(image.info["duration"] / 1000)
    return pictures, times


def test_a_gif_lasts_as_long_as_the_motion(model, swing, tmp_path):
    rbd.save_video(model, swing, tmp_path / "a.gif", fps=10, **SMALL)
    pictures, times = gif(tmp_path / "a.gif")
    assert len(pictures) == 11 and pictures[0].shape == (48, 64, 3)
    assert times == [0.1] * 11 and np.abs(pictures[0] - pictures[-1]).max() > 100
    rbd.save_video(model, swing, str(tmp_path / "b.GIF"), fps=30, speed=2, **SMALL)
    pictures, times = gif(tmp_path / "b.GIF")
    assert len(times) == 16 and sum(times) == pytest.approx(16 / 30, abs=0.01)


def test_an_mp4_has_its_frames_in_its_size(model, swing, tmp_path):
    av = pytest.importorskip("av")
    rbd.save_video(model, swing, tmp_path / "a.mp4", fps=25, **SMALL)
    with av.open(str(tmp_path / "a.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (64, 48, 25)
        frames = [frame.to_ndarray(format="rgb24").astype(int) for frame in container.decode(stream)]
    assert len(frames) == 26
    rbd.save_video(model, swing, tmp_path / "a.gif", fps=25, **SMALL)
    assert np.abs(frames[-1] - gif(tmp_path / "a.gif")[0][-1]).mean() < 6


def test_what_failed_is_played_to_there_and_stamped(model, many, tmp_path):
    rbd.save_video(model, many, tmp_path / "a.gif", fps=10, sample=3, size=(320, 240), progress=False)
    pictures, times = gif(tmp_path / "a.gif")
    red = [np.sum((p[..., 0] > 140) & (p[..., 1] < 100) & (p[..., 2] < 100)) for p in pictures]
    assert red[0] == 0 and red[-1] > 2000  # the failure label
    assert sum(times) == pytest.approx(0.5 + 1.0, abs=0.02)  # up to 0.4 s, and held for one second
    code = many.code.at[1, 1].set(int(rbd.Result.CONSTRAINTS_OPEN))
    said = Recording(model, rbd.Trajectory(many.t, many.q, many.v, many.tau, code, many.failed_step)).failure(
        3
    )
    assert said is not None and said.startswith("failed at t = 0.4 s: ")


def test_ghosts_are_paler_than_the_sample(model, many, tmp_path):
    from rbd_jax.view.painter import Painter

    recording, scene = Recording(model, many), scene_of(model)
    alone = shot_of(
        "f", recording, scene, (320, 240), samples=(0,), camera=Camera(look_at=(0, 0, 0), distance=9.0)
    )
    both = shot_of(
        "f",
        recording,
        scene,
        (320, 240),
        samples=(0, 1),
        opacity=(1, 0.3),
        camera=Camera(look_at=(0, 0, 0), distance=9.0),
    )
    paint = lambda shot: Painter(scene, both.setting, (320, 240)).paint(*shot.frame(10)).astype(int)
    changed = np.abs(paint(both) - paint(alone)).max(axis=-1)
    assert 50 < np.sum(changed > 4) < 5000 and changed.max() < 120, (np.sum(changed > 8), changed.max())
    rbd.save_video(model, many, tmp_path / "a.gif", fps=4, sample=0, ghosts=[1, 2, 3], **SMALL)
    assert len(gif(tmp_path / "a.gif")[0]) == 5


def test_progress_is_told(model, swing, tmp_path):
    told = []
    rbd.save_video(
        model, swing, tmp_path / "a.gif", fps=10, size=(64, 48), progress=lambda *done: told.append(done)
    )
    assert told == [(i, 11) for i in range(1, 12)]


def test_nothing_is_left_of_a_film_that_is_interrupted(model, swing, tmp_path):
    def stop(done, count):
        raise KeyboardInterrupt

    (tmp_path / "a.gif").write_bytes(b"earlier")
    with pytest.raises(KeyboardInterrupt):
        rbd.save_video(model, swing, tmp_path / "a.gif", fps=10, size=(64, 48), progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]
    assert (tmp_path / "a.gif").read_bytes() == b"earlier"


BAD = {
    "ending": ({}, "a.avi", ValueError, r"ends in '.avi'; a film ends in .mp4 or .gif"),
    "no ending": ({}, "a", ValueError, r"ends in 'nothing'"),
    "folder": ({}, "no/a.gif", FileNotFoundError, "there is no folder"),
    "fps": ({"fps": 0}, "a.gif", ValueError, "fps is 0"),
    "fps of a gif": ({"fps": 60}, "a.gif", ValueError, "50 pictures a second at most"),
    "speed": ({"speed": -1}, "a.gif", ValueError, "speed is -1"),
    "size": ({"size": 640}, "a.gif", ValueError, "a width and a height"),
    "odd": ({"size": (65, 48)}, "a.mp4", ValueError, r"even numbers, such as \(66, 48\)"),
    "sample": ({"sample": 4}, "a.gif", IndexError, "sample names sample 4; there are 4"),
    "ghost": ({"ghosts": [7]}, "a.gif", IndexError, "ghosts names sample 7"),
    "camera": ({"camera": "left"}, "a.gif", TypeError, "it must be rbd.view.Camera"),
    "camera's number": (
        {"camera": {"azimut": 3}},
        "a.gif",
        ValueError,
        "camera has no attribute 'azimut'; its attributes are azimuth",
    ),
    "follow": ({"follow": "lowr"}, "a.gif", rbd.UnknownNameError, "did you mean 'lower'"),
}


@pytest.mark.parametrize("given, name, error, message", BAD.values(), ids=BAD)
def test_bad_input(model, many, tmp_path, given, name, error, message):
    if name.endswith("mp4"):
        pytest.importorskip("av")
    with pytest.raises(error, match=message):
        rbd.save_video(model, many, tmp_path / name, **(SMALL | given))
    assert not list(tmp_path.iterdir())


def test_of_another_model_and_of_nothing(model, swing, tmp_path):
    with pytest.raises(ValueError, match="it is of another model"):
        rbd.save_video(rbd.load("pendulum"), swing, tmp_path / "a.gif", **SMALL)
    broken = rbd.Trajectory(swing.t, jax.device_put(np.full(swing.q.shape, np.nan)), swing.v, swing.tau)
    with pytest.raises(ValueError, match="no finite state"):
        rbd.save_video(model, broken, tmp_path / "a.gif", **SMALL)
    (tmp_path / "folder.gif").mkdir()
    with pytest.raises(PermissionError, match="it is a folder"):
        rbd.save_video(model, swing, tmp_path / "folder.gif", **SMALL)


# Framing of a motion.


def falling(places, gravity=(0.0, 0.0, -9.81)):
    """Returns a floating ball that moves through `places`, next to one that stays."""
    builder = rbd.ModelBuilder(gravity, "two")
    for name in ("still", "moving"):
        builder.add_body(name, "world", rbd.joints.Free(), inertia=rbd.Inertia.sphere(1.0, 0.1))
        builder.attach(rbd.Shape(name, name, rbd.shapes.Sphere(0.1)))
    model = builder.build()
    q = np.tile(np.asarray(rbd.neutral(model)), (len(places), 1))
    q[:, :3], q[:, 7:10] = (0.3, 0.0, 0.2), places
    return model, path_of(model, q)


def seen_from(model, path, **options):
    return shot_of("f", Recording(model, path), scene_of(model), (64, 48), **options)


def test_all_of_a_motion_is_in_the_picture(model, swing):
    for options in ({}, {"azimuth": 20.0, "elevation": 60.0, "field_of_view": 70.0}):
        shot = seen_from(model, swing, camera=Camera(**options))
        where = shot.eye.on_screen(shot.corners, (64, 48))
        assert where.min() > 0 and (where < [64, 48]).all()
        # The framing is not much larger than necessary.
        assert max(np.ptp(where, axis=0) / [64, 48]) > 0.8
    assert not shot.follows


def test_what_flies_off_makes_nothing_else_small():
    places = np.array([[0.0, 0.0, 0.5]] * 10 + [[100.0, 0.0, 300.0]] * 10)
    near, far = (seen_from(*falling(rows)) for rows in (places[:10], places))
    assert far.setting.reach < 3 * near.setting.reach and not far.follows
    assert np.linalg.norm(far.eye.point - far.eye.target) < 3 * np.linalg.norm(
        near.eye.point - near.eye.target
    )


def test_what_is_torn_off_makes_nothing_else_small():
    builder = rbd.ModelBuilder(name="hand")
    rod = rbd.Inertia.box(1.0, (1.0, 0.1, 0.1), (0.5, 0.0, 0.0))
    builder.add_body("arm", "world", rbd.joints.Revolute((0, 1, 0)), inertia=rod)
    builder.add_body("finger", "arm", rbd.joints.Prismatic((0, 0, 1)), (1.0, 0.0, 0.0), rod)
    model = builder.build()
    slid = np.linspace(0, 1, 21) ** 3
    kept, torn = (
        seen_from(model, path_of(model, np.stack([0 * slid, far * slid], axis=-1))) for far in (0.5, 30.0)
    )
    assert np.ptp(torn.corners, axis=0).max() < 2 * np.ptp(kept.corners, axis=0).max()


def test_a_body_away_from_its_joint_hangs_on_a_rod(model):
    rods = [surface for surface in scene_of(model).surfaces if surface.name.endswith("rod")]
    assert [surface.body for surface in rods] == [0, 1]
    assert not [one for one in scene_of(rbd.load("arm7")).surfaces if one.name.endswith("rod")]


def test_the_camera_moves_along_with_what_goes_far():
    both = np.linspace(0, 50, 41)[:, None] * np.array([1.0, 0.0, 0.0])
    model, path = falling(both + [0, 0, 0.5])
    q = path.q.at[:, :3].add(both)
    path = rbd.Trajectory(path.t, q, path.v, path.tau)
    shot = seen_from(model, path)
    assert shot.follows
    for number in (0, 20, 40):
        eye, placed = shot.frame(number)
        where = eye.on_screen(placed[0].position, (64, 48))
        assert (where > 0).all() and (where < [64, 48]).all()
    assert not seen_from(model, path, follow=False).follows
    one = seen_from(model, path, follow="still").path
    assert one[-1, 0] - one[0, 0] == pytest.approx(50, rel=0.05)


def test_the_ground_is_the_models_own_or_below_all_of_the_motion():
    high = np.array([[0.0, 0.0, 0.5]] * 3)
    model, path = falling(high)
    assert seen_from(model, path).setting.ground == 0
    assert seen_from(*falling(high - [0, 0, 0.9])).setting.ground == pytest.approx(-0.5)
    floor = rbd.Shape("floor", "world", rbd.shapes.Plane(), (0.0, 0.0, -0.7))
    assert seen_from(rbd.attach(model, floor), path).setting.ground == pytest.approx(-0.7)
    assert seen_from(*falling(high, (0.0, 0.0, 0.0))).setting.ground is None


@pytest.mark.parametrize("gravity", [(0, 0, -9.81), (0, -9.81, 0), (0, 0, 3), (1, 2, -3)])
def test_up_is_against_gravity(gravity):
    builder = rbd.ModelBuilder(gravity=gravity)
    builder.add_body("a", "world", rbd.joints.Revolute(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    up = upright(builder.build())
    np.testing.assert_allclose(up @ up.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(
        up @ np.asarray(gravity), np.array([0, 0, -np.linalg.norm(gravity)]), atol=1e-12
    )
    assert np.linalg.det(up) == pytest.approx(1)


def test_a_model_is_drawn_in_one_configuration_or_in_many(model, tmp_path):
    from PIL import Image

    path = tmp_path / "a.png"
    rbd.view.plot_model(model, np.array([0.5, 0.5]), path, size=(80, 60), camera={"azimuth": -90})
    one = np.asarray(Image.open(path))
    rbd.view.plot_model(
        model, np.array([[0.5, -1.5], [0.5, 0.5]]), path, size=(80, 60), camera={"azimuth": -90}
    )
    assert one.shape == (60, 80, 3) and np.asarray(Image.open(path)).shape == (60, 80, 3)
