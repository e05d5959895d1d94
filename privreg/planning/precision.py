"""Precision of fits of many people, from what is assumed of them: fits rehearsed at a few numbers of people.

Between these the standard error of one person is interpolated: it changes slowly with their number. Collector-side
mathematics: it reads assumed rows, never anybody's.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.collector.aggregate.report import parts_of
from privreg.collector.plan import Plan, Progress
from privreg.data.sources.open import of_silo
from privreg.errors import InferenceError, OptionError, UnsupportedArgumentError, quietly
from privreg.families import Huber
from privreg.families.hazards import AT_RISK
from privreg.fits.findings import rare_of, wanted
from privreg.fits.outcome import of_many_rows
from privreg.fits.plan import plan_of, to_user
from privreg.fits.settings import FitOptions
from privreg.formula.spec import ModelSpec
from privreg.options.running import progress_bar
from privreg.planning.rehearsal import People, bread, enough_in_main, rehearse, silent
from privreg.planning.scenario import Assumed, response_of
from privreg.simulation.aggregate import least
from privreg.simulation.streaming.encoding import Encoder, Gatherer, cut
from privreg.simulation.streaming.stream import begin
from privreg.simulation.tuning import resolve_tuning

_Planned: TypeAlias = tuple[Plan, NDArray[np.intp]]

ASKED: Final = FitOptions()  # Options of a plan's fit
SEED: Final = 20_250_508  # Seed of assumed people and of noise: the same question has the same answer
FEWEST, TIMES = 1000, 4  # Fits are rehearsed of so many people, of as many times more, and so on

PAIRS, NEAR = 4, 50.0
"""Pairs of fits that are rehearsed of so few people, relative to those from whom on intervals can be relied on, that
fits differ much in precision; else there is one pair. Of a factor beside seven columns one pair's standard errors
varied by 17% with the noise that was drawn, at 10 times those people; four pairs' vary by less than half of that."""

ROWS: Final = 2048  # Assumed people, at least
FLAT: Final = 1e-12  # Eigenvalue of the curvature, whitened covariates, below which people determine nothing
MANY: Final = 10**15  # People who tell all of their covariates


@dataclass(frozen=True)
class Precision:
    """Precision of a model's fits, for a budget and assumed people. Made by `precision_of`."""

    spec: ModelSpec
    people: People
    to_user: Array  # Linear part of the map from internal to user's coefficients, in the order inside; shape (d, d)
    asked: FitOptions  # Options of the fit
    _begun: Progress = field(repr=False, compare=False)  # After rounds on location
    _mapped: Progress = field(repr=False, compare=False)  # After all rounds before the pilot
    _known: dict[int, Array] = field(default_factory=dict, repr=False, compare=False)
    _plans: dict[int, _Planned] = field(default_factory=dict, repr=False, compare=False)

    most: ClassVar[int] = MANY

    def plan(self, n: int) -> _Planned:
        """Plan of rounds of a fit of `n` people, and the order of columns inside."""
        if n not in self._plans:
            self._plans[n] = _plan(self.spec, n, self.asked)
        return self._plans[n]

    def std_errors(self, n: float) -> Array:
        """Mean standard error of each coefficient in fits of `n` people, user's units."""
        at = max(math.log(max(n, 1.0) / FEWEST, TIMES), 0.0)
        low = math.floor(at)
        out = self._node(low)
        out = out ** (1.0 - at + low) * self._node(low + 1) ** (at - low) if at > low else out
        return np.asarray(out / math.sqrt(max(n, 1.0)))

    def _node(self, k: int) -> Array:
        """√n times the mean standard error where so many people are that fits are rehearsed."""
        if k not in self._known:
            n = FEWEST * TIMES**k
            plan, order = self.plan(n)
            linear, found = to_user(self.spec, order), []
            varied = plan.rules.varying or n < NEAR * wanted(plan, self._mapped.state.longest)
            for pair in range(PAIRS if varied else 1):
                # noise and its opposite: what is linear in it drops out of the mean
                for sign in (1.0, -1.0):
                    rng = np.random.Generator(np.random.PCG64([SEED, k, pair]))
                    cov = rehearse(plan, self.people, rng, sign, self._begun)
                    found.append(np.sqrt(np.maximum(((linear @ cov) * linear).sum(axis=1), 0.0)))
            self._known[k] = math.sqrt(n) * np.mean(found, axis=0)
        return self._known[k]

    def worth(self, spec: ModelSpec) -> float:
        """Worth of a record of a like model at its budget: the square of the μ of its noise, sampling included."""
        return _plan(spec, MANY)[0].effective_mu(self._mapped.state.longest) ** 2

    def rare(self, n: int) -> frozenset[int]:
        """Columns of the design whose intervals a fit of so many people takes back, as too few have a level."""
        plan, order = self.plan(n)
        rare = rare_of(plan, self._mapped, n, self.to_user)
        columns = (*rare.columns, *rare.compared, *rare.crossed, *rare.about) if rare.columns or rare.compared else ()
        return frozenset(int(order[j]) for j in columns)

    def reliable(self, n: int, columns: Collection[int]) -> bool:
        """True if a fit of so many people marks no interval of these columns for their being few."""
        if of_many_rows(self.spec) or not self.rare(n).isdisjoint(columns):
            return False
        plan, _ = self.plan(n)
        return enough_in_main(plan, self.people, self._begun, wanted(plan, self._mapped.state.longest))


