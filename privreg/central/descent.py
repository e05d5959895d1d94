"""The curator's computation: rows in memory, lanes of them, one noisy average of each.

Raw rows are used here and nowhere else of this package; what leaves is `release`'s array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from privreg.arrays import Array, Ints
from privreg.central import kernels
from privreg.central.curvature import Release, directions, symmetric_noise
from privreg.central.losses import Loss
from privreg.central.plan import Plan
from privreg.data.sources.open import Source, chunk_of, pieces, refuse_few, rows_of
from privreg.errors import DataError
from privreg.formula.spec import ModelSpec
from privreg.privacy.noise import NoiseStream, derived_key


class Turns:
    """Random orders and samples of records, from AES-256 in counter mode under a key for this purpose only."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def words(self, k: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words, each handed out once."""
        return np.frombuffer(self._cipher.update(bytes(8 * k)), dtype=np.uint64)

    def permutation(self, n: int) -> Ints:
        """Uniform order of n records."""
        order: Ints = kernels.shuffle(self.words(n))
        return order

    def drawn(self, k: int, n: int) -> Ints:
        """Draw k of n records with replacement."""
        return (self.words(k) % np.uint64(n)).astype(np.int64)  # uniform up to n/2^64

    def poisson(self, n: int, share: float) -> Ints:
        """Records that are in a batch, each with probability `share`, independently: by the gaps between them."""
        if share >= 1.0:
            return np.arange(n)
        parts, at = [], -1
        while at < n:
            k = int(share * (n - at) + 6.0 * math.sqrt(share * n) + 16.0)
            # in (0, 1], from 53 bits
            u = ((self.words(k) >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53
            gaps = np.minimum(np.floor(np.log(u) / math.log1p(-share)), n) + 1.0
            places = at + np.cumsum(gaps.astype(np.int64))
            parts.append(places)
            at = int(places[-1])
        out = np.concatenate(parts)
        return out[out < n]

    def __reduce__(self) -> str:
        raise TypeError("orders come from a secret key and can't be pickled")


MOST_BYTES: Final = 4 << 30  # Memory that the encoded rows may take; they are held twice, once by lane
AT_ONCE: Final = 1 << 20  # Turns that are drawn at a time


def read(source: Source, spec: ModelSpec, reach: float) -> tuple[Array, Array]:
    """Encode all rows, internal units, none longer than `reach`, the largest in the public box: y and x, shapes (n,),
    (n, p).
    Raises DataError if they take more than `MOST_BYTES` or there are none; with ``missing="raise"``, if one can't be
    used. No message quotes a value.
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
    refuse_few(rows, 0, source.kind)
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
    streams: tuple[Turns, NoiseStream, NoiseStream],
    report: Callable[[int], Any] | None = None,
) -> Release:
    """Run every lane on its records and add the noise; x, shape (n, p), and y, shape (n,), are in internal units.

    `streams` are those of :func:`randomness`, which may have made other releases before. `report` is called on the way
    with how many more records count as done.

    Which lane a record is in is drawn without looking at it and is the same for neighbours, so one lane differs between
    them and each may spend all that curvature, of all records, leaves of the budget (parallel composition).
    Raises ValueError if noise has another width than `x`.
    """
    turns, noise, square = streams
    if noise.width != x.shape[1]:  # compiled loops would read beyond the noise
        raise ValueError(f"noise has {noise.width} numbers a row, and records have {x.shape[1]}")
    people, found = turns.permutation(len(y)), None
    parts = np.split(people, np.cumsum(plan.sizes)[:-1])
    lanes = [Descent(plan, len(part), x.shape[1]) for part in parts]
    if plan.curvature_mu and plan.perturbation == "gradient":
        for lane, part in zip(lanes, parts, strict=True):
            lane.go(x[part], y[part], loss, turns, noise, plan.early(len(part)), report)
        at = np.mean([lane.w for lane in lanes], axis=0)
        found = directions(curvature(x, y, loss, plan, at, square), plan)
    for lane, part in zip(lanes, parts, strict=True):
        lane.gains = lane.gains if found is None else found.gains
        lane.go(x[part], y[part], loss, turns, noise, plan.steps(len(part)), report)
    out = np.array([lane.average for lane in lanes])
    if plan.perturbation == "output":
        out += plan.noise_sd * noise.draw(len(lanes))
        if plan.curvature_mu:
            found = directions(curvature(x, y, loss, plan, out.mean(axis=0), square), plan)
    return Release(out, np.array([lane.moved for lane in lanes]), found)


def randomness(key: bytes, width: int) -> tuple[Turns, NoiseStream, NoiseStream]:
    """Whose turn it is, rows of `width` normals, and normals of symmetric matrices: streams from one secret key."""
    square = NoiseStream(derived_key(key, "curvature"), width * (width + 1) // 2)
    return Turns(derived_key(key, "order")), NoiseStream(derived_key(key, "noise"), width), square


def curvature(x: Array, y: Array, loss: Loss, plan: Plan, at: Array, square: NoiseStream) -> Array:
    """Mean curvature of all records `at` coefficients that noise protects, with noise; shape (p, p), internal units.

    `square` gives rows of p (p + 1) / 2 normals.
    """
    n, p = x.shape
    total, numbers = np.zeros((p, p)), (loss.code, loss.a, plan.constants.slope)
    for begin in range(0, n, AT_ONCE // 16):
        rows, seen = x[begin : begin + AT_ONCE // 16], y[begin : begin + AT_ONCE // 16]
        with np.errstate(all="ignore"):  # a warning, or what is not finite, would tell of a record
            eta = rows @ at
            above, below = (kernels.slopes(*numbers, eta + side * loss.window, seen) for side in (1.0, -1.0))
            # clipped as slopes are: a slip of the bound may cost bias, never privacy
            weights = np.nan_to_num(np.clip((above - below) / (2.0 * loss.window), 0.0, loss.steepest))
        total += (rows * weights[:, None]).T @ rows
    return np.asarray(total / n + symmetric_noise(plan.curvature_sd, square.draw(1)[0], p))


class Descent:
    """One lane's descent over `n` records; without noise for output perturbation, which adds it afterwards."""

    def __init__(self, plan: Plan, n: int, p: int) -> None:
        self._plan, self._steps, self._wait = plan, plan.steps(n), plan.wait(n)
        self._kept = self._steps - self._wait
        self._middle, self._early = self._wait + self._kept // 2, np.full(p, np.nan)
        self._total, self._done, self._reported = np.zeros(p), 0, 0
        self.w, self.gains = np.zeros(p), plan.step * np.eye(p)

    @property
    def average(self) -> Array:
        """Mean of the last iterates, shape (p,)."""
        return np.asarray(self._total / self._kept)

    @property
    def moved(self) -> Array:
        """Mean of the second half of the averaged iterates less that of the first, shape (p,).

        Only of gradient perturbation, whose iterates are functions of its noisy sums: it costs nothing. Else NaN.
        """
        half = self._kept // 2
        if not half:
            return np.full_like(self.w, np.nan)
        return np.asarray((self._total - self._early) / (self._kept - half) - self._early / half)

    def go(
        self,
        x: Array,
        y: Array,
        loss: Loss,
        turns: Turns,
        noise: NoiseStream,
        until: int,
        report: Callable[[int], Any] | None = None,
    ) -> None:
        """Take steps over the lane's records `until` so many are done."""
        n, plan = len(x), self._plan
        numbers = loss.code, loss.a, plan.constants.slope
        state = 0.0 if plan.radius is None else plan.radius, self.w, self._total
        while self._done < until:
            if plan.perturbation == "gradient":
                most = (self._middle if self._done < self._middle else self._steps) - self._done
                some = min(max(int(AT_ONCE / max(plan.share * n, 1.0)), 1), most, until - self._done)
                if plan.order == "full":
                    members, ends = np.tile(np.arange(n), some), n * np.arange(1, some + 1)
                else:
                    who = [turns.poisson(n, plan.share) for _ in range(some)]
                    members, ends = np.concatenate(who), np.cumsum([len(k) for k in who])
                extra = plan.noise_sd * noise.draw(some)
                # the expected size: the size itself tells who was drawn, and would be another release
                share = 1.0 / (plan.share * n)
                self._wait = kernels.noisy_walk(
                    x, y, members, ends, extra, *numbers, self.gains, share, *state, self._wait
                )
                if self._done + some == self._middle:
                    self._early = self._total.copy()
            else:
                some = n if plan.order == "permuted" else min(AT_ONCE, until - self._done)
                order = turns.permutation(n) if plan.order == "permuted" else turns.drawn(some, n)
                self._wait = kernels.walk(x, y, order, *numbers, plan.step, *state, self._wait)
            self._done += some
            if report is not None:  # in shares of the lane: how many were really drawn would tell of the sample
                report(int(n * self._done / self._steps) - self._reported)
                self._reported = int(n * self._done / self._steps)
