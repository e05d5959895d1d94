"""What an analyst believes of two collectors: what both signed, bear out, and don't take back."""

import json

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.aggregate import report
from privreg.errors import InferenceError, OptionError, StudyError
from privreg_field.study import servers
from privreg_field.study.reading import picture, shared
from privreg_field.study.reading.connect import main as results
from privreg_field.wire import messages, study, wire
from tests.field.two import COLLECTORS, KEY, SIGNERS, URLS, Two
from tests.studies import ROOT, key_of, public, signed, study_plan

TOKENS = ["token of a", "token of b"]

pytestmark = pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")


@pytest.fixture(scope="module")
def finished():
    return Two().all()


@pytest.fixture
def over(finished, monkeypatch):
    """A study that is over, and may be lied about."""
    monkeypatch.setattr(servers, "fetched", finished.fetched)
    yield finished
    finished.edit = lambda letter, path, data: data


@pytest.fixture
def fresh(monkeypatch):
    """A study that nobody has answered."""
    one = Two()
    monkeypatch.setattr(servers, "fetched", one.fetched)
    return one


def connected(urls=URLS, token=TOKENS, key=KEY):
    return pr.connect(urls, token, key=key)


# --- results -------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("turned", [False, True])
def test_results_are_those_of_the_sums_of_both_in_any_order(over, turned):
    study = connected(*([URLS[::-1], TOKENS[::-1]] if turned else [URLS, TOKENS]))
    res = study.results()
    batches = over.chain.batches
    alone = shared.results(over.plan, shared.follow(over.plan, batches), shared.senders_of(over.plan, over.chain))
    np.testing.assert_array_equal(res.params, alone.params)
    np.testing.assert_array_equal(res.bse, alone.bse)
    assert res.nobs == sum(b.people for b in batches)
    frame = study.rounds
    assert frame["reports"].tolist() == [b.people for b in batches]
    assert frame["role"].iloc[-1] == "main"
    pd.testing.assert_frame_equal(study.rounds, frame)  # what is known is kept


def test_advice_on_measures_is_none_that_two_collectors_lack(over):
    res = connected().results()
    with pytest.raises(AttributeError, match=r"res\.evaluate") as e:
        _ = res.rsquared
    assert "measures=" not in str(e.value)
    assert "measures:" not in str(e.value)
    with pytest.raises(InferenceError, match="no measures of fit, and none can"):
        _ = res.fit_measures


@pytest.mark.thorough
def test_results_name_both_collectors_and_what_each_can_do(over, tmp_path):
    res = connected().results()
    said = str(res.privacy)
    words = " ".join(said.split())
    for text in (
        "1-GDP, hence (4.89, 1e-06)-DP against either collector, Office a or Office b",
        "0.7072-GDP of this release",
        "if both add their noise",
        "Office a and Office b: no guarantee: their two shares of a report add up to it",
        "two collectors that don't collude, Office a and Office b: people's own devices",
        "rounded Gaussian on sums, each collector adds noise to its sum once",
        "Office a at https://a.example.org and Office b at https://b.example.org",
        "√2 times mu",
    ):
        assert text in words
    assert "floating" not in words
    summary = " ".join(res.summary().as_text().split())
    missing = over.issued - res.nobs
    assert f"Protocol: {len(over.batches)} batches, {missing:,} of 2,500 invited are in no sum: they sent" in summary
    assert "this process never saw a row" in " ".join(res.summary(details=True).as_text().split())
    res.save(tmp_path / "res.npz")
    assert str(pr.load(tmp_path / "res.npz").privacy) == said
    verified = res.privacy.verify(1000)
    assert verified.passed


