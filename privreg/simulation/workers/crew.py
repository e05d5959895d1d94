"""Work that a few threads share: whoever is free takes the next task, and who waits for one works on others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Task(Generic[T]):
    """A function to be called once, by the first thread that is free."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._claim, self._done = threading.Lock(), threading.Event()
        self._found: list[T] = []
        self._problem: BaseException | None = None

    @property
    def done(self) -> bool:
        """True if the task is over."""
        return self._done.is_set()

    @property
    def begun(self) -> bool:
        """True if a thread has begun the task, or none may."""
        return self._work is None

    def begin(self) -> bool:
        """Do the task, unless another thread has begun; True if it was done here."""
        if not self._claim.acquire(blocking=False):
            return False
        work, self._work = self._work, None  # which may hold rows
        assert work is not None
        try:
            self._found.append(work())
        except BaseException as e:  # for whoever asks for the result
            self._problem = e
            if not isinstance(e, Exception):
                raise
        finally:
            self._done.set()
        return True

    def drop(self) -> None:
        """Give the task up, unless a thread has begun."""
        if self._claim.acquire(blocking=False):
            self._work = None
            self._done.set()

    def result(self) -> T:
        """Result of the task, once it is over; an exception is raised again."""
        self._done.wait()
        if self._problem is not None:
            raise self._problem
        return self._found.pop()


class Crew:
    """A number of threads, of which the one that made it is one: it alone hands out tasks.

    With one thread, a task is done when its result is asked for.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._open: deque[Task[object]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._open:
            task.drop()
        self._open.clear()
        if self._pool is not None:
            self._pool.shutdown()

    def submit(self, work: Callable[[], T]) -> Task[T]:
        """Make a task that any thread may do."""
        task = Task(work)
        if self._pool is not None:
            while self._open and self._open[0].begun:
                self._open.popleft()
            self._open.append(task)  # type: ignore[arg-type]
            self._pool.submit(task.begin)
        return task

    def result(self, task: Task[T]) -> T:
        """Result of a task; while another thread works on it, this one works on others."""
        if not task.begin():
            while self._open and not task.done:
                self._open.popleft().begin()
        return task.result()

    def each(self, work: Iterable[Callable[[], T]]) -> list[T]:
        """Results of several functions, in their order."""
        return [self.result(task) for task in [self.submit(one) for one in work]]
