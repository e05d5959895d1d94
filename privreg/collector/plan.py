"""Plan of a fit by rounds, fixed before the first record, and progress of its collector after some rounds: values."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.covariates.moments import Bounded, Clamped, Layout, Scatter, Search
from privreg.collector.covariates.whitening import Cells
from privreg.collector.estimation import curvature
from privreg.collector.estimation.curvature import Curvature, Prior, RoundMeans
from privreg.collector.estimation.reference import Fitted
from privreg.families.scores import Gauge, ScoreRules
from privreg.privacy.mechanisms import Mechanism
from privreg.protocol.plans import Persons
from privreg.protocol.rounds import GROUPS, State
from privreg.protocol.schedule import Round, people_of

MOST: Final = 1 << 16  # Rows that are tried; of more the lengths of the rest are added
ROUNDING: Final = 1e-9  # Part by which rounding may make a row longer
SAMPLED: Final = 0.7  # Mean square of a score's length, relative to the square of its bound: (12) is 0.74 at κ_c = 0.5


class Crossed(NamedTuple):
    """A column that is a number where a record has a level, and 0 elsewhere."""

    column: int
    levels: tuple[int, ...]  # Columns of the factor
    numbers: tuple[int, ...]  # Columns of the number by itself


class Made(NamedTuple):
    """A column that is a sum of others and of products of two: of a factor and a number, or of a number and itself."""

    column: int
    of: NDArray[np.int64]  # Columns
    pairs: NDArray[np.int64]  # Places in `of`; shape (k, 2)
    by: Array  # Factors of the constant, of these columns and of these products; shape (1 + q + k,)

    def parts(self, v: Array) -> Array:
        """The constant, columns and products of rows, shape (m, d); shape (m, 1 + q + k)."""
        of = v[:, self.of]
        return np.column_stack([np.ones(len(v)), of, of[:, self.pairs[:, 0]] * of[:, self.pairs[:, 1]]])


class End(NamedTuple):
    """A bound of a number that has a spline, and the spline's row there."""

    name: str
    upper: bool
    columns: NDArray[np.int64]  # Columns of the spline; shape (k,)
    row: Array  # Their values at the bound, before `mix`; shape (k,)


class Extreme(NamedTuple):
    """Extreme rows of a set of columns that share no raw column with others, internal units; public."""

    rows: Array  # Candidates for the longest row, 0 in other columns: lengths are convex in numbers; shape (m, d)
    bends: tuple[Array, ...] = ()  # Second differences along numbers with curved columns; each of shape (·, d)


class Columns(NamedTuple):
    """Public facts on a design's columns, by which covariates are whitened and drawn in."""

    gaps: tuple[float, ...]  # Distance between the two values of two-valued columns; 0 for others
    cells: tuple[Cells, ...] = ()
    crossed: tuple[Crossed, ...] = ()
    alone: tuple[int, ...] = ()  # Numbers within ±1 that no other column is made of
    bases: bool = False  # True if curvature moves and several columns are made of one number alone, as splines are
    mix: Array | None = None  # Matrix by which nearly collinear columns were multiplied; shape (d, d)
    made: tuple[Made, ...] = ()  # Columns before `mix`, in the order in which they can be made
    ends: tuple[End, ...] = ()


