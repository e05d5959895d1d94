"""The pair of Flower apps: the same fit as in one process, and messages that hold randomised updates alone."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import privreg as pr
from privreg.errors import BudgetError, DataError, MissingExtraError, OptionError, StreamError
from privreg.privacy.accounts import named
from privreg.privacy.ledger import LEDGER
from privreg.published.federated import flower
from tests.federated.test_fits import frames, model

try:
    with warnings.catch_warnings():  # packages that flwr imports use names of each other that are going away
        warnings.simplefilter("ignore")
        import flwr.clientapp
        import flwr.serverapp  # noqa: F401
        from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
except ImportError:
    HAVE = False
else:
    HAVE = True

needs_flower = pytest.mark.skipif(not HAVE, reason="flwr is not installed: the extra flower")


@pytest.mark.skipif(HAVE, reason="flwr is installed")
def test_without_flower_the_extra_is_named():
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[flower\]"'):
        flower.server_app(model(3), print)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[flower\]"'):
        flower.client_app(model(3), frames(1)[0], silo=1)


class App:
    """A ClientApp that is never asked."""

    def train(self):
        return lambda function: function


def test_a_silo_is_charged_under_the_name_of_its_people(monkeypatch):
    monkeypatch.setattr(flower, "need", lambda *_: SimpleNamespace(ClientApp=App))
    made = pr.federated.FederatedRegression.from_formula("y ~ x", 3, mu=1, bounds={"x": (-1, 1)}, dataset="a survey")
    x = np.linspace(-1, 1, 300)
    for spent in (1.0, np.sqrt(2.0)):
        flower.client_app(made, {"x": x.copy(), "y": (x > 0).astype(float)}, silo=1)
        assert LEDGER.spent(named(None, "a survey")) == pytest.approx(spent)


@pytest.fixture(autouse=True)
def _who_is_asking(monkeypatch):
    """What Flower tells the process that a server app runs in; versions before it has such a class need none."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        return
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Grid:
    """Hands messages to client apps in this process, as a grid does over the network, and keeps a copy of all."""

    def __init__(self, apps, lost=()):
        self.apps, self.lost, self.sent, self.answers = apps, lost, [], []
        self.contexts = {n: new_context(n) for n in apps}

    def get_node_ids(self):
        return list(self.apps)

    def send_and_receive(self, messages, *, timeout=None):
        out = []
        for message in messages:
            node = message.metadata.dst_node_id
            self.sent.append(message)
            if node not in self.lost:
                out.append(self.apps[node](message, self.contexts[node]))
        self.answers += out
        return out[::-1]  # answers come in any order


def new_context(node):
    return Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})


def run(silos, lost=(), seed=None, **options):
    described = model(len(silos), **options)
    apps = {100 + i: flower.client_app(described, s, silo=i, seed=seed) for i, s in enumerate(silos, 1)}
    grid, found = Grid(apps, lost), []
    flower.server_app(described, found.append)(grid, new_context(0))
    return found[0], grid


@needs_flower
@pytest.mark.parametrize("weights", [None, [1, 2, 3]])
def test_the_pair_fits_as_one_process_does(weights):
    silos = frames(3)
    res, grid = run(silos, mu=None, rounds=4, weights=weights)
    here = model(silos, mu=None, rounds=4, weights=weights).fit(progress=False)
    np.testing.assert_allclose(res.params, here.params, rtol=1e-12)
    assert len(grid.answers) == 12


