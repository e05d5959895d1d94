"""What bounds clamp, as a few records tell: who is asked, how well their share is known, and what is said of it."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

import privreg as pr
from privreg.collector import rounds
from privreg.collector.covariates.moments import Bounded
from privreg.collector.design import Batch
from privreg.errors import ReliabilityWarning
from privreg.fits.findings import shares_of
from privreg.fits.notes import Shares, harmed, quantile
from privreg.fits.plan import people_for
from privreg.fits.settings import FitOptions
from privreg.formula.design import Design
from privreg.privacy.noise import seeded_key
from privreg.protocol.schedule import MOST, Round, people_of, schedule
from privreg.results.statement import PrivacyStatement
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.workers import Span, blocks_of, fit_blocks
from privreg.tables.diagnostics import CODES
from tests.kinds import KINDS
from tests.rounds import plan_by_rounds

N = 20_000
BOX = {"a": (-1.0, 1.0), "b": (0.0, 7.5), "y": (-3.0, 9.0)}
LABEL = "Public: clamping"


def rows(n=N, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.normal(5, 2, n), "g": rng.choice(["u", "v"], n)})
    out["y"] = out["a"] + out["b"] + rng.normal(0, 1, n)
    out["own"] = np.where(rng.random(n) < 0.5, 8.0, 4.0)
    out.loc[rng.random(n) < missing, "g"] = "never"
    return out


def beyond(data, name, box=None):
    low, high = (BOX if box is None else box)[name]
    return (data[name] < low) | (data[name] > high)


def model(data=None, formula="y ~ a + b + g", **more):
    budget = {} if {"mu", "epsilon"} & set(more) else {"mu": 8}
    given = {"bounds": BOX, "levels": {"g": ["u", "v"]}, **budget, **more}
    return pr.PrivateOnlineRegression.from_formula(formula, data, **given)


def told(stream):
    """Shares that a stream's records have told."""
    run = stream._run
    return shares_of(run.plan, run.held().progress)


# --- who is asked --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("columns", [1, 2, 7, 40])
def test_as_many_are_asked_as_a_share_of_five_percent_takes_to_show(columns, mu):
    z = norm.ppf(1 - 0.05 / (2 * columns))
    assert quantile(columns) == pytest.approx(z, rel=1e-12)
    sd = math.sqrt(columns) / mu
    m = people_for(columns, sd)
    assert m == math.ceil(columns * (z / (0.04 * mu)) ** 2)
    assert z * sd / math.sqrt(m) <= 0.04 < z * sd / math.sqrt(m - 1)


def test_without_noise_as_many_are_asked_as_chance_takes():
    m = people_for(3, 0.0)
    assert quantile(3) * math.sqrt(0.05 * 0.95 / m) == pytest.approx(0.04, rel=0.01)
    assert people_for(0, 1.0) == 0


def scheduled(rows, clamped):
    return schedule(d=4, noise=1.0, moment_noise=1.0, rows=rows, clamped=clamped)


@pytest.mark.parametrize(
    ("records", "asked"), [(7_200, 72), (50_000, 500), (99_999, 999), (100_000, 1000), (10**7, 1000)]
)
def test_one_in_a_hundred_is_asked_after_the_pilot_or_as_few_as_it_takes(records, asked):
    held = scheduled(records, 1000)
    at = held.index(Round("clamping", asked))
    assert {r.role for r in held[:at]} == {"moments", "pilot"}
    assert {r.role for r in held[at + 1 :]} == {"main"}
    assert held[:at] + held[at + 1 :] == scheduled(records, 0)


def test_a_short_stream_asks_nobody():
    assert scheduled(7_100, 1000) == scheduled(7_100, 0)


