"""Reading the options that a model and its fits take from the user."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.errors import OptionError, UnsupportedArgumentError, choose, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "progress_bar",
    "read_rows",
    "read_seed",
    "read_start",
    "read_threads",
    "refuse_arrays",
    "refuse_people",
    "refuse_unknown",
]

MOST_ROWS: Final = 10**15
LONG: Final = 200_000
"""People from whom on threads are used by default."""

MOST_DEFAULT_THREADS: Final = 4


_EVERY: Final = (
    *("family", "mu", "mu_max", "epsilon", "delta", "rho", "bounds", "levels", "moments", "scaling", "mechanism"),
    *("private", "score_weights", "offset", "exposure", "id", "max_per_id", "missing", "rows", "allow_leak"),
    "trust",
)
MODEL_OPTIONS: Final = (*_EVERY, "schema")
ARRAY_OPTIONS: Final = (*_EVERY, "exog_names", "endog_name")
START_OPTIONS: Final = (
    *("tuning", "inference", "lanes", "threads", "batch_size", "alpha", "step", "start_params", "measures", "seed"),
)
FIT_OPTIONS: Final = (
    *(*START_OPTIONS, "progress", "client"),
    *("checkpoint", "checkpoint_rows", "checkpoint_seconds", "mended", "checkpoint_trust"),
)

_INFERENCE: Final = "standard errors come from the inference method; choose it with inference="
_EQUAL: Final = (
    "all people have equal weight. If they chose budgets of their own, mu='column' with mu_max= lets reports count by "
    "these; the weights of scores are score_weights="
)
_CONSTANT: Final = (
    "a formula has a constant unless it says 0, 'y ~ x' or 'y ~ 0 + x'; in arrays the column named 'const' is it"
)
_PERSONS: Final = "if a person has several rows, name the column that tells people apart: id='person', max_per_id=1"
_NOISE: Final = (
    "the budget (mu=, epsilon= or rho=) and the family set the noise and the bound of reports; mechanism= how"
)
_BUDGET: Final = "the budget is mu=1.0, epsilon=1.0 (with delta=1e-6 or pure) or rho=0.5, given to the model"
_GAPS: Final = "what becomes of rows with missing values is missing='noise', 'raise' or 'drop', given to the model"
_ONE_PASS: Final = (
    "each person reports once, so there is one pass over the people; more precision comes from more people"
)
_STEP: Final = "the size of the steps is step=, a factor; 1 (the default) suits most fits"
_CORNER: Final = "it belongs to the family, as in family=Huber(c=1.345, scale=2500)"
_TAU: Final = "it belongs to the family, as in family=Quantile(0.9) or Expectile(0.9)"

_MEANT: Final[dict[str, str]] = {
    **dict.fromkeys(("cov_type", "cov_kwds", "use_t"), _INFERENCE),
    **dict.fromkeys(("weights", "freq_weights", "var_weights", "sample_weight", "sample_weights"), _EQUAL),
    **dict.fromkeys(("hasconst", "fit_intercept", "intercept", "add_constant", "const"), _CONSTANT),
    **dict.fromkeys(("groups", "group", "cluster", "clusters", "person", "user", "user_id", "person_id"), _PERSONS),
    **dict.fromkeys(("re_formula", "vc_formula", "random_effects"), f"there are no random effects; {_PERSONS}"),
    **dict.fromkeys(("sigma", "noise", "noise_multiplier", "max_grad_norm", "sensitivity", "clip_norm"), _NOISE),
    **dict.fromkeys(("eps", "budget", "privacy_budget", "target_epsilon"), _BUDGET),
    **dict.fromkeys(("dropna", "drop_na", "na_action", "nan_policy"), _GAPS),
    **dict.fromkeys(("epochs", "n_epochs", "num_epochs", "max_iter", "maxiter", "n_iter", "iterations"), _ONE_PASS),
    **dict.fromkeys(("learning_rate", "lr", "eta", "eta0", "step_size", "gamma"), _STEP),
    **dict.fromkeys(("n_jobs", "workers", "num_threads", "n_threads"), "processor threads are threads=, of fit()"),
    **dict.fromkeys(("random_state", "random_seed", "rng"), "the seed of simulated noise is seed=, of fit()"),
    **dict.fromkeys(("verbose", "disp", "show_progress"), "the progress bar is progress=True or False, of fit()"),
    **dict.fromkeys(("method", "solver", "optimizer"), "tuning= chooses how it is fitted, of fit()"),
    **dict.fromkeys(("c", "scale", "corner"), _CORNER),
    **dict.fromkeys(("tau", "q", "quantile", "quantiles"), _TAU),
    "y_max": "it belongs to the family, as in family=Poisson(y_max=20)",
    "width": "it belongs to the family, as in family=SmoothedHinge(width=0.5)",
    "link": "each family has one link; families.custom(..., link=) has one of yours",
    "subset": "leave rows out before, by something public",
    **dict.fromkeys(("clip", "limits", "ranges", "data_norm"), "the public range of columns is bounds={'x': (0, 1)}"),
    **dict.fromkeys(("categories", "factors"), "the public levels of factors are levels={'g': ['no', 'yes']}"),
}
"""What users of other libraries mean, by the name they give."""


_HERE: Final = (MODEL_OPTIONS, ARRAY_OPTIONS, START_OPTIONS, FIT_OPTIONS)
"""Options of `PrivateOnlineRegression`; of other calls a hint must not name an option that they lack."""


def _hint(where: str, name: str, known: Sequence[str]) -> str | None:
    """What to write in place of an option that is not there, if that is known."""
    fits = where.rpartition(".")[2] in {"fit", "start"}
    if name in {"seed", "progress"} and not fits:
        return f"{name}= belongs to fit(), not to the model"
    if tuple(known) not in _HERE:
        meant = _MEANT.get(name)
        named = re.findall(r"\b([a-z_]+)=", re.sub(r"\([^()]*\)", "", meant or ""))
        if meant is _ONE_PASS and where.startswith("Federated"):
            return "how often silos go over their records is rounds= and local_steps=, given to the model"
        if fits and name in {*MODEL_OPTIONS, *ARRAY_OPTIONS}:
            return f"{name}= belongs to the model, not to {where}()"
        if meant is not None and set(named) <= {*known, "seed", "progress"}:
            return meant
        if name in {*MODEL_OPTIONS, *ARRAY_OPTIONS, *FIT_OPTIONS}:
            whose = "its fit()" if name in FIT_OPTIONS else "its model"
            return f"{name}= is an option of PrivateOnlineRegression, of {whose}; here there are {', '.join(known)}"
        return None
    if name == "alpha" and not fits:
        return "alpha= of fit() is the exponent of the steps, alpha= of conf_int() and summary() the level of intervals"
    if name in FIT_OPTIONS and not fits:
        return f"{name}= belongs to fit(), not to the model"
    if name in ARRAY_OPTIONS and name not in known:
        return f"{name}= belongs to the model{'' if fits else ' of arrays'}, not to {where}()"
    if name in FIT_OPTIONS:
        return f"{name}= belongs to fit(), not to {where}()"
    return _MEANT.get(name)


def refuse_unknown(where: str, unknown: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse options that don't exist, with the one that was meant or the nearest one that does.

    Raises
    ------
    UnsupportedArgumentError
        If there is any.
    """
    for name in unknown:
        hint = _hint(where, name, known)
        if hint is not None:
            raise UnsupportedArgumentError(f"{where}() has no {name!r}: {hint}.")
        try:
            choose(f"{where}() option", name, known)
        except OptionError as e:
            raise UnsupportedArgumentError(str(e)) from None


