"""Releases by ispe, as they are used: the file, its epsilon, questions to it, and every refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from dpcli.errors import ReleaseFileError
from dpcli.privacy.ledger import Ledger
from dpcli.release.file import Regions, open_release, write_release

Cli = Callable[..., Result]
WritePlan = Callable[..., Path]
AGE = "{kind: ordinal, range: [0, 9]}"


def ispe(**options: object) -> str:
    """Return the mechanism of a plan with some of its keys."""
    keys = ", ".join(f"{name}: {value}" for name, value in options.items())
    return f"ispe\n    ispe: {{{keys}}}"


def answers(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.stderr
    return list(json.loads(result.stdout))


@pytest.fixture
def release(dpcli: Cli, write_plan: WritePlan, table: Path) -> Callable[..., pd.DataFrame]:
    """Release the small table, and return the file's content."""

    def make(*more: object, options: dict[str, object] | None = None, **plan: object) -> pd.DataFrame:
        path = write_plan(**{"mechanism": ispe(**(options or {})), **plan})
        result = dpcli("release", path, table, "-o", "out.parquet", "--if-exists", "replace", *more)
        assert result.exit_code == 0, result.stderr
        return pd.read_parquet("out.parquet")

    return make


class TestFile:
    def test_columns_and_regions(self, release: Callable[..., pd.DataFrame]) -> None:
        frame = release()
        assert list(frame.columns) == ["age", "sex", "job", "count", "region", "region_count"]
        assert len(frame) == 120
        assert {str(frame[name].dtype) for name in ("count", "region", "region_count")} == {"int64"}
        numbers = frame["region"].unique().tolist()
        assert numbers == list(range(len(numbers)))  # in the order of their first cells, without gaps
        assert (frame.groupby("region")["region_count"].nunique() == 1).all()
        metadata = open_release("out.parquet").metadata
        assert metadata.regions is not None
        assert metadata.regions.number == len(numbers)

    def test_without_keys_of_its_own(self, dpcli: Cli, write_plan: WritePlan, table: Path) -> None:
        assert dpcli("release", write_plan(mechanism="ispe"), table, "-o", "out.parquet").exit_code == 0
        metadata = open_release("out.parquet").metadata
        assert (metadata.noise.scale, metadata.regions and metadata.regions.scale) == (Fraction(4, 3), 4)

    def test_the_guarantee_counts_the_regions(self, release: Callable[..., pd.DataFrame], dpcli: Cli) -> None:
        number = release()["region"].nunique()
        document = json.loads(dpcli("inspect", "out.parquet", "--format", "json").stdout)
        assert (
            f" the counts of {number} regions, each cell being in one, with noise of scale 4:"
            in (document["guarantee"][3])
        )
        result = dpcli("inspect", "out.parquet", "--verify")
        assert result.exit_code == 0, result.stderr
        assert f"measured     age: cells; sex: cells; job: cells; then the sums of {number} regions" in (
            result.stdout
        )
        assert "noise        discrete-laplace, scale 4/3; on regions 4\n" in result.stdout
        for line in document["guarantee"]:
            assert f"- {line}\n" in result.stdout

    @pytest.mark.parametrize(
        ("neighbors", "privacy", "times"),
        [
            ("add-remove", "", 1),
            ("replace-one", "", 2),
            ("add-remove", "  unit: {column: person, max_rows: 3}", 3),
            ("replace-one", "  unit: {column: person, max_rows: 3}", 6),
        ],
    )
    def test_epsilon(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, neighbors: str, privacy: str, times: int
    ) -> None:
        frame = pd.read_csv(table)
        frame.assign(person=[f"p{row // 4}" for row in range(len(frame))]).to_csv(table, index=False)
        plan = write_plan(mechanism=ispe(share="0.3"), neighbors=neighbors, privacy=privacy)
        result = dpcli("release", plan, table, "-o", "out.parquet")
        assert result.exit_code == 0, result.stderr
        metadata = open_release("out.parquet").metadata
        assert metadata.regions is not None
        share, rest = Fraction(times) / metadata.noise.scale, Fraction(times) / metadata.regions.scale
        assert (share, rest) == (Fraction(3, 10), Fraction(7, 10))
        assert share + rest == metadata.spent() == metadata.privacy.epsilon == 1
        (debit,) = Ledger(Path("ledger.sqlite")).debits()
        assert (debit.epsilon, debit.state) == (1, "released")
        assert "(recomputed from strategy and noise: 1)" in dpcli("inspect", "out.parquet").stdout

    def test_a_seeded_run_is_reproducible(self, release: Callable[..., pd.DataFrame]) -> None:
        one = release("--seed", 7)
        content = Path("out.parquet").read_bytes()
        release("--seed", 7)
        assert Path("out.parquet").read_bytes() == content
        assert not one["region_count"].equals(release("--seed", 8)["region_count"])

    def test_skip_tells_another_share(self, release: Callable[..., pd.DataFrame], dpcli: Cli) -> None:
        release(options={"share": "0.5"})
        skip = ["-o", "out.parquet", "--if-exists", "skip"]
        assert "is not what the plan" not in dpcli("release", "plan.yaml", "people.csv", *skip).stderr
        Path("plan.yaml").write_text(Path("plan.yaml").read_text().replace("0.5", "0.6"))
        assert (
            "out.parquet, which was skipped, is not what the plan would make now."
            in dpcli("release", "plan.yaml", "people.csv", *skip).stderr
        )


