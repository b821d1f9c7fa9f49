"""The query language: every condition agrees with pandas, and every mistake is explained."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.data.domain import Domain
from dpcli.errors import QueryError
from dpcli.query.parse import parse_condition
from dpcli.query.product import Query

DOMAIN = Domain.from_description(
    [
        {"name": "age", "kind": "ordinal", "range": [0, 9], "missing": "own-category"},
        {"name": "pay", "kind": "ordinal", "range": [0, 50], "bin": 10},
        {
            "name": "job",
            "kind": "nominal",
            "hierarchy": {"Health": ["Nurse", "Dentist"], "Trade": {"Stone": ["Mason"], "Pipe": ["Plumber"]}},
        },
        {"name": "in", "kind": "date", "range": ["2020-01-01", "2020-12-31"], "period": "quarter"},
        {"name": "wed", "kind": "boolean", "outside": "other"},
    ]
)


def cells(query: Query) -> set[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for term in query.terms:
        mask = np.ones(DOMAIN.shape, bool)
        for axis, one in term.items():
            mask &= one.reshape([-1 if a == axis else 1 for a in range(len(DOMAIN.shape))])
        found += map(tuple, np.argwhere(mask).tolist())
    assert len(found) == len(set(found)), "terms overlap"
    return set(found)


def chosen(text: str, name: str) -> list[object]:
    """The labels of one attribute that a condition on it alone selects."""
    axis = DOMAIN.names.index(name)
    labels = DOMAIN[name].labels()
    return [labels[c] for c in sorted({cell[axis] for cell in cells(parse_condition(text, DOMAIN))})]


@pytest.mark.parametrize(
    ("text", "name", "labels"),
    [
        ("age = 3", "age", [3]),
        ("(age) = (3)", "age", [3]),
        ("age in ((3), (4))", "age", [3, 4]),
        ("age = 3 -- a comment", "age", [3]),
        ("3 = age", "age", [3]),
        ("age between 3 and 5", "age", [3, 4, 5]),
        ("age not between 1 and 8", "age", [0, 9]),
        ("age < 2", "age", [0, 1]),
        ("2 > age", "age", [0, 1]),
        ("age <= 2", "age", [0, 1, 2]),
        ("age > 7.5", "age", [8, 9]),
        ("age >= 8 and age <> 9", "age", [8]),
        ("age in (1, 3, 5)", "age", [1, 3, 5]),
        ("age not in (0,1,2,3,4,5,6)", "age", [7, 8, 9]),
        ("age is null", "age", [None]),
        ("age is not null and age > 8", "age", [9]),
        ("not (age > 1)", "age", [0, 1]),
        ("age < 1 or age > 8", "age", [0, 9]),
        ("age > -1 and age < 1e0", "age", [0]),
        ("pay >= 20 and pay < 40", "pay", ["[20, 30)", "[30, 40)"]),
        ("pay = '[40, 50]'", "pay", ["[40, 50]"]),
        ("pay <= 50 and pay >= 40", "pay", ["[40, 50]"]),
        ("pay between 30 and 50", "pay", ["[30, 40)", "[40, 50]"]),
        ("job = 'Nurse'", "job", ["Nurse"]),
        ("job = 'Health'", "job", ["Nurse", "Dentist"]),
        ("job in node('Trade')", "job", ["Mason", "Plumber"]),
        ("job = node('Trade/Pipe')", "job", ["Plumber"]),
        ("job in ('Health', node('Stone'))", "job", ["Nurse", "Dentist", "Mason"]),
        ("job <> 'Health'", "job", ["Mason", "Plumber"]),
        ("\"in\" >= '2020-07-01'", "in", ["2020-Q3", "2020-Q4"]),
        ("\"in\" < date '2020-04-01'", "in", ["2020-Q1"]),
        ("\"in\" = '2020-Q2'", "in", ["2020-Q2"]),
        ("\"in\" between '2020-Q2' and '2020-Q3'", "in", ["2020-Q2", "2020-Q3"]),
        ("\"in\" <= '2020-06-30'", "in", ["2020-Q1", "2020-Q2"]),
        ("wed", "wed", ["true"]),
        ("not wed", "wed", ["false", "(other)"]),
        ("wed = false", "wed", ["false"]),
        ("wed is true", "wed", ["true"]),
        ("wed is not true", "wed", ["false", "(other)"]),
        ("wed = '(other)'", "wed", ["(other)"]),
    ],
)
def test_conditions_on_one_attribute(text: str, name: str, labels: list[object]) -> None:
    assert chosen(text, name) == labels


def test_true_is_everything_and_false_nothing() -> None:
    assert parse_condition("true", DOMAIN).cells(DOMAIN.shape) == DOMAIN.size
    assert parse_condition("false", DOMAIN).cells(DOMAIN.shape) == 0


ATOMS = {
    "age = 3": lambda f: f.age == 3,
    "age > 4": lambda f: f.age > 4,
    "age <> 7": lambda f: (f.age != 7) & f.age.notna(),
    "age between 2 and 6": lambda f: f.age.between(2, 6),
    "age not in (1, 2)": lambda f: ~f.age.isin([1, 2]) & f.age.notna(),
    "age is null": lambda f: f.age.isna(),
    "pay < 30": lambda f: f.pay < 3,
    "job in ('Nurse', 'Mason')": lambda f: f.job.isin([0, 2]),
    "job = 'Trade'": lambda f: f.job >= 2,
    "wed": lambda f: f.wed == 1,
}
NEGATED = {
    "age = 3": lambda f: (f.age != 3) & f.age.notna(),
    "age > 4": lambda f: f.age <= 4,
    "age <> 7": lambda f: f.age == 7,
    "age between 2 and 6": lambda f: ~f.age.between(2, 6) & f.age.notna(),
    "age not in (1, 2)": lambda f: f.age.isin([1, 2]),
    "age is null": lambda f: f.age.notna(),
    "pay < 30": lambda f: f.pay >= 3,
    "job in ('Nurse', 'Mason')": lambda f: ~f.job.isin([0, 2]),
    "job = 'Trade'": lambda f: f.job < 2,
    "wed": lambda f: f.wed != 1,
}
CELLS = pd.DataFrame(np.argwhere(np.ones(DOMAIN.shape, bool)), columns=DOMAIN.names)
FRAME = CELLS.assign(age=CELLS.age.where(CELLS.age != 10, np.nan))

trees = st.recursive(
    st.sampled_from(sorted(ATOMS)),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    ),
    max_leaves=6,
)


def as_text(tree: object) -> str:
    match tree:
        case ("not", inner):
            return f"not ({as_text(inner)})"
        case (join, one, other):
            return f"({as_text(one)}) {join} ({as_text(other)})"
    return str(tree)


def as_pandas(tree: object, negated: bool = False) -> pd.Series:
    """SQL's logic: a comparison with a missing value is neither true nor false."""
    match tree:
        case ("not", inner):
            return as_pandas(inner, not negated)
        case (join, one, other):
            left, right = as_pandas(one, negated), as_pandas(other, negated)
            return left & right if (join == "and") is not negated else left | right
    return (NEGATED if negated else ATOMS)[str(tree)](FRAME)


