"""Plans and states of studies with two collectors: made, written, read, and refused where they can't be kept."""

import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from privreg.collector.aggregate import report
from privreg.collector.aggregate.plan import State
from privreg.collector.design import Batch
from privreg.errors import OptionError, StudyError
from privreg.fits.outcome import Senders
from privreg.protocol import lattice as radii
from privreg.protocol.lattice import Mu
from privreg.protocol.sums import LETTERS, SumAsk
from privreg.simulation.streaming.encoding import Encoder
from privreg_field.collector import batches as chain
from privreg_field.device.report import answer, score
from privreg_field.device.report import sums as device
from privreg_field.study.declaring import declared
from privreg_field.study.declaring.plan import study_plan
from privreg_field.study.reading import shared
from privreg_field.study.simulated.devices import SharedCrowd
from privreg_field.wire import messages, peers, study, wire
from privreg_field.wire.collectors import Collector
from privreg_field.wire.wire import MessageError
from tests.studies import NOON, field_state, key_of, public, token

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
DECLARED = {
    "formula": "hours ~ age + C(shift)",
    "rows": 2_000,
    "mu": 1,
    "trust": "two_collectors",
}
SCHEMA = {
    "bounds": {"age": [18, 90], "hours": [0, 24], "ill": [0, 1], "visits": [0, 20]},
    "levels": {"shift": ["day", "night", "both"], "ended": ["seen", "ill", "left"]},
}
FAMILIES = {
    "huber": "hours ~ age + C(shift)",
    "squared": "hours ~ age",
    "expectile": "hours ~ age",
    "quantile": "hours ~ age",
    "logistic": "ill ~ age + C(shift)",
    "ordered": "shift ~ age",
    "poisson": "visits ~ age",
    "hazards": "Surv(start, years, died, [2, 5, 10]) ~ age + C(shift)",
}
QUESTIONS = ("age", "hours", "shift", "ill", "visits", "years", "died", "start", "ended")
COLLECTORS = tuple(
    Collector(f"Office {who}", f"https://{who}.example.org", f"{who}@example.org", public(key_of(k)), bytes([k]) * 32)
    for k, who in ((11, "a"), (12, "b"))
)


def plan_of(family="huber", collectors=COLLECTORS, **more):
    """The plan of a study with two collectors."""
    options = {"poisson": {"poisson": {"y_max": 20}}, "quantile": {"quantile": {"tau": 0.4}}}
    from privreg.schema.declarations import Schema

    asked = {
        **DECLARED,
        "formula": FAMILIES.get(family, FAMILIES["logistic"]),
        "family": options.get(family, family),
        **more,
    }
    if family == "hazards":  # which the formula says
        del asked["family"]
    if family == "expectile":
        asked["family"] = {"expectile": {"tau": 0.3}}
    text = json.dumps({"schema": Schema.from_document(SCHEMA).to_json(), "asked": asked})
    about = declared.About(
        study="sleep", title="Sleep", purpose="Sleep and work.", contact="s@example.org", opens=NOON,
        closes=NOON + 10**6, questions={n: f"{n}?" for n in QUESTIONS},
        model={"declared": text}, collectors=collectors,
    )  # fmt: skip
    fit = declared.fit_of(text)
    return study_plan(fit, fit.spec.design.trees(), about, [c.key for c in collectors])


@pytest.mark.some(1)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_plan_is_read_as_it_was_written_and_makes_the_same_rounds(family):
    plan = plan_of(family)
    assert study.read_plan(study.plan_payload(plan)) == plan
    engine = shared.chain_of(plan).plan
    assert chain.roles_of(engine) == plan.roles
    assert chain.sums_of(engine) == plan.sums
    assert {r.role for r in plan.rounds} == set(plan.roles)
    for name, role in plan.roles.items():
        assert role.numbers == engine.width(name)
        square = plan.distance2(name)
        assert square == engine.distance2(name)
        assert radii.is_private(role.form, role.numbers, role.radius, plan.mu, plan.bits, square)
        assert not radii.is_private(role.form, role.numbers, role.radius + 1, plan.mu, plan.bits, square)


FORMULAS = ("Surv(start, years, died, [2, 5, 10]) ~ age + C(shift)", "Surv(years, ended, [3, 6], cause='ill') ~ age")


