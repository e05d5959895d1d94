"""Plans of silos: a model, its public declarations and who takes part, signed by the analyst."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privreg.doors.regression import PrivateOnlineRegression
from privreg.errors import BudgetError, OptionError, PrivregError, meant, real, whole
from privreg.protocol.lattice import Mu, fraction_of
from privreg.schema import files
from privreg.schema.declarations import Schema
from privreg_field.device import ed25519
from privreg_field.study import keys
from privreg_field.study.declaring.declared import family_of
from privreg_field.wire.wire import MessageError, Record, base, dumps, hash_of, loads, open_envelope, signed_bytes

KIND: Final = "silos"
LEAST: Final = 100  # Rows of a silo, at least, if the plan says nothing else
MOST_SILOS: Final = 1000
MOST_ROWS: Final = 2**40

_TEXTS: Final = ("study", "title", "contact")
_MODEL: Final = (
    "formula", "family", "mu", "offset", "exposure", "weights", "id", "k_max", "per_person", "score_weights", "cluster",
    "measures",
)  # fmt: skip
_SCHEMA: Final = ("bounds", "levels", "moments", "correlations")
KEYS: Final = (*_TEXTS, "silos", "least", *_MODEL, *_SCHEMA)
"""Keys of a plan's YAML or JSON file."""


class Entry(NamedTuple):
    """A silo's public part in a study."""

    silo: str
    rows: int
    clusters: tuple[int, ...] = ()  # Of them by cluster, where clusters are declared

    @classmethod
    def read(cls, record: Record) -> Entry:
        """Read one; raises `MessageError`."""
        out = cls(record.text("silo"), record.integer("rows", 1, MOST_ROWS), record.integers("clusters", 0, MOST_ROWS))
        record.done()
        return out


class SiloPlan(NamedTuple):
    """A plan, verified; what `sign` wrote."""

    study: str
    title: str
    contact: str
    silos: tuple[str, ...]  # Names of those who are asked, in the order of their sums
    least: int  # Rows of a silo, at least
    declared: str  # Model and schema, as JSON
    digest: bytes  # Hash of the payload, which names the plan

    @property
    def asked(self) -> dict[str, Any]:
        """Options of the model."""
        return dict(json.loads(self.declared)["asked"])

    @property
    def mu(self) -> Mu:
        """Budget per person of all rounds together."""
        return fraction_of(self.asked["mu"])

    def model(self, silos: Sequence[str] = (), own: str = "", data: Any = None) -> PrivateOnlineRegression:
        """The model of some silos, all by default, with the rows of one. Raises as `from_formula` does."""
        asked, schema = self.asked, Schema.from_json(json.loads(self.declared)["schema"])
        parts = {name: data if name == own and data is not None else iter(()) for name in silos or self.silos}
        asked.pop("measures", None)
        return PrivateOnlineRegression.from_formula(
            asked.pop("formula"), parts, trust="silos", family=family_of(asked.pop("family", "huber")), schema=schema,
            **asked,
        )  # fmt: skip

    @property
    def words(self) -> str:
        """The plan as its silos' owners read it before they accept it."""
        spec = self.model()._spec
        lines = [
            f"Plan {base(self.digest)}",
            f"Study:     {self.study}: {self.title} ({self.contact})",
            f"Formula:   {spec.formula}",
            f"Family:    {spec.family!r}",
            f"Silos:     {', '.join(self.silos)}; each with {self.least:,} rows or more",
            f"Guarantee: {spec.budget} for each person, in all rounds, against everybody outside their silo",
            "Sent:      the number of your rows, of clusters that of each, and in each round the sum of bounded "
            "reports of all of them, to which this machine adds noise; no row, and no sum without noise",
            *(f"Public:    {name}: {text}" for name, text in spec.declared()),
        ]
        return "\n".join(lines)


def sign(path: str | Path, key: Ed25519PrivateKey) -> bytes:
    """The signed plan of a YAML or JSON file. Raises OptionError, SchemaError or another PrivregError if it is none."""
    said = files.document(path)
    if not isinstance(said, Mapping):
        raise OptionError("the file of a plan has keys and values, as in 'formula: y ~ age'.")
    for name in said:
        if name not in KEYS:
            raise OptionError(f"a plan of silos has no {str(name)!r}.{meant(str(name), KEYS)}")
    for name in (*_TEXTS, "silos", "formula", "mu"):
        if name not in said:
            raise OptionError(f"the plan needs {name!r}.")
    if not 0.0 < (real(said["mu"]) or 0.0) < math.inf:
        raise BudgetError("mu of a plan is a positive number.")
    schema = Schema.from_document({name: said[name] for name in _SCHEMA if name in said})
    declared = {"asked": {name: said[name] for name in _MODEL if name in said}, "schema": schema.to_json()}
    payload = dumps(
        {
            **{name: str(said[name]) for name in _TEXTS},
            "silos": said["silos"],
            "least": whole("least", said.get("least", LEAST), 1),
            "declared": json.dumps(declared),
        }
    )
    _read(payload)  # which refuses what silos can't fit
    return keys.signed(KIND, payload, key)


def verified(envelope: bytes, root: bytes) -> SiloPlan:
    """Read a plan that the public key `root` has signed; raises `MessageError` if it is none."""
    found = open_envelope(envelope, KIND)
    message = signed_bytes(KIND, found.payload)
    if not any(ed25519.verify(root, message, sig) for _, sig in found.signatures):
        raise MessageError("the plan is not signed by this key.")
    try:
        return _read(found.payload)
    except PrivregError as e:
        raise MessageError(f"the plan's model is none that silos fit: {e}") from None


def _read(payload: bytes) -> SiloPlan:
    record = Record(loads(payload, "the plan"), "the plan")
    study, title, contact = (record.text(name) for name in _TEXTS)
    silos = tuple(record.items("silos", most=MOST_SILOS))
    if not silos or len(set(map(str, silos))) < len(silos) or not all(isinstance(s, str) and s.strip() for s in silos):
        raise MessageError("'silos' of the plan must be different names, one or more.")
    least, declared = record.integer("least", 1, MOST_ROWS), record.text("declared", 1 << 20)
    plan = SiloPlan(study, title, contact, silos, least, declared, hash_of(payload))
    record.done()
    plan.model()
    return plan
