"""Dots and whiskers: estimates with their intervals as rows of a figure, whatever table they come from."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import pandas as pd

from privreg.errors import OptionError
from privreg.results.plots import style
from privreg.tables import plain, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

_TICK: Final = 0.65  # Inches that a label of six digits and a sign takes beside the next one
_HOLLOW: Final = "don't rely on hollow dots: see the notes of the summary"
_MOST: Final = 60  # Rows of a figure of a table
_NEAR: Final = 0.06  # Of the axis' length, so near to the label of 1 none has room


class Row(NamedTuple):
    """A row of the figure: a coefficient's flat name, none for the heading of a level, and what is written."""

    name: str | None
    label: str
    step: str = ""


class Drawn(NamedTuple):
    """What is drawn: a table of each result, the rows of all, and each result's name and unit."""

    tables: list[pd.DataFrame]
    rows: list[Row]
    names: list[str]
    units: list[Unit]
    exponentiate: bool
    effects: bool = True  # Whether no effect is marked by a line


class Unit(NamedTuple):
    """What is on the axis: in words for a coefficient as it is, and for one times its step."""

    plain: str
    stepped: str


def draw_frame(frame: pd.DataFrame, words: str, footer: str, title: str | None, ax: Any, *, effects: bool) -> Axes:
    """Draw the estimates of a `summary_frame` as dots with their intervals; see `Estimated.plot`."""
    if len(frame) > _MOST:
        raise OptionError(f"{len(frame):,} rows are more than the {_MOST} that have room; draw them over x=.")
    rows, above = list[Row](), list[str]()
    frame = frame.set_index("level", append=True) if "level" in frame else frame
    for i, label in enumerate(frame.index):
        *head, last = map(str, label) if isinstance(label, tuple) else (str(label),)
        rows += [Row(None, plain(", ".join(head)))] if head != above else []
        rows.append(Row(str(i), plain(last)))
        above = head
    table = _bare(frame).set_axis([str(i) for i in range(len(frame))])
    drawn = Drawn([table], rows, [""], [Unit(words, words)], False, effects)
    return cast("Axes", figure(drawn, footer, title, ax))


def _bare(frame: pd.DataFrame) -> pd.DataFrame:
    """Estimates, their limits, and whether they are reliable."""
    return frame.iloc[:, [0, -3, -2, -1]].set_axis(["estimate", "conf_low", "conf_high", "reliable"], axis=1)


