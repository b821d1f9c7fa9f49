"""The search finds good strategies, the same ones every time, and keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpcli.strategy import cache as strategy_cache
from dpcli.strategy import fit, grams
from dpcli.strategy.axis import Axis, FloatArray
from dpcli.strategy.fit import fit_optimized, fit_ranges, search, unit_for
from dpcli.strategy.haar import Haar
from dpcli.strategy.identity import Identity
from dpcli.strategy.optimized import Optimized
from dpcli.strategy.tree import Tree


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a cache folder of its own, which does not exist yet."""
    monkeypatch.setenv("DPCLI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def variance(axis: Axis, gram: FloatArray) -> float:
    """norm²·tr(V G): the expected variance of a random query."""
    responses = axis.response(np.eye(axis.size))
    return float(axis.norm**2) * float(np.sum((responses @ responses.T) * gram))


class TestQuality:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17])
    def test_tiny_axes_are_measured_cell_by_cell(self, size: int) -> None:
        assert fit_optimized(size, grams.all_ranges(size)) == Optimized(size, 1, 1, (), ())

    @pytest.mark.parametrize(("size", "table"), [(64, 18.5), (101, 23.9)])
    def test_all_ranges_cost_less_than_with_the_best_tree(self, size: int, table: float) -> None:
        gram = grams.all_ranges(size)
        found = variance(fit_optimized(size, gram), gram)
        assert found < 0.85 * table
        assert found < variance(Haar(size), gram) / 3
        assert found < variance(Identity(size), gram)

    def test_a_long_prime_axis_costs_less_than_the_direct_search_would(self) -> None:
        """m = 1009 has the sums at knots only; the p-identity on every cell takes minutes to 66.7."""
        gram = grams.random_ranges(1009)
        axis = fit_ranges(1009)
        assert axis.knots < 70
        assert variance(axis, gram) < 67
        assert variance(axis, gram) < 0.8 * variance(Tree.kary(1009, 11, root=False), gram)

    def test_prefixes(self) -> None:
        gram = grams.prefixes(64)
        assert variance(fit_optimized(64, gram), gram) < 14.2

    def test_a_hierarchy_s_nodes_beat_its_tree(self) -> None:
        groups = [(start, start + 8) for start in range(0, 80, 8)]
        leaves = [(cell, cell + 1) for cell in range(80)]
        nodes = [(0, 80), *groups, *leaves]
        gram = grams.spans(80, nodes, [0.8, *[0.15 / 10] * 10, *[0.05 / 80] * 80])
        axis = fit_optimized(80, gram, spans=nodes)
        tree = Tree.kary(80, 8, [1], root=True)
        assert variance(axis, gram) < 0.75 * variance(tree, gram)

    def test_cells_that_no_range_covers_keep_their_precision(self) -> None:
        axis = fit_optimized(42, grams.padded(grams.all_ranges(40), 42))
        missing = np.zeros((1, 42))
        missing[0, 41] = 1
        assert float(axis.norm) ** 2 * float(np.sum(axis.response(missing) ** 2)) < 10

    def test_a_coarse_gram_matrix_is_enough_on_a_long_axis(self) -> None:
        whole, gram = grams.random_ranges(600), grams.random_ranges(200)
        exact, coarse = (search(600, matrix, unit=1024) for matrix in (whole, gram))
        assert variance(coarse, whole) < 1.01 * variance(exact, whole)

    def test_a_lower_precision_costs_little(self) -> None:
        gram = grams.all_ranges(64)
        fine, coarse = (variance(fit_optimized(64, gram, unit=unit), gram) for unit in (1 << 20, 64))
        assert fine < coarse < 1.02 * fine


def test_the_same_search_finds_the_same(cache: Path) -> None:
    gram = grams.all_ranges(48)
    assert search(48, gram, unit=1024) == search(48, gram, unit=1024)
    assert not cache.exists()


def test_time_bounds_the_search() -> None:
    """Out of time at once, it still makes one step from its first start, which is a good one."""
    gram = grams.random_ranges(300)
    assert variance(search(300, gram, unit=1024, seconds=0), gram) < variance(Identity(300), gram) / 2


def test_every_column_stays_below_the_unit_when_rounded() -> None:
    rows = np.array([[1e9, 5.0, 0.0], [1e9, 0.5, 1e-9]])
    axis = fit._rounded(3, 4, 3, False, rows)
    assert axis.norm == 4
    assert fit._rounded(3, 4, 3, True, rows * 1e-12) == Optimized(3, 1, 1, (), ())


@pytest.mark.parametrize("axes", range(1, 31))
def test_units_multiply_to_at_most_2_to_the_30(axes: int) -> None:
    assert 2 <= unit_for(axes) <= 1024
    assert unit_for(axes) ** axes <= 1 << 30