@pytest.mark.parametrize("clamped", [1, 500, 10_000, 10**7])
def test_a_stream_of_unknown_length_asks_once_it_is_long(clamped):
    held = scheduled(None, clamped)
    at = held.index(Round("clamping", clamped))
    sizes = ()
    for r in held[:at]:
        sizes = (*sizes, 0 if r.optional else people_of(held, sizes, None))
    assert clamped <= MOST["clamping"] * sum(sizes)
    assert held[at - 1].role == "pilot" or clamped > MOST["clamping"] * sum(sizes[:-1])
    assert held[at + 1 :] == (Round("main", -1),)
    assert [r for r in held if r.role not in {"main", "clamping"}] == list(scheduled(None, 0)[:-1])
    assert people_of(held, (*sizes, clamped), None) == people_of(held, (*sizes, clamped, 0), None)


def test_only_private_columns_with_bounds_are_asked_about():
    def names(formula="y ~ a + b + g", **more):
        return [c[:2] for c in model(None, formula, **more)._spec.clamps]

    whole = [("y", "response"), ("a", "covariate"), ("b", "covariate")]
    assert names() == whole
    assert names("y ~ np.log1p(b) + a:g", offset="a")[:2] == [("y", "response"), ("b", "covariate")]
    assert names("y ~ b", offset="a") == [("y", "response"), ("b", "covariate"), ("a", "offset")]
    assert names(private="response") == whole[:1]
    assert names("y ~ 1") == whole[:1]
    assert names(bounds={"b": BOX["b"], "y": BOX["y"]}, moments={"a": (0, 1)}) == [whole[0], whole[2]]
    assert names("z ~ b", family="logistic", bounds={"b": BOX["b"]}) == [("b", "covariate")]
    assert names(bounds={}, scaling="private") == []


def test_a_short_fit_holds_no_such_role_and_says_so():
    data = rows(1_000)
    res = model(data).fit(seed=1, progress=False)
    assert "clamping" not in set(res.rounds["role"])
    assert dict(res.privacy.rows())[LABEL].endswith("how many was not counted")


@pytest.mark.thorough
def test_a_plan_counts_whom_a_fit_asks():
    data = rows()
    plan = model(data).plan()
    res = model(data).fit(seed=1, progress=False)
    planned = plan.rounds[~plan.rounds["optional"]].set_index("round")
    at = int(planned.index[planned["role"] == "clamping"][0])
    asked = people_for(3, math.sqrt(3) / 8)
    assert planned.loc[at, ["records", "numbers"]].tolist() == [asked, 3]
    assert planned.loc[at, "noise_sd"] == pytest.approx(math.sqrt(3) / 8, rel=1e-12)
    held = res.rounds.set_index("role")
    assert held.loc["clamping", "records"] == held.loc["clamping", "reports"] == asked
    assert res.rounds["records"].sum() == N == res.nobs
    assert f"{asked:,} records tell how many" in " ".join(repr(plan).split())
    assert f"{asked:,} reported clamping" in str(res.privacy)


# --- what is known -------------------------------------------------------------------------------------------

WAYS = {
    "everybody answers": {},
    "30% silent": {"missing": 0.3},
    "PrivUnit": {"epsilon": 30.0, "mechanism": "privunit", "n": 100_000},
    "Laplace": {"epsilon": 60.0, "mechanism": "laplace"},
    "personal budgets": {"mu": "own", "mu_max": 8.0},
    "response alone": {"private": "response"},
    "left out": {"missing": 0.3, "how": "drop"},
    "no noise": {"mu": None, "n": 25_000},
}


@pytest.mark.statistical
@pytest.mark.parametrize("way", WAYS)
def test_shares_are_unbiased_among_those_who_answer(way):
    given = dict(WAYS[way])
    missing, how, n = given.pop("missing", 0.0), given.pop("how", "noise"), given.pop("n", N)
    off, times = [], 8
    for seed in range(times):
        data = rows(n, seed, missing)
        stream = model(missing=how, rows=n, **given).start(seed=seed)
        for a in range(0, n, 1_000):
            stream.update(data.iloc[a : a + 1_000])
            if told(stream) is not None:
                break
        found = told(stream)
        truth = [beyond(data[data["g"] != "never"], c.name).mean() for c in found.columns]
        off.append((found.share - truth) / found.error)
    mean = np.mean(off, axis=0)
    assert (np.abs(mean) < 4 / math.sqrt(times)).all()
    spread = np.square(off).mean()
    assert abs(spread - 1.0) < 4 * math.sqrt(2.0 / np.size(off)) + 0.1  # errors are those stated


