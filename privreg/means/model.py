"""The front door: what to estimate, of whom, under which budget."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never

from privreg.data.participants import Participants
from privreg.data.sources.open import check_columns, check_declared, completed, open_table, refuse_bare
from privreg.errors import DataError, FormulaError, OptionError, UnsupportedArgumentError, real
from privreg.formula.language.parse import refuse_other
from privreg.formula.language.spelling import as_labelled, label_of, schema_labelled
from privreg.means.plan import Plan, declared
from privreg.means.results.results import MeansResults
from privreg.means.results.shares import TableOne
from privreg.means.results.survival import SurvivalCurves
from privreg.means.stream import MeansStream, refuse_few
from privreg.means.terms import EVENTS, Asked, flat, read_columns, read_formula
from privreg.options.running import progress_bar
from privreg.options.table import accepted, check, documented
from privreg.options.unknown import not_fitted, refuse_positional, refuse_unknown
from privreg.privacy.accounts import named
from privreg.privacy.ledger import LEDGER, UNSET, Budget
from privreg.schema.declarations import Schema, combined
from privreg.tables.diagnostics import caution


@documented("means.arrays")
class PrivateMeans:
    """Means of numeric columns and frequencies of factors under differential privacy, in one pass.

    Parameters
    ----------
    columns : sequence of str or (str, str)
        Columns to estimate. With `levels` a column is a factor, with `bounds` a number. Of two factors in a pair the
        shares of all pairs of levels are estimated, a two-way table; see :meth:`MeansResults.crosstab`.
    data : DataFrame, mapping, path or paths, table, query, iterable of DataFrames, or None
        As of `PrivateOnlineRegression.from_formula`, with the public declarations that they may carry. None for a model
        fed by :meth:`start` only.
    **options : `options/parameters.toml`

    Notes
    -----
    An item is a number, whether there is one where there may be nothing to tell, or a factor with all its levels.
    Subgroups count by their public numbers of people. Where noise falls on sums everybody is asked everything.

    References
    ----------
    Duan (2025), Benchmarking and enhancing the utility of differential privacy for data mining applications, LDPTube,
    Theorem 3 for subgroups; Wang et al. (2019), for asking m of d.

    Examples
    --------
    >>> import privreg as pr
    >>> people = pr.datasets.us_insurance(20_000)
    >>> model = pr.means.PrivateMeans.from_formula(
    ...     "age + bmi + C(smoker) ~ 1", people, epsilon=1,
    ...     bounds={"age": (18, 65), "bmi": (18, 50)}, levels={"smoker": ["no", "yes"]})
    >>> model.fit(progress=False).params.index.tolist()
    ['age', 'bmi', 'smoker[no]', 'smoker[yes]']
    """

    def __init__(
        self,
        columns: Sequence[str | tuple[str, str] | Asked],
        data: Any = None,
        *,
        mu: Any = UNSET,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        levels: Any = None,
        schema: Any = None,
        mechanism: Any = "auto",
        frequencies: Any = "auto",
        m: Any = None,
        trust: str = "local",
        by: str | None = None,
        by_budget: Any = None,
        id: str | None = None,
        max_per_id: int = 1,
        missing: str = "noise",
        dataset: Any = None,
        **unknown: Never,
    ) -> None:
        refuse_unknown("means.arrays", unknown)
        asked, labels = read_columns(columns), check_columns(data, ())
        id, by = label_of(id, labels), label_of(by, labels)
        people = Participants.declare(id=id, max_per_id=max_per_id, missing=missing)
        budget = Budget.declare(mu, epsilon, delta, rho)
        asked = [one if one.kind else one._replace(columns=label_of(one.columns, labels)) for one in asked]
        # the user's declarations, those that the data carry about other columns, and those that Surv() makes itself
        columns_of = [*flat(asked), *([by] if isinstance(by, str) else [])]
        labels = check_columns(data, columns_of)
        bounds, levels = (as_labelled(declared, labels) for declared in (bounds, levels))
        public = completed(combined(schema_labelled(schema, labels), bounds, levels, {}), data, columns_of)
        if labels is not None and len(public.carried):
            check_declared({"bounds": bounds, "levels": levels}, [*columns_of, *labels])
        for one in (one for one in asked if one.kind == "Surv"):
            last = real(one.cuts[-1] if one.cuts else None)
            *start, time, event = one.columns
            if last is not None and last > 0.0 and time not in public.levels:
                bounds_of = {**dict.fromkeys([*start, time], (0.0, 2.0 * last)), **public.bounds}
                if bounds_of[time][1] == last:  # who is followed for longer is beyond, and not clamped to the cut point
                    bounds_of[time] = bounds_of[time][0], 2.0 * last
                public = replace(public, bounds=bounds_of)
            given: dict[str, Any] = dict(public.bounds)
            if given.get(event, EVENTS) == EVENTS:  # such bounds say no more than that it is 0 or 1
                given.pop(event, None)
                public = replace(public, levels={event: EVENTS, **public.levels}, bounds=given)
        how = {"mechanism": mechanism, "frequencies": frequencies, "m": m}
        how["trust"] = check("means.arrays", "trust", trust)
        self._spec = spec = declared(asked, budget, public, people, by, by_budget, **how)
        wanted = (*spec.columns, *people.columns)
        self._source = None if data is None else open_table(data, wanted, spec.schema, text=people.text).of(dataset)
        self._dataset = dataset
        if self._source is not None and self._source.rows is not None:
            refuse_few(self._source.rows)

    @classmethod
    def from_formula(cls, formula: str, data: Any = None, **options: Any) -> "PrivateMeans":
        """Describe the estimates by a formula; `data` and options are those of the class.

        Columns are joined by +, with 1 on the right: ``"age + bmi + C(smoker) ~ 1"``. ``Q("body mass")`` names a column
        with a blank, ``C(smoker):C(region)`` a two-way table, ``"Surv(time, event, [30, 60, 90]) ~ C(arm)"`` curves.
        """
        refuse_unknown("means.formula", [name for name in options if name not in accepted("means.formula")])
        refuse_other(formula)
        try:
            asked = read_formula(as_labelled(formula, check_columns(data, ())))
        except FormulaError:
            refuse_bare(formula, data)
            raise
        return cls(asked, data, **options)

    @property
    def formula(self) -> str:
        """The formula."""
        return self._spec.formula

    @property
    def schema(self) -> Schema:
        """Public declarations."""
        return self._spec.schema

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Questions, people asked and randomisation, by subgroup. Public."""
        return self._spec.plans

    def __repr__(self) -> str:
        return f"<PrivateMeans: {self.formula!r}, {self._spec.budget}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}

    if not TYPE_CHECKING:  # type checkers would take every name for one that is there

        def __getattr__(self, name: str) -> Any:
            raise not_fitted(name, type(self), MeansResults)

    def start(self, *, seed: int | None = None, **unknown: Never) -> MeansStream:
        """Begin estimates that are fed batch by batch, with ``update(batch)`` and ``results()`` at any time.

        Under a limit (`privreg.limit_spending`) it is a BudgetError, as a stream has no source to count by but a
        `dataset`; an UnsupportedArgumentError if noise is added to sums, which is done once.
        """
        refuse_unknown("means.start", unknown)
        if self._spec.trust != "local":
            raise UnsupportedArgumentError(
                f"with trust={self._spec.trust!r} noise is added once, to sums of all rows, so there is no start(); "
                "fit() takes rows in batches, too."
            )
        LEDGER.check(named(None, self._dataset), self._spec.total_mu)
        return MeansStream(self._spec, check("means.fit", "seed", seed), self._dataset)

    @documented("means.fit")
    def fit(self, *, seed: int | None = None, progress: bool | None = None, **unknown: Never) -> MeansResults:
        """Let every person's device send its report, in one pass, and return the results.

        Parameters
        ----------
        **options : `options/parameters.toml`

        A ReliabilityWarning names rows of the results not to be relied on, and why. A limit (`privreg.limit_spending`)
        that this would exceed is a BudgetError, before anything is spent; too few people are an InferenceError, rows
        that can't be used a DataError or SchemaError, which quotes no value.
        """
        refuse_unknown("means.fit", unknown)
        res = self._released(seed, progress)
        res._caution()
        return res

    def _released(self, seed: Any, progress: Any) -> MeansResults:
        """Results without a warning of what is unreliable."""
        check("means.fit", "progress", progress)
        if self._source is None:
            raise DataError("this model has no data; use start() and update(batch), or build it with data.")
        stream = MeansStream(self._spec, check("means.fit", "seed", seed))
        with progress_bar(self._source.expected(), progress) as bar:
            return stream.of(self._source, bar)


