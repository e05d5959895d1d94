"""Public specification of a model before a fit is tuned: design, units, family, budget and the user's options."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.aggregate.plan import Noise
from privreg.collector.covariates.moments import Bounded
from privreg.collector.estimation.curvature import MOST
from privreg.collector.inference.methods import local_groups, summed_groups
from privreg.data.participants import DIFFERENCES, WITHIN, Participants
from privreg.data.sources.open import SILO, Silos, Source, open_table
from privreg.data.sources.source import by_person
from privreg.errors import BudgetError, OptionError, PrivregError, SchemaError, UnsupportedArgumentError, refuse
from privreg.families import Logistic
from privreg.families.family import Family
from privreg.families.hazards import AT_RISK
from privreg.formula.design import Design
from privreg.formula.persons import refuse_local_hazards, refuse_of_persons, with_effect
from privreg.formula.units import Units, public_units
from privreg.options.table import check
from privreg.options.unknown import not_fitted
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism, resolve_mechanism
from privreg.protocol.plans import Persons
from privreg.protocol.sums import MOST_NUMBERS, width
from privreg.schema.declarations import EPOCH_TEXT, Schema

UNUSABLE: Final = {
    "noise": "records with a value missing, unreadable or not declared, or a term not finite; they {}",
    "raise": "such records are refused by an error (see the notes)",
    "drop": "such records send nothing (see the notes)",
}
"""Treatment of unusable records, in words, by `missing=`."""

LEAST_MU: Final = {"two_collectors": 1e-9, "central": 1e-4, "silos": 1e-4}
"""Least μ: with less, or with less in one round of many, noise would not be small beside 2⁶⁴."""

NOISE: Final = {"two_collectors": Noise(), "central": Noise(1, again=True), "silos": Noise(1, again=True)}
"""Noise of sums by trust model."""

CLAMPING: Final = ("clamping", "values outside these bounds were clamped; how many was not counted")
"""Note of a summary if bounds are declared and nobody was asked about them."""


@dataclass(frozen=True)
class ModelSpec:
    """Public specification of a model, fixed before a fit is tuned."""

    design: Design
    units: Units
    family: Family
    budget: Budget
    score_weights: str | None = None
    mechanism: str = "auto"  # Option of the user
    private: str = "record"  # "record" or "response"
    # Declarations about the people behind the rows
    people: Participants = field(default_factory=Participants.declare)
    trust: str = "local"  # "local", "two_collectors", "central" or "silos"
    silos: tuple[str, ...] = ()  # Their names
    sizes: tuple[int, ...] = ()  # Records of each silo in proportion, as a plan assumes them; equal ones if empty

    @classmethod
    def declare(
        cls,
        design: Design,
        family: Family,
        budget: Budget,
        score_weights: Any,
        mechanism: Any,
        private: Any,
        people: Participants,
        trust: str = "local",
        *silos: Any,
    ) -> "ModelSpec":
        """Check the options and choose units; `silos` are their names and sizes.
        Raises OptionError if an option is not among its choices, or does not go with another; SchemaError if the
        response has no public scale, or not the limits its family needs.
        """
        for name, value in {"score_weights": score_weights, "mechanism": mechanism, "private": private}.items():
            check("local.formula", name, value)
        added = design.offset is not None or design.exposure is not None
        wrong = {
            "with private='response' covariates are public, so that everybody knows whose row is one too many: id= "
            "goes with private='record'; leave further rows of a person out": (
                private == "response" and people.id is not None
            ),
            "offset= and exposure= go with one linear predictor, and a multinomial fit has one for each level but the "
            "first; leave them out": family.response == "levels" and added,
            f"exposure= is what counts are relative to: it goes with Poisson(), and the family is {family!r}; give "
            "offset= the column that is to be added": design.exposure is not None and family.link != "log",
        }
        refuse(wrong, OptionError)
        family.scoring.refuse(family, design.endog_limits, design.endog_name)
        refuse_of_persons(people, family, design, public_units(design, scale_response=family.scaled), trust, private)
        if people.effect is not None and family.binary:
            # the conditional logit is of changes, however that is written: they are as large as bounds are apart
            people = replace(people, effect=DIFFERENCES)
        units = units_of(design, family, people)
        mechanism = "gaussian" if trust != "local" and mechanism == "auto" else mechanism
        spec = cls(design, units, family, budget, score_weights, mechanism, private, people, trust, *silos)
        names, scalar = spec.coefficients, spec.scalar
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise SchemaError(
                f"two coefficients would be named {twice!r}, from levels and terms that read alike; rename a level."
            )
        if people.followed is not None and trust == "local":
            refuse_local_hazards(people.followed, len(names), budget.mu)
        if spec.summed:
            refuse_of_sums(spec)
            if trust != "central" or people.followed is not None:  # a curator's tuning tells whether there are sums
                refuse_what_sums_cannot(spec)
        elif unheard := family.scoring.unlocal(len(names), budget.mu, spec.classes):
            raise UnsupportedArgumentError(f"with trust='local' {unheard}.")
        if spec.unweighted:
            refuse_likelihood(spec)
        if mechanism != "auto":  # found anew by the tuning; here so that what can't be is refused before there are data
            spec.mechanism_for(1 if scalar else len(names), scalar=scalar)
        return spec

    @property
    def nonresponse(self) -> bool:
        """True if it is declared that some people send noise only, as further rows of one person."""
        return self.people.id is not None and self.people.k_max is None

    @property
    def unusable(self) -> bool:
        """True if people may send noise only, for unusable values or as further rows of one person."""
        return self.people.missing == "noise" or self.nonresponse

    @property
    def alone(self) -> bool:
        """True if a row has the response alone: a declared intercept, read from no column, and no offset."""
        design = self.design
        return len(design.names) == 1 and not design.sources[0] and design.offset is None and design.exposure is None

    @property
    def added(self) -> tuple[tuple[str, str], ...]:
        """Offset and exposure, for headers: each a title and words."""
        said = {"Offset": self.design.offset, "Exposure": self.design.exposure and f"log({self.design.exposure})"}
        return tuple((title, words) for title, words in said.items() if words is not None)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read: the design's, then those about people."""
        read = (*self.design.columns, *self.people.columns)
        read = read if self.people.followed is None else self.people.followed.read(read)
        return (*(c for c in read if c != SILO), SILO) if self.silos else read

    @property
    def clamps(self) -> tuple[Bounded, ...]:
        """Bounded private columns of the model, of which records may report whether they were clamped."""
        design, schema = self.design, self.design.schema
        parts = response = dict.fromkeys(design.endog_sources, "response")
        if not self.scalar:
            parts = dict.fromkeys(design.columns, "offset") | dict.fromkeys(self._made_of, "covariate") | response
        left = {*schema.levels, *(response if self.family.scoring.censored else ()), AT_RISK}
        made = {n: tuple(j for j, made_of in enumerate(design.sources) if n in made_of) for n in parts if n not in left}
        ends = {n: schema.limits(n) for n in made}
        return tuple(Bounded(n, parts[n], j) for n, j in made.items() if -np.inf < ends[n][0] < ends[n][1] < np.inf)

    @property
    def _made_of(self) -> dict[str, None]:
        """Columns that the design's are made of."""
        return dict.fromkeys(name for made_of in self.design.sources for name in made_of)

    @property
    def baseline(self) -> tuple[str, ...]:
        """Names of a multinomial response's levels, the first being the baseline; none for other families."""
        levels = self.design.endog_levels if self.family.response == "levels" else None
        return () if levels is None else tuple(str(v) for v in levels)

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Names of the coefficients: the design's, for each level but the first of a multinomial response."""
        names = tuple(self.design.names)
        return tuple(f"{level}:{n}" for level in self.baseline[1:] for n in names) if self.baseline else names

    @property
    def classes(self) -> int:
        """Levels of the response, 2 where it has none."""
        return len(self.baseline) or self.cut_points + 1

    @property
    def cut_points(self) -> int:
        """Rows of the engine that a record is: of levels in order one at each cut point between them."""
        return 1 if self.design.cuts is None else len(self.design.cuts)

    @property
    def cuts(self) -> Array | None:
        """A record's rows at each cut point less that at the first, internal units, shape (K − 1, p)."""
        return None if self.design.cuts is None else self.design.cuts @ self.units.matrix

    @property
    def scored(self) -> Family:
        """The family whose score is reported: two levels leave one linear predictor, with the logistic score."""
        return Logistic() if self.family.scoring.multiple and self.classes == 2 else self.family

    @property
    def covariates(self) -> int:
        """Columns of the design."""
        return len(self.design.names)

    @property
    def blocks(self) -> int:
        """Linear predictors of a record."""
        return self.classes - 1 if self.scored.scoring.multiple else 1

    @property
    def scalar(self) -> bool:
        """True if a report is one number: of one linear predictor, and covariates are public or a row has none.
        Raises OptionError if only one number may be randomised, and it would be several.
        """
        if self.blocks > 1 and self.private == "response":
            raise OptionError(
                "private='response' randomises one number, and a multinomial score has one for each level but the "
                "first; use private='record', or Logistic() for each level."
            )
        return self.blocks == 1 and (self.private == "response" or (self.alone and not self.people.gathered))

    @property
    def persons(self) -> Persons | None:
        """Rule by which rows of a person become one report; None if a report is of one row that counts whole."""
        people = self.people
        if not (people.gathered or self.cuts is not None):
            return None
        # a weight that follows other rows' covariates needs errors that don't: true within a person, not of levels
        one = self.summed or people.effect is not None
        if people.followed is not None:
            return Persons(people.rows, True, False, 1, tuple(np.diff(people.followed.edges).tolist()))
        return Persons(people.reports * self.cut_points, people.per_person == "mean", one, self.cut_points)

    @property
    def summed(self) -> bool:
        """True if noise is added to sums of reports: of two collectors, of a curator or of silos."""
        return self.trust != "local"

    @property
    def holders(self) -> str:
        """Holders of the sums, in words."""
        known = {"local": "people", "two_collectors": "two collectors", "central": "a curator", "silos": "silos"}
        return known[self.trust]

    @property
    def summable(self) -> bool:
        """True if two collectors could fit the model, with far fewer people than local reports need."""
        other = replace(self, trust="two_collectors")
        try:
            refuse_of_sums(other)
            refuse_what_sums_cannot(other)
        except PrivregError:
            return False
        return True

    @property
    def noise(self) -> Noise:
        """Noise of the sums, whose silos' records aren't known."""
        return NOISE.get(self.trust, Noise())

    def shared(self, rows: int) -> tuple[int, ...]:
        """Records of each silo, if all of them hold so many and their number alone is known."""
        parts = np.array(self.sizes or [1] * len(self.silos), dtype=np.float64)
        edges = np.rint(rows * np.cumsum(parts) / max(parts.sum(), 1.0)).astype(np.int64)
        return tuple(int(n) for n in np.maximum(np.diff(edges, prepend=0), 1))

    @property
    def unweighted(self) -> bool:
        """True if all rows have equal weights in scores, as in a likelihood."""
        return self.score_weights == "likelihood"

    @property
    def unbalanced(self) -> bool:
        """True if scores are those of the likelihood up to weights of rows, for counts too."""
        return self.unweighted or (self.trust != "local" and self.scored.link == "log")

    @property
    def clusters(self) -> int:
        """Clusters of people that are declared; 0 if people are independent."""
        return 0 if self.people.cluster is None else len(self.design.schema.levels[self.people.cluster])

    @property
    def response_limits(self) -> tuple[float, float]:
        """Public limits of the response, internal units."""
        if self.cuts is not None:
            return 0.0, 1.0
        low, high = (float(v) for v in self.units.response_inside(np.array(self.design.endog_limits)))
        if self.people.effect is not None and self.family.scaled:
            high = (high - low + _offset_range(self.design) / self.units.y_scale) * self.people.spread
            low = -high
        return low, high

    @property
    def scale_declared(self) -> bool:
        """True if mean and sd of every covariate are declared, and their correlations."""
        schema = self.design.schema
        numbers = [n for n in self._made_of if schema.is_number(n)]
        # sds alone spare few reports on moments: correlations are still to be learned
        return all(n in schema.moments for n in numbers) and (len(numbers) < 2 or bool(schema.correlations))

    @property
    def personal(self) -> bool:
        """True if records have personal budgets."""
        return self.people.mu is not None

    def mechanism_for(self, size: int, *, scalar: bool) -> Mechanism:
        """Mechanism for score reports of `size` numbers."""
        return resolve_mechanism(self.mechanism, self.budget, size=size, scalar=scalar, personal=self.personal)

    def open(self, data: Any) -> Source:
        """Source of a table's rows; see `open_table`."""
        if isinstance(data, Silos):
            return data.open(self.open, self.columns)
        people, columns = self.people, self.columns[: len(self.columns) - bool(self.silos)]  # `SILO` is the last
        source = open_table(data, columns, self.design.schema, text=people.text)
        return source if people.k_max is None else by_person(source, str(people.id), gaps=people.missing != "raise")

    @property
    def formula(self) -> str:
        """Formula, or the names of an array model."""
        design = self.design
        return with_effect(design.formula or f"{design.endog_name} ~ {' + '.join(design.names)}", self.people)

    def counted(self, people: int) -> str:
        """Number of people, and of their rows that count, in words."""
        who = self.people
        how = {None: "", WITHIN: "; within person", DIFFERENCES: "; differences within person"}[who.effect]
        return f"{people:,}" if who.k_max is None else f"{people:,} people, up to {who.k_max:,} rows each{how}"

    def estimand(self, target: str = "") -> str:
        """Estimand of the coefficients, in words; `target` if more is known of it than the family says."""
        people = self.people
        level = "" if people.effect is None else "; of rows without their person's level"
        weight = "" if people.weight is None else f"; people weighted by {people.weight}"
        words = target or self.family.estimand
        return f"{words.replace('weighted ', '') if self.unweighted else words}{level}{weight}"

    def declared(self, instead: str = "send noise only") -> tuple[tuple[str, str], ...]:
        """Public declarations by column, in words; `instead` says what unusable records do."""
        people, schema, out = self.people, self.design.schema, []
        columns, followed = list(self.design.columns), people.followed
        if self.summed:
            instead = "count for nothing" + ", and neither collector sees which" * (not self.noise.again)
        if followed is not None:
            late = "" if followed.start is None else f", from {followed.start} on"
            at_risk = f"time at risk{late}, up to {followed.cuts[-1]:g}; constant hazards in intervals"
            out.append((followed.time, at_risk))
            columns = [followed.event] * (followed.event in schema.levels) + [c for c in columns if c != AT_RISK]
        for name in columns:
            taken, parts = " TAKEN FROM THE DATA (see the notes)" * (name in schema.leaked_columns), []
            if name in schema.levels:
                parts = ["levels " + ", ".join(map(str, schema.levels[name])) + taken]
            elif name in schema.private:
                parts = ["nothing; location and scale learned from privatised reports"]
            elif taken:
                parts = [f"mean and sd{taken}"]
            else:
                if np.isfinite(schema.limits(name)[0]):
                    parts.append("bounds {} to {}".format(*schema.bounds_text(name)))
                if name in schema.dates:
                    per = "in days" if name in self.design.endog_sources else "per day"
                    parts.append(f"read as days since {EPOCH_TEXT}, so coefficients are {per}")
                if name in schema.moments:
                    parts.append("mean {:g}, sd {:g}".format(*schema.moments[name]))
                pairs = {b if name == a else a: rho for (a, b), rho in schema.correlations.items() if name in (a, b)}
                parts += [f"correlation {rho:g} with {other}" for other, rho in pairs.items()]
            out += [(name, "; ".join(parts))] if parts else []
        out += schema.source_words(self.design.columns)
        if any(np.isfinite(schema.limits(name)[0]) for name in self.design.columns if name not in schema.levels):
            out.append(CLAMPING)
        if people.mu is not None:
            unit = people.spent + (f", with delta {people.delta:g}" if people.delta else "")
            out.append((people.mu, f"personal budgets, {unit}, at most {people.mu_max:g}; public"))
        if people.k_max is not None:
            text = "sum of rows" if people.per_person == "sum" else "mean over own rows"
            out.append((people.id or "", f"identifies people; up to {people.k_max:,} rows make one report ({text})"))
        elif people.id is not None:
            rows = "one row of each counts" if people.max_per_id == 1 else f"{people.max_per_id:,} rows of each count"
            out.append((people.id, f"identifies people; {rows}, further ones {instead}"))
        if people.cluster is not None:
            groups = summed_groups(self.clusters) if self.summed else local_groups(self.clusters)
            each = "all people of one in one of these, or of lanes="
            if self.summed:
                each = f"each with a sum of its own, so that the noise of all has {groups} times its variance"
            words = f"{self.clusters:,} clusters of people in {groups} random groups ({each}); public"
            out.append((people.cluster, words))
        if people.weight is not None:
            out.append((people.weight, "weights of reports, relative to the largest; not public"))
        left = "rows with a value missing, unreadable or not declared, or a term not finite; left out of their person"
        words = UNUSABLE[people.missing].format(instead)
        out.append(("unusable", left if people.k_max is not None and people.missing == "noise" else words))
        return tuple(out)


