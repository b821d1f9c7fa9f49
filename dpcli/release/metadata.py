"""What a release file says about itself: one JSON document in the Parquet footer.

It holds everything that a reader needs and nothing that depends on the table: no input path or hash, no
row count, no observed category, no seed of a private run.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpcli.data.domain import Domain
from dpcli.errors import ReleaseFileError
from dpcli.mechanisms import NAMES
from dpcli.privacy.cost import WIDEST_SCALE, Neighbors, cost
from dpcli.privacy.exact import Exact, exact_text
from dpcli.strategy.kronecker import Strategy
from dpcli.strategy.partition import Partition

FORMAT = "dpcli release"
VERSION = 1
NOT_PRIVATE = (
    "NOT PRIVATE: this file was made with --seed, for fixtures; its noise can be recomputed and removed."
)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", ignored_types=(cached_property,))


class Privacy(_Part):
    """The claim: epsilon for these neighbours, when at most so many rows of one person are counted.

    ``unit`` is the column that told people apart; without one, one row is taken as one person. ``parallel``
    is the group of releases about different rows that were made together with this one.
    """

    epsilon: Exact
    neighbors: Neighbors
    rows_per_person: int = Field(1, ge=1)
    unit: str | None = None
    parallel: str | None = None


class Noise(_Part):
    """The noise on each coefficient: independent, of this law, its scale times the coefficient's weight."""

    law: Literal["discrete-laplace"] = "discrete-laplace"
    scale: Exact


class RowGroup(_Part):
    """One block of cells: how many, and the SHA-256 of their counts as little-endian 64-bit numbers.

    ``regions`` is that of their regions, then their regions' counts.
    """

    rows: int
    sha256: str
    regions: str | None = None


class MeasuredRegions(_Part):
    """The second measurement of ispe: the sums of how many regions, with noise of this scale on each."""

    scale: Exact
    number: int = Field(default=0, ge=0)


class Metadata(_Part):
    """The footer's document. ``where`` is the condition of the rows that were counted, if not all were."""

    format: Literal["dpcli release"] = "dpcli release"
    version: int = VERSION
    kind: Literal["cube"] = "cube"
    id: str
    tool: str
    created: str | None = None
    randomness: Literal["operating-system", "seeded"]
    dataset: str
    name: str
    mechanism: str = Field(pattern=f"^({'|'.join(NAMES)})$")
    domain_description: list[dict[str, Any]] = Field(alias="domain")
    where: str | None = None
    strategy_description: dict[str, Any] = Field(alias="strategy")
    noise: Noise
    regions: MeasuredRegions | None = None
    privacy: Privacy
    steps: list[Literal["threshold"]] = []
    parents: list[str] = []
    guarantee: list[str] = []
    blocks: list[RowGroup] = []

    @cached_property
    def domain(self) -> Domain:
        """The cube's public domain."""
        return Domain.from_description(self.domain_description)

    @cached_property
    def strategy(self) -> Strategy:
        """What was measured."""
        return Strategy.from_description(self.strategy_description)

    @cached_property
    def whole(self) -> bool:
        """Whether the counts are whole numbers: every cell was measured by itself, and left as drawn."""
        return not self.strategy.inner and not self.steps

    @property
    def private(self) -> bool:
        """Whether the noise came from the operating system, not from a seed."""
        return self.randomness == "operating-system"

    def spent(self) -> Fraction:
        """Recompute epsilon from the strategy and the noise that the file describes."""
        neighbors, rows = self.privacy.neighbors, self.privacy.rows_per_person
        cells = cost(self.strategy, self.noise.scale, neighbors, rows)
        return cells if self.regions is None else cells + cost(Partition, self.regions.scale, neighbors, rows)

    @property
    def digest(self) -> str:
        """The SHA-256 of all that the file says, the digests of its counts among it."""
        return _digest(self.model_dump(mode="json", by_alias=True))

    def document(self) -> dict[str, Any]:
        """Return the document that the file holds, with its own digest."""
        body = self.model_dump(mode="json", by_alias=True)
        return {**body, "digest": _digest(body)}

    def to_json(self) -> str:
        """Return the document as canonical JSON."""
        return json.dumps(self.document(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: bytes, source: str, rows: int | None = None) -> Metadata:
        """Read and check a document; ``source`` names the file in errors, ``rows`` is what it holds."""
        try:
            body = json.loads(text)
            claimed = body.pop("digest")
            version = body["version"]
            if type(version) is not int or version < 1:
                raise ValueError("no such version")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ReleaseFileError(
                f"{source} is damaged: its metadata cannot be read. Get it again."
            ) from None
        if version > VERSION:
            raise ReleaseFileError(
                f"{source} has format version {version}, and this dpcli reads up to {VERSION}. Upgrade dpcli."
            )
        if claimed != _digest(body):
            raise ReleaseFileError(
                f"{source} is damaged: its metadata does not match its digest. Get it again."
            )
        try:
            metadata = cls.model_validate(body)
            cells, shape = metadata.domain.size, metadata.strategy.shape
            if shape != metadata.domain.shape or cells != sum(block.rows for block in metadata.blocks):
                raise ValueError("strategy, domain and blocks do not belong together")
            if rows is not None and rows != cells:
                raise ReleaseFileError(f"{source} is damaged: it has {rows:,} rows for {cells:,} cells.")
            widest = metadata.noise.scale * metadata.strategy.largest_weight
            if max(widest, metadata.regions.scale if metadata.regions else widest) > WIDEST_SCALE:
                raise ValueError("such noise cannot have been drawn")
            if (metadata.mechanism == "ispe") != (metadata.regions is not None):
                raise ValueError("ispe measures regions, and no other mechanism does")
            spent = metadata.spent()
        except (ValidationError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
            raise ReleaseFileError(
                f"{source} is not a release that this dpcli understands: its metadata is inconsistent."
            ) from None
        if spent > metadata.privacy.epsilon:
            raise ReleaseFileError(
                f"{source} claims epsilon {exact_text(metadata.privacy.epsilon)}, but the noise that it"
                f" describes spends {exact_text(spent)}. Do not trust it."
            )
        return metadata


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
