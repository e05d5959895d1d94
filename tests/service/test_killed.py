"""Servers that are killed without a word while devices come over HTTP: what was acknowledged counts, and once.

Killed are the collector, what stands before it, its PostgreSQL, and each of two collectors. A device sends the same
bytes until they are acknowledged, as all devices do.
"""

import contextlib
import hashlib
import os
import random
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import privreg as pr
from field_benchmarks import service
from privreg.errors import StudyError
from privreg_field.service.commands.collector import collector
from privreg_field.service.store import open_store
from privreg_field.study.simulated import demo, swarm
from privreg_field.wire import messages
from tests.service import postgres
from tests.service.test_faults import crashed, own

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("usual_rounds"),
    pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning"),
]


@pytest.fixture(autouse=True, scope="module")
def few_rounds():
    """Servers are other processes."""


DEVICES, TWO_DEVICES = 6_000, 2_000
KILLS = 3

PROXY = """
    import asyncio, sys
    there, here = map(int, sys.argv[1:])
    async def copied(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()
    async def met(reader, writer):
        try:
            other, on = await asyncio.open_connection("127.0.0.1", there)
        except OSError:
            return writer.close()
        await asyncio.gather(copied(reader, on), copied(other, writer))
    async def main():
        await (await asyncio.start_server(met, "127.0.0.1", here)).serve_forever()
    asyncio.run(main())
"""


def started(process, base):
    """A process like one that was killed, once it answers; its database may keep the other's lock for a moment."""
    quiet, until = {**os.environ, "PYTHONUNBUFFERED": "1"}, time.monotonic() + 60
    while time.monotonic() < until:
        new = subprocess.Popen(process.args, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            demo.wait(new, base)
            return new
        except StudyError:
            ended(new)
    raise AssertionError("it does not start again")


def ended(process):
    """End a process, and wait for its end."""
    process.kill()
    process.wait()


def patient(fetched):
    """Ask again while a server is away."""

    def ask(*given):
        for _ in range(600):
            with contextlib.suppress(StudyError):
                return fetched(*given)
            time.sleep(0.1)
        return fetched(*given)

    return ask


class Devices(threading.Thread):
    """A swarm that answers; what was posted to each server, and with which status."""

    def __init__(self, monkeypatch, url, links):
        super().__init__(daemon=True)
        self.url, self.links, self.rows = url, links, pr.datasets.us_insurance(len(links))
        self.heard, self.answers = [], None
        real, lock = swarm._Poster.post, threading.Lock()

        def post(poster, body):
            status = real(poster, body)
            with lock:
                self.heard.append((body, status))
            return status

        monkeypatch.setattr(swarm._Poster, "post", post)
        monkeypatch.setattr(swarm, "fetched", patient(swarm.fetched))

    def run(self):
        self.answers = swarm.swarm(self.url, self.rows, self.links, duplicates=0.1, progress=False)

    def come_while(self, kill):
        """Come, while `kill` is called now and then; how often it was."""
        chance, kills = random.Random(1), 0
        self.start()
        while self.is_alive() and kills < KILLS:
            self.join(chance.uniform(0.8, 2.0))
            if self.is_alive():
                kill()
                kills += 1
        self.join(300)
        assert self.answers is not None
        return kills


def counted_once(it, devices, url):
    """Every report that was acknowledged is in the database, and in the sums, once."""
    one = it.study()
    store = open_store(url, service.SLUG)
    kept = {body for body, status in devices.heard if status in {200, 201}}
    reports = [(messages.read_report(body, one.signed, one.plan_hash), hashlib.sha256(body).digest()) for body in kept]
    assert len({report.token.id for report, _ in reports}) == len(reports) == len(devices.links)
    assert all(store.has(report.token.id, digest) for report, digest in reports)
    assert sum(cell.people for cell in store.cells().values()) == len(reports)
    store.engine.dispose()
    assert collector(["check", str(it.plan), "--db", url]) == 0
    assert one.results().nobs == len(reports)


def test_a_collector_that_is_killed_while_devices_come(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with service.served(tmp_path, DEVICES) as it, contextlib.ExitStack() as stack:

        def kill():
            ended(it.processes[0])
            it.processes[0] = started(it.processes[0], it.bases[0])
            stack.callback(ended, it.processes[0])

        devices = Devices(monkeypatch, it.urls()[0], service.invited(it, tmp_path, DEVICES))
        assert devices.come_while(kill) >= 2
        assert set(devices.answers.statuses) == {200, 201}
        counted_once(it, devices, f"sqlite:///{tmp_path}/study.db")


def test_a_proxy_that_is_killed_while_devices_come(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with service.served(tmp_path, DEVICES) as it, contextlib.ExitStack() as stack:
        there, here = it.bases[0].rpartition(":")[2], demo.free()
        base = f"http://127.0.0.1:{here}"
        proxy = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROXY), there, str(here)])]
        stack.callback(lambda: ended(proxy[0]))
        demo.wait(proxy[0], base)

        def kill():
            ended(proxy[0])
            proxy[0] = started(proxy[0], base)

        devices = Devices(monkeypatch, f"{base}/v1/studies/{service.SLUG}", service.invited(it, tmp_path, DEVICES))
        assert devices.come_while(kill) >= 2
        assert set(devices.answers.statuses) == {200, 201}
        counted_once(it, devices, f"sqlite:///{tmp_path}/study.db")


@pytest.mark.skipif(bool(postgres.MISSING), reason=f"{postgres.MISSING} missing")
def test_a_postgresql_that_is_killed_while_devices_come(tmp_path, own, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = own.get_uri()
    with service.served(tmp_path, DEVICES, database=url) as it:
        devices = Devices(monkeypatch, it.urls()[0], service.invited(it, tmp_path, DEVICES))
        assert devices.come_while(lambda: crashed(own)) >= 2
        assert set(devices.answers.statuses) == {200, 201}
        counted_once(it, devices, url)


@pytest.mark.parametrize("place", [0, 1])
def test_each_of_two_collectors_that_is_killed_while_devices_come(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with service.served(tmp_path, service.PLANNED, two=True) as it, contextlib.ExitStack() as stack:

        def kill():
            ended(it.processes[place])
            it.processes[place] = started(it.processes[place], it.bases[place])
            stack.callback(ended, it.processes[place])

        devices = Devices(monkeypatch, it.urls()[0], service.invited(it, tmp_path, TWO_DEVICES))
        assert devices.come_while(kill) >= 2
        assert set(devices.answers.statuses) <= {200, 201, swarm.UNSUMMED}
        service.closed(it)
        res = it.study().results()  # sums that no reports can have would be left out
        assert res.nobs == TWO_DEVICES


__all__ = ["own"]
