"""SQL statements: what each asks for, and a sentence for everything that a release can't answer."""

from __future__ import annotations

import numpy as np
import pytest

from dpcli.data.domain import Domain
from dpcli.errors import QueryError
from dpcli.query.parse import parse_condition
from dpcli.query.statement import Aggregate, Ordering, Statement, parse_statement

DOMAIN = Domain.from_description(
    [
        {"name": "age", "kind": "ordinal", "range": [0, 9], "missing": "own-category"},
        {"name": "pay", "kind": "ordinal", "range": [0, 50], "bin": 10},
        {"name": "job", "kind": "nominal", "hierarchy": {"Health": ["Nurse", "Dentist"], "Trade": ["Mason"]}},
        {"name": "moved", "kind": "date", "range": ["2020-01-01", "2020-12-31"], "period": "quarter"},
        {"name": "wed", "kind": "boolean", "outside": "other"},
        {"name": "net pay", "kind": "ordinal", "range": [0, 3]},
    ]
)
TABLES = ("census", "Town.parquet")
COUNT = Aggregate("COUNT(*)", "count", None)


def read(text: str, *, interpolate: bool = False) -> Statement:
    return parse_statement(text, DOMAIN, TABLES, interpolate=interpolate)


def refusal(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        read(text)
    return str(caught.value)


def test_all_parts_at_once() -> None:
    text = (
        "SELECT sex, wed, COUNT(*) AS n, AVG(pay) FROM census WHERE age >= 4 GROUP BY wed, job"
        " ORDER BY n DESC, job LIMIT 10 OFFSET 5;"
    ).replace("sex", "job")
    statement = read(text)
    assert statement.text == text
    assert statement.aggregates == (Aggregate("n", "count", None), Aggregate("AVG(pay)", "avg", "pay"))
    assert statement.where.text == "age >= 4"
    assert statement.where.cells(DOMAIN.shape) == parse_condition("age >= 4", DOMAIN).cells(DOMAIN.shape)
    assert statement.by == ("wed", "job")
    assert statement.order == (Ordering(0, True), Ordering("job", False))
    assert (statement.limit, statement.offset) == (10, 5)


def test_the_least_statement() -> None:
    statement = read("select count(*)")
    assert statement.aggregates == (COUNT,)
    assert (statement.by, statement.order, statement.limit, statement.offset) == ((), (), None, 0)
    assert statement.where.text == "true"
    assert statement.where.cells(DOMAIN.shape) == DOMAIN.size


@pytest.mark.parametrize(
    ("selected", "aggregate"),
    [
        ("count(*)", COUNT),
        ("(count(*))", COUNT),
        ("count(all age)", Aggregate("COUNT(age)", "count", "age")),
        ("COUNT(job)", Aggregate("COUNT(job)", "count", "job")),
        ("sum(age)", Aggregate("SUM(age)", "sum", "age")),
        ("sum(wed) as married", Aggregate("married", "sum", "wed")),
        ('avg("pay")', Aggregate("AVG(pay)", "avg", "pay")),
        ('avg("net pay")', Aggregate('AVG("net pay")', "avg", "net pay")),
        ('avg(pay) "mean pay"', Aggregate("mean pay", "avg", "pay")),
        ("count(*) as age", Aggregate("age", "count", None)),
    ],
)
def test_totals(selected: str, aggregate: Aggregate) -> None:
    assert read(f"select {selected} from census").aggregates == (aggregate,)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "from census",
        "from CENSUS",
        'from "census"',
        "from census as c",
        "from town.parquet",
        'from "Town.parquet"',
        "from 'town.parquet'",
    ],
)
def test_tables(source: str) -> None:
    assert read(f"select count(*) {source}").aggregates == (COUNT,)


@pytest.mark.parametrize("name", ["census", "Census", "town.parquet"])
def test_columns_may_name_their_table(name: str) -> None:
    statement = read(
        f"select {name}.job, sum({name}.pay) from {name} where {name}.age < 3 group by {name}.job order by {name}.job"
    )
    assert statement.aggregates == (Aggregate("SUM(pay)", "sum", "pay"),)
    assert (statement.by, statement.order) == (("job",), (Ordering("job", False),))
    assert statement.where.text == "age < 3"
    assert read("select c.job, count(*) from census c group by c.job").by == ("job",)


