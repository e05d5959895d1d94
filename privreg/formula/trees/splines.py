"""Splines with public knots: what bs(), cr() and cc() may be given, their trees, and how they are computed.

The limits and the arithmetic are those of devices; SciPy's evaluator writes beyond its memory where the degree is high.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privreg.data.cells import Floats
from privreg.formula.trees.operations import Tree
from privreg.protocol.limits import HIGHEST, LARGEST, MOST_KNOTS


def problem(what: str, given: Mapping[str, Any]) -> str | None:
    """Fault of the numbers of a spline "bs", "cr" or "cc", with what is allowed; None if they are right.

    `given` are its "knots", "lower_bound" and "upper_bound"; of bs also "degree".
    """
    low, high, inner, degree = given["lower_bound"], given["upper_bound"], given["knots"], given.get("degree", 3)
    if degree not in range(HIGHEST + 1):
        return f"degree={degree}; a degree is a whole number from 0 to {HIGHEST}, and 3, the default, is cubic"
    most = MOST_KNOTS - 2 * (int(degree) + 1 if what == "bs" else 1)
    if len(inner) > most:
        return f"{len(inner)} knots; give at most {most}"
    if not low < high or not all(low <= k <= high for k in inner):
        return "bounds that don't hold its knots; give lower_bound < upper_bound, and knots between them"
    if what != "bs" and (not inner or not all(low < k < high for k in inner)):
        return "no knot between its bounds, or one on them; give knots=[...] inside"
    try:
        with np.errstate(all="ignore"):
            fine = all((np.abs(floats(tree[-1])) <= LARGEST).all() for tree in trees(what, [], given) if what != "bs")
    except ValueError:  # curvatures that are not finite
        fine = False
    return None if fine else "knots that are too near each other; give others"


def trees(what: str, of: Tree, given: Mapping[str, Any]) -> list[Tree]:
    """Trees of a spline's basis functions; `given` as in `problem`, of bs also "include_intercept"."""
    ends, inner = [float(given["lower_bound"]), float(given["upper_bound"])], map(float, given["knots"])
    if what == "bs":
        degree, first = int(given.get("degree", 3)), int(not given.get("include_intercept", False))
        hexed = [k.hex() for k in sorted([*ends * (degree + 1), *inner])]
        return [["bspline", of, degree, hexed, i] for i in range(first, len(hexed) - degree - 1)]
    from patsy.mgcv_cubic_splines import _get_cyclic_f, _get_natural_f

    knots = np.array(sorted({*ends, *inner}))
    at = np.arange(len(knots)) if what == "cr" else np.append(np.arange(len(knots) - 1), 0)  # cc: the first one again
    curvatures = np.asarray(_get_natural_f(knots) if what == "cr" else _get_cyclic_f(knots))[at]
    hexed, *pairs = [[v.hex() for v in row] for row in (knots.tolist(), *np.eye(at.max() + 1)[at].T.tolist())]
    return [["cr", of, hexed, v, [c.hex() for c in bent]] for v, bent in zip(pairs, curvatures.T.tolist(), strict=True)]


def floats(texts: list[str]) -> Floats:
    """Numbers as trees have them."""
    return np.array([float.fromhex(t) for t in texts])


def bsplines(x: Floats, degree: int, knots: Floats) -> tuple[list[Any], Any]:
    """The degree + 1 B-splines that aren't 0 at each x, and the number of the first; not finite outside the knots.

    See de Boor (1978), A practical guide to splines, chapter X.
    """
    at = np.clip(np.searchsorted(knots, x, "right") - 1, degree, len(knots) - degree - 2)
    values = [np.where((x >= knots[0]) & (x <= knots[-1]), 1.0, np.nan)]
    for k in range(1, degree + 1):
        before, values = values, [np.zeros(np.shape(x)) for _ in range(k + 1)]
        for r, value in enumerate(before):
            left, right = knots[at + r + 1 - k], knots[at + r + 1]
            # knots on the upper bound leave an interval without width
            share = np.divide(value, right - left, out=np.zeros(np.shape(x)), where=right != left)
            values[r] = values[r] + (right - x) * share
            values[r + 1] = values[r + 1] + (x - left) * share
    return values, at - degree


def one_of(values: list[Any], first: Any, i: int) -> Any:
    """Basis function i, by what `bsplines` gives."""
    return np.sum([np.where(first + r == i, value, 0.0 * value) for r, value in enumerate(values)], axis=0)


def cubic(
    x: Floats, knots: Floats, values: Floats, curvatures: Floats, *, beyond: bool = False, around: bool = False
) -> Floats:
    """A cubic spline of given values and second derivatives at its knots.

    Outside of them it is not finite; with `beyond` it goes on straight, with `around` too from the other end.

    See Wood, Generalized Additive Models, 2006, section 4.1.2.
    """
    if beyond and around:
        low, high = knots[0], knots[-1]
        x = np.where(x > high, low + (x - high) % (high - low), x)
        x = np.where(x < low, high - (low - x) % (high - low), x)
    j = np.clip(np.searchsorted(knots, x) - 1, 0, len(knots) - 2)
    h = np.diff(knots)[j]
    above, below, over, under = knots[j + 1] - x, x - knots[j], x > knots[-1], x < knots[0]
    bent_left = np.where(over, 0.0, above * above * above / (6.0 * h)) - h * above / 6.0
    bent_right = np.where(under, 0.0, below * below * below / (6.0 * h)) - h * below / 6.0
    out = above / h * values[j] + below / h * values[j + 1]
    out = out + bent_left * curvatures[j] + bent_right * curvatures[j + 1]
    return out if beyond else np.where(over | under, np.nan, out)
