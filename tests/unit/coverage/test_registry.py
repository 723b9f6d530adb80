# SPDX-License-Identifier: Apache-2.0
"""Metrics are found by name or import path; a wrong name or setting says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from metric_benchmark.coverage.registry import BUILT_IN, MetricSpec, check_metrics, resolve_metric
from metric_benchmark.errors import ConfigError

MINE = """
from metric_benchmark.coverage.protocol import CoverMatrix, Settings

class Mine:
    class Settings(Settings):
        depth: int = 3

    def measure(self, request):
        return CoverMatrix(("x",), {task: frozenset() for task in request.tasks})

class Bare:
    def measure(self, request):
        return None

no_metric = 3
"""


@pytest.fixture
def base(tmp_path: Path, request) -> Path:
    # A module name of its own per test: modules stay loaded.
    (tmp_path / f"mine_{abs(hash(request.node.name))}.py").write_text(MINE)
    return tmp_path


def module(base: Path) -> str:
    return next(base.glob("*.py")).stem


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_built_in_resolves_with_default_settings_or_says_what_it_needs(name):
    required = {"audit": "audit.md"} if name.startswith("audit") else {}
    required |= {"argv": ["true"]} if name == "command" else {}
    required |= {"model": "m", "items": [{"name": "x", "text": "y"}]} if name == "model_judge" else {}
    found = resolve_metric(MetricSpec(name, None, required))
    assert len(found.code_sha256) == 64
    if required:
        with pytest.raises(ConfigError, match=r"settings\.(audit|argv|model): Field required"):
            resolve_metric(MetricSpec(name))


def test_a_misspelt_name_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"metric tools: no metric is called 'tool_cals'; did you mean tool_calls\?"):
        resolve_metric(MetricSpec("tools", "tool_cals"))


def test_a_name_like_no_other_lists_what_is_known():
    with pytest.raises(ConfigError, match=r"known are .*suite_size, synthetic"):
        resolve_metric(MetricSpec("qqqqqq"))


def test_an_import_path_is_looked_for_beside_the_experiment(base: Path):
    found = resolve_metric(MetricSpec("mine", f"{module(base)}:Mine", {"depth": 5}), base)
    assert found.settings_json == {"depth": 5}
    assert (found.needs_traces, found.label, found.is_external) == (True, None, True)


def test_a_metric_without_a_settings_model_takes_none(base: Path):
    assert resolve_metric(MetricSpec("mine", f"{module(base)}:Bare"), base).settings_json == {}
    with pytest.raises(ConfigError, match=r"settings\.depth: unknown setting"):
        resolve_metric(MetricSpec("mine", f"{module(base)}:Bare", {"depth": 5}), base)


def test_the_code_digest_follows_the_metrics_file(base: Path):
    spec = MetricSpec("mine", f"{module(base)}:Mine")
    before = resolve_metric(spec, base).code_sha256
    path = next(base.glob("*.py"))
    path.write_text(path.read_text() + "\n# another comment\n")
    assert resolve_metric(spec, base).code_sha256 != before


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module_here:X", "module no_such_module_here cannot be imported: it is not beside"),
        ("not-a-module:X", "'not-a-module:X' is no import path"),
        ("{module}:Missing", r"\.py has no `Missing`; did you mean `Mine`\?$"),
        ("{module}:no_metric", "expected a class with a method `measure.*found 3"),
    ],
)
def test_something_that_is_no_metric_is_refused(base: Path, path, message):
    with pytest.raises(ConfigError, match=message):
        resolve_metric(MetricSpec("mine", path.format(module=module(base))), base)


def test_all_problems_are_reported_at_once(base: Path):
    specs = [
        MetricSpec("tool_calls", settings={"tolls": []}),
        MetricSpec("tool_calls"),
        MetricSpec("synthetic", settings={"n_items": 0, "density_frac": float("nan")}),
        MetricSpec("nope"),
    ]
    found = [str(p) for p in check_metrics(specs, base)]
    assert found[0] == "metric tool_calls, settings.tolls: unknown setting; did you mean tools?"
    assert [f.split(":")[0] for f in found[1:-1]] == [
        "metric synthetic, settings.n_items",
        "metric synthetic, settings.density_frac",
        "metric nope",
    ]
    assert found[-1] == "metric tool_calls: listed twice; give each metric its own name"
