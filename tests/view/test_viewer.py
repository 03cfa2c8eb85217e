"""`rbd.view` without a browser: serving, errors, mode changes, and stopping."""

import inspect
import socket
import sys
import types
import urllib.request

import jax
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax.view.viewer import ghosts_of


pytest.importorskip("viser")


@pytest.fixture(scope="module")
def swing():
    """A pendulum, and four samples of its motion, the last of which fails."""
    model = rbd.load("pendulum")
    start = rbd.State(np.linspace(0.0, 1.0, 4)[:, None], np.zeros((4, 1)))
    path = rbd.simulate_batch(model, start, dt=0.01, steps=50)
    q = np.array(path.q)
    q[3, 21:] = np.nan
    codes = np.array([[0, 0, 0, 1], [-1, -1, -1, 20]], np.int32)
    return model, rbd.Trajectory(path.t, jax.device_put(q), path.v, path.tau, *map(jax.device_put, codes))


@pytest.fixture
def viewing():
    viewers = []

    def viewing(*args, **options):
        viewers.append(rbd.view(*args, **options))
        return viewers[-1]

    yield viewing
    for viewer in viewers:
        viewer.stop()


def test_the_package_is_the_function():
    assert isinstance(rbd.view, types.ModuleType) and callable(rbd.view)
    assert list(inspect.signature(rbd.view).parameters)[:3] == ["model", "trajectory", "port"]
    assert sys.modules["rbd_jax.view"] is rbd.view and rbd.view.plot_model


def test_it_serves_this_machine_until_it_is_stopped(swing, viewing, capsys):
    model, _ = swing
    viewer = viewing(model)
    assert capsys.readouterr().out == f"pendulum: {viewer.url}\n"
    port = int(viewer.url.rsplit(":", 1)[1])
    assert viewer.url == f"http://localhost:{port}" and port >= 8080
    assert urllib.request.urlopen(viewer.url, timeout=10).status == 200
    assert viewer.url in viewer._repr_html_() and viewer.url in repr(viewer)
    addresses = {one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1", "127.0.1.1"}:  # other hosts cannot reach it
        with pytest.raises(OSError):
            socket.create_connection((address, port), timeout=2).close()
    viewer.stop()
    viewer.stop()
    assert capsys.readouterr().out == "" and "stopped" in repr(viewer)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    with viewing(model, port=port) as again:  # the port is free
        assert again.url == viewer.url
    again.wait()  # returns immediately once stopped


@pytest.mark.slow
def test_a_port_in_use_is_refused_and_the_next_one_is_offered(swing, viewing):
    model, _ = swing
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            OSError, match=rf"port {port} is in use; (\d+) is free: port=\1, or leave port out"
        ):
            viewing(model, port=port)
    viewer = viewing(model)
    other = viewing(model)
    assert viewer.url != other.url
    for port in (0, 2**16, True):
        with pytest.raises(ValueError, match="port is .*whole number from 1 to 65535"):
            viewing(model, port=port)
    with pytest.raises(OSError, match="cannot serve on 'no.such.host.invalid'"):
        viewing(model, host="no.such.host.invalid")


def test_without_viser_it_says_what_to_install(swing, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ImportError, match=r"rbd.view needs viser: pip install 'rbd_jax\[view\]'"):
        rbd.view(swing[0])


def test_what_does_not_belong_together_is_refused(swing):
    model, path = swing
    with pytest.raises(ValueError, match="of another model"):
        rbd.view(rbd.load("arm7"), path)
    with pytest.raises(IndexError, match="sample: there is no sample 4; there are 4"):
        rbd.view(model, path, sample=4)
    with pytest.raises(IndexError, match="ghosts: there is no sample -1"):
        rbd.view(model, path, ghosts=[0, -1])


def test_a_mesh_that_is_missing_is_a_box_and_told(viewing, tmp_path):
    file = tmp_path / "robot.urdf"
    file.write_text(
        '<robot name="robot"><link name="base"><visual><geometry><mesh filename="nowhere.stl"/></geometry>'
        "</visual></link></robot>"
    )
    model = rbd.load_urdf(file)
    with pytest.warns(rbd.ModelWarning, match="1 meshes .* drawn as boxes.*nowhere.stl"):
        viewer = viewing(model)
    (surface,) = viewer.stage.scene.surfaces
    assert len(surface.faces) == 12


def test_the_trajectory_is_shown_at_any_time_and_up_to_where_it_fails(swing, viewing):
    model, path = swing
    viewer = viewing(model, path, sample=3, ghosts=(0, 1))
    assert viewer.mode == "motion"
    node = viewer._drawing.bodies[0]
    viewer.seek(0.1)
    viewer.settle()
    expected = rbd.forward_kinematics(model, np.asarray(path.q)[3, 10])
    turned = np.asarray(expected.rotation)[0] @ np.array([0.0, 0.0, 1.0])
    assert_close(viewer._poses.rotation[0, 0] @ [0, 0, 1], turned, 1e-9)
    assert np.abs(node.wxyz - viewer._poses.quaternion[0, 0]).max() < 1e-9
    assert not viewer._drawing._mark.visible
    # The failure is marked, and the display never goes beyond it.
    viewer.seek(0.4)
    viewer.settle()
    assert viewer.time == pytest.approx(0.2)
    assert viewer._drawing._mark.visible and "failed at t = 0.2 s" in viewer._drawing._mark.text
    assert "failed at t = 0.2 s" in viewer._status.content
    viewer.loops = False
    viewer.play(50.0)
    viewer.settle()
    # Ghosts show other samples.
    ghosts = viewer._drawing._ghosts[0][1]
    assert ghosts.batched_positions.shape == (2, 3)


