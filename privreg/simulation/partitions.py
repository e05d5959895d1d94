"""One fit over many parts of a stream: a common lead, then lanes of their own for every part, which meet twice.

The lead (scales, moments, pilot, common chain) is a single part of the work. Every part then runs its lanes through
three segments of its people; between them all lanes meet at their pooled estimate, but where curvature depends on the
coefficients (see `schedule`). What goes from one place to another is public state, names of files, numbers of rows, and
keys; no rows. The noise of a person belongs to the part and the position, so that a segment that is worked on twice,
after a failure or to be sure, gives the same reports, and is counted once: where its state is joined to the others'.
Neither the number of workers nor their order changes a bit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar

import numpy as np

from privreg.data.sources.open import Batch, file_mark, first, rows_of
from privreg.device.sampler import derived_key, fresh_key, seeded_key
from privreg.errors import DataError, InferenceError, OptionError, PrivregError
from privreg.formula.spec import ModelSpec
from privreg.protocol.plans import Lanes
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.staged import lanes
from privreg.simulation.staged.pipeline import Pipeline
from privreg.simulation.staged.schedule import LEAST_IN_LANE
from privreg.simulation.stream import begin as begun

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.simulation.settings import FitOptions
    from privreg.simulation.stream import Stream

    Array = NDArray[np.float64]

__all__ = ["Each", "Key", "Part", "Span", "Work", "cut", "fit_parts", "in_turn", "quiet"]

P = ParamSpec("P")
T = TypeVar("T")

FEWEST_PARTS: Final = 8
MEETINGS: Final = (0.125, 0.5, 1.0)
"""Shares of a part's people after which all lanes meet; the last is the end."""

FEWEST_BATCHES: Final = 20
"""Batches a lane needs for its mean to be like a normal one."""


class Span(NamedTuple):
    """Consecutive rows of one file."""

    path: str
    first: int
    rows: int
    mark: tuple[int, ...] = ()  # Size and times of change of the file when the fit began; a key is for no other rows


class Part(NamedTuple):
    """Rows that go through the same lanes."""

    spans: tuple[Span, ...]

    @property
    def rows(self) -> int:
        """How many rows."""
        return sum(s.rows for s in self.spans)

    def after(self, rows: int) -> Part:
        """What is left after so many rows."""
        out = []
        for span in self.spans:
            took = min(rows, span.rows)
            rows -= took
            if took < span.rows:
                out.append(span._replace(first=span.first + took, rows=span.rows - took))
        return Part(tuple(out))

    def before(self, rows: int) -> Part:
        """The first so many rows."""
        out = []
        for span in self.spans:
            took = min(rows, span.rows)
            rows -= took
            if took:
                out.append(span._replace(rows=took))
        return Part(tuple(out))


@dataclass(frozen=True)
class Key:
    """A secret that no log prints."""

    value: bytes = field(repr=False)


@dataclass(frozen=True)
class Work:
    """What every worker is told: the model and how to fit it; public."""

    spec: ModelSpec
    asked: FitOptions
    start: Any  # The user's first guess
    rows: int
    parts: int | None  # That go through lanes of their own

    def stream(self) -> Stream:
        """A new stream of the plan of one part."""
        return begun(self.spec, self.asked, self.start, None, self.rows, self.parts)

    def batches(self, part: Part, rows: int) -> Iterator[Batch]:
        """The first so many rows of a part."""
        for span in part.spans:
            n = min(span.rows, rows)
            rows -= n
            if n:
                yield from self._of_span(span, n)

    def _of_span(self, span: Span, rows: int) -> Iterator[Batch]:
        source = self.spec.open(span.path)
        changed = DataError(f"{span.path!r} is not what it was when the fit began; files must not change under a fit.")
        if span.mark and tuple(file_mark(Path(span.path))[1:]) != span.mark:
            raise changed
        for batch in first(source.batches(span.first), rows):
            rows -= rows_of(batch)
            yield batch
        if rows:
            raise changed


Each = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]
"""Call a function with each of many sets of arguments, anywhere and in any order; results in the order of the sets."""


