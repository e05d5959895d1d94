"""The question: how many people, how wide an interval, or how large a budget, before there are any data.

Everything follows from public declarations and from what the user assumes of the people to come.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Never

import numpy as np

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
from privreg.planning import scenario
from privreg.planning.plan import REHEARSED, Goal, StudyPlan
from privreg.planning.plan import find as find_coef
from privreg.planning.precision import SEED, plain_hazards, plain_model, precision_of
from privreg.planning.scenario import Assumed
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
    If no number of people, or no budget, is enough, it is an InferenceError. Local fits are rehearsed at a few numbers
    of people: their rounds, states and estimate, on the mean of what assumed people would report and noise of the size
    that it would have; others are tried on made-up people. In simulations mean widths were those planned but for some
    10% (``python -m benchmarks.plans``), where people were as assumed. Covariates that are skewed, related or rarely
    vary, and residuals that spread more for some people than for others, cost many times the people that even,
    independent ones do: give public rows like them, and `scale` by row.

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
        raise OptionError("plan() needs the formula, as in plan('y ~ x', mu=1, effect=0.05, bounds={'y': (0, 1), …}).")
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
    people = None if n is None else check("plan.formula", "n", n)
    goal = _goal(width, effect, power, coef, spec.coefficients)
    wanted = bool(goal.widths or goal.effects)
    if people is None and not wanted:
        raise OptionError("give n= for the precision of so many records, or width= or effect= to find how many.")
    if not given and (people is None or not wanted):
        raise BudgetError("give mu= (or epsilon=, rho=); it can be left out to be found from n= and width= or effect=.")
    alike = float(check("plan.formula", "icc", icc))
    if alike and (who.k_max is None or fam.response != "number"):
        raise OptionError(f"icc={alike:g}, of residuals of one person's rows, goes with k_max= and a number's family.")
    assumed = replace(_assumed(spec, scale, params, shares, covariates, pilot), icc=alike)
    with waiting(REHEARSED):
        each = precision_of(spec, assumed)
        out = StudyPlan(spec, people or 0, "precision", goal, assumed, alpha, 0, people or 0, each)
        return (out if given else out._with_least_budget())._answered()


def _silos(given: Any, trust: str, n: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names of silos, and the records that each holds if they are given; see `plan`."""
    if given is None and trust == "silos":
        raise OptionError("trust='silos' needs silos=, the records that each silo holds: [2000, 500, 800], say.")
    if given is not None and trust != "silos":
        raise OptionError("silos= are the records of silos, and go with trust='silos'.")
    if given is None:
        return (), ()
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


