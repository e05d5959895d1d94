"""Declarations of a schema or a file, and those given beside it."""

from __future__ import annotations

from privreg.errors import SchemaError
from privreg.schema.declarations import Schema, public_mapping


def combined(schema: object, bounds: object, levels: object, moments: object) -> Schema:
    """Declarations of a schema, or of a file, and those given beside it, which take precedence column by column.

    Raises
    ------
    SchemaError
        If one makes a factor of what the other makes a number.
    """
    if schema is None:
        return Schema.declare(bounds, levels, moments)
    base = schema if isinstance(schema, Schema) else Schema.from_file(schema)  # type: ignore[arg-type]
    base.refuse_leaked()
    low, cats, mean = (
        public_mapping(kind, given) for kind, given in (("bounds", bounds), ("levels", levels), ("moments", moments))
    )
    for name in cats:
        if base.is_declared_number(name):
            raise SchemaError(f"{name!r} is a number in the schema and a factor in levels=; mend the one or the other.")
    for kind, given in (("bounds", low), ("moments", mean)):
        for name in given:
            if name in base.levels:
                raise SchemaError(
                    f"{name!r} is a factor in the schema and a number in {kind}=; mend the one or the other."
                )
    kept = {k: v for k, v in base.correlations.items() if k not in mean and k[::-1] not in mean}
    return Schema.declare({**base.bounds_as_given(), **low}, {**base.levels, **cats}, {**base.moments, **kept, **mean})
