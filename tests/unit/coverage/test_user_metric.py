# SPDX-License-Identifier: Apache-2.0
"""A metric written by a user: found, described and run in a child process that is given its inputs and no more."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from metric_benchmark.coverage.launch import can_isolate
from metric_benchmark.coverage.measure import measure_coverage
from metric_benchmark.coverage.registry import MetricSpec, check_metrics
from metric_benchmark.errors import ConfigError, MetricError

DEPTH = """
import sys
from metric_benchmark.coverage.protocol import CoverMatrix, Settings

print("printed while imported")


class Depth:
    class Settings(Settings):
        deepest: int = 3

    label = "home-made"

    def measure(self, request):
        print("printed while measuring")
        deepest = request.settings.deepest
        n_calls = {t.task: sum(len(s.tool_calls) for s in t.steps) for t in request.traces}
        return CoverMatrix(
            items=tuple(str(i) for i in range(1, deepest + 1)),
            tasks={task: frozenset(str(i) for i in range(1, min(n, deepest) + 1)) for task, n in n_calls.items()},
            unmeasured=request.unmeasured,
            notes=(request.case_id,),
        )
"""


@pytest.fixture
def desk(trial, tmp_path: Path):
    """An evidence root with kills and scores in it, beside an experiment with a module."""
    root = tmp_path / "evidence"
    (root / "analysis" / "desk" / "mutants").mkdir(parents=True)
    for name in ("mutant-scores.json", "correlation.json", "mutants/m1.json"):
        (root / "analysis" / "desk" / name).write_text('{"killed_by": ["a"]}')
    base = tmp_path / "experiment"
    base.mkdir()
    (base / "case.yaml").write_text("mutants: []\n")
    baseline = [
        trial("a", trial.atif(trial.step("list", "read"))),
        trial("b", trial.atif(trial.step("read"))),
    ]

    def measure(source: str | None = None, target="mine:Depth", settings=None, **more):
        if source is not None:
            (base / "mine.py").write_text(source)
        record = measure_coverage(
            "desk",
            **{
                "tasks": ["a", "b"],
                "baseline": baseline,
                "subsets": {"s1": ["b"], "s2": ["a", "b"]},
                "description": {"title": "desk"},
                "metrics": [MetricSpec("mine", target, settings or {})],
                "cache": root / "analysis" / "desk" / "cache" / "coverage",
                "base": base,
                "hide": [root, base],
                **more,
            },
        )
        return record.metrics["mine"]

    measure.base, measure.root = base, root
    return measure


def test_a_module_beside_the_experiment_is_run_in_a_child(desk):
    found = desk(DEPTH, settings={"deepest": 4})
    assert found.tasks == {"a": ["1", "2"], "b": ["1"]}
    assert (found.subsets["s1"].coverage, found.subsets["s2"].coverage) == (0.25, 0.5)
    assert (found.label, found.notes, found.settings) == ("home-made", ["desk"], {"deepest": 4})
    assert "mine" not in sys.modules
    kept = next((desk.root / "analysis" / "desk" / "cache").rglob("*.stderr.txt"))
    assert kept.read_text() == "printed while imported\nprinted while measuring\n"


def test_a_package_beside_the_experiment_may_import_its_own_modules(desk):
    package = desk.base / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "depth.py").write_text(DEPTH)
    (package / "entry.py").write_text("from mine.depth import Depth\n")
    before = desk(target="mine.entry:Depth")
    assert before.tasks["a"] == ["1", "2"]
    (package / "depth.py").write_text(DEPTH + "\n# changed\n")
    assert desk(target="mine.entry:Depth").code_sha256 != before.code_sha256


PRY = """
import gc, json, os, sys
from pathlib import Path
from metric_benchmark.coverage.protocol import CoverMatrix

WORDS = ("kill", "score", "mutant-", "m1")

def look(request):
    for folder in {Path.cwd(), request.traces[0].path.parent, Path(__file__).parent}:
        for path in folder.rglob("*"):
            yield str(path)
            if path.is_file():
                yield path.read_text(errors="replace")
    yield repr(request)
    yield json.dumps(dict(os.environ))
    yield json.dumps(sys.argv)
    for known in (%r, %r):
        for path in Path(known).rglob("*"):
            yield str(path)

class Depth:
    def measure(self, request):
        own = Path(__file__).read_text()
        found = {w for text in look(request) if text != own for w in WORDS if w in text.lower()}
        return CoverMatrix(tuple(sorted(found)) or ("nothing",), {t: frozenset(found) for t in request.tasks})
