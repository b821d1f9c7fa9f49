"""Work on several cores, in order and with bounded memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_order(function: Callable[[T], R], items: Iterable[T], *, workers: int | None = None) -> Iterator[R]:
    """Yield ``function(item)`` in the order of the items, computing a few ahead in threads.

    At most one result per worker waits to be taken. numpy, AES and Parquet release the interpreter's lock,
    so threads do share the cores.
    """
    workers = workers or min(4, os.cpu_count() or 1)
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
