"""The page that plays a motion, as a file: contents, accuracy, and errors."""

import base64
import json
import re
import time

import jax.numpy as jnp
import numpy as np
import pytest
from recorded import failing, of, swaying

import rbd_jax as rbd
from rbd_jax import ReducedModel
from rbd_jax.view.player import EXACT, packed
from rbd_jax.view.recording import Recording
from rbd_jax.view.scene import scene_of


@pytest.fixture(scope="module")
def arm():
    return rbd.load("double_pendulum")


@pytest.fixture(scope="module")
def path(arm):
    return swaying(arm)


def unpacked(told, *shape):
    """Returns packed numbers as the page decodes them."""
    raw = np.frombuffer(base64.b64decode(told["data"]), np.dtype(told["kind"]).newbyteorder("<"))
    if "scale" in told:
        raw = raw.reshape(-1, len(told["scale"])) * np.array(told["scale"]) + np.array(told["offset"])
    return raw.reshape(shape) if shape else raw


def recorded(text):
    """Returns the recording of a page."""
    (data,) = re.findall(r'<script type="application/json" id="recording">(.*?)</script>', text, re.DOTALL)
    return json.loads(data)


# Contents of the page.


def test_it_is_one_file_that_asks_for_nothing(arm, path, tmp_path):
    file = rbd.save_html(arm, path, tmp_path / "run.html", title="A & <b>")
    text = file.read_text(encoding="utf-8")
    assert file == tmp_path / "run.html" and [file] == list(tmp_path.iterdir())
    assert "<title>A &amp; &lt;b&gt;</title>" in text
    assert "default-src 'none'" in text
    assert not re.findall(r"https?:|@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert set(re.findall(r"<link[^>]*href=\"([^\"]*)", text)) == {"data:,"}
    assert not re.findall(r"<(?:script|img|iframe)[^>]* src=", text)


def test_poses_are_right_to_a_share_of_the_size(arm, path):
    """Every vertex of every frame matches kinematics."""
    data = recorded(path.show(arm).html)
    (sample,), poses, scene = data["samples"], Recording(arm, path).poses(0), scene_of(arm)
    count = len(poses.t)
    np.testing.assert_array_equal(unpacked(sample["t"]), poses.t)
    assert sample["position"]["kind"] == sample["quaternion"]["kind"] == "int16"
    position, turned = (
        unpacked(sample["position"], count, arm.nb, 3),
        unpacked(sample["quaternion"], count, arm.nb, 4),
    )
    turned /= np.linalg.norm(turned, axis=-1, keepdims=True)
    played = type(poses)(poses.t, position, turned)
    for surface in scene.moving:
        wanted, found = (
            surface.vertices @ np.swapaxes(x.rotation[:, surface.body], 1, 2)
            + x.position[:, surface.body, None]
            for x in (poses, played)
        )
        assert np.abs(found - wanted).max() < EXACT * scene.size


def test_what_is_far_is_not_rounded_to_steps(arm):
    """Over a range of a kilometer, two-byte steps would be visible."""
    numbers = np.linspace(0, 1000, 50)[:, None] * [[1.0, 1e-3, 0.0]]
    assert packed(numbers, 1e-5)["kind"] == "float32"
    np.testing.assert_allclose(unpacked(packed(numbers, 1e-5), 50, 3), numbers, rtol=1e-7)
    near = packed(1e-3 * numbers, 1e-5)
    assert near["kind"] == "int16" and near["scale"][2] == 0
    np.testing.assert_allclose(unpacked(near, 50, 3), 1e-3 * numbers, atol=0.51 / 65534)
    assert unpacked(packed(np.zeros((0, 3)), 1.0)).shape == (0,)


