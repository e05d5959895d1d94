"""Families: frozen values that say which loss is meant, and what its score and curvature are.

A `Family` is what the user writes; `Family.resolve` turns it into a `Score`, the numbers the kernel
needs in internal units. The NumPy functions here are the readable twins of the kernel's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from privreg.errors import OptionError, UnsupportedArgumentError, choose, real, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["FAMILIES", "Family", "Huber", "Logistic", "Score", "curvature", "psi", "resolve_family"]

HUBER: Final = 0
LOGISTIC: Final = 1

LARGEST_C: Final = 100.0
"""Above it c is surely a residual scale in the wrong place; at 100 the loss is least squares for all purposes."""

CLASSICAL_C: Final = 1.345
"""Huber's constant with 95% efficiency for normal errors of sd 1."""


@dataclass(frozen=True)
class Score:
    """Scalar score ψ(η, y), so that a person's score is ψ·ω(x)·x, in internal units.

    Parameters
    ----------
    code : int
        Which family, for the kernel.
    c : float
        Huber's corner in internal response units; unused by Logistic.
    bound : float
        sup abs ψ.
    curvature_bound : float
        sup ∂ψ/∂η.
    """

    code: int
    c: float
    bound: float
    curvature_bound: float


@dataclass(frozen=True)
class Family:
    """A loss, as the user names it. Made by :func:`Huber` or :func:`Logistic`.

    Parameters
    ----------
    name : str
        Name in tables.
    code : int
        Kernel code.
    link : str
        "identity" or "logit".
    c, scale : float or "auto"
        Huber's corner in units of the residual scale, and that scale in the response's own units.
    """

    name: str
    code: int
    link: Literal["identity", "logit"]
    c: float | str = "auto"
    scale: float | str = "auto"

    def __repr__(self) -> str:
        if self.code == HUBER:
            return f"Huber(c={self.c!r}, scale={self.scale!r})"
        return f"{self.name}()"

    @property
    def binary(self) -> bool:
        """Whether the response is 0/1."""
        return self.code == LOGISTIC

    @property
    def estimand(self) -> str:
        """What the coefficients are, in words."""
        if self.code == HUBER:
            return (
                "minimiser of the weighted Huber loss; the conditional mean line when errors are symmetric, "
                "drawn towards the conditional median line when they are skewed"
            )
        return "log-odds ratios of the logistic model; its weighted projection if the model is wrong"

    def inverse_link(self, eta: Array) -> Array:
        """Mean response at linear predictor `eta`, same shape."""
        if self.link == "identity":
            return eta
        e = np.exp(-np.abs(eta))
        return np.where(eta >= 0, 1.0, e) / (1.0 + e)

    def inverse_link_derivative(self, eta: Array) -> Array:
        """Derivative of :meth:`inverse_link`, same shape."""
        if self.link == "identity":
            return np.ones_like(eta)
        mean = self.inverse_link(eta)
        return mean * (1.0 - mean)

    def ratio(self, p: int, mu: float) -> float:
        """Huber's c in residual sd: the user's, or the one that suits `p` coefficients and a budget of `mu`."""
        return _auto_c(p, mu) if isinstance(self.c, str) else self.c

    def resolve(self, *, unit: float) -> tuple[Score, str]:
        """Turn the family into the numbers of the published algorithm.

        Parameters
        ----------
        unit : float
            Response units per internal unit.

        Returns
        -------
        score : Score
            The scalar score in internal units; "auto" is the sources' fixed c = 1.345 internal units.
        description : str
            The family with the values that were chosen, in the user's units.
        """
        if self.code == LOGISTIC:
            return Score(LOGISTIC, 0.0, 1.0, 0.25), "Logistic"
        scale = 1.0 if isinstance(self.scale, str) else self.scale / unit
        c = CLASSICAL_C if isinstance(self.c, str) else self.c
        how = "assumed" if isinstance(self.scale, str) else "declared"
        words = f"Huber, c = {c:.4g} × residual scale {scale * unit:.4g} ({how})"
        return Score(HUBER, c * scale, c * scale, 1.0), words


