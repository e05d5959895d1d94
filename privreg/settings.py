"""What the user wishes, what is to be fitted, and what a fit needs to know before the first record: public values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.blocks import Layout
from privreg.errors import OptionError
from privreg.family import Family
from privreg.inference import Method
from privreg.kernels import MULTINOMIAL
from privreg.measures import Gauge
from privreg.mechanisms import Mechanism, resolve_mechanism
from privreg.notes import DOUBT, Note
from privreg.rules import ChainRules
from privreg.scores import Score
from privreg.stages import Reports, Schedule
from privreg.steps import Steps
from privreg.weights import ScoreWeights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.accounting import Budget
    from privreg.scaling import Units

    Array = NDArray[np.float64]

__all__ = ["Efficient", "Problem", "Settings", "Wishes", "one_number"]

NO_STEPS: Final = Steps(0.0, 0.0, 0.0)
MIXING: Final = 10.0
"""Σγλ_min under which a note warns that the path may not have forgotten its start."""


@dataclass(frozen=True)
class Wishes:
    """What the user asked of `fit` or `start`; None where nothing was asked.

    Parameters
    ----------
    tuning : str
    inference : str or sequence of str or None
        "auto" leaves the choice to the tuning; None asks for estimates alone.
    lanes, batch_size : int or None
    alpha, step : float or None
    threads : int or None
    measures : float or None
        Share of the people whom the fit is measured by.
    """

    tuning: Any = "efficient"
    inference: Any = "auto"
    lanes: Any = None
    batch_size: Any = None
    alpha: Any = None
    step: Any = None
    threads: Any = None
    measures: Any = None


@dataclass(frozen=True)
class Efficient:
    """What the staged fit needs beyond `Settings`; public.

    Parameters
    ----------
    schedule : Schedule
    rules : ChainRules
    reports : Reports
    corner : float
        Huber's c where it is declared, internal units.
    whitened : bool
        Whether score weights are those of whitened covariates, or of scaled ones.
    gauge : Gauge or None
        By what fit is measured.
    told : int
        Numbers that people report whom it is measured by.
    """

    schedule: Schedule
    rules: ChainRules
    reports: Reports
    corner: float
    whitened: bool
    gauge: Gauge | None = None
    told: int = 0


@dataclass(frozen=True)
class Settings:
    """Everything a fit needs to know before the first record; public.

    Parameters
    ----------
    tuning : str
    score : Score
    score_words : str
        The family with its constants, in the user's units.
    weights : ScoreWeights
    mechanism : Mechanism
    methods : tuple of Method
    steps : Steps
        Of the single chain.
    batch : int
        People per update of the single chain.
    curvature_share : float
        Share of people who send curvature instead of a score.
    curvature_bound : float
        Bound of a curvature report.
    weakest : float
        Smallest eigenvalue of the curvature for unrelated covariates whose bounds lie at ±4 sd.
    alone : bool
        Whether the single chain has no covariates but the constant.
    blocks : int
        Linear predictors of a person in the single chain.
    cut : Layout or None
        How paths are cut into blocks, if they are.
    efficient : Efficient or None
        The staged fit; None for the single chain of the published algorithm.
    """

    tuning: str
    score: Score
    score_words: str
    weights: ScoreWeights
    mechanism: Mechanism
    methods: tuple[Method, ...]
    steps: Steps = NO_STEPS
    batch: int = 1
    curvature_share: float = 0.0
    curvature_bound: float = math.inf
    weakest: float = 0.0
    alone: bool = False
    blocks: int = 1
    cut: Layout | None = None
    efficient: Efficient | None = None

    @property
    def bound(self) -> float:
        """Bound of the weighted score's ℓ2 norm, internal units; of the unit score in a staged fit."""
        if self.efficient is not None and self.efficient.reports.label:
            return 1.0
        return self.weights.reach if self.efficient else self.score.bound * self.weights.reach

    @property
    def parts(self) -> int:
        """Releases at this budget of one person's data: two with the central plug-in."""
        return 2 if any(m.central for m in self.methods) else 1

    def _report(self, p: int) -> tuple[float, int]:
        """Radius and size of a score report with `p` covariates."""
        if self.efficient is not None:
            reports = self.efficient.reports
            return reports.radius(0.0), reports.size(p, 0.0)
        low, high = self.score.range
        return self.mechanism.score_radius(0.5 * (high - low) if self.alone else self.bound), p * self.blocks

    def noise_sd(self, p: int) -> float:
        """Noise sd per coordinate of a score report with `p` covariates, internal units."""
        return self.mechanism.sd(*self._report(p))

    def noise_words(self, p: int) -> str:
        """What is done to a score report, for the privacy block."""
        return self.mechanism.words(*self._report(p))

    def mixing_note(self, updates: int) -> Note | None:
        """Words for a path too short to have forgotten its start, judged from public numbers only."""
        forgotten = self.steps.total(updates) * self.weakest
        if forgotten >= MIXING:
            return None
        text = (
            f"{DOUBT} the intervals: few records for this model. Were the declared bounds 4 sd from the mean, the "
            f"steps would sum to {forgotten:.1f} relaxation times of the slowest direction; {MIXING:g} are wanted. "
            "More people, tighter bounds or moments= help"
        )
        return Note(text, "few")


