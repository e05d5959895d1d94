"""The summary of a result as text, HTML and LaTeX.

Everything shown comes from ``results.tidy()``, the header of the fit and the privacy statement; nothing is
computed here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from privreg.collector.inference.methods import METHODS
from privreg.collector.inference.pivots import RandomScaling
from privreg.collector.inference.resampling import joint_critical
from privreg.errors import OptionError, flag, whole
from privreg.results.statement import HELD_ROWS, WHOLE_RECORD, PrivacyStatement
from privreg.tables import Header, Lines, Notes, Pairs, Paragraph, Part, Table, View
from privreg.tables.diagnostics import Diagnostic, for_reading
from privreg.tables.parts import MARK, WIDTH, estimates_table


@dataclass(frozen=True, repr=False)
class Summary(View):
    """Summary of a result on one screen: header, coefficients, guarantee, and notes that change the reading."""

    heading: str
    header: tuple[tuple[str, str], ...]  # Labels and words; what doesn't change the reading stands below the table
    table: Table
    below: tuple[Part, ...]  # Reference distribution of the numbers, further tables, and meaning of the mark
    statement: PrivacyStatement  # The guarantee is shown here, all of it by ``res.privacy``
    columns: tuple[str, ...] = ()  # Columns with declarations, which are left to the statement
    slim: bool = True  # True: no more than the guarantee and notes that change the reading
    whole: str = "res.privacy"  # Place of the whole privacy statement; "" in a document
    rest: str = "summary(details=True)"  # Call that shows the details

    @property
    def tables(self) -> list[Any]:
        """Header, coefficients (``tables[1]``, as in statsmodels) and guarantee as statsmodels' `SimpleTable`."""
        from statsmodels.iolib.table import SimpleTable  # slow to import

        shown = self.table
        none = [""] * len(shown.head)
        rows = [[name, *(none if numbers is None else numbers)] for name, numbers in [("", shown.head), *shown.lines()]]
        pairs = [[a, b] for a, b in self.header], [[a, b] for a, b in self._facts()]
        return [SimpleTable(pairs[0], title=self.heading), SimpleTable(rows), SimpleTable(pairs[1])]

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """The notes that are shown, numbered from 1."""
        shown = for_reading(self.statement.notes)
        return tuple(n for n in shown if not self.slim or n.severity != "info" or n.code in _READ)

    def cautioned(self, table: pd.DataFrame, taken_back: Sequence[str] | None = None) -> "Summary":
        """Add the meaning of the mark, with the numbers of the notes that say why, if a row of `table` has one."""
        if table["reliable"].all():
            return self
        doubts = self.statement.doubts if taken_back is None else taken_back
        *others, last = [f"[{i}]" for i, note in enumerate(self.notes, 1) if note in doubts]
        which = f"notes {', '.join(others)} and {last}" if others else f"note {last}"
        some, what = "MARKED " * bool(table["reliable"].any()), "INTERVALS" if "conf_low" in table else "ESTIMATES"
        mark = Paragraph(f"{MARK} DON'T RELY ON THE {some}{what}: see {which}", "caution")
        return replace(self, below=(*self.below, mark))

    def _facts(self) -> list[tuple[str, str]]:
        """The guarantee, and what was done with records beside the bounds and levels of columns."""
        s = self.statement
        out = [("Guarantee", s.guarantee)]
        usual = (WHOLE_RECORD, HELD_ROWS[0]) if self.slim else (WHOLE_RECORD,)
        out += [("Protects", s.protects)] if s.budget.private and s.protects not in usual else []
        out += [(f"Released: {name}", cost) for name, cost in s.fit_measures]
        if self.slim:
            return out
        out += [("Trust model", s.trust_words)] if s.trust != "simulated" else []
        # the bounds themselves are in the statement only
        declared = ((n, text.replace("these bounds", "the declared bounds")) for n, text in s.declared)
        return out + [(f"Public: {name}", text) for name, text in declared if name not in self.columns]

    def _layout(self) -> list[Part]:
        above = _ABOVE if "Dep. Variable" in dict(self.header) else _ABOVE | {"Formula"}
        head = Header([pair for pair in self.header if pair[0] in above], self.heading, self.statement.loud)
        others = [pair for pair in self.header if pair[0] not in above and not self.slim]
        facts, notes = Pairs(self._facts()), Notes(self.notes, "Notes:")
        rest = f"More: {self.rest}; privacy statement: " if self.slim else "All of the privacy statement: "
        more = [Paragraph(rest + self.whole)] if self.whole else []
        double, first = Lines(("=" * WIDTH,)), [Pairs(others)] * bool(others)
        return [head, self.table, double, *first, *self.below, facts, *more, notes]

    def _exported(self) -> list[Part]:
        return replace(self, whole="")._layout()


