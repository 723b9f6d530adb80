# SPDX-License-Identifier: Apache-2.0
"""What a sandbox made from the host's system folders shows and holds, the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence

HOST_OVERLAYS = ("usr", "etc", "var/lib/dpkg", "bin", "sbin", "lib", "lib32", "lib64", "libx32")

HIDDEN = {"usr": ("local/etc",)}
WRITABLE = {"usr": tuple(f"local/{name}" for name in ("bin", "sbin", "lib", "share", "include", "src", "games", "man"))}

# The host's /etc is shown by this list only: the rest (keys, tokens, mail, ssh, package index passwords) is hidden.
_ETC_SHOWN = """
alternatives bash.bashrc bindresvport.blacklist ca-certificates ca-certificates.conf debian_version dpkg
gai.conf host.conf inputrc issue issue.net ld.so.cache ld.so.conf ld.so.conf.d libaudit.conf locale.alias
login.defs magic magic.mime mime.types mke2fs.conf networks nsswitch.conf os-release pam.conf pam.d perl
profile protocols python3 python3.11 python3.12 python3.13 rmt rpc security selinux services shells skel
ssl/certs ssl/openssl.cnf terminfo xattr.conf adduser.conf deluser.conf
"""
ETC_SHOWN = frozenset(_ETC_SHOWN.split())

DIRECTORIES = {
    "/sys": 0o555,
    "/tmp": 0o1777,
    "/run": 0o755,
    "/run/lock": 0o1777,
    "/root": 0o700,
    "/home": 0o755,
    "/media": 0o755,
    "/mnt": 0o755,
    "/opt": 0o755,
    "/srv": 0o755,
    "/var": 0o755,
    "/var/tmp": 0o1777,
    "/var/log": 0o755,
    "/var/cache": 0o755,
    "/var/lib": 0o755,
    "/var/local": 0o755,
    "/var/mail": 0o755,
    "/var/spool": 0o755,
    "/etc": 0o755,
    "/etc/profile.d": 0o755,
}

# The accounts of Debian's base-passwd, so that no account of the host is seen and `useradd` gives the same ids.
_ACCOUNTS = """
root 0 0 /root /bin/bash
daemon 1 1 /usr/sbin /usr/sbin/nologin
bin 2 2 /bin /usr/sbin/nologin
sys 3 3 /dev /usr/sbin/nologin
sync 4 65534 /bin /bin/sync
games 5 60 /usr/games /usr/sbin/nologin
man 6 12 /var/cache/man /usr/sbin/nologin
lp 7 7 /var/spool/lpd /usr/sbin/nologin
mail 8 8 /var/mail /usr/sbin/nologin
news 9 9 /var/spool/news /usr/sbin/nologin
uucp 10 10 /var/spool/uucp /usr/sbin/nologin
proxy 13 13 /bin /usr/sbin/nologin
www-data 33 33 /var/www /usr/sbin/nologin
backup 34 34 /var/backups /usr/sbin/nologin
list 38 38 /var/list /usr/sbin/nologin
irc 39 39 /run/ircd /usr/sbin/nologin
_apt 42 65534 /nonexistent /usr/sbin/nologin
nobody 65534 65534 /nonexistent /usr/sbin/nologin
"""

_GROUPS = """
root 0 daemon 1 bin 2 sys 3 adm 4 tty 5 disk 6 lp 7 mail 8 news 9 uucp 10 man 12 proxy 13 kmem 15 dialout 20 fax 21
voice 22 cdrom 24 floppy 25 tape 26 sudo 27 audio 29 dip 30 www-data 33 backup 34 operator 37 list 38 irc 39 src 40
shadow 42 utmp 43 video 44 sasl 45 plugdev 46 staff 50 games 60 users 100 nogroup 65534
"""


def _passwd() -> str:
    rows = [line.split() for line in _ACCOUNTS.strip().splitlines()]
    return "".join(f"{name}:x:{uid}:{gid}:{name}:{home}:{shell}\n" for name, uid, gid, home, shell in rows)


def _group() -> str:
    words = _GROUPS.split()
    return "".join(f"{name}:x:{gid}:\n" for name, gid in zip(words[::2], words[1::2], strict=True))


def _locked(names: Sequence[str], tail: str) -> str:
    return "".join(f"{name}:*:{tail}\n" for name in names)


ETC_FILES: dict[str, tuple[int, str]] = {
    "passwd": (0o644, _passwd()),
    "group": (0o644, _group()),
    "shadow": (0o640, _locked([line.split()[0] for line in _ACCOUNTS.strip().splitlines()], "19000:0:99999:7:::")),
    "gshadow": (0o640, _locked(_GROUPS.split()[::2], ":")),
    "timezone": (0o644, "Etc/UTC\n"),
    "environment": (0o644, ""),
    "fstab": (0o644, ""),
    "motd": (0o644, ""),
}
