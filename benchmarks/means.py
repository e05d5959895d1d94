"""Means and frequencies: what theory predicts against simulation, coverage of intervals, and where shrinking wins.

``python -m benchmarks.means [PART ...] [--quick] [--again]``

Parts, each with its table under benchmarks/results:

mse
    means_mse.csv. Mean squared error about the mean of the very people, predicted by `privreg.means.benchmark` (for
    PrivUnit by the mechanism's exact covariance) and simulated through the package's own devices and collector:
    every mechanism, d = 1, 10, 100 columns, ε (or μ) = 0.5, 1, 4, m as the package chooses it. `off` is simulated over
    predicted less 1, `off_se` its standard error over the replications. Target: off within 3%.
break_even
    means_break_even.csv. At half, once and twice the number of people at which two mechanisms should have equal error:
    the ratio of their simulated errors. Target: 1 at the break-even within three standard errors.
coverage
    means_coverage.csv. How often 95% intervals hold the mean of the law that people are drawn from, with 99.9% limits
    of Clopper and Pearson. Target: the limits hold 95%.
shrinkage
    means_shrinkage.csv. Mean squared error of shrunk estimates over that of the estimates as they come. `hdr4me_l2` is
    0 whatever the reports say, as printed for unbiased mechanisms; `best` is among the others.
figure
    means.png. After Duan's Figures 4.3 to 4.8, on data at hand: the thesis' data sets and its exact panels are not.
    First row: deviations of 100 columns' means, histograms, and the normal law predicted, on uniform, normal and
    Poisson-like values. Second: error against ε, predicted (lines) and simulated (dots), on the reconstructed
    insurance and ride data and on uniform values. Third: error at d = 100 as it comes and shrunk.
corrected
    means_corrected.csv. Printed numbers of the source that don't follow from its formulas, computed anew.

A stored table is left alone; --again replaces it. --quick runs little and stores nothing.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta, norm

import privreg as pr
from benchmarks.papers.duan import corrections
from benchmarks.store import save_table
from privreg.base.archive import write_bytes
from privreg.means import device
from privreg.means.plan import Plan, make_plan
from privreg.means.terms import Term
from privreg.privacy.noise import NoiseStream, seeded_key
from privreg.privacy.scalar import NUMBER_MECHANISMS, number_mechanism

Array = NDArray[np.float64]

OUT = Path(__file__).parent / "results"
EPSILONS, COLUMNS = (0.5, 1.0, 4.0), (1, 10, 100)
NUMBERS = 2_000_000
"""Numbers of reports in memory at a time."""


def budget(name: str, size: float) -> pr.Budget:
    return pr.Budget.declare(mu=size) if name == "gaussian" else pr.Budget.declare(epsilon=size)


def asked_of(name: str, size: float) -> dict[str, float]:
    return {"mu": size} if name == "gaussian" else {"epsilon": size}


def deviations(plan: Plan, values: Array, reps: int, seed: str) -> Iterator[Array]:
    """Estimated less true means of people's columns on [-1, 1], shape (some replications, d)."""
    n, d = values.shape
    noise = NoiseStream(seeded_key(1, seed), plan.width)
    some = max(1, NUMBERS // (n * max(d, plan.width)))
    done = 0
    while done < reps:
        now = min(some, reps - done)
        people = np.tile(values, (now, 1))
        told = device.reports(plan, list(people.T), noise.draw(now * n)).reshape(now, n, d)
        yield np.nanmean(told, axis=1) - values.mean(axis=0)
        done += now


def simulated(plan: Plan, values: Array, reps: int, seed: str) -> tuple[float, float]:
    """Mean squared error over columns and replications, and its standard error."""
    each = np.concatenate([np.mean(dev**2, axis=1) for dev in deviations(plan, values, reps, seed)])
    return float(each.mean()), float(each.std(ddof=1) / math.sqrt(len(each)))


def skewed(n: int, d: int) -> Array:
    """Values on [-1, 1], the quantiles of a beta law with parameters 2 and 5, in another order in every column."""
    rng = np.random.default_rng(7)
    column = 2.0 * beta.ppf((np.arange(n) + 0.5) / n, 2, 5) - 1.0
    return np.column_stack([rng.permutation(column) for _ in range(d)])


# --- predicted and simulated error -----------------------------------------------------------------------


def mse(quick: bool) -> pd.DataFrame:
    rows = []
    for name, d, size in itertools.product((*NUMBER_MECHANISMS, "privunit"), COLUMNS, EPSILONS):
        plan = make_plan([Term(f"x{j}", -1.0, 1.0) for j in range(d)], budget(name, size), mechanism=name)
        n = 50 if plan.asked == d else math.ceil(200 * d / plan.asked)
        reps = max(200 if quick else 40_000, d * 20) // d
        values = skewed(n, d)
        if plan.vector is not None:
            cov = plan.vector.covariance(values, plan.radius)
            predicted = float(np.trace(cov)) / (n * d)
        else:
            table = pr.means.benchmark(
                values[:, 0], n=n, bounds=(-1, 1), mechanisms=[name], d=d, m=plan.asked, **asked_of(name, size)
            )
            predicted = float(table["mse"].iloc[0])
        found, error = simulated(plan, values, reps, f"mse {name} {d} {size}")
        rows.append(
            {
                "mechanism": name,
                "d": d,
                "epsilon": size,
                "m": plan.asked,
                "n": n,
                "replications": reps,
                "predicted": predicted,
                "simulated": found,
                "off": found / predicted - 1.0,
                "off_se": error / predicted,
                "within_3_percent": abs(found / predicted - 1.0) <= 0.03,
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return pd.DataFrame(rows)


# --- break-even ------------------------------------------------------------------------------------------


def break_even(quick: bool) -> pd.DataFrame:
    law, rows = np.arange(1, 11) / 10, []
    cells = [
        ("piecewise", 1.0, (0.0, 1.0)),
        ("piecewise", 1.0, (-1.0, 1.0)),
        ("duchi", 1.0, (0.0, 1.0)),
        ("laplace", 1.0, (0.0, 1.0)),
        ("piecewise", 0.5, (0.0, 1.0)),
        ("piecewise", 2.0, (0.0, 1.0)),
    ]
    for second, epsilon, bounds in cells:
        people = pr.means.break_even(
            "square_wave_biased", second, law, bounds=(0, 1), second_bounds=bounds, epsilon=epsilon
        )
        one = number_mechanism("square_wave_biased", budget("", epsilon), 0.0, 1.0)
        two = number_mechanism(second, budget("", epsilon), *bounds)
        for times in (0.5, 1.0, 2.0):
            n = max(10, round(times * people / 10) * 10)
            reps = 100 if quick else int(np.clip(30_000_000 // n, 2_000, 20_000))
            errors = []
            for m in (one, two):
                noise = NoiseStream(seeded_key(2, f"{m.name} {epsilon} {bounds} {n}"), m.width)
                each = []
                for _ in range(0, reps, 50):
                    told = m.randomise(np.tile(law, 50 * n // 10), noise.draw(50 * n))
                    each.append((told.reshape(50, n).mean(axis=1) - law.mean()) ** 2)
                errors.append(np.concatenate(each))
            a, b = (float(e.mean()) for e in errors)
            relative = math.hypot(*(e.std(ddof=1) / math.sqrt(len(e)) / e.mean() for e in errors))
            rows.append(
                {
                    "first": "square_wave_biased on [0, 1]",
                    "second": f"{second} on [{bounds[0]:g}, {bounds[1]:g}]",
                    "epsilon": epsilon,
                    "predicted_break_even": people,
                    "n": n,
                    "replications": len(errors[0]),
                    "mse_first": a,
                    "mse_second": b,
                    "ratio": a / b,
                    "ratio_se": a / b * relative,
                    "as_predicted": abs(a / b - 1) < 3 * a / b * relative if times == 1.0 else (a < b) == (times < 1),
                }
            )
            print(rows[-1], file=sys.stderr, flush=True)
    return pd.DataFrame(rows)


# --- coverage --------------------------------------------------------------------------------------------


def drawn(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """People whose law is known: mean age 40, mean income 2, sectors 0.5, 0.3, 0.2, one in five without an income."""
    group = rng.choice(["east", "west"], n, p=[0.3, 0.7])
    age = np.where(group == "east", rng.uniform(40, 68, n), rng.uniform(20, 48.571428571428573, n))
    income = rng.beta(2, 3, n) * 5
    return pd.DataFrame(
        {
            "age": age,
            "income": income,
            "gaps": np.where(rng.uniform(size=n) < 0.2, np.nan, income),
            "sector": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
            "group": group,
        }
    )


TRUTH = {
    "age": 0.3 * 54 + 0.7 * 34.285714285714285,
    "income": 2.0,
    "gaps": 2.0,
    "sector[a]": 0.5,
    "sector[b]": 0.3,
    "sector[c]": 0.2,
}
WAYS: dict[str, dict[str, object]] = {
    "auto, epsilon 1": {"epsilon": 1},
    "Laplace and histogram, m = 2, epsilon 2": {
        "epsilon": 2,
        "mechanism": "laplace",
        "frequencies": "histogram",
        "m": 2,
    },
    "square wave, OUE, epsilon 1": {"epsilon": 1, "mechanism": "square_wave", "frequencies": "oue"},
    "Gaussian, mu 1": {"mu": 1, "mechanism": "gaussian", "frequencies": "gaussian"},
    "PrivUnit, epsilon 4": {"epsilon": 4, "mechanism": "privunit"},
    "missing='noise', epsilon 4": {"epsilon": 4, "missing": "noise", "columns": ["gaps", "age", "sector"]},
    "subgroups with budgets, epsilon 2": {
        "epsilon": 2,
        "by": "group",
        "by_budget": {"east": 1.0},
    },
}


def coverage(quick: bool) -> pd.DataFrame:
    rows, reps, n = [], 20 if quick else 1_000, 3_000
    for i, (way, options) in enumerate(WAYS.items()):
        how = dict(options)
        columns = how.pop("columns", ["age", "income", "sector"])
        runs = reps if how.get("mechanism") != "privunit" else min(reps, 300)
        hits: dict[str, int] = {}
        for k in range(runs):
            people = drawn(np.random.default_rng([5, i, k]), n)
            res = pr.means.estimate(
                people,
                columns,
                bounds={"age": (18, 70), "income": (0, 5), "gaps": (0, 5)},
                levels={"sector": ["a", "b", "c"], "group": ["east", "west"]},
                seed=k,
                progress=False,
                **how,
            )
            for name, low, high in res.conf_int().itertuples():
                hits[name] = hits.get(name, 0) + (low <= TRUTH[name] <= high)
        for name, hit in hits.items():
            low = beta.ppf(0.0005, hit, runs - hit + 1)
            high = beta.ppf(0.9995, hit + 1, runs - hit) if hit < runs else 1.0
            rows.append(
                {
                    "way": way,
                    "term": name,
                    "n": n,
                    "runs": runs,
                    "coverage": hit / runs,
                    "low": low,
                    "high": high,
                    "holds_95": low <= 0.95 <= high,
                }
            )
            print(rows[-1], file=sys.stderr, flush=True)
    return pd.DataFrame(rows)


# --- shrinking -------------------------------------------------------------------------------------------


def signals(d: int, rng: np.random.Generator) -> dict[str, Array]:
    few = np.zeros(d)
    few[: max(1, d // 20)] = 0.6
    return {
        "all 0": np.zeros(d),
        "5% at 0.6": few,
        "normal, sd 0.1": np.clip(rng.normal(0, 0.1, d), -1, 1),
        "uniform on (-0.8, 0.8)": rng.uniform(-0.8, 0.8, d),
        "all at 0.6": np.full(d, 0.6),
    }


RULES: dict[str, Callable[[Array, Array], Array]] = {
    "sure": lambda x, sd: pr.means.shrink(x, sd, "sure"),
    "james_stein": lambda x, sd: pr.means.shrink(x, sd, "james_stein"),
    "hdr4me": lambda x, sd: pr.means.hdr4me(x, sd),
    "hdr4me_l1": lambda x, sd: pr.means.hdr4me(x, sd, rule="l1"),
    "hdr4me_l2": lambda x, sd: pr.means.hdr4me(x, sd, rule="l2"),
}


def shrinkage(quick: bool) -> pd.DataFrame:
    rng, rows, reps = np.random.default_rng(9), [], 10 if quick else 400
    for d, sd in itertools.product((10, 100, 1000), (0.05, 0.2, 1.0, 3.0)):
        for signal, theta in signals(d, rng).items():
            x = theta + sd * rng.standard_normal((reps, d))
            plain = np.mean((x - theta) ** 2)
            row = {"d": d, "sd": sd, "means": signal, "mse": plain}
            for name, rule in RULES.items():
                row[name] = np.mean([np.mean((rule(k, np.full(d, sd)) - theta) ** 2) for k in x]) / plain
            row["best"] = min(["none", *list(RULES)[:-1]], key=lambda k: row.get(k, 1.0))
            rows.append(row)
    return pd.DataFrame(rows)


# --- the figure ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """Columns scaled to [-1, 1] by public ranges."""

    title: str
    values: Array


def scaled(frame: pd.DataFrame, bounds: dict[str, tuple[float, float]]) -> Array:
    return np.column_stack(
        [2 * (np.clip(frame[c], a, b) - a) / (b - a) - 1 for c, (a, b) in bounds.items() if c in frame]
    )


def synthetic(n: int, d: int) -> list[Columns]:
    rng = np.random.default_rng(3)
    counts = rng.poisson(rng.uniform(1, 8, d), (n, d))
    return [
        Columns("uniform", rng.uniform(-1, 1, (n, d))),
        Columns("normal", np.clip(rng.normal(rng.uniform(-0.2, 0.2, d), 0.25, (n, d)), -1, 1)),
        Columns("Poisson-like", np.clip(counts / 10, 0, 2) - 1),
    ]


def figure(quick: bool) -> None:
    from privreg.results.plots.style import COLOURS, DASHES, placed

    reps, d, n = (5 if quick else 40), 100, 20_000
    names = ("laplace", "piecewise", "square_wave_biased")
    sets = synthetic(n, d)
    with placed(None, (3, 3), (7.0, 6.6), "nine panels") as axes:
        for ax, data in zip(axes[0], sets, strict=True):
            for i, name in enumerate(names):
                plan = make_plan([Term(f"x{j}", -1, 1) for j in range(d)], budget(name, 1.0), mechanism=name, m=10)
                dev = np.concatenate(list(deviations(plan, data.values, reps // 4 or 1, f"fig {data.title} {name}")))
                table = [
                    pr.means.benchmark(column, n=n, bounds=(-1, 1), mechanisms=[name], d=d, m=10, epsilon=1)
                    for column in data.values.T
                ]
                grid = np.linspace(dev.min(), dev.max(), 200)
                sds = np.sqrt([t["variance"][0] + t["sampling"][0] for t in table])
                law = np.mean([norm.pdf(grid, t["bias"][0], s) for t, s in zip(table, sds, strict=True)], axis=0)
                ax.hist(dev.ravel(), 40, density=True, color=COLOURS[i], alpha=0.35)
                ax.plot(grid, law, DASHES[i], color=COLOURS[i], lw=1, label=name.replace("_", " "))
            ax.set_yscale("log")
            ax.set_ylim(1e-2, 300)
            ax.set_title(f"{data.title}: m = 10 of 100, ε = 1")
            ax.set_xlabel("deviation of a mean")
        axes[0, 0].set_ylabel("density")
        axes[0, 0].legend(loc="upper left")
        insurance, rides = pr.datasets.us_insurance(n), pr.datasets.ride_sharing(n)
        real = [
            Columns("insurance (reconstructed)", scaled(insurance, pr.datasets.us_insurance_schema()["bounds"])),
            Columns("rides (reconstructed)", scaled(rides, pr.datasets.ride_sharing_schema()["bounds"])),
            Columns("uniform, 10 columns", sets[0].values[:, :10]),
        ]
        epsilons = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
        for ax, data in zip(axes[1], real, strict=True):
            k = data.values.shape[1]
            for i, name in enumerate(names):
                lines, dots = [], []
                for e in epsilons:
                    plan = make_plan([Term(f"x{j}", -1, 1) for j in range(k)], budget(name, e), mechanism=name)
                    lines.append(
                        np.mean(
                            [
                                pr.means.benchmark(
                                    c, n=n, bounds=(-1, 1), mechanisms=[name], d=k, m=plan.asked, epsilon=e
                                )["mse"][0]
                                for c in data.values.T
                            ]
                        )
                    )
                    dots.append(simulated(plan, data.values, reps, f"fig {data.title} {name} {e}")[0])
                ax.plot(epsilons, lines, DASHES[i], color=COLOURS[i], lw=1, label=name.replace("_", " "))
                ax.plot(epsilons, dots, "o", color=COLOURS[i], ms=3)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
            ax.minorticks_off()
            ax.set_xlabel("ε per person")
            ax.set_title(f"{data.title}, d = {k}")
        axes[1, 0].set_ylabel("mean squared error")
        rng = np.random.default_rng(12)
        for ax, data in zip(axes[2], sets, strict=True):
            theta = data.values.mean(axis=0)
            kept = ("none", "hdr4me", "sure", "james_stein")
            errors: dict[str, list[float]] = {name: [] for name in kept}
            for e in epsilons:
                plan = make_plan([Term(f"x{j}", -1, 1) for j in range(d)], budget("", e), mechanism="laplace", m=d)
                sd = np.full(d, math.sqrt(plan.items[0].mechanism.worst_variance() / n))
                for name in kept:
                    x = theta + sd * rng.standard_normal((20 * reps, d))
                    done = x if name == "none" else np.array([RULES[name](one, sd) for one in x])
                    errors[name].append(float(np.mean((done - theta) ** 2)))
            for i, name in enumerate(kept):
                said = {"none": "as they come", "hdr4me": "HDR4ME*", "sure": "SURE", "james_stein": "James–Stein"}[name]
                ax.plot(epsilons, errors[name], DASHES[i], color=COLOURS[i], lw=1, label=said)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
            ax.minorticks_off()
            ax.set_xlabel("ε per person")
            ax.set_ylim(1e-3, 100)
            ax.set_title(f"{data.title}: Laplace, m = d = 100")
        axes[2, 0].set_ylabel("mean squared error")
        axes[2, 0].legend(loc="lower left")
        if not quick:
            import io

            held = io.BytesIO()
            axes[0, 0].figure.savefig(held, dpi=150, format="png")
            write_bytes(OUT / "means.png", held.getvalue())


PARTS: dict[str, Callable[[bool], pd.DataFrame]] = {
    "mse": mse,
    "break_even": break_even,
    "coverage": coverage,
    "shrinkage": shrinkage,
    "corrected": lambda quick: corrections(),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.means", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join([*PARTS, 'figure'])}; all by default")
    parser.add_argument("--quick", action="store_true", help="run little, store nothing")
    parser.add_argument("--again", action="store_true", help="replace stored tables")
    a = parser.parse_args(arguments)
    for name in a.parts or [*PARTS, "figure"]:
        pr.errors.choose("part", name, [*PARTS, "figure"])
        path = OUT / ("means.png" if name == "figure" else f"means_{name}.csv")
        if path.exists() and not a.again and not a.quick:
            print(f"{path.name} is stored; --again replaces it.")
            continue
        if name == "figure":
            figure(a.quick)
            continue
        table = PARTS[name](a.quick)
        if not a.quick:
            short = table.map(lambda v: float(f"{v:.5g}") if isinstance(v, float) else v)
            save_table(short, path, f"python -m benchmarks.means {name}")
        with pd.option_context("display.width", 200, "display.max_columns", 30, "display.max_rows", 100):
            print(table.to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
