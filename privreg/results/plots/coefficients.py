"""Coefficients, and other estimates, of one or several results with their intervals, and along a stream."""

import math
import re
import textwrap
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.inference.methods import METHODS
from privreg.errors import InferenceError, flag
from privreg.families.family import check_ratios
from privreg.privacy.ledger import compose, within
from privreg.results.data import ResultData, band
from privreg.results.plots import style
from privreg.results.plots.style import CONSTANTS, Axes, baselines, guarantee, literal
from privreg.tables import MARK, marked, plain, shorten


class Step(NamedTuple):
    """Distance by which a covariate is moved, in the user's units."""

    size: float = 1.0
    unit: str = ""

    @property
    def words(self) -> str:
        """The step after the name of its row, with its unit if that is known; nothing if it is 1."""
        form = ",.10g" if 1e-4 <= self.size < 1e7 else ".3g"
        return "" if self.size == 1.0 else f"per {self.size:{form}} {self.unit}".rstrip()


def public_steps(design: Any, spreads: Array | None = None) -> list[Step]:
    """Distances by which columns of a design move in a figure, so that coefficients can be compared; user's units.

    To three digits; of columns that nothing public tells of two `spreads`, sds that the fit has learned from reports,
    shape (p,), to two digits, or NaN. See :func:`plot_coef`.
    """
    schema, names = design.schema, list(design.names)
    low, high = design.probe.min(axis=0), design.probe.max(axis=0)
    sizes, out = dict[str, float](), list[Step]()

    def declared(column: str) -> float:
        if column in schema.moments and column not in schema.private:
            return 2.0 * float(schema.moments[column][1])
        least, most = schema.reference(column)
        return 0.5 * (most - least) if (least, most) != (0.0, 1.0) else 1.0

    columns = list(zip(names, design.bare, design.sources, strict=True))
    for j, (name, bare, made_of) in enumerate(columns):
        # a spline's last column goes from 0 to 1 as well
        switch = (low[j], high[j]) == (0.0, 1.0) and (bare is not None or np.isin(design.probe[:, j], (0.0, 1.0)).all())
        if not high[j] > low[j] or all(c in schema.levels for c in made_of) or switch:
            sizes[name] = 1.0
        elif any(name in schema.private for name in made_of):
            sizes[name] = math.nan if spreads is None else float(f"{2.0 * spreads[j]:.2g}")
        else:
            sizes[name] = declared(bare) if bare is not None else 0.5 * float(high[j] - low[j])
    for name, bare, made_of in columns:
        parts, numbers = name.split(":"), [c for c in made_of if c not in schema.levels]
        known = [
            sizes[part] if part in sizes else declared(part) if part in numbers else 1.0
            for part in parts
            if part in sizes or part in made_of or part.endswith("]")
        ]
        size = math.prod(known) if 1 < len(parts) == len(known) and numbers else sizes[name]
        out.append(Step(size if math.isnan(size) else float(f"{size:.3g}"), "days" if bare in schema.dates else ""))
    return out


class Side(NamedTuple):
    """Results side by side and their names."""

    results: Sequence[Any]
    names: Sequence[str]


