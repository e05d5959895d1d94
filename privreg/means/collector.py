"""Collector of means: sums of reports and of their products, from which all else follows."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from privreg.base.arrays import Array
from privreg.errors import InferenceError
from privreg.means.plan import Plan, Sums
from privreg.means.terms import Term, places
from privreg.results.statement import Unusable

MOST_LEVELS: Final = 100  # Levels of a factor by which subgroups are compared: more make large matrices
FEW: Final = 10.0  # People who must have given an answer, and who must have not, for normal limits


class State(NamedTuple):
    """Sums over the people of one subgroup."""

    people: int
    counts: Array  # People who reported both of two items; shape (k, k)
    sums: Array  # Sums of a number's reports, by people who reported an item, too; shape (size, k)
    products: Array  # Sums of products of two numbers, those of levels of one factor left out; shape (size, size)


class Estimates(NamedTuple):
    """Estimates in the user's units and their covariance."""

    params: Array  # shape (p,)
    cov: Array  # shape (p, p)
    missing: Array  # Shares without a usable value and their errors, by term; NaN where it isn't asked; shape (t, 2)

    @property
    def unusable(self) -> list[Unusable]:
        """Shares without a usable value, by term."""
        return [Unusable(*row) for row in self.missing.tolist()]


def init(plan: Plan) -> State:
    """State before anybody reported."""
    if isinstance(plan, Sums):  # of these the sums alone, of numbers and their squares, as they are released
        return State(0, np.zeros((0, 0)), np.zeros(len(plan.scales)), np.zeros((0, 0)))
    k, size = len(plan.items), plan.size
    return State(0, np.zeros((k, k)), np.zeros((size, k)), np.zeros((size, size)))


def update(plan: Plan, state: State, reports: Array) -> State:
    """Take in reports, shape (n, len(plan.columns)), NaN where a person was not asked."""
    there, sums, products = ~np.isnan(reports), np.array(state.sums), np.array(state.products)
    given, mask = np.where(there, reports, 0.0), there[:, plan.places].astype(np.float64)
    columns, left = plan.columns, np.ones(len(plan.columns), dtype=np.bool_)
    for item in plan.factors:
        mine = (columns >= item.at) & (columns < item.here.stop)  # of a late one a mark, which is 0
        left &= ~mine
        both = given[:, mine].T @ given[:, left]
        products[np.ix_(columns[mine], columns[left])] += both
        products[np.ix_(columns[left], columns[mine])] += both.T
    products[np.ix_(columns[left], columns[left])] += given[:, left].T @ given[:, left]
    sums[columns] += given.T @ mask
    return State(state.people + len(reports), state.counts + mask.T @ mask, sums, products)


def add(plan: Plan, state: State, j: int, drawn: Array) -> State:
    """Add the sums of a late factor's reports times what is beside it, shape (r, levels); see `device.waiting`."""
    sums, products, k = np.array(state.sums), np.array(state.products), len(plan.items)
    here = plan.items[j].here
    sums[here, slice(j, j + 1) if plan.asked == 1 else slice(None)] += drawn[:k].T
    if plan.asked > 1:
        products[here, plan.columns] += drawn[k:].T
        products[plan.columns, here] += drawn[k:]
    return state._replace(sums=sums, products=products)


def _means(plan: Plan, state: State) -> tuple[Array, Array]:
    """People who reported each number, and the means of their reports, two of shape (size,)."""
    n = np.diag(state.counts)[plan.item_of]
    return n, state.sums[np.arange(plan.size), plan.item_of] / np.maximum(n, 1.0)


def _raw(state: State, plan: Plan) -> tuple[Array, Array]:
    """Means of reports and their covariance, which holds the mechanism's, the sampling's and the people's variance.

    That of a factor's levels follows from their shares and the mechanism. Of noised sums it follows from squares,
    shares and the known variance of noise; covariances of different terms are not released: NaN. Squares of means hold
    their noise, which is added to that of squares as well, so that variances are unbiased; these are cut where they
    would be negative.
    """
    if isinstance(plan, Sums):
        (means, noise, squares), people = _released([plan], [state]), state.people
        theta, cov = means[: plan.size], np.full((plan.size, plan.size), np.nan)
        for item in plan.items:
            here, at, over = item.here, item.at, plan.answered.get(item.term)
            if item.kind == "factor":
                shares = np.clip(theta[here], 0.0, 1.0)
                spread = np.diag(shares) - np.outer(shares, shares) / max(shares.sum(), 1.0)
                cov[here, here] = spread / people + np.diag(noise[here])
            elif item.kind == "answered":
                share = min(max(theta[at], 0.0), 1.0)
                cov[at, at] = share * (1.0 - share) / people + noise[at]
            else:
                square, doubt, _, _, share = squares[item.term]
                least = theta[at] ** 2 / min(share, 1.0)
                cov[at, at] = min(max(share * (square + doubt), least) - theta[at] ** 2, 1.0) / people + noise[at]
                if over is not None:
                    cov[at, over] = cov[over, at] = theta[at] * (1.0 - min(share, 1.0)) / people
        return theta, cov
    (n, theta), of = _means(plan, state), plan.item_of
    if (n < 2).any():
        few = "one was asked of fewer than 2 people of a subgroup; it takes more people, or a larger m"
        raise InferenceError(f"of {len(plan.items)} items every person was asked {plan.asked}, and {few}.")
    cov = state.counts[np.ix_(of, of)] * theta  # in place from here on: these matrices may be large
    given = state.sums[:, of]
    cov -= given.T
    cov *= theta[:, None]
    cov -= given * theta
    cov += state.products
    scale = np.sqrt(n * (n - 1.0))
    cov /= scale
    cov /= scale[:, None]
    for factor in plan.factors:
        cov[factor.here, factor.here] = factor.mechanism.covariance(theta[factor.here]) / (n[factor.at] - 1.0)
    if plan.vector is None:
        # few reports of few answers may be all alike, and their variance 0: a mechanism's at the mean is convex in the
        # value, so that it is a lower bound, and with that of the values exact where answers are two
        least = np.where(plan.biased, 0.0, _noise(plan, theta)) / n
        np.fill_diagonal(cov, np.maximum(least, np.diag(cov)))
    return theta, cov


