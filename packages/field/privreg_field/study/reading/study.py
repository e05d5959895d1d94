"""A study that somebody collects elsewhere, as its analyst sees it.

Everything that the server says is verified: states by the plan's keys, the chain by hashes, and every state is made
again from the sums that it follows from. The estimates are computed here.
"""

from __future__ import annotations

import json
import textwrap
import threading
from collections.abc import Sequence
from html import escape
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.collector.design import Chain
from privreg.errors import OptionError, StudyError, choose, shown
from privreg.fits.fit_plan import FitPlan
from privreg.means.results.shares import TableOne
from privreg.results.base import Results
from privreg_field.collector import chain as chains
from privreg_field.collector.chain import Cells
from privreg_field.device.consent import WIDEST, plain
from privreg_field.study.reading.collected import chain_of, fit_plan_of, read_cells, table_of
from privreg_field.study.reading.collected import results as results_of
from privreg_field.study.reading.picture import Followed, live
from privreg_field.study.servers import Server, opened
from privreg_field.wire import messages, wire
from privreg_field.wire.analyses import hash_of_part
from privreg_field.wire.study import PublicPlan
from privreg_field.wire.wire import MessageError


class _Known(NamedTuple):
    """Sums and states that the server has published, verified."""

    chain: Chain
    cells: Cells
    is_open: bool
    issued: int


class Shown:
    """A study as text, and as a table of a notebook."""

    def _lines(self) -> list[tuple[str, str]]:
        """Names, and what is said of each."""
        raise NotImplementedError

    def __repr__(self) -> str:
        lines = self._lines()
        wide = max(len(name) for name, _ in lines) + 2
        return "\n".join(
            textwrap.fill(f"{name + ':':<{wide}}{words}", WIDEST, subsequent_indent=wide * " ") for name, words in lines
        )

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in self._lines())
        return f"<table><caption>A study in the field</caption>{rows}</table>"


