"""Commands of a collector in a study with two: the issuer's secret, checks, closing and export."""

from __future__ import annotations

import json
from typing import Any

from privreg.errors import OptionError
from privreg.files.archive import contents, write_bytes
from privreg.protocol.sums import LETTERS
from privreg_field.service.store import Store
from privreg_field.service.store.records import CLOSED, LOST, PUBLISHED, SUMMED
from privreg_field.service.sums import peer
from privreg_field.service.sums.scheduler import SumScheduler
from privreg_field.service.tokens import SECRET, kept_secret
from privreg_field.study import keys
from privreg_field.wire import peers, wire


def scheduler_of(store: Store, role: str, key: str) -> SumScheduler:
    """The scheduler at one of the collectors, which speaks with the other."""
    own = keys.load_collector(key)
    scheduler = SumScheduler(store, own)
    if (letter := scheduler.letter) != role:
        raise OptionError(
            f"{key!r} has the keys that the plan names as those of collector {letter}, and --role is {role}. If this "
            f"is collector {letter}, write --role {letter}; if it is {role}, keys were swapped: give the other file, "
            "--key FILE, or have the analyst swap key and seal of the two in the study's file, and sign it anew."
        )
    other = scheduler.plan.collectors[1 - LETTERS.index(role)]
    scheduler.post = peer.poster(other.url, scheduler.plan.study + scheduler.plan.path, own.sign, other.key)
    return scheduler


def write_issuer(path: str, number: int, secret: bytes, plan_hash: bytes) -> None:
    """Write the secret of the issuer for the other collector, which checks the same tokens."""
    said = {"v": wire.VERSION, "plan": wire.base(plan_hash), "key": number, "secret": wire.base(secret)}
    write_bytes(path, wire.dumps(said) + b"\n", secret=True, new=True)


def take_issuer(store: Store, path: str | None, plan_hash: bytes) -> str:
    """Take in what the other collector has written."""
    try:
        record = wire.Record(wire.loads(contents(path or ""), "the issuer's file"), "the issuer's file")
    except OSError:
        raise OptionError(
            "give the file that the other collector's privreg tokens wrote: --issuer-file FILE."
        ) from None
    record.fixed("v", wire.VERSION)
    if record.binary("plan", len(plan_hash)) != plan_hash:
        raise OptionError(f"{path!r} is the issuer's file of another study, or of another plan of this one.")
    number, secret = record.integer("key", 1, 255), record.binary("secret", SECRET)
    record.done()
    store.issue(kept_secret(secret), number)
    return f"Tokens of key {number} are good here, too. Delete {path!r}."


def check(scheduler: SumScheduler) -> str:
    """Check what can still be: signatures and lists, that each share is in one sum, that states follow."""
    people, alone = 0, scheduler.unvouched()
    for k in range(len(scheduler.states)):
        batch = scheduler.shares.batch(k)
        if batch.status == PUBLISHED:
            ids = peers.ids_of(batch.ids)
            signed = zip(LETTERS, scheduler.plan.keys, batch.values(LETTERS.index(scheduler.letter)), strict=True)
            read = [peer.opened(value, scheduler.plan_hash, letter, key) for letter, key, value in signed]
            if scheduler.shares.tokens(k, SUMMED) != ids or not all(scheduler.fits(one, batch) for one in read):
                raise OptionError(f"batch {k} is not what both have signed: the database was changed, or is damaged.")
            people += len(ids)
    return (
        f"{people:,} shares are in one sum each, as signed, and {scheduler.asked} states follow from the sums. Whether "
        "a sum is that of its shares can't be checked any more: shares and noise are deleted, so that nobody learns "
        "them."
        + (f" The other collector's word is all there is for batches {', '.join(map(str, alone))}." if alone else "")
    )


def close(scheduler: SumScheduler, role: str) -> str:
    """Let A close the study at its next turn."""
    if role != LETTERS[0]:
        raise OptionError("collector a leads: the study is closed there, by privreg collector close --role a.")
    scheduler.store.mark(CLOSED)
    return "The open batch is closed at the next turn of privreg serve, with the other collector; then nobody is asked."


def export(scheduler: SumScheduler) -> dict[str, Any]:
    """Plan, states, sums of both and counts, for anybody to recompute."""
    batches = [scheduler.shares.batch(k) for k in range(len(scheduler.states))]
    return {
        "plan": json.loads(scheduler.envelope),
        "states": [json.loads(s.envelope) for s in scheduler.states],
        "sums": [[json.loads(v) for v in b.values(LETTERS.index(scheduler.letter))] if b.status == PUBLISHED else None
                 for b in batches],
        "lost": [b.k for b in batches if b.status == LOST],
        "unvouched": scheduler.unvouched(),
        "counts": [{"minute": m, "outcome": n, "count": k} for m, n, k in scheduler.store.counts()],
        "plan_hash": wire.base(scheduler.plan_hash),
    }  # fmt: skip
