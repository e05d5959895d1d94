"""Plans of means: declarations, who is asked what, and how answers are randomised, before a row is read. Public."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, Final, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array, Ints
from privreg.collector.aggregate.report import with_noise
from privreg.data.participants import Participants
from privreg.errors import BudgetError, OptionError, SchemaError, real, shown
from privreg.means.mechanisms import factor_mechanism
from privreg.means.terms import MOST_COORDINATES, Asked, Followed, Term, declared_terms, flat
from privreg.options.table import check
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism, bits_sensitivity, blocks_sensitivity, square_sensitivity
from privreg.privacy.noise import derived_key, normals
from privreg.privacy.scalar import NUMBER_MECHANISMS, NumberMechanism, number_mechanism, share
from privreg.schema.declarations import Schema

TWO_ANSWERS: Final = dict.fromkeys(("square_wave", "square_wave_biased", "piecewise"), "duchi")  # For bits, enough


class Item(NamedTuple):
    """One question that a person may be asked, and its place in a report."""

    kind: str  # "number", "factor", or "answered": whether there is a number at all, where values may be missing
    term: int  # Position of its term
    at: int  # Position of its first number in a report
    size: int  # Numbers that it takes: levels of a factor, with one for what is missing, else 1
    mechanism: Any = None  # Randomiser, of numbers on [-1, 1], of "answered" on [0, 1]; None where noise is on sums

    @property
    def here(self) -> slice:
        """Its place in a report."""
        return slice(self.at, self.at + self.size)


@dataclass(frozen=True)
class Plan:
    """Plan of one subgroup, which every device knows before it sees its row."""

    items: tuple[Item, ...]
    asked: int  # Items that a person is asked, m of d, drawn at random for each
    budget: Budget  # Per person
    vector: Mechanism | None = None  # PrivUnit, by which the record goes as a whole
    late: tuple[int, ...] = ()  # Factors of whose reports only sums are drawn, at once, as nothing else is used

    @cached_property
    def size(self) -> int:
        """Numbers in a whole report."""
        return self.items[-1].at + self.items[-1].size

    @cached_property
    def item_of(self) -> NDArray[np.intp]:
        """Item of each number of a report, shape (size,)."""
        return np.repeat(np.arange(len(self.items)), [item.size for item in self.items])

    @property
    def factors(self) -> list[Item]:
        """Factors, each with a block of a report; none where the record goes as a whole."""
        return [item for item in self.items if item.kind == "factor" and self.vector is None]

    @property
    def radius(self) -> float:
        """Radius of whole records: its square adds up 1 for a number, 1/4 for a bit, 1 − 1/L for centred indicators."""
        assert self.vector is not None
        squares = ({"number": 1.0, "answered": 0.25}.get(i.kind, 1.0 - 1.0 / i.size) for i in self.items)
        return self.vector.score_radius(math.sqrt(sum(squares)))

    @cached_property
    def answered(self) -> dict[int, int]:
        """Place in a report that says whether there is a number, by term."""
        return {item.term: item.at for item in self.items if item.kind == "answered"}

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """Numbers of a whole report that are made one by one, and the first of each `late` factor, a mark."""
        many = [1 if j in self.late else item.size for j, item in enumerate(self.items)]
        return np.concatenate([item.at + np.arange(k) for item, k in zip(self.items, many, strict=True)])

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Beginning of each item among `columns`."""
        return np.searchsorted(self.columns, [item.at for item in self.items])

    @property
    def selection(self) -> int:
        """Standard normals by which a person's items are drawn."""
        return {1: 1, len(self.items): 0}.get(self.asked, len(self.items))

    @cached_property
    def slot(self) -> int:
        """Standard normals that an answer takes at most."""
        return max((i.mechanism.width for j, i in enumerate(self.items) if j not in self.late), default=0)

    @property
    def width(self) -> int:
        """Standard normals that a person takes."""
        return self.selection + self.asked * self.slot if self.vector is None else self.vector.width(self.size)

    @property
    def biased(self) -> NDArray[np.bool_]:
        """True for numbers that go through a mechanism whose bias stays, shape (size,)."""
        return np.take([getattr(i.mechanism, "name", "") == "square_wave_biased" for i in self.items], self.item_of)


