"""Who may read results and operate a collector; what is set where; what is logged; how a server ends."""

import csv
import io
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections import defaultdict

import pytest
from starlette.testclient import TestClient

from privreg.protocol.sums import LETTERS
from privreg_field.service import access, logs
from privreg_field.service.commands import prepare
from privreg_field.service.commands.collector import _ACCESS, VERBS, collector
from privreg_field.service.commands.prepare import prepared
from privreg_field.service.commands.serve import serve
from privreg_field.service.commands.tokens import tokens
from privreg_field.service.http.app import Options, make
from privreg_field.service.pages.dashboard import Feed
from privreg_field.service.store import open_store
from privreg_field.service.sums.app import make as make_sums
from privreg_field.study import keys
from privreg_field.study.running import parser_of
from tests.service.pair import Pair
from tests.service.test_analyses import Several
from tests.service.world import ANALYST, SERVER, World
from tests.studies import ROOT, public

OF = "/v1/studies/sleep"
ANYBODY = ("anybody",)
ADDRESSES = {
    **dict.fromkeys(("/plan", "/state", "/states/{k}", "/reports", "/shares", "/peer"), ANYBODY),
    **dict.fromkeys(("/healthz", "/readyz", "/openapi.json", "page"), ANYBODY),
    **dict.fromkeys(("/results", "/progress", "/events"), ("results",)),
    **dict.fromkeys(("/cells", "/sums"), ("cells",)),
    **dict.fromkeys(("/export", "/close"), ("operate",)),
    "/metrics": ("results", "cells", "operate"),
}
"""Who may ask for what, below the address of a study or of one of its analyses; of public results anybody."""


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path, n=20)
    (tmp_path / "sleep.plan").write_bytes(made.envelope)
    return made


@pytest.fixture
def run(world, capsys):
    """A verb of `privreg collector` on this study; what it printed."""

    def one(verb, *more, fails=False):
        status = collector([verb, str(world.folder / "sleep.plan"), "--db", world.url, *more])
        said = capsys.readouterr()
        assert status == (2 if fails else 0), said.err
        return said.err if fails else said.out

    return one


def granted(world, run, name, *may):
    out = world.folder / f"{name}.token"
    run("grant", "--name", name, "--may", *may, "--out", str(out))
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    return out.read_text().strip()


# --- tokens by role ------------------------------------------------------------------------------------------


def kept_by_one(folder):
    return make, [World(folder, n=20).scheduler]


def kept_by_two(folder):
    pair = Pair(folder, n=4)
    pair.turn()
    return make_sums, pair.schedulers[:1]


def kept_of_several(folder):
    return make, Several(folder).schedulers


@pytest.mark.some(1)
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("of", [kept_by_one, kept_by_two, kept_of_several])
def test_what_each_address_asks_for(tmp_path, monkeypatch, of, public):
    async def once(_):
        yield ""

    monkeypatch.setattr(Feed, "listen", once)  # which doesn't end
    made, schedulers = of(tmp_path)
    store, tokens = schedulers[0].store, {}
    for role in access.ROLES:
        access.grant(store, 0.0, role, [role], str(tmp_path / role))
        tokens[role] = bearer((tmp_path / role).read_text().strip())
    app, tried = made(schedulers[0], Options(rate=0.0, public_results=public), *schedulers[1:]), set()
    with TestClient(app) as client:
        routes = [(verb, r.path) for r in app.routes for verb in sorted(r.methods - {"HEAD", "OPTIONS"})]
        for verb, path in sorted(routes, key=lambda one: one[1].endswith("/close")):
            name = path.removeprefix("/v1/studies/{study}").replace("/analyses/", "\0").rpartition("\0")[2]
            name = "page" if path.startswith("/studies/") else "/" + name.partition("/")[2]
            may = ANYBODY if public and name == "/results" else ADDRESSES[name]
            tried.add(name)
            url = path.format_map(defaultdict(lambda: "page.js", study="sleep", k=0))
            for role, head in {None: {}, "wrong": bearer("no"), **tokens}.items():
                status = client.request(verb, url, headers=head).status_code
                if may == ANYBODY:
                    assert status != 401, path
                    assert status != 403 or name == "/peer", path
                else:
                    assert status == (200 if role in may else 403 if role in tokens else 401), (path, role)
    assert tried == ADDRESSES.keys() - ({"/shares", "/peer", "/sums"} if made is make else {"/reports", "/cells"})
    assert not any(scheduler.is_open for scheduler in schedulers if made is make)  # one may close it


