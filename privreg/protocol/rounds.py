"""Public states, which cross the wall in a fit by rounds."""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from privreg.base.arrays import Array

LEAST_GROUPS: Final = 8  # t with 7 degrees of freedom makes intervals a fifth longer than of a known variance
MOST_GROUPS: Final = 64
GROUPS: Final = 2 * LEAST_GROUPS  # Random groups of records at slightly different offsets in a main round
PARTS: Final = LEAST_GROUPS  # Runs of records, in order, of a main round that are summed separately


class State(NamedTuple):
    """A round's public state, by which its records report. Internal units."""

    number: int  # Number of the round
    role: str
    rows: "Array"  # Row map W, lower triangular; shape (d, d), or with the response
    y_centre: float  # The response is (y − y_centre)/y_scale
    y_scale: float
    theta: "Array"  # Coefficients in the coordinates z = W x; shape (b d,)
    c: float  # Threshold of the score, as of Huber's loss
    offsets: "Array"  # Differences of each group's coefficients; shape (groups, b d), of one group outside main rounds
    kappa: float  # Weight of the number in a joint report; 0 if scores are sent alone
    thresholds: "Array"  # Thresholds, in rounds on location, of columns whose scale nobody declared; shape (groups, m)
    # Largest ‖z‖ that declarations allow, by which all scores are divided; 0 if each is by its row's own ‖z‖
    longest: float = 0.0
