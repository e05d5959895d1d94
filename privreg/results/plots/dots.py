"""Dots and whiskers: estimates with their intervals as rows of a figure, whatever table they come from."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.errors import OptionError
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.tables import shorten

_TICK: Final = 0.65  # Inches that a label of six digits and a sign takes beside the next one
_HOLLOW: Final = "don't rely on hollow dots: see the notes of the summary"


class Row(NamedTuple):
    """A row of the figure: a coefficient's flat name, none for the heading of a level, and what is written."""

    name: str | None
    label: str
    step: str = ""


class Drawn(NamedTuple):
    """Content of a figure: a table of each result, the rows of all, and each result's name and unit."""

    tables: list[pd.DataFrame]
    rows: list[Row]
    names: list[str]
    units: list[Unit]
    exponentiate: bool
    effects: bool = True  # True if no effect is marked by a line


class Unit(NamedTuple):
    """Words for the axis: of a coefficient as it is, and of one times its step."""

    plain: str
    stepped: str


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
        style.log_axis(ax, "{:g}".format, *ax.get_xlim(), marked=1.0)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_yticks(range(len(rows)), [""] * len(rows))
    width -= _name_rows(ax, rows, 0.45 * width) if names else 0.0
    if not drawn.exponentiate:
        ax.locator_params(axis="x", nbins=min(max(int(width / _TICK), 2), 9))
    words = unit.stepped if any(r.step for r in rows) else unit.plain
    ax.set_xlabel(textwrap.fill(words, max(int(72.0 * width / (0.56 * ax.xaxis.label.get_fontsize())), 10)))


# --- names and room --------------------------------------------------------------------------------------


def _name_rows(ax: Any, rows: list[Row], room: float) -> float:
    """Write the rows' names in `room` inches, on several lines where there is height, shortened where there isn't.

    Gives about how wide they are.
    """
    height = 72.0 * float(ax.get_position().height * ax.figure.bbox.height / ax.figure.dpi) / len(rows)  # points
    size = min(float(ax.yaxis.get_major_ticks(1)[0].label1.get_fontsize()), max(height / 1.15, 4.0))
    lines, width = max(int(height / (1.2 * size)), 1), max(int(72.0 * room / (0.56 * size)), 6)
    labels = [_folded(r, width, lines) for r in rows]
    ax.set_yticks(range(len(rows)), [style.literal(text) for text in labels])
    for row, text in zip(rows, ax.get_yticklabels(), strict=True):
        text.set_fontsize(size)
        if row.name is None:
            text.set_fontweight("bold")
    return max(len(line) for text in labels for line in text.split("\n")) * 0.56 * size / 72.0


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
        _draw(panel, drawn, unit, panel.bbox.width / panel.figure.dpi / 0.7)
        if len(drawn.tables) > 1:
            panel.legend(frameon=False)
    width = max(int(16 * given[-1].bbox.x1 / given[-1].figure.dpi), 12)
    style.add_corner(given[-1], "\n".join(textwrap.fill(line, width) for line in footer.split("\n")))
    out: NDArray[Any] = given
    return ax if not isinstance(ax, Sequence | np.ndarray) else out
