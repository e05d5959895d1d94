"""What a staged fit says of its own results: the notes that its findings make, in order. Reports only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from privreg.collector.diagonal import WIDE
from privreg.diagnostics import Diagnostic, doubt
from privreg.simulation.staged import beginning, findings, intervals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.inference.methods import Estimate
    from privreg.simulation.settings import Settings
    from privreg.simulation.staged.pipeline import Pipeline

__all__ = ["notes"]

MANY_MORE: Final = 1.25
"""People, relative to those expected, from whom on a note says that pilots were short for them. With fewer, simulations
showed no loss of precision or coverage to speak of; with four times as many the rmse doubled."""

SOME_MORE: Final = 1.05
"""The same where those who come late tell measures of fit and send no score, so that each of them is lost."""

MOST: Final = 0.9
"""Share of the records that sent noise only, above which results are not to be relied on."""

RARE: Final = 0.02
"""Public share of a level below which a wide design's intervals are taken back: with 200 and 500 levels they missed a
common error, that of the reference level, once the budget was so large that noise didn't hide it."""


class _Fit(NamedTuple):
    """A fit in progress, and what several notes go by."""

    run: Pipeline
    names: Sequence[str]
    place: Callable[[Iterable[int]], list[int]]  # Positions of the coefficients of columns, at every level
    have: bool  # Whether there are intervals
    nonresponse: bool  # Whether most people seem to have sent noise only
    unanswered: tuple[float, float] | None  # Share of the records that did, and its standard error
    strong: bool  # Whether effects seem too strong to tell how strong

    @property
    def gone(self) -> bool:
        """Whether nobody is left who could be of a rare level."""
        return self.unanswered is not None and self.unanswered[0] > MOST

    def called(self, columns: Iterable[int]) -> str:
        """Names of columns."""
        return _listed(self.names[j] for j in columns)


