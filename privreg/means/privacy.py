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
from privreg.tables import limits_header, number

if TYPE_CHECKING:
    from privreg.audit.verification import Verification
    from privreg.means.results import MeansResults

__all__ = ["WITHIN", "MeansStatement", "MeansSummary", "blank"]

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


class MeansSummary(Summary):
    """Header, estimates and privacy statement, laid out as those of a regression.

    Parameters
    ----------
    results : MeansResults
    alpha : float
        One minus the level of the intervals.
    """

    heading = "Private Means and Frequencies"

    def __init__(self, results: MeansResults, alpha: float = 0.05) -> None:
        table = results.tidy(alpha=alpha)
        self._title, self._statement = results.header, results.privacy
        self._response, self._levels, self._terms = "", (), len(table)
        critical = Normal().critical(alpha)
        self._law = f"limits are normal; {100 * (1 - alpha):.6g}% critical value {critical:.3f}"
        if results.biased:
            self._law += "; THESE ARE NOT MEANS: see the notes"
        self._names = marked(table)
        self._caution = caution(table, self._statement.notes, self._statement.doubts)
        self._head = ["estimate", "std err", *limits_header(alpha)]
        columns = [[number(v, 4) for v in table["estimate"]]]
        columns += [[number(v, 4) for v in table[c]] for c in ("std_error", "conf_low", "conf_high")]
        self._rows = [list(row) for row in zip(*columns, strict=True)]
