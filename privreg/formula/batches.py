"""Rows of a model given as arrays, as named columns: what is given with the model, with a batch, and for prediction."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.data.cells import plain_table, unmasked
from privreg.data.columns import same_rows
from privreg.data.sources.open import as_frame
from privreg.data.sources.source import check_labels
from privreg.errors import DataError, quietly

CONSTANTS: Final = ("const", "Intercept")
"""Names of a column that is the constant 1, unless it is declared to be something else."""

OFFSET: Final = "offset"
EXPOSURE: Final = "exposure"  # Names under which what is added to the linear predictor is declared


class ArrayRows(NamedTuple):
    """Layout of the rows of an array model."""

    names: tuple[str, ...]  # Columns of exog
    endog_name: str
    has_offset: bool
    has_exposure: bool

    def of_batch(self, batch: Any) -> dict[str, Any]:
        """Columns of a batch ``(endog, exog[, offset[, exposure]])``."""
        endog, exog, *added = self._parts(batch, "endog", "exog")
        same_rows(endog=endog, exog=exog, **dict(zip((OFFSET, EXPOSURE), added, strict=True)))
        return self._whole(
            {self.endog_name: _vector(endog, self.endog_name), **self._exog(exog, len(self.names))}, added
        )

    def _parts(self, given: Any, *first: str) -> list[Any]:
        """Parts that rows come in: the `first` ones, offset and exposure, None where the model has none."""
        few = len(given) if isinstance(given, tuple | list) else 0
        parts = [*given, None, None][: len(first) + 2] if len(first) <= few <= len(first) + 2 else []
        if not parts or [v is not None for v in parts[-2:]] != [self.has_offset, self.has_exposure]:
            offset = [OFFSET] if self.has_offset else ["None"] * self.has_exposure
            form = ", ".join([*first, *offset, *[EXPOSURE] * self.has_exposure])
            got = f"got a {type(given).__name__}{f' of {few}' if few else ''}"
            words = "with an offset and an exposure only if it was declared with them"
            raise DataError(f"new rows of this model are ({form}), {words}; {got}.")
        return parts

    def _whole(self, columns: dict[str, Any], added: Sequence[Any]) -> dict[str, Any]:
        """Columns with those of an offset and an exposure, where they are given."""
        given = zip((OFFSET, EXPOSURE), added, strict=True)
        out = columns | {name: _vector(values, name) for name, values in given if values is not None}
        if len({len(values) for values in out.values()}) > 1:
            raise DataError("endog, exog, offset and exposure differ in their number of rows; give one number a row.")
        return out

    def _exog(self, exog: Any, width: int | None = None) -> dict[str, Any]:
        x = _array(exog, "exog", partial(plain_table, width=width))
        if x.ndim != 2 or x.shape[1] != len(self.names):
            raise DataError(
                f"exog must have two dimensions and {len(self.names)} columns ({', '.join(self.names)}), got shape "
                f"{x.shape}."
            )
        return dict(zip(self.names, x.T, strict=True))

    def read_new(self, new: Any) -> tuple[Any, pd.Index | None]:
        """Rows for prediction, another library's table as a DataFrame, and their index, None without one."""
        exog, *added = new if isinstance(new, tuple) and 2 <= len(new) <= 3 else (new,)
        rows = (as_frame(exog), *added)
        labels = same_rows(**dict(zip(("exog", OFFSET, EXPOSURE), rows, strict=False)))
        return rows if added else rows[0], labels

    def of_new(self, new: Any) -> dict[str, Any]:
        """Columns of rows for prediction: an array or DataFrame of covariates, or ``(exog, offset[, exposure])``."""
        several = isinstance(new, tuple) and len(new) == (3 if self.has_exposure else 2)
        exog, *added = self._parts(new if several and (self.has_offset or self.has_exposure) else (new,), "exog")
        return self._whole(self.of_exog(exog), added)

    def of_exog(self, exog: Any) -> dict[str, Any]:
        """Columns of covariates: of a DataFrame by name, ones for a constant that it has not."""
        if not hasattr(exog, "columns"):
            return self._exog(exog)
        labels = list(exog.columns)
        check_labels([n for n in self.names if n in labels or n not in CONSTANTS], labels, "the new rows")
        return {n: exog[n] if n in labels else np.ones(len(exog)) for n in self.names}


