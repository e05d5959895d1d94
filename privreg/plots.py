"""Plots of results, in one house style. Matplotlib is imported on use."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.errors import InferenceError, MissingExtraError, OptionError, choose, shown
from privreg.inference import METHODS
from privreg.notes import DOUBT
from privreg.tables import plain, shorten
from privreg.views import band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from privreg.payload import Fit
    from privreg.privacy import PrivacyStatement
    from privreg.results import PrivateResults

__all__ = ["coefficients", "trajectory"]

# --- house style -----------------------------------------------------------------------------------------

COLUMN: Final = 3.5
"""Width in inches of one column of a journal; two of them are as wide as a figure gets."""
# Told apart by lightness in grey and by hue for colour-blind readers; markers differ as well.
COLOURS: Final = ("#0b3c6f", "#d55e00", "#009e73", "#e69f00", "#56b4e9", "#cc79a7")
MARKERS: Final = ("o", "s", "^", "D", "v", "P")
DASHES: Final = ("-", "--", "-.", ":")
GREY: Final = "#666666"
# The same hues on dark grounds, which a user's style may have.
_ON_DARK: Final = ("#a9d1ff", "#f0803c", "#2fbf93", "#f2c14e", "#4f97e0", "#dc9bc0")
_GREY_ON_DARK: Final = "#adadad"
SMALL: Final = 7.0
TEXT: Final = 8.0
_RC: Final = {
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
}


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("plots need matplotlib, which is not installed: pip install privreg[plot].") from None
    return plt


@contextmanager
def _panels(rows: int, columns: int, size: tuple[float, float], **more: Any) -> Iterator[tuple[Any, NDArray[Any]]]:
    """A new figure in the house style, and its axes as an array of shape (rows, columns)."""
    plt = _pyplot()
    # loads the backend now: loaded inside, leaving the context would undo a notebook's interactive mode, which the
    # backend sets, and every figure but the first would stay unseen
    plt.draw_if_interactive()
    with plt.rc_context(_RC):
        figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **more)
        for ax in axes.flat:
            # ticks made at drawing time would take the global sizes again
            ax.tick_params(which="both", labelsize=SMALL, width=0.6)
        yield figure, axes


class _Inks(NamedTuple):
    """Colours to draw with on given axes: those of curves, one after the other, and that of what stands back."""

    colours: tuple[str, ...]
    grey: str

    def __getitem__(self, i: Any) -> Any:
        return self.colours[i % len(self.colours)]


def _inks(ax: Any, *, outside: bool = False) -> _Inks:
    """Colours that are seen on the ground of the axes, or `outside` them, whatever the user's style is."""
    from matplotlib.colors import to_rgba

    ground = np.array([1.0, 1.0, 1.0])
    grounds = [ax.figure.get_facecolor()]
    for patch in grounds if outside else [*grounds, ax.get_facecolor()]:
        *colour, alpha = to_rgba(patch)
        ground = alpha * np.array(colour) + (1 - alpha) * ground
    dark = ground @ (0.299, 0.587, 0.114) < 0.5
    return _Inks(_ON_DARK, _GREY_ON_DARK) if dark else _Inks(COLOURS, GREY)


def _literal(text: str) -> str:
    """Text in which a dollar sign starts no formula."""
    return text.replace("$", r"\$")


def _guarantee(statements: Sequence[PrivacyStatement]) -> str:
    """Name the guarantees, each once; of one result also that of all releases from its data."""
    each = list(dict.fromkeys([s.short for s in statements] if len(statements) > 1 else [statements[0].headline]))
    return f"per person: {', '.join(each)}" if len(each) > 1 else each[0].replace("-GDP", "-GDP per person", 1)


def _footer(ax: Any, text: str, width: float) -> None:
    """Small grey text under the label of the x axis, each line wrapped to about `width` inches."""
    ax.annotate(
        "\n".join(textwrap.fill(line, int(width * 15)) for line in text.split("\n")),
        xy=(1, 0),
        xycoords=(ax.transAxes, ax.xaxis.label),
        xytext=(0, -3),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=SMALL,
        color=_inks(ax, outside=True).grey,
    )


