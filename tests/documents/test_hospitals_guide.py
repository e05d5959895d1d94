"""The guide to hospitals, played from its page alone: each role in a folder with its own and handed files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import privreg as pr
from privreg_field.study.simulated import demo

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "hospitals.md"
STEPS = re.findall(
    r"<!-- (role|hand): ([^>]*?) -->(?:\n```(\w+)\n(.*?)^```)?", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
)
SILOS = ("north", "south", "west")
PATIENCE = 1_200.0


def test_every_step_is_of_a_role_and_no_secret_or_row_is_handed_over() -> None:
    assert {words.split()[0] for _, words, *_ in STEPS} == {"analyst", "north", "trial"}
    handed = " ".join(words for kind, words, *_ in STEPS if kind == "hand")
    assert not re.search(r"\.csv|\.sqlite|\.key(?!\.pub)", handed)
    assert "root.key.pub" in handed


class Role:
    """A person in a folder, which is their home."""

    def __init__(self, folder: Path, port: int, link: int) -> None:
        self.folder, self.port, self.link, self.live = folder, port, link, list[subprocess.Popen[bytes]]()
        folder.mkdir()
        self.env = {**os.environ, "HOME": str(folder), "FLWR_TELEMETRY_ENABLED": "0"}
        for name in ("PYTHONPATH", "FLWR_HOME"):
            self.env.pop(name, None)
        self.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def here(self, text: str) -> str:
        """The text with this machine's address, ports and folders in place of the page's."""
        text = text.replace("study.example.org:8000", f"localhost:{self.link}").replace("~/privreg", str(ROOT))
        text = text.replace("flower-superlink", f"flower-superlink --port {self.link}")
        text = text.replace("flower-supernode", f"flower-supernode --port {self.port}")
        return text.replace("/home/analyst", str(self.folder))

    def start(self, text: str) -> None:
        with (self.folder / f"{len(self.live)}.log").open("ab") as log:
            words = ["bash", "-ec", f"exec {self.here(text)}"]
            self.live.append(
                subprocess.Popen(words, cwd=self.folder, env=self.env, stdout=log, stderr=log, start_new_session=True)
            )

    def bash(self, text: str) -> str:
        done = subprocess.run(
            ["bash", "-ec", self.here(text)], cwd=self.folder, env=self.env, input="yes\n", capture_output=True,
            text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3_000:] for path in self.folder.glob("*.log"))

    def close(self) -> None:
        for one in self.live:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()
        listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():  # a SuperLink that `flwr run` leaves behind
            if f"{self.folder}/.flwr/local-superlink" in line:
                os.kill(int(line.split()[0]), signal.SIGTERM)


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[dict[str, Role]]:
    if find_spec("flwr") is None:
        pytest.skip("the extra flower of packages/field is not installed")
    link = demo.free()
    found = {name: Role(tmp_path / name, demo.free(), link) for name in ("analyst", *SILOS, "trial")}
    yield found
    for one in found.values():
        one.close()


def until_registered(analyst: Role) -> None:
    """Wait for the SuperLink, which refuses connections while it starts."""
    ends = time.monotonic() + PATIENCE
    while subprocess.run(
        ["flwr", "supernode", "list", "study"], cwd=analyst.folder, env=analyst.env, capture_output=True, check=False
    ).returncode:
        assert time.monotonic() < ends, analyst.logs()
        time.sleep(1.0)


@pytest.mark.thorough
def test_each_role_does_its_part_with_its_own_files(roles: dict[str, Role]) -> None:
    rows, said = pr.datasets.us_insurance(3_000), dict[str, str]()
    for k, name in enumerate(SILOS):
        rows[1_000 * k : 1_000 * (k + 1)].to_csv(roles[name].folder / f"{name}.csv", index=False)
    steps = [step for step in STEPS if not step[1].startswith("trial")]
    # the connection's file stands where it is needed first: before nodes are registered
    (config,) = [step for step in steps if "config.toml" in step[1]]
    for kind, words, form, text in (config, *(step for step in steps if step != config)):
        role, *more = words.split()
        if kind == "hand":
            to, names = words.partition(" to ")[2].split(": ")
            for giver in SILOS if role == "north" else [role]:
                for receiver in to.split():
                    for name in names.replace("north", giver).split():
                        shutil.copy(roles[giver].folder / name, roles[receiver].folder)
        elif "file:" in more:
            path = roles[role].folder / more[-1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(roles[role].here(text))
        else:
            assert form == "bash"
            if "supernode register" in text:
                until_registered(roles[role])
            for name in SILOS if role == "north" else [role]:
                own = text.replace("north", name) if role == "north" else text
                if "serves" in more:
                    roles[name].start(own)
                else:
                    said[name] = roles[name].bash(own)
    res = pr.load(roles["analyst"].folder / "charges.privreg")
    assert res.nobs == 3_000
    assert "north 1,000, south 1,000, west 1,000" in " ".join(said["analyst"].split())
    assert "1-GDP" in said["analyst"]
    assert abs(res.params["smoker[T.yes]"] - 5_000) < 4.5 * res.bse["smoker[T.yes]"]
    for name in SILOS:
        assert f"silo '{name}', 1,000 rows, mu = 1" in said[name]
        assert re.search(r"round 0: \d+ noised numbers", said[name])
        others = {path.name for path in roles[name].folder.iterdir()} & {
            "root.key", "ca.key", "server.key", *(f"{other}.{kind}" for other in SILOS if other != name for kind in
                                                   ("csv", "key", "sqlite"))
        }  # fmt: skip
        assert not others
    assert not list(roles["analyst"].folder.glob("*.csv"))


@pytest.mark.thorough
def test_the_trial_simulates_five_silos(roles: dict[str, Role]) -> None:
    if find_spec("ray") is None:
        pytest.skip("flwr[simulation] is not installed")
    trial = roles["trial"]
    (text,) = [text for _, words, _, text in STEPS if words == "trial"]
    first, run, command = text.partition("flwr run")
    trial.bash(first)
    for _ in range(5):  # flwr gives its SuperLink 15 seconds to start, which a busy machine may not keep
        try:
            said = trial.bash(run + command)
            break
        except AssertionError as e:
            if "Failed to start local SuperLink" not in str(e):
                raise
    assert "main: 5 of 5 silos" in said
    assert pr.load(trial.folder / "charges.privreg").nobs == 6_000
