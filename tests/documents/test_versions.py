"""The oldest versions to test with are those that are promised; all distributions have the version of one file."""

import re
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import pytest

from privreg.base.optional import OLDEST
from privreg.base.version import __version__

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "privreg": ROOT,
    "privreg-field": ROOT / "packages" / "field",
    "privreg-device": ROOT / "packages" / "device",
}


def project_of(name):
    return tomllib.loads((FOLDERS[name] / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize("name", FOLDERS)
def test_no_distribution_says_a_version_itself(name):
    project = project_of(name)
    assert project["name"] == name
    assert "version" in project["dynamic"]
    assert "version" not in project


def test_the_kit_stands_on_the_package_of_its_version():
    assert version("privreg") == version("privreg-field") == __version__
    needed = [line for line in requires("privreg-field") if ";" not in line]
    assert needed == [f"privreg=={__version__}"]


def test_the_oldest_versions_are_the_lower_bounds_of_the_packages():
    project = project_of("privreg")
    extras = [project["optional-dependencies"], project_of("privreg-field")["optional-dependencies"]]
    asked = [*project["dependencies"], *(line for of in extras for lines in of.values() for line in lines)]
    bounds = {m[1]: m[2] for line in asked if (m := re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)", line))}
    lines = (ROOT / "tests" / "minimum.txt").read_text("utf-8").splitlines()
    oldest = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert {name: bounds[name] for name in oldest} == oldest
    assert {re.split(r"[>\[]", line)[0] for line in project["dependencies"]} <= oldest.keys()


def test_rows_are_read_by_the_versions_that_the_package_asks_for():
    lines = (ROOT / "tests" / "minimum.txt").read_text("utf-8").splitlines()
    assert OLDEST.items() <= {tuple(line.split("==")) for line in lines}


NOT_FOR_USERS = {"all", "bench", "browser", "docs", "test"}
"""Extras by which the project is tested, measured and documented."""

ALONE = {"flower", "adapters"}
"""They hold packages back that others need too, flwr uvicorn and marginaleffects polars: whoever wants them says so."""


@pytest.mark.parametrize("name", ["privreg", "privreg-field"])
def test_all_has_every_extra_that_users_take(name):
    extras = project_of(name)["optional-dependencies"]
    assert sorted(extras["all"]) == sorted(f"{name}[{extra}]" for extra in extras.keys() - NOT_FOR_USERS - ALONE)
