"""A stream that waits for its first rows, made of a model and what is asked of a fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from privreg.fits.plan import guess_of
from privreg.fits.settings import FitOptions
from privreg.formula.spec import ModelSpec
from privreg.options.table import check
from privreg.simulation.streaming.stream import Stream
from privreg.simulation.tuning import resolve_tuning


def begin(
    spec: ModelSpec, asked: FitOptions, start_params: Any, seed: Any, rows: int | None, start: Any = None
) -> Stream:
    """A stream that waits for its first rows, of which `rows` are expected, if that is known.

    `start_params` is a public first guess, user's units; in its place `start` is that of a saved stream, internal
    units. A seed is for simulation only.
    Raises OptionError, InferenceError if an option is out of range, or a method can't do what is asked.
    """
    seed = check("local.fit", "seed", seed)
    settings = resolve_tuning(asked, spec, rows)
    options = asked.plain([m.name for m in settings.methods]) | {"rows": rows}
    if start is not None:
        inside = np.array(start, dtype=np.float64)
        if inside.shape != (len(spec.coefficients),) or not np.isfinite(inside).all():
            raise ValueError("a first guess of another model")
        return Stream(spec, settings, options, seed=seed, start=inside)
    return Stream(spec, settings, options, seed=seed, start=guess_of(spec, start_params))
