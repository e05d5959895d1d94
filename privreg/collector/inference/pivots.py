"""Pivots: the distribution of (estimate − truth) / standard error for each way of estimating the standard error.

The joint Wald statistic under random scaling is W_q = B(1)ᵀ [∫ b bᵀ]⁻¹ B(1) with B a q-dimensional Brownian motion and
b its bridge; with K lanes the mean of K independent ∫ b bᵀ stands in the middle. So W_q = χ²_q · a_q with
a_q = ([∫ b bᵀ]⁻¹)_qq independent of χ²_q. For one lane a shipped table holds a discretised distribution of a_q, over
which the χ² tail is averaged; for several lanes a_q is drawn with a fixed seed, which is post-processing.

``python -m privreg.collector.inference.pivots`` makes the table anew.
"""

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final

import numpy as np
from scipy.special import chdtrc, fdtrc, ndtr, ndtri, stdtr, stdtrit

from privreg.base.arrays import Array
from privreg.errors import InferenceError

ENOUGH: Final = 20
"""Terms from which on a sum is taken for normal: updates of a lane, half as many of all lanes for each restriction, so
that joint tests hold their level, and clusters of a group."""
MAX_RESTRICTIONS: Final = 20
_TABLE: Final = "wald_table.npz"
_DRAWS: Final = 4_000_000
_TERMS: Final = 128
_SEED: Final = 20_230_917
_LANES_TERMS: Final = 192
"""Terms over all lanes, about; 4 of each at least, as the mean of many tails is nearly its mean."""
_MOST: Final = 20_000
_NORMALS: Final = 80_000_000  # Standard normals drawn for several lanes, at most but for a thousand draws of a_q
_TOGETHER: Final = 4_000_000


def scaling_sf(t: Array | float, lanes: int = 1) -> Array:
    """P(|T| > t) for T = W(1) / √(mean of `lanes` independent ∫bridge²), exactly; t = √n abs(θ̄_j − θ_j) / √V̂_jj.

    (2/π) ∫_0^{π/2} (u / sinh u)^{K/2} dφ with u = t / (√K sin φ), K lanes. With u = u₀ cosh w the integrand is even and
    analytic in w, so the trapezoidal rule converges geometrically; 0.04 is far inside its radius.

    See XSJKH (arXiv 2505.08227), section 4.2; the integral follows from the Laplace transform of ∫bridge².
    """
    u0, h = np.abs(np.atleast_1d(np.asarray(t, dtype=np.float64))) / np.sqrt(lanes), 0.04
    w = np.arange(0.0, 42.0, h)
    with np.errstate(over="ignore", invalid="ignore"):
        u = u0[:, None] * np.cosh(w)
        # u / sinh u through logarithms; → 1 as u → 0
        ratio = np.log(np.maximum(2 * u, 1e-300)) - u - np.log1p(-np.exp(-2 * np.maximum(u, 1e-6)))
        f = np.exp(0.5 * lanes * np.where(u < 1e-6, 0.0, ratio)) / np.cosh(w)
    f = np.where(np.isnan(f), 0.0, f)
    f[:, 0] *= 0.5
    return np.where(np.isnan(u0), np.nan, np.minimum(2.0 / np.pi * h * f.sum(axis=1), 1.0))


@functools.cache
def _tabulated() -> tuple[Array, Array]:
    with files("privreg.collector.inference").joinpath(_TABLE).open("rb") as f, np.load(f, allow_pickle=False) as z:
        return z["nodes"], z["weights"]