class Plan(NamedTuple):
    """Public plan of a fit, fixed before the first record."""

    rounds: tuple[Round, ...]
    rules: ScoreRules
    layout: Layout
    mechanism: Mechanism
    d: int  # Covariates, the constant included
    blocks: int  # Linear predictors of a record
    label: bool  # True if only the response is private
    y_low: float  # Public limits of the response, internal units
    y_high: float
    unscaled: tuple[int, ...]  # Columns whose location and scale are learned; d stands for the response
    theta: Array | None  # The user's first guess, internal units; shape (b d,)
    c: float  # Huber threshold where it is declared, internal units
    columns: Columns
    whitened: bool
    nonresponse: bool  # True if it is declared that some records send noise only
    rows: int | None  # Records expected, if known
    groups: int = GROUPS  # Random groups of a main round
    function: Callable[[float, float], float] | None = None  # Score over its bound, of a family that users define
    gauge: Gauge | None = None  # Public constants of measures of fit, before scales are learned; None without measures
    measured: int = 0  # Numbers in a report on measures of fit
    covariates: Array | None = None  # Public rows that stand for records' covariates, internal units; shape (m, d)
    clamps: tuple[Bounded, ...] = ()  # Columns of which records report whether they were clamped, if any do
    # Public limits of the offset of the linear predictor, where curvature goes with it; None without an offset
    added: tuple[float, float] | None = None
    persons: Persons | None = None  # None where a record is one row that counts whole
    # Row map W, shape (d, d), and threshold c, internal units before a learned scale, None where it isn't learned, of
    # an earlier fit whose estimand is to be this one's
    like: tuple[Array, float | None] | None = None
    widened: float = 1.0  # Widths of bounds in sd, relative to those of numbers with persons' levels; see `fits.plan`
    clusters: int = 0  # Clusters, the people of each in one group; 0 if people are independent
    extremes: tuple[Extreme, ...] = ()  # Rows that declarations allow, where scores have no weights

    def people(self, progress: "Progress") -> int:
        """Records of the present round."""
        return people_of(self.rounds, progress.held, self.rows)

    def role(self, number: int) -> str:
        """Role of a round by its number; beyond the last round, which stays open, the last one's."""
        return self.rounds[min(number, len(self.rounds) - 1)].role

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.blocks * self.d

    @property
    def extra(self) -> int:
        """Constants added beside a design without one, while moments are learned."""
        return 1 - int(self.layout.constant)

    @property
    def factors(self) -> tuple[Cells, ...]:
        """Columns made of factors alone, where moments are reported."""
        return tuple(g._replace(columns=g.columns + self.extra) for g in self.columns.cells)

    def groups_of(self, role: str) -> int:
        """Number of groups with separate sums in a round of a role."""
        return {"location": GROUPS, "main": self.groups}.get(role, 1)

    def kappa(self, role: str) -> float:
        """Weight of the number in a report of a role."""
        return 1.0 if role == "pilot" and self.rules.track else 0.0

    def form(self, role: str) -> str:
        """Form of a role's reports: "numbers" from 0 to 1, "moments" of a direction, or "scores"."""
        if role in {"location", "clamping", "measures"}:
            return "numbers"
        return "moments" if role == "moments" else "scores"

    @property
    def direction(self) -> int:
        """Coordinates of the directions whose moments are reported."""
        return self.d + int(self.layout.response) + self.extra

    def numbers(self, role: str) -> int:
        """Numbers in a report of a role."""
        sizes = {"location": len(self.unscaled), "clamping": len(self.clamps), "measures": self.measured}
        sizes["moments"] = self.direction * (self.direction + 1) // 2
        return sizes.get(role, (1 if self.label else self.size) + int(self.kappa(role) > 0.0))

    def width(self, role: str) -> int:
        """Numbers in the sums of a role's reports."""
        if role == "measures":  # and their outer products
            return self.measured * (self.measured + 1)
        label = self.label and self.form(role) == "scores"
        return self.size + int(self.kappa(role) > 0.0) if label else self.numbers(role)

    def radius(self, role: str) -> float:
        """Radius of the ball that holds a role's reports before noise."""
        match self.form(role):
            case "numbers":
                return self.mechanism.bits_radius(self.numbers(role))
            case "moments":
                return self.mechanism.curvature_radius(1.0)
        return self.mechanism.joint_radius(1.0, self.kappa(role))

    def sd(self, role: str) -> float:
        """Noise sd of a number of a report of a role."""
        return self.mechanism.sd(self.radius(role), self.numbers(role))

    def effective_mu(self, longest: float) -> float:
        """μ per person of Gaussian noise as large as a score report's error: equation (38) of docs/estimator.md.

        `longest` is that of the states: without weights, noise is larger by longest²/d than for reports of length 1.
        """
        times = 1.0 / self.d if self.label else longest**2 / self.d if longest else 1.0
        return 2.0 / math.sqrt(self.sd("main") ** 2 * times + SAMPLED / self.d)


class ScoreRound(NamedTuple):
    """A round of scores: its state, and the sums of its reports."""

    state: State
    weight: Array  # shape (parts, groups)
    score: Array  # Sums of scores; shape (parts, groups, b d)
    number: float | None  # Mean number of joint reports; None without
    sd: float  # Noise sd of a number of a report

    @property
    def kind(self) -> tuple[float, float]:
        """Weight κ of the number in a joint report, and threshold c, by which a report's noise differs."""
        return self.state.kappa, self.state.c


