"""dpcli query: groups, statements, workloads, files and charts, as they are used."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

import dpcli as package
from dpcli.errors import QueryError

Cli = Callable[..., Result]
PEOPLE = pd.DataFrame


@pytest.fixture
def released(dpcli: Cli, write_plan: Callable[..., Path], table: Path) -> Cli:
    """One release without noise, one with, and one that is thresholded."""
    assert dpcli("release", write_plan(epsilon="1000000"), table, "-o", "exact.parquet").exit_code == 0
    plan = write_plan(epsilon="0.5", mechanism="privelet\n    direct: none")
    assert dpcli("release", plan, table, "-o", "noisy.parquet").exit_code == 0
    assert dpcli("refine", "noisy.parquet", "--threshold", "-o", "smooth.parquet").exit_code == 0
    return dpcli


def rows(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def asked(cli: Cli, *arguments: object) -> list[dict[str, object]]:
    return rows(cli("query", *arguments, "--format", "json"))


# --- groups -------------------------------------------------------------------------------------------------


def test_groups_agree_with_pandas(released: Cli, table: Path) -> None:
    people = pd.read_csv(table)
    for by in ("sex", "age,sex", "job,sex,age"):
        names = by.split(",")
        found = asked(released, "exact.parquet", "age < 9", "--by", by)
        assert [list(row) for row in found[:1]] == [
            [*names, "query", "value", "stderr", "low", "high", "how"]
        ]
        truth = people[people.age < 9].groupby(names).size()
        for row in found:
            key = tuple(row[name] for name in names)
            assert row["value"] == truth.get(key if len(names) > 1 else key[0], 0)
        assert sum(row["value"] for row in found) == (people.age < 9).sum()


def test_groups_are_all_categories_that_the_condition_leaves(released: Cli) -> None:
    assert [row["age"] for row in asked(released, "exact.parquet", "age >= 7", "--by", "age")] == [7, 8, 9]
    found = asked(released, "exact.parquet", "age = 3 and sex = 'F' or age = 5", "--by", "age,sex")
    assert [(row["age"], row["sex"]) for row in found] == [(3, "F"), (5, "F"), (5, "M")]
    assert asked(released, "exact.parquet", "false", "--by", "age") == []


def test_several_conditions_by_groups(released: Cli) -> None:
    found = asked(released, "exact.parquet", "job = 'Health'", "age > 4", "--by", "sex")
    assert [(row["query"], row["sex"], row["value"]) for row in found] == [
        ("job = 'Health'", "F", 50),
        ("job = 'Health'", "M", 25),
        ("age > 4", "F", 67),
        ("age > 4", "M", 33),
    ]


def test_a_group_of_missing_values_is_null(dpcli: Cli, write_plan: Callable[..., Path], table: Path) -> None:
    table.write_text(table.read_text() + ",F,Nurse\n")
    plan = write_plan(epsilon="1000000", replace=("[0, 9]}", "[0, 9], missing: own-category}"))
    assert dpcli("release", plan, table, "-o", "exact.parquet").exit_code == 0
    last = asked(dpcli, "exact.parquet", "--by", "age")[-1]
    assert (last["age"], last["value"]) == (None, 1)
    (average,) = asked(dpcli, "exact.parquet", "--sql", "select avg(age) from release where job = 'Nurse'")
    assert average["value"] == pytest.approx(3)
    counts = asked(dpcli, "exact.parquet", "--sql", "select count(*), count(age) from release")
    assert [row["value"] for row in counts] == [177, 176]


def test_an_attribute_called_like_a_column_gets_a_prefix(
    dpcli: Cli, write_plan: Callable[..., Path], table: Path
) -> None:
    text = write_plan(epsilon="1000000").read_text().replace("sex", "value")
    Path("plan.yaml").write_text(text)
    table.write_text(table.read_text().replace("sex", "value"))
    assert dpcli("release", "plan.yaml", table, "-o", "exact.parquet").exit_code == 0
    assert asked(dpcli, "exact.parquet", "--by", "value")[0]["by_value"] == "F"


def test_simultaneous_intervals_are_wider(released: Cli) -> None:
    alone = asked(released, "noisy.parquet", "--by", "age")
    together = asked(released, "noisy.parquet", "--by", "age", "--simultaneous")
    for one, other in zip(alone, together, strict=True):
        assert one["value"] == other["value"]
        assert other["low"] < one["low"] < one["high"] < other["high"]
    assert asked(released, "noisy.parquet", "age = 3") == asked(
        released, "noisy.parquet", "age = 3", "--simultaneous"
    )


def test_by_can_be_given_more_than_once(released: Cli) -> None:
    assert asked(released, "exact.parquet", "--by", "sex", "--by", "age") == asked(
        released, "exact.parquet", "--by", "sex,age"
    )


# --- statements ---------------------------------------------------------------------------------------------


def test_statements_agree_with_pandas(released: Cli, table: Path) -> None:
    people = pd.read_csv(table)
    found = asked(
        released,
        "exact.parquet",
        "--sql",
        "SELECT sex, COUNT(*) AS n, SUM(age), AVG(age) FROM release WHERE age < 9 GROUP BY sex",
    )
    young = people[people.age < 9].groupby("sex").age
    expected = {"n": young.size(), "SUM(age)": young.sum(), "AVG(age)": young.mean()}
    assert len(found) == 6
    for row in found:
        assert row["value"] == pytest.approx(expected[row["query"]][row["sex"]])
        assert row["low"] <= row["value"] <= row["high"]


def test_order_and_limit(released: Cli) -> None:
    text = "SELECT job, COUNT(*) FROM release GROUP BY job ORDER BY {} LIMIT 2"
    jobs = {
        "2 DESC": ["Nurse", "Retired"],
        "COUNT(*)": ["Roofer", "Plumber"],
        "job": ["Nurse", "Dentist"],
        "job DESC": ["Retired", "Roofer"],
        "1 LIMIT 2 OFFSET 1 --": ["Dentist", "Mason"],
    }
    for order, expected in jobs.items():
        found = asked(released, "exact.parquet", "--sql", text.format(order))
        assert [row["job"] for row in found] == expected, order


def test_averages_of_what_nobody_has(released: Cli) -> None:
    """Where no row is counted there is no average; its interval is what an average could be."""
    (row,) = asked(
        released, "exact.parquet", "--sql", "SELECT AVG(age) FROM release WHERE age between 6 and 8"
    )
    assert (row["value"], row["stderr"], row["low"], row["high"]) == (None, None, 6, 8)
    (row,) = asked(released, "exact.parquet", "--sql", "SELECT AVG(age) FROM release WHERE false")
    assert (row["value"], row["low"], row["high"], row["how"]) == (None, None, None, "none")


def test_sums_of_bins_say_what_stands_for_them(
    dpcli: Cli, write_plan: Callable[..., Path], table: Path
) -> None:
    values = {"middle": 4, "lower": 2, "upper": 6}
    for represent, number in values.items():
        plan = write_plan(
            epsilon="1000000", replace=("range: [0, 9]}", f"edges: [0, 2, 6, 10], represent: {represent}}}")
        )
        assert dpcli("release", plan, table, "-o", "exact.parquet", "--if-exists", "replace").exit_code == 0
        result = dpcli(
            "query",
            "exact.parquet",
            "--sql",
            "select sum(age) from release where job = 'Mason'",
            "--format",
            "json",
        )
        assert rows(result)[0]["value"] == 33 * number
        assert (
            f"is taken as the {'middle' if represent == 'middle' else represent + ' edge'} of its bin."
            in result.stderr
        )


def test_thresholded_answers_have_no_interval(released: Cli) -> None:
    for arguments in (
        ["--by", "sex"],
        ["--sql", "select avg(age), sum(age) from release"],
        ["--workload", "marginals:1"],
    ):
        for row in asked(released, "smooth.parquet", *arguments):
            assert row["value"] is not None
            assert (row["stderr"], row["low"], row["high"], row["how"]) == (None, None, None, "none")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; SELECT 2",
        "DROP TABLE release",
        "DELETE FROM release",
        "SELECT * FROM release",
        "age = 3",
        "",
    ],
)
def test_other_statements_are_refused(released: Cli, text: str) -> None:
    result = released("query", "exact.parquet", "--sql", text)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.output


# --- workloads and files ------------------------------------------------------------------------------------


def test_workload_answers_are_those_of_their_texts(released: Cli) -> None:
    """What a workload prints as its query can be asked again, and gives the same."""
    for spec in ("random:40", "marginals:1", "prefixes:age"):
        found = asked(released, "noisy.parquet", "--workload", spec)
        again = asked(released, "noisy.parquet", *[str(row["query"]) for row in found])
        assert [row["query"] for row in again] == [row["query"] for row in found]
        for one, other in zip(found, again, strict=True):
            assert one["value"] == pytest.approx(other["value"])
            assert one["stderr"] == pytest.approx(other["stderr"])
            assert one["high"] == pytest.approx(other["high"], rel=1e-3)


def test_marginals_hold_every_combination(released: Cli) -> None:
    found = asked(released, "exact.parquet", "--workload", "marginals:2")
    assert len(found) == 10 * 2 + 10 * 6 + 2 * 6
    assert sum(row["value"] for row in found) == 3 * 176


def test_a_file_of_conditions(released: Cli) -> None:
    Path("w.txt").write_text("age = 3\n# a comment\n\nsex = 'F' or age > 4\n")
    found = asked(released, "exact.parquet", "--workload", "w.txt")
    assert [(row["query"], row["value"]) for row in found] == [("age = 3", 65), ("sex = 'F' or age > 4", 150)]
    Path("w.txt").write_text("age = 3\nagee = 3\n")
    result = released("query", "exact.parquet", "--workload", "w.txt")
    assert result.exit_code == 2
    assert "w.txt" in result.stderr
    assert "line 2" in result.stderr
    assert "Did you mean 'age'?" in result.stderr


def test_answers_in_files(released: Cli) -> None:
    expected = asked(released, "noisy.parquet", "--by", "age,sex")
    for ending in ("csv", "jsonl", "parquet"):
        result = released("query", "noisy.parquet", "--by", "age,sex", "-o", f"a.{ending}")
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == f"Wrote 20 answers to a.{ending}.\n"
    frames = [pd.read_csv("a.csv"), pd.read_json("a.jsonl", lines=True), pd.read_parquet("a.parquet")]
    for frame in frames:
        assert list(frame.columns) == list(expected[0])
        assert frame.age.tolist() == [row["age"] for row in expected]
        assert np.allclose(frame.low, [row["low"] for row in expected])
    for ending in (
        "csv",
        "json",
        "jsonl",
        "parquet",
    ):  # answers can be made again, and nothing else is replaced
        assert released("query", "noisy.parquet", "--by", "sex", "-o", f"a.{ending}").exit_code == 0
        assert released("query", "noisy.parquet", "-o", f"a.{ending}").exit_code == 0
    assert [row["query"] for row in json.loads(Path("a.json").read_text())] == ["true"]
    for precious in ("noisy.parquet", "people.csv"):
        before = Path(precious).read_bytes()
        result = released("query", "noisy.parquet", "-o", precious)
        assert (result.exit_code, result.stderr) == (
            2,
            f"Error: {precious} is there already and holds no answers, so it is left alone. Choose another name.\n",
        )
        assert Path(precious).read_bytes() == before
    result = released("query", "noisy.parquet", "-o", "a.xlsx")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: Answers can't be written to a.xlsx: its name must end in .csv, .json, .jsonl, .parquet.\n",
    )
    result = released("query", "noisy.parquet", "-o", "nowhere/a.csv")
    assert result.exit_code == 2
    assert "there is no folder nowhere" in result.stderr


def test_formats_of_standard_output(released: Cli) -> None:
    lines = released("query", "exact.parquet", "--by", "sex", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == [117, 59]
    text = released("query", "exact.parquet", "--by", "sex", "--format", "csv").stdout
    assert [row["value"] for row in csv.DictReader(io.StringIO(text))] == ["117", "59"]
    table = released("query", "exact.parquet", "--workload", "random:300").stdout
    assert "… and 100 more rows; write them all with -o FILE.csv or --format csv." in table


# --- charts -------------------------------------------------------------------------------------------------


def test_charts_in_the_terminal(released: Cli) -> None:
    result = released("query", "noisy.parquet", "--by", "job", "--plot")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "rows by job"
    assert [line.split()[0] for line in lines[1:]] == [
        "Nurse",
        "Dentist",
        "Mason",
        "Plumber",
        "Roofer",
        "Retired",
    ]
    result = released(
        "query", "noisy.parquet", "--sql", "select avg(age) from release group by sex", "--plot"
    )
    assert result.stdout.splitlines()[0] == "AVG(age) by sex"


@pytest.mark.parametrize(("ending", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_charts_in_files(released: Cli, ending: str, magic: bytes) -> None:
    result = released("query", "noisy.parquet", "age > 3", "--by", "age", "--plot", f"a.{ending}")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"Drew a.{ending}.\n")
    assert Path(f"a.{ending}").read_bytes().startswith(magic)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--plot"], "--plot draws one question by one attribute"),
        (["--by", "age,sex", "--plot"], "--plot draws one question by one attribute"),
        (["age = 3", "age = 4", "--by", "sex", "--plot"], "--plot draws one question by one attribute"),
        (["--by", "sex", "--plot", "a.gif"], "svg"),
        (["--by", "sex", "--plot", "a.svg", "-o", "a.csv"], "--plot and -o can't go together"),
        (["--workload", "random:3", "--plot"], "can't go with --workload"),
        (["--by", "agee"], "has no attribute 'agee' to group by. Did you mean 'age'? It has: age, sex, job."),
        (["--by", "age,age"], "'age' is there twice"),
        (["--by", "sex", "--plot", "age > 3"], "'age > 3' was taken as the name of the picture"),
        (["age > 200", "--by", "sex", "--plot"], "There is nothing to draw"),
        (["--by", "sex", "--plot", "--format", "csv"], "--format can't go with it"),
        (["--by", "sex", "-o", "b.csv", "--format", "json"], "--format can't go with it"),
        (["--by", ""], "--by needs the names of attributes"),
        (["--by", "age,"], "--by needs the names of attributes"),
        (["age = 3", "--sql", "select count(*) from release"], "CONDITION and --sql can't go together"),
        (["--workload", "random:3", "--sql", "select 1"], "--sql and --workload can't go together"),
        (["--by", "age", "--workload", "random:3"], "--by goes with conditions"),
        (["--workload", "nothing.txt"], "random:N"),
        (["--workload", "randm:10"], "Did you mean 'random:10'?"),
        (["age < 3.5", "--interval", "2"], "must lie between 0 and 0.999999"),
    ],
)
def test_wrong_options(released: Cli, arguments: list[str], words: str) -> None:
    result = released("query", "exact.parquet", *arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert "Traceback" not in result.output


# --- ranges and bins ----------------------------------------------------------------------------------------


def test_cuts_inside_a_bin(dpcli: Cli, write_plan: Callable[..., Path], table: Path) -> None:
    plan = write_plan(epsilon="1000000", replace=("range: [0, 9]}", "edges: [0, 2, 6, 10]}"))
    assert dpcli("release", plan, table, "-o", "exact.parquet").exit_code == 0
    result = dpcli("query", "exact.parquet", "age < 5")
    assert result.exit_code == 2
    assert "falls inside its bin [2, 6)" in result.stderr
    assert "--interpolate" in result.stderr
    result = dpcli("query", "exact.parquet", "age < 5", "--interpolate", "--format", "json")
    assert rows(result)[0]["value"] == pytest.approx(1 + 115 * 3 / 4)
    result = dpcli(
        "query", "exact.parquet", "--sql", "select avg(age) from release where age < 5", "--interpolate"
    )
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: AVG(age) can't be answered, because the condition cuts 'age' inside a category. Cut it at an edge.\n",
    )
    result = dpcli("query", "exact.parquet", "age < 5", "--interpolate", "--format", "json")
    assert "evenly spread" in result.stderr


def test_a_range_outside_the_domain_is_answered_with_a_warning(released: Cli) -> None:
    result = released("query", "exact.parquet", "age between 5 and 200", "--format", "json")
    assert rows(result)[0]["value"] == 100
    assert result.stderr.startswith("Warning: ")
    assert "outside the domain of 'age', 0 to 9" in result.stderr


# --- other readers, and Python ------------------------------------------------------------------------------


def test_pandas_reads_the_same_sums_from_the_file(released: Cli) -> None:
    for name in ("exact", "noisy", "smooth"):
        frame = pd.read_parquet(f"{name}.parquet")
        chosen = frame[(frame.age >= 3) & (frame.sex == "F") & frame.job.isin(["Nurse", "Mason"])]
        (row,) = asked(released, f"{name}.parquet", "age >= 3 and sex = 'F' and job in ('Nurse', 'Mason')")
        assert row["value"] == pytest.approx(chosen["count"].sum(), abs=1e-6)
        for group in asked(released, f"{name}.parquet", "age >= 3", "--by", "job"):
            own = frame[(frame.age >= 3) & (frame.job == group["job"])]
            assert group["value"] == pytest.approx(own["count"].sum(), abs=1e-6)


def test_frames_in_python(released: Cli) -> None:
    cube = package.open("exact.parquet")
    frame = cube.query("age >= 3 and sex = 'F'", by=["job"])
    assert list(frame.columns) == ["job", "query", "value", "stderr", "low", "high", "how"]
    assert frame.set_index("job").value.to_dict() == {
        "Nurse": 40,
        "Dentist": 10,
        "Mason": 0,
        "Plumber": 7,
        "Roofer": 0,
        "Retired": 60,
    }
    assert cube.query(by="sex").value.tolist() == [117, 59]
    assert cube.query().value.tolist() == [176]
    assert cube.sql("SELECT AVG(age) FROM release WHERE sex = 'M'").value[0] == pytest.approx(240 / 59)
    assert len(cube.workload("marginals:1")) == 18
    with pytest.warns(UserWarning, match="outside the domain"):
        cube.query("age < 100")
    with pytest.raises(QueryError, match="Did you mean 'age'"):
        cube.query("agee < 100")
    assert cube.query("false", by="sex").empty
    assert cube.query(["age = 3", "age = 4"]).value.tolist() == [65, 10]
    assert repr(cube) == "<release 'cube' of dataset 'town': age, sex, job>"
    jobs = cube.query(by="job").job
    assert list(jobs.cat.categories) == ["Nurse", "Dentist", "Mason", "Plumber", "Roofer", "Retired"]
    assert not jobs.cat.ordered