@functools.lru_cache(maxsize=64)
def _draws_of_lanes(q: int, lanes: int) -> Array:
    """Draws of a_q where the matrices of several lanes are averaged."""
    terms = max(4, -(-_LANES_TERMS // lanes))
    draws = int(np.clip(_NORMALS // (terms * lanes * q), 1000, _MOST))
    return np.asarray(simulate(draws, terms, _SEED, q, lanes)[-1])


def wald_sf(w: float, q: int, lanes: int = 1) -> float:
    """P(W_q > w), the p-value of a joint test of `q` restrictions, w = n (Rθ̄ − r)ᵀ (R V̂ Rᵀ)⁻¹ (Rθ̄ − r).

    `lanes` is the number of chains whose random-scaling matrices are averaged.
    Raises InferenceError if `q` is not tabulated.

    See XSJKH (arXiv 2505.08227), section 4.2; Lee, Liao, Seo & Shin (2022).
    """
    if not 1 <= q <= MAX_RESTRICTIONS:
        raise InferenceError(
            f"a joint test of {q} restrictions by random scaling is not tabulated; at most {MAX_RESTRICTIONS} "
            "restrictions, or fit with inference='batch_means'."
        )
    if lanes > 1:
        return float(np.mean(chdtrc(q, max(w, 0.0) / _draws_of_lanes(q, lanes))))
    nodes, weights = _tabulated()
    return float(np.sum(weights * chdtrc(q, max(w, 0.0) / nodes[q - 1])))


def simulate(draws: int, terms: int, seed: int, q: int = MAX_RESTRICTIONS, lanes: int = 1) -> Array:
    """Draw a_1 … a_q by the Karhunen–Loève series of the bridges, shape (q, draws).

    ∫ b bᵀ = Σ Z_k Z_kᵀ / (π k)², cut after `terms` with the rest replaced by its mean. The q-th squared
    Cholesky pivot is 1 / ([∫ b bᵀ]⁻¹)_qq of the leading q × q block.
    """
    values = 1.0 / (np.pi * np.arange(1, terms + 1)) ** 2
    rest = (1.0 / 6.0 - float(values.sum())) * np.eye(q)
    scale = np.sqrt(np.repeat(values, lanes) / lanes)[:, None]
    rng, step, out = np.random.Generator(np.random.SFC64(seed)), max(_TOGETHER // (len(scale) * q), 1), []
    for start in range(0, draws, step):
        z = rng.standard_normal((min(step, draws - start), len(scale), q)) * scale
        low = np.linalg.cholesky(z.transpose(0, 2, 1) @ z + rest)
        out.append(1.0 / np.diagonal(low, axis1=1, axis2=2) ** 2)
    return np.concatenate(out).T


def tabulate(draws: Array) -> tuple[Array, Array]:
    """Cell means of the sorted draws: 400 equal cells below the 99% point, 64 geometric ones above it."""
    n = draws.shape[1]
    upper = np.concatenate([np.linspace(1.0, 0.01, 401), np.geomspace(0.01, 2e-6, 64)[1:], [0.0]])
    edges = np.round((1.0 - upper) * n).astype(int)
    size = np.diff(edges)
    return np.add.reduceat(np.sort(draws, axis=1), edges[:-1], axis=1) / size, size / n


class Pivot(ABC):
    """Distribution of a t-ratio on the familiar scale."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Name of the distribution, for tables."""

    def along(self, rows: Array) -> "Pivot":
        """Distribution of linear combinations of the coefficients, `rows` of shape (q, p): the same."""
        return self

    @abstractmethod
    def two_sided(self, t: Array) -> Array:
        """P(|T| > |t|), elementwise."""

    @abstractmethod
    def critical(self, alpha: float) -> float | Array:
        """Value that |T| exceeds with probability `alpha`, or one for each coefficient."""

    def joint_label(self, q: int) -> str:
        """Name of the distribution of a Wald statistic of `q` restrictions: the same."""
        return self.label

    @abstractmethod
    def joint_sf(self, statistic: float, q: int) -> float:
        """P-value of a Wald statistic of `q` restrictions formed with the reported covariance."""

    def of_one(self, statistic: float) -> float:
        """P-value of a single restriction."""
        return float(self.two_sided(np.sqrt(np.array([statistic])))[0])


def _degrees(df: int) -> str:
    return f"{df} degree{'' if df == 1 else 's'} of freedom"


@dataclass(frozen=True)
class Normal(Pivot):
    """Standard normal limit, for consistent standard errors."""

    label = "standard normal"

    def two_sided(self, t: Array) -> Array:
        return np.asarray(2 * ndtr(-np.abs(t)))

    def critical(self, alpha: float) -> float:
        return float(-ndtri(alpha / 2))

    def joint_label(self, q: int) -> str:
        return f"χ² with {_degrees(q)}"

    def joint_sf(self, statistic: float, q: int) -> float:
        return float(chdtrc(q, statistic))


@dataclass(frozen=True)
class StudentT(Pivot):
    """Student's t, for a variance estimated from independent groups of people."""

    df: int  # Degrees of freedom: groups minus one

    @property
    def label(self) -> str:
        return f"t distribution with {_degrees(self.df)}"

    def two_sided(self, t: Array) -> Array:
        return np.asarray(2 * stdtr(self.df, -np.abs(t)))

    def critical(self, alpha: float) -> float:
        return float(-stdtrit(self.df, alpha / 2))

    def joint_label(self, q: int) -> str:
        scaled = "" if q == 1 else f"{q * self.df}/{self.df - q + 1} times "
        return f"{scaled}F with {q} and {_degrees(self.df - q + 1)}{'' if q == 1 else ' (Hotelling)'}"

    def joint_sf(self, statistic: float, q: int) -> float:
        """Tail of Hotelling's T².
        Raises InferenceError if there are more restrictions than degrees of freedom.
        """
        if (spare := self.df - q + 1) < 1:
            raise InferenceError(
                f"{q} restrictions can't be tested jointly with {self.df} degrees of freedom; test fewer, or fit with "
                "inference='random_scaling', or with more lanes= for between_lanes."
            )
        return float(fdtrc(q, spare, statistic * spare / (q * self.df)))


@dataclass(frozen=True)
class RandomScaling(Pivot):
    """Limit under random scaling with standard errors √(6 V̂ / n), which makes t read as usual."""

    lanes: int = 1  # Chains whose matrices are averaged
    # Updates of the shortest of them, if joint tests are to look at it; not part of the distribution
    steps: int | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        return "random scaling (exact)" if self.lanes == 1 else f"random scaling, {self.lanes} groups (exact)"

    def two_sided(self, t: Array) -> Array:
        return scaling_sf(np.sqrt(6.0) * np.abs(t), self.lanes)

    def critical(self, alpha: float) -> float:
        """Two-sided critical value; 2.7546 at 5% for one lane."""
        from scipy.optimize import brentq  # slow to import

        high = 8.0
        while scaling_sf(high, self.lanes)[0] > alpha:
            high *= 2
        found = brentq(lambda t: scaling_sf(t, self.lanes)[0] - alpha, 0.0, high, xtol=1e-12)
        return float(found) / float(np.sqrt(6.0))

    def joint_label(self, q: int) -> str:
        return self.label if q == 1 else f"random scaling of {q} restrictions"

    def joint_sf(self, statistic: float, q: int) -> float:
        """Tail of the joint distribution at six times the statistic.
        Raises InferenceError if there are more than 20 restrictions, or fewer steps than 20 a lane, or than 10 for each
        restriction over all lanes, from where on a test at level 5% has at most 6%
        (tests/collector/inference/test_methods.py).
        """
        if q == 1:
            return self.of_one(statistic)
        out = wald_sf(6.0 * statistic, q, self.lanes)
        needed = max(ENOUGH, -(-ENOUGH * q // (2 * self.lanes)))
        if self.steps is not None and self.steps < needed:
            raise InferenceError(
                f"a joint test of {q} restrictions by random scaling needs {needed} updates of each of {self.lanes} "
                f"group(s), and there were {self.steps}: the matrix of the restrictions would be nearly singular; ask "
                "more people, set a smaller batch_size=, or test fewer restrictions."
            )
        return out


if __name__ == "__main__":
    nodes, weights = tabulate(simulate(_DRAWS, _TERMS, _SEED))
    target = files("privreg.collector.inference").joinpath(_TABLE)
    np.savez_compressed(str(target), nodes=nodes, weights=weights)
    print(f"wrote {_TABLE}: {_DRAWS:,} draws, {_TERMS} terms, seed {_SEED}")