def test_modes_go_over_into_each_other(swing, viewing):
    model, path = swing
    viewer = viewing(model, path, sample=2)
    viewer.seek(0.3)
    viewer._ask("mode", lambda: viewer._enter("pose"))
    viewer.settle()
    assert_close(viewer.posing.q, np.asarray(path.q)[2, 30], 1e-9)  # starts from the displayed state
    viewer.show(np.array([0.4]))
    viewer.settle()
    assert viewer.mode == "pose" and viewer.posing.q[0] == pytest.approx(0.4)
    handle = viewer._sliders[0][1]
    assert handle.value == pytest.approx(0.4, abs=2 * handle.step)
    viewer._ask("mode", lambda: viewer._enter("live"))
    viewer.pause()
    viewer.settle()
    assert viewer.live is not None and not viewer.running
    viewer.live.reset()
    assert np.asarray(viewer.live.state.q)[0] == pytest.approx(0.4)
    viewer.play()
    viewer.settle()
    while viewer.live.time < 0.05:
        viewer.settle()
    viewer.pause()
    viewer.settle()
    # Pulled at its end.
    viewer._ask("pull", lambda: viewer.pull(0, np.zeros(3) + [0, 0, -1.0], np.array([1.0, 0.0, 0.0])))
    viewer.settle()
    assert viewer.live.held[0] == 0
    viewer._ask("release", viewer.release)
    viewer.seek(0.0)
    viewer.settle()
    assert viewer.mode == "motion" and viewer.live.held is None


def test_what_goes_wrong_is_told_and_it_goes_on(swing, viewing, capsys):
    model, path = swing
    viewer = viewing(model, path)

    def fail():
        raise RuntimeError("this was to be expected")

    viewer._ask("fail", fail)
    viewer.settle()
    assert viewer._status.content == "**RuntimeError**: this was to be expected"
    assert "this was to be expected" in capsys.readouterr().err
    viewer.seek(0.2)
    viewer.settle()
    assert viewer.time == pytest.approx(0.2)


def test_of_what_is_asked_for_twice_the_later_is_done(swing, viewing):
    viewer = viewing(*swing)
    done = []
    for number in range(50):
        viewer._ask("count", lambda number=number: done.append(number))
    viewer.settle()
    assert done[-1] == 49 and done == sorted(done)


@pytest.mark.slow
def test_forces_and_sensors_are_shown_when_asked_for(viewing):
    ball = rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1))
    floor = rbd.Shape("floor", "world", rbd.shapes.Plane())
    builder = rbd.ModelBuilder(name="ball")
    builder.add_body("ball", joint=rbd.joints.Free(), inertia=rbd.Inertia.box(1.0, (0.1, 0.1, 0.1)))
    model = rbd.attach(
        builder.build(), ball, floor, rbd.contact.Soft(), rbd.Site("top", "ball", (0.0, 0.0, 0.1))
    )
    model = rbd.attach(model, rbd.sensors.FramePosition("place", "top"))
    q = np.array(rbd.neutral(model))
    q[2] = 0.0995
    state = rbd.State(q, np.zeros(6))
    viewer = viewing(model, rbd.rollout(model, state, dt=0.002, steps=20))
    drawing = viewer._drawing
    assert not drawing._contacts.visible and not drawing._mass.visible
    for box in (viewer._show_contacts, viewer._show_reactions, viewer._show_mass):
        box.value = True
    viewer._sensor.value = "place"
    viewer.seek(0.02)
    viewer.settle()
    assert drawing._contacts.visible and drawing._mass.visible
    assert drawing._touching.visible and len(drawing._touching.points) == 1
    start, end = drawing._contacts.points[0]
    assert (end - start)[2] > 0 and np.abs((end - start)[:2]).max() < 1e-3
    t, *values = viewer._plotted.data
    assert len(t) == 20 and len(values) == 3
    assert values[2][0] == pytest.approx(0.1995, abs=1e-4)


def test_ghosts_are_written_as_numbers_and_ranges():
    assert ghosts_of("1, 5 10-12,1", 20) == (1, 5, 10, 11, 12) and ghosts_of(" ", 20) == ()
    for text, message in (("x", "'x' is no sample"), ("3-", "'3-'"), ("-3", "'-3'"), ("20", "no sample 20")):
        with pytest.raises((ValueError, IndexError), match=message):
            ghosts_of(text, 20)
    with pytest.raises(ValueError, match="200 ghosts are more"):
        ghosts_of("0-199", 4096)


def test_meshes_of_many_triangles_are_coarser_until_asked_otherwise(viewing, tmp_path):
    trimesh = pytest.importorskip("trimesh")
    trimesh.creation.icosphere(subdivisions=6, radius=0.1).export(tmp_path / "ball.stl")
    shape = rbd.Shape("ball", "bob", rbd.shapes.Mesh.from_file(tmp_path / "ball.stl"))
    viewer = viewing(rbd.attach(rbd.detach(rbd.load("pendulum"), "shape"), shape))
    (surface,) = viewer.stage.scene.moving
    assert len(surface.faces) == 81920
    ((_, coarse),) = viewer._drawing.meshes
    assert 4_000 < len(coarse.faces) < 9_000
    # It has the extent of the original surface.
    assert_close(np.ptp(coarse.vertices, axis=0), np.full(3, 0.2), 4e-3)
    viewer._drawing.fine(True)
    ((_, full),) = viewer._drawing.meshes
    assert len(full.faces) == 81920