class Held(NamedTuple):
    """Arrays as the user gave them, with names; values are not looked at."""

    names: tuple[str, ...]
    endog_name: str
    endog: Any
    exog: Any
    offset: Any
    exposure: Any = None

    def numeric(self, kind: str) -> list[str]:
        """Columns that need a scale: all but declared constants and a response that is not a number."""
        out = [n for n in self.names if n not in CONSTANTS]
        return [*out, self.endog_name] if kind == "number" else out


def read_arrays(
    endog: Any, exog: Any, offset: Any, exog_names: Sequence[str] | None, endog_name: str | None, exposure: Any = None
) -> Held:
    """Name the columns of arrays or pandas objects and check that their shapes fit.
    Raises DataError if the arrays don't fit each other, or the names don't fit them.
    """
    if endog is None or exog is None:
        raise DataError("endog and exog must both be given; to describe a model without data use from_formula.")
    exog = as_frame(exog)
    if exog_names is None and hasattr(exog, "columns"):
        exog_names = [str(c) for c in exog.columns]
    if endog_name is None:
        label = next(iter(endog.columns)) if np.shape(getattr(endog, "columns", ())) == (1,) else None
        label = getattr(endog, "name", None) if label is None else label
        endog_name = str(label) if isinstance(label, str | int) and label else "y"
    if not isinstance(endog_name, str):
        raise DataError(f"endog_name must be a string, got {type(endog_name).__name__}.")
    wrong, names = DataError("exog_names must be a list of strings, one for each column of exog."), None
    if exog_names is not None:
        names = () if isinstance(exog_names, str) else quietly(lambda: tuple(exog_names), wrong)
    x = _array(exog, "exog", partial(plain_table, width=None if names is None else len(names)))
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[1] == 0:
        raise DataError(f"exog must have two dimensions and at least one column, got shape {x.shape}.")
    names = tuple(f"x{j + 1}" for j in range(x.shape[1])) if names is None else names
    if len(names) != x.shape[1] or not all(isinstance(n, str) for n in names):
        raise wrong
    y, *added = (
        None if given is None else _vector(_array(given, name, _column), name)
        for given, name in ((endog, endog_name), (offset, OFFSET), (exposure, EXPOSURE))
    )
    given = zip(("endog", "exog", OFFSET, EXPOSURE), (y, x, *added), strict=True)
    lengths = {name: len(values) for name, values in given if values is not None}
    if len({*lengths.values()}) > 1:
        rows = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise DataError(f"numbers of rows differ ({rows}); they need the same number, one row a person.")
    same_rows(endog=endog, exog=exog, offset=offset, exposure=exposure)
    return Held(names, endog_name, y, x, *added)


_column = partial(plain_table, width=1)


def _array(values: Any, name: str, read: Callable[[Any], Any]) -> Any:
    """Array of what the user gave; ragged lists and the like are refused without quoting them."""
    if isinstance(values, str):
        raise DataError("formulas go to PrivateOnlineRegression.from_formula(formula, data); here go arrays.")
    values = unmasked(values)
    wrong = DataError(f"{name!r} can't be read as an array; give rows of equal length that hold numbers.")
    return quietly(lambda: values.to_numpy() if hasattr(values, "to_numpy") else read(values), wrong)


def _vector(values: Any, name: str) -> Any:
    values = unmasked(values)
    wrong = DataError(f"{name!r} is ragged; give one number a row.")
    if isinstance(values, list | tuple):
        values = quietly(lambda: _column(values), wrong)
    shape = quietly(lambda: np.shape(values), wrong)
    if len(shape) == 2 and shape[1] == 1:
        return np.asarray(values)[:, 0]
    if len(shape) != 1:
        formula = "; formulas go to PrivateOnlineRegression.from_formula(formula, data)"
        hint = {0: formula, 2: "; the response comes first, then the covariates"}.get(len(shape), "")
        raise DataError(f"{name!r} must be one-dimensional, got shape {shape}{hint}.")
    return values
