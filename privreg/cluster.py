"""Fits over several processes or machines, by Dask: where parts are worked on, and nothing of what is done there.

Workers are told a model without rows, names of files and numbers of rows, keys that print as nothing, and public state.
They read the rows themselves, so that a task can be lost and worked on again anywhere, and no log of a failed task,
which quotes its arguments, holds a row.
"""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from privreg.errors import DataError, OptionError, PrivregError, StreamError, UnsupportedArgumentError
from privreg.partitions import Part, cut
from privreg.sources import Source, open_table

if TYPE_CHECKING:
    from privreg.partitions import Each
    from privreg.spec import Spec

__all__ = ["connected", "files_of", "paths_of", "spread"]

RETRIES: Final = 2
"""Of a task whose error is not about the rows. Tasks of workers that die are given to others by Dask itself."""

LOCAL: Final = "local"


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """The user's client, or one of a cluster on this machine's processors that ends with the fit.

    Raises
    ------
    OptionError
        If it is neither a client nor "local".
    UnsupportedArgumentError
        If Dask is not installed.
    """
    distributed = _distributed()
    if isinstance(client, distributed.Client):
        yield client
        return
    if client is not None and client != LOCAL:
        raise OptionError(
            f"client is a {type(client).__name__}; give a distributed.Client, or 'local' for a cluster of this machine."
        )
    with (
        distributed.LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as own,
    ):
        yield own


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise UnsupportedArgumentError(
            "fits over several processes need Dask's scheduler: pip install 'privreg[dask]'."
        ) from None


def spread(client: Any, done: Callable[[int], None]) -> Each:
    """Call functions on the workers of a client.

    Parameters
    ----------
    client : distributed.Client
    done : callable
        Told how many people a task has had, when it ends.

    Returns
    -------
    callable
        See `partitions.Each`.
    """
    as_completed = _distributed().as_completed
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
                "files, and fit again. Nothing was released."
            )
        finally:
            client.cancel(futures)
        raise problem

    return each


def files_of(source: Source, spec: Spec) -> list[Part]:
    """Parts of a source's files.

    Raises
    ------
    UnsupportedArgumentError
        If the rows don't come from files that workers could read.
    DataError
        If nobody can tell how many rows a file has.
    """
    stamp = source.stamp()
    if stamp is None:
        raise UnsupportedArgumentError(
            f"workers read rows from files, and these come from {source.kind}; write them to Parquet files and give "
            "their folder."
        )
    columns = (*spec.design.columns, *spec.people.columns)
    files = []
    for path, *_ in stamp:
        rows = open_table(path, columns, spec.design.schema, text=spec.people.text).expected()
        if rows is None:
            raise DataError(f"{path!r} can't be read to count its rows.")
        files.append((str(path), rows))
    return cut(files)


def paths_of(frame: Any) -> list[str]:
    """Files of a Dask DataFrame that is what `dask.dataframe.read_parquet` gave, perhaps with fewer columns.

    Raises
    ------
    UnsupportedArgumentError
        If it is anything else: its partitions would have to be sent as rows.
    """
    from glob import glob
    from pathlib import Path

    refusal = UnsupportedArgumentError(
        "of a Dask DataFrame workers are sent the names of its Parquet files, never rows; this one is more than "
        "read_parquet(...) of local files. Write it first: ddf.to_parquet('folder'), then give 'folder' and "
        "client=client, or read_parquet('folder')."
    )
    node = frame.expr
    while type(node).__name__ == "Projection":
        node = node.frame
    if not type(node).__name__.startswith("ReadParquet"):
        raise refusal
    given = {name: node.operand(name) for name in node._parameters if name in _OTHERS}
    if any(value is not None for value in given.values()):
        raise refusal
    path = node.operand("path")
    out: list[str] = []
    for one in [path] if isinstance(path, str | Path) else list(path):
        text = str(one)
        if "://" in text:
            raise refusal
        found = sorted(glob(text)) if any(c in text for c in "*?[") else [text]
        for name in found:
            inside = (
                sorted(str(p) for p in Path(name).rglob("*") if p.suffix in _SUFFIXES) if Path(name).is_dir() else []
            )
            out += inside or [name]
    return out


_OTHERS: Final = ("filters", "_partitions", "storage_options")
_SUFFIXES: Final = (".parquet", ".parq", ".pq")
