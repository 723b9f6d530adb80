# SPDX-License-Identifier: Apache-2.0
"""A sandbox cannot take more of the machine than it was given."""

from __future__ import annotations

import time

import pytest

pytestmark = pytest.mark.harbor


def test_a_full_disk_is_the_sandboxs_alone(sandbox):
    filled = sandbox.run("dd if=/dev/zero of=/fill bs=1M 2>&1; df -m --output=size / | tail -1; stat -f -c %T /")
    assert "No space left on device" in filled.output
    assert filled.output.split()[-2:] == ["64", "tmpfs"], "memory of its own, not the host's disk"
    assert sandbox.run("rm /fill; echo room > /again; cat /again").output == "room\n"


@pytest.mark.parametrize("folder", ["/tmp", "/usr", "/etc", "/var/lib/dpkg", "/logs/agent", "/run", "/home"])
def test_every_writable_folder_counts(shared_sandbox, folder):
    command = f"dd if=/dev/zero of={folder}/fill bs=1M count=70 2>&1; rm {folder}/fill"
    assert "No space left on device" in shared_sandbox.run(command).output


def test_shared_memory_is_bounded(sandbox):
    assert (
        "No space left" in sandbox.run("dd if=/dev/zero of=/dev/shm/fill bs=1M count=70 2>&1; rm /dev/shm/fill").output
    )
    assert sandbox.run("cat /proc/sys/kernel/shmall").output == f"{64 * 256}\n"


def test_files_without_content_are_bounded(sandbox):
    made = sandbox.run("cd /tmp; i=0; while : > f$i; do i=$((i+1)); done 2>/dev/null; echo $i", timeout=30)
    assert 1000 < int(made.output) < 16384 + 1


def test_a_fork_bomb_is_bounded_and_ends(sandbox):
    bomb = "b() { b | b & }; b 2>/dev/null; sleep 0.4; ls /proc | grep -c '^[0-9]'; exec sleep 30"
    started = time.monotonic()
    with pytest.raises(Exception, match="TimeoutError"):
        sandbox.run(bomb, timeout=1)
    assert time.monotonic() - started < 8
    left = sandbox.run("ls /proc | grep -c '^[0-9]'")
    assert int(left.output) < 10


def test_the_number_of_processes_is_bounded(sandbox):
    spawn = 'my @c; for (1..700) { my $p = fork; last unless defined $p; exec "sleep", "30" unless $p; push @c, $p } '
    result = sandbox.run(f"perl -e '{spawn} print scalar(@c), qq( $!\\n); kill 9, @c'")
    count, message = result.output.split(" ", 1)
    assert 450 < int(count) < 512
    assert message == "Resource temporarily unavailable\n"


def test_without_the_kernels_help_a_fork_bomb_is_ended_by_watching(driver, start):
    sandbox = start(driver, pid_max=False, max_processes=301)
    assert int(sandbox.run("cat /proc/sys/kernel/pid_max").output) > 1000
    bomb = "b() { b | b & }; b 2>/dev/null; while :; do :; done"
    if driver.kind == "root":
        assert sandbox.run(bomb, timeout=60).status == 137, "killed with all the rest"
    else:  # bound by RLIMIT_NPROC
        with pytest.raises(Exception, match=r"TimeoutError"):
            sandbox.run(bomb, timeout=1)
    assert int(sandbox.run("ls /proc | grep -c '^[0-9]'").output) < 10


def test_core_dumps_are_off(sandbox):
    assert sandbox.run("ulimit -c; ulimit -u").output == "0\n512\n"


def test_sandboxes_are_the_first_to_go_when_memory_runs_out(sandbox):
    assert sandbox.run("cat /proc/self/oom_score_adj").output == "500\n"
