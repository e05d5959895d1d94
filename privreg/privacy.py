"""The privacy statement that comes with every result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from privreg.accounting import Budget, Release, compose

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
        Score weights in words.
    curvature : str
        What curvature was paid for.
    release : Release
        Releases from these data in this process.
    declared : tuple of (str, str)
        What was declared public, by column.
    notes : tuple of str
        Whatever weakens or qualifies the claim, numbered in print.
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
                ("Guarantee", "NONE: mu=None asks for a fit without privacy, for teaching and tests"),
                ("Score bound", f"{self.bound:.4g} (internal units), weights ω = {self.weights}"),
            ]
        epsilon, delta = self.budget.implied()
        out = [
            ("Guarantee", f"{self.budget}, hence ({epsilon:.3g}, {delta:g})-DP"),
            ("Protects", "one person's whole record, used once; neighbours replace one record"),
            ("Trust model", _TRUST[self.trust]),
            ("Mechanism", f"{self.mechanism}, noise sd {self.noise_sd:.4g} = 2 × bound / mu"),
            ("Score bound", f"{self.bound:.4g} (internal units), weights ω = {self.weights}"),
            ("Pilot, curvature", self.curvature),
            ("Releases", self._releases()),
        ]
        out += [(f"Public: {name}", text) for name, text in self.declared]
        return out

    def _releases(self) -> str:
        r = self.release
        if r.number == 1:
            return "release 1 from these data in this process"
        total = f"{r.total_mu:.4g}-GDP in all" if r.total_mu < float("inf") else "not private in all"
        return f"release {r.number} from these data in this process: {total}"

    def to_json(self) -> dict[str, Any]:
        """Represent by JSON values."""
        b, r = self.budget, self.release
        return {
            **{f.name: getattr(self, f.name) for f in fields(self) if f.name not in {"budget", "release"}},
            "budget": {"mu": b.mu if b.private else None, "form": b.form, "asked": list(b.asked)},
            "release": {"number": r.number, "total_mu": r.total_mu if r.total_mu < float("inf") else None},
            "noise_sd": self.noise_sd,
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
