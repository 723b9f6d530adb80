# SPDX-License-Identifier: Apache-2.0
"""Hooks of the documentation's build: pages of the navigation that are still being written are left out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Pages that are being written; a name is taken out of here when its page has landed.
AWAITED: frozenset[str] = frozenset()


def on_config(config: Any) -> Any:
    """Drops awaited pages that are not there; any other missing page stays, and is an error."""
    config["nav"] = _kept(config["nav"], Path(config["docs_dir"]))
    return config


def _kept(nav: list[Any], docs: Path) -> list[Any]:
    found: list[Any] = []
    for entry in nav:
        title, target = next(iter(entry.items()))
        if isinstance(target, list):
            found.append({title: _kept(target, docs)})
        elif target not in AWAITED or (docs / target).exists():
            found.append(entry)
    return found
