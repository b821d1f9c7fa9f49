"""Budgets and what is left of them: for ever, or within each calendar period. No secrets, and no files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from dpcli.data.periods import Period, period_first_day, period_index, period_label
from dpcli.privacy.exact import exact_text

PERIODS: tuple[Period | None, ...] = (None, "day", "week", "month", "quarter", "year")


@dataclass(frozen=True)
class Budget:
    """The most epsilon that may be spent on a dataset: ever, or within each calendar period in UTC."""

    total: Fraction
    per: Period | None = None

    def __post_init__(self) -> None:
        if self.total <= 0 or self.per not in PERIODS:
            raise ValueError("a budget is above 0, for ever or per day, week, month, quarter or year")

    def __str__(self) -> str:
        return exact_text(self.total) + (f" per {self.per}" if self.per else "")


@dataclass(frozen=True)
class Balance:
    """What is spent of a budget: in all, or in the period that holds ``today``."""

    budget: Budget
    spent: Fraction
    today: dt.date
    planned: bool = False
    """Whether it is a plan's own budget that is the lowest here, and not one that is recorded."""

    @property
    def left(self) -> Fraction:
        """What may still be spent; nothing where a budget was lowered below what is spent."""
        return max(self.budget.total - self.spent, Fraction(0))

    @property
    def period(self) -> str:
        """The present period in words: ``in 2026-03``, ``on 2026-03-31`` or ``in all``."""
        per = self.budget.per
        if per is None:
            return "in all"
        return f"{'on' if per == 'day' else 'in'} {period_label(period_index(self.today, per), per)}"

    @property
    def until(self) -> str:
        """When the next period begins, as words to follow what is left; empty for a lifetime budget."""
        per = self.budget.per
        if per is None:
            return ""
        try:
            first = period_first_day(period_index(self.today, per) + 1, per)
        except (ValueError, OverflowError):  # the last period of the year 9999
            return ""
        return f" until the next {per} begins on {first.isoformat()} (UTC)"

    def refusal(self, dataset: str, asked: Fraction) -> str:
        """Say why a release that asks for so much is refused, and what to do."""
        per = self.budget.per
        return (
            f"Dataset '{dataset}' has a budget of epsilon {self.budget} and has spent"
            f" {exact_text(self.spent)}{f' {self.period}' if per else ''}; this release asks for"
            f" {exact_text(asked)}, and only {exact_text(self.left)} is left{self.until}. Nothing was spent."
            f" Lower the plan's epsilon{', wait' if per else ''}, or, if what people were promised allows it,"
            f" raise {'the budget in the plan, and ' if self.planned else ''}the one in the ledger with"
            f" 'dpcli ledger set-budget {dataset} EPSILON{f' --per {per}' if per else ''}'."
        )


def composed(costs: Iterable[tuple[Hashable, Fraction]]) -> Fraction:
    """Return what releases cost together: the largest epsilon of each group, summed over groups.

    Proof: groups compose in sequence, so they add up. Within a group a row is counted by one release at
    most, the filters being disjoint. Each release is calibrated to changes of at most m rows (m = r · n of
    :func:`dpcli.privacy.cost.sensitivity`, the same for all of a plan), so changing k_i of the rows that it
    counts costs k_i · ε_i / m. Neighbours differ by Σ k_i ≤ m such changes, also when a row is replaced by
    one that another release counts, and Σ k_i · ε_i / m ≤ max ε_i. Where a person owns several rows this
    needs that at most r of them are kept *before* the filters, and not r by each release.
    """
    largest: dict[Hashable, Fraction] = {}
    for group, epsilon in costs:
        largest[group] = max(epsilon, largest.get(group, Fraction(0)))
    return sum(largest.values(), Fraction(0))
