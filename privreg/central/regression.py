"""The front door of a trusted curator's fits: a frozen description of what to fit, and the fit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Never

import numpy as np

from privreg.central import descent
from privreg.central.losses import Loss, resolve, resolve_loss
from privreg.central.plan import Plan, check_budget, make_plan
from privreg.central.results import CentralResults, make_statement, payload
from privreg.data.participants import Participants
from privreg.data.sources.open import Source, open_arrays, open_table, refuse_few
from privreg.errors import DataError, OptionError, PrivregWarning, SchemaError, UnsupportedArgumentError, shown
from privreg.families.family import Family, check_response
from privreg.formula.arrays import array_design, check_array_levels
from privreg.formula.batches import read_arrays
from privreg.formula.describe import callers_scopes, read_design
from privreg.formula.spec import Described, ModelSpec
from privreg.formula.units import public_units
from privreg.options.progress import progress_bar
from privreg.options.table import accepted, check
from privreg.options.unknown import refuse_unknown
from privreg.privacy.ledger import LEDGER, UNSET, Budget
from privreg.privacy.noise import fresh_key, seeded_key
from privreg.schema.declarations import Schema


class Regression(Described):
    """Regression by a trusted curator, who sees all rows and releases coefficients with noise.

    Parameters
    ----------
    endog : array_like, shape (n,)
        Response.
    exog : array_like, shape (n, p)
        Design. A column named "const" or "Intercept" is the constant 1 by declaration; no column is added.
    family : Family or str
        ``pr.Huber()`` (default), ``Logistic()``, ``Hinge()``, ``SmoothedHinge()``, ``Quantile(tau)``, or of this
        package ``QHinge(q)``, ``QNorm(q)``, ``Absolute()``; or their lower-case names ("q_hinge", "q_norm").
    epsilon, delta : float
        (ε, δ)-DP per record; δ well below one over the number of records.
    mu, rho : float
        μ-GDP or ρ-zCDP per record instead, for releases that are exactly that. ``mu=None`` is the fit without privacy.
    bounds, levels, moments : mapping
        Public declarations, as for `privreg.PrivateOnlineRegression`; every numeric column needs bounds.
    missing : {"noise", "raise"}
        What becomes of a record that can't be used: a value is missing, no number or not a declared level, or a term is
        not finite. "noise" (default): it counts for nothing in any sum, and keeps its place. "raise" refuses it: errors
        tell about rows.
    exog_names, endog_name : sequence of str, str
        Names for arrays that have none.

    Raises
    ------
    FormulaError, PrivacyLeakError, SchemaError, BudgetError, OptionError, DataError
        Each message says what was got, what is allowed, and the fix.

    Notes
    -----
    Frozen: `fit` returns results and leaves the model unchanged. Pickling a model leaves its data out.

    References
    ----------
    Wang, Lei, Ying & Zhang, Differentially private SGD with non-smooth losses, arXiv 2101.08925.

    Examples
    --------
    >>> import numpy as np
    >>> from privreg.central import Regression
    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([np.ones(8000), rng.uniform(-1, 1, 8000)])
    >>> y = (rng.uniform(size=8000) < 1 / (1 + np.exp(-2 * x[:, 1]))).astype(float)
    >>> model = Regression(
    ...     y, x, exog_names=["const", "dose"], bounds={"dose": (-1, 1)}, family="logistic", epsilon=1, delta=1e-6
    ... )
    >>> res = model.fit(progress=False)
    >>> res.params.index.tolist(), res.privacy.short
    (['const', 'dose'], '0.2368-GDP, central')
    """

    _spec: ModelSpec
    _loss: Loss
    _source: Source | None
    _results = CentralResults
    _measures = False

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
        missing: str = "noise",
        exog_names: Sequence[str] | None = None,
        endog_name: str | None = None,
        trust: str = "central",
        **unknown: Never,
    ) -> None:
        refuse_unknown("curator.arrays", unknown)
        _check_trust(trust)
        budget = _budget(mu, epsilon, delta, rho)
        fam = resolve(family)
        schema = Schema.declare(bounds, levels, moments)
        held = read_arrays(endog, exog, None, exog_names, endog_name, None)
        check_array_levels(schema, held.endog_name)
        design = array_design(held.names, held.endog_name, schema, kind=fam.kind)
        source = open_arrays(held.endog, held.exog, None, (endog, exog))
        self._build(design, fam, budget, source, _people(missing))

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Any,
        *,
        family: Any = "huber",
        mu: Any = UNSET,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        levels: Any = None,
        moments: Any = None,
        schema: Any = None,
        missing: str = "noise",
        trust: str = "central",
        **unknown: Never,
    ) -> Regression:
        """Describe a model by a formula.

        Parameters
        ----------
        formula : str
            As for `privreg.PrivateOnlineRegression.from_formula`: the same allow-list.
        data : DataFrame, mapping of str to array, path or list of paths, table, query, or iterable of DataFrames
            As there, with the public declarations that they may carry. All rows are held in memory, encoded.
        schema : str, Path or Schema, optional
            Declarations, or the YAML or JSON file that holds them.
        family, mu, epsilon, delta, rho, bounds, levels, moments, missing
            As for the class.

        Raises
        ------
        PrivacyLeakError, FormulaError, SchemaError, BudgetError, OptionError, DataError, UnsupportedArgumentError
            Each message says what was got, what is allowed, and the fix.
        """
        asked = {name: value for name, value in locals().items() if name in accepted("curator.formula")}
        refuse_unknown("curator.formula", unknown)
        return cls._described(formula, data, callers_scopes(), asked)

    @classmethod
    def _described(cls, formula: str, data: Any, scopes: Any, asked: Mapping[str, Any]) -> Regression:
        """Describe a model by a formula, also for the core's front door."""
        _check_trust(asked["trust"])
        budget = _budget(asked["mu"], asked["epsilon"], asked["delta"], asked["rho"])
        fam = resolve(asked["family"])
        design = read_design(formula, data, scopes, fam, asked, table=data)
        source = None if data is None else open_table(data, design.columns, design.schema)
        self = cls.__new__(cls)
        self._build(design, fam, budget, source, _people(asked["missing"]))
        return self

    def _build(self, design: Any, family: Family, budget: Budget, source: Source | None, people: Participants) -> None:
        if source is not None:
            refuse_few(source.rows, len(design.names), source.kind)
        check_response(family, design.endog_limits, design.endog_name)
        units = public_units(design, scale_response=family.scaled)
        if not np.isfinite(units.reach):
            raise SchemaError(
                "a trusted curator's noise follows from how long a row can be, and a column has no public range; "
                "declare bounds= for every number of the right-hand side (moments= alone clamp nothing)."
            )
        low, high = ((v - units.y_centre) / units.y_scale for v in design.endog_limits)
        loss = resolve_loss(family, unit=units.y_scale, y_max=max(abs(low), abs(high)))
        if np.isinf(loss.slope) and not np.isfinite(loss.start):
            raise SchemaError(
                f"{family!r} has gradients that grow with the response, which has no public range; declare "
                f"bounds={{{design.endog_name!r}: (low, high)}}, or take family='absolute' or 'huber'."
            )
        self._spec, self._loss, self._source = ModelSpec(design, units, family, budget, people=people), loss, source

    # --- public facts ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Regression (trusted curator): {self.formula}, {self.family!r}, {self._spec.budget}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"_spec": self._spec, "_loss": self._loss, "_source": None}

    def start(self, **options: Any) -> Any:
        """Refuse: a descent in random order needs all rows at once."""
        del options
        raise UnsupportedArgumentError(
            "a trusted curator's fit needs all rows at once, so it has no start(); use fit(), or trust='local' for "
            "rows that come as a stream."
        )

    # --- fitting ---------------------------------------------------------------------------------------

    def fit(
        self,
        *,
        perturbation: str = "gradient",
        order: str | None = None,
        epochs: int | None = None,
        step: float | None = None,
        radius: Any = "auto",
        lanes: int | None = None,
        average: float = 0.5,
        batch_size: int | None = None,
        seed: int | None = None,
        progress: bool | None = None,
        **unknown: Never,
    ) -> CentralResults:
        """Descend over all records and release the noisy average of the iterates.

        Parameters
        ----------
        perturbation : {"gradient", "output"}
            "gradient" (default): noise on every step's sum of gradients. "output": noise once, on the averaged iterate
            of a descent by single records; its noise is far larger where curvature would have damped the other's.
        order : {"full", "poisson", "permuted", "sampled"}, optional
            Of gradient perturbation: all records in every step (default), exactly μ-GDP; or a Poisson sample each, for
            an (epsilon, delta) budget and with ``privreg[central]``. Of output perturbation: passes in a fresh random
            order each (default), exactly μ-GDP; or records drawn with replacement, for an (epsilon, delta) budget.
        epochs : int, optional
            Passes. By default 100 to 1,000 with order="full", 20 with "poisson", else 1 for smooth losses and more for
            losses with a kink.
        step : float, optional
            η of every step, internal units (columns scaled to [-1, 1] by public bounds). By default the best by a bound
            on the excess risk, from public numbers. Smooth losses allow at most 2/L.
        radius : float, None or "auto"
            Iterates are projected on the ball of this radius about 0, internal units; None for no projection. "auto" is
            None for losses with bounded gradients, 5 for QHinge, 2 for QNorm.
        lanes : int, optional
            Disjoint random parts of the records, each fitted with what curvature leaves of the budget (some 3%, of all
            records, so as to see which coefficients the records determine); their mean is the estimate and their
            differences give the intervals. 8 by default, 1 with fewer than 4,000 records. One lane is the most precise
            and has no standard errors.
        average : float
            Share of the iterates, the last ones, that are averaged; 1 is the published average of all.
        batch_size : int, optional
            Expected size of a Poisson sample of gradient perturbation; a fiftieth of a lane by default.
        seed : int, optional
            Reproducible orders and noise, for simulation only: it protects nobody, and the results say so.
        progress : bool, optional
            Progress bar; by default on fits of more than a second at a terminal.

        Warns
        -----
        PrivregWarning
            If δ is not below one over the number of records.
        ReliabilityWarning
            If rows of the results should not be relied on; it names them and why.

        Raises
        ------
        OptionError, BudgetError, UnsupportedArgumentError, MissingExtraError
            If an option is out of range or does not go with another; before any row is read where possible.
        DataError, SchemaError
            If rows can't be used, or are too many for memory; no message quotes a value.
        """
        refuse_unknown("curator.fit", unknown)
        seed = check("curator.fit", "seed", seed)
        check("curator.fit", "progress", progress)
        if self._source is None:
            raise DataError("this model has no data; build it with data, as pickling leaves them out.")
        options = {"perturbation": perturbation, "order": order, "epochs": epochs, "step": step, "radius": radius}
        options |= {"lanes": lanes, "average": average, "batch_size": batch_size}
        known = self._source.expected()
        refuse_few(known, len(self._spec.design.names), self._source.kind)
        early = None if known is None else self._plan(known, options)  # refuses before reading
        y, x = descent.read(self._source, self._spec, self._spec.units.reach)
        n = len(y)
        refuse_few(n, x.shape[1], self._source.kind)
        plan = early if early is not None and n == known else self._plan(n, options)
        budget = self._spec.budget
        if budget.form == "epsilon, delta" and budget.asked[1] * n >= 1:
            warnings.warn(
                f"delta={budget.asked[1]:g} is not below 1/{n:,}: publishing one record outright would keep it; take a "
                "far smaller delta.",
                PrivregWarning,
                stacklevel=2,
            )
        stated = make_statement(self._spec, plan, self._loss, n=n, seeded=seed is not None)
        stated = replace(stated, release=LEDGER.spend(self._source.identity, stated.total_mu, seeded=seed is not None))
        key = fresh_key() if seed is None else seeded_key(seed, "central")
        with progress_bar(n, progress) as bar:
            released = descent.release(x, y, self._loss, plan, descent.randomness(key, x.shape[1]), bar.update)
        res = CentralResults(payload(self._spec, plan, self._loss, released, stated, n))
        if lanes != 1:  # who asks for one lane knows that it has no standard errors
            res._caution()
        return res

    def _plan(self, n: int, options: Mapping[str, Any]) -> Plan:
        reach, p = self._spec.units.reach, len(self._spec.coefficients)
        return make_plan(self._loss, self._spec.budget, n=n, p=p, reach=reach, **options)


def _people(missing: Any) -> Participants:
    """What becomes of records that can't be used."""
    people = Participants.declare(missing=missing)
    if people.missing == "drop":
        raise OptionError(
            "missing='drop' would change the number of records, which a curator tells; missing='noise' keeps them and "
            "lets those that can't be used count for nothing."
        )
    return people


def _check_trust(trust: Any) -> None:
    if trust != "central":
        raise OptionError(
            f"trust={shown(trust)}: pr.central is for trust='central'; people's devices are "
            "pr.PrivateOnlineRegression's."
        )


def _budget(mu: Any, epsilon: Any, delta: Any, rho: Any) -> Budget:
    budget = Budget.declare(mu, epsilon, delta, rho)
    check_budget(budget, gaussian=True, how="")
    return budget
