"""Tables of a result beside its summary: one line about it, the way its estimates took, intervals by every method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from privreg.errors import InferenceError, OptionError, choose, interval_level, level, shown
from privreg.inference.methods import METHODS, Anytime
from privreg.inference.resampling import FIRST
from privreg.privacy.ledger import REPORTED_DELTA

if TYPE_CHECKING:
    from privreg.results.data import ResultData
    from privreg.results.estimates import EstimatedResults

__all__ = ["BANDS", "alpha_of", "band", "glance", "inference_table", "trajectory"]


BANDS: Final = ("anytime", "sandwich", "random_scaling", "random_scaling_full", "between_lanes")
"""Methods whose variances a fit keeps along the way: of those that were asked for, the first here."""


def band(fit: ResultData, method: str | None = None) -> str | None:
    """Method whose band the way of a fit has; None if it has none.

    Raises
    ------
    InferenceError
        If `method` is another.
    """
    kept = bool(np.isfinite(fit.trail_variances).any())
    own = next((name for name in BANDS if kept and name in {e.method for e in fit.estimates}), None)
    if method is None or choose("method", method, METHODS) == own:
        return own
    has = f"this one has that of {own}" if own is not None else "this one has none"
    raise InferenceError(
        f"a fit keeps one band along the way, and {has}, not of {method}; it is that of anytime if it was asked for, "
        "else of sandwich, or of random_scaling with tuning='published'."
    )


def trajectory(fit: ResultData, alpha: float, method: str | None = None) -> pd.DataFrame:
    """Estimates along the stream with their bands; see `PrivateResults.trajectory`."""
    m, p = fit.trail_params.shape
    estimate = fit.trail_params.reshape(-1)
    pivots = {e.method: e.pivot for e in fit.estimates}
    critical: Any = np.nan
    name = band(fit, method)
    if name == "anytime":
        at = fit.trail_senders
        critical = np.repeat([Anytime(int(k)).critical(interval_level(alpha)) if k >= FIRST else np.nan for k in at], p)
    elif name is not None:
        critical = pivots[name].critical(interval_level(alpha))
    half = critical * np.sqrt(fit.trail_variances.reshape(-1))
    n = np.repeat(fit.trail_n, p)
    return fit.labels(m).assign(n=n, estimate=estimate, low=estimate - half, high=estimate + half)


def inference_table(results: EstimatedResults, alpha: float) -> pd.DataFrame:
    """Intervals by every method of the fit; see `PrivateResults.inference_table`."""
    parts = []
    for method in results.methods:
        table = results.tidy(alpha=alpha, method=method).drop(columns="estimate")
        table.insert(list(table.columns).index("std_error"), "method", METHODS[method].title)
        law, doubts = results._estimate(method).pivot.label, results._doubts(method)
        parts.append(table.assign(length=table["conf_high"] - table["conf_low"], law=law, note="; ".join(doubts)))
    return pd.concat(parts, ignore_index=True) if parts else results.tidy(alpha=alpha)


def alpha_of(alpha: float, conf_level: float | None) -> float:
    """One minus the level of intervals, of which either is given.

    Raises
    ------
    OptionError
        If both are, or the level is not in (0, 1).
    """
    if conf_level is None:
        return alpha
    if alpha != 0.05:
        raise OptionError("give alpha= or conf_level=, which is one minus alpha, not both.")
    try:
        return level(round(1.0 - float(conf_level), 12))
    except (TypeError, ValueError, OptionError):
        raise OptionError(f"conf_level={shown(conf_level)} must be a number in (0, 1), such as 0.95.") from None


def glance(results: EstimatedResults) -> pd.DataFrame:
    """One line about the whole fit; see `PrivateResults.glance`."""
    fit, stated = results._fit, results.privacy
    private = stated.budget.private
    line: dict[str, Any] = {
        "nobs": fit.nobs,
        "coefficients": len(fit.names),
        "response": str(fit.design.endog_name),
        "family": fit.family.name,
        "inference": METHODS[results.methods[0]].title if results.methods else "none",
        "guarantee": stated.short,
        "mu": stated.total_mu,
        "mu_total": stated.release.total_mu if stated.release.number else stated.total_mu,
        "releases": max(stated.release.number, 1),
        "epsilon": np.inf,
        "delta": 0.0,
        "private": private and not stated.seeded,
        "reliable": bool(results._table()["reliable"].all()),
    }
    if private:
        total = stated.total
        pure = total.pure
        line |= {"epsilon": total.epsilon if pure else total.epsilon_at(REPORTED_DELTA)}
        line |= {"delta": 0.0 if pure else REPORTED_DELTA}
    line |= {m.name: m.estimate for m in fit.measures}
    return pd.DataFrame([line])
