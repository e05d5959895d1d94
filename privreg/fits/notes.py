"""Notes of a fit on its results, made of its findings, in order. Reports only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.arrays import Array
from privreg.collector.clamping import SMALL, Shares
from privreg.collector.covariates.rarity import Rare
from privreg.collector.levels import SHOWN
from privreg.collector.plan import End
from privreg.diagnostics import Diagnostic, doubt
from privreg.families.measures import NORMAL_95
from privreg.results.wording import Unusable

MANY_MORE: Final = 1.25
"""People, relative to those expected, from whom on a note says that pilots were short for them. With fewer, simulations
showed no loss of precision or coverage to speak of; with four times as many the rmse doubled."""

SOME_MORE: Final = 1.05
"""People, relative to those expected, from whom on a note says so if those beyond report measures of fit and no score,
so that each of them is lost."""


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
    flat: bool = False  # True if the response hardly varies
    changing: bool = False  # True if estimates change over time
    ordered: bool = False  # True if records may have come in an order, by a factor say
    clamped: Shares | None = None  # Shares of clamped records
    harmed: Sequence[int] = ()  # Coefficients, as the user has them, that clamping moves too far
    at_limit: bool = False  # True if the estimate is at a public limit
    strong: float = 0.0  # Sd of the linear predictor above which effects are too strong, if they are
    imprecise: float = 0.0  # Sd of a linear predictor's error, if it is so large that curvature isn't known
    measures: bool = False  # True if measures of fit were asked for
    measuring: bool = False  # True if their round has begun
    early: Sequence[Diagnostic] = ()  # Why there are no intervals yet
    needed: float | None = None  # Records from which on intervals hold, if there were fewer

    @property
    def summed(self) -> list[int]:
        """Columns that are collinear, and those beside which they are."""
        return sorted({*self.collinear, *(k for others in self.collinear.values() for k in others)})

    @property
    def gone(self) -> bool:
        """True if nobody is left who could have a rare level."""
        return self.unanswered is not None and self.unanswered.gone


class _Fit(NamedTuple):
    found: Findings
    names: Sequence[str]
    place: Callable[[Iterable[int]], list[int]]  # Positions of the coefficients of columns, at every level

    def called(self, columns: Iterable[int]) -> str:
        """Names of columns."""
        return _listed(self.names[j] for j in columns)


def notes(found: Findings, names: Sequence[str], order: NDArray[np.intp], blocks: int) -> tuple[Diagnostic, ...]:
    """Return the notes on results of `blocks` linear predictors.

    `names` are columns inside, and the response; `order`, shape (d,), are places of those columns in the design.
    """

    def place(columns: Iterable[int]) -> list[int]:
        return [b * len(order) + int(order[j]) for b in range(blocks) for j in columns]

    fit = _Fit(found, names, place)
    # bounds first: where they are wrong, the others follow
    return (
        *(*_of_declarations(fit), *_of_clamping(found), *_of_columns(fit), *_of_results(found)),
        *(*_of_records(found), *found.early, *_of_few(found, blocks * len(order))),
    )


def _of_declarations(fit: _Fit) -> list[Diagnostic]:
    """Notes on bounds that don't fit the values, and on scales that were not found."""
    found, out = fit.found, list[Diagnostic]()
    if found.lost:
        text = (
            f"the search for the scale of {fit.called(found.lost)} did not converge, as for a column that is the same "
            "for most records or varies little beside its distance from 0; declare bounds= or moments=, and levels= "
            "for a rare indicator"
        )
        out.append(doubt("lost", text))
    out += _of_bounds(fit) if found.have else []
    if found.have and found.flat:
        text = (
            "the response hardly varies inside its declared range, as where all were clamped to one end of it; "
            "see that bounds= are those of the response, in its units"
        )
        out.append(doubt("flat", text, of="the results"))
    return out


def _of_columns(fit: _Fit) -> list[Diagnostic]:
    """Notes that mark columns' intervals as unreliable, that on nonresponse of most records among them."""
    found, out = fit.found, list[Diagnostic]()
    if found.nonresponse:
        text = (
            "by the reports, most records sent noise only (a value missing or not declared, or more rows than "
            "max_per_id), or there are too few for this budget; see that the declared levels match the data and dates "
            "have dates as bounds, leave out a column that most records lack, give fewer rows of each person, raise "
            "max_per_id= with a smaller budget, or ask more people"
        )
        out.append(doubt("nonresponse", text, of="the results"))
    return out + (_of_levels(fit) + _of_curvature(fit) if found.have else [])


