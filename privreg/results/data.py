"""Content of a result: its numbers, the equation that they solve, and the target to be taken over. No rows."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from html import escape
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Never, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.inference.methods import METHODS, Estimate, Steps
from privreg.errors import InferenceError, NotPrivateError, OptionError, as_named, choose, refuse
from privreg.families.family import Family
from privreg.families.measures import Measure
from privreg.families.scores import scoring_of
from privreg.protocol.plans import Shape
from privreg.results.statement import PrivacyStatement
from privreg.tables import WIDTH, Paragraph, Part, Table, as_html, as_text, fold, formatted, write

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Equation:
    """Σ_j a_j E ω(z) z ψ_j(z'(θ + δ_j), y) = e in θ, z = W x: covariates and response in internal units.

    States of rounds and groups with the same threshold and offset count together.
    """

    shape: tuple[int, float, float]  # Score: family's code and constants, see `protocol.plans.Shape`
    weighing: str  # Name of the score weights ω, see `families.scores`
    rows: Array  # W; shape (d, d), or a scale and a shift of each column, (2, d)
    order: NDArray[np.int64]  # Columns of the design in the order of W; shape (d,)
    constant: bool  # True if the first of them is the constant
    y_centre: float = 0.0  # The response is (y − y_centre)/y_scale, beyond the public units
    y_scale: float = 1.0
    weights: Array = field(default_factory=partial(np.ones, 1))  # a, sum 1; shape (m,)
    c: Array  # c_j of ψ_j; shape (m,)
    offsets: Array  # δ_j; shape (m, b d)
    bend: Array  # e: what offsets add by the reference model; shape (b d,)
    theta: Array  # The estimate; shape (b d,)
    # For sums: ω(z) = Σ_k shares_k min(1, 1/‖caps_k z‖²); shapes (k, d, d), (k,). Else empty
    caps: Array = field(default_factory=partial(np.zeros, (0, 0, 0)))
    shares: Array = field(default_factory=partial(np.zeros, 0))
    ratio: float | None = None  # Unit of c where it follows the residuals: their normal-consistent median absolute size
    budgets: tuple[str, float] | None = None  # Column of personal budgets and their ceiling, by which records count
    people: Mapping[str, Any] | None = None  # Declarations of people whose reports are of several rows, or weighted

    @property
    def score(self) -> Shape:
        """The score's shape."""
        return Shape(*self.shape, 0)


class _AnyFrame(type):
    """Every DataFrame counts as a table: tests of equality ask whether one table is of the other's class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, pd.DataFrame)


_MOST: Final = 60  # Rows, as pandas' display.max_rows
_SHOWN: Final = {"inf": "∞", "-inf": "−∞", "nan": ""}


class Frame(pd.DataFrame, metaclass=_AnyFrame):
    """A table that prints all its columns, then ``attrs["note"]``; so do tables that are computed from it."""

    @property
    def _constructor(self) -> "type[Frame]":
        return Frame

    def _constructor_from_mgr(self, mgr: Any, axes: Any) -> Any:
        made: Any = Frame
        return made._from_mgr(mgr, axes)  # pandas 2.2 warns that its own way is deprecated

    def round(self, decimals: Any = 0, *args: Any, **kwargs: Any) -> "Frame":
        """Round as pandas does; pages and documents then show as many decimals: ``res.tidy().round(2)``."""
        out: Frame = super().round(decimals, *args, **kwargs)
        out.attrs["digits"] = dict(decimals) if hasattr(decimals, "keys") else int(decimals)
        return out

    def save(self, path: str | Path) -> None:
        """Write to a file, atomically: .txt, .md, .html, .tex, .docx or, numbers alone in full precision, .csv.

        In a .csv file names that a spreadsheet would compute, such as ``=1+1``, have an apostrophe before them.

        Raises OptionError if the ending of `path` is another; MissingExtraError if it is .docx, and python-docx is not
        installed; SavedFileError if the file can't be written.
        """
        write(path, self._parts(math.inf, math.inf) or [Paragraph(repr(self))], {".csv": self._as_csv})

    def _as_csv(self) -> str:
        def shielded(name: Any) -> Any:  # what a spreadsheet would take for a formula (OWASP's CSV injection)
            return f"'{name}" if isinstance(name, str) and name.startswith(tuple("=+-@\t\r\n")) else name

        frame = pd.DataFrame(self).map(shielded).rename_axis(index=shielded)
        frame = frame.rename(index=shielded, columns=shielded)
        return str(frame.to_csv(index=not isinstance(self.index, pd.RangeIndex), lineterminator="\n"))

    def _parts(self, most: float = _MOST, room: float = WIDTH) -> list[Part]:
        """Cells in the formats of a summary, and the note; none where they are too many for a screen."""
        if not (len(self.columns) and self.columns.is_unique and 0 < len(self) <= most):
            return []
        words = list(takewhile(lambda c: self[c].dtype.kind == "O", self.columns[:-1]))
        named = words and isinstance(self.index, pd.RangeIndex)
        frame, note = self.set_index(words) if named else self, self.attrs.get("note")
        shown = formatted(frame, self.attrs.get("digits"))
        rows = [[_SHOWN.get(v, v) for v in row] for row in zip(*shown.values(), strict=True)]
        head = [str(c) for c in frame]
        names = [", ".join(str(v) for v in i if v == v) if type(i) is tuple else str(i) for i in frame.index]
        wide = sum(max(map(len, column)) + 1 for column in zip(head, *rows, strict=True))
        table = Table(names, head, rows, stub=", ".join(str(n) for n in frame.index.names if n))
        return [table, *[Paragraph(f"{note}")] * bool(note)] if wide < room else []

    def __repr__(self) -> str:
        if parts := self._parts():
            return as_text(parts)
        with pd.option_context("display.max_columns", None):  # on several lines where a terminal is narrow
            return "\n".join([super().__repr__(), *fold(self.attrs.get("note", ""))])

    def _repr_html_(self) -> str:
        if parts := self._parts():
            return as_html(parts)
        with pd.option_context("display.max_colwidth", None):  # pandas cuts texts, and so names
            html = f"{super()._repr_html_()}"  # type: ignore[misc]
        note = self.attrs.get("note", "")
        return html + f"<p>{escape(note)}</p>" * bool(note)


class Later(Generic[T]):
    """A value that is computed when it is first asked for, and then copied and stored."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work

    @cached_property
    def value(self) -> T:
        """The value, computed once."""
        return self._work()

    def __getstate__(self) -> dict[str, Any]:
        return {"value": self.value}


NO_STEPS: Later[Steps | None] = Later(lambda: None)


class RoundHeld(NamedTuple):
    """One round of a fit by rounds."""

    number: int  # From 1, in the order in which states are published
    role: str
    records: int  # Asked
    reports: float  # That came, each counted by its weight (μ_i/μ_max)² where records have budgets of their own
    moved: float  # Largest change of a coefficient, in standard errors of the last estimate; NaN of rounds on scales


class ModelNames(NamedTuple):
    """Model that was fitted, as results keep it: public names, neither rows nor a way to fit again."""

    endog_names: str
    exog_names: list[str]
    formula: str | None  # None of arrays

    def __getattr__(self, name: str) -> Never:
        raise NotPrivateError(
            f"res.model has no {name!r}: results keep endog_names, exog_names and formula; keep the model that you "
            "fitted."
        )


class Labelled:
    """Estimates by name, and how they are labelled; those of a multinomial response by level, too."""

    names: tuple[str, ...]
    design: Any

    @property
    def levels(self) -> tuple[Any, ...]:
        """Declared levels of a multinomial response, the first being the baseline; none for other families."""
        return ()

    @property
    def index(self) -> pd.Index:
        """Labels of the coefficients one below the other: names, or (level, term)."""
        if not self.levels:
            return pd.Index(self.names)
        labels = [list(self.levels[1:]), list(self.design.names)]
        made: pd.Index = pd.MultiIndex.from_product(labels, names=[self.design.endog_name, None])
        return made

    def shaped(self, values: Array) -> pd.Series | pd.DataFrame:
        """Numbers of the coefficients as the user sees them: a Series, or a DataFrame of terms by levels."""
        if not self.levels:
            return pd.Series(np.array(values), index=self.index, dtype=np.float64)
        levels = pd.Index(self.levels[1:], name=self.design.endog_name)
        table = np.array(values, dtype=np.float64).reshape(len(levels), -1).T
        return pd.DataFrame(table, index=pd.Index(self.design.names), columns=levels)

    def labels(self, times: int = 1) -> pd.DataFrame:
        """Column term, of a multinomial fit level and term: one row a coefficient, all of them so many times."""
        if not self.levels:
            return pd.DataFrame({"term": list(self.names) * times})
        k, terms = len(self.levels) - 1, list(self.design.names)
        at = np.tile(np.repeat(np.arange(1, k + 1), len(terms)), times)
        return pd.DataFrame({"level": pd.Index(self.levels).take(at), "term": terms * (k * times)})

    def flat(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table of :meth:`labels` and more under the coefficients' flat names, without its level."""
        times = len(table) // len(self.names)
        return table.drop(columns="level", errors="ignore").assign(term=list(self.names) * times)

    def places(self, given: Any, option: str = "cols") -> list[int]:
        """Positions of coefficients, each once, given by name, by (level, term), by position or by a term's name.

        Of a multinomial fit a name without a level stands for all levels. All if `given` is None.
        Raises OptionError if there are none, or one is no coefficient; the message calls them by their `option`.
        """
        names, width = list(self.names), len(self.design.names)
        if given is None:
            return list(range(len(names)))
        known = {name: list(range(j, len(names), width)) for j, name in enumerate(self.design.names) if self.levels}
        known = getattr(self, "of_terms", {}) | known | {name: [j] for j, name in enumerate(names)}
        listed, out = isinstance(given, list | tuple | range | np.ndarray | pd.Index), list[int]()
        must = f"{option} must name one coefficient or more of {', '.join(names)}, or be left out for all."
        for c in list(given) if listed and getattr(given, "shape", None) != () else [given]:
            whole = isinstance(c, int | np.integer) and not isinstance(c, bool) and -len(names) <= c < len(names)
            name = ":".join(map(str, c)) if isinstance(c, tuple) else c
            name = as_named(name, known) if isinstance(name, str) else name
            if listed and not whole and not (isinstance(name, str) and name in known):
                raise OptionError(must)  # a list may be a column by mistake, and is never shown
            out += [int(c) % len(names)] if whole else known[choose(option, name, known)]
        if not out:
            raise OptionError(must)
        return list(dict.fromkeys(out))


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Numbers of a fit, in the user's units: p coefficients, m points on the way."""

    params: Array  # Averaged iterates, shape (p,)
    last: Array  # Last iterate, shape (p,)
    estimates: tuple[Estimate, ...]  # One a method, the first by default; empty if no inference was asked for
    nobs: int  # People who sent a report
    senders: int  # People who sent a score that entered an update
    updates: int
    trail_n: NDArray[np.int64]  # People so far, shape (m,)
    trail_senders: NDArray[np.int64]  # Records whose score entered an update
    trail_params: Array  # Estimates on the way, shape (m, p)
    trail_variances: Array  # Their reported variances, NaN where not known
    measures: tuple[Measure, ...] = ()  # Privately released measures of fit
    spreads: Array | None = None  # Sds of the design's columns learned from reports; NaN if the scale was declared
    rounds: tuple[RoundHeld, ...] = ()  # Rounds of a fit by rounds
    steps: Later[Steps | None] = NO_STEPS  # Estimates along the stream, of which windows are made
    equation: Equation | None = None  # That the estimates solve


@dataclass(frozen=True, kw_only=True)
class ResultData(Fitted, Labelled):
    """Everything a result knows."""

    design: Any  # Public design, for predictions
    family: Family
    title: tuple[tuple[str, str], ...]  # Header entries, in order
    names: tuple[str, ...]  # The design's, or "level:term" for each level but the baseline, term by term
    statement: PrivacyStatement
    baseline: tuple[str, ...] = ()  # Levels of a multinomial response, the baseline first; empty for other families
    within: bool = False  # True if levels of persons were taken out, so that rows have changes, no predictions
    cuts: tuple[float, ...] = ()  # Public ends of intervals, of a fit of hazards; none of others
    # the reports that these results are made of, in this process: two results with the same origin are one release
    origin: object = field(default_factory=object, repr=False, compare=False)

    def refuse_levels(self, what: str, *, hazards: bool = True) -> None:
        """Refuse what needs the levels of persons that were taken out, or one response a record, not `hazards`."""
        wrong = {
            f"{what} is of one response a record, and this fit has hazards: res.predict(new) has survival curves, "
            "res.hazards(new) their limits, res.tidy(exponentiate=True) hazard ratios": self.cuts and hazards,
            f"{what} would need a person's level, which was taken out on the device and never learned; changes within "
            "a person have t_test(...), as in res.t_test('x1 - x2'); or leave '| person' out of the "
            "formula": self.within,
        }
        refuse(wrong, InferenceError)

    @property
    def levels(self) -> tuple[Any, ...]:
        """Declared levels of a multinomial response."""
        return tuple(self.design.endog_levels) if self.baseline else ()

    @property
    def classes(self) -> tuple[Any, ...]:
        """Levels that have a probability each: of a multinomial response, or in order; none for other families."""
        return self.levels if self.design.cuts is None else tuple(self.design.endog_levels)

    def predictors(self, x: Array, offset: Any = 0.0, params: Any = None) -> Array:
        """Linear predictors at rows `x`, shape (n, p): of shape (n, 1), of K classes (n, K − 1).

        Those of levels in order are x'β − κ at each cut point; a multinomial score knows no offset.
        """
        params = self.params if params is None else params
        if self.levels:
            return np.asarray(x @ params.reshape(len(self.levels) - 1, -1).T)
        eta = np.asarray(x @ params + offset)[:, None]
        return eta if self.design.cuts is None else eta + self.design.cuts @ params

    def slopes(self, x: Array) -> Array:
        """Rows without cut points between levels in order, shape (n, p)."""
        return x if self.design.cuts is None else np.where(self.design.constant == 0.0, x, 0.0)

    @cached_property
    def of_terms(self) -> dict[str, list[int]]:
        """Positions of each term's coefficients; of a multinomial fit of all levels together, and as "level:term".

        A column's name stands for the term that is this factor alone: "region" for "C(region)", and the reverse.
        """
        width, levels = len(self.design.names), self.baseline[1:]
        out: dict[str, list[int]] = {}
        for term in self.design.terms:
            out[term.name] = [k * width + j for k in range(max(len(levels), 1)) for j in term.columns]
            out |= {f"{level}:{term.name}": [k * width + j for j in term.columns] for k, level in enumerate(levels)}
        for term in (t for t in self.design.terms if t.levels):
            for name in (term.reads[0], f"C({term.reads[0]})"):
                out.setdefault(name, out[term.name])
        return out


BANDS: Final = ("anytime", "sandwich", "random_scaling", "between_lanes")
"""Methods whose variances a fit keeps along the way: of those that were asked for, the first here."""


def band(fit: ResultData, method: str | None = None) -> str | None:
    """Method whose band the way of a fit has; None if it has none.
    Raises InferenceError if `method` is another.
    """
    kept = bool(np.isfinite(fit.trail_variances).any())
    held = next((name for name in BANDS if kept and name in {e.method for e in fit.estimates}), None)
    if method is None or choose("method", method, METHODS) == held:
        return held
    has = f"this one has that of {held}" if held is not None else "this one has none"
    raise InferenceError(
        f"a fit keeps one band along the way, and {has}, not of {method}; it is that of anytime if it was asked for, "
        "else of sandwich, or of random_scaling with tuning='published'."
    )


RANK: Final = 1e-12  # Smallest singular value of a map, relative to the largest, with which it can be inverted
LARGEST: Final = 1e12  # Numbers of a target, relative to internal units, beyond which it is of no fit


@dataclass(frozen=True)
class Target:
    """Row map W and threshold c of an earlier fit, both functions of its reports and so public."""

    rows: tuple[tuple[float, ...], ...]  # W, internal units, in the engine's order of columns; shape (d, d)
    c: float | None  # c, internal units of the response; None if the score has none, or if it is declared
    reach: float | None = None  # For sums: length of W x from which on a record's weight falls

    @property
    def map(self) -> Array:
        """W; shape (d, d)."""
        return np.array(self.rows)

    def same(self, other: "Target | None") -> bool:
        """True if another one defines the same estimand."""
        if other is None or (self.c is None) != (other.c is None):
            return False
        near = self.c is None or bool(np.isclose(self.c, other.c or 0.0, rtol=1e-9, atol=0.0))
        return near and self.rows == other.rows and self.reach == other.reach

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, exact to the bit."""
        out = {"rows": [list(row) for row in self.rows], "c": self.c}
        return out if self.reach is None else out | {"reach": self.reach}

    @classmethod
    def from_json(cls, document: Any, columns: int) -> "Target | None":
        """Rebuild what `to_json` gave; a ValueError says that it is none of a design of so many columns."""
        if document is None:
            return None
        try:
            rows = np.array(document["rows"], dtype=np.float64)
            c, reach = (None if v is None else float(v) for v in (document["c"], document.get("reach")))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ValueError("no target") from None
        usable = rows.shape == (columns, columns) and 1.0 / LARGEST < np.abs(rows).max(initial=0.0) < LARGEST
        usable = usable and bool(np.linalg.cond(rows) < 1.0 / RANK) and (reach is None or 1.0 <= reach < LARGEST)
        if reach is None:
            usable = usable and bool((np.diag(rows) > 0.0).all()) and not np.triu(rows, 1).any()
        if not usable or not (c is None or 1.0 / LARGEST < c < LARGEST):
            raise ValueError("no target of this design")
        return cls(tuple(tuple(row) for row in rows.tolist()), c, reach)


def of_results(fit: ResultData) -> Target | None:
    """The target of results; None if they are of no fit by rounds of local reports, nor by sums."""
    equation = fit.equation
    if equation is None or not fit.rounds:
        return None
    d, reach = len(equation.order), None
    if len(equation.caps):  # of the last round, whose map is the estimate's
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reach = float(d / np.trace(equation.caps[-1]))
    if equation.rows.shape != (d, d) or equation.weighing not in {"unit", "leverage", "likelihood", "capped"}:
        return None
    # rounds with the same c count together, pilot rounds first: the last is that of main rounds
    learned = scoring_of(equation.shape[0]).cornered  # a quantile's c serves its density alone
    c = float(equation.c[-1]) * equation.y_scale if learned else None
    return Target(tuple(tuple(row) for row in equation.rows.tolist()), c, reach)
