"""Families: frozen values that say which loss is meant, and what its score and curvature are.

A `Family` is what the user writes; `Family.resolve` turns it into a `Score` of the published algorithm, and
`constants.score_rules` into what the chains of an efficient fit need. NumPy twins of the scores are in `scores`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Literal

from privreg.errors import OptionError, UnsupportedArgumentError, choose, real, shown
from privreg.families.family import Family
from privreg.options.unknown import MODELS, known_arguments
from privreg.protocol import codes

LARGEST_C: Final = 100.0
"""Above it c is surely a residual scale in the wrong place; at 100 the loss is least squares for all purposes."""


MOST_Y: Final = 1e9

LEAST_PEARSON: Final = 0.5
MOST_PEARSON: Final = 10.0
"""Range of the threshold of counts' residuals: below, scores hardly show more than the sign of a residual; at 10 nearly
nothing is clipped."""


def _positive(name: str, value: object, words: tuple[str, ...] = ("auto",)) -> float | str:
    if isinstance(value, str):
        return choose(name, value, words)
    number = real(value)
    if number is None or not (number > 0 and math.isfinite(number)):
        raise OptionError(f"{name}={shown(value)} must be a positive number or 'auto'.")
    return number


@known_arguments
def Huber(c: float | str = "auto", scale: float | str = "auto") -> Family:
    """Robust linear regression with Huber's loss.

    Parameters
    ----------
    c : float or "auto"
        Huber threshold, in units of the residual scale. "auto" is half the residual scale while
        privacy noise dominates and rises to the classical 1.345 as the budget grows. The residual scale is
        where a share P(abs z ≤ c) of the residuals, z standard normal, is within c of it: 38.3% at half.
        With symmetric errors every c gives the conditional mean; with skewed ones a small c gives nearly the
        conditional median.
    scale : float, "auto" or "joint"
        Residual scale in the response's own units, a *public* guess: a wrong one costs
        precision, never privacy. "auto" learns it from privatised reports (with tuning="published": 1, as in
        the sources). "joint", with tuning="published": the chain estimates it beside the coefficients, by the loss
        (σ ρ_c(r/σ) + κ_c σ/2) ω(x); each report holds a score for σ, too.

    Raises
    ------
    OptionError
        If `c` or `scale` is not positive, or `c` is above 100.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 5.1; "joint": SXJKH (arXiv 2507.07041), section 5.1.

    Examples
    --------
    >>> Huber(1.345)
    Huber(c=1.345, scale='auto')
    """
    threshold, size = _positive("c", c), _positive("scale", scale, ("auto", "joint"))
    if not isinstance(threshold, str) and threshold > LARGEST_C:
        raise OptionError(
            f"c={threshold:g} is in units of the residual scale and usually between 0.5 and 2; for a residual scale "
            f"of {threshold:g} write family=Huber(scale={threshold:g})."
        )
    return Family("Huber", codes.HUBER, "identity", c=threshold, scale=size)


@known_arguments
def Logistic() -> Family:
    """Logistic regression for a response in {0, 1}, a boolean, or a two-level factor.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 5.2, with y in {0, 1} as its loss needs (the text says {−1, 1}).

    Examples
    --------
    >>> Logistic()
    Logistic()
    """
    return Family("Logistic", codes.LOGISTIC, "logit", "binary")


def _level(tau: object) -> float:
    number = real(tau)
    if number is None or not 0.0 < number < 1.0:
        raise OptionError(f"tau={shown(tau)} must be a number in (0, 1); 0.5 is the middle.")
    return number


@known_arguments
def Expectile(tau: float = 0.5, c: float | str = "auto", scale: float | str = "auto") -> Family:
    """Robust expectile regression: asymmetric least squares with Huber's thresholds.

    Parameters
    ----------
    tau : float
        Level, in (0, 1); 0.5 is :func:`Huber`.
    c, scale : float or "auto"
        As for :func:`Huber`. The smaller c, the nearer the estimand is to the conditional tau-quantile.

    Raises
    ------
    OptionError
        If `tau` is not in (0, 1), or c or scale is out of range.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 5.3.

    Examples
    --------
    >>> Expectile(0.8)
    Expectile(0.8, c='auto', scale='auto')
    """
    huber = Huber(c, _positive("scale", scale))
    return Family("Expectile", codes.EXPECTILE, "identity", c=huber.c, scale=huber.scale, tau=_level(tau))


@known_arguments
def Quantile(tau: float = 0.5) -> Family:
    """Quantile regression; with the formula ``"y ~ 1"`` the quantile of one variable.

    Parameters
    ----------
    tau : float
        Level, in (0, 1); 0.5 is the median.

    Raises
    ------
    OptionError
        If `tau` is not in (0, 1).

    Notes
    -----
    Needs a response with a density at the quantile: ties there break the normal limit. The density is learned from
    joint reports, each saying also whether a residual is near the line.

    References
    ----------
    Dette & Graw (arXiv 2405.12553), section 4.

    Examples
    --------
    >>> Quantile(0.9)
    Quantile(0.9)
    """
    return Family("Quantile", codes.QUANTILE, "identity", tau=_level(tau))


@known_arguments
def Multinomial() -> Family:
    """Multinomial logistic regression for a factor of two or more declared levels, the first being the baseline.

    Notes
    -----
    The score of all classes is reported at once, over its largest norm for any response at the same covariates.

    Examples
    --------
    >>> Multinomial()
    Multinomial()
    """
    return Family("Multinomial", codes.MULTINOMIAL, "logit", "levels")


@known_arguments
def Poisson(y_max: float | None = None, c: float | None = None) -> Family:
    """Log-linear regression of counts with a public largest count.

    Parameters
    ----------
    y_max : float
        Largest response, to be given; larger ones are clamped to it on the device, which changes the estimand if many
        are.
    c : float, optional
        Where Pearson residuals (y − m)/√m are clipped in the score, from 0.5 to 10; 1.5 is usual. Then the noise no
        longer covers the whole range of counts, and `y_max` costs next to nothing, but estimates are right for Poisson
        counts alone: a variance of two means moves the linear predictor by −0.37, −0.19, −0.12 and −0.03 at means of
        0.2, 1, 2 and 8 (c = 1.5), and slopes with it. By default they aren't clipped.

    Raises
    ------
    OptionError
        If `y_max` is not a positive number, or `c` is out of range.

    Notes
    -----
    Responses that are no counts are neither refused nor reported, since that would tell that somebody has one:
    negative ones are clamped to 0, and fractions are kept as they are, which suits rates and averages, too.

    Without `c` noise covers the whole range of counts, so that precision goes with mean/(y_max − mean): with a mean of
    1, about 20 times as many people are wanted under `y_max` = 20 as under 5. Declare the least that few exceed. See
    ``StudyPlan.compare_families`` for what each choice needs.

    References
    ----------
    Cantoni and Ronchetti, Robust inference for generalized linear models, JASA 2001, for `c`.

    Examples
    --------
    >>> Poisson(20)
    Poisson(y_max=20)
    """
    number = real(y_max)
    if number is None or not 0.0 < number <= MOST_Y:
        raise OptionError(f"y_max={shown(y_max)} must be a positive number, the largest count anybody may have.")
    threshold = "auto" if c is None else real(c)
    if threshold is None or not (isinstance(threshold, str) or LEAST_PEARSON <= threshold <= MOST_PEARSON):
        raise OptionError(
            f"c={shown(c)} is where Pearson residuals are clipped, from {LEAST_PEARSON:g} to {MOST_PEARSON:g}; 1.5 is "
            "usual. Leave it out for means of counts of any distribution."
        )
    return Family("Poisson", codes.POISSON, "log", "count", c=threshold, y_max=number)


@known_arguments
def Hinge() -> Family:
    """Linear support vector machine: hinge loss for a response in {0, 1}, a boolean, or a two-level factor.

    Examples
    --------
    >>> Hinge()
    Hinge()
    """
    return Family("Hinge", codes.HINGE, "margin", "binary")


@known_arguments
def SmoothedHinge(width: float = 1.0) -> Family:
    """Linear support vector machine with a hinge rounded off over a stretch of the margin.

    Parameters
    ----------
    width : float
        Length of that stretch: the loss is (1 − m)²/(2 width) for margins m in (1 − width, 1), linear below.

    Raises
    ------
    OptionError
        If `width` is not a positive number.

    Examples
    --------
    >>> SmoothedHinge(0.5)
    SmoothedHinge(width=0.5)
    """
    number = real(width)
    if number is None or not 0.0 < number < math.inf:
        raise OptionError(f"width={shown(width)} must be a positive number; 1 is usual.")
    return Family("SmoothedHinge", codes.SMOOTHED_HINGE, "margin", "binary", width=number)


@known_arguments
def Squared() -> Family:
    """Least squares for a response with finite public bounds, to which predictions are clamped in the score.

    Notes
    -----
    ``family="gaussian"`` is this one: least squares' coefficients of responses within their bounds, skewed ones too.
    Its score is as wide as the response's range, so it wants many more people than :func:`Huber`; see "Means of
    skewed outcomes" of the guide to models.

    Examples
    --------
    >>> Squared()
    Squared()
    """
    return Family("Squared", codes.SQUARED, "identity")


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

    Raises
    ------
    OptionError
        If `bound` or `slope` is not positive or finite, or the score can't be compiled to a function of two floats.

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
    from privreg.families.compiled import compiled

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


FAMILIES: Final[dict[str, Callable[..., Family]]] = {
    "huber": Huber,
    "logistic": Logistic,
    "expectile": Expectile,
    "quantile": Quantile,
    "multinomial": Multinomial,
    "poisson": Poisson,
    "hinge": Hinge,
    "smoothed_hinge": SmoothedHinge,
    "squared": Squared,
    "gaussian": Squared,  # as R and statsmodels call mean regression
}


LISTED: Final = frozenset(
    {codes.HUBER, codes.LOGISTIC, codes.EXPECTILE, codes.QUANTILE, codes.POISSON, codes.HINGE, codes.SMOOTHED_HINGE}
    | {codes.SQUARED, codes.MULTINOMIAL, codes.CUSTOM}
)
"""Scores that a family can have; other codes stand for forms of these."""


def resolve_family(family: Any, *, curator: bool = False) -> Family:
    """Accept a `Family` or its lower-case name; with a `curator` also one of the published descent.
    Raises OptionError if the name is not known; UnsupportedArgumentError if `family` is a class, function or object of
    another library.
    """
    if isinstance(family, Family):
        if family.code < 0 and not curator:
            raise UnsupportedArgumentError(
                f"{family!r} has no score of bounded length, which people's reports need; it is for a trusted "
                "curator, trust='central'."
            )
        if family.code >= 0 and family.code not in LISTED:
            raise UnsupportedArgumentError(
                f"{family!r} is none of {', '.join(map(repr, FAMILIES))}; of a score of your own write "
                "custom(name, score, bound)."
            )
        return family
    if isinstance(family, str):
        name = choose("family", family, FAMILIES)
        if name == "poisson":
            raise OptionError("family='poisson' needs a public largest count; write Poisson(y_max=...).")
        return FAMILIES[name]()
    if family is custom:
        raise UnsupportedArgumentError("family=custom lacks its arguments; write custom(name, score, bound).")
    for name, make in FAMILIES.items():
        if family is make:
            write = "Poisson(y_max=20)" if name == "poisson" else f"{make.__name__}() or {name!r}"
            raise UnsupportedArgumentError(f"family={make.__name__} lacks its brackets; write {write}.")
    got = family.__name__ if isinstance(family, type) else type(family).__name__
    known = (MODELS.get(got) or MODELS.get(got.lower()) or "").replace("pr.", "")
    meant = f" Did you mean {known}?" if known else ""
    raise UnsupportedArgumentError(
        f"family must be a privreg family or its name ({', '.join(map(repr, FAMILIES))}), got {got}.{meant}"
    )
