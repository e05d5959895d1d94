"""Notes of a summary: text, and what programs need to know of it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.errors import ReliabilityWarning
from privreg.tables import plain, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["DOUBT", "DOUBTS", "EARLY", "WAITING", "Note", "caution", "doubts", "from_json", "reliable", "to_json"]

DOUBT: Final = "don't rely on"
"""How the text of a note begins that takes intervals back."""

EARLY: Final = "no intervals yet"
"""How the text of a note begins that explains why results taken early have none."""

WAITING: Final = "early"
"""Code of such a note."""

DOUBTS: Final = {
    "answers": "some answer came, or failed to come, from fewer than 10 people",
    "before": "as a note of an earlier version says",
    "changing": "people who came first tell other coefficients than those after them",
    "curvature": "the curvature is hardly known",
    "few": "few people at this budget",
    "flat": "the response hardly varies inside its declared range",
    "lane": "one lane tells nothing of its precision",
    "levels": "levels of few people are compared with a reference level of few",
    "limit": "the estimate lies at a public limit of the response",
    "lost": "the search for a scale did not settle",
    "more": "far more people came than rows= said",
    "moving": "the estimates were still on their way",
    "rare": "too few people in the smaller group",
    "silent": "most people seem to have sent noise only",
    "strong": "effects seem too strong to tell how strong",
    "tied": "levels of several factors go together",
    "wide": "bounds that don't fit the values",
}
"""Codes of the notes that take rows back, and why in a few words."""

_MOST: Final = 6


class Note(str):
    """A note: its text, which is all that most readers need, and what programs go by.

    Parameters
    ----------
    text : str
    code : str
        One of `DOUBTS`, whose notes take rows back; `WAITING`; or "" for a remark.
    rows : sequence of int, optional
        Positions of the coefficients that it is about; all by default.
    methods : sequence of str
        Inference methods that it is about; all by default.
    """

    code: str
    rows: tuple[int, ...] | None
    methods: tuple[str, ...]

    def __new__(
        cls, text: str = "", code: str = "", rows: Iterable[int] | None = None, methods: Iterable[str] = ()
    ) -> Note:
        """Make a note; see the class."""
        out = super().__new__(cls, text)
        out.code, out.methods = code, tuple(methods)
        out.rows = None if rows is None else tuple(sorted({int(j) for j in rows}))
        return out


def doubts(notes: Iterable[str]) -> tuple[Note, ...]:
    """Those that take rows back."""
    return tuple(note for note in notes if isinstance(note, Note) and note.code in DOUBTS)


def reliable(notes: Iterable[str], p: int) -> NDArray[np.bool_]:
    """Which of `p` coefficients no note takes back, shape (p,)."""
    out = np.ones(p, dtype=np.bool_)
    for note in doubts(notes):
        out[slice(None) if note.rows is None else list(note.rows)] = False
    return out


def caution(names: Sequence[str], notes: Iterable[str], *, what: str = "the intervals of", stacklevel: int = 2) -> bool:
    """Warn if notes take back rows, naming them and why; return whether they do.

    Parameters
    ----------
    names : sequence of str
        Of all coefficients.
    notes : iterable of str
    what : str
        What not to rely on, before the names.
    stacklevel : int
        As of `warnings.warn`, seen from the caller.
    """
    said = doubts(notes)
    if not said:
        return False
    kept = reliable(said, len(names))
    concerned = [name for name, ok in zip(names, kept, strict=True) if not ok]
    listed = ", ".join(shorten(list(map(plain, concerned[:_MOST])), 40))
    if len(concerned) > _MOST:
        listed += f" and {len(concerned) - _MOST} more"
    if not kept.any() and len(names) > 1:
        listed = f"all {len(names)} coefficients ({listed})"
    why = "; ".join(dict.fromkeys(DOUBTS[note.code] for note in said))
    warnings.warn(
        f"{DOUBT} {what} {listed}: {why}. The summary marks the rows and says more.",
        ReliabilityWarning,
        stacklevel=stacklevel + 1,
    )
    return True


# --- files -----------------------------------------------------------------------------------------------


def to_json(notes: Iterable[str]) -> list[Any]:
    """What notes are about, beside their texts: code, rows and methods of each; None for a remark."""
    return [
        [note.code, None if note.rows is None else list(note.rows), list(note.methods)]
        if isinstance(note, Note) and note.code
        else None
        for note in notes
    ]


def from_json(texts: Iterable[str], about: Iterable[Any] | None) -> tuple[str, ...]:
    """Notes from their texts and :func:`to_json`; of an older file, which has no such list, by how they begin.

    Raises
    ------
    ValueError
        If they are not as many, or a number is no position.
    """
    if about is None:
        return tuple(map(_of_old_file, texts))
    out = []
    for text, own in zip(texts, about, strict=True):
        if own is None:
            out.append(Note(text))
            continue
        code, rows, methods = own
        if rows is not None and any(isinstance(j, bool) or not isinstance(j, int) or j < 0 for j in rows):
            raise ValueError("not positions of coefficients")  # load() says that the file is damaged
        out.append(Note(text, str(code), rows, map(str, methods)))
    return tuple(out)


def _of_old_file(text: str) -> Note:
    if text.startswith(DOUBT):
        return Note(text, "before")
    if text.startswith(EARLY):
        named = text.partition(":")[0].removeprefix(EARLY).removeprefix(" by ")
        return Note(text, WAITING, methods=named.split(", ") if named else ())
    return Note(text)
