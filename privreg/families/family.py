"""A family: a frozen value that says which loss is meant. The user's ways to make one are in `builtin`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import OptionError, SchemaError
from privreg.families.compiled import compiled
from privreg.families.scores import Score
from privreg.protocol import codes
from privreg.protocol.plans import Shape
from privreg.schema.declarations import Schema

CLASSICAL_C: Final = 1.345  # Huber's constant with 95% efficiency for normal errors of sd 1


@dataclass(frozen=True)
class Family:
    """A loss, as the user names it. Made by :func:`Huber`, :func:`Logistic` and their like."""

    name: str  # Name in tables
    code: int  # Kernel code
    link: Literal["identity", "logit", "log", "margin"]  # "margin" of classifiers whose predictor is no probability
    response: Literal["number", "binary", "levels", "count"] = "number"
    c: float | str = "auto"  # Threshold in units of the residual scale; of counts √mean, where "auto" is none
    scale: float | str = "auto"  # That scale, in the response's own units
    tau: float = 0.5  # Level of quantiles and expectiles
    y_max: float = 0.0  # Public largest response of Poisson
    width: float = 1.0  # Width over which the hinge is smoothed
    bound: float = 1.0  # Declared bound of a score that users define
    slope: float = 0.0  # Declared bound of its slope by η; 0 if none is declared
    score: Any = field(default=None, compare=False)  # That score ψ(η, y), compiled; None for other families
    _compiled: Any = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        match self.code:
            case codes.HUBER:
                return f"Huber(c={self.c!r}, scale={self.scale!r})"
            case codes.EXPECTILE:
                return f"Expectile({self.tau:g}, c={self.c!r}, scale={self.scale!r})"
            case codes.QUANTILE:
                return f"Quantile({self.tau:g})"
            case codes.POISSON:
                return f"Poisson(y_max={self.y_max:g}{f', c={self.c:g}' if self.robust else ''})"
            case codes.SMOOTHED_HINGE:
                return f"SmoothedHinge(width={self.width:g})"
            case codes.CUSTOM:
                slope = f", slope={self.slope:g}" if self.slope else ""
                return f"custom({self.name!r}, bound={self.bound:g}{slope})"
        return f"{self.name}()"

    def __reduce__(self) -> tuple[Any, ...]:
        return from_json, (self.to_json(), self.score)

    @property
    def unit(self) -> Callable[[float, float], float] | None:
        """A user's own score over its bound."""
        score, bound = self.score, self.bound
        return None if score is None else lambda eta, y: float(score(eta, y)) / bound

    @property
    def tame(self) -> Callable[[float, float], float] | None:
        """Compiled score that no record can make fail: NaN where the score raises an error."""
        return None if self._compiled is None else self._compiled.ctypes

    @property
    def binary(self) -> bool:
        """True if the response is 0/1."""
        return self.response == "binary"

    @property
    def kind(self) -> str:
        """Kind of response as the design has it: "number", "binary" or "levels"."""
        return "number" if self.response == "count" else self.response

    @property
    def of_residuals(self) -> bool:
        """True if the score depends on y − η, so that a residual scale or density is to be learned."""
        return self.code in codes.RESIDUALS

    @property
    def scaled(self) -> bool:
        """True if the response has units, so that it is scaled inside."""
        return self.code in codes.SCALED

    @property
    def cornered(self) -> bool:
        """True if the loss has a threshold c in units of a residual scale."""
        return self.code in {codes.HUBER, codes.EXPECTILE}

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
        return self.code == codes.POISSON and not isinstance(self.c, str)

    @property
    def estimand(self) -> str:
        """Estimand of the coefficients, in words."""
        words = _ESTIMANDS[codes.ROBUST_POISSON if self.robust else self.code]
        return words.format(tau=self.tau, y_max=self.y_max, c=self.c)

    def target(self, ratio: float, *, learned: bool) -> str:
        """Target of the coefficients, in words, with the threshold c in residual scales, if there is one."""
        if self.code != codes.HUBER:
            return self.estimand
        beyond = math.erfc(ratio / math.sqrt(2.0))  # of normal errors
        near = "a median regression" if beyond > 0.5 else "least squares" if beyond < 0.05 else "a regression of means"
        moves = "; c and scale were learned, so with skewed errors another fit targets other numbers" if learned else ""
        return (
            f"close to {near}: residuals beyond ± {ratio:.4g} scale ({100.0 * beyond:.0f}% of normal ones) count by "
            f"their sign. With symmetric errors and a right model the conditional mean{moves}"
        )

    def inverse_link(self, eta: Array) -> Array:
        """Mean response (or quantile, expectile, class margin) at linear predictor `eta`, same shape."""
        if self.link == "logit":
            rising = np.real(eta) >= 0  # of complex numbers too, as derivatives take steps along the imaginary axis
            e = np.exp(np.where(rising, -eta, eta))
            return np.where(rising, 1.0, e) / (1.0 + e)
        if self.link == "log":
            with np.errstate(over="ignore"):
                return np.asarray(np.exp(eta))
        return eta

    def inverse_link_derivative(self, eta: Array) -> Array:
        """Derivative of :meth:`inverse_link`, same shape."""
        if self.link == "logit":
            mean = self.inverse_link(eta)
            return mean * (1.0 - mean)
        return self.inverse_link(eta) if self.link == "log" else np.ones_like(eta)

    def shape(self, low: float = -1.0, high: float = 1.0, *, balanced: bool = False, plain: bool = False) -> Shape:
        """Score over its bound, for the kernel; `balanced` is of Logistic's, `plain` of Poisson's likelihood's.

        `low` and `high` are public limits of the response, internal units, which Squared needs.
        """
        a = b = 0.0
        if self.code in {codes.EXPECTILE, codes.QUANTILE}:
            a, b = self.tau, max(self.tau, 1.0 - self.tau)
        elif self.code == codes.POISSON:
            a, b = self.y_max, float(plain)
        elif self.code == codes.SMOOTHED_HINGE:
            a = self.width
        elif self.code == codes.SQUARED:
            a, b = low, high
        code = codes.BALANCED if balanced and self.code == codes.LOGISTIC else self.code
        code = codes.ROBUST_POISSON if self.robust else code
        return Shape(code, a, b, 0 if self._compiled is None else self._compiled.address)

    def resolve(self, *, unit: float, low: float = -1.0, high: float = 1.0) -> tuple[Score, str]:
        """Turn the family into the numbers of the published algorithm, and describe it with them in the user's units.

        "auto" is the sources' fixed c = 1.345 internal units. `unit` is response units per internal one, `low` and
        `high` are public limits of the response, internal units.
        """
        shape, c, words = self.shape(low, high), 1.0, repr(self)
        if self.cornered:
            scale = 1.0 if isinstance(self.scale, str) else self.scale / unit
            ratio = CLASSICAL_C if isinstance(self.c, str) else self.c
            how = "assumed" if isinstance(self.scale, str) else "declared"
            name = self.name if self.code == codes.HUBER else f"Expectile({self.tau:g})"
            words = f"{name}, c = {ratio:.4g} × residual scale {scale * unit:.4g} ({how})"
            words = f"{name}, c = {ratio:.4g} × residual scale, estimated jointly" if self.joint else words
            c = ratio * scale
        elif self.code == codes.LOGISTIC:
            words = "Logistic"
        elif self.robust:
            c = float(self.c)
        bound = {
            codes.HUBER: c,
            codes.EXPECTILE: c * shape.b,
            codes.QUANTILE: shape.b,
            codes.SQUARED: high - low,
            codes.CUSTOM: self.bound,
            codes.MULTINOMIAL: math.sqrt(2.0),
        }.get(self.code, 1.0)
        steepest = {
            codes.HUBER: math.inf if self.joint else 1.0,  # 1/σ
            codes.LOGISTIC: 0.25,
            codes.EXPECTILE: shape.b,
            codes.SMOOTHED_HINGE: 1.0 / self.width,
            codes.SQUARED: 1.0,
        }.get(self.code, math.inf)
        ends: tuple[float | None, float | None] = (None, None)
        if self.code in {codes.EXPECTILE, codes.QUANTILE}:
            threshold = c if self.code == codes.EXPECTILE else 1.0
            ends = (-self.tau * threshold, (1.0 - self.tau) * threshold)
        return Score(shape, c, bound, steepest, *ends), words

    def to_json(self) -> dict[str, Any]:
        """Represent by JSON values; a user's own score is left out."""
        names = ("name", "code", "link", "response", "c", "scale", "tau", "y_max", "width", "bound", "slope")
        return {n: getattr(self, n) for n in names}


