"""The public numbers of a curator's fit: passes, step, lanes, sensitivity and noise, all fixed before any row is used.

They follow from the schema, the budget, the options and the number of records, which is public as neighbours replace
one record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from privreg.diagnostics import Diagnostic, doubt
from privreg.errors import BudgetError, OptionError, choose
from privreg.options.table import check
from privreg.privacy.ledger import Budget
from privreg.published.descent import calibration
from privreg.published.descent.kernels import HINGE, LOGISTIC, PINBALL, Q_HINGE, Q_NORM, SMOOTHED_HINGE
from privreg.published.descent.losses import Loss
from privreg.published.descent.sensitivity import Constants, constants, curvature_sensitivity, sensitivity

LANES: Final = 8  # Lanes by default
FEWEST: Final = 500  # Records a lane needs before several lanes are the default
MOST_STEPS: Final = 20_000_000  # Steps of all passes together by default, at most, for losses that are not smooth
NOISY_PASSES: Final = 20  # Passes of Poisson samples by default
LONGEST: Final = 1.8  # Step times L of one lane's noisy descent at most; from 2 on it would diverge for some records
FORGOTTEN: Final = 10.0  # Step times steps times curvature after which the start is forgotten
WANDER: Final = 0.03
SYMMETRIC: Final = 0.5
"""How far iterates may wander, relative to the range over which the loss is quadratic; of regressions."""
KINKED: Final = 0.03  # How far iterates may wander, internal units; of losses whose kink is not symmetric
FULL_WORK: Final = 200_000_000  # Records read in all by default, where each step reads all of them
PASSES_EACH: Final = 50  # Steps over all records by default, for each coefficient
BATCHES: Final = 50  # Batches a pass of gradient perturbation has by default
ACCOUNTED: Final = 1_000_000  # Noisy steps that can be accounted for in reasonable time
GUESS: Final = 2.0  # How far off the solution is taken to be in choosing a step, internal units
ROOMY: Final = {Q_HINGE: 5.0, Q_NORM: 2.0}  # Default radius for losses that are not Lipschitz, internal units


@dataclass(frozen=True)
class Plan:
    """How a fit runs. Public."""

    perturbation: str  # "output" or "gradient"
    order: str  # "permuted" or "sampled"; "full" or "poisson" for gradient perturbation
    epochs: int  # Passes over the records
    step: float  # η, internal units
    radius: float | None  # Of the ball that iterates are projected on
    average: float  # Share of the iterates, the last ones, that are averaged
    sizes: tuple[int, ...]  # Records of each lane
    share: float  # Probability of a record to be in a batch; 1/size where steps take one record
    constants: Constants
    move: float  # Δ at K = epochs for output perturbation, G for gradient perturbation
    noise_sd: float  # Of each coordinate: of a lane's average, or of the sum over a batch
    curvature_mu: float = 0.0  # GDP parameter of the release of curvature; 0 if there is none, inf without privacy
    curvature_sd: float = 0.0  # Noise sd of the mean curvature, Frobenius coordinates

    @property
    def gaussian(self) -> bool:
        """Whether the release is one Gaussian mechanism."""
        return self.order in {"permuted", "full"}

    def steps(self, size: int) -> int:
        """Steps of a lane of so many records."""
        return math.ceil(self.epochs / self.share) if self.perturbation == "gradient" else self.epochs * size

    def wait(self, size: int) -> int:
        """Iterates of such a lane that are left out of its average."""
        steps = self.steps(size)
        return min(int((1.0 - self.average) * steps), steps - 1)

    def early(self, size: int) -> int:
        """Steps of such a lane before curvature is looked at.

        A quarter of those left out, or as many as a constant takes from 0 to the end of the response's range at the
        largest gradient: far from the model Huber's loss has no curvature.
        """
        if self.perturbation == "output":
            return 0
        return min(max(self.wait(size) // 4, math.ceil(1.0 / (self.step * self.constants.slope))), self.wait(size))

    def delta(self, epsilon: float) -> float:
        """δ(ε) that the noise keeps, one for every lane: a record is in one of them."""
        if self.noise_sd <= 0.0:
            return 1.0
        if self.order == "poisson":
            z = self.noise_sd / self.constants.gradient
            return calibration.gradient_delta(z, self.share, self.steps(self.sizes[0]), epsilon, self.curvature_mu)
        if self.gaussian:
            return calibration.mixture_delta(np.array([self.certain_mu()]), np.ones(1), 1.0, epsilon)
        sizes = set(self.sizes)
        draws = [calibration.sampled_sensitivities(self.constants, self.step, self.steps(n), n, 1e-9) for n in sizes]
        return max(calibration.mixture_delta(*draw, self.noise_sd, epsilon, self.curvature_mu) for draw in draws)

    def certain_mu(self) -> float:
        """GDP parameter that holds whichever records the samples took: a record may be in every one of them."""
        if self.noise_sd <= 0.0:
            return math.inf
        n = max(self.sizes)
        if self.perturbation == "gradient":
            moved = 2.0 * self.constants.gradient * math.sqrt(self.steps(n))
        else:
            times = self.epochs if self.order == "permuted" else self.steps(n)
            moved = sensitivity(times, self.constants, self.step, self.steps(n))
        return math.hypot(moved / self.noise_sd, self.curvature_mu)

    def words(self) -> str:
        """Passes, step and average in words."""
        passes = "1 pass" if self.epochs == 1 else f"{self.epochs:,} passes"
        if self.order == "full":
            how = f"{self.epochs:,} noisy steps, each over all records"
        elif self.order == "poisson":
            batch = self.share * self.sizes[0]
            how = f"{self.steps(self.sizes[0]):,} Poisson samples of {batch:.4g} expected ({passes})"
        else:
            how = f"{passes}, " + ("permuted" if self.order == "permuted" else "sampled with replacement")
        mean = "average of all iterates" if self.average == 1 else f"average of the last {100 * self.average:g}%"
        return f"{how}; step {self.step:.4g} (internal units); {mean}"


def make_plan(
    loss: Loss,
    budget: Budget,
    *,
    n: int,
    p: int,
    reach: float,
    perturbation: Any = "gradient",
    order: Any = None,
    epochs: Any = None,
    step: Any = None,
    radius: Any = "auto",
    lanes: Any = None,
    average: Any = 0.5,
    batch_size: Any = None,
) -> Plan:
    """Fix the public numbers of a fit.

    `n` and `p` are records and coefficients, `reach` is sup ‖x‖ over the public box, internal units; the options are
    those of `privreg.published.descent.fit`, whose errors these are.
    """
    check("curator.fit", "perturbation", perturbation)
    noisy = perturbation == "gradient"
    allowed = ("full", "poisson") if noisy else ("permuted", "sampled")
    order = choose("order", allowed[0] if order is None else order, allowed)
    check_budget(budget, gaussian=order in {"permuted", "full"}, how=f"perturbation={perturbation!r}, order={order!r}")
    average = check("curator.fit", "average", average)
    if batch_size is not None and order != "poisson":
        raise OptionError("batch_size= goes with perturbation='gradient', order='poisson'; leave it out.")
    usual = LANES if n >= LANES * FEWEST else 1
    lanes = usual if lanes is None else int(check("curator.fit", "lanes", lanes, min(n, 1000)))
    paid = calibration.budget_share(p, lanes)
    mu = math.sqrt(paid) * budget.mu if paid else 0.0  # inf without privacy
    curved = mu, curvature_sensitivity(loss.steepest, reach) / (mu * n) if mu else 0.0
    rest = math.sqrt(1.0 - paid)  # of μ, for the descent
    sizes = tuple(len(part) for part in np.array_split(np.empty(n, dtype=np.bool_), lanes))
    size, fewest = max(sizes), min(sizes)
    ball = _radius(radius, loss, noisy=noisy)
    if epochs is None:
        usual = 1 if loss.alpha == 1.0 else max(1, min(size // 4, MOST_STEPS // n))  # more shorten steps of a kink
        epochs = _noisy_passes(order, loss.alpha, n, p) if noisy else usual
    epochs, step = check("curator.fit", "epochs", epochs), check("curator.fit", "step", step)
    if noisy:
        batch = size / BATCHES if batch_size is None else check("curator.fit", "batch_size", batch_size, fewest)
        share = 1.0 if order == "full" else min(max(batch / size, 1.0 / size), 1.0)
        steps, sd = math.ceil(epochs / share), 0.0
        if share < 1.0 and steps > ACCOUNTED:
            raise OptionError(
                f"{steps:,} noisy steps are more than the {ACCOUNTED:,} that are accounted for; take fewer epochs= or "
                "a larger batch_size=."
            )
        known = constants(loss, reach, ball, 1.0, steps)  # the step matters only to unbounded iterates, refused above
        if share == 1.0:  # every record is in every step: so many Gaussian mechanisms of sensitivity 2G
            sd = calibration.full_sd(known, steps, budget) / rest
        elif budget.private:
            sd = calibration.gradient_multiplier(share, steps, *budget.asked, mu) * known.gradient
        if step is None:
            batch = share * fewest
            # a smooth loss needs short steps for what is random in them only; one with a kink for the gradient too
            length2 = known.gradient**2 / (batch if known.alpha == 1.0 else 1.0) + p * (sd / batch) ** 2
            step = min(ball or GUESS, GUESS) / math.sqrt(steps * length2)
            if known.alpha == 1.0:  # of several lanes the bias is shared and the noise is not
                step = 1.0 / known.holder if lanes > 1 else min(step, LONGEST / known.holder)
        return Plan("gradient", order, epochs, step, ball, average, sizes, share, known, known.gradient, sd, *curved)
    if step is None:
        step = _step(loss, budget, reach, ball, epochs, size, lanes)
        if loss.alpha == 1.0 and lanes > 1:  # of several lanes the bias is shared and the noise is not
            flat = least_curvature(loss.holder * reach**2, p)
            step = min(max(step, FORGOTTEN / (flat * epochs * fewest)), 1.0 / (loss.holder * reach**2))
    known = constants(loss, reach, ball, step, epochs * size)
    move, sd = sensitivity(epochs, known, step, epochs * size), 0.0
    if order == "permuted":
        sd = calibration.permuted_sd(known, step, epochs * size, epochs, budget) / rest
    elif budget.private:
        epsilon, delta = budget.asked
        draws = [calibration.sampled_sensitivities(known, step, epochs * m, m, delta) for m in set(sizes)]
        sd = max(calibration.sampled_sd(*draw, epsilon, delta, mu) for draw in draws)
    if not math.isfinite(sd):
        raise OptionError("the sensitivity is beyond what can be computed; take a smaller step=.")
    return Plan("output", order, epochs, step, ball, average, sizes, 1.0 / size, known, move, sd, *curved)


def _radius(radius: Any, loss: Loss, *, noisy: bool) -> float | None:
    grows = math.isinf(loss.slope)
    got = None if radius is None else check("curator.fit", "radius", radius)
    if got == "auto":
        return ROOMY[loss.code] if grows else None
    if got is None and grows and noisy:
        raise OptionError(
            "radius=None leaves the gradient of this loss without a bound, which perturbation='gradient' needs; "
            "give a positive radius=, or perturbation='output'."
        )
    return None if got is None else float(got)


def check_budget(budget: Any, *, gaussian: bool, how: str) -> None:
    """Refuse a budget that Gaussian noise, or a release that is not one Gaussian mechanism, can't keep."""
    if budget.pure:
        raise BudgetError(
            f"a curator's release carries Gaussian noise, which can't keep pure {budget.epsilon:g}-DP; give delta= "
            "with epsilon=, 1e-6 say, smaller than one over the number of records."
        )
    if not gaussian and budget.private and budget.form != "epsilon, delta":
        raise BudgetError(
            f"{how} keeps (epsilon, delta) and has no mu or rho; give epsilon= and delta=, or fit with "
            "order='full' (gradient perturbation) or 'permuted' (output perturbation)."
        )


