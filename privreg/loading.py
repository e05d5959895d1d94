"""Saved results and streams, back from their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privreg import storage
from privreg.accounting import Budget
from privreg.design import design_from_json
from privreg.errors import PrivregError, SavedFileError
from privreg.families import FAMILIES
from privreg.model import PrivateOnlineRegression
from privreg.results import from_saved

if TYPE_CHECKING:
    from privreg.formula import Rowwise

__all__ = ["load"]


def load(path: str | Path, *, functions: Mapping[str, Rowwise] | None = None) -> Any:
    """Load saved results, or a saved stream to go on with.

    Parameters
    ----------
    path : str or Path
    functions : mapping of str to Rowwise, optional
        The ``privreg.rowwise`` functions that the formula calls; code is never stored.

    Returns
    -------
    PrivateResults or Stream
        A stream goes on exactly where it was saved. Its file's key is taken out on the way, so that the same
        noise is never used for other people; a second load draws fresh noise.

    Raises
    ------
    SavedFileError
        If the file is missing, damaged, or was not saved by privreg.
    """
    document, arrays = storage.read(path)
    try:
        return _rebuild(Path(path), document, arrays, functions)
    except SavedFileError:
        raise
    except PrivregError as e:  # a formula or declaration that this version would refuse
        raise SavedFileError(f"{str(path)!r} can't be used: {e}") from None
    except Exception:
        raise SavedFileError(f"{str(path)!r} is damaged or was not saved by privreg.") from None


def _rebuild(path: Path, document: dict[str, Any], arrays: dict[str, Any], functions: Any) -> Any:
    design = design_from_json(document["design"], functions)
    name, c, scale = document["family"]
    family = FAMILIES["huber"](c, scale) if name == "Huber" else FAMILIES[name.lower()]()
    if document["kind"] == "results":
        return from_saved(document, arrays, design, family)
    options = dict(document["options"])
    model = PrivateOnlineRegression.__new__(PrivateOnlineRegression)
    rows = options.pop("rows")
    model._build(design, family, Budget.restore(*document["budget"]), options.pop("score_weights"), None, rows)
    stream = model.start(**options, seed=document["seed"])
    stream._restore(path, document, arrays)
    return stream
