"""Federated fits in one process: what is computed, what it costs, what leaves a silo, and what bad input says."""

import contextlib
import copy
import json
import math
import pickle
import threading

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import privreg as pr
from benchmarks.federated import predicted_error
from privreg import Budget
from privreg.audit.neighbours import audit
from privreg.errors import (
    BudgetError,
    DataError,
    OptionError,
    PrivacyLeakError,
    PrivregError,
    SchemaError,
    StreamError,
    UnsupportedArgumentError,
)
from privreg.federated import ClientStatement, FederatedRegression, update_mechanism
from privreg.privacy.ledger import LEDGER, UNSET
from privreg.published.federated import plan as plans
from privreg.published.federated.client import Client, clipped, local_update, read_silo
from tests.helpers import unmarked
from tests.leaks import hits, numbers, texts

BOUNDS = {"a": (-1, 1), "b": (0, 4)}


def frames(k=30, n=20, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(k):
        a, b = rng.uniform(-1, 1, n), rng.uniform(0, 4, n)
        eta = 0.3 + 1.5 * a - 0.4 * (b - 2)
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(int)
        z = eta + 0.2 * rng.standard_normal(n)
        kind = np.array(["u", "v", "w"])[np.minimum((rng.uniform(size=n) * 3 + a).clip(0, 2.9).astype(int), 2)]
        out.append(pd.DataFrame({"a": a, "b": b, "y": y, "z": z, "kind": kind, "unused": rng.normal(size=n)}))
    return out


def model(silos=None, formula="y ~ a + b", **options):
    silos = frames() if silos is None else silos
    return FederatedRegression.from_formula(formula, silos, **{"mu": 4, "bounds": BOUNDS, **options})


FAMILIES = {
    "logistic": {},
    "multinomial": {"formula": "kind ~ a", "family": "multinomial", "levels": {"kind": ["u", "v", "w"]}},
    "huber": {"formula": "z ~ a + b", "family": pr.Huber(scale=0.2), "bounds": {**BOUNDS, "z": (-4, 4)}},
    "squared": {"formula": "z ~ a + b", "family": "squared", "bounds": {**BOUNDS, "z": (-4, 4)}},
}

# --- what is computed ------------------------------------------------------------------------------------


def test_fit_without_noise_is_federated_averaging():
    """Against a plain loop on hand-scaled covariates, in the user's units."""
    silos = frames(6)
    res = model(silos, mu=None, rounds=7, local_steps=3, step=0.4, clip=0.5).fit(progress=False)
    theta, path = np.zeros(3), []
    for _ in range(7):
        moves = []
        for s in silos:
            x = np.column_stack([np.ones(len(s)), s["a"], (s["b"] - 2) / 2])
            local = theta.copy()
            for _ in range(3):
                local = local - 0.4 * x.T @ (1 / (1 + np.exp(-x @ local)) - s["y"]) / len(s)
            move = local - theta
            moves.append(move * min(1.0, 0.5 / np.linalg.norm(move)))
        theta = theta + np.mean(moves, axis=0)
        path.append(theta)

    def outside(t):
        return np.array([t[0] - t[2], t[1], t[2] / 2])

    np.testing.assert_allclose(res.params_last, outside(theta), rtol=1e-10)
    np.testing.assert_allclose(res.params, outside(np.mean(path[3:], axis=0)), rtol=1e-10)
    assert len(res.trajectory()) == 8 * 3


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_finds_its_coefficients_without_noise(name):
    options = {"mu": None, "rounds": 400, "local_steps": 2, "clip": 1.0, **FAMILIES[name]}
    silos = frames(5, 400)
    res = model(silos, **options).fit(progress=False)
    together = pd.concat(silos)
    if name == "logistic":
        from statsmodels.formula.api import logit

        want = logit("y ~ a + b", together).fit(disp=0).params
    elif name == "multinomial":
        from statsmodels.api import MNLogit, add_constant

        want = MNLogit(pd.Categorical(together["kind"]).codes, add_constant(together[["a"]])).fit(disp=0).params
    else:
        from statsmodels.formula.api import ols

        want = ols("z ~ a + b", together).fit().params
    # equal weights of equal silos; local steps move the limit a little
    np.testing.assert_allclose(res.params_last.to_numpy(), want.to_numpy(), atol=0.03)


def test_clip_bounds_every_update_whatever_the_records():
    silos = [pd.DataFrame({"a": [1e300, -1e300, np.nan][:2], "y": [0, 1]}), *frames(3)]
    plan = FederatedRegression.from_formula("y ~ a", silos, moments={"a": (0, 1e-3)}, mu=1, clip=0.3).plan
    rng = np.random.default_rng(1)
    for size in (1e-3, 1.0, 1e5, 1e200):
        x = np.column_stack([np.ones(4), size * rng.standard_normal(4)])
        for theta in (np.zeros(2), np.array([1e3, -1e8])):
            update = clipped(local_update(plan, theta, x, np.array([0.0, 1.0, 1.0, 0.0])), 0.3)
            assert np.isfinite(update).all()
            assert np.linalg.norm(update) <= 0.3 * (1 + 1e-12)
    for bad in (np.inf, np.nan):
        update = local_update(plan, np.zeros(2), np.full((3, 2), bad), np.zeros(3))
        np.testing.assert_array_equal(update, np.zeros(2))
    assert clipped(np.array([1e200, 1e200]), 1.0).tolist() == pytest.approx([0, 0], abs=1)


def test_a_silo_without_records_sends_noise_alone():
    silos = frames(4)
    silos[2] = silos[2].iloc[:0]
    m = model(silos)
    client = Client(m.plan, *read_silo(m.plan, m._sources[2], 3))
    np.testing.assert_array_equal(client.update(np.ones(3)), np.zeros(3))
    assert np.abs(client.report(np.ones(3))).min() > 0
    assert np.isfinite(m.fit(progress=False).params).all()


def test_batches_go_round_in_order():
    silos = frames(2, 5)
    m = model(silos, mu=None, rounds=1, local_steps=4, batch_size=2, step=0.3, clip=5.0)
    x, y = read_silo(m.plan, m._sources[0], 1)
    local = np.zeros(3)
    for rows in ([0, 1], [2, 3], [4, 0], [1, 2]):
        local = local - 0.3 * x[rows].T @ (1 / (1 + np.exp(-x[rows] @ local)) - y[rows]) / 2
    np.testing.assert_allclose(local_update(m.plan, np.zeros(3), x, y), local, rtol=1e-12)


def test_weights_are_shares_of_reports():
    m = model(frames(3), weights=[1, 2, 5], rounds=1)
    reports = np.eye(3, 4)
    state = plans.step(m.plan, plans.begin(m.plan), list(reports))
    np.testing.assert_allclose(state.theta, [0.125, 0.25, 0.625])


@pytest.mark.thorough
def test_mappings_of_arrays_are_silos():
    silos = frames(8)
    of_arrays = model([{c: s[c].to_numpy() for c in ("a", "b", "y")} for s in silos])
    a, b = (m.fit(seed=3, progress=False).params.to_numpy() for m in (of_arrays, model(silos)))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_arrays_alone_are_told_the_formula():
    with pytest.raises(UnsupportedArgumentError, match="from_formula"):
        FederatedRegression([np.zeros(3)], [np.ones((3, 1))], mu=1)


@pytest.mark.thorough
def test_paths_are_silos(tmp_path):
    silos = frames(4)
    paths = [tmp_path / f"{i}.csv" for i in range(4)]
    for s, path in zip(silos, paths, strict=True):
        s.to_csv(path, index=False)
    a, b = (model(s).fit(seed=1, progress=False).params for s in (paths, silos))
    np.testing.assert_allclose(a, b, rtol=1e-9)


# --- what it costs ---------------------------------------------------------------------------------------


@pytest.mark.some(3)
@pytest.mark.parametrize("mechanism", ["gaussian", "privunit", "laplace", "piecewise", "geodp", "ldpvec"])
def test_rounds_compose_to_the_budget(mechanism):
    m = model(mu=3, rounds=9, mechanism=mechanism, debias=False)
    assert m.plan.mechanism.mu == pytest.approx(1.0)
    assert m.plan.total_mu == pytest.approx(3.0)


def test_pure_epsilon_adds_up():
    m = model(mu=UNSET, epsilon=6, rounds=12, mechanism="privunit")
    assert m.plan.mechanism.budget.epsilon == pytest.approx(0.5)
    text = m.fit(progress=False).privacy.as_text()
    assert "6-DP, pure per silo in all" in " ".join(text.split())
    assert "epsilon adds up over 12 rounds" in " ".join(text.split())


@pytest.mark.parametrize(
    ("budget", "one"),
    [
        ({"rho": 2.0}, Budget.declare(rho=0.5).mu),
        ({"epsilon": 2.0, "delta": 1e-5}, Budget.declare(epsilon=2, delta=1e-5).mu / 2),
    ],
)
def test_other_forms_of_budget(budget, one):
    m = model(mu=UNSET, rounds=4, mechanism="gaussian", **budget)
    assert m.plan.mechanism.budget.mu == pytest.approx(one)


def test_every_report_has_the_noise_of_its_round():
    """Reports minus updates are normal with sd 2·clip·√rounds/μ, and independent of the update.

    Beside an update goes the share of usable records, times κ; the clip of both together is √(clip² + κ²/4).
    """
    m = model(frames(2), mu=2, rounds=400, clip=0.1)
    x, y = read_silo(m.plan, m._sources[0], 1)
    client = Client(m.plan, x, y, seed=5)
    theta = np.zeros(3)
    beside = [0.5 * 0.05]  # all can be used
    noise = np.array([client.report(theta) - np.append(client.update(theta), beside) for _ in range(400)]).ravel()
    sd = 2 * math.hypot(0.1, 0.5 * 0.05) * math.sqrt(400) / 2
    assert abs(noise.mean()) < 6 * sd / math.sqrt(1600)
    assert abs(noise.std() / sd - 1) < 6 / math.sqrt(2 * 1600)
    assert np.abs(noise).max() < sd * norm.isf(1e-9)


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("mechanism", ["gaussian", "privunit"])
def test_whole_silos_replaced_are_told_apart_no_better_than_claimed(mechanism):
    """Real silos: records, five local steps, clip, noise. An audit finds at most μ a round, and not far from it."""
    n = 1500
    x, y = np.ones(30), np.ones(30, dtype=int)
    silos = [pd.DataFrame({"a": x, "y": y}), pd.DataFrame({"a": x, "y": 0 * y})]
    m = model(
        silos, "y ~ a", mu=1.5 * math.sqrt(n), rounds=n, local_steps=5,
        step=3.0, clip=0.2, mechanism=mechanism,
    )  # fmt: skip
    reports = []
    for i in (0, 1):
        client = Client(m.plan, *read_silo(m.plan, m._sources[i], i + 1))
        assert np.linalg.norm(client.update(np.zeros(2))) == pytest.approx(0.2)
        noise = np.random.default_rng(i).standard_normal((n, m.plan.mechanism.width))
        reports.append(np.array([client.report(np.zeros(2), z) for z in noise]))
    found = audit(*reports)
    assert m.plan.mechanism.mu == pytest.approx(1.5)
    assert 0.3 < found.lower <= 1.5


def test_ledger_counts_every_silo_once_and_can_refuse():
    silos = frames(3)
    res = model(silos, mu=2).fit(progress=False)
    assert res.privacy.release.number == 1
    assert LEDGER.spent(silos[1]) == pytest.approx(2.0)
    again = model(silos[:2], mu=2).fit(progress=False)
    assert "release 2 from one of these silos in this process: at most 2.829-GDP in all" in " ".join(
        str(again.privacy).split()
    )
    assert again.privacy.guarantee.startswith(
        "at most 2.829-GDP per silo in all 2 releases from these silos so far, hence ("
    )
    assert "; this fit alone: 2-GDP per silo in all, hence (" in again.privacy.guarantee
    assert "of all 2 releases, knows all other silos" in again.privacy.in_words
    assert "92.2% of the time (84.2% after this one alone)" in again.privacy.in_words  # Φ(√2), Φ(1)
    assert "4-GDP for two" in again.privacy.person
    assert "2.829-GDP per silo in all 2 releases" in unmarked(again.summary().as_html())
    assert "in all 2 releases" not in str(res.privacy)
    often, dear = frames(1, seed=5)[0], frames(1, seed=6)[0]
    model([often, *frames(1, seed=7)], mu=0.5).fit(progress=False)
    model([dear, *frames(1, seed=8)], mu=4).fit(progress=False)
    for _ in range(2):
        model([often, *frames(1, seed=9)], mu=0.5).fit(progress=False)
    both = model([often, dear], mu=1).fit(progress=False).privacy  # the silo that has lost most, not the one asked most
    assert both.guarantee.startswith("at most 4.124-GDP per silo in all 2 releases")
    pr.limit_spending(2.5)
    try:
        fresh = frames(2, seed=9)
        with pytest.raises(BudgetError, match="would cost"):
            model([*fresh, silos[2]], mu=2).fit(progress=False)
        assert LEDGER.spent(fresh[0]) == 0.0  # nothing was entered for the others
    finally:
        pr.limit_spending(None)


def test_a_silo_answers_no_more_rounds_than_its_plan():
    m = model(frames(2), rounds=2)
    client = Client(m.plan, *read_silo(m.plan, m._sources[0], 1))
    for _ in range(2):
        client.report(np.zeros(3))
    with pytest.raises(StreamError, match="has sent its 2 reports"):
        client.report(np.zeros(3))
    for theta in (np.zeros(2), np.full(3, np.nan)):
        with pytest.raises(OptionError, match="must be 3 finite numbers"):
            Client(m.plan, *read_silo(m.plan, m._sources[0], 1)).report(theta)


def test_threads_that_ask_at_once_get_no_more_reports_than_the_plan_has():
    m = model(frames(2), rounds=1)
    client, both, got = Client(m.plan, *read_silo(m.plan, m._sources[0], 1)), threading.Barrier(2, timeout=0.5), []

    class Slow:
        """The plan, whose number of rounds is read by two threads together, if they come together."""

        def __getattr__(self, name):
            if name == "rounds":
                with contextlib.suppress(threading.BrokenBarrierError):
                    both.wait()
            return getattr(m.plan, name)

    def ask():
        with contextlib.suppress(StreamError):
            got.append(client.report(np.zeros(3)))

    client._plan = Slow()
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


@pytest.mark.thorough
def test_verify_audits_all_rounds_of_the_fit_together():
    res = model(rounds=4).fit(progress=False)
    verdict, whole = res.privacy.verify(n=20_000), res.privacy.budget.mu
    assert verdict.passed
    assert 0.85 * whole < verdict.lower <= verdict.claimed == pytest.approx(whole)


@pytest.mark.thorough
def test_a_statement_of_silos_is_kept_in_files_and_shuffles_nothing(tmp_path):
    told = model(rounds=4).fit(progress=False).privacy
    told.save(tmp_path / "told.json")
    again = ClientStatement.from_json(json.loads((tmp_path / "told.json").read_text()))
    assert again == told
    assert again.as_text() == told.as_text()
    with pytest.raises(BudgetError, match="fit again"):
        again.verify()
    with pytest.raises(BudgetError, match="reports in every round"):
        told.shuffled(1000)


# --- noise -----------------------------------------------------------------------------------------------


def test_noise_is_new_unless_seeded_and_a_seed_is_flagged():
    m = model()
    a, b = (m.fit(progress=False) for _ in range(2))
    assert not np.allclose(a.params, b.params)
    assert a.privacy.loud is None
    c, d = (m.fit(seed=4, progress=False) for _ in range(2))
    np.testing.assert_array_equal(c.params, d.params)
    assert "NOT PRIVATE AS RUN: seed=" in c.summary().as_text()
    assert "(seeded)" in repr(c)
    assert "NONE as run" in c.privacy.guarantee
    none = model(mu=None).fit(progress=False)
    assert "NOT PRIVATE: mu=None" in str(none.summary())


# --- what leaves a silo ----------------------------------------------------------------------------------


def statistics(silos):
    out = []
    for s in [*silos, pd.concat(silos)]:
        for c in ("a", "b", "z", "unused"):
            v = s[c].to_numpy()
            out += [v, [v.mean(), v.sum(), v.std(), v.std(ddof=1), v.min(), v.max(), np.median(v)]]
        x = np.column_stack([np.ones(len(s)), s["a"], (s["b"] - 2) / 2])
        out += [x.T @ x / len(s), x.T @ s["y"] / len(s), x.T @ (0.5 - s["y"]) / len(s), [s["y"].mean()]]
    return np.unique(np.concatenate([np.ravel(v).astype(float) for v in out]))


def shown(res):
    return [res, repr(res), res.summary().as_text(), res.summary().as_html(), res.summary().as_latex(), res.tidy(),
            res.trajectory(), str(res.privacy)]  # fmt: skip


def test_results_hold_nothing_of_the_records():
    silos, others = frames(4, 17, seed=1), frames(4, 23, seed=2)
    res, twin = (model(s).fit(seed=1, progress=False) for s in (silos, others))
    found = numbers(shown(res)) - numbers(shown(twin))
    assert not hits(found, statistics(silos))
    assert 17.0 not in found
    assert 68.0 not in found
    assert not any("17" in t for t in texts(shown(res)[1:5]) - texts(shown(twin)[1:5]) if "records" in t)


def test_the_search_finds_a_leak():
    silos = frames(4, 17, seed=1)
    res, twin = (model(s).fit(seed=1, progress=False) for s in (silos, frames(4, 23, seed=2)))
    res._planted = float(silos[0]["a"].mean())
    assert hits(numbers(res) - numbers(twin), statistics(silos))


def test_the_server_receives_reports_alone(monkeypatch):
    """What it is handed is the clipped updates plus noise: equal to a replay with the same noise, and nothing else."""
    m = model(frames(3), rounds=2)
    seen = []
    real = plans.step

    def spy(plan, state, reports):
        seen.append((plan, copy.deepcopy(reports)))
        return real(plan, state, reports)

    monkeypatch.setattr("privreg.published.federated.model.step", spy)
    m.fit(progress=False)
    assert [p is m.plan for p, _ in seen] == [True, True]
    for _, reports in seen:
        assert [type(r) for r in reports] == [np.ndarray] * 3
        assert [r.shape for r in reports] == [(4,)] * 3
    clients = [Client(m.plan, *read_silo(m.plan, s, 1)) for s in m._sources]
    for client, report in zip(clients, seen[0][1], strict=True):
        noise = report - np.append(client.update(np.zeros(3)), 0.5 * m.plan.kappa)
        assert np.abs(noise).min() > 1e-9  # every number carries noise


def test_models_and_silos_are_not_pickled_with_records():
    m = model()
    again = pickle.loads(pickle.dumps(m))
    with pytest.raises(DataError, match="has no silos' data"):
        again.fit()
    assert b"unused" not in pickle.dumps(m)
    with pytest.raises(TypeError, match="holds raw records"):
        pickle.dumps(Client(m.plan, *read_silo(m.plan, m._sources[0], 1)))
    res = m.fit(progress=False)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(res)).params, res.params)