class TestCache:
    gram = grams.all_ranges(20)

    def searches(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Count the searches from here on."""
        sizes: list[int] = []

        def counted(size: int, gram: FloatArray, **options: object) -> Optimized:
            sizes.append(size)
            return search(size, gram, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(fit, "search", counted)
        return sizes

    def test_the_second_time_is_read(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        searches = self.searches(monkeypatch)
        first = fit_optimized(20, self.gram)
        assert fit_optimized(20, self.gram * 3) == first
        assert searches == [20]
        assert [path.suffix for path in cache.iterdir()] == [".json"]

    def test_anything_else_is_searched_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        searches = self.searches(monkeypatch)
        fit_optimized(20, self.gram)
        fit_optimized(20, grams.prefixes(20))
        fit_optimized(21, self.gram)
        fit_optimized(20, self.gram, unit=64)
        fit_optimized(20, self.gram, spans=[(0, 10)])
        fit_optimized(20, self.gram, seconds=0.5)
        monkeypatch.setattr(fit, "VERSION", fit.VERSION + 1)
        fit_optimized(20, self.gram)
        assert searches == [20, 20, 21, 20, 20, 20, 20]

    @pytest.mark.parametrize(
        "text",
        ["", "{", "[]", "null", "{}", '{"size": 20}', "\xff", json.dumps({"size": 20, "kind": "identity"})]
        + [
            json.dumps({"size": 20, "unit": 9, "knots": 1, "near": [], "far": [[far]]})
            for far in (9, -1, 1.5)
        ]
        + [json.dumps({"size": 21, "unit": 1024, "knots": 1, "near": [], "far": []})]
        + [json.dumps({"size": 20, "unit": 512, "knots": 1, "near": [], "far": []})],
    )
    def test_a_damaged_entry_is_built_again(self, cache: Path, text: str) -> None:
        first = fit_optimized(20, self.gram)
        (entry,) = cache.iterdir()
        whole = entry.read_text()
        entry.write_text(text, encoding="latin-1")
        assert fit_optimized(20, self.gram) == first
        assert entry.read_text() == whole

    def test_a_forged_entry_cannot_understate_its_norm(self, cache: Path) -> None:
        fit_optimized(20, self.gram)
        (entry,) = cache.iterdir()
        forged = {"size": 20, "unit": 1024, "knots": 2, "near": [], "far": [[900, 3], [20, 1020]]}
        entry.write_text(json.dumps(forged))
        axis = fit_optimized(20, self.gram)
        assert axis.far == ((900, 3), (20, 1020))
        assert axis.norm == np.abs(axis.forward(np.eye(20, dtype=np.int64), 0)).sum(axis=0).max()

    def test_a_folder_that_cannot_be_written_is_no_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blocked = tmp_path / "file"
        blocked.write_text("not a folder")
        monkeypatch.setenv("DPCLI_CACHE", str(blocked))
        assert fit_optimized(20, self.gram) == fit_optimized(20, self.gram)
        assert blocked.read_text() == "not a folder"

    def test_nothing_is_left_behind_when_writing_fails(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr("os.replace", refuse)
        fit_optimized(20, self.gram)
        assert list(cache.iterdir()) == []

    @pytest.mark.parametrize(
        ("platform", "variables", "expected"),
        [
            ("linux", {"DPCLI_CACHE": "/here"}, "/here"),
            ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/dpcli"),
            ("linux", {}, "/home/me/.cache/dpcli"),
            ("darwin", {"XDG_CACHE_HOME": "/xdg"}, "/home/me/Library/Caches/dpcli"),
            ("win32", {"LOCALAPPDATA": "/local"}, "/local/dpcli"),
            ("win32", {}, "/home/me/AppData/Local/dpcli"),
        ],
    )
    def test_the_folder_is_the_platform_s(
        self, platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("DPCLI_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"HOME": "/home/me", **variables}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.platform", platform)
        assert strategy_cache.cache_folder() == Path(expected)


@pytest.mark.parametrize(
    ("size", "gram"),
    [(3, np.ones(3)), (3, np.ones((3, 2))), (3, np.ones((4, 4))), (3, np.zeros((0, 0)))],
)
def test_a_gram_matrix_has_to_fit_the_axis(size: int, gram: FloatArray) -> None:
    with pytest.raises(ValueError, match="a Gram matrix for 3 cells is square, of order 1 to 3"):
        fit_optimized(size, gram)


@pytest.mark.parametrize(
    "gram",
    [np.zeros((2, 2)), np.diag([1.0, np.nan]), np.diag([2.0, -1.0]), np.array([[1.0, 0.5], [0.0, 1.0]])],
)
def test_a_gram_matrix_has_to_be_one(gram: FloatArray) -> None:
    with pytest.raises(ValueError, match="a Gram matrix is finite, symmetric"):
        fit_optimized(2, gram)
