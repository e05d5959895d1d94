"""The curator's own computation: rows in memory, lanes of them, one noisy average of each.

Raw rows are used here and nowhere else of this package; what leaves is `release`'s array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.central import kernels
from privreg.central.sampling import Turns
from privreg.data.sources.open import chunk_of, pieces, rows_of
from privreg.errors import DataError
from privreg.privacy.noise import NoiseStream, derived_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privreg.central.losses import Loss
    from privreg.central.plan import Plan
    from privreg.data.sources.open import Source
    from privreg.formula.spec import ModelSpec

    Array = NDArray[np.float64]

__all__ = ["descend", "noisy_lanes", "randomness", "read", "release"]

MOST_BYTES: Final = 4 << 30
"""Memory that the encoded rows may take; they are held twice, once by lane."""

AT_ONCE: Final = 1 << 20
"""Turns that are drawn at a time."""


def read(source: Source, spec: ModelSpec, reach: float) -> tuple[Array, Array]:
    """Encode all rows, internal units, each no longer than `reach`.

    Parameters
    ----------
    source : Source
    spec : ModelSpec
    reach : float
        sup ‖x‖ over the public box.

    Returns
    -------
    y : ndarray, shape (n,)
    x : ndarray, shape (n, p)

    Raises
    ------
    DataError
        If they take more than `MOST_BYTES` or there are none; with ``missing="raise"``, if one can't be used. No
        message quotes a value.
    """
    width = 8 * (len(spec.design.names) + 1)
    known = source.expected()
    _check_size(known or 0, width)
    ys, xs, rows = [], [], 0
    for batch in pieces(source.batches(0), chunk_of(len(spec.design.names))):
        rows += rows_of(batch)
        _check_size(rows, width)
        encoded = spec.design.encode(batch, spec.people.missing)
        x, y = encoded.exog, encoded.endog
        silent = np.isnan(y)
        x[silent], y[silent] = 0.0, 0.0
        spec.units.rows_inside(x)
        x[silent] = 0.0  # adds nothing to any sum; it keeps its place, so that neighbours have equally many records
        kernels.shorten_rows(x, reach)
        xs.append(x)
        ys.append(spec.units.response_inside(y))
    if not rows:
        raise DataError("there are no rows; a fit needs more records than coefficients.")
    return np.concatenate(ys), np.concatenate(xs)


def _check_size(rows: int, width: int) -> None:
    if rows * width > MOST_BYTES:
        raise DataError(
            f"a trusted curator's fit holds the encoded rows in memory, and {rows:,} or more rows of {width // 8 - 1} "
            f"columns take more than the {MOST_BYTES / 2**30:.2g} GB allowed; take a random part of the rows, fewer "
            "columns, or trust='local', which reads batch by batch."
        )


def release(
    x: Array,
    y: Array,
    loss: Loss,
    plan: Plan,
    key: bytes,
    report: Callable[[int], Any] | None = None,
    moved: Array | None = None,
) -> Array:
    """Run every lane on its own records and add the noise.

    Parameters
    ----------
    x : ndarray, shape (n, p)
    y : ndarray, shape (n,)
        Internal units.
    loss : Loss
    plan : Plan
    key : bytes
        Secret; orders and noise come from it.
    report : callable, optional
        Told on the way how many more records count as done.
    moved : ndarray, shape (lanes, p), optional
        Filled with how far each lane's iterates still moved, see :func:`descend`: as private as the release.

    Returns
    -------
    ndarray, shape (lanes, p)
        What is released of each lane, internal units: private.

    Notes
    -----
    Which lane a record is in is drawn without looking at it and is the same for neighbours, so one lane differs
    between them and each may spend the whole budget (parallel composition).
    """
    turns, noise = randomness(key, x.shape[1])
    return noisy_lanes(x, y, loss, plan, turns, noise, report, moved)


def randomness(key: bytes, width: int) -> tuple[Turns, NoiseStream]:
    """Whose turn it is, and rows of `width` normals: two streams from one secret key."""
    return Turns(derived_key(key, "order")), NoiseStream(derived_key(key, "noise"), width)


def noisy_lanes(
    x: Array,
    y: Array,
    loss: Loss,
    plan: Plan,
    turns: Turns,
    noise: NoiseStream,
    report: Callable[[int], Any] | None = None,
    moved: Array | None = None,
) -> Array:
    """One release, of streams that may have made others before; as :func:`release`."""
    people = turns.permutation(len(y))
    out, begin = np.empty((len(plan.sizes), x.shape[1])), 0
    for b, size in enumerate(plan.sizes):
        mine = people[begin : begin + size]
        begin += size
        out[b] = descend(x[mine], y[mine], loss, plan, turns, noise, report, None if moved is None else moved[b])
        if plan.perturbation == "output":
            out[b] += plan.noise_sd * noise.draw(1)[0]
    return out


def descend(
    x: Array,
    y: Array,
    loss: Loss,
    plan: Plan,
    turns: Turns,
    noise: NoiseStream | None,
    report: Callable[[int], Any] | None = None,
    moved: Array | None = None,
) -> Array:
    """Averaged iterate of one lane; without noise for output perturbation, which adds it afterwards.

    Parameters
    ----------
    moved : ndarray, shape (p,), optional
        Filled with the mean of the second half of the averaged iterates less that of the first. Only gradient
        perturbation does so, whose iterates are functions of its noisy sums: it costs nothing. Else left NaN.

    Returns
    -------
    ndarray, shape (p,)
    """
    n, p = x.shape
    w, total = np.zeros(p), np.zeros(p)
    steps, wait = plan.steps(n), plan.wait(n)
    kept = steps - wait
    middle, early = wait + kept // 2, np.full(p, np.nan)
    numbers = loss.code, loss.a, plan.constants.slope, plan.step
    radius = 0.0 if plan.radius is None else plan.radius
    done = told = 0
    while done < steps:
        if plan.perturbation == "gradient":
            some = min(max(int(AT_ONCE / max(plan.share * n, 1.0)), 1), (middle if done < middle else steps) - done)
            who = [turns.poisson(n, plan.share) for _ in range(some)]
            ends = np.cumsum([len(members) for members in who])
            extra = np.zeros((some, p)) if noise is None else plan.noise_sd * noise.draw(some)
            members = np.concatenate(who)
            # the expected size: the size itself tells who was drawn, and would be another release
            share = 1.0 / (plan.share * n)
            wait = kernels.noisy_walk(x, y, members, ends, extra, *numbers, share, radius, w, total, wait)
            done += some
            if done == middle:
                early = total.copy()
        elif plan.order == "permuted":
            wait = kernels.walk(x, y, turns.permutation(n), *numbers, radius, w, total, wait)
            done += n
        else:
            some = min(AT_ONCE, steps - done)
            wait = kernels.walk(x, y, turns.drawn(some, n), *numbers, radius, w, total, wait)
            done += some
        if report is not None:  # in shares of the lane: how many were really drawn would tell of the sample
            report(int(n * done / steps) - told)
            told = int(n * done / steps)
    if moved is not None:
        moved[:] = (total - early) / (kept - kept // 2) - early / (kept // 2) if kept > 1 else np.nan
    return np.asarray(total / kept)
