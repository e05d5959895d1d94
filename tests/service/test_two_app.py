"""Two collectors over HTTP: what devices, the other collector, attackers and analysts are answered; commands."""

import hashlib
import json
import socket
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import jsonschema
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from starlette.testclient import TestClient

from privreg_field.service.access import is_good, opened
from privreg_field.service.commands.collector import collector
from privreg_field.service.commands.tokens import tokens
from privreg_field.service.http.handler import Options
from privreg_field.service.pages.dashboard import Feed
from privreg_field.service.store import open_store
from privreg_field.service.sums import app, peer
from privreg_field.service.sums.app import make
from privreg_field.service.sums.peer import Away, Refused
from privreg_field.service.sums.scheduler import LAG, SumScheduler
from privreg_field.study import keys
from privreg_field.wire import messages, wire
from privreg_field.wire.messages import token_text
from tests.service.pair import LETTERS, OWN, Pair
from tests.service.served import served
from tests.service.test_two_schedulers import DUE, come, on
from tests.service.world import ANALYST
from tests.studies import ROOT, public

OF = "/v1/studies/sleep"
JSON = {"content-type": "application/json"}
KNOWN = {"Authorization": f"Bearer {ANALYST}"}


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path, n=45)
    yield made
    for place in (0, 1):
        made.leave(place)


def free_ports(count):
    with ExitStack() as stack:
        some = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [s.getsockname()[1] for s in some]


@pytest.mark.thorough
def test_two_servers_close_a_batch_of_devices(tmp_path):
    ports = free_ports(2)
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    pair = Pair(tmp_path, n=DUE + 1, urls=urls)
    stores = [scheduler.store for scheduler in pair.schedulers]
    posts = [peer.poster(urls[1 - i], "sleep", OWN[i].sign, pair.plan.keys[1 - i]) for i in (0, 1)]
    running = [SumScheduler(*given) for given in zip(stores, OWN, posts, strict=True)]
    with ExitStack() as stack:
        pair.schedulers = running
        for scheduler, port in zip(running, ports, strict=True):
            stack.enter_context(served(scheduler, port, make=make))
        client = stack.enter_context(httpx2.Client(timeout=30))
        wait(lambda: all(client.get(f"{url}{OF}/state").status_code == 200 for url in urls))
        for person in pair.people[:DUE]:
            person.make(0)
            for url, body in zip(urls, person.bodies, strict=True):
                answer = client.post(f"{url}{OF}/shares", content=body, headers=JSON)
                assert answer.status_code in {201, 503}  # the last ones may come while the batch is being closed
        wait(lambda: all(client.get(f"{url}{OF}/states/1").status_code == 200 for url in urls))
        assert len({client.get(f"{url}{OF}/states/1").content for url in urls}) == 1
        late = pair.people[DUE]
        late.make(0)
        for letter, url, body, key in zip(LETTERS, urls, late.bodies, pair.plan.keys, strict=True):
            answer = client.post(f"{url}{OF}/shares", content=body, headers=JSON)
            assert answer.status_code == 410
            assert peer.opened(answer.content, pair.hash, letter, key).ids == late.token.id
        sums = [client.get(f"{url}{OF}/sums", headers=KNOWN).json() for url in urls]
        first = [s["batches"][0] for s in sums]
        assert [b["status"] for b in first] == ["published"] * 2
        assert first[0]["list_hash"] == first[1]["list_hash"]
        assert [s["collector"] for s in sums] == ["a", "b"]
        for letter, batch, key in zip(LETTERS, first, pair.plan.keys, strict=True):
            one = peer.opened(json.dumps(batch["value"]).encode(), pair.hash, letter, key)
            assert (one.people, wire.base(one.listed)) == (batch["people"], batch["list_hash"])
        for batch, other in (first, first[::-1]):  # as the analyst makes the bytes again
            assert batch["other_hash"] == wire.base(wire.hash_of(wire.dumps(other["value"])))


def wait(true, seconds=60.0):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def client(pair):
    """Collector A over HTTP; B in this process."""
    pair.turn()
    with TestClient(make(pair.schedulers[0], Options(rate=0.0))) as one:
        yield one


def post(client, body):
    return client.post(f"{OF}/shares", content=body, headers=JSON)


