"""A fit in progress that takes rows and holds a secret key, from which all noise to come is drawn.

Nobody ever prints or pickles it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from privreg.base.arrays import Array, Flags, Ints
from privreg.privacy.noise import KEY_BYTES, Key, refuse_fork
from privreg.simulation.devices import Block


class Keyed(ABC):
    """A fit in progress, with the key of noise to come, None without privacy, and people by cluster, who are public."""

    clustered: Ints

    def __init__(self, key: bytes | None) -> None:
        self.key = key
        self._process = os.getpid()

    def advance(
        self,
        y: Array,
        x: Array,
        offset: Array | None = None,
        weight: Array | None = None,
        clamped: Flags | None = None,
        cluster: Ints | None = None,
    ) -> int:
        """Play the devices of these rows, in order, internal units; how many.

        `x`, shape (n, d), has the constant first if there is one. `y`, `offset` and `weight` have the shape (n,):
        records that have nothing to tell are NaN, and weights are (μ_i/μ_max)² in (0, 1] of records with personal
        budgets. `clamped`, shape (n, D), is whether bounds clamp them, by column of the plan's `clamps`; it is needed
        where `asks_clamping`. Of people (`plan.persons`) y, x and offset have an axis of their rows after the first,
        and weights are survey weights in [0, 1]. `cluster`, shape (n,), has places of their clusters among those
        declared.
        """
        self._enter(Block(y, x, offset, weight, None, clamped, None, cluster))
        if cluster is not None:
            self.clustered += np.bincount(cluster, minlength=len(self.clustered))
        return len(y)

    @abstractmethod
    def _enter(self, rows: Block) -> None:
        """Take in rows, and play whole blocks of them."""

    @property
    def key(self) -> bytes | None:
        """Secret key of the noise to come."""
        return None if self._key is None else self._key.value

    @key.setter
    def key(self, key: bytes | None) -> None:
        self._key = None if key is None else Key(key)

    @abstractmethod
    def close(self) -> None:
        """Give open sums their noise."""

    def renew(self, key: bytes) -> None:
        """Go on with noise of another key."""
        self.key = key

    def secrets(self, *, close: bool = True) -> dict[str, Any]:
        """The key of noise to come; open sums, whose noise follows from it, are closed first or not kept."""
        refuse_fork(self._process)
        if close:
            self.close()
        return {} if self.key is None else {"secret_key": np.frombuffer(self.key, dtype=np.uint8)}

    def take_secrets(self, secrets: dict[str, Any]) -> None:
        """Go on with the noise that `secrets` gave."""
        key = secrets["secret_key"].tobytes()
        if len(key) != KEY_BYTES:
            raise ValueError("no key")
        self.key = key

    def __reduce__(self) -> str:
        raise TypeError("a fit in progress holds a secret key and can't be pickled; use save() on its stream")
