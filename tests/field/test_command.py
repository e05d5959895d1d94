"""The analyst's command: keys, and what a signed plan says."""

import pytest

from privreg.cli.app import main
from privreg.field import keys
from privreg.protocol import study, wire
from tests.studies import ROOT, public, signed, study_plan


def test_a_key_is_made(tmp_path, capsys, monkeypatch):
    path = str(tmp_path / "root.key")
    assert main(["study", "key", path]) == 0
    root = keys.public(keys.load(path))
    assert capsys.readouterr().out.splitlines()[-1] == wire.base(root)
    assert main(["study", "key", path]) == 2
    assert "never overwritten" in capsys.readouterr().err
    monkeypatch.setattr("getpass.getpass", lambda prompt: "secret")
    assert main(["study", "key", f"{path}2", "--password"]) == 0
    assert keys.load(f"{path}2", b"secret")
    monkeypatch.setattr("getpass.getpass", lambda prompt: "")
    assert main(["study", "key", f"{path}3", "--password"]) == 2


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "sleep.plan"
    payload = study.plan_payload(study_plan(title="Sleep\x1b[2J"))
    path.write_bytes(signed("plan", payload, ROOT))
    return str(path), wire.base(wire.hash_of(payload))


def test_a_plan_is_verified_and_shown(plan, capsys):
    path, name = plan
    assert main(["study", "show", path, "--key", wire.base(public(ROOT))]) == 0
    out = capsys.readouterr().out
    for said in (name, "verified", "524288", "joint", "hours ~ Intercept", "mu = 1", "69 times of 100"):
        assert said in out
    assert "\x1b" not in out
    assert main(["study", "show", path]) == 0
    assert "not looked at" in capsys.readouterr().out


def test_a_plan_that_devices_refuse_is_said_so(plan, capsys, tmp_path):
    path, _ = plan
    assert main(["study", "show", path, "--key", wire.base(bytes(32))]) == 2
    assert "not signed by this key" in capsys.readouterr().err
    assert main(["study", "show", path, "--key", "AAAA"]) == 2
    assert main(["study", "show", path, "--key", "?"]) == 2
    (tmp_path / "no.plan").write_text("{}")
    assert main(["study", "show", str(tmp_path / "no.plan")]) == 2
    assert main(["study", "show", str(tmp_path / "nothing")]) == 2
    assert main(["study", "draw"]) == 2
    assert main(["study", "--help"]) == 0
