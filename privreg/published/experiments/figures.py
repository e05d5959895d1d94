"""Figures of the experiments' tables, in the style of `privreg.results.plots`. Matplotlib is imported on use."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from privreg.errors import MissingExtraError
from privreg.files.archive import write_bytes
from privreg.results.plots.style import COLOURS, COLUMN, DASHES, GREY, MARKERS, SMALL, TEXT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RC: Final = {
    "font.size": SMALL,
    "axes.labelsize": TEXT,
    "axes.titlesize": TEXT,
    "axes.linewidth": 0.6,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
}
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
    """A new figure, apart from pyplot, and its axes as an array of shape (rows, columns)."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.style import context
    except ImportError:
        raise MissingExtraError(
            "figures need matplotlib, which is not installed: pip install privreg[experiments]."
        ) from None
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


def _people(ax: Any, n: Any) -> None:
    """Few labels on the axis of people."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

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
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(_count))


def _count(value: float, _: object = None) -> str:
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def _plain_log(ax: Any, low: float, high: float) -> None:
    """Labels 1, 2, 5 × powers of ten, no more than six."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    ax.set_yscale("log")
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [d * 10.0**k for k in range(-9, 9) for d in digits if low * 0.95 <= d * 10.0**k <= high * 1.05]
        if len(ticks) <= 6:
            break
    ax.yaxis.set_major_locator(FixedLocator(ticks))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.yaxis.set_minor_locator(NullLocator())


# --- coverage and length -------------------------------------------------------------------------------


def coverage_figure(table: pd.DataFrame, panel: str = "mu", level: float = 0.95, factor: str = "_x100") -> Any:
    """Draw coverage and length against n: a column a panel, a colour a method.

    `table` compares printed numbers, published and efficient tuning; of several designs the first is drawn. Columns of
    lengths end with `factor`, and `panel` tells panels apart.
    """
    if "p" in table:
        first = table.iloc[0]
        table = table[(table["p"] == first.p) & (table["rho"] == first.rho) & (table["setting"] == "stated")]
    table = table[table["method"].isin(list(METHODS)) & (table["method"] != "plug_in_central")]
    panels, methods = list(dict.fromkeys(table[panel])), [m for m in METHODS if m in set(table["method"])]
    many = len(panels)
    with _canvas(2, many, (max(COLUMN, 1.75 * many + 0.6), 3.9), sharex=True, sharey="row") as (figure, axes):
        for column, value in zip(axes.T, panels, strict=True):
            for i, method in enumerate(methods):
                own = table[(table[panel] == value) & (table["method"] == method)].sort_values("n")
                colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
                for ax, what in zip(column, ("coverage", f"length{factor}"), strict=True):
                    kind = {"color": colour, "marker": marker, "markersize": 3.2, "linewidth": 1.0}
                    ax.plot(own["n"], own[what], label=METHODS[method], **kind)
                    ax.plot(own["n"], own[f"efficient_{what}"], **{**kind, "linestyle": "--", "markersize": 2.2})
                    printed = own[f"published_{what}"]
                    ax.plot(own["n"], printed, color=colour, marker=marker, markersize=4.2, linestyle=":",
                            linewidth=0.7, markerfacecolor="white", markeredgewidth=0.8)  # fmt: skip
            column[0].axhline(100 * level, color=GREY, linewidth=0.6, linestyle="-", zorder=0)
            words = {"mu": "no privacy" if value == "none" else f"μ = {value}"}.get(panel, str(value))
            column[0].set_title(words)
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
        _legend(figure, axes[0, 0], ["published tuning", "efficient tuning", "printed"], ["-", "--", ":"])
    return figure


def _legend(figure: Any, ax: Any, words: list[str], dashes: list[str]) -> None:
    handles, labels = ax.get_legend_handles_labels()
    common = {"color": GREY, "linewidth": 1.0, "markersize": 4.2, "markerfacecolor": "white"}
    styles = [_line(linestyle=d, marker="o" if d == ":" else None, **common) for d in dashes]
    figure.legend(styles + handles, words + labels, loc="outside upper center", ncols=3, fontsize=SMALL)


