"""Agreement with other software and with published numbers."""

from functools import cache

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import binom

import privreg as pr
from tests.helpers import NAMES, array_model, people

pytestmark = pytest.mark.reference


UNSCALED = {
    "exog_names": NAMES,
    "moments": {n: (0.0, 1.0) for n in (*NAMES[1:], "y")},
    "mu": None,
    "family": pr.Huber(1.345, 0.4),
}
"""Without noise, and with internal units that are the user's."""


@cache
def heavy_tailed():
    x, y = people(300_000, 11)
    y = y + np.random.default_rng(5).standard_t(3, len(y)) * 0.2
    return x, y, sm.RLM(y, x, M=sm.robust.norms.HuberT(1.345)).fit()


def agreement(stream, x, score, curvature, other):
    """Differences of a fit from another estimator over their sd, and reported over asymptotic errors.

    `score` and `curvature` are ψ/‖z‖ and ψ'/‖z‖ but for the length, at the other estimator's coefficients; `other` is
    its influence on each coefficient, a row a person. Only the people who came last sent scores.
    """
    res, n = stream.results(), len(x)
    short = 1 / np.linalg.norm(x[:, stream._encoder.order] @ stream._run.progress.state.rows.T, axis=1)
    information = (x * (short * curvature)[:, None]).T @ x / n
    own = (x * (short * score)[:, None]) @ np.linalg.inv(information)
    own[: n - res._fit.senders] = 0.0
    own /= res._fit.senders
    gap_sd, error = np.sqrt(((own - other / n) ** 2).sum(axis=0)), np.sqrt((own**2).sum(axis=0))
    of_all = error * np.sqrt(res._fit.senders / n)  # had nobody told scales instead of a score
    return res.params.to_numpy(), gap_sd, res.bse.to_numpy() / error, of_all


def check_agreement(gap, gap_sd, ratio, error, other_error):
    # four coefficients, 1e-4 each, and as much variance again for what is of second order
    assert np.abs(gap / gap_sd).max() < 3.9 * np.sqrt(2)
    assert ((ratio > 0.8) & (ratio < 1.25)).all()  # without noise the curvature is learned to some 10%
    assert (error < 1.06 * other_error).all()  # little is lost by the bounded length of scores


@pytest.mark.thorough
def test_efficient_fit_without_privacy_agrees_with_rlm():
    x, y, rlm = heavy_tailed()
    n, c = len(x), 1.345 * 0.4
    stream = pr.PrivateOnlineRegression(y, x, rows=n, **UNSCALED).start().update((y, x))
    r, c = y - x @ rlm.params, 1.345 * rlm.scale
    theirs = (x * np.clip(r, -c, c)[:, None]) @ np.linalg.inv((x[np.abs(r) <= c].T / n) @ x[np.abs(r) <= c])
    params, *found = agreement(stream, x, np.clip(r, -c, c), np.abs(r) <= c, theirs)
    check_agreement(params - rlm.params, *found, rlm.bse)


@pytest.mark.thorough
def test_efficient_fit_without_privacy_agrees_with_logit():
    n = 200_000
    x, y = people(n, 12, binary=True)
    logit = sm.Logit(y, x).fit(disp=0)
    stream = array_model(n, 12, binary=True, mu=None, rows=n).start().update((y, x))
    p = logit.predict(x)
    likelier = np.maximum(p, 1 - p)
    theirs = (x * (y - p)[:, None]) @ np.linalg.inv((x * (p * (1 - p))[:, None]).T @ x / n)
    params, *found = agreement(stream, x, (y - p) / likelier, np.minimum(p, 1 - p), theirs)
    check_agreement(params - logit.params, *found, logit.bse)


@pytest.mark.thorough
def test_published_tuning_without_privacy_agrees_with_rlm():
    x, y, other = heavy_tailed()
    res = pr.PrivateOnlineRegression(y, x, **UNSCALED).fit(tuning="published", inference="plug_in")
    z = (res.params.to_numpy() - other.params) / np.hypot(res.bse, other.bse)
    assert np.abs(z).max() < 3.9  # four coefficients, 1e-4 each
    assert res.bse.max() < 1.3 * other.bse.max()


@pytest.mark.thorough
def test_published_tuning_without_privacy_agrees_with_logit():
    x, y = people(300_000, 12, binary=True)
    other = sm.Logit(y, x).fit(disp=0)
    res = array_model(300_000, 12, binary=True, mu=None).fit(tuning="published", inference="plug_in")
    z = (res.params.to_numpy() - other.params) / np.hypot(res.bse, other.bse)
    assert np.abs(z).max() < 3.9
    assert res.bse.max() < 1.5 * other.bse.max()


RANDHIE = "lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp"


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("response", "family", "people"),
    [("mdvis", pr.Huber(0.5, scale=4.0), 1_000_000), ("I(mdvis > 0)", pr.Logistic(), 600_000)],
)
def test_rand_health_insurance_experiment(response, family, people, usual_rounds):
    """20,190 records are too few for ten correlated covariates under μ = 1, and the fit says so; more are not."""
    data, schema = pr.datasets.randhie(), pr.datasets.randhie_schema()
    formula = f"{response} ~ {RANDHIE}"
    options = {"family": family, **schema}
    few = pr.PrivateOnlineRegression.from_formula(formula, data, mu=1, **options).fit(seed=4)
    assert few.nobs == len(data) == 20_190
    assert any("20,190 records are few for 10 coefficients" in note for note in few.privacy.notes)
    many = data.sample(people, replace=True, random_state=1)
    private = pr.PrivateOnlineRegression.from_formula(formula, many, mu=1, **options).fit(seed=4)
    assert not any("records are few" in note for note in private.privacy.notes)
    free = pr.PrivateOnlineRegression.from_formula(formula, many, mu=None, **options).fit()
    limits = private.conf_int()
    inside = (limits[0] <= free.params) & (free.params <= limits[1])
    # each misses with probability near 5%: more than 4 of 10 would happen once in ten thousand fits
    assert (~inside).sum() <= binom.ppf(0.9999, 10, 0.05)
    wider = (limits[1] - limits[0]) / (free.conf_int()[1] - free.conf_int()[0])
    assert wider.median() > 3  # privacy has a price, and the intervals admit it
