"""Fits over several processes or machines, by Dask: where parts are worked on, and nothing of what is done there.

Workers are told a model without rows, names of files and numbers of rows, keys that print as nothing, and public state.
They read the rows themselves, so that a task can be lost and worked on again anywhere, and no log of a failed task,
which quotes its arguments, holds a row.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from privreg.base.optional import need
from privreg.data.sources.open import Source, refuse_few
from privreg.errors import DataError, OptionError, PrivregError, StreamError, UnsupportedArgumentError
from privreg.fits.settings import FitOptions
from privreg.formula.spec import ModelSpec
from privreg.options.running import progress_bar
from privreg.options.table import check
from privreg.privacy.ledger import LEDGER
from privreg.results.results import PrivateResults
from privreg.simulation.streaming.stream import begin
from privreg.simulation.workers.blocks import Each, Span, blocks_of, fit_blocks

RETRIES: Final = 2
"""Retries of a task whose error is not about the rows. Dask gives tasks of workers that die to others."""

LOCAL: Final = "local"


def fit(
    spec: ModelSpec, source: Source, asked: FitOptions, start: Any, seed: Any, progress: bool | None, client: Any
) -> PrivateResults:
    """Fit the parts of a source's files on a cluster; see `PrivateOnlineRegression.fit`."""
    files = files_of(source, spec)
    total = sum(file.rows for file in files)
    refuse_few(total, len(spec.design.names), source.kind)
    LEDGER.check(source.identity, begin(spec, asked, start, seed, total).total_mu)
    with connected(client) as connection, progress_bar(total, progress) as bar:
        each, seed = spread(connection, bar.update), check("local.fit", "seed", seed)
        stream = fit_blocks(spec, asked, start, seed, blocks_of(files, spec), each, source.identity)
        bar.update(total - bar.n)
    return stream._results()


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """The user's client, or one of a cluster on this machine's processors that ends with the fit.
    Raises OptionError if it is neither a client nor "local"; MissingExtraError if Dask is not installed; StreamError if
    no cluster can be started here.
    """
    distributed = need("distributed", "dask", "a fit over several processes")
    if isinstance(client, distributed.Client):
        yield client
        return
    if client is not None and client != LOCAL:
        raise OptionError(
            f"client is of type {type(client).__name__}; give a distributed.Client, or 'local' for one of this machine."
        )
    with _local(distributed) as cluster, distributed.Client(cluster) as own:
        yield own


def _local(distributed: Any) -> Any:
    """A cluster of this machine's processors."""
    try:
        return distributed.LocalCluster(threads_per_worker=1, dashboard_address=":0")
    except Exception as e:
        problem = StreamError(
            f"no cluster could be started here ({type(e).__name__}). Workers are processes that import the script: "
            'what fits must stand below `if __name__ == "__main__":`. Nobody has reported.'
        )
    raise problem


def spread(client: Any, done: Callable[[int], None]) -> Each:
    """Call functions on the workers of a client, see `Each`.

    `done` is called with the number of people of a task, when it ends.
    """
    as_completed = need("distributed", "dask", "a fit over several processes").as_completed
    run = uuid.uuid4().hex[:8]

    def each(function: Callable[..., Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
        names = [f"privreg-{run}-{function.__name__.strip('_')}-{uuid.uuid4().hex[:8]}-{i}" for i in range(len(given))]
        futures = [
            client.submit(function, *some, key=name, pure=False, retries=RETRIES)
            for some, name in zip(given, names, strict=True)
        ]
        people = {future.key: some[2] for future, some in zip(futures, given, strict=True)}
        problem: PrivregError | None = None
        try:
            for future in as_completed(futures):
                future.result()
                if isinstance(people[future.key], int):
                    done(people[future.key])
            return list(client.gather(futures))
        except PrivregError:
            raise
        except Exception as e:  # of the scheduler: workers that died, a connection that was lost
            problem = StreamError(
                f"the workers could not finish ({type(e).__name__}); see that they have enough memory and see the same "
                "files, and fit again. What was reported counts as spent."
            )
        finally:
            client.cancel(futures)
        raise problem

    return each


def files_of(source: Source, spec: ModelSpec) -> list[Span]:
    """A source's files, whole.
    Raises UnsupportedArgumentError if the rows don't come from files that workers could read; DataError if nobody can
    tell how many rows a file has.
    """
    stamp = source.stamp()
    if stamp is None:
        raise UnsupportedArgumentError(
            f"workers read rows from files, and these come from {source.kind}; write them to Parquet files and give "
            "their folder."
        )
    files = []
    for path, *mark in stamp:
        rows = spec.open(path).expected()
        if rows is None:
            raise DataError(f"{path!r} can't be read to count its rows.")
        files.append(Span(str(path), 0, rows, tuple(mark)))
    return files
