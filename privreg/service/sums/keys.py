"""Keys of one of two collectors: two by which it signs and opens shares, and one a batch, which is destroyed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from privreg.errors import OptionError
from privreg.files.archive import write_bytes
from privreg.protocol.wire import base

SIZE: Final = 32
END: Final = b"-----END PRIVATE KEY-----\n"


class Own(NamedTuple):
    """What one collector has for itself."""

    sign: Ed25519PrivateKey
    seal: X25519PrivateKey  # Shares are sealed to its public half

    @property
    def public(self) -> tuple[bytes, bytes]:
        """Both public halves."""
        return self.sign.public_key().public_bytes_raw(), self.seal.public_key().public_bytes_raw()


def make(path: str | Path) -> Own:
    """Make a collector's keys and write them to a new file, which only its owner may read."""
    own = Own(Ed25519PrivateKey.generate(), X25519PrivateKey.generate())
    how = pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()
    write_bytes(path, b"".join(key.private_bytes(*how) for key in own), secret=True, new=True)
    return own


def load(path: str | Path) -> Own:
    """Read a collector's keys.

    Raises
    ------
    OptionError
        If there are none.
    """
    try:
        sign, seal = (pem.load_pem_private_key(part + END, None) for part in Path(path).read_bytes().split(END)[:2])
        if isinstance(sign, Ed25519PrivateKey) and isinstance(seal, X25519PrivateKey):
            return Own(sign, seal)
    except (OSError, ValueError, TypeError):
        pass
    raise OptionError(f"{str(path)!r} has no keys of a collector; make them by `privreg collector keys`.")


def lines(own: Own) -> str:
    """Public halves as the analyst's study.yaml has them."""
    key, seal = map(base, own.public)
    return f'    key: "{key}"\n    seal: "{seal}"'


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
