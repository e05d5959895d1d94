"""Laws of mechanisms: unbiased, of the covariance they claim, and never less private than they claim."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

import privreg as pr
from privreg.audit.neighbours import audit
from privreg.audit.reports import scored
from privreg.errors import OptionError
from privreg.privacy import mechanisms
from privreg.privacy.conversions import pure_mu
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism, resolve_mechanism
from privreg.protocol import codes
from privreg.protocol.plans import Channel
from privreg.published.chain import kernels
from tests.devices import randomised_one
from tests.kinds import KINDS, MECHANISMS, PURE, Kind, mechanism, plan_of

EVERY = pytest.mark.parametrize("name", MECHANISMS)
SIZES = (1, 2, 5)
ALPHA = 1e-6


def randomised_many(mech, reports, radius, rng):
    noise = rng.standard_normal((len(reports), mech.width(reports.shape[1])))
    return mechanisms.randomised(mech.channel(reports.shape[1]), reports, radius, noise)


def examples(size, radius):
    """Reports in the ball: its middle, its surface in two directions, inside, and hardly any."""
    rng = np.random.default_rng(size)
    units = rng.standard_normal((5, size))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    return units * np.array([0.0, 1.0, -1.0, 0.4, 1e-3])[:, None] * radius


# --- what a report becomes ---------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(MECHANISMS),
    st.integers(1, 6),
    st.integers(0, 10**6),
    st.sampled_from([0.01, 0.5, 3.0, 20.0, 200.0]),
    st.sampled_from([0.0, 1e-200, 1e-3, 1.0, 2.0]),
)
def test_the_kernel_randomises_as_the_device_bit_for_bit_from_as_many_normals_as_said(name, size, seed, strength, long):
    rng, mech = np.random.default_rng(seed), mechanism(name, strength)
    width, channel, radius = mech.width(size), mech.channel(size), 0.7
    unit = rng.standard_normal(size)
    report = long * radius * unit / np.linalg.norm(unit)  # one that is too long stays private
    noise = rng.standard_normal(width) * rng.choice([1.0, 6.0])
    out, twin = report.copy(), randomised_one(channel, report, radius, noise)
    kernels.randomise(out, size, radius, channel, np.append(noise, np.full(3, np.nan)))
    assert out.tobytes() == twin.tobytes()
    assert np.isfinite(out).all()


@pytest.mark.statistical
@pytest.mark.parametrize("strength", [0.5, 4.0])
@pytest.mark.parametrize("size", SIZES)
@EVERY
def test_reports_are_unbiased_and_their_covariance_is_the_claimed_one(name, size, strength):
    mech, radius, n = mechanism(name, strength), 0.7, 30_000
    rng = np.random.default_rng(size)
    bare = examples(size, radius)
    for report in bare:
        noise = randomised_many(mech, np.tile(report, (n, 1)), radius, rng) - report
        cov = mech.covariance(report[None], radius)
        assert (np.abs(noise.mean(axis=0)) <= 5 * np.sqrt(np.diag(cov) / n) + 1e-15).all()
        check_covariance(noise, cov)
    # averaged over people whose reports differ, as results need it
    mixed = np.tile(bare, (n // len(bare), 1))
    check_covariance(randomised_many(mech, mixed, radius, rng) - mixed, mech.covariance(bare, radius))
    at_centre = mech.covariance(np.zeros((1, size)), radius)
    assert mech.sd(radius, size) == pytest.approx(math.sqrt(np.trace(at_centre) / size), rel=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [m for m in MECHANISMS if m not in {"gaussian", "laplace"}])
def test_what_is_sent_has_a_size_in_which_a_report_s_has_no_say(name, size):
    mech, radius, n = mechanism(name, 2.0), 0.7, 40_000
    bare = examples(size, radius)[1:]
    units = bare / np.linalg.norm(bare, axis=1, keepdims=True)
    claimed = mech.sent(units.T @ units / len(units), radius)
    assert not mech.additive
    np.testing.assert_allclose(claimed, mech.covariance(bare, radius) + bare.T @ bare / len(bare), rtol=1e-9)
    rng = np.random.default_rng(size)
    check_covariance(randomised_many(mech, np.tile(bare, (n // len(bare), 1)), radius, rng), claimed)


def check_covariance(noise, cov):
    """Mean products of noise, each within five standard errors, these from the products' own spread."""
    products = noise[:, :, None] * noise[:, None, :]
    limit = 5 * products.std(axis=0) / math.sqrt(len(noise)) + 1e-12 * np.abs(cov).max()
    assert (np.abs(products.mean(axis=0) - cov) <= limit).all()


