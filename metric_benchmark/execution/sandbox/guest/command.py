# SPDX-License-Identifier: Apache-2.0
"""Starts one command in the sandbox as a given user, in a given folder, with a given environment."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
from dataclasses import dataclass
from typing import Any

_SIGNALS = (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT)

_MAX_ACCOUNTS = 1 << 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Account:
    """Who a command runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


ROOT = Account(0, 0, (0,), "/root")


class CannotStart(Exception):
    """A command that could not be started; ``status`` is what Docker's exec answers then."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def limit_resources(max_processes: int) -> None:
    """Bound this process and all it starts: processes, and no core dumps, which the host's handler would get."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = max_processes if hard == resource.RLIM_INFINITY else min(hard, max_processes)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def start_command(request: dict[str, Any], output: int) -> int:
    """Start ``request["argv"]`` in a session of its own; its process id.

    Raises:
        CannotStart: there is no such user, folder or program, or the kernel refuses.
    """
    try:
        account = find_account(request["user"])
        environment = {"PATH": PATH, "HOME": account.home, "HOSTNAME": os.uname().nodename, **request["env"]}
        os.chdir(request["cwd"])
        try:
            start = _spawn if account == ROOT else _fork_as
            return start(account, request["argv"], environment, output)
        finally:
            os.chdir("/")
    except (OSError, LookupError, ValueError) as error:
        raise _refusal(error, request["argv"][0]) from error


def _refusal(error: Exception, program: str) -> CannotStart:
    if not isinstance(error, OSError):
        return CannotStart(str(error), 126)
    where = f"{error.filename}: " if error.filename else ""
    missing = isinstance(error, FileNotFoundError) and error.filename == program
    return CannotStart(f"{where}{error.strerror}", 127 if missing else 126)


def _spawn(_: Account, argv: list[str], environment: dict[str, str], output: int) -> int:
    """Start as root, without copying this process first (most of a command's cost otherwise)."""
    return os.posix_spawn(
        argv[0],
        argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=_SIGNALS,
    )


def _fork_as(account: Account, argv: list[str], environment: dict[str, str], output: int) -> int:
    """Start as another user; what fails after the fork comes back through a pipe that a successful start closes."""
    failure_r, failure_w = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            os.setgroups(account.groups)
            os.setresgid(account.gid, account.gid, account.gid)
            os.setresuid(account.uid, account.uid, account.uid)
            os.execve(argv[0], argv, environment)
        except OSError as error:
            os.write(failure_w, json.dumps([error.errno, error.filename]).encode())
        finally:
            os._exit(126)
    os.close(failure_w)
    failed = os.read(failure_r, 4096)
    os.close(failure_r)
    if failed:
        os.waitpid(child, 0)
        number, where = json.loads(failed)
        raise OSError(number, os.strerror(number), where)
    return child


def find_account(user: str | None) -> Account:
    """Look up ``name``, ``uid``, ``name:group`` or ``uid:gid`` in the sandbox's own files.

    The files are parsed here and not by the C library, which would load the sandbox's name service modules.

    Raises:
        LookupError: no such user or group.
    """
    if user in (None, "", "root", "0", "0:0", "root:root"):
        return ROOT
    name, _, group = str(user).partition(":")
    account = _find_passwd(name)
    uid, gid, home, login = account
    if group:
        return Account(uid, _find_gid(group), (), home)
    groups = tuple(sorted({gid, *(number for members, number in _groups().values() if login and login in members)}))
    return Account(uid, gid, groups, home)


def _rows(path: str) -> list[list[str]]:
    """The lines of an account file, which is the sandbox's own: it may be missing, a pipe, or without end."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        text = os.read(file, _MAX_ACCOUNTS) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)
    return [line.split(":") for line in os.fsdecode(text).splitlines()]


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
