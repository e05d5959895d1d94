"""Whether intervals hold for every family × mechanism × what is private × score weights, and how near the limit is.

``python -m benchmarks.families [--cells NAME …] [--reps R] [--processes K] [--again]``

Data: n = 200,000 people, three standard normal covariates and a constant, bounds declared at ±4 sd of every column.
Numbers are y = 1 + x₁ + x₂ + x₃ + 0.5 e, e standard normal; families of 0/1 get y with log-odds 1 + x₁ + x₂ + x₃;
Multinomial three levels with the log-odds in `LEVELS`; Poisson(20) counts of mean 2.5 exp(0.3 (x₁ + x₂ + x₃)), clamped
at 20; the families …_one fit "y ~ 1" to 1 + 0.5 e. The custom score is tanh(2 (η − y)), that of a log-cosh loss.

A cell is called family-mechanism-private-way. Gaussian noise is at μ = 1, the other mechanisms at pure ε = 4. The ways
are whitened (the default), unit (``score_weights="unit"``), published (``tuning="published"``) and published_unit
(the same with unit weights); the first two have sandwich intervals, the others those by random scaling.

The estimand is the zero of the mean score, weighted as the fit weights it, found numerically where it is not what the
simulation says: for expectiles at the fit's own threshold, both hinges, clamped counts and clamped least squares.

The limit is A⁻¹ (S + C) A⁻¹/n: A the mean derivative of the weighted score, S its second moment, C the mechanism's own
exact mean covariance on the score reports, all at the estimand and in the chain's coordinates (the true whitening, or
the declared box under published tuning), by 2¹⁸ scrambled Sobol points. Its n, "effective" in the table, is not all
people as in `benchmarks.limits` but those whose scores enter the estimate: of main rounds, and of the last two pilot
rounds times the weight of a joint report, 1/(1 + κ²/4); all under published tuning. What learning scales costs is not
held against a fit here.

Columns of the results, one line a cell:

coverage, low_999, holds
    Share of 95% intervals that hold their coefficient, in %, pooled over coefficients and replications; what a share
    with exact 95% reaches or exceeds in 99.9% of such studies, were coefficients independent; whether coverage is not
    below it.
noted
    Share of fits whose summary says "don't rely on" the intervals.
length, limit_length, rmse
    Mean 95% length; that of normal intervals at the limit; root mean square error, over coefficients.
bias
    Root mean square, over coefficients, of the mean error over the sd at the limit: 1/√replications if there is none.
trace_ratio, in_range
    Trace of the estimates' covariance over that of the limit; whether it lies in 0.85 … 1.44.
effective, estimand, mean
    The limit's n; what is estimated, coefficient by coefficient (block after block); the mean estimate.
failed, error
    Fits that raised an error, which count nowhere else, and the first error's type and words.

A cell that is stored with as many replications is skipped, so that a run can be stopped and resumed; rows keep the date
and a hash of the package that made them, and --again replaces them.
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import binom, norm, poisson, qmc

import privreg as pr
from benchmarks.efficiency import add, code_hash, stored
from benchmarks.limits import NORMAL_975, SCALE
from privreg import families
from privreg.families import scores
from privreg.fits.plan import plan_of
from privreg.fits.settings import FitOptions, Settings
from privreg.formula.spec import ModelSpec
from privreg.protocol import codes
from privreg.protocol.plans import Shape
from privreg.simulation.tuning import resolve_tuning

TABLE = "families.csv"
PEOPLE, P, EDGE, MOST = 200_000, 3, 4.0, 20
MU, EPSILON = 1.0, 4.0
COVARIATES = [f"x{j + 1}" for j in range(P)]
LEVELS = np.array([[0.5, 1.0, 0.5, 0.0], [-0.5, 0.0, -0.5, 1.0]])
"""Coefficients of the second and third level."""
RATE = np.array([math.log(MOST / 8), 0.3, 0.3, 0.3])
WAYS = {
    "whitened": ("efficient", None),
    "unit": ("efficient", "unit"),
    "published": ("published", None),
    "published_unit": ("published", "unit"),
}
RANGE = (0.85, 1.44)
POINTS, WIDTH = 18, 0.03
"""Log2 of the points of a limit, and half the distance over which its derivatives are taken, user's units."""


