"""Data of results of means, their form in files, and normal limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag

from privreg.base import archive
from privreg.base.arrays import Array
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import Normal
from privreg.errors import interval_level
from privreg.means.verification import trials
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame, Labelled
from privreg.results.statement import PrivacyStatement
from privreg.tables import Paragraph, Part, Table, View, cells, marked, noted
from privreg.tables.diagnostics import Diagnostic


def p_words(p: float) -> str:
    """A p-value in three decimals."""
    return f"{p:.3f}" if p >= 0.0005 else "< 0.001"


def limits(estimate: Any, error: Any, alpha: float) -> dict[str, Any]:
    """Normal confidence limits, by the columns of tables that hold them."""
    half = Normal().critical(interval_level(alpha)) * error
    return {"conf_low": estimate - half, "conf_high": estimate + half}


class Curves(NamedTuple):
    """Shares that survival curves are made of, by group, entry, time and event: where the first is, and names."""

    first: int
    time: str
    cuts: tuple[float, ...]
    event: str
    events: tuple[str, ...]  # Levels, the first of those who are censored
    group: str  # "" without one
    groups: tuple[str, ...]
    start: str = ""  # Column of the time of entry, "" without one

    @property
    def name(self) -> str:
        """Name of the variable."""
        return f"Surv({f'{self.start}, ' * bool(self.start)}{self.time}, {self.event})"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Groups, classes of entry (time 0, and those of time), classes of time, and events."""
        return len(self.groups), len(self.cuts) + 2 if self.start else 1, len(self.cuts) + 1, len(self.events)

    @property
    def here(self) -> slice:
        """Positions of the shares."""
        return slice(self.first, self.first + int(np.prod(self.shape)))


@dataclass(frozen=True)
class MeansFit(Labelled):
    """Everything a result knows."""

    names: tuple[str, ...]  # Names of the estimates: columns, and column[level]
    centres: Array  # Middle of each one's public range, shape (p,); shrinking takes estimates towards it
    halves: Array  # Half the range's length, shape (p,)
    params: Array
    cov: Array  # About the means of the population that the people were drawn from, shape (p, p)
    nobs: int  # People who sent a report
    by: str | None  # Column of public subgroups
    groups: tuple[str, ...]
    group_people: tuple[int, ...]  # People of each, which is public
    group_params: Array  # Shape (g, p); NaN where a subgroup had too few people, as in `group_variances`
    group_variances: Array
    header: tuple[tuple[str, str], ...]
    biased: bool  # True if the mechanism is a biased one, so that the estimates are not means
    statement: PrivacyStatement
    group_reliable: NDArray[np.bool_]  # True if a subgroup's estimate may be relied on, shape (g, p)
    # Two-way tables among the estimates: where the first cell is, row, its levels, column, its levels
    tables: tuple[tuple[int, str, tuple[str, ...], str, tuple[str, ...]], ...] = ()
    variables: tuple[tuple[str, tuple[str, ...]], ...] = ()  # Variables: columns, with levels
    # Standard deviations of numbers, of everybody, then of subgroups, shape (1 + g, p); NaN with local noise
    sds: Array = field(default_factory=lambda: np.zeros((0, 0)))
    group_tests: Array = field(
        default_factory=lambda: np.zeros((0, 2))
    )  # Statistic and degrees of freedom, by variable
    moments: Array = field(default_factory=lambda: np.zeros((5, 0)))  # See `collector.moments`
    products: tuple[tuple[str, str, int], ...] = ()  # Numbers multiplied, and where among the estimates
    # Shares without a usable value and their errors, of everybody, then of subgroups, by variable, shape (1 + g, t, 2);
    # NaN where it isn't asked
    missing: Array = field(default_factory=lambda: np.zeros((0, 0, 2)))
    cuts: tuple[tuple[str, int, tuple[float, ...]], ...] = ()  # Numbers in classes, where these are, and between what
    curves: tuple[Curves, ...] = ()

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The one way to their precision: the variance of the reports as they came."""
        return (Estimate("reports", self.cov, Normal()),)

    @property
    def widths(self) -> list[int]:
        """Estimates of each variable."""
        return [max(len(levels), 1) for _, levels in self.variables]

    @property
    def lost(self) -> Array:
        """Shares without a usable value, of everybody, then of subgroups, by estimate; shape (1 + g, p)."""
        return np.repeat(self.missing[:, :, 0], self.widths, axis=1)

    def doubts(self, at: slice) -> tuple[Diagnostic, ...]:
        """Whatever takes back some estimate at these positions."""
        rows = set(range(at.start, at.stop))
        return tuple(n for n in self.statement.doubts if not n.rows or set(n.rows) & rows)


# --- files -----------------------------------------------------------------------------------------------

_PLAIN: Final = ("names", "by", "groups", "header", "biased", "tables", "products", "cuts", "variables", "curves")
_NEWER: Final = ("sds", "group_tests", "moments", "missing")  # Arrays that older files don't have


def _shapes(p: int, g: int, t: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of p estimates of t variables and g subgroups."""
    alone = dict.fromkeys(("centres", "halves", "params"), (p,))
    every = {"cov": (p, p), "group_params": (g, p), "group_variances": (g, p)}
    return {**alone, **every, "sds": (1 + g, p), "group_tests": (t, 2), "moments": (5, p), "missing": (1 + g, t, 2)}


