"""Laplace, PrivUnit and Gaussian noise: estimation error against people, and noise against the number of coefficients.

``python -m benchmarks.mechanisms [--parts error variance] [--seeds N] [--quick] [--again] [--plot]``

The comparison of SXJKH (arXiv 2507.07041, Figure 4), and PrivUnit beside it.

**Matched privacy.** ε-DP implies μ-GDP with μ = 2 Φ⁻¹(e^ε/(1 + e^ε)) and no smaller one (ε = 1: 1.232, ε = 2: 2.36).
Laplace and PrivUnit run at pure ε, Gaussian noise at that μ. The Gaussian's guarantee is then implied by the others',
not the other way about: normal noise gives no pure ε.

**Error** (mechanisms_error.csv). Intercept and d − 1 independent standard normal covariates, d = 5 or 10, all
coefficients 1, normal errors of sd 0.5; columns are declared to have mean 0 and sd 1, so that nothing is rescaled.
Published tuning: score_weights="published", Huber(1.345, scale=1), α = 0.51, γ = 0.5, one chain that is read at every
n. Efficient tuning: Huber() that learns its scale, rows known, one fit for every n. Both get the same people.

error, error_low, error_high
    Euclidean norm of θ̄ − θ: median over the seeds, smallest and largest.
limit
    √(tr(A⁻¹ (S + noise covariance) A⁻¹)/n), what the root mean square of that norm tends to: for the published tuning
    with its weights and threshold, A and S of 2,000,000 seeded records; for the efficient tuning with whitened unit
    weights and c = s/2, as in `benchmarks.limits`, no people being spent on scales and pilots.
failed, noted
    Fits that the package refused, as there are too few people; share of the others, efficient tuning, whose summary
    says "don't rely on" the intervals. Chains are read without asking for intervals and have no such note.

**Variance** (mechanisms_variance.csv). A report of d numbers on the sphere of radius 1, which is the bound of a score:
noise variance per coordinate, by Mechanism.covariance and by 200,000 reports through the kernel that plays the devices.

laplace, gaussian, privunit
    8 d/ε²; 4/μ²; and the package's PrivUnit, a normal vector whose part along the report lies in a cap or outside.
laplace_simulated, …
    The same from simulated reports.
sphere
    PrivUnit as Bhowmick et al. (arXiv 1812.00984) define it, with answers on a sphere: (1/m² − 1)/d, m being the
    answer's mean part along the report, largest over all caps. One coordinate t of a uniform point on the sphere has
    (1 + t)/2 ~ Beta((d − 1)/2, (d − 1)/2).
laplace_over_privunit, laplace_over_privunit_over_d
    Laplace noise grows with d and PrivUnit's tends to a constant per coordinate, so the second column should be flat.
privunit_over_sphere
    What the normal form costs: answers have random length, which is felt at small d.

A table that is stored is left alone; --again replaces it. --quick runs little and stores nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numba import njit
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaln
from tqdm import tqdm

import privreg as pr
from benchmarks.limits import SCALE, _huber, errors, weighted_moments
from benchmarks.store import read_table, save_table
from privreg.errors import DataError, InferenceError
from privreg.privacy.budget import Budget
from privreg.privacy.mechanisms import Mechanism
from privreg.protocol.plans import Channel
from privreg.published.chain.kernels import randomise

ERROR, VARIANCE = "mechanisms_error", "mechanisms_variance"
NAMES = {"gaussian": "Gaussian", "laplace": "Laplace", "privunit": "PrivUnit"}
TUNINGS = ("published", "efficient")
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
DIMENSIONS, EPSILONS = (5, 10), (1.0, 2.0)
CORNER = 1.345
REPORTS = 200_000


def implied(epsilon: float) -> float:
    """Return the smallest μ such that ε-DP implies μ-GDP."""
    return Budget.declare(epsilon=epsilon).mu


def budget(mechanism: str, epsilon: float) -> dict[str, float]:
    return {"mu": implied(epsilon)} if mechanism == "gaussian" else {"epsilon": epsilon}


def made(mechanism: str, epsilon: float) -> Mechanism:
    return Mechanism(mechanism, Budget.declare(**budget(mechanism, epsilon)))


# --- estimation error ----------------------------------------------------------------------------------


def draw(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.Generator(np.random.SFC64([seed, d]))
    x = np.column_stack([np.ones(n), rng.standard_normal((n, d - 1))])
    return x.sum(axis=1) + SCALE * rng.standard_normal(n), x


@cache
def parts(tuning: str, d: int) -> tuple[np.ndarray, np.ndarray, float]:
    """A⁻¹, S and the radius of the ball that holds a score."""
    if tuning == "efficient":
        c, kappa, square = _huber(errors("normal"))
        along = np.eye(d - 1)[0]
        return np.linalg.inv(weighted_moments(kappa, along, 1)), weighted_moments(square, along, 2), c
    y, x = draw(2_000_000, d, 987_654_321)
    r = y - x.sum(axis=1)
    w = np.minimum(1.0, 2.0 / (x**2).sum(axis=1))
    bread = (x * (w * (np.abs(r) <= CORNER))[:, None]).T @ x / len(x)
    meat = (x * ((w * np.clip(r, -CORNER, CORNER)) ** 2)[:, None]).T @ x / len(x)
    return np.linalg.inv(bread), meat, math.sqrt(2.0) * CORNER


def limit(tuning: str, d: int, mechanism: str, epsilon: float, n: int) -> float:
    inverse, meat, radius = parts(tuning, d)
    noise = made(mechanism, epsilon).sd(radius, d) ** 2 * np.eye(d)
    return math.sqrt(float(np.trace(inverse @ (meat + noise) @ inverse)) / n)


def one(
    d: int, epsilon: float, mechanism: str, tuning: str, seed: int, sizes: Sequence[int]
) -> list[tuple[float, float]]:
    """Error at every size and whether it was noted as unreliable; NaN where the package refuses or isn't asked."""
    y, x = draw(sizes[-1], d, seed)
    names = ["const", *(f"x{j}" for j in range(1, d))]
    options = {
        "exog_names": names,
        "moments": dict.fromkeys([*names[1:], "y"], (0.0, 1.0)),
        "mechanism": mechanism,
        **budget(mechanism, epsilon),
    }
    out: list[tuple[float, float]] = []
    if tuning == "published":
        before = 0
        model = pr.PrivateOnlineRegression(
            y, x, family=pr.Huber(CORNER, scale=1.0), score_weights="published", **options
        )  # fmt: skip
        stream = model.start(tuning="published", alpha=0.51, step=0.5, inference=None, seed=seed)
        for n in sizes:
            res = stream.update((y[before:n], x[before:n])).results()
            before = n
            out.append((float(np.linalg.norm(res.params - 1.0)), math.nan))
        return out
    for n in sizes:
        try:
            model = pr.PrivateOnlineRegression(y[:n], x[:n], family=pr.Huber(), **options)
            res = model.fit(seed=seed, threads=1, progress=False)
            noted = bool(res.privacy.doubts)
            out.append((float(np.linalg.norm(res.params - 1.0)), float(noted)))
        except (InferenceError, DataError):
            out.append((math.nan, math.nan))
    return out


