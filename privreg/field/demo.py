"""``privreg study demo``: a whole study on this machine, by the commands that a real one takes."""

from __future__ import annotations

import contextlib
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from privreg.errors import OptionError, StudyError
from privreg.field import keys
from privreg.field.servers import fetched
from privreg.files.archive import write_bytes
from privreg.protocol.wire import base

LOCAL: Final = "127.0.0.1"

STARTING: Final = 60.0
"""Seconds within which a collector must answer."""

FEWEST: Final = 1000
"""Devices that a table of the demonstration's model needs."""

STUDY: Final = """\
study: charges
title: What insurance costs
purpose: How yearly charges go with age, weight and smoking. The people are made up.
contact: nobody@example.org
opens: 2020-01-01
closes: 2100-01-01
formula: charges ~ age + bmi + smoker
family: huber
mu: 2
rows: {devices}
bounds: {{age: [18, 65], bmi: [18, 50], charges: [0, 35000]}}
levels: {{smoker: ["no", "yes"]}}
questions:
  age: How old are you?
  bmi: What is your body mass index?
  smoker: Do you smoke?
  charges: What was charged in the last year, in dollars?
"""
"""A study's file, as `privreg study sign` reads it."""


def demo(devices: int = 5000, folder: str | None = None) -> None:
    """Sign a study, serve it, let made-up people's devices answer over HTTP, and print the results.

    Every step is a command, printed before it runs.

    Parameters
    ----------
    devices : int
    folder : str, optional
        A new folder, which is kept; a temporary one by default.

    Raises
    ------
    OptionError
        If the folder is there already, or there are too few devices.
    StudyError
        If a step fails.
    """
    if devices < FEWEST:
        raise OptionError(f"--devices {devices} must be {FEWEST:,} or more: fewer tell too little.")
    if folder is None:
        with tempfile.TemporaryDirectory() as at:
            _all(Path(at), devices)
        return
    try:
        Path(folder).mkdir()
    except OSError:
        raise OptionError(f"the folder {folder!r} can't be made, or is there already; name a new one.") from None
    _all(Path(folder), devices)


def _all(at: Path, devices: int) -> None:
    write_bytes(at / "study.yaml", STUDY.format(devices=devices).encode())
    print(f"study.yaml, which an analyst writes:\n\n{STUDY.format(devices=devices)}")
    _run(at, "data", "us-insurance", "--rows", str(devices), "people.csv")
    _run(at, "study", "key", "root.key")
    _run(at, "study", "key", "server.key")
    _run(at, "study", "sign", "study.yaml", "--key", "root.key", "--states", "server.key")
    port = str(free())
    server = f"http://{LOCAL}:{port}"
    with _served(at, "serve", "study.plan", "--port", port, "--rate", "0", server=server):
        invite = "--key", "root.key", "--server", server, "--out", "links.csv"
        _run(at, "tokens", "study.plan", "-n", str(devices), *invite)
        url = f"{server}/v1/studies/charges#k={base(keys.public(keys.load(at / 'root.key')))}"
        _run(at, "swarm", url, "people.csv", "--tokens", "links.csv")
        _run(at, "results", url, "--token", "study.analyst")


def _said(arguments: Sequence[str]) -> list[str]:
    """Print a command, and return what runs it."""
    print(f"$ privreg {shlex.join(arguments)}", flush=True)
    return [sys.executable, "-m", "privreg", *arguments]


def _run(at: Path, *arguments: str) -> None:
    if subprocess.run(_said(arguments), cwd=at, check=False).returncode:
        raise StudyError("this command failed; the lines above say why.")
    print(flush=True)


@contextlib.contextmanager
def _served(at: Path, *arguments: str, server: str) -> Iterator[None]:
    """A collector, until the block is left."""
    with subprocess.Popen(_said(arguments), cwd=at) as process:
        try:
            wait(process, server)
            print(flush=True)
            yield
        finally:
            process.terminate()


def wait(process: subprocess.Popen[bytes], server: str) -> None:
    """Wait until a collector answers.

    Raises
    ------
    StudyError
        If it doesn't.
    """
    until = time.monotonic() + STARTING
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(StudyError):
            fetched(server, "healthz")
            return
        time.sleep(0.1)
    raise StudyError("the collector did not start.")


def free() -> int:
    """A port that nobody listens at."""
    with socket.socket() as one:
        one.bind((LOCAL, 0))
        return int(one.getsockname()[1])
