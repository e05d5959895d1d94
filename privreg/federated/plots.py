"""The figure of a federated fit, in the house style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from privreg.errors import OptionError, choose, shown
from privreg.results.data import ResultData
from privreg.results.plots.coefficients import unit_of
from privreg.results.plots.steps import about_steps, steps_of
from privreg.results.plots.style import (
    COLUMN,
    CONSTANTS,
    DASHES,
    add_corner,
    add_footer,
    inks_for,
    literal,
    panels,
    pyplot,
)
from privreg.tables import plain, shorten

MOST: Final = 12
"""Curves drawn unless terms are named: more can't be told apart."""


def over_rounds(fit: ResultData, told: str, terms: Any, ax: Any) -> Any:
    """Draw coefficients against rounds, and below them what is `told` of privacy; see `FederatedResults.plot`."""
    pyplot()
    known = list(fit.names)
    slopes = [name for name, term in zip(known, fit.labels()["term"], strict=True) if term not in CONSTANTS]
    wanted = (slopes or known)[:MOST] if terms is None else [terms] if isinstance(terms, str) else terms
    if not isinstance(wanted, Sequence) or not wanted:
        raise OptionError(f"terms={shown(terms)} must be the name of a coefficient or several: {', '.join(known)}.")
    places = [known.index(choose("terms", t, known)) for t in wanted]
    steps = steps_of([fit])
    values = fit.trail_params[:, places] * [steps[known[j]].size for j in places]
    short = shorten([plain(known[j]) for j in places], 24)
    pairs = zip(short, (steps[known[j]].words for j in places), strict=True)
    labels = [", ".join(filter(None, pair)) for pair in pairs]
    words = unit_of(fit, exponentiate=False)
    unit = words.stepped if any(steps[known[j]].words for j in places) else words.plain
    about = about_steps(steps[known[j]] for j in places)
    some = [] if len(places) == len(known) else [f"{len(places)} of {len(known)} terms"]
    footer = "; ".join([*about, told, *some])
    if ax is not None:
        add_corner(_curves(ax, values, labels, unit), footer)
        return ax
    with panels(1, 1, (COLUMN, 2.6)) as (_, grid):
        add_footer(_curves(grid[0, 0], values, labels, unit), footer, COLUMN)
    return grid[0, 0]


def _curves(ax: Any, values: Any, names: list[str], unit: str) -> Any:
    inks = inks_for(ax)
    hues = len(inks.colours)
    for i, (name, column) in enumerate(zip(names, values.T, strict=True)):
        style = {"color": inks[i], "linestyle": DASHES[i // hues % len(DASHES)]}
        ax.plot(np.arange(len(column)), column, linewidth=1.2, label=literal(name), **style)
    ax.axhline(0, color=inks.grey, linewidth=0.6, linestyle=":", zorder=0)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="rounds", ylabel=unit)
    if len(names) > 1:
        ax.legend(frameon=False)
    return ax
