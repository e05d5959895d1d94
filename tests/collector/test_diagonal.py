"""Designs of many columns, of which no correlations are learned."""

import numpy as np
import pytest

from privreg.collector.covariates import diagonal

K, PEOPLE, SD = 30, 4000, 0.8


def learned(mean, seed):
    """Row map of columns within ±2 that have this mean and sd 0.5, by noisy reports; and what their means are off."""
    rng = np.random.default_rng(seed)
    v = mean + 0.5 * rng.standard_normal((PEOPLE, K))
    probe = np.array([np.full(K + 1, -2.0), np.full(K + 1, 2.0)])
    probe[:, 0] = 1.0
    wide = diagonal.public(probe, np.zeros(K + 1), (), constant=True)
    rows = diagonal.start(wide, np.array([np.ones(K + 1), np.zeros(K + 1)]))
    total = diagonal.numbers(wide, v).sum(axis=0) + np.sqrt(PEOPLE) * SD * rng.standard_normal(2 * K)
    rows = diagonal.learn(wide, rows, total, PEOPLE, SD, constant=True)
    return wide, rows, rows[0, 1:] * mean + rows[1, 1:]


@pytest.mark.some(1)
@pytest.mark.parametrize("mean", [0.5, -0.6])
def test_errors_of_means_are_as_large_together_as_is_said(mean):
    said, found = [], []
    for seed in range(100):
        wide, rows, off = learned(mean, seed)
        said.append(diagonal.centre_errors(wide, rows, PEOPLE, SD))
        found.append(float(off @ off))
    assert np.mean(said) == pytest.approx(np.mean(found), rel=0.25)  # the variance of who is asked is a guess


def test_of_columns_about_the_middle_of_their_bounds_no_errors_are_learned():
    wide, rows, off = learned(0.0, 1)
    assert not rows[1, 1:].any()
    assert not off.any()
    assert diagonal.centre_errors(wide, rows, PEOPLE, SD) == 0.0
