"""One audit: trials of neighbours, whose reports are distinguished, against what is claimed of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.audit.neighbours import audit, delta_lower
from privreg.base.arrays import Array
from privreg.errors import OptionError, shown
from privreg.privacy.budget import Budget
from privreg.tables import Paragraph, Part, Table, View

LEAST: Final = 1000
MOST: Final = 10**7


class Trial(NamedTuple):
    """Two neighbours, and the guarantee claimed for their reports."""

    report: str  # Kind of report
    neighbours: str  # The two in words
    measure: str  # "mu", "epsilon", or "delta" at `epsilon`
    claimed: float
    draw: Callable[[int], tuple[Array, Array]]  # So many independent reports of each, shape (n, d) or (n,)
    distance: float = math.nan  # Distance of their reports, relative to the sensitivity that noise was made for
    direction: Array | None = None  # See `privreg.audit.neighbours.audit`
    epsilon: float = math.nan


def claim_of(budget: Budget) -> tuple[str, float]:
    """Measure of a budget and what it claims: ε if it is pure, else μ."""
    return ("epsilon", budget.epsilon) if math.isfinite(budget.epsilon) else ("mu", budget.mu)


@dataclass(frozen=True, repr=False)
class Verification(View):
    """Outcome of an audit of every kind of report that a fit used; its table has one line for each `Trial`."""

    table: pd.DataFrame
    claim: str
    alpha: float  # Probability that any limit is above its true value
    n: int  # Reports of each neighbour

    @property
    def passed(self) -> bool:
        """True if no lower limit exceeds the claim."""
        return bool((self.table["lower"] <= self.table["claimed"]).all())

    @property
    def _nearest(self) -> pd.Series:
        """The line that comes nearest to its claim, or exceeds it most."""
        return self.table.iloc[int(np.argmax(self.table["lower"] / self.table["claimed"]))]

    @property
    def claimed(self) -> float:
        """Claim of the trial that comes nearest to it."""
        return float(self._nearest["claimed"])

    @property
    def lower(self) -> float:
        """Lower confidence limit of that trial."""
        return float(self._nearest["lower"])

    def _layout(self) -> list[Part]:
        level = f"{1 - self.alpha:.6g}"
        found = "no limit exceeds the claim" if self.passed else "THE CLAIM IS EXCEEDED: this is a bug, report it"
        held = f"{self.n:,} reports of each neighbour; all lower limits hold together with probability {level}."
        # neighbours stand below each other, in a block for each kind of report
        head = ["distance", "measure", "claimed", "lower"]
        head = head[1:] if self.table["distance"].isna().all() else head
        names: list[str] = []
        rows: list[list[str]] = []
        blocks: dict[int, str] = {}
        for kind, neighbours, *values in self.table[["report", "neighbours", *head]].to_numpy():
            if kind not in blocks.values():
                blocks[len(names)] = kind
            first, _, second = neighbours.partition(" / ")
            names += [first, f"/ {second}"] if second else [first]
            row = [v if isinstance(v, str) else f"{v:.3f}" if v == 0.0 or v >= 0.001 else f"{v:.1e}" for v in values]
            rows += [row, [""] * len(row)] if second else [row]
        return [Paragraph(f"Audit of {self.claim}: {found}. {held}"), Table(names, head, rows, blocks=blocks)]


def verify(trials: Iterable[tuple[Any, ...]], *, claim: str, n: int, alpha: float, option: str = "n") -> Verification:
    """Try all trials, or tuples of their fields, with `n` reports of each neighbour; `claim` is in words.

    `alpha` is the probability that any limit exceeds its true value, `option` what the user calls `n`.
    Raises OptionError if `n` or `alpha` is out of range.
    """
    if isinstance(n, bool) or not isinstance(n, int) or not LEAST <= n <= MOST:
        raise OptionError(f"{option}={shown(n)} must be a whole number of reports, {LEAST:,} to {MOST:,}.")
    if not isinstance(alpha, float) or not 0.0 < alpha < 1.0:
        raise OptionError(f"alpha={shown(alpha)} must be a number in (0, 1); 1e-6 is usual.")
    tried = [Trial(*one) for one in trials]
    lines = []
    for t in tried:
        first, second = t.draw(n)
        if t.measure == "delta":
            lower = delta_lower(first, second, t.epsilon, alpha / len(tried))
        else:
            found = audit(first, second, alpha=alpha / len(tried), direction=t.direction)
            lower = found.epsilon_lower if t.measure == "epsilon" else found.lower
        lines.append((t.report, t.neighbours, t.distance, t.measure, t.claimed, lower))
    columns = ["report", "neighbours", "distance", "measure", "claimed", "lower"]
    return Verification(pd.DataFrame(lines, columns=columns), claim, alpha, n)
