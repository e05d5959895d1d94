"""The front door: a frozen description of what to fit, from a formula or from arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Never, cast

from privreg.data.sources.open import Source, refuse_few
from privreg.errors import UnsupportedArgumentError
from privreg.formula.describe import ModelOptions, array_spec, callers_scopes, formula_spec
from privreg.formula.spec import ModelSpec
from privreg.options.table import check
from privreg.options.unknown import refuse_positional, refuse_unknown
from privreg.privacy.ledger import UNSET
from privreg.simulation.playable import Playable


class PrivateOnlineRegression(Playable):
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
    trust : {"local", "two_collectors", "central"}
        "local" (default): people's devices send noisy reports, and nobody is trusted. "two_collectors": each report is
        shared out between two collectors that don't collude; either share alone is uniform noise, and both add noise
        once to their sums. `mu` holds against either collector, μ/√2 against everybody else, nothing against both
        together. Some 2,000 people are enough; numbers need `bounds`, and the model an intercept. "central": a trusted
        curator holds the rows and releases such sums, of all rows in each round; `mu` is that of all rounds together,
        so that several hundred rows are enough. A fit has all options of two collectors, and no `start()`.

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
        if spec.trust == "central" and asked.rows is not None:
            raise UnsupportedArgumentError(
                "rows= is for streams, and a curator counts the rows; leave it out, or give it to plan()."
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


def _named(asked: ModelOptions) -> ModelOptions:
    """Options with the family in place of its name, if it is one of those that a curator's published descent adds."""
    check("local.formula", "trust", asked.trust)
    if asked.trust != "central" or asked.family not in ("absolute", "q_hinge", "q_norm"):
        return asked
    from privreg.published.descent.losses import resolve

    return replace(asked, family=resolve(asked.family))
