"""Factors with many levels: one column of numbers stands for all of a factor's, and no bit of a fit changes by it."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.diagonal import WIDE
from privreg.formula.units import Units
from privreg.simulation.staged import kernels, lanes
from privreg.simulation.staged.schedule import ChainSteps
from tests.kinds import KINDS, plan_of, reports_of

STEPS = ChainSteps(first=0.02, scale=7.0, alpha=0.7, gain=0.8, delay=3.0)
COLUMNS = np.array([[0, 0], [1, 5], [6, 0], [7, 3], [10, 0]])
LEVELS = [f"g{k:03d}" for k in range(90)]
OTHERS = [f"h{k:02d}" for k in range(30)]


def dense(x, columns=COLUMNS):
    """The rows that such rows stand for; NaN throughout where a level is none."""
    out = np.zeros((len(x), int(columns[-1].sum() + (columns[-1, 1] == 0))))
    for (j, levels), values in zip(columns, x.T, strict=True):
        if levels:
            known = (values >= 0) & (values < levels)
            out[known, j + values[known].astype(int)] = 1.0
            out[~known & (values != -1)] = np.nan
        else:
            out[:, j] += values
    return out


def numbers(n, rng):
    x = np.column_stack(
        [np.ones(n), rng.integers(-1, 5, n), rng.normal(size=n), rng.integers(-1, 3, n), rng.normal(size=n)]
    ).astype(float)
    x[3] = np.nan
    x[4, 2], x[5, 4], x[6, 2], x[7, 2] = 1e200, 1e-200, np.inf, np.nan
    return x


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize(
    ("kind", "mechanism"),
    [("huber", "gaussian"), ("balanced", "gaussian"), ("huber", "laplace"), ("quantile", "privunit")],
)
def test_kernel_gives_the_bits_of_dense_rows(kind, mechanism, joint):
    rng, n, d = np.random.default_rng(3), 64, 11
    reports = reports_of(KINDS[kind], mechanism, label=False)
    plan = plan_of(KINDS[kind], reports, d, joint=joint)._replace(path=2)
    x, y = numbers(n, rng), rng.choice(KINDS[kind].responses, n)
    y[::9] = math.nan
    rows = np.array([rng.uniform(0.5, 2, d), np.zeros(d)])
    rows[1, [6, 10]] = 0.3, -0.2
    newton, offset = rng.uniform(0.5, 2, (1, d)), rng.normal(size=n)
    noise = rng.standard_normal((n, reports.mechanism.width(reports.size(d, plan.kappa))))
    for weight in (np.empty(0), rng.uniform(0.1, 1, n)):
        states = [lanes.init(np.full(d, 0.1), -0.2, plan, np.ones(d)) for _ in range(2)]
        given = (offset, weight, rows, newton, *STEPS.block(0, n), noise)
        kernels.run_lanes(dense(x), y, *given, 0, 0, 1, plan, states[0])
        for thread in range(2):
            for a, b in pairwise([0, 1, 30, n]):
                first, last = (i // plan.batch // plan.lanes for i in (a, b - 1))
                w = weight[a:b]
                some = (offset[a:b], w, rows, newton, *STEPS.block(first, last - first + 1), noise[a:b])
                kernels.run_lanes(x[a:b], y[a:b], *some, a, thread, 2, plan, states[1], COLUMNS)
        for name, one, two in zip(states[0]._fields, *states, strict=True):
            assert one.tobytes() == two.tobytes(), name
        assert states[0].updates.min() > 0


def test_what_is_no_level_sends_noise_only():
    rng, d = np.random.default_rng(4), 11
    reports = reports_of(KINDS["huber"], "gaussian", label=False)
    plan = plan_of(KINDS["huber"], reports, d, joint=False)
    noise = rng.standard_normal((7, d))
    wrong = [5.0, -2.0, 1e300, -1e300, np.inf, -np.inf, np.nan]
    for bad, own in zip(wrong, noise, strict=True):
        x = np.array([[1.0, bad, 0.5, 1.0, 0.2]])
        state = lanes.init(np.zeros(d), 0.0, plan._replace(batch=2))
        given = (np.ones(1), np.empty(0), np.empty(0), np.array([np.ones(d), np.zeros(d)]), np.ones((1, d)))
        end = (*STEPS.block(0, 1), own[None], 0, 0, 1, plan._replace(batch=2), state)
        kernels.run_lanes(x, *given, *end, COLUMNS)
        np.testing.assert_array_equal(state.batch[0, :d], plan.channel.scale * plan.radius * own)


# --- whole fits ------------------------------------------------------------------------------------------


def people(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    code, other = rng.integers(0, len(LEVELS), n), rng.integers(0, len(OTHERS), n)
    x, z = rng.uniform(-1, 1, n), rng.normal(3, 2, n)
    y = 1 + x + 0.02 * code + 0.1 * rng.standard_normal(n)
    data = pd.DataFrame({"y": y, "x": x, "z": z, "g": np.array(LEVELS)[code], "h": np.array(OTHERS)[other]})
    data["two"] = np.where(rng.random(n) < 0.3, "a", "b")
    data["three"] = rng.choice(["1", "2", "4"], n)
    data["b"] = (y > 2).astype(float)
    data["who"] = rng.integers(0, n // 2, n)
    data["own"] = rng.choice([1.0, 3.0], n)
    data["m"] = np.clip(np.round(y), 1, 3).astype(int).astype(str)
    return data


def model(data, formula="y ~ x + C(g) + C(h)", budget=None, **options):
    how = {"bounds": {"y": (-10, 10), "x": (-1, 1), "z": (-9, 9)}} | (budget or {"mu": 3.0})
    how["levels"] = {"g": LEVELS, "h": OTHERS, "two": ["a", "b"], "m": ["1", "2", "3"]}
    return pr.PrivateOnlineRegression.from_formula(formula, data, **how | options)


def bits(res):
    return res.params.to_numpy().tobytes(), np.asarray(res.bse).tobytes()


FEW = {"g": LEVELS, "h": OTHERS, "two": ["a", "b", "c"], "three": ["1", "2", "3", "4"]}
CASES = {
    "plain": ("y ~ x + C(g) + C(h)", {}, {}),
    "full dummies": ("y ~ C(g) + C(h) - 1", {}, {}),
    "other terms": ("y ~ C(g) + np.cos(z) + two + x:two + C(h)", {}, {}),
    "few levels": ("y ~ C(three) + C(g) + x + C(h) + C(two)", {"levels": FEW}, {}),
    "sum coding stays dense": ("y ~ C(g, Sum) + C(h) + x", {}, {}),
    "random scaling": ("y ~ x + C(g) + C(h)", {}, {"inference": ("random_scaling", "batch_means")}),
    "private scale": ("y ~ x + z + C(g) + C(h)", {"bounds": {}, "scaling": "private"}, {}),
    "binary": ("b ~ x + C(g) + C(h)", {"family": "logistic"}, {}),
    "levels": ("m ~ x + C(g) + C(h)", {"family": "multinomial"}, {}),
    "laplace": ("y ~ x + C(g) + C(h)", {"budget": {"epsilon": 5.0}, "mechanism": "laplace"}, {}),
    "offset": ("y ~ x + C(g) + C(h)", {"offset": "z"}, {}),
    "personal budgets": ("y ~ x + C(g) + C(h)", {"mu": "own", "mu_max": 3.0}, {}),
    "ids": ("y ~ x + C(g) + C(h)", {"id": "who", "max_per_id": 1}, {}),
    "measures": ("y ~ x + C(g) + C(h)", {"rows": 4000}, {"measures": 0.1}),
}


@pytest.mark.parametrize("name", CASES)
def test_fits_have_the_bits_of_dense_ones(name, monkeypatch):
    formula, options, how = CASES[name]
    m = model(people(), formula, **options)
    stream = m.start(seed=2, **how)
    columns = stream._run.start.columns
    assert np.count_nonzero(columns[:, 1]) == formula.count("C(") - formula.count("Sum")
    assert stream._encode(people(50)).exog.shape == (50, len(columns))
    hot = m.fit(seed=2, progress=False, threads=2, **how)
    monkeypatch.setattr(Units, "keeps_levels", lambda self, place: False)
    assert m.start(seed=2, **how)._run.start.columns is None
    plain = m.fit(seed=2, progress=False, threads=1, **how)
    assert bits(hot) == bits(plain)
    pd.testing.assert_frame_equal(hot.fit_measures, plain.fit_measures, check_exact=True)


def test_people_with_gaps_send_noise_only_to_the_same_bits(monkeypatch):
    data = people()
    data.loc[::5, "g"] = None
    data.loc[3::7, "x"] = np.nan
    m = model(data, missing="noise")
    hot = m.fit(seed=1, progress=False)
    monkeypatch.setattr(Units, "keeps_levels", lambda self, place: False)
    assert bits(hot) == bits(m.fit(seed=1, progress=False))


def test_cuts_saving_and_files_change_no_bit(tmp_path):
    data = people()
    whole = model(data).fit(seed=1, progress=False, threads=1)
    stream = model(data, rows=len(data)).start(seed=1)
    for k, (a, b) in enumerate(pairwise([0, 1, 77, 640, 1500, len(data)])):
        stream.update(data.iloc[a:b])
        if k in {1, 3}:
            stream.save(tmp_path / "s")
            stream = pr.load(tmp_path / "s")
    assert bits(stream.results()) == bits(whole)
    data.to_csv(tmp_path / "rows.csv", index=False)
    assert bits(model(tmp_path / "rows.csv").fit(seed=1, progress=False)) == bits(whole)


def test_designs_that_are_not_wide_or_have_few_levels_stay_dense():
    data = people(500)
    assert model(data, "y ~ x + C(g)").start(seed=1)._run.start.columns is None  # p = 91
    assert len(LEVELS) + 1 <= WIDE
    terms = "y ~ " + " + ".join(f"I(x > {k / 60 - 1:.4f})" for k in range(1, WIDE + 2)) + " + two"
    assert model(data, terms).start(seed=1)._run.start.columns is None