def notes(
    run: Pipeline, settings: Settings, names: Sequence[str], order: NDArray[np.intp], estimates: tuple[Estimate, ...]
) -> tuple[Diagnostic, ...]:
    """What weakens results; `order` as of :func:`privreg.simulation.assemble.report_of_pipeline`."""

    def place(columns: Iterable[int]) -> list[int]:
        return [b * len(order) + int(order[j]) for b in range(run.coefficients // len(order)) for j in columns]

    have, theta = bool(estimates), run.estimate()
    nonresponse, strong = have and findings.silent(run), False
    if have and not nonresponse and run.start.rules.from_predictor and theta is not None:
        strong = beginning.strength(run, theta) > beginning.FARTHEST
    fit = _Fit(run, names, place, have, nonresponse, findings.unanswered(run), strong)
    early = intervals.waiting(run, settings, estimates, findings.lead(run))
    return (*_of_wide_designs(fit), *_of_columns(fit), *_of_results(fit), *_of_records(fit), *early, *_of_few(fit))


def _of_wide_designs(fit: _Fit) -> list[Diagnostic]:
    """What a design of many coefficients does without."""
    wide = fit.run.start.wide
    if wide is None:
        return []
    text = (
        f"more than {WIDE} coefficients: no correlations of the covariates are learned, and the Newton step is "
        "diagonal; where columns are much correlated, estimates settle slowly and intervals can be too short: declare "
        "correlations in moments="
    )
    out = [Diagnostic("diagonal", text)]
    few = np.flatnonzero(np.nan_to_num(wide.shares, nan=1.0) < RARE).tolist()
    if fit.have and few:
        text = (
            f"{len(few)} columns stand for levels that about {100 * RARE:g}% of the people or fewer have, were levels "
            "equally frequent, and all are compared with one reference level that few have; merge levels"
        )
        out.append(doubt("levels", text, fit.place([*few, 0])))
    return out


def _of_columns(fit: _Fit) -> list[Diagnostic]:
    """Columns whose intervals are taken back; most records without a value come among them."""
    run, out = fit.run, list[Diagnostic]()
    lost = findings.lost(run)
    if lost:
        text = (
            f"the search for the scale of {fit.called(lost)} did not settle, as for a column that is the same for most "
            "people or varies little beside its distance from 0; declare bounds= or moments=, and levels= for a rare "
            "indicator"
        )
        out.append(doubt("lost", text))
    if fit.nonresponse:
        text = (
            "as far as the reports tell, most people sent noise only (a value missing or not declared, or more rows "
            "than max_per_id), or too few came for this budget; see that the declared levels match the data, leave out "
            "a column that most people lack, give fewer rows of each person, raise max_per_id= with a smaller budget, "
            "or ask more people"
        )
        out.append(doubt("nonresponse", text, of="the results"))
    return out + (_of_levels(fit) + _of_bounds(fit) if fit.have else [])


def _of_levels(fit: _Fit) -> list[Diagnostic]:
    run, out = fit.run, list[Diagnostic]()
    found = findings.rare(run)
    together = [j for j in found if run.tied[j]]
    if together:
        text = (
            "levels of two factors or more go together for nearly everybody: too few people at this budget seem to "
            f"tell {fit.called(together)} from the columns of other factors; leave out one of the factors, merge "
            "levels, or ask more people"
        )
        out.append(doubt("confounded", text, fit.place(together)))
    rare = [j for j in found if not run.tied[j] and not fit.gone]
    if rare:
        shares = _listed(f"{100 * run.shares[j]:.2g}%" for j in rare)
        text = (
            f"too few people at this budget seem to be in the smaller group of {fit.called(rare)} (some {shares}, as "
            "far as noisy reports tell); the interval of such a column is far too short and the others suffer: ask "
            "more people, merge levels, or leave it out"
        )
        out.append(doubt("rare", text, fit.place([*rare, *findings.reference_is_rare(run, rare)])))
    return out


def _of_bounds(fit: _Fit) -> list[Diagnostic]:
    wide = findings.wide(fit.run)
    if not wide:
        return []
    text = (
        f"the bounds of {fit.called(j for j, _ in wide)} span {min(span for _, span in wide):.0f} or more times the "
        "learned sd, as where nearly everybody has one value: clamped to one end of bounds= that are in other units or "
        "too narrow, a rare indicator (declare levels=), an amount that is mostly 0 (as in I(x > 0)); where rows are "
        "sorted by it (shuffle them); or where bounds= are far too wide"
    )
    # the constant stands for where these columns are 0, which is as little known
    constant = [0] if fit.run.start.layout.constant else []
    return [doubt("wide", text, fit.place([*constant, *(j for j, _ in wide)]))]


def _of_results(fit: _Fit) -> list[Diagnostic]:
    """Whatever takes all of the results back, but for their being few."""
    run, out = fit.run, list[Diagnostic]()
    if fit.have and findings.flat(run):
        text = (
            "the response hardly varies inside its declared range, as where everybody was clamped to one end of it; "
            "see that bounds= are those of the response, in its units"
        )
        out.append(doubt("flat", text, of="the results"))
    if fit.have and findings.changing(run):
        text = (
            "people who came first tell other coefficients than those after them. Rows are taken in the order they "
            "come: shuffle a file that is sorted, by its response above all; if effects change over time, fit the "
            "times one by one"
        )
        out.append(doubt("changing", text, of="the results"))
    if fit.have and findings.at_limit(run):
        text = (
            "the estimate lies at a public limit of the response, where the search ran out of people; ask more of "
            "them, or spend more"
        )
        out.append(doubt("limit", text, of="the interval"))
    if fit.strong:
        text = (
            f"effects seem so strong (the linear predictor's sd is above {beginning.FARTHEST:g}) that scores hardly "
            "tell how strong, or few people came and they are noise; predictions may serve, but coefficients may be "
            "far too large or small"
        )
        out.append(doubt("strong", text))
    return out


def _of_records(fit: _Fit) -> list[Diagnostic]:
    """Who came, and who had nothing to tell."""
    run, rules, rows = fit.run, fit.run.start.rules, fit.run.start.schedule.rows
    out = list[Diagnostic]()
    if run.start.told and run.kind != "measures":
        text = (
            f"no measures of fit yet: they come from the last people of rows={rows:,}, and {run.people:,} have reported"
        )
        out.append(Diagnostic("later", text))
    if fit.unanswered is not None:
        out.append(_unusable(fit, *fit.unanswered))
    elif fit.have and run.start.nonresponse and not (rules.track or rules.counting or run.scatter.asked):
        text = (
            "if many rows beyond max_per_id came, intervals are too short by about as much: with a declared residual "
            "scale their share is not learned; leave scale= out"
        )
        out.append(Diagnostic("excess", text))
    if rows and run.kind == "measures" and run.people > SOME_MORE * rows:
        text = (
            f"rows={rows:,} was said and {run.people:,} people came: those beyond told measures of fit and sent no "
            "score, so estimates are no more precise for them; give rows= as it is"
        )
        out.append(Diagnostic("measured", text))
    elif rows and run.people > MANY_MORE * rows:
        text = (
            f"rows={rows:,} was said and {run.people:,} people came, so the pilots were short for them; give rows= as "
            "it is, or leave it out"
        )
        out.append(doubt("more", text))
    return out


def _unusable(fit: _Fit, share: float, error: float) -> Diagnostic:
    percent = min(round(100 * share), 100)
    text = (
        f"about {percent}% (± {max(2 * round(100 * error), 1)}%) of the records sent noise only, as far as reports "
        "tell: a value missing, no number or not among the declared levels, a term not finite"
        + (", or a row beyond max_per_id" if fit.run.start.nonresponse else "")
        + (
            "; see that the declared levels match the data, and that texts have levels="
            if percent > 50
            else "; estimates are right if whether a record can be used depends on covariates alone"
        )
    )
    if fit.have and fit.gone and not fit.nonresponse:
        return doubt("nonresponse", text, of="the results")
    return Diagnostic("unusable", text)


def _of_few(fit: _Fit) -> list[Diagnostic]:
    run, schedule, lead = fit.run, fit.run.start.schedule, findings.lead(fit.run)
    if not fit.have or fit.nonresponse or fit.strong:  # these say that more are wanted, and would make no number of it
        return []
    relied = findings.relied(run)  # people whom intervals need, relative to the schedule's rule
    needs = relied / run.worth
    if schedule.enough(int((run.people - lead) / needs), run.coefficients):
        return []
    told = "effects, correlations and silent people" if fit.unanswered is not None else "effects and correlations"
    text = (
        f"{run.people:,} people are few for {run.coefficients} coefficients at this budget; in simulations coverage "
        f"fell below its level with fewer than about {_rounded_up(schedule.wanted(run.coefficients) * needs + lead):,}"
        + (f", given what reports tell of {told}" if relied > 1.0 else "")
    )
    return [doubt("few", text)]


def _listed(names: Iterable[str]) -> str:
    """Names of columns, or numbers of theirs, with commas and an "and"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _rounded_up(people: float) -> int:
    """To two digits."""
    unit = 10.0 ** max(math.floor(math.log10(max(people, 1.0))) - 1, 0)
    return math.ceil(math.ceil(people / unit) * unit)
