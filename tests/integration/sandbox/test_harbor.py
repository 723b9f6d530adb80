# SPDX-License-Identifier: Apache-2.0
"""Real Harbor jobs in the sandbox: honest, failing, refused and hostile."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from metric_benchmark.execution.sandbox import check_sandbox, clean_leftovers

pytestmark = pytest.mark.harbor

_TOML = """version = "1.0"
[agent]
timeout_sec = 30.0
{agent}
[verifier]
timeout_sec = 30.0
[environment]
network_mode = "no-network"
storage_mb = 32
{environment}
"""
_DOCKERFILE = """FROM debian:bookworm-slim
ENV GREETING="hello you"
WORKDIR /app
COPY data.txt /app/
RUN mkdir sub && echo "$GREETING" > sub/greeting
"""
_SOLVE = "#!/bin/bash\ncat sub/greeting data.txt > answer.txt\n"
_TEST = """#!/bin/bash
[ "$(cat answer.txt)" = "hello you
42" ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""

_RUN = """
import asyncio, json, sys
from harbor.job import Job
from harbor.models.job.config import JobConfig

async def main():
    job = await Job.create(JobConfig.model_validate(json.loads(sys.argv[1])))
    await job.run()

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def _needs_a_sandbox():
    if reasons := check_sandbox():
        pytest.skip("; ".join(reasons))


@pytest.fixture
def folder():
    """A folder every user may use: an ordinary user's job runs in it too."""
    made = Path(tempfile.mkdtemp(prefix="mb-sandbox-test-"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


def make_task(
    folder: Path, name: str = "task", *, dockerfile=_DOCKERFILE, solve=_SOLVE, test=_TEST, agent="", environment=""
) -> Path:
    task = folder / name
    for part in ("environment", "tests", "solution"):
        (task / part).mkdir(parents=True)
    (task / "task.toml").write_text(_TOML.format(agent=agent, environment=environment))
    (task / "instruction.md").write_text("Put the greeting and the data into /app/answer.txt.\n")
    (task / "environment" / "Dockerfile").write_text(dockerfile)
    (task / "environment" / "data.txt").write_text("42\n")
    (task / "solution" / "solve.sh").write_text(solve)
    (task / "tests" / "test.sh").write_text(test)
    return task


def run_job(folder: Path, *tasks: Path, agent: str = "oracle", prefix=(), **options) -> dict[str, dict]:
    """Run one job in a process of its own; the results by task name, each with its ``folder``."""
    config = {
        "jobs_dir": str(folder / "jobs"),
        "job_name": f"{agent}-{len(list(folder.glob('jobs/*')))}",
        "quiet": True,
        "n_concurrent_trials": 4,
        "tasks": [{"path": str(task)} for task in tasks],
        "agents": [{"name": agent}],
        "environment": {
            "import_path": "metric_benchmark.execution.sandbox:LocalSandboxEnvironment",
            "kwargs": options.pop("kwargs", {}),
            **options,
        },
    }
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HARBOR_TELEMETRY": "0", "HOME": str(folder)}
    done = subprocess.run(
        [*prefix, sys.executable, "-B", "-c", _RUN, json.dumps(config)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results: dict[str, dict] = {}
    for path in (folder / "jobs" / config["job_name"]).glob("*/result.json"):
        results[Path(json.loads(path.read_text())["config"]["task"]["path"]).name] = {
            **json.loads(path.read_text()),
            "folder": path.parent,
        }
    return results


def reward(result: dict) -> float:
    assert result["exception_info"] is None, result["exception_info"]
    return result["verifier_result"]["rewards"]["reward"]


def test_oracle_passes_and_nop_fails(folder):
    task = make_task(folder)
    assert reward(run_job(folder, task)["task"]) == 1.0
    assert reward(run_job(folder, task, agent="nop")["task"]) == 0.0
    assert clean_leftovers() == []


def test_oracle_passes_for_an_ordinary_user(folder, prefix):
    task = make_task(folder)
    result = run_job(folder, task, prefix=prefix)["task"]
    assert reward(result) == 1.0
    assert (result["folder"] / "verifier" / "reward.txt").stat().st_uid != 0


def test_users_steps_and_logs(folder):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    dockerfile = _DOCKERFILE + "RUN useradd -m agent && chown -R agent /app\nCOPY --chown=agent data.txt /app/own.txt\n"
    solve = (
        "#!/bin/bash\n[ $(id -un) = agent ] && [ $(stat -c %U own.txt) = agent ] && touch /logs/agent/mine\n" + _SOLVE
    )
    task = make_task(folder, dockerfile=dockerfile, solve=solve, agent='user = "agent"')
    result = run_job(folder, task)["task"]
    assert reward(result) == 1.0
    mine = result["folder"] / "agent" / "mine"
    assert mine.stat().st_uid == 0, "what a trial wrote belongs to who ran it, not to a number of the sandbox"


def test_refusals_are_trials_with_the_reason_and_do_not_touch_their_siblings(folder):
    good = make_task(folder, "good")
    compose = make_task(folder, "compose")
    (compose / "environment" / "docker-compose.yaml").write_text("services: {}\n")
    unmapped = make_task(folder, "unmapped", dockerfile="FROM python:3.12\n")
    gpu = make_task(folder, "gpu", environment="gpus = 1")
    failing = make_task(folder, "failing", dockerfile="FROM debian:bookworm-slim\nRUN echo so; exit 3\n")
    results = run_job(folder, good, compose, unmapped, gpu, failing)
    assert reward(results.pop("good")) == 1.0
    messages = {name: result["exception_info"]["exception_message"] for name, result in results.items()}
    assert {result["exception_info"]["exception_type"] for result in results.values()} == {"SandboxBuildFailedError"}
    assert messages == {
        "compose": "the local sandbox cannot run this task: docker-compose.yaml: services next to the task's own "
        "container are not supported",
        "unmapped": "the local sandbox cannot run this task: base image 'python:3.12' is not mapped to a local root "
        "file system: add it to base_images as 'host' or the path of an unpacked root file system, or use the docker "
        "environment",
        "gpu": "the local sandbox cannot run this task: the task needs 1 GPU(s); the sandbox has none to give",
        "failing": "RUN echo so; exit 3 ended with status 3:\nso\n",
    }


def test_an_unpacked_root_file_system_can_be_a_base(folder):
    root = folder / "rootfs"
    for name in ("usr", "etc", "proc"):
        (root / name).mkdir(parents=True)
    (root / "etc" / "marker").write_text("unpacked\n")
    for name in ("bin", "lib", "lib64"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for name in ("bash", "cat", "mkdir", "chmod", "rm", "sh", "test", "touch"):
        _install(root, shutil.which(name))
    dockerfile = "FROM mine:1\nWORKDIR /app\nRUN cat /etc/marker > /app/answer.txt\n"
    test = '#!/bin/bash\n[ "$(cat /app/answer.txt)" = unpacked ] && [ ! -e /usr/bin/perl ] && echo 1 > $REWARD\n'
    task = make_task(folder, dockerfile=dockerfile, test=test.replace("$REWARD", "/logs/verifier/reward.txt"))
    result = run_job(folder, task, agent="nop", kwargs={"base_images": {"mine:1": str(root)}})["task"]
    assert reward(result) == 1.0
    assert not (root / "app").exists()
    assert (root / "etc" / "marker").read_text() == "unpacked\n"


def _install(root: Path, program: str | None) -> None:
    assert program is not None
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split()
    for path in [program, *(word for word in libraries if word.startswith("/"))]:
        real = Path(path).parent.resolve() / Path(path).name
        (root / real.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(real, root / real.relative_to("/"))


_HOSTILE = r"""#!/bin/bash
log=/logs/agent/attempts
try() {
  if ( timeout 5 bash -c "$2" ) >/dev/null 2>&1; then echo "$1 succeeded"; else echo "$1 failed"; fi >> "$log"
}
try write_host_file 'echo x > @FOLDER@/planted'
echo x > /etc/mb-planted
try write_trial_parent 'echo x > /logs/../../planted && [ -e @FOLDER@/planted ]'
try read_host_file 'grep -q s3cret @FOLDER@/secret'
try sysctl 'echo x > /proc/sys/kernel/hostname'
try cgroup 'mount -t cgroup2 none /mnt || mkdir /sys/fs/cgroup/mine'
try remount 'mount -o remount,rw /proc/sys'
try new_user_namespace 'unshare -Ur mount -t tmpfs none /mnt'
try see_owner 'cat /proc/[0-9]*/cmdline | tr "\0" " " | grep -q "asyncio[.]run"'
try trace_pid_1 'cat /proc/1/environ'
try leave_by_pid_1 'ls /proc/1/root/'
try network 'exec 3<>/dev/tcp/127.0.0.1/@PORT@'
try network_outside 'exec 3<>/dev/tcp/1.1.1.1/80'
try fill_disk 'dd if=/dev/zero of=/app/fill bs=1M count=40'
rm -f /app/fill
ln -s @FOLDER@/secret /logs/agent/stolen
ln -s /etc/shadow /logs/artifacts/shadow
setsid sleep 7301 >/dev/null 2>&1 &
perl -e 'use POSIX; fork && exit; setsid; fork && exit; $SIG{TERM} = q(IGNORE); exec qw(sleep 7302)' >/dev/null 2>&1
( b() { b | b & }; b ) >/dev/null 2>&1
for i in {1..50000}; do :; done
kill -9 -1
"""


@pytest.mark.parametrize("kind", ["own", "ordinary"])
def test_a_hostile_task_gets_nowhere(folder, left_over, prefix, kind):
    if kind == "ordinary" and not prefix:
        pytest.skip("the suite runs as an ordinary user already")
    (folder / "secret").write_text("s3cret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        solve = _HOSTILE.replace("@FOLDER@", str(folder)).replace("@PORT@", str(server.getsockname()[1]))
        result = run_job(folder, make_task(folder, solve=solve), prefix=prefix if kind == "ordinary" else ())["task"]
    attempts = (result["folder"] / "agent" / "attempts").read_text().splitlines()
    assert len(attempts) == 13
    assert [line for line in attempts if not line.endswith(" failed")] == []
    assert reward(result) == 0.0
    assert not (folder / "planted").exists()
    assert not Path("/etc/mb-planted").exists()
    assert not list(result["folder"].rglob("stolen"))
    assert not list(result["folder"].rglob("shadow"))
    assert "left out of the download of /logs/agent: /logs/agent/stolen" in (result["folder"] / "trial.log").read_text()
    assert left_over("sleep\x00730", 0) == []
    assert sum(path.lstat().st_size for path in result["folder"].rglob("*")) < 1_000_000


def test_resource_limits_it_cannot_enforce_are_refused(folder):
    from harbor.job import Job
    from harbor.models.job.config import JobConfig

    config = {
        "jobs_dir": str(folder / "jobs"),
        "tasks": [{"path": str(make_task(folder, environment="memory_mb = 64"))}],
        "agents": [{"name": "nop"}],
        "environment": {
            "import_path": "metric_benchmark.execution.sandbox:LocalSandboxEnvironment",
            "memory_enforcement_policy": "limit",
        },
    }
    with pytest.raises(ValueError, match="does not support memory resource limits"):
        asyncio.run(Job.create(JobConfig.model_validate(config)))
