"""People who have not been asked yet: what a plan assumes of their covariates and responses. Public numbers only."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaincinv, log_ndtr, ndtr, ndtri

from privreg.base.arrays import Array
from privreg.data.followed import Followed
from privreg.data.sources.open import SILO
from privreg.errors import OptionError, SchemaError, number, real, shown
from privreg.families.hazards import AT_RISK, ENDED, INTERVAL
from privreg.formula.spec import ModelSpec
from privreg.schema.declarations import Schema

OUTSIDE: Final = 4096  # Assumed people by whom it is found how many responses lie outside the declared range

BEYOND: Final = math.log(1000.0)  # Means from bound to bound of a skewed number, of which one in a thousand is beyond
QUANTILES: Final = ndtri((np.arange(2048) + 0.5) / 2048)  # Quantiles of a normal, at which correlations are computed
ORDER, FLATTEST = 16, 1e-6  # Hermite polynomials, and the least eigenvalue of a matrix of correlations
RELATED: Final = 0.5  # Correlation of skewed numbers about whose correlations nothing is known
MOST_LOG: Final = 20.0  # Logarithm of a mean count, at most
USUAL_ALPHA: Final = 1.0  # Dispersion of `NegativeBinomial()` where none is given: counts vary by m + m²
USUAL_SCALE: Final = 0.25
"""Residual sd where none is given, as a share of the response's declared range: more than most fits leave."""


def read_shares(shares: Any, schema: Schema) -> dict[str, tuple[float, ...]]:
    """Check the shares of factors' levels.
    Raises OptionError if they are not one positive number for each declared level.
    """
    if not isinstance(shares, Mapping | None):
        raise OptionError(f"shares is of type {type(shares).__name__}; write shares={{'smoker': [0.8, 0.2]}}.")
    out = {}
    for name, given in (shares or {}).items():
        if name not in schema.levels:
            raise OptionError(f"shares has {shown(name)}, which has no levels; factors are {listed(schema.levels)}.")
        wanted, numbers = len(schema.levels[name]), positive(given)
        if len(numbers) != wanted or np.size(given) != wanted:
            raise OptionError(f"shares[{name!r}] must be {wanted} positive numbers, one for each level in their order.")
        out[str(name)] = tuple(v / math.fsum(numbers) for v in numbers)
    return out


def positive(given: Any) -> list[float]:
    """Positive finite numbers among those given."""
    return [v for v in map(real, np.ravel(np.asarray(given, dtype=object))) if v is not None and 0.0 < v < math.inf]


def read_scale(scale: Any, covariates: Any) -> float | Array:
    """Sd of the residuals: one, or one for each public row, as numbers or by the name of a column of `covariates`.
    Raises OptionError if it is neither.
    """
    if isinstance(scale, str):
        if covariates is None or scale not in covariates:
            raise OptionError(
                f"scale={scale!r} is no number, and names no column of covariates=: {listed(covariates)}."
            )
        scale = covariates[scale].to_numpy()
    if covariates is not None and np.ndim(scale) == 1 and len(scale) == len(covariates):
        if len(numbers := positive(scale)) < len(scale):
            raise OptionError("scale= by row must be positive numbers, the sd of each row's residual.")
        return np.array(numbers, dtype=np.float64)
    fix = ", or one number for each row of covariates=" if np.ndim(scale) else ""
    return number("scale", scale, f"be a positive number, the sd of the residuals to expect{fix}")


def listed(names: Any) -> str:
    """Names, in quotes."""
    return ", ".join(map(repr, () if names is None else names)) or "none"


MADE: Final = (INTERVAL, AT_RISK)  # Columns of rows of intervals, which nobody's data have


