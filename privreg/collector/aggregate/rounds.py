"""Next state from a round's noised sum. Functions on values; nothing here sees a row."""

import math
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.collector.aggregate import classes, lengths
from privreg.collector.aggregate.common import on_the_way
from privreg.collector.aggregate.curvature import Curvature, cautious, curvature, level, pooled, sampled, unequal
from privreg.collector.aggregate.lengths import AGAIN, EXACT, LEFT, STEPS, paid, slope_and_square
from privreg.collector.aggregate.plan import MOST_MU, Checked, Known, Plan, Progress, State, Summed, pairs, turned
from privreg.collector.aggregate.report import heights, sd, unstacked
from privreg.collector.estimation.curvature import FAR, SPREAD, floored
from privreg.collector.plan import longest_row
from privreg.protocol.schedule import PILOTS
from privreg.protocol.sums import MEDIAN, SQUARED

NARROWEST: Final = 0.05  # Logarithm of the factor within which the scale number follows, at least
WINDOWS: Final = (math.log(2.0), math.log(1.5), math.log(1.3))
"""Factor within which the scale number follows the scale: in approach, after a short step, and in the main round."""
VARYING: Final = 0.5
"""Sd of an interval's events about those of a constant hazard, relative to them. Of 30 fits of 3,000 people with two
collectors none was marked with this, and 3% with 1; where hazards differ by a factor 7 57% and 60%."""
LEAP: Final = math.log(4.0)  # Of the logarithm of an extra parameter in one step
STARTS: Final = (0.05, 5.0)  # Of an extra parameter
FILLED: Final = 1e-3  # Part of a report that people are taken to fill at least
WALKED: Final = 20  # Times that a step and the mean slope on its way follow from each other
NOISY: Final = 2.0  # Sds of its noise within which a step's length is explained by it


def begin(plan: Plan) -> Progress:
    """Progress before the first report."""
    half = np.maximum(0.5 * (plan.highs - plan.lows), 1e-12)
    rows = np.diag(np.where(plan.dummies, 1.0, plan.stretch) / half)  # an indicator's sd is half of its range at most
    rows[0, 0] = 1.0
    rows[1:, 0] = -np.diag(rows)[1:] * np.where(plan.dummies, plan.lows, 0.5 * (plan.lows + plan.highs))[1:]
    wide, several = 0.5 * (plan.y_high - plan.y_low), plan.rules.blocks > 1
    size = plan.rules.blocks + 1
    state = State(
        number=0,
        role="clamping" if plan.sizes["clamping"] else plan.first,
        rows=rows,
        theta=np.zeros(plan.size),
        y_centre=0.0 if several else 0.5 * (plan.y_low + plan.y_high),
        scale=math.sqrt(1.0 - 1.0 / size) if several else wide / (1.0 if plan.binary else plan.stretch),
        window=WINDOWS[0],
        ball=2.0 + float((~plan.dummies[1:]).sum()) + 0.8 * float(plan.dummies.sum()),
        classes=classes.contrasts(np.full(size, 1.0 / size))[0] if several else np.zeros((0, 0)),
        most=plan.most,
    )
    nothing = Known(np.eye(plan.d), np.full((plan.d, plan.d), np.inf), np.zeros((0, plan.d)))
    return paid(plan, Progress(state, nothing, (), ()))


def advance(plan: Plan, progress: Progress, total: Array, count: int) -> Progress:
    """Take in a round's noised sum, and publish the state of the next.

    `total`, shape (plan.width(role),), is the sum of the `count` reports that answered `progress.state`, with the
    noise of all who add it; of silos the sum of each, shape (silos, plan.width(role)).
    """
    held, by_silo, total = (*progress.held, count), total, plan.noise.whole(total)
    match progress.state.role:
        case "clamping":
            unit = math.sqrt(plan.width("clamping")) / count
            checked = Checked(total * unit, count, sd(plan, progress.state) * unit)
            found = progress._replace(state=progress.state._replace(role=plan.first), checked=checked)
        case "location":
            found = _located(plan, progress, total / count, count)
        case "moments":
            found = _whitened(plan, progress, total / count, count)
        case "directions" | "lengths":
            found = lengths.advance(plan, progress, total / count, count)
        case _:
            found = _approached(plan, progress, total, count, by_silo)
    far = longest_row(plan.extremes, found.state.rows) if plan.extremes else found.state.longest
    return found._replace(state=found.state._replace(number=progress.state.number + 1, longest=far), held=held)


