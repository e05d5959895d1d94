"""Precision of a path: sandwich, batch means, bootstrap, and a bound that holds at all times. Sums of reports only.

And critical values of the largest of several t-ratios, for intervals that hold together, by simulation with a fixed
seed, which is post-processing of numbers that have been released.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Normal, Pivot, RandomScaling, StudentT
from privreg.errors import InferenceError
from privreg.tables.diagnostics import Diagnostic, note

KAPPA = 1e-3  # Published floors κ₁ = κ₂ of the eigenvalues, internal units


class Batches(NamedTuple):
    """Precision of a mean by its batches."""

    cov: Array  # Covariance of the mean; shape (d, d)
    # Change of the mean by each batch, sum 0 if the batches are all there is; shape (m, d)
    moves: Array
    df: int  # Degrees of freedom, m − 1


def batches(sums: Array, weights: Array, mean: Array, total: float) -> Batches:
    """Covariance of a mean from sums over batches that follow each other.

    `sums`, shape (m, d), have `weights`, shape (m,), 1 for every update, of the path's weight `total`; `mean`, shape
    (d,), is that of the whole path about the same reference. Unbiased for independent means of variance V/w in batches
    of weight w.
    Raises InferenceError if there are fewer than two batches.

    See XSJKH (arXiv 2505.08227), section 4.3; Dette & Graw (arXiv 2405.12553), section 3.
    """
    heard = weights > 0.0  # of people with the smallest budgets nothing is left after rounding
    sums, weights, m = sums[heard], weights[heard], int(heard.sum())
    if m < 2:
        raise InferenceError("batch means and the bootstrap need two batches of the path at least; more people.")
    differences = sums - weights[:, None] * mean
    scaled = differences / np.sqrt(weights)[:, None]
    return Batches(scaled.T @ scaled / (m - 1) / total, differences / total * math.sqrt(m / (m - 1)), m - 1)


DRAWS: Final = 500
_SEED: Final = 20_240_512
"""Seed of the multipliers: no secret is needed after reports, and the same reports give the same intervals."""
FIRST: Final = 30_000  # People from whom on intervals that hold at all times are given
_HIGHEST: Final = 0.8  # Level beyond which the bound of `Anytime` is not defined; its p-values stop there at 1


@dataclass(frozen=True, eq=False)
class Bootstrap(Pivot):
    """Distribution of the t-ratio by a multiplier block bootstrap: blocks are weighted at random, as one.

    Multipliers are uniform on 1 ± √3, so that draws are symmetric about 0, and limits are quantiles of absolute values.

    See Dette & Graw (arXiv 2405.12553), section 3.
    """

    moves: Array  # Change of the estimate by each block, user's units; shape (m, p)
    # False: the percentile form, in which a draw is divided by the same standard error as the estimate. True: the t
    # form, in which it is divided by that of its weighted blocks.
    studentised: bool = False

    @property
    def label(self) -> str:
        form = "t" if self.studentised else "percentile"
        return f"multiplier block bootstrap ({form}), {len(self.moves)} blocks, {DRAWS} draws: p from 1/{DRAWS + 1} on"

    def along(self, rows: Array) -> "Bootstrap":
        return Bootstrap(self.moves @ np.atleast_2d(rows).T, self.studentised)

    def _ratios(self) -> Array:
        """Draws of abs t, shape (B, p)."""
        multipliers, m = _multipliers(len(self.moves)), len(self.moves)
        draws, square = multipliers @ self.moves, (self.moves**2).sum(axis=0)
        if self.studentised:
            square = ((multipliers**2) @ self.moves**2 - draws**2 / m) * (m / (m - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.abs(draws) / np.sqrt(square))

    def two_sided(self, t: Array) -> Array:
        """P(|T| > |t|), elementwise; 1/501 at least."""
        ratios = self._ratios()
        ts = np.broadcast_to(np.abs(t), ratios.shape[1:])
        above = len(ratios) - (ratios < ts).sum(axis=0)  # those that are no numbers as well
        return np.where(np.isnan(ts), np.nan, (1.0 + above) / (DRAWS + 1.0))

    def critical(self, alpha: float) -> Array:
        """Two-sided critical values, shape (p,): beyond them p-values are below `alpha`.

        Infinite where no number of draws beyond a value makes its p-value that small, at 99.8% and above.
        """
        return _passed(self._ratios(), alpha)

    def largest(self, alpha: float) -> float:
        """Value that the largest of the p ratios exceeds with probability `alpha`."""
        return float(_passed(np.fmax.reduce(self._ratios(), axis=1)[:, None], alpha)[0])

    def joint_sf(self, statistic: float, q: int) -> float:
        """P-value of a Wald statistic of the q combinations this distribution was taken along.
        Raises InferenceError if there are as many restrictions as blocks, or more.
        """
        if q == 1:
            return self.of_one(statistic)
        multipliers, m = _multipliers(len(self.moves)), len(self.moves)
        if q >= m:
            raise InferenceError(
                f"{q} restrictions can't be tested jointly by {m} blocks; test fewer, or fit with "
                "inference='random_scaling'."
            )
        draws = multipliers @ self.moves
        square = (self.moves.T @ self.moves)[None]
        if self.studentised:
            square = np.einsum("bm,mi,mj->bij", multipliers**2, self.moves, self.moves)
            square = (square - draws[:, :, None] * draws[:, None, :] / m) * (m / (m - 1))
        values = np.einsum("bi,bij,bj->b", draws, np.broadcast_to(np.linalg.pinv(square), (DRAWS, q, q)), draws)
        return float((1 + np.sum(values >= statistic)) / (DRAWS + 1))


def _passed(ratios: Array, alpha: float) -> Array:
    """Values beyond which (1 + draws as large)/(1 + draws) is below `alpha`, by column of draws."""
    below = math.floor((DRAWS + 1) * (1.0 - alpha))
    while (DRAWS + 1.0 - below) / (DRAWS + 1.0) >= alpha:
        below += 1
    return np.full(ratios.shape[1], np.inf) if below > DRAWS else np.sort(ratios, axis=0)[below - 1]


def _multipliers(blocks: int) -> Array:
    """Multipliers less their mean 1, by which nothing changes where all blocks' moves sum to 0, shape (B, m)."""
    return np.random.Generator(np.random.PCG64(_SEED)).uniform(-math.sqrt(3.0), math.sqrt(3.0), (DRAWS, blocks))


