"""Silos over Flower's own SuperLink and SuperNodes on loopback, of which some are killed in mid-round."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import privreg as pr
from privreg_field.wire.wire import base
from tests.field.test_silos import Field, bits, in_one_process

EXAMPLE = Path(__file__).parents[2] / "packages" / "field" / "example"
FIVE = {"north": 600, "south": 500, "west": 450, "east": 400, "isle": 350}
PATIENCE = 1_200.0


@pytest.fixture
def five(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Field:
    monkeypatch.setattr("tests.field.test_silos.SIZES", FIVE)
    return Field(tmp_path, silos=list(FIVE))


def port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def rounds_over(field: Field) -> int:
    try:
        return len(json.loads((field.folder / "kept.json").read_text())["closed"])
    except FileNotFoundError:
        return 0


def wait(done: Callable[[], bool], log: Callable[[], str]) -> None:
    until = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < until, log()
        time.sleep(0.2)


class Network:
    """Processes that Flower's commands start, each in a group of its own, which is killed as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.live = folder, port(), dict[str, subprocess.Popen]()
        self.ports = {name: port() for name in FIVE}
        (folder / "flwr").mkdir()
        connection = f'[superlink]\ndefault = "study"\n[superlink.study]\naddress = "127.0.0.1:{self.port}"\n'
        (folder / "flwr" / "config.toml").write_text(f"{connection}insecure = true\n")
        more = {
            "FLWR_HOME": str(folder / "flwr"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "FLWR_TELEMETRY_ENABLED": "0",
        }
        self.env = {**os.environ, **more, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def start(self, name: str) -> None:
        words = [
            "flower-superlink",
            "--insecure",
            "--port",
            str(self.port),
            "--disable-runtime-dependency-installation",
            "--database",
            str(self.folder / "link.db"),
        ]
        if name != "link":
            ledger = f'ledger="{self.folder / name}.sqlite"'
            words = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{self.port}", "--port",
                     str(self.ports[name]), "--node-config", ledger]  # fmt: skip
        with (self.folder / f"{name}.log").open("ab") as log:
            self.live[name] = subprocess.Popen(words, env=self.env, stdout=log, stderr=log, start_new_session=True)

    def kill(self, name: str) -> None:
        """Kill -9, with all that it started."""
        os.killpg(self.live[name].pid, signal.SIGKILL)
        self.live.pop(name).wait()

    def run(self, words: Sequence[str]) -> None:
        """Start the study, by `flwr run`."""
        given = ["flwr", "run", str(EXAMPLE), "study", "--run-config", " ".join(words)]
        for _ in range(60):  # until the link listens
            done = subprocess.run(given, env=self.env, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return
            time.sleep(1.0)
        raise AssertionError(done.stdout + done.stderr)

    def log(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))


@contextmanager
def network(folder: Path) -> Iterator[Network]:
    one = Network(folder)
    try:
        yield one
    finally:
        for name in list(one.live):
            one.kill(name)


@pytest.mark.thorough
def test_a_study_over_flower_with_a_node_and_the_server_killed_is_the_fit_in_one_process(five: Field) -> None:
    kept = {"plan": "n.plan", "kept": "kept.json", "results": "out.privreg"}
    (five.folder / "n.plan").write_bytes(five.envelope)
    config = [f'{name}="{five.folder / file}"' for name, file in kept.items()] + [f'key="{base(five.root)}"']
    with network(five.folder) as flower:
        for name in ("link", *FIVE):
            flower.start(name)
        flower.run(config)
        wait(lambda: rounds_over(five) >= 1, flower.log)
        flower.kill("west")
        flower.start("west")
        wait(lambda: rounds_over(five) >= 2, flower.log)
        flower.kill("link")
        before = rounds_over(five)
        flower.start("link")
        flower.run(config)
        wait(lambda: (five.folder / "out.privreg").exists(), flower.log)
    assert before < rounds_over(five)
    res = pr.load(five.folder / "out.privreg")
    assert bits(res) == bits(in_one_process())
    for sums, plans in five.state():
        assert [number for _, number, *_ in sums] == list(range(rounds_over(five)))  # once each
        assert len(plans) == 1
