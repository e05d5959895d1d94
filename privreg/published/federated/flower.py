"""A federated fit on Flower: a ClientApp that randomises before it answers, and a ServerApp that sees reports only.

Needs ``pip install ".[flower]"``. A message to a silo holds the public model, the number of the round and the
plan's fingerprint; an answer holds the randomised update and the silo's public number, nothing else.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.base.optional import need
from privreg.data.sources.open import open_table
from privreg.errors import OptionError, StreamError, whole
from privreg.options.table import check
from privreg.privacy.ledger import LEDGER, Release
from privreg.published.federated.client import Client, read_silo
from privreg.published.federated.model import FederatedRegression
from privreg.published.federated.plan import begin, step
from privreg.published.federated.results import FederatedResults, make_results, make_statement

_WHAT: Final = "a federated fit on Flower"
_COUNT: Final = "privreg"  # Record of a node's state that holds how many rounds it has answered


def client_app(model: FederatedRegression, data: Any, *, silo: int, seed: Any = None) -> Any:
    """Make the ClientApp of one silo, which answers each of the plan's rounds once, in order, across restarts, too.

    The `model` is the server's; a formula with a number for `silos` describes it without data, and its ``dataset=``
    names this silo's people. `data`, a DataFrame,
    mapping, path or table, are this silo's records, read here, before any message. `silo` is its public number, from 1;
    a `seed` is for simulation only.
    Raises MissingExtraError if Flower is not installed; BudgetError if a limit on spending in this process
    (:func:`privreg.limit_spending`) would be exceeded; PrivregError if the records can't be used.
    """
    flwr, plan = need("flwr.clientapp", "flower", _WHAT), model.plan
    number = whole("silo", silo, 1, plan.silos)
    source = open_table(data, plan.spec.design.columns, plan.spec.design.schema).of(model._dataset)
    client = Client(plan, *read_silo(plan, source, number), seed=check("silos.fit", "seed", seed), label=str(number))
    LEDGER.spend(source.identity, plan.total_mu, seeded=seed is not None)
    app = flwr.ClientApp()

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Any, context: Any) -> Any:
        asked, records = message.content["round"], need("flwr.app", "flower", _WHAT)
        if asked["plan"] != plan.fingerprint:
            raise OptionError("the server's plan is not this silo's; give both the same model and options.")
        answered = int(context.state[_COUNT]["answered"]) if _COUNT in context.state else 0
        if answered >= plan.rounds:
            raise StreamError(
                f"this silo has sent its {plan.rounds} reports; another would cost more than {plan.budget}."
            )
        if int(asked["number"]) != answered + 1:
            raise StreamError(
                f"round {int(asked['number'])} was asked for and round {answered + 1} of {plan.rounds} is next: a silo "
                "answers every round once; start a new run, which spends anew."
            )
        context.state[_COUNT] = records.ConfigRecord({"answered": answered + 1})  # before anything is computed
        (theta,) = message.content["model"].to_numpy_ndarrays()
        report = client.report(np.array(theta, dtype=np.float64))
        content = {"report": records.ArrayRecord([report]), "silo": records.ConfigRecord({"number": number})}
        return records.Message(records.RecordDict(content), reply_to=message)

    return app


def server_app(
    model: FederatedRegression, done: Callable[[FederatedResults], None], *, timeout: float | None = None
) -> Any:
    """Make the ServerApp: it sends the model, averages the answers, and calls `done` with the results.

    It needs no data but an answer of every silo in every round, within `timeout` seconds if that is given. Of silos
    that failed only the count is named.
    Raises MissingExtraError if Flower is not installed; StreamError, when it runs, if an answer lacks.
    """
    flwr, records, plan = need("flwr.serverapp", "flower", _WHAT), need("flwr.app", "flower", _WHAT), model.plan
    app = flwr.ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:
        if len(nodes := list(grid.get_node_ids())) != plan.silos:
            raise StreamError(f"{len(nodes)} silos are connected and the plan has {plan.silos}; wait for all of them.")
        state = begin(plan)
        for number in range(1, plan.rounds + 1):
            asked = records.ConfigRecord({"number": number, "plan": plan.fingerprint})
            content = records.RecordDict({"model": records.ArrayRecord([state.theta]), "round": asked})
            kind: dict[str, Any] = {"message_type": "train", "group_id": str(number)}
            sent = [records.Message(content, dst_node_id=node, **kind) for node in nodes]
            answers = grid.send_and_receive(sent, timeout=timeout)
            found = dict[int, Array]()
            for answer in answers:
                if not answer.has_error():
                    (report,) = answer.content["report"].to_numpy_ndarrays()
                    found[int(answer.content["silo"]["number"])] = np.asarray(report, dtype=np.float64)
            silos = range(1, plan.silos + 1)
            if lacking := set(silos) - set(found):
                raise StreamError(
                    f"{len(lacking)} of {plan.silos} silos sent no report; a round needs all of them. Each silo's log "
                    "says why; a new run spends anew."
                )
            state = step(plan, state, [found[i] for i in silos])
        res = make_results(plan, state, make_statement(plan, Release(0, plan.total_mu), "flower"))
        res._caution()
        done(res)

    return app
