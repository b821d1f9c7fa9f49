"""A system clock that jumps: no period is spent twice, times in the ledger never decrease, and it stays whole."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpcli.data.periods import Period, period_index
from dpcli.errors import BudgetError
from dpcli.privacy.ledger import Budget, Debit, Ledger

Sound = Callable[..., dict[str, Path]]
WritePlan = Callable[..., Path]
PERIODS: tuple[Period, ...] = ("day", "week", "month", "quarter", "year")
FIRST, LAST = "1970-01-01T00:00:00", "9999-12-31T23:59:59"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)

    def __call__(self) -> dt.datetime:
        return self.now

    def set(self, text: str) -> None:
        self.now = dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ticking(ledger: Ledger, clock: Clock) -> Ledger:
    return Ledger(ledger.path, clock)


def debit(name: object, epsilon: Fraction = Fraction(1)) -> Debit:
    return Debit(
        release_id=str(name),
        dataset="town",
        release="cube",
        epsilon=epsilon,
        neighbors="add-remove",
        plan_digest="d",
    )


def granted(ledger: Ledger, name: object, epsilon: Fraction, budgets: Sequence[Budget]) -> bool:
    """Try to spend; a refusal spends nothing and says so."""
    before = len(ledger.debits())
    words = "Nothing was spent"
    try:
        ledger.reserve([debit(name, epsilon)], budgets)
    except BudgetError as error:
        words = str(error)
    assert "Nothing was spent" in words
    return len(ledger.debits()) > before


def within_budgets(ledger: Ledger) -> None:
    """Add up the debits of every period by the times that the ledger has, and not by its own sums."""
    assert ledger.verify() is not None
    times = [entry.time for entry in ledger.entries()]
    assert times == sorted(times)
    for budget in ledger.budgets("town"):
        sums: dict[int, Fraction] = {}
        for one in ledger.debits("town"):
            day = dt.datetime.fromisoformat(one.time).date()
            period = period_index(day, budget.per) if budget.per else 0
            sums[period] = sums.get(period, Fraction(0)) + one.epsilon
        assert all(spent <= budget.total for spent in sums.values())


class TestJumps:
    @pytest.mark.parametrize("per", PERIODS)
    def test_to_and_fro_across_a_border(self, ticking: Ledger, clock: Clock, per: Period) -> None:
        """Two sides of one border are two periods, however often it is crossed."""
        sides = [
            "2025-12-31T23:59:59",
            "2026-01-05T00:00:00",
        ]  # a border of every kind of period lies between
        results = []
        for number, side in enumerate(sides * 5):
            clock.set(side)
            results.append(granted(ticking, number, Fraction(1), [Budget(Fraction(1), per)]))
        assert results == [True, True] + [False] * 8
        within_budgets(ticking)

    def test_an_old_clock_grants_what_is_left_and_no_more(self, ticking: Ledger, clock: Clock) -> None:
        monthly = [Budget(Fraction(1), "month")]
        clock.set("2026-03-01T00:00:00")
        assert granted(ticking, "a", Fraction(3, 5), monthly)
        for text in ("2026-02-28T23:59:59", "2025-03-01T00:00:00", FIRST):
            clock.set(text)
            assert ticking.spent("town", "month") == Fraction(3, 5)
            assert not granted(ticking, f"over {text}", Fraction(3, 5), monthly)
        assert granted(ticking, "b", Fraction(2, 5), monthly)
        assert [one.time[:10] for one in ticking.debits()] == ["2026-03-01"] * 2
        clock.set("2026-03-31T23:59:59")
        assert not granted(ticking, "c", Fraction(1, 10**9), monthly)
        clock.set("2026-04-01T00:00:00")
        assert granted(ticking, "d", Fraction(1), monthly)
        within_budgets(ticking)

    def test_a_clock_that_starts_in_1970(self, ticking: Ledger, clock: Clock) -> None:
        """A machine without a battery: it spends 1970's, and the real time begins a period of its own."""
        budgets = [Budget(Fraction(1), "month"), Budget(Fraction(2))]
        clock.set(FIRST)
        assert granted(ticking, "a", Fraction(1), budgets)
        clock.set("2026-04-01T00:00:00")
        assert granted(ticking, "b", Fraction(1), budgets)
        clock.set(FIRST)
        assert not granted(ticking, "c", Fraction(1), budgets)
        clock.set("2026-05-01T00:00:00")
        assert not granted(
            ticking, "d", Fraction(1), budgets
        )  # the budget for ever holds, whatever the clock
        within_budgets(ticking)

    @pytest.mark.parametrize("per", PERIODS)
    def test_the_last_second_that_can_be_written(self, ticking: Ledger, clock: Clock, per: Period) -> None:
        """After it no period begins, and the refusal is still a sentence."""
        clock.set(LAST)
        assert granted(ticking, "a", Fraction(1), [Budget(Fraction(1), per)])
        for text in (LAST, "2026-04-01T00:00:00", FIRST):
            clock.set(text)
            assert not granted(ticking, f"b {text}", Fraction(1), [])
            assert ticking.spent("town", per) == 1
        within_budgets(ticking)

    def test_settling_and_resuming_do_not_go_back_either(self, ticking: Ledger, clock: Clock) -> None:
        ticking.reserve([debit("a")], [Budget(Fraction(1), "day")])
        clock.set(FIRST)
        ticking.settle("a", "failed")
        ticking.resume(["a"])
        ticking.settle("a", "released")
        ticking.set_budget("town", Budget(Fraction(2), "day"))
        assert {entry.time for entry in ticking.entries()} == {"2026-01-31T12:00:00+00:00"}
        assert granted(ticking, "b", Fraction(1), [])
        assert not granted(ticking, "c", Fraction(1), [])
        within_budgets(ticking)

    def test_fractions_of_a_second_and_other_zones(self, ticking: Ledger, clock: Clock) -> None:
        """Only whole seconds in UTC are kept, so that times compare as texts."""
        zones = [
            dt.timezone(dt.timedelta(hours=hours, minutes=minutes))
            for hours, minutes in ((14, 0), (-12, 0), (5, 45))
        ]
        for number, zone in enumerate(itertools.islice(itertools.cycle(zones), 12)):
            clock.now = dt.datetime(2026, 3, 31, 23, 59, 59, 999_999, tzinfo=zone)
            granted(ticking, number, Fraction(1), [Budget(Fraction(1), "day")])
        assert [one.time for one in ticking.debits()] == [
            "2026-03-31T09:59:59+00:00",
            "2026-04-01T11:59:59+00:00",
        ]
        within_budgets(ticking)


