"""Printed tables and figures beside ours, one row each, from what is stored.

``python -m benchmarks.papers.printed``

as printed
    Numbers, or what the source says of a figure.
ours, as printed
    The same of a run with the settings that the source states, and our choice of those that it doesn't.
our default
    The same people under the package's default.
runs
    Replications of ours that are stored.
agreement
    A printed coverage agrees with ours if Fisher's exact test of both numbers of intervals that cover doesn't reject at
    1%: theirs are as many as the source has (4 coefficients in 200 runs of XSJKH, 500 of DG). Intervals of one run
    count as independent, and columns of a table share their runs. A length agrees if it differs by at most 5%. What
    follows ± is half the length of a normal 99.9% interval.
command
    Whose `--quick` takes less than a minute on a processor of its own.

Rows say "not stored" where the runs are still to be made.
"""

from __future__ import annotations

import math
from itertools import product
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
SUPPLEMENT: Final = "in a supplement that we don't have"
RECONSTRUCTED: Final = "records are reconstructed, units of the loss our choice"


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
    side = {0: "higher", rest: "lower"}.get(lower, f"lower {lower} times")
    side = f" (printed {side})" if rest else ""
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
        "what": what, "as printed": printed, "ours, as printed": ours, "our default": default,
        "runs": runs or (_runs(name) if name else ""), "agreement": said, "command": command,
    }  # fmt: skip


def _path(paper: str, number: str, name: str, stated: str, ours: str, said: str, runs: str = "1") -> dict[str, str]:
    """Row of a figure of paths, which holds the default too."""
    return _row(f"{paper}, Figure {number}", stated, f"{ours} ({name}.png)", said, name, "in the same figure", runs)


def _ends(name: str) -> pd.DataFrame:
    """Intervals of a stored path at the largest number of people, with their length; none if it isn't stored."""
    table = stored(name)
    if table is None:
        return pd.DataFrame(columns=["cell", "setting", "tuning", "method", "term", "low", "high", "estimate", "width"])
    ends: pd.DataFrame = table[table["n"] == table["n"].max()]
    return ends.assign(width=ends["high"] - ends["low"])


# --- XSJKH and SXJKH -----------------------------------------------------------------------------------


BUDGETS: Final = {"none": "without privacy", "1": "μ = 1", "2": "μ = 2"}
OF_TABLE_1: Final = ("plug_in", "batch_means", "random_scaling")


