"""Survival curves from the shares of people by group, class of time and event: post-processing of one release."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from privreg.base.arrays import Array, Flags
from privreg.collector.inference.pivots import Normal
from privreg.collector.inference.resampling import joint_critical
from privreg.collector.levels import BIAS, SURE
from privreg.errors import OptionError, choose, interval_level, real, shown
from privreg.means.collector import FEW
from privreg.means.results.fit import NONE_BELOW, ChiSquareTest, Moved, Shares, limits
from privreg.means.terms import Followed
from privreg.options.unknown import all_known_arguments
from privreg.results.data import Frame
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.results.statement import CODED, Unusable
from privreg.tables import Paragraph, Part, Table, cells, marked, noted, plain
from privreg.tables.diagnostics import Diagnostic, note, reliable

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(24)
NODES: Final = 0.5 * (_POINTS + 1.0), 0.5 * _WEIGHTS  # Gauss and Legendre's points in (0, 1), and weights

END: Final = 6.0  # Largest change β of a hazard in a class: times are β/12 of it late, a half if all are at its end

ROUNDED: Final = (
    "Times count as rounded up to the next cut point. Where they are between cut points curves are too high; a life "
    "table is not."
)


@all_known_arguments
@dataclass(frozen=True, repr=False)
class SurvivalCurves(Shares):
    """Survival curves by group. Made by :meth:`MeansResults.survival`.

    With n_j the share at risk at cut point j and d_j that of events since the last one, S_j = Π (1 − d_i/n_i) over i up
    to j; of a life table n_j is less by half of those who are censored in between, and more by half of those who enter.
    Variances are by the delta method from the covariance of the shares: of sampling, for which they are Greenwood's,
    and of noise. Shares are unbiased and noise may make one negative, so that a curve may rise a little, or be above 1.
    """

    term: Followed
    life: bool = True  # True of a life table

    @property
    def shares(self) -> Array:
        """Shares by group, class of entry, class of time, event, censoring first; shape (g, e, J + 1, 1 + k)."""
        entry = () if self.term.entry is None else self.term.entry.levels
        shape = len(self.term.groups), max(len(entry), 1), len(self.term.cuts) + 1, len(self.causes) + 1
        return self.estimates.reshape(shape)

    @property
    def names(self) -> list[str]:
        """Names of the curves' points, by group and time."""
        return [f"{g} at {c:g}" if g else f"{c:g}" for g in self.term.groups for c in self.term.cuts]

    @property
    def causes(self) -> tuple[str, ...]:
        """Levels of the event but that of censoring; several are competing causes."""
        return self.term.parts[-1].labels[1:]

    # --- numbers of shares -------------------------------------------------------------------------------

    def _counted(self, p: Any) -> tuple[Any, ...]:
        """At risk in each class, events by cause, and at risk at its beginning, those who enter and who are censored.

        Shapes (…, g, J), (…, g, J, k) and thrice (…, g, J), of shares p. Without a life table whoever enters in a class
        is at risk from the next one on.
        """
        entry, at = np.arange(p.shape[-3])[:, None], np.arange(1, p.shape[-2])
        before, within = np.float64(entry < at), np.float64((entry == at) & self.life)
        ahead = np.flip(np.cumsum(np.flip(p.sum(axis=-1), axis=-1), axis=-1), axis=-1)[..., :-1]
        left = np.einsum("...ajk,aj->...jk", p[..., :-1, :], before + within)
        start, enter, censored = (ahead * before).sum(axis=-2), (ahead * within).sum(axis=-2), left[..., 0]
        at_risk = start + 0.5 * (enter - censored) if self.life else start
        return np.where(at_risk.real > 0.0, at_risk, np.nan), left[..., 1:], start, enter, censored

    def _survival(self, p: Any) -> Any:
        """Survival at each cut point, shape (…, g, J)."""
        at_risk, events, *_ = self._counted(p)
        return np.cumprod(1.0 - events.sum(axis=-1) / at_risk, axis=-1)

    @cached_property
    def _curves(self) -> Moved:
        return Moved(self._survival, self.shares, self.cov)

    @cached_property
    def _noise(self) -> Array:
        """Covariance of the shares that is not of sampling: of noise."""
        p = np.clip(self.shares.ravel(), 0.0, 1.0)
        return np.asarray(self.cov - (np.diag(p) - np.outer(p, p) / max(p.sum(), 1.0)) / self.people)

    # --- marks -------------------------------------------------------------------------------------------

    @cached_property
    def _doubted(self) -> tuple[Flags, Flags, Flags]:
        """Points up to which events are few, from which noise may hide the people at risk, and of wide classes.

        Each has the shape (g, J). Events are few if their noised number is as skew as one of `FEW`.

        Wide classes move a life table by more than `BIAS` standard errors. In a class of length h let L and G be
        cumulative hazards of events and of censoring, which change by the shares α and β from its beginning to its end.
        A life table's L is off by −L G (2 L + G)/12, by L G (β − α)/12, and by terms of fourth order. The second part
        is c h L G with c alike in neighbouring classes, and two of them that are taken for one are off by more, which
        tells c; or α and β are as hazards change from class to class, if that is more. Of a single class β − α = 2 is
        taken. Of people who enter evenly, E for each at risk, L is off by L² E/12 besides.
        """
        found = Moved(lambda p: np.cumsum(self._counted(p)[1].sum(axis=-1), axis=-1), self.shares, self._noise)
        noise = self.people**2 * found.errors**2
        count = np.maximum(self.people * found.values, np.sqrt(noise))
        few = ~(count <= FEW**-0.5 * (count + noise) ** 1.5)
        found = Moved(lambda p: self._counted(p)[0], self.shares, self._noise)
        unsure = np.logical_or.accumulate(~(found.values > SURE * found.errors), axis=-1)
        if not self.life:
            return few, unsure, np.zeros_like(few)
        _, events, start, *within = self._counted(self.shares)

        def hazards(start: Array, come: Array, gone: Array, events: Array, h: Array) -> tuple[Array, Array, Array]:
            n = start + 0.5 * (come - gone)
            out, more, less = (np.maximum(v / n, 0.0) for v in (events, come, gone))
            known = out * (less * (2.0 * out + less) - out * more) / 12.0
            return -np.log1p(-events / n) + known, h * out * (more + less), known

        within += [events.sum(axis=-1), np.diff(self.term.cuts, prepend=0.0)]
        with np.errstate(divide="ignore", invalid="ignore"):
            hazard, size, known = hazards(start, *within)
            off = late = size / within[-1] / 6.0
            if size.shape[-1] > 1:
                both, sizes, _ = hazards(start[..., :-1], *(x[..., :-1] + x[..., 1:] for x in within))
                off = (both - hazard[..., :-1] - hazard[..., 1:]) / (sizes - size[..., :-1] - size[..., 1:])
                off = size * np.concatenate([off[..., :1], off], axis=-1)
                n, middles = start + 0.5 * (within[0] - within[1]), np.array(self.term.cuts) - 0.5 * within[-1]
                come, gone, out = (np.maximum(v / n, 0.0) for v in within[:-1])
                changes = (
                    np.gradient(v / within[-1], middles, axis=-1) * within[-1] ** 2 / v for v in (come, gone, out)
                )
                come_by, gone_by, out_by = (np.clip(np.nan_to_num(v), -END, END) for v in changes)
                late = out * (gone * (gone_by - out_by) - come * (come_by - out_by)) / 12.0
            moved, *changed = (np.abs(np.cumsum(np.nan_to_num(v), axis=-1)) for v in (known, off, late))
            moved = (moved + np.maximum(*changed)) * self._curves.values
        return few, unsure, moved > BIAS * self._curves.errors

    @property
    def _lost(self) -> Unusable:
        """Share of the records that have no time, event or group that can be used."""
        return Unusable(self.missing, self.missing_error)

    @cached_property
    def notes(self) -> tuple[Diagnostic, ...]:
        """Whatever takes back some point, in place of notes on single cells."""
        few, unsure, wide = map(np.flatnonzero, self._doubted)
        marks = [note("answers.events", few)] * bool(few.size) + [note("answers.risk", unsure)] * bool(unsure.size)
        marks += [note("between", wide)] * bool(wide.size)
        if not self.life:  # a life table of the same shares takes times as spread
            table = replace(self, life=True)._survival(self.shares)
            far = np.nanmax(np.abs(table - self._curves.values) / self._curves.errors, initial=0.0)
            marks += [note("rounded", far=float(far))] * bool(far > BIAS)
        said = [Diagnostic(n.code, n) for n in self.doubts if n.code != "answers"]
        if self._lost.sure and not said:
            lost = self._lost.noted(f"{self._lost} of the records count for nothing", events=True)
            said = [n for n in lost if n.severity == "doubt"]
        return (*said, *marks)

    def _fine(self, until: Array) -> Flags:
        """True for groups with enough people at risk, and classes narrow enough, until a time of each; shape (g,)."""
        _, unsure, wide = self._doubted
        return np.asarray(~((unsure | wide) & (np.array(self.term.cuts) <= until[:, None])).any(axis=1))

    # --- tables ------------------------------------------------------------------------------------------

    def frame(self, *, alpha: float = 0.05) -> pd.DataFrame:
        """Curves, one point a row. `alpha` is one minus the level of intervals and bands.

        group (if there are any), time, at_risk and events (numbers of people, noised), survival (0 or 1 where noise has
        moved it beyond), std_error, conf_low, conf_high (each by itself), band_low, band_high (of the whole curve
        together), reliable.
        """
        return self._framed(alpha, self._curves, slice(None), "survival")

    def cumulative_incidence(self, cause: Any = None, *, alpha: float = 0.05) -> pd.DataFrame:
        """Share that has had an event of a cause by each cut point, others competing: Aalen and Johansen's estimate.

        `cause` is a level of the event, else an OptionError, the first after that of censoring by default. As
        :meth:`frame`, with ``incidence``.
        """
        k = self._cause(cause) if cause is not None else slice(0, 1)

        def incidence(p: Any) -> Any:
            at_risk, events, *_ = self._counted(p)
            before = np.insert(self._survival(p)[..., :-1], 0, 1.0, axis=-1)
            return np.cumsum(before * events[..., k].sum(axis=-1) / at_risk, axis=-1)

        return self._framed(alpha, Moved(incidence, self.shares, self.cov), k, "incidence")

    def _cause(self, cause: Any) -> slice:
        """Place of a cause, all of None."""
        if cause is None:
            return slice(None)
        k = self.causes.index(choose("cause", str(cause), self.causes))
        return slice(k, k + 1)

    def _framed(self, alpha: float, found: Moved, causes: slice, name: str) -> pd.DataFrame:
        """Curves `found` with numbers of people, and limits of shares between 0 and 1 by their log-log.

        A share that noise has made 0 or less, or 1 or more, has normal limits, and one that noise alone may hold off 0
        or 1 a limit there.
        """
        groups, cuts, (at_risk, events, *_) = self.term.groups, self.term.cuts, self._counted(self.shares)
        at, error, level = found.values, found.errors, interval_level(alpha)
        bent, known = (at > 0.0) & (at < 1.0), ~np.isnan(at.ravel())
        critical = {kind: np.full((len(groups), 1), Normal().critical(level)) for kind in ("conf", "band")}
        out: dict[str, Any] = {self.term.group: np.repeat(groups, len(cuts))} if self.term.group else {}
        out |= {"time": np.tile(cuts, len(groups)), "at_risk": self.people * at_risk}
        out |= {"events": self.people * events[..., causes].sum(axis=-1), name: at.clip(0.0, 1.0), "std_error": error}
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a power that is too large is 0 or 1
            slope = 1.0 / np.abs(at * np.log(at))  # of log(−log s), sign apart
            for g in range(len(groups)):
                here = np.flatnonzero(bent[g] & (error[g] > 0.0)) + g * len(cuts)
                if len(here):
                    cov = found.cov[np.ix_(here, here)] * np.outer(slope.ravel()[here], slope.ravel()[here])
                    critical["band"][g] = joint_critical(Normal(), cov, level)
            for kind, by in critical.items():
                half, alone = by * error, by * found.deviations(self._noise)
                low, high = (np.where(bent, at ** np.exp(-s * half * slope), at + s * half) for s in (-1.0, 1.0))
                low, high = np.where(at <= alone, 0.0, low), np.where(1.0 - at <= alone, 1.0, high)
                out |= {f"{kind}_low": np.clip(low, 0.0, 1.0), f"{kind}_high": np.clip(high, 0.0, 1.0)}
        columns = {column: np.ravel(v) for column, v in out.items()}
        return Frame(columns | {"reliable": reliable(self.notes, len(known)) & known})

    def test(self, *, cause: Any = None) -> ChiSquareTest:
        """Log-rank test that all groups have the same curve, or of a `cause`, a level of the event, the same hazards.

        Of U_g = Σ_j (d_gj − n_gj d_j/n_j) with n at risk and d events, the statistic is U'V⁻¹U. V is the hypergeometric
        variance of Mantel and Haenszel, plus J N J', N the noise's covariance of the shares and J the derivatives of U.
        Times at which noise leaves nobody at risk in some group are left out, and without any other all is NaN.
        An OptionError if there are no two groups, or no event has this level.
        """
        from scipy.stats import chi2

        if len(self.term.groups) < 2:
            raise OptionError("there are no two groups to compare; write Surv(…) ~ C(column) with its levels.")
        k = self._cause(cause)

        def parts(p: Any) -> tuple[Any, ...]:
            at_risk, events, *_ = self._counted(p)
            known = ~np.isnan(at_risk).any(axis=-2, keepdims=True)  # where noise leaves people in each group
            at_risk, events = np.where(known, at_risk, 1.0), np.where(known, events[..., k].sum(axis=-1), 0.0)
            expected = at_risk * (events.sum(axis=-2) / at_risk.sum(axis=-2))[..., None, :]
            return (events - expected).sum(axis=-1), at_risk, events, expected, known

        found = Moved(lambda p: parts(p)[0], self.shares, self._noise)
        _, at_risk, events, expected, known = parts(self.shares)
        n, d, share = at_risk.sum(axis=0), events.sum(axis=0), at_risk / at_risk.sum(axis=0)
        each = d * (n - d) / (n - 1.0 / self.people)
        sampled = (np.diag(share @ each) - (share * each) @ share.T) / self.people
        u, df = found.values[:-1], len(self.term.groups) - 1
        statistic = float(u @ np.linalg.pinv((sampled + found.cov)[:-1, :-1], hermitian=True) @ u)
        people = self.people if known.any() else math.nan  # else there is nothing to test
        statistic *= people / self.people
        counts = {"observed": people * events.sum(axis=-1), "expected": people * expected.sum(axis=-1)}
        table = Frame(counts, index=pd.Index(self.term.groups, name=self.term.group))
        few = [note("answers.events")] * bool(people * events.sum() < FEW)
        few += [note("answers.risk")] * math.isnan(people)
        said = (*(n for n in self.notes if n.code != "answers"), *few)
        of = f"Log-rank test by {self.term.group}"
        return ChiSquareTest(statistic, df, float(chi2.sf(statistic, df)), of, said, table)

    def rmst(self, time: float | None = None, *, alpha: float = 0.05) -> pd.DataFrame:
        """Restricted mean survival time: the mean time until an event, or until `time` if that is earlier.

        `time` is a cut point, else an OptionError, the last one by default, and `alpha` one minus the level of normal
        intervals; none is beyond what an area can be. By group: rmst, std_error, conf_low, conf_high, reliable; and
        below, of each group but the first, its difference to the first. With groups there are statistic and p_value,
        which are of differences.

        The area is that of steps, or in a life table of smooth pieces. In each class the cumulative hazard is a power
        of time through both ends, in the first class the same one as in the second: exact for Weibull's distributions.
        Where noise leaves no rising hazard a piece is a straight line.
        """
        groups, cuts = self.term.groups, [f"{c:.15g}" for c in self.term.cuts]
        at = cuts[-1] if time is None else f"{real(time) or math.nan:.15g}"
        if at not in cuts:
            raise OptionError(f"time={shown(time)} must be one of the cut points {', '.join(cuts)}; leave it out.")
        upto = 1 + cuts.index(at)
        times = np.array([0.0, *self.term.cuts[:upto]])
        widths = np.diff(times)

        def areas(p: Any) -> Any:
            alive = self._survival(p)[..., :upto]
            before = np.insert(alive[..., :-1], 0, 1.0, axis=-1)
            area = 0.5 * (before + alive) * widths if self.life else before * widths
            if self.life and upto > 1 and times[1] > 0.0:
                hazard = -np.log(np.where((alive.real > 0.0) & (alive.real < 1.0), alive, np.nan))
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    power = np.diff(np.log(hazard), axis=-1) / np.diff(np.log(times[1:]))
                    power = np.concatenate([power[..., :1], power], axis=-1)
                    at = (times[:-1, None] + widths[:, None] * NODES[0]) / times[1:, None]
                    curve = np.exp(-hazard[..., None] * np.exp(power[..., None] * np.log(at)))
                    smooth = (curve @ NODES[1]) * widths
                area = np.where(np.isfinite(smooth) & (power.real > 0.0), smooth, area)
            each = area.sum(axis=-1)
            return np.concatenate([each, each[..., 1:] - each[..., :1]], axis=-1)

        found = Moved(areas, self.shares, self.cov)
        names = [g or "all" for g in groups] + [f"{g} - {groups[0]}" for g in groups[1:]]
        fine = self._fine(np.full(len(groups), self.term.cuts[upto - 1]))
        fine = np.concatenate([fine, fine[1:] & fine[0]]) & ~np.isnan(found.values)
        least = np.where(np.arange(len(names)) < len(groups), 0.0, -times[-1])  # no area is below 0, or above `time`
        ends = limits(found.values, found.errors, alpha, least, times[-1])
        out = {"rmst": np.clip(found.values, least, times[-1]), "std_error": found.errors, **ends}
        if len(groups) > 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(np.arange(len(names)) < len(groups), np.nan, found.values / found.errors)
            out |= {"statistic": ratio, "p_value": Normal().two_sided(ratio)}
        table = Frame(out | {"reliable": fine}, index=pd.Index(names, name=self.term.group or None))
        if np.isnan(found.values).any():
            known = self.term.cuts[: (~np.isnan(self._curves.values)).all(axis=0).sum()]
            until = f"until {known[-1]:g}, the largest time that rmst() can have" if known else "nowhere"
            table.attrs["note"] = f"Note: nan: noise left nobody at risk later on; all curves are known {until}."
        return table

    def quantile(self, q: float = 0.5, *, alpha: float = 0.05) -> pd.DataFrame:
        """Times by which a share `q` has had the event, the median by default; by group.

        estimate, conf_low, conf_high (`alpha` is one minus their level): the first cut points at which the curve, and
        its limits, are at most 1 − q; of a life table where straight lines between them are. NaN where that is never.
        reliable: no doubt about the number at risk, or a life table's rounding, until conf_high. An OptionError if `q`
        is not in (0, 1).
        """
        share = real(q)
        if share is None or not 0.0 < share < 1.0:
            raise OptionError(f"q={shown(q)} must be a number in (0, 1), such as 0.5.")

        def reached(curve: Array) -> float:
            below, times, whole = np.flatnonzero(curve <= 1.0 - share), [0.0, *self.term.cuts], [1.0, *curve]
            j = int(below[0]) if below.size else len(curve) - 1
            if not self.life or not below.size:
                return times[j + 1] if below.size else math.nan
            return float(np.interp(share - 1.0, [-whole[j], -whole[j + 1]], times[j : j + 2]))

        table, shape = self.frame(alpha=alpha), (len(self.term.groups), len(self.term.cuts))
        curves = table.rename(columns={"survival": "estimate"})[["estimate", "conf_low", "conf_high"]]
        found = {k: np.array(list(map(reached, v.to_numpy().reshape(shape)))) for k, v in curves.items()}
        fine = self._fine(np.nan_to_num(found["conf_high"], nan=math.inf))
        index = pd.Index([g or "all" for g in self.term.groups], name=self.term.group or None)
        out = Frame(found | {"reliable": fine}, index=index)
        if out.isna().any(axis=None):
            out.attrs["note"] = f"Note: nan: not reached by the last cut point, {self.term.cuts[-1]:g}."
        return out

    # --- views -------------------------------------------------------------------------------------------

    def plot(self, *, alpha: float = 0.05, title: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the curves with their simultaneous bands, of level 1 − `alpha`, on `ax` or a figure of their own."""
        table, shape = self.frame(alpha=alpha), (len(self.term.groups), -1, 3)
        lines = table[["survival", "band_low", "band_high"]].to_numpy().reshape(shape).transpose(0, 2, 1)
        lines = np.insert(lines, 0, 1.0, axis=-1)
        names, labels = list(map(plain, self.term.groups)), (plain(self.term.times.columns[0]), plain(self.term.group))
        said, times = (1.0 - alpha, self.privacy.headline, self.notes), np.array([0.0, *self.term.cuts])
        return style.curves(times, names, lines, said, labels, title, ax, steps=not self.life)

    def _layout(self, alpha: float = 0.05) -> list[Part]:
        table, groups, each = self.frame(alpha=alpha), self.term.groups, len(self.term.cuts)
        named = table[["survival", "std_error", "conf_low", "conf_high"]].rename(columns={"survival": "estimate"})
        head, rows = cells(named, alpha, "survival")
        counts = table[["at_risk", "events"]].clip(lower=0.0).to_numpy()
        rows = [[f"{n:.0f}", f"{d:.0f}", *row] for (n, d), row in zip(counts, rows, strict=True)]
        blocks = {k * each: f"{self.term.group} = {g}" for k, g in enumerate(groups)} if len(groups) > 1 else {}
        how = f"{'Life table' if self.life else 'Kaplan-Meier estimates'} of {plain(self.term.times.columns[0])}"
        names = marked([f"{t:g}" for t in table["time"]], table["reliable"])
        said = [f"log-rank {self.test().words}"] if len(groups) > 1 else []
        said += [ROUNDED] * (not self.life)
        said += [NONE_BELOW] * bool((table["events"] < 0.0).any())
        if (lost := self._lost).sure:
            said += [
                f"Unusable: {lost} of the records, which count for nothing: a time, an event or a group is missing or "
                f"not as declared; {CODED}."
            ]
        shown = Table(names, ("at risk", "events", *head), rows, how, blocks)
        return [shown, Paragraph("\n".join([*said, self.footer])), *noted(self.notes)]
