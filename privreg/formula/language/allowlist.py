"""The allow-list itself: a walk over one factor's syntax tree that refuses what does not act row by row.

Nothing is evaluated here, and patsy is not needed to read it.
"""

import ast
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np

from privreg.errors import FormulaError, PrivacyLeakError, PrivregError, SchemaError, meant
from privreg.formula.language.spelling import contrast_here, explained, spelt_here
from privreg.formula.trees.evaluate import COMPARISONS, OPERATORS, problem
from privreg.options.unknown import WORDS, by_name
from privreg.schema.declarations import MOST_LEVELS, Schema

_NUMPY = """
abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt ceil clip copysign cos cosh deg2rad
degrees divide equal exp exp2 expm1 fabs float_power floor floor_divide fmax fmin fmod greater greater_equal
heaviside hypot less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or
logical_xor maximum minimum mod multiply negative not_equal positive power rad2deg radians reciprocal
remainder rint round sign sin sinh sqrt square subtract tan tanh true_divide trunc where
"""
NUMPY_FUNCTIONS = frozenset(_NUMPY.split())  # Elementwise NumPy functions a formula may call as ``np.f`` or ``numpy.f``
NUMPY_CONSTANTS = frozenset({"e", "pi"})
CONTRASTS = ("Treatment", "Sum", "Helmert", "Poly", "Diff")
SPLINES = ("bs", "cr", "cc")
RESERVED = frozenset({"np", "numpy", "C", "I", "Q", *CONTRASTS, *SPLINES})

# np.where with one argument returns positions, and a ufunc's extra argument is written to: arity is checked.
_ARITY = {"clip": (3, 3), "where": (3, 3), "round": (1, 2)}
_ARGUMENTS: Final = {name: _ARITY.get(name) or (getattr(np, name).nin,) * 2 for name in NUMPY_FUNCTIONS}
MOST_PLACES: Final = 22
"""Decimals that a number is rounded to: powers of ten up to it are doubles, and NumPy makes them one by one."""

_ALLOWED = (
    'Allowed are columns, numbers, arithmetic, single comparisons with & | ~, I(), Q("name"), C(column), '
    "elementwise NumPy functions such as np.log, bs/cr/cc with all knots and both bounds, and functions "
    "marked with pr.rowwise(f)."
)
_FIXES: Final = by_name(WORDS["formulas"]["fixes"])
_WORDS: Final = {
    "Subscript": "picking rows with [ ]",
    "BoolOp": "'and' / 'or' (write (a > 1) & (b > 1))",
    "UnaryOp": "'not' (write ~(a > 1))",
}