"""


@pytest.mark.skipif(not can_isolate(), reason="no namespaces on this machine: the folders are there to be found")
def test_a_metric_that_looks_around_finds_no_kills_or_scores(desk):
    source = PRY % (str(desk.root), str(desk.base))
    assert desk(source).items == ["nothing"]
    # It does look: with nothing hidden it finds them.
    assert desk(source, hide=[], cache=None).items == ["m1", "mutant-", "score"]


def test_a_metric_that_looks_at_what_it_is_given_finds_no_kills_or_scores(desk):
    # The same, with no more than it is given: its folder, its arguments, its environment.
    assert desk(PRY % ("/nonexistent", "/nonexistent")).items == ["nothing"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "raise KeyError('oops')",
            "failed with KeyError: 'oops' at mine.py:4; expected an answer; for the traceback see ",
        ),
        ("import json; json.loads('{')", "(char 1) at mine.py:4; expected an answer"),
        ("return None", "answered None, expected a CoverMatrix"),
        ("return CoverMatrix(('x',), {'zz': frozenset()})", "unknown task zz"),
        ("return OpaqueCoverage({'s1': 2.0, 's2': float('nan')})", "subset s1: answered 2.0"),
        (
            "import beside",
            "No module named 'beside' at mine.py:4 (mine.py is all that was brought along: make it a package",
        ),
        ("import os; os._exit(3)", "failed with exit status 3"),
        ("import os; os.kill(os.getpid(), 9)", "failed with signal 9"),
        ("import sys; sys.exit(1)", "failed with exit status 1"),
    ],
)
def test_a_metric_that_fails_says_how(desk, body, message):
    source = (
        "from metric_benchmark.coverage.protocol import CoverMatrix, OpaqueCoverage\n"
        f"class Depth:\n    def measure(self, request):\n        {body}\n"
    )
    with pytest.raises(MetricError) as caught:
        desk(source)
    assert str(caught.value).startswith("metric mine: ")
    assert message in str(caught.value)
    _, _, kept = str(caught.value).partition("for the traceback see ")
    assert not kept or body in Path(kept).read_text()


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        (DEPTH, {"deepest": "x"}, "metric mine, settings.deepest: Input should be a valid integer"),
        (DEPTH, {"depest": 3}, "metric mine, settings.depest: unknown setting; did you mean deepest?"),
        (DEPTH.replace("class Depth", "class Deep"), {}, "metric mine: mine.py has no `Depth`; did you mean `Deep`?"),
        (
            DEPTH.replace("class Depth", "class Other"),
            {},
            "mine.py has no `Depth`; expected a class with a method `measure(request)`; it has `Other`",
        ),
        ("Depth = 3\n", {}, "mine:Depth: expected a class with a method `measure(request)`, found 3"),
        ("import nothing_like_it\n", {}, "module mine cannot be imported: ModuleNotFoundError"),
        ("raise SystemExit(4)\n", {}, "failed with exit status 4"),
        ("def broken(:\n", {}, "module mine cannot be imported: SyntaxError"),
    ],
)
def test_a_wrong_class_or_setting_is_a_config_error(desk, source, settings, message):
    with pytest.raises(ConfigError) as caught:
        desk(source, settings=settings)
    assert message in str(caught.value)
    problems = check_metrics([MetricSpec("mine", "mine:Depth", settings)], desk.base)
    assert message in str(problems[0])
    assert check_metrics([MetricSpec("mine", "mine:Depth", settings)], desk.base, launch=False) == ()


def test_files_a_metric_names_are_copied_to_it(desk):
    source = """
from metric_benchmark.coverage.protocol import CoverMatrix, Settings

class Depth:
    class Settings(Settings):
        words: str

    @classmethod
    def find_files(cls, settings, locate):
        return {"words.txt": locate(settings.words)}

    def measure(self, request):
        words = request.files["words.txt"].read_text().split()
        return CoverMatrix(tuple(words), {task: frozenset(words[:1]) for task in request.tasks})
"""
    (desk.base / "desk-words.txt").write_text("one two")
    before = desk(source, settings={"words": "{case}-words.txt"})
    assert before.items == ["one", "two"]
    (desk.base / "desk-words.txt").write_text("one two three four")
    after = desk(settings={"words": "{case}-words.txt"})
    assert (len(after.items), after.subsets["s1"].coverage) == (4, 0.25)
    with pytest.raises(ConfigError, match=r"gone\.txt: no such file"):
        desk(settings={"words": "gone.txt"})


def test_replay_asks_nothing_at_all_of_a_users_metric(desk, tmp_path):
    calls = tmp_path / "calls"
    source = f"open({str(calls)!r}, 'a').write('x')\n" + DEPTH
    with pytest.raises(MetricError, match="replay was asked for"):
        desk(source, replay=True)
    assert not calls.exists()
    first = desk(source)
    assert calls.read_text() == "xx"  # described, then measured
    assert desk(source, replay=True) == first
    assert calls.read_text() == "xx"


def test_the_request_digest_does_not_depend_on_where_things_are(desk, tmp_path):
    first = desk(DEPTH)
    other = tmp_path / "moved"
    desk.base.rename(other)
    assert desk(base=other).request_sha256 == first.request_sha256


def test_cached_descriptions_are_believed_only_if_intact(desk):
    first = desk(DEPTH)
    path = next((desk.root / "analysis" / "desk" / "cache").rglob("*.description.json"))
    entry = json.loads(path.read_text())
    entry["answer"]["label"] = "forged"
    path.write_text(json.dumps(entry))
    assert desk(DEPTH) == first