def error_table(seeds: int, sizes: Sequence[int]) -> pd.DataFrame:
    rows = []
    cells = [(d, e, m, t) for d in DIMENSIONS for e in EPSILONS for t in TUNINGS for m in NAMES]
    for d, epsilon, mechanism, tuning in tqdm(cells, unit=" cells"):
        found = np.array([one(d, epsilon, mechanism, tuning, s, sizes) for s in range(1, seeds + 1)])
        for n, there in zip(sizes, found.transpose(1, 2, 0), strict=True):
            got = there[0][~np.isnan(there[0])]
            noted = there[1][~np.isnan(there[1])]
            row = {"tuning": tuning, "d": d, "epsilon": epsilon, "mu_implied": round(implied(epsilon), 4)}
            row |= {"mechanism": mechanism, "n": n, "seeds": seeds, "failed": seeds - len(got)}
            middle = (np.median(got), got.min(), got.max()) if len(got) else (math.nan,) * 3
            row |= {k: float(f"{v:.4g}") for k, v in zip(("error", "error_low", "error_high"), middle, strict=True)}
            row["limit"] = float(f"{limit(tuning, d, mechanism, epsilon, n):.4g}")
            rows.append(row | {"noted": round(float(noted.mean()), 3) if len(noted) else math.nan})
    return pd.DataFrame(rows)


# --- noise variance ------------------------------------------------------------------------------------


@njit(cache=True)
def _randomise_all(reports: np.ndarray, channel: Channel, noise: np.ndarray) -> None:
    for i in range(reports.shape[0]):
        randomise(reports[i], reports.shape[1], 1.0, channel, noise[i])


def simulated(mechanism: Mechanism, reports: np.ndarray, rng: np.random.Generator) -> float:
    """Mean squared change of a coordinate when reports are randomised."""
    answers, d = reports.copy(), reports.shape[1]
    _randomise_all(answers, mechanism.channel(d), rng.standard_normal((len(reports), mechanism.width(d))))
    return float(((answers - reports) ** 2).mean())


