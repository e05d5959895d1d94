"""What is asked of a fit, and what a fit needs to know before the first record: public values."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.collector.steps import Steps
from privreg.diagnostics import Diagnostic, doubt
from privreg.families.constants import ChainRules
from privreg.families.measures import Gauge
from privreg.families.scores import Score
from privreg.families.weights import ScoreWeights
from privreg.inference.blocks import Layout
from privreg.inference.methods import Method
from privreg.privacy.mechanisms import Mechanism
from privreg.simulation.staged.schedule import Reports, Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Efficient", "FitOptions", "Settings"]

NO_STEPS: Final = Steps(0.0, 0.0, 0.0)
MIXING: Final = 10.0
"""Σγλ_min under which a note warns that the path may not have forgotten its start."""


@dataclass(frozen=True)
class FitOptions:
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

    def plain(self, methods: list[str]) -> dict[str, Any]:
        """Options as plain numbers and names, from which a saved stream is rebuilt."""
        kinds = {"lanes": int, "batch_size": int, "threads": int, "alpha": float, "step": float, "measures": float}
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        out |= {name: None if out[name] is None else kind(out[name]) for name, kind in kinds.items()}
        return out | {"inference": None if self.inference is None else methods}


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
    score_text : str
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
    score_text: str
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

    def noise_text(self, p: int) -> str:
        """What is done to a score report, for the privacy block."""
        return self.mechanism.words(*self._report(p))

    def mixing_note(self, updates: int) -> Diagnostic | None:
        """Words for a path too short to have forgotten its start, judged from public numbers only."""
        forgotten = self.steps.total(updates) * self.weakest
        if forgotten >= MIXING:
            return None
        text = (
            "few records for this model. Were the declared bounds 4 sd from the mean, the steps would sum to "
            f"{forgotten:.1f} relaxation times of the slowest direction; {MIXING:g} are wanted. More people, tighter "
            "bounds or moments= help"
        )
        return doubt("few", text)
