"""Workloads: seeded and listed ones as they are described, and files in every form, with every mistake told."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dpcli.data.domain import Domain
from dpcli.errors import QueryError
from dpcli.query.parse import parse_condition
from dpcli.query.product import Query
from dpcli.query.workload import FORMS, Marginal, random_ranges, read_workload

DOMAIN = Domain.from_description(
    [
        {"name": "age", "kind": "ordinal", "range": [0, 3], "missing": "own-category"},
        {"name": "job", "kind": "nominal", "hierarchy": {"A": ["x", "y"], "B": ["z"]}},
        {"name": "sex", "kind": "nominal", "values": ["F", "M"]},
    ]
)


def masks(queries: list[Query], axis: int) -> Counter[tuple[bool, ...]]:
    return Counter(tuple(q.terms[0][axis].tolist()) for q in queries if axis in q.terms[0])


def test_each_attribute_is_restricted_by_its_kind() -> None:
    queries = random_ranges(DOMAIN, 6000)
    ages, jobs, sexes = (masks(queries, axis) for axis in range(3))
    ranges = {tuple(a <= i < b for i in range(5)) for a in range(4) for b in range(a + 1, 5)}
    assert set(ages) == ranges  # all ten, never the missing category
    assert max(ages.values()) < 1.3 * min(ages.values())
    assert set(jobs) == {
        (True, True, False),
        (True, False, False),
        (False, True, False),
        (False, False, True),
    }
    assert set(sexes) == {(True, False), (False, True)}


def test_every_number_of_predicates_is_equally_likely() -> None:
    sizes = Counter(len(query.terms[0]) for query in random_ranges(DOMAIN, 6000))
    assert set(sizes) == {1, 2, 3}
    assert max(sizes.values()) < 1.15 * min(sizes.values())


def test_the_same_seed_gives_the_same_queries() -> None:
    assert masks(random_ranges(DOMAIN, 20, 1), 0) == masks(random_ranges(DOMAIN, 20, 1), 0)
    assert masks(random_ranges(DOMAIN, 20, 1), 0) != masks(random_ranges(DOMAIN, 20, 2), 0)


def test_a_domain_of_one_cell() -> None:
    one = Domain.from_description([{"name": "a", "kind": "ordinal", "range": [0, 0]}])
    assert [query.cells((1,)) for query in random_ranges(one, 3)] == [1, 1, 1]
    assert np.all(random_ranges(one, 1)[0].terms[0][0])


def test_a_seed_still_draws_the_queries_that_it_drew() -> None:
    drawn = [query.text for query in random_ranges(DOMAIN, 5, seed=7)]
    assert drawn == [
        "sex = 'M'",
        "age = 3 and job = 'z'",
        "age <= 2 and job = 'z' and sex = 'M'",
        "job = 'A' and sex = 'F'",
        "age = 1 and job = 'x' and sex = 'F'",
    ]


def test_random_queries_are_written_as_they_can_be_asked() -> None:
    for query in random_ranges(DOMAIN, 200, seed=3):
        (term,) = query.terms
        (again,) = parse_condition(query.text, DOMAIN).terms
        assert again.keys() == {axis for axis, mask in term.items() if not mask.all()}
        for axis in again:
            np.testing.assert_array_equal(again[axis], term[axis])


def test_equal_ranges_share_a_mask_that_cannot_be_written_to() -> None:
    vectors = [mask for query in random_ranges(DOMAIN, 500) for mask in query.terms[0].values()]
    assert len({id(mask) for mask in vectors}) == 10 + 4 + 2
    with pytest.raises(ValueError, match="read-only"):
        vectors[0][0] = True


# --- by a rule --------------------------------------------------------------------------------------------


def texts(spec: str | Path, domain: Domain = DOMAIN) -> list[str]:
    return [query.text for query in read_workload(str(spec), domain) if isinstance(query, Query)]


def message(spec: str | Path, domain: Domain = DOMAIN) -> str:
    with pytest.raises(QueryError) as caught:
        read_workload(str(spec), domain)
    return str(caught.value)


def test_random_by_its_number_and_seed() -> None:
    assert texts("random:20") == [query.text for query in random_ranges(DOMAIN, 20)]
    assert (
        texts("random:20:4") == [query.text for query in random_ranges(DOMAIN, 20, 4)] != texts("random:20")
    )


def test_marginals() -> None:
    assert read_workload("marginals:1", DOMAIN) == [Marginal((0,)), Marginal((1,)), Marginal((2,))]
    assert read_workload("marginals:2", DOMAIN) == [Marginal((0, 1)), Marginal((0, 2)), Marginal((1, 2))]
    assert read_workload("marginals:3", DOMAIN) == [Marginal((0, 1, 2))]


def test_prefixes() -> None:
    queries = read_workload("prefixes:age", DOMAIN)
    assert texts("prefixes:age") == ["age = 0", "age <= 1", "age <= 2", "age is not null"]
    for stop, query in enumerate(queries, 1):
        assert isinstance(query, Query)
        assert query.terms[0][0].tolist() == [code < stop for code in range(5)]
    dates = Domain.from_description(
        [{"name": "a:b", "kind": "date", "range": ["2020-01-01", "2020-12-31"], "period": "quarter"}]
    )
    assert texts("prefixes:a:b", dates)[1] == "\"a:b\" <= '2020-Q2'"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            "random:0",
            "Workload 'random:0': the number of queries must be a whole number from 1 to 10,000,000."
            " Did you mean 'random:1'?",
        ),
        (
            "random:10000001",
            "Workload 'random:10000001': the number of queries must be a whole number from 1 to 10,000,000."
            " Did you mean 'random:10000000'?",
        ),
        (
            "random:many",
            "Workload 'random:many': the number of queries must be a whole number from 1 to 10,000,000.",
        ),
        (
            "random:-3",
            "Workload 'random:-3': the number of queries must be a whole number from 1 to 10,000,000."
            " Did you mean 'random:1'?",
        ),
        (
            "random:5:x",
            "Workload 'random:5:x': the seed must be a whole number of 0 or more, not 'x'.",
        ),
        (
            "random:5:1:2",
            "Workload 'random:5:1:2': the seed must be a whole number of 0 or more, not '1:2'.",
        ),
        (
            "marginals:9",
            "Workload 'marginals:9': the number of attributes must be a whole number from 1 to 3."
            " Did you mean 'marginals:3'?",
        ),
        ("marginals:", "Workload 'marginals:': the number of attributes must be a whole number from 1 to 3."),
        (
            "prefixes:agee",
            "Workload 'prefixes:agee': the release has no attribute 'agee'. Did you mean 'age'?"
            " Choose one of: age.",
        ),
        ("prefixes:sex", "Workload 'prefixes:sex': attribute 'sex' has no order. Choose one of: age."),
        ("randm:10", f"There is no file 'randm:10'. Did you mean 'random:10'? {FORMS}"),
        ("prefix:age", f"There is no file 'prefix:age'. Did you mean 'prefixes:age'? {FORMS}"),
        ("marginals", f"There is no file 'marginals'. Did you mean 'marginals:2'? {FORMS}"),
        ("queries.txt", f"There is no file 'queries.txt'. {FORMS}"),
        ("", f"The workload is empty. {FORMS}"),
        ("a\0b", f"Workload 'a\0b': the file can't be read (not a file name). {FORMS}"),
    ],
)
def test_a_wrong_spec(spec: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert message(spec) == problem


def test_the_forms_are_told() -> None:
    assert FORMS == (
        "A workload is random:N or random:N:SEED, marginals:K, prefixes:ATTR, or a file of conditions:"
        " .csv, .json, .jsonl, .yaml, or text with one condition a line."
    )


def test_no_attribute_has_an_order() -> None:
    domain = Domain.from_description([{"name": "wed", "kind": "boolean"}])
    assert message("prefixes:wed", domain) == (
        "Workload 'prefixes:wed': attribute 'wed' has no order. No attribute of the release has one."
    )


def test_too_many_queries_to_list() -> None:
    domain = Domain.from_description([{"name": f"a{k}", "kind": "boolean"} for k in range(40)])
    assert message("marginals:20", domain) == (
        "Workload 'marginals:20' stands for 137,846,528,820 queries; a workload has at most 10,000,000."
    )
    long = Domain.from_description([{"name": "id", "kind": "ordinal", "range": [1, 2 * 10**7]}])
    assert message("prefixes:id", long).startswith("Workload 'prefixes:id' stands for 20,000,000 queries;")


# --- from a file ------------------------------------------------------------------------------------------

ASKED = ["age >= 2", "sex = 'F' and age in (1, 2)", "age >= 2"]
YAML = """\
- age >= 2
- condition: sex = 'F' and age in (1, 2)
  note: [1, 2]
