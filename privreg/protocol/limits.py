"""Limits of formulas, which are those of devices. Standard library only."""

from __future__ import annotations

from typing import Final

DEEPEST: Final = 48  # Operations inside each other
MOST_COLUMNS: Final = 2000  # Columns of a design, and of a table
MOST_KNOTS: Final = 200  # Knots of a spline, its boundaries counted
HIGHEST: Final = 5  # Degree of a spline
LARGEST: Final = 2.0**60  # Absolute value of a real