def test_surfaces_are_those_of_the_scene():
    model = rbd.load("quadruped")
    data = recorded(rbd.view.Player(model).html)
    drawn = [surface for surface in scene_of(model).surfaces if not surface.endless]
    assert [surface["name"] for surface in data["surfaces"]] == [surface.name for surface in drawn]
    for told, surface in zip(data["surfaces"], drawn):
        points, faces = unpacked(told["points"], -1, 3), unpacked(told["faces"], -1, 3)
        normals = unpacked(told["normals"], -1, 3) / 127
        assert told["body"] == surface.body and len(faces) == len(surface.faces)
        np.testing.assert_allclose(points.max(axis=0), surface.vertices.max(axis=0), atol=1e-4)
        np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1, atol=0.01)
        a, b, c = np.moveaxis(points[faces], 1, 0)
        assert (np.sum(np.cross(b - a, c - a)[:, None] * normals[faces], axis=-1) > 0).all()
    (ground,) = data["grounds"]  # the floor of the model
    np.testing.assert_allclose(ground["normal"], [0, 0, 1], atol=1e-6)


def test_long_motions_are_thinned(arm):
    t = np.linspace(0, 20, 40_001)
    q = np.stack([np.sin(t), np.cos(t)], axis=-1)
    sample = recorded(of(t, q, 2).show(arm, fps=30).html)["samples"][0]
    times = unpacked(sample["t"])
    assert len(times) == 601 and times[0] == 0 and times[-1] == 20
    short = recorded(of(t / 1000, q, 2).show(arm, fps=30).html)["samples"][0]
    assert len(unpacked(short["t"])) == 240  # smooth in slow motion


def test_only_the_samples_that_are_asked_for(arm):
    batch = swaying(arm, batch=(2, 3))
    data = recorded(batch.show(arm, sample=4, samples=(0,), ghosts=[1, 4]).html)
    assert [sample["number"] for sample in data["samples"]] == [0, 1, 4]
    assert data["sample"] == 4 and data["ghosts"] == [1]
    one = recorded(batch.show(arm, sample=4).html)
    assert [sample["number"] for sample in one["samples"]] == [4]
    assert "sample 4 of 6" in batch.show(arm, sample=4).title


@pytest.mark.usefixtures("unchecked")
def test_a_large_batch_costs_what_is_shown(tmp_path):
    """4096 samples of 1000 steps of a quadruped: only one of them is computed and written."""
    model = rbd.load("quadruped")
    one = swaying(model, rows=1001)
    rows = np.broadcast_to(np.asarray(one.q, np.float32), (4096, 1001, model.nq))
    v, tau = (np.broadcast_to(np.zeros(1, np.float32), (4096, n, model.nv)) for n in (1001, 1000))
    codes = np.zeros(4096, np.int32)
    path = rbd.Trajectory(np.broadcast_to(np.asarray(one.t), (4096, 1001)), rows, v, tau, codes, codes - 1)
    rbd.save_html(model, path, tmp_path / "run.html", sample=5)
    begin = time.perf_counter()
    file = rbd.save_html(model, path, tmp_path / "run.html", sample=4095, ghosts=(7,))
    assert time.perf_counter() - begin < 3
    assert file.stat().st_size < 1.2e6


def test_a_sample_that_failed_ends_there(arm, path):
    sample = recorded(failing(path, 21).show(arm).html)["samples"][0]
    assert unpacked(sample["t"])[-1] == pytest.approx(1.0) and sample["end"] == pytest.approx(2.0)
    assert sample["failure"] == "failed at t = 1 s: not finite"
    with pytest.raises(ValueError, match="no finite state"):
        failing(path, 0).show(arm)


def test_a_configuration_alone(arm):
    data = recorded(rbd.view.Player(arm).html)
    assert unpacked(data["samples"][0]["t"]).tolist() == [0.0]


def test_a_reduced_model(arm):
    """Its bodies are those of the full model."""
    reduced = ReducedModel(arm, lambda y: jnp.concatenate([y, -2 * y]), 1)
    y = np.linspace(0, 1, 9)[:, None]
    sample = recorded(of(y[:, 0], y, 1).show(reduced).html)["samples"][0]
    whole = recorded(of(y[:, 0], np.hstack([y, -2 * y]), 2).show(arm).html)["samples"][0]
    assert sample["position"] == whole["position"] and sample["quaternion"] == whole["quaternion"]


