"""The public design, of a formula or of arrays: the only place where raw columns become a response and a matrix.

Everything a design knows (coding, names, ranges, rank) comes from the formula, the public schema and
public probe rows. Raw rows pass through :meth:`Design.encode`, each independent of the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.data.cells import GAP, Flags, Floats
from privreg.data.columns import Encoded, beyond, clamped, complete_rows, prepare, repeated, row_labels, zero_one
from privreg.data.sources.open import as_frame, rows_of
from privreg.errors import DataError, FormulaError, PrivacyLeakError, PrivregError, SchemaError, choose, quietly
from privreg.formula import encoding
from privreg.formula.batches import CONSTANTS, EXPOSURE, OFFSET, ArrayRows
from privreg.formula.encoding import DesignTerm, Encoder, Prepared
from privreg.formula.language.allowlist import check_added, check_levels, misfit, undeclared
from privreg.formula.language.parse import ParsedFormula, check_formula, read
from privreg.formula.language.rowwise import PIECE, Rowwise
from privreg.formula.trees.compile import FactorColumn, compile_trees, read_factor
from privreg.formula.trees.evaluate import Program, const
from privreg.options.table import check
from privreg.schema.declarations import RESPONSE_KINDS, Schema

RESPONSE_ROWS: Final = 4096  # Public rows on which the range of a computed response is found
SINGLE_ROWS: Final = 12  # Public rows whose terms are computed one by one, too
UNBOUNDED: Final = (-np.inf, np.inf)
FAR: Final = 100.0  # Limits, at least, that are tried of columns whose scale is private


def unclamped(schema: Schema, name: str | None, kind: str) -> Schema:
    """Schema in which a response of 0 and 1 is not clamped: a 2 is no 1 but a value that can't be used."""
    return replace(schema, bounds={n: pair for n, pair in schema.bounds.items() if kind != "binary" or n != name})


def public_factor(code: str, parsed: ParsedFormula, rows: Prepared) -> tuple[list[FactorColumn], NDArray[Any]]:
    """A computed factor: its columns, and its values for public rows.
    Raises PrivacyLeakError if its value for a public row depends on the rows beside it; FormulaError if it can't be
    computed of public rows, or is not one number, or a few, for each.
    """
    factor, schema = read_factor(code, parsed, closed=False), parsed.schema
    program = Program([column.tree for column in factor], schema, parsed.functions)
    m = len(next(iter(rows.values())))

    def values(some: Prepared) -> NDArray[Any]:
        found = program(some)
        return np.asarray(found[0]) if len(found) == 1 else np.column_stack(found)

    def run() -> NDArray[Any] | None:
        whole = values(rows)
        if whole.ndim == 0 or len(whole) != m:
            return None
        if whole.ndim > 2 or whole.dtype.kind not in "biuf":
            raise FormulaError(f"formula term {code!r} must give numbers, one or a few for each row.")
        parts = [slice(i, i + 1) for i in np.linspace(0, m - 1, SINGLE_ROWS).astype(int)]
        for part in (*parts, slice(None, None, -3)):
            alone, expected = values(encoding.take(rows, part)), whole[part]
            if alone.shape != expected.shape or not np.allclose(alone, expected, rtol=1e-12, atol=0, equal_nan=True):
                return None
        if not parsed.functions:
            return whole
        # So many rows are cut into one piece of each length that functions are called with; in reverse, each but the
        # middle row is in a piece of another.
        more = encoding.take(encoding.probe_rows(list(rows), schema, rows=2 * PIECE - 1), slice(2 * PIECE - 1))
        there, again = values(more), values(more)
        back = values(encoding.take(more, slice(None, None, -1)))[::-1]
        same = there.shape == back.shape and np.array_equal(there, again, equal_nan=True)
        return whole if same and np.allclose(there, back, rtol=1e-12, atol=0, equal_nan=True) else None

    broken = FormulaError(
        f"formula term {code!r} fails on public probe rows; it must take arrays, and a spline's bounds "
        f"must hold its argument over the declared bounds.{encoding.stand_in(list(rows), schema)}"
    )
    try:
        found = quietly(run, broken)
    except PrivacyLeakError:  # a marked function's own words, without the term
        found = None
    if found is None:
        raise PrivacyLeakError(
            f"formula term {code!r} is not row by row: its value for a row changes with its neighbours. "
            "Use a function of each row alone, with public constants."
        )
    if len(factor) == 1 and found.ndim == 2:  # a function that gives several
        factor = [FactorColumn(["item", factor[0].tree, j], "other") for j in range(found.shape[1])]
    return factor, found


