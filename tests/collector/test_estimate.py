"""Which rounds an estimate is made of, what stands for records, and what of its covariance is the residual scale's."""

import numpy as np
import pandas as pd

import privreg as pr
from privreg.collector import estimate


def played(tau):
    """A quantile fit of an even covariate."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, 20_000)
    rows = pd.DataFrame({"x": x, "y": x + rng.standard_normal(20_000)})
    bounds = {"x": (-1.0, 1.0), "y": (-5.0, 5.0)}
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x", rows, family=pr.families.Quantile(tau), mu=1, bounds=bounds, rows=len(rows)
    )
    return model.start(seed=1).update(rows)._run


def estimated(tau, *, scale_known):
    """Estimate of a quantile and of a slope, as if the pilot had told the residual scale exactly or as it did."""
    run = played(tau)
    progress = run.so_far()
    cov = np.array(progress.fitted.cov)
    if scale_known:
        cov[-1] = cov[:, -1] = 0.0
    return estimate.estimate(run.plan, progress._replace(fitted=progress.fitted._replace(cov=cov)))


def test_the_scale_s_own_error_is_in_the_covariance_of_an_outer_quantile():
    known, told = (estimated(0.9, scale_known=given) for given in (True, False))
    assert np.array_equal(known.theta, told.theta)
    more = told.cov - known.cov
    assert more[0, 0] > 0.01 * known.cov[0, 0]
    assert np.linalg.matrix_rank(more, tol=1e-9 * np.trace(more)) == 1
    np.testing.assert_allclose(told.unknown - known.unknown, more, atol=1e-12 * np.trace(told.cov))


def test_a_median_has_no_bend_and_asks_for_no_scale():
    known, told = (estimated(0.5, scale_known=given) for given in (True, False))
    assert np.array_equal(known.cov, told.cov)


def test_quantiles_but_the_median_are_estimated_from_main_rounds_alone():
    outer, median = (estimated(tau, scale_known=False).frame for tau in (0.9, 0.5))
    assert len(outer.rounds) == outer.main
    assert len(median.rounds) == median.main + 2


def test_an_even_covariate_s_stand_ins_keep_within_its_bounds():
    run = played(0.5)
    inside = run.progress.points @ np.linalg.inv(run.progress.state.rows).T
    assert 0.95 < np.abs(inside[:, 1]).max() < 1.02  # normal ones would lie as far out as 2