@dataclass
class Walker:
    """Walks one factor; collects what it reads, refuses what is not on the list."""

    code: str
    schema: Schema | None
    functions: Container[str]
    free: bool  # a bare column needs no declaration (binary response)
    reports: bool = False  # scaling= and allow_leak= are options of the call
    columns: list[str] = field(default_factory=list)
    coded: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    constants: list[float] = field(default_factory=list)
    is_plain: bool = False
    width: int = 0  # Columns of a spline

    def _refuse(self, why: str, key: str = "", fix: str | None = None) -> NoReturn:
        fix = _FIXES.get(key, fix)
        fix = f" Fix: {fix}." if fix else ""
        raise PrivacyLeakError(f"formula term {self.code!r}: {why} is not allowed.{fix} {_ALLOWED}")

    def _mend(self, what: str, fix: str) -> NoReturn:
        """Refuse what lets nothing out and is only written in another way here."""
        raise FormulaError(f"formula term {self.code!r}: {what} is not written so here; {fix}.")

    def top(self, node: ast.expr) -> None:
        """Walk the whole factor: a column, C(), a spline, or a numeric expression."""
        name, called = self._column_name(node), isinstance(node, ast.Call) and getattr(node.func, "id", None)
        self.is_plain = name is not None or called == "C"
        if name is not None:
            self._column(name, "any")
        elif isinstance(node, ast.Call) and called == "C":
            self._factor(node)
        elif isinstance(node, ast.Call) and called in SPLINES:
            self._spline(node, str(called))
        else:
            self._number(node)

    def _number(self, node: ast.expr) -> None:
        if (name := self._column_name(node)) is not None:
            self._column(name, "number")
        elif isinstance(node, ast.Constant):
            self._constant(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd | ast.Invert):
            self._number(node.operand)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, tuple(OPERATORS)):
            if isinstance(node.op, ast.BitAnd | ast.BitOr) and any(map(self._column_name, (node.left, node.right))):
                self._mend("& or | of a column", "they join comparisons, as in (a > 1) & (b > 1); interactions are a:b")
            before = len(self.columns)
            self._number(node.left)
            self._number(node.right)
            if isinstance(node.op, ast.Pow) and len(self.columns) == before:
                self._refuse("a power of two constants (write the number it is)")
        elif isinstance(node, ast.Compare):
            self._compare(node)
        elif isinstance(node, ast.Attribute):
            numpy = isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy")
            if numpy and node.attr not in NUMPY_CONSTANTS:
                self._refuse(ast.unparse(node), node.attr)
            ours = contrast_here(node)
            if ours is not None and ast.unparse(node.value) == "contr":
                self._mend(ast.unparse(node), f"write C(x, {ours})")
            if not numpy:
                self._refuse(f"the attribute .{node.attr}", node.attr, explained(self.code))
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
            self._mend("a power", f"write I({ast.unparse(node.left)}**{ast.unparse(node.right)})")
        else:
            kind = type(node).__name__
            self._refuse(_WORDS.get(kind, f"a Python {kind}"), fix=None if kind in _WORDS else explained(self.code))

    def _column_name(self, node: ast.expr) -> str | None:
        name = column_name(node)
        if name is None and isinstance(node, ast.Call) and ast.unparse(node.func) == "Q":
            self._refuse('Q() of anything but one column name in quotes, as in Q("my column"),')
        if name is None or not isinstance(node, ast.Name):
            return name
        if name.startswith("__"):
            self._refuse(f"the name {name!r}")
        if name in RESERVED or name in self.functions or name in {"Intercept", "_cons"}:
            is_ = "is the name of a function here"
            if name in {"Intercept", "_cons"}:
                is_ = "is no column here: a formula has an intercept unless it says 0, and 'y ~ 1' has that alone"
            raise FormulaError(
                f'formula term {self.code!r}: {name!r} {is_}. A column that is called so is Q("{name}").'
            )
        return name

    def _column(self, name: str, want: str) -> None:
        self.columns.append(name)
        if want == "factor":
            self.coded.append(name)
        if self.schema is None or (self.free and want == "any" and not self.schema.declares(name)):
            return
        if not self.schema.declares(name):
            learnable = want != "factor" and not self.free
            said = undeclared(name, self.schema, learnable=learnable, reports=self.reports)
            raise SchemaError(f"formula term {self.code!r}: {said}")
        if want == "number" and name in self.schema.levels:
            raise SchemaError(
                f"formula term {self.code!r} uses {name!r} as a number, but levels= declares it as a factor. "
                f'Declare bounds={{{name!r}: (low, high)}}, or compare it, as in I({name} == "level").'
            )
        if want == "factor" and name not in self.schema.levels:
            raise SchemaError(
                f"formula term {self.code!r} uses {name!r} as a factor, which needs its levels. Give "
                f"levels={{{name!r}: [...]}} in place of bounds" + ', or allow_leak=("levels",).' * self.reports
            )

    def _constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, int | float):
            fix = f'a column is written Q("{node.value}")' if isinstance(node.value, str) else None
            self._refuse(f"the constant {node.value!r} here", fix=fix)
        self.constants.append(float(node.value))

    def _compare(self, node: ast.Compare) -> None:
        if len(node.ops) != 1 or not isinstance(node.ops[0], tuple(COMPARISONS)):
            several = "a chained comparison (write (18 < age) & (age < 30))"
            self._refuse(several if len(node.ops) != 1 else "'in' or 'is'")
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Constant):
            left, right = right, left
        name = self._column_name(left)
        factor = name is not None and self.schema is not None and name in self.schema.levels
        text = isinstance(right, ast.Constant) and isinstance(right.value, str)
        if name is None or not isinstance(right, ast.Constant) or not (factor or text):
            self._number(left)
            self._number(right)
        elif not isinstance(node.ops[0], ast.Eq | ast.NotEq):
            self._refuse(f"ordering the levels of the factor {name!r} (compare with == or !=)")
        else:
            self._column(name, "factor")
            self._level(name, right.value)

    def _level(self, name: str, value: object) -> None:
        if self.schema is not None and value not in self.schema.levels[name]:
            raise FormulaError(
                f"formula term {self.code!r}: {value!r} is not a declared level of {name!r}; "
                f"declared are {list(self.schema.levels[name])!r}."
            )

    def _foreign(self, node: ast.Call, name: str) -> NoReturn:
        """Refuse a call, by its name here if it has one."""
        if (fix := spelt_here(node, _ARGUMENTS)) is not None:
            self._mend(f"{ast.unparse(node.func)}()", fix)
        self._refuse(f"calling {ast.unparse(node.func)}()", name)

    def _call(self, node: ast.Call) -> None:
        func = node.func
        if isinstance(func, ast.Attribute):
            module = func.value.id if isinstance(func.value, ast.Name) else ""
            if module not in ("np", "numpy") or func.attr not in NUMPY_FUNCTIONS:
                self._foreign(node, func.attr)
            if func.attr == "round" and len(node.args) == 2:
                places = _unsigned(node.args[1])
                if not (isinstance(places, ast.Constant) and type(places.value) is int and places.value <= MOST_PLACES):
                    fix = f"give whole decimals from -{MOST_PLACES} to {MOST_PLACES}, as in np.round(x, 1)"
                    self._mend("this rounding", fix)
            self._arguments(node, f"{module}.{func.attr}()", *_ARGUMENTS[func.attr])
        elif not isinstance(func, ast.Name):
            self._refuse("calling something that is not a plain name")
        elif func.id == "I":
            self._arguments(node, "I()", 1, 1)
        elif func.id in self.functions and func.id not in RESERVED:
            self.called.append(func.id)
            self._arguments(node, f"{func.id}()", 1, 99, kind="any")
        elif func.id == "C" or func.id in SPLINES:
            self._refuse(f"{func.id}() inside another expression (let it stand alone or in a product a:b)")
        else:
            self._foreign(node, func.id)

    def _arguments(self, node: ast.Call, what: str, low: int, high: int, kind: str = "number") -> None:
        if node.keywords:
            self._refuse(f"a keyword argument of {what}")
        if not low <= len(node.args) <= high:
            self._refuse(f"{what} with {len(node.args)} arguments (it takes {low})")
        for arg in node.args:
            name = self._column_name(arg) if kind == "any" else None
            if name is not None:
                self._column(name, "any")
            else:
                self._number(arg)

    def _factor(self, node: ast.Call) -> None:
        extra = list(node.args[1:])
        for word in node.keywords:
            if word.arg == "levels":
                self._mend("the argument levels=", "declare the levels in the model's levels=, not inside C()")
            if word.arg in {"ref", "base", "reference"}:
                fix = f"C({ast.unparse(node.args[0]) if node.args else 'x'}, Treatment({ast.unparse(word.value)}))"
                self._mend(f"the argument {word.arg}=", f"write {fix}, or name that level first in levels=")
            if word.arg != "contrast":
                self._refuse(f"the argument {word.arg or '**'} of C()")
            extra.append(word.value)
        name = self._column_name(node.args[0]) if node.args else None
        if name is None or len(extra) > 1:
            self._refuse("C() of anything but a column and a contrast")
        self._column(name, "factor")
        for contrast in extra:
            func = contrast.func if isinstance(contrast, ast.Call) else contrast
            if not (isinstance(func, ast.Name) and func.id in CONTRASTS):
                if (ours := contrast_here(contrast)) is not None:
                    self._mend(f"the contrast {ast.unparse(contrast)}", f"write C({name}, {ours})")
                self._refuse(f"a contrast other than {', '.join(CONTRASTS)}")
            words = contrast.keywords if isinstance(contrast, ast.Call) else []
            given = [*(contrast.args if isinstance(contrast, ast.Call) else []), *(word.value for word in words)]
            known = {"Treatment": "reference", "Sum": "omit", "Poly": "scores"}.get(func.id)
            if any(word.arg != known for word in words) or len(given) > 1:
                self._refuse(f"these arguments of {func.id}()")
            for arg in given:
                if func.id == "Poly":
                    self._literal(arg, "scores", several=True)
                elif func.id in ("Treatment", "Sum") and isinstance(arg, ast.Constant):
                    self._level(name, arg.value)
                else:
                    self._refuse(f"this argument of {func.id}()")

    def _spline(self, node: ast.Call, what: str) -> None:
        given = {str(word.arg): word.value for word in node.keywords}
        known = ["knots", "lower_bound", "upper_bound", *(["degree", "include_intercept"] if what == "bs" else [])]
        learns = len(node.args) > 1 or "df" in given or "knots" not in given
        if learns or not set(known[:3]) <= set(given):
            taken = "place knots" if learns else "take its bounds"
            full = f"{what}(x, knots=[...], lower_bound=..., upper_bound=...)"
            self._refuse(f"{what}() that would {taken} by the data (write {full} with numbers)")
        if "constraints" in given:
            self._refuse(f"{what}() with constraints=, which would centre it by the data,")
        unknown = [word for word in given if word not in known]
        if unknown or not node.args:
            got = f"no argument {unknown[0]}=" if unknown else "no column"
            takes = f"it takes a column and {', '.join(f'{word}=' for word in known)}"
            if "extrapolation" in unknown:
                takes += "; values are clamped to the column's declared bounds, which must be within the spline's"
            raise FormulaError(f"formula term {self.code!r}: {what}() has {got} here; {takes}.")
        self._number(node.args[0])
        for word, value in given.items():
            if word != "include_intercept":
                self._literal(value, word, several=word == "knots")
            elif not (isinstance(value, ast.Constant) and isinstance(value.value, bool)):
                self._refuse("include_intercept other than True or False")
        numbers = {word: ast.literal_eval(value) for word, value in given.items()}
        if wrong := problem(what, numbers):
            raise FormulaError(f"formula term {self.code!r}: {what}() has {wrong}.")
        self.width = len(numbers["knots"]) + int(numbers.get("degree", 3)) + 1

    def _literal(self, node: ast.expr, what: str, *, several: bool = False) -> None:
        """A number, or a list of `several`."""
        if several:
            if not isinstance(node, ast.List | ast.Tuple):
                self._refuse(f"{what} that are not a list of numbers")
            for item in node.elts:
                self._literal(item, what)
            return
        inner = _unsigned(node)
        if not (isinstance(inner, ast.Constant) and type(inner.value) in (int, float)):
            self._refuse(f"{what} that is not written as a number")
        self._constant(inner)


