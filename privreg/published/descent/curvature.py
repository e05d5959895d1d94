"""What the records tell of each direction: noised curvature, the steps it allows, and what it hides.

A descent leaves coefficients where they began along directions without curvature. All lanes do so alike, so lanes agree
on what no record tells. A small part of the budget therefore goes into the mean curvature of all records, a symmetric
matrix with noise. By it steps are lengthened along slow directions: whatever a noisy gradient is multiplied by, the
guarantee and the end of the descent stay the same. Directions that the noise hides are named.

Why not from the path, whose noisy sums cost nothing more? Regressed on the iterates they give a, the product of step,
steps and curvature, with standard error √(2a/B) for B lanes: 1.6 where the start is just forgotten, more near a unit
root. 3% of the budget give it with 0.01 to 0.1 (4 coefficients, 20,000 records, μ = 1). Output perturbation has no
public path.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw, ndtri

from privreg.arrays import Array
from privreg.diagnostics import Diagnostic, doubt
from privreg.published.descent.calibration import edge
from privreg.published.descent.plan import FORGOTTEN, GUESS, Plan

BIAS: Final = 0.25
"""Bias, in standard errors, that is let pass: 95% intervals by t with 7 degrees of freedom then have 94.4%."""
CHANCE: Final = 0.01  # Probability that noise alone ties any coefficient to a direction that is not known


class Directions(NamedTuple):
    """Principal directions of noised curvature. As private as the release."""

    values: Array  # Curvature along each, internal units; shape (p,)
    vectors: Array  # In columns; shape (p, p)
    hidden: NDArray[np.bool_]  # Whether noise alone may look so, shape (p,)
    steps: Array  # η along each, from then on; shape (p,)
    left: Array  # Share of the start that averages still hold, shape (p,)

    @property
    def gains(self) -> Array:
        """What a gradient is multiplied by, shape (p, p)."""
        return np.asarray((self.vectors * self.steps) @ self.vectors.T)


class Release(NamedTuple):
    """What a fit releases, internal units: private."""

    lanes: Array  # Averages, shape (lanes, p)
    moved: Array  # How far averaged iterates still moved, see `descent.Descent`; shape (lanes, p)
    found: Directions | None  # What noised curvature tells; None of one lane


def symmetric_noise(sd: float, normals: Array, p: int) -> Array:
    """Symmetric matrix whose coordinates, in the Frobenius inner product, have this sd, of p (p + 1) / 2 `normals`."""
    out, places = np.zeros((p, p)), np.tril_indices(p, -1)
    out[places] = sd / math.sqrt(2.0) * normals[p:]
    return np.asarray(out + out.T + np.diag(sd * normals[:p]))


def directions(curvature: Array, plan: Plan) -> Directions:
    """Look at each direction of a noised `curvature`, shape (p, p), internal units, and choose its step.

    After steps whose product with λ is a, the mean of the next κ times as many iterates holds about e^(−a)/(κa) of the
    start. Steps along a direction of curvature λ are so long that this share of `GUESS` is `BIAS` of the standard error
    that the noise alone makes there; at least η and at most 1/λ. Longer ones would let iterates wander farther. A
    direction that noise hides is taken at the edge of the noise: if it has curvature, it converges as far as it can; if
    it has none, iterates wander by noise alone, and lanes show it; but not where a ball would shorten all of them.
    """
    p, size = len(curvature), min(plan.sizes)
    values, vectors = np.linalg.eigh(curvature)
    rounding = max(p * np.finfo(np.float64).eps * float(np.abs(values).max()), 1e-300)  # all there is without privacy
    floor = max(edge(p) * plan.curvature_sd, rounding)
    seen, steps = np.maximum(values, floor), np.full(p, plan.step)
    begin, more = plan.early(size), plan.wait(size) - plan.early(size)
    kept = plan.steps(size) - plan.wait(size)
    if plan.perturbation == "gradient" and more > 0:
        wanted = np.full(p, FORGOTTEN)
        if plan.noise_sd > 0.0:
            se = plan.noise_sd / (plan.share * size * seen * math.sqrt(kept * len(plan.sizes)))
            wanted = lambertw(GUESS * more / (kept * BIAS * se)).real
        steps = np.maximum(plan.step, np.minimum(wanted / more, 1.0) / seen)
    if floor == rounding or plan.radius is not None:
        steps[values <= floor] = plan.step
    keep, then = (np.clip(1.0 - eta * seen, 0.0, 1.0 - 1e-9) for eta in (plan.step, steps))
    left = keep**begin * then ** (more + 1) * (1.0 - then**kept) / (kept * (1.0 - then))
    return Directions(values, vectors, values <= floor, steps, left)


def notes(lanes: Array, found: Directions, sd: float, matrix: Array, names: Sequence[str]) -> tuple[Diagnostic, ...]:
    """Say which coefficients depend on directions that are not known.

    `lanes`, shape (B, p), are in internal units, `sd` is that of the curvature's noise, and `matrix`, shape (p, p),
    leads to the user's coefficients.

    A direction is not known if it is hidden, or if what is left of the start there, f/(1 − f) times the average for a
    share f, is more than `BIAS` standard errors. A coefficient is marked if that comes to as much of its standard
    error, by loadings that are more than noise in the directions: to first order it moves a loading by τ²/2 Σ_k
    b_k²/(λ_k − λ)², over known directions k with loadings b.
    """
    b, p = lanes.shape

    def error(rows: Array) -> Array:
        return np.asarray((lanes @ rows.T).std(axis=0, ddof=1) / math.sqrt(b))

    loading = matrix @ found.vectors
    bias = found.left / (1.0 - found.left) * np.abs(lanes.mean(axis=0) @ found.vectors)
    slow = ~found.hidden & (bias > BIAS * error(found.vectors.T))
    known, said, sure = ~(found.hidden | slow), [], -float(ndtri(CHANCE / (2.0 * p * p)))
    for part, code, text in ((found.hidden, "unidentified", _HIDDEN), (slow, "moving", _MOVING)):
        gaps = found.values[known][:, None] - found.values[part]
        noise = sd / math.sqrt(2.0) * np.sqrt(loading[:, known] ** 2 @ gaps**-2.0)
        least = np.maximum(sure * noise, 1e-9 * np.linalg.norm(loading, axis=1, keepdims=True))  # rounding
        size = np.where(np.abs(loading[:, part]) > least, np.abs(loading[:, part]), 0.0)
        much = size @ bias[part] > BIAS * error(matrix)
        rows = np.flatnonzero(much if code == "moving" else size.any(axis=1)).tolist()
        if rows:
            said.append(doubt(code, text.format(", ".join(names[j] for j in rows)), rows))
    return tuple(said)


_HIDDEN: Final = (
    "at this budget the records don't tell {} from the other columns, as where nobody or hardly anybody has a level or "
    "the reference level, columns add up to each other, a column hardly varies inside its bounds, or all responses are "
    "alike; compare with a common level, leave a column out, merge levels, declare closer bounds=, or ask more people"
)
_MOVING: Final = (
    "the steps are too small, or too few, to forget the start along {}; take more epochs=, a larger step=, fewer "
    "lanes=, or bounds= that fit the columns more closely"
)