def _items(
    layout: Sequence[Item], budget: Budget, asked: int, mechanism: str, frequencies: str
) -> tuple[float, tuple[Item, ...]]:
    """Noise of items, and items with mechanisms by these names, so many of which a budget is for.

    "auto" takes the least worst variance. Noise is the sum over items of d/m times the worst variance, ranges scaled to
    length 1, values taken for evenly spread.
    """
    each, noise, out = share(budget, asked), 0.0, list[Item]()
    for item in layout:
        how: Any
        if item.kind == "factor":
            bits = mechanism if mechanism in NUMBER_MECHANISMS else "duchi"
            how = factor_mechanism(frequencies, each, item.size, bits)
            noise += how.mean_variance() + (1.0 - 1.0 / item.size) / item.size
        else:
            low = 0.0 if item.kind == "answered" else -1.0
            names = [mechanism if low else TWO_ANSWERS.get(mechanism, mechanism)]
            if mechanism == "auto":
                names = ["duchi", "piecewise"] if each.pure else ["duchi", "piecewise", "gaussian"]
            how = min((number_mechanism(n, each, low, 1.0) for n in names), key=NumberMechanism.worst_variance)
            # biased answers vary little and tell as little: what their mean, inverted, would be worth
            honest = how if how.unbiased else replace(how, name="square_wave")
            noise += honest.worst_variance() * (0.25 if item.kind == "number" else 1.0) + 1.0 / 12.0
        out.append(item._replace(mechanism=how))
    return noise * len(layout) / asked, tuple(out)


