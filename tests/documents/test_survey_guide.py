"""The guide to a survey, played from its page alone: its files, commands and code, on two servers of this machine."""

import contextlib
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privreg
from privreg.errors import ReliabilityWarning, StudyError
from privreg_field.study import keys
from privreg_field.study.declaring.declared import read_study
from privreg_field.study.declaring.plan import study_plans
from privreg_field.study.declaring.precision import planned
from privreg_field.study.servers import fetched
from privreg_field.study.simulated import demo
from privreg_field.study.simulated.swarm import swarm
from privreg_field.wire.wire import base
from tests.service.test_analyses import KEY, Several, folk
from tests.service.world import ANALYST

pytest.importorskip("starlette", reason="the extra serve of packages/field is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "survey.md"
TRUE = {"age": -0.02, "C(shift)[T.night]": -0.8, "C(shift)[T.both]": -0.4}
"""Coefficients by which the page simulates respondents."""


def blocks(of=None):
    """Blocks of the page in order: what each is, and its text; of a section with this heading, of all by default."""
    page = PAGE.read_text("utf-8")
    if of is not None:
        page = page.split(f"\n## {of}\n")[1].split("\n## ")[0]
    found = re.findall(r"^```(\S+)(?: (\S+))?\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [(f"{kind} {more}".strip(), text) for kind, more, text in found]


PROGRAM = """
import os, runpy, time

now, ahead = time.time, float(os.environ.get("AHEAD", "0"))
time.time = lambda: now() + ahead
runpy.run_module("privreg", run_name="__main__", alter_sys=True)
"""
"""`privreg` on a day to come."""


class Player:
    """Runs blocks in a folder, at ports that nobody else has."""

    def __init__(self, folder):
        self.folder, self.names, self.said = folder, {}, []
        self.ports = {port: str(demo.free()) for port in ("8000", "8001", "8002")}
        self.groups = []
        (folder / "privreg").write_text(f'#!/bin/sh\nexec "{sys.executable}" {folder / "run.py"} "$@"\n')
        (folder / "run.py").write_text(PROGRAM)
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
            for port in re.findall(r"--port (\d+)", self.here(text)):
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


FIRST = ("Who takes part", "The study", "Sign, serve, invite", "Answer", "Read")


@pytest.mark.thorough
def test_the_page_works_as_it_stands(player):
    for kind, text in (block for section in FIRST for block in blocks(section)):
        if kind == "yaml":
            Path("study.yaml").write_text(player.here(text))
        elif kind == "bash" and "privreg swarm" in text:
            link = Path("links.csv").read_text().split()[1]  # whose page the reader has opened and answered
            answers = json.dumps({"hours": 15, "age": 34, "shift": "night"})
            player.bash(f"echo '{answers}' | privreg respond '{link}' --row - --memory me.db --yes")
            assert "counts as 14" in " ".join(player.said[-1].split())
            player.bash(text)
            said = player.said[-1].replace(",", "")
            lost, came = (int(re.search(words, said)[1]) for words in (r": (\d+) never", r"(\d+) × the report has"))
            used = 2 * ("2 × the token has been used (status 409)" in said)  # unless that reader never answers again
            assert came + used == 2 * (3_000 - lost)
        elif kind == "bash" and "privreg results" in text:
            for port in (player.ports["8000"], player.ports["8001"]):
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


def signed(name, text, change=lambda text: text):
    """Analyses of a study's file, and the plans that devices get."""
    Path(name).write_text(change(text))
    analyses = read_study(name)
    return analyses, study_plans(analyses, [c.key for c in analyses[0].about.collectors] or [bytes([9]) * 32])


def with_analyses(base, text):
    """The page's study with the analyses, questions and levels that the page says in place of its model."""
    kept = [line for line in base.splitlines() if not line.startswith(("formula:", "mu:"))]
    kept.insert(kept.index("questions:") + 1, "  sex: Your sex?\n  tired: Tired?")
    kept.insert(kept.index("levels:") + 1, '  sex: [f, m]\n  tired: ["no", "yes"]')
    return "\n".join(kept) + "\n" + text


def dated(text):
    """A diary that was opened yesterday, whatever the day."""
    today = datetime.datetime.now(datetime.UTC).date()
    for name, days in (("opens", -1), ("closes", 60)):
        text = re.sub(rf"{name}: \S+", f"{name}: {today + datetime.timedelta(days)}", text)
    return text


@pytest.mark.thorough
def test_studies_of_the_page_can_be_signed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for letter in "ab":
        public = keys.make_collector(tmp_path / f"{letter}.key").public
        (tmp_path / f"{letter}.key.pub").write_text("key: {}\nseal: {}\n".format(*map(base, public)))
    (first,) = (text for kind, text in blocks("The study") if kind == "yaml")
    (more,) = (text for kind, text in blocks("Several analyses of one form") if kind == "yaml")
    (diary,) = (text for kind, text in blocks("A diary") if kind == "yaml")
    assert [plan.part.name for plan in signed("study.yaml", first)[1]] == [""]
    assert [plan.part.name for plan in signed("study.yaml", with_analyses(first, more))[1]] == ["who", "hours", "tired"]
    ((one,), (plan,)) = signed("diary.yaml", dated(diary))
    assert (plan.diary.rows, plan.diary.effect) == (5, "within")
    assert plan.diary.until == one.about.opens + 14 * 86_400
    assert max(map(len, planned([one], [plan]).splitlines())) <= 78


@pytest.mark.thorough
def test_the_diary_works_as_it_stands(player):
    """Of 300 people one answers by the page's commands; others are simulated, by its command for trials."""
    n = 300
    player.bash("privreg study key root.key")
    Path("today.json").write_text('{"hours": 7, "mood": 6}')
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(n), rng.integers(1, 7, n))
    rows = pd.DataFrame({"person": who, "hours": rng.uniform(4, 10, len(who))})
    rows.assign(mood=rng.uniform(2, 4, n)[who] + 0.5 * rows["hours"]).to_csv("rows.csv", index=False)
    commands = [text for kind, text in blocks("A diary") if kind == "bash"]
    (study,) = (text for kind, text in blocks("A diary") if kind == "yaml")
    Path("diary.yaml").write_text(dated(study).replace("rows: 20000", f"rows: {n}"))
    player.bash(commands[0].replace("-n 20000", f"-n {n}"))
    link = Path("diaries.csv").read_text().split()[1]

    def answer(text):
        """A reader's calls, of which those before the day of reports end by saying that nothing was sent: status 3."""
        for line in text.replace("LINK", f"'{link}'").splitlines():
            player.bash(f"{line} --memory me.db --yes || test $? = 3")

    answer(commands[1])
    answer("privreg respond LINK --diary mood.json --row today.json")
    assert "The diary has 2 of 5 rows" in player.said[-1]
    player.env["AHEAD"] = str(15 * 86_400)
    player.bash(f"! privreg respond '{link}' --diary mood.json --row today.json --memory me.db --yes")
    assert "no rows are added any more" in " ".join(player.said[-1].split())
    answer(commands[2])
    assert "The report has arrived" in player.said[-1]
    del player.env["AHEAD"]
    url = link.partition("#")[0]
    player.bash(f"privreg swarm {url} rows.csv --tokens diaries.csv")
    assert f"{n - 1} × the report has arrived (status 201)\n  1 × the token has been used" in player.said[-1]
    player.bash("privreg collector close diary.plan && privreg collector check diary.plan")
    assert f"{n} reports" in player.said[-1]
    player.bash(f"privreg results {url} --key root.key --token diary.analyst")
    assert f"{n} people, up to 5 rows each; within person" in " ".join(player.said[-1].split())


@pytest.mark.thorough
def test_what_an_analyst_reads_of_several_analyses_works_as_it_stands(tmp_path, monkeypatch):
    (code,) = (text for kind, text in blocks("Several analyses of one form") if kind == "{code-block} python")
    monkeypatch.chdir(tmp_path)
    one = Several(tmp_path, n=1000)
    Path("study.analyst").write_text(ANALYST)
    with one.serve() as url, warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        swarm(f"{url}/studies/sleep/#k={KEY}", folk(1000), one.links(url), progress=False)
        names = {}
        exec(code.replace("https://study.example.org", url).replace("…", KEY), {"pr": privreg}, names)
        live = names["study"].live()
        live.close()
        live._thread.join(10)
