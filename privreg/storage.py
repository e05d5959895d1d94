"""Saved files: a zip of arrays (npz) and one JSON document. Loading executes nothing.

A file is written under a temporary name in the same folder and renamed, so that a killed process leaves the
old file or the new one, never half of one.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.errors import SavedFileError, UnsupportedArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["read", "refuse_suffix", "write_archive", "write_bytes"]

FORMAT: Final = 1
_DOCUMENT: Final = "privreg.json"


def write_bytes(path: str | Path, content: bytes, *, secret: bool = False, new: bool = False) -> None:
    """Write a file atomically, readable by its owner only if it holds a secret; with `new` only where there is none.

    Raises
    ------
    SavedFileError
        If the folder is missing or not writable, or `new` and there is a file of that name already.
    """
    target = _path(path).resolve()  # through a link, so that no second name keeps an old key
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or Path())
    except (OSError, ValueError) as e:
        raise SavedFileError(f"can't write {str(target)!r}: {_why(e)}; give a file in a writable folder.") from None
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        if not secret:  # mkstemp gives 0600; ordinary files get what the user's umask allows
            mask = os.umask(0)
            os.umask(mask)
            Path(name).chmod(0o666 & ~mask)
        if new:
            _claim(Path(name), target)
        else:
            Path(name).replace(target)
    except OSError as e:
        Path(name).unlink(missing_ok=True)
        raise SavedFileError(f"can't write {str(target)!r}: {_why(e)}; give a file in a writable folder.") from None
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _claim(made: Path, target: Path) -> None:
    """Give a file a name that nobody has; of two processes at once, one gets it."""
    try:
        os.link(made, target)
    except FileExistsError:
        made.unlink(missing_ok=True)
        raise SavedFileError(
            f"{str(target)!r} was made by another process just now; let one of them write it."
        ) from None
    except OSError:  # a file system without links
        made.replace(target)
        return
    made.unlink()


def _path(path: object) -> Path:
    if not isinstance(path, str | Path):
        raise SavedFileError(f"a file is named by a string or Path, got {type(path).__name__}.")
    return Path(path)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or "no such folder"


_FIGURE: Final = "for a figure use the axes that a plot returns, axes.figure.savefig(path)"
_PICKLE: Final = "load() executes nothing and pickle does, but pickle.dump(res, file) works too"
_VIEWS: Final = {
    **dict.fromkeys((".html", ".htm"), "for HTML write summary().as_html()"),
    ".tex": "for LaTeX write summary().as_latex()",
    **dict.fromkeys((".txt", ".text", ".md"), "for text write summary().as_text()"),
    **dict.fromkeys((".csv", ".tsv"), "for a table use tidy().to_csv(path)"),
    **dict.fromkeys((".xlsx", ".xls"), "for a table use tidy().to_excel(path)"),
    **dict.fromkeys((".parquet", ".pq"), "for a table use tidy().to_parquet(path)"),
    ".feather": "for a table use tidy().to_feather(path)",
    ".json": "for a table use tidy().to_json(path)",
    **dict.fromkeys((".pdf", ".docx"), "for a page write summary().as_html() or as_latex() and convert it; " + _FIGURE),
    **dict.fromkeys((".png", ".svg", ".eps", ".jpg", ".jpeg"), _FIGURE),
    **dict.fromkeys((".pkl", ".pickle"), _PICKLE),
}
"""Suffixes that promise something else, and how to get it."""


def refuse_suffix(path: object, *, views: bool = True) -> None:
    """Refuse to save under a name that promises something to read, or another program's file.

    `views` says whether there is another way to such a file.

    Raises
    ------
    UnsupportedArgumentError
    """
    suffix = Path(path).suffix.lower() if isinstance(path, str | Path) else ""
    if suffix in _VIEWS:
        instead = f"; {_VIEWS[suffix]}" if views else ""
        raise UnsupportedArgumentError(
            f"save() writes a file for privreg.load(), not {suffix}; name it .privreg{instead}."
        )


def write_archive(
    path: str | Path,
    kind: str,
    document: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    secret: bool = False,
    new: bool = False,
) -> None:
    """Save a JSON document and named arrays as one file of a given kind."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(_DOCUMENT, json.dumps({"kind": kind, "format": FORMAT, **document}, allow_nan=False))
        for name, array in arrays.items():
            with z.open(f"{name}.npy", "w", force_zip64=True) as f:
                np.lib.format.write_array(f, np.asarray(array), allow_pickle=False)
    write_bytes(path, buffer.getvalue(), secret=secret, new=new)


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a saved file.

    Returns
    -------
    document : dict
    arrays : dict of ndarray

    Raises
    ------
    SavedFileError
        If the file is missing, damaged, of another program or of a newer format.
    """
    target = _path(path)
    if not target.is_file():
        raise SavedFileError(f"there is no file {str(target)!r}.")
    try:
        with zipfile.ZipFile(target) as z:
            document = json.loads(z.read(_DOCUMENT))
            arrays = {}
            for name in z.namelist():
                if name.endswith(".npy"):
                    with z.open(name) as f:
                        arrays[name[:-4]] = np.lib.format.read_array(f, allow_pickle=False)
    except Exception:  # zipfile, zlib, json and NumPy raise a dozen kinds for damaged bytes
        raise SavedFileError(f"{str(target)!r} is damaged or was not saved by privreg.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SavedFileError(f"{str(target)!r} has a format this version can't read; it reads format {FORMAT}.")
    return document, arrays
