"""Numbers of a study's dashboard, for servers and notebooks: counts of reports, and estimates; ``study.live()``.

While a study is open its analyst looks again and again, and may stop because of what is seen. An interval that holds at
one look does not hold then; the band of `inference="anytime"` does. It goes by the sandwich's standard errors, which
fits by rounds keep along the way, and begins at `FIRST` people whose reports enter the estimate.
"""

import json
import math
import threading
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.base.optional import need
from privreg.collector.inference.methods import METHODS
from privreg.collector.inference.pivots import Normal
from privreg.collector.inference.resampling import FIRST, Anytime
from privreg.errors import InferenceError, OptionError, StudyError, shown
from privreg.means.results.results import MeansResults
from privreg.results.base import Results
from privreg.results.data import band
from privreg_field import KIT
from privreg_field.wire import wire
from privreg_field.wire.roles import Held
from privreg_field.wire.study import PublicPlan
from privreg_field.wire.wire import VERSION

ALPHA: Final = 0.05  # One minus the level of intervals

TIMES: Final = tuple(float(v) for v in np.round(np.geomspace(1.0, 1e6, 121), 4))
"""Multiples of the present number of people at which the critical value of the band is said."""


PHASES: Final = ("before", "open", "closing", "closed")
"""Phases of a study: before it opens; while it asks; while reports on their way still count; and then."""


class Round(NamedTuple):
    """A state, and how many reports answered it."""

    state: int
    role: str
    reports: int
    ends: int | None  # Reports that close it, while it is open; None: it stays open, or is closed
    open: bool
    fetched: int = 0  # Times that the server handed it out


class Side(NamedTuple):
    """One of two collectors."""

    name: str
    batches: int | None  # That are published or lost; None of the other, as nobody but the other says it
    reports: int | None  # That it holds or has summed
    lags: bool  # It is waited for


class Known(NamedTuple):
    """Progress of a study: numbers of reports, and nothing of what they hold."""

    rounds: tuple[Round, ...]  # That have asked somebody
    state: int  # Number of the present state
    is_open: bool
    closes: int  # Seconds since 1970 UTC
    issued: int  # Invitations
    planned: int | None  # Reports
    ahead: tuple[Held, ...] = ()  # Rounds that are planned after these
    status: str = "open"  # One of `PHASES`
    late: int = 0  # Reports that came after their state had closed, and count
    made_of: tuple[int, ...] = ()  # Estimates change only with it
    collectors: tuple[Side, ...] = ()  # Two, or none where there is one alone


