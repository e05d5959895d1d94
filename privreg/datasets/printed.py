"""Printed numbers of published tables."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from privreg.errors import choose


def published(name: str) -> dict[str, Any]:
    """Read printed numbers of a published table; ``source`` says where it is printed, ``about`` what its numbers are.

    They are simulated coverage and lengths ("xsjkh_table1") or the US insurance coefficients ("xsjkh_table3") of arXiv
    2505.08227, or coverage and lengths of arXiv 2405.12553 ("dette_graw").

    Examples
    --------
    >>> published("xsjkh_table3")["test_mse"]["OLS"]
    0.0607
    """
    table = choose("name", name, ("xsjkh_table1", "xsjkh_table3", "dette_graw"))
    text = (
        resources.files("privreg").joinpath("published", "experiments", "printed", f"{table}.json").read_text("utf-8")
    )
    loaded: dict[str, Any] = json.loads(text)
    return loaded