def _corner(ax: Any, text: str) -> None:
    """Small grey text above axes that are not ours: below, their figure may have no room."""
    ax.set_title(text, loc="right", fontsize=SMALL, color=_inks(ax, outside=True).grey)


# --- trajectories ----------------------------------------------------------------------------------------


def trajectory(
    results: PrivateResults, terms: Any = None, *, alpha: float = 0.05, method: str | None = None, ax: Any = None
) -> Axes | NDArray[Any]:
    """Draw estimates with their bands against the number of people, on a logarithmic axis.

    Parameters
    ----------
    results : PrivateResults
    terms : str or sequence of str, optional
        Coefficients wanted; all by default. Of a multinomial fit "level:term", or a term for all levels.
    alpha : float
        One minus the level of the bands.
    method : str, optional
        Method that the bands must be of; see :meth:`PrivateResults.trajectory`.
    ax : Axes or sequence of Axes, optional
        Where to draw. One Axes holds all terms, told apart by a legend; a sequence holds one term each. Without
        it a figure is made, with one panel a term, since coefficients rarely share a scale. Two or three levels of a
        multinomial response stand side by side, the panels of a term on one scale.

    Returns
    -------
    Axes or ndarray of Axes
        One Axes if there is one term or `ax` is one; otherwise an array, one Axes a term, in their order.

    Raises
    ------
    OptionError
        If a term is not known, or `ax` has another number of axes than there are terms.
    MissingExtraError
        If matplotlib is not installed.

    Notes
    -----
    The bands are those of :meth:`PrivateResults.trajectory`. Only with ``inference="anytime"`` do they hold over the
    whole path; the others have their level at each number of people by itself.
    """
    _pyplot()
    fit = results._fit
    path = fit.flat(results.trajectory(alpha, method=method))
    wanted = _terms(terms, fit)
    footer = "; ".join([*_baselines([results]), _guarantee([results.privacy])])
    if path["low"].notna().any():
        own = band(fit)
        kind = "valid at all numbers of people at once" if own == "anytime" else "pointwise"
        by = "" if own is None else f" by {METHODS[own].title}"
        footer = f"{100 * (1 - alpha):.6g}% bands{by}, {kind}; {footer}"
    curves = [path[path["term"] == t] for t in wanted]
    titles = _titles(fit, wanted)
    if ax is not None:
        return _onto(ax, titles, curves, footer)
    k = len(wanted)
    columns = 1 if k <= 3 else 2 if k <= 8 else 3
    levels, of_each = _crossed(fit, wanted)
    beside = levels in {2, 3}  # so that each level has a column, and each term a row of one scale
    if beside:
        columns = levels
    elif levels and of_each in {2, 3}:
        columns = of_each
    rows = math.ceil(k / columns)
    size = (COLUMN * min(columns, 2), 2.6 if k == 1 else 0.5 + 1.55 * rows)
    with _panels(rows, columns, size, sharex=True, sharey="row" if beside else False) as (_, grid):
        axes = grid.T.ravel() if beside else grid.ravel()  # in the order of the coefficients, level by level
        width = {1: 48, 2: 42, 3: 25}[columns]
        for i, (panel, name, curve) in enumerate(zip(axes, shorten(titles, width), curves, strict=False)):
            _curve(panel, curve, 0, None, pd.concat(curves[i % rows :: rows]) if beside else curve)
            panel.set_title(_literal(name), loc="left")
        for spare in axes[k:]:
            spare.remove()
        for panel in grid[-1] if beside else axes[max(k - columns, 0) : k]:
            panel.xaxis.set_tick_params(labelbottom=True, which="both")
            panel.set_xlabel("people")
        _footer(axes[k - 1], footer, size[0] / columns)
    only: Axes = axes[0]
    return only if k == 1 else axes[:k]


