"""Diagnostics: the notes of a result, each a text with a code, by which programs go; their table is `notes.toml`."""

import tomllib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.errors import ReliabilityWarning, warn
from privreg.tables import plain, shorten

Severity = Literal["info", "caution", "doubt"]


class Code(NamedTuple):
    """A row of the table: what a code of a note means."""

    severity: Severity  # "doubt" takes rows back, "caution" weakens a claim or an estimate, "info" explains
    meaning: str  # In a few words; of doubts they are those of the warning
    text: Any = ""  # With names of values to be filled in, or several such texts by name
    of: str = "the intervals"  # Which a doubt takes back


_TABLE: Final = files("privreg.tables").joinpath("notes.toml").read_text("utf-8")
CODES: Final = {code: Code(**row) for code, row in tomllib.loads(_TABLE).items()}
"""Every code that a note can have."""

_MOST: Final = 6
ROUNDED: Final = 1e-12
"""Weight of a coefficient in a combination, relative to the largest, that is nothing but rounding."""


class Diagnostic(str):
    """A note: its text, which is all that most readers need, and what programs go by."""

    code: str  # One of `CODES`, which tells how severe it is; another is a ValueError
    rows: tuple[int, ...] | None  # Positions of the coefficients that it is about; None of all
    methods: tuple[str, ...]  # Inference methods that it is about; none of all
    ways: tuple[tuple[float, ...], ...]  # Directions in which coefficients are unknown, others being known; none of all

    def __new__(
        cls, code: str, text: str, rows: Iterable[int] | None = None, methods: Iterable[str] = (), ways: Any = ()
    ) -> "Diagnostic":
        """Make a note; see the class."""
        if code not in CODES:
            raise ValueError(f"no code of a note: {code!r}")
        out = super().__new__(cls, text)
        out.code, out.methods = code, tuple(methods)
        out.rows = None if rows is None else tuple(sorted({int(j) for j in rows}))
        out.ways = tuple(tuple(map(float, way)) for way in ways)
        return out

    def __getnewargs__(self) -> Any:
        return self.code, str(self), self.rows, self.methods, self.ways

    @property
    def severity(self) -> Severity:
        """Severity of the note: "doubt" marks rows as unreliable, "caution" weakens a claim, "info" explains."""
        return CODES[self.code].severity


def note(
    code: str, rows: Iterable[int] | None = None, *, of: str = "", methods: Iterable[str] = (), ways: Any = (),
    **values: Any,
) -> Diagnostic:  # fmt: skip
    """Make a note by its text in the table, in which `values` are filled in; of several texts "code.name" is one."""
    code, _, which = code.partition(".")
    known = CODES[code]
    text = (known.text[which] if which else known.text).format(**values)
    if known.severity == "doubt" and (whole := of or known.of):
        text = f"don't rely on {whole}: {text}"
    return Diagnostic(code, text, rows, methods, ways)


def doubt(code: str, text: str, rows: Iterable[int] | None = None, *, of: str = "the intervals") -> Diagnostic:
    """Note that takes back what it names: "don't rely on the intervals: …"."""
    return Diagnostic(code, f"don't rely on {of}: {text}", rows)


def doubts(notes: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Notes that mark rows as unreliable, of severity "doubt"."""
    return tuple(note for note in notes if note.severity == "doubt")


_ELSEWHERE: Final = frozenset({"memory", "rounding", "split"})
"""Codes of notes that change no reading of a table; they stand in the privacy statement."""


def for_reading(notes: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Notes that change how a table of estimates is read, in their order."""
    return tuple(note for note in notes if note.code not in _ELSEWHERE)


def reliable(notes: Iterable[Diagnostic], p: int) -> NDArray[np.bool_]:
    """True for each of `p` coefficients that no note marks as unreliable, shape (p,)."""
    out = np.ones(p, dtype=np.bool_)
    for note in doubts(notes):
        out[slice(None) if note.rows is None else list(note.rows)] = False
    return out


def along(notes: Iterable[Diagnostic], matrix: NDArray[np.float64]) -> NDArray[np.bool_]:
    """True for linear combinations, rows of `matrix`, shape (q, p), that are known and reliable; shape (q,)."""
    return np.asarray(~np.isnan(matrix).any(axis=1) & ~np.any([entered(n, matrix) for n in doubts(notes)], axis=0))


def entered(note: Diagnostic, matrix: NDArray[np.float64]) -> NDArray[np.bool_]:
    """True for linear combinations, rows of `matrix`, that the note is about; shape (q,)."""
    if note.ways:
        ways = np.array(note.ways).T
        return np.asarray((np.abs(matrix @ ways) > ROUNDED * (np.abs(matrix) @ np.abs(ways))).any(axis=1))
    enters = np.abs(matrix) > ROUNDED * np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(enters[:, slice(None) if note.rows is None else list(note.rows)].any(axis=1))


def caution(names: Sequence[str], notes: Iterable[Diagnostic], *, what: str = "the intervals of") -> bool:
    """Warn if notes take back rows, naming them and why; return whether they do.

    `names` are those of all coefficients, and `what` is not to be relied on of them.
    """
    if not (said := doubts(notes)):
        return False
    kept = reliable(said, len(names))
    concerned = [name for name, ok in zip(names, kept, strict=True) if not ok]
    listed = ", ".join(shorten(list(map(plain, concerned[:_MOST])), 40))
    listed += f" and {len(concerned) - _MOST} more" if len(concerned) > _MOST else ""
    if not kept.any() and len(names) > 1:
        listed = f"all {len(names)} coefficients ({listed})"
    why = "; ".join(dict.fromkeys(CODES[note.code].meaning for note in said))
    warn(f"don't rely on {what} {listed}: {why}. The summary marks the rows and says more.", ReliabilityWarning)
    return True


_RENAMED: Final = {"silent": "nonresponse", "tied": "confounded"}  # Codes of version 0.1


def to_json(notes: Iterable[Diagnostic]) -> list[Any]:
    """Code, rows, methods and ways of each note, without its text."""
    of = [(n.code, None if n.rows is None else list(n.rows), list(n.methods), list(map(list, n.ways))) for n in notes]
    return [list(said) if said[3] else list(said[:3]) for said in of]


def from_json(texts: Iterable[str], about: Iterable[Any] | None) -> tuple[Diagnostic, ...]:
    """Notes from their texts and :func:`to_json`; in files of 0.1 remarks have no code, in older ones no note has.
    Raises ValueError if they are not as many, a code is unknown, or a number is no position.
    """
    out = []
    for text in texts if about is None else []:  # the one place where how a text begins tells what it is
        head, early, named = text.partition(":")[0].partition("no intervals yet")
        if text.startswith("don't rely on"):
            out.append(Diagnostic("before", text))
        elif early and not head:
            out.append(Diagnostic("early", text, methods=filter(None, named.removeprefix(" by ").split(", "))))
        else:
            out.append(Diagnostic("remark", text))
    if about is None:
        return tuple(out)
    for text, said in zip(texts, about, strict=True):
        code, rows, methods, *ways = ("remark", None, ()) if said is None else said
        if rows is not None and any(isinstance(j, bool) or not isinstance(j, int) or j < 0 for j in rows):
            raise ValueError("not positions of coefficients")  # load() says that the file is damaged
        out.append(Diagnostic(_RENAMED.get(str(code), str(code)), text, rows, map(str, methods), *ways))
    return tuple(out)