@dataclass(frozen=True)
class Anytime(Pivot):
    """Bound of a t-ratio that holds at all numbers of people at once, from `FIRST` on: asymptotic and conservative.

    With se the standard error at n people the half-width is se √(2 (nη² + 1)/(nη²) log(√(nη² + 1)/α)), where
    η² = (−2 log α + log(−2 log α) + 1)/n* makes it narrowest near n* = `FIRST`. It is per coefficient.

    See Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2024), Time-uniform central limit theory; XSJKH (arXiv
    2505.08227).
    """

    people: int  # People whose reports make the estimate

    label = f"time-uniform bound, valid at all sample sizes from {FIRST:,} on"

    def critical(self, alpha: float) -> float:
        """Two-sided critical value; at `alpha` above 0.8 that of 0.8."""
        alpha = min(alpha, _HIGHEST)
        double = -2.0 * math.log(alpha)
        ahead = self.people * (double + math.log(double) + 1.0) / FIRST
        return math.sqrt(2.0 * (ahead + 1.0) / ahead * (0.5 * math.log(ahead + 1.0) - math.log(alpha)))

    def two_sided(self, t: Array) -> Array:
        """Smallest level at which an interval would not hold 0, elementwise; 1 where there is none below 0.8."""
        from scipy.optimize import brentq  # slow to import

        def one(value: float) -> float:
            if math.isnan(value):
                return math.nan
            if value <= self.critical(_HIGHEST):
                return 1.0
            if value >= self.critical(1e-300):
                return 0.0
            return math.exp(brentq(lambda a: self.critical(math.exp(a)) - value, math.log(1e-300), math.log(_HIGHEST)))

        flat = np.abs(np.atleast_1d(np.asarray(t, dtype=np.float64)))
        return np.array([one(v) for v in flat.ravel()]).reshape(flat.shape)

    def joint_sf(self, statistic: float, q: int) -> float:
        """Only of a single restriction.
        Raises InferenceError if there are several.
        """
        if q == 1:
            return self.of_one(statistic)
        raise InferenceError(
            "anytime has no joint test of several restrictions; test them one by one with t_test at level alpha/q, or "
            "fit with inference='batch_means'."
        )


