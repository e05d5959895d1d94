"""The curator's one release: its noise, its account, and that it happens once."""

import math

import numpy as np
import pytest
from scipy import stats

from privreg.errors import InferenceError
from privreg.fits.published import central_sandwich
from privreg.fits.settings import FitOptions
from privreg.privacy.ledger import Release
from privreg.published.chain.plans import Steps
from privreg.simulation.streaming.stream import begin
from tests.helpers import array_model, people


def begun(n=400, batch=1, mu=1.0, **more):
    """A fit whose rows have passed but whose matrices are not yet released."""
    x, y = people(n)
    model = array_model(n, mu=mu, **more)
    wishes = FitOptions("published", "plug_in_central", batch_size=batch)
    stream = begin(model._spec, wishes, None, None, None)
    return stream.update((y, x))


def released(monkeypatch, stream):
    """What the release hands to the sandwich: randomised mean curvature and mean outer product."""
    seen = {}

    def spy(a, s, n, sd):
        seen.update(a=a, s=s, n=n)
        return central_sandwich(a, s, n, sd)

    with monkeypatch.context() as m:
        m.setattr("privreg.fits.published.central_sandwich", spy)
        stream._results(Release(1, 1.0))
    return seen


def test_noise_of_the_release_has_the_stated_scale_and_is_independent(monkeypatch):
    n, draws = 400, {"a": [], "s": []}
    rows, cols = np.triu_indices(4)
    for _ in range(50):
        stream = begun(n)
        raw = {"a": stream._run.raw_curvature.copy(), "s": stream._run.raw_outer.copy()}
        sds = {"a": 2 * stream._settings.how.curvature_bound, "s": 2 * stream._settings.how.bound**2}
        seen = released(monkeypatch, stream)
        for key, matrix in raw.items():
            draws[key].append(((seen[key] * n - matrix) / sds[key])[rows, cols])
            np.testing.assert_array_equal(seen[key], seen[key].T)
    for z in (np.array(draws["a"]), np.array(draws["s"])):
        assert stats.kstest(z.ravel(), "norm").pvalue > 1e-6
        low, high = stats.chi2.ppf([1e-5, 1 - 1e-5], z.size)
        assert low <= (z**2).sum() <= high
    a, s = (np.array(draws[k]).ravel() for k in "as")
    assert abs(np.corrcoef(a, s)[0, 1]) < 4.5 / math.sqrt(a.size)


def test_raw_sums_are_bounded_by_what_the_noise_was_scaled_for():
    n = 300
    stream = begun(n)
    assert np.linalg.norm(stream._run.raw_curvature) <= n * stream._settings.how.curvature_bound
    assert np.linalg.norm(stream._run.raw_outer) <= n * stream._settings.how.bound**2
    assert np.linalg.norm(stream._run.raw_curvature) > 0


def test_the_release_happens_once_and_the_sums_are_forgotten():
    stream = begun()
    stream._results(Release(1, 1.0))
    assert not stream._run.raw_curvature.any()
    assert not stream._run.raw_outer.any()
    with pytest.raises(InferenceError, match="already released once"):
        stream._results(Release(1, 1.0))


def test_a_fit_with_the_release_can_not_be_saved(tmp_path):
    with pytest.raises(InferenceError, match="raw sums"):
        begun().save(tmp_path / "s.privreg")


def test_people_of_an_unfinished_batch_are_counted_with_their_sums(monkeypatch):
    stream = begun(1000, batch=190, mu=None)
    curvature = stream._run.raw_curvature.copy()
    seen = released(monkeypatch, stream)
    np.testing.assert_allclose(seen["a"], curvature / 1000)
    assert seen["n"] == 950


def test_ledger_counts_both_releases():
    model = array_model()
    res = model.fit(tuning="published", inference="plug_in_central")
    assert res.privacy.release.total_mu == pytest.approx(math.sqrt(2))
    assert model.fit().privacy.release.total_mu == pytest.approx(math.sqrt(3))


def test_steps_are_their_formula():
    steps = Steps(0.7, 0.6, 25.0)
    np.testing.assert_allclose(steps.block(9, 3), [0.7 * (k + 25.0) ** -0.6 for k in (10, 11, 12)], rtol=1e-14)
    exact = steps.block(0, 5000).sum()
    assert steps.total(5000) <= exact
    assert steps.total(5000) == pytest.approx(exact, rel=0.01)
