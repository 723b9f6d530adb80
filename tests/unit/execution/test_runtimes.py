# SPDX-License-Identifier: Apache-2.0
"""Which versions a runtime's Harbor is held to: those that are imported here."""

from __future__ import annotations

from metric_benchmark.execution.runtimes import _own_versions


def test_a_package_that_is_there_twice_is_the_one_that_is_imported(tmp_path, monkeypatch):
    for folder, name, version in (("first", "Odd.Name_x", "2.0"), ("second", "odd-name-x", "1.0")):
        info = tmp_path / folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.setattr("sys.path", [str(tmp_path / "first"), str(tmp_path / "second")])
    assert _own_versions() == "odd-name-x==2.0\n"
