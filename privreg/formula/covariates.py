"""Public rows that stand for the people's covariates: what is taken of them, and which rows are refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.data.columns import complete_rows, prepare
from privreg.errors import DataError, OptionError, PrivregError
from privreg.formula.spec import ModelSpec
from privreg.privacy.accounts import Accounts, accounts_of
from privreg.privacy.ledger import refuse_fitted, refuse_shared

MOST: Final = 2048
"""Public rows that are used, at most: as many as the points of a reference model that nobody gave rows for."""

LEAST: Final = 20
"""Public rows for each column of the design, at least: with fewer their sampling error would be the model's."""

FLAT: Final = 1e-9
"""Part of its size by which a column varies, and of their squares by which columns are distinguished, at least."""


@dataclass(frozen=True, eq=False, repr=False)
class PublicRows:
    """Covariates of public rows, from which a fit computes curvature; made by `public_rows`."""

    inside: Array  # Rows of the design, internal units; shape (m, p)
    given: int  # Rows that they were taken from
    accounts: Accounts = field(default_factory=Accounts)  # Their identity in the ledger, in this process

    def __repr__(self) -> str:
        return f"<{self.words}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return PublicRows, (self.inside, self.given)

    @property
    def words(self) -> str:
        """Numbers of rows, in words."""
        used = "" if len(self.inside) == self.given else f"; {len(self.inside):,} of them are used"
        return f"public rows ({self.given:,}){used}"

    @property
    def described(self) -> dict[str, Any]:
        """Numbers of rows and a hash, without their values: plain JSON."""
        return {
            "rows": self.given,
            "used": len(self.inside),
            "sha256": hashlib.sha256(self.inside.astype("<f8").tobytes()).hexdigest(),
        }

    @classmethod
    def restored(cls, described: Any, inside: Any, columns: int) -> PublicRows | None:
        """Rows of a saved fit, from `described` and an array; a ValueError says that they don't fit each other."""
        if described is None:
            return None
        shaped = inside.dtype == np.float64 and inside.ndim == 2 and inside.shape[1] == columns
        if not shaped or not np.isfinite(inside).all():
            raise ValueError("public rows of another plan")
        out = cls(np.ascontiguousarray(inside), int(described["rows"]))
        if out.described != described:
            raise ValueError("other public rows")
        return out

    def refuse(self, rows: Any) -> None:
        """Refuse to fit rows, as the ledger knows them, that these are a part of."""
        refuse_shared(self.accounts, rows, "covariates=")


def public_rows(spec: ModelSpec, covariates: Any, fitted: Any = None) -> PublicRows | None:
    """Covariates of a DataFrame of public rows, whose other columns are not read; None if there are none.

    `fitted` is what the ledger knows the rows by that are to be fitted.
    Raises OptionError if it is no DataFrame, or the model has no use for it. Raises DataError or SchemaError if it
    lacks a column, or has too few rows, or some that can't be used. No message quotes a value. Raises NotPrivateError
    if the rows were fitted privately in this process, or are those to be fitted.
    """
    if covariates is None:
        return None
    design = spec.design
    names = design.covariates
    if spec.private == "response":
        raise OptionError(
            "covariates= is for covariates that reports alone tell of, and with private='response' they are public "
            "and known; leave it out."
        )
    if not names:
        raise OptionError(f"covariates= has nothing to tell of {spec.formula!r}, which has none; leave it out.")
    columns = len(design.names)
    frame = check_covariates(covariates, names, "covariates=")
    accounts = accounts_of(covariates)
    if fitted is not None:
        refuse_shared(accounts, fitted, "covariates=")
    if len(frame) < LEAST * columns:
        raise DataError(
            f"covariates has {len(frame):,} rows, and a design of {columns} columns needs {LEAST * columns:,} or more; "
            "give more public rows, or leave covariates= out."
        )
    for name, values in prepare(frame, names, design.schema, (), gaps=True).items():
        if complete_rows([values]) is not None:
            raise DataError(
                f"covariates has rows whose {name!r} is missing, no number or not among the declared levels; leave "
                "them out, as by covariates.dropna()."
            )
    used = min(len(frame), MOST)
    x = _encoded(spec, frame.iloc[np.arange(used) * len(frame) // used])
    _check_varied(x, design.names, spec.units.constant)
    spec.units.rows_inside(x)
    return PublicRows(x, len(frame), accounts.weak())


def _encoded(spec: ModelSpec, frame: pd.DataFrame) -> Array:
    """Rows of the design, the user's units; numbers are clamped as those of records are."""
    try:
        return np.array(spec.design.encode_exog(frame, clamp=True), dtype=np.float64, order="C")
    except PrivregError:  # whose fix is for who fits these rows
        problem = DataError("covariates has rows for which a term of the formula is not finite; leave them out.")
    raise problem


def _check_varied(x: Array, names: Sequence[str], constant: Array) -> None:
    """Refuse rows by which a column of the design can't be distinguished from the others."""
    part = x - x.mean(axis=0) if constant.any() else np.array(x)
    size = np.sqrt(np.mean(part**2, axis=0))
    flat = size <= FLAT * np.sqrt(np.mean(x**2, axis=0))
    if np.count_nonzero(constant) == 1:
        flat &= constant == 0.0
    if flat.any():
        raise DataError(
            f"covariates has the same {names[int(np.argmax(flat))]!r} in all rows that are used, and people have not; "
            "give rows of people like those to be asked."
        )
    held = part[:, size > 0.0] / size[size > 0.0]
    lost = int(constant.any() and (size > 0.0).all())  # levels without a reference add up to the constant
    if np.sum(np.linalg.eigvalsh(held.T @ held / len(held)) > FLAT) < held.shape[1] - lost:
        raise DataError(
            "covariates has columns of the design that determine each other in all rows that are used, and those of "
            "people don't; give rows of people like those to be asked."
        )


def check_covariates(covariates: Any, columns: Sequence[str], what: str, name: str = "covariates") -> pd.DataFrame:
    """Public rows to take covariates from, those columns alone; `what` would tell of them, were they people's.
    Raises NotPrivateError if they were fitted privately in this process.
    """
    import pandas as pd

    if not isinstance(covariates, pd.DataFrame):
        raise OptionError(f"{name} is of type {type(covariates).__name__}; give a DataFrame of public or made-up rows.")
    lacking = [c for c in columns if c not in covariates]
    if lacking:
        raise DataError(f"{name} has no column {lacking[0]!r}.")
    refuse_fitted(covariates, what)
    if len(covariates) < 2:
        raise DataError(f"{name} has fewer than two rows.")
    return covariates[list(columns)]
