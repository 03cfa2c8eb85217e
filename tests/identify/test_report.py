"""The identification report: its contents, and that the page is complete, safe and self-contained."""

import base64
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax._core import page


pytestmark = pytest.mark.usefixtures("without_kernels")


I = rbd.identify
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
#: Names that are hard to escape.
NASTY = ("<script>alert(1)</script>", 'a"b|c $x_1$ & `d` *e*', "_of [f](http://g.h) é")


@pytest.fixture(scope="module")
def model():
    """An arm of three links with such names."""
    builder = rbd.ModelBuilder(name="<b>arm</b>")
    parent = "world"
    for i, name in enumerate(NASTY):
        body = f"body {name}"
        builder.add_body(
            body, parent, joint=rbd.joints.Revolute((0, 1, 0) if i % 2 else (0, 0, 1)), joint_name=name,
            placement=(0.2, 0.0, -0.4) if i else None,
            inertia=rbd.Inertia.sphere(1.0, 0.1, (0.05, 0.0, -0.4)),
        )  # fmt: skip
        parent = body
    return builder.build()


@pytest.fixture(scope="module")
def log_of(model):
    parameters = np.array(model.inertias.parameters)
    parameters[2] += np.asarray(rbd.Inertia.sphere(0.7, 0.1, (0.0, 0.1, -0.3)).parameters)
    truth = replace(
        model,
        inertias=rbd.Inertia.from_parameters(jax.device_put(parameters)),
        damping=jax.device_put(np.array([0.3, 0.2, 0.1])),
    )
    torques = jax.jit(
        jax.vmap(lambda q, v, a: rbd.inverse_dynamics(truth, q, v, a) - rbd.passive_force(truth, q, v))
    )

    def made(seed, name, noise=0.02):
        random, t = np.random.default_rng(seed), np.arange(800) / 100
        speed = 2 * np.pi * np.array([0.2, 0.5, 0.9])[:, None]
        size, phase = random.uniform(0.2, 0.7, (3, 3)), random.uniform(0, 6, (3, 3))
        angle = t[:, None, None] * speed + phase
        q, v, a = (
            np.sum(x, axis=1)
            for x in (size * np.sin(angle), size * speed * np.cos(angle), -size * speed**2 * np.sin(angle))
        )
        tau = np.asarray(torques(q, v, a)) + noise * random.normal(size=q.shape)
        return I.Log(t, q, v, a, tau, name=name)

    return made


@pytest.fixture(scope="module")
def logs(log_of):
    return log_of(0, "run <i>1</i>"), log_of(1, "run 2")


#: The first link turns about the vertical, so only one of its parameters is observable.
FREE = [I.inertias(*(f"body {NASTY[i]}".replace("[", "[[]") for i in (0, 2))), I.damping()]


@pytest.fixture(scope="module")
def found(model, logs):
    return I.physical_least_squares(model, logs[0], FREE)


@pytest.fixture(scope="module")
def report(model, logs, found):
    validation = I.cross_validation(
        lambda some: I.physical_least_squares(model, some, FREE), logs[0], folds=2
    )
    return I.report(
        found,
        logs[0],
        held_out=logs[1],
        validation=validation,
        warned=["<u>beware</u>"],
        notes=["made by <hand>"],
    )


