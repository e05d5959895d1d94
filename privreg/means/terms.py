"""Terms to be estimated: means of numbers and of their products, shares of factors, of pairs of them, of classes of a
number, and of times until an event. Public.
"""

import ast
import math
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


class Asked(NamedTuple):
    """Request of a column, of two whose levels are crossed or whose numbers are multiplied, of a cut() or a Surv()."""

    columns: tuple[str, ...]  # One, two, or of a Surv() the time of entry, if people enter late, time and event
    factor: bool = False  # True if their levels must be declared
    kind: str = ""  # "cut" or "Surv"
    # Classes of equal length, or breaks between them; of a Surv() times at which curves are estimated, rising
    cuts: Any = ()
    group: tuple[str, ...] = ()  # Factor whose levels have a curve each, if there is one

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(self.columns)})" if self.kind else ":".join(self.columns)


EVENTS: Final = (0, 1)  # Levels of an event that has none declared: censored, and happened
MOST_CLASSES: Final = 200  # Classes of a histogram, at most
MOST_COORDINATES: Final = 2_000  # Numbers in a report, at most: the collector keeps products of all pairs of them


def flat(asked: Sequence[Asked]) -> list[str]:
    """Columns of requests, each once."""
    return list(dict.fromkeys(c for one in asked for c in (*one.group, *one.columns)))


