"""Printed tables and figures beside ours, one row each, from what is stored.

``python -m benchmarks.papers.printed``

as printed, ours
    What is compared, in words and numbers, of a run with the settings that the source states; of a figure without
    numbers the file that has ours.
our default
    The same people under the package's default.
runs
    Replications of ours that are stored.
agreement
    A printed coverage agrees with ours if Fisher's exact test of both numbers of intervals that cover doesn't reject at
    1%: theirs are as many as the source has (4 coefficients in 200 runs of XSJKH, 500 of DG). Intervals of one run
    count as independent, and columns of a table share their runs. A length agrees if it differs by at most 5%.
command
    Whose `--quick` takes less than a minute on a processor of its own.

Rows say "not stored" where the runs are still to be made.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import fisher_exact

from benchmarks.papers import EXPERIMENTS
from benchmarks.papers.duan import corrections, layers
from benchmarks.papers.store import read_table
from privreg.base.version import __version__

RESULTS: Final = Path(__file__).parent / "results"
LEVEL: Final = 0.01
NEAR: Final = 0.05
NOT_STORED: Final = "not stored"
LOST: Final = "needs data that can't be had here"


def stored(name: str) -> pd.DataFrame | None:
    """A stored table; None if there is none."""
    path = RESULTS / f"{name}.csv"
    return read_table(path) if path.exists() else None


def of_present(name: str) -> bool:
    """Whether a stored table was made by this version of the package."""
    path = RESULTS / f"{name}.csv"
    return path.exists() and f"versions: privreg {__version__}," in path.read_text(encoding="utf-8")


def agree(printed: Any, ours: Any, theirs: int, own: Any) -> str:
    """How many printed coverages, in %, of so many intervals agree with ours; and on which side the others lie."""
    found, lower = 0, 0
    pairs = [*zip(np.asarray(printed) / 100, np.asarray(ours) / 100, np.broadcast_to(own, np.shape(ours)), strict=True)]
    for p, q, n in pairs:
        hits = [[round(p * theirs), theirs - round(p * theirs)], [round(q * n), n - round(q * n)]]
        fine = float(fisher_exact(hits)[1]) >= LEVEL
        found, lower = found + fine, lower + (not fine and p < q)
    rest = len(pairs) - found
    side = "" if not rest else " (printed lower)" if lower == rest else f" (printed lower {lower} times)"
    return f"{found} of {len(pairs)} coverages{side}"


def near(printed: Any, ours: Any) -> str:
    """How many printed lengths are within 5% of ours."""
    ratio = np.asarray(printed, dtype=float) / np.asarray(ours, dtype=float)
    return f"{int((np.abs(ratio - 1) <= NEAR).sum())} of {len(ratio)} lengths (printed over ours {_span(ratio)})"


def _span(values: Any, digits: int = 2) -> str:
    low, high = np.min(values), np.max(values)
    close = math.isclose(low, high, abs_tol=0.5 * 10**-digits)
    return f"{low:.{digits}f}" if close else f"{low:.{digits}f} to {high:.{digits}f}"


def _runs(name: str) -> str:
    table = stored(name)
    if table is None or "replications" not in table:
        return NOT_STORED
    held = sorted(set(table["replications"]))
    return f"{held[0]}" if len(held) == 1 else f"{held[0]} to {held[-1]}"


def _row(what: str, printed: str, ours: str, said: str, name: str, default: str = "", runs: str = "") -> dict[str, str]:
    command = f"python -m benchmarks.{'papers ' if name in EXPERIMENTS else ''}{name}" if name else ""
    return {
        "what": what, "as printed": printed, "ours": ours, "our default": default,
        "runs": runs or (_runs(name) if name else ""), "agreement": said, "command": command,
    }  # fmt: skip


def _figure(paper: str, number: str, name: str, stated: str = "no numbers") -> dict[str, str]:
    path = RESULTS / f"{name}.png"
    single = name in EXPERIMENTS and EXPERIMENTS[name].replications == 1
    runs = NOT_STORED if not path.exists() else "1" if single else _runs(name)
    return _row(
        f"{paper}, Figure {number}", stated, path.name if path.exists() else NOT_STORED, "", name,
        "in the same figure" if path.exists() else "", runs,
    )  # fmt: skip


# --- XSJKH and SXJKH -----------------------------------------------------------------------------------


def _table1() -> list[dict[str, str]]:
    table = stored("xsjkh-table1-compared")
    if table is None:
        return [_row("XSJKH, Table 1", "coverage and length", NOT_STORED, "", "xsjkh-table1")]
    there, steps = table[table["published_coverage"].notna() & (table["setting"] == "stated")], stored("xsjkh-steps")
    out = []
    for mu, words in (("none", "without privacy"), ("1", "μ = 1"), ("2", "μ = 2")):
        for method in ("plug_in", "batch_means", "random_scaling"):
            own = there[(there["mu"].astype(str) == mu) & (there["method"] == method)]
            default = own["efficient_coverage"].dropna().to_numpy()
            default = default if of_present("xsjkh-table1-compared") else default[:0]
            both = agree(own["published_coverage"], own["coverage"], 800, 800)
            lengths = near(own["published_length_x100"], own["length_x100"])
            if steps is not None and mu == "2":
                small = steps[(steps["setting"] == "stated") & (steps["step"] == 0.2) & (steps["method"] == method)]
                both += f" (γ = 0.2: {agree(small['published_coverage'], small['coverage'], 800, 800)})"
            out.append(
                _row(
                    f"XSJKH, Table 1, {words}, {method.replace('_', ' ')}",
                    f"coverage {_span(own['published_coverage'], 1)}%", f"{_span(own['coverage'], 1)}%",
                    f"{both}; {lengths}", "xsjkh-table1", f"{_span(default, 1)}%" if len(default) else "",
                    "200",
                )
            )  # fmt: skip
    return out


def _table3() -> dict[str, str]:
    table = stored("xsjkh-table3-compared")
    if table is None:
        return _row("XSJKH, Table 3", "test error 0.0722", NOT_STORED, "", "xsjkh-table3")
    at = table.set_index("term").loc["test_mse"]
    default = f"{at['efficient']:.4f}" if of_present("xsjkh-table3-compared") else ""
    return _row(
        "XSJKH, Table 3", f"test error {at['published_ldp_sgd']:.4f}, least squares {at['published_ols']:.4f}",
        f"{at['published_tuning']:.4f}, {at['ols']:.4f}",
        "reconstructed records; the step's 0.2 is our choice, one run is printed", "xsjkh-table3", default,
    )  # fmt: skip


def _end(table: pd.DataFrame, measure: str = "square", **where: Any) -> float:
    """A measure at the largest number of people; NaN if that cell isn't stored."""
    for column, value in where.items():
        table = table[table[column] == value]
    return float(table.sort_values("n")[measure].iloc[-1]) if len(table) else math.nan