_ABOVE: Final = frozenset({
    "Dep. Variable", "No. Observations", "Trust", "Inference", "Family", "Clusters", "Unusable", "Silos", "Mechanism",
    "Protocol",
})  # fmt: skip
_READ: Final = frozenset({"binary", "remark", "unusable", "within"})
"""Codes of notes that only explain, without which coefficients would be misread."""


def laid_out(self: Any, table: pd.DataFrame, heading: str, slim: bool, **how: Any) -> Summary:
    """Summary of results by their tidy `table`, of a multinomial fit with a block for each level; `how` lays it out."""
    fit, schema = self._fit, self._fit.design.schema
    response, levels = fit.design.endog_name, fit.baseline
    base, terms = f"  (baseline {response}={levels[0]})" if levels else "", len(table) // max(len(levels) - 1, 1)
    blocks = {i * terms: f"{response}={level}{base}" for i, level in enumerate(levels[1:])}
    shown = estimates_table(table, names=table["term"], blocks=blocks, **how)
    # all but dates, whose unit coefficients go by
    columns = [c for c in (*schema.bounds, *schema.levels, *schema.moments, *schema.private) if c not in schema.dates]
    return Summary(heading, fit.title, shown, (), self.privacy, tuple(columns), slim)


def summary(
    self: Any,
    alpha: float = 0.05,
    *,
    details: bool = False,
    slim: bool | None = None,
    exponentiate: bool = False,
    title: str | None = None,
    method: str | None = None,
    simultaneous: bool = False,
    digits: int | None = None,
) -> Summary:
    """Coefficients, method and guarantee, as text, HTML or LaTeX; :attr:`privacy` has the whole statement.

    Rows that should not be relied on are marked, and a line below the table names the notes that say why. With
    `details`, or ``slim=False``, which goes first, tuning, score weights, estimand, declarations and every note are
    shown, too. `exponentiate` and `simultaneous` are as in `PrivateResults.tidy`; `digits` are decimals of all numbers,
    in place of those that two figures of the least standard error need. ``tables`` has the parts as statsmodels'
    `SimpleTable`, the coefficients in ``tables[1]``.
    """
    fit, slim = self._fit, not flag("details", details) if slim is None else flag("slim", slim)
    if title is not None and not isinstance(title, str):
        raise OptionError(f"title must be a text, got {type(title).__name__}.")
    below, header, several = list[Paragraph](), fit.title, len(fit.estimates) > 1
    table = self.tidy(exponentiate, alpha=alpha, method=method, simultaneous=simultaneous)
    e = self._estimate(method) if fit.estimates else None
    if e is not None and not np.isnan(e.variances).all():
        used, called = METHODS[e.method].title, e.pivot.label
        if isinstance(e.pivot, RandomScaling):
            called = f"random-scaling limit{f' of {e.pivot.lanes} groups' if e.pivot.lanes > 1 else ''}"
        critical = np.atleast_1d(joint_critical(e.pivot, e.cov, alpha) if simultaneous else e.pivot.critical(alpha))
        words = f"{100 * (1 - alpha):.6g}% critical value {critical[0]:.3f}"
        if len(critical) > 1:
            words = f"{100 * (1 - alpha):.6g}% critical values {critical.min():.3f} to {critical.max():.3f}"
        words = f"the {len(table)} intervals hold together, {words}" if simultaneous else words
        below = [Paragraph(f"std err by {used}; " * several + f"t and P>|t| refer to the {called}; {words}")]
    if exponentiate:
        ratios = "exp(coef) is exp(estimate), with the limits exponentiated too; std err and t are those of the log"
        below.append(Paragraph(ratios))
    if several and e is not None:
        used = METHODS[e.method].title
        others = ", ".join(title for title in dict(header).get("Inference", "").split(", ") if title != used)
        header = tuple((k, f"{used}; also {others}" if k == "Inference" else words) for k, words in header)
    digits, first = None if digits is None else whole("digits", digits, 0, 15), "exp(coef)" if exponentiate else "coef"
    title = "Private Online Regression Results" if title is None else title
    made = laid_out(self, table, title, slim, alpha=alpha, first=first, digits=digits)
    return replace(made, header=header, below=tuple(below)).cautioned(table, self._doubts(method))
