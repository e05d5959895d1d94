"""What an analyst reads over HTTP, and believes: nothing that the signed plan and the sums don't bear out."""

import json
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import privreg as pr
from privreg.errors import InferenceError, OptionError, StudyError
from privreg_field.study import servers
from privreg_field.study.reading.connect import main as results
from privreg_field.wire import messages, wire
from tests.service.served import served
from tests.service.world import ANALYST, DECLARED, ROOT, SERVER, World, assert_same, in_process, keys, people, public
from tests.studies import key_of

KEY = wire.base(public(ROOT))
PEOPLE = 1130

pytestmark = pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")


@pytest.fixture(scope="module")
def few_rounds():
    """As many as users get: others read the plan."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    one = World(tmp_path_factory.mktemp("sleep"))
    one.answer(PEOPLE)
    return one


@pytest.fixture(scope="module")
def base(world):
    with served(world.scheduler) as url:
        yield f"{url}/v1/studies/sleep"


@pytest.fixture
def study(base):
    return pr.connect(f"{base}#k={KEY}", ANALYST)


# --- results -------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_advice_on_measures_names_the_studys_file(study):
    res = study.results()
    with pytest.raises(AttributeError, match=r"measures: 0\.05 in the study's file releases a private one"):
        _ = res.rsquared
    with pytest.raises(InferenceError, match=r"no measures of fit; measures: 0\.05 in the study's file asks"):
        _ = res.fit_measures


@pytest.mark.thorough
def test_results_are_those_of_a_fit_in_process_with_the_same_reports(world, study):
    res, fit = study.results(), in_process(world)
    assert_same(res, fit)
    assert res.nobs == PEOPLE
    pd.testing.assert_frame_equal(res.rounds, fit.rounds)
    assert res.privacy.mechanics == fit.privacy.mechanics
    said, also = ([d for d in r.privacy.notes if d.code not in {"memory", "rounding"}] for r in (res, fit))
    assert said == also


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["x", "", "hours"])
def test_a_study_of_one_analysis_without_a_name_has_none_to_choose(base, study, name, tmp_path, capsys):
    (tmp_path / "token").write_text(ANALYST)
    said = [f"analysis={name!r}: the study has one analysis, which has no name; leave it out."] * 3
    found = []
    for ask in (study.results, study.table):
        with pytest.raises(OptionError) as e:
            ask(name)
        found.append(str(e.value))
    assert results([f"{base}#k={KEY}", "--token", str(tmp_path / "token"), "--analysis", name]) == 2
    assert [*found, " ".join(capsys.readouterr().err.split()).removeprefix("privreg results: error: ")] == said


@pytest.mark.thorough
def test_results_say_whose_devices_reported(study, tmp_path):
    res = study.results()
    said = res.summary(details=True).as_text()
    assert "this process never saw a row" in " ".join(said.split())
    assert "0.0% late (counted)" in " ".join(said.split())
    assert "5.8% never answered" in " ".join(said.split())  # 1,130 of 1,200 invitations
    statement = str(res.privacy)
    assert "rounded Gaussian" in statement
    assert "floating" not in statement
    assert "√2 times mu" in statement
    res.save(tmp_path / "res.npz")
    np.testing.assert_array_equal(pr.load(tmp_path / "res.npz").params, res.params)
    np.testing.assert_allclose(res.predict({"age": [40.0]}), res.params @ [1.0, 40.0])


@pytest.mark.thorough
def test_a_study_shows_what_is_known_of_it(world, study):
    said = repr(study)
    assert "1,130 of 1,200 invited" in said
    assert "How sleep goes with age." in said
    assert "<td>1,130 of 1,200 invited</td>" in study._repr_html_()
    frame = study.rounds
    assert frame["reports"].sum() == PEOPLE
    assert frame["state"].tolist() == list(range(len(frame)))
    assert frame["role"].iloc[0] == "moments"
    assert frame["role"].iloc[-1] == "main"
    closed = frame.iloc[:-1]
    assert (closed["reports"] >= closed["closes_at"]).all()
    assert pr.simulate(study.plan, people(1200)).nobs == 1200


@pytest.mark.thorough
def test_nobody_yet_is_too_few(tmp_path):
    early = World(tmp_path)
    with served(early.scheduler) as url:
        study = pr.connect(f"{url}/v1/studies/sleep#k={KEY}", ANALYST)
        assert "0 of 1,200" in repr(study)
        with pytest.raises(InferenceError, match="0 have reported"):
            study.results()
        early.answer(PEOPLE)  # what came since is asked for again
        assert study.results().nobs == PEOPLE
        early.scheduler.close()
        assert "closed" in repr(study)
        assert "closed" in repr(study)


# --- the model -----------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_formula_asks_for_what_was_signed(study):
    model = pr.PrivateOnlineRegression.from_formula("hours~age", study)
    np.testing.assert_array_equal(model.fit().params, study.results().params)
    assert model.plan().formula == "hours ~ age"
    same = {"mu": 2, "bounds": {"age": (18, 90)}, "family": "huber"}
    pr.PrivateOnlineRegression.from_formula("hours ~ age", study, **same)


@pytest.mark.parametrize(
    ("formula", "given", "words"),
    [
        ("hours ~ 1", {}, "has the formula 'hours ~ age'"),
        ("hours ~ age", {"mu": 1}, "mu=1 is not what the plan has"),
        ("hours ~ age", {"family": "squared"}, "family='squared'"),
        ("hours ~ age", {"bounds": {"age": (18, 80)}}, "bounds="),
        ("hours ~ age", {"missing": "raise"}, "missing='raise'"),
    ],
)
def test_nothing_else_than_what_was_signed_can_be_fitted(study, formula, given, words):
    with pytest.raises(StudyError, match=words):
        pr.PrivateOnlineRegression.from_formula(formula, study, **given)


# --- a server that isn't honest ------------------------------------------------------------------------------


@contextmanager
def between(base, edit):
    """A server that answers as the study's does, but for what `edit` makes of a path's answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            own = self.path.removeprefix("/v1/studies/sleep/")
            asked = urllib.request.Request(f"{base}/{own}", headers={"Authorization": f"Bearer {ANALYST}"})
            try:
                with urllib.request.urlopen(asked, timeout=30) as answer:
                    status, body = 200, edit(own, answer.read())
            except urllib.error.HTTPError as e:
                with e:
                    status, body = e.code, b""
            if isinstance(body, int):
                status, body = body, b""
            self.send_response(status)
            self.send_header("Location", base)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/studies/sleep#k={KEY}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def only(path, made):
    """An edit of one path's answers."""
    return lambda own, body: made(body) if own == path else body


