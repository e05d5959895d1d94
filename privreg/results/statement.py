"""The privacy statement that comes with every result, which the front doors fill; its words, and notes of all doors."""

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.resources import files
from typing import Any, Final, NamedTuple

from scipy.special import ndtr, ndtri

from privreg.audit.neighbours import Verification
from privreg.base import archive
from privreg.collector.levels import SURE
from privreg.errors import BudgetError, refuse
from privreg.privacy.conversions import shuffled, shuffling_limit
from privreg.privacy.ledger import REPORTED_DELTA, Budget, Release, at_least, within
from privreg.tables import Notes, Pairs, Part, View, diagnostics, fold
from privreg.tables.diagnostics import Diagnostic, doubt, note
from privreg.tables.parts import wrapped

WHOLE_RECORD: Final = "one person's whole record, used once; neighbours replace one record"
ALL_ROWS: Final = "one person, all rows, in one report; neighbours replace one person with all rows"
HELD_ROWS: Final = (
    "one person's whole record, in all rounds; neighbours replace one record",
    "one person, all rows, in all rounds; neighbours replace one person with all rows",
)
"""With a curator: of records, and of people with several rows."""
SILO_ROWS: Final = tuple(f"{words}; against everybody outside the person's silo" for words in HELD_ROWS)
"""With silos: of records, and of people with several rows."""
RECORDS: Final = {WHOLE_RECORD, HELD_ROWS[0], SILO_ROWS[0]}  # Neighbours replace a record
SETS_OF_ROWS: Final = {ALL_ROWS, HELD_ROWS[1], SILO_ROWS[1]}  # Neighbours replace a person with all rows
RESPONSE_ALONE: Final = "one person's response"


def whole_records(rows: int) -> str:
    """Protected part of a person of whom up to so many rows count."""
    if rows == 1:
        return WHOLE_RECORD
    return f"all of one person's records, up to {rows}, each used once; neighbours replace all records of one person"


class Setting(NamedTuple):
    """Words of a front door's statement: reports, senders, and rows to show."""

    rows: Sequence[tuple[str, str]]  # Between the guarantee and the releases: label, attribute of the statement
    bare: Sequence[str] = ()  # Labels of those that are shown without noise, too
    carries: Sequence[str] = ("the reports carry no noise", "protect nobody")
    sees: str = "everything published"
    sees_all: str = "everything published in all {} releases"
    guess: str = "knows all else and guesses which of {} a person sent"
    after: str = ""
    whose: str = "these data"
    one_of: str = "these data"  # Text where there were earlier releases
    per: str = ""
    alone: str = "this release alone"
    short: str = ""  # After the guarantee in a few words
    uncounted: str = ""  # Text of a release that nothing counts; "" as `Release` has it
    trust: Mapping[str, str] = {}  # Parties that have to be trusted, by `PrivacyStatement.trust`
    no_audit: str = ""  # Why verify() is refused
    no_shuffling: str = ""


_TABLE: Final = tomllib.loads(files("privreg.results").joinpath("settings.toml").read_text("utf-8"))
SHUFFLED: Final = _TABLE.pop("shuffled")["text"]  # Guarantee that a trusted shuffler would give, and its conditions
SETTINGS: Final = dict[str, Setting]()
"""Words by front door: regression from reports, means, a trusted curator, federated fits."""
for _name, _row in _TABLE.items():
    _like = SETTINGS[_row.pop("like")]._asdict() if "like" in _row else {}
    SETTINGS[_name] = Setting(**_like | _row)

ALIKE: Final = 1.3
"""Part by which standard errors may be too small, as rows of one person are alike, from which on nobody should rely on
95% intervals: they cover 87%, or less."""

LARGE_DELTA: Final = 1e-3  # δ above which a note says what it means
HARDLY: Final = 2.0 * float(ndtri(0.9999))  # μ from which a guess between two records is so often right
LITTLE: Final = 1.05  # Share below which it isn't worth a note


def opening_notes(
    budget: Budget,
    *,
    seeded: bool,
    leaked: Sequence[str] = (),
    missing: str = "noise",
    carries: str = "the reports carry no noise",
) -> list[Diagnostic]:
    """Notes on what weakens the claim of any front door."""
    out = [note("not_private", carries=carries)] if not budget.private else [note("seeded")] if seeded else []
    out += [note(f"leaked.{what}") for what in ("scale", "levels") if what in leaked]
    return out + ([note(f"missing.{missing}")] if missing != "noise" else [])


