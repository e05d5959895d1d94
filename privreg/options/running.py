"""A fit that runs: the bar that ``progress=`` shows, the time that plans take, and threads of linear algebra, one.

A fit multiplies and factors many small matrices. Libraries of linear algebra share each among all processors, and wait
for one another: on a machine that is busy, or a container that has been given fewer processors than it sees, that took
five to thirty times as long as one thread alone. With one, the last bits also don't depend on how many there are.
`threads=` is another matter: blocks of records side by side.
"""

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, Final


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


_NAME: Final = "privreg"
COMPILING: Final = "privreg: compiling, once per installation"


@contextmanager
def progress_bar(total: int | None, progress: bool | None) -> Iterator[Any]:
    """Show a bar; by default it shows on fits of more than a second at a terminal.

    Where it shows it also says when loops are compiled, which takes seconds and would look like a fit that hangs; those
    that are found compiled on disk are loaded without a word.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in a notebook without ipywidgets the bar is text, which is fine
        from tqdm.auto import tqdm

    quiet = {None: None, True: False, False: True}[progress]
    # disable=None: silent when stderr is not a terminal
    more: dict[str, Any] = {"disable": quiet, "delay": 0.0 if progress else 1.0, "desc": _NAME}
    with tqdm(total=total, unit=" people", unit_scale=True, **more) as bar, ExitStack() as listening:
        if not bar.disable and "numba" in sys.modules:  # what compiles imports it before its bar
            from numba.core import event

            class Compiling(event.Listener):  # type: ignore[misc]
                depth = 0

                def on_start(self, _: Any) -> None:
                    self.depth += 1
                    if self.depth == 1:
                        bar.set_description_str(COMPILING)

                def on_end(self, _: Any) -> None:
                    self.depth -= 1
                    if self.depth == 0:
                        bar.set_description_str(_NAME, refresh=False)

            listening.enter_context(event.install_listener("numba:compile", Compiling()))
        yield bar


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show at a terminal what takes more than a second, and for how long it has."""
    from tqdm import tqdm

    over = threading.Event()

    def shown(bar: Any, wait: float = 1.0) -> None:
        while not over.wait(wait):
            bar.refresh()
            wait = 0.5

    with tqdm(desc=f"{_NAME}: {what}", bar_format="{desc}, {elapsed}", leave=False, disable=None, delay=1.0) as bar:
        thread = threading.Thread(target=shown, args=(bar,), name="waits", daemon=True)
        if not bar.disable:
            thread.start()
        try:
            yield
        finally:
            over.set()
            if thread.ident is not None:
                thread.join()
