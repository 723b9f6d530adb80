# SPDX-License-Identifier: Apache-2.0
"""`command`: a metric that is any program. A JSON request on stdin, a JSON answer on stdout."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from metric_benchmark.coverage.answer_json import answer_from_json
from metric_benchmark.coverage.launch import launch, minimal_environment
from metric_benchmark.coverage.protocol import Answer, LaunchContext, MetricRequest, Settings
from metric_benchmark.coverage.user_metric import ended_badly
from metric_benchmark.coverage.workspace import fill_workspace, is_safe_name
from metric_benchmark.errors import MetricError, Problem

PYTHON = "{python}"


class CommandSettings(Settings):
    """Settings of `command`.

    Args:
        argv: program and arguments; `{python}` stands for the interpreter this runs in. The program starts in a
            folder that holds its inputs only.
        files: files and folders beside the experiment that are copied there, under the same relative paths.
        settings: handed to the program.
        timeout_s: seconds it may take.
        max_answer_bytes: size its answer may have.
        env: names of environment variables it is given besides PATH, LANG and the like.
        network: whether it may use the network. Only where namespaces work can it be kept from it.
    """

    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    files: tuple[str, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    max_answer_bytes: Annotated[int, Field(ge=1, le=1 << 30)] = 16 * 1024 * 1024
    env: tuple[str, ...] = ()
    network: bool = False

    @field_validator("files")
    @classmethod
    def _stay_inside(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        for name in files:
            if not is_safe_name(name):
                raise ValueError(f"{name!r} cannot be copied; expected a relative path below the experiment")
        return files


class Command:
    """Asks a program."""

    Settings = CommandSettings
    is_external = True

    @classmethod
    def find_files(cls, settings: CommandSettings, locate: Callable[[str], Path]) -> Mapping[str, Path]:
        """Finds the files to bring along."""
        return {name: locate(name) for name in settings.files}

    def measure(self, request: MetricRequest) -> Answer:
        """Runs the program on a copy of its inputs.

        Raises:
            MetricError: it cannot be started, failed, hung, or answered something else than an answer.
        """
        settings: CommandSettings = request.settings
        context = request.launch or LaunchContext(name="command")
        place = f"metric {context.name}"
        argv = [sys.executable if part == PYTHON else part for part in settings.argv]
        with tempfile.TemporaryDirectory(prefix="mb-metric-") as name:
            folder = Path(name)
            value = fill_workspace(folder, request, settings.settings)
            try:
                finished = launch(
                    argv,
                    cwd=folder,
                    stdin=json.dumps(value, sort_keys=True).encode(),
                    environment=minimal_environment(folder, settings.env),
                    timeout_s=settings.timeout_s,
                    max_stdout_bytes=settings.max_answer_bytes,
                    hide=context.hide,
                    network=settings.network,
                )
            except OSError as error:
                raise MetricError(
                    Problem(
                        place,
                        f"{argv[0]!r} cannot be started: {error.strerror}; a file beside the experiment "
                        "must be listed under `files`",
                    )
                ) from error
        context.keep_stderr(finished.stderr)
        if finished.ended != "exit" or finished.returncode != 0:
            how = ended_badly(finished, settings.timeout_s, settings.max_answer_bytes)
            raise MetricError(Problem(place, f"ended with {how}"))
        return answer_from_json(context.name, _parse(place, finished.stdout))


def _parse(place: str, stdout: bytes) -> object:
    try:
        text = stdout.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MetricError(
            Problem(place, f"answered bytes that are not UTF-8 (byte {error.start}), expected JSON in UTF-8")
        ) from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= 200 else f"{text[:200]}..."
        raise MetricError(Problem(place, f"answered {shown!r}, expected one JSON object ({error})")) from None
