"""Records as JSON, JSON lines or CSV, as they come, or as a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import floor, log10

Record = Mapping[str, object]
Records = Iterable[Record]
MOST_ROWS = 200


def as_json(records: Records, columns: Sequence[str]) -> Iterator[str]:
    """An array of objects, one per line."""
    before = "["
    for line in as_json_lines(records, columns):
        yield before + line.rstrip("\n")
        before = ",\n "
    yield "]\n" if before != "[" else "[]\n"


def as_json_lines(records: Records, columns: Sequence[str]) -> Iterator[str]:
    """One object per line."""
    for record in records:
        yield json.dumps({name: record[name] for name in columns}, ensure_ascii=False) + "\n"


def as_csv(records: Records, columns: Sequence[str]) -> Iterator[str]:
    """A header and one line per record; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for record in records:
        writer.writerow([record[name] for name in columns])
        if text.tell() > 1 << 16:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def as_table(records: Records, columns: Sequence[str], *, header: bool = True) -> Iterator[str]:
    """A table for people: numbers to the right, rounded to what matters, and not endless."""
    rows = iter(records)
    shown = list(islice(rows, MOST_ROWS))
    yield _table(shown, columns, header)
    left = sum(1 for _ in rows)
    if left:
        yield f"… and {left:,} more rows; write them all with -o FILE.csv or --format csv.\n"


def _table(records: Sequence[Record], columns: Sequence[str], header: bool) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD if header else None, pad_edge=False, show_header=header)
    for name in columns:
        numeric = any(isinstance(record[name], (int, float)) for record in records)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for record in records:
        table.add_row(*(Text(readable(record[name])) for name in columns))
    console = Console(file=io.StringIO(), width=Console().width if Console().is_terminal else 160)
    console.print(table)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines() if line.strip()) + "\n"  # type: ignore[attr-defined]


class Rounded(float):
    """A number of which so many decimals matter."""

    decimals: int

    @classmethod
    def by_error(cls, value: float, error: float) -> float:
        """Keep two digits of the error, and whole numbers whole."""
        if error <= 0 or value != value or error != error or isinstance(value, int):
            return value
        rounded = cls(value)
        rounded.decimals = min(9, max(0, 1 - floor(log10(error))))
        return rounded


def readable(value: object) -> str:
    """Write a value for people: 1,234 and 12.3 and –."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "".join(c if c.isprintable() else "\ufffd" for c in str(value))
    if isinstance(value, Rounded):
        return f"{value:,.{value.decimals}f}"
    if isinstance(value, int) or value.is_integer():
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"


FORMATS: dict[str, Callable[[Records, Sequence[str]], Iterator[str]]] = {
    "json": as_json,
    "jsonl": as_json_lines,
    "csv": as_csv,
    "table": as_table,
}