class Progress(NamedTuple):
    """The collector's knowledge after some rounds."""

    state: State  # State that the next records answer
    scatter: Scatter
    places: Search
    fitted: Fitted | None  # Coefficients and residual scale by the pilot
    scored: tuple[ScoreRound, ...]
    curvature: Curvature | None
    held: tuple[int, ...]  # Records in each round behind
    points: Array | None = None  # Points of the reference model, coordinates of the scores; shape (m, d)
    added: Array | None = None  # Offsets of the points' linear predictors; shape (m,)
    prior: Fitted | None = None  # Prior of the pilot fit
    # Share of the records with a column's rarest value, as far as reported, and True if that is what distinguishes it
    # from other factors'
    shares: Array | None = None  # shape (d,)
    tied: NDArray[np.bool_] | None = None  # shape (d,)
    # In a round on measures of fit: their public constants, and the estimate, made of the rounds before
    gauge: Gauge | None = None
    final: "Estimated | None" = None
    clamped: Clamped | None = None  # Sums of the round on clamping
    local: "Local | None" = None
    stretch: Array | None = None  # T of equation (20), by which groups' offsets are multiplied; shape (q, q)
    since: int = 0  # First main round that counts: states of those before are too far from later ones

    @property
    def main(self) -> list[ScoreRound]:
        """Main rounds with any reports that count: from number `since` on."""
        return [s for s in self.scored if s.state.role == "main" and s.weight.any() and s.state.number >= self.since]

    @property
    def senders(self) -> int:
        """Records whose score entered the estimate."""
        return round(sum(float(s.weight.sum()) for s in self.main))


class Local(NamedTuple):
    """Moments of a report under the reference model, if a state were the truth."""

    c: float  # Huber threshold
    scale: float
    fixed: bool  # True if they are those of all states, as of scores of residuals
    root: Array  # L, lower triangular, where the reference model's curvature is L L'; shape (q, q)
    map: Array  # Map of mean reports, from scores' coordinates to those of x; shape (q, q)
    slopes: Array  # Derivatives of M in the k ways in which the model may be wrong, see `curvature.learn`; (k, q, q)
    noise: dict[tuple[float, float], Array]  # Second moments of a report by κ and threshold c, scores' coordinates
    biases: dict[tuple[bytes, float], Array]  # b of equation (14), by second moments of offsets and threshold c


class Carried(NamedTuple):
    """Rounds in coordinates in which the reference model has M = I."""

    rounds: list[RoundMeans]
    main: int  # Number of main rounds, which are the last ones
    gain: Array  # Part of the way to a round's one-step estimate that the next state went; shape (q, q)
    noise: Array  # Ω, covariance of a report; shape (q, q)
    local: Local  # Moments under the reference model at θ
    prior: Prior  # Prior of M

    @property
    def root(self) -> Array:
        """L, lower triangular: x = L' θ; shape (q, q)."""
        return self.local.root

    def learned(self, fewer: int = 0, *, brief: bool = False) -> Curvature:
        """Posterior of M from all rounds but the last `fewer`, see `curvature.learn`."""
        return curvature.learn(
            self.rounds[: len(self.rounds) - fewer], self.noise, self.prior,
            slopes=self.local.slopes, main=self.main - fewer, gain=self.gain, brief=brief,
        )  # fmt: skip


class Part(NamedTuple):
    """A round's part in an estimate."""

    round: ScoreRound
    weight: float  # Sum 1 over all rounds
    bias: Array  # Bias of its mean report by groups' offsets; shape (b d,)
    carry: Array  # Map of what a mean report is below its bias to the step of its state; shape (b d, b d)


class Estimated(NamedTuple):
    """Coefficients in the coordinates of the scores."""

    theta: Array  # shape (b d,)
    cov: Array  # shape (b d, b d)
    unknown: Array  # Part of `cov` that is due to the estimated curvature; shape (b d, b d)
    parts: list[Part]  # In order, main rounds last
    curvature: Curvature
    carried: Carried
    far: float = 0.0  # Distance that reports would move the mean state by, on the scale of a predictor that bends

    @property
    def main(self) -> list[Part]:
        """Parts of main rounds."""
        return [part for part in self.parts if part.round.state.role == "main"]


def longest_row(extremes: Sequence[Extreme], rows: Array) -> float:
    """B = sup ‖W x‖, W = `rows`, shape (d, d), for equation (45) of docs/estimator.md; 0 without `extremes`.

    Exact up to `MOST` combinations; beyond, the farthest of the rest are added. Between two values of a curve a row
    lies an eighth of a second difference from their chord, which is added.
    """
    tried, more = np.zeros((1, len(rows))), 0.0
    for one in sorted(extremes, key=lambda e: len(e.rows)):
        z = one.rows @ rows.T
        more += sum(0.125 * float(np.linalg.norm(bend @ rows.T, axis=1).max()) for bend in one.bends)
        if len(tried) * len(z) <= MOST:
            tried = (tried[:, None] + z).reshape(-1, len(rows))
        else:
            middle = 0.5 * (z.min(axis=0) + z.max(axis=0))
            tried, more = tried + middle, more + float(np.linalg.norm(z - middle, axis=1).max())
    return (float(np.linalg.norm(tried, axis=1).max()) + more) * (1.0 + ROUNDING) if extremes else 0.0
