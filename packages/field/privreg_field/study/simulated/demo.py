"""``privreg study demo``: a whole study on this machine, by the commands that a real one takes."""

import contextlib
import csv
import io
import json
import runpy
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Final

from privreg.base.archive import write_bytes
from privreg.errors import OptionError, StudyError
from privreg.protocol.sums import LETTERS
from privreg_field.study import keys
from privreg_field.study.servers import fetched
from privreg_field.study.simulated.swarm import read_links
from privreg_field.wire.study import read_plans
from privreg_field.wire.wire import base, open_envelope

LOCAL: Final = "127.0.0.1"

STARTING: Final = 180.0  # Seconds within which a collector must answer

ASKED: Final = ("age", "bmi", "smoker", "charges")
FEWEST: Final = 1000  # Devices that a table of the demonstration's model needs


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


STUDY, MORE = _text("study.yaml"), _text("collectors.yaml")
"""A study's file, as `privreg study sign` reads it, and what one with two collectors has beside."""

BY_THEMSELVES: Final = 3
"""People whose own devices answer one by one, by a program in Python and, where there is Node, by one in JavaScript."""

NODE: Final = _text("device.mjs")


ANALYSES: Final = _text("analyses.yaml")
KEPT: Final = "charges.privreg"  # File of the results
ALONE: Final = "formula: charges ~ age + bmi + smoker\nfamily: huber\n"


def demo(devices: int | None = None, folder: str | None = None, *, two: bool = False, analyses: bool = False) -> None:
    """Sign a study, serve it, let made-up people's devices answer over HTTP, and print the results.

    Every step is a command, printed before it runs. By default there are 5,000 devices, 3,000 with `two` collectors
    that add up shares, and the new `folder` is a temporary one; one that is given is kept. With `analyses` the study
    has several: a table, and two models.
    Raises OptionError if the folder is there already, or there are too few devices; StudyError if a step fails.
    """
    devices = (3000 if two else 5000) if devices is None else devices
    play = partial(_two if two else _all, model=ANALYSES if analyses else ALONE)
    if devices < FEWEST:
        raise OptionError(f"--devices {devices} must be {FEWEST:,} or more: fewer tell too little.")
    if folder is None:
        with tempfile.TemporaryDirectory() as at:
            play(Path(at), devices)
        return
    try:
        Path(folder).mkdir()
    except OSError:
        raise OptionError(f"the folder {folder!r} can't be made, or is there already; name a new one.") from None
    play(Path(folder), devices)


def _begun(at: Path, devices: int, mu: int, model: str, more: str = "") -> None:
    """Write the study's file, and make people and the analyst's key."""
    text = STUDY.format(devices=devices, mu=mu, model=model.format(), more=more)
    write_bytes(at / "study.yaml", text.encode())
    print(f"study.yaml, which an analyst writes:\n\n{text}")
    _run(at, "data", "us-insurance", "--rows", str(devices), "people.csv", quiet=True)  # says how to fit it
    _run(at, "study", "key", "root.key")


def _all(at: Path, devices: int, model: str) -> None:
    _begun(at, devices, 2, model)
    _run(at, "study", "key", "server.key")
    _run(at, "study", "sign", "study.yaml", "--key", "root.key", "--states", "server.key")
    port = str(free())
    server = f"http://{LOCAL}:{port}"
    with _served(at, {server: ("serve", "study.plan", "--port", port, "--rate", "0")}):
        invite = "--key", "root.key", "--server", server, "--out", "links.csv"
        _run(at, "tokens", "study.plan", "-n", str(devices), *invite)
        url = f"{server}/v1/studies/charges#k={base(keys.public(keys.load(at / 'root.key')))}"
        _run(at, "swarm", url, "people.csv", "--tokens", "links.csv")
        _run(at, "results", url, "--token", "study.analyst", *_kept(model))