def response_of(parsed: ParsedFormula, kind: str) -> tuple[Program | None, tuple[float, float]]:
    """Program of the response, None if it is a column itself, and its public range."""
    code, columns, schema = parsed.response, parsed.response_columns, parsed.schema
    if code in parsed.plain:
        return None, column_limits(columns[0], schema, kind, FormulaError, code)
    rows = encoding.probe_rows(columns, schema, parsed.constants, rows=RESPONSE_ROWS)
    factor, values = public_factor(code, parsed, rows)
    if len(factor) != 1:
        raise FormulaError(f"the response {code!r} has {len(factor)} columns; it must have one.")
    if not np.isfinite(values).all():
        raise FormulaError(
            f"the response {code!r} is not finite somewhere inside the declared bounds "
            f"{{{encoding.shown_box(columns, schema)}}}; tighten the bounds or change the transformation."
            f"{encoding.stand_in(columns, schema)}"
        )
    limits = UNBOUNDED
    if values.dtype.kind == "b":
        limits = (0.0, 1.0)
    elif all(n in schema.levels or np.isfinite(schema.limits(n)[0]) for n in columns):
        limits = (float(values.min()), float(values.max()))
    check_binary(limits, code, columns[0], kind, FormulaError)
    return Program([factor[0].tree], schema, parsed.functions, rows), limits


def column_limits(
    name: str, schema: Schema, kind: str, error: type[PrivregError], code: str | None = None
) -> tuple[float, float]:
    """Public range of a response that is a column itself, `code` in a formula; (0, 1) of an undeclared 0/1."""
    code, levels = code or name, schema.levels.get(name)
    if levels is not None:
        if wrong := misfit(name, levels, kind):
            raise error(f"the response {code!r} {wrong}")
        return 0.0, len(levels) - 1.0
    if schema.is_number(name):
        check_binary(schema.limits(name), code, name, kind, error)
        return schema.limits(name)
    if kind != "binary":
        raise error(undeclared(name, schema, dates=False))
    return 0.0, 1.0


def check_binary(limits: tuple[float, float], code: str, column: str, kind: str, error: type[PrivregError]) -> None:
    """Refuse a response of 0 and 1 that has another public range."""
    if kind == "binary" and limits != (0.0, 1.0):
        raise error(
            f"a binary response is 0 or 1; {code!r} goes from {limits[0]:g} to {limits[1]:g}. Declare its two values, "
            f"levels={{{column!r}: [...]}}, or, of 0 and 1, bounds={{{column!r}: (0, 1)}}; in a formula write "
            f"I({column} > cut); or choose a family for numbers, such as family='huber'."
        )


