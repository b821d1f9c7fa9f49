"""Every registered mechanism keeps the contract. Registering is testing."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpcli.data.counting import SparseCube
from dpcli.data.domain import Domain
from dpcli.mechanisms import NAMES, strategy_of
from dpcli.plan.load import load_plan
from dpcli.privacy.cost import cost
from dpcli.privacy.gate import Probe
from dpcli.privacy.ledger import Account
from dpcli.privacy.noise import Keystream
from dpcli.strategy.observation import Observation

ROOT = Path(__file__).parent.parent.parent
DOMAINS = {
    "one cell": [{"name": "a", "kind": "ordinal", "range": [4, 4]}],
    "odd sizes": [
        {"name": "a", "kind": "ordinal", "range": [0, 6], "missing": "own-category"},
        {
            "name": "b",
            "kind": "nominal",
            "hierarchy": [{"x": ["p", "q"]}, {"y": [{"z": ["r", "s", "t"]}]}, "u"],
        },
        {"name": "c", "kind": "boolean", "outside": "other"},
    ],
}


def cube(items: list[dict[str, object]], *, empty: bool = False) -> SparseCube:
    domain = Domain.from_description(items)
    counts = np.zeros(domain.size, np.int64) if empty else np.random.default_rng(0).poisson(2, domain.size)
    cells = np.flatnonzero(counts)
    return SparseCube(domain, cells, counts[cells])


def probe(counts: SparseCube, account: Account) -> Probe:
    return Probe(
        counts, neighbors="add-remove", rows_per_unit=1, account=account, keystream=Keystream.from_seed(3)
    )


def measured(name: str, gate: Probe, epsilon: Fraction) -> Observation:
    return gate.measure(strategy_of(name, gate.domain), epsilon)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("items", DOMAINS.values(), ids=DOMAINS)
class TestMechanism:
    def test_exactly_epsilon_is_spent(self, name: str, items: list[dict[str, object]]) -> None:
        account = Account(Fraction(1, 3))
        observation = measured(name, probe(cube(items), account), Fraction(1, 3))
        assert account.spent == Fraction(1, 3)
        assert cost(observation.strategy, observation.scale, "add-remove", 1) == Fraction(1, 3)

    def test_with_next_to_no_noise_the_truth_comes_back(
        self, name: str, items: list[dict[str, object]]
    ) -> None:
        counts = cube(items)
        observation = measured(name, probe(counts, Account(Fraction(10**6))), Fraction(10**6))
        back = np.concatenate([observation.strategy.inverse(block.values) for block in observation.blocks])
        assert np.allclose(back, counts.dense(0, counts.domain.size))

    def test_an_empty_table_works(self, name: str, items: list[dict[str, object]]) -> None:
        observation = measured(name, probe(cube(items, empty=True), Account(Fraction(1))), Fraction(1))
        assert sum(block.stop - block.start for block in observation.blocks) == cube(items).domain.size

    def test_one_epsilon_too_much_is_refused(self, name: str, items: list[dict[str, object]]) -> None:
        from dpcli.errors import BudgetError

        with pytest.raises(BudgetError):
            measured(name, probe(cube(items), Account(Fraction(1))), Fraction(1) + Fraction(1, 10**9))


@pytest.mark.parametrize("name", NAMES)
def test_it_has_a_config_that_runs_it(name: str) -> None:
    plan = load_plan(ROOT / "configs" / f"{name}.yaml")
    assert {spec.mechanism for spec in plan.releases} == {name}
