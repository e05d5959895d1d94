"""Terms to be estimated: means of numbers and of their products, shares of factors, of pairs of them, of classes of a
number, and of times until an event. Public.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.errors import FormulaError, SchemaError, equation, meant, real
from privreg.formula.language.parse import refuse_deep, syntax
from privreg.schema.declarations import Schema

_FORM: Final = (
    "write columns joined by +, as in 'age + bmi + C(smoker) ~ 1', two-way tables as C(smoker):C(region), products as "
    "age:bmi, squares as I(age**2), histograms as cut(age, 20)"
)
_COLON: Final = re.compile(r"""("[^"]*"|'[^']*')|[:@]""")
"""A quoted name, or the mark between two factors; in Python it is '@'."""


# --- what is asked for ------------------------------------------------------------------------------------


class Cut(NamedTuple):
    """A column whose range is cut into classes, for a histogram."""

    column: str
    breaks: Any  # Classes of equal length, or a tuple of the numbers between which they are

    def __str__(self) -> str:
        return f"cut({self.column})"


class Surv(NamedTuple):
    """Times until an event or censoring, at public cut points."""

    of: tuple[str, ...]  # Time of entry, if people enter late, time and event
    cuts: tuple[Any, ...]  # Times at which curves are estimated, rising
    group: tuple[str, ...] = ()  # Factor whose levels have a curve each, if there is one

    def __str__(self) -> str:
        return f"Surv({', '.join(self.of)})"


EVENTS: Final = (0, 1)  # Levels of an event that has none declared: censored, and happened

Column = str | tuple[str, str] | Cut | Surv  # A pair has its levels crossed, or its numbers multiplied

MOST_CLASSES: Final = 200  # Classes of a histogram, at most


def flat(columns: Sequence[Column]) -> list[str]:
    """Columns, those of pairs one by one, each once.

    Examples
    --------
    >>> flat(["age", ("sex", "region"), "sex"])
    ['age', 'sex', 'region']
    """
    out = dict[str, None]()
    for one in columns:
        match one:
            case Cut(column):
                out[column] = None
            case Surv(of, _, group):
                out |= dict.fromkeys((*group, *of))
            case _:
                out |= dict.fromkeys((one,) if isinstance(one, str) else one)
    return list(out)


