# SPDX-License-Identifier: Apache-2.0
"""Draws random subsets of a case's tasks, stratified by size, and writes them as a subsets file."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from metric_benchmark.config.explain import parse_model
from metric_benchmark.config.models import CaseConfig, SubsetsConfig
from metric_benchmark.config.yaml_source import read_yaml
from metric_benchmark.errors import ConfigError
from metric_benchmark.hashing import digest_json

GENERATOR = "size_stratified/1"
_MOST_SIZES = 6
#: How many subsets are drawn unless told otherwise; fewer where a small case has not so many.
USUAL_COUNT = 60


@dataclass(frozen=True)
class WrittenSubsets:
    """What `subsets generate` wrote: subsets by size; not changed when the file held the same already."""

    path: Path
    counts: dict[int, int]
    is_changed: bool


def spread_sizes(n_tasks: int) -> tuple[int, ...]:
    """Returns up to six sizes, evenly spread from a tenth to four fifths of the tasks."""
    low = max(1, round(0.1 * n_tasks))
    high = max(low, round(0.8 * n_tasks))
    steps = min(_MOST_SIZES, high - low + 1)
    if steps == 1:
        return (low,)
    return tuple(low + round(i * (high - low) / (steps - 1)) for i in range(steps))


def draw_subsets(tasks: Sequence[str], *, seed: int, count: int, sizes: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """Draws distinct subsets, equally many of each size as far as there are so many.

    Args:
        tasks: all task ids of the case.
        seed: another seed draws others.
        count: how many in all.
        sizes: tasks per subset.

    Returns:
        Task ids by subset id, smallest subsets first; task ids in the case's order.

    Raises:
        ConfigError: a size is impossible, or there are not so many different subsets.
    """
    wrong = [size for size in sizes if not 1 <= size <= len(tasks)]
    if wrong or not sizes:
        raise ConfigError(f"subset sizes {_listed(wrong) or 'are missing'}: expected 1 to {len(tasks)} tasks a subset")
    shares = _shares({size: math.comb(len(tasks), size) for size in sorted(set(sizes))}, count)
    drawn: dict[str, tuple[str, ...]] = {}
    for size, number in shares.items():
        # Each size has its own generator, so that adding a size leaves the subsets of the others as they are.
        rng = random.Random(f"{GENERATOR}:{seed}:{size}")
        seen: set[tuple[str, ...]] = set()
        while len(seen) < number:
            # Only `random()` is promised to give the same on every Python; `sample` is not.
            keyed = sorted((rng.random(), place) for place in range(len(tasks)))
            chosen = tuple(tasks[place] for place in sorted(place for _, place in keyed[:size]))
            if chosen not in seen:
                seen.add(chosen)
                drawn[f"s{size:0{len(str(len(tasks)))}d}-{len(seen):0{len(str(number))}d}"] = chosen
    return drawn


def _shares(possible: dict[int, int], count: int) -> dict[int, int]:
    """Deals `count` out to the sizes, equally where a size has so many different subsets."""
    if sum(possible.values()) < count:
        raise ConfigError(
            f"{count} subsets were asked for, but only {sum(possible.values())} different ones of sizes "
            f"{_listed(possible)} exist; ask for fewer, or for more sizes"
        )
    shares = dict.fromkeys(possible, 0)
    for _ in range(count):
        poorest = min((size for size, most in possible.items() if shares[size] < most), key=lambda size: shares[size])
        shares[poorest] += 1
    return shares


def write_subsets(
    case_file: Path,
    *,
    seed: int,
    count: int | None = None,
    sizes: Sequence[int] | None = None,
    target: Path | None = None,
    replace: bool = False,
) -> WrittenSubsets:
    """Draws the subsets of a case and writes them to the file the case names, or to another.

    A file this wrote before is replaced; any other only with `replace`.

    Raises:
        ConfigError: the case file is wrong, the subsets cannot be drawn, or the file holds something else.
    """
    source = read_yaml(case_file)
    config = parse_model(source, CaseConfig)
    tasks = [task.id for task in config.tasks]
    wanted = tuple(sorted(set(sizes))) if sizes is not None else spread_sizes(len(tasks))
    if count is None:
        count = min(USUAL_COUNT, sum(math.comb(len(tasks), size) for size in wanted)) or USUAL_COUNT
    drawn = draw_subsets(tasks, seed=seed, count=count, sizes=wanted)
    path = target or case_file.parent / config.subsets.path
    text = _subsets_yaml(
        drawn,
        {"name": GENERATOR, "seed": seed, "count": count, "sizes": list(wanted), "tasks_sha256": digest_json(tasks)},
    )
    counts = dict(sorted(Counter(len(chosen) for chosen in drawn.values()).items()))
    if path.exists():
        if path.read_text(encoding="utf-8", errors="replace") == text:
            return WrittenSubsets(path, counts, is_changed=False)
        if not replace and not _is_drawn(path):
            raise ConfigError(
                f"{path}: exists and `subsets generate` did not write it; give another --output, or --force"
            )
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: its folder does not exist; make it first")
    path.write_text(text, encoding="utf-8")
    return WrittenSubsets(path, counts, is_changed=True)


def _is_drawn(path: Path) -> bool:
    """Tells whether a subsets file is one of ours: drawn, so that drawing it again loses nobody's work."""
    try:
        config = parse_model(read_yaml(path), SubsetsConfig)
    except ConfigError:
        return False
    return config.generator is not None and config.generator.get("name") == GENERATOR


def _subsets_yaml(subsets: dict[str, tuple[str, ...]], generator: dict[str, Any]) -> str:
    settings = "".join(f"  {key}: {value}\n" for key, value in generator.items())
    listed = "".join(
        f"  - {{id: {name}, tasks: [{', '.join(map(_quoted, tasks))}]}}\n" for name, tasks in subsets.items()
    )
    return (
        "# Drawn by `metric-benchmark subsets generate`; run it again rather than edit this file.\n"
        "schema: metric-benchmark/subsets/v1\n"
        "# Knew nothing of coverage or kills; the permutation test relies on that.\n"
        f"chosen_using: none\ngenerator:\n{settings}subsets:\n{listed}"
    )


def _quoted(task: str) -> str:
    """Quotes an id that YAML would not read as text, such as `007` or `on`."""
    return task if yaml.safe_load(task) == task else f'"{task}"'


def _listed(numbers: Sequence[int] | dict[int, int]) -> str:
    return ", ".join(map(str, numbers))