def _distances() -> list[dict[str, str]]:
    """Figures 2 to 6 of SXJKH."""
    out = []
    table = stored("sxjkh-fig2")
    if table is not None:
        ends = [_end(table, budget=b, iterate="average") for b in ("mu=1", "Unif(1, 2)", "mu=2")]
        ours = "at 300,000 the average's distance is {:.3f} (μ = 1), {:.3f} (Unif), {:.3f} (μ = 2)".format(*ends)
        out.append(_row("SXJKH, Figure 2", "no numbers", ours, "", "sxjkh-fig2", runs=_runs("sxjkh-fig2")))
    orders = stored("sxjkh-fig3")
    if orders is not None:
        best = [float(orders["alpha"].iloc[int(orders[k].argmax())]) for k in ("parameter", "loss")]
        ours = f"largest, {orders['parameter'].max():g}, at α = {best[0]:g}; of the loss at {best[1]:.3g}"
        out.append(_row("SXJKH, Figure 3", "r largest, 1/2, at α = 1/2; of the loss at 1/3", ours, "as printed",
                        "sxjkh-fig3", runs="closed form"))  # fmt: skip
    table = stored("sxjkh-fig4")
    if table is not None:
        ratios = [
            _end(table, budget="eps=3", d=d, iterate="average") / _end(table, budget="mu=1", d=d, iterate="average")
            for d in (5, 10)
        ]
        ours = f"distance of ε = 3 over that of μ = 1: {ratios[0]:.2f} at d = 5, {ratios[1]:.2f} at d = 10"
        out.append(_row("SXJKH, Figure 4", "ε = 3 and μ = 1 about alike at d = 5; μ = 1 clearly smaller at d = 10",
                        ours, "as stated at d = 10" if ratios[1] > 2.0 * ratios[0] else "",
                        "sxjkh-fig4", runs=_runs("sxjkh-fig4")))  # fmt: skip
    for k, measure, family in ((5, "square", "linear"), (6, "loss", "logistic")):
        table = stored(f"sxjkh-fig{k}")
        if table is None:
            out.append(_row(f"SXJKH, Figure {k}", "curves", NOT_STORED, "", f"sxjkh-fig{k}"))
            continue
        alphas = list(dict.fromkeys(a for a in table["alpha"] if a != "efficient"))
        ends = [_end(table, measure, d=5, budget="mu=1", iterate="average", alpha=a) for a in alphas]
        default = _end(table, measure, d=5, budget="mu=1", iterate="average", alpha="efficient")
        words = ", ".join(f"{v:.2g} (α = {a})" for a, v in zip(alphas, ends, strict=True))
        stated, said = (
            "at α = 1 it doesn't converge" if k == 5 else "no numbers",
            "d = 10, 20 of the appendix not stored",
        )
        if k == 5 and _end(table, "square", d=5, budget="mu=1", iterate="average", alpha="1") > 100.0 * min(ends):
            said = f"as stated; {said}"
        out.append(
            _row(
                f"SXJKH, Figure {k}, {family}, d = 5", stated, f"average's distance at 300,000, μ = 1: {words}",
                said, f"sxjkh-fig{k}",
                "" if math.isnan(default) else f"{default:.2g}", _runs(f"sxjkh-fig{k}"),
            )
        )  # fmt: skip
    return out


