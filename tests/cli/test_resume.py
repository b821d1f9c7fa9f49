"""dpcli release --resume: what was paid for is completed, and never paid for or published twice."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import Result

from dpcli import publish
from dpcli.privacy.ledger import Ledger
from dpcli.release import whole
from dpcli.release.file import open_release

Cli = Callable[..., Result]
WritePlan = Callable[..., Path]
HALVES = """releases:
  - {name: women, cube: [age], where: "sex = 'F'", parallel: h}
  - {name: men, cube: [age], where: "sex = 'M'", parallel: h}
"""
NO_DEBIT = "the ledger has no debit for it from this plan as it is written now"


@pytest.fixture
def plan(write_plan: WritePlan) -> Path:
    more = "releases:\n  - {name: jobs, cube: [job], epsilon: 0.25}\n"
    return write_plan(privacy='  budget: "1"', replace=("releases:\n", more))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


@pytest.fixture
def failed(dpcli: Cli, plan: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """A run that fails while it writes its second file."""
    real = whole._sync

    def full(path: Path) -> None:
        if "cube" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path)

    with monkeypatch.context() as patch:
        patch.setattr(whole, "_sync", full)
        result = dpcli("release", plan, table, "-o", "out")
    assert result.exit_code == 2
    return result


def test_the_missing_file_is_made_and_nothing_is_spent(
    dpcli: Cli, plan: Path, table: Path, failed: Result, ledger: Ledger
) -> None:
    assert "run again: what is missing is not paid for twice" in failed.stderr
    jobs = Path("out/jobs.parquet").read_bytes()
    result = dpcli("release", plan, table, "-o", "out", "--resume", "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert [(row["release"], row["status"]) for row in json.loads(result.stdout)] == [
        ("jobs", "skipped"),
        ("cube", "resumed"),
    ]
    assert ledger.spent("town") == 1
    assert [debit.state for debit in ledger.debits()] == ["released", "released"]
    assert Path("out/jobs.parquet").read_bytes() == jobs
    assert open_release("out/cube.parquet").metadata.id == ledger.debits()[1].release_id
    assert dpcli("ledger", "verify", "out/jobs.parquet", "out/cube.parquet").exit_code == 0
    again = dpcli("release", plan, table, "-o", "out", "--resume")
    assert again.exit_code == 0
    assert len(ledger.debits()) == 2


def test_the_same_command_again_pays_for_nothing_twice(
    dpcli: Cli, plan: Path, table: Path, failed: Result, ledger: Ledger
) -> None:
    words = ["release", plan, table, "-o", "out", "--if-exists", "skip", "--format", "json"]
    result = dpcli(*words)
    assert result.exit_code == 0, result.stderr
    assert [row["status"] for row in json.loads(result.stdout)] == ["skipped", "resumed"]
    assert ledger.spent("town") == 1
    assert dpcli(*words).exit_code == 0
    assert len(ledger.debits()) == 2


def test_a_failed_replacement_is_made_up_for(
    dpcli: Cli, write_plan: WritePlan, table: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = write_plan()
    words = ["release", plan, table, "-o", "out.parquet", "--if-exists", "replace"]
    assert dpcli(*words).exit_code == 0
    old = open_release("out.parquet").metadata.id
    with monkeypatch.context() as patch:
        patch.setattr(whole, "_sync", lambda path: exec("raise OSError(28, 'No space left on device')"))
        assert dpcli(*words).exit_code == 2
    assert open_release("out.parquet").metadata.id == old
    skipped = dpcli("release", plan, table, "-o", "out.parquet", "--resume", "--format", "json")
    assert json.loads(skipped.stdout)[0]["status"] == "skipped"
    resumed = dpcli(*words, "--resume", "--format", "json")
    assert json.loads(resumed.stdout)[0]["status"] == "resumed"
    assert open_release("out.parquet").metadata.id == ledger.debits()[1].release_id
    assert ledger.spent("town") == 2


def test_a_draw_that_was_to_go_elsewhere_is_removed(
    dpcli: Cli, write_plan: WritePlan, table: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No second draw for the same debit lies about, wherever the first was to go."""
    Path("one").mkdir()
    Path("two").mkdir()
    real = Ledger.settle

    def killed(self: Ledger, release_id: str, state: str, *rest: object) -> None:
        if state == "released":
            raise KeyboardInterrupt  # the temporary file stays, for it may have been noted
        real(self, release_id, state, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "settle", killed)
        assert dpcli("release", write_plan(), table, "-o", "one/a.parquet").exit_code == 1
    assert len(list(Path("one").iterdir())) == 1
    result = dpcli("release", write_plan(), table, "-o", "two/a.parquet", "--resume")
    assert result.exit_code == 0, result.stderr
    assert list(Path("one").iterdir()) == []
    assert len(ledger.debits()) == 1


