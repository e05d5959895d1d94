"""Operations of expression trees, and how NumPy's functions are written by them."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

Tree = list[Any]  # A nested list; see the table in `privreg.formula.trees.compile`
_ARITHMETIC: Final = ("add", "sub", "mul", "div", "mod", "floordiv", "pow", "min", "max")
_FUNCTIONS: Final = ("log", "log1p", "exp", "sqrt", "abs", "round")
_LOGIC: Final = ("cmp", "and", "or", "not", "where")
CLOSED: Final = frozenset({"const", "col", "level", *_ARITHMETIC, *_FUNCTIONS, *_LOGIC, "bspline", "cr"})
"""Operations of a device's trees."""


def const(value: float) -> Tree:
    """A constant."""
    return ["const", float(value).hex()]


OPERATORS: Final[Mapping[type, str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or",
}  # fmt: skip
COMPARISONS: Final[Mapping[type, str]] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
PYTHON: Final = {"div": "truediv", "and": "and_", "or": "or_"}
"""Names of operations in the module `operator`, where it has others."""

SAME: Final = {"absolute": "abs", "fabs": "abs", "rint": "round"}
BINARY: Final = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "mod": "mod",
    "remainder": "mod", "floor_divide": "floordiv", "maximum": "max", "minimum": "min",
}  # fmt: skip
CONDITIONS: Final = {
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip
UNARY: Final = frozenset(_FUNCTIONS)
_ONE, _ZERO, _TWO = const(1.0), const(0.0), const(2.0)

WRITTEN: Final[Mapping[str, Callable[..., Tree]]] = {
    "square": lambda a: ["mul", a, a],
    "reciprocal": lambda a: ["div", _ONE, a],
    "clip": lambda a, low, high: ["min", ["max", a, low], high],
}
"""NumPy's functions that are computed by these very operations."""


def _negative(a: Tree) -> Tree:
    return ["mul", const(-1.0), a]


def _signed(a: Tree, size: Tree) -> Tree:
    """A size with the sign of `a`."""
    return ["where", ["cmp", "lt", a, _ZERO], _negative(size), size]


def _known(a: Tree, tree: Tree, otherwise: Tree | None = None) -> Tree:
    """A tree where `a` is a number; elsewhere `a` itself, or what stands for it."""
    return ["where", ["cmp", "ne", a, a], a if otherwise is None else otherwise, tree]


def _floor(a: Tree) -> Tree:
    return ["floordiv", a, _ONE]


def _either(op: str) -> Callable[[Tree, Tree], Tree]:
    """The smaller or larger of two, the other one where one is no number."""
    return lambda a, b: _known(a, _known(b, [op, a, b], a), b)


def _log_sum(of: float) -> Callable[[Tree, Tree], Tree]:
    """Logarithm, to a base with this logarithm, of the sum of two powers of the base."""

    def tree(a: Tree, b: Tree) -> Tree:
        gap = ["mul", const(-of), ["abs", ["sub", a, b]]]
        return ["add", ["max", a, b], ["div", ["log1p", ["exp", gap]], const(of)]]

    return tree


def _tanh(a: Tree) -> Tree:
    small = ["exp", ["mul", const(-2.0), ["abs", a]]]
    return _signed(a, ["div", ["sub", _ONE, small], ["add", _ONE, small]])


def _halves(op: str) -> Callable[[Tree], Tree]:
    return lambda a: ["div", [op, ["exp", a], ["exp", _negative(a)]], _TWO]


CLOSED_ONLY: Final[Mapping[str, Callable[..., Tree]]] = {
    "log2": lambda a: ["div", ["log", a], const(math.log(2.0))],
    "log10": lambda a: ["div", ["log", a], const(math.log(10.0))],
    "exp2": lambda a: ["pow", _TWO, a],
    "expm1": lambda a: ["sub", ["exp", a], _ONE],
    "sinh": _halves("sub"),
    "cosh": _halves("add"),
    "tanh": _tanh,
    "arcsinh": lambda a: _signed(a, ["log", ["add", ["abs", a], ["sqrt", ["add", ["mul", a, a], _ONE]]]]),
    "arccosh": lambda a: ["log", ["add", a, ["sqrt", ["sub", ["mul", a, a], _ONE]]]],
    "arctanh": lambda a: ["div", ["log", ["div", ["add", _ONE, a], ["sub", _ONE, a]]], _TWO],
    "float_power": lambda a, b: ["pow", a, b],
    "cbrt": lambda a: _signed(a, ["pow", ["abs", a], const(1.0 / 3.0)]),
    "hypot": lambda a, b: ["sqrt", ["add", ["mul", a, a], ["mul", b, b]]],
    "logaddexp": _log_sum(1.0),
    "logaddexp2": _log_sum(math.log(2.0)),
    "deg2rad": lambda a: ["mul", a, const(math.pi / 180.0)],
    "radians": lambda a: ["mul", a, const(math.pi / 180.0)],
    "rad2deg": lambda a: ["mul", a, const(180.0 / math.pi)],
    "degrees": lambda a: ["mul", a, const(180.0 / math.pi)],
    "floor": _floor,
    "ceil": lambda a: _negative(_floor(_negative(a))),
    "trunc": lambda a: _signed(a, _floor(["abs", a])),
    "fmin": _either("min"),
    "fmax": _either("max"),
    "fmod": lambda a, b: _signed(a, ["mod", ["abs", a], ["abs", b]]),
    "sign": lambda a: _known(a, ["sub", ["cmp", "gt", a, _ZERO], ["cmp", "lt", a, _ZERO]]),
    "copysign": lambda a, b: _signed(b, ["abs", a]),
    "heaviside": lambda a, b: _known(a, ["where", ["cmp", "eq", a, _ZERO], b, ["cmp", "gt", a, _ZERO]]),
}
"""Functions that devices do without, by others: the last digits may differ from NumPy's, and the sign of 0."""
