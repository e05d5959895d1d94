"""A plan played on rows as it goes in the field: reports that never come, or come rounds later, in any order.

Devices and the collector are those of every fit. A report is noised by its device, once, whenever it arrives: sums are
kept separate by when their reports arrive, and each of them has the noise of its own reports.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.base.arrays import Array, Ints
from privreg.collector import design
from privreg.collector import rounds as collector
from privreg.collector.design import Chain
from privreg.data.sources.open import CHUNK, check_columns, open_arrays
from privreg.errors import DataError, OptionError, UnsupportedArgumentError, choose, number, shown
from privreg.fits.fit_plan import FitPlan
from privreg.fits.outcome import Held
from privreg.formula.batches import read_arrays
from privreg.privacy.ledger import LEDGER
from privreg.privacy.noise import derived_key, fresh_key, seeded_key, words
from privreg.results.results import PrivateResults
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.streaming.encoding import Block
from privreg.simulation.streaming.stream import begin

DRAWN: Final = 1 << 14  # Records whose arrival is drawn together, by their place in the order
LATEST: Final = 100  # Rounds that a report may be late


def simulate(
    plan: FitPlan, rows: Any, *, dropout: float = 0.0, late: int = 0, order: str = "random", seed: int | None = None
) -> PrivateResults:
    """Play a plan on rows: every record's device answers one public state, if its answer ever arrives.

    Parameters
    ----------
    plan : FitPlan
        Of ``model.plan()``.
    rows : DataFrame, mapping of arrays, path of a file, or (endog, exog[, offset[, exposure]]) for array models
        Records, each used once.
    dropout : float
        Share of the records whose report never arrives, in [0, 1), whatever they hold. It costs people, nothing else.
    late : int
        Rounds by which reports of main rounds are late: each arrives up to so many rounds after its own, all delays
        equally likely. It is filed under the state that it answered, the collector uses it from then on, and the
        estimate is made when all have arrived.
    order : {"random", "position"}
        Which record answers which state. "random" (default): by a keyed hash, independent of where the record lies, so
        that a sorted table does no harm; rows of files are dealt as for a fit. "position": as rows lie, as those of
        streams, queries and a single CSV file must be.
    seed : int, optional
        Reproducible noise and arrivals: it protects nobody, and the results say so.

    Returns
    -------
    PrivateResults
        Their `rounds` tell how many records were asked, and how many reports came.

    Warns
    -----
    ReliabilityWarning
        Once, if rows of the results should not be relied on; it names them and why.

    Raises
    ------
    OptionError, UnsupportedArgumentError
        If an option is out of range, or rows can't be taken in random order.
    NotPrivateError
        If these are the plan's public `covariates`.
    BudgetError
        If it would exceed the limit that `privreg.limit_spending` has set; nothing is then spent.
    DataError, SchemaError
        If rows can't be used; no message quotes a value.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import privreg as pr
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"x": rng.uniform(-1, 1, 20_000)})
    >>> people["y"] = 1 + people["x"] + rng.normal(0, 0.3, 20_000)
    >>> model = pr.PrivateOnlineRegression.from_formula("y ~ x", people, bounds={"x": (-1, 1), "y": (-2, 4)}, mu=2)
    >>> res = pr.simulate(model.plan(), people, dropout=0.3, late=5, seed=1)
    >>> bool(res.nobs < 15_000)
    True
    """
    if not isinstance(plan, FitPlan):
        raise OptionError(f"plan is of type {type(plan).__name__}; give the plan of a fit, model.plan().")
    if plan.settings.tuning == "published":
        raise OptionError(
            "tuning='published' is a single chain, in which every report waits for those before; "
            "plan with the default tuning."
        )
    share = number("dropout", dropout, "be a share of the records, 0 or more and below 1", high=1.0, closed=True)
    if isinstance(late, bool) or not isinstance(late, int) or not 0 <= late <= LATEST:
        raise OptionError(f"late={shown(late)} must be a whole number of rounds, 0 to {LATEST}.")
    choose("order", order, ("random", "position"))
    stream = begin(plan.spec, replace(plan.asked, order=None), plan.start_params, seed, plan.rows)
    run = stream._run
    secret = fresh_key() if seed is None else seeded_key(seed)
    if isinstance(run, RoundsRun):
        stream._run = FieldRun(run, derived_key(secret, "arrival"), share, late)
    elif share or late:
        raise UnsupportedArgumentError(
            f"dropout= and late= are about local reports: with {plan.spec.holders} whoever does not answer is in no "
            "sum, so give the rows of those who do."
        )
    stream._run.shuffled = math.inf if order == "random" else 0.0
    spec, table = plan.spec, plan.spec.design
    if getattr(table, "formula", None) is None:
        if not isinstance(rows, tuple) or not 2 <= len(rows) <= 4:
            raise DataError(
                "rows of an array model are a tuple: (endog, exog), then offset and exposure if it has them."
            )
        endog, exog, offset, exposure = (*rows, None, None)[:4]
        held = read_arrays(endog, exog, offset, table.names, table.endog_name, exposure)
        source = open_arrays(held[2:], rows)
    else:
        if isinstance(rows, pd.DataFrame | Mapping):
            check_columns(rows, spec.columns)
        source = spec.open(rows)
    if order == "random" and (source.dealt is None or source.mixed < math.inf):
        raise UnsupportedArgumentError(
            f"random slots need rows that can be addressed, and those of {source.kind} are read as they come; say "
            "order='position', or give a DataFrame, arrays or Parquet files."
        )
    source = source.of(plan.dataset)
    if plan.asked.covariates is not None:
        plan.asked.covariates.refuse(source.identity)
    LEDGER.check(source.identity, stream.total_mu)
    stream.charge = stream.charged(source.identity)
    key = derived_key(secret, "slots")
    if order == "position" or source.dealt is None:
        batches = source.batches(0)
    elif source.at is None or source.rows is None:
        batches = source.dealt(key)(0)
    else:  # records in the order of their hashes
        at, turn = source.at, np.argsort(words(key, source.rows), kind="stable")
        batches = (at(turn[a : a + CHUNK]) for a in range(0, len(turn), CHUNK))
    for _ in stream._update_all(batches, 1):
        pass
    lost = f"{share:.4g} of the reports lost, those" if share else "reports"
    said = f"{lost} of main rounds up to {late} rounds late" if late else lost.removesuffix(", those")
    res = stream._results(added=[("Arrival", f"simulated: {said}")] if share or late else ())
    res._caution()
    return res


# --- the field -------------------------------------------------------------------------------------------------


class _Due(NamedTuple):
    """Reports on their way."""

    arrives: int  # Round in which they arrive
    answered: int  # Number of the state that they answered
    reports: design.Batch  # Reports of people who were counted when they were asked


class FieldRun(RoundsRun):
    """A stream of which some reports never arrive, and others of main rounds come later.

    `run`, of the same plan, has had nobody; what becomes of each report follows from `key`. `dropout` is the share that
    never arrives, and those of main rounds are `late` rounds late at most.
    """

    def __init__(self, run: RoundsRun, key: bytes, dropout: float, late: int) -> None:
        self._arrival, self._dropout, self._late = key, dropout, late
        self._due: list[_Due] = []
        self._heard: dict[int, int] = {}  # Records whose report came or will come, by round
        self._entered = 0
        super().__init__(run.plan, run.key, personal=run.personal, unusable=run.unusable)

    @property
    def delays(self) -> tuple[int, ...]:
        """Shape of the delays by which sums of main rounds are separate."""
        return (self._late + 1,) if self.state.role == "main" and self._late else ()

    @property
    def came(self) -> list[int]:
        """Records that have reported in each round, the present one last."""
        return [self._heard.get(k, 0) for k in range(len(self.progress.held) + 1)]

    @property
    def people(self) -> int:
        """Records that have reported."""
        return sum(self._heard.values())

    def _sent(self, rows: Block) -> Block:
        """Rows with the fate of their reports: a lost one has weight 0, others a delay of some rounds."""
        many, first = len(rows.y), self._entered
        self._entered += many
        parts = range(first // DRAWN, -(-self._entered // DRAWN))
        drawn = [words(derived_key(self._arrival, f"part {k}"), DRAWN) for k in parts]
        here = np.concatenate(drawn)[first % DRAWN :][:many] if drawn else np.zeros(0, dtype=np.uint64)
        weight = rows.weight
        if self._dropout:
            lost = (here >> np.uint64(32)).astype(np.float64) < self._dropout * 2.0**32
            weight = np.where(lost, 0.0, 1.0 if weight is None else weight)
        delay = ((here & np.uint64(0xFFFFFFFF)) % np.uint64(self._late + 1)).astype(np.int64)
        return rows._replace(weight=weight, delay=delay)

    def _sums(self, rows: Block, number: int, groups: int | None = None) -> Ints:
        """Sums of one block's reports, by when they arrive.

        Noise of single reports is the same by every delay, and each report has a weight in one of them.
        """
        return np.asarray(self._by_delay(rows, partial(super()._sums, number=number, groups=groups)))

    def _weights(self, rows: Block, groups: int) -> Array:
        return np.asarray(self._by_delay(rows, partial(super()._weights, groups=groups)))

    def _by_delay(self, rows: Block, of: Callable[[Block], Any]) -> Any:
        """Results of `of` a block by the delay of reports: records whose reports have another one have weight 0."""
        if not self.delays:
            return of(rows)
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        each = (rows._replace(weight=np.where(rows.delay == k, weight, 0.0)) for k in range(self._late + 1))
        return [of(one) for one in each]

    def _take(self, some: Ints, rows: Block, groups: int) -> None:
        super()._take(some, rows, groups)
        number = self.state.number
        heard = len(rows.y) if rows.weight is None else int(np.count_nonzero(rows.weight))
        self._heard[number] = self._heard.get(number, 0) + heard

    @property
    def reports(self) -> design.Batch:
        """Reports that the round's records have sent, whenever they arrive."""
        if not self.delays:
            return super().reports
        return design.Batch(self.begun, self.total.sum(axis=0), self.weight.sum(axis=0))

    def _finish(self) -> None:
        """End the round: the collector takes the reports that have arrived."""
        self.close()
        number, reports = self.state.number, self.reports
        everything = self.plan.role(number + 1) == "measures"  # of the estimate, which waits for all
        if self.delays and not everything:
            for k in range(1, self._late + 1):
                self._due.append(_Due(number + k, number, design.Batch(0, self.total[k], self.weight[k])))
            reports = design.Batch(self.begun, self.total[0], self.weight[0])
        by = math.inf if everything else number
        self.chain = self._arrived([one for one in self._due if one.arrives <= by])
        self._due = [one for one in self._due if one.arrives > by]
        self._over(reports)

    def _arrived(self, due: list[_Due]) -> Chain:
        """Chain once these have arrived."""
        progress = self.progress
        for one in due:
            progress = collector.late(progress, one.answered, one.reports)
        return self.chain._replace(history=(*self.chain.history[:-1], progress))

    def held(self) -> Held:
        """Public values from which results are made, once all reports have arrived."""
        return replace(super().held(), chain=self._arrived(self._due))