# --- terms with their declarations ------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """One column of which something is estimated, or several whose levels, or two whose numbers, go together.

    Products are of differences to the middles of the declared ranges, whose noise is least.
    """

    column: str
    # Public range of a number; 0 and 1 for a factor
    low: float = 0.0
    high: float = 1.0
    levels: tuple[Any, ...] = ()  # Public levels of a factor, tuples of them of several; empty for a number
    parts: tuple[Term, ...] = ()  # The factors or numbers, or the number that is cut
    edges: tuple[float, ...] = ()  # Between which classes of a number are, ends included

    @property
    def leaves(self) -> tuple[Term, ...]:
        """Terms of one column each that it is made of, as they are declared."""
        return tuple(leaf for part in self.parts for leaf in part.leaves) or (self,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it needs."""
        return tuple(leaf.column for leaf in self.leaves)

    @property
    def factors(self) -> tuple[Term, ...]:
        """Factors of which pairs, or triples, of levels are its levels: itself, if it is one."""
        return self.parts if len(self.parts) > 1 else (self,)

    @property
    def middle(self) -> float:
        """Middle of its range."""
        return 0.5 * (self.low + self.high)

    @property
    def half(self) -> float:
        """Half the length of its range."""
        return 0.5 * (self.high - self.low)

    @property
    def is_factor(self) -> bool:
        """True if it has levels."""
        return bool(self.levels)

    @property
    def is_table(self) -> bool:
        """True if it is a two-way table."""
        return type(self) is Term and len(self.parts) == 2 and self.is_factor

    @property
    def is_product(self) -> bool:
        """True if it is a number times a number, or itself."""
        return len(self.parts) == 2 and not self.is_factor

    @property
    def written(self) -> str:
        """It in a formula."""
        if self.edges:
            return f"cut({self.columns[0]}, [{', '.join(f'{e:g}' for e in self.edges)}])"
        if self.is_product:
            one, other = self.columns
            return f"I({one}**2)" if one == other else f"{one}:{other}"
        return ":".join(f"C({c})" for c in self.columns) if self.is_factor else self.column

    @property
    def right(self) -> str:
        """Right of the tilde of its formula."""
        return "1"

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its levels beside the column's."""
        return tuple(":".join(map(str, v)) if len(self.parts) > 1 else str(v) for v in self.levels)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its estimates: the column, column[level], or of pairs column[level]:other[level].

        Products say what the numbers are about, as in (age - 41.5):(bmi - 34).
        """
        if self.is_product:
            one, other = (f"({part.column} - {part.middle:g})" for part in self.parts)
            return (f"{one}^2" if one == other else f"{one}:{other}",)
        if len(self.parts) > 1:
            return tuple(map(":".join, product(*(part.names for part in self.parts))))
        return tuple(f"{self.columns[0]}[{level}]" for level in self.levels) or (self.column,)

    @property
    def size(self) -> int:
        """Number of its estimates."""
        return max(len(self.levels), 1)

    def to_json(self) -> list[Any]:
        """Represent it by JSON values, levels as they are shown."""
        levels = self.labels if len(self.parts) < 2 else ()
        return [self.column, self.low, self.high, levels, [part.to_json() for part in self.parts], self.edges]


@dataclass(frozen=True)
class Followed(Term):
    """Times and events of a ``Surv()``, crossed with the factor of groups and the times of entry if there are any."""

    @property
    def times(self) -> Term:
        """Classes of the time until an event or censoring, the last one beyond all cut points."""
        return self.parts[-2]

    @property
    def entry(self) -> Term | None:
        """Classes of the time of entry; None where everybody enters at time 0."""
        return self.parts[-3] if len(self.parts) > 2 and self.parts[-3].edges else None

    @property
    def group(self) -> str:
        """Factor whose levels have a curve each; "" without one."""
        return "" if self.parts[0].edges else self.parts[0].column

    @property
    def groups(self) -> tuple[str, ...]:
        """Levels of that factor; one nameless group without one."""
        return self.parts[0].labels if self.group else ("",)

    @property
    def cuts(self) -> tuple[float, ...]:
        """Cut points."""
        return tuple(float(f"{c:.15g}") for c in self.times.edges[1:-1])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Groups, classes of entry (time 0, and those of time), classes of time, and events."""
        entries = 1 if self.entry is None else len(self.entry.levels)
        return len(self.groups), entries, len(self.times.levels), len(self.parts[-1].levels)

    @property
    def written(self) -> str:
        """It in a formula."""
        return f"{self.column[:-1]}, [{', '.join(f'{c:g}' for c in self.cuts)}])"

    @property
    def right(self) -> str:
        """Right of the tilde of its formula."""
        return f"C({self.group})" if self.group else "1"


def places(terms: Sequence[Term]) -> list[int]:
    """Position of each term's first estimate, and then how many there are."""
    return [0, *accumulate(term.size for term in terms)]


def from_json(column: str, low: float, high: float, levels: Any, parts: Any, edges: Any) -> Term:
    """Rebuild a term from its :meth:`Term.to_json`."""
    made, ends = tuple(from_json(*part) for part in parts), tuple(map(float, edges))
    if len(made) > 1 and made[0].is_factor:
        return _crossed(str(column), made)
    return Term(str(column), float(low), float(high), tuple(map(str, levels)), made, ends)


# --- reading ----------------------------------------------------------------------------------------------


