"""A user's own score, compiled to a function that the kernel can call by its address."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, Final

from privreg.errors import OptionError, PrivregWarning

_GRID: Final = tuple(s * v for v in (0.0, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0, 1e4) for s in (-1.0, 1.0))


def compiled(score: Callable[[float, float], float], bound: float, *, binary: bool, slope: float = 0.0) -> Any:
    """Compile ψ(η, y)/bound and try it on a public grid; y is 0 or 1 of a `binary` response.

    What comes back has the function's ``address`` and ``ctypes`` form, and must be kept as long as the address is used.
    `slope` is the declared bound of the score's slope by η, 0 without one.
    Raises OptionError if it can't be compiled, or gives something that is no number; warns if it exceeds its bound,
    falls with η, or rises faster than its slope.
    """
    from numba import cfunc, njit

    plain = getattr(score, "py_func", score)
    wrong = (
        "score must be a function of two floats, eta and y, that numba can compile and that returns a float, such as "
        "`lambda eta, y: math.tanh(eta - y)` (of single numbers: min() and max() rather than np.clip)"
    )
    if not callable(plain):
        raise OptionError(f"{wrong}; got {type(score).__name__}.")
    problem = None
    try:
        inner = njit(error_model="numpy")(plain)
        made: Any = cfunc("float64(float64, float64)", error_model="numpy")(_scaled(inner, 1.0 / bound))
        values = {
            (eta, y): float(made.ctypes(eta, y)) for eta, y in itertools.product(_GRID, (0.0, 1.0) if binary else _GRID)
        }
    except Exception as e:  # numba's own text runs over pages
        problem = OptionError(f"{wrong}; numba could not compile it ({type(e).__name__}).")
    if problem is not None:
        raise problem
    if not all(math.isfinite(v) for v in values.values()):
        raise OptionError("score gives NaN or infinity for finite eta and y; it must be finite and bounded.")
    if max(abs(v) for v in values.values()) > 1.0 + 1e-9:
        warnings.warn(
            f"the score exceeds its declared bound {bound:g} on a public grid; devices clip it there, which costs "
            "bias, not privacy. Declare the larger bound.",
            PrivregWarning,
            stacklevel=3,
        )
    etas = sorted(set(_GRID))
    ys = {y for _, y in values}
    rises = [bound * (values[b, y] - values[a, y]) / (b - a) for y in ys for a, b in itertools.pairwise(etas)]
    if slope and max(rises) > slope * (1.0 + 1e-9):
        warnings.warn(
            f"the score rises faster than its declared slope {slope:g} on a public grid; devices clip the slope there, "
            "so that estimates and intervals with two collectors would be wrong. Declare the larger slope.",
            PrivregWarning,
            stacklevel=3,
        )
    if any(values[b, y] < values[a, y] - 1e-12 for y in ys for a, b in itertools.pairwise(etas)):
        warnings.warn(
            "the score falls as eta grows somewhere on a public grid: its loss is not convex, or its sign is turned "
            "(psi is the derivative of the loss by eta); fits may end in a local minimum or run away.",
            PrivregWarning,
            stacklevel=3,
        )
    elif any(values[eta, b] > values[eta, a] + 1e-12 for eta in etas for a, b in itertools.pairwise(sorted(ys))):
        warnings.warn(
            "the score rises with y somewhere on a public grid, where others fall: with private='response' its range "
            "is then misjudged, which costs bias, not privacy.",
            PrivregWarning,
            stacklevel=3,
        )
    return made


def _scaled(inner: Any, factor: float) -> Any:
    def unit(eta: float, y: float) -> float:
        try:  # an error's text could hold a value of the row; NaN becomes a report of pure noise
            return float(factor * inner(eta, y))
        except Exception:
            return math.nan

    return unit
