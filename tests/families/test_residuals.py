"""Families of residuals: fits with a declared residual scale, beside those that learn it."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr

N, SD = 100_000, 0.5
PUBLIC = {"bounds": {"x": (-4, 4), "y": (-6, 8)}, "mu": 1}


def people():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(N)
    return pd.DataFrame({"x": x, "y": 1.0 + 0.5 * x + SD * rng.standard_normal(N)})


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", ["local", "two_collectors", "central"])
@pytest.mark.parametrize(
    "family", [lambda s: pr.Huber(scale=s), lambda s: pr.Expectile(0.8, scale=s), lambda s: pr.Expectile(0.3, scale=s)]
)
def test_a_declared_scale_that_is_right_gives_what_a_learned_one_does(family, trust):
    """Of states' groups offsets are in thresholds, whether these were learned or declared."""
    fits = [
        pr.PrivateOnlineRegression.from_formula("y ~ x", people(), family=family(s), trust=trust, **PUBLIC).fit(
            seed=2, progress=False
        )
        for s in (SD, "auto")
    ]
    declared, learned = ((res.params.to_numpy(), res.bse.to_numpy()) for res in fits)
    # the noise is nearly the same: a scale that is learned is 5% off, which moves an expectile's target by 0.01
    assert np.abs(declared[0] - learned[0]).max() < 0.02 + 2.0 * learned[1].max()
    assert np.abs(np.log2(declared[1] / learned[1])).max() < 1.0  # a local fit's own standard errors vary