def check_response(family: Family, limits: tuple[float, float], name: str) -> None:
    """Refuse a response whose public limits don't suit its family, with the fix."""
    low, high = limits
    if family.code == codes.SQUARED and not (math.isfinite(low) and math.isfinite(high)):
        raise SchemaError(f"Squared() needs a response with finite bounds; give bounds={{{name!r}: (low, high)}}.")
    if family.response == "count" and not (low == 0.0 and high == family.y_max):
        raise SchemaError(
            f"the counts {name!r} go from {low:g} to {high:g}, but {family!r} takes 0 to {family.y_max:g}; give "
            f"bounds={{{name!r}: (0, {family.y_max:g})}}, or a larger y_max."
        )


def check_ratios(family: Family, response: str) -> None:
    """Refuse to exponentiate coefficients that are no differences of logs.

    Of a `response` that the formula has as ``np.log(y)`` they are logs of ratios of y.
    """
    if family.link in {"logit", "log"} or (family.link == "identity" and _is_log(response)):
        return
    what = "those of a separating hyperplane" if family.link == "margin" else "differences of the response itself"
    raise OptionError(
        "exponentiate=True is for odds ratios of Logistic() and Multinomial(), rate ratios of Poisson(), and ratios of "
        f"a response written np.log(y); this is {family!r}, whose coefficients are {what}. Leave it out."
    )