@needs_flower
def test_messages_hold_the_randomised_update_and_the_silo_number_alone():
    silos = frames(3, 17)
    res, grid = run(silos, rounds=4)
    described = model(silos, rounds=4)
    for answer in grid.answers:
        assert set(answer.content) == {"report", "silo"}
        assert set(answer.content["silo"]) == {"number"}
        (report,) = answer.content["report"].to_numpy_ndarrays()
        assert report.shape == (4,)
    # the first answers, less their updates, are noise in every number
    from privreg.published.federated.client import Client, read_silo

    for answer in grid.answers[:3]:
        number = int(answer.content["silo"]["number"])
        plan = described.plan
        client = Client(plan, *read_silo(plan, described._sources[number - 1], number))
        (report,) = answer.content["report"].to_numpy_ndarrays()
        assert np.abs(report - np.append(client.update(np.zeros(3)), 0.5 * plan.kappa)).min() > 1e-9
    assert "every silo randomised its own updates" in " ".join(str(res.privacy).split())
    assert res.privacy.loud is None


@needs_flower
def test_noise_differs_from_silo_to_silo_and_run_to_run():
    silos = frames(3)
    a, b = (run(silos, rounds=2)[0] for _ in range(2))
    assert not np.allclose(a.params, b.params)
    one, other = (run([silos[0]] * 2, rounds=1, seed=7)[1].answers for _ in range(2))
    reports = [m.content["report"].to_numpy_ndarrays()[0] for m in (*one, *other)]
    assert not np.allclose(reports[0], reports[1])  # equal records, other noise
    np.testing.assert_array_equal(reports[0], reports[2])


def asked(described, number, node=1, fingerprint=None):
    told = ConfigRecord({"number": number, "plan": fingerprint or described.plan.fingerprint})
    content = RecordDict({"model": ArrayRecord([np.zeros(3)]), "round": told})
    return Message(content, dst_node_id=node, message_type="train")


@needs_flower
def test_a_silo_answers_each_round_once_and_remembers_it_over_a_restart():
    described = model(2, rounds=2)
    app, context = flower.client_app(described, frames(1)[0], silo=1), new_context(1)
    app(asked(described, 1), context)
    with pytest.raises(StreamError, match="round 1 was asked for and round 2 of 2 is next"):
        app(asked(described, 1), context)
    restarted = flower.client_app(described, frames(1)[0], silo=1)
    restarted(asked(described, 2), context)
    for number in (1, 2, 3):
        with pytest.raises(StreamError, match="has sent its 2 reports"):
            restarted(asked(described, number), context)
    fresh = new_context(2)  # another run's state: the silo itself counts too
    app(asked(described, 1), fresh)
    with pytest.raises(StreamError, match="has sent its 2 reports"):
        app(asked(described, 2), fresh)


@needs_flower
def test_a_silo_keeps_its_own_ledger():
    (silo,) = frames(1)
    flower.client_app(model(2, mu=2), silo, silo=1)
    assert LEDGER.spent(silo) == pytest.approx(2.0)
    pr.limit_spending(2.5)
    try:
        with pytest.raises(BudgetError, match="would cost"):
            flower.client_app(model(2, mu=2), silo, silo=1)
    finally:
        pr.limit_spending(None)


@needs_flower
def test_another_plan_is_refused():
    described, other = model(2, rounds=2), model(2, rounds=2, mu=1)
    app = flower.client_app(described, frames(1)[0], silo=1)
    with pytest.raises(OptionError, match="plan is not this silo's"):
        app(asked(other, 1), new_context(1))


@needs_flower
def test_a_round_needs_every_silo():
    with pytest.raises(StreamError, match="1 of 3 silos sent no report"):
        run(frames(3), lost=(102,), rounds=2)
    described = model(3)
    with pytest.raises(StreamError, match="0 silos are connected and the plan has 3"):
        flower.server_app(described, print)(Grid({}), new_context(0))


@needs_flower
def test_bad_records_are_told_where_they_are_not_to_the_server():
    broken = frames(1)[0].assign(a=np.nan)
    with pytest.raises(DataError, match=r"^column 'a' has a value that is missing"):
        flower.client_app(model(3, missing="raise"), broken, silo=2)
    with pytest.raises(OptionError, match="silo=4 must be a whole number, 1 to 3"):
        flower.client_app(model(3), frames(1)[0], silo=4)