# --- location and moments --------------------------------------------------------------------------------------


def _located(plan: Plan, progress: Progress, mean: Array, count: int) -> Progress:
    """Centre numbers at their noised mean, relative to the filled part of reports: Equation (27).

    Of intervals start at hazards of all people alike, and follow them until A: Equations (55) and (57). Shares of
    people with an event in each interval and at risk in it, over √J, come after the numbers.
    """
    state, columns, k = progress.state, plan.numbers, plan.located
    unit, filled = math.sqrt(plan.longest2), 1.0
    noise = sd(plan, state) * unit / count if plan.persons is not None else 0.0
    mean, counts = mean[: 2 * k + int(plan.persons is not None)] * unit, mean[2 * k :] * unit
    if plan.followed:
        mean = mean[: 2 * k]
    elif plan.persons is not None:
        filled = min(max(float(mean[-1]), 2.0 * noise, FILLED), 1.0)
        mean = mean[:-1] / filled
    mean, square = np.clip(mean.reshape(2, k), -1.0, [[1.0], [SQUARED]])
    wide = np.sqrt(np.clip(square / SQUARED - mean**2, plan.stretch**-2, 1.0))
    at, half = plan.lows.copy(), 0.5 * (plan.highs - plan.lows)
    rows, n = np.diag(state.rows).copy(), len(columns)
    at[columns] = 0.5 * (plan.lows + plan.highs)[columns] + half[columns] * mean[:n]
    rows[columns] /= plan.stretch * wide[:n]
    centre, scale = state.y_centre, state.scale
    if not plan.binary:
        centre += 0.5 * (plan.y_high - plan.y_low) * float(mean[-1])
        scale *= plan.stretch * float(wide[-1])
    rows = np.diag(rows)
    rows[1:, 0] = -np.diag(rows)[1:] * at[1:]
    state = state._replace(role="moments", rows=rows, y_centre=centre, scale=scale)
    if not plan.followed or plan.persons is None:
        return progress._replace(state=state, filled=filled, filled_sd=noise)
    widths, j = np.array(plan.persons.widths), len(plan.persons.widths)
    times = widths * np.clip(math.sqrt(j) * counts[j:], 2.0 * math.sqrt(j) * noise, 1.0)
    whole = min(max(float(counts[:j].sum()), 2.0 * math.sqrt(j) * noise, 0.5 / count), 1.0)
    usual = whole * times / times.sum()  # events of an interval if hazards are alike in all
    prior = (VARYING * usual) ** 2
    events = usual + prior / (prior + (noise**2 + usual / count)) * (counts[:j] - usual)
    logs = np.log(np.maximum(events, 0.1 * usual) / times)
    inside, intervals = np.zeros(plan.d), list(plan.levels)
    inside[intervals] = (logs[1:] - logs[0]) / (plan.highs - plan.lows)[intervals]
    inside[0] = logs[0] - float(inside @ plan.lows)
    state = state._replace(theta=turned(state.rows, inside), most=plan.until(whole, plan.normal))
    sampling = 0.0 if plan.noise.again else whole * (1.0 - whole) * (1.0 / count - 1.0 / plan.rows)
    return progress._replace(state=state, expected=(whole, whole), events=(whole, math.sqrt(j * noise**2 + sampling)))


