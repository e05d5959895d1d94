"""Predictions of a fit on a *public* test set, compared with it: post-processing, at no privacy cost.

The rows given here are used as they are. Whoever's rows they are must have agreed to their use, or they must be
public: nothing is randomised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pandas as pd

from privreg.data.sources.open import public_batches
from privreg.errors import OptionError, whole
from privreg.families.logistic import class_shares
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.tables import shorten

if TYPE_CHECKING:
    from privreg.base.arrays import Array
    from privreg.results.data import ResultData
    from privreg.results.estimates import EstimatedResults

WHISKER: Final = 1.96  # Standard errors of a mean on either side of it: 95% of a normal law


def _encoded(fit: ResultData, public_test: Any) -> tuple[Array, Array]:
    """Responses, shape (n,), and linear predictors, shape (n, b)."""
    if fit.family.scoring.censored:
        raise OptionError(
            f"{fit.family!r} predicts the uncensored response, and test rows have it where it isn't censored alone; "
            "fit(measures=0.1) compares shares that are censored with those predicted, and has the log-likelihood."
        )
    batches = public_batches(public_test, fit.design, "measures of prediction")
    parts = [_predicted(fit, batch) for batch in batches]
    if not sum(len(y) for y, _ in parts):
        raise OptionError("the public test set has no rows.")
    return np.concatenate([y for y, _ in parts]), np.concatenate([eta for _, eta in parts])


def _predicted(fit: ResultData, batch: Any) -> tuple[Array, Array]:
    fit.refuse_levels("a prediction")
    rows = fit.design.encode(batch)
    return rows.endog, fit.predictors(rows.exog, 0.0 if rows.offset is None else rows.offset)


def evaluate(self: EstimatedResults, public_test: Any) -> pd.DataFrame:
    """Compare predictions with responses of a *public* test set, which are used as they are.

    Parameters
    ----------
    public_test : DataFrame, mapping of arrays, path of a CSV file, or (endog, exog) for array models
        Public rows, with the response; numbers are clamped to their declared bounds as in the fit.

    Returns
    -------
    DataFrame
        measure, value. By family: mean, squared and absolute errors and R²; log-loss, accuracy and Brier score;
        mean deviance; check loss and the share below the line; hinge loss and accuracy.

    Raises
    ------
    DataError, SchemaError
        If the rows can't be used.
    NotPrivateError
        If none are given, or they were fitted privately in this process.
    """
    fit = self._fit
    y, eta = _encoded(fit, public_test)
    out = {"rows": float(len(y)), **fit.family.scoring.compared(fit.family, y, eta)}
    return pd.DataFrame({"measure": list(out), "value": list(out.values())})


def calibration(self: EstimatedResults, public_test: Any, groups: int = 10) -> pd.DataFrame:
    """Compare predicted with observed means by group of equally many predictions, on a *public* test set.

    Parameters
    ----------
    public_test
        As for :meth:`evaluate`.
    groups : int
        Groups, 2 to 1,000.

    Returns
    -------
    DataFrame
        level (of several), group, rows, predicted, observed, std_error (of the observed mean).

    Raises
    ------
    OptionError
        If `groups` is out of range, or the family predicts margins.
    """
    fit = self._fit
    groups = whole("groups", groups, 2, 1000)
    if fit.family.scoring.levelled:
        raise OptionError(
            f"{fit.family!r} predicts no mean to compare with what was observed; see evaluate(), which gives the share "
            "below a quantile line."
        )
    if fit.family.link == "margin":
        raise OptionError(f"{fit.family.name} predicts margins, which nothing observed can be compared with.")
    y, eta = _encoded(fit, public_test)
    if fit.classes:
        share = class_shares(fit.family.scoring.log_odds(eta))
        parts = [(str(v), share[:, k], (y == k).astype(np.float64)) for k, v in enumerate(fit.classes)]
    else:
        parts = [("", fit.family.inverse_link(eta[:, 0]), y)]
    lines = []
    for level, predicted, observed in parts:
        order = np.argsort(predicted, kind="stable")
        for g, rows in enumerate(np.array_split(order, min(groups, len(order)))):
            seen = observed[rows]
            se = float(np.std(seen, ddof=1) / np.sqrt(len(seen))) if len(seen) > 1 else np.nan
            numbers = (g + 1, len(rows), float(np.mean(predicted[rows])), float(np.mean(seen)), se)
            lines.append((level, *numbers))
    out = pd.DataFrame(lines, columns=["level", "group", "rows", "predicted", "observed", "std_error"])
    return out if fit.classes else out.drop(columns="level")


def plot_calibration(self: EstimatedResults, public_test: Any, groups: int = 10, *, ax: Any = None) -> Axes:
    """Draw observed against predicted means on a *public* test set.

    Parameters
    ----------
    public_test, groups
        As for :meth:`calibration`.
    ax : Axes, optional
        Where to draw; without it a figure is made.

    Returns
    -------
    Axes
        Whiskers are 95% intervals of the observed means. Levels of a multinomial response have a legend. It is saved by
        ``axes.figure.savefig(path)``.
    """
    style.pyplot()
    fit, table = self._fit, calibration(self, public_test, groups)
    response, levels = fit.design.endog_name, fit.design.endog_levels
    shares = fit.family.scoring.classed or fit.family.link == "logit"
    parts = list(table.groupby("level", sort=False)) if fit.classes else [(response, table)]
    title = f"{response} = {levels[1]}" if shares and levels and not fit.classes else response
    name = style.literal(shorten([title], 42)[0])
    people = f"{parts[0][1]['rows'].sum():,} public rows in {len(parts[0][1])} groups"
    footer = f"{people}, 95% intervals; {style.guarantee([self.privacy])}"
    with style.drawing(ax, (style.COLUMN, 1.1 * style.COLUMN), footer) as on:
        _agreement(on, parts, shares)
        if fit.classes:
            on.legend(frameon=False, title=name, title_fontsize=style.SMALL, handletextpad=0.2)
        elif ax is None:
            on.set_title(name, loc="left")
    return cast("Axes", on)


def _agreement(ax: Any, parts: list[tuple[Any, pd.DataFrame]], shares: bool) -> None:
    """Draw predicted and observed means of each part, on two axes of one scale."""
    from matplotlib.ticker import MaxNLocator

    names = shorten([str(name) for name, _ in parts], 30)
    ends: list[float] = []
    inks = style.inks_for(ax)
    for i, (name, (_, part)) in enumerate(zip(names, parts, strict=True)):
        x, y = part["predicted"], part["observed"]
        half = WHISKER * part["std_error"].fillna(0.0)  # a group of one has no interval
        colour, marker = inks[i], style.MARKERS[i % len(style.MARKERS)]
        look = {"linestyle": "none", "marker": marker, "markersize": 4, "color": colour, "zorder": 3}
        ax.plot(x, y, label=style.literal(name), **look)
        ax.vlines(x, y - half, y + half, color=colour, linewidth=1.2, zorder=2)
        ends += [x.min(), x.max(), (y - half).min(), (y + half).max()]
    room = 0.04 * (max(ends) - min(ends)) or 0.5
    limits = (min(ends) - room, max(ends) + room)
    ax.plot(limits, limits, color=inks.grey, linewidth=0.6, linestyle=":", zorder=0)
    ax.set(xlim=limits, ylim=limits, aspect="equal")
    for axis in (ax.xaxis, ax.yaxis):  # of one scale: with the same ticks, few enough for large numbers
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlabel("predicted probability" if shares else "predicted mean")
    ax.set_ylabel("observed share" if shares else "observed mean")
