"""Information for respondents, in words, before anything is computed."""

import math
import shutil
import textwrap
import time
import unicodedata
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from privreg_field.wire.study import PublicPlan
from privreg_field.wire.trees import Column, label_text
from privreg_field.wire.wire import HIDDEN

from .memory import squares
from .report import design
from .report.answer import Answers, Rows

WIDEST: Final = 80  # Columns of a terminal that texts fill, at most

GO_ON: Final = "Go on with the answers as they are?"
QUESTION: Final = "Send one report?"

_TWICE: Final = (
    "If this device's memory is lost, or you answer again elsewhere, two reports tell more about you than one: "
    "together they cost √2 times mu."
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


def allowed(column: Column) -> str:
    """Allowed answers: a range, or levels by their codes, with their labels."""
    if column.levels:
        codes = [label_text(v) for v in column.levels]
        shown = column.labels and [f"{code} ({text})" for code, text in zip(codes, column.labels, strict=True)]
        return f"one of {', '.join(shown or codes)}"
    low, high = (f"{v:.15g}" for v in (column.low, column.high))
    if math.isfinite(column.low):
        return f"a number from {low} to {high}" if math.isfinite(column.high) else f"a number, {low} or more"
    return f"a number, {high} or less" if math.isfinite(column.high) else "a number"


def doubts(plan: PublicPlan, rows: Answers | Rows) -> list[str]:
    """For the respondent alone: a sentence for each answer out of bounds, and one for all that are missing, by row."""
    if isinstance(rows, Mapping) or len(rows) == 1:
        return _doubts(plan, rows if isinstance(rows, Mapping) else rows[0])
    return [f"Row {k}: {text}" for k, row in enumerate(rows, 1) for text in _doubts(plan, row)]


def _doubts(plan: PublicPlan, answers: Answers) -> list[str]:
    out = [
        f"Your answer to {column.name!r} is not {allowed(column)}: it counts as {kept:.15g}, the nearest that is."
        for column in plan.form
        if design.beyond(column, given := answers.get(column.name)) and (kept := design.read(column, given)) is not None
    ]
    unread = design.unread(plan, answers)
    if unread and plan.missing == "noise":
        blank, what = "zeros" if plan.collectors else "noise", "Your whole report"
        if plan.part.name or plan.table:
            what = "What is made of it"
        if plan.diary is not None:
            blank, what = "left out", "This row"
        out.append(f"Missing, or not to be read: {', '.join(map(repr, unread))}. {what} will be {blank}.")
    return out


def words(plan: PublicPlan, rows: Answers | Rows | None = None, year: Sequence[Fraction] = ()) -> str:
    """The study's own words, quoted, then the device's on what it costs, right above the question.

    Without `rows`, each answers by column, nothing is said of them. `year` are budgets μ of all reports of this year,
    with this one; this one alone by default.
    """
    year = year or [Fraction(*plan.together)]
    mu, together = plan.together.p / plan.together.q, math.sqrt(squares(year))
    about = [plan.title, "", plan.purpose, f"Contact: {plan.contact}. Open until {_day(plan.closes)}."]
    asks = [line for c in plan.form for line in (f"  {c.name}: {c.ask}", f"    {allowed(c)}")]
    theirs = quoted([*about, "", "Your report is made of your answers to:", *asks])
    lines = [] if rows is None else doubts(plan, rows)
    if plan.diary is not None:
        here = "" if rows is None else f" Here there are {1 if isinstance(rows, Mapping) else len(rows)}."
        lines.append(
            f"Your report is made of up to {plan.diary.rows} rows of answers, from {_day(plan.diary.until)} on.{here} "
            "The guarantee below is for all of them together, and for how many there are."
        )
    if plan.missing == "refuse":
        lines.append(
            "The study asks only who can answer everything: that you don't answer shows, and why can be guessed."
        )
    seen, either, each = "your report", "", ""
    if plan.collectors:
        seen, either = "all that they see", ", one of the operators included,"
        each = ", one operator of each included,"
    lines += _facts(plan)
    lines.append(
        f"The guarantee is mu = {plan.title_of_mu}. Suppose somebody{either} knows that your answers are one of two "
        f"possibilities. From {seen} they guess the right one at most {100.0 * guess(mu):.0f} times of 100. A coin "
        "guesses it 50 times."
    )
    lines.append(
        f"This would be study {len(year)} this year. From all of them together somebody{each} guesses right at most "
        f"{100.0 * guess(together):.0f} times of 100."
    )
    return "\n".join(
        ["The study says:", "", *theirs, "", "This device says:", *(f"\n{wrapped(text)}" for text in lines)]
    )


def _facts(plan: PublicPlan) -> list[str]:
    """Sentences on who learns what, and what becomes of the answers."""
    if not plan.collectors:
        return [
            f"The study learns that you took part, and your internet address when the report is sent. {_TWICE}",
            "Your answers stay on this device. It sends one report, once: a few numbers made of them, with random "
            "noise added. The noise hides your answers in part; how well is said next.",
        ]
    one, other = (f"{c.name!r} ({c.url}, {c.contact})" for c in plan.collectors)
    return [
        f"Two operators collect, who are not to put together what they hold. One is {one}. The other is {other}.",
        "Both operators learn that you took part, and your internet address when the report is sent. " + _TWICE,
        "Your answers stay on this device. It makes a few numbers of them, and splits each into two parts, which are "
        "random and add up to it. One part is sent to each operator, sealed so that nobody else can read it. Neither "
        "of them sees an answer of yours, or a number made of one. Both together could, if they broke their word. Each "
        "adds up its parts of everybody's numbers, and adds random noise: these sums alone are made public. The noise "
        "hides your answers in part; how well is said next.",
    ]


def _width() -> int:
    return max(16, min(shutil.get_terminal_size().columns, WIDEST))


def _broken(text: str, width: int, indent: str = "") -> list[str]:
    """A line in lines of a width in columns, of which some characters take two."""
    wide = any(unicodedata.east_asian_width(c) in "WF" for c in text)
    return textwrap.wrap(text, width // (1 + wide), subsequent_indent=indent)


def quoted(texts: Sequence[str]) -> list[str]:
    """Lines that are seen to be somebody else's: each has a mark, also where it was too long for one."""
    out = []
    for line in plain("\n".join(texts)).split("\n"):
        out += _broken(line, _width() - 6) or [""]
    return [f"  | {line}".rstrip() for line in out]


def wrapped(text: str) -> str:
    """A paragraph of the device's, whose further lines are indented: none that quotes a study begins as one of its."""
    return "\n".join(_broken(plain(text), _width(), "  "))


def plain(text: str) -> str:
    """Text whose control and invisible characters, which could rewrite what a terminal shows, are seen as codes."""
    return HIDDEN.sub(lambda c: c[0] if c[0] == "\n" else c[0].encode("unicode_escape").decode(), text)