# --- DG ------------------------------------------------------------------------------------------------


def _dette_graw() -> list[dict[str, str]]:
    out = []
    table = stored("dg-table1-compared")
    for method in ("block_bootstrap", "batch_means", "random_scaling") if table is not None else ():
        assert table is not None
        own = table[(table["method"] == method) & (table["n"] <= 10**7)]
        both = agree(own["published_coverage"], own["coverage"], 500, 500)
        default = f"{_span(own['efficient_coverage'], 1)}%" if of_present("dg-table1-compared") else ""
        out.append(
            _row(
                f"DG, Table 1, n = 10⁶, 10⁷, {method.replace('_', ' ')}",
                f"coverage {_span(own['published_coverage'], 1)}%", f"{_span(own['coverage'], 1)}%",
                f"{both}; {near(own['published_length'], own['length'])}", "dg-table1", default,
                "500; default 100 at 10⁷",
            )
        )  # fmt: skip
    table, held = stored("dg-table2-compared"), stored("dg-table2")
    for method in ("block_bootstrap", "batch_means") if table is not None and held is not None else ():
        assert table is not None
        assert held is not None
        own = table[(table["method"] == method) & table["coverage"].notna()]
        counts = held[held["setting"] == "stated"].groupby("n")["replications"].max()
        runs = own["n"].map(counts).to_numpy()
        both = agree(own["published_coverage"], own["coverage"], 500, runs)
        out.append(
            _row(
                f"DG, Table 2, {method.replace('_', ' ')}",
                f"coverage {_span(own['published_coverage'], 1)}%", f"{_span(own['coverage'], 1)}%",
                f"{both}; {near(own['published_length'], own['length'])}; at 10⁸ the closed form has 0.0047 and "
                "0.0160, printed 0.005 and 0.016", "dg-table2",
                runs=", ".join(f"{k} at {n:,}" for n, k in counts.items()),
            )
        )  # fmt: skip
    return [*out, _figure("DG", "1", "dg-fig1", "bands alike, random scaling's wider")]


# --- Duan ----------------------------------------------------------------------------------------------


