"""Several analyses in one study, served: both devices, an analysis that is lost, a split, two servers."""

import json
import time
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import InferenceError, OptionError, ReliabilityWarning, StudyError
from privreg_field.device import client
from privreg_field.device.exchange import RefusedError
from privreg_field.device.memory import Memory
from privreg_field.device.report import answer
from privreg_field.device.session import respond
from privreg_field.service import access
from privreg_field.service.access import Issuer
from privreg_field.service.http.app import Options, Service
from privreg_field.service.http.handler import application
from privreg_field.service.scheduler import Scheduler
from privreg_field.service.store import open_store
from privreg_field.service.sums.app import SumService
from privreg_field.service.sums.peer import Away
from privreg_field.service.sums.scheduler import SumScheduler
from privreg_field.study import keys
from privreg_field.study.reading.connect import Studies
from privreg_field.study.simulated.swarm import swarm
from privreg_field.wire import messages, study, wire
from privreg_field.wire.analyses import hash_of_part, word_of
from tests.field.test_analyses import TWO, changed, plans_of
from tests.field.test_analyses import WRONG as WRONG_PLANS
from tests.service.pair import OWN
from tests.service.served import served
from tests.service.world import ANALYST, SECRET, Clock
from tests.studies import NOON, ROOT, SERVER, public

ROW = {"age": 33, "shift": "day", "sex": "f", "hours": 8, "tired": "no"}
KEY = wire.base(public(ROOT))


def folk(n, seed=1):
    rng = np.random.default_rng(seed)
    age, shift = rng.uniform(18, 90, n), rng.choice(["day", "night"], n, p=[0.7, 0.3])
    tired = rng.random(n) < 1 / (1 + np.exp(-0.04 * (age - 50)))
    return pd.DataFrame({
        "age": age, "shift": shift, "sex": rng.choice(["f", "m", "x"], n), "tired": np.where(tired, "yes", "no"),
        "hours": np.clip(9 - 0.03 * age - 0.8 * (shift == "night") + rng.normal(0, 1, n), 0, 24),
    })  # fmt: skip


class Several:
    """A study of three analyses with its server's schedulers; `serve` is its address."""

    def __init__(self, folder, n=60, **more):
        self.folder, self.clock = folder, Clock()
        self.plans = self.planned(folder, **more)
        payload = study.plan_payload(*self.plans)
        self.hash, self.envelope = wire.hash_of(payload), keys.signed("plan", payload, ROOT)
        self.schedulers = [self.open(p, f"sqlite:///{folder / 'study.db'}") for p in self.plans]
        self.tokens = list(Issuer(1, SECRET, self.hash).tokens(n))
        self.schedulers[0].store.issue(SECRET)

    def planned(self, folder, **more):
        return plans_of(folder, **more)

    def open(self, plan, url):
        store = open_store(url, plan.slug)
        store.enter(hash_of_part(self.hash, plan.part.name), self.envelope, access.first_of(ANALYST))
        return self.scheduler(store, plan)

    def scheduler(self, store, plan):
        return Scheduler(store, SERVER, self.clock, self.clock)

    def serve(self):
        def made(first, options):
            return application(*(Service(c, options) for c in self.schedulers))

        return served(self.schedulers[0], make=made)

    def links(self, url):
        return [keys.invitation(url, "sleep", public(ROOT), token) for token in self.tokens]

    def people(self):
        return [sum(c.store.people().values()) for c in self.schedulers]

    def answered(self, link, rows, links, size):
        """All answer, so many at a time: a round has more people than it asks for where many answer at once."""
        for a in range(0, len(rows), size):
            some = slice(a, a + size)
            got = swarm(link, rows.iloc[some], links[some], progress=False).statuses
            assert got == {201: size * (1 if len({p.part.people for p in self.plans}) > 1 else len(self.plans))}
            for scheduler in self.schedulers:
                clerk = Scheduler(scheduler.store, SERVER, self.clock)
                while clerk.advance():  # rounds that have their reports are closed
                    pass


@pytest.fixture
def several(tmp_path):
    return Several(tmp_path)


