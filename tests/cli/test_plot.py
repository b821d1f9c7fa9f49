"""Charts of answers: as text for a terminal, and as pictures."""

from __future__ import annotations

import io
import math
import re
import sys
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from dpcli.cli.plot import Bars, Point, chart, picture, scale
from dpcli.errors import UsageError

ESCAPE = re.compile(r"\x1b\[\d+m")


def bars(
    values: Sequence[float | None],
    error: float | None = None,
    *,
    labels: Sequence[str] | None = None,
    ordered: bool = False,
    title: str = "COUNT(*) by job",
) -> Bars:
    """Bars with the same error everywhere; without one there are no intervals."""
    lows = [None if value is None or error is None else value - error for value in values]
    highs = [None if value is None or error is None else value + error for value in values]
    return Bars(title, labels or [f"c{k:02}" for k in range(len(values))], values, lows, highs, ordered)


JOBS = bars([40, 33.2, -5, None], 9.5, labels=["Nurse", "Dentist", "Plumber and pipe fitter", "Mason"])
WAVE = bars([round(10 * math.sin(k / 8)) for k in range(50)], 3, ordered=True, title="COUNT(*) by age")


def test_bars() -> None:
    assert chart(JOBS, width=60, color=False) == (
        "COUNT(*) by job\n"
        "Nurse                      │████████████├▒▒▒▌───┤   40 ± 9.5\n"
        "Dentist                    │█████████├▒▒▒▊───┤    33.2 ± 9.5\n"
        "Plumber and pipe fi… ├──▕▒▒┼─┤                      -5 ± 9.5\n"
        "1 category without a value left out.\n"
    )


def test_bars_in_ascii() -> None:
    assert chart(JOBS, width=60, color=False, ascii=True) == (
        "COUNT(*) by job\n"
        "Nurse                     |############|####---|   40 +- 9.5\n"
        "Dentist                   |#########|####---|    33.2 +- 9.5\n"
        "Plumber and pipe... |---##|-|                      -5 +- 9.5\n"
        "1 category without a value left out.\n"
    )


def test_a_line() -> None:
    assert chart(WAVE, width=60, height=9, color=False) == (
        "COUNT(*) by age\n"
        "    │         ┊┊┊┊┊┊┊┊┊\n"
        " 10 ┤     ┊┊┊┊●●●●●●●●●┊┊┊\n"
        "    │  ┊┊●●●●●┊┊┊┊┊┊┊┊┊●●●●┊┊\n"
        "    │┊┊●●┊┊┊            ┊┊┊●●┊┊┊\n"
        "  0 ┤●●┊┊┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┊┊●●●┊┊┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┊┊┊\n"
        "    │┊┊                      ┊┊┊●●┊┊┊            ┊┊┊●●●\n"
        "    │                           ┊┊●●●●●┊┊┊┊┊┊┊┊┊●●●●┊┊┊\n"
        "-10 ┤                              ┊┊┊┊●●●●●●●●●┊┊┊\n"
        "    │                                  ┊┊┊┊┊┊┊┊┊\n"
        "    └┬────────────────────────┬───────────────────────┬\n"
        "     c00                     c25                    c49\n"
    )


def test_a_line_in_ascii() -> None:
    assert chart(WAVE, width=60, height=9, color=False, ascii=True) == (
        "COUNT(*) by age\n"
        "    |         |||||||||\n"
        " 10 |     ||||#########|||\n"
        "    |  ||#####|||||||||####||\n"
        "    |||##|||            |||##|||\n"
        "  0 |##||------------------||###||------------------|||\n"
        "    |||                      |||##|||            |||###\n"
        "    |                           ||#####|||||||||####|||\n"
        "-10 |                              ||||#########|||\n"
        "    |                                  |||||||||\n"
        "    ||------------------------|-----------------------|\n"
        "     c00                     c25                    c49\n"
    )


def test_a_column_stands_for_several_categories() -> None:
    assert chart(WAVE, width=40, height=7, color=False) == (
        "COUNT(*) by age\n"
        "    │   ┊┊┊┊┊┊┊\n"
        " 10 ┤ ┊┊●●●●●●●┊┊\n"
        "    │┊●●┊┊┊  ┊┊●●┊\n"
        "  0 ┤●┊┊┈┈┈┈┈┈┈┊┊●●┊┈┈┈┈┈┈┈┈┊┊\n"
        "    │┊           ┊┊●●┊┊  ┊┊●●●\n"
        "-10 ┤              ┊┊●●●●●●┊┊\n"
        "    │                ┊┊┊┊┊┊\n"
        "    └┬───────────┬───────────┬\n"
        "     c00        c25        c49\n"
        "Each column stands for 2 categories:\n"
        "their mean, and all their intervals.\n"
    )


