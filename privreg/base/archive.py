"""Saved files: a zip of arrays (npz) and one JSON document. Loading executes nothing.

A file is written under a temporary name in the same folder and renamed, so that a killed process leaves the
old file or the new one, never half of one. A stream goes on with the noise keys that its file holds, so a file made up
by somebody else could choose the noise: it is sealed by HMAC-SHA256 under a secret of the user's, 32 random bytes in a
file that nobody else can read.
"""

import errno
import hashlib
import hmac
import io
import json
import math
import os
import re
import secrets
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privreg.errors import SavedFileError, UnsupportedArgumentError, quietly

BYTES: Final = 32
VARIABLE: Final = "PRIVREG_SECRET"
"""Environment variable that names the secret's file, where it is not to be in the user's data folder."""

_CONTEXT: Final = b"privreg archive 1"
_LOADING: Final = threading.RLock()


@contextmanager
def alone(path: str | Path) -> Iterator[None]:
    """Keep other threads, and on POSIX other processes, from taking a file's keys meanwhile: one has them."""
    with _LOADING, ExitStack() as held:
        with suppress(ImportError, OSError, TypeError, ValueError):  # of what is no file, reading it says so
            import fcntl

            fcntl.flock(held.enter_context(Path(path).open("rb")), fcntl.LOCK_EX)
        yield


