"""Intervals of simulated streams, at several numbers of people, under published and efficient tuning."""

from __future__ import annotations

import math
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.special import ndtri

from benchmarks.papers.designs import THRESHOLD, Design, asymptotic_sd, chunks, truth
from benchmarks.papers.engine import _named, seeds
from privreg.base.arrays import Array
from privreg.collector.inference.methods import METHODS
from privreg.doors.regression import PrivateOnlineRegression
from privreg.errors import InferenceError, PrivregError
from privreg.families import Expectile, Huber, Logistic, Quantile
from privreg.families.family import Family
from privreg.results.results import PrivateResults
from privreg.simulation.streaming.stream import Stream

EDGE: Final = 4.0  # Bounds declared under efficient tuning, in sd
SETTINGS: Final = {
    "stated": ("published", 1.0),  # weights min(1, 2/‖x‖²), bound √2·c, noise sd 2·bound/mu
    "slopes_only": ("published_slopes", math.sqrt(3.0)),  # bound √3·c, noise sd 2c/mu, so the guarantee is √3·mu
    "small_noise": ("published", math.sqrt(2.0) * THRESHOLD),  # noise sd 2/mu; the guarantee is √2·c·mu
    "efficient": ("whitened", 1.0),  # the package's default; the guarantee is mu
}
"""Score weights, and budget over mu."""


@dataclass(frozen=True)
class Cell:
    """One situation."""

    name: str
    design: Design
    setting: str  # A key of `SETTINGS`
    sizes: tuple[int, ...]  # People at which results are taken
    passes: tuple[tuple[str, ...], ...]  # Inference methods of each fit; a fit a tuple
    # Budget; None and None for no privacy
    mu: float | None = None
    epsilon: float | None = None
    mechanism: str = "auto"
    step: float = 0.5  # γ of published tuning
    alphas: tuple[float, ...] = (0.05,)  # One minus the levels of intervals
    whole: bool = False  # Under efficient tuning, one stream planned for the last size; else a stream for each size

    @property
    def efficient(self) -> bool:
        """Whether under efficient tuning."""
        return self.setting == "efficient"

    @property
    def threshold(self) -> float:
        """Threshold of the score, the response's units."""
        if not self.efficient:
            return THRESHOLD
        free = self.mu is None and self.epsilon is None and self.design.family in {"huber", "expectile"}
        return (THRESHOLD if free else 0.5) * self.design.sd

    @property
    def budget(self) -> str:
        """For tables."""
        if self.epsilon is not None:
            return f"eps={self.epsilon:g}"
        return "none" if self.mu is None else f"{self.mu:g}"


def at_hand(methods: Sequence[str], tuning: str) -> tuple[str, ...]:
    """Those of the methods that the package has under a tuning, in their order."""
    return tuple(m for m in methods if m in METHODS and METHODS[m].tuning in {"any", tuning})


def _family(cell: Cell) -> Family:
    d = cell.design
    if d.family == "logistic":
        return Logistic()
    if d.family == "quantile":
        return Quantile(d.tau)
    if d.family == "expectile":
        return Expectile(d.tau) if cell.efficient else Expectile(d.tau, c=THRESHOLD, scale=1.0)
    return Huber() if cell.efficient else Huber(THRESHOLD, scale=1.0)


def model(cell: Cell, rows: int | None, data: tuple[Array, Array] | None = None) -> PrivateOnlineRegression:
    """Describe the cell's model, of so many people if that is known, of nobody's `data` by default."""
    d = cell.design
    numbers = d.names[1:] if d.family == "logistic" else [*d.names[1:], "y"]
    public: dict[str, Any] = {"moments": dict.fromkeys(numbers, (0.0, 1.0))}
    if d.cube:
        public = {"moments": {"y": (0.0, 1.0)}, "bounds": dict.fromkeys(d.names[1:], (-1.0, 1.0))}
    if cell.efficient:
        mean, sd = d.response
        edge = 1.0 if d.cube else EDGE
        public = {"bounds": dict.fromkeys(d.names[1:], (-edge, edge))}
        if d.family != "logistic":
            public["bounds"]["y"] = (mean - EDGE * sd, mean + EDGE * sd)
    weights, factor = SETTINGS[cell.setting]
    budget: dict[str, Any] = {"mu": None if cell.mu is None else cell.mu * factor}
    if cell.epsilon is not None:
        budget = {"epsilon": cell.epsilon}
    if data is None:
        nobody = np.zeros((d.p + 2, d.p + 1))
        nobody[:, 0] = 1.0
        data = np.zeros(d.p + 2), nobody
    return PrivateOnlineRegression(
        data[0], data[1], exog_names=d.names, family=_family(cell), mechanism=cell.mechanism,
        score_weights=None if cell.efficient else weights, rows=rows, **public, **budget,
    )  # fmt: skip


def along(
    stream: Stream, batches: Iterable[tuple[int, Any]], sizes: Container[int]
) -> Iterator[tuple[int, PrivateResults]]:
    """Results of a stream at those numbers of people at which it has any; batches come with the people so far."""
    for n, batch in batches:
        stream.update(batch)
        if n in sizes:
            try:
                found = stream.results()
            except InferenceError:  # of the efficient tuning, before its scales are set
                continue
            yield n, found


