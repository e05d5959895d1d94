"""Plan of a fit by rounds, made before the first record, with the longest rows that declarations allow. Public."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.covariates import whitening
from privreg.collector.covariates.moments import LARGE, SMALL, Layout
from privreg.collector.covariates.whitening import Cells
from privreg.collector.plan import MOST, Columns, Crossed, End, Extreme, Made, Plan
from privreg.errors import OptionError, UnsupportedArgumentError, as_named
from privreg.fits.notes import quantile
from privreg.fits.settings import Settings
from privreg.formula.language.allowlist import SPLINES
from privreg.formula.spec import ModelSpec
from privreg.protocol.plans import ScorePlan
from privreg.protocol.rounds import State
from privreg.protocol.schedule import WANTED, schedule

Values: TypeAlias = Mapping[str, Array]  # Values by raw column: numbers, or codes of levels

COARSE, FINE = 9, 65  # Values of a number of which a column may be, and of one of which it is, no linear function
FARTHEST: Final = 1e100  # Size of a coefficient to begin with, at most: squares are to be numbers
BETWEEN: Final = 4096  # Rows within the declarations at which what was found is checked
CORNERS: Final = 64  # Ends of columns that share numbers, at most: of larger groups there are those of one number alone
STRAIGHT: Final = 1e-9  # Second difference of a column within ±1, about, that counts as none


def extremes_of(spec: ModelSpec, order: NDArray[np.intp]) -> tuple[Extreme, ...]:
    """Extremes of a design's columns, in the `order` inside, for every group of raw columns that meet in a term.
    Raises UnsupportedArgumentError if a column has larger values between those that are tried.
    """
    groups, ends = _groups(spec), _extents(spec)
    fixed = {j for j, of in enumerate(spec.design.sources) if not of}
    out = [Extreme(_inside(spec, order, _rows(spec, ends, {}), fixed))]
    for names, columns in groups.items():
        out += _of_group(spec, order, ends, columns, names)
    # columns whose values between those tried are beyond these and their second differences
    schema, every = spec.design.schema, sorted(ends)
    given: dict[str, NDArray[Any]] = {}
    for k, name in enumerate(every):
        place = np.arange(1.0, BETWEEN + 1.0) * math.sqrt(k * k + 3.0 * k + 3.0) % 1.0  # root of no square
        if name in schema.levels:
            given[name] = np.minimum((place * len(schema.levels[name])).astype(np.intp), len(schema.levels[name]) - 1)
        else:
            low, high = schema.limits(name)
            given[name] = np.clip(low + place * (high - low), low, high)
    x = np.asarray(spec.design.encoder.exog(given, BETWEEN)[0], dtype=np.float64)
    x = _inside(spec, order, x, set(range(x.shape[1])))
    bent = sum(np.abs(bend).max(axis=0) / 8.0 for one in out for bend in one.bends)
    low, high = sum(one.rows.min(axis=0) for one in out) - bent, sum(one.rows.max(axis=0) for one in out) + bent
    beyond = np.flatnonzero(((x < low - STRAIGHT) | (x > high + STRAIGHT)).any(axis=0))
    if len(beyond):
        column = spec.design.names[order[beyond[0]]]
        raise UnsupportedArgumentError(
            f"score_weights='likelihood' goes with columns whose largest value the declarations tell, and {column!r} "
            "changes too fast between the values that are tried; leave score_weights= out, or write a smoother term."
        )
    return tuple(out)


def _groups(spec: ModelSpec) -> dict[tuple[str, ...], set[int]]:
    """Columns by the raw columns that meet in their terms."""
    sources, groups = [set(raw) for raw in spec.design.sources], list[set[str]]()
    for raw in sources:
        met = [g for g in groups if g & raw]
        groups = [*(g for g in groups if not g & raw), raw.union(*met)] if raw else groups
    return {tuple(sorted(g)): {j for j, raw in enumerate(sources) if raw & g} for g in groups}


def _extents(spec: ModelSpec) -> Values:
    """Codes of each factor's levels, and both bounds of each number."""
    schema = spec.design.schema
    return {
        name: np.arange(float(len(schema.levels[name]))) if name in schema.levels else np.array(schema.limits(name))
        for name in set().union(*spec.design.sources)
    }


