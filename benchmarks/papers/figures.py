"""Figures of the experiments' tables, in the style of `privreg.results.plots`. Matplotlib is imported on use."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from privreg.base.archive import write_bytes
from privreg.errors import MissingExtraError, OptionError
from privreg.results.plots.style import COLOURS, COLUMN, DASHES, GREY, MARKERS, SMALL, STYLE, TEXT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TICKS: Final = {f"{axis}tick.{what}": of for axis in "xy" for what, of in (("labelsize", SMALL), ("major.width", 0.6))}
_RC: Final = STYLE | _TICKS | {"font.size": SMALL}
SHADES: Final = ("#f0b323", "#e0703a", "#a8326d", "#3b1053", "#000000")
"""Lighter to darker, in grey too."""
TUNINGS: Final = dict.fromkeys(("published", "stated"), "published tuning") | {"efficient": "efficient tuning"}
METHODS: Final = {
    "plug_in": "plug-in",
    "plug_in_central": "central plug-in",
    "batch_means": "batch means",
    "random_scaling": "random scaling",
    "block_bootstrap": "block bootstrap",
    "path_curvature": "path curvature",
    "sandwich": "sandwich",
    "between_lanes": "between groups",
}


@contextmanager
def _canvas(rows: int, columns: int, size: tuple[float, float], **more: Any) -> Iterator[tuple[Any, Any]]:
    """A new figure, without pyplot, and its axes as an array of shape (rows, columns)."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.style import context
    except ImportError:
        raise MissingExtraError("figures need matplotlib, which is not installed: pip install matplotlib.") from None
    with context(["default", _RC]):  # the same figure in every user's style
        figure = Figure(figsize=size, layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **more)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    buffer = io.BytesIO()
    from matplotlib.style import context

    with context(["default", _RC]):
        figure.savefig(buffer, format="png", dpi=200)
    write_bytes(path, buffer.getvalue())


def _line(**style: Any) -> Any:
    """A line for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **style)


def _style(i: int, **more: Any) -> dict[str, Any]:
    """Colour and marker of the i-th line; no two of them have both."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[(i + i // len(COLOURS)) % len(MARKERS)], **more}


def _top(figure: Any, handles: Any, labels: Any, ncols: int = 3) -> None:
    """A legend above all panels."""
    figure.legend(handles, labels, loc="outside upper center", ncols=ncols, fontsize=SMALL)


def _panels(axes: Any, rows: dict[Any, str], columns: dict[Any, str]) -> Iterator[tuple[Any, Any, Any]]:
    """Each panel with its row and column, whose words stand at the left and above."""
    for row, (what, words) in zip(axes, rows.items(), strict=True):
        row[0].set_ylabel(words)
        for ax, which in zip(row, columns, strict=True):
            yield ax, what, which
    for ax, words in zip(axes[0], columns.values(), strict=True):
        ax.set_title(words)


def _where(table: pd.DataFrame, by: str = "n", **values: Any) -> pd.DataFrame:
    """Rows that have these values, in the order of a column."""
    for name, value in values.items():
        table = table[table[name] == value]
    return table.sort_values(by)


def _mu(value: Any) -> str:
    return "no privacy" if value == "none" else f"μ = {value}"