def _released(plans: Sequence[Plan], states: Sequence[State]) -> tuple[Array, Array, dict[int, Array]]:
    """Means by noised sums of some subgroups' people together, and their noise variances, two of shape (width,).

    And by term of numbers, on [-1, 1], of those who have one: the mean square; noise variances of the mean, of the
    square and their covariance; and the share of those who have a number.
    """
    some, out = [(p, s) for p, s in zip(plans, states, strict=True) if isinstance(p, Sums) and s.people], {}
    plan, people = some[0][0], sum(s.people for _, s in some)
    means = np.sum([s.sums / (p.scales * people) for p, s in some], axis=0)
    noise = np.sum([p.variances(s.people) * (s.people / people) ** 2 for p, s in some], axis=0)
    for k, j in enumerate(plan.squared):
        at, over = [plan.items[j].at, plan.size + k], plan.answered.get(plan.items[j].term)
        share, doubt = (1.0, 0.0) if over is None else (max(means[over], 1.0 / people), noise[over])
        mean, square = means[at] / share
        both = np.array([*(noise[at] + np.array([mean, square]) ** 2 * doubt), mean * square * doubt]) / share**2
        out[plan.items[j].term] = np.array([square, *both, share])
    return means, noise, out


def moments(terms: Sequence[Term], plans: Sequence[Plan], states: Sequence[State]) -> Array:
    """Mean squares of numbers about the middles of their ranges, and what noise does to them, user's units.

    Of everybody, then of each subgroup, shape (1 + g, 5, p); the five are those of `_released`. NaN of levels, and
    where no squares are reported.
    """
    first, groups = places(terms), [slice(g, g + 1) for g in range(len(plans))]
    out = np.full((1 + len(plans), 5, first[-1]), np.nan)
    for row, some in zip(out, (slice(None), *groups), strict=True):
        if isinstance(plans[0], Sums) and any(s.people for s in states[some]):
            for term, found in _released(plans[some], states[some])[2].items():
                row[:, first[term]] = found * terms[term].half ** np.array([2, 2, 4, 3, 0])
    return out


def alike_groups(terms: Sequence[Term], groups: Sequence[Estimates]) -> Array:
    """Wald's tests that subgroups have the same mean, or shares, by term: statistic and degrees of freedom; (t, 2).

    Subgroups are other people with other noise, so that estimates are independent: Σ_g d_g' W_g d_g, d_g the difference
    to the mean with weights W_g, the inverse covariances. Of shares only contrasts count, not their sum.
    """
    from scipy.linalg import helmert

    out, at = np.full((len(terms), 2), np.nan), 0
    for k, term in enumerate(terms):
        here = slice(at, at := at + len(term.names))
        some = [g for g in groups if np.isfinite(g.params[here]).all() and np.isfinite(g.cov[here, here]).all()]
        if len(some) < 2 or len(term.levels) > MOST_LEVELS:
            continue
        contrasts = helmert(len(term.levels)) if term.levels else np.eye(1)
        found = [contrasts @ g.params[here] for g in some]
        weights = [np.linalg.pinv(contrasts @ g.cov[here, here] @ contrasts.T, hermitian=True) for g in some]
        whole = np.linalg.pinv(np.sum(weights, axis=0), hermitian=True)
        mean = whole @ np.sum([w @ x for w, x in zip(weights, found, strict=True)], axis=0)
        q = sum((x - mean) @ w @ (x - mean) for w, x in zip(weights, found, strict=True))
        out[k] = q, (len(some) - 1) * len(contrasts)
    return out


def _noise(plan: Plan, theta: Array) -> Array:
    """Noise variances of a report's numbers, shape (size,), where people's values are all like these means."""
    if plan.vector is not None:
        return np.full(plan.size, plan.vector.sd(plan.radius, plan.size) ** 2)
    return np.concatenate([np.atleast_1d(item.mechanism.variance(theta[item.here])) for item in plan.items])


