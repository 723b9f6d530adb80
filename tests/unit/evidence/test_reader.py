# SPDX-License-Identifier: Apache-2.0
"""The one reader: it believes nothing it was not told the digest of, and says which file it does not believe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.index import open_root, seal_execution, update_index
from metric_benchmark.evidence.reader import (
    check_inventory,
    parse_json,
    read_case_results,
    read_index,
    read_manifest,
    read_raw_results,
    read_record,
    read_run_id,
    safe_path,
)
from metric_benchmark.evidence.stamps import stamped
from metric_benchmark.records.execution import CaseIndex, ExecutionInputs, ExecutionManifest

RECORDS = Path(__file__).parents[2] / "data" / "records"


@pytest.fixture
def sealed(root, results, code):
    """A root with two variants and a manifest."""
    open_root(root, "mine", code[0])
    update_index(root, results("baseline", role="baseline"))
    update_index(root, results("short"))
    expected = {"desk": {"baseline": ("baseline", "c" * 64), "short": ("mutant", "c" * 64)}}
    seal_execution(
        root, run_id="mine", cases_sha256="e" * 64, expected=expected, max_without_verdict=0, implementation=code[0]
    )
    return root


def edit(path, **changes):
    """Writes a record of ours that says something else; it carries the digest of what it says now."""
    path.write_bytes(stamped({**json.loads(path.read_bytes()), **changes}))


def refused(call, *args, **kwargs) -> str:
    with pytest.raises(EvidenceError) as error:
        call(*args, **kwargs)
    assert error.value.exit_status == 3
    return str(error.value)


def test_everything_is_reached_from_the_manifest(sealed, results):
    manifest = read_manifest(sealed, run_id="mine")
    assert read_case_results(sealed, manifest, "desk") == {
        "baseline": results("baseline", role="baseline"),
        "short": results("short"),
    }
    assert read_run_id(sealed) == "mine"


def test_a_missing_record_says_what_writes_it(root):
    assert refused(read_index, root, "desk") == (
        f"{root.index('desk')}: missing; run the stage that writes it (`metric-benchmark status` shows which)"
    )


def test_a_missing_manifest_says_which_command_goes_on(root, results):
    goes_on = f"; `metric-benchmark run-evals EXPERIMENT --output {root.path}` goes on where it stopped and writes it"
    assert refused(read_manifest, root) == f"{root.manifest}: missing{goes_on}"
    update_index(root, results())
    assert refused(read_manifest, root) == f"{root.manifest}: missing (partial evidence is there){goes_on}"


def test_every_flipped_byte_of_the_results_is_noticed(sealed):
    index = read_index(sealed, "desk")
    path = sealed.path / index.variants["short"].raw_results
    data = path.read_bytes()
    for position in range(0, len(data), 37):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        assert refused(read_raw_results, sealed, index, "short").startswith(
            f"{path}: damaged or exchanged: its SHA-256 is"
        )


def test_an_index_that_is_not_the_manifests_is_noticed(sealed):
    manifest = read_manifest(sealed)
    edit(sealed.index("desk"), run_id="mine ")
    assert refused(read_case_results, sealed, manifest, "desk").startswith(
        f"{sealed.index('desk')}: damaged or exchanged"
    )


def test_evidence_of_another_run_is_refused(sealed):
    assert refused(read_manifest, sealed, run_id="yours") == (
        f"{sealed.manifest}: run id is 'mine'; expected 'yours': this is evidence of another run"
    )
    assert "run id is 'mine'; expected 'yours'" in refused(read_index, sealed, "desk", run_id="yours")


def test_results_that_say_they_are_another_variants_are_refused(sealed, results):
    update_index(sealed, results("blind"))
    index = read_index(sealed, "desk")
    theirs = index.variants["blind"]
    swapped = index.model_copy(update={"variants": {**index.variants, "short": theirs}})
    assert refused(read_raw_results, sealed, swapped, "short") == (
        f"{sealed.index('desk')}: variant 'short' names 'execution/desk/blind/{'c' * 16}/raw-results.json'; expected "
        f"'execution/desk/short/{'c' * 16}/raw-results.json'"
    )
    mine = index.variants["short"]
    (sealed.path / mine.raw_results).write_bytes((sealed.path / theirs.raw_results).read_bytes())
    entry = mine.model_copy(update={"raw_results_sha256": theirs.raw_results_sha256})
    swapped = index.model_copy(update={"variants": {**index.variants, "short": entry}})
    assert "variant is 'blind'; expected 'short'" in refused(read_raw_results, sealed, swapped, "short")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b"])
def test_a_trial_folder_that_is_no_plain_name_is_refused(sealed, results, trial, name):
    update_index(sealed, results("short", trials=(trial(trial=name),)))
    assert refused(read_raw_results, sealed, read_index(sealed, "desk"), "short") == (
        f"{sealed.path / 'execution/desk/short' / ('c' * 16) / 'raw-results.json'}: names {name!r} as part of a "
        "trial's folder, which is not a plain name; the record is not ours"
    )


def test_a_variant_that_was_not_run_says_what_runs_it(sealed):
    assert refused(read_raw_results, sealed, read_index(sealed, "desk"), "nobody") == (
        f"{sealed.index('desk')}: has no results of variant 'nobody'; run it with `metric-benchmark run-evals`"
    )


def test_a_case_that_is_not_in_the_manifest(sealed):
    assert refused(read_case_results, sealed, read_manifest(sealed), "depot") == (
        f"{sealed.manifest}: has no case 'depot'; it has: desk"
    )


def test_a_manifest_that_names_another_file_as_an_index(sealed):
    other = sealed.path / "execution/other.json"
    other.write_bytes(sealed.index("desk").read_bytes())
    entry = json.loads(sealed.manifest.read_bytes())["cases"]["desk"]
    edit(sealed.manifest, cases={"desk": {**entry, "index": "execution/other.json"}})
    assert refused(read_manifest, sealed) == (
        f"{sealed.manifest}: case 'desk' names 'execution/other.json'; expected 'execution/desk/results.json'"
    )


def test_a_manifest_that_names_one_index_for_two_cases(sealed):
    entry = json.loads(sealed.manifest.read_bytes())["cases"]["desk"]
    edit(sealed.manifest, cases={"desk": entry, "depot": entry})
    assert refused(read_manifest, sealed) == (
        f"{sealed.manifest}: cases 'depot' and 'desk' name one index, 'execution/desk/results.json'; the record is not "
        "ours"
    )


def test_a_manifest_with_other_cases_than_the_experiment(root):
    assert refused(check_inventory, root.manifest, ["desk", "b", "a"], ["desk", "c"]) == (
        f"{root.manifest}: cases differ: not in the experiment ['a', 'b'], not in the evidence ['c']"
    )


@pytest.mark.parametrize("name", ["../desk.json", "/etc/passwd", "execution/../../x.json", "execution\\desk.json"])
def test_a_manifest_that_leaves_the_evidence(sealed, name):
    edit(sealed.manifest, cases={"desk": {"index": name, "index_sha256": "0" * 64}})
    assert refused(read_manifest, sealed) == (
        f"{sealed.manifest}: names {name!r}, which is not a path inside the evidence; the record is not ours"
    )


@pytest.mark.parametrize("what", ["manifest", "index", "case folder", "run"])
def test_links_that_lead_out_of_the_evidence(sealed, tmp_path, what):
    path = {
        "manifest": sealed.manifest,
        "index": sealed.index("desk"),
        "case folder": sealed.case("desk"),
        "run": sealed.execution_inputs,
    }[what]
    path.rename(tmp_path / path.name)
    path.symlink_to(tmp_path / path.name)

    def read():
        read_run_id(sealed)
        read_case_results(sealed, read_manifest(sealed), "desk")

    if what == "manifest" or what == "run":
        assert refused(read) == f"{path}: a link that leads out of the evidence; put the file itself there"
    else:
        assert refused(read) == (
            f"{sealed.manifest}: names 'execution/desk/results.json', which is not a path inside the evidence; the "
            "record is not ours"
        )


def test_a_record_that_is_read_alone_notices_a_damaged_byte(sealed):
    """Nobody holds the manifest's digest, so it carries its own: every single byte of it counts."""
    data = sealed.manifest.read_bytes()
    for position in range(len(data)):
        sealed.manifest.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        assert refused(read_manifest, sealed).startswith(f"{sealed.manifest}: ")
    sealed.manifest.write_bytes(data)
    read_manifest(sealed)


