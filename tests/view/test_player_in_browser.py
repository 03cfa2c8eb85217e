"""The page that plays a motion, in a browser: its display, and input by mouse, keyboard and touch."""

import numpy as np
import pytest
from recorded import failing, of, swaying

import rbd_jax as rbd
from rbd_jax.view.recording import Recording
from rbd_jax.view.scene import scene_of


pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def quadruped():
    model = rbd.load("quadruped")
    return model, swaying(model)


@pytest.fixture(scope="module")
def arm():
    model = rbd.load("double_pendulum")
    return model, swaying(model)


@pytest.fixture
def played(see, tmp_path):
    """Returns a function that opens the page of a motion, from a file, and waits until it is drawn."""

    def played(model, path, size=(640, 480), **options):
        file = rbd.save_html(model, path, tmp_path / "run.html", **{"play": False, **options})
        seen = see(file, size)
        seen.until("window.player && player.drawn > 0")
        assert seen.requests == [file.as_uri()] and seen.errors == []
        return seen

    return played


def settled(seen):
    """Returns the picture at final quality, without text."""
    seen.page.wait_for_timeout(450)
    box = seen.page.locator("#canvas").bounding_box()
    seen.page.add_style_tag(content="#title, #told, #scale, #help { visibility: hidden; }")
    return seen.picture(clip=box)


def without_bodies(seen):
    seen.page.evaluate(
        "() => { player.renderer.opaque = player.renderer.few = {first: 0, count: 0}; player.changed(); }"
    )
    return settled(seen)


def red(picture):
    """Returns the red pixels of a picture: (n, 2), x and y."""
    r, g, b = np.moveaxis(picture.astype(int), -1, 0)
    y, x = np.nonzero((r > 60) & (r > 2 * g) & (r > 2 * b))
    return np.stack([x, y], axis=-1)


def test_all_bodies_are_seen(played, quadruped):
    """At the projection of each body, the picture differs from one without bodies."""
    model, path = quadruped
    seen = played(model, path)
    poses, scene = Recording(model, path).poses(0), scene_of(model)
    frame = 10
    seen.page.evaluate(f"player.seek({float(poses.t[frame])})")
    picture = settled(seen).astype(int)
    change = np.abs(picture - without_bodies(seen)).max(axis=-1)
    assert len(scene.moving) == 17
    for surface in scene.moving:
        center = (surface.vertices.min(axis=0) + surface.vertices.max(axis=0)) / 2
        place = poses.rotation[frame, surface.body] @ center + poses.position[frame, surface.body]
        x, y = (round(p) for p in seen.page.evaluate(f"player.project({place.tolist()})"))
        assert 0 <= x < picture.shape[1] and 0 <= y < picture.shape[0], surface.name
        assert change[y, x] > 25, surface.name
    assert (change > 25).mean() < 0.5
    assert seen.errors == []


def ball():
    """Returns a red ball of 5 cm that slides along x, without a ground."""
    builder = rbd.ModelBuilder(gravity=(0, 0, 0))
    inertia = rbd.Inertia.from_mass_com(1.0, np.zeros(3), 1e-3 * np.eye(3))
    builder.add_body("ball", joint=rbd.joints.Prismatic((1, 0, 0)), inertia=inertia)
    shape = rbd.Shape("look", "ball", rbd.shapes.Sphere(0.05), rgba=(1, 0, 0, 1))
    return rbd.attach(builder.build(), shape), of(np.linspace(0, 1, 11), np.linspace(0, 0.4, 11)[:, None], 1)


def test_a_ball_is_where_it_is_projected_and_as_large(played):
    seen = played(*ball())
    for time in (0.0, 0.55, 1.0):
        seen.page.evaluate(f"player.seek({time})")
        places = red(settled(seen))
        center = np.array(seen.page.evaluate(f"player.project([{0.4 * time}, 0, 0])"))
        top = np.array(seen.page.evaluate(f"player.project([{0.4 * time}, 0, 0.05])"))
        radius = np.linalg.norm(top - center)
        np.testing.assert_allclose(places.mean(axis=0) + 0.5, center, atol=2.0)
        assert len(places) == pytest.approx(np.pi * radius**2, rel=0.15)


