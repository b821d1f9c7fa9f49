"""What many tests share: the repository's folder, a small plan, and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dpcli.cli import main
from dpcli.release.file import write_release
from dpcli.release.metadata import Metadata, Noise, Privacy
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy

ROOT = Path(__file__).parent.parent

PLAN = """\
plan: 1
dataset: town
privacy:
  epsilon: "{epsilon}"
  neighbors: {neighbors}
{privacy}
attributes:
  age: {{kind: ordinal, range: [0, 9]}}
  sex: {{kind: nominal, values: [F, M]}}
  job:
    kind: nominal
    hierarchy: {{Health: [Nurse, Dentist], Trade: [Mason, Plumber, Roofer], Retired: null}}
releases:
  - name: cube
    cube: [age, sex, job]
    mechanism: {mechanism}
"""

ROWS = [
    (age, sex, job)
    for age, sex, job, times in [
        (3, "F", "Nurse", 40),
        (3, "M", "Nurse", 25),
        (4, "F", "Dentist", 10),
        (5, "M", "Mason", 33),
        (5, "F", "Plumber", 7),
        (9, "F", "Retired", 60),
        (0, "M", "Roofer", 1),
    ]
    for _ in range(times)
]


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep fitted strategies out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPCLI_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture
def write_plan(tmp_path: Path) -> Callable[..., Path]:
    """Write the small plan, with changes, and return its path."""

    def write(
        *,
        epsilon: str = "1",
        neighbors: str = "add-remove",
        mechanism: str = "laplace",
        privacy: str = "",
        name: str = "plan.yaml",
        replace: tuple[str, str] = ("", ""),
    ) -> Path:
        text = PLAN.format(epsilon=epsilon, neighbors=neighbors, mechanism=mechanism, privacy=privacy)
        path = tmp_path / name
        path.write_text(text.replace(*replace) if replace[0] else text)
        return path

    return write


@pytest.fixture(scope="session")
def write_cube() -> Callable[..., None]:
    """Write a release file of given counts, whose attributes a0, a1, … are whole numbers from 1 on."""

    def write(path: Path, counts: np.ndarray, cuts: Sequence[int] = ()) -> None:
        items = [{"name": f"a{k}", "kind": "ordinal", "range": [1, m]} for k, m in enumerate(counts.shape)]
        metadata = Metadata(
            id="0" * 32,
            tool="dpcli test",
            randomness="operating-system",
            dataset="town",
            name="cube",
            mechanism="laplace",
            domain=items,
            strategy=Strategy(tuple(map(Identity, counts.shape))).describe(),
            noise=Noise(scale="1"),
            privacy=Privacy(epsilon="1", neighbors="add-remove"),
        )
        write_release(path, metadata, np.split(counts.reshape(-1), cuts), replace=True)

    return write


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A small CSV table that fits the small plan."""
    path = tmp_path / "people.csv"
    path.write_text("age,sex,job\n" + "".join(f"{age},{sex},{job}\n" for age, sex, job in ROWS))
    return path


@pytest.fixture
def dpcli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command line in ``tmp_path`` with a ledger of its own."""
    monkeypatch.setenv("DPCLI_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="dpcli")

    return run