def corners_of(spec: ModelSpec, order: NDArray[np.intp]) -> Array:
    """Rows of columns that share numbers, at these numbers' bounds and each level, NaN in others; shape (k, d).

    Of groups with more than `CORNERS` of them, rows of the columns that are of one number alone, at its bounds.
    """
    out, sources, ends = [np.zeros((0, len(order)))], [set(raw) for raw in spec.design.sources], _extents(spec)
    for group, columns in _groups(spec).items() if spec.people.effect is None else ():
        many = math.prod(len(ends[name]) for name in group) > CORNERS
        for names in ((name,) for name in group) if many else (group,):
            inside = [j for j in columns if sources[j] <= set(names)]
            if len(inside) > 1 and set(names) - spec.design.schema.levels.keys():
                rows = spec.units.probe_inside(_rows(spec, ends, {name: ends[name] for name in names}))[:, order]
                out.append(np.where(np.isin(order, inside), rows, np.nan))
    return np.concatenate(out)


def _of_group(
    spec: ModelSpec, order: NDArray[np.intp], ends: Values, columns: set[int], names: Sequence[str]
) -> list[Extreme]:
    """Extreme rows of columns that share raw columns; with too many combinations, of each column by itself."""
    given = {name: ends[name] for name in names}
    if math.prod(map(len, given.values())) > MOST:
        both = np.array([spec.design.probe.min(axis=0), spec.design.probe.max(axis=0)])
        return [Extreme(_inside(spec, order, both, {j})) for j in columns]
    numbers = [name for name in names if name not in spec.design.schema.levels]

    def second(some: Sequence[str], many: int, along: str) -> Array:
        even = given | {name: np.linspace(ends[name][0], ends[name][1], many) for name in some}
        cube = _inside(spec, order, _rows(spec, ends, even), columns).reshape(*map(len, even.values()), -1)
        return np.diff(cube, 2, axis=names.index(along)).reshape(-1, cube.shape[-1])

    bent = [name for name in numbers if np.abs(second([name], COARSE, name)).max() > STRAIGHT]
    each = MOST / math.prod(len(given[name]) for name in names if name not in bent)
    many, parsed = int(np.clip(each ** (1.0 / max(len(bent), 1)), COARSE, FINE)), spec.design.parsed
    # where terms may jump: at the formula's constants
    jumps = np.array([] if parsed is None else [s * c for c in parsed.constants for s in (1.0, -1.0)])
    near = [np.nextafter(jumps, -np.inf), jumps, np.nextafter(jumps, np.inf)]
    for name in bent:
        low, high = spec.design.schema.limits(name)
        given[name] = np.unique(np.clip(np.concatenate([np.linspace(low, high, many), *near]), low, high))
    x = _inside(spec, order, _rows(spec, ends, given), columns)
    rows = np.unique(x, axis=0)
    steps = 2 * len(rows) < len(x)  # has a few values only, and nothing between them
    return [Extreme(rows, () if steps else tuple(second(bent, many, name) for name in bent))]


def _rows(spec: ModelSpec, ends: Values, given: Values) -> Array:
    """The design, user's units, at all combinations of values of raw columns, others at any; shape (m, d)."""
    grid = dict(zip(given, np.meshgrid(*given.values(), indexing="ij"), strict=True)) if given else {}
    n = math.prod(map(len, given.values()))
    rows: dict[str, NDArray[Any]] = {
        k: grid[k].reshape(-1) if k in grid else np.repeat(v[:1], n) for k, v in ends.items()
    }
    rows |= {k: rows[k].astype(np.intp) for k in rows.keys() & spec.design.schema.levels.keys()}  # codes
    return np.asarray(spec.design.encoder.exog(rows, n)[0], dtype=np.float64)


