"""How far clamping moves slopes, by the share of the records that it clamps: where notes on it must take rows back.

``python -m benchmarks.clamping``

y = x + w/2 + e, or a yes or no with these log-odds; x and w of variance 1, normal or skewed (gamma of shape 1.5), with
a correlation; e normal. The response or x is clamped above or at both ends, at quantiles that leave so large a share
outside. Roots of the estimating equations of 100,000 seeded records without noise: least squares, Huber's loss with
c = 1/2, logistic. The same records unclamped are subtracted.

own, other
    Change of the slope of x, relative to it, and of w, relative to what is clamped (to itself where that is the
    response), over the share: 1 is as much as the share. Least squares of a clamped response of normal columns have −1
    (Greene 1981).
half_a_se
    Share from which on the slope of x, with a t-ratio of 10, is off by half a standard error.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from benchmarks.store import save_table

RESULTS: Final = Path(__file__).parent / "results" / "clamping.csv"
N: Final = 100_000
CORNER: Final = 0.5
SHARES: Final = (0.01, 0.03, 0.05, 0.1, 0.3, 0.5)


def root(method: str, x: Any, y: Any) -> Any:
    """Coefficients, by reweighted least squares or Newton's steps."""
    theta = np.zeros(x.shape[1])
    for _ in range(100):
        eta = x @ theta
        if method == "logistic":
            p = 1.0 / (1.0 + np.exp(-eta))
            new = theta + np.linalg.solve((x.T * (p * (1.0 - p))) @ x, x.T @ (y - p))
        else:
            w = np.ones(len(y))
            if method == "huber" and theta.any():
                w = np.minimum(1.0, CORNER / np.maximum(np.abs(y - eta), 1e-300))
            new = np.linalg.solve((x.T * w) @ x, x.T @ (w * y))
        if np.abs(new - theta).max() < 1e-9:
            return new
        theta = new
    raise RuntimeError("the root was not found")


def main() -> None:
    """Run and store."""
    out = []
    for law, rho in itertools.product(("normal", "skewed"), (0.0, 0.5, 0.8)):
        rng = np.random.Generator(np.random.SFC64(5))
        z = rng.standard_normal((N, 2)) if law == "normal" else (rng.gamma(1.5, size=(N, 2)) - 1.5) / np.sqrt(1.5)
        x, w = z[:, 0], rho * z[:, 0] + np.sqrt(1.0 - rho**2) * z[:, 1]
        eta = x + 0.5 * w
        y, yes = eta + rng.standard_normal(N), (rng.random(N) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        for method, part in itertools.product(("squares", "huber", "logistic"), ("response", "covariate")):
            if (method, part) == ("logistic", "response"):
                continue
            of = yes if method == "logistic" else y
            right = root(method, np.column_stack([np.ones(N), x, w]), of)
            for ends, share in itertools.product(("above", "both"), SHARES):
                v = of if part == "response" else x
                low, high = (
                    (-np.inf if ends == "above" else np.quantile(v, share / 2)),
                    (np.quantile(v, 1.0 - (share if ends == "above" else share / 2))),
                )
                clamped = np.clip(v, low, high)
                columns = [np.ones(N), clamped if part == "covariate" else x, w]
                got = root(method, np.column_stack(columns), clamped if part == "response" else of)
                change = (got - right)[1:] / ([right[1], right[2 if part == "response" else 1]])
                own, other = (change / share).tolist()
                line = {"law": law, "correlation": rho, "method": method, "part": part, "ends": ends, "share": share}
                out.append(line | {"own": own, "other": other, "half_a_se": 0.05 / abs(own)})
        print(law, rho, flush=True)
    save_table(pd.DataFrame(out).round(3), RESULTS, "python -m benchmarks.clamping")


if __name__ == "__main__":
    main()
