"""The normal law by which PrivUnit and randomised response draw: the standard library's functions alone.

Compiled loops compile them; called as they are they give the same bits.
"""

from __future__ import annotations

import math


def cdf(x: float) -> float:
    """Φ(x)."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def quantile(p: float) -> float:
    """Φ⁻¹(p) by a rational start and three of Halley's steps in the nearer tail; limited to ±38."""
    tail = min(p, 1.0 - p)
    if not tail > 1e-300:
        return -38.0 if p < 0.5 else 38.0
    t = math.sqrt(-2.0 * math.log(tail))
    # Hastings' approximation, error below 4.5e-4, Abramowitz & Stegun 26.2.23
    x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(3):  # Halley
        error = (0.5 * math.erfc(x / math.sqrt(2.0)) - tail) * math.sqrt(2.0 * math.pi) * math.exp(0.5 * x * x)
        x += error / (1.0 - 0.5 * x * error)
    return -x if p < 0.5 else x
