"""Many devices over HTTP: everything that is sent counts once, whatever is repeated, late or lost."""

import csv
import json
import shutil
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, norm

import privreg as pr
from privreg.errors import OptionError, StudyError
from privreg_field.device.command import main as respond
from privreg_field.device.report import design
from privreg_field.service.commands.collector import collector
from privreg_field.service.commands.serve import serve
from privreg_field.study.declaring.command import main as study_command
from privreg_field.study.servers import BusyError, fetched
from privreg_field.study.simulated import demo, devices
from privreg_field.study.simulated.swarm import _Poster, read_links, swarm
from privreg_field.study.simulated.swarm import main as swarm_command
from privreg_field.wire import messages
from tests.service.served import links, served
from tests.service.test_connect import KEY
from tests.service.world import ANALYST, SERVER, Scheduler, World, assert_same, in_process, people

pytestmark = pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")


@pytest.fixture(scope="module")
def few_rounds():
    """As many as users get: other processes read the plan."""


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def rechecked(world, capsys):
    plan = world.folder / "sleep.plan"
    plan.write_bytes(world.envelope)
    capsys.readouterr()
    assert collector(["check", str(plan), "--db", world.url]) == 0
    assert collector(["replay", str(plan), "--db", world.url]) == 0
    return capsys.readouterr().out


@pytest.mark.thorough
def test_all_that_a_swarm_sends_counts_once(world, capsys):
    with served(world.scheduler) as base:
        url = f"{base}/v1/studies/sleep#k={KEY}"
        states = []
        got = swarm(
            url, people(1200), links(world, base), duplicates=0.2, late=2, dropout=0.1, progress=False,
            seen=lambda state: states.append(state.number),
        )  # fmt: skip
        settle(world)
        res = pr.connect(url, ANALYST).results()
    assert got.devices == 1200
    assert sum(got.statuses.values()) > got.statuses[201] == 1200 - got.lost
    assert set(got.statuses) == {200, 201}  # again: the same bytes
    assert res.nobs == got.statuses[201]
    assert states == sorted(states)
    assert f"{got.statuses[201]:,} reports" in rechecked(world, capsys)
    late = 100 * sum(late_of(world)) / res.nobs
    assert f"{late:.1f}% late (counted)" in " ".join(res.summary().as_text().split())


def settle(world):
    """Close what has all its reports, as the server's own thread is about to."""
    clerk = Scheduler(world.store, SERVER, world.clock)
    while clerk.advance():
        pass


def late_of(world):
    """Reports of each closed state that came after it had closed."""
    snapshots = [json.loads(s) for s in world.store.snapshots()]
    cells = world.store.cells()
    for state, snapshot in enumerate(snapshots):
        then = sum(c["people"] for c in snapshot if c["state"] == state)
        yield sum(c.people for place, c in cells.items() if place.state == state) - then