def in_turn(function: Callable[..., Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call a function with each set of arguments, here, one after another."""
    return [function(*some) for some in given]


def cut(files: Iterable[Span]) -> list[Part]:
    """Parts of files with so many rows: files, or even pieces of them where there are few.

    Parameters
    ----------
    files : iterable of Span
        Whole ones.

    Returns
    -------
    list of Part
        The same for any number of workers.
    """
    held = [file for file in files if file.rows]
    pieces = math.ceil(FEWEST_PARTS / max(len(held), 1))
    out = []
    for file in held:
        edges = [file.rows * k // pieces for k in range(pieces + 1)]
        out += [Part((file._replace(first=a, rows=b - a),)) for a, b in pairwise(edges) if b > a]
    return out


def quiet(play: Callable[P, T]) -> Callable[P, T]:
    """Let no text of another library leave a worker: it could quote a row."""

    @functools.wraps(play)
    def played(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return play(*args, **kwargs)
        except PrivregError:
            raise
        except MemoryError:
            problem = DataError("a worker has not enough memory; give it more, or fewer threads.")
        except Exception as e:
            kind = type(e).__name__
            problem = DataError(
                f"a part could not be worked on ({kind}; its text is withheld, as it could quote a row)."
            )
        raise problem  # out here, where no other exception is its context

    return played


# --- what workers do ------------------------------------------------------------------------------------


@quiet
def _lead(work: Work, parts: Sequence[Part], key: Key | None) -> tuple[dict[str, Any], int]:
    """Play the people before the lanes; the public state then, and how many rows that took."""
    stream = work.stream()
    run = _pipeline(stream)
    if key is not None:
        run.renew(key.value)
    for part in parts:
        if stream._lead(work.batches(part, part.rows)):
            return run.to_arrays(), stream.rows_read
    raise InferenceError(f"{work.rows:,} people end before the lanes begin; more are needed, or a larger budget.")


@quiet
def _segment(
    work: Work, part: Part, rows: int, key: Key | None, arrays: dict[str, Any], theta: Array | None
) -> dict[str, Any]:
    """Play the first so many people of a part in its lanes, all of them at `theta`; from state to state."""
    stream = work.stream()
    run = _pipeline(stream)
    run.from_arrays({k: np.array(v) for k, v in arrays.items()})  # parts begin with the same arrays
    if key is not None:
        run.renew(key.value)
    assert run.chains is not None
    if theta is not None:
        run.chains.state.theta[:] = theta
    for _ in stream._update_all(work.batches(part, rows), 1):
        pass
    return run.to_arrays()


def _pipeline(stream: Stream) -> Pipeline:
    if not isinstance(stream._run, Pipeline):
        how = "answers one state after another" if isinstance(stream._run, RoundsRun) else "is a single chain"
        raise OptionError(f"tuning={stream._settings.tuning!r} {how}, which can't be cut into parts; leave tuning out.")
    return stream._run


# --- the whole ------------------------------------------------------------------------------------------


def fit_parts(
    spec: ModelSpec, asked: FitOptions, start: Any, seed: int | None, parts: Sequence[Part], each: Each
) -> Stream:
    """Fit all parts of a stream; a stream that has had everybody.

    Parameters
    ----------
    spec : ModelSpec
    asked : FitOptions
    start : mapping or sequence or None
        The user's first guess.
    seed : int or None
        For simulation only.
    parts : sequence of Part
    each : callable
        How functions are called; see `Each`.

    Returns
    -------
    Stream

    Raises
    ------
    OptionError, InferenceError
        If a method can't be used, or the parts are too small for its intervals.
    """
    rows = sum(part.rows for part in parts)
    work = Work(spec, asked, start, rows, len(parts))
    stream = begun(spec, asked, start, seed, rows, len(parts))
    run = _pipeline(stream)
    _refuse(stream, parts, rows)
    key = None
    if stream._spec.budget.private:
        key = fresh_key() if seed is None else seeded_key(seed)
    ((lead, led),) = each(_lead, [(work, tuple(parts), _key(key, "lead"))])
    left = _after(parts, led)
    begin = run.start
    full = begin.schedule.batch * begin.schedule.lanes
    states, theta = [lead] * len(left), None
    people = [part.rows for part in left]
    for k, share in enumerate(MEETINGS):
        # at ends of rounds, when no lane waits for reports; all that is left at the end
        ends = [n if share == 1.0 else int(n * share) // full * full for n in people]
        here = [end - (n - part.rows) for end, n, part in zip(ends, people, left, strict=True)]
        given = [
            (work, part, n, _key(key, f"part {i} segment {k}"), state, theta)
            for i, (part, n, state) in enumerate(zip(left, here, states, strict=True))
        ]
        states = each(_segment, given)
        left = [part.after(n) for part, n in zip(left, here, strict=True)]
        run.start = begin
        _join(stream, run, lead, states)
        theta = None if run.start.rules.moving else lanes.pooled(run.groups())
        run._note()
    return stream


def _key(key: bytes | None, label: str) -> Key | None:
    return None if key is None else Key(derived_key(key, label))


def _after(parts: Sequence[Part], led: int) -> list[Part]:
    """What the lead has left; too little of a part for lanes of its own goes to the next."""
    out: list[Part] = []
    waiting = Part(())
    for part in parts:
        took = min(led, part.rows)
        led -= took
        rest = Part((*waiting.spans, *part.after(took).spans))
        if 2 * rest.rows < part.rows and part is not parts[-1]:
            waiting = rest
        else:
            waiting = Part(())
            out.append(rest)
    return out


def _refuse(stream: Stream, parts: Sequence[Part], rows: int) -> None:
    settings, people = stream._settings, stream._spec.people
    wrong = [m.name for m in settings.methods if m.blocks or m.name == "anytime"]
    if _pipeline(stream).start.path == 3:
        wrong += [m.name for m in settings.methods if m.scaling]
    if wrong:
        raise InferenceError(
            f"{wrong[0]} needs one path, and parts have paths of their own; use between_lanes, random_scaling, plug_in "
            "or path_curvature, with many coefficients between_lanes."
        )
    if people.id is not None:
        raise OptionError("id= counts a person's rows, which parts can't do for each other; leave id= or Dask out.")
    if people.missing == "drop":
        raise OptionError("missing='drop' can't be used with parts; missing='noise' keeps secret who answered, too.")
    assert settings.efficient is not None
    if settings.efficient.told:
        raise OptionError("measures= takes the last people of one stream, and can't be used with parts; leave it out.")
    if stream._spec.family.score is not None:
        raise OptionError("a family of your own can't be sent to workers, as code is never sent; fit it here.")
    schedule, run = settings.efficient.schedule, _pipeline(stream)
    d = run.coefficients
    wanted = math.ceil(max(LEAST_IN_LANE * max(d, 4) ** 2 / schedule.effective**2, FEWEST_BATCHES * schedule.batch))
    lead = schedule.before("lanes")
    each = (rows - lead) // (len(parts) * schedule.lanes)
    if each < wanted:
        most = max((rows - lead) // wanted // schedule.lanes, 0)
        advice = f"give at most {most} of them, larger ones, " if most >= FEWEST_PARTS else "fit them in one stream, "
        raise InferenceError(
            f"{len(parts)} parts of {rows:,} people leave {max(each, 0):,} a lane, and intervals need {wanted:,}, as "
            f"a lane's mean must be nearly normal; {advice}or ask more people, or raise the budget."
        )


def _join(stream: Stream, run: Pipeline, lead: dict[str, Any], states: Sequence[dict[str, Any]]) -> None:
    """Take over the lanes of all parts, one after another."""
    noted = {k: v for k, v in run.to_arrays().items() if k.startswith("trail")}
    run.from_arrays({**lead, **noted} if run.chains is not None else lead)
    assert run.chains is not None
    state = lanes.merged([Lanes(*(s[f"chains_{name}"] for name in Lanes._fields)) for s in states])
    many = len(state.theta)
    run.chains = run.chains._replace(state=state, plan=run.chains.plan._replace(lanes=many))
    run.at = sum(int(s["position"][1]) for s in states)
    run.people += run.at
    run.weight_here = sum(float(s["weights"][0]) for s in states)
    efficient = stream._settings.efficient
    assert efficient is not None
    schedule = run.start.schedule._replace(lanes=many)
    run.start = run.start._replace(schedule=schedule)
    stream._settings = replace(stream._settings, efficient=replace(efficient, schedule=schedule))
