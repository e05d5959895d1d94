"""The ledger of releases: the μ that was spent on the same people, entered before a release; limits on it."""

import hashlib
import math
import threading
import weakref
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any, Final

from privreg.errors import BudgetError, NotPrivateError, number
from privreg.privacy.accounts import Account, Accounts, accounts_of
from privreg.privacy.budget import REPORTED_DELTA, UNSET, Budget, at_least, at_most, compose, within
from privreg.privacy.conversions import gdp_delta, gdp_epsilon, gdp_mu

__all__ = [
    "LEDGER", "REPORTED_DELTA", "UNSET", "Budget", "Charge", "Ledger", "Release", "at_least", "at_most", "compose",
    "gdp_delta", "gdp_epsilon", "gdp_mu", "limit_spending", "refuse_fitted", "refuse_shared", "within",
]  # fmt: skip


@dataclass(frozen=True)
class Release:
    """One release as the ledger saw it."""

    number: int  # 1 of the first release from these data in this process; 0 if nothing can tell whose data they are
    total_mu: float  # GDP parameter of all of them together, per person
    dataset: str = ""  # The names that the people were given; without one a copy of their data is not known for theirs

    def words(self, whose: str = "these data") -> str:
        """Number of this release from the data named by `whose`, and the total μ of all of them, in words."""
        if self.number == 0:
            return "not counted: streams, queries and plain lists have no source to count by; dataset= names the people"
        whose = self.dataset or whose
        more = "" if self.dataset else "; of a copy nobody can know: dataset= names its people"
        if self.number == 1:
            return f"release 1 from {whose} in this process{more}"
        total = f"{within(self.total_mu, 4)}-GDP in all" if self.total_mu < math.inf else "not private in all"
        return f"release {self.number} from {whose} in this process: {total}{more}"

    __str__ = words


@dataclass
class _People:
    """People whom some accounts identify, and the releases about them."""

    known: list["_Known"] = field(default_factory=list)  # Their accounts
    # Cost μ as many times as somebody is in the rows, by release, number of the account and call of `spend`
    entered: dict[int, dict[Hashable, dict[int, list[float]]]] = field(default_factory=dict)
    costs: dict[int, list[float]] = field(default_factory=dict)  # Costs μ of each release

    def enter(self, of: int, entered: Mapping[Hashable, Mapping[int, list[float]]]) -> None:
        """Enter a release's calls, by account; two columns of one buffer are one.

        It costs as much as in the account in which it was entered most often: others are about the same rows.
        """
        here, costs, made = self.entered.get(of, {}), [self.costs.get(of, [])], dict[Hashable, dict[int, list[float]]]()
        for account, calls in entered.items():
            held = here.get(account, {})
            made[account] = held | {call: max(mus, held.get(call, []), key=len) for call, mus in calls.items()}
            costs.append(list(chain.from_iterable(made[account].values())))
        self.costs[of] = max(costs, key=compose)  # first: an interrupt may count too much, never too little
        self.entered.setdefault(of, {}).update(made)

    def add(self, other: "_People") -> None:
        """Take in what was entered for others who are the same people."""
        for of, entered in other.entered.items():
            self.costs[of] = max(self.costs.get(of, []), other.costs[of], key=compose)
            self.enter(of, entered)

    def all(self, besides: Iterable[int] = ()) -> list[float]:
        """Costs of all releases, but for some."""
        return [mu for of, mus in self.costs.items() if of not in besides for mu in mus]


@dataclass
class _Known:
    """An account in which something was entered."""

    number: int  # Another's than of one that had its key before
    people: _People
    owners: set[int]  # Numbers of the objects that it goes with; 0 if it stays
    releases: set[int]  # Numbers of releases that were entered in it
    bare: list[tuple[int, int]]  # Parts of the buffer, without gaps, of which one had no noise
    kept: Any = None  # Memory that others may share unseen


