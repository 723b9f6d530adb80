# SPDX-License-Identifier: Apache-2.0
"""Which assets and partitions bring an experiment up to date, and in what order: the work of the library driver."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from metric_benchmark_dagster.partitions import PartitionKeys, split_key

type IsCurrent = Callable[[str, str | None], bool]


@dataclass(frozen=True)
class Unit:
    """Assets that are materialised (or observed) together, for one partition key."""

    assets: tuple[str, ...]
    key: str | None = None

    def __str__(self) -> str:
        return f"{', '.join(self.assets)}" + (f" of {self.key}" if self.key else "")


OBSERVATIONS = (Unit(("variant_inputs",)), Unit(("case_inputs",)))
CASE_ASSETS = ("subset_scores", "coverage", "correlation")
END = Unit(("execution_manifest", "report"))
#: What within a unit is made from what.
MADE_FROM = {"correlation": ("subset_scores", "coverage"), "report": ("execution_manifest",)}


def plan_units(keys: PartitionKeys, is_current: IsCurrent) -> dict[Unit, frozenset[Unit]]:
    """Plans what is not up to date and all that depends on it.

    Args:
        keys: the experiment's partitions.
        is_current: whether an asset's partition is fresh and the Dagster instance knows it.

    Returns:
        What each unit waits for, upstream first; empty when everything is up to date. Inputs are observed first, since
        Dagster ignores a first observation after a materialisation.
    """
    graph = _all_units(keys)
    todo: set[Unit] = set()
    for unit, needs in graph.items():
        if not needs.isdisjoint(todo) or not all(is_current(asset, unit.key) for asset in unit.assets):
            todo.add(unit)
    observed = frozenset(OBSERVATIONS)
    planned = {unit: (needs & todo) | observed for unit, needs in graph.items() if unit in todo}
    return {**{unit: frozenset[Unit]() for unit in OBSERVATIONS}, **planned} if planned else {}


def ready_units(plan: Mapping[Unit, frozenset[Unit]]) -> list[Unit]:
    """Returns the units of a plan that wait for no other, in its order; observing inputs is nobody's to wait for."""
    return [unit for unit, needs in plan.items() if unit not in OBSERVATIONS and needs <= frozenset(OBSERVATIONS)]


def without(unit: Unit, assets: Collection[str]) -> Unit | None:
    """Returns a unit less some of its assets and what it makes from them; None where nothing is left."""
    gone = set(assets).intersection(unit.assets)
    left: list[str] = []
    for asset in unit.assets:
        if asset in gone or not gone.isdisjoint(MADE_FROM.get(asset, ())):
            gone.add(asset)
        else:
            left.append(asset)
    return replace(unit, assets=tuple(left)) if left else None


def _all_units(keys: PartitionKeys) -> Mapping[Unit, frozenset[Unit]]:
    raw = {key: Unit(("raw_results",), key) for key in keys.roles}
    graph: dict[Unit, frozenset[Unit]] = {unit: frozenset() for unit in raw.values()}
    shared: dict[str, set[Unit]] = {case_id: set() for case_id in keys.cases}
    for key, role in keys.roles.items():
        if role in ("baseline", "screening"):
            shared[split_key(key)[0]].add(raw[key])
    kills: dict[str, set[Unit]] = {case_id: set() for case_id in keys.cases}
    for key in keys.scored:
        case_id = split_key(key)[0]
        unit = Unit(("mutant_scores",), key)
        graph[unit] = frozenset({raw[key], *shared[case_id]})
        kills[case_id].add(unit)
    cases = {case_id: Unit(CASE_ASSETS, case_id) for case_id in keys.cases}
    graph |= {unit: frozenset(kills[case_id]) for case_id, unit in cases.items()}
    graph[END] = frozenset(cases.values()) | frozenset(raw.values())
    return graph
