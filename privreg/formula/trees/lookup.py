"""Columns that depend on factors alone, looked up by the codes of their levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.data.cells import Codes, Floats


class Block(NamedTuple):
    """Some columns of the design, by the codes of some factors."""

    factors: tuple[str, ...]
    sizes: tuple[int, ...]  # Levels of each
    columns: NDArray[np.intp]
    table: Floats  # A row for each combination of levels, the last factor's changing fastest


class Lookup(NamedTuple):
    """All columns that depend on factors alone."""

    width: int
    blocks: tuple[Block, ...]

    def rows(self, codes: Mapping[str, Any], n: int) -> Floats:
        """New rows of the design, shape (n, width), column by column, in which all other columns hold anything."""
        out = np.empty((self.width, n))
        for block in self.blocks:
            if not block.factors:
                out[block.columns] = block.table.T
                continue
            at = _places(codes, block)
            for j, values in zip(block.columns.tolist(), block.table.T, strict=True):
                values.take(at, out=out[j], mode="clip")  # where all are inside; by default, NumPy makes a copy
        return out.T


def _places(codes: Mapping[str, Any], block: Block) -> Codes:
    """Rows of a block's table, shape (n,)."""
    out: Codes = codes[block.factors[0]]
    for name, size in zip(block.factors[1:], block.sizes[1:], strict=True):
        out = out * size
        out += codes[name]
    return out