def test_a_batch_that_was_lost_or_is_impossible_is_said(fresh):
    study = connected()
    fresh.batch(lost=True)
    steps = report.steps(fresh.engine, fresh.chain.progress.state)
    far = np.zeros(fresh.engine.width(fresh.chain.progress.state.role), dtype=np.int64)
    far[0] = int(400.0 * steps.unit + 40.0 * steps.sd)
    fresh.batch(200, total=far)
    assert fresh.chain.progress.refused == (0, 1)
    fresh.all()
    res = study.results()
    first = fresh.chain.history[0].state.role
    notes = [note for note in res.privacy.notes if note.code == "left_out"]
    assert len(notes) == 1
    assert f"batch 0 ({first}) was lost; batch 1 ({first}) is none that so many reports have" in notes[0]
    assert f"{len(fresh.batches)} batches, 1 lost, 1 left out" in " ".join(res.summary(details=True).as_text().split())
    assert res.nobs == sum(b.people for b in fresh.chain.batches)


@pytest.mark.some(1)
@pytest.mark.parametrize(("deaf", "earlier"), [("b", False), ("ab", False), ("a", True)])
def test_an_analyst_sees_which_people_rest_on_one_collectors_word(fresh, deaf, earlier):
    fresh.all()
    assert "unvouched" not in {note.code for note in connected().results().privacy.notes}
    k = len(fresh.batches) - 1 if earlier else 1
    for letter in deaf:
        fresh.batches[k][letter]["vouched"] = False
        if earlier:  # collectors of an earlier release say nothing of it
            del fresh.batches[k][letter]["vouched"]
    study, batch = connected(), fresh.chain.batches[k]
    res = study.results()
    people, share = f"{batch.people:,} of {res.nobs:,}", 100.0 * batch.people / res.nobs
    said = f"{share:.1f}% of people, {people}, on one collector's word"
    (note,) = [note for note in res.privacy.notes if note.code == "unvouched"]
    assert note.severity == "caution"
    named = " and ".join(f"Office {letter} (batch {k})" for letter in deaf)
    assert f"{said}: when the sum of {named} left, that the other committed to its sum before is not vouched" in note
    for shown in (res.summary().as_text(), repr(study)):
        assert said in " ".join(shown.split())


@pytest.mark.thorough
def test_a_study_is_followed_as_it_goes_on(fresh):
    study = connected()
    assert "0 of 2,500 invited, in 0 sums" in repr(study)
    ends = fresh.chain.ask.ends
    with pytest.raises(InferenceError, match=f"the round 'clamping' has 0 reports, and ends when it has {ends}"):
        study.results()
    fresh.batch()
    fresh.came.update(a=30, b=28)
    said = " ".join(repr(study).split())
    people = fresh.chain.batches[0].people
    assert "Office a (https://a.example.org) and Office b (https://b.example.org)" in said
    assert f"Office a: 1 batches over, {people + 30} reports; Office b: 1 batches over, {people + 28} reports" in said
    assert "against either collector" in said
    assert max(map(len, repr(study).split("\n"))) <= 80
    frame = study.rounds
    assert frame["reports"].tolist() == [people, 28]
    assert frame["closes_at"].iloc[1] == fresh.chain.ask.ends
    told = picture._progress(picture.Followed("sleep", study._counts, study._estimated))
    assert (told["people"], told["issued"], told["status"]) == (people + 28, 2_500, "open")
    assert told["rounds"][0] == {
        "state": 0, "role": "clamping", "reports": people, "ends": None, "fetched": 0, "open": False
    }  # fmt: skip
    ends = fresh.chain.ask.ends
    assert [told["rounds"][1][name] for name in ("reports", "ends", "open")] == [28, ends, True]
    while fresh.chain.ask.ends is not None:
        fresh.batch()
    with pytest.raises(InferenceError, match="the round 'main' has 0 reports, and ends when it is closed, by `privreg"):
        study.results()
    fresh.all()
    assert "closed" in repr(study)
    assert json.loads(study._counts())["status"] == "closed"
    assert "<td>" in study._repr_html_()
    assert study.results().nobs == sum(b.people for b in fresh.chain.batches)
    assert pr.simulate(study.plan, {"age": [40.0] * 2000, "hours": [7.0] * 2000, "shift": ["day"] * 2000}).nobs == 2000


