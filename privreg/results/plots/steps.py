"""How far each column is moved in a figure of coefficients: by public facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from privreg.arrays import Array

if TYPE_CHECKING:
    from privreg.results.data import ResultData


PRODUCT: Final = "their product for an interaction"


class Step(NamedTuple):
    """How far a covariate is moved, in the user's units, and what that is."""

    size: float = 1.0
    kinds: tuple[str, ...] = ()
    unit: str = ""

    @property
    def words(self) -> str:
        """The step after the name of its row, with its unit if that is known; nothing if it is 1."""
        form = ",.10g" if 1e-4 <= self.size < 1e7 else ".3g"
        return "" if self.size == 1.0 else f"per {self.size:{form}} {self.unit}".rstrip()


def public_steps(design: Any, spreads: Array | None = None) -> Array:
    """How far to move each column of a design in a figure, so that coefficients can be compared; user's units.

    To three digits: half of the declared range, or two declared sds; of an interaction the product over its parts; 1
    for levels, for other columns of 0 and 1 and for a constant. Of columns that nothing public tells of two `spreads`,
    sds that the fit has learned from reports, to two digits, or NaN. All shapes are (p,).
    """
    schema, names = design.schema, list(design.names)
    low, high = design.probe.min(axis=0), design.probe.max(axis=0)
    own: dict[str, float] = {}

    def declared(column: str) -> float:
        if column in schema.moments and column not in schema.private:
            return 2.0 * float(schema.moments[column][1])
        least, most = schema.reference(column)
        return 0.5 * (most - least) if (least, most) != (0.0, 1.0) else 1.0

    for j, (name, bare, made_of) in enumerate(zip(names, design.bare, design.sources, strict=True)):
        learned = math.nan if spreads is None else float(f"{2.0 * spreads[j]:.2g}")
        # a spline's last column goes from 0 to 1 as well
        switch = (low[j], high[j]) == (0.0, 1.0) and (bare is not None or np.isin(design.probe[:, j], (0.0, 1.0)).all())
        if not high[j] > low[j] or all(c in schema.levels for c in made_of) or switch:
            own[name] = 1.0
        elif any(name in schema.private for name in made_of):
            own[name] = learned
        else:
            own[name] = declared(bare) if bare is not None else 0.5 * float(high[j] - low[j])
    out = dict(own)
    for name, made_of in zip(names, design.sources, strict=True):
        parts = name.split(":")
        known = [
            own[part] if part in own else declared(part) if part in made_of and part not in schema.levels else 1.0
            for part in parts
            if part in own or part in made_of or part.endswith("]")
        ]
        if len(parts) > 1 and len(known) == len(parts) and not all(c in schema.levels for c in made_of):
            out[name] = math.prod(known)
    return np.array([step if math.isnan(step) else float(f"{step:.3g}") for step in map(out.__getitem__, names)])


def _kinds(design: Any) -> Iterator[tuple[str, ...]]:
    """What the step of each column of a design is, in words, a kind for each number that it is made of."""
    schema = design.schema
    for name, bare, made_of in zip(design.names, design.bare, design.sources, strict=True):
        out = []
        for c in (c for c in made_of if c not in schema.levels):
            if c in schema.private:
                out.append("two sds learned from reports")
            elif c in schema.moments and (bare is not None or ":" in name):
                out.append("two declared sds")
            else:
                out.append("half of the declared range")
        yield (*out, *[PRODUCT] * (len(out) > 1 and ":" in name))


def steps_of(fits: Iterable[ResultData]) -> dict[str, Step]:
    """Step of each coefficient's covariate, by its flat name: of the first result that knows it, else 1."""
    out: dict[str, Step] = {}
    for fit in fits:
        units = ["days" if bare in fit.design.schema.dates else "" for bare in fit.design.bare]
        steps = map(Step, public_steps(fit.design, fit.spreads).tolist(), _kinds(fit.design), units)
        for name, step in zip(fit.names, cycle(steps), strict=False):
            if name not in out or math.isnan(out[name].size):
                out[name] = step
    return {name: step._replace(size=1.0) if math.isnan(step.size) else step for name, step in out.items()}


def about_steps(steps: Iterable[Step]) -> list[str]:
    """What these steps are, for a footer; nothing where there are none."""
    kinds = dict.fromkeys(kind for step in steps if step.words for kind in step.kinds)
    said = [*(k for k in kinds if k != PRODUCT), *[PRODUCT] * (PRODUCT in kinds)]
    return [f"step: {' or '.join(said)}"] if said else []