def unsealed(body, kind):
    return wire.open_envelope(body, kind).payload


def resigned(kind, key, change=lambda payload: payload):
    return lambda body: keys.signed(kind, change(unsealed(body, kind)), key)


def changed(change):
    """An edit of the sums."""

    def made(body):
        said = json.loads(body)
        change(said)
        return json.dumps(said).encode()

    return only("cells", made)


def one_more(cell, by=1):
    cell["sums"] = [str(int(total) + by) for total in cell["sums"]]


@pytest.mark.thorough
def test_an_honest_server_between_changes_nothing(base, study):
    with between(base, lambda _, body: body) as url:
        np.testing.assert_array_equal(pr.connect(url).results().params, study.results().params)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (only("plan", resigned("plan", SERVER)), "plan is not signed by the key"),
        (only("plan", lambda b: b[:-9]), "sends no plan"),
        (only("plan", lambda b: b"[]"), "sends no plan"),
        (only("plan", lambda b: 302), "status 302"),
        (only("plan", lambda b: 429), "asked too often"),
        (only("plan", lambda b: 500), "status 500"),
    ],
)
def test_a_plan_that_is_not_the_analysts_is_refused(base, edit, words):
    with between(base, edit) as url, pytest.raises(StudyError, match=words):
        pr.connect(url)


def moved(world):
    """A state as if made for one person: a coefficient that is far off, signed by the server's own key."""

    def change(payload):
        state = messages.read_state(payload, world.plan, world.hash)
        ask = state.asks[0]
        return messages.state_payload(state._replace(asks=(ask._replace(theta=tuple(t + 1e6 for t in ask.theta)),)))

    return change


@pytest.mark.some(10)
@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda w: only("states/9", resigned("state", key_of(7))), "state is not signed by the key"),
        (lambda w: only("states/9", resigned("state", SERVER, moved(w))), "state 9 does not follow"),
        (lambda w: only("states/9", lambda b: 404), "no such study"),
        (lambda w: changed(lambda said: one_more(said["snapshots"][2][-1], 10**6)), "state 3 does not follow"),
        (lambda w: changed(lambda said: said.update(plan_hash=wire.base(bytes(32)))), "those of another plan"),
        (lambda w: changed(lambda said: said["snapshots"].pop()), "leaves out sums"),
        (lambda w: changed(lambda said: said["cells"].pop(0)), "lack reports"),
        (lambda w: changed(lambda said: said["cells"][0].update(people=-1)), "no answer of a collector"),
        (lambda w: changed(lambda said: said["cells"][0].update(sums=["1e9"])), "no answer of a collector"),
        (lambda w: changed(lambda said: said["cells"][0].update(role="other")), "no answer of a collector"),
        (lambda w: changed(lambda said: said["cells"].append(said["cells"][0])), "no answer of a collector"),
        (lambda w: changed(lambda said: said["cells"][-1].update(sums=["9" * 17] * 2)), "no answer of a collector"),
        (lambda w: changed(lambda said: said["cells"][-1].update(sums=["9" * 25] * 2)), "no answer of a collector"),
        (lambda w: changed(lambda said: said["cells"][-1].update(squares=["-1"] * 2)), "no answer of a collector"),
        (lambda w: changed(lambda said: one_more(said["cells"][0])), "lack reports"),
        (lambda w: changed(lambda said: said["cells"][-1].update(state=1 << 30)), "state that was not published"),
        (lambda w: changed(lambda said: said.update(state=1 << 30)), "more states than the plan has rounds"),
        (lambda w: only("cells", lambda b: b"{"), "no answer of a collector"),
        (lambda w: only("cells", lambda b: b"[" * 100_000), "no answer of a collector"),
    ],
)
def test_what_does_not_bear_out_is_refused(world, base, edit, words):
    with between(base, edit(world)) as url:
        study = pr.connect(url)
        with pytest.raises(StudyError, match=words) as got:
            study.results()
    assert got.value.__cause__ is None


