"""The command line: its files, its output, and its errors."""

import contextlib
import dataclasses
import io
import os
import platform
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import rbd_jax as rbd
from rbd_jax import simulate_batch
from rbd_jax.__main__ import main
from rbd_jax.cli import machine
from rbd_jax.cli.energy import GAIN, energies, falls_freely
from rbd_jax.cli.model import Refused
from rbd_jax.cli.output import claimed, results_folder, written_together
from rbd_jax.cli.report import Run, report
from rbd_jax.cli.simulate import FRAMES, SPEED, SPREAD, with_stops
from rbd_jax.parallel import random_states
from rbd_jax.parallel.cores import cores
from rbd_jax.view import plot_trajectory


URDF = """
<robot name="small">
  <link name="base"/>
  <link name="rod"><inertial><mass value="2.5"/>
    <inertia ixx="1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="tip"><inertial><mass value="0.5"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="cap"/>
  <joint name="lift" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
    <limit lower="-1.25" upper="1.5" effort="10" velocity="2"/><dynamics damping="0.375"/></joint>
  <joint name="nod" type="revolute"><parent link="rod"/><child link="tip"/><origin xyz="0 0 1"/>
    <limit lower="-2" upper="2" effort="10" velocity="2"/><mimic joint="lift" multiplier="-0.5" offset="0.1"/></joint>
  <joint name="weld" type="fixed"><parent link="tip"/><child link="cap"/></joint>
</robot>
"""


@pytest.fixture
def urdf(tmp_path):
    path = tmp_path / "small.urdf"
    path.write_text(URDF)
    return str(path)


def png_size(path):
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """Returns the output of a simulation and the folder of its files, including a page."""
    folder = tmp_path_factory.mktemp("simulated") / "a" / "b"
    arguments = ["--batch", "3", "--seconds", "0.07", "--dt", "0.01", "--html", "--out", str(folder)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["simulate", "pendulum", *arguments]) == 0
    return out.getvalue(), folder


def test_simulate(simulated):
    out, folder = simulated
    for expected in (
        "steps per second",
        "real-time factor",
        "energy error",
        "every sample, every step",
        "3 x 7",
        "trajectory.npz",
    ):
        assert expected in out
    saved, model = np.load(folder / "trajectory.npz"), rbd.load("pendulum")
    assert saved["q"].shape == saved["v"].shape == (3, 8, 1)
    assert all(saved[name].dtype == model.dtype for name in "tqv")
    np.testing.assert_allclose(saved["t"], 0.01 * np.arange(8), rtol=1e-6)
    assert saved["body_names"].tolist() == ["bob"]
    assert saved["joint_names"].tolist() == ["swing"]
    assert str(saved["robot"]) == "pendulum"
    picture = folder / "trajectory.png"
    width, height = png_size(picture)
    assert width > 1000 and height > 500 and picture.stat().st_size > 20_000