def test_poses_between_frames(played, quadruped):
    model, path = quadruped
    seen, poses = played(model, path), Recording(model, path).poses(0)
    times = np.random.default_rng(0).uniform(0, 2, 5)
    wanted = poses.at(times)
    for row, time in enumerate(times):
        for body in (0, 8, 16):
            told = seen.page.evaluate(f"player.seek({time}), player.bodyPose({model.body_names[body]!r})")
            np.testing.assert_allclose(told["position"], wanted.position[row, body], atol=1e-4)
            np.testing.assert_allclose(told["quaternion"], wanted.quaternion[row, body], atol=1e-4)


def test_the_slider_moves_it(played, arm):
    seen = played(*arm)
    before = settled(seen)
    box = seen.page.locator("#slider").bounding_box()
    seen.page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + box["height"] / 2)
    assert seen.page.evaluate("player.time") == pytest.approx(1.5, abs=0.05)
    assert (np.abs(settled(seen).astype(int) - before).max(axis=-1) > 25).sum() > 100


def test_it_plays_again_and_again_or_to_its_end(played, arm):
    seen = played(*arm, play=True, speed=5.0)
    seen.until("player.drawn > 20 && player.time < 1.9")
    seen.page.wait_for_timeout(600)
    assert seen.page.evaluate("player.playing")  # it has restarted
    seen.page.keyboard.press("l")
    seen.until("!player.playing")
    assert seen.page.evaluate("player.time") == 2.0
    assert seen.page.evaluate("player.framesPerSecond") > 2


def test_keys(played, arm):
    seen = played(*arm)
    press, ask = seen.page.keyboard.press, seen.page.evaluate
    press("ArrowRight")
    assert ask("player.time") == pytest.approx(0.05)
    press("Shift+ArrowRight")
    press("ArrowLeft")
    assert ask("player.time") == pytest.approx(0.5)
    press("End")
    assert ask("player.time") == 2.0
    press("Home")
    assert ask("player.time") == 0.0
    press("Space")
    assert ask("player.playing")
    press("Space")
    assert not ask("player.playing")
    press("-")
    assert ask("player.speed") == 0.5
    press("h")
    assert seen.page.locator("#help").is_visible()
    press("f")
    assert ask("player.shows.frames") and seen.page.locator("#frames").is_checked()


def test_mouse_and_fingers_move_the_camera(played, arm):
    seen = played(*arm)
    camera = lambda: seen.page.evaluate(
        "[player.camera.azimuth, player.camera.elevation, player.camera.distance, ...player.camera.target]"
    )
    first = camera()
    mouse = seen.page.mouse
    mouse.move(300, 200)
    mouse.down()
    mouse.move(340, 190, steps=4)
    mouse.up()
    turned = camera()
    assert turned[0] == pytest.approx(first[0] - 0.32) and turned[1] == pytest.approx(first[1] - 0.08)
    assert turned[2:] == pytest.approx(first[2:])
    mouse.wheel(0, 200)
    seen.until(f"player.camera.distance != {first[2]}")
    assert camera()[2] > 1.1 * first[2]
    # A dragged point stays under the mouse.
    target = camera()[3:]
    at = seen.page.evaluate(f"player.project({target})")
    mouse.move(300, 200)
    mouse.down(button="right")
    mouse.move(350, 220, steps=4)
    mouse.up(button="right")
    np.testing.assert_allclose(
        np.subtract(seen.page.evaluate(f"player.project({target})"), at), [50, 20], atol=0.5
    )
    # Two fingers that move apart.
    before, fingers = camera(), seen.page.context.new_cdp_session(seen.page)
    touch = lambda kind, *xs: fingers.send(
        "Input.dispatchTouchEvent",
        {"type": kind, "touchPoints": [{"x": x, "y": 200, "id": k} for k, x in enumerate(xs)]},
    )
    touch("touchStart", 280, 360)
    for step in range(1, 6):
        touch("touchMove", 280 - 8 * step, 360 + 8 * step)
    touch("touchEnd")
    seen.page.wait_for_timeout(100)
    assert camera()[2] == pytest.approx(before[2] * 80 / 160, rel=0.05)
    seen.page.keyboard.press("r")
    assert camera() == pytest.approx(first)