def parts(f: MeansFit) -> tuple[dict[str, Any], dict[str, Any]]:
    """Contents of a file: a document and arrays."""
    document = {name: getattr(f, name) for name in _PLAIN}
    document |= {"counts": [f.nobs, *f.group_people], "statement": f.statement.to_json()}
    return document, {name: getattr(f, name) for name in (*_shapes(0, 0, 0), "group_reliable")}


def restored(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> MeansFit:
    """Rebuild what :func:`parts` made.
    Raises ValueError if the arrays don't fit each other.
    """
    names, groups = tuple(map(str, document["names"])), tuple(map(str, document["groups"]))
    variables = tuple((str(name), tuple(map(str, levels))) for name, levels in document.get("variables", ()))
    p, g, t = len(names), len(groups), len(variables)
    shapes = {k: shape for k, shape in _shapes(p, g, t).items() if t or k not in _NEWER}
    held = {k: arrays.get(k, np.full(shape, np.nan)) if k in _NEWER else arrays[k] for k, shape in shapes.items()}
    archive.expect(*(held[k].shape == shape and held[k].dtype.kind == "f" for k, shape in shapes.items()))
    setting = document["statement"].get("setting", "means")
    stated = PrivacyStatement.from_json(document["statement"], setting=setting, neighbours=trials)
    reliable = arrays.get("group_reliable", np.full((g, p), not stated.doubts))  # older files don't have it
    tables = tuple((int(k), str(r), tuple(a), str(c), tuple(b)) for k, r, a, c, b in document.get("tables", ()))
    products = tuple((str(a), str(b), int(k)) for a, b, k in document.get("products", ()))
    cuts = tuple((str(c), int(k), tuple(map(float, e))) for c, k, e in document.get("cuts", ()))
    curves = tuple(
        Curves(int(k), str(t), tuple(map(float, c)), str(e), tuple(map(str, v)), str(g), tuple(map(str, w)), *more)
        for k, t, c, e, v, g, w, *more in document.get("curves", ())
    )
    nobs, *people = (int(v) for v in document["counts"])
    archive.expect(
        len(people) == g,
        reliable.shape == (g, p) and reliable.dtype.kind == "b",
        not t or sum(max(len(levels), 1) for _, levels in variables) == p,
        *(not note.rows or note.rows[-1] < p for note in stated.doubts),
        *(k >= 0 and k + len(a) * len(b) <= p for k, _, a, _, b in tables),
        *(0 <= k < p for *_, k in products),
        *(k >= 0 and k + len(e) - 1 <= p and len(e) > 2 for _, k, e in cuts),
        *(c.first >= 0 and c.here.stop <= p and min(c.shape) >= 1 and c.shape[3] >= 2 for c in curves),
    )
    return MeansFit(
        names=names,
        by=None if document["by"] is None else str(document["by"]),
        groups=groups,
        nobs=nobs,
        group_people=tuple(people),
        header=tuple((str(a), str(b)) for a, b in document["header"]),
        biased=bool(document["biased"]),
        statement=stated,
        group_reliable=reliable,
        tables=tables,
        products=products,
        cuts=cuts,
        curves=curves,
        variables=variables,
        **held,
    )


# --- numbers that follow from released means ------------------------------------------------------


class _Number(NamedTuple):
    """A number about the middle of its range: its mean and mean square, and where both are among the estimates."""

    at: int
    square_at: int | None  # None where squares were released beside the mean
    mean: float
    square: float

    @property
    def variance(self) -> float:
        return self.square - self.mean**2


def numbers(f: MeansFit) -> dict[str, _Number]:
    """Numbers of which mean and square were released, by column."""
    firsts = np.cumsum([0, *f.widths])
    means = {name: int(k) for (name, levels), k in zip(f.variables, firsts, strict=False) if not levels}
    squares, taken = {a: k for a, b, k in f.products if a == b}, {k for *_, k in f.products}
    out = {}
    for name, at in means.items():
        if at in taken:
            continue
        mean = float(f.params[at] - f.centres[at])
        if at < f.moments.shape[1] and math.isfinite(f.moments[0, at]):
            # noise of the mean makes its square too large, on average by its variance
            out[name] = _Number(at, None, mean, float(f.moments[0, at] + f.moments[1, at]))
        elif name in squares:
            out[name] = _Number(at, squares[name], mean, float(f.params[squares[name]] + f.cov[at, at]))
    return out


def covariance(f: MeansFit, numbers: Sequence[_Number], *products: int) -> Array:
    """Covariance of each number's mean and square, and of products: all of it, or with noise on sums the noise's."""
    if numbers[0].square_at is not None:
        places: list[Any] = [*(k for one in numbers for k in (one.at, one.square_at)), *products]
        return f.cov[np.ix_(places, places)]
    each = [f.moments[[[1, 3], [3, 2]], one.at] for one in numbers]
    return np.asarray(block_diag(*each, *(f.moments[1, k] for k in products)), dtype=np.float64)


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Correlations(View):
    """Correlations of pairs of numbers. Made by :meth:`MeansResults.corr`."""

    pairs: tuple[tuple[str, str], ...]
    estimate: Array  # Shape (q,); NaN where noise has made a variance negative
    error: Array  # Shape (q,)
    reliable: NDArray[np.bool_]
    alpha: float
    guarantee: str
    notes: tuple[Diagnostic, ...] = ()

    @property
    def matrix(self) -> pd.DataFrame:
        """Correlations, columns by columns; NaN of pairs whose product was not released."""
        names = list(dict.fromkeys(name for pair in self.pairs for name in pair))
        out = pd.DataFrame(np.eye(len(names)) + np.where(np.eye(len(names)) == 1.0, 0.0, np.nan), names, names)
        for (a, b), r in zip(self.pairs, self.estimate, strict=True):
            out.loc[a, b] = out.loc[b, a] = r
        return out

    def frame(self) -> pd.DataFrame:
        """One pair a row: estimate, std_error, statistic, p_value (of no correlation), conf_low, conf_high, reliable.

        Index: "a:b".
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            z, se = np.arctanh(self.estimate), self.error / (1.0 - self.estimate**2)
            columns: dict[str, Any] = {"estimate": self.estimate, "std_error": self.error, "statistic": z / se}
            columns |= {"p_value": Normal().two_sided(z / se)}
            columns |= {name: np.tanh(limit) for name, limit in limits(z, se, self.alpha).items()}
            columns["reliable"] = self.reliable
        return Frame(columns, index=pd.Index([":".join(pair) for pair in self.pairs], name="pair"))

    def _layout(self) -> list[Part]:
        frame = self.frame()
        head, rows = cells(frame.drop(columns="reliable"), self.alpha)
        below = f"Limits by Fisher's transformation, noise accounted for. {self.guarantee}."
        if np.isnan(self.error).any():
            below += "\nThere is none where noise left no positive variance, or a correlation beyond 1: more people or"
            below += " budget are needed."
        table = Table(marked(frame.index, frame["reliable"]), head, rows, "Correlations")
        return [table, Paragraph(below), *noted(self.notes)]