SECRET = 31.41592


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda s: s.assign(a=[SECRET, np.nan] * 10), "column 'a' has a value that is missing, infinite or no number"),
        (lambda s: s.assign(a=[f"about {SECRET}", 0] * 10), "column 'a' has a value that is missing, infinite"),
        (lambda s: s.assign(y=[SECRET, 0] * 10), "the response 'y' has a value other than 0 and 1"),
    ],
)
def test_records_that_cant_be_used_are_left_out_or_refused_without_value_and_silo(spoil, words):
    silos = frames(4)
    silos[2] = spoil(silos[2])
    with pytest.raises(PrivregError) as caught:
        model(silos, missing="raise").fit(progress=False)
    said = str(caught.value)
    assert said.startswith(words)
    assert "31.4" not in said
    assert "silo" not in said
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    left_out = (
        silos[2].iloc[1::2] if "other than 0 and 1" in words or silos[2]["a"].dtype == object else silos[2].iloc[::2]
    )
    fits = [model(silos, mu=None, **how).fit(progress=False) for how in ({}, {"missing": "drop"})]
    silos[2] = left_out.astype({"a": float})
    want = model(silos, mu=None, missing="raise").fit(progress=False)
    for res in fits:
        np.testing.assert_allclose(res.params, want.params, rtol=1e-12)


