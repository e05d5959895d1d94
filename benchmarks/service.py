"""A collector under load: reports and states a second, latencies, memory, and results.

``python -m benchmarks.service [--reports N] [--connections C] [--out FOLDER]``

A study (``charges ~ age + bmi + smoker``, μ = 2) is signed, served by ``privreg serve`` on SQLite, and answered over
HTTP on this machine: first by `privreg.field.swarm` until the main rounds begin, then by C connections in one process
that post what it has made beforehand, one report after another. 5% are posted twice. Server and generator share the
machine. Stored, one line a measure:

reports
    New ones a second, from the first post to the last answer; median and 99th percentile of latency in milliseconds.
states
    Requests a second of the present state by its ETag, which is answered by 304.
results
    Milliseconds of ``GET …/results``, median of several, once all have come.
analyst
    Seconds of ``pr.connect(…).results()``, which verifies every state.
memory
    MiB that the server's process held at most.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.store import save_table
from privreg.device.client import invitation
from privreg.field import command, demo, keys, swarm
from privreg.field.devices import Crowd
from privreg.field.servers import fetched
from privreg.field.study import Study
from privreg.protocol import messages, wire
from privreg.service.command import write_tokens

RESULTS = Path(__file__).with_name("results")
SLUG = "charges"
FIRST = 3000
"""Reports by which the main rounds have begun."""

TWICE = 0.05
"""Share of the reports that is posted twice."""

STATES = 20_000
"""Requests of the state."""


class Posted(NamedTuple):
    """What became of posts."""

    seconds: float
    latencies: np.ndarray
    statuses: dict[int, int]


# --- the generator -------------------------------------------------------------------------------------------


async def _one(host: str, port: int, requests: Iterator[bytes], out: list[tuple[int, float]]) -> None:
    """A connection that sends one request after another, and reads each answer to its end."""
    reader, writer = await asyncio.open_connection(host, port)
    for request in requests:
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        low = head.lower()
        at = low.find(b"content-length:")
        if at >= 0:
            await reader.readexactly(int(low[at + 15 : low.index(b"\r", at)]))
        out.append((int(head[9:12]), time.perf_counter() - began))
    writer.close()
    await writer.wait_closed()


def play(url: str, requests: Sequence[bytes], connections: int) -> Posted:
    """Send all requests over so many connections."""
    parts = urlsplit(url)
    out: list[tuple[int, float]] = []
    shared = iter(requests)

    async def every() -> None:
        host, port = str(parts.hostname), int(parts.port or 80)
        await asyncio.gather(*(_one(host, port, shared, out) for _ in range(connections)))

    began = time.perf_counter()
    asyncio.run(every())
    seconds = time.perf_counter() - began
    statuses, counts = np.unique([s for s, _ in out], return_counts=True)
    return Posted(seconds, np.array([t for _, t in out]), dict(zip(statuses.tolist(), counts.tolist(), strict=True)))


def request(verb: str, path: str, body: bytes = b"", more: str = "") -> bytes:
    """A request of HTTP/1.1."""
    head = f"{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}Content-Length: {len(body)}\r\n"
    return (head + "Content-Type: application/json\r\n\r\n").encode() + body


# --- the study -----------------------------------------------------------------------------------------------


class Served(NamedTuple):
    """A study that is served."""

    base: str
    root: bytes
    plan: Path
    db: str
    process: subprocess.Popen[bytes]

    @property
    def token(self) -> str:
        """The analyst's."""
        return self.plan.with_suffix(".analyst").read_text().strip()

    def study(self) -> Study:
        """As its analyst sees it."""
        return pr.connect(f"{self.base}/v1/studies/{SLUG}#k={wire.base(self.root)}", self.token)


