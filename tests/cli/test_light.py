"""Nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

HEAVY = (
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "sqlglot",
    "pydantic",
    "rich",
    "mpmath",
    "cryptography",
    "ruamel",
)


def imported(tmp_path: Path, *arguments: str) -> set[str]:
    """The heavy packages that a command has imported when it ends."""
    code = (
        "import sys\nfrom dpcli.cli import main\n"
        f"try: main({list(arguments)!r})\nexcept SystemExit as end: assert not end.code, end.code\n"
        f"print('\\n', *(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["release", "--help"], ["plan", "check", "--help"]]
)
def test_help_imports_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    assert imported(tmp_path, *arguments) == set()


def test_a_plan_is_checked_without_numpy(write_plan: Callable[..., Path], tmp_path: Path) -> None:
    assert imported(tmp_path, "plan", "check", str(write_plan()), "--format", "json") <= {
        "pydantic",
        "ruamel",
    }


def test_a_query_does_without_pandas(
    dpcli: Callable[..., Result], write_plan: Callable[..., Path], table: Path, tmp_path: Path
) -> None:
    assert dpcli("release", write_plan(), table, "-o", "out.parquet").exit_code == 0
    used = imported(tmp_path, "query", "out.parquet", "age = 3", "--format", "json")
    assert used.isdisjoint({"pandas", "scipy", "rich", "mpmath", "cryptography", "ruamel"})
