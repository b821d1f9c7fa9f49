"""Which rows each release counts, and the proof that those of a parallel group share none. No data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from dpcli.data.domain import Domain
from dpcli.data.view import View
from dpcli.errors import PlanError, QueryError
from dpcli.plan.schema import CubeRelease, Plan, Problem
from dpcli.query.parse import mentioned_in, parse_condition
from dpcli.query.product import Query, Term, conjunction


def check_filters(plan: Plan) -> None:
    """Raise ``PlanError`` if a filter cannot be read, or two releases of a parallel group may share a row."""
    problems = [text for _, text in filter_problems(plan)]
    if problems:
        raise PlanError("\n".join(problems))


def filter_problems(plan: Plan) -> Iterator[Problem]:
    """Yield what is wrong with the releases' filters, each with the path of the key to look at.

    A filter is a union of products of sets of categories, and every row has one category in each attribute.
    Two products share no row if in some attribute their sets have no category in common; otherwise a row
    with the common categories would be in both. So the check is exact, and looks at no data.
    """
    filters: dict[str, Query | None] = {}
    for place, spec in enumerate(plan.releases):
        try:
            filters[spec.name] = _filter(plan, spec)
        except PlanError as error:
            yield ("releases", place, "where"), str(error)
    for (_, one), (place, other) in combinations(enumerate(plan.releases), 2):
        if one.group != other.group or not {one.name, other.name} <= filters.keys():
            continue
        both = conjunction(list(_terms(filters[one.name])), list(_terms(filters[other.name])))
        if both:
            yield (
                ("releases", place, "parallel"),
                f"Releases '{one.name}' and '{other.name}' are both in the parallel group '{one.parallel}',"
                " but a row can satisfy the 'where' of both. Make them exclude each other, or leave out"
                " 'parallel', so that their epsilons add up.",
            )


def view_of(plan: Plan, spec: CubeRelease, domain: Domain) -> View:
    """Return what a release counts: its cube's domain, in the order given, and its filter by attribute."""
    found = _filter(plan, spec)
    if found is None:
        return View(domain)
    names = tuple(plan.attributes)
    terms = tuple({names[axis]: mask for axis, mask in term.items()} for term in found.terms)
    mentioned = mentioned_in(found.text, plan.domain)  # also where every category satisfies the condition
    return View(domain, terms, {name: plan.attributes[name] for name in mentioned})


def groups_of(specs: Sequence[CubeRelease]) -> list[list[int]]:
    """Return the places of releases that are counted together, group by group."""
    found: dict[tuple[str, str], list[int]] = {}
    for place, spec in enumerate(specs):
        found.setdefault(spec.group, []).append(place)
    return list(found.values())


def _terms(query: Query | None) -> Sequence[Term]:
    return ({},) if query is None else query.terms


def _filter(plan: Plan, spec: CubeRelease) -> Query | None:
    if spec.where is None:
        return None
    try:
        query = parse_condition(spec.where, plan.domain)
    except QueryError as error:
        raise PlanError(f"Release '{spec.name}' has a 'where' in error. {error}") from None
    if query.warnings:
        raise PlanError(f"Release '{spec.name}' has a 'where' that is not exact. {query.warnings[0]}")
    if not query.terms:
        raise PlanError(f"Release '{spec.name}' has a 'where' that no row can satisfy. Check the condition.")
    return query