@contextlib.contextmanager
def served(at: Path, devices: int) -> Iterator[Served]:
    """Sign a study, and serve it."""
    (at / "study.yaml").write_text(demo.STUDY.format(devices=devices))
    for given in (["key", "root.key"], ["key", "server.key"], ["sign", "study.yaml", "--key", "root.key"]):
        more = ["--states", "server.key"] if given[0] == "sign" else []
        if command.main([*given, *more]):
            raise SystemExit("the study could not be signed")
    root, port = keys.public(keys.load(at / "root.key")), str(demo.free())
    serve = [sys.executable, "-m", "privreg", "serve", "study.plan", "--port", port, "--rate", "0"]
    base = f"http://127.0.0.1:{port}"
    with subprocess.Popen(serve, cwd=at, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        try:
            demo.wait(process, base)
            yield Served(base, root, at / "study.plan", f"sqlite:///{at / 'study.db'}", process)
        finally:
            process.terminate()


def held(process: subprocess.Popen[bytes]) -> float:
    """MiB that a process held at most."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = [x for x in text.splitlines() if x.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def state_of(one: Study, base: str) -> messages.FieldState:
    """The present state."""
    payload = wire.open_envelope(fetched(f"{base}/v1/studies/{SLUG}", "state"), "state").payload
    return messages.read_state(payload, one.signed, one.plan_hash)


# --- measures ------------------------------------------------------------------------------------------------


def measured(at: Path, reports: int, connections: int) -> list[dict[str, Any]]:
    """Put a collector under load; a row a measure."""
    rows = pr.datasets.us_insurance(reports + FIRST)
    out: list[dict[str, Any]] = []

    def say(measure: str, value: float, unit: str) -> None:
        out.append({"reports": reports, "connections": connections, "measure": measure, "value": value, "unit": unit})
        print(f"{measure:<32}{value:>12,.1f} {unit}", flush=True)

    with served(at, reports + FIRST) as it:
        links = at / "links.csv"
        write_tokens(str(it.plan), it.db, it.root, reports + FIRST, str(links), it.base)
        time.sleep(2.0)  # the server looks once a second for tokens that were taken back, and new keys
        invited = swarm.read_links(str(links))
        address = f"{it.base}/v1/studies/{SLUG}"
        swarm.swarm(address, rows.iloc[:FIRST], invited[:FIRST], progress=False)
        one = it.study()
        crowd = Crowd(one.signed, one.plan_hash, rows)
        state = state_of(one, it.base)
        path = f"/v1/studies/{SLUG}"
        rng, made = np.random.default_rng(), list[bytes]()
        for a in range(FIRST, FIRST + reports, 10_000):
            who = range(a, min(a + 10_000, FIRST + reports))
            tokens = [messages.read_token(invitation(invited[i]).token) for i in who]
            made += [request("POST", f"{path}/reports", body) for body in crowd.bodies(state, who, tokens)]
        sent = [one for body in made for one in ([body] if rng.random() >= TWICE else [body, body])]
        posted = play(it.base, sent, connections)
        if set(posted.statuses) != {200, 201} or posted.statuses[201] != reports:
            raise SystemExit(f"not every report was taken once: {posted.statuses}")
        say("reports", reports / posted.seconds, "a second")
        say("posts", len(sent) / posted.seconds, "a second")
        say("latency, median", 1e3 * float(np.median(posted.latencies)), "ms")
        say("latency, 99th percentile", 1e3 * float(np.quantile(posted.latencies, 0.99)), "ms")
        tag = f'If-None-Match: "{state_of(one, it.base).number}"\r\n'
        states = play(it.base, [request("GET", f"{path}/state", more=tag)] * STATES, connections)
        if set(states.statuses) != {304}:
            raise SystemExit(f"the state was not answered by its tag: {states.statuses}")
        say("states", STATES / states.seconds, "a second")
        known = f"Authorization: Bearer {it.token}\r\n"
        results = play(it.base, [request("GET", f"{path}/results", more=known)] * 9, 1)
        say("results", 1e3 * float(np.median(results.latencies)), "ms")
        began = time.perf_counter()
        res = it.study().results()
        say("analyst, every state verified", time.perf_counter() - began, "s")
        if res.nobs != reports + FIRST:
            raise SystemExit(f"{res.nobs} reports count, of {reports + FIRST}")
        say("server's memory", held(it.process), "MiB")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    summary, _, usage = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.service", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--reports", type=int, default=60_000, help="60,000 by default")
    parser.add_argument("--connections", type=int, default=64, help="64 by default")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of service.csv")
    a = parser.parse_args(arguments)
    where = a.out.resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        table = pd.DataFrame(measured(Path(folder), a.reports, a.connections))
    given = f"--reports {a.reports} --connections {a.connections}"
    save_table(table.round(2), where / "service.csv", f"python -m benchmarks.service {given}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
