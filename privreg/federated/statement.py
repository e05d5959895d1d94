"""Who is protected by a federated fit, and by how much: said in full, and checked by an audit on request."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privreg.diagnostics import Note
from privreg.federated.plan import Plan
from privreg.privacy.ledger import REPORTED_DELTA, Budget, Release, at_least
from privreg.results.statement import guarantee_in_all, none_in_all, often, releases_in_all, success, unprotected
from privreg.tables import Notes, Pairs, View

if TYPE_CHECKING:
    from privreg.federated.verification import Verdict
    from privreg.tables import Part

__all__ = ["ClientStatement"]

PROTECTS = (
    "one silo's whole contribution (client level): neighbours replace all records of one silo at once, and their "
    "number. Within its silo nobody is protected from the silo, which holds the raw records"
)


@dataclass(frozen=True, repr=False)
class ClientStatement(View):
    """The privacy statement of a federated fit. Public.

    Parameters
    ----------
    plan : Plan
    release : Release
        Releases from these silos in this process: the most that any of them has made.
    trust : {"simulated", "flower"}
        Whether one process held all silos' records and played them, or each silo randomised its own.
    seeded : bool
        Whether the noise can be drawn again by anybody who knows the seed.
    found : tuple of Note
        What the models of the rounds show, by which rows may be taken back.
    """

    plan: Plan
    release: Release
    trust: str
    seeded: bool = False
    found: tuple[Note, ...] = ()

    @property
    def budget(self) -> Budget:
        """What one silo may lose in all rounds."""
        return self.plan.budget

    @property
    def total_mu(self) -> float:
        """GDP parameter per silo of all rounds."""
        return self.plan.total_mu

    @property
    def loud(self) -> str | None:
        """What must not be overlooked, or None."""
        if not self.budget.private:
            return "NOT PRIVATE: mu=None, the updates carry no noise and protect nobody"
        return "NOT PRIVATE AS RUN: seed= lets anybody draw the noise again" if self.seeded else None

    @property
    def short(self) -> str:
        """The guarantee in a few words, for plots."""
        if not self.budget.private:
            return "NOT PRIVATE"
        return f"{self._amount} per silo{' (seeded)' if self.seeded else ''}"

    @property
    def headline(self) -> str:
        """What all releases of a silo cost together and then this one, in a few words, for captions."""
        if not self.budget.private or self.release.number < 2:
            return self.short
        return f"{releases_in_all(self.release)}, this one {self.short}"

    @property
    def _amount(self) -> str:
        return str(self.budget) if self.budget.pure else f"{at_least(self.total_mu, 4)}-GDP"

    @property
    def per_round(self) -> str:
        """What a silo loses in one round."""
        if not self.budget.private:
            return "everything: no noise"
        one, rounds = self.plan.mechanism.budget, self.plan.rounds
        if self.budget.pure:
            return f"{at_least(one.epsilon, 4)}-DP, pure; epsilon adds up over {rounds} rounds"
        own = f" (pure epsilon {at_least(one.epsilon, 4)})" if one.pure and not self.plan.mechanism.coordinates else ""
        return f"{at_least(self.plan.report_mu, 4)}-GDP{own}; times sqrt({rounds}) for {rounds} rounds"

    @property
    def guarantee(self) -> str:
        """What all releases of a silo cost together and then this one, true as it stands."""
        if not self.budget.private:
            return "NONE: mu=None asks for a fit without privacy, for teaching and tests"
        total = self.budget if self.budget.pure else Budget.declare(mu=self.total_mu)
        implied = (
            f"{at_least(total.mu, 4)}-GDP"
            if total.pure
            else (f"({at_least(total.epsilon_at(REPORTED_DELTA), 3)}, {REPORTED_DELTA:g})-DP")
        )
        text, whose = f"{self._amount} per silo in all, hence {implied}", "these silos"
        if self._again:
            text = f"{guarantee_in_all(self.release, whose, ' per silo')}; this fit alone: {text}"
        text = f"NONE as run, because of seed=; with secret noise {text}" if self.seeded else text
        return text if self._protected else f"{none_in_all(self.release, whose)}; this fit alone: {text}"

    @property
    def _again(self) -> bool:
        return self.release.number > 1 and self._protected

    @property
    def _protected(self) -> bool:
        return self.release.total_mu < math.inf

    @property
    def in_words(self) -> str:
        """What the guarantee of all releases together means for one silo, without symbols."""
        if not self.budget.private:
            return "Nobody is protected: the updates carry no noise."
        seen, told = "", often(success(self.total_mu))
        if self._again:
            seen = f" of all {self.release.number} releases"
            told = often(success(self.release.total_mu), success(self.total_mu))
        text = (
            f"Whoever sees every update and model{seen}, knows all other silos and guesses which of two possible data "
            f"sets a silo holds is right {told}; blind guessing is right 50%."
        )
        text = f"With secret noise, not as run: {text[0].lower()}{text[1:]}" if self.seeded else text
        return text if self._protected else f"{unprotected(self.release)}{text[0].lower()}{text[1:]}"

    @property
    def person(self) -> str:
        """What it means for one person."""
        if not self.budget.private:
            return "not protected"
        if not self._protected:
            return "not protected by all releases together"
        if self.budget.pure and not self._again:
            more = "k times the epsilon"
        else:
            total = self.release.total_mu if self._again else self.total_mu
            more = f"sqrt(k) times it, {at_least(math.sqrt(2.0) * total, 4)}-GDP for two"
        return (
            f"at least as well protected as their silo, if all their records are in one; with records in k silos {more}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Whatever qualifies the fit."""
        m, plan = self.plan.mechanism, self.plan
        out = [
            *self.found,
            "Coefficients have no standard errors: clipping and local steps move what rounds settle at, by an amount "
            "that depends on the silos and is not known.",
        ]
        if plan.weights is not None:
            out.append("The silos' weights were declared public and are protected by nothing.")
        if m.geometric and self.budget.private:
            if not m.debias:
                out.append("Angle noise shrinks the mean of a report towards zero, and debias=False leaves it so.")
            if m.beta < 1.0:
                out.append(f"Directions outside the fixed box of factor beta={m.beta:g} are moved into it: a bias.")
            if m.name == "ldpvec":
                out.append("Every update counts with the public magnitude, the clip, however short it was.")
        if self.budget.private:
            out.append("Noise is drawn in double precision: the guarantee holds up to floating-point rounding.")
        return tuple(out)

    def rows(self) -> list[tuple[str, str]]:
        """The statement as (label, text) pairs, which every view renders."""
        plan, m = self.plan, self.plan.mechanism
        bound = (
            f"l2 norm of the whole update at most {m.clip:.4g}, internal units; replacing it moves it by "
            f"{2 * m.clip:.4g}. All rounds together can move the model by {plan.rounds * m.clip:.4g}"
        )
        trust = {
            "simulated": "one process held all silos' records and played them; what is published has this guarantee",
            "flower": "every silo randomised its own updates before they were put in a message",
        }[self.trust]
        start = [("In words", self.in_words), ("Guarantee", self.guarantee)]
        public = [(f"Public: {name}", text) for name, text in plan.spec.declared("count for nothing")]
        if not self.budget.private:
            return [*start, ("Update bound", bound), *public]
        return [
            *start,
            ("Per round", self.per_round),
            ("Protects", PROTECTS),
            ("One person is", self.person),
            ("Trust model", trust),
            ("Mechanism", f"in each round {m.title}, {m.words()}"),
            ("Update bound", bound),
            ("Releases", self._releases()),
            *public,
        ]

    def _releases(self) -> str:
        r = self.release
        if r.number == 0:
            return "not counted here: every silo must add up the fits it takes part in"
        if r.number == 1:
            return "release 1 from these silos in this process"
        total = f"{at_least(r.total_mu, 4)}-GDP in all" if self._protected else "not private in all"
        return f"release {r.number} from one of these silos in this process: {total}"

    def verify(self, n: int = 20_000, *, alpha: float = 1e-6) -> Verdict:
        """Audit the mechanism on made-up silos whose updates lie as far apart as updates can.

        Parameters
        ----------
        n : int
            Reports of each neighbour.
        alpha : float
            Probability of a lower limit above the true value.
        """
        from privreg.federated.verification import verify_mechanism

        return verify_mechanism(self.plan.mechanism, rounds=1, n=n, alpha=alpha)

    def _layout(self) -> list[Part]:
        return [Pairs(self.rows(), "Privacy", self.loud), Notes(self.notes, "Notes:")]
