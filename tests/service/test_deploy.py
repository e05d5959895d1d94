"""The kit for operators: files are as their programs take them, and every option and variable that they name exists."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from privreg_field.service.commands import prepare
from privreg_field.service.commands.serve import serve

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packages" / "field" / "deploy"
COMPOSE = sorted(FOLDER.glob("compose*.yaml"))
UNIT = FOLDER / "systemd" / "privreg@.service"
VARIABLES = {
    *(f"{prepare.PREFIX}{name.upper().replace('-', '_')}" for name in (*prepare.SETTINGS, "config")),
    *prepare.SECRETS, *(f"{name}_FILE" for name in prepare.SECRETS), "NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE",
}  # fmt: skip


def checked(program, *arguments, **environment):
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    out = subprocess.run(
        [path, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert out.returncode == 0, out.stdout + out.stderr
    return out.stdout + out.stderr


def test_the_image_is_as_a_linter_asks():
    checked("hadolint", FOLDER / "Dockerfile")


@pytest.mark.parametrize("path", COMPOSE, ids=lambda p: p.name)
def test_composed_services_are_of_the_specification(path):
    checked("check-jsonschema", "--builtin-schema", "vendor.compose-spec", path)


def test_caddy_takes_its_file():
    checked("caddy", "validate", "--adapter", "caddyfile", "--config", FOLDER / "Caddyfile", SITE="study.example.org")


def test_systemd_takes_the_unit(tmp_path):
    text = UNIT.read_text()
    (tmp_path / "privreg@sleep.service").write_text(text.replace("/opt/privreg/bin/privreg", "/bin/true"))
    assert checked("systemd-analyze", "verify", tmp_path / "privreg@sleep.service") == ""


def test_every_setting_in_the_file_exists_and_all_are_in_it():
    text = (FOLDER / "serve.toml").read_text()
    named = set(re.findall(r"^(?:# )?([a-z-]+) = ", text, re.MULTILINE))
    assert named == set(prepare.SETTINGS)
    every = tomllib.loads(re.sub(r"^# (?=[a-z-]+ = )", "", text, flags=re.MULTILINE))
    assert set(every) == named


def test_every_setting_is_an_option_of_serve(capsys):
    assert serve(["--help"]) == 0
    options = set(re.findall(r"--([a-z][a-z-]*)", capsys.readouterr().out))
    assert set(prepare.SETTINGS) - {"plan"} <= options
    assert options - set(prepare.SETTINGS) == {"help", "config", "check"}  # whatever serve takes may be set elsewhere


def environments():
    """Variables of the collector, by the file that sets them."""
    for path in COMPOSE:
        yield path.name, set(yaml.safe_load(path.read_text())["services"]["collector"]["environment"])
    yield UNIT.name, set(re.findall(r"^Environment=(\w+)=", UNIT.read_text(), re.MULTILINE))
    yield "Dockerfile", set(re.findall(r"^(?:ENV)? +([A-Z_]+)=", (FOLDER / "Dockerfile").read_text(), re.MULTILINE))


@pytest.mark.parametrize(("name", "variables"), list(environments()), ids=lambda x: x if isinstance(x, str) else "")
def test_every_variable_exists(name, variables):
    assert variables
    assert variables - VARIABLES == set()


@pytest.mark.parametrize("path", COMPOSE, ids=lambda p: p.name)
def test_a_collector_takes_its_variables_and_no_secret_is_among_them(path, tmp_path, monkeypatch):
    services = yaml.safe_load(path.read_text())["services"]
    (tmp_path / "password").write_text("word")
    for name in prepare.SECRETS:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in services["collector"]["environment"].items():
        assert "{" not in value
        monkeypatch.setenv(name, str(tmp_path / "password") if name.endswith("_FILE") else value)
    said = prepare.completed(["--config", str(FOLDER / "serve.toml")])
    assert "--host=0.0.0.0" in said
    assert [word for word in said if "word" in word] == []
    letter = path.name.split(".")[1]
    assert [word for word in said if "--role" in word] == ([f"--role={letter}"] if letter != "yaml" else [])
    public = {name for name, one in services.items() if "ports" in one}
    assert public == {"caddy"}
    assert all(re.search(r":\d+\.\d+", one["image"]) for one in services.values() if "build" not in one)


def test_two_operators_share_no_file_of_services():
    names = [yaml.safe_load(path.read_text())["name"] for path in COMPOSE]
    assert len(set(names)) == len(names) == 3
    for path in COMPOSE:
        assert "include" not in yaml.safe_load(path.read_text())
        assert len(yaml.safe_load(path.read_text())["services"]) == 3


def test_the_image_has_what_it_names_and_nobodys_rights():
    text = (FOLDER / "Dockerfile").read_text()
    assert re.search(r"^FROM python:\d+\.\d+\.\d+-\S+$", text, re.MULTILINE)
    assert re.search(r"^USER [1-9]\d+$", text, re.MULTILINE)
    assert "HEALTHCHECK" in text
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")}
    copied = {word for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for word in line.split()}
    assert copied == allowed
    assert all(Path(ROOT / name).exists() for name in copied)