def _assumed(spec: ModelSpec, scale: Any, params: Any, shares: Any, covariates: Any, pilot: Any) -> Assumed:
    """People as the options of a plan say, or its `pilot`, whose coefficients and scale give way to these."""
    design, family, names = spec.design, spec.family, spec.coefficients
    columns = [c for c in design.columns if c not in {*design.endog_sources, *scenario.MADE}]
    if pilot is not None and covariates is not None:
        raise OptionError("pilot= and covariates= both say how covariates are spread; give one of them.")
    facts = {} if pilot is None else (_numbers if isinstance(pilot, Mapping) else _rows)(pilot, spec, columns)
    answered = facts.get("answered", False) and scale is None and params is None
    covariates, scale, params = (
        facts.get(k) if v is None else v for k, v in (("covariates", covariates), ("scale", scale), ("params", params))
    )
    if covariates is not None and shares is not None:
        raise OptionError("shares= says how frequent levels are, and covariates= has that already; give one of them.")
    rows, usual = None, False
    if covariates is not None:
        rows = check_covariates(covariates, columns, PLANNED)
        rows = covariates if answered else rows
        prepare(rows, columns, design.schema, clamp=set(columns), new=True)  # a value that is missing is an error
    if family.scaled:
        bare, usual = design.endog_bare, scale is None and isinstance(family.scale, str)
        low, high = design.endog_limits if bare is None else design.schema.reference(bare)
        scale = scale if scale is not None else scenario.USUAL_SCALE * (high - low) if usual else family.scale
    elif scale is not None:
        raise OptionError(f"scale= is the sd of residuals, and {family!r} has none; leave it out.")
    k = 0 if design.cuts is None else len(design.cuts)
    placed = params is not None and (not isinstance(params, Mapping) or "Intercept" in params)  # the intercept is given
    if params is None or isinstance(params, Mapping):  # of others 0; cut points make levels equally frequent
        given = {as_named(str(name), names): value for name, value in (params or {}).items()}
        if wrong := [name for name in given if name not in names]:
            raise OptionError(f"params has {shown(wrong[0])}, no coefficient; they are {', '.join(map(repr, names))}.")
        even = np.log(np.arange(1.0, k + 1.0) / np.arange(float(k), 0.0, -1.0))
        cuts = dict(zip(names[len(names) - k :], even, strict=True))
        params = [given.get(name, cuts.get(name, 0.0)) for name in names]
    numbers = [real(v) for v in np.ravel(np.asarray(params, dtype=object))]
    if len(numbers) != len(names) or any(v is None or not math.isfinite(v) for v in numbers):
        raise OptionError(f"params must be {len(names)} finite numbers, one for each of {', '.join(names)}.")
    sd, moments = scenario.read_scale(1.0 if scale is None else scale, covariates), facts.get("moments", Schema())
    theta, known = np.array(numbers, dtype=np.float64), scenario.read_shares(shares, design.schema)
    out = Assumed(known, sd, theta, rows, usual, moments=moments, answered=answered)
    if family.scoring.counts:
        spread, usually = ("alpha", scenario.USUAL_ALPHA) if family.scoring.extra else ("dispersion", 1.0)
        out = replace(out, **{spread: facts.get("dispersion", usually)})
    if spec.people.followed is not None:
        out, share = replace(out, censored=facts.get("censored", 0.0)), facts.get("events")
        if placed or answered:
            return out if share is None else out.with_events(spec, share, censor=True)
        return out.with_events(spec, HALF if share is None else share, censor=False)
    if not family.scaled or not spec.units.constant.any() or placed:
        return out
    # else responses are in the middle of their range
    _, x, _ = out.exog(spec, 4096, np.random.Generator(np.random.PCG64(SEED)))
    return replace(out, params=theta + (0.5 * (low + high) - float((x @ theta).mean())) * spec.units.constant)


def _numbers(given: Mapping[str, Any], spec: ModelSpec, columns: Sequence[str]) -> dict[str, Any]:
    """Moments of numbers, scale, dispersion and share of events that a pilot of numbers has; see :func:`plan`."""
    schema, counts = spec.design.schema, spec.family.scoring.counts
    free = {c: schema.limits(c) for c in columns if c not in schema.levels and c not in schema.moments}
    sds, means, pairs = (given.get(k) or {} for k in ("sd", "mean", "correlations"))
    known = isinstance(sds, Mapping) and isinstance(means, Mapping) and set(means) <= set(sds) <= set(free)
    if not known or set(given) - {"sd", "mean", "correlations", "residual_sd", "dispersion", "events"}:
        said = "{'sd': {'x1': 12}, 'mean': {'x1': 40}, 'correlations': {('x1', 'x2'): 0.1}, 'residual_sd': 3, "
        raise OptionError(
            f"pilot= of numbers is {said}'dispersion': 1.5}}, with sds of numbers that have bounds, and means only "
            f"beside sds: {scenario.listed(free)}."
        )
    out = {"scale": given.get("residual_sd")}
    for name, goes, what, high in (
        ("events", spec.people.followed is not None, "is of Surv(): the share of people with an event, in (0, 1)", 1.0),
        ("dispersion", counts, "is of counts: variance over mean, or alpha of NegativeBinomial(), positive", math.inf),
    ):
        if name in given and not (goes and 0.0 < (real(given[name]) or 0.0) < high):
            raise OptionError(f"pilot= has {name}, which {what}.")
        out |= {name: real(given[name])} if name in given else {}
    pairs = dict(files.pairs(pairs)) if isinstance(pairs, list) else pairs
    two = {c for c in columns if len(schema.levels.get(c, ())) == 2 and any(c in pair for pair in pairs)}
    found = {c: (means.get(c, 0.5 * sum(free[c])), sd) for c, sd in sds.items()} | dict.fromkeys(two, (0.5, 0.5))
    out["moments"] = moments = Schema.declare(moments=found | pairs)
    for c, (mean, sd) in moments.moments.items():
        if c in free and sd**2 >= (mean - free[c][0]) * (free[c][1] - mean):
            raise OptionError(f"pilot= has sd {sd:g} of {c!r}, more than such numbers within its bounds have.")
    return out


