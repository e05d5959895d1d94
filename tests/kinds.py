"""What the laws of scores, reports and mechanisms are tried on: every family, mechanism and form of report."""

import math
from typing import Any, NamedTuple

import numpy as np

import privreg as pr
from privreg.families import scores
from privreg.families.family import Family
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism
from privreg.protocol import codes
from privreg.protocol.plans import Channel, ScorePlan, Shape


def softsign(eta, y):
    """Twice r/(1 + |r|): the same bits from any compiler, and NaN where r is infinite."""
    r = eta - y
    return 2.0 * (r / (1.0 + abs(r)))


def unit_softsign(eta, y):
    r = float(eta) - float(y)
    return r / (1.0 + abs(r)) if math.isfinite(r) else math.nan


class Kind(NamedTuple):
    """A family, with the scores that it has in internal units."""

    family: Family
    balanced: bool = False
    function: object = None
    low: float = -2.0
    high: float = 3.0
    responses: tuple = (-1e6, -2.0, -0.3, 0.0, 1e-9, 0.5, 1.0, 3.0, 1e6)

    @property
    def shape(self) -> Shape:
        return self.family.shape(self.low, self.high, balanced=self.balanced)

    @property
    def score(self):
        return self.family.resolve(unit=1.0, low=self.low, high=self.high)[0]


BINARY = {"low": 0.0, "high": 1.0, "responses": (0.0, 1.0)}
Y_MAX = 20.0
KINDS = {
    "huber": Kind(pr.Huber(0.7, 1.0)),
    "expectile": Kind(pr.families.Expectile(0.3, 0.7, 1.0)),
    "quantile": Kind(pr.families.Quantile(0.8)),
    "squared": Kind(pr.families.Squared()),
    "logistic": Kind(pr.Logistic(), **BINARY),
    "balanced": Kind(pr.Logistic(), balanced=True, **BINARY),
    "cloglog": Kind(pr.Cloglog(), **BINARY),
    "balanced cloglog": Kind(pr.Cloglog(), balanced=True, **BINARY),
    "poisson": Kind(pr.families.Poisson(Y_MAX), low=0.0, high=Y_MAX, responses=(0.0, 1.0, 3.0, 10.0, 19.0, Y_MAX)),
    "robust poisson": Kind(
        pr.families.Poisson(Y_MAX, c=1.5), low=0.0, high=Y_MAX, responses=(0.0, 1.0, 3.0, 10.0, 19.0, Y_MAX)
    ),
    "hinge": Kind(pr.families.Hinge(), **BINARY),
    "smoothed hinge": Kind(pr.families.SmoothedHinge(0.5), **BINARY),
    "custom": Kind(pr.families.custom("softsign", softsign, 2.0), function=unit_softsign),
}
"""Every family with a scalar score; "balanced" is not among the published algorithm's."""


def unit_score(shape: Shape, c: float, eta: float, y: float) -> float:
    """Scalar score over its bound: the published algorithm's, compiled, or the balanced one, which it has not."""
    from privreg.published.chain import kernels

    if shape.family == codes.BALANCED:
        return float(scores.unit(shape, c, np.array([eta]), np.array([y]))[0])
    return kernels.unit_score(shape, c, eta, y)


WITH_EXP = codes.COUNTS | {codes.LOGISTIC, codes.BALANCED, codes.MULTINOMIAL, codes.CLOGLOG}
"""Families whose scores hold an exponential: NumPy's and the C library's differ in the last bit on some processors."""


def assert_twins(one: Any, two: Any, family: int) -> None:
    """Named tuples of arrays that are the same bit for bit, but for what the last bit of `exp` leads to."""
    for name, a, b in zip(one._fields, one, two, strict=True):
        if family in WITH_EXP and a.dtype.kind == "f":
            size = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * size, err_msg=name)
        else:
            assert a.dtype == b.dtype, name
            assert a.tobytes() == b.tobytes(), name


EXTREME = (1.7e308, 1e300, 1e155, 1e8, 745.2, 40.0, 2.5, 1.0, 0.31, 1e-9, 1e-155, 1e-300, 5e-324, 0.0)
EXTREME = (*EXTREME, *(-v for v in EXTREME))
BROKEN = (math.nan, math.inf, -math.inf)

PURE = ("laplace", "privunit", "randomized_response")
MECHANISMS = ("gaussian", *PURE)


def mechanism(name: str, strength: float = 2.0) -> Mechanism:
    """Mechanism with mu, or a pure epsilon, of `strength`."""
    return Mechanism(name, Budget.declare(epsilon=strength) if name in PURE else Budget.declare(mu=strength))


def plan_of(kind: Kind, name: str, d: int, *, joint: bool, label: bool = False, blocks: int = 1, strength: float = 2.0):
    """The library's own plan of reports of scores of `kind`, or of a multinomial response; joint ones as pilots are."""
    mech, kappa = mechanism(name, strength), float(joint)
    return ScorePlan(
        shape=kind.shape if blocks == 1 else Shape(codes.MULTINOMIAL, 0.0, 0.0, 0),
        blocks=blocks,
        reach=math.inf if label else 1.0,
        kappa=kappa,
        radius=mech.joint_radius(1.0, kappa),
        channel=mech.channel((1 if label else blocks * d) + int(joint)),
        label=int(label),
        y_low=kind.low,
        y_high=kind.high,
    )


def quiet(plan: ScorePlan) -> ScorePlan:
    """The plan without noise."""
    return plan._replace(channel=Channel(codes.GAUSSIAN, 0.0, 0.0, 0.0))


def responses(kind: Kind, rng: np.random.Generator, n: int) -> np.ndarray:
    """Responses that may occur, ordinary and extreme."""
    usual = rng.choice(kind.responses, n)
    if kind.family.response == "number":
        usual = np.where(rng.uniform(size=n) < 0.5, usual, rng.standard_normal(n))
    return usual


def adversarial(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Rows, most of them ordinary; every third with entries of any size, or zero."""
    x = rng.standard_normal((n, d))
    x[:, 0] = 1.0
    x[2::3] = rng.choice(EXTREME, (len(x[2::3]), d))
    x[n // 2] = 0.0
    return x