def test_a_silo_without_a_column_is_named():
    silos = frames(4)
    silos[2] = silos[2].drop(columns="b")
    with pytest.raises(DataError, match=r"^silo 3: column 'b' is missing"):
        model(silos).fit(progress=False)


def test_a_silo_without_a_record_that_can_be_used_fails_nothing():
    silos = frames(4)
    silos[1] = silos[1].assign(a="none")
    res = model(silos, mu=None).fit(progress=False)
    silos[1] = silos[1].iloc[:0].astype({"a": float})
    np.testing.assert_array_equal(res.params, model(silos, mu=None).fit(progress=False).params)


# --- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"mechanism": "gauss"}, OptionError, "mechanism='gauss' is not known"),
        ({"rounds": 0}, OptionError, "rounds=0 must be a whole number"),
        ({"rounds": 2.5}, OptionError, "rounds=2.5 must be a whole number"),
        ({"local_steps": -1}, OptionError, "local_steps=-1"),
        ({"clip": 0}, OptionError, "clip=0 must be a positive number"),
        ({"clip": math.inf}, OptionError, "clip=inf must be a positive number"),
        ({"step": "fast"}, OptionError, "step='fast' must be a positive number"),
        ({"batch_size": 0}, OptionError, "batch_size=0"),
        ({"weights": [1, 2]}, OptionError, "a list of 30 positive finite numbers"),
        ({"weights": [1.0] * 29 + [-1]}, OptionError, "a list of 30 positive finite numbers"),
        ({"weights": "counts"}, OptionError, "weights='counts' must be a list"),
        (
            {"family": pr.Quantile(0.5), "bounds": {**BOUNDS, "y": (0, 1)}},
            OptionError,
            "federated fits take the families",
        ),
        ({"missing": "nois"}, OptionError, "missing='nois' is not known"),
        ({"mu": "column"}, BudgetError, "mu must be a number here"),
        ({"epsilon": 1}, BudgetError, "exactly one privacy budget"),
        ({"bounds": {"a": (-1, 1)}}, SchemaError, "'b'"),
        ({"formula": "y ~ center(a)"}, PrivacyLeakError, "center"),
        ({"epochs": 3}, TypeError, "epochs"),
        ({"silos": frames(1)}, OptionError, "silos must be 2 or more, got 1"),
        ({"silos": frames(1)[0]}, OptionError, "silos must be a list with one entry a silo, got DataFrame"),
        ({"silos": [frames(1)[0]] * 2}, DataError, "silos 1 and 2 have rows in common"),
        ({"silos": [*frames(2), 3]}, TypeError, "silo 3: data of type int can't be read"),
        ({"mechanism": "geodp", "mu": 0.1}, OptionError, "can't be undone; give debias=False"),
    ],
)
def test_bad_input(options, error, words):
    silos = options.pop("silos", None) if "silos" in options else None
    with pytest.raises(error, match=words):
        model(silos, **options)


