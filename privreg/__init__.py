"""Regression with inference under local differential privacy.

Each person's record is randomised once, before anyone else sees it; models are fitted in one pass over the
reports, with private standard errors, intervals, t-statistics and p-values.

Examples
--------
>>> import privreg as pr
>>> people = pr.datasets.us_insurance(20_000)
>>> model = pr.PrivateOnlineRegression.from_formula(
...     "charges ~ age + bmi + smoker", people, family=pr.Huber(scale=2500), mu=1,
...     bounds={"age": (18, 65), "bmi": (18, 50), "charges": (0, 35_000)}, levels={"smoker": ["no", "yes"]})
>>> res = model.fit(progress=False)
>>> res.params.index.tolist()
['Intercept', 'smoker[T.yes]', 'age', 'bmi']
"""

import os
import re
from typing import Any

from privreg.base.version import __version__ as __version__

with open(f"{os.path.splitext(__file__)[0]}.pyi", encoding="utf-8") as _stub:  # a device does without pathlib
    _HOMES = {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", _stub.read(), re.M)}
"""Homes of public names, as type checkers read them."""
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Imported on first use: pandas, numba and patsy would make `import privreg` slow.
    from importlib import import_module

    if name in _HOMES:
        home = _HOMES[name]
        value = import_module(f"privreg.{name}") if home == "privreg" else getattr(import_module(home), name)
    else:
        value = None if name.startswith("_") else import_module("privreg.base.optional").find("names", name)
        if value is None:
            raise import_module("privreg.options.unknown").no_such_name(name, __dir__())
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from privreg.base.optional import added

    return sorted({*__all__, *added("names")})
