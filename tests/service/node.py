"""The JavaScript device under Node, at the end of a pipe."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

BRIDGE = Path(__file__).parent / "web" / "bridge.mjs"
LEAST = 20
"""Version of Node whose WebCrypto verifies Ed25519 without a warning of experiments in the way."""


def node():
    """The command; skips where there is none."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("there is no `node`: install Node 20 or later")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().removeprefix("v").partition(".")[0]) < LEAST:
        pytest.skip(f"Node {version.strip()} is too old: install Node {LEAST} or later")
    return found


class Bridge:
    """A process that answers requests until it is closed."""

    def __init__(self):
        self._process = subprocess.Popen(
            [node(), "--no-warnings", str(BRIDGE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            encoding="utf-8",
        )  # fmt: skip

    def __call__(self, what, **more):
        self._process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        assert "error" not in said, said["error"]
        return said["ok"]

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)


@pytest.fixture(scope="module")
def js():
    bridge = Bridge()
    yield bridge
    bridge.close()
