"""From sensitivities to noise: how much a curator's release needs for its budget, and what it then keeps.

Output perturbation adds one draw to the average of the iterates. With permuted passes the record that differs is drawn
as often as there are passes, so the release is one Gaussian mechanism. With sampling it is drawn K ~ Bin(T, 1/n)
times, the same in both runs, and the release is a mixture of Gaussian mechanisms over K. Gradient perturbation adds
noise to each step's sum: over all records, so many Gaussian mechanisms in a row, or over a Poisson sample.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from privreg.arrays import Array
from privreg.errors import OptionError
from privreg.files.optional import need
from privreg.privacy.ledger import Budget
from privreg.published.descent.sensitivity import Constants, sensitivity

TAIL: Final = 1e-3  # Share of δ that the draws beyond those looked at may have; they count as lost in full
GRID: Final = 1e-4  # Finest grid of privacy losses
SLACK: Final = 1e-7  # Relative slack by which noise is rounded up, after a root was found to less
HIDDEN: Final = 0.25
"""Standard error, relative to the range over which the loss is quadratic, at which noise may hide a direction."""
MOST: Final = 0.1  # Share of the budget (of μ²) that curvature may cost; all intervals are then 5% longer
TOP: Final = 2.02  # 99% point of the Tracy–Widom distribution (β = 1)


def edge(p: int) -> float:
    """99% point of the largest eigenvalue of `curvature.symmetric_noise` of sd 1, shape (p, p).

    See Johnstone (2001), On the distribution of the largest eigenvalue in principal components analysis.
    """
    return float((2.0 * math.sqrt(p) + TOP * p ** (-1.0 / 6.0)) / math.sqrt(2.0))


def budget_share(p: int, lanes: int) -> float:
    """Share of μ² that curvature costs: 0 for one lane, which has no intervals.

    With the share s, curvature of n records has noise sd τ = √2 h r²/(√s μ n) and is seen above ``edge(p)`` τ. The
    mean of B lanes has the standard error 2√(2B) G/(μ n λ) along a direction of curvature λ, relative to G/(h r²), the
    range of the loss, 2√B √s/``edge(p)`` at the edge. That is set to `HIDDEN`: what noise hides is hardly known
    anyway. Neither n nor μ matters.
    """
    return min((HIDDEN * edge(p)) ** 2 / (4.0 * lanes), MOST) if lanes > 1 else 0.0


def permuted_sd(c: Constants, step: float, steps: int, passes: int, budget: Budget) -> float:
    """Noise sd of one release after so many passes over all records, each in a permuted order: Δ(passes)/μ.

    Internal units; 0 without privacy.
    """
    return sensitivity(passes, c, step, steps) / budget.mu if budget.private else 0.0


def sampled_sensitivities(c: Constants, step: float, steps: int, n: int, delta: float) -> tuple[Array, Array]:
    """Sensitivities Δ(k) and probabilities of K = k draws of one record of n, K ~ Bin(steps, 1/n), shapes (m,).

    Draws beyond the last k looked at have infinite sensitivity, as if they lost everything.
    """
    from scipy.stats import binom

    last = int(binom.isf(TAIL * delta, steps, 1.0 / n)) + 1
    k = np.arange(last + 1)
    moves = np.array([sensitivity(int(i), c, step, steps) for i in k] + [math.inf])
    return moves, np.append(binom.pmf(k, steps, 1.0 / n), binom.sf(last, steps, 1.0 / n))


def mixture_delta(moves: Array, probability: Array, sd: float, epsilon: float, beside: float = 0.0) -> float:
    """δ(ε) of a Gaussian mechanism whose sensitivity is random, the same in both runs, and not published; ε ≥ 0.

    E δ_{Δ(K)/sd}(ε) over sensitivities `moves` with their `probability`, shapes (m,): the hockey-stick divergence is
    jointly convex. `beside` is the μ of a release by Gaussian noise made besides.
    """
    if sd <= 0.0:
        return 1.0
    mu = np.hypot(moves / sd, beside)
    finite = np.isfinite(mu) & (mu > 0.0)
    m = mu[finite]
    lost = ndtr(m / 2 - epsilon / m) - np.exp(epsilon + log_ndtr(-epsilon / m - m / 2))
    out = float(probability[finite] @ np.maximum(lost, 0.0)) + float(probability[np.isinf(mu)].sum())
    return min(out, 1.0)


def sampled_sd(moves: Array, probability: Array, epsilon: float, delta: float, beside: float = 0.0) -> float:
    """Noise sd with which sampled draws keep (ε, δ)-DP: the root of E δ_{Δ(K)/sd}(ε) = δ, rounded up.
    Raises OptionError if the sensitivities are too large to be covered.
    """
    top = float(moves[np.isfinite(moves)].max(initial=0.0))
    low, high = top * 1e-9, top

    def lost(sd: float) -> float:
        return mixture_delta(moves, probability, sd, epsilon, beside)

    while lost(high) > delta:
        high *= 2.0
        if not math.isfinite(high) or high > top * 1e9:
            raise OptionError("no amount of noise keeps this budget; take a smaller step= or fewer epochs=.")
    if lost(low) <= delta:
        return low
    root = brentq(lambda s: lost(math.exp(s)) - delta, *np.log([low, high]))
    sd = math.exp(root)
    while lost(sd) > delta:
        sd *= 1.0 + SLACK
    return sd


# --- gradient perturbation -------------------------------------------------------------------------------


def full_sd(c: Constants, steps: int, budget: Budget) -> float:
    """Noise sd of each of so many sums over all records: 2G√T/μ, which composes to μ exactly; 0 without privacy."""
    return 2.0 * c.gradient * math.sqrt(steps) / budget.mu if budget.private else 0.0


def _spent(multiplier: float, share: float, steps: int, beside: float) -> Any:
    """Accountant of the same sums, and of the release beside them if there is one."""
    what = "gradient perturbation"
    dp, pld = need("dp_accounting", "central", what), need("dp_accounting.pld", "central", what)
    neighbours = need("dp_accounting.privacy_accountant", "central", what).NeighboringRelation.REPLACE_ONE
    # a coarser grid for wider losses; whatever it is, the accountant rounds so that δ is never too small
    grid = min(max(GRID, 2e-3 * share / multiplier), 0.01)
    out = pld.PLDAccountant(neighbours, value_discretization_interval=grid)
    out.compose(dp.PoissonSampledDpEvent(share, dp.GaussianDpEvent(multiplier)), steps)
    return out.compose(dp.GaussianDpEvent(2.0 / beside)) if beside else out


@cache
def gradient_delta(multiplier: float, share: float, steps: int, epsilon: float, beside: float = 0.0) -> float:
    """δ(ε) of so many noisy sums over Poisson samples, neighbours replacing one record; an upper bound. ε ≥ 0.

    `multiplier` is the noise sd of each sum over G, the bound of one record's gradient, `share` the probability with
    which each record is in a batch, independently of all others, and `beside` the μ of a release by Gaussian noise made
    besides.

    Given the other members of a batch, the noisy sums of two neighbours are (1 − q)N(0) + qN(g) and (1 − q)N(0) +
    qN(g'), up to a shift and in units of the noise sd. By advanced joint convexity their hockey-stick divergence is q
    E(X − a − bY)₊ for lognormal X and Y of mean 1 whose logs have the covariance of g and g', which falls in ⟨g, g'⟩
    and rises along rays (Plackett's identity): the worst pair is g' = −g with ‖g‖ = G. That is the pair the accountant
    composes, with sensitivity G to its "noise multiplier", 2G between neighbours.

    See Balle, Barthe & Gaboardi (2018), Privacy amplification by subsampling, Theorem 2; Zhu, Dong & Wang (2022),
    Optimal accounting of differential privacy via characteristic function, Theorem 10; the library dp-accounting.
    """
    return float(_spent(multiplier, share, steps, beside).get_delta(epsilon))


@cache  # of public numbers, a second each
def gradient_multiplier(share: float, steps: int, epsilon: float, delta: float, beside: float = 0.0) -> float:
    """Noise multiplier with which :func:`gradient_delta` is `delta` at most, rounded up.
    Raises MissingExtraError if dp-accounting is not installed; OptionError if the multiplier is beyond what can be
    accounted.
    """

    def kept(log: float) -> bool:
        return gradient_delta(math.exp(log), share, steps, epsilon, beside) <= delta

    # a first guess: the central limit of subsampled Gaussian mechanisms
    low = high = math.log(max(2.0 * share * math.sqrt(steps * math.log(1.0 / delta)) / epsilon, 0.5))
    while not kept(high):
        high += 0.5
        if high > math.log(1e6):
            raise OptionError("the noise would be beyond what can be accounted; take fewer steps or a larger budget.")
    while low > math.log(1e-2) and kept(low):
        high, low = min(high, low), low - 0.5
    while high - low > 2e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return math.exp(high)