def alike(plan: Plan, state: State, rows: int) -> float:
    """Most that errors exceed standard errors by, if `rows` rows of each person are the same; from reports."""
    if rows == 1 or state.people < 2:
        return 1.0
    theta, cov = _raw(state, plan)
    whole = np.maximum(_means(plan, state)[0] * np.diag(cov), 1e-300)
    values = np.clip(1.0 - _noise(plan, theta) / whole, 0.0, 1.0)
    return math.sqrt(1.0 + (rows - 1.0) * float(values.max()))


def few(plan: Plan, state: State) -> frozenset[int]:
    """Terms of which some answer was given or withheld by so few that normal limits don't hold; from reports."""
    out = set[int]()
    if plan.vector is not None or not state.people:
        return frozenset(out)
    if isinstance(plan, Sums):
        noise = state.people**2 * plan.variances(state.people)
        # a noised count that is as skew as one of FEW without noise; for 0, what noise hides
        count = np.maximum(state.sums / plan.scales, np.sqrt(noise))
        least = np.minimum(count, np.maximum(state.people - count, np.sqrt(noise)))
        skewed = least > FEW**-0.5 * (least + noise) ** 1.5
        return frozenset(item.term for item in plan.factors if skewed[item.here].any())
    n, theta = _means(plan, state)
    for item in plan.items:
        here, m, ends = item.here, item.mechanism, None
        if m.name in {"grr", "oue"}:
            p, q = m.chances
            ends = -q / (p - q), (1.0 - q) / (p - q)
        elif m.name == "duchi":
            ends = m.output_range
        least = n[here].min()
        if ends is not None:  # people who gave the one of two answers, a share
            given = (theta[here] - ends[0]) / (ends[1] - ends[0])
            least = (n[here] * np.minimum(given, 1.0 - given)).min()
        if least < FEW:
            out.add(item.term)
    return frozenset(out)


def estimates(terms: Sequence[Term], plans: Sequence[Plan], states: Sequence[State]) -> Estimates:
    """Estimates for all people of some subgroups together.

    Subgroups count by their numbers of people, which are public. The covariance is that about the means of the
    population that the people were drawn from: mechanism, choice of items and the people's variance together.
    Shares of a factor's levels are made to add up to 1; see `shares_of_error`. Means are among those who have a value:
    ratios, with the covariance of their linear parts (delta method). Where the share of those who have one is above 3
    of its standard errors, 95% intervals cover 93% or more (tests/means/test_unusable.py); where it comes out as 0 or
    less estimates are NaN.
    Raises InferenceError if there are too few people.
    """
    some = [(p, s) for p, s in zip(plans, states, strict=True) if s.people]
    total, plan = sum(s.people for _, s in some), plans[0]
    if total < 2:
        raise InferenceError(f"{total} records sent reports; it takes 2 or more.")
    means, weights, cov = [], np.array([s.people / total for _, s in some]), np.zeros((plan.size, plan.size))
    half = np.take([terms[i.term].half if i.kind == "number" else 1.0 for i in plan.items], plan.item_of)
    for weight, (its, state) in zip(weights, some, strict=True):
        theta, v = _raw(state, its)
        for item in its.factors:
            here, even = item.here, np.full(item.size, 1.0 / item.size)
            noise = even if isinstance(its, Sums) else item.mechanism.shares_of_error(theta[here])
            theta[here] -= noise * (theta[here].sum() - 1.0)
            v[here] -= np.outer(noise, v[here].sum(axis=0))
            v[:, here] -= np.outer(v[:, here].sum(axis=1), noise)
        means.append(half * theta)
        cov += weight**2 * (half[:, None] * (half[:, None] * v).T)
    theta = weights @ np.array(means)
    differences = np.array(means) - theta  # subgroups' sizes are those of this sample
    cov += (differences.T * weights) @ differences / total
    params: list[float] = []
    slopes: list[tuple[float, int, int]] = []
    missing = np.full((len(terms), 2), np.nan)
    for item in (item for item in plan.items if item.kind != "answered"):
        term, share, over, sign = terms[item.term], 1.0, item.here.stop - 1, 0.0
        if item.term in plan.answered:
            over, sign = plan.answered[item.term], 1.0
            share = theta[over]
        elif item.size > len(term.names):  # the last level is 'missing'
            share, sign = 1.0 - theta[over], -1.0
        if sign:
            missing[item.term] = 1.0 - share, math.sqrt(max(cov[over, over], 0.0))
        share = share if share > 0.0 else math.nan
        for at in range(item.at, item.at + len(term.names)):
            value = theta[at] / share
            slopes += [(1.0 / share, len(params), at), (-sign * value / share, len(params), over)][: 2 if sign else 1]
            params.append(value + (0.0 if term.levels else term.middle))
    values, rows, columns = zip(*slopes, strict=True)
    few = csr_array((values, (rows, columns)), shape=(max(rows) + 1, plan.size))  # in as many steps as cov has entries
    return Estimates(np.array(params), np.asarray(few @ np.ascontiguousarray((few @ cov).T)), missing)
