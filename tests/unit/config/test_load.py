# SPDX-License-Identifier: Apache-2.0
"""What is loaded, at which level, and what each level leaves alone."""

from __future__ import annotations

import hashlib
import shutil

import pytest

from metric_benchmark.config import load_experiment
from metric_benchmark.errors import ConfigError, PinError


def test_a_folder_and_its_file_name_the_same_experiment(project):
    by_folder, by_file = load_experiment("exp"), load_experiment("exp/experiment.yaml")
    assert by_folder.name == by_file.name == "small"
    assert by_folder.folder == project.folder
    assert [case.case_id for case in by_folder.cases] == ["desk"]
    assert [task.id for task in by_folder.cases[0].config.tasks] == ["alpha", "beta", "gamma"]


def test_digests_are_those_of_the_bytes_that_were_read(project):
    experiment = load_experiment("exp")
    for name, digest in [
        ("cases.yaml", experiment.cases_sha256),
        ("execution.yaml", experiment.execution_sha256),
        ("analysis.yaml", experiment.analysis_sha256),
        ("case.yaml", experiment.cases[0].sha256),
    ]:
        assert digest == hashlib.sha256((project.folder / name).read_bytes()).hexdigest()


def test_analysis_needs_no_task_folders_but_execution_does(project):
    shutil.rmtree(project.folder / "tasks")
    assert load_experiment("exp", level="analysis").cases[0].config.tasks[2].id == "gamma"
    for level in ("execution", "all"):
        with pytest.raises(ConfigError, match="task folder tasks/alpha does not exist"):
            load_experiment("exp", level=level)


def test_analysis_still_checks_the_pins_of_its_own_files(project):
    project.edit("description.yaml", ("A desk", "Another desk"))
    with pytest.raises(PinError, match=r"description\.yaml has changed"):
        load_experiment("exp", level="analysis")


def test_defaults_of_what_may_be_left_out(project):
    execution = load_experiment("exp").execution
    assert (execution.concurrency, execution.infrastructure_retries) == (2, 2)
    assert execution.roles.screening is None
    assert execution.max_trials_without_verdict == 0
    assert load_experiment("exp").analysis.correlation.replicates == 2000


def test_what_may_be_called_public(project):
    project.edit("case.yaml", ("agent: {name: oracle}", 'agent: {name: oracle, env: {URL: "${URL}", A_KEY: "${B}"}}'))
    project.edit("execution.yaml", ("environment:", "public_variables: [URL, B, MY_TOKEN]\nenvironment:"))
    with pytest.raises(ConfigError) as refused:
        load_experiment("exp", verify=False)
    assert [str(problem).partition("]: ")[2] for problem in refused.value.problems] == [
        "'B' cannot be public: exp/case.yaml gives it as 'A_KEY', which looks like the key of a secret",
        "'MY_TOKEN' cannot be public: its name looks like that of a secret",
    ]
    project.edit("execution.yaml", (", B, MY_TOKEN]", "]"))
    assert load_experiment("exp", verify=False).execution.public_variables == ("URL",)


def test_what_a_task_or_a_url_takes_for_a_secret_is_not_public(project):
    project.edit(
        "case.yaml", ("agent: {name: oracle}", 'agent: {name: oracle, kwargs: {db: "pg://${U}:${PW}@${H}/x"}}')
    )
    project.edit(
        "tasks/alpha/task.toml",
        ("[environment]", '[verifier.env]\nJUDGE_KEY = "${J:-}"\nSITE = "http://u:a${W}@h"\n[environment]'),
    )
    project.edit("execution.yaml", ("environment:", "public_variables: [U, PW, H, J, W]\nenvironment:"))
    with pytest.raises(ConfigError) as refused:
        load_experiment("exp", verify=False)
    assert [str(problem).partition("]: ")[2] for problem in refused.value.problems] == [
        "'PW' cannot be public: exp/case.yaml gives it as the password in a URL",
        "'J' cannot be public: tasks/alpha/task.toml gives it as 'JUDGE_KEY', which looks like the key of a secret",
        "'W' cannot be public: tasks/alpha/task.toml gives it as the password in a URL",
    ]


def test_an_unknown_case_is_refused_with_those_there_are(project):
    with pytest.raises(ConfigError, match="no case 'dsk'; the experiment has: desk"):
        load_experiment("exp").case("dsk")


def test_two_cases_of_one_id_are_refused(project):
    project.write("other.yaml", project.read("case.yaml"))
    project.write("cases.yaml", project.read("cases.yaml").split("    sha256")[0] + "  - path: other.yaml\n")
    with pytest.raises(ConfigError) as refused:
        project.sign()
    assert str(refused.value) == "exp/cases.yaml:4: cases[1]: case id 'desk' is also that of exp/case.yaml"


def test_of_the_cases_that_are_not_asked_for_only_the_pins_are_checked(project):
    text = "case_id: other\nnot a case file: [\n"
    project.write("other.yaml", text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    project.write("cases.yaml", project.read("cases.yaml") + f"  - path: other.yaml\n    sha256: {digest}\n")
    loaded = load_experiment("exp", level="analysis", only="desk")
    assert [case.case_id for case in loaded.cases] == ["desk"]

    project.write("other.yaml", "case_id: other\nchanged: [\n")
    with pytest.raises(PinError, match=r"other\.yaml has changed"):
        load_experiment("exp", level="analysis", only="desk")


def test_a_case_file_that_says_its_id_in_another_way_is_parsed(project):
    project.write("case.yaml", project.read("case.yaml").replace("case_id: desk", "case_id: 'desk'"))
    assert load_experiment("exp", verify=False, only="desk").case("desk").case_id == "desk"


def test_an_unknown_case_that_is_asked_for_alone_is_refused_with_those_there_are(project):
    with pytest.raises(ConfigError, match="no case 'sofa'; the experiment has: desk"):
        load_experiment("exp", only="sofa").case("sofa")


def test_a_value_and_its_line_survive_comments_and_blocks(project):
    project.edit("case.yaml", ("tasks:\n", "# one\n\n# two\ntasks:\n"))
    source = load_experiment("exp", verify=False).cases[0].source
    assert source.lines["tasks", 2, "path"] == project.line("case.yaml", "path: tasks/gamma")
    assert source.place(("tasks", 2, "nothing")) == f"exp/case.yaml:{source.lines['tasks', 2]}: tasks[2].nothing"