@pytest.mark.parametrize("size", SIZES)
@EVERY
def test_noise_is_in_proportion_to_the_radius_and_sure_where_there_is_no_privacy(name, size):
    mech = mechanism(name)
    for radius in (1e-9, 3.0, 1e6):
        np.testing.assert_allclose(
            mech.covariance(examples(size, radius), radius), radius**2 * mech.covariance(examples(size, 1.0), 1.0),
            rtol=1e-9, atol=1e-14 * radius**2,
        )  # fmt: skip
    free = Mechanism(name, Budget.declare(mu=None))
    assert free.channel(size) == Channel(codes.GAUSSIAN, 0.0, 0.0, 0.0)
    assert free.sd(1.0, size) == 0.0


def test_noise_sds_are_those_of_the_sources():
    for strength in (0.1, 1.0, 3.0):
        for size in (1, 4, 66):
            gaussian, laplace = (mechanism(k, strength) for k in ("gaussian", "laplace"))
            assert gaussian.sd(1.5, size) == pytest.approx(2 * 1.5 / strength)
            assert laplace.sd(1.5, size) == pytest.approx(math.sqrt(2) * 2 * math.sqrt(size) * 1.5 / strength)
        answer = mechanism("randomized_response", strength)
        assert answer.sd(1.5, 1) == pytest.approx(1.5 / math.tanh(strength / 2))
        assert mechanism("privunit", strength).channel(1) == answer.channel(1)  # caps on a line are points
        assert answer.channel(4) == mechanism("privunit", strength).channel(4)
        # no worse than Laplace noise on vectors, and of the order √d/ε
        assert mechanism("privunit", strength).sd(1.0, 66) < mechanism("laplace", strength).sd(1.0, 66)


# --- pure epsilon, exactly ---------------------------------------------------------------------------------

EPSILONS = (0.01, 0.3, 1.0, 3.0, 8.0, 15.0, 25.0, 40.0, 60.0, 100.0)


def part_along(channel, size, uniform, *, in_cap):
    """Part of the answer along a report of full length, for this quantile of its law in the cap or outside."""
    noise = np.zeros(size + 2)
    noise[0] = kernels.normal_quantile(uniform)
    noise[size], noise[size + 1] = -38.0, -38.0 if in_cap else 38.0
    report = np.eye(size)[0].copy()
    kernels.randomise(report, size, 1.0, channel, noise)
    np.testing.assert_array_equal(report[1:], 0.0)
    return report[0] / channel.scale


@pytest.mark.parametrize("size", [2, 5, 50])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_densities_of_privunit_differ_by_e_to_the_epsilon(epsilon, size):
    # Within the cap the answer's density over the normal's is accept/(mass above the cut), outside it
    # (1 − accept)/(mass below): the masses are found from the answers that the kernel gives at known quantiles.
    channel = mechanism("privunit", epsilon).channel(size)
    low, lowest = math.inf, math.inf
    ratios = []
    for uniform in (0.02, 0.4, 0.9, 0.999):
        inner, outer = (part_along(channel, size, uniform, in_cap=k) for k in (True, False))
        low, lowest = min(low, inner), min(lowest, -outer)
        above, below = log_ndtr(-inner) - math.log(uniform), log_ndtr(outer) - math.log(uniform)
        ratios.append(math.log(channel.accept) - above - math.log1p(-channel.accept) + below)
    # 1 − accept has its last digits from accept's rounding, 1e-16
    near = 1e-9 * epsilon + 4e-16 / (1.0 - channel.accept) + 1e-12
    spent = min(epsilon, mechanisms.MOST_EPSILON)  # larger budgets are not used up
    np.testing.assert_allclose(ratios, spent, rtol=0, atol=near + 1e-7)
    # every answer of the cap lies above every answer outside it
    assert low > -lowest


