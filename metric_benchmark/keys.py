# SPDX-License-Identifier: Apache-2.0
"""Trial keys and config hashes: what decides whether a trial that was paid for still counts."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metric_benchmark.errors import ConfigError
from metric_benchmark.hashing import canonical_json, digest_file, digest_folder, digest_json

#: What Harbor is given for an agent from a bundle, and for a mutant made by an operator.
BUNDLE_AGENT = "metric_benchmark.execution.agents:BundleAgent"
MUTANT_AGENT = "metric_benchmark.mutants.agent:MutantAgent"

#: Bumped by hand when the local sandbox changes in a way that can change a trial's outcome.
SANDBOX_PROTOCOL = 1


def trial_keys(
    task_sha256: Mapping[str, str],
    *,
    agent: Mapping[str, Any],
    code_sha256: str,
    environment: Mapping[str, Any],
    timeouts: Mapping[str, float],
    reward_key: str,
) -> dict[str, str]:
    """Digests everything that can change a task's trials; attempts, concurrency and retries are outside.

    What the tasks share is digested once.

    Args:
        task_sha256: pins of the task folders, by task id.
        agent: the variant's agent identity: no path of a machine, secrets only as `${VAR}`.
        code_sha256: digest of the agent's and the operator's code.
        environment: identity of where the trials run.
        timeouts: the factors on the tasks' timeouts.
        reward_key: which reward counts.

    Returns:
        64 hex digits by task id.
    """
    shared = {
        "agent": dict(agent),
        "code": code_sha256,
        "environment": dict(environment),
        "harbor": harbor_version(),
        "reward_key": reward_key,
    }
    # The canonical JSON of one object, in three pieces: its keys are sorted, and only `task` differs.
    start = hashlib.sha256(canonical_json(shared)[:-1] + b',"task":')
    end = b"," + canonical_json({"timeouts": dict(timeouts)})[1:]
    keys: dict[str, str] = {}
    for task, sha256 in task_sha256.items():
        digest = start.copy()
        digest.update(canonical_json(sha256) + end)
        keys[task] = digest.hexdigest()
    return keys


def config_hash(trial_keys: Mapping[str, str], attempts: int) -> str:
    """Digests a variant's trial keys (by task id) and attempts: for display and freshness."""
    return digest_json({"trial_keys": dict(trial_keys), "attempts": attempts})


@functools.cache
def harbor_version() -> str:
    """Returns the installed Harbor's version, without importing it."""
    return importlib.metadata.version("harbor")


@functools.cache
def import_path_digest(import_path: str) -> str:
    """Digests the files of the package an import path `pkg.mod:Class` belongs to.

    Harbor's own code counts by Harbor's version, which is in every trial key.

    Raises:
        ConfigError: the package cannot be found.
    """
    top = import_path.partition(":")[0].partition(".")[0]
    if top == "harbor":
        return harbor_version()
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise ConfigError(
            f"import path {import_path!r}: no package {top!r} is installed here; install it or correct the path"
        )
    if spec.submodule_search_locations:
        return digest_json([digest_folder(Path(folder)) for folder in spec.submodule_search_locations])
    if spec.origin is None or not Path(spec.origin).is_file():
        raise ConfigError(f"import path {import_path!r}: {top!r} has no source file whose digest could be recorded")
    return digest_file(Path(spec.origin))


def modules_digest(modules: tuple[str, ...]) -> str:
    """Digests files of this package, given relative to it."""
    root = Path(__file__).parent
    return digest_json([[name, digest_file(root / name)] for name in modules])
