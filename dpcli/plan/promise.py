"""What a plan promises to the people in the table: epsilon, neighbours, budget, and who is one person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from dpcli.data.periods import Period
from dpcli.errors import listed
from dpcli.privacy.budget import Budget
from dpcli.privacy.exact import Epsilon


def _column_name(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise ValueError("must be the name of a column, in visible characters")
    return name


ColumnName = Annotated[str, AfterValidator(_column_name)]


def shown(given: Any) -> str:
    """Show what the plan says, shortened."""
    if isinstance(given, Mapping):
        return "a mapping"
    if isinstance(given, (list, tuple)):
        return "a list"
    text = "nothing" if given is None else repr(given)
    return text if len(text) <= 60 else f"{text[:57]}…"


class Strict(BaseModel):
    """Frozen, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PrivacyUnit(Strict):
    """Who is one person, and how many of their rows count."""

    column: ColumnName = Field(
        description="The column whose values tell people apart; it need not be an attribute."
    )
    max_rows: int = Field(
        ge=1,
        le=10**6,
        description="The most rows of one person that count, 1 to 1,000,000; the noise grows with it.",
    )
    missing: Literal["error", "drop"] = Field(
        "error", description="What to do with a row whose person is not known: refuse the table, or drop it."
    )


class PeriodBudget(Strict):
    """The most epsilon that may be spent on a dataset, ever or in each calendar period (UTC)."""

    total: Epsilon = Field(description="The most epsilon, over all plans and runs.")
    per: Period | None = Field(
        None, description="The period for which the total holds; without it, for ever."
    )


def _one_for_each_period(budgets: tuple[PeriodBudget, ...]) -> tuple[PeriodBudget, ...]:
    periods = [budget.per or "ever" for budget in budgets]
    twice = sorted({period for period in periods if periods.count(period) > 1})
    if twice:
        raise ValueError(f"has more than one budget for {listed(twice)}; keep one")
    return budgets


def _form(budget: Any) -> str:
    """Tell the ways to write a budget apart."""
    if budget is None:
        return "none"
    if isinstance(budget, (list, tuple)):
        return "several"
    return "one" if isinstance(budget, (Mapping, PeriodBudget)) else "total"


AnyBudget = Annotated[
    Annotated[None, Tag("none")]
    | Annotated[Epsilon, Tag("total")]
    | Annotated[PeriodBudget, Tag("one")]
    | Annotated[
        tuple[PeriodBudget, ...], Field(min_length=1), AfterValidator(_one_for_each_period), Tag("several")
    ],
    Discriminator(_form),
]


class Privacy(Strict):
    """What is promised: how much may be learnt about one person, who is one row of the table or a unit."""

    epsilon: Epsilon = Field(
        description="The total epsilon of this plan: a decimal above 0, kept as the digits written."
    )
    neighbors: Literal["add-remove", "replace-one"] = Field(
        "add-remove",
        description=(
            "Which tables must look alike: one person added or removed (their number is private too), or"
            " one person replaced (their number is public)."
        ),
    )
    budget: AnyBudget = Field(
        None,
        description=(
            "The most epsilon that may ever be spent on this dataset, over all plans and runs; or"
            " {total: …, per: month}, or a list of such."
        ),
    )
    unit: PrivacyUnit | None = Field(
        None, description="Who is one person, if that is not one row of the table."
    )

    @property
    def rows_per_person(self) -> int:
        """The most rows of one person that count: what the unit bounds, or one row, which is assumed."""
        return self.unit.max_rows if self.unit else 1

    @property
    def budgets(self) -> list[Budget]:
        """What may be spent on the dataset: ever, and in each period."""
        if self.budget is None:
            return []
        if isinstance(self.budget, tuple):
            return [Budget(each.total, each.per) for each in self.budget]
        if isinstance(self.budget, PeriodBudget):
            return [Budget(self.budget.total, self.budget.per)]
        return [Budget(self.budget)]
