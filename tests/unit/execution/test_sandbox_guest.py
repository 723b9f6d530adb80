# SPDX-License-Identifier: Apache-2.0
"""The sandbox's inner parts that need no sandbox: links, copies, accounts, the skeleton."""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path

import pytest

from metric_benchmark.execution.sandbox import conversation
from metric_benchmark.execution.sandbox.guest import command, skeleton
from metric_benchmark.execution.sandbox.guest.copying import CopyError, run_copy, stays_inside
from metric_benchmark.execution.sandbox.process import SandboxError, read_start_message


@pytest.mark.parametrize(
    ("link", "depth", "expected"),
    [
        (b"file", 0, True),
        (b"./a/b", 0, True),
        (b"..", 0, False),
        (b"../x", 1, True),
        (b"../../x", 1, False),
        (b"a/../b", 3, False),
        (b"/etc/passwd", 5, False),
        (b"a//./b", 0, True),
    ],
)
def test_which_links_stay_inside(link, depth, expected):
    assert stays_inside(link, depth) is expected


def test_no_two_kept_links_together_lead_outside(tmp_path):
    """Every pair of links with up to three parts: one in the folder a, one at the top that may go through it."""
    top = tmp_path / "outer" / "top"
    (top / "a").mkdir(parents=True)
    targets = [parts for length in (1, 2, 3) for parts in itertools.product(["a", "inner", ".."], repeat=length)]
    inner, outer = top / "a" / "inner", top / "outer"
    followed = 0
    for first, second in itertools.product(map("/".join, targets), repeat=2):
        if stays_inside(first.encode(), 1) and stays_inside(second.encode(), 0):
            inner.symlink_to(first)
            outer.symlink_to(second)
            for link in (inner, outer):
                real = os.path.realpath(link)
                assert f"{real}/".startswith(f"{top}/"), f"a/inner -> {first}, outer -> {second}"
                followed += Path(real).exists()
            inner.unlink()
            outer.unlink()
    assert followed > 40


def copied(source: Path, target: Path, **changes):
    request = {"op": "get_dir", "path": str(source), "name": "", "max_bytes": 1000, "max_entries": 10} | changes
    fd = os.open(target, os.O_RDONLY)
    try:
        return run_copy(request, fd, lambda: False)
    finally:
        os.close(fd)


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    return tmp_path / "in", tmp_path / "out"


def test_a_copy_is_bounded_in_bytes_and_entries(folders):
    source, target = folders
    (source / "file").write_bytes(b"x" * 600)
    assert copied(source, target) == {"done": True, "skipped": []}
    (source / "other").write_bytes(b"x" * 600)
    with pytest.raises(CopyError, match="too much to copy"):
        copied(source, target)
    with pytest.raises(CopyError, match="too much to copy"):
        copied(source, target, max_bytes=10_000, max_entries=1)


def test_a_withdrawn_copy_stops(folders):
    source, target = folders
    (source / "file").write_text("x")
    fd = os.open(target, os.O_RDONLY)
    request = {"op": "get_dir", "path": str(source), "name": "", "max_bytes": 1000, "max_entries": 10}
    with pytest.raises(CopyError, match="withdrawn"):
        run_copy(request, fd, lambda: True)
    os.close(fd)
    assert list(target.iterdir()) == []


def test_a_folder_is_not_removed_for_a_file(folders):
    source, target = folders
    (source / "name").write_text("x")
    (target / "name" / "precious").mkdir(parents=True)
    with pytest.raises(CopyError, match="name: a folder is in the way of a file"):
        copied(source, target)
    assert (target / "name" / "precious").exists()


def test_a_file_gives_way_to_a_folder(folders):
    source, target = folders
    (source / "name").mkdir()
    (target / "name").write_text("old")
    copied(source, target)
    assert (target / "name").is_dir()


@pytest.fixture
def accounts(monkeypatch):
    rows = {
        "/etc/passwd": [
            "root:x:0:0:root:/root:/bin/bash",
            "agent:x:1000:1000::/home/agent:/bin/sh",
            "odd:x:7:7:::",
            "#",
        ],
        "/etc/group": ["root:x:0:", "agent:x:1000:", "adm:x:4:syslog,agent", "mail:x:8:"],
    }
    monkeypatch.setattr(command, "_rows", lambda path: [row.split(":") for row in rows[path]])


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (None, command.ROOT),
        ("root", command.ROOT),
        ("0", command.ROOT),
        ("agent", command.Account(1000, 1000, (4, 1000), "/home/agent")),
        ("1000", command.Account(1000, 1000, (4, 1000), "/home/agent")),
        ("agent:mail", command.Account(1000, 8, (), "/home/agent")),
        ("4242", command.Account(4242, 0, (0,), "/")),
        ("4242:77", command.Account(4242, 77, (), "/")),
        ("odd", command.Account(7, 7, (7,), "/")),
    ],
)
def test_accounts(accounts, user, expected):
    assert command.find_account(user) == expected


def test_unknown_accounts_are_refused(accounts):
    with pytest.raises(LookupError, match="unable to find user nobody: no matching entries in passwd file"):
        command.find_account("nobody")
    with pytest.raises(LookupError, match="unable to find group nogroup: no matching entries in group file"):
        command.find_account("agent:nogroup")


def test_the_skeletons_accounts_are_well_formed():
    passwd = [line.split(":") for line in skeleton.ETC_FILES["passwd"][1].splitlines()]
    group = [line.split(":") for line in skeleton.ETC_FILES["group"][1].splitlines()]
    assert {len(row) for row in passwd} == {7}
    assert passwd[-1] == ["nobody", "x", "65534", "65534", "nobody", "/nonexistent", "/usr/sbin/nologin"]
    assert {row[3] for row in passwd} <= {row[2] for row in group}
    assert {len(line.split(":")) for line in skeleton.ETC_FILES["shadow"][1].splitlines()} == {9}
    assert {len(line.split(":")) for line in skeleton.ETC_FILES["gshadow"][1].splitlines()} == {4}


def test_the_list_of_etc_shows_nothing_secret():
    secret = ("shadow", "ssh", "sudoers", "apt", "pip.conf", "gitconfig", "netrc", "environment", "profile.d", "cron")
    assert not [name for name in skeleton.ETC_SHOWN if name.startswith(secret)]
    assert "ssl/private" not in skeleton.ETC_SHOWN
    assert "ssl" not in skeleton.ETC_SHOWN


def test_start_messages():
    assert read_start_message(b'{"pid": 5}') == {"pid": 5}
    with pytest.raises(SandboxError, match=r"^unshare: Operation not permitted$"):
        read_start_message(b'{"error": "unshare: Operation not permitted"}')
    with pytest.raises(SandboxError, match="ended while it was set up"):
        read_start_message(b"")


def test_dropped_output_is_counted():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.write(writer, b"0123456789")
    os.close(writer)
    output = conversation.Output(reader, 4, None)
    asyncio.run(output.collect())
    os.close(reader)
    assert output.content() == b"0123\n[sandbox: 6 more bytes of output dropped]\n"
