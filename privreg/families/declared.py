"""Options of a family as users declare them: a frozen value that every score of `scores` can read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import OptionError


def probability(eta: Array) -> Array:
    """Probability at log-odds `eta`, complex ones too, as derivatives take steps along the imaginary axis."""
    rising = np.real(eta) >= 0
    e = np.exp(np.where(rising, -eta, eta))
    return np.where(rising, 1.0, e) / (1.0 + e)


LINKS: Final[dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]]] = {
    "identity": (lambda eta: eta, np.ones_like),
    "margin": (lambda eta: eta, np.ones_like),
    "logit": (probability, lambda eta: probability(eta) * (1.0 - probability(eta))),
    "log": (np.exp, np.exp),
}
"""Mean response at a linear predictor, and its derivative, by the link; families may add theirs."""


@dataclass(frozen=True)
class Declared:
    """A loss by its name, its code and its options."""

    name: str  # Name in tables
    code: int  # Kernel code
    link: str  # One of `LINKS`; "margin" of classifiers whose predictor is no probability
    response: Literal["number", "binary", "levels", "ordinal", "count"] = "number"
    c: float | str = "auto"  # Threshold in units of the residual scale; of counts √mean, where "auto" is none
    scale: float | str = "auto"  # That scale, in the response's own units
    tau: float = 0.5  # Level of quantiles and expectiles
    y_max: float = 0.0  # Public largest response of Poisson
    low: float | None = None  # Limits beyond which a response of Tobit is censored
    high: float | None = None
    width: float = 1.0  # Width over which the hinge is smoothed
    bound: float = 1.0  # Family bound of a score that users define
    slope: float = 0.0  # Family bound of its slope by η; 0 if none is declared
    score: Any = field(default=None, compare=False)  # That score ψ(η, y), compiled; None for other families
    _compiled: Any = field(default=None, compare=False, repr=False)

    @property
    def unit(self) -> Callable[[float, float], float] | None:
        """A user's own score over its bound."""
        score, bound = self.score, self.bound
        return None if score is None else lambda eta, y: float(score(eta, y)) / bound

    @property
    def compiled(self) -> Callable[[float, float], float] | None:
        """Compiled score that no record can make fail: NaN where the score raises an error."""
        return None if self._compiled is None else self._compiled.ctypes

    @property
    def binary(self) -> bool:
        """True if the response is 0/1."""
        return self.response == "binary"

    @property
    def kind(self) -> str:
        """Kind of response as the design has it: "number", "binary", "levels" or "ordinal"."""
        return "number" if self.response == "count" else self.response

    @property
    def joint(self) -> bool:
        """True if the published chain estimates the residual scale beside the coefficients."""
        return self.scale == "joint"

    def refuse_joint(self) -> None:
        """Raise an `OptionError` if the residual scale is to be estimated by the published chain, and this is none."""
        if self.joint:
            raise OptionError(
                "Huber(scale='joint') is the published chain's, of local reports: give tuning='published' to fit or "
                "start with trust='local', or leave scale= out, which learns it too."
            )

    @property
    def robust(self) -> bool:
        """True if counts' Pearson residuals are clipped."""
        return self.response == "count" and not isinstance(self.c, str)

    def inverse_link(self, eta: Array) -> Array:
        """Mean response (or quantile, expectile, class margin) at linear predictor `eta`, same shape."""
        with np.errstate(over="ignore"):
            return LINKS[self.link][0](eta)

    def inverse_link_derivative(self, eta: Array) -> Array:
        """Derivative of :meth:`inverse_link`, same shape."""
        with np.errstate(over="ignore"):
            return LINKS[self.link][1](eta)

    def to_json(self) -> dict[str, Any]:
        """Represent by JSON values; a user's own score is left out."""
        names = (f.name for f in fields(self) if f.compare)
        return {n: getattr(self, n) for n in names}
