"""PRIVATE: reads the table. Proposes the text of a first plan for it, for a person to check and correct.

The proposal depends on the table, so it is not private and must not be published or used as it is: the
ranges and labels that it suggests have to be replaced by what is publicly known. It says so itself.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dpcli.data.attributes import AnyAttribute, Attribute
from dpcli.data.scalars import plain
from dpcli.errors import DataError
from dpcli.plan.glance import Column, first_rows
from dpcli.plan.load import parse_plan
from dpcli.plan.schema import RESERVED

ROWS = 100_000
FEW_ROWS = 20
MOST_LABELS = 50
MOST_WHOLE_NUMBERS = 200
MOST_BINS = 100
MOST_PERIODS = 60
MOST_CELLS = 1_000_000
MOST_AXES = 3
_SIMPLE = re.compile(r"[^\W\d_][\w-]*( [\w-]+)*", re.ASCII)
_NOT_TEXT = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")

HEADER = """\
# A first release plan for {name}, written by 'dpcli plan init'.
#
# CHECK IT BEFORE USE. This proposal was made by looking at the private table (at its first {rows:,} rows
# at most), so the proposal itself is not private: do not publish it.
# The ranges and labels under 'attributes' are published with every release. They must be public knowledge,
# such as a questionnaire's answers or the limits of a form, and must not be taken from the table. Replace
# each of them by what is publicly known.

plan: 1
dataset: {dataset}
# table: {table}          # the table's path, relative to this file; or name it on the command line

privacy:                  # one row of the table must be one person, unless a unit says who is
  epsilon: "1.0"          # the total for all releases of this plan
  neighbors: add-remove   # or replace-one, which makes the number of rows public
  # budget: "10"          # the most that may ever be spent on this dataset
  # unit: {{column: person_id, max_rows: 2}}   # if people have several rows: who owns a row, how many count

# The PUBLIC domain. These were seen in the private table: check each range and each label, and replace it by
# what is publicly known. A value outside its range or labels is an error, unless you add 'outside: drop',
# 'outside: other' or, for numbers and dates, 'outside: clamp'.
attributes:
"""
FOOTER = """

releases:
  - name: cube
    cube: [{cube}]   # {cells:,} cells
    mechanism: laplace
