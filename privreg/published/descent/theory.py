"""Sensitivity of a curator's release to one replaced record, and the noise for it: in this file, nowhere else.

`sensitivity` bounds the average of the iterates (output perturbation), `Constants.gradient` one record's gradient
(gradient perturbation), `curvature_sensitivity` the sum of all records' curvature. Output perturbation adds one draw to
the average: with permuted passes one Gaussian mechanism; with sampling the record that differs is drawn K ~ Bin(T, 1/n)
times, the same in both runs: a mixture over K. Gradient perturbation adds noise to each step's sum.
"""

import math
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from privreg.base.arrays import Array
from privreg.base.optional import need
from privreg.errors import OptionError
from privreg.published.descent.losses import Loss

ROUNDING: Final = 1e-9  # Relative slack for steps that are 2/L up to their last bits
TAIL: Final = 1e-3  # Share of δ that the draws beyond those looked at may have; they count as lost in full
GRID: Final = 1e-4  # Finest grid of privacy losses
SLACK: Final = 1e-7  # Relative slack by which noise is rounded up, after a root was found to less


class Constants(NamedTuple):
    """Constants of a loss on its domain, internal units."""

    alpha: float  # Hölder exponent of the gradient
    holder: float  # L with ‖∂f(w) − ∂f(w')‖ ≤ L ‖w − w'‖^α
    gradient: float  # G = sup ‖∂f‖ over the domain
    slope: float  # Bound of φ', to which slopes are clipped: G/r


def sensitivity(times: int, c: Constants, step: float, steps: int) -> float:
    """Largest distance between the averaged iterates of two runs whose records differ in one, drawn K = `times` times.

    c η^(1/(1−α)) √T 1{K ≥ 1} + 2 G η K with c² = ((1−α)/(1+α)) (2^(−α) L)^(2/(1−α)); for α = 1 and η ≤ 2/L it is 2 G η
    K. Internal units; η is the `step`, T the number of `steps`.

    It bounds every single iterate, so it holds for any average of them with weights that don't depend on the records. A
    shared record moves two iterates at distance D to one of at most √(D² + c² η^(2/(1−α))), as the gradient is
    co-coercive; a record that differs adds 2Gη at most; projection on a convex set does not increase their distance;
    and until it is first drawn the runs are the same. The Hölder condition is needed only between predictors that
    occur: for a loss of ⟨x, w⟩ co-coercivity is the Hölder condition of φ' read from right to left.
    Raises OptionError if α is outside [0, 1], or α = 1 and η > 2/L, where steps expand.
    """
    if not 0.0 <= c.alpha <= 1.0:
        raise OptionError(f"the Hölder exponent alpha={c.alpha:g} must be in [0, 1].")
    if times == 0:
        return 0.0
    drawn, rest = 2.0 * c.gradient * step * times, 1.0 - c.alpha
    if rest == 0.0:
        if step * c.holder > 2.0 * (1.0 + ROUNDING):
            raise OptionError(
                f"step={step:.6g} is too large: with a smooth loss the sensitivity is known for steps up to 2/L = "
                f"{2.0 / c.holder:.6g} (internal units, L = {c.holder:.4g}); take a smaller one, or leave step= out."
            )
        return drawn
    # in logs: L^(1/(1−α)) overflows as α nears 1 where the product with η^(1/(1−α)) is small
    log = 0.5 * math.log(rest / (1.0 + c.alpha)) + (math.log(step * c.holder) - c.alpha * math.log(2.0)) / rest
    return (math.exp(log) if log < 700.0 else math.inf) * math.sqrt(steps) + drawn


def curvature_sensitivity(steepest: float, reach: float) -> float:
    """Largest Frobenius distance between sums of a x xᵀ over neighbours, 0 ≤ a ≤ `steepest`, ‖x‖ ≤ `reach`.

    √2 · steepest · reach²: ‖a x xᵀ − b z zᵀ‖² = a²‖x‖⁴ + b²‖z‖⁴ − 2ab⟨x, z⟩², attained at right angles.
    """
    return math.sqrt(2.0) * steepest * reach**2


def constants(loss: Loss, reach: float, radius: float | None, step: float, steps: int) -> Constants:
    """Constants of a loss on its domain, the ball of `radius` or, if that is None, what T iterates of step η reach.

    `reach` is r = sup ‖x‖ over the public box, internal units. Raises OptionError if iterates have no known bound.
    """
    holder = loss.holder * reach ** (1.0 + loss.alpha)
    top = loss.slope
    if math.isinf(top):  # |φ'| at the largest |y| or 1, and the largest predictor
        domain = iterates_within(loss.alpha, holder, loss.start, step, steps) if radius is None else radius
        top = float(loss.a * (loss.start ** (1.0 / loss.a) + reach * domain) ** (loss.a - 1.0))
    return Constants(loss.alpha, holder, reach * top, top)


