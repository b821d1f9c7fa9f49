"""Records as JSON, CSV or a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence

Records = Sequence[Mapping[str, object]]


def as_json(records: Records, columns: Sequence[str]) -> str:
    """An array of objects, one per line."""
    lines = [json.dumps({name: record[name] for name in columns}, ensure_ascii=False) for record in records]
    return "[" + ",\n ".join(lines) + "]\n"


def as_csv(records: Records, columns: Sequence[str]) -> str:
    """A header and one line per record; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([record[name] for name in columns] for record in records)
    return text.getvalue()


def as_table(records: Records, columns: Sequence[str], *, header: bool = True) -> str:
    """A table for people: numbers to the right, rounded to what matters."""
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


def readable(value: object) -> str:
    """Write a value for people: 1,234 and 12.3 and –."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "".join(c if c.isprintable() else "\ufffd" for c in str(value))
    if isinstance(value, int) or value.is_integer():
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"


FORMATS: dict[str, Callable[[Records, Sequence[str]], str]] = {
    "json": as_json,
    "csv": as_csv,
    "table": as_table,
}
