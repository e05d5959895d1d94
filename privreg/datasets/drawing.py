"""How synthetic rows are drawn: in blocks of a fixed size, each from its own child seed.

Row i depends on the seed and on i alone: a DataFrame, a CSV file and a longer or shorter draw agree row by row. The
seeds here make data; they have nothing to do with the noise that protects people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

import numpy as np
import pandas as pd

from privreg.errors import whole

SEED: Final = 2025
BLOCK: Final = 1 << 16  # Rows per child seed; changing it changes the data
Columns = dict[str, np.ndarray]


class Declarations(TypedDict):
    """Public facts about a data set, ready to pass on as ``**declarations``."""

    bounds: dict[str, tuple[float, float]]
    levels: dict[str, list[str]]


@dataclass(frozen=True)
class Recipe:
    """How one synthetic data set is drawn.

    A tag to separate its seeds, the distribution of a row, what is declared of it (with or without labels), and its
    labels.
    """

    tag: int
    draw: Callable[[np.random.Generator, int], Columns]
    declared: Callable[[bool], Declarations]
    provenance: str
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def blocks_of(recipe: Recipe, n: int, seed: int) -> Iterator[Columns]:
    """Yield the first `n` rows, at most ``BLOCK`` at a time; a block is always drawn whole, then cut."""
    for number, start in enumerate(range(0, n, BLOCK)):
        sequence = np.random.SeedSequence(seed, spawn_key=(recipe.tag, number))
        columns = recipe.draw(np.random.Generator(np.random.SFC64(sequence)), BLOCK)
        yield {name: values[: n - start] for name, values in columns.items()}


def carried(public: Declarations) -> dict[str, Any]:
    """Public declarations as plain JSON values, which Parquet keeps: what models take where they are given nothing."""
    bounds = {name: [low, high] for name, (low, high) in public["bounds"].items()}
    return {"bounds": bounds, "levels": {name: list(levels) for name, levels in public["levels"].items()}}


def frame_of(recipe: Recipe, columns: Columns, labels: bool) -> pd.DataFrame:
    """Drawn columns as a frame that carries where they are from and what is declared."""
    import pandas as pd

    data: dict[str, Any] = {}
    for name, values in columns.items():
        if name not in recipe.levels:
            data[name] = values
        elif labels:
            data[name] = pd.Categorical.from_codes(values, pd.Index(recipe.levels[name]))
        else:
            data[name] = values.astype(np.int64)
    frame = pd.DataFrame(data, copy=False)
    frame.attrs |= {"provenance": recipe.provenance, "privreg": carried(recipe.declared(labels))}
    return frame


def build(recipe: Recipe, n: object, seed: object, labels: bool = True) -> pd.DataFrame:
    """The first `n` rows, of a user's seed."""
    rows, key = whole("n", n, 1), whole("seed", seed, 0)
    blocks = list(blocks_of(recipe, rows, key))
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    return frame_of(recipe, columns, labels)
