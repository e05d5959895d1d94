"""Plan of a fit by sums, fixed before the first record, and public progress after some rounds: values."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from privreg.base.arrays import Array, Flags
from privreg.collector.covariates.moments import LARGE, SMALL
from privreg.collector.covariates.whitening import FARTHEST
from privreg.collector.estimation.coordinates import SHARP
from privreg.collector.plan import Extreme, longest_row
from privreg.families.family import Family, score_rules
from privreg.families.hazards import BEYOND, USUAL
from privreg.families.hazards import longest as followed_until
from privreg.families.scores import Gauge, Scoring, scoring_of
from privreg.protocol import sums
from privreg.protocol.plans import Persons, Shape

EVIDENT: Final = 2.5  # Standard errors by which a clamped share must stand out
PRODUCTS: Final = 0.25  # Part of a report on measures of fit that products take
LARGEST: Final = {
    "clamping": 0.025, "location": 0.04, "moments": 0.12, "approach": 0.2, "several": 0.1, "closing": 0.25,
    "directions": 0.05, "lengths": 0.05,
}  # fmt: skip
"""Share of the records that a round has at most; sizes: Equation (4). "several": of approach where a report is of
several rows, as a first step that is far off is mended by another round."""
BINS: Final = 40  # Of squared lengths: each reaches to `WIDER` times the one before, the first to d
WIDER: Final = 1.35
BENT: Final = 8.0
"""Second derivative of a density over the density, times the squared residual scale: 7.9 of log-normal errors, of log
sd 1, at their 0.9 quantile."""
MOST_MU: Final = 1e6  # Largest budget of a plan, which is without privacy: noise is nothing beside whole numbers
CHECKED: Final = math.sqrt(2.0) * EVIDENT / (LARGE - SMALL)
"""Records beside √(bounded columns + 1)/μ of whom a share of `LARGE` exceeds `SMALL` by `EVIDENT` standard errors of
its noise."""


class Rules(NamedTuple):
    """A family in units of its score's bound. Public."""

    shape: Shape
    ratio: float  # Threshold c in residual scales; 1 without one
    scaled: bool  # Whether c follows the residual scale
    top: float  # Largest slope of the unit score, per unit of c
    slope: float  # Its mean under the reference model
    square: float  # Mean square of the unit score there
    shares: sums.Shares  # Squared norms of what a report holds; of score and slope by c 0 where there is no c
    fixed: float = 1.0  # Threshold c where it doesn't follow the residual scale
    unsure: float = 0.4  # Sd of slope and square about these means, relative to them, before a record is seen
    blocks: int = 1  # Linear predictors
    link: str = "identity"  # How the mean response follows from the linear predictor; "identity": least squares starts
    function: Callable[[float, float], float] | None = None  # Of a score of one's own: the unit score

    @property
    def scoring(self) -> Scoring:
        """The score."""
        return scoring_of(self.shape.family)

    @property
    def bend(self) -> float:
        """Thresholds over which the slope changes by as much as it is: of quantiles half a residual scale."""
        return self.scoring.bend / (self.ratio if self.scoring.density else 1.0)

    @property
    def follows(self) -> bool:
        """True if the threshold c follows the residual scale, and not a parameter of counts."""
        return self.scaled and not self.scoring.counts

    @property
    def cornered(self) -> bool:
        """True if the score has a threshold, beyond which it is constant."""
        return self.shares[3] > 0.0


class Noise(NamedTuple):
    """Noise of sums, by which trust models differ: who adds it, to whose rows, how often these answer; public.

    Of silos, each adds noise to the sum of its rows, and the sums are added with public weights.
    """

    alone: int = 2  # Who add noise to each sum of the same rows: both collectors, or whoever holds the rows
    again: bool = False  # Rows answer in every round, whose budgets add up, and not in one round alone
    silos: tuple[int, ...] = ()  # Records of each silo
    crowd: float = 0.0  # Records n* whose sampling varies as much as the noise of one sum: Equation (49)
    came: tuple[int, ...] = ()  # Records by silo in the sum at hand; as many as there are if empty

    @property
    def counts(self) -> tuple[int, ...]:
        """Records by silo in the sum at hand; a silo without any adds no noise."""
        return self.came or self.silos

    @property
    def weights(self) -> Array:
        """Weight of a record by silo, their mean over all records of the sum 1; shape (silos,): Equation (49)."""
        have = np.array(self.counts, dtype=np.float64)
        out = np.array([n / (n + self.crowd) for n in self.silos], dtype=np.float64) * (have > 0.0)
        out = out / out.max(initial=0.0)
        return np.asarray(out / (float(out @ have) / float(have.sum()))) if len(out) else out

    @property
    def adders(self) -> float:
        """Variance of the noise in a number of the whole sum, over that of one who adds it."""
        return self.alone * float(self.weights @ self.weights) if self.silos else float(self.alone)

    @property
    def precise(self) -> float:
        """Records of equal weights whose mean varies as much as that of the sum's, of silos: Equation (50)."""
        n = float(sum(self.counts))
        return n * n / float(np.square(self.weights) @ self.counts)

    def whole(self, total: Array) -> Array:
        """Sum over silos of their sums, shape (silos, numbers), by weight; of others as it is, shape (numbers,)."""
        return self.weights @ total if self.silos else total