class TestRegions:
    """With a threshold that lets every neighbour in, regions are as large as neighbourhood allows."""

    ALL: ClassVar[dict[str, object]] = {"threshold": "1e12"}

    @pytest.mark.parametrize("criterion", ["running-mean", "frontier"])
    def test_categories_without_order_are_apart_and_siblings_together(
        self, release: Callable[..., pd.DataFrame], criterion: str
    ) -> None:
        frame = release(options={**self.ALL, "criterion": criterion})
        assert (frame.groupby("region")["sex"].nunique() == 1).all()
        together = {
            frozenset(jobs) for jobs in frame.groupby("region")["job"].agg(lambda jobs: frozenset(jobs))
        }
        assert together == {
            frozenset({"Nurse", "Dentist"}),
            frozenset({"Mason", "Plumber", "Roofer"}),
            frozenset({"Retired"}),
        }
        assert frame["region"].nunique() == 2 * 3
        assert (frame.groupby("region")["age"].nunique() == 10).all()

    def test_other_and_missing_stand_apart(self, release: Callable[..., pd.DataFrame]) -> None:
        wider = AGE.replace("}", ", outside: other, missing: own-category}")
        frame = release(options=self.ALL, replace=(AGE, wider))
        ages = frame["age"].astype(object).where(frame["age"].notna(), "missing")
        kinds = {frozenset(group) for _, group in ages.groupby(frame["region"])}
        apart = [kind for kind in kinds if len(kind) == 1]
        assert len(kinds) == 3
        assert sorted(map(len, kinds)) == [1, 1, 10]
        assert frozenset({"missing"}) in apart
        assert frame["region"].nunique() == 3 * 2 * 3

    def test_a_small_threshold_keeps_cells_apart(self, release: Callable[..., pd.DataFrame]) -> None:
        frame = release(options={"threshold": "1e-12", "smoothing": "none"})
        alone = frame.groupby("region")["count"].nunique()
        assert (alone == 1).all()  # cells of one region are equal to the last row

    @pytest.mark.parametrize(
        "options",
        [
            {"smoothing": "median", "window": 5},
            {"smoothing": "gaussian", "sigma": 2, "window": 9, "iterations": 2},
            {"smoothing": "none", "criterion": "frontier", "threshold": 6, "distance": 1.5},
        ],
    )
    def test_other_ways_to_find_them(
        self, release: Callable[..., pd.DataFrame], options: dict[str, object]
    ) -> None:
        frame = release(options=options)
        assert frame["region"].unique().tolist() == list(range(frame["region"].nunique()))


