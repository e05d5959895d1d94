"""Logistic and multinomial regression on the insurance records: test loss and accuracy along the stream.

``python -m benchmarks.classes [--permutations N] [--families …] [--quick] [--again] [--plot]``

The applications of SXJKH (arXiv 2507.07041, section 6) with classes, on **reconstructed** records: synthetic rows drawn
after the public description of the US insurance data, see `privreg.datasets.us_insurance`. Nothing here can be compared
number by number with what is printed there.

Charges are cut at 14,626 and 18,596, the 0.33 and 0.66 quantiles of the reconstruction's law (from 4,000,000 synthetic
records with other seeds: public numbers). Logistic: whether charges exceed 18,596, 34% do. Multinomial: low (the
baseline), middle, high, also 33%, 33% and 34%. Covariates are the ten of `benchmarks.insurance` in integer coding,
declared by mean and sd of their law (where the sources take those of the data). As there, 1,000,000 records are
permuted, permutations 1, 2 …; 800,000 are the stream and 200,000 the test set.

Published tuning: one chain with published weights, γ = 0.2 as in the sources' applications, α = 1/3, 1/2, 2/3; θ̄, its
average, and the last iterate. Efficient tuning: rows=800,000 given; no estimates before its scales are set. Neither is
asked for intervals, which need α > 1/2. α = 1 is refused by the package; every run checks that. In the efficient
tuning "average" stands for `params`, what the package reports at that point, and "last iterate" for `params_last`.

classes.csv, every 10,000 people; classes_final.csv, after all of them:

loss, loss_low, loss_high
    Mean log-loss on the test set: mean over the permutations, smallest and largest.
accuracy
    Share of the test set whose class is the one with the largest fitted probability, mean over the permutations.
runs
    Permutations with an estimate.

Beside them classes_final.csv has maximum likelihood on the 800,000 rows, not private, and what the shares of the
classes alone give. mu "none" is the same algorithm without noise.

A family that is stored is left alone; --again replaces it. --quick runs one permutation with two budgets, and stores
nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

import privreg as pr
from benchmarks.insurance import TEN, TRAIN
from benchmarks.store import read_table, save_table
from privreg.errors import InferenceError, OptionError

PATH, FINAL, FIGURE = "classes.csv", "classes_final.csv", "classes.png"
CUTS = (14_626.0, 18_596.0)
LEVELS = ["low", "middle", "high"]
FAMILIES = ("logistic", "multinomial")
MUS = (0.5, 1.0, 2.0, 3.0, None)
ALPHAS = {"1/3": 1 / 3, "1/2": 0.5, "2/3": 2 / 3}
STEP = 0.2
EVERY = 10_000
KEYS = ["family", "tuning", "alpha", "mu", "iterate"]


def people() -> pd.DataFrame:
    frame = pr.datasets.us_insurance(1_000_000, coding="integers")[[*TEN, "charges"]].astype(float)
    frame["class"] = np.searchsorted(CUTS, frame["charges"].to_numpy())
    frame["level"] = np.array(LEVELS, dtype=object)[frame["class"]]
    frame["above"] = (frame["class"] == 2).astype(float)
    return frame


def moments() -> dict[str, tuple[float, float]]:
    """Means and sds of the covariates' law."""

    def whole(low: int, high: int) -> tuple[float, float]:
        return (low + high) / 2, math.sqrt(((high - low + 1) ** 2 - 1) / 12)

    declared = pr.datasets.us_insurance_schema("integers")["bounds"]
    out = {name: whole(*map(int, declared[name])) for name in TEN}
    return out | {"bmi": (34.0, 32.0 / math.sqrt(12.0))}


def model(family: str, mu: float | None) -> pr.PrivateOnlineRegression:
    right = " + ".join(TEN)
    if family == "logistic":
        return pr.PrivateOnlineRegression.from_formula(
            f"above ~ {right}", None, family=pr.Logistic(), mu=mu, moments=moments(), rows=TRAIN
        )
    return pr.PrivateOnlineRegression.from_formula(
        f"level ~ {right}", None, family=pr.Multinomial(), mu=mu, moments=moments(), levels={"level": LEVELS},
        rows=TRAIN,
    )  # fmt: skip