@pytest.mark.parametrize("seed", range(6))
def test_a_clock_that_jumps_at_random(ticking: Ledger, clock: Clock, seed: int) -> None:
    """Jumps of all sizes, to and fro: what is granted in a period never exceeds any budget."""
    draw = random.Random(seed)
    budgets = [Budget(Fraction(size), per) for per, size in zip(PERIODS, (1, 2, 4, 7, 12), strict=True)]
    for budget in budgets:
        ticking.set_budget("town", budget)
    start, end = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2400, 1, 1, tzinfo=dt.UTC)
    results = []
    for number in range(80):
        step = draw.choice([1, 60, 3_600, 86_400, 7 * 86_400, 31 * 86_400, 366 * 86_400])
        clock.now += dt.timedelta(seconds=draw.randint(-step, step))
        clock.now = min(max(clock.now, start), end)
        results.append(granted(ticking, number, Fraction(draw.randint(1, 10), 10), []))
        if results[-1] and draw.random() < 0.5:
            ticking.settle(str(number), draw.choice(["released", "failed"]))
    within_budgets(ticking)
    assert True in results
    assert False in results


class TestTheCommandLine:
    """Releases under a clock that is set anew for every run."""

    def test_a_month_cannot_be_spent_twice(
        self, driver: Any, write_plan: WritePlan, table: Path, ledger: Ledger, sound: Sound
    ) -> None:
        def run(name: str, now: str) -> dict[str, Any]:
            defaults = "dpcli.privacy.ledger:Ledger.__init__.__defaults__"
            clock = {"at": defaults, "do": "clock", "value": f"{now}+00:00"}
            words = ["release", write_plan(), table, "-o", f"{name}.parquet", "--ledger", ledger.path]
            ended: dict[str, Any] = driver.run(table.parent, *words, faults=[clock])
            return ended

        Ledger(ledger.path, lambda: dt.datetime(2026, 1, 1, tzinfo=dt.UTC)).set_budget(
            "town", Budget(Fraction(1), "month")
        )
        moments = {
            "2026-01-31T23:59:59": 0,
            "2026-01-31T00:00:00": 4,  # back within the month
            "2025-12-31T00:00:00": 4,  # back across its end
            FIRST: 4,
            "2026-02-01T00:00:00": 0,
            "2026-01-31T23:59:58": 4,
            "2031-07-01T00:00:00": 0,  # far ahead
            "2026-03-01T00:00:00": 4,  # and back: it counts as July of 2031
            "2031-07-31T23:59:59": 4,
            LAST: 0,
            "2031-08-01T00:00:00": 4,
        }
        for number, (moment, code) in enumerate(moments.items()):
            ended = run(str(number), moment)
            assert ended["code"] == code, (moment, ended)
            assert (table.parent / f"{number}.parquet").exists() == (code == 0)
            assert code == 0 or "Nothing was spent" in ended["told"]
        assert len(sound(ledger)) == 4
        assert [one.time[:7] for one in ledger.debits()] == ["2026-01", "2026-02", "2031-07", "9999-12"]
        within_budgets(ledger)
        for words in (["verify"], ["show"]):
            assert driver.run(table.parent, "ledger", *words, "--ledger", ledger.path)["code"] == 0
