"""The studies of the experiments: designs, estimands, limits, tables and figures, on few people."""

import itertools
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from benchmarks.papers import EXPERIMENTS, classes, dette_graw, figures, find, printed, rates, steps, store
from benchmarks.papers.applications import _replicate as apply
from benchmarks.papers.classes import measure
from benchmarks.papers.designs import THRESHOLD, Design, asymptotic_sd, chunks, truth
from benchmarks.papers.engine import seeds
from benchmarks.papers.rates import rate, start
from benchmarks.papers.simulation import Cell, at_hand, limit_sd, model, replicate
from benchmarks.papers.xsjkh import compare, tidy
from privreg.errors import InferenceError, OptionError

pytestmark = pytest.mark.filterwarnings("ignore::privreg.PrivacyLeakWarning")


def small(name, setting="stated", **more):
    given = {"design": Design("huber", 3), "sizes": (3_000, 6_000), "mu": 1.0, "passes": (("random_scaling",),)}
    return Cell(name, setting=setting, **{**given, **more})


# --- designs ----------------------------------------------------------------------------------------------


def test_chunks_end_where_results_are_taken():
    rng = np.random.default_rng(1)
    stops = (70_000, 70_001, 150_000)
    ends = [n for n, y, x in chunks(Design("huber", 2), stops, rng) if len(y) == len(x) <= 1 << 16]
    assert ends[-1] == 150_000
    assert set(stops) <= set(ends)
    assert ends == sorted(set(ends))


@pytest.mark.some(1)
@pytest.mark.parametrize("design", [
    Design("huber", 3, 0.5), Design("quantile", 0, sd=1.0), Design("quantile", 3, sd=1.0, cube=True),
])  # fmt: skip
def test_moments_of_a_response_are_those_stated(design):
    y, x = design.draw(200_000, np.random.default_rng(2))
    mean, sd = design.response
    assert abs(y.mean() - mean) < 5 * sd / np.sqrt(len(y))
    assert abs(y.std() / sd - 1) < 5 / np.sqrt(len(y))
    assert np.corrcoef(x[:, 1:].T)[0, 1] == pytest.approx(design.rho, abs=0.02) if design.p else True
    if design.cube:
        assert np.abs(x[:, 1:]).max() <= 1.0


@pytest.mark.thorough
def test_the_expectile_is_where_its_score_has_mean_zero():
    design = Design("expectile", 1, tau=0.8)
    e = design.sd * np.random.default_rng(3).standard_normal(2_000_000)
    for threshold in (0.25, THRESHOLD):
        r = e - (truth(design, threshold)[0] - 1.0)
        psi = np.where(r < 0, 0.2, 0.8) * np.clip(r, -threshold, threshold)
        assert abs(psi.mean()) < 5 * psi.std() / np.sqrt(len(e))


@pytest.mark.thorough
def test_asymptotic_lengths_are_those_of_the_stored_table():
    """At p = 3, ρ = 0, n = 200,000: 7.21 from the noise alone at mu = 1 with published weights, 2.41 with whitened."""
    for weights, threshold, length in (("published", THRESHOLD, 7.23), ("whitened", 0.25, 2.45)):
        sds, _ = asymptotic_sd(Design("huber", 3), weights, threshold, 2.0)
        assert 200 * 1.96 * np.mean(sds) / np.sqrt(200_000) == pytest.approx(length, rel=0.02)


def test_the_limit_of_private_quantiles_is_the_printed_length():
    paper = store.printed("dette_graw")
    for tau in (0.5, 0.9):
        cell = small("q", design=Design("quantile", 0, sd=1.0, tau=tau), mu=None, epsilon=1.0)
        length = 2 * 1.6449 * limit_sd(cell)[0] / np.sqrt(paper["n"])
        for row in ("BB", "BM"):
            np.testing.assert_allclose(paper["quantiles"][str(tau)][row]["length"], length, rtol=0.1)


