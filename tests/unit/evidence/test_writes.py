# SPDX-License-Identifier: Apache-2.0
"""A write leaves the old file or the new one, whatever happens in between."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from metric_benchmark.errors import StorageError
from metric_benchmark.evidence.writes import (
    append_line,
    encode_record,
    remove_temporaries,
    rename,
    sync_file_system,
    write_bytes,
    write_record,
)
from metric_benchmark.hashing import canonical_json
from metric_benchmark.records.execution import ExecutionInputs


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_with_its_folders_and_its_digest_returned(tmp_path):
    digest = write_bytes(tmp_path / "a/b/c.json", b"{}\n")
    assert digest == hashlib.sha256(b"{}\n").hexdigest()
    assert (tmp_path / "a/b/c.json").read_bytes() == b"{}\n"
    assert names(tmp_path / "a/b") == ["c.json"]


def test_a_record_is_canonical_json_with_its_schema(tmp_path):
    record = ExecutionInputs(run_id="ü")
    write_record(tmp_path / "r.json", record)
    text = (tmp_path / "r.json").read_text()
    value = json.loads(text)
    assert text.encode() == canonical_json(value) + b"\n"
    assert (value["run_id"], value["schema"]) == ("ü", "metric-benchmark/execution-inputs/v1")
    assert encode_record(record) == (tmp_path / "r.json").read_bytes()


@pytest.mark.parametrize("when", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_or_read_only_disk_leaves_the_old_file(tmp_path, monkeypatch, when, number):
    path = tmp_path / "r.json"
    write_bytes(path, b"old")

    def broken(*_):
        raise OSError(number, os.strerror(number))

    target = (os, "fsync") if when == "fsync" else (Path, "replace")
    monkeypatch.setattr(*target, broken)
    with pytest.raises(StorageError) as refused:
        write_bytes(path, b"new")
    assert str(refused.value) == (
        f"{path}: cannot be written: {os.strerror(number)}; what was there before is intact. Make room or rights, then "
        "run the same command again"
    )
    assert refused.value.exit_status == 7
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["r.json"]


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    write_bytes(path, b"old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["r.json"]


def test_the_file_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Otherwise a power cut could leave an empty file under the final name."""
    calls: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("fsync"), fsync(handle))[1])
    monkeypatch.setattr(Path, "replace", lambda self, target: (calls.append("replace"), replace(self, target))[1])
    write_bytes(tmp_path / "r.json", b"x")
    assert calls == ["fsync", "replace", "fsync"]


def test_other_errors_are_not_taken_for_a_full_disk(tmp_path):
    (tmp_path / "r.json").mkdir()
    with pytest.raises(IsADirectoryError):
        write_bytes(tmp_path / "r.json", b"x")


def test_lines_are_appended(tmp_path):
    append_line(tmp_path / "l.jsonl", b"1")
    append_line(tmp_path / "l.jsonl", b"2")
    assert (tmp_path / "l.jsonl").read_bytes() == b"1\n2\n"


def test_renaming(tmp_path):
    write_bytes(tmp_path / "a", b"x")
    rename(tmp_path / "a", tmp_path / "b")
    assert names(tmp_path) == ["b"]


def test_a_line_cut_short_is_replaced_by_the_next(tmp_path):
    path = tmp_path / "l.jsonl"
    append_line(path, b"1")
    with path.open("ab") as stream:
        stream.write(b"a long line that a crash cut sho")
    append_line(path, b"2")
    assert path.read_bytes() == b"1\n2\n"


def test_a_full_disk_leaves_the_lines_before(tmp_path, monkeypatch):
    path = tmp_path / "l.jsonl"
    append_line(path, b"1")

    def full(handle, data, offset, written=os.pwrite):
        written(handle, data[:3], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match=r"l\.jsonl: cannot be written: No space left on device; what was there"):
        append_line(path, b"a new line")
    assert path.read_bytes() == b"1\n"


def test_a_very_long_last_line_is_found(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_bytes(b"1\n" + b"x" * 10_000)
    append_line(path, b"2")
    assert path.read_bytes() == b"1\n2\n"


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path):
    for name in (".r.json.abcd.tmp", ".hidden", "r.json", "r.tmp"):
        (tmp_path / name).touch()
    remove_temporaries(tmp_path)
    remove_temporaries(tmp_path / "missing")
    assert names(tmp_path) == [".hidden", "r.json", "r.tmp"]


def test_syncing_a_file_system_needs_something_on_it(tmp_path):
    sync_file_system(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_file_system(tmp_path / "missing")
