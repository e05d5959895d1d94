"""From single intervals to bias, rmse, coverage and length, each with limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import binom
from statsmodels.stats.proportion import proportion_confint

TAIL: Final = 0.0005  # Probability beyond each end of a 99.9% limit
NORMAL_TAIL: Final = 3.2905267314919255


def clopper_pearson(hits: int, trials: int, tail: float = TAIL) -> tuple[float, float]:
    """Exact limits of a probability, beyond each of which `tail` is left: 99.9% limits by default."""
    low, high = proportion_confint(hits, trials, 2.0 * tail, method="beta")
    return float(low), float(high)


def failed(runs: pd.DataFrame) -> pd.Series:
    """Whether each run failed."""
    return runs["error"].notna() if "error" in runs else pd.Series(False, index=runs.index)


def first_error(runs: pd.DataFrame) -> str:
    """Kind of the first error of runs; empty if none failed."""
    errors = runs["error"].dropna().astype(str).tolist() if "error" in runs else []
    return errors[0].partition(":")[0] if errors else ""


def rounded(table: pd.DataFrame, digits: int, names: Sequence[str]) -> pd.DataFrame:
    """Round columns, those that there are, to significant digits, in place."""
    for name in names:
        if name in table:
            table[name] = [float(f"{v:.{digits}g}") for v in table[name]]
    return table


def beside(row: Any, there: pd.DataFrame, like: Sequence[Any], measures: Sequence[str]) -> dict[str, Any]:
    """Ours under published tuning and, of the first method of `like` that is `there`, under efficient tuning."""
    name = next((str(m) for m in like if m in set(there["method"])), "")
    other = there[there["method"] == name].iloc[0].to_dict() if name else {}
    out = {what: getattr(row, what, math.nan) for what in measures} | {"efficient_method": name}
    return out | {f"efficient_{what}": other.get(what, math.nan) for what in measures[:2]}


def summarise(runs: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Summarise single intervals, in groups `by` some columns; coefficients are pooled unless "term" is among them.

    `runs` has one row an interval: the columns `by`, replication, truth, estimate, low, high, alpha, seconds, and
    error, which is text where a fit failed (such a row may lack the other numbers).

    The table has `by`; replications, failures, first_error; bias (mean error) and rmse; coverage in % with exact 99.9%
    limits (coverage_low, coverage_high), which count coefficients of one fit as independent; low_999 and high_999,
    between which 99.9% of such shares are if the level holds, and whether it does (inside); mean length with 99.9%
    limits from the replications; seconds a fit.
    """
    keys = list(by)
    rows = []
    for key, group in runs.groupby(keys, sort=False, dropna=False):
        row: dict[str, Any] = dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True))
        bad = failed(group)
        row |= {
            "replications": group["replication"].nunique(),
            "failures": group.loc[bad, "replication"].nunique(),
            "first_error": first_error(group),
        }
        good = group[~bad & group["low"].notna()] if "low" in group else group.iloc[:0]
        rows.append(row | (_numbers(good) if len(good) else {}))
    return pd.DataFrame(rows)


def _numbers(good: pd.DataFrame) -> dict[str, Any]:
    error = (good["estimate"] - good["truth"]).to_numpy()
    covered = ((good["low"] <= good["truth"]) & (good["truth"] <= good["high"])).to_numpy()
    trials, hits, level = len(good), int(covered.sum()), 1.0 - float(good["alpha"].iloc[0])
    low, high = clopper_pearson(hits, trials)
    least, most = binom.ppf([TAIL, 1.0 - TAIL], trials, level)
    each = (good["high"] - good["low"]).groupby(good["replication"]).mean()
    half = NORMAL_TAIL * float(each.std()) / math.sqrt(len(each)) if len(each) > 1 else math.nan
    return {
        "bias": float(error.mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "coverage": round(100 * hits / trials, 2),
        "coverage_low": round(100 * low, 2),
        "coverage_high": round(100 * high, 2),
        "low_999": round(100 * float(least) / trials, 2),
        "high_999": round(100 * float(most) / trials, 2),
        "inside": bool(least <= hits <= most),
        "length": float(each.mean()),
        "length_low": float(each.mean()) - half,
        "length_high": float(each.mean()) + half,
        "seconds": round(float(good["seconds"].mean()), 4),
    }
