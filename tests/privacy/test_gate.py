"""The gate: cost from what is applied, debit before the draw, noise everywhere."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcli.data.counting import SparseCube
from dpcli.data.domain import Domain
from dpcli.errors import BudgetError
from dpcli.privacy.cost import Neighbors, sensitivity
from dpcli.privacy.gate import Probe
from dpcli.privacy.ledger import Account
from dpcli.privacy.noise import Keystream
from dpcli.strategy.identity import Identity
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.partition import Partition

DOMAIN = Domain.from_description([{"name": "a", "kind": "ordinal", "range": [0, 199]}])
STRATEGY = Strategy((Identity(200),))
CUBE = SparseCube(DOMAIN, np.array([3, 50]), np.array([1000, 7]))


def probe(account: Account, cube: SparseCube = CUBE, **options: object) -> Probe:
    settings = {"neighbors": "add-remove", "rows_per_unit": 1, "keystream": Keystream.from_seed(1), **options}
    return Probe(cube, account=account, **settings)  # type: ignore[arg-type]


def test_a_measurement_costs_exactly_its_epsilon() -> None:
    account = Account(Fraction(1))
    probe(account).measure(STRATEGY, Fraction(3, 10))
    assert account.spent == Fraction(3, 10)


def test_the_debit_comes_before_the_first_draw() -> None:
    class Untouchable:
        private = True

        def __getattr__(self, name: str) -> object:
            raise AssertionError("drew before it paid")

    account = Account(Fraction(1, 10))
    with pytest.raises(BudgetError):
        probe(account, keystream=Untouchable()).measure(STRATEGY, Fraction(1))
    assert account.spent == 0


def test_what_is_left_of_an_account_is_exact() -> None:
    account = Account(Fraction(1))
    gate = probe(account)
    gate.measure(STRATEGY, Fraction("0.3"))
    gate.measure(STRATEGY, Fraction("0.7"))
    with pytest.raises(BudgetError) as caught:
        gate.measure(STRATEGY, Fraction(1, 10**9))
    assert str(caught.value) == (
        "A measurement would cost epsilon 0.000000001, but of the reserved 1 only 0 is left."
    )


@pytest.mark.parametrize(
    ("neighbors", "rows", "scale"), [("add-remove", 1, 2), ("replace-one", 1, 4), ("replace-one", 3, 12)]
)
def test_the_scale_follows_neighbours_and_rows(neighbors: str, rows: int, scale: int) -> None:
    gate = probe(Account(Fraction(9)), neighbors=neighbors, rows_per_unit=rows)
    assert gate.measure(STRATEGY, Fraction(1, 2)).scale == scale


def test_noise_is_on_every_cell_also_on_the_empty_ones() -> None:
    (block,) = probe(Account(Fraction(1))).measure(STRATEGY, Fraction(1, 100)).blocks
    noise = block.values.ravel() - CUBE.dense(0, 200)
    assert block.values.dtype == np.int64
    assert np.count_nonzero(noise) > 190
    assert len(set(noise.tolist())) > 60


def test_with_next_to_no_noise_the_truth_comes_back() -> None:
    (block,) = probe(Account(Fraction(10**6))).measure(STRATEGY, Fraction(10**6)).blocks
    assert np.array_equal(block.values.ravel(), CUBE.dense(0, 200))


def test_a_block_is_drawn_once() -> None:
    observation = probe(Account(Fraction(1))).measure(STRATEGY, Fraction(1))
    assert len(list(observation.blocks)) == 1
    assert list(observation.blocks) == []


def test_two_measurements_draw_different_noise() -> None:
    gate = probe(Account(Fraction(2)))
    (one,) = gate.measure(STRATEGY, Fraction(1, 10)).blocks
    (other,) = gate.measure(STRATEGY, Fraction(1, 10)).blocks
    assert not np.array_equal(one.values, other.values)


def test_blocks_do_not_change_the_noise_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcli.privacy.gate.BLOCK_CELLS", 64)
    blocks = list(probe(Account(Fraction(10**6))).measure(STRATEGY, Fraction(10**6)).blocks)
    assert [(block.start, block.stop) for block in blocks] == [(0, 64), (64, 128), (128, 192), (192, 200)]
    assert np.array_equal(np.concatenate([block.values.ravel() for block in blocks]), CUBE.dense(0, 200))


def test_a_strategy_for_another_cube_is_refused_before_anything_is_spent() -> None:
    account = Account(Fraction(1))
    with pytest.raises(ValueError, match="does not fit"):
        probe(account).measure(Strategy((Identity(3),)), Fraction(1))
    assert account.spent == 0


def test_the_counts_cannot_be_had_from_a_probe() -> None:
    gate = probe(Account(Fraction(1)))
    public = [name for name in vars(gate) if not name.startswith("_")]
    assert sorted(public) == ["domain", "neighbors", "rows_per_unit"]


class Weighted(Identity):
    """Twice the counts, with noise of weight 3 on every other coefficient."""

    @property
    def weights(self) -> np.ndarray:
        return np.where(np.arange(self.size) % 2, 3, 1)


def test_noise_in_slabs_follows_the_weights() -> None:
    class Slabs(Strategy):
        leading = 1  # type: ignore[assignment]

    domain = Domain.from_description(
        [
            {"name": "a", "kind": "ordinal", "range": [0, 4999]},
            {"name": "b", "kind": "ordinal", "range": [0, 3]},
        ]
    )
    cube = SparseCube(domain, np.array([], np.int64), np.array([], np.int64))
    (block,) = (
        probe(Account(Fraction(1)), cube)
        .measure(Slabs((Identity(5000), Weighted(4))), Fraction(1, 10))
        .blocks
    )
    spread = block.values.std(axis=0)
    assert block.values.shape == (5000, 4)
    assert spread[[0, 2]] == pytest.approx(14.14, rel=0.08)
    assert spread[[1, 3]] == pytest.approx(42.43, rel=0.08)


HALVES = Partition((np.arange(200) >= 100).astype(np.int64))
APART = Partition(np.arange(200))


class TestRegions:
    def test_the_debit_comes_before_the_first_draw(self) -> None:
        class Untouchable:
            private = True

            def __getattr__(self, name: str) -> object:
                raise AssertionError("drew before it paid")

        account = Account(Fraction(1, 10))
        with pytest.raises(BudgetError):
            probe(account, keystream=Untouchable()).measure_regions(HALVES, Fraction(1))
        assert account.spent == 0

    def test_a_partition_of_another_cube_is_refused_before_anything_is_spent(self) -> None:
        account = Account(Fraction(1))
        for labels in (np.zeros(199, np.int64), np.zeros((200, 1), np.int64), np.zeros((2, 100), np.int64)):
            with pytest.raises(ValueError, match="a partition has a region for each cell of the cube"):
                probe(account).measure_regions(Partition(labels), Fraction(1))
        assert account.spent == 0

    @pytest.mark.parametrize(
        ("neighbors", "rows", "scale"), [("add-remove", 1, 2), ("replace-one", 1, 4), ("replace-one", 3, 12)]
    )
    def test_the_cost_comes_from_the_partition(self, neighbors: str, rows: int, scale: int) -> None:
        account = Account(Fraction(9))
        gate = probe(account, neighbors=neighbors, rows_per_unit=rows)
        assert gate.measure_regions(HALVES, Fraction(1, 2)).scale == scale
        assert account.spent == Fraction(1, 2)

    def test_a_partition_that_costs_more_is_paid_more_for(self) -> None:
        """A partition that counted each cell twice would get noise twice as wide for the same epsilon."""

        class Twice(Partition):
            norm = Fraction(2)

        assert probe(Account(Fraction(1))).measure_regions(Twice(HALVES.labels), Fraction(1)).scale == 2

    @pytest.mark.parametrize("share", ["0.75", "0.1", "0.000001"])
    def test_both_measurements_cost_epsilon_exactly(self, share: str) -> None:
        epsilon, cells = Fraction(1, 3), Fraction(1, 3) * Fraction(share)
        account = Account(epsilon)
        gate = probe(account)
        gate.measure(STRATEGY, cells)
        gate.measure_regions(HALVES, epsilon - cells)
        assert account.spent == epsilon
        with pytest.raises(BudgetError):
            gate.measure_regions(HALVES, Fraction(1, 10**9))

    @pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
    @pytest.mark.parametrize("seed", range(20))
    def test_no_neighbours_are_further_apart_than_the_sensitivity(
        self, neighbors: Neighbors, seed: int
    ) -> None:
        random = np.random.default_rng(seed)
        labels = np.unique(random.integers(0, 1 + seed % 6, 6), return_inverse=True)[1]
        partition, cells = Partition(labels), np.arange(6)
        steps = [unit for row in np.eye(6, dtype=np.int64) for unit in (row, -row)]
        if neighbors == "replace-one":
            steps = [one - other for one in np.eye(6, dtype=np.int64) for other in np.eye(6, dtype=np.int64)]
        counts = random.poisson(3, 6)
        apart = [
            int(np.abs(partition.sums(cells, counts + step) - partition.sums(cells, counts)).sum())
            for step in steps
        ]
        bound = sensitivity(partition, neighbors, 1)
        assert max(apart) <= bound
        if neighbors == "add-remove" or partition.regions > 1:
            assert max(apart) == bound

    def test_noise_is_on_every_region_also_on_the_empty_ones(self) -> None:
        found = probe(Account(Fraction(1))).measure_regions(APART, Fraction(1, 100))
        noise = found.counts - CUBE.dense(0, 200)
        assert found.counts.dtype == np.int64
        assert np.count_nonzero(noise) > 190
        assert len(set(noise.tolist())) > 60

    def test_with_next_to_no_noise_the_sums_come_back(self) -> None:
        gate = probe(Account(Fraction(2 * 10**6)))
        assert gate.measure_regions(HALVES, Fraction(10**6)).counts.tolist() == [1007, 0]
        assert gate.measure_regions(APART, Fraction(10**6)).counts.tolist() == CUBE.dense(0, 200).tolist()

    def test_every_measurement_has_noise_of_its_own(self) -> None:
        gate = probe(Account(Fraction(1)))
        (cells,) = gate.measure(STRATEGY, Fraction(1, 100)).blocks
        one, other = (gate.measure_regions(APART, Fraction(1, 100)).counts for _ in range(2))
        assert not np.array_equal(one, other)
        assert not np.array_equal(one, cells.values.ravel())
