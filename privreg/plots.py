"""Plots of results, in one house style. Matplotlib is imported on use."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.accounting import at_least, compose
from privreg.errors import InferenceError, MissingExtraError, OptionError, choose, flag, shown
from privreg.family import check_ratios
from privreg.inference import METHODS
from privreg.notes import DOUBT
from privreg.scaling import public_steps
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
CONSTANTS: Final = ("Intercept", "const")
"""Names of the constant, in formulas and arrays."""
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
    dark = _ground(ax, outside=outside) @ (0.299, 0.587, 0.114) < 0.5
    return _Inks(_ON_DARK, _GREY_ON_DARK) if dark else _Inks(COLOURS, GREY)


def _ground(ax: Any, *, outside: bool = False) -> NDArray[Any]:
    """Colour of the ground of the axes, or `outside` them."""
    from matplotlib.colors import to_rgba

    ground = np.array([1.0, 1.0, 1.0])
    grounds = [ax.figure.get_facecolor()]
    for patch in grounds if outside else [*grounds, ax.get_facecolor()]:
        *colour, alpha = to_rgba(patch)
        ground = alpha * np.array(colour) + (1 - alpha) * ground
    return ground


def _literal(text: str) -> str:
    """Text in which a dollar sign starts no formula."""
    return text.replace("$", r"\$")


def _guarantee(statements: Sequence[PrivacyStatement]) -> str:
    """Name the guarantees, each once; of one result also that of all releases from its data."""
    each = list(dict.fromkeys([s.short for s in statements] if len(statements) > 1 else [statements[0].headline]))
    return f"per person: {', '.join(each)}" if len(each) > 1 else each[0].replace("-GDP", "-GDP per person", 1)


def _in_all(results: Sequence[PrivateResults]) -> str:
    """What several releases cost together, as `Comparison` says it; nothing of one."""
    releases = {r._fit.origin: r.privacy.total_mu for r in results}
    total = compose(releases.values())
    return f", {at_least(total, 4)}-GDP in all" if len(releases) > 1 and math.isfinite(total) else ""


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
    scaled: bool = True,
    exponentiate: bool = False,
    simultaneous: bool = False,
    ax: Any = None,
) -> Axes | NDArray[Any]:
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
        Whether to draw the intercept (a coefficient called Intercept or const), which usually dwarfs all others.
    scaled : bool
        Draw what a step of the covariate does, so that rows can be compared. The step is public and stands after the
        row's name: half of the declared range, two declared sds, or two sds that the fit has learned from reports; the
        product of both for an interaction. Levels and other columns of 0 and 1 go from 0 to 1 and have no step after
        their name. False draws coefficients as they are.
    exponentiate : bool
        Draw exp of them, on a logarithmic axis: odds ratios of Logistic, odds ratios against the baseline of
        Multinomial, rate ratios of Poisson, ratios where the response is ``np.log(y)``.
    simultaneous : bool
        Whether the intervals of all coefficients of a result (the intercept too) are to hold together; wider.
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
    _pyplot()
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
    rows = _rows(fits, intercept, steps)
    tables = [_stepped(table, steps, exponentiate) for table in tables]
    drawn = _Drawn(tables, rows, names, [unit_of(fit, exponentiate=exponentiate) for fit in fits], exponentiate)
    kind = "simultaneous intervals" if simultaneous else "intervals"
    intervals = [f"{100 * (1 - alpha):.6g}% {kind}"] if all("conf_low" in t for t in tables) else []
    footer = "; ".join([*_baselines(results), *intervals, _guarantee([r.privacy for r in results]) + _in_all(results)])
    if not all(_among(table, rows)["reliable"].all() for table in tables):
        footer += f"\n{DOUBT} hollow dots: see the notes of the summary"
    units = list(dict.fromkeys(drawn.units))
    if ax is not None:
        return _on_given(ax, drawn, units, footer)
    longest = max(len(r.label) for r in rows)
    width = COLUMN if longest <= 20 and len(results) <= 3 else 1.45 * COLUMN
    width = width if len(units) == 1 else 2 * COLUMN
    height = 0.9 + len(rows) * (0.16 + 0.11 * len(results)) + (0.3 if len(results) > 1 else 0)
    with _panels(1, len(units), (width, max(height, 1.5))) as (_, grid):
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
        _footer(axes[-1], footer, width)
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


def unit_of(fit: Fit, *, exponentiate: bool) -> _Unit:
    """What is on the axis of a result's coefficients."""
    response, link = _literal(shorten([fit.design.endog_name], 30)[0]), fit.family.link
    if exponentiate:
        what = {"logit": "odds ratio", "log": "rate ratio"}.get(link, f"ratio of {_without_log(response)}")
        return _Unit(what, f"{what} per step")
    what = {"logit": "log-odds", "log": "log rate", "margin": "margin"}.get(link, response)
    return _Unit(f"coefficient ({what})", f"change in {what} per step")


def _without_log(response: str) -> str:
    found = re.fullmatch(r"np\.log\((.*)\)", response)
    return found[1] if found is not None else f"exp({response})"