def _whitened(plan: Plan, progress: Progress, mean: Array, count: int) -> Progress:
    """Second moments of (z, r), or of people at risk: whiten covariates, take a step by least squares: (5) and (6).

    At last the start that least squares gives: of classes (20), of levels in order (53), by a link (8).
    """
    state, known, d, blocks = progress.state, progress.known, plan.d, plan.rules.blocks
    matrix, noise = unstacked(mean) * state.ball, sd(plan, state) * state.ball / count
    matrix, noise = matrix / progress.filled, noise / progress.filled
    first = not np.isfinite(known.variances).all()
    level = max(float(matrix[0, 0]), 0.2) if first else max(float(np.trace(matrix[:d, :d])) / d, 0.2)
    matrix, noise = matrix / level, noise / level
    edge = math.sqrt(2.0 * (d + blocks)) * noise
    if first:
        second, spread = floored(matrix[:d, :d], max(0.7 * edge, 0.02)), np.full((d, d), noise**2)
        at = np.where(plan.dummies, 0.0, matrix[0, :d])
        at[0] = 1.0
        which = np.flatnonzero(plan.dummies if plan.indicators is None else plan.indicators)
        points = np.tile(at, (len(which), 1))  # records with one indicator, all else at its mean
        points[range(len(which)), which] = state.rows[which, 0] + state.rows[which, which] * plan.highs[which]
    else:
        share = known.variances / (known.variances + noise**2)
        spread, points = share * noise**2, known.points
        second = known.mean + share * (matrix[:d, :d] - known.mean)
        second = floored(second, max(0.1, 0.3 * math.sqrt(2.0 * d * float(spread.mean()))))
    unknown, each = np.zeros((d, d)) if first else spread, range(d, len(matrix))
    by, root = _whitening(plan, state, second, points, first=first)
    theta, scale = state.theta, 1.0
    if not plan.followed:  # else coefficients stay as they are, of hazards that are alike
        steps = [cautious(second, unknown, matrix[:d, j]) for j in each]
        pairs = zip(each, steps, strict=True)
        left = np.mean([matrix[j, j] - 2.0 * s @ matrix[:d, j] + s @ second @ s for j, s in pairs])
        theta = state.theta + state.scale * np.concatenate(steps)
        left = max(float(left), 0.5 * edge) if first else float(np.clip(left, max(0.3 * edge, 0.05), 2.0))
        scale = state.scale * math.sqrt(left)
    spread = np.asarray(float(spread.mean()) / np.outer(root, root))
    progress = progress._replace(state=state._replace(theta=theta, scale=scale), known=known._replace(points=points))
    progress = progress.turned(by, second, spread)
    state, known = progress.state, progress.known
    one = np.linalg.inv(state.rows)[0]  # coefficients of z that give 1 for everybody
    if first:  # the response's centre goes into the coefficients of the constant
        if not (plan.followed or (plan.binary and blocks > 1)):
            state = state._replace(theta=state.theta + state.y_centre * one, y_centre=0.0)
        return progress._replace(state=state._replace(ball=float(len(matrix))))
    state, known = state._replace(role="approach"), known._replace(variances=known.variances + SPREAD**2)
    if plan.followed:
        return progress._replace(state=state, known=known)
    if blocks > 1:
        basis, bent, theta = classes.start(state.classes, state.theta.reshape(blocks, -1), known.mean, one)
        state, known = state._replace(theta=theta, scale=1.0, classes=basis), known._replace(classes=bent)
    if plan.cuts.size:
        theta, second, found = classes.start_in_order(state.theta, known.mean, plan.cuts, state.rows)
        known = known._replace(mean=floored(second, classes.LEAST_CLASS))  # noise may leave no variance within cuts
        return progress._replace(state=state._replace(theta=theta, scale=1.0), known=known, expected=found)
    state, means = _linked(plan, state, known, one)
    return progress._replace(state=state, known=known, expected=means)