def test_sites_and_frames_of_the_world():
    model = rbd.attach(
        rbd.load("pendulum"), rbd.Site("nail", "world", (0, 0, 1)), rbd.Site("tip", "bob", (0, 0, -1))
    )
    nail, tip = recorded(rbd.view.Player(model).html)["sites"]
    assert (nail["name"], nail["body"], nail["position"]) == ("nail", -1, [0, 0, 1])
    assert (tip["body"], tip["quaternion"]) == (0, [1, 0, 0, 0])


def test_single_precision(arm):
    model = rbd.astype(arm, jnp.float32)
    sample = recorded(swaying(model).show(model).html)["samples"][0]
    wanted = recorded(swaying(arm).show(arm).html)["samples"][0]
    np.testing.assert_allclose(unpacked(sample["position"]), unpacked(wanted["position"]), atol=1e-4)


def test_gravity_along_another_axis_is_down(arm):
    """A world with y up is rotated for drawing."""
    builder = rbd.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_body(
        "bob",
        joint=rbd.joints.Revolute((0, 0, 1)),
        inertia=rbd.Inertia.from_mass_com(1.0, (0, -1, 0), 0.1 * np.eye(3)),
    )
    w, x, y, z = recorded(rbd.view.Player(builder.build()).html)["up"]
    np.testing.assert_allclose([w, x, y, z], [np.sqrt(0.5), np.sqrt(0.5), 0, 0], atol=1e-9)


# Contacts and curves.


def resting():
    """Returns a ball of 2 kg at rest on the ground, at its equilibrium penetration."""
    builder = rbd.ModelBuilder()
    builder.add_body(
        "ball",
        joint=rbd.joints.Prismatic((0, 0, 1)),
        inertia=rbd.Inertia.from_mass_com(2.0, np.zeros(3), np.eye(3)),
    )
    shapes = (
        rbd.Shape("look", "ball", rbd.shapes.Sphere(0.1)),
        rbd.Shape("floor", "world", rbd.shapes.Plane()),
    )
    model = rbd.attach(builder.build(), *shapes)
    model = rbd.add_forces(model, rbd.contact.Compliant("look", "floor", 1e4, law="linear", exponent=1.0))
    q = np.array([0.1 - 2 * 9.81 / 1e4, 0.1 - 2 * 9.81 / 1e4, 0.3])[:, None]
    return model, of(np.array([0.0, 1.0, 2.0]), q, 1)


def test_what_touches_is_shown_with_its_force():
    model, path = resting()
    pushes = recorded(path.show(model).html)["samples"][0]["pushes"]
    assert unpacked(pushes["count"]).tolist() == [1, 1, 0]
    np.testing.assert_allclose(unpacked(pushes["force"], 2, 3), [[0, 0, 2 * 9.81]] * 2, atol=1e-3)
    np.testing.assert_allclose(unpacked(pushes["point"], 2, 3), 0, atol=2e-3)
    assert recorded(path.show(model, show=["frames"]).html)["samples"][0]["pushes"] is None


def test_curves_of_joints_sensors_and_numbers(arm):
    sensor = rbd.sensors.JointPosition("angle", "elbow")
    model = rbd.attach(arm, sensor)
    path = swaying(model)
    numbers = np.asarray(path.t) ** 2
    given = {
        "elbow": None,
        "angle": None,
        "squares": numbers,
        "several": np.stack([numbers, -numbers], axis=-1),
    }
    curves = recorded(path.show(model, curves=given).html)["samples"][0]["curves"]
    assert [curve["label"] for curve in curves] == list(given)
    lines = [[unpacked(line["values"]) for line in curve["lines"]] for curve in curves]
    np.testing.assert_allclose(lines[0][0], path.q[:, 1], rtol=1e-6)
    np.testing.assert_allclose(lines[1][0], path.q[:, 1], rtol=1e-6)
    np.testing.assert_allclose(lines[2][0], numbers, rtol=1e-6)
    np.testing.assert_allclose(lines[3][1], -numbers, rtol=1e-6)


