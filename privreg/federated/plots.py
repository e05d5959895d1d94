"""The figure of a federated fit, in the house style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.errors import OptionError, choose, shown
from privreg.plots import COLUMN, DASHES, _corner, _footer, _inks, _literal, _panels, _pyplot, _unit_label
from privreg.tables import plain, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privreg.federated.results import FederatedResults

__all__ = ["over_rounds"]

APART: Final = 10.0
"""Ratio of the largest coefficients from which on each has a unit of its own."""

MOST: Final = 12
"""Curves drawn unless terms are named: more can't be told apart."""


def over_rounds(results: FederatedResults, terms: Any, ax: Any) -> Axes:
    """Draw coefficients against rounds; see `FederatedResults.plot`."""
    _pyplot()
    known = list(results._fit.names)
    wanted = known[:MOST] if terms is None else [terms] if isinstance(terms, str) else terms
    if not isinstance(wanted, Sequence) or not wanted:
        raise OptionError(f"terms={shown(terms)} must be the name of a coefficient or several: {', '.join(known)}.")
    places = [known.index(choose("terms", t, known)) for t in wanted]
    values = results._outside[:, places]
    footer = results.privacy.headline + ("" if len(places) == len(known) else f"; {len(places)} of {len(known)} terms")
    if ax is not None:
        _curves(ax, values, [known[j] for j in places])
        _corner(ax, footer)
        given: Axes = ax
        return given
    with _panels(1, 1, (COLUMN, 2.6)) as (_, grid):
        made: Axes = grid[0, 0]
        _curves(made, values, [known[j] for j in places])
        _footer(made, footer, COLUMN)
    return made


def _powers(values: Any) -> list[int]:
    """Powers of ten by which coefficients of very different sizes are made comparable; 0 for all if they are."""
    sizes = np.abs(values).max(axis=0, initial=0.0)
    seen = sizes[sizes > 0.0]
    if not seen.size or seen.max() < APART * seen.min():
        return [0] * values.shape[1]
    return [math.floor(math.log10(s)) if s > 0.0 else 0 for s in sizes]


def _curves(ax: Any, values: Any, names: list[str]) -> None:
    powers, inks = _powers(values), _inks(ax)
    hues = len(inks.colours)
    for i, (name, column) in enumerate(zip(shorten(map(plain, names), 24), values.T, strict=True)):
        unit = _unit_label(powers[i])
        name, column = name + unit, column / 10.0 ** powers[i]
        style = {"color": inks[i], "linestyle": DASHES[i // hues % len(DASHES)]}
        ax.plot(np.arange(len(column)), column, linewidth=1.2, label=_literal(name), **style)
    ax.axhline(0, color=inks.grey, linewidth=0.6, linestyle=":", zorder=0)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("rounds")
    ax.set_ylabel("coefficient, in units of its label" if any(powers) else "coefficient")
    if len(names) > 1:
        ax.legend(frameon=False)