@dataclass(frozen=True)
class Design:
    """A frozen design; equal designs have equal formula, schema, functions, names, offset and so on."""

    formula: str | None  # None of arrays
    schema: Schema
    functions: Mapping[str, Rowwise]  # The marked functions the formula calls
    offset: str | None  # Raw numeric column added to the linear predictor
    exposure: str | None  # Raw numeric column whose logarithm is added to the linear predictor
    # Kind of response: {"number", "binary", "levels", "ordinal"}; levels are encoded as 0, 1, … in declared order
    kind: str
    names: tuple[str, ...]  # Names of the design's columns, as patsy gives them
    endog_name: str
    # Raw columns read (response, exog, offset, exposure). No other column is touched.
    columns: tuple[str, ...] = field(compare=False, repr=False)
    endog_sources: tuple[str, ...] = field(compare=False, repr=False)  # Raw columns that the response is made from
    covariates: tuple[str, ...] = field(compare=False, repr=False)  # Raw columns that the right-hand side is made from
    probe: Floats = field(compare=False, repr=False)  # The design on public probe rows, user's units; shape (m, p)
    # Coefficients e with ``X @ e == 1`` for every row, shape (p,), if the constant is in the span
    constant: Floats | None = field(compare=False, repr=False)
    # Public range of the response after its transformation; encoded responses stay inside
    endog_limits: tuple[float, float] = field(compare=False)
    encoder: Encoder = field(compare=False, repr=False)
    made: "tuple[Callable[..., Design], tuple[Any, ...]]" = field(compare=False, repr=False)  # Function and arguments
    rows: ArrayRows | None = field(compare=False, repr=False, default=None)  # Layout of arrays; None of a formula
    # Rows at each cut point less that at the first, shape (K − 1, p), of K levels in order; None of other responses
    cuts: Floats | None = field(compare=False, repr=False, default=None)
    info: Any = field(compare=False, repr=False, default=None)  # patsy's coding of a formula's right-hand side
    parsed: ParsedFormula | None = field(compare=False, repr=False, default=None)

    def __hash__(self) -> int:
        return hash((self.formula, self.names, self.endog_name, self.offset, self.exposure, self.kind))

    def __reduce__(self) -> tuple[Any, ...]:
        return self.made

    @property
    def terms(self) -> tuple[DesignTerm, ...]:
        """Terms of the right-hand side, in the order of their columns."""
        return self.encoder.parts

    @cached_property
    def sources(self) -> tuple[tuple[str, ...], ...]:
        """Raw columns that each design column is made from; none for the intercept."""
        return tuple(term.reads for term in self.terms for _ in term.columns)

    @cached_property
    def bare(self) -> tuple[str | None, ...]:
        """The raw numeric column that each design column equals, else None."""
        plain = {name: name for name in self.covariates} if self.parsed is None else self.parsed.plain
        return tuple(None if term.levels else plain.get(term.name) for term in self.terms for _ in term.columns)

    @property
    def endog_levels(self) -> tuple[Any, ...] | None:
        """Declared levels of a response that is a factor, else None."""
        return None if self.encoder.response else self.schema.levels.get(self.endog_sources[0])

    @property
    def endog_bare(self) -> str | None:
        """The raw numeric column that the response equals, else None."""
        return None if self.encoder.response or self.endog_levels else self.endog_sources[0]

    def encode(self, rows: Any, missing: str = "raise") -> Encoded:
        """Encode raw rows: clamp numbers to their bounds, code factors by their declared levels.

        `rows` are a DataFrame, a mapping of str to array, or (endog, exog[, offset[, exposure]]) for array models.
        `missing` says what becomes of a row that can't be used, because a value that is read is missing, no number or
        not a declared level, or a term is not finite: with "noise" it is NaN (see `Encoded`), with "raise" an error,
        and with "drop" it is left out.
        Raises DataError if a column is absent, or with "raise" a row can't be used; with "raise" SchemaError if a
        factor has a value that is not declared. No message quotes a value.
        """
        gaps = check("local.formula", "missing", missing) != "raise"
        given = rows if self.rows is None else self.rows.of_batch(rows)
        read = prepare(given, self.columns, self.schema, clamp=set(self.columns), gaps=gaps)
        left = {name: read[name] for name in self.endog_sources}
        right = {name: values for name, values in read.items() if name not in left}
        exog, usable = self._exog(right, len(read[self.columns[0]]), gaps=gaps)
        name, response, known = self.endog_sources[0], self.encoder.response, complete_rows(left.values())
        if response is None:
            endog = np.array(left[name], dtype=np.float64)
        else:
            made = {c: v if v.dtype.kind == "f" else np.maximum(v, 0) for c, v in left.items()}
            endog = np.array(np.broadcast_to(response(made, known)[0], len(left[name])), dtype=np.float64)
        if known is not None and gaps:
            endog[~known] = np.nan
        if response is not None:
            if not gaps and not np.isfinite(endog).all():
                raise DataError(
                    f"the response {self.endog_name!r} is not finite, or can't be computed, for a row of these data."
                )
            endog = clamped(np.where(np.isfinite(endog), endog, np.nan), self.endog_limits)
        endog = zero_one(endog, self.endog_name, gaps=gaps) if self.kind == "binary" else endog
        offset = None if self.offset is None else np.array(right[self.offset])
        if self.exposure is not None:
            log: Floats = np.log(right[self.exposure])  # the bounds are positive
            offset = log if offset is None else offset + log
        if usable is not None:
            endog[~usable] = np.nan
            offset = None if offset is None else np.where(usable, offset, np.nan)
        kept = ~np.isnan(endog) if missing == "drop" else None
        if kept is None or kept.all():
            return Encoded(endog, exog, offset)
        return Encoded(endog[kept], exog[kept], None if offset is None else offset[kept], kept)

    def scaled(self, centre: Floats, scale: Floats) -> "Design":
        """Design for encoding only, whose column j is (x_j − centre_j) / scale_j."""
        return replace(self, encoder=replace(self.encoder, affine=(centre, scale)))

    def ordered(self, order: NDArray[np.intp]) -> "Design":
        """Design for encoding only, with its columns in this order."""
        return replace(self, encoder=replace(self.encoder, places=np.argsort(order)))

    def at(self, name: str, values: Floats) -> Floats:
        """Public rows at values of a number, others in the middle of their limits, factors at their first level."""
        rows: dict[str, Any] = {name: values}
        for c in self.covariates if self.rows is None else self.rows.names:
            if c in self.schema.levels:
                rows[c] = np.zeros(len(values), dtype=np.intp)
            elif c != name:
                rows[c] = np.full(len(values), np.mean(self.schema.reference(c)))
        return self.encoder.exog(rows, len(values))[0]

    def encode_exog(self, exog: Any, *, clamp: bool = False, gaps: bool = False) -> Floats:
        """Encode the right-hand side only, of arrays also by column; without clamping unless asked: for prediction."""
        new = exog if self.rows is None or isinstance(exog, dict) else self.rows.of_exog(exog)
        columns = self.covariates if self.rows is None else self.rows.names  # also those that hold a constant
        rows = prepare(new, columns, self.schema, clamp=set(columns) if clamp else (), gaps=gaps, new=True)
        n = len(next(iter(rows.values()))) if rows else rows_of(new)
        return self._exog(rows, n, clamp=clamp, gaps=gaps)[0]

    def _exog(self, rows: Prepared, n: int, *, clamp: bool = True, gaps: bool) -> tuple[Floats, Flags | None]:
        """The matrix, NaN in rows that can't be used, and which can be, None if all of them."""
        known = complete_rows(rows.values()) if gaps else None
        if known is not None:
            rows = {name: v if v.dtype.kind == "f" else np.maximum(v, 0) for name, v in rows.items()}
        out, fine, problem = self.encoder.exog(rows, n, known, beyond=not clamp)
        if problem is not None and not gaps:
            raise DataError(f"{problem} for a row of these data; check its values, or declare tighter bounds.")
        usable = known if fine is None or known is None else fine & known
        usable = fine if usable is None else usable
        if usable is not None:
            out[~usable] = np.nan
        return out, usable

    def read_new(self, new: Any) -> tuple[Any, Any]:
        """Rows for prediction, of another library's table as a DataFrame, and their index, None without one."""
        if self.rows is not None:
            return self.rows.read_new(new)
        columns = (*self.covariates, *(c for c in (self.offset, self.exposure) if c is not None))
        new = repeated(new, columns)
        return as_frame(new, columns, self.schema), row_labels(new, columns)

    def encode_new(self, new: Any, *, gaps: bool = False) -> tuple[Floats, Floats]:
        """Covariates and offset for prediction, unclamped; with `gaps` NaN where a row can't be used, else an error."""
        new = new if self.rows is None else self.rows.of_new(new)
        x = self.encode_exog(new, gaps=gaps)
        total = np.zeros(len(x))
        for name, what in ((n, what) for n, what in ((self.offset, "offset"), (self.exposure, "exposure")) if n):
            if name not in new:
                raise DataError(f"the new rows lack {name!r}, the model's {what}; give the column.")
            values = prepare(new, (name,), self.schema, clamp=(), gaps=gaps, new=True)[name]
            if len(values) != len(x):
                raise DataError(f"the new rows are {len(x)} but {name!r} has {len(values)}; give one number a row.")
            if name == self.exposure and (values <= 0).any():
                raise DataError(f"the exposure {name!r} must be positive in every row; mend or leave out such rows.")
            total += values if name == self.offset else np.log(values)
        x[np.isnan(total)] = np.nan
        return x, total

    def outside(self, new: Any) -> tuple[str, ...]:
        """Covariates of rows for prediction of which some are outside their declared bounds."""
        constant = [part.name for part in self.encoder.parts if part.trees and part.trees[0][0] == "const"]
        numeric = [c for c in self.covariates if c in self.schema.bounds and c not in constant]
        rows = self._new(new, numeric)[1]
        return tuple(c for c in numeric if beyond(rows[c], self.schema.limits(c)).any())

    def unread(self, new: Any) -> tuple[str, ...]:
        """Covariates of rows for prediction of which some value is there, but no declared level or no number."""
        new, rows = self._new(new, self.covariates)
        gaps = {c: np.isnan(v) if v.dtype.kind == "f" else v == GAP for c, v in rows.items()}
        return tuple(c for c, gap in gaps.items() if gap.any() and (gap & ~pd.isna(np.asarray(new[c], object))).any())

    def _new(self, new: Any, names: Sequence[str]) -> tuple[Any, Prepared]:
        """Rows for prediction by column, and those of these names, unclamped."""
        new = new if self.rows is None else self.rows.of_new(new)
        return new, prepare(new, names, self.schema, clamp=(), gaps=True, new=True)

    def clamps(self, frame: Any, names: Sequence[str]) -> Flags:
        """True if a raw value is outside the declared bounds of a column, and so is clamped; shape (n, m)."""
        given = frame if self.rows is None else self.rows.of_batch(frame)
        rows = prepare(given, names, self.schema, clamp=(), gaps=True)
        return np.column_stack([beyond(rows[c], self.schema.limits(c)) for c in names])

    trees = compile_trees

    def with_cuts(self, made: "tuple[Callable[..., Design], tuple[Any, ...]]") -> "Design":
        """Design with a column for each cut point between the levels of its response, after all others.

        A row of the design is a record at its first cut point, where this column is −1 and the others are 0: the linear
        predictor is x'β − κ_0. At cut point k it is that of the row plus ``cuts[k]``. `made` makes the new design.
        Raises FormulaError if a constant is made of several columns, or of a raw one.
        """
        levels, ones = self.endog_levels or (), [] if self.constant is None else np.flatnonzero(self.constant).tolist()
        if len(ones) > 1 or any(self.sources[j] for j in ones):
            raise FormulaError(
                f"cut points between levels of {self.endog_name!r} take the place of an intercept, which "
                f"{', '.join(self.names[j] for j in ones)} would be, too; leave '- 1', '+ 0' or a constant column out."
            )
        kept, k = [j for j in range(len(self.names)) if j not in ones], len(levels) - 1
        place, p = {j: i for i, j in enumerate(kept)}, len(kept)
        cuts = np.zeros((k, p + k))
        cuts[np.arange(k), p + np.arange(k)] = -1.0
        parts = [
            part._replace(place=slice(at[0], at[-1] + 1))
            for part in self.terms
            if (at := [place[j] for j in part.columns if j in place])
        ]
        parts.append(DesignTerm("Intercept", slice(p, p + k), (), tuple(const(v) for v in cuts[0, p:])))
        program = self.encoder.program.of([tree for part in parts for tree in part.trees])
        probe = np.hstack([np.repeat(self.probe[:, kept], k, axis=0), np.tile(cuts[:, p:], (len(self.probe), 1))])
        return replace(
            self,
            kind="ordinal",
            names=(*(self.names[j] for j in kept), *(f"{low}|{high}" for low, high in pairwise(levels))),
            probe=probe,
            constant=np.repeat([0.0, -1.0], [p, k]),
            encoder=replace(self.encoder, width=p + k, parts=tuple(parts), program=program),
            cuts=cuts - cuts[0],
            made=made,
        )

    def to_json(self) -> dict[str, Any]:
        """Represent the design by JSON values; functions by name only."""
        said: dict[str, Any] = {"schema": self.schema.to_json(), "response": self.kind}
        if self.rows is not None:
            said |= {"kind": "arrays", "exog_names": list(self.rows.names), "endog_name": self.endog_name}
            return said | {"offset": self.rows.has_offset, "exposure": self.rows.has_exposure}
        said |= {"kind": "formula", "formula": self.formula, "functions": sorted(self.functions)}
        return said | {"offset": self.offset, "exposure": self.exposure, "names": list(self.names)}