def _unsigned(node: ast.expr) -> ast.expr:
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node


def column_name(node: ast.expr) -> str | None:
    """The column that a part of a formula is, a name or Q() of a text; None of any other part."""
    match node:
        case ast.Name(name) | ast.Call(ast.Name("Q"), [ast.Constant(str(name))], []):
            return name
    return None


def undeclared(name: str, schema: Schema, *, learnable: bool = True, reports: bool = True, dates: bool = True) -> str:
    """Message for a column that has no declaration.

    `learnable` if ``scaling="private"`` would do; `reports` if the call at fault is for a fit of people's reports,
    which takes that option and ``allow_leak=``; `dates` if the column may hold dates, which arrays can't.
    """
    declared = [*(n for n in schema.numeric() if n not in schema.private), *schema.levels]
    hint = meant(name, declared)
    kind = "a number or a date" if dates else "a number"
    private = ', or scaling="private" to learn its scale from privatised reports' if learnable and reports else ""
    leak = '; to take either from the data, allow_leak=("levels", "scale")' if reports else ""
    known = ", ".join(map(repr, declared)) or "none"
    return (
        f"column {name!r} is not declared (declared: {known}).{hint} "
        f"If it is {kind}, give bounds={{{name!r}: (low, high)}}{private}; if a factor, levels={{{name!r}: [...]}}, "
        f"of truth values [False, True]{leak}."
    )


