"""Numbers that follow from released means: standard deviations, correlations, differences between subgroups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Normal
from privreg.errors import InferenceError, choose
from privreg.means.results.fit import MeansFit, limits
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame
from privreg.tables import Paragraph, Part, Table, View, cells, marked, noted
from privreg.tables.diagnostics import Diagnostic


class _Number(NamedTuple):
    """A number about the middle of its range: its mean and mean square, and where both are among the estimates."""

    at: int
    square_at: int | None  # None where squares were released beside the mean
    mean: float
    square: float

    @property
    def variance(self) -> float:
        return self.square - self.mean**2


def _numbers(f: MeansFit) -> dict[str, _Number]:
    """Numbers of which mean and square were released, by column."""
    firsts = np.cumsum([0, *f.widths])
    means = {name: int(k) for (name, levels), k in zip(f.variables, firsts, strict=False) if not levels}
    squares, taken = {a: k for a, b, k in f.products if a == b}, {k for *_, k in f.products}
    out = {}
    for name, at in means.items():
        if at in taken:
            continue
        mean = float(f.params[at] - f.centres[at])
        if at < f.moments.shape[1] and math.isfinite(f.moments[0, at]):
            # noise of the mean makes its square too large, on average by its variance
            out[name] = _Number(at, None, mean, float(f.moments[0, at] + f.moments[1, at]))
        elif name in squares:
            out[name] = _Number(at, squares[name], mean, float(f.params[squares[name]] + f.cov[at, at]))
    return out


def _variance(f: MeansFit, slopes: dict[int, float], numbers: dict[str, tuple[float, float]]) -> float:
    """Variance of what has these slopes by estimates, and by mean and square of numbers: all of it, or of the noise."""
    found, at, by = _numbers(f), dict(slopes), 0.0
    for name, (mean, square) in numbers.items():
        one = found[name]
        if one.square_at is None:
            by += mean**2 * f.moments[1, one.at] + square**2 * f.moments[2, one.at]
            by += 2.0 * mean * square * f.moments[3, one.at]
        else:
            at[one.at] = at.get(one.at, 0.0) + mean
            at[one.square_at] = at.get(one.square_at, 0.0) + square
    if any(found[name].square_at is None for name in numbers):
        return float(by + sum(s**2 * f.moments[1, k] for k, s in slopes.items()))
    places, values = list(at), np.array(list(at.values()))
    return float(values @ f.cov[np.ix_(places, places)] @ values)


def deviations(f: MeansFit, reliable: NDArray[np.bool_], alpha: float) -> pd.DataFrame:
    """Standard deviations; see :meth:`MeansResults.sd`."""
    found = _numbers(f)
    if not found:
        raise InferenceError("no squares were released; with trust='local' ask for them, as in 'age + I(age**2) ~ 1'.")
    kept = list(found.values())
    variance = np.array([one.variance if one.variance > 0.0 else math.nan for one in kept])
    error2 = np.array([_variance(f, {}, {name: (-2.0 * one.mean, 1.0)}) for name, one in found.items()])
    normal = np.array([f.moments[4, one.at] if one.square_at is None else math.inf for one in kept])
    sd = np.sqrt(variance)
    error = np.sqrt(error2 + 2.0 * variance**2 / (f.nobs * normal)) / (2.0 * sd)
    of_log = limits(0.0, error / sd, alpha).items()
    columns = {"estimate": sd, "std_error": error} | {name: sd * np.exp(limit) for name, limit in of_log}
    columns["reliable"] = reliable[[one.at for one in kept]] & np.isfinite(sd)
    return Frame(columns, index=pd.Index(list(found), name="column"))


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Correlations(View):
    """Correlations of pairs of numbers. Made by :meth:`MeansResults.corr`."""

    pairs: tuple[tuple[str, str], ...]
    estimate: Array  # Shape (q,); NaN where noise has made a variance negative
    error: Array  # Shape (q,)
    reliable: NDArray[np.bool_]
    alpha: float
    guarantee: str
    notes: tuple[Diagnostic, ...] = ()

    @property
    def matrix(self) -> pd.DataFrame:
        """Correlations, columns by columns; NaN of pairs whose product was not released."""
        names = list(dict.fromkeys(name for pair in self.pairs for name in pair))
        out = pd.DataFrame(np.eye(len(names)) + np.where(np.eye(len(names)) == 1.0, 0.0, np.nan), names, names)
        for (a, b), r in zip(self.pairs, self.estimate, strict=True):
            out.loc[a, b] = out.loc[b, a] = r
        return out

    def frame(self) -> pd.DataFrame:
        """One pair a row: estimate, std_error, statistic, p_value (of no correlation), conf_low, conf_high, reliable.

        Index: "a:b".
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            z, se = np.arctanh(self.estimate), self.error / (1.0 - self.estimate**2)
            columns: dict[str, Any] = {"estimate": self.estimate, "std_error": self.error, "statistic": z / se}
            columns |= {"p_value": Normal().two_sided(z / se)}
            columns |= {name: np.tanh(limit) for name, limit in limits(z, se, self.alpha).items()}
            columns["reliable"] = self.reliable
        return Frame(columns, index=pd.Index([":".join(pair) for pair in self.pairs], name="pair"))

    def _layout(self) -> list[Part]:
        frame = self.frame()
        head, rows = cells(frame.drop(columns="reliable"), self.alpha)
        below = f"Limits by Fisher's transformation, noise accounted for. {self.guarantee}."
        if np.isnan(self.error).any():
            below += "\nThere is none where noise left no positive variance, or a correlation beyond 1: more people or"
            below += " budget are needed."
        table = Table(marked(frame.index, frame["reliable"]), head, rows, "Correlations")
        return [table, Paragraph(below), *noted(self.notes)]


