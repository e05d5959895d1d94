"""Public numbers of a fit: passes, step, lanes, sensitivity and noise, from declarations and the number of records."""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from privreg.errors import BudgetError, OptionError, choose, refuse
from privreg.options.table import check
from privreg.privacy.ledger import Budget
from privreg.published.descent import theory as noise
from privreg.published.descent.kernels import Q_HINGE, Q_NORM
from privreg.published.descent.losses import Loss
from privreg.published.descent.theory import Constants, constants, sensitivity

LANES: Final = 8  # Lanes by default
FEWEST: Final = 500  # Records a lane needs before several lanes are the default
MOST_STEPS: Final = 20_000_000  # Steps of all passes together by default, at most, for losses that are not smooth
FULL_WORK: Final = 200_000_000  # Records read in all by default, where each step reads all of them
BATCHES: Final = 50  # Batches a pass of gradient perturbation has by default
ACCOUNTED: Final = 1_000_000  # Noisy steps that can be accounted for in reasonable time
LONGEST: Final = 1.8  # Step times L of one lane's noisy descent at most; from 2 on it would diverge for some records
GUESS: Final = 2.0  # Distance of the start from the solution that is assumed in choosing a step, internal units
FLAT: Final = 5.0  # Greatest curvature over p times the least, as taken to be of columns that fill their public range
FORGOTTEN: Final = 10.0  # Step times steps times curvature after which the start is forgotten
ROOMY: Final = {Q_HINGE: 5.0, Q_NORM: 2.0}  # Default radius for losses that are not Lipschitz, internal units
HIDDEN: Final = 0.25
"""Standard error, relative to the range over which the loss is quadratic, at which noise may hide a direction."""
MOST: Final = 0.1  # Share of the budget (of μ²) that curvature may cost; all intervals are then 5% longer
TOP: Final = 2.02  # 99% point of the Tracy–Widom distribution (β = 1)


def edge(p: int) -> float:
    """99% point of the largest eigenvalue of `results.symmetric_noise` of sd 1, shape (p, p); see Johnstone (2001)."""
    return float((2.0 * math.sqrt(p) + TOP * p ** (-1.0 / 6.0)) / math.sqrt(2.0))


def budget_share(p: int, lanes: int) -> float:
    """Share of μ² that curvature costs.

    With the share s, curvature of n records has noise sd τ = √2 h r²/(√s μ n) and is seen above ``edge(p)`` τ. The
    mean of B lanes has the standard error 2√(2B) G/(μ n λ) along a direction of curvature λ, relative to G/(h r²), the
    range of the loss, 2√B √s/``edge(p)`` at the edge. That is set to `HIDDEN`. Neither n nor μ matters.
    """
    return min((HIDDEN * edge(p)) ** 2 / (4.0 * lanes), MOST)


