# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of docs/ that are made from the code: the reference of commands, JSON schemas of the YAML files.

`python -m tools.docs_pages` writes them, `make docs` does so too; a test fails when they are out of date.
"""

from __future__ import annotations

import json
from pathlib import Path

from metric_benchmark.cli.reference import cli_reference
from metric_benchmark.config.schemas import json_schemas

DOCS = Path(__file__).parents[1] / "docs"

_TOOLS = """\
# Commands

<!-- Written by `python -m tools.docs_pages` from the commands themselves; change them, not this page. -->

`metric-benchmark COMMAND --help` shows the same text. Results go to standard output, everything else to standard error;
`--json` prints a result as one JSON object. `--debug`, anywhere on the line, shows the traceback of an error.
`metric-benchmark --install-completion` sets up completion in your shell.

"""


def pages() -> dict[str, str]:
    """Returns the content of every page made from the code, by its path below docs/."""
    found = {"tools.md": _TOOLS + cli_reference()}
    for kind, schema in json_schemas().items():
        found[f"schemas/{kind}.json"] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    return found


def main() -> None:
    """Writes what has changed."""
    for name, text in pages().items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(DOCS.parent)}")  # noqa: T201 - a script's report


if __name__ == "__main__":
    main()
