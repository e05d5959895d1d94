"""What is to be estimated: a mean of every numeric column, the frequencies of every factor. Public."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from privreg.errors import FormulaError, SchemaError, equation, meant
from privreg.formula.language.limits import refuse_deep, syntax
from privreg.schema.declarations import Schema

_FORM: Final = "write columns joined by +, as in 'age + bmi + C(smoker) ~ 1'"
_TABLE: Final = (
    "an estimate is of one column. Of a table of two, 'C(a) ~ 1' with by='b' has the frequencies of a at each level of "
    "b; for joint frequencies make one column of both, row by row, and declare its levels"
)


@dataclass(frozen=True)
class Term:
    """One column of which something is estimated."""

    column: str
    # Public range of a number; 0 and 1 for a factor
    low: float = 0.0
    high: float = 1.0
    levels: tuple[Any, ...] = ()  # Public levels of a factor; empty for a number

    @property
    def is_factor(self) -> bool:
        """Whether it has levels."""
        return bool(self.levels)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its estimates: the column, or column[level]."""
        return tuple(f"{self.column}[{level}]" for level in self.levels) or (self.column,)


def read_formula(formula: object) -> tuple[list[str], list[str]]:
    """Columns of a formula, in order, and those of them that are written as C().

    Raises
    ------
    FormulaError
        If it is not a sum of columns with 1, or nothing, on the right of the tilde.

    Examples
    --------
    >>> read_formula("age + Q('body mass') + C(smoker) ~ 1")
    (['age', 'body mass', 'smoker'], ['smoker'])
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
    tree = syntax(left.strip())
    if tree is None:
        raise FormulaError(f"the formula can't be read: {_TABLE if ':' in left else _FORM}.")
    columns: list[str] = []
    factors: list[str] = []
    for node in _summands(tree):
        refuse_deep(node, left)
        name, factor = _column(node)
        if name in columns:
            raise FormulaError(f"the formula names {name!r} twice; once is enough.")
        columns.append(name)
        factors += [name] * factor
    return columns, factors


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
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        raise FormulaError(f"the formula has {ast.unparse(node)[:60]!r}, which is not a column: {_TABLE}.")
    raise FormulaError(
        f"the formula has {ast.unparse(node)[:60]!r}, which is not a column; {_FORM}. Make other columns beforehand, "
        "row by row."
    )


def read_columns(columns: object) -> list[str]:
    """Check a list of columns.

    Raises
    ------
    FormulaError
        If it is not a list of different names.
    """
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise FormulaError(f"columns must be a list of names such as ['age', 'bmi'], got {type(columns).__name__}.")
    if not columns or not all(isinstance(name, str) and name for name in columns):
        raise FormulaError("columns must be one or more names of columns, as strings.")
    twice = [name for i, name in enumerate(columns) if name in columns[:i]]
    if twice:
        raise FormulaError(f"columns names {twice[0]!r} twice; once is enough.")
    return list(columns)


def declared_terms(columns: Sequence[str], factors: Sequence[str], schema: Schema) -> tuple[Term, ...]:
    """Columns with their public declarations.

    Parameters
    ----------
    columns : sequence of str
    factors : sequence of str
        Those that must be factors.
    schema : Schema

    Raises
    ------
    SchemaError
        If one has neither finite bounds nor levels, or the wrong ones.
    """
    out = []
    for name in columns:
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
