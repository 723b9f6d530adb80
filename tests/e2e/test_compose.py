# SPDX-License-Identifier: Apache-2.0
"""The Compose deployment on a real engine: every Dagster run in a container of its own, its trials beside it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from metric_benchmark.pins import sign_experiment

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

DEPLOY = Path(__file__).parents[2] / "deploy"
BASE_IMAGE = "python:3.13-slim"
#: Two people's tests may use one engine at the same time; their images are the same.
IMAGES = "metric-benchmark-test"
PROJECT = f"{IMAGES}-{os.getpid()}"
#: Only `secrets.env` has it, and the agents of the experiment ask for it.
SECRET = "sk-compose-0123456789abcdef"


class Deployment:
    """The deployment of one experiment, under a project name of the tests' own."""

    def __init__(self, folder: Path, experiment: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.evidence = folder / "evidence"
        secrets = folder.parent / "secrets.env"
        secrets.write_text(f"COMPOSE_TEST_KEY={SECRET}\n")
        self._env = folder.parent / "deploy.env"
        self._env.write_text(
            f"POSTGRES_PASSWORD=only-for-this-test\nDATA_DIR={folder}\nEXPERIMENT={experiment}\n"
            f"EVIDENCE={self.evidence}\nSECRETS_FILE={secrets}\nWEB_PORT={self.port}\nBASE_IMAGE={BASE_IMAGE}\n"
            f"BUILD_NETWORK=host\nIMAGE={IMAGES}:local\nPOSTGRES_IMAGE={IMAGES}-postgres:local\n"
            f"DOCKER_SOCKET={_socket_of_the_engine()}\nHEALTH_INTERVAL=8s\n"
        )

    def compose(self, *arguments: str, check: bool = True) -> str:
        """Runs `docker compose` on the deployment and returns what it printed."""
        command = ["docker", "compose", "--file", str(DEPLOY / "compose.yaml"), "--env-file", str(self._env)]
        command += ["--project-name", PROJECT, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0 or not check, f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}"
        return done.stdout


def _socket_of_the_engine() -> str:
    shown = subprocess.run(
        ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"], capture_output=True, text=True
    )
    return shown.stdout.strip().removeprefix("unix://")


def containers(label: str) -> list[str]:
    shown = subprocess.run(
        ["docker", "ps", "--all", "--quiet", "--filter", f"label={label}"], capture_output=True, text=True, check=True
    )
    return shown.stdout.split()


@pytest.fixture(scope="module")
def deployment(small: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The deployment, up and healthy, of an experiment of two variants; the baseline takes a while."""
    found = subprocess.run(["docker", "image", "inspect", BASE_IMAGE], capture_output=True)
    if found.returncode != 0:
        reason = f"the engine has no image {BASE_IMAGE}, which the deployment is built on"
        (pytest.fail if "docker" in os.environ.get("METRIC_BENCHMARK_REQUIRE", "").split() else pytest.skip)(reason)
    folder = tmp_path_factory.mktemp("compose") / "data"
    experiment = small.build_experiment(folder / "experiment", cases={"tiny": {"lazy": "nop"}}, sleep_s=15, sign=False)
    for path, old, new in (
        ("execution.yaml", "screening: {attempts: 1}, control: {count: 1, attempts: 1}, ", ""),
        ("execution.yaml", "environment: auto", "environment: docker"),
        ("tiny/case.yaml", "{name: oracle}", '{name: oracle, env: {MODEL_KEY: "${COMPOSE_TEST_KEY}"}}'),
        # Harbor's Docker environment refuses tasks that must have no network.
        ("tiny/tasks/greet/task.toml", 'network_mode = "no-network"\n', ""),
        ("tiny/tasks/count/task.toml", 'network_mode = "no-network"\n', ""),
    ):
        file = experiment.parent / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
    sign_experiment(experiment)
    deployment = Deployment(folder, experiment)
    try:
        deployment.compose("build")
        deployment.compose("up", "--detach", "--wait", "--wait-timeout", "450")
        yield deployment
    finally:
        deployment.compose("stop", "--timeout", "20", "daemon", check=False)
        left = containers(f"metric-benchmark.run-of={PROJECT}")
        subprocess.run(["docker", "rm", "--force", "--volumes", *left], capture_output=True)
        deployment.compose("down", "--volumes", "--remove-orphans", "--timeout", "20", check=False)


@pytest.fixture(scope="module")
def web(deployment: Deployment, hosts: ModuleType) -> Any:
    """The web server, asked through the published port; only what the tests launch runs."""
    web = hosts.Web(f"http://127.0.0.1:{deployment.port}")
    web.switch_sensor("analysis_follows", on=False)
    return web


def test_terminating_a_run_ends_its_container_and_those_of_its_trials(
    deployment: Deployment, web: Any, hosts: ModuleType
) -> None:
    trials = f"metric-benchmark.evidence={deployment.evidence}"
    run = web.launch("raw_results", "tiny|baseline")
    hosts.wait_for(lambda: containers(trials), 150, "a container of a trial", 0.5)
    assert len(containers(f"dagster/run_id={run}")) == 1
    web.terminate(run)
    assert web.follow_run(run, 150) == "CANCELED", web.run_log(run)
    hosts.wait_for(lambda: not containers(f"dagster/run_id={run}"), 30, "the end of the run's container", 0.5)
    hosts.wait_for(lambda: not containers(trials), 60, "the end of the trials' containers", 0.5)


def test_runs_in_containers_end_with_evidence_that_validates(deployment: Deployment, web: Any) -> None:
    """Also that of the run before, which is run again."""
    runs = [web.launch("raw_results", key) for key in ("tiny|baseline", "tiny|lazy")]
    for run in runs:
        assert web.follow_run(run, 300) == "SUCCESS", web.run_log(run)
        assert "Launching run in a new container" in web.run_log(run)
    sealing = web.launch("execution_manifest", None)
    assert web.follow_run(sealing) == "SUCCESS", web.run_log(sealing)

    index = json.loads((deployment.evidence / "execution" / "tiny" / "results.json").read_text())
    rewards: dict[str, dict[str, float]] = {}
    for variant, entry in index["variants"].items():
        record = json.loads((deployment.evidence / entry["raw_results"]).read_text())
        assert record["environment"]["type"] == "docker"
        rewards[variant] = {trial["task"]: trial["reward"] for trial in record["trials"]}
    assert rewards == {"baseline": {"count": 1.0, "greet": 1.0}, "lazy": {"count": 0.0, "greet": 0.0}}

    # The newest Python we promise made them.
    assert deployment.compose("exec", "-T", "code-server", "python", "--version").startswith("Python 3.13.")
    said = deployment.compose(
        *("exec", "-T", "code-server", "metric-benchmark", "validate-results"),
        *(str(deployment.evidence.parent / "experiment"), "--results", str(deployment.evidence)),
    )
    assert "valid: the native evidence is what the records say" in said
    for file in deployment.evidence.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
