"""Plan of a federated fit, fixed before the first round and the same for all, and the server's weighted means by it."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import DataError, OptionError, StreamError, real, shown
from privreg.families.scores import Score
from privreg.formula.spec import ModelSpec
from privreg.options.table import check
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import joint_sensitivity
from privreg.privacy.scalar import share
from privreg.published.federated.reports import GEOMETRIC, UpdateMechanism, update_mechanism

FAMILIES: Final = ("logistic", "multinomial", "huber", "squared")
TRAVEL: Final = 6.0
"""Distance by which all rounds together can move the model, internal units: coefficients of covariates in [−1, 1]."""
KAPPA: Final = 0.5
"""Weight κ of the share of usable records in a report, relative to the clip. Reports reach √(1 + κ²/4) times as far, 3%
more noise, and Gaussian noise gives the mean share of m silos over all rounds the error √(1 + 4/κ²)/(μ √m)."""


@dataclass(frozen=True)
class Plan:
    """Public plan of a fit. Made by :func:`make_plan`."""

    spec: ModelSpec  # Design, units, family and the budget of one silo for all rounds
    score: Score  # The family's score, internal units
    words: str  # The family with its values, user's units
    mechanism: UpdateMechanism  # Randomiser of one report, with the clip and the budget of a report
    rounds: int
    local_steps: int  # Gradient steps of each silo in a round
    step: float  # Size of a local step
    batch: int | None  # Records of a silo in one step, taken in order and round again; None for all
    silos: int  # Number of silos; public
    clip: float  # Largest l2 norm of an update, internal units
    kappa: float  # Factor of the share of usable records in a report; 0 if reports don't have it
    shares: Array = field(compare=False)  # Public weights of the silos' reports, with sum 1; shape (silos,)

    def __repr__(self) -> str:
        many = f"{self.silos} silos, {self.rounds} rounds, {self.budget} per silo"
        return f"<federated plan: {self.spec.formula!r}, {self.spec.family!r}, {many}>"

    @property
    def budget(self) -> Budget:
        """Budget of one silo for all rounds."""
        return self.spec.budget

    @property
    def size(self) -> int:
        """Coefficients."""
        return len(self.spec.coefficients)

    @property
    def total_mu(self) -> float:
        """GDP parameter per silo of all rounds: √rounds times that of a report."""
        return math.sqrt(self.rounds) * self.mechanism.mu

    def outside(self, thetas: Array) -> Array:
        """Coefficients in the user's units, shape (..., size), of those inside."""
        parts = thetas.reshape(-1, len(self.spec.design.names))
        return np.array([self.spec.units.params_outside(p) for p in parts]).reshape(thetas.shape)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen digits that identify this plan, which a silo and a server compare before they work."""
        m = self.mechanism
        said = [
            self.spec.design.to_json(), self.spec.family.to_json(), self.budget.form, self.budget.asked, m.name, m.clip,
            m.beta, m.magnitude_share, m.debias, m.coordinates, self.rounds, self.local_steps, self.step, self.batch,
            self.silos, self.shares.tolist(), self.spec.people.missing,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()[:16]


def make_plan(spec: ModelSpec, silos: int, **asked: Any) -> Plan:
    """Read the options of a federated fit, as its front door was given them.
    Raises OptionError if one is out of range, or the family has no federated fit.
    """

    def option(name: str) -> Any:
        return check("silos.formula", name, asked[name])

    family = spec.family
    if family.name.lower() not in FAMILIES:
        raise OptionError(
            f"federated fits take the families {', '.join(map(repr, FAMILIES))}, got {family!r}; for others use "
            "PrivateOnlineRegression, where every record reports by itself."
        )
    if silos < 2:
        raise OptionError(f"silos must be 2 or more, got {silos}: the noise of one can't be averaged out.")
    rounds = option("rounds")
    low, high = spec.response_limits
    score, words = family.resolve(unit=spec.units.y_scale, low=low, high=high)
    clip = TRAVEL / rounds if asked["clip"] == "auto" else option("clip")
    reach2 = spec.units.reach**2 if math.isfinite(spec.units.reach) else 2.0 * len(spec.design.names)
    steepest = 0.5 if family.scoring.multiple else min(score.curvature_bound, 1.0)
    step = 1.0 / (steepest * reach2) if asked["step"] == "auto" else option("step")
    # an angle's noise moves the mean of whatever else is in the vector
    shared = spec.people.missing == "noise" and option("mechanism") not in GEOMETRIC
    kappa = KAPPA * clip if shared else 0.0
    how = {"beta": asked["beta"], "magnitude_share": asked["magnitude_share"], "debias": asked["debias"]}
    size, reach = len(spec.coefficients) + shared, 0.5 * joint_sensitivity(clip, kappa)
    mechanism = update_mechanism(asked["mechanism"], share(spec.budget, rounds), size, reach, **how)
    weights = np.ones(silos) if asked["weights"] is None else np.ravel(np.asarray(asked["weights"], dtype=object))
    numbers = [w for w in map(real, weights) if w is not None and 0.0 < w < math.inf]
    if len(numbers) != silos or len(weights) != silos:
        raise OptionError(
            f"weights={shown(asked['weights'])} must be a list of {silos} positive finite numbers, one a silo, that "
            "are public, as record counts that may be known; without it every silo counts alike."
        )
    many, batch, shares = option("local_steps"), option("batch_size"), np.array(numbers) / np.sum(numbers)
    return Plan(spec, score, words, mechanism, rounds, many, step, batch, silos, clip, kappa, shares)


class State(NamedTuple):
    """A fit in progress. Public."""

    path: tuple[Array, ...]  # The model at the start and after each round, internal units; shape (size,)
    usable: float = 0.0  # Sum over rounds of what reports say of usable records, on average over silos

    @property
    def theta(self) -> Array:
        """Model to be sent next, shape (size,)."""
        return self.path[-1]


def begin(plan: Plan) -> State:
    """The zero model."""
    return State((np.zeros(plan.size),))


def step(plan: Plan, state: State, reports: Sequence[Array]) -> State:
    """Move by the weighted mean of one report of each silo, in the silos' order.
    Raises StreamError if the rounds are over, or reports are missing; DataError if a report is not of this plan.
    """
    if len(state.path) > plan.rounds:
        raise StreamError(f"all {plan.rounds} rounds are done; start another fit, which spends anew.")
    if len(reports) != plan.silos:
        raise StreamError(f"{len(reports)} of {plan.silos} silos reported; a round needs all of them.")
    for number, report in enumerate(reports, 1):
        if np.shape(report) != (plan.mechanism.size,) or not np.isfinite(report).all():
            raise DataError(f"the report of silo {number} is not {plan.mechanism.size} finite numbers.")
    mean = plan.shares @ np.asarray(reports)
    return State((*state.path, state.theta + mean[: plan.size]), state.usable + float(mean[plan.size :].sum()))
