"""The guide by role, played from its page alone: each role in a folder with nothing but its own and handed files."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privreg_field.study.simulated import demo
from tests.documents.test_survey_guide import Player

pytest.importorskip("starlette", reason="the extra serve of packages/field is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "roles.md"
STEPS = re.findall(
    r"<!-- (role|hand): ([^>]*?) -->(?:\n```(\w+)\n(.*?)^```)?", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
)
ROLES = {"analyst", "a", "b", "manager", "respondent"}
PEOPLE = 1_000
FORBIDDEN = {"analyst": {"a.key", "b.key", "people.csv", "mail.csv"}, "a": {"root.key", "b.key", "mail.csv"}}
FORBIDDEN |= {"b": {"root.key", "a.key", "mail.csv"}, "manager": {"root.key", "a.key", "b.key"}}


def test_every_step_is_of_a_role_and_every_hand_over_is_of_a_public_or_addressed_file():
    assert {step[1].split()[0] for step in STEPS} == ROLES
    handed = [words for kind, words, *_ in STEPS if kind == "hand"]
    assert handed
    assert not [words for words in handed if re.search(r"(root|a|b)\.key(?!\.pub)|people|mail", words)]


@pytest.fixture
def players(tmp_path):
    found = {}
    for role in sorted(ROLES):
        (tmp_path / role).mkdir()
        found[role] = Player(tmp_path / role)
        found[role].ports = found["a"].ports
    yield found
    for one in found.values():
        one.close()


def answers(players):
    """Links of the others, whose devices are simulated, after the first person's."""
    with (players["manager"].folder / "mail.csv").open(newline="") as file:
        links = [row["link"] for row in csv.DictReader(file)]
    rng = np.random.default_rng(1)
    age = rng.uniform(18, 90, PEOPLE - 1)
    hours = np.clip(8.5 - 0.03 * age + rng.normal(0, 1, PEOPLE - 1), 0, 14)
    folder = players["respondent"].folder
    pd.DataFrame({"age": age, "hours": hours}).to_csv(folder / "rows.csv", index=False)
    (folder / "links.csv").write_text("\n".join(["link", *links[1:]]) + "\n")
    return links[0]


@pytest.mark.thorough
def test_each_role_does_its_part_with_its_own_files(players):
    made = "".join(f"Person {i},p{i}@example.org\n" for i in range(PEOPLE))
    said = ""
    for kind, words, form, text in STEPS:
        role, *more = words.split()
        one = players[role]
        if kind == "hand":
            to, names = words.partition(" to ")[2].split(": ")
            for name in names.split():
                for receiver in to.split():
                    shutil.copy(one.folder / name, players[receiver].folder)
        elif "file:" in more:
            given = "name,address\n" + made if more[-1] == "people.csv" else one.here(text)
            (one.folder / more[-1]).write_text(given)
        elif role == "respondent":
            link = answers(players)
            one.bash(text.replace("LINK", link).replace("--yes", "--memory me.db --yes"))
            assert "The report has arrived" in one.said[-1]
            one.bash(f"privreg swarm {link.partition('#')[0]} rows.csv --tokens links.csv")
        else:
            assert form == "bash"
            if "privreg results" in text:
                for port in (one.ports["8000"], one.ports["8001"]):
                    one.until(lambda port=port: demo._closed(f"http://127.0.0.1:{port}/v1/studies/sleep"))
            one.bash(text)
            if "privreg results" in text:
                said = one.said[-1]
    assert json.loads((players["respondent"].folder / "me.json").read_text()) == {"hours": 7, "age": 34}
    assert "can be served, as collector a," in " ".join(players["a"].said)
    age = re.search(r"^age +(\S+) +(\S+)", said, re.MULTILINE)
    assert abs(float(age[1]) + 0.03) < 4.5 * float(age[2])
    for role, names in FORBIDDEN.items():
        assert not names & {path.name for path in players[role].folder.iterdir()}, role