def progress(plan: PublicPlan, known: Known, minutes: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of reports as the JSON of a dashboard; `minutes` has "totals", "recent", "whole" of its feed."""
    return {
        "v": VERSION,
        "study": plan.study,
        "title": plan.title,
        "mu": list(plan.mu),
        "together": list(plan.together),
        "opens": plan.opens,
        "closes": known.closes,
        "grace": plan.grace,
        "status": known.status,
        "state": known.state,
        "open": known.is_open,
        "people": sum(r.reports for r in known.rounds),
        "late": known.late,
        "issued": known.issued,
        "planned": known.planned,
        "rounds": [r._asdict() for r in known.rounds],
        "ahead": [{"role": r.role, "reports": r.total, "optional": r.optional} for r in known.ahead],
        "collectors": [one._asdict() for one in known.collectors],
        **minutes,
    }


def picture(made: Callable[[], Results]) -> dict[str, Any]:
    """Results that `made` makes, as the JSON of a dashboard; while reports still set the scales, that they do."""
    try:
        return {"ready": True, **estimates(made())}
    except InferenceError as e:
        return {"ready": False, "why": str(e)}


def estimates(res: Any) -> dict[str, Any]:
    """Coefficients now and along the way, with intervals for one look and a band for all looks, of a field study.

    That is nobs; senders (people whose reports enter the estimate); first (of them, before the band begins); level;
    method (of the intervals for one look, None if there are none yet); coefficients (term, estimate, std_error,
    reliable, low, high, always_low, always_high); path (people, and of each coefficient estimate, low, high,
    always_low, always_high by number of people; None of a table); ahead (multiples of `senders`, and the band's
    critical value there: None below `first`), once the band's standard error is known; guarantee; notes. Numbers that
    aren't finite are None.
    """
    fit, table = res._fit, res.tidy(alpha=ALPHA)
    if isinstance(res, MeansResults):
        return _of_table(res, table)
    name = band(fit)
    errors = np.sqrt(fit.trail_variances)
    once = Normal() if name in {None, "anytime"} else next(e.pivot for e in fit.estimates if e.method == name)
    low, high = _limits(fit.trail_params, errors, once.critical(ALPHA))
    bands = np.array([_band(int(k)) for k in fit.trail_senders])[:, None]
    always_low, always_high = _limits(fit.trail_params, errors, bands)
    last = {"low": low[-1], "high": high[-1]}
    if name is None and res.methods:  # intervals there are, by a method that keeps none along the way
        last = {"low": table["conf_low"].to_numpy(), "high": table["conf_high"].to_numpy()}
        errors[-1] = table["std_error"].to_numpy()
    lines = {"estimate": fit.params, "std_error": errors[-1], **last}
    lines |= {"always_low": always_low[-1], "always_high": always_high[-1]}
    ways = {"estimate": fit.trail_params, "low": low, "high": high}
    ways |= {"always_low": always_low, "always_high": always_high}
    method = "sandwich" if name == "anytime" else name or next(iter(res.methods), None)
    return {
        "nobs": int(fit.nobs),
        "senders": int(fit.senders),
        "first": FIRST,
        "level": 1.0 - ALPHA,
        "method": None if method is None else METHODS[method].title,
        "coefficients": [
            {"term": term, "reliable": bool(ok), **{k: _plain(v[j]) for k, v in lines.items()}}
            for j, (term, ok) in enumerate(zip(fit.names, table["reliable"], strict=True))
        ],
        "path": {
            "people": [int(v) for v in fit.trail_n],
            "coefficients": [
                {k: [_plain(v) for v in way[:, j]] for k, way in ways.items()} for j in range(len(fit.names))
            ],
        },
        "ahead": None if name is None else {
            "times": list(TIMES),
            "once": _plain(once.critical(ALPHA)),
            "always": [_plain(_band(int(fit.senders * v))) for v in TIMES],
        },
        "guarantee": res.privacy.guarantee,
        "notes": [str(note) for note in res.privacy.notes if note.severity != "info"],
    }  # fmt: skip


def _of_table(res: MeansResults, table: Any) -> dict[str, Any]:
    """Estimates of a table, which have no path and no band."""
    columns = {"estimate": "estimate", "std_error": "std_error", "low": "conf_low", "high": "conf_high"}
    nothing = {"always_low": None, "always_high": None}
    return {
        "nobs": res.nobs,
        "senders": res.nobs,
        "first": FIRST,
        "level": 1.0 - ALPHA,
        "method": "the variance of reports",
        "coefficients": [
            {"term": row["term"], "reliable": bool(row["reliable"]), **nothing}
            | {k: _plain(row[v]) for k, v in columns.items()}
            for _, row in table.iterrows()
        ],
        "path": None,
        "ahead": None,
        "guarantee": res.privacy.guarantee,
        "notes": [str(note) for note in res.privacy.notes if note.severity != "info"],
    }


def _band(senders: int) -> float:
    """Critical value that holds at every number of people; NaN before there is one."""
    return Anytime(senders).critical(ALPHA) if senders >= FIRST else math.nan


def _limits(params: Array, errors: Array, critical: Any) -> tuple[Array, Array]:
    half = np.asarray(critical) * errors
    return params - half, params + half


def _plain(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


LEAST: Final = 0.5
LONGEST: Final = 60.0  # Seconds between two questions, at least, and at most while the server can't be reached


class Followed(NamedTuple):
    """A study, as far as it is followed."""

    name: str
    counts: Callable[[], bytes]  # Asks its server for its progress
    estimated: Callable[[], Results]  # Computes results of sums that were verified


def live(studies: Mapping[str, Followed], every: float) -> Any:
    """Show a study's analyses, by name, the first one first; see `privreg_field.study.reading.study.Study.live`."""
    if isinstance(every, bool) or not isinstance(every, int | float) or not LEAST <= every <= 3600:
        raise OptionError(f"every={shown(every)} must be a number of seconds, {LEAST} to 3600.")
    widget = _class()(names=list(studies), chosen=next(iter(studies)))
    widget.follow(studies, float(every))
    return widget


def _source(name: str) -> str:
    return files("privreg_field.service").joinpath("web", "dashboard", *name.split("/")).read_text("utf-8")


@cache
def _class() -> Any:
    base: Any = need("anywidget", "live", "study.live()", KIT).AnyWidget
    traits: Any = need("traitlets", "live", "study.live()", KIT)
    sources = {"uplot": _source("uplot/uPlot.esm.js"), "curves": _source("curves.js"), "view": _source("view.js")}

    class Live(base):  # type: ignore[misc]
        """A study that is followed.

        `progress` and `results` are of the analysis `of`, and are shown if it is the one `chosen` of `names`; `said` is
        what went wrong last. `stop` ends it, and so does `close`.
        """

        _esm = f"const SOURCES = {json.dumps(sources)};\n{_source('notebook.js')}"
        _css = "".join(map(_source, ("uplot/uPlot.min.css", "view.css", "notebook.css")))
        progress = traits.Dict().tag(sync=True)
        results = traits.Dict().tag(sync=True)
        said = traits.Unicode("").tag(sync=True)
        names = traits.List([]).tag(sync=True)
        chosen = traits.Unicode("").tag(sync=True)
        of = traits.Unicode("").tag(sync=True)

        def follow(self, studies: Mapping[str, Followed], every: float) -> None:
            """Ask every so many seconds, beginning now, and at once when another analysis is chosen."""
            self._over, self._wake = threading.Event(), threading.Event()
            self.observe(lambda _: self._wake.set(), "chosen")
            self._thread = threading.Thread(
                target=_follow, args=(self, studies, every), daemon=True, name="privreg-live"
            )
            self._thread.start()

        def stop(self) -> None:
            """Ask no more; what was shown last stays."""
            self._over.set()
            self._wake.set()

        def close(self) -> None:
            """Stop, and take the widget away."""
            self.stop()
            super().close()

    return Live


def _follow(widget: Any, studies: Mapping[str, Followed], every: float) -> None:
    """Ask until it is stopped, or until no report counts any more and nothing else can be chosen."""
    before: Any = None
    wait = every
    while True:
        widget._wake.clear()
        name = widget.chosen if widget.chosen in studies else next(iter(studies))
        study = studies[name]
        try:
            progress = _progress(study)
            at = name, progress["people"], progress["state"], progress["open"]
            results = widget.results if at == before else picture(study.estimated)
            before, wait = at, every
            with widget.hold_sync():  # all at once: coefficients are shown by the study's status
                widget.progress, widget.results, widget.of, widget.said = progress, results, name, ""
            if progress["status"] == "closed":
                if len(studies) == 1:
                    return
                wait = LONGEST
        except StudyError as e:
            wait = min(2.0 * wait, LONGEST)
            widget.said = str(e)
        widget._wake.wait(wait)
        if widget._over.is_set():
            return


def _progress(study: Followed) -> dict[str, Any]:
    """Counts as the server tells them; raises `StudyError`."""
    try:
        said: dict[str, Any] = json.loads(study.counts())
        record = wire.Record(said, "the counts")
        record.fixed("v", wire.VERSION)
        if record.text("study", 63) != study.name:
            raise StudyError("the counts are those of another study.")
        record.integer("people", 0, 1 << 48), record.integer("state", 0, 1 << 31), record.flag("open")
        record.choice("status", PHASES)
    except (wire.MessageError, ValueError) as e:
        raise StudyError(f"the study's server sends what is no answer of a collector: {e}") from None
    return said