def test_what_a_damaged_record_says(sealed):
    data = sealed.manifest.read_bytes()
    sealed.manifest.write_bytes(data.replace(b'"mine"', b'"mind"'))
    assert re.fullmatch(
        rf"{sealed.manifest}: damaged: its SHA-256 is [0-9a-f]{{16}}\.\.\., it carries [0-9a-f]{{16}}\.\.\.; "
        "restore it from a backup, or move it away and run its stage again",
        refused(read_manifest, sealed),
    )
    sealed.manifest.write_bytes(data.replace(b'"record_sha256"', b'"record_sha25"'))
    assert "damaged: it carries no record_sha256;" in refused(read_manifest, sealed)
    sealed.manifest.write_bytes(data.replace(b'"record_sha256":"', b'"record_sha256":"x'))
    assert "damaged: its record_sha256 is not readable;" in refused(read_manifest, sealed)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", "a\\b", "link/x"])
def test_paths_that_leave_the_evidence_are_refused(root, tmp_path, path):
    root.path.mkdir()
    (root.path / "link").symlink_to(tmp_path)
    assert refused(safe_path, root, path, root.manifest) == (
        f"{root.manifest}: names {path!r}, which is not a path inside the evidence; the record is not ours"
    )


BAD_JSON = {
    "a BOM": (b'\xef\xbb\xbf{"a":1}', "Unexpected UTF-8 BOM"),
    "NaN": (b'{"a":NaN}', "NaN is not a JSON number"),
    "infinity": (b'{"a":-Infinity}', "-Infinity is not a JSON number"),
    "a key twice": (b'{"a":{"b":1,"b":2}}', "a key is given twice"),
    "a list": (b"[1]", "expected a JSON object"),
    "half a file": (b'{"a":', "Expecting value"),
    "an empty file": (b"", "Expecting value"),
    "bytes that are no text": (b'{"a":"\xff"}', "'utf-8' codec can't decode"),
    "10 MB of nesting": (b'{"a":' + b"[" * 10_000_000, "nested 201 deep; at most 200 is read"),
}


