"""A table of respondents in the field: one round that asks everybody the same, open until the study closes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privreg.collector.aggregate.plan import Known, Progress, State
from privreg_field.wire.analyses import WORDS
from privreg_field.wire.messages import Ask
from privreg_field.wire.roles import TABLE, Role

ASK = Ask(TABLE, WORDS, (), 0.0, 1.0, (), 1.0, 0.0, (), (), (), None)  # What a state asks of devices that add the noise

_NOTHING = np.zeros((0, 0))
BEGUN = Progress(State(0, TABLE, _NOTHING, np.zeros(0), 0.0, 1.0, 1.0, 1.0), Known(*[_NOTHING] * 3), (), ())
"""What two collectors know before the first report."""


class Tabled(NamedTuple):
    """What a table's round knows before the first report."""

    form: Role
    bits: int  # Each noise has the sd 2^bits
    rows: int | None  # People expected

    def role(self, number: int) -> str:
        """What a round asks for."""
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