class Ledger:
    """Releases from each data source in this process.

    The same people are those of the same object, the same buffer, the same file or the same ``dataset=``; of a copy
    nobody can know. All views of a buffer are the same people, whichever rows they show and whichever library shows
    them; only the batches of one stream and the silos of one fit are others. A table counts as itself and by its
    columns, a mapping by its columns, a list by its members in any order, a file by device and inode. Columns that were
    in one table are the same people's from then on, and so are a table and the name that was given to it. Where a query
    will look for rows is not known, so a limit asks for a name of their people.

    Entries go when the object goes; memory of Arrow, polars and bytes (unpickled arrays, say), which don't tell when it
    goes, is kept until the process ends, if noise was secret. Entries of files and names stay. Fits enter their
    releases in the process's own ledger before the first report; a ledger made here keeps what you enter yourself.

    A release that would exceed the `limit` is refused before it is made; :func:`limit_spending` limits the process's.
    Raises BudgetError if `limit` is not a positive number, or None for no limit.

    Examples
    --------
    >>> ledger = Ledger(limit=1.5)
    >>> ledger.spend("people.csv", 1.0).total_mu
    1.0
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self._spent: dict[Hashable, dict[tuple[int, int], _Known]] = {}  # Accounts by key and span
        self._names: dict[str, int] = {}  # Releases that may go on, by name
        self._seeded = set[int]()  # Releases whose noise follows from a seed
        # Objects whose entries are to go, and keys of these; garbage may be collected at any time
        self._gone: deque[tuple[int, Hashable]] = deque()
        self._count = self._accounts = 0
        self._lock = threading.RLock()  # re-entrant: collecting garbage inside may end an entry

    @property
    def limit(self) -> float | None:
        """Largest μ per person of all releases from one source together; None for no limit."""
        return self._limit

    @limit.setter
    def limit(self, limit: float | None) -> None:
        must = "be a positive number, the mu per person, or None"
        self._limit = None if limit is None else number("limit", limit, must, error=BudgetError)

    def spent(self, source: Any) -> float:
        """Return the μ per person of all releases from `source` so far, 0 if there were none."""
        return max(map(compose, self._costs(accounts_of(source).now())), default=0.0)

    def _costs(self, accounts: list[Account], *, seeded: bool = True) -> list[list[float]]:
        """Costs μ of releases by the people of some accounts; with `seeded` also those whose noise follows a seed."""
        with self._lock:
            self._tidy()
            besides = () if seeded else self._seeded
            return [_whole(self._met(people)).all(besides) for people in _by_group(accounts)]

    def _private(self, accounts: list[Account], *, simulated: bool = False) -> bool:
        """True if rows of some accounts can't be public, as people in them were fitted with noise.

        Nothing is private any more of rows all of whose known columns were fitted without.
        `simulated` leaves out releases whose noise follows from a seed.
        """
        with self._lock:
            for people, costs in zip(_by_group(accounts), self._costs(accounts, seeded=not simulated), strict=True):
                met = [one for one in people if self._met([one])]  # of a copy nothing is known
                columns = [one for one in met if one.key[0] == "memory"] or met
                bare = [[b for known in self._spent.get(one.key, {}).values() for b in known.bare] for one in columns]
                public = (
                    any(b[0] <= a.part[0] < a.part[1] <= b[1] for b in of) for a, of in zip(columns, bare, strict=True)
                )
                if not all(public) and any(0.0 < mu < math.inf for mu in costs):
                    return True
        return False

    def check(self, source: Any, mu: float) -> None:
        """Refuse a release of `mu` per person from `source` that would exceed the limit; enter nothing.
        Raises BudgetError if it would, or if there is a limit and the source can't be followed.
        """
        with self._lock:
            self._tidy()
            accounts = accounts_of(source)
            self._check(accounts, known := accounts.now(), known, mu, 0)

    def _check(self, accounts: Accounts, known: list[Account], new: list[Account], mu: float, of: int) -> None:
        """Refuse a release, 0 if it is none so far, that is to be entered in the `new` ones of the `known` accounts."""
        limit = self._limit
        if limit is None:
            return
        if not accounts.whole or not known:
            raise BudgetError(
                f"this ledger allows {at_least(limit, 4)}-GDP per person, but rows that come as a stream have no "
                "source to count by, nor have plain lists, nor tables that don't tell where their rows are; give a "
                "DataFrame, arrays, an Arrow or polars table or a file, name the people by dataset=, or take the "
                "limit away."
            )
        dearer = list[tuple[list[float], list[float]]]()  # Costs before this release, and with it
        for people in self._joined(known):
            here, met = [one for one in people if any(one is other for other in new)], self._met(people)
            calls = (whole := _whole(met)).entered.get(of, {})
            for account, entry in self._entries(here, 0, mu).items():
                if account in calls:  # the same rows again
                    before = whole.all({of}) + list(chain.from_iterable(calls[account].values()))
                    dearer.append((before, before + entry[0]))
            spent = max((one.all() for one in met), key=compose) if calls else whole.all()
            after = _whole([whole, _People()])
            after.enter(of, self._entries(here, 0, mu))
            if here and (math.inf in spent or compose(after.all()) > compose(spent)):
                dearer.append((spent, after.all()))
        if not dearer:
            return
        spent, more = max(dearer, key=lambda costs: compose(costs[1]))
        total, used = compose(more), compose(spent)
        if math.isinf(used):
            raise BudgetError(
                "these data have been fitted without noise (mu=None) in this process: nothing about them is private "
                "any more, and no further release can be within a limit; use other people, or take the limit away."
            )
        if total <= limit * (1 + 1e-12):  # k equal parts of √k pass, whatever their last bits
            return
        left = math.sqrt(max((limit - used) * (limit + used), 0.0))
        less = f"ask for mu={at_most(left, 4)} or less, " if left > 1e-6 * limit else ""
        raise BudgetError(
            f"release {len(spent) + 1} from these data would cost {_words(total)} per person in all "
            f"({_words(used)} is spent, {_words(mu)} was asked for), and this ledger allows {_words(limit)}; "
            f"{less}use other people, or allow more."
        )

    def spend(
        self, source: Any, mu: float, *, seeded: bool = False, release: str = "", before: str = "", stream: str = ""
    ) -> Release:
        """Enter a release of `mu` per person from `source` and return the running total.

        Its noise follows from a seed if it is `seeded`, as in simulations, whose rows are nobody's. Under the name
        `release` it is entered once, and again if it costs more than it did. What is entered under `before`, the name
        before an interruption, has the new name then, so that of two that go on from there with different noise the
        second counts anew. `stream` is a name of the release that `source` is a batch of: people of one array or
        ``dataset=`` are entered once for all.
        Raises BudgetError as :meth:`check` does, before anything is entered.
        """
        with self._lock:
            self._tidy()
            accounts = accounts_of(source)
            known = accounts.now()
            if not mu >= 0.0:
                raise BudgetError("a release costs mu, a positive number.")
            of = next((self._names[name] for name in (stream, release, before) if name in self._names), 0)
            begun = not of
            costs = [_whole(self._met([one])).costs.get(of) for one in known]
            asked = [mu * math.sqrt(one.times) * (1.0 - 1e-12) for one in known]
            fewer = [cost is None or compose(cost) < least for cost, least in zip(costs, asked, strict=True)]
            new = [one for one, less in zip(known, fewer, strict=True) if less or (stream and not one.shared)]
            if new or not known:
                self._check(accounts, known, new, mu, of)
            if not known:
                return Release(0, mu)
            self._count += bool(new)
            of = of or self._count
            if name := stream or release:
                self._names.pop(before, None)
                self._names[name] = of
            if not seeded:
                self._seeded.discard(of)
            elif begun:
                self._seeded.add(of)
            for here in _by_group(new):
                met = self._join([one for one in known if one.group == here[0].group])
                for one in here:
                    self._know(one, met, of, mu, stays=one.owner is None or (one.kept is not None and not seeded))
                met.enter(of, self._entries(here, self._count, mu))
            most = max(self._costs(known), key=compose) or [mu]  # there may be no rows
            called = dict.fromkeys(repr(account.key[1]) for account in known if account.key[0] == "dataset")
            unknown = accounts.lost and not called and len(most) == 1  # but for the object itself
            return Release(0 if unknown else len(most), compose(most), " and ".join(called))

    def _tidy(self) -> None:
        """Take away the entries of objects that are gone."""
        while self._gone:
            owner, key = self._gone.popleft()
            for span, known in list(self._spent.get(key, {}).items()):
                known.owners.discard(owner)
                if not known.owners:
                    del self._spent[key][span]
                    known.people.known.remove(known)
                    for of in known.releases:  # which cost what they did; one that was interrupted has no entry
                        known.people.entered.get(of, {}).pop(known.number, None)
            if not self._spent.get(key, True):
                del self._spent[key]

    def _know(self, one: Account, people: _People, of: int, mu: float, *, stays: bool) -> None:
        """Note an account of people for a release of `mu`, as long as its owner lives, or for ever."""
        held = self._spent.setdefault(one.key, {})
        if one.span not in held:
            self._accounts += 1
            people.known.append(held.setdefault(one.span, _Known(self._accounts, people, set(), set(), [])))
        known, owner = held[one.span], 0 if stays else id(one.owner)
        known.releases.add(of)
        known.bare += [one.part] * (mu == math.inf and one.dense and one.part not in known.bare)
        if owner and owner not in known.owners:
            try:
                weakref.finalize(one.owner, self._gone.append, (owner, one.key)).atexit = False
            except TypeError:  # as of a bytearray: it is kept
                one, stays, owner = one._replace(kept=one.owner), True, 0
        known.kept = known.kept if known.kept is not None or not stays else one.kept
        known.owners.add(owner)

    def _entries(self, accounts: Iterable[Account], call: int, mu: float) -> dict[Hashable, dict[int, list[float]]]:
        """Entries of a call in accounts, by number or, of new ones, key; of two columns of a buffer the dearer one."""
        out: dict[Hashable, dict[int, list[float]]] = {}
        for one in sorted(accounts, key=lambda one: one.times):
            known = self._spent.get(one.key, {}).get(one.span)
            out[(one.key, one.span) if known is None else known.number] = {call: [mu] * one.times}
        return out

    def _met(self, accounts: Iterable[Account]) -> list[_People]:
        """People whom any of some accounts identifies, with the most releases first."""
        met = dict[int, _People]()
        for one in accounts:
            for span, known in self._spent.get(one.key, {}).items():
                if one.span[0] < span[1] and span[0] < one.span[1]:
                    met[id(known.people)] = known.people
        return sorted(met.values(), key=lambda people: -len(people.entered))

    def _join(self, accounts: Iterable[Account]) -> _People:
        """People of some accounts, from now on the same."""
        first, *others = self._met(accounts) or [_People()]
        for other in others:
            first.add(other)
            first.known += other.known
            for known in other.known:
                known.people = first
        return first

    def _joined(self, accounts: Iterable[Account]) -> list[list[Account]]:
        """Accounts by the people whom they are of once they are entered: groups may turn out to be the same people."""
        out = list[tuple[set[Hashable], list[Account]]]()
        for people in _by_group(accounts):
            tokens: set[Hashable] = {(one.key, one.span) for one in people} | {id(one) for one in self._met(people)}
            same = [one for one in out if not tokens.isdisjoint(one[0])]
            out = [one for one in out if tokens.isdisjoint(one[0])]
            out.append((tokens.union(*(one[0] for one in same)), [*people, *(a for one in same for a in one[1])]))
        return [people for _, people in out]

    def __repr__(self) -> str:
        limit = "no limit" if self.limit is None else f"limit {_words(self.limit)} per person"
        return f"<Ledger: {self._count} release{'' if self._count == 1 else 's'}, {limit}>"


def _whole(people: list[_People]) -> _People:
    """All that was entered for some people together."""
    if len(people) == 1:
        return people[0]
    out = _People()
    for one in people:
        out.add(one)
    return out


def _by_group(accounts: Iterable[Account]) -> list[list[Account]]:
    """Accounts by the people whom they are of."""
    ordered = sorted(accounts, key=lambda one: one.group)
    return [list(people) for _, people in groupby(ordered, key=lambda one: one.group)]


def _words(mu: float) -> str:
    return f"{at_least(mu, 4)}-GDP" if mu < math.inf else "no privacy"


_OTHERS: Final = (
    "if these are public rows of other people, build them anew, as by pd.DataFrame(rows.to_dict('list')), since a copy "
    "may share memory"
)

LEDGER: Final = Ledger()  # Ledger of this process's fits; without a limit until `limit_spending` sets one


class Charge:
    """A release of `mu` per person, entered once for `whose` the ledger knows, when its first report is due.

    `seeded` and `stream` are as `Ledger.spend` has them.
    """

    def __init__(self, whose: Any, mu: float, *, seeded: bool, stream: str = "") -> None:
        self.whose, self.mu, self.seeded, self.stream = whose, mu, seeded, stream
        self.release: Release | None = None
        self._name = self._before = ""

    @property
    def name(self) -> str:
        """Name of a release that may go on; empty if it never does."""
        return self._before if self._before and self.release is None else self._name

    def follow(self, before: str, noise: bytes) -> None:
        """Go on from a name, empty for a release that begins, with noise that follows from a secret."""
        self._name, self._before = hashlib.sha256(before.encode() + noise).hexdigest(), before

    def enter(self) -> Release:
        """The release as the ledger has it.
        Raises BudgetError if it would exceed the ledger's limit.
        """
        self.release = self.release or LEDGER.spend(
            self.whose, self.mu, seeded=self.seeded, release=self._name, before=self._before, stream=self.stream
        )
        return self.release


def refuse_fitted(rows: Any, what: str, *, simulated: bool = False) -> None:
    """Refuse rows that are to be public, but were fitted privately in this process; `what` would tell of them.

    `simulated` lets rows pass of which every release so far had its noise from a seed.
    Raises NotPrivateError also if rows have been fitted, and nothing tells whether these are some of them.
    """
    accounts = accounts_of(rows)
    if accounts.lost and LEDGER._spent:
        raise NotPrivateError(
            f"nothing tells whose rows these are; if they were fitted in this process, {what} would tell of them "
            "without noise: give a DataFrame (of rows one by one pd.DataFrame(list(rows))), arrays, an Arrow or polars "
            "table (of a query what it finds, as by collect()) or a file of public rows."
        )
    if LEDGER._private(accounts.now(), simulated=simulated):
        raise NotPrivateError(
            f"these rows were fitted privately in this process, or share memory with rows that were, and {what} would "
            f"tell of them without noise; {_OTHERS}."
        )


def refuse_shared(public: Any, fitted: Any, what: str) -> None:
    """Refuse rows that are to be public, but are among those fitted; `what` is the option that public rows are for.
    Raises NotPrivateError if they have a row in common, as the ledger knows people.
    """
    people = accounts_of(fitted).now()
    if any(one.meets(other) for one in accounts_of(public).now() for other in people):
        raise NotPrivateError(
            f"{what} is for other rows, which are public, and these are among the rows to be fitted, or share memory "
            f"with them: the fit would tell of them without noise; {_OTHERS}."
        )


def limit_spending(limit: float | None) -> None:
    """Refuse, from now on in this process, every fit that would spend more than `limit` on one source of people.

    Releases made before count too, also those that failed after the first report; one that goes on from its checkpoint
    counts once. Streams, queries and plain lists are refused without a ``dataset=``, as nothing tells whose rows they
    are; a stream begun or loaded goes on with batches that can be counted. :class:`Ledger` says what one source is.

    `limit` is the largest μ per person, of all releases from one DataFrame or file together; None takes it away.
    Raises BudgetError if it is not a positive number.
    """
    LEDGER.limit = limit