def _inside(spec: ModelSpec, order: NDArray[np.intp], x: Array, columns: set[int]) -> Array:
    """Parts of rows by these columns alone, internal units; 0 elsewhere."""
    v = (x - spec.units.centre) / spec.units.scale
    v[:, [j for j in range(v.shape[1]) if j not in columns]] = 0.0
    spec.units.rows_mixed(v)
    return np.ascontiguousarray(v[:, order])


PARTS: Final = 12  # Columns, at most, of whose products another is looked for
RANK: Final = 1e-9  # Part of a column, relative to its largest, that counts as nothing


def guess_of(spec: ModelSpec, start_params: Any) -> Array | None:
    """The user's first guess in internal units, in the design's order of columns, shape (b p,); None without any.
    Raises OptionError if it isn't one finite number a coefficient.
    """
    if start_params is None:
        return None
    names = spec.coefficients
    if isinstance(start_params, Mapping):
        start_params = {as_named(str(n), names): value for n, value in start_params.items()}
        if (lacking := [n for n in names if n not in start_params]) or len(start_params) > len(names):
            wrong = f"lacks {lacking[0]!r}" if lacking else "has names that are no coefficient"
            raise OptionError(f"start_params {wrong}; it needs {', '.join(names)}.")
        start_params = [start_params[n] for n in names]
    try:
        values = np.asarray(start_params, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"start_params must be numbers, one for each of {', '.join(names)}.") from None
    if values.shape != (len(names),):
        raise OptionError(
            f"start_params must be {len(names)} finite numbers, one for each of {', '.join(names)}; "
            f"got shape {values.shape}."
        )
    if not (np.abs(values) < FARTHEST).all():
        raise OptionError(
            f"start_params has a number that is NaN, infinite or above {FARTHEST:g}; it needs a finite one for "
            f"{', '.join(names)}."
        )
    return np.concatenate([spec.units.params_inside(block) for block in values.reshape(-1, len(spec.design.names))])


def people_for(columns: int, sd: float) -> int:
    """Records needed: D (z/(0.04 μ))², z of `quantile`; with hardly any noise, enough to distinguish 5% from chance.

    `sd` is the noise sd of a number of a report: √D/μ of D columns where the noise is Gaussian.

    Examples
    --------
    >>> people_for(4, 2.0)
    15597
    """
    if not columns:
        return 0
    return math.ceil((quantile(columns) / (LARGE - SMALL)) ** 2 * max(sd**2, LARGE * (1.0 - LARGE)))


