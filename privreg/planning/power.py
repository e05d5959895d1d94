"""Planning: how many people, how wide an interval, or how large a budget, before there are any data.

Everything follows from public declarations and from what the user assumes of the people to come; no row of anybody is
read. The fit itself is rehearsed, with what people would report on average in place of reports; `StudyPlan.check`
simulates it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Never

import numpy as np

from privreg.base.arrays import Array
from privreg.data.columns import prepare
from privreg.data.participants import Participants
from privreg.data.sources.open import SILO
from privreg.errors import BudgetError, OptionError, UnsupportedArgumentError, as_named, level, real, shown, whole
from privreg.families import resolve_family
from privreg.families.hazards import HAZARDS
from privreg.fits.fit_plan import FitPlan
from privreg.formula.describe import ModelOptions, callers_scopes, check_covariates, read_design
from privreg.formula.persons import refuse_beside, without_effect, without_survival
from privreg.formula.spec import ModelSpec
from privreg.options.running import one_thread, waiting
from privreg.options.table import check, documented, find
from privreg.options.unknown import refuse_unknown
from privreg.planning.plan import Goal
from privreg.planning.plan import find as find_coef
from privreg.planning.precision import SEED, plain_hazards, plain_model, precision_of
from privreg.planning.scenario import (
    MADE,
    USUAL_ALPHA,
    USUAL_SCALE,
    Assumed,
    censoring,
    listed,
    read_scale,
    read_shares,
    response_of,
)
from privreg.planning.study_plan import REHEARSED, StudyPlan
from privreg.privacy.ledger import UNSET, Budget
from privreg.schema import files
from privreg.schema.declarations import Schema

PLANNED: Final = "a plan that draws people from them"
POWER: Final = 0.8
HALF: Final = 0.5  # Share of people with an event, where nobody says how many have one
PERSON: Final = "person (made up)"  # Column of ids, where the formula names none


@documented("plan.formula")
@one_thread()
def plan(
    formula: str | None = None,
    *rows: Never,
    n: Any = None,
    width: Any = None,
    effect: Any = None,
    power: Any = None,
    mu: Any = UNSET,
    epsilon: Any = None,
    delta: Any = None,
    rho: Any = None,
    bounds: Any = None,
    levels: Any = None,
    moments: Any = None,
    schema: Any = None,
    family: Any = "huber",
    scale: Any = None,
    params: Any = None,
    shares: Any = None,
    covariates: Any = None,
    pilot: Any = None,
    coef: Any = None,
    alpha: float = 0.05,
    mechanism: Any = "auto",
    private: Any = "record",
    score_weights: Any = None,
    trust: str = "local",
    silos: Any = None,
    k_max: Any = None,
    icc: float = 0.0,
    **unknown: Never,
) -> StudyPlan:
    """Plan a regression before any data: people for a budget, precision for both, or the budget for a precision.

    Parameters
    ----------
    formula : str
        As for :meth:`PrivateOnlineRegression.from_formula`.
    **options : `options/parameters.toml`

    Notes
    -----
    If no number of people, or no budget, is enough, it is an InferenceError. A fit is rehearsed at a few numbers of
    people: its own rounds, states and estimate, on the mean of what assumed people would report and noise of the size
    that it would have. In simulations mean widths of intervals were those planned but for some 10% (``python -m
    benchmarks.plans``), where people were as assumed. Covariates that are skewed, related or rarely vary, and residuals
    that spread more for some people than for others, cost many times the people that even, independent ones do: give
    public rows like them, and `scale` by row.

    References
    ----------
    XSJKH (arXiv 2505.08227), Theorem 1, for the asymptotic covariance, with the noise variance corrected to (2 B0/μ)².

    Examples
    --------
    >>> import privreg as pr
    >>> found = pr.plan("charges ~ age + bmi + smoker", mu=1, width={"age": 20}, scale=2500,
    ...     bounds={"age": (18, 65), "bmi": (18, 50), "charges": (0, 35_000)}, levels={"smoker": ["no", "yes"]})
    >>> 10_000 < found.n < 1_000_000
    True
    >>> found.table().columns.tolist()
    ['std_error', 'width']
    """
    if rows or "data" in unknown:
        raise UnsupportedArgumentError(
            "plan() takes options by name after the formula, and no data: declare columns by bounds= and levels=, and "
            "give public or made-up rows as covariates=."
        )
    refuse_unknown("plan.formula", unknown)
    if formula is None:
        raise OptionError(
            "plan() needs the formula, as in plan('y ~ x', mu=1, effect=0.05, bounds={'y': (0, 1), ...})."
        )
    level(alpha)
    given = mu is not UNSET or epsilon is not None or delta is not None or rho is not None
    budget = Budget.declare(mu, epsilon, delta, rho) if given else Budget.declare(1.0)
    formula, followed = without_survival(formula)
    fam = resolve_family(family) if followed is None else HAZARDS
    who, each_has = Participants.declare(), check("plan.formula", "k_max", k_max)
    if each_has is not None and isinstance(formula, str):
        formula, within = without_effect(formula)
        who = Participants.declare(id=PERSON if within is None else None, k_max=each_has, effect=within)
    names_of, sizes = _silos(silos, check("plan.formula", "trust", trust), n)
    if names_of:
        n = sum(sizes) if sizes else n
        levels = {SILO: names_of, **(levels or {})} if len(names_of) > 1 else levels
    declared = ModelOptions(bounds=bounds, levels=levels, moments=moments, schema=schema)
    design = read_design(formula, covariates, callers_scopes(), fam, declared, followed=followed)
    who.check_columns(design.columns)
    if followed is not None:
        refuse_beside(followed, who, ModelOptions(family=family, k_max=k_max), design, None)
        who = replace(who, followed=followed)
    spec = ModelSpec.declare(design, fam, budget, score_weights, mechanism, private, who, trust, names_of, sizes)
    names = spec.coefficients
    people = None if n is None else check("plan.formula", "n", n)
    goal = _goal(width, effect, power, coef, names)
    wanted = bool(goal.widths or goal.effects)
    if people is None and not wanted:
        raise OptionError("give n= for the precision of so many records, or width= or effect= to find how many.")
    if not given and (people is None or not wanted):
        raise BudgetError("give mu= (or epsilon=, rho=); it can be left out to be found from n= and width= or effect=.")
    alike = float(check("plan.formula", "icc", icc))
    if alike and (who.k_max is None or fam.response != "number"):
        raise OptionError(
            f"icc={alike:g} is of residuals of one person's rows: it goes with k_max= and a number's family."
        )
    assumed = replace(_assumed(spec, scale, params, shares, covariates, pilot), icc=alike)
    with waiting(REHEARSED):
        each = precision_of(spec, assumed)
        out = StudyPlan(spec, people or 0, "precision", goal, assumed, alpha, 0, people or 0, each)
        return (out if given else out._with_least_budget())._answered()


def _silos(given: Any, trust: str, n: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names of silos, and the records that each holds if they are given; see `plan`."""
    if trust != "silos":
        if given is not None:
            raise OptionError("silos= are the records of silos, and go with trust='silos'.")
        return (), ()
    if given is None:
        raise OptionError("trust='silos' needs the records that each silo holds: [2000, 500, 800], say.")
    if not isinstance(given, Mapping | Sequence | np.ndarray) or isinstance(given, str):
        return tuple(f"silo {k + 1}" for k in range(whole("silos", given, 1))), ()
    if n is not None:
        raise OptionError("the records of silos= add up to n=; leave n= out, or give the number of silos alone.")
    names = tuple(given) if isinstance(given, Mapping) else tuple(f"silo {k + 1}" for k in range(len(given)))
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError("silos= must have the records of one silo or more; in a mapping by its name, a text.")
    values = given.values() if isinstance(given, Mapping) else given
    return names, tuple(int(find("plan.formula", "n").check(v, "silos=")) for v in values)