def test_tokens_are_not_in_the_database_and_the_analyst_may_not_operate(world, run):
    held = {role: granted(world, run, role, role) for role in access.ROLES}
    kept = (world.folder / "study.db").read_bytes() + (world.folder / "study.db-wal").read_bytes()
    assert not any(token.encode() in kept for token in held.values())
    with TestClient(make(world.scheduler, Options(rate=0.0))) as client:
        assert client.get(f"{OF}/cells", headers=bearer(ANALYST)).status_code == 200
        assert client.get(f"{OF}/export", headers=bearer(ANALYST)).status_code == 403


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["analyst", "reader"])
def test_a_token_is_rotated_without_a_gap_and_ends(world, run, name):
    first = ANALYST if name == "analyst" else granted(world, run, name, "results", "cells")
    new = world.folder / "new.token"
    with TestClient(make(world.scheduler, Options(rate=0.0))) as client:
        handler = client.app.state.service

        def statuses(*held):
            handler._look()
            return [client.get(f"{OF}/{p}", headers=bearer(t)).status_code for t in held for p in ("results", "cells")]

        run("rotate-token", "--name", name, "--out", str(new), "--hours", "2")
        second = new.read_text().strip()
        world.clock.now = time.time()
        assert statuses(first, second) == [200] * 4
        assert f"{name}: results, cells, for 2.0 hours more" in run("list-tokens")
        world.clock.now += 2 * 3600 + 60
        assert statuses(first, second) == [401, 401, 200, 200]
        world.clock.now -= 2 * 3600 + 60
        run("revoke-token", "--name", name)
        assert statuses(first, second) == [401] * 4
    assert name in run("revoke-token", "--name", name, fails=True)


def test_servers_that_share_a_database_and_its_backups_agree_on_tokens(world, run):
    granted(world, run, "office", "operate")
    granted(world, run, "ann", "results")
    run("revoke-token", "--name", "analyst")
    run("rotate-token", "--name", "ann", "--out", str(world.folder / "new.token"))
    here = access.granted(world.store, time.time())
    assert sorted(one.name for one in here) == ["ann", "ann", "office"]
    other = open_store(world.url, "sleep", beside=world.folder / "elsewhere" / "study.db")
    assert access.granted(other, time.time()) == here
    run("backup", "--out", str(world.folder / "backup"))
    url = f"sqlite:///{world.folder / 'restored.db'}"
    assert (
        collector(["restore", str(world.folder / "sleep.plan"), "--from", str(world.folder / "backup"), "--db", url])
        == 0
    )
    assert access.granted(open_store(url, "sleep"), time.time()) == here


def test_verbs_of_tokens_say_what_they_need(world, run):
    assert "--name NAME --may ROLE --out FILE" in run("grant", "--name", "a", fails=True)
    assert "needs --name NAME alone" in run("revoke-token", "--name", "a", "--out", "x", fails=True)
    run("revoke-token", "--name", "analyst")
    assert "--name='ann' is not known; there is none." in run("revoke-token", "--name", "ann", fails=True)
    run("grant", "--name", "analyst", "--may", "cells", "--out", str(world.folder / "analyst.token"))
    assert "already" in run("grant", "--name", "analyst", "--may", "cells", "--out", "x", fails=True)