@pytest.mark.some(1)
@pytest.mark.parametrize("batches", [0, 1])
def test_a_study_that_closed_without_a_main_round_says_so_and_no_round_is_waited_for(fresh, batches):
    if batches:
        fresh.batch(is_open=False)
    else:
        fresh.batch(lost=True, is_open=False)
    study = connected()
    with pytest.raises(InferenceError, match="has closed before its main round had a sum: there are no estimates"):
        study.results()
    told = picture._progress(study.followed)
    assert (told["status"], [one["lags"] for one in told["collectors"]]) == ("closed", [False, False])


@pytest.mark.thorough
def test_a_collector_that_lags_is_named_and_waited_for(fresh):
    study = connected()
    fresh.batch()
    before = dict(fresh.batches[0]["b"])
    fresh.batches[0]["b"] = {"k": 0, "people": before["people"], "status": "fixed"}
    said = " ".join(repr(study).split())
    assert "Office b: " in said
    assert f"0 batches over, {before['people']} reports, lags" in said.partition("Office b: ")[2]
    assert "in 0 sums" in said
    assert "lags" not in said.partition("Office b: ")[0].partition("Office a: ")[2]
    assert [one["lags"] for one in json.loads(study._counts())["collectors"]] == [False, True]
    fresh.batches[0]["b"] = before
    assert "in 1 sum" in repr(study)
    assert "lags" not in repr(study)


@pytest.mark.thorough
def test_a_state_that_one_has_not_published_yet_is_waited_for(fresh):
    study = connected()
    fresh.batch()

    def edit(letter, path, data):
        if (letter, path) == ("b", "states/1"):
            raise servers.NotThereError("no such state")
        return data

    fresh.edit = edit
    assert "Round:      0, open" in repr(study)
    fresh.edit = lambda letter, path, data: data
    assert "Round:      1, open" in repr(study)


# --- the model -----------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_formula_asks_for_what_was_signed(over):
    study = connected()
    same = {"mu": 1, "bounds": {"age": (18, 90)}, "family": "huber", "trust": "two_collectors"}
    model = pr.PrivateOnlineRegression.from_formula("hours~age+C(shift)", study, **same)
    np.testing.assert_array_equal(model.fit().params, study.results().params)
    assert model.plan().formula == "hours ~ age + C(shift)"


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mu": 2}, "mu=2 is not what the plan has"),
        ({"trust": "central"}, "trust='central' is not what the plan has"),
        ({"levels": {"shift": ["night", "day", "both"]}}, "levels="),
    ],
)
def test_nothing_else_than_what_was_signed_can_be_fitted(over, given, words):
    with pytest.raises(StudyError, match=words):
        pr.PrivateOnlineRegression.from_formula("hours ~ age + C(shift)", connected(), **given)


# --- addresses -----------------------------------------------------------------------------------------------

LINKS = [f"{one.url}/studies/sleep/#k={KEY}" for one in COLLECTORS]
OTHER = wire.base(public(key_of(3)))


@pytest.mark.parametrize(
    ("urls", "token", "key", "words"),
    [
        ([], TOKENS, KEY, "give the address of a study, or those of its two collectors"),
        ([*URLS, URLS[0]], None, KEY, "give the address of a study, or those of its two collectors"),
        (URLS, ["one"], KEY, "one token, or one for each"),
        ([URLS[0], URLS[0]], TOKENS, KEY, "both addresses are one server's"),
        ([URLS[0], f"{COLLECTORS[0].url}/studies/sleep/"], TOKENS, KEY, "both addresses are one server's"),
        (URLS, TOKENS, None, "give the one public key"),
        ([LINKS[0], LINKS[1].replace(KEY, OTHER)], TOKENS, None, "give the one public key"),
        (URLS[0], TOKENS[0], KEY, "Office a at https://a.example.org and Office b at https://b.example.org: give the"),
        ([URLS[1]], TOKENS[1:], KEY, "give the addresses of both"),
        (["ftp://a", URLS[1]], TOKENS, KEY, "begins with https"),
    ],
)
def test_addresses_and_tokens_that_are_not_both_collectors_are_refused(over, urls, token, key, words):
    with pytest.raises(OptionError, match=words):
        pr.connect(urls, token, key=key)


