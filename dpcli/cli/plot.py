"""Charts of answers with their error bars, as text for a terminal and as pictures."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.cells import cell_len, set_cell_size

from dpcli import api
from dpcli.cli.render import readable
from dpcli.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 40
LIMIT = 1e100  # no answer is larger; infinities are
MOST_POINTS = 500  # of a picture's line; it has no room to tell more of them apart
BOLD, DIM, BAR, PLAIN = "1", "2", "36", ""
LIGHT, BLUE, DARK, GREY = "#8ab0d6", "#2f6299", "#222222", "#666666"
STYLE: dict[Any, object] = {
    "svg.hashsalt": "dpcli",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a label may hold dollars
    "axes.edgecolor": GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
}
FONTS = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Arial Unicode MS", "Microsoft YaHei")

Piece = tuple[str, str]  # some text and how to paint it


@dataclass(frozen=True)
class Bars:
    """The answers to draw: one for each category of an attribute."""

    title: str  # such as "COUNT(*) by age"
    labels: Sequence[str]
    values: Sequence[float | None]
    lows: Sequence[float | None]  # None: no interval
    highs: Sequence[float | None]
    ordered: bool  # whether the categories have an order


class Point(NamedTuple):
    """A value with its interval."""

    label: str
    value: float
    span: tuple[float, float] | None


class Glyphs(NamedTuple):
    """What to draw with; each character is one column wide."""

    right: str = " ▏▎▍▌▋▊▉█"  # a cell that is filled from its left by none to eight eighths
    left: str = " ▕▕▐▐▐▐██"  # and from its right, as near as there are characters
    unsure: str = "▒"
    rule: str = "─"
    low: str = "├"
    high: str = "┤"
    cross: str = "┼"
    wall: str = "│"
    stem: str = "┊"
    dot: str = "●"
    zero: str = "┈"
    corner: str = "└"
    notch: str = "┬"
    error: str = "±"
    cut: str = "…"


ASCII = Glyphs("    #####", "    #####", "#", "-", "|", "|", "|", "|", "|", "#", "-", "|", "|", "+-", "...")


def chart(bars: Bars, *, width: int, height: int = 18, color: bool, ascii: bool = False) -> str:
    """Draw bars for up to 40 categories, a line for more if they are ordered, else the 40 largest.

    No line is longer than ``width``, which is taken as 30 if it is less. A line chart has ``height`` lines
    above its axis. With ``ascii`` all is ASCII; other characters of a label become question marks.
    """
    width, glyphs = max(width, 30), ASCII if ascii else Glyphs()
    title, *labels = map(readable, (bars.title, *bars.labels))
    if ascii:
        title, *labels = (text.encode("ascii", "replace").decode() for text in (title, *labels))
    points = _points(bars, labels)
    known = [point for point in points if point]
    lines: list[list[Piece]] = []
    size = 1
    if bars.ordered and len(known) > MOST_BARS:
        lines, size = _line_chart(labels, points, width, max(height, 3), glyphs)
    elif known:
        lines = _bar_chart(_largest(known), width, glyphs)
    lines.insert(0, [(_cut(title, width, glyphs.cut).rstrip(), BOLD)])
    for note in _notes(bars, len(known), "column", size):
        lines += [[(line, DIM)] for line in textwrap.wrap(note, width)]
    return "".join(_painted(line, color) + "\n" for line in lines)


def _points(bars: Bars, labels: Sequence[str]) -> list[Point | None]:
    """Return what can be drawn, in place; what is unknown, infinite or upside down cannot."""
    points: list[Point | None] = []
    for label, value, low, high in zip(labels, bars.values, bars.lows, bars.highs, strict=True):
        span = None
        if low is not None and high is not None and -LIMIT < low <= high < LIMIT:
            span = (low + 0.0, high + 0.0)  # -0.0 becomes 0.0
        known = value is not None and abs(value) < LIMIT
        points.append(Point(label, (value or 0) + 0.0, span) if known else None)
    return points


def _largest(known: list[Point]) -> list[Point]:
    """Return all points if bars have room for them, else the largest, in falling order."""
    return known if len(known) <= MOST_BARS else sorted(known, key=lambda point: -point.value)[:MOST_BARS]


def _notes(bars: Bars, known: int, mark: str, size: int) -> list[str]:
    """Say what the chart does not show, and if a mark of it stands for several categories."""
    notes, unknown = [], len(bars.values) - known
    if known > MOST_BARS and not bars.ordered:
        notes.append(f"The {MOST_BARS} largest; {_categories(known - MOST_BARS)} left out.")
    if unknown and known:
        notes.append(f"{_categories(unknown)} without a value left out.")
    if size > 1:
        whole = ", and all their intervals" if any(low is not None for low in bars.lows) else ""
        notes.append(f"Each {mark} stands for {_categories(size)}: their mean{whole}.")
    return notes if known else ["There are no values to show."]


def _categories(number: int) -> str:
    return f"{readable(number)} categor{'y' if number == 1 else 'ies'}"


def _extent(points: Sequence[Point]) -> tuple[float, float]:
    """Return the least and the greatest number to draw."""
    ends = [end for point in points for end in (point.value, *(point.span or ()))]
    return min(ends), max(ends)


def _cut(text: str, columns: int, mark: str) -> str:
    """Shorten text to what fits; some characters take two columns, others none."""
    if cell_len(text) <= columns:
        return text
    return set_cell_size(text, columns - len(mark)).rstrip() + mark


def _painted(pieces: Sequence[Piece], color: bool) -> str:
    runs = [("".join(text for text, _ in run), code) for code, run in groupby(pieces, lambda piece: piece[1])]
    return "".join(f"\x1b[{code}m{text}\x1b[0m" if color and code else text for text, code in runs).rstrip()


class Scale(NamedTuple):
    """Columns to the left and to the right of the zero line, and how much each of them stands for."""

    left: int
    right: int
    unit: float

    def column(self, number: float) -> int:
        """Return the column in which a number lies; the zero line has the column ``left``."""
        steps = math.ceil(abs(number) / self.unit - 1e-9)  # what ends a column belongs to it, rounded or not
        return self.left + (min(steps, self.right) if number > 0 else -min(steps, self.left))


def scale(points: Sequence[Point], columns: int) -> Scale:
    """Place the zero line so that all bars and intervals fit into ``columns``."""
    low, high = _extent([*points, Point("", 0.0, None)])
    free = columns - 1
    left = round(free * (-low / (high - low))) if high > low else 0
    left = min(max(left, low < 0), free - (high > 0))
    right = free - left
    return Scale(left, right, max(-low / left if left else 0, high / right if right else 0, 1e-300))


def _bar_chart(points: Sequence[Point], width: int, glyphs: Glyphs) -> list[list[Piece]]:
    texts = [(readable(point.value), f"{point.value:.3g}") for point in points]
    values = [text if len(text) <= width // 2 else short for text, short in texts]
    room = max(map(len, values))
    errors = [_error(point, glyphs.error) for point in points]
    if room + 1 + max(map(len, errors)) > width // 2:
        errors = [""] * len(errors)
    numbers = [f" {value:>{room}} {error}".rstrip() for value, error in zip(values, errors, strict=True)]
    labels = [_cut(point.label, width // 3, glyphs.cut) for point in points]
    margin = max(map(cell_len, labels)) + 1
    ruler = scale(points, width - margin - max(map(len, numbers)))
    return [
        [(label + " " * (margin - cell_len(label)), PLAIN), *_bar(point, ruler, glyphs), (number, PLAIN)]
        for label, point, number in zip(labels, points, numbers, strict=True)
    ]


def _bar(point: Point, ruler: Scale, glyphs: Glyphs) -> list[Piece]:
    """Draw a bar from the zero line to the value, and the interval over it."""
    pieces = [(" ", PLAIN)] * (ruler.left + 1 + ruler.right)
    pieces[ruler.left] = (glyphs.wall, DIM)
    side, fills = (1, glyphs.right) if point.value >= 0 else (-1, glyphs.left)
    length = abs(point.value) / ruler.unit
    for cell in range(abs(ruler.column(point.value) - ruler.left)):
        fill = fills[round(8 * min(length - cell, 1.0))]
        pieces[ruler.left + side * (cell + 1)] = (fill, PLAIN if fill == " " else BAR)
    if point.span is None or point.span[1] - point.span[0] < ruler.unit:  # none, or too short to be drawn
        return pieces
    low, high = map(ruler.column, point.span)
    over = {" ": (glyphs.rule, PLAIN), fills[8]: (glyphs.unsure, BAR), glyphs.wall: (glyphs.cross, PLAIN)}
    for column in range(low + 1, high):
        pieces[column] = over.get(pieces[column][0], pieces[column])
    pieces[low], pieces[high] = (glyphs.low, PLAIN), (glyphs.high, PLAIN)
    return pieces


def _error(point: Point, sign: str) -> str:
    """Write ``± 12``, or from where to where when the value is not in the middle."""
    if point.span is None:
        return ""
    low, high = point.span
    below, above = readable(point.value - low), readable(high - point.value)
    return f"{sign} {above}" if below == above else f"({readable(low)} to {readable(high)})"


def _line_chart(
    labels: Sequence[str], points: Sequence[Point | None], width: int, height: int, glyphs: Glyphs
) -> tuple[list[list[Piece]], int]:
    """Return the lines, and how many categories each column stands for."""
    low, high = _axis([point for point in points if point])
    ticks = _ticks(low, high, max(1, min(5, (height - 1) // 2)))
    margin = max(len(text) for _, text in ticks) + 2
    size, columns = _grouped(points, width - margin)
    stride = (width - margin) // len(columns)
    last = (len(columns) - 1) * stride

    def row(number: float) -> int:
        return round((high - number) / (high - low) * (height - 1))

    grid = [[(" ", PLAIN)] * (last + 1) for _ in range(height)]
    if low < 0 < high:
        grid[row(0.0)] = [(glyphs.zero, DIM)] * (last + 1)
    for place, point in enumerate(columns):
        if point and point.span:
            for line in range(row(point.span[1]), row(point.span[0]) + 1):
                grid[line][place * stride] = (glyphs.stem, DIM)
        if point:
            grid[row(point.value)][place * stride] = (glyphs.dot, BAR)
    names = {row(tick): text for tick, text in ticks}
    lines: list[list[Piece]] = []
    for line, pieces in enumerate(grid):
        wall = glyphs.high if line in names else glyphs.wall
        lines.append([(f"{names.get(line, ''):>{margin - 2}} ", PLAIN), (wall, DIM), *pieces])
    middle = len(points) // 2 // size * stride
    notches = [glyphs.notch if place in (0, middle, last) else glyphs.rule for place in range(last + 1)]
    lines.append([(" " * (margin - 1), PLAIN), (glyphs.corner + "".join(notches), DIM)])
    lines.append([(" " * margin + _below(labels, middle, last + 1, glyphs.cut), PLAIN)])
    return lines, size


def _grouped(points: Sequence[Point | None], most: int) -> tuple[int, list[Point | None]]:
    """Join every ``size`` neighbours, to at most ``most``: their mean, their lowest low and highest high."""
    size = math.ceil(len(points) / most)
    joined: list[Point | None] = []
    for start in range(0, len(points), size):
        known = [point for point in points[start : start + size] if point]
        ends = [end for point in known for end in point.span or ()]
        mean = math.fsum(point.value for point in known) / max(len(known), 1)
        joined.append(Point("", mean, (min(ends), max(ends)) if ends else None) if known else None)
    return size, joined


def _axis(points: Sequence[Point]) -> tuple[float, float]:
    """Return from where to where the axis goes: with zero unless all numbers are far from it."""
    low, high = _extent(points)
    if low == high or 0 < low <= high / 2 or low / 2 <= high < 0:
        low, high = min(low, 0.0), max(high, 0.0)
    return (low, high) if high - low > 1e-290 else (0.0, 1.0)


def _ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Return round numbers between low and high, and how to write them."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (power * factor) <= most)
    ticks = [place * step for place in range(math.ceil(low / step), math.floor(high / step) + 1)] or [low]
    digits = max(0, -math.floor(math.log10(step)))
    texts = [f"{tick:,.{digits}f}" for tick in ticks]
    if max(map(len, texts)) > 10:
        texts = [f"{tick:.3g}" for tick in ticks]
    return list(zip(ticks, texts, strict=True))


def _below(labels: Sequence[str], middle: int, width: int, mark: str) -> str:
    """Write the first, the middle and the last label below their columns."""
    first, centre, last = (_cut(labels[k], (width - 2) // 3, mark) for k in (0, len(labels) // 2, -1))
    text = first + " " * max(1, middle - cell_len(centre) // 2 - cell_len(first)) + centre
    return text + " " * max(1, width - cell_len(text) - cell_len(last)) + last


def picture(bars: Bars, form: str, *, level: float, private: bool = True) -> bytes:
    """Return the chart as an SVG, PNG or PDF file; the same chart gives the same bytes.

    ``form`` is how the file's name ends, ``level`` the probability that the intervals have. A release that
    is not ``private`` must not be called so.
    """
    form = form.lower().removeprefix(".")
    notes = api.picture_notes(form)
    try:
        import matplotlib
    except ImportError:
        raise UsageError("Pictures need matplotlib: pip install 'dpcli[plot]'.") from None
    from matplotlib.font_manager import fontManager

    fonts = set(fontManager.get_font_names())
    file = io.BytesIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a box is drawn in its place
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**STYLE, "font.family": [font for font in FONTS if font in fonts]})
        _figure(bars, level, private).savefig(file, format=form, dpi=160, metadata=notes)
    return file.getvalue()


def _figure(bars: Bars, level: float, private: bool) -> Figure:
    from matplotlib.figure import Figure

    title, *labels = (_cut(readable(text), 50, "…") for text in (bars.title, *bars.labels))
    points = _points(bars, labels)
    known = [point for point in points if point]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    across, mark, size = False, "Error bars", 1
    if bars.ordered and len(known) > MOST_BARS:
        mark, size = "Band", _draw_line(axes, labels, points)
    elif known:
        shown = _largest(known)
        across = sum(cell_len(point.label) + 2 for point in shown) > 84
        figure.set_size_inches(8, 1.8 + 0.24 * len(shown) if across else 4.5)
        _draw_bars(axes, shown, across)
    what, _, by = title.partition(" by ")
    axes.set(xlabel=what if across else by, ylabel=by if across else what)
    figure.suptitle(title, x=0.01, horizontalalignment="left", fontweight="bold", color=DARK)
    told = f"{mark}: {100 * level:g} % intervals" if any(point.span for point in known) else "No intervals"
    told += "; differentially private" if private else "; NOT PRIVATE"
    caption = "\n".join([told, *_notes(bars, len(known), "point", size)])
    figure.supxlabel(caption, x=0.01, horizontalalignment="left", fontsize=8, color=GREY)
    return figure


def _draw_bars(axes: Axes, points: Sequence[Point], across: bool) -> None:
    places = range(len(points))
    values, labels = [point.value for point in points], [point.label for point in points]
    spans = {place: point.span for place, point in enumerate(points) if point.span}
    middles = [(low + high) / 2 for low, high in spans.values()]
    halves = [(high - low) / 2 for low, high in spans.values()]
    if across:
        axes.barh(places, values, height=0.72, color=LIGHT)
        axes.errorbar(middles, list(spans), xerr=halves, fmt="none", ecolor=DARK, elinewidth=1, capsize=2.5)
        axes.set(yticks=places, yticklabels=labels, ylim=(len(points) - 0.4, -0.6))
    else:
        axes.bar(places, values, width=0.72, color=LIGHT)
        axes.errorbar(list(spans), middles, yerr=halves, fmt="none", ecolor=DARK, elinewidth=1, capsize=2.5)
        axes.set(xticks=places, xticklabels=labels, xlim=(-0.6, len(points) - 0.4))
    _measure(axes, *_extent([*points, Point("", 0.0, None)]), across)


def _draw_line(axes: Axes, labels: Sequence[str], points: Sequence[Point | None]) -> int:
    """Draw the line and its band; return how many categories each point stands for."""
    size, joined = _grouped(points, MOST_POINTS)
    places, unknown = range(len(joined)), (math.nan, math.nan)
    spans = [point.span or unknown if point else unknown for point in joined]
    lows, highs = map(list, zip(*spans, strict=True))
    axes.fill_between(places, lows, highs, color=LIGHT, alpha=0.5, linewidth=0)
    values = [point.value if point else math.nan for point in joined]
    axes.plot(places, values, "o-", color=BLUE, linewidth=1.2, markersize=3 if len(joined) <= 150 else 1.2)
    most = max(2, min(9, 90 // (max(map(cell_len, labels)) + 3)))
    shown = [int(place) for place, _ in _ticks(0, places[-1], most)]
    axes.set(xticks=shown, xticklabels=[labels[place * size] for place in shown], xmargin=0.015)
    _measure(axes, *_axis([point for point in joined if point]), across=False)
    return size


def _measure(axes: Axes, low: float, high: float, across: bool) -> None:
    """Give the axis of the values its range, round ticks and a zero line."""
    high = high if high - low > 1e-290 else low + 1.0
    margin = (high - low) / 20
    ticks, names = zip(*_ticks(low, high, 6), strict=True)
    limits = (low - margin if low else 0.0, high + margin if high else 0.0)
    axis: Literal["x", "y"] = "x" if across else "y"
    axes.set(**{f"{axis}lim": limits, f"{axis}ticks": ticks, f"{axis}ticklabels": names})
    axes.grid(axis=axis)
    if low < 0:
        (axes.axvline if across else axes.axhline)(0, color=DARK, linewidth=0.8)
