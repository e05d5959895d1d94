"""A study with two collectors that play fair, in one process: what both publish, with noise, of made-up people."""

import json

import numpy as np

from privreg.collector.aggregate import report
from privreg.collector.design import Batch
from privreg.errors import StudyError
from privreg.protocol.sums import LETTERS
from privreg_field.collector import batches as chain
from privreg_field.study import servers
from privreg_field.study.reading import shared
from privreg_field.wire import messages, peers, study, wire
from tests.field.test_two_collectors import COLLECTORS, plan_of
from tests.studies import ROOT, field_state, key_of, public, signed, token

SIGNERS = dict(zip(LETTERS, (key_of(11), key_of(12)), strict=True))
URLS = [f"{one.url}/v1/studies/sleep" for one in COLLECTORS]
KEY = wire.base(public(ROOT))
TRUE = [0.1, 0.2, 0.0, 0.1]


class Two:
    """Both collectors.

    `answer` is what one has at a path; `edit(letter, path, data)` may change it on its way.
    """

    def __init__(self, **more):
        self.plan = plan_of(**more)
        payload = study.plan_payload(self.plan)
        self.hash, self.envelope = wire.hash_of(payload), signed("plan", payload, ROOT)
        self.rng = np.random.default_rng(4)
        self.chain, self.batches, self.states, self.issued = shared.chain_of(self.plan), [], [], 2_500
        self.engine = self.chain.plan
        self.came = {"a": 0, "b": 0}
        self.edit = lambda letter, path, data: data
        self.publish()

    # --- what they do ----------------------------------------------------------------------------------

    def publish(self, *, is_open=True):
        before = wire.hash_of(self.states[-1][0]) if self.states else self.hash
        ask, number = chain.present_ask(self.chain), len(self.batches)
        said = field_state(self.hash, ask, number=number, before=before, open=is_open)
        payload = messages.state_payload(said)
        self.states.append((payload, signed("state", payload, *SIGNERS.values())))
        self.came = {"a": 0, "b": 0}

    def total(self, n):
        """Sum of reports of so many made-up people, with both collectors' noise."""
        engine, state = self.engine, self.chain.progress.state
        x = np.column_stack([np.ones(n), self.rng.uniform(-1, 1, n), *(self.rng.random((2, n)) < 0.3)])
        x = np.clip(x, engine.lows, engine.highs)
        y = np.clip(x @ TRUE + 0.2 * self.rng.standard_normal(n), engine.y_low, engine.y_high)
        flags = np.zeros((n, engine.bounded), dtype=bool)
        exact = report.steps(engine, state).whole(report.vectors(engine, state, y, x, None, flags)).sum(axis=0)
        return report.noised(engine, state, exact, tuple(self.rng.standard_normal((2, len(exact)))))

    def batch(self, n=None, *, total=None, lost=False, is_open=True):
        """Close a batch, and publish the next state."""
        k, ends = len(self.batches), self.chain.ask.ends
        n = (900 if ends is None else ends) if n is None else n
        if lost:
            self.batches.append({letter: {"k": k, "people": 0, "status": "lost"} for letter in LETTERS})
        else:
            total = self.total(n) if total is None else total
            words = self.rng.integers(0, 1 << 64, len(total), dtype=np.uint64)
            listed = peers.list_hash(token(1000 * k + i).id for i in range(n))
            parts = {"a": total.view(np.uint64) - words, "b": words}
            made = {letter: self.published(letter, k, n, listed, parts[letter]) for letter in LETTERS}
            for one, other in (LETTERS, LETTERS[::-1]):
                made[one]["other_hash"] = wire.base(wire.hash_of(wire.dumps(made[other]["value"])))
            self.batches.append(made)
        self.chain = self.chain.closed(None if lost else Batch(n, total))
        self.publish(is_open=is_open)

    def published(self, letter, k, n, listed, words, **more):
        """What one publishes of a batch."""
        value = peers.Signed("value", letter, k, people=n, listed=listed, words=words.astype("<u8").tobytes())
        value = value._replace(**more)
        envelope = signed("value", peers.signed_payload(value, self.hash), SIGNERS[letter])
        return {
            "k": k, "people": n, "status": "published", "list_hash": wire.base(listed), "value": json.loads(envelope),
            "other_hash": wire.base(bytes(32)), "vouched": True,
        }  # fmt: skip

    def all(self):
        """Early rounds and the main round."""
        while self.chain.ask.ends is not None:
            self.batch()
        self.batch(is_open=False)
        return self

    # --- what they answer ------------------------------------------------------------------------------

    def answer(self, letter, path):
        if path == "plan":
            return self.envelope
        if path == "sums":
            here = {"k": len(self.batches), "people": self.came[letter], "status": "open"}
            is_open = json.loads(self.states[-1][0])["open"]
            head = {"v": 1, "study": "sleep", "plan_hash": wire.base(self.hash), "collector": letter}
            batches = [one[letter] for one in self.batches] + [here] * is_open
            return json.dumps({**head, "issued": self.issued, "batches": batches}).encode()
        if path == "progress":
            outcomes = ("new", "same", "other", "refused")
            bins = {"width": 1, "first": 29_000_000, **{name: [0] for name in outcomes}}
            status = "open" if json.loads(self.states[-1][0])["open"] else "closed"
            said = {"status": status, "totals": dict.fromkeys(outcomes, 0), "recent": bins, "whole": bins}
            return json.dumps(said).encode()
        k = int(path.removeprefix("states/"))
        if k >= len(self.states):
            raise servers.NotThereError("no such state")
        return self.states[k][1]

    def fetched(self, base, path, token=None):
        if base not in URLS:
            raise StudyError("unreachable")
        letter = LETTERS[URLS.index(base)]
        assert token == f"token of {letter}"
        return self.edit(letter, path, self.answer(letter, path))
