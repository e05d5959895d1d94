"""A diary: rows that a person adds over days, in one file of the device, until a report is made of them all."""

import base64
import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

locks: Any = None  # On Windows a file that somebody has open can't be deleted
with contextlib.suppress(ImportError):
    import fcntl as locks

LONGEST: Final = 1 << 22  # Characters of the file, at most
PATIENCE: Final = 30.0  # Seconds in which another call must have written


class DiaryError(RuntimeError):
    """The diary can't be used; nothing was sent, and it is as it was."""


class Diary:
    """A diary's file, which belongs to one study and is the owner's alone (mode 0600).

    It is begun without rows, with the study's signed plan, so that rows are added without asking a server anything:
    when, and how often, somebody did would tell of rows. It is written whole: to a new file beside it, which one call
    at a time has, and which then takes its place. What a call that was killed has left of one, the next takes away.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._beside = self.path.with_name(f"{self.path.name}.new")

    def rows(self, study: str, root: bytes) -> list[dict[str, Any]]:
        """Rows that are there, in order; `study` and its key `root` must be the diary's. Raises `DiaryError`."""
        return list(self._read(study, root).get("rows", []))

    def plan(self, study: str, root: bytes) -> bytes | None:
        """The envelope of the plan with which it was begun; None if it wasn't. Raises `DiaryError`."""
        said = self._read(study, root).get("plan")
        return None if said is None else str(said).encode()

    def _read(self, study: str, root: bytes) -> dict[str, Any]:
        """All that the file says; nothing if there is none."""
        _swept(self._beside)
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
        try:
            new = _alone(self._beside)
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
                    if locks is not None:
                        self._beside.replace(self.path)
                if locks is None:
                    self._beside.replace(self.path)
            except BaseException:
                _swept(self._beside)
                raise
        except (OSError, TypeError, ValueError) as e:
            raise DiaryError(f"the diary {self.path} can't be written: {type(e).__name__}.") from None
        return len(held)


def _alone(beside: Path) -> int:
    """Descriptor of the new file, once no other call has one."""
    end = time.monotonic() + PATIENCE
    while True:
        _swept(beside)
        with contextlib.suppress(FileExistsError):
            new = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            if _held(new, beside):
                return new
            os.close(new)
        if time.monotonic() > end:
            raise DiaryError(
                f"another call is writing the diary; call again. If none is, as one was stopped, delete {beside}."
            ) from None
        time.sleep(0.02)


def _held(new: int, beside: Path) -> bool:
    """Lock a new file; whether it is still there, as one that isn't locked yet is taken for a killed call's."""
    if locks is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            locks.flock(new, locks.LOCK_EX)
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(new), beside.stat())
    return False


def _swept(beside: Path) -> None:
    """Take away what a call has left that was killed; not what another one is writing, which is locked."""
    with contextlib.suppress(OSError):
        if locks is None:
            beside.unlink()
            return
        with beside.open("rb") as file:
            locks.flock(file, locks.LOCK_EX | locks.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), beside.stat()):
                beside.unlink()


def _named(study: str, root: bytes) -> tuple[str, str]:
    return study, base64.urlsafe_b64encode(root).rstrip(b"=").decode()
