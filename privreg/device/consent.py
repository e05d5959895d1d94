"""What a respondent is told before anything is computed, in words."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

from ..protocol.study import PublicPlan
from . import design

__all__ = ["LIMITS", "guess", "plain", "words"]

LIMITS: Final = (
    "The study learns that you took part, and your internet address when the report is sent. If this device's memory "
    "is lost, or you answer again elsewhere, two reports tell more about you than one: together they cost √2 times mu."
)


def guess(mu: float) -> float:
    """Share of right guesses, at best, of whoever must tell from a report which of two records made it: Φ(μ/2).

    Examples
    --------
    >>> round(guess(1.0), 3)
    0.691
    """
    return 0.5 * math.erfc(-0.5 * mu / math.sqrt(2.0))


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def words(plan: PublicPlan, unread: Sequence[str]) -> str:
    """Purpose, what is asked, and what it costs.

    Parameters
    ----------
    plan : PublicPlan
    unread : sequence of str
        Columns whose answers are missing or can't be read.
    """
    mu = plan.mu.p / plan.mu.q
    lines = [
        f"{plan.title}",
        "",
        plan.purpose,
        f"Contact: {plan.contact}. Open until {_day(plan.closes)}.",
        "",
        "Your answers stay on this device. It sends one report, once: a few numbers made of them, with random noise "
        "added. The noise hides your answers in part; how well is said next.",
        f"The guarantee is mu = {plan.title_of_mu}. Suppose somebody knows that your answers are one of two "
        f"possibilities. From your report they guess the right one at most {100.0 * guess(mu):.0f} times of 100. A "
        "coin guesses it 50 times.",
        "",
        "It is made of your answers to:",
        *(f"  {column.name}: {column.ask}" for column in design.used(plan)),
    ]
    if unread and plan.missing == "noise":
        lines += ["", f"Missing, or not to be read: {', '.join(unread)}. Your whole report will be noise."]
    if plan.missing == "refuse":
        lines += [
            "",
            "The study asks only who can answer everything: that you don't answer shows, and why can be guessed.",
        ]
    lines += ["", LIMITS]
    return plain("\n".join(lines))


def plain(text: str) -> str:
    """Text without control characters, which could rewrite what a terminal shows."""
    return "".join(c if c == "\n" or c.isprintable() else " " for c in text)
