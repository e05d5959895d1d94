"""Bounding a gradient by clipping it, which leaves a bias, against bounding it by weights, which leaves none.

``python -m benchmarks.clipping [--seeds N] [--quick] [--again] [--plot]``

XSJKH and SXJKH (arXiv 2505.08227 and 2507.07041, Figure 1 of each) show it for logistic regression. Here: intercept
and three independent normal covariates, all coefficients 1, steps 0.5 k^−0.51, start at zero, errors of the averaged
iterate θ̄, noise of sd 2 B/μ at μ = 1 or none.

* **Logistic regression**, the papers' case: covariates of mean 0 and sd 1, every gradient bounded by B = √2.
* **Least squares and Huber's loss**: covariates of mean 0.5 and sd 1, B = √2 · 1.345; errors skewed (exponential of
  mean 1, less 1) or symmetric (Student's t with 3 degrees of freedom).

clipped logistic
    −(y − π) x, cut to length B. The package has no clipping: a loop in this file.
weighted logistic
    Mallows weights min(1, 2/‖x‖²): the package, tuning="published". The loop of this file gives the same numbers
    without noise, which every run checks.
clipped squares
    Least squares: −(y − x'θ) x, cut to length B.
clipped Huber
    Huber's loss with c = 1.345, its gradient cut to length B: the same loss as the next, bounded the other way.
weighted Huber
    Huber's loss with c = 1.345 and Mallows weights: the package, as above.

An error is that against **the estimand of the loss that was to be minimised**: coefficients 1 for logistic regression
and squares; for Huber's loss with skewed errors slopes 1 and intercept 1 + m, m = −0.1065 being where the mean of ψ_c
is zero. Neither weights nor a bound change that: m belongs to the loss. Cut to length B, a score of residual r has the
threshold B/‖x‖, which differs from one person to the next, and so does the middle of skewed errors that it looks for.
The residual y − π of logistic regression is skewed given x unless π = 1/2: 1 − π is rare and large where π is small.
Errors symmetric given x have the same middle for every threshold: there, clipping does not bias.

Columns of clipping.csv: `error` and `slopes_error`, Euclidean norms for all coefficients and for slopes, medians over
the seeds, with the smallest and largest error; `bias` and `slopes_bias`, norms of what remains for n → ∞, from
1,000,000 seeded records, symmetric errors with both signs, the mean over y given x for logistic regression (0 for
weights, up to the sampling error of that number); `ratio_low` and `ratio_high`, the smallest and largest ratio of a
coefficient, averaged over the seeds, to what it estimates.

A stored table is left alone; --again replaces it. --quick runs little and stores nothing.
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
from scipy.optimize import brentq
from scipy.special import expit
from tqdm import tqdm

import privreg as pr
from benchmarks.store import read_table, save_table

NAME = "clipping"
CORNER, REACH = 1.345, math.sqrt(2.0)
STEP, ALPHA = 0.5, 0.51
P, MEAN = 3, 0.5
NAMES = ["const", *(f"x{j + 1}" for j in range(P))]
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
LAWS = {"skewed": "skewed errors", "t3": "symmetric errors (t₃)", "logistic": "logistic regression"}
SQUARES, HUBER, WEIGHTED = 0, 1, 2
METHODS = {SQUARES: "clipped squares", HUBER: "clipped Huber", WEIGHTED: "weighted Huber"}
BINARY = {HUBER: "clipped logistic", WEIGHTED: "weighted logistic"}


def methods(law: str) -> dict[int, str]:
    return BINARY if law == "logistic" else METHODS


def threshold(law: str) -> float:
    """The bound of a score's scalar part; times √2 that of the score."""
    return 1.0 if law == "logistic" else CORNER