def test_a_failure_is_marked(played, arm):
    model, path = arm
    seen = played(model, failing(path, 21), play=True, loop=False, speed=2.0)
    seen.until("player.drawn > 0 && !player.playing")
    assert seen.page.evaluate("player.time") == pytest.approx(1.0)
    assert seen.page.locator("#told").inner_text() == "failed at t = 1 s: not finite"
    track, failed = (seen.page.locator(name).bounding_box() for name in ("#track", "#failed"))
    assert failed["width"] == pytest.approx(track["width"] / 2, rel=0.02)
    assert failed["x"] + failed["width"] == pytest.approx(track["x"] + track["width"], abs=1)


def test_samples_and_ghosts(played):
    model, path = ball()
    q = np.asarray(path.q) * np.array([1.0, 0.5, 0.0])[:, None, None]
    seen = played(model, of(np.asarray(path.t), q, 1), ghosts=(1,), samples=(2,), follow=False)
    seen.page.keyboard.press("End")
    with_ghost = settled(seen)
    place = lambda x: [round(p) for p in seen.page.evaluate(f"player.project([{x}, 0, 0])")]
    (x, y), (other, height) = place(0.4), place(0.2)
    assert red(with_ghost[y - 2 : y + 3, x - 2 : x + 3]).shape[0] == 25
    seen.page.keyboard.press("g")
    alone = settled(seen)
    change = np.abs(with_ghost.astype(int) - alone).max(axis=-1)
    assert change[height, other] > 25 and change[y, x] == 0
    seen.page.locator("#sample").select_option("2")
    assert seen.page.evaluate("[player.sample, player.bodyPose('ball').position[0]]") == [2, 0]
    seen.page.keyboard.press("[")
    assert seen.page.evaluate("player.sample") == 1


def test_a_camera_that_follows(played):
    """The followed body stays in place in the picture."""
    model, path = ball()
    away = of(np.asarray(path.t), np.asarray(path.q) * 50, 1)
    seen = played(model, away)
    first = red(settled(seen)).mean(axis=0)
    seen.page.keyboard.press("End")
    np.testing.assert_allclose(red(settled(seen)).mean(axis=0), first, atol=3)
    seen.page.locator("#follow").select_option("")
    seen.page.keyboard.press("Home")
    assert len(red(settled(seen))) == 0


def test_marks_and_curves(played):
    model, path = ball()
    model = rbd.attach(model, rbd.Site("mark", "ball", (0.03, 0, 0.03)))
    seen = played(
        model, path, show=("frames", "sites", "mass"), curves={"ball": None, "t²": np.asarray(path.t) ** 2}
    )
    marked = settled(seen)
    for key in "fsm":
        before = marked
        seen.page.keyboard.press(key)
        marked = settled(seen)
        assert (np.abs(before.astype(int) - marked).max(axis=-1) > 25).sum() > 5, key
    assert seen.page.locator(".curve").count() == 2
    box = seen.page.locator(".curve").nth(1).bounding_box()
    seen.page.mouse.click(box["x"] + 0.25 * box["width"], box["y"] + 40)
    assert seen.page.evaluate("player.time") == pytest.approx(0.25, abs=0.01)
    settled(seen)  # the cursor is drawn with the next picture
    cursor = seen.page.locator(".curve div").nth(1).bounding_box()
    assert cursor["x"] == pytest.approx(box["x"] + 0.25 * box["width"], abs=2)
    inked = seen.picture(clip=box).astype(int)
    assert (np.ptp(inked, axis=-1) > 60).sum() > 100  # a blue line
    assert seen.errors == []


