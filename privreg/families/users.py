"""Families of a user's own: a score that is compiled to a function, called by its address."""

import itertools
import math
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose, real, shown, warn
from privreg.families.hinge import Margin
from privreg.families.scores import Family, Function, Score, ScoreRules, SumRules
from privreg.families.scores import unit as unit_score
from privreg.protocol import codes
from privreg.protocol.plans import Shape

STEP: Final = 1e-3  # Part of a threshold over whose both sides the slope is taken
MARGIN: Final = 0.7  # Length of groups' offsets on the scale of the predictor; see `hinge.MARGIN`


class CustomScore(Margin):
    """A score over its declared bound."""

    code = codes.CUSTOM
    estimand = "zero of the mean weighted score"
    custom = jumps = separable = True
    margin = MARGIN

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        if function is None:
            return super().unit(shape, c, eta, y)
        values = [function(float(e), float(v)) for e, v in zip(eta, y, strict=True)]
        return np.asarray(np.clip(np.array(values), -1.0, 1.0))

    def slope(self, shape: Shape, c: float, eta: Array, y: Array, top: float, function: Function = None) -> Array:
        up, down = (unit_score(shape, c, eta + h, y, function) for h in (STEP * c, -STEP * c))
        return np.clip((up - down) / (2.0 * STEP), 0.0, top)  # a difference: Equation (23)

    def compiled(self, score: Any, family: Family) -> Any:
        return compiled(score, family.bound, binary=family.binary, slope=family.slope)

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        # c: in which the steepest score rises by its bound
        return SumRules(1.0, known.curvature, known.curvature, family.bound / family.slope)

    def words(self, family: Family) -> str:
        slope = f", slope={family.slope:g}" if family.slope else ""
        return f"custom({family.name!r}, bound={family.bound:g}{slope})"

    def shape(self, family: Family, low: float, high: float, *, balanced: bool, plain: bool) -> Shape:
        return Shape(self.code, 0.0, 0.0, 0 if family._compiled is None else family._compiled.address)

    def published(self, family: Family, shape: Shape, c: float, low: float, high: float) -> Score:
        return Score(shape, c, family.bound, math.inf)

    def unsummed(self, family: Family) -> str:
        if family.slope:
            return ""
        return (
            f"reports hold the score's slope, and {family!r} declares no bound of it; give custom(..., slope=), the "
            "largest slope by eta, or use trust='local'"
        )


def custom(
    name: str,
    score: Callable[[float, float], float],
    bound: float,
    *,
    slope: float | None = None,
    link: Literal["identity", "logit", "log", "margin"] = "identity",
    response: Literal["number", "binary"] = "number",
) -> Family:
    """Describe a family of your own.
    Raises OptionError if `bound` or `slope` is not positive or finite, or numba can't compile the score.

    Parameters
    ----------
    name : str
        For tables.
    score : callable
        ψ(η, y) = ∂ρ/∂η of two floats, a function that numba can compile (``@njit`` or plain): increasing in η, and in
        the response's own units.
    bound : float
        sup abs ψ. The device clips to it: a wrong bound costs bias, never privacy, and warns.
    slope : float, optional
        sup ∂ψ/∂η, which ``trust="two_collectors"`` needs. The device clips to it: too small a one makes estimates
        and intervals wrong, and warns; too large a one costs precision.
    link : {"identity", "logit", "log", "margin"}
        How predictions come from the linear predictor.
    response : {"number", "binary"}
        What the response is: a number with public bounds, which is *not* scaled inside, or 0/1.

    Warns
    -----
    PrivregWarning
        If the score exceeds its bound, falls, or rises faster than its slope, on a public grid of η and y.

    Examples
    --------
    >>> import math
    >>> custom("log-cosh", lambda eta, y: math.tanh(eta - y), 1.0)
    custom('log-cosh', bound=1)
    """
    number = real(bound)
    if number is None or not 0.0 < number < math.inf:
        raise OptionError(f"bound={shown(bound)} must be a positive number, the largest size of the score.")
    steep = 0.0 if slope is None else real(slope)
    if steep is None or (slope is not None and not 0.0 < steep < math.inf):
        raise OptionError(f"slope={shown(slope)} must be a positive number, the largest slope of the score by eta.")
    if not isinstance(name, str) or not name:
        raise OptionError("a family's name must be a string, for tables.")
    choose("link", link, ("identity", "logit", "log", "margin"))
    choose("response", response, ("number", "binary"))
    made = compiled(score, number, binary=response == "binary", slope=steep)
    return Family(name, codes.CUSTOM, link, response, bound=number, slope=steep, score=score, _compiled=made)


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
    needed = (
        "score must be a function of two floats, eta and y, that numba can compile and that returns a float, such as "
        "`lambda eta, y: math.tanh(eta - y)` (of single numbers: min() and max() rather than np.clip)"
    )
    if not callable(plain):
        raise OptionError(f"{needed}; got {type(score).__name__}.")
    problem, factor = None, 1.0 / bound
    try:
        inner = njit(error_model="numpy")(plain)

        def unit(eta: float, y: float) -> float:
            try:  # an error's text could hold a value of the row; NaN becomes a report of pure noise
                return float(factor * inner(eta, y))
            except Exception:
                return math.nan

        made: Any = cfunc("float64(float64, float64)", error_model="numpy")(unit)
        values = {
            (eta, y): float(made.ctypes(eta, y)) for eta, y in itertools.product(_GRID, (0.0, 1.0) if binary else _GRID)
        }
    except Exception as e:  # numba's own text runs over pages
        problem = OptionError(f"{needed}; numba could not compile it ({type(e).__name__}).")
    if problem is not None:
        raise problem
    if not all(math.isfinite(v) for v in values.values()):
        raise OptionError("score gives NaN or infinity for finite eta and y; it must be finite and bounded.")
    etas, ys = sorted(set(_GRID)), sorted({y for _, y in values})
    steps = [(y, a, b) for y in ys for a, b in itertools.pairwise(etas)]
    rising = max(bound * (values[b, y] - values[a, y]) / (b - a) for y, a, b in steps)
    falls = any(values[b, y] < values[a, y] - 1e-12 for y, a, b in steps)
    turned = any(values[eta, b] > values[eta, a] + 1e-12 for eta in etas for a, b in itertools.pairwise(ys))
    wrong = {
        f"exceeds its declared bound {bound:g} on a public grid; devices clip it there, which costs bias, not privacy. "
        "Declare the larger bound.": max(map(abs, values.values())) > 1.0 + 1e-9,
        f"rises faster than its declared slope {slope:g} on a public grid; devices clip the slope there, so that "
        "estimates and intervals with two collectors would be wrong. Declare the larger slope.": (
            slope > 0.0 and rising > slope * (1.0 + 1e-9)
        ),
        "falls as eta grows somewhere on a public grid: its loss is not convex, or its sign is turned (psi is the "
        "derivative of the loss by eta); fits may end in a local minimum or run away.": falls,
        "rises with y somewhere on a public grid, where others fall: with private='response' its range is then "
        "misjudged, which costs bias, not privacy.": turned and not falls,
    }
    for words in (words for words, so in wrong.items() if so):
        warn(f"the score {words}")
    return made