def log_cosh(eta: float, y: float) -> float:
    return math.tanh(2.0 * (eta - y))


FAMILIES: dict[str, tuple[str, Callable[[], families.Family]]] = {
    "huber": ("number", families.Huber),
    "expectile80": ("number", partial(families.Expectile, 0.8)),
    "quantile50": ("number", partial(families.Quantile, 0.5)),
    "quantile90": ("number", partial(families.Quantile, 0.9)),
    "quantile50_one": ("one", partial(families.Quantile, 0.5)),
    "quantile90_one": ("one", partial(families.Quantile, 0.9)),
    "logistic": ("binary", families.Logistic),
    "multinomial": ("levels", families.Multinomial),
    "poisson": ("counts", partial(families.Poisson, MOST)),
    "hinge": ("binary", families.Hinge),
    "smoothed_hinge": ("binary", families.SmoothedHinge),
    "squared": ("number", families.Squared),
    "log_cosh": ("number", partial(families.custom, "log-cosh", log_cosh, 1.0)),
}
"""Law of the response, and the family."""


@dataclass(frozen=True)
class Cell:
    """One situation; see the module for its parts.

    Attributes
    ----------
    family, mechanism, private, way : str
    """

    family: str
    mechanism: str
    private: str
    way: str

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.family}-{self.mechanism}-{self.private}-{self.way}"

    @property
    def law(self) -> str:
        """Of the response."""
        return FAMILIES[self.family][0]

    @property
    def names(self) -> list[str]:
        """Columns of the design."""
        return ["const", *([] if self.law == "one" else COVARIATES)]

    @property
    def truth(self) -> np.ndarray:
        """Coefficients that made the data, block after block."""
        return {"levels": LEVELS.reshape(-1), "counts": RATE}.get(self.law, np.ones(len(self.names)))


def cells() -> list[Cell]:
    out = []
    for family, (law, _) in FAMILIES.items():
        sets = [("gaussian", "record"), ("laplace", "record"), ("privunit", "record")]
        if law == "one":
            sets[2] = ("randomized_response", "record")
        elif law != "levels":
            sets += [("gaussian", "response"), ("randomized_response", "response")]
        for mechanism, private in sets:
            ways = [w for w in WAYS if private == "record" or not w.startswith("published")]
            out += [Cell(family, mechanism, private, w) for w in ways if law != "one" or "unit" not in w]
    return out


# --- one replication -----------------------------------------------------------------------------------


