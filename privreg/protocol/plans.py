"""Public numbers that compiled loops are handed."""

from typing import NamedTuple

__all__ = ["Channel", "Persons", "ScorePlan", "Shape"]


class Persons(NamedTuple):
    """Rule by which several rows of a person, or rows with weights, become one report. Public."""

    rows: int  # K: independent rows of a person at most, whose vectors are averaged
    mean: bool = False  # True if people count alike, by the mean over the rows that they have, or rows do
    one: bool = True  # True if all rows of a person have one bounded weight, or each its own
    cuts: int = 1  # Rows that follow each other and are one record, at each cut point of its levels in order
    widths: tuple[float, ...] = ()  # Lengths of the intervals that rows are, in order; none where rows are records


class Shape(NamedTuple):
    """A scalar score, numbers only: u(η, y) in [−1, 1], times a bound and a threshold c where it has one."""

    family: int  # Kernel code
    # τ and max(τ, 1 − τ) of expectile and quantile; y_max of Poisson, and 1 if that divides its score everywhere; width
    # of the smoothed hinge; lowest and highest response of Squared; 0 where unused
    a: float
    b: float
    address: int  # Place in memory of the compiled score of a user's own family; 0 for the others. Not for saving.


class Channel(NamedTuple):
    """Randomiser of a report that lies in a ball: numbers only, all public."""

    kind: int  # GAUSSIAN, LAPLACE, PRIVUNIT or RESPONSE
    # Per unit of the ball's radius: noise sd, scale of Laplace noise, or factor that makes the answer unbiased
    scale: float
    accept: float  # PrivUnit: probability of an answer in the cap about the truth
    above: float  # PrivUnit: normal mass of the cap


class ScorePlan(NamedTuple):
    """Rule by which records report scores in a fit by rounds: numbers only, all public."""

    shape: Shape  # The score, whose unit form lies in [−1, 1] (of norm at most 1 with several blocks)
    blocks: int  # Linear predictors of a record: 1, or one less than the classes of a multinomial response
    reach: float  # Bound of a weighted unit score's ℓ2 norm; the device clips to it
    kappa: float  # Weight of the number in [0, 1] that a joint report carries; 0 if scores are sent alone
    radius: float  # Half the sensitivity of a report; a ball that holds all reports has this radius
    channel: Channel
    label: int  # 1 if only the response is private: one number is randomised, and the public covariates multiply it
    # Public limits of the response, internal units, by which label privacy knows a score's range
    y_low: float
    y_high: float
    longest: float = 0.0  # Length by which scores are divided; 0: each by its row's own length