def test_a_device_answers_all_analyses_at_once(several, tmp_path):
    memory, said = Memory(tmp_path / "me.db"), []
    with several.serve() as url:
        link = several.links(url)[0]
        told = respond(link, row=ROW, memory=memory, dry_run=True).words
        assert told.count("mu = 2") == 1
        assert "This would be study 1 this year" in told
        assert not memory.reports(public(ROOT), "sleep")

        def transport(address, body):
            if body is not None:
                said.append((address.split("/")[-2], len(memory.reports(public(ROOT), "sleep"))))
            return client.fetch(address, body)

        assert respond(link, row=ROW, consent=True, memory=memory, transport=transport).sent
        with pytest.raises(RefusedError, match="every device answers once"):
            respond(link, row=ROW, consent=True, memory=memory)
        with pytest.raises(RefusedError, match=r"study 2 of a year's, which cost mu = 2\.828 together"):
            respond(link, row=ROW, consent=True, memory=Memory2(memory))
    assert said == [("who", 3), ("hours", 3), ("tired", 3)]  # all were written before the first was sent
    assert several.people() == [1, 1, 1]
    assert memory.year(0) == [Fraction(2)]


class Memory2:
    """A memory that has forgotten the study's name, and not what it cost."""

    def __init__(self, memory):
        self._own = memory

    def plans(self, root, study):
        return set()

    def reports(self, root, study):
        return {}

    def year(self, clock):
        return self._own.year(0)

    def used(self, token):
        return False


def test_a_cap_counts_the_whole_before_the_first_report(several, tmp_path):
    from privreg_field.device.exchange import Limits

    posted = []

    def transport(address, body):
        posted.append(body)
        return client.fetch(address, body)

    with several.serve() as url:
        for limits, words in ((Limits(mu=Fraction(19, 10)), "mu = 2"), (Limits(yearly=Fraction(19, 10)), "overspent")):
            memory = Memory(tmp_path / f"{words}.db")
            with pytest.raises(RefusedError, match=words):
                respond(several.links(url)[1], row=ROW, consent=True, memory=memory, limits=limits, transport=transport)
            assert not memory.reports(public(ROOT), "sleep")
    assert not [body for body in posted if body is not None]


@pytest.mark.thorough
@pytest.mark.parametrize("lost", [("who",), ("hours", "tired")])
def test_a_device_that_loses_analyses_answers_the_others_and_sends_them_later(several, tmp_path, lost):
    memory, sent = Memory(tmp_path / "me.db"), {name: [] for name in lost}

    def transport(address, body):
        name = address.split("/")[-2]
        if body is not None and name in lost:
            sent[name].append(body)
            return client.Answer(503, b"")
        return client.fetch(address, body)

    with several.serve() as url:
        link = several.links(url)[0]
        outcome = respond(link, row=ROW, consent=True, memory=memory, transport=transport, patience=0)
        assert not outcome.sent
        once = [int(plan.part.name not in lost) for plan in several.plans]
        assert several.people() == once
        left = [name for name, one in memory.reports(public(ROOT), "sleep").items() if one.body]
        assert left == [f"sleep/{name}" for name in lost]
        assert respond(link, row={}, memory=memory).sent  # the very bytes, without consent or answers
        assert several.people() == [1, 1, 1]
        other = respond(several.links(url)[1], row=ROW, consent=True, memory=Memory(tmp_path / "o.db"), patience=0,
                        transport=transport)  # fmt: skip
        assert not other.sent  # and never comes again: it is nonresponse of these analyses
    assert [len(set(bodies[:2])) for bodies in sent.values()] == [1] * len(lost)
    assert several.people() == [1 + k for k in once]


def test_people_that_are_split_answer_one_analysis(tmp_path):
    one = Several(tmp_path, split="people")
    with one.serve() as url:
        dealt = [0, 0, 0]
        for i, (link, token) in enumerate(zip(one.links(url)[:12], one.tokens, strict=False)):
            memory = Memory(tmp_path / f"{i}.db")
            assert respond(link, row=ROW, consent=True, memory=memory).sent
            mine = [
                k for k, p in enumerate(one.plans) if p.part.people[0] <= word_of(one.hash, token.id) < p.part.people[1]
            ]
            dealt[mine[0]] += 1
            assert memory.year(0) == [Fraction(2)]
            assert len(memory.reports(public(ROOT), "sleep")) == 1
        assert one.people() == dealt
        # another link on the same device, dealt to another analysis: the study was answered
        with pytest.raises(RefusedError, match="every device answers once"):
            respond(one.links(url)[20], row=ROW, consent=True, memory=Memory(tmp_path / "0.db"))
        wrong = next(
            k
            for k, p in enumerate(one.plans)
            if not p.part.people[0] <= word_of(one.hash, one.tokens[30].id) < p.part.people[1]
        )
        plan, role = one.plans[wrong], next(iter(one.plans[wrong].roles))
        values = (0,) * plan.roles[role].numbers
        report = messages.Report(
            hash_of_part(one.hash, plan.part.name), 0, one.schedulers[wrong].role_of(0), one.tokens[30], values
        )
        posted = client.fetch(f"{url}/v1/studies/sleep{plan.path}/reports", messages.report_body(report))
        assert posted.status == 403


