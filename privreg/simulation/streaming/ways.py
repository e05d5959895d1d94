"""The ways of a fit, chosen here alone: rounds of local reports, sums, the published single chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from privreg.errors import OptionError
from privreg.fits import aggregate, rounds
from privreg.fits.plan import plan_of
from privreg.fits.settings import Summing
from privreg.simulation.aggregate import AggregateRun
from privreg.simulation.curator import CuratorRun
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.streaming.encoding import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privreg.base.arrays import Array
    from privreg.data.participants import Counter
    from privreg.fits.outcome import FitOutcome
    from privreg.fits.settings import Settings
    from privreg.formula.spec import ModelSpec
    from privreg.published.chain.run import AveragedSGD

    Run: TypeAlias = AveragedSGD | RoundsRun | AggregateRun


class Way(NamedTuple):
    """Functions of one kind of fit: to begin a run, and to compute its outcome."""

    begin: Callable[[ModelSpec, Settings, bytes | None, Array | None, Counter | None], tuple[Run, Encoder]]
    outcome: Callable[[Any, ModelSpec, Settings, NDArray[np.intp]], FitOutcome]  # From a run; columns in its order


def way_of(settings: Settings) -> Way:
    """The way of a fit with these settings."""
    if isinstance(settings.how, Summing):
        return Way(_by_sums, lambda run, *given: aggregate.outcome(run.held(), *given))
    if settings.efficient is not None:
        return Way(_by_rounds, lambda run, *given: rounds.outcome(run.held(), *given))
    from privreg.fits.published import report as published  # whose loop is compiled

    def begin(
        spec: ModelSpec, settings: Settings, key: bytes | None, start: Array | None, counter: Counter | None
    ) -> tuple[Run, Encoder]:
        encoder = Encoder(spec, np.arange(len(spec.design.names)), counter, by_column=False)
        return published.begin(spec, settings, key, start), encoder

    return Way(begin, published.report)


def _by_sums(
    spec: ModelSpec, settings: Settings, key: bytes | None, start: Array | None, counter: Counter | None
) -> tuple[Run, Encoder]:
    assert isinstance(settings.how, Summing)
    if start is not None:
        raise OptionError(
            f"start_params= belongs to trust='local': with {spec.holders} second moments give the start; leave it out."
        )
    how = settings.how
    plan, order = aggregate.plan_of(spec, how.rows or 1, how.measures, how.like)
    encoder = Encoder(spec, order, counter, by_column=not how.again)
    if not how.again:
        return AggregateRun(plan, key), encoder
    return CuratorRun(plan, key, lambda rows: aggregate.plan_of(spec, rows, how.measures, how.like)[0]), encoder


def _by_rounds(
    spec: ModelSpec, settings: Settings, key: bytes | None, start: Array | None, counter: Counter | None
) -> tuple[Run, Encoder]:
    plan, order = plan_of(spec, settings, start)
    encoder = Encoder(spec, order, counter, by_column=True)
    run = RoundsRun(plan, key, personal=spec.personal, unusable=spec.unusable)
    return run, encoder
