"""Rows that are completely different, with the same noise, change nothing but the randomised numbers."""

import dataclasses
import json
import logging
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import ReliabilityWarning
from tests.helpers import read_saved
from tests.leaks import (
    BOX,
    EVERY_WAY,
    WAYS,
    N,
    contents,
    fit,
    fitted,
    leaves,
    model,
    outcome,
    places,
    rows,
    save,
    sentinels,
    started,
    streamed,
    texts,
)

pytestmark = pytest.mark.usefixtures("the_same_rounds")


def without_learned_words(res):
    """The results but for words that follow from reports, so they differ: the residual scale, some notes."""
    fit = res._fit
    title = tuple((k, re.sub(r"scale \S+ \(learned\)", "scale", v)) for k, v in fit.title)
    words = ("as far as noisy reports tell", "learned sd", "the path-curvature intervals", "the plug-in intervals")
    words = (
        *words,
        " clamp ",
        "in simulations coverage fell below",
    )  # whose number grows with correlations that were learned
    notes = tuple(n for n in fit.statement.notes if not any(w in n for w in words))
    declared = tuple((k, re.sub(r"surely .*", "surely", v)) for k, v in fit.statement.declared)
    statement = dataclasses.replace(fit.statement, notes=notes, declared=declared)
    estimates = tuple(dataclasses.replace(e, notes=()) for e in fit.estimates)
    return pr.results.PrivateResults(dataclasses.replace(fit, title=title, statement=statement, estimates=estimates))


def without_iterates(doc):
    """The document without the iterates at which a mechanism is stated: coefficients, and the threshold, so far."""
    mechanics = [{k: v for k, v in m.items() if k not in {"theta", "c"}} for m in doc["statement"]["mechanics"]]
    return json.dumps({**doc, "statement": {**doc["statement"], "mechanics": mechanics}})


def sizes(arrays):
    """Shapes and types, but for how many different offsets groups had, which follows from reports."""
    several = {"equation_weights", "equation_c", "equation_offsets"}
    return {k: (v.shape[1:] if k in several else v.shape, v.dtype) for k, v in arrays.items()}


@pytest.mark.some(2)
@EVERY_WAY
def test_all_but_the_randomised_numbers_is_equal_for_different_rows(tmp_path, way):
    one, two = (without_learned_words(r) for r in (fitted(way=way), fitted(2, False, way=way)))
    (doc, arrays), (doc_2, arrays_2) = (read_saved(save(r, tmp_path)) for r in (one, two))
    assert without_iterates(doc) == without_iterates(doc_2)  # header, schema, statement, notes, counts
    assert json.dumps(doc) != json.dumps(doc_2)
    assert texts(one) == texts(two)
    assert sizes(arrays) == sizes(arrays_2)
    np.testing.assert_array_equal(arrays["trail_n"], arrays_2["trail_n"])
    assert (one.params != two.params).all()
    assert (repr(one), dir(one)) == (repr(two), dir(two))
    assert list(one.tidy()["term"]) == list(two.tidy()["term"])
    learned = [dict(r._fit.title)["Family"] for r in (fitted(way=way), fitted(2, False, way=way))]
    assert (learned[0] != learned[1]) == (way == "private")  # where no residual scale was declared


@EVERY_WAY
def test_views_are_equal_once_the_randomised_numbers_are(way):
    one, two = (without_learned_words(r) for r in (fitted(way=way), fitted(2, False, way=way)))
    random = ("params", "last", "estimates", "trail_params", "trail_variances")
    same = dataclasses.replace(two._fit, **{name: getattr(one._fit, name) for name in random})
    swapped = pr.results.PrivateResults(same)
    for view in ("as_text", "as_html", "as_latex"):
        assert getattr(swapped.summary(), view)() == getattr(one.summary(), view)()


PUBLISHED = {f"state_{k}" for k in ("theta", "total", "path", "sums", "reports", "outer", "curvature")} | {
    *("blocks_sums", "blocks_edge_sums", "early_grams", "trail_means", "trail_variances")
}
"""Arrays of a saved stream of the published algorithm that may differ between different rows: sums of reports, and what
is computed from them. Of a fit by rounds sums of noised reports alone. The others are public: counts of people and of
updates, variances of noise that follow from budgets, the place in the plan, the user's guess, and with a seed the noise
that is left."""


def randomised(name, way):
    return name in PUBLISHED if way == "published" else name.startswith("total_")


@pytest.mark.some(1)
@EVERY_WAY
def test_a_stream_file_differs_between_different_rows_in_randomised_arrays_only(tmp_path, way):
    seen, ever = set(), set()
    for people in places(way).values():
        both = [streamed(*which, way=way, people=people) for which in ((1, True), (2, False))]
        (doc, arrays), (doc_2, arrays_2) = (read_saved(save(s, tmp_path)) for s in both)
        assert json.dumps(doc) == json.dumps(doc_2)
        assert arrays.keys() == arrays_2.keys()
        differ = {k for k in arrays if not np.array_equal(arrays[k], arrays_2[k], equal_nan=arrays[k].dtype == float)}
        assert all(randomised(k, way) for k in differ)
        assert differ or people < 5
        seen, ever = seen | differ, ever | set(arrays)
    if way == "published":
        assert {"state_theta", "state_curvature", "blocks_sums", "early_grams"} <= seen
        assert {k for k in ever if not randomised(k, way)} == {
            *("state_counts", "state_origin", "state_batch", "state_functional", "state_spreads", "trail_counts"),
            *("blocks_length", "early_at"),
            *(f"secret_{name}_{k}" for name in ("score", "curvature") for k in ("key", "rest")),
        }
    else:
        rounds = len([k for k in ever if k.startswith("total_")])
        totals = {f"total_{k}" for k in range(rounds)}
        # few people's indicators of location may be the same, and where an offset alone has bounds they clamp nobody
        roles = [r.role for r in started(way)._run.plan.rounds]
        alike = {*range(8), roles.index("clamping")} if way == "private" else set()
        assert {f"total_{k}" for k in {*range(rounds)} - alike} <= seen <= totals
        assert ever - totals == {*(f"weight_{k}" for k in range(rounds)), "people", "piece", "secret_key"}