@dataclass(frozen=True)
class Assumed:
    """Assumptions on the people to come."""

    shares: dict[str, tuple[float, ...]]  # Shares of the levels of factors; equal ones for those left out
    # Sd of the residuals, in the units of the response as the formula has it: one, or one for each of `covariates`
    scale: float | Array
    params: Array = field(repr=False)  # Coefficients, user's units; shape (p,)
    covariates: pd.DataFrame | None = field(default=None, repr=False)  # Public rows to take covariates from
    usual: bool = False  # True if nobody gave the scale
    icc: float = 0.0  # Correlation of residuals of one person's rows
    moments: Schema = field(default_factory=Schema)  # Means, sds and correlations of numbers, by a pilot
    answered: bool = False  # True if `covariates` have the responses, or times, of a pilot, which its people give
    # Rate at which people are censored, per unit of time, or, by a pilot, times of censoring at even quantiles
    censored: float | Array = field(default=0.0, repr=False)
    dispersion: float = 1.0  # Variance of counts over their mean, of small counts
    alpha: float = 0.0  # Rise of that with the mean, as of `NegativeBinomial()`
    skewed: frozenset[str] = frozenset()  # Numbers that are taken for skewed
    related: float = 0.0  # Correlation of numbers, where none is known

    def rows(self, spec: ModelSpec, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], Array]:
        """Raw columns of `n` people, with a response in the middle of its range, and sds of residuals, shape (n,)."""
        design, schema = spec.design, spec.design.schema
        responses = design.endog_sources
        seen = spec.people.followed.columns if spec.people.followed and self.answered else ()
        names, out = [c for c in (*design.columns, *seen) if c not in responses], dict[str, Any]()
        scale = np.full(n, self.scale) if np.ndim(self.scale) == 0 else np.empty(n)
        if self.covariates is not None:
            at = rng.integers(0, len(self.covariates), n)
            scale = scale if np.ndim(self.scale) == 0 else np.asarray(self.scale)[at]
            out = {c: self.covariates[c].to_numpy()[at] for c in names if c not in MADE}
            names = [c for c in names if c not in out]
        if names:
            # standard normals by whose quantiles columns are made, related as these are to be
            made = [c for c in names if c not in schema.levels or c in self.moments.moments]
            first = [c for c in made if c in schema.moments]
            made = [*first, *(c for c in made if c not in first)]
            known = self.moments if self.moments.correlations else schema
            corr = known.correlation_matrix(made) if known.correlations else np.full((len(made),) * 2, self.related)
            np.fill_diagonal(corr, 1.0)
            if self.moments.correlations:
                corr = related(np.array([self._number(c, schema, QUANTILES) for c in made]), corr)
            drawn = rng.standard_normal((n, len(first))), *(ndtri(rng.uniform(size=n)) for _ in made[len(first) :])
            latent = dict(zip(made, (np.column_stack(drawn) @ np.linalg.cholesky(corr).T).T, strict=True))
            for c in names:
                if c == SILO and spec.silos:
                    out[c] = _levels(spec.silos)[self.silo_of(spec, n)]
                elif c in schema.levels:
                    values = _levels(schema.levels[c])
                    # as many of each as its share says: by chance a rare one would be rarer, or not rare
                    rank = np.argsort(np.argsort(latent[c])) if c in latent else rng.permutation(n)
                    shares = self.shares.get(c, np.full(len(values), 1.0 / len(values)))
                    at = np.searchsorted(np.cumsum(shares), (rank + 0.5) / n)
                    out[c] = values[np.minimum(at, len(values) - 1)]
                else:
                    out[c] = self._number(c, schema, latent[c])
        for c in responses:
            if self.answered and self.covariates is not None and not seen:
                out[c] = self.covariates[c].to_numpy()[at]
            elif c in schema.levels:
                out[c] = np.repeat(_levels(schema.levels[c])[:1], n)
            elif spec.family.binary:
                out[c] = np.zeros(n)  # 0 or 1 needs no declaration
            else:
                low, high = schema.reference(c)
                out[c] = np.full(n, round(0.5 * (low + high)))
        return {c: out[c] for c in (*design.columns, *seen)}, scale

    @staticmethod
    def silo_of(spec: ModelSpec, n: int) -> NDArray[np.intp]:
        """Places of the silos that hold `n` rows of people, in order; shape (n,)."""
        ends = np.cumsum(spec.shared(n // spec.people.given)) * spec.people.given
        return np.minimum(np.searchsorted(ends, np.arange(n), side="right"), len(ends) - 1)

    def _number(self, name: str, schema: Schema, v: Array) -> Array:
        """A column at these quantiles of a normal: normal of declared moments, beta of a pilot's mean and sd, uniform,
        skewed; or whether a factor of two levels has the second.
        """
        if name in schema.levels:
            return np.asarray(ndtr(v) > self.shares.get(name, (0.5, 0.5))[0], dtype=np.float64)
        low, high = schema.limits(name)
        mean, sd = self.moments.moments.get(name, (0.5 * (low + high), 0.0))
        if name not in schema.moments and not math.isfinite(high - low):
            raise SchemaError(f"{name!r} has no public range to plan with; give its bounds= or moments=.")
        if name in self.skewed:
            values = low - (sd or (high - low) / BEYOND) * log_ndtr(-v)
        elif name in schema.moments:
            values = schema.moments[name][0] + schema.moments[name][1] * v
        else:
            up, down = (mean - low) / (high - low), (high - mean) / (high - low)
            size = up * down * ((high - low) / sd) ** 2 - 1.0 if sd else 0.0
            values = low + (high - low) * (betaincinv(up * size, down * size, ndtr(v)) if sd else ndtr(v))
        return np.asarray(np.clip(values, low, high))

    def unknown(self, spec: ModelSpec) -> "Assumed | None":
        """Assumptions with numbers skewed and related wherever nothing is known of them; None if all is known."""
        schema, names = spec.design.schema, [c for c in spec.design.covariates if c not in MADE]
        skewed = frozenset(c for c in names if c not in schema.levels and c not in schema.moments)
        known = schema.correlations or self.moments.correlations
        if self.covariates is not None or not skewed:
            return None
        return replace(self, skewed=skewed, related=0.0 if known else RELATED)

    def matters(self, spec: ModelSpec) -> tuple[str, float]:
        """The skewed number, or "correlations", that makes a slope's error by least squares largest, and its factor."""
        found: dict[str, Array] = {}
        for name in ("", "correlations", *sorted(self.skewed)):
            one = replace(self, skewed=self.skewed & {name}, related=self.related * (name == "correlations"))
            _, x, _ = one.exog(spec, OUTSIDE, np.random.Generator(np.random.PCG64(OUTSIDE)))
            found[name] = np.sqrt(np.diag(np.linalg.pinv(x.T @ x)))[np.asarray(spec.units.constant) == 0.0]
        times = {name: float(np.max(errors / found[""])) for name, errors in found.items() if name}
        return max(times.items(), key=lambda item: item[1])

    def exog(self, spec: ModelSpec, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], Array, Array]:
        """Raw columns of `n` people, their rows of the design, shape (n, p), user's units, and sds of residuals."""
        rows, scale = self.rows(spec, n, rng)
        return rows, np.asarray(spec.design.encode(rows, "raise").exog), scale

    def responses(self, spec: ModelSpec, x: Array, scale: Array, rng: np.random.Generator, rows: Any = None) -> Any:
        """Responses that people with these rows of the design give, as the response's column holds them, or raw `rows`.
        Raises OptionError if the response is an expression, or nothing says how its values come about.
        """
        family, design = spec.family, spec.design
        name = response_of(spec)
        if name not in design.columns:
            raise OptionError(
                f"the response {design.endog_name} is an expression, whose column can't be made up from its value; "
                "plan for a column of its own, with the bounds it has then."
            )
        if self.answered and rows is not None:
            return rows[name]
        eta = x @ self.params.reshape(-1, x.shape[1]).T
        eta = eta if design.cuts is None else eta + design.cuts @ self.params
        if family.response == "number":
            errors = rng.standard_normal(len(x))
            if self.icc:
                level = np.repeat(rng.standard_normal(len(x) // spec.people.rows), spec.people.rows)
                errors = math.sqrt(self.icc) * level + math.sqrt(1.0 - self.icc) * errors
            return eta[:, 0] + scale * errors
        levels = _levels(design.schema.levels.get(name, (0, 1)))
        return family.scoring.draw(family, eta, levels, rng, self.varied(eta) if family.scoring.counts else 1.0)

    def varied(self, eta: Array) -> Array:
        """Variance of counts over their mean at linear predictors, same shape."""
        return np.asarray(self.dispersion + self.alpha * np.exp(np.minimum(eta, MOST_LOG)))

    def followed(self, spec: ModelSpec, rows: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """Raw `rows` with times until an event, or censoring, and events; those of a pilot as they are."""
        followed, schema = spec.people.followed, spec.design.schema
        out = {c: v for c, v in rows.items() if c not in {*MADE, ENDED}}
        if self.answered or followed is None:
            return out
        n, levels = len(rows[INTERVAL]), _levels(schema.levels.get(followed.event, (0, 1)))
        out |= {followed.time: np.full(n, followed.cuts[-1]), followed.event: np.repeat(levels[:1], n)}
        out |= {} if followed.start is None else {followed.start: np.zeros(n)}
        x = spec.design.encode(followed.rows(out, schema, out), "noise").exog
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            hazards = np.exp(x @ self.params).reshape(n, -1) * np.diff(followed.edges)
            upto, left = np.cumsum(hazards, axis=1), rng.exponential(size=n)
            j = np.minimum((upto <= left[:, None]).sum(axis=1), upto.shape[1] - 1)  # interval in which it runs out
            before = np.where(j > 0, upto[np.arange(n), j - 1], 0.0)
            part = np.clip((left - before) / hazards[np.arange(n), j], 0.0, 1.0)
            at = followed.edges[j] + part * np.diff(followed.edges)[j]
            times = np.ndim(self.censored) > 0
            until = rng.choice(self.censored, n) if times else rng.exponential(size=n) / self.censored
        happened = levels[1] if followed.cause is None else followed.cause
        event = np.where((left < upto[:, -1]) & (at <= until), happened, levels[0])
        return {**out, followed.time: np.minimum(at, until), followed.event: event}

    def events(self, spec: ModelSpec) -> float:
        """Share of people with an event until the last cut point."""
        rng = np.random.Generator(np.random.PCG64(OUTSIDE))
        followed, n = spec.people.followed, 4 * OUTSIDE
        assert followed is not None
        held = followed.rows(self.followed(spec, self.exog(spec, n, rng)[0], rng), spec.design.schema, ())
        return float(np.nansum(held[ENDED])) / n

    def with_events(self, spec: ModelSpec, share: float, *, censor: bool) -> "Assumed":
        """Assumptions by which this `share` of people have an event: with other hazards, or with people censored.
        Raises OptionError if so many have none though nobody is censored.
        """

        def at(log: float) -> Assumed:
            rate = math.exp(log) / spec.people.followed.cuts[-1] if spec.people.followed else 0.0
            return replace(self, censored=rate) if censor else replace(self, params=self.params + log * constant)

        constant = spec.units.constant
        if censor and (most := self.events(spec)) <= share:
            raise OptionError(
                f"pilot= has events={share:g}, and with params= {most:.3g} have one if nobody is censored; give other "
                "params=, or leave its Intercept out."
            )
        return at(float(brentq(lambda log: at(log).events(spec) - share, -40.0, 40.0, xtol=1e-3)))

    def outside(self, spec: ModelSpec) -> float:
        """Share of responses that lie outside their declared range, and would be clamped."""
        design, family = spec.design, spec.family
        if not (family.scaled or family.scoring.counts):
            return 0.0
        rows, x, scale = self.exog(spec, OUTSIDE, np.random.Generator(np.random.PCG64(OUTSIDE)))
        low, high = (0.0, family.y_max) if family.scoring.counts else design.endog_limits
        if self.answered:
            y = rows[response_of(spec)]
            return float(((y < low) | (y > high)).mean())
        eta = x @ self.params
        if family.scoring.counts:
            return family.scoring.exceeding(family, eta, self.varied(eta))
        return float((ndtr((low - eta) / scale) + ndtr((eta - high) / scale)).mean())

    def truth(self, spec: ModelSpec, ratio: float) -> Array:
        """Coefficients that a fit estimates, user's units; `ratio` is the Huber threshold in residual sd.

        NaN where residuals' sds differ and no line runs at the same distance in each.
        """
        out, family, constant = np.array(self.params), spec.family, np.asarray(spec.units.constant)
        if spec.people.effect is not None:  # what a person's level leaves of the constant
            out[constant != 0.0] = 0.0
        centre = family.scoring.centred(family, ratio)
        if centre and np.ndim(self.scale):
            return np.full(len(out), math.nan)
        return out + float(self.scale) * centre * constant if family.scoring.residual and centre else out

    @property
    def spread(self) -> str:
        """Sd of the residuals, in words."""
        low, high = (_read(float(v)) for v in (np.min(self.scale), np.max(self.scale)))
        return low if np.ndim(self.scale) == 0 else f"{low} to {high}, by row"

    def words(self, spec: ModelSpec) -> list[tuple[str, str]]:
        """Assumptions by column, in words."""
        schema, out = spec.design.schema, []
        if spec.family.scaled:
            out.append((spec.design.endog_name, f"residuals normal with sd {self.spread}"))
        if spec.people.k_max is not None:
            rows = f"{spec.people.rows:,} rows each, covariates drawn anew for each row"
            alike = f", residuals correlated by {self.icc:g}" if self.icc else ", residuals independent"
            out.append(("people", rows + alike * (spec.family.response == "number")))
        names = [c for c in spec.design.columns if c not in {*spec.design.endog_sources, *MADE}]
        if (followed := spec.people.followed) is not None:
            how = f"everybody followed until {followed.cuts[-1]:g}, as pilot= says nothing of censoring"
            if self.answered or np.ndim(self.censored):
                how = f"{'and event drawn from' if self.answered else 'censored as in'} the pilot"
            elif self.censored:
                how = f"censored at a constant rate, {self.censored:.3g}, followed until {followed.cuts[-1]:g}"
            if followed.start is not None and not self.answered:
                how += ", from time 0 on, as a plan has late entry by rows of a pilot alone"
            out.append((followed.time, f"{how}, {100.0 * self.events(spec):.3g}% with an event"))
        if self.covariates is not None:
            out.append(("covariates", f"drawn from {len(self.covariates):,} public rows"))
        for c in names if self.covariates is None else ():
            shares = ", ".join(f"{100.0 * v:.3g}%" for v in self.shares.get(c, ()))
            if c == SILO and spec.silos:
                what = "by the records of silos"
            elif c in schema.levels:
                what = f"shares {shares}" if shares else "levels equally frequent"
            elif c in self.moments.moments:
                what = "mean {:g}, sd {:g} on {} to {}".format(*self.moments.moments[c], *schema.bounds_text(c))
            elif c in schema.moments:
                what = "normal with mean {:g}, sd {:g}".format(*schema.moments[c])
            else:
                what = "uniform on {} to {}".format(*schema.bounds_text(c))
            out.append((c, what))
        if not spec.family.scaled:
            model = [f"{c} = {v:g}" for c, v in zip(spec.coefficients, self.params, strict=True) if v]
            rest = " and 0 otherwise" if len(model) < len(spec.coefficients) else ""
            out.append(("coefficients", ", ".join(model) + rest if model else "0"))
        if self.alpha and not self.answered:
            out.append(("dispersion", f"alpha = {_read(self.alpha)}: counts vary by m + alpha m² at the mean m"))
        return out


def censoring(followed: Followed, rows: Any, schema: Schema) -> Array:
    """Times of censoring of a pilot's `rows` at even quantiles, by Kaplan and Meier's estimate; shape (2048,)."""
    frame = pd.DataFrame(rows)
    time = frame[followed.time].to_numpy(dtype=np.float64)
    censored = (frame[followed.event] == schema.levels.get(followed.event, (0, 1))[0]).to_numpy()
    order = np.lexsort((censored, time))  # events come before censoring at the same time
    left = np.cumprod(1.0 - censored[order] / np.arange(len(time), 0.0, -1.0))
    return np.asarray(np.append(time[order], np.inf)[np.searchsorted(-left, -ndtr(QUANTILES))])


def related(values: Array, corr: Array) -> Array:
    """Correlations of normals whose functions have the correlations `corr`, as nearly as any can: shape (k, k).

    `values` are the functions at `QUANTILES`, shape (k, m). With Hermite's coefficients a and b of two of them, scaled
    to variance 1, normals correlated by r make Σ a_i b_i r^i (Cario and Nelson, 1997).
    """
    basis = [np.ones(len(QUANTILES)), QUANTILES]
    for k in range(1, ORDER):
        basis.append((QUANTILES * basis[-1] - math.sqrt(k) * basis[-2]) / math.sqrt(k + 1.0))
    values = values - values.mean(axis=1, keepdims=True)
    series = values @ np.array(basis).T / np.linalg.norm(values, axis=1, keepdims=True) / math.sqrt(len(QUANTILES))
    grid, out = np.linspace(-1.0, 1.0, 401), np.eye(len(corr))
    for i, j in zip(*np.tril_indices(len(corr), -1), strict=True):
        made = np.polynomial.polynomial.polyval(grid, series[i] * series[j])
        out[i, j] = out[j, i] = np.interp(corr[i, j], np.maximum.accumulate(made), grid)
    size, axes = np.linalg.eigh(out)
    root = axes * np.sqrt(np.maximum(size, FLATTEST))  # the nearest that can hold together
    root /= np.linalg.norm(root, axis=1, keepdims=True)
    return np.asarray(root @ root.T)


def response_of(spec: ModelSpec) -> str:
    """The response's column, or the expression that it is."""
    design = spec.design
    return design.endog_bare if design.endog_bare is not None else design.endog_name


def _read(value: float) -> str:
    """A number of four digits, none of them in an exponent unless it is huge or tiny."""
    return f"{float(f'{value:.4g}'):,.12g}"


def _levels(given: Sequence[Any]) -> Any:
    """Levels as an array, each of its own type: NumPy would make texts of 1 beside "b"."""
    return np.asarray(given, dtype=None if len({type(v) for v in given}) == 1 else object)
