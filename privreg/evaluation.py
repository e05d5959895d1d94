"""How well a fit predicts a *public* test set: post-processing, at no privacy cost.

The rows given here are used as they are. Whoever's rows they are must have agreed to their use, or they must be
public: nothing is randomised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privreg import kernels
from privreg.errors import MissingExtraError, NotPrivateError, OptionError, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from privreg.results import Fit

    Array = NDArray[np.float64]

__all__ = ["calibration", "evaluate", "plot_calibration"]


def _encoded(fit: Fit, public_test: Any) -> tuple[Array, Array]:
    """Responses, shape (n,), and linear predictors, shape (n, b)."""
    if public_test is None:
        raise NotPrivateError("a fit keeps no rows; give a public test set with the formula's columns.")
    rows = fit.design.encode(public_test)
    if not len(rows.endog):
        raise OptionError("the public test set has no rows.")
    eta = rows.exog @ fit.params.reshape(-1, rows.exog.shape[1]).T
    return rows.endog, eta if rows.offset is None else eta + rows.offset[:, None]


def _shares(eta: Array) -> Array:
    full = np.column_stack([np.zeros(len(eta)), eta])
    share = np.exp(full - full.max(axis=1, keepdims=True))
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def evaluate(fit: Fit, public_test: Any) -> pd.DataFrame:
    """Measures of prediction on a public test set.

    Parameters
    ----------
    fit : Fit
    public_test : DataFrame, mapping of arrays, or (endog, exog) for array models
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
        If none are given.
    """
    y, eta = _encoded(fit, public_test)
    code, first = fit.family.code, eta[:, 0]
    out: dict[str, float] = {"rows": float(len(y))}
    if code in {kernels.LOGISTIC, kernels.MULTINOMIAL}:
        share, k = _shares(eta), y.astype(np.intp)
        seen = np.maximum(share[np.arange(len(y)), k], 1e-300)
        null = np.bincount(k, minlength=share.shape[1]) / len(y)
        entropy = -float(np.sum(null[null > 0] * np.log(null[null > 0])))
        out["log-loss"] = float(np.mean(-np.log(seen)))
        out["deviance explained"] = 1.0 - out["log-loss"] / entropy if entropy > 0.0 else np.nan
        out["accuracy"] = float(np.mean(share.argmax(axis=1) == k))
        halves = 1.0 if fit.baseline else 0.5  # with two classes it is the squared error of one probability
        out["Brier score"] = halves * float(np.mean(np.sum((share - np.eye(share.shape[1])[k]) ** 2, axis=1)))
    elif code in {kernels.HINGE, kernels.SMOOTHED_HINGE}:
        margin = (2.0 * y - 1.0) * first
        out["accuracy"] = float(np.mean(margin > 0.0))
        out["hinge loss"] = float(np.mean(np.maximum(1.0 - margin, 0.0)))
    elif code == kernels.POISSON:
        own = np.where(y > 0.0, y * np.log(np.maximum(y, 1e-300)), 0.0)
        average = float(np.mean(y))
        null_deviance = 2.0 * float(np.mean(own) - (average * np.log(average) if average > 0.0 else 0.0))
        out["mean deviance"] = 2.0 * float(np.mean(own - y * first - (y - np.exp(first))))
        out["deviance explained"] = 1.0 - out["mean deviance"] / null_deviance if null_deviance > 0.0 else np.nan
        out["mean error"] = float(np.mean(y - np.exp(first)))
    else:
        r = y - fit.family.inverse_link(first)
        if code == kernels.QUANTILE:
            tau = fit.family.tau
            out["check loss"] = float(np.mean(r * (tau - (r < 0.0))))
            out["share below"] = float(np.mean(r < 0.0))
        else:
            out["mean error"] = float(np.mean(r))
            out["mean absolute error"] = float(np.mean(np.abs(r)))
            out["mean squared error"] = float(np.mean(r**2))
            spread = float(np.var(y))
            out["R²"] = 1.0 - out["mean squared error"] / spread if spread > 0.0 else np.nan
    return pd.DataFrame({"measure": list(out), "value": list(out.values())})


def calibration(fit: Fit, public_test: Any, groups: int = 10) -> pd.DataFrame:
    """Predicted and observed means by group of equally many predictions, on a public test set.

    Parameters
    ----------
    fit : Fit
    public_test
        As for :func:`evaluate`.
    groups : int
        Groups, 2 to 1,000.

    Returns
    -------
    DataFrame
        level (multinomial only), group, rows, predicted, observed, std_error (of the observed mean).

    Raises
    ------
    OptionError
        If `groups` is out of range, or the family predicts margins.
    """
    if isinstance(groups, bool) or not isinstance(groups, int) or not 2 <= groups <= 1000:
        raise OptionError(f"groups={shown(groups)} must be a whole number, 2 to 1,000.")
    if fit.family.code in {kernels.QUANTILE, kernels.EXPECTILE}:
        raise OptionError(
            f"{fit.family!r} predicts no mean to compare with what was observed; see evaluate(), which gives the share "
            "below a quantile line."
        )
    if fit.family.link == "margin":
        raise OptionError(f"{fit.family.name} predicts margins, which nothing observed can be compared with.")
    y, eta = _encoded(fit, public_test)
    if fit.baseline:
        share = _shares(eta)
        parts = [(level, share[:, k], (y == k).astype(np.float64)) for k, level in enumerate(fit.baseline)]
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
    return out if fit.baseline else out.drop(columns="level")


def plot_calibration(fit: Fit, public_test: Any, groups: int, ax: Any) -> Axes:
    """Observed against predicted means by group, with the diagonal on which they agree."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("plots need matplotlib; pip install 'privreg[plot]'.") from None
    table = calibration(fit, public_test, groups)
    axes: Axes = ax
    if ax is None:
        _, axes = plt.subplots(figsize=(5.0, 4.6), layout="constrained")
    several = table.groupby("level", sort=False) if fit.baseline else [(None, table)]
    for level, part in several:
        axes.errorbar(
            part["predicted"], part["observed"], 1.96 * part["std_error"], fmt="o", ms=4, lw=1, capsize=2, label=level
        )
    low = float(min(table["predicted"].min(), table["observed"].min()))
    high = float(max(table["predicted"].max(), table["observed"].max()))
    axes.plot([low, high], [low, high], color="0.6", lw=1, zorder=0)
    axes.set(xlabel="predicted mean", ylabel="observed mean", title="Calibration on a public test set")
    if fit.baseline:
        axes.legend(frameon=False, title="level")
    return axes
