"""The secret key of a fit in progress: from it all noise to come is drawn, and nobody ever prints or pickles it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from privreg.privacy.noise import KEY_BYTES, Key, refuse_fork


class Keyed(ABC):
    """What holds the key of noise to come; None without privacy."""

    def __init__(self, key: bytes | None) -> None:
        self.key = key
        self._process = os.getpid()

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
        """The key of noise to come; open sums, whose noise it tells, are closed first or left out of what is kept."""
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
