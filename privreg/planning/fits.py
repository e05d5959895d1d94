"""Fits of made-up people, and how precise fits of many are from fits of few, where noise falls on sums.

Their fits are cheap, as noise falls on sums: so precision is that of fits, not of formulas. Between the numbers of
people that are tried, n times the squared standard error is interpolated; beyond them it is a + b/n, of sampling and
noise.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

from privreg.base.arrays import Array
from privreg.data.sources.open import OfSilo
from privreg.errors import InferenceError, quietly
from privreg.families import Huber
from privreg.fits.settings import FitOptions
from privreg.formula.spec import ModelSpec
from privreg.planning.scenario import Assumed, response_of
from privreg.simulation.curator import least
from privreg.simulation.streaming.stream import begin

CHUNK: Final = 65_536
FEWEST, TIMES, MOST = 500, 2.0, 32_000
"""Fits are tried of so many people or the plan's, of as many times more or fewer, up to so many."""

LEAST: Final = 63  # With fewer people no fit is tried, as there is no precision to speak of
PLAIN: Final = 20_000  # Made-up people of a fit without privacy

USUAL: Final = 2.0 * 1.959963984540054
"""Standard errors of a 95% interval's length: those of few degrees of freedom count as longer errors."""

FITS, MOST_FITS, SURE = 6, 32, 0.07
"""At each number of people so many fits at least and at most: until the median of their standard errors is known so
closely, relatively. Those of two collectors' fits vary by some 15% at 2,000 people, and by more with fewer."""


def fit_of(spec: ModelSpec, assumed: Assumed, n: int, rng: np.random.Generator, seed: int | None) -> tuple[Any, Any]:
    """Results of a fit of made-up people, and its settings; `seed` is that of noise."""
    name = response_of(spec)

    def people(m: int, first: int = 0) -> dict[str, Any]:
        rows, x, scale = assumed.exog(spec, m * spec.people.rows, rng)
        out = {**rows, name: assumed.responses(spec, x, scale, rng, rows)}
        who = np.repeat(first + np.arange(m), spec.people.rows)
        return out if spec.people.id is None else {**out, spec.people.id: who}

    stream = begin(spec, FitOptions(), None, seed, n)
    if spec.silos:
        whole, place = people(n), assumed.silo_of(spec, n * spec.people.rows)
        for k in range(len(spec.silos)):
            stream.update(OfSilo({c: v[place == k] for c, v in whole.items()}, k, spec.silos))
        return stream._so_far(), stream._settings
    for left in range(n, 0, -CHUNK):
        stream.update(people(min(left, CHUNK), left))
    return stream._so_far(), stream._settings


