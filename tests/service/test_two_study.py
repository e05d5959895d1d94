"""A whole study at two collectors: the fit in process, bit for bit, if both draw the same noise."""

import numpy as np
import pytest

import privreg as pr
from privreg.privacy.ledger import Release
from privreg.simulation import aggregate as played
from privreg.simulation.streaming.stream import begin
from privreg_field.service.access import Issuer
from privreg_field.service.sums import sealing
from privreg_field.study.reading.collected import fit_plan_of
from privreg_field.study.simulated.devices import SharedCrowd
from privreg_field.wire import messages
from tests.service.pair import Pair
from tests.service.test_two_schedulers import on
from tests.service.world import DECLARED, SECRET, assert_same, people

pytestmark = pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")

MOD = 1 << 64
AT_ONCE = 500  # Devices whose shares are kept together


class Noise:
    """What both collectors have drawn, number by number."""

    def __init__(self, draw):
        self.draw, self.drawn = draw, []

    def __call__(self, bits, words):
        self.drawn.append(self.draw(bits, words))
        return self.drawn[-1]


def answered(pair, rows, tokens):
    """Let devices answer, each the state that is open, until all have; reports of each batch."""
    crowd, a, done, sizes = SharedCrowd(pair.plan, pair.hash, rows), pair.schedulers[0], 0, []
    while done < len(crowd):
        ends = a.chain.ask.ends
        who = range(done, len(crowd) if ends is None else done + ends)
        for first in who[::AT_ONCE]:
            some = range(first, min(first + AT_ONCE, who.stop))
            state = messages.read_state(a.present.payload, pair.plan, pair.hash)
            posts = crowd.posts(state, some, [tokens[i] for i in some])
            for place, scheduler in enumerate(pair.schedulers):
                arrived = [pair.arrived(bodies[place]) for bodies in posts]
                assert set(scheduler.take(arrived, {})) == {"new"}
        done = who.stop
        sizes.append(len(who))
        if ends is None:
            a.store.mark("closed")
        on(pair)
    assert not any(scheduler.is_open for scheduler in pair.schedulers)
    return sizes


def same_as_in_process(pair, rows, monkeypatch):
    """Play a study and the fit, with the noise of the study; compare to the last bit."""
    pair.turn()
    noise = Noise(sealing.rounded_normal)
    monkeypatch.setattr(sealing, "rounded_normal", noise)
    sizes = answered(pair, rows, list(Issuer(1, SECRET, pair.hash).tokens(len(rows))))
    drawn = iter(noise.drawn)

    def noised(plan, role, exact, normals):
        """The exact sum with the noise that the study had there, of both."""
        parts = [np.array([next(drawn) % MOD for _ in exact], dtype=np.uint64) for _ in "ab"]
        return (exact.view(np.uint64) + parts[0] + parts[1]).view(np.int64)

    monkeypatch.setattr(played, "noised", noised)
    fit = fit_plan_of(pair.plan)
    stream = begin(fit.spec, fit.asked, fit.start_params, None, fit.rows)
    stream.update(rows)
    stream._run.close()
    batches = pair.schedulers[0].chain.batches
    assert [b.people for b in stream._run.chain.batches] == [b.people for b in batches] == sizes
    for one, other in zip(stream._run.chain.batches, batches, strict=True):
        np.testing.assert_array_equal(one.total, other.total)
    assert next(drawn, None) is None
    results = [scheduler.results() for scheduler in pair.schedulers]
    assert_same(results[0], results[1])
    assert_same(results[0], stream._results(Release(0, 1.0)))


@pytest.mark.thorough
def test_a_study_is_the_fit_in_process(tmp_path, monkeypatch):
    same_as_in_process(Pair(tmp_path, n=0, rows=600), people(600), monkeypatch)


@pytest.mark.thorough
def test_a_study_takes_over_the_target_of_an_earlier_fit(tmp_path, monkeypatch):
    model = pr.PrivateOnlineRegression.from_formula(
        "hours ~ age", people(1500, 5), mu=4, bounds=DECLARED["bounds"], trust="two_collectors"
    )
    first = model.fit()
    first.save(tmp_path / "first.res")
    pair = Pair(tmp_path, n=0, rows=1000, like=str(tmp_path / "first.res"))
    same_as_in_process(pair, people(1000), monkeypatch)
    kept, found = first._fit.equation, pair.schedulers[0].results()._fit.equation
    np.testing.assert_allclose(found.rows, kept.rows, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.c, kept.c)


@pytest.mark.thorough
def test_a_study_of_twenty_thousand_is_the_fit_in_process(tmp_path, monkeypatch):
    same_as_in_process(Pair(tmp_path, n=0, rows=20_000), people(20_000), monkeypatch)
