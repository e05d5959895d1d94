"""Seals on files that choose the noise to come: who saved a stream, and that it was not changed since.

A stream goes on with the keys that its file holds, so a file made up by somebody else could choose them. Its content is
therefore sealed by HMAC-SHA256 under a secret of the user's, 32 random bytes in a file that nobody else can read.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from privreg.errors import SavedFileError

BYTES: Final = 32
VARIABLE: Final = "PRIVREG_SECRET"
"""Environment variable that names the secret's file, where it is not to be in the user's data folder."""

_CONTEXT: Final = b"privreg archive 1"


def secret_file() -> Path:
    """File of this user's secret: as `VARIABLE` says, else in the user's data folder."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    data = os.environ.get("XDG_DATA_HOME", "")
    if not Path(data).is_absolute():  # which is then to be ignored, says the convention
        data = os.environ.get("LOCALAPPDATA", "") if os.name == "nt" else ""
    try:
        return (Path(data) if data else Path.home() / ".local" / "share") / "privreg" / "secret"
    except RuntimeError:
        pass
    raise SavedFileError(f"this user has no home folder to keep a secret in; let {VARIABLE} name a file for it.")


def there(path: Path) -> bool:
    """True if there is a file of that name, as far as this user may know."""
    try:
        return path.exists()
    except OSError:
        return False


def read_secret(path: Path, *, mine: bool) -> bytes:
    """Read a secret; the user's, `mine`, must be nobody else's to read.
    Raises SavedFileError if it is missing, no secret, or open to others.
    """
    what = "your secret" if mine else "the secret to trust"
    try:
        content, waited = path.read_bytes(), 0
        while not content and waited < 50:  # another process is about to fill it
            time.sleep(0.02)
            content, waited = path.read_bytes(), waited + 1
        shared = mine and os.name == "posix" and path.stat().st_mode & 0o077
    except OSError as e:
        raise SavedFileError(f"{what}, {str(path)!r}, can't be read: {e.strerror or 'no such file'}.") from None
    if len(content) != BYTES:
        fix = "remove it, and begin anew what was saved with it" if mine else "give the file that was made by privreg"
        raise SavedFileError(f"{what}, {str(path)!r}, is not {BYTES} bytes long; {fix}.")
    if shared:
        raise SavedFileError(f"{what}, {str(path)!r}, can be read by others; keep it yours: chmod 600.")
    return content


def seal(members: Mapping[str, bytes], secret: bytes) -> bytes:
    """The seal of an archive's members, whatever their order."""
    mac = hmac.new(secret, _CONTEXT, hashlib.sha256)
    for name in sorted(members):
        for part in (name.encode(), members[name]):
            mac.update(len(part).to_bytes(8, "big") + part)
    return mac.hexdigest().encode()


def check(path: Path, members: Mapping[str, bytes], found: bytes | None, trust: Any, *, checkpoint: bool) -> None:
    """Refuse an archive that neither this user sealed nor who has the secret in the file `trust`.

    `found` is the seal it came with; a `checkpoint` is continued by the fit's own call.
    """
    if trust is not None and not isinstance(trust, str | Path):
        raise SavedFileError(f"a secret to trust is named by a string or Path, got {type(trust).__name__}.")
    anew = "remove it to begin anew" if checkpoint else "begin the stream anew"
    if found is None:
        raise SavedFileError(
            f"{str(path)!r} holds noise keys and no seal of who saved it: it is of an earlier version, or made up. "
            f"Continue only what you saved: {anew}."
        )
    if trust is not None and _sealed(members, found, read_secret(Path(trust), mine=False)):
        return
    file = secret_file()
    if there(file) and _sealed(members, found, read_secret(file, mine=True)):
        return
    how = (
        "checkpoint_trust=KEYFILE, at the shell --checkpoint-trust KEYFILE"
        if checkpoint
        else "load(path, trust=KEYFILE)"
    )
    raise SavedFileError(
        f"{str(path)!r} was saved by another user or on another machine, or changed since, and it would choose the "
        f"noise. Continue it where it was saved; or, if that was you, say {how}, a copy of the secret there "
        f"(${VARIABLE}, or ~/.local/share/privreg/secret); otherwise {anew}."
    )


def _sealed(members: Mapping[str, bytes], found: bytes, secret: bytes) -> bool:
    return hmac.compare_digest(seal(members, secret), found)
