"""Losses of the published descent: families, their numbers for the noise, and their slopes.

A loss is f(w) = φ(⟨x, w⟩, y) with φ convex in its first argument and φ' α-Hölder there, so that for ‖x‖ ≤ r

    ‖∂f(w) − ∂f(w')‖ ≤ h r^(1+α) ‖w − w'‖^α,    ‖∂f(w)‖ ≤ r sup|φ'|,

h being φ's Hölder constant. α = 0 is a loss with a kink, α = 1 one with a Lipschitz gradient. Slopes φ' and steps along
them are compiled, in `kernels`.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from privreg.errors import OptionError, UnsupportedArgumentError, choose, number, shown
from privreg.families import Hinge, Huber, Logistic, Quantile, SmoothedHinge
from privreg.families.family import CLASSICAL_C, Family
from privreg.protocol import codes
from privreg.published.descent.kernels import HUBER, LOGISTIC, PINBALL, Q_HINGE, Q_NORM, SMOOTHED_HINGE

ASSUMED_SCALE: Final = 0.2  # Residual scale that Huber()'s "auto" assumes, in halves of the response's public range
_POWER_HINGE, _POWER_NORM = -1, -2
_CONVEX: Final = "be in [1, 2]: the loss is convex, its gradient Hölder of exponent q - 1", 1.0, math.nextafter(2, 3)


@dataclass(frozen=True)
class PowerFamily(Family):
    """A loss with a power q, for which no report of bounded length is known."""

    q: float = 1.5  # In [1, 2]

    def __repr__(self) -> str:
        return f"{self.name}({self.q:g})"

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (self.to_json(),)

    @property
    def scaled(self) -> bool:
        """True if the response has units, so that it is scaled inside."""
        return self.code == _POWER_NORM

    @property
    def estimand(self) -> str:
        """The coefficients in words."""
        if self.code == _POWER_HINGE:
            return f"direction and offset of the hyperplane with the least mean hinge loss to the power {self.q:g}"
        between = "between the conditional median and mean"
        line = {1.0: "the conditional median", 2.0: "the conditional mean"}.get(self.q, between)
        return f"minimiser of the mean absolute error to the power {self.q:g}; {line}"

    def to_json(self) -> dict[str, Any]:
        """Represent by JSON values."""
        return {**super().to_json(), "q": self.q}


def restored(doc: dict[str, Any]) -> Family:
    """Rebuild a family from its ``to_json()``, of this module or of the core."""
    return PowerFamily(**doc) if "q" in doc else Family(**doc)


def QHinge(q: float = 1.5) -> Family:
    """Classifier with the hinge loss to the power q, max(0, 1 − sη)^q for s = ±1; OptionError if q is not in [1, 2]."""
    return PowerFamily("QHinge", _POWER_HINGE, "margin", "binary", q=number("q", q, *_CONVEX, closed=True))


def QNorm(q: float = 1.5) -> Family:
    """Regression with the loss abs(y − η)^q, least squares for q = 2; OptionError if q is not in [1, 2]."""
    return PowerFamily("QNorm", _POWER_NORM, "identity", q=number("q", q, *_CONVEX, closed=True))


def Absolute() -> Family:
    """Regression with the absolute loss abs(y − η): the conditional median, as ``Quantile(0.5)``."""
    return Quantile(0.5)


LOSSES: Final = {
    "hinge": Hinge, "q_hinge": QHinge, "smoothed_hinge": SmoothedHinge, "absolute": Absolute, "quantile": Quantile,
    "huber": Huber, "logistic": Logistic, "q_norm": QNorm,
}  # fmt: skip
"""Losses of the descent, by name."""


def resolve(family: Any) -> Family:
    """Read ``family=`` of a published descent: a family, its name, or the function that makes it.
    Raises OptionError if it is none; UnsupportedArgumentError if the descent has not its loss.
    """
    if isinstance(family, str):
        family = LOSSES[choose("family", family, LOSSES)]
    family = family() if callable(family) and family in LOSSES.values() else family
    if not isinstance(family, Family):
        raise OptionError(f"family must be a family or its name ({', '.join(map(repr, LOSSES))}), got {shown(family)}.")
    if family.code not in {make().code for make in LOSSES.values()}:
        squared = " For least squares take pr.central.QNorm(2)." if family.code == codes.SQUARED else ""
        raise UnsupportedArgumentError(
            f"the published descent needs a convex loss with a Hölder gradient, and has none for {family!r}; choose "
            f"one of {', '.join(map(repr, LOSSES))}, or leave tuning= out.{squared}"
        )
    return family


class Loss(NamedTuple):
    """A loss in internal units, numbers only."""

    code: int  # Code of the loss in :func:`slope`
    a: float  # Power q, level τ, threshold c or width, as the loss has it
    alpha: float  # Hölder exponent of φ'
    holder: float  # Hölder constant h of φ' in its first argument
    slope: float  # sup |φ'|; ``inf`` where it grows with the predictor
    start: float  # sup φ(0, y) over the public range of y
    words: str  # For the header

    @property
    def window(self) -> float:
        """Half the width over which curvature is a difference quotient of φ'; none is needed where φ' is Lipschitz."""
        return 1e-4 if self.alpha == 1.0 else ASSUMED_SCALE / 2.0

    @property
    def steepest(self) -> float:
        """Largest such quotient: h (2δ)^(α − 1) for the window ±δ."""
        return float(self.holder * (2.0 * self.window) ** (self.alpha - 1.0))


def resolve_loss(family: Family, *, unit: float = 1.0, y_max: float = 1.0) -> Loss:
    """Turn a family that :func:`resolve` gives into numbers, of `unit` response units per internal one, sup |y| inside
    `y_max`.
    """
    code, words, q = family.code, repr(family), family.q if isinstance(family, PowerFamily) else 1.0
    if code == codes.LOGISTIC:
        return Loss(LOGISTIC, 0.0, 1.0, 0.25, 1.0, math.log(2.0), words)
    if code == codes.SMOOTHED_HINGE:
        return Loss(SMOOTHED_HINGE, family.width, 1.0, 1.0 / family.width, 1.0, 1.0, words)
    if code == codes.QUANTILE:
        steep = max(family.tau, 1.0 - family.tau)
        return Loss(PINBALL, family.tau, 0.0, 1.0, steep, steep * y_max, words)
    if code == codes.HUBER:
        family.refuse_joint()
        scale = ASSUMED_SCALE if isinstance(family.scale, str) else family.scale / unit
        ratio = CLASSICAL_C if isinstance(family.c, str) else family.c
        how = "assumed" if isinstance(family.scale, str) else "declared"
        words = f"Huber, c = {ratio:.4g} × residual scale {scale * unit:.4g} ({how})"
        return Loss(HUBER, ratio * scale, 1.0, 1.0, ratio * scale, ratio * scale * y_max, words)
    flat = q if q == 1.0 else math.inf
    if code in {codes.HINGE, _POWER_HINGE}:
        return Loss(Q_HINGE, q, q - 1.0, q, flat, 1.0, words)
    # |sgn(u)|u|^α − sgn(v)|v|^α| ≤ 2^(1−α)|u − v|^α, attained at v = −u
    return Loss(Q_NORM, q, q - 1.0, q * 2.0 ** (2.0 - q), flat, y_max**q, words)
