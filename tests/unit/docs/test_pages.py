# SPDX-License-Identifier: Apache-2.0
"""Pages and the command line agree: commands parse, files validate, links resolve."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from metric_benchmark.cli.app import app
from metric_benchmark.config.schemas import KINDS
from tools.docs_hooks import AWAITED

REPOSITORY = Path(__file__).parents[3]
PAGES = sorted(
    [
        *REPOSITORY.glob("docs/*.md"),
        REPOSITORY / "README.md",
        REPOSITORY / "CONTRIBUTING.md",
        *REPOSITORY.glob("examples/*.md"),
    ]
)
names = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`((?:\.venv/bin/)?metric-benchmark [^`]+)`")


def prose(page: Path) -> str:
    """The page without fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"`|\*", "", heading).lower()) for heading in headings]
    return {text.strip().replace(" ", "-") for text in plain}


@names
def test_every_internal_link_resolves(page):
    broken = []
    for target in _LINK.findall(prose(page)):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() and file.name in AWAITED:
            continue
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@names
def test_pages_in_docs_link_to_nothing_the_site_lacks(page):
    if page.parent.name == "docs":
        outside = [target for target in _LINK.findall(prose(page)) if target.startswith("../")]
        assert outside == []


def commands(page: Path, reading) -> list[str]:
    """Every command line of ours on a page: in blocks, however they are marked, and in running text."""
    found = [command.words for block in reading.blocks(page.read_text()) for command in block.commands]
    for block in reading.blocks(page.read_text()):
        if block.language in ("", "console", "bash", "sh", "shell"):
            joined = block.text.replace("\\\n", " ")
            found += [line.partition("  #")[0] for line in joined.splitlines() if line.startswith("metric-benchmark ")]
    found += _INLINE.findall(prose(page))
    return [" ".join(words.split()) for words in found if "metric-benchmark " in words]


# A name in capitals stands for what a reader puts there, e.g. `metric-benchmark COMMAND --help`.
_PLACEHOLDER = re.compile(r"\b(COMMAND|\.\.\.)")


def parse(words: list[str]) -> None:
    """Parses a command line by the real parsers, without running anything.

    Typer may carry its own copy of Click, so only methods both have are used.
    """
    command = typer.main.get_command(app)
    context = None
    while hasattr(command, "commands"):
        if words[:1] in (["--help"], ["--version"], ["--install-completion"]):
            return
        assert words, "a group of commands needs a command"
        assert words[0] in command.commands, f"no command {words[0]!r}"
        context = command.make_context("metric-benchmark", [words[0]], parent=context)
        command, words = command.commands[words[0]], words[1:]
    if "--help" not in words and words:
        command.make_context("metric-benchmark", words, parent=context)


@names
def test_every_command_parses(page, reading, tmp_path, monkeypatch):
    # Arguments that must exist are made, so that the parser can be asked about everything else.
    monkeypatch.chdir(tmp_path)
    for line in commands(page, reading):
        if _PLACEHOLDER.search(line):
            continue
        words = shlex.split(line.removeprefix(".venv/bin/"), comments=True)
        while words and words[0] != "metric-benchmark":
            words = words[1:]
        for word in words[2:]:
            path = tmp_path / word
            if not word.startswith(("-", "/")) and not path.exists() and re.fullmatch(r"[\w./-]+", word):
                if re.search(r"\.(ya?ml|csv|toml)$", word):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text("")
                elif not re.search(r"\.(xml|md|svg|html)$", word):
                    path.mkdir(parents=True, exist_ok=True)
        try:
            parse(words[1:])
        except Exception as error:
            raise AssertionError(f"{page.name}: {line}: {getattr(error, 'message', error)}") from error


