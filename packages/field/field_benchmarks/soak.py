"""A collector that is posted reports for a long time: memory and lag, stored and drawn.

``python -m field_benchmarks.soak [--minutes M] [--rate R] [--sqlite] [--out FOLDER]``

A study (`field_benchmarks.service`) is served on PostgreSQL by two servers that share it, or with ``--sqlite`` by one
on SQLite, and posted R reports a second by connections of one process, which makes them as it goes: every ten seconds
it makes those of the next ten, to the state that is handed out then. Stored, a line for each ten seconds:

minute
    Since the first post.
reports
    New ones a second.
lag, median and 99th percentile
    Milliseconds from when a report was due to its answer: waiting for a connection counts.
behind
    Reports that were due at the end of the ten seconds, and had no answer yet.
state
    Number of the state that was answered.
memory
    MiB resident in each server, and in all processes of PostgreSQL together (what they share counts once): its cache,
    which fills with pages of the database up to 128 MiB, and the rest.
load
    Processes that run or wait on the machine, mean of a minute.

At the end every report must count once, which is asked of the database (``privreg collector check``).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.store import save_table
from field_benchmarks import service
from privreg_field.device.client import invitation
from privreg_field.service.commands.collector import collector
from privreg_field.study.simulated import swarm
from privreg_field.study.simulated.devices import Crowd
from privreg_field.wire import messages

EVERY = 10.0
"""Seconds between two lines."""

CONNECTIONS = 16
"""To each server."""

Due = tuple[float, bytes]
"""When a request is due, by `time.monotonic`, and its bytes."""


class Generator:
    """Connections that stay open, and send what is due."""

    def __init__(self, bases: Sequence[str]) -> None:
        self.bases = bases
        self.lags: list[tuple[float, float, int]] = []  # When an answer came, seconds after it was due, its status
        self.waiting: asyncio.Queue[Due] = asyncio.Queue()

    async def run(self) -> None:
        """Send until cancelled."""
        await asyncio.gather(*(self._one(base) for base in self.bases for _ in range(CONNECTIONS)))

    async def _one(self, base: str) -> None:
        parts = urlsplit(base)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            while True:
                when, body = await self.waiting.get()
                await asyncio.sleep(max(when - time.monotonic(), 0.0))
                while (status := await service.answered(reader, writer, body)) == 503:  # as a device does
                    await asyncio.sleep(1.0)
                now = time.monotonic()
                self.lags.append((now, now - when, status))
        finally:
            writer.close()


def proportional(pids: Sequence[int]) -> tuple[float, float]:
    """MiB of some processes together: of shared memory, each its part, and of the rest."""
    shared = rest = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
            of = {name: int(value.split()[0]) / 1024 for name, _, value in (x.partition(":") for x in lines)}
            shared, rest = shared + of["Pss_Shmem"], rest + of["Pss"] - of["Pss_Shmem"]
    return shared, rest


async def soaked(
    it: service.Served, at: Path, links: Sequence[str], rows: pd.DataFrame, rate: int, count: int
) -> pd.DataFrame:
    """Post at a steady rate; a row each `EVERY` seconds."""
    one, out = it.study(), list[dict[str, Any]]()
    crowd, path = Crowd(one.signed, one.plan_hash, rows), f"/v1/studies/{service.SLUG}/reports"
    generator, some = Generator(it.bases), int(rate * EVERY)

    def made(first: int) -> tuple[int, list[bytes]]:
        state = service.state_of(one, it)
        who = range(first, min(first + some, service.FIRST + count))
        if not who:
            return 0, []
        tokens = [messages.read_token(invitation(links[i]).token) for i in who]
        return state.number, [service.request("POST", path, bodies[0]) for bodies in crowd.posts(state, who, tokens)]

    task = asyncio.create_task(generator.run())
    k, bodies = await asyncio.to_thread(made, service.FIRST)
    began, sent, seen = time.monotonic(), 0, 0
    while bodies:
        start = began + sent / rate
        for i, body in enumerate(bodies):
            generator.waiting.put_nowait((start + i / rate, body))
        sent += len(bodies)
        next_ = await asyncio.to_thread(made, service.FIRST + sent)
        await asyncio.sleep(max(began + sent / rate - time.monotonic(), 0.0))
        cache, rest = proportional(service.of_postgres(at))
        new, seen = generator.lags[seen:], len(generator.lags)
        lags = 1e3 * np.array([lag for _, lag, _ in new] or [np.nan])
        row = {
            "minute": (time.monotonic() - began) / 60, "reports": len(new) / (len(bodies) / rate),
            "lag, median": float(np.median(lags)), "lag, 99th percentile": float(np.quantile(lags, 0.99)),
            "behind": sent - seen, "state": k,
            **{f"memory, server {i + 1}": service.held([p], "VmRSS") for i, p in enumerate(it.processes)},
            "memory, PostgreSQL's cache": cache, "memory, PostgreSQL but for it": rest, "load": os.getloadavg()[0],
        }  # fmt: skip
        out.append(row)
        print("  ".join(f"{name} {value:,.1f}" for name, value in row.items()), flush=True)
        k, bodies = next_
    while len(generator.lags) < sent:
        if task.done():
            task.result()
        await asyncio.sleep(0.1)
    task.cancel()
    if {status for _, _, status in generator.lags} != {201}:
        raise SystemExit("not every report was taken once")
    return pd.DataFrame(out)


def drawn(table: pd.DataFrame, path: Path) -> None:
    """Draw lag and memory over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    for name in ("lag, median", "lag, 99th percentile"):
        above.plot(table["minute"], table[name], label=name.partition(", ")[2])
    above.set(ylabel="lag in ms", ylim=(0, None))
    for name in (n for n in table if n.startswith("memory")):
        below.plot(table["minute"], table[name], label=name.partition(", ")[2])
    below.set(ylabel="memory in MiB", xlabel="minutes", ylim=(0, None))
    for axes in (above, below):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    summary, _, usage = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m field_benchmarks.soak", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, default=3.0, help="3 by default")
    parser.add_argument("--rate", type=int, default=100, help="reports a second; 100 by default")
    parser.add_argument("--sqlite", action="store_true", help="one server on SQLite")
    parser.add_argument("--out", type=Path, default=service.RESULTS, help="folder of soak.csv and soak.png")
    a = parser.parse_args(arguments)
    where, count = a.out.resolve(), int(60 * a.minutes * a.rate)
    rows = pr.datasets.us_insurance(service.FIRST + count)
    with contextlib.ExitStack() as stack:
        at = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(contextlib.chdir(at))
        database = "" if a.sqlite else stack.enter_context(service.postgres(at))
        it = stack.enter_context(service.served(at, service.FIRST + count, database=database))
        links = service.invited(it, at, service.FIRST + count)
        swarm.swarm(it.urls()[0], rows.iloc[: service.FIRST], links[: service.FIRST], progress=False)
        table = asyncio.run(soaked(it, at, links, rows, a.rate, count))
        if collector(["check", str(it.plan), *(["--db", database] if database else [])]):
            raise SystemExit("the sums are not those of the reports")
        if (found := it.study().results().nobs) != service.FIRST + count:
            raise SystemExit(f"{found} reports count, of {service.FIRST + count}")
    name = "soak_sqlite" if a.sqlite else "soak"
    save_table(
        table.round(3), where / f"{name}.csv",
        f"python -m field_benchmarks.soak {'--sqlite ' * a.sqlite}--minutes {a.minutes:g} --rate {a.rate}",
    )  # fmt: skip
    drawn(table, where / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