def test_a_share_counts_once(client, pair):
    one, other = pair.people[:2]
    one.make(0)
    other.make(0)
    assert post(client, one.bodies[0]).status_code == 201
    assert post(client, one.bodies[0]).status_code == 200
    one.make(0)
    assert post(client, one.bodies[0]).status_code == 409
    assert post(client, other.bodies[1]).status_code == 422  # for the other collector
    assert post(client, other.bodies[0].replace(b'"state":0', b'"state":9')).status_code == 412
    forged = json.loads(other.bodies[0])
    forged["token"] = token_text(other.token._replace(mac=bytes(16)))
    assert post(client, json.dumps(forged).encode()).status_code == 403
    assert post(client, b"{}").status_code == 422
    assert client.post(f"{OF}/reports", content=b"{}", headers=JSON).status_code == 404


def test_nothing_of_a_share_is_in_answers_or_numbers(client, pair):
    one = pair.people[0]
    one.make(0)
    answer = post(client, one.bodies[0])
    text = answer.text + client.get("/metrics", headers=KNOWN).text + client.get("/readyz").text
    assert json.loads(one.bodies[0])["share"][:8] not in text
    assert token_text(one.token) not in text
    assert client.get("/metrics").status_code == 401
    assert 'privreg_reports_total{outcome="new"} 1.0' in text


def test_only_the_other_collector_is_read(client, pair):
    b = pair.schedulers[1]
    body = b._where()
    good = {**JSON, peer.HEADER: peer.head(body, OWN[1].sign, bytes(16))}
    assert client.post(f"{OF}/peer", content=body, headers=JSON).status_code == 403
    own = {**JSON, peer.HEADER: peer.head(body, OWN[0].sign, bytes(16))}
    assert client.post(f"{OF}/peer", content=body, headers=own).status_code == 403
    assert client.post(f"{OF}/peer", content=body + b" ", headers=good).status_code == 422
    answer = client.post(f"{OF}/peer", content=body, headers=good)
    assert answer.status_code == 200
    assert peer.opened(answer.content, pair.hash, "a", pair.plan.keys[0]).kind == "where"
    offer = b._signed("offer", 0, ids=bytes(16))
    good = {**JSON, peer.HEADER: peer.head(offer, OWN[1].sign, bytes(16))}
    assert client.post(f"{OF}/peer", content=offer, headers=good).status_code == 409
    late = b._signed("next", 7)
    good = {**JSON, peer.HEADER: peer.head(late, OWN[1].sign, bytes(16))}
    assert client.post(f"{OF}/peer", content=late, headers=good).status_code == 503


class Replies(BaseHTTPRequestHandler):
    """Whatever `server.reply` makes of a message's head: status, head and body."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status, head, body = self.server.reply(self.headers[peer.HEADER])
        self.send_response(status)
        self.send_header(peer.HEADER, head)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def other():
    """A server in the place of the other collector, and what sends messages to it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Replies) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        yield server, peer.poster(url, "sleep", OWN[1].sign, OWN[0].public[0])
        server.shutdown()
        thread.join(10)


def reply(status=200, body=b"said", *, key=OWN[0].sign, what=None, nonce=None):
    """An answer as a collector signs it, or not quite."""

    def made(head):
        asked = peer.announced(head, OWN[1].public[0])[:16] if nonce is None else nonce
        return status, peer.head(body, key, asked, what or f"answer {status}"), body

    return made


def test_an_answer_counts_for_one_message_alone(other, client, pair):
    server, post = other
    server.reply = reply()
    assert post(b"asked") == b"said"
    server.reply = reply(409)
    with pytest.raises(Refused):
        post(b"asked")
    heads = []
    server.reply = lambda head: heads.append(head) or reply()(head)
    post(b"asked")
    post(b"asked")
    assert heads[0] != heads[1]
    old = reply()(heads[0])
    body = pair.schedulers[1]._where()
    real = client.post(f"{OF}/peer", content=body, headers={**JSON, peer.HEADER: heads_of(body)})
    assert peer.announced(real.headers[peer.HEADER], OWN[0].public[0], "answer 200")[:16] == bytes(16)
    for wrong in (
        lambda head: old,  # an answer of before
        lambda head: (200, real.headers[peer.HEADER], real.content),
        reply(key=OWN[1].sign),
        reply(what="peer"),
        reply(409, what="answer 200"),
        lambda head: (409, "", b"no"),  # by whoever is in between
        lambda head: (*reply()(head)[:2], b"else"),
    ):
        server.reply = wrong
        with pytest.raises(Away):
            post(b"asked")


