# SPDX-License-Identifier: Apache-2.0
"""Looks for the module an agent's `entry` names among the files of its bundle; nothing is imported."""

from __future__ import annotations

from pathlib import Path


def is_module(bundle: Path, name: str) -> bool:
    """Whether a bundle has a module or package of a dotted name, in whatever form Python can import it."""
    *folders, last = name.split(".")
    place = bundle.joinpath(*folders)
    return (place / last).is_dir() or any(place.glob(f"{last}.*"))


def lacking_module(bundle: Path, entry: str) -> str | None:
    """Says that a bundle does not have the module of `module:Class`, with what it has; None when it does."""
    module = entry.partition(":")[0]
    if is_module(bundle, module):
        return None
    held = sorted(path.relative_to(bundle).as_posix() for path in bundle.rglob("*.py"))
    shown = ", ".join(held[:5]) + (" ..." if len(held) > 5 else "")
    file = f"{module.replace('.', '/')}.py"
    return f"bundle `{bundle.name}` has no {file}; it holds {shown or 'no Python file'}"