def plot_coef(
    self: Any,
    terms: Any = None,
    *,
    alpha: float = 0.05,
    intercept: bool = False,
    scaled: bool = False,
    exponentiate: bool = False,
    simultaneous: bool = False,
    title: str | None = None,
    ax: Any = None,
) -> Axes:
    """Draw coefficients as dots with their intervals as whiskers; hollow dots should not be relied on.

    `terms` are coefficients, or terms such as a factor; all but the intercept by default, a coefficient called
    Intercept or const, which usually dwarfs all others. `exponentiate` draws exp of them, on a logarithmic axis, and
    `simultaneous` has intervals that hold together, both as in `PrivateResults.tidy`. ``axes.figure.savefig(path)``
    saves it.

    Parameters
    ----------
    scaled : bool
        Draw what a step of the covariate does, so that rows can be compared: half of the declared range, two declared
        sds, or two sds that the fit has learned from reports (Gelman 2008, Scaling regression inputs by dividing by two
        standard deviations); of an interaction the product of both. Levels and other columns of 0 and 1 go from 0 to 1.
    ax : Axes or sequence of Axes, optional
        Where to draw; a sequence where results have several units, such as dollars and log-odds, one Axes each, which
        come back as an array. ``plt.subplots(layout="constrained")`` leaves room for long names.
    """
    # a coefficient that a result lacks is left out there; a covariate's step is that of the first result that knows it
    side = self if isinstance(self, Side) else Side((self,), ("",))
    results, names = side.results, shorten(map(str, side.names), 40)
    flag("scaled", scaled)
    if flag("exponentiate", exponentiate):
        for r in results:
            check_ratios(r._fit.family, r._fit.design.endog_name)
    tables = [r._fit.flat(r.tidy(alpha=alpha, simultaneous=simultaneous)).set_index("term") for r in results]
    fits = [r._fit for r in results]
    steps: dict[str, Step] = {}
    for fit in fits if scaled else ():
        for name, step in zip(fit.names, cycle(public_steps(fit.design, fit.spreads)), strict=False):
            if name not in steps or math.isnan(steps[name].size):
                steps[name] = step
    steps = {name: Step() if math.isnan(step.size) else step for name, step in steps.items()}
    wanted = None if terms is None else {fits[0].names[j] for j in fits[0].places(terms, "terms")}
    # in order of first appearance; coefficients of a level together below its heading, after all others
    groups: dict[str, dict[str, str]] = {"": {}}
    for fit in fits:
        response, labels = fit.design.endog_name, fit.labels()
        heads = [f"{response} = {v}" for v in labels["level"]] if "level" in labels else [""] * len(labels)
        for head, name, term in zip(heads, fit.names, labels["term"], strict=True):
            if name in wanted if wanted is not None else intercept or term not in CONSTANTS:
                groups.setdefault(head, {}).setdefault(name, term)
    if not any(groups.values()):
        raise InferenceError("the only coefficient is the intercept; ask for it with intercept=True.")
    rows = list[Row]()
    for head, found in groups.items():
        rows += [Row(None, shorten([head], 40)[0])] if head else []
        each = zip(found, shorten(found.values(), 40), strict=True)
        rows += [Row(name, label, steps.get(name, Step()).words) for name, label in each]
    drawn_names = [row.name for row in rows if row.name is not None]
    for i, table in enumerate(t[t.index.isin(drawn_names)] for t in tables):
        moved = table.filter(["estimate", "conf_low", "conf_high"])
        moved = moved.mul([steps.get(name, Step()).size for name in table.index], axis=0)
        # exp of a wild limit stays finite, as no axis can show infinity
        tables[i] = table.assign(**(np.exp(moved.clip(-_WILDEST, _WILDEST)) if exponentiate else moved))
    units = [unit_of(fit, exponentiate=exponentiate, stepped=any(row.step for row in rows)) for fit in fits]
    drawn = Drawn(tables, rows, names, units, exponentiate)
    intervals = [f"{100 * (1 - alpha):.6g}% {'simultaneous ' * simultaneous}intervals"]
    intervals *= all("conf_low" in t for t in tables)
    private, releases = guarantee([r.privacy for r in results]), {f.origin: f.statement.total_mu for f in fits}
    if len(releases) > 1 and math.isfinite(total := compose(releases.values())):
        private += f", {within(total, 4)}-GDP in all"
    drawn_ends = [t[["conf_low", "conf_high"]].to_numpy(dtype=float) for t in tables if "conf_low" in t and not scaled]
    hidden = any(len(e) and np.nanmin(e[:, 1] - e[:, 0]) < _SEEN * np.abs(e).max() for e in drawn_ends)
    about = ["dots hide some intervals: scaled=True draws comparable steps"] * hidden
    return cast("Axes", figure(drawn, "; ".join([*baselines(fits), *about, *intervals, private]), title, ax))