@given(trees)
@settings(max_examples=200, deadline=None)
def test_random_conditions_agree_with_pandas(tree: object) -> None:
    expected = set(map(tuple, CELLS[as_pandas(tree)].to_numpy().tolist()))
    assert cells(parse_condition(as_text(tree), DOMAIN)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The condition is empty; write one such as \"age >= 65\", or 'true' for everything."),
        (
            "age = ",
            "Cannot read the condition 'age = '. Write it as in a SQL WHERE clause:"
            " age between 30 and 39 and sex = 'F'. Put names with blanks in double quotes, text in single ones.",
        ),
        (
            "aeg = 1",
            "The release has no attribute 'aeg'. Did you mean 'age'? It has: age, pay, job, in, wed.",
        ),
        ("1 = 1", "'1' stands where an attribute should: age, pay, job, in, wed."),
        (
            "job = 'Nurze'",
            "Attribute 'job': it has no category 'Nurze'. Did you mean 'Nurse'? It has: Nurse, Dentist, Mason,"
            " Plumber.",
        ),
        ("job = node('Helth')", "Attribute 'job': it has no node 'Helth'. Did you mean 'Health'?"),
        ("wed = node('x')", "Attribute 'wed': it has no hierarchy, so node('…') has no meaning for it."),
        ("job = Nurse", "Attribute 'job': write text in single quotes, as in 'Nurse'."),
        (
            "job > 'Nurse'",
            "Attribute 'job': it has no order, so it can't be compared with 'Nurse'; use = or in (…).",
        ),
        ("age = 'old'", "Attribute 'age': 'old' is not a number."),
        ("age = null", "Attribute 'age': use 'is null' for missing values."),
        (
            "pay < 25",
            "Attribute 'pay': a cut with < or >= 25 falls inside its bin [20, 30);"
            " cut with < or >= at an edge, such as 20 or 30;"
            " or ask with --interpolate, which takes the bin's rows as evenly spread.",
        ),
        (
            "pay <= 30",
            "Attribute 'pay': a cut with <= or > 30 falls inside its bin [30, 40);"
            " cut with < or >= at an edge, such as 30 or 40;"
            " or ask with --interpolate, which takes the bin's rows as evenly spread.",
        ),
        (
            "pay = 20",
            "Attribute 'pay': it is binned, so = and in (…) take a whole bin such as '[20, 30)', not '20';"
            " for numbers use >= and <.",
        ),
        ("\"in\" > 'soon'", "Attribute 'in': 'soon' is not a date; write it as '2026-01-31'."),
        (
            "\"in\" >= '2020-02-01'",
            "Attribute 'in': a cut at 2020-02-01 falls inside its quarter 2020-Q1;"
            " cut at the first day of a quarter, such as 2020-01-01 or 2020-04-01;"
            " or ask with --interpolate, which takes the quarter's rows as evenly spread.",
        ),
        (
            "job is null",
            "Attribute 'job' has no category for missing values; that needs 'missing: own-category' in the plan.",
        ),
        ("job", "'job' by itself is not a condition; compare it with something."),
        (
            "job like 'N%'",
            "Cannot answer \"job LIKE 'N%'\": conditions are made of =, <>, <, <=, >, >=, between, in (…),"
            " is null, and, or, not.",
        ),
        ("job in ()", "'job IN ()' needs a list of labels: job in ('a', 'b')."),
        (
            "age = 1 + 1",
            "Attribute 'age': '1 + 1' is not a plain value; put dates and text in single quotes.",
        ),
        ("age = pay", "Attribute 'age': it can be compared with values, not with another attribute ('pay')."),
        ('job = "O\'Brien"', "Attribute 'job': write text in single quotes, as in 'O''Brien'."),
        (
            "\"in\" = '2020-02-01'",
            "Attribute 'in': it is counted by quarter, so write the whole quarter: '2020-Q1'.",
        ),
        (
            "t.age = 1",
            "The release has no attribute 't.age'. Did you mean 'age'? It has: age, pay, job, in, wed.",
        ),
    ],
)
def test_mistakes_are_explained(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_condition(text, DOMAIN)
    assert str(caught.value) == message


SUBQUERY = (
    "A condition can't hold a SELECT of its own (a subquery); ask that first, and write its answer into the"
    " condition."
)
SEVERAL = "Give one condition at a time; ';' and what comes after it can't be read."
WHOLE = "A whole SELECT is not a condition; give it with --sql."


def unreadable(text: str) -> str:
    return (
        f"Cannot read the condition {text!r}. Write it as in a SQL WHERE clause: age between 30 and 39"
        " and sex = 'F'. Put names with blanks in double quotes, text in single ones."
    )


def changing(name: str) -> str:
    return (
        f"Cannot do {name}: a release is only read, never changed. Ask a condition, or a SELECT with --sql."
    )


def function(name: str, call: str) -> str:
    return (
        f"Conditions have no functions, such as {name} in {call}; compare an attribute itself with a value."
    )


def total(call: str) -> str:
    return f"{call} is a total over rows, and a condition chooses rows one by one; compare attributes with values."


def unknown(text: str) -> str:
    return (
        f"Cannot answer {text!r}: conditions are made of =, <>, <, <=, >, >=, between, in (…), is null, and, or,"
        " not."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age = 1; drop table people", SEVERAL),
        ("age = 1; age = 2", SEVERAL),
        ("drop table people", changing("DROP")),
        ("delete from people where age = 3", changing("DELETE")),
        ("insert into people values (1)", changing("INSERT")),
        ("update people set age = 1", changing("UPDATE")),
        ("create table people (age int)", changing("CREATE")),
        ("alter table people drop age", changing("ALTER")),
        ("truncate table people", changing("TRUNCATE")),
        ("grant all on people to me", changing("GRANT")),
        ("/* x */ set age = 3", changing("SET")),
        ("pragma x", changing("PRAGMA")),
        ("explain select 1", changing("EXPLAIN")),
        ("select 1", WHOLE),
        ("select count(*) from people where age = 1", WHOLE),
        ("with x as (select 1) select * from x", WHOLE),
        ("age = 1 union select 1", WHOLE),
        ("from people", WHOLE),
        ("(select 1)", WHOLE),
        ("age = (select 1)", SUBQUERY),
        ("job in (select 1)", SUBQUERY),
        ("not exists (select 1)", SUBQUERY),
        ("age > all (select 1)", SUBQUERY),
        ("age = 3 and (pay < 10 or wed = (select true))", SUBQUERY),
        ("lower(job) = 'nurse'", function("LOWER", "LOWER(job)")),
        ("age = abs(3)", function("ABS", "ABS(3)")),
        ("foo(age) = 3", function("FOO", "FOO(age)")),
        ("age in (1, foo(2))", function("FOO", "FOO(2)")),
        ("age::text = '3'", function("CAST", "CAST(age AS TEXT)")),
        ('"in" < current_date', function("CURRENT_DATE", "CURRENT_DATE")),
        ("case when age = 3 then true end", function("CASE", "CASE WHEN age = 3 THEN TRUE END")),
        ("age = [1]", function("ARRAY", "ARRAY(1)")),
        ("count(*) > 3", total("COUNT(*)")),
        ("age = max(age)", total("MAX(age)")),
        ("row_number() over () = 1", total("ROW_NUMBER() OVER ()")),
        ("age is distinct from 3", unknown("age IS DISTINCT FROM 3")),
        ("1", unknown("1")),
        ("not null", unknown("NULL")),
        ("*", unknown("*")),
        ("age = 3 as x", unreadable("age = 3 as x")),
        ("age 3", unreadable("age 3")),
        ("where age = 3", unreadable("where age = 3")),
        ("age = 3 order by age", unreadable("age = 3 order by age")),
        ("age = 3, pay < 10", unreadable("age = 3, pay < 10")),
        ("age = 'x", unreadable("age = 'x")),
        ("age = ?", "Attribute 'age': '?' is not a plain value; put dates and text in single quotes."),
        ("age = 3 = true", "'age = 3' stands where an attribute should: age, pay, job, in, wed."),
        ("(age, pay) = (1, 2)", "'(age, pay)' stands where an attribute should: age, pay, job, in, wed."),
        ("age is 3", "Cannot answer 'age IS 3': 'is' goes with null, true or false; use = for values."),
        (
            "age between symmetric 3 and 1",
            "Cannot answer 'between symmetric'; write the lower value first.",
        ),
        ("(" * 3000 + "wed" + ")" * 3000, "The condition is nested too deeply; ask it as several questions."),
        (
            "age > node('Trade')",
            "Attribute 'age': \"NODE('Trade')\" is not a plain value; put dates and text in single quotes.",
        ),
    ],
)
def test_what_is_no_condition_is_refused_with_a_sentence(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_condition(text, DOMAIN)
    assert str(caught.value) == message


def test_a_long_chain_is_not_nested() -> None:
    text = " or ".join(f"age = {place % 10}" for place in range(3000))
    assert len(parse_condition(text, DOMAIN).terms) == 1


# --- cuts inside a category -------------------------------------------------------------------------------


def warned(cut: str, falls: str, taken: str) -> str:
    return f"The cut of {cut} {falls}: {taken}, and the interval does not cover the error of that."


@pytest.mark.parametrize(
    ("text", "name", "weights"),
    [
        ("pay < 25", "pay", [1, 1, 0.5, 0, 0]),
        ("pay >= 12.5 and not pay > 17", "pay", [0, 0.45, 0, 0, 0]),
        ("pay < 12 or pay > 17", "pay", [1, 0.5, 1, 1, 1]),
        ("pay < 12 or pay >= 12", "pay", [1, 1, 1, 1, 1]),
        ("pay between 5 and 45", "pay", [0.5, 1, 1, 1, 0.5]),
        ("pay not between 5 and 45", "pay", [0.5, 0, 0, 0, 0.5]),
        ("pay between 12 and 12", "pay", [0, 0, 0, 0, 0]),
        ("pay <= 20", "pay", [1, 1, 0, 0, 0]),
        ("pay < 50", "pay", [1, 1, 1, 1, 1]),
        ("pay > 100", "pay", [0, 0, 0, 0, 0]),
        ("\"in\" < '2020-02-01'", "in", [31 / 91, 0, 0, 0]),
        ("\"in\" <= '2020-02-01'", "in", [32 / 91, 0, 0, 0]),
        ("\"in\" > '2020-05-01' and \"in\" < '2020-Q3'", "in", [0, 60 / 91, 0, 0]),
    ],
)
def test_interpolation_on_one_attribute(text: str, name: str, weights: list[float]) -> None:
    axis = DOMAIN.names.index(name)
    query = parse_condition(text, DOMAIN, interpolate=True)
    found = sum((term.get(axis, np.ones(len(weights))).astype(float) for term in query.terms), np.zeros(1))
    assert np.array_equal(found + np.zeros(len(weights)), weights)


def test_shares_are_only_where_a_cut_needs_them() -> None:
    (term,) = parse_condition("pay < 25 and age > 3 and \"in\" = '2020-Q1'", DOMAIN, interpolate=True).terms
    assert {axis: vector.dtype.kind for axis, vector in term.items()} == {0: "b", 1: "f", 3: "b"}
    left, right = parse_condition(
        "pay < 20 and age = 1 or pay >= 25 and age = 2", DOMAIN, interpolate=True
    ).terms
    assert (left[1].dtype.kind, right[1].dtype.kind) == ("b", "f")


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (
            "pay >= 12.50 and not pay > 17",
            (
                warned(
                    "'pay' at 12.50",
                    "falls inside its bin [10, 20)",
                    "the bin's rows are taken as evenly spread",
                ),
                warned(
                    "'pay' at 17",
                    "falls inside its bin [10, 20)",
                    "the bin's rows are taken as evenly spread",
                ),
            ),
        ),
        (
            "\"in\" < date '2020-02-01'",
            (
                warned(
                    "'in' at 2020-02-01",
                    "falls inside its quarter 2020-Q1",
                    "the quarter's rows are taken as evenly spread",
                ),
            ),
        ),
        (
            "pay <= 20",
            (warned("'pay' at 20", "is made at an edge", "rows of exactly 20 are taken as none"),),
        ),
        ("pay < 20 and pay < 20", ()),
        ("age < 2.5", ()),
    ],
)
def test_an_interpolated_cut_is_told(text: str, warnings: tuple[str, ...]) -> None:
    assert parse_condition(text, DOMAIN, interpolate=True).warnings == warnings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pay < 'x'", "Attribute 'pay': 'x' is not a number."),
        ("job < 'x'", "Attribute 'job': it has no order, so it can't be compared with 'x'; use = or in (…)."),
        (
            "pay = 25",
            "Attribute 'pay': it is binned, so = and in (…) take a whole bin such as '[20, 30)', not '25';"
            " for numbers use >= and <.",
        ),
    ],
)
def test_interpolation_forgives_nothing_else(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_condition(text, DOMAIN, interpolate=True)
    assert str(caught.value) == message


# --- outside the domain -----------------------------------------------------------------------------------


def test_a_range_outside_the_domain_counts_what_overlaps_and_warns() -> None:
    assert chosen("age between 8 and 120", "age") == [8, 9]
    query = parse_condition("age > 50", DOMAIN)
    assert query.terms == ()
    assert query.warnings == ("No category of 'age' fulfils age > 50.",)
    assert parse_condition("age = 99", DOMAIN).warnings == ("No category of 'age' fulfils age = 99.",)


INSIDE = "only what lies inside is counted."


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("age <= 200", f"age <= 200 reaches outside the domain of 'age', 0 to 9; {INSIDE}"),
        ("age > -2", f"age > -2 reaches outside the domain of 'age', 0 to 9; {INSIDE}"),
        ("200 >= age", f"200 >= age reaches outside the domain of 'age', 0 to 9; {INSIDE}"),
        (
            "not age between 3 and 20",
            f"age BETWEEN 3 AND 20 reaches outside the domain of 'age', 0 to 9; {INSIDE}",
        ),
        ("age in (3, 12)", f"age IN (3, 12) reaches outside the domain of 'age', 0 to 9; {INSIDE}"),
        ("age in (-1, 3)", f"age IN (-1, 3) reaches outside the domain of 'age', 0 to 9; {INSIDE}"),
        ("pay < 60", f"pay < 60 reaches outside the domain of 'pay', 0 to 50; {INSIDE}"),
        (
            "\"in\" <= '2021-01-01'",
            f"\"in\" <= '2021-01-01' reaches outside the domain of 'in', 2020-01-01 to 2020-12-31; {INSIDE}",
        ),
        ("age < 10", None),
        ("age <= 9", None),
        ("age > -1", None),
        ("age in (3, 3.5)", None),
        ("pay <= 50", None),
        ("pay >= 0", None),
        ("\"in\" < '2021-01-01'", None),
        ("\"in\" <= '2020-Q4'", None),
        ("age > 200", "No category of 'age' fulfils age > 200."),
        ("age between 20 and 30", "No category of 'age' fulfils age BETWEEN 20 AND 30."),
    ],
)
def test_reaching_outside_is_told_once(text: str, warning: str | None) -> None:
    for interpolate in (False, True):
        query = parse_condition(text, DOMAIN, interpolate=interpolate)
        assert query.warnings == ((warning,) if warning else ())


