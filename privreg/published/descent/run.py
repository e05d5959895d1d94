"""Fit: a model and its rows to results."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from privreg.data.sources.open import Source
from privreg.errors import DataError, PrivregWarning, SchemaError, UnsupportedArgumentError
from privreg.formula.spec import ModelSpec
from privreg.options.progress import progress_bar
from privreg.options.table import check
from privreg.privacy.ledger import LEDGER
from privreg.privacy.noise import fresh_key, seeded_key
from privreg.published.descent import descent
from privreg.published.descent.losses import Loss, resolve, resolve_loss
from privreg.published.descent.plan import Plan, make_plan
from privreg.published.descent.results import CentralResults, make_statement, payload


def loss_of(spec: ModelSpec) -> Loss:
    """Loss of a model, internal units.
    Raises SchemaError if a column has no public range, or the response none that its loss needs;
    UnsupportedArgumentError if the descent has not what is asked.
    """
    family, people, design, units = resolve(spec.family), spec.people, spec.design, spec.units
    given = {
        "id=": people.id, "weights=": people.weight, "cluster=": people.cluster, "offset=": design.offset,
        "exposure=": design.exposure, "score_weights=": spec.score_weights,
    }  # fmt: skip
    if named := [option for option, value in given.items() if value]:
        raise UnsupportedArgumentError(f"the published descent of a curator has no {', '.join(named)}; leave it out.")
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
    return loss


def fit(
    spec: ModelSpec, source: Source | None, *, perturbation: str = "gradient", order: str | None = None,
    epochs: int | None = None, step: float | None = None, radius: Any = "auto", lanes: int | None = None,
    average: float = 0.5, batch_size: int | None = None, seed: int | None = None, progress: bool | None = None,
) -> CentralResults:  # fmt: skip
    """Descend over all rows of `source` and release the noisy average of the iterates.

    Parameters
    ----------
    spec, source : ModelSpec, Source
        Model, with the budget, and its rows.
    perturbation, order : str
        "gradient": noise on every step's sum of gradients, "full", over all records (default), exactly μ-GDP; or
        "poisson", over a sample each, for an (epsilon, delta) budget and with ``privreg[central]``. "output": noise
        once, on the average, after passes in a fresh order each, "permuted" (default), exactly μ-GDP; or of records
        drawn with replacement, "sampled", for an (epsilon, delta) budget.
    epochs, step, radius : int, float, float or None
        Passes; η of every step, internal units (columns scaled to [-1, 1] by public bounds), at most 2/L for smooth
        losses; and the ball about 0 that iterates are projected on, "auto" for none where gradients are bounded.
    lanes, average, batch_size : int, float, int
        Disjoint random parts of the records, each fitted with all that curvature leaves of the budget: their mean is
        the estimate, their differences give intervals, and one lane has none (8 by default, 1 with fewer than 4,000
        records). Share of the iterates, the last ones, that are averaged; 1 is the published average of all. Expected
        size of a Poisson sample.
    seed, progress : int, bool
        As for any fit.

    Warns
    -----
    PrivregWarning, ReliabilityWarning
        If δ is not below one over the number of records; if rows should not be relied on, which are named.

    Raises
    ------
    OptionError, BudgetError, UnsupportedArgumentError, MissingExtraError, DataError, SchemaError
        If an option is out of range or does not go with another, before any row is read where possible; if rows can't
        be used, or are too many for memory. No message quotes a value.
    """
    seed = check("curator.fit", "seed", seed)
    check("curator.fit", "progress", progress)
    loss = loss_of(spec)
    if source is None:
        raise DataError("this model has no data; build it with data, as pickling leaves them out.")
    options = {
        "perturbation": perturbation, "order": order, "epochs": epochs, "step": step, "radius": radius, "lanes": lanes,
        "average": average, "batch_size": batch_size,
    }  # fmt: skip

    def plan_of(n: int) -> Plan:
        return make_plan(loss, spec.budget, n=n, p=len(spec.coefficients), reach=spec.units.reach, **options)

    known = source.expected()
    early = None if known is None else plan_of(known)  # refuses before reading
    y, x = descent.read(source, spec)
    n = len(y)
    if n <= x.shape[1]:
        raise DataError(f"{n} rows can't determine {x.shape[1]} coefficients; more than that are needed.")
    plan = early if early is not None and n == known else plan_of(n)
    budget = spec.budget
    if budget.form == "epsilon, delta" and budget.asked[1] * n >= 1:
        warnings.warn(
            f"delta={budget.asked[1]:g} is not below 1/{n:,}: publishing one record outright would keep it; take a "
            "far smaller delta.",
            PrivregWarning,
            stacklevel=3,
        )
    stated = make_statement(spec, plan, loss, n=n, seeded=seed is not None)
    stated = replace(stated, release=LEDGER.spend(source.identity, stated.total_mu, seeded=seed is not None))
    key = fresh_key() if seed is None else seeded_key(seed, "central")
    with progress_bar(n, progress) as bar:
        released = descent.release(x, y, loss, plan, descent.randomness(key, x.shape[1]), bar)
    res = CentralResults(payload(spec, plan, loss, released, stated, n))
    if lanes != 1 or len(res.privacy.doubts) > 1:  # who asks for one lane knows that it has no standard errors
        res._caution(stacklevel=3)
    return res