@pytest.mark.slow
def test_a_result_is_not_overwritten_without_a_word(tmp_path, capsys):
    """A film is written when requested, and other files stay."""
    arguments = ["simulate", "pendulum", "--batch", "2", "--seconds", "0.1", "--out", str(tmp_path)]
    (tmp_path / "notes.txt").write_text("mine")
    assert main([*arguments, "--video", "gif"]) == 0
    assert "trajectory.gif" in capsys.readouterr().out
    assert (tmp_path / "trajectory.gif").read_bytes()[:6] == b"GIF89a"
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main([*arguments, "--seed", "1"]) == 2
    error = capsys.readouterr().err
    assert "has trajectory.npz, trajectory.png, trajectory.gif already" in error and "--overwrite" in error
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert main([*arguments, "--seed", "1", "--overwrite"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "notes.txt",
        "trajectory.npz",
        "trajectory.png",
    ]
    assert (tmp_path / "trajectory.npz").read_bytes() != before["trajectory.npz"]


@pytest.mark.slow
def test_simulate_is_what_rollout_does(tmp_path):
    """Segments of several steps, and a shorter last one, give the states of a single rollout."""
    steps = 2 * FRAMES + 3
    arguments = ["--batch", "3", "--seconds", str(steps * 0.002), "--dt", "0.002", "--out", str(tmp_path)]
    assert main(["simulate", "pendulum", "--scheme", "RungeKutta4", *arguments]) == 0
    saved = np.load(tmp_path / "trajectory.npz")
    numbers = np.round(saved["t"] / 0.002).astype(int)
    assert len(numbers) <= FRAMES + 2 and numbers[0] == 0 and numbers[-1] == steps
    model = rbd.load("pendulum")

    @jax.vmap
    def simulate(q, v):
        return rbd.rollout(model, rbd.State(q, v), dt=0.002, steps=steps, scheme=rbd.RungeKutta4())

    q, v = (jnp.asarray(saved[name], float) for name in "qv")
    traj = simulate(q[:, 0], v[:, 0])
    np.testing.assert_allclose(q, traj.q[:, numbers], atol=1e-5)
    np.testing.assert_allclose(v, traj.v[:, numbers], atol=1e-5)


def test_simulate_writes_a_page(simulated):
    out, folder = simulated
    page = (folder / "run.html").read_text(encoding="utf-8")
    assert page.count('"number":') == 3 and "</html>" in page
    assert "run.html" in out


def test_the_seed_decides_and_the_limits_hold():
    model = rbd.load("cartpole")
    draw = lambda model, seed: random_states(model, 1000, jax.random.key(seed), SPREAD, SPEED)
    drawn, again, other = (draw(model, seed) for seed in (1, 1, 2))
    q, v = drawn.q, drawn.v
    np.testing.assert_array_equal(q, again.q)
    assert not np.allclose(q, other.q) and not np.allclose(q[0], q[1])
    np.testing.assert_allclose([np.std(q), np.std(v)], [SPREAD, SPEED], rtol=0.1)
    narrow = rbd.ModelBuilder.from_model(model)
    narrow.bodies[0] = dataclasses.replace(narrow.bodies[0], lower=-0.1, upper=0.1)
    assert np.abs(draw(narrow.build(), 1).q[:, 0]).max() <= 0.1


@pytest.mark.slow
def test_simulate_a_file_whose_base_floats(tmp_path, urdf, capsys):
    arguments = [
        "--batch",
        "2",
        "--seconds",
        "0.02",
        "--dt",
        "0.01",
        "--out",
        str(tmp_path / "out"),
        "--floating-base",
    ]
    assert main(["simulate", urdf, *arguments]) == 0
    assert "energy dissipated" in capsys.readouterr().out
    assert np.load(tmp_path / "out" / "trajectory.npz")["q"].shape == (2, 3, 8)


@pytest.mark.slow
def test_failed_samples_are_counted(tmp_path, capsys):
    (tmp_path / "stiff.urdf").write_text(URDF.replace('damping="0.375"', 'damping="1e9"'))
    arguments = ["--batch", "3", "--seconds", "1", "--dt", "0.02", "--out", str(tmp_path)]
    arguments += ["--scheme", "runge-kutta-4"]
    assert main(["simulate", str(tmp_path / "stiff.urdf"), *arguments]) == 3
    out = capsys.readouterr().out
    assert (
        re.search(r"completed +0 ", out)
        and re.search(r"(diverged|not finite) +3 ", out)
        and "take shorter steps" in " ".join(out.split())
    )
    assert png_size(tmp_path / "trajectory.png")


def test_info(urdf, capsys):
    assert main(["info", urdf]) == 0
    out = capsys.readouterr().out
    for expected in (
        "small: 4 bodies, nq = 1, nv = 1",
        "rod (lift)  Revolute v[0:1], 2.5 kg",
        "massless",
        "total mass",
        "3 kg",
        "2 Fixed, 2 Revolute",
        "root_joint, weld",
        "0.375",
        "-0.5 q +0.1",
        "warning: model 'small' has inertias that are not physical",
        "- 'rod': the principal moments 0.1, 0.1, 1",
    ):
        assert expected in out, expected


def test_info_of_a_file_whose_base_floats(urdf, capsys):
    assert main(["info", urdf, "--floating-base"]) == 0
    assert "small: 4 bodies, nq = 8, nv = 7" in capsys.readouterr().out


def test_info_of_a_bundled_robot(capsys):
    assert main(["info", "quadruped"]) == 0
    out = capsys.readouterr().out
    assert "FL_hip" in out and "Limits" in out and "warning" not in out


WHOLE = """<mujoco model="whole"><option timestep="0.004" integrator="RK4" density="1.2"
noslip_iterations="3"/><custom><numeric name="gain" data="2"/></custom>
<worldbody><body name="a"><joint name="j"/><geom size=".1"/></body><body name="b"><joint name="k"/><geom
size=".1"/></body></worldbody><equality><connect body1="a" body2="b" anchor="0 0 1"/></equality>
<keyframe><key name="home" qpos=".1 0"/><key name="away" qpos=".1 2"/></keyframe></mujoco>"""


def test_info_of_what_is_attached(tmp_path, capsys):
    """Prints counts, and with --all each name; also the settings of the file and elements without effect."""
    pytest.importorskip("mujoco")
    path = tmp_path / "whole.xml"
    path.write_text(WHOLE)
    assert main(["info", str(path)]) == 0
    out = capsys.readouterr().out
    for what in (
        r"keyframes +2 \(--all lists them\)",
        r"constraints +1 ",
        "timestep +0.004 s",
        "integrator +rk4",
        "custom +gain",
    ):
        assert re.search(what, out), what
    assert re.search("shapes +2", out) and re.search("contact model +1", out) and "away" not in out
    assert re.search("without effect +noslip iterations of the solver", out)
    assert main(["info", str(path), "--all"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"away +Keyframe +j, k", out) and re.search(r"Connect +a, b", out)


def test_convert(urdf, tmp_path, capsys):
    """Conversion to MJCF and back reports discarded data; with --strict it writes nothing."""
    pytest.importorskip("mujoco")
    path = tmp_path / "small.xml"
    assert main(["convert", urdf, str(path), "--strict"]) == 2
    err = capsys.readouterr().err
    assert "velocity limits of joints 'lift'" in err and "omit --strict to" in err and err.count("\n") == 1
    assert not path.exists()
    assert main(["convert", urdf, str(path), "--mimic", "free"]) == 0
    out = capsys.readouterr().out
    assert (
        "  - velocity limits of joints 'lift', 'nod'" in out
        and f"{path}: small, 4 bodies, nq = 2, nv = 2" in out
    )
    assert main(["convert", str(path), str(tmp_path / "back.urdf")]) == 0
    back = rbd.load(tmp_path / "back.urdf")
    assert set(back.joint_names) >= {"lift", "nod"} and float(back.damping[0]) == 0.375
    assert main(["convert", "cartpole", str(tmp_path / "cart.urdf")]) == 0
    assert rbd.load(tmp_path / "cart.urdf").joint_names == rbd.load("cartpole").joint_names


def test_convert_keeps_all_digits(tmp_path):
    """Digits are preserved even if JAX computes in single precision."""
    with jax.enable_x64(False):
        assert main(["convert", "cartpole", str(tmp_path / "cart.xml")]) == 0
    assert 'gravity="0 0 -9.81"' in (tmp_path / "cart.xml").read_text()


BAD = {
    "a format that is not written": (["convert", "pendulum", "p.sdf"], "end in .urdf, .xml or .mjcf"),
    "what URDF has not": (
        ["convert", "humanoid", "h.urdf"],
        "'waist' is a ball joint, which URDF does not have",
    ),
    "a folder that is not there": (
        ["convert", "pendulum", "no/such/p.urdf"],
        "cannot write to no/such/p.urdf",
    ),
    "nowhere to write": (["convert", "pendulum"], "FILE"),
    "unknown robot": (["simulate", "quadrupd"], "did you mean 'quadruped'"),
    "no such file": (["info", "missing.urdf"], "no such file"),
    "an ending that is not read": (["info", __file__], ".urdf, .xml, .mjcf or .sdf"),
    "floating base of a bundled robot": (["info", "arm7", "--floating-base"], "pass its URDF file"),
    "mimic of a bundled robot": (["info", "arm7", "--mimic", "free"], "--mimic is for URDF files"),
    "floating base of one that floats": (["simulate", "quadruped", "--floating-base"], "it already floats"),
    "negative step": (["simulate", "pendulum", "--dt", "-0.1"], "'-0.1' is not a positive number"),
    "a step that is not finite": (["simulate", "pendulum", "--dt", "nan"], "not a positive number"),
    "a step that is none": (["simulate", "pendulum", "--dt", "1e-300"], "--dt"),
    "no samples": (["simulate", "pendulum", "--batch", "0"], "not a positive integer"),
    "half a sample": (["simulate", "pendulum", "--batch", "1.5"], "not a positive integer"),
    "a time that is no number": (["simulate", "pendulum", "--seconds", "long"], "not a positive number"),
    "less than one step": (
        ["simulate", "pendulum", "--seconds", "0.01", "--dt", "0.1"],
        "less than one time step",
    ),
    "unknown scheme": (["simulate", "pendulum", "--scheme", "runge-kuta-4"], "did you mean 'runge-kutta-4'"),
    "nothing like a scheme": (["simulate", "pendulum", "--scheme", "xyz"], "'semi-implicit-euler'"),
    "negative seed": (["simulate", "pendulum", "--seed", "-1"], "--seed"),
    "out is a file": (["simulate", "pendulum", "--out", __file__], "cannot write to"),
    "out is below a file": (["simulate", "pendulum", "--out", f"{__file__}/runs"], "cannot write to"),
    "unknown option": (["simulate", "pendulum", "--bach", "3"], "--bach"),
    "unknown command": (["simulat"], "simulat"),
    "no command": ([], "COMMAND"),
    "no robot": (["simulate"], "ROBOT"),
}


@pytest.mark.parametrize("arguments, message", BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("rbd-jax: error: ") and err.count("\n") == 1
    assert message in err and "Traceback" not in err


def test_a_file_is_not_written_over_itself(urdf, capsys):
    assert main(["convert", urdf, urdf]) == 2
    assert "it is the input file; choose another name" in capsys.readouterr().err


def test_what_cannot_move_is_refused_and_drawn(tmp_path, capsys):
    path = tmp_path / "block.urdf"
    path.write_text("<robot name='block'><link name='block'/></robot>")
    assert main(["simulate", str(path), "--out", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "nothing to simulate; with --floating-base" in err and err.count("\n") == 1
    model = rbd.load_urdf(path)
    still = simulate_batch(model, rbd.State(jnp.zeros((2, 0)), jnp.zeros((2, 0))), dt=0.01, steps=2)
    plot_trajectory(model, still, tmp_path / "still.png")
    assert png_size(tmp_path / "still.png")


def test_a_joint_that_mimics_none(tmp_path, capsys):
    """The remedy in the message is an option of the command."""
    path = tmp_path / "broken.urdf"
    path.write_text(URDF.replace('mimic joint="lift"', 'mimic joint="left"'))
    assert main(["info", str(path)]) == 2
    err = capsys.readouterr().err
    assert "did you mean 'lift'" in err and "load it with --mimic free" in err
    assert main(["info", str(path), "--mimic", "free"]) == 0
    assert "nv = 2" in capsys.readouterr().out


def test_a_broken_file_is_refused_in_one_line(tmp_path, capsys):
    path = tmp_path / "broken.urdf"
    path.write_text("<robot name='x'><link")
    assert main(["info", str(path)]) == 2
    err = capsys.readouterr().err
    assert "broken.urdf" in err and err.count("\n") == 1


@pytest.mark.parametrize("command", ["info", "simulate"])
def test_what_floats_in_mjcf_is_up_to_the_file(tmp_path, capsys, command):
    (tmp_path / "four_bar.xml").write_text(FOUR_BAR)
    assert main([command, str(tmp_path / "four_bar.xml"), "--floating-base"]) == 2
    err = capsys.readouterr().err
    assert "--floating-base is for URDF files" in err and "<freejoint/>" in err and err.count("\n") == 1
    assert "floating_base" not in err


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["simulate", "--help"]])
def test_help_and_version(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    assert "rbd-jax" in capsys.readouterr().out


def test_stops_at_the_limits(urdf):
    """Joints with limits get soft limits if the scheme supports them; otherwise the output reports their absence."""
    model = rbd.load_urdf(urdf)
    stopped, said = with_stops(model, rbd.SemiImplicitEuler(), False)
    assert said == "soft limits at 1 joint" and [force.joints for force in stopped.forces] == [("lift",)]
    assert with_stops(model, rbd.SemiImplicitEuler(), True) == (model, "not enforced (--no-limits)")
    same, said = with_stops(model, rbd.RungeKutta4(), False)
    assert same is model and said == "not enforced: soft limits are too stiff for RungeKutta4"
    assert with_stops(arm_without_limits(), rbd.SemiImplicitEuler(), False)[1] is None


def arm_without_limits():
    builder = rbd.ModelBuilder(name="arm")
    rod = rbd.Inertia.box(1.0, (0.1, 0.1, 1.0), (0.0, 0.0, 0.5))
    builder.add_body("upper", joint=rbd.joints.Revolute((0, 1, 0)), inertia=rod)
    builder.add_body("lower", "upper", rbd.joints.Revolute((0, 1, 0)), (0.0, 0.0, 1.0), rod)
    return builder.build()


def test_no_more_than_all_the_energy_is_dissipated():
    """Damped pendulums that come to rest dissipate all their kinetic and potential energy."""
    builder = rbd.ModelBuilder(name="damped")
    rod = rbd.Inertia.box(1.0, (0.1, 0.1, 1.0), (0.0, 0.0, -0.5))
    builder.add_body("rod", joint=rbd.joints.Revolute((0, 1, 0)), inertia=rod, damping=3.0)
    model = builder.build()
    angles, speeds = jnp.array([1.5, 0.0, 2.5, 0.0]), jnp.array([0.0, 3.0, 3.0, 0.0])
    path = simulate_batch(model, rbd.State(angles[:, None], speeds[:, None]), dt=0.01, steps=1000)
    change, risen = energies(model, path)
    np.testing.assert_allclose(change, [-1, -1, -1, 0], atol=1e-3)
    assert (change >= -1).all() and (risen < 1e-3).all()


@pytest.mark.slow
def test_the_energy_of_what_falls_is_that_about_its_centre_of_mass():
    """Halves that turn against each other dissipate all their energy in the damper between them.

    An energy gain is detected even after a deep fall.
    """
    model = falling_arm(damping=5.0)
    q = jnp.tile(rbd.neutral(model), (2, 1)).at[:, 7].set(0.5)
    v = jnp.zeros((2, 7)).at[:, 1].set(-0.5).at[:, 6].set(1.0).at[1, 3:6].set(20.0)
    path = simulate_batch(model, rbd.State(q, v), dt=0.01, steps=400)
    change, risen = energies(model, path)
    np.testing.assert_allclose(change, -1, atol=1e-3)
    assert (change >= -1).all() and (risen < 1e-3).all()
    spoilt = dataclasses.replace(path, v=path.v.at[:, 50:, 6].set(3.0))
    assert (energies(model, spoilt)[1] > GAIN).all()


def falling_arm(damping):
    builder = rbd.ModelBuilder(name="falling")
    rod = rbd.Inertia.box(1.0, (0.1, 0.1, 1.0), (0.0, 0.0, 0.5))
    builder.add_body("upper", joint=rbd.joints.Free(), inertia=rod)
    builder.add_body("lower", "upper", rbd.joints.Revolute((0, 1, 0)), (0.0, 0.0, 1.0), rod, damping=damping)
    return builder.build()


@pytest.mark.parametrize("said", [True, False])
def test_what_falls_freely(said):
    model = falling_arm(damping=5.0)
    if not said:
        model = rbd.add_forces(model, rbd.forces.ViscousDamping("upper", 1.0))
    assert falls_freely(model) == said
    assert not falls_freely(arm_without_limits())


FOUR_BAR = """<mujoco><worldbody>
<body name="crank"><joint name="a" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .3" size=".02"/>
<body name="coupler" pos="0 0 .3"><joint name="b" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .5 0 0" size=".02"/></body>
</body>
<body name="follower" pos=".5 0 0"><joint name="c" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .3" size=".02"/></body>
</worldbody><equality><connect body1="coupler" body2="follower" anchor=".5 0 0"/></equality></mujoco>"""


@pytest.mark.slow
def test_simulate_a_mechanism(tmp_path, capsys):
    """All samples start and stay closed, and energy errors of integration are reported or corrected."""
    (tmp_path / "four_bar.xml").write_text(FOUR_BAR)
    arguments = ["--batch", "16", "--seconds", "0.5", "--out", str(tmp_path)]
    assert main(["simulate", str(tmp_path / "four_bar.xml"), *arguments]) == 0
    out = capsys.readouterr().out
    # The contact model of MJCF files dissipates energy.
    assert re.search(r"completed +16 ", out) and re.search("energy (error|dissipated)", out)
    assert "loops open by" not in out  # the constraints of the file are soft


@pytest.mark.slow
def test_the_report_of_hard_loops():
    model = rbd.load_mjcf(FOUR_BAR, equalities="hard")
    states = random_states(model, 4, jax.random.key(0), spread=0.1, speed=0.5)
    path = simulate_batch(model, states, dt=0.005, steps=20)
    console = Console(width=120, file=io.StringIO())
    console.print(report(model, rbd.SemiImplicitEuler(), 0.005, 20, None, Run(path, 1.0, 1.0, (), False)))
    opening = re.search(r"loops open by +(\S+)( %)?", console.file.getvalue())
    assert 0 < float(opening[1]) < 1e-2 and not opening[2]


@pytest.mark.slow
def test_samples_in_error_are_simulated_in_shorter_steps(tmp_path, capsys):
    """A light, fast double pendulum gains energy with long steps."""
    (tmp_path / "fast.urdf").write_text(FAST)
    arguments = ["--batch", "8", "--seconds", "1", "--dt", "0.02", "--out", str(tmp_path)]
    assert main(["simulate", str(tmp_path / "fast.urdf"), *arguments]) == 0
    out = capsys.readouterr().out
    assert "in shorter steps" in out and re.search(r"completed +8 ", out)


FAST = """<robot name="fast"><link name="base"/>
<link name="a"><inertial><mass value="1"/><origin xyz="0 0 0.1"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3" ixy="0" ixz="0"
iyz="0"/></inertial></link>
<link name="b"><inertial><mass value="1"/><origin xyz="0 0 0.1"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3" ixy="0" ixz="0"
iyz="0"/></inertial></link>
<joint name="j" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/></joint>
<joint name="k" type="continuous"><parent link="a"/><child link="b"/><origin xyz="0 0 0.1"/><axis xyz="0 1 0"/></joint></robot>"""


def test_what_a_killed_process_left_beside_its_results_goes_with_the_next_run(tmp_path):
    """The next run keeps folders of running processes and of other runs."""
    node, ended = platform.node(), 2**22 + 1
    left, others = (
        f".out.{ended}.{node}.part",
        {f".out.{os.getppid()}.{node}.part", f".other.{ended}.{node}.part"},
    )
    for name in (left, *others):
        (tmp_path / name).mkdir()

    def write(folder):
        (folder / "result").write_text("whole")
        return ["result"]

    assert written_together(tmp_path / "out", False, write) == [tmp_path / "out" / "result"]
    assert {path.name for path in tmp_path.iterdir()} == {"out"} | others


@pytest.mark.parametrize("there", [False, True])
def test_a_result_that_a_killed_process_gave_up_comes_back(tmp_path, there):
    """If a process is killed between two renames, the earlier result is restored unless a later one exists."""
    old = tmp_path / f".out.{2**22 + 1}.{platform.node()}.old"
    for folder, content in ((old, "earlier"), *([(tmp_path / "out", "later")] if there else [])):
        folder.mkdir()
        (folder / "result").write_text(content)
    with pytest.raises(Refused, match="exists already"):
        results_folder(tmp_path / "out", "out", ["result"], False)
    assert (tmp_path / "out" / "result").read_text() == ("later" if there else "earlier")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_two_runs_into_one_folder(tmp_path):
    with claimed(tmp_path):
        with pytest.raises(Refused, match="another run is writing"), claimed(tmp_path):
            pass
    with claimed(tmp_path):
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command", [["simulate", "pendulum", "--seconds", "0.01"], ["excite", "pendulum", "--seconds", "1"]]
)
def test_a_folder_in_which_another_run_is_at_work(tmp_path, command, capsys):
    with claimed(tmp_path):
        assert main([*command, "--out", str(tmp_path)]) == 2
    assert "another run is writing" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_of_many_compiled_programs_the_oldest_go(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "LARGEST", 25)
    for age, name in enumerate(("newest", "newer", "older", "oldest")):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    machine._make_room(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["newer", "newest"]


def _in_a_process(tmp_path, **environment):
    """Runs `rbd-jax simulate pendulum` in a separate process with a separate home; returns the process and its cache folder."""
    others = {
        k: x for k, x in os.environ.items() if not k.startswith("JAX_COMPILATION") and k != "XDG_CACHE_HOME"
    }
    command = ["simulate", "pendulum", "--batch", "4", "--seconds", "0.1", "--overwrite", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "rbd_jax", *command, "--out", str(tmp_path / "out")],
        env=others | {"HOME": str(tmp_path)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done, tmp_path / ".cache" / "rbd_jax"


@pytest.mark.slow
def test_what_was_compiled_is_kept(tmp_path):
    """A second run uses the compilation cache, adds nothing to it, and writes the same result."""
    done, kept = _in_a_process(tmp_path)
    names = {path.name for path in kept.rglob("*-cache")}
    result = (tmp_path / "out" / "trajectory.npz").read_bytes()
    assert names and not done.stderr
    done, _ = _in_a_process(tmp_path)
    assert {path.name for path in kept.rglob("*-cache")} == names and not done.stderr
    assert (tmp_path / "out" / "trajectory.npz").read_bytes() == result


@pytest.mark.slow
@pytest.mark.parametrize("how", ["elsewhere", "nowhere", "unwritable"])
def test_where_what_was_compiled_is_not_kept(tmp_path, how):
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "file").touch()
    settings = {
        "elsewhere": {"JAX_COMPILATION_CACHE_DIR": str(elsewhere)},
        "nowhere": {"JAX_ENABLE_COMPILATION_CACHE": "false"},
        "unwritable": {"XDG_CACHE_HOME": str(tmp_path / "file"), "MPLCONFIGDIR": str(tmp_path)},
    }
    done, kept = _in_a_process(tmp_path, **settings[how])
    assert not kept.exists() and not done.stderr
    assert elsewhere.exists() == (how == "elsewhere")


@pytest.mark.parametrize(
    "given, expected",
    [({}, cores()), pytest.param({"JAX_NUM_CPU_DEVICES": "3"}, 3, marks=pytest.mark.slow)],
    ids=["as it is", "told"],
)
def test_the_command_line_works_on_all_cores(given, expected):
    """It uses all cores unless the environment sets the number of devices."""
    program = "import jax; from rbd_jax.cli.machine import use_all_cores; use_all_cores(); print(jax.device_count())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | given, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == expected
