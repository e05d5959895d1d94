"""The privacy statement that comes with every result."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scipy.special import ndtr

from privreg.diagnostics import WAITING, Note, doubts
from privreg.diagnostics import from_json as notes_from_json
from privreg.diagnostics import to_json as notes_to_json
from privreg.errors import BudgetError, choose
from privreg.files import archive
from privreg.privacy.amplification import shuffled, shuffling_limit
from privreg.privacy.ledger import REPORTED_DELTA, Budget, Release, at_least
from privreg.tables import Notes, Pairs, View, as_page

if TYPE_CHECKING:
    from privreg.audit.verification import Verification
    from privreg.tables import Part

__all__ = ["PrivacyStatement"]

WHOLE_RECORD: Final = "one person's whole record, used once; neighbours replace one record"
RESPONSE_ALONE: Final = "one person's response"


@dataclass(frozen=True, repr=False)
class PrivacyStatement(View):
    """Who is protected from what, by which mechanism, and what weakens it. Public.

    Parameters
    ----------
    budget : Budget
        Budget per person, for each row that counts.
    trust : str
        "simulated": one process held the rows and played the devices. "central plug-in": a curator's
        one-time release was added.
    mechanism : str
        The mechanism: "Gaussian", "Laplace", "PrivUnit", "randomized response".
    noise_sd : float
        Noise sd per coordinate of a report, internal units.
    bound : float
        Declared bound of a score report's ℓ2 norm, internal units.
    weights : str
        The bound and the score weights in words.
    curvature : str
        What curvature was paid for.
    release : Release
        Releases from these data in this process.
    declared : tuple of (str, str)
        What was declared public, by column.
    notes : tuple of str
        Whatever weakens or qualifies the claim, numbered in print; see `privreg.diagnostics.Note`.
    seeded : bool
        Whether the noise can be drawn again by anybody who knows the seed.
    leaked : tuple of str
        Declarations ("levels", "scale") that were taken from the raw data.
    noise : str
        The mechanism's noise in words; "" for the Gaussian mechanism's noise sd.
    protects : str
        What neighbours may differ in.
    fit_measures : tuple of (str, str)
        Measures of fit that were released privately, each with what it cost. The cost is part of `budget`.
    mu_max : bool
        Whether people had personal budgets, which are public; `budget` is then the largest allowed.
    per_id : int
        Rows that count per person; the total is √per_id · μ, or per_id · ε for a pure budget.
    people : int
        People who sent reports; 0 if that is not known.
    linked : bool
        Whether reports are used beside public covariates, which tell whose they are.
    mechanics : tuple of dict
        The reports' scores, bounds and noise as numbers, for :meth:`verify`.

    Raises
    ------
    BudgetError
        If Gaussian noise is said to keep pure ε, which it can't.
    """

    budget: Budget
    trust: str
    mechanism: str
    noise_sd: float
    bound: float
    weights: str
    curvature: str
    release: Release
    declared: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    seeded: bool = False
    leaked: tuple[str, ...] = ()
    noise: str = ""
    protects: str = WHOLE_RECORD
    fit_measures: tuple[tuple[str, str], ...] = ()
    mu_max: bool = False
    per_id: int = 1
    people: int = 0
    linked: bool = False
    mechanics: tuple[Mapping[str, Any], ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.budget.pure and self.mechanism.lower().startswith("gauss"):
            raise BudgetError(
                f"Gaussian noise can't keep {self.budget}: its privacy loss has no bound; use a pure mechanism such as "
                "Laplace, or give delta=1e-6 with epsilon."
            )

    @property
    def loud(self) -> str | None:
        """What must not be overlooked, or None."""
        if not self.budget.private:
            return "NOT PRIVATE: mu=None, the reports carry no noise and protect nobody"
        if self.seeded:
            return "NOT PRIVATE AS RUN: seed= lets anybody draw the noise again"
        if self.leaked:
            return f"NOT WHOLLY PRIVATE: {' and '.join(self.leaked)} taken from the raw data"
        return None

    @property
    def doubts(self) -> tuple[Note, ...]:
        """The notes that take rows back: all, or those that they name."""
        return doubts(self.notes)

    @property
    def waiting(self) -> tuple[Note, ...]:
        """The notes that say why results taken early have no intervals."""
        return tuple(note for note in self.notes if isinstance(note, Note) and note.code == WAITING)

    @property
    def total(self) -> Budget:
        """Budget per person of this release alone: all their rows, curator's part included."""
        return self.budget.times(self._parts)

    @property
    def total_mu(self) -> float:
        """GDP parameter per person of this release alone: all their rows, curator's part included.

        √k·μ for k parts; of pure budgets that is less than what their sum implies, and holds as well.
        """
        return math.sqrt(self._parts) * self.budget.mu

    @property
    def _parts(self) -> int:
        return self.per_id * (2 if self._central else 1)

    @property
    def _central(self) -> bool:
        return self.trust.startswith("central")

    def verify(self, n: int = 20_000, *, alpha: float = 1e-6) -> Verification:
        """Audit the mechanisms that were used, on made-up neighbours as far apart as rows can be.

        Parameters
        ----------
        n : int
            Reports that each neighbour sends, for every kind of report and pair; more find smaller faults. 20,000
            find noise that is 20% too small.
        alpha : float
            Probability that any of the lower confidence limits lies above its true value.

        Returns
        -------
        Verification
            ``passed``, a ``table`` with a lower limit of μ (or ε) for each pair, and a text.

        Raises
        ------
        BudgetError
            If the fit was not private, or the statement was saved by an earlier version.
        OptionError
            If `n` or `alpha` is out of range.
        """
        from privreg.audit.verification import verify

        if not self.budget.private or not self.mechanics:
            raise BudgetError(
                "there is no mechanism to audit: "
                + ("mu=None asked for no privacy." if not self.budget.private else "this file has none; fit again.")
            )
        b = self.budget
        return verify(self.mechanics, mu=b.mu, epsilon=b.epsilon, claim=str(b), n=n, alpha=alpha)

    @property
    def short(self) -> str:
        """The guarantee in a few words, for tables and plots."""
        if not self.budget.private:
            return "NOT PRIVATE"
        total = self.total
        words = f"{at_least(total.epsilon, 4)}-DP (pure)" if total.pure else f"{at_least(total.mu, 4)}-GDP"
        words = f"≤ {words}" if self.mu_max else words
        return words + (" (seeded)" if self.seeded else " (leaks)" if self.leaked else "")

    @property
    def headline(self) -> str:
        """What all releases from these data cost together and then this one, in a few words, for captions."""
        if not self.budget.private or self.release.number < 2:
            return self.short
        return f"{releases_in_all(self.release)}, this one {self.short}"

    @property
    def guarantee(self) -> str:
        """What all releases from these data cost together and then this one, true as it stands."""
        if not self.budget.private:
            return "NONE: mu=None asks for a fit without privacy, for teaching and tests"
        text = self._hence()
        if self._again:
            text = f"{guarantee_in_all(self.release, 'these data')}; this release alone: {text}"
        if self.mu_max:
            text = f"at most {text}, per person; personal budgets are public"
        if self.leaked:
            text += f"; except for {' and '.join(self.leaked)}, taken from the raw data without any privacy"
        text = f"NONE as run, because of seed=; with secret noise {text}" if self.seeded else text
        return text if self._protected else f"{none_in_all(self.release, 'these data')}; this release alone: {text}"

    @property
    def _again(self) -> bool:
        """Whether this release comes on top of others, all of which protect people."""
        return self.release.number > 1 and self._protected

    @property
    def _protected(self) -> bool:
        return self.release.total_mu < math.inf

    def _hence(self) -> str:
        total = self.total
        if total.pure:
            implied = f"{at_least(total.mu, 4)}-GDP"
        else:
            implied = f"({at_least(total.epsilon_at(REPORTED_DELTA), 3)}, {REPORTED_DELTA:g})-DP"
        each = str(self.budget)
        if self.per_id > 1:
            times = f"{self.per_id} × {at_least(total.epsilon / self.per_id, 4)}" if total.pure else self._root()
            each = f"{self.budget} for each of a person's {self.per_id} rows ({times})"
        if self._central:
            return (
                f"{self._amount(total)} in all, hence {implied}: {each} locally for the "
                f"estimates, {each} by a trusted curator for the plug-in matrices"
            )
        if self.per_id > 1:
            return f"{self._amount(total)} in all, hence {implied}: {each}"
        return f"{each}, hence {implied}"

    def _root(self) -> str:
        return f"√{self.per_id} × {at_least(self.budget.mu, 4)}"

    @staticmethod
    def _amount(total: Budget) -> str:
        return str(total) if total.pure else f"{at_least(total.mu, 4)}-GDP"

    @property
    def in_words(self) -> str:
        """What the guarantee of all releases together means for one person, without symbols."""
        if not self.budget.private:
            return "Nobody is protected: the reports carry no noise."
        pair = "two possible records" if self.protects == WHOLE_RECORD else "two records that differ as protected"
        seen, told = self._seen(success(self.total_mu))
        text = (
            f"Whoever sees everything published{seen}, knows all else and guesses which of {pair} a person sent is "
            f"right {told}; blind guessing is right 50%."
        )
        if self.seeded:
            text = f"With secret noise, not as run: {text[0].lower()}{text[1:]}"
        elif self.leaked:
            text = f"Of what was reported: {text[0].lower()}{text[1:]}"
        return text if self._protected else f"{unprotected(self.release)}{text[0].lower()}{text[1:]}"

    def _seen(self, right: float) -> tuple[str, str]:
        """In how many releases, and how often a guess is right: after all of them and, at `right`, this one alone."""
        if not self._again:
            return "", often(right)
        return f" in all {self.release.number} releases", often(success(self.release.total_mu), right)

    def rows(self) -> list[tuple[str, str]]:
        """The statement as (label, text) pairs, which every view renders."""
        public = [(f"Public: {name}", text) for name, text in self.declared]
        if not self.budget.private:
            return [
                ("In words", self.in_words),
                ("Guarantee", self.guarantee),
                ("Score bound", self.weights),
                *public,
            ]
        noise = self.noise or f"noise sd {self.noise_sd:.4g} = 2 × bound / mu"
        out = [
            ("In words", self.in_words),
            ("Guarantee", self.guarantee),
            ("Protects", self.protects),
            ("Trust model", _TRUST[self.trust]),
            ("Mechanism", f"{self.mechanism}, {noise}"),
            ("Score bound", self.weights),
            ("Pilot, curvature", self.curvature),
            ("Releases", str(self.release)),
        ]
        out += [(f"Released: {name}", cost) for name, cost in self.fit_measures]
        return out + public

    # --- shuffling ---------------------------------------------------------------------------------------

    def shuffled(self, n: int | None = None, delta: float = REPORTED_DELTA) -> str:
        """Say what the reports would be worth behind a trusted shuffler, with all that has to hold.

        Parameters
        ----------
        n : int, optional
            People whose reports are shuffled together, one each; those of this fit by default.
        delta : float
            δ in (0, 1) of the central guarantee.

        Returns
        -------
        str
            A paragraph and its numbered conditions.

        Raises
        ------
        BudgetError
            If the reports are not one pure ε-DP report per person under one budget for all, if public covariates tell
            whose they are (``private="response"``, but for ``y ~ 1``), `n` is not known, or the theorem does not cover
            the numbers.

        References
        ----------
        Feldman, McMillan & Talwar (2021), Hiding among the clones, Theorem III.1; `privacy.amplification.shuffled`.
        """
        if not self.budget.pure:
            raise BudgetError(
                f"shuffling amplifies pure epsilon, and this fit is {self.short}; ask for epsilon=1.0 without delta."
            )
        if self.linked:
            raise BudgetError(
                "with private='response' each report is multiplied by its sender's public covariates, which tell who "
                "sent it, so a shuffler hides nobody; ask for private='record', or for a model without covariates, "
                "'y ~ 1'."
            )
        if self.per_id > 1 or self.mu_max or self._central:
            what = "several rows per person" if self.per_id > 1 else "personal budgets" if self.mu_max else "a curator"
            raise BudgetError(
                f"the theorem on shuffling is about one local report per person under one budget for all, not {what}."
            )
        if n is None and not self.people:
            raise BudgetError("shuffled() needs the number of people who sent reports, n=10_000 say.")
        n = self.people if n is None else n
        here = self.budget.epsilon
        central = shuffled(here, n, delta)
        limit = shuffling_limit(n, delta)
        lead = "NOT AS RUN, because of seed=; with secret noise, i" if self.seeded else "I"
        if self.leaked:
            lead = f"Not counting {' and '.join(self.leaked)}, taken from the raw data: {lead.lower()}"
        out = [
            f"{lead}f, and only if, a trusted shuffler stood between the {n:,} people and the collector, all their "
            f"reports together would be ({at_least(central, 3)}, {delta:g})-DP towards whoever sees no more than the "
            f"shuffler passes on (Feldman, McMillan & Talwar 2021, Theorem III.1, neighbours replacing one record; it "
            f"asks for a local epsilon up to log(n/(16 log(2/delta))) = {limit:.3g}, here {here:g}). It assumes that",
            f"each person sends one report, which alone is pure {here:g}-DP;",
            "people are called in an order that is uniformly random and unknown to the attacker; the randomiser may "
            "depend on earlier reports and on the place in the order, never on who is called;",
            "nothing else, such as an address or a time of arrival, tells who sent which report.",
        ]
        last = (
            "This package sends the current state to one person after another and shuffles nothing. Whoever runs the "
            f"exchange knows who answered when: against them, only the local {here:g}-DP holds."
        )
        lines = [textwrap.fill(out[0], 78)]
        lines += [
            textwrap.fill(f"[{i}] {text}", 78, subsequent_indent="    ", break_on_hyphens=False)
            for i, text in enumerate(out[1:], 1)
        ]
        return "\n".join([*lines, textwrap.fill(last, 78)])

    # --- storage -----------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Represent by JSON values."""
        b, r = self.budget, self.release
        return {
            **{f.name: getattr(self, f.name) for f in fields(self) if f.name not in {"budget", "release"}},
            "budget": {"mu": b.mu if b.private else None, "form": b.form, "asked": list(b.asked)},
            "release": {"number": r.number, "total_mu": r.total_mu if r.total_mu < math.inf else None},
            "total_mu": self.total_mu if b.private else None,
            "guarantee": self.guarantee,
            "notes_about": notes_to_json(self.notes),
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> PrivacyStatement:
        """Rebuild from :meth:`to_json`, of this version or an older one."""
        b, r = doc["budget"], doc["release"]
        later = {
            name: doc[name] for name in ("noise", "protects", "mu_max", "per_id", "people", "linked") if name in doc
        }  # fields that older files lack
        # of an older file nothing tells whether there were covariates: taken as if
        later.setdefault("linked", later.get("protects", WHOLE_RECORD).startswith(RESPONSE_ALONE))
        return cls(
            budget=Budget(math.inf if b["mu"] is None else b["mu"], b["form"], tuple(b["asked"])),
            trust=doc["trust"],
            mechanism=doc["mechanism"],
            noise_sd=doc["noise_sd"],
            bound=doc["bound"],
            weights=doc["weights"],
            curvature=doc["curvature"],
            release=Release(r["number"], math.inf if r["total_mu"] is None else r["total_mu"]),
            declared=tuple((a, c) for a, c in doc["declared"]),
            notes=notes_from_json(doc["notes"], doc.get("notes_about")),
            seeded=doc["seeded"],
            leaked=tuple(doc["leaked"]),
            fit_measures=tuple((a, c) for a, c in doc.get("fit_measures", ())),
            mechanics=tuple(doc.get("mechanics", ())),
            **later,
        )

    # --- views -------------------------------------------------------------------------------------------

    def _layout(self) -> list[Part]:
        return [Pairs(self.rows(), "Privacy", self.loud), Notes(self.notes, "Notes:")]

    def as_json(self) -> str:
        """JSON text, read again by :meth:`from_json`."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False)

    def save(self, path: str | Path) -> None:
        """Write the statement to a file, atomically.

        Parameters
        ----------
        path : str or Path
            Its ending says in which form: .txt, .html or .json.

        Raises
        ------
        OptionError
            If the ending is another.
        SavedFileError
            If the file can't be written.
        """
        forms = {".txt": self.as_text, ".html": self._page, ".json": self.as_json}
        ending = choose("the ending of the file", Path(str(path)).suffix.lower(), forms)
        archive.write_bytes(path, (forms[ending]() + "\n").encode())

    def _page(self) -> str:
        return as_page("Privacy statement", self.as_html())


def success(mu: float) -> float:
    """How often a guess between two records sent with equal odds is right at best, under pure ε too: Φ(μ/2)."""
    return float(ndtr(mu / 2))


def often(right: float, alone: float | None = None) -> str:
    """Probability of a right guess in words; in brackets that after this release `alone`."""
    told = f"at most {at_least(100 * right, 3)}% of the time" if right < 0.999 else "practically always"
    if alone is None:
        return told
    return f"{told} (" + (f"{at_least(100 * alone, 3)}%" if alone < 0.999 else "so, too,") + " after this one alone)"


def releases_in_all(release: Release) -> str:
    """What several releases cost together, in a few words."""
    cost = f"{at_least(release.total_mu, 4)}-GDP" if release.total_mu < math.inf else "NOT PRIVATE"
    return f"{cost} in all {release.number} releases"


def guarantee_in_all(release: Release, whose: str, per: str = "") -> str:
    """The guarantee of several releases together from the data of those named by `whose`."""
    implied = Budget.declare(mu=release.total_mu).epsilon_at(REPORTED_DELTA)
    return (
        f"{at_least(release.total_mu, 4)}-GDP{per} in all {release.number} releases from {whose} so far, hence "
        f"({at_least(implied, 3)}, {REPORTED_DELTA:g})-DP"
    )


def none_in_all(release: Release, whose: str) -> str:
    """That one of several releases carried no noise."""
    return f"NONE in all {release.number} releases from {whose} so far, as one had no noise (mu=None)"


def unprotected(release: Release) -> str:
    """The same without symbols, before what this release alone means."""
    return f"Nobody is protected by all {release.number} releases: one carried no noise. After this one alone: "


_TRUST = {
    "simulated": "local, simulated: this process held the rows and played the devices; what is published is as private",
    "central plug-in": "local for the estimates; the plug-in covariance needed a trusted curator (one release)",
}
