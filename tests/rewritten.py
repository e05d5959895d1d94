"""Test modules compiled as pytest does it, once, not by each of several workers: ``python -m tests.rewritten``.

pytest has no call for this. If it changes how it keeps them, workers compile as ever, and this says what went wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

from _pytest.assertion import rewrite

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Keep the compiled text of each module of tests, unless it is there."""
    said = SimpleNamespace(trace=lambda text: print(text, file=sys.stderr))
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name.startswith("test_") or path.name == "conftest.py":
            folder = rewrite.get_cache_dir(path)
            kept = folder / f"{path.stem}{rewrite.PYC_TAIL}"
            if rewrite._read_pyc(path, kept) is None and rewrite.try_makedirs(folder):
                source, code = rewrite._rewrite_test(path, None)
                rewrite._write_pyc(said, code, source, kept)


if __name__ == "__main__":
    main()