def test_curves_of_a_batch(arm):
    batch = swaying(arm, batch=(3,))
    numbers = np.arange(3.0)[:, None] * np.asarray(batch.t)
    (curve,) = recorded(batch.show(arm, sample=2, curves={"own": numbers}).html)["samples"][0]["curves"]
    np.testing.assert_allclose(unpacked(curve["lines"][0]["values"]), numbers[2], rtol=1e-6)


# In a notebook.


def test_a_notebook_shows_it(arm, path, tmp_path):
    player = path.show(arm, height=300)
    shown = player._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;') and "height: 300px" in shown
    assert shown.count('"') == 8  # no quote inside ends an attribute
    assert player.save(tmp_path / "run.html").read_text(encoding="utf-8") == player.html


# Errors.


REFUSED = {
    "of another model": (dict(of="quadruped"), ValueError, "of another model"),
    "a sample too many": (dict(sample=1), IndexError, "save_html: sample names sample 1; there is one, 0"),
    "a ghost too many": (dict(ghosts=(3,)), IndexError, "ghosts names sample 3"),
    "samples that are a number": (dict(samples=3), TypeError, "samples is 3; it must be a sequence"),
    "no frames": (dict(fps=0), ValueError, "save_html: fps"),
    "an unknown mark": (
        dict(show=("feet",)),
        ValueError,
        "save_html: show has 'feet'; its entries must be among 'frames'",
    ),
    "an unknown body": (dict(follow="hand"), ValueError, "hand"),
    "an unknown curve": (dict(curves=["elbo"]), ValueError, "curves has 'elbo'.* did you mean 'elbow'"),
    "numbers that do not fit": (
        dict(curves={"x": np.zeros(3)}),
        ValueError,
        r"curves\['x'\] has shape \(3,\).*begins with \(41,\)",
    ),
    "an unknown angle": (dict(camera={"roll": 3}), ValueError, "save_html: camera has no attribute 'roll'"),
}


@pytest.mark.parametrize("options, error, message", REFUSED.values(), ids=REFUSED)
@pytest.mark.usefixtures("unchecked")
def test_what_is_wrong_is_refused(arm, path, tmp_path, options, error, message):
    options = dict(options)
    model = rbd.load(options.pop("of")) if "of" in options else arm
    with pytest.raises(error, match=message):
        rbd.save_html(model, path, tmp_path / "run.html", **options)
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written(arm, path, tmp_path):
    with pytest.raises(OSError, match="there is no folder"):
        rbd.save_html(arm, path, tmp_path / "none" / "run.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(OSError, match="it is a folder"):
        rbd.save_html(arm, path, tmp_path / "folder.html")
    with pytest.raises(ValueError, match="ends in .html"):
        rbd.save_html(arm, path, tmp_path / "run.mp4")


def test_an_earlier_file_survives_a_failure(arm, path, tmp_path, monkeypatch):
    file = rbd.save_html(arm, path, tmp_path / "run.html")
    before = file.read_text(encoding="utf-8")

    def full(self, *args, **options):
        self.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(file), "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        rbd.save_html(arm, path, file, title="Another")
    assert file.read_text(encoding="utf-8") == before and list(tmp_path.iterdir()) == [file]


def test_a_missing_mesh_is_a_box_and_told(arm, path, tmp_path):
    mesh = rbd.Shape("hand", "lower", rbd.shapes.Mesh.from_file(tmp_path / "hand.stl"))
    model = rbd.attach(rbd.detach(arm, "shape"), mesh)
    with pytest.warns(rbd.ModelWarning, match="'hand'.*hand.stl"):
        data = recorded(path.show(model).html)
    (box,) = data["surfaces"]
    assert len(unpacked(box["faces"], -1, 3)) == 12