def draw_curves(frame: pd.DataFrame, x: Any, words: str, footer: str, title: str | None, ax: Any) -> Axes:
    """Draw estimates over numbers, one curve for each level of the response."""
    parts = list(frame.groupby("level", sort=False)) if "level" in frame else [("", frame)]
    values = np.asarray(x, dtype=np.float64)
    if values.shape != (len(frame) // len(parts),):
        raise OptionError(f"x must be a column of {len(frame) // len(parts)} numbers, one for each row.")
    order = np.argsort(values, kind="stable")
    footer += "" if frame["reliable"].all() else f"\n{_HOLLOW}"
    with style.drawing(ax, (style.COLUMN, 0.75 * style.COLUMN), footer, title) as on:
        inks = style.inks_for(on)
        for i, (level, part) in enumerate(parts):
            middle, low, high, ok = _bare(part.drop(columns="level", errors="ignore")).iloc[order].to_numpy(float).T
            dash, name = style.DASHES[i % len(style.DASHES)], style.literal(str(level))
            on.plot(values[order], middle, dash, color=inks[i], label=name)
            on.fill_between(values[order], low, high, color=inks[i], alpha=0.2, linewidth=0)
            hollow = {"color": inks[i], "markerfacecolor": style.ground(on), "markersize": 3}
            on.plot(values[order][ok == 0], middle[ok == 0], "o", **hollow)
        if len(parts) > 1:
            on.legend(frameon=False, fontsize=style.SMALL)
        on.set_xlabel(style.literal(plain(getattr(x, "name", None) or "x")))
        on.set_ylabel(words)
    return cast("Axes", on)


def figure(drawn: Drawn, footer: str, title: str | None, ax: Any) -> Axes | NDArray[Any]:
    """Draw what is `drawn` on given axes or on a new figure, with a panel for each unit."""
    if not all(among(table, drawn.rows)["reliable"].all() for table in drawn.tables):
        footer += f"\n{_HOLLOW}"
    units = list(dict.fromkeys(drawn.units))
    if ax is not None:
        there = _on_given(ax, drawn, units, footer)
        style.add_title(there, title, made=False)
        return there
    longest = max(len(r.label) for r in drawn.rows)
    width = style.COLUMN if longest <= 20 and len(drawn.names) <= 3 else 1.45 * style.COLUMN
    width = width if len(units) == 1 else 2 * style.COLUMN
    height = 0.9 + len(drawn.rows) * (0.16 + 0.11 * len(drawn.names)) + (0.3 if len(drawn.names) > 1 else 0)
    with style.panels(1, len(units), (width, max(height, 1.5))) as (_, grid):
        axes: NDArray[Any] = grid[0]
        for i, (panel, unit) in enumerate(zip(axes, units, strict=True)):
            held = [name for name, of in zip(drawn.names, drawn.units, strict=True) if of == unit]
            _draw(panel, drawn, unit, width if len(units) == 1 else width / (1.4 if i else 1.0) / 2, names=not i)
            if len(drawn.names) > 1:
                # above the axes and to the left of its right edge, over the names, where there is room
                columns = max(1, min(len(held), int(width / len(units) * 12) // (max(map(len, held)) + 5)))
                near = {"borderaxespad": 0.2, "handletextpad": 0.2, "columnspacing": 1.2}
                panel.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, **near)
        style.add_footer(axes[-1], footer, width / len(units))
        style.add_title(axes[0], title, made=True)
    only: Axes = axes[0]
    return only if len(units) == 1 else axes


def among(table: pd.DataFrame, rows: list[Row]) -> pd.DataFrame:
    """The part of a table that is drawn."""
    return table[table.index.isin([r.name for r in rows if r.name is not None])]


def _draw(ax: Any, drawn: Drawn, unit: Unit, width: float, *, names: bool = True) -> None:
    """Draw the results of one unit on axes that have, with the names of the rows, so many inches."""
    rows, inks = drawn.rows, style.inks_for(ax)
    place = {r.name: i for i, r in enumerate(rows) if r.name is not None}
    here = [j for j, of in enumerate(drawn.units) if of == unit]
    gap, over = 0.6 / max(len(here) - 1, 1), list[tuple[Any, Any, dict[str, Any]]]()
    for k, j in enumerate(here):
        part = among(drawn.tables[j], rows)
        y = np.array([place[t] for t in part.index], dtype=float) + (k - (len(here) - 1) / 2) * gap
        x, hollow = part["estimate"].to_numpy(), ~part["reliable"].to_numpy(dtype=bool)
        look = {"linestyle": "none", "marker": style.MARKERS[j % len(style.MARKERS)], "markersize": 4, "color": inks[j]}
        ax.plot(x, y, **look, label=style.literal(drawn.names[j]), zorder=3)
        if hollow.any():
            over.append((x[hollow], y[hollow], look))
        if "conf_low" in part:
            ax.hlines(y, part["conf_low"], part["conf_high"], color=inks[j], linewidth=1.2, zorder=2)
            ends = ax.scatter(np.ravel(part[["conf_low", "conf_high"]]), np.repeat(y, 2), marker="|", color=inks[j])
            ends.set(sizes=[36], linewidth=0.8, zorder=2)  # seen where a dot hides the line
    for x, y, look in over:
        ax.plot(x, y, **look, markerfacecolor=style.ground(ax), zorder=4)
    if drawn.exponentiate:
        ax.set_xscale("log")
    if drawn.effects:
        ax.axvline(1.0 if drawn.exponentiate else 0.0, color=inks.grey, linewidth=0.6, linestyle=":", zorder=0)
    if drawn.exponentiate:
        _ratio_ticks(ax)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_yticks(range(len(rows)), [""] * len(rows))
    width -= _name_rows(ax, rows, 0.45 * width) if names else 0.0
    if not drawn.exponentiate:
        ax.locator_params(axis="x", nbins=min(max(int(width / _TICK), 2), 9))
    words = unit.stepped if any(r.step for r in rows) else unit.plain
    ax.set_xlabel(textwrap.fill(words, max(int(72.0 * width / (0.56 * ax.xaxis.label.get_fontsize())), 10)))


def _ratio_ticks(ax: Any) -> None:
    """Few labels as plain numbers: matplotlib's are powers of ten, and most ratios are within one."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    low, high = ax.get_xlim()
    decades = math.log10(high / low)
    # a decade always holds three of 1, 2, 5, 10, …; three decades three powers of ten
    few = (
        MaxNLocator(5) if decades < 1.0 else LogLocator(subs=(1.0, 2.0, 5.0) if decades < 3.0 else (1.0,), numticks=10)
    )
    inside = [float(v) for v in few.tick_values(low, high) if low <= v <= high]
    beside = [v for v in inside if abs(math.log10(v)) > _NEAR * decades]
    ax.xaxis.set_major_locator(FixedLocator([*beside, 1.0] if low <= 1.0 <= high else inside))  # no effect has a label
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


# --- names and room --------------------------------------------------------------------------------------


def _name_rows(ax: Any, rows: list[Row], room: float) -> float:
    """Write the rows' names in `room` inches, on several lines where there is height, shortened where there isn't.

    Gives about how wide they are.
    """
    height = _row_height(ax, len(rows))
    size = min(float(ax.yaxis.get_major_ticks(1)[0].label1.get_fontsize()), max(height / 1.15, 4.0))
    lines, width = max(int(height / (1.2 * size)), 1), max(int(72.0 * room / (0.56 * size)), 6)
    labels = [_folded(r, width, lines) for r in rows]
    ax.set_yticks(range(len(rows)), [style.literal(text) for text in labels])
    for row, text in zip(rows, ax.get_yticklabels(), strict=True):
        text.set_fontsize(size)
        if row.name is None:
            text.set_fontweight("bold")
    return max(len(line) for text in labels for line in text.split("\n")) * 0.56 * size / 72.0


def _row_height(ax: Any, rows: int) -> float:
    """Points from one row to the next."""
    return 72.0 * float(ax.get_position().height * ax.figure.bbox.height / ax.figure.dpi) / rows


def _folded(row: Row, width: int, lines: int) -> str:
    """A row's name and step in at most so many lines of at most `width` characters."""
    whole = f"{row.label}, {row.step}" if row.step else row.label
    if len(whole) <= width:
        return whole
    if row.step and (lines > 1 or len(row.step) + 5 <= width):
        if lines == 1:
            return f"{shorten([row.label], width - len(row.step) - 2)[0]}, {row.step}"
        return f"{style.folded(row.label, width, lines - 1)},\n{row.step}"
    return style.folded(row.label, width, lines)


def _on_given(ax: Any, drawn: Drawn, units: list[Unit], footer: str) -> Axes | NDArray[Any]:
    """Draw on axes that are not ours."""
    given = style.checked(ax)
    if len(given) != len(units):
        named = ", ".join(unit.plain for unit in units)
        raise OptionError(
            f"ax has {len(given)} axes for results in {len(units)} units ({named}); give one Axes for each unit, or "
            "leave ax out."
        )
    for panel, unit in zip(given, units, strict=True):
        left, right = _between(panel)
        _draw(panel, drawn, unit, right - left)
        if len(drawn.tables) > 1:
            panel.legend(frameon=False)
    left, right = _between(given[-1])
    lines = [textwrap.fill(line, max(int(17 * (right - left)), 12)) for line in footer.split("\n")]
    style.add_corner(given[-1], "\n".join(lines))
    for panel in given:
        _inside(panel)
        size = max(_row_height(panel, len(drawn.rows)) / 1.15, 3.0)  # of axes that have been made smaller
        for text in panel.get_yticklabels():
            text.set_fontsize(min(text.get_fontsize(), size))
    out: NDArray[Any] = given
    return ax if not isinstance(ax, Sequence | np.ndarray) else out


def _between(ax: Any) -> tuple[float, float]:
    """Where the room of axes begins and ends, inches from the left: at its neighbours' axes, or the figure's ends."""
    figure, place = ax.figure, ax.get_position()
    left, right = 0.0, 1.0
    for other in figure.axes:
        box = other.get_position()
        if other is not ax and box.y0 < place.y1 and place.y0 < box.y1:
            left = max(left, box.x1) if box.x1 <= place.x0 else left
            right = min(right, (place.x1 + box.x0) / 2) if box.x0 >= place.x1 else right
    width = figure.bbox.width / figure.dpi
    return left * width, right * width


def _inside(ax: Any) -> None:
    """Make axes smaller until their labels are inside the figure, unless a layout engine sees to that."""
    figure = ax.figure
    if getattr(figure, "figure", figure).get_layout_engine() is not None:
        return
    for _ in range(2):  # a smaller axis may have other ticks
        place, room, drawn = ax.get_position(), figure.bbox, ax.get_tightbbox()
        left, _right = (v * figure.dpi for v in _between(ax))
        over = [
            max((room.x0 + left - drawn.x0) / room.width, 0.0),
            max((room.y0 - drawn.y0) / room.height, 0.0),
            max((drawn.x1 - room.x1) / room.width, 0.0),
            max((drawn.y1 - room.y1) / room.height, 0.0),
        ]
        if max(over) == 0.0:
            return
        over = [v + 0.005 if v else 0.0 for v in over]
        width = max(place.width - over[0] - over[2], 0.2 * place.width)
        height = max(place.height - over[1] - over[3], 0.2 * place.height)
        ax.set_position([place.x1 - over[2] - width, place.y0 + over[1], width, height])