MANY, MOST, ROUNDED = 0.2, 0.9, 1e-6
"""Share that can't be used from which on declarations may be at fault; from which on results are not relied on; that
rounded sums take away without noise."""

HALF: Final = 0.5  # Such a share of times and events, as who can't be used may be whoever has the event
CODED: Final = (
    "an event is 0 or 1, or one of its levels=, the first of which is censoring (levels={'event': [1, 2]} where 2 is "
    "the event), and times are numbers that are not negative"
)
MATCH: Final = (
    "see that the declared levels match the data, blanks too, that texts have levels= and dates have dates as bounds, "
    "that dates are written as 2020-12-31 and decimals with a point, without marks of thousands (of a CSV file else: "
    "pr.csv(path, dates=, decimal=), at the shell --dates and --decimal)"
)


class Unusable(NamedTuple):
    """Share of the records that could not be used, as reports show it."""

    share: float
    error: float  # Its standard error

    @classmethod
    def counted(cls, usable: float, noise: float, people: float) -> "Unusable":
        """One less the mean of so many people's 1, or 0 if they can't be used, by the sd of that mean's noise."""
        inside = min(max(usable, 1.0 / (people + 1.0)), 1.0 - 1.0 / (people + 1.0))
        return cls(1.0 - usable, math.sqrt(noise**2 + inside * (1.0 - inside) / max(people, 1.0)))

    def noted(self, text: str, *, doubted: bool = True, events: bool = False) -> tuple[Diagnostic, ...]:
        """The one rule of notes on it: none unless it is sure, advice if it is large, a doubt if hardly any is left.

        Of times and `events` their coding is said, and there is a doubt if less than half is left.
        """
        text = f"{text}; {CODED if events else MATCH}" if events or self.share > MANY else text
        if (self.gone or (events and self.sure and self.share > HALF)) and doubted:
            return (doubt("nonresponse", text, of="the results"),)
        return (Diagnostic("unusable", text),) if self.sure else ()

    @property
    def sure(self) -> bool:
        """True if it is surely above 0."""
        return self.share > max(SURE * self.error, ROUNDED)

    @property
    def few(self) -> bool:
        """True if it is surely below a half."""
        return self.share + SURE * self.error < 0.5

    @property
    def gone(self) -> bool:
        """True if hardly any record is left."""
        return self.sure and self.share > MOST

    def __str__(self) -> str:
        return f"{min(round(100 * self.share), 100)}% (± {max(2 * round(100 * self.error), 1)}%)"


def repeated_notes(rows: int, times: float) -> list[Diagnostic]:
    """Note on standard errors where several rows of one person count, at most `rows`.

    Errors are `times` as large as standard errors say if a person's rows are all alike.
    """
    if rows == 1 or times < LITTLE:
        return []
    return [note("repeated" if times < ALIKE else "alike", count=rows, times=times)]


def closing_notes(asked: Budget, kept: Budget, *, whole: bool = False) -> list[Diagnostic]:
    """Note on noise in reports, and on the budget `kept` if another form was `asked` for.

    `whole` says that noise is rounded to whole numbers, of which rounding tells nothing.
    """
    out = [note("pure", asked=asked, kept=kept)] if kept.pure and not asked.pure else []
    if asked.form == "epsilon, delta" and asked.asked[1] > LARGE_DELTA:
        out.append(note("delta", delta=asked.asked[1]))
    if kept.private and kept.mu >= HARDLY:
        out.append(note("hardly", mu=kept.mu))
    return [*out, note("rounding.reports")] if kept.private and not whole else out


_OTHERWISE: Final = {"budget", "release", "neighbours"}  # Fields that a file has in another form, or not at all


