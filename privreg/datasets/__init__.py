"""Data to try things on: two labelled reconstructions of published examples, and one set of real records.

`examples` draws the rows of the reconstructions, writes them to files, and has the real records.
"""

from privreg.datasets.examples import (
    Declarations,
    randhie,
    randhie_schema,
    ride_sharing,
    ride_sharing_schema,
    us_insurance,
    us_insurance_schema,
    write,
)
from privreg.options.unknown import public_names

__all__ = [
    "Declarations", "randhie", "randhie_schema", "ride_sharing", "ride_sharing_schema", "us_insurance",
    "us_insurance_schema", "write",
]  # fmt: skip

__dir__, __getattr__ = public_names(__name__, __all__)