def unit_of(fit: ResultData, *, exponentiate: bool, stepped: bool) -> str:
    """Words for the axis of a result's coefficients, or of these times their steps."""
    response = literal(shorten([fit.design.endog_name], 30)[0])
    if exponentiate:
        of = re.fullmatch(r"np\.log\((.*)\)", response)
        what = fit.family.logs[1] if fit.family.logs else f"ratio of {f'exp({response})' if of is None else of[1]}"
        return f"{what} per step" if stepped else what
    what = fit.family.logs[0] if fit.family.logs else "margin" if fit.family.link == "margin" else response
    return f"change in {what} per step" if stepped else f"coefficient ({what})"


_SEEN: Final = 1 / 200  # Length of an interval, relative to the farthest limit, below which it is hidden by its dot
_WILDEST: Final = 200.0
_TICK: Final = 0.65  # Inches that a label of six digits and a sign takes beside the next one


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
    units: list[str]
    exponentiate: bool


def figure(drawn: Drawn, footer: str, title: str | None, ax: Any) -> Axes | NDArray[Any]:
    """Draw what is `drawn` on given axes or on a new figure, with a panel for each unit."""
    if not all(table["reliable"].all() for table in drawn.tables):
        footer += "\ndon't rely on hollow dots: see the notes of the summary"
    units, longest = list(dict.fromkeys(drawn.units)), max(len(r.label) for r in drawn.rows)
    several, width = len(drawn.names) > 1, style.COLUMN
    if len(units) > 1 or longest > 20 or len(drawn.names) > 3:
        width *= 1.45 if len(units) == 1 else 2.0
    height = 0.9 + len(drawn.rows) * (0.16 + 0.11 * len(drawn.names)) + (0.3 if several else 0)
    what = f"results in {len(units)} units ({', '.join(units)})"
    with style.placed(ax, (1, len(units)), (width, max(height, 1.5)), what, title) as axes:
        for i, (panel, unit) in enumerate(zip(axes.flat, units, strict=True)):
            held = [name for name, of in zip(drawn.names, drawn.units, strict=True) if of == unit]
            room = width if len(units) == 1 else width / (1.4 if i else 1.0) / 2
            room = room if ax is None else panel.bbox.width / panel.figure.dpi / 0.7
            draw(panel, drawn, unit, room, names=ax is not None or not i)
            # above new axes and to the left of their right edge, over the names, where there is room
            columns = max(1, min(len(held), int(width / len(units) * 12) // (max(map(len, held)) + 5)))
            near: Any = {"borderaxespad": 0.2, "handletextpad": 0.2, "columnspacing": 1.2, "ncols": columns}
            near |= {"loc": "lower right", "bbox_to_anchor": (1, 1)}
            if several:
                panel.legend(frameon=False, **near if ax is None else {})
        style.add_footer(axes.flat[-1], footer, width / len(units) if ax is None else None)
    return axes.ravel() if isinstance(ax, Sequence | np.ndarray) or len(units) > 1 else axes.flat[0]


def draw(ax: Any, drawn: Drawn, unit: str, width: float, *, names: bool = True) -> None:
    """Draw the results of one unit on axes that have, with the names of the rows, so many inches."""
    rows, inks = drawn.rows, style.inks_for(ax)
    place = {r.name: i for i, r in enumerate(rows) if r.name is not None}
    here = [j for j, of in enumerate(drawn.units) if of == unit]
    gap, at = 0.6 / max(len(here) - 1, 1), 1.0 if drawn.exponentiate else 0.0
    over = list[tuple[Any, Any, dict[str, Any]]]()
    for k, j in enumerate(here):
        part = drawn.tables[j]
        y = np.array([place[t] for t in part.index], dtype=float) + (k - (len(here) - 1) / 2) * gap
        x, hollow = part["estimate"].to_numpy(), ~part["reliable"].to_numpy(dtype=bool)
        look = {"linestyle": "none", "marker": style.MARKERS[j % len(style.MARKERS)], "markersize": 4, "color": inks[j]}
        ax.plot(x, y, **look, label=style.literal(drawn.names[j]), zorder=3)
        if "conf_low" in part:
            ax.hlines(y, part["conf_low"], part["conf_high"], color=inks[j], linewidth=1.2, zorder=2)
            ends = ax.scatter(np.ravel(part[["conf_low", "conf_high"]]), np.repeat(y, 2), marker="|", color=inks[j])
            ends.set(sizes=[36], linewidth=0.8, zorder=2)  # seen where a dot hides the line
        over += [(x[hollow], y[hollow], look)] * bool(hollow.any())
    for x, y, look in over:  # after all results
        ax.plot(x, y, **look, markerfacecolor=style.ground(ax), zorder=4)
    ax.axvline(at, color=inks.grey, linewidth=0.6, linestyle=":", zorder=0)
    if drawn.exponentiate:
        ax.set_xscale("log")
        style.log_axis(ax, "{:g}".format, *ax.get_xlim(), marked=at)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_yticks(range(len(rows)), [""] * len(rows))
    if names:  # on several lines where there is height, shortened where there isn't
        height = 72.0 * float(ax.get_position().height * ax.figure.bbox.height / ax.figure.dpi) / len(rows)  # points
        size = min(float(ax.yaxis.get_major_ticks(1)[0].label1.get_fontsize()), max(height / 1.15, 4.0))
        lines, letters = max(int(height / (1.2 * size)), 1), max(int(72.0 * 0.45 * width / (0.56 * size)), 6)
        labels = [style.folded(f"{r.label}, {r.step}" if r.step else r.label, letters, lines) for r in rows]
        ax.set_yticks(range(len(rows)), [style.literal(text) for text in labels])
        for row, text in zip(rows, ax.get_yticklabels(), strict=True):
            text.set(fontsize=size, **({"fontweight": "bold"} if row.name is None else {}))
        width -= max(len(line) for label in labels for line in label.split("\n")) * 0.56 * size / 72.0
    if not drawn.exponentiate:
        ax.locator_params(axis="x", nbins=min(max(int(width / _TICK), 2), 9))
    ax.set_xlabel(textwrap.fill(unit, max(int(72.0 * width / (0.56 * ax.xaxis.label.get_fontsize())), 10)))


def plot_trajectory(
    self: Any,
    terms: Any = None,
    *,
    alpha: float = 0.05,
    method: str | None = None,
    title: str | None = None,
    ax: Any = None,
) -> Axes | NDArray[Any]:
    """Draw estimates with their bands against the number of people, on a logarithmic axis.

    The bands are those of `PrivateResults.trajectory`; a dagger marks the `terms` that should not be relied on. They
    are names of coefficients ("level:term" of a multinomial fit, or a name for all levels) or of terms; all by default.

    `ax` is one Axes for all terms, with a legend, or a sequence of one each. Without it a figure is made, with one
    panel a term, and an array of several Axes comes back; ``axes[0].figure.savefig(path)`` saves them. Two or three
    levels of a multinomial response are side by side, the panels of a term on one scale.
    """
    fit, path = self._fit, self.trajectory(alpha, method=method)
    at, band_of = fit.places(terms, "terms"), band(fit)
    footer = "; ".join([*baselines([fit]), guarantee([self.privacy])])
    if path["low"].notna().any():
        kind = "valid at all sample sizes at once" if band_of == "anytime" else "pointwise"
        by = "" if band_of is None else f" by {METHODS[band_of].title}"
        footer = f"{100 * (1 - alpha):.6g}% bands{by}, {kind}; {footer}"
    names = [": ".join(map(str, label)) for label in fit.labels().to_numpy()]  # of a multinomial fit with the level
    kept = self.tidy()["reliable"].to_numpy()[at]
    footer += f"\n{MARK} don't rely on it: see the notes of the summary" if not kept.all() else ""
    titles = [plain(name) for name in marked([names[j] for j in at], kept)]
    curves, k, terms_each = [path.iloc[j :: len(names)] for j in at], len(at), len(fit.design.names)
    levels, of_each = (list(dict.fromkeys(one)) for one in zip(*(divmod(j, terms_each) for j in at), strict=True))
    crossed = len(levels) > 1 and at == [level * terms_each + j for level in levels for j in of_each]
    beside = crossed and len(levels) <= 3  # so that each level has a column, and each term a row of one scale
    columns = 1 if k <= 3 else 2 if k <= 8 else 3
    if crossed and (beside or len(of_each) in {2, 3}):
        columns = len(levels if beside else of_each)
    rows = math.ceil(k / columns)
    width = {1: 48, 2: 42, 3: 25}[columns]
    size = (style.COLUMN * min(columns, 2), 2.6 if k == 1 else 0.5 + 1.55 * rows)
    several, more = isinstance(ax, Sequence | np.ndarray), dict[str, Any]()
    shape, together = (1, k if several else 1), ax is not None and not several and k > 1
    if ax is None:
        titles = [style.folded(name, width, 2) for name in titles]
        shape, more = (rows, columns), {"sharex": True, "sharey": "row" if beside else False}
    with style.placed(ax, shape, size, f"{k} terms", title, **more) as grid:
        axes = grid.T.ravel() if beside else grid.ravel()  # in the order of the coefficients, level by level
        for i, (name, curve) in enumerate(zip(map(literal, titles), curves, strict=True)):
            shares = curves if together else curves[i % rows :: rows] if beside and ax is None else [curve]
            _curve(axes[0 if together else i], curve, i * together, name if together else None, pd.concat(shares))
            if not together:
                axes[i].set_title(name, loc="left")
        if together:
            axes[0].legend(frameon=False)
        for spare in axes[k:]:
            spare.remove()
        last = axes if ax is not None else grid[-1] if beside else axes[max(k - columns, 0) : k]
        for panel in last:
            panel.xaxis.set_tick_params(labelbottom=True, which="both")
            panel.set_xlabel("records")
        style.add_footer(axes[min(k, len(axes)) - 1], footer, size[0] / columns if ax is None else None)
    return axes[:k] if several or (ax is None and k > 1) else cast("Axes", axes[0])


def _curve(ax: Any, curve: pd.DataFrame, i: int, label: str | None, shares: pd.DataFrame) -> None:
    """Draw a curve with its band, and a line at zero if the curves of which one `shares` the scale come near."""
    n, inks = curve["n"].to_numpy(), style.inks_for(ax)
    colour = inks[i]
    ax.set_xscale("log")
    ax.margins(x=0.0 if len(n) > 1 else None)  # no tick before the first number of people
    if len(n) > 1:
        ax.fill_between(n, curve["low"], curve["high"], color=colour, alpha=0.2, linewidth=0)
    else:
        ax.plot(np.repeat(n, 2), curve[["low", "high"]].to_numpy()[0], color=colour, linewidth=1.2)
    marker = "o" if len(n) == 1 else None
    dash = style.DASHES[i % len(style.DASHES)]
    ax.plot(n, curve["estimate"], color=colour, linewidth=1.2, linestyle=dash, marker=marker, markersize=4, label=label)
    style.log_axis(ax, style.compact, *ax.dataLim.intervalx)
    # all of the curve, but no more about its end than three times the last band: drawn whole, bands of the beginning,
    # which are many times wider, would leave nothing to be seen of it
    values, last = shares[["estimate", "low", "high"]].to_numpy(), shares[shares["n"] == shares["n"].max()]
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    if np.isfinite(bands := last[["low", "high"]].to_numpy()).any():
        room = 3.0 * float(np.nanmax(bands[:, 1] - bands[:, 0]))
        least = max(least, float(np.nanmin(last["estimate"])) - room)
        most = min(most, float(np.nanmax(last["estimate"])) + room)
    margin = 0.05 * (most - least)
    least, most = least - margin, most + margin
    if math.isfinite(least) and least < most:
        ax.set_ylim(least, most)
    if least <= 0 <= most:
        ax.axhline(0, color=inks.grey, linewidth=0.6, linestyle=":", zorder=0)