def test_a_swarm_at_the_shell(world, capsys, tmp_path):
    people(60).to_csv(tmp_path / "people.csv", index=False)
    with served(world.scheduler) as base:
        with (tmp_path / "links.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["link"], *([link] for link in links(world, base)[:50])])
        url = f"{base}/v1/studies/sleep"
        given = [str(tmp_path / "people.csv"), "--tokens", str(tmp_path / "links.csv")]
        assert swarm_command([url, *given]) == 0
        said = "50 devices: 0 never answered, 0 late. Servers said:\n  50 × the report has arrived (status 201)\n"
        assert said in capsys.readouterr().out
        assert swarm_command([url, *given, "--devices", "51"]) == 2
        assert "there are 50" in capsys.readouterr().err
        assert swarm_command([url, *given]) == 0  # other noise for a used token
        assert "50 × the token has been used (status 409)" in capsys.readouterr().out
        world.scheduler.close()
        assert swarm_command([url, *given]) == 2
        assert "has closed" in capsys.readouterr().err
    assert swarm_command([url, given[0], "--tokens", given[0]]) == 2
    assert "no file of invitations" in capsys.readouterr().err
    assert len(read_links(str(tmp_path / "links.csv"))) == 50


def test_a_swarm_waits_where_a_server_is_busy(world):
    with served(world.scheduler, rate=5.0) as base:
        url = f"{base}/v1/studies/sleep"
        with pytest.raises(BusyError, match="asked too often"):
            [fetched(url, "state") for _ in range(1_000)]
        assert swarm(url, people(3), links(world, base)[:3], progress=False).statuses == {201: 3}


@pytest.mark.thorough
def test_a_swarm_stops_at_an_answer_that_is_none_of_the_choices(world):
    rows = people(60)
    rows["age"] = rows["age"].astype(object)
    rows.loc[7, "age"] = None  # which sends noise
    with served(world.scheduler) as base:
        invited = links(world, base)
        rows.loc[9, "age"] = "fourty"
        with pytest.raises(OptionError, match="'age' must be a number") as e:
            swarm(f"{base}/v1/studies/sleep", rows, invited, progress=False)
        assert "fourty" not in str(e.value)
        assert not list(world.store.reports())
        got = swarm(f"{base}/v1/studies/sleep", rows.drop(9), invited, progress=False)
        assert got.statuses == {201: 59}


@pytest.fixture
def ready(world, monkeypatch):
    """A study's plan with its keys, and a server that remembers what it was to listen at."""
    plan, listened = world.folder / "sleep.plan", []
    plan.write_bytes(world.envelope)
    monkeypatch.setattr("privreg_field.service.commands.serve.keys.load", lambda path: SERVER)
    run = lambda self, sockets: listened.extend(one.getsockname()[1] for one in sockets)  # noqa: E731
    monkeypatch.setattr("uvicorn.Server.run", run)
    return [str(plan), "--db", world.url], listened


def test_serve_says_its_address_once_it_has_it(ready, capsys):
    given, listened = ready
    assert serve([*given, "--port", "0"]) == 0
    (port,) = listened
    assert port > 0
    assert f"at http://127.0.0.1:{port}/v1/studies/sleep;" in capsys.readouterr().out


def test_serve_refuses_where_there_are_no_locks_of_posix(ready, capsys, monkeypatch):
    given, listened = ready
    monkeypatch.setattr("privreg_field.service.commands.serve.os", SimpleNamespace(name="nt", environ={}))
    assert serve([*given, "--port", "0"]) == 2
    assert "as Linux and macOS do" in capsys.readouterr().err
    assert not listened


def test_serve_says_that_a_port_is_in_use_and_no_address(ready, capsys):
    given, listened = ready
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert serve([*given, "--port", str(port)]) == 2
    assert serve([*given, "--port", "70000"]) == 2
    said = capsys.readouterr()
    assert f"port {port} of 127.0.0.1 can't be had: another program has it; give another --port" in said.err
    assert "Serving" not in said.out
    assert not listened


def test_a_swarm_stays_on_this_machine(world):
    invited = links(world, "https://study.example.org")
    with pytest.raises(OptionError, match="--anywhere"):
        swarm("https://study.example.org/v1/studies/sleep", people(5), invited)
    with pytest.raises(OptionError, match="no invitations"):
        swarm("http://127.0.0.1:9/v1/studies/sleep", people(5), [])
    with pytest.raises(StudyError, match="can't be reached"):
        swarm("http://127.0.0.1:9/v1/studies/sleep", people(5), invited)


def test_a_persons_own_device_answers_once(world, tmp_path, capsys):
    row, memory = tmp_path / "me.json", tmp_path / "memory.db"
    row.write_text(json.dumps({"age": 41, "hours": 7.5}))
    with served(world.scheduler) as base:
        link = links(world, base)[0]
        given = [link, "--row", str(row), "--memory", str(memory), "--yes"]
        assert respond([*given, "--dry-run"]) == 0
        assert not world.store.cells()
        assert respond(given) == 0
        (cell,) = world.store.cells().values()
        assert cell.people == 1
        assert respond(given) == 1
        assert "answers once" in capsys.readouterr().err
    assert sum(c.people for c in world.store.cells().values()) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("n", [1500, pytest.param(20_000, marks=pytest.mark.statistical)])
def test_devices_over_http_give_the_estimate_of_the_rounds_in_process(tmp_path, n):
    world = World(tmp_path, n=n, rows=n)
    with served(world.scheduler) as base, ThreadPoolExecutor(16) as pool:
        with closing(_Poster(f"{base}/v1/studies/sleep/reports")) as poster:
            while world.next < n:
                settle(world)
                world.scheduler.catch_up()
                needed = world.scheduler.chain.ask.ends or 2000
                have = world.store.people().get(world.scheduler.present.k, 0)
                bodies = world.bodies(min(needed - have if needed > have else 2000, 2000, n - world.next))
                assert set(pool.map(poster.post, bodies)) == {201}
        res = pr.connect(f"{base}/v1/studies/sleep#k={KEY}", ANALYST).results()
    assert " 0.0% late (counted)" in " ".join(res.summary().as_text().split())
    assert res.nobs == n
    assert_same(res, in_process(world))
    if n == 20_000:  # fewer tell too little: the noise is secret, and the intervals of hundreds are no promise
        assert abs(res.params["age"] + 0.04) < 5 * res.bse["age"] < 0.05


# --- noise ---------------------------------------------------------------------------------------------------


def test_a_swarms_noise_is_a_rounded_gaussian():
    rng = np.random.default_rng(5)
    drawn = devices.rounded_normals(rng, (200_000,), 2)
    assert drawn.dtype == np.int64
    edges = np.arange(-12, 13)
    cells = np.diff(norm.cdf(np.concatenate([[-np.inf], (edges[:-1] + 0.5) / 4, [np.inf]])))
    seen = np.histogram(np.clip(drawn, -12, 12), np.arange(-12, 14) - 0.5)[0]
    assert chi2.sf(((seen - drawn.size * cells) ** 2 / (drawn.size * cells)).sum(), len(seen) - 1) > 1e-4


def test_a_swarms_reports_have_the_noise_that_the_plan_promises(world):
    """Pure noise: people whose answers are missing, all of one state; the sd within 4 standard errors."""
    state = world.state
    nobody = devices.Crowd(world.plan, world.hash, {"age": np.full(400, np.nan), "hours": np.full(400, np.nan)})
    bodies = nobody.bodies(state, range(400), world.tokens[:400])
    told = np.array([messages.read_report(b, world.plan, world.hash).values for b in bodies])
    sd = told.std() / 2.0**world.plan.bits
    assert abs(sd - 1.0) < 4 / np.sqrt(2 * told.size)
    assert abs(told.mean()) / 2.0**world.plan.bits < 4 / np.sqrt(told.size)


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["Float64", "Int32", "float32", object])
def test_missing_answers_of_any_type_are_missing(world, kind):
    """None of pandas' and NumPy's own is an answer out of bounds, which devices would ask about again."""
    rows = pd.DataFrame({"age": [30, None, 50], "hours": [None, 7, 6]}, dtype="Float64").astype(kind, errors="ignore")
    crowd = devices.Crowd(world.plan, world.hash, rows)
    np.testing.assert_array_equal(np.isnan(crowd._held.y), [True, True, False])
    for answers in ({"age": np.float32("nan"), "hours": 7}, {"age": 30, "hours": None}):
        assert design.wrong(world.plan, answers) == []
    with pytest.raises(OptionError, match="'age' must be a number"):
        devices.Crowd(world.plan, world.hash, pd.DataFrame({"age": [30, "old"], "hours": [7.0, 6.0]}))


