"""The asymptotic limit that private fits are measured against, by quadrature.

**The yardstick.** Covariates are normal; z = (1, z₁ … z_p) are they, whitened, beside the constant. Every person's
score is ψ z/‖z‖ plus N(0, (2B/μ)² I), B = sup abs ψ, and the estimate sets the mean of n such scores to zero. Its
covariance is

    (1/n) A⁻¹ ((2B/μ)² I + E ψ² z zᵀ/‖z‖²) A⁻¹,    A = E κ z zᵀ/‖z‖,

mapped to the user's coordinates. It does not depend on which whitening is meant, since rotations change neither ‖z‖ nor
the noise. All n people are counted: none is spent on scales, pilots or curvature.

* Huber: ψ is the residual r cut off at ±c, B = c, κ = P(abs r ≤ c given x), and c is half the residual scale s, the
  number with P(abs r ≤ s/2) = 0.3829…, as for normal errors of sd s.
* Logistic: the balanced score (π − y)/max(π, 1 − π), so that B = 1, κ = min(π, 1 − π) and E ψ² = κ/max(π, 1 − π).

It is a yardstick, not a bound: other weights or another threshold can do better for a coefficient or a large μ. It
is the same for every tuning, whatever score that tuning uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi, expon, t

SHARE = math.erf(0.5 / math.sqrt(2.0))
"""P(abs r ≤ c): 0.3829 at c = s/2."""

SCALE = 0.5
"""Residual scale s of all error laws but the heteroscedastic one."""

NORMAL_975 = 1.959963984540054
FAR = 9.0
NODES = 160


def correlation(p: int, rho: float) -> np.ndarray:
    """ρ^abs(j−k), shape (p, p)."""
    return np.asarray(rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p))))


# --- quadrature ----------------------------------------------------------------------------------------


def _legendre(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = (high - low) / 2
    return low + half * (nodes + 1), half * weights


def _normal_nodes() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a standard normal, both halves apart: laws may have a kink at 0."""
    at, weight = _legendre(0.0, FAR)
    weight = weight * np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi)
    return np.concatenate([-at, at]), np.concatenate([weight, weight])


def weighted_moments(weight: Callable[[np.ndarray], np.ndarray], direction: np.ndarray, power: int) -> np.ndarray:
    """E w(u) z zᵀ/‖z‖^power, z = (1, N(0, I)), u the slopes' part of z along `direction`.

    Parameters
    ----------
    weight : callable
    direction : ndarray, shape (p,)
        Of length 1.
    power : int

    Returns
    -------
    ndarray, shape (p + 1, p + 1)
        By symmetry only the constant, u and the length of the rest matter.
    """
    p = direction.shape[0]
    u, mass = _normal_nodes()
    rest, rest_mass = np.zeros(1), np.ones(1)
    if p > 1:
        rest, rest_mass = _legendre(0.0, math.sqrt(p - 1) + FAR)
        rest_mass = rest_mass * chi(p - 1).pdf(rest)
    norm2 = 1.0 + u[:, None] ** 2 + rest[None, :] ** 2
    w = (weight(u) * mass)[:, None] * rest_mass[None, :] / norm2 ** (power / 2)
    along = float((w * u[:, None] ** 2).sum())
    across = float((w * rest[None, :] ** 2).sum()) / (p - 1) if p > 1 else 0.0
    out = np.zeros((p + 1, p + 1))
    out[0, 0] = w.sum()
    out[0, 1:] = out[1:, 0] = float((w * u[:, None]).sum()) * direction
    out[1:, 1:] = across * np.eye(p) + (along - across) * np.outer(direction, direction)
    return out