def plan_of(spec: ModelSpec, settings: Settings, guess: Array | None) -> tuple[Plan, NDArray[np.intp]]:
    """Plan of a fit by rounds, and the order of columns inside, shape (p,): a constant is first."""
    units, family, efficient = spec.units, spec.family, settings.efficient
    assert efficient is not None
    mechanism, label, rules, probe = efficient.mechanism, efficient.label, efficient.rules, spec.design.probe
    p = len(spec.design.names)
    within = spec.people.effect is not None  # what is left of columns are numbers, none of them made of others
    order, held = order_of(spec, factors=not label and not within)
    constant = units.constant_column(probe) is not None
    columns = np.flatnonzero(units.unscaled[order]).tolist()
    response = units.y_unscaled or (label and family.scoring.residual)
    unscaled = (*columns, p) if response else tuple(columns)
    noise = mechanism.sd(*efficient.report(p)) ** 2
    alone = label or not family.scaled  # True if moments are of covariates alone
    added = limits_of_offset(spec) if rules.varying else None
    size = p + int(not constant) + int(not alone or added is not None)
    numbers = size * (size + 1) // 2
    rows, widened = efficient.covariates, 1.0
    if within:  # ±(hi − lo)(1 − 1/K) is left, half of the variance between persons; of differences twice both
        spread = spec.people.spread
        widened = 2.0 * spread / math.sqrt(0.5 * spread if spread < 1.0 else 1.0)
    clamps = spec.clamps
    radius = mechanism.bits_radius(len(clamps))
    plan = Plan(
        rounds=schedule(
            d=efficient.blocks * p,
            noise=noise,
            moment_noise=mechanism.sd(mechanism.curvature_radius(1.0), numbers) ** 2,
            rows=efficient.rows,
            rounds=efficient.rounds,
            varying=rules.varying,
            declared=spec.scale_declared,
            label=label,
            # of people's reports they tell how much of a report is filled
            numbers=p > int(constant) or not alone or added is not None or spec.people.gathered,
            located=WANTED["location"] * len(unscaled) * max(noise / 4.0, 0.25),
            measured=efficient.measures,
            clamped=people_for(len(clamps), mechanism.sd(radius, len(clamps))) if clamps else 0,
        ),
        rules=rules,
        layout=Layout(constant, not alone or added is not None),
        mechanism=mechanism,
        d=p,
        blocks=efficient.blocks,
        label=label,
        y_low=efficient.y_low,
        y_high=efficient.y_high,
        unscaled=unscaled,
        theta=None if guess is None else guess.reshape(efficient.blocks, -1)[:, order].reshape(-1),
        c=efficient.c,
        columns=columns_of(spec, order, held, unscaled, varying=rules.varying),
        whitened=efficient.whitened,
        nonresponse=spec.nonresponse,
        rows=efficient.rows,
        groups=efficient.groups,
        function=spec.scored.compiled,
        gauge=efficient.gauge,
        measured=efficient.measured,
        covariates=None if rows is None else np.ascontiguousarray(rows.inside[:, order]),
        clamps=clamps,
        added=added,
        persons=spec.persons,
        widened=widened,
        clusters=spec.clusters,
        like=None if efficient.like is None else (efficient.like.map, efficient.like.c),
        extremes=extremes_of(spec, order) if spec.unweighted else (),
    )
    return plan, order


def limits_of_offset(spec: ModelSpec) -> tuple[float, float] | None:
    """Public limits of offset and logarithm of the exposure together; None of a model without."""
    design = spec.design
    ends = [design.schema.limits(design.offset)] if design.offset is not None else []
    if design.exposure is not None:
        low, high = design.schema.limits(design.exposure)
        ends.append((math.log(low), math.log(high)))
    low, high = sum(e[0] for e in ends), sum(e[1] for e in ends)
    if spec.people.effect is not None:  # of two rows
        low, high = low - high, high - low
    return (low, high) if ends else None


def to_user(spec: ModelSpec, order: NDArray[np.intp]) -> Array:
    """Linear part of the map from internal to the user's coefficients, columns in the order inside, (b p, b p)."""
    return np.asarray(np.kron(np.eye(spec.blocks), spec.units.matrix[:, order]))