def secret_file() -> Path:
    """File of this user's secret: as `VARIABLE` says, else in the user's data folder."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    data = os.environ.get("XDG_DATA_HOME", "")
    if not Path(data).is_absolute():  # which is then to be ignored, says the convention
        data = os.environ.get("LOCALAPPDATA", "") if os.name == "nt" else ""
    with suppress(RuntimeError):
        return (Path(data) if data else Path.home() / ".local" / "share") / "privreg" / "secret"
    raise SavedFileError(f"this user has no home folder to keep a secret in; let {VARIABLE} name a file for it.")


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


def check_seal(path: Path, members: Mapping[str, bytes], found: bytes | None, trust: Any, *, checkpoint: bool) -> None:
    """Refuse an archive that neither this user sealed nor who has the secret in the file `trust`.

    `found` is the seal it came with; a `checkpoint` is continued by the fit's own call.
    """
    if trust is not None and not isinstance(trust, str | Path):
        raise SavedFileError(f"a secret to trust is named by a string or Path, got {type(trust).__name__}.")
    anew, how = "begin the stream anew", "load(path, trust=KEYFILE)"
    if checkpoint:
        anew, how = "remove it to begin anew", "checkpoint_trust=KEYFILE, at the shell --checkpoint-trust KEYFILE"
    if found is None:
        raise SavedFileError(
            f"{str(path)!r} holds noise keys and no seal of who saved it: it is of an earlier version, or made up. "
            f"Continue only what you saved: {anew}."
        )
    if trust is not None and hmac.compare_digest(seal(members, read_secret(Path(trust), mine=False)), found):
        return
    file = secret_file()
    if os.path.exists(file) and hmac.compare_digest(seal(members, read_secret(file, mine=True)), found):
        return  # it doesn't exist, either, where this user may not look
    raise SavedFileError(
        f"{str(path)!r} was saved by another user or on another machine, or changed since, and it would choose the "
        f"noise. Continue it where it was saved; or, if that was you, say {how}, a copy of the secret there "
        f"(${VARIABLE}, or ~/.local/share/privreg/secret); otherwise {anew}."
    )


FORMAT: Final = 1
STREAM: Final = "stream"
CHECKPOINT: Final = "checkpoint"
_SEALED: Final = (STREAM, CHECKPOINT)  # Kinds of files that hold noise keys
_OPEN: Final = ("results", "central results", "means")
"""Kinds that hold no keys, and load anywhere; a file of any other kind must be sealed."""
_DOCUMENT: Final = "privreg.json"
_SEAL: Final = "seal"


def like(made: Any, saved: Any) -> Any:
    """Take over a saved array only with its place's shape and type: compiled loops don't check their indices."""
    if saved.shape != made.shape or saved.dtype != made.dtype or not np.isfinite(saved).all():
        raise ValueError("a saved array of another plan")
    return np.ascontiguousarray(saved)


def write_bytes(path: str | Path, content: bytes, *, secret: bool = False, new: bool = False) -> None:
    """Write a file atomically, readable by its owner only if it holds a secret; with `new` only where there is none.
    Raises SavedFileError if the folder is missing or not writable, or `new` and there is a file of that name already.
    """
    target = _path(path).resolve()  # through a link, so that no second name keeps an old key
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    try:
        name = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        handle = os.open(name, flags, 0o600 if secret else 0o666)  # as the user's umask allows, but for secrets
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(content)
                f.flush()
                os.fsync(f.fileno())
            try:  # of two processes at once that want a new name, one gets it
                (os.link if new else os.replace)(name, target)
            except OSError as e:
                if not new or isinstance(e, FileExistsError):
                    raise
                os.close(os.open(target, flags, 0o600))  # without links: who makes the empty file has the name
                name.replace(target)
        finally:
            name.unlink(missing_ok=True)
    except FileExistsError:
        raise SavedFileError(
            f"{str(target)!r} is there already, and is not overwritten; delete it, or name another file."
        ) from None
    except (OSError, ValueError) as e:
        why = getattr(e, "strerror", None) or "no such folder"
        raise SavedFileError(f"can't write {str(target)!r}: {why}; give a file in a writable folder.") from None


def _path(path: object) -> Path:
    if not isinstance(path, str | Path):
        raise SavedFileError(f"a file is named by a string or Path, got {type(path).__name__}.")
    return Path(path)


_VIEWS: Final = {
    ".html .htm .tex .txt .text .md .docx": "for a page to read write summary().save(path)",
    ".csv .tsv .xlsx .xls .parquet .pq .feather .json": "for a table let pandas write tidy(), as tidy().to_csv(path)",
    ".pdf .png .svg .eps .jpg .jpeg": "for a figure use the axes that a plot returns, axes.figure.savefig(path)",
    ".pkl .pickle": "load() executes nothing and pickle does, but pickle.dump(res, file) works too",
}
"""Suffixes that promise something else, and how to get it."""


def refuse_suffix(path: object, *, views: bool = True) -> None:
    """Refuse to save under a name that promises something to read, or another program's file.

    `views` says whether there is another way to such a file.
    """
    suffix = Path(path).suffix.lower() if isinstance(path, str | Path) else ""
    for suffixes, instead in _VIEWS.items():
        if suffix and suffix in suffixes.split():
            more = f"; {instead}" if views else ""
            raise UnsupportedArgumentError(
                f"save() writes a file for privreg.load(), not {suffix}; name it .privreg{more}."
            )


def write_archive(
    path: str | Path, kind: str, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, new: bool = False
) -> None:
    """Save a JSON document and named arrays as one file of a given kind; one that holds keys is sealed."""
    members = {_DOCUMENT: json.dumps({"kind": kind, "format": FORMAT, **document}, allow_nan=False).encode()}
    for name, array in arrays.items():
        part = io.BytesIO()
        np.lib.format.write_array(part, np.asarray(array), allow_pickle=False)
        members[f"{name}.npy"] = part.getvalue()
    if kind in _SEALED:
        members[_SEAL] = seal(members, _process_secret())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in members.items():
            z.writestr(name, content)
    write_bytes(path, buffer.getvalue(), secret=kind in _SEALED, new=new)


def expect(*fits: bool) -> None:
    """Refuse what was read from a file if its parts don't fit each other; `privreg.load` says that it is damaged."""
    if not all(fits):
        raise ValueError("saved parts don't fit each other")


def _process_secret() -> bytes:
    """Secret of this user, made if there is none yet; of two processes at once, both get the same."""
    file = secret_file()
    try:
        if not os.path.exists(file):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_bytes(file, os.urandom(BYTES), secret=True, new=True)
    except (OSError, SavedFileError):
        if not os.path.exists(file):
            raise SavedFileError(
                f"{str(file)!r} can't be written, and it is to hold the secret that seals saved streams; let the "
                f"environment variable {VARIABLE} name a file in a folder that you can write to."
            ) from None
    return read_secret(file, mine=True)


