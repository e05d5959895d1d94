"""A study with two collectors at one of them, over HTTP and by commands: shares, the other's messages, sums, audits."""

import asyncio
import json
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from privreg.base.archive import contents
from privreg.errors import OptionError
from privreg.protocol.sums import LETTERS
from privreg_field.service.access import CELLS, SECRET, kept_secret
from privreg_field.service.http.guard import Problem
from privreg_field.service.http.handler import BASE, PATIENCE, Endpoint, Handler, Options, application, body_of
from privreg_field.service.store import Store
from privreg_field.service.store.records import CLOSED, FROZEN, LOST, PUBLISHED, SUMMED, UNSUMMED
from privreg_field.service.sums import peer
from privreg_field.service.sums.batch_log import BAD
from privreg_field.service.sums.scheduler import SumScheduler
from privreg_field.study import keys
from privreg_field.wire import peers, wire
from privreg_field.wire.messages import NONCE
from privreg_field.wire.peers import Share


class SumService(Handler):
    """Handlers of a study with two collectors."""

    scheduler: SumScheduler

    async def shares(self, request: Request) -> Response:
        """One share: 201, or 200 if the same bytes came before; 410, signed, if it was not summed, or is lost."""
        outcome, share = await self._outcome(request)
        if outcome == BAD:
            raise Problem(422, "The share can't be opened: it is sealed for something else.")
        if outcome == FROZEN:
            raise Problem(503, "The batch is full, or being closed; send the same bytes again later.", 2)
        if outcome in {UNSUMMED, LOST}:
            said = await asyncio.to_thread(self.scheduler.deleted, outcome, share.state, share.token.id)
            return Response(said, 410, media_type="application/json")
        return self._answer(outcome)

    def _read(self, body: bytes) -> Share:
        return peers.read_share(body, self.scheduler.plan, self.scheduler.plan_hash)

    def _arrived(self, report: Share, digest: bytes) -> tuple[Share, bytes]:
        return report, digest

    async def peer(self, request: Request) -> Response:
        """A message of the other collector, whose signature on it comes first: nobody else's are read."""
        scheduler = self.scheduler
        announced = peer.announced(request.headers.get(peer.HEADER, ""), scheduler.peer_key)
        if announced is None:
            raise Problem(403, "Only the other collector's messages are read here.")
        body = await body_of(request, peers.LONGEST, PATIENCE * 10.0)
        try:
            if wire.hash_of(body) != announced[NONCE:]:
                raise wire.MessageError("another body")
            answer = Response(await asyncio.to_thread(scheduler.answered, body), media_type="application/json")
            self._due.set()
        except wire.MessageError:
            raise Problem(422, "This is no message of this study's other collector.") from None
        except peer.Refused as e:
            answer = Problem(409, f"Refused: {e}.").response()
        except peer.Away as e:
            answer = Problem(503, f"Later: {e}.", 1).response()
        answer.headers[peer.HEADER] = scheduler.head(bytes(answer.body), announced[:NONCE], answer.status_code)
        return answer

    async def sums(self, request: Request) -> Response:
        """Signed sums of batches that both have published, and what has become of others."""
        self.allow(request, CELLS)
        scheduler = self.scheduler
        said = {
            "v": wire.VERSION, "study": scheduler.plan.study, "plan_hash": wire.base(scheduler.plan_hash),
            "collector": scheduler.letter, "issued": scheduler.store.about().issued,
        }  # fmt: skip
        return JSONResponse({**said, "batches": await asyncio.to_thread(scheduler.published)})

    def _interface(self) -> dict[str, Any]:
        """The interface: shares, messages and sums in place of reports and what is made of them."""
        said, more = (
            json.loads(files(f"privreg_field.service.{of}").joinpath("openapi.json").read_bytes())
            for of in ("http", "sums")
        )
        served = {r.path.replace(self.base, BASE) for r in [*self.routes(), *self.common_routes()]}
        said["paths"] = {p: v for p, v in (said["paths"] | more["paths"]).items() if p in served}
        said["components"]["schemas"] |= more["schemas"]
        return dict(said)

    def close(self) -> None:
        """Let the study be closed at the next turn, which collector a alone may."""
        try:
            close(self.scheduler, self.scheduler.letter)
        except OptionError:
            raise Problem(403, "Collector a leads: the study is closed there.") from None

    def of_study(self) -> list[tuple[str, str, Endpoint]]:
        """Addresses of this kind of study."""
        return [("POST", "/shares", self.shares), ("POST", "/peer", self.peer), ("GET", "/sums", self.sums)]


def make(scheduler: SumScheduler, options: Options = Options(), *others: SumScheduler) -> Starlette:  # noqa: B008
    """The application that serves a study at one of its two collectors, with a scheduler for each analysis."""
    return application(*(SumService(one, options) for one in (scheduler, *others)))


def scheduler_of(store: Store, role: str, key: str) -> SumScheduler:
    """The scheduler at one of the collectors, which speaks with the other."""
    collector = keys.load_collector(key)
    scheduler = SumScheduler(store, collector)
    if (letter := scheduler.letter) != role:
        raise OptionError(
            f"{key!r} has the keys that the plan names as those of collector {letter}, and --role is {role}. If this "
            f"is collector {letter}, write --role {letter}; if it is {role}, keys were swapped: give the other file, "
            "--key FILE, or have the analyst swap key and seal of the two in the study's file, and sign it anew."
        )
    other = scheduler.plan.collectors[1 - LETTERS.index(role)]
    scheduler.post = peer.poster(other.url, scheduler.plan.study + scheduler.plan.path, collector.sign, other.key)
    return scheduler


def take_issuer(store: Store, path: str | None, plan_hash: bytes) -> str:
    """Take in the issuer's secret that the other collector has written, by `tokens`: both check the same tokens."""
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
