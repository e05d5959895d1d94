"""Limits of a formula's size: those of devices, checked before anything is expanded or built."""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations
from typing import Any, Final, NoReturn

from patsy import ModelDesc
from patsy.infix_parser import ParseNode
from patsy.parse_formula import parse_formula

from privreg.errors import FormulaError, shown
from privreg.protocol.limits import DEEPEST, MOST_COLUMNS

LONGEST: Final = 1 << 14  # Characters of a formula, at most
NESTED: Final = 250  # Operators inside each other, at most, as a - b - c has two: patsy calls itself for each


def _too_large(formula: str, what: str) -> NoReturn:
    """Refuse a formula for its size."""
    fix = "leave terms out, or give the design as arrays, PrivateOnlineRegression(endog, exog, ...)"
    raise FormulaError(f"the formula {shown(formula)} has more than {what}; {fix}.")


def refuse_long(formula: str) -> None:
    """Refuse too many characters, before anything looks for what stands in them."""
    if len(formula) > LONGEST:
        _too_large(formula, f"{LONGEST:,} characters")


def syntax(code: str) -> ast.expr | None:
    """The syntax of an expression; None if the text is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def refuse_deep(tree: ast.expr, code: str) -> None:
    """Refuse what Python can't write again: parts inside each other, and whole numbers of thousands of digits."""
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [c for n in level for c in ast.iter_child_nodes(n) if isinstance(c, ast.expr | ast.keyword)]
    if level:
        much = f"more than {DEEPEST} parts inside each other"
        raise FormulaError(f"the term {shown(code)} has {much}; compute the column before.")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value.bit_length() > 1024:
            raise FormulaError(f"the term {shown(code)} has a number beyond all doubles; change the unit.")


@lru_cache(maxsize=64)  # a model's formula is read four times
def read(formula: str) -> tuple[ModelDesc, ParseNode]:
    """Terms of a formula, and its syntax.
    Raises FormulaError if it is too large; of what is no formula, patsy's own errors.
    """
    node = _level(parse_formula(formula))
    if _terms(node, formula, 0) > MOST_COLUMNS + 1:  # and the response
        _too_large(formula, f"{MOST_COLUMNS:,} terms")
    return ModelDesc.from_formula(node), node


def _level(node: ParseNode) -> ParseNode:
    """Formula with sums of columns and of products of columns halved, so that they are not nested in each other."""
    if node.type == "~":
        return ParseNode("~", node.token, [_level(arg) for arg in node.args], node.origin)
    signs = list[ParseNode]()
    while node.type in {"+", "-"} and len(node.args) == 2:
        signs.append(node)
        node = node.args[0]
    run = list[ParseNode]()
    for sign in reversed(signs):
        term = sign.args[1]
        if sign.type == "+" and all(part.type == "PYTHON_EXPR" for part in term.args or [term]):
            run.append(term)
        else:
            node, run = ParseNode(sign.type, sign.token, [_sum(node, run), term], sign.origin), []
    return _sum(node, run)


def _sum(first: ParseNode, run: list[ParseNode]) -> ParseNode:
    while len(run) > 1:
        halves = [run[at : at + 2] for at in range(0, len(run), 2)]
        run = [ParseNode("+", None, two, first.origin) if len(two) > 1 else two[0] for two in halves]
    return ParseNode("+", None, [first, *run], first.origin) if run else first


def _terms(node: ParseNode, formula: str, deep: int) -> int:
    """Terms of a part, at most."""
    if deep > NESTED + 1:  # and the tilde
        _too_large(formula, f"{NESTED} operators inside each other")
    sizes = [_terms(arg, formula, deep + 1) for arg in node.args]
    if node.type == "**":
        power = str(node.args[1].token.extra)
        return sum(math.comb(sizes[0], k) for k in range(1, min(int(power[:9]) if power.isdecimal() else 1, 12) + 1))
    joint = math.prod(sizes)
    return {":": joint, "*": sum(sizes) + joint}.get(node.type, max(sum(sizes), 1))


def refuse_wide(formula: str, terms: Sequence[Any], levels: Mapping[str, int], widths: Mapping[str, int]) -> None:
    """Refuse more columns than devices take, before patsy makes them.

    There is a column for each combination of levels but the first, for each set of factors that is part of a term of
    patsy's. `levels` are numbers of levels of factors, and `widths` of columns of splines, by code.
    """
    met, columns = set[tuple[tuple[str, ...], tuple[str, ...]]](), 0
    for term in terms:
        codes = dict.fromkeys(sorted(f.code for f in term.factors))
        numbers, factors = tuple(c for c in codes if c not in levels), [c for c in codes if c in levels]
        width = math.prod(max(widths[c], 1) for c in numbers)
        for some in chain.from_iterable(combinations(factors, k) for k in range(len(factors) + 1)):
            if (numbers, some) not in met:
                met.add((numbers, some))
                columns += width * math.prod(max(levels[c] - 1, 1) for c in some)
            if columns > MOST_COLUMNS:
                _too_large(formula, f"{MOST_COLUMNS:,} columns, levels of factors counted")