def _linked(plan: Plan, state: State, known: Known, one: Array) -> tuple[State, tuple[float, float] | None]:
    """Start of a family from least squares: Equation (8); with the mean slope and squared score there."""
    rules, scoring = plan.rules, plan.rules.scoring
    if rules.link == "identity" or rules.blocks > 1:
        return state, None
    at = float(one @ known.mean @ state.theta)  # the mean response
    match rules.link:
        case "log":
            top = max(plan.y_high, 1e-9)
            at = float(np.clip(at, 0.02 * top, top))
            link, by = math.log(at) - plan.rate, at
        case "margin":
            link, by = 2.0 * at - 1.0, 0.5
        case _:
            at = float(np.clip(at, 0.05, 0.95))
            link, by = scoring.linked(at)
    slopes = state.theta / by
    far = float(np.sqrt(np.maximum(slopes @ known.mean @ slopes - (at / by) ** 2, 0.0)))
    slopes = slopes * min(1.0, 2.5 / max(far, 1e-12))
    if rules.link == "log":  # the mean of e^η is that of e^(mean η + var η/2) where η is normal
        link -= 0.5 * min(far, 2.5) ** 2
    scale = float(np.clip(scoring.start(at, state.scale), *STARTS)) if scoring.extra else 1.0
    state = state._replace(theta=slopes + (link - float(one @ known.mean @ slopes)) * one, scale=scale)
    if rules.link == "log":
        return state, scoring.weighed(rules.shape, at, scale)
    most = rules.shape.a or 1.0
    return state, None if rules.link == "margin" else (by / most, at * (1.0 - at) / most**2)


# --- approach --------------------------------------------------------------------------------------------------


def read(plan: Plan, state: State, total: Array, count: int, by_silo: Array | None = None) -> Summed:
    """A round of scores' noised sum, of silos made of `by_silo`, as means with the sds of their noise: Equation (3)."""
    d, rules, reach, silos = plan.size, plan.rules, state.reach(plan), plan.noise
    more = 1.0 + int(rules.scaled)  # squares of the score and a number within ±1
    high, steepest = heights(plan, state)
    units = np.array([high * reach, steepest * reach**2, high**2 * more, reach, 1.0])
    units /= np.sqrt(np.maximum(rules.shares, 1e-300)) * count
    one = pairs(rules.blocks) * pairs(plan.d)
    ends = np.cumsum([d, one, one + (d + 1) * int(rules.scaled), *2 * [d * int(rules.cornered)]])
    score, slope, square, beyond, middle, numbers = np.split(total, ends)
    noise = sd(plan, state) * units
    # mean scale number, share of those inside, and the filled part of reports, of which both are parts: (28)
    number, inside, filled = 0.0, 0.0, 1.0
    if rules.scaled and plan.persons is None:
        number, inside = float(numbers[0] * units[4]), float(numbers[1] * units[4]) + 0.5
    elif rules.scaled:
        number, inside, outside = (numbers * units[4] * [1.0, 2.0, 2.0]).tolist()
        filled = min(max(inside + outside, 4.0 * math.sqrt(2.0) * noise[4], FILLED), 1.0)
    mean = np.append(score * units[0], number)[: d + int(rules.scaled)]
    products, products_noise = np.outer(mean, mean), float(noise[0] ** 2)
    if by_silo is not None and silos.silos:  # within silos and by squared weights: (50)
        numbers_of = by_silo[:, ends[4] : ends[4] + 1] * units[4] if rules.scaled else by_silo[:, :0]
        have, part = np.array(silos.counts, dtype=np.float64), np.square(silos.weights)
        whole = count / float(part @ have)
        square = (part @ by_silo[:, ends[1] : ends[2]]) * whole
        noise[2] *= math.sqrt(float(part @ part) / float(part.sum())) * whole
        part, times = part * have / float(part @ have), count / np.maximum(have, 1.0)
        means = np.hstack([by_silo[:, :d] * units[0], numbers_of]) * times[:, None]
        products = np.einsum("s,si,sj->ij", part, means, means)
        products_noise = float(float(part @ times**2) * noise[0] ** 2 / silos.adders)
    if rules.scoring.extra:
        units[3], noise[3] = math.sqrt(2.0) * units[3], math.sqrt(2.0) * noise[3]
    moved, steep = _scale_step(plan, state, number / filled, inside / filled, float(noise[4]) / filled)
    steep *= filled
    lean, lean_sd = np.zeros(d), 0.0
    if rules.cornered and (state.role == "main" or rules.scoring.extra):  # λ of (11), with James and Stein's factor
        over = float(noise[3]) / (MEDIAN * state.scale * steep * state.window)
        if rules.scoring.extra:
            over = -float(noise[3]) * rules.scoring.steps()[1] / (state.scale * steep)
        lean, lean_sd = middle * units[3] / noise[3] * -over, abs(over)
        lean *= 1.0 if rules.scoring.extra else max(0.0, 1.0 - d * lean_sd**2 / max(float(lean @ lean), 1e-300))
    lengths = np.append(np.full(d, reach), np.ones(len(mean) - d))
    return Summed(
        state=state,
        people=count,
        score=score * units[0],
        slope=unstacked(slope * units[1], rules.blocks),
        square=unstacked(square * units[2], rules.blocks) * np.outer(lengths, lengths),
        beyond=beyond * units[3] if rules.cornered else np.zeros(d),
        scale=math.log(state.scale) + moved,
        steep=steep,
        number=number,
        sds=(*(noise * [1.0, 1.0, reach**2, 1.0, 1.0]).tolist(),),
        lean=lean,
        lean_sd=lean_sd,
        products=products,
        products_noise=products_noise,
        counts=silos.came,
    )


