"""Each folder says what it is for, and what every file in it does."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "privreg"
FOLDERS = sorted(p.parent for p in ROOT.rglob("__init__.py") if p.parent != ROOT)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_folder_names_every_file_in_it(folder):
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    said = set(re.findall(r"`(\w+)`", text))
    there = {p.stem for p in folder.glob("*.py")} | {p.name for p in folder.iterdir() if (p / "__init__.py").exists()}
    assert there - {"__init__"} <= said
    assert said <= there | {p.name for p in ROOT.iterdir() if p.is_dir()}