@dataclass
class _Pass:
    """A fit in progress."""

    methods: tuple[str, ...]
    stream: Stream
    sizes: tuple[int, ...]
    seconds: float = 0.0
    error: str = ""


def _passes(cell: Cell, noise: list[int]) -> list[_Pass]:
    out: list[_Pass] = []
    for methods in cell.passes:
        ends = [cell.sizes] if cell.whole or not cell.efficient else [(n,) for n in cell.sizes]
        for sizes in ends:
            options: dict[str, Any] = {"inference": methods, "seed": noise[len(out)]}
            options |= {"tuning": "efficient"} if cell.efficient else {"tuning": "published", "step": cell.step}
            out.append(_Pass(methods, model(cell, sizes[-1]).start(**options), sizes))
    return out


def replicate(cell: Cell, replication: int) -> list[dict[str, Any]]:
    """Run every fit of a cell on one data set: a record for each method, number of people, level and coefficient."""
    source = seeds(cell.name, replication)
    once = [m for m in cell.passes if any(not METHODS[name].streaming for name in m)]
    noise = source.fits(len(cell.passes) * (len(cell.sizes) + 1))
    fits = _passes(replace(cell, passes=tuple(m for m in cell.passes if m not in once)), noise[len(once) :])
    records: list[dict[str, Any]] = []
    kept: list[tuple[Array, Array]] = []
    for n, y, x in chunks(cell.design, cell.sizes, source.rows()):
        if once:
            kept.append((y, x))
        for fit in fits:
            if fit.error or n > fit.sizes[-1]:
                continue
            begin = time.perf_counter()
            try:
                fit.stream.update((y, x))
            except PrivregError as e:
                fit.error = _named(e)
                records += [{"method": m, "n": k, "error": fit.error} for m in fit.methods for k in fit.sizes if k >= n]
                continue
            if n not in fit.sizes:
                fit.seconds += time.perf_counter() - begin
                continue
            try:
                found = fit.stream.results()
            except PrivregError as e:
                if not cell.whole:  # early on a path there are no results yet
                    records += [{"method": m, "n": n, "error": _named(e)} for m in fit.methods]
                continue
            finally:
                fit.seconds += time.perf_counter() - begin
            records += _records(cell, found, n, fit.methods, fit.seconds)
    for methods, seed in zip(once, noise, strict=False):
        rows = np.concatenate([k[0] for k in kept]), np.concatenate([k[1] for k in kept])
        records += _released_once(cell, methods, rows, seed)
    return records


def _released_once(cell: Cell, methods: tuple[str, ...], data: tuple[Array, Array], seed: int) -> list[dict[str, Any]]:
    """Fit methods that allow one release only, at the end, with all rows in memory."""
    begin = time.perf_counter()
    found = model(cell, None, data).fit(
        tuning="published", step=cell.step, inference=methods, seed=seed, threads=1, progress=False
    )
    return _records(cell, found, len(data[0]), methods, time.perf_counter() - begin)


def _records(cell: Cell, res: PrivateResults, n: int, methods: Sequence[str], seconds: float) -> list[dict[str, Any]]:
    right = truth(cell.design, cell.threshold)
    estimates = res.params.to_numpy()
    out: list[dict[str, Any]] = []
    for method in methods:
        if method not in res.methods:
            if not cell.whole:
                out.append({"method": method, "n": n, "error": "InferenceError: no intervals yet"})
            continue
        for alpha in cell.alphas:
            limits = res.conf_int(alpha, method=method).to_numpy()
            for j, term in enumerate(cell.design.names):
                row = {"method": method, "n": n, "alpha": alpha, "term": term, "truth": right[j]}
                row |= {"estimate": estimates[j], "low": limits[j, 0], "high": limits[j, 1]}
                out.append(row | {"senders": res._fit.senders, "seconds": seconds})
    return out


def limit_sd(cell: Cell) -> Array:
    """Sd of √n times each coefficient's error at the limit, for those who send scores, shape (p + 1,).

    For efficient tuning that of whitened unit weights and a threshold of half the residual scale; NaN where there is no
    formula for the mechanism.
    """
    d = cell.design
    size = d.p + 1
    if not d.p and d.family == "quantile" and cell.epsilon is not None:  # randomised response of two values
        rate = 1.0 / math.tanh(cell.epsilon / 2.0)
        density = math.exp(-(float(ndtri(d.tau)) ** 2) / 2) / math.sqrt(2 * math.pi) / d.sd
        return np.array([math.sqrt(rate**2 / 4 - (d.tau - 0.5) ** 2) / density])
    weights, factor = SETTINGS[cell.setting]
    if cell.epsilon is not None:
        if cell.mechanism != "laplace":
            return np.full(size, math.nan)
        noise = math.sqrt(8.0 * size) / cell.epsilon
    else:
        noise = 0.0 if cell.mu is None else 2.0 / (cell.mu * factor)
    sds, _ = asymptotic_sd(d, weights, cell.threshold, noise, cell.efficient and d.family == "logistic")
    return np.array(sds)
