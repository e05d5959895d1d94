"""Rides in the spirit of the ride-sharing example of arXiv 2505.08227."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from privreg.datasets.drawing import SEED, Columns, Declarations, Recipe, build


def _draw_ride_sharing(rng: np.random.Generator, n: int) -> Columns:
    distance = np.round(rng.uniform(1.0, 30.0, n), 2)
    delay = rng.uniform(5.0, 45.0, n)
    c: Columns = {
        "distance": distance,
        "driver_rating": np.round(rng.uniform(3.0, 5.0, n), 1),
        "total_rides": rng.integers(0, 5001, n),
        "vehicle_year": rng.integers(2010, 2025, n),
        "capacity": rng.integers(2, 8, n),
        "duration": np.round(distance + delay, 1),
    }
    mean = 5.0 + 1.2 * c["distance"] + 0.25 * c["duration"]
    c["fare"] = np.round(mean + rng.standard_normal(n), 2)
    return c


def ride_sharing(n: int = 50_000, *, seed: int = SEED) -> pd.DataFrame:
    """Draw the reconstructed ride-sharing data.

    Every ride is synthetic, made in the spirit of the published example, whose distribution isn't printed. The
    fare is ``5 + 1.2 distance + 0.25 duration`` plus a standard normal error; the driver's rating and number
    of rides, the year of the vehicle and its capacity have no effect. A ride takes one minute per kilometre
    and 5 to 45 minutes of delay, so distance and duration are correlated (about 0.59).

    A shorter draw is the beginning of a longer one with the same seed. ``attrs["provenance"]`` says that this is a
    reconstruction, and ``attrs["privreg"]`` holds the declarations of :func:`ride_sharing_schema`, which models use.

    References
    ----------
    Xie, Shi, Jiang, Kong & He, arXiv 2505.08227, section 6.

    Examples
    --------
    >>> list(ride_sharing(2))
    ['distance', 'driver_rating', 'total_rides', 'vehicle_year', 'capacity', 'duration', 'fare']
    """
    return build(RIDE_SHARING, n, seed)


def ride_sharing_schema() -> Declarations:
    """Public bounds of :func:`ride_sharing`, which has no factors; pass as ``**ride_sharing_schema()``.

    Without its error the fare is between 7.70 and 59.75, seven error standard deviations inside 0 to 70.
    """
    of_rides = {"distance": (1, 30), "duration": (6, 75), "fare": (0, 70)}
    of_drivers = {"driver_rating": (3, 5), "total_rides": (0, 5000), "vehicle_year": (2010, 2024), "capacity": (2, 7)}
    return {"bounds": {**of_rides, **of_drivers}, "levels": {}}


RIDE_SHARING: Final = Recipe(
    tag=2,
    draw=_draw_ride_sharing,
    declared=lambda labels: ride_sharing_schema(),
    provenance=(
        "reconstruction: synthetic rides drawn by privreg in the spirit of the ride-sharing example in "
        "arXiv 2505.08227; its coefficients are privreg's own, not the original file and not real rides"
    ),
)
