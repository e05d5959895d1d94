"""The privacy statement that comes with every result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from privreg.accounting import REPORTED_DELTA, Budget, Release, at_least, compose, gdp_epsilon
from privreg.inference import DOUBT

__all__ = ["PrivacyStatement"]


@dataclass(frozen=True)
class PrivacyStatement:
    """Who is protected from what, by which mechanism, and what weakens it. Public.

    Parameters
    ----------
    budget : Budget
        Budget per person.
    trust : str
        "simulated": one process held the rows and played the devices. "central plug-in": a curator's
        one-time release was added.
    mechanism : str
        The mechanism with its guarantee.
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
        Whatever weakens or qualifies the claim, numbered in print.
    seeded : bool
        Whether the noise can be drawn again by anybody who knows the seed.
    leaked : tuple of str
        Declarations ("levels", "scale") that were taken from the raw data.
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
    def doubts(self) -> tuple[str, ...]:
        """The notes that take the intervals back."""
        return tuple(note for note in self.notes if note.startswith(DOUBT))

    @property
    def short(self) -> str:
        """The guarantee in a few words, for tables and plots."""
        if not self.budget.private:
            return "NOT PRIVATE"
        return f"{at_least(self.total_mu, 4)}-GDP" + (" (seeded)" if self.seeded else " (leaks)" if self.leaked else "")

    @property
    def guarantee(self) -> str:
        """The guarantee in one sentence that is true as it stands."""
        if not self.budget.private:
            return "NONE: mu=None asks for a fit without privacy, for teaching and tests"
        epsilon, delta = gdp_epsilon(self.total_mu, REPORTED_DELTA), REPORTED_DELTA
        text = f"{self.budget}, hence ({at_least(epsilon, 3)}, {delta:g})-DP"
        if self.trust.startswith("central"):
            total = at_least(self.total_mu, 4)
            text = (
                f"{total}-GDP in all, hence ({at_least(epsilon, 3)}, {delta:g})-DP: {self.budget} locally for the "
                f"estimates, {self.budget} by a trusted curator for the plug-in matrices"
            )
        if self.leaked:
            text += f"; except for {' and '.join(self.leaked)}, taken from the raw data without any privacy"
        return f"NONE as run, because of seed=; with secret noise {text}" if self.seeded else text

    @property
    def total_mu(self) -> float:
        """GDP parameter per person of this release alone, curator's part included."""
        if self.trust.startswith("central"):
            return compose([self.budget.mu, self.budget.mu])
        return self.budget.mu

    def rows(self) -> list[tuple[str, str]]:
        """The statement as (label, text) pairs, which every view renders."""
        if not self.budget.private:
            return [
                ("Guarantee", self.guarantee),
                ("Score bound", self.weights),
            ]
        out = [
            ("Guarantee", self.guarantee),
            ("Protects", "one person's whole record, used once; neighbours replace one record"),
            ("Trust model", _TRUST[self.trust]),
            ("Mechanism", f"{self.mechanism}, noise sd {self.noise_sd:.4g} = 2 × bound / mu"),
            ("Score bound", self.weights),
            ("Pilot, curvature", self.curvature),
            ("Releases", self._releases()),
        ]
        out += [(f"Public: {name}", text) for name, text in self.declared]
        return out

    def _releases(self) -> str:
        r = self.release
        if r.number == 0:
            return "not counted: rows that come as a stream have no source to count by; add up fits on the same people"
        if r.number == 1:
            return "release 1 from these data in this process"
        total = f"{at_least(r.total_mu, 4)}-GDP in all" if r.total_mu < float("inf") else "not private in all"
        return f"release {r.number} from these data in this process: {total}"

    def to_json(self) -> dict[str, Any]:
        """Represent by JSON values."""
        b, r = self.budget, self.release
        return {
            **{f.name: getattr(self, f.name) for f in fields(self) if f.name not in {"budget", "release"}},
            "budget": {"mu": b.mu if b.private else None, "form": b.form, "asked": list(b.asked)},
            "release": {"number": r.number, "total_mu": r.total_mu if r.total_mu < float("inf") else None},
            "total_mu": self.total_mu if b.private else None,
            "guarantee": self.guarantee,
        }

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> PrivacyStatement:
        """Rebuild from :meth:`to_json`."""
        b, r = doc["budget"], doc["release"]
        inf = float("inf")
        return cls(
            budget=Budget(inf if b["mu"] is None else b["mu"], b["form"], tuple(b["asked"])),
            trust=doc["trust"],
            mechanism=doc["mechanism"],
            noise_sd=doc["noise_sd"],
            bound=doc["bound"],
            weights=doc["weights"],
            curvature=doc["curvature"],
            release=Release(r["number"], inf if r["total_mu"] is None else r["total_mu"]),
            declared=tuple((a, c) for a, c in doc["declared"]),
            notes=tuple(doc["notes"]),
            seeded=doc["seeded"],
            leaked=tuple(doc["leaked"]),
        )

    def as_text(self) -> str:
        """Plain text with numbered notes."""
        from privreg.summary import privacy_text

        return privacy_text(self)

    def __str__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        from privreg.summary import privacy_html

        return privacy_html(self)


_TRUST = {
    "simulated": "local, simulated: this process held the rows and played the devices; what is published is as private",
    "central plug-in": "local for the estimates; the plug-in covariance needed a trusted curator (one release)",
}