# --- fits -------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_one_pass_gives_what_the_front_door_gives():
    cell = small("front")
    rows = [r for r in replicate(cell, 3) if r["n"] == 6_000]
    again = [r for r in replicate(cell, 3) if r["n"] == 6_000]
    assert [r["estimate"] for r in rows] == [r["estimate"] for r in again]
    assert [r["truth"] for r in rows] == [1.0] * 4
    assert all(r["low"] < r["estimate"] < r["high"] for r in rows)
    assert replicate(cell, 4)[-1]["estimate"] != rows[-1]["estimate"]


def test_budgets_of_the_settings_are_what_their_words_say():
    for setting, mu in (("stated", 1.0), ("slopes_only", 3**0.5), ("small_noise", 2**0.5 * 1.345)):
        res = model(small("b", setting), None).start(tuning="published", inference=None, seed=1)
        assert res.total_mu == pytest.approx(mu)
    noise = model(small("n", "slopes_only"), None).start(tuning="published", inference=None, seed=1)
    assert noise._settings.noise_sd(4) == pytest.approx(2 * 1.345)


def test_a_fit_that_fails_does_not_stop_the_others():
    found = replicate(small("bad", sizes=(3, 6_000)), 1)  # three people can't determine four coefficients
    bad = [r for r in found if "error" in r]
    assert [(r["n"], r["method"]) for r in bad] == [(3, "random_scaling")]
    assert bad[0]["error"].startswith("InferenceError")
    assert len(found) == 5


def test_methods_that_the_package_does_not_have_are_left_out():
    assert at_hand(("random_scaling", "no_such", "plug_in"), "published") == ("random_scaling", "plug_in")
    assert at_hand(("between_lanes", "plug_in_central"), "efficient") == ("between_lanes",)


@pytest.mark.thorough
def test_table_beside_the_printed_numbers():
    cells = [small("s", sizes=(40_000,), passes=(("random_scaling",), ("plug_in",))),
             small("e", "efficient", sizes=(40_000,), passes=(("between_lanes", "random_scaling"),))]  # fmt: skip
    runs = pd.DataFrame(
        [{"cell": c.name, "replication": r, **row} for c in cells for r in (1, 2) for row in replicate(c, r)]
    )
    table = tidy(runs, cells)
    assert {"coverage", "low_999", "high_999", "inside", "length_x100", "slope_length_x100", "asymptotic_x100",
            "asymptotic_slopes_x100", "rmse_x100"} <= set(table)  # fmt: skip
    assert (table.length_x100 / table.asymptotic_x100).between(0.7, 4).all()
    side = compare(table).set_index("method")
    assert side.published_length_x100.to_dict() == {"random_scaling": 16.01, "plug_in": 11.49}
    assert side.efficient_method["random_scaling"] == "random_scaling"
    assert (side.efficient_length_x100 < side.length_x100).all()
    assert side.remark.str.contains("not known").all()


