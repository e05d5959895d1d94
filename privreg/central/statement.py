"""The privacy statement of a trusted curator's release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from privreg.diagnostics import Diagnostic
from privreg.errors import BudgetError
from privreg.privacy.ledger import REPORTED_DELTA, Release, at_least
from privreg.results.statement import PrivacyStatement, unprotected
from privreg.simulation.statements import SEED_NOTE

if TYPE_CHECKING:
    from privreg.audit.verification import Verification
    from privreg.central.plan import Plan
    from privreg.formula.spec import ModelSpec

__all__ = ["CURATOR", "CentralStatement", "make_statement"]

CURATOR: Final = "trusted curator: whoever runs this sees all rows; only the release is private"
ROUNDING: Final = "noise is drawn in double precision: the guarantee holds up to floating-point rounding"
_PROTECTS: Final = (
    "one record, a row with all its values; neighbours replace one record, so the number of records is public; who has "
    "several rows is protected less"
)


@dataclass(frozen=True, repr=False)
class CentralStatement(PrivacyStatement):
    """What a curator's release protects, and from whom. Public.

    Parameters
    ----------
    gaussian : bool
        Whether the release is one Gaussian mechanism, so that it is μ-GDP with the budget's μ.
    right : float
        Probability with which the best guess between two records is right.
    certain_mu : float
        GDP parameter that holds whichever records the curator's random samples took, as if everybody saw which. Where
        the release is one Gaussian mechanism it is the budget's own. Where (ε, δ) relies on the samples being secret
        it is larger than they suggest; but it composes with other releases, as a root of squares, which they don't.
    """

    gaussian: bool = True
    right: float = 1.0
    certain_mu: float = 0.0

    @property
    def total_mu(self) -> float:
        """GDP parameter per person of this release: the budget's, or `certain_mu`."""
        return self.budget.mu if self.gaussian else self.certain_mu

    @property
    def loud(self) -> str | None:
        """What must not be overlooked, or None."""
        if not self.budget.private:
            return "NOT PRIVATE: mu=None, the release carries no noise and protects nobody"
        return super().loud

    @property
    def _pair(self) -> str:
        epsilon, delta = self.budget.asked
        return f"({epsilon:g}, {delta:g})-DP"

    @property
    def short(self) -> str:
        """The guarantee in a few words, for tables and plots."""
        if self.gaussian or not self.budget.private:
            return super().short + ("" if not self.budget.private else ", central")
        return f"{self._pair}{' (seeded)' if self.seeded else ''}, central"

    def _hence(self) -> str:
        return f"{super()._hence() if self.gaussian else self._pair}, of what is released, per record"

    @property
    def in_words(self) -> str:
        """What the guarantee means for one person, without symbols."""
        if not self.budget.private:
            return "Nobody is protected: the release carries no noise."
        seen, told = self._seen(self.right)
        what = "the release" if not seen else f"everything published{seen}"
        text = (
            f"Whoever sees {what}, knows all other records and guesses which of two possible records was among "
            f"them is right {told}; blind guessing is right 50%. The curator sees every record."
        )
        text = f"With secret noise, not as run: {text[0].lower()}{text[1:]}" if self.seeded else text
        return text if self._protected else f"{unprotected(self.release)}{text[0].lower()}{text[1:]}"

    def rows(self) -> list[tuple[str, str]]:
        """The statement as (label, text) pairs, which every view renders."""
        public = [(f"Public: {name}", text) for name, text in self.declared]
        if not self.budget.private:
            return [("In words", self.in_words), ("Guarantee", self.guarantee), ("Trust model", CURATOR), *public]
        releases = str(self.release)
        if not self.gaussian:
            releases += (
                f"; counted as {at_least(self.certain_mu, 3)}-GDP beside others: that holds whichever records the "
                "samples took"
            )
        out = [
            ("In words", self.in_words),
            ("Guarantee", self.guarantee),
            ("Protects", self.protects),
            ("Trust model", CURATOR),
            ("Mechanism", f"{self.mechanism}, {self.noise}"),
            ("Sensitivity", self.weights),
            ("Releases", releases),
        ]
        return out + public

    def shuffled(self, n: int | None = None, delta: float = REPORTED_DELTA) -> str:
        """Refuse: there are no reports to shuffle.

        Raises
        ------
        BudgetError
        """
        del n, delta
        raise BudgetError("a trusted curator's release has no reports to shuffle; shuffled() is for trust='local'.")

    def verify(self, n: int = 20_000, *, alpha: float = 1e-6) -> Verification:
        """Refuse: a curator's release is audited by `privreg.central.audit`, which runs it.

        Raises
        ------
        BudgetError
        """
        del n, alpha
        raise BudgetError(
            "verify() audits people's reports; audit a curator's release by pr.central.audit(...), which runs it again "
            "and again on two neighbouring data sets made up for it."
        )

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> CentralStatement:
        """Rebuild from :meth:`to_json`."""
        base = PrivacyStatement.from_json(doc)
        own = {name: doc[name] for name in ("gaussian", "right", "certain_mu")}
        if own["certain_mu"] is None:
            own["certain_mu"] = float("inf")
        return cls(**{f.name: getattr(base, f.name) for f in fields(base)}, **own)

    def to_json(self) -> dict[str, Any]:
        """Represent by JSON values."""
        out = super().to_json()
        return out if self.budget.private else {**out, "certain_mu": None}

    def with_release(self, release: Release) -> CentralStatement:
        """Return the statement of the same release as the ledger numbered it."""
        return replace(self, release=release)