def heads_of(body):
    return peer.head(body, OWN[1].sign, bytes(16))


def test_shares_of_a_batch_that_was_given_up_are_answered_as_lost(client, pair):
    come(pair, pair.people[:2])
    pair.schedulers[0]._lose(0)
    late = pair.people[2]
    late.make(0)
    for person in (pair.people[0], late):  # what was there, and what wasn't
        answer = post(client, person.bodies[0])
        assert answer.status_code == 410
        one = peer.opened(answer.content, pair.hash, "a", pair.plan.keys[0])
        assert (one.kind, one.state, one.ids) == ("lost", 0, person.token.id)


def test_sums_need_the_analysts_token_and_hold_no_open_batch(client, pair):
    come(pair, pair.people[:5])
    assert client.get(f"{OF}/sums").status_code == 401
    (batch,) = client.get(f"{OF}/sums", headers=KNOWN).json()["batches"]
    done = dict.fromkeys(("list_hash", "other_hash", "vouched", "value"))
    assert batch == {"k": 0, "people": 5, "status": "open", **done}


def test_a_study_that_the_other_has_not_begun_is_not_open_yet(pair):
    pair.away[1] = True
    with TestClient(make(pair.schedulers[0], Options(rate=0.0))) as client:
        assert client.get(f"{OF}/state").status_code == 425
        assert client.get(f"{OF}/plan").status_code == 200
        assert client.get(f"{OF}/sums", headers=KNOWN).json()["batches"] == []


@pytest.mark.thorough
def test_the_document_is_what_is_served_and_answered(client, pair):
    document = client.get("/openapi.json").json()
    routes = {r.path: r.methods - {"HEAD"} for r in client.app.routes if r.include_in_schema}
    assert {p: {v.upper() for v in verbs} for p, verbs in document["paths"].items()} == routes
    come(pair, pair.people[:DUE])
    on(pair)
    late = pair.people[DUE]
    late.make(0)
    answers = [
        ("post", "/shares", post(client, late.bodies[0])),
        ("post", "/shares", post(client, pair.people[0].bodies[0])),
        ("post", "/peer", client.post(f"{OF}/peer", content=b"{}", headers=JSON)),
        ("get", "/sums", client.get(f"{OF}/sums", headers=KNOWN)),
    ]
    assert [answer.status_code for _, _, answer in answers] == [410, 200, 403, 200]
    for verb, path, answer in answers:
        said = document["paths"]["/v1/studies/{study}" + path][verb]["responses"][str(answer.status_code)]["content"]
        how = said[answer.headers["content-type"]]
        jsonschema.validate(answer.json(), {**how["schema"], "components": document["components"]})


