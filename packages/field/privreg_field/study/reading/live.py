"""``study.live()``: a study's dashboard in a notebook, which follows what comes.

Estimates are made here, of sums that were verified; counts by minute are as the server tells them. A thread asks.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from privreg.errors import OptionError, StudyError, shown
from privreg.files.optional import need
from privreg.results.base import Results
from privreg_field import KIT
from privreg_field.study.reading.picture import PHASES, picture
from privreg_field.wire import wire

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
