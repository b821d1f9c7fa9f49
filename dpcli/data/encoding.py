"""PRIVATE: reads the table. Turns a column of a batch into the categories of its attribute.

Everything works on whole arrays. Text is looked at once per distinct label and batch, then spread to the
rows by a look-up.
"""

from __future__ import annotations

from functools import lru_cache, singledispatch
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpcli.data.attributes import Attribute, Binned, Boolean, Dates, Integers, Nominal
from dpcli.data.periods import MONTHS
from dpcli.errors import DataError

DROPPED, OUTSIDE, MISSING = -1, -2, -3
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_TIME = r"([01]\d|2[0-3]):[0-5]\d(:([0-5]\d|60)([.,]\d+)?)?"
_DAY = rf"^\d{{4}}-\d\d-\d\d([ T]{_TIME} ?(Z|[+-]\d\d(:?\d\d)?)?)?$"
_FALSE, _TRUE = ["false", "f", "no", "n", "0"], ["true", "t", "yes", "y", "1"]
_TEXT = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


class Places(NamedTuple):
    """Where values stand in an attribute's order.

    ``places`` are 0 … regular-1 inside the domain, negative below it and larger above it. ``readable`` is
    false where a value has no place at all, such as text that is no number; ``None`` if all have one.
    """

    places: Codes
    readable: Mask | None = None


class _Unreadable(Exception):  # noqa: N818
    """The type of a column does not suit its attribute."""


def encode(name: str, attribute: Attribute, column: pa.Array | pa.ChunkedArray) -> Codes:
    """Return the category of each row, after the attribute's rules for outside and missing values.

    Codes are 0 … size-1, or ``DROPPED`` for a row that the rules drop, ``OUTSIDE`` and ``MISSING`` for one
    that they don't allow. ``name`` is the column's name, for errors; no error holds a value.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    try:
        if not pa.types.is_dictionary(column.type):
            if not (is_text(kind) or pa.types.is_decimal(kind) or isinstance(attribute, Nominal | Boolean)):
                return _codes(attribute, column)
            column = column.dictionary_encode()
        codes = np.append(_codes(attribute, column.dictionary), _missing_code(attribute))
        indices = column.indices
        if indices.null_count:
            indices = indices.cast(pa.int64()).fill_null(len(codes) - 1)
        return codes.take(_array(indices))
    except (_Unreadable, pa.ArrowNotImplementedError):
        raise DataError(
            f"Column '{name}' has the type {kind}, which does not suit the kind '{attribute.kind}'."
            " Change the column's type, or the kind in the plan."
        ) from None
    except pa.ArrowInvalid:
        if pa.types.is_timestamp(kind):
            raise DataError(
                f"Column '{name}' has the time zone '{kind.tz}', which is not known here."
                " Store the column with a known time zone, or without one."
            ) from None
        raise DataError(
            f"Column '{name}' holds text that is not UTF-8. Store the column as UTF-8 text."
        ) from None


def _codes(attribute: Attribute, values: pa.Array) -> Codes:
    """Find the places of values, distinct or not, and apply the attribute's rules."""
    if pa.types.is_null(values.type):
        return np.full(len(values), _missing_code(attribute))
    if is_text(values.type):
        values = pc.utf8_trim_whitespace(values.cast(pa.large_string()))
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
    codes, readable = _places(attribute, values)
    outside = {"drop": DROPPED, "other": attribute.regular}.get(attribute.outside, OUTSIDE)
    if attribute.outside == "clamp":
        codes = codes.clip(0, attribute.regular - 1)
    else:
        beyond = codes.view(np.uint64) >= attribute.regular  # a negative place is a huge one here
        if beyond.any():
            codes[beyond] = outside
    if readable is not None:
        codes[~readable] = outside
    if values.null_count or pa.types.is_floating(values.type):
        codes[_array(pc.is_null(values, nan_is_null=True))] = _missing_code(attribute)
    return codes


def _missing_code(attribute: Attribute) -> int:
    rules = {"error": MISSING, "drop": DROPPED, "own-category": attribute.size - 1}
    return rules[attribute.missing]


# --- the places of values, for each kind of attribute -----------------------------------------------------


@singledispatch
def _places(attribute: Attribute, values: pa.Array) -> Places:
    """Return the places of values in the order of an attribute; of a missing value, any."""
    raise TypeError(f"no way to read {type(attribute).__name__}")


@_places.register
def _(attribute: Integers, values: pa.Array) -> Places:
    numbers, readable = _numbers(values)
    low, high = attribute.range
    if numbers.dtype == np.int64:
        return Places(numbers.clip(low - 1, high + 1) - low, readable)
    floors = np.floor(numbers)
    whole = (floors == numbers) | (numbers < low) | (numbers > high)
    places = np.where(numbers > high, high + 1, floors.clip(low - 1, high)).astype(np.int64) - low
    return Places(places, whole if readable is None else whole & readable)


@_places.register
def _(attribute: Binned, values: pa.Array) -> Places:
    numbers, readable = _numbers(values)
    low, high, width = _grid(attribute)
    if width and numbers.dtype == np.int64:
        places = (numbers.clip(low - 1, high + 1) - low) // width
    else:
        edges = _edges(attribute)
        high = edges[-1]
        places = np.searchsorted(edges, numbers, side="right") - 1
    places[numbers == high] = attribute.regular - 1
    return Places(places, readable)


