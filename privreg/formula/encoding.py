"""Encoding of a design: factors are looked up by their levels, and everything else is computed by trees.

Built from the formula and the public schema; it learns nothing from the rows it encodes. Public probe rows stand for
data nobody has read yet: ranges, rank, the constant and the row-by-row check of a design are all found on them.
"""

import ast
import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import NAAction, Term, design_matrix_builders
from patsy.builtins import C, Diff, Helmert, Poly, Sum, Treatment
from patsy.eval import EvalFactor

from privreg.collector.inference.methods import WIDE
from privreg.data.cells import Flags, Floats
from privreg.errors import FormulaError
from privreg.formula.language.parse import ParsedFormula, term_tree
from privreg.formula.trees.compile import term_trees
from privreg.formula.trees.evaluate import Program, Tree
from privreg.schema.declarations import Schema

Prepared = Mapping[str, NDArray[Any]]  # numbers as float64, factors as codes of the declared levels
PROBE_ROWS = 512
_CORNER_AXES = 6  # all corners of the box up to 2**6, a fixed sample of them beyond
_CELL_ROWS = 3
_MAX_CELLS = 20_000
_RANK_TOLERANCE = 1e-12
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
    combos = [
        dict(zip(cell, combo, strict=True))
        for cell in cells
        for combo in itertools.islice(itertools.product(*(range(len(schema.levels[c])) for c in cell)), _MAX_CELLS)
        for _ in range(_CELL_ROWS)
    ]
    box = {name: schema.reference(name) for name in names if name not in schema.levels}
    box |= {name: limits for name, limits in (boxes or {}).items() if name in box}
    extra = np.zeros((0, 0))
    if box:  # the others in their middle
        k, (low, high) = len(box), np.array([*box.values()], dtype=np.float64).T
        if k <= _CORNER_AXES:
            corners = np.array([*itertools.product((0, 1), repeat=k)])
        else:
            bits = np.random.PCG64(k).random_raw(2**_CORNER_AXES * k) >> np.uint64(63)
            corners = np.vstack([np.zeros(k), np.ones(k), bits.reshape(-1, k)])
        numbers = dict.fromkeys([0.0, *itertools.islice((s * c for c in constants for s in (1, -1)), 24)])
        telling = [dict.fromkeys([a, b, (a + b) / 2, *(c for c in numbers if a <= c <= b)]) for a, b in box.values()]
        begins = np.cumsum([len(corners), *map(len, telling)])
        extra = np.tile((low + high) / 2, (begins[-1], 1))
        extra[: len(corners)] = np.where(corners, high, low)
        for j, values in enumerate(telling):
            extra[begins[j] : begins[j + 1], j] = [*values]
    uniform, special = rows + len(combos), dict(zip(box, extra.T, strict=True))
    total = uniform + len(extra)
    # random_raw is the part of NumPy's generators whose stream is promised never to change
    bits = np.random.PCG64(20_250_508).random_raw(total * max(len(names), 1)).reshape(total, -1)
    unit = (bits >> np.uint64(11)) * 2.0**-53
    out: dict[str, NDArray[Any]] = {}
    for j, name in enumerate(names):
        if name in box:
            low, high = box[name]
            out[name] = np.clip(low + unit[:, j] * (high - low), low, high)
            out[name][uniform:] = special[name]
        else:
            out[name] = np.argsort(unit[:, j], kind="stable") % len(schema.levels[name])
    for i, combo in enumerate(combos):
        for name, code in combo.items():
            out[name][rows + i] = code
    return out


def shown_box(names: Sequence[str], schema: Schema) -> str:
    """Limits of the named columns, for a message."""
    return ", ".join(f"{n!r}: {schema.reference(n)}" for n in names if n not in schema.levels)


def stand_in(names: Sequence[str], schema: Schema) -> str:
    """End of a message about a box that nobody declared; empty if there is none."""
    if not (private := [n for n in dict.fromkeys(names) if n in schema.private]):
        return ""
    none = f'With scaling="private" there are no bounds of {", ".join(map(repr, private))}'
    return f" {none}, and values from 1 to 2 stand in; bounds={{{private[0]!r}: (low, high)}} would mend it."


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
        with suppress(np.linalg.LinAlgError):
            np.linalg.cholesky(scaled.T @ scaled - SURE * len(names) * np.eye(len(names)))
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