class TestQuestions:
    @pytest.fixture
    def exact(self, release: Callable[..., pd.DataFrame], table: Path) -> pd.DataFrame:
        release(epsilon="1000000")
        return pd.read_csv(table)

    @pytest.mark.parametrize("more", [[], ["--estimator", "mmse"], ["--neighbours", "printed"]])
    def test_conditions(self, exact: pd.DataFrame, dpcli: Cli, more: list[str]) -> None:
        asked = {
            "true": exact.index == exact.index,
            "age between 3 and 5 and sex = 'F'": exact.age.between(3, 5) & (exact.sex == "F"),
            "job = 'Health' or age = 9": exact.job.isin(["Nurse", "Dentist"]) | (exact.age == 9),
            "not (job = 'Trade' or sex = 'F')": ~(
                exact.job.isin(["Mason", "Plumber", "Roofer"]) | (exact.sex == "F")
            ),
            "age <> 3 and not sex = 'M'": (exact.age != 3) & (exact.sex != "M"),
            "age = 7": exact.age == 7,
        }
        found = answers(dpcli("query", "out.parquet", *asked, "--format", "json", *more))
        assert [row["value"] for row in found] == pytest.approx(
            [int(rows.sum()) for rows in asked.values()], abs=1e-6
        )

    def test_groups(self, exact: pd.DataFrame, dpcli: Cli) -> None:
        asked = ["query", "out.parquet", "age >= 3", "--by", "sex,job", "--format", "json"]
        found = {(row["sex"], row["job"]): row["value"] for row in answers(dpcli(*asked))}
        expected = exact[exact.age >= 3].value_counts(["sex", "job"])
        assert len(found) == 12
        for group, value in found.items():
            assert value == pytest.approx(expected.get(group, 0), abs=1e-6)

    def test_statements(self, exact: pd.DataFrame, dpcli: Cli) -> None:
        sql = "SELECT sex, COUNT(*), SUM(age), AVG(age) FROM release WHERE age < 9 GROUP BY sex"
        found = answers(dpcli("query", "out.parquet", "--sql", sql, "--format", "json"))
        ages = exact[exact.age < 9].groupby("sex")["age"]
        expected = np.stack([ages.size(), ages.sum(), ages.mean()], axis=1).ravel()
        assert [row["value"] for row in found] == pytest.approx(expected.tolist(), abs=1e-6)

    @pytest.mark.parametrize("estimator", ["least-squares", "mmse"])
    @pytest.mark.parametrize("neighbours", ["weighted", "printed", "off"])
    def test_how_it_is_known(
        self, release: Callable[..., pd.DataFrame], dpcli: Cli, estimator: str, neighbours: str
    ) -> None:
        release(epsilon="0.5")
        asked = ["query", "out.parquet", "age < 5", "job = 'Trade' or age = 1", "--format", "json"]
        found = answers(dpcli(*asked, "--estimator", estimator, "--neighbours", neighbours))
        linear = (estimator, neighbours) == ("least-squares", "off")
        assert {row["how"] for row in found} == {"exact" if linear else "posterior"}
        for row in found:
            assert row["low"] < row["value"] < row["high"]  # type: ignore[operator]
            assert row["stderr"] > 0  # type: ignore[operator]

    def test_the_default_is_weighted_least_squares(
        self, release: Callable[..., pd.DataFrame], dpcli: Cli
    ) -> None:
        release(epsilon="0.5")
        asked = ["query", "out.parquet", "--by", "age", "--format", "csv"]
        named = ["--estimator", "least-squares", "--neighbours", "weighted"]
        assert dpcli(*asked).stdout == dpcli(*asked, *named).stdout
        assert dpcli(*asked).stdout != dpcli(*asked, "--neighbours", "off").stdout

    @pytest.mark.parametrize("more", [["--estimator", "mmse"], ["--neighbours", "off"]])
    def test_other_mechanisms_have_no_estimator(
        self, dpcli: Cli, write_plan: WritePlan, table: Path, more: list[str]
    ) -> None:
        assert dpcli("release", write_plan(), table, "-o", "out.parquet").exit_code == 0
        result = dpcli("query", "out.parquet", *more)
        assert (result.exit_code, result.stderr) == (
            2,
            "Error: An estimator, or a neighbourhood, is chosen for releases by ispe; out.parquet is by"
            " laplace, whose answers are sums of its counts.\n",
        )

    def test_an_unknown_estimator(self, release: Callable[..., pd.DataFrame], dpcli: Cli) -> None:
        release()
        result = dpcli("query", "out.parquet", "--estimator", "mmsee")
        assert result.exit_code == 2
        assert "'mmsee' is not one of 'least-squares', 'mmse'" in result.stderr

    def test_it_cannot_be_thresholded(self, release: Callable[..., pd.DataFrame], dpcli: Cli) -> None:
        release()
        result = dpcli("refine", "out.parquet", "--threshold", "-o", "refined.parquet")
        assert result.exit_code == 2
        assert "Use it on a privelet release." in result.stderr
        assert not Path("refined.parquet").exists()


