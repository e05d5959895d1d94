"""Keys of batches, by which one of two collectors keeps shares, and which are destroyed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from privreg.base.archive import write_bytes

SIZE: Final = 32


class BatchKeys:
    """Keys of batches, each in a file `beside` the database, in no table and no log of it."""

    def __init__(self, beside: Callable[[str], Path]) -> None:
        self._beside = beside

    def path(self, k: int) -> Path:
        """File of a batch's key."""
        return self._beside(f"batch{k}.key")

    def all(self) -> list[int]:
        """Batches that have a key."""
        stem = self._beside("batch").name
        found = self._beside("").parent.glob("*.key")
        numbers = [p.name.removeprefix(stem).removesuffix(".key") for p in found if p.name.startswith(stem)]
        return sorted(int(n) for n in numbers if n.isdecimal())

    def _read(self, k: int) -> bytes:
        path = self.path(k)
        return path.read_bytes() if path.exists() else b""

    def get(self, k: int) -> bytes | None:
        """Key of a batch; None if there is none, or it was overwritten."""
        key = self._read(k)[:SIZE]
        return key if any(key) else None

    def state(self, k: int) -> bytes:
        """Payload of the state whose shares the key is for; empty if there is no file of it."""
        return self._read(k)[SIZE:]

    def make(self, k: int, state: bytes) -> None:
        """Write a new key, before a state is signed and anything sealed, in place of what may be there.

        The state stands beside it, so that what comes from a backup without keys takes no old state for a new one.
        """
        self.destroy(k)
        write_bytes(self.path(k), secrets.token_bytes(SIZE) + state, secret=True)
        self._sync()

    def destroy(self, k: int, *, keep: bool = False) -> None:
        """Overwrite a key, if there is one, and remove its file, but for `keep`: no backup has it, so that it shows
        that the database is of none.
        """
        path = self.path(k)
        if not path.exists():
            return
        with path.open("r+b") as file:
            file.write(bytes(SIZE))
            file.flush()
            os.fsync(file.fileno())
        if not keep:
            path.unlink()
            self._sync()

    def _sync(self) -> None:
        folder = os.open(self._beside("").parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