@pytest.mark.parametrize("epsilon", EPSILONS[:6])
def test_randomized_response_tells_the_truth_with_the_probability_that_epsilon_asks(epsilon):
    mech = mechanism("randomized_response", epsilon)
    channel, truth = mech.channel(1), 1.0 / (1.0 + math.exp(-epsilon))
    for report, radius, chance in ((0.7, 0.7, truth), (-0.7, 0.7, 1 - truth), (0.0, 0.7, 0.5), (5.0, 0.7, truth)):
        edge = kernels.normal_quantile(chance)  # below it the answer is the upper end
        answers = []
        for z in (edge - 1e-7, edge + 1e-7):
            out = np.array([report])
            kernels.randomise(out, 1, radius, channel, np.array([z]))
            answers.append(out[0])
        assert answers == [channel.scale * radius, -channel.scale * radius]
    assert channel.scale == pytest.approx(1.0 / (2.0 * truth - 1.0), rel=1e-9)
    out = np.array([0.0])
    kernels.randomise(out, 1, 0.0, channel, np.zeros(1))  # a range without width: nothing to tell
    assert out[0] == 0.0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_laplace_noise_is_the_l1_distance_over_epsilon(epsilon, size):
    mech, radius = mechanism("laplace", epsilon), 1.3
    scale = mech.channel(size).scale * radius
    rng = np.random.default_rng(3)
    pairs = rng.standard_normal((2000, 2, size))
    pairs *= radius / np.linalg.norm(pairs, axis=2, keepdims=True)
    pairs[0] = [np.full(size, radius / math.sqrt(size)), np.full(size, -radius / math.sqrt(size))]
    loss = np.abs(pairs[:, 0] - pairs[:, 1]).sum(axis=1) / scale
    assert loss.max() == pytest.approx(epsilon, rel=1e-12)
    noise = randomised_many(mech, np.zeros((40_000, size)), radius, rng) / scale
    for cut in (0.5, 1.0, 3.0):  # P(abs L > t) = e^−t, five standard errors
        chance = math.exp(-cut)
        assert abs(np.mean(np.abs(noise) > cut) - chance) < 5 * math.sqrt(chance / noise.size)


# --- audits of reports of scores - -----------------------------------------------------------------------------


class Neighbours(NamedTuple):
    """Two rows, as different as can be, and how people report; `far` if their reports are as far apart as claimed."""

    kind: Kind
    first: tuple
    second: tuple
    theta: tuple = (0.0, 0.0)
    label: bool = False
    joint: bool = False
    blocks: int = 1
    far: bool = True


X = (0.6, 0.8)
HUGE = Kind(pr.Huber(1.0, 1.0), low=-math.inf, high=math.inf)
MEDIAN = Kind(pr.Quantile(0.8), low=-math.inf, high=math.inf)
WITHIN = 1.0 - 1e-9
NEIGHBOURS = {
    "residuals": Neighbours(HUGE, (X, 1e300), (X, -1e300)),
    "covariates": Neighbours(HUGE, ((3e149, 4e149), 1e300), ((-3e-140, -4e-140), 1e300)),
    "a zero row": Neighbours(HUGE, (X, 1e300), ((0.0, 0.0), 1e300), far=False),
    "a silent row": Neighbours(HUGE, (X, 1e300), (X, math.nan), far=False),
    "a row too long": Neighbours(HUGE, (X, -5.0), ((1e200, 1e200), 5.0), far=False),
    "joint": Neighbours(HUGE, (X, WITHIN), (X, -1e6), joint=True),
    "joint, silent": Neighbours(HUGE, (X, WITHIN), (X, math.nan), joint=True, far=False),
    "labels": Neighbours(HUGE, ((1.0,), 1e300), ((1.0,), -1e300), (0.3,), label=True),
    "labels, joint": Neighbours(HUGE, ((1.0,), WITHIN), ((1.0,), -1e6), (0.0,), label=True, joint=True),
    "labels, silent": Neighbours(HUGE, ((1.0,), 1e300), ((1.0,), math.nan), (0.0,), label=True, far=False),
    "a quantile": Neighbours(MEDIAN, ((1.0,), 1e300), ((1.0,), -1e300), (0.3,), label=True),
    "logistic labels": Neighbours(KINDS["logistic"], ((1.0,), 0.0), ((1.0,), 1.0), (2.5,), label=True),
    "balanced": Neighbours(KINDS["balanced"], (X, 0.0), (X, 1.0)),
    "poisson": Neighbours(KINDS["poisson"], (X, 0.0), ((-0.6, -0.8), 0.0), (50.0, 50.0), far=False),
    "robust poisson": Neighbours(KINDS["robust poisson"], (X, 0.0), (X, 20.0), (1.5, 1.5)),
    "classes": Neighbours(KINDS["balanced"], (X, 1.0), (X, 2.0), (40.0, 40.0, 40.0, 40.0), blocks=2),
}


def found(case, name, strength, n, short=1.0, seed=1):
    """Audit of `n` reports of each neighbour, their statistic being the likelihood ratio's for Laplace noise."""
    d, theta = len(case.first[0]), np.array(case.theta)
    plan = plan_of(case.kind, name, d, label=case.label, joint=case.joint, blocks=case.blocks, strength=strength)
    channel = plan.channel._replace(scale=plan.channel.scale * short)
    rng = np.random.Generator(np.random.PCG64(seed))
    ends, both = [], []
    for x, y in (case.first, case.second):
        told = scored(plan, theta, 1.0, np.array(x), y)
        noise = rng.standard_normal((n, mechanisms.width(channel, len(told.report))))
        both.append(told.finish(mechanisms.randomised(channel, np.tile(told.report, (n, 1)), told.radius, noise)))
        ends.append(told.finish(told.report))
    if name == "laplace":
        both = [(np.abs(b - ends[0]) - np.abs(b - ends[1])).sum(axis=1) for b in both]
        return audit(*both, alpha=ALPHA)
    return audit(*both, alpha=ALPHA, direction=ends[1] - ends[0])