"""


class _Unsuitable(Exception):  # noqa: N818
    """Why a column is left out of the proposal."""


def propose_plan(table: str | Path, dataset: str | None = None, target: str | Path | None = None) -> str:
    """Return the text of a commented first plan, to lie at ``target``, for a CSV or Parquet table.

    Raises ``DataError`` for a table that can't be read or has no suitable column; no message holds a value.
    """
    path = Path(table)
    attributes: list[str] = []
    left_out: list[str] = []
    cube: list[str] = []
    cells = 1
    for column in first_rows(path, ROWS):
        try:
            written, size = _attribute(column)
        except _Unsuitable as reason:
            left_out.append(f"  # {_quoted(column.name)} is left out: {reason}")
            continue
        attributes.append(f"  {_quoted(column.name)}:{written}")
        if len(cube) < MOST_AXES and cells * size <= MOST_CELLS:
            cube.append(_quoted(column.name))
            cells *= size
    if not cube:
        raise DataError(f"{path}: no column is suitable for a proposal; write the plan by hand")
    name = (
        dataset
        or re.sub(r"[^\w.-]+", "-", path.name.split(".")[0], flags=re.ASCII).strip(".-")[:100]
        or "dataset"
    )
    place = os.path.relpath(path, Path(target).parent if target is not None else Path())
    text = HEADER.format(name=_quoted(path.name), table=_quoted(place), rows=ROWS, dataset=_quoted(name))
    text += "\n".join([*attributes, *left_out])
    text += FOOTER.format(cube=", ".join(cube), cells=cells)
    parse_plan(text)
    return text


# --- from a column to an attribute ------------------------------------------------------------------------


def _attribute(column: Column) -> tuple[str, int]:
    """Return the attribute to propose, as YAML, and its number of categories."""
    if not column.name.strip() or not column.name.isprintable() or column.name.casefold() in RESERVED:
        raise _Unsuitable("an attribute can't have this name; rename the column")
    if not column.values:
        raise _Unsuitable("it holds no simple values")
    try:
        keys = _keys(column)
        if column.blanks:
            keys["missing"] = "own-category"
        attribute: Attribute = TypeAdapter(AnyAttribute).validate_python(keys)
    except (ArithmeticError, ValidationError):
        raise _Unsuitable("its values are too large, too small or not writable in a plan") from None
    return _written(keys), attribute.size


def _keys(column: Column) -> dict[str, Any]:
    values = column.values
    kinds = {type(value) for value in values}
    unique = column.filled >= FEW_ROWS and len(values) == column.filled
    if kinds <= {bool}:
        return {"kind": "boolean"}
    if unique and kinds <= {int, str}:
        raise _Unsuitable("every value is different, as in an identifier")
    if kinds <= {int}:
        return _whole_numbers(min(values), max(values))
    if kinds <= {int, float, Decimal}:
        low, high = Decimal(str(min(values))), Decimal(str(max(values)))
        if not (low.is_finite() and high.is_finite()):
            raise _Unsuitable("it holds infinite numbers")
        return _bins(low, high)
    if kinds <= {dt.date}:
        return _days(min(values), max(values))
    if kinds != {str}:
        raise _Unsuitable("it holds no simple values")
    words = {value.casefold() for value in values}
    if words <= {"true", "false"} or words <= {"yes", "no"}:
        return {"kind": "boolean"}
    if len(values) > MOST_LABELS:
        raise _Unsuitable(f"it has more than {MOST_LABELS} different texts; a hierarchy file may suit it")
    return {"kind": "nominal", "values": sorted(values)}


def _whole_numbers(low: int, high: int) -> dict[str, Any]:
    if high - low >= FEW_ROWS:
        first, last, _ = _outward(Decimal(low), Decimal(high), parts=10)
        if last - first >= MOST_WHOLE_NUMBERS:
            return _bins(Decimal(low), Decimal(high))
        low, high = int(first), int(last)
    return {"kind": "ordinal", "range": [low, high]}


def _bins(low: Decimal, high: Decimal) -> dict[str, Any]:
    first, last, width = _outward(low, high, parts=MOST_BINS)
    return {"kind": "ordinal", "range": [plain(first), plain(last)], "bin": plain(width)}


def _outward(low: Decimal, high: Decimal, parts: int) -> tuple[Decimal, Decimal, Decimal]:
    """Round a range outward to multiples of a width of 1, 2 or 5 times a power of ten, in about ``parts``."""
    if 0 <= low <= high / 2:
        low = Decimal(0)
    span = (high - low) / parts or Decimal(1)
    power = Decimal(1).scaleb(span.adjusted())
    width = next(times * power for times in (1, 2, 5, 10) if times * power >= span)
    first = (low / width).to_integral_value(ROUND_FLOOR) * width
    last = (high / width).to_integral_value(ROUND_CEILING) * width
    return first, last if last > first else first + width, width


def _days(first: dt.date, last: dt.date) -> dict[str, Any]:
    years = last.year - first.year + 1
    period = "month" if years * 12 <= MOST_PERIODS else "quarter" if years * 4 <= MOST_PERIODS else "year"
    days = [f"{first.year:04d}-01-01", f"{last.year:04d}-12-31"]
    return {"kind": "date", "range": days, "period": period}


# --- writing YAML -----------------------------------------------------------------------------------------


def _written(keys: dict[str, Any]) -> str:
    """Write an attribute's keys: on one line, or where its labels are too long for that, on many."""
    labels = [_quoted(label) for label in keys.get("values", ())]
    shown = {**keys, "values": labels} if labels else keys
    texts = {k: f"[{', '.join(map(str, v))}]" if isinstance(v, list) else v for k, v in shown.items()}
    line = ", ".join(f"{key}: {text}" for key, text in texts.items())
    if len(line) <= 90 or not labels:
        return f" {{{line}}}"
    lines = [f"{key}: {text}" for key, text in texts.items() if key != "values"]
    return "".join(f"\n    {line}" for line in [*lines, "values:", *(f"  - {label}" for label in labels)])


def _quoted(text: str) -> str:
    """Write a text for YAML, in double quotes where it could be taken for something else."""
    if _SIMPLE.fullmatch(text) and text.casefold() not in _NOT_TEXT:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
