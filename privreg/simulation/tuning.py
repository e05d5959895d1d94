"""Settings of one fit, from the user's options, and the way it is run: rounds, sums, the published single chain."""

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.aggregate.plan import Plan
from privreg.collector.inference.methods import METHODS, WIDE, Method, local_groups, resolve_methods
from privreg.data.participants import Counter
from privreg.errors import InferenceError, OptionError, UnsupportedArgumentError, warn
from privreg.families.family import Family, score_rules
from privreg.families.scores import Gauge, ScoreRules
from privreg.fits import aggregate, rounds
from privreg.fits.findings import ENOUGH
from privreg.fits.outcome import FitOutcome
from privreg.fits.plan import plan_of
from privreg.fits.settings import Efficient, FitOptions, RunOptions, Settings, Summing
from privreg.formula.spec import ModelSpec, refuse_what_sums_cannot
from privreg.formula.units import Units
from privreg.options.table import accepted, check, find
from privreg.options.unknown import refuse_unknown, same
from privreg.protocol.rounds import GROUPS, LEAST_GROUPS, MOST_GROUPS
from privreg.simulation.aggregate import AggregateRun, CuratorRun, refuse_few
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.streaming.encoding import Encoder

RATIOS: Final = (0.1, 2.0)  # Threshold of a loss over the residual scale where a fit learns that, at least and at most


def resolve_tuning(asked: FitOptions, spec: ModelSpec, rows: int | None = None) -> Settings:
    """Choose the numbers of a fit; `rows` are records expected, if known.
    Raises OptionError if an option is out of range, or does not go with another; InferenceError if a method can't do
    what is asked under these settings.
    """
    usual = FitOptions()
    if spec.trust == "central" and check("local.fit", "tuning", asked.tuning) != usual.tuning:
        raise OptionError("tuning='published' of a curator is a descent, without rounds to be planned; fit() takes it.")
    # before their ranges: there is no right value of what belongs to local reports alone
    for name in (*_LOCAL, *["alpha"] * spec.noise.again) if spec.summed else ():
        if not same(getattr(asked, name), getattr(usual, name)):
            raise OptionError(
                f"{name}= belongs to trust='local': with {spec.holders} the rounds follow from the number of people, "
                "the coefficients and mu; leave it out."
            )
    given = {name: check("local.fit", name, getattr(asked, name)) for name in _CHECKED}
    check("local.formula", "score_weights", spec.score_weights)
    methods, asked = _methods(asked.inference, given["tuning"], clusters=spec.clusters > 0), replace(asked, **given)
    if spec.summed:  # by two collectors, or by a curator or silos, who count the rows
        again = spec.noise.again
        if any(m.name != "sandwich" for m in methods) and not spec.clusters:
            raise InferenceError(f"with {spec.holders} intervals are by inference='sandwich'; leave it out.")
        refuse_what_sums_cannot(spec)
        if rows is None and not again:
            raise OptionError(
                "with two collectors the sizes of rounds follow from how many people will come, and these data don't "
                "say it; give rows= to the model."
            )
        measures = _share(asked.measures, spec, 1 if again else rows)
        plan, order = aggregate.plan_of(spec, rows or 1, measures, asked.like)
        if again and rows is not None:
            refuse_few(rows, plan.size, plan.mu, max(len(spec.silos), 1))
        mechanism = spec.mechanism_for(plan.width("main"), scalar=False)
        limits = {"low": plan.y_low, "high": plan.y_high}
        rules = score_rules(spec.scored, 1, math.inf, **limits, label=True, plain=spec.unbalanced)
        words, _ = _score_words(spec.scored, rules, spec.units, summed=True)
        return Settings(spec.holders, words, mechanism, methods, Summing(plan, order, rows, measures, asked.like))
    if asked.tuning == "published":
        if asked.like is not None:
            raise OptionError("tuning='published' learns no map and takes none over; leave like= or tuning= out.")
        if spec.people.gathered:
            raise OptionError(
                "tuning='published' is a chain of single rows, and k_max= or weights= make reports of several, or "
                "weighted; leave tuning= out."
            )
        from privreg.fits.published import resolve  # whose loops are compiled

        return resolve(asked, methods, spec, rows)
    return _efficient(methods, asked, spec, rows)


_CHECKED: Final = ("tuning", "threads", "batch_size", "lanes", "alpha", "step", "measures", "rounds", "order")


