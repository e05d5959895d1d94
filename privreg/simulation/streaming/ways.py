"""The ways of a fit, chosen here alone: rounds of local reports, sums of two collectors, the published single chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from privreg.errors import OptionError
from privreg.fits import aggregate
from privreg.fits.settings import Summing
from privreg.simulation.aggregate import AggregateRun
from privreg.simulation.aggregate import plan_of as plan_of_sums
from privreg.simulation.plan import plan_of
from privreg.simulation.reporting import statements
from privreg.simulation.reporting.outcome import report_of_rounds
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.streaming.encoding import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privreg.arrays import Array
    from privreg.data.participants import Counter
    from privreg.fits.outcome import FitOutcome
    from privreg.fits.settings import Settings
    from privreg.formula.spec import ModelSpec
    from privreg.formula.units import Units
    from privreg.published.chain.run import AveragedSGD

    Run: TypeAlias = AveragedSGD | RoundsRun | AggregateRun


class Way(NamedTuple):
    """How a fit is begun, what came of it, and what is needed to audit its reports."""

    begin: Callable[[ModelSpec, Settings, bytes | None, Array | None, Counter | None], tuple[Run, Encoder]]
    report: Callable[..., FitOutcome]  # Of a run, settings, units, columns in the run's order and their names
    mechanics: Callable[[Any, Settings], tuple[dict[str, Any], ...]]


def way_of(settings: Settings) -> Way:
    """The way of a fit with these settings."""
    if isinstance(settings.how, Summing):
        return Way(_by_sums, _report_of_sums, lambda run, _: aggregate.mechanics(run.held))
    if settings.efficient is not None:
        return Way(_by_rounds, report_of_rounds, statements.mechanics)
    from privreg.published.fit import report as published  # whose loop is compiled

    def begin(
        spec: ModelSpec, settings: Settings, key: bytes | None, start: Array | None, counter: Counter | None
    ) -> tuple[Run, Encoder]:
        encoder = Encoder(spec, np.arange(len(spec.design.names)), counter, narrow=False, by_column=False)
        return published.begin(spec, settings, key, start), encoder

    return Way(begin, published.report, published.mechanics)


def _report_of_sums(run: AggregateRun, settings: Settings, units: Units, order: NDArray[np.intp], _: Any) -> FitOutcome:
    return aggregate.report_of_sums(run.held, settings, units, order)


def _by_sums(
    spec: ModelSpec, settings: Settings, key: bytes | None, start: Array | None, counter: Counter | None
) -> tuple[Run, Encoder]:
    assert isinstance(settings.how, Summing)
    if start is not None:
        raise OptionError(
            "start_params= belongs to trust='local': with two collectors second moments give the start; leave it out."
        )
    plan, order, linear = plan_of_sums(spec, settings.how.rows)
    return AggregateRun(plan, linear, key), Encoder(spec, order, counter, narrow=False, by_column=True)


def _by_rounds(
    spec: ModelSpec, settings: Settings, key: bytes | None, start: Array | None, counter: Counter | None
) -> tuple[Run, Encoder]:
    plan, order, linear = plan_of(spec, settings, start)
    encoder = Encoder(spec, order, counter, narrow=plan.wide is not None, by_column=True)
    given = {"personal": spec.personal, "unusable": spec.unusable}
    return RoundsRun(plan, linear, key, columns=encoder.columns, **given), encoder
