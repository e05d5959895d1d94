"""Results of a study from what its collector publishes: the plan, and sums of reports. No row comes near."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from privreg.collector import design
from privreg.collector.design import Chain
from privreg.collector.plan import Plan
from privreg.collector.rounds import lean
from privreg.errors import PrivregError, StudyError, quietly
from privreg.fits import outcome as fits
from privreg.fits.fit_plan import FitPlan
from privreg.fits.outcome import Held, Senders
from privreg.fits.plan import guess_of, plan_of
from privreg.fits.rounds import outcome
from privreg.privacy.ledger import Release
from privreg.protocol import lattice
from privreg.results.base import Results
from privreg.tables.diagnostics import Diagnostic
from privreg_field.collector import chain as chains
from privreg_field.collector.chain import Cell, Cells, Place, tables
from privreg_field.collector.messages import roles_of
from privreg_field.study import tabled
from privreg_field.study.declaring.declared import declared_of, fit_of
from privreg_field.study.tabled import TableFit
from privreg_field.wire.analyses import mu_of
from privreg_field.wire.roles import TABLE
from privreg_field.wire.study import PublicPlan
from privreg_field.wire.wire import MessageError, Record

T = TypeVar("T")
_WHOLE: Final = re.compile(r"-?[0-9]{1,40}")


def fit_plan_of(plan: PublicPlan) -> FitPlan:
    """The plan of the fit that a signed plan carries.
    Raises StudyError if it carries none, or one that can't be read.
    """
    text = plan.model.get("declared")
    if not isinstance(text, str):
        raise StudyError("the plan carries no model, so nobody can estimate it; sign it by `privreg study sign`.")
    return made(lambda: fit_of(text))


def made(make: Callable[[], T]) -> T:
    """Result of reading a plan's text, which may say anything."""
    try:
        return quietly(make, StudyError("it is none that `privreg study sign` writes."))
    except PrivregError as e:
        raise StudyError(f"the plan carries a model that can't be fitted: {e}") from None


def begun(
    plan: PublicPlan, make: Callable[[FitPlan], tuple[T, NDArray[np.intp]]], asks: Callable[[FitPlan, T], bool]
) -> tuple[FitPlan, T, NDArray[np.intp]]:
    """The fit of a signed plan, and what `make` makes of it: what its rounds know, and the order of columns inside.
    Raises StudyError if there is none, or `asks` says that the plan asks devices for other reports than these rounds
    are made of.
    """
    fit = fit_plan_of(plan)
    engine, order = made(lambda: make(fit))
    if not made(lambda: asks(fit, engine)):
        raise StudyError("the plan asks devices for other reports than its model is made of; sign it anew.")
    return fit, engine, order


def table_of(plan: PublicPlan) -> TableFit:
    """The table that a signed plan carries; raises as `begun` does."""
    text = plan.model.get("declared")
    fit = made(lambda: declared_of(text)) if isinstance(text, str) else None
    if not isinstance(fit, TableFit):
        raise StudyError("the plan carries no table, so nobody can estimate it; sign it by `privreg study sign`.")
    return fit


def chain_of(plan: PublicPlan) -> Chain:
    """Chain of the collector's rounds before the first report; raises as `begun` does."""
    if plan.table:
        return design.begin(tables, tabled.engine_of(plan, table_of(plan)))
    return design.begin(lean, _begun(plan)[1])


def _begun(plan: PublicPlan) -> tuple[FitPlan, Plan, NDArray[np.intp]]:
    wanted = plan.roles, [r.role for r in plan.rounds]
    return begun(
        plan,
        lambda fit: plan_of(fit.spec, fit.settings, guess_of(fit.spec, fit.start_params)),
        lambda fit, made: (roles_of(made, mu_of(fit.spec.budget.mu)), [r.role for r in made.rounds]) == wanted,
    )