@pytest.mark.thorough
def test_states_and_reports_of_an_analysis_are_no_others(several):
    with several.serve() as url:
        own = f"{url}/v1/studies/sleep/analyses"
        state = wire.open_envelope(client.fetch(f"{own}/hours/state").body, "state").payload
        hashes = [hash_of_part(several.hash, p.part.name) for p in several.plans]
        messages.read_state(state, several.plans[1], hashes[1])
        with pytest.raises(wire.MessageError, match="another plan"):
            messages.read_state(state, several.plans[2], hashes[2])
        assert client.fetch(f"{url}/v1/studies/sleep/state").status == 404
        assert client.fetch(f"{own}/nothing/state").status == 404
        paths = json.loads(client.fetch(f"{url}/openapi.json").body)["paths"]
        assert "/v1/studies/{study}/analyses/who/reports" in paths
        assert "/v1/studies/{study}/plan" in paths
        assert json.loads(client.fetch(f"{url}/readyz").body)["status"] == "ready"
    assert len(set(hashes)) == 3


def test_an_analyst_reads_every_analysis_by_its_name(tmp_path):
    n = 240
    one = Several(tmp_path, n=n)
    with one.serve() as url, warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        link = f"{url}/studies/sleep/#k={KEY}"
        one.answered(link, folk(n), one.links(url), 40)
        found = pr.connect(link, token=ANALYST)
        assert found.analyses == ("who", "hours", "tired")
        assert found.table("who").frame()["variable"].unique().tolist() == ["age", "shift", "shift:sex"]
        assert found.results("hours").params.index.tolist() == ["Intercept", "C(shift)[T.night]", "age"]
        assert found.results("tired").nobs == n
        assert found.results("who").crosstab().shares.shape == (3, 4)
        assert set(found.rounds["analysis"]) == {"who", "hours", "tired"}
        assert "mu = 2 per person, for all analyses together" in repr(found)
        assert "<table>" in found._repr_html_()
        assert found.model("hours ~ age + C(shift)", {}).fit().nobs == n
        alone = Studies({"who": found["who"]})
        for asked in (found.results, found.table, found.live, found.__getitem__):
            for name in ("whom", ""):
                with pytest.raises(OptionError, match=r"is not known; choose one of 'who', 'hours', 'tired'"):
                    asked(name)
        for asked in (alone.results, alone.table, alone.live, alone.__getitem__, found["who"].results):
            with pytest.raises(OptionError, match=r"is not known; choose one of 'who'\. Did you mean 'who'"):
                asked("whom")
        for asked in (found.results, found.table):
            with pytest.raises(OptionError, match="several analyses; name one of 'who', 'hours', 'tired'"):
                asked()
        assert alone.results().nobs == n
        assert repr(alone.table()) == repr(found.table("who"))
        with pytest.raises(StudyError, match="a regression"):
            found.table("hours")
        with pytest.raises(StudyError, match="no plan of a fit"):
            _ = found["who"].plan
        told = json.loads(client.fetch(f"{url}/healthz").body)
        assert told == {"status": "ok"}
    for scheduler in one.schedulers:
        assert scheduler.replay() == len(scheduler.states)


def test_a_dashboard_has_every_analysis(several):
    with several.serve() as url:
        for i, link in enumerate(several.links(url)[:3]):
            assert respond(link, row=ROW, consent=True, memory=Memory(several.folder / f"{i}.db")).sent
        for plan, scheduler in zip(several.plans, several.schedulers, strict=True):
            import urllib.request

            head = {"Authorization": f"Bearer {ANALYST}"}
            address = f"{url}/v1/studies/sleep{plan.path}"
            got = {
                what: json.load(urllib.request.urlopen(urllib.request.Request(f"{address}/{what}", headers=head)))
                for what in ("progress", "results")
            }
            assert got["progress"]["people"] == got["results"]["people"] == 3
            assert got["results"]["ready"] == bool(plan.table)
            assert scheduler.store.people() == {0: 3}
    with pytest.raises(InferenceError):
        several.schedulers[1].results()