@pytest.mark.parametrize(
    ("rest", "by"),
    [
        ("job, count(*) group by job", ("job",)),
        ("job as job, count(*) group by 1", ("job",)),
        ("count(*), wed, job group by 3, 2", ("job", "wed")),
        ("count(*) group by job, (wed), job", ("job", "wed")),
        ('"net pay", count(*) group by "net pay"', ("net pay",)),
    ],
)
def test_grouping(rest: str, by: tuple[str, ...]) -> None:
    assert read(f"select {rest}").by == by


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("n", Ordering(0, False)),
        ("n desc", Ordering(0, True)),
        ("count(*) asc", Ordering(0, False)),
        ("sum(pay) desc", Ordering(1, True)),
        ('SUM("pay")', Ordering(1, False)),
        ('"SUM(pay)"', Ordering(1, False)),
        ("job", Ordering("job", False)),
        ("wed desc", Ordering("wed", True)),
        ("1", Ordering("job", False)),
        ("2", Ordering(0, False)),
        ("3 desc", Ordering(1, True)),
        ("job nulls last", Ordering("job", False)),
        ("job desc nulls first", Ordering("job", True)),
    ],
)
def test_ordering(order: str, expected: Ordering) -> None:
    statement = read(f"select job, count(*) as n, sum(pay) group by job, wed order by {order}")
    assert statement.order == (expected,)


@pytest.mark.parametrize(
    ("rest", "limit", "offset"),
    [("limit 0", 0, 0), ("limit 2, 3", 3, 2), ("offset 4", None, 4), ("offset 4 rows", None, 4)],
)
def test_limits(rest: str, limit: int | None, offset: int) -> None:
    statement = read(f"select count(*) {rest}")
    assert (statement.limit, statement.offset) == (limit, offset)


def test_conditions_are_read_as_ever() -> None:
    statement = read("select count(*) where pay < 25 and age <= 99 -- so", interpolate=True)
    alone = parse_condition("pay < 25 AND age <= 99", DOMAIN, interpolate=True)
    assert statement.where.text == alone.text
    assert statement.where.warnings == alone.warnings
    assert len(alone.warnings) == 2
    ((one,), (other,)) = statement.where.terms, alone.terms
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[axis], other[axis]) for axis in one)
    for condition in (
        "pay < 25",
        "agee = 3",
        "age = 'x'",
        "lower(job) = 'x'",
        "count(*) > 3",
        "job like 'x'",
    ):
        with pytest.raises(QueryError) as caught:
            parse_condition(condition, DOMAIN)
        assert refusal(f"select count(*) where {condition}") == str(caught.value)


NESTED = "Cannot answer a SELECT within a SELECT; ask them one after the other."
NO_TOTAL = "The statement selects no total, and a release holds no rows; select COUNT(*), COUNT(…), SUM(…) or AVG(…)."
AFTERWARDS = "use ORDER BY with LIMIT, or leave groups out of the answer afterwards"
ALONE = "a release is one table, so name it alone"
EMPTY = "The SQL is empty; write a statement such as SELECT COUNT(*)."
ROWS = "a release holds no rows; name attributes and totals, as in SELECT sex, COUNT(*) GROUP BY sex"
FUNCTIONS = "the functions are COUNT, SUM and AVG"
BY_THEMSELVES = "select the totals by themselves, and calculate from the answer"
LISTED = "It has: age, pay, job, moved, wed, net pay."


def changing(name: str) -> str:
    return (
        f"Cannot do {name}: a release is only read, never changed. Ask a condition, or a SELECT with --sql."
    )


