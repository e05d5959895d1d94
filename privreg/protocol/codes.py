"""Codes and constants that devices, collector and compiled loops share, and limits of formulas, those of devices."""

from typing import Final

BLOCK: Final = 256
"""Updates between two flushes of the path's partial sums; 256 × p × 8 bytes fit the first cache at p = 11."""

LINE: Final = BLOCK + 8  # Length of a line that holds a block: a power of two would fall into few cache sets

TINY: Final = 1e-290
"""Below this ‖x‖² has lost digits to underflow, so 1/‖x‖ can't be trusted: such a row sends noise only."""

# Families, numbered in order; the numbers stand in saved files
HUBER, LOGISTIC, BALANCED, EXPECTILE, QUANTILE, POISSON, HINGE, SMOOTHED_HINGE, SQUARED = range(9)
MULTINOMIAL, CUSTOM, ROBUST_POISSON, CLOGLOG, ORDERED = range(9, 14)
HAZARDS, NEGATIVE_BINOMIAL, TOBIT, TOBIT_LIKELIHOOD = range(14, 18)

COUNTS: Final = frozenset({POISSON, ROBUST_POISSON, NEGATIVE_BINOMIAL})

EXTRA: Final = frozenset({NEGATIVE_BINOMIAL, TOBIT, TOBIT_LIKELIHOOD})  # Scores with a parameter beside coefficients

RESIDUALS: Final = frozenset({HUBER, EXPECTILE, QUANTILE})  # Scores of y − η over a residual scale

SCALED: Final = RESIDUALS | {SQUARED, TOBIT}
"""Scores of responses that have units: moments are beside those less offsets, of other scores beside offsets."""

PUBLISHED, UNIT, PUBLISHED_SLOPES = range(1, 4)  # Weights of scores

LEVER2: Final = 64.0
"""Squared whitened length, per coordinate, of mean 1, up to which a public row has the weight 1: of rare levels too."""

BEYOND: Final = 100.0  # Logarithms of public numbers beyond it tell no scale

GAUSSIAN, LAPLACE, PRIVUNIT, RESPONSE = range(4)  # Mechanisms
NONE, DIAGONAL, FULL = range(3)  # Scaling of a chain's steps
UPDATES, PEOPLE, CURVATURES, POSITION, IN_BATCH = range(5)  # Places of a chain's counters

DEEPEST: Final = 48  # Operations inside each other
MOST_COLUMNS: Final = 2000  # Columns of a design, and of a table
MOST_KNOTS: Final = 200  # Knots of a spline, its boundaries counted
HIGHEST: Final = 5  # Degree of a spline
LARGEST: Final = 2.0**60  # Absolute value of a real