# --- two collectors ------------------------------------------------------------------------------------------


class Both(Several):
    """The same with two collectors, whose messages are handed over in this process."""

    def __init__(self, folder, n=40):
        doc = {**TWO, "collectors": [
            {**c, "key": wire.base(own.public[0]), "seal": wire.base(own.public[1]), "url": f"http://127.0.0.1:{port}"}
            for c, own, port in zip(TWO["collectors"], OWN, (8101, 8102), strict=True)]}  # fmt: skip
        self.place = 0
        super().__init__(folder, n, **doc)
        self.a, self.place = self.schedulers, 1
        self.b = [self.open(p, f"sqlite:///{folder / 'b.db'}") for p in self.plans]
        self.b[0].store.issue(SECRET)
        for one, other in zip(self.a, self.b, strict=True):
            one.post, other.post = other.answered, one.answered
        self.turn()

    def planned(self, folder, **more):
        made = plans_of(folder, **more)
        return tuple(p._replace(rounds=tuple(r._replace(least=2) for r in p.rounds)) for p in made)

    def scheduler(self, store, plan):
        def nobody(body):
            raise Away("not yet")

        return SumScheduler(store, OWN[self.place], nobody, self.clock, self.clock)

    def turn(self):
        for _ in range(60):
            self.clock.now += 1
            if not any([c.advance() for c in (*self.a, *self.b)]):
                break


@pytest.mark.thorough
def test_a_study_in_parts_is_combined_and_a_part_that_lies_is_outvoted(tmp_path, monkeypatch):
    n = 1_200
    more = {"analyses": None, "parts": 4, "formula": "hours ~ age + C(shift)", "family": "huber", "rows": n}
    one = Several(tmp_path, n=n, **more)
    with one.serve() as url, warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        link = f"{url}/studies/sleep/#k={KEY}"
        one.answered(link, folk(n), one.links(url), 100)
        found = pr.connect(link, token=ANALYST)
        with pytest.raises(StudyError, match="only a study with parts"):
            Studies({"part1": found["part1"]}).combined()
        before = None
        for _ in range(50):  # the server may be closing the last round
            whole, fits = found.combined(), [found.results(name) for name in found]
            y = np.array([fit.params["age"] for fit in fits])
            if before is not None and (y == before).all():
                break
            before = y
        i, j = np.triu_indices(4)
        assert sum(fit.nobs for fit in fits) == n
        assert whole.frame().loc["age"].estimate == pytest.approx(np.median((y[i] + y[j]) / 2))
        far = SimpleNamespace(**{k: getattr(fits[2], k) for k in ("bse", "nobs", "pvalues", "conf_int")})
        far.params = fits[2].params + 1e6
        monkeypatch.setattr(found["part3"], "_estimated", lambda: far)
        shift = found.combined().frame().loc["age"].estimate - whole.frame().loc["age"].estimate
        assert abs(shift) < np.ptp(np.delete(y, 2)) + np.ptp(y)

        def nothing():
            raise InferenceError("no reports of main rounds yet")

        monkeypatch.setattr(found["part3"], "_estimated", nothing)
        assert found.combined().frame().loc["age"].k == 3
        for name in ("part1", "part2"):
            monkeypatch.setattr(found[name], "_estimated", nothing)
        with pytest.raises(InferenceError, match="fewer than two parts"):
            found.combined()