def plan_of_fit(fit: FitPlan, n: int, pilot: Any = None) -> StudyPlan:
    """Precision of a fit that is described already, for so many people as :func:`plan` assumes them with this `pilot`.
    Raises OptionError or InferenceError if the family has no model of the response, or the people assumed don't
    determine the coefficients.
    """
    assumed = _assumed(fit.spec, None, None, None, None, pilot)
    with waiting(REHEARSED):
        each = precision_of(fit.spec, assumed, fit.asked)
        return StudyPlan(fit.spec, n, "precision", Goal({}, {}, POWER), assumed, 0.05, 0, n, each)._answered()


def _assumed(spec: ModelSpec, scale: Any, params: Any, shares: Any, covariates: Any, pilot: Any = None) -> Assumed:
    design, family, usual = spec.design, spec.family, False
    own = [c for c in design.columns if c not in {*design.endog_sources, *MADE}]
    if pilot is not None and covariates is not None:
        raise OptionError("pilot= and covariates= both say how covariates are spread; give one of them.")
    facts = {} if pilot is None else _pilot(pilot, spec)
    answered = facts.get("answered", False) and scale is None and params is None
    covariates, scale, params = (
        facts.get(k) if v is None else v for k, v in (("covariates", covariates), ("scale", scale), ("params", params))
    )
    rows = None if covariates is None else check_covariates(covariates, own, PLANNED)
    if family.scaled:
        bare, usual = design.endog_bare, scale is None and isinstance(family.scale, str)
        low, high = design.endog_limits if bare is None else design.schema.reference(bare)
        scale = scale if scale is not None else USUAL_SCALE * (high - low) if usual else family.scale
    elif scale is not None:
        raise OptionError(f"scale= is the sd of residuals, and {family!r} has none; leave it out.")
    if rows is not None:
        rows = covariates if answered else rows
        prepare(rows, own, design.schema, clamp=set(own), new=True)  # a value that is missing is an error
    sd = read_scale(1.0 if scale is None else scale, covariates)
    theta = _params(params, spec.coefficients)
    if design.cuts is not None and (params is None or isinstance(params, Mapping)):
        k = len(design.cuts)  # cut points that nobody gave make levels equally frequent
        even, own_cuts = np.log(np.arange(1.0, k + 1.0) / np.arange(float(k), 0.0, -1.0)), spec.coefficients[-k:]
        theta[-k:] = [(params or {}).get(c, v) for c, v in zip(own_cuts, even, strict=True)]
    if rows is not None and shares is not None:
        raise OptionError("shares= says how frequent levels are, and covariates= has that already; give one of them.")
    shared, moments = read_shares(shares, design.schema), facts.get("moments", Schema())
    out = Assumed(shared, sd, theta, rows, usual, moments=moments, answered=answered)
    if family.scoring.counts and (spread := facts.get("dispersion", USUAL_ALPHA if family.scoring.extra else 1.0)):
        out = replace(out, **{"alpha" if family.scoring.extra else "dispersion": spread})
    given = params is not None and (not isinstance(params, Mapping) or "Intercept" in params)
    if spec.people.followed is not None:
        out, share = replace(out, censored=facts.get("censored", 0.0)), facts.get("events")
        if given or answered:
            return out if share is None else out.with_events(spec, share, censor=True)
        return out.with_events(spec, HALF if share is None else share, censor=False)
    if not family.scaled or not spec.units.constant.any() or given:
        return out
    # the intercept that nobody gave puts responses into the middle of their range
    _, x, _ = out.exog(spec, 4096, np.random.Generator(np.random.PCG64(SEED)))
    return replace(out, params=theta + (0.5 * (low + high) - float((x @ theta).mean())) * spec.units.constant)