@dataclass(frozen=True)
class FittedPrecision:
    """Precision of fits where noise falls on sums; the same methods as `Precision`."""

    spec: ModelSpec
    assumed: Assumed
    seed: int
    base: float = FEWEST  # People of fits that are tried in any case
    _tried: dict[int, list[tuple[Array, Array]]] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[int, Array] = field(default_factory=dict, repr=False, compare=False)

    @property
    def fewest(self) -> int:
        """Fewest people of whom there is a fit: a curator, and silos, refuse fewer."""
        silos = max(len(self.spec.silos), 1)
        return max(LEAST, least(len(self.spec.coefficients), self.spec.budget.mu, silos) * self.spec.noise.again)

    def _fits(self, k: int, runs: int) -> list[tuple[Array, Array]]:
        """Standard errors of `runs` fits of so many people, and which coefficients each lets be relied on."""
        tried, n, p = self._tried.setdefault(k, []), round(self.base * TIMES**k), len(self.spec.coefficients)
        nothing = np.full(p, np.inf), np.zeros(p, dtype=bool)
        if n < self.fewest:
            return [nothing] * runs
        for run in range(len(tried), runs):
            rng = np.random.Generator(np.random.PCG64([self.seed, k % 2**32, run]))
            res, _ = fit_of(self.spec, self.assumed, n, rng, int(rng.integers(2**63)))
            try:
                table = res.tidy(conf_level=0.95)
                own = (table["conf_high"] - table["conf_low"]).to_numpy(dtype=np.float64) / USUAL
                tried.append((np.where(np.isfinite(own), own, np.inf), table["reliable"].to_numpy(dtype=bool)))
            except InferenceError:  # too few for intervals
                tried.append(nothing)
        return tried[:runs]

    def _node(self, k: int) -> Array:
        """√n times the median standard error of fits of so many people."""
        if k not in self._known:
            runs, errors = FITS, np.array([one for one, _ in self._fits(k, FITS)])
            while runs < MOST_FITS and not _close(errors):
                runs += 2
                errors = np.array([one for one, _ in self._fits(k, runs)])
            self._known[k] = math.sqrt(round(self.base * TIMES**k)) * np.median(errors, axis=0)
        return self._known[k]

    def _share(self, k: int) -> Array:
        """Share of the first fits of so many people that let each coefficient be relied on."""
        return np.asarray(np.mean([reliable for _, reliable in self._fits(k, FITS)], axis=0))

    def std_errors(self, n: float) -> Array:
        """Usual standard error of each coefficient in fits of `n` people, user's units; inf of fewer than are tried."""
        if n < self.fewest:
            return np.full(len(self.spec.coefficients), np.inf)
        at, last = self._at(n), math.floor(self._at(MOST))
        low = last - 1 if at > last else math.floor(at)
        share = min(at - low, 1.0)
        here = self._node(low) ** 2
        there = self._node(low + 1) ** 2 if share else here
        with np.errstate(invalid="ignore"):
            square = np.where(np.isinf(here), np.inf if share < 1.0 else there, (1.0 - share) * here + share * there)
        if at > last:  # a + b/n through both
            slope = np.clip((here - there) / (TIMES - 1.0), 0.0, there)  # b/n at the last
            square = there - slope * (1.0 - TIMES ** (last - at))
        return np.asarray(np.sqrt(square / max(n, 1.0)))

    def _at(self, n: float) -> float:
        """Doublings of the base that make `n`."""
        return round(math.log(n / self.base, TIMES), 9)

    def rare(self, n: int) -> frozenset[int]:
        """Columns that no fit of so many people lets be relied on for their being rare: marks say it of single fits."""
        return frozenset()

    def reliable(self, n: int, columns: Collection[int]) -> bool:
        """True if most fits of so many people mark no interval of these columns."""
        if n < self.fewest:
            return False
        at, p = min(self._at(n), math.floor(self._at(MOST))), len(self.spec.design.names)
        low, good = math.floor(at), self._share(math.floor(at))
        good = good + (at - low) * (self._share(low + 1) - good) if at > low else good
        return bool(all(good[j] > 0.5 for j in range(len(good)) if not columns or j % p in columns))


def _close(errors: Array) -> bool:
    """True if the medians of these standard errors, shape (fits, p), are known closely, or are no number."""
    logs = np.log(errors[:, np.isfinite(errors).mean(axis=0) > 0.5])
    spread = 0.5 * np.ptp(np.quantile(logs, ndtr([-1.0, 1.0]), axis=0, method="nearest"), axis=0)
    return bool((math.sqrt(0.5 * math.pi / len(errors)) * spread <= SURE).all())


@dataclass(frozen=True)
class PlainPrecision:
    """Precision of statsmodels' own fits, without privacy, from one of made-up people."""

    root: Array  # √n times the standard errors

    def std_errors(self, n: float) -> Array:
        """Standard error of each coefficient with `n` people, user's units."""
        return self.root / math.sqrt(max(n, 1.0))


def plain_precision(spec: ModelSpec, assumed: Assumed, seed: int) -> PlainPrecision | None:
    """Precision without privacy; None of a family that statsmodels hasn't, and of several rows of a person."""
    if spec.people.k_max is not None:
        return None
    rows, x, scale = assumed.exog(spec, PLAIN, rng := np.random.Generator(np.random.PCG64(seed)))
    fitted = plain_model(spec, np.asarray(assumed.responses(spec, x, scale, rng, rows)), x)
    if fitted is None:
        return None
    return PlainPrecision(math.sqrt(PLAIN) * np.asarray(fitted.bse, dtype=np.float64).T.reshape(-1))


def plain_model(spec: ModelSpec, y: Any, x: Array, *, robust: bool = False) -> Any:
    """The fit of statsmodels, None if it has none; `robust`: by Huber's loss where scores are of residuals."""
    family, design = spec.family, spec.design
    levels = design.schema.levels.get(design.endog_bare or design.endog_name, (0, 1))
    import statsmodels.api as sm

    wrong = InferenceError("rows of a pilot can't be fitted: columns are made of others, or tell classes apart.")
    if family.scoring.classed:
        y = (y[:, None] == np.asarray(levels)).argmax(axis=1)
    twin = (Huber() if robust and family.scoring.residual else family).scoring.twin
    fitted = quietly(lambda: twin(sm, family, y, x), wrong)
    if robust and not getattr(fitted, "mle_retvals", {}).get("converged", True):
        raise wrong
    return fitted