def test_what_was_released_is_not_made_again(
    dpcli: Cli, plan: Path, table: Path, failed: Result, ledger: Ledger
) -> None:
    Path("out/jobs.parquet").rename("elsewhere.parquet")
    result = dpcli("release", plan, table, "-o", "out", "--resume")
    assert result.exit_code == 4
    assert result.stderr.partition("\n")[2] == (
        "Error: Release 'jobs' cannot be resumed: the ledger has it as released, so its file was published or"
        " may have been; look for it.\n"
        "Nothing was spent. Without --resume what is missing is made anew, which spends again.\n"
    )
    assert sorted(path.name for path in Path("out").iterdir()) == ["cube.parquet"]
    assert ledger.spent("town") == 1


def test_a_changed_plan_has_paid_for_nothing(
    dpcli: Cli, plan: Path, table: Path, failed: Result, ledger: Ledger
) -> None:
    plan.write_text(plan.read_text().replace("range: [0, 9]", "range: [0, 10]"))
    result = dpcli("release", plan, table, "-o", "out", "--resume")
    assert result.exit_code == 4
    assert f"Release 'cube' cannot be resumed: {NO_DEBIT}" in result.stderr
    assert not Path("out/cube.parquet").exists()
    assert len(ledger.debits()) == 2


def test_nothing_to_resume(dpcli: Cli, plan: Path, table: Path, tmp_path: Path) -> None:
    result = dpcli("release", plan, table, "-o", "out", "--resume")
    assert result.exit_code == 4
    assert f"Release 'jobs' cannot be resumed: {NO_DEBIT}" in result.stderr
    assert not (tmp_path / "ledger.sqlite").exists()