def _of_levels(fit: _Fit) -> list[Diagnostic]:
    found, out = fit.found, list[Diagnostic]()
    rare = found.rare
    together = [j for j in rare.columns if found.tied[j]]
    own = [j for j in rare.columns if not found.tied[j]]
    if together:
        text = (
            "levels of two factors or more go together in nearly all records: at this budget too few seem to "
            f"distinguish {fit.called(together)} from the columns of other factors; leave out one of the factors, "
            "merge levels, or ask more people"
        )
        out.append(doubt("confounded", text, fit.place([*together, *(rare.crossed if not own else ())])))
    # the first records, of which shares are learned, are not like the others, and a note says so
    if found.gone or not (own or rare.compared) or (found.ordered and found.changing):
        return out
    few = list[str]()
    if own:
        shares = _listed(f"{100 * found.shares[j]:.2g}%" for j in own)
        few.append(f"the least frequent value of {fit.called(own)} (about {shares}, by the noisy reports)")
    if rare.compared:
        compared = f"that the coefficients of {fit.called(rare.compared)} depend on (about {100 * rare.share:.2g}%)"
        few.append(f"a level, such as the reference level, {compared}")
    first = "compare levels with a common one (the first in levels=, or that of Treatment()), " if rare.compared else ""
    if found.unanswered is not None and own:  # a level that is spelt otherwise in the data sends noise
        first = f"see that the declared levels match the data, {first}"
    if found.ordered:
        first = f"shuffle rows that are sorted by it, as they are taken in the order they come, {first}"
    text = (
        f"too few records at this budget seem to have {' or '.join(few)}; the interval of such a column can be far too "
        f"short, and the others suffer: {first}ask more people, merge levels, or leave it out"
    )
    out.append(doubt("rare", text, fit.place(sorted({*own, *rare.compared, *rare.crossed, *rare.about}))))
    return out


def _of_curvature(fit: _Fit) -> list[Diagnostic]:
    bare = [j for j in fit.found.bare if j not in fit.place(fit.found.summed)]  # of these is said why
    if not bare or fit.found.gone:
        return []
    columns = [j for j in range(len(fit.found.shares)) if set(fit.place([j])) & set(bare)]
    text = (
        f"the reports suggest that few responses lie near the model's line along {fit.called(columns)}, or that the "
        "fit had not converged there: a group's responses may differ in ways that the model leaves out, too few "
        "records may have some of its values, or noise alone may look so; the interval of such a coefficient can be "
        "far too short: add what is missing (an interaction, a curve), or ask more people"
    )
    return [doubt("curvature", text, bare)]


def _of_bounds(fit: _Fit) -> list[Diagnostic]:
    wide, collinear, out = fit.found.wide, fit.found.collinear, list[Diagnostic]()
    constant = [0] if fit.found.constant else []
    if collinear:
        beside = _listed(f"of {fit.called([j])} beside {fit.called(k)}" for j, k in collinear.items())
        text = (
            f"columns are collinear: by the reports hardly anything is left {beside}; leave one out, or subtract the "
            "middle before a power, as in I((x - 50)**2)"
        )
        out.append(doubt("collinear", text, fit.place([*constant, *fit.found.summed])))
    if fit.found.empty:
        ends = {(end.name, "upper" if end.upper else "lower"): None for end in fit.found.empty}
        rows = {int(j) for end in fit.found.empty for j in (*end.columns, *(constant if not end.upper else ()))}
        text = (
            f"hardly any records seem to be near {_listed(f'the {bound} bound of {name}' for name, bound in ends)}, to "
            "which a spline reaches: some of its coefficients stand for what is there; give narrower bounds "
            "(lower_bound= and upper_bound= of the spline, bounds= of the number), fewer knots, or a straight line"
        )
        out.append(doubt("empty", text, fit.place(sorted(rows))))
    if not wide:
        return out
    text = (
        f"the bounds of {fit.called(j for j, _ in wide)} span {min(span for _, span in wide):.0f} or more times the "
        "learned sd, given the other columns: nearly all values lie together, and few or none far from them. Of a "
        "skewed amount use np.log1p(x), with I(x > 0) if it is mostly 0; of a rare 0/1 declare levels=; else see that "
        "bounds= are in the units of the values and not far too wide, and that rows are not sorted by it"
    )
    # the constant stands for where these columns are 0, which is as little known
    return [*out, doubt("wide", text, fit.place([*constant, *(j for j, _ in wide)]))]


def _of_results(found: Findings) -> list[Diagnostic]:
    """Notes that mark all results as unreliable, but that on few records."""
    out = list[Diagnostic]()
    if found.have and found.changing:
        text = (
            "the first records give other coefficients than the later ones. Rows are taken in the order they "
            "come: shuffle rows that are sorted, by a factor or by the response; if effects change over time, "
            "windows(by=...) has them"
        )
        out.append(doubt("changing", text, of="the results"))
    if found.heaped:
        text = (
            "most residuals seem to be at one point, as of amounts that are mostly 0: with the threshold that was "
            "learned the estimate is nearer to a conditional median than to a mean. Use Poisson(y_max=...) for counts, "
            "Logistic() for whether there is any, Squared() or Expectile(0.5) for means, at the price of noise in "
            "proportion to the bounds of the response or of longer intervals, or a wider threshold, "
            "Huber(1.345, scale=...)"
        )
        out.append(Diagnostic("heaped", text))
    if found.have and found.at_limit:
        text = (
            "the estimate lies at a public limit of the response, where the search ran out of records; ask more "
            "people, or spend more"
        )
        out.append(doubt("limit", text, of="the interval"))
    if found.strong:
        text = (
            f"effects seem so strong (the linear predictor's sd is above {found.strong:g}) that scores hardly "
            "show how strong, or there are few records and they are noise; predictions may serve, but coefficients "
            "may be far too large or small"
        )
        out.append(doubt("strong", text))
    elif found.imprecise and found.needed is None:
        text = (
            f"linear predictors are known to ± {found.imprecise:.2g} only along a direction of the covariates (the sd "
            "of their error), and what reports tell of coefficients depends on them: intervals may be far too short or "
            "too long; ask more people, spend more, leave out a column that hardly varies, or declare a smaller y_max= "
            "of counts, or Poisson(y_max, c=1.5) if their variance is their mean"
        )
        out.append(doubt("imprecise", text))
    return out


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
    text = f"{_listed(named)} of records: {effects}; declare wider bounds="
    return [doubt("narrow", text, found.harmed, of="the results") if found.harmed else Diagnostic("clamping", text)]


