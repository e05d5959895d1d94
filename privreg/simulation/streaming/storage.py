"""Description of a stream in its file: all that makes it the same fit, and refusal of what must never be stored."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from privreg.errors import InferenceError
from privreg.fits.settings import Settings
from privreg.formula.spec import ModelSpec


def refuse_unstorable(spec: ModelSpec, settings: Settings, *, counts: bool) -> None:
    """Refuse to store raw sums, code, or how often people came (if it `counts` that); raises `InferenceError`."""
    if any(m.central for m in settings.methods):
        raise InferenceError("a stream with plug_in_central holds raw sums and can't be saved; use plug_in.")
    if spec.people.id is not None and counts:
        raise InferenceError(
            "a stream with id= keeps in memory how often each person came, and that is never stored; save its "
            "results() instead."
        )
    if spec.family.score is not None:
        raise InferenceError(
            "a stream of a family of your own can't be saved, as code is never stored; save its results() instead."
        )


def document_of(
    spec: ModelSpec,
    options: dict[str, Any],
    *,
    seed: int | None,
    start: list[float] | None,
    plan: list[Any],
    covariates: Any,
) -> dict[str, Any]:
    """Description of a stream as JSON: `covariates` identify its public rows, `start` is the first guess."""
    return {
        "design": spec.design.to_json(),
        "family": spec.family.to_json(),
        "budget": [spec.budget.form, list(spec.budget.asked)],
        "options": options,
        "private": [spec.score_weights, spec.mechanism, spec.private],
        "trust": spec.trust,
        "people": spec.people.to_json(),
        "seed": seed,
        "plan": plan,
        "start": start,
        "covariates": covariates,
        # functions are known by name only: what they make of public rows tells one from another
        "probe": hashlib.sha256(spec.design.probe.astype(np.float32).tobytes()).hexdigest(),
    }


def plain(value: Any) -> Any:
    """Nested tuples as JSON has them; infinities by name."""
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value