def read_formula(formula: object) -> tuple[list[Column], list[str]]:
    """Columns of a formula, in order, pairs of factors as pairs, and the columns that are written as C().
    Raises FormulaError if it is not a sum of columns with 1, or nothing, on the right of the tilde.

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
    tree = syntax(_COLON.sub(lambda m: m[1] or ("@" if m[0] == ":" else "@@"), left.strip()))
    if tree is None:
        raise FormulaError(f"the formula can't be read; {_FORM}.")
    summands: list[ast.expr] = []
    while isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
        summands, tree = [tree.right, *summands], tree.left
    columns, factors = list[Column](), list[str]()
    for node in [tree, *summands]:
        refuse_deep(node, left)
        one, some = _summand(node)
        columns.append(one)
        factors += some
    if right.strip() not in {"", "1"}:
        columns, group = _grouped(columns, right.strip())
        factors.append(group)
    return _once(columns, "the formula"), list(dict.fromkeys(factors))


def _grouped(columns: list[Column], right: str) -> tuple[list[Column], str]:
    """A Surv() with the factor on the right of the tilde, by whose levels its curves are, and that factor."""
    if len(columns) != 1 or not isinstance(one := columns[0], Surv):
        raise FormulaError(
            "means have no covariates: the right of '~' is 1 (means by subgroup come with by='column'; for a "
            "regression use PrivateOnlineRegression)."
        )
    if (tree := syntax(right)) is None or isinstance(tree, ast.BinOp):
        raise FormulaError(
            f"Surv() has curves by the levels of one factor: write {one} ~ C(arm), or ~ 1 for one curve; a column "
            "of combined levels, made beforehand row by row, serves for two factors."
        )
    name, _ = _column(tree)
    return [one._replace(group=(name,))], name


def _summand(node: ast.expr) -> tuple[Column, Sequence[str]]:
    """Request of a summand, and the columns that must be factors."""
    match node:
        case ast.BinOp(left, ast.MatMult(), right):
            (one, first), (other, second) = _column(left), _column(right)
            if one == other:
                raise FormulaError(f"the formula crosses {one!r} with itself; {_FORM}.")
            return (one, other), (one, other) if first or second else ()
        case ast.Call(ast.Name("I"), [ast.BinOp(left, ast.Mult(), right)], []):
            return (_column(left)[0], _column(right)[0]), ()
        case ast.Call(ast.Name("I"), [ast.BinOp(left, ast.Pow(), ast.Constant(2))], []):
            return (_column(left)[0],) * 2, ()
        case ast.Call(ast.Name("cut"), [number, *more], []) if len(more) < 2:
            breaks = _literal(node, more[0]) if more else 20
            return Cut(_column(number)[0], tuple(breaks) if isinstance(breaks, list) else breaks), ()
        case ast.Call(ast.Name("Surv"), [*times, ast.List() | ast.Tuple() | ast.Constant() as cuts], []) if (
            1 < len(times) < 4
        ):
            of = tuple(_column(c)[0] for c in times)
            return Surv(of, tuple(np.ravel(_literal(node, cuts)).tolist())), of[-1:]
        case ast.Call(ast.Name("Surv")):
            raise FormulaError(
                "Surv() takes a time, an event, and in a list the public times at which curves are estimated: "
                "Surv(time, event, [30, 60, 90]), or, with late entry, Surv(start, stop, event, [30, 60, 90])."
            )
    name, factor = _column(node)
    return name, [name] * factor


def _literal(node: ast.expr, part: ast.expr) -> Any:
    try:
        return ast.literal_eval(part)
    except ValueError:
        raise _refused(node) from None


def _once(columns: list[Column], where: str) -> list[Column]:
    """Refuse what is asked twice, pairs in any order."""
    seen = [tuple(sorted(one)) if type(one) is tuple else (str(one),) for one in columns]
    for k, one in enumerate(columns):
        if seen[k] in seen[:k]:
            raise FormulaError(f"{where} names {one if type(one) is tuple else str(one)!r} twice; once is enough.")
    return columns


def _refused(node: ast.expr) -> FormulaError:
    return FormulaError(
        f"the formula has {ast.unparse(node).replace(' @ ', ':')[:60]!r}, which is not a column; {_FORM}. Make other "
        "columns beforehand, row by row."
    )


def _column(node: ast.expr) -> tuple[str, bool]:
    """The column that a name, Q() or C() is of, and whether it must be a factor."""
    match node:
        case ast.Name(name):
            return name, False
        case ast.Call(ast.Name("Q"), [ast.Constant(str(name))], []):
            return name, False
        case ast.Call(ast.Name("C"), [ast.Name() | ast.Call(ast.Name("Q")) as inside], []):
            return _column(inside)[0], True
    raise _refused(node)


def read_columns(columns: object) -> list[Column]:
    """Check a list of columns, and of pairs of them.
    Raises FormulaError if it is not a list of different names.
    """
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise FormulaError(f"columns must be a list of names such as ['age', 'bmi'], got {type(columns).__name__}.")
    known = [one for one in columns if isinstance(one, Cut | Surv) or (isinstance(one, tuple) and len(one) == 2)]
    names = [name for one in columns for name in (flat([one]) if one in known else (one,))]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise FormulaError(
            "columns must be one or more names of columns, as strings; two-way tables are pairs, ('sex', 'region')."
        )
    return _once(list(columns), "columns")


def declared_terms(columns: Sequence[Column], factors: Sequence[str], schema: Schema) -> tuple[Term, ...]:
    """Columns with their public declarations; `factors` are those that must be factors, of pairs both must.
    Raises SchemaError if one has neither finite bounds nor levels, or the wrong ones.
    """
    terms = tuple(_declared(name, factors, schema) for name in columns)
    if sum(isinstance(term, Followed) for term in terms) > 1:
        raise FormulaError("the formula has more than one Surv(); estimate each by itself, at a part of the budget.")
    names = [n for term in terms for n in term.names]
    if len(set(names)) < len(names):
        raise SchemaError("two estimates would have the same name, from levels that read alike; rename a level.")
    return terms


def _declared(name: Column, factors: Sequence[str], schema: Schema) -> Term:
    if isinstance(name, Cut):
        return _classes(name, _declared(name.column, (), schema))
    if isinstance(name, Surv):
        return _followed(name, schema)
    if isinstance(name, tuple):
        crossed = any(c in schema.levels or c in factors for c in name)
        one, other = (_declared(c, [c] * crossed, schema) for c in name)
        if not crossed:
            most = one.half * other.half
            return Term(":".join(name), 0.0 if one == other else -most, most, parts=(one, other))
        if one == other:
            raise SchemaError(f"{name[0]!r} is crossed with itself; name another factor, or it alone.")
        return _crossed(":".join(name), (one, other))
    if name in schema.levels:
        return Term(name, levels=schema.levels[name])
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
    return Term(name, low, high)


def _crossed(column: str, parts: tuple[Term, ...]) -> Term:
    """Factors whose levels go together; a ``Surv()`` if the one before the last is of classes."""
    kind = Followed if parts[-2].edges else Term
    return kind(column, levels=tuple(product(*(part.levels for part in parts))), parts=parts)


def _between(whole: Term, ends: Sequence[float], *, upper: bool = False) -> Term:
    """Classes of a number between `ends`, which hold their lower ends, or their `upper` ones."""
    labels = tuple(f"{a:.6g} to {b:.6g}" if a < b else f"{a:.6g}" for a, b in pairwise(ends))
    inner = np.nextafter(ends[1:-1], np.inf).tolist() if upper else ends[1:-1]
    return Term(f"cut({whole.column})", levels=labels, parts=(whole,), edges=(ends[0], *inner, ends[-1]))


def _classes(cut: Cut, whole: Term) -> Term:
    """Classes of a number between its declared bounds."""
    breaks = cut.breaks
    if whole.is_factor:
        raise SchemaError(f"cut({cut.column}) needs a number with bounds, and {cut.column!r} has levels.")
    if isinstance(breaks, int) and not isinstance(breaks, bool) and 2 <= breaks <= MOST_CLASSES:
        edges = np.linspace(whole.low, whole.high, breaks + 1).tolist()
    else:
        numbers = [real(b) for b in breaks] if isinstance(breaks, tuple) else []
        inside = [b for b in numbers if b is not None and whole.low < b < whole.high]
        edges = [whole.low, *inside, whole.high]
        if None in numbers or not 3 <= len(edges) <= MOST_CLASSES + 1 or not (np.diff(edges) > 0.0).all():
            raise SchemaError(
                f"cut({cut.column}, …) takes a number of classes, 2 to {MOST_CLASSES}, or rising breaks in a list, one "
                "or more of them between the declared bounds."
            )
    return _between(whole, edges)


def _followed(surv: Surv, schema: Schema) -> Term:
    """Times and events, crossed with the factor of groups if there is one.

    A time that is a cut point belongs to the class that ends there, and whoever has none of the cut points ahead to the
    last class, of whom it is known that they were followed until the last cut point.
    """
    cuts = [real(c) for c in surv.cuts]
    if len({*surv.group, *surv.of}) < len(surv.group) + len(surv.of):
        raise SchemaError(f"{surv} needs different columns for times, event and groups.")
    *start, whole = (_declared(c, (), schema) for c in surv.of[:-1])
    if whole.is_factor or any(one.is_factor for one in start):
        raise SchemaError(f"{surv} needs times that are numbers, and levels are declared of one.")
    rising = [c for c in cuts if c is not None and whole.low < c < whole.high]
    if len(rising) < len(cuts) or not 1 <= len(cuts) <= MOST_CLASSES or not (np.diff(rising) > 0.0).all():
        raise SchemaError(
            f"{surv} needs rising cut points, {MOST_CLASSES} at most, above the lower and below the upper bound of "
            f"{whole.column!r}, {whole.low:g} and {whole.high:g}: whoever is followed beyond the last one must be "
            "known to be."
        )
    parts = [_declared(c, surv.group, schema) for c in surv.group]
    parts += [_between(one, [0.0, 0.0, *rising, whole.high], upper=True) for one in start]  # time 0 is a class
    parts += [_between(whole, [whole.low, *rising, whole.high], upper=True)]
    return _crossed(str(surv), (*parts, _declared(surv.of[-1], surv.of[-1:], schema)))
