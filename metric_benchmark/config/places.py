# SPDX-License-Identifier: Apache-2.0
"""Looks at what is where a path leads, and beside it: for whoever named a place a little off."""

from __future__ import annotations

import difflib
from pathlib import Path

from metric_benchmark.errors import ConfigError


def require_experiment(folder: Path) -> None:
    """Tells whoever is a folder too high where the experiment is.

    Raises:
        ConfigError: the folder has no experiment.yaml.
    """
    if (folder / "experiment.yaml").exists():
        return
    try:
        below = sorted(f"{path.parent.name}/" for path in folder.glob("*/experiment.yaml"))
    except OSError:
        below = []
    shown = ", ".join(below[:3]) + (" ..." if len(below) > 3 else "")
    hint = f"{shown} {'has' if len(below) == 1 else 'have'} one" if below else "`metric-benchmark init DIR` writes one"
    raise ConfigError(f"no experiment.yaml in {folder.absolute()}; {hint}")


def neighbour(path: Path) -> str | None:
    """Returns the folder beside one that is missing whose name is most like its name."""
    try:
        names = sorted(found.name for found in path.parent.iterdir() if found.is_dir())
    except OSError:
        return None
    return next(iter(difflib.get_close_matches(path.name, names, n=1)), None)


def has_task_toml(folder: Path) -> bool:
    """Whether a folder is a Harbor task, as far as one can look."""
    try:
        return (folder / "task.toml").is_file()
    except OSError:
        # What cannot be entered has no task.toml for us; its digest says why.
        return True