def test_two_collectors_sum_every_analysis_by_itself(tmp_path):
    from starlette.testclient import TestClient

    both = Both(tmp_path)

    def app(schedulers):
        return application(*(SumService(c, Options(rate=0.0)) for c in schedulers))

    with TestClient(app(both.a)) as a, TestClient(app(both.b)) as b:

        def transport(address, body):
            one = a if ":8101" in address else b
            path = address.split("127.0.0.1", 1)[1].partition("/")[2]
            got = one.get(f"/{path}") if body is None else one.post(
                f"/{path}", content=body, headers={"Content-Type": "application/json"})  # fmt: skip
            return client.Answer(got.status_code, got.content)

        rows, sent = folk(12).to_dict("records"), 0
        for i, row in enumerate(rows):
            memory = Memory(tmp_path / f"{i}.db")
            link = keys.invitation("http://127.0.0.1:8101", "sleep", public(ROOT), both.tokens[i])
            given = {"row": row, "consent": True, "memory": memory, "transport": transport, "patience": 0}
            outcome = respond(link, clock=both.clock, **given)
            if not outcome.sent:  # a round was full
                both.turn()
                outcome = respond(link, clock=both.clock, **given)
            sent += outcome.sent
            assert len(memory.reports(public(ROOT), "sleep")) == 3
        assert sent == len(rows)
        both.turn()
        for scheduler in (*both.a, *both.b):
            assert sum(scheduler.people().values()) == len(rows)
        keys_beside = sorted(p.name for p in tmp_path.glob("study.db.*.key"))
        assert len(keys_beside) == 3  # a key for each analysis's open batch
        for scheduler in both.a:
            scheduler.store.mark("closed")
        for _ in range(30):
            both.turn()
    table_scheduler = both.a[0]
    assert table_scheduler.shares.batch(0).status == "published"
    res = table_scheduler.results()
    assert res.nobs == len(rows)
    assert "two collectors" in repr(res)
    table = res.table_one().frame()
    nobody = table["missing"] >= table["people"]  # of 12 people noise may leave nobody who has an age
    assert (np.isnan(table["estimate"]) == nobody).all()


# --- the device in JavaScript --------------------------------------------------------------------------------


def test_plans_of_analyses_that_python_refuses_are_refused(js, tmp_path):
    plans = plans_of(tmp_path)
    bad = [changed(plans, change) for change in WRONG_PLANS.values()]
    assert js("refusals", payloads=[wire.base(one) for one in bad]) == [True] * len(bad)


def test_tables_are_the_same_whole_numbers_in_both_languages(js, tmp_path):
    plans = plans_of(tmp_path)
    rng = np.random.default_rng(2)
    rows = [
        {"age": age, "shift": shift, "sex": sex}
        for age in (18, 54.3, "71,5", "71.5", None, 1e9, -3, *map(float, rng.uniform(10, 95, 40)))
        for shift in ("day", "night", "noon") for sex in ("x", None)
    ]  # fmt: skip
    said = js("plans", payload=wire.base(study.plan_payload(*plans)), ids=[], rows=rows)
    assert said["plans"][0]["wholes"] == [answer.whole(plans[0], row) for row in rows]


def test_a_page_answers_all_analyses_at_once_and_sends_what_was_lost_later(js, several, tmp_path):
    with several.serve() as url:
        base = {"link": several.links(url)[0], "memory": str(tmp_path / "me.json"), "now": NOON, "answers": ROW}
        got = js(
            "session",
            id="one",
            steps=["begin", "prepare", "send"],
            faults=["", "", "", "", 503, "", "", 503],
            patience=0,
            **base,
        )
        assert got["out"] is False, got
        kept = json.loads((tmp_path / "me.json").read_text())
        assert [e["slug"] for _, e in kept if e["report"]["body"]] == ["sleep/who"]
        assert [e["report"]["mu"] for _, e in kept] == [[2, 1], [0, 1], [0, 1]]
        assert several.people() == [0, 1, 1]
        got = js("session", id="two", steps=["begin", "send"], **base)
        assert got["out"] is True
        assert len(got["receipt"].split()) == 3
        assert several.people() == [1, 1, 1]
        assert js("session", id="three", steps=["begin"], **base)["receipt"] == got["receipt"]


@pytest.mark.thorough
def test_five_thousand_devices_answer_three_analyses_in_time(tmp_path):
    """Fetch to results, in one process with the server; some 60 seconds on two cores that do nothing else."""
    n = 5000
    one = Several(tmp_path, n=n, rows=n)
    began = time.monotonic()
    with one.serve() as url:
        answers = swarm(f"{url}/studies/sleep/#k={KEY}", folk(n), one.links(url), progress=False)
    took = time.monotonic() - began
    assert answers.statuses == {201: 3 * n}
    assert one.people() == [n, n, n]
    assert took < 90.0