def test_forces_of_contact(played):
    builder = rbd.ModelBuilder()
    inertia = rbd.Inertia.from_mass_com(2.0, np.zeros(3), np.eye(3))
    builder.add_body("ball", joint=rbd.joints.Prismatic((0, 0, 1)), inertia=inertia)
    shapes = (
        rbd.Shape("look", "ball", rbd.shapes.Sphere(0.1), rgba=(0, 0, 1, 1)),
        rbd.Shape("floor", "world", rbd.shapes.Plane()),
    )
    touch = rbd.contact.Compliant("look", "floor", 1e4, law="linear", exponent=1.0)
    model = rbd.add_forces(rbd.attach(builder.build(), *shapes), touch)
    seen = played(model, of(np.array([0.0, 1.0]), np.array([[0.098], [0.3]]), 1))
    assert len(red(settled(seen))) > 50
    seen.page.keyboard.press("End")
    assert len(red(settled(seen))) == 0


def test_a_translucent_body_lets_what_is_behind_through(played):
    builder = rbd.ModelBuilder(gravity=(0, 0, 0))
    inertia = rbd.Inertia.from_mass_com(1.0, np.zeros(3), 1e-3 * np.eye(3))
    builder.add_body("ball", joint=rbd.joints.Prismatic((1, 0, 0)), inertia=inertia)
    inner = rbd.Shape("inner", "ball", rbd.shapes.Sphere(0.05), rgba=(1, 0, 0, 1))
    outer = rbd.Shape("outer", "ball", rbd.shapes.Box((0.1, 0.1, 0.1)), rgba=(0, 0, 1, 0.3))
    seen = played(rbd.attach(builder.build(), inner, outer), None)
    picture, (x, y) = settled(seen), seen.page.evaluate("player.project([0, 0, 0])")
    r, _, b = picture[round(y), round(x)].astype(int)
    assert r > 60 and b > 60
    x, y = seen.page.evaluate("player.project([0, 0, 0.08])")
    assert picture[round(y), round(x)].argmax() == 2


def test_a_notebook_shows_it(see, tmp_path, arm):
    model, path = arm
    file = tmp_path / "notebook.html"
    file.write_text(f"<body>{path.show(model, height=300)._repr_html_()}</body>", encoding="utf-8")
    seen = see(file)
    frame = next(frame for frame in seen.page.frames if frame != seen.page.main_frame)
    seen.until("window.player && player.drawn > 3", frame=frame)
    assert seen.errors == []
    assert seen.page.locator("iframe").bounding_box()["height"] == 300


def test_names_are_shown_as_they_are(played):
    """Text that resembles the end of a script, or a tag, is shown as text."""
    name = "</script><b>bob</b>"
    builder = rbd.ModelBuilder()
    inertia = rbd.Inertia.from_mass_com(1.0, np.zeros(3), 0.01 * np.eye(3))
    builder.add_body(name, joint=rbd.joints.Revolute((0, 1, 0)), inertia=inertia)
    seen = played(builder.build(), None, title="<script>throw 1</script> $title")
    assert seen.page.locator("#title").inner_text() == "<script>throw 1</script> $title"
    assert seen.page.evaluate("player.recording.bodies") == [name]
    assert seen.page.locator("#follow option").nth(2).inner_text() == f"follows {name}"


def test_the_humanoid_plays_smoothly(played):
    """The bound is a third of the rate on two idle cores, which is at least 30."""
    model = rbd.load("humanoid")
    seen = played(model, swaying(model, seconds=4.0), play=True)
    seen.until("player.recent.length > 25")
    assert seen.page.evaluate("player.framesPerSecond") > 8
