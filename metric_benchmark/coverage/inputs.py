# SPDX-License-Identifier: Apache-2.0
"""Files that a metric's settings name: found below the experiment's folders, digested, given by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from metric_benchmark.errors import ConfigError, Problem
from metric_benchmark.hashing import digest_path

CASE = "{case}"

Locate = Callable[[str], Path]


def locator(place: str, case_id: str, base: Path | None, roots: Iterable[Path] = ()) -> Locate:
    """Returns a function that turns a path written in settings into a real one.

    Args:
        place: what messages name.
        case_id: what `{case}` stands for.
        base: folder that relative paths start from.
        roots: further folders a path may lead into.
    """
    allowed = [folder.resolve() for folder in ([] if base is None else [base]) + list(roots)]

    def locate(written: str) -> Path:
        path = ((base or Path()) / written.replace(CASE, case_id)).resolve()
        if allowed and not any(path.is_relative_to(folder) for folder in allowed):
            raise ConfigError(
                Problem(
                    place, f"{written} leads out of {', '.join(map(str, allowed))}; move the file or declare a root"
                )
            )
        if not path.exists():
            raise ConfigError(Problem(place, f"{written}: no such file or folder (looked for {path})"))
        return path

    return locate


def digest_files(files: Mapping[str, Path]) -> dict[str, str]:
    """Returns the digest of each file or folder a metric reads."""
    return {name: digest_path(path) for name, path in sorted(files.items())}
