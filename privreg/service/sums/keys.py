"""Keys of batches, by which one of two collectors keeps shares, and which are destroyed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from privreg.files.archive import write_bytes

SIZE: Final = 32


class BatchKeys:
    """Keys of batches, each in a file beside the database, in no table and no log of it.

    Parameters
    ----------
    beside : callable
        A path beside the database, by name.
    """

    def __init__(self, beside: Callable[[str], Path]) -> None:
        self._beside = beside

    def path(self, k: int) -> Path:
        """File of a batch's key."""
        return self._beside(f"batch{k}.key")

    def get(self, k: int) -> bytes | None:
        """Key of a batch; None if there is none, or none that was written whole."""
        try:
            key = self.path(k).read_bytes()
        except FileNotFoundError:
            return None
        return key if len(key) == SIZE else None

    def make(self, k: int) -> bytes:
        """A new key, on the disk before anything is sealed by it; in place of what may be there."""
        self.destroy(k)
        key = secrets.token_bytes(SIZE)
        write_bytes(self.path(k), key, secret=True)
        self._sync()
        return key

    def destroy(self, k: int) -> None:
        """Overwrite and remove a key, if there is one."""
        path = self.path(k)
        if not path.exists():
            return
        with path.open("r+b") as file:
            file.write(secrets.token_bytes(SIZE))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
        self._sync()

    def _sync(self) -> None:
        folder = os.open(self._beside("").parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
