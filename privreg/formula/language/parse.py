"""The allow-list for formulas: what may be computed from raw rows, decided before a row is read.

A formula is public text; the columns it names are not. Every factor is parsed with :mod:`ast` and must
consist of pieces that treat each row by itself. Nothing is evaluated in this module. Limits of a formula's size are
those of devices, checked before anything is expanded or built.
"""

import ast
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, NoReturn

import numpy as np
from patsy import ModelDesc, PatsyError
from patsy.infix_parser import ParseNode
from patsy.parse_formula import parse_formula

from privreg.errors import FormulaError, PrivregError, SchemaError, choose, equation, shown
from privreg.formula.language.allowlist import NUMPY_CONSTANTS, NUMPY_FUNCTIONS, RESERVED, Walker, check_levels
from privreg.formula.language.rowwise import Rowwise
from privreg.formula.language.spelling import bare, explained, foreign
from privreg.protocol.codes import DEEPEST, LARGEST, MOST_COLUMNS
from privreg.schema.declarations import RESPONSE_KINDS, Schema

LONGEST: Final = 1 << 14  # Characters of a formula, at most
NESTED: Final = 250  # Operators inside each other, at most, as a - b - c has two: patsy calls itself for each


def _too_large(formula: str, what: str) -> NoReturn:
    fix = "leave terms out, or give the design as arrays, PrivateOnlineRegression(endog, exog, ...)"
    raise FormulaError(f"the formula {shown(formula)} has more than {what}; {fix}.")


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
    whole = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, int)]
    if level or any(value.bit_length() >= 1024 for value in whole):
        much = f"more than {DEEPEST} parts inside each other" if level else "a number beyond all doubles"
        raise FormulaError(f"the term {shown(code)} has {much}; compute the column before.")


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


_ELEMENTWISE = SimpleNamespace(**{name: getattr(np, name) for name in NUMPY_FUNCTIONS | NUMPY_CONSTANTS})
_NUMPY: Mapping[str, Any] = {"np": _ELEMENTWISE, "numpy": _ELEMENTWISE, "__builtins__": {}}


@dataclass(frozen=True)
class ParsedFormula:
    """A formula that passed the allow-list."""

    formula: str
    schema: Schema  # Declarations that it was checked by; empty ones before there are any
    response: str  # Code of the left-hand side
    # Raw columns read on either side, in order of appearance
    response_columns: tuple[str, ...]
    exog_columns: tuple[str, ...]
    functions: Mapping[str, Rowwise]  # The marked functions it calls, and no others
    # Code of a factor that is just a column (``x``, ``Q("x")``, ``C(x, Sum)``) to that column's name
    plain: Mapping[str, str]
    reads: Mapping[str, tuple[str, ...]]  # Code of every factor on the right to the raw columns it reads
    constants: tuple[float, ...]  # Numbers written in the formula; the probe rows visit them
    coded: tuple[str, ...]  # Columns that it treats as factors itself (``C(x)``, ``x == "a"``), whatever their type

    @property
    def columns(self) -> tuple[str, ...]:
        """Raw columns of either side."""
        return tuple(dict.fromkeys([*self.response_columns, *self.exog_columns]))

    def undeclared(self, schema: Schema, kind: str) -> list[str]:
        """Columns that a schema says nothing of; a response of 0 and 1 needs no declaration."""
        needed = self.exog_columns if kind == "binary" else self.columns
        return [name for name in needed if not schema.declares(name)]


def check_formula(
    formula: str, schema: Schema, functions: Mapping[str, Rowwise], *, kind: str = "number", reports: bool = False
) -> ParsedFormula:
    """Check a formula against the allow-list and the public schema; arguments are those of `formula_design`.
    Raises FormulaError if it can't be read, or is not a model, or not one of this kind; PrivacyLeakError if a term is
    not on the allow-list; SchemaError if a column is not declared, or not in the way the term needs.
    """
    choose("kind", kind, RESPONSE_KINDS)
    try:
        return _check(formula, schema, functions, kind, reports=reports)
    except SchemaError as e:
        with suppress(PrivregError):  # the first column at fault is explained, the rest are named
            others = read_formula(formula, functions).undeclared(schema, kind)[1:]
            e.args = (f"{e} Also undeclared: {', '.join(map(repr, others))}." if others else str(e),)
        raise


