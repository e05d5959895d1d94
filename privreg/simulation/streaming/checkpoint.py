"""Long fits: their rows, checkpoints on the way, and how a fit that was stopped goes on.

A checkpoint holds the public state, the present noise key (never a past one) and what the noise is bound to: which
files the rows come from, how many were read, and as what the ledger knows the release. A fit that is killed goes on
from there with the same noise on the same rows, so that nobody's record is ever in two different reports. It begins
with a checkpoint, before the first row, and takes the file away at the end.
"""

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterator
from glob import escape
from typing import Any, Final

import numpy as np

from privreg.base import archive
from privreg.base.version import __version__
from privreg.data.sources.open import Source
from privreg.errors import PrivregError, SavedFileError, UnsupportedArgumentError, warn
from privreg.fits.settings import Checkpoints
from privreg.privacy.noise import Key, fresh_key
from privreg.simulation.streaming.stream import Stream

_FREE: Final = ("threads",)  # Options that may change between runs, since no bit depends on them


def keep(stream: Stream, source: Source, threads: int, bar: Any, kept: Checkpoints) -> None:
    """Let everybody of a source report, from the checkpoint on if there is one.
    Raises BudgetError if it would exceed the limit of the process, before anybody reports; SavedFileError if the
    checkpoint is of another fit or of other rows, or can't be written; UnsupportedArgumentError if nothing tells
    whether the source's rows will be the same, in the same order, when they are read again; DataError, SchemaError if
    rows can't be used. Those before are kept in the checkpoint.
    """
    stream.take_up(source, begun=kept.path.exists())
    assert stream.charge is not None
    stream.charge.follow("", fresh_key())
    stream.deals(source)  # or says why not, before anything is written
    stamp, killed = _begin(stream, source, kept)
    bar.update(stream.nobs)

    def after_round() -> None:
        _write(stream, source, stamp, kept, clean=False)
        if stop.is_set():
            raise KeyboardInterrupt

    try:
        with _stopping() as stop, contextlib.closing(stream.reported(source, threads, bar)) as steps:
            at = before = stream.rows_read
            since = time.monotonic()
            for _ in steps:
                if stop.is_set():
                    raise KeyboardInterrupt
                late = kept.seconds is not None and time.monotonic() - since >= kept.seconds
                # the next batch may have as many rows again: a kill amid it costs no more than was asked for
                ahead, before = 2 * stream.rows_read - before, stream.rows_read
                if not stream.again and (late or (kept.rows is not None and ahead - at > kept.rows)):
                    _write(stream, source, stamp, kept, clean=False)
                    at, since = stream.rows_read, time.monotonic()
            if stream.again:
                stream.play(threads, after_round)  # from there on noise is drawn from another key
    except KeyboardInterrupt:
        _keep(stream, source, stamp, kept, killed=killed)
        raise KeyboardInterrupt(f"the fit is kept in {str(kept.path)!r}; the same call goes on") from None
    except PrivregError as e:
        if stream.again:
            if not stream._run.noised:  # nothing was made of the rows
                forget(kept)
        elif _keep(stream, source, stamp, kept, killed=killed):
            where = f"The {stream.place[0]:,} rows before are kept in {str(kept.path)!r}"
            how = "once the rest is mended, the same call with mended=True goes on."
            if killed:
                how = "but the fit was killed before, so that it goes on with these very files only."
            e.args = (f"{e} {where}: {how}", *e.args[1:])
        raise


@contextlib.contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Let Ctrl-C end the batch first, so that there is a state to keep; a second one ends at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:  # a handler that Python did not set can't be set again by Python
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)


# --- the file -------------------------------------------------------------------------------------------


def _write(
    stream: Stream, source: Source, stamp: list[Any], kept: Checkpoints, *, clean: bool, new: bool = False
) -> None:
    """Write the state; `clean` says that no noise was used beyond it, not even in memory."""
    document, arrays = stream._snapshot(close=False)
    read, skip = stream.place
    # numbers of rows are the holder's own: the file stays with the rows
    document |= {"version": __version__, "source": stamp, "read": read, "skip": skip, "clean": clean}
    document["release"] = None if stream.charge is None else stream.charge.name
    document["blocks"] = list(source.blocks) if stream.deals(source) else []
    order = {} if stream.deal_key is None else {"secret_order": np.frombuffer(stream.deal_key, dtype=np.uint8)}
    archive.write_archive(kept.path, archive.CHECKPOINT, document, arrays | order, new=new)


def _keep(stream: Stream, source: Source, stamp: list[Any], kept: Checkpoints, *, killed: bool) -> bool:
    """Write a last state, if there is one: an interrupted update leaves none.

    A fit that was ever killed stays so: nobody knows how far beyond this state its noise was used then.
    """
    if stream._broken:
        return False
    with contextlib.suppress(PrivregError):
        _write(stream, source, stamp, kept, clean=not killed)
        return True
    return False


