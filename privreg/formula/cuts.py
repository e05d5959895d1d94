"""Designs of a response whose levels are in order: columns of cut points between them, in place of an intercept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from privreg.errors import FormulaError
from privreg.formula.encoding import DesignTerm, TermPart
from privreg.formula.trees.evaluate import const

D = TypeVar("D")


def with_cuts(design: Any, make: Callable[..., D], given: tuple[Any, ...]) -> D:
    """Design with a column for each cut point between the levels of its response, after all others.

    A row of the design is a record at its first cut point, where this column is −1 and the others are 0: the linear
    predictor is x'β − κ_0. At cut point k it is that of the row plus ``cuts[k]``. `make` and `given` are a function
    and its arguments that make this design again.
    Raises FormulaError if a constant is made of several columns, or of a raw one.
    """
    levels, one, parts = design.endog_levels or (), design.constant, list(design.encoder.parts)
    ones = [] if one is None else np.flatnonzero(one).tolist()
    if len(ones) > 1 or any(design.sources[j] for j in ones):
        raise FormulaError(
            f"cut points between levels of {design.endog_name!r} take the place of an intercept, which "
            f"{', '.join(design.names[j] for j in ones)} would be, too; leave '- 1', '+ 0' or a constant column out."
        )
    kept, k = [j for j in range(len(design.names)) if j not in ones], len(levels) - 1
    place, p = {j: i for i, j in enumerate(kept)}, len(kept)
    names = tuple(f"{low}|{high}" for low, high in pairwise(levels))
    cuts = np.zeros((k, p + k))
    cuts[np.arange(k), p + np.arange(k)] = -1.0
    first = TermPart("|", slice(p, p + k), (), tuple(const(v) for v in cuts[0, p:]))

    def moved(part: TermPart) -> TermPart:
        at = [place[j] for j in range(part.place.start, part.place.stop)]
        return part._replace(place=slice(at[0], at[-1] + 1))

    parts = [*(moved(part) for part in parts if part.place.start in place), first]
    program = design.encoder.program.of([tree for part in parts for tree in part.trees])
    terms = [t._replace(columns=tuple(place[j] for j in t.columns)) for t in design.terms if t.columns[0] in place]
    probe = np.hstack([np.repeat(design.probe[:, kept], k, axis=0), np.tile(cuts[:, p:], (len(design.probe), 1))])
    made: D = replace(
        design,
        kind="ordinal",
        names=(*(design.names[j] for j in kept), *names),
        probe=probe,
        constant=np.repeat([0.0, -1.0], [p, k]),
        sources=(*(design.sources[j] for j in kept), *((),) * k),
        bare=(*(design.bare[j] for j in kept), *(None,) * k),
        terms=(*terms, DesignTerm("Intercept", tuple(range(p, p + k)))),
        encoder=replace(design.encoder, width=p + k, parts=tuple(parts), program=program),
        cuts=cuts - cuts[0],
        made=(make, given),
    )
    return made
