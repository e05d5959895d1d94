"""Reading the options of a curator's model and its fits; refusing those of people's devices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, Final

from privreg.errors import BudgetError, OptionError, UnsupportedArgumentError, choose, real, shown

__all__ = [
    "ARRAY_OPTIONS",
    "FIT_OPTIONS",
    "MODEL_OPTIONS",
    "check_budget",
    "read_epochs",
    "read_number",
    "read_whole",
    "refuse_local",
    "refuse_unknown",
]

_MODEL: Final = ("family", "mu", "epsilon", "delta", "rho", "bounds", "levels", "moments", "missing", "trust")
MODEL_OPTIONS: Final = (*_MODEL, "schema")
ARRAY_OPTIONS: Final = (*_MODEL, "exog_names", "endog_name")
FIT_OPTIONS: Final = (
    *("perturbation", "order", "epochs", "step", "radius", "lanes", "average", "batch_size", "seed", "progress"),
)

_DEVICES: Final = "is about people's devices, and with trust='central' a curator holds the rows"
_LOCAL: Final = {
    **dict.fromkeys(("mechanism", "private", "score_weights"), f"{_DEVICES}; the noise is Gaussian: leave it out"),
    **dict.fromkeys(
        ("mu_max", "id", "max_per_id"),
        "counts reports of people, and with trust='central' each row is protected as one record; leave it out",
    ),
    "scaling": "learns scales from reports, and a curator's columns are scaled by public bounds; give bounds=",
    "rows": "is for streams, and a curator counts the rows; leave it out",
    "allow_leak": "has no place with trust='central': declare bounds= and levels=",
    **dict.fromkeys(("offset", "exposure"), "is not supported with trust='central'; subtract it from the response"),
    **dict.fromkeys(
        ("tuning", "inference", "threads", "alpha", "start_params", "measures", "client", "mended"),
        "belongs to fits of people's reports; a curator's fit has " + ", ".join(f"{o}=" for o in FIT_OPTIONS),
    ),
    **dict.fromkeys(
        ("checkpoint", "checkpoint_rows", "checkpoint_seconds"),
        "belongs to fits of people's reports; a curator's fit holds its rows in memory and runs through",
    ),
}
"""What an option of local fits runs into, by its name."""

_MEANT: Final = {
    **dict.fromkeys(("eta", "lr", "learning_rate"), "step"),
    **dict.fromkeys(("passes", "n_epochs", "max_iter", "n_iter"), "epochs"),
    **dict.fromkeys(("r", "ball", "norm", "domain"), "radius"),
    **dict.fromkeys(("sampling", "replace"), "order"),
    **dict.fromkeys(("batch", "batchsize"), "batch_size"),
    **dict.fromkeys(("random_state", "rng"), "seed"),
}

MOST_EPOCHS: Final = 10**6


def refuse_local(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those of local fits, which must be at their defaults.

    Raises
    ------
    UnsupportedArgumentError
        If one of local fits was given, or one that is not known.
    """
    refuse_unknown("from_formula", [name for name in options if name not in _LOCAL], MODEL_OPTIONS)
    out = {}
    for name, value in options.items():
        if name not in _LOCAL:
            out[name] = value
        elif not (value is defaults.get(name) or (isinstance(value, str | int | tuple) and value == defaults[name])):
            raise UnsupportedArgumentError(f"{name}= {_LOCAL[name]}.")
    return out


def refuse_unknown(where: str, unknown: Iterable[str], known: Sequence[str]) -> None:
    """Refuse options that don't exist here, with the one that was meant or the nearest one that does.

    Raises
    ------
    UnsupportedArgumentError
    """
    for name in unknown:
        if name in known:
            continue
        if name in _LOCAL:
            raise UnsupportedArgumentError(f"{name}= {_LOCAL[name]}.")
        if name in FIT_OPTIONS:
            raise UnsupportedArgumentError(f"{name}= belongs to fit(), not to {where}().")
        if name in {*MODEL_OPTIONS, *ARRAY_OPTIONS}:
            raise UnsupportedArgumentError(f"{name}= belongs to the model, not to {where}().")
        if _MEANT.get(name) in known:
            raise UnsupportedArgumentError(f"{where}() has no {name!r}; it is called {_MEANT[name]}=.")
        try:
            choose(f"{where}() option", name, known)
        except OptionError as e:
            raise UnsupportedArgumentError(str(e)) from None


def read_number(name: str, value: Any, what: str, low: float = 0.0, high: float = math.inf) -> float:
    """Return a number in (low, high], finite.

    Raises
    ------
    OptionError
    """
    number = real(value)
    if number is None or not low < number <= high or not math.isfinite(number):
        raise OptionError(f"{name}={shown(value)} must be {what}.")
    return number


def read_whole(name: str, value: Any, high: int, what: str) -> int:
    """Return a whole number from 1 to `high`.

    Raises
    ------
    OptionError
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= high:
        raise OptionError(f"{name}={shown(value)} must be {what}, 1 to {high:,}.")
    return int(value)


def read_epochs(value: Any) -> int:
    """Return a number of passes."""
    return read_whole("epochs", value, MOST_EPOCHS, "a whole number of passes over the records")


def check_budget(budget: Any, *, gaussian: bool, how: str) -> None:
    """Refuse a budget that Gaussian noise, or a release that is not one Gaussian mechanism, can't keep.

    Raises
    ------
    BudgetError
    """
    if budget.pure:
        raise BudgetError(
            f"a curator's release carries Gaussian noise, which can't keep pure {budget.epsilon:g}-DP; give delta= "
            "with epsilon=, 1e-6 say, smaller than one over the number of records."
        )
    if not gaussian and budget.private and budget.form != "epsilon, delta":
        raise BudgetError(
            f"{how} keeps (epsilon, delta) and has no mu or rho; give epsilon= and delta=, or fit with "
            "order='full' (gradient perturbation) or 'permuted' (output perturbation)."
        )
