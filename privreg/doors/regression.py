"""The front door: a frozen description of what to fit, from a formula or from arrays, to be planned and fitted here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Never, cast

from privreg.data.sources.open import Source, refuse_few, rows_of
from privreg.errors import DataError, InferenceError, OptionError, UnsupportedArgumentError
from privreg.fits.fit_plan import FitPlan
from privreg.fits.settings import FitOptions, RunOptions
from privreg.fits.target import target_of
from privreg.formula.describe import ModelOptions, array_spec, callers_scopes, formula_spec, public_rows
from privreg.formula.spec import Described, ModelSpec
from privreg.options.running import progress_bar
from privreg.options.table import check
from privreg.options.unknown import refuse_positional, refuse_unknown
from privreg.privacy.accounts import named
from privreg.privacy.ledger import LEDGER, UNSET
from privreg.results.results import PrivateResults
from privreg.simulation.streaming.checkpoint import forget, read_checkpoint, take_all
from privreg.simulation.streaming.stream import Stream, begin
from privreg.simulation.tuning import of_descent, plan_fit, warn_of_steps

LONG: Final = 200_000  # People from whom on threads are used by default
MOST_DEFAULT_THREADS: Final = 4


class PrivateOnlineRegression(Described):
    """Regression with inference under local differential privacy, in one pass over the people.

    Parameters
    ----------
    endog : array_like, shape (n,)
        Response.
    exog : array_like, shape (n, p)
        Design. A column named "const" or "Intercept" is the constant 1 by declaration; no column is added.
    family : Family or str
        ``pr.Huber()`` (default), ``Expectile(tau)``, ``Quantile(tau)``, ``Logistic()``, ``Multinomial()``,
        ``Poisson(y_max)``, ``Hinge()``, ``SmoothedHinge()``, ``Squared()``, or their lower-case names; or one of your
        own, see ``pr.families.custom``.
    mu : float or None
        μ-GDP budget *per person*; None for a fit without privacy. Or `epsilon`, alone or with `delta`, or `rho`:
        exactly one form.
    epsilon, delta : float
        (ε, δ)-DP per person, calibrated exactly; without `delta` pure ε-DP.
    rho : float
        ρ-zCDP per person.
    bounds : mapping of str to (float, float)
        Public range of each numeric column; values outside are clamped on the device. A column that is the same for
        nearly everybody, such as a rare 0/1 indicator, is better declared by `levels`.
    levels : mapping of str to list
        Public levels of each factor, a list, an Index or a Categorical; the first is the reference.
    moments : mapping of str to (float, float)
        Public mean and sd of a numeric column: scales it inside without clamping, unless `bounds` are
        given too. A pair of such columns as key gives their public correlation, in (-1, 1), as in
        ``{"x1": (0, 1), "x2": (5, 2), ("x1", "x2"): 0.9}``: covariates are made uncorrelated by it inside. It changes
        precision only: neither the model, nor the units of the results, nor the guarantee.
    scaling : {"public", "private"}
        Where the scale of a number without `bounds` or `moments` comes from. "public" (default): it must be declared.
        "private": its location and scale are learned from privatised reports, at no further cost, and it is not
        clamped; an offset and the levels of factors must still be declared.
    mechanism : {"auto", "gaussian", "laplace", "privunit", "randomized_response"}
        How reports are randomised. "auto" takes the one with the least noise for the budget: Gaussian under `mu`,
        PrivUnit under pure `epsilon`, randomized response where a report is a single number.
    private : {"record", "response"}
        What is protected: the whole record, or the response alone where covariates are public. A report is then one
        number, which makes intervals shorter by a factor of about √p.
    score_weights : {"whitened", "unit", "likelihood", "published"}, optional
        How a covariate vector of any length gives a score of bounded length: by its length after whitening (default),
        by its length after scaling alone, or the sources' min(1, 2/‖x‖²) (with ``tuning="published"`` only).
        "likelihood": not at all but by declared bounds, so that the estimand is that of statsmodels' own fit, of more
        people; also where noise falls on sums.
    offset : array_like, shape (n,), optional
        Added to the linear predictor; its name for `bounds` is "offset".
    exposure : array_like, shape (n,), optional
        Its log is added to the linear predictor; its name for `bounds`, which must be positive, is "exposure".
    missing : {"noise", "raise", "drop"}
        What becomes of a row that can't be used: a value is missing, no number or not among the declared levels, or a
        term is not finite. "noise" (default): its person sends pure noise, so that nobody learns who answered, and no
        row can make a fit fail; the share of such rows is learned from the reports and noted, and estimates are right
        if whether a row is complete depends on covariates alone. "raise" refuses it: errors tell about rows, so this
        is for who holds them. "drop": its person sends nothing, which reveals who answered.
    rows : int, optional
        How many people will come, if that is known and public; sizes of the pilots follow from it. Taken from
        DataFrames, arrays, tables and files in `fit`; queries and streams of unknown length get pilots of a fixed size.
    dataset : str or list of str, optional
        A name for these people, such as "survey 2026": fits of one name in this process add up, whatever object or file
        the rows come in. Without it the same object, memory or file are the same people, and a copy's count as others.
    allow_leak : tuple of {"levels", "scale"}
        Opt out: collect levels, or means and sds, from the raw data. Warns and is printed.
    exog_names, endog_name : sequence of str, str
        Names for arrays that have none; "x1", "x2", … and "y" by default.
    trust : {"local", "two_collectors", "silos", "central"}
        "local" (default): people's devices send noisy reports, and nobody is trusted. "two_collectors": each report is
        shared out between two collectors that don't collude; either share alone is uniform noise, and both add noise
        once to their sums. `mu` holds against either collector, μ/√2 against everybody else, nothing against both
        together. Some 2,000 people are enough; numbers need `bounds`, and the model an intercept. "central": a trusted
        curator holds the rows and releases such sums, of all rows in each round; `mu` is that of all rounds together,
        so that several hundred rows are enough. A fit has all options of two collectors, and no `start()`. "silos":
        each of several silos, as hospitals, holds its people's rows and adds noise to its own sums; by `from_formula`,
        whose `data` are then a mapping of silos' names to their data. ``C(silo)`` in the formula gives each silo a
        level, ``cluster="silo"`` makes them clusters, and `dataset` may be a mapping by silo. How many rows a silo has
        is public. A person with rows in q silos has √q·μ.

    Raises
    ------
    FormulaError, PrivacyLeakError, SchemaError, BudgetError, OptionError, DataError
        Each message says what was got, what is allowed, and the fix.

    Notes
    -----
    Frozen: `fit` returns results and leaves the model unchanged. Pickling a model leaves its data out.

    Local reports by rounds go up to 100 coefficients. With published tuning and more of them random scaling keeps
    variances only: intervals and tests of single coefficients; for tests of several ask for batch_means or
    random_scaling_full, which keeps the whole matrix (8 p² bytes) of up to 4,000 coefficients. Factors with many levels
    are then encoded as one column of numbers, which changes no bit.

    References
    ----------
    Xie, Shi, Jiang, Kong & He, Online differentially private inference in stochastic gradient descent,
    arXiv 2505.08227.

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
    ) -> PrivateOnlineRegression:
        """Describe a model by a formula.

        Parameters
        ----------
        formula : str
            As in patsy, from an allow-list: columns, arithmetic, ``I()``, ``C()`` with contrasts, interactions,
            elementwise NumPy functions, ``bs``/``cr`` with all knots and bounds, functions marked by
            ``privreg.rowwise``.
        data : DataFrame, mapping of str to array, path or list of paths, table, query, iterable of DataFrames, or None
            Paths are of CSV (see ``pr.csv``), Parquet or Feather files, or of a folder of Parquet files. A table is one
            of polars (also lazy), Arrow or DuckDB, an Arrow dataset or reader, or an Arrow stream. A query is
            ``pr.sql(query, connection)``. Rows are read batch by batch, columns not in the formula never. None for a
            model that is fed by ``start()`` only.

            A DataFrame may carry public declarations, ``data.attrs["privreg"] = {"bounds": {"age": [18, 65]},
            "levels": {"smoker": ["no", "yes"]}}``, and so may a Parquet file that pandas wrote; `pr.datasets` do. They
            are what whoever made the data said in public, they are used for the columns that you declare nothing
            about, and the summary names them as the source. Nothing is ever learned into them. pandas keeps them in
            slices and copies, also after you have changed a column: give the `bounds` of such a column.
        offset, exposure : str, optional
            Names of columns: one that is added to the linear predictor, and one whose log is.
        mu : float, str or None
            As for the class; or the name of a column of *public* personal budgets in (0, `mu_max`], with which reports
            are weighted by (μ_i / mu_max)².
            With ``tuning="published"`` reports are not weighted, and `epsilon` may name such a column, too: of ε, or,
            with `delta`, of (ε, δ).
        mu_max, epsilon_max : float, optional
            The largest personal budget; the only one that is printed.
        id : str, optional
            Name of a column that tells people apart. Ids are hashed with a secret key and never kept.
        max_per_id : int
            Rows of one person that are used, 1 by default; rows beyond send pure noise. The guarantee per person is
            √max_per_id times as large, and printed so. Most rows should count: if a share s of them does, intervals are
            1/s times as long and need about 1/s² times as many people to be relied on. A note says so where next to
            nobody's row counts; how many do is otherwise not learned.
        k_max : int, optional
            Rows of one person, at most, of which its *one* report is made, at `mu`. Further rows
            of the person are left out. Rows of DataFrames and mappings are gathered by `id`, persons come in random
            order, and `rows` is counted. Of files and iterables the rows of a person must lie together (sort by `id`;
            what comes later of the same person counts for nothing), and ``rows=`` says how many people there are, but
            to a curator, who counts them. The formula may then take out levels of persons, ``"y ~ treat + C(year) |
            person"``: response and columns less their means over the person's complete rows, or, ``| diff(person)``,
            differences of following rows.
        per_person : {"sum", "mean"}
            Whether rows count alike (default), or people, by the mean over their rows.
        weights : str, optional
            Name of a column of survey weights with `bounds` from 0 to the largest one. Reports are
            multiplied by weight/largest, a person's by the mean of its rows' weights; they are as private as the rest.
        cluster : str, optional
            Name of a column of clusters of people who may be alike, as those of a school, with all of them declared,
            ``levels={"school": [...]}``; which one somebody is in is public. All of a cluster's people answer in one
            random group, and standard errors and t follow from how far groups differ: 8 groups, or 16 from 320 clusters
            on (`lanes=`); where noise falls on sums up to 24, each of which has its noise. 16 clusters or more.
        schema : str, Path or Schema, optional
            Declarations, or the YAML or JSON file that holds them, see ``pr.Schema.from_file``. `bounds`, `levels` and
            `moments` given beside it take precedence, column by column; and all of these before what the data carry.
        family, epsilon, delta, rho, bounds, levels, moments, scaling, mechanism, private, score_weights
            As for the class; and so are missing, rows, dataset, allow_leak and trust.

        Returns
        -------
        PrivateOnlineRegression

        Raises
        ------
        PrivacyLeakError
            If a term would learn from the rows (``center``, ``x.mean()``, ``pd.qcut``, …).
        FormulaError, SchemaError, BudgetError, OptionError, DataError
            Each message says what was got, what is allowed, and the fix.
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
        if spec.noise.again and asked.rows is not None:
            raise UnsupportedArgumentError(
                f"rows= is for streams, and {'each silo' if spec.silos else 'a curator'} counts the rows; leave it "
                "out, or give it to plan()."
            )
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
        tuning, inference, lanes, threads, batch_size, alpha, step, start_params, measures, rounds, covariates, like
            As for `fit`.

        Returns
        -------
        FitPlan
            It can be printed, is plain JSON by ``to_dict()``, and is played by `privreg.simulate`. How many people a
            study needs is found by `privreg.plan`.

        Raises
        ------
        OptionError, InferenceError
            If an option is out of range or a method can't do what is asked.
        """
        refuse_unknown("local.start", unknown, "plan")
        expected = self._expected() if rows is None else check("local.formula", "rows", rows)
        asked = FitOptions(
            tuning=tuning, inference=inference, lanes=lanes, threads=threads, batch_size=batch_size, alpha=alpha,
            step=step, measures=measures, rounds=rounds, covariates=covariates, like=like,
        )  # fmt: skip
        asked = self._read(asked, seeded=True)  # which a plan can't know: nothing is refused for it
        return plan_fit(self._spec, asked, start_params, expected)

    def _read(self, asked: FitOptions, *, seeded: bool) -> FitOptions:
        """Options of a fit with public rows and an earlier fit's target read."""
        identity = None if self._source is None else self._source.identity
        public = public_rows(self._spec, asked.covariates, identity)
        return replace(asked, covariates=public, like=target_of(self._spec, asked.like, seeded=seeded))

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

        The plan follows `rows`, if it was given to the model, not the data the model may hold.

        Returns
        -------
        Stream
            With ``update(batch)``, ``results()`` at any time and ``save(path)``.

        Raises
        ------
        InferenceError
            For a method that allows one release only (plug_in_central).
        BudgetError
            Under a limit (`privreg.limit_spending`), as a stream has no source to count by but a `dataset`.
        """
        refuse_unknown("local.start", unknown)
        if self._spec.noise.again:
            raise UnsupportedArgumentError(
                f"a fit of {self._spec.holders} needs all rows at once, as all of them answer in each round, so it has "
                "no start(); use fit(), or trust='two_collectors' for rows that come as a stream."
            )
        asked = FitOptions(
            tuning=tuning, inference=inference, lanes=lanes, threads=threads, batch_size=batch_size, alpha=alpha,
            step=step, measures=measures, rounds=rounds, covariates=covariates, like=like,
        )  # fmt: skip
        asked = self._read(asked, seeded=seed is not None)
        warn_of_steps(asked, 2)
        stream = self._begin(asked, start_params, seed)
        LEDGER.check(named(None, self._dataset), stream.total_mu)
        return stream

    def _begin(self, asked: FitOptions, start_params: Any, seed: Any, start: Any = None) -> Stream:
        """A stream that is fed batch by batch: a new one, or one to be restored with its `start`, internal units."""
        stream = begin(self._spec, asked, start_params, seed, self._rows, start)
        stream.dataset = self._dataset
        once = [m.name for m in stream._settings.methods if not m.streaming]
        if once:
            raise InferenceError(f"{once[0]} is a single release, not for streams; use fit(), or inference='plug_in'.")
        return stream

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

        Parameters
        ----------
        tuning : {"efficient", "published"}
            "efficient": some twenty rounds, which devices could follow. The first rounds' reports set scales,
            correlations and the residual scale; every main round's state follows what was reported, and the estimate
            comes from all reports of main rounds, carried to one state. "published" pins the sources' settings: one
            averaged chain, Mallows weights, c = 1.345, θ₀ = 0, γ = 0.5 and α = 0.51 (γ = 0.2 and α = 0.501 with
            ``allow_leak=("scale",)``, as in their applications). With ``trust="central"`` it is the noisy descent of
            arXiv 2101.08925, whose options are `perturbation`, `order`, `epochs`, `step`, `radius`, `lanes`, `average`
            and `batch_size`: see `privreg.published.descent.fit`.
        inference : str, tuple of str, or None
            The first is the default of bse, t and p. "auto" is "sandwich" (noise is known, curvature is learned from
            how random groups' reports differ, and its uncertainty is part of the standard error), or "random_scaling"
            with published tuning. Others are "between_lanes" (how far random groups differ, with Student's t),
            "batch_means", "block_bootstrap", "block_bootstrap_t", "anytime", "random_scaling_full", "plug_in" and
            "path_curvature" (the sandwich, but for published tuning), and with ``tuning="published"``
            "plug_in_central"; `privreg.collector.inference.describe` tells what each costs and assumes. None gives
            estimates only.
        lanes : int, optional
            Random groups of each main round, each asked at slightly different coefficients: 8, 16 (default), 32 or 64.
        threads : int, optional
            Threads; all processors up to 4 by default on long fits. The result does not depend on it.
        batch_size, alpha, step : optional
            Of ``tuning="published"``: records asked at one iterate (1), and α and γ > 0 of the steps γ (k + i0)^(−α),
            internal units; intervals need α above 1/2. A fit by rounds has no steps; it ignores them with a warning.
        start_params : array_like or mapping, shape (p,), optional
            A *public* guess, user's units. By default the reports on second moments give the first guess; zeros inside
            (the middle of the declared box) with published tuning.
        measures : float, optional
            Share of the records, the last ones, that report how well the fit predicts them instead of a score, in
            (0, 0.5): ``res.fit_measures`` then has a private R², deviance explained, accuracy or the like. Needs a
            known number of people.
        rounds : int
            Public states that are answered, 10 to 100, 20 by default: 3 on second moments
            (fewer where there is less to learn of covariates), 4 of the pilot, and `rounds` − 7 main ones. 10 cost a
            few percent of precision. Rounds on location, where scales are private, and one more on moments, where
            covariates are correlated, come on top. A stream of unknown length has as many as it needs.
        covariates : DataFrame, optional
            *Public* rows, of a census or an earlier study, that look like people's covariates; 20 for each column of
            the design or more, of which 2,048 are used, evenly spaced. Curvature is then computed from them before
            reports tell it, instead of from normal numbers and independent factors, which matters where reports tell
            little of it: with more than 24 coefficients. Neither the model, nor what a person is asked, nor the
            guarantee changes. Columns beside the design's are not read, numbers outside their bounds are clamped, and
            rows with missing values are refused.
        like : PrivateResults or FitPlan, optional
            An earlier fit of the same design (columns, levels, family, bounds), or a plan made with ``like=``: its
            score weights' map of covariates and its Huber threshold c are taken over, and so its estimand. Two fits
            that learn these estimate different numbers where the model is wrong. The map and c are functions of the
            earlier fit's reports, and public; the budget and the rounds stay as they are.
        order : {"random", "position"}, optional
            In which order rows are read. "random" is the default where rows can be addressed: short blocks of rows of
            arrays and DataFrames, and of files, tables and row groups as many as can be held, each read once. The order
            is as secret as the noise. "position" takes rows as they lie, as those of a single CSV file, queries and
            streams always are.
        perturbation, epochs, radius, average : optional
            Of a curator's ``tuning="published"``.
        seed : int, optional
            Reproducible noise, for simulation only: it protects nobody, and the results say so.
        progress : bool, optional
            Progress bar; by default on fits of more than a second at a terminal.
        checkpoint : str or Path, optional
            File in which a long fit is kept on the way, for rows that come from Parquet or CSV files. If the process is
            killed, the same call goes on from there, to the same bits, with the same noise on the same rows; if the
            files have changed it is refused. Ctrl-C ends the batch and keeps the state. The file holds a noise key: it
            is readable by its owner only, stays with the rows, and is removed once there are results.
        checkpoint_rows : int, optional
            Keep it after so many rows at the latest.
        checkpoint_seconds : float, optional
            Keep it after so many seconds at the latest, 30 by default.
        mended : bool
            After an error in the rows, or Ctrl-C: that the files have changed since, but not the rows already read. The
            rest is read with fresh noise.
        checkpoint_trust : str or Path, optional
            To go on with a checkpoint of yours from another machine: a copy of your secret there, see `privreg.load`.
            Continue only what you saved: whoever makes up a checkpoint chooses its noise.
        client : distributed.Client or "local", optional
            Where the parts of the files are worked on: on a Dask cluster's workers, who must see the same files, or on
            this machine's processors, one each. A Dask DataFrame of Parquet files is always fitted so. Workers play
            blocks of rows (row groups of Parquet files) that are dealt to rounds; no bit depends on their number.

        Returns
        -------
        PrivateResults

        Warns
        -----
        ReliabilityWarning
            Once, if rows of the results should not be relied on; it names them and why.

        Notes
        -----
        Unless `order` is random, rows are taken in the order they come, and their order must have nothing to do with
        their values: a file sorted by the response or a covariate biases the estimates. Shuffle first
        (``data.sample(frac=1)``) if it might. Row groups of Parquet files are read at random, but the rows of each
        together.

        Raises
        ------
        OptionError, InferenceError
            If an option is out of range or a method can't do what is asked.
        NotPrivateError
            If `covariates` were fitted privately in this process, or are among the rows to be fitted.
        BudgetError
            If it would exceed the limit that `privreg.limit_spending` has set; nothing is then spent.
        DataError, SchemaError
            If rows can't be used; no message quotes a value.
        SavedFileError, UnsupportedArgumentError
            If the checkpoint is of another fit or of other rows, or the rows are of a kind that can't be kept.
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
        kept = read_checkpoint(run)
        check("local.fit", "progress", progress)
        if self._source is None:
            way = "build it with data" if curator else "use start() and update(batch), or build it with data"
            raise DataError(f"this model has no data; {way}.")
        source, rows = self._source, self._expected()
        if rows is None and self._spec.trust == "two_collectors" and source.repeatable:
            read = sum(map(rows_of, source.batches(0)))  # which says what is wrong, if they can't be read
            rows = read if self._spec.people.k_max is None or not read else None
        refuse_few(rows, len(self._spec.design.names), source.kind)
        if kept is not None and self._spec.people.k_max is not None and not curator:
            raise UnsupportedArgumentError(
                "checkpoint= doesn't go with k_max=: who came, and the rows of whoever is being read, are never "
                "stored; leave it out."
            )
        asked = self._read(asked, seeded=seed is not None)
        if not curator:
            warn_of_steps(asked, 2)
        if client is not None and self._spec.summed:
            raise UnsupportedArgumentError(
                f"client= is for trust='local': with {self._spec.holders} sums are made in this process, which reads "
                "the files of Dask DataFrames, too; leave it out."
            )
        if curator and mended:
            raise UnsupportedArgumentError(
                "mended= is of rows that are read once, and these are read anew; remove the checkpoint to begin "
                "anew, which is another release."
            )
        here = self._spec.people.gathered or self._spec.clusters > 0
        if client is not None and here:
            raise UnsupportedArgumentError(
                "client= doesn't go with k_max=, weights= or cluster=: a person's rows may be in several parts of "
                "the files, which are read in this process; leave it out."
            )
        if client is not None or (source.parts and self._spec.trust == "local" and not here):
            if kept is not None:
                raise OptionError(
                    "checkpoint= is for one stream; a cluster works lost parts again by itself: leave it out."
                )
            from privreg.simulation.workers import dask

            res = dask.fit(self._spec, source, asked, start_params, seed, progress, client)
            res._caution()
            return res
        stream = begin(self._spec, asked, start_params, seed, rows)
        with progress_bar(rows, progress) as bar:
            take_all(stream, source, read_threads(threads, rows, parallel=stream.parallel), bar, kept)
        refuse_few(stream.rows_read, 0, source.kind)
        res = stream._results()
        forget(kept)
        res._caution()
        return res


def _named(asked: ModelOptions) -> ModelOptions:
    """Options with the family in place of its name, if it is one of those that a curator's published descent adds."""
    check("local.formula", "trust", asked.trust)
    if asked.trust != "central" or asked.family not in ("absolute", "q_hinge", "q_norm"):
        return asked
    from privreg.published.descent.losses import resolve

    return replace(asked, family=resolve(asked.family))


def read_threads(threads: Any, rows: int | None, *, parallel: bool) -> int:
    """Threads of a fit: as asked, or as many as pay; one if more are of no use."""
    if not parallel:
        return 1
    if threads is not None:
        return int(threads)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_DEFAULT_THREADS) if rows is not None and rows >= LONG else 1