@pytest.mark.thorough
def test_quantile_regression_without_weights_is_the_papers_loop():
    cell = next(c for c in EXPERIMENTS["dg-table2"].cells(True) if not c.efficient)
    cell = replace(cell, sizes=(3_000,))
    found = pd.DataFrame(dette_graw.plain(cell, 1))
    source, theta, path = seeds(cell.name, 1), np.zeros(4), []
    noise = np.random.Generator(np.random.SFC64(source.noise))
    for _, y, x in chunks(cell.design, cell.sizes, source.rows()):
        for row, response, drawn in zip(x, y, noise.laplace(scale=4.0, size=x.shape), strict=True):
            theta = theta - (len(path) + 1) ** -0.51 * (((response < row @ theta) - 0.5) * row + drawn)
            path.append(theta)
    path, length, n = np.array(path), round(3_000**0.755), 3_000
    np.testing.assert_allclose(found["estimate"], np.tile(path.mean(axis=0), 2), rtol=1e-9)
    ends = np.floor(n * ((np.arange(21) + 1) / 21) ** (1 / 0.49) + 1e-9).astype(int)
    ends = np.unique(np.maximum(ends, 1))
    whole = path[ends[0] : ends[-1]].mean(axis=0)
    parts = [(b - a) * (path[a:b].mean(axis=0) - whole) ** 2 for a, b in itertools.pairwise(ends)]
    half = norm.ppf(0.95) * np.sqrt(np.mean(parts, axis=0) / n)
    means = found[found["method"] == "batch_means"]
    np.testing.assert_allclose(means["high"] - means["estimate"], half, rtol=1e-9)
    m = n // length
    moves = (path[: m * length] - path[: m * length].mean(axis=0)).reshape(m, length, 4).sum(axis=1) / (m * length)
    boxes = found[found["method"] == "block_bootstrap"]
    multipliers = noise.uniform(1 - 3**0.5, 1 + 3**0.5, (500, m))  # drawn after the noise
    low, high = np.quantile(multipliers @ moves, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(boxes["high"] - boxes["low"], high - low, rtol=1e-6)


def test_asymptotic_lengths_without_weights_are_the_printed_ones_at_a_hundred_million():
    cell = next(c for c in EXPERIMENTS["dg-table2"].cells(False) if c.name == "regression-stated-n1e8")
    lengths = 2 * norm.ppf(0.95) * dette_graw._limit(cell) / 1e4
    assert lengths.round(4).tolist() == [0.0047, 0.016, 0.016, 0.016]
    printed_there = store.printed("dette_graw")["quantile_regression"]["BB"]["length"]
    assert lengths.round(3).tolist() == [row[-1] for row in printed_there]


# --- steps of exponent 1 ----------------------------------------------------------------------------------


def test_alpha_one_is_allowed_in_experiments_alone():
    front = model(small("one"), None)
    with pytest.raises(OptionError, match="alpha=1"):
        front.start(tuning="published", alpha=1.0, inference=None)
    stream = start(front, 1.0, 0.5, seed=1)
    y, x = Design("huber", 3).draw(2_000, np.random.default_rng(4))
    stream.update((y, x))
    assert np.isfinite(stream.results().params).all()
    assert stream._settings.how.steps.block(0, 3).tolist() == [0.5, 0.25, 0.5 / 3]
    assert stream._settings.how.steps.total(999) == pytest.approx(0.5 * np.log(1000))
    with pytest.raises(InferenceError, match="inference=None"):
        stream.results().conf_int()


def test_rates():
    assert [rate(a, False) for a in (1 / 3, 1 / 2, 2 / 3)] == [1 / 3, 1 / 2, 2 / 3]
    assert [rate(a, True) for a in (1 / 3, 1 / 2, 2 / 3)] == [2 / 3, 1.0, 1.0]
    assert np.isnan(rate(1.0, True))


# --- applications -----------------------------------------------------------------------------------------


def test_least_squares_of_the_insurance_records_are_the_printed_ones():
    cell = EXPERIMENTS["xsjkh-table3"].cells(True)[0]
    cell = replace(cell, rows=60_000, train=50_000, methods=())
    rows = {r["term"]: r["estimate"] for r in apply(cell, 1) if r["tuning"] == "OLS"}
    paper = store.printed("xsjkh_table3")
    for name, value in zip(paper["coefficients"], paper["OLS"], strict=True):
        assert rows[name] == pytest.approx(value, abs=0.006)
    assert rows["test_mse"] == pytest.approx(0.0607, abs=0.003)
    assert rows["worst_error"] == 0.0


def test_measures_of_classes_by_hand():
    test = pd.DataFrame({"class": [2, 0], "charges": [16_742.0, 16_742.0 + 4_421.0]})
    x = np.array([[1.0], [1.0]])
    loss, right = measure(np.array([[0.0, np.log(2.0)]]), x, test, "multinomial")
    assert loss[0] == pytest.approx(-(np.log(0.5) + np.log(0.25)) / 2)
    assert right[0] == 0.5
    loss, right = measure(np.array([[16_742.0]]), x, test, "linear")
    assert loss[0] == pytest.approx(0.5)
    assert np.isnan(right[0])


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["xsjkh-fig2", "xsjkh-expectile", "dg-table2"])
def test_a_quick_look(name, tmp_path):
    table = EXPERIMENTS[name](1, quick=True, out=tmp_path, progress=False)
    assert len(table)
    assert (tmp_path / "quick" / f"{name}.png").exists()
    assert "failures" not in table or not table["failures"].any()


