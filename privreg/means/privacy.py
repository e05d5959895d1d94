"""The privacy statement of mean and frequency estimates, and their summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from privreg.errors import BudgetError
from privreg.inference.methods import Normal
from privreg.privacy.ledger import Budget, Release
from privreg.results.statement import PrivacyStatement
from privreg.results.summary import Summary, caution, marked
from privreg.tables import Paragraph, Table, cells

if TYPE_CHECKING:
    from privreg.audit.verification import Verification
    from privreg.means.results import MeansResults

__all__ = ["WITHIN", "MeansStatement", "blank", "summarise"]

WITHIN: Final = (
    "one person's whole record, used once, but for the subgroup, whose members are public; neighbours replace one "
    "record"
)


@dataclass(frozen=True, repr=False)
class MeansStatement(PrivacyStatement):
    """Who is protected from what, by which mechanism. Public; fields as of `PrivacyStatement`.

    `weights` holds who is asked what, and `noise` what is done to each kind of answer.
    """

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> MeansStatement:
        """Rebuild from :meth:`to_json`."""
        plain = PrivacyStatement.from_json(doc)
        return cls(**{f.name: getattr(plain, f.name) for f in fields(plain)})

    def rows(self) -> list[tuple[str, str]]:
        """The statement as (label, text) pairs, which every view renders."""
        out = [("In words", self.in_words), ("Guarantee", self.guarantee)]
        if self.budget.private:
            out += [
                ("Protects", self.protects),
                ("Trust model", "local, simulated: this process held the rows and played the devices; what is "
                 "published is as private"),
                ("Asked", self.weights),
                ("Mechanism", self.noise),
                ("Releases", str(self.release)),
            ]  # fmt: skip
        return out + [(f"Public: {name}", text) for name, text in self.declared]

    def verify(self, n: int = 20_000, *, alpha: float = 1e-6) -> Verification:
        """Audit the mechanisms that were used, on made-up neighbours as far apart as rows can be.

        Parameters
        ----------
        n : int
            Reports that each neighbour sends, for every kind of answer and for whole reports.
        alpha : float
            Probability that any of the lower confidence limits lies above its true value.

        Returns
        -------
        Verification
            ``passed``, a ``table`` with a lower limit of ε (or μ) for each, and a text.

        Raises
        ------
        BudgetError
            If the estimates are not private.
        OptionError
            If `n` or `alpha` is out of range.
        """
        from privreg.means.verification import verify

        if not self.budget.private:
            raise BudgetError("there is no mechanism to audit: mu=None asked for no privacy.")
        return verify(self.mechanics, str(self.budget), n, alpha)


def blank(budget: Budget, release: Release, **known: Any) -> MeansStatement:
    """Statement with what regressions alone have left empty."""
    base: dict[str, Any] = {"trust": "simulated", "noise_sd": 0.0, "bound": 1.0, "curvature": ""}
    return MeansStatement(budget=budget, release=release, **{**base, **known})


def summarise(results: MeansResults, alpha: float = 0.05) -> Summary:
    """Summary of means, laid out as that of a regression; see `MeansResults.summary`."""
    table, statement = results.tidy(alpha=alpha), results.privacy
    law = f"limits are normal; {100 * (1 - alpha):.6g}% critical value {Normal().critical(alpha):.3f}"
    if results.biased:
        law += "; THESE ARE NOT MEANS: see the notes"
    below = (Paragraph(law), *caution(table, statement.notes, statement.doubts))
    shown = Table(marked(table), *cells(table, alpha, "estimate", 4))
    return Summary("Private Means and Frequencies", results.header, shown, below, statement)
