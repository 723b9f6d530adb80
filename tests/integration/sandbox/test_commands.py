# SPDX-License-Identifier: Apache-2.0
"""Commands: environment, folder, user, output, time, and what they leave running."""

from __future__ import annotations

import time

import pytest

pytestmark = pytest.mark.harbor


def test_environment_folder_and_status(sandbox):
    result = sandbox.run('echo "$PWD $A $B $HOME"; exit 7', cwd="/usr", env={"A": "x y", "B": "ü$(id)"})
    assert (result.status, result.output) == (7, "/usr x y ü$(id) /root\n")
    assert sandbox.run("echo $PATH").output == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"


def test_output_and_error_come_in_one_stream(sandbox):
    assert sandbox.run("echo a; echo b >&2; echo c").output == "a\nb\nc\n"


def test_a_signal_is_a_status_as_in_a_shell(sandbox):
    assert sandbox.run("kill -9 $$").status == 137
    assert sandbox.run("kill -SEGV $$").status == 139


def test_what_cannot_start_says_why(sandbox):
    missing = sandbox.run("true", cwd="/nowhere")
    assert (missing.status, missing.output) == (126, "sandbox: /nowhere: No such file or directory\n")
    unknown = sandbox.run("true", user="stranger")
    assert (unknown.status, unknown.output) == (
        126,
        "sandbox: unable to find user stranger: no matching entries in passwd file\n",
    )
    long = sandbox.run("true #" + "x" * 200_000)
    assert (long.status, long.output) == (126, "sandbox: /bin/bash: Argument list too long\n")


def test_output_that_is_no_text(sandbox):
    assert sandbox.run(r"printf '\377\000\376x'").raw == b"\xff\x00\xfex"


def test_large_output_is_whole(sandbox):
    result = sandbox.run("head -c 20000000 /dev/zero | tr '\\0' a")
    assert result.raw == b"a" * 20_000_000


def test_endless_output_is_cut(sandbox):
    result = sandbox.run("head -c 3000000 /dev/zero | tr '\\0' a", max_output=1_000_000)
    assert result.raw == b"a" * 1_000_000 + b"\n[sandbox: 2000000 more bytes of output dropped]\n"


def test_background_processes_live_on_between_commands(sandbox):
    started = sandbox.run("(while sleep 0.02; do echo tick; echo x >> /tmp/ticks; done) & echo started")
    assert started.output.startswith("started\n")
    assert started.seconds < 2
    before = int(sandbox.run("wc -l < /tmp/ticks").output)
    time.sleep(0.3)
    assert int(sandbox.run("wc -l < /tmp/ticks").output) > before + 3, "it died of its first unread line of output"


def test_a_timeout_kills_all_the_command_started_and_nothing_else(sandbox):
    sandbox.run("sleep 1001 >/dev/null &")
    runaway = "setsid bash -c 'env -i setsid sleep 1002 & sleep 1003' & (trap '' TERM INT HUP; sleep 1004) & sleep 1005"
    with pytest.raises(Exception, match=r"^TimeoutError"):
        sandbox.run(runaway, timeout=0.3)
    assert sandbox.run("ps axo args | grep '^sleep'").output == "sleep 1001\n"


def test_a_cancelled_command_is_killed(sandbox):
    assert sandbox.call("cancel", command="setsid sleep 1010 & sleep 1011", after=0.3) is True
    assert sandbox.run("ps axo args | grep -c '^sleep'").output == "0\n"


def test_a_command_that_kills_its_supervisor_dies_with_it(sandbox):
    assert sandbox.run("kill -9 $PPID; sleep 1020").status == 137
    assert sandbox.run("ps axo args | grep -c '^bash'").output == "0\n"
    assert sandbox.run("echo fine").output == "fine\n"


def test_a_stopped_supervisor_does_not_save_a_command_from_its_timeout(driver, start):
    sandbox = start(driver, kill_seconds=0.5)
    with pytest.raises(Exception, match=r"^TimeoutError"):
        sandbox.run("kill -STOP $PPID; sleep 1030", timeout=0.2)
    assert sandbox.run("ps axo args | grep -c '^sleep'").output == "0\n"


def test_users_of_a_roots_sandbox(root_driver, start):
    sandbox = start(root_driver)
    sandbox.run("useradd -m -u 1000 -G adm,mail agent")
    mine = sandbox.run(
        "id; echo $HOME; touch ~/mine && stat -c %U ~/mine; touch /etc/x 2>/dev/null || echo refused", user="agent"
    )
    assert (
        mine.output
        == "uid=1000(agent) gid=1000(agent) groups=1000(agent),4(adm),8(mail)\n/home/agent\nagent\nrefused\n"
    )
    assert sandbox.run("id -u; id -g; id -G", user="1000:mail").output == "1000\n8\n8\n"
    assert sandbox.run("id -u; id -G", user="4242").output == "4242\n0\n"
    assert sandbox.run("grep CapEff /proc/self/status", user="agent").output == "CapEff:\t0000000000000000\n"
    assert sandbox.run("su agent -c 'id -u'").output == "1000\n"


@pytest.mark.parametrize("accounts", ["mkfifo /etc/passwd", "ln -s /dev/zero /etc/passwd", "mkdir /etc/passwd", "true"])
def test_hostile_account_files_do_not_hold_a_command_up(root_driver, start, accounts):
    sandbox = start(root_driver)
    sandbox.run(f"rm /etc/passwd; {accounts}")
    assert sandbox.run("true", user="agent", timeout=5).output.startswith("sandbox: unable to find user agent")
    shell = {"SHELL": "/bin/bash"}  # else bash itself looks into the file
    assert sandbox.run("grep Uid /proc/self/status", user="1000", env=shell, timeout=5).output.split()[1] == "1000"


def test_an_ordinary_users_sandbox_knows_only_root(driver, start):
    if driver.kind != "ordinary":
        pytest.skip("about ordinary users")
    sandbox = start(driver)
    assert sandbox.run("id -u; tr -s ' ' < /proc/self/uid_map | cut -d' ' -f2,4").output == "0\n0 1\n"
    refused = sandbox.run("id", user="daemon")
    assert (refused.status, refused.output) == (126, "sandbox: Operation not permitted\n")


def test_terminals_can_be_made(sandbox):
    assert sandbox.run("script -qec 'tty' /dev/null </dev/null | tr -d '\\r'").output.startswith("/dev/pts/")
