# SPDX-License-Identifier: Apache-2.0
"""The check says quickly whether sandboxes work, and why not."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.harbor

_CHECK = """
import sys, time
from metric_benchmark.execution.sandbox import check_sandbox
started = time.monotonic()
reasons = check_sandbox()
print(*(reasons or ["works"]), sep="; ")
print(time.monotonic() - started < 2, "harbor" in sys.modules)
"""
_TAIL = "or use the docker environment)"


def checked(*prefix: str, script: str = 'exec "$@"') -> list[str]:
    if not shutil.which("unshare"):
        pytest.skip("unshare (util-linux) is needed")
    command = [*prefix, "sh", "-c", script, "sh", sys.executable, "-B", "-c", _CHECK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_it_is_quick_and_does_not_load_harbor(driver):
    assert driver.call("check") == []
    assert checked() == ["works", "True False"]


def test_forbidden_user_namespaces_are_named(root_driver):
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    said = checked("unshare", "--user", "--map-root-user", script=script)
    remedy = "allow user namespaces with `sysctl -w user.max_user_namespaces=10000`"
    assert said[0] == f"unshare: No space left on device ({remedy}, {_TAIL}"


def test_a_masked_proc_as_in_containers_is_named(root_driver):
    script = 'mount --bind /dev/null /proc/version && exec "$@"'
    said = checked("unshare", "--mount", script=script)
    assert said[0] == (
        "mount proc proc on proc: Operation not permitted "
        f"(in a container, user namespaces and mounts must be allowed; {_TAIL}"
    )


def test_inside_a_user_namespace_with_one_user_it_works_like_for_an_ordinary_user(root_driver):
    assert checked("unshare", "--user", "--map-root-user")[0] == "works"