def _ticks(axis: Any, ticks: Sequence[float], words: Callable[..., str] = lambda v, _: f"{v:g}") -> None:
    """Label an axis at these values only."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(words))


def _people(ax: Any, n: Any) -> None:
    """Few labels on the axis of people."""
    n = np.unique(np.asarray(n, dtype=float))
    ax.set_xscale("log")
    if len(n) <= 6:
        ticks, gap = [n[0]], 0.16 * math.log(n[-1] / n[0])
        for v in n[1:]:
            if math.log(v / ticks[-1]) >= gap and (v == n[-1] or math.log(n[-1] / v) >= gap):
                ticks.append(v)
    else:
        ticks = [v for k in range(2, 10) for v in (10**k, 3 * 10**k) if n[0] * 0.8 <= v <= n[-1] * 1.25]
        ticks = [v for v in ticks if len(ticks) <= 4 or math.log10(v) % 1 == 0] or [n[0]]
    _ticks(ax.xaxis, ticks, _count)


def _count(value: float, _: object = None) -> str:
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def _plain_log(ax: Any, low: float, high: float) -> None:
    """Labels 1, 2, 5 × powers of ten, no more than six."""
    ax.set_yscale("log")
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [d * 10.0**k for k in range(-9, 9) for d in digits if low * 0.95 <= d * 10.0**k <= high * 1.05]
        if len(ticks) <= 6:
            break
    _ticks(ax.yaxis, ticks)


# --- coverage and length -------------------------------------------------------------------------------


def coverage_figure(table: pd.DataFrame, panel: str = "mu", level: float = 0.95, factor: str = "_x100") -> Any:
    """Draw coverage and length against n: a column a panel, a colour a method.

    `table` compares printed numbers, published and efficient tuning; of several designs the first is drawn. Columns of
    lengths end with `factor`, and `panel` is the column of panels.
    """
    if table.empty:
        raise OptionError("there are no runs under published tuning yet to draw others beside; run those cells too.")
    if "p" in table:
        first = table.iloc[0]
        table = table[(table["p"] == first.p) & (table["rho"] == first.rho) & (table["setting"] == "stated")]
    table = table[table["method"].isin(list(METHODS)) & (table["method"] != "plug_in_central")]
    values, methods = list(dict.fromkeys(table[panel])), [m for m in METHODS if m in set(table["method"])]
    many = len(values)
    with _canvas(2, many, (max(COLUMN, 1.75 * many + 0.6), 3.9), sharex=True, sharey="row") as (figure, axes):
        for column, value in zip(axes.T, values, strict=True):
            for i, method in enumerate(methods):
                group = _where(table, method=method, **{panel: value})
                for ax, what in zip(column, ("coverage", f"length{factor}"), strict=True):
                    kind = _style(i, markersize=3.2, linewidth=1.0)
                    ax.plot(group["n"], group[what], label=METHODS[method], **kind)
                    ax.plot(group["n"], group[f"efficient_{what}"], **{**kind, "linestyle": "--", "markersize": 2.2})
                    hollow = _style(i, markersize=4.2, markerfacecolor="white", markeredgewidth=0.8)
                    ax.plot(group["n"], group[f"published_{what}"], linestyle=":", linewidth=0.7, **hollow)
            column[0].axhline(100 * level, color=GREY, linewidth=0.6, linestyle="-", zorder=0)
            column[0].set_title(_mu(value) if panel == "mu" else str(value))
            _people(column[1], table["n"])
        lengths = table[[c for c in map(str, table.columns) if c.endswith(f"length{factor}")]].to_numpy(dtype=float)
        lengths = lengths[np.isfinite(lengths) & (lengths > 0)]
        if lengths.size:
            _plain_log(axes[1, 0], lengths.min(), lengths.max())
        shares = table[[c for c in map(str, table.columns) if c.endswith("coverage")]].to_numpy(dtype=float)
        lowest = float(np.nanmin(shares)) if np.isfinite(shares).any() else 80.0
        axes[0, 0].set_ylim(max(0.0, min(lowest - 1.5, 100 * level - 5)), 101)
        axes[0, 0].set_ylabel("coverage, %")
        axes[1, 0].set_ylabel("mean length × 100" if factor else "mean length")
        figure.supxlabel("people", fontsize=TEXT)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        common = {"color": GREY, "linewidth": 1.0, "markersize": 4.2, "markerfacecolor": "white"}
        styles = {"published tuning": "-", "efficient tuning": "--", "printed": ":"}
        if table["published_coverage"].isna().all():  # of fewer people than are printed
            del styles["printed"]
        lines = [_line(linestyle=d, marker="o" if d == ":" else None, **common) for d in styles.values()]
        _top(figure, lines + handles, [*styles, *labels])
    return figure


def level_figure(table: pd.DataFrame) -> Any:
    """Draw the share of intervals that miss against the nominal one: a column a budget, a row a tuning."""
    tunings = {s: f"{words}\nintervals that miss, %" for s, words in TUNINGS.items() if s in set(table["setting"])}
    budgets = {mu: _mu(mu) for mu in table["mu"]}
    size = (max(COLUMN, 1.75 * len(budgets) + 0.6), 1.9 * len(tunings) + 0.7)
    names = [m for m in METHODS if m in set(table["method"])]
    with _canvas(len(tunings), len(budgets), size, sharex=True, sharey=True) as (figure, axes):
        for ax, setting, mu in _panels(axes, tunings, budgets):
            ax.plot([0, 10.5], [0, 10.5], color=GREY, linewidth=0.6, zorder=0)
            for i, method in enumerate(names):
                group = _where(table, "alpha", setting=setting, mu=mu, method=method)
                if len(group):
                    miss = 100 - group["coverage"]
                    ends = [miss - (100 - group["coverage_high"]), (100 - group["coverage_low"]) - miss]
                    place, kind = 100 * group["alpha"] + 0.08 * (i - len(names) / 2), _style(i, markersize=2.8)
                    ax.errorbar(place, miss, yerr=ends, linewidth=0.9, elinewidth=0.4, **kind)
            ax.set_xticks([1, 5, 10])
        figure.supxlabel("nominal, %", fontsize=TEXT)
        handles = [_line(**_style(i, markersize=3, linewidth=0.9)) for i in range(len(names))]
        _top(figure, handles, [METHODS[m] for m in names])
    return figure


# --- paths ---------------------------------------------------------------------------------------------


def path_figure(table: pd.DataFrame, key: str, footer: str = "") -> Any:
    """Draw estimates with bands against n: a row a coefficient, a column for each tuning, each with its group scale.

    `table` has columns term, method, n, truth, estimate, low, high, replication (the first is drawn), and `key`,
    that of the tuning, by which panels stand in columns.
    """
    table = table[table["replication"] == table["replication"].min()]
    terms = {term: str(term).replace("_", "\n") for term in table["term"]}
    columns = {k: words for k, words in TUNINGS.items() if k in set(table[key])}
    names = [m for m in METHODS if m in set(table["method"])]
    size = (2 * COLUMN if len(columns) > 1 else COLUMN, 1.15 * len(terms) + 0.9)
    pairs = [{"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]} for i in range(len(names))]
    with _canvas(len(terms), len(columns), size, sharex=True) as (figure, axes):
        for ax, term, which in _panels(axes, terms, columns):
            there = _where(table, term=term, **{key: which})
            held = [(method, pair) for method, pair in zip(names, pairs, strict=True) if method in set(there["method"])]
            for i, (method, pair) in enumerate(held):
                group = _where(there, method=method)
                for end in ("low", "high"):
                    ax.plot(group["n"], group[end], linewidth=0.9, **pair)
                if i == 0:
                    shade = {"color": pair["color"], "alpha": 0.08, "linewidth": 0}
                    ax.fill_between(group["n"], group["low"], group["high"], **shade)
                ax.plot(group["n"], group["estimate"], color="black", linewidth=1.0)
                ax.axhline(group["truth"].iloc[-1], color=GREY, linewidth=0.7, linestyle=":")
            _people(ax, table["n"])
            # early bands are wide: the later half of the path (on the log scale) sets the axis
            late = there[there["n"] >= np.sqrt(float(there["n"].min()) * float(there["n"].max()))]
            low, high = float(late["low"].min()), float(late["high"].max())
            ax.set_ylim(low - 0.15 * (high - low), high + 0.15 * (high - low))
        figure.supxlabel(f"people{f' ({footer})' if footer else ''}", fontsize=TEXT)
        handles = [_line(color="black", linewidth=1.0), _line(color=GREY, linewidth=0.7, linestyle=":")]
        labels = ["estimate", "truth" if not footer else "least squares", *(METHODS[m] for m in names)]
        _top(figure, [*handles, *(_line(**pair) for pair in pairs)], labels)
    return figure


def coefficient_figure(table: pd.DataFrame, tidy: pd.DataFrame) -> Any:
    """Draw the differences of coefficients from least squares, printed and ours, with the range over permutations."""
    terms = [t for t in table["term"] if t not in {"worst_error", "test_mse"}]
    at = table.set_index("term").loc[terms]
    there = tidy.set_index(["tuning", "term"])
    with _canvas(1, 1, (COLUMN, 0.27 * len(terms) + 1.2)) as (figure, axes):
        ax = axes[0, 0]
        y = np.arange(len(terms), dtype=float)
        ax.axvline(0, color=GREY, linewidth=0.6, linestyle=":")
        hollow = {"color": COLOURS[0], "markersize": 4, "markerfacecolor": "white", "label": "printed"}
        ax.plot(at["published_ldp_sgd"] - at["published_ols"], y - 0.22, "o", **hollow)
        for i, (tuning, name) in enumerate((("published", "published_tuning"), ("efficient", "efficient"))):
            if tuning not in there.index.get_level_values(0):
                continue
            rows = there.loc[tuning].loc[terms]
            low, high = rows["low"] - at["ols"], rows["high"] - at["ols"]
            place, colour = y + 0.22 * i, COLOURS[1 + i]
            ax.hlines(place, low, high, color=colour, linewidth=1.0)
            ax.plot(at[name] - at["ols"], place, MARKERS[1 + i], color=colour, markersize=3.4, label=f"{tuning} tuning")
        ax.set_yticks(y, [t.replace("_", " ") for t in terms])
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(len(terms) - 0.4, -0.6)
        words = "standardised coefficient less least squares'\n(reconstructed records; lines: all permutations)"
        figure.supxlabel(words, fontsize=TEXT)
        _top(figure, *ax.get_legend_handles_labels())
    return figure


# --- errors and streams --------------------------------------------------------------------------------


ITERATES: Final = {"average": "LDP-ASGD (average)", "last": "LDP-SGD (last)"}
MEASURES: Final = {"square": "parameter distance", "loss": "loss distance"}


def _budget(value: str) -> str:
    """A budget in words: "mu=1", "eps=1", "Unif(1, 2)" or "none"."""
    if value == "none":
        return "no noise"
    return value.replace("mu=", "μ = ").replace("eps=", "ε = ").replace("Unif(1, 2)", "μ ~ U(1, 2)")


def rate_figure(table: pd.DataFrame, measure: str) -> Any:
    """Draw a measure of errors against n, both logarithmic: rows d and iterates, a column a budget, a shade an α."""
    budgets = {value: _budget(value) for value in table["budget"]}
    sizes = list(dict.fromkeys(table["d"]))
    rows = {(d, name): f"{words}\n{MEASURES[measure]}, d = {d}" for d in sizes for name, words in ITERATES.items()}
    lines = list(dict.fromkeys(table["alpha"]))
    size = (max(COLUMN, 1.7 * len(budgets) + 0.6), 1.7 * len(rows) + 0.6)
    with _canvas(len(rows), len(budgets), size, sharex=True, sharey=True) as (figure, axes):
        for ax, (d, iterate), value in _panels(axes, rows, budgets):
            for i, alpha in enumerate(lines):
                group = _where(table, alpha=alpha, iterate=iterate, budget=value, d=d)
                kind = {"color": SHADES[i], "linestyle": "-", "label": f"α = {alpha}"}
                if alpha == "efficient":
                    kind = {"color": COLOURS[2], "linestyle": "--", "label": "default tuning"}
                drawn = group[measure].clip(lower=1e-9)
                ax.plot(group["n"], drawn, marker=MARKERS[i], markersize=2.6, linewidth=1.0, **kind)
            _people(ax, table["n"])
        shown = table[measure][table[measure] > 1e-9]
        _plain_log(axes[0, 0], float(shown.min()), float(shown.max()))
        figure.supxlabel("people", fontsize=TEXT)
        _top(figure, *axes[0, 0].get_legend_handles_labels())
    return figure


def distance_figure(table: pd.DataFrame, boxes: pd.DataFrame) -> Any:
    """Draw the parameter distance against n by budget, and boxplots of it over runs by n: a row an iterate."""
    kind = {"widths": 0.6, "medianprops": {"color": COLOURS[0], "linewidth": 1.2}, "flierprops": {"markersize": 3}}
    budgets, sizes = list(dict.fromkeys(table["budget"])), sorted(set(boxes["n"]))
    words = {"paths": "mean over runs", "boxes": "runs at μ = 2"}
    with _canvas(2, 2, (2 * COLUMN, 4.0), sharey=True) as (figure, axes):
        for ax, iterate, what in _panels(axes, ITERATES, words):
            if what == "paths":
                for i, budget in enumerate(budgets):
                    group = _where(table, budget=budget, iterate=iterate)
                    ax.plot(group["n"], group["square"], label=_budget(budget), **_style(i, markersize=2.6))
                _people(ax, table["n"])
            else:
                ax.boxplot([_where(boxes, "square", n=n, iterate=iterate)["square"] for n in sizes], **kind)
                ax.set_xticks(range(1, len(sizes) + 1), [_count(n) for n in sizes])
        _plain_log(axes[0, 0], float(table["square"].min()), float(table["square"].max()))
        figure.supxlabel("people", fontsize=TEXT)
        figure.supylabel("parameter distance", fontsize=TEXT)
        _top(figure, *axes[0, 0].get_legend_handles_labels())
    return figure


def order_figure(orders: pd.DataFrame) -> Any:
    """Draw the relative orders of the average over the last iterate against α."""
    with _canvas(1, 1, (COLUMN, 2.6)) as (figure, axes):
        for i, what in enumerate(("parameter", "loss")):
            axes[0, 0].plot(orders["alpha"], orders[what], label=f"{what} distance", **_style(i, markersize=2.6))
        axes[0, 0].set(xlabel="α", ylabel="relative order of the average")
        _top(figure, *axes[0, 0].get_legend_handles_labels())
    return figure


def stream_figure(along: pd.DataFrame, final: pd.DataFrame) -> Any:
    """Draw test loss and accuracy against n: a column for each α and the efficient tuning, a shade for each μ."""
    families, last = along["family"].unique(), int(along["n"].max())
    along = along[along["tuning"] != "not private"].assign(mu=along["mu"].astype(str))
    shades = {m: s for m, s in zip(("0.5", "1", "2", "3", "none"), SHADES, strict=True) if m in set(along["mu"])}
    pairs = zip(along["tuning"], along["alpha"], strict=True)
    panels = {pair: "efficient" if pair[0] == "efficient" else f"α = {pair[1]}" for pair in pairs}
    panels = panels or {("not private", ""): "not private"}
    rows = {(f, "loss"): f"{f}\n{'test error' if f == 'linear' else 'test log-loss'}" for f in families}
    rows |= {(f, "accuracy"): f"{f}\naccuracy" for f in families if f != "linear"}
    rows = {pair: rows[pair] for f in families for pair in rows if pair[0] == f}
    with _canvas(len(rows), len(panels), (2 * COLUMN, 1.55 * len(rows) + 1.1), sharex=True, sharey="row") as made:
        figure, axes = made
        for ax, (family, what), (tuning, alpha) in _panels(axes, rows, panels):
            ends = _where(final, family=family, tuning="not private").set_index("iterate")[what]
            there = _where(along, family=family, tuning=tuning, alpha=alpha)
            for mu, shade in shades.items():
                for iterate, dash, width in (("last", (0, (2, 1)), 0.6), ("average", "-", 1.1)):
                    line = _where(there, mu=mu, iterate=iterate)
                    ax.plot(line["n"], line[what], color=shade, linestyle=dash, linewidth=width)
            for name, dash in (("likelihood", ":"), ("alone", "-.")):
                if name in ends:
                    ax.axhline(ends[name], color=GREY, linewidth=0.8, linestyle=dash)
            _ticks(ax.xaxis, [0, last // 2, last], _count)
            ax.grid(axis="y", color="0.9", linewidth=0.5)
            if {"likelihood", "alone"} <= set(ends.index) and what == "loss":
                ax.set(yscale="log", ylim=(0.8 * ends["likelihood"], 3.0 * ends["alone"]))
                _ticks(ax.yaxis, [0.05, 0.1, 0.2, 0.5, 1, 2, 5])
            elif "alone" in ends:
                ax.set_ylim(0.97 * ends["alone"], 1.0)
        figure.supxlabel("people in the stream (reconstructed records)", fontsize=TEXT)
        grey = {"average": ("-", 1.1), "last iterate": ((0, (2, 1)), 0.6)}
        grey |= {"not private": (":", 0.8), "no covariates": ("-.", 0.8)}
        handles = [_line(color=c) for c in shades.values()]
        handles += [_line(color=GREY, linewidth=width, linestyle=dash) for dash, width in grey.values()]
        names = [*(f"μ = {m}" if m != "none" else "no noise" for m in shades), *grey]
        _top(figure, handles, names, 5)
    return figure
