"""Standard normals from cipher words, by the ziggurat of Marsaglia & Tsang (2000). Compiled."""

import math
from typing import Final

import numpy as np
from numba import njit

from privreg.base.arrays import Array, Words

LAYERS: Final = 256
_TAIL: Final = 3.6541528853610088
_AREA: Final = 0.00492867323399


# Edges, scales, acceptance thresholds and densities of the 256 layers, widest first: Marsaglia & Tsang (2000), The
# ziggurat method. Layer i is x < edge[i]; the base layer's edge is that of a rectangle with the area of base and tail.
_EDGE = np.array([_AREA / math.exp(-0.5 * _TAIL * _TAIL), _TAIL, *np.zeros(LAYERS - 1)])
for _i in range(1, LAYERS - 1):
    _EDGE[_i + 1] = math.sqrt(-2.0 * math.log(_AREA / _EDGE[_i] + math.exp(-0.5 * _EDGE[_i] ** 2)))
_SCALE, _ACCEPT = _EDGE[:LAYERS] / 2.0**53, (_EDGE[1:] / _EDGE[:LAYERS] * 2.0**53).astype(np.uint64)
_DENSITY = np.exp(-0.5 * _EDGE**2)
# Both tables by nine bits, layer and sign: entry 256 + i is layer i's, negative.
_SIGNED_SCALE = np.concatenate([_SCALE, -_SCALE])
_SIGNED_ACCEPT = np.concatenate([_ACCEPT, _ACCEPT]).astype(np.int64)
_RUN: Final = 8


@njit(cache=True, nogil=True, error_model="numpy")
def ziggurat(words: Words, out: Array, filled: int) -> tuple[np.int64, np.int64]:
    """Turn cipher `words`, each used at most once, into standard normals, from place `filled` of `out` on, shape (n,).

    How many normals are in `out` now, and how many words were used; it stops short when the next draw could need more
    words than are left.
    """
    # Unsigned indices spare a test for negative ones; int64 magnitudes (53 bits) convert to float64 faster.
    one, run = np.uint64(1), np.uint64(_RUN)
    n, last = np.uint64(out.shape[0]), np.uint64(max(words.shape[0] - 1, 0))
    f, w = np.uint64(filled), np.uint64(0)
    while f < n and w < last:
        # Runs of words that are all accepted at once, nine runs in ten: no branch inside, so vectorised.
        while f + run <= n and w + run <= last:
            refused = 0
            for k in range(_RUN):
                word = words[w + np.uint64(k)]
                entry = word & np.uint64(511)
                magnitude = np.int64(word >> np.uint64(11))
                out[f + np.uint64(k)] = np.float64(magnitude) * _SIGNED_SCALE[entry]
                refused |= _SIGNED_ACCEPT[entry] - 1 - magnitude  # negative if this one is refused
            if refused < 0:
                break
            f += run
            w += run
        # The run with a refusal, or the end, word by word.
        stop = min(w + run, last)
        while f < n and w < stop:
            word = words[w]
            entry = word & np.uint64(511)
            magnitude = np.int64(word >> np.uint64(11))
            x = np.float64(magnitude) * _SIGNED_SCALE[entry]
            w += one
            if magnitude >= _SIGNED_ACCEPT[entry]:
                layer = entry & np.uint64(255)
                if layer == 0:
                    x, at = _tail(words, np.int64(w))
                    w = np.uint64(at)
                    if x < 0:  # ran out of words inside the tail: start this draw afresh with the next batch
                        return np.int64(f), at
                    if entry != 0:
                        x = -x
                else:
                    u = np.float64(np.int64(words[w] >> np.uint64(11))) / 2.0**53
                    w += one
                    if _DENSITY[layer] + u * (_DENSITY[layer + one] - _DENSITY[layer]) >= math.exp(-0.5 * x * x):
                        continue
            out[f] = x
            f += one
    return np.int64(f), np.int64(w)


@njit(cache=True, nogil=True, error_model="numpy")
def _tail(words: Words, w: int) -> tuple[float, int]:
    """One |normal| beyond the base layer's edge by Marsaglia's method, or −1 if the words run out."""
    while w + 2 <= words.shape[0]:
        a = -math.log((np.float64(words[w] >> np.uint64(11)) + 0.5) / 2.0**53) / _TAIL
        b = -math.log((np.float64(words[w + 1] >> np.uint64(11)) + 0.5) / 2.0**53)
        w += 2
        if b + b > a * a:
            return _TAIL + a, w
    return -1.0, w
