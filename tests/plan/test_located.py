"""YAML with line numbers: every scalar stays the text that was written, and bad YAML is refused by line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.errors import PlanError
from dpcli.plan.load import read_yaml


def test_scalars_stay_text_and_lines_are_known() -> None:
    text = (
        "a: 010\n'b': yes\nc:\n  - 1e3\n  - ~\n  - '~'\n  - {d: 2020-01-01, e: null, f: ''}\ng:\nh: |\n  x\n"
    )
    found = read_yaml(text, "x.yaml")
    assert found.value == {
        "a": "010",
        "b": "yes",
        "c": ["1e3", None, "~", {"d": "2020-01-01", "e": None, "f": ""}],
        "g": None,
        "h": "x\n",
    }
    assert found.lines == {
        (): 1,
        ("a",): 1,
        ("b",): 2,
        ("c",): 3,
        ("c", 0): 4,
        ("c", 1): 5,
        ("c", 2): 6,
        ("c", 3): 7,
        ("c", 3, "d"): 7,
        ("c", 3, "e"): 7,
        ("c", 3, "f"): 7,
        ("g",): 8,
        ("h",): 9,
    }
    assert found.where(("c", 3, "d")) == "x.yaml, line 7"
    assert found.where(("c", 3, "missing", 0)) == "x.yaml, line 7"
    assert read_yaml("", "x.yaml").where(("a",)) == "x.yaml"


def test_anchors_and_aliases() -> None:
    found = read_yaml("a: &x {k: [1, 2]}\nb: *x\nc: &x 3\nd: *x\n", "x.yaml")
    assert found.value == {"a": {"k": ["1", "2"]}, "b": {"k": ["1", "2"]}, "c": "3", "d": "3"}
    assert found.lines["b",] == 2
    assert found.lines["b", "k", 1] == 1


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


UNFIT = "this does not fit the lines above; check the indentation and quotes"
UNCLOSED = "a list or mapping in brackets lacks a ',' or its closing"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:\n\tb: 1\n", "2: a tab stands where only spaces may; indent with spaces"),
        ("a: 1\nb: @x\n", "2: a value can't start with '@'; put the text in quotes"),
        ("a: 1\n b: 2\n", "2: a ':' stands where none is expected; check the indentation and quotes"),
        ("a: 1\nb\nc: 2\n", "3: a ':' is missing after a key (see line 2)"),
        ("a: 1\nb: [1, 2\nc: 3\n", f"3: {UNCLOSED} ']' (see line 2)"),
        ("a: {b: 1\n", f"2: {UNCLOSED} '}}' (see line 1)"),
        ("a: [\n", "2: the file ends before this value does"),
        ("a: 'x\nb: 1\n", "3: a quote is opened and never closed (see line 1)"),
        ('a: "\\q"\n', "1: '\\q' means nothing in double quotes; use single ones"),
        ("a:\n  b: 1\n c: 2\n", f"3: {UNFIT} (see line 1)"),
        ("a: - b\n", "1: a list's '- ' stands where none is expected; start a new line with it"),
        ("a: 1\nb: *x\n", "2: the alias *x has no anchor &x above it"),
        ("a: 1\n---\nb: 2\n", "2: a second document starts here; a file holds one (see line 1)"),
        ("a: 1\nb: \x07\n", "2: an invisible control character; delete it"),
        ('a: "\\ud800"\n', "1: the text is not valid Unicode"),
        ("a: 1\nb: 2\na: 3\n", "3: the key 'a' is already set on line 1"),
        ("a: 1\n'a': 3\n", "2: the key 'a' is already set on line 1"),
        ("x: {a: 1, a: 2}\n", "1: the key 'a' is already set on line 1"),
        ("[a]: 1\n", "1: a key must be a word; put it in quotes if it is one"),
        ("~: 1\n", "1: a key must be a word; put it in quotes if it is one"),
        ("a: &x {b: 1}\nc: {<<: *x}\n", "2: the merge key << is not supported; write the keys out"),
        (
            "a: !!python/name:os.system x\n",
            "1: the tag !!python/name:os.system has no meaning here; delete it",
        ),
        ("a: !secret x\n", "1: the tag !secret has no meaning here; delete it"),
        ("a: &a [*a]\n", "1: nested more than 60 levels deep"),
        ("[" * 70 + "]" * 70, "1: nested more than 60 levels deep"),
        ("[" * 2000, "0: nested more than 60 levels deep"),
        (BOMB, "1: its aliases repeat more than 100,000 values"),
    ],
)
def test_yaml_that_is_refused(text: str, words: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_yaml(text, "x.yaml")
    assert str(caught.value) == ("x.yaml" if words[0] == "0" else "x.yaml, line ") + words.lstrip("0")


def test_a_large_file_without_aliases_is_read() -> None:
    labels = [f"label {number}" for number in range(3000)]
    assert read_yaml("\n".join(f"- {label}" for label in labels), "x.yaml").value == labels


words = st.text(st.characters(codec="utf-8", categories=["L", "M", "N", "P", "S", "Zs"]), max_size=12)
values = st.recursive(
    words
    | st.integers().map(str)
    | st.decimals(allow_nan=False).map(str)
    | st.sampled_from(["null", "yes", "~"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(values)
def test_what_is_written_in_quotes_is_read_again(value: object) -> None:
    text = json.dumps({"x": value}, ensure_ascii=False)  # JSON is YAML
    assert read_yaml(text, "x.yaml").value == {"x": value}
    assert read_yaml(json.dumps({"x": value}, ensure_ascii=False, indent=2), "x.yaml").value == {"x": value}


@settings(deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False) | st.integers() | st.floats(allow_nan=False))
def test_numbers_out_of_quotes_stay_the_digits_written(number: object) -> None:
    assert read_yaml(f"[{number}, {{x: {number}}}]", "x.yaml").value == [str(number), {"x": str(number)}]