@pytest.mark.parametrize(
    ("outside", "told"),
    [
        ("drop", INSIDE),
        ("clamp", "values outside it are counted in its first or last category."),
        ("other", "values outside it are counted as '(other)'."),
    ],
)
def test_reaching_outside_tells_where_values_went(outside: str, told: str) -> None:
    domain = Domain.from_description(
        [{"name": "pay", "kind": "ordinal", "range": [0, 2], "bin": "0.5", "outside": outside}]
    )
    query = parse_condition("pay < 3.5", domain)
    assert query.warnings == (f"pay < 3.5 reaches outside the domain of 'pay', 0 to 2; {told}",)
    assert query.cells(domain.shape) == 4


def test_where_values_outside_went_is_told() -> None:
    clamped = Domain.from_description(
        [{"name": "age", "kind": "ordinal", "range": [0, 9], "outside": "clamp"}]
    )
    assert parse_condition("age > 50", clamped).warnings == (
        "No category of 'age' fulfils age > 50."
        " Values outside its domain are counted in its first or last category.",
    )


OUTSIDE = Domain.from_description(
    [
        {"name": "n", "kind": "ordinal", "range": [-9, 9], "outside": "other"},
        {"name": "b", "kind": "ordinal", "edges": [0, 5, 10], "outside": "other"},
        {"name": "d", "kind": "date", "range": ["2020-01-01", "2020-12-31"], "outside": "other"},
    ]
)


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        ("n not between -2 and 2", "n", "NOT n BETWEEN -2 AND 2"),
        ("not n between -2 and 2", "n", "NOT n BETWEEN -2 AND 2"),
        ("b not between 5 and 10", "b", "NOT b BETWEEN 5 AND 10"),
        (
            "d not between '2020-02-01' and '2020-02-09'",
            "d",
            "NOT d BETWEEN '2020-02-01' AND '2020-02-09'",
        ),
        ("n < 3", "n", "n < 3"),
    ],
)
def test_values_outside_that_a_range_leaves_out_are_told(text: str, name: str, told: str) -> None:
    assert parse_condition(text, OUTSIDE).warnings == (
        f"Values of '{name}' outside its domain are counted as '(other)'; {told} leaves them out.",
    )


