"""The first plan proposed for a table: it loads, it covers the table, and it says that it is not private."""

from __future__ import annotations

import csv
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcli.data.attributes import Attribute
from dpcli.data.encoding import encode
from dpcli.errors import DataError, PlanError
from dpcli.plan.load import load_plan, parse_plan
from dpcli.plan.propose import ROWS, propose_plan

SAMPLE = Path(__file__).resolve().parents[2] / "sample_data"


def write_csv(path: Path, columns: dict[str, list[Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def lines_of(path: Path) -> list[str]:
    """Propose a plan, check that it loads, and return its lines."""
    text = propose_plan(path)
    parse_plan(text)
    return text.splitlines()


def proposed(path: Path, values: list[Any]) -> str:
    """Return the line that is proposed for a column of these values in CSV."""
    rows = {"x": values, "other": ["a"] * len(values)}
    return next(line.strip() for line in lines_of(write_csv(path / "t.csv", rows)) if " x" in line)


@pytest.mark.parametrize("name", ["census.csv", "census.parquet"])
def test_the_sample(name: str, tmp_path: Path) -> None:
    text = propose_plan(SAMPLE / name)
    (tmp_path / "plan.yaml").write_text(text, encoding="utf-8")
    plan = load_plan(tmp_path / "plan.yaml")
    lines = text.splitlines()
    for line in [
        "dataset: census",
        '  epsilon: "1.0"          # the total for all releases of this plan',
        "  age: {kind: ordinal, range: [0, 100]}",
        "  sex: {kind: nominal, values: [F, M]}",
        "  education: {kind: nominal, values: [bachelor, doctorate, master, none, primary, secondary, vocational]}",
        "  hours: {kind: ordinal, range: [0, 80]}",
        "  income: {kind: ordinal, range: [0, 200000], bin: 2000}",
        "  married: {kind: boolean}",
        "  moved_in: {kind: date, range: [1970-01-01, 2026-12-31], period: year}",
        "  # person_id is left out: every value is different, as in an identifier",
        "    cube: [age, sex, education]   # 1,414 cells",
    ]:
        assert line in lines
    assert plan.attributes["occupation"].size == 48
    assert plan.attributes["region"].size == 40
    assert plan.releases[0].mechanism == "laplace"


def test_it_says_that_it_looked() -> None:
    text = propose_plan(SAMPLE / "census.csv")
    header, domain = text.split("plan: 1")[0], text.split("privacy:")[1].split("attributes:")[0]
    header = " ".join(header.replace("#", " ").split())
    domain = " ".join(domain.replace("#", " ").split())
    assert (
        "This proposal was made by looking at the private table (at its first 100,000 rows at most)" in header
    )
    assert "published with every release. They must be public knowledge" in header
    assert "Replace each of them by what is publicly known." in header
    assert "These were seen in the private table: check each range and each label" in domain


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([0, 1, 1, 0], "x: {kind: ordinal, range: [0, 1]}"),
        ([-3, 7, 2], "x: {kind: ordinal, range: [-3, 7]}"),
        ([18, 97, 40], "x: {kind: ordinal, range: [0, 100]}"),
        ([1931, 2017], "x: {kind: ordinal, range: [1930, 2020]}"),
        ([-40, 55, 3], "x: {kind: ordinal, range: [-40, 60]}"),
        ([3, 4211], "x: {kind: ordinal, range: [0, 4250], bin: 50}"),
        ([10_000_123, 10_000_987], "x: {kind: ordinal, range: [10000120, 10000990], bin: 10}"),
        (["0.5", "99.25"], "x: {kind: ordinal, range: [0, 100], bin: 1}"),
        (["-0.013", "0.02"], "x: {kind: ordinal, range: [-0.013, 0.02], bin: 0.0005}"),
        (["1e3", "2.5e3", ""], "x: {kind: ordinal, range: [0, 2500], bin: 50, missing: own-category}"),
        (["5.5"], "x: {kind: ordinal, range: [5, 6], bin: 1}"),
        (["007", "123"], 'x: {kind: nominal, values: ["007", "123"]}'),
        (["2021-03-04", "2024-01-31"], "x: {kind: date, range: [2021-01-01, 2024-12-31], period: month}"),
        (["2011-03-04", "2024-01-31"], "x: {kind: date, range: [2011-01-01, 2024-12-31], period: quarter}"),
        (
            ["1911-03-04 10:00", "2024-01-31"],
            "x: {kind: date, range: [1911-01-01, 2024-12-31], period: year}",
        ),
        (["2021-02-30", "2024-01-31"], 'x: {kind: nominal, values: ["2021-02-30", "2024-01-31"]}'),
        (["yes", "No", "no"], "x: {kind: boolean}"),
        (["TRUE", "false"], "x: {kind: boolean}"),
        (["yes", "maybe"], 'x: {kind: nominal, values: [maybe, "yes"]}'),
        ([" b", "a ", "b", " "], "x: {kind: nominal, values: [a, b], missing: own-category}"),
        (
            ["null", "a: b", "é", "[", "x y", "-"],
            'x: {kind: nominal, values: ["-", "[", "a: b", "null", x y, "é"]}',
        ),
        (
            ['"\n\t\\', "a\u2028\x7f"],
            'x: {kind: nominal, values: ["\\"\\n\\t\\\\", "a\\U00002028\\U0000007f"]}',
        ),
        (list(range(100, 130)), "# x is left out: every value is different, as in an identifier"),
        ([f"p{n}" for n in range(20)], "# x is left out: every value is different, as in an identifier"),
        (
            [f"p{n}" for n in range(51)] * 2,
            "# x is left out: it has more than 50 different texts; a hierarchy file may suit it",
        ),
        (["", ""], "# x is left out: it holds no simple values"),
        (
            ["1e300", "2.0"],
            "# x is left out: its values are too large, too small or not writable in a plan",
        ),
        ([2**60, 1], "# x is left out: its values are too large, too small or not writable in a plan"),
        (["9999-01-01"], "# x is left out: its values are too large, too small or not writable in a plan"),
    ],
)
def test_columns_of_csv(tmp_path: Path, values: list[Any], line: str) -> None:
    assert proposed(tmp_path, values) == line


def test_columns_of_parquet(tmp_path: Path) -> None:
    days = [dt.datetime(2021, 5, 1, 12), None, dt.datetime(2022, 5, 1)]
    table = pa.table(
        {
            "flag": pa.array([True, None, False]),
            "code": pa.chunked_array(
                [pa.array(["b", "a"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()]
            ),
            "time": pa.array(days, pa.timestamp("ns")),
            "zone": pa.array(days, pa.timestamp("us", tz="UTC")),
            "day": pa.array([18_000, 18_001, 18_002], pa.date32()),
            "real": pa.array([0.25, float("nan"), 10.0]),
            "money": pa.array([Decimal("1.50"), Decimal("3.75"), None]),
            "text": pa.array(["2021-01-01", " ", "2022-01-01"]),
            "list": pa.array([[1], [2], [3]]),
            "infinite": pa.array([0.0, float("inf"), 1.0]),
            "bytes": pa.array([b"a", b"b", b"c"]),
            "none": pa.nulls(3),
            "far": pa.array([0, 1, 10**8], pa.date32()),
            "count": pa.array([1, 2, 3]),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    lines = lines_of(tmp_path / "t.parquet")
    place = lines.index("attributes:")
    assert lines[place + 1 : lines.index("releases:")] == [
        "  flag: {kind: boolean, missing: own-category}",
        "  code: {kind: nominal, values: [a, b, c]}",
        "  time: {kind: date, range: [2021-01-01, 2022-12-31], period: month, missing: own-category}",
        "  zone: {kind: date, range: [2021-01-01, 2022-12-31], period: month, missing: own-category}",
        "  day: {kind: date, range: [2019-01-01, 2019-12-31], period: month}",
        "  real: {kind: ordinal, range: [0, 10], bin: 0.1, missing: own-category}",
        "  money: {kind: ordinal, range: [0, 3.75], bin: 0.05, missing: own-category}",
        "  text: {kind: date, range: [2021-01-01, 2022-12-31], period: month, missing: own-category}",
        "  # list is left out: it holds no simple values",
        "  # infinite is left out: it holds infinite numbers",
        "  # bytes is left out: it holds no simple values",
        "  # none is left out: it holds no simple values",
        "  # far is left out: it holds no simple values",
        "  # count is left out: an attribute can't have this name; rename the column",
        "",
    ]


def test_only_the_first_rows_are_looked_at(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", {"x": [1, 2] * (ROWS // 2) + [99]})
    assert "  x: {kind: ordinal, range: [1, 2]}" in lines_of(tmp_path / "t.csv")
    pq.write_table(pa.table({"x": [1, 2] * (ROWS // 2) + [99]}), tmp_path / "t.pq")
    assert "  x: {kind: ordinal, range: [1, 2]}" in lines_of(tmp_path / "t.pq")


def test_the_cube_stays_small(tmp_path: Path) -> None:
    wide = [0.0, 1.0] * 2
    write_csv(tmp_path / "t.csv", {"a": wide, "b": [0, 180] * 2, "c": wide, "d": [0, 1] * 2, "e": [0, 1] * 2})
    plan = parse_plan(propose_plan(tmp_path / "t.csv"))
    assert plan.releases[0].cube == ("a", "b", "d")
    assert plan.domain_of(plan.releases[0]).shape == (100, 181, 2)


@pytest.mark.parametrize(
    ("file", "given_name", "dataset"),
    [
        ("my table (1).csv", None, "my-table-1"),
        ("…….csv", None, "dataset"),
        (f"{'n' * 150}.csv", None, "n" * 100),
        ("true.csv", None, "true"),
        ("2026.csv", None, "2026"),
        ("x.csv", "census_2026", "census_2026"),
    ],
)
def test_the_dataset_is_named_after_the_table(
    tmp_path: Path, file: str, given_name: str | None, dataset: str
) -> None:
    text = propose_plan(write_csv(tmp_path / file, {"x": [1, 2]}), given_name)
    assert parse_plan(text).dataset == dataset


def test_a_bad_dataset_name(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        propose_plan(write_csv(tmp_path / "x.csv", {"x": [1, 2]}), "a b")
    assert str(caught.value) == (
        "plan, line 10: dataset: must be 1 to 100 letters, digits, dots, hyphens or underscores,"
        " and start with a letter, digit or underscore"
    )


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        (
            "t.xlsx",
            b"",
            ": a table must be a file of one of these kinds: .csv, .csv.gz, .tsv, .tsv.gz, .parquet, .pq",
        ),
        ("t.csv", None, ": there is no such file"),
        ("t.parquet", None, ": there is no such file"),
        ("t.csv", b"", ": the table is empty; it needs a header with the columns' names"),
        ("t.csv", b"a,b\n", ": no column is suitable for a proposal; write the plan by hand"),
        ("t.csv", b"secret,b,secret\n1,2,3\n", ": columns 1 and 3 have the same name in the header"),
        ("t.csv", b"a,b\n1,2\nsecret\n", ", line 3: the row has not as many fields as the header"),
        ("t.csv", b"a,b\n1,\xff\n", ": the file is not UTF-8 text"),
        ("t.csv", b"a,b\n1," + b"x" * 200_000 + b"\n", ", line 2: the row can't be read as CSV"),
        ("t.parquet", b"secret", ": the file can't be read as Parquet"),
        ("t.parquet", b"", ": the file can't be read as Parquet"),
    ],
)
def test_unreadable_tables(tmp_path: Path, file: str, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(DataError) as caught:
        propose_plan(tmp_path / file)
    assert str(caught.value) == f"{tmp_path / file}{words}"
    assert caught.value.exit_code == 3


def test_a_folder_is_no_csv(tmp_path: Path) -> None:
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(DataError, match=r"t\.csv: the folder holds no table"):
        propose_plan(tmp_path / "t.csv")


columns = st.one_of(
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=30),
    st.lists(st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda x: round(x, 6)), min_size=1, max_size=30),
    st.lists(st.dates(dt.date(1600, 1, 1), dt.date(9000, 1, 1)), min_size=1, max_size=30),
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=6),
        min_size=1,
        max_size=30,
    ),
    st.lists(st.booleans(), min_size=1, max_size=30),
)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), columns)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_proposed_holds_every_row_that_was_seen(tmp_path: Path, name: str, values: list[Any]) -> None:
    table = pa.table({name: values, "a name of its own": ["a"] * len(values)})
    pq.write_table(table, tmp_path / "t.parquet")
    for name, attribute in parse_plan(propose_plan(tmp_path / "t.parquet")).attributes.items():
        assert isinstance(attribute, Attribute)
        codes = encode(name, attribute, table[name])
        assert np.all((codes >= 0) & (codes < attribute.size))