@pytest.mark.statistical  # half a minute, of what another test does for some
@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_every_quick_look(name, tmp_path):
    table = EXPERIMENTS[name](1, quick=True, out=tmp_path, progress=False)
    assert len(table)
    assert (tmp_path / "quick" / f"{name}.png").exists()
    assert find(name).name == name


@pytest.mark.statistical  # as long again
@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_a_cell_alone_is_drawn_or_says_what_to_run_too(name, tmp_path):
    cell = EXPERIMENTS[name].cells(True)[-1].name
    try:
        assert len(EXPERIMENTS[name](1, quick=True, out=tmp_path, progress=False, cells=[cell]))
        assert (tmp_path / "quick" / f"{name}.png").exists()
    except OptionError as e:
        if "run those cells too" not in str(e):
            raise


# --- figures ----------------------------------------------------------------------------------------------


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.thorough
def test_a_quick_stream_has_more_than_a_point():
    cell = next(c for c in EXPERIMENTS["sxjkh-figs7-9"].cells(True) if c.family == "linear" and c.mu is None)
    assert len({row["n"] for row in classes._replicate(cell, 1)}) > 1


def compared(**more):
    rows = [{"mu": "1", "method": "batch_means", "n": n, "coverage": 95.0, "length_x100": 1.0} for n in (1_000, 2_000)]
    beside = {f"{who}_{what}": np.nan for who in ("efficient", "published") for what in ("coverage", "length_x100")}
    return pd.DataFrame(rows).assign(**beside).assign(**more)


@pytest.mark.thorough
def test_printed_numbers_are_in_the_legend_where_there_are_some():
    assert "printed" not in legend(figures.coverage_figure(compared()))
    assert "printed" in legend(figures.coverage_figure(compared(published_coverage=94.0, published_length_x100=1.0)))


def test_every_column_of_paths_has_a_band():
    there = [{"setting": s, "method": m, "n": n} for s, m in (("stated", "plug_in"), ("efficient", "sandwich"))
             for n in (1_000, 9_000)]  # fmt: skip
    table = pd.DataFrame(there).assign(term="x", truth=1.0, estimate=1.0, low=0.5, high=1.5, replication=1)
    figure = figures.path_figure(table, "setting")
    assert [len(ax.collections) for ax in figure.axes] == [1, 1]


def test_distances_of_runs_are_boxed_beside_their_means():
    there = [
        {"n": n, "iterate": i, "square": v} for n in (1_000, 9_000) for i in ("average", "last") for v in (1.0, 2.0)
    ]
    table = pd.DataFrame(there).assign(budget="mu=2")
    figure = figures.distance_figure(table, table)
    assert legend(figure) == ["μ = 2"]
    assert [t.get_text() for t in figure.axes[-1].get_xticklabels()] == ["1k", "9k"]


def test_relative_orders_are_those_that_are_stated():
    """SXJKH, Figure 3: r is largest, 1/2, at α = 1/2, and for the loss at 1/3."""
    orders = EXPERIMENTS["sxjkh-fig3"](progress=False).set_index("alpha")
    assert orders["parameter"].idxmax() == 0.5
    assert orders["parameter"].max() == 0.5
    assert orders["loss"].idxmax() == pytest.approx(1 / 3)
    assert orders["loss"].max() == pytest.approx(1 / 3)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["huber", "logistic"])
