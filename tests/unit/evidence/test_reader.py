# SPDX-License-Identifier: Apache-2.0
"""The one reader: it believes nothing it was not told the digest of, and says which file it does not believe."""

from __future__ import annotations

import json

import pytest

from metric_benchmark.errors import EvidenceError
from metric_benchmark.evidence.index import open_root, seal_execution, update_index
from metric_benchmark.evidence.reader import (
    parse_json,
    read_case_results,
    read_index,
    read_manifest,
    read_raw_results,
    read_record,
    read_run_id,
    safe_path,
)
from metric_benchmark.records.execution import CaseIndex, ExecutionInputs


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
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


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
    swapped = index.model_copy(update={"variants": {**index.variants, "short": index.variants["blind"]}})
    message = refused(read_raw_results, sealed, swapped, "short")
    assert "blind" in message
    assert "expected" in message
    assert "short" in message


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
    value = json.loads(sealed.manifest.read_text())
    # A record that does not say what wrote it carries no digest of itself.
    value.pop("implementation")
    value.pop("record_sha256", None)
    value["cases"]["desk"]["index"] = "execution/other.json"
    sealed.manifest.write_text(json.dumps(value))
    assert refused(read_case_results, sealed, read_manifest(sealed), "desk") == (
        f"{sealed.manifest}: case 'desk' names 'execution/other.json'; expected 'execution/desk/results.json'"
    )


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