# --- sandwich ---------------------------------------------------------------------------------------------------


class Sandwich(NamedTuple):
    """A sandwich covariance."""

    cov: Array  # Covariance of θ̄, internal units; shape (p, p)
    notes: tuple[Diagnostic, ...]  # Whatever weakens it


def floored(matrix: Array, floor: float) -> tuple[Array, Array, int]:
    """Symmetrised matrix's eigenvectors, eigenvalues raised to `floor`, and how many were raised."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return vectors, np.maximum(values, floor), int(np.sum(values < floor))


def sandwich(
    bread: Array, meat: Array, n: float, bread_floor: float, meat_floor: float, name: str = "plug-in"
) -> Sandwich:
    """Sandwich of matrices whose eigenvalues are raised to the floors, divided by `n`; `name` is for the note."""
    vectors, values, low = floored(bread, bread_floor)
    inverse = (vectors / values) @ vectors.T
    meat_vectors, meat_values, _ = floored(meat, meat_floor)
    middle, of = (meat_vectors * meat_values) @ meat_vectors.T, f"the {name} intervals"
    notes = (note("curvature.floor", of=of, low=low, floor=bread_floor),) if low else ()
    return Sandwich(inverse @ middle @ inverse / n, notes)


# --- several t-ratios together -----------------------------------------------------------------------------------

_JOINT_SEED: Final = 20_250_711
_SCALES: Final = 1 << 15  # Draws of the standard errors; fewer where `_NORMALS` would be exceeded
_USES: Final = 4  # Draws of the estimates for each of them
_NORMALS: Final = 12_000_000  # Standard normals drawn, about and at most
_CHUNK: Final = 1 << 20
_TERMS: Final = 32  # Terms of the Karhunen–Loève series for one lane; the mean over several needs fewer of each


def joint_critical(pivot: Pivot, cov: Array, alpha: float) -> float | Array:
    """Value that the largest of p t-ratios exceeds in absolute value with probability `alpha`, by a covariance.

    `pivot` is the distribution of each. The value is between ``pivot.critical(alpha)``, of one ratio, and Bonferroni's
    ``pivot.critical(alpha / p)``, which it is where only variances are known, `cov` of shape (p,), and of pivots other
    than those below. Shape (p,) where the distribution has one for each ratio.

    With R the correlation of the estimates and Z ~ N(0, R) the ratios are Z_j (Normal); Z_j/s_j with s² the diagonal of
    a Wishart(df, R)/df independent of Z (StudentT); W_j(1)/√(6 · mean over lanes of ∫bridge_j²) with W of covariance R
    (RandomScaling), its bridges by the Karhunen–Loève series with the tail's mean added, as in `pivots`. A bootstrap
    (`Bootstrap`, whose columns are the ratios) takes the largest ratio of each of its draws.

    P(some |T_j| > c) = p · P(|T_1| > c) · E(1/number of ratios beyond c), where a ratio chosen at random is drawn given
    that it is beyond c. Only the third factor is simulated, so that the level's Monte Carlo error is far below 0.1%.
    That R is estimated doesn't count: for up to 10 coefficients 95% becomes 94.4% at least with 8 lanes, and 94% with
    random scaling of one chain (measured as in `tests/collector/inference/test_simultaneous.py`).

    See Hothorn, Bretz & Westfall (2008), Simultaneous inference in general parametric models, for the intervals; Karp,
    Luby & Madras (1989), Monte-Carlo approximation algorithms for enumeration problems, for the simulation; XSJKH
    (arXiv 2505.08227), section 4.2, for random scaling.
    """
    if (p := len(cov)) < 2:
        return pivot.critical(alpha)
    if isinstance(pivot, Bootstrap):
        return pivot.largest(alpha)
    if cov.ndim == 1 or not np.isfinite(cov).all() or not isinstance(pivot, Normal | StudentT | RandomScaling):
        return pivot.critical(alpha / p)
    sd = np.sqrt(np.diag(cov))
    size = np.where(sd > 0.0, sd, 1.0)
    correlation = np.where(sd > 0.0, cov / np.outer(size, size), 0.0)
    np.fill_diagonal(correlation, 1.0)
    return _simulated(pivot, p, np.ascontiguousarray(correlation, dtype=np.float64).tobytes(), alpha)


@lru_cache(maxsize=64)
def _simulated(pivot: Normal | StudentT | RandomScaling, p: int, matrix: bytes, alpha: float) -> float:
    """`joint_critical` of a correlation matrix: s_j² = Σ_r weights_r Y_rj² + rest, Z and rows Y_r ~ N(0, R)."""
    weights, rest = np.empty(0), 1.0
    match pivot:
        case StudentT(df):
            weights, rest = np.full(df, 1.0 / df), 0.0
        case RandomScaling(lanes):
            terms = max(4, int(np.ceil(_TERMS / np.sqrt(lanes))))
            each = 6.0 / (np.pi * np.arange(1, terms + 1)) ** 2
            weights, rest = np.repeat(each, lanes) / lanes, 1.0 - float(each.sum())
    rng, rows = np.random.Generator(np.random.SFC64(_JOINT_SEED)), len(weights)
    correlation = np.frombuffer(matrix).reshape(p, p)
    values, vectors = np.linalg.eigh(correlation)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    draws = max(1 << 10, min(_SCALES, _NORMALS // (max(rows, 40) * p)))
    s2 = np.full((draws, p), rest)
    chunk = max(1, _CHUNK // (max(rows, 1) * p))
    for start in range(0, draws if rows else 0, chunk):
        part = s2[start : start + chunk]
        y = rng.standard_normal((len(part) * rows, p)) @ root
        part += np.einsum("r,irj->ij", weights, (y * y).reshape(-1, rows, p))
    s = np.tile(np.sqrt(s2), (_USES, 1))
    z = rng.standard_normal(s.shape) @ root
    u, i = 1.0 - rng.random(len(s)), np.arange(len(s))
    j = (i + np.repeat(np.arange(_USES), draws)) % p  # other ratios of the same draw
    s_j, r_j = s[i, j], correlation[j]
    slope, fixed = np.ascontiguousarray((r_j / s).T), np.ascontiguousarray(((z - r_j * z[i, j][:, None]) / s).T)

    def excess(c: float) -> float:
        tail = ndtr(-c * s_j) if rows else np.full(len(u), ndtr(-c))
        ratios = slope * -ndtri(u * tail)  # given that ratio j is beyond c
        ratios += fixed
        count = np.maximum(np.count_nonzero(np.abs(ratios, out=ratios) > c, axis=0), 1)
        return p * float(pivot.two_sided(np.array([c]))[0]) * float(np.sum(tail / count) / np.sum(tail)) - alpha

    low, high = pivot.critical(alpha), pivot.critical(alpha / p)
    if excess(low) <= 0.0:
        return low
    if excess(high) >= 0.0:
        return high
    from scipy.optimize import brentq  # slow to import

    return float(brentq(excess, low, high, xtol=1e-5 * low))
