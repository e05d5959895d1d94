"""Whether sums over a very long stream lose digits: estimates and random scaling against sums in doubled precision.

``python -m benchmarks.exact_sums [--rows N]``

The published chain, one update a person, is where sums grow most: Σ s sᵀ of partial sums s goes like n³. A stream of N
people (10⁸ by default), intercept and three normal covariates, μ = 1, is fitted once; the same path, to the bit,
is walked again beside it, every sum kept as a pair of doubles (error-free additions and products). Printed: relative
differences of the averaged estimate and of the diagonal of the random-scaling matrix.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
from numba import njit

import privreg as pr
from benchmarks.store import save_table
from privreg.privacy.noise import NoiseStream, derived_key, seeded_key
from privreg.published.chain import collector, kernels

CHUNK, P, SEED = 1_000_000, 4, 3
NAMES = ["const", "x1", "x2", "x3"]


@njit
def two_sum(high, low, value, rest):
    """Add a pair to a pair."""
    s = high + value
    b = s - high
    e = (high - (s - b)) + (value - b)
    e += low + rest
    t = s + e
    return t, e - (t - s)


@njit
def two_product(a, b):
    """Product of two doubles as a pair, by Dekker's splitting."""
    p = a * b
    c = 134217729.0 * a
    ah = c - (c - a)
    al = a - ah
    c = 134217729.0 * b
    bh = c - (c - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@njit
def walk(x, y, noise, steps, plan, theta, totals, squares, crosses, k):
    """Walk the path of `kernels.fused` for these people, every sum as a pair."""
    sd = plan.channel.scale * plan.radius
    for i in range(x.shape[0]):
        norm2, eta = 0.0, 0.0
        for j in range(P):
            norm2 += x[i, j] * x[i, j]
            eta += x[i, j] * theta[j]
        score = kernels._psi(plan.shape, plan.c, plan.top, eta, y[i])
        factor = kernels._bounded(score * kernels._weight(plan.weights, norm2, x[i, 0], P), norm2**0.5, plan.bound)
        k += 1
        for j in range(P):
            own = factor * x[i, j] if factor != 0.0 else 0.0
            theta[j] = theta[j] - steps[i] * (own + sd * noise[i, j])
            high, low = two_sum(totals[j, 0], totals[j, 1], theta[j], 0.0)
            totals[j, 0], totals[j, 1] = high, low
            a, b = two_product(high, high)
            squares[j, 0], squares[j, 1] = two_sum(squares[j, 0], squares[j, 1], a, b + 2.0 * high * low)
            a, b = two_product(float(k), high)
            crosses[j, 0], crosses[j, 1] = two_sum(crosses[j, 0], crosses[j, 1], a, b + k * low)
    return k


def exact(pair: np.ndarray) -> Fraction:
    return Fraction(float(pair[0])) + Fraction(float(pair[1]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**8)
    n = parser.parse_args(arguments).rows
    begun = time.perf_counter()
    rng = np.random.Generator(np.random.SFC64(1))
    moments = dict.fromkeys([*NAMES[1:], "y"], (0.0, 1.0))
    empty = np.zeros((10, P))
    model = pr.PrivateOnlineRegression(
        empty[:, 0], np.column_stack([np.ones(10), empty[:, 1:]]), exog_names=NAMES, moments=moments,
        family=pr.Huber(1.345, scale=1.0), mu=1,
    )  # fmt: skip
    stream = model.start(tuning="published", seed=SEED)
    plan, steps = stream._run.plan, stream._run.steps
    noise = NoiseStream(derived_key(seeded_key(SEED), "score"), P)
    theta, k = np.zeros(P), 0
    totals, squares, crosses = (np.zeros((P, 2)) for _ in range(3))
    while k < n:
        m = min(CHUNK, n - k)
        x = np.column_stack([np.ones(m), rng.standard_normal((m, P - 1))])
        y = x.sum(axis=1) + 0.5 * rng.standard_normal(m)
        stream.update((y, x))
        at = 0
        while at < m:
            z = noise.peek()[: m - at]
            here = slice(at, at + len(z))
            gammas = steps.block(k, len(z))
            k = walk(x[here], y[here], z, gammas, plan, theta, totals, squares, crosses, k)
            noise.advance(len(z))
            at += len(z)
    chain = collector.final(stream._run.state, plan)
    if not np.array_equal(theta, chain.last):
        raise SystemExit("the path walked again is another one: nothing can be compared")
    rows = []
    for j, name in enumerate(NAMES):
        mean = exact(totals[j]) / n
        weights = Fraction(n * (n + 1) * (2 * n + 1), 6)
        scaling = (exact(squares[j]) - 2 * mean * exact(crosses[j]) + weights * mean**2) / n**2
        rows.append(
            {
                "coefficient": name,
                "estimate": float(chain.mean[j]),
                "estimate_off": abs(float(Fraction(float(chain.mean[j])) / mean - 1)),
                "scaling": float(chain.scaling[j, j]),
                "scaling_off": abs(float(Fraction(float(chain.scaling[j, j])) / scaling - 1)),
            }
        )
    table = pd.DataFrame(rows)
    table["rows"], table["seconds"] = n, round(time.perf_counter() - begun, 1)
    print(table.to_string())
    command = " ".join(["python -m benchmarks.exact_sums", *(sys.argv[1:] if arguments is None else arguments)])
    save_table(table, Path(__file__).parent / "results" / "exact_sums.csv", command)


if __name__ == "__main__":
    main()
