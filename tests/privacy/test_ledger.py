"""The ledger of releases."""

import gc
import math
import threading

import numpy as np
import pytest

import privreg as pr
from privreg.errors import BudgetError
from privreg.privacy import ledger
from privreg.privacy.ledger import LEDGER, Ledger
from tests.helpers import array_model


class Data:
    """Something a weak reference can watch."""


def test_ledger_adds_up_releases_and_forgets_gone_objects():
    ledger, one, two = Ledger(), Data(), Data()
    assert ledger.spend(one, 1.0).number == 1
    second = ledger.spend(one, 1.0)
    assert (second.number, second.total_mu) == (2, pytest.approx(math.sqrt(2)))
    assert ledger.spend(two, 2.0).total_mu == 2.0
    assert ledger.spend("file", 1.0).number == 1
    assert ledger.spend("file", 1.0).number == 2
    assert ledger.spend(None, 1.0).number == 0  # a stream: nothing tells whose rows they are
    assert ledger.spend(None, 1.0).total_mu == 1.0
    del one
    gc.collect()
    third = Data()
    assert ledger.spend(third, 1.0).number == 1
    assert math.isinf(ledger.spend(third, np.inf).total_mu)


def test_a_limit_refuses_before_anything_is_spent():
    ledger, data = Ledger(limit=2.0), Data()
    for number in (1, 2, 3, 4):  # four times 1 is 2 exactly
        ledger.check(data, 1.0)
        assert ledger.spend(data, 1.0).number == number
    with pytest.raises(BudgetError, match=r"release 5 .* 2.003-GDP .*2-GDP is spent, 0.1-GDP .* allows 2-GDP; use"):
        ledger.spend(data, 0.1)
    assert ledger.spent(data) == pytest.approx(2.0)
    assert ledger.spent(Data()) == 0.0
    assert ledger.spend("file", 2.0).total_mu == 2.0  # another source has its own allowance
    with pytest.raises(BudgetError, match=r"no privacy per person in all .*ask for mu=2 or less"):
        ledger.check("other file", math.inf)
    ledger.spend("third", 1.0)
    with pytest.raises(BudgetError, match=r"ask for mu=1.732 or less"):
        ledger.spend("third", 1.8)
    assert ledger.spend("third", 1.732).number == 2  # and what the message says goes through


def test_what_cannot_be_counted_is_refused_under_a_limit():
    ledger = Ledger(limit=2)
    for source in (None, [1, 2]):
        with pytest.raises(BudgetError, match="no source to count by"):
            ledger.spend(source, 0.1)
        assert Ledger().spend(source, 0.1).number == 0
    assert repr(ledger) == "<Ledger: 0 releases, limit 2-GDP per person>"


@pytest.mark.parametrize("limit", [0, -1, math.nan, math.inf, "2", True])
def test_a_limit_is_a_positive_number(limit):
    with pytest.raises(BudgetError, match="limit="):
        Ledger(limit=limit)


def test_repr_counts_and_shows_no_source():
    ledger = Ledger()
    ledger.spend("secret.csv", 1.0)
    assert repr(ledger) == "<Ledger: 1 release, no limit>"
    assert LEDGER.limit is None


def test_threads_never_overspend_together():
    ledger, data, refused = Ledger(limit=5.0), Data(), []

    def work():
        for _ in range(20):
            try:
                ledger.spend(data, 1.0)
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert ledger.spent(data) == pytest.approx(5.0)
    assert len(refused) == 160 - 25


@pytest.fixture
def limited():
    def limit(mu):
        pr.limit_spending(mu)

    yield limit
    pr.limit_spending(None)


def test_a_limit_of_the_process_refuses_fits_before_they_spend(limited, monkeypatch):
    model = array_model(2000)
    assert model.fit(progress=False).privacy.release.number == 1
    limited(1.5)
    assert model.fit(progress=False).privacy.release.number == 2  # what was spent before the limit counts
    monkeypatch.setattr(
        "privreg.simulation.streaming.stream.Stream._update_all", lambda *_: pytest.fail("somebody has reported")
    )
    with pytest.raises(
        BudgetError, match=r"release 3 .*\(1.415-GDP is spent, 1-GDP .* allows 1.5-GDP; ask for mu=0.5 "
    ):
        model.fit(progress=False)
    with pytest.raises(BudgetError, match="no privacy per person in all"):
        array_model(mu=None).fit(progress=False)
    assert LEDGER.limit == 1.5


