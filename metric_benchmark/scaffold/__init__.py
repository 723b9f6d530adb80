# SPDX-License-Identifier: Apache-2.0
"""What `init` writes: a small experiment that runs at once, as files to be replaced one by one."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from metric_benchmark.config import load_experiment
from metric_benchmark.config.subsets import write_subsets
from metric_benchmark.errors import ConfigError
from metric_benchmark.evidence.writes import cannot_be_written
from metric_benchmark.pins import sign_experiment
from metric_benchmark.variants import variant_roles

_FILES = Path(__file__).parent / "files"
_N_SUBSETS, _SIZES, _SEED = 24, (1, 2, 3, 4), 1


@dataclass(frozen=True)
class Written:
    """What was written."""

    experiment: Path
    n_files: int
    n_trials: int


def write_experiment(folder: Path) -> Written:
    """Writes the experiment into a new or empty folder, draws its subsets and signs it.

    Raises:
        ConfigError: the folder holds something, or is a file.
        StorageError: it cannot be written.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder}: is a file; give a new or empty folder")
        some = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        if some:
            shown = ", ".join(some[:3]) + (" ..." if len(some) > 3 else "")
            raise ConfigError(f"{folder}: is not empty (it holds {shown}); give a new or empty folder")
        shutil.copytree(_FILES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        # An installed package may be read-only; its copy is for editing.
        for path in folder.rglob("*"):
            path.chmod(path.stat().st_mode | 0o600)
        write_subsets(folder / "case.yaml", seed=_SEED, count=_N_SUBSETS, sizes=_SIZES)
    except shutil.Error as error:
        # One entry a file that could not be copied: source, target, why.
        raise cannot_be_written(folder, str(error.args[0][0][2])) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise
        # Whatever it is (`/proc/x` does not exist and cannot be made), the folder is one that cannot be used.
        raise cannot_be_written(folder, error.strerror or type(error).__name__) from error
    sign_experiment(folder)
    experiment = load_experiment(folder)
    roles = experiment.execution.roles
    attempts = {
        "baseline": roles.baseline.attempts,
        "screening": roles.screening.attempts if roles.screening else 0,
        "control": roles.control.attempts if roles.control else 0,
        "mutant": roles.mutant.attempts,
    }
    n_trials = sum(
        attempts[role] * len(case.config.tasks)
        for case in experiment.cases
        for role in variant_roles(case.config, roles).values()
    )
    return Written(folder / "experiment.yaml", sum(len(files) for _, _, files in os.walk(folder)), n_trials)