def _fitting(steps: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Rows of the constant and start whose coverages agree most often, at the stated noise, and words for them."""
    steps = steps[(steps["setting"] == "stated") & steps["published_coverage"].notna()]
    pairs = zip(steps["published_coverage"], steps["coverage"], 4 * steps["replications"], strict=True)
    steps = steps.assign(fine=[agree([p], [q], 800, [n]).startswith("1") for p, q, n in pairs])
    best = steps.groupby(["step", "start"])["fine"].transform("sum")
    steps = steps[best == best.max()]
    step, start = float(steps["step"].iloc[0]), float(steps["start"].iloc[0])
    words = f"γ = {step:g} from {'the true coefficients' if start else 'zero'}"
    return words, steps[(steps["step"] == step) & (steps["start"] == start)]


def _table1() -> list[dict[str, str]]:
    table, steps = stored("xsjkh-table1-compared"), stored("xsjkh-steps")
    if table is None or steps is None:
        return [_row("XSJKH, Table 1", "coverage and length", NOT_STORED, "", "xsjkh-table1")]
    there = table[table["published_coverage"].notna() & (table["setting"] == "stated")]
    words, fitting = _fitting(steps)
    out = []
    for (mu, budget), method in product(BUDGETS.items(), OF_TABLE_1):
        own, other = (t[(t["mu"].astype(str) == mu) & (t["method"] == method)] for t in (there, fitting))
        default = own["efficient_coverage"].dropna().to_numpy()
        default = default if of_present("xsjkh-table1-compared") else default[:0]
        lengths = near(own["published_length_x100"], own["length_x100"])
        if method == "plug_in":
            ends = table[(table["mu"].astype(str) == mu) & (table["n"] == own["n"].max())].set_index("method")
            central = ends.loc["plug_in_central", "length_x100"]
            lengths += (
                f"; over those of a curator's plug-in at 200,000 {own['published_length_x100'].iloc[-1] / central:.2f}"
            )
        both = agree(own["published_coverage"], own["coverage"], 800, 800)
        both += f" ({words}: {agree(other['published_coverage'], other['coverage'], 800, 4 * other['replications'])})"
        out.append(
            _row(
                f"XSJKH, Table 1, {budget}, {method.replace('_', ' ')}",
                f"coverage {_span(own['published_coverage'], 1)}%", f"{_span(own['coverage'], 1)}%",
                f"{both}; {lengths}", "xsjkh-table1",
                f"{_span(default, 1)}%" if len(default) else "", "200",
            )
        )  # fmt: skip
    return out


def _unprinted(what: str, name: str, **where: Any) -> dict[str, str]:
    """A table that only a supplement has which we don't have: coverages of ours, plug-in lengths beside theory."""
    table = stored(name)
    if table is not None:
        for column, value in where.items():
            table = table[table[column] == value]
        table = table[table["n"] == table["n"].max()]
    if table is None or not len(table):
        return _row(what, SUPPLEMENT, NOT_STORED, "", name, runs=NOT_STORED)
    own, default = table[table["setting"] == "stated"], table[table["setting"] == "efficient"]
    own = own[own["method"].isin(OF_TABLE_1)]
    plug, first = own[own["method"] == "plug_in"], default[default["method"] == "sandwich"]
    covers = ", ".join(
        f"{m.replace('_', ' ')} {_span(g['coverage'], 1)}%" for m, g in own.groupby("method", sort=False)
    )
    ratio = _span(plug["length_x100"] / plug["asymptotic_x100"])
    sizes, held = (", ".join(map(str, sorted(set(there["p"])))) for there in (plug, first))
    of_these = "" if held == sizes else f" (p = {held})"
    return _row(
        what, SUPPLEMENT, f"at 200,000, {len(plug)} cells of p = {sizes}: {covers}",
        f"nothing to compare; plug-in lengths over the asymptotic ones {ratio}", name,
        f"{_span(first['coverage'], 1)}%{of_these}" if len(first) else "", _few(table["replications"]),
    )  # fmt: skip


def _xsjkh_figures() -> list[dict[str, str]]:
    """Figures 2 to 5 and Table 3: what is stated of them, and whether it holds of ours."""
    two, levels, rides, insured = _ends("xsjkh-fig2"), stored("xsjkh-fig3"), _ends("xsjkh-fig4"), _ends("xsjkh-fig5")
    width = two[two["setting"] == "stated"].groupby("method")["width"].mean()
    out = []
    if len(width):
        words = ", ".join(f"{m.replace('_', ' ')} {width[m]:.3f}" for m in OF_TABLE_1)
        said = "as stated" if width.drop("random_scaling").max() < width["random_scaling"] else "not as stated"
        stated = "random scaling's band is wider, the others' about equal"
        out.append(_path("XSJKH", "2", "xsjkh-fig2", stated, f"mean lengths at 200,000: {words}", said))
    if levels is not None:
        own, parts, signs = levels[levels["setting"] == "stated"], [], []
        for mu, method in product(("1", "2"), ("plug_in", "random_scaling")):
            group = own[(own["mu"].astype(str) == mu) & (own["method"] == method)]
            off = group["coverage"] - 100.0 * (1.0 - group["alpha"])
            parts.append(f"{method.replace('_', ' ')} at μ = {mu} {off.min():+.1f} to {off.max():+.1f}")
            signs.append(float(off.mean()))
        closer = all(abs(two) < abs(one) for one, two in zip(signs[:2], signs[2:], strict=True))
        said = "as stated" if signs[0] < 0.0 < signs[1] and closer else "not as stated"
        stated = "μ = 1: random scaling slightly over, plug-in under; μ = 2: both closer"
        out.append(
            _path("XSJKH", "3", "xsjkh-fig3", stated, f"coverage less nominal, %: {', '.join(parts)}", said, "200")
        )
    out.append(_table3())
    for number, name, table, stated, above in (
        ("4", "xsjkh-fig4", rides, "distance and time above 0, the others contain it", ("distance", "duration")),
        ("5", "xsjkh-fig5", insured, "all coefficients end positive", ()),
    ):
        if not len(table):
            continue
        own = table[(table["tuning"] == "published") & table["method"].isin(["plug_in", "random_scaling"])]
        amiss = own[(own["low"] > 0.0) != own["term"].isin(above)] if above else own.iloc[:0]
        wrong = [
            f"{term} ({method.replace('_', ' ')})" for term, method in zip(amiss["term"], amiss["method"], strict=True)
        ]
        ours = f"not so: {', '.join(wrong)}" if wrong else "so" if above else f"least {own['estimate'].min():.3f}"
        said = "as stated" if not wrong and (above or own["estimate"].min() > 0.0) else "not all as stated"
        more = "reconstructed records, one run; the step's 0.2 is our choice"
        out.append(_path("XSJKH", number, name, stated, ours, f"{said}; {more}"))
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
    """Figures 2 to 6 of SXJKH, and their appendix."""
    out, same = [], stored("sxjkh-fig5")  # the default, of the same people
    own = {
        d: "" if same is None else f"{_end(same, d=d, budget='mu=1', alpha='efficient', iterate='average'):.2g}"
        for d in (5, 10)
    }
    table = stored("sxjkh-fig2")
    if table is not None:
        ends = [_end(table, budget=b, iterate="average") for b in ("mu=1", "Unif(1, 2)", "mu=2")]
        ours = "at 300,000 the average's distance is {:.3f} (μ = 1), {:.3f} (Unif), {:.3f} (μ = 2)".format(*ends)
        last = _end(table, budget="mu=2", iterate="last")
        said = f"no numbers to compare; the last iterate's at μ = 2 is {last / ends[2]:.1f} times the average's"
        out.append(
            _row(
                "SXJKH, Figure 2", "curves and boxplots", ours, said, "sxjkh-fig2", f"{own[5]} (μ = 1)",
                _runs("sxjkh-fig2"),
            )
        )  # fmt: skip
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
        said = "as stated at d = 10" if ratios[1] > 2.0 * ratios[0] else "not as stated"
        out.append(_row("SXJKH, Figure 4", "ε = 3 and μ = 1 about alike at d = 5; μ = 1 clearly smaller at d = 10",
                        ours, f"{said}; about alike at d = 5 isn't a number", "sxjkh-fig4",
                        f"{own[5]}, {own[10]} (μ = 1)", _runs("sxjkh-fig4")))  # fmt: skip
    for k, measure in ((5, "square"), (5, "loss"), (6, "loss")):
        table = stored(f"sxjkh-fig{k}")
        for d in (5, 10, 20):
            where = "" if d == 5 and (k, measure) != (5, "loss") else "appendix, "
            distance = "parameter" if measure == "square" else "loss"
            what = f"SXJKH, {where}Figure {k}, d = {d}, {distance} distance"
            there = None if table is None or measure not in table else table[table["d"] == d].dropna(subset=[measure])
            if there is None or not len(there):
                out.append(_row(what, "curves", NOT_STORED, "", f"sxjkh-fig{k}", runs=NOT_STORED))
                continue
            alphas = [a for a in dict.fromkeys(there["alpha"]) if a != "efficient"]
            at, most = (
                {a: _end(there, f"{measure}{which}", budget="mu=1", iterate="average", alpha=a) for a in alphas}
                for which in ("", "_high")
            )
            default = _end(there, measure, budget="mu=1", iterate="average", alpha="efficient")
            said, early = "no numbers to compare", there[there["n"] == there["n"].min()]
            if (k, d, measure) == (5, 5, "square"):
                said = (
                    "as stated"
                    if at["1"] > 0.5 * _end(early, budget="mu=1", alpha="1", iterate="last")
                    else "not as stated"
                )
            held = there[there["alpha"] != "efficient"]["replications"]
            words = ", ".join(f"{v:.2g} ± {most[a] - v:.1g} (α = {a})" for a, v in at.items())
            out.append(
                _row(
                    what, "at α = 1 neither converges" if said != "no numbers to compare" else "curves",
                    f"average's at 300,000, μ = 1: {words}", said, f"sxjkh-fig{k}",
                    "" if math.isnan(default) else f"{default:.2g}", _few(held),
                )
            )  # fmt: skip
    return out


def _few(counts: Any) -> str:
    """One number, or the ends of several."""
    low, high = int(np.min(counts)), int(np.max(counts))
    return f"{low}" if low == high else f"{low} to {high}"


def _stream_rows() -> list[dict[str, str]]:
    """Figures 7 to 9 of SXJKH."""
    table, out, name = stored("sxjkh-figs7-9-final"), [], "sxjkh-figs7-9"
    stated = {7: "at α = 1/2 the average's loss is lowest, α = 1 fails", 8: "curves", 9: "curves"}
    for k, family, measure, words in (
        (7, "linear", "loss", "mean square error"),
        (8, "multinomial", "loss", "log-loss"),
        (9, "multinomial", "accuracy", "accuracy"),
    ):
        own = table[(table["family"] == family)] if table is not None else pd.DataFrame({"iterate": []})
        own = own[own["iterate"] == "average"]
        if not len(own):
            out.append(_row(f"SXJKH, Figure {k}", stated[k], NOT_STORED, RECONSTRUCTED, name, runs=NOT_STORED))
            continue
        paper, default = own[own["tuning"] == "published"], own[(own["tuning"] == "efficient") & (own["mu"] == "1")]
        wide = paper.pivot_table(index="mu", columns="alpha", values=measure, sort=False)
        one = ", ".join(f"{v:.3g} (α = {a})" for a, v in wide.loc["1"].items())
        pick = wide.idxmax(axis=1) if measure == "accuracy" else wide.idxmin(axis=1)
        best = ", ".join(f"{a} at {'no noise' if mu == 'none' else f'μ = {mu}'}" for mu, a in pick.items())
        said = f"best α of the average: {best}; {RECONSTRUCTED}"
        if k == 7:
            found = (pick.drop("none") == "1/2").all() and (wide["1"] > 2.0 * wide["1/2"]).all()
            said = f"{'as stated with privacy' if found else 'not all as stated'}; {said}"
        shown, ours = (
            f"{default[measure].iloc[0]:.3g}" if len(default) else "",
            f"average's {words} at 800,000, μ = 1: {one}",
        )
        out.append(_row(f"SXJKH, Figure {k}", stated[k], ours, said, name, shown, _few(paper["replications"])))
    return out


# --- DG ------------------------------------------------------------------------------------------------


def _dette_graw() -> list[dict[str, str]]:
    out = []
    table, held = stored("dg-table1-compared"), stored("dg-table1")
    for method in (
        ("block_bootstrap", "batch_means", "random_scaling") if table is not None and held is not None else ()
    ):
        assert table is not None
        assert held is not None
        mine = (
            held[held["setting"] == "stated"].groupby([held["cell"].str.split("-").str[0], "n"])["replications"].max()
        )
        for which, part in (("n = 10⁶, 10⁷", table["n"] <= 10**7), ("n = 10⁸", table["n"] > 10**7)):
            own = table[(table["method"] == method) & part & table["coverage"].notna()]
            what = f"DG, Table 1, {which}, {method.replace('_', ' ')}"
            if not len(own):
                out.append(_row(what, "coverage and length", NOT_STORED, "", "dg-table1", runs=NOT_STORED))
                continue
            runs = mine.reindex(pd.MultiIndex.from_frame(own[["design", "n"]])).to_numpy()
            both = agree(own["published_coverage"], own["coverage"], 500, runs)
            default = own["efficient_coverage"].dropna()
            default = default if of_present("dg-table1-compared") else default[:0]
            out.append(
                _row(
                    what, f"coverage {_span(own['published_coverage'], 1)}%", f"{_span(own['coverage'], 1)}%",
                    f"{both}; {near(own['published_length'], own['length'])}", "dg-table1",
                    f"{_span(default, 1)}%" if len(default) else "",
                    _few(runs) + ("; default 100 at 10⁷" if which != "n = 10⁸" else "")
                    + (f", {own['design'].iloc[0]} alone" if own["design"].nunique() == 1 else ""),
                )
            )  # fmt: skip
    table, held = stored("dg-table2-compared"), stored("dg-table2")
    for method in ("block_bootstrap", "batch_means") if table is not None and held is not None else ():
        assert table is not None
        assert held is not None
        counts = held[held["setting"] == "stated"].groupby("n")["replications"].max()
        for n, words in ((10**6, "10⁶"), (10**7, "10⁷"), (10**8, "10⁸")):
            own = table[(table["method"] == method) & table["coverage"].notna() & (table["n"] == n)]
            what = f"DG, Table 2, n = {words}, {method.replace('_', ' ')}"
            if not len(own):
                out.append(_row(what, "coverage and length", NOT_STORED, "", "dg-table2", runs=NOT_STORED))
                continue
            both = agree(own["published_coverage"], own["coverage"], 500, counts[n])
            default = own["efficient_coverage"].dropna()
            out.append(
                _row(
                    what, f"coverage {_span(own['published_coverage'], 1)}%", f"{_span(own['coverage'], 1)}%",
                    f"{both}; {near(own['published_length'], own['length'])}"
                    + "; ours are of 20 batches" * (method == "batch_means"), "dg-table2",
                    f"{_span(default, 1)}%" if len(default) else "", f"{counts[n]}",
                )
            )  # fmt: skip
    width = _ends("dg-fig1")
    width = width[width["cell"].str.endswith("stated")] if len(width) else width
    width = width.groupby(["cell", "method"], sort=False)["width"].mean().unstack() if len(width) else width
    if len(width):
        ratios = [width[m] / width["block_bootstrap"] for m in ("batch_means", "random_scaling")]
        ours = "lengths over block bootstrap's at 2,000,000: batch means {}, random scaling {}".format(
            *map(_span, ratios)
        )
        said = "of one path, whose random scaling isn't always wider; the printed quantile is lost"
        out.append(_path("DG", "1", "dg-fig1", "bands of one path alike, self-normalised ones wider", ours, said))
    return out


# --- Duan ----------------------------------------------------------------------------------------------


NETWORK: Final = f"{LOST}: gradients of a network on CIFAR-10"
LOST_OF_DUAN: Final = {
    "Figure 4.6 j to l, COV-19": (
        "HDR4ME* never worse than none, L1 or L2", f"{LOST}: COV-19, a text collection whose numbers are not stated"
    ),
    "Figure 4.7": ("HDR4ME* follows L2, the best", f"{LOST}: COV-19"),
    "Figure 4.8": ("similar to Figure 4.6", "not stated: data, n, d, ε and mechanisms"),
    "Table 5.2": ("test accuracy 53.80 to 98.17%", f"{LOST}: MNIST; not stated: ε, learning and sampling rates"),
    "Table 5.3": (
        "test accuracy 59.39 to 67.37%", f"{LOST}: CIFAR-10; not stated: ε, epochs, learning and sampling rates"
    ),
    "Table 5.4": ("attack accuracy 49.8 to 50.1%", f"{LOST}: CelebA, FMNIST; not stated: δ, σ"),
    "Figure 5.1": ("GeoDP lower on directions, DP on gradients", f"{NETWORK}; not stated: all parameters"),
    "Figure 5.3": (
        "β = 1: as Figure 5.1, but for large σ, d or small B; β = 0.1, 0.01: GeoDP lower on both",
        f"{NETWORK}; made-up vectors are in benchmarks.federated geometry",
    ),
    "Figure 5.4": (
        "GeoDP lower on both at β = 0.2 (a), 0.4 (b), 0.8 (c)", f"{NETWORK}; d, B and σ are in an image"
    ),
    "Figure 5.5": (
        "GeoDP's loss near that without noise", f"{LOST}: MNIST; not stated: σ, β and B of some panels, learning rate"
    ),
    "Table 6.4": ("test accuracy 43.3 to 91.7%", f"{LOST}: MNIST (in the text CIFAR-10)"),
    "Figure 6.2": (
        "LDPVec's loss near that without noise", f"{LOST}: MNIST; mechanism, ε, E and N of panels are in an image"
    ),
    "Figure 6.3": ("as Figure 6.2", f"{LOST}: CIFAR-10; not stated: N, E"),
}  # fmt: skip
NOTHING: Final = {
    "Table 4.1": "notation", "Table 5.1": "notation", "Figure 4.1": "overview", "Figure 4.2": "balls of L1 and L2",
    "Figure 5.2": "coordinates", "Figure 6.1": "overview",
}  # fmt: skip


def _thesis() -> list[dict[str, str]]:
    found = corrections().set_index("where")
    first, (bias, variance) = found.iloc[1], found["corrected"].iloc[4:6]
    wave = f"bias {bias:.5f} (−0.049 printed), variance {variance:.4g} (3.365e-05)"
    four, seen, panels = (read_table(RESULTS / f"duan-{k}.csv") for k in ("table4.2", "figs4.3-4.5", "fig4.6"))
    out = [_row(f"Duan, {what}", words, "", "nothing to run", "") for what, words in NOTHING.items()]
    for name, group in four.groupby("mechanism", sort=False):
        out.append(
            _row(
                f"Duan, Table 4.2, {name}", ", ".join(f"{v:.3g}" for v in group["printed"]),
                ", ".join(f"{v:.3g}" for v in group["computed"]),
                "rounding" if name == "Piecewise" else f"{wave}; see the differences", "papers.duan",
                runs="closed form",
            )
        )  # fmt: skip
    for figure, group in seen.groupby("figure", sort=False):
        more = (
            "; without the half regions, to which mechanisms aren't said to be fitted" if str(figure) == "4.4" else ""
        )
        out.append(
            _row(
                f"Duan, Figure {figure}", "normal law matches the deviations",
                f"sd over the predicted {_span(group['sd_ratio'])}; least p of Kolmogorov's test "
                f"{group['p'].min():.2f}", f"as stated{more}", "papers.duan", runs="1,000",
            )
        )  # fmt: skip
    for (data, letters), group in zip(PANELS.items(), (panels[panels["data"] == d] for d in PANELS), strict=True):
        behind = int((group["hdr4me"] > 1.01 * group["best"]).sum())
        over = int((group["hdr4me"] > 1.01 * group["none"]).sum())
        out.append(
            _row(
                f"Duan, Figure 4.6 {letters}, {data}", "HDR4ME* never worse than none, L1 or L2",
                f"worse than none in {over} of {len(group)} points, than the best of the three in {behind}",
                "the second isn't so with our choices: the quantile (95%), L2's mean (that of deviations), scalings",
                "papers.duan", runs="100 of the normal law",
            )
        )  # fmt: skip
    out += [_row(f"Duan, {what}", stated, "", why, "") for what, (stated, why) in LOST_OF_DUAN.items()]
    for k, printed_there, count in zip((1, 2, 3), ("785", "616,610", "70,540"), layers(), strict=True):
        said = "64,250 for 64,050 in the third layer" if k == 3 else "as printed"
        out.append(
            _row(f"Duan, Table 6.{k}", f"{printed_there} parameters", f"{count:,}", said, "papers.duan", runs="counted")
        )
    out += [
        _row("Duan, eq. 4.32", f"break-even {first['printed']:,.0f}", f"{first['corrected']:,.0f}",
             "corrected; see the differences", "papers.duan", runs="closed form"),
        _row("Duan, eq. 6.29", "4,694.5 at δ = 10⁻⁷", "6,536.5", "corrected; see the differences", "papers.duan",
             runs="closed form"),
        _row("Duan, example of Theorem 2", "error of Laplace noise 1.57%", "2.69%",
             "0.33554 (ρ + 0.415 s³)/(s³ √r) with ρ = 6λ³, 3λ³ printed; see the differences", "papers.duan",
             runs="closed form"),
    ]  # fmt: skip
    return sorted(out, key=lambda row: _place(row["what"]))


PANELS: Final = {"Gaussian": "a to c", "Poisson": "d to f", "Uniform": "g to i"}


def _place(what: str) -> int:
    """Chapter of a row of the thesis; stable within."""
    return 7 if what.startswith(("Duan, eq.", "Duan, example")) else int(next(c for c in what if c.isdigit()))


def rows() -> pd.DataFrame:
    """One row a printed table or figure."""
    clipping = "the bias of clipping, and none with weights, are as stated; n and the bound are not stated"
    out = [
        _row("XSJKH, Figure 1", "clipping is biased upwards, weights aren't", "1.06 to 1.10", clipping, "clipping",
             runs="10"),
        *_table1(),
        *(_unprinted(f"XSJKH, Table 1 at p = {p}", "xsjkh-table1", p=p, rho=0.0) for p in (5, 10)),
        _unprinted("XSJKH, Table 1, correlated", "xsjkh-table1", rho=0.5),
        _unprinted("XSJKH, logistic tables", "xsjkh-logistic"),
        _unprinted("XSJKH, expectile tables", "xsjkh-expectile"),
        _row("XSJKH, Table 2", "variables of the insurance records", "data/README.md", "reconstructed", ""),
        *_xsjkh_figures(),
        _row("SXJKH, Table 1", "rates", "benchmarks.papers.bounds.rates", "used as printed", ""),
        _row("SXJKH, Figure 1", "as Figure 1 of XSJKH", "1.06 to 1.10", clipping, "clipping", runs="10"),
        *_distances(),
        *_stream_rows(),
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
