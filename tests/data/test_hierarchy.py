"""Hierarchies from nested YAML and from CSV: every node is a run of leaves, and the tree round-trips."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.data.hierarchy import Hierarchy, Node

JOBS = {"Health": ["Nurse", {"Doctors": ["Surgeon", "Dentist"]}], "Trade": {"Mason": None}, "Retired": None}


def test_leaves_are_in_the_order_written_and_nodes_are_runs_of_them() -> None:
    tree = Hierarchy.from_nested(JOBS)
    assert tree.leaves == ("Nurse", "Surgeon", "Dentist", "Mason", "Retired")
    assert tree.nodes == (
        Node((), 0, 5),
        Node(("Health",), 0, 3),
        Node(("Health", "Doctors"), 1, 3),
        Node(("Trade",), 3, 4),
    )
    assert [node.label for node in tree.nodes] == ["", "Health", "Doctors", "Trade"]
    assert tree.height == 4


def test_names_and_paths_lead_to_runs_of_leaves() -> None:
    tree = Hierarchy.from_nested({"A": {"x": ["1", "2"]}, "B": {"x": ["3"]}})
    assert tree.spans == {
        "A": {(0, 2)},
        "x": {(0, 2), (2, 3)},
        "A/x": {(0, 2)},
        "B": {(2, 3)},
        "B/x": {(2, 3)},
        "/A": {(0, 2)},
        "/A/x": {(0, 2)},
        "/B": {(2, 3)},
        "/B/x": {(2, 3)},
    }


def test_a_flat_list_is_a_root_with_leaves() -> None:
    tree = Hierarchy.from_nested(["b", 1, " a "])
    assert tree.leaves == ("b", "1", "a")
    assert tree.nodes == (Node((), 0, 3),)
    assert tree.height == 2


def test_csv_with_levels_left_out_is_the_same_tree() -> None:
    text = "group,part,leaf\nHealth,,Nurse\nHealth,Doctors,Surgeon\n\nHealth,Doctors, Dentist\nTrade,,Mason\n"
    assert Hierarchy.from_csv(text + ",,Retired\n") == Hierarchy.from_nested(JOBS)


def test_csv_may_come_back_to_a_group() -> None:
    tree = Hierarchy.from_csv("group,leaf\nA,1\nB,2\nA,3\n")
    assert tree.leaves == ("1", "3", "2")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (["a", "b", "a"], "the hierarchy has the leaf 'a' twice; every leaf must stand once"),
        ({"A": ["a"], "B": ["a"]}, "the hierarchy has the leaf 'a' twice; every leaf must stand once"),
        ([{"A": ["1"]}, {"A": ["2"]}], "the hierarchy has the group 'A' twice; write it once"),
        ({"A": []}, "the hierarchy's group 'A' has no leaves"),
        ({}, "the hierarchy's group 'root' has no leaves"),
        ({"A": ["1"], "B": {"C": {}}}, "the hierarchy's group 'C' has no leaves"),
        ("x", "the hierarchy's group 'the top' must hold a list or a mapping"),
        ({"A": {"B": 3}}, "the hierarchy's group 'A/B' must hold a list or a mapping"),
        ({"A": ["1", None]}, "the hierarchy has an empty or unreadable label in 'A'"),
        ({"A": [["1"]]}, "the hierarchy has an empty or unreadable label in 'A'"),
        ({" ": ["1"]}, "the hierarchy has an empty or unreadable label in 'the top'"),
    ],
)
def test_wrong_trees(tree: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Hierarchy.from_nested(tree)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a hierarchy in CSV needs a header, two or more level columns and at least one row"),
        ("group,leaf\n", "a hierarchy in CSV needs a header, two or more level columns and at least one row"),
        ("leaf\na\n", "a hierarchy in CSV needs a header, two or more level columns and at least one row"),
        ("group,leaf\nA,1\n\nA,\n", "row 4 of the hierarchy has no leaf or not 2 columns"),
        ("group,leaf\nA,1\nA\n", "row 3 of the hierarchy has no leaf or not 2 columns"),
        ("group,leaf\nA,1\nA,1,2\n", "row 3 of the hierarchy has no leaf or not 2 columns"),
        ("g,h,leaf\nA,,B\nA,B,1\n", "row 3 of the hierarchy uses the leaf 'B' as a group"),
        ("g,h,leaf\nA,B,1\nA,,B\n", "row 3 of the hierarchy uses the group 'B' as a leaf"),
        ("group,leaf\nA,1\nA,1\n", "the hierarchy has the leaf '1' twice; every leaf must stand once"),
        ("group,leaf\nA,1\nB,1\n", "the hierarchy has the leaf '1' twice; every leaf must stand once"),
    ],
)
def test_wrong_csv(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Hierarchy.from_csv(text)
    assert str(caught.value) == message


@st.composite
def trees(draw: st.DrawFn) -> Any:
    """Draw nested groups with names of their own and leaves of their own."""
    number = iter(range(10**6))

    def group(depth: int) -> list[Any]:
        children: list[Any] = []
        for _ in range(draw(st.integers(1, 3))):
            if depth and draw(st.booleans()):
                children.append({f"group {next(number)}": group(depth - 1)})
            else:
                children.append(f"leaf {next(number)}")
        return children

    return group(3)


@given(trees())
def test_a_tree_round_trips(nested: Any) -> None:
    tree = Hierarchy.from_nested(nested)
    assert tree.nested() == nested
    assert Hierarchy.from_nested(tree.nested()) == tree


@given(trees())
def test_a_node_holds_just_its_children(nested: Any) -> None:
    tree = Hierarchy.from_nested(nested)
    assert tree.height == max(len(node.path) for node in tree.nodes) + 2
    for node in tree.nodes:
        below = [other for other in tree.nodes if other.path[: len(node.path)] == node.path]
        assert all(node.start <= other.start < other.stop <= node.stop for other in below)
        assert node.stop > node.start