class Tags(HTMLParser):
    """Collects every tag with its attributes, and all text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def test_names_are_names(report):
    """No name becomes a tag, in the page or in its figures, and all names appear unchanged."""
    tags = Tags(report.html)
    assert not {"script", "b", "i", "u", "hand", "a", "iframe"} & {tag for tag, _ in tags.tags}
    text = " ".join(tags.text)
    for name in (*NASTY, "<b>arm</b>", "run <i>1</i>", "<u>beware</u>", "made by <hand>"):
        assert name in text, name
    assert "<script" not in report.markdown and "<b>" not in report.markdown
    for name in NASTY:
        escaped = page._plain(name)
        assert escaped in report.markdown
    for image in images(report.html):
        kinds = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(image).iter()}
        assert "script" not in kinds and "svg" in kinds and "path" in kinds


def images(html):
    return [base64.b64decode(data) for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)]


def test_nothing_is_asked_of_a_network(report):
    """The page contains all resources it refers to, and its policy forbids loading others."""
    tags = Tags(report.html).tags
    for tag, attributes in tags:
        for name in ("src", "href", "data", "srcset", "action"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes[name])
        assert not any(name.startswith("on") for name in attributes)
    assert any("default-src 'none'" in (attributes.get("content") or "") for _, attributes in tags)
    assert "@import" not in report.html and "url(" not in report.html
    assert len(images(report.html)) == 3 and len(report.html) < 2e6


def test_what_it_says(report, found, logs):
    """The report has every value before and after, with its interval, unobservable parameters, and errors on all logs."""
    text = report.markdown
    assert not report.doubts
    assert text.startswith("# Identification of ")
    assert (
        report.summary in " ".join(Tags(report.html).text)
        and "From 1 run (800 samples in 7.99 s)" in report.summary
    )
    for name, unit in zip(found.parameters.names, found.parameters.units):
        (row,) = [
            line
            for line in text.splitlines()
            if line.startswith(f"| {page._plain(name)} |") and " to " in line
        ]
        assert f"| {unit} |" in row
    for line in found.unobservable:
        assert f"- {page._plain(line)}." in text
    assert f"identify {found.rank} combinations" in text and f"{found.condition_number:.3g}" in text
    for word in (
        "held out",
        "Cross-validation",
        "white",
        "physically consistent",
        "converged",
        "autocorrelation",
    ):
        assert word in text or word in report.html, word
    held = [np.sqrt(np.mean(one.errors**2)) for one in I.predictions(found.model, logs[1], found.compare)]
    for error in held:
        assert f"{error:.3g}" in text


def test_doubts(model, logs, found):
    """Each reason to distrust a result is reported, and only these."""
    said = lambda changed, **more: " ".join(I.report(changed, logs[0], **more).doubts)
    assert said(found) == ""
    assert "did not converge" in said(replace(found, converged=False))
    none = rbd.Inertia.from_parameters(jax.device_put(np.zeros(model.inertias.parameters.shape)))
    nothing = replace(found, model=replace(model, inertias=none))
    assert "explains hardly anything" in said(nothing)
    parameters = np.array(found.model.inertias.parameters)
    parameters[2, 4] = 10.0
    thin = rbd.Inertia.from_parameters(jax.device_put(parameters))
    impossible = replace(found, model=replace(found.model, inertias=thin))
    assert "an inertia that no body has" in said(impossible)
    other = replace(logs[1], tau=-logs[1].tau.values)
    worse = said(found, held_out=other)
    assert "does not hold beyond them" in worse and "the initial model predicts" in worse
    validation = I.CrossValidation(
        ("tau x",), ("N m",), np.ones(1), 3 * np.ones(1), ("a", "b"), np.ones((2, 1)), ()
    )
    assert "on held-out data, tau x is off by 3 N m, 3 times" in said(found, validation=validation)
    unknown = jax.device_put(np.full(found.model.damping.shape, np.nan))
    broken = replace(found, model=replace(found.model, damping=unknown))
    assert "cannot be simulated" in said(broken)
    lost = found.seen._replace(kept=(), grouping=np.zeros((0, found.parameters.size)))
    assert "contain no information" in said(replace(found, seen=lost))


def test_remarks(found, logs, log_of):
    """Remarks report values at bounds and correlated errors."""
    bound = replace(found, at_bounds=(found.parameters.names[-1],))
    assert "ended at a bound" in " ".join(I.report(bound, logs[0]).remarks)
    lasting = np.convolve(np.random.default_rng(0).normal(size=900), np.ones(30))[:800, None]
    slow = replace(logs[0], tau=logs[0].tau.values + 0.1 * lasting)
    (said,) = [line for line in I.report(found, slow).remarks if "white" in line]
    assert "intervals are too narrow" in said and "3 columns" in said


@pytest.mark.slow  # the command's tests have one report per estimator
def test_simulations_have_reports():
    """A report of output errors compares positions."""
    pendulum = rbd.load("pendulum")
    truth = replace(pendulum, damping=jnp.array([0.3]))
    swing = rbd.rollout(truth, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.01, steps=200)
    log = I.Log(np.asarray(swing.t), np.asarray(swing.q), np.asarray(swing.v))
    found = I.solve(I.Problem(pendulum, log, I.damping(), I.OutputError(0.5, "measured", compare=("q",))))
    made = I.report(found, log)
    assert "the positions that the model predicts" in made.summary and not made.doubts, made.doubts
    assert "simulated under the measured controls" in made.markdown
    assert_close(found.value("swing damping"), 0.3, 5e-3)


def test_runs_of_one_name_are_told_apart(found, logs):
    """Runs may also come from a generator."""
    same = [replace(log, name="run") for log in logs]
    page = I.report(found, (log for log in same[:1]), held_out=(log for log in same[1:])).markdown
    assert "| run (1) | used |" in page and "| run (2) | held out |" in page


def test_it_is_saved(report, tmp_path):
    report.save(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "report.html").read_text(encoding="utf-8") == report.html
    assert (tmp_path / "a" / "b" / "report.md").read_text(encoding="utf-8") == report.markdown
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["report.html", "report.md"]


def test_markdown_shows_text_as_it_is():
    assert page._plain("<b> a_b _c_ *d* `e` |f| [g](h) ~i~") == (
        "&lt;b&gt; a_b \\_c\\_ \\*d\\* \\`e\\` \\|f\\| [g]\\(h) \\~i\\~"
    )
    for text, shown in (
        ("1. x", "1\\. x"),
        ("3.5 kg", "3.5 kg"),
        ("- a", "\\- a"),
        ("# h", "\\# h"),
        ("a - b", "a - b"),
    ):
        assert page._markdown(page.Text(text)) == shown


def test_estimates_are_saved(found, tmp_path):
    """The file has all statistics of the values; infinite errors are null."""
    import json

    found = replace(
        found, standard_errors=np.where(np.arange(found.parameters.size) == 0, np.inf, found.standard_errors)
    )
    for name in ("estimate.json", "estimate.npz"):
        found.save(tmp_path / name)
    read = json.loads((tmp_path / "estimate.json").read_text(encoding="utf-8"))
    assert list(read["parameters"]) == list(found.parameters.names)
    first, second = (read["parameters"][name] for name in found.parameters.names[:2])
    assert first["standard_error"] is None and first["interval"] == [None, None]
    assert second["value"] == found.values[1] and second["interval"] == list(found.intervals()[1])
    assert (
        read["unobservable"] == list(found.unobservable)
        and read["rank"] == found.rank
        and read["converged"] is True
    )
    with np.load(tmp_path / "estimate.npz", allow_pickle=False) as data:
        assert_close(data["covariance"], found.covariance, 0)
        assert tuple(data["names"]) == found.parameters.names and data["standard_errors"][0] == np.inf
    with pytest.raises(ValueError, match="neither .json nor .npz"):
        found.save(tmp_path / "estimate.txt")


def test_condition_number(found):
    """The number is one for independent errors, large for correlated errors, and does not depend on units."""
    n = found.parameters.size
    seen = found.seen._replace(directions=np.zeros((0, n)), kept=tuple(range(n)), grouping=np.eye(n))
    alone = replace(found, covariance=np.diag(np.arange(1.0, n + 1)), seen=seen)
    assert_close(alone.condition_number, 1.0, 1e-9)
    together = np.eye(n)
    together[0, 1] = together[1, 0] = 0.999
    units = np.diag(np.geomspace(1e-3, 1e3, n))
    assert_close(
        replace(found, covariance=units @ together @ units, seen=seen).condition_number,
        np.sqrt(1.999 / 0.001),
        1e-6,
    )


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_shows_it(report, tmp_path):
    """No script runs, no name becomes an element, and the figures are drawn."""
    from matplotlib.image import imread

    file, picture = tmp_path / "report.html", tmp_path / "page.png"
    report.save(tmp_path)
    browse = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={tmp_path}/profile",
        "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1100,5000",
    ]  # fmt: skip
    subprocess.run(
        [*browse, f"--screenshot={picture}", file.as_uri()], check=True, capture_output=True, timeout=120
    )
    colours = (imread(picture)[..., :3] * 255).round().astype(int)
    for red, green, blue in ((0x3B, 0x6F, 0xB6), (0xC8, 0x55, 0x3D)):  # colors of the curves
        near = np.abs(colours - [red, green, blue]).max(axis=-1) < 30
        assert near.sum() > 500
    shown = subprocess.run(
        [*browse, "--dump-dom", file.as_uri()], check=True, capture_output=True, timeout=120
    )
    tags = Tags(shown.stdout.decode())
    assert "script" not in {tag for tag, _ in tags.tags} and NASTY[0] in " ".join(tags.text)