def test_all_below_zero() -> None:
    assert chart(bars([-3, -2], 1), width=40, color=False) == (
        "COUNT(*) by job\n"
        "c00 ├──────▒▒▒▒▒▒▒┤█████████████│ -3 ± 1\n"
        "c01        ├──────▒▒▒▒▒▒▒┤██████│ -2 ± 1\n"
    )


def test_an_interval_need_not_surround_the_value_evenly() -> None:
    assert chart(Bars("", ["a", "b"], [5, 6], [1, 6.5], [6, 9], True), width=50, color=False) == (
        "\n"
        "a │███├▒▒▒▒▒▒▒▒▒▒▒▒▒▒▉───┤            5 (1 to 6)\n"
        "b │██████████████████████▋ ├────────┤ 6 (6.5 to 9)\n"
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 0], ["c00 │" + " " * 24 + "0", "c01 │" + " " * 24 + "0"]),
        ([5], ["c00 │" + "█" * 23 + " 5"]),
        ([-0.0], ["c00 │" + " " * 24 + "0"]),
        ([None, None], ["There are no values to show."]),
        ([math.nan, math.inf], ["There are no values to show."]),
        ([], ["There are no values to show."]),
    ],
)
def test_little_to_draw(values: list[float | None], expected: list[str]) -> None:
    assert chart(bars(values), width=30, color=False).splitlines()[1:] == expected


@pytest.mark.parametrize("value", [0.0, 7.0, -7.0, 1e-320, 1e15])
def test_a_line_of_equal_values(value: float) -> None:
    lines = chart(bars([value] * 60, ordered=True), width=80, height=5, color=False).splitlines()
    (row,) = (line for line in lines if "●" in line)
    assert row.count("●") == 60


def test_an_interval_shorter_than_a_character_is_only_written() -> None:
    assert chart(bars([1000, 500], 3), width=40, color=False) == (
        "COUNT(*) by job\n"
        "c00 │████████████████████████▉ 1,000 ± 3\n"
        "c01 │████████████▌               500 ± 3\n"
    )


def test_the_40_largest_of_many() -> None:
    _, *rows, note = chart(bars(range(1050)), width=60, color=False).splitlines()
    assert [row.split()[0] for row in rows] == [f"c{k}" for k in range(1049, 1009, -1)]
    assert note == "The 40 largest; 1,010 categories left out."


def test_unknown_values_leave_gaps_in_a_line() -> None:
    values = [None if k % 7 == 3 else 5.0 for k in range(70)]
    text = chart(bars(values, ordered=True), width=80, color=False)
    assert "●●●" + " ●●●●●●" * 9 + " ●●●" in text
    assert text.endswith("\n10 categories without a value left out.\n")


def test_labels_that_play_tricks() -> None:
    text = chart(bars([1, 2], labels=["\x1b[31mred\n", "日本語"]), width=40, color=False)
    assert text.splitlines()[1].startswith("\ufffd[31mred\ufffd │█")
    assert text.splitlines()[2].startswith("日本語    │██")
    assert chart(bars([1], labels=["Zoë"]), width=40, color=False, ascii=True).splitlines()[1][:5] == "Zo? |"


def test_color_only_adds_color() -> None:
    for what in (JOBS, WAVE):
        text = chart(what, width=60, color=True)
        assert text.startswith(f"\x1b[1m{what.title}\x1b[0m\n")
        assert "\x1b[36m" in text
        assert ESCAPE.sub("", text) == chart(what, width=60, color=False)


numbers = st.none() | st.integers(-(10**6), 10**6) | st.floats()