def public_constant(
    probe: Floats, names: Sequence[str], sources: Sequence[Sequence[str]], schema: Schema
) -> Floats | None:
    """Coefficients e with ``probe @ e == 1`` in every row, of columns that depend on no private scale, or None.

    ``I(x > 0)`` is 1 in every probe row of an x with a private scale, and not on the data.
    """
    public = [j for j, made_of in enumerate(sources) if not any(c in schema.private for c in made_of)]
    ones = [j for j in public if (probe[:, j] == 1).all()]
    ones = [j for j in ones if names[j] == "Intercept"] or ones
    out = np.zeros(len(names))
    if ones and (names[ones[0]] == "Intercept" or len(public) > WIDE):
        out[ones[0]] = 1.0
        return out
    if not public:
        return None
    part = probe[:, public]
    size = np.abs(part).max(axis=0)
    e: Floats = np.linalg.lstsq(part / size, np.ones(len(part)), rcond=None)[0] / size
    tidy: Floats = np.round(e, 6) + 0.0
    out[public] = tidy if np.abs(part @ tidy - 1).max() < 1e-14 else e
    return out if np.abs(probe @ out - 1).max() < 1e-9 else None


class DesignTerm(NamedTuple):
    """One term of a formula, or one column of arrays, whose columns are made by levels or by trees."""

    name: str  # Name as patsy writes it: "Intercept", "age", "C(region)", "age:smoker"
    place: slice  # Its columns of the design
    reads: tuple[str, ...] = ()  # Raw columns that it is made from; none for the intercept
    trees: tuple[Tree, ...] = ()  # One for each column; none of a factor by itself
    levels: tuple[Any, ...] = ()  # Declared levels, if the term is a factor by itself; none for other terms
    coding: Floats | None = None  # Values of its columns at each of these levels, shape (levels, columns)

    @property
    def columns(self) -> tuple[int, ...]:
        """Positions of its design columns."""
        return tuple(range(self.place.start, self.place.stop))

    @property
    def bare(self) -> bool:
        """True of a raw number, which is finite."""
        return len(self.trees) == 1 and self.trees[0][0] == "col"

    @property
    def reference(self) -> Any:
        """The level whose columns are all 0; None of a term that has no such level."""
        coded = np.ones(1, dtype=np.bool_) if self.coding is None else self.coding.any(axis=1)
        return None if coded.all() else self.levels[int(np.argmin(coded))]


@dataclass(frozen=True)
class Encoder:
    """Encoder of a design; rebuilt from the formula, never pickled or saved."""

    width: int
    parts: tuple[DesignTerm, ...]
    program: Program  # All trees of the parts, in order
    response: Program | None  # None when the response is a column itself
    affine: tuple[Floats, Floats] | None = None  # Centre and scale of each column, if it comes in internal units
    places: NDArray[np.intp] | None = None  # Place of each column, if not in the order of the design

    @np.errstate(all="ignore")  # a warning would reveal a value
    def exog(
        self, rows: Prepared, n: int, known: Flags | None = None, *, beyond: bool = False
    ) -> tuple[Floats, Flags | None, str | None]:
        """Build the matrix, shape (n, width): in the user's units row by row, in internal ones column by column.

        Beside it, in which rows every term is a finite number, None if in all; and which term isn't in the others, or
        None, without a value. `rows` are numbers, and codes of levels, 0 for one that is missing, each of shape (n,);
        `known`, of that shape, says in which of them nothing is missing, None if in all. `beyond` says whether cubic
        splines go on beyond their knots, as for rows that are not clamped.
        """
        out, places = np.empty((self.width, n)).T, range(self.width) if self.places is None else self.places
        values = iter(self.program(rows, known, beyond=beyond))
        fine: Any = None
        problem: str | None = None
        for part in self.parts:
            if part.coding is not None:
                for j, levels in zip(part.columns, self._tables[part.name], strict=True):
                    # all codes are inside; by default NumPy makes a copy
                    levels.take(rows[part.reads[0]], out=out[:, places[j]], mode="clip")
                continue
            for j in part.columns:
                value = next(values)
                finite = np.True_ if part.bare else np.isfinite(value)
                if not finite.all():
                    fine = finite if fine is None else np.logical_and(fine, finite)
                    problem = problem or f"formula term {part.name!r} is not finite, or can't be computed,"
                to = out[:, places[j]]
                centre, scale = (0.0, 1.0) if self.affine is None else (self.affine[0][j], self.affine[1][j])
                value = np.subtract(value, centre, out=to) if centre != 0.0 else value
                if scale != 1.0:
                    np.divide(value, scale, out=to)
                elif centre == 0.0:
                    to[:] = value
        return out if self.affine is not None else np.ascontiguousarray(out), fine, problem

    @cached_property
    def _tables(self) -> dict[str, Floats]:
        """Columns of factors at each level, in internal units if they come so, shape (columns, levels)."""
        out: dict[str, Floats] = {}
        for part in (part for part in self.parts if part.coding is not None):
            at, values = part.place, np.asarray(part.coding)
            inside = values if self.affine is None else (values - self.affine[0][at]) / self.affine[1][at]
            out[part.name] = np.ascontiguousarray(inside.T)
        return out