def unreadable(text: str) -> str:
    return (
        f"Cannot read the SQL {text!r}. Write it as in SELECT sex, COUNT(*) WHERE age >= 65 GROUP BY sex."
        " Put names with blanks in double quotes, text in single ones."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Not one SELECT
        ("", EMPTY),
        (" ; -- nothing", EMPTY),
        ("selct count(*)", unreadable("selct count(*)")),
        ("select count(* from census", unreadable("select count(* from census")),
        ("select count(*) from census; select count(*)", "Give one SELECT at a time, and nothing after it."),
        ("select count(*); drop table census", "Give one SELECT at a time, and nothing after it."),
        ("insert into census values (1)", changing("INSERT")),
        ("update census set age = 1", changing("UPDATE")),
        ("delete from census", changing("DELETE")),
        ("drop table census", changing("DROP")),
        ("create table x as select count(*)", changing("CREATE")),
        ("alter table census drop age", changing("ALTER")),
        ("truncate table census", changing("TRUNCATE")),
        ("merge into a using b on a.x = b.x when matched then delete", changing("MERGE")),
        ("copy census from 'x'", changing("COPY")),
        ("set x = 1", changing("SET")),
        ("begin", changing("BEGIN")),
        ("vacuum", changing("VACUUM")),
        ("age = 3", "'age = 3' is no SELECT; write SELECT COUNT(*) WHERE …, or drop --sql."),
        ("count(*) as n", "'COUNT(*) AS n' is no SELECT; write SELECT COUNT(*) WHERE …, or drop --sql."),
        ("(select count(*))", "Write the SELECT without parentheses around it."),
        ("select count(*) union select count(*)", "Cannot answer UNION: ask each SELECT by itself."),
        ("select count(*) except select count(*)", "Cannot answer EXCEPT: ask each SELECT by itself."),
        # Clauses
        (
            "with x as (select 1) select count(*) from x",
            "Cannot answer WITH: ask its parts one after the other.",
        ),
        (
            "select distinct job, count(*) group by job",
            "Cannot answer DISTINCT: GROUP BY gives every group once.",
        ),
        ("select count(*) from census join town", f"Cannot answer JOIN or several tables: {ALONE}."),
        ("select count(*) from census, town", f"Cannot answer JOIN or several tables: {ALONE}."),
        ("select count(*) from census lateral view x", f"Cannot answer LATERAL: {ALONE}."),
        ("select job, count(*) group by job having count(*) > 3", f"Cannot answer HAVING: {AFTERWARDS}."),
        ("select count(*) from census qualify 1", f"Cannot answer QUALIFY: {AFTERWARDS}."),
        (
            "select count(*) from census window w as ()",
            "Cannot answer WINDOW: use GROUP BY, and calculate from the answer.",
        ),
        ("select count(*) into x", "Cannot answer INTO: a release is only read, so take it out."),
        (
            "select count(*) from census for update",
            "Cannot answer FOR UPDATE or FOR SHARE: a release is only read, so take it out.",
        ),
        (
            "select count(*) from census tablesample (10)",
            "Cannot answer a sample of the rows: a release holds no rows, so take it out.",
        ),
        ("select count(*) from census sort by age", "Cannot answer SORT: take it out."),
        ("select count(*) from (select 1)", NESTED),
        ("select count(*) where age = (select 1)", NESTED),
        ("select exists(select 1), count(*)", NESTED),
        # FROM
        (
            "select count(*) from cencus",
            "There is no table 'cencus'. Did you mean 'census'? There is: census, Town.parquet.",
        ),
        ("select count(*) from a.b", "There is no table 'a.b'. There is: census, Town.parquet."),
        (
            "select count(*) from census(1)",
            "Cannot answer FROM CENSUS(1): FROM takes the name of the release alone.",
        ),
        (
            "select count(*) from census as c(a, b)",
            "Cannot answer FROM census AS c(a, b): FROM takes the name of the release alone.",
        ),
        # SELECT
        ("select", NO_TOTAL),
        ("select job", NO_TOTAL),
        ("select job from census group by job", NO_TOTAL),
        ("select *", f"Cannot answer *: {ROWS}."),
        ("select census.*, count(*)", f"Cannot answer census.*: {ROWS}."),
        ("select job, count(*)", "Attribute 'job' is selected but not grouped by; add it to GROUP BY."),
        (
            "select job, wed, count(*) group by wed",
            "Attribute 'job' is selected but not grouped by; add it to GROUP BY.",
        ),
        (
            "select job as work, count(*) group by job",
            "Attribute 'job' can't be renamed to 'work'; AS is for totals only.",
        ),
        (
            "select jop, count(*) group by jop",
            f"The release has no attribute 'jop'. Did you mean 'job'? {LISTED}",
        ),
        (
            "select count(*), count(*)",
            "Two columns are called 'COUNT(*)'; give each total a name of its own with AS.",
        ),
        (
            "select job, count(*) as job group by job",
            "Two columns are called 'job'; give each total a name of its own with AS.",
        ),
        (
            "select count(distinct job)",
            "Cannot answer COUNT(DISTINCT job): totals have no DISTINCT; GROUP BY the attribute and count the groups.",
        ),
        (
            "select avg(distinct age)",
            "Cannot answer AVG(DISTINCT age): totals have no DISTINCT; GROUP BY the attribute and count the groups.",
        ),
        ("select count(1)", "Cannot answer COUNT(1): COUNT takes * or one attribute."),
        ("select count(age, pay)", "Cannot answer COUNT(age, pay): COUNT takes * or one attribute."),
        ("select count()", "Cannot answer COUNT(): COUNT takes * or one attribute."),
        ("select sum(age * 2)", "Cannot answer SUM(age * 2): SUM takes one attribute by itself."),
        ("select sum(*)", "Cannot answer SUM(*): SUM takes one attribute by itself."),
        (
            "select count(*) filter (where age = 3)",
            "Cannot answer COUNT(*) FILTER(WHERE age = 3): totals have no FILTER; put the condition into WHERE.",
        ),
        (
            "select count(*) over ()",
            "Cannot answer COUNT(*) OVER (): totals have no OVER; use GROUP BY, and calculate from the answer.",
        ),
        ("select min(age)", f"Cannot answer MIN(age): {FUNCTIONS}."),
        ("select max(age), count(*)", f"Cannot answer MAX(age): {FUNCTIONS}."),
        ("select median(age)", f"Cannot answer MEDIAN(age): {FUNCTIONS}."),
        ("select mean(age)", f"Cannot answer MEAN(age): {FUNCTIONS}."),
        ("select lower(job), count(*)", f"Cannot answer LOWER(job): {FUNCTIONS}."),
        ("select sum(age) / count(*)", f"Cannot answer SUM(age) / COUNT(*): {BY_THEMSELVES}."),
        ("select count(*) * 2", f"Cannot answer COUNT(*) * 2: {BY_THEMSELVES}."),
        ("select round(avg(age))", f"Cannot answer ROUND(AVG(age)): {BY_THEMSELVES}."),
        ("select 1", "Cannot answer 1: a column is an attribute, COUNT(*), COUNT(…), SUM(…) or AVG(…)."),
        (
            "select age + 1, count(*)",
            "Cannot answer age + 1: a column is an attribute, COUNT(*), COUNT(…), SUM(…) or AVG(…).",
        ),
        ("select sum(job)", "Attribute 'job': it has no numbers, so it can't be summed or averaged."),
        ("select avg(moved)", "Attribute 'moved': it has no numbers, so it can't be summed or averaged."),
        ("select sum(agee)", f"The release has no attribute 'agee'. Did you mean 'age'? {LISTED}"),
        (
            "select sum(x.age) from census",
            f"The release has no attribute 'x.age'. Did you mean 'age'? {LISTED}",
        ),
        # GROUP BY
        (
            "select count(*) group by age + 1",
            "Cannot group by age + 1: GROUP BY takes the names of attributes, or their places in SELECT.",
        ),
        (
            "select count(*) group by rollup(age)",
            "Cannot group by ROLLUP (age): GROUP BY takes the names of attributes, or their places in SELECT.",
        ),
        (
            "select count(*) group by age with rollup",
            "Cannot answer ALL, ROLLUP, CUBE or totals in GROUP BY; list the attributes.",
        ),
        (
            "select count(*) group by all",
            "Cannot answer ALL, ROLLUP, CUBE or totals in GROUP BY; list the attributes.",
        ),
        ("select count(*) group by 1", "Cannot group by COUNT(*), which is a total; group by attributes."),
        (
            "select job, count(*) group by 3",
            "Cannot answer GROUP BY 3: a number stands for a column of SELECT, from 1 to 2.",
        ),
        ("select count(*) as n group by n", f"The release has no attribute 'n'. {LISTED}"),
        # ORDER BY
        (
            "select count(*) as n order by m",
            "Cannot order by 'm', which is neither grouped by nor a total's name. There is: n.",
        ),
        (
            "select job, count(*) as total group by job order by totals",
            "Cannot order by 'totals', which is neither grouped by nor a total's name. Did you mean 'total'?"
            " There is: job, total.",
        ),
        (
            "select job, count(*) group by job order by wed",
            "Cannot order by 'wed', which is neither grouped by nor a total's name. There is: job, COUNT(*).",
        ),
        (
            "select count(*) order by sum(pay)",
            "Cannot order by SUM(pay), which is not selected; add it to SELECT.",
        ),
        (
            "select count(*) order by 0",
            "Cannot answer ORDER BY 0: a number stands for a column of SELECT, from 1 to 1.",
        ),
        (
            "select count(*) order by '1'",
            "Cannot answer ORDER BY '1': a number stands for a column of SELECT, from 1 to 1.",
        ),
        ("select count(*) order by rand()", f"Cannot answer RAND(): {FUNCTIONS}."),
        ("select count(*) order by -count(*)", f"Cannot answer -COUNT(*): {BY_THEMSELVES}."),
        (
            "select job, count(*) group by job order by job nulls first",
            "Cannot answer NULLS FIRST or NULLS LAST: missing values come last, and first with DESC.",
        ),
        # LIMIT
        ("select count(*) limit all", "LIMIT takes a whole number such as 10, not all."),
        ("select count(*) limit -1", "LIMIT takes a whole number such as 10, not -1."),
        ("select count(*) limit 1.5", "LIMIT takes a whole number such as 10, not 1.5."),
        ("select count(*) limit 1 + 1", "LIMIT takes a whole number such as 10, not 1 + 1."),
        ("select count(*) limit 1 offset 'x'", "OFFSET takes a whole number such as 10, not 'x'."),
        (
            "select count(*) fetch first 3 rows only",
            "Cannot answer FETCH FIRST 3 ROWS ONLY; write LIMIT and a whole number.",
        ),
        ("select count(*) limit 3 percent", "Cannot answer LIMIT 3 PERCENT; write LIMIT and a whole number."),
        ("select count(*) limit 3 by age", "Cannot answer LIMIT 3 BY age; write LIMIT and a whole number."),
        (
            f"select count(*) where {'(' * 3000}wed{')' * 3000}",
            "The statement is nested too deeply; ask it as several questions.",
        ),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    assert refusal(text) == message