def one_number(private: str, blocks: int, alone: bool) -> bool:
    """Whether a person's report is one number, as covariates are public or there are none.

    Parameters
    ----------
    private : str
        "record" or "response".
    blocks : int
        Linear predictors of a person.
    alone : bool
        Whether a person's row holds nothing but the response.

    Raises
    ------
    OptionError
        If only one number may be randomised, and it would be several.
    """
    if blocks > 1 and private == "response":
        raise OptionError(
            "private='response' randomises one number, and a multinomial score has one for each level but the "
            "first; use private='record', or Logistic() for each level."
        )
    return blocks == 1 and (private == "response" or alone)


@dataclass(frozen=True)
class Problem:
    """What is to be fitted: public facts only.

    Parameters
    ----------
    family : Family
    budget : Budget
        The largest, where people have budgets of their own.
    units : Units
        Internal units.
    probe : ndarray, shape (m, p)
        Rows over the public box, internal units.
    constant : bool
        Whether the design has the constant column.
    alone : bool
        Whether a person's row holds nothing but the response: an intercept that no column can change, no offset.
    response_limits : (float, float)
        Public limits of the response, internal units.
    classes : int
        Levels of a multinomial response, else 2.
    scale_declared : bool
        Whether mean and sd of every covariate are declared, and how they are correlated.
    standardised : bool
        Whether the scale was taken from the data, as the sources' applications do.
    score_weights : str or None
        None lets the tuning choose.
    mechanism : str
        As the user asked; "auto" lets the budget choose.
    private : str
        "record" or "response".
    personal : bool
        Whether people have budgets of their own.
    silence : bool
        Whether it is declared that some people send noise only, as further rows of one person.
    unusable : bool
        Whether people may send noise only for another reason too, a missing value, say.
    several : bool
        Whether a person may have several rows.
    rows : int or None
        People expected, if known.
    partitions : int or None
        Parts of the stream that go through lanes of their own, if it is cut.
    """

    family: Family
    budget: Budget
    units: Units
    probe: Array
    constant: bool = True
    alone: bool = False
    response_limits: tuple[float, float] = (-math.inf, math.inf)
    classes: int = 2
    scale_declared: bool = False
    standardised: bool = False
    score_weights: Any = None
    mechanism: Any = "auto"
    private: str = "record"
    personal: bool = False
    silence: bool = False
    unusable: bool = False
    several: bool = False
    rows: int | None = None
    partitions: int | None = None

    @property
    def covariates(self) -> int:
        """Columns of the design."""
        return int(self.units.centre.shape[0])

    @property
    def blocks(self) -> int:
        """Linear predictors of a person."""
        return self.classes - 1 if self.family.code == MULTINOMIAL else 1

    @property
    def scalar(self) -> bool:
        """Whether a person's report is one number; see :func:`one_number`."""
        return one_number(self.private, self.blocks, self.alone)

    def mechanism_for(self, size: int, *, scalar: bool) -> Mechanism:
        """Mechanism for score reports of `size` numbers."""
        return resolve_mechanism(self.mechanism, self.budget, size=size, scalar=scalar, personal=self.personal)
