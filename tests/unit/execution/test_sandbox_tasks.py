# SPDX-License-Identifier: Apache-2.0
"""Which tasks the sandbox takes, and in which words it refuses the others."""

from __future__ import annotations

import pytest
from harbor.environments.snowflake.dockerfile_replay import ReplayPlan

from metric_benchmark.execution.sandbox import check_task, tasks
from metric_benchmark.execution.sandbox.options import SandboxOptions
from metric_benchmark.execution.sandbox.tasks import is_root, plan_environment

UNMAPPED = (
    "base image 'python:3.12' is not mapped to a local root file system: add it to base_images as 'host' or the path "
    "of an unpacked root file system, or use the docker environment"
)


@pytest.fixture
def task(tmp_path):
    folder = tmp_path / "task"
    for part in ("environment", "tests", "solution"):
        (folder / part).mkdir(parents=True)
    (folder / "task.toml").write_text('version = "1.0"\n')
    (folder / "instruction.md").write_text("Do it.\n")
    (folder / "tests" / "test.sh").write_text("true\n")
    (folder / "environment" / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\nRUN echo a > b\n")
    return folder


def dockerfile(task, text):
    (task / "environment" / "Dockerfile").write_text(text)


def toml(task, text):
    (task / "task.toml").write_text(f'version = "1.0"\n{text}\n')


def test_a_simple_task_is_taken(task):
    assert check_task(task) == []
    assert check_task(str(task), {"max_processes": 400}) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("FROM python:3.12\n", UNMAPPED),
        ("FROM debian:bookworm-slim AS a\nFROM debian:bookworm-slim\nCOPY --from=a /x /x\n", "Only single-stage"),
        ("FROM debian:bookworm-slim\nRUN <<EOF\necho a\nEOF\n", "the Dockerfile has a heredoc: write it as a file"),
        ("FROM debian:bookworm-slim\nCOPY <<'END' /x\na\nEND\n", "the Dockerfile has a heredoc: write it as a file"),
        ("FROM debian:bookworm-slim\nADD https://example.org/a /a\n", "ADD from a URL is not supported"),
        ('FROM debian:bookworm-slim\nENTRYPOINT ["/x"]\n', "ENTRYPOINT is not supported"),
        ('FROM debian:bookworm-slim\nSHELL ["/bin/zsh"]\n', "SHELL is not supported"),
        (
            "FROM debian:bookworm-slim\nRUN apt-get -qq update && apt-get install jq\n",
            "RUN apt-get -qq update && apt-get install jq installs packages, and the base 'host' has no package index",
        ),
    ],
)
def test_dockerfiles_it_refuses(task, text, reason):
    dockerfile(task, text)
    (problem,) = check_task(task)
    assert problem.startswith(reason)


def test_a_here_string_is_no_heredoc(task):
    dockerfile(task, "FROM debian:bookworm-slim\nRUN bash -c 'cat <<< word'\n")
    assert check_task(task) == []


@pytest.mark.parametrize("name", ["docker-compose.yaml", "docker-compose.yml", "compose.yaml"])
def test_compose_files_are_refused(task, name):
    (task / "environment" / name).write_text("services: {}\n")
    assert check_task(task) == [f"{name}: services next to the task's own container are not supported"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[environment]\ngpus = 2", "the task needs 2 GPU(s); the sandbox has none to give"),
        ("[environment]\ndocker_image = 'python:3.12'", UNMAPPED),
        (
            "[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['example.org']",
            "network_mode 'allowlist' is not supported: the sandbox has the host's network or none",
        ),
        (
            "[environment]\nnetwork_mode = 'public'\n[agent]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['a.org']",
            "network_mode 'allowlist' is not supported: the sandbox has the host's network or none",
        ),
    ],
)
def test_settings_it_refuses(task, text, reason):
    toml(task, text)
    assert check_task(task) == [reason]


def test_all_reasons_come_at_once(task):
    toml(task, "[environment]\ngpus = 1")
    dockerfile(task, "FROM python:3.12\nENTRYPOINT /x\n")
    assert [problem[:20] for problem in check_task(task)] == [
        "the task needs 1 GPU",
        UNMAPPED[:20],
        "ENTRYPOINT is not su",
    ]


def test_a_dockerignore_is_refused_where_it_would_matter(task):
    (task / "environment" / ".dockerignore").write_text("*\n")
    assert check_task(task) == []
    dockerfile(task, "FROM debian:bookworm-slim\nCOPY a /a\n")
    assert check_task(task) == [".dockerignore is not supported: COPY would take what it excludes"]


def test_other_users_are_refused_where_only_root_exists(task, monkeypatch):
    toml(task, "[agent]\nuser = 'agent'\n[verifier]\nuser = 0")
    dockerfile(task, "FROM debian:bookworm-slim\nCOPY --chown=web:web a /a\nUSER root\n")
    monkeypatch.setattr(tasks, "only_root", lambda: False)
    assert check_task(task) == []
    monkeypatch.setattr(tasks, "only_root", lambda: True)
    tail = "is needed, but the sandbox of an ordinary user knows only root: run as root, or use the docker environment"
    assert check_task(task) == [f"user 'agent' {tail}", f"user 'web:web' {tail}"]


def test_the_verifiers_own_environment_is_checked_too(task):
    toml(task, "[verifier]\nenvironment_mode = 'separate'\n[verifier.environment]\ndocker_image = 'python:3.12'")
    assert check_task(task) == [f"verifier environment: {UNMAPPED}"]


def test_what_is_no_task_is_said(tmp_path):
    (problem,) = check_task(tmp_path)
    assert problem.startswith("Harbor cannot read the task: ")


def test_images_are_mapped_by_name_then_by_the_rest(task, tmp_path):
    options = SandboxOptions(base_images={"mine:1": "host", "*": str(tmp_path)})
    assert options.base_for("mine:1") == "host"
    assert options.base_for("other") == str(tmp_path)
    assert SandboxOptions().base_for("docker.io/library/debian:bookworm-slim") == "host"
    assert SandboxOptions().base_for("debian:bookworm") == "refuse"
    dockerfile(task, "FROM other\n")
    assert check_task(task, {"base_images": {"*": "not/absolute"}}) == [
        "base image 'other' is mapped to 'not/absolute', which is not the absolute path of a folder"
    ]


def test_a_prebuilt_image_comes_before_the_dockerfile_as_with_docker(task):
    folder = task / "environment"
    assert plan_environment(folder, "ready:1") == ReplayPlan(base_image="ready:1")
    assert plan_environment(folder, "ready:1", force_build=True).base_image == "debian:bookworm-slim"
    (folder / "Dockerfile").unlink()
    assert plan_environment(folder, "ready:1", force_build=True).base_image == "ready:1"
    with pytest.raises(FileNotFoundError, match="has no Dockerfile and the task names no docker_image"):
        plan_environment(folder, None)


@pytest.mark.parametrize(
    ("user", "expected"), [(None, True), ("root", True), (0, True), ("0:0", True), ("agent", False), (1000, False)]
)
def test_who_is_root(user, expected):
    assert is_root(user) is expected
