"""What bounds clamp, in the field: a plan's role, its devices, and the collector's chain up to the shares."""

import numpy as np
import pandas as pd
import pytest

from privreg.fits.findings import shares_of
from privreg.fits.plan import people_for
from privreg_field.collector import chain as chains
from privreg_field.device.report.design import row_of
from privreg_field.study.reading.collected import chain_of, results
from privreg_field.study.simulated.devices import Crowd
from privreg_field.wire import messages, study
from privreg_field.wire.messages import Token
from tests.field import test_plan
from tests.service import world
from tests.studies import field_state


def test_a_short_study_has_no_word_of_it_and_a_long_one_names_its_columns():
    short = test_plan.made()
    assert b"clamping" not in study.plan_payload(short)
    fit = test_plan.model(mu=8).plan(rows=40_000)
    plan = test_plan.made(fit)
    assert plan.clamping == ("hours", "age", "bmi")
    (held,) = (r for r in plan.rounds if r.role == "clamping")
    assert held.total == people_for(3, np.sqrt(3) / 8)
    assert study.read_plan(study.plan_payload(plan)) == plan


def test_devices_tell_what_the_simulation_does_of_the_same_answers():
    fit = test_plan.model(mu=8).plan(rows=40_000)
    plan, answers = test_plan.made(fit), test_plan.people(600)
    answers[1]["hours"], answers[2]["bmi"], answers[3]["age"] = 24.5, 50.0, None
    table = pd.DataFrame(answers)
    usable = (table["shift"] != "never") & table["age"].notna()
    flags = fit.spec.design.clamps(table, plan.clamping) & usable.to_numpy()[:, None]
    np.testing.assert_array_equal([row_of(plan, row).clamped for row in answers], flags)
    assert (flags.sum(axis=0) > 0).all()


@pytest.mark.thorough
def test_a_collector_learns_the_shares_of_what_devices_send(tmp_path):
    plan, plan_hash, _ = world.plan_of(tmp_path, rows=16_000, mu=10)
    assert plan.clamping == ("hours", "age")
    data = world.people(16_000)
    data.loc[::3, "age"] = 95.0
    data.loc[::7, "hours"] = np.nan
    crowd = Crowd(plan, plan_hash, data)
    chain, cells, at = chain_of(plan), {}, 0
    while chain.progress.clamped is None:
        made = field_state(plan_hash, chains.present_ask(chain), number=len(chain.batches), before=plan_hash)
        state = messages.read_state(messages.state_payload(made), plan, plan_hash)
        number, n = state.number, chain.ask.ends
        tokens = [Token(1, k.to_bytes(16, "big"), bytes(16)) for k in range(at, at + n)]
        groups = {}
        for token, body in zip(tokens, crowd.bodies(state, range(at, at + n), tokens), strict=True):
            report = messages.read_report(body, plan, plan_hash)
            group = messages.group_of(plan, report.role, messages.place_of(plan_hash, token))
            groups.setdefault(chains.Place(number, report.role, group), []).append(report.values)
        cells |= {place: chains.add(None, np.array(values), place.role) for place, values in groups.items()}
        chain, at = chains.closed(chain, plan.roles, cells), at + n
    found = shares_of(chain.plan, chain.progress)
    assert [c.name for c in found.columns] == ["hours", "age"]
    truth = np.array([0.0, 1 / 3])
    assert (np.abs(found.share - truth) < 4 * found.error).all()
    res = results(plan, chain, cells)
    text = dict(res.privacy.rows())["Public: clamping"]
    assert f"counted, with noise, among {found.people:,} records: surely more than 1% of them in age" in text
    assert any(d.code in {"clamping", "narrow"} for d in res.privacy.notes)
    # a seventh can't say how long they slept and send noise only, which a study says of itself as a fit does
    (note,) = (d for d in res.privacy.notes if d.code == "unusable")
    assert "sent noise only" in str(note)
    assert "Unusable" in dict(res._fit.title)
    refusing = results(plan._replace(missing="refuse"), chain, cells)  # whose devices send nothing then
    assert all(d.code != "unusable" for d in refusing.privacy.notes)
