# SPDX-License-Identifier: Apache-2.0
# No pathlib in here: it would double the time the interpreter takes to start.
# ruff: noqa: PTH123
"""Starts one command in the sandbox as a given user, in a given folder, with a given environment."""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import dataclass
from typing import Any

from . import kernel

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Account:
    """Who a command runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


def start_command(request: dict[str, Any], output: int, max_processes: int) -> int:
    """Fork and execute ``request["argv"]``; what cannot be started says so on ``output`` with Docker's exit status."""
    child = os.fork()
    if child:
        return child
    code = 126
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, 1 << 20)
        account = find_account(request["user"])
        environment = {"PATH": PATH, "HOME": account.home, "HOSTNAME": os.uname().nodename, **request["env"]}
        os.umask(0o022)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        _set_limits(max_processes)
        _change_user(account)
        kernel.die_with_parent()
        os.chdir(request["cwd"])
        os.execve(request["argv"][0], request["argv"], environment)
    except BaseException as error:  # noqa: BLE001 - a forked child must not return
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        name = error.filename if isinstance(error, OSError) and error.filename else ""
        os.write(2, f"sandbox: {name}{': ' if name else ''}{text}\n".encode(errors="replace"))
        code = 127 if isinstance(error, FileNotFoundError) and name == request["argv"][0] else 126
    os._exit(code)


def _set_limits(max_processes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = max_processes if hard == resource.RLIM_INFINITY else min(hard, max_processes)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the host's core handler would get it


def _change_user(account: Account) -> None:
    if account.uid == 0 and account.gid == 0 and not account.groups:
        # As an ordinary user no other group is mapped and the kernel refuses setgroups.
        if _may_set_groups():
            os.setgroups([0])
        return
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)


def _may_set_groups() -> bool:
    with open("/proc/self/setgroups", "rb") as handle:
        return handle.read().strip() == b"allow"


def find_account(user: str | None) -> Account:
    """Look up ``name``, ``uid``, ``name:group`` or ``uid:gid`` in the sandbox's own files.

    The files are parsed here and not by the C library, which would load the sandbox's name service modules.

    Raises:
        LookupError: no such user or group.
    """
    if user in (None, "", "root", "0", "0:0", "root:root"):
        return Account(0, 0, (), "/root")
    name, _, group = str(user).partition(":")
    account = _find_passwd(name)
    uid, gid, home, login = account
    if group:
        return Account(uid, _find_gid(group), (), home)
    groups = tuple(sorted({gid, *(number for members, number in _groups().values() if login and login in members)}))
    return Account(uid, gid, groups, home)


def _rows(path: str) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as handle:
            return [line.rstrip("\n").split(":") for line in handle]
    except OSError:
        return []


def _find_passwd(name: str) -> tuple[int, int, str, str]:
    rows = [row for row in _rows("/etc/passwd") if len(row) >= 7 and row[2].isdigit() and row[3].isdigit()]
    for row in rows:
        if row[0] == name:
            return int(row[2]), int(row[3]), row[5] or "/", row[0]
    if name.isdigit():
        for row in rows:
            if row[2] == name:
                return int(name), int(row[3]), row[5] or "/", row[0]
        return int(name), 0, "/", ""
    raise LookupError(f"unable to find user {name}: no matching entries in passwd file")


def _groups() -> dict[str, tuple[list[str], int]]:
    rows = [row for row in _rows("/etc/group") if len(row) >= 4 and row[2].isdigit()]
    return {row[0]: (row[3].split(","), int(row[2])) for row in rows}


def _find_gid(group: str) -> int:
    if group.isdigit():
        return int(group)
    found = _groups().get(group)
    if found is None:
        raise LookupError(f"unable to find group {group}: no matching entries in group file")
    return found[1]
