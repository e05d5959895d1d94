"""Diagnostics: the notes of a result, each a text with a code, by which programs go."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from privreg.errors import ReliabilityWarning
from privreg.tables import plain, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Severity = Literal["info", "caution", "doubt"]


class Code(NamedTuple):
    """Severity and meaning of a note's code."""

    severity: Severity  # "doubt" marks rows as unreliable, "caution" weakens a claim or an estimate, "info" explains
    meaning: str  # Meaning in a few words; of doubts those of the warning


CODES: Final = {
    # about privacy
    "curator": Code("caution", "one release needed a trusted curator"),
    "delta": Code("caution", "delta is large"),
    "leaked": Code("caution", "a declaration was taken from the raw data"),
    "left_out": Code("caution", "a sum of two collectors was lost, or is none of reports"),
    "missing": Code("caution", "records that can't be used are treated in a way that reveals something"),
    "not_private": Code("caution", "no noise"),
    "public_weights": Code("info", "weights were declared public"),
    "pure": Code("info", "the mechanism keeps a stricter budget than was asked for"),
    "memory": Code("info", "a device that lost its memory may spend more"),
    "page": Code("info", "whoever serves a survey's page serves the program that sees the answers"),
    "rounding": Code("info", "noise is drawn in double precision"),
    "seeded": Code("caution", "whoever knows the seed can draw the noise again"),
    "split": Code("info", "each record is in one lane, which spends the whole budget on it"),
    # about estimates
    "biased": Code("caution", "the mechanism moves the estimates"),
    "binary": Code("info", "the response may be a yes or no"),
    "clamping": Code("caution", "declared bounds clamp more than 1% of the records"),
    "clusters": Code("caution", "clusters are few, or one is large"),
    "diagonal": Code("caution", "no correlations of covariates are learned"),
    "early": Code("caution", "no intervals yet"),
    "excess": Code("caution", "rows beyond max_per_id may shorten intervals"),
    "marginal": Code("info", "terms are in interactions too, which says where they are tested"),
    "filled": Code("info", "people fill less than half of a report of several rows, or weighted"),
    "heaped": Code("caution", "most residuals are at one point"),
    "later": Code("info", "no measures of fit yet"),
    "measured": Code("info", "records beyond rows= answered measures of fit only"),
    "no_errors": Code("info", "there are no standard errors"),
    "first_row": Code("info", "one row of each person counts"),
    "repeated": Code("caution", "rows of one person may be alike"),
    "remark": Code("info", "as a note of an earlier version says"),
    "unusable": Code("info", "some records could not be used"),
    "unvouched": Code("caution", "a sum of two collectors rests on the word of one"),
    "unweighted": Code("info", "scores have no weights, which takes more people"),
    "within": Code("info", "coefficients are of changes within a person"),
    # about plans
    "clamped": Code("caution", "assumed responses are outside the declared range"),
    "covariates_assumed": Code("info", "covariates were taken for even and independent"),
    "missed": Code("caution", "so many records don't reach what was asked for"),
    "power": Code("info", "the test that the power refers to"),
    "raised": Code("info", "more records than the precision needs, so that intervals can be relied on"),
    "rows_assumed": Code("info", "people were taken to have as many rows as count"),
    "scale_assumed": Code("info", "the residual sd was not given"),
    "seldom": Code("caution", "too few of so many records would have a level"),
    "unreliable": Code("caution", "a fit would say that its intervals can't be relied on"),
    "widths": Code("info", "the intervals that the widths refer to"),
    # that take rows back
    "alike": Code("doubt", "rows of one person are taken for independent"),
    "unbegun": Code("doubt", "the reports so far set scales, and none is about the estimate"),
    "answers": Code("doubt", "fewer than 10 records gave, or did not give, some answer"),
    "before": Code("doubt", "as a note of an earlier version says"),
    "changing": Code("doubt", "the first records give other coefficients than the later ones"),
    "collinear": Code("doubt", "columns that are nearly sums of others"),
    "confounded": Code("doubt", "levels of several factors go together"),
    "curvature": Code("doubt", "the curvature is hardly known"),
    "boundary": Code("doubt", "a mean is near a limit of what is possible"),
    "few": Code("doubt", "few records at this budget"),
    "empty": Code("doubt", "hardly any records near a bound of a spline"),
    "flat": Code("doubt", "the response hardly varies inside its declared range"),
    "imprecise": Code("doubt", "predictors are hardly known, and the curvature depends on them"),
    "lane": Code("doubt", "one lane has no standard errors"),
    "levels": Code("doubt", "rare levels are compared with a rare reference level"),
    "weights": Code("doubt", "records far out are weighted down"),
    "limit": Code("doubt", "the estimate is at a public limit of the response"),
    "perfect": Code("doubt", "some records may be predicted perfectly"),
    "lost": Code("doubt", "the search for a scale did not converge"),
    "more": Code("doubt", "far more records came than rows= said"),
    "moving": Code("doubt", "the estimates had not converged"),
    "narrow": Code("doubt", "bounds that clamp so many values that coefficients are biased"),
    "nonresponse": Code("doubt", "most records seem to have sent noise only"),
    "rare": Code("doubt", "too few records with some value of a column"),
    "rows": Code("doubt", "levels of people with many rows were taken out"),
    "strong": Code("doubt", "effects seem too strong to be estimated"),
    "unidentified": Code("doubt", "the records don't tell some columns from others"),
    "wide": Code("doubt", "bounds that don't fit the values"),
}
"""Every code that a note can have."""

