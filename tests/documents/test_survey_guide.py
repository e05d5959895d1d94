"""The guide to a survey, played from its page alone: its files, commands and code, on two servers of this machine."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from privreg.errors import StudyError
from privreg.field import demo
from privreg.field.servers import fetched

pytest.importorskip("starlette", reason="privreg[serve] is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "survey.md"
TRUE = {"age": -0.02, "C(shift)[T.night]": -0.8, "C(shift)[T.both]": -0.4}
"""Coefficients by which the page simulates respondents."""


def blocks():
    """Blocks of the page in order: what each is, and its text."""
    found = re.findall(r"^```(\S+)(?: (\S+))?\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [(f"{kind} {more}".strip(), text) for kind, more, text in found]


class Player:
    """Runs blocks in a folder, at ports that nobody else has."""

    def __init__(self, folder):
        self.folder, self.names, self.said = folder, {}, []
        self.ports = {"8000": str(demo.free()), "8001": str(demo.free())}
        self.groups = []
        (folder / "privreg").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m privreg "$@"\n')
        (folder / "privreg").chmod(0o700)
        self.env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "XDG_DATA_HOME": str(folder / "data")}

    def here(self, text):
        """The text with this play's ports in place of the page's."""
        for theirs, ours in self.ports.items():
            text = text.replace(f":{theirs}", f":{ours}").replace(f"--port {theirs}", f"--port {ours}")
        return text.replace("serve study.plan --role a", f"serve study.plan --role a --port {self.ports['8000']}")

    def bash(self, text):
        log = self.folder / f"said{len(self.said)}"
        with log.open("w") as out:  # a file, as servers in the background keep it open
            one = subprocess.Popen(
                ["bash", "-ec", self.here(text)], cwd=self.folder, env=self.env, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip
            if "privreg serve" in text:
                self.groups.append(one.pid)
            assert one.wait(300) == 0, log.read_text()
        self.said.append(log.read_text())
        print(f"{text}\n{self.said[-1]}")
        if "privreg serve" in text:
            for port in self.ports.values():
                self.until(lambda port=port: fetched(f"http://127.0.0.1:{port}", "healthz"))

    def python(self, text):
        exec(compile(self.here(text), PAGE.name, "exec"), self.names)

    def until(self, work):
        """What this gives, once it doesn't fail."""
        for _ in range(300):
            try:
                return work()
            except (StudyError, AssertionError):
                time.sleep(0.2)
        return work()

    def close(self):
        for group in self.groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)


@pytest.fixture
def player(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = Player(tmp_path)
    yield one
    one.close()


@pytest.mark.thorough
def test_the_page_works_as_it_stands(player):
    for kind, text in blocks():
        if kind == "yaml":
            Path("study.yaml").write_text(player.here(text))
        elif kind == "bash" and "privreg swarm" in text:
            link = Path("links.csv").read_text().split()[1]  # whose page the reader has opened and answered
            answers = json.dumps({"hours": 15, "age": 34, "shift": "night"})
            player.bash(f"echo '{answers}' | privreg respond '{link}' --row - --memory me.db --yes")
            assert "counts as 14" in " ".join(player.said[-1].split())
            player.bash(text)
            assert "2 × 409" in player.said[-1]
        elif kind == "bash" and "privreg results" in text:
            for port in player.ports.values():
                player.until(lambda port=port: demo._closed(f"http://127.0.0.1:{port}/v1/studies/sleep"))
            player.bash(text)
            printed = player.said[-1]
        elif kind == "bash":
            player.bash(text)
        elif kind == "{code-cell} ipython3":
            player.python(text)
        elif kind == "{code-block} python":
            root = re.search(r"pin the key (\S+)", "".join(player.said))[1]
            player.python(text.replace("…", root).replace("study.results()", "res = study.results()"))
    res = player.names["res"]
    assert "By day" in "".join(player.said)
    for name, truth in TRUE.items():
        assert abs(res.params[name] - truth) < 4.5 * res.bse[name]
        assert f"{res.params[name]:.4f}" in printed
    assert np.isfinite(res.bse).all()


def test_every_block_of_the_page_is_of_a_kind_that_is_played():
    kinds = [kind for kind, _ in blocks()]
    played = {"yaml", "bash", "{code-cell} ipython3", "{code-block} python"}
    assert set(kinds) - played == {
        "text",
        "{image} ../static/survey/two-1280-light.png",
    }  # shown, and nothing to run
    assert kinds.count("bash") >= 7
