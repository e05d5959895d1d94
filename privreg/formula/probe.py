"""Public probe rows: fixed rows inside the declared bounds that stand for data nobody has read yet.

Ranges, rank, the constant and the row-by-row check of a design are all found on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privreg.collector.inference.methods import WIDE
from privreg.data.cells import Floats
from privreg.errors import FormulaError
from privreg.schema.declarations import Schema

Prepared = Mapping[str, NDArray[Any]]  # numbers as float64, factors as codes of the declared levels
PROBE_ROWS = 512
_CORNER_AXES = 6  # all corners of the box up to 2**6, a fixed sample of them beyond
_CELL_ROWS = 3
_MAX_CELLS = 20_000
_RANK_TOLERANCE = 1e-12
_FAR = 100.0
SURE = 1e-10


def probe_rows(
    names: Sequence[str],
    schema: Schema,
    constants: Sequence[float] = (),
    cells: Iterable[tuple[str, ...]] = (),
    rows: int = PROBE_ROWS,
    boxes: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, NDArray[Any]]:
    """Fixed public rows: uniform on the box, its corners, values near the formula's constants, all cells of factors.

    Values of an axis are its ends, middle, zero and the numbers written in the formula. `cells`
    are the factors that meet in a term: each combination of their levels gets a few uniform rows. `boxes`
    replaces the reference limits of some columns.
    """
    numeric = [name for name in names if name not in schema.levels]
    combos = [
        dict(zip(cell, combo, strict=True))
        for cell in cells
        for combo in itertools.islice(itertools.product(*(range(len(schema.levels[c])) for c in cell)), _MAX_CELLS)
        for _ in range(_CELL_ROWS)
    ]
    box = {name: schema.reference(name) for name in numeric} | {k: v for k, v in (boxes or {}).items() if k in numeric}
    uniform = rows + len(combos)
    extra, many = _special_rows(box, constants)
    total = uniform + many
    # random_raw is the part of NumPy's generators whose stream is promised never to change
    bits = np.random.PCG64(20_250_508).random_raw(total * max(len(names), 1)).reshape(total, -1)
    unit = (bits >> np.uint64(11)) * 2.0**-53
    out: dict[str, NDArray[Any]] = {}
    for j, name in enumerate(names):
        if name in box:
            low, high = box[name]
            out[name] = np.clip(low + unit[:, j] * (high - low), low, high)
            out[name][uniform:] = extra(name)
        else:
            out[name] = np.argsort(unit[:, j], kind="stable") % len(schema.levels[name])
    for i, combo in enumerate(combos):
        for name, code in combo.items():
            out[name][rows + i] = code
    return out


def _special_rows(
    box: Mapping[str, tuple[float, float]], constants: Sequence[float]
) -> tuple[Callable[[str], Floats], int]:
    """Function of a column that returns its numbers in the special rows (corners, constants), and their number."""
    if len(box) <= _CORNER_AXES:
        corners = list(itertools.product((0, 1), repeat=len(box))) if box else []
    else:
        bits = np.random.PCG64(len(box)).random_raw(2**_CORNER_AXES * len(box)) >> np.uint64(63)
        sampled = bits.reshape(-1, len(box)).astype(int)
        corners = [(0,) * len(box), (1,) * len(box), *map(tuple, sampled)]
    place = {name: j for j, name in enumerate(box)}
    numbers = dict.fromkeys([0.0, *itertools.islice((s * c for c in constants for s in (1, -1)), 24)])
    telling = {
        name: list(dict.fromkeys([low, high, (low + high) / 2, *(c for c in numbers if low <= c <= high)]))
        for name, (low, high) in box.items()
    }
    begins = np.cumsum([len(corners), *map(len, telling.values())])  # each axis in turn, the others in their middle

    def column(name: str) -> Floats:
        j, (low, high) = place[name], box[name]
        out = np.full(begins[-1], (low + high) / 2)
        out[: len(corners)] = [(low, high)[corner[j]] for corner in corners]
        out[begins[j] : begins[j + 1]] = telling[name]
        return out

    return column, int(begins[-1])


def wide_box(names: Sequence[str], schema: Schema, constants: Sequence[float]) -> dict[str, tuple[float, float]]:
    """Limits far around the numbers of the formula for the columns whose scale is private.

    Their reference box says nothing about their values: ``I(x > 40)`` is constant on it, and not on the data.
    """
    edge = max([_FAR, *(2 * abs(c) for c in constants)])
    return {name: (-edge, edge) for name in names if name in schema.private}


def shown_box(names: Sequence[str], schema: Schema) -> str:
    """Limits of the named columns, for a message."""
    return ", ".join(f"{n!r}: {schema.reference(n)}" for n in names if n not in schema.levels)


def stand_in(names: Sequence[str], schema: Schema) -> str:
    """End of a message about a box that nobody declared; empty if there is none."""
    private = [n for n in dict.fromkeys(names) if n in schema.private]
    if not private:
        return ""
    have = "has" if len(private) == 1 else "have"
    return (
        f' With scaling="private" {", ".join(map(repr, private))} {have} no bounds, and values from 1 to 2 stand in; '
        f"bounds={{{private[0]!r}: (low, high)}} would mend it."
    )


def take(rows: Prepared, index: Any) -> dict[str, NDArray[Any]]:
    """Pick some of the rows."""
    return {name: np.ascontiguousarray(values[index]) for name, values in rows.items()}


def check_rank(probe: Floats, names: Sequence[str], hint: str = "") -> None:
    """Refuse columns that are combinations of each other over the whole public box; `hint` ends the message."""
    size = np.abs(probe).max(axis=0, initial=0.0)
    scaled = probe / np.where(size > 0, size, 1.0)
    norms = np.sqrt((scaled**2).sum(axis=0))
    scaled /= np.where(norms > 0, norms, 1.0)
    if len(names) > WIDE and len(scaled) >= len(names):
        # squares lose half the digits: what is well above that is far above the tolerance, in a hundredth of the time
        try:
            np.linalg.cholesky(scaled.T @ scaled - SURE * len(names) * np.eye(len(names)))
        except np.linalg.LinAlgError:
            pass
        else:
            return
    _, values, rows = np.linalg.svd(scaled, full_matrices=False)
    null = np.abs(rows[values <= _RANK_TOLERANCE * max(values[0], 1.0)])
    if len(null):
        involved = [name for name, weight in zip(names, null.max(axis=0), strict=True) if weight > 1e-6]
        fix = "drop one of them, or the intercept with - 1" if "Intercept" in involved else "drop one of them"
        if any(name.startswith(("cr(", "cc(")) for name in involved):
            fix = "write bs() for cr() or cc(), which leave no room for an intercept or a factor beside them"
        raise FormulaError(
            f"the columns {', '.join(map(repr, involved))} of the design are linearly dependent whatever the "
            "data (a repeated term, a cr() or cc() spline beside an intercept or a factor, or bounds that leave a "
            f"column constant); {fix}.{hint}"
        )


def find_constant(probe: Floats, names: Sequence[str]) -> Floats | None:
    """Coefficients e with ``probe @ e == 1`` in every row, or None."""
    if "Intercept" in names and (probe[:, names.index("Intercept")] == 1).all():
        unit = np.zeros(len(names))
        unit[names.index("Intercept")] = 1.0
        return unit
    ones = np.flatnonzero((probe == 1).all(axis=0))
    if len(names) > WIDE and ones.size:
        return np.asarray(np.eye(1, len(names), int(ones[0]))[0])
    size = np.abs(probe).max(axis=0)
    e: Floats = np.linalg.lstsq(probe / size, np.ones(len(probe)), rcond=None)[0] / size
    tidy: Floats = np.round(e, 6) + 0.0
    if np.abs(probe @ tidy - 1).max() < 1e-14:
        return tidy
    return e if np.abs(probe @ e - 1).max() < 1e-9 else None


def public_constant(
    probe: Floats, names: Sequence[str], sources: Sequence[Sequence[str]], schema: Schema
) -> Floats | None:
    """Coefficients of the constant among the columns that don't depend on a private scale, or None.

    ``I(x > 0)`` is 1 in every probe row of an x with a private scale, and not on the data.
    """
    public = [j for j, made_of in enumerate(sources) if not any(c in schema.private for c in made_of)]
    e = find_constant(probe[:, public], [names[j] for j in public]) if public else None
    if e is None:
        return None
    out = np.zeros(len(names))
    out[public] = e
    return out