def test_collector_a_alone_is_closed_over_http(tmp_path):
    pair = Pair(tmp_path, n=4)
    pair.turn()
    statuses = []
    for scheduler in pair.schedulers:
        access.grant(scheduler.store, 0.0, "office", ["operate"], str(tmp_path / f"{scheduler.letter}.token"))
        head = bearer((tmp_path / f"{scheduler.letter}.token").read_text().strip())
        with TestClient(make_sums(scheduler, Options(rate=0.0))) as client:
            statuses += [client.post(f"{OF}/close", headers=head).status_code]
            said = client.get(f"{OF}/export", headers=head)
            assert sorted(said.json()) == ["counts", "lost", "plan", "plan_hash", "states", "sums", "unvouched"]
    assert statuses == [200, 403]


# --- settings ------------------------------------------------------------------------------------------------


def test_options_come_before_variables_and_these_before_the_file(tmp_path, monkeypatch):
    file = tmp_path / "serve.toml"
    file.write_text('plan = "a.plan"\nport = 1\nrate = 2\nproxy = true\npublic-results = false\n')
    monkeypatch.setenv("PRIVREG_SERVE_PORT", "3")
    monkeypatch.setenv("PRIVREG_SERVE_PROXY_AT", "10.0.0.0/8")
    said = prepare.completed(["--config", str(file), "--rate", "4"])
    assert said == [
        "--config-plan=a.plan", "--port=3", "--rate=2", "--proxy", "--proxy-at=10.0.0.0/8",
        "--config", str(file), "--rate", "4",
    ]  # fmt: skip
    assert prepare.completed(["--config", str(file)], prepare.SHARED)[:-2] == ["--config-plan=a.plan"]


@pytest.mark.parametrize(
    ("text", "variable", "words"),
    [
        ("prot = 1", None, "prot"),
        ("port = [1]", None, "must be a text"),
        ("port =", None, "no TOML"),
        ("proxy = 3", None, "true or false"),
        ("", "PRIVREG_SERVE_PROT", "PROT"),
        ("", "PGPASSWORD_FILE", "PGPASSWORD_FILE"),
    ],
)
def test_settings_that_are_none_are_refused(tmp_path, monkeypatch, capsys, text, variable, words):
    (tmp_path / "serve.toml").write_text(text)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "nothing"))
        monkeypatch.delenv("PGPASSWORD", raising=False)
    assert serve(["--config", str(tmp_path / "serve.toml")]) == 2
    assert words in capsys.readouterr().err


def test_passwords_are_read_from_files_and_refused_as_options(tmp_path, monkeypatch, capsys):
    (tmp_path / "password").write_text("hidden word\n")
    for name in prepare.SECRETS:
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "password"))
    prepare.completed([])
    assert [os.environ[name] for name in prepare.SECRETS] == ["hidden word"] * 2
    assert serve(["sleep.plan", "--db", "postgresql://me:secret@h/x"]) == 2
    said = capsys.readouterr().err
    assert "PGPASSWORD_FILE" in said
    assert "secret" not in said


def test_a_plan_may_come_from_the_file_and_must_come(world, tmp_path, capsys, monkeypatch):
    (tmp_path / "serve.toml").write_text(f'plan = "{world.folder / "sleep.plan"}"\ndb = "{world.url}"\n')
    assert collector(["check", "--config", str(tmp_path / "serve.toml")]) == 0
    monkeypatch.setenv("PRIVREG_SERVE_CONFIG", str(tmp_path / "serve.toml"))
    assert collector(["check"]) == 0
    monkeypatch.delenv("PRIVREG_SERVE_CONFIG")
    assert collector(["check"]) == 2
    assert "name the signed plan" in capsys.readouterr().err


# --- logs ----------------------------------------------------------------------------------------------------