@dataclass(frozen=True, repr=False)
class PrivacyStatement(View):
    """The privacy statement: who is protected from what, by which mechanism, and what weakens it. Public.

    Raises
    ------
    BudgetError
        If Gaussian noise is said to keep pure ε, which it can't.
    """

    budget: Budget  # Per person (per silo of a federated fit), for each row that counts
    # "simulated": one process held the rows and played the devices. "devices": they were people's, elsewhere. "central
    # plug-in": a curator's one-time release was added. "curator": all rows were a curator's. "flower": silos randomised
    trust: str
    mechanism: str  # "Gaussian", "Laplace", "PrivUnit", "randomized response"
    noise_sd: float  # Per coordinate of a report, internal units
    bound: float  # Declared, of a score report's ℓ2 norm, internal units
    weights: str  # The bound and the score weights in words; of means who is asked what
    curvature: str  # Payment for curvature
    release: Release  # Releases from these data in this process
    declared: tuple[tuple[str, str], ...]  # Public declarations, by column
    notes: tuple[Diagnostic, ...]  # Whatever weakens or qualifies the claim, numbered in print
    seeded: bool = False  # True if anybody who knows the seed can draw the noise again
    leaked: tuple[str, ...] = ()  # Declarations ("levels", "scale") that were taken from the raw data
    noise: str = ""  # The mechanism's noise in words; "" for the Gaussian mechanism's noise sd
    protects: str = WHOLE_RECORD  # Part in which neighbours may differ
    fit_measures: tuple[tuple[str, str], ...] = ()  # Released privately, each with what it cost, as a part of `budget`
    mu_max: bool = False  # True if people had personal budgets, which are public; `budget` is then the largest allowed
    per_id: int = 1  # Rows that count per person; the total is √per_id · μ, or per_id · ε for a pure budget
    people: int = 0  # People who sent reports; 0 if that is not known
    linked: bool = False  # True if reports are used beside public covariates, which tell whose they are
    # The reports' scores, bounds and noise as numbers, for `verify`
    mechanics: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    setting: str = "reports"  # Front door whose words it takes; see `SETTINGS`
    operators: tuple[str, ...] = ()  # Names of the two collectors of a study in the field
    gaussian: bool = True  # True if a curator's release is one Gaussian mechanism, μ-GDP with the budget's μ
    right: float | None = None  # Chance that the best guess between two records is right; by the GDP parameter if None
    # GDP parameter of this release, where it isn't √k times the budget's: of all rounds of a federated fit; with a
    # curator one that holds whichever records the random samples took, as if everybody saw which. Where (ε, δ) relies
    # on the samples being secret it is larger than they suggest; but it composes with other releases
    certain_mu: float | None = None
    per_round: str = ""  # Loss of a silo in one round
    # Makes the trials of `verify`, or tuples of their fields, from the mechanics and the budget; else a regression's
    neighbours: Callable[[Sequence[Mapping[str, Any]], Budget], Iterable[tuple[Any, ...]]] | None = field(
        default=None, compare=False
    )

    def __post_init__(self) -> None:
        if self.budget.pure and self.mechanism.lower().startswith("gauss"):
            raise BudgetError(
                f"Gaussian noise can't keep {self.budget}: its privacy loss has no bound; use a pure mechanism such as "
                "Laplace, or give delta=1e-6 with epsilon."
            )

    @property
    def said(self) -> Setting:
        """The words of its front door."""
        return SETTINGS[self.setting]

    @property
    def loud(self) -> str | None:
        """Warning that must not be overlooked, or None."""
        if not self.budget.private:
            return f"NOT PRIVATE: mu=None, {' and '.join(self.said.carries)}"
        if self.seeded:
            return "NOT PRIVATE AS RUN: seed= lets anybody draw the noise again"
        if self.leaked:
            return f"NOT WHOLLY PRIVATE: {' and '.join(self.leaked)} taken from the raw data"
        return None

    @property
    def doubts(self) -> tuple[Diagnostic, ...]:
        """The notes that take rows back: all, or those that they name."""
        return diagnostics.doubts(self.notes)

    @property
    def waiting(self) -> tuple[Diagnostic, ...]:
        """The notes that say why results taken early have no intervals."""
        return tuple(note for note in self.notes if note.code in {"early", "unbegun"})

    @property
    def total(self) -> Budget:
        """Budget per person of this release alone: all their rows, curator's part included."""
        if self.said.per and self.budget.private and not self.budget.pure:
            return Budget.declare(mu=self.total_mu)
        return self.budget.times(self._parts)

    @property
    def total_mu(self) -> float:
        """GDP parameter per person of this release alone: all their rows, curator's part included.

        √k·μ for k parts; of pure budgets that is less than what their sum implies, and holds as well.
        """
        return math.sqrt(self._parts) * self.budget.mu if self.certain_mu is None else self.certain_mu

    @property
    def _parts(self) -> int:
        """Times that the budget is spent on a person: by each of their rows, and twice with a curator's release."""
        return self.per_id * (2 if self.trust == "central plug-in" else 1)

    def verify(self, n: int = 20_000, *, alpha: float = 1e-6) -> Verification:
        """Audit the mechanisms that were used, on made-up neighbours at the largest distance that rows can have.

        ``passed``, a ``table`` with a lower limit of μ (or ε) for each pair, and a text. Each neighbour sends `n`
        reports, for every kind of report and pair; 20,000 find Gaussian noise that is 20% too small, and Laplace noise
        that is half of what it should be. `alpha` is the probability that any of the lower confidence limits is above
        its true value. Of a fit that was not private, of a curator's descent, and of a statement of an earlier version
        it is a BudgetError.
        """
        from privreg.audit import reports
        from privreg.audit.neighbours import verify

        if self.said.no_audit:
            raise BudgetError(self.said.no_audit)
        if not self.budget.private or not (self.mechanics or self.neighbours):
            why = "mu=None asked for no privacy" if not self.budget.private else "this file has none; fit again"
            raise BudgetError(f"there is no mechanism to audit: {why}.")
        trials = (self.neighbours or reports.trials)(self.mechanics, self.budget)
        return verify(trials, claim=str(self.budget), n=n, alpha=alpha)

    @property
    def short(self) -> str:
        """The guarantee in a few words, for tables and plots."""
        if not self.budget.private:
            return "NOT PRIVATE"
        total, per = self.total, self.said.per
        words = f"{at_least(total.epsilon, 4)}-DP (pure)" if total.pure and not per else self._amount(total) + per
        words = words.removeprefix("at most ")  # there is no room for it, and what is rounded up holds as well
        words = f"≤ {words}" if self.mu_max else words if self.gaussian else self._pair
        return words + (" (seeded)" if self.seeded else " (leaks)" if self.leaked else "") + self.said.short

    @property
    def headline(self) -> str:
        """Cost of all releases from these data together and then of this one, in a few words, for captions."""
        if not self.budget.private or self.release.number < 2:
            return self.short
        if not self._protected:
            return f"NOT PRIVATE in all {self.release.number} releases, as one had no noise; this one {self.short}"
        return f"{within(self.release.total_mu, 4)}-GDP in all {self.release.number} releases, this one {self.short}"

    @property
    def guarantee(self) -> str:
        """Cost of all releases from these data together and then of this one, in full."""
        if not self.budget.private:
            return "NONE: mu=None asks for a fit without privacy, for teaching and tests"
        said = self.said
        if self.setting == "curator":
            text = f"{self._each() if self.gaussian else self._pair}, of what is released, per record"
        elif said.per:
            text = f"{self._amount(self.total)}{said.per} in all, hence {self._implied()}"
        else:
            either = " against either collector" + f", {' or '.join(self.operators)}" * bool(self.operators)
            text = self._each() + f"{either}; none against both together" * ("collectors" in self.setting)
        if self._again:
            total = Budget.declare(mu=self.release.total_mu)
            cost = f"{self._amount(total)}{said.per} in all {self.release.number} releases from {said.whose} so far"
            text = f"{cost}, hence {self._implied(total)}; {said.alone}: {text}"
        if self.mu_max:
            text = f"at most {text.removeprefix('at most ')}, per person; whose budget is smaller has that guarantee; "
            text += "personal budgets are public"
        text = self._as_run(text)
        if self._protected:
            return text
        none = f"NONE in all {self.release.number} releases from {said.whose} so far, as one had no noise (mu=None)"
        return f"{none}; {said.alone}: {text}"

    @property
    def _again(self) -> bool:
        """True if this release comes on top of others, all of which protect people."""
        return self.release.number > 1 and self._protected

    @property
    def _protected(self) -> bool:
        return self.release.total_mu < math.inf

    @property
    def _pair(self) -> str:
        epsilon, delta = self.budget.asked
        return f"({epsilon:g}, {delta:g})-DP"

    @property
    def everybody_else(self) -> str:
        """Guarantee against everybody but the collectors: both collectors' noise hides a person."""
        total = Budget.declare(mu=self.total_mu / math.sqrt(2.0))
        return self._as_run(
            f"{self._amount(total)} of this release, hence {self._implied(total)}, if both add their noise"
        )

    def _as_run(self, text: str) -> str:
        """A guarantee, and what takes it back."""
        if self.leaked:
            text += f"; except for {' and '.join(self.leaked)}, taken from the raw data without any privacy"
        return f"NONE as run, because of seed=; with secret noise {text}" if self.seeded else text

    @property
    def both_together(self) -> str:
        """Guarantee against both collectors together."""
        who = f"{' and '.join(self.operators)}: " * bool(self.operators)
        return f"{who}no guarantee: their two shares of a report add up to it"

    def _implied(self, total: Budget | None = None) -> str:
        total = total or self.total
        if total.pure:
            return f"{at_least(total.mu, 4)}-GDP"
        return f"({at_least(total.epsilon_at(REPORTED_DELTA), 3)}, {REPORTED_DELTA:g})-DP"

    def _each(self) -> str:
        """The guarantee of all of a person's rows, and of each."""
        total, each = self.total, str(self.budget)
        if self.per_id > 1:
            root = f"√{self.per_id} × {at_least(self.budget.mu, 4)}"
            times = f"{self.per_id} × {at_least(total.epsilon / self.per_id, 4)}" if total.pure else root
            each = f"{self.budget} for each of a person's {self.per_id} rows ({times})"
        if self.trust == "central plug-in":
            each = f"{each} locally for the estimates, {each} by a trusted curator for the plug-in matrices"
        if self._parts > 1:
            return f"{self._amount(total)} in all, hence {self._implied()}: {each}"
        return f"{each}, hence {self._implied()}"

    @staticmethod
    def _amount(total: Budget) -> str:
        return str(total) if total.pure else f"{within(total.mu, 4)}-GDP"

    @property
    def in_words(self) -> str:
        """Meaning of all releases' guarantee for one person, without symbols."""
        said, k = self.said, self.release.number
        if not self.budget.private:
            return f"Nobody is protected: {said.carries[0]}."
        right = float(ndtr(self.total_mu / 2)) if self.right is None else self.right  # Φ(μ/2), under pure ε too
        pair, one = "two records that differ as protected", self.per_id == 1
        if self.protects in {*RECORDS, whole_records(self.per_id)}:
            pair = "two possible records" if one else "two possible sets of records"
        elif self.protects in SETS_OF_ROWS:
            pair = "two possible sets of rows"
        all_right = float(ndtr(self.release.total_mu / 2)) if self._again else right
        how_often = (
            f"at most {at_least(100 * all_right, 3)}% of the time" if all_right < 0.999 else "practically always"
        )
        if self._again:
            alone = f"{at_least(100 * right, 3)}%" if right < 0.999 else "so, too,"
            how_often += f" ({alone} after this one alone)"
        text = (
            f"Whoever sees {said.sees_all.format(k) if self._again else said.sees}, {said.guess.format(pair)} is right "
            f"{how_often}; blind guessing is right 50%.{said.after}"
        )
        if self.seeded:
            text = f"With secret noise, not as run: {text[0].lower()}{text[1:]}"
        elif self.leaked:
            text = f"Of what was reported: {text[0].lower()}{text[1:]}"
        if self._protected:
            return text
        none = f"Nobody is protected by all {k} releases: one carried no noise. After this one alone: "
        return f"{none}{text[0].lower()}{text[1:]}"

    @property
    def person(self) -> str:
        """Meaning of a silo's guarantee for one person."""
        if not self.budget.private:
            return "not protected"
        if not self._protected:
            return "not protected by all releases together"
        if self.budget.pure and not self._again:
            more = "k times the epsilon"
        else:
            total = self.release.total_mu if self._again else self.total_mu
            more = f"sqrt(k) times it, {within(math.sqrt(2.0) * total, 4)}-GDP for two"
        return (
            f"at least as well protected as their silo, if all their records are in one; with records in k silos {more}"
        )

    @property
    def trust_words(self) -> str:
        """Parties that have to be trusted."""
        return self.said.trust[self.trust].format(" and ".join(self.operators))

    @property
    def mechanism_words(self) -> str:
        """The mechanism with its noise."""
        return f"{self.mechanism}, {self.noise or f'noise sd {self.noise_sd:.4g} = 2 × bound / mu'}"

    def rows(self) -> list[tuple[str, str]]:
        """The statement as (label, text) pairs, which every view renders."""
        private, said, r = self.budget.private, self.said, self.release
        out = [("In words", self.in_words), ("Guarantee", self.guarantee)]
        out += [(label, getattr(self, name)) for label, name in said.rows if private or label in said.bare]
        if private:
            text = r.words(said.whose if r.number < 2 else said.one_of)
            if not self.gaussian and self.certain_mu is not None:
                text += f"; counted as {at_least(self.certain_mu, 3)}-GDP beside others: that holds whichever records "
                text += "the samples took"
            out.append(("Releases", said.uncounted if said.uncounted and not r.number else text))
            out += [(f"Released: {name}", cost) for name, cost in self.fit_measures]
        return out + [(f"Public: {name}", text) for name, text in self.declared]

    def shuffled(self, n: int | None = None, delta: float = REPORTED_DELTA) -> str:
        """Say what the reports would be worth behind a trusted shuffler, with all that has to hold.

        A paragraph and its numbered conditions, of the reports of `n` people, one each, those of this fit by default,
        and the δ in (0, 1) of the central guarantee, by Theorem III.1 of Feldman, McMillan & Talwar (2021), Hiding
        among the clones. A BudgetError if the reports are not one pure ε-DP report per person under one budget for all,
        if public covariates tell whose they are (``private="response"``, but for ``y ~ 1``), or the theorem does not
        cover the numbers.
        """
        what = "several rows per person" if self.per_id > 1 else "personal budgets" if self.mu_max else "a curator"
        wrong = {
            self.said.no_shuffling: self.said.no_shuffling,
            f"shuffling amplifies pure epsilon, and this fit is {self.short}; ask for epsilon=1.0 without delta": (
                not self.budget.pure
            ),
            "with private='response' each report is multiplied by its sender's public covariates, which tell who sent "
            "it, so a shuffler hides nobody; ask for private='record', or for a model without covariates, 'y ~ 1'": (
                self.linked
            ),
            f"the theorem on shuffling is about one local report per person under one budget for all, not {what}": (
                self.mu_max or self._parts > 1
            ),
            "shuffled() needs the number of people who sent reports, n=10_000 say": n is None and not self.people,
        }
        refuse(wrong, BudgetError)
        n, epsilon = self.people if n is None else n, self.budget.epsilon
        lead = "NOT AS RUN, because of seed=; with secret noise, i" if self.seeded else "I"
        if self.leaked:
            lead = f"Not counting {' and '.join(self.leaked)}, taken from the raw data: {lead.lower()}"
        values = {"n": n, "whole": at_least(shuffled(epsilon, n, delta), 3), "delta": delta, "epsilon": epsilon}
        values |= {"lead": lead, "limit": shuffling_limit(n, delta)}
        first, *conditions, last = (text.format(**values) for text in SHUFFLED)
        numbered = [wrapped(f"[{i}]", text, 4) for i, text in enumerate(conditions, 1)]
        return "\n".join([*fold(first), *(line for lines in numbered for line in lines), *fold(last)])

    def to_json(self) -> dict[str, Any]:
        """Represent by JSON values."""
        b, r = self.budget, self.release
        return {
            **{f.name: getattr(self, f.name) for f in fields(self) if f.name not in _OTHERWISE},
            "budget": {"mu": b.mu if b.private else None, "form": b.form, "asked": list(b.asked)},
            "release": {"number": r.number, "total_mu": r.total_mu if r.total_mu < math.inf else None}
            | ({"dataset": r.dataset} if r.dataset else {}),
            "total_mu": self.total_mu if b.private else None,
            "guarantee": self.guarantee,
            "notes_about": diagnostics.to_json(self.notes),
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any], **more: Any) -> "PrivacyStatement":
        """Rebuild from :meth:`to_json`, of this version or an older one; `more` are fields that it lacks."""
        b, r = doc["budget"], doc["release"]
        known = {f.name: doc[f.name] for f in fields(cls) if f.name in doc and f.name != "neighbours"}
        archive.expect(known.get("setting", "reports") in tuple(SETTINGS))
        known |= {name: tuple(known.get(name, ())) for name in ("leaked", "mechanics", "operators")}
        known |= {name: tuple((a, c) for a, c in known.get(name, ())) for name in ("declared", "fit_measures")}
        # of a file of 0.1 nothing tells whether there were covariates: taken as if
        known.setdefault("linked", known.get("protects", WHOLE_RECORD).startswith(RESPONSE_ALONE))
        known |= {
            "budget": Budget(math.inf if b["mu"] is None else b["mu"], b["form"], tuple(b["asked"])),
            "release": Release(r["number"], r["total_mu"] or math.inf, str(r.get("dataset", ""))),
            "notes": diagnostics.from_json(doc["notes"], doc.get("notes_about")),
        }
        return cls(**{"setting": "curator" if doc["trust"] == "curator" else "reports", **known, **more})

    def _layout(self) -> list[Part]:
        return [Pairs(self.rows(), "Privacy", self.loud), Notes(self.notes, "Notes:")]

    def as_json(self) -> str:
        """JSON text, read again by :meth:`from_json`."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