def formula_design(
    formula: str,
    schema: Schema,
    *,
    functions: Mapping[str, Rowwise] | None = None,
    offset: str | None = None,
    exposure: str | None = None,
    kind: str = "number",
    reports: bool = False,
) -> Design:
    """Build the public design of a formula, for which no raw row is needed.

    `functions` are those marked with ``pr.rowwise`` that it may call. `offset` is a declared numeric column that is
    added, `exposure` one with positive bounds, whose logarithm is. `kind` is what the response is, "number", "binary"
    "levels" or "ordinal": a bare column that is 0/1 needs no declaration; the latter take one column with 2 to 50
    declared levels, and "ordinal" has cut points between them in place of an intercept.
    `reports` says whether the call takes ``scaling=`` and ``allow_leak=``, so that messages may name them.
    """
    make = partial(formula_design, functions=dict(functions or {}), offset=offset, exposure=exposure, kind=kind)
    if kind == "ordinal":
        return make(formula, schema, kind="levels", reports=reports).with_cuts((make, (formula, schema)))
    parsed = check_formula(formula, schema, functions or {}, kind=kind, reports=reports)
    if exposure is not None and exposure in {*parsed.response_columns, offset}:
        other = "offset" if exposure == offset else "response"
        raise SchemaError(f"exposure={exposure!r} is the {other} too; name another column with positive bounds.")
    if offset is not None and offset in {*schema.levels, *parsed.response_columns}:
        raise SchemaError(f"offset={offset!r} must be a numeric column other than the response.")
    check_added(offset, exposure, schema)
    terms = read(formula)[0].rhs_termlist
    cells = {
        tuple(parsed.plain[f.code] for f in t.factors if parsed.plain.get(f.code) in schema.levels): None for t in terms
    }
    rows = encoding.probe_rows(parsed.exog_columns, schema, parsed.constants, [c for c in cells if c])
    factors, values = {}, {}
    for code, reads in parsed.reads.items():
        if code in parsed.plain:
            factors[code] = read_factor(code, parsed, closed=False)
        else:
            factors[code], values[code] = public_factor(code, parsed, {name: rows[name] for name in reads})
    broken = FormulaError(f"the right-hand side of {formula!r} can't be built; check the contrasts and knots.")
    info = quietly(lambda: encoding.coded_terms(terms, values, rows, parsed), broken)
    response, limits = response_of(parsed, kind)
    encoder = encoding.make_encoder(info, parsed, factors, rows, response)
    m = len(next(iter(rows.values()))) if rows else 1
    probe, _, problem = encoder.exog(rows, m)
    if problem is not None:
        computed = [t for t in encoder.parts if t.coding is None and not t.bare]
        named = tuple(dict.fromkeys(name for t in computed for name in t.reads))
        raise FormulaError(
            f"{problem} somewhere inside the declared bounds {{{encoding.shown_box(named, schema)}}}; "
            f"tighten the bounds or change the term.{encoding.stand_in(named, schema)}"
        )
    names = tuple(info.column_names)
    tried, private = probe, [name for name in parsed.exog_columns if name in schema.private]
    if private:  # I(x > 40), say, is constant on the box that stands for a private scale, and not beyond it
        edge = max([FAR, *(2 * abs(c) for c in parsed.constants)])
        wide = dict.fromkeys(private, (-edge, edge))
        more = encoding.probe_rows(parsed.exog_columns, schema, parsed.constants, [c for c in cells if c], boxes=wide)
        far, _, _ = encoder.exog(more, len(next(iter(more.values()))))
        tried = np.vstack([probe, far[np.isfinite(far).all(axis=1)]])
    encoding.check_rank(tried, names, encoding.stand_in(parsed.exog_columns, schema))
    columns = dict.fromkeys([*parsed.response_columns, *parsed.exog_columns, *(c for c in (offset, exposure) if c)])
    make = partial(formula_design, functions=dict(parsed.functions), offset=offset, exposure=exposure, kind=kind)
    return Design(
        formula=formula,
        schema=unclamped(schema, parsed.plain.get(parsed.response), kind),
        functions=dict(parsed.functions),
        offset=offset,
        exposure=exposure,
        kind=kind,
        names=names,
        endog_name=parsed.response,
        columns=tuple(columns),
        endog_sources=parsed.response_columns,
        covariates=parsed.exog_columns,
        probe=probe,
        constant=encoding.public_constant(probe, names, [t.reads for t in encoder.parts for _ in t.columns], schema),
        endog_limits=limits,
        encoder=encoder,
        made=(make, (formula, schema)),
        info=info,
        parsed=parsed,
    )