def _scale_step(plan: Plan, state: State, mean: float, inside: float, noise: float) -> tuple[float, float]:
    """Step of the logarithm of a residual scale or an extra parameter, and the slope of the mean number by it.

    In a wide window as if errors were normal; in the narrow one of the main round by the share of residuals in it:
    Equation (11). Of an extra parameter by the number's slope, which is as large as its noise: (60).
    """
    scoring, window = plan.rules.scoring, state.window
    if scoring.extra:
        high = scoring.steps()[0]
        steep = max(high * (2.0 * inside - 1.0), 4.0 * (high * noise))
        low, most = (math.log(v / state.scale) for v in scoring.limits)
        return float(np.clip(np.clip(mean / steep, -LEAP, LEAP), low, most)), steep
    if not plan.rules.scaled:
        return 0.0, 0.0
    if state.role != "main":
        from scipy.optimize import brentq  # it takes long to load

        at = float(np.clip(mean, -0.95, 0.95))
        moved = float(brentq(lambda shift: scale_mean(shift, window) - at, -8.0, 8.0))
        return moved, (scale_mean(moved + 0.05, window) - scale_mean(moved - 0.05, window)) / 0.1
    normal = 2.0 * float(ndtr(MEDIAN * math.exp(window)) - ndtr(MEDIAN * math.exp(-window)))  # share in the window
    steep, far = max(inside, 0.3 * normal) / window, max(2.0 * window, WINDOWS[0])
    return float(np.clip(mean / steep, -far, far)), steep


