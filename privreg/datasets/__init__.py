"""Data to try things on: two labelled reconstructions of published examples, and one set of real records.

`synthetic` draws the rows of the reconstructions, and writes them to files; `health` has the real records.
"""

from privreg.datasets.health import randhie, randhie_schema
from privreg.datasets.synthetic import (
    Declarations,
    ride_sharing,
    ride_sharing_schema,
    us_insurance,
    us_insurance_schema,
    write_csv,
    write_parquet,
)
from privreg.options.unknown import public_names

__all__ = [
    "Declarations", "randhie", "randhie_schema", "ride_sharing", "ride_sharing_schema", "us_insurance",
    "us_insurance_schema", "write_csv", "write_parquet",
]  # fmt: skip

__dir__, __getattr__ = public_names(__name__, __all__)