@pytest.mark.thorough
def test_a_link_has_the_key_and_one_token_does_for_both(over, monkeypatch):
    assert connected(LINKS, key=None).signed == over.plan
    assert connected([LINKS[0], URLS[1]], key=None).signed == over.plan
    monkeypatch.setattr(
        servers, "fetched", lambda base, path, token=None: over.fetched(base, path, "token of " + base[8])
    )
    assert connected(token="the same").results().nobs


def test_a_local_study_is_at_one_address(monkeypatch):
    envelope = signed("plan", study.plan_payload(study_plan()), ROOT)
    monkeypatch.setattr(servers, "fetched", lambda *_: envelope)
    with pytest.raises(OptionError, match="one server collects reports"):
        connected()


def test_the_command_prints_results_of_both(over, capsys, tmp_path):
    files = []
    for token in TOKENS:
        files.append(str(tmp_path / token[-1]))
        (tmp_path / token[-1]).write_text(token)
    assert results([*URLS, "--key", KEY, "--token", *files]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Office a (https://a.example.org)" in said
    assert "Trust: two collectors" in said
    assert results([URLS[0], "--key", KEY, "--token", files[0]]) == 2
    assert "Office b at https://b.example.org" in capsys.readouterr().err
    assert results([*URLS, URLS[0], "--key", KEY]) == 2
    assert results([*LINKS, "--token", *files]) == 0


# --- collectors that aren't honest ---------------------------------------------------------------------------


def sums_of(change):
    """An edit of what one collector says of its batches."""

    def edit(data):
        said = json.loads(data)
        change(said)
        return json.dumps(said).encode()

    return edit


def state_of(two, k, *keys, **more):
    """A state with these members in place of its own, signed by these keys."""
    found = messages.read_state(two.states[k][0], two.plan, two.hash)
    ask = found.asks[0]
    inside = {name: value for name, value in more.items() if name in ask._fields}
    beside = {name: value for name, value in more.items() if name in found._fields}
    return signed("state", messages.state_payload(found._replace(asks=(ask._replace(**inside),), **beside)), *keys)


BOTH = tuple(SIGNERS.values())
LIES = {
    # letter, path, edit(two, data), words
    "another plan": ("b", "plan", lambda two, data: signed(
        "plan", study.plan_payload(two.plan._replace(title="Another")), ROOT), "different plans"),
    "a plan of its own": ("b", "plan", lambda two, data: signed(
        "plan", study.plan_payload(two.plan), key_of(3)), "plan is not signed by the key"),
    "who it is": ("b", "sums", lambda two, data: sums_of(
        lambda s: s.update(collector="a"))(data), "value is not signed"),
    "the plan of its sums": ("a", "sums", lambda two, data: sums_of(
        lambda s: s.update(plan_hash=wire.base(bytes(32))))(data), "another plan"),
    "the numbers of batches": ("a", "sums", lambda two, data: sums_of(
        lambda s: s["batches"].reverse())(data), "'k' of a batch"),
    "a sum of another batch": ("a", "sums", lambda two, data: sums_of(
        lambda s: s["batches"][1].update(s["batches"][0], k=1))(data), "signed for another batch"),
    "how many are in a sum": ("a", "sums", lambda two, data: sums_of(
        lambda s: s["batches"][0].update(people=s["batches"][0]["people"] + 1))(data), "signed for another batch"),
    "the other's sum": ("b", "sums", lambda two, data: sums_of(
        lambda s: s["batches"][0].update(value=two.batches[0]["a"]["value"]))(data), "not signed"),
    "no sums": ("b", "sums", lambda two, data: b"{", "no answer of one"),
    "a state signed by one": ("b", "states/1", lambda two, data: state_of(two, 1, BOTH[0]), "keys that it should be"),
    "a state signed by one twice": (
        "b", "states/1", lambda two, data: state_of(two, 1, BOTH[0], BOTH[0]), "keys that it should be"),
    "a state that asks something else": (
        "b", "states/1", lambda two, data: state_of(two, 1, *BOTH, scale=9.0), "state 1 at Office b does not follow"),
    "a state of another time": (
        "a", "states/1", lambda two, data: state_of(two, 1, *BOTH, time=1_800_000_001), "different states 1"),
    "a state that follows another": (
        "a", "states/2", lambda two, data: state_of(two, 2, *BOTH, before=bytes(32)), "state 2 at Office a does not"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_a_collector_says_is_not_believed_if_the_other_or_the_sums_do_not_bear_it_out(over, lie):
    letter, path, made, words = LIES[lie]
    over.edit = lambda who, what, data: made(over, data) if (who, what) == (letter, path) else data
    with pytest.raises(StudyError, match=words):
        connected().results()


def test_sums_over_different_lists_are_not_added(over, monkeypatch):
    one = over.batches[0]
    people = one["b"]["people"]
    words = np.zeros(over.engine.width(over.chain.history[0].state.role), dtype=np.uint64)
    other = over.published("b", 0, people, bytes(32), words)
    monkeypatch.setitem(one, "b", other)
    with pytest.raises(StudyError, match="sums of batch 0 over different lists"):
        connected().results()
    monkeypatch.setitem(one, "b", over.published("b", 0, people, wire.unbase(one["a"]["list_hash"], ""), words[1:]))
    with pytest.raises(StudyError, match="Office b has published a sum of batch 0 that no reports add up to"):
        connected().results()


@pytest.mark.parametrize("letter", ["a", "b"])
def test_a_last_sum_that_the_other_was_not_sent_is_refused(over, monkeypatch, letter):
    """Chosen after the other's, it makes the estimate what its collector likes; no state follows that would show it."""
    last = over.batches[-1]
    listed, width = wire.unbase(last[letter]["list_hash"], ""), over.engine.width(over.chain.history[-2].state.role)
    chosen = over.published(letter, len(over.batches) - 1, last[letter]["people"], listed, np.zeros(width, np.uint64))
    monkeypatch.setitem(last, letter, {**chosen, "other_hash": last[letter]["other_hash"]})
    hide = f"states/{len(over.batches)}"

    def edit(who, path, data):
        if path == hide:
            raise servers.NotThereError("no such state")
        return data

    over.edit = edit
    with pytest.raises(StudyError, match=f"don't agree on their sums of batch {len(over.batches) - 1}"):
        connected().results()


def test_a_sum_that_is_published_twice_is_refused(fresh):
    study = connected()
    fresh.batch()
    repr(study)
    one = fresh.batches[0]
    listed, words = wire.unbase(one["a"]["list_hash"], ""), fresh.rng.integers(0, 1 << 64, 3, dtype=np.uint64)
    again = fresh.published("a", 0, one["a"]["people"], listed, words)
    for instead in ({"a": again, "b": one["b"]}, None, {"a": {"k": 0, "people": 0, "status": "lost"}, "b": one["b"]}):
        fresh.batches = [] if instead is None else [instead]
        with pytest.raises(StudyError, match="Office a has taken back a sum, or published another"):
            repr(study)
    fresh.batches = [one]
    assert "in 1 sum" in repr(study)


def test_sums_of_a_state_that_was_not_published_are_refused(fresh):
    study = connected()
    fresh.batch()
    fresh.batch()
    del fresh.states[1:]
    with pytest.raises(StudyError, match="a state that they have not published"):
        repr(study)


def test_an_analyst_whose_key_is_a_collectors_is_refused(monkeypatch, fresh):
    fresh.envelope = signed("plan", study.plan_payload(fresh.plan), key_of(11))
    with pytest.raises(StudyError, match="the analyst's key is that of one"):
        connected(key=wire.base(public(key_of(11))))
