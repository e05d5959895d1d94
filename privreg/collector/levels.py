"""Levels at which something counts, each for every question that asks for it."""

from __future__ import annotations

from typing import Final

STRICT: Final = 1.5
"""Standard errors by which noise must be exceeded before any of a group of numbers is believed, and by which states
must rest for a drift to count as a poor start: noise alone does so in one of fifteen."""

SHOWN: Final = 2.5
"""Standard errors by which something must exceed what is expected to be believed: one fit in a hundred has as much by
chance, at most (`benchmarks.notes`, of heaps of residuals with 2.33)."""

SURE: Final = 3.0
"""Standard errors by which something must stand out that is rarely looked for: chance makes as much in one of a
thousand. Where nobody is known to have nothing to tell, dividing by a noisy share that is really 1 would only add its
noise."""

PRECISE: Final = 10.0
"""Standard errors that a number has which is precisely known. Where curvature is, its rounds are carried well however
far states moved: else a quarter of the fits of designs "response" (200,000 records at μ = 3) and "charges" (10,000,000)
were marked, whose intervals cover."""

RAREST: Final = 0.05
"""Part of what is usual below which a share isn't believed, as noise may make it none, or less; and by which a mean and
an sd fall short, at least, of the most that bounds let them be."""

PART: Final = 0.25
"""Part of a whole from which on it is about that part: of a sum's spread by one column, of a coefficient's variance by
levels that few have, of a group's people by one cluster; and of what is usual, below which it is little."""

BELIEVED: Final = 0.7
"""Part of what is usual that will do: of curvature that must be believed if reports don't show it (with a valley where
most responses should lie, states hardly move and the reference model alone makes intervals short, design "charges" of
`benchmarks.validity`), of the reports of the largest round, of the length at which slopes by a level show."""
