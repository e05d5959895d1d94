"""Numbers of Duan's thesis beside what its formulas give: those that differ, and what chapter 4 says of its figures.

``python -m benchmarks.papers.duan`` prints them, and stores the tables in half a minute.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import gammaln
from scipy.stats import kstest, norm

from benchmarks.papers.store import commit, save_table
from privreg.base.arrays import Array
from privreg.means import break_even, hdr4me, moments
from privreg.privacy.ledger import Budget, gdp_mu
from privreg.privacy.scalar import number_mechanism
from privreg.published.shrinking.rules import within

RULES: Final = ("l1", "l2", "mixture")
RESULTS: Final = Path(__file__).parent / "results"


def corrections() -> pd.DataFrame:
    """Printed numbers of the source that don't follow from its formulas, computed anew: where, printed, corrected, why.

    Examples
    --------
    >>> corrections()[["printed", "corrected"]].round(2).values.tolist()[:4]
    [[27.08, 4.28], [26960.0, 4131.69], [26960.0, 904.25], [4694.5, 6536.5]]
    """
    values = np.arange(1, 11) / 10
    one = Budget.declare(epsilon=1)
    wave = partial(break_even, "square_wave_biased", "piecewise", values, epsilon=1, bounds=(0, 1))
    wide = moments(number_mechanism("piecewise", one, -1.0, 1.0), values)
    slip = math.exp(0.5 + 3.0)  # where e^{1/2} + 3 was meant
    third = 3.0 * math.expm1(0.5) ** 2
    first_power = float(np.mean(values)) / math.expm1(0.5)  # the values' mean where that of their squares was meant
    rows = [
        (
            "eq. 4.32, Piecewise variance, epsilon = 1, values 0.1, ..., 1.0",
            27.08,
            wide.variance,
            "e^(1/2 + 3) was evaluated for e^(1/2) + 3, and it seems that the values' mean was taken for that of their "
            f"squares: both give {first_power + slip / third:.2f}",
        ),
        (
            "eq. 4.32, break-even of Square wave on [0, 1] and Piecewise on [-1, 1]",
            26_960.0,
            wave(second_bounds=(-1, 1)),
            "follows from the variance",
        ),
        (
            "the same with both mechanisms on [0, 1]",
            26_960.0,
            wave(),
            "on the range the values have, Piecewise needs half the noise; section 6.1.4 halves variances without "
            "naming the range",
        ),
        (
            "eq. 6.29, 400 log(1.25/delta), delta = 1e-7",
            4_694.5,
            400.0 * math.log(1.25 / 1e-7),
            f"the printed number belongs to delta = 1e-5 ({400.0 * math.log(1.25 / 1e-5):,.1f})",
        ),
    ]
    bias, variance = _law("square_wave_biased", 0.001, values, 0.0, 1.0)
    sd = math.sqrt(variance / 10_000)
    inside = float(norm.cdf((0.05 - bias) / sd) - norm.cdf((-0.05 - bias) / sd))
    bound = 0.33554 * (6.0 + 0.415 * 2.0**1.5) / (2.0**1.5 * math.sqrt(1000.0))
    rows += [
        ("eqs. 4.22 to 4.25, Square wave, bias at eps = 0.001", -0.049, bias, "rounded too far"),
        ("the same, variance of a mean of 10,000", 3.365e-5, variance / 10_000, "from the printed bias, nearly"),
        ("Table 4.2, P(abs(deviation) <= 0.05) of Square wave", 0.644, inside,
         "follows from neither pair; the printed bias and variance give 0.568"),
        ("Theorem 2, Berry-Esseen error of 1,000 reports with Laplace noise", 0.0157, bound,
         "E abs(x)^3 of Laplace noise is 6 lambda^3, where 3 lambda^3 was taken"),
        ("Table 6.3, parameters", 70_540.0, float(layers()[2]), "64,250 for 64,050"),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["where", "printed", "corrected", "why"])


def case_study() -> pd.DataFrame:
    """Printed numbers of Duan's case study (NaN where nothing is) beside what the formulas give, with the reason.

    Notes
    -----
    The printed variance is 400 ln(1.25/δ), that is 2 ln(1.25/δ) R²/ε² with R²/ε² = 200. The case study doesn't name the
    range R: with ε = 0.1 it is the variance for [−1, 1] (R²/ε² = 400), halved. R and ε are inferred from the number.

    References
    ----------
    Duan (2025), PhD thesis, section 6.1.4 and eq. 6.29. Balle & Wang (2018) for the exact calibration.
    """
    stated, meant, ratio = 1e-7, 1e-5, 200.0

    def classical(delta: float, squared_ratio: float) -> float:
        return 2.0 * math.log(1.25 / delta) * squared_ratio

    wide, exact = classical(stated, 2 * ratio), (2.0 / gdp_mu(0.1, stated)) ** 2
    rows = [
        ("eq. 6.29, Gaussian variance at the stated delta 1e-7", 4694.5, classical(stated, ratio), "delta differs"),
        ("the same at delta 1e-5", 4694.5, classical(meant, ratio), "what is printed, but for its rounding"),
        ("not halved: range [-1, 1], epsilon 0.1, delta 1e-7", math.nan, wide, "range inferred"),
        ("the same, calibrated exactly", math.nan, exact, "smallest noise that keeps it"),
    ]
    return pd.DataFrame(rows, columns=["quantity", "printed", "computed", "reason"])


# --- tables and figures of chapter 4 -------------------------------------------------------------------


def _law(name: str, epsilon: float, values: Array, low: float, high: float) -> tuple[float, float]:
    """Bias, and mean variance, of a report over public values."""
    found = moments(number_mechanism(name, Budget.declare(epsilon=epsilon), low, high), values)
    return found.bias, found.variance


def table_4_2() -> pd.DataFrame:
    """P(abs(deviation) ≤ ξ) of 10,000 reports at ε = 0.001 of values 0.1, …, 1: printed and computed."""
    printed = {"Piecewise": [3.46e-5, 3.46e-4, 0.002, 0.004], "Square wave": [2.12e-16, 2.62e-11, 0.644, 1.0]}
    rows = []
    for name, mechanism, low in (("Piecewise", "piecewise", -1.0), ("Square wave", "square_wave_biased", 0.0)):
        bias, variance = _law(mechanism, 0.001, np.arange(1, 11) / 10, low, 1.0)
        sd = math.sqrt(variance / 10_000)
        for xi, value in zip((0.001, 0.01, 0.05, 0.1), printed[name], strict=True):
            inside = norm.sf((-xi - bias) / sd) - norm.sf(
                (xi - bias) / sd
            )  # a bias below 0: tails, not their complements
            rows.append({"mechanism": name, "xi": xi, "printed": value, "computed": float(inside)})
    return pd.DataFrame(rows)


def deviations(runs: int = 1_000) -> pd.DataFrame:
    """Deviations of one dimension's mean of reports against their normal law: Figures 4.3 to 4.5.

    4.3: 2,000 reports at ε = 1/50 of uniform values; 4.4: 10,000, ε of people 1, 5, 10, 15 or 20, over 20, without the
    two regions, to which the source doesn't say how mechanisms are restricted; 4.5: 10,000 at ε = 0.001 of the values
    of Table 4.2. Square wave takes values in [0, 1].
    """
    rng, rows = np.random.default_rng(6), []
    budgets = [k / 20.0 for k in (1, 5, 10, 15, 20)]
    for figure, n, chosen in (("4.3", 2_000, [1 / 50]), ("4.4", 10_000, budgets), ("4.5", 10_000, [0.001])):
        names = ("laplace", "piecewise", "square_wave_biased")[figure == "4.5" :]
        for name in names:
            wave = name == "square_wave_biased"
            low = 0.0 if wave else -1.0
            values = np.arange(1, 11).repeat(n // 10) / 10 if figure == "4.5" else rng.uniform(low, 1.0, n)
            groups = np.array_split(values, len(chosen))
            total, bias, variance = np.zeros(runs), 0.0, 0.0
            for epsilon, group in zip(chosen, groups, strict=True):
                mechanism = number_mechanism(name, Budget.declare(epsilon=epsilon), low, 1.0)
                for some in np.array_split(np.arange(runs), 20):
                    people = np.tile(group, len(some))
                    told = mechanism.randomise(people, rng.standard_normal((len(people), mechanism.width)))
                    total[some] += told.reshape(len(some), -1).sum(axis=1)
                one = moments(mechanism, group)
                bias, variance = bias + one.bias * len(group) / n, variance + one.variance * len(group) / n**2
            seen = total / n - values.mean()
            p = float(kstest((seen - bias) / math.sqrt(variance), "norm").pvalue)
            ratio = float(seen.std(ddof=1)) / math.sqrt(variance)
            rows.append({"figure": figure, "mechanism": name, "sd_ratio": ratio, "p": p})
    return pd.DataFrame(rows)


def regularised(runs: int = 100) -> pd.DataFrame:
    """Mean squared errors of Figure 4.6 a to i, deviations drawn from the normal law of the framework.

    Their 95% quantiles, L2's mean (that of the deviations), rates of Poisson's law (whole numbers from 1 to 99) and the
    scaling to [−1, 1] (by the range of a dimension's values) are not stated.
    """
    rng, rows = np.random.default_rng(7), []
    few = np.where(np.arange(100) < 10, 0.9, 0.0)
    poisson = []
    for rate in rng.integers(1, 100, 300):
        k = np.arange(rate + 12 * math.isqrt(int(rate)) + 40)
        p = np.exp(k * math.log(rate) - rate - gammaln(k + 1))
        top = float(k[np.cumsum(p) < 1.0 - 1.0 / 150_000][-1] + 1)
        poisson.append((2.0 * np.minimum(k, top) / top - 1.0, p))
    designs = {
        "Gaussian": (100_000, [(np.clip(m + rng.normal(0, 1 / 16, 400), -1, 1), np.full(400, 1 / 400)) for m in few]),
        "Poisson": (150_000, poisson),
        "Uniform": (120_000, [(np.linspace(-1, 1, 201), np.full(201, 1 / 201))] * 500),
    }
    budgets = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2), (0.1, 10.0, 100.0, 500.0, 1000.0, 5000.0)
    for data, (n, dimensions) in designs.items():
        mean = np.array([p @ v / p.sum() for v, p in dimensions])
        for name in ("laplace", "piecewise", "square_wave_biased"):
            for epsilon in budgets[name == "square_wave_biased"]:
                each = min(epsilon / len(mean), 50.0)
                made = number_mechanism(name, Budget.declare(epsilon=each), -1.0, 1.0)
                known = [moments(made, v, p) for v, p in dimensions]
                bias, sd = np.array([k.bias for k in known]), np.sqrt([k.variance / n for k in known])
                x = mean + bias + sd * rng.standard_normal((runs, len(mean)))
                ways = {"none": x} | {k: np.array([hdr4me(v, sd, bias=bias, rule=k) for v in x]) for k in RULES}
                error = {k: float(np.mean((v - mean) ** 2)) for k, v in ways.items()}
                row = {"data": data, "mechanism": name, "epsilon": epsilon, "none": error["none"]}
                row |= {"l1": error["l1"], "l2": error["l2"], "hdr4me": error["mixture"]}
                rows.append(row | {"best": min(error["none"], error["l1"], error["l2"])})
    return pd.DataFrame(rows)


def threshold_probabilities(sds: ArrayLike, *, limit: float = 1.0) -> tuple[float, float]:
    """Probability that some, and that all, of independent deviations of mean 0 and these sds exceed a limit.

    Theorems 4 and 5 of HDR4ME* need the second and print the first; `sds` have shape (d,).
    """
    sd = np.asarray(sds, dtype=np.float64)
    beyond = 1.0 - within(np.zeros_like(sd), sd, limit)
    return float(1.0 - np.prod(1.0 - beyond)), float(np.prod(beyond))


def layers() -> tuple[int, int, int]:
    """Parameters of the models of Tables 6.1, 6.2 and 6.3."""
    convolutions = (3 * 25 + 1) * 10 + (10 * 25 + 1) * 20
    return 784 + 1, (3072 + 1) * 200 + (200 + 1) * 10, convolutions + (64 * 20 + 1) * 50 + (50 + 1) * 10


def main() -> None:
    """Print the corrections, and store the tables."""
    made = commit()  # before the first table changes the tree
    for row in corrections().itertuples():
        print(f"{row.where}\n    printed {row.printed:,.6g} | corrected {row.corrected:,.6g} | {row.why}")
    for name, table in {"table4.2": table_4_2, "figs4.3-4.5": deviations, "fig4.6": regularised}.items():
        found = table()
        for column in found.select_dtypes("float64"):
            found[column] = [float(f"{v:.4g}") for v in found[column]]
        print(f"\n{name}\n{found.to_string(index=False)}")
        save_table(found, RESULTS / f"duan-{name}.csv", "python -m benchmarks.papers.duan", (made,))


if __name__ == "__main__":
    main()