@pytest.mark.parametrize("text", ["n between -2 and 2", "not n not between -2 and 2"])
def test_no_value_outside_is_in_a_range_within(text: str) -> None:
    assert parse_condition(text, OUTSIDE).warnings == ()


def test_not_between_that_reaches_outside_is_told_once() -> None:
    assert parse_condition("n not between -2 and 20", OUTSIDE).warnings == (
        "n BETWEEN -2 AND 20 reaches outside the domain of 'n', -9 to 9; values outside it are counted as"
        " '(other)'.",
    )


@pytest.mark.parametrize("number", ["1e400", "1e999999999", "1e99999999999999999999", "9" * 6000])
def test_numbers_of_any_size_are_numbers(number: str) -> None:
    reaches = f"reaches outside the domain of 'age', 0 to 9; {INSIDE}"
    assert chosen(f"age < {number}", "age") == list(range(10))
    assert parse_condition(f"age < {number}", DOMAIN).warnings == (f"age < {number} {reaches}",)
    assert parse_condition(f"age >= -{number}", DOMAIN).warnings == (f"age >= -{number} {reaches}",)
    assert parse_condition(f"age = {number}", DOMAIN).warnings == (
        f"No category of 'age' fulfils age = {number}.",
    )
    assert chosen(f"pay <= {number}", "pay") == DOMAIN["pay"].labels()


