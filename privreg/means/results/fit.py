"""Data of results of means, their form in files, and normal limits."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base import archive
from privreg.base.arrays import Array
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import Normal
from privreg.errors import interval_level
from privreg.means.terms import Followed, Term, between, crossed, from_json, places
from privreg.means.verification import trials
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame, Labelled
from privreg.results.statement import PrivacyStatement
from privreg.tables import Paragraph, Part, Table, View, cells, marked, noted, plain
from privreg.tables.diagnostics import Diagnostic


def limits(estimate: Any, error: Any, alpha: float, low: Any = -math.inf, high: Any = math.inf) -> dict[str, Any]:
    """Normal confidence limits within what is possible, by the columns of tables that hold them."""
    half = Normal().critical(interval_level(alpha)) * error
    return {name: np.clip(estimate + side * half, low, high) for name, side in (("conf_low", -1), ("conf_high", 1))}


NONE_BELOW: Final = "Noise may make numbers of people negative: they are shown as 0."
STEP: Final = 1e-200  # Imaginary part of a share by which a derivative is taken: too small to round anything


class Moved:
    """Numbers made of shares p with covariance V: their values f(p), and J V J', J their exact derivatives.

    Each derivative is Im f(p + ih e)/h, which loses no digits (Squire and Trapp 1998, SIAM Review 40, 110-112).
    """

    def __init__(self, f: Callable[[Any], Any], shares: Array, cov: Array) -> None:
        steps = 1j * STEP * np.eye(shares.size).reshape(-1, *shares.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.values = np.asarray(f(shares[None].astype(np.complex128)).real[0])
            slopes = f(shares + steps).imag / STEP
        self.slopes = np.nan_to_num(slopes.reshape(shares.size, -1).T)  # shape (numbers, shares)
        self.cov = self.slopes @ cov @ self.slopes.T
        self.errors = np.where(np.isnan(self.values), np.nan, self.deviations(cov))

    def deviations(self, cov: Array) -> Array:
        """Standard deviations of the numbers by a covariance of the shares, of the shape of the values."""
        variances = ((self.slopes @ cov) * self.slopes).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(variances, 0.0)).reshape(self.values.shape))


@dataclass(frozen=True)
class MeansFit(Labelled):
    """Everything a result knows of p estimates of t terms and g public subgroups."""

    terms: tuple[Term, ...]
    params: Array  # Shape (p,)
    cov: Array  # About the means of the population that the people were drawn from, shape (p, p)
    nobs: int  # People who sent a report
    by: str | None  # Column of public subgroups
    groups: tuple[str, ...]
    group_people: tuple[int, ...]  # People of each, which is public
    group_params: Array  # Shape (g, p); NaN where a subgroup had too few people, as in `group_variances`
    group_variances: Array
    group_reliable: NDArray[np.bool_]  # True if a subgroup's estimate may be relied on, shape (g, p)
    group_tests: Array  # Statistic and degrees of freedom of tests that subgroups are alike, shape (t, 2)
    moments: Array  # Shape (1 + g, 5, p), see `collector.moments`
    # Shares without a usable value and their errors, of everybody, then of subgroups, shape (1 + g, t, 2); NaN where it
    # isn't asked
    missing: Array
    header: tuple[tuple[str, str], ...]
    statement: PrivacyStatement

    names: tuple[str, ...] = field(init=False)  # Names of the estimates
    firsts: list[int] = field(init=False)  # Position of each term's first estimate, and then how many there are

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(name for term in self.terms for name in term.names))
        object.__setattr__(self, "firsts", places(self.terms))

    @property
    def ends(self) -> tuple[Array, Array]:
        """Lowest and highest possible value of each estimate, shapes (p,)."""
        return self.centres - self.halves, self.centres + self.halves

    @property
    def centres(self) -> Array:
        """Middle of each estimate's public range, shape (p,); shrinking takes estimates towards it."""
        return self.each([term.middle for term in self.terms])

    @property
    def halves(self) -> Array:
        """Half the length of each estimate's public range, shape (p,)."""
        return self.each([term.half for term in self.terms])

    def each(self, values: Any, axis: int = 0) -> Array:
        """Values of terms, repeated along an axis for each of their estimates."""
        return np.repeat(np.asarray(values), np.diff(self.firsts), axis=axis)

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The one way to their precision: the variance of the reports as they came."""
        return (Estimate("reports", self.cov, Normal()),)

    @property
    def cells(self) -> frozenset[int]:
        """Positions of the shares that survival curves are made of."""
        held = zip(self.terms, pairwise(self.firsts), strict=True)
        return frozenset(k for term, ends in held if isinstance(term, Followed) for k in range(*ends))


@dataclass(frozen=True, repr=False)
class ChiSquareTest(View):
    """Test by a χ² distribution, the limit for many people, noise accounted for."""

    statistic: float
    df: int
    pvalue: float
    of: str  # Hypothesis that it is about
    notes: tuple[Diagnostic, ...]  # Whatever takes the test back
    frame: pd.DataFrame | None = None  # Observed and expected events by group, of a log-rank test

    @property
    def words(self) -> str:
        """The test in one line."""
        p = "< 0.001" if self.pvalue < 0.0005 else f"{self.pvalue:.3f}"  # which nan isn't
        degrees = "degree" if self.df == 1 else "degrees"
        return f"chi-square {self.statistic:.4g} with {self.df} {degrees} of freedom, p-value {p}"

    def _layout(self) -> list[Part]:
        shown, below = list[Part](), list[Part]()
        if self.frame is not None:
            rows = [[f"{o:.1f}", f"{e:.1f}"] for o, e in np.maximum(self.frame.to_numpy(), 0.0)]
            names, title = self.frame.index.tolist(), f"Events by {plain(str(self.frame.index.name))}"
            shown, negative = [Table(names, ("observed", "expected"), rows, title)], (self.frame < 0.0).any(axis=None)
            below = [Paragraph(NONE_BELOW)] * bool(negative)
        return [*shown, Paragraph(f"{self.of}, noise accounted for: {self.words}"), *below, *noted(self.notes)]


@dataclass(frozen=True, repr=False)
class Shares(View):
    """Shares of a term's levels, of which tables and curves are made."""

    term: Term
    estimates: Array  # Unbiased, shape (k,): noise may take one below 0
    cov: Array  # Covariance of sampling and noise, shape (k, k)
    nobs: int  # Records, whose number is public
    privacy: PrivacyStatement  # The release that they are of
    doubts: tuple[Diagnostic, ...]  # Whatever takes some share back
    missing: float  # Share of the records without a usable value; NaN where it isn't asked
    missing_error: float  # Its standard error

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """Whatever takes the view back."""
        return self.doubts

    @property
    def people(self) -> float:
        """Records with usable values, noised."""
        return self.nobs * (1.0 - float(np.nan_to_num(self.missing)))

    @property
    def footer(self) -> str:
        """Records, and what the releases from them cost."""
        return f"{self.nobs:,} records; {self.privacy.headline}."