@dataclass(frozen=True)
class Plan:
    """Public plan of a descent."""

    order: str  # "full" or "poisson" of gradient perturbation; "permuted" or "sampled" of output perturbation
    epochs: int  # Passes over the records
    step: float  # η, internal units
    radius: float | None  # Radius of the ball that iterates are projected on
    average: float  # Share of the iterates, the last ones, that are averaged
    sizes: tuple[int, ...]  # Records of each lane
    share: float  # Probability of a record to be in a batch; 1/size where steps take one record
    constants: Constants
    move: float  # Δ at K = epochs for output perturbation, G for gradient perturbation
    noise_sd: float  # Noise sd of each coordinate: of a lane's average, or of the sum over a batch
    curvature_mu: float  # GDP parameter of the release of curvature; inf without privacy
    curvature_sd: float  # Noise sd of the mean curvature, Frobenius coordinates

    @property
    def noisy(self) -> bool:
        """True if noise is added to gradients."""
        return self.order in {"full", "poisson"}

    @property
    def gaussian(self) -> bool:
        """True if the release is one Gaussian mechanism."""
        return self.order in {"permuted", "full"}

    def steps(self, size: int) -> int:
        """Number of steps of a lane, by its number of records."""
        return math.ceil(self.epochs / self.share) if self.noisy else self.epochs * size

    def wait(self, size: int) -> int:
        """Number of first iterates of such a lane that are left out of its average."""
        steps = self.steps(size)
        return min(int((1.0 - self.average) * steps), steps - 1)

    def delta(self, epsilon: float) -> float:
        """δ(ε) that the noise keeps, one for every lane: a record is in one of them."""
        if self.noise_sd <= 0.0:
            return 1.0
        if self.order == "poisson":
            z = self.noise_sd / self.constants.gradient
            return noise.gradient_delta(z, self.share, self.steps(self.sizes[0]), epsilon, self.curvature_mu)
        if self.gaussian:
            return noise.mixture_delta(np.array([self.certain_mu()]), np.ones(1), 1.0, epsilon)
        draws = [(self.constants, self.step, self.steps(n), n, 1e-9) for n in set(self.sizes)]
        each = [(*noise.sampled_sensitivities(*d), self.noise_sd, epsilon, self.curvature_mu) for d in draws]
        return max(noise.mixture_delta(*one) for one in each)

    def certain_mu(self) -> float:
        """GDP parameter that holds whichever records the samples took: a record may be in every one of them."""
        if self.noise_sd <= 0.0:
            return math.inf
        steps = self.steps(max(self.sizes))
        moved = 2.0 * self.constants.gradient * math.sqrt(steps)
        if not self.noisy:
            moved = sensitivity(self.epochs if self.order == "permuted" else steps, self.constants, self.step, steps)
        return math.hypot(moved / self.noise_sd, self.curvature_mu)


