"""Streams of unknown length: how many records come before intervals."""

import pytest

from privreg.fits.findings import ENOUGH
from privreg.protocol.schedule import Round, schedule


def plan(d, mu, rows, **more):
    return schedule(d=d, noise=4.0 / mu**2, moment_noise=2.0 / mu**2, rows=rows, **more)


def first_unmarked(d, mu, **more):
    """Fewest records of a fit of known length whose main rounds hold enough for no note of few records."""
    low, high = 1, 10**12
    while low < high:
        rows = (low + high) // 2
        main = rows - sum(r.people for r in plan(d, mu, rows, **more) if r.role != "main")
        low, high = (low, rows) if main * mu**2 >= ENOUGH * d**2 else (rows + 1, high)
    return low


@pytest.mark.some(1)
@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 10, 30, 64])
@pytest.mark.parametrize("more", [{}, {"varying": True}, {"declared": True}], ids=["plain", "varying", "declared"])
def test_intervals_begin_before_a_fit_of_known_length_has_no_note_of_few(d, mu, more):
    rounds = plan(d, mu, None, **more)
    assert rounds[-1] == Round("main", -1)
    before = sum(r.people for r in rounds if r.role not in {"main", "clamping"})
    assert before < first_unmarked(d, mu, **more)