def test_a_log_has_requests_without_what_is_in_them(world):
    out = io.StringIO()
    journal = logs.Journal("json", out)
    app = make(world.scheduler, Options(rate=0.0, journal=journal))
    paths = {getattr(r, "endpoint", None): r.path for r in app.routes}
    (body,) = world.bodies(1)
    with TestClient(logs.Logged(app, journal, paths)) as client:
        client.post(f"{OF}/reports", content=body, headers={"content-type": "application/json"})
        client.get(f"{OF}/states/4711?name=Ann", headers=bearer(ANALYST))
        client.get("/secret/path")
        client.request("SECRET", f"{OF}/plan")
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    base = "/v1/studies/{study}"
    assert [(d["method"], d["path"], d["status"]) for d in said if d["event"] == "request"] == [
        ("POST", f"{base}/reports", 201), ("GET", f"{base}/states/{{k}}", 404), ("GET", "other", 404),
        ("other", f"{base}/plan", 405),
    ]  # fmt: skip
    report = json.loads(body)
    hidden = ["4711", "Ann", "secret", "SECRET", ANALYST, "testclient", report["token"], report["values"][:16]]
    assert [h for h in hidden if h in out.getvalue()] == []


def test_a_warning_is_logged_without_what_was_put_into_it():
    for form in ("text", "json"):
        out = io.StringIO()
        handler = logs._Handler(logs.Journal(form, out))
        try:
            raise ValueError("hidden 17")
        except ValueError:
            handler.emit(
                logging.LogRecord("uvicorn.error", 40, "x.py", 1, "it broke for %s", ("10.1.2.3",), sys.exc_info())
            )
        assert "it broke for %s" in out.getvalue()
        assert "ValueError" in out.getvalue()
        assert "test_access.py:" in out.getvalue()
        assert "hidden" not in out.getvalue()
        handler.emit(logging.LogRecord("other", 40, "x.py", 1, "it broke\nat hidden", (), None))
        handler.emit(logging.LogRecord("other", 40, "x.py", 1, ValueError("hidden"), (), None))
        handler.emit(logging.LogRecord("asyncio", 40, "x.py", 1, "Exception in callback f('hidden')", (), None))
        assert "it broke" in out.getvalue()
        assert "asyncio" in out.getvalue()
        assert "hidden" not in out.getvalue()
        assert "10.1.2.3" not in out.getvalue()


def test_states_and_broken_databases_are_events(world, monkeypatch):
    said = []
    app = make(world.scheduler, Options(rate=0.0, journal=lambda event, **more: said.append((event, more))))
    service = app.state.service
    world.clock.now = world.plan.closes + 1
    service._close_states()
    assert said == [("state", {"study": "sleep", "number": 1})]