def make_plan(
    loss: Loss, budget: Budget, *, n: int, p: int, reach: float, perturbation: str = "gradient",
    order: str | None = None, epochs: int | None = None, step: float | None = None, radius: Any = "auto",
    lanes: int | None = None, average: float = 0.5, batch_size: int | None = None,
) -> Plan:  # fmt: skip
    """Fix the public numbers of a fit of `n` records and `p` coefficients, `reach` being sup ‖x‖ over the public box.

    Internal units. The options are those of `privreg.published.descent.fit`, whose errors these are.
    """
    average, step = check("curator.fit", "average", average), check("curator.fit", "step", step)
    noisy = check("curator.fit", "perturbation", perturbation) == "gradient"
    allowed, smooth = (("full", "poisson") if noisy else ("permuted", "sampled")), loss.alpha == 1.0
    order = choose("order", allowed[0] if order is None else order, allowed)
    wrong = {
        f"the descent's noise is Gaussian, which can't keep pure {budget.epsilon:g}-DP; give delta= with epsilon=, "
        "1e-6 say, smaller than one over the number of records": budget.pure,
        f"order={order!r} keeps (epsilon, delta) and has no mu or rho; give epsilon= and delta=, or take "
        f"order={allowed[0]!r}": order != allowed[0] and budget.private and budget.form != "epsilon, delta",
    }
    refuse(wrong, BudgetError)
    if batch_size is not None and order != "poisson":
        raise OptionError("batch_size= goes with perturbation='gradient', order='poisson'; leave it out.")
    lanes = check("curator.fit", "lanes", lanes, min(n, 1000)) or (LANES if n >= LANES * FEWEST else 1)
    paid = budget_share(p, lanes)
    mu, rest = math.sqrt(paid) * budget.mu, math.sqrt(1.0 - paid)  # of curvature; the part of μ that is left
    curved = mu, noise.curvature_sensitivity(loss.steepest, reach) / (mu * n)
    sizes = tuple(len(part) for part in np.array_split(np.empty(n, dtype=np.bool_), lanes))
    ball = None if radius is None else check("curator.fit", "radius", radius)
    if ball is None and noisy and math.isinf(loss.slope):
        raise OptionError(
            "radius=None leaves the gradient of this loss without a bound, which perturbation='gradient' needs; "
            "give a positive radius=, or perturbation='output'."
        )
    if ball == "auto":
        ball = ROOMY[loss.code] if math.isinf(loss.slope) else None
    size, fewest, sd = max(sizes), min(sizes), 0.0
    many = max(min(max(50 * p, 200) if smooth else 1000, 2000, FULL_WORK // n), 100)
    single = 1 if smooth else max(1, min(size // 4, MOST_STEPS // n))  # more shorten the steps of a kink
    epochs = check("curator.fit", "epochs", epochs) or {"full": many, "poisson": 20}.get(order, single)
    if noisy:
        batch = check("curator.fit", "batch_size", batch_size, fewest) or size / BATCHES
        share = 1.0 if order == "full" else min(max(batch, 1.0) / size, 1.0)
        steps = math.ceil(epochs / share)
        if share < 1.0 and steps > ACCOUNTED:
            raise OptionError(
                f"{steps:,} noisy steps are more than the {ACCOUNTED:,} that are accounted for; take fewer epochs= or "
                "a larger batch_size=."
            )
        known = constants(loss, reach, ball, 1.0, steps)  # the step matters only to unbounded iterates, refused above
        if budget.private and share == 1.0:  # every record is in every step: so many mechanisms of sensitivity 2G
            sd = 2.0 * known.gradient * math.sqrt(steps) / budget.mu / rest
        elif budget.private:
            sd = noise.gradient_multiplier(share, steps, *budget.asked, mu) * known.gradient
        if step is None:  # a smooth loss needs short steps for what is random in them alone, a kink for gradients, too
            batch = share * fewest
            length2 = known.gradient**2 / (batch if smooth else 1.0) + p * (sd / batch) ** 2
            step = min(ball or GUESS, GUESS) / math.sqrt(steps * length2)
            if smooth:  # the start that lanes still hold is shared, their noise is not
                step = 1.0 / known.holder if lanes > 1 else min(step, LONGEST / known.holder)
        return Plan(order, epochs, step, ball, average, sizes, share, known, known.gradient, sd, *curved)
    steps = epochs * size
    if step is None:
        step = _step(loss, budget, reach, ball, epochs, size)
        if smooth and lanes > 1:
            top = 1.0 / (loss.holder * reach**2)
            step = min(max(step, FORGOTTEN * FLAT * p * top / (epochs * fewest)), top)
    known = constants(loss, reach, ball, step, steps)
    move = sensitivity(epochs, known, step, steps)
    if order == "permuted" and budget.private:
        sd = move / budget.mu / rest
    elif budget.private:
        epsilon, delta = budget.asked
        draws = [noise.sampled_sensitivities(known, step, epochs * m, m, delta) for m in set(sizes)]
        sd = max(noise.sampled_sd(*draw, epsilon, delta, mu) for draw in draws)
    if not math.isfinite(sd):
        raise OptionError("the sensitivity is beyond what can be computed; take a smaller step=.")
    return Plan(order, epochs, step, ball, average, sizes, 1.0 / size, known, move, sd, *curved)


def _step(loss: Loss, budget: Budget, reach: float, ball: float | None, epochs: int, size: int) -> float:
    """Step that is best by a bound on the excess risk of permuted passes over one lane, over a grid: public numbers."""
    steps, away = epochs * size, min(ball or GUESS, GUESS)
    top = 1.0 / (loss.holder * reach**2) if loss.alpha == 1.0 else away / reach

    def risk(step: float) -> float:
        known = constants(loss, reach, ball, step, steps)
        sd = sensitivity(epochs, known, step, steps) / budget.mu if budget.private else 0.0
        lost = known.gradient * sd * math.sqrt(2.0 / math.pi)
        lost = min(lost, 0.5 * known.holder * sd * sd) if loss.alpha == 1.0 else lost
        return away**2 / (2.0 * step * steps) + step * known.gradient**2 / (2.0 * math.sqrt(size)) + lost

    return float(min(np.geomspace(top * 1e-7, top, 240), key=risk))