def steps_of(fits: list[Fit]) -> dict[str, float]:
    """Step of each coefficient's covariate, by its flat name: of the first result that knows it, else 1."""
    out: dict[str, float] = {}
    for fit in fits:
        own = public_steps(fit.design, fit.spreads)
        for name, step in zip(fit.names, np.resize(own, len(fit.names)).tolist(), strict=True):
            if not math.isfinite(out.get(name, math.nan)):
                out[name] = step
    return {name: step if math.isfinite(step) else 1.0 for name, step in out.items()}


def _stepped(table: pd.DataFrame, steps: dict[str, float], exponentiate: bool) -> pd.DataFrame:
    """The same table of what steps do."""
    columns = [c for c in ("estimate", "conf_low", "conf_high") if c in table]
    step = np.array([steps.get(name, 1.0) for name in table.index])
    out = table.assign(**{c: table[c] * step for c in columns})
    # exp of a wild limit stays finite, as no axis can show infinity
    return out.assign(**{c: np.exp(out[c].clip(-_WILDEST, _WILDEST)) for c in columns}) if exponentiate else out


_WILDEST: Final = 200.0


def _rows(fits: list[Fit], intercept: bool, steps: dict[str, float]) -> list[_Row]:
    """Coefficients in order of first appearance; those of a level together below its heading, after all others."""
    groups: dict[str, dict[str, str]] = {"": {}}
    for fit in fits:
        response, labels = fit.design.endog_name, fit.labels()
        heads = [f"{response} = {v}" for v in labels["level"]] if "level" in labels else [""] * len(labels)
        for head, name, term in zip(heads, fit.names, labels["term"], strict=True):
            if intercept or term not in CONSTANTS:
                groups.setdefault(head, {}).setdefault(name, term)
    if not any(groups.values()):
        raise InferenceError("the only coefficient is the intercept; ask for it with intercept=True.")
    out = []
    for head, found in groups.items():
        out += [_Row(None, shorten([head], 40)[0])] if head else []
        for name, label in zip(found, shorten(found.values(), 40), strict=True):
            out.append(_Row(name, label, step_words(steps.get(name, 1.0))))
    return out


def step_words(step: float) -> str:
    """A step after the name of its row; nothing if it is 1."""
    if step == 1.0:
        return ""
    return f"per {step:,.10g}" if 1e-4 <= step < 1e7 else f"per {step:.3g}"


def _among(table: pd.DataFrame, rows: list[_Row]) -> pd.DataFrame:
    """The part of a table that is drawn."""
    return table[table.index.isin([r.name for r in rows if r.name is not None])]


def _draw(ax: Any, drawn: _Drawn, unit: _Unit, width: float, *, names: bool = True) -> None:
    """Draw the results of one unit on axes that have, with the names of the rows, so many inches."""
    rows, inks = drawn.rows, _inks(ax)
    place = {r.name: i for i, r in enumerate(rows) if r.name is not None}
    here = [j for j, own in enumerate(drawn.units) if own == unit]
    gap, over = 0.6 / max(len(here) - 1, 1), list[tuple[Any, Any, dict[str, Any]]]()
    for k, j in enumerate(here):
        part = _among(drawn.tables[j], rows)
        y = np.array([place[t] for t in part.index], dtype=float) + (k - (len(here) - 1) / 2) * gap
        x, hollow = part["estimate"].to_numpy(), ~part["reliable"].to_numpy(dtype=bool)
        look = {"linestyle": "none", "marker": MARKERS[j % len(MARKERS)], "markersize": 4, "color": inks[j]}
        ax.plot(x, y, **look, label=_literal(drawn.names[j]), zorder=3)
        if hollow.any():
            over.append((x[hollow], y[hollow], look))
        if "conf_low" in part:
            ax.hlines(y, part["conf_low"], part["conf_high"], color=inks[j], linewidth=1.2, zorder=2)
    for x, y, look in over:
        ax.plot(x, y, **look, markerfacecolor=_ground(ax), zorder=4)
    if drawn.exponentiate:
        ax.set_xscale("log")
        _ratio_ticks(ax)
    ax.axvline(1.0 if drawn.exponentiate else 0.0, color=inks.grey, linewidth=0.6, linestyle=":", zorder=0)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_yticks(range(len(rows)), [""] * len(rows))
    width -= _name_rows(ax, rows, 0.45 * width) if names else 0.0
    words = unit.stepped if any(r.step for r in rows) else unit.plain
    ax.set_xlabel(textwrap.fill(words, max(int(72.0 * width / (0.56 * ax.xaxis.label.get_fontsize())), 10)))


def _ratio_ticks(ax: Any) -> None:
    """Few labels as plain numbers: matplotlib's own are powers of ten, of which most ratios lie within one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    low, high = ax.get_xlim()
    decades = math.log10(high / low)
    few = MaxNLocator(5) if decades < 0.6 else LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=8)
    ax.xaxis.set_major_locator(few)
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
    ax.set_yticks(range(len(rows)), [_literal(text) for text in labels])
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
        return f"{_folded(_Row(row.name, row.label), width, lines - 1)},\n{row.step}"
    out = [""]
    for piece in re.split(r"(?<=[\s:,_)\]])|(?=[\[(])", row.label):
        out = [*out[:-1], out[-1] + piece] if len(out[-1] + piece) <= width else [*out, piece]
    out = [part for part in out if part]
    if len(out) > lines or max(map(len, out)) > width:
        return shorten([row.label], width)[0]
    return "\n".join(out)


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
    _corner(given[-1], "\n".join(lines))
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
