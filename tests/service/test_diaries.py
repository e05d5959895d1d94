"""Whole studies of diaries, from the signed plan to results: they are those of the fit in process."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg_field.device.diary import Diary
from privreg_field.device.memory import Memory
from privreg_field.device.session import respond
from tests.service.pair import Pair
from tests.service.served import links, served
from tests.service.test_connect import KEY
from tests.service.test_two_study import same_as_in_process
from tests.service.world import ANALYST, DAY, World, assert_same, in_process

pytestmark = pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")

DIARY = {
    "purpose": "How mood goes with sleep.", "formula": "mood ~ hours | person", "k_max": 3, "mu": 2,
    "bounds": {"mood": [0, 10], "hours": [0, 14]}, "questions": {"mood": "Your mood?", "hours": "Hours of sleep?"},
}  # fmt: skip


@pytest.fixture(scope="module")
def few_rounds():
    """As many as users get: the comparison in process asks for them."""


def diaries(n, seed=1):
    """Rows of so many people, one after the other: one to five of each, whose levels go with their sleep."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n), rng.integers(1, 6, n))
    level = rng.normal(5.0, 1.0, n)[who]
    hours = np.clip(7.0 - 0.5 * (level - 5.0) + rng.normal(0.0, 1.5, len(who)), 0, 14)
    mood = np.clip(level + 0.5 * (hours - 7.0) + rng.normal(0.0, 1.0, len(who)), 0, 10)
    return pd.DataFrame({"person": who, "hours": hours, "mood": mood})


def test_a_study_of_diaries_is_the_fit_in_process(tmp_path):
    n, by_themselves = 1200, 3
    rows = diaries(n)
    world = World(tmp_path, n=n + 1, folk=rows, rows=n, opens="2027-01-01", diary_days=14, **DIARY)
    until = world.plan.diary.until
    world.clock.now = until + 60
    with served(world.scheduler) as url:
        invited = links(world, url)
        for i, link in enumerate([*invited[:by_themselves], invited[n]]):
            given = {"diary": Diary(tmp_path / f"{i}.json"), "memory": Memory(tmp_path / f"{i}.db")}
            assert not respond(link, clock=lambda: until - 10.0 * DAY, **given).sent
            mine = rows[rows.person == i].iloc[:3, 1:].to_dict("records") if i < by_themselves else []
            for k, row in enumerate(mine):
                assert not respond(link, row=row, clock=lambda k=k: until - 9.0 * DAY + k * DAY, **given).sent
            assert sum(world.store.people().values()) == i
            assert respond(link, consent=True, clock=lambda: until + 60.0, **given).sent
        world.next = by_themselves
        world.answer(n - by_themselves)
        world.scheduler.close()
        res = pr.connect(f"{url}/v1/studies/sleep#k={KEY}", ANALYST).results()
    assert_same(res, in_process(world))
    assert res.nobs == n + 1  # whose diary has no row reports, too
    said = " ".join(res.summary(details=True).as_text().split())
    assert "1,201 people, up to 3 rows each; within person" in said
    assert "one person, all rows, in one report" in said


KINDS = {
    "within": {},
    "differences": {"formula": "mood ~ hours | diff(person)"},
    "pooled, people alike, weighted": {
        "formula": "mood ~ hours", "per_person": "mean", "weights": "weight",
        "bounds": {**DIARY["bounds"], "weight": [0, 2]}, "questions": {**DIARY["questions"], "weight": "Weight?"},
    },
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_a_study_of_diaries_at_two_collectors_is_the_fit_in_process(tmp_path, monkeypatch, kind):
    rows = diaries(500)
    rows["weight"] = np.repeat(np.random.default_rng(2).uniform(0.2, 2.2, 500), rows.groupby("person").size())
    rows.loc[::17, "hours"] = np.nan
    same_as_in_process(Pair(tmp_path, n=0, rows=500, **{**DIARY, **KINDS[kind]}), rows, monkeypatch)