@given(
    st.lists(st.tuples(st.text(), numbers, numbers, numbers), max_size=120),
    st.text(),
    st.booleans(),
    st.integers(-1, 120),
    st.integers(0, 20),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_anything_is_drawn_within_the_width(
    rows: list[tuple[str, float | None, float | None, float | None]],
    title: str,
    ordered: bool,
    width: int,
    height: int,
    ascii: bool,
) -> None:
    labels, values, lows, highs = zip(*rows, strict=True) if rows else ((), (), (), ())
    what = Bars(title, labels, values, lows, highs, ordered)
    text = chart(what, width=width, height=height, color=False, ascii=ascii)
    assert all(cell_len(line) <= max(width, 30) for line in text.splitlines())
    assert "\x1b" not in text
    assert text.isascii() or not ascii
    assert ESCAPE.sub("", chart(what, width=width, height=height, color=True, ascii=ascii)) == text


@given(
    st.lists(st.tuples(st.integers(-9999, 9999), st.integers(1, 5000)), min_size=1, max_size=40),
    st.integers(30, 120),
)
@settings(max_examples=150, deadline=None)
def test_bars_and_whiskers_end_in_the_right_columns(rows: list[tuple[int, int]], width: int) -> None:
    ends = [(value - error, value + error) for value, error in rows]
    what = Bars(
        "",
        [f"c{k:02}" for k in range(len(rows))],
        *zip(*((v, v - e, v + e) for v, e in rows), strict=True),
        ordered=False,
    )
    texts = [f"{value:,}" for value, _ in rows]
    room = max(map(len, texts)) + max(len(f" ± {error:,}") for _, error in rows)
    if room > width // 2:
        room = max(map(len, texts))
    columns = width - len("c00  ") - room
    ruler = scale([Point("", value, span) for (value, _), span in zip(rows, ends, strict=True)], columns)
    assert ruler.left + 1 + ruler.right == columns
    low, high = min(0, *(low for low, _ in ends)), max(0, *(high for _, high in ends))
    assert max(-low / (ruler.left or 1), high / (ruler.right or 1)) == ruler.unit

    def column(number: int) -> int:
        steps = math.ceil(abs(number) / ruler.unit - 1e-9)
        return ruler.left + (steps if number > 0 else -steps)

    lines = chart(what, width=width, color=False).splitlines()[1:]
    for line, (value, _), (low, high) in zip(lines, rows, ends, strict=True):
        body = line.ljust(width)[4 : 4 + columns]
        if high - low >= ruler.unit:
            assert (body.index("├"), body.rindex("┤")) == (column(low), column(high))
            assert set(body[: column(low)] + body[column(high) + 1 :]) <= set(" │█▌▐▏▕▎▍▋▊▉")
        else:
            assert not set(body) & set("├┤─▒")
        filled = [place for place, c in enumerate(body) if c in "█▒" and place != ruler.left]
        assert all(
            min(ruler.left, column(value)) <= place <= max(ruler.left, column(value)) for place in filled
        )


@pytest.mark.parametrize(("form", "magic"), [("svg", b"<?xml"), (".PNG", b"\x89PNG\r\n"), ("pdf", b"%PDF-")])
@pytest.mark.parametrize("what", [JOBS, WAVE], ids=["bars", "line"])
def test_pictures(what: Bars, form: str, magic: bytes) -> None:
    file = picture(what, form, level=0.95)
    assert file.startswith(magic)
    assert file == picture(what, form, level=0.95)


def words(what: Bars, level: float = 0.95, private: bool = True) -> list[str]:
    """The texts of an SVG."""
    tree = ElementTree.parse(io.BytesIO(picture(what, "svg", level=level, private=private)))
    return ["".join(node.itertext()).strip() for node in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_a_picture_says_what_it_shows() -> None:
    found = words(JOBS)
    for text in ("COUNT(*) by job", "COUNT(*)", "job", "Nurse", "Dentist", "Plumber and pipe fitter"):
        assert text in found
    assert "Error bars: 95 % intervals; differentially private" in found
    assert "1 category without a value left out." in found
    found = words(WAVE, level=0.999)
    assert "Band: 99.9 % intervals; differentially private" in found
    assert {"c00", "c10", "c40", "-10", "0", "10"} <= set(found)


def test_a_picture_claims_no_more_than_is_true() -> None:
    assert "Error bars: 95 % intervals; NOT PRIVATE" in words(JOBS, private=False)
    assert "No intervals; differentially private" in words(bars([1, 2]))


def test_a_picture_of_many() -> None:
    found = words(bars(range(100), 1))
    assert "The 40 largest; 60 categories left out." in found
    assert {"c99", "c60"} <= set(found)
    assert "c59" not in found
    assert "Each point stands for 3 categories: their mean, and all their intervals." in words(
        bars(range(1200), 1, ordered=True)
    )


@pytest.mark.parametrize("values", [[], [None], [0, 0], [1e-320], [5.0], [-1e99, 1e99], [math.nan, -3.0]])
@pytest.mark.parametrize("times", [1, 50])
def test_pictures_of_little(values: list[float | None], times: int) -> None:
    assert words(bars(values * times, 0.0, ordered=True))


def test_pictures_of_labels_that_play_tricks() -> None:
    labels = ["$5 to $6", "\x00\ud800", "日本語", "<b>&", "a\nb", "_$\\frac{"]
    found = words(bars([1, 2, 3, 4, 5, 6], 1, labels=labels))
    assert {"$5 to $6", "\ufffd\ufffd", "日本語", "<b>&", "a\ufffdb", "_$\\frac{"} <= set(found)
    assert picture(bars([1], labels=["日本語"]), "png", level=0.95)


@pytest.mark.parametrize("form", ["gif", "", ".", ".svg.gz"])
def test_a_wrong_ending(form: str) -> None:
    with pytest.raises(UsageError) as caught:
        picture(JOBS, form, level=0.95)
    assert str(caught.value) == "The name of a picture must end in .svg, .png or .pdf."


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError) as caught:
        picture(JOBS, "svg", level=0.95)
    assert str(caught.value) == "Pictures need matplotlib: pip install 'dpcli[plot]'."