def _thesis() -> list[dict[str, str]]:
    first = corrections().iloc[1]
    four, seen, panels = (read_table(RESULTS / f"duan-{k}.csv") for k in ("table4.2", "figs4.3-4.5", "fig4.6"))
    out = [
        _row("Duan, eq. 4.32", f"break-even {first['printed']:,.0f}", f"{first['corrected']:,.0f}",
             "corrected; see the differences", "papers.duan", runs="closed form"),
    ]  # fmt: skip
    for name, group in four.groupby("mechanism", sort=False):
        out.append(
            _row(
                f"Duan, Table 4.2, {name}", ", ".join(f"{v:.3g}" for v in group["printed"]),
                ", ".join(f"{v:.3g}" for v in group["computed"]),
                "rounding" if name == "Piecewise" else "corrected; see the differences", "papers.duan",
                runs="closed form",
            )
        )  # fmt: skip
    for figure, group in seen.groupby("figure", sort=False):
        out.append(
            _row(
                f"Duan, Figure {figure}", "normal law matches the deviations",
                f"sd over the predicted {_span(group['sd_ratio'])}; least p of Kolmogorov's test "
                f"{group['p'].min():.2f}", "as printed", "papers.duan", runs="1,000",
            )
        )  # fmt: skip
    behind = int((panels["hdr4me"] > 1.01 * panels["best"]).sum())
    over = int((panels["hdr4me"] > 1.01 * panels["none"]).sum())
    out.append(
        _row(
            "Duan, Figure 4.6 a to i", "HDR4ME* never worse than none, L1 or L2",
            f"worse than none in {over} of {len(panels)} points, than the best of the three in {behind}",
            "not reproduced with our choices: the quantile (95%), L2's mean (that of deviations), scalings",
            "papers.duan", runs="100 of the normal law",
        )
    )  # fmt: skip
    lost = {
        "Figures 4.6 j to l, 4.7": f"{LOST}: COV-19, a text collection whose numbers are not said",
        "Figure 4.8": "data, n, d, ε and mechanisms are not stated",
        "Tables 5.2, 5.3": f"{LOST}: MNIST, CIFAR-10",
        "Table 5.4": f"{LOST}: CelebA, FMNIST",
        "Figures 5.1, 5.3, 5.4": f"{LOST}: gradients of a network on CIFAR-10; made-up vectors are in "
        "benchmarks.federated geometry",
        "Figure 5.5": f"{LOST}: MNIST",
        "Table 6.4, Figures 6.2, 6.3": f"{LOST}: MNIST, CIFAR-10",
    }
    out += [_row(f"Duan, {what}", "", "", why, "") for what, why in lost.items()]
    counts = layers()
    out.append(
        _row("Duan, Tables 6.1 to 6.3", "785; 616,610; 70,540 parameters", "; ".join(f"{v:,}" for v in counts),
             "the third sum has 64,250 for 64,050", "papers.duan", runs="counted")
    )  # fmt: skip
    return out


def rows() -> pd.DataFrame:
    """One row a printed table or figure."""
    clipping = "the bias of clipping, and none with weights, are as printed"
    lost = "in a supplement that we don't have"
    figures = stored("sxjkh-figs7-9")
    out = [
        _row("XSJKH, Figure 1", "clipping is biased upwards, weights aren't", "1.06 to 1.10", clipping, "clipping",
             runs="10"),
        *_table1(),
        _row("XSJKH, Table 1 at p = 5, 10 and correlated", lost, NOT_STORED, "", "xsjkh-table1"),
        _row("XSJKH, logistic and expectile tables", lost, "p = 3 of the logistic", "nothing to compare",
             "xsjkh-logistic"),
        _row("XSJKH, Table 2", "variables of the insurance records", "data/README.md", "reconstructed", ""),
        _figure("XSJKH", "2", "xsjkh-fig2", "random scaling's band is wider, the others' about equal"),
        _figure("XSJKH", "3", "xsjkh-fig3", "plug-in under, random scaling slightly over at μ = 1; closer at 2"),
        _table3(),
        _figure("XSJKH", "4", "xsjkh-fig4", "distance and duration are above 0, the others contain it"),
        _figure("XSJKH", "5", "xsjkh-fig5", "all coefficients end positive"),
        _row("SXJKH, Table 1", "rates", "privreg.published.chain.theory.rates", "used as printed", ""),
        _row("SXJKH, Figure 1", "as Figure 1 of XSJKH", "1.06 to 1.10", clipping, "clipping", runs="10"),
        *_distances(),
        *(
            _figure("SXJKH", "7 to 9", "sxjkh-figs7-9") if figures is not None else
            _row(f"SXJKH, Figure {k}", stated, NOT_STORED, "records are reconstructed", "sxjkh-figs7-9")
            for k, stated in ((7, "at α = 1/2 the average's loss is lowest, α = 1 fails"), (8, "curves"), (9, "curves"))
        ),
        *_dette_graw(),
        _row("WLYZ, its experiments", "", "", "not run again; rates of excess risk only", "central rates",
             runs="benchmarks/results/central_rates.csv"),
        *_thesis(),
    ]  # fmt: skip
    return pd.DataFrame(out).set_index("what")


def main() -> None:
    """Print the rows."""
    print(rows().to_string())


if __name__ == "__main__":
    main()
