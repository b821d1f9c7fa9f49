"""Plans that are refused, each with its whole message: the line, the key, what is wrong, what to do."""

from __future__ import annotations

import pytest

from dpcli.errors import PlanError, listed
from dpcli.mechanisms import NAMES
from dpcli.plan.load import parse_plan

GOOD = """\
plan: 1
dataset: census-2026
table: people.csv
privacy:
  epsilon: 1.0
  neighbors: add-remove
  budget: "10"
attributes:
  age: {kind: ordinal, range: [0, 100]}
  sex: {kind: nominal, values: [F, M]}
  job:
    kind: nominal
    hierarchy: {Health: [Nurse, Physician], Trades: [Painter], Retired: }
  income: {kind: ordinal, range: [0, 200000], bin: 1000}
  moved: {kind: date, range: [2020-01-01, 2025-12-31], period: year}
  married: {kind: boolean, missing: own-category}
releases:
  - name: cube
    cube: [age, sex, job]
  - name: money
    cube: [income, moved, married]
    epsilon: 0.25
"""
HIERARCHY = "hierarchy: {Health: [Nurse, Physician], Trades: [Painter], Retired: }"
LESS_CELLS = ("- name: cube\n", "- name: cube\n    max_cells: 100_000_000\n")
# One entry each: what is changed in GOOD, and the whole message, where each line starts with its number.
WRONG = {
    "misspelt key": (
        [("neighbors:", "neighbours:")],
        "6: privacy.neighbours: unknown key. Did you mean 'neighbors'?"
        " Allowed here: epsilon, neighbors, budget, unit",
    ),
    "misspelt key that is needed": (
        [("  epsilon: 1.0", "  epsilom: 1.0")],
        "4: privacy.epsilon: this key is missing\n"
        "5: privacy.epsilom: unknown key. Did you mean 'epsilon'?"
        " Allowed here: epsilon, neighbors, budget, unit",
    ),
    "unknown key at the top": (
        [("table:", "colour:")],
        "3: colour: unknown key. Allowed here: plan, dataset, table, privacy, attributes, releases",
    ),
    "unknown key of a release": (
        [("    cube: [age, sex, job]", "    cube: [age, sex, job]\n    mechanisn: laplace")],
        "20: releases[0].mechanisn: unknown key. Did you mean 'mechanism'?"
        " Allowed here: name, cube, mechanism, direct, branching, levels, split, workload, ispe, refine, where, parallel, epsilon, max_cells",
    ),
    "unknown key of an attribute": (
        [("bin: 1000", "bins: 1000"), ("values: [F, M]", "value: [F, M]")],
        "10: attributes.sex.value: unknown key. Did you mean 'values'?"
        " Allowed here: kind, values, hierarchy, outside, missing\n"
        "14: attributes.income.bins: unknown key. Did you mean 'bin'?"
        " Allowed here: kind, range, bin, edges, represent, outside, missing",
    ),
    "unknown and missing keys of a unit": (
        [("  neighbors: add-remove", "  unit: {colum: person_id}")],
        "6: privacy.unit.column: this key is missing\n"
        "6: privacy.unit.max_rows: this key is missing\n"
        "6: privacy.unit.colum: unknown key. Did you mean 'column'? Allowed here: column, max_rows, missing",
    ),
    "a unit that is no mapping": (
        [("  neighbors: add-remove", "  unit: person_id")],
        "6: privacy.unit: must be a mapping of keys to values, not 'person_id'",
    ),
    "no rows per person": (
        [("  neighbors: add-remove", "  unit: {column: ' ', max_rows: 0, missing: own-category}")],
        "6: privacy.unit.column: must be the name of a column, in visible characters\n"
        "6: privacy.unit.max_rows: must be at least 1, not '0'\n"
        "6: privacy.unit.missing: 'own-category' is not a choice. Choose one of: error, drop",
    ),
    "too many rows per person": (
        [("  neighbors: add-remove", "  unit: {column: person_id, max_rows: 1000001}")],
        "6: privacy.unit.max_rows: must be at most 1000000, not '1000001'",
    ),
    "half a row per person": (
        [("  neighbors: add-remove", "  unit: {column: person_id, max_rows: 1.5}")],
        "6: privacy.unit.max_rows: must be a whole number, not '1.5'",
    ),
    "missing keys": (
        [("plan: 1\n", ""), ("dataset: census-2026\n", ""), (", range: [0, 100]", "")],
        "1: plan: this key is missing\n"
        "1: dataset: this key is missing\n"
        "7: attributes.age.range: this key is missing",
    ),
    "another version": (
        [("plan: 1", "plan: 2")],
        "1: plan: this dpcli reads plan version 1, not '2'; write plan: 1",
    ),
    "names": (
        [("census-2026", "-x"), ("name: money", "name: a/b"), ("people.csv", "''")],
        "2: dataset: must be 1 to 100 letters, digits, dots, hyphens or underscores,"
        " and start with a letter, digit or underscore\n"
        "3: table: must not be empty\n"
        "20: releases[1].name: must be 1 to 100 letters, digits, hyphens or underscores,"
        " and start with a letter, digit or underscore",
    ),
    "names of attributes": (
        [("  age:", "  Count:"), ("  sex:", "  ' ':"), ("  moved:", '  "a\\tb":')],
        "9: attributes.Count: an attribute can't be called 'Count', because the release file has"
        " a column of that name; rename the column in the table\n"
        "10: attributes. : an attribute's name must be the name of a column, in visible characters\n"
        "15: attributes.a\tb: an attribute's name must be the name of a column,"
        " in visible characters",
    ),
    "wrong types": (
        [
            ("range: [0, 100]", "range: 100"),
            ("values: [F, M]", "values: [F, [M], ~, '']"),
            ("[age, sex, job]", "age"),
        ],
        "9: attributes.age.range: must be a list such as [a, b], not '100'\n"
        "10: attributes.sex.values[1]: must be text, not a list\n"
        "10: attributes.sex.values[2]: must be text, not nothing\n"
        "10: attributes.sex.values[3]: must not be empty\n"
        "19: releases[0].cube: must be a list such as [a, b], not 'age'",
    ),
    "not a mapping": (
        [
            ("privacy:\n", "privacy: 1\nignored:\n"),
            ("  age: {kind: ordinal, range: [0, 100]}", "  age: [0, 100]"),
        ],
        "4: privacy: must be a mapping of keys to values, not '1'\n"
        "5: ignored: unknown key."
        " Allowed here: plan, dataset, table, privacy, attributes, releases\n"
        "10: attributes.age: must be a mapping such as {kind: ordinal, range: [0, 100]}, not a list",
    ),
    "whole numbers": (
        [("range: [0, 100]", "range: [0, 9.5]"), ("name: money", "name: money\n    max_cells: many")],
        "9: attributes.age.range[1]: must be a whole number, not '9.5'\n"
        "21: releases[1].max_cells: must be a whole number, not 'many'",
    ),
    "too long to show": (
        [("range: [0, 100]", f"range: [0, {'9' * 5000}]")],
        f"9: attributes.age.range[1]: must be a whole number, not '{'9' * 56}…",
    ),
    "max_cells of 0": (
        [("name: money", "name: money\n    max_cells: 0")],
        "21: releases[1].max_cells: must be at least 1, not '0'",
    ),
    "a range of one or three": (
        [("range: [0, 100]", "range: [0]"), ("range: [0, 200000]", "range: [0, 1, 2]")],
        "9: attributes.age.range: needs 2 entries\n14: attributes.income.range: must have 2 entries, not 3",
    ),
    "kinds": (
        [
            ("kind: ordinal, range: [0, 100]", "range: [0, 100]"),
            ("kind: date", "kind: daet"),
            ("kind: boolean", "kind: ~"),
        ],
        "9: attributes.age.kind: this key is missing. Choose one of: ordinal, date, nominal, boolean\n"
        "15: attributes.moved.kind: 'daet' is not a kind. Did you mean 'date'?"
        " Choose one of: ordinal, date, nominal, boolean\n"
        "16: attributes.married.kind: nothing is not a kind."
        " Choose one of: ordinal, date, nominal, boolean",
    ),
    "choices": (
        [("add-remove", "add-remov"), ("period: year", "period: years"), ("own-category", "[drop]")],
        "6: privacy.neighbors: 'add-remov' is not a choice. Did you mean 'add-remove'?"
        " Choose one of: add-remove, replace-one\n"
        "15: attributes.moved.period: 'years' is not a choice. Did you mean 'year'?"
        " Choose one of: day, week, month, quarter, year\n"
        "16: attributes.married.missing: a list is not a choice."
        " Choose one of: error, drop, own-category",
    ),
    "mechanism": (
        [("name: money", "name: money\n    mechanism: Laplase")],
        "21: releases[1].mechanism: 'Laplase' is not a mechanism. Did you mean 'laplace'?"
        " Choose one of: {mechanisms}",
    ),
    "empty domains": (
        [("range: [0, 100]", "range: [5, 4]"), ("values: [F, M]", "values: []"), ("[0, 200000]", "[7, 7]")],
        "9: attributes.age.range: is empty: 5 is above 4\n"
        "10: attributes.sex.values: is empty; list at least one label\n"
        "14: attributes.income: the range is empty: 7 is not below 7",
    ),
    "a label twice": (
        [("values: [F, M]", "values: [F, M, 'F']")],
        "10: attributes.sex.values: has 'F' more than once; every label must stand once",
    ),
    "bins": (
        [
            ("bin: 1000", "bin: 0"),
            ("range: [0, 100]", "edges: [0, 10, 9.5]"),
            ("kind: boolean", "kind: ordinal, bin: 1"),
        ],
        "9: attributes.age: the bins overlap: edge 9.5 comes after edge 10; edges must increase\n"
        "14: attributes.income: the bin width must be above 0, not 0\n"
        "16: attributes.married: give either range and bin, or edges",
    ),
    "a range that is no whole number of bins": (
        [("bin: 1000", "bin: 300")],
        "14: attributes.income: the range 0 to 200000 is not a whole number of bins of width 300;"
        " end it at 200100",
    ),
    "numbers out of reach": (
        [("[0, 200000]", "[0, 1e40]"), ("bin: 1000", "bin: 1e-13")],
        "14: attributes.income.range[1]: must lie within ±10^15 and have at most 12 decimals\n"
        "14: attributes.income.bin: must lie within ±10^15 and have at most 12 decimals",
    ),
    "days": (
        [("[2020-01-01, 2025-12-31]", "[2020, 9999-12-31]")],
        "15: attributes.moved.range[0]: must be a day such as 2026-01-31\n"
        "15: attributes.moved.range[1]: must be a day before the year 9999",
    ),
    "a period cut in two": (
        [("2025-12-31", "2025-06-30")],
        "15: attributes.moved: the range cuts a year in two; write range: [2020-01-01, 2025-12-31]",
    ),
    "clamp without order": (
        [("values: [F, M]", "values: [F, M], outside: clamp")],
        "10: attributes.sex: outside: clamp needs an ordered attribute, and a nominal one has no order",
    ),
    "inline hierarchy": (
        [(HIERARCHY, "hierarchy: {Health: [Nurse], Care: [Nurse]}")],
        "13: attributes.job.hierarchy: the hierarchy has the leaf 'Nurse' twice; every leaf must stand once",
    ),
    "a group twice": (
        [(HIERARCHY, "hierarchy: [{Health: [Nurse]}, {Health: [Physician]}]")],
        "13: attributes.job.hierarchy: the hierarchy has the group 'Health' twice; write it once",
    ),
    "no attributes, no releases": (
        [("attributes:\n", "attributes: {}\nx:\n"), ("releases:\n", "releases: []\ny:\n")],
        "8: attributes: must not be empty\n"
        "9: x: unknown key. Allowed here: plan, dataset, table, privacy, attributes, releases\n"
        "18: releases: must not be empty\n"
        "19: y: unknown key. Allowed here: plan, dataset, table, privacy, attributes, releases",
    ),
    "cube": (
        [("[age, sex, job]", "[agee, colour]"), ("[income, moved, married]", "\n    - income\n    - incom")],
        "19: releases[0].cube[0]: 'agee' is not declared under attributes. Did you mean 'age'?"
        " Declared are: age, sex, job, income, moved, married\n"
        "19: releases[0].cube[1]: 'colour' is not declared under attributes."
        " Declared are: age, sex, job, income, moved, married\n"
        "23: releases[1].cube[1]: 'incom' is not declared under attributes. Did you mean 'income'?"
        " Declared are: age, sex, job, income, moved, married",
    ),
    "an axis twice": (
        [("[age, sex, job]", "[age, sex, age]"), ("[income, moved, married]", "[]")],
        "19: releases[0].cube: has 'age' more than once; name each attribute once\n"
        "21: releases[1].cube: must not be empty",
    ),
    "a name twice": (
        [("name: money", "name: CUBE")],
        "20: releases[1].name: another release is called 'cube'; every release needs a name of its own",
    ),
    "cube too large": (
        [("range: [0, 100]", "range: [0, 12939387]"), LESS_CELLS],
        "20: releases[0].cube: the cube has 103,515,104 cells, more than max_cells (100,000,000),"
        " and its file would take about 0.9 GB; use wider bins or fewer attributes,"
        " or write max_cells: 103515104",
    ),
    "cube far too large": (
        [("range: [0, 100]", "range: [0, 9007199254740990]")],
        "19: releases[0].cube: the cube has 72,057,594,037,927,928 cells, more than max_cells"
        " (200,000,000), and its file would take about 648,518,346.3 GB; use wider bins or fewer attributes",
    ),
    "cube beyond numbering": (
        [
            ("range: [0, 100]", "range: [-9007199254740991, 9007199254740991]"),
            ("values: [F, M]", "values: [{many}]"),
        ],
        "19: releases[0].cube: the cube has about 7.2e+18 cells; use wider bins or fewer attributes",
    ),
    "shares over the total": (
        [("epsilon: 0.25", "epsilon: 1.0000000000000000000001")],
        "5: privacy.epsilon: the releases ask for 1.0000000000000000000001 in all, which is more"
        " than the plan's epsilon 1; lower theirs or raise this one",
    ),
    "nothing left": (
        [("epsilon: 0.25", "epsilon: 1")],
        "18: releases[0]: no epsilon is left for this release: the others take 1 of 1;"
        " give it one of its own",
    ),
    "budget below epsilon": (
        [('budget: "10"', "budget: 0.999")],
        "7: privacy.budget: the budget 0.999 is below this plan's epsilon 1, so the plan could never run",
    ),
}


def changed(*changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert text.count(old) >= 1
        text = text.replace(old, new, 1)
    return text


@pytest.mark.parametrize("case", WRONG)
def test_wrong_plans(case: str) -> None:
    changes, message = WRONG[case]
    text = changed(*changes).replace("{many}", ", ".join(f"v{i}" for i in range(100)))
    with pytest.raises(PlanError) as caught:
        parse_plan(text, source="p.yaml")
    lines = message.replace("{mechanisms}", listed(NAMES)).split("\n")
    assert str(caught.value) == "\n".join(f"p.yaml, line {line}" for line in lines)
    assert caught.value.exit_code == 2