# --- all of it -----------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_demonstration_plays_a_whole_study(tmp_path, capfd):
    folder = tmp_path / "trial"
    assert study_command(["demo", "--devices", "1000", "--folder", str(folder)]) == 0
    said = capfd.readouterr().out
    for command in ("study sign", "serve", "tokens", "swarm", "results"):
        assert f"$ privreg {command}" in said
    assert "1,000 of 1,000 invited" in said
    assert "smoker[T.yes]" in said
    assert (folder / "study.analyst").stat().st_mode & 0o77 == 0
    assert study_command(["demo", "--folder", str(folder)]) == 2
    assert "name a new one" in capfd.readouterr().err
    assert study_command(["demo", "--devices", "10"]) == 2
    assert "1,000 or more" in capfd.readouterr().err


@pytest.mark.thorough
def test_the_demonstration_with_two_collectors_plays_a_whole_study(tmp_path, capfd, monkeypatch):
    pytest.importorskip("privreg_field.service.sums", reason="there is no server for one of two collectors")
    quick = SimpleNamespace(_layout=list, assumed=SimpleNamespace(usual=False))
    monkeypatch.setattr("privreg.planning.power.plan_of_fit", lambda *given: quick)
    folder = tmp_path / "trial"
    assert study_command(["demo", "--two", "--devices", "1000", "--folder", str(folder)]) == 0
    said = capfd.readouterr().out
    for command in ("study key a.key --collector", "study sign", "serve study.plan --role b", "collector issuer",
                    "respond", "swarm", "collector close", "results"):  # fmt: skip
        assert f"$ privreg {command}" in said
    assert said.count("a device in JavaScript answers") == (2 if shutil.which("node") else 0)
    assert "1,000 of 1,000 invited, in" in said
    assert "smoker[T.yes]" in said
    assert "University of Here or Office of Statistics" in " ".join(said.split())
    assert "computed from noised sums alone" in said
    assert f"res = privreg.load({str(folder / 'charges.privreg')!r})" in said
    assert pr.load(folder / "charges.privreg").nobs == 1000
    for name in ("a.key", "b.key", "study.a.analyst", "study.b.analyst"):
        assert (folder / name).stat().st_mode & 0o77 == 0


def test_a_step_that_fails_ends_the_demonstration(tmp_path, monkeypatch):
    begun = []

    def failing(words):
        begun.append(words[0])
        return [sys.executable, "-m", "privreg", *(words if len(begun) < 3 else ("study", "key"))]

    monkeypatch.setattr(demo, "_said", failing)
    with pytest.raises(StudyError, match="this command failed"):
        demo.demo(1000, str(tmp_path / "trial"))
    assert begun == ["data", "study", "study"]
