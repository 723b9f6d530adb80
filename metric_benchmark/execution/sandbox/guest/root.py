# SPDX-License-Identifier: Apache-2.0
# No pathlib in here: it would double the time the interpreter takes to start.
# ruff: noqa: PTH101, PTH102, PTH103, PTH108, PTH112, PTH114, PTH115, PTH120, PTH123, PTH208, PTH211
"""Builds a sandbox's root file system and makes it the root of the current mount namespace."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import kernel
from .skeleton import DIRECTORIES, ETC_FILES, ETC_SHOWN, HIDDEN, HOST_OVERLAYS, WRITABLE

# Any folder that exists everywhere: the tmpfs on it is seen by this mount namespace only, so nothing is left behind.
_STAGE = "/tmp"
_PLAIN = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# What Docker hides, as far as a process file system shows it.
_HIDDEN_FILES = {"kcore", "keys", "timer_list", "sched_debug", "latency_stats", "timer_stats", "interrupts"}
_SECRET_FILES = {"kallsyms", "kmsg", "kpagecount", "kpageflags", "kpagecgroup", "slabinfo", "vmallocinfo", "iomem"}
_HIDDEN_FOLDERS = {"acpi", "asound", "scsi", "driver", "dynamic_debug"}


@dataclass(frozen=True)
class RootSpec:
    """What the root is made of.

    Attributes:
        base: ``host`` for this machine's system folders, or the absolute path of an unpacked root file system.
        disk_mb: room for everything the sandbox writes, in MiB; it is memory.
        max_processes: bound on processes alive, kept where the kernel can do so for this process id namespace alone.
        network: whether name resolution is set up as on the host.
        hostname: the name the sandbox sees.
        folders: made writable for everybody.
    """

    base: str
    disk_mb: int
    max_processes: int | None
    network: bool
    hostname: str
    folders: tuple[str, ...] = ()


def enter_root(spec: RootSpec) -> bool:
    """Build the root described by ``spec`` and move into it; the old root is out of reach afterwards.

    Until the move only names this module made, or looked at, are used in the new root: a link in an unpacked root file
    system would be followed into the host's.

    Returns:
        Whether the kernel keeps the bound on processes for every user inside.
    """
    resolver = _read_bytes("/etc/resolv.conf") if spec.network else b""
    base = -1 if spec.base == "host" else os.open(spec.base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    inodes = max(16384, spec.disk_mb * 256)
    kernel.mount("mb-root", _STAGE, "tmpfs", kernel.MS_NODEV, f"size={spec.disk_mb}m,nr_inodes={inodes},mode=0755")
    os.chdir(_STAGE)
    os.umask(0o022)
    for name in ("root", "upper", "work"):
        os.mkdir(name)
    if spec.base == "host":
        kernel.bind("root", "root")
        _expose_host()
    else:
        _overlay(f"/proc/self/fd/{base}", "all", "root")
        os.close(base)
    os.chdir("root")
    for name in ("proc", "dev", "sys", "etc", "tmp", "run", "var"):
        if os.path.islink(name):
            raise OSError(f"{spec.base}: /{name} is a link, expected a folder")
    _make_folders({"proc": 0o555, "dev": 0o755})
    kernel.mount("proc", "proc", "proc", _PLAIN)
    _mount_dev()
    forget_imports()
    kernel.pivot_root_here()
    bounded = _set_limits(spec)
    _protect_proc()
    _make_folders(DIRECTORIES)
    _add_etc(spec, resolver)
    for path in spec.folders:
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o777)
    return bounded


def forget_imports() -> None:
    """Make any later import fail: it would run code of the sandbox with this process's rights."""
    sys.path.clear()
    sys.meta_path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return b""


def _overlay(lower: str, name: str, target: str, hidden: Sequence[str] = ()) -> None:
    upper, work = f"upper/{name}", f"work/{name}"
    os.mkdir(upper)
    os.mkdir(work)
    for path in WRITABLE.get(name, ()):
        if os.path.isdir(f"{lower}/{path}") and not os.path.islink(f"{lower}/{path}"):
            os.makedirs(f"{upper}/{path}", exist_ok=True)  # an ordinary user's sandbox may write here too
    for path in filter(lambda path: os.path.lexists(f"{lower}/{path}"), hidden):
        os.makedirs(os.path.dirname(f"{upper}/{path}"), exist_ok=True)
        os.mknod(f"{upper}/{path}", stat.S_IFCHR, os.makedev(0, 0))  # overlayfs reads it as "deleted"
    kernel.mount("mb-overlay", target, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work},userxattr")


