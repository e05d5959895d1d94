"""Whose turn it is: orders and samples from a cipher, which never look at a record."""

from __future__ import annotations

import math

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from privreg.arrays import Ints
from privreg.central import kernels


class Turns:
    """Random orders and samples of records, from AES-256 in counter mode.

    Parameters
    ----------
    key : bytes
        32 bytes, used for this purpose only.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def words(self, k: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words, each handed out once."""
        return np.frombuffer(self._cipher.update(bytes(8 * k)), dtype=np.uint64)

    def permutation(self, n: int) -> Ints:
        """Uniform order of n records."""
        order: Ints = kernels.shuffle(self.words(n))
        return order

    def drawn(self, k: int, n: int) -> Ints:
        """Draw k of n records with replacement."""
        return (self.words(k) % np.uint64(n)).astype(np.int64)  # uniform up to n/2^64

    def poisson(self, n: int, share: float) -> Ints:
        """Records that are in a batch, each with probability `share`, independently: by the gaps between them."""
        if share >= 1.0:
            return np.arange(n)
        parts, at = [], -1
        while at < n:
            k = int(share * (n - at) + 6.0 * math.sqrt(share * n) + 16.0)
            # in (0, 1], from 53 bits
            u = ((self.words(k) >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53
            gaps = np.minimum(np.floor(np.log(u) / math.log1p(-share)), n) + 1.0
            places = at + np.cumsum(gaps.astype(np.int64))
            parts.append(places)
            at = int(places[-1])
        out = np.concatenate(parts)
        return out[out < n]

    def __reduce__(self) -> str:
        raise TypeError("orders come from a secret key and can't be pickled")