def estimate(
    data: Any,
    columns: Any = None,
    *,
    formula: str | None = None,
    seed: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> MeansResults:
    """Estimate means and frequencies in one line; data and options as of :class:`PrivateMeans`, and of its ``fit``.

    `columns` are a formula, or names of columns; `formula` may be given in their place.
    """
    if (columns is None) == (formula is None):
        raise OptionError("say what to estimate: columns, as in ['age', 'bmi'], or formula='age + C(smoker) ~ 1'.")
    columns = formula if columns is None else columns
    _refuse("means.formula" if isinstance(columns, str) else "means.arrays", options, "estimate", "formula")
    make = PrivateMeans.from_formula if isinstance(columns, str) else PrivateMeans
    return make(columns, data, **options).fit(seed=seed, progress=progress)


def table_one(data: Any, columns: Any = None, *, by: str | None = None, **options: Any) -> TableOne:
    """Describe people in the table that opens a paper: means and shares of everybody and of public subgroups.

    `data`, `columns` and ``**options`` are as of :func:`estimate`; `by` is a column of *public* subgroups, its levels
    declared. Everybody is in one of them, so that the table costs each person the budget once.

    Examples
    --------
    >>> import privreg as pr
    >>> table = pr.means.table_one(pr.datasets.us_insurance(20_000), "age + C(smoker)", mu=1, trust="central",
    ...                            bounds={"age": (18, 65)}, levels={"smoker": ["no", "yes"]}, progress=False)
    >>> table.frame()["variable"].unique().tolist()
    ['age', 'smoker']
    """
    return estimate(data, columns, by=by, **options).table_one()


def survival(
    data: Any, formula: Any = None, *more: Never, method: str = "life_table", seed: int | None = None,
    progress: bool | None = None, **options: Any,
) -> SurvivalCurves:  # fmt: skip
    """Estimate survival curves by group: life tables, or Kaplan and Meier's, with a log-rank test.

    Parameters
    ----------
    data, **options
        As of :func:`estimate`: `mu`, `trust`, `levels` of the groups, and so on.
    formula : str
        ``"Surv(time, event, [30, 60, 90]) ~ C(arm)"``, or ``~ 1``; with late entry ``Surv(start, stop, event, […])``.
        The list has the public times at which curves are estimated, and bounds of `time` are from 0 to twice the last
        by default. `event` is 0 or 1, for censored and happened; with declared `levels` the first is of those who are
        censored, and others are competing causes. The groups are private.
    method : {"life_table", "kaplan_meier"}
        See :meth:`MeansResults.survival`.

    Notes
    -----
    A person reports one thing: group, class of time and event together, one of the cells of a table, whose noise is the
    same however many cut points there are; curves, tests and restricted means are all made of this one release. A
    ReliabilityWarning names points that should not be relied on.

    Examples
    --------
    >>> import numpy as np
    >>> import privreg as pr
    >>> time = np.random.default_rng(1).exponential(50, 5000)
    >>> people = {"time": np.minimum(time, 100), "event": (time <= 100).astype(int)}
    >>> curves = pr.means.survival(people, "Surv(time, event, [20, 40, 60, 80]) ~ 1", mu=1, trust="central",
    ...                            progress=False)
    >>> curves.frame()["time"].tolist()
    [20.0, 40.0, 60.0, 80.0]
    """
    refuse_positional(more, "survival(data, 'Surv(time, event, [30, 60, 90]) ~ C(arm)'")
    _refuse("means.formula", options, "survival", "method")
    curves = PrivateMeans.from_formula(formula, data, **options)._released(seed, progress).survival(method=method)
    caution(curves.names, curves.notes, what="the curves at")
    return curves


def _refuse(door: str, options: dict[str, Any], called: str, more: str) -> None:
    """Refuse options that a function which fits at once doesn't take; `more` is one of its arguments."""
    refuse_unknown(door, [name for name in options if name not in accepted(door)], called, (more, "seed", "progress"))
