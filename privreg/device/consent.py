"""What a respondent is told before anything is computed, in words."""

from __future__ import annotations

import math
import shutil
import textwrap
import time
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from ..protocol.study import PublicPlan
from ..protocol.wire import HIDDEN
from . import design
from .memory import squares

LIMITS: Final = (
    "The study learns that you took part, and your internet address when the report is sent. If this device's memory "
    "is lost, or you answer again elsewhere, two reports tell more about you than one: together they cost √2 times mu."
)

STAYS: Final = (
    "Your answers stay on this device. It sends one report, once: a few numbers made of them, with random noise added. "
    "The noise hides your answers in part; how well is said next."
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


def words(plan: PublicPlan, unread: Sequence[str], year: Sequence[Fraction] = ()) -> str:
    """Who asks what, quoted; and in the device's words what it costs, at the end, right above the question.

    Parameters
    ----------
    plan : PublicPlan
    unread : sequence of str
        Columns whose answers are missing.
    year : sequence of Fraction
        Budgets μ of all reports of this year, with this one; this one alone by default.
    """
    year = year or [Fraction(*plan.mu)]
    mu, together = plan.mu.p / plan.mu.q, math.sqrt(squares(year))
    asks = [f"  {column.name}: {column.ask}" for column in design.used(plan)]
    about = [plan.title, "", plan.purpose, f"Contact: {plan.contact}. Open until {_day(plan.closes)}."]
    lines = ["The study says:", "", *quoted([*about, "", "Your report is made of your answers to:", *asks])]
    lines += ["", "This device says:"]
    blank = "zeros" if plan.collectors else "noise"
    if unread and plan.missing == "noise":
        lines += ["", f"Missing: {', '.join(map(repr, unread))}. Your whole report will be {blank}."]
    if plan.missing == "refuse":
        lines += [
            "",
            "The study asks only who can answer everything: that you don't answer shows, and why can be guessed.",
        ]
    either, seen = "", "From your report"
    if plan.collectors:
        either, seen = ", one of these two included,", "From all that they see"
    lines += [
        "",
        LIMITS,
        "",
        STAYS if not plan.collectors else _parted(plan),
        f"The guarantee is mu = {plan.title_of_mu}. Suppose somebody{either} knows that your answers are one of two "
        f"possibilities. {seen} they guess the right one at most {100.0 * guess(mu):.0f} times of 100. A coin guesses "
        "it 50 times.",
        f"This would be study {len(year)} this year. Who sees the reports to all of them guesses right at most "
        f"{100.0 * guess(together):.0f} times of 100.",
    ]
    return plain("\n".join(lines))


def _parted(plan: PublicPlan) -> str:
    """What becomes of answers where there are two collectors."""
    one, other = (f"{c.name!r} ({c.url})" for c in plan.collectors)
    return (
        "Your answers stay on this device. It makes a few numbers of them, and splits each into two parts, which are "
        f"random and add up to it. One part is sent to {one}, the other to {other}, sealed so that nobody else can "
        "read it. Neither of them sees an answer of yours, or a number made of one. Both together could, if they "
        "broke their word. Each adds up its parts of everybody's numbers, and adds random noise: these sums alone are "
        "made public. The noise hides your answers in part; how well is said next."
    )


def quoted(texts: Sequence[str]) -> list[str]:
    """Lines that are seen to be somebody else's: each has a mark, also where it was too long for one."""
    width = max(10, min(shutil.get_terminal_size().columns, 100) - 6)
    out = []
    for line in plain("\n".join(texts)).split("\n"):
        wide = any(unicodedata.east_asian_width(c) in "WF" for c in line)
        out += textwrap.wrap(line, width // (1 + wide)) or [""]
    return [f"  | {line}".rstrip() for line in out]


def plain(text: str) -> str:
    """Text whose control and invisible characters, which could rewrite what a terminal shows, are seen as codes."""
    return HIDDEN.sub(lambda c: c[0] if c[0] == "\n" else c[0].encode("unicode_escape").decode(), text)
