"""The guide to operating a collector, played from its page alone, without containers and systemd."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from privreg_field.study.simulated import demo

pytest.importorskip("starlette", reason="the extra serve of packages/field is not installed")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "operator.md"


@pytest.mark.thorough
def test_the_commands_of_the_page_run_one_after_the_other(tmp_path):
    pytest.importorskip("segno", reason="segno is not installed: pip install './packages/field[qr]'")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "privreg").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m privreg "$@"\n')
    (tmp_path / "bin" / "privreg").chmod(0o700)
    port, script = str(demo.free()), []
    for kind, text in re.findall(r"<!-- operator: (\S+) -->\n```\w+\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S):
        if kind.endswith(".yaml"):
            (tmp_path / kind).write_text(text)
        elif kind not in {"containers", "systemd"}:
            script.append(text.replace("8000", port))
        if kind == "serve":
            script.append("until grep -q start collector.log; do sleep 0.2; done")
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "-ec", "trap 'kill $(cat collector.pid) 2> /dev/null || true' EXIT\n" + "\n".join(script)],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "the sums are right" in run.stdout
    assert "analyst: results, cells, for 24.0 hours more" in run.stdout
    assert sorted(json.loads((tmp_path / "sums.json").read_text())) == [
        "cells", "counts", "plan", "plan_hash", "snapshots", "states",
    ]  # fmt: skip
    assert "Traceback" not in (tmp_path / "collector.log").read_text()