# --- how a server ends ---------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("signals", [["SIGTERM", "SIGINT", "SIGTERM"], ["SIGINT", "SIGINT"], ["SIGINT"], ["SIGTERM"]])
@pytest.mark.usefixtures("usual_rounds")  # as the process has
def test_a_server_that_is_stopped_answers_what_was_asked(world, signals):
    plan = str(world.folder / "sleep.plan")
    keys._write(world.folder / "server.key", keys._pem(SERVER, None))
    process = subprocess.Popen(
        [sys.executable, "-m", "privreg", "serve", plan, "--port", "0", "--db", world.url, "--log", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    with process:
        try:
            out = _stopped(process, world, signals)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "Traceback" not in out
    assert "everything that was acknowledged is kept" in out
    assert sum(c.people for c in world.store.cells().values()) == 1


def _stopped(process, world, signals):
    """What a server prints that is stopped while a report is on its way."""
    lines = []
    while not any('"start"' in line for line in lines):
        lines.append(process.stdout.readline())
        assert lines[-1], lines
    port = int(next(line for line in lines if line.startswith("Serving")).split(":")[2].split("/")[0])
    (body,) = world.bodies(1)
    with socket.create_connection(("127.0.0.1", port)) as asked:
        asked.settimeout(30)
        asked.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        said = b""
        while not said.endswith(b"}"):  # head and body may come one by one
            said += asked.recv(4096)
        head = f"POST {OF}/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        asked.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:40])
        time.sleep(0.2)
        for one in signals:
            process.send_signal(getattr(signal, one))
            time.sleep(0.05)
        asked.sendall(body[40:])
        assert b"201 Created" in asked.recv(4096)
    return "".join(lines) + process.communicate(timeout=60)[0]


# --- mail ----------------------------------------------------------------------------------------------------

PEOPLE = [["name", "address", "title"], ["Ada", "ada@example.org", "Dr"], ["Bo, Jr", "1 Road\nTown", ""]]


def written(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def mailed(world, *more, people=PEOPLE):
    given = ["--db", world.url, "--key", keys.base(public(ROOT)), "--server", "https://study.example.org"]
    out = world.folder / "mail.csv"
    listed = written(world.folder / "people.csv", people)
    return tokens([str(world.folder / "sleep.plan"), *given, "--mail", listed, "--out", str(out), *more]), out


def test_what_the_commands_offer_is_what_there_is():
    choices = {a.dest: a.choices for a in parser_of("collector")._actions if a.choices}
    assert set(choices["may"]) == set(access.ROLES)
    assert set(choices["role"]) == set(LETTERS)
    others = {"check", "replay", "close", "rotate-keys", "export", "issuer"}
    assert set(choices["verb"]) == {*others, *VERBS, *_ACCESS}


@pytest.mark.thorough
def test_each_person_gets_an_invitation_beside_what_the_list_has(world):
    prepared(str(world.folder / "sleep.plan"), world.url)
    before = world.store.about().issued
    status, out = mailed(world)
    assert status == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with out.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["name", "address", "title", "link"]
    assert [row[:3] for row in rows] == PEOPLE[1:]
    assert len({row[3] for row in rows}) == 2
    assert all(row[3].startswith("https://study.example.org/studies/sleep/#k=") for row in rows)
    assert world.store.about().issued == before + 2
    kept = b"".join(p.read_bytes() for p in world.folder.iterdir() if "db" in p.name)
    for hidden in ("Ada", "ada@example.org", rows[0][3].partition("&t=")[2]):
        assert hidden.encode() not in kept  # nobody's name, nor a token, is at the collector


@pytest.mark.parametrize(
    ("people", "words"),
    [
        ([["name"], ["Ada"]], "columns name and address"),
        ([["name", "address", "link"], ["Ada", "x", "y"]], "none named link"),
        ([["name", "address"], ["Ada", ""]], "person 1 has no name"),
        ([["name", "address"], ["Ada", "x", "y"]], "person 1"),
        ([["name", "address"], ["Ada", "x"], ["Bo", "y"], ["ada ", "X"]], "persons 1 and 3"),
        ([["name", "address"]], "names nobody"),
    ],
)
def test_a_list_that_is_none_is_refused_without_naming_anybody(world, capsys, people, words):
    status, out = mailed(world, people=people)
    said = capsys.readouterr().err
    assert status == 2
    assert words in said
    assert "Ada" not in said
    assert not out.exists()


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_links_are_also_codes(world, kind):
    segno = pytest.importorskip("segno", reason="segno is not installed: pip install './packages/field[qr]'")
    folder = world.folder / "codes"
    status, out = mailed(world, "--qr", str(folder), "--qr-kind", kind)
    assert status == 0
    with out.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[-2:] == ["link", "qr"]
    for row in rows:
        made = io.BytesIO()
        segno.make_qr(row[3], error="m").save(made, kind=kind, scale=6)
        with open(row[4], "rb") as file:
            assert file.read(120) == made.getvalue()[:120]
        assert stat.S_IMODE(os.stat(row[4]).st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert mailed(world, "--qr", str(folder))[0] == 2
