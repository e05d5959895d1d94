"""Empirical audit of a mechanism: how well can two neighbours be distinguished by their reports? And trials of many.

The Neyman–Pearson test between two normal distributions with equal covariance is a threshold on the projection to the
difference of their means. Its error rates, with exact confidence limits, bound μ from below: under μ-GDP no test
has type II error below Φ(Φ⁻¹(1 − α) − μ) at type I error α. Under pure ε-DP no set has a probability more than e^ε
times as large under one neighbour as under the other, so the same limits bound ε from below, for any mechanism.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import betaincinv, ndtri

from privreg.base.arrays import Array
from privreg.errors import OptionError, level, whole
from privreg.privacy.budget import Budget
from privreg.tables import Paragraph, Part, Table, View

_THRESHOLDS: Final = 400  # Thresholds tried on the first half: enough that the best of them is as good as any


class Row(NamedTuple):
    """A made-up person, in the coordinates of the report; NaN for an unusable record."""

    x: Array
    y: float
    offset: float = 0.0


class Audit(NamedTuple):
    """Lower limits of μ and ε by how well reports of two neighbours were distinguished."""

    lower: float  # Lower confidence limit of μ, for any mechanism
    type_one: float  # Observed error rates of the threshold test that bounds μ
    type_two: float
    n: int  # Reports of each neighbour that were tested
    epsilon_lower: float = 0.0  # Lower confidence limit of pure ε; grows with n without bound unless it is pure


def mu_lower_bound(first: Array, second: Array, direction: Array, threshold: float, alpha: float) -> Audit:
    """Lower confidence limit of μ, above the true one with probability `alpha`, from reports of shape (n, p) of each.

    `direction`, shape (p,), is the difference of their scores, second minus first. Projections above `threshold`, fixed
    before the reports are seen, are called "second".
    """
    n, m = len(first), len(second)
    wrong_first = int(np.sum(first @ direction > threshold))
    wrong_second = int(np.sum(second @ direction <= threshold))
    mu, epsilon = _lower(np.array([wrong_first]), n, np.array([wrong_second]), m, alpha)
    return Audit(float(mu[0]), wrong_first / n, wrong_second / m, min(n, m), float(epsilon[0]))


def _lower(wrong_first: Any, n: int, wrong_second: Any, m: int, alpha: float) -> tuple[Array, Array]:
    """Lower limits of μ and of ε for numbers of wrong calls among `n` and `m`, both true with probability 1 − alpha.

    Clopper & Pearson's upper limits of both error rates, at alpha/2 each, hold together with that probability; with
    U₁ and U₂, μ ≥ Φ⁻¹(1 − U₁) − Φ⁻¹(U₂) and ε ≥ log((1 − U₂)/U₁), log((1 − U₁)/U₂).
    """
    one, two = _upper(wrong_first, n, alpha / 2), _upper(wrong_second, m, alpha / 2)
    mu = ndtri(1 - one) - ndtri(two)
    with np.errstate(divide="ignore"):
        epsilon = np.maximum(np.log1p(-two) - np.log(one), np.log1p(-one) - np.log(two))
    return np.maximum(mu, 0.0), np.maximum(epsilon, 0.0)


def _upper(hits: Any, trials: int, tail: float) -> Any:
    """Clopper & Pearson's upper limit of a probability, exceeded with probability `tail` at most."""
    some = np.minimum(hits, trials - 1)
    return np.where(hits == trials, 1.0, betaincinv(some + 1, trials - some, 1 - tail))