def _pilot(given: Any, spec: ModelSpec) -> dict[str, Any]:
    """Covariates, scale and params that a pilot has, and the moments of numbers; see :func:`plan`."""
    design, family, schema = spec.design, spec.family, spec.design.schema
    own = [c for c in design.columns if c not in {*design.endog_sources, *MADE}]
    if isinstance(given, Mapping):
        free = {c: schema.limits(c) for c in own if c not in schema.levels and c not in schema.moments}
        sds, means, pairs = (given.get(k) or {} for k in ("sd", "mean", "correlations"))
        known = isinstance(sds, Mapping) and isinstance(means, Mapping) and set(means) <= set(sds) <= set(free)
        events = real(given.get("events", HALF))
        if "events" in given and (spec.people.followed is None or events is None or not 0.0 < events < 1.0):
            raise OptionError("pilot= has events, which is of Surv(): the share of people with an event, in (0, 1).")
        if not known or set(given) - {"sd", "mean", "correlations", "residual_sd", "dispersion", "events"}:
            said = "{'sd': {'x1': 12}, 'mean': {'x1': 40}, 'correlations': {('x1', 'x2'): 0.1}, 'residual_sd': 3, "
            raise OptionError(
                f"pilot= of numbers is {said}'dispersion': 1.5}}, with sds of numbers that have bounds, and means only "
                f"beside sds: {listed(free)}."
            )
        pairs = dict(files.pairs(pairs)) if isinstance(pairs, list) else pairs
        two = {c for c in own if len(schema.levels.get(c, ())) == 2 and any(c in pair for pair in pairs)}
        found = {c: (means.get(c, 0.5 * sum(free[c])), sd) for c, sd in sds.items()} | dict.fromkeys(two, (0.5, 0.5))
        moments = Schema.declare(moments=found | pairs)
        for c, (mean, sd) in moments.moments.items():
            if c in free and sd**2 >= (mean - free[c][0]) * (free[c][1] - mean):
                raise OptionError(f"pilot= has sd {sd:g} of {c!r}, more than such numbers within its bounds have.")
        spread = real(given.get("dispersion", 1.0))
        if spread is None or not 0.0 < spread < math.inf or ("dispersion" in given and not family.scoring.counts):
            raise OptionError(
                "pilot= has dispersion, which is of counts: a positive number, variance over mean, or alpha of "
                "NegativeBinomial()."
            )
        held = {k: v for k, v in (("events", events), ("dispersion", spread)) if k in given}
        return {"moments": moments, "scale": given.get("residual_sd"), **held}
    rows = check_covariates(given, own, PLANNED, "pilot")
    followed = spec.people.followed
    if followed is not None and all(c in given for c in followed.columns):
        fitted, given = plain_hazards(spec, given), check_covariates(given, [*own, *followed.columns], PLANNED)
        censored = censoring(followed, given, schema)
        return {"covariates": given, "params": np.asarray(fitted.params), "answered": True, "censored": censored}
    if any(c not in given for c in design.endog_sources) or spec.people.effect is not None:
        return {"covariates": rows}
    y, x, *_ = design.encode(given)
    y = given[response_of(spec)].to_numpy() if family.response in {"levels", "ordinal"} else y
    fitted = plain_model(spec, y, x, robust=True) if len(y) > x.shape[1] else None
    facts = {"covariates": rows} | ({} if fitted is None else {"params": np.asarray(fitted.params).T.reshape(-1)})
    if fitted is not None and family.scoring.extra:
        facts["dispersion"] = fitted.model.family.alpha
    if fitted is not None and response_of(spec) in given:
        scale = float(fitted.scale) ** (1.0 if family.scoring.residual else 0.5) if family.scaled else None
        return facts | {"covariates": given, "scale": scale, "answered": True}
    return facts