def least_curvature(holder: float, p: int) -> float:
    """Guess at the least curvature of a smooth mean loss from the bound L on the greatest: a fifth over p."""
    return holder / (5.0 * p)


def doubted(plan: Plan, loss: Loss, p: int) -> Diagnostic | None:
    """Say why intervals between the lanes of a plan should not be relied on, from public numbers; None if they may be.

    Curvature that falls off over the range in which noisy iterates wander pushes asymmetric losses outwards, in all
    lanes alike. The limits are where coverage fell below its level in simulations (benchmarks/central.py, coverage).
    Curvature is a guess, from columns that fill their public range. What is learned of it is the business of
    `privreg.published.descent.curvature`.
    """
    if len(plan.sizes) == 1 or plan.perturbation != "gradient":
        return None
    kinked = loss.alpha < 1.0  # how flat it is depends on the records near its kink: a guess will do for noise alone
    flat = least_curvature(1.0 if kinked else plan.constants.holder, p)
    sd = plan.noise_sd / (plan.share * min(plan.sizes)) * math.sqrt(plan.step / (2.0 * flat))  # the stationary one
    if kinked:
        lopsided = loss.code in {HINGE, Q_HINGE} or (loss.code == PINBALL and loss.a != 0.5)
        times = sd / KINKED if lopsided else 0.0
    else:
        limit = WANDER if loss.code in {LOGISTIC, SMOOTHED_HINGE} else SYMMETRIC
        times = sd * loss.holder / loss.slope / limit
    if times <= 1.0:
        return None
    text = (
        "there are few records for this budget, and noisy iterates wander where the loss is no longer quadratic: "
        f"some {float(f'{times * sum(plan.sizes):.2g}'):,.0f} records, or {times:,.2g} times the budget, would do"
    )
    return doubt("few", text)


