"""Words of privacy statements: those of each front door, and sentences that all of them share."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Final, NamedTuple

from scipy.special import ndtr

from privreg.collector.levels import SURE
from privreg.privacy.ledger import Budget, at_least
from privreg.tables.diagnostics import Diagnostic, doubt, note

WHOLE_RECORD: Final = "one person's whole record, used once; neighbours replace one record"
ALL_ROWS: Final = "one person, all rows, in one report; neighbours replace one person with all rows"
HELD_ROWS: Final = (
    "one person's whole record, in all rounds; neighbours replace one record",
    "one person, all rows, in all rounds; neighbours replace one person with all rows",
)
"""With a curator: of records, and of people with several rows."""
SILO_ROWS: Final = tuple(f"{words}; against everybody outside the person's silo" for words in HELD_ROWS)
"""With silos: of records, and of people with several rows."""
RECORDS: Final = {WHOLE_RECORD, HELD_ROWS[0], SILO_ROWS[0]}  # Neighbours replace a record
SETS_OF_ROWS: Final = {ALL_ROWS, HELD_ROWS[1], SILO_ROWS[1]}  # Neighbours replace a person with all rows
RESPONSE_ALONE: Final = "one person's response"


def whole_records(rows: int) -> str:
    """Protected part of a person of whom up to so many rows count."""
    if rows == 1:
        return WHOLE_RECORD
    return f"all of one person's records, up to {rows}, each used once; neighbours replace all records of one person"


class Setting(NamedTuple):
    """Words of a front door's statement: reports, senders, and rows to show."""

    rows: Sequence[tuple[str, str]]  # Between the guarantee and the releases: label, attribute of the statement
    bare: Sequence[str] = ()  # Labels of those that are shown without noise, too
    carries: Sequence[str] = ("the reports carry no noise", "protect nobody")
    sees: str = "everything published"
    sees_all: str = "everything published in all {} releases"
    guess: str = "knows all else and guesses which of {} a person sent"
    after: str = ""
    whose: str = "these data"
    one_of: str = "these data"  # Text where there were earlier releases
    per: str = ""
    alone: str = "this release alone"
    short: str = ""  # After the guarantee in a few words
    uncounted: str = ""  # Text of a release that nothing counts; "" as `Release` has it
    trust: Mapping[str, str] = {
        "simulated": "local, simulated: this process held the rows and played the devices; what is published is as "
        "private",
        "devices": "local: people's own devices randomised their reports; this process never saw a row",
        "central plug-in": "local for the estimates; the plug-in covariance needed a trusted curator (one release)",
    }
    no_audit: str = ""  # Why verify() is refused
    no_shuffling: str = ""


_TABLE: Final = tomllib.loads(files("privreg.results").joinpath("settings.toml").read_text("utf-8"))
SHUFFLED: Final = _TABLE.pop("shuffled")["text"]  # Guarantee that a trusted shuffler would give, and its conditions


SETTINGS: Final = dict[str, Setting]()
"""Words by front door: regression from reports, means, a trusted curator, federated fits."""
for _name, _row in _TABLE.items():
    _like = SETTINGS[_row.pop("like")]._asdict() if "like" in _row else {}
    SETTINGS[_name] = Setting(**_like | _row)

ALIKE: Final = 1.3
"""Part by which standard errors may be too small, as rows of one person are alike, from which on nobody should rely on
95% intervals: they cover 87%, or less."""

LARGE_DELTA: Final = 1e-3  # δ above which a note says what it means
LITTLE: Final = 1.05  # Share below which it isn't worth a note


def success(mu: float) -> float:
    """Chance that the best guess between two records sent with equal odds is right, under pure ε too: Φ(μ/2)."""
    return float(ndtr(mu / 2))


def often(right: float, alone: float | None = None) -> str:
    """Probability of a right guess in words; in brackets that after this release `alone`."""
    said = f"at most {at_least(100 * right, 3)}% of the time" if right < 0.999 else "practically always"
    if alone is None:
        return said
    return f"{said} (" + (f"{at_least(100 * alone, 3)}%" if alone < 0.999 else "so, too,") + " after this one alone)"


def opening_notes(
    budget: Budget,
    *,
    seeded: bool,
    leaked: Sequence[str] = (),
    missing: str = "noise",
    carries: str = "the reports carry no noise",
) -> list[Diagnostic]:
    """Notes on what weakens the claim of any front door."""
    out = [note("not_private", carries=carries)] if not budget.private else [note("seeded")] if seeded else []
    out += [note(f"leaked.{what}") for what in ("scale", "levels") if what in leaked]
    return out + ([note(f"missing.{missing}")] if missing != "noise" else [])


MANY, MOST, ROUNDED = 0.2, 0.9, 1e-6
"""Share that can't be used from which on declarations may be at fault; from which on results are not relied on; that
rounded sums take away without noise."""

MATCH: Final = (
    "see that the declared levels match the data, blanks too, that texts have levels= and dates have dates as bounds, "
    "that dates are written as 2020-12-31 and decimals with a point, without marks of thousands (of a CSV file else: "
    "pr.csv(path, dates=, decimal=), at the shell --dates and --decimal)"
)


class Unusable(NamedTuple):
    """Share of the records that could not be used, as reports show it."""

    share: float
    error: float  # Its standard error

    @classmethod
    def counted(cls, usable: float, noise: float, people: float) -> Unusable:
        """One less the mean of so many people's 1, or 0 if they can't be used, by the sd of that mean's noise."""
        inside = min(max(usable, 1.0 / (people + 1.0)), 1.0 - 1.0 / (people + 1.0))
        return cls(1.0 - usable, math.sqrt(noise**2 + inside * (1.0 - inside) / max(people, 1.0)))

    def noted(self, text: str, *, doubted: bool = True) -> tuple[Diagnostic, ...]:
        """The one rule of notes on it: none unless it is sure, advice if it is large, a doubt if hardly any is left."""
        text = f"{text}; {MATCH}" if self.share > MANY else text
        if self.gone and doubted:
            return (doubt("nonresponse", text, of="the results"),)
        return (Diagnostic("unusable", text),) if self.sure else ()

    @property
    def sure(self) -> bool:
        """True if it is surely above 0."""
        return self.share > max(SURE * self.error, ROUNDED)

    @property
    def few(self) -> bool:
        """True if it is surely below a half."""
        return self.share + SURE * self.error < 0.5

    @property
    def gone(self) -> bool:
        """True if hardly any record is left."""
        return self.sure and self.share > MOST

    def __str__(self) -> str:
        return f"{min(round(100 * self.share), 100)}% (± {max(2 * round(100 * self.error), 1)}%)"


def repeated_notes(rows: int, times: float) -> list[Diagnostic]:
    """Note on standard errors where several rows of one person count, at most `rows`.

    Errors are `times` as large as standard errors say if a person's rows are all alike.
    """
    if rows == 1 or times < LITTLE:
        return []
    return [note("repeated" if times < ALIKE else "alike", count=rows, times=times)]


def closing_notes(asked: Budget, kept: Budget, *, whole: bool = False) -> list[Diagnostic]:
    """Note on noise in reports, and on the budget `kept` if another form was `asked` for.

    `whole` says that noise is rounded to whole numbers, of which rounding tells nothing.
    """
    out = [note("pure", asked=asked, kept=kept)] if kept.pure and not asked.pure else []
    if asked.form == "epsilon, delta" and asked.asked[1] > LARGE_DELTA:
        out.append(note("delta", delta=asked.asked[1]))
    return [*out, note("rounding.reports")] if kept.private and not whole else out
