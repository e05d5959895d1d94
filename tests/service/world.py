"""A small study on the collector's side, for tests: its plan, its people, a clock that stands still."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privreg.privacy.ledger import Release
from privreg.simulation.streaming.stream import begin
from privreg_field.collector.messages import reports_of
from privreg_field.service import access
from privreg_field.service.access import Issuer
from privreg_field.service.scheduler import Scheduler
from privreg_field.service.store import open_store
from privreg_field.service.store.records import Arrived
from privreg_field.study import keys
from privreg_field.study.declaring import declared
from privreg_field.study.declaring.plan import study_plan
from privreg_field.study.reading.collected import fit_plan_of
from privreg_field.study.simulated.devices import Crowd
from privreg_field.wire import messages, study, wire
from privreg_field.wire.messages import Token
from tests.service import postgres
from tests.studies import DAY, NOON, ROOT, SERVER, public

SECRET = bytes(range(32))
ANALYST = "an analyst's token"
DECLARED = {
    "study": "sleep",
    "title": "Sleep",
    "purpose": "How sleep goes with age.",
    "contact": "study@example.org",
    "opens": "2026-01-01",
    "closes": "2040-01-01",
    "formula": "hours ~ age",
    "mu": 2,
    "rows": 1200,
    "bounds": {"age": [18, 90], "hours": [0, 24]},
    "questions": {"age": "How old are you?", "hours": "How long did you sleep?"},
}


DATABASES = {"sqlite": lambda folder: f"sqlite:///{folder / 'study.db'}", "postgres": postgres.address}
"""Addresses of a folder's database, of each kind that a study may be kept in."""

COPIES = {"sqlite": lambda folder, to: None, "postgres": postgres.copied}
"""Copies a folder's database to that of another folder, where it isn't in the folder."""

KINDS = [
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.skipif(bool(postgres.MISSING), reason=f"{postgres.MISSING} missing")),
]


class Clock:
    """Seconds since 1970 that a test sets."""

    def __init__(self, now=NOON):
        self.now = now

    def __call__(self):
        return float(self.now)


def plan_of(folder, **more):
    """The plan of the study, and its signed envelope."""
    path = Path(folder) / "study.json"
    path.write_text(json.dumps({**DECLARED, **more}))
    about, fit = declared.read(path)
    plan = study_plan(fit, fit.spec.design.trees(), about, [public(SERVER)])
    payload = study.plan_payload(plan)
    return plan, wire.hash_of(payload), keys.signed("plan", payload, ROOT)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 90, n)
    return pd.DataFrame({"age": age, "hours": np.clip(9 - 0.04 * age + rng.normal(0, 1, n), 0, 24)})


class World:
    """A study with a database, its collector and its people's devices."""

    def __init__(self, folder, n=1200, folk=None, database="sqlite", **more):
        self.folder, self.clock = Path(folder), Clock()
        self.plan, self.hash, self.envelope = plan_of(folder, **more)
        self.url = DATABASES[database](self.folder)
        self.open()
        if self.plan.tokens == "issued":
            self.store.issue(SECRET)
            self.store.handed_out(n)
        self.scheduler = Scheduler(self.store, SERVER, self.clock, self.clock)  # whose clocks go alike
        self.crowd = Crowd(self.plan, self.hash, people(n) if folk is None else folk)
        self.tokens = list(Issuer(1, SECRET, self.hash).tokens(n))
        if self.plan.tokens == "open":
            self.tokens = [Token(0, t.id, bytes(messages.MAC)) for t in self.tokens]
        self.next = 0

    def open(self):
        self.store = open_store(self.url, self.plan.study, beside=self.folder / "study.db")
        self.store.enter(self.hash, self.envelope, access.first_of(ANALYST))

    @property
    def state(self):
        return messages.read_state(self.scheduler.present.payload, self.plan, self.hash)

    def states_of(self, k):
        """A state that was published."""
        return messages.read_state(self.scheduler.states[k].payload, self.plan, self.hash)

    def bodies(self, count, state=None):
        """What the next people's devices post."""
        who = range(self.next, self.next + count)
        self.next += count
        return self.crowd.bodies(self.state if state is None else state, who, [self.tokens[i] for i in who])

    def arrived(self, body):
        """A body as the application hands it to the store."""
        report = messages.read_report(body, self.plan, self.hash)
        group = messages.group_of(self.plan, report.role, messages.place_of(self.hash, report.token))
        values = np.array(report.values, dtype="<i4").tobytes()
        return Arrived(report.token.id, report.state, report.role, group, hashlib.sha256(body).digest(), values)

    def answer(self, count):
        """Let so many answer, a state after the other."""
        while count:
            some = min(count, 50)
            self.store.take([self.arrived(b) for b in self.bodies(some)], {})
            while self.scheduler.advance():
                pass
            count -= some


# --- the same reports in process -----------------------------------------------------------------------------


def summed(plan, reports):
    """Reports of one state, added up one by one."""
    (role,) = {place.role for place, _ in reports}
    form = plan.roles[role]
    count, sums = np.zeros((1, form.groups), np.int64), np.zeros((1, form.groups, form.numbers), np.int64)
    for place, values in reports:
        count[0, place.group] += 1
        sums[0, place.group] += np.frombuffer(values, dtype="<i4")
    return reports_of(form, count, sums)


def in_process(world):
    """Results of a fit by rounds in this process, with the reports of the database, none of which was late."""
    fit = fit_plan_of(world.plan)
    stream = begin(fit.spec, fit.asked, fit.start_params, None, fit.rows)
    run, told = stream._run, {}
    for place, values in world.store.reports():
        told.setdefault(place.state, []).append((place, values))
    last = len(world.store.snapshots())
    assert last > 15
    for state in range(last):
        run.chain = run.chain.closed(summed(world.plan, told[state]))
    run._begin()
    if last in told:  # how many a round takes depends on reports, whose noise is secret
        here = summed(world.plan, told[last])
        run.weight, run.total, run.at = here.weight, here.total, here.people
    run._open()
    return stream._results(Release(0, 2.0))


def assert_same(one, other):
    """Results that are equal to the last bit."""
    for name in ("params", "bse", "pvalues"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.conf_int(), other.conf_int())
    assert np.isfinite(one.params).all()
    assert one.nobs == other.nobs


__all__ = [
    "ANALYST", "COPIES", "DATABASES", "DAY", "DECLARED", "KINDS", "NOON", "ROOT", "SECRET", "SERVER", "Clock",
    "Scheduler", "World", "assert_same", "in_process", "keys", "people", "plan_of", "public",
]  # fmt: skip
