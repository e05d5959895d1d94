"""Simulated populations: rows in chunks, the coefficients that are estimated, and their asymptotic sd."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from privreg.base.arrays import Array

THRESHOLD: Final = 1.345  # Huber's c of the published tuning, the response's units
CHUNK: Final = 1 << 16  # Rows in memory at once
POINTS: Final = 1 << 19  # Rows over which the expectations of the asymptotic variance are taken


@dataclass(frozen=True)
class Design:
    """A population: y = 1 + x₁ + … + x_p + e, or a 0/1 response with these log-odds."""

    family: str  # "huber", "logistic", "expectile" or "quantile"
    p: int  # Covariates beside the constant; with none, y = e
    rho: float = 0.0  # Correlation ρ^abs(j−k) of standard normal covariates
    sd: float = 0.5  # Of the normal errors
    tau: float = 0.5  # Level of an expectile or quantile
    cube: bool = False  # Whether covariates are independent standard normals given that they are in [−1, 1]

    @property
    def names(self) -> list[str]:
        """Columns of the design."""
        return ["const", *(f"x{j + 1}" for j in range(self.p))]

    @property
    def root(self) -> Array:
        """Rᵀ with R Rᵀ the covariates' correlation, shape (p, p)."""
        j = np.arange(self.p)
        return np.ascontiguousarray(np.linalg.cholesky(self.rho ** np.abs(np.subtract.outer(j, j))).T)

    @property
    def response(self) -> tuple[float, float]:
        """Mean and sd of a numeric response."""
        if not self.p:
            return 0.0, self.sd
        each = norm.pdf(1.0) / (ndtr(1.0) - 0.5) if self.cube else 0.0  # var of a standard normal inside ±1: 1 − this
        variance = self.p * (1.0 - each) if self.cube else float((self.root.T @ self.root).sum())
        return 1.0, math.sqrt(variance + self.sd**2)

    def covariates(self, n: int, rng: np.random.Generator) -> Array:
        """Rows of the design, shape (n, p + 1)."""
        x = np.ones((n, self.p + 1))
        if self.cube:
            edge = float(ndtr(-1.0))
            x[:, 1:] = ndtri(edge + (1.0 - 2.0 * edge) * rng.random((n, self.p)))
        elif self.p:
            z = rng.standard_normal((n, self.p))
            x[:, 1:] = z @ self.root if self.rho else z
        return x

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Responses, shape (n,), and rows of the design, shape (n, p + 1)."""
        x = self.covariates(n, rng)
        if not self.p:
            return self.sd * rng.standard_normal(n), x
        eta = x.sum(axis=1)
        if self.family == "logistic":
            return (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(np.float64), x
        return eta + self.sd * rng.standard_normal(n), x


def chunks(design: Design, stops: Sequence[int], rng: np.random.Generator) -> Iterator[tuple[int, Array, Array]]:
    """Rows up to the last stop, with the rows so far: y and x of chunks that end at every stop; stops ascend."""
    done = 0
    for stop in stops:
        while done < stop:
            m = min(CHUNK, stop - done)
            y, x = design.draw(m, rng)
            done += m
            yield done, y, x


# --- what is estimated ---------------------------------------------------------------------------------


@cache
def expectile(tau: float, c: float) -> float:
    """Robust expectile with threshold `c` of a standard normal."""

    def above(m: float) -> float:  # E max(e − m, 0)
        return float(norm.pdf(m) - m * ndtr(-m))

    def score(m: float) -> float:
        return tau * (above(m) - above(m + c)) - (1.0 - tau) * (above(-m) - above(c - m))

    return float(brentq(score, -8.0, 8.0, xtol=1e-12))


def truth(design: Design, threshold: float) -> Array:
    """Coefficients that the scores estimate, shape (p + 1,).

    `threshold` is the score's, in the response's units; it matters for expectiles alone, as errors are symmetric.
    """
    out = np.ones(design.p + 1)
    if not design.p:
        out[0] = 0.0
    if design.family == "expectile":
        out[0] += design.sd * expectile(design.tau, threshold / design.sd)
    if design.family == "quantile":
        out[0] += design.sd * float(ndtri(design.tau))
    return out


# --- asymptotics ---------------------------------------------------------------------------------------


def _scalar(design: Design, threshold: float, eta: Array, balanced: bool) -> tuple[float, Array | float, Array | float]:
    """Bound of the scalar score, its mean curvature and its mean square, given the predictor."""
    if design.family == "logistic":
        share = 1.0 / (1.0 + np.exp(-eta))
        weight = np.maximum(share, 1.0 - share) if balanced else np.ones_like(share)
        return 1.0, share * (1.0 - share) / weight, share * (1.0 - share) / weight**2
    if design.family == "quantile":
        density = float(norm.pdf(ndtri(design.tau))) / design.sd
        return max(design.tau, 1.0 - design.tau), density, design.tau * (1.0 - design.tau)
    tau = design.tau if design.family == "expectile" else 0.5
    e = ndtri((np.arange(1 << 16) + 0.5) / (1 << 16)) * design.sd
    r = e - (design.sd * expectile(tau, threshold / design.sd) if tau != 0.5 else 0.0)
    side = np.where(r < 0, 1.0 - tau, tau) * (1.0 if design.family == "expectile" else 2.0)
    psi = side * np.clip(r, -threshold, threshold)
    bound = threshold * (max(tau, 1.0 - tau) if design.family == "expectile" else 1.0)
    return bound, float((side * (np.abs(r) <= threshold)).mean()), float((psi**2).mean())


@cache
def asymptotic_sd(
    design: Design, weights: str, threshold: float, noise: float, balanced: bool = False
) -> tuple[tuple[float, ...], float]:
    """Sd of √n times the error of each coefficient, from A⁻¹ (S + noise) A⁻¹, and the reach sup ‖x‖ω of the weights.

    `weights` are "published", those of the sources, "published_slopes", the same with the constant left out of the
    norm, or "whitened", unit weights; `threshold` is the score's, in the response's units. `noise` is the sd of a
    coordinate's noise over the bound of the scalar score and the reach of the weights: 2/μ for Gaussian noise, √8 d/ε
    for Laplace noise, 0 without privacy. `balanced` says whether the logistic score is the balanced one.

    Expectations over covariates are means over half a million seeded rows: good to about 0.3%.
    """
    rng = np.random.Generator(np.random.SFC64(987_654_321))
    d = design.p + 1
    to_user = np.eye(d)
    reach = {"published": math.sqrt(2.0), "published_slopes": math.sqrt(3.0), "whitened": 1.0}[weights]
    bread, meat, bound, done = np.zeros((d, d)), np.zeros((d, d)), 1.0, 0
    if weights == "whitened" and design.p and not design.cube:
        to_user[1:, 1:] = np.linalg.inv(design.root)
    for _ in range(POINTS // CHUNK):
        x = design.covariates(CHUNK, rng)
        eta, z = x.sum(axis=1), x @ to_user
        norm2 = (z**2).sum(axis=1) - (1.0 if weights == "published_slopes" else 0.0)
        w = 1.0 / np.sqrt(norm2) if weights == "whitened" else np.minimum(1.0, 2.0 / np.maximum(norm2, 1e-300))
        bound, curvature, square = _scalar(design, threshold, eta, balanced)
        bread += (z * (w * curvature)[:, None]).T @ z
        meat += (z * (w**2 * square)[:, None]).T @ z
        done += CHUNK
    half = to_user @ np.linalg.inv(bread / done)
    covariance = half @ (meat / done + (noise * bound * reach) ** 2 * np.eye(d)) @ half.T
    return tuple(np.sqrt(np.diag(covariance)).tolist()), reach
