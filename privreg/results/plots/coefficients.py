"""Coefficients of one or several results with their intervals, on one axis."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.errors import InferenceError, OptionError, flag
from privreg.families.family import check_ratios
from privreg.results.plots.steps import kinds_of_steps, public_steps
from privreg.results.plots.style import (
    COLUMN,
    CONSTANTS,
    MARKERS,
    add_corner,
    add_footer,
    add_title,
    baselines,
    folded,
    ground,
    guarantee,
    in_all,
    inks_for,
    literal,
    panels,
    pyplot,
)
from privreg.results.postestimation.terms import coefficients_of
from privreg.tables import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from privreg.results.data import ResultData
    from privreg.results.estimates import EstimatedResults

_TICK: Final = 0.65
"""Inches that a label of six digits and a sign takes beside the next one."""


def coefficients(
    results: Sequence[EstimatedResults],
    terms: Any = None,
    *,
    labels: Sequence[str] | None = None,
    alpha: float = 0.05,
    intercept: bool = False,
    scaled: bool = False,
    exponentiate: bool = False,
    simultaneous: bool = False,
    title: str | None = None,
    ax: Any = None,
) -> Axes | NDArray[Any]:
    """Draw coefficients as dots with their intervals as whiskers, several results side by side.

    Parameters
    ----------
    results : sequence of EstimatedResults
        One or more; a coefficient that a result lacks is left out there.
    terms : str or sequence of str, optional
        Coefficients wanted, or terms, such as a factor, that the first result has; all by default.
    labels : sequence of str, optional
        Names of the results in the legend; "(1)", "(2)", … by default.
    alpha : float
        One minus the level of the intervals.
    intercept : bool
        Whether to draw the intercept (a coefficient called Intercept or const), which usually dwarfs all others.
    scaled : bool
        False draws coefficients as they are. True draws what a step of the covariate does, so that rows can be
        compared. The step is public and stands after the row's name, and below the figure what it is: half of the
        declared range, two declared sds, or two sds that the fit has learned from reports; the product of both for an
        interaction. Levels and other columns of 0 and 1 go from 0 to 1 and have no step after their name.
    exponentiate : bool
        Draw exp of them, on a logarithmic axis: odds ratios of Logistic, odds ratios against the baseline of
        Multinomial, rate ratios of Poisson, ratios where the response is ``np.log(y)``.
    simultaneous : bool
        Whether the intervals of all coefficients of a result (the intercept too) are to hold together; wider.
    title : str, optional
        Above the figure, or on one Axes of yours.
    ax : Axes or sequence of Axes, optional
        Where to draw; a sequence where results have several units, one Axes each. Long names are wrapped or shortened,
        and axes without a layout engine are made smaller where names would leave the figure. Without it a figure is
        made, with a panel for each unit, such as dollars and log-odds.

    Returns
    -------
    Axes or ndarray of Axes
        An array if the results have several units.

    Raises
    ------
    OptionError
        If there is nothing to draw, the labels don't match the results, coefficients are to be exponentiated that are
        no logs of ratios, or `ax` has another number of axes than there are units.
    MissingExtraError
        If matplotlib is not installed.

    Notes
    -----
    Dots of rows that should not be relied on are hollow. Two sds, not one, so that a numeric covariate compares with
    one of 0 and 1. Where results declare different scales for one covariate, its step is that of the first.

    References
    ----------
    Gelman (2008), Scaling regression inputs by dividing by two standard deviations.
    """
    pyplot()
    if not isinstance(results, Sequence) or not results or not all(hasattr(r, "tidy") for r in results):
        raise OptionError("coefficients() draws a list of one or more results, such as [res] or [res1, res2].")
    names = [f"({i})" for i in range(1, len(results) + 1)] if labels is None else shorten(map(str, labels), 40)
    if len(names) != len(results):
        raise OptionError(f"{len(names)} labels for {len(results)} results; give one each.")
    flag("scaled", scaled)
    if flag("exponentiate", exponentiate):
        for r in results:
            check_ratios(r._fit.family, r._fit.design.endog_name)
    tables = [r._fit.flat(r.tidy(alpha=alpha, simultaneous=simultaneous)).set_index("term") for r in results]
    fits = [r._fit for r in results]
    steps = steps_of(fits) if scaled else {}
    wanted = None if terms is None else coefficients_of(fits[0], terms)
    rows = _rows(fits, intercept, steps, wanted)
    tables = [_stepped(table, steps, exponentiate) for table in tables]
    drawn = _Drawn(tables, rows, names, [unit_of(fit, exponentiate=exponentiate) for fit in fits], exponentiate)
    kind = "simultaneous intervals" if simultaneous else "intervals"
    intervals = [f"{100 * (1 - alpha):.6g}% {kind}"] if all("conf_low" in t for t in tables) else []
    own = guarantee([r.privacy for r in results]) + in_all(results)
    about = about_steps(fits, {r.name for r in rows if r.name and r.step}) if scaled else _too_short(tables, rows)
    footer = "; ".join([*baselines(results), *about, *intervals, own])
    if not all(_among(table, rows)["reliable"].all() for table in tables):
        footer += "\ndon't rely on hollow dots: see the notes of the summary"
    units = list(dict.fromkeys(drawn.units))
    if ax is not None:
        there = _on_given(ax, drawn, units, footer)
        add_title(there, title, own=False)
        return there
    longest = max(len(r.label) for r in rows)
    width = COLUMN if longest <= 20 and len(results) <= 3 else 1.45 * COLUMN
    width = width if len(units) == 1 else 2 * COLUMN
    height = 0.9 + len(rows) * (0.16 + 0.11 * len(results)) + (0.3 if len(results) > 1 else 0)
    with panels(1, len(units), (width, max(height, 1.5))) as (_, grid):
        axes: NDArray[Any] = grid[0]
        for i, (panel, unit) in enumerate(zip(axes, units, strict=True)):
            held = [name for name, own in zip(names, drawn.units, strict=True) if own == unit]
            _draw(panel, drawn, unit, width if len(units) == 1 else width / (1.4 if i else 1.0) / 2, names=not i)
            if len(results) > 1:
                # above the axes and to the left of its right edge, over the names, where there is room
                columns = max(1, min(len(held), int(width / len(units) * 12) // (max(map(len, held)) + 5)))
                panel.legend(
                    loc="lower right",
                    bbox_to_anchor=(1, 1),
                    ncols=columns,
                    borderaxespad=0.2,
                    handletextpad=0.2,
                    columnspacing=1.2,
                )
        add_footer(axes[-1], footer, width / len(units))
        add_title(axes[0], title, own=True)
    only: Axes = axes[0]
    return only if len(units) == 1 else axes


class _Row(NamedTuple):
    """A row of the figure: a coefficient's flat name, none for the heading of a level, and what is written."""

    name: str | None
    label: str
    step: str = ""