def audit(first: Array, second: Array, *, alpha: float = 1e-6, direction: Array | None = None) -> Audit:
    """Lower confidence limits of μ and of ε from reports that any mechanism made of two neighbours.

    `first` and `second`, shape (n, d) or (n,), are independent reports of each in the order they were made. The first
    half chooses a direction and thresholds, between distinct values and either way, and the second half tests them, so
    that nothing has to be known about the mechanism and the limits are exact: each is above the true value with
    probability `alpha`. They are ones of detection: below them nothing is proved.

    Reports are projected on `direction`, shape (d,); by default on the difference of the first halves' means. For
    mechanisms that treat coordinates alike but whose noise is not normal, the coordinate in which the neighbours differ
    does better.
    Raises OptionError if the reports are not finite arrays of equal width with four rows or more, or a number is out of
    range.

    See Clopper & Pearson (1934); Jagielski, Ullman & Oprea (2020), Auditing differentially private machine learning,
    section 4.1; for μ, Dong, Roth & Su (2022), Gaussian differential privacy, section 2.
    """
    level(alpha)
    a, b = _reports("first", first), _reports("second", second)
    if a.shape[1] != b.shape[1]:
        raise OptionError(f"the reports have {a.shape[1]} and {b.shape[1]} columns; they must have equally many.")
    half_a, half_b = len(a) // 2, len(b) // 2
    if direction is None:
        along = b[:half_b].mean(axis=0) - a[:half_a].mean(axis=0)
    else:
        along = np.asarray(direction, dtype=float).reshape(-1)
        if along.shape != (a.shape[1],) or not np.isfinite(along).all():
            raise OptionError(f"direction must be {a.shape[1]} finite numbers, one a column of the reports.")
    u, v = a @ along, b @ along
    best: dict[int, tuple[float, float, float]] = {}  # for μ and ε: limit on the first half, sign, threshold
    for sign in (1.0, -1.0):
        x, y = np.sort(sign * u[:half_a]), np.sort(sign * v[:half_b])
        values = np.sort(np.concatenate([x, y]))
        steps = np.flatnonzero(np.diff(values) > 1e-12 * np.abs(values).max(initial=0.0))  # more than rounding
        if not len(steps):
            continue
        if len(steps) > _THRESHOLDS:
            steps = steps[np.linspace(0, len(steps) - 1, _THRESHOLDS).astype(int)]
        cuts = (values[steps] + values[steps + 1]) / 2
        above, below = half_a - np.searchsorted(x, cuts, side="right"), np.searchsorted(y, cuts, side="right")
        for which, limits in enumerate(_lower(above, half_a, below, half_b, alpha)):
            j = int(np.argmax(limits))
            if which not in best or limits[j] > best[which][0]:
                best[which] = (float(limits[j]), sign, float(cuts[j]))
    n = min(len(a) - half_a, len(b) - half_b)
    if not best:  # every report is the same
        return Audit(0.0, 0.0, 1.0, n, 0.0)
    by_mu, by_epsilon = (
        mu_lower_bound(sign * u[half_a:, None], sign * v[half_b:, None], np.ones(1), cut, alpha)
        for _, sign, cut in (best[0], best[1])
    )
    return by_mu._replace(epsilon_lower=by_epsilon.epsilon_lower)


def delta_lower(first: Array, second: Array, epsilon: float, alpha: float) -> float:
    """Lower confidence limit of δ at `epsilon` of reports of one number: a threshold from the first half.

    The second half tests it; the limit is above the true δ with probability `alpha` at most.
    """
    half = len(first) // 2
    cuts = np.quantile(np.concatenate([first[:half], second[:half]]), np.linspace(0.001, 0.999, _THRESHOLDS))
    gains = []
    for one, other in ((first, second), (second, first)):
        for sign in (1.0, -1.0):
            a, b = np.sort(sign * one[:half]), np.sort(sign * other[:half])
            above = [half - np.searchsorted(v, np.sort(sign * cuts), side="right") for v in (a, b)]
            gain = above[0] / half - math.exp(epsilon) * above[1] / half
            j = int(np.argmax(gain))
            gains.append((float(gain[j]), sign, float(np.sort(sign * cuts)[j]), one, other))
    _, sign, cut, one, other = max(gains, key=lambda g: g[0])
    m = len(one) - half
    hits, misses = int((sign * one[half:] > cut).sum()), int((sign * other[half:] > cut).sum())
    low, high = 1.0 - _upper(m - hits, m, alpha / 2), _upper(misses, m, alpha / 2)
    return max(float(low - math.exp(epsilon) * high), 0.0)


def _reports(name: str, given: Any) -> Array:
    reports = np.asarray(given, dtype=float)
    reports = reports[:, None] if reports.ndim == 1 else reports
    if reports.ndim != 2 or len(reports) < 4 or not reports.shape[1] or not np.isfinite(reports).all():
        raise OptionError(
            f"{name} must hold finite reports as rows, 4 or more, got an array of shape {np.shape(given)}; audit needs "
            "thousands of them."
        )
    return reports