def _auto_c(p: int, mu: float) -> float:
    """Pick c (in residual sd) that minimises the asymptotic variance under unit weights, in [0.5, 1.345].

    With spherical covariates A = (2Φ(c)−1) a I and the per-coordinate variance of a report is
    E ψ²/p + (2c/μ)²; below c = 0.5 the gain is under 5% while the curvature keeps falling.
    """
    grid = np.linspace(0.5, CLASSICAL_C, 170)
    cdf = np.array([math.erf(v / math.sqrt(2.0)) for v in grid])  # 2Φ(c) − 1
    pdf = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    psi2 = cdf - 2 * grid * pdf + grid**2 * (1 - cdf)
    variance = (psi2 / p + (2 * grid / mu) ** 2) / cdf**2
    return float(grid[int(np.argmin(variance))])


def _positive(name: str, value: object) -> float | str:
    if isinstance(value, str):
        return choose(name, value, ("auto",))
    number = real(value)
    if number is None or not (number > 0 and math.isfinite(number)):
        raise OptionError(f"{name}={shown(value)} must be a positive number or 'auto'.")
    return number


def Huber(c: float | str = "auto", scale: float | str = "auto") -> Family:
    """Robust linear regression with Huber's loss.

    Parameters
    ----------
    c : float or "auto"
        Corner of the loss in units of the residual scale. "auto" is half the residual scale while
        privacy noise dominates and rises to the classical 1.345 as the budget grows. The residual scale is
        where a share P(abs z ≤ c) of the residuals, z standard normal, lies within c of it: 38.3% at half.
        With symmetric errors every c gives the mean line; with skewed ones a small c gives nearly the median line.
    scale : float or "auto"
        Residual scale in the response's own units, a *public* guess: a wrong one costs
        precision, never privacy. "auto" learns it from privatised reports (with tuning="published": 1, as in
        the sources).

    Returns
    -------
    Family

    Raises
    ------
    OptionError
        If `c` or `scale` is not positive, or `c` is above 100.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 5.1.

    Examples
    --------
    >>> Huber(1.345)
    Huber(c=1.345, scale='auto')
    """
    corner, size = _positive("c", c), _positive("scale", scale)
    if not isinstance(corner, str) and corner > LARGEST_C:
        raise OptionError(
            f"c={corner:g} is in units of the residual scale and usually lies between 0.5 and 2; for a residual "
            f"scale of {corner:g} write Huber(scale={corner:g})."
        )
    return Family("Huber", HUBER, "identity", corner, size)


def Logistic() -> Family:
    """Logistic regression for a response in {0, 1}, a boolean, or a two-level factor.

    Returns
    -------
    Family

    References
    ----------
    XSJKH (arXiv 2505.08227), section 5.2, with y in {0, 1} as its loss needs (the text says {−1, 1}).

    Examples
    --------
    >>> Logistic()
    Logistic()
    """
    return Family("Logistic", LOGISTIC, "logit")


FAMILIES: Final[dict[str, Callable[..., Family]]] = {"huber": Huber, "logistic": Logistic}


def resolve_family(family: Any) -> Family:
    """Accept a `Family` or its lower-case name.

    Raises
    ------
    OptionError
        If the name is not known.
    UnsupportedArgumentError
        If `family` is a class, function or object of another library.
    """
    if isinstance(family, Family):
        return family
    if isinstance(family, str):
        return FAMILIES[choose("family", family, FAMILIES)]()
    for name, make in FAMILIES.items():
        if family is make:
            raise UnsupportedArgumentError(
                f"family={make.__name__} lacks its brackets; write {make.__name__}() or {name!r}."
            )
    raise UnsupportedArgumentError(
        f"family must be a privreg family or its name ({', '.join(map(repr, FAMILIES))}), got {type(family).__name__}."
    )


def psi(score: Score, eta: Array, y: Array) -> Array:
    """Scalar score ψ(η, y) = ∂ρ/∂η, the NumPy twin of the kernel's.

    Parameters
    ----------
    score : Score
    eta, y : ndarray, shape (n,)
        Linear predictor and response in internal units.

    Returns
    -------
    ndarray, shape (n,)
    """
    if score.code == HUBER:
        return -np.clip(y - eta, -score.c, score.c)
    e = np.exp(-np.abs(eta))
    return np.where(eta >= 0, 1.0, e) / (1.0 + e) - y


def curvature(score: Score, eta: Array, y: Array) -> Array:
    """∂ψ/∂η, the NumPy twin of the kernel's; shapes as in :func:`psi`."""
    if score.code == HUBER:
        return (np.abs(y - eta) <= score.c).astype(np.float64)
    e = np.exp(-np.abs(eta))
    return e / (1.0 + e) ** 2