# --- of arrays --------------------------------------------------------------------------------------------


def array_design(
    exog_names: Sequence[str],
    endog_name: str,
    schema: Schema,
    *,
    offset: bool = False,
    exposure: bool = False,
    kind: str = "number",
) -> Design:
    """Build the public design of named array columns.

    Each is declared as a number, except "const" or "Intercept", which is the constant 1, and a response of 0 and 1.
    `offset` and `exposure` say whether such an array is given with each batch, declared under these names. `kind` is
    what the response is; "levels" needs its levels declared, 2 to 50 of them.
    Raises SchemaError if a column is not declared as a number; FormulaError if columns are linearly dependent whatever
    the data.
    """
    make = partial(array_design, offset=offset, exposure=exposure, kind=kind)
    names = tuple(exog_names)
    if kind == "ordinal":
        given = names, endog_name, schema
        return make(*given, kind="levels").with_cuts((make, given))
    choose("kind", kind, RESPONSE_KINDS)
    if not names or len({*names, endog_name}) != len(names) + 1:
        raise SchemaError(f"column names must be given and differ, got {[endog_name, *names]!r}.")
    if factors := [name for name in (*names, *([OFFSET] if offset else [])) if name in schema.levels]:
        raise SchemaError(f"column {factors[0]!r} of an array is a number, but levels= declares it; use a formula.")
    known: dict[str, tuple[float, float]] = {n: (1.0, 1.0) for n in CONSTANTS if n in names and n not in schema.bounds}
    full = replace(schema, bounds={**schema.bounds, **known})
    if lacking := [name for name in names if not full.is_number(name)]:
        raise SchemaError(undeclared(lacking[0], schema, dates=False))
    check_added(OFFSET if offset else None, EXPOSURE if exposure else None, schema)
    if schema.dates:
        raise SchemaError(
            f"bounds[{schema.dates[0]!r}] are dates, and arrays hold numbers; use from_formula() for columns of dates."
        )
    rows = encoding.probe_rows(names, full)
    probe = np.column_stack([rows[name] for name in names])
    encoding.check_rank(probe, names)
    # "const" or "Intercept" is the constant 1 whatever the array holds, and a column with bounds (v, v) is v
    fixed = {name: low for name, (low, high) in ((name, full.limits(name)) for name in names) if low == high}
    trees = [const(fixed[name]) if name in fixed else ["col", name] for name in names]
    parts = tuple(
        DesignTerm(name, slice(j, j + 1), () if name in known else (name,), (trees[j],)) for j, name in enumerate(names)
    )
    if kind == "levels":
        check_levels(endog_name, schema)
    return Design(
        formula=None,
        schema=unclamped(schema, endog_name, kind),
        functions={},
        offset=OFFSET if offset else None,
        exposure=EXPOSURE if exposure else None,
        kind=kind,
        names=names,
        endog_name=endog_name,
        columns=(endog_name, *names, *([OFFSET] if offset else []), *([EXPOSURE] if exposure else [])),
        endog_sources=(endog_name,),
        covariates=tuple(name for name in names if name not in known),
        probe=probe,
        constant=encoding.public_constant(probe, names, [(name,) for name in names], full),
        endog_limits=column_limits(endog_name, schema, kind, SchemaError),
        rows=ArrayRows(names, endog_name, offset, exposure),
        encoder=Encoder(len(names), parts, Program(trees, full), None),
        made=(make, (names, endog_name, schema)),
    )