def iterates_within(alpha: float, holder: float, start: float, step: float, steps: int) -> float:
    """Radius R_T that T iterates from 0 without projection stay within, for a loss that is nowhere negative, 0 < α ≤ 1.

    R_T² = T sup_f {2ηf(0) + η²c₁²f^(2α/(1+α)) − 2ηf}, c₁ = (1 + 1/α)^(α/(1+α)) L^(1/(1+α)), L the gradient's Hölder
    constant on all of ℝ^d and `start` sup f(0); for α = 1 and η ≤ 1/L that is 2ηT f(0).
    Raises OptionError for α = 1 with η > 1/L, where iterates may run away.
    """
    gain = 0.0
    if alpha < 1.0:
        power = 2.0 * alpha / (1.0 + alpha)
        c2 = (1.0 + 1.0 / alpha) ** power * holder ** (2.0 / (1.0 + alpha))
        at = (step * c2 * power / 2.0) ** (1.0 / (1.0 - power))  # where the derivative in f is 0
        gain = (step * step) * c2 * at**power - 2.0 * step * at
    elif step * holder > 1.0 + ROUNDING:
        raise OptionError(
            f"step={step:.6g} is too large: without radius= it must be at most 1/L = {1.0 / holder:.6g} (internal "
            "units); take a smaller one, or give radius=."
        )
    return math.sqrt(steps * (2.0 * step * start + gain))


def sampled_sensitivities(c: Constants, step: float, steps: int, n: int, delta: float) -> tuple[Array, Array]:
    """Sensitivities Δ(k) and probabilities of K = k draws of one record of n, K ~ Bin(steps, 1/n), shapes (m,).

    Draws beyond the last k looked at have infinite sensitivity, as if they lost everything.
    """
    k = np.arange(int(binom.isf(TAIL * delta, steps, 1.0 / n)) + 2)
    moves = np.array([sensitivity(int(i), c, step, steps) for i in k] + [math.inf])
    return moves, np.append(binom.pmf(k, steps, 1.0 / n), binom.sf(k[-1], steps, 1.0 / n))


def mixture_delta(moves: Array, probability: Array, sd: float, epsilon: float, beside: float = 0.0) -> float:
    """δ(ε) of a Gaussian mechanism whose sensitivity is random, the same in both runs, and not published; ε ≥ 0.

    E δ_{Δ(K)/sd}(ε) over sensitivities `moves` with their `probability`, shapes (m,), as the hockey-stick divergence is
    jointly convex; `beside` is the μ of another release by Gaussian noise.
    """
    mu = np.hypot(moves / sd, beside) if sd > 0.0 else np.full(len(moves), np.inf)
    finite = np.isfinite(mu) & (mu > 0.0)
    m = mu[finite]
    lost = ndtr(m / 2 - epsilon / m) - np.exp(epsilon + log_ndtr(-epsilon / m - m / 2))
    return min(float(probability[finite] @ np.maximum(lost, 0.0)) + float(probability[np.isinf(mu)].sum()), 1.0)


def sampled_sd(moves: Array, probability: Array, epsilon: float, delta: float, beside: float = 0.0) -> float:
    """Noise sd with which sampled draws keep (ε, δ)-DP: the root of E δ_{Δ(K)/sd}(ε) = δ, rounded up.
    Raises OptionError if the sensitivities are too large to be covered.
    """
    lost = partial(mixture_delta, moves, probability, epsilon=epsilon, beside=beside)
    low, high = float(moves[np.isfinite(moves)].max(initial=0.0)) * np.array([1e-9, 1e9])
    if not math.isfinite(high) or lost(high) > delta:
        raise OptionError("no amount of noise keeps this budget; take a smaller step= or fewer epochs=.")
    if lost(low) <= delta:
        return float(low)
    sd = math.exp(brentq(lambda s: lost(math.exp(s)) - delta, *np.log([low, high])))
    while lost(sd) > delta:
        sd *= 1.0 + SLACK
    return sd


@cache
def gradient_delta(multiplier: float, share: float, steps: int, epsilon: float, beside: float = 0.0) -> float:
    """δ(ε) of so many noisy sums over Poisson samples, neighbours replacing one record; an upper bound. ε ≥ 0.

    `multiplier` is the noise sd of each sum over G, the bound of one record's gradient, `share` the probability with
    which each record is in a batch, independently, and `beside` the μ of another release by Gaussian noise.

    Given the other members of a batch, the noisy sums of two neighbours are (1 − q)N(0) + qN(g) and (1 − q)N(0) +
    qN(g'), up to a shift and in units of the noise sd. By advanced joint convexity their hockey-stick divergence is q
    E(X − a − bY)₊ for lognormal X and Y of mean 1 whose logs have the covariance of g and g', which falls in ⟨g, g'⟩
    and rises along rays (Plackett's identity): the worst pair is g' = −g with ‖g‖ = G. That is the pair the accountant
    composes, with sensitivity G to its "noise multiplier", 2G between neighbours.

    See Balle, Barthe & Gaboardi (2018), Privacy amplification by subsampling, Theorem 2; Zhu, Dong & Wang (2022),
    Optimal accounting of differential privacy via characteristic function, Theorem 10; the library dp-accounting.
    """
    dp: Any = need("dp_accounting", "central", "gradient perturbation")
    pld: Any = need("dp_accounting.pld", "central", "gradient perturbation")
    # a coarser grid for wider losses; whatever it is, the accountant rounds so that δ is never too small
    grid = min(max(GRID, 2e-3 * share / multiplier), 0.01)
    spent = pld.PLDAccountant(dp.NeighboringRelation.REPLACE_ONE, value_discretization_interval=grid)
    spent.compose(dp.PoissonSampledDpEvent(share, dp.GaussianDpEvent(multiplier)), steps)
    if beside:
        spent.compose(dp.GaussianDpEvent(2.0 / beside))
    return float(spent.get_delta(epsilon))


@cache  # of public numbers, a second each
def gradient_multiplier(share: float, steps: int, epsilon: float, delta: float, beside: float = 0.0) -> float:
    """Noise multiplier with which :func:`gradient_delta` is `delta` at most, rounded up by 0.2% at most.
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
