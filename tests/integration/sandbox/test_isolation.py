# SPDX-License-Identifier: Apache-2.0
"""What is inside a sandbox sees nothing of the host and changes nothing there."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.harbor


def test_only_system_folders_of_the_host_are_seen(sandbox, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    assert sandbox.run(f"cat {secret} /container_info.json").status == 1
    top = sandbox.run("ls -A / | grep -v -x -e lib32 -e lib64 -e libx32 | tr '\\n' ' '").output
    assert top == "bin dev etc home lib logs media mnt opt proc root run sbin srv sys tmp usr var "
    assert sandbox.run("ls -A /home /root /tmp /mnt /srv /opt /media /sys | grep -v '^/' | grep .").output == ""


def test_secrets_in_the_hosts_etc_are_hidden(sandbox):
    names = set(sandbox.run("ls -A /etc").output.split())
    assert {"passwd", "group", "alternatives", "ld.so.cache"} <= names
    assert not names & {"ssh", "sudoers", "sudoers.d", "pip.conf", "npmrc", "gitconfig", "apt", "cron.d", "machine-id"}
    assert set(sandbox.run("ls /etc/ssl").output.split()) <= {"certs", "openssl.cnf"}
    assert sandbox.run("cut -d: -f2 /etc/shadow | sort -u").output == "*\n"


def test_accounts_are_debians_and_not_the_hosts(sandbox):
    accounts = sandbox.run("head -3 /etc/passwd | cut -d: -f1,3; wc -l < /etc/passwd; hostname").output
    assert accounts == "root:0\ndaemon:1\nbin:2\n18\nsandbox\n"


def test_writes_vanish_and_do_not_reach_the_host(driver, start):
    first = start(driver)
    files = "/usr/mb-test /usr/local/bin/mb-test /etc/mb-test /mb-test /var/lib/mb-test"
    assert first.run(f"touch {files} && ls {files} | wc -l").output == "5\n"
    assert not any(Path(path).exists() for path in files.split())
    assert start(driver).run(f"ls {files} 2>/dev/null").output == ""


def test_host_files_can_be_changed_inside_only(root_driver, start):
    sandbox = start(root_driver)
    before = Path("/etc/debian_version").read_bytes()
    changed = sandbox.run("echo changed > /etc/debian_version; rm -r /usr/lib/os-release; cat /etc/debian_version")
    assert changed.output == "changed\n"
    assert Path("/etc/debian_version").read_bytes() == before
    assert Path("/usr/lib/os-release").exists()


def test_other_processes_are_invisible(driver, start):
    one, other = start(driver), start(driver)
    assert one.run("exec -a mb-neighbour sleep 30 >/dev/null & ").status == 0
    assert one.run("cat /proc/[0-9]*/cmdline | tr -d '\\0' | grep -c [m]b-neighbour").output == "1\n"
    assert other.run("cat /proc/[0-9]*/cmdline | tr -d '\\0' | grep -c [m]b-neighbour").output == "0\n"
    pids = [int(pid) for pid in other.run("ls /proc | grep '^[0-9]'").output.split()]
    assert len(pids) <= 5, "no process but PID 1, the supervisor and the command"


@pytest.mark.parametrize(
    "attempt",
    [
        "echo x > /proc/sys/kernel/hostname",
        "echo 1 > /proc/sys/vm/drop_caches",
        "echo /tmp/x > /proc/sys/kernel/core_pattern",
        "echo b > /proc/sysrq-trigger",
        "echo 9 > /proc/sys/kernel/pid_max",
        "echo 0 > /proc/sys/user/max_user_namespaces",
        "mount -o remount,rw /proc/sys",
        "mount -o remount,bind,rw /proc/sys",
        "umount /proc/sys",
        "umount -l /proc/keys",
        "mount -t proc proc /mnt",
        "mount -t sysfs sysfs /sys",
        "mount -t cgroup2 none /mnt",
        "mount -t tmpfs none /mnt",
        "mount --bind / /mnt",
        "unshare --user --map-root-user true",
        "unshare --mount true",
        "unshare --net true",
        "nsenter --target 1 --mount true",
        "nsenter --target 1 --net true",
        "hostname other",
        "date -s 2001-01-01 >/dev/null",
        "mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk",
        "mknod /tmp/kmsg c 1 11 && head -c 1 /tmp/kmsg",
        "cat /proc/1/environ",
        "cat /proc/1/maps",
        "ls /proc/1/root/",
        "ls /proc/1/cwd/",
        "ls /proc/1/fd/0",
        "readlink /proc/1/exe",
        "dd if=/proc/1/mem bs=1 count=1 status=none",
        "cat /proc/$PPID/environ",
        "ls -l /proc/$PPID/fd/3",
        "dd if=/proc/kcore bs=1 count=1 status=none | grep -q .",
        "grep -q . /proc/kallsyms /proc/keys /proc/kmsg /proc/slabinfo /proc/iomem",
        "chroot /proc/1/root true",
        "renice -n -5 1",
        "chrt --fifo 1 true",
    ],
)
def test_protection_cannot_be_undone(shared_sandbox, attempt):
    result = shared_sandbox.run(f"( {attempt} ) 2>/dev/null", timeout=10)
    assert result.status != 0, result.output
    assert shared_sandbox.run("hostname; ls -A /mnt").output == "sandbox\n"


def test_pid_1_cannot_be_ended_from_inside(sandbox):
    sandbox.run("kill -9 1; kill -TERM 1; kill -STOP 1; kill -INT 1; kill -SEGV 1")
    assert sandbox.run("echo alive").output == "alive\n"


def test_capabilities_are_dockers_default_set(sandbox):
    for field in ("CapEff", "CapPrm", "CapBnd"):
        assert sandbox.run(f"grep {field} /proc/self/status").output.split()[1] == "00000000a80425fb"


def test_commands_get_no_descriptor_of_the_host(sandbox):
    assert sandbox.run("ls /proc/self/fd").output.split() == ["0", "1", "2", "3"]  # 3 is ls's own
    assert sandbox.run("readlink /proc/self/fd/0; env | cut -d= -f1 | sort").output == (
        "/dev/null\nHOME\nHOSTNAME\nPATH\nPWD\nSHLVL\n_\n"
    )


def test_the_hosts_mounts_are_not_seen(sandbox):
    points = {line.split()[4] for line in sandbox.run("cat /proc/self/mountinfo").output.splitlines()}
    assert {"/", "/usr", "/etc", "/proc", "/dev"} <= points
    assert not [p for p in points if not p.startswith(("/proc", "/dev", "/usr", "/etc", "/var/lib/dpkg")) and p != "/"]
    assert (
        sandbox.run("grep -c -w -e ext4 -e xfs -e btrfs -e cgroup -e cgroup2 -e sysfs /proc/self/mounts").output
        == "0\n"
    )


def test_no_network_really_has_none(driver, start):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"timeout 3 bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected'"
        sandbox = start(driver, network="none")
        assert "connected" not in sandbox.run(connect).output
        assert sandbox.run("cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '").output == "lo\n"
        assert sandbox.run("cat /proc/net/route | tail -n +2; cat /etc/resolv.conf").output == ""
        for address in ("10.0.0.1", "192.0.2.2", "1.1.1.1"):
            result = sandbox.run(f"timeout 2 bash -c 'exec 3<>/dev/tcp/{address}/80'")
            assert "unreachable" in result.output, result.output


def test_loopback_works_without_network(sandbox):
    listen = "IO::Socket::INET->new(Listen => 1, LocalPort => 80, ReuseAddr => 1)"
    sandbox.run(f"perl -MIO::Socket -e '$s = {listen} or die; $c = $s->accept; print $c qq(hi)' >/dev/null 2>&1 &")
    ask = "for i in $(seq 100); do (cat < /dev/tcp/127.0.0.1/80) 2>/dev/null && break; sleep 0.02; done"
    assert sandbox.run(ask).output == "hi"


def test_network_can_be_chosen_for_each_command(driver, start):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"
        sandbox = start(driver, network="both")
        assert "connected" not in sandbox.run(connect, network="none").output
        assert sandbox.run(connect, network="host").output == "connected\n"
        assert "connected" not in sandbox.run(connect, network="none").output