def sphere(epsilon: float, d: int) -> float:
    """Variance per coordinate of PrivUnit with answers on a sphere, at its best cap, for a report of length 1."""
    half = (d - 1) / 2

    def mean_part(cut: float) -> float:
        above = float(betainc(half, half, 0.5 - 0.5 * cut))  # P(t ≥ cut), by symmetry
        if not 0.0 < above < 1.0:
            return 0.0
        odds = math.exp(epsilon) * above / (1.0 - above)
        accept = odds / (1.0 + odds)
        # E t 1{t ≥ cut}
        tail = math.exp(half * math.log1p(-cut * cut) - betaln(0.5, half)) / (d - 1)
        return tail * (accept / above - (1.0 - accept) / (1.0 - above))

    grid = np.linspace(-0.999, 0.999, 1999)
    best = grid[int(np.argmax([mean_part(c) for c in grid]))]
    found = minimize_scalar(lambda c: -mean_part(c), bounds=(best - 2e-3, min(best + 2e-3, 1 - 1e-9)), method="bounded")
    return (1.0 / max(mean_part(best), -float(found.fun)) ** 2 - 1.0) / d


def variance_table(reports: int) -> pd.DataFrame:
    rng, rows = np.random.Generator(np.random.SFC64(2026)), []
    for d in (2, 3, 5, 10, 20, 50):
        points = rng.standard_normal((reports, d))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        for epsilon in (1.0, 2.0, 3.0, 4.0):
            row: dict[str, float] = {"d": d, "epsilon": epsilon, "mu_implied": round(implied(epsilon), 4)}
            exact = {}
            for name in NAMES:
                mechanism = made(name, epsilon)
                exact[name] = float(np.trace(mechanism.covariance(points, 1.0))) / d
                row |= {name: exact[name], f"{name}_simulated": simulated(mechanism, points, rng)}
            row["sphere"] = sphere(epsilon, d)
            row["laplace_over_privunit"] = exact["laplace"] / exact["privunit"]
            row["laplace_over_privunit_over_d"] = exact["laplace"] / exact["privunit"] / d
            row["privunit_over_sphere"] = exact["privunit"] / row["sphere"]
            row["gaussian_over_privunit"] = exact["gaussian"] / exact["privunit"]
            rows.append({k: v if k == "d" else float(f"{v:.4g}") for k, v in row.items()})
    return pd.DataFrame(rows)


# --- figures -------------------------------------------------------------------------------------------