class _Drawn(NamedTuple):
    """What is drawn: a table of each result, the rows of all, and each result's name and unit."""

    tables: list[pd.DataFrame]
    rows: list[_Row]
    names: list[str]
    units: list[_Unit]
    exponentiate: bool


class _Unit(NamedTuple):
    """What is on the axis: in words for a coefficient as it is, and for one times its step."""

    plain: str
    stepped: str


def unit_of(fit: ResultData, *, exponentiate: bool) -> _Unit:
    """What is on the axis of a result's coefficients."""
    response, link = literal(shorten([fit.design.endog_name], 30)[0]), fit.family.link
    if exponentiate:
        what = {"logit": "odds ratio", "log": "rate ratio"}.get(link, f"ratio of {_without_log(response)}")
        return _Unit(what, f"{what} per step")
    what = {"logit": "log-odds", "log": "log rate", "margin": "margin"}.get(link, response)
    return _Unit(f"coefficient ({what})", f"change in {what} per step")


def _without_log(response: str) -> str:
    found = re.fullmatch(r"np\.log\((.*)\)", response)
    return found[1] if found is not None else f"exp({response})"


def steps_of(fits: list[ResultData]) -> dict[str, float]:
    """Step of each coefficient's covariate, by its flat name: of the first result that knows it, else 1."""
    out: dict[str, float] = {}
    for fit in fits:
        own = public_steps(fit.design, fit.spreads)
        for name, step in zip(fit.names, np.resize(own, len(fit.names)).tolist(), strict=True):
            if not math.isfinite(out.get(name, math.nan)):
                out[name] = step
    return {name: step if math.isfinite(step) else 1.0 for name, step in out.items()}


def dated(fits: list[ResultData]) -> set[str]:
    """Coefficients per day, by their flat names."""
    return {name for fit in fits for name, bare in _each(fit, fit.design.bare) if bare in fit.design.schema.dates}