def draw(law: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.Generator(np.random.SFC64([seed, list(LAWS).index(law)]))
    if law == "logistic":
        x = np.column_stack([np.ones(n), rng.standard_normal((n, P))])
        return (rng.random(n) < expit(x.sum(axis=1))).astype(float), x
    x = np.column_stack([np.ones(n), MEAN + rng.standard_normal((n, P))])
    e = rng.standard_exponential(n) - 1.0 if law == "skewed" else rng.standard_t(3, n)
    return x.sum(axis=1) + e, x


def middle(law: str) -> float:
    """Where the mean of ψ_c of an error is zero."""
    if law != "skewed":
        return 0.0

    def mean_score(m: float) -> float:
        # e = v − 1 with P(v > t) = exp(−t): E min(max(e − m, −c), c) = −c + ∫ P(e > t) dt from m − c to m + c
        low, high = m - CORNER + 1.0, m + CORNER + 1.0
        return -CORNER + max(-low, 0.0) + math.exp(-max(low, 0.0)) - math.exp(-high)

    return float(brentq(mean_score, -1.0, 0.5, xtol=1e-12))


def estimand(law: str, method: int) -> np.ndarray:
    out = np.ones(P + 1)
    out[0] += 0.0 if method == SQUARES else middle(law)
    return out


@njit(cache=True)
def descend(
    y: np.ndarray,
    x: np.ndarray,
    noise: np.ndarray,
    sd: float,
    method: int,
    binary: bool,
    sizes: np.ndarray,
    out: np.ndarray,
) -> None:
    """SGD with bounded gradients, the plain way; `out` receives the averaged iterate at every size."""
    n, d = x.shape
    theta, total = np.zeros(d), np.zeros(d)
    at = 0
    for i in range(n):
        eta, norm2 = 0.0, 0.0
        for j in range(d):
            eta += x[i, j] * theta[j]
            norm2 += x[i, j] * x[i, j]
        r = y[i] - (1.0 / (1.0 + math.exp(-eta)) if binary else eta)
        score = r if method == SQUARES or binary else min(max(r, -CORNER), CORNER)
        if method == WEIGHTED:
            score *= min(1.0, 2.0 / norm2)
        else:
            bound = REACH if binary else REACH * CORNER
            score *= min(1.0, bound / max(abs(score) * math.sqrt(norm2), 1e-300))
        gamma = STEP * (i + 1.0) ** -ALPHA
        for j in range(d):
            g = -score * x[i, j]
            if sd > 0.0:
                g += sd * noise[i, j]
            theta[j] -= gamma * g
            total[j] += theta[j]
        if i + 1 == sizes[at]:
            out[at] = total / (i + 1)
            at += 1


def by_loop(
    law: str, method: int, mu: float | None, y: np.ndarray, x: np.ndarray, seed: int, sizes: Sequence[int]
) -> np.ndarray:
    out = np.empty((len(sizes), P + 1))
    noise = np.empty((0, P + 1))
    if mu is not None:
        noise = np.random.Generator(np.random.SFC64([seed, 77, method])).standard_normal(x.shape)
    sd = 0.0 if mu is None else 2.0 * REACH * threshold(law) / mu
    descend(y, x, noise, sd, method, law == "logistic", np.array(sizes), out)
    return out


def by_package(law: str, mu: float | None, y: np.ndarray, x: np.ndarray, seed: int, sizes: Sequence[int]) -> np.ndarray:
    numbers = NAMES[1:] if law == "logistic" else [*NAMES[1:], "y"]
    model = pr.PrivateOnlineRegression(
        y, x, exog_names=NAMES, moments=dict.fromkeys(numbers, (0.0, 1.0)), mu=mu,
        family=pr.Logistic() if law == "logistic" else pr.Huber(CORNER, scale=1.0), score_weights="published",
    )  # fmt: skip
    stream = model.start(tuning="published", step=STEP, alpha=ALPHA, inference=None, seed=seed)
    out, before = [], 0
    for n in sizes:
        out.append(stream.update((y[before:n], x[before:n])).results().params.to_numpy())
        before = n
    return np.array(out)


def remaining_logistic(x: np.ndarray, method: int) -> np.ndarray:
    """The same for logistic regression, the mean over y given x taken exactly."""
    norms, true, theta = np.linalg.norm(x, axis=1), expit(x.sum(axis=1)), np.ones(P + 1)
    c = REACH / norms if method == HUBER else np.full(len(x), np.inf)
    w = np.minimum(1.0, 2.0 / norms**2) if method == WEIGHTED else np.ones(len(x))
    for _ in range(100):
        p = expit(x @ theta)
        score = true * np.minimum(1.0 - p, c) - (1.0 - true) * np.minimum(p, c)
        slope = (true * (1.0 - p <= c) + (1.0 - true) * (p <= c)) * p * (1.0 - p)
        step = np.linalg.solve((x * (w * slope)[:, None]).T @ x, x.T @ (w * score))
        theta = theta + step
        if np.abs(step).max() < 1e-7:
            break
    return theta - 1.0


@cache
def remaining(law: str, method: int) -> np.ndarray:
    """Zero of the mean bounded score less the estimand, by Newton steps."""
    y, x = draw(law, 1_000_000, 987_654_321)
    if law == "logistic":
        return remaining_logistic(x, method)
    if law != "skewed":  # every error with both signs: as symmetric as its law
        y, x = np.concatenate([y, 2.0 * x.sum(axis=1) - y]), np.concatenate([x, x])
    norms = np.linalg.norm(x, axis=1)
    bound = REACH * CORNER
    at = {SQUARES: bound / norms, HUBER: np.minimum(CORNER, bound / norms), WEIGHTED: np.full(len(y), CORNER)}
    c, w = at[method], np.minimum(1.0, 2.0 / norms**2) if method == WEIGHTED else np.ones(len(y))
    theta = estimand(law, method)
    for _ in range(100):
        r = y - x @ theta
        step = np.linalg.solve((x * (w * (np.abs(r) <= c))[:, None]).T @ x, x.T @ (w * np.clip(r, -c, c)))
        theta = theta + step
        if np.abs(step).max() < 1e-7:
            break
    return theta - estimand(law, method)


def study(seeds: int, sizes: Sequence[int]) -> pd.DataFrame:
    rows = []
    cells = [(law, mu) for law in LAWS for mu in (None, 1.0)]
    with tqdm(total=len(cells) * seeds, unit=" data sets") as bar:
        for law, mu in cells:
            found: dict[int, list[np.ndarray]] = {m: [] for m in methods(law)}
            for seed in range(1, seeds + 1):
                y, x = draw(law, sizes[-1], seed)
                for method in methods(law):
                    if method == WEIGHTED:
                        path = by_package(law, mu, y, x, seed, sizes)
                        if mu is None:
                            np.testing.assert_allclose(path, by_loop(law, method, mu, y, x, seed, sizes), rtol=1e-8)
                    else:
                        path = by_loop(law, method, mu, y, x, seed, sizes)
                    found[method].append(path - estimand(law, method))
                bar.update()
            for method, title in methods(law).items():
                paths = np.array(found[method])
                whole, slopes = np.linalg.norm(paths, axis=2), np.linalg.norm(paths[:, :, 1:], axis=2)
                left, ratios = remaining(law, method), 1.0 + paths.mean(axis=0) / estimand(law, method)
                for k, n in enumerate(sizes):
                    row = {
                        "error": np.median(whole[:, k]),
                        "error_low": whole[:, k].min(),
                        "error_high": whole[:, k].max(),
                        "slopes_error": np.median(slopes[:, k]),
                        "slopes_low": slopes[:, k].min(),
                        "slopes_high": slopes[:, k].max(),
                        "bias": np.linalg.norm(left),
                        "slopes_bias": np.linalg.norm(left[1:]),
                        "ratio_low": ratios[k].min(),
                        "ratio_high": ratios[k].max(),
                    }
                    head = {"design": law, "mu": "none" if mu is None else f"{mu:g}", "method": title, "n": n}
                    rows.append(head | {"seeds": seeds} | {k: float(f"{v:.4g}") for k, v in row.items()})
    return pd.DataFrame(rows)


def plot(table: pd.DataFrame, path: Path) -> None:
    """Draw error against n: columns without and with noise; a row for each design, of skewed errors for slopes too."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, NullLocator

    from privreg.results.plots.style import COLOURS, COLUMN, GREY, MARKERS, SMALL, TEXT

    rows = [("logistic", ""), ("skewed", ""), ("skewed", "slopes_"), ("t3", "")]
    colours = (COLOURS[1], COLOURS[2], COLOURS[0])
    columns = {"none": "no privacy (mu=None)", "1": "private, μ = 1"}
    style = {"font.size": SMALL, "axes.labelsize": TEXT, "axes.titlesize": TEXT, "axes.linewidth": 0.6}
    with rc_context(style | {"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(1.5 * COLUMN, 7.0), dpi=300, layout="constrained")
        axes = figure.subplots(len(rows), len(columns), sharex=True, sharey=True)
        for axes_row, (law, which) in zip(axes, rows, strict=True):
            for ax, (mu, heading) in zip(axes_row, columns.items(), strict=True):
                for method, title in methods(law).items():
                    line = table[(table.design == law) & (table.mu.astype(str) == mu) & (table.method == title)]
                    line = line.sort_values("n")
                    median = line[f"{which}error"]
                    low, high = line[f"{which or 'error_'}low"], line[f"{which or 'error_'}high"]
                    if law != "t3" and method != WEIGHTED:
                        ax.axhline(line[f"{which}bias"].iloc[0], color=colours[method], linewidth=0.8, linestyle=":")
                    ax.errorbar(
                        line.n, median, yerr=[median - low, high - median], color=colours[method],
                        marker=MARKERS[method], markersize=3.2, linewidth=1, elinewidth=0.5, markeredgecolor="white",
                        markeredgewidth=0.3, label=title,
                    )  # fmt: skip
                ax.set(xscale="log", yscale="log")
                ax.xaxis.set_major_locator(FixedLocator([1_000, 10_000, 100_000, 1_000_000]))
                ax.set_xticklabels(["1k", "10k", "100k", "1M"])
                ax.xaxis.set_minor_locator(NullLocator())
                ax.yaxis.set_major_locator(FixedLocator([0.001, 0.01, 0.1, 1]))
                ax.set_yticklabels(["0.001", "0.01", "0.1", "1"])
                ax.yaxis.set_minor_locator(NullLocator())
                ax.grid(axis="y", color="0.9", linewidth=0.5)
                if ax in axes[0]:
                    ax.set_title(heading)
            words = "slopes alone" if which else "all coefficients"
            axes_row[0].set_ylabel(f"{LAWS[law]}\n{words}")
        figure.supxlabel("people", fontsize=TEXT)
        figure.supylabel("norm of the error of the averaged iterate", fontsize=TEXT)
        handles, labels = axes[1, 0].get_legend_handles_labels()
        labels = [f"{label} or logistic" if "Huber" in label else label for label in labels]
        handles.append(Line2D([], [], color=GREY, linewidth=0.8, linestyle=":"))
        figure.legend(handles, [*labels, "bias that remains"], loc="outside upper center", ncols=4, frameon=False)
        figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.clipping", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=10, help="data sets, default 10")
    parser.add_argument("--quick", action="store_true", help="a look: little is run, nothing stored")
    parser.add_argument("--again", action="store_true", help="run a stored table again and replace it")
    parser.add_argument("--plot", action="store_true", help="draw the figure from the stored table, and run nothing")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where results are stored")
    args = parser.parse_args(arguments)
    path = args.out / f"{NAME}.csv"
    if args.plot:
        plot(read_table(path), path.with_suffix(".png"))
        return
    if path.exists() and not (args.again or args.quick):
        print(f"{path.name} is stored; --again replaces it", file=sys.stderr)
        return
    table = study(2 if args.quick else args.seeds, SIZES[:5] if args.quick else SIZES)
    if not args.quick:
        given = sys.argv[1:] if arguments is None else arguments
        save_table(table, path, " ".join(["python -m benchmarks.clipping", *given]))
    with pd.option_context("display.width", 250, "display.max_columns", 30, "display.max_rows", 200):
        print(table.to_string(index=False))


if __name__ == "__main__":
    main()