def _terms(terms: Any, fit: Fit) -> list[str]:
    known = list(fit.names)
    if terms is None:
        return known
    listed = [terms] if isinstance(terms, str) else list(terms) if isinstance(terms, Sequence | pd.Index) else []
    if not listed:
        raise OptionError(f"terms={shown(terms)} must be the name of a coefficient or several: {', '.join(known)}.")
    of_levels = {t: [f"{level}:{t}" for level in fit.baseline[1:]] for t in fit.design.names if fit.baseline}
    found = [of_levels[t] if isinstance(t, str) and t in of_levels else [choose("terms", t, known)] for t in listed]
    return [name for names in found for name in names]


def _titles(fit: Fit, names: Sequence[str]) -> list[str]:
    """Flat names as titles: the level apart from the term."""
    labels = fit.labels()
    if "level" not in labels:
        return list(names)
    title = dict(zip(fit.names, [f"{level}: {term}" for level, term in labels.to_numpy()], strict=True))
    return [title[n] for n in names]


def _baselines(results: Sequence[PrivateResults]) -> list[str]:
    """What coefficients of multinomial results are relative to."""
    fits = [r._fit for r in results]
    words = dict.fromkeys(f"baseline {f.design.endog_name} = {f.baseline[0]}" for f in fits if f.baseline)
    return [_literal(plain(w)) for w in words]


def _crossed(fit: Fit, wanted: list[str]) -> tuple[int, int]:
    """How many levels, and terms of each, if the same terms of several levels are wanted, in order; else 0 and 0."""
    terms = [t for t in fit.design.names if any(f"{level}:{t}" in wanted for level in fit.baseline[1:])]
    levels = [v for v in fit.baseline[1:] if any(f"{v}:{t}" in wanted for t in terms)]
    whole = wanted == [f"{level}:{t}" for level in levels for t in terms]
    return (len(levels), len(terms)) if whole and len(levels) > 1 else (0, 0)


def _onto(ax: Any, terms: list[str], curves: list[pd.DataFrame], footer: str) -> Axes | NDArray[Any]:
    if isinstance(ax, Sequence | np.ndarray):
        axes = np.asarray(ax, dtype=object).ravel()
        if len(axes) != len(terms):
            raise OptionError(f"ax has {len(axes)} axes for {len(terms)} terms; give one Axes, or one a term.")
        for panel, name, curve in zip(axes, terms, curves, strict=True):
            _curve(panel, curve, 0, None)
            panel.set_title(_literal(plain(name)), loc="left")
            panel.set_xlabel("people")
        _corner(axes[-1], footer)
        return axes
    one: Axes = ax
    several = len(terms) > 1
    for i, (name, curve) in enumerate(zip(terms, curves, strict=True)):
        _curve(one, curve, i, _literal(plain(name)) if several else None)
    if several:
        one.legend(frameon=False)
    else:
        one.set_title(_literal(plain(terms[0])), loc="left")
    one.set_xlabel("people")
    _corner(one, footer)
    return one


def _curve(ax: Any, curve: pd.DataFrame, i: int, label: str | None, shares: pd.DataFrame | None = None) -> None:
    """Draw a curve with its band, and a line at zero if it or the curves it `shares` its scale with come near."""
    n, inks = curve["n"].to_numpy(), _inks(ax)
    colour = inks[i]
    ax.set_xscale("log")
    _people_ticks(ax, n)
    ax.fill_between(n, curve["low"], curve["high"], color=colour, alpha=0.2, linewidth=0)
    marker = "o" if len(n) == 1 else None
    dash = DASHES[i % len(DASHES)]
    ax.plot(n, curve["estimate"], color=colour, linewidth=1.2, linestyle=dash, marker=marker, markersize=4, label=label)
    if _spans_zero(curve if shares is None else shares):
        ax.axhline(0, color=inks.grey, linewidth=0.6, linestyle=":", zorder=0)


def _people_ticks(ax: Any, n: NDArray[np.int64]) -> None:
    """Few labels on the logarithmic axis: matplotlib's own, such as 2 × 10³, run into each other in small panels."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    decades = math.log10(n[-1] / n[0])
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2 else (1.0, 3.0) if decades > 1.2 else (1, 2, 5)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _compact(v)))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _compact(n: float) -> str:
    """Write a count in few characters, as in 500, 20k or 3M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= unit:
            return f"{n / unit:g}{letter}"
    return f"{n:g}"