@names
def test_every_make_target_exists(page):
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^\$ |`|[A-Z]+=\S+ )make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert named <= targets


@names
def test_whole_yaml_files_on_pages_are_valid(page, reading):
    for block in reading.blocks(page.read_text()):
        if block.language == "yaml" and (found := re.match(r"schema: metric-benchmark/([a-z]+)/v1\n", block.text)):
            KINDS[found[1]].model_validate(yaml.safe_load(block.text))


@names
def test_files_the_prose_names_exist(page):
    named = re.findall(r"`((?:metric_benchmark|metric_benchmark_dagster|examples|docs|tools)/[\w./-]+)`", prose(page))
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


def test_every_page_of_the_navigation_exists():
    text = (REPOSITORY / "mkdocs.yml").read_text()
    named = set(re.findall(r": ([\w-]+\.md)$", text, re.MULTILINE))
    assert named <= {path.name for path in PAGES if path.parent.name == "docs"} | AWAITED
    assert {"index.md", "tutorial.md", "tools.md", "metrics.md"} <= named


def test_figures_say_what_they_show():
    for path in (REPOSITORY / "docs" / "images").glob("*.svg"):
        assert re.search(r'<svg [^>]*role="img" aria-label="[^"]{40,}"', path.read_text()), path.name


def test_what_the_notebook_page_computes_is_what_the_records_say(reading, tmp_path, monkeypatch):
    """The page's code runs on a small made evidence; its own partial correlation equals the recorded one."""
    import importlib.util
    import sys

    name = "docs_world"
    source = REPOSITORY / "tests" / "unit" / "reporting" / "world.py"
    spec = importlib.util.spec_from_file_location(name, source)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = world = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(world)
    monkeypatch.chdir(tmp_path)
    root = world.write_world(tmp_path / "runs" / "mine", {"desk": world.World(n_subsets=40)})
    page = (REPOSITORY / "docs" / "notebook.md").read_text()
    found = {"__name__": "notebook"}
    steps = [block.text for block in reading.blocks(page) if block.is_run]
    assert len(steps) == 5
    for step in steps:
        exec(compile(step, "docs/notebook.md", "exec"), found)
    recorded = found["report"].cases[0].correlation.metrics["tool_calls"].estimates
    assert found["metric"] == "tool_calls"
    assert found["partial"] == pytest.approx(recorded.partial_spearman_given_size.value, abs=1e-12)
    assert found["r"][0, 1] == pytest.approx(recorded.spearman.value, abs=1e-12)
    assert len(found["axes"].collections[0].get_offsets()) == 40
    assert found["matrix"].shape == (20, 12)
    assert (tmp_path / "scatter.png").stat().st_size > 5000
    # The page names every table there is.
    assert set(re.findall(r"`(\w+)`", page.partition("| table |")[2].partition("## ")[0])) >= set(found["tables"])
    assert found["root"].resolve() == root.path.resolve()


def test_results_of_cheap_commands(reading, run, tmp_path, monkeypatch):
    """Commands of the guides that need no trial are run, in order, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    cheap = ("init", "sign", "verify", "plan", "subsets", "mutants", "mutate", "status")
    done = []
    for command in ("init my-experiment", *commands_of("run-experiment.md", reading)):
        words = shlex.split(command.removeprefix("metric-benchmark "))
        if words[0] in cheap and "--deep" not in words and "--power" not in words:
            ended = run(*words)
            assert ended.status == 0, f"{command}: {ended.err}"
            done.append(words[0])
    assert set(done) == set(cheap)


def commands_of(name: str, reading) -> list[str]:
    return [
        command.words
        for block in reading.blocks((REPOSITORY / "docs" / name).read_text())
        for command in block.commands
        if command.words.startswith("metric-benchmark ")
    ]


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_asks_nobody_else_for_anything(tmp_path):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=REPOSITORY, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="(https?://[^"]+)"', page.read_text())
        assert loaded == [], page.name
    api = (tmp_path / "site" / "python-api.html").read_text()
    for name in ("experiment.open_run", "reporting.tidy.tidy_tables", "coverage.protocol.Trace", "errors.ConfigError"):
        assert f'id="metric_benchmark.{name}"' in api