class Study(Shown):
    """A study with one analysis that is collected elsewhere; made by `privreg.connect`.

    `servers` are at the analysis's address; `payload` is that of the plan, whose signature was verified.
    """

    answers_formulas: Final = True  # Tells `from_formula` that it is no rows

    def __init__(self, servers: Sequence[Server], signed: PublicPlan, payload: bytes) -> None:
        self._servers, self.signed = servers, signed
        self.plan_hash = hash_of_part(wire.hash_of(payload), signed.part.name)
        self._states: list[bytes] = []  # Hashes of those that were verified
        self._is_open, self._people = True, 0
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        """Make what states follow from, before the first report."""
        self._chain = chain_of(self.signed)

    # --- what is asked ---------------------------------------------------------------------------------

    @property
    def plan(self) -> FitPlan:
        """The public plan of the fit; `privreg.simulate` plays it."""
        if self.signed.table:
            raise StudyError("a table has no plan of a fit; study.table() and study.results() have its estimates.")
        return fit_plan_of(self.signed)

    @property
    def formula(self) -> str:
        """The formula that was signed."""
        return self.plan.formula

    def _get(self, path: str) -> bytes:
        return self._servers[0].get(path)

    def _known(self) -> _Known:
        """Ask what came, and verify it."""
        with self._lock:  # of `live`, which asks in a thread of its own
            return self._asked()

    def _asked(self) -> _Known:
        try:
            said = json.loads(self._get("cells"))
            record = wire.Record(said, "the sums")
            record.fixed("v", wire.VERSION)
            record.text("study", 63)
            if record.binary("plan_hash", wire.KEY) != self.plan_hash:
                raise StudyError("the sums are those of another plan.")
            last, issued = record.integer("state", 0, 1 << 31), record.integer("issued", 0, 1 << 48)
            snapshots = [read_cells(one, self.signed) for one in record.items("snapshots")]
            cells = read_cells(record.take("cells"), self.signed)
            return self._follow(last, snapshots, cells, issued)
        except (MessageError, ValueError, RecursionError) as e:
            raise StudyError(f"the study's server sends what is no answer of a collector: {e}") from None

    def _follow(self, last: int, snapshots: Sequence[Cells], cells: Cells, issued: int) -> _Known:
        """Verify states that are new, each made again from what came before."""
        people = sum(c.people for c in cells.values())
        if last + 1 < len(self._states) or people < self._people:
            raise StudyError("the study's server has gone back: it says less than it has said before.")
        if last > len(self.signed.rounds) + 1:
            raise StudyError("the study's server has more states than the plan has rounds.")
        if any(place.state > last for one in (cells, *snapshots) for place in one):
            raise StudyError("the study's server has reports to a state that was not published.")
        for k in range(len(self._states), last + 1):
            if not self._is_open:
                raise StudyError("the study's server has gone on after the study has closed.")
            payload = opened(self._get(f"states/{k}"), "state", self.signed.keys)
            state = messages.read_state(payload, self.signed, self.plan_hash)
            before = self._states[-1] if self._states else self.plan_hash
            if k and state.open:
                if len(snapshots) < k:
                    raise StudyError("the study's server leaves out sums that its states follow from.")
                self._chain = chains.closed(self._chain, self.signed.roles, snapshots[k - 1])
            if not messages.follows(state, chains.present_ask(self._chain), k, before):
                raise StudyError(
                    f"state {k} does not follow from the sums before it: the collector asked something else, or its "
                    "sums were changed."
                )
            self._states.append(wire.hash_of(payload))
            self._is_open = state.open
        if snapshots and not _holds(cells, snapshots[-1]):
            raise StudyError("the sums of now lack reports that states follow from.")
        self._people = people
        return _Known(self._chain, cells, self._is_open, issued)

    # --- what is known ---------------------------------------------------------------------------------

    def results(self, name: str | None = None) -> Any:
        """Results of all that came by now.

        Parameters
        ----------
        name : str, optional
            Of the analysis; there is one.

        Returns
        -------
        PrivateResults, or MeansResults of a table

        Raises
        ------
        InferenceError
            While reports still set the scales: not yet enough.
        StudyError
            If the server can't be reached, or what it says can't be verified.

        Warns
        -----
        ReliabilityWarning
            If rows of the results should not be relied on.
        """
        self._must_be(name)
        return self._warned()

    def _must_be(self, name: str | None) -> None:
        """Refuse the name of another analysis than this one. Raises OptionError."""
        part = self.signed.part.name
        if name is not None and not part:
            raise OptionError(f"analysis={shown(name)}: the study has one analysis, which has no name; leave it out.")
        if name is not None:
            choose("analysis", name, (part,))

    def _warned(self) -> Any:
        """Results, after a warning of rows not to be relied on, at the line of whoever asked."""
        res = self._estimated()
        res._caution()
        return res

    def table(self, name: str | None = None) -> TableOne:
        """Describe the respondents by a study's table; see `results`, whose `crosstab()` has its two-way tables.

        Raises
        ------
        StudyError
            Also if the analysis is a regression.
        """
        self._must_be(name)
        if not self.signed.table:
            raise StudyError("this analysis is a regression; results() has its estimates.")
        made: TableOne = self.results(name).table_one()
        return made

    def _estimated(self) -> Results:
        known = self._known()
        return results_of(self.signed, known.chain, known.cells, invited=known.issued or None)

    def live(self, *, every: float = 2.0) -> Any:
        """Show the study in a notebook, and go on showing what comes: the curves of its dashboard.

        Parameters
        ----------
        every : float
            Seconds between two questions to the server.

        Returns
        -------
        anywidget.AnyWidget
            As the last line of a cell it is shown. It ends when the study has closed, or by ``stop()``.

        Raises
        ------
        MissingExtraError
            If anywidget isn't installed.
        OptionError
            If `every` is no such number.

        Notes
        -----
        While the study is open, intervals for one look are not valid for stopping early; the band that is valid at
        every look begins at 30,000 reports that enter the estimate.
        """
        return live({"": self.followed}, every)

    @property
    def followed(self) -> Followed:
        """The study as a dashboard follows it."""
        return Followed(self.signed.study, self._counts, self._estimated)

    def _counts(self) -> bytes:
        """Counts by minute and state, as the server tells them."""
        return self._get("progress")

    @property
    def rounds(self) -> pd.DataFrame:
        """Reports by state: state, role, reports, and how many close it (none: it stays open)."""
        known, counts = self._known(), dict[int, int]()
        for place, cell in known.cells.items():
            counts[place.state] = counts.get(place.state, 0) + cell.people
        lines = []
        for k, asked in enumerate(known.chain.history):
            last = k == len(known.chain.batches)
            end: Any = known.chain.ask.ends if last else counts.get(k, 0)
            lines.append((k, asked.state.role, counts.get(k, 0), pd.NA if end is None else end))
        return pd.DataFrame(lines, columns=["state", "role", "reports", "closes_at"]).astype({"closes_at": "Int64"})

    def model(self, formula: str, asked: dict[str, Any]) -> StudyModel:
        """The model of the signed plan, if that is what is asked for.

        Parameters
        ----------
        formula : str
        asked : dict
            Options of `from_formula` that were given.

        Raises
        ------
        StudyError
            If anything differs from what was signed; it is named.
        """
        spec = self.plan.spec
        if "".join(formula.split()) != "".join(spec.formula.split()):
            raise StudyError(f"the plan that was signed has the formula {spec.formula!r}; a study has that alone.")
        schema = spec.design.schema
        signed: dict[str, Any] = {
            "family": spec.family,
            "mu": spec.budget.mu,
            "bounds": dict(schema.bounds),
            "levels": {k: list(v) for k, v in schema.levels.items()},
            "private": spec.private,
            "trust": spec.trust,
        }
        for name, value in asked.items():
            if not _agree(name, value, signed):
                raise StudyError(f"{name}={shown(value)} is not what the plan has that was signed; leave {name}= out.")
        return StudyModel(self)

    # --- shown -----------------------------------------------------------------------------------------

    def _lines(self) -> list[tuple[str, str]]:
        signed = self.signed
        plan = table_of(signed) if signed.table else self.plan
        model = [("Table", plan.formula)]
        if not signed.table:
            model = [("Formula", plan.formula), ("Family", repr(self.plan.family))]
        return [
            ("Study", f"{plain(signed.title)} ({signed.study})"),
            ("Purpose", " ".join(plain(signed.purpose).split())),
            ("Contact", plain(signed.contact)),
            *model,
            ("Guarantee", f"{plan.guarantee}: exact, devices add noise in whole numbers"),
            *self._now(),
        ]

    def _now(self) -> list[tuple[str, str]]:
        """Lines on reports and the state."""
        known = self._known()
        people = sum(c.people for c in known.cells.values())
        of = f" of {known.issued:,} invited" if known.issued else ""
        last = len(known.chain.batches)
        return [
            ("Reports", f"{people:,}{of}"),
            ("Round", f"{last} of about {len(self.signed.rounds)}, {'open' if known.is_open else 'closed'}"),
        ]


class StudyModel:
    """The model of a signed plan; made by ``from_formula(formula, study)``."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def fit(self) -> Any:
        """Results of all that came by now; see `Study.results`."""
        return self._study.results()

    def plan(self) -> FitPlan:
        """The public plan of the fit."""
        return self._study.plan


def _holds(cells: Cells, before: Cells) -> bool:
    """True if all reports of `before` are among those of `cells`."""
    for place, cell in before.items():
        now = cells.get(place)
        if now is None or now.people < cell.people:
            return False
        if now.people == cell.people and not np.array_equal(now.sums, cell.sums):
            return False
    return True


def _agree(name: str, value: Any, signed: dict[str, Any]) -> bool:
    if name not in signed:
        return False
    entry = signed[name]
    if name in {"bounds", "levels"}:
        return isinstance(value, dict) and all(k in entry and [*v] == [*entry[k]] for k, v in value.items())
    if name == "family":
        return bool(value == entry or (isinstance(value, str) and value.lower() == type(entry).__name__.lower()))
    return bool(value == entry)