def read_cells(items: Any, plan: PublicPlan) -> dict[Place, Cell]:
    """Read sums as a collector publishes them; see `chain.plain`. Raises `MessageError`."""
    if not isinstance(items, list):
        raise MessageError("'cells' must be a list.")
    out = {}
    for one in items:
        record = Record(one, "a cell")
        role = record.choice("role", tuple(plan.roles))
        form = plan.roles[role]
        place = Place(record.integer("state", 0, 1 << 31), role, record.integer("group", 0, form.groups - 1))
        people = record.integer("people", 1, 1 << 48)
        if place in out:
            raise MessageError("a cell comes twice.")
        products = form.numbers * (form.numbers + 1) // 2 if role == "measures" else form.numbers
        sums = _wholes(record, "sums", form.numbers)
        squares = _wholes(record, "squares", products)
        record.done()
        most = lattice.most(form.radius, plan.bits)
        least = -people * most**2 if role == "measures" else 0
        if any(abs(v) > people * most for v in sums) or not all(least <= v <= people * most**2 for v in squares):
            raise MessageError("a cell has sums that so many reports can't have.")
        low = np.array([v & ((1 << chains.LOW) - 1) for v in squares], dtype=np.int64)
        high = np.array([v >> chains.LOW for v in squares], dtype=np.int64)
        out[place] = Cell(people, np.array(sums, dtype=np.int64), np.array([high, low]))
    return out


def _wholes(record: Record, name: str, count: int) -> list[int]:
    out = []
    for text in record.items(name, count):
        if not isinstance(text, str) or not _WHOLE.fullmatch(text):
            raise MessageError(f"{name!r} of a cell must be whole numbers in texts.")
        out.append(int(text))
    return out


def follow(plan: PublicPlan, snapshots: Iterable[Cells]) -> Chain:
    """Make the chain of a study's states again, of what had come when each closed, of states 0, 1, …"""
    chain = chain_of(plan)
    for snapshot in snapshots:
        chain = chains.closed(chain, plan.roles, snapshot)
    return chain


def held_by(plan: PublicPlan, chain: Chain, cells: Cells) -> Held:
    """Sums that the collector of a study holds, with late reports and those of the present state."""
    chain = chains.taken(chain, plan.roles, cells)
    here = chains.present(chain, plan.roles, cells)
    came = (*chain.progress.held, here.people)
    return Held(chain, sum(came), here, came, unusable=plan.missing == "noise")


def results(plan: PublicPlan, chain: Chain, cells: Cells, *, invited: int | None = None) -> Results:
    """Results of what has come by now, `cells`, with the exact guarantee of the devices' mechanism; means of a table.

    `chain` is by `follow`; `invited` are the tokens that were issued.
    Raises InferenceError while reports still set the scales: not yet enough.
    """
    if plan.table:
        some = list(cells.values())
        total = sum((c.sums for c in some), np.zeros(plan.roles[TABLE].numbers, dtype=np.int64))
        people, senders = sum(c.people for c in some), _senders(plan)
        head = [("Protocol", _protocol(plan, people, 0, invited))]
        return tabled.results(plan, table_of(plan), people, total, senders, head)
    fit, _, order = _begun(plan)
    people, last = sum(c.people for c in cells.values()), len(chain.batches)
    here = sum(c.people for place, c in cells.items() if place.state == last)
    return fits.results(
        outcome(held_by(plan, chain, cells), fit.spec, fit.settings, order),
        fit.spec,
        fit.settings,
        Release(0, plan.mu.p / plan.mu.q),
        senders=_senders(plan),
        added=[("Protocol", _protocol(plan, people, people - here - chains.on_time(chain), invited))],
    )


def _protocol(plan: PublicPlan, people: int, late: int, invited: int | None) -> str:
    """Entry of the summary's header: rounds, invitations without an answer, and reports after their state closed."""
    groups = max(role.groups for role in plan.roles.values())
    parts = ["one round"] if plan.table else [f"{len(plan.rounds)} rounds", f"{groups} groups"]
    if invited:
        parts.append(f"{100.0 * (1.0 - people / invited):.1f}% never answered")
    parts.append(f"{100.0 * late / max(people, 1):.1f}% late (counted)")
    return ", ".join(parts)


def _senders(plan: PublicPlan) -> Senders:
    """Devices that are people's own, as the statement says it."""
    text = (
        "whoever loses a device's memory, and meets a collector who asks the same record again, has spent √2 times mu; "
        "who took part, and from which address, is not part of the guarantee"
    )
    sd = 2.0**plan.bits / next(plan.roles[r] for r in ("main", TABLE) if r in plan.roles).radius
    of = "a main report's bound" if "main" in plan.roles else "how far two reports may be from each other"
    noise = f"noise sd {sd:.4g} of {of}, in whole steps, by an exact sampler"
    return Senders("devices", "rounded Gaussian", noise, (Diagnostic("memory", text),))
