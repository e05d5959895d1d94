"""The oldest versions to test with are those that are promised."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_oldest_versions_are_the_lower_bounds_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    bounds = {m[1]: m[2] for line in asked if (m := re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)", line))}
    lines = (ROOT / "tests" / "minimum.txt").read_text("utf-8").splitlines()
    oldest = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert {name: bounds[name] for name in oldest} == oldest
    assert {re.split(r"[>\[]", line)[0] for line in project["dependencies"]} <= oldest.keys()


NOT_FOR_USERS = {"all", "bench", "browser", "docs", "test"}
"""Extras by which the project is tested, measured and documented."""

ALONE = {"flower", "adapters"}
"""They hold packages back that others need too, flwr uvicorn and marginaleffects polars: whoever wants them says so."""


def test_all_has_every_extra_that_users_take():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert sorted(extras["all"]) == sorted(f"privreg[{name}]" for name in extras.keys() - NOT_FOR_USERS - ALONE)