def _share(share: float | None, spec: ModelSpec, rows: int | None) -> float:
    """Share of the people who report measures of fit; 0 without measures."""
    if share is None:
        return 0.0
    if spec.people.gathered or spec.clusters:
        of, way = "people with k_max=, weights= or cluster=", "and measure by public rows: results.evaluate(rows)"
        if spec.people.effect is not None:
            way = "as predictions need persons' levels, which nobody learns"
        if spec.people.followed is not None:
            of, way = "times until an event", "and compare res.predict(new) with curves of pr.survival"
        raise OptionError(f"measures= is of single rows that count alike, not of {of}; leave it out, {way}.")
    if rows is None:
        raise OptionError(
            "measures= takes the last people of the stream, so it must be known how many come; give rows= to the model."
        )
    if not spec.scored.scoring.numbers(spec.classes):
        raise OptionError(f"measures= knows none for {spec.scored!r}; leave it out.")
    return share


def _methods(inference: object, tuning: str, *, clusters: bool = False) -> tuple[Method, ...]:
    """Inference methods; the default depends on the tuning and on clusters."""
    if inference is None:
        return ()
    if clusters and (tuning != "efficient" or inference not in ("auto", "between_lanes", ["between_lanes"])):
        raise InferenceError(
            "with cluster= intervals follow from how random groups of clusters differ, inference='between_lanes' of "
            "rounds; leave inference= and tuning= out."
        )
    if clusters:
        return (METHODS["between_lanes"],)
    if isinstance(inference, str) and inference == "auto":
        return (METHODS["random_scaling" if tuning == "published" else "sandwich"],)
    methods = resolve_methods(inference)
    for m in methods:
        if m.tuning not in {"any", tuning}:
            fits = ", ".join(repr(k) for k, v in METHODS.items() if v.tuning in {"any", tuning})
            raise InferenceError(
                f"inference={m.name!r} needs tuning={m.tuning!r}; with tuning={tuning!r} there are {fits}."
            )
    return methods


def _efficient(methods: tuple[Method, ...], asked: FitOptions, spec: ModelSpec, rows: int | None) -> Settings:
    """Settings of a fit by rounds: unit scores in learned coordinates."""
    if rows is None and asked.rounds != find("local.fit", "rounds").default:
        raise OptionError(
            f"rounds={asked.rounds} needs to know how many people will come, and of a stream of unknown length every "
            "round holds a quarter of those before; give rows= to the model, or leave rounds= out."
        )
    if spec.personal and spec.people.spent != "mu":
        raise OptionError(
            f"epsilon={spec.people.mu!r} of personal budgets goes with tuning='published'; here reports count by "
            "(mu_i / mu_max)²: give mu= and mu_max=."
        )
    measures = _share(asked.measures, spec, rows)
    family, budget, units, weights = spec.scored, spec.budget, spec.units, spec.score_weights
    if weights not in {None, "unit", "whitened", "likelihood"}:
        raise OptionError(
            f"score_weights={weights!r} goes with tuning='published'; the efficient tuning has 'whitened', 'unit' and "
            "'likelihood'."
        )
    lanes, clusters, p = asked.lanes, spec.clusters, units.centre.shape[0]
    if spec.blocks * p > WIDE and not spec.scalar:
        raise OptionError(
            f"{spec.blocks * p:,} coefficients are too many for local reports by rounds, which go up to {WIDE}: from "
            f"there on intervals want some {ENOUGH * WIDE**2 / 1e6:.0f} million people at mu = 1. Fit with "
            "tuning='published', or with trust='two_collectors' or 'central', where noise falls on sums; or merge "
            "levels."
        )
    low, high = spec.response_limits
    rules = score_rules(family, p, budget.mu, low=low, high=high, label=spec.scalar, plain=spec.unweighted)
    if family.scoring.cornered and rules.track and not RATIOS[0] <= rules.ratio <= RATIOS[1]:
        name = repr(family).partition("(")[0]
        raise OptionError(
            f"c={rules.ratio:g} residual scales: the scale is learned from how many residuals lie within c, which "
            f"tells little outside {RATIOS[0]:g} to {RATIOS[1]:g}; declare it, as in family={name}(c="
            f"{rules.ratio:g}, scale=...)."
        )
    if lanes is not None and clusters and clusters < 2 * lanes:
        raise OptionError(
            f"lanes={lanes} random groups need two clusters each, and {clusters} are declared; leave it out."
        )
    if lanes is not None and (not LEAST_GROUPS <= lanes <= MOST_GROUPS or lanes & (lanes - 1)):
        raise OptionError(
            f"lanes={lanes} is the number of random groups, which must be a power of two from {LEAST_GROUPS} to "
            f"{MOST_GROUPS}; leave it out ({GROUPS})."
        )
    groups = lanes or (local_groups(clusters) if clusters else GROUPS)
    scalar = spec.scalar
    mechanism = spec.mechanism_for(1 if scalar else spec.blocks * p, scalar=scalar)
    words, threshold = _score_words(family, rules, units)
    numbers = family.scoring.numbers(spec.classes) + int(spec.unusable) if measures else 0
    start = (1.0, 1.0, 0.0)  # of residuals, responses and their centre, until they are learned
    gauge = Gauge(family.code, family.tau, spec.classes, *start, family.y_max, spec.unusable) if numbers else None
    how = Efficient(
        *(rows, rules, mechanism, spec.blocks, scalar, low, high, threshold, weights != "unit", spec.unweighted),
        *(groups, gauge, numbers, measures),
        rounds=asked.rounds,
        covariates=asked.covariates,
        like=asked.like,
    )
    return Settings("efficient", words, mechanism, methods, how)