def _params(params: Any, names: Sequence[str]) -> Array:
    """Coefficients to expect; 0 for those that a mapping leaves out."""
    if params is None:
        return np.zeros(len(names))
    if isinstance(params, Mapping):
        params = {as_named(str(name), names): value for name, value in params.items()}
        wrong = [name for name in params if name not in names]
        if wrong:
            raise OptionError(f"params has {shown(wrong[0])}, no coefficient; they are {', '.join(map(repr, names))}.")
        params = [params.get(name, 0.0) for name in names]
    numbers = [real(v) for v in np.ravel(np.asarray(params, dtype=object))]
    if len(numbers) != len(names) or any(v is None or not math.isfinite(v) for v in numbers):
        raise OptionError(f"params must be {len(names)} finite numbers, one for each of {', '.join(names)}.")
    return np.array(numbers, dtype=np.float64)


def _goal(width: Any, effect: Any, power: Any, coef: Any, names: Sequence[str]) -> Goal:
    given = {"width": width, "effect": effect}
    if coef is not None and any(isinstance(sizes, Mapping) for sizes in given.values()):
        raise OptionError("width= or effect= names its coefficients itself; leave coef= out.")
    if coef is not None and width is None and effect is None:
        raise OptionError("coef= says what width= or effect= is meant for; give one of them.")
    if power is not None and effect is None:
        raise OptionError(
            "power= is that of telling an effect from zero; give effect= too. The effects that n records find are in "
            "table(power=) of a plan for n=."
        )
    chosen: Iterable[Any] = [c for c in names if c.rpartition(":")[2] != "Intercept"] or names
    if coef is not None:
        chosen = [coef] if isinstance(coef, str) or not isinstance(coef, Iterable) else coef
    chosen = [c for one in chosen for c in find_coef(one, names)]
    found = dict[str, dict[str, float]]()
    for what, sizes in given.items():
        items = dict(sizes) if isinstance(sizes, Mapping) else {} if sizes is None else dict.fromkeys(chosen, sizes)
        found[what] = {}
        for name, value in items.items():
            size = real(value)
            if size is None or size == 0.0 or not math.isfinite(size):
                raise OptionError(f"{what}={shown(value)} must be a number other than 0, in the coefficient's units.")
            found[what] |= dict.fromkeys(find_coef(name, names, what), size)
    if any(v < 0 for v in found["width"].values()):
        raise OptionError("width= must be positive.")
    return Goal(found["width"], found["effect"], POWER if power is None else check("plan.formula", "power", power))