class Plan(NamedTuple):
    """Public plan of a fit by sums, fixed before the first record."""

    d: int  # Coefficients of a linear predictor; the first column is the constant
    rows: int  # Records expected
    mu: float  # GDP parameter per person, against either collector
    rules: Rules
    y_low: float  # Public limits of the response, internal units
    y_high: float
    dummies: Flags  # Columns that are 0 or 1; shape (d,)
    lows: Array  # Public limits of the columns, internal units; shape (d,)
    highs: Array
    bounded: int = 0  # Columns of which records may report whether bounds clamp them
    measured: int = 0  # Records, the last ones, that report how well the estimate predicts them
    gauge: Gauge | None = None  # By what they measure it, before what is learned
    persons: Persons | None = None  # None where a record is one row that counts whole
    indicators: Flags | None = None  # Columns that were 0 or 1 before a person's level was taken off; None: `dummies`
    wide: float = 1.0  # Range of numbers less their person's mean, relative to that before
    clusters: int = 0  # Clusters, groups of which are batches of the main round; 0 if people are independent
    like: tuple[Array, float] | None = None  # `State.rows` and `reach` of an earlier fit, for all rounds of scores
    extremes: tuple[Extreme, ...] = ()  # Rows that declarations allow, where scores have no weights
    noise: Noise = Noise()
    rate: float = 0.0  # Offset at which second moments have counts: the middle of its public limits
    shifted: bool = False  # True if predictors have an offset
    cuts: Array = np.zeros((0, 0))  # Rows at cut points less that at the first, shape (K − 1, d): Equation (51)
    levels: tuple[int, ...] = ()  # Columns that are 1 in each interval but the first, where rows are intervals
    cells: tuple[Array, ...] = ()  # Of each factor, or several that meet, indicators of levels as forms; each (k, d)
    corners: Array = np.zeros((0, 0))  # Ends of columns that numbers share, NaN in others; shape (k, d)

    @property
    def followed(self) -> bool:
        """True if rows are intervals of a person's time at risk, of which each ends with an event or none."""
        return self.rules.scoring.followed

    @property
    def alone(self) -> int:
        """Independent rows of a person of which a report is made, at most: intervals are parts of one."""
        return self.persons.rows if self.persons and not self.followed else 1

    @property
    def most(self) -> float:
        """Cumulative hazard up to which people are followed, before any is seen; 0 of other scores: Equation (55)."""
        return self.until(USUAL, self.normal) if self.followed else 0.0

    @property
    def span(self) -> float:
        """Largest score of a record of length 1, before any is seen."""
        return sums.farthest(self.most)[0] if self.followed else 1.0

    def until(self, share: float, square: float) -> float:
        """Cumulative hazard A for a share of people with an event and rows of squared length `square`: (55)."""
        if self.mu >= MOST_MU:
            return math.log(max(self.rows, 1)) + BEYOND + sums.FALLS
        adders = self.noise.alone * max(len(self.noise.silos), 1)
        noise, (p1, p2, *_) = self.delta2 * adders * square / (self.mu**2 * self.rows), self.rules.shares
        edge = math.sqrt(2.0 * self.size * noise / p2 * square / self.rows)  # of slopes' noise, over the largest slope
        return followed_until(share, noise / p1, edge / SHARP)

    @property
    def first(self) -> str:
        """Role of the first round that is about the estimate."""
        return "location" if self.located or self.persons else "moments"

    @property
    def numbers(self) -> NDArray[np.intp]:
        """Columns whose mean the first round learns."""
        return np.flatnonzero(~self.dummies[1:]) + 1

    @property
    def located(self) -> int:
        """Numbers of the first round: columns that aren't indicators, and a response that is a number."""
        return len(self.numbers) + int(not self.binary)

    @property
    def binary(self) -> bool:
        """True if the response is a class, 0 or 1 say."""
        return self.rules.scoring.classed or self.followed

    @property
    def size(self) -> int:
        """Coefficients of all linear predictors."""
        return self.rules.blocks * self.d

    @property
    def stretch(self) -> float:
        """Factor of numbers at first: their spread is compared with the range that was declared."""
        return FARTHEST * self.wide

    @property
    def ends(self) -> Array:
        """Ends of the bins of squared lengths, shape (BINS,); the last one's is no end."""
        return np.asarray(self.d * WIDER ** np.arange(float(BINS)), dtype=np.float64)

    @property
    def normal(self) -> float:
        """Squared length that one in ten thousand whitened normal rows has."""
        return 1.0 + 2.0 * float(gammaincinv(0.5 * max(self.d - 1, 1), 0.9999))

    @property
    def square(self) -> float:
        """Mean squared score of a person under the reference model, whose K records are independent: Equation (29)."""
        return self.rules.square / (self.alone // self.persons.cuts if self.persons else 1)

    @property
    def unsure(self) -> float:
        """Sd about it, relative to it: little is known of how alike rows of a person are, or of weights."""
        return 4.0 if self.persons else self.rules.unsure

    @property
    def reach(self) -> float:
        """Length L of whitened covariates beyond which a record's weight falls: Equation (7).

        Without weights, where it is that of the states, what it is if numbers are uniform on their bounds.
        """
        if self.like is not None:
            return self.like[1]
        if self.extremes:
            sd = np.where(self.dummies, 0.5, 0.5 * (self.highs - self.lows) / math.sqrt(3.0))
            rows = np.diag(1.0 / np.maximum(sd, 1e-12))
            rows[0, 0], rows[1:, 0] = 1.0, -(np.diag(rows) * 0.5 * (self.lows + self.highs))[1:]
            return longest_row(self.extremes, rows)
        adders = self.noise.alone * max(len(self.noise.silos), 1)
        noise = self.delta2 * adders / (self.mu**2 * self.rules.shares[0] * self.square * self.rows)
        noise *= self.span**2
        return _reach(self.d, noise)

    @property
    def sizes(self) -> dict[str, int]:
        """Records of a round of each role but the last, which has the rest: Equation (4)."""
        size, rules, several = self.d + self.rules.blocks, self.rules, self.alone > 1  # rows of a person in a report
        noise = 4.0 * self.delta2 * (self.reach * self.span) ** 2 / (self.mu**2 * rules.shares[0] * self.square)
        noise = max(noise, 20.0 * self.size)
        closing = math.sqrt(self.rows * noise)
        means = self.located + 0.5 * bool(self.persons)
        half_filled = several and not (self.persons and self.persons.mean)
        by_chance = 0.5 * CHECKED**2 * LARGE * (1.0 - LARGE)  # where sampling hides such a share, and not noise
        # noise of means in half a range, and of second moments (its edge) in a typical eigenvalue
        rough = SHARP / self.wide * (0.5 if half_filled else 1.0)
        asked = {
            "clamping": max(CHECKED * math.sqrt(self.bounded + 1.0) / self.mu, by_chance),
            "location": 20.0 + math.sqrt(8.0 * means) / (rough * self.mu) if means else 0.0,
            "moments": max(40.0 + math.sqrt(8.0 * size**3) / (rough * self.mu), 10.0 * size),
            "approach": noise,
            "closing": closing if closing < LARGEST["closing"] * self.rows or self.cuts.size else 0.0,
        }
        if self.followed:  # events of an interval are a tenth of all if that many are in each, and a fifth of those
            asked["location"] = math.sqrt(2.0 * (4.0 * means + 3.0)) * self.apiece / self.mu
        most = LARGEST | ({"approach": LARGEST["several"]} if several or self.followed else {})
        return {role: int(min(n, most[role] * self.rows)) for role, n in asked.items()}

    @property
    def longest2(self) -> float:
        """Squared length of a report on location, before it is divided by it."""
        longest = sums.longest2(self.located, self.persons is not None)
        return longest + 1.0 if self.followed else longest

    @property
    def apiece(self) -> float:
        """One over the noise of an interval's share of events: a fifth of it, if half have one, J intervals alike."""
        assert self.persons is not None
        return 2.0 * self.persons.rows / SHARP

    @property
    def measures(self) -> Array:
        """Largest value of each number of a report on measures, whose squares sum to 1: Equation (24)."""
        assert self.gauge is not None
        alone = self.gauge.numbers
        singles, products = alone + int(self.gauge.nonresponse), pairs(alone)
        shares = np.repeat([(1.0 - PRODUCTS) / singles, PRODUCTS / products], [singles, products])
        return np.asarray(np.sqrt(shares))

    def people(self, progress: "Progress") -> int:
        """Records of the present round."""
        if self.noise.again:
            return self.rows
        role, rest = progress.state.role, self.rows - progress.over
        return max(rest - self.measured if role == "main" else min(self.sizes[role], rest), 1)

    def distance2(self, role: str, state: "State | None" = None) -> Fraction:
        """Largest squared distance of two reports of norm 1 at most, of a state, or any.

        Equations (45) to (47), of hazards Equation (56).
        """
        rules, rows = self.rules, self.persons.rows if self.persons else 0
        at = None if state is None or self.shifted else (state.theta.tolist(), state.reach(self))
        return sums.distance2(role, rules.shares, rules.shape.family, rows, self.located, at, scaled=rules.scaled)

    @property
    def delta2(self) -> float:
        """Largest squared distance of two reports of scores, whatever the state."""
        return float(self.distance2("main"))

    @property
    def reported(self) -> list[float]:
        """Numbers of the score in reports, and their distance: sums of reports with other ones don't add up."""
        shape = self.rules.shape
        return [float(shape.family), shape.a, shape.b, self.rules.ratio, *self.rules.shares, self.delta2]

    def width(self, role: str) -> int:
        """Numbers of a report."""
        if role == "measures":
            return len(self.measures)
        if role in {"directions", "lengths"}:
            return BINS + pairs(self.d) * (role == "directions")
        rules = self.rules
        if self.followed and role in {"location", "moments"}:  # events and times at risk by interval; no response
            return 2 * (self.located + len(self.levels) + 1) if role == "location" else pairs(self.d)
        return sums.width(
            role,
            d=self.d,
            bounded=self.bounded,
            located=self.located,
            cornered=rules.cornered,
            scaled=rules.scaled,
            blocks=rules.blocks,
            persons=self.persons is not None,
        )


class State(NamedTuple):
    """State that a round's devices answer. Public, made of noised sums only."""

    number: int
    role: str  # "location", "moments", "approach", "closing" (the last approach) or "main"
    rows: Array  # z = rows @ x of a record's covariates; shape (d, d)
    theta: Array  # Coefficients of z; of several predictors one after the other; shape (b d,)
    y_centre: float  # Of second moments, before there are coefficients
    scale: float  # Residual scale; 1 without one
    window: float  # Logarithm of the factor within which the scale number follows the scale
    ball: float  # Squared length to which rows of second moments are shortened
    classes: Array = np.zeros((0, 0))  # Contrasts of classes to which the predictors belong; shape (b, b + 1)
    gauge: Gauge | None = None  # Of a round on measures of fit
    longest: float = 0.0  # Length L, if not the plan's: the largest that declarations allow, or what noised lengths say
    mu: float = 0.0  # Budget of the round, where rounds share one; 0: the plan's
    most: float = 0.0  # Cumulative hazard A up to which people are followed; 0 of other scores

    def reach(self, plan: Plan) -> float:
        """Length L of z beyond which a record's weight falls."""
        return self.longest or plan.reach

    @property
    def span(self) -> float:
        """Largest score of a record of length 1: of one who is followed until A, see Equation (54)."""
        return sums.farthest(self.most)[0] if self.most else 1.0

    def top(self, rules: Rules) -> float:
        """Largest slope of the unit score, per unit of c."""
        return sums.farthest(self.most)[1] if self.most else rules.top

    def threshold(self, rules: Rules) -> float:
        """The score's threshold c."""
        return rules.ratio * self.scale if rules.follows else rules.fixed


class Known(NamedTuple):
    """Estimated second moments of whitened covariates, with their variances: Equations (5) and (6)."""

    mean: Array  # Shape (d, d)
    variances: Array  # Of its entries; √2 times an entry off the diagonal has this variance; shape (d, d)
    points: Array  # Whitened rows of records with an indicator, all else at its mean; shape (k, d)
    classes: Array = np.ones(1)  # Curvature along each contrast of classes, relative to its mean; shape (b,)

    @property
    def whole(self) -> "Known":
        """Second moments for the coefficients of all predictors: Equation (21)."""
        each = self.classes
        if len(each) == 1:  # of one predictor they are the same
            return self
        return self._replace(
            mean=np.asarray(np.kron(np.diag(each), self.mean), dtype=np.float64),
            variances=np.asarray(np.kron(np.outer(each, each), self.variances), dtype=np.float64),
            points=np.asarray(np.kron(np.eye(len(each)), self.points), dtype=np.float64),
        )


class Summed(NamedTuple):
    """One round's noised sum, as mean reports in the round's coordinates."""

    state: State
    people: float  # As many as sampling varies by
    score: Array  # Mean unit score times z, weighted; shape (b d,)
    slope: Array  # Mean slope times z z'; shape (b d, b d)
    square: Array  # Mean squared score, last beside it the scale number; shape (b d, b d) or (d + 1, d + 1)
    beyond: Array  # Mean sign times z of residuals beyond c, weighted; shape (d,)
    scale: float  # Logarithm of the residual scale; 0 without one
    steep: float  # By which the scale number rises with that logarithm; 0 without one
    number: float  # That number's mean
    sds: tuple[float, float, float, float, float]  # Of these five; off the diagonal √2 times an entry has it
    lean: Array  # Slope of `scale` by the coefficients; shape (d,)
    lean_sd: float  # Of its entries
    products: Array  # Mean of numbers, multiplied with each other, that `square` is about, of each silo; its shape
    products_noise: float  # Variance of a score's number in that, which its square is larger by
    counts: tuple[int, ...] = ()  # Records by silo
    group: bool = False  # Whether it is of one of several groups of clusters
    theta: Array = np.zeros(0)  # In another round's coordinates, score times the threshold: the state's coefficients
    noise: Array = np.zeros((0, 0))  # Then the covariance of the score
    wider: float = 1.0  # Mean square by which noise grew in turning


class Checked(NamedTuple):
    """Reported shares of usable records, and of clamped ones by bounded column."""

    shares: Array  # Shape (1 + bounded,)
    people: int
    noise: float  # Its sd in each of them


class Progress(NamedTuple):
    """Public progress of a fit after some rounds."""

    state: State
    known: Known
    held: tuple[int, ...]  # Records of the rounds that are over
    seen: tuple[Summed, ...]  # Sums of scores, in order
    near: bool = False  # Whether the last step was short; where rows answer again, so short that one more is enough
    last: bool = False  # Whether the present main round is the last one, where rows answer again
    expected: tuple[float, float] | None = None  # Mean slope and squared score, where the response's mean tells them
    # Share of rows weighted down, standard errors by which that may move estimates, scores that lack; None: not seen
    lost: tuple[float, float, float] | None = None
    pull: Array | None = None  # Where long rows point, mean zz'/‖z‖² of them, shape (d, d); None of no direction more
    shortest: float = 1.0  # Slope of the direction that the metric (35) shortened most, over what it was
    spent: float = 0.0  # Share of μ² of the rounds so far, the present one too, where they share it
    checked: Checked | None = None
    gauged: tuple[tuple[Array, int, float], ...] = ()  # Sums of measures of fit, records, and the noise's sd
    # Mean part of a report that a person's rows and weight fill, and the sd of its noise: Equation (27)
    filled: float = 1.0
    filled_sd: float = 0.0
    events: tuple[float, float] = (0.0, 0.0)  # Share of people with an event, by the first round, and its sd
    refused: tuple[int, ...] = ()  # Batches that were lost, or whose sum no reports can have

    @property
    def over(self) -> int:
        """Records of all rounds that are over."""
        return sum(self.held)

    def turned(self, by: Array, second: Array, variances: Array) -> "Progress":
        """Progress in the coordinates by @ z, by `second` moments of z, and variances of those of by @ z."""
        known = self.known._replace(mean=by @ second @ by.T, variances=variances, points=self.known.points @ by.T)
        state = self.state._replace(rows=by @ self.state.rows, theta=turned(by, self.state.theta))
        return self._replace(state=state, known=known)

    @property
    def second(self) -> Array:
        """Estimated second moments of columns, but for a factor; shape (d, d)."""
        back = np.linalg.inv(self.state.rows)
        return np.asarray(back @ self.known.mean @ back.T)


def pairs(size: int) -> int:
    """Entries of a symmetric matrix, each once."""
    return size * (size + 1) // 2


def turned(by: Array, theta: Array) -> Array:
    """Coefficients of z, of one predictor or several, as those of by @ z."""
    return np.asarray(np.linalg.solve(by.T, theta.reshape(-1, len(by)).T).T.reshape(-1), dtype=np.float64)


@cache
def _reach(d: int, noise: float) -> float:
    """L at which a sum of scores is known best, at most the 99% point: Equation (7).

    `noise` is the variance of a score's noise over that of its sampling, at L = 1.
    """
    half = max(d - 1, 1) / 2  # points of χ² are twice those of a gamma; `scipy.stats` takes a second to import
    square = 1.0 + 2.0 * gammaincinv(half, (np.arange(2_000) + 0.5) / 2_000)
    ends = 1.0 + 2.0 * gammaincinv(half, np.arange(1, 100) / 100.0)
    weight = np.minimum(1.0, ends[:, None] / square)
    curvature = (weight * square).mean(axis=1) / d
    variance = ((weight**2 * square).mean(axis=1) / d + noise * ends) / curvature**2
    return math.sqrt(float(ends[np.argmin(variance)]))


def rules_of(
    family: Family,
    low: float,
    high: float,
    y_scale: float = 1.0,
    *,
    several: bool = False,
    plain: bool = False,
    again: bool = False,
    c: float | None = None,
    noisy: bool = True,
) -> Rules:
    """A family's unit score and what is expected of it under the reference model: whitened normal covariates.

    `low` and `high` are public limits of the response, internal units; `y_scale` is the user's units of an internal
    one, in which a residual scale is declared. With `several` rows in a report squared scores, which say how alike
    these are, have a larger share, and so if all rows answer `again` in every round, where noise is small. `plain` is
    as in `score_rules`. `c` is the threshold of an earlier fit, internal units, that doesn't follow the residual scale.
    """
    known = score_rules(family, 1, math.inf, low=low, high=high, label=True, plain=plain)
    scoring = known.scoring
    scaled = known.track and (bool(scoring.extra) or (scoring.residual and c is None))
    kind = "plain" if family.scoring.residual and not scaled else scoring.shares
    kind += ", again" * (again and scaled)
    shares = sums.SHARES[kind.replace(", again", "") + ", persons" if several else kind]
    shape = known.shape if noisy else scoring.noiseless(known.shape)
    if not noisy:
        known = scoring_of(shape.family).rules(family, shape, 1, math.inf, low, high)
        scoring = known.scoring
    made = scoring.sums(family, shape, known, low, high)
    fixed = made.fixed or c or 1.0
    if family.scoring.cornered and not known.track:
        fixed = known.ratio * float(family.scale) / y_scale
    more = fixed, scoring.unsure, round(high) if scoring.multiple else 1, family.link, family.compiled
    return Rules(shape, known.ratio, scaled, made.top, made.slope, made.square, shares, *more)


def completed(plan: Plan) -> Plan:
    """Plan with what follows from its noise: n* of silos, Equation (49), and the window of a density, Equation (40).

    Sampling of n* records varies as much as one silo's noise at its budget; the window is as wide as noise, or
    sampling, and bias are alike.
    """
    rules = plan.rules
    if plan.noise.silos and plan.mu < MOST_MU:
        crowd = (plan.reach * plan.span) ** 2 * plan.delta2 / (rules.shares[0] * plan.mu**2 * plan.square)
        plan = plan._replace(noise=plan.noise._replace(crowd=crowd))
    if not (rules.scoring.density and rules.scaled):
        return plan
    noise = 2.0 * math.sqrt(plan.noise.adders) * rules.top * plan.reach**2 / (math.sqrt(rules.shares[1]) * rules.slope)
    ratio = (6.0 * rules.ratio * noise / (plan.mu * plan.rows) / BENT) ** (1.0 / 3.0)
    few = (6.0 / (BENT * math.sqrt(2.0 * plan.rows / math.sqrt(2.0 * math.pi)))) ** 0.4  # of sampling, normal errors
    part = min(max(ratio, few) / rules.ratio, 1.0)
    return plan._replace(rules=rules._replace(ratio=part * rules.ratio, slope=part * rules.slope))