def make_statement(spec: ModelSpec, plan: Plan, *, n: int, seeded: bool) -> CentralStatement:
    """State what a plan's release protects; its number in the ledger is filled in when it is made."""
    private, k, c = spec.budget.private, plan.epochs, plan.constants
    if plan.perturbation == "gradient":
        over = "all records" if plan.gaussian else "each Poisson sample"
        how = "the steps compose to mu" if plan.gaussian else "accounted by privacy loss distributions"
        noise = f"noise sd {plan.noise_sd:.4g} on the sum over {over}, {how}"
        bound = f"2G = {2 * plan.move:.4g} for each sum (internal units); one record's gradient ‖∂f‖ ≤ G"
    else:
        each = f"passes K = {k}" if plan.order == "permuted" else "draws K ~ Bin(T, 1/n), of which the mean is shown"
        rule = "2GηK" if c.alpha == 1.0 else "c η^(1/(1−α)) √T + 2GηK"
        noise = f"noise sd {plan.noise_sd:.4g} on each coordinate of " + (
            "the average" if len(plan.sizes) == 1 else "each lane's average"
        )
        bound = (
            f"Δ(K) = {rule} = {plan.move:.4g} (internal units), {each}; alpha = {c.alpha:.4g}, L = {c.holder:.4g}, "
            f"G = {c.gradient:.4g}"
        )
    out = []
    if not private:
        out.append(Diagnostic("not_private", "mu=None: NOT private; the release carries no noise"))
    elif seeded:
        out.append(SEED_NOTE)
    if private and len(plan.sizes) > 1:
        text = (
            f"each of {len(plan.sizes)} lanes spends the whole budget on its own records; a record is in one of them, "
            "by a draw that does not look at it"
        )
        out.append(Diagnostic("split", text))
    if private:
        out.append(Diagnostic("rounding", ROUNDING))
    return CentralStatement(
        budget=spec.budget,
        trust="curator",  # the base class knows "central" as the plug-in beside local reports
        mechanism=f"Gaussian {plan.perturbation} perturbation",
        noise_sd=plan.noise_sd,
        noise=noise,
        protects=_PROTECTS,
        people=n,
        bound=c.gradient,
        weights=bound,
        curvature="",
        release=Release(0, spec.budget.mu),
        declared=spec.declared("count for nothing"),
        notes=tuple(out),
        seeded=seeded and private,
        gaussian=plan.gaussian,
        right=(1.0 + plan.delta(0.0)) / 2.0 if private else 1.0,
        certain_mu=spec.budget.mu if plan.gaussian else plan.certain_mu(),
    )
