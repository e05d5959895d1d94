"""A curator's computation, the only code here that sees raw rows: lanes of them, a noisy average of each, results."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array, Ints, Words
from privreg.data.sources.open import Source, chunk_of, pieces, rows_of
from privreg.errors import DataError, SchemaError, UnsupportedArgumentError, warn
from privreg.formula.spec import ModelSpec
from privreg.options.running import progress_bar
from privreg.options.table import check, documented
from privreg.privacy.ledger import LEDGER
from privreg.privacy.noise import NoiseStream, cipher, derived_key, fresh_key, seeded_key
from privreg.published.descent.kernels import slopes, walk
from privreg.published.descent.losses import Loss, resolve, resolve_loss
from privreg.published.descent.plan import Plan, make_plan
from privreg.published.descent.results import CentralResults, Release, make_statement, payload, symmetric_noise

MOST_BYTES: Final = 4 << 30  # Memory that the encoded rows may take; they are held twice, once by lane
AT_ONCE: Final = 1 << 16  # Records of which curvature is added up, and turns that are drawn, at a time


@documented("curator.fit")
def fit(
    spec: ModelSpec,
    source: Source | None,
    *,
    perturbation: str = "gradient",
    order: str | None = None,
    epochs: int | None = None,
    step: float | None = None,
    radius: Any = "auto",
    lanes: int | None = None,
    average: float = 0.5,
    batch_size: int | None = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> CentralResults:
    """Descend over all rows of `source` and release the noisy average of the iterates.

    Parameters
    ----------
    spec, source : ModelSpec, Source
        Model, with the budget, and its rows.
    **options : `options/parameters.toml`

    Notes
    -----
    Warns if δ is not below one over the number of records, and of rows that should not be relied on. Options that don't
    go together are refused before any row is read where possible, and rows that are too many for memory.
    """
    seed, people, design, units = check("curator.fit", "seed", seed), spec.people, spec.design, spec.units
    check("curator.fit", "progress", progress)
    family = resolve(spec.family)
    given = {
        "id=": people.id, "weights=": people.weight, "cluster=": people.cluster, "offset=": design.offset,
        "exposure=": design.exposure, "score_weights=": spec.score_weights,
    }  # fmt: skip
    if named := [option for option, value in given.items() if value]:
        raise UnsupportedArgumentError(f"the published descent of a curator has no {', '.join(named)}; leave it out.")
    if not np.isfinite(units.reach):
        raise SchemaError(
            "a trusted curator's noise follows from how long a row can be, and a column has no public range; "
            "declare bounds= for every number of the right-hand side (moments= alone clamp nothing)."
        )
    low, high = ((v - units.y_centre) / units.y_scale for v in design.endog_limits)
    loss = resolve_loss(family, unit=units.y_scale, y_max=max(abs(low), abs(high)))
    if np.isinf(loss.slope) and not np.isfinite(loss.start):
        raise SchemaError(
            f"{family!r} has gradients that grow with the response, which has no public range; declare "
            f"bounds={{{design.endog_name!r}: (low, high)}}, or take family='absolute' or 'huber'."
        )
    if source is None:
        raise DataError("this model has no data; build it with data, as pickling leaves them out.")
    plan_of = partial(
        make_plan, loss, spec.budget, p=len(spec.coefficients), reach=units.reach, perturbation=perturbation,
        order=order, epochs=epochs, step=step, radius=radius, lanes=lanes, average=average, batch_size=batch_size,
    )  # fmt: skip
    if (known := source.expected()) is not None:
        plan_of(n=known)  # refuses before reading
    y, x = read(source, spec)
    n, budget = len(y), spec.budget
    if n <= x.shape[1]:
        raise DataError(f"{n} rows can't determine {x.shape[1]} coefficients; more than that are needed.")
    plan = plan_of(n=n)
    if budget.form == "epsilon, delta" and budget.asked[1] * n >= 1:
        far = f"is not below 1/{n:,}: publishing one record outright would keep it; take a far smaller delta"
        warn(f"delta={budget.asked[1]:g} {far}.")
    stated = make_statement(spec, plan, loss, n=n, seeded=seed is not None)
    stated = replace(stated, release=LEDGER.spend(source.identity, stated.total_mu, seeded=seed is not None))
    key = fresh_key() if seed is None else seeded_key(seed, "central")
    with progress_bar(n, progress) as bar:
        released = release(x, y, loss, plan, randomness(key, x.shape[1]), bar)
    res = CentralResults(payload(spec, plan, loss, released, stated, n))
    if lanes != 1 or len(res.privacy.doubts) > 1:  # who asks for one lane knows that it has no standard errors
        res._caution()
    return res


class Turns:
    """Random orders and samples of records, from AES-256 in counter mode under a key for this purpose only."""

    def __init__(self, key: bytes) -> None:
        self._cipher = cipher(key)

    def _words(self, k: int) -> Words:
        return np.frombuffer(self._cipher.update(bytes(8 * k)), dtype=np.uint64)

    def permutation(self, n: int) -> Ints:
        """Uniform order of n records, up to words that are alike, with probability n²/2⁶⁵."""
        return np.argsort(self._words(n), kind="stable")

    def drawn(self, k: int, n: int) -> Ints:
        """Draw k of n records with replacement, uniform up to n/2⁶⁴."""
        return (self._words(k) % np.uint64(n)).astype(np.int64)

    def poisson(self, n: int, share: float) -> Ints:
        """Records that are in a batch, each with probability `share`, up to 2⁻⁵³, independently."""
        return np.flatnonzero((self._words(n) >> np.uint64(11)) < np.uint64(share * 2.0**53))

    def __reduce__(self) -> str:
        raise TypeError("orders come from a secret key and can't be pickled")


def randomness(key: bytes, width: int) -> tuple[Turns, NoiseStream, NoiseStream]:
    """Streams from one secret key: the order of records, rows of `width` normals, normals of symmetric matrices."""
    square = NoiseStream(derived_key(key, "curvature"), width * (width + 1) // 2)
    return Turns(derived_key(key, "order")), NoiseStream(derived_key(key, "noise"), width), square


def read(source: Source, spec: ModelSpec) -> tuple[Array, Array]:
    """Encode all rows, internal units, none longer than the largest in the public box: y and x, shapes (n,), (n, p).
    Raises DataError if they take more than `MOST_BYTES`; with ``missing="raise"``, if one can't be used.
    """
    p, reach = len(spec.design.names), spec.units.reach
    ys, xs, rows = [np.empty(0)], [np.empty((0, p))], source.expected() or 0
    for batch in pieces(source.batches(0), chunk_of(p)):
        rows = max(rows, sum(map(len, ys)) + rows_of(batch))
        if 8 * rows * (p + 1) > MOST_BYTES:
            raise DataError(
                f"the published descent holds the encoded rows in memory, and {rows:,} or more rows of {p} columns "
                f"take more than the {MOST_BYTES / 2**30:.2g} GB allowed; leave tuning='published' out."
            )
        encoded = spec.design.encode(batch, spec.people.missing)
        x, y, silent = encoded.exog, encoded.endog, np.isnan(encoded.endog)
        x[silent], y[silent] = 0.0, 0.0
        spec.units.rows_inside(x)
        x[silent] = 0.0  # adds nothing to any sum; it keeps its place, so that neighbours have equally many records
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True) / reach, 1.0)  # the noise is scaled by this bound
        xs.append(x)
        ys.append(spec.units.response_inside(y))
    return np.concatenate(ys), np.concatenate(xs)


def release(
    x: Array, y: Array, loss: Loss, plan: Plan, streams: tuple[Turns, NoiseStream, NoiseStream], bar: Any = None
) -> Release:
    """Descend in every lane on its records, by noisy sums, or by single records with noise at the end.

    The mean of the last iterates of each is released. x, shape (n, p), and y, shape (n,), are in internal units;
    `streams` are those of :func:`randomness`. Which lane a record is in is drawn without looking at it and is the same
    for neighbours, so one lane differs between them and each may spend all that curvature, of all records, leaves of
    the budget (parallel composition).
    Raises ValueError if noise has another width than `x`.
    """
    turns, noise, square = streams
    if noise.width != x.shape[1]:
        raise ValueError(f"noise has {noise.width} numbers a row, and records have {x.shape[1]}")
    lanes, p, numbers = [], x.shape[1], (loss.code, loss.a, plan.constants.slope)
    for part in np.split(turns.permutation(len(y)), np.cumsum(plan.sizes)[:-1]):
        xs, ys, n, w, total = x[part], y[part], len(part), np.zeros(p), np.zeros(p)
        steps, wait, at = plan.steps(n), plan.wait(n), 0
        left, scale = wait, plan.step / (plan.share * n)  # the expected size: the size itself tells who was drawn
        while not plan.noisy and at < steps:
            order = turns.permutation(n) if plan.order == "permuted" else turns.drawn(min(AT_ONCE, steps - at), n)
            left = walk(xs, ys, order, numbers, plan.step, plan.radius or 0.0, w, total, left)
            at += len(order)
        for t in range(steps if plan.noisy else 0):
            some = turns.poisson(n, plan.share) if plan.order == "poisson" else slice(None)
            with np.errstate(all="ignore"):  # a warning would tell of a record
                gradients = slopes(*numbers, xs[some] @ w, ys[some]) @ xs[some]
                w = w - scale * (gradients + plan.noise_sd * noise.draw(1)[0])
            if plan.radius is not None:
                w /= max(float(np.linalg.norm(w)) / plan.radius, 1.0)
            total += w if t >= wait else 0.0
        lanes.append(total / (steps - wait) + (0.0 if plan.noisy else plan.noise_sd * noise.draw(1)[0]))
        if bar is not None:
            bar.update(n)
    out = np.array(lanes)
    return Release(out, curvature(x, y, loss, plan, out.mean(axis=0), square))


def curvature(x: Array, y: Array, loss: Loss, plan: Plan, at: Array, square: NoiseStream) -> Array:
    """Mean curvature of all records `at` coefficients that noise protects, with noise; shape (p, p), internal units."""
    n, total = len(x), symmetric_noise(plan.curvature_sd * len(x), square.draw(1)[0], x.shape[1])
    for begin in range(0, n, AT_ONCE):
        rows, seen = x[begin : begin + AT_ONCE], y[begin : begin + AT_ONCE]
        with np.errstate(all="ignore"):  # a warning, or what is not finite, would tell of a record
            sides = (rows @ at + side * loss.window for side in (1.0, -1.0))
            above, below = (slopes(loss.code, loss.a, plan.constants.slope, eta, seen) for eta in sides)
            # clipped as slopes are: a slip of the bound may cost bias, never privacy
            weights = np.nan_to_num(np.clip((above - below) / (2.0 * loss.window), 0.0, loss.steepest))
        total += (rows * weights[:, None]).T @ rows
    return total / n