def _two(at: Path, devices: int, model: str) -> None:
    """A study with two collectors."""
    ports = dict(zip(LETTERS, (str(free()), str(free())), strict=True))
    servers = {letter: f"http://{LOCAL}:{port}" for letter, port in ports.items()}
    _begun(at, devices, 1, model, MORE.format(**servers))
    for letter in LETTERS:
        _run(at, "study", "key", f"{letter}.key", "--collector")
    _run(at, "study", "sign", "study.yaml", "--key", "root.key")
    both = {
        servers[letter]: ("serve", "study.plan", "--role", letter, "--port", port, "--rate", "0")
        for letter, port in ports.items()
    }
    with _served(at, both):
        invite = "--key", "root.key", "--server", servers["a"], "--issuer-file", "issuer.json", "--out", "links.csv"
        _run(at, "tokens", "study.plan", "--role", "a", "-n", str(devices), *invite)
        _run(at, "collector", "issuer", "study.plan", "--role", "b", "--issuer-file", "issuer.json")
        _by_themselves(at)
        root = base(keys.public(keys.load(at / "root.key")))
        urls = [f"{server}/v1/studies/charges#k={root}" for server in servers.values()]
        rest = "--devices", str(devices - BY_THEMSELVES)
        _run(at, "swarm", urls[0], "people.csv", "--tokens", "links.csv", *rest)
        _run(at, "collector", "close", "study.plan", "--role", "a")
        for letter in reversed(LETTERS):
            for plan in read_plans(open_envelope((at / "study.plan").read_bytes(), "plan").payload):
                _closed(f"{servers[letter]}/v1/studies/charges{plan.path}")
        _run(at, "results", *urls, "--token", "study.a.analyst", "study.b.analyst", *_kept(model))


def _kept(model: str) -> tuple[str, ...]:
    """Option by which results of one model are kept."""
    return ("--out", KEPT) if model == ALONE else ()


def _by_themselves(at: Path) -> None:
    """Let devices of the last people answer, each by itself: one in Python, others in JavaScript if there is Node."""
    with (at / "people.csv").open(encoding="utf-8", newline="") as file:
        people = list(zip(read_links(str(at / "links.csv")), csv.DictReader(file), strict=True))[-BY_THEMSELVES:]
    module = Path(str(files("privreg_field.service").joinpath("web", "device", "index.js"))).as_uri()
    for k, (link, row) in enumerate(people):
        answers = json.dumps({name: row[name] if name == "smoker" else float(row[name]) for name in ASKED})
        write_bytes(at / f"me{k}.json", answers.encode())
        if not k or not (node := shutil.which("node")):
            _run(at, "respond", link, "--row", f"me{k}.json", "--memory", f"me{k}.db", "--yes")
            continue
        print(f"a device in JavaScript answers with me{k}.json", flush=True)
        if subprocess.run(
            [node, "--input-type=module", "-e", NODE, "--", module, link, answers], check=False
        ).returncode:
            raise StudyError("this device could not answer; the lines above say why.")


def _closed(study: str) -> None:
    """Wait until a collector publishes a state that asks nobody."""
    until = time.monotonic() + STARTING
    while time.monotonic() < until:
        with contextlib.suppress(StudyError):
            if not json.loads(open_envelope(fetched(study, "state"), "state").payload)["open"]:
                return
        time.sleep(0.2)
    raise StudyError("the collectors did not close the study.")


def _said(arguments: Sequence[str]) -> list[str]:
    """Print a command, and return what runs it."""
    print(f"$ privreg {shlex.join(arguments)}", flush=True)
    return [sys.executable, "-m", "privreg", *arguments]


def _run(at: Path, *arguments: str, quiet: bool = False) -> None:
    """Run a command in this process, as most take less time than a process to start."""
    before, sys.argv = sys.argv, _said(arguments)[2:]
    try:
        with contextlib.chdir(at), contextlib.redirect_stdout(io.StringIO() if quiet else sys.stdout):
            runpy.run_module("privreg", run_name="__main__")
    except SystemExit as e:
        if e.code:
            raise StudyError("this command failed; the lines above say why.") from None
    finally:
        sys.argv = before
    print(flush=True)


@contextlib.contextmanager
def _served(at: Path, commands: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Collectors, each a process, by address, until the block is left."""
    with contextlib.ExitStack() as stack:
        running = {}
        for server, arguments in commands.items():
            running[server] = stack.enter_context(subprocess.Popen(_said(arguments), cwd=at))
            stack.callback(running[server].terminate)
        for server, process in running.items():
            wait(process, server)
        print(flush=True)
        yield


def wait(process: subprocess.Popen[bytes], server: str) -> None:
    """Wait until a collector answers. Raises StudyError if it doesn't."""
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