def level_figure(table: pd.DataFrame) -> Any:
    """Draw the share of intervals that miss against the nominal one: a column a budget, a row a tuning."""
    settings = [s for s in ("stated", "efficient") if s in set(table["setting"])]
    budgets = list(dict.fromkeys(table["mu"]))
    size = (max(COLUMN, 1.75 * len(budgets) + 0.6), 1.9 * len(settings) + 0.7)
    names = [m for m in METHODS if m in set(table["method"])]
    with _canvas(len(settings), len(budgets), size, sharex=True, sharey=True) as (figure, axes):
        for r, (row, setting) in enumerate(zip(axes, settings, strict=True)):
            for ax, mu in zip(row, budgets, strict=True):
                ax.plot([0, 10.5], [0, 10.5], color=GREY, linewidth=0.6, zorder=0)
                for i, method in enumerate(names):
                    own = table[(table["setting"] == setting) & (table["mu"] == mu) & (table["method"] == method)]
                    own = own.sort_values("alpha")
                    if len(own):
                        miss = 100 - own["coverage"]
                        ends = [miss - (100 - own["coverage_high"]), (100 - own["coverage_low"]) - miss]
                        ax.errorbar(
                            100 * own["alpha"] + 0.08 * (i - len(names) / 2), miss, yerr=ends,
                            color=COLOURS[i % len(COLOURS)], marker=MARKERS[i % len(MARKERS)], markersize=2.8,
                            linewidth=0.9, elinewidth=0.4,
                        )  # fmt: skip
                if r == 0:
                    ax.set_title("no privacy" if mu == "none" else f"μ = {mu}")
                ax.set_xticks([1, 5, 10])
            row[0].set_ylabel(f"{'published' if setting == 'stated' else 'efficient'} tuning\nintervals that miss, %")
        figure.supxlabel("nominal, %", fontsize=TEXT)
        pairs = [(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i in range(len(names))]
        handles = [_line(color=c, marker=m, markersize=3, linewidth=0.9) for c, m in pairs]
        figure.legend(handles, [METHODS[m] for m in names], loc="outside upper center", ncols=3, fontsize=SMALL)
    return figure


# --- paths ---------------------------------------------------------------------------------------------


def path_figure(table: pd.DataFrame, key: str, footer: str = "") -> Any:
    """Draw estimates with bands against n: a row a coefficient, a column for each tuning, each with its own scale.

    `table` has columns term, method, n, truth, estimate, low, high, replication (the first is drawn), and `key`, which
    tells the columns of panels, published and efficient tuning, apart.
    """
    table = table[table["replication"] == table["replication"].min()]
    terms, columns = list(dict.fromkeys(table["term"])), [k for k in TUNINGS if k in set(table[key])]
    names = [m for m in METHODS if m in set(table["method"])]
    size = (2 * COLUMN if len(columns) > 1 else COLUMN, 1.15 * len(terms) + 0.9)
    with _canvas(len(terms), len(columns), size, sharex=True) as (figure, axes):
        for r, (row, term) in enumerate(zip(axes, terms, strict=True)):
            there = table[table["term"] == term]
            for ax, which in zip(row, columns, strict=True):
                for i, method in enumerate(names):
                    own = there[(there[key] == which) & (there["method"] == method)].sort_values("n")
                    if own.empty:
                        continue
                    colour = COLOURS[i % len(COLOURS)]
                    for end in ("low", "high"):
                        ax.plot(own["n"], own[end], color=colour, linewidth=0.9, linestyle=DASHES[i % len(DASHES)])
                    if i == 0:
                        ax.fill_between(own["n"], own["low"], own["high"], color=colour, alpha=0.08, linewidth=0)
                    ax.plot(own["n"], own["estimate"], color="black", linewidth=1.0)
                    ax.axhline(own["truth"].iloc[-1], color=GREY, linewidth=0.7, linestyle=":")
                _people(ax, table["n"])
                # early bands are wide: the later half of the path (on the log scale) sets the axis
                own = there[there[key] == which]
                late = own[own["n"] >= np.sqrt(float(own["n"].min()) * float(own["n"].max()))]
                low, high = float(late["low"].min()), float(late["high"].max())
                ax.set_ylim(low - 0.15 * (high - low), high + 0.15 * (high - low))
                if r == 0:
                    ax.set_title(TUNINGS[which])
            row[0].set_ylabel(str(term).replace("_", "\n"))
        figure.supxlabel(f"people{f' ({footer})' if footer else ''}", fontsize=TEXT)
        handles = [_line(color="black", linewidth=1.0), _line(color=GREY, linewidth=0.7, linestyle=":")]
        pairs = [(COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]) for i in range(len(names))]
        handles += [_line(color=c, linestyle=d) for c, d in pairs]
        labels = ["estimate", "truth" if not footer else "least squares", *(METHODS[m] for m in names)]
        figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=SMALL)
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
        ax.plot(at["published_ldp_sgd"] - at["published_ols"], y - 0.22, "o", color=COLOURS[0], markersize=4,
                markerfacecolor="white", label="printed")  # fmt: skip
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
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=SMALL)
    return figure


# --- errors and streams --------------------------------------------------------------------------------


