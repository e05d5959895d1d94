"""Codes and constants that devices, collector and compiled loops share."""

from __future__ import annotations

from typing import Final

BLOCK: Final = 256
"""Updates between two flushes of the path's partial sums; 256 × p × 8 bytes fit the first cache at p = 11."""

LINE: Final = BLOCK + 8  # Length of a line that holds a block: a power of two would fall into few cache sets

TINY: Final = 1e-290
"""Below this ‖x‖² has lost digits to underflow, so 1/‖x‖ can't be trusted: such a row sends noise only."""

HUBER: Final = 0
LOGISTIC: Final = 1
BALANCED: Final = 2
EXPECTILE: Final = 3
QUANTILE: Final = 4
POISSON: Final = 5
HINGE: Final = 6
SMOOTHED_HINGE: Final = 7
SQUARED: Final = 8
MULTINOMIAL: Final = 9
CUSTOM: Final = 10
ROBUST_POISSON: Final = 11
CLOGLOG: Final = 12
ORDERED: Final = 13
HAZARDS: Final = 14
NEGATIVE_BINOMIAL: Final = 15
TOBIT: Final = 16
TOBIT_LIKELIHOOD: Final = 17

COUNTS: Final = frozenset({POISSON, ROBUST_POISSON, NEGATIVE_BINOMIAL})

EXTRA: Final = frozenset({NEGATIVE_BINOMIAL, TOBIT, TOBIT_LIKELIHOOD})  # Scores with a parameter beside coefficients

RESIDUALS: Final = frozenset({HUBER, EXPECTILE, QUANTILE})  # Scores of y − η over a residual scale

SCALED: Final = RESIDUALS | {SQUARED, TOBIT}
"""Scores of responses that have units: moments are beside those less offsets, of other scores beside offsets."""

PUBLISHED: Final = 1
UNIT: Final = 2
PUBLISHED_SLOPES: Final = 3

LEVER2: Final = 64.0
"""Squared whitened length, per coordinate, of mean 1, up to which a public row has the weight 1: of rare levels too."""

BEYOND: Final = 100.0  # Logarithms of public numbers beyond it tell no scale

GAUSSIAN: Final = 0
LAPLACE: Final = 1
PRIVUNIT: Final = 2
RESPONSE: Final = 3

NONE: Final = 0
DIAGONAL: Final = 1
FULL: Final = 2

UPDATES: Final = 0
PEOPLE: Final = 1
CURVATURES: Final = 2
POSITION: Final = 3
IN_BATCH: Final = 4