def _shapes(p: int, g: int, t: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of p estimates of t terms and g subgroups."""
    every = {"params": (p,), "cov": (p, p), "group_tests": (t, 2), "moments": (1 + g, 5, p), "missing": (1 + g, t, 2)}
    return every | dict.fromkeys(("group_params", "group_variances", "group_reliable"), (g, p))


def parts(f: MeansFit) -> tuple[dict[str, Any], dict[str, Any]]:
    """Contents of a file: a document and arrays."""
    document = {name: getattr(f, name) for name in ("names", "by", "groups", "header")}
    document |= {"terms": [term.to_json() for term in f.terms], "statement": f.statement.to_json()}
    return document | {"counts": [f.nobs, *f.group_people]}, {name: getattr(f, name) for name in _shapes(0, 0, 0)}


def restored(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> MeansFit:
    """Rebuild what :func:`parts` made.
    Raises ValueError if its parts don't fit each other.
    """
    if "terms" not in document:
        document, arrays = _today(document, arrays)
    terms, groups = tuple(from_json(*one) for one in document["terms"]), tuple(map(str, document["groups"]))
    setting = document["statement"].get("setting", "means")
    stated = PrivacyStatement.from_json(document["statement"], setting=setting, neighbours=trials)
    shapes = _shapes(p := places(terms)[-1], len(groups), len(terms))
    nobs, *people = (int(v) for v in document["counts"])
    fit = MeansFit(
        terms=terms,
        by=None if document["by"] is None else str(document["by"]),
        groups=groups,
        nobs=nobs,
        group_people=tuple(people),
        header=tuple((str(a), str(b)) for a, b in document["header"]),
        statement=stated,
        **{name: arrays[name] for name in shapes},
    )
    archive.expect(
        fit.names == tuple(document["names"]),
        len(people) == len(groups),
        *(arrays[k].shape == shape for k, shape in shapes.items()),
        *(arrays[k].dtype.kind == ("b" if k == "group_reliable" else "f") for k in shapes),
        *(not note.rows or note.rows[-1] < p for note in stated.doubts),
    )
    return fit


def _today(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A document and arrays of an earlier version, with names of estimates in place of terms, in today's form.
    Raises ValueError if the arrays don't fit each other.
    """
    names, g = list(map(str, document["names"])), len(document["groups"])
    variables = [(str(v), list(map(str, levels))) for v, levels in document.get("variables", ())]
    if not variables:  # of version 0.1: neighbours with one name before the bracket are of a factor
        found = groupby(names, lambda n: n.partition("[")[0] if n.endswith("]") else n)
        variables = [(head, [n[len(head) + 1 : -1] for n in group if n != head]) for head, group in found]
    p, t, sizes = len(names), len(variables), [max(len(levels), 1) for _, levels in variables]
    middles, halves = (arrays[k] for k in ("centres", "halves"))
    archive.expect(middles.shape == halves.shape == (p,), p == sum(sizes))
    curves: dict[str, list[float]] = {}  # cut points of times, by column
    for _, time, cuts, _, _, _, _, *start in document.get("curves", ()):
        curves |= {str(column): list(map(float, cuts)) for column in (time, *start) if column}
    classes = {int(k): (str(column), list(map(float, ends))) for column, k, ends in document.get("cuts", ())}
    products = {int(k) for *_, k in document.get("products", ())}
    tables, terms = {int(k) for k, *_ in document.get("tables", ())}, list[Term]()
    for (name, levels), (k, end) in zip(variables, pairwise(np.cumsum([0, *sizes]).tolist()), strict=True):
        low, high = middles[k] - halves[k], middles[k] + halves[k]
        if k in classes:
            column, ends = classes[k]
            terms.append(between(Term(column, ends[0], ends[-1]), ends))
        elif k in products:  # columns and the middles of their ranges
            of = re.findall(r"\((.+?) - (-?[\d.]+(?:e[+-]?\d+)?)\)", names[k])
            half, of = math.sqrt(high), of * (3 - len(of))
            numbers = tuple(Term(c, float(middle) - half, float(middle) + half) for c, middle in of)
            terms.append(Term(name, low, high, parts=numbers))
        elif k in tables or name.startswith("Surv("):
            each = [re.findall(r"(?:^|(?<=\]:))(.+?)\[(.*?)\](?=:|$)", n) for n in names[k:end]]
            parts = list[Term]()
            for made in zip(*each, strict=True):
                column, labels = made[0][0], list(dict.fromkeys(level for _, level in made))
                if (known := curves.get(column)) is None:
                    parts.append(Term(column, levels=tuple(labels)))
                    continue
                entry = [0.0] * (len(labels) > len(known) + 1)  # of entry, of which time 0 is a class
                whole = Term(column, 0.0, 2.0 * known[-1])
                classes_of = between(whole, [0.0, *entry, *known, whole.high], upper=True)
                parts.append(replace(classes_of, levels=tuple(labels)))  # the last one's end is not kept
            terms.append(crossed(name, tuple(parts)))
        else:
            terms.append(Term(name, levels=tuple(levels)) if levels else Term(name, low, high))
    held = {"group_reliable": np.full((g, p), not document["statement"].get("notes"))}
    held |= {"group_tests": np.full((t, 2), np.nan), "missing": np.full((1 + g, t, 2), np.nan)}
    held |= {**arrays, "moments": np.full((1 + g, 5, p), np.nan)}
    if "moments" in arrays and "sds" in arrays:  # subgroups' mean squares, but for noise, follow from their sds
        held["moments"][0] = arrays["moments"]
        held["moments"][1:, 0] = arrays["sds"][1:] ** 2 + (arrays["group_params"] - middles) ** 2
        held["moments"][1:, 1] = 0.0
    return {**document, "terms": [term.to_json() for term in terms]}, held


class Seconds(NamedTuple):
    """Means and mean squares of k numbers about the middles of their ranges, and q mean products of two of them."""

    at: dict[str, int]  # Places of the means among the estimates, by column
    pairs: dict[tuple[str, ...], int]  # Places of the products
    values: Array  # Means, squares, products, what noise of the means adds to these taken out; shape (2k + q,)
    cov: Array  # Their covariance; with noise on sums that of the noise
    people: Array  # People by whose number sampling goes, by estimate; inf where `cov` holds it; shape (p,)

    def variances(self, t: Any) -> Any:
        """Variances by such values, NaN where noise leaves no positive one; shape (…, k)."""
        k = len(self.at)
        found = t[..., k : 2 * k] - t[..., :k] ** 2
        return np.where(found.real > 0.0, found, np.nan)


def seconds(f: MeansFit) -> Seconds:
    """Second moments of numbers that were released."""
    held = list(zip(f.terms, f.firsts, strict=False))
    products = {t.columns: k for t, k in held if t.is_product}
    noise, summed = f.moments[0], bool(np.isfinite(f.moments[0]).any())
    at = {t.column: k for t, k in held if not t.levels and not t.parts and (summed or (t.column,) * 2 in products)}
    pairs = {pair: k for pair, k in products.items() if pair[0] != pair[1] and at.keys() >= set(pair)}
    one, both = list(at.values()), list(pairs.values())
    means = f.params[one] - f.centres[one]
    if summed:
        cov = np.diag(np.concatenate([noise[1, one], noise[2, one], noise[1, both]]))
        here = np.arange(len(one))
        cov[here, here + len(one)] = cov[here + len(one), here] = noise[3, one]
        values = np.concatenate([means, noise[0, one] + noise[1, one], f.params[both]])
        return Seconds(at, pairs, values, cov, f.nobs * noise[4])
    squares = [products[name, name] for name in at]
    shared = np.array([f.cov[at[a], at[b]] for a, b in pairs])
    values = np.concatenate([means, f.params[squares] + np.diag(f.cov)[one], f.params[both] + shared])
    places = [*one, *squares, *both]
    return Seconds(at, pairs, values, f.cov[np.ix_(places, places)], np.full(len(f.params), np.inf))


@all_known_arguments
@dataclass(frozen=True, repr=False)
class Correlations(View):
    """Correlations of pairs of numbers. Made by :meth:`MeansResults.corr`."""

    pairs: tuple[tuple[str, ...], ...]
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
        out = pd.DataFrame(np.where(np.eye(len(names)) == 1.0, 1.0, np.nan), names, names)
        for (a, b), r in zip(self.pairs, self.estimate, strict=True):
            out.loc[a, b] = out.loc[b, a] = r
        return out

    def frame(self) -> pd.DataFrame:
        """One pair, "a:b", a row: estimate, std_error, statistic, p_value (of no correlation), conf_low, conf_high,
        reliable.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            z, se = np.arctanh(self.estimate), self.error / (1.0 - self.estimate**2)
            columns: dict[str, Any] = {"estimate": self.estimate, "std_error": self.error, "statistic": z / se}
            columns |= {"p_value": Normal().two_sided(z / se)}
            columns |= {name: np.tanh(limit) for name, limit in limits(z, se, self.alpha).items()}
        index = pd.Index([":".join(pair) for pair in self.pairs], name="pair")
        return Frame(columns | {"reliable": self.reliable}, index=index)

    def _layout(self) -> list[Part]:
        frame = self.frame()
        head, rows = cells(frame.drop(columns="reliable"), self.alpha)
        below = f"Limits by Fisher's transformation, noise accounted for; {self.guarantee}."
        none = "\nThere is none where noise left no positive variance, or a correlation beyond 1: more people or budget"
        below += f"{none} are needed." if np.isnan(self.error).any() else ""
        table = Table(marked(frame.index, frame["reliable"]), head, rows, "Correlations")
        return [table, Paragraph(below), *noted(self.notes)]