@lru_cache(maxsize=64)
def _grid(attribute: Binned) -> tuple[int, int, int]:
    """Return (low, high, width) of equal bins between whole numbers, or zeros for other bins."""
    if attribute.range is None or attribute.bin is None:
        return 0, 0, 0
    numbers = (*attribute.range, attribute.bin)
    if any(number % 1 for number in numbers):
        return 0, 0, 0
    low, high, width = map(int, numbers)
    return low, high, width


@lru_cache(maxsize=64)
def _edges(attribute: Binned) -> npt.NDArray[np.float64]:
    return np.array(attribute.cuts, dtype=np.float64)


@_places.register
def _(attribute: Dates, values: pa.Array) -> Places:
    days, readable = _days(values)
    if attribute.period == "week":
        days = (days + 3) // 7
    elif attribute.period != "day":
        days = days.view("M8[D]").astype("M8[M]").astype(np.int64) // MONTHS[attribute.period]
    return Places(days - attribute.first_index, readable)


@_places.register
def _(attribute: Nominal, values: pa.Array) -> Places:
    return Places(_find(_texts(values), attribute.regular_labels))


@_places.register
def _(attribute: Boolean, values: pa.Array) -> Places:
    found = _find(pc.utf8_lower(_texts(values)), _FALSE + _TRUE)
    return Places(np.where(found < 0, -1, found // len(_FALSE)))


# --- what values say, for each type of column -------------------------------------------------------------


def _numbers(values: pa.Array) -> tuple[npt.NDArray[np.int64] | npt.NDArray[np.float64], Mask | None]:
    """Return values as int64 or float64, and where they are numbers; 0 for a missing value."""
    kind = values.type
    if pa.types.is_uint64(kind):
        return np.minimum(_array(values.fill_null(0)), 2**63 - 1).astype(np.int64), None
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _array(values.cast(pa.int64()).fill_null(0)), None
    if pa.types.is_floating(kind):
        return np.nan_to_num(
            _array(values.cast(pa.float64()).fill_null(0)), posinf=np.inf, neginf=-np.inf
        ), None
    if pa.types.is_decimal(kind):
        values = values.cast(pa.string())
    elif not is_text(kind):
        raise _Unreadable
    readable = pc.match_substring_regex(values, _NUMBER).fill_null(False)
    digits = pc.utf8_ltrim(pc.if_else(readable, values, "0"), "+")
    return _array(digits.cast(pa.float64())), _array(readable)


def _days(values: pa.Array) -> tuple[Codes, Mask | None]:
    """Return the days since 1970-01-01 (of the wall clock, where there is a time zone); 0 if missing."""
    kind = values.type
    if pa.types.is_date32(kind):
        return _array(values.cast(pa.int32()).cast(pa.int64()).fill_null(0)), None
    if pa.types.is_date64(kind):
        return _array(values.cast(pa.int64()).fill_null(0)) // _PER_DAY["ms"], None
    if pa.types.is_timestamp(kind):
        local = values if kind.tz is None else pc.local_timestamp(values)
        return _array(local.cast(pa.int64()).fill_null(0)) // _PER_DAY[kind.unit], None
    if not is_text(kind):
        raise _Unreadable
    shaped = pc.match_substring_regex(values, _DAY).fill_null(False)
    texts = pc.if_else(shaped, values, "1970-01-01")
    year, month, day = (
        _array(pc.utf8_slice_codeunits(texts, start, stop).cast(pa.int64()))
        for start, stop in ((0, 4), (5, 7), (8, 10))
    )
    months = ((year - 1970) * 12 + month - 1).view("M8[M]")
    days = months.astype("M8[D]") + (day - 1)
    real = (month >= 1) & (month <= 12) & (day >= 1) & (days.astype("M8[M]") == months)
    return days.astype(np.int64), _array(shaped) & real


def _texts(values: pa.Array) -> pa.Array:
    """Return values as a plan writes them: whole numbers without a decimal point, days as 2026-01-31."""
    kind = values.type
    if pa.types.is_duration(kind) or pa.types.is_time(kind) or pa.types.is_interval(kind):
        raise _Unreadable
    texts = values if is_text(kind) else values.cast(pa.string())
    if pa.types.is_floating(kind):
        numbers = _array(values.cast(pa.float64()).fill_null(0))
        whole = (np.floor(numbers) == numbers) & (abs(numbers) < 2**63)
        integers = pa.array(np.where(whole, numbers, 0).astype(np.int64)).cast(pa.string())
        texts = pc.if_else(pa.array(whole), integers, texts)
    if pa.types.is_decimal(kind):
        texts = pc.replace_substring_regex(texts, r"^([^.E]*)(\.\d*[1-9])?\.?0*$", r"\1\2")
    return texts


def _find(texts: pa.Array, labels: list[str]) -> Codes:
    """Return the number of the label that equals each text, or -1."""
    found = pc.index_in(texts, value_set=pa.array(labels, texts.type))
    return _array(found.fill_null(-1)).astype(np.int64)


def is_text(kind: pa.DataType) -> bool:
    return any(is_text(kind) for is_text in _TEXT)


def _array(values: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))