@pytest.mark.thorough
def test_a_page_of_one_collector_may_send_shares_to_the_other(client, pair):
    other = "http://b.example.org"
    page = client.get("/studies/sleep/")
    assert f" {other};" in page.headers["content-security-policy"]
    asked = {"Origin": other, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    for origin, allowed in ((other, other), ("http://c.example.org", None)):
        answer = client.options(f"{OF}/shares", headers={**asked, "Origin": origin})
        assert answer.headers.get("access-control-allow-origin") == allowed
        answer = client.get(f"{OF}/plan", headers={"Origin": origin})
        assert answer.headers.get("access-control-allow-origin") == allowed


# --- the dashboard -------------------------------------------------------------------------------------------


def shown(client, path):
    return client.get(f"{OF}/{path}", headers=KNOWN).json()


def test_the_dashboard_shows_what_came_here_and_what_both_have_published(client, pair):
    for path in ("progress", "results", "events"):
        assert client.get(f"{OF}/{path}").status_code == 401
    assert client.get("/studies/sleep/dashboard").status_code == 200
    for person in pair.people[:3]:
        person.make(0)
        assert post(client, person.bodies[0]).status_code == 201
    come(pair, pair.people[3:5])
    said, document = shown(client, "progress"), client.get("/openapi.json").json()
    form = {**document["components"]["schemas"]["Progress"], "components": document["components"]}
    jsonschema.validate(said, form)
    (round_,) = said["rounds"]
    assert (round_["role"], round_["reports"], round_["ends"], round_["open"]) == ("clamping", 5, DUE, True)
    assert (said["people"], said["status"], said["planned"], said["ahead"][0]["role"]) == (5, "open", 1200, "location")
    assert said["totals"]["new"] == sum(said["recent"]["new"]) == 3 + 2
    assert said["collectors"] == [
        {"name": "Office a", "batches": 0, "reports": 5, "lags": False},
        {"name": "Office b", "batches": None, "reports": None, "lags": False},
    ]
    results = shown(client, "results")
    assert (results["people"], results["ready"]) == (5, False)
    assert "estimates begin after them" in results["why"]
    come(pair, pair.people[5:DUE])
    on(pair)  # three never came to b
    assert [r["open"] for r in shown(client, "progress")["rounds"]] == [True]
    come(pair, pair.people[DUE : DUE + 3])

    def closed():  # the app's thread may be closing the round at this moment
        on(pair)
        return len(shown(client, "progress")["rounds"]) > 1

    wait(closed)
    said = shown(client, "progress")
    jsonschema.validate(said, form)
    assert [r["open"] for r in said["rounds"]] == [False, True]
    assert (said["collectors"][0]["batches"], said["people"]) == (1, DUE)


def test_nothing_is_shown_before_there_is_a_state(pair):
    pair.away[1] = True
    with TestClient(make(pair.schedulers[0], Options(rate=0.0))) as client:
        for path in ("progress", "results", "events"):
            answer = client.get(f"{OF}/{path}", headers=KNOWN)
            assert (answer.status_code, "other collector" in answer.json()["detail"]) == (425, True)
            assert client.get(f"{OF}/{path}").status_code == 401


def test_what_is_shown_does_not_depend_on_what_shares_hold(tmp_path):
    shown = []
    for name, value in (("one", 0), ("other", 1 << 40)):
        (tmp_path / name).mkdir()
        pair = Pair(tmp_path / name, n=20)
        pair.turn()
        for person in pair.people:
            person.value = value
        come(pair, pair.people)
        shown.append([[Feed(c).progress(), Feed(c).results()] for c in pair.schedulers])
        for place in (0, 1):
            pair.leave(place)
    assert shown[0] == shown[1]
    assert shown[0][0][0]["people"] == 20


@pytest.mark.some(1)
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("why", ["away", "few"])
def test_the_other_collector_lags_once_it_has_been_waited_for(pair, place, why):
    other = 1 - place
    pair.turn()
    come(pair, pair.people[:DUE], (place,))
    pair.send(other, pair.people[: DUE if why == "away" else 1])
    if why == "away":
        pair.leave(other)

    def lags():
        pair.advance(place)
        return [side.lags for side in pair.schedulers[place].known().collectors]

    assert lags() == [False, False]
    pair.clock.now += LAG
    assert lags() == [k == other for k in (0, 1)]
    if why == "away":
        pair.open(other)
    else:
        pair.send(other, pair.people[1:DUE])
    on(pair)
    assert [c.present.k for c in pair.schedulers] == [1, 1]
    assert lags() == [False, False]


@pytest.mark.some(1)
@pytest.mark.parametrize("place", [0, 1])
def test_nobody_is_waited_for_while_a_round_lacks_reports(pair, place):
    """A round that isn't due takes neither collector; once the study is closed it takes both."""
    pair.turn()
    come(pair, pair.people[:2])

    def lags():
        pair.advance(place)
        return [side.lags for side in pair.schedulers[place].known().collectors]

    assert lags() == [False, False]
    pair.clock.now += LAG
    assert lags() == [False, False]
    pair.leave(1 - place)
    pair.clock.now = pair.plan.closes + pair.plan.grace + 1
    assert lags() == [False, False]
    pair.clock.now += LAG
    assert lags()[1 - place]


# --- commands ------------------------------------------------------------------------------------------------


@pytest.fixture
def plan(pair, tmp_path):
    path = tmp_path / "sleep.plan"
    path.write_bytes(pair.envelope)
    return path


def run(capsys, verb, plan, place, url, *more):
    code = collector([verb, str(plan), "--role", LETTERS[place], "--db", url, *more])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_what_can_be_checked_is_and_what_cannot_is_said(pair, plan, tmp_path, capsys):
    pair.turn()
    come(pair, pair.people[:DUE])
    on(pair)
    for place in (0, 1):
        code, said = run(capsys, "check", plan, place, pair.url(place))
        assert code == 0
        assert f"{DUE} shares are in one sum each" in said
        assert "can't be checked any more" in said
        out = tmp_path / f"{place}.json"
        assert run(capsys, "export", plan, place, pair.url(place), "--out", str(out))[0] == 0
        said = json.loads(out.read_text())
        assert [json.loads(wire.unbase(v["payload"], ""))["collector"] for v in said["sums"][0]] == ["a", "b"]
        assert said["sums"][1:] == [None]
    with pair.schedulers[0].store.engine.begin() as c:
        c.exec_driver_sql("DELETE FROM share WHERE token_id = ?", (pair.people[0].token.id,))
    code, said = run(capsys, "check", plan, 0, pair.url(0))
    assert code == 2
    assert "not what both have signed" in said


def test_a_study_is_closed_at_a(pair, plan, capsys):
    pair.turn()
    come(pair, pair.people[:5])
    code, said = run(capsys, "close", plan, 1, pair.url(1))
    assert code == 2
    assert "collector a leads" in said
    assert run(capsys, "close", plan, 0, pair.url(0))[0] == 0
    on(pair)
    assert [c.is_open for c in pair.schedulers] == [False, False]


def test_a_role_is_said_where_there_are_two(pair, plan, capsys):
    assert collector(["check", str(plan), "--db", pair.url(0)]) == 2
    assert "--role a, or --role b" in capsys.readouterr().err


def test_tokens_of_one_collector_are_good_at_the_other(pair, plan, tmp_path, capsys):
    for scheduler in pair.schedulers:
        with scheduler.store.engine.begin() as c:
            c.exec_driver_sql("DELETE FROM issuer")
    out, issuer = tmp_path / "links.csv", tmp_path / "issuer.json"
    given = [str(plan), "--role", "a", "--db", pair.url(0), "--key", wire.base(public(ROOT)), "-n", "3"]
    assert tokens([*given, "--out", str(out), "--issuer-file", str(issuer)]) == 0
    assert "--issuer-file" not in capsys.readouterr().out
    assert issuer.stat().st_mode & 0o777 == 0o600
    assert run(capsys, "issuer", plan, 1, pair.url(1), "--issuer-file", str(issuer))[0] == 0
    secrets = [{n: opened(s) for n, s in scheduler.store.issuers().items()} for scheduler in pair.schedulers]
    assert secrets[0] == secrets[1] != {}
    token = messages.read_token(out.read_text().splitlines()[1].rpartition("t=")[2])
    assert all(is_good(token, s, pair.hash) for s in secrets)
    led = json.loads(wire.open_envelope(plan.read_bytes(), "plan").payload)["collectors"][0]["url"]
    assert out.read_text().splitlines()[1].startswith(f"{led}/studies/")
    assert tokens([*given, "--out", str(tmp_path / "more.csv")]) == 0
    assert "--issuer-file" in capsys.readouterr().out
    code, said = run(capsys, "issuer", plan, 1, pair.url(1), "--issuer-file", str(issuer))
    assert code == 2  # once is enough
    code, said = run(capsys, "issuer", plan, 1, pair.url(1))
    assert (code, "--issuer-file FILE" in said) == (2, True)


def test_a_collector_is_served_by_the_keys_of_its_role(pair, tmp_path):
    path = tmp_path / "a.key"
    how = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    path.write_bytes(b"".join(k.private_bytes(*how) for k in OWN[0]))
    store = open_store(pair.url(0), "sleep")
    scheduler = app.scheduler_of(store, "a", str(path))
    assert scheduler.letter == "a"
    assert hashlib.sha256(scheduler.envelope).digest() == hashlib.sha256(pair.envelope).digest()
    with pytest.raises(app.OptionError, match="--role a"):
        app.scheduler_of(store, "b", str(path))
    with pytest.raises(app.OptionError, match=r"those of collector a.*keys were swapped.*--key") as e:
        app.scheduler_of(store, "b", str(path))
    assert "swap key and seal of the two in the study's file" in str(e.value)
    mixed = keys.CollectorKeys(OWN[0].sign, OWN[1].seal)  # as if the plan's file had named b's seal under a
    with pytest.raises(app.OptionError, match="key and seal are those of different"):
        SumScheduler(store, mixed)
    with pytest.raises(app.OptionError, match="give the file of one"):
        SumScheduler(store, keys.CollectorKeys(OWN[0].sign, keys.make_collector(tmp_path / "c.key").seal))