@pytest.mark.some(1)
@EVERY_WAY
def test_under_huge_noise_every_saved_number_is_that_of_any_other_rows(tmp_path, way):
    """Saved numbers see rows through reports alone: a bounded report beside noise of at least bound / mu.

    With mu = 1e-9 and the same noise, an array may differ between any two data sets by about 1e-9 of its largest
    entry times the number of updates. A number with another way to the rows would differ by its own size. Results of
    a fit by rounds are computed from the saved sums of its stream (test_pieces), which are what is looked at.
    """

    def check(one, two):
        assert one.keys() == two.keys()
        for name in one.keys() - inverse:
            a, b = (np.asarray(v[name], dtype=float) for v in (one, two))
            finite = np.isfinite(a)
            np.testing.assert_array_equal(a[~finite], b[~finite])
            gap, size = np.abs(a[finite] - b[finite]), np.abs(a[finite]).max(initial=0)
            assert gap.max(initial=0) <= 1e-6 * size, name

    # path curvature divides by a matrix of noise alone; the sums that it is made of are compared in the streams
    inverse = {f"cov_{k}" for k, e in enumerate(fitted(way=way)._fit.estimates) if e.method == "path_curvature"}
    twins = ((1, True), (2, False))
    if way == "published":
        check(*(read_saved(save(fitted(*which, 1e-9, way), tmp_path))[1] for which in twins))
    for people in places(way).values():
        streams = [streamed(*w, way, people, 1e-9) for w in twins]
        check(*(read_saved(save(s, tmp_path))[1] for s in streams))
        if way == "published":
            # nor is there another number in memory; the noise is made without rows, in scratch space of any content
            check(*({k: v for k, v in leaves(s).items() if not re.search(r"noise(\.\w+)?\._", k)} for s in streams))


@pytest.mark.some(1)
@pytest.mark.parametrize("way", ["default", "published"])
def test_values_outside_the_bounds_are_clamped_and_counted_nowhere_where_nobody_is_asked(tmp_path, way, monkeypatch):
    monkeypatch.setattr("privreg.fits.plan.people_for", lambda *_: 0)
    data = rows()
    clamped = data.assign(**{c: data[c].clip(*BOX[c]) for c in BOX})
    clamped = pd.DataFrame({c: clamped[c].tolist() for c in clamped}, index=data.index)  # other memory: other people
    assert (data["a"] != clamped["a"]).sum() == 3
    one, two = (fit(d, way) for d in (data, clamped))
    (doc, arrays), (doc_2, arrays_2) = (read_saved(save(r, tmp_path)) for r in (one, two))
    assert doc == doc_2
    for name in arrays:
        np.testing.assert_array_equal(arrays[name], arrays_2[name])
    for people in places(way).values():
        states = [started(way).update(d.head(people)) for d in (data, clamped)]
        assert contents(save(states[0], tmp_path)) == contents(save(states[1], tmp_path))


@pytest.mark.some(1)
@EVERY_WAY
@pytest.mark.parametrize("wild", [True, False])
def test_rows_that_can_be_used_cause_no_warning_and_no_log(wild, way, caplog, capfd):
    fitted(way=way)  # compile first: numba's own log is long
    data = rows(1 if wild else 2, wild)
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = model(data, way).fit(progress=True, **WAYS[way][1])
        list(map(str, (res, res.privacy.notes)))
        stream, before = model(way=way).start(), 0
        for people in places(way).values():
            outcome(stream.update(data.iloc[before:people]))
            before = people
    out, err = capfd.readouterr()
    assert "people" in err
    assert [str(w.message) for w in caught if w.category is not ReliabilityWarning] == []
    assert sentinels(*(str(w.message) for w in caught)) == []
    assert [r.getMessage() for r in caplog.records if r.name.startswith("privreg")] == []
    assert sentinels(out, err, caplog.text) == []
    counted = re.sub(r"\[[^\]]*\]", " ", err)  # without the time it takes, and the rate, which no row changes
    bar = {float(w) for w in counted.replace("/", " ").replace("%", " ").split() if w.replace(".", "").isdigit()}
    assert bar <= {0.0, float(N), 100.0}


def test_an_opt_out_warns_without_numbers():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pr.PrivateOnlineRegression.from_formula("y ~ a + g", rows(), mu=1, allow_leak=("levels", "scale"))
    told = [str(w.message) for w in caught]
    assert len(told) == 2
    assert not any(c.isdigit() for text in told for c in text)
    assert sentinels(*told) == []
