# SPDX-License-Identifier: Apache-2.0
"""Nothing of a sandbox is left: not on stop, not when its owner is killed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.harbor

_SURVIVORS = """
setsid sleep 7101 &
(setsid bash -c 'sleep 7102 & disown; exec sleep 7103' &)
nohup sleep 7104 >/dev/null 2>&1 &
perl -e 'use POSIX; fork && exit; setsid; fork && exit; $SIG{TERM} = $SIG{HUP} = q(IGNORE); exec qw(sleep 7105)'
for i in $(seq 100); do [ $(ps axo args | grep -c '^sleep 71') = 5 ] && break; sleep 0.01; done
"""


def _mounts() -> list[str]:
    """Mounts of a sandbox that this process can see: never any."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - " in line and " mb-" in line]


def _temporary() -> set[str]:
    return {path.name for path in Path("/tmp").iterdir()}


def test_stop_ends_every_survivor(driver, start, left_over):
    sandbox = start(driver)
    pid = sandbox.pid
    sandbox.run(_SURVIVORS)
    assert sandbox.run("ps axo args | grep -c '^sleep 71'").output == "5\n"
    assert pid in driver.call("running")
    sandbox.stop()
    assert pid not in driver.call("running")
    assert left_over("sleep\x00710", 0) == []
    assert _mounts() == []


def test_a_stopped_sandbox_says_so(driver, start):
    sandbox = start(driver)
    pid = sandbox.pid
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(Exception, match=r"SandboxError: the sandbox (is not running|ended while the command ran)"):
        sandbox.run("true")
    assert pid not in driver.call("running")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killing_the_owner_leaves_nothing(new_driver, start, left_over, number):
    files = _temporary()
    sandbox = start(new_driver)
    pid = sandbox.pid
    sandbox.run(_SURVIVORS)
    launchers = _children_named(new_driver.process.pid, "mb-launcher")
    new_driver.process.send_signal(number)
    new_driver.process.wait(5)
    sandbox.pid = 0
    until = time.monotonic() + 5
    while (Path(f"/proc/{pid}").exists() or any(map(_alive, launchers))) and time.monotonic() < until:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()
    assert not any(map(_alive, launchers))
    assert left_over("sleep\x00710") == []
    assert _mounts() == []
    assert not [name for name in _temporary() - files if name.startswith("mb-") and "test" not in name]


def test_killing_the_owner_in_mid_command_leaves_nothing(new_driver, start, left_over):
    sandbox = start(new_driver)
    stdin = new_driver.process.stdin
    stdin.write(json.dumps({"op": "run", "pid": sandbox.pid, "command": "setsid sleep 7201 & sleep 7202"}) + "\n")
    stdin.flush()
    time.sleep(0.3)
    new_driver.process.kill()
    new_driver.process.wait(5)
    sandbox.pid = 0
    assert left_over("sleep\x00720") == []


def test_a_killed_launcher_takes_no_sandbox_with_it_and_is_replaced(new_driver, start):
    first = start(new_driver)
    (launcher,) = _children_named(new_driver.process.pid, "mb-launcher")
    os.kill(launcher, signal.SIGKILL)
    assert first.run("echo alive").output == "alive\n"
    second = start(new_driver)
    assert second.run("echo new").output == "new\n"
    first.stop()


def test_leftovers_are_found_and_ended(driver, start):
    from metric_benchmark.execution.sandbox import clean_leftovers, running_sandboxes

    sandbox = start(driver)
    assert sandbox.pid in running_sandboxes()
    assert sandbox.pid not in clean_leftovers(), "its owner lives"
    assert sandbox.run("echo alive").output == "alive\n"


def test_many_sandboxes_at_once(driver, start):
    made = [start(driver) for _ in range(12)]
    assert len({sandbox.pid for sandbox in made}) == 12
    assert [sandbox.run(f"echo {n} > /n; cat /n").output for n, sandbox in enumerate(made)] == [
        f"{n}\n" for n in range(12)
    ]


def _children_named(parent: int, name: str) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text() == f"{name}\n"]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
