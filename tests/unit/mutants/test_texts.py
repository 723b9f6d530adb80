# SPDX-License-Identifier: Apache-2.0
"""The pure transformations: shell reading, sentences, garbling and corruption, with their laws."""

from __future__ import annotations

import random
import string
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metric_benchmark.mutants.operators.dropped_instruction import drop_sentence
from metric_benchmark.mutants.operators.observation_degradation import garble, truncate
from metric_benchmark.mutants.operators.write_corruption import corrupt, corrupting_command, written_files
from metric_benchmark.mutants.sentences import join_sentences, split_sentences
from metric_benchmark.mutants.shell import command_names

TEXTS = st.text(st.sampled_from("aB1. \n-!?`'\"#*/(){}$;|&<>\\=\t"), max_size=60)
WORDS = st.sampled_from(["grep", "cat", "sort", "head"])


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("grep x f", ("grep",)),
        ("cd /app && grep -rn 'a; b' . | sort -u > out.txt", ("cd", "grep", "sort")),
        ("/usr/bin/grep x f", ("grep",)),
        ("A=1 B='x y' grep x", ("grep",)),
        ("echo grep '&& grep' \"; grep\" # ; grep", ("echo",)),
        ("n=$(wc -l < f); echo \"$(awk 1 f)\" `date`", ("wc", "awk", "date", "echo")),
        ("echo $(( 1 + 2 )) ${x:-;}", ("echo",)),
        ("sudo -u bob bash -c 'sed s/a/b/ f > g; tac g'", ("sudo", "bash", "sed", "tac")),
        ("bash -lc \"ls | head -1\"", ("bash", "ls", "head")),
        ("find . -name x | xargs -I {} /usr/bin/head {}", ("find", "xargs", "head")),
        ("timeout -k 1 5s nice -n 5 tail -f x", ("timeout", "nice", "tail")),
        ("for f in *.txt; do wc $f; done", ("wc",)),
        ("if ! test -f a; then echo no; else rm a; fi", ("test", "echo", "rm")),
        ("(cd a; ls) || { pwd; }", ("cd", "ls", "pwd")),
        ("diff <(sort a) <(uniq b)", ("diff", "sort", "uniq")),
        ("cat <<EOF > f\ngrep x\nEOF\nls", ("cat", "ls")),
        ("cat <<-'E F'\n\tgrep\n\tE F\nls", ("cat", "ls")),
        ("cat <<< grep", ("cat",)),
        ("ls \\\n  -l 2>&1 >/dev/null", ("ls",)),
        ("eval \"grep x f\"", ("eval", "grep")),
        ("> f", ()),
        ("echo 'unterminated", ("echo",)),
        ("", ()),
    ],
)  # fmt: skip
def test_commands_a_line_runs(command, names):
    assert command_names(command) == names


@given(TEXTS)
@settings(max_examples=400, deadline=None)
def test_reading_a_line_always_ends(command):
    command_names(command)
    written_files(command)


@given(st.lists(WORDS, min_size=1, max_size=6), st.sampled_from([" | ", " && ", "; ", "\n", " || "]))
def test_joined_commands_are_read_in_order(names, separator):
    assert command_names(separator.join(f"{name} 'a | b' x" for name in names)) == tuple(names)


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_nesting_hides_nothing(names):
    command = "true"
    for name in names:
        command = f'{name} "$({command})"'
    assert set(names) <= set(command_names(command))


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("echo x > a.txt", ("a.txt",)),
        ("echo x >> 'a b.txt' 2> err.txt", ("'a b.txt'",)),
        ("x &> all.log; y >| z", ("all.log", "z")),
        ("ls > /dev/null 2>&1", ()),
        ("ls | tee -a one two", ("one", "two")),
        ("cp a b/", ("b/", "b/a")),
        ("mv x/a y", ("y", "y/a")),
        ("sed -i -e s/a/b/ -e s/c/d/ f g", ("f", "g")),
        ("sed -i.bak s/a/b/ f", ("f",)),
        ("sed s/a/b/ f", ()),
        ("dd if=a of=b", ("b",)),
        ("cat a > $(mktemp)", ()),
        ("grep '> no' a", ()),
        ("test 1 -gt 0", ()),
    ],
)
def test_files_a_line_writes(command, files):
    assert written_files(command) == files


INSTRUCTION = """# Task

Read /app/a.txt. Count the lines (e.g. 3 of them)! Is v1.2 there? Write "done." to `out.txt`.

- first item
- second item. With two sentences.
1. numbered
"""


def test_sentences_of_an_instruction():
    assert split_sentences(INSTRUCTION) == [
        "# Task\n\n",
        "Read /app/a.txt. ",
        "Count the lines (e.g. 3 of them)! ",
        "Is v1.2 there? ",
        'Write "done." to `out.txt`.\n\n',
        "- first item\n",
        "- second item. ",
        "With two sentences.\n",
        "1. numbered\n",
    ]


@given(TEXTS)
def test_sentences_joined_are_the_text(text):
    assert "".join(split_sentences(text)) == text
    assert join_sentences(split_sentences(text)) == text


@given(TEXTS, st.integers(-9, 9))
def test_dropping_a_sentence_removes_it_or_nothing(text, sentence):
    parts = split_sentences(text)
    left = drop_sentence(text, sentence)
    if 1 <= abs(sentence) <= len(parts):
        assert len("".join(left.split())) == len("".join(text.split())) - len(
            "".join(parts[sentence - 1 if sentence > 0 else sentence].split())
        )
    else:
        assert left == text


@given(st.text(max_size=40), st.integers(0, 50))
def test_truncation_is_a_prefix(text, keep):
    assert text.startswith(truncate(text, keep))
    assert len(truncate(text, keep)) == min(keep, len(text))


@given(st.text(string.printable, max_size=40), st.floats(0, 1), st.integers())
def test_garbling_keeps_the_kind_of_each_character(text, share, seed):
    garbled = garble(text, share, random.Random(seed))
    assert garbled == garble(text, share, random.Random(seed))
    assert len(garbled) == len(text)
    for new, old in zip(garbled, text, strict=True):
        assert (new.isdigit(), new.isupper(), new.islower()) == (old.isdigit(), old.isupper(), old.islower())
    if share == 1:
        assert all(new != old for new, old in zip(garbled, text, strict=True) if old.isalnum())


@pytest.mark.parametrize(
    ("how", "text", "expected"),
    [
        ("off_by_one", "total 41 kg\n9 x 9\nnone\n", "total 42 kg\n9 x 0\nnone\n"),
        ("drop_last_line", "a\nb\n", "a\n"),
        ("drop_last_line", "a\nb", "a\n"),
        ("drop_last_line", "", ""),
        ("empty", "a\n", ""),
    ],
)
def test_corruptions(how, text, expected):
    assert corrupt(text, how) == expected


@given(st.text(st.sampled_from("01289ab \n"), max_size=30), st.sampled_from(["off_by_one", "drop_last_line", "empty"]))
@settings(max_examples=40, deadline=None)
def test_corruption_in_the_shell_is_that_of_uploads(tmp_path_factory, text, how):
    folder = tmp_path_factory.mktemp("shell")
    (folder / "in").write_text(text)
    done = subprocess.run(
        ["sh", "-c", corrupting_command("cat in > out", ("out",), how)],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (folder / "out").read_text() == corrupt(text, how)
    assert bool(done.stderr) == (corrupt(text, how) != text)