def rate_figure(table: pd.DataFrame, panel: str, words: str) -> Any:
    """Draw mean square errors against n, both logarithmic: a row an iterate, a column a panel, a shade an exponent."""
    values, there = list(dict.fromkeys(table[panel])), set(table["alpha"])
    lines = [a for a in ("1/3", "1/2", "2/3", "1", "efficient") if a in there]
    size = (max(COLUMN, 1.7 * len(values) + 0.6), 4.0)
    with _canvas(2, len(values), size, sharex=True, sharey=True) as (figure, axes):
        for r, (row, iterate) in enumerate(zip(axes, ("average", "last"), strict=True)):
            for ax, value in zip(row, values, strict=True):
                for i, alpha in enumerate(lines):
                    own = table[(table[panel] == value) & (table["alpha"] == alpha) & (table["iterate"] == iterate)]
                    own = own.sort_values("n")
                    default = alpha == "efficient"
                    ax.plot(
                        own["n"], own["mse"], color=COLOURS[2] if default else SHADES[i],
                        linestyle="--" if default else "-", marker=MARKERS[i], markersize=2.6, linewidth=1.0,
                        label="default tuning" if default else f"α = {alpha}",
                    )  # fmt: skip
                _people(ax, table["n"])
                if r == 0:
                    ax.set_title(f"{words}{value:g}")
            row[0].set_ylabel(f"{iterate} iterate\nmean square error")
        _plain_log(axes[0, 0], float(table["mse"].min()), float(table["mse"].max()))
        figure.supxlabel("people", fontsize=TEXT)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=SMALL)
    return figure


def stream_figure(along: pd.DataFrame, final: pd.DataFrame) -> Any:
    """Draw test loss and accuracy against n: a column for each α and the efficient tuning, a shade for each μ."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    along = along[along["tuning"] != "not private"].assign(mu=along["mu"].astype(str))
    shades = {m: s for m, s in zip(("0.5", "1", "2", "3", "none"), SHADES, strict=True) if m in set(along["mu"])}
    panels = list(dict.fromkeys(zip(along["tuning"], along["alpha"], strict=True)))
    rows = [(f, what) for f in dict.fromkeys(along["family"]) for what in ("loss", "accuracy")]
    rows = [(f, what) for f, what in rows if (f, what) != ("linear", "accuracy")]
    size = (2 * COLUMN, 1.55 * len(rows) + 1.1)
    with _canvas(len(rows), len(panels), size, sharex=True, sharey="row") as (figure, axes):
        for r, (row, (family, what)) in enumerate(zip(axes, rows, strict=True)):
            ends = final[(final["family"] == family) & (final["tuning"] == "not private")].set_index("iterate")[what]
            for ax, (tuning, alpha) in zip(row, panels, strict=True):
                there = along[(along["family"] == family) & (along["tuning"] == tuning) & (along["alpha"] == alpha)]
                for mu, shade in shades.items():
                    for iterate, dash, width in (("last", (0, (2, 1)), 0.6), ("average", "-", 1.1)):
                        line = there[(there["mu"] == mu) & (there["iterate"] == iterate)].sort_values("n")
                        ax.plot(line["n"], line[what], color=shade, linestyle=dash, linewidth=width)
                for name, dash in (("likelihood", ":"), ("alone", "-.")):
                    if name in ends:
                        ax.axhline(ends[name], color=GREY, linewidth=0.8, linestyle=dash)
                ax.xaxis.set_major_locator(FixedLocator([0, int(along["n"].max()) // 2, int(along["n"].max())]))
                ax.xaxis.set_major_formatter(FuncFormatter(_count))
                ax.grid(axis="y", color="0.9", linewidth=0.5)
                if r == 0:
                    ax.set_title("efficient" if tuning == "efficient" else f"α = {alpha}")
            loss = "test error" if family == "linear" else "test log-loss"
            row[0].set_ylabel(f"{family}\n{loss if what == 'loss' else 'accuracy'}")
            if {"likelihood", "alone"} <= set(ends.index) and what == "loss":
                row[0].set_yscale("log")
                row[0].set_ylim(0.8 * ends["likelihood"], 3.0 * ends["alone"])
                row[0].yaxis.set_major_locator(FixedLocator([0.05, 0.1, 0.2, 0.5, 1, 2, 5]))
                row[0].yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
                row[0].yaxis.set_minor_locator(NullLocator())
            elif "alone" in ends:
                row[0].set_ylim(0.97 * ends["alone"], 1.0)
        figure.supxlabel("people in the stream (reconstructed records)", fontsize=TEXT)
        handles = [_line(color=c) for c in shades.values()]
        names = [f"μ = {m}" if m != "none" else "no noise" for m in shades]
        for name, dash, width in (
            ("average", "-", 1.1), ("last iterate", (0, (2, 1)), 0.6), ("not private", ":", 0.8),
            ("no covariates", "-.", 0.8),
        ):  # fmt: skip
            handles.append(_line(color=GREY, linewidth=width, linestyle=dash))
            names.append(name)
        figure.legend(handles, names, loc="outside upper center", ncols=5, fontsize=SMALL)
    return figure
