"""Several fits together and tables of data: how often intervals hold the true values, and tests reject.

``python -m benchmarks.several [meta|central|two_collectors|local …] [--runs R]``

Part meta, several.csv: one line for each number of fits, standard deviation τ of true coefficients between them, and
whether fits are as precise (1) or differ (standard errors of √0.2, 1 and √5 at random). Shares in %, with 99% limits
(Clopper and Pearson):

reml, dl
    Intervals of the mean coefficient by `pr.meta_analysis` and its method.
normal
    By test="normal", which is too short with few fits.
common
    Without random effects, right at τ = 0 only.
shrunk
    Intervals of each fit's coefficient by `pr.shrink`, of all fits; limits take those of one study for independent.

Standard errors are known, as those of private fits nearly are, since their noise is.

Parts central, two_collectors and local, several_PART.csv: how often tests of private means reject at 5%, and 95%
intervals hold, without an effect (1,000 runs) and with one (250).
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import beta, norm

import privreg as pr
from benchmarks.store import save_table
from privreg.errors import ReliabilityWarning
from privreg.results.several.meta import Towards, pooled, posterior

RESULTS: Final = Path(__file__).parent / "results" / "several.csv"
WAYS: Final = {
    "reml": (True, "reml", "hartung_knapp"), "dl": (True, "dl", "hartung_knapp"),
    "normal": (True, "reml", "normal"), "common": (False, "reml", "normal"),
}  # fmt: skip


def limits(held: int, of: int) -> tuple[float, float, float]:
    """Share in %, and its exact 99% limits."""
    low = beta.ppf(0.005, held, of - held + 1) if held else 0.0
    high = beta.ppf(0.995, held + 1, of - held) if held < of else 1.0
    return tuple(round(100.0 * float(v), 1) for v in (held / of, low, high))


def cell(k: int, tau: float, even: bool, runs: int) -> dict[str, object]:
    """One line."""
    rng = np.random.default_rng([k, round(10 * tau), even])
    held, each = dict.fromkeys(WAYS, 0), 0
    for _ in range(runs):
        v = np.ones(k) if even else rng.choice([0.2, 1.0, 5.0], size=k)
        true = tau * rng.standard_normal(k)
        y = true + np.sqrt(v) * rng.standard_normal(k)
        for name, how in WAYS.items():
            one = pooled("x", y, v, *how)
            held[name] += abs(one.estimate) < one.critical(0.05) * one.error
        below = Towards("x", *posterior(y, v)).below(true)  # limits are quantiles of this law
        each += int(((below > 0.025) & (below < 0.975)).sum())
    out: dict[str, object] = {"fits": k, "tau": tau, "even": int(even), "runs": runs}
    for name, count in (*((n, limits(c, runs)) for n, c in held.items()), ("shrunk", limits(each, runs * k))):
        out |= dict(zip((name, f"{name}_low", f"{name}_high"), count, strict=True))
    return out


SD: Final = float(np.sqrt(1.0 - 2.0 * (4.0 * norm.pdf(4.0) - 15.0 * norm.sf(4.0))))  # Of a, clamped
TRUSTS: Final = {"central": (2_000, 1.0), "two_collectors": (2_000, 1.0), "local": (10_000, 4.0)}  # People, μ
OPTIONS: Final[dict[str, object]] = {
    "bounds": {"a": (-4, 4), "b": (-4, 4), "s": (0, 8)},
    "levels": {"g": ["u", "v", "w"], "h": ["p", "q"]},
    "missing": "raise",
    "progress": False,
}


def people(n: int, effect: float, rng: np.random.Generator) -> pd.DataFrame:
    """Records; `effect` is the correlation of a and b, makes h depend on g, and moves a between levels of g."""
    a, b = rng.standard_normal((2, n))
    b = effect * a + np.sqrt(1.0 - effect**2) * b
    g = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    h = rng.random(n) < 0.5 + 0.25 * effect * (g == 0)
    moved = a + effect * (g == 0)
    s = rng.exponential(1.0, n)
    return pd.DataFrame({"a": a, "b": b, "s": s, "m": moved, "g": np.take(list("uvw"), g), "h": np.where(h, "q", "p")})


def once(trust: str, effect: float, seed: int) -> dict[str, bool]:
    """Whether each test rejects, and each interval holds."""
    n, mu = TRUSTS[trust]
    rows = people(n, effect, np.random.default_rng([seed, round(100 * effect)]))

    def made(formula: str, by: str | None = None, data: pd.DataFrame = rows) -> Any:
        return pr.means.estimate(data, formula, mu=mu, trust=trust, by=by, seed=seed, **OPTIONS)

    pairs = made("a + b + a:b" + (" + I(a**2) + I(b**2)" if trust == "local" else ""))
    corr, sd = pairs.corr().frame().iloc[0], pairs.sd().loc["a"]
    cut = made("cut(s, 20)").histogram().quantile([0.5, 0.9])
    groups = made("a + C(h)", "g", rows.assign(a=rows["m"])).compare_groups().set_index(["term", "group", "other"])
    between = {"two means": groups.loc[("a", "u", "v")], "two shares": groups.loc[("h[q]", "u", "v")]}
    true = {"two means": effect, "two shares": 0.25 * effect}
    out = {"chi-square rejects": made("C(g):C(h)").test_independence().pvalue < 0.05}
    out["correlation rejects"] = corr.p_value < 0.05
    out |= {f"{name} rejects": t.p_value < 0.05 for name, t in between.items()}
    out |= {f"{name}: interval holds": t.conf_low < true[name] < t.conf_high for name, t in between.items()}
    out["correlation: interval holds"] = corr.conf_low < effect < corr.conf_high
    out["sd: interval holds"] = sd.conf_low < SD < sd.conf_high
    for q in (0.5, 0.9):
        out[f"quantile {q}: interval holds"] = cut.loc[q].conf_low < -np.log(1.0 - q) < cut.loc[q].conf_high
    return {name: bool(v) for name, v in out.items()}


def tables(trust: str, runs: int) -> None:
    """Tests of means, shares and tables without an effect (all runs) and with one (a quarter of them)."""
    lines = []
    for effect, many in ((0.0, runs), (0.3, runs // 4)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)
            found = pd.DataFrame([once(trust, effect, seed) for seed in range(many)])
        for what, count in found.sum().items():
            share = dict(zip(("share", "low", "high"), limits(int(count), many), strict=True))
            n, mu = TRUSTS[trust]
            lines.append({"n": n, "mu": mu, "effect": effect, "what": what, "runs": many} | share)
            print(lines[-1], flush=True)
    where = RESULTS.with_name(f"several_{trust}.csv")
    save_table(pd.DataFrame(lines), where, f"python -m benchmarks.several {trust} --runs {runs}")


def meta(runs: int) -> None:
    """Intervals of pooled and of shrunken coefficients."""
    lines = []
    for k, tau, even in itertools.product((3, 5, 10, 20), (0.0, 0.5, 1.0, 2.0), (True, False)):
        lines.append(cell(k, tau, even, runs))
        print(lines[-1], flush=True)
    save_table(pd.DataFrame(lines), RESULTS, f"python -m benchmarks.several meta --runs {runs}")


PARTS: Final = {"meta": meta, **{trust: partial(tables, trust) for trust in TRUSTS}}


def main() -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all by default")
    parser.add_argument("--runs", type=int, default=1000)
    a = parser.parse_args()
    for part in a.parts or PARTS:
        PARTS[part](a.runs)


if __name__ == "__main__":
    main()
