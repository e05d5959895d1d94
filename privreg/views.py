"""Tables of a result beside its summary: the way its estimates took, and its intervals by every method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privreg.errors import level
from privreg.inference import METHODS, Anytime
from privreg.inference.resampling import FIRST

if TYPE_CHECKING:
    from privreg.payload import Fit
    from privreg.results import PrivateResults

__all__ = ["inference_table", "trajectory"]


def trajectory(fit: Fit, alpha: float) -> pd.DataFrame:
    """Estimates along the stream with their bands; see `PrivateResults.trajectory`."""
    m, p = fit.trail_params.shape
    estimate = fit.trail_params.reshape(-1)
    pivots = {e.method: e.pivot for e in fit.estimates}
    critical: Any = np.nan
    if "anytime" in pivots:
        at = fit.trail_senders
        critical = np.repeat([Anytime(int(k)).critical(level(alpha)) if k >= FIRST else np.nan for k in at], p)
    else:
        pivot = pivots.get("random_scaling") or pivots.get("between_lanes")
        critical = np.nan if pivot is None else pivot.critical(level(alpha))
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
