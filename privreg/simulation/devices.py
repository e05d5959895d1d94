"""Devices of one round, all at once: blocks of raw rows to sums of their reports. Device side.

Where the sum of reports has a simple distribution it comes back without noise, which falls on whole pieces; see
`rounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from privreg.base.arrays import Array, Flags, Ints
from privreg.collector.aggregate.report import averaged
from privreg.collector.plan import Plan
from privreg.families.measures import Gauge
from privreg.privacy.channels import randomised
from privreg.protocol import codes
from privreg.protocol.rounds import State
from privreg.simulation import play


class Block(NamedTuple):
    """Consecutive rows that are played together."""

    y: Array
    x: Array
    offset: Array | None
    weight: Array | None
    delay: Ints | None = None  # Rounds by which a record's report is late; shape (n,)
    clamped: Array | Flags | None = None  # True if a record was clamped, by column, in rounds that ask; shape (n, D)
    # Part of each of a person's rows in the report, shape (n, K); y, x and offset have this axis after the first
    parts: Array | None = None
    cluster: Ints | None = None  # Place of its cluster among those declared; shape (n,)


def cut(rows: Block, a: int, b: int) -> Block:
    """Rows a to b of a block."""
    if a == 0 and b >= len(rows.y):
        return rows
    return Block._make(None if c is None else c[a:b] for c in rows)


def joined(parts: Sequence[Block]) -> Block:
    """Rows of several blocks, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Block._make(None if c[0] is None else np.concatenate(c) for c in zip(*parts, strict=True))


def by_group(rows: Block, group: Ints, groups: int) -> Block:
    """Rows in the order of their groups, equally many of each: those added for that have weight 0."""
    order, held = np.argsort(group, kind="stable"), np.bincount(group, minlength=groups)
    most = max(int(held.max()), 1)
    place = np.arange(len(group)) - np.repeat(np.cumsum(held) - held, held)
    taken, real = np.zeros(groups * most, dtype=np.int64), np.zeros(groups * most)
    at = group[order] * most + place
    taken[at], real[at] = order, 1.0
    weight = real if rows.weight is None else real * rows.weight[taken]
    return Block._make(None if c is None else c[taken] for c in rows)._replace(weight=weight)


def _by_row(rows: Block) -> Block:
    """Rows of people one after the other, each with its part times the weight of the person's report."""
    if rows.parts is None:
        return rows
    times = rows.parts if rows.weight is None else rows.parts * rows.weight[:, None]
    offset = None if rows.offset is None else rows.offset.reshape(-1)
    x = rows.x.reshape(-1, rows.x.shape[-1])
    return rows._replace(y=rows.y.reshape(-1), x=x, offset=offset, weight=times.reshape(-1))