def plot_error(table: pd.DataFrame, path: Path) -> None:
    """Draw error against n: a row for a tuning, a column for d and ε, a line for a mechanism, its limit dotted."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    from privreg.results.plots.style import COLOURS, COLUMN, GREY, MARKERS, SMALL, TEXT

    cells = [(d, e) for d in DIMENSIONS for e in EPSILONS]
    style = {"font.size": SMALL, "axes.labelsize": TEXT, "axes.titlesize": TEXT, "axes.linewidth": 0.6}
    with rc_context(style | {"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(2 * COLUMN, 4.2), dpi=300, layout="constrained")
        axes = figure.subplots(len(TUNINGS), len(cells), sharex=True, sharey="row")
        for row, tuning in zip(axes, TUNINGS, strict=True):
            for ax, (d, epsilon) in zip(row, cells, strict=True):
                for (name, title), colour, marker in zip(NAMES.items(), COLOURS, MARKERS, strict=False):
                    own = table[(table.tuning == tuning) & (table.d == d) & (table.epsilon == epsilon)]
                    own = own[own.mechanism == name].sort_values("n")
                    ax.plot(own.n, own.limit, color=colour, linewidth=0.8, linestyle=":")
                    bars = [own.error - own.error_low, own.error_high - own.error]
                    ax.errorbar(
                        own.n, own.error, yerr=bars, color=colour, marker=marker, markersize=3.2, linewidth=1,
                        elinewidth=0.5, markeredgecolor="white", markeredgewidth=0.3, label=title,
                    )  # fmt: skip
                ax.set(xscale="log", yscale="log")
                ax.xaxis.set_major_locator(FixedLocator([1_000, 10_000, 100_000, 1_000_000]))
                ax.set_xticklabels(["1k", "10k", "100k", "1M"])
                ax.xaxis.set_minor_locator(NullLocator())
                ax.yaxis.set_minor_formatter(NullFormatter())
                ax.grid(axis="y", color="0.9", linewidth=0.5)
            row[0].set_ylabel(f"{tuning} tuning\nnorm of error")
            low, high = row[0].get_ylim()
            ticks = [v for v in (0.001, 0.01, 0.1, 1, 10, 100) if low <= v <= high]
            row[0].yaxis.set_major_locator(FixedLocator(ticks))
            row[0].set_yticklabels([f"{v:g}" for v in ticks])
            row[0].yaxis.set_minor_locator(NullLocator())
        for ax, (d, epsilon) in zip(axes[0], cells, strict=True):
            ax.set_title(f"d = {d}, ε = {epsilon:g}\n(Gaussian: μ = {implied(epsilon):.2f})")
        figure.supxlabel("people", fontsize=TEXT)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        handles.append(Line2D([], [], color=GREY, linewidth=0.8, linestyle=":"))
        figure.legend(handles, [*labels, "asymptotic limit"], loc="outside upper center", ncols=4, frameon=False)
        figure.savefig(path)


def plot_variance(table: pd.DataFrame, path: Path) -> None:
    """Draw against d: the ratios to PrivUnit, that of Laplace over d, and the normal form's cost."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator

    from privreg.results.plots.style import COLUMN, GREY, MARKERS, SMALL, TEXT

    shades = ("#f0b323", "#e0703a", "#a8326d", "#3b1053")  # lighter to darker in grey too
    panels = {
        "laplace_over_privunit": "Laplace (solid), Gaussian (dashed)\nover PrivUnit",
        "laplace_over_privunit_over_d": "Laplace over PrivUnit,\ndivided by d",
        "privunit_over_sphere": "PrivUnit: normal form\nover sphere form",
    }
    style = {"font.size": SMALL, "axes.labelsize": TEXT, "axes.titlesize": TEXT, "axes.linewidth": 0.6}
    with rc_context(style | {"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(2 * COLUMN, 2.7), dpi=300, layout="constrained")
        axes = figure.subplots(1, len(panels), sharex=True)
        for ax, (column, title) in zip(axes, panels.items(), strict=True):
            for epsilon, shade, marker in zip(sorted(table.epsilon.unique()), shades, MARKERS, strict=False):
                own = table[table.epsilon == epsilon].sort_values("d")
                ax.plot(
                    own.d, own[column], color=shade, marker=marker, markersize=3.2, linewidth=1,
                    markeredgecolor="white", markeredgewidth=0.3, label=f"ε = {epsilon:g}",
                )  # fmt: skip
                if ax is axes[0]:
                    ax.plot(own.d, own.gaussian_over_privunit, color=shade, linewidth=1, linestyle="--")
            ax.set(xscale="log", title=title)
            ax.xaxis.set_major_locator(FixedLocator([2, 5, 10, 20, 50]))
            ax.set_xticklabels(["2", "5", "10", "20", "50"])
            ax.xaxis.set_minor_locator(NullLocator())
            ax.grid(axis="y", color="0.9", linewidth=0.5)
        axes[0].set_yscale("log")
        axes[0].axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
        low, high = axes[0].get_ylim()
        ticks = [v for v in (0.5, 1, 2, 5, 10, 20, 50, 100, 200) if low <= v <= high]
        axes[0].yaxis.set_major_locator(FixedLocator(ticks))
        axes[0].set_yticklabels([f"{v:g}" for v in ticks])
        axes[0].yaxis.set_minor_locator(NullLocator())
        axes[1].set_ylim(0.0, 1.45)
        axes[2].set_ylim(bottom=0.95)
        axes[0].set_ylabel("ratio of noise variances")
        figure.supxlabel("numbers in a report, d", fontsize=TEXT)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
        figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mechanisms", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--parts", nargs="+", choices=("error", "variance"), default=["variance", "error"])
    parser.add_argument("--seeds", type=int, default=10, help="data sets of the error study, default 10")
    parser.add_argument("--quick", action="store_true", help="a look: little is run, nothing stored")
    parser.add_argument("--again", action="store_true", help="run stored tables again and replace them")
    parser.add_argument("--plot", action="store_true", help="draw the figures from the stored tables, and run nothing")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where results are stored")
    args = parser.parse_args(arguments)
    given = sys.argv[1:] if arguments is None else arguments
    command = " ".join(["python -m benchmarks.mechanisms", *given])
    for part in args.parts:
        name, draw_figure = (ERROR, plot_error) if part == "error" else (VARIANCE, plot_variance)
        path = args.out / f"{name}.csv"
        if args.plot:
            draw_figure(read_table(path), path.with_suffix(".png"))
            continue
        if path.exists() and not (args.again or args.quick):
            print(f"{path.name} is stored; --again replaces it", file=sys.stderr)
            continue
        if part == "error":
            table = error_table(2 if args.quick else args.seeds, SIZES[:5] if args.quick else SIZES)
        else:
            table = variance_table(REPORTS // 10 if args.quick else REPORTS)
        if not args.quick:
            save_table(table, path, command)
        with pd.option_context("display.width", 250, "display.max_columns", 30, "display.max_rows", 200):
            print(table.to_string(index=False))


if __name__ == "__main__":
    main()