# --- from the formula ------------------------------------------------------------------------------------


class _Valued(EvalFactor):  # type: ignore[misc]
    """A factor of patsy's whose values, for public rows, are known."""

    def __init__(self, code: str, value: Any) -> None:
        super().__init__(code)
        self._value = value

    def memorize_passes_needed(self, state: Any, eval_env: Any) -> int:
        """None: nothing is learned from rows."""
        return 0

    def eval(self, state: Any, data: Any) -> Any:
        return self._value


_CONTRASTS: Final = {one.__name__: one for one in (Treatment, Sum, Helmert, Poly, Diff)}
_KEEP_ALL = NAAction(on_NA="raise", NA_types=[])


def coded_terms(terms: Sequence[Any], values: Prepared, rows: Prepared, parsed: ParsedFormula) -> Any:
    """Patsy's coding, a `DesignInfo`, of its terms on public rows.

    `values` are those of factors that are computed, by code; factors that stand for themselves are columns of `rows`.
    """
    known, schema = dict[str, _Valued](), parsed.schema
    for code in parsed.reads:
        name = parsed.plain.get(code)
        if name is None or name not in schema.levels:
            known[code] = _Valued(code, values[code] if name is None else rows[name])
            continue
        kind: Any = pd.CategoricalDtype(list(schema.levels[name]))
        levels = pd.Categorical.from_codes(rows[name], dtype=kind)
        node = term_tree(code, parsed.formula)  # a name, Q() or C()
        given = [*node.args[1:], *(word.value for word in node.keywords)] if isinstance(node, ast.Call) else []
        names = {**_CONTRASTS, "__builtins__": {}}
        contrast = eval(compile(ast.Expression(given[0]), "contrast", "eval"), names) if given else None
        known[code] = _Valued(code, C(levels, contrast))
    again = [Term([known[f.code] for f in term.factors]) for term in terms]
    return design_matrix_builders([again], lambda: iter([{}]), 0, NA_action=_KEEP_ALL)[0]


def make_encoder(
    info: Any, parsed: ParsedFormula, factors: Mapping[str, Any], rows: Prepared, response: Program | None
) -> Encoder:
    """Sort the terms of patsy's coding: factors that stand for themselves are looked up, all others are trees.

    `factors` are the columns of each factor, by code; `rows` are public.
    """
    parts, schema = list[DesignTerm](), parsed.schema
    for term, subterms in info.term_codings.items():
        plain = [parsed.plain.get(f.code) for f in term.factors]
        reads = tuple(dict.fromkeys(name for f in term.factors for name in parsed.reads[f.code]))
        part, contrast = DesignTerm(term.name(), info.term_slices[term], reads), None
        if len(plain) == 1 and plain[0] is not None and len(subterms) == 1:
            contrast = subterms[0].contrast_matrices.get(term.factors[0])
        if contrast is None:
            parts.append(part._replace(trees=term_trees(subterms, info, parsed, factors.__getitem__)))
            continue
        coding = np.asarray(contrast.matrix, dtype=np.float64)
        parts.append(part._replace(levels=tuple(schema.levels[str(plain[0])]), coding=coding))
    program = Program([tree for part in parts for tree in part.trees], schema, parsed.functions, rows)
    return Encoder(len(info.column_names), tuple(parts), program, response)