def rewritten(content: pa.Table) -> None:
    """Write a release file with other columns, and keep what it says about itself."""
    document = pq.read_metadata("out.parquet").metadata[b"dpcli"]
    pq.write_table(content.replace_schema_metadata({b"dpcli": document}), "out.parquet")


class TestDamage:
    @pytest.mark.parametrize(
        ("column", "change"),
        [
            ("region", {0: 1}),
            ("region", {5: 10**6}),
            ("region", {119: -1}),
            ("region_count", {0: 10**6}),
            ("region_count", dict.fromkeys(range(120), 3)),
        ],
    )
    @pytest.mark.parametrize("command", [["query"], ["inspect", "--verify"]], ids=["query", "inspect"])
    def test_changed_regions_are_refused(
        self,
        release: Callable[..., pd.DataFrame],
        dpcli: Cli,
        column: str,
        change: dict[int, int],
        command: list[str],
    ) -> None:
        release()
        content = pq.read_table("out.parquet")
        values = content[column].to_numpy().copy()
        values[list(change)] = list(change.values())
        place = content.schema.get_field_index(column)
        rewritten(content.set_column(place, content.schema.field(place), pa.array(values)))
        result = dpcli(command[0], "out.parquet", *command[1:])
        assert (result.exit_code, result.stderr) == (
            5,
            "Error: out.parquet is damaged: its regions do not match their digest.\n",
        )

    def test_a_column_is_gone(self, release: Callable[..., pd.DataFrame], dpcli: Cli) -> None:
        release()
        rewritten(pq.read_table("out.parquet").drop_columns("region"))
        result = dpcli("query", "out.parquet")
        assert (result.exit_code, result.stderr) == (
            5,
            "Error: out.parquet is damaged: its columns or rows do not match its metadata.\n",
        )

    def test_digests_that_fit_do_not_make_it_sound(
        self, release: Callable[..., pd.DataFrame], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        release()
        one = open_release("out.parquet")
        assert one.metadata.regions is not None
        more = one.metadata.regions.model_copy(update={"number": one.metadata.regions.number + 1})
        wrong = one.metadata.model_copy(update={"regions": more})
        cells = [one.counts.reshape(-1)]
        write_release(Path("a.parquet"), wrong, cells, replace=True, regions=one.regions)
        with pytest.raises(ReleaseFileError, match="its regions are not numbered as they should be"):
            _ = open_release("a.parquet").regions

        def uneven(regions: Regions, start: int, stop: int) -> list[np.ndarray]:
            return [np.zeros(stop - start, np.int64), np.arange(start, stop)]

        monkeypatch.setattr("dpcli.release.file._of_cells", uneven)
        alone = one.metadata.regions.model_copy(update={"number": 1})
        wrong = one.metadata.model_copy(update={"regions": alone})
        write_release(Path("b.parquet"), wrong, cells, replace=True, regions=one.regions)
        with pytest.raises(ReleaseFileError, match="cells of one region differ in its count"):
            _ = open_release("b.parquet").regions
