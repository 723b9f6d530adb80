# SPDX-License-Identifier: Apache-2.0
# No pathlib in here: it would double the time the interpreter takes to start.
# ruff: noqa: PTH123
"""The system calls a sandbox needs that Python's ``os`` module does not offer."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Iterable

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_KEYCTL_JOIN_SESSION_KEYRING = 1
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1

# Numbers of system calls without a wrapper in every libc: pivot_root, keyctl.
_NUMBERS = {"x86_64": (155, 250), "aarch64": (41, 219), "riscv64": (41, 219)}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def describe(error: BaseException) -> str:
    """One line that says what failed, without the error's number."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, bytes | str) else ""
        return where + error.strerror
    return str(error) or type(error).__name__


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """``mount(2)``; an error names what was mounted where."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(result, f"mount {kind or 'bind'} {source} on {target}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Bind ``source`` (and what is mounted on it alone) to ``target``."""
    mount(source, target, flags=MS_BIND)
    if read_only:
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)


def unmount_detached(target: str) -> None:
    """``umount2(2)`` with ``MNT_DETACH``."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def pivot_root_here() -> None:
    """Make the current folder (a mount point) the root and let go of the old root."""
    number = _NUMBERS[os.uname().machine][0]
    _check(_libc.syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
    unmount_detached(".")
    os.chdir("/")


def _prctl(option: int, argument: int | bytes) -> int:
    value = ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.c_ulong(argument)
    return int(_libc.prctl(ctypes.c_int(option), value, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)))


def set_name(name: str) -> None:
    """Name this process as ``ps`` shows it in the short form (15 bytes)."""
    _check(_prctl(_PR_SET_NAME, name.encode()), "prctl PR_SET_NAME")


def forbid_inspection() -> None:
    """Nothing in the sandbox may read or trace this process, whose memory and files are the host's."""
    _check(_prctl(_PR_SET_DUMPABLE, 0), "prctl PR_SET_DUMPABLE")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _check(_prctl(_PR_SET_CHILD_SUBREAPER, 1), "prctl PR_SET_CHILD_SUBREAPER")


def limit_capabilities(kept: Iterable[int]) -> None:
    """Drop every capability but ``kept`` from what programs started from now on can get."""
    keep = set(kept)
    for capability in range(64):
        if capability not in keep and _prctl(_PR_CAPBSET_DROP, capability) < 0:
            if ctypes.get_errno() == errno.EINVAL:  # past the last one this kernel knows
                return
            _check(-1, f"prctl PR_CAPBSET_DROP {capability}")


def new_session_keyring() -> None:
    """Leave the host session's keyring; without keyrings in the kernel there is none to leave."""
    number = _NUMBERS[os.uname().machine][1]
    _libc.syscall(ctypes.c_long(number), ctypes.c_long(_KEYCTL_JOIN_SESSION_KEYRING), None)


def receive_with_descriptors(channel: socket.socket, size: int, count: int) -> tuple[bytes, list[int]]:
    """One message and the descriptors that came with it, none of which a program started later inherits.

    Python's ``socket.recv_fds`` ignores its flags, so that they would be inherited.
    """
    room = socket.CMSG_LEN(count * struct.calcsize("i"))
    data, ancillary, _, _ = channel.recvmsg(size, room, socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += struct.unpack(f"{len(content) // struct.calcsize('i')}i", content)
    return data, fds


def kill_all_others() -> None:
    """Kill every process of this process id namespace but PID 1 and the caller."""
    with contextlib.suppress(ProcessLookupError):  # there is none
        os.kill(-1, signal.SIGKILL)


def raise_loopback() -> None:
    """Bring ``lo`` up in the current network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(handle, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(handle, _SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", flags | _IFF_UP, b""))


def set_title(title: str) -> None:
    """Overwrite this process's command line, which is how ``ps`` and :func:`running_sandboxes` know it.

    The kernel serves ``/proc/PID/cmdline`` from the process's own memory, so the place is looked up and written to.
    """
    with open("/proc/self/stat", "rb") as handle:
        fields = handle.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    room = end - start
    ctypes.memset(start, 0, room)
    ctypes.memmove(start, title.encode()[: room - 1], min(len(title.encode()), room - 1))