def refuse_people(mu: object, unknown: Mapping[str, Any]) -> None:
    """Refuse options about columns of people where rows come as arrays.

    Raises
    ------
    UnsupportedArgumentError
    """
    named = [o for o in ("mu_max", "id", "max_per_id") if o in unknown]
    if isinstance(mu, str) or named:
        raise UnsupportedArgumentError(
            f"{named[0] if named else 'mu'}= names a column, and arrays have none for it; put the rows in a DataFrame "
            "and use from_formula."
        )


def refuse_arrays(**columns: Any) -> None:
    """Refuse arrays where a formula wants the names of columns.

    Raises
    ------
    OptionError
    """
    for option, name in columns.items():
        if name is not None and not isinstance(name, str):
            raise OptionError(
                f"{option} must be the name of a column when the model is given by a formula, as in {option}='years', "
                f"got {type(name).__name__}; an array goes with arrays, PrivateOnlineRegression(endog, exog, "
                f"{option}=...)."
            )


def read_rows(rows: Any) -> int | None:
    """How many people are said to come; None if that was not said.

    Raises
    ------
    OptionError
        If it is no whole number of people.
    """
    if rows is None:
        return None
    if isinstance(rows, bool) or not isinstance(rows, Integral) or not 1 <= int(rows) <= MOST_ROWS:
        raise OptionError(f"rows={shown(rows)} must be a whole number of people, 1 or more.")
    return int(rows)


