"""A study that is served by a process goes to another database, and is served there by another process."""

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from privreg_field.service.commands.serve import serve
from privreg_field.service.store import open_store
from privreg_field.study import keys
from privreg_field.study.simulated import demo
from tests.service import postgres
from tests.service.test_copies import PEOPLE, other_of, ran
from tests.service.world import SERVER, World


@contextmanager
def serving(world, url, port):
    """A process that serves the study; it is stopped at the end."""
    given = [sys.executable, "-m", "privreg", "serve", str(world.folder / "sleep.plan"), "--db", url]
    given += ["--port", str(port), "--rate", "0"]
    with subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            while "Serving" not in (line := process.stdout.readline()):
                assert line
            yield process
        finally:
            process.terminate()
            said = process.communicate(timeout=60)[0]
    assert "everything that was acknowledged is kept" in said


@pytest.mark.thorough
@pytest.mark.usefixtures("usual_rounds")  # as the processes have
def test_devices_that_post_while_a_served_study_goes_to_postgres_count_once(tmp_path, capsys):
    if postgres.MISSING:
        pytest.skip(f"{postgres.MISSING} missing")
    world = World(tmp_path, n=PEOPLE)
    (tmp_path / "sleep.plan").write_bytes(world.envelope)
    keys._write(tmp_path / "server.key", keys._pem(SERVER, None))
    bodies, heard, over = world.bodies(PEOPLE, world.states_of(0)), {}, threading.Event()
    url, port = other_of(world, "postgres"), demo.free()

    def post(k):
        """Status of the answer; 0 if there is none."""
        where, head = f"http://127.0.0.1:{port}/v1/studies/sleep/reports", {"Content-Type": "application/json"}
        try:
            with urlopen(Request(where, bodies[k], head), timeout=30.0) as answer:
                return answer.status
        except HTTPError as e:
            return e.code
        except OSError:
            return 0

    def devices():
        """Each posts until it is answered; some whose answer was lost come again."""
        for k in range(PEOPLE):
            while not over.is_set() and heard.get(k) not in ({200} if k % 3 == 0 else {200, 201}):
                heard[k] = post(k)
                time.sleep(0.05)

    sender = threading.Thread(target=devices)
    sender.start()
    try:
        with serving(world, world.url, port):
            while len(heard) < PEOPLE // 3:
                time.sleep(0.05)
            assert ran(world, "move", "--to", url) == 2
            assert "another privreg serve" in capsys.readouterr().err
            assert world.store.about().moved is None
        assert len(heard) < PEOPLE
        assert ran(world, "move", "--to", url) == 0
        assert serve([str(tmp_path / "sleep.plan"), "--db", world.url, "--port", str(port)]) == 2
        assert "was moved from" in capsys.readouterr().err
        with serving(world, url, port):
            sender.join(60)
    finally:
        over.set()
        sender.join()
    assert set(heard.values()) <= {200, 201}
    assert len(heard) == PEOPLE
    assert ran(world, "check", db=url) == ran(world, "replay", db=url) == 0
    assert sum(open_store(url, "sleep").people().values()) == PEOPLE