_MOST: Final = 6
ROUNDED: Final = 1e-12
"""Weight of a coefficient in a combination, relative to the largest, that is nothing but rounding."""


class Diagnostic(str):
    """A note: its text, which is all that most readers need, and what programs go by."""

    code: str  # One of `CODES`, which tells how severe it is; another is a ValueError
    rows: tuple[int, ...] | None  # Positions of the coefficients that it is about; None of all
    methods: tuple[str, ...]  # Inference methods that it is about; none of all

    def __new__(
        cls, code: str, text: str, rows: Iterable[int] | None = None, methods: Iterable[str] = ()
    ) -> Diagnostic:
        """Make a note; see the class."""
        if code not in CODES:
            raise ValueError(f"no code of a note: {code!r}")
        out = super().__new__(cls, text)
        out.code, out.methods = code, tuple(methods)
        out.rows = None if rows is None else tuple(sorted({int(j) for j in rows}))
        return out

    def __getnewargs__(self) -> Any:
        return self.code, str(self), self.rows, self.methods

    @property
    def severity(self) -> Severity:
        """Severity of the note: "doubt" marks rows as unreliable, "caution" weakens a claim, "info" explains."""
        return CODES[self.code].severity


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
    enters = np.abs(matrix) > ROUNDED * np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(~enters[:, ~reliable(notes, matrix.shape[1])].any(axis=1) & ~np.isnan(matrix).any(axis=1))


def caution(
    names: Sequence[str], notes: Iterable[Diagnostic], *, what: str = "the intervals of", stacklevel: int = 2
) -> bool:
    """Warn if notes take back rows, naming them and why; return whether they do.

    `names` are those of all coefficients, `what` is not to be relied on of them, and `stacklevel` is as of
    `warnings.warn`, seen from the caller.
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
    why = "; ".join(dict.fromkeys(CODES[note.code].meaning for note in said))
    warnings.warn(
        f"don't rely on {what} {listed}: {why}. The summary marks the rows and says more.",
        ReliabilityWarning,
        stacklevel=stacklevel + 1,
    )
    return True


# --- files -----------------------------------------------------------------------------------------------

_RENAMED: Final = {"silent": "nonresponse", "tied": "confounded"}  # Codes of version 0.1


def to_json(notes: Iterable[Diagnostic]) -> list[Any]:
    """Code, rows and methods of each note, without its text."""
    return [[note.code, None if note.rows is None else list(note.rows), list(note.methods)] for note in notes]


def from_json(texts: Iterable[str], about: Iterable[Any] | None) -> tuple[Diagnostic, ...]:
    """Notes from their texts and :func:`to_json`; in files of 0.1 remarks have no code, in older ones no note has.
    Raises ValueError if they are not as many, a code is unknown, or a number is no position.
    """
    if about is None:
        return tuple(map(_without_code, texts))
    out = []
    for text, said in zip(texts, about, strict=True):
        code, rows, methods = ("remark", None, ()) if said is None else said
        if rows is not None and any(isinstance(j, bool) or not isinstance(j, int) or j < 0 for j in rows):
            raise ValueError("not positions of coefficients")  # load() says that the file is damaged
        out.append(Diagnostic(_RENAMED.get(str(code), str(code)), text, rows, map(str, methods)))
    return tuple(out)


def _without_code(text: str) -> Diagnostic:
    """Note of a file that has texts alone: the one place where how it begins tells what it is."""
    if text.startswith("don't rely on"):
        return Diagnostic("before", text)
    head, early, named = text.partition(":")[0].partition("no intervals yet")
    if early and not head:
        return Diagnostic("early", text, methods=[m for m in named.removeprefix(" by ").split(", ") if m])
    return Diagnostic("remark", text)
