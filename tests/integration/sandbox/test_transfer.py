# SPDX-License-Identifier: Apache-2.0
"""Copies into and out of a sandbox, with hostile contents."""

from __future__ import annotations

import stat

import pytest

pytestmark = pytest.mark.harbor


@pytest.fixture
def source(host_folder):
    folder = host_folder / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "run.sh").write_text("#!/bin/sh\necho hi\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "sub" / "data \udcff").write_bytes(b"\0\1")
    (folder / "link").symlink_to("run.sh")
    (folder / "empty").mkdir()
    return folder


def test_a_folder_goes_in_and_comes_out(sandbox, source, host_folder):
    sandbox.call("upload", source=str(source), target="/app/deep", folder=True)
    assert sandbox.run("/app/deep/run.sh; stat -c '%a %U' /app/deep/run.sh; readlink /app/deep/link").output == (
        "hi\n755 root\nrun.sh\n"
    )
    out = host_folder / "out"
    assert sandbox.call("download", source="/app/deep", target=str(out), folder=True) == []
    assert sorted(path.name for path in out.iterdir()) == ["empty", "link", "run.sh", "sub"]
    assert str((out / "link").readlink()) == "run.sh"
    assert (out / "sub" / "data \udcff").read_bytes() == b"\0\1"
    assert (out / "run.sh").stat().st_uid == host_folder.stat().st_uid


def test_files_go_to_a_name_or_into_a_folder(sandbox, source):
    for target in ("/new/name.sh", "/app/", "/tmp"):
        sandbox.call("upload", source=str(source / "run.sh"), target=target, folder=False)
    assert sandbox.run("cat /new/name.sh /app/run.sh /tmp/run.sh | grep -c hi").output == "3\n"


def test_uploads_replace_and_do_not_write_through_links(sandbox, source):
    sandbox.run("mkdir /tests && ln -s /etc/passwd /tests/run.sh && echo old > /tests/link")
    sandbox.call("upload", source=str(source), target="/tests", folder=True)
    assert sandbox.run("head -1 /etc/passwd; /tests/run.sh; readlink /tests/link").output == (
        "root:x:0:0:root:/root:/bin/bash\nhi\nrun.sh\n"
    )


def test_what_is_missing_says_so(sandbox, host_folder):
    for folder in (True, False):
        with pytest.raises(Exception, match=r"^FileNotFoundError: download of /nope failed: /nope: No such file"):
            sandbox.call("download", source="/nope", target=str(host_folder / "x"), folder=folder)
        with pytest.raises(Exception, match=r"^FileNotFoundError"):
            sandbox.call("upload", source=str(host_folder / "nope"), target="/x", folder=folder)


def test_links_cannot_lead_a_download_to_the_host(sandbox, host_folder):
    out = host_folder / "out"
    (host_folder / "outside").write_text("host")
    sandbox.run(
        "mkdir -p /bad/deep && cd /bad && ln -s /etc/hostname absolute && ln -s ../../etc/hostname up && "
        "ln -s .. deep/top && ln -s deep/top/../outside sneaky && ln -s deep inside && echo in > deep/file"
    )
    skipped = sandbox.call("download", source="/bad", target=str(out), folder=True)
    assert sorted(item.split(" ")[0] for item in skipped) == ["/bad/absolute", "/bad/sneaky", "/bad/up"]
    assert sorted(path.name for path in out.iterdir()) == ["deep", "inside"]
    assert (out / "inside" / "file").read_text() == "in\n"


def test_a_link_as_the_source_is_followed_inside_only(sandbox, host_folder):
    (host_folder / "secret").write_text("host secret")
    sandbox.run(f"mkdir -p {host_folder} && echo inside > {host_folder}/secret && ln -s {host_folder}/secret /leak")
    sandbox.call("download", source="/leak", target=str(host_folder / "got"), folder=False)
    assert (host_folder / "got").read_text() == "inside\n"


def test_an_earlier_download_cannot_redirect_a_later_one(sandbox, host_folder):
    out, victim = host_folder / "out", host_folder / "victim"
    victim.write_text("untouched")
    out.mkdir(mode=0o777)
    out.chmod(0o777)
    (out / "file").symlink_to(victim)
    (out / "folder").symlink_to(host_folder)
    sandbox.run("mkdir -p /src/folder && echo new > /src/file && echo new > /src/folder/victim")
    sandbox.call("download", source="/src", target=str(out), folder=True)
    assert victim.read_text() == "untouched"
    assert (out / "file").read_text() == "new\n"
    assert not (out / "file").is_symlink()
    assert (out / "folder" / "victim").read_text() == "new\n"
    assert not (out / "folder").is_symlink()


def test_special_files_and_modes_stay_inside(sandbox, host_folder):
    sandbox.run(
        "mkdir /src && cd /src && mkfifo pipe && echo x > suid && chmod 6755 suid && echo y > closed && chmod 0 closed"
    )
    sandbox.run("perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0);bind(S,pack_sockaddr_un(\"/src/sock\"))'")
    out = host_folder / "out"
    skipped = sandbox.call("download", source="/src", target=str(out), folder=True)
    assert sorted(skipped) == [
        "/src/pipe (not a file, folder or link)",
        "/src/sock (not a file, folder or link)",
    ]
    assert stat.S_IMODE((out / "suid").stat().st_mode) == 0o755
    assert (out / "closed").read_text() == "y\n"
    with pytest.raises(Exception, match=r"RuntimeError: download of /src/pipe failed: /src/pipe: not a regular file"):
        sandbox.call("download", source="/src/pipe", target=str(out / "p"), folder=False)


def test_a_download_cannot_fill_the_hosts_disk(sandbox, host_folder):
    sandbox.run("mkdir /src && truncate -s 1T /src/sparse")
    with pytest.raises(Exception, match=r"RuntimeError: download of /src failed: /src/sparse: too much to copy"):
        sandbox.call("download", source="/src", target=str(host_folder / "out"), folder=True)
    assert not (host_folder / "out" / "sparse").exists()
    sandbox.run("rm -r /src; mkdir /src; cd /src; for i in $(seq 120); do mkdir d && cd d; done")
    with pytest.raises(Exception, match=r"folders nested deeper than 100"):
        sandbox.call("download", source="/src", target=str(host_folder / "deep"), folder=True)


def test_an_upload_that_does_not_fit_says_so(sandbox, host_folder):
    with (host_folder / "big").open("wb") as handle:
        handle.truncate(80 << 20)
    full = r"SandboxFullError: the sandbox's own disk is full; upload of .*/big to /big failed: .*No space left"
    with pytest.raises(Exception, match=full):
        sandbox.call("upload", source=str(host_folder / "big"), target="/big", folder=False)


def test_copies_can_change_owner_and_mode(root_driver, start, tmp_path):
    sandbox = start(root_driver)
    sandbox.run("useradd agent")
    (tmp_path / "run.sh").write_text("x")
    (tmp_path / "link").symlink_to("run.sh")
    sandbox.call("upload", source=str(tmp_path), target="/a", folder=True, chown="agent:mail", chmod="640")
    assert sandbox.run("stat -c '%U:%G %a' /a/run.sh; stat -c '%U:%G' /a/link").output == "agent:mail 640\nagent:mail\n"
