"""The ledger of releases; budgets and their composition, as everything else imports them.

The unit of account is μ of Gaussian differential privacy *per person*, neighbours differing in one
record (replace-one).
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

from privreg.errors import BudgetError, NotPrivateError, real, shown
from privreg.privacy.accounts import Account, accounts_of
from privreg.privacy.budget import REPORTED_DELTA, UNSET, Budget, at_least, at_most, compose, within
from privreg.privacy.conversions import gdp_delta, gdp_epsilon, gdp_mu

__all__ = [
    "LEDGER",
    "REPORTED_DELTA",
    "UNSET",
    "Budget",
    "Ledger",
    "Release",
    "at_least",
    "at_most",
    "compose",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "limit_spending",
    "refuse_fitted",
    "refuse_shared",
    "within",
]


@dataclass(frozen=True)
class Release:
    """One release as the ledger saw it.

    Parameters
    ----------
    number : int
        1 for the first release from these data in this process; 0 if nothing can tell whose data they are.
    total_mu : float
        GDP parameter of all of them together, per person.
    """

    number: int
    total_mu: float

    def words(self, whose: str = "these data") -> str:
        """What it is, from the data of those named by `whose`, and what all of them cost together."""
        if self.number == 0:
            return "not counted: a stream, or plain lists, have no source to count by; add up fits on the same people"
        if self.number == 1:
            return f"release 1 from {whose} in this process"
        total = f"{within(self.total_mu, 4)}-GDP in all" if self.total_mu < math.inf else "not private in all"
        return f"release {self.number} from {whose} in this process: {total}"

    def __str__(self) -> str:
        return self.words()


class Ledger:
    """Releases from each data source in this process.

    A source is the object or file the rows came from, so a copy counts as another source: the ledger reminds, it can't
    know people. One object is one account: an array counts by the memory it is a view of (parts without a common row
    apart), a table as itself and by its columns' memory, a mapping by its columns, a list by its members in any order,
    a file by device and inode whatever its name and date, a query by its text and connection. Of several accounts the
    fullest one is told. Entries go when the object goes; of files they stay, so that a new file in the inode of a
    deleted one may count too much, never too little. Fits enter their releases in the process's own ledger, which
    :func:`limit_spending` gives a limit; a ledger made here keeps the accounts you enter yourself.

    Parameters
    ----------
    limit : float, optional
        Largest μ per person, of all releases from one source together; a release that would exceed it is refused
        before it is made. None for no limit.

    Raises
    ------
    BudgetError
        If `limit` is not a positive number.

    Examples
    --------
    >>> ledger = Ledger(limit=1.5)
    >>> ledger.spend("people.csv", 1.0).total_mu
    1.0
    >>> ledger.check("people.csv", 1.2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    privreg.errors.BudgetError: release 2 from these data would cost 1.563-GDP per person in all ...
    >>> ledger
    <Ledger: 1 source, limit 1.5-GDP per person>
    """

    def __init__(self, limit: float | None = None) -> None:
        self._limit = _allowed(limit)
        self._spent: dict[Hashable, list[tuple[float, Account]]] = {}
        self._secret: dict[Hashable, list[tuple[float, Account]]] = {}  # Of these the releases with secret noise
        self._lock = threading.RLock()  # re-entrant: collecting garbage inside may end an entry

    @property
    def limit(self) -> float | None:
        """Largest μ per person of all releases from one source together; None for no limit."""
        return self._limit

    def spent(self, source: Any) -> float:
        """Return the μ per person of all releases from `source` so far, 0 if there were none."""
        with self._lock:
            return max((compose(self._of(account)) for account in accounts_of(source).now()), default=0.0)

    def check(self, source: Any, mu: float) -> None:
        """Refuse a release of `mu` per person from `source` that would exceed the limit; enter nothing.

        Raises
        ------
        BudgetError
            If it would, or if there is a limit and the source can't be followed.
        """
        limit = self._limit
        if limit is None:
            return
        with self._lock:
            accounts = accounts_of(source)
            known = accounts.now()
            if not accounts.whole or not known:
                raise BudgetError(
                    f"this ledger allows {at_least(limit, 4)}-GDP per person, but rows that come as a stream have no "
                    "source to count by, nor have plain lists; give a DataFrame, arrays or a file, or take the limit "
                    "away."
                )
            own = defaultdict(list)  # who comes twice reports twice
            for account in known:
                own[account.key].append((mu, account))
            spent, more = max(
                ((self._of(account), account.heaviest(own[account.key]) or [mu]) for account in known),
                key=lambda costs: compose([*costs[0], *costs[1]]),
            )
            total, used = compose([*spent, *more]), compose(spent)
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

    def spend(self, source: Any, mu: float, *, seeded: bool = False) -> Release:
        """Enter a release of `mu` per person from `source` and return the running total.

        Parameters
        ----------
        source : object
        mu : float
        seeded : bool
            Whether its noise follows from a seed, as in simulations, whose rows are nobody's.

        Raises
        ------
        BudgetError
            As :meth:`check` does, before anything is entered.
        """
        with self._lock:
            self.check(source, mu)
            known = accounts_of(source).now()
            if not known:
                return Release(0, mu)
            for account in known:
                if account.key not in self._spent:
                    self._spent[account.key] = []
                    if account.owner is not None:
                        weakref.finalize(account.owner, self._forget, account.key).atexit = False
                self._spent[account.key].append((mu, account._replace(owner=None)))
                if not seeded:
                    self._secret.setdefault(account.key, []).append(self._spent[account.key][-1])
            most = max((self._of(account) for account in known), key=compose) or [mu]  # there may be no rows
            return Release(len(most), compose(most))

    def _forget(self, key: Hashable) -> None:
        self._spent.pop(key, None)
        self._secret.pop(key, None)

    def _of(self, account: Account) -> list[float]:
        """What was spent on the people of an account, or on whom of them most was."""
        return account.heaviest(self._spent.get(account.key, ()))

    def __repr__(self) -> str:
        count = sum(any(account.main for _, account in entries) for entries in self._spent.values())
        limit = "no limit" if self.limit is None else f"limit {_words(self.limit)} per person"
        return f"<Ledger: {count} source{'' if count == 1 else 's'}, {limit}>"


def _allowed(limit: float | None) -> float | None:
    """Return a limit that is one."""
    if limit is None:
        return None
    allowed = real(limit)
    if allowed is None or not 0 < allowed < math.inf:
        raise BudgetError(f"limit={shown(limit)} must be a positive number, the mu per person, or None.")
    return allowed


def _words(mu: float) -> str:
    return f"{at_least(mu, 4)}-GDP" if mu < math.inf else "no privacy"


LEDGER: Final = Ledger()
"""What fits enter their releases in; without a limit until `limit_spending` sets one."""


def refuse_fitted(rows: Any, what: str, *, simulated: bool = False) -> None:
    """Refuse rows that are to be public, but were fitted privately in this process.

    Parameters
    ----------
    rows : object
        As the ledger knows people by: a DataFrame, arrays, or the accounts of a file. A view of fitted rows counts.
    what : str
        What would tell of them.
    simulated : bool
        Whether rows are let pass of which every release so far had its noise from a seed.

    Raises
    ------
    NotPrivateError
    """
    known = LEDGER._secret if simulated else LEDGER._spent
    spent = (account.heaviest(known.get(account.key, ())) for account in accounts_of(rows).now())
    if any(0.0 < compose(costs) < math.inf for costs in spent):
        raise NotPrivateError(
            f"these rows were fitted privately in this process, and {what} would tell of them without noise; give "
            "public rows."
        )


def refuse_shared(public: Any, fitted: Any, what: str) -> None:
    """Refuse rows that are to be public, but are among those that are to be fitted.

    Parameters
    ----------
    public, fitted : object
        As the ledger knows people by, see `refuse_fitted`.
    what : str
        The option that public rows are for.

    Raises
    ------
    NotPrivateError
    """
    people = accounts_of(fitted).now()
    if any(one.key == other.key and one.meets(other) for one in accounts_of(public).now() for other in people):
        raise NotPrivateError(
            f"{what} is for other rows, which are public, and these are among the rows to be fitted: the fit would "
            "tell of them without noise; give public rows, or leave it out."
        )


def limit_spending(limit: float | None) -> None:
    """Refuse, from now on in this process, every fit that would spend more than `limit` on one source of people.

    Releases made before count too. Under a limit ``fit()`` refuses before the first report is sent, and rows that come
    as a stream, in ``fit()`` or by ``start()``, or as plain lists, are refused as nothing tells whose they are. A
    stream begun or loaded goes on. What counts as one source is told by :class:`Ledger`.

    Parameters
    ----------
    limit : float or None
        Largest μ per person, of all releases from one DataFrame or file together; None takes the limit away.

    Raises
    ------
    BudgetError
        If `limit` is not a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> import privreg as pr
    >>> x = np.linspace(-1, 1, 1000)[:, None]
    >>> model = pr.PrivateOnlineRegression(1 + x[:, 0], x, bounds={"y": (0, 2), "x1": (-1, 1)}, mu=1)
    >>> pr.limit_spending(1.2)
    >>> model.fit(progress=False).privacy.total_mu
    1.0
    >>> model.fit(progress=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    privreg.errors.BudgetError: release 2 from these data would cost 1.415-GDP per person in all ...
    >>> pr.limit_spending(None)
    """
    LEDGER._limit = _allowed(limit)
