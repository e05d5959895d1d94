"""What is to be estimated: a mean of every numeric column, frequencies of every factor or pair of factors. Public."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from privreg.errors import FormulaError, SchemaError, equation, meant
from privreg.formula.language.limits import refuse_deep, syntax
from privreg.schema.declarations import Schema

_FORM: Final = "write columns joined by +, as in 'age + bmi + C(smoker) ~ 1', two-way tables as C(smoker):C(region)"
_COLON: Final = re.compile(r"""("[^"]*"|'[^']*')|[:@]""")
"""A quoted name, or the mark between two factors; Python's own grammar has '@' in its place."""

Column = str | tuple[str, str]
"""A column, or two whose levels are crossed."""


@dataclass(frozen=True)
class Term:
    """One column of which something is estimated, or two factors whose pairs of levels are."""

    column: str
    # Public range of a number; 0 and 1 for a factor
    low: float = 0.0
    high: float = 1.0
    levels: tuple[Any, ...] = ()  # Public levels of a factor, pairs of them of two; empty for a number
    parts: tuple[Term, ...] = ()  # The two factors

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it needs."""
        return tuple(part.column for part in self.parts) or (self.column,)

    @property
    def middle(self) -> float:
        """Of its range."""
        return 0.5 * (self.low + self.high)

    @property
    def half(self) -> float:
        """Half the length of its range."""
        return 0.5 * (self.high - self.low)

    @property
    def written(self) -> str:
        """It in a formula."""
        return ":".join(f"C({c})" for c in self.columns) if self.is_factor else self.column

    @property
    def is_factor(self) -> bool:
        """Whether it has levels."""
        return bool(self.levels)

    @property
    def labels(self) -> tuple[str, ...]:
        """What its levels are called beside the column's name."""
        return tuple(":".join(map(str, v)) if self.parts else str(v) for v in self.levels)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its estimates: the column, column[level], or of pairs column[level]:other[level]."""
        if self.parts:
            return tuple(map(":".join, product(*(part.names for part in self.parts))))
        return tuple(f"{self.column}[{level}]" for level in self.levels) or (self.column,)


def flat(columns: Sequence[Column]) -> list[str]:
    """Columns, those of pairs one by one, each once.

    Examples
    --------
    >>> flat(["age", ("sex", "region"), "sex"])
    ['age', 'sex', 'region']
    """
    return list(dict.fromkeys(c for one in columns for c in ((one,) if isinstance(one, str) else one)))


def read_formula(formula: object) -> tuple[list[Column], list[str]]:
    """Columns of a formula, in order, pairs of factors as pairs, and the columns that are written as C().

    Raises
    ------
    FormulaError
        If it is not a sum of columns with 1, or nothing, on the right of the tilde.

    Examples
    --------
    >>> read_formula("age + Q('body mass') + C(smoker) ~ 1")
    (['age', 'body mass', 'smoker'], ['smoker'])
    >>> read_formula("C(sex):C(region) ~ 1")
    ([('sex', 'region')], ['sex', 'region'])
    """
    if not isinstance(formula, str):
        raise FormulaError(f"the formula must be a string, got {type(formula).__name__}; {_FORM}.")
    meant = equation(formula)
    if meant is not None:
        raise FormulaError(f"the formula {formula!r} has no '~'; write {meant!r}.")
    left, _, right = formula.partition("~")
    if right.strip() not in {"", "1"}:
        raise FormulaError(
            "means have no covariates: the right of '~' is 1 (means by subgroup come with by='column'; for a "
            "regression use PrivateOnlineRegression)."
        )
    tree = syntax(_COLON.sub(lambda m: m[1] or ("@" if m[0] == ":" else "@@"), left.strip()))
    if tree is None:
        raise FormulaError(f"the formula can't be read; {_FORM}.")
    columns: list[Column] = []
    factors: list[str] = []
    for node in _summands(tree):
        refuse_deep(node, left)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            pair = _column(node.left)[0], _column(node.right)[0]
            columns.append(pair)
            factors += pair
            continue
        name, factor = _column(node)
        columns.append(name)
        factors += [name] * factor
    return _once(columns, "the formula"), list(dict.fromkeys(factors))


def _once(columns: list[Column], where: str) -> list[Column]:
    """Refuse what is asked twice, pairs in any order."""
    seen = [frozenset(flat([one])) for one in columns]
    for k, one in enumerate(columns):
        if seen[k] in seen[:k]:
            raise FormulaError(f"{where} names {one!r} twice; once is enough.")
        if not isinstance(one, str) and len(seen[k]) < 2:
            raise FormulaError(f"{where} crosses {one[0]!r} with itself; name another factor, or it alone.")
    return columns


def _summands(tree: ast.expr) -> list[ast.expr]:
    out: list[ast.expr] = []
    while isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
        out.append(tree.right)
        tree = tree.left
    return [tree, *reversed(out)]


def _column(node: ast.expr) -> tuple[str, bool]:
    if isinstance(node, ast.Name):
        return node.id, False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
        inside = node.args[0]
        if node.func.id == "Q" and isinstance(inside, ast.Constant) and isinstance(inside.value, str):
            return inside.value, False
        if node.func.id == "C" and not (isinstance(inside, ast.Call) and getattr(inside.func, "id", "") == "C"):
            return _column(inside)[0], True
    raise FormulaError(
        f"the formula has {ast.unparse(node).replace(' @ ', ':')[:60]!r}, which is not a column; {_FORM}. Make other "
        "columns beforehand, row by row."
    )


def read_columns(columns: object) -> list[Column]:
    """Check a list of columns, and of pairs of them.

    Raises
    ------
    FormulaError
        If it is not a list of different names.
    """
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise FormulaError(f"columns must be a list of names such as ['age', 'bmi'], got {type(columns).__name__}.")
    pairs = [one for one in columns if isinstance(one, tuple) and len(one) == 2]
    names = [name for one in columns for name in (one if one in pairs else (one,))]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise FormulaError(
            "columns must be one or more names of columns, as strings; two-way tables are pairs, ('sex', 'region')."
        )
    return _once(list(columns), "columns")


def declared_terms(columns: Sequence[Column], factors: Sequence[str], schema: Schema) -> tuple[Term, ...]:
    """Columns with their public declarations; `factors` are those that must be factors, of pairs both must.

    Raises
    ------
    SchemaError
        If one has neither finite bounds nor levels, or the wrong ones.
    """
    out = []
    for name in columns:
        if not isinstance(name, str):
            parts = declared_terms(name, name, schema)
            out.append(Term(":".join(name), levels=tuple(product(*(part.levels for part in parts))), parts=parts))
            continue
        if name in schema.levels:
            out.append(Term(name, levels=schema.levels[name]))
            continue
        if name in factors:
            raise SchemaError(f"C({name}) needs public levels; give levels={{{name!r}: [...]}} with all of them.")
        low, high = schema.limits(name)
        if not np.isfinite([low, high]).all():
            raise SchemaError(
                f"column {name!r} has no public range: a mean needs bounds={{{name!r}: (low, high)}}, a factor "
                f"levels={{{name!r}: [...]}}.{meant(name, [*schema.bounds, *schema.levels])}"
            )
        if not low < high:
            raise SchemaError(
                f"bounds[{name!r}] = ({low:g}, {high:g}) leave one value, so the mean is known; leave it out."
            )
        out.append(Term(name, low, high))
    names = [n for term in out for n in term.names]
    if len(set(names)) < len(names):
        raise SchemaError("two estimates would have the same name, from levels that read alike; rename a level.")
    return tuple(out)
