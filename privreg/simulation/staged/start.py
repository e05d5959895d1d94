"""What an efficient fit knows before the first person, all of it public."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privreg.collector import diagonal
from privreg.collector import factors as cells
from privreg.collector.moments import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.families import measures
    from privreg.families.constants import ChainRules
    from privreg.formula.spec import ModelSpec
    from privreg.inference import blocks
    from privreg.simulation.settings import Settings
    from privreg.simulation.staged.schedule import Reports, Schedule

    Array = NDArray[np.float64]

__all__ = ["Start", "order_of", "start_of"]


class Start(NamedTuple):
    """What is known before the first person. Public.

    Attributes
    ----------
    schedule : Schedule
    rules : ChainRules
    layout : Layout
    reports : Reports
    unscaled : tuple of int
        Columns whose location and scale are learned; d stands for the response.
    theta : ndarray, shape (b d,), or None
        The user's first guess, internal units, b the number of blocks.
    c : float
        The corner if it is not learned, internal units.
    gaps : tuple of float
        For each column that takes two values only, how far apart they are inside; 0 for the others.
    whitened : bool
        Whether score weights are those of whitened covariates, or of scaled ones.
    path : int
        1 if random scaling is wanted, 2 if its diagonal alone, 3 if the path is folded in blocks (`collector.history`).
    gram : bool
        Whether products of reports and iterates are.
    cut : Layout or None
        How the lanes' paths are cut into blocks, if they are.
    anytime : bool
        Whether the trail is to have the variances of batch means.
    personal : bool
        Whether people have budgets of their own.
    nonresponse : bool
        Whether it is declared that some people send noise only, as further rows of one person.
    unusable : bool
        Whether people may send noise only for another reason too, a missing value, say.
    gauge : Gauge or None
        By what fit is measured, before what is learned; None if it is not.
    wide : Wide or None
        What is public about the columns of a design of many coefficients, whose correlations are not learned.
    told : int
        Numbers that people report whom the fit is measured by.
    cells : tuple of Cells
        Columns made of factors alone, by their factors; none of a wide design, or where covariates are public.
    columns : ndarray of int, shape (m, 2), or None
        How rows come: the first coefficient of each column and, of one that stands for all levels of a factor, how
        many; None if each column is a coefficient's.
    """

    schedule: Schedule
    rules: ChainRules
    layout: Layout
    reports: Reports
    unscaled: tuple[int, ...]
    theta: Array | None
    c: float
    gaps: tuple[float, ...]
    whitened: bool
    path: int
    gram: bool = False
    cut: blocks.Layout | None = None
    anytime: bool = False
    personal: bool = False
    nonresponse: bool = False
    unusable: bool = False
    gauge: measures.Gauge | None = None
    wide: diagonal.Wide | None = None
    told: int = 0
    cells: tuple[cells.Cells, ...] = ()
    columns: NDArray[np.int64] | None = None

    def at(self, coefficients: list[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns in which the values of these coefficients come, none of them a factor's level."""
        wanted = np.array(coefficients, dtype=np.int64)
        return wanted if self.columns is None else np.searchsorted(self.columns[:, 0], wanted)


def start_of(spec: ModelSpec, settings: Settings, guess: Array | None) -> tuple[Start, NDArray[np.intp], Array]:
    """What a fit knows before its first person.

    Parameters
    ----------
    spec : ModelSpec
    settings : Settings
        With efficient tuning.
    guess : ndarray, shape (b p,), or None
        The user's, internal units, in the design's order of columns.

    Returns
    -------
    Start
    ndarray of int, shape (p,)
        The order of columns inside: the constant, if the design has one, goes first.
    ndarray, shape (b p, b p)
        Linear part of the map from internal to the user's coefficients, columns in that order.
    """
    units, family, efficient = spec.units, spec.family, settings.efficient
    assert efficient is not None
    probe, reports = spec.design.probe, efficient.reports
    p = len(spec.design.names)
    many = diagonal.is_wide(p, label=reports.label)
    order, factors = order_of(spec, factors=not many and not reports.label)
    constant = units.constant_column(probe)
    unscaled = np.flatnonzero(units.unscaled[order]).tolist()
    response = units.y_unscaled or ((reports.label or many) and family.of_residuals)
    linear = np.asarray(np.kron(np.eye(reports.blocks), units.matrix[:, order]))
    gaps = units.gaps(probe)[order]
    path = int(any(m.scaling for m in settings.methods))
    full = any(m.full for m in settings.methods)
    if many and path and not full and reports.blocks == 1 and diagonal.is_diagonal(linear[order]):
        path = 2
    elif many and full:
        path = 3
    held = None
    if many:
        inside = units.probe_inside(probe)
        inside = inside[:, order] if (np.diff(order) != 1).any() else inside
        held = diagonal.public(inside, gaps, tuple(unscaled), constant is not None)
    start = Start(
        schedule=efficient.schedule,
        rules=efficient.rules,
        layout=Layout(constant is not None, family.scaled and not reports.label and not many),
        reports=reports,
        unscaled=(*unscaled, p) if response else tuple(unscaled),
        theta=None if guess is None else guess.reshape(reports.blocks, -1)[:, order].reshape(-1),
        c=efficient.corner,
        gaps=tuple(gaps.tolist()),
        whitened=efficient.whitened,
        path=path,
        gram=any(m.outer for m in settings.methods),
        cut=settings.cut,
        anytime=any(m.name == "anytime" for m in settings.methods),
        personal=spec.people.mu is not None,
        nonresponse=spec.nonresponse,
        unusable=spec.unusable,
        gauge=efficient.gauge,
        told=efficient.told,
        wide=held,
        cells=factors,
    )
    return start, order, linear


def order_of(spec: ModelSpec, *, factors: bool) -> tuple[NDArray[np.intp], tuple[cells.Cells, ...]]:
    """Order of columns inside: the constant, what is made of factors alone if `factors`, the others; and the second."""
    probe = spec.design.probe
    constant = spec.units.constant_column(probe)
    groups: tuple[cells.Cells, ...] = ()
    if factors:
        groups = cells.groups(spec.design.sources, spec.design.schema.levels, spec.units.probe_inside(probe))
    first = [] if constant is None else [constant]
    first += [int(j) for g in groups for j in g.columns if j != constant]
    order = np.array([*first, *(j for j in range(probe.shape[1]) if j not in first)], dtype=np.intp)
    place = np.argsort(order)
    return order, tuple(g._replace(columns=place[g.columns]) for g in groups)
