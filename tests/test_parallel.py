"""The ordered map."""

from __future__ import annotations

import threading
import time

import pytest

from dpcli.parallel import in_order


def test_results_come_in_order_whatever_takes_longer() -> None:
    def slow_first(number: int) -> int:
        time.sleep(0.02 if number == 0 else 0)
        return number * number

    assert list(in_order(slow_first, range(20), workers=4)) == [n * n for n in range(20)]


def test_work_is_shared_between_threads() -> None:
    meeting = threading.Barrier(2, timeout=10)
    assert list(in_order(lambda _: meeting.wait() >= 0, range(2), workers=2)) == [True, True]


def test_no_more_is_taken_than_can_wait() -> None:
    taken: list[int] = []

    def items() -> object:
        for number in range(100):
            taken.append(number)
            yield number

    results = in_order(lambda n: n, items(), workers=2)  # type: ignore[arg-type,var-annotated]
    next(results)
    assert len(taken) == 3
    results.close()  # type: ignore[attr-defined]


def test_an_error_reaches_the_caller() -> None:
    def fail(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    with pytest.raises(ValueError, match="three"):
        list(in_order(fail, range(10), workers=2))