# --- error laws ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """A law of the errors, given the first covariate.

    Attributes
    ----------
    name : str
    cdf : callable
        P(e ≤ t given x₁), of arrays t and x₁ that broadcast.
    draw : callable
        Errors from a generator, beside a column of values of x₁, shape (n,).
    sd : float
    symmetric : bool
    spread : float
        Errors begin at minus this if they are skewed; else nearly all lie within ± this.
    """

    name: str
    cdf: Callable[[np.ndarray, np.ndarray], np.ndarray]
    draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    sd: float
    symmetric: bool
    spread: float

    def below(self, at: np.ndarray) -> np.ndarray:
        """P(e ≤ at), shape (k,)."""
        u, mass = _normal_nodes()
        return np.broadcast_to(self.cdf(at[:, None], u[None, :]), (at.shape[0], u.shape[0])) @ mass


@cache
def centre(law: Errors, c: float) -> float:
    """What Huber's threshold c takes for the errors' middle: m with E ψ_c(e − m) = 0."""

    def mean_score(m: float) -> float:
        # E min(max(e − m, −c), c) = −c + ∫ P(e > v) dv from m − c to m + c; the exponential has a kink
        edges = sorted({m - c, *(v for v in (-law.spread, law.spread) if m - c < v < m + c), m + c})
        pieces = (_legendre(*ends) for ends in pairwise(edges))
        return sum(float((1.0 - law.below(v)) @ mass) for v, mass in pieces) - c

    return 0.0 if law.symmetric else float(brentq(mean_score, -law.spread, law.spread, xtol=1e-12))


@cache
def middle(law: Errors) -> tuple[float, float]:
    """Return (m, c) with P(abs(e − m) ≤ c) = 0.3829… and E ψ_c(e − m) = 0."""

    def excess(c: float) -> float:
        m = centre(law, c)
        low, high = law.below(np.array([m - c, m + c]))
        return float(high - low) - SHARE

    c = float(brentq(excess, 1e-3, law.spread, xtol=1e-12))
    return centre(law, c), c


def _standard(name: str) -> Errors:
    """Laws before scaling; the heteroscedastic and the normal one as they are."""
    if name == "normal":
        return Errors(
            name,
            lambda v, x: ndtr(v / SCALE),
            lambda rng, x: SCALE * rng.standard_normal(x.shape[0]),
            SCALE,
            True,
            FAR,
        )
    if name == "heteroscedastic":  # sd 0.5 (0.5 + abs x₁)
        return Errors(
            name,
            lambda v, x: ndtr(v / (0.5 * (0.5 + np.abs(x)))),
            lambda rng, x: 0.5 * (0.5 + np.abs(x)) * rng.standard_normal(x.shape[0]),
            0.5 * math.sqrt(1.25 + math.sqrt(2 / math.pi)),
            True,
            FAR,
        )
    if name == "t3":
        law = t(3)
        return Errors(name, lambda v, x: law.cdf(v), lambda rng, x: rng.standard_t(3, x.shape[0]), law.std(), True, FAR)
    if name == "skewed":  # exponential less its mean
        return Errors(
            name,
            lambda v, x: expon.cdf(v + 1.0),
            lambda rng, x: rng.standard_exponential(x.shape[0]) - 1.0,
            1.0,
            False,
            1.0,
        )
    raise ValueError(f"no law of errors {name!r}")


@cache
def errors(name: str) -> Errors:
    """Return a law by name: normal, t3, skewed (each with residual scale 0.5) or heteroscedastic."""
    law = _standard(name)
    if name in {"normal", "heteroscedastic"}:
        return law
    k = SCALE / 2 / middle(law)[1]
    return Errors(
        name,
        lambda v, x: law.cdf(v / k, x),
        lambda rng, x: k * law.draw(rng, x),
        k * law.sd,
        law.symmetric,
        k * law.spread,
    )


# --- covariances ---------------------------------------------------------------------------------------


def _huber(law: Errors) -> tuple[float, Callable, Callable]:
    """Bound, κ(u) and E(ψ² given u) of the threshold c = s/2; u is x₁."""
    m, c = middle(law)
    v, mass = _legendre(0.0, c)

    def kappa(u: np.ndarray) -> np.ndarray:
        return np.broadcast_to(law.cdf(m + c, u) - law.cdf(m - c, u), u.shape)

    def square(u: np.ndarray) -> np.ndarray:
        x = u[:, None]  # E min(r², c²) = ∫ 2 v P(abs r > v) dv
        outside = 1.0 - law.cdf(m + v[None, :], x) + law.cdf(m - v[None, :], x)
        return np.broadcast_to(outside @ (2 * v * mass), u.shape)

    return c, kappa, square


def _balanced(intercept: float, length: float) -> tuple[float, Callable, Callable]:
    """Bound, κ(u) and E(ψ² given u) of the balanced logistic score at η = intercept + length · u."""

    def ratio(u: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(-np.abs(intercept + length * u)))

    return 1.0, lambda u: ratio(u) / (1.0 + ratio(u)), ratio


@cache
def limit(p: int, rho: float, mu: float, law: str, sampling: bool = True) -> np.ndarray:
    """Covariance of √n times the estimate's error at the limit, coordinates (1, x), all coefficients 1.

    Parameters
    ----------
    p : int
        Standard normal covariates with correlation ρ^abs(j−k).
    rho : float
    mu : float
    law : str
        Of the errors, see `errors`; or "logistic".
    sampling : bool
        False leaves out the records' own variance and keeps that of the noise.

    Returns
    -------
    ndarray, shape (p + 1, p + 1)
    """
    root = np.linalg.cholesky(correlation(p, rho))
    slopes = root.T @ np.ones(p)  # of the whitened covariates
    if law == "logistic":
        length = float(np.linalg.norm(slopes))
        direction = slopes / length
        bound, kappa, square = _balanced(1.0, length)
    else:
        direction = np.eye(p)[0]  # the first covariate is the first whitened one
        bound, kappa, square = _huber(errors(law))
    bread = np.linalg.inv(weighted_moments(kappa, direction, 1))
    meat = (2 * bound / mu) ** 2 * np.eye(p + 1)
    if sampling:
        meat += weighted_moments(square, direction, 2)
    to_user = np.eye(p + 1)
    to_user[1:, 1:] = np.linalg.inv(root).T
    out = to_user @ bread @ meat @ bread @ to_user.T
    out.setflags(write=False)
    return out


def lengths(covariance: np.ndarray, n: int) -> np.ndarray:
    """Lengths of 95% intervals at the limit for n people, shape (p + 1,)."""
    return np.asarray(2 * NORMAL_975 * np.sqrt(np.diag(covariance) / n))