def read_seed(seed: Any) -> int | None:
    """Seed of reproducible noise; None for private noise.

    Raises
    ------
    OptionError
        If it is no whole number, or too large.
    """
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) < 2**64:
        raise OptionError(
            f"seed={shown(seed)} must be a whole number, 0 or more and below 2**64 (or None for private noise)."
        )
    return int(seed)


def read_start(start_params: Any, names: Sequence[str]) -> Array | None:
    """Coefficients to start from, user's units, shape (p,); None if none were given.

    Raises
    ------
    OptionError
        If they are not one finite number for each of `names`.
    """
    if start_params is None:
        return None
    if isinstance(start_params, Mapping):
        lacking = [n for n in names if n not in start_params]
        if not lacking and len(start_params) > len(names):
            raise OptionError(f"start_params has names that are no coefficient; it needs {', '.join(names)}.")
        if lacking:
            raise OptionError(f"start_params lacks {lacking[0]!r}; it needs {', '.join(names)}.")
        start_params = [start_params[n] for n in names]
    try:
        values = np.asarray(start_params, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"start_params must be numbers, one for each of {', '.join(names)}.") from None
    if values.shape == (len(names),) and not np.isfinite(values).all():
        raise OptionError(f"start_params has a NaN or infinite number; it needs a finite one for {', '.join(names)}.")
    if values.shape != (len(names),):
        raise OptionError(
            f"start_params must be {len(names)} finite numbers, one for each of {', '.join(names)}; "
            f"got shape {values.shape}."
        )
    return values


def read_threads(threads: Any, lanes: int, rows: int | None) -> int:
    """Threads of a fit: as asked, or as many as pay; at most one for each lane."""
    if threads is not None:
        return min(int(threads), lanes)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_DEFAULT_THREADS, lanes) if rows is not None and rows >= LONG else 1


@contextmanager
def progress_bar(total: int | None, progress: bool | None) -> Iterator[Any]:
    """Show a bar; by default it shows on fits of more than a second at a terminal.

    Where it shows it also says when loops are compiled, which takes seconds and would look like a fit that hangs.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in a notebook without ipywidgets the bar is text, which is fine
        from tqdm.auto import tqdm

    quiet = {None: None, True: False, False: True}[progress]
    # disable=None: silent when stderr is not a terminal
    more: dict[str, Any] = {"disable": quiet, "delay": 0.0 if progress else 1.0, "desc": _NAME}
    with tqdm(total=total, unit=" people", unit_scale=True, **more) as bar, _compiling(bar):
        yield bar


_NAME: Final = "privreg"
COMPILING: Final = "privreg: compiling, once per installation"


@contextmanager
def _compiling(bar: Any) -> Iterator[None]:
    """Say on a bar that shows when numba compiles; what it finds compiled on disk it loads without a word."""
    from numba.core import event

    class Told(event.Listener):  # type: ignore[misc]
        depth = 0

        def on_start(self, _: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                bar.set_description_str(COMPILING)

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                bar.set_description_str(_NAME, refresh=False)

    if bar.disable:
        yield
        return
    listener = Told()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
