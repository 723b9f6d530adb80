# SPDX-License-Identifier: Apache-2.0
"""What makes a trial that was paid for worthless, and what does not: trial keys and config hashes of real inputs."""

from __future__ import annotations

import hashlib
import json
import shutil
import textwrap

import pytest

from metric_benchmark import keys, variants
from metric_benchmark.config import load_experiment
from metric_benchmark.errors import ConfigError
from metric_benchmark.execution.variant import Variant
from metric_benchmark.keys import import_path_digest, trial_keys
from metric_benchmark.variants import resolve_variants

BUNDLE = "agent:\n    bundle: {path: agent}\n    entry: 'agent:Agent'\n    kwargs: {level: 1}"


@pytest.fixture
def bundled(unsigned):
    """The experiment with an agent of its own, two operators, and a mutant with another agent."""
    unsigned.write("agent/agent.py", "class Agent: ...\n")
    unsigned.edit(
        "case.yaml",
        ("agent: {name: oracle}", BUNDLE),
        ("  - id: idle", "  - id: blind\n    operator: {name: tool_removal, params: {commands: [grep]}}\n  - id: idle"),
    )
    unsigned.sign()
    return unsigned


def resolve(folder="exp") -> dict[str, Variant]:
    return {variant.variant_id: variant for variant in resolve_variants(load_experiment(folder))}


def changed(before: dict[str, Variant], after: dict[str, Variant]) -> dict[str, list[str]]:
    """Returns the tasks whose trials would be run again, by variant; variants without any are left out."""
    return {
        name: tasks
        for name, variant in before.items()
        if (tasks := [task for task, key in variant.trial_keys.items() if after[name].trial_keys.get(task) != key])
    }


ALL = {name: ["alpha", "beta", "gamma"] for name in ("baseline", "control-1", "short", "blind", "idle")}
OF_THE_BASELINE = {name: tasks for name, tasks in ALL.items() if name != "idle"}


def test_roles_in_the_order_they_run(bundled):
    assert [(v.variant_id, v.role, v.attempts) for v in resolve().values()] == [
        ("baseline", "baseline", 1),
        ("control-1", "control", 1),
        ("short", "mutant", 1),
        ("blind", "mutant", 1),
        ("idle", "mutant", 1),
    ]


def test_baseline_and_control_have_the_same_keys_and_mutants_others(bundled):
    found = resolve()
    assert found["control-1"].trial_keys == found["baseline"].trial_keys
    assert len({v.trial_keys["alpha"] for v in found.values()}) == 4
    assert len(set(found["baseline"].trial_keys.values())) == 3


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("execution.yaml", "baseline: {attempts: 1}", "baseline: {attempts: 7}"),
        ("execution.yaml", "mutant: {attempts: 1}", "mutant: {attempts: 2}"),
        ("execution.yaml", "count: 1", "count: 3"),
        ("execution.yaml", "reward_key: reward", "reward_key: reward\nconcurrency: 9"),
        ("execution.yaml", "reward_key: reward", "reward_key: reward\ninfrastructure_retries: 0"),
        ("execution.yaml", "reward_key: reward", "reward_key: reward\nbudget: {max_trials: 3}"),
        ("execution.yaml", "reward_key: reward", "reward_key: reward\ntimeouts: {job_s: 60}"),
        ("execution.yaml", "reward_key: reward", "reward_key: reward\nmax_trials_without_verdict: 3"),
        ("analysis.yaml", "min_pass_share: 0.8", "min_pass_share: 0.5"),
        ("experiment.yaml", "name: small", "name: large"),
        ("case.yaml", "case_id: desk", "case_id: depot"),
        ("case.yaml", "id: short", "id: brief"),
        ("description.yaml", "A desk", "Another desk"),
        ("subsets.yaml", "[alpha, beta]", "[alpha]"),
    ],
)
def test_what_costs_nothing(bundled, name, old, new):
    before = resolve()
    bundled.edit(name, (old, new))
    bundled.sign()
    after = resolve()
    after |= {"short": after["brief"]} if "brief" in after else {}
    assert changed(before, after) == {}


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("execution.yaml", "reward_key: reward", "reward_key: score", ALL),
        ("execution.yaml", "reward_key: reward", "reward_key: reward\ntimeouts: {agent_multiplier: 2}", ALL),
        ("execution.yaml", "reward_key: reward", "reward_key: reward\ntimeouts: {verifier_multiplier: 2}", ALL),
        ("execution.yaml", "environment: docker", "environment: {type: docker, kwargs: {a: 1}}", ALL),
        ("execution.yaml", "environment: docker", "environment: daytona", ALL),
        ("case.yaml", "{level: 1}", "{level: 2}", OF_THE_BASELINE),
        ("case.yaml", "{level: 1}", "{level: 1}\n    model_name: openai/x", OF_THE_BASELINE),
        ("case.yaml", "{level: 1}", "{level: 1}\n    env: {MODE: fast}", OF_THE_BASELINE),
        ("case.yaml", "agent:Agent", "agent:Other", OF_THE_BASELINE),
        ("case.yaml", "max_actions: 1", "max_actions: 2", {"short": ALL["short"]}),
        ("case.yaml", "params: {commands: [grep]}", "params: {commands: [grep]}, seed: 4", {"blind": ALL["blind"]}),
        ("case.yaml", "{name: nop}", "{name: oracle}", {"idle": ALL["idle"]}),
        ("agent/agent.py", "...", "pass", OF_THE_BASELINE),
        ("tasks/beta/instruction.md", "Write", "Please write", {name: ["beta"] for name in ALL}),
        ("tasks/beta/tests/test.sh", "echo 1", "echo 0", {name: ["beta"] for name in ALL}),
    ],
)
def test_what_is_run_again(bundled, name, old, new, expected):
    before = resolve()
    bundled.edit(name, (old, new))
    bundled.sign()
    assert changed(before, resolve()) == expected


