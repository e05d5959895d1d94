"""The way that estimates took, and the band along it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from privreg.errors import InferenceError, OptionError, choose, interval_level, level, shown
from privreg.inference.methods import METHODS, Anytime
from privreg.inference.resampling import FIRST
from privreg.results.data import ResultData

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


def alpha_of(alpha: float, conf_level: float | None) -> float:
    """One minus the level of intervals, of which either is given."""
    if conf_level is None:
        return alpha
    if alpha != 0.05:
        raise OptionError("give alpha= or conf_level=, which is one minus alpha, not both.")
    try:
        return level(round(1.0 - float(conf_level), 12))
    except (TypeError, ValueError, OptionError):
        raise OptionError(f"conf_level={shown(conf_level)} must be a number in (0, 1), such as 0.95.") from None
