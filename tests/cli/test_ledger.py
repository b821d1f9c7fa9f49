"""dpcli ledger show."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from click.testing import Result


def test_show_adds_up(dpcli: Callable[..., Result], write_plan: Callable[..., Path], table: Path) -> None:
    for epsilon in ("0.1", "0.2", "1e-9"):
        plan = write_plan(epsilon=epsilon)
        assert dpcli("release", plan, table, "-o", "o.parquet", "--if-exists", "replace").exit_code == 0
    debits = json.loads(dpcli("ledger", "show", "--format", "json").stdout)
    assert sum(Fraction(debit["epsilon"]) for debit in debits) == Fraction("0.300000001")
    assert {debit["state"] for debit in debits} == {"released"}
    assert json.loads(dpcli("ledger", "show", "--dataset", "city", "--format", "json").stdout) == []
    assert "town" in dpcli("ledger", "show").stdout


def test_a_ledger_that_is_none(dpcli: Callable[..., Result], table: Path) -> None:
    result = dpcli("ledger", "show", "--ledger", table)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: The ledger {table} cannot be used (file is not a database).")