@pytest.mark.thorough
@pytest.mark.parametrize("formula", [*FORMULAS, "Surv(years, died, [4]) ~ C(shift)"])
def test_devices_report_times_until_an_event_as_a_simulation_does(formula):
    """Answers of any kind, in every role, at states drawn at random."""
    plan, rng, n = plan_of("hazards", formula=formula), np.random.default_rng(5), 400
    fit, engine, order = shared._begun(plan)
    people = pd.DataFrame(
        {"age": rng.uniform(10, 99, n), "years": rng.uniform(-1, 14, n), "died": rng.integers(0, 2, n)}
    )
    people["start"] = np.where(rng.random(n) < 0.5, 0.0, rng.uniform(-0.5, 6, n))
    people["shift"] = rng.choice(["day", "night", "both", "none"], n, p=[0.4, 0.3, 0.25, 0.05])
    people["ended"] = rng.choice(["seen", "ill", "left"], n)
    people.loc[:30, "years"], people.loc[20:60, "start"] = rng.choice([2.0, 3.0, 5.0, 6.0, 10.0], 31), 2.0
    for column in ("age", "years", "died", "start"):
        people.loc[rng.choice(n, 9), column] = np.nan
    j = len(plan.sums.cuts)
    rows = Encoder(fit.spec, order, None, by_column=False).encode(people)
    y, offset, x = rows.y.reshape(n, j), rows.offset.reshape(n, j), rows.x.reshape(n, j, -1)
    d, events = plan.d, 0.0
    for role, most in [
        ("location", 1.0),
        ("moments", 1.0),
        ("approach", 0.3),
        ("main", 1.0),
        ("main", 2.5),
        ("main", 4.0),
        ("main", 40.0),
    ]:
        z, theta = np.eye(d) + 0.3 * rng.standard_normal((d, d)), rng.standard_normal(d) - np.eye(d)[0]
        state = State(1, role, z, theta, 0.0, 1.0, 1.0, 3.0, longest=1.5, most=most)
        wanted = report.vectors(engine, state, y, x, offset)
        given = SumAsk(role, 2**32, tuple(map(tuple, z)), tuple(theta), 0.0, 1.0, 1.0, 3.0, 1.5, 10**5, most)
        events += np.abs(wanted).sum()
        for row, one in zip(people.to_dict("records"), wanted, strict=True):
            made = device.of_person(
                plan, given, answer.rows_of(plan, [{k: None if v != v else v for k, v in row.items()}])
            )
            if role == "moments":
                made = score.over_rows(made, len(one), lambda u: device.products(u, 1.0))
            np.testing.assert_allclose(made or np.zeros(len(one)), one, atol=1e-12)
    assert events > n


def test_hazards_that_are_not_proportional_are_refused_in_the_field():
    with pytest.raises(OptionError, match="proportional"):
        plan_of("hazards", formula="Surv(years, died, [2, 5]) ~ age * C(interval)")


@pytest.mark.parametrize("mu", [Mu(1, 1), Mu(1, 2), Mu(7, 3), Mu(1, 1000), Mu(10, 1)])
@pytest.mark.parametrize("form", radii.SUM_FORMS)
def test_radii_of_sums_are_the_largest_that_keep_the_budget(form, mu):
    bits = radii.bits_of_sums(mu)
    noise = mu.p / mu.q * 2.0**bits
    assert 2**20 <= noise < 2**21
    for numbers in (2, 10, 78, 1000):
        radius = radii.radius(form, numbers, mu, bits)
        wanted = {
            radii.UNIT: (noise - math.sqrt(numbers) - 2.0) / 2.0,
            radii.PSD: (noise - math.sqrt(numbers) - 2.0) / math.sqrt(2.0),
            radii.SWITCHES: noise,
            radii.BLOCKS: noise,
        }[form]
        assert radius == math.floor(wanted)
        assert not radii.is_private(form, numbers, radius + 1, mu, bits)
        assert (radii.unit_of_sums(form, numbers, radius) < radius) == (form == radii.SWITCHES)
        for square in (Fraction(24278, 10_000), Fraction(4_000_000, 3_772_225)):
            radius = radii.radius(radii.UNIT, numbers, mu, bits, square)
            assert radius == math.floor((noise - math.sqrt(numbers) - 2.0) / math.sqrt(square))


def test_states_are_read_as_they_were_written_and_results_follow_from_sums():
    plan = plan_of()
    payload = study.plan_payload(plan)
    named, held, rng = wire.hash_of(payload), shared.chain_of(plan), np.random.default_rng(4)
    engine, before, batches = held.plan, named, []
    for _ in range(12):
        state = held.progress.state
        said = state_of(held, named, before)
        written = messages.state_payload(said)
        assert messages.read_state(written, plan, named) == said
        before = wire.hash_of(written)
        ends = held.ask.ends
        n = 800 if ends is None else ends
        x = np.column_stack([np.ones(n), rng.uniform(-1, 1, n), *(rng.random((2, n)) < 0.3)])
        x = np.clip(x, engine.lows, engine.highs)
        y = np.clip(x @ [0.1, 0.2, 0.0, 0.1] + 0.2 * rng.standard_normal(n), engine.y_low, engine.y_high)
        flags = np.zeros((n, engine.bounded), dtype=bool)
        steps = report.steps(engine, state)
        exact = steps.whole(report.vectors(engine, state, y, x, None, flags)).sum(axis=0)
        drawn = tuple(rng.standard_normal((2, len(exact))))
        batches.append(Batch(n, report.noised(engine, state, exact, drawn)))
        held = held.closed(batches[-1])
        if ends is None:
            break
    assert ends is None
    assert held.progress.refused == ()
    res = shared.results(plan, shared.follow(plan, batches), Senders())
    assert res.nobs == sum(b.people for b in batches)
    assert np.isfinite(res.bse).all()