LONGEST: Final = 1 << 25  # Bytes of a document or a plan, at most
_NAMES: Final = {
    **dict.fromkeys(
        _SEALED, r"seal|((total|weight|state|trail|blocks|early|secret)_\w+|people|piece|clustered|covariates)\.npy"
    ),
    **dict.fromkeys(_OPEN, r"(params|last|spreads|measures|rounds|(trail|cov|moves|steps|equation)_\w+)\.npy"),
    "means": r"(centres|halves|missing|params|cov|sds|moments|group_(params|variances|reliable|tests))\.npy",
}
"""Members of files beside the document, by kind."""


def contents(path: str | Path, most: int = 1 << 20) -> bytes:
    """Content of a small file, such as a key or a plan. Raises OSError if it can't be read or has more than `most`."""
    with Path(path).open("rb") as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, "larger than any of its kind")
    return found


def read(
    path: str | Path, needs: Callable[[dict[str, Any]], int], trust: str | Path | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Document and arrays of a saved file; if it holds keys, one that this user sealed, or whose secret is `trust`.

    `needs` tells of a document how many coefficients it is about. The sizes in the directory of the file are held
    against that, and names against those that there are, before anything but the document is read.
    Raises SavedFileError if the file is missing, damaged, of another program, of a newer format, holds more than its
    document needs, or is not sealed by who may; and whatever `needs` does.
    """
    if not (target := _path(path)).is_file():
        raise SavedFileError(f"there is no file {str(target)!r}.")
    damaged = SavedFileError(f"{str(target)!r} is damaged or was not saved by privreg.")
    with ExitStack() as stack:
        # zipfile, zlib and json raise a dozen kinds for damaged bytes
        z = stack.enter_context(quietly(lambda: zipfile.ZipFile(target), damaged))
        members = z.infolist()
        sizes = {member.filename: member.file_size for member in members}
        packed = {member.compress_type for member in members} - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
        if packed or len(sizes) < len(members) or sizes.get(_DOCUMENT, LONGEST + 1) > LONGEST:
            raise damaged
        document = quietly(lambda: json.loads(_member(z, _DOCUMENT)), damaged)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise SavedFileError(f"{str(target)!r} has a format this version can't read; it reads format {FORMAT}.")
        kind = document.get("kind")
        if kind not in (*_SEALED, *_OPEN) or not all(re.fullmatch(_NAMES[kind], m) for m in sizes if m != _DOCUMENT):
            raise damaged
        q = needs(document) + 64
        numbers = 32 * q**2 + (q << 14)  # squares by group, and what is kept by round and bootstrap: more than enough
        if sum(sizes.values()) - sizes[_DOCUMENT] > 8 * numbers + 256 * len(sizes):
            raise SavedFileError(f"{str(target)!r} holds more than its document needs: it is damaged or made up.")
        held = quietly(lambda: {name: _member(z, name) for name in sizes}, damaged)
    found = held.pop(_SEAL, None)
    if kind in _SEALED:
        check_seal(target, held, found, trust, checkpoint=kind == CHECKPOINT)
    return document, quietly(lambda: {name[:-4]: _array(held[name]) for name in held if name != _DOCUMENT}, damaged)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member, no longer than the directory has it."""
    with archive.open(name) as part:
        return part.read(archive.getinfo(name).file_size)


def _array(content: bytes) -> NDArray[Any]:
    """A saved array, which is as long as it says; a ValueError if it isn't."""
    part = io.BytesIO(content)
    version = np.lib.format.read_magic(part)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, dtype = readers[version](part)
    expect(not dtype.hasobject, math.prod(shape) * dtype.itemsize == len(content) - part.tell())
    part.seek(0)
    return np.lib.format.read_array(part, allow_pickle=False)