@EVERY
@pytest.mark.parametrize("which", NEIGHBOURS)
def test_worst_neighbours_never_show_more_than_claimed(which, name):
    seen = found(NEIGHBOURS[which], name, 1.0, 6000)
    if name in PURE:
        assert seen.epsilon_lower <= 1.0
        assert seen.lower <= pure_mu(1.0)
        assert seen.epsilon_lower > (0.25 if NEIGHBOURS[which].far else 0.0)  # and the audit is sharp
    else:
        assert seen.lower <= 1.0
        assert seen.lower > (0.7 if NEIGHBOURS[which].far else 0.2)


ENOUGH = {"gaussian": 20_000, "laplace": 200_000, "privunit": 30_000, "randomized_response": 30_000}
"""Reports of each neighbour at which a fifth too little noise is caught at the level ALPHA."""


FAR = [k for k, v in NEIGHBOURS.items() if v.far]


@EVERY
@pytest.mark.parametrize("which", ["residuals", *(pytest.param(k, marks=pytest.mark.statistical) for k in FAR[1:])])
def test_a_fifth_less_noise_is_caught(which, name):
    case, n = NEIGHBOURS[which], ENOUGH[name]
    if name in {"gaussian", "laplace"}:
        seen = found(case, name, 1.0, n, short=0.8)
    else:
        seen = found(case, name, 1.25, n)
    assert (seen.lower if name == "gaussian" else seen.epsilon_lower) > 1.0


# --- which mechanism a budget gets -------------------------------------------------------------------------

BUDGETS = {
    "mu": {"mu": 1.0},
    "epsilon": {"epsilon": 1.0},
    "epsilon, delta": {"epsilon": 1.0, "delta": 1e-6},
    "rho": {"rho": 0.5},
}


@pytest.mark.parametrize("form", BUDGETS)
@pytest.mark.parametrize("name", PURE)
def test_pure_mechanisms_spend_the_largest_epsilon_that_keeps_the_budget(name, form):
    budget = Budget.declare(**BUDGETS[form])
    got = resolve_mechanism(name, budget, size=1, scalar=True)
    assert got == Mechanism(name, budget.as_pure())
    assert got.epsilon == budget.pure_epsilon()
    assert got.budget <= budget
    assert got.pure
    assert f"{got.epsilon:.2g}"[:2] in got.words(1.0, 1)
    got = resolve_mechanism("gaussian", budget, size=3, scalar=False) if form != "epsilon" else None
    assert got is None or (got.budget, got.epsilon) == (budget, math.inf)


def test_what_a_mechanism_cannot_give_is_refused():
    pure, other = Budget.declare(epsilon=1.0), Budget.declare(mu=1.0)
    with pytest.raises(OptionError, match=r"can't give pure epsilon=1; add delta="):
        resolve_mechanism("gaussian", pure, size=3, scalar=False)
    for budget in (pure, other):
        with pytest.raises(OptionError, match="a score report here has 3; use 'privunit'"):
            resolve_mechanism("randomized_response", budget, size=3, scalar=False)
    with pytest.raises(OptionError, match="mechanism"):
        resolve_mechanism("exponential", other, size=3, scalar=False)
    free = Budget.declare(mu=None)
    for name in ("auto", *MECHANISMS):
        assert resolve_mechanism(name, free, size=3, scalar=False).sd(1.0, 3) == 0.0


@pytest.mark.parametrize("strength", [0.01, 0.3, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("size", [1, 2, 11, 60])
@pytest.mark.parametrize("form", BUDGETS)
def test_auto_takes_the_least_noise_that_the_budget_allows(form, size, strength):
    budget = Budget.declare(**{k: v * (strength if k != "delta" else 1.0) for k, v in BUDGETS[form].items()})
    got = resolve_mechanism("auto", budget, size=size, scalar=size == 1)
    sds = {}
    for name in MECHANISMS:
        try:
            sds[name] = resolve_mechanism(name, budget, size=size, scalar=size == 1).sd(1.0, size)
        except OptionError:
            assert (name, form) == ("gaussian", "epsilon") or (name == "randomized_response" and size > 1)
    assert got.sd(1.0, size) == min(sds.values())
    assert got.pure or form != "epsilon"
