"""Options of a fit and its settings, which follow from them before the first record: public values."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.base.archive import refuse_suffix
from privreg.collector.aggregate.plan import Plan
from privreg.collector.inference.methods import Method
from privreg.errors import OptionError
from privreg.families.scores import SCORE_WEIGHTS, Gauge, ScoreRules
from privreg.formula.describe import PublicRows
from privreg.options.table import check
from privreg.privacy.mechanisms import Mechanism
from privreg.published.chain.plans import Published
from privreg.results.data import Target


@dataclass(frozen=True)
class FitOptions:
    """Options of `fit` or `start`, see the table of options; None means the default."""

    tuning: Any = "efficient"
    inference: Any = "auto"  # "auto" leaves the choice to the tuning; None asks for estimates alone
    lanes: Any = None
    batch_size: Any = None
    alpha: Any = None
    step: Any = None
    threads: Any = None
    measures: Any = None
    order: Any = None  # Default: at random if rows can be addressed
    rounds: Any = 20  # Public states of moments, pilot and main together
    covariates: Any = None  # Public rows that stand for records' covariates, read as `PublicRows`; saved as an array
    like: Any = None  # An earlier fit, read as its `Target`
    perturbation: Any = "gradient"  # For a curator's published descent, as the next three
    epochs: Any = None
    radius: Any = "auto"
    average: Any = 0.5

    def plain(self, methods: list[str]) -> dict[str, Any]:
        """Options as plain numbers and names, from which a saved stream is rebuilt."""
        named = None if self.inference is None else methods
        beside = {"covariates", "like", "perturbation", "epochs", "radius", "average"}
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in beside}
        out = {n: named if n == "inference" else check("local.fit", n, value) for n, value in given.items()}
        return out if self.like is None else out | {"like": self.like.to_json()}


SECONDS: Final = 30.0  # Between checkpoints


class Checkpoints(NamedTuple):
    """File of a fit's checkpoints, and how often it is written."""

    path: Path
    rows: int | None  # After so many rows at the latest
    seconds: float | None  # After so many seconds at the latest
    mended: bool  # True if the user says that the rows already read are unchanged, though the file has changed
    trust: str | Path | None = None  # File of another secret of the user's, by which the checkpoint may be sealed


@dataclass(frozen=True, eq=False, repr=False)
class RunOptions:
    """Options of `fit` that say how it is run here; no part of its plan."""

    start_params: Any = None
    seed: Any = None
    progress: Any = None
    checkpoint: Any = None
    checkpoint_rows: Any = None
    checkpoint_seconds: Any = None
    mended: Any = False
    checkpoint_trust: Any = None
    client: Any = None

    def checkpoints(self) -> Checkpoints | None:
        """Options of a fit that is to be kept, checked; raises `OptionError`."""
        path, trust = self.checkpoint, self.checkpoint_trust
        if path is None:
            for name in ("checkpoint_rows", "checkpoint_seconds", "mended", "checkpoint_trust"):
                if getattr(self, name) not in (None, False):
                    raise OptionError(f"{name} is for fits with a checkpoint; give checkpoint='run.privreg' too.")
            return None
        for name, value, of in (("", path, "file, as in 'run.privreg'"), ("_trust", trust, "file with a secret")):
            if not isinstance(value, str | Path | None) or value == "":
                raise OptionError(f"checkpoint{name} is of type {type(value).__name__}; give the name of a {of}.")
        numbers = ("checkpoint_rows", "checkpoint_seconds", "mended")
        rows, seconds, mended = (check("local.fit", name, getattr(self, name)) for name in numbers)
        refuse_suffix(path, views=False)
        return Checkpoints(Path(path), rows, SECONDS if seconds is None and rows is None else seconds, mended, trust)