def make_plan(
    terms: Sequence[Term],
    budget: Budget,
    *,
    mechanism: Any = "auto",
    frequencies: Any = "auto",
    m: Any = None,
    nonresponse: bool = False,
    pure: bool | None = None,
    trust: str = "local",
) -> Plan:
    """Choose mechanisms and how many items a person is asked, by options of `PrivateMeans`; `budget` is per person.

    By default `m` is the number with the least noise by the exact worst variances. `nonresponse` says whether values
    may be missing, `pure` whether a budget of another form is to be kept by pure mechanisms alone; by default whichever
    has less noise. Raises OptionError for a wrong option; BudgetError if the budget is pure, and noise on sums.
    """
    name = check("means.arrays", "mechanism", mechanism)
    check("means.arrays", "frequencies", frequencies)
    layout, size = list[Item](), 0
    for k, term in enumerate(terms):
        for kind in ["factor"] if term.levels else ["number", "answered"][: 1 + nonresponse]:
            layout.append(Item(kind, k, size, len(term.levels) + nonresponse if term.levels else 1))
            size += layout[-1].size
    if size > MOST_COORDINATES:
        most = f"at most {MOST_COORDINATES:,} are kept with the products of all pairs"
        raise OptionError(
            f"a report would have {size:,} numbers, and {most}; estimate fewer columns, levels or cut points."
        )
    d = len(layout)
    if m is not None and (isinstance(m, bool) or not isinstance(m, Integral) or not 1 <= int(m) <= d):
        beside = ", counting for every number whether there is one" if nonresponse and d > len(terms) else ""
        raise OptionError(f"m={shown(m)} must be a whole number from 1 to d = {d}, the items there are{beside}.")
    if trust != "local":
        given = {"mechanism": name != "auto", "frequencies": frequencies != "auto", "m": m is not None}
        for option in filter(given.get, given):
            why = f"is about people's reports, and with trust={trust!r} noise is added to sums"
            raise OptionError(f"{option}= {why}; leave it out.")
        return make_sums(tuple(layout), budget, 1 if trust == "central" else 2)
    if name == "privunit" and budget.private:
        if m not in {None, d}:
            raise OptionError(f"mechanism='privunit' sends the whole record; leave m={shown(m)} out, or m={d}.")
        if frequencies != "auto":
            raise OptionError("mechanism='privunit' randomises factors with the rest; leave frequencies= out.")
        spent = budget.as_pure()
        return Plan(_items(layout, spent, d, "auto", "auto")[1], d, spent, Mechanism("privunit", spent))
    if not budget.private:
        name, m = "gaussian", d if m is None else m
    # (ε, δ) and ρ are spent as the μ calibrated to them, which implies both: parts then add up whatever their
    # mechanisms are. Or everything as pure ε.
    forms = [(budget, budget)]
    if budget.private and not budget.pure:
        mixed, alone = (budget, Budget.declare(mu=budget.mu)), (budget.as_pure(), budget.as_pure())
        forms = [mixed] if "gaussian" in {name, frequencies} or pure is False else [alone] if pure else [mixed, alone]
    several = {d, *(d // k for k in (2, 4, 8, 16)), *range(64, 8, -8), *range(1, 9)}
    several = {int(m)} if m is not None else set(range(1, d + 1)) if d <= 64 else several
    least, best = math.inf, Plan((), 0, budget)
    for promised, spent in forms:
        for k in sorted(several, reverse=True):  # ties go to the first
            noise, items = _items(layout, spent, k, name, frequencies)
            if noise < least * (1.0 - 1e-9):
                least, best = noise, Plan(items, k, promised)
    # only sums are needed of the reports of factors: of all if one item is asked, but for bits of any mechanism; beside
    # other answers of the largest with normal noise, which alone makes such sums simple
    hows = {j: item.mechanism for j, item in enumerate(best.items) if item.kind == "factor"}
    if best.asked == 1:
        return replace(best, late=tuple(j for j, how in hows.items() if how.bit is None))
    late = sorted((j for j, how in hows.items() if how.name == "gaussian"), key=lambda j: -best.items[j].size)
    return replace(best, late=tuple(late[:1]))


UNIT: Final = 1 << 20  # Largest distance of two reports in whole numbers, before these are rounded


@dataclass(frozen=True)
class Sums(Plan):
    """Plan of sums of whole records, to which noise is added, and to no report. Made by :func:`make_sums`.

    Each collector adds a rounded normal to each number of the sum, modulo 2⁶⁴; sums being whole numbers, rounding tells
    nothing. Squares of numbers follow at the end of a report. The budget is against whoever adds one of the noises.
    """

    collectors: int = 1  # Parties that add noise: 1 is a trusted curator

    width: ClassVar = 0
    unit: ClassVar = UNIT - 1.0  # Whole numbers that a weight of 1 is: less than UNIT for floating point

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """Weight of each item's block, for which the sum of relative variances is least.

        With weights w and blocks whose largest distance is δ, Σ w² δ² = 1, an estimate's noise has the variance 1/(w μ
        n)². Over the variance of values that are evenly spread (1/3, or (1 − 1/L)/L of each of L levels, averaged over
        them) that is c/w² up to a factor, c = 3 or L²/(L − 1). Σ c/w² is least for w² ∝ √c/δ.
        """
        spread = [math.sqrt(i.size**2 / (i.size - 1.0) if i.kind == "factor" else 3.0) for i in self.items]
        each = list(zip(self.items, spread, map(_distance, self.items), strict=True))
        whole = sum(c * d for item, c, d in each if item.kind != "answered")
        return tuple(math.sqrt(c / (d * whole)) for _, c, d in each)

    @cached_property
    def squared(self) -> list[int]:
        """Items whose squares follow."""
        return [j for j, item in enumerate(self.items) if item.kind == "number"]

    @cached_property
    def scales(self) -> Array:
        """Whole numbers that 1 is, by number of a report; shape (width,)."""
        each = np.array(self.weights)
        return self.unit * np.concatenate([each[self.item_of], math.sqrt(2.0) * each[self.squared]])

    @property
    def sd(self) -> float:
        """Sd of the normal that a collector rounds and adds, in whole numbers."""
        # an item that says whether there is a number belongs to the number's block
        each = [(UNIT * w, _distance(i)) for i, w in zip(self.items, self.weights, strict=True) if i.kind != "answered"]
        return blocks_sensitivity(*zip(*each, strict=True), rounded=len(self.scales)) / self.budget.mu

    def noised(self, exact: Ints, key: bytes) -> Array:
        """Release a sum, or several, shape (…, width): add each collector's noise, from a key for them alone."""
        for k in range(self.collectors if self.budget.private else 0):
            drawn = normals(derived_key(key, f"collector {k}"), exact.size).reshape(exact.shape)
            exact = with_noise(exact, self.sd, drawn)
        return exact.astype(np.float64)

    def variances(self, people: int) -> Array:
        """Variances of the noise in means over so many people, by number of a report; shape (width,)."""
        return np.asarray(self.collectors * (self.sd / (self.scales * people)) ** 2)


def _distance(item: Item) -> float:
    """Largest distance of two blocks of a report, of levels or of a number, its square and whether there is one."""
    return bits_sensitivity(2) if item.kind == "factor" else square_sensitivity()


def make_sums(items: tuple[Item, ...], budget: Budget, collectors: int) -> Sums:
    """Plan sums of reports that hold the items.
    Raises BudgetError if the budget is pure, which normal noise can't keep, or so small that noise would overflow.
    """
    if budget.pure:
        who = "a curator's" if collectors == 1 else "two collectors'"
        raise BudgetError(
            f"noise on {who} sums is Gaussian, which can't keep pure {budget.epsilon:g}-DP; give mu= or rho=, or "
            "delta=1e-6 with epsilon=, or take trust='local'."
        )
    made = Sums(items, len(items), budget, collectors=collectors)
    if made.sd > 2.0**58:
        raise BudgetError(f"{budget} needs noise beyond 64-bit sums; give a larger budget, mu=1 say.")
    return made


@dataclass(frozen=True)
class Spec:
    """Declarations of estimates."""

    formula: str
    terms: tuple[Term, ...]
    schema: Schema
    budget: Budget  # Budget as asked for
    people: Participants
    by: str | None  # Column of public subgroups
    groups: tuple[Any, ...]  # Their levels; one nameless subgroup if there is no such column
    plans: tuple[Plan, ...]  # Plans by subgroup

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that hold what is estimated, and the subgroup."""
        estimated = dict.fromkeys(c for t in self.terms for c in t.columns)
        return (*estimated, *([] if self.by is None else [self.by]))

    @property
    def trust(self) -> str:
        """Parties that people have to trust: "local" for none, "two_collectors", "central"."""
        plan = self.plans[0]
        return "local" if not isinstance(plan, Sums) else "central" if plan.collectors == 1 else "two_collectors"

    @property
    def spent(self) -> Budget:
        """Largest budget that anybody spends on one row."""
        return max((p.budget for p in self.plans), key=lambda b: b.mu)

    def concerned(self, terms: frozenset[int]) -> NDArray[np.bool_]:
        """Which of the estimates are of some of the `terms`, given by their positions, shape (p,)."""
        return np.array([k in terms for k, term in enumerate(self.terms) for _ in term.names], dtype=np.bool_)

    @property
    def total_mu(self) -> float:
        """GDP parameter per person of a release, all rows of a person together."""
        return math.sqrt(self.people.max_per_id) * self.spent.mu


def declared(
    asked: Sequence[Asked], budget: Budget, schema: Schema, people: Participants, by: Any, by_budget: Any, **how: Any
) -> Spec:
    """Check declarations and plan who is asked what; `how` goes to :func:`make_plan`."""
    terms, names, trust = declared_terms(asked, schema), flat(asked), how.get("trust", "local")
    people.check_columns(names)
    if people.max_per_id > 1 and trust != "local":
        why = f"with trust={trust!r} all rows of a person would be in one sum, whose noise hides one"
        raise OptionError(f"max_per_id={people.max_per_id}: {why}; use max_per_id=1, or trust='local'.")
    if people.missing == "drop" and trust != "local":
        why = f"tells how many rows can be used, which is not public with trust={trust!r}"
        raise OptionError(f"missing='drop' {why}; use 'noise'.")
    if by is None and by_budget is not None:
        raise OptionError("by_budget= is by subgroup; name their public column too, by='column'.")
    if by is not None and not isinstance(by, str):
        raise OptionError(f"by={shown(by)} must be the name of a column of public subgroups.")
    if by is not None and by not in schema.levels:
        raise SchemaError(f"by={by!r} needs its public levels; give levels={{{by!r}: [...]}} with all of them.")
    if by in {*names, *people.columns}:
        raise SchemaError(f"by={by!r} is public, so nothing about it is to be estimated; take it out of the rest.")
    groups: Sequence[Any] = (None,) if by is None else schema.levels[by]
    if by_budget is not None and not isinstance(by_budget, Mapping):
        raise OptionError(f"by_budget must be a mapping from subgroups, got {type(by_budget).__name__}.")
    if by_budget and not budget.private:
        raise BudgetError("by_budget= needs a budget of the model, the largest of all, and mu=None is none.")
    budgets = dict.fromkeys(groups, budget)  # in the form of the model's
    for name, given in (by_budget or {}).items():
        group, value = normalize("NFC", name) if isinstance(name, str) else name, real(given)
        if group not in groups:
            raise OptionError(f"by_budget names {shown(group)}, no subgroup; they are {', '.join(map(repr, groups))}.")
        if value is None or not 0.0 < value <= budget.asked[0]:
            must = f"be a number above 0 and at most the model's budget, {budget.asked[0]:g}"
            raise BudgetError(f"by_budget[{group!r}] is {shown(given)}; it must {must}.")
        budgets[group] = Budget.restore(budget.form, (value, *budget.asked[1:]))
    followed = any(isinstance(term, Followed) for term in terms)  # whose times may be none, whatever is missing
    how["nonresponse"] = people.missing == "noise" or people.id is not None or followed
    most = max(budgets.values(), key=lambda b: b.mu)  # all keep the kind of guarantee that suits it best
    kind = make_plan(terms, most, **how).budget.pure
    plans = tuple(make_plan(terms, b, pure=kind, **how) for b in budgets.values())
    right = f"C({group})" if (group := getattr(terms[0], "group", "")) else "1"
    formula = f"{' + '.join(t.written for t in terms)} ~ {right}"
    return Spec(formula, terms, schema, budget, people, by, tuple(groups), plans)