def _approached(plan: Plan, progress: Progress, total: Array, count: int, by_silo: Array) -> Progress:
    """Take in a round of scores: a Newton step, a scale; the main round once that is short: (9) to (11) and (38)."""
    state, known, rules, again = progress.state, progress.known, plan.rules, plan.noise.again
    here = read(plan, state, total, count, by_silo)
    if state.role == "main":
        group = plan.clusters > 0 and progress.last and count < plan.rows
        return progress._replace(seen=(*progress.seen, here._replace(group=group)))
    seen = (*progress.seen, here)
    far, people_of = 0.0 if again else unequal(plan, seen), sampled(plan, seen)
    found = curvature(plan, progress, seen, people_of, far)
    second, x = _of_covariates(found.mean / found.level, known.classes), np.linalg.inv(state.rows)
    moments, lines = x @ second @ x.T, known.whole.points
    if rules.scoring.curved and not again:
        lines = np.concatenate([lines, lengths.skewed(plan, moments, state.rows, state.reach(plan))])
    noise = plan.square / people_of[-1] + here.sds[0] ** 2
    gain = max(float(here.score @ here.score) - plan.size * noise, 0.3 * noise)  # shorter as noise explains it
    # a start by least squares is farther off where the link isn't linear
    most = FAR * rules.bend if rules.follows else 2.0 * FAR
    step = np.zeros(plan.size)  # a curator's hazards are asked again
    slopes = None if plan.followed and again else on_the_way(plan, state.rows, found)
    for _ in range(WALKED if slopes else 1):
        mean = slopes(found.mean, state.theta, state.threshold(rules) * step)[0] if slopes else found.mean
        whole = -cautious(mean, found.variances, here.score) * gain / (gain + plan.size * noise)  # (10)
        far = np.abs(known.whole.points @ whole).max(initial=0.0) * (rules.link == "log" and not again)
        whole = whole * min(1.0, most / max(float(np.linalg.norm(whole)), float(far), 1e-12))
        step = 0.5 * (step + whole) if slopes else whole  # half of the way, as slopes that rise would overshoot
    size = float(np.linalg.norm(step))
    reach = np.array([size, *np.abs(lines @ step)])
    theta = state.theta + state.threshold(rules) * step
    moved = here.scale - math.log(state.scale)
    sure = WINDOWS[1 if again else 2]
    if rules.scoring.extra:  # a step that noise explains gets no shorter
        sure = max(sure, NOISY * math.sqrt(1.0 / count + here.sds[4] ** 2) / here.steep)
    scaled, below = abs(moved) < sure, bool(reach.max() < 1.0)
    near = below
    if rules.scoring.curved and not again:  # a step leaves less than its noise: Equation (38)
        error = math.sqrt(lengths.slope_and_square(plan, progress)[1] / people_of[-1] + here.sds[0] ** 2) / found.level
        wide = np.array([math.sqrt(plan.size), *np.linalg.norm(lines, axis=1)])
        near = bool((0.5 * reach**2 < rules.bend * error * wide).all())
    short = scaled and (near if state.role == "approach" else below)
    late = not again and progress.over + count + plan.sizes["approach"] > 0.55 * plan.rows
    more = not again and short and state.role == "approach" and plan.sizes["closing"] > plan.sizes["approach"]
    state = state._replace(
        theta=_parted(plan, state, theta),
        scale=state.scale * math.exp(moved),
        window=WINDOWS[int(short)],
        role="closing" if more else "approach",
    )
    looked = again or plan.like is not None or bool(plan.extremes)  # lengths follow otherwise
    if not looked:
        slope, square = slope_and_square(plan, progress)  # of a record; its unit is the response's range as reports say
        if rules.scoring.unsure > 1.0:
            matrices = [s.square[: plan.size, : plan.size] for s in seen]
            squares, noise, _ = pooled(matrices, [s.sds[2] for s in seen], people_of, square**2)
            height = level(squares, noise, square, plan.unsure)
            square = max(square, height) if rules.scoring.counts else height  # counts vary as their mean says, or more
        progress = progress._replace(expected=(slope, square))
    if more or not (short or late or len(seen) >= PILOTS):
        progress = progress._replace(state=state, seen=seen)
    else:
        near = near and (scaled or not rules.follows) and not again
        progress = _last_whitened(plan, progress._replace(state=state, seen=seen, near=near), found, second, count)
    if looked:
        return progress
    asked = progress._replace(held=(*progress.held, count))  # the length L of the next round, where nobody looked
    some, main = plan.people(asked), progress.state.role == "main"
    last = some if main else plan.rows - plan.measured - asked.over - some
    longest = lengths.borne(plan, asked, moments, plan.rows if main else some, last)
    return progress._replace(state=progress.state._replace(longest=longest))


def _last_whitened(plan: Plan, progress: Progress, found: Curvature, second: Array, count: int) -> Progress:
    """Whiten coordinates once more, by the curvature of covariates, and begin the main round, or that of lengths."""
    known, here, level, window = progress.known, progress.seen[-1], found.level, WINDOWS[2]
    edge = math.sqrt(2.0 * plan.d * float(_of_covariates(found.variances, known.classes**2).mean()) / plan.rules.blocks)
    by, root = _whitening(plan, progress.state, second, known.points, edge / level)
    noise = (found.noise / level) ** 2 * float((1.0 / known.classes**2).mean()) / plan.rules.blocks
    spread = float(np.full(second.shape, noise).mean()) / np.outer(root, root)
    progress = progress.turned(by, second, np.full(second.shape, SPREAD**2) + spread)
    # four standard errors of the scale: wider ones are off by as much where errors are skewed (Equation 11)
    if plan.rules.scaled:
        window = float(np.clip(4.0 * math.sqrt(1.0 / count + here.sds[4] ** 2) / here.steep, NARROWEST, window))
    role = "directions" if plan.noise.again and plan.like is None and not plan.extremes else "main"
    return progress._replace(state=progress.state._replace(role=role, window=window))


