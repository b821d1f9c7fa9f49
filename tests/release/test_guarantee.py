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


def test_one_row_is_one_person_without_a_unit() -> None:
    assert sentences(metadata())[1] == (
        "One row is taken as one person. That nobody has more than 1 row in the table is assumed, not checked."
    )


def test_with_a_unit_a_person_is_all_rows_of_one_value() -> None:
    privacy = Privacy(epsilon="0.5", neighbors="add-remove", rows_per_person=2, unit="person_id")
    words = sentences(metadata(privacy=privacy))
    assert words[0].startswith(
        "Pure differential privacy with epsilon = 0.5, add-remove neighbours: all of one person's rows being in the"
        " table or not changes the probability"
    )
    assert words[1] == (
        "One person is whoever shares a value of column 'person_id'. Of each person at most 2 rows count, chosen by a"
        " keyed hash that looks at that person's rows alone. That nobody has several values, and that no two people"
        " share one, is assumed, not checked."
    )
    assert "times 2 rows a person" in words[3]
    privacy = Privacy(epsilon="0.5", neighbors="replace-one", rows_per_person=1, unit="id\x1b[31m")
    words = sentences(metadata(privacy=privacy))
    assert "all of one person's rows having other values (the number of people is not protected)" in words[0]
    assert r"column 'id\x1b[31m'. Of each person at most 1 row counts, chosen" in words[1]


def test_a_seeded_file_says_first_that_it_is_not_private() -> None:
    assert sentences(metadata(randomness="seeded"))[0] == NOT_PRIVATE