def test_server_refuses_what_is_no_report():
    m = model(frames(3), rounds=1)
    state = plans.begin(m.plan)
    with pytest.raises(StreamError, match="2 of 3 silos reported"):
        plans.step(m.plan, state, [np.zeros(4)] * 2)
    with pytest.raises(DataError, match="report of silo 2 is not 4 finite numbers"):
        plans.step(m.plan, state, [np.zeros(4), np.full(4, np.nan), np.zeros(4)])
    done = plans.step(m.plan, state, [np.zeros(4)] * 3)
    with pytest.raises(StreamError, match="all 1 rounds are done"):
        plans.step(m.plan, done, [np.zeros(4)] * 3)


# --- results ---------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("name", FAMILIES)
def test_results_read_as_the_cores_do(name):
    res = model(**FAMILIES[name]).fit(seed=1, progress=False)
    text = res.summary(details=True).as_text()
    assert max(map(len, text.splitlines())) <= 80
    for words in ("Protects:", "client level", "Rounds:"):
        assert words in text
    for words in ("Per round:", "Protects:", "client level", "One person is:"):
        assert words in str(res.privacy)
    html, latex = res.summary().as_html(), res._repr_html_()
    assert html == latex
    assert "<table" in html
    assert r"\toprule" in res.summary(details=True).as_latex()
    new = frames(1)[0]
    kind = "class" if name in {"logistic", "multinomial"} else "mean"
    assert len(res.predict(new, which=kind)) == len(new)
    if name == "multinomial":
        assert res.params.shape == (2, 2)
        np.testing.assert_allclose(res.predict(new).sum(axis=1), 1.0)
    else:
        eta = np.column_stack([np.ones(len(new)), new["a"], new["b"]]) @ res.params.to_numpy()
        np.testing.assert_allclose(res.predict(new, which="linear"), eta)
    with pytest.raises(AttributeError, match="is not private"):
        _ = res.resid
    with pytest.raises(AttributeError, match="federated fits don't have"):
        _ = res.bse


