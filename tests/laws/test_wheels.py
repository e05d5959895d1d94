"""Wheels hold nothing that is compiled, so that one serves every processor."""

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
COMPILED = {".so", ".pyd", ".dylib", ".dll", ".c", ".pyx", ".a", ".o"}


@pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling, which builds wheels, is not installed")
@pytest.mark.parametrize("source", [".", "packages/field", "packages/device"])
def test_a_wheel_has_nothing_compiled(source, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=REPO / source, capture_output=True, timeout=120, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as held:
        names = held.namelist()
        (tags,) = (held.read(name).decode() for name in names if name.endswith(".dist-info/WHEEL"))
    assert any(name.endswith(".py") for name in names)
    assert not [name for name in names if Path(name).suffix in COMPILED]
    assert "Root-Is-Purelib: true" in tags
