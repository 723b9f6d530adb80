# SPDX-License-Identifier: Apache-2.0
"""Real sandboxes for tests, as root and as an ordinary user, whoever runs the suite."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ORDINARY = 65534
_DRIVER = Path(__file__).parent / "driver.py"
KINDS = ["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"]


def become_ordinary() -> list[str]:
    """A command prefix under which a program runs as an ordinary user.

    Where the interpreter lies in a folder only root may enter, the user gets the one capability to read it there; it is
    lost on entering a user namespace.
    """
    if os.geteuid() != 0:
        return []
    drop = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", "--inh-caps=-all"]
    if not shutil.which("setpriv"):
        pytest.skip("setpriv (util-linux) is needed to become an ordinary user")
    if subprocess.run([*drop, sys.executable, "-c", "import metric_benchmark"], capture_output=True).returncode == 0:
        return drop
    read = "dac_read_search"
    return [*drop[:-1], f"--inh-caps=-all,+{read}", f"--ambient-caps=-all,+{read}", f"--bounding-set=-all,+{read}"]


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    status: int
    raw: bytes
    seconds: float

    @property
    def output(self) -> str:
        return self.raw.decode()


class DriverError(Exception):
    """What went wrong in the driver: ``Type: message``."""


class Driver:
    """A process that runs sandboxes as a given user."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        prefix = become_ordinary() if kind == "ordinary" else []
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-B", str(_DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def call(self, op: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise DriverError(f"{answer['error']}: {answer['message']}")
        return answer["value"]

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait(10)


class Sandbox:
    """A running sandbox of a driver."""

    def __init__(self, driver: Driver, **spec: Any) -> None:
        self.driver = driver
        self.kind = driver.kind
        self.pid: int = driver.call("start", **spec)

    def run(self, command: str, **options: Any) -> Result:
        value = self.driver.call("run", pid=self.pid, command=command, **options)
        return Result(value["status"], base64.b64decode(value["output"]), value["seconds"])

    def call(self, op: str, **arguments: Any) -> Any:
        return self.driver.call(op, pid=self.pid, **arguments)

    def stop(self) -> None:
        if self.pid:
            pid, self.pid = self.pid, 0
            self.driver.call("stop", pid=pid)


_drivers: dict[str, Driver | str] = {}


def _driver(kind: str) -> Driver:
    if kind not in _drivers:
        driver = Driver(kind)
        reasons = driver.call("check")
        _drivers[kind] = "; ".join(reasons) if reasons else driver
    found = _drivers[kind]
    if isinstance(found, str):
        pytest.skip(f"no sandbox for {kind} here: {found}")
    return found


@pytest.fixture(scope="session", autouse=True)
def _close_drivers() -> Iterator[None]:
    yield
    for driver in _drivers.values():
        if isinstance(driver, Driver):
            driver.close()
    _drivers.clear()


@pytest.fixture(params=KINDS)
def driver(request: pytest.FixtureRequest) -> Driver:
    """A driver as root, and one as an ordinary user."""
    return _driver(request.param)


@pytest.fixture
def start() -> Iterator[Callable[..., Sandbox]]:
    """Starts sandboxes that are stopped after the test: ``start(driver, **spec)``."""
    made: list[Sandbox] = []

    def _start(driver: Driver, **spec: Any) -> Sandbox:
        made.append(Sandbox(driver, **spec))
        return made[-1]

    yield _start
    for sandbox in made:
        sandbox.stop()


@pytest.fixture
def sandbox(driver: Driver, start: Callable[..., Sandbox]) -> Sandbox:
    """A sandbox without network, with 64 MB of disk and 512 processes."""
    return start(driver, folders=["/logs/agent"])


@pytest.fixture(scope="module", params=KINDS)
def shared_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """One sandbox for all tests of a module that leave it as it was."""
    made = Sandbox(_driver(request.param), folders=["/logs/agent"])
    yield made
    made.stop()


@pytest.fixture
def root_driver() -> Driver:
    """A driver as root, for what only root's sandboxes can."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    return _driver("root")


@pytest.fixture
def new_driver(driver: Driver) -> Iterator[Driver]:
    """A driver of the same kind that the test may kill."""
    made = Driver(driver.kind)
    yield made
    if made.process.poll() is None:
        made.close()
    for stream in (made.process.stdin, made.process.stdout):
        if stream is not None:
            stream.close()
    made.process.wait(10)


@pytest.fixture
def host_folder(driver: Driver) -> Iterator[Path]:
    """A folder on the host that the driver's user owns."""
    folder = Path(tempfile.mkdtemp(prefix="mb-sandbox-test-"))
    if driver.kind == "ordinary" and os.geteuid() == 0:
        os.chown(folder, ORDINARY, ORDINARY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def left_over() -> Callable[[str], list[int]]:
    """Processes of this machine with a given text in their command line that are still there after a while."""

    def _find(text: str) -> list[int]:
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def _wait(text: str, seconds: float = 5.0) -> list[int]:
        until = time.monotonic() + seconds
        while (left := _find(text)) and time.monotonic() < until:
            time.sleep(0.01)
        return left

    return _wait


@pytest.fixture
def prefix() -> list[str]:
    """A command prefix that makes an ordinary user of whoever runs the suite."""
    return become_ordinary()