def test_a_limit_of_the_process_refuses_streams_but_those_begun(limited, tmp_path):
    x, y = np.ones((50, 4)), np.zeros(50)
    stream = array_model(2000).start().update((y, x))
    stream.save(tmp_path / "s.privreg")
    limited(3)
    with pytest.raises(BudgetError, match="rows that come as a stream have no source to count by"):
        array_model(2000).start()
    assert pr.load(tmp_path / "s.privreg").update((y, x)).nobs == 100
    limited(None)
    assert array_model(2000).start().nobs == 0


@pytest.mark.parametrize("limit", [0, -1, math.nan, math.inf, "2", True])
def test_a_limit_of_the_process_is_a_positive_number_too(limited, limit):
    limited(2)
    with pytest.raises(BudgetError, match="limit="):
        pr.limit_spending(limit)
    assert LEDGER.limit == 2


def test_budgets_and_ledgers_are_at_hand():
    assert pr.Budget.declare(epsilon=1) <= pr.Budget.declare(mu=1.3)
    assert pr.Ledger is Ledger
    assert {"Budget", "Ledger", "limit_spending"} <= {*pr.__all__} & {*dir(pr)}


def test_data_fitted_without_noise_are_past_any_limit():
    ledger, data, other = Ledger(limit=5.0), Data(), Data()
    ledger._limit = None
    ledger.spend(data, math.inf)
    ledger._limit = 5.0
    with pytest.raises(BudgetError, match=r"fitted without noise .* nothing about them is private any more"):
        ledger.check(data, 0.1)
    ledger.check(other, 0.1)


def test_a_release_whose_entry_was_interrupted_is_charged_all_the_same(monkeypatch):
    kept, asked = ledger.compose, []

    def interrupted(mus):
        asked.append(mus)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return kept(mus)

    made, rows = Ledger(), np.zeros(5)
    monkeypatch.setattr(ledger, "compose", interrupted)
    with pytest.raises(KeyboardInterrupt):  # without a limit it is first asked for where costs are entered
        made.spend(rows, 1.0, release="a")
    monkeypatch.undo()
    made.spend(rows, 1.0, release="a")
    assert made.spent(rows) == 1.0
    del rows
    gc.collect()
    assert made.spend(np.zeros(5), 1.0).number == 1  # nothing is left half entered


def test_people_whose_entry_was_interrupted_may_go(monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    made, rows = Ledger(), np.zeros(5)
    monkeypatch.setattr(ledger, "compose", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.spend(rows, 1.0, release="a")
    monkeypatch.undo()
    del rows
    gc.collect()
    assert made.spend(np.zeros(5), 1.0).number == 1


def test_a_secret_release_stays_one_when_it_is_entered_again_with_a_seed():
    made, rows = Ledger(), np.zeros(5)
    made.spend(rows, 1.0, release="a")
    made.spend(rows, 1.0, release="a", seeded=True)
    assert not made._seeded


def test_a_release_that_costs_more_than_it_did_is_entered_and_checked_again():
    made, rows = Ledger(limit=2.1), np.zeros(5)
    made.spend(rows, 1.0, release="a")
    assert made.spend(rows, 0.5, release="a").total_mu == 1.0
    assert made.spend(rows, 1.8, release="a").total_mu >= 1.8
    assert made.spent(rows) == pytest.approx(math.hypot(1.0, 1.8))
    assert made.spend(rows, 1.8, release="a").total_mu == made.spent(rows)
    with pytest.raises(BudgetError, match=r"allows 2\.1"):
        made.spend(rows, 3.0, release="a")
    assert made.spent(rows) == pytest.approx(math.hypot(1.0, 1.8))


def test_people_who_are_in_a_release_twice_are_charged_twice_where_it_costs_more():
    made, rows = Ledger(), np.zeros(5)
    made.spend([rows, rows], 1.0, release="a")
    assert made.spent(rows) == pytest.approx(math.sqrt(2.0))
    made.spend([rows, rows], 1.4, release="a")
    assert made.spent(rows) >= 1.4 * math.sqrt(2.0)
