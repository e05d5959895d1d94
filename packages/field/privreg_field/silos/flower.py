"""The apps that Flower's own commands start: a silo's, which holds a file, and the server's, which plays the rounds.

``flower-supernode --node-config 'ledger="/data/north.sqlite"'`` says which silo's file a node has; a simulation, whose
nodes are numbered, finds ``silo 1.sqlite``, ``silo 2.sqlite``, … in the folder ``ledgers`` of the run's configuration.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from privreg.base.archive import contents
from privreg_field.silos.plan import verified
from privreg_field.silos.rounds import LONGEST, answer, play
from privreg_field.study import keys
from privreg_field.wire.wire import MessageError, Record, loads

PATIENCE: Final = 600.0  # Seconds to wait for silos in each round, by default
AGAIN: Final = 120.0  # Seconds after which a node that doesn't answer is asked again; it sends what it wrote
PAUSE: Final = 0.5  # Seconds between looks for answers
INFO: Final = 20

client_app = ClientApp()
server_app = ServerApp()


@client_app.query()  # type: ignore[untyped-decorator, unused-ignore]
def silo(message: Message, context: Context) -> Message:
    """Answer a history from the silo's own file."""
    path = context.node_config.get("ledger")
    if path is None:
        number = int(context.node_config["partition-id"]) + 1
        path = Path(str(context.run_config["ledgers"])) / f"silo {number}.sqlite"
    body = answer(str(path), bytes(message.content["ask"]["body"]))
    return Message(content=RecordDict({"answer": ConfigRecord({"body": body})}), reply_to=message)


@server_app.main()  # type: ignore[untyped-decorator, unused-ignore]
def server(grid: Grid, context: Context) -> None:
    """Play the rounds of the plan in the run's configuration, and save the results."""
    config: Any = context.run_config
    plan = verified(contents(str(config["plan"])), keys.given(str(config["key"]), "key"))
    ask = partial(asked, grid, patience=float(config.get("patience", PATIENCE)))
    res = play(plan, ask, Path(str(config["kept"])), lambda line: log(INFO, line))
    res.save(str(config["results"]))
    log(INFO, str(res.summary()))


def asked(grid: Grid, body: bytes, silos: Sequence[str], *, patience: float) -> dict[str, bytes]:
    """Answers by silo. Nodes are asked again, as one that starts anew has another number; a silo's answer is one."""
    out, open_, heard = dict[str, bytes](), set[str](), dict[int, float]()  # nodes, and when they were asked
    until = time.monotonic() + patience
    while len(out) < len(silos) and (now := time.monotonic()) < until:
        nodes = [node for node in grid.get_node_ids() if now > heard.get(node, -math.inf) + AGAIN]
        content = RecordDict({"ask": ConfigRecord({"body": body})})
        open_ |= set(grid.push_messages([Message(content, dst_node_id=n, message_type="query") for n in nodes]))
        heard |= dict.fromkeys(nodes, now)
        for reply in grid.pull_messages(open_):
            open_.discard(reply.metadata.reply_to_message_id)
            if reply.has_error():
                heard.pop(reply.metadata.src_node_id, None)
                continue
            heard[reply.metadata.src_node_id] = math.inf
            said = bytes(reply.content["answer"]["body"])
            name = Record(loads(said, "an answer", LONGEST), "an answer").take("silo")
            if name in silos and out.setdefault(name, said) != said:
                raise MessageError(f"two nodes answer differently for silo {name!r}.")
        time.sleep(PAUSE)
    return out