def read_formula(formula: str, functions: Mapping[str, Rowwise]) -> ParsedFormula:
    """A formula that passes the allow-list, before anything is declared."""
    return _check(formula, None, functions, "number")


def private_columns(parsed: ParsedFormula, schema: Schema, kind: str = "number") -> tuple[str, ...]:
    """Undeclared columns of a formula, all of them numbers, whose scale ``scaling="private"`` is to learn.

    A response that is not a number has no scale to learn.
    Raises SchemaError if the formula treats one of them as a factor: its levels can't be learned.
    """
    names = parsed.undeclared(schema, "number" if kind == "number" else "binary")
    if factors := [c for c in parsed.coded if c in names]:
        raise SchemaError(
            f"{', '.join(map(repr, factors))} in {parsed.formula!r} is used as a factor and its levels are not "
            f"declared; scaling='private' learns the scale of numbers only. Give levels={{{factors[0]!r}: [...]}}, "
            'or allow_leak=("levels",).'
        )
    return tuple(names)


def refuse_other(formula: object) -> None:
    """Refuse a formula that is no string."""
    if not isinstance(formula, str):
        raise FormulaError(
            f"the formula must be a string such as 'y ~ x', got {type(formula).__name__}; data come second."
        )


def collect_rowwise(formula: str, namespaces: Sequence[Mapping[str, Any]]) -> dict[str, Rowwise]:
    """Find the marked functions a formula calls by bare name.

    Only names that are called are looked up, in the first namespace that has them, and only
    :class:`Rowwise` values are taken.
    """
    found: dict[str, Rowwise] = {}
    desc = _parse(formula)
    for factor in chain.from_iterable(term.factors for term in (*desc.lhs_termlist, *desc.rhs_termlist)):
        for node in ast.walk(term_tree(factor.code, formula)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            name = node.func.id
            value = next((space[name] for space in namespaces if name in space), None)
            if isinstance(value, Rowwise) and name not in RESERVED:
                found[name] = value
    return found


def _parse(formula: str) -> ModelDesc:
    refuse_other(formula)
    if len(formula) > LONGEST:  # before anything looks for what stands in it
        _too_large(formula, f"{LONGEST:,} characters")
    if (meant := equation(formula)) is not None:
        raise FormulaError(f"the formula {formula!r} has no '~'; write {meant!r}.")
    words = foreign(bare(formula))  # R's spellings that patsy would take for something else
    if words is not None:
        raise FormulaError(f"the formula {formula!r} can't be read: {words}.")
    reason = "it is not a formula"
    try:
        desc, node = read(formula)
        _refuse_powers(node)
    except FormulaError:
        raise
    except PatsyError as error:
        reason = explained(formula) or str(error).splitlines()[0]
    except Exception:
        reason = explained(formula) or reason  # patsy's tokenizer raises many kinds; none of them is passed on
    else:
        if not desc.lhs_termlist:
            raise FormulaError(f"the formula {formula!r} has no response; write it as 'y ~ ...'.")
        return desc
    raise FormulaError(f"the formula {formula!r} can't be read: {reason}. Write it as 'y ~ x1 + x2'.") from None


def _refuse_powers(node: ParseNode) -> None:
    """Refuse x**2, which crosses x with itself and is x again; (a + b)**2 crosses different ones."""
    if node.type == "**" and node.args[0].type == "PYTHON_EXPR":
        code, power = (arg.token.extra for arg in node.args)
        raise FormulaError(
            f"in a formula '{code}**{power}' is '{code}' crossed with itself, which is '{code}' again; for the power "
            f"write 'I({code}**{power})'."
        )
    for arg in node.args:
        _refuse_powers(arg)


def term_tree(code: str, formula: str) -> ast.expr:
    """The syntax of a factor of a formula."""
    if (tree := syntax(code)) is not None:
        refuse_deep(tree, code)
        return tree
    name = explained(code) or (f'a name with spaces is written Q("{code}")' if re.fullmatch(r"[\w ]+", code) else "")
    why = f"; {name}" if name else ""
    raise FormulaError(f"the term {code!r} of the formula {formula!r} is not a Python expression{why}.")


def _check(
    formula: str, schema: Schema | None, functions: Mapping[str, Rowwise], kind: str, *, reports: bool = False
) -> ParsedFormula:
    if not (desc := _parse(formula)).rhs_termlist:
        raise FormulaError(f"the formula {formula!r} has nothing on the right; 'y ~ 1' fits an intercept.")
    response = desc.lhs_termlist[0].factors
    if len(desc.lhs_termlist) > 1 or len(response) != 1:
        raise FormulaError(
            f"the left-hand side of {formula!r} must be one column or one transformation of it; "
            "wrap arithmetic in I(), as in 'I(y1 + y2) ~ x'."
        )

    def walk(code: str, against: Schema | None, *, free: bool = False) -> Walker:
        walker, tree = Walker(code, against, functions, free, reports), term_tree(code, formula)
        walker.top(tree)
        if not walker.columns:
            raise FormulaError(f"the term {code!r} names no column; the intercept is written 1.")
        for node in ast.walk(tree):  # a part without columns that is no finite number: a row that meets it would show
            parts = ast.BinOp | ast.UnaryOp | ast.Call | ast.Constant
            known = constant_value(node) if isinstance(node, parts) else None
            if known is not None and not np.all(np.abs(known) <= LARGEST):
                wrong = f"{ast.unparse(node)} is not a finite number; write one, and none beyond 2^60"
                raise FormulaError(f"formula term {code!r}: {wrong}.")
        return walker

    code = response[0].code
    left = walk(code, None if kind == "levels" else schema, free=kind == "binary")
    if kind == "levels" and schema is not None:  # what it must be is checked at once, in words of its own
        if not left.is_plain:
            raise FormulaError(
                f"the response {code!r} is computed, but this family models the levels of one column; write "
                f"'{left.columns[0]} ~ ...' and declare levels={{{left.columns[0]!r}: [...]}}, or choose a family for "
                "numbers."
            )
        check_levels(left.columns[0], schema, FormulaError)
    right = {f.code: walk(f.code, schema) for term in desc.rhs_termlist for f in term.factors}
    walkers = [left, *right.values()]
    columns = tuple(dict.fromkeys(name for walker in right.values() for name in walker.columns))
    if both := [name for name in dict.fromkeys(left.columns) if name in columns]:
        raise FormulaError(f"{', '.join(map(repr, both))} stands on both sides of {formula!r}; keep one.")
    known: Mapping[str, Any] = {} if schema is None else schema.levels
    # what is computed may be a condition
    levels = {c: len(known.get(w.columns[0], ())) if w.is_plain else 2 for c, w in right.items() if not w.width}
    widths = {c: w.width for c, w in right.items()}
    refuse_wide(formula, desc.rhs_termlist, {c: k for c, k in levels.items() if k}, widths)
    return ParsedFormula(
        formula,
        schema or Schema(),
        code,
        tuple(dict.fromkeys(left.columns)),
        columns,
        MappingProxyType({name: functions[name] for walker in walkers for name in walker.called}),
        MappingProxyType({walker.code: walker.columns[0] for walker in walkers if walker.is_plain}),
        MappingProxyType({c: tuple(walker.columns) for c, walker in right.items()}),
        tuple(dict.fromkeys(c for walker in walkers for c in walker.constants)),
        tuple(dict.fromkeys(name for walker in walkers for name in walker.coded)),
    )


def constant_value(node: ast.expr) -> Any:
    """The number that a part of a factor without columns is, not always a finite one; None of any other part."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    parts = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Compare, ast.Constant, ast.Attribute)
    if not isinstance(node, parts) or not names <= {"np", "numpy"}:
        return None
    if not all(isinstance(part.value, int | float) for part in ast.walk(node) if isinstance(part, ast.Constant)):
        return None
    try:
        with np.errstate(all="ignore"):
            return eval(compile(ast.Expression(node), "term", "eval"), dict(_NUMPY))
    except Exception:  # a division by zero, say
        return np.nan