def _expose_host() -> None:
    for path in HOST_OVERLAYS:
        source, target = f"/{path}", f"root/{path}"
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
        elif os.path.isdir(source):
            os.makedirs(target)
            hidden = _secrets_of_etc() if path == "etc" else HIDDEN.get(path, ())
            _overlay(source, path.replace("/", "-"), target, hidden)


def _secrets_of_etc() -> list[str]:
    """Everything in the host's /etc that is not on the list of harmless, needed things."""
    hidden: list[str] = []
    nested = {path.split("/")[0] for path in ETC_SHOWN if "/" in path}
    for name in os.listdir("/etc"):
        if name in nested:
            hidden += [f"{name}/{child}" for child in os.listdir(f"/etc/{name}") if f"{name}/{child}" not in ETC_SHOWN]
        elif name not in ETC_SHOWN:
            hidden.append(name)
    return hidden


def _make_folders(folders: Mapping[str, int]) -> None:
    for path, mode in folders.items():
        if not os.path.lexists(path):
            os.makedirs(path)
            os.chmod(path, mode)


def _add_etc(spec: RootSpec, resolver: bytes) -> None:
    files = dict(ETC_FILES) if spec.base == "host" else {}
    files["hostname"] = (0o644, f"{spec.hostname}\n")
    files["hosts"] = (0o644, f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n127.0.1.1\t{spec.hostname}\n")
    files["resolv.conf"] = (0o644, resolver.decode("utf-8", "replace"))
    for name, (mode, text) in files.items():
        path = f"/etc/{name}"
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        os.chmod(path, mode)


def _set_limits(spec: RootSpec) -> bool:
    """Forbid nested namespaces, bound shared memory, and bound the number of processes, sandbox root's included.

    A process id namespace has its own ``pid_max`` since Linux 6.14. Before, the file is the whole machine's, and must
    not be touched.
    """
    for name in ("user", "mnt", "net", "pid"):
        _write_sysctl(f"user/max_{name}_namespaces", 0)
    _write_sysctl("kernel/shmall", spec.disk_mb * 256)
    version = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in os.uname().release.split(".")[:2])
    if spec.max_processes is None or version < (6, 14):
        return False
    return _write_sysctl("kernel/pid_max", spec.max_processes)


def _write_sysctl(name: str, value: int) -> bool:
    try:
        with open(f"/proc/sys/{name}", "wb") as handle:
            handle.write(b"%d" % value)
    except OSError:
        return False
    return True


def _protect_proc() -> None:
    # Sandbox root may be the host's root by number, and these files ask for the number, not for a capability.
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit() or entry.is_symlink():
                continue
            path = entry.path
            if entry.is_dir():
                if entry.name in _HIDDEN_FOLDERS:
                    kernel.mount("none", path, "tmpfs", _PLAIN | kernel.MS_RDONLY, "size=4k,mode=0555")
                else:
                    kernel.bind(path, path, read_only=True)
            elif entry.name in _HIDDEN_FILES or entry.name in _SECRET_FILES:
                kernel.bind("/dev/null", path)
            elif entry.stat().st_mode & 0o222:
                kernel.bind(path, path, read_only=True)


def _mount_dev() -> None:
    kernel.mount("mb-dev", "dev", "tmpfs", kernel.MS_NOSUID | kernel.MS_NOEXEC, "size=64k,mode=0755")
    for name in _DEVICES:
        os.close(os.open(f"dev/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        kernel.bind(f"/dev/{name}", f"dev/{name}")
    os.mkdir("dev/shm")
    kernel.mount("mb-shm", "dev/shm", "tmpfs", _PLAIN, "size=64m,mode=1777")
    os.mkdir("dev/pts")
    kernel.mount(
        "devpts", "dev/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"
    )
    for name, target in {
        "ptmx": "pts/ptmx",
        "fd": "/proc/self/fd",
        "stdin": "/proc/self/fd/0",
        "stdout": "/proc/self/fd/1",
        "stderr": "/proc/self/fd/2",
    }.items():
        os.symlink(target, f"dev/{name}")