- {query: age >= 2}
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("w.txt", "# asked often\nage >= 2\n\n -- and\n  sex = 'F' and age in (1, 2)  \nage >= 2"),
        ("w", "age >= 2\r\nsex = 'F' and age in (1, 2)\r\nage >= 2\r\n"),
        ("w.sql", "\ufeffage >= 2\nsex = 'F' and age in (1, 2)\nage >= 2\n"),
        ("w.csv", "id,Query\n1,age >= 2\n\n2,\"sex = 'F' and age in (1, 2)\"\n3,age >= 2\n"),
        ("w.CSV", "\ufeffcondition,id\nage >= 2,1\n\"sex = 'F' and age in (1, 2)\",2\nage >= 2,3\n"),
        ("w.csv", "age >= 2\n\"sex = 'F' and age in (1, 2)\"\nage >= 2\n"),
        ("w.json", json.dumps(ASKED)),
        ("w.json", json.dumps({"queries": [{"query": ASKED[0]}, {"condition": ASKED[1]}, ASKED[2]]})),
        ("w.jsonl", "\n\n".join(json.dumps(text) for text in ASKED)),
        ("w.ndjson", "\n".join(json.dumps({"condition": text, "id": 1}) for text in ASKED)),
        ("w.yaml", YAML),
        ("w.yml", "queries:\n" + YAML),
        ("w.yaml", "- &a age >= 2\n- sex = 'F' and age in (1, 2)\n- *a\n"),
    ],
)
def test_a_file(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    queries = read_workload(str(path), DOMAIN)
    assert [query.text for query in queries if isinstance(query, Query)] == ASKED
    assert queries[0] is queries[2]  # a text is read once


def test_a_cut_inside_a_bin_is_taken_where_it_is_allowed(tmp_path: Path) -> None:
    domain = Domain.from_description([{"name": "pay", "kind": "ordinal", "range": [0, 100], "bin": 10}])
    path = tmp_path / "w.txt"
    path.write_text("pay < 10\npay < 25\n")
    assert message(path, domain).startswith(f"{path}, line 2: Attribute 'pay': a cut with < or >= 25 falls")
    query = read_workload(str(path), domain, interpolate=True)[1]
    assert isinstance(query, Query)
    assert query.terms[0][0].tolist() == [1, 1, 0.5, 0, 0, 0, 0, 0, 0, 0]


NO_ATTRIBUTE = "The release has no attribute 'agee'. Did you mean 'age'? It has: age, job, sex."


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("w.txt", "# one\n\nage = 1\nagee = 1\n", f", line 4: {NO_ATTRIBUTE}"),
        ("w.csv", 'n,query\n"a\nb",age = 1\n2,agee = 1\n', f", line 4: {NO_ATTRIBUTE}"),
        ("w.json", '["age = 1", {"query": "agee = 1"}]', f", entry 2: {NO_ATTRIBUTE}"),
        ("w.jsonl", '"age = 1"\n\n"agee = 1"', f", line 3: {NO_ATTRIBUTE}"),
        ("w.yaml", "- age = 1\n- note: 1\n  query: agee = 1\n", f", line 2: {NO_ATTRIBUTE}"),
        (
            "w.csv",
            "n,query\n1,\n",
            ", line 2: The condition is empty; write one such as \"age >= 65\", or 'true' for everything.",
        ),
        (
            "w.csv",
            "id,querry\n1,age = 1\n",
            ", line 1: no column is called 'query' or 'condition'. Did you mean 'query'? It has: id, querry."
            " If these are conditions, put those with commas in double quotes.",
        ),
        (
            "w.csv",
            "query\nage in (1, 2)\n",
            ", line 2: the row has 2 fields, and the first row has 1; put a condition with commas in double quotes.",
        ),
        (
            "w.csv",
            'query\n"age" = 1\n',
            ", line 2: not readable as CSV (',' expected after '\"'). Put a condition with double quotes in double"
            " quotes itself, and double those inside.",
        ),
        (
            "w.json",
            '["age = 1",\n age]',
            ", line 2: not readable as JSON (Expecting value, column 2).",
        ),
        (
            "w.json",
            "[" * 100_000,
            ", line 1: not readable as JSON (a number too long, or nested too deeply).",
        ),
        (
            "w.json",
            '{"querys": []}',
            ", line 1: the file must hold a list of conditions, or an object with such a list as its 'queries'."
            " Did you mean 'queries'?",
        ),
        (
            "w.json",
            '"age = 1"',
            ", line 1: the file must hold a list of conditions, or an object with such a list as its 'queries'.",
        ),
        (
            "w.json",
            '["age = 1", 7]',
            ", entry 2: a condition must be a text, or an object with a text as its 'query' or 'condition'.",
        ),
        (
            "w.jsonl",
            '{"querry": "age = 1"}',
            ", line 1: the object has no 'query' and no 'condition'. Did you mean 'query'?",
        ),
        ("w.jsonl", '"age = 1"\nage = 2', ", line 2: not readable as JSON (Expecting value, column 1)."),
        (
            "w.yaml",
            '- age = 1\n- "age" = 1\n',
            ", line 2: not readable as YAML (expected <block end>, but found '<scalar>'). Put each condition in quotes.",
        ),
        (
            "w.yaml",
            "# none\nquerys: [age = 1]",
            ", line 2: the file must hold a list of conditions, or an object with such a list as its 'queries'."
            " Did you mean 'queries'?",
        ),
        (
            "w.yaml",
            "- &a [*a]",
            ", line 1: a condition must be a text, or an object with a text as its 'query' or 'condition'.",
        ),
        (
            "w.yaml",
            "- a\x01",
            ", line 1: not readable as YAML (nested too deeply, or with a control character)."
            " Put each condition in quotes.",
        ),
        ("w.txt", "# nothing yet\n", ": the workload has no condition; write at least one."),
        ("w.json", "", ": the workload has no condition; write at least one."),
        ("w.json", "[]", ": the workload has no condition; write at least one."),
        ("w.csv", "query\n", ": the workload has no condition; write at least one."),
        ("w.yaml", "# nothing yet\n", ": the workload has no condition; write at least one."),
    ],
)
def test_a_wrong_file(name: str, content: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert message(path) == f"{path}{problem}"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "w.txt"
    path.write_bytes("job = 'Zoë'".encode("latin-1"))
    assert message(path) == f"{path}: the file is not UTF-8 text; save it as UTF-8."
    assert message(tmp_path) == f"Workload '{tmp_path}': the file can't be read (Is a directory). {FORMS}"