def _plan(spec: ModelSpec, n: int, asked: FitOptions = ASKED) -> _Planned:
    return plan_of(spec, resolve_tuning(asked, spec, n), None)


def precision_of(spec: ModelSpec, assumed: Assumed, asked: FitOptions = ASKED) -> "Precision | FittedPrecision":
    """Precision of fits with these options, for people as they are assumed, however many are asked for.
    Raises OptionError if the family has no model of the response; InferenceError if people as assumed don't determine
    the coefficients.
    """
    if spec.people.weight is not None or spec.clusters:
        raise UnsupportedArgumentError(
            "a plan assumes nothing of survey weights, nor of how alike people of a cluster are; leave weights= and "
            "cluster= out, or play made-up people: privreg.simulate(model.plan(rows=n), data)."
        )
    if spec.trust != "local":
        return FittedPrecision(spec, assumed)
    family, units = spec.family, spec.units
    plan, order = _plan(spec, MANY, asked)
    if not (plan.rules.scoring.residual or plan.rules.scoring.predicted):
        raise OptionError(
            "a plan needs a model of the response, and hinge losses and scores of your own have none; plan for "
            "Logistic() or Huber(), or simulate people and fit them."
        )
    rng = np.random.Generator(np.random.PCG64(SEED))
    m = max(ROWS, 12 * len(order))
    blocks = assumed.params.reshape(plan.blocks, -1)
    theta = np.concatenate([units.params_inside(block) for block in blocks]).reshape(plan.blocks, -1)[:, order]
    if spec.people.gathered:  # with several rows each, as their devices hold them
        assert spec.persons is not None
        # the last person is left out: plans keep their numbers
        who = np.repeat(np.arange(1, m // 2 + 2, dtype=np.uint64), spec.people.rows)
        raw, x, scale = assumed.exog(spec, len(who), rng)
        raw = {**raw, response_of(spec): assumed.responses(spec, x, scale, rng, raw)}
        encoded = Encoder(spec, order, None, by_column=False).encode(raw)._replace(hashes=who)
        held = cut(Gatherer(spec.people, binary=family.binary).made(encoded), 0, m // 2)
        usable = np.isfinite(held.y) & np.isfinite(held.x).all(axis=2)
        held = held._replace(weight=None, hashes=None, parts=parts_of(spec.persons, usable, None))
        rows = held.x[usable]
        people = People(rows, rows @ theta.T, np.ones(len(rows)), held.y[usable], held)
    else:
        _, x, scale = assumed.exog(spec, m, rng)
        rows = np.ascontiguousarray(units.probe_inside(x)[:, order])
        eta = rows @ theta.T
        sd = scale / units.y_scale if family.scaled else np.ones(m)
        normal = np.random.Generator(np.random.PCG64(m)).permutation(ndtri((np.arange(m) + 0.5) / m))
        people = People(rows, eta, sd, eta[:, 0] + sd * normal)
    if assumed.covariates is not None and (given := len(assumed.covariates)) < rows.shape[1]:
        raise InferenceError(
            f"covariates= has {given} row{'s' * (given > 1)}, too few to determine {rows.shape[1]} coefficients; give "
            "more public rows."
        )
    if np.linalg.matrix_rank(rows) < rows.shape[1] or not np.linalg.eigvalsh(bread(plan, people)).min() > FLAT:
        raise InferenceError(
            "people as assumed don't determine the coefficients: a column hardly varies, or params= leave nothing to "
            "chance; give other shares=, covariates= or params=."
        )
    begun = silent(plan, people)
    return Precision(spec, people, units.matrix[np.ix_(order, order)], asked, begun, silent(plan, people, begun))


CHUNK: Final = 65_536
FIRST, DOUBLED, MOST = 500, 2.0, 32_000
"""Fits are tried of so many people, of as many times more or fewer, up to so many."""

TRIED: Final = 63  # With fewer people no fit is tried, as there is no precision to speak of
PLAIN: Final = 20_000  # Made-up people of a fit without privacy

USUAL: Final = 2.0 * 1.959963984540054
"""Standard errors of a 95% interval's length: those of few degrees of freedom count as longer errors."""

FITS, MOST_FITS, SURE = 6, 32, 0.07
"""At each number of people so many fits at least and at most: until the median of their standard errors is known so
closely, relatively. Those of two collectors' fits vary by some 15% at 2,000 people, and by more with fewer."""

MARKED: Final = 20, 2, 8_000
"""Fits where the first don't agree on marks, how many of hazards may be marked less one, and people they are tried of.

Of an interval that four fits in five mark most of six say otherwise in one plan of 60, of twenty in one of 1,800. Of
hazards with one in five marked one plan in 14 takes intervals for reliable, with one in fifty one in 17 doesn't."""


def fit_of(spec: ModelSpec, assumed: Assumed, n: int, rng: np.random.Generator, seed: int | None) -> tuple[Any, Any]:
    """Results of a fit of made-up people, and its settings; `seed` is that of noise."""

    def people(m: int, first: int = 0) -> dict[str, Any]:
        rows, x, scale = assumed.exog(spec, m * spec.people.given, rng)
        if spec.people.followed is not None:
            return assumed.followed(spec, rows, rng)
        out = {**rows, response_of(spec): assumed.responses(spec, x, scale, rng, rows)}
        who = np.repeat(first + np.arange(m), spec.people.given)
        return out if spec.people.id is None else {**out, spec.people.id: who}

    stream = begin(spec, FitOptions(), None, seed, n)
    if spec.silos:
        whole, place = people(n), assumed.silo_of(spec, n * spec.people.given)
        for k in range(len(spec.silos)):
            stream.update(of_silo({c: v[place == k] for c, v in whole.items()}, k, spec.silos, whole))
    for left in range(0 if spec.silos else n, 0, -CHUNK):
        stream.update(people(min(left, CHUNK), left))
    return stream._results(), stream._settings


@dataclass(frozen=True)
class FittedPrecision:
    """Precision of fits where noise falls on sums; the same methods as `Precision`."""

    spec: ModelSpec
    assumed: Assumed
    asked: ClassVar[FitOptions] = ASKED
    _tried: dict[float, list[tuple[Array, Array]]] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[int, Array] = field(default_factory=dict, repr=False, compare=False)

    @property
    def fewest(self) -> int:
        """Fewest people of whom there is a fit: a curator, and silos, refuse fewer."""
        fewest = least(len(self.spec.coefficients), self.spec.budget.mu, max(len(self.spec.silos), 1))
        return max(TRIED, fewest if self.spec.noise.again else 0)

    def _fits(self, k: float, runs: int) -> list[tuple[Array, Array]]:
        """Standard errors of `runs` fits of so many people, and which coefficients each lets be relied on."""
        tried, n, p = self._tried.setdefault(k, []), self._people(k), len(self.spec.coefficients)
        quarters = [round(4.0 * (k % 1.0))] if k % 1.0 else []
        with progress_bar(max(runs - len(tried), 0) * n, None) as bar:
            for run in range(len(tried), runs):
                rng = np.random.Generator(np.random.PCG64([SEED, math.floor(k) % 2**32, run, *quarters]))
                res, _ = fit_of(self.spec, self.assumed, n, rng, int(rng.integers(2**63)))
                try:
                    table = res.tidy(conf_level=0.95)
                    half = (table["conf_high"] - table["conf_low"]).to_numpy(dtype=np.float64) / USUAL
                    tried.append((np.where(np.isfinite(half), half, np.inf), table["reliable"].to_numpy(dtype=bool)))
                except InferenceError:  # too few for intervals
                    tried.append((np.full(p, np.inf), np.zeros(p, dtype=bool)))
                bar.update(n)
        return tried[:runs]

    def _node(self, k: int) -> Array:
        """√n times the median standard error of fits of so many people."""
        runs = FITS
        while k not in self._known:
            errors = np.array([one for one, _ in self._fits(k, runs)])
            logs = np.log(errors[:, np.isfinite(errors).mean(axis=0) > 0.5])  # medians of others are no number
            spread = 0.5 * np.ptp(np.quantile(logs, ndtr([-1.0, 1.0]), axis=0, method="nearest"), axis=0)
            if runs >= MOST_FITS or (math.sqrt(0.5 * math.pi / runs) * spread <= SURE).all():
                self._known[k] = math.sqrt(self._people(k)) * np.median(errors, axis=0)
            runs += 2
        return self._known[k]

    def std_errors(self, n: float) -> Array:
        """Usual standard error of each coefficient in fits of `n` people, user's units; inf of fewer than are tried."""
        if n < self.fewest:
            return np.full(len(self.spec.coefficients), np.inf)
        at, last = _doublings(n), self._last
        k = last - 1 if at > last else math.floor(at)
        begin = max(float(k), _doublings(self.fewest))
        share, here = min((at - begin) / (k + 1.0 - begin), 1.0), self._node(k) ** 2
        there = self._node(k + 1) ** 2 if share else here
        with np.errstate(invalid="ignore"):
            square = np.where(np.isinf(here), np.inf if share < 1.0 else there, (1.0 - share) * here + share * there)
        if at > last:  # a + b/n through both
            slope = np.clip((here - there) / (DOUBLED - 1.0), 0.0, there)  # b/n at the last
            square = there - slope * (1.0 - DOUBLED ** (last - at))
        return np.asarray(np.sqrt(square / max(n, 1.0)))

    def _people(self, k: float) -> int:
        """Number of people of the fits that are tried at a place: `FIRST` times 2^k, or the fewest."""
        return max(round(FIRST * math.pow(DOUBLED, k)), self.fewest)

    def worth(self, spec: ModelSpec) -> float:
        """Worth of a record of a like model at its budget: where noise falls on sums errors go with n μ²."""
        return spec.budget.mu**2

    @property
    def _last(self) -> int:
        """Last place at which fits are tried; the first is that of the fewest people."""
        return max(math.floor(_doublings(MOST)), math.floor(_doublings(self.fewest)) + 1)

    @property
    def most(self) -> int:
        """Most people of whom fits are tried."""
        return self._people(self._last)

    def rare(self, n: int) -> frozenset[int]:
        """Columns that no fit of so many people lets be relied on for their being rare: marks say it of single fits."""
        return frozenset()

    def reliable(self, n: int, columns: Collection[int]) -> bool:
        """True if most fits of so many people, of hazards nearly all, mark no interval of these columns.

        Shares of marked fits change fast with the number of people: between two numbers that are tried anyway, of which
        the larger alone will do, fits are tried at quarters of a doubling.
        """
        followed, p = self.spec.people.followed is not None, len(self.spec.design.names)
        least, at = 1.0 - MARKED[1] / MARKED[0] if followed else 0.5, min(_doublings(max(n, 1)), self._last)

        def held(place: float) -> bool:
            """True if enough of the first fits let columns be relied on; of more, where the first don't agree."""
            share = np.mean([good for _, good in self._fits(place, FITS)], axis=0)
            mixed = share > 1.0 - 2.0 / FITS if followed else (share > 0.0) & (share < 1.0)
            if self._people(place) <= MARKED[2] and mixed.any():
                share = np.mean([good for _, good in self._fits(place, MARKED[0])], axis=0)
            return bool(all(v > least for j, v in enumerate(share) if not columns or j % p in columns))

        low = math.floor(at)
        return n >= self.fewest and (held(low) or (low < at and held(low + 1) and held(math.floor(4.0 * at) / 4.0)))


def _doublings(n: float) -> float:
    """Doublings of `FIRST` people that make `n`."""
    return round(math.log(n / FIRST, DOUBLED), 9)


def plain_errors(spec: ModelSpec, assumed: Assumed) -> Array | None:
    """√n times the standard errors of statsmodels' own fits, without privacy, from one of made-up people.

    None of a family that statsmodels hasn't, and of several rows of a person.
    """
    if spec.people.k_max is not None:
        return None
    rows, x, scale = assumed.exog(spec, PLAIN, rng := np.random.Generator(np.random.PCG64(SEED)))
    if spec.people.followed is not None:
        fitted = plain_hazards(spec, assumed.followed(spec, rows, rng))
    else:
        fitted = plain_model(spec, np.asarray(assumed.responses(spec, x, scale, rng, rows)), x)
    return None if fitted is None else math.sqrt(PLAIN) * np.asarray(fitted.bse, dtype=np.float64).T.reshape(-1)


def plain_hazards(spec: ModelSpec, rows: Any) -> Any:
    """The fit of statsmodels of raw `rows` of people who are followed: of counts in intervals, by time at risk."""
    import statsmodels.api as sm

    assert spec.people.followed is not None
    made = spec.people.followed.rows(rows, spec.design.schema, spec.columns)
    held = spec.design.encode(made, "noise")
    here = np.isfinite(held.endog)
    y, x, offset = held.endog[here], held.exog[here], np.log(made[AT_RISK])[here]
    wrong = InferenceError("rows of a pilot can't be fitted: an interval or a level has no events.")
    return quietly(lambda: sm.GLM(y, x, family=sm.families.Poisson(), offset=offset).fit(), wrong)


def plain_model(spec: ModelSpec, y: Any, x: Array, *, robust: bool = False) -> Any:
    """The fit of statsmodels, None if it has none; `robust`: by Huber's loss where scores are of residuals."""
    family, design = spec.family, spec.design
    levels = design.schema.levels.get(design.endog_bare or design.endog_name, (0, 1))
    import statsmodels.api as sm

    wrong = InferenceError("rows of a pilot can't be fitted: columns are made of others, or tell classes apart.")
    y = (y[:, None] == np.asarray(levels)).argmax(axis=1) if family.scoring.classed else y
    twin = (Huber() if robust and family.scoring.residual else family).scoring.twin
    fitted = quietly(lambda: twin(sm, family, y, x), wrong)
    if robust and not getattr(fitted, "mle_retvals", {}).get("converged", True):
        raise wrong
    return fitted
