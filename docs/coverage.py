"""The README's figure of stored coverages: ``python -m docs.coverage`` writes ``docs/static/coverage.png``."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]


def draw() -> None:
    """Draw the share of 95% intervals that hold, a point for each design, by records and trust model, μ = 1."""
    results = ROOT / "benchmarks" / "results"
    sums = pd.concat([pd.read_csv(results / f"{name}.csv", comment="#") for name in ("sums", "sums_two")])
    local = pd.read_csv(results / "validity.csv", comment="#").query("method == 'sandwich'")
    local = local.assign(trust="local", own=local["coverage"])
    columns = ["trust", "design", "n", "own"]
    points = pd.concat([sums.query("mu == 1")[columns], local.query("mu == 1")[columns]])
    means = points.groupby(["trust", "n", "design"])["own"].mean().reset_index()
    fig, ax = plt.subplots(figsize=(7.2, 3.0), layout="constrained")
    ax.axhline(95, color="0.6", lw=0.8, zorder=0)
    for (trust, words), color, marker in zip(
        {"central": "curator", "two_collectors": "two collectors", "local": "local"}.items(),
        ("#0072b2", "#d55e00", "#009e73"),
        "os^",
        strict=True,
    ):
        of = means[means["trust"] == trust]
        ax.plot(of["n"], of["own"], marker, color=color, ms=4, alpha=0.6, mec="none", label=words)
    ax.set(xscale="log", xlabel="records", ylabel="intervals that hold (%)")
    ax.set_title("95% intervals at μ = 1; a point is a design, all its coefficients together", loc="left", fontsize=9)
    ax.legend(frameon=False, ncols=3, loc="lower right", fontsize=8)
    fig.savefig(ROOT / "docs" / "static" / "coverage.png", dpi=160)


if __name__ == "__main__":
    draw()