def asked_again(plan: Plan, progress: Progress, theta: Array, scale: float) -> Progress:
    """Ask the same rows at the estimate; the last time if what a step leaves of it is little beside its error.

    A step of δ thresholds leaves δ²/2 at most where slopes change by as much in one threshold as they are, see
    Equation (34).
    """
    state, rules, (slope, square) = progress.state, plan.rules, slope_and_square(plan, progress)
    step = theta - state.theta
    move = step / (state.threshold(rules) * rules.bend)
    far = max(float(np.linalg.norm(move)), *(abs(float(p @ move)) for p in progress.known.whole.points), 0.0)
    error = math.sqrt(square / plan.rows) / (progress.filled * slope * rules.bend)
    asked = sum(s.state.role == "main" for s in progress.seen)
    wider = abs(math.log(scale / state.scale)) if rules.scaled else 0.0
    near, most = 0.5 * far**2 < LEFT * error and wider < 0.5 * state.window, AGAIN
    if plan.mu >= MOST_MU:
        near, most = max(far, wider) < EXACT, STEPS
    # beyond a threshold slopes say little
    theta = _parted(plan, state, state.theta + step * min(1.0, 1.0 / max(far, 1e-12)))
    # steps that noise explains get no shorter by rounds of smaller budgets
    noisy = asked > 0 and far < NOISY * math.sqrt(plan.size) * progress.seen[-1].sds[0] / (slope * rules.bend)
    state = state._replace(theta=theta, scale=scale)
    return progress._replace(state=state, near=near, last=near or noisy or asked + 1 >= most)


def _parted(plan: Plan, state: State, theta: Array) -> Array:
    """Coefficients on the way to `theta` at which no gap of cut points is less than a third of the state's.

    The likelihood's term of a gap g is −log(1 − e^−g): Newton's step beyond twice the root would leave none.
    """
    if not (plan.cuts.size and plan.rules.shape.a):
        return theta
    old, new = (-np.diff(plan.cuts @ state.rows.T @ t) for t in (state.theta, theta))
    shrunk = float(((old - new) / np.maximum(old, 1e-12)).max(initial=0.0))
    return np.asarray(state.theta + (theta - state.theta) * min(1.0, 2.0 / 3.0 / max(shrunk, 1e-12)))


def _of_covariates(matrix: Array, each: Array) -> Array:
    """Mean of the blocks of all predictors, each relative to its curvature: of covariates alone, shape (d, d)."""
    b = len(each)
    cube = matrix.reshape(b, len(matrix) // b, b, -1)
    return np.asarray(sum(cube[k, :, k] / each[k] for k in range(b)) / b)


def _whitening(
    plan: Plan, state: State, second: Array, points: Array, edge: float = 0.0, *, first: bool = False
) -> tuple[Array, Array]:
    """Map of the state's rows by which second moments are the identity, no point longer than L: Equation (5).

    But after the `first` to rows of an earlier fit, where there is one. And eigenvalues of the moments.
    """
    if plan.like is not None and not first:
        by = plan.like[0] @ np.linalg.inv(state.rows)
        return by, np.asarray(np.linalg.svd(by, compute_uv=False) ** -2.0)
    out, square = floored(second, max(0.1, 0.3 * edge)) if edge else second, plan.reach**2
    for point in points:
        if (length := float(point @ np.linalg.solve(out, point))) > square:
            out = out + (1.0 / square - 1.0 / length) * np.outer(point, point)
    values, vectors = np.linalg.eigh(out)
    return np.asarray((vectors / np.sqrt(values)).T), values


def scale_mean(shift: float, window: float) -> float:
    """Mean scale number at a residual scale e^shift times the state's, errors being normal."""
    far = np.log(np.abs(ndtri((np.arange(2000) + 0.5) / 4000)) / MEDIAN)
    return float(np.clip((far + shift) / window, -1.0, 1.0).mean())