def about_steps(fits: list[ResultData], stepped: Container[str]) -> list[str]:
    """What the steps of these coefficients are, for a footer; nothing where there are none."""
    kinds = dict.fromkeys(
        kind
        for fit in fits
        for kind in kinds_of_steps(fit.design, {term for n, term in _each(fit, fit.design.names) if n in stepped})
    )
    return [f"step: {' or '.join(kinds)}"] if kinds else []


def _each(fit: ResultData, of_terms: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Flat names of coefficients, each with what its term has."""
    return zip(fit.names, cycle(of_terms), strict=False)


def _stepped(table: pd.DataFrame, steps: dict[str, float], exponentiate: bool) -> pd.DataFrame:
    """The same table of what steps do."""
    columns = [c for c in ("estimate", "conf_low", "conf_high") if c in table]
    step = np.array([steps.get(name, 1.0) for name in table.index])
    out = table.assign(**{c: table[c] * step for c in columns})
    # exp of a wild limit stays finite, as no axis can show infinity
    return out.assign(**{c: np.exp(out[c].clip(-_WILDEST, _WILDEST)) for c in columns}) if exponentiate else out


_SEEN: Final = 1 / 200
"""Length of an interval, relative to the farthest limit, below which it is hidden by its dot."""

_NEAR: Final = 0.06
"""Of the axis' length, so near to the label of 1 none has room."""

_WILDEST: Final = 200.0


def _rows(
    fits: list[ResultData], intercept: bool, steps: dict[str, float], wanted: Container[str] | None = None
) -> list[_Row]:
    """Coefficients in order of first appearance; those of a level together below its heading, after all others."""
    groups: dict[str, dict[str, str]] = {"": {}}
    for fit in fits:
        response, labels = fit.design.endog_name, fit.labels()
        heads = [f"{response} = {v}" for v in labels["level"]] if "level" in labels else [""] * len(labels)
        for head, name, term in zip(heads, fit.names, labels["term"], strict=True):
            if name in wanted if wanted is not None else intercept or term not in CONSTANTS:
                groups.setdefault(head, {}).setdefault(name, term)
    if not any(groups.values()):
        raise InferenceError("the only coefficient is the intercept; ask for it with intercept=True.")
    out, days = list[_Row](), dated(fits)
    for head, found in groups.items():
        out += [_Row(None, shorten([head], 40)[0])] if head else []
        for name, label in zip(found, shorten(found.values(), 40), strict=True):
            out.append(_Row(name, label, step_words(steps.get(name, 1.0), "days" if name in days else "")))
    return out


def step_words(step: float, unit: str = "") -> str:
    """A step after the name of its row, with its unit if that is known; nothing if it is 1."""
    if step == 1.0:
        return ""
    return f"per {step:,.10g} {unit}".rstrip() if 1e-4 <= step < 1e7 else f"per {step:.3g} {unit}".rstrip()


def _too_short(tables: list[pd.DataFrame], rows: list[_Row]) -> list[str]:
    """What draws rows whose intervals are too short to be seen beside the others, for a footer."""
    drawn = [part for t in tables if "conf_low" in (part := _among(t, rows)) and len(part)]
    lengths = [(part["conf_high"] - part["conf_low"]).to_numpy(dtype=float) for part in drawn]
    ends = [np.abs(part[["conf_low", "conf_high"]].to_numpy(dtype=float)).max() for part in drawn]
    short = any(np.nanmin(length) < _SEEN * end for length, end in zip(lengths, ends, strict=True))
    return ["scaled=True draws what comparable steps do"] if short else []


def _among(table: pd.DataFrame, rows: list[_Row]) -> pd.DataFrame:
    """The part of a table that is drawn."""
    return table[table.index.isin([r.name for r in rows if r.name is not None])]


def _draw(ax: Any, drawn: _Drawn, unit: _Unit, width: float, *, names: bool = True) -> None:
    """Draw the results of one unit on axes that have, with the names of the rows, so many inches."""
    rows, inks = drawn.rows, inks_for(ax)
    place = {r.name: i for i, r in enumerate(rows) if r.name is not None}
    here = [j for j, own in enumerate(drawn.units) if own == unit]
    gap, over = 0.6 / max(len(here) - 1, 1), list[tuple[Any, Any, dict[str, Any]]]()
    for k, j in enumerate(here):
        part = _among(drawn.tables[j], rows)
        y = np.array([place[t] for t in part.index], dtype=float) + (k - (len(here) - 1) / 2) * gap
        x, hollow = part["estimate"].to_numpy(), ~part["reliable"].to_numpy(dtype=bool)
        look = {"linestyle": "none", "marker": MARKERS[j % len(MARKERS)], "markersize": 4, "color": inks[j]}
        ax.plot(x, y, **look, label=literal(drawn.names[j]), zorder=3)
        if hollow.any():
            over.append((x[hollow], y[hollow], look))
        if "conf_low" in part:
            ax.hlines(y, part["conf_low"], part["conf_high"], color=inks[j], linewidth=1.2, zorder=2)
    for x, y, look in over:
        ax.plot(x, y, **look, markerfacecolor=ground(ax), zorder=4)
    if drawn.exponentiate:
        ax.set_xscale("log")
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
    """Few labels as plain numbers: matplotlib's own are powers of ten, of which most ratios lie within one."""
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


def _name_rows(ax: Any, rows: list[_Row], room: float) -> float:
    """Write the rows' names in `room` inches, on several lines where there is height, shortened where there isn't.

    Gives about how wide they are.
    """
    height = _row_height(ax, len(rows))
    size = min(float(ax.yaxis.get_major_ticks(1)[0].label1.get_fontsize()), max(height / 1.15, 4.0))
    lines, width = max(int(height / (1.2 * size)), 1), max(int(72.0 * room / (0.56 * size)), 6)
    labels = [_folded(r, width, lines) for r in rows]
    ax.set_yticks(range(len(rows)), [literal(text) for text in labels])
    for row, text in zip(rows, ax.get_yticklabels(), strict=True):
        text.set_fontsize(size)
        if row.name is None:
            text.set_fontweight("bold")
    return max(len(line) for text in labels for line in text.split("\n")) * 0.56 * size / 72.0


def _row_height(ax: Any, rows: int) -> float:
    """Points from one row to the next."""
    return 72.0 * float(ax.get_position().height * ax.figure.bbox.height / ax.figure.dpi) / rows


def _folded(row: _Row, width: int, lines: int) -> str:
    """A row's name and step in at most so many lines of at most `width` characters."""
    whole = f"{row.label}, {row.step}" if row.step else row.label
    if len(whole) <= width:
        return whole
    if row.step and (lines > 1 or len(row.step) + 5 <= width):
        if lines == 1:
            return f"{shorten([row.label], width - len(row.step) - 2)[0]}, {row.step}"
        return f"{folded(row.label, width, lines - 1)},\n{row.step}"
    return folded(row.label, width, lines)


def _on_given(ax: Any, drawn: _Drawn, units: list[_Unit], footer: str) -> Axes | NDArray[Any]:
    """Draw on axes that are not ours."""
    given = np.asarray(ax, dtype=object).ravel()
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
    add_corner(given[-1], "\n".join(lines))
    for panel in given:
        _inside(panel)
        size = max(_row_height(panel, len(drawn.rows)) / 1.15, 3.0)  # of axes that have been made smaller
        for text in panel.get_yticklabels():
            text.set_fontsize(min(text.get_fontsize(), size))
    out: NDArray[Any] = given
    return ax if not isinstance(ax, Sequence | np.ndarray) else out


def _between(ax: Any) -> tuple[float, float]:
    """Where the room of axes begins and ends, inches from the left: at its neighbours' axes, or the figure's ends."""
    figure, own = ax.figure, ax.get_position()
    left, right = 0.0, 1.0
    for other in figure.axes:
        box = other.get_position()
        if other is not ax and box.y0 < own.y1 and own.y0 < box.y1:
            left = max(left, box.x1) if box.x1 <= own.x0 else left
            right = min(right, (own.x1 + box.x0) / 2) if box.x0 >= own.x1 else right
    width = figure.bbox.width / figure.dpi
    return left * width, right * width


def _inside(ax: Any) -> None:
    """Make axes smaller until their labels are inside the figure, unless a layout engine sees to that."""
    figure = ax.figure
    if getattr(figure, "figure", figure).get_layout_engine() is not None:
        return
    for _ in range(2):  # a smaller axis may have other ticks
        own, room, drawn = ax.get_position(), figure.bbox, ax.get_tightbbox()
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
        width = max(own.width - over[0] - over[2], 0.2 * own.width)
        height = max(own.height - over[1] - over[3], 0.2 * own.height)
        ax.set_position([own.x1 - over[2] - width, own.y0 + over[1], width, height])
