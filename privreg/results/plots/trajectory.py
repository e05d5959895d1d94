"""Estimates with their bands along a stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.collector.inference.methods import METHODS
from privreg.results.data import band
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.tables import MARK, marked, plain


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

    The bands are those of `PrivateResults.trajectory`. A dagger marks the terms that should not be relied on.

    Parameters
    ----------
    terms : str or sequence of str, optional
        Coefficients wanted, or terms, such as a factor; all by default. Of a multinomial fit "level:term", or a name
        without the level for all levels.
    ax : Axes or sequence of Axes, optional
        Where to draw: one Axes for all terms, with a legend, or a sequence of one each. Without it a figure is made,
        with one panel a term, and an array of several Axes comes back; ``axes[0].figure.savefig(path)`` saves them. Two
        or three levels of a multinomial response are side by side, the panels of a term on one scale.
    """
    fit, path = self._fit, self.trajectory(alpha, method=method)
    at, band_of = fit.places(terms, "terms"), band(fit)
    footer = "; ".join([*style.baselines([fit]), style.guarantee([self.privacy])])
    if path["low"].notna().any():
        kind = "valid at all sample sizes at once" if band_of == "anytime" else "pointwise"
        by = "" if band_of is None else f" by {METHODS[band_of].title}"
        footer = f"{100 * (1 - alpha):.6g}% bands{by}, {kind}; {footer}"
    names = [": ".join(map(str, label)) for label in fit.labels().to_numpy()]  # of a multinomial fit with the level
    kept = self.tidy()["reliable"].to_numpy()[at]
    if not kept.all():
        footer += f"\n{MARK} don't rely on it: see the notes of the summary"
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
        for i, (name, curve) in enumerate(zip(map(style.literal, titles), curves, strict=True)):
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
    ax.fill_between(n, curve["low"], curve["high"], color=colour, alpha=0.2, linewidth=0)
    marker = "o" if len(n) == 1 else None
    dash = style.DASHES[i % len(style.DASHES)]
    ax.plot(n, curve["estimate"], color=colour, linewidth=1.2, linestyle=dash, marker=marker, markersize=4, label=label)
    style.log_axis(ax, style.compact, *ax.dataLim.intervalx)
    least, most = _shown(shares)
    if math.isfinite(least) and least < most:
        ax.set_ylim(least, most)
    if least <= 0 <= most:
        ax.axhline(0, color=inks.grey, linewidth=0.6, linestyle=":", zorder=0)


def _shown(curve: pd.DataFrame) -> tuple[float, float]:
    """Limits of the vertical axis: all of the curve, but no more about its end than three times the last band.

    Bands are many times wider at the beginning; drawn whole they would leave nothing to be seen of the end.
    """
    values = curve[["estimate", "low", "high"]].to_numpy()
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    last = curve[curve["n"] == curve["n"].max()]
    bands = last[["low", "high"]].to_numpy()
    if np.isfinite(bands).any():
        room = 3.0 * float(np.nanmax(bands[:, 1] - bands[:, 0]))
        least = max(least, float(np.nanmin(last["estimate"])) - room)
        most = min(most, float(np.nanmax(last["estimate"])) + room)
    margin = 0.05 * (most - least)
    return least - margin, most + margin