def responses(cell: Cell, x: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Responses of rows of the design from one uniform number each, both of length n."""
    if cell.law == "levels":
        below = np.cumsum(shares(x), axis=1)
        return (uniform[:, None] > below[:, :-1]).sum(axis=1)
    eta = x @ cell.truth
    if cell.law == "binary":
        return (uniform < chance(eta)).astype(np.float64)
    if cell.law == "counts":
        return np.minimum(poisson.ppf(uniform, np.exp(eta)), MOST)
    return eta + SCALE * ndtri(uniform)


def chance(eta: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-eta))


def shares(x: np.ndarray) -> np.ndarray:
    """Probabilities of the three levels."""
    odds = np.exp(np.column_stack([np.zeros(len(x)), x @ LEVELS.T]))
    return odds / odds.sum(axis=1, keepdims=True)


def draw(cell: Cell, people: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Response and design."""
    x = np.ones((people, len(cell.names)))
    x[:, 1:] = rng.standard_normal((people, len(cell.names) - 1))
    if cell.law in {"number", "one"}:
        return x @ cell.truth + SCALE * rng.standard_normal(people), x
    if cell.law == "counts":
        return np.minimum(rng.poisson(np.exp(x @ RATE)), MOST).astype(np.float64), x
    return responses(cell, x, rng.uniform(size=people)), x


def model(cell: Cell, y: np.ndarray, x: np.ndarray) -> pr.PrivateOnlineRegression:
    bounds = {name: (-EDGE, EDGE) for name in cell.names[1:]}
    if cell.law in {"number", "one"}:
        sd = math.sqrt(len(cell.names) - 1 + SCALE**2)
        bounds["y"] = (1.0 - EDGE * sd, 1.0 + EDGE * sd)
    budget = {"mu": MU} if cell.mechanism == "gaussian" else {"epsilon": EPSILON}
    return pr.PrivateOnlineRegression(
        y, x, exog_names=cell.names, family=FAMILIES[cell.family][1](), mechanism=cell.mechanism, private=cell.private,
        score_weights=WAYS[cell.way][1], bounds=bounds, levels={"y": [0, 1, 2]} if cell.law == "levels" else None,
        **budget,
    )  # fmt: skip


def one(cell: Cell, replication: int) -> dict[str, Any]:
    """Fit one data set: estimates and intervals, or the error."""
    seeds = np.random.SeedSequence([zlib.crc32(cell.name.encode()), replication])
    y, x = draw(cell, PEOPLE, np.random.Generator(np.random.SFC64(seeds.spawn(1)[0])))
    seed, begin = int(seeds.generate_state(1, np.uint64)[0]), time.perf_counter()
    try:
        res = model(cell, y, x).fit(tuning=WAYS[cell.way][0], seed=seed, threads=1, progress=False)
        low, high = res.conf_int().to_numpy().T  # block after block
    except Exception as e:  # a benchmark tells which cells break, whatever it is that breaks
        return {"error": f"{type(e).__name__}: {str(e)[:160]}"}
    return {
        "params": res.params.to_numpy().T.reshape(-1),
        "low": low,
        "high": high,
        "noted": bool(res.privacy.doubts),
        "seconds": time.perf_counter() - begin,
    }


# --- the limit -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """What a cell is measured against.

    Attributes
    ----------
    truth : ndarray, shape (d,)
        Estimand, user's units.
    covariance : ndarray, shape (d, d)
        Of the estimates at the limit, user's units.
    effective : float
        People whose scores enter, see the module.
    """

    truth: np.ndarray
    covariance: np.ndarray
    effective: float


def expectile(tau: float, c: float) -> float:
    """Where the expectile with threshold c of a standard normal lies."""

    def above(m: float) -> float:  # E max(e − m, 0)
        return float(norm.pdf(m) - m * ndtr(-m))

    def score(m: float) -> float:
        return tau * (above(m) - above(m + c)) - (1.0 - tau) * (above(-m) - above(c - m))

    return float(brentq(score, -8.0, 8.0, xtol=1e-12))


@cache
def sobol(columns: int) -> np.ndarray:
    return qmc.Sobol(columns, seed=np.random.default_rng(1)).random_base2(POINTS)


@dataclass(frozen=True)
class Chain:
    """A fit's score at 2¹⁸ people, in its own coordinates and response units.

    Attributes
    ----------
    cell : Cell
    settings : Settings
    spec : ModelSpec
    z, y, uniform : ndarray
        Covariates of the chain, shape (N, d), response inside, and the uniform numbers it came from.
    x : ndarray, shape (N, p)
        Design, user's units.
    to_user, shift : ndarray
        θ_user = to_user θ + shift, one block.
    """

    cell: Cell
    settings: Settings
    spec: ModelSpec
    z: np.ndarray
    y: np.ndarray
    x: np.ndarray
    to_user: np.ndarray
    shift: np.ndarray

    @property
    def label(self) -> bool:
        """Whether a report is one number."""
        s = self.settings
        return s.how.alone if s.efficient is None else s.efficient.reports.label

    @property
    def unit(self) -> float:
        """Response units per unit inside."""
        return float(self.to_user[0, 0])

    def inside(self, y: np.ndarray) -> np.ndarray:
        """Responses in the chain's units."""
        return (y - self.shift[0]) / self.unit

    def c(self) -> float:
        """Corner of the score, chain's units."""
        s = self.settings
        return s.how.score.c if s.efficient is None else s.efficient.rules.ratio * SCALE / self.unit

    @property
    def shape(self) -> Shape:
        """Numbers of the scalar score."""
        how = self.settings.how
        return how.score.shape if self.settings.efficient is None else how.rules.shape

    def score(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Scalar score."""
        how, shape = self.settings.how, self.shape
        if shape.family == codes.CUSTOM:
            return np.tanh(2.0 * (eta - y))
        if self.settings.efficient is None:
            return scores.psi(how.score, eta, y)
        return scores.unit(shape, self.c(), eta, y)

    def weights(self) -> np.ndarray:
        """ω of every person."""
        if self.label:
            return np.ones(len(self.z))
        norm2 = (self.z**2).sum(axis=1)
        if self.settings.how.weighing == "published":
            return np.minimum(1.0, 2.0 / norm2)
        return 1.0 / np.sqrt(norm2)

    def expected(self, eta: np.ndarray) -> np.ndarray:
        """Mean score of every person at predictor `eta`, over what their response might have been."""
        truth = self.x @ self.cell.truth
        if self.cell.law == "binary":
            share = chance(truth)
            return share * self.score(eta, np.ones_like(eta)) + (1.0 - share) * self.score(eta, np.zeros_like(eta))
        if self.cell.law == "counts":  # E min(Y, k) = λ P(Y < k − 1) + k P(Y ≥ k), and the score is linear in y
            rate = np.exp(truth)
            return self.score(eta, rate * poisson.cdf(MOST - 2, rate) + MOST * poisson.sf(MOST - 1, rate))
        if self.cell.family == "squared":  # likewise
            low, high = self.shape.a, self.shape.b
            mean, sd = self.inside(truth), SCALE / self.unit
            a, b = (low - mean) / sd, (high - mean) / sd
            middle = mean * (ndtr(b) - ndtr(a)) + sd * (norm.pdf(a) - norm.pdf(b))
            return self.score(eta, low * ndtr(a) + high * ndtr(-b) + middle)
        raise ValueError(self.cell.law)

    def rise(self, theta: np.ndarray) -> np.ndarray | float:
        """Derivative of the mean score by the predictor, for every person or, in a location family, for all."""
        h = WIDTH / self.unit
        if self.cell.law in {"number", "one"} and self.cell.family != "squared":
            errors = SCALE / self.unit * ndtri((np.arange(1 << POINTS) + 0.5) / (1 << POINTS))
            at = np.full(len(errors), (self.to_user @ theta + self.shift)[0] - self.cell.truth[0]) / self.unit
            return float((self.score(at + h, errors) - self.score(at - h, errors)).mean() / (2.0 * h))
        eta = self.z @ theta
        return (self.expected(eta + h) - self.expected(eta - h)) / (2.0 * h)

    def bread(self, theta: np.ndarray) -> np.ndarray:
        """A."""
        return (self.z * (self.weights() * self.rise(theta))[:, None]).T @ self.z / len(self.z)

    def estimand(self) -> np.ndarray:
        """Zero of the mean weighted score, chain's coordinates."""
        truth = self.cell.truth.copy()
        if self.cell.family.startswith("expectile"):
            ratio = self.c() * self.unit / SCALE
            truth[0] += SCALE * expectile(self.shape.a, ratio)
        elif self.cell.family.startswith("quantile"):
            truth[0] += SCALE * float(ndtri(self.shape.a))
        theta = np.linalg.solve(self.to_user, truth - self.shift)
        if self.cell.law not in {"binary", "counts"} and self.cell.family != "squared":
            return theta
        step = np.full(len(theta), math.inf)
        for k in range(60):
            mean = (self.weights() * self.expected(self.z @ theta)) @ self.z / len(self.z)
            step = np.linalg.solve(self.bread(theta), mean)
            theta = theta - (0.5 if k < 10 else 0.9) * step
            if np.abs(step).max() < 1e-6:
                break
        if np.abs(step).max() > 2e-3:
            raise ArithmeticError(f"no zero of the mean score found for {self.cell.name}: last step {step}")
        return theta

    def meat(self, theta: np.ndarray) -> np.ndarray:
        """S + C, with one block of coefficients."""
        s, eta = self.settings, self.z @ theta
        score, n = self.score(eta, self.y), len(self.z)
        if not self.label:
            reports = self.z * (score * self.weights())[:, None]
            return reports.T @ reports / n + s.mechanism.covariance(reports, s.how.report(self.z.shape[1])[0])
        if s.efficient is None:
            low, high = (np.full(n, v) for v in s.how.score.range)
        else:
            ends = s.efficient.reports.y_high, s.efficient.reports.y_low
            low, high = (self.score(eta, np.full(n, v)) for v in ends)
        noise = s.mechanism.covariance(np.zeros((1, 1)), 1.0)[0, 0] * (0.5 * (high - low)) ** 2
        if s.mechanism.name != "gaussian" and s.mechanism.name != "laplace":  # an answer of fixed size
            noise = noise - (score - 0.5 * (low + high)) ** 2
        return (self.z * (score**2 + noise)[:, None]).T @ self.z / n

    def multinomial(self) -> tuple[np.ndarray, np.ndarray]:
        """A and S + C of the multinomial score at the truth."""
        s, n = self.settings, len(self.z)
        pi, y = shares(self.x)[:, 1:], self.y.astype(np.intp)
        seen, ends = np.eye(3)[y][:, 1:], np.eye(3)[:, 1:]
        over = np.ones(n)
        if s.efficient is not None:
            over = np.linalg.norm(pi[:, None] - ends[None], axis=2).max(axis=1)
        factor = self.weights() / over
        reports = np.einsum("nk,nj->nkj", (pi - seen) * factor[:, None], self.z).reshape(n, -1)
        slope = np.einsum("nk,km->nkm", pi, np.eye(2)) - np.einsum("nk,nm->nkm", pi, pi)
        bread = np.einsum("nkm,ni,nj->kimj", slope * factor[:, None, None], self.z, self.z, optimize=True) / n
        d = reports.shape[1]
        noise = s.mechanism.covariance(reports, s.how.report(self.z.shape[1])[0])
        return bread.reshape(d, d), reports.T @ reports / n + noise

    def people(self) -> float:
        """How many people's scores enter the estimate."""
        if self.settings.efficient is None:
            return float(PEOPLE)
        plan = plan_of(self.spec, self.settings, None)[0]
        pilots = [r.people for r in plan.rounds if r.role == "pilot"]
        main = PEOPLE - sum(r.people for r in plan.rounds if r.people > 0 and not r.optional)
        return main + sum(pilots[-2:]) / (1.0 + 0.25 * plan.kappa("pilot") ** 2)


_known: dict[tuple, Any] = {}


def once(key: tuple, make: Callable[[], Any]) -> Any:
    """Return what was made before under this key, or make it."""
    if key not in _known:
        _known[key] = make()
    return _known[key]


def chain(cell: Cell) -> Chain:
    points = sobol(len(cell.names))
    x = np.column_stack([np.ones(len(points)), ndtri(points[:, :-1])])
    y = once((cell.law,), lambda: responses(cell, x, points[:, -1]))
    few = model(cell, y[:100], x[:100])
    settings, units = resolve_tuning(FitOptions(tuning=WAYS[cell.way][0]), few._spec, PEOPLE), few._spec.units
    if settings.efficient is None:
        z, to_user = (x - units.centre) / units.scale, units.matrix
    else:
        z, to_user = x, units.y_scale * np.eye(x.shape[1])
    return Chain(cell, settings, few._spec, z, units.response_inside(y), x, to_user, units.shift)


def limit(cell: Cell) -> Limit:
    own = chain(cell)
    if cell.law == "levels":
        truth, to_user = cell.truth, np.kron(np.eye(len(LEVELS)), own.to_user)
        bread, meat = own.multinomial()
    else:
        # the same for all mechanisms, but for a threshold that depends on the budget
        same = (cell.family, own.label, own.settings.tuning, own.settings.how.weighing, own.c())
        theta = once(("theta", *same), own.estimand)
        truth, to_user = own.to_user @ theta + own.shift, own.to_user
        bread, meat = once(("bread", *same), lambda: own.bread(theta)), own.meat(theta)
    half = to_user @ np.linalg.inv(bread)
    return Limit(truth, half @ meat @ half.T / own.people(), own.people())


# --- the study -----------------------------------------------------------------------------------------


def significant(value: float) -> float:
    return float(f"{value:.5g}")


def tabulate(cell: Cell, records: Iterable[dict], code: str) -> pd.DataFrame:
    """Row of one cell."""
    runs = list(records)
    good = [r for r in runs if "error" not in r]
    errors = [r["error"] for r in runs if "error" in r]
    row: dict[str, Any] = {"cell": cell.name, "family": cell.family, "mechanism": cell.mechanism}
    row |= {"private": cell.private, "way": cell.way, "budget": "mu=1" if cell.mechanism == "gaussian" else "epsilon=4"}
    row |= {"replications": len(runs), "failed": len(errors), "error": errors[0] if errors else ""}
    if len(good) > 1:
        at = limit(cell)
        params, low, high = (np.array([r[k] for r in good]) for k in ("params", "low", "high"))
        off, d, sd = params - at.truth, len(at.truth), np.sqrt(np.diag(at.covariance))
        covered, trials = int(((low <= at.truth) & (at.truth <= high)).sum()), params.size
        least = binom.ppf(0.001, trials, 0.95)
        ratio = float(np.trace(np.atleast_2d(np.cov(params.T))) / np.trace(at.covariance))
        row |= {
            "coverage": round(100 * covered / trials, 2),
            "low_999": round(100 * least / trials, 2),
            "holds": bool(covered >= least),
            "noted": round(float(np.mean([r["noted"] for r in good])), 3),
            "length": significant(float((high - low).mean())),
            "limit_length": significant(2 * NORMAL_975 * float(sd.mean())),
            "rmse": significant(math.sqrt(float((off**2).mean()))),
            "bias": round(math.sqrt(float(((off.mean(axis=0) / sd) ** 2).sum() / d)), 3),
            "trace_ratio": round(ratio, 3),
            "in_range": RANGE[0] <= ratio <= RANGE[1],
            "effective": round(at.effective),
            "estimand": " ".join(f"{v:.4f}" for v in at.truth),
            "mean": " ".join(f"{v:.4f}" for v in params.mean(axis=0)),
            "seconds": round(float(np.mean([r["seconds"] for r in good])), 3),
        }
    return pd.DataFrame([row | {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "code": code}])


def words(row: Any) -> str:
    """One line about a cell that has been run."""
    failed = f"{row.failed} FAILED ({row.error}) " if row.failed else ""
    if row.failed >= row.replications - 1:
        return failed
    doubt = " (note)" if row.noted == 1 else f" (note in {row.noted:.0%})" if row.noted else ""
    return (
        f"{failed}{row.coverage:.1f}%{'' if row.holds else ' BELOW'}{doubt}, length {row.length:.3g}, "
        f"rmse {row.rmse:.3g}, bias {row.bias:.2f}, trace {row.trace_ratio:.2f}{'' if row.in_range else ' OUT'}"
    )


def run(args: argparse.Namespace, command: str) -> None:
    every, path, code = cells(), args.out / TABLE, code_hash()
    unknown = [w for w in args.cells if not any(fnmatch(c.name, w) for c in every)]
    if unknown:
        raise SystemExit(f"no cell is called {unknown[0]!r}; there are {', '.join(c.name for c in every)}")
    done = stored(path)
    enough = set(done.cell[done.replications >= args.reps]) if len(done) else set()
    todo = [c for c in every if not args.cells or any(fnmatch(c.name, w) for w in args.cells)]
    todo = [c for c in todo if args.again or c.name not in enough]
    others = int((done.code != code).sum())
    if others:
        print(f"{path.name}: {others} stored cells are from other code; --again replaces them", file=sys.stderr)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # taken over by the workers, which are started afresh
    begin = time.perf_counter()
    with ProcessPoolExecutor(args.processes, mp_context=get_context("spawn")) as pool:
        for i, cell in enumerate(todo, 1):
            rows = tabulate(cell, pool.map(partial(one, cell), range(args.reps)), code)
            add(rows, path, every, command)
            spent = f"{time.perf_counter() - begin:,.0f} s"
            told = words(next(rows.itertuples()))
            print(f"[{i}/{len(todo)}, {spent}] {cell.name}: {told}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.families", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--cells", nargs="+", default=[], metavar="NAME", help="cells to run; * and ? stand for others")
    parser.add_argument("--reps", type=int, default=50, help="replications of each cell; default 50")
    parser.add_argument("--processes", type=int, default=1, help="default 1")
    parser.add_argument("--again", action="store_true", help="run stored cells again and replace them")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where results are stored")
    args = parser.parse_args(arguments)
    given = sys.argv[1:] if arguments is None else arguments
    run(args, " ".join(["python -m benchmarks.families", *given]))


if __name__ == "__main__":
    main()
