"""What is fixed before a fit is tuned: design, units, family, budget and the user's options. Public."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg import kernels
from privreg.accounting import Budget
from privreg.errors import OptionError, SchemaError, choose
from privreg.families import Logistic
from privreg.family import Family, check_response
from privreg.mechanisms import MECHANISMS, resolve_mechanism
from privreg.people import People
from privreg.scaling import public_units
from privreg.settings import Problem, one_number
from privreg.tuning import WEIGHTS

if TYPE_CHECKING:
    from privreg.scaling import Units

__all__ = ["CLAMPING", "UNUSABLE", "Spec"]

UNUSABLE: Final = {
    "noise": "{}: a value missing, unreadable or not declared, or a term not finite",
    "raise": "are refused by an error (see the notes)",
    "drop": "send nothing (see the notes)",
}
"""What becomes of records that can't be used."""

CLAMPING: Final = ("clamping", "values outside these bounds were clamped; how many was not looked at")
"""What a summary says wherever bounds are declared."""


@dataclass(frozen=True)
class Spec:
    """What is fixed before a fit is tuned: public.

    Parameters
    ----------
    design : Design or ArrayDesign
    units : Units
    family : Family
    budget : Budget
    score_weights : str or None
    mechanism : str
        As the user asked.
    private : str
        "record" or "response".
    people : People
        What is declared about the people behind the rows.
    """

    design: Any
    units: Units
    family: Family
    budget: Budget
    score_weights: str | None = None
    mechanism: str = "auto"
    private: str = "record"
    people: People = field(default_factory=People.declare)

    @classmethod
    def declare(
        cls,
        design: Any,
        family: Family,
        budget: Budget,
        score_weights: Any,
        mechanism: Any,
        private: Any,
        people: People,
    ) -> Spec:
        """Check the options and choose units.

        Raises
        ------
        OptionError
            If an option is not among its choices, or does not go with another.
        SchemaError
            If the response has no public scale, or not the limits its family needs.
        """
        if score_weights is not None:
            choose("score_weights", score_weights, WEIGHTS)
        choose("mechanism", mechanism, ("auto", *MECHANISMS))
        choose("private", private, ("record", "response"))
        if private == "response" and people.id is not None:
            raise OptionError(
                "with private='response' covariates are public, so that everybody knows whose row is one too many: id= "
                "goes with private='record'; leave further rows of a person out."
            )
        if family.response == "levels" and (design.offset is not None or design.exposure is not None):
            raise OptionError(
                "offset= and exposure= go with one linear predictor, and a multinomial fit has one for each level but "
                "the first; leave them out."
            )
        check_response(family, design.endog_limits, design.endog_name)
        units = public_units(design, scale_response=family.scaled)
        spec = cls(design, units, family, budget, score_weights, mechanism, private, people)
        names = spec.coefficients
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise SchemaError(
                f"two coefficients would be named {twice!r}, from levels and terms that read alike; rename a level."
            )
        scalar = one_number(private, spec.classes - 1, spec.alone)
        if mechanism != "auto":  # found anew by the tuning; here so that what can't be is refused before there are data
            personal = people.mu is not None
            resolve_mechanism(mechanism, budget, size=1 if scalar else len(names), scalar=scalar, personal=personal)
        return spec

    @property
    def silence(self) -> bool:
        """Whether it is declared that some people send noise only, as further rows of one person."""
        return self.people.id is not None

    @property
    def unusable(self) -> bool:
        """Whether people may send noise only, for values that can't be used or as further rows of one person."""
        return self.people.missing == "noise" or self.silence

    @property
    def alone(self) -> bool:
        """Whether a row holds nothing but the response: a declared intercept, read from no column, and no offset."""
        design = self.design
        return len(design.names) == 1 and not design.sources[0] and design.offset is None and design.exposure is None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read: the design's, then those about people."""
        return (*self.design.columns, *self.people.columns)

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
        return len(self.baseline) or 2

    def problem(self, rows: int | None, partitions: int | None = None) -> Problem:
        """What tuning must know, with the number of people, if it is known, and of the parts they come in."""
        schema = self.design.schema
        numbers = {n for made_of in self.design.sources for n in made_of if schema.is_number(n)}
        # sds alone spare few reports on moments: correlations are still to be learned
        declared = all(n in schema.moments for n in numbers) and (len(numbers) < 2 or bool(schema.correlations))
        low, high = (float(v) for v in self.units.response_inside(np.array(self.design.endog_limits)))
        # two levels leave one linear predictor, whose score is the logistic one
        two = self.family.code == kernels.MULTINOMIAL and self.classes == 2
        return Problem(
            family=Logistic() if two else self.family,
            budget=self.budget,
            units=self.units,
            probe=self.units.probe_inside(self.design.probe),
            constant=self.units.constant_column(self.design.probe) is not None,
            alone=self.alone,
            response_limits=(low, high),
            scale_declared=declared,
            standardised="scale" in schema.leaked,
            score_weights=self.score_weights,
            mechanism=self.mechanism,
            private=self.private,
            classes=self.classes,
            personal=self.people.mu is not None,
            silence=self.silence,
            unusable=self.unusable,
            several=self.people.max_per_id > 1,
            rows=rows,
            partitions=partitions,
        )

    @property
    def formula(self) -> str:
        """Formula, or the names of an array model."""
        d = self.design
        return str(getattr(d, "formula", None) or f"{d.endog_name} ~ {' + '.join(d.names)}")

    def declared(self, instead: str = "send noise only") -> tuple[tuple[str, str], ...]:
        """Public declarations by column, in words; `instead` says what records do that can't be used."""
        schema, out = self.design.schema, []
        for name in self.design.columns:
            if name in schema.levels:
                taken = " TAKEN FROM THE DATA (see the notes)" if name in schema.leaked_columns else ""
                out.append((name, "levels " + ", ".join(str(v) for v in schema.levels[name]) + taken))
            elif name in schema.private:
                out.append((name, "nothing; location and scale learned from privatised reports"))
            elif name in schema.leaked_columns:
                out.append((name, "mean and sd TAKEN FROM THE DATA (see the notes)"))
            else:
                parts = []
                if name in schema.bounds and np.isfinite(schema.bounds[name][0]):
                    parts.append("bounds {:g} to {:g}".format(*schema.bounds[name]))
                if name in schema.moments:
                    parts.append("mean {:g}, sd {:g}".format(*schema.moments[name]))
                parts += [
                    f"correlation {rho:g} with {b if name == a else a}"
                    for (a, b), rho in schema.correlations.items()
                    if name in (a, b)
                ]
                if parts:
                    out.append((name, "; ".join(parts)))
        out += schema.source_words(self.design.columns)
        if any(np.isfinite(schema.limits(name)[0]) for name in self.design.columns if name not in schema.levels):
            out.append(CLAMPING)
        people = self.people
        if people.mu is not None:
            out.append((people.mu, f"personal budgets, at most {people.mu_max:g}; public"))
        if people.id is not None:
            rows = "one row" if people.max_per_id == 1 else f"{people.max_per_id:,} rows"
            out.append((people.id, f"tells people apart; {rows} of each count, further ones send noise only"))
        out.append(("unusable records", UNUSABLE[people.missing].format(instead)))
        return tuple(out)