def test_distances_are_those_of_the_papers_loop(kind):
    """An independent loop over the same rows, without noise."""
    cells = EXPERIMENTS["sxjkh-fig5" if kind == "huber" else "sxjkh-fig6"].cells(False)
    cell = replace(next(c for c in cells if c.name == "d5-none-alpha1o2"), sizes=(1_000, 3_000))
    records = pd.DataFrame(rates._replicate(cell, 1)).set_index(["n", "iterate"])
    found = records["square"]
    theta = np.append(np.zeros(6), 1.0) if kind == "huber" else np.zeros(6)
    c, path = 1.345, []
    kappa = norm.expect(lambda z: min(z * z, c * c), epsabs=1e-12)
    rng = seeds(cell.name, 1).rows()
    for _, y, x in chunks(cell.design, cell.sizes, rng):
        rng.uniform(size=len(y))  # budgets, of other cells
        for row, response in zip(x, y, strict=True):
            weight, eta = min(1.0, 2.0 / (row @ row)), row @ theta[:6]
            if kind == "huber":
                u = np.clip((response - eta) / theta[6], -c, c)
                score = np.append(-u * row, 0.5 * (kappa - u * u))
            else:
                score = (1.0 / (1.0 + np.exp(-eta)) - response) * row
            theta = theta - 0.2 * (len(path) + 1) ** -0.5 * weight * score
            path.append(theta)
    for n in cell.sizes:
        for iterate, at in (("last", path[n - 1]), ("average", np.mean(path[:n], axis=0))):
            assert found[n, iterate] == pytest.approx(((at[:6] - 1.0) ** 2).sum(), rel=1e-6)
            excess = weighted_loss(cell.design, at) - weighted_loss(cell.design, np.array([1.0] * 6 + [2.0]))
            assert records["loss"][n, iterate] == pytest.approx(excess**2, rel=1e-4)


def weighted_loss(design, theta):
    """Mean weighted loss at coefficients and, of Huber's, a scale; over the records that judge."""
    y, x = design.draw(rates.JUDGES, np.random.Generator(np.random.SFC64(4_321)))
    weight, eta, c = np.minimum(1.0, 2.0 / (x**2).sum(axis=1)), x @ theta[:6], 1.345
    if design.family == "logistic":
        return np.mean(-weight * np.log(1.0 / (1.0 + np.exp(np.where(y == 1.0, -eta, eta)))))
    s, r = theta[6], np.abs(y - eta)
    kappa = norm.expect(lambda z: min(z * z, c * c), epsabs=1e-12)
    each = [v**2 / (2 * s) if v <= c * s else c * v - c * c * s / 2 for v in r]
    return np.mean(weight * (np.array(each) + kappa * s / 2))


@cache
def printed_rows() -> pd.DataFrame:
    return printed.rows()


@pytest.mark.thorough
def test_every_printed_method_has_a_row():
    table = printed_rows()
    assert sum("DG, Table 1" in str(name) for name in table.index) == 6
    assert not table["command"].duplicated().all()
    assert set(table["command"].str.extract(r"benchmarks.papers (\S+)")[0].dropna()) <= set(EXPERIMENTS)


def test_printed_coverages_agree_by_an_exact_test():
    assert printed.agree([92.13], [95.5], 800, 800) == "0 of 1 coverages (printed lower)"
    assert printed.agree([92.13], [95.5], 200, 200) == "1 of 1 coverages"
    assert printed.agree([95.5, 92.13], [92.13, 95.5], 800, 800) == "0 of 2 coverages (printed lower 1 times)"
    assert printed.agree([95.5], [92.13], 800, 800) == "0 of 1 coverages (printed higher)"
    assert printed.agree([95.0, 99.0], [95.0, 95.0], 800, [400, 800]) == "1 of 2 coverages (printed higher)"