def _rows(given: Any, spec: ModelSpec, columns: Sequence[str]) -> dict[str, Any]:
    """Covariates of a pilot's rows, and what else they tell: coefficients, scale, dispersion, times of censoring."""
    design, family, followed = spec.design, spec.family, spec.people.followed
    rows = check_covariates(given, columns, PLANNED, "pilot")
    if followed is not None and all(c in given for c in followed.columns):
        fitted, given = plain_hazards(spec, given), check_covariates(given, [*columns, *followed.columns], PLANNED)
        censored = scenario.censoring(followed, given, design.schema)
        return {"covariates": given, "params": np.asarray(fitted.params), "answered": True, "censored": censored}
    out: dict[str, Any] = {"covariates": rows}
    if any(c not in given for c in design.endog_sources) or spec.people.effect is not None:
        return out
    y, x, *_ = design.encode(given)
    y = given[scenario.response_of(spec)].to_numpy() if family.response in {"levels", "ordinal"} else y
    fitted = plain_model(spec, y, x, robust=True) if len(y) > x.shape[1] else None
    if fitted is None:
        return out
    out["params"] = np.asarray(fitted.params).T.reshape(-1)
    if family.scoring.extra:
        out["dispersion"] = fitted.model.family.alpha
    if scenario.response_of(spec) in given:
        scale = float(fitted.scale) ** (1.0 if family.scoring.residual else 0.5) if family.scaled else None
        out |= {"covariates": given, "scale": scale, "answered": True}
    return out


def _goal(width: Any, effect: Any, power: Any, coef: Any, names: Sequence[str]) -> Goal:
    given = {"width": width, "effect": effect}
    named = any(isinstance(sizes, Mapping) for sizes in given.values())
    if coef is not None and (named or (width is None and effect is None)):
        raise OptionError("coef= goes with a width= or effect= that names none: give one of them, or leave coef= out.")
    if power is not None and effect is None:
        raise OptionError("power= goes with effect=: give effect= too, or ask plan(n=).table(power=) what is found.")
    several = isinstance(coef, Iterable) and not isinstance(coef, str)
    slopes = [c for c in names if c.rpartition(":")[2] != "Intercept"] or names
    wanted = slopes if coef is None else coef if several else [coef]
    chosen = [c for one in wanted for c in find_coef(one, names)]
    found = dict[str, dict[str, float]]()
    for what, sizes in given.items():
        items = dict(sizes) if isinstance(sizes, Mapping) else {} if sizes is None else dict.fromkeys(chosen, sizes)
        found[what] = {}
        for name, value in items.items():
            size = real(value)
            if size is None or size == 0.0 or not math.isfinite(size) or (what == "width" and size < 0.0):
                must = "other than 0, positive of a width, in the coefficient's units"
                raise OptionError(f"{what}={shown(value)} must be a number {must}.")
            found[what] |= dict.fromkeys(find_coef(name, names, what), size)
    return Goal(found["width"], found["effect"], POWER if power is None else check("plan.formula", "power", power))
