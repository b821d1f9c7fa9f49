"""Questions to a release, from conditions, statements and workloads to tables of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from dpcli.data.attributes import Binned, Label
from dpcli.data.domain import Domain
from dpcli.errors import QueryError, UsageError, did_you_mean, listed
from dpcli.estimate.answer import Answers
from dpcli.estimate.cube import Asked, CubeSource, Source, answer
from dpcli.estimate.table import Table
from dpcli.query.batch import batches, grouped
from dpcli.query.parse import EVERYTHING, parse_condition
from dpcli.query.product import Query
from dpcli.query.statement import Statement, parse_statement
from dpcli.query.words import category_phrase
from dpcli.query.workload import Marginal, read_workload
from dpcli.release.file import Release

MOST_LEVEL = 0.999999
Codes = NDArray[np.intp]
_WHOLE = np.ones(0, np.bool_)


class Interviewer:
    """Asks a release, for intervals of one level: for each answer, or for all answers of a table at once."""

    def __init__(
        self,
        release: Release,
        level: float,
        *,
        simultaneous: bool,
        interpolate: bool,
        estimator: str | None = None,
        neighbours: str | None = None,
    ) -> None:
        if not 0 < level <= MOST_LEVEL:
            raise UsageError(
                f"The interval's level must lie between 0 and {MOST_LEVEL}, as 0.95 does; {level} does not."
            )
        self.release, self.domain = release, release.domain
        self._source = source_of(release, estimator, neighbours)
        self._level, self._simultaneous, self._interpolate = level, simultaneous, interpolate

    def conditions(self, texts: Sequence[str], by: Sequence[str]) -> Table:
        """Count the rows of each condition (without any: all rows), for each group if ``by`` is given."""
        queries = [self._condition(text, alone=len(texts) < 2) for text in texts or (EVERYTHING,)]
        warnings = _distinct(text for query in queries for text in query.warnings)
        if not by:
            found = self._answer(queries)
            return Table(lambda n: queries[n].text, found, warnings=warnings)
        axes = group_axes(by, self.domain)
        groups = [grouped(query, axes, self.domain.shape) for query in queries]
        level = self._shared(sum(len(batch) for _, batch in groups))
        parts = self._source.answers([Asked(batch) for _, batch in groups], level)
        owner = np.repeat(np.arange(len(queries)), [len(codes) for codes, _ in groups])
        labels = _labels(self.domain, axes, np.concatenate([codes for codes, _ in groups]))
        attributes = {name: self.domain[name] for name in by}
        return Table(lambda n: queries[owner[n]].text, Answers.joined(parts), labels, attributes, warnings)

    def statement(self, text: str) -> Table:
        """Answer a SELECT statement: for each group one row per aggregate."""
        release = self.release
        tables = ("release", release.metadata.name, release.metadata.dataset)
        asked = parse_statement(text, self.domain, tables, interpolate=self._interpolate)
        axes = group_axes(asked.by, self.domain) if asked.by else ()
        if axes:
            codes, batch = grouped(asked.where, axes, self.domain.shape)
        else:
            ((_, batch),) = batches([asked.where], self.domain.shape)
            codes = np.zeros((1, 0), np.intp)
        names = self.domain.names
        _check_cuts(self.domain, asked)
        questions = [
            Asked(batch, each.function, None if each.attribute is None else names.index(each.attribute))
            for each in asked.aggregates
        ]
        parts = self._source.answers(questions, self._shared(len(batch) * len(questions)))
        order = _order(asked, codes, parts)
        every = len(questions)
        # Row g·every + a is aggregate a of the g-th group.
        rows = (order[:, None] + len(batch) * np.arange(every)).reshape(-1)
        return Table(
            lambda n: asked.aggregates[n % every].text,
            Answers.joined(parts).part(rows),
            _labels(self.domain, axes, codes[np.repeat(order, every)]),
            {name: self.domain[name] for name in asked.by},
            _distinct(asked.where.warnings),
            _notes(self.domain, asked),
        )

    def workload(self, spec: str) -> Iterator[Table]:
        """Answer a workload, table by table; see :func:`dpcli.query.workload.read_workload`."""
        found = read_workload(spec, self.domain, interpolate=self._interpolate)
        queries = [query for query in found if isinstance(query, Query)]
        if queries:
            warnings = _distinct(text for query in queries for text in query.warnings)
            yield Table(lambda n: queries[n].text, self._answer(queries), warnings=warnings)
        marginals = [marginal for marginal in found if isinstance(marginal, Marginal)]
        if marginals:
            everything = Query(EVERYTHING, ({},))
            groups = [grouped(everything, marginal.axes, self.domain.shape) for marginal in marginals]
            level = self._shared(sum(len(codes) for codes, _ in groups))
            parts = self._source.answers([Asked(batch) for _, batch in groups], level)
            for marginal, (codes, _), part in zip(marginals, groups, parts, strict=True):
                yield Table(_words(self.domain, marginal.axes, codes), part)

    def _answer(self, queries: Sequence[Query]) -> Answers:
        return answer(self._source, queries, self.domain.shape, self._shared(len(queries)))

    def _condition(self, text: str, *, alone: bool) -> Query:
        try:
            return parse_condition(text, self.domain, interpolate=self._interpolate)
        except QueryError as error:
            raise QueryError(str(error) if alone else f"In the condition {text!r}: {error}") from None

    def _shared(self, count: int) -> float:
        """Return the level of each of so many intervals that shall all hold at once (Bonferroni)."""
        return 1 - (1 - self._level) / max(count, 1) if self._simultaneous else self._level


def source_of(release: Release, estimator: str | None = None, neighbours: str | None = None) -> Source:
    """Return what answers questions from a release."""
    if release.metadata.regions is not None:
        from dpcli.estimate.ispe.estimate import Estimator, Reference
        from dpcli.estimate.ispe.source import RegionSource

        chosen = estimator or "least-squares", neighbours or "weighted"
        for word, choices in zip(chosen, (get_args(Estimator), get_args(Reference)), strict=True):
            if word not in choices:
                raise UsageError(f"'{word}' is none of {listed(choices)}.{did_you_mean(word, choices)}")
        return RegionSource(release, *chosen)  # type: ignore[arg-type]
    if estimator is not None or neighbours is not None:
        raise UsageError(
            f"An estimator, or a neighbourhood, is chosen for releases by ispe; {release.path} is by"
            f" {release.metadata.mechanism}, whose answers are sums of its counts."
        )
    return CubeSource(release)


def group_axes(names: Sequence[str], domain: Domain) -> tuple[int, ...]:
    """Return the axes of attributes to group by."""
    for place, name in enumerate(names):
        if name not in domain.names:
            raise QueryError(
                f"The release has no attribute '{name}' to group by.{did_you_mean(name, domain.names)}"
                f" It has: {listed(domain.names)}."
            )
        if name in names[:place]:
            raise QueryError(f"'{name}' is there twice among the attributes to group by.")
    return tuple(domain.names.index(name) for name in names)


def _labels(domain: Domain, axes: Sequence[int], codes: Codes) -> dict[str, list[Label]]:
    found = {}
    for column, axis in enumerate(axes):
        labels = domain.attributes[axis].labels()
        found[domain.names[axis]] = [labels[code] for code in codes[:, column].tolist()]
    return found


def _words(domain: Domain, axes: Sequence[int], codes: Codes) -> Callable[[int], str]:
    phrases = [
        [
            category_phrase(domain.names[axis], domain.attributes[axis], code)
            for code in range(domain.shape[axis])
        ]
        for axis in axes
    ]
    return lambda n: " and ".join(phrase[code] for phrase, code in zip(phrases, codes[n], strict=True))


def _order(asked: Statement, codes: Codes, parts: Sequence[Answers]) -> Codes:
    """Return the groups in the order asked for, cut to those asked for; unknown values come last."""
    order = np.arange(len(codes))
    for key in reversed(asked.order):
        if isinstance(key.key, int):
            column = parts[key.key].value
            unknown = np.isnan(column)
            column = np.where(unknown, 0, column)
        else:
            column = codes[:, asked.by.index(key.key)]
            unknown = np.zeros(len(column), np.bool_)
        ranked = -column if key.descending else column
        order = order[np.lexsort((ranked[order], unknown[order]))]
    stop = None if asked.limit is None else asked.offset + asked.limit
    return order[asked.offset : stop]


def _check_cuts(domain: Domain, asked: Statement) -> None:
    """Refuse to sum or average an attribute that the condition cuts inside a category."""
    for each in asked.aggregates:
        axis = None if each.attribute is None else domain.names.index(each.attribute)
        if axis is not None and any(term.get(axis, _WHOLE).dtype != np.bool_ for term in asked.where.terms):
            raise QueryError(
                f"{each.text} can't be answered, because the condition cuts '{each.attribute}' inside a"
                " category. Cut it at an edge."
            )


def _notes(domain: Domain, asked: Statement) -> tuple[str, ...]:
    """Say what stands for the values in sums and averages."""
    found = []
    for name in dict.fromkeys(each.attribute for each in asked.aggregates if each.function != "count"):
        assert name is not None
        attribute = domain[name]
        if isinstance(attribute, Binned):
            part = {"middle": "middle", "lower": "lower edge", "upper": "upper edge"}[attribute.represent]
            found.append(f"Each value of '{name}' is taken as the {part} of its bin.")
        where = {
            "clamp": "are counted as its first or last category",
            "other": "have no number and are left out",
        }.get(attribute.outside)
        if where:
            found.append(f"Values of '{name}' outside its domain {where}.")
    return tuple(found)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