def correlations(f: MeansFit, reliable: NDArray[np.bool_], alpha: float) -> Correlations:
    """Correlations of pairs whose product was released; see :meth:`MeansResults.corr`."""
    found = _numbers(f)
    pairs = [(a, b, k) for a, b, k in f.products if a != b and a in found and b in found]
    if not pairs:
        raise InferenceError(
            "a correlation needs both means and the mean product, as in 'age + bmi + age:bmi ~ 1'; with trust='local' "
            "the squares, too: '+ I(age**2) + I(bmi**2)'."
        )
    out = list(_correlations(f, found, pairs))
    ok = np.array([reliable[[found[a].at, found[b].at, k]].all() for a, b, k in pairs], dtype=np.bool_)
    estimate, error = (np.array(v) for v in zip(*out, strict=True))
    names = tuple((a, b) for a, b, _ in pairs)
    stated = f.statement
    return Correlations(names, estimate, error, ok & np.isfinite(error), alpha, stated.short, stated.doubts)


def _correlations(
    f: MeansFit, found: dict[str, _Number], pairs: list[tuple[str, str, int]]
) -> Iterator[tuple[float, float]]:
    """Each pair's correlation with its standard error, by the delta method."""
    for a, b, k in pairs:
        one, other = found[a], found[b]
        if min(one.variance, other.variance) <= 0.0:
            yield math.nan, math.nan
            continue
        scale = math.sqrt(one.variance * other.variance)
        shared = 0.0 if one.square_at is None else float(f.cov[one.at, other.at])  # of the noise in both means
        r = float(f.params[k] - one.mean * other.mean + shared) / scale
        slopes = {}
        for name, x, y in ((a, one, other), (b, other, one)):
            slopes[name] = (-y.mean / scale + r * x.mean / x.variance, -0.5 * r / x.variance)
        error2 = _variance(f, {k: 1.0 / scale}, slopes)
        if abs(r) >= 1.0 or not math.isfinite(error2):
            yield math.nan, math.nan
            continue
        if one.square_at is None or other.square_at is None:
            error2 += (1.0 - r * r) ** 2 / (f.nobs * f.moments[4, k])
        yield r, math.sqrt(error2)


def differences(f: MeansFit, column: str | None, alpha: float) -> pd.DataFrame:
    """Compare subgroups in pairs; see :meth:`MeansResults.compare_groups`."""
    from scipy.stats import t

    names = np.array([name for name, levels in f.variables for _ in levels or (None,)])
    wanted = column is None or names == choose("column", column, tuple(dict.fromkeys(names.tolist())))
    at = np.flatnonzero(np.broadcast_to(wanted, names.shape))
    one, other = (np.array(v) for v in zip(*combinations(range(len(f.groups)), 2), strict=True))
    at, one, other = np.repeat(at, len(one)), np.tile(one, len(at)), np.tile(other, len(at))
    v, w = f.group_variances[one, at], f.group_variances[other, at]
    difference, error = f.group_params[one, at] - f.group_params[other, at], np.sqrt(v + w)
    have = np.array(f.group_people)[:, None] * (1.0 - np.nan_to_num(f.lost[1:]))
    free = np.maximum(have - 1.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (v + w) ** 2 / (v**2 / free[one, at] + w**2 / free[other, at])
        ratio = difference / error
    half = t.ppf(1.0 - alpha / 2.0, df) * error
    columns = {"term": np.take(f.names, at), "group": np.take(f.groups, one), "other": np.take(f.groups, other)}
    columns |= {"difference": difference, "std_error": error, "statistic": ratio, "df": df}
    columns |= {"p_value": 2.0 * t.sf(np.abs(ratio), df)}
    columns |= {"conf_low": difference - half, "conf_high": difference + half}
    ok = f.group_reliable[one, at] & f.group_reliable[other, at]
    return Frame(columns | {"reliable": ok & np.isfinite(error)})
