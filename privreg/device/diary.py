"""A diary: rows that a person adds over days, in one file of the device, until a report is made of them all."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

LONGEST: Final = 1 << 22  # Characters of the file, at most
PATIENCE: Final = 30.0  # Seconds in which another call must have written


class DiaryError(RuntimeError):
    """The diary can't be used; nothing was sent, and it is as it was."""


class Diary:
    """A diary's file, which belongs to one study and is the owner's alone (mode 0600).

    It is begun without rows, with the study's signed plan, so that rows are added without asking a server anything:
    when, and how often, somebody did would tell of rows. It is written whole: to a new file beside it, which one call
    at a time has, and which then takes its place.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def rows(self, study: str, root: bytes) -> list[dict[str, Any]]:
        """Rows that are there, in order; `study` and its key `root` must be the diary's. Raises `DiaryError`."""
        return list(self._read(study, root).get("rows", []))

    def plan(self, study: str, root: bytes) -> bytes | None:
        """The envelope of the plan with which it was begun; None if it wasn't. Raises `DiaryError`."""
        said = self._read(study, root).get("plan")
        return None if said is None else str(said).encode()

    def _read(self, study: str, root: bytes) -> dict[str, Any]:
        """All that the file says; nothing if there is none."""
        try:
            with self.path.open(encoding="utf-8") as file:
                said = json.loads(file.read(LONGEST))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):
            said = None
        form = {"study": str, "key": str, "plan": str, "rows": list}
        fine = isinstance(said, dict) and all(isinstance(said.get(name), kind) for name, kind in form.items())
        if not fine or not all(isinstance(row, dict) for row in said["rows"]):
            raise DiaryError(f"{self.path} is no diary that can be read; name the file of this study's.")
        if (said.get("study"), said.get("key")) != _named(study, root):
            raise DiaryError(f"{self.path} is the diary of another study; name a file for each.")
        return dict(said)

    def add(self, rows: Sequence[Mapping[str, object]], study: str, root: bytes, most: int, plan: bytes) -> int:
        """Add rows; how many there are then, `most` at most. `plan` is its envelope. Raises `DiaryError`."""
        slug, key = _named(study, root)
        beside = self.path.with_name(f"{self.path.name}.new")
        try:
            new = _alone(beside)
            try:
                with os.fdopen(new, "wb") as file:
                    held = [*self.rows(study, root), *rows]
                    said = {"study": slug, "key": key, "plan": plan.decode(), "rows": held}
                    text = json.dumps(said, ensure_ascii=False, indent=1)
                    if len(held) > most or len(text) > LONGEST:
                        limit = f"{most} rows" if len(held) > most else f"{LONGEST:,} characters"
                        raise DiaryError(f"the diary holds {limit} at most; nothing was added.")
                    file.write(text.encode())
                    file.flush()
                    os.fsync(file.fileno())
                beside.replace(self.path)
            except BaseException:
                beside.unlink()
                raise
        except (OSError, TypeError, ValueError) as e:
            raise DiaryError(f"the diary {self.path} can't be written: {type(e).__name__}.") from None
        return len(held)


def _alone(beside: Path) -> int:
    """Descriptor of the new file, once no other call has one."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if time.monotonic() > end:
                raise DiaryError(
                    f"another call is writing the diary; call again. If none is, as one was stopped, delete {beside}."
                ) from None
            time.sleep(0.02)


def _named(study: str, root: bytes) -> tuple[str, str]:
    return study, base64.urlsafe_b64encode(root).rstrip(b"=").decode()