def test_a_server_that_goes_back_is_refused(world, base):
    now = SimpleNamespace(back=False)

    def edit(own, body):
        if own != "cells" or not now.back:
            return body
        said = json.loads(body)
        said.update(state=3, snapshots=said["snapshots"][:3])
        return json.dumps(said).encode()

    with between(base, edit) as url:
        study = pr.connect(url)
        study.results()
        now.back = True
        with pytest.raises(StudyError, match="gone back"):
            study.results()
        now.back = False
        study.results()


def test_an_endless_answer_is_not_read(base, monkeypatch):
    monkeypatch.setattr(servers, "LONGEST", 1000)
    with pytest.raises(StudyError, match="says too much"):
        pr.connect(f"{base}#k={KEY}")


# --- addresses, keys, tokens ---------------------------------------------------------------------------------


def test_wrong_keys_and_tokens_are_named(base):
    with pytest.raises(StudyError, match="not signed by the key"):
        pr.connect(base, key=wire.base(public(SERVER)))
    with pytest.raises(OptionError, match="give the one public key"):
        pr.connect(base)
    for token in (None, "guessed"):
        with pytest.raises(StudyError, match="analyst's token"):
            pr.connect(f"{base}#k={KEY}", token).results()
    with pytest.raises(StudyError, match="no such study"):
        pr.connect(f"{base[:-5]}wake#k={KEY}")


@pytest.mark.parametrize(
    "url", ["http://example.org/v1/studies/sleep", "https://example.org", "file:///v1/studies/a", ""]
)
def test_addresses_that_are_none_are_refused(url):
    with pytest.raises(OptionError, match="address"):
        pr.connect(url, key=KEY)


def test_nobody_at_the_address_is_said():
    with pytest.raises(StudyError, match="can't be reached"):
        pr.connect(f"http://127.0.0.1:9/v1/studies/sleep#k={KEY}")


def test_results_at_the_shell(base, tmp_path, capsys):
    file = tmp_path / "study.analyst"
    file.write_text(ANALYST + "\n")
    url, out = f"{base}#k={KEY}", tmp_path / "res.npz"
    assert results([url, "--token", str(file), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "1,130 of 1,200 invited" in said
    assert "P>|t|" in said
    assert "privacy statement: privreg.load(" in " ".join(said.split())
    assert pr.load(out).nobs == PEOPLE
    np.testing.assert_array_equal(pr.connect(url, file).results().params, pr.load(out).params)
    assert repr(pr.connect(url, str(file))) == repr(pr.connect(url, file.read_text()))
    both = [tmp_path / "r.privreg", tmp_path / "r.html"]
    none = tmp_path / "none" / "r.txt"
    outs = [word for file in (none, *both) for word in ("--out", str(file))]
    assert results([url, "--token", str(file), *outs]) == 2
    assert "none" in capsys.readouterr().err
    assert pr.load(both[0]).nobs == PEOPLE
    assert "1,130" in both[1].read_text()
    key = tmp_path / "root.key"
    key.write_bytes(ROOT.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert results([base, "--token", str(file), "--key", str(key)]) == 0
    said = capsys.readouterr().out
    assert "1,130 of 1,200 invited" in said
    assert "privreg.load(FILE).privacy, if --out FILE is" in said
    assert results([base, "--token", str(file)]) == 2
    assert "give --key" in capsys.readouterr().err
    assert results([url]) == 2
    assert "analyst's token" in capsys.readouterr().err
    assert results([url, "--token", str(tmp_path / "none")]) == 2
    assert "no file" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_study_takes_over_the_target_of_an_earlier_fit(tmp_path):
    model = pr.PrivateOnlineRegression.from_formula("hours ~ age", people(4000, 5), mu=8, bounds=DECLARED["bounds"])
    first = model.fit()
    first.save(tmp_path / "first.res")
    later = World(tmp_path, like="first.res", mu=8)
    later.answer(PEOPLE)
    with served(later.scheduler) as url:
        res = pr.connect(f"{url}/v1/studies/sleep#k={KEY}", ANALYST).results()
    assert_same(res, in_process(later))
    one, other = first._fit.equation, res._fit.equation
    np.testing.assert_array_equal(other.rows, one.rows)
    np.testing.assert_allclose(other.c, one.c[-1] * one.y_scale / other.y_scale, rtol=1e-12)
    assert "fixed by like=" in str(res.summary())
