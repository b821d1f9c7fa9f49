"""The guarantee in words follows from the file's numbers."""

from __future__ import annotations

from dpcli.release.guarantee import NOT_PRIVATE, sentences
from dpcli.release.metadata import Metadata, Noise, Privacy


def metadata(**changes: object) -> Metadata:
    settings = {
        "id": "0",
        "tool": "dpcli test",
        "randomness": "operating-system",
        "dataset": "town",
        "name": "cube",
        "mechanism": "laplace",
        "domain": [{"name": "wed", "kind": "boolean"}],
        "strategy": {"axes": [{"kind": "identity", "size": 2}]},
        "noise": Noise(scale="2"),
        "privacy": Privacy(epsilon="0.5", neighbors="add-remove"),
        **changes,
    }
    return Metadata(**settings)  # type: ignore[arg-type]


def test_add_remove() -> None:
    words = sentences(metadata())
    assert words[0] == (
        "Pure differential privacy with epsilon = 0.5, add-remove neighbours: one person's row being in the table"
        " or not changes the probability of any content of this file by a factor of at most e^0.5 = 1.649."
    )
    assert words[3] == (
        "Epsilon can be recomputed: the strategy's largest column norm is 1, times 1 for add-remove, times 1 row"
        " a person, divided by the scale 2."
    )


def test_replace_one_with_several_rows() -> None:
    words = sentences(metadata(privacy=Privacy(epsilon="1000", neighbors="replace-one", rows_per_person=3)))
    assert (
        "one person's rows (at most 3) having other values (the number of rows is not protected)" in words[0]
    )
    assert "e^1000 = more than 10^300" in words[0]
    assert "times 2 for replace-one, times 3 rows a person" in words[3]


def test_a_seeded_file_says_first_that_it_is_not_private() -> None:
    assert sentences(metadata(randomness="seeded"))[0] == NOT_PRIVATE