def test_a_sum_that_no_reports_can_have_is_left_out_and_others_are_asked_the_same():
    held = shared.chain_of(plan_of())
    engine = held.plan
    size, steps = engine.width(held.progress.state.role), report.steps(engine, held.progress.state)
    far = np.zeros(size, dtype=np.int64)
    far[0] = int(40.0 * steps.unit + 40.0 * steps.sd)
    after = held.closed(Batch(20, far))
    assert after.progress.refused == (0,)
    assert after.progress.state == held.progress.state._replace(number=1)
    assert after.progress.held == (20,)
    fine = held.closed(Batch(20, np.zeros(size, dtype=np.int64)))
    assert fine.progress.refused == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": COLLECTORS[0].name}, "same name"),
        ({"url": COLLECTORS[0].url}, "same url"),
        ({"key": COLLECTORS[0].key}, "same key"),
        ({"seal": COLLECTORS[0].seal}, "same seal"),
        ({"url": "ftp://b.example.org"}, "'url'"),
        ({"url": "https://b.example.org/#x"}, "'url'"),
    ],
)
def test_one_collector_that_plays_both_is_refused(change, words):
    two = (COLLECTORS[0], COLLECTORS[1]._replace(**change))
    with pytest.raises(OptionError, match=words):
        plan_of(collectors=two)


def test_a_study_names_two_collectors_or_none():
    with pytest.raises(OptionError, match="names its two collectors"):
        plan_of(collectors=())
    with pytest.raises(OptionError, match="no collectors to name"):
        plan_of(trust="local")
    plan = plan_of()
    said = json.loads(study.plan_payload(plan))
    said["sums"]["top"] = (2.0 * plan.sums.top).hex()
    with pytest.raises(StudyError, match="sign it anew"):
        shared.chain_of(study.read_plan(json.dumps(said).encode()))
    said = json.loads(study.plan_payload(plan))
    said["roles"]["main"]["radius"] += 1
    with pytest.raises(MessageError, match="breaks the budget"):
        study.read_plan(json.dumps(said).encode())
    said = json.loads(study.plan_payload(plan))
    said["sums"] = {k: v for k, v in said["sums"].items() if k not in {"format", "rate"}} | {"reach": "0x1p+1"}
    with pytest.raises(MessageError, match="plan is of two collectors of an earlier version"):
        study.read_plan(json.dumps(said).encode())
    said = json.loads(study.plan_payload(plan))
    said["sums"]["format"] = 2
    with pytest.raises(MessageError, match="plan is of two collectors of an earlier version"):
        study.read_plan(json.dumps(said).encode())
    old = json.loads(messages.state_payload(state_of(shared.chain_of(plan), named := bytes(32))))
    del old["asks"][0]["reach"]
    with pytest.raises(MessageError, match="state is of two collectors of an earlier version"):
        messages.read_state(json.dumps(old).encode(), plan, named)
    said = json.loads(study.plan_payload(plan))
    said["keys"] = said["keys"][::-1]
    with pytest.raises(MessageError, match="in order"):
        study.read_plan(json.dumps(said).encode())


def test_what_only_a_simulation_can_do_is_refused_by_name():
    with pytest.raises(OptionError, match=r"huber, .* poisson, .*and not yet SmoothedHinge"):
        plan_of("smoothed_hinge")
    with pytest.raises(OptionError, match="leave measures= out"):
        plan_of(measures=0.1)


def test_shares_and_what_collectors_sign_are_read_as_they_were_written():
    plan = plan_of()
    named = wire.hash_of(study.plan_payload(plan))
    sealed = bytes(peers.WORD * plan.roles["main"].numbers + peers.BESIDE)
    share = peers.Share(named, 3, "main", token(5), sealed)
    body = peers.share_body(share)
    assert len(body) <= plan.limit
    assert peers.read_share(body, plan, named) == share
    assert peers.share_info("a", named, token(5)) != peers.share_info("b", named, token(5))
    with pytest.raises(MessageError, match="another plan"):
        peers.read_share(body, plan, bytes(32))
    with pytest.raises(MessageError, match="base64url of"):
        peers.read_share(peers.share_body(share._replace(sealed=sealed[1:])), plan, named)
    ids = b"".join(token(k).id for k in (1, 2, 9))
    for kind in peers.KINDS:
        one = peers.Signed(
            kind, "b", 3,
            **{n: v for n, v in {
                "status": "fixed", "ids": ids, "listed": peers.list_hash(peers.ids_of(ids)), "value": bytes(32),
                "people": 3, "words": bytes(80), "payload": b"{}", "nonce": bytes(16),
            }.items() if n in peers.MEMBERS[kind]},
        )  # fmt: skip
        assert peers.read_signed(kind, peers.signed_payload(one, named), named) == one
    turned = peers.Signed("offer", "a", 3, ids=ids[16:] + ids[:16])
    with pytest.raises(MessageError, match="no collector writes"):
        peers.read_signed("offer", peers.signed_payload(turned, named), named)