@pytest.mark.thorough
def test_arrays_tell_of_offset_and_exposure():
    rng = np.random.default_rng(3)
    n = 60_000
    x = np.column_stack([np.full(n, 7.0), rng.normal(0, 1, n)])  # a constant is never looked at
    offset, exposure = rng.uniform(-1, 1, n), rng.uniform(0.5, 2, n)
    y = rng.poisson(2.0, n).astype(float)
    box = {"a": (-1, 1), "offset": (-0.5, 1), "exposure": (1, 2), "y": (0, 4)}
    m = pr.PrivateOnlineRegression(
        *(y, x),
        offset=offset,
        exposure=exposure,
        exog_names=["const", "a"],
        endog_name="y",
        bounds=box,
        family=pr.Poisson(y_max=4),
        mu=None,
    )
    names = [c.name for c in m._spec.clamps]
    flags = m._spec.design.clamps((y, x, offset, exposure), names)
    values = {"y": y, "a": x[:, 1], "offset": offset, "exposure": exposure}
    assert sorted(names) == sorted(values)
    for j, name in enumerate(names):
        low, high = box[name]
        np.testing.assert_array_equal(flags[:, j], (values[name] < low) | (values[name] > high))
    with pytest.warns(ReliabilityWarning, match="clamp so many values"):
        res = m.fit(seed=1, progress=False)
    (note,) = (d for d in res.privacy.notes if d.code == "narrow")
    assert all(name in note for name in names)


def asking(columns=3, mu=2.0, people=2_000, **more):
    """A plan that asks so many, after a small pilot."""
    held = (Round("pilot", 32), Round("clamping", people), Round("main", -1))
    clamps = tuple(Bounded(f"c{j}", "covariate") for j in range(columns))
    return plan_by_rounds(KINDS["huber"], strength=mu, rounds=held, clamps=clamps, rows=people + 100, **more)


def asked(plan, flags, seed):
    """What a collector knows once everybody has told this."""
    run = RoundsRun(plan, seeded_key(seed))
    n = 32 + len(flags)
    x = np.random.default_rng(0).standard_normal((n, plan.d))
    x[:, 0] = 1.0
    run.advance(x[:, 0], x, None, None, np.concatenate([np.zeros((32, flags.shape[1]), dtype=bool), flags]))
    assert run.progress.state.role == "main"
    return run.progress


def test_noise_is_as_large_as_the_sensitivity_asks():
    """√D/μ on every number of every report: nine columns, which a score's noise would not hide."""
    people, columns, mu, times = 500, 9, 2.0, 50
    plan = asking(columns, mu, people)
    flags = np.zeros((people, columns), dtype=bool)
    totals = np.array([asked(plan, flags, seed).clamped.total for seed in range(times)])
    assert plan.sd("clamping") == pytest.approx(math.sqrt(columns) / mu, rel=1e-12)
    square = np.square(totals).mean() / people
    assert abs(square * mu**2 / columns - 1.0) < 4 * math.sqrt(2.0 / totals.size)


@pytest.mark.statistical
@pytest.mark.parametrize(("share", "chance"), [(0.0, 0.001), (0.01, 0.03)])
def test_columns_that_are_hardly_clamped_are_hardly_ever_named(share, chance):
    """At a share of 1% itself a column is named with 2.5% over their number; exact binomial limit at 10⁻⁶."""
    people, times = 2_000, 100
    plan = asking(3, 2.0, people)
    rng = np.random.default_rng(5)
    named = 0
    for seed in range(times):
        found = shares_of(plan, asked(plan, rng.random((people, 3)) < share, seed))
        named += bool(found.noted)
    assert named <= binom.isf(1e-6, times, chance)