@dataclass(frozen=True)
class Term:
    """One column of which something is estimated, or several whose levels, or two whose numbers, go together.

    Products are of differences to the middles of the declared ranges, whose noise is least.
    """

    column: str
    low: float = 0.0  # Public range of a number; 0 and 1 for a factor
    high: float = 1.0
    levels: tuple[Any, ...] = ()  # Public levels of a factor, tuples of them of several; empty for a number
    parts: tuple["Term", ...] = ()  # The factors or numbers, or the number that is cut
    edges: tuple[float, ...] = ()  # Between which classes of a number are, ends included

    @property
    def leaves(self) -> tuple["Term", ...]:
        """Terms of one column each that it is made of, as they are declared."""
        return tuple(leaf for part in self.parts for leaf in part.leaves) or (self,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it needs."""
        return tuple(leaf.column for leaf in self.leaves)

    @property
    def middle(self) -> float:
        """Middle of its range."""
        return 0.5 * (self.low + self.high)

    @property
    def half(self) -> float:
        """Half the length of its range."""
        return 0.5 * (self.high - self.low)

    @property
    def is_product(self) -> bool:
        """True if it is a number times a number, or itself."""
        return len(self.parts) == 2 and not self.levels

    @property
    def written(self) -> str:
        """It in a formula."""
        if self.edges:
            return f"cut({self.columns[0]}, [{', '.join(f'{e:g}' for e in self.edges)}])"
        if self.is_product:
            one, other = self.columns
            return f"I({one}**2)" if one == other else f"{one}:{other}"
        return ":".join(f"C({c})" for c in self.columns) if self.levels else self.column

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

    def to_json(self) -> list[Any]:
        """Represent it by JSON values, levels as they are shown."""
        levels = self.labels if len(self.parts) < 2 else ()
        return [self.column, self.low, self.high, levels, [part.to_json() for part in self.parts], self.edges]


@dataclass(frozen=True)
class Followed(Term):
    """Times and events of a ``Surv()``, crossed with the factor of groups and the times of entry if there are any.

    The last class of times is beyond all cut points.
    """

    @property
    def times(self) -> Term:
        """Classes of the time until an event or censoring."""
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
    def written(self) -> str:
        """It in a formula."""
        return f"{self.column[:-1]}, [{', '.join(f'{c:g}' for c in self.cuts)}])"


def places(terms: Sequence[Term]) -> list[int]:
    """Position of each term's first estimate, and then how many there are."""
    return [0, *accumulate(max(len(term.levels), 1) for term in terms)]


def from_json(column: str, low: float, high: float, levels: Any, parts: Any, edges: Any) -> Term:
    """Rebuild a term from its :meth:`Term.to_json`. Raises ValueError if it has more levels than a report numbers."""
    made, ends = tuple(from_json(*part) for part in parts), tuple(map(float, edges))
    if math.prod(max(len(part.levels), 1) for part in made) > MOST_COORDINATES:
        raise ValueError("more levels than a report has numbers")  # load() says that the file is damaged
    if len(made) > 1 and made[0].levels:
        return crossed(str(column), made)
    return Term(str(column), float(low), float(high), tuple(map(str, levels)), made, ends)


def read_formula(formula: str) -> list[Asked]:
    """Requests of a formula, in order.
    Raises FormulaError if it is not a sum of columns with 1, or nothing, on the right of the tilde.

    Examples
    --------
    >>> [one.columns for one in read_formula("age + Q('body mass') + C(sex):C(region) ~ 1")]
    [('age',), ('body mass',), ('sex', 'region')]
    """
    if (meant := equation(formula)) is not None:
        raise FormulaError(f"the formula {formula!r} has no '~'; write {meant!r}.")
    left, _, right = formula.partition("~")
    tree = syntax(_COLON.sub(lambda m: m[1] or ("@" if m[0] == ":" else "@@"), left.strip()))
    if tree is None:
        raise FormulaError(f"the formula can't be read; {_FORM}.")
    nodes = [tree]
    while isinstance(nodes[0], ast.BinOp) and isinstance(nodes[0].op, ast.Add):
        nodes[:1] = [nodes[0].left, nodes[0].right]
    for node in nodes:
        refuse_deep(node, left)
    asked = list(map(_summand, nodes))
    if right.strip() in {"", "1"}:
        return _once(asked, "the formula")
    if len(asked) != 1 or asked[0].kind != "Surv":
        raise FormulaError(
            "means have no covariates: the right of '~' is 1 (means by subgroup come with by='column'; for a "
            "regression use PrivateOnlineRegression)."
        )
    if (group := syntax(right.strip())) is None or isinstance(group, ast.BinOp):
        raise FormulaError(
            f"Surv() has curves by the levels of one factor: write {asked[0]} ~ C(arm), or ~ 1 for one curve; for two "
            "factors make a column of combined levels beforehand, row by row."
        )
    return [asked[0]._replace(group=_column(group).columns)]


def _summand(node: ast.expr) -> Asked:
    """Request of a summand."""
    match node:
        case ast.BinOp(left, ast.MatMult(), right):
            one, other = _column(left), _column(right)
            if one.columns == other.columns:
                raise FormulaError(f"the formula crosses {one.columns[0]!r} with itself; {_FORM}.")
            return Asked(one.columns + other.columns, one.factor or other.factor)
        case ast.Call(ast.Name("I"), [ast.BinOp(left, ast.Mult(), right)], []):
            return Asked(_column(left).columns + _column(right).columns)
        case ast.Call(ast.Name("I"), [ast.BinOp(left, ast.Pow(), ast.Constant(2))], []):
            return Asked(_column(left).columns * 2)
        case ast.Call(ast.Name("cut"), [number, *more], []) if len(more) < 2:
            cuts = _literal(node, more[0]) if more else 20
            return Asked(_column(number).columns, kind="cut", cuts=tuple(cuts) if isinstance(cuts, list) else cuts)
        case ast.Call(ast.Name("Surv"), [*of, ast.List() | ast.Tuple() | ast.Constant() as at], []) if 1 < len(of) < 4:
            times = tuple(np.ravel(_literal(node, at)).tolist())
            return Asked(tuple(_column(c).columns[0] for c in of), kind="Surv", cuts=times)
        case ast.Call(ast.Name("Surv")):
            raise FormulaError(
                "Surv() takes a time, an event, and a list of the public times at which curves are estimated: Surv("
                "time, event, [30, 60, 90]), or, with late entry, Surv(start, stop, event, [30, 60, 90])."
            )
    return _column(node)


def _literal(node: ast.expr, part: ast.expr) -> Any:
    try:
        return ast.literal_eval(part)
    except ValueError:
        raise _refused(node) from None


def _once(asked: list[Asked], where: str) -> list[Asked]:
    """Refuse what is asked twice, pairs in any order."""
    seen = [(one.kind, sorted(one.columns)) for one in asked]
    for k, one in enumerate(asked):
        if seen[k] in seen[:k]:
            raise FormulaError(f"{where} names {str(one)!r} twice; once is enough.")
    return asked


def _refused(node: ast.expr) -> FormulaError:
    return FormulaError(
        f"the formula has {ast.unparse(node).replace(' @ ', ':')[:60]!r}, which is not a column; {_FORM}. Make other "
        "columns beforehand, row by row."
    )


def _column(node: ast.expr) -> Asked:
    """Request of the column that a name, Q() or C() is of."""
    match node:
        case ast.Name(name) | ast.Call(ast.Name("Q"), [ast.Constant(str(name))], []):
            return Asked((name,))
        case ast.Call(ast.Name("C"), [ast.Name() | ast.Call(ast.Name("Q")) as inside], []):
            return Asked(_column(inside).columns, factor=True)
    raise _refused(node)


def read_columns(columns: object) -> list[Asked]:
    """Requests of a list of columns, and of pairs of them.
    Raises FormulaError if it is not a list of different names.
    """
    listed = columns if isinstance(columns, Sequence) and not isinstance(columns, str) else []
    if listed and all(isinstance(one, Asked) for one in listed):
        return list(listed)  # of a formula
    asked = [one if isinstance(one, tuple) and len(one) == 2 else (one,) for one in listed]
    if not asked or not all(isinstance(name, str) and name for one in asked for name in one):
        must = "columns must be a list of names, one or more, such as ['age', 'bmi']"
        raise FormulaError(f"{must}, or pairs of them as ('sex', 'region'), got {type(columns).__name__}.")
    return _once(list(map(Asked, asked)), "columns")


def declared_terms(asked: Sequence[Asked], schema: Schema) -> tuple[Term, ...]:
    """Terms of requests, with their public declarations.
    Raises SchemaError if a column has neither finite bounds nor levels, or the wrong ones.
    """
    if sum(one.kind == "Surv" for one in asked) > 1:
        raise FormulaError("the formula has more than one Surv(); estimate each by itself, at a part of the budget.")
    terms = tuple(_declared(one, schema) for one in asked)
    names = [n for term in terms for n in term.names]
    if len(set(names)) < len(names):
        raise SchemaError("two estimates would have the same name, from levels that read alike; rename a level.")
    return terms


def _leaf(name: str, schema: Schema, *, factor: bool = False) -> Term:
    """A column as it is declared."""
    if name in schema.levels:
        return Term(name, levels=schema.levels[name])
    if factor:
        raise SchemaError(f"C({name}) needs public levels; give levels={{{name!r}: [...]}} with all of them.")
    low, high = schema.limits(name)
    if not np.isfinite([low, high]).all():
        raise SchemaError(
            f"column {name!r} has no public range: a mean needs bounds={{{name!r}: (low, high)}}, a factor "
            f"levels={{{name!r}: [...]}}.{meant(name, [*schema.bounds, *schema.levels])}"
        )
    if not low < high:
        raise SchemaError(f"bounds[{name!r}] = ({low:g}, {high:g}) leave one value, the mean; leave the column out.")
    return Term(name, low, high)


def crossed(column: str, parts: tuple[Term, ...]) -> Term:
    """Factors whose levels go together; a ``Surv()`` if the one before the last is of classes."""
    kind = Followed if parts[-2].edges else Term
    return kind(column, levels=tuple(product(*(part.levels for part in parts))), parts=parts)


def between(whole: Term, ends: Sequence[float], *, upper: bool = False) -> Term:
    """Classes of a number between `ends`, which hold their lower ends, or their `upper` ones."""
    labels = tuple(f"{a:.6g} to {b:.6g}" if a < b else f"{a:.6g}" for a, b in pairwise(ends))
    inner = np.nextafter(ends[1:-1], np.inf).tolist() if upper else ends[1:-1]
    return Term(f"cut({whole.column})", levels=labels, parts=(whole,), edges=(ends[0], *inner, ends[-1]))


def _declared(asked: Asked, schema: Schema) -> Term:
    """Term of a request, with its public declarations.

    Of a ``Surv()`` times and events are crossed with the factor of groups if there is one. A time that is a cut point
    belongs to the class that ends there, and whoever has none of the cut points ahead to the last class, of whom it is
    known that they were followed until the last cut point.
    """
    factors = asked.factor or (len(asked.columns) > 1 and any(c in schema.levels for c in asked.columns))
    if not asked.kind:
        one, *others = parts = tuple(_leaf(c, schema, factor=factors) for c in asked.columns)
        if not others:
            return one
        if not factors:
            most = one.half * others[0].half
            return Term(str(asked), 0.0 if one == others[0] else -most, most, parts=parts)
        if one == others[0]:
            raise SchemaError(f"{one.column!r} is crossed with itself; name another factor, or it alone.")
        return crossed(str(asked), parts)
    if asked.kind == "cut":
        whole, breaks = _leaf(asked.columns[0], schema), asked.cuts
        if whole.levels:
            raise SchemaError(f"{asked} needs a number with bounds, and {whole.column!r} has levels.")
        if isinstance(breaks, int) and not isinstance(breaks, bool) and 2 <= breaks <= MOST_CLASSES:
            breaks = tuple(np.linspace(whole.low, whole.high, breaks + 1)[1:-1].tolist())
        numbers = [real(b) for b in breaks] if isinstance(breaks, tuple) else []
        edges = [whole.low, *(b for b in numbers if b is not None and whole.low < b < whole.high), whole.high]
        if None in numbers or not 3 <= len(edges) <= MOST_CLASSES + 1 or not (np.diff(edges) > 0.0).all():
            must = f"takes a number of classes, 2 to {MOST_CLASSES}, or rising breaks in a list, within the bounds"
            raise SchemaError(f"cut({whole.column}, …) {must}.")
        return between(whole, edges)
    if len(flat([asked])) < len(asked.group) + len(asked.columns):
        raise SchemaError(f"{asked} needs different columns for times, event and groups.")
    *start, whole = (_leaf(c, schema) for c in asked.columns[:-1])
    if whole.levels or any(one.levels for one in start):
        raise SchemaError(f"{asked} needs times that are numbers, and levels are declared of one.")
    cuts = [real(c) for c in asked.cuts]
    rising = [c for c in cuts if c is not None and max(whole.low, 0.0) < c < whole.high]
    if len(rising) < len(cuts) or not 1 <= len(cuts) <= MOST_CLASSES or not (np.diff(rising) > 0.0).all():
        raise SchemaError(
            f"{asked} needs rising cut points, {MOST_CLASSES} at most, within the bounds of {whole.column!r}, "
            f"{whole.low:g} and {whole.high:g}: a larger upper bound tells who was followed beyond the last one."
        )
    groups = [_leaf(c, schema, factor=True) for c in asked.group]
    entry = [between(one, [0.0, 0.0, *rising, whole.high], upper=True) for one in start]  # time 0 is a class
    times = between(whole, [max(whole.low, 0.0), *rising, whole.high], upper=True)
    return crossed(str(asked), (*groups, *entry, times, _leaf(asked.columns[-1], schema, factor=True)))