@pytest.mark.thorough
@pytest.mark.parametrize("began", [0.0, 1.0])
def test_intervals_by_step_and_start_are_those_of_a_plain_loop(began):
    cell = steps.Begun("loop", Design("huber", 2), "stated", (1_000, 3_000), (), None, step=0.3, start=began)
    rng, n = seeds("loop", 7).rows(), 3_000
    y, x = (np.concatenate(parts) for parts in zip(*(r[1:] for r in chunks(cell.design, cell.sizes, rng)), strict=True))
    path, theta, curve, square = np.zeros((n, 3)), np.full(3, began), np.zeros((3, 3)), np.zeros((3, 3))
    for i in range(n):
        r, w = y[i] - x[i] @ theta, min(1.0, 2.0 / (x[i] @ x[i]))
        score = -w * np.clip(r, -THRESHOLD, THRESHOLD) * x[i]
        curve += w * (abs(r) <= THRESHOLD) * np.outer(x[i], x[i]) / n
        square += np.outer(score, score) / n
        theta = theta - 0.3 * (i + 1) ** -0.51 * score
        path[i] = theta
    mean, k = path.mean(axis=0), np.arange(1, n + 1)[:, None]
    along = np.cumsum(path, axis=0) / k
    ends = np.array([int(np.floor(n * (j / 21) ** (1 / 0.49) + 1e-9)) for j in range(1, 22)])
    ends = np.unique(np.maximum(ends, 1))
    batches = [path[a:b] for a, b in itertools.pairwise(ends)]
    centre = np.concatenate(batches).mean(axis=0)
    sandwich = np.linalg.inv(curve) @ square @ np.linalg.inv(curve)
    halves = {
        "plug_in": norm.ppf(0.975) * np.sqrt(np.diag(sandwich) / n),
        "random_scaling": 6.747 * np.sqrt((k**2 * (along - mean) ** 2).sum(axis=0) / n**2 / n),
        "batch_means": norm.ppf(0.975)
        * np.sqrt(np.mean([len(b) * (b.mean(axis=0) - centre) ** 2 for b in batches], axis=0) / n),
    }
    found = pd.DataFrame(steps._replicate(cell, 7))
    found = found[found["n"] == n]
    for method, half in halves.items():
        own = found[found["method"] == method]
        assert own["estimate"].to_numpy() == pytest.approx(mean, rel=1e-9)
        assert (own["high"] - own["low"]).to_numpy() / 2 == pytest.approx(half, rel=1e-7)


@pytest.mark.parametrize(("setting", "sd"), [("stated", np.sqrt(2) * THRESHOLD), ("small_noise", 1.0)])
def test_noise_by_step_and_start_is_the_stated_one(setting, sd, monkeypatch):
    seen, walk = [], steps._walk
    monkeypatch.setattr(steps, "_walk", lambda y, x, noise, *rest: (seen.append(noise.std()), walk(y, x, noise, *rest)))
    steps._replicate(steps.Begun("noise", Design("huber", 3), setting, (20_000,), (), 2.0, step=0.3), 1)
    assert seen == pytest.approx([sd], rel=0.02)


def lacking(names):
    """Printed tables and figures that no row begins with."""
    said = tomllib.loads(Path("benchmarks/papers/printed/places.toml").read_text("utf-8"))
    wanted = [
        f"{paper}, {word}{place}"
        for paper, kinds in said.items()
        for kind, places in kinds.items()
        for word in [{"tables": "Table ", "figures": "Figure ", "supplement": "", "appendix": "appendix, "}[kind]]
        for place in places
    ]
    return [w for w in wanted if not any(f"{name},".startswith(f"{w},") for name in names)]


@pytest.mark.thorough
def test_every_printed_table_and_figure_has_a_row():
    """Of the documents, by their own numbers; the page shows all rows."""
    names = list(printed_rows().index)
    assert lacking(names) == []
    assert lacking([n for n in names if n != "Duan, Figure 4.7"]) == ["Duan, Figure 4.7"]
    assert "\nrows()\n" in Path("docs/published.md").read_text("utf-8")


def test_a_figure_whose_statement_fails_says_so(monkeypatch):
    table = store.read_table("benchmarks/papers/results/xsjkh-fig2.csv")
    turned = table.assign(high=table["low"] + np.where(table["method"] == "random_scaling", 0.01, 0.02))
    monkeypatch.setattr(printed, "stored", lambda name: turned if name == "xsjkh-fig2" else None)
    two = next(row for row in printed._xsjkh_figures() if row["what"] == "XSJKH, Figure 2")
    assert two["agreement"] == "not as stated"
