"""PRIVATE: what a ledger's entries come to: the debits with their states, the budgets, and exact sums.

Kinds of entries: ``debit`` (a release's reservation), ``settle`` (how it ended), ``resume`` (a reservation
of which nothing was published is taken up again) and ``budget`` (the latest for a dataset and period holds).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from dpcli.data.periods import Period, period_index
from dpcli.errors import BudgetError, LedgerError
from dpcli.privacy.budget import PERIODS, Balance, Budget, composed
from dpcli.privacy.entry import Entry
from dpcli.privacy.exact import exact_text

State = Literal["reserved", "released", "failed"]


@dataclass(frozen=True, kw_only=True)
class Debit:
    """One release's reservation, as the ledger keeps it.

    Debits of one call of ``reserve`` that have the same plan and the same ``parallel`` name count rows that
    no other of them counts, so together they cost the largest of them; ``group`` is the number of the first.
    ``file`` is where its release was to go, ``content`` the digest of what was published for it.
    """

    release_id: str
    dataset: str
    release: str
    epsilon: Fraction
    neighbors: str
    unit: str = "row"
    plan_digest: str
    parallel: str | None = None
    file: str | None = None
    time: str = ""
    state: State = "reserved"
    content: str | None = None
    group: int | None = None

    def record(self) -> dict[str, object]:
        """Return the debit as the fields that are printed."""
        return {**vars(self), "epsilon": exact_text(self.epsilon)}

    def body(self, group: int | None) -> dict[str, Any]:
        """Return what the entry of this debit says; what comes later is not part of it."""
        later = ("time", "state", "content", "group")
        fields = {name: value for name, value in self.record().items() if name not in later}
        return {**fields, "group": group}


def budget_body(dataset: str, budget: Budget) -> dict[str, Any]:
    """Return what the entry of a budget says."""
    return {"dataset": dataset, "epsilon": exact_text(budget.total), "per": budget.per}


class Books:
    """The state that a chain's entries come to."""

    def __init__(self, entries: Iterable[Entry], now: str, path: Path) -> None:
        self.debits: dict[str, Debit] = {}
        self.today = _day(now)
        self._tickets: dict[str, int] = {}
        self._old: set[str] = set()
        self._budgets: dict[tuple[str, Period | None], Budget] = {}
        for entry in entries:
            try:
                self._enter(entry)
            except (KeyError, ValueError, TypeError, AttributeError, ArithmeticError):
                raise LedgerError(
                    f"Entry {entry.number} of the ledger {path} cannot be understood. If a newer dpcli wrote"
                    " it, use that."
                ) from None

    def _enter(self, entry: Entry) -> None:
        body = dict(entry.body)
        if entry.kind == "debit":
            group, old = body.pop("group"), body.pop("old", False)
            group = entry.number if group is None else int(group)
            debit = Debit(**{**body, "epsilon": _exact(body["epsilon"]), "time": entry.time, "group": group})
            fields = {**body, "parallel": debit.parallel or "", "file": debit.file or ""}
            if not all(isinstance(value, str) for value in fields.values()):
                raise TypeError("fields are kept as text")
            if debit.epsilon <= 0 or debit.release_id in self.debits:
                raise ValueError("no debit")
            self.debits[debit.release_id] = debit
            self._tickets[debit.release_id] = entry.number
            self._old |= {debit.release_id} if old else set()
        elif entry.kind == "budget":
            budget = Budget(_exact(body["epsilon"]), body["per"])
            self._budgets[body["dataset"], budget.per] = budget
        elif entry.kind in ("settle", "resume"):
            debit = self.debits[body["release_id"]]
            state: State = "reserved" if entry.kind == "resume" else body["state"]
            if debit.state == "released" or state not in ("reserved", "released", "failed"):
                raise ValueError("what is released stays released")
            file, content = body.get("file", debit.file), body.get("content")
            if not (isinstance(file, str | None) and isinstance(content, str | None)):
                raise TypeError("fields are kept as text")
            self.debits[debit.release_id] = replace(debit, state=state, content=content, file=file)
            if entry.kind == "resume":
                self._tickets[debit.release_id] = entry.number
        else:
            raise ValueError("no such kind")

    def ticket(self, release_id: str) -> int:
        """Return the number of the entry that last let a release be drawn: its debit, or a resumption."""
        return self._tickets[release_id]

    def together(self, debit: Debit) -> list[Debit]:
        """Return the debits that compose in parallel with one, itself included."""
        return [other for other in self.debits.values() if other.group == debit.group]

    def resumable(self, debit: Debit) -> bool:
        """Whether a debit still pays for a draw.

        Not if something was published for it, or may have been (see :mod:`dpcli.privacy.formats`). Nor if
        something was for another of its parallel group: the table may have changed since, so that a row, or
        its person, would count in two of them.
        """
        return not any(
            other.state == "released" or other.release_id in self._old for other in self.together(debit)
        )

    def spent(self, dataset: str, per: Period | None = None) -> Fraction:
        """Return what a dataset has spent, in all or in the present period.

        Reserved, released and failed debits all count. The debits of a group are of one time, so a period
        holds all of them or none.
        """
        return composed(
            (debit.group, debit.epsilon)
            for debit in self.debits.values()
            if debit.dataset == dataset and (per is None or self._present(debit.time, per))
        )

    def _present(self, time: str, per: Period) -> bool:
        return period_index(_day(time), per) == period_index(self.today, per)

    def datasets(self) -> list[str]:
        """Return the names of all datasets that have debits or budgets, sorted."""
        return sorted({debit.dataset for debit in self.debits.values()} | {name for name, _ in self._budgets})

    def budgets(self, dataset: str) -> list[Budget]:
        """Return the recorded budgets of a dataset: the lifetime's, then by length of period."""
        return [self._budgets[dataset, per] for per in PERIODS if (dataset, per) in self._budgets]

    def lowered(self, dataset: str, budgets: Sequence[Budget]) -> list[Budget]:
        """Return those budgets of a plan that are to be recorded: new ones, and lower than the recorded."""
        least: dict[Period | None, Budget] = {}
        for budget in budgets:
            known = least.get(budget.per) or self._budgets.get((dataset, budget.per))
            if known is None or budget.total < known.total:
                least[budget.per] = budget
        return list(least.values())

    def balances(self, dataset: str, budgets: Sequence[Budget] = ()) -> list[Balance]:
        """Return what is spent of every budget that holds, those of a plan being able to lower them only."""
        planned = {budget.per: budget for budget in self.lowered(dataset, budgets)}
        holding = {budget.per: budget for budget in self.budgets(dataset)} | planned
        return [
            Balance(holding[per], self.spent(dataset, per), self.today, per in planned)
            for per in PERIODS
            if per in holding
        ]

    def check(self, dataset: str, asked: Fraction, budgets: Sequence[Budget]) -> None:
        """Raise ``BudgetError`` if so much more would exceed a budget."""
        for balance in self.balances(dataset, budgets):
            if balance.spent + asked > balance.budget.total:
                raise BudgetError(balance.refusal(dataset, asked))


def _exact(text: str) -> Fraction:
    if not isinstance(text, str):
        raise TypeError("numbers are kept as text")
    return Fraction(text)


def _day(time: str) -> dt.date:
    return dt.datetime.fromisoformat(time).date()