@pytest.mark.thorough
def test_a_model_that_is_still_moving_is_told():
    far = model(mu=None, rounds=10, clip=0.05, step=1.0).fit(progress=False)
    there = model(mu=None, rounds=200, clip=0.5, step=1.0).fit(progress=False)
    noisy = model(mu=0.05, rounds=10).fit(progress=False)
    told = ["had not converged" in " ".join(r.summary().as_text().split()) for r in (far, there)]
    assert told == [True, False]
    assert "clip" in far.privacy.doubts[0]
    assert np.isfinite(noisy.params).all()


def test_model_describes_itself_without_data():
    m = model(30)
    assert "30 silos, 20 rounds, 4-GDP per silo" in repr(m)
    assert m.plan.fingerprint == model(frames()).plan.fingerprint
    assert m.plan.fingerprint != model(30, mu=3).plan.fingerprint
    with pytest.raises(DataError, match="no silos' data"):
        m.fit()


@pytest.mark.thorough
def test_fit_leaves_the_model_as_it_was():
    m = model()
    before = pickle.dumps(m)
    m.fit(progress=False)
    assert pickle.dumps(m) == before


# --- convergence -----------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_predicted_error_is_what_simulation_gives():
    """Least squares with one Hessian in all silos: within 6 standard errors of 100 fits, last and averaged model."""
    x = np.column_stack([np.ones(4), [-1.0, 1.0, -1.0, 1.0], [-1.0, -1.0, 1.0, 1.0]])
    truth, silos = np.array([0.1, -0.2, 0.15]), 10
    rows = {"a": x[:, 1], "b": x[:, 2], "y": x @ truth}
    m = FederatedRegression.from_formula(
        "y ~ a + b", [{c: v.copy() for c, v in rows.items()} for _ in range(silos)], mu=40, family="squared",
        bounds={"a": (-1, 1), "b": (-1, 1), "y": (-1, 1)}, rounds=6, local_steps=2, step=0.2, clip=1.0,
        weights=[1.0] * 5 + [2.0] * 5, mechanism="gaussian",
    )  # fmt: skip
    said = predicted_error(
        m.plan.mechanism, rounds=6, coefficients=3, weights=m.plan.shares, curvature=1.0, step=0.2, local_steps=2,
        start=truth,
    )  # fmt: skip
    errors = []
    for seed in range(100):
        res = m.fit(seed=seed, progress=False)
        errors.append([np.sum((p.to_numpy() - truth) ** 2) for p in (res.params_last, res.params)])
    mean, se = np.mean(errors, axis=0), np.std(errors, axis=0) / math.sqrt(100)
    assert np.all(np.abs(mean - [said.table["mse"].iloc[-1], said.averaged]) < 6 * se)
    assert np.all(said.table["mse"] == said.table["squared_bias"] + said.table["variance"])


def test_noise_of_a_round_follows_silos_and_weights():
    m = update_mechanism("gaussian", Budget.declare(mu=1), 3, 1.0)
    assert predicted_error(m, rounds=1, silos=10).noise == pytest.approx(3 * 4 / 10)
    assert predicted_error(m, rounds=1, weights=[1, 1, 2]).noise == pytest.approx(12 * 6 / 16)
    for bad in ({}, {"silos": 3, "weights": [1, 2]}):
        with pytest.raises(OptionError, match="give either silos="):
            predicted_error(m, rounds=1, **bad)
    biased = update_mechanism("ldpvec", Budget.declare(mu=1), 3, 1.0, debias=False)
    with pytest.raises(OptionError, match="is biased"):
        predicted_error(biased, rounds=1, silos=3)
