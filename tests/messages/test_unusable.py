"""One rule on records that can't be used: noted by reports or sums at every door, with any budget and with none."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.levels import SURE
from privreg.federated import FederatedRegression
from privreg.results.statement import MANY, MOST, Unusable

N = 4000
PUBLIC = {"bounds": {"y": (0, 4000), "x": (0, 1)}}
MUS = [1, 3, 10, 30, None]


def people(gone, n=N):
    """Responses of which the large ones have a thousands separator, which no reader takes for a number."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, n)
    y = rng.gamma(2, 300, n) + 500 * x
    large = y >= np.quantile(y, 1.0 - gone) if gone else np.zeros(n, dtype=bool)
    return pd.DataFrame({"y": np.where(large, "1,234.5", y.round(1).astype(str)), "x": x, "who": np.arange(n)})


def fit(**options):
    def go(data, mu):
        model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, mu=mu, **PUBLIC, **options)
        return model.fit(seed=2, progress=False)

    return go


def means(trust):
    return lambda data, mu: pr.means.estimate(data, "y ~ 1", mu=mu, trust=trust, seed=2, progress=False, **PUBLIC)


def streamed(data, mu):
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", mu=mu, trust="two_collectors", rows=N, **PUBLIC)
    stream = model.start(seed=2)
    stream.update(data)
    return stream.results()


def arrays(data, mu):
    y, x = data["y"].tolist(), np.column_stack([np.ones(len(data)), data["x"]])
    names = {"exog_names": ["const", "x"], "endog_name": "y"}
    return pr.PrivateOnlineRegression(y, x, mu=mu, **PUBLIC, **names).fit(seed=2, progress=False)


def silos(data, mu):
    parts = [data[k::4].reset_index(drop=True) for k in range(4)]
    return FederatedRegression.from_formula("y ~ x", parts, mu=mu, family="huber", **PUBLIC).fit(seed=2, progress=False)


DOORS = {
    "local": fit(),
    "quantile": fit(family=pr.Quantile(0.5)),
    "arrays": arrays,
    "two collectors": fit(trust="two_collectors"),
    "curator": fit(trust="central"),
    "persons": fit(trust="two_collectors", id="who", k_max=1, rows=N),
    "stream": streamed,
    "means": means("local"),
    "means, two collectors": means("two_collectors"),
    "means, curator": means("central"),
    "silos": silos,
}


def noted(res):
    return {n.code: n for n in res.privacy.notes if n.code in {"unusable", "nonresponse"}}


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("door", "mu"),
    [
        # between others; without noise a curator's many rounds are long, and two collectors' say the same
        pytest.param(door, mu, marks=[pytest.mark.thorough] * (mu in {3, 10} or (door, mu) == ("curator", None)))
        for door in DOORS
        for mu in MUS
        if door != "silos" or mu in {30, None}  # noise of less hides any share
    ],
)
def test_a_part_that_cannot_be_read_is_noted(door, mu):
    res = DOORS[door](people(0.4), mu)
    note = noted(res)["unusable"]
    assert "decimal" in note  # advice on how to read them
    assert "Unusable" in dict(res.summary().header)


@pytest.mark.some(1)
@pytest.mark.parametrize("door", DOORS)
def test_where_all_can_be_used_nothing_is_noted(door):
    assert not noted(DOORS[door](people(0.0), None))
    assert not noted(DOORS[door](people(0.0), 10))


@pytest.mark.some(1)
@pytest.mark.parametrize("door", [name for name in DOORS if name != "silos"])
def test_hardly_anything_left_is_a_doubt(door):
    note = noted(DOORS[door](people(0.97), 30))["nonresponse"]
    assert note.severity == "doubt"


def test_the_rule():
    for people_, share in ((100, 0.4), (2000, 0.05), (50, 0.97)):
        one = Unusable.counted(1.0 - share, 0.01, people_)
        assert one.error == pytest.approx(np.hypot(0.01, np.sqrt(share * (1 - share) / people_)))
        (note,) = one.noted("text")
        assert note.code == ("nonresponse" if share > MOST else "unusable")
        assert ("decimal" in note) == (share > MANY)
    assert Unusable.counted(1.0, 0.0, 200).noted("text") == ()
    assert Unusable(0.3, 0.3 / SURE + 1e-9).noted("text") == ()
    (note,) = Unusable(0.97, 0.01).noted("text", doubted=False)
    assert note.code == "unusable"
