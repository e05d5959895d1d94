"""Several analyses in one study: how often each one's intervals cover, at its own part of the budget.

``python -m field_benchmarks.analyses [--reps R] [--people N] [--processes P]``

The study has a table, a Huber regression and a logistic one, which share mu = 3. Each replication draws other people,
who answer every analysis: the regressions by their rounds in this process, the table by what devices make of rows, with
noise. Coverage has exact 99.9% limits, pooled over the estimates of an analysis as if they were independent.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

import privreg as pr
from benchmarks.store import save_table
from privreg_field.collector.chain import Place, add
from privreg_field.device.report import answer
from privreg_field.study.declaring import declared
from privreg_field.study.declaring.plan import study_plans
from privreg_field.study.reading.collected import results
from privreg_field.wire.roles import TABLE

LEVEL = 0.95
TRUE = {
    "who": {"age": 54.0, "shift[day]": 0.7, "shift[night]": 0.3},
    "hours": {"Intercept": 9.0, "C(shift)[T.night]": -0.8, "age": -0.03},
    "tired": {"Intercept": -2.0, "C(shift)[T.night]": 1.0, "age": 0.03},
}


def _study(people: int) -> list[declared.Declared]:
    doc = {
        "study": "sleep", "title": "Sleep", "purpose": "A trial.", "contact": "nobody@example.org",
        "opens": "2020-01-01", "closes": "2100-01-01", "mu": 3, "rows": people,
        "analyses": {
            "who": {"table": "age + C(shift)", "share": 0.2},
            "hours": {"formula": "hours ~ age + C(shift)", "family": "huber", "share": 0.4},
            "tired": {"formula": "tired ~ age + C(shift)", "family": "logistic", "share": 0.4},
        },
        "bounds": {"age": [18, 90], "hours": [0, 24]}, "levels": {"shift": ["day", "night"], "tired": ["no", "yes"]},
        "questions": {name: f"{name}?" for name in ("age", "shift", "hours", "tired")},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.json"
        path.write_text(json.dumps(doc))
        return declared.read_study(path)


def _people(n: int, rng: np.random.Generator) -> pd.DataFrame:
    age, night = rng.uniform(18, 90, n), rng.random(n) < 0.3
    tired = rng.random(n) < 1.0 / (1.0 + np.exp(2.0 - 0.03 * age - 1.0 * night))
    return pd.DataFrame({
        "age": age, "shift": np.where(night, "night", "day"), "tired": np.where(tired, "yes", "no"),
        "hours": np.clip(9.0 - 0.03 * age - 0.8 * night + rng.normal(0, 1, n), 0, 24),
    })  # fmt: skip


def run(seed: int, people: int) -> list[tuple[str, str, float, float, bool]]:
    """One replication: analysis, estimate, its error in standard errors, standard error, whether it is covered."""
    rng = np.random.Generator(np.random.PCG64([20, seed]))
    study, rows, out = _study(people), _people(people, rng), []
    plans = study_plans(study, [bytes(31) + b"\1"])
    for one, plan in zip(study, plans, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if plan.table:
                told = np.array([answer.whole(plan, row) for row in rows.to_dict("records")])
                noise = np.rint(2.0**plan.bits * rng.standard_normal(told.shape)).astype(np.int64)
                res = results(plan, None, {Place(0, TABLE, 0): add(None, told + noise, TABLE)})
            else:
                res = pr.simulate(one.fit, rows, order="position", seed=seed)
        limits = res.conf_int(1.0 - LEVEL)
        for name, value in TRUE[plan.part.name].items():
            low, high = limits.loc[name]
            error = (res.params[name] - value) / res.bse[name]
            out.append((plan.part.name, name, float(error), float(res.bse[name]), bool(low <= value <= high)))
    return out


def main() -> None:
    """Run the study, and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=400)
    parser.add_argument("--people", type=int, default=6000)
    parser.add_argument("--processes", type=int, default=2)
    a = parser.parse_args()
    with ProcessPoolExecutor(a.processes) as pool:
        found = list(pool.map(run, range(a.reps), [a.people] * a.reps))
    frame = pd.DataFrame(
        [one for some in found for one in some], columns=["analysis", "estimate", "error", "std_error", "covered"]
    )
    lines = []
    for (analysis, estimate), group in frame.groupby(["analysis", "estimate"], sort=False):
        n, hits = len(group), int(group["covered"].sum())
        low, high = binom.ppf([0.0005, 0.9995], n, LEVEL) / n
        mean, sd = group["error"].mean(), group["error"].std()
        lines.append((analysis, estimate, n, a.people, mean, sd, group["std_error"].median(), hits / n, low, high))
    names = ["analysis", "estimate", "reps", "people", "mean_error", "sd_error", "std_error", "coverage", "low", "high"]
    table_ = pd.DataFrame(lines, columns=names).round(4)
    save_table(table_, Path("benchmarks/results/analyses.csv"), f"python -m field_benchmarks.analyses --reps {a.reps}")
    print(table_.to_string(index=False))


if __name__ == "__main__":
    main()