def options(tuning: str, alpha: str) -> dict[str, object]:
    if tuning == "efficient":
        return {"tuning": tuning, "inference": None}
    return {"tuning": tuning, "alpha": ALPHAS[alpha], "step": STEP, "inference": None}


def refusal(family: str) -> str:
    """What the package says to α = 1."""
    try:
        model(family, 1.0).start(tuning="published", alpha=1.0, step=STEP, inference=None)
    except OptionError as error:
        return str(error)
    raise AssertionError("alpha = 1 was accepted")


# --- measuring -----------------------------------------------------------------------------------------


def measure(params: np.ndarray, x: np.ndarray, truth: np.ndarray, family: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean log-loss and accuracy of many coefficient vectors, shape (k, blocks · p), on the same test set."""
    p = x.shape[1]
    losses, rights = np.zeros(len(params)), np.zeros(len(params))
    for i in range(0, len(x), 20_000):
        rows, own = x[i : i + 20_000], truth[i : i + 20_000]
        if family == "logistic":
            eta = rows @ params.T
            own = own[:, None] == 2
            losses += (np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))) - eta * own).sum(axis=0)
            rights += ((eta > 0.0) == own).sum(axis=0)
        else:
            first, second = rows @ params[:, :p].T, rows @ params[:, p:].T
            top = np.maximum(np.maximum(first, second), 0.0)
            total = top + np.log(np.exp(-top) + np.exp(first - top) + np.exp(second - top))
            taken = np.where(own[:, None] == 1, first, np.where(own[:, None] == 2, second, 0.0))
            losses += (total - taken).sum(axis=0)
            chosen = np.where(top <= 0.0, 0, np.where(first >= second, 1, 2))
            rights += (chosen == own[:, None]).sum(axis=0)
    return losses / len(x), rights / len(x)


def path(family: str, mu: float | None, tuning: str, alpha: str, train: pd.DataFrame, seed: int) -> np.ndarray:
    """Averages and last iterates every 10,000 people, shape (2, people/10,000, coefficients); NaN before the first."""
    stream = model(family, mu).start(seed=seed, **options(tuning, alpha))
    found = []
    size = (1 if family == "logistic" else 2) * (len(TEN) + 1)
    for i in range(0, TRAIN, EVERY):
        stream.update(train.iloc[i : i + EVERY])
        try:
            res = stream.results()
            found.append([np.asarray(v).T.ravel() for v in (res.params, res.params_last)])  # level by level
        except InferenceError:
            found.append([np.full(size, math.nan)] * 2)
    out: np.ndarray = np.array(found).transpose(1, 0, 2)
    return out


def maximum_likelihood(x: np.ndarray, truth: np.ndarray, family: str) -> np.ndarray:
    """Coefficients by Newton's method, shape (1, blocks · p)."""
    scale = np.abs(x).max(axis=0)
    z = x / scale
    responses = np.column_stack([truth == 2] if family == "logistic" else [truth == 1, truth == 2]).astype(float)
    blocks, p = responses.shape[1], x.shape[1]
    theta = np.zeros((blocks, p))
    for _ in range(60):
        eta = z @ theta.T
        top = np.maximum(eta.max(axis=1, keepdims=True), 0.0)
        share = np.exp(eta - top)
        share /= np.exp(-top) + share.sum(axis=1, keepdims=True)
        gradient = (responses - share).T @ z
        hessian = np.empty((blocks * p, blocks * p))
        for j in range(blocks):
            for k in range(blocks):
                w = share[:, j] * ((j == k) - share[:, k])
                hessian[j * p : (j + 1) * p, k * p : (k + 1) * p] = (z * w[:, None]).T @ z
        step = np.linalg.solve(hessian, gradient.ravel()).reshape(blocks, p)
        theta += step
        if np.abs(step).max() < 1e-8:
            return (theta / scale).reshape(1, -1)
    raise AssertionError("Newton's method has not converged")


def shares(truth: np.ndarray, test: np.ndarray, family: str) -> tuple[float, float]:
    """Loss and accuracy of the classes' shares."""
    counts = np.bincount(truth, minlength=3).astype(float)
    if family == "logistic":
        counts, test = np.array([counts[:2].sum(), counts[2]]), (test == 2).astype(int)
    probability = counts / counts.sum()
    return float(-np.log(probability[test]).mean()), float((test == probability.argmax()).mean())


# --- the study -----------------------------------------------------------------------------------------


def cells(mus: Sequence[float | None]) -> list[tuple[float | None, str, str]]:
    return [(mu, "published", a) for a in ALPHAS for mu in mus] + [(mu, "efficient", "own") for mu in mus]


def study(family: str, permutations: int, mus: Sequence[float | None]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means over the permutations: along the stream, and at its end."""
    everybody, runs, ends = people(), [], []
    with tqdm(total=permutations * len(cells(mus)), desc=family, unit=" streams") as bar:
        for seed in range(1, permutations + 1):
            order = np.random.Generator(np.random.SFC64(seed)).permutation(len(everybody))
            train, test = everybody.iloc[order[:TRAIN]], everybody.iloc[order[TRAIN:]]
            x = np.column_stack([np.ones(len(test)), test[TEN].to_numpy()])
            truth = test["class"].to_numpy()
            for mu, tuning, alpha in cells(mus):
                paths = path(family, mu, tuning, alpha, train, seed)
                loss, accuracy = measure(paths.reshape(-1, paths.shape[2]), x, truth, family)
                missing = np.isnan(paths).any(axis=2)
                frame = pd.DataFrame(
                    {
                        "family": family,
                        "tuning": tuning,
                        "alpha": alpha,
                        "mu": "none" if mu is None else f"{mu:g}",
                        "iterate": np.repeat(["average", "last"], paths.shape[1]),
                        "n": np.tile(np.arange(EVERY, TRAIN + 1, EVERY), 2),
                        "loss": loss,
                        "accuracy": np.where(missing.ravel(), math.nan, accuracy),
                    }
                )
                runs.append(frame)
                bar.update()
            held = train["class"].to_numpy()
            full = np.column_stack([np.ones(TRAIN), train[TEN].to_numpy()])
            for name, (loss_there, right) in {
                "maximum likelihood": measure(maximum_likelihood(full, held, family), x, truth, family),
                "shares alone": shares(held, truth, family),
            }.items():
                row = {"family": family, "tuning": name, "alpha": "-", "mu": "none", "iterate": "-", "n": TRAIN}
                ends.append(row | {"loss": float(np.squeeze(loss_there)), "accuracy": float(np.squeeze(right))})
    along = means(pd.concat(runs))
    return along, pd.concat([along[along.n == TRAIN], means(pd.DataFrame(ends))])


def means(runs: pd.DataFrame) -> pd.DataFrame:
    grouped = runs.groupby([*KEYS, "n"], sort=False)
    out = grouped.agg(
        loss=("loss", "mean"),
        loss_low=("loss", "min"),
        loss_high=("loss", "max"),
        accuracy=("accuracy", "mean"),
        runs=("loss", "count"),
    ).reset_index()
    for name in ("loss", "loss_low", "loss_high", "accuracy"):
        out[name] = [float(f"{v:.4g}") for v in out[name]]
    return out


def stored(path_to: Path, family: str) -> pd.DataFrame:
    """Rows of the other families."""
    if not path_to.exists():
        return pd.DataFrame()
    table = read_table(path_to)
    return table[table.family != family]


def plot(along: pd.DataFrame, final: pd.DataFrame, file: Path) -> None:
    """Draw loss and accuracy against n: a column for each α and the efficient tuning, a colour for each μ."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    from privreg.plots import COLUMN, GREY, SMALL, TEXT

    shades = dict(
        zip(["0.5", "1", "2", "3", "none"], ("#f0b323", "#e0703a", "#a8326d", "#3b1053", "#000000"), strict=True)
    )
    columns = [("published", a, f"published, α = {a}") for a in ALPHAS] + [("efficient", "own", "efficient")]
    rows = [(f, m) for f in FAMILIES for m in ("loss", "accuracy")]
    style = {"font.size": SMALL, "axes.labelsize": TEXT, "axes.titlesize": TEXT, "axes.linewidth": 0.6}
    with rc_context(style | {"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(2 * COLUMN, 7.2), dpi=200, layout="constrained")
        axes = figure.subplots(len(rows), len(columns), sharex=True, sharey="row")
        for row, (family, what) in zip(axes, rows, strict=True):
            ends = final[final.family == family].set_index("tuning")[what]
            for ax, (tuning, alpha, title) in zip(row, columns, strict=True):
                for mu, shade in shades.items():
                    own = along[(along.family == family) & (along.tuning == tuning) & (along.alpha == alpha)]
                    own = own[own.mu.astype(str) == mu]
                    for iterate, dash in (("last", (0, (2, 1))), ("average", "-")):
                        line = own[own.iterate == iterate].sort_values("n")
                        ax.plot(line.n, line[what], color=shade, linestyle=dash, linewidth=0.6 if dash != "-" else 1.1)
                ax.axhline(ends["maximum likelihood"], color=GREY, linewidth=0.8, linestyle=":")
                ax.axhline(ends["shares alone"], color=GREY, linewidth=0.8, linestyle="-.")
                ax.xaxis.set_major_locator(FixedLocator([0, 400_000, 800_000]))
                ax.set_xticklabels(["0", "400k", "800k"])
                ax.grid(axis="y", color="0.9", linewidth=0.5)
                if ax in axes[0]:
                    ax.set_title(title)
            row[0].set_ylabel(f"{family}\ntest {'log-loss' if what == 'loss' else what}")
            if what == "loss":
                row[0].set_yscale("log")
                row[0].set_ylim(0.8 * ends["maximum likelihood"], 3.0 * ends["shares alone"])
                row[0].yaxis.set_major_locator(FixedLocator([0.05, 0.1, 0.2, 0.5, 1, 2, 5]))
                row[0].yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
                row[0].yaxis.set_minor_locator(NullLocator())
            else:
                row[0].set_ylim(0.97 * ends["shares alone"], 1.0)
        figure.supxlabel("people in the stream (reconstructed records)", fontsize=TEXT)
        handles = [Line2D([], [], color=c) for c in shades.values()]
        names = [f"μ = {m}" if m != "none" else "no noise" for m in shades]
        handles += [
            Line2D([], [], color=GREY, linewidth=1.1),
            Line2D([], [], color=GREY, linewidth=0.6, linestyle=(0, (2, 1))),
            Line2D([], [], color=GREY, linewidth=0.8, linestyle=":"),
            Line2D([], [], color=GREY, linewidth=0.8, linestyle="-."),
        ]
        names += ["average", "last iterate", "maximum likelihood", "shares of the classes"]
        order = [0, 5, 1, 6, 2, 7, 3, 8, 4]  # columns are filled first: budgets above, lines below
        handles, names = [handles[i] for i in order], [names[i] for i in order]
        figure.legend(handles, names, loc="outside upper center", ncols=5, frameon=False)
        figure.savefig(file)


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.classes", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--permutations", type=int, default=3, help="default 3")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--quick", action="store_true", help="a look: little is run, nothing stored")
    parser.add_argument("--again", action="store_true", help="run stored families again and replace them")
    parser.add_argument("--plot", action="store_true", help="draw the figure from the stored tables, and run nothing")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where results are stored")
    args = parser.parse_args(arguments)
    if args.plot:
        plot(read_table(args.out / PATH), read_table(args.out / FINAL), args.out / FIGURE)
        return
    given = sys.argv[1:] if arguments is None else arguments
    command = " ".join(["python -m benchmarks.classes", *given])
    for family in args.families:
        done = (args.out / PATH).exists() and (read_table(args.out / PATH).family == family).any()
        if done and not (args.again or args.quick):
            print(f"{family} is stored; --again replaces it", file=sys.stderr)
            continue
        print(f"{family}, alpha = 1: {refusal(family)}", file=sys.stderr)
        along, final = study(family, 1 if args.quick else args.permutations, (1.0, None) if args.quick else MUS)
        if not args.quick:
            for table, name in ((along, PATH), (final, FINAL)):
                old = stored(args.out / name, family)
                both = pd.concat([old, table]) if len(old) else table
                both = both.sort_values("family", kind="stable")
                save_table(both, args.out / name, command)
        with pd.option_context("display.width", 250, "display.max_columns", 30, "display.max_rows", 200):
            print(final.to_string(index=False))


if __name__ == "__main__":
    main()