LEAST: Final = 1000
MOST: Final = 10**7


class Trial(NamedTuple):
    """Two neighbours, and the guarantee claimed for their reports."""

    report: str  # Kind of report
    neighbours: str  # The two in words
    measure: str  # "mu", "epsilon", or "delta" at `epsilon`
    claimed: float
    draw: Callable[[int], tuple[Array, Array]]  # So many independent reports of each, shape (n, d) or (n,)
    distance: float = math.nan  # Distance of their reports, relative to the sensitivity that noise was made for
    direction: Array | None = None  # See `audit`
    epsilon: float = math.nan


def claim_of(budget: Budget) -> tuple[str, float]:
    """Measure of a budget and what it claims: ε if it is pure, else μ."""
    return ("epsilon", budget.epsilon) if math.isfinite(budget.epsilon) else ("mu", budget.mu)


@dataclass(frozen=True, repr=False)
class Verification(View):
    """Outcome of an audit of every kind of report that a fit used; its table has one line for each `Trial`."""

    table: pd.DataFrame
    claim: str
    alpha: float  # Probability that any limit is above its true value
    n: int  # Reports of each neighbour

    @property
    def passed(self) -> bool:
        """True if no lower limit exceeds the claim."""
        return bool((self.table["lower"] <= self.table["claimed"]).all())

    @property
    def _nearest(self) -> pd.Series:
        """The line that comes nearest to its claim, or exceeds it most."""
        return self.table.iloc[int(np.argmax(self.table["lower"] / self.table["claimed"]))]

    @property
    def claimed(self) -> float:
        """Claim of the trial that comes nearest to it."""
        return float(self._nearest["claimed"])

    @property
    def lower(self) -> float:
        """Lower confidence limit of that trial."""
        return float(self._nearest["lower"])

    def _layout(self) -> list[Part]:
        found = "no limit exceeds the claim" if self.passed else "THE CLAIM IS EXCEEDED: this is a bug, report it"
        sure = f"{1 - self.alpha:.6g}"
        held = f"{self.n:,} reports of each neighbour; all lower limits hold together with probability {sure}."
        # neighbours stand below each other, in a block for each kind of report
        head = ["distance", "measure", "claimed", "lower"]
        head = head[1:] if self.table["distance"].isna().all() else head
        names: list[str] = []
        rows: list[list[str]] = []
        blocks: dict[int, str] = {}
        for kind, neighbours, *values in self.table[["report", "neighbours", *head]].to_numpy():
            if kind not in blocks.values():
                blocks[len(names)] = kind
            first, _, second = neighbours.partition(" / ")
            names += [first, f"/ {second}"] if second else [first]
            row = [v if isinstance(v, str) else f"{v:.3f}" if v == 0.0 or v >= 0.001 else f"{v:.1e}" for v in values]
            rows += [row, [""] * len(row)] if second else [row]
        return [Paragraph(f"Audit of {self.claim}: {found}. {held}"), Table(names, head, rows, blocks=blocks)]


def verify(trials: Iterable[tuple[Any, ...]], *, claim: str, n: int, alpha: float, option: str = "n") -> Verification:
    """Try all trials, or tuples of their fields, with `n` reports of each neighbour; `claim` is in words.

    `alpha` is the probability that any limit exceeds its true value, `option` what the user calls `n`.
    Raises OptionError if `n` or `alpha` is out of range.
    """
    n, alpha = whole(option, n, LEAST, MOST), level(alpha)
    tried, lines = [Trial(*one) for one in trials], []
    for t in tried:
        first, second = t.draw(n)
        if t.measure == "delta":
            lower = delta_lower(first, second, t.epsilon, alpha / len(tried))
        else:
            found = audit(first, second, alpha=alpha / len(tried), direction=t.direction)
            lower = found.epsilon_lower if t.measure == "epsilon" else found.lower
        lines.append((t.report, t.neighbours, t.distance, t.measure, t.claimed, lower))
    columns = ["report", "neighbours", "distance", "measure", "claimed", "lower"]
    return Verification(pd.DataFrame(lines, columns=columns), claim, alpha, n)