def units_of(design: Design, family: Family, people: Participants | None) -> Units:
    """Internal units of reported rows, or of rows without their person's level."""
    units = public_units(design, scale_response=family.scaled)
    if people is None or people.effect is None:
        return units
    # centres are 0, sizes are as large as bounds are apart, of a response with those of its offset; the constant stays
    varies = units.constant == 0.0
    none, wide = np.zeros(len(varies)), 2.0 * people.spread
    mix = None if units.mix is None else np.where(np.outer(varies, varies), units.mix, np.eye(len(varies)))
    scale = np.where(varies, wide * units.scale, units.scale)
    y_scale = (units.y_scale + 0.5 * _offset_range(design)) * wide if family.scaled else units.y_scale
    return replace(units, centre=none, scale=scale, mix=mix, y_centre=0.0, y_scale=y_scale)


def _offset_range(design: Design) -> float:
    """Distance of the bounds of the offset; 0 without one."""
    low, high = (0.0, 0.0) if design.offset is None else design.schema.limits(design.offset)
    return high - low


def refuse_of_sums(spec: ModelSpec) -> None:
    """Refuse budgets and options that sums with noise can't have, on public grounds.
    Raises BudgetError if the budget is pure ε, as that noise is Gaussian; OptionError, UnsupportedArgumentError if an
    option is of local reports, or a column has no public bounds.
    """
    units, who, local, least = spec.units, spec.holders, "is for trust='local'", LEAST_MU[spec.trust]
    if spec.noise.again and spec.people.missing == "drop":
        raise OptionError(
            f"missing='drop' would change the number of records, which is public with {who}; missing='noise' lets "
            "those that can't be used count for nothing."
        )
    wrong = {
        f"with {who} noise is Gaussian, which can't keep pure epsilon: give mu=, rho=, or delta=1e-6 with epsilon": (
            spec.budget.pure
        ),
        f"with {who} sums are whole numbers modulo 2⁶⁴, which hold the noise of mu={least:g} or more, and this budget "
        f"has mu={spec.budget.mu:.3g}; give a larger one": spec.budget.private and spec.budget.mu < least,
    }
    refuse(wrong, BudgetError)
    unscaled = bool(units.unscaled.any() or (units.y_unscaled and spec.family.scoring.residual))
    refused = {
        f"mechanism={spec.mechanism!r} {local}: sums have Gaussian noise": spec.mechanism not in {"auto", "gaussian"},
        f"private='response' {local}": spec.private == "response",
        f"score_weights={spec.score_weights!r} {local}": spec.score_weights not in {None, "likelihood"},
        f"{spec.people.spent}='column' of personal budgets {local}": spec.personal,
        f"max_per_id={spec.people.max_per_id} {local}: with {who} a person has one report; for several rows give "
        "k_max=": spec.people.max_per_id > 1,
        f"with {who} every number needs public bounds, beside scaling= and moments=; declare bounds=": unscaled,
    }
    refuse(refused)


