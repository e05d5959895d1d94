"""Devices in two languages answer one study over HTTP: its estimates are the truth's, its sums those of the reports."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from privreg_field.collector import chain as chains
from privreg_field.device import respond
from privreg_field.device.memory import Memory
from tests.service.served import links, served
from tests.service.world import World, people

BATCH, THREADS = 80, 9
TRUTH = {"Intercept": 9.0, "age": -0.04}


@pytest.mark.parametrize(
    "each", [pytest.param(80, marks=pytest.mark.thorough), pytest.param(2000, marks=pytest.mark.statistical)]
)
def test_as_many_in_javascript_as_in_python_agree_with_the_truth(js, tmp_path, each):
    world = World(tmp_path, n=2 * each, rows=2 * each)
    rows = people(2 * each, seed=4).to_dict(orient="records")

    def python(i, link):
        memory = Memory(tmp_path / f"{i}.sqlite")
        return respond(link, None, rows[i], consent=True, memory=memory).sent

    with served(world.scheduler) as url, ThreadPoolExecutor(THREADS) as pool:
        invited = links(world, url)
        for at in range(0, 2 * each, 2 * BATCH):
            here, there = range(at, at + BATCH), range(at + BATCH, at + 2 * BATCH)
            ours = [invited[i] for i in here]
            posted = pool.submit(js, "crowd", links=ours, rows=[rows[i] for i in here], folder=str(tmp_path), first=at)
            assert all(pool.map(python, there, [invited[i] for i in there]))
            assert posted.result() == [True] * BATCH
    found = {}
    for place, values in world.store.reports():
        found[place] = chains.add(found.get(place), np.frombuffer(values, dtype="<i4")[None], place.role)
    assert sum(cell.people for cell in found.values()) == 2 * each
    assert chains.plain(found) == chains.plain(world.store.cells())
    assert world.scheduler.replay() == len(world.scheduler.states) > 3
    res = world.scheduler.results()
    assert res.nobs == 2 * each
    if each == 2000:  # fewer tell too little: the noise is secret, and the intervals of hundreds are no promise
        for name, value in TRUTH.items():
            assert abs(res.params[name] - value) < 4.5 * res.bse[name], name
        assert res.bse["age"] < 0.7 / each**0.5
