"""Runs the command line in forked processes that are killed, or find no room, at a chosen place.

It is started once, imports everything, then reads one task per line of JSON and answers each with a line. A
task has children that start together; a child makes its runs one after the other, each with its own faults.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

WARM = (
    "pandas",
    "dpcli.api",
    "dpcli.cli.render",
    "dpcli.mechanisms.laplace",
    "dpcli.plan.load",
    "dpcli.publish",
    "pyarrow.csv",
    "pyarrow.compute",
    "pyarrow.parquet",
    "rich.table",
)


def main() -> None:
    for name in WARM:
        importlib.import_module(name)
    importlib.import_module("dpcli.plan.located").read_yaml("plan: 1", "plan.yaml")  # compiles its patterns
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        answer = _called(task["call"]) if "call" in task else _forked(task["children"])
        print(json.dumps(answer), flush=True)


def _called(command: list[str]) -> int:
    """Run another program from here, where mounts are the driver's own."""
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def _forked(children: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Start the children together, kill those that are to be killed, and tell how each ended."""
    waiting, go = os.pipe()
    books: list[IO[str]] = []
    pids: list[int] = []
    for child in children:
        book = tempfile.TemporaryFile("w+")  # noqa: SIM115 — closed when its child has ended
        pid = os.fork()
        if pid == 0:
            os.close(go)
            os.read(waiting, 1)  # until all are there
            _child(child, book)
        books.append(book)
        pids.append(pid)
    os.close(waiting)
    os.close(go)
    start = time.monotonic()
    kills = [
        (child["kill_after"], pid) for child, pid in zip(children, pids, strict=True) if "kill_after" in child
    ]
    for delay, pid in sorted(kills):
        time.sleep(max(0.0, start + delay - time.monotonic()))
        os.kill(pid, signal.SIGKILL)  # one that has ended is not waited for yet, so its number is its own
    return [_ended(pid, book, start) for pid, book in zip(pids, books, strict=True)]


def _ended(pid: int, book: IO[str], start: float) -> dict[str, Any]:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    seconds = time.monotonic() - start
    with book:
        book.seek(0)
        return {"code": code, "seconds": seconds, "runs": [json.loads(line) for line in book]}


def _child(child: dict[str, Any], book: IO[str]) -> None:
    """Make the runs and note each as it ends; never return."""
    code = 1
    try:
        told, tell = os.pipe()  # a file would be limited too
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(tell, 2)
        for run in child["runs"]:
            code = _run(run)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            words = os.read(told, 1 << 16).decode() if select.select([told], [], [], 0)[0] else ""
            print(json.dumps({"code": code, "told": words}), file=book, flush=True)
    finally:
        os._exit(code)


def _run(run: dict[str, Any]) -> int:
    from dpcli.cli import main as dpcli

    undo = [_put(fault) for fault in run.get("faults", ())]
    os.chdir(run["folder"])
    try:
        dpcli(run["words"], prog_name="dpcli")
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        for restore in undo:
            restore()
    return 0


def _put(fault: dict[str, Any]) -> Callable[[], None]:
    """Put a fault in its place; return how to take it away."""
    module, _, path = fault["at"].partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    real = getattr(owner, name)
    setattr(owner, name, _faulty(fault, real))
    return lambda: setattr(owner, name, real)


def _faulty(fault: dict[str, Any], real: Any) -> Any:
    do = fault["do"]
    if do == "set":
        return fault["value"]
    if do == "no lock":
        return lambda *arguments: nullcontext()
    if do == "clock":
        now = dt.datetime.fromisoformat(fault["value"])
        return (lambda: now,)
    calls = 0

    def patched(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != fault.get("call", 1):
            return real(*arguments, **options)
        if do == "kill after":
            real(*arguments, **options)
        if do.startswith("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal is on its way
        if do == "fail":
            raise OSError(fault["value"], os.strerror(fault["value"]))
        if do == "limit":
            size = resource.RLIM_INFINITY if fault["value"] < 0 else fault["value"]
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        if do == "fill":
            _fill(Path(fault["value"]))
        return real(*arguments, **options)

    return patched


def _fill(path: Path) -> None:
    """Write until the disk is full, to the last byte."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    for size in (4096, 1):
        try:
            while True:
                os.write(handle, bytes(size))
        except OSError:
            pass
    os.close(handle)


if __name__ == "__main__":
    main()