def check_levels(response: str, schema: Schema, error: type[PrivregError] = SchemaError) -> None:
    """Refuse a response of kind "levels" whose levels are not declared, or too many; a number by this kind of error.

    How many there are isn't said: with ``allow_leak=("levels",)`` they come from the rows.
    """
    of, levels = f"the response {response!r}", f"levels={{{response!r}: [...]}}"
    if schema.is_declared_number(response):
        raise error(
            f"{of} is declared as a number, but this family models levels; give {levels} in place of bounds or "
            "moments, or choose a family for numbers."
        )
    if response not in schema.levels:
        raise SchemaError(
            f"{of} has no declared levels, which this family models; give {levels} with all of them, in order."
        )
    if len(schema.levels[response]) > MOST_LEVELS:
        raise SchemaError(
            f"{of} has more than {MOST_LEVELS} levels, the most such a family takes; join rare levels before fitting, "
            f"or declare it as a number, bounds={{{response!r}: (low, high)}}, for a family of numbers."
        )


def misfit(response: str, levels: Sequence[Any], kind: str) -> str | None:
    """Fault of a factor as a response of this kind, for a message; None if it fits."""
    if kind == "levels" or (kind == "binary" and len(levels) == 2):
        return None
    got = f"is a factor with {len(levels)} declared levels"
    if kind == "binary":
        return f"{got}; a binary family needs two. Join levels before fitting, or choose a family for more levels."
    other = "logistic" if len(levels) == 2 else "multinomial"
    return (
        f"{got}; this family needs a number, and family={other!r} takes such a factor. If it holds numbers, declare "
        f"bounds={{{response!r}: (low, high)}} in place of levels."
    )


def check_added(offset: str | None, exposure: str | None, schema: Schema) -> None:
    """Refuse an offset that is not declared, and an exposure whose bounds are not positive: its logarithm is taken."""
    if offset is not None and not schema.is_declared_number(offset):
        why = 'An offset must be declared with scaling="private" too: its scale is not learned.'
        raise SchemaError(f"offset={offset!r}: {undeclared(offset, schema, learnable=False)} {why}")
    if exposure is None or schema.bounds.get(exposure, (0.0,))[0] > 0.0:
        return
    wrong = "must be declared with positive bounds (its scale is not learned)"
    if exposure in schema.levels:
        wrong = "must be a numeric column, but levels= declares it"
    elif exposure in schema.bounds:
        wrong = "is declared from {:g} to {:g}".format(*schema.bounds[exposure])
    elif exposure in schema.moments:
        wrong = "must be declared with positive bounds (moments alone don't bound it)"
    fix = f"give bounds={{{exposure!r}: (low, high)}} with 0 < low, so that its logarithm has a range"
    raise SchemaError(f"exposure={exposure!r} {wrong}; {fix}.")