@dataclass(frozen=True)
class Efficient:
    """Settings of a fit by rounds, beyond `Settings`; public."""

    rows: int | None  # Records expected, if known
    rules: ScoreRules
    mechanism: Mechanism
    blocks: int  # Linear predictors of a record
    label: bool  # True if one number, the scalar score, is randomised: covariates are public, or there are none
    y_low: float  # Public limits of the response, internal units before a learned scale
    y_high: float
    c: float  # Huber threshold where it is declared, internal units
    whitened: bool  # True if score weights are those of whitened covariates, False of scaled ones
    unweighted: bool  # True without weights: scores are divided by the longest row that declarations allow
    groups: int  # Random groups of a main round
    gauge: Gauge | None = None  # Public constants of measures of fit
    measured: int = 0  # Numbers in a report on measures of fit
    measures: float = 0.0  # Share of the people who report these
    rounds: int = 20  # Public states of moments, pilot and main together, of a fit by rounds
    covariates: PublicRows | None = None  # Public rows that stand for records' covariates
    like: Target | None = None  # Target of an earlier fit, if its estimand is this one's

    @property
    def bound(self) -> float:
        """Bound of the unit score's ℓ2 norm."""
        return 1.0 if self.label else SCORE_WEIGHTS["unit"].reach

    @property
    def weighing(self) -> str:
        """Score weights, for the header."""
        if self.label:
            return SCORE_WEIGHTS["leverage"].formula  # which bound that of public covariates
        if self.unweighted:
            return "none (likelihood)"
        return f"1/‖z‖, z = covariates {'uncorrelated, variance 1' if self.whitened else 'over their scales'}"

    def report(self, p: int) -> tuple[float, int]:
        """Radius and size of a score report with `p` covariates; with label privacy the largest radius that occurs."""
        return self.mechanism.joint_radius(1.0, 0.0), 1 if self.label else self.blocks * p


@dataclass(frozen=True, eq=False)
class Summing:
    """Settings of a fit by sums beyond `Settings`, of two collectors or of a curator; public."""

    plan: Plan  # For one row, of a curator who counts them
    order: NDArray[np.intp]  # Columns of the design in the order inside; shape (p,)
    rows: int | None  # Records expected; None for a curator, who counts them
    measures: float = 0.0  # Share of the people who report measures of fit
    like: Target | None = None  # Target of an earlier fit

    bound: ClassVar = 1.0  # Bound of a report's ℓ2 norm

    @property
    def again(self) -> bool:
        """True if all rows answer in each round, to a curator or silos."""
        return self.plan.noise.again

    @property
    def weighing(self) -> str:
        """Score weights, for the header, with the length L from which on they fall unless that is learned."""
        if self.plan.extremes:
            return "none (likelihood)"
        learned = self.again and self.plan.like is None
        most = "L²" if learned else f"{self.plan.reach**2:.3g}"
        return f"min(1, {most}/‖z‖²), z = covariates uncorrelated, variance 1{', L learned' * learned}"

    def report(self, p: int) -> tuple[float, int]:
        """Radius and size of a report of the main round."""
        return self.bound, self.plan.width("main")


@dataclass(frozen=True)
class Settings:
    """Everything a fit needs to know before the first record; public."""

    tuning: str
    score_text: str  # The family with its constants, in the user's units
    mechanism: Mechanism
    methods: tuple[Method, ...]
    how: Efficient | Published | Summing  # Settings of a fit by rounds, by the published single chain, or by sums

    @property
    def efficient(self) -> Efficient | None:
        """Numbers of a fit by rounds of local reports; None for others."""
        return self.how if isinstance(self.how, Efficient) else None

    @property
    def parts(self) -> int:
        """Releases at this budget of one person's data: two with the central plug-in."""
        return 2 if any(m.central for m in self.methods) else 1

    def total_mu(self, rows: int) -> float:
        """Total μ of a person with `rows` rows that count."""
        return math.sqrt(self.parts * rows) * self.mechanism.budget.mu

    def noise_sd(self, p: int) -> float:
        """Noise sd per coordinate of a score report with `p` covariates, internal units."""
        both = isinstance(self.how, Summing) and not self.how.again  # of a sum, which both collectors noise
        return (math.sqrt(2.0) if both else 1.0) * self.mechanism.sd(*self.how.report(p))

    def noise_text(self, p: int, *, personal: bool = False) -> str:
        """Noise of a score report, in words for the privacy block; of the largest budget if budgets are `personal`."""
        words = self.mechanism.words(*self.how.report(p)) + ", of the largest; others have theirs" * personal
        if not isinstance(self.how, Summing):
            return words
        if not self.how.again:
            return f"each collector adds it once to each sum: at most {words}"
        budgets = "whose budgets mu_k have sum(mu_k²) <= mu²"
        return f"added once to the sum of each round, {budgets}; of all mu: at most {words}"
