"""Levels of evidence: standard errors by which numbers must stand out, in whatever they are looked for."""

from typing import Final

STRICT: Final = 1.5
"""Standard errors by which noise must be exceeded before any of a group of numbers is believed, and by which states
must rest for a drift to count as a poor start: noise alone does so in one of fifteen."""
SURE: Final = 3.0
"""Standard errors by which something must stand out that is rarely looked for: chance makes as much in one of a
thousand. Where nobody is known to have nothing to tell, dividing by a noisy share that is really 1 would only add its
noise."""
PRECISE: Final = 10.0
"""Standard errors that a number has which is precisely known. Where curvature is, its rounds are carried well however
far states moved: else a quarter of the fits of designs "response" (200,000 records at μ = 3) and "charges" (10,000,000)
were marked, whose intervals cover."""
BIAS: Final = 0.25
"""Bias, in standard errors, that is let pass: 95% intervals then hold in 94.3%."""
