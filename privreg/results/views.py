"""Tables of a result beside its summary: the way its estimates took, and its intervals by every method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from privreg.errors import InferenceError, choose, level
from privreg.inference.methods import METHODS, Anytime
from privreg.inference.resampling import FIRST

if TYPE_CHECKING:
    from privreg.results.data import ResultData
    from privreg.results.results import PrivateResults

__all__ = ["BANDS", "band", "inference_table", "trajectory"]


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
        critical = np.repeat([Anytime(int(k)).critical(level(alpha)) if k >= FIRST else np.nan for k in at], p)
    elif name is not None:
        critical = pivots[name].critical(level(alpha))
    half = critical * np.sqrt(fit.trail_variances.reshape(-1))
    n = np.repeat(fit.trail_n, p)
    return fit.labels(m).assign(n=n, estimate=estimate, low=estimate - half, high=estimate + half)


def inference_table(results: PrivateResults, alpha: float) -> pd.DataFrame:
    """Intervals by every method of the fit; see `PrivateResults.inference_table`."""
    parts = []
    for method in results.methods:
        table = results.tidy(alpha=alpha, method=method).drop(columns="estimate")
        table.insert(list(table.columns).index("std_error"), "method", METHODS[method].title)
        law, doubts = results._estimate(method).pivot.label, results._doubts(method)
        parts.append(table.assign(length=table["conf_high"] - table["conf_low"], law=law, note="; ".join(doubts)))
    return pd.concat(parts, ignore_index=True) if parts else results.tidy(alpha=alpha)
