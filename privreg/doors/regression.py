"""The front door: a frozen description of what to fit, from a formula or from arrays, to be planned and fitted here."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Never, cast

from privreg.data.sources.open import Source, refuse_few, rows_of
from privreg.errors import DataError, InferenceError, choose, refuse
from privreg.fits.fit_plan import FitPlan, target_of
from privreg.fits.settings import FitOptions, RunOptions
from privreg.formula.describe import ModelOptions, array_spec, callers_scopes, formula_spec, public_rows
from privreg.formula.spec import Described, ModelSpec
from privreg.options.running import progress_bar
from privreg.options.table import check, documented
from privreg.options.unknown import refuse_positional, refuse_unknown
from privreg.privacy.accounts import named
from privreg.privacy.ledger import LEDGER, UNSET
from privreg.results.results import PrivateResults
from privreg.simulation.streaming import checkpoint as checkpoints
from privreg.simulation.streaming.stream import Stream, begin
from privreg.simulation.tuning import of_descent, resolve_tuning, warn_of_steps

LONG: Final = 200_000  # People from whom on threads are used by default
MOST_DEFAULT_THREADS: Final = 4


@documented("local.arrays")
class PrivateOnlineRegression(Described):
    """Regression with inference under local differential privacy, in one pass over the people.

    Frozen: `fit` returns results and leaves the model unchanged; pickling a model leaves its data out. Local reports by
    rounds go up to 100 coefficients. With published tuning and more of them random scaling keeps variances only, for
    intervals and tests of single coefficients; for tests of several ask for batch_means. See Xie, Shi, Jiang, Kong &
    He, Online differentially private inference in stochastic gradient descent, arXiv 2505.08227.

    Parameters
    ----------
    endog : array_like, shape (n,)
        Response.
    exog : array_like, shape (n, p)
        Design. A column named "const" or "Intercept" is the constant 1 by declaration; no column is added.
    **options : `options/parameters.toml`

    Examples
    --------
    >>> import numpy as np
    >>> from privreg import Huber, PrivateOnlineRegression
    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([np.ones(5000), rng.uniform(-1, 1, 5000)])
    >>> y = x @ [1.0, 2.0] + rng.normal(0, 0.3, 5000)
    >>> model = PrivateOnlineRegression(
    ...     y, x, exog_names=["const", "dose"], bounds={"y": (-4, 6), "dose": (-1, 1)}, mu=1, family=Huber(scale=0.3)
    ... )
    >>> model.fit(progress=False).params.index.tolist()
    ['const', 'dose']
    """

    _spec: ModelSpec
    _source: Source | None
    _rows: int | None
    _dataset: Any
    _results = PrivateResults

    def __init__(
        self,
        endog: Any,
        exog: Any,
        *,
        family: Any = "huber",
        mu: Any = UNSET,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        levels: Any = None,
        moments: Any = None,
        scaling: str = "public",
        mechanism: Any = "auto",
        private: Any = "record",
        score_weights: Any = None,
        offset: Any = None,
        exposure: Any = None,
        missing: str = "noise",
        rows: Any = None,
        dataset: Any = None,
        allow_leak: Any = (),
        exog_names: Sequence[str] | None = None,
        endog_name: str | None = None,
        trust: str = "local",
        **unknown: Never,
    ) -> None:
        asked = ModelOptions(
            family=family, mu=mu, epsilon=epsilon, delta=delta, rho=rho, bounds=bounds, levels=levels, moments=moments,
            scaling=scaling, mechanism=mechanism, private=private, score_weights=score_weights, offset=offset,
            exposure=exposure, missing=missing, rows=rows, dataset=dataset, allow_leak=allow_leak,
            exog_names=exog_names, endog_name=endog_name, trust=trust,
        )  # fmt: skip
        asked = _named(asked)
        refuse_unknown("local.arrays", unknown)
        self._build(*array_spec(endog, exog, asked), asked)

    @classmethod
    @documented("local.formula")
    def from_formula(
        cls,
        formula: str,
        data: Any = None,
        *more: Never,
        family: Any = "huber",
        mu: Any = UNSET,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        levels: Any = None,
        moments: Any = None,
        schema: Any = None,
        scaling: str = "public",
        mechanism: Any = "auto",
        private: Any = "record",
        score_weights: Any = None,
        offset: str | None = None,
        exposure: str | None = None,
        mu_max: Any = None,
        epsilon_max: Any = None,
        id: str | None = None,
        max_per_id: int = 1,
        k_max: int | None = None,
        per_person: str = "sum",
        weights: str | None = None,
        cluster: str | None = None,
        missing: str = "noise",
        rows: Any = None,
        dataset: Any = None,
        allow_leak: Any = (),
        trust: str = "local",
        **unknown: Never,
    ) -> "PrivateOnlineRegression":
        """Describe a model by a formula.

        Parameters
        ----------
        formula : str
            As in patsy, from an allow-list: columns, arithmetic, ``I()``, ``C()`` with contrasts, interactions,
            elementwise NumPy functions, ``bs``/``cr`` with all knots and bounds, functions marked by
            ``privreg.rowwise``. ``Surv(time, event, [6, 12, 24])`` in place of the response fits hazard ratios, with a
            baseline rate between cut points; ``Surv(start, stop, event, [...])`` has late entry.
        data : DataFrame, mapping of str to array, path or list of paths, table, query, iterable of DataFrames, or None
            Paths are of CSV (see ``pr.csv``) or Parquet files, or of a folder of Parquet files. A table is one of
            polars (also lazy), Arrow or DuckDB, an Arrow dataset or reader, or an Arrow stream. A query is
            ``pr.sql(query, connection)``. Rows are read batch by batch, columns not in the formula never. None for a
            model that is fed by ``start()`` only.

            A DataFrame may carry public declarations, ``data.attrs["privreg"] = {"bounds": {"age": [18, 65]},
            "levels": {"smoker": ["no", "yes"]}}``, and so may a Parquet file that pandas wrote; `pr.datasets` do. They
            are used for columns that you declare nothing about, and the summary names them as the source. pandas keeps
            them in slices and copies, also after you have changed a column: give the `bounds` of such a column.
        **options : `options/parameters.toml`

        A term that would learn from the rows (``center``, ``x.mean()``, ``pd.qcut``, …) is a PrivacyLeakError.
        """
        refuse_positional(more, "from_formula(formula, data")
        asked = ModelOptions(
            family=family, mu=mu, epsilon=epsilon, delta=delta, rho=rho, bounds=bounds, levels=levels, moments=moments,
            schema=schema, scaling=scaling, mechanism=mechanism, private=private, score_weights=score_weights,
            offset=offset, exposure=exposure, mu_max=mu_max, epsilon_max=epsilon_max, id=id, max_per_id=max_per_id,
            k_max=k_max, per_person=per_person, weights=weights, cluster=cluster, missing=missing, rows=rows,
            dataset=dataset, allow_leak=allow_leak, trust=trust,
        )  # fmt: skip
        if getattr(type(data), "answers_formulas", False):  # a study of `privreg.connect`
            return cast("PrivateOnlineRegression", data.model(formula, {**asked.changed(), **unknown}))
        asked = _named(asked)
        refuse_unknown("local.formula", unknown)
        self = cls.__new__(cls)
        self._build(*formula_spec(formula, data, callers_scopes(), asked), asked)
        return self

    def _build(self, spec: ModelSpec, source: Source | None, asked: ModelOptions) -> None:
        self._rows: int | None = check("local.formula", "rows", asked.rows)
        words = (
            f"rows= is for streams, and {'each silo' if spec.silos else 'a curator'} counts the rows; give it to plan()"
        )
        refuse({words: spec.noise.again and asked.rows is not None})
        if source is not None:
            who = spec.people.id if spec.people.k_max is not None else None
            refuse_few(source.rows, len(spec.design.names), source.kind, who)
        self._spec, self._source, self._dataset = spec, source, asked.dataset

    # --- public facts ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<PrivateOnlineRegression: {self.formula!r}, {self.family!r}, {self._spec.budget}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}

    # --- planning --------------------------------------------------------------------------------------

    @documented("local.fit")
    def plan(
        self,
        rows: int | None = None,
        *,
        tuning: str = "efficient",
        inference: Any = "auto",
        lanes: int | None = None,
        threads: int | None = None,
        batch_size: int | None = None,
        alpha: float | None = None,
        step: float | None = None,
        start_params: Any = None,
        measures: float | None = None,
        rounds: int = 20,
        covariates: Any = None,
        like: Any = None,
        **unknown: Never,
    ) -> FitPlan:
        """Lay a fit's public plan open before anybody reports: declarations, guarantee, mechanism, rounds.

        Parameters
        ----------
        rows : int, optional
            Records expected; as many as the model's data have, or its ``rows=``, by default.
        **options : `options/parameters.toml`

        Returns
        -------
        FitPlan
            It can be printed, is plain JSON by ``to_dict()``, and is played by `privreg.simulate`. How many people a
            study needs is found by `privreg.plan`.
        """
        refuse_unknown("local.start", unknown, "plan")
        expected = self._expected() if rows is None else check("local.formula", "rows", rows)
        asked = FitOptions(
            tuning=tuning, inference=inference, lanes=lanes, threads=threads, batch_size=batch_size, alpha=alpha,
            step=step, measures=measures, rounds=rounds, covariates=covariates, like=like,
        )  # fmt: skip
        asked = self._read(asked, seeded=True)  # which a plan can't know: nothing is refused for it
        settings = resolve_tuning(asked, self._spec, expected)
        return FitPlan(self._spec, asked, start_params, expected, settings, self._dataset)

    def _read(self, asked: FitOptions, *, seeded: bool) -> FitOptions:
        """Options of a fit with public rows and an earlier fit's target read."""
        public = public_rows(self._spec, asked.covariates, None if self._source is None else self._source.identity)
        like = None if asked.like is None else target_of(self._spec, asked.like, seeded=seeded)
        return replace(asked, covariates=public, like=like)

    # --- fitting ---------------------------------------------------------------------------------------

    def _expected(self) -> int | None:
        """Number of people expected; None if unknown."""
        if self._source is not None and self._source.rows is not None:
            return self._source.rows
        return self._rows if self._rows is not None or self._source is None else self._source.expected()

    def start(
        self,
        *,
        tuning: str = "efficient",
        inference: Any = "auto",
        lanes: int | None = None,
        threads: int | None = None,
        batch_size: int | None = None,
        alpha: float | None = None,
        step: float | None = None,
        start_params: Any = None,
        measures: float | None = None,
        rounds: int = 20,
        covariates: Any = None,
        like: Any = None,
        seed: int | None = None,
        **unknown: Never,
    ) -> Stream:
        """Begin a fit that is fed batch by batch; see `fit` for the options.

        The Stream has ``update(batch)``, ``results()`` at any time and ``save(path)``. The plan follows `rows`, if it
        was given to the model, not the data the model may hold. A method that allows one release only (plug_in_central)
        is an InferenceError; under a limit (`privreg.limit_spending`) it is a BudgetError, as a stream has no source to
        count by but a `dataset`.
        """
        refuse_unknown("local.start", unknown)
        words = f"a fit of {self._spec.holders} needs all rows at once, as all of them answer in each round, so it has"
        refuse({f"{words} no start(); use fit(), or trust='two_collectors' for a stream": self._spec.noise.again})
        asked = FitOptions(
            tuning=tuning, inference=inference, lanes=lanes, threads=threads, batch_size=batch_size, alpha=alpha,
            step=step, measures=measures, rounds=rounds, covariates=covariates, like=like,
        )  # fmt: skip
        asked = self._read(asked, seeded=seed is not None)
        warn_of_steps(asked)
        stream = self._begin(asked, start_params, seed)
        LEDGER.check(named(None, self._dataset), stream.total_mu)
        return stream

    def _begin(self, asked: FitOptions, start_params: Any, seed: Any, start: Any = None) -> Stream:
        """A stream that is fed batch by batch: a new one, or one to be restored with its `start`, internal units."""
        stream = begin(self._spec, asked, start_params, seed, self._rows, start)
        stream.dataset = self._dataset
        if once := [m.name for m in stream._settings.methods if not m.streaming]:
            raise InferenceError(f"{once[0]} is a single release, not for streams; use fit(), or inference='plug_in'.")
        return stream

    @documented("local.fit")
    def fit(
        self,
        *,
        tuning: str = "efficient",
        inference: Any = "auto",
        lanes: int | None = None,
        threads: int | None = None,
        batch_size: int | None = None,
        alpha: float | None = None,
        step: float | None = None,
        start_params: Any = None,
        measures: float | None = None,
        rounds: int = 20,
        covariates: Any = None,
        like: Any = None,
        order: str | None = None,
        perturbation: str = "gradient",
        epochs: int | None = None,
        radius: Any = "auto",
        average: float = 0.5,
        seed: int | None = None,
        progress: bool | None = None,
        checkpoint: Any = None,
        checkpoint_rows: int | None = None,
        checkpoint_seconds: float | None = None,
        mended: bool = False,
        checkpoint_trust: Any = None,
        client: Any = None,
        **unknown: Never,
    ) -> PrivateResults:
        """Let every person's device send one randomised report, in one pass, and return the results.

        With ``trust="central"`` there are no devices: rows are read once and held, up to 4 GiB of them, encoded; those
        of more files are read again in each round. All of them answer in every round, and `inference`, `measures`,
        `like`, `threads`, `seed`, `progress` and `checkpoint` are as described here.

        A ReliabilityWarning names rows of the results that should not be relied on, and why. Unless `order` is random,
        rows are taken in the order they come, and their order must have nothing to do with their values: a file sorted
        by the response or a covariate biases the estimates. Shuffle first (``data.sample(frac=1)``) if it might. Row
        groups of Parquet files are read at random, but the rows of each together.

        Raises NotPrivateError of `covariates` that were fitted privately in this process, or are to be; BudgetError of
        a limit that `privreg.limit_spending` has set and this would exceed, and nothing is then spent; DataError or
        SchemaError, without a value, of rows that can't be used; SavedFileError of a checkpoint of another fit.

        Parameters
        ----------
        **options : `options/parameters.toml`
        """
        refuse_unknown("local.fit", unknown)
        asked = FitOptions(
            tuning=tuning, inference=inference, lanes=lanes, threads=threads, batch_size=batch_size, alpha=alpha,
            step=step, measures=measures, rounds=rounds, covariates=covariates, like=like, order=order,
            perturbation=perturbation, epochs=epochs, radius=radius, average=average,
        )  # fmt: skip
        run = RunOptions(
            start_params=start_params, seed=seed, progress=progress, checkpoint=checkpoint,
            checkpoint_rows=checkpoint_rows, checkpoint_seconds=checkpoint_seconds, mended=mended,
            checkpoint_trust=checkpoint_trust, client=client,
        )  # fmt: skip
        if of_descent(self._spec, asked, run):
            from privreg.published.descent import fit  # whose loop is compiled

            return fit(
                self._spec, self._source, perturbation=perturbation, order=order, epochs=epochs, step=step,
                radius=radius, lanes=lanes, average=average, batch_size=batch_size, seed=seed, progress=progress,
            )  # fmt: skip
        curator = self._spec.noise.again
        kept = run.checkpoints()
        check("local.fit", "progress", progress)
        if self._source is None:
            way = "build it with data" if curator else "use start() and update(batch), or build it with data"
            raise DataError(f"this model has no data; {way}.")
        source, rows = self._source, self._expected()
        if rows is None and self._spec.trust == "two_collectors" and source.repeatable:
            read = sum(map(rows_of, source.batches(0)))  # which says what is wrong, if they can't be read
            rows = read if self._spec.people.k_max is None or not read else None
        refuse_few(rows, len(self._spec.design.names), source.kind)
        asked = self._read(asked, seeded=seed is not None)
        if not curator:
            warn_of_steps(asked)
        here = self._spec.people.gathered or self._spec.clusters > 0
        cluster = client is not None or (bool(source.parts) and self._spec.trust == "local" and not here)
        dask, sums = client is not None, f"with {self._spec.holders} sums are made in this process"
        refused = {
            f"client= is for trust='local': {sums}, which reads the files of Dask DataFrames, too": (
                dask and self._spec.summed
            ),
            "client= doesn't go with k_max=, weights= or cluster=: a person's rows may be in several parts of the "
            "files, which are read in this process": dask and here,
            "mended= is of rows that are read once, and these are read anew: remove the checkpoint for another "
            "release": curator and mended,
            "checkpoint= doesn't go with k_max=: who came, and the rows of whoever is being read, are never stored": (
                kept is not None and self._spec.people.k_max is not None and not curator
            ),
            "checkpoint= is for one stream; a cluster works lost parts again by itself": kept is not None and cluster,
        }
        refuse({f"{words}; leave it out": true for words, true in refused.items()})
        if cluster:
            from privreg.simulation import workers

            res = workers.fit(self._spec, source, asked, start_params, seed, progress, client)
            res._caution()
            return res
        stream = begin(self._spec, asked, start_params, seed, rows)
        with progress_bar(rows, progress) as bar:
            usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            paying = min(usable, MOST_DEFAULT_THREADS) if rows is not None and rows >= LONG else 1
            at_once = int(threads or paying) if stream.parallel else 1
            if kept is None:
                stream.take_all(source, at_once, bar)
            else:
                checkpoints.keep(stream, source, at_once, bar, kept)
        refuse_few(stream.rows_read, 0, source.kind)
        res = stream._results()
        if kept is not None:
            checkpoints.forget(kept)
        res._caution()
        return res


def _named(asked: ModelOptions) -> ModelOptions:
    """Options with the family in place of its name, if it is one of those that a curator's published descent adds."""
    check("local.formula", "trust", asked.trust)
    if asked.trust != "central" or asked.family not in ("absolute", "q_hinge", "q_norm"):
        return asked
    from privreg.published.descent.losses import resolve

    return replace(asked, family=resolve(asked.family))


class Regression(PrivateOnlineRegression):
    """`privreg.PrivateOnlineRegression` with ``trust="central"``, whose options and methods it has."""

    def __init__(self, endog: Any, exog: Any, *, trust: str = "central", **options: Any) -> None:
        super().__init__(endog, exog, trust=choose("trust", trust, ["central"]), **options)

    @classmethod
    def from_formula(
        cls, formula: str, data: Any = None, *more: Any, trust: str = "central", **options: Any
    ) -> PrivateOnlineRegression:
        """Describe a model by a formula; see `privreg.PrivateOnlineRegression.from_formula`."""
        return super().from_formula(formula, data, *more, trust=choose("trust", trust, ["central"]), **options)