@pytest.mark.parametrize("number", ["0.00000000000000000001", "1e-400", "1e-999999999"])
def test_numbers_of_any_smallness_are_numbers(number: str) -> None:
    assert chosen(f"age <= {number}", "age") == [0]
    assert chosen(f"age < {number}", "age") == [0]
    assert chosen(f"age >= -{number}", "age") == list(range(10))
    assert parse_condition(f"age = {number}", DOMAIN).terms == ()
    assert parse_condition(f"pay < {number}", DOMAIN, interpolate=True).terms[0][1][0] < 1e-15


@pytest.mark.parametrize("text", ["age < 'nan'", "age < 'inf'", "age < '-Infinity'", "age < 'x1'"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(QueryError, match="is not a number"):
        parse_condition(text, DOMAIN)


def test_whole_numbers_beyond_those_of_bins_are_found() -> None:
    domain = Domain.from_description([{"name": "id", "kind": "ordinal", "range": [2**53 - 5, 2**53 - 1]}])
    assert parse_condition(f"id = {2**53 - 2}", domain).cells((5,)) == 1


def test_the_last_day_of_all_is_a_day() -> None:
    assert chosen("\"in\" <= '9999-12-31'", "in") == DOMAIN["in"].labels()


@pytest.mark.parametrize("start", ["(", "not (", "age = 1 or wed and ("])
def test_conditions_may_be_nested(start: str) -> None:
    depth = sys.getrecursionlimit()
    assert parse_condition(start * 300 + "age = 3" + ")" * 300, DOMAIN).terms
    with pytest.raises(QueryError) as caught:
        parse_condition(start * 5000 + "age = 3" + ")" * 5000, DOMAIN)
    assert str(caught.value) == "The condition is nested too deeply; ask it as several questions."
    assert sys.getrecursionlimit() == depth


@pytest.mark.parametrize("text", ["job is true", "job is not false", "age is true"])
def test_is_true_is_for_booleans(text: str) -> None:
    with pytest.raises(QueryError, match="'is true' and 'is false' are for booleans; use = with a value"):
        parse_condition(text, DOMAIN)


def test_blanks_around_a_label_do_not_count() -> None:
    domain = Domain.from_description([{"name": "lab", "kind": "nominal", "values": [" lead", "trail ", "x"]}])
    assert domain["lab"].labels() == ["lead", "trail", "x"]
    for text in ("lab = ' lead'", "lab = 'lead'", "lab in ('trail ')"):
        assert parse_condition(text, domain).cells((3,)) == 1


def test_half_characters_are_refused() -> None:
    with pytest.raises(QueryError) as caught:
        parse_condition("job = '\udcff'", DOMAIN)
    assert str(caught.value) == (
        "The condition holds something at character 8 that is not UTF-8 text; write it as UTF-8."
    )


def test_is_not_true_holds_for_missing_values_too() -> None:
    domain = Domain.from_description([{"name": "wed", "kind": "boolean", "missing": "own-category"}])
    assert parse_condition("wed is not true", domain).cells((3,)) == 2
    assert parse_condition("not wed", domain).cells((3,)) == 1


def test_a_leaf_and_a_node_of_the_same_name() -> None:
    tree = {"A": ["x", "y"], "B": ["A", "z"]}
    domain = Domain.from_description([{"name": "job", "kind": "nominal", "hierarchy": tree}])
    with pytest.raises(QueryError) as caught:
        parse_condition("job = 'A'", domain)
    assert str(caught.value) == (
        "Attribute 'job': the name 'A' is ambiguous; write 'B/A' for the leaf, node('…') with one of '/A'."
    )
    assert parse_condition("job = 'B/A'", domain).cells((4,)) == 1
    assert parse_condition("job in node('A')", domain).cells((4,)) == 2
