"""Fits of one `dataset=` are of the same people, whatever objects or files their rows come in."""

import itertools

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.cli.app import main
from privreg.errors import BudgetError, OptionError
from privreg.privacy.accounts import named
from privreg.privacy.ledger import LEDGER

N = 3_000
SERIAL = itertools.count()
BOUNDS = {"x": (-1, 1), "y": (-2, 2)}


@pytest.fixture
def name():
    """A name that no other test has: names stay in the ledger."""
    return f"survey {next(SERIAL)} of these tests"


def people():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, N)
    y = x + rng.normal(0, 0.3, N)
    return pd.DataFrame({"x": x, "y": y, "yes": (y > 0).astype(int)})


def local(how):
    return pr.PrivateOnlineRegression.from_formula("y ~ x", people(), bounds=BOUNDS, mu=1, **how).fit(progress=False)


def batches(model):
    stream = model.start()
    for k in range(0, N, 1_000):
        stream.update(people()[k : k + 1_000])
    return stream.results()


DOORS = {
    "formula": local,
    "arrays": lambda how: pr.PrivateOnlineRegression(
        people()["y"], people()[["x"]], bounds=BOUNDS, mu=1, **how
    ).fit(progress=False),
    "two collectors": lambda how: local({"trust": "two_collectors", **how}),
    "curator": lambda how: local({"trust": "central", "family": pr.Huber(scale=0.3), **how}),
    "curator, arrays": lambda how: pr.central.Regression(
        people()["y"], people()[["x"]].assign(const=1.0), bounds=BOUNDS, mu=1, family=pr.Huber(scale=0.3), **how
    ).fit(progress=False),
    "means": lambda how: pr.means.estimate(people(), "y", bounds=BOUNDS, mu=1, progress=False, **how),
    "means, a curator": lambda how: pr.means.estimate(
        people(), "y", bounds=BOUNDS, mu=1, progress=False, trust="central", **how
    ),
    "a formula of means": lambda how: pr.means.PrivateMeans.from_formula(
        "y + x ~ 1", people(), bounds=BOUNDS, mu=1, **how
    ).fit(progress=False),
    "silos": lambda how: pr.federated.FederatedRegression.from_formula(
        "yes ~ x", [people()[k::30] for k in range(30)], bounds={"x": (-1, 1)}, mu=1, **how
    ).fit(progress=False),
    "stream": lambda how: batches(
        pr.PrivateOnlineRegression.from_formula("y ~ x", None, bounds=BOUNDS, mu=1, **how)
    ),
    "stream of means": lambda how: batches(pr.means.PrivateMeans(["y"], bounds=BOUNDS, mu=1, **how)),
    "lists": lambda how: pr.PrivateOnlineRegression.from_formula(
        "y ~ x", people().to_dict("list"), bounds=BOUNDS, mu=1, **how
    ).fit(progress=False),
    "table one": lambda how: pr.means.table_one(people(), "y", bounds=BOUNDS, mu=1, progress=False, **how),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
@pytest.mark.parametrize("door", DOORS)
def test_releases_of_one_name_add_up_at_every_door(door, name):
    LEDGER.spend(named(None, f"  {name.replace(' ', '   ')} "), 1.0)
    res = DOORS[door]({"dataset": name})
    assert LEDGER.spent(named(None, name)) == pytest.approx(np.sqrt(2))
    if hasattr(res, "privacy") and "stream" not in door:
        assert res.privacy.release.number == 2
        assert f"release 2 from '{name}' in this process" in str(res.privacy.release)
    pr.limit_spending(1.5)
    try:
        with pytest.raises(BudgetError, match="release 3"):
            DOORS[door]({"dataset": name})
        DOORS[door]({"dataset": f"{name}, others"})
        assert LEDGER.spent(named(None, f"{name}, others")) == 1.0
    finally:
        pr.limit_spending(None)
    DOORS[door]({})
    assert LEDGER.spent(named(None, name)) == pytest.approx(np.sqrt(2))


def test_rows_of_several_names_are_of_the_people_of_each(name):
    res = local({"dataset": [name, f"{name}, Zoë"]})
    for one in (name, f"{name}, Zoe\u0308"):  # however its letters are made up
        assert LEDGER.spent(named(None, one)) == 1.0
    assert f"release 1 from '{name}' and '{name}, Zoë' in this process" == str(res.privacy.release)
    assert local({"dataset": f"{name}, Zoë"}).privacy.release.number == 2


@pytest.mark.parametrize("wrong", ["", "  ", 3, [], ["a", 3], {"a"}, b"a", True])
def test_a_name_is_a_text(wrong):
    with pytest.raises(OptionError, match="dataset= must be a name of these people"):
        local({"dataset": wrong})
    with pytest.raises(OptionError, match="dataset= must be a name of these people"):
        pr.means.PrivateMeans(["y"], bounds=BOUNDS, mu=1, dataset=wrong).start()


def test_a_saved_stream_goes_on_with_its_name_and_results_say_it(name, tmp_path):
    stream = pr.PrivateOnlineRegression.from_formula("y ~ x", None, bounds=BOUNDS, mu=1, dataset=name).start()
    stream.update(people()).save(tmp_path / "s.privreg")
    pr.load(tmp_path / "s.privreg").update(people())
    assert LEDGER.spent(named(None, name)) == pytest.approx(np.sqrt(2))  # of a copy of the file nobody can know
    res = local({"dataset": name})
    res.save(tmp_path / "res.privreg")
    assert str(pr.load(tmp_path / "res.privreg").privacy.release) == str(res.privacy.release)


@pytest.mark.parametrize("verb", ["fit", "means"])
def test_the_shell_names_people(verb, name, tmp_path):
    path, out = tmp_path / "people.csv", tmp_path / "out.json"
    people().to_csv(path, index=False)
    LEDGER.spend(named(None, name), 1.0)
    what = ["y ~ x", str(path), "--bounds", "y=-2:2", "x=-1:1"]
    what = what if verb == "fit" else ["y ~ 1", *what[1:4]]
    assert main([verb, *what, "--mu", "1", "--dataset", name, "--out", str(out)]) in (0, 3)
    assert LEDGER.spent(named(None, name)) == pytest.approx(np.sqrt(2))
    assert f"release 2 from '{name}'" in out.read_text()


def test_a_copy_is_said_to_count_as_others(name):
    data = people()
    for rows in (data.copy(), data.sort_values("x"), data.sample(frac=1, random_state=1)):
        res = pr.PrivateOnlineRegression.from_formula("y ~ x", rows, bounds=BOUNDS, mu=1).fit(progress=False)
        assert res.privacy.release.number == 1
        assert "of a copy nobody can know: dataset= names its people" in str(res.privacy.release)
    assert "copy" not in str(local({"dataset": name}).privacy.release)
