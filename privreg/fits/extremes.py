"""Extreme rows of a design by its declarations, for scores without weights. Public."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.covariates.extremes import MOST, Extreme
from privreg.errors import UnsupportedArgumentError
from privreg.formula.spec import ModelSpec

Values: TypeAlias = Mapping[str, Array]  # Values by raw column: numbers, or codes of levels

COARSE, FINE = 9, 65  # Values of a number of which a column may be, and of one of which it is, no linear function
BETWEEN: Final = 4096  # Rows within the declarations at which what was found is checked
STRAIGHT: Final = 1e-9  # Second difference of a column within ±1, about, that counts as none


def extremes_of(spec: ModelSpec, order: NDArray[np.intp]) -> tuple[Extreme, ...]:
    """Extremes of a design's columns, in the `order` inside, for every group of raw columns that meet in a term."""
    sources, groups = [set(own) for own in spec.design.sources], list[set[str]]()
    for own in sources:
        met = [g for g in groups if g & own]
        groups = [*(g for g in groups if not g & own), own.union(*met)] if own else groups
    ends = {name: _ends(spec, name) for name in set().union(*groups)}
    fixed = {j for j, own in enumerate(sources) if not own}
    out = [Extreme(_inside(spec, order, _rows(spec, ends, {}), fixed))]
    for group in groups:
        columns = {j for j, own in enumerate(sources) if own & group}
        out += _of_group(spec, order, ends, columns, sorted(group))
    _refuse_unseen(spec, order, out)
    return tuple(out)


def _refuse_unseen(spec: ModelSpec, order: NDArray[np.intp], found: Sequence[Extreme]) -> None:
    """Refuse columns whose values between those tried are beyond these and their second differences.
    Raises UnsupportedArgumentError.
    """
    schema, sources = spec.design.schema, spec.design.sources
    names = sorted(set().union(*sources))
    given: dict[str, NDArray[Any]] = {}
    for k, name in enumerate(names):
        place = np.arange(1.0, BETWEEN + 1.0) * math.sqrt(k * k + 3.0 * k + 3.0) % 1.0  # root of no square
        if name in schema.levels:
            given[name] = np.minimum((place * len(schema.levels[name])).astype(np.intp), len(schema.levels[name]) - 1)
        else:
            low, high = schema.limits(name)
            given[name] = np.clip(low + place * (high - low), low, high)
    x = np.asarray(spec.design.encoder.exog(given, BETWEEN)[0], dtype=np.float64)
    x = _inside(spec, order, x, set(range(x.shape[1])))
    bent = sum(np.abs(bend).max(axis=0) / 8.0 for one in found for bend in one.bends)
    low, high = sum(one.rows.min(axis=0) for one in found) - bent, sum(one.rows.max(axis=0) for one in found) + bent
    beyond = np.flatnonzero(((x < low - STRAIGHT) | (x > high + STRAIGHT)).any(axis=0))
    if len(beyond):
        column = spec.design.names[order[beyond[0]]]
        raise UnsupportedArgumentError(
            f"score_weights='likelihood' goes with columns whose largest value the declarations tell, and {column!r} "
            "changes too fast between the values that are tried; leave score_weights= out, or write a smoother term."
        )


def _of_group(
    spec: ModelSpec, order: NDArray[np.intp], ends: Values, columns: set[int], names: Sequence[str]
) -> list[Extreme]:
    """Extreme rows of columns that share raw columns; with too many combinations, of each column by itself."""
    given = {name: ends[name] for name in names}
    if math.prod(map(len, given.values())) > MOST:
        both = np.array([spec.design.probe.min(axis=0), spec.design.probe.max(axis=0)])
        return [Extreme(_inside(spec, order, both, {j})) for j in columns]
    numbers = [name for name in names if name not in spec.design.schema.levels]

    def second(some: Sequence[str], many: int, along: str) -> Array:
        even = given | {name: np.linspace(ends[name][0], ends[name][1], many) for name in some}
        cube = _inside(spec, order, _rows(spec, ends, even), columns).reshape(*map(len, even.values()), -1)
        return np.diff(cube, 2, axis=names.index(along)).reshape(-1, cube.shape[-1])

    bent = [name for name in numbers if np.abs(second([name], COARSE, name)).max() > STRAIGHT]
    each = MOST / math.prod(len(given[name]) for name in names if name not in bent)
    many = int(np.clip(each ** (1.0 / max(len(bent), 1)), COARSE, FINE))
    x = _inside(spec, order, _rows(spec, ends, given | {name: _between(spec, name, many) for name in bent}), columns)
    rows = np.unique(x, axis=0)
    steps = 2 * len(rows) < len(x)  # has a few values only, and nothing between them
    return [Extreme(rows, () if steps else tuple(second(bent, many, name) for name in bent))]


def _ends(spec: ModelSpec, name: str) -> Array:
    """Codes of a factor's levels, or both bounds of a number."""
    schema = spec.design.schema
    return np.arange(float(len(schema.levels[name]))) if name in schema.levels else np.array(schema.limits(name))


def _between(spec: ModelSpec, name: str, many: int) -> Array:
    """Values of a number at which rows are tried: `many` at equal distances, and the formula's constants."""
    (low, high), parsed = spec.design.schema.limits(name), spec.design.parsed
    own = np.array([] if parsed is None else [s * c for c in parsed.constants for s in (1.0, -1.0)])
    near = [np.nextafter(own, -np.inf), own, np.nextafter(own, np.inf)]
    return np.unique(np.clip(np.concatenate([np.linspace(low, high, many), *near]), low, high))


def _rows(spec: ModelSpec, ends: Values, given: Values) -> Array:
    """The design, user's units, at all combinations of values of raw columns, others at any; shape (m, d)."""
    grid = dict(zip(given, np.meshgrid(*given.values(), indexing="ij"), strict=True)) if given else {}
    n = math.prod(map(len, given.values()))
    rows: dict[str, NDArray[Any]] = {
        k: grid[k].reshape(-1) if k in grid else np.repeat(v[:1], n) for k, v in ends.items()
    }
    rows |= {k: rows[k].astype(np.intp) for k in rows.keys() & spec.design.schema.levels.keys()}  # codes
    return np.asarray(spec.design.encoder.exog(rows, n)[0], dtype=np.float64)


def _inside(spec: ModelSpec, order: NDArray[np.intp], x: Array, columns: set[int]) -> Array:
    """Parts of rows by these columns alone, internal units; 0 elsewhere."""
    v = (x - spec.units.centre) / spec.units.scale
    v[:, [j for j in range(v.shape[1]) if j not in columns]] = 0.0
    spec.units.rows_mixed(v)
    return np.ascontiguousarray(v[:, order])