class Devices(NamedTuple):
    """Devices that answer one round: its public state and the reports asked for."""

    plan: Plan
    state: State
    gauge: Gauge | None  # Public constants of measures of fit

    @property
    def each(self) -> bool:
        """True if each report is randomised by itself: the sum of reports has no simple distribution."""
        plan, role = self.plan, self.state.role
        if role == "measures":  # of which outer products are summed, too
            return True
        scores = role not in {"location", "moments", "clamping"}
        return plan.mechanism.channel(plan.numbers(role)).kind != codes.GAUSSIAN or (plan.label and scores)

    @property
    def by_group(self) -> bool:
        """True if groups have separate sums, so that several blocks may be played as one of more groups."""
        return self.state.role in {"pilot", "main"} and not self.each

    def repeated(self, blocks: int) -> Devices:
        """Devices of several blocks played as one, with these groups once for each block."""
        if blocks == 1:
            return self
        state = self.state
        return self._replace(state=state._replace(offsets=np.tile(state.offsets, (blocks, 1))))

    @property
    def public(self) -> bool:
        """True if the round is on moments of public covariates."""
        return self.plan.label and self.state.role == "moments"

    @property
    def unit(self) -> float:
        """Public size of a product of two numbers in a report on measures of fit, by which their sums are rounded."""
        return 1.0 + self.plan.sd("measures") ** 2

    def sums(self, rows: Block, normals: Callable[[int], Array]) -> Array:
        """Sums of reports by group, shape (groups, numbers); `rows` are equally many of each group.

        `normals` gives so many standard normals that no other report has; it is called if `each` report has noise.
        """
        plan, state = self.plan, self.state
        if self.public:
            return self._of_public(rows)
        if self.each:
            return self._by_record(rows, normals)
        if state.role == "location":
            out = _weighted(play.indicators(state, self._places(rows)), rows.weight)
            return np.asarray(out.reshape(len(state.offsets), -1, out.shape[1]).sum(axis=1))
        if state.role == "clamping":
            return np.asarray(_weighted(self._flags(rows), rows.weight).sum(axis=0)[None])
        rows = _by_row(rows)
        if state.role == "moments":
            return play.moments(state, self._moments(rows), rows.weight)
        given = rows.x, self._offset(rows), rows.weight, rows.parts
        return play.sums(plan, state, self._response(rows.y, None), *given)

    def _of_public(self, rows: Block) -> Array:
        first = not any(r.role == "moments" for r in self.plan.rounds[: self.state.number])
        return (play.public_sizes if first else play.public_moments)(self.state, self._moments(rows))

    def before_noise(self, rows: Block) -> tuple[Array, Array]:
        """Reports before noise, shape (n, numbers), and the centre of the ball that holds them, shape (numbers,).

        `rows` are equally many of each group.
        """
        plan, state, role = self.plan, self.state, self.state.role
        centre = np.zeros(plan.numbers(role))
        if role == "location":
            return play.indicators(state, self._places(rows)), centre + 0.5
        if role == "clamping":
            return self._flags(rows), centre + 0.5
        rows = _by_row(rows)
        if role == "moments":
            return averaged(play.direction_moments(state, self._moments(rows)), rows.parts), centre
        if role == "measures":
            assert self.gauge is not None
            y = self._response(rows.y, None)
            return play.gauged(plan, self.gauge, state, y, rows.x, self._offset(rows)), centre + 0.5
        if state.kappa > 0.0:
            centre[-1] = 0.5 * state.kappa
        given = rows.x, self._offset(rows), rows.parts
        return averaged(play.reports(plan, state, self._response(rows.y, None), *given), rows.parts), centre

    def directions(self, rows: Block) -> Array:
        """Unit rows of a round of moments, shape (n, size); zeros for unusable records."""
        return play.directions(self.state, self._moments(rows))

    def _by_record(self, rows: Block, normals: Callable[[int], Array]) -> Array:
        plan, state = self.plan, self.state
        groups, n, role = len(state.offsets), len(rows.y), state.role
        size = plan.numbers(role)
        width = plan.mechanism.width(size)
        noise = normals(n * width).reshape(n, width)
        if role == "measures":
            return self._measures(rows, noise)
        if plan.label and role not in {"location", "moments", "clamping"}:
            given = self._response(rows.y, None), rows.x, self._offset(rows), rows.weight
            low, high = ((v - state.y_centre) / state.y_scale for v in (plan.y_low, plan.y_high))
            return play.public_sums(plan, state, given, (low, high), noise)
        before, centre = self.before_noise(rows)
        out = randomised(plan.mechanism.channel(size), before - centre, plan.radius(role), noise) + centre
        return np.asarray(_weighted(out, rows.weight).reshape(groups, n // groups, size).sum(axis=1))

    def _measures(self, rows: Block, noise: Array) -> Array:
        """Sums of reports on measures of fit, each randomised by itself, and of their outer products; shape (1, …)."""
        plan = self.plan
        times = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        before, centre = self.before_noise(rows)
        radius = plan.radius("measures") / play.root_of(times)
        reported = randomised(plan.mechanism.channel(plan.measured), before - centre, radius, noise) + centre
        weighted = reported * times[:, None]
        outer = weighted.T @ reported / self.unit
        return np.concatenate([weighted.sum(axis=0), outer.reshape(-1)])[None]

    @staticmethod
    def _flags(rows: Block) -> Array:
        """1 if a record was clamped, by column, else 0; 0 for an unusable record; shape (n, D)."""
        if rows.clamped is None:
            raise ValueError("rows of a round on clamping come with what bounds clamp")
        return rows.clamped.astype(np.float64)

    def _places(self, rows: Block) -> Array:
        """Values of the columns whose scale is learned; the response comes last."""
        d = self.plan.d
        own = rows.x[:, [j for j in self.plan.unscaled if j < d]]
        if d not in self.plan.unscaled:
            return own
        return np.column_stack([own, self._response(rows.y, rows.offset)])

    def _moments(self, rows: Block) -> Array:
        plan = self.plan
        more = [np.ones((len(rows.y), plan.extra)), rows.x]
        if plan.layout.response:
            last = self._response(rows.y, rows.offset) if plan.added is None else rows.offset
            assert last is not None
            more.append(last[:, None])
        return np.concatenate(more, axis=1)

    def _response(self, y: Array, offset: Array | None) -> Array:
        """Response less its offset, in units of the learned scale."""
        state = self.state
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of one value
            r = y if offset is None else y - offset
            if (state.y_centre, state.y_scale) == (0.0, 1.0):
                return r
            return np.asarray((r - state.y_centre) / state.y_scale)

    def _offset(self, rows: Block) -> Array | None:
        if rows.offset is None:
            return None
        with np.errstate(over="ignore"):
            return np.asarray(rows.offset / self.state.y_scale)


def _weighted(reported: Array, weight: Array | None) -> Array:
    return reported if weight is None else reported * weight[:, None]
