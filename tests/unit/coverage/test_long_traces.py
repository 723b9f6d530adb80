# SPDX-License-Identifier: Apache-2.0
"""Traces of 50 000 steps are measured within bounded memory: one at a time, whatever their number."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

N_STEPS = 50_000
#: Measured: 290 MB for one trace and for two; two at once would take 500. The file has 21 MB.
MAX_RSS_MB = 400

MEASURE = r"""
import json, re, sys
from pathlib import Path
from metric_benchmark.coverage.measure import measure_coverage
from metric_benchmark.coverage.registry import MetricSpec
from metric_benchmark.coverage.traces import BaselineTrial

folder, sha256, n = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
tasks = [f"t{i}" for i in range(n)]
names = ["tool_calls", "tool_bigrams", "instruction_ngrams", "trajectory_length"]
record = measure_coverage(
    "long", tasks=tasks, baseline=[BaselineTrial(t, 1, "valid", folder, sha256) for t in tasks],
    subsets={"s": tasks}, description={}, metrics=[MetricSpec(name) for name in names],
)
# Not getrusage: its maximum survives exec, so it would count what the test runner had in memory when it started us.
peak_kb = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps({
    "rss_mb": peak_kb / 1024,
    "items": {name: len(metric.items) for name, metric in record.metrics.items()},
}))
"""


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("trial")
    steps = [{"step_id": 1, "source": "user", "message": "Count all the lines."}]
    for i in range(2, N_STEPS + 1):
        call = {"tool_call_id": "c", "function_name": f"tool{i % 7}", "arguments": {"path": f"f{i}", "n": i}}
        result = {"source_call_id": "c", "content": "line of output\n" * 10}
        steps.append(
            {
                "step_id": i,
                "source": "agent",
                "message": f"step {i}",
                "tool_calls": [call],
                "observation": {"results": [result]},
            }
        )
    data = json.dumps(
        {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "x", "version": "1"}, "steps": steps}
    ).encode()
    (folder / "agent").mkdir()
    (folder / "agent" / "trajectory.json").write_bytes(data)
    return folder, hashlib.sha256(data).hexdigest()


def test_long_traces_are_read_in_bounded_memory(long_trace):
    folder, sha256 = long_trace
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), sha256, "2"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["items"] == {
        "tool_calls": 7,
        "tool_bigrams": 7,
        "instruction_ngrams": 3,
        "trajectory_length": 0,
    }
    assert found["rss_mb"] < MAX_RSS_MB