def columns_of(
    spec: ModelSpec, order: NDArray[np.intp], held: tuple[Cells, ...], unscaled: tuple[int, ...], *, varying: bool
) -> Columns:
    """Public facts on a design's columns, in the `order` inside; `held` are those of factors alone.

    Scales of `unscaled` columns are learned. Columns that public rows show to be sums of products of others are in the
    order in which they can be made; if curvature is not `varying` those alone that cross a factor and a number: made
    squares had intervals longer by a fifth, which held no better.
    """
    design, units, within, place = spec.design, spec.units, spec.people.effect is not None, order.tolist()
    sources, gaps = [set(design.sources[j]) for j in place], units.gaps(design.probe)[order]
    mix = None if units.mix is None else np.ascontiguousarray(units.mix[np.ix_(order, order)])
    # products of levels and of columns made of numbers, both of which are columns of the model, too
    crossed, ends, made = list[Crossed](), list[End](), list[Made]()
    for j, raw in enumerate(sources):
        factors = raw & set(design.schema.levels)
        level = tuple(k for k, other in enumerate(sources) if other and other <= factors)
        numbers = tuple(k for k, other in enumerate(sources) if raw != factors and other == raw - factors)
        if level and numbers and not within:
            crossed.append(Crossed(j, level, numbers))
    # both bounds of each number that has a spline
    terms, constant = dict[tuple[str, str], list[int]](), units.constant_column(design.probe) is not None
    for k, j in enumerate(place if constant and not within and design.formula is not None else ()):
        if len(design.sources[j]) == 1 and design.names[j].startswith(SPLINES):
            terms.setdefault((design.sources[j][0], design.names[j].rpartition("[")[0]), []).append(k)
    for (name, _), columns in terms.items():
        limits = design.schema.limits(name)
        if not math.isinf(limits[0]):
            rows = (design.at(name, np.array(limits)) - units.centre) / units.scale
            ends += [End(name, bool(k), np.array(columns), rows[k, order[columns]]) for k in range(2)]
    v = units.probe_inside(design.probe)[:, order]
    v = v if mix is None else v @ np.linalg.inv(mix).T
    of_factors = {int(j) for g in held for j in g.columns}
    wanted = set(range(len(sources)) if varying else [c.column for c in crossed]) - of_factors
    for j in sorted(() if within or spec.scalar else wanted, key=lambda j: (len(sources[j]), j)):
        raw = sources[j]
        of = [k for k, other in enumerate(sources) if other and other < raw]
        if raw and raw != set().union(*(sources[k] for k in of)):
            of += [k for k in range(j) if sources[k] == raw]  # as of its powers
        if not 0 < len(of) <= PARTS:
            continue
        pairs = [(a, b) for a in range(len(of)) for b in range(a, len(of)) if sources[of[a]] | sources[of[b]] == raw]
        one = Made(j, np.array(of), np.array(pairs, dtype=np.int64).reshape(-1, 2), np.zeros(0))
        x = one.parts(v)
        by = np.asarray(np.linalg.lstsq(x, v[:, j], rcond=RANK)[0], dtype=np.float64)
        by[np.abs(by) < RANK * np.abs(by).max()] = 0.0
        if np.abs(x @ by - v[:, j]).max() < RANK * np.abs(v[:, j]).max():
            made.append(one._replace(by=by))
    # of columns made of the same numbers and not of each other
    free = Counter(frozenset(o) for k, o in enumerate(sources) if k not in of_factors | {m.column for m in made})
    bases = varying and not spec.scalar and not within and any(raw and many > 1 for raw, many in free.items())
    used = Counter(name for raw in map(set, design.sources) for name in raw)
    alone = tuple(  # numbers with declared bounds that no other column is made of
        k
        for k, raw in enumerate(sources)
        if raw and gaps[k] == 0.0 and k not in unscaled and all(used[name] == 1 for name in raw)
    )
    return Columns(tuple(gaps.tolist()), held, tuple(crossed), alone, bases, mix, tuple(made), tuple(ends))


def order_of(spec: ModelSpec, *, factors: bool) -> tuple[NDArray[np.intp], tuple[Cells, ...]]:
    """Order of columns inside: the constant, with `factors` those of factors alone, the others; and these groups."""
    probe = spec.design.probe
    constant = spec.units.constant_column(probe)
    groups: tuple[Cells, ...] = ()
    if factors:
        groups = whitening.groups(spec.design.sources, spec.design.schema.levels, spec.units.probe_inside(probe))
    first = [] if constant is None else [constant]
    first += [int(j) for g in groups for j in g.columns if j != constant]
    order = np.array([*first, *(j for j in range(probe.shape[1]) if j not in first)], dtype=np.intp)
    place = np.argsort(order)
    return order, tuple(g._replace(columns=place[g.columns]) for g in groups)


def device_plan(plan: Plan, state: State) -> ScorePlan:
    """Public values of a round of scores for devices, beside the state's coefficients, threshold c and row map."""
    return ScorePlan(
        shape=plan.rules.shape,
        blocks=plan.blocks,
        reach=math.inf if plan.label else 1.0,
        kappa=plan.kappa(state.role),
        radius=plan.radius(state.role),
        channel=plan.mechanism.channel(plan.numbers(state.role)),
        label=int(plan.label),
        y_low=(plan.y_low - state.y_centre) / state.y_scale,
        y_high=(plan.y_high - state.y_centre) / state.y_scale,
        longest=state.longest,
    )