def _begin(stream: Stream, source: Source, kept: Checkpoints) -> tuple[list[Any], bool]:
    """Resume from the checkpoint, or write the first; return the source's stamp, and True if it ever was killed."""
    if (stamp := source.stamp()) is None:
        raise UnsupportedArgumentError(
            f"checkpoint= needs rows that are the same, in the same order, when they are read again, and of "
            f"{source.kind} nothing can tell; write them to a Parquet or CSV file and give its path."
        )
    if not kept.path.exists():
        _write(stream, source, stamp, kept, clean=False, new=True)
        return stamp, False
    document, arrays = archive.read(kept.path, lambda _: len(stream._spec.coefficients), kept.trust)
    name = str(kept.path)
    if document.get("kind") != archive.CHECKPOINT:
        raise SavedFileError(f"{name!r} is there already and is no checkpoint of a fit; give another name.")
    if document.get("version") != __version__:
        raise SavedFileError(
            f"the fit in {name!r} was begun by privreg {document.get('version')}, and this is {__version__}; finish "
            "it there, or remove the file to begin anew."
        )
    mine, _ = stream._snapshot(close=False)
    for part, word in _PARTS.items():
        if _comparable(document.get(part)) != _comparable(mine[part]):
            raise SavedFileError(
                f"the fit in {name!r} has another {word}; give the call it was begun with, or another checkpoint=."
            )
    try:
        place, clean = (int(document["read"]), int(document["skip"])), bool(document["clean"])
        changed = document["source"] != stamp
        if changed and not (kept.mended and clean):
            said = f"the rows of the fit in {name!r} come from files that have changed or moved since"
            if stream.again or not clean:
                raise SavedFileError(
                    f"{said} it was killed; put back the files as they were, or remove it to begin anew."
                )
            raise SavedFileError(
                f"{said}. If the rows already read are what they were, in the same order, say mended=True: the rest is "
                "then read with fresh noise. Otherwise remove the file to begin anew, which is another release."
            )
        if changed and stream.deals(source) and not (source.blocks and document["blocks"] == list(source.blocks)):
            raise SavedFileError(
                f"the fit in {name!r} reads rows in random order, which follows from the row groups of Parquet files; "
                "they are others now, or not known, so that nothing tells which rows were read; give what there was."
            )
        _resume(stream, arrays, place, str(document["release"]), renew=changed)
    except SavedFileError:
        raise
    except Exception:  # whatever a damaged file makes of it
        raise SavedFileError(f"{name!r} is damaged; remove it to begin anew.") from None
    assert stream.charge is not None
    # somebody may have reported: the same release goes on, or another one begins
    if not stream.again and (stream.nobs or not clean):
        stream.charge.enter()
    if clean:  # no longer, once rows are read; and a new key is bound to what the files are now
        _write(stream, source, stamp, kept, clean=False)
    return stamp, not clean


def _resume(stream: Stream, arrays: dict[str, Any], place: tuple[int, int], release: str, *, renew: bool) -> None:
    """Go on from a snapshot of a stream, taken at a `place`, as a release; with fresh noise if `renew`."""
    run, noise = stream._run, b""
    run.from_arrays(arrays)
    stream.rows_read, stream._skip = place
    stream._marks = []
    if stream._spec.budget.private:
        if stream.deal_key is not None:  # also with fresh noise, so that no row comes twice
            stream._deal = Key(arrays["secret_order"].tobytes())
        if renew and stream._seed is None:
            run.renew(fresh_key())
        else:
            run.take_secrets(arrays)
        _, left = stream._snapshot(close=False)
        noise = b"".join(value.tobytes() for name, value in sorted(left.items()) if name.startswith("secret_"))
    assert stream.charge is not None
    stream.charge.follow(release, noise)


_PARTS: Final = {
    "design": "formula or declarations",
    "family": "family",
    "budget": "budget",
    "private": "mechanism or score weights",
    "people": "handling of people",
    "seed": "seed",
    "options": "set of fit options",
    "plan": "plan",
    "probe": "function in its formula",
    "start": "start_params",
    "covariates": "set of public rows as covariates",
}


def _comparable(part: Any) -> Any:
    part = {k: v for k, v in part.items() if k not in _FREE} if isinstance(part, dict) else part
    return json.loads(json.dumps(part))  # tuples as the file has them


def forget(kept: Checkpoints) -> None:
    """Delete the file, and with it the key, once there are results."""
    target = kept.path.resolve()
    try:
        target.unlink(missing_ok=True)
        for cut_off in target.parent.glob(f".{escape(target.name)}.????????"):  # by a kill in the middle of writing
            cut_off.unlink(missing_ok=True)
    except OSError:
        warn(f"{str(kept.path)!r} can't be removed, and it holds a noise key; remove it yourself.")