@pytest.mark.thorough
def test_a_fit_of_rows_within_their_bounds_has_no_note():
    data = rows().assign(b=lambda d: d["b"].clip(*BOX["b"]), y=lambda d: d["y"].clip(*BOX["y"]))
    times, named = 5, 0
    for seed in range(times):
        res = model(data).fit(seed=seed, progress=False)
        named += any(d.code == "clamping" for d in res.privacy.notes)
    assert named <= binom.isf(1e-6, times, 0.05)
    text = dict(res.privacy.rows())[LABEL]
    m = people_for(3, math.sqrt(3) / 8)
    assert f"counted, with noise, among {m:,} records: surely at most" in text
    assert text.endswith("of them in any column")


def test_late_reports_are_counted():
    plan, flags = asking(), np.zeros((2_000, 3), dtype=bool)
    flags[:300, 1] = True
    before = asked(plan, flags, 1)
    more = Batch(500, np.array([[[0.0, 400.0, 1.0]]]), np.full((1, 1), 500.0))
    after = rounds.late(before, before.clamped.number, more)
    assert after.clamped.people == 2_500
    np.testing.assert_array_equal(after.clamped.total, before.clamped.total + more.total[0, 0])
    assert rounds.late(before, 0, more).clamped == before.clamped
    assert after.held[before.clamped.number] == 2_500


# --- what is said --------------------------------------------------------------------------------------------


