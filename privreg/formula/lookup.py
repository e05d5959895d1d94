"""Columns that depend on factors alone, looked up by all their codes at once: whole rows of the design, as a rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.data.cells import Codes, Floats

__all__ = ["MOST", "Block", "Lookup", "grouped", "joint"]

MOST: Final = 1 << 16
"""Numbers of a table, at most: half a megabyte, which stays in a processor's second cache."""


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
        """New rows of the design, shape (n, width), in which all other columns hold anything."""
        first, *others = self.blocks or (None,)
        if first is not None and len(first.columns) == self.width:
            out = first.table.take(joint(codes, first, n), axis=0)
        else:
            out, others = np.empty((n, self.width)), list(self.blocks)
        for block in others:
            assert block is not None
            found = block.table.take(joint(codes, block, n), axis=0)
            a, b = int(block.columns[0]), int(block.columns[-1]) + 1
            if b - a == len(block.columns):
                out[:, a:b] = found
            else:
                out[:, block.columns] = found
        return out


def joint(codes: Mapping[str, Any], block: Block, n: int) -> Codes:
    """Rows of a block's table, shape (n,)."""
    if not block.factors:
        return np.zeros(n, dtype=np.intp)
    out: Codes = codes[block.factors[0]]
    for name, size in zip(block.factors[1:], block.sizes[1:], strict=True):
        out = out * size
        out += codes[name]
    return out


def grouped(blocks: Sequence[Block], width: int) -> Lookup:
    """Fewer blocks of the same columns, as long as their tables are small."""
    waiting = sorted((b for b in blocks if len(b.columns)), key=lambda b: len(b.table))
    out: list[Block] = []
    for block in waiting:
        for k, other in enumerate(out):
            sizes = dict(zip((*other.factors, *block.factors), (*other.sizes, *block.sizes), strict=True))
            if math.prod(sizes.values()) * (width if k == 0 else len(other.columns) + len(block.columns)) <= MOST:
                out[k] = _union(other, block, sizes)
                break
        else:
            out.append(block)
    if out and len(out[0].table) * width <= MOST:
        first = out[0]
        table = np.zeros((len(first.table), width))
        table[:, first.columns] = first.table
        out[0] = first._replace(columns=np.arange(width), table=table)
    return Lookup(width, tuple(out))


def _union(a: Block, b: Block, sizes: Mapping[str, int]) -> Block:
    grid = np.unravel_index(np.arange(math.prod(sizes.values())), tuple(sizes.values()) or (1,))
    codes = dict(zip(sizes, grid, strict=False))
    columns = np.concatenate([a.columns, b.columns])
    table = np.concatenate([one.table[joint(codes, one, len(grid[0]))] for one in (a, b)], axis=1)
    order = np.argsort(columns, kind="stable")
    return Block(tuple(sizes), tuple(sizes.values()), columns[order], np.ascontiguousarray(table[:, order]))
