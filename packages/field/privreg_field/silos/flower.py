"""The apps that Flower's own commands start: a silo's, which holds a file, and the server's, which plays the rounds.

A SuperNode's ``--node-config 'ledger="/data/north.sqlite"'`` names the silo's file; ``command=`` in its place a command
such as `privreg silo answer` as another user, so that the app, whose code comes from the server, needs no right to the
rows. Nodes of a simulation have ``silo 1.sqlite``, … in the folder ``ledgers`` of the run's configuration.
"""

import math
import shlex
import subprocess
import time
from collections.abc import Sequence
from logging import INFO
from pathlib import Path
from typing import Any, Final

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from privreg.base.archive import contents
from privreg_field.silos.plan import verified
from privreg_field.silos.rounds import History, answer, name_of, play
from privreg_field.study import keys

AGAIN: Final = 60.0  # Seconds after which a node that doesn't answer is asked again; it sends what it wrote

client_app = ClientApp()
server_app = ServerApp()


@client_app.query()  # type: ignore[untyped-decorator, unused-ignore]
def silo(message: Message, context: Context) -> Message:
    """Answer a history from the silo's own file."""
    config, ask = context.node_config, bytes(message.content["ask"]["body"])
    if "command" in config:
        words = shlex.split(str(config["command"]))
        body = subprocess.run(words, input=ask, stdout=subprocess.PIPE, check=False).stdout.strip()
    else:
        file = config.get("ledger") or f"{context.run_config['ledgers']}/silo {int(config['partition-id']) + 1}.sqlite"
        body = answer(str(file), ask)
    return Message(content=RecordDict({"answer": ConfigRecord({"body": body})}), reply_to=message)


@server_app.main()  # type: ignore[untyped-decorator, unused-ignore]
def server(grid: Grid, context: Context) -> None:
    """Play the rounds of the plan in the run's configuration, and save the results."""
    config: Any = context.run_config
    plan = verified(contents(str(config["plan"])), keys.given(str(config["key"]), "key"))

    def ask(body: bytes, silos: Sequence[str]) -> list[bytes]:
        return asked(grid, body, silos, float(config["patience" if History.from_bytes(body).entries else "wait"]))

    res = play(plan, ask, Path(str(config["kept"])), lambda line: log(INFO, line))
    res.save(str(config["results"]))
    log(INFO, str(res.summary()))


def asked(grid: Grid, body: bytes, silos: Sequence[str], seconds: float) -> list[bytes]:
    """Answers of nodes, until all silos have answered. They are asked again: one that starts anew has a new number."""
    out, open_, heard = list[bytes](), set[str](), dict[int, float]()  # nodes, and when they were asked
    until = time.monotonic() + seconds
    while not set(silos) <= set(map(name_of, out)) and (now := time.monotonic()) < until:
        nodes = [node for node in grid.get_node_ids() if now > heard.get(node, -math.inf) + AGAIN]
        content = RecordDict({"ask": ConfigRecord({"body": body})})
        open_ |= set(grid.push_messages([Message(content, dst_node_id=n, message_type="query") for n in nodes]))
        heard |= dict.fromkeys(nodes, now)
        for reply in grid.pull_messages(open_):
            open_.discard(reply.metadata.reply_to_message_id)
            said = {} if reply.has_error() else reply.content.config_records.get("answer", {})
            out += [body for body in said.values() if isinstance(body, bytes)]
            if any(map(name_of, out[-1:])):  # others are asked again: a plan may yet be accepted, a node come back
                heard[reply.metadata.src_node_id] = math.inf
        time.sleep(0.5)
    return out