def _noisy_passes(order: str, alpha: float, n: int, p: int) -> int:
    """Passes of gradient perturbation by default.

    The average's noise hardly depends on them, but that of the iterates grows with them: as many as the start needs to
    be forgotten at steps of 1/L, where the least curvature is taken to be a fifth of the greatest over the number of
    coefficients.
    """
    if order == "poisson":
        return NOISY_PASSES
    wanted = max(PASSES_EACH * p, 200) if alpha == 1.0 else 1000
    return max(min(wanted, 2000, FULL_WORK // n), 100)


def _step(loss: Loss, budget: Budget, reach: float, ball: float | None, epochs: int, size: int, lanes: int) -> float:
    """Step that is best by a bound on the excess risk of one lane, over a grid: all public numbers."""
    steps = epochs * size
    away = min(ball or GUESS, GUESS)
    holder = loss.holder * reach ** (1.0 + loss.alpha)
    top = 1.0 / holder if loss.alpha == 1.0 else away / reach
    best, least = top, math.inf
    for step in np.geomspace(top * 1e-7, top, 240).tolist():
        known = constants(loss, reach, ball, step, steps)
        sd = calibration.permuted_sd(known, step, steps, epochs, budget)  # near enough for sampled draws
        lost = known.gradient * sd * math.sqrt(2.0 / math.pi / lanes)
        if loss.alpha == 1.0:
            lost = min(lost, 0.5 * holder * sd * sd / lanes)
        risk = away**2 / (2.0 * step * steps) + step * known.gradient**2 / 2.0 / math.sqrt(size) + lost
        if risk < least:
            best, least = step, risk
    return best
