"""The verb ``privreg data``: a synthetic data set as a file."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

from privreg.errors import OptionError, choose
from privreg.options.spelling import quoted

DATA_SETS: Final = {
    "us-insurance": (
        1_000_000,
        "charges ~ age + gender + bmi + children + smoker + medical_history + family_medical_history"
        " + exercise_frequency + occupation + coverage_level",
    ),
    "ride-sharing": (50_000, "fare ~ distance + duration + driver_rating + total_rides + vehicle_year + capacity"),
}
"""Default number of rows, and formula."""


def run(a: argparse.Namespace) -> int:
    """Run the verb."""
    name = choose("data set", a.name, DATA_SETS)
    rows, formula = DATA_SETS[name]

    from privreg import datasets

    function = name.replace("-", "_")
    public, provenance = getattr(datasets, f"{function}_schema")(), getattr(datasets, function)(1).attrs["provenance"]
    path = Path(a.path)
    if path.suffix.lower() in {".feather", ".arrow", ".ipc"}:
        raise OptionError(f"{a.path!r}: a data set is written as CSV or Parquet; name it .csv or .parquet.")
    if a.schema is not None:
        from privreg.schema.declarations import Schema

        if Path(a.schema).resolve() == path.resolve():
            raise OptionError(f"--schema {a.schema!r} would overwrite the data; give another name.")
        Schema.declare(**public).to_file(a.schema)  # before the rows: a wrong name shows at once
    write = datasets.write_parquet if path.suffix.lower() in {".parquet", ".pq"} else datasets.write_csv
    path = write(name, path, rows if a.rows is None else a.rows, a.seed)
    used = set(re.findall(r"\w+", formula))
    bounds = [f"{c}={low:g}:{high:g}" for c, (low, high) in public["bounds"].items() if c in used]
    levels = [f"{c}={','.join(names)}" for c, names in public["levels"].items() if c in used]
    lines = [f'privreg fit "{formula}" {quoted(str(path))} --mu 1']
    carries = write is datasets.write_parquet
    if a.schema is not None:
        lines.append(f"--schema {quoted(a.schema)}")
    elif not carries:
        lines.append(f"--bounds {' '.join(map(quoted, bounds))}")
        if levels:
            lines.append(f"--levels {' '.join(map(quoted, levels))}")
    public_too = " The file carries its public bounds and levels." if carries else ""
    print(f"Wrote {str(path)!r}. It is a {provenance}.{public_too}\nTo fit it:\n")
    print("  " + " \\\n      ".join(lines), flush=True)
    return 0