def _is_log(response: str) -> bool:
    try:
        call = ast.parse(response, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the name of a column need not be Python
        return False
    func = call.func if isinstance(call, ast.Call) else None
    of_numpy = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "np"
    return of_numpy and getattr(func, "attr", "") in {"log", "log1p"}


def with_counts(schema: Schema, family: Family, name: str) -> Schema:
    """Schema with the bounds that a family of counts gives its response `name`, if it has none of its own."""
    if family.response != "count" or schema.declares(name) or not name.isidentifier():
        return schema
    return replace(schema, bounds={**schema.bounds, name: (0.0, family.y_max)})


def from_json(doc: Mapping[str, Any], score: Any = None) -> Family:
    """Rebuild a family from :meth:`Family.to_json`; one of a user's own without its score can predict, not fit."""
    if score is None:
        return Family(**doc)
    made = compiled(score, doc["bound"], binary=doc["response"] == "binary", slope=doc.get("slope", 0.0))
    return Family(**doc, score=score, _compiled=made)


_SVM: Final = "direction and offset of the hyperplane with the least mean weighted {} loss; no odds, no probabilities"
_ESTIMANDS: Final = {
    codes.HUBER: "minimiser of the weighted Huber loss: where the model is right, the conditional mean if errors are "
    "symmetric, between it and the conditional median if they are skewed; else their weighted projection",
    codes.LOGISTIC: "log-odds ratios of the logistic model; its weighted projection if the model is wrong",
    codes.EXPECTILE: "minimiser of the weighted robust {tau:g}-expectile loss: between the conditional "
    "{tau:g}-expectile (large c) and the {tau:g}-quantile (small c)",
    codes.QUANTILE: "conditional {tau:g}-quantile; its weighted projection if quantiles are not linear",
    codes.MULTINOMIAL: "log-odds of each class against the first; their weighted projection if the model is wrong",
    codes.POISSON: "log rate ratios for counts up to {y_max:g} (larger ones are clamped); their weighted projection "
    "if the mean is not log-linear",
    codes.ROBUST_POISSON: "log rate ratios if counts are Poisson's; counts whose variance is not their mean move "
    "intercept and slopes, as Pearson residuals are clipped at {c:g}",
    codes.HINGE: _SVM.format("hinge"),
    codes.SMOOTHED_HINGE: _SVM.format("smoothed hinge"),
    codes.SQUARED: "conditional mean of the response clamped to its public bounds",
    codes.CUSTOM: "zero of the mean weighted score",
}
