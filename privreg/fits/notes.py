"""Notes of a fit on its results, made of its findings, in order. Reports only."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privreg.base.arrays import Array
from privreg.collector.covariates.moments import LARGE, SMALL, Bounded
from privreg.collector.plan import End
from privreg.families.measures import NORMAL_95
from privreg.formula.spec import ModelSpec
from privreg.results.statement import Unusable
from privreg.tables.diagnostics import Diagnostic, doubt, note

ALPHA: Final = 0.05  # Chance that any column is named though no share is above SMALL
HARM: Final = 0.5  # Standard errors by which clamping may move a coefficient: a 95% interval then covers 92%
FILLED: Final = 2.5  # Standard errors by which people must fill less than half of a report for a note
MANY_MORE: Final = 1.25
"""People, relative to those expected, from whom on a note says that pilots were short for them. With fewer, simulations
showed no loss of precision or coverage to speak of; with four times as many the rmse doubled."""
SOME_MORE: Final = 1.05
"""People, relative to those expected, from whom on a note says so if those beyond report measures of fit and no score,
so that each of them is lost."""


class Rare(NamedTuple):
    """Columns with rare values, by their places in the design."""

    columns: tuple[int, ...] = ()  # Columns whose rarest value is rare
    # Columns that compare levels one of which is rare, as the reference level may be; the constant alone, if no column
    # does
    compared: tuple[int, ...] = ()
    share: float = math.nan  # Share of the records with the rarest of those levels
    crossed: tuple[int, ...] = ()  # Products of such columns with numbers
    about: tuple[int, ...] = ()  # The constant and main slopes, if they hold at such a value


class Shares(NamedTuple):
    """Share of usable records clamped, by column."""

    columns: tuple[Bounded, ...]
    share: Array  # shape (D,)
    error: Array  # Standard errors; shape (D,)
    people: int  # Number asked

    @property
    def surely(self) -> Array:
        """Simultaneous 95% lower limits of the shares, shape (D,)."""
        return np.asarray(self.share - quantile(len(self.columns)) * self.error)

    @property
    def most(self) -> float:
        """Upper limit of the largest share; negative estimates count as 0."""
        return min(float((np.maximum(self.share, 0.0) + quantile(len(self.columns)) * self.error).max()), 1.0)

    @property
    def noted(self) -> list[int]:
        """Places of the columns whose lower limit exceeds `SMALL`."""
        return np.flatnonzero(self.surely > SMALL).tolist()


def harmed(shares: Shares, ratios: Array, together: Array) -> list[int]:
    """Coefficients that clamping moves, at 95%, by more than `HARM` of their standard errors.

    A clamped share π moves the slopes of normal covariates by about π of themselves, so by π |t| standard errors:
    exactly by −π where least squares are of a clamped response. Skewed numbers move them up to 6 times as far. A
    clamped covariate moves the slopes of others by at most ρ/(2 (1 − ρ²)) times that (`benchmarks.clamping`). `ratios`,
    shape (b, d), are t of slopes, 0 of constants; `together`, shape (d, d), sizes ρ of correlations of the design's
    columns, 1 with the constant.

    See Greene (1981), On the asymptotic bias of the ordinary least squares estimator of the Tobit model.
    """
    moved = np.zeros(len(together))
    for j in shares.noted:
        _, part, columns = shares.columns[j]
        harmful = list(columns) if part == "covariate" else list(range(len(together)))
        t = max(HARM / LARGE, float(np.abs(ratios[:, harmful]).max()))
        rho = together[harmful].max(axis=0)
        reach = np.minimum(0.5 * rho / np.maximum(1.0 - rho**2, 1e-300), 1.0)
        moved = np.maximum(moved, shares.surely[j] * t * reach)
    return np.flatnonzero(np.tile(moved, len(ratios)) > HARM).tolist()


def quantile(columns: int) -> float:
    """Normal quantile z of 95% intervals that hold for all columns together (Bonferroni)."""
    return float(-ndtri(0.5 * ALPHA / columns))


class Findings(NamedTuple):
    """Findings of a fit on its records and estimates: columns by their places inside. Reports only."""

    have: bool  # True if there are intervals
    people: int  # Records that have reported
    rows: int | None  # Records expected, if known
    constant: bool  # True if the first column is the constant
    shares: Array  # Share of the records with a column's rarest value, as far as reported; shape (d,)
    tied: NDArray[np.bool_]  # True if that share distinguishes it from other factors' columns; shape (d,)
    lost: Sequence[int] = ()  # Columns whose search for a scale did not converge
    rare: Rare = Rare()  # Columns about a value that too few records have
    bare: Sequence[int] = ()  # Coefficients, as the user has them, along which reports show hardly any curvature
    wide: Sequence[tuple[int, float]] = ()  # Columns with wide bounds, and the learned sd that these span
    empty: Sequence[End] = ()  # Bounds of splines' numbers that most records are too far from
    heaped: bool = False  # True if most residuals are at one point
    collinear: Mapping[int, Sequence[int]] = MappingProxyType({})  # Columns, with others that nearly add up to them
    nonresponse: bool = False  # True if most records seem to be noise only
    unanswered: Unusable | None = None  # Lower limit of the share of unusable records
    sent: str = "sent noise only"  # Conduct of unusable records, in words
    asked: int = 0  # Records whose reports show that share
    repeated: bool = False  # True if some may be unusable as further rows of one person
    within: bool = False  # True if a person needs rows that differ
    events: bool = False  # True if rows are times and events
    flat: bool = False  # True if the response hardly varies
    changing: bool = False  # True if estimates change over time
    ordered: bool = False  # True if records may have come in an order, by a factor say
    clamped: Shares | None = None  # Shares of clamped records
    harmed: Sequence[int] = ()  # Coefficients, as the user has them, that clamping moves too far
    at_limit: bool = False  # True if the estimate is at a public limit
    far: bool = False  # True if the estimate was held nearer to the states than reports said
    strong: float = 0.0  # Sd of the linear predictor above which effects are too strong, if they are
    imprecise: float = 0.0  # Sd of a linear predictor's error, if it is so large that curvature isn't known
    measures: bool = False  # True if measures of fit were asked for
    measuring: bool = False  # True if their round has begun
    early: Sequence[Diagnostic] = ()  # Why there are no intervals yet
    needed: float | None = None  # Records from which on intervals hold, if there were fewer
    summable: bool = False  # True if two collectors could fit the model, too

    @property
    def summed(self) -> list[int]:
        """Columns that are collinear, and those beside which they are."""
        return sorted({*self.collinear, *(k for others in self.collinear.values() for k in others)})

    @property
    def gone(self) -> bool:
        """True if nobody is left who could have a rare level."""
        return self.unanswered is not None and self.unanswered.gone


def notes(found: Findings, spec: ModelSpec, order: NDArray[np.intp], blocks: int) -> tuple[Diagnostic, ...]:
    """Return the notes on results of `blocks` linear predictors; `order`, shape (d,), has the columns inside."""

    def place(columns: Iterable[int]) -> list[int]:  # Positions of their coefficients, at every level
        return [b * len(order) + int(order[j]) for b in range(blocks) for j in columns]

    def called(columns: Iterable[int]) -> str:
        return listed(names[j] for j in columns)

    names, have = [*np.array(spec.design.names)[order].tolist(), spec.design.endog_name], found.have
    out = [note("lost", columns=called(found.lost))] if found.lost else []  # where bounds are wrong, others follow
    constant = [0] if found.constant else []
    if have and found.collinear:
        beside = listed(f"of {called([j])} beside {called(k)}" for j, k in found.collinear.items())
        out.append(note("collinear", place([*constant, *found.summed]), beside=beside))
    if have and found.empty:
        ends = {(end.name, "upper" if end.upper else "lower"): None for end in found.empty}
        at = {int(j) for end in found.empty for j in (*end.columns, *(constant if not end.upper else ()))}
        out.append(note("empty", place(sorted(at)), ends=listed(f"the {end} bound of {name}" for name, end in ends)))
    if have and found.wide:  # the constant stands for where these columns are 0, which is as little known
        js, spans = zip(*found.wide, strict=True)
        out.append(note("wide", place([*constant, *js]), columns=called(js), span=min(spans)))
    out += [note("flat")] if have and found.flat else []
    out += _of_clamping(found)
    out += [note("nonresponse.most")] if found.nonresponse else []
    out += _of_levels(found, place, called) if have else []
    bare = [j for j in found.bare if j not in place(found.summed)]  # of these is said why
    if have and bare and not found.gone:
        columns = called(j for j in range(len(found.shares)) if set(place([j])) & set(bare))
        out.append(note("curvature.line", bare, columns=columns))
    out += [note("changing")] if have and found.changing else []
    out += [note("heaped")] if found.heaped else []
    out += [note("limit")] if have and found.at_limit else []
    out += [note("moving.held")] if found.far else []
    if found.strong:
        out.append(note("strong", sd=found.strong))
    elif found.imprecise and found.needed is None:
        out.append(note("imprecise", sd=found.imprecise))
    rows, people = found.rows, found.people
    if found.measures and not found.measuring:
        out.append(note("later", expected=rows, people=people))
    if found.unanswered is not None:
        whose = f"the {found.asked:,} records of the first rounds" if found.asked else "the records"
        text = f"about {found.unanswered} of {whose} {found.sent}, by their reports: a value missing, no number or not "
        text += "among the declared levels, a term not finite"
        text += ", or a row beyond max_per_id" * found.repeated
        text += ", or fewer rows of a person than tell of changes" * found.within
        if found.unanswered.share <= 0.5:  # else declarations are what to see to first
            text += "; estimates are right if whether a record can be used depends on covariates alone"
        out += found.unanswered.noted(text, doubted=have and not found.nonresponse, events=found.events)
    if rows and found.measuring and people > SOME_MORE * rows:
        out.append(note("measured", expected=rows, people=people))
    elif rows and people > MANY_MORE * rows:
        out.append(note("more", expected=rows, people=people))
    out += found.early
    # of those, some say that more are wanted, and would make no number of it
    if have and not found.nonresponse and not found.strong and found.needed is not None:
        unit = 10.0 ** max(math.floor(math.log10(max(found.needed, 1.0))) - 1, 0)
        needed = math.ceil(math.ceil(found.needed / unit) * unit)  # to two digits
        more = ", and with trust='two_collectors' far fewer are enough, as noise falls on sums" * found.summable
        size = blocks * len(order)
        out.append(note("few.simulated", people=found.people, coefficients=size, needed=needed, more=more))
    return tuple(out)


def _of_levels(
    found: Findings, place: Callable[[Iterable[int]], list[int]], called: Callable[[Iterable[int]], str]
) -> list[Diagnostic]:
    rare, out = found.rare, list[Diagnostic]()
    together = [j for j in rare.columns if found.tied[j]]
    single = [j for j in rare.columns if not found.tied[j]]
    if together:
        at = place([*together, *(rare.crossed if not single else ())])
        out.append(note("confounded", at, columns=called(together)))
    # the first records, of which shares are learned, are not like the others, and a note says so
    if found.gone or not (single or rare.compared) or (found.ordered and found.changing):
        return out
    few = list[str]()
    if single:
        shares = listed(f"{100 * found.shares[j]:.2g}%" for j in single)
        few.append(f"the least frequent value of {called(single)} (about {shares}, by the noisy reports)")
    if rare.compared:
        compared = f"that the coefficients of {called(rare.compared)} depend on (about {100 * rare.share:.2g}%)"
        few.append(f"a level, such as the reference level, {compared}")
    first = "compare levels with a common one (the first in levels=, or that of Treatment()), " if rare.compared else ""
    if found.unanswered is not None and single:  # a level that is spelt otherwise in the data sends noise
        first = f"see that the declared levels match the data, {first}"
    if found.ordered:
        first = f"shuffle rows that are sorted by it, as they are taken in the order they come, {first}"
    at = place(sorted({*single, *rare.compared, *rare.crossed, *rare.about}))
    return [*out, note("rare", at, few=" or ".join(few), first=first)]


EFFECTS: Final = {
    "response": "slopes are drawn towards 0",
    "covariate": "the slope of a clamped covariate is too steep as a rule",
    "offset": "estimates are biased by what was cut off",
}
"""Effect of clamping on a fit, by the part of the model that is clamped."""


def _of_clamping(found: Findings) -> list[Diagnostic]:
    """Notes on columns whose clamped share exceeds `SMALL` at 95%."""
    shares = found.clamped
    if shares is None or not shares.noted:
        return []
    named = list[str]()
    for j in shares.noted:
        percent, half = 100.0 * float(shares.share[j]), 100.0 * NORMAL_95 * float(shares.error[j])
        verb = "of" if named else "bounds of"
        some = f"{'' if named else ' clamp'} {min(round(percent), 100)}% (± {max(round(half), 1)}%)"
        named.append(f"{verb} {shares.columns[j].name}{some}")
    parts = {shares.columns[j].part for j in shares.noted}
    effects = "; ".join(words for part, words in EFFECTS.items() if part in parts)
    text = f"{listed(named)} of records: {effects}; declare wider bounds="
    return [doubt("narrow", text, found.harmed, of="the results") if found.harmed else Diagnostic("clamping", text)]


def clamping_words(shares: Shares | None, where: str) -> str:
    """Words of the privacy statement on clamping, if some records are asked; `where` names the columns with bounds."""
    text = "values outside these bounds were clamped"
    if shares is None:
        return f"{text}; how many was not counted yet"
    most = 100.0 * shares.most
    said = f"surely at most {most:.2g}% of them in {where}" if most < 99.0 else f"too few to tell of {where}"
    if shares.noted:
        names = listed(shares.columns[j].name for j in shares.noted)
        said = f"surely more than {100.0 * SMALL:g}% of them in {names} (see the notes)"
    return f"{text}; counted, with noise, among {shares.people:,} records: {said}"


def listed(names: Iterable[str]) -> str:
    """Names of columns, or numbers of theirs, with commas and an "and"."""
    *first, last = [*names]
    return f"{', '.join(first)} and {last}" if first else last


def filled_note(k_max: int | None, filled: float, error: float) -> tuple[Diagnostic, ...]:
    """Note if people fill less than half of a report, beyond chance: its noise doesn't depend on that."""
    if filled + FILLED * error > 0.5:
        return ()
    what = "the largest weight" if k_max is None else f"k_max={k_max} rows"
    return (note("filled", filled=max(filled, 0.0), error=2.0 * error, what=what),)
