"""The chain of states of a study in the field: each is a pure function of the plan and of sums of reports.

What had come when a state closed is its snapshot. State k + 1 follows from the snapshots of states 0 to k, so that
anybody who may read them can make every state again, up to rounding (see `messages.agree`).
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.base.arrays import Ints
from privreg.collector import design, rounds
from privreg.collector.aggregate.chain import asked_anew, possible
from privreg.collector.aggregate.plan import Known, Progress, State
from privreg.collector.covariates.whitening import triangle
from privreg.collector.design import Batch, Chain, Design
from privreg_field.collector.messages import ask_of, products, reports_of
from privreg_field.wire.analyses import WORDS
from privreg_field.wire.messages import Ask
from privreg_field.wire.roles import TABLE, Role

ASK = Ask(TABLE, WORDS, (), 0.0, 1.0, (), 1.0, 0.0, (), (), (), None)  # To devices that add the noise

_NOTHING = np.zeros((0, 0))
BEGUN = Progress(State(0, TABLE, _NOTHING, np.zeros(0), 0.0, 1.0, 1.0, 1.0), Known(*[_NOTHING] * 3), (), ())
"""Progress of a table before the first report."""


class Tabled(NamedTuple):
    """A table's round before the first report: it asks everybody the same, until the study closes."""

    form: Role
    bits: int  # Each noise has the sd 2^bits
    rows: int | None  # People expected

    def role(self, number: int) -> str:
        """Role of a round."""
        del number
        return TABLE

    def width(self, role: str) -> int:
        """Numbers of a report."""
        del role
        return self.form.numbers

    @property
    def noise(self) -> float:
        """Sd of both collectors' noise in a number of a sum, over the longest that a report is."""
        return math.sqrt(2.0) * 2.0**self.bits / self.form.radius


LOW: Final = 32  # Bits of a sum of products that are summed separately, so that 64 bits hold both parts


class Place(NamedTuple):
    """Cell of a report: state, role and group."""

    state: int  # That it answered
    role: str
    group: int


class Cell(NamedTuple):
    """Reports of one place, summed."""

    people: int
    sums: Ints  # shape (numbers,)
    # Sums of squares, with measures of fit of all products, a lower triangle row by row: high, low part; shape (2, …)
    squares: Ints


Cells = Mapping[Place, Cell]


def _asked_anew(plan: Tabled, progress: Progress, batch: Batch | None) -> Progress:
    return asked_anew(progress, batch, refused=possible(batch, plan.form.radius, plan.noise) is None)


tables: Final = Design(
    lambda _: BEGUN, lambda _, now: design.Ask(now.state, 1, None), _asked_anew, lambda _, now, __: now, lambda *_: None
)
"""The design of a table: one state, which asks everybody the same, and stays open until the study closes."""


def add(cell: Cell | None, values: Ints, role: str) -> Cell:
    """Add reports of a role, whole numbers of shape (n, numbers), to a cell; None if it has had none."""
    wide = values.astype(np.int64)
    if role == "measures":
        row, col = triangle(wide.shape[1])
        each = wide[:, row] * wide[:, col]
    else:
        each = wide * wide
    # the sum is high · 2^32 + low, exactly
    squares = np.array([(each >> LOW).sum(axis=0), (each & ((1 << LOW) - 1)).sum(axis=0)])
    if cell is None:
        return Cell(len(wide), wide.sum(axis=0), squares)
    return Cell(cell.people + len(wide), cell.sums + wide.sum(axis=0), cell.squares + squares)


def asked(chain: Chain) -> list[int]:
    """Round that each state published so far asks for."""
    return [progress.state.number for progress in chain.history]


def on_time(chain: Chain) -> int:
    """Reports that came before their state closed."""
    return sum(after.held[before.state.number] for before, after in pairwise(chain.history))


def _reports(roles: Mapping[str, Role], cells: Cells, state: int, role: str) -> Batch:
    """Reports that answered a state, as the rounds of a fit have them."""
    form = roles[role]
    people = np.zeros((1, form.groups), dtype=np.int64)
    sums = np.zeros((1, form.groups, form.numbers), dtype=np.int64)
    squares = np.zeros((2, form.numbers * (form.numbers + 1) // 2 if role == "measures" else form.numbers))
    for group in range(form.groups):
        cell = cells.get(Place(state, role, group))
        if cell is not None:
            people[0, group], sums[0, group] = cell.people, cell.sums
            squares = squares + cell.squares
    if role == "measures":
        return products(form, int(people.sum()), sums[0].sum(axis=0), squares)
    return reports_of(form, people, sums)


def taken(chain: Chain, roles: Mapping[str, Role], cells: Cells) -> Chain:
    """Take in what has come late: reports that answered states that are closed. `cells` are all that has come."""
    progress, batches = chain.progress, list(chain.batches)
    for k, (asked, before) in enumerate(zip(chain.history, chain.batches, strict=False)):
        have = _reports(roles, cells, k, asked.state.role)
        if have.people > before.people:
            late = Batch(have.people - before.people, have.total - before.total, have.weight - before.weight)
            progress, batches[k] = rounds.late(progress, asked.state.number, late), have
    return chain._replace(history=(*chain.history[:-1], progress), batches=tuple(batches))


def present(chain: Chain, roles: Mapping[str, Role], cells: Cells) -> Batch:
    """Reports that answered the present state."""
    return _reports(roles, cells, len(chain.batches), chain.progress.state.role)


def closed(chain: Chain, roles: Mapping[str, Role], cells: Cells) -> Chain:
    """Close the present state, with what has come of all states, the snapshot `cells`, and publish the next.

    Raises
    ------
    ValueError
        If nobody has answered the present state, or it is the last one, which asks until the study closes.
    """
    reports = present(chain, roles, cells)
    if not reports.people or chain.ask.ends is None:
        raise ValueError("a state that nobody has answered doesn't close, nor the last one")
    after = taken(chain, roles, cells).closed(reports)
    return after._replace(history=(*chain.history, after.progress))  # what was on time stays known


def present_ask(chain: Chain) -> Ask:
    """Ask of the next state of a study; see `service.scheduler.Study._stated`."""
    progress = chain.progress
    return ASK if chain.design is tables else ask_of(chain.plan, progress.state, progress.gauge)


def plain(cells: Cells) -> list[dict[str, Any]]:
    """Cells as JSON has them, in a fixed order; whole numbers as texts, which no reader rounds."""
    out = []
    for place in sorted(cells):
        cell = cells[place]
        squares = [int(h) * (1 << LOW) + int(low) for h, low in zip(*cell.squares, strict=True)]
        texts = {"sums": [str(v) for v in cell.sums.tolist()], "squares": [str(v) for v in squares]}
        out.append({**place._asdict(), "people": cell.people, **texts})
    return out
