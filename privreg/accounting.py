"""The ledger of releases; budgets and their composition, as everything else imports them.

The unit of account is μ of Gaussian differential privacy *per person*, neighbours differing in one
record (replace-one).
"""

from __future__ import annotations

import math
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Final

from privreg.budget import REPORTED_DELTA, UNSET, Budget, at_least, at_most, compose
from privreg.conversions import gdp_delta, gdp_epsilon, gdp_mu
from privreg.errors import BudgetError, NotPrivateError, real, shown

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

    def __str__(self) -> str:
        if self.number == 0:
            return "not counted: rows that come as a stream have no source to count by; add up fits on the same people"
        if self.number == 1:
            return "release 1 from these data in this process"
        total = f"{at_least(self.total_mu, 4)}-GDP in all" if self.total_mu < math.inf else "not private in all"
        return f"release {self.number} from these data in this process: {total}"


class Ledger:
    """Releases from each data source in this process.

    A source is the object or file the rows came from, so a copy counts as another source: the ledger
    reminds, it can't know people. Of several files each has its own account, and the fullest one is told.
    Entries go when the object goes. Fits enter their releases in the process's own ledger, which
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
        self._spent: dict[object, list[float]] = {}
        self._lock = threading.RLock()  # re-entrant: collecting garbage inside may end an entry

    @property
    def limit(self) -> float | None:
        """Largest μ per person of all releases from one source together; None for no limit."""
        return self._limit

    def spent(self, source: Any) -> float:
        """Return the μ per person of all releases from `source` so far, 0 if there were none."""
        with self._lock:
            return max(compose(self._spent.get(key, ())) for key in _keys(source))

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
            if not _countable(source):
                raise BudgetError(
                    f"this ledger allows {at_least(limit, 4)}-GDP per person, but rows that come as a stream have no "
                    "source to count by; give a DataFrame or a file, or take the limit away."
                )
            spent = max((self._spent.get(key, []) for key in _keys(source)), key=compose)
            total, used = compose([*spent, mu]), compose(spent)
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

    def spend(self, source: Any, mu: float) -> Release:
        """Enter a release of `mu` per person from `source` and return the running total.

        Raises
        ------
        BudgetError
            As :meth:`check` does, before anything is entered.
        """
        with self._lock:
            self.check(source, mu)
            if not _countable(source):
                return Release(0, mu)
            accounts = []
            for key in _keys(source):
                if key not in self._spent:
                    self._spent[key] = []
                    if isinstance(key, int):
                        weakref.finalize(source, self._spent.pop, key, None).atexit = False
                self._spent[key].append(mu)
                accounts.append(self._spent[key])
            most = max(accounts, key=compose)
            return Release(len(most), compose(most))

    def __repr__(self) -> str:
        count = len(self._spent)
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


def _keys(source: Any) -> list[object]:
    """Accounts that a release from `source` goes to: of several files each has its own, in whatever lists they come."""
    if isinstance(source, tuple) and source and all(isinstance(one, tuple) for one in source):
        return list(dict.fromkeys(source))
    return [source if isinstance(source, str | tuple) else id(source)]


def _countable(source: Any) -> bool:
    """Whether something tells these rows from others, and their end: a name, or an object that can be watched."""
    if source is None:
        return False
    try:
        return isinstance(source, str | tuple) or weakref.ref(source) is not None
    except TypeError:
        return False


def _words(mu: float) -> str:
    return f"{at_least(mu, 4)}-GDP" if mu < math.inf else "no privacy"


LEDGER: Final = Ledger()
"""What fits enter their releases in; without a limit until `limit_spending` sets one."""


def refuse_fitted(rows: Any, what: str) -> None:
    """Refuse rows that are to be public, but were fitted privately in this process.

    Parameters
    ----------
    rows : object
        As the ledger knows people by: a DataFrame, a design matrix, or what tells a file.
    what : str
        What would tell of them.

    Raises
    ------
    NotPrivateError
    """
    if 0.0 < LEDGER.spent(rows) < math.inf:
        raise NotPrivateError(
            f"these rows were fitted privately in this process, and {what} would tell of them without noise; give "
            "public rows."
        )


def limit_spending(limit: float | None) -> None:
    """Refuse, from now on in this process, every fit that would spend more than `limit` on one source of people.

    Releases made before count too. Under a limit ``fit()`` refuses before the first report is sent, and rows that come
    as a stream, in ``fit()`` or by ``start()``, are refused as nothing tells whose they are. A stream begun or loaded
    goes on.

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
