"""Threads of linear algebra: one, whatever the machine has.

A fit multiplies and factors many small matrices. Libraries of linear algebra share each among all processors, and wait
for one another: on a machine that is busy, or a container that has been given fewer processors than it sees, that took
five to thirty times as long as one thread alone. With one, the last bits also don't depend on how many there are.
`threads=` is another matter: blocks of records side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401 - which brings a library of its own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra take one thread inside a block, or a function that this decorates.

    Where several threads ask for it, the first sets it for all, and gives it back when it ends.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield
