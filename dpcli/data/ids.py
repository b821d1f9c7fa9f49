"""PRIVATE: reads the table. Reads the ids by which people are told apart, however a file stores them.

Two spellings of one id must not pass for two people, or they would be protected less than was promised. So
white space around an id does not count, nor how a whole number is written: 7, 7.0, " 7", "007" and "+7" are
one person, in one file or in several. Any other text is compared character by character, however its accents
are composed; capital and small letters differ. Who an id stands for depends on that id alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpcli.data.encoding import is_text
from dpcli.errors import DataError

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WHOLE = r"^\+?(-?)0*(\d+)(\.0*)?$"
_LARGEST, _SMALLEST = "9223372036854775807", "-9223372036854775808"


class Ids(NamedTuple):
    """Who owns each row: a number of 64 bits or, where ``texts`` is not null, a text.

    ``texts`` is ``None`` if all are numbers, ``missing`` is ``None`` if all are there.
    """

    numbers: Numbers
    texts: pa.Array | None = None
    missing: Mask | None = None


def read_ids(name: str, column: pa.Array) -> Ids:
    """Return who owns each row. ``name`` is the column's name, for errors; no error holds a value."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    try:
        if not pa.types.is_dictionary(column.type):
            return _ids(column)
        places, distinct = column.indices, _ids(column.dictionary)
        if places.null_count:  # they point past the end, where a missing id is appended
            distinct, places = _one_more_missing(distinct), places.cast(pa.int64())
            places = places.fill_null(len(column.dictionary))
        taken = _array(places)
        return Ids(
            distinct.numbers.take(taken),
            None if distinct.texts is None else distinct.texts.take(places),
            None if distinct.missing is None else distinct.missing.take(taken),
        )
    except pa.ArrowNotImplementedError:
        raise DataError(
            f"Column '{name}' has the type {kind}, by which people are not told apart."
            " Store their ids as whole numbers or as text."
        ) from None
    except pa.ArrowInvalid:
        raise DataError(
            f"Column '{name}' holds text that is not UTF-8. Store the column as UTF-8 text."
        ) from None


def _ids(values: pa.Array) -> Ids:
    """Read ids, distinct or not."""
    kind = values.type
    if pa.types.is_null(kind):
        return Ids(np.zeros(len(values), np.int64), None, np.ones(len(values), np.bool_))
    if pa.types.is_integer(kind) and not (pa.types.is_uint64(kind) and _reaches(values, 2**63)):
        return Ids(_array(values.cast(pa.int64()).fill_null(0)), None, _true(values.is_null()))
    if pa.types.is_floating(kind):
        return _from_floats(values.cast(pa.float64()))
    if is_text(kind):
        return _from_texts(values.cast(pa.large_string()))
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_date(kind):
        return _from_texts(values.cast(pa.string()).cast(pa.large_string()))
    raise pa.ArrowNotImplementedError("no id")


def _from_floats(values: pa.Array) -> Ids:
    """Read floats: whole numbers as such, for many tools turn a column of them into floats."""
    missing = _array(values.is_null(nan_is_null=True))
    floats = np.where(missing, 0, _array(values.fill_null(0)))
    whole = (np.floor(floats) == floats) & (abs(floats) < 2**63)
    texts = pc.if_else(pa.array(whole), pa.scalar(None, pa.string()), values.cast(pa.string()))
    large = np.flatnonzero((np.floor(floats) == floats) & ~whole & np.isfinite(floats))
    if len(large):  # whole numbers beyond 64 bits, written as whole numbers are
        spelt = texts.to_pylist()
        for place in large.tolist():
            spelt[place] = str(int(floats[place]))
        texts = pa.array(spelt, pa.string())
    return Ids(
        np.where(whole, floats, 0).astype(np.int64),
        None if whole.all() else texts.cast(pa.large_string()),
        missing if missing.any() else None,
    )


def _from_texts(texts: pa.Array) -> Ids:
    """Read texts: whole numbers that fit 64 bits as numbers, however they are spelt, others as texts."""
    texts = pc.utf8_trim_whitespace(texts)
    absent = pc.equal(texts, "").fill_null(True)
    if _any(absent):
        texts = pc.if_else(absent, "0", texts)  # any id: it is not looked at
    if not _all(pc.string_is_ascii(texts)):
        texts = pc.utf8_normalize(texts, form="NFC")
    if _all(pc.and_(pc.ascii_is_decimal(texts), pc.less(pc.binary_length(texts), 19))):
        return Ids(_array(texts.cast(pa.int64())), None, _true(absent))
    whole = pc.match_substring_regex(texts, _WHOLE)
    if not _any(whole):
        return Ids(np.zeros(len(texts), np.int64), texts)
    texts = pc.if_else(whole, pc.replace_substring_regex(texts, _WHOLE, r"\1\2"), texts)
    # Among texts of one length, none starting with zeros, the order of texts is that of the numbers' sizes.
    length = pc.binary_length(texts)
    fits = pc.or_(
        pc.less(length, 19),
        pc.or_(
            pc.and_(pc.equal(length, 19), pc.less_equal(texts, _LARGEST)),
            pc.and_(pc.equal(length, 20), pc.less_equal(texts, _SMALLEST)),
        ),
    )
    number = pc.and_(whole, fits)
    numbers = _array(pc.if_else(number, texts, "0").cast(pa.int64()))
    texts = None if _all(number) else pc.if_else(number, pa.scalar(None, texts.type), texts)
    return Ids(numbers, texts, _true(absent))


def _one_more_missing(ids: Ids) -> Ids:
    """Append a missing id."""
    missing = np.zeros(len(ids.numbers), np.bool_) if ids.missing is None else ids.missing
    texts = None if ids.texts is None else pa.concat_arrays([ids.texts, pa.nulls(1, ids.texts.type)])
    return Ids(np.append(ids.numbers, 0), texts, np.append(missing, True))


def _reaches(values: pa.Array, bound: int) -> bool:
    """Whether some value is at least as large as the bound."""
    return bool(len(values) > values.null_count and pc.max(values).as_py() >= bound)


def _all(values: pa.Array) -> bool:
    return bool(pc.all(values, min_count=0).as_py())


def _any(values: pa.Array) -> bool:
    return bool(pc.any(values, min_count=0).as_py())


def _true(values: pa.Array) -> Mask | None:
    """Return the mask, or ``None`` if it is false everywhere."""
    mask = _array(values)
    return mask if mask.any() else None


def _array(values: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))