# --- a crowd -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sealed():
    """A plan whose collectors' seal keys are known, those keys, and its hash."""
    secret = [X25519PrivateKey.generate() for _ in LETTERS]
    plan = plan_of(collectors=tuple(
        one._replace(seal=key.public_key().public_bytes_raw()) for one, key in zip(COLLECTORS, secret, strict=True)
    ))  # fmt: skip
    return plan, secret, wire.hash_of(study.plan_payload(plan))


def state_of(held, named, before=None):
    return field_state(named, chain.present_ask(held), number=len(held.batches), before=before)


def hash_of(state):
    return wire.hash_of(messages.state_payload(state))


def rows_of(n, seed=3):
    rng = np.random.default_rng(seed)
    rows = {"age": rng.uniform(10, 95, n), "hours": rng.uniform(-2, 26, n), "shift": rng.choice(["day", "both"], n)}
    rows["age"][0] = np.nan
    return rows


def test_a_crowds_shares_are_sealed_to_both_and_add_up_to_reports(sealed):
    plan, secret, named = sealed
    held, n = shared.chain_of(plan), 50
    crowd, tokens = SharedCrowd(plan, named, rows_of(n)), [token(k) for k in range(n)]
    engine, seen = held.plan, set()
    while held.progress.state.role not in seen:
        inside = held.progress.state
        seen.add(inside.role)
        state = state_of(held, named)
        twice = [crowd.posts(state, range(n), tokens) for _ in range(2)]
        opened = [_opened(plan, secret, named, state, posts, tokens) for posts in twice]
        numbers = plan.roles[inside.role].numbers
        reports = [(parts[0] + parts[1]).view(np.int64) for parts in opened]
        np.testing.assert_array_equal(*reports)
        assert (opened[0] != opened[1]).mean() > 0.99  # fresh shares
        x, y, flags = crowd._held.x, crowd._held.y, crowd._held.clamped
        made = report.vectors(engine, inside, y, x, None, flags)
        np.testing.assert_array_equal(reports[0], report.steps(engine, inside).whole(made))
        assert not reports[0][0].any()  # whose record can't be used
        assert reports[0][1:].any(axis=1).all()
        top = opened[0].view(np.uint64) >> np.uint64(63)  # of a share alone, as a coin: 5 sd
        for part in top:
            assert abs(part.mean() - 0.5) < 2.5 / math.sqrt(n * numbers)
        held = held.closed(Batch(500, np.zeros(numbers, dtype=np.int64)))
    assert {"clamping", "moments"} <= seen


def _opened(plan, secret, named, state, posts, tokens):
    """What either collector reads of all bodies; shape (2, n, numbers)."""
    role = plan.roles[state.asks[0].role]
    out = np.zeros((2, len(posts), role.numbers), dtype=np.uint64)
    for i, bodies in enumerate(posts):
        for place, body in enumerate(bodies):
            share = peers.read_share(body, plan, named)
            assert (share.state, share.token) == (state.number, tokens[i])
            info = peers.share_info(LETTERS[place], hash_of(state), tokens[i])
            words = SUITE.decrypt(share.sealed, secret[place], info)
            out[place, i] = np.frombuffer(words, dtype="<u8")
    return out


def test_a_share_opens_for_its_collector_state_and_token_alone(sealed):
    plan, secret, named = sealed
    state = state_of(shared.chain_of(plan), named)
    ((body, _),) = SharedCrowd(plan, named, rows_of(1)).posts(state, [0], [token(7)])
    sealed_share = peers.read_share(body, plan, named).sealed
    right = ("a", hash_of(state), token(7))
    assert SUITE.decrypt(sealed_share, secret[0], peers.share_info(*right))
    again = hash_of(state._replace(nonces=bytes([1] * 32)))  # the same question, asked once more
    for place, other in ((1, right), (0, ("b", *right[1:])), (0, ("a", bytes(32), token(7))),
                         (0, ("a", again, token(7))), (0, (*right[:2], token(8)))):  # fmt: skip
        with pytest.raises(InvalidTag):
            SUITE.decrypt(sealed_share, secret[place], peers.share_info(*other))