def clamping_words(shares: Shares | None, where: str) -> str:
    """Words of the privacy statement on clamping, if some records are asked; `where` names the columns with bounds."""
    text = "values outside these bounds were clamped"
    if shares is None:
        return f"{text}; how many was not counted yet"
    most = 100.0 * shares.most
    said = f"surely at most {most:.2g}% of them in {where}" if most < 99.0 else f"too few to tell of {where}"
    if shares.noted:
        names = _listed(shares.columns[j].name for j in shares.noted)
        said = f"surely more than {100.0 * SMALL:g}% of them in {names} (see the notes)"
    return f"{text}; counted by the reports of {shares.people:,} records: {said}"


def _of_records(found: Findings) -> list[Diagnostic]:
    """Notes on numbers of records: those expected, those who came, and the unusable ones."""
    rows, people, out = found.rows, found.people, list[Diagnostic]()
    if found.measures and not found.measuring:
        text = f"no measures of fit yet: they come from the last records of rows={rows:,}, and {people:,} have reported"
        out.append(Diagnostic("later", text))
    if found.unanswered is not None:
        out += _unusable(found, found.unanswered)
    if rows and found.measuring and people > SOME_MORE * rows:
        text = (
            f"rows={rows:,} was said and {people:,} records came: those beyond answered measures of fit and sent no "
            "score, so estimates are no more precise for them; give rows= as it is"
        )
        out.append(Diagnostic("measured", text))
    elif rows and people > MANY_MORE * rows:
        text = (
            f"rows={rows:,} was said and {people:,} records came, so the pilots were short for them; give rows= as it "
            "is, or leave it out"
        )
        out.append(doubt("more", text))
    return out


def _unusable(found: Findings, share: Unusable) -> tuple[Diagnostic, ...]:
    whose = f"the {found.asked:,} records of the first rounds" if found.asked else "the records"
    text = (
        f"about {share} of {whose} {found.sent}, by their "
        "reports: a value missing, no number or not among the declared levels, a term not finite"
        + (", or a row beyond max_per_id" if found.repeated else "")
        + (", or fewer rows of a person than tell of changes" if found.within else "")
    )
    if share.share <= 0.5:  # else declarations are what to see to first
        text += "; estimates are right if whether a record can be used depends on covariates alone"
    return share.noted(text, doubted=found.have and not found.nonresponse)


def _of_few(found: Findings, coefficients: int) -> list[Diagnostic]:
    # of those, some say that more are wanted, and would make no number of it
    if not found.have or found.nonresponse or found.strong or found.needed is None:
        return []
    text = (
        f"{found.people:,} records are few for {coefficients} coefficients at this budget; no simulations tell of "
        f"coverage with fewer than about {_rounded_up(found.needed):,}"
    )
    return [doubt("few", text)]


def _listed(names: Iterable[str]) -> str:
    """Names of columns, or numbers of theirs, with commas and an "and"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _rounded_up(people: float) -> int:
    """Round up to two digits."""
    unit = 10.0 ** max(math.floor(math.log10(max(people, 1.0))) - 1, 0)
    return math.ceil(math.ceil(people / unit) * unit)


def unweighted(times: float) -> Diagnostic:
    """Note on the cost of scores without weights: `times` the people."""
    text = (
        "scores have no weights, so that coefficients are those of the loss itself, as glm() has them, on records "
        f"within their bounds; the same standard errors take about {times:.2g} times the people that weights need"
    )
    return Diagnostic("unweighted", text)


def filled_note(k_max: int | None, filled: float, error: float) -> tuple[Diagnostic, ...]:
    """Note if people fill less than half of a report, beyond chance: its noise doesn't depend on that."""
    if filled + SHOWN * error > 0.5:
        return ()
    what = "the largest weight" if k_max is None else f"k_max={k_max} rows"
    text = (
        f"people fill about {max(filled, 0.0):.0%} (± {2.0 * error:.0%}) of a report of {what}, and noise relative to "
        "scores is larger by as much: a smaller k_max, or bounds of weights that clamp the largest, may be more precise"
    )
    return (Diagnostic("filled", text),)
