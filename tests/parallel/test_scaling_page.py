"""The programs of docs/how_to/scaling.md run as documented: alone, by hand, and by simulated launchers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_processes import environment, free_port


ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how_to" / "scaling.md").read_text(encoding="utf-8")

#: Starts one process per task, with the variables that Slurm sets for each.
SRUN = """#!{python}
import os, subprocess, sys
known = {{"SLURM_JOB_ID": "{job}", "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}}
tasks = [
    subprocess.Popen(sys.argv[1:], env=os.environ | known | {{"SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)}})
    for i in range(2)
]
sys.exit(max(task.wait() for task in tasks))
"""


def block(language, having):
    """Returns the only code block of the page that matches a pattern."""
    (found,) = (
        text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if re.search(having, text)
    )
    return found


@pytest.fixture
def folder(tmp_path):
    """A folder with swing.py, and with substitutes for `python` and `srun`."""
    (tmp_path / "swing.py").write_text(block("python", "# swing.py"))
    programs = {
        "python": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n',
        "srun": SRUN.format(python=sys.executable, job=free_port()),
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def printed(folder, script, **more):
    around = environment() | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"} | more
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=around, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if "devices, " in line)
    devices, numbers = line.split(" devices, ")
    return int(devices), numbers


@pytest.mark.slow
def test_the_program_however_it_is_launched(folder):
    alone = printed(folder, "python swing.py alone")
    assert alone[0] == 1 and alone[1].startswith("64 costs, mean ")
    by_hand = block("bash", "swing.py localhost").replace("12355", str(free_port()))
    assert printed(folder, by_hand) == (2, alone[1])
    assert printed(folder, block("bash", "#SBATCH"), SLURM_CPUS_PER_TASK="1") == (2, alone[1])


def manifest():
    yaml = pytest.importorskip("yaml")
    return {one["kind"]: one for one in yaml.safe_load_all(block("yaml", "kind: Job"))}


#: The cluster of the manifest as the package `kubernetes` reports it, seen from the pod of index 1.
CLUSTER = """
import json, os, socket, sys, types
from types import SimpleNamespace as Of

job, port = json.loads(sys.argv[1]), sys.argv[2]
name, pod = job["metadata"]["name"], job["spec"]["template"]["spec"]
here = Of(
    metadata=Of(name=name, labels={"job-name": name}, owner_references=[Of(controller=True, kind="Job")]),
    spec=Of(subdomain=pod["subdomain"]),
)
whole = Of(metadata=Of(name=name, labels={}), spec=Of(parallelism=job["spec"]["parallelism"]))
core = Of(list_namespaced_pod=lambda **_: Of(items=[here]))
batch = Of(read_namespaced_job=lambda **_: whole)
fake = types.ModuleType("kubernetes")
fake.config = Of(load_incluster_config=lambda: None)
fake.client = Of(CoreV1Api=lambda: core, BatchV1Api=lambda: batch, exceptions=Of(ApiException=KeyError))
sys.modules["kubernetes"] = fake
os.environ |= {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "here", "JAX_COORDINATOR_PORT": port}
if job["spec"]["completionMode"] == "Indexed":
    os.environ["JOB_COMPLETION_INDEX"] = "1"
socket.gethostbyname = lambda host: "127.0.0.1"

import rbd_jax as rbd
from jax._src.clusters import K8sCluster

K8sCluster._namespace = classmethod(lambda cls: "default")
try:
    rbd.parallel.start(initialization_timeout=1)
except ConnectionError as error:
    print(error)
"""


@pytest.mark.slow
def test_jax_finds_the_processes_of_the_manifest():
    """The manifest sets everything that JAX reads from the cluster."""
    command = [sys.executable, "-c", CLUSTER, json.dumps(manifest()["Job"]), "1234"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "process 1 of 2 does not reach process 0 at swing-0.swing-pods:1234" in done.stdout


def test_the_manifest_fits_together():
    """Names refer to each other, there are as many completions as processes, and JAX has the required permissions."""
    found = manifest()
    service, job, role, binding = (found[kind] for kind in ("Service", "Job", "Role", "RoleBinding"))
    pod, account = job["spec"]["template"]["spec"], found["ServiceAccount"]["metadata"]["name"]
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert job["spec"]["completions"] == job["spec"]["parallelism"] > 1
    assert pod["serviceAccountName"] == account == binding["subjects"][0]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    allowed = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert allowed >= {"pods", "jobs", "services"}