def test_moving_the_experiment_and_renaming_the_bundle_costs_nothing(bundled, tmp_path):
    before = resolve()
    bundled.folder.rename(tmp_path / "moved")
    (tmp_path / "moved/agent").rename(tmp_path / "moved/my-agent")
    shutil.move(tmp_path / "moved/tasks/beta", tmp_path / "moved/tasks/b")
    case = tmp_path / "moved/case.yaml"
    case.write_text(case.read_text().replace("path: agent", "path: my-agent").replace("tasks/beta", "tasks/b"))
    from metric_benchmark.pins import sign_experiment

    sign_experiment(tmp_path / "moved")
    assert changed(before, resolve("moved")) == {}


def test_an_operators_code_touches_only_its_own_mutants(bundled, monkeypatch):
    before = resolve()
    real = keys.modules_digest

    def with_another_tool_removal(modules):
        return real(modules) + ("x" if "mutants/operators/tool_removal.py" in modules else "")

    monkeypatch.setattr(variants, "modules_digest", with_another_tool_removal)
    assert changed(before, resolve()) == {"blind": ALL["blind"]}


def test_the_shared_wrappers_code_touches_every_mutant_an_operator_makes(bundled, monkeypatch):
    before = resolve()
    monkeypatch.setattr(variants, "modules_digest", lambda modules: "x" if "mutants/agent.py" in modules else "y")
    assert changed(before, resolve()) == {"short": ALL["short"], "blind": ALL["blind"]}


def test_harbors_version_touches_everything(bundled, monkeypatch):
    before = resolve()
    monkeypatch.setattr(keys, "harbor_version", lambda: "99.0")
    assert changed(before, resolve()) == ALL


def test_attempts_are_in_the_config_hash_alone(bundled):
    before = resolve()
    bundled.edit("execution.yaml", ("mutant: {attempts: 1}", "mutant: {attempts: 2}"))
    after = resolve()
    assert after["baseline"].config_hash == before["baseline"].config_hash
    assert after["short"].config_hash != before["short"].config_hash
    assert after["short"].trial_keys == before["short"].trial_keys


def test_no_path_of_this_machine_is_in_a_key(bundled, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(keys, "digest_json", lambda value: seen.append(value) or "0" * 64)
    monkeypatch.setattr(variants, "digest_json", lambda value: seen.append(value) or "0" * 64)
    resolve()
    assert seen
    assert str(tmp_path) not in json.dumps(seen)


def test_a_trial_key_by_hand(monkeypatch):
    monkeypatch.setattr(keys, "harbor_version", lambda: "0.26.0")
    found = trial_keys(
        {"one": "t"}, agent={"name": "oracle"}, code_sha256="c", environment={"type": "local"},
        timeouts={"agent": 1.0}, reward_key="reward",
    )  # fmt: skip
    assert found["one"] == keys.digest_json(
        {
            "agent": {"name": "oracle"}, "code": "c", "task": "t", "environment": {"type": "local"},
            "timeouts": {"agent": 1.0}, "reward_key": "reward", "harbor": "0.26.0",
        }
    )  # fmt: skip


def test_an_import_path_is_digested_with_its_whole_package(tmp_path, monkeypatch):
    package = tmp_path / "some_agents"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("class A: ...\n")
    (package / "two.py").write_text("X = 1\n")
    (tmp_path / "single_agent.py").write_text(textwrap.dedent("class B: ...\n"))
    monkeypatch.syspath_prepend(str(tmp_path))
    import_path_digest.cache_clear()
    first = import_path_digest("some_agents.one:A")
    assert import_path_digest("single_agent:B") != first
    (package / "two.py").write_text("X = 2\n")
    import_path_digest.cache_clear()
    assert import_path_digest("some_agents.one:A") != first
    with pytest.raises(ConfigError, match="no package 'not_there' is installed here; install it or correct the path"):
        import_path_digest("not_there.x:Y")


def test_a_trial_key_is_the_digest_of_one_json_object_and_keys_of_many_tasks_are_the_same():
    shared = {
        "agent": {"z": 1, "name": 'ü "x"'}, "code_sha256": "c" * 64, "environment": {"type": "local"},
        "timeouts": {"agent": 1.5}, "reward_key": "reward",
    }  # fmt: skip
    parts = {**shared, "code": shared["code_sha256"], "harbor": keys.harbor_version(), "task": "t" * 64}
    del parts["code_sha256"]
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert trial_keys({"one": "t" * 64, "two": "u" * 64}, **shared)["one"] == expected