def refuse_what_sums_cannot(spec: ModelSpec) -> None:
    """Refuse a model that sums can't fit, on public grounds.
    Raises UnsupportedArgumentError if it has no intercept, a score without a bounded slope, or reports of too many
    numbers.
    """
    who, family, size = spec.holders, spec.family, width("main", d=spec.covariates, blocks=spec.blocks)
    others = "fit(tuning='published')" if spec.trust == "central" else "trust='local'"
    unsummed = family.scoring.unsummed(family)
    refused = {
        f"{family!r} is a loss of the published descent; use {others}": family.code < 0,
        f"with {who} a model needs an intercept; leave out '- 1' or '+ 0'": (
            spec.units.constant_column(spec.design.probe) is None
        ),
        f"with {who} {unsummed.replace('{others}', others)}": bool(unsummed),
        f"a report would hold {size:,} numbers, and {MOST_NUMBERS:,} are the most, 64 KB; merge levels of the "
        "response, or leave terms out": size > MOST_NUMBERS and spec.blocks > 1,
    }
    refuse(refused)


def refuse_likelihood(spec: ModelSpec) -> None:
    """Refuse ``score_weights="likelihood"`` where scores have other divisors, or rows no public bound.
    Raises UnsupportedArgumentError.
    """
    schema, family, size = spec.design.schema, spec.family, len(spec.coefficients)
    endless = sorted(n for n in spec._made_of if n not in schema.levels and not np.isfinite(schema.limits(n)).all())
    refused = {
        f"up to {MOST} coefficients, and there are {size}: a row may be so much longer than most that "
        "nothing is seen beside the noise": size > MOST,
        f"numbers with declared bounds, by which the longest row is known; declare bounds= of {', '.join(endless)}": (
            bool(endless)
        ),
        "a score of one predictor; use Logistic() for each level": spec.blocks > 1 or spec.cuts is not None,
        "counts whose residuals aren't clipped: what clips them is a weight; leave c= out": family.robust,
        "reports of several covariates that are private: covariates that are public, or the constant alone, have no "
        "weights but where they are far out": spec.scalar,
        "rows that keep their person's level; leave '| person' out": spec.people.effect is not None,
    }
    refuse({f"score_weights='likelihood' goes with {k}; or leave score_weights= out": v for k, v in refused.items()})


class Described:
    """Public properties of a model of any product, by the names of statsmodels."""

    _spec: ModelSpec
    _results: ClassVar[type]  # Class of its fits' results

    if not TYPE_CHECKING:  # type checkers would take every name for one that is there

        def __getattr__(self, name: str) -> Any:
            raise not_fitted(name, type(self), self._results)

    @property
    def formula(self) -> str:
        """The formula."""
        return self._spec.formula

    @property
    def family(self) -> Family:
        """The family."""
        return self._spec.family

    @property
    def exog_names(self) -> list[str]:
        """Names of the design's columns."""
        return list(self._spec.design.names)

    @property
    def endog_names(self) -> str:
        """Name of the response."""
        return self._spec.design.endog_name

    @property
    def schema(self) -> Schema:
        """The public declarations."""
        return self._spec.design.schema