def noted(data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        res = model(data, **more).fit(seed=1, progress=False)
    (note,) = (d for d in res.privacy.notes if d.code in {"clamping", "narrow"})
    return res, note


@pytest.mark.thorough
def test_few_tell_that_a_third_of_the_responses_are_clamped():
    data = rows(20_000)
    narrow = {**BOX, "y": tuple(np.quantile(data["y"], [0.0, 2 / 3]).tolist())}
    res, note = noted(data, mu=2, bounds=narrow)
    assert res.rounds.set_index("role").loc["clamping", "records"] == 200
    assert "bounds of y clamp " in note
    assert "slopes are drawn towards 0" in note


@pytest.mark.thorough
def test_a_note_names_columns_their_shares_and_what_clamping_does():
    data = rows(200_000)
    res, note = noted(data, bounds={**BOX, "y": (-3, 6)})
    assert CODES["narrow"].severity == note.severity == "doubt"
    assert note.startswith("don't rely on the results: bounds of y clamp 3")  # 31%
    assert "% (± " in note
    assert " and of b 1" in note  # 11%
    assert "of records: slopes are drawn towards 0; the slope of a clamped covariate is too steep as a rule" in note
    assert "surely more than 1% of them in y and b (see the notes)" in dict(res.privacy.rows())[LABEL]
    assert note in str(res.summary()).replace("\n    ", " ")
    again = PrivacyStatement.from_json(res.privacy.to_json())
    assert again.rows() == res.privacy.rows()
    assert not res.tidy()["reliable"].any()
    plain = noted(data, bounds={**BOX, "y": (-3, 6), "b": (-9, 19)})[1]
    assert "slopes are drawn towards 0; declare wider bounds=" in plain


def related(rho, n=60_000, seed=0):
    rng = np.random.default_rng(seed)
    a, c = rng.standard_normal((2, n))
    b = rho * a + math.sqrt(1 - rho**2) * c
    g = rng.choice(["u", "v"], n)
    return pd.DataFrame({"a": a, "b": b, "g": g, "y": a + 0.5 * b + 0.3 * (g == "v") + rng.standard_normal(n)})


FREE = {"a": (-5, 5), "b": (-5, 5), "y": (-9, 9)}


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("rho", "bounds", "kept"),
    [
        (0.0, {}, {"Intercept", "g[T.v]", "a", "b"}),
        (0.0, {"a": (-1.2, 1.2)}, {"g[T.v]", "b"}),  # 23%
        (0.8, {"a": (-1.2, 1.2)}, {"g[T.v]"}),
        (0.8, {"b": (-0.5, 0.5), "a": (-0.5, 0.5)}, set()),
        (0.0, {"y": (-9, 1)}, set()),
    ],
)
def test_rows_that_clamping_surely_moves_are_taken_back(rho, bounds, kept, tmp_path):
    """All of a clamped response; of a clamped covariate its own, the intercept, and those of what goes with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ReliabilityWarning)
        res = model(related(rho), "y ~ g + a + b", bounds={**FREE, **bounds}).fit(seed=1, progress=False)
    table = res.tidy().set_index("term")["reliable"]
    assert kept <= set(table.index[table]) or not kept
    marked = [d for d in res.privacy.notes if d.code == "narrow"]
    assert bool(marked) == bool(caught) == bool(bounds)
    if bounds:
        assert not table[[name for name in ("Intercept", *bounds) if name in table]].any()
        assert table.all() == (kept == set(table.index))
        assert rho == 0.0 or not table["b"]
        assert kept or not table.any() or "y" not in bounds
        res.save(tmp_path / "res")
        assert pr.load(tmp_path / "res").tidy()["reliable"].tolist() == table.tolist()
        assert "†" in res.summary().as_text()


def test_what_is_harmed_is_the_formula():
    """A share of π moves a slope by π |t| standard errors, half of one at most; t is 10 at least."""
    columns = (Bounded("a", "covariate", (1, 3)), Bounded("y", "response"), Bounded("o", "offset"))
    together = np.full((4, 4), 0.01) + 0.99 * np.eye(4)
    together[0] = together[:, 0] = 1.0
    together[1, 2] = together[2, 1] = 0.5

    def found(which, low, t):
        share = np.zeros(3)
        share[which] = low
        ratios = np.array([[0.0, 0.0, t, 0.0], [0.0, t, 0.0, 0.0]])
        return harmed(Shares(columns, share, np.full(3, 1e-12), 9), ratios, together)

    assert found(0, 0.049, 9.0) == []
    assert found(0, 0.051, 9.0) == [0, 1, 3, 4, 5, 7]
    assert found(0, 0.149, 9.0) == [0, 1, 3, 4, 5, 7]
    assert found(0, 0.151, 9.0) == list(range(8))  # a third of it for what is correlated by a half
    assert found(0, 0.026, 20.0) == [0, 1, 3, 4, 5, 7]
    assert found(1, 0.049, 9.0) == []
    assert found(1, 0.051, 9.0) == found(2, 0.026, 20.0) == list(range(8))
    assert found(1, 0.009, 1e9) == []  # not surely above 1%


@pytest.mark.thorough
def test_clamped_responses_draw_slopes_towards_0_and_clamped_covariates_make_theirs_steeper():
    data = rows(40_000)
    wide = {"a": (-1, 1), "b": (-9, 19), "y": (-20, 30)}
    right, response, covariate = (
        model(data, mu=None, family=pr.Squared(), bounds={**wide, **more}).fit(seed=1, progress=False)
        for more in ({}, {"y": (3, 7)}, {"b": (4, 6)})
    )
    assert abs(right.params["b"] - 1.0) < 0.05
    assert response.params["b"] < 0.9
    assert covariate.params["b"] > 1.2


@pytest.mark.thorough
def test_results_on_the_way_say_that_nobody_was_asked_yet():
    data, said = rows(), []
    stream = model(rows=N).start(seed=1)
    for a in range(0, N, 1_000):
        stream.update(data.iloc[a : a + 1_000])
        role = stream._run.progress.state.role
        if role in {"clamping", "main"} or (role == "pilot" and stream._run.progress.scored):
            said.append(dict(stream.results().privacy.rows())[LABEL])
    assert said[0].endswith("how many was not counted yet")
    assert "counted, with noise, among" in said[-1]
    assert stream.results().nobs == N


@pytest.mark.thorough
def test_a_stream_of_unknown_length_is_looked_at_once_it_is_long():
    n, box = 60_000, {**BOX, "b": (0.0, 5.0)}
    data = rows(n)
    stream = model(None, mu=30, bounds=box).start(seed=1)
    for a in range(0, n, 10_000):
        stream.update(data.iloc[a : a + 10_000])
    res = stream.results()
    roles = res.rounds["role"].tolist()
    at = roles.index("clamping")
    assert res.rounds["records"][:at].sum() * MOST["clamping"] >= res.rounds["records"][at]
    found = told(stream)
    truth = [beyond(data, c.name, box).mean() for c in found.columns]
    assert (np.abs(found.share - truth) < 4 * found.error).all()
    assert "bounds of b clamp" in str(res.privacy) or "of b 5" in str(res.privacy)
    assert (np.diff(res.trajectory()["n"].unique()) > 0).all()


# --- rows ----------------------------------------------------------------------------------------------------


def test_designs_tell_which_cells_lie_outside():
    data = pd.DataFrame(
        {
            "a": ["-1", "1.0001", " 0.5", None, "inf", "x"],
            "b": [0, 7.5, 7.500001, -0.1, 3, np.nan],
            "g": ["u", "v", "never", "u", "v", "u"],
            "y": [9.0, -3.0, 9.1, -4.0, 0.0, 1e300],
        }
    )
    design = model()._spec.design
    assert isinstance(design, Design)
    flags = design.clamps(data, ["a", "b", "y"])
    assert flags.dtype == bool
    np.testing.assert_array_equal(flags[:, 0], [0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(flags[:, 1], [0, 0, 1, 1, 0, 0])
    np.testing.assert_array_equal(flags[:, 2], [0, 0, 1, 1, 0, 1])


def sources(data, folder):
    import polars
    import pyarrow as pa

    data.to_csv(folder / "rows.csv", index=False)
    data.to_parquet(folder / "rows.parquet", index=False)
    return {
        "frame": data,
        "mapping": {c: data[c].to_numpy() for c in data},
        "csv": folder / "rows.csv",
        "parquet": folder / "rows.parquet",
        "arrow": pa.Table.from_pandas(data, preserve_index=False),
        "polars": polars.from_pandas(data),
    }


def test_every_source_tells_the_same_of_the_records_that_are_asked(tmp_path):
    data = rows(24_000, missing=0.1)
    data.loc[::11, "b"] = np.nan
    usable = (data["g"] != "never") & data["b"].notna()
    for given in sources(data, tmp_path).values():
        m = model(given, mu=None, rows=len(data))
        stream = m.start()
        for _ in stream._update_all(m._spec.open(given).batches(0), 2):
            pass
        run = stream._run
        first = sum(run.progress.held[: run.progress.clamped.number])
        here = slice(first, first + run.progress.clamped.people)
        exact = [(beyond(data, c.name) & usable)[here].sum() for c in run.plan.clamps]
        np.testing.assert_allclose(run.progress.clamped.total, exact, atol=1e-6)
        assert sum(exact) > 0


def test_rows_are_looked_at_only_near_the_round_that_asks(monkeypatch):
    seen, encode = [], Design.clamps

    def noted_(self, frame, names):
        seen.append(len(frame))
        return encode(self, frame, names)

    monkeypatch.setattr(Design, "clamps", noted_)
    data = rows()
    stream = model(rows=N).start(seed=1)
    for a in range(0, N, 250):
        stream.update(data.iloc[a : a + 250])
    m = people_for(3, math.sqrt(3) / 8)
    # a round that may be left out may make it begin later
    extra = sum(r.people for r in stream._run.plan.rounds if r.optional)
    assert m <= sum(seen) <= m + extra + 500
    seen.clear()
    model(data.head(1_000)).fit(seed=1, progress=False)
    assert not seen


def test_rounds_that_ask_refuse_rows_that_were_not_looked_at():
    plan = asking()
    run = RoundsRun(plan, seeded_key(1))
    x = np.ones((2_032, plan.d))
    with pytest.raises(ValueError, match="come with what bounds clamp"):
        run.advance(x[:, 0], x)


@pytest.mark.parametrize("batch", [{"a": 1.0, "b": 2.0}, None, 7, [1, 2], {"a": [1.0]}])
def test_what_is_no_table_is_refused_by_its_own_error(batch):
    with pytest.raises(pr.errors.PrivregError):
        model(rows=N).start(seed=1).update(batch)


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("chunk", [777, 4_096, N])
def test_neither_chunks_nor_a_stop_change_a_bit(tmp_path, chunk):
    data = rows(missing=0.2)
    stream = model(rows=N).start(seed=1)
    stream.update(data)
    reference = stream._run.progress.clamped.total.tobytes(), stream.results().params.to_numpy().tobytes()
    stream = model(rows=N).start(seed=1)
    at = 0
    while stream._run.progress.state.role != "clamping":
        stream.update(data.iloc[at : at + 100])
        at += 100
    stream.update(data.iloc[at : at + 10])
    at += 10
    again = model(rows=N).start(seed=1)
    for a in range(0, N, chunk):
        again.update(data.iloc[a : a + chunk])
    found = again._run.progress.clamped.total.tobytes(), again.results().params.to_numpy().tobytes()
    assert found == reference
    stream.save(tmp_path / "half")
    ends = []
    for one in (stream, pr.load(tmp_path / "half")):
        one.update(data.iloc[at:])
        ends.append((one._run.progress.clamped.total.tobytes(), one.results().params.to_numpy().tobytes()))
    assert ends[0] == ends[1]


@pytest.mark.thorough
def test_blocks_tell_what_the_rows_hold(tmp_path):
    data = rows(24_000, missing=0.1)
    data.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=1_000)
    spec = model(data.head(9), mu=None)._spec
    (stamp,) = spec.open(tmp_path / "rows.parquet").stamp()
    files = [Span(str(stamp[0]), 0, len(data), tuple(stamp[1:]))]

    def each(function, given):
        return [function(*some) for some in reversed(given)][::-1]

    stream = fit_blocks(spec, FitOptions(order="position"), None, 3, blocks_of(files, spec), each)
    seen = stream._run.progress.clamped
    first = sum(stream._run.progress.held[: seen.number])
    here = data.iloc[first : first + seen.people]
    exact = [beyond(here[here["g"] != "never"], c.name).sum() for c in stream._run.plan.clamps]
    np.testing.assert_allclose(seen.total, exact, atol=1e-6)
    assert sum(exact) > 0


@pytest.mark.thorough
def test_lost_and_late_reports_leave_shares_as_they_are():
    data = rows(40_000)
    res = pr.simulate(model(data, mu=20).plan(), data, dropout=0.3, late=2, seed=1)
    held = res.rounds.set_index("role").loc["clamping"]
    assert held["reports"] < held["records"]
    assert "bounds of b clamp 1" in str(res.privacy) or " of b 1" in str(res.privacy)


def test_an_upper_limit_is_never_below_what_noise_allows():
    """By noise alone a share may come out negative; where nothing is clamped the limit is the quantile of noise."""
    columns = (Bounded("x", "covariate", (1,)),)
    made = [Shares(columns, np.array([share]), np.array([0.1]), 75).most for share in (-0.3, -0.05, 0.0, 0.05)]
    assert made[0] == made[1] == made[2] == pytest.approx(quantile(1) * 0.1)
    assert made[3] == pytest.approx(0.05 + quantile(1) * 0.1)