_LOCAL: Final = ("tuning", "lanes", "rounds", "covariates")  # Options of fits of local reports alone


_SHARED: Final = {"order", "step", "lanes", "batch_size"}  # Options of the descent that have another meaning elsewhere


def of_descent(spec: ModelSpec, asked: FitOptions, run: RunOptions) -> bool:
    """True if a curator's published descent is asked for.
    Raises UnsupportedArgumentError if options are given of it and of another fit.
    """
    given = {**vars(asked), **vars(run)}
    usual, curator = accepted("local.fit"), spec.trust == "central"
    changed = [n for n, o in usual.items() if not same(given[n], o.default)]
    if curator and asked.tuning == "published":
        refuse_unknown("curator.fit", [n for n in changed if n != "tuning" and n not in accepted("curator.fit")])
        return True
    descent = {"perturbation", "epochs", "radius", "average"} | (_SHARED if spec.noise.again else set())
    if alone := [n for n in changed if n in descent]:
        once = "each person reports once, so there is one pass"
        here = "all rows answer in each round, and nothing descends" if spec.noise.again else once
        raise UnsupportedArgumentError(
            f"{alone[0]}= belongs to a curator's published descent, trust='central' with fit(tuning='published'); here "
            f"{here}: leave it out."
        )
    return False


def warn_of_steps(asked: FitOptions) -> None:
    """Say that a fit by rounds has no steps, if some were asked for."""
    given = [f"{name}=" for name in ("step", "alpha", "batch_size") if getattr(asked, name) is not None]
    if given and asked.tuning == "efficient":
        level = "; the level of intervals is conf_int(alpha=)'s or tidy(conf_level=)'s" if "alpha=" in given else ""
        warn(
            f"{', '.join(given)} has no meaning in a fit by rounds and is ignored; it belongs to tuning='published', "
            f"and the next version will refuse it here{level}.",
        )


def _score_words(family: Family, rules: ScoreRules, units: Units, *, summed: bool = False) -> tuple[str, float]:
    """The family with its constants, and its threshold c where it is declared, internal units; `summed`: of sums."""
    if family.scoring.cornered and rules.track:
        return f"{family.title}, c = {rules.ratio:.4g} × residual scale, learned from the reports", 1.0
    if family.scoring.cornered:
        scale = float(family.scale)
        return f"{family.title}, c = {rules.ratio:.4g} × residual scale {scale:.4g} (declared)", (
            rules.ratio * scale / units.y_scale
        )
    balanced = rules.scoring.balanced(rules.shape, summed=summed)
    return f"{repr(family).removesuffix('()')}{', balanced score' if balanced else ''}", 1.0


def begun(
    spec: ModelSpec, settings: Settings, key: bytes | None, start: Array | None, counter: Counter | None
) -> tuple[Any, Encoder]:
    """A run of a fit with these settings that waits for its first rows, and the encoder of its batches."""
    how = settings.how
    if isinstance(how, Efficient):
        rounds_plan, order = plan_of(spec, settings, start)
        run = RoundsRun(rounds_plan, key, personal=spec.personal, unusable=spec.unusable)
        return run, Encoder(spec, order, counter, by_column=True)
    if not isinstance(how, Summing):
        from privreg.fits.published import begin

        encoder = Encoder(spec, np.arange(len(spec.design.names)), counter, by_column=False)
        return begin(spec, settings, key, start), encoder
    if start is not None:
        raise OptionError(
            f"start_params= belongs to trust='local': with {spec.holders} second moments give the start; leave it out."
        )
    encoder = Encoder(spec, how.order, counter, by_column=not how.again)
    if not how.again:
        return AggregateRun(how.plan, key), encoder

    def planned(sizes: tuple[int, ...]) -> Plan:
        return aggregate.plan_of(spec, sum(sizes), how.measures, how.like, sizes if spec.silos else ())[0]

    return CuratorRun(how.plan, key, planned, spec.silos), encoder


def outcome_of(run: Any, spec: ModelSpec, settings: Settings, order: NDArray[np.intp]) -> FitOutcome:
    """Outcome of a run so far, whose columns are in this `order`."""
    if settings.tuning == "published":
        from privreg.fits.published import report

        return report(run, spec, settings, order)
    outcome = rounds.outcome if settings.efficient else aggregate.outcome
    return outcome(run.held(), spec, settings, order)