def _spans_zero(curve: pd.DataFrame) -> bool:
    """Whether a line at zero would fall inside the panel, so that drawing it doesn't squeeze the curve."""
    values = curve[["estimate", "low", "high"]].to_numpy()
    return bool(np.nanmin(values) <= 0 <= np.nanmax(values))


# --- coefficients ----------------------------------------------------------------------------------------


def coefficients(
    results: Sequence[PrivateResults],
    *,
    labels: Sequence[str] | None = None,
    alpha: float = 0.05,
    intercept: bool = False,
    scaled: bool | None = None,
    simultaneous: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw coefficients as dots with their intervals as whiskers, several results side by side.

    Parameters
    ----------
    results : sequence of PrivateResults
        One or more; a coefficient that a result lacks is left out there.
    labels : sequence of str, optional
        Names of the results in the legend; "(1)", "(2)", … by default.
    alpha : float
        One minus the level of the intervals.
    intercept : bool
        Whether to draw the intercept (a coefficient called Intercept or const).
    scaled : bool, optional
        True gives each row its own power of ten as unit, written after its name, so that small coefficients can
        be read beside large ones; False keeps one scale. By default rows have their own units if the longest row
        is more than thirty times as long as the shortest.
    simultaneous : bool
        Whether the intervals of all coefficients of a result (the intercept too) are to hold together; wider.
    ax : Axes, optional
        Where to draw; long names want a figure with ``layout="constrained"``. Without it a figure is made.

    Returns
    -------
    Axes

    Raises
    ------
    OptionError
        If there is nothing to draw, or the labels don't match the results.
    MissingExtraError
        If matplotlib is not installed.

    Notes
    -----
    Coefficients can't be standardised: the spread of a private covariate is not known.
    """
    _pyplot()
    if not isinstance(results, Sequence) or not results or not all(hasattr(r, "tidy") for r in results):
        raise OptionError("coefficients() draws a list of one or more results, such as [res] or [res1, res2].")
    names = [f"({i})" for i in range(1, len(results) + 1)] if labels is None else shorten(map(str, labels), 40)
    if len(names) != len(results):
        raise OptionError(f"{len(names)} labels for {len(results)} results; give one each.")
    if scaled not in (None, True, False):
        raise OptionError(f"scaled={shown(scaled)} must be True, False or None.")
    tables = [r._fit.flat(r.tidy(alpha=alpha, simultaneous=simultaneous)).set_index("term") for r in results]
    rows = _rows([r._fit for r in results], intercept)
    units = _units(tables, rows, scaled)
    kind = "simultaneous intervals" if simultaneous else "intervals"
    intervals = [f"{100 * (1 - alpha):.6g}% {kind}"] if all("conf_low" in t for t in tables) else []
    footer = "; ".join([*_baselines(results), *intervals, _guarantee([r.privacy for r in results])])
    taken_back = [n for n, r, t in zip(names, results, tables, strict=True) if "conf_low" in t and r._doubts()]
    if taken_back:
        which = f" of {', '.join(map(_literal, taken_back))}" if len(results) > 1 else ""
        footer += f"\n{DOUBT} the intervals{which}: see the notes of the summary"
    if ax is not None:
        _draw(ax, tables, rows, units, names)
        if len(results) > 1:
            ax.legend(frameon=False)
        _corner(ax, footer)
        return ax
    longest = max(len(r.label) for r in rows)
    width = COLUMN if longest <= 20 and len(results) <= 3 else 1.45 * COLUMN
    height = 0.9 + len(rows) * (0.16 + 0.11 * len(results)) + (0.3 if len(results) > 1 else 0)
    with _panels(1, 1, (width, max(height, 1.5))) as (_, grid):
        ax = grid[0, 0]
        _draw(ax, tables, rows, units, names)
        if len(results) > 1:
            # above the axes and to the left of its right edge, over the names, where there is room
            columns = max(1, min(len(names), int(width * 12) // (max(map(len, names)) + 5)))
            ax.legend(
                loc="lower right",
                bbox_to_anchor=(1, 1),
                ncols=columns,
                borderaxespad=0.2,
                handletextpad=0.2,
                columnspacing=1.2,
            )
        _footer(ax, footer, width)
    return ax


class _Row(NamedTuple):
    """A row of the figure: a coefficient's flat name, none for the heading of a level, and what is written."""

    name: str | None
    label: str


def _rows(fits: list[Fit], intercept: bool) -> list[_Row]:
    """Coefficients in order of first appearance; those of a level together below its heading, after all others."""
    groups: dict[str, dict[str, str]] = {"": {}}
    for fit in fits:
        response, labels = fit.design.endog_name, fit.labels()
        heads = [f"{response} = {v}" for v in labels["level"]] if "level" in labels else [""] * len(labels)
        for head, name, term in zip(heads, fit.names, labels["term"], strict=True):
            if intercept or term not in {"Intercept", "const"}:
                groups.setdefault(head, {}).setdefault(name, term)
    if not any(groups.values()):
        raise InferenceError("the only coefficient is the intercept; ask for it with intercept=True.")
    out = []
    for head, found in groups.items():
        out += [_Row(None, shorten([head], 40)[0])] if head else []
        out += [_Row(name, label) for name, label in zip(found, shorten(found.values(), 40), strict=True)]
    return out


def _extent(tables: list[pd.DataFrame], term: str) -> float:
    """Largest absolute value drawn in a row."""
    columns = ["estimate", "conf_low", "conf_high"]
    found = [table.loc[term].reindex(columns).to_numpy(dtype=float) for table in tables if term in table.index]
    values = np.abs(np.concatenate(found))
    return float(values[np.isfinite(values)].max(initial=0.0))


def _units(tables: list[pd.DataFrame], rows: list[_Row], scaled: bool | None) -> list[int]:
    """Power of ten that each row is divided by."""
    extents = [0.0 if r.name is None else _extent(tables, r.name) for r in rows]
    some = [e for e in extents if e > 0]
    if scaled is None:
        scaled = bool(some) and max(some) > 30 * min(some)
    if not scaled:
        return [0] * len(rows)
    return [math.ceil(math.log10(e)) if e > 0 else 0 for e in extents]


def _unit_label(power: int) -> str:
    if power == 0:
        return ""
    if -3 <= power <= 3:
        return f"  × {10.0**power:,g}"
    return "  × 10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _draw(ax: Any, tables: list[pd.DataFrame], rows: list[_Row], units: list[int], labels: list[str]) -> None:
    place = {r.name: (i, units[i]) for i, r in enumerate(rows) if r.name is not None}
    several, inks = len(tables) > 1, _inks(ax)
    step = 0.6 / max(len(tables) - 1, 1) if several else 0.0
    for j, table in enumerate(tables):
        part = table[table.index.isin(list(place))]
        at, powers = np.array([place[t] for t in part.index], dtype=float).reshape(-1, 2).T
        y = at + (j - (len(tables) - 1) / 2) * step
        unit = 10.0**powers
        colour, marker = inks[j], MARKERS[j % len(MARKERS)]
        x = part["estimate"] / unit
        ax.plot(x, y, linestyle="none", marker=marker, markersize=4, color=colour, label=_literal(labels[j]), zorder=3)
        if "conf_low" in part:
            ax.hlines(y, part["conf_low"] / unit, part["conf_high"] / unit, color=colour, linewidth=1.2, zorder=2)
    ax.axvline(0, color=inks.grey, linewidth=0.6, linestyle=":", zorder=0)
    names = [_literal(r.label) + _unit_label(u) for r, u in zip(rows, units, strict=True)]
    ax.set_yticks(range(len(rows)), names)
    for row, text in zip(rows, ax.get_yticklabels(), strict=True):
        if row.name is None:
            text.set_fontweight("bold")
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel("coefficient, in units of its row" if any(units) else "coefficient")
