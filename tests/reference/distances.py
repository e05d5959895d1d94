"""Largest distances of two reports of scores, computed a second time: exactly at corners, or by branch and bound.

``python -m tests.reference.distances`` prints the numbers of `privreg.protocol.sums`, with what they are rounded up
from. A report has the squared norms (score, slope, squared score, score beyond the threshold, scale number) of Equation
(3) of docs/sums.md; what is computed are Equations (46) and (47).
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numba
import numpy as np
from scipy.optimize import minimize

from privreg.protocol import sums

Corner = tuple[int, int, int, int, int, int, int]


# --- scores whose slope is anything from 0 to the largest ------------------------------------------------------


def corners(scaled: bool) -> list[Corner]:
    """Beyond or not, near or not, inside or not, |score|, its length, slope, and scale number, each at an end."""
    out = set()
    for far, inside, score, length, slope in itertools.product((0, 1), repeat=5):
        for near, number in itertools.product((0, 1), (-1, 1)):
            if scaled:
                out.add((far, near * inside * (1 - far), inside, score, length, slope * (1 - far), number))
            else:
                out.add((0, 0, 0, score, length, slope, 0))
    return sorted(out)


def farthest(shares: Any, scaled: bool) -> tuple[Fraction, Corner, Corner, Fraction]:
    """The supremum in fractions, and where it is: two corners, and minus the cosine of their directions.

    The squared distance is convex in each number of a report if the squares' share is small enough, so that it is
    largest at corners, and concave in the cosine there.
    """
    a, b, m, o, t = (Fraction(str(v)) for v in shares)
    m = m / 4 if scaled else m
    assert 2 * m <= a  # convex in the score and its length
    assert 2 * m <= t or not scaled  # and in the scale number
    best = (Fraction(0), (0,) * 7, (0,) * 7, Fraction(0))
    for x, y in itertools.combinations_with_replacement(corners(scaled), 2):
        (f, n, i, s, length, slope, k), (g, p, j, r, other, steep, q) = x, y
        u, v = s * length, r * other
        fixed = a * (u * u + v * v) + b * (slope + steep) + t * (k - q) ** 2 + t * (i - j) ** 2
        fixed += o * (f * u * u + g * v * v + n * length + p * other)
        fixed += m * ((u * u + k * k) ** 2 + (v * v + q * q) ** 2 - 2 * k * k * q * q)
        once = 2 * a * u * v + 2 * o * (f * g * u * v + n * p * length * other) + 4 * m * u * v * k * q
        twice = 2 * b * slope * steep + 2 * m * u * u * v * v
        h = max(min(once / (2 * twice), Fraction(1)), Fraction(-1)) if twice else Fraction(1 if once > 0 else -1)
        best = max(best, (fixed + once * h - twice * h * h, x, y, h))
    return best


# --- logistic scores -------------------------------------------------------------------------------------------
# A row z of the length ρ L at the angle f to the coefficients has the predictor k ρ cos f, k = ‖θ‖ L, and a response of
# 1 is one of 0 at −z. t is ρ up to 1, and 2 − 1/ρ beyond.


@numba.njit
def _sigmoid(e: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(max(e, -700.0), 700.0)))


@numba.njit
def _one(f0: float, f1: float, t0: float, t1: float, k: float, shares: Any) -> Any:
    """Ends of score and slope, and the largest squared norm, of reports with angle and length within these."""
    if t1 <= 1.0:
        r0, r1, a0, a1, b0, b1 = t0, t1, t0, t1, t0 * t0, t1 * t1
    else:
        r0, r1, a0, a1, b0, b1 = 1.0 / (2.0 - t0), 1.0 / max(2.0 - t1, 1e-300), 2.0 - t1, 2.0 - t0, 1.0, 1.0
    if k < np.inf:
        c0, c1 = math.cos(f1), math.cos(f0)
        s0, s1 = _sigmoid(k * c0 * (r0 if c0 >= 0.0 else r1)), _sigmoid(k * c1 * (r1 if c1 >= 0.0 else r0))
    else:  # any predictor
        s0, s1 = 0.5 + 0.5 * math.cos(f1), 0.5 + 0.5 * math.cos(f0)
    w0 = 4.0 * min(s0 * (1.0 - s0), s1 * (1.0 - s1))
    w1 = 1.0 if s0 <= 0.5 <= s1 else 4.0 * max(s0 * (1.0 - s0), s1 * (1.0 - s1))
    x, y, v, m, h = shares[0] * a1 * a1, shares[1] * b1 * b1, shares[2] * a1**4, 0.5 * (s0 + s1), 0.5 * (s1 - s0)
    rise = abs(2.0 * x * m + 4.0 * v * m**3 + 32.0 * y * m * (1.0 - m) * (1.0 - 2.0 * m))
    bend = max(abs(1.0 - 6.0 * s0 * (1.0 - s0)), abs(1.0 - 6.0 * s1 * (1.0 - s1)))
    bend = 2.0 * x + 12.0 * v * s1 * s1 + 32.0 * y * max(bend, 0.5 if s0 <= 0.5 <= s1 else 0.0)
    about = x * m * m + y * (4.0 * m * (1.0 - m)) ** 2 + v * m**4 + rise * h + 0.5 * bend * h * h
    return a0 * s0, a1 * s1, b0 * w0, b1 * w1, min(about, x * s1 * s1 + y * w1 * w1 + v * s1**4)


@numba.njit
def _above(box: Any, k: float, shares: Any) -> float:
    """A number that no squared distance of two reports with angles and lengths in this box is above."""
    a0, a1, b0, _, norm = _one(box[0], box[1], box[2], box[3], k, shares)
    c0, c1, d0, _, other = _one(box[4], box[5], box[6], box[7], k, shares)
    low, high = box[0] + box[4], box[1] + box[5]  # minus the cosine of two rows is at most that of the angles' sum
    most = 1.0 if k == np.inf or low <= math.pi <= high else max(-math.cos(low), -math.cos(high))
    least = -1.0 if k == np.inf else -math.cos(max(0.0, box[0] - box[5], box[4] - box[1]))
    twice = shares[1] * b0 * d0 + shares[2] * (a0 * c0) ** 2
    once = shares[0] * (a1 * c1 if most > 0.0 else a0 * c0)
    h = most
    if most > 0.0 and twice > 0.0:
        h = min(max(once / (2.0 * twice), least, 0.0), most)
    return norm + other + 2.0 * (once * h - twice * h * h) + 1e-9  # beyond any rounding of floating point


@numba.njit
def is_bound(square: float, k: float, shares: Any, boxes: int = 100_000_000) -> bool:
    """Whether no two logistic reports are farther apart: branch and bound over their angles and lengths."""
    stack, n, parts = np.empty((100_000, 8)), 0, 8
    for i in range(parts**2):
        for j in range(i, parts**2):
            for a, at in ((0, i), (4, j)):
                stack[n, a], stack[n, a + 1] = math.pi * (at // parts) / parts, math.pi * (at // parts + 1) / parts
                stack[n, a + 2], stack[n, a + 3] = 2.0 * (at % parts) / parts, 2.0 * (at % parts + 1) / parts
            n += 1
    for _ in range(boxes):
        if n == 0:
            return True
        if n + 1 == len(stack):  # one box that is halved without end
            return False
        n -= 1
        if _above(stack[n], k, shares) <= square:
            continue
        wide = np.array([stack[n, 1] - stack[n, 0], 1.5 * (stack[n, 3] - stack[n, 2])])
        wide = np.append(wide, [stack[n, 5] - stack[n, 4], 1.5 * (stack[n, 7] - stack[n, 6])])
        at = 2 * int(np.argmax(wide))
        middle = 0.5 * (stack[n, at] + stack[n, at + 1])
        stack[n + 1] = stack[n]
        stack[n, at + 1] = stack[n + 1, at] = middle
        n += 2
    return False


def report(f: float, t: float, k: float, shares: Any, *, up: float = 1.0) -> np.ndarray:
    """A logistic report of a row in the plane of the coefficients, its angle and length as above."""
    rho = t if t <= 1.0 else 1.0 / (2.0 - t)
    u, s = np.array([math.cos(f), up * math.sin(f)]), _sigmoid(k * rho * math.cos(f))
    score, weight = min(rho, 1.0 / rho) * s * u, min(rho * rho, 1.0)
    blocks = score, 4.0 * s * (1.0 - s) * weight * np.outer(u, u), np.outer(score, score)
    return np.concatenate([math.sqrt(p) * b.reshape(-1) for p, b in zip(shares, blocks, strict=False)])


def attained(k: float, shares: Any, tries: int = 20_000) -> float:
    """Largest squared distance of two such reports that a search finds."""
    rng, best = np.random.default_rng(0), 0.0

    def apart(v: np.ndarray) -> float:
        f, t, g, u = np.clip(v, 0.0, [math.pi, 2.0, math.pi, 2.0 - 1e-9])
        ones = report(f, min(t, 2.0 - 1e-9), k, shares), report(g, u, k, shares, up=-1.0)
        return -float(np.square(ones[0] - ones[1]).sum())

    starts = rng.uniform(0.0, [math.pi, 2.0, math.pi, 2.0], (tries, 4))
    for start in sorted(starts, key=apart)[:6]:
        found = minimize(apart, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10, "maxiter": 1_000})
        best = max(best, -found.fun)
    return best


if __name__ == "__main__":
    for (scaled, shares), stored in sums.APART.items():
        found = farthest(shares, scaled)
        print(shares, scaled, stored, float(found[0] * 10_000), *found[1:])
    logistic = np.array(sums.LOGISTIC)
    for k in (*np.arange(1, 13) / 2, 7.0, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0, math.inf):
        seen = attained(min(k, 1e9), sums.LOGISTIC)
        least = math.ceil(seen * 10_020)
        print(f"({k * k:g}, {least}),", round(seen * 10_000, 1), is_bound(least / 10_000, 1.000001 * k, logistic))