def test_a_parallel_group_of_which_nothing_was_published_is_resumed_as_a_whole(
    dpcli: Cli, write_plan: WritePlan, table: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = write_plan()
    text = plan.read_text()
    plan.write_text(text[: text.index("releases:")] + HALVES)
    with monkeypatch.context() as patch:
        patch.setattr(publish, "write_release", lambda *_, **__: exec("raise KeyboardInterrupt"))
        result = dpcli("release", plan, table, "-o", "out")
    assert "run again: what is missing is not paid for twice" in result.stderr
    result = dpcli("release", plan, table, "-o", "out", "--resume")
    assert result.exit_code == 0, result.stderr
    assert ledger.spent("town") == 1
    assert dpcli("ledger", "verify", "out/women.parquet", "out/men.parquet").exit_code == 0


def test_a_parallel_group_is_not_resumed(
    dpcli: Cli, write_plan: WritePlan, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = write_plan()
    text = plan.read_text()
    plan.write_text(text[: text.index("releases:")] + HALVES)
    real = publish.write_release

    def broken(path: Path, *arguments: object, **options: object) -> None:
        if path.name == "men.parquet":
            raise KeyboardInterrupt
        real(path, *arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(publish, "write_release", broken)
        result = dpcli("release", plan, table, "-o", "out")
    assert result.exit_code == 1
    assert "What is missing of a parallel group has to be paid for again." in result.stderr
    assert "Epsilon 1 is spent all the same. Not produced: men. Produced: women." in result.stderr
    result = dpcli("release", plan, table, "-o", "out", "--resume")
    assert result.exit_code == 4
    assert "others of its parallel group 'h' were published" in result.stderr


class TestLeftUnderATemporaryName:
    @pytest.fixture
    def cut(self, dpcli: Cli, plan: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
        """A run that is stopped between the ledger's note and the renaming of its second file."""
        real = whole._rename_to_new

        def stopped(temporary: Path, path: Path) -> None:
            if path.name == "cube.parquet":
                raise OSError(errno.EIO, "Input/output error")
            real(temporary, path)

        with monkeypatch.context() as patch:
            patch.setattr(whole, "_rename_to_new", stopped)
            return dpcli("release", plan, table, "-o", "out")

    def test_it_gets_its_name(self, dpcli: Cli, plan: Path, table: Path, cut: Result, ledger: Ledger) -> None:
        assert cut.exit_code == 2
        (part,) = Path("out").glob(".*.part")
        content = part.read_bytes()
        result = dpcli("release", plan, table, "-o", "out", "--resume", "--format", "json")
        assert result.exit_code == 0, result.stderr
        assert [row["status"] for row in json.loads(result.stdout)] == ["skipped", "recovered"]
        assert Path("out/cube.parquet").read_bytes() == content
        assert not list(Path("out").glob(".*.part"))
        assert ledger.spent("town") == 1
        assert dpcli("ledger", "verify", "out/cube.parquet").exit_code == 0

    def test_without_resume_nothing_is_spent(
        self, dpcli: Cli, plan: Path, table: Path, cut: Result, ledger: Ledger
    ) -> None:
        (part,) = Path("out").glob(".*.part")
        result = dpcli("release", plan, table, "-o", "out", "--if-exists", "skip")
        assert result.exit_code == 2
        assert "Release 'cube' was made by an earlier run, and only lacks its name." in result.stderr
        assert part.exists()
        assert ledger.spent("town") == 1

    def test_another_plan_leaves_it_alone(
        self, dpcli: Cli, plan: Path, table: Path, cut: Result, ledger: Ledger
    ) -> None:
        (part,) = Path("out").glob(".*.part")
        plan.write_text(plan.read_text().replace('budget: "1"', 'budget: "2"'))
        dpcli("ledger", "set-budget", "town", "2")
        assert dpcli("release", plan, table, "-o", "out", "--resume", "--if-exists", "skip").exit_code == 4
        assert part.exists()
        result = dpcli("release", plan, table, "-o", "out", "--if-exists", "skip")
        assert result.exit_code == 0, result.stderr
        assert part.exists()
        assert ledger.spent("town") == Fraction(7, 4)

    def test_another_draw_for_the_same_debit_never_does(
        self, dpcli: Cli, plan: Path, table: Path, cut: Result, ledger: Ledger
    ) -> None:
        """A file with the right id and another content is not what the ledger has published."""
        (part,) = Path("out").glob(".*.part")
        release = open_release(part)
        counts = release.counts.reshape(-1) + 1
        part.unlink()
        metadata = release.metadata.model_copy(update={"blocks": []})
        whole_path = Path("out/other.parquet")
        publish.write_release(whole_path, metadata, [counts], replace=True)
        whole_path.rename(part)
        result = dpcli("release", plan, table, "-o", "out", "--resume")
        assert result.exit_code == 4
        assert "Release 'cube' cannot be resumed: the ledger has it as released" in result.stderr
        assert sorted(path.name for path in Path("out").iterdir()) == ["jobs.parquet"]

    def test_its_file_is_not_another_one(
        self, dpcli: Cli, plan: Path, table: Path, cut: Result, ledger: Ledger
    ) -> None:
        assert dpcli("release", plan, table, "-o", "out", "--resume").exit_code == 0
        release = open_release("out/cube.parquet")
        forged = release.counts.reshape(-1) + 1
        metadata = release.metadata.model_copy(update={"blocks": []})
        publish.write_release(Path("out/cube.parquet"), metadata, [forged], replace=True)
        result = dpcli("ledger", "verify", "out/cube.parquet")
        assert result.exit_code == 5
        assert "is not what was published: the ledger" in result.stderr


def test_a_seeded_run_has_nothing_to_resume(dpcli: Cli, plan: Path, table: Path) -> None:
    result = dpcli("release", plan, table, "-o", "out", "--resume", "--seed", "1")
    assert result.exit_code == 2
    assert "--resume does not go with --seed" in result.stderr


def test_resumed_twice_at_once_one_is_published(
    dpcli: Cli, plan: Path, table: Path, failed: Result, ledger: Ledger, tmp_path: Path
) -> None:
    """The ledger lets a debit be published once, also without the dataset's lock."""
    debit = ledger.debits()[1]
    assert ledger.resume([debit.release_id])[0].epsilon == Fraction(3, 4)
    assert dpcli("release", plan, table, "-o", "out", "--resume").exit_code == 0
    with pytest.raises(Exception, match="was published or may have been"):
        ledger.settle(debit.release_id, "released")


def test_nobody_else_can_read_what_is_not_published(
    dpcli: Cli, plan: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, modes = Ledger.settle, []

    def settle(self: Ledger, *arguments: object) -> None:
        modes.extend(part.stat().st_mode & 0o777 for part in Path("out").glob(".*.part"))
        real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "settle", settle)
    assert dpcli("release", plan, table, "-o", "out").exit_code == 0
    assert modes == [0o600, 0o600]
    assert Path("out/cube.parquet").stat().st_mode & 0o777 == Path(table).stat().st_mode & 0o777