@pytest.mark.parametrize(("data", "reason"), BAD_JSON.values(), ids=BAD_JSON)
def test_what_is_no_record(data, reason):
    message = refused(parse_json, data, "some.json")
    assert message.startswith("some.json: not a record: ")
    assert reason in message


def test_brackets_in_texts_are_not_nesting():
    assert parse_json(b'{"a":"' + b"[" * 500 + b'\\""}', "x")["a"] == "[" * 500 + '"'


def test_brackets_after_a_half_text_are_not_read(root):
    assert "not a record" in refused(parse_json, b'{"a":"' + b'\\"[' * 1000 + b"]" * 10, "x")


def test_the_version_that_wrote_another_schema_is_named():
    """The sample has the shape of a draft of the format, which was never released and is not read."""
    path = RECORDS / "old" / "execution.json"
    assert refused(read_record, path, ExecutionManifest) == (
        f"{path}: schema is 'metric-benchmark/execution/v0', written by metric-benchmark 0.0.3; this version reads "
        "'metric-benchmark/execution/v1'"
    )


def test_another_schema_is_named(root):
    root.path.mkdir()
    root.execution_inputs.write_text('{"schema":"metric-benchmark/execution-inputs/v9","run_id":"x"}')
    assert refused(read_record, root.execution_inputs, ExecutionInputs) == (
        f"{root.execution_inputs}: schema is 'metric-benchmark/execution-inputs/v9'; this version reads "
        "'metric-benchmark/execution-inputs/v1'"
    )


def test_a_field_of_the_wrong_kind_is_named(root):
    root.path.mkdir()
    root.manifest.write_text('{"schema":"metric-benchmark/case-index/v1","run_id":1,"case":"x","variants":{}}')
    assert refused(read_record, root.manifest, CaseIndex).startswith(f"{root.manifest}: damaged at run_id:")


def test_fields_of_a_newer_version_are_left_alone(root):
    root.path.mkdir()
    root.execution_inputs.write_text('{"schema":"metric-benchmark/execution-inputs/v1","run_id":"x","new":1}')
    assert read_run_id(root) == "x"
