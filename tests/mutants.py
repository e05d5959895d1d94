"""Changes that must never pass: each breaks a promise, and the tests named beside it must notice.

``python -m tests.mutants [NAME ...] [--jobs N] [--part K/N]`` makes each change in a copy of the tree, runs its tests
there and tells which change survived. It takes some minutes; it is run whenever tests are deleted or moved.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 300.0
"""Seconds after which a mutant's tests have noticed it."""


@dataclass(frozen=True)
class Mutant:
    """One change: `old`, which stands once in `file`, becomes `new`; one of `tests`, as pytest names them, fails."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MECHANISMS, KERNELS = "privreg/privacy/mechanisms.py", "privreg/published/chain/kernels.py"
ENGINE, PLAY = "privreg/simulation/rounds.py", "privreg/simulation/devices.py"
DEVICES = "privreg/simulation/devices.py"
WORKERS, FIELD = "privreg/simulation/workers.py", "privreg/simulation/simulate.py"
CURVED = "tests/collector/aggregate/test_curved.py"
HAZARDS = "tests/simulation/test_hazards.py"
MARKS = "tests/collector/aggregate/test_marks.py"
TWO, TWO_TESTS = "privreg/simulation/aggregate.py", "tests/collector/aggregate/test_aggregate.py"
LATTICE, TWO_DOOR = "privreg/collector/aggregate/report.py", "tests/simulation/test_two_collectors.py"
REPORTS, RECORDS = "tests/laws/test_reports.py", "tests/laws/test_rounds.py"
ROUNDS, BLOCKS, LATE = (f"tests/simulation/test_{name}.py" for name in ("rounds", "blocks", "simulate"))
NEIGHBOURS, SILOS = "tests/collector/test_pilots.py", "tests/federated/test_unusable.py"
PIECE = (f"{ROUNDS}::test_a_piece_carries_the_noise_of_each_of_its_reports",)
ALONE = (f"{RECORDS}::test_what_the_engine_randomises_one_by_one_is_what_devices_send",)
MEASURES = (f"{RECORDS}::test_measures_of_fit_are_randomised_for_each_record",)
RESPONSE = (f"{RECORDS}::test_sums_of_private_responses_are_those_of_devices",)
SILENT = (f"{RECORDS}::test_rows_that_are_no_numbers_tell_nothing",)
ARRIVALS = (f"{LATE}::test_sums_of_every_arrival_have_the_noise_of_their_own_reports",)
TASKS = (f"{BLOCKS}::test_tasks_hold_no_rows_and_print_no_keys_and_no_two_have_the_same",)
ONCE = (f"{ROUNDS}::test_no_noise_is_drawn_twice",)
HOSTILE, INDEXES = "tests/laws/test_hostile.py", "tests/laws/test_indexes.py"
SPENDING = "tests/laws/test_spending.py"
CURATOR = "tests/simulation/test_curator.py"
IDENTIFIED = "tests/published/descent/test_identified.py"
WEB, PAGES = "packages/field/privreg_field/service/web/device", "tests/service/test_js_session.py"
DEVICE = "packages/field/privreg_field/device/report/answer.py"
EXCHANGE, SESSION = (f"packages/field/privreg_field/device/{name}.py" for name in ("exchange", "session"))
ANSWERS, VISITS = "tests/device/test_answer.py", "tests/device/test_session.py"
APART = (f"{ANSWERS}::test_whatever_comes_two_reports_are_no_farther_apart_than_the_noise_is_for",)
SUMS = "tests/means/test_sums.py"
SHARED = "tests/field/test_two_collectors.py"
PAIR, PAIR_PAGES = "tests/device/test_two_collectors.py", "tests/service/test_js_two_collectors.py"
DISTANCES, APART_TESTS = "privreg/protocol/sums.py", "tests/protocol/test_distances.py"
SUPREMUM = (f"{APART_TESTS}::test_distances_of_scores_with_any_slope_are_the_supremum_at_corners",)
BOUNDED = (f"{APART_TESTS}::test_distances_of_logistic_scores_are_proved_by_branch_and_bound_and_nearly_attained",)
UNPROVED = (f"{APART_TESTS}::test_what_no_proof_is_of_is_as_far_apart_as_the_ball_is_wide",)
UNLIKE = (f"{APART_TESTS}::test_offsets_and_rows_of_persons_are_known_to_devices",)
CLIPPED = (f"{APART_TESTS}::test_scores_that_are_no_scores_are_clipped",)
OF_STATES = (f"{PAIR}::test_states_whose_radius_is_for_other_coefficients_than_theirs_are_refused",)
IN_BROWSERS = ("tests/service/test_js_vectors.py::test_two_reports_are_as_far_apart_in_a_browser",)
OF_STATES_IN_BROWSERS = (f"{PAIR_PAGES}::test_states_whose_radius_is_for_other_coefficients_than_theirs_are_refused",)
ODD = (f"{APART_TESTS}::test_plans_and_states_whose_numbers_a_distance_does_not_hold_of_are_refused",)
RESTORED = "tests/service/test_two_restored.py"
LIAR = "tests/service/test_two_liar.py"
SCHEDULERS, SHARES = "tests/service/test_two_schedulers.py", "packages/field/privreg_field/service/store/shares.py"
TRUSTED, PERSONS = "tests/means/test_trusted.py", "tests/simulation/test_persons.py"
LOCAL_PERSONS = "tests/simulation/test_persons_local.py"
FARTHEST = ("tests/device/test_noise.py::test_the_farthest_reports_show_what_is_claimed_and_half_the_noise_is_caught",)

MUTANTS = (
    # sensitivity
    Mutant(
        "a target that was learned without noise is published",
        "privreg/fits/fit_plan.py",
        "if spec.budget.private and not earlier.private:",
        "if False:",
        ("tests/simulation/test_like.py::test_a_target_learned_without_noise_is_refused",),
    ),
    Mutant(
        "one of two collectors adds no noise",
        LATTICE,
        "    for drawn in normals:\n",
        "    for drawn in normals[:1]:\n",
        (f"{TWO_TESTS}::test_noise_of_a_sum_is_both_collectors_and_each_alone_is_enough",),
    ),
    Mutant(
        "collectors add half their noise",
        LATTICE,
        "np.rint(sd * drawn)",
        "np.rint(0.5 * sd * drawn)",
        (f"{TWO_DOOR}::test_the_audit_sees_a_collector_that_adds_half_the_noise",),
    ),
    Mutant(
        "an audit of other noise than is added to sums",
        "privreg/audit/reports.py",
        "report.with_noise(row, sd, noise)",
        "(row + np.rint(sd * noise))",
        (f"{TWO_DOOR}::test_the_audit_runs_the_code_that_adds_the_noise",),
    ),
    Mutant(
        "noise too large for whole numbers",
        "privreg/formula/spec.py",
        "spec.budget.private and spec.budget.mu < least",
        "False",
        (f"{TWO_DOOR}::test_noise_that_isnt_small_beside_the_modulus_is_refused",),
    ),
    Mutant(
        "numbers of reports cut, not rounded",
        "privreg/simulation/summing.py",
        "np.rint((number if abs(number) < np.inf else 0.0) * unit)",
        "(number if abs(number) < np.inf else 0.0) * unit",
        ("tests/simulation/test_summing.py::test_sums_are_those_of_reports_one_by_one",),
    ),
    Mutant(
        "warnings that follow a record's value, of sums",
        "privreg/simulation/aggregate.py",
        '@np.errstate(all="ignore")  # a warning would tell of one record\ndef rounded(',
        "def rounded(",
        ("tests/simulation/test_summing.py::test_sums_are_those_of_reports_one_by_one",),
    ),
    Mutant(
        "warnings that follow a record's value",
        "privreg/collector/aggregate/report.py",
        '@np.errstate(all="ignore")  # a warning would tell of one record\ndef vectors(',
        "def vectors(",
        (f"{TWO_TESTS}::test_reports_lie_in_the_ball_before_and_after_rounding_whatever_the_row",),
    ),
    Mutant(
        "a person who comes again reports again",
        "privreg/simulation/streaming/stream.py",
        "y = np.where(again.reshape(-1, *[1] * (y.ndim - 1)), np.nan, y)",
        "y = np.where(again, np.nan, y) if y.ndim == 1 else y",
        (f"{PERSONS}::test_who_comes_again_reports_zeros",),
    ),
    Mutant(
        "a weight of each row in place of the person's",
        "privreg/collector/aggregate/report.py",
        "np.repeat((of * length.reshape(of.shape)).sum(axis=1), of.shape[1])",
        "np.repeat(length, 1)",
        ("tests/collector/aggregate/test_persons.py::test_a_report_is_what_the_page_says",),
    ),
    Mutant(
        "a person's rows add up to more than a report",
        "privreg/collector/aggregate/report.py",
        "parts = usable / np.maximum(whole, 1.0)",
        "parts = usable / np.ones_like(np.maximum(whole, 1.0))",
        (f"{LOCAL_PERSONS}::test_any_rows_of_a_person_lie_in_the_ball_and_no_further_apart_than_the_noise_is_for",),
    ),
    Mutant(
        "less noise for people of small survey weights",
        "privreg/simulation/rounds.py",
        "rows._replace(weight=None, parts=",
        "rows._replace(parts=",
        (f"{LOCAL_PERSONS}::test_noise_of_weighted_people_is_that_of_whole_reports",),
    ),
    Mutant(
        "the weight of a person's first row for all of them",
        "privreg/simulation/devices.py",
        "shares, math.inf).min(axis=1, keepdims=True)",
        "shares, math.inf)[:, :1]",
        (f"{LOCAL_PERSONS}::test_any_rows_of_a_person_lie_in_the_ball_and_no_further_apart_than_the_noise_is_for",),
    ),
    Mutant(
        "both collectors draw the same noise",
        TWO,
        'f"collector {who} {number + g}"',
        'f"collector {number + g}"',
        (f"{TWO_DOOR}::test_each_collector_and_each_batch_has_noise_of_its_own",),
    ),
    Mutant(
        "the key of noise that two collectors have used is kept",
        TWO,
        'exact, drawn), derived_key(key, "following")',
        "exact, drawn), key",
        (f"{TWO_DOOR}::test_a_key_whose_noise_is_published_is_forgotten",),
    ),
    Mutant(
        "a curator's release is not entered",
        "privreg/simulation/streaming/stream.py",
        "            self._run.ready()\n            if self.charge is not None:\n                self.charge.enter()\n",
        "            self._run.ready()\n",
        (f"{CURATOR}::test_the_release_is_entered_once_before_the_first_sum_and_few_rows_cost_nothing",),
    ),
    Mutant(
        "a round of a curator has the whole budget",
        LATTICE,
        "plan.width(role), mu or plan.mu, square)",
        "plan.width(role), plan.mu, square)",
        (f"{CURATOR}::test_sums_of_neighbours_are_as_far_apart_as_the_budget_allows",),
    ),
    Mutant(
        "files may change between a curator's rounds",
        "privreg/simulation/streaming/stream.py",
        "if source.stamp() != stamp:",
        "if False:",
        (f"{CURATOR}::test_files_that_change_between_rounds_are_refused",),
    ),
    Mutant(
        "a curator's release is drawn again by who goes on",
        "privreg/simulation/aggregate.py",
        "for k, n in enumerate(counts)",
        "for k, n in enumerate(())",
        (f"{CURATOR}::test_a_fit_that_is_killed_between_rounds_ends_in_the_same_bits",),
    ),
    Mutant(
        "a silo's noise is the same in any state",
        TWO,
        'f"{name} {asked} {sha256(exact.tobytes()).hexdigest()}"',
        "name",
        ("tests/field/test_silos.py::test_a_file_that_comes_back_from_a_copy_has_no_noise_twice",),
    ),
    Mutant(
        "a silo's noise is the same of any rows",
        TWO,
        " {sha256(exact.tobytes()).hexdigest()}",
        "",
        ("tests/field/test_silos.py::test_a_query_whose_rows_change_has_other_noise_also_from_a_file_that_comes_back",),
    ),
    Mutant(
        "a round of silos without a budget of its own",
        "privreg/protocol/lattice.py",
        "return all(each) and sum(",
        "return sum(",
        ("tests/field/test_silos.py::test_a_round_without_a_budget_of_its_own_is_refused",),
    ),
    Mutant(
        "a silo answers another state of a round",
        "packages/field/privreg_field/silos/rounds.py",
        "history.state(k) != state for",
        "False for",
        ("tests/field/test_silos.py::test_another_state_of_a_round_is_refused",),
    ),
    Mutant(
        "a silo takes sums that it hasn't sent",
        "packages/field/privreg_field/silos/rounds.py",
        "one != sent[k][1]",
        "False",
        ("tests/field/test_silos.py::test_a_smaller_set_of_silos_and_an_old_round_are_refused",),
    ),
    Mutant(
        "a sum of two collectors without noise",
        TWO,
        "noised(plan, state, exact, drawn)",
        "exact",
        (f"{TWO_DOOR}::test_each_collector_and_each_batch_has_noise_of_its_own",),
    ),
    Mutant(
        "an early round of two collectors is stored before its noise",
        TWO,
        "        if close and self.at + self._held:\n            raise StreamError(",
        "        if False:\n            raise StreamError(",
        (f"{TWO_DOOR}::test_an_open_early_round_has_no_results_and_is_never_stored",),
    ),
    Mutant(
        "scores noised for half their distance",
        DISTANCES,
        ".get(role, lattice.UNIT)",
        ".get(role, lattice.SWITCHES)",
        (f"{TWO_DOOR}::test_no_report_is_farther_from_another_than_its_noise_is_made_for",),
    ),
    Mutant(
        "multinomial scores of norm √2",
        "privreg/collector/aggregate/classes.py",
        "(mean - classes[:, y].T) / ROOT2",
        "(mean - classes[:, y].T)",
        (f"{TWO_TESTS}::test_multinomial_reports_reach_the_edge_of_the_ball_and_no_further",),
    ),
    Mutant(
        "twice as large measures of fit",
        "privreg/collector/aggregate/plan.py",
        "np.sqrt(shares)",
        "np.sqrt(4.0 * shares)",
        (f"{TWO_TESTS}::test_measures_are_half_as_far_apart_as_a_ball_is_wide",),
    ),
    Mutant(
        "two collectors' rows beyond their bounds",
        "privreg/collector/aggregate/report.py",
        "np.clip(x, plan.lows, plan.highs)",
        "x",
        (f"{TWO_TESTS}::test_a_row_beyond_its_bounds_reports_as_one_at_them",),
    ),
    Mutant(
        "whole numbers beyond their ball",
        "privreg/protocol/lattice.py",
        "return radius - 0.5 * math.sqrt(numbers) * (form == SWITCHES)",
        "return 1.1 * radius",
        (f"{TWO_TESTS}::test_reports_lie_in_the_ball_before_and_after_rounding_whatever_the_row",),
    ),
    Mutant(
        "shares of a logistic report that don't fit together",
        DISTANCES,
        "(0.83, 0.5, 0.17, 0.0, 0.0)",
        "(0.83, 1.5, 0.17, 0.0, 0.0)",
        (f"{TWO_TESTS}::test_scores_are_bounded_by_their_weights_and_not_by_shortening",),
    ),
    Mutant(
        "a distance below the supremum: cornered",
        DISTANCES,
        '"cornered": 24278',
        '"cornered": 24178',
        SUPREMUM,
    ),
    Mutant(
        "a distance below the supremum: cornered, again",
        DISTANCES,
        '"cornered, again": 27350',
        '"cornered, again": 27250',
        SUPREMUM,
    ),
    Mutant(
        "a distance below the supremum: window",
        DISTANCES,
        '"window": 24510',
        '"window": 24410',
        SUPREMUM,
    ),
    Mutant(
        "a distance below the supremum: window, again",
        DISTANCES,
        '"window, again": 27750',
        '"window, again": 27650',
        SUPREMUM,
    ),
    Mutant(
        "a distance below the supremum: plain",
        DISTANCES,
        '"plain": 22400',
        '"plain": 22300',
        SUPREMUM,
    ),
    Mutant(
        "a distance of logistic scores that is no bound",
        DISTANCES,
        "(2.25, 17964)",
        "(2.25, 17864)",
        BOUNDED,
    ),
    Mutant(
        "a distance of logistic scores of larger coefficients",
        DISTANCES,
        "(20.25, 23152)",
        "(21.25, 23152)",
        BOUNDED,
    ),
    Mutant(
        "squares that add to the distance of numbers",
        DISTANCES,
        "SQUARED: Final = 1.665",
        "SQUARED: Final = 1.7",
        (f"{APART_TESTS}::test_squares_of_numbers_add_nothing_to_their_distance",),
    ),
    Mutant(
        "the number 1 of persons costs nothing",
        DISTANCES,
        "whole * (rows > 0))",
        "whole * (rows > 9))",
        (f"{APART_TESTS}::test_squares_of_numbers_add_nothing_to_their_distance",),
    ),
    Mutant(
        "rows of persons are as near as one row",
        DISTANCES,
        "SHARES[k] == shares and rows < 2",
        "SHARES[k] == shares",
        UNPROVED,
    ),
    Mutant(
        "distances of scores with a scale for those without",
        DISTANCES,
        'if scaled == (k != "plain") and',
        "if",
        UNPROVED,
    ),
    Mutant(
        "a logistic score with a scale number is as close as one without",
        DISTANCES,
        "(family == codes.LOGISTIC and not scaled)",
        "(family == codes.LOGISTIC)",
        UNPROVED,
    ),
    Mutant(
        "offsets are no part of a device's predictor",
        "packages/field/privreg_field/wire/study.py",
        "if ask is None or self.offset is not None else",
        "if ask is None else",
        UNLIKE,
    ),
    Mutant(
        "offsets are no part of a predictor",
        "privreg/collector/aggregate/plan.py",
        "None if state is None or self.shifted else",
        "None if state is None else",
        ("tests/simulation/test_two_collectors.py::test_offsets_make_no_distance_smaller",),
    ),
    Mutant(
        "a state's radius is not checked",
        "packages/field/privreg_field/wire/collectors.py",
        "out.radius, plan.mu, plan.bits, square)",
        "1, plan.mu, plan.bits, square)",
        OF_STATES,
    ),
    Mutant(
        "a browser takes any state's radius",
        f"{WEB}/sums.js",
        "isPrivate(form, numbers, out.radius,",
        "isPrivate(form, numbers, 1,",
        OF_STATES_IN_BROWSERS,
    ),
    Mutant(
        "a browser's distance below the supremum",
        f"{WEB}/sums.js",
        "0.0232], 24278]",
        "0.0232], 24178]",
        OF_STATES_IN_BROWSERS,
    ),
    Mutant(
        "a browser's distance of logistic scores",
        f"{WEB}/sums.js",
        "[1, 17169]",
        "[1, 17069]",
        IN_BROWSERS,
    ),
    Mutant(
        "a device's score of any size",
        "packages/field/privreg_field/device/report/sums.py",
        "psi = score.clipped(score.unit(family, plan.a, plan.b, at, eta, y), -1.0, 1.0) * weight",
        "psi = score.unit(family, plan.a, plan.b, at, eta, y) * weight",
        CLIPPED,
    ),
    Mutant(
        "a device's slope beyond the threshold",
        "packages/field/privreg_field/device/report/sums.py",
        "sums.top) * weight * (not beyond)",
        "sums.top) * weight",
        CLIPPED,
    ),
    Mutant(
        "a score of any size",
        "privreg/collector/aggregate/report.py",
        "np.clip(unit(rules.shape, c, eta, y, rules.function), -1.0, 1.0) * weight / reach",
        "unit(rules.shape, c, eta, y, rules.function) * weight / reach",
        CLIPPED,
    ),
    Mutant(
        "a slope beyond the threshold",
        "privreg/collector/aggregate/report.py",
        "np.where(beyond, 0.0, np.clip(slopes(rules, c, eta, y), 0.0, rules.top)) * weight",
        "np.clip(slopes(rules, c, eta, y), 0.0, rules.top) * weight",
        CLIPPED,
    ),
    Mutant(
        "slopes of logits above a quarter",
        "packages/field/privreg_field/wire/study.py",
        "not (of.top >= 0.25 and",
        "not (of.top >= 0.1 and",
        ODD,
    ),
    Mutant(
        "lengths whose squares underflow",
        "packages/field/privreg_field/wire/collectors.py",
        "or out.reach < LEAST",
        "or out.reach <= 0.0",
        ODD,
    ),
    Mutant(
        "half a curator's distance",
        "privreg/protocol/lattice.py",
        "4 * a * b * rounded",
        "a * b * rounded",
        (f"{SHARED}::test_radii_of_sums_are_the_largest_that_keep_the_budget",),
    ),
    Mutant(
        "a curator's switches are rounded by blocks",
        "privreg/simulation/aggregate.py",
        "if one.form == lattice.SWITCHES:",
        "if False:",
        (
            "tests/simulation/test_curator.py"
            "::test_switches_of_a_record_move_a_rounded_sum_by_no_more_than_the_noise_is_for",
        ),
    ),
    Mutant(
        "rounds whose records weigh otherwise have one slope",
        "privreg/collector/aggregate/common.py",
        "steep * x @ x.T + constant * alike + np.diag(noise)",
        "steep * x @ x.T + constant + np.diag(noise)",
        (f"{CURVED}::test_rounds_whose_records_weigh_otherwise_keep_their_slopes",),
    ),
    Mutant(
        "a step along the slope at its end",
        "privreg/collector/aggregate/common.py",
        "at = np.vstack([0.5 * (x + near) if tilt is None else x, ",
        "at = np.vstack([x, ",
        (f"{CURVED}::test_secants_of_a_quadratic_score_are_exact",),
    ),
    Mutant(
        "rounds that differ by chance alone mark coefficients",
        "privreg/collector/aggregate/estimate.py",
        "np.where(gap > SURE * sd, self.part * gap, 0.0)",
        "self.part * gap",
        (f"{MARKS}::test_rounds_that_differ_by_more_than_chance_mark_what_they_differ_in",),
    ),
    Mutant(
        "rows between those of a fit without noise are public",
        "privreg/privacy/ledger.py",
        "(mu == math.inf and one.dense and one.part not in known.bare)",
        "(mu == math.inf and one.part not in known.bare)",
        ("tests/privacy/test_accounts.py::test_rows_between_those_that_were_fitted_without_noise_are_not_public",),
    ),
    Mutant(
        "one column of a fit without noise frees the others",
        "privreg/privacy/ledger.py",
        "if not all(public) and",
        "if not any(public) and",
        ("tests/privacy/test_accounts.py::test_rows_between_those_that_were_fitted_without_noise_are_not_public",),
    ),
    Mutant(
        "the slope at an estimate by rounds without weight",
        "privreg/collector/aggregate/common.py",
        "sum(p * s for p, (_, s) in zip(parts, each, strict=True))",
        "sum(s / rounds for _, s in each)",
        (f"{CURVED}::test_the_slope_at_an_estimate_is_of_rounds_that_have_weight",),
    ),
    Mutant(
        "slopes of exponential means that don't change between a state and its secant's end",
        "privreg/collector/aggregate/common.py",
        "return kept(slope, (out[0] + 4.0 * out[1] + out[2]) / 6.0, 0.5)",
        "return kept(slope, out[0], 0.5)",
        (f"{CURVED}::test_a_step_of_an_exponential_mean_leaves_no_square_of_it",),
    ),
    Mutant(
        "slopes of exponential means of which one factor is known",
        "privreg/collector/aggregate/common.py",
        "np.diag(f @ slope @ f.T)))[:2]",
        "np.diag(f @ slope @ f.T)))[:1]",
        (f"{CURVED}::test_slopes_of_an_exponential_mean_are_exact_in_cells_of_two_factors",),
    ),
    Mutant(
        "numbers without a third moment",
        "privreg/collector/aggregate/common.py",
        "at, chances = beta((mean - parts.lows[k]) / sd, (parts.highs[k] - mean) / sd)",
        "at, chances = beta(50.0, 50.0)",
        (f"{CURVED}::test_a_number_within_its_bounds_changes_slopes_as_its_third_moment_says",),
    ),
    Mutant(
        "slopes that are as certain as they have grown",
        "privreg/collector/aggregate/estimate.py",
        "asked = self._replace(bread=self.grown @ self.bread, root=self.grown @ self.root)",
        "asked = self",
        (f"{MARKS}::test_a_slope_that_grows_on_the_way_is_as_uncertain_as_where_rounds_asked",),
    ),
    Mutant(
        "slopes of logits that don't change on the way from a state",
        "privreg/collector/aggregate/common.py",
        "sizes = levels[:, None] * chance * ratios.T",
        "sizes = levels[:, None] * chance + 0.0 * ratios.T",
        (f"{CURVED}::test_slopes_of_cut_points_change_as_their_shares_do",),
    ),
    Mutant(
        "logits with an offset whose slopes change as if there were none",
        "privreg/collector/aggregate/common.py",
        "if gaps or plan.shifted or not",
        "if gaps or not",
        (f"{CURVED}::test_slopes_on_a_way_are_known_of_logits_without_offsets_and_of_exponential_means",),
    ),
    Mutant(
        "marks of an interval without events on what doesn't depend on it",
        "privreg/fits/aggregate.py",
        'note("perfect", those(entered), ways=ways, ',
        'note("perfect", those(entered), ',
        (
            "tests/simulation/test_hazards.py::"
            "test_an_interval_without_events_is_marked_and_as_a_rule_what_does_not_depend_on_it_is_not",
        ),
    ),
    Mutant(
        "slopes of a longer follow-up as if it ended whatever the coefficients",
        "privreg/families/hazards.py",
        "(weight[:, -1:] + falling / FALLS)",
        "weight[:, -1:]",
        (f"{HAZARDS}::test_slopes_of_longer_follow_up_are_those_of_scores_whatever_the_model",),
    ),
    Mutant(
        "slopes of late intervals by a shift of all of them",
        "privreg/families/hazards.py",
        "* (weight[:, -1:] + falling / FALLS)",
        "* weight[:, -1:] + event * upto / FALLS * falling",
        (f"{HAZARDS}::test_slopes_of_longer_follow_up_are_those_of_scores_whatever_the_model",),
    ),
    Mutant(
        "squared scores that are never more than slopes",
        "privreg/collector/aggregate/estimate.py",
        "return np.asarray((more - 1.0) / sd)",
        "return np.asarray((1.0 - more) / sd)",
        (f"{HAZARDS}::test_a_number_whose_log_hazard_is_no_line_in_it_is_marked_as_it_goes_with_follow_up",),
    ),
    Mutant(
        "largest score of a longer follow-up",
        "privreg/protocol/sums.py",
        "return most - 0.5 * FALLS, ",
        "return most - FALLS, ",
        (f"{HAZARDS}::test_people_followed_until_a_public_cumulative_hazard_have_a_mean_score_of_0_at_the_truth",),
    ),
    Mutant(
        "steps of hazards by slopes where rounds asked",
        "privreg/collector/aggregate/rounds.py",
        "None if plan.followed and again else",
        "None if plan.followed else",
        (f"{HAZARDS}::test_two_collectors_main_rounds_are_asked_near_large_ratios",),
    ),
    Mutant(
        "late intervals whose slopes change as those of others",
        "privreg/collector/aggregate/estimate.py",
        "step = root.step + bread @ _late(rounds, curved.mean, root.theta)",
        "step = root.step",
        (f"{HAZARDS}::test_late_intervals_alone_are_marked_where_nearly_everybody_has_had_the_event_before",),
    ),
    Mutant(
        "slopes where people are followed to the end anyway",
        "privreg/families/hazards.py",
        "edges[1:] > most - FALLS",
        "edges[1:] > 0.0",
        (f"{HAZARDS}::test_a_part_of_slopes_may_change_as_people_are_followed_for_another_time",),
    ),
    Mutant(
        "no slope is left on a way down",
        "privreg/collector/aggregate/common.py",
        "return kept(slope, (out[0] + 4.0 * out[1] + out[2]) / 6.0, 0.5), ",
        "return kept(slope, (out[0] + 4.0 * out[1] + out[2]) / 6.0, 0.0), ",
        (f"{CURVED}::test_half_of_a_slope_is_left_on_a_way_down",),
    ),
    Mutant(
        "a curator's early rounds of hazards that are off along all coefficients alike",
        "privreg/collector/aggregate/common.py",
        "among = 1.0 if plan.followed else float(d)",
        "among = float(d)",
        (f"{HAZARDS}::test_an_early_round_of_a_curator_may_be_off_along_one_number_alone",),
    ),
    Mutant(
        "hazards that start as if indicators were 0 and 1",
        "privreg/collector/aggregate/rounds.py",
        "(logs[1:] - logs[0]) / (plan.highs - plan.lows)[intervals]",
        "logs[1:] - logs[0]",
        ("tests/simulation/test_hazards.py::test_fits_start_at_each_interval_s_own_hazard",),
    ),
    Mutant(
        "levels that come first left out of those that may be predicted perfectly",
        "privreg/fits/aggregate.py",
        "for one in whitening.groups(design.sources, design.schema.levels, units.probe_inside(design.probe)):",
        "for one in ():",
        (
            "tests/simulation/test_hazards.py::"
            "test_levels_that_come_first_and_cells_of_factors_are_among_what_may_be_predicted_perfectly",
        ),
    ),
    Mutant(
        "a start of counts as if exposures were one",
        "privreg/collector/aggregate/rounds.py",
        "math.log(at) - plan.rate",
        "math.log(at)",
        (f"{CURVED}::test_a_start_of_counts_is_of_rates",),
    ),
    Mutant(
        "sensitivity B",
        MECHANISMS,
        "return 2.0 * bound\n",
        "return bound\n",
        (f"{REPORTS}::test_reports_of_records_are_no_farther_apart_than_claimed",),
    ),
    Mutant(
        "a plan of another budget than its model",
        "packages/field/privreg_field/study/reading/collected.py",
        "if not made(lambda: asks(fit, engine)):",
        "if False:",
        ("tests/field/test_hostile_plans.py::test_a_model_of_other_reports_than_devices_send_is_refused",),
    ),
    Mutant(
        "moments of sensitivity 1",
        MECHANISMS,
        "return math.sqrt(2.0) * bound",
        "return bound",
        (f"{NEIGHBOURS}::test_moment_reports_of_neighbours_are_root_two_apart_at_most_and_that_is_reached",),
    ),
    Mutant(
        "joint without its number",
        MECHANISMS,
        "math.hypot(score_sensitivity(bound), kappa)",
        "score_sensitivity(bound)",
        (f"{NEIGHBOURS}::test_joint_reports_of_neighbours_are_as_far_apart_as_claimed_and_never_farther",),
    ),
    Mutant(
        "a silo's share without its reach",
        "privreg/published/federated/plan.py",
        "0.5 * joint_sensitivity(clip, kappa)",
        "clip",
        (f"{SILOS}::test_whatever_a_silo_holds_what_is_randomised_lies_in_the_ball_that_the_noise_is_for",),
    ),
    Mutant(
        "bits of one",
        MECHANISMS,
        "return math.sqrt(numbers)\n",
        "return 1.0\n",
        (f"{NEIGHBOURS}::test_reports_of_places_of_neighbours_are_as_far_apart_as_claimed_and_never_farther",),
    ),
    Mutant(
        "radius of half",
        MECHANISMS,
        "return 0.5 * sensitivity if self.additive",
        "return 0.4 * sensitivity if self.additive",
        (f"{REPORTS}::test_scale_reports_lie_in_the_ball_they_are_randomised_in",),
    ),
    # noise
    Mutant(
        "a fifth less noise",
        MECHANISMS,
        "codes.GAUSSIAN, 2.0 / self.budget.mu",
        "codes.GAUSSIAN, 1.6 / self.budget.mu",
        ("tests/laws/test_mechanisms.py::test_noise_sds_are_those_of_the_sources",),
    ),
    Mutant(
        "Laplace by the l2 distance",
        MECHANISMS,
        "2.0 * math.sqrt(size) / self.epsilon",
        "2.0 / self.epsilon",
        ("tests/laws/test_mechanisms.py::test_noise_sds_are_those_of_the_sources",),
    ),
    Mutant(
        "response told too often",
        MECHANISMS,
        "1.0 / math.tanh(0.5 * self.epsilon)",
        "1.0 / math.tanh(0.6 * self.epsilon)",
        ("tests/laws/test_mechanisms.py::test_noise_sds_are_those_of_the_sources",),
    ),
    Mutant(
        "PrivUnit cap too likely",
        MECHANISMS,
        "accept = 1.0 / (1.0 + math.exp(-epsilon)",
        "accept = 1.0 / (1.0 + math.exp(-1.2 * epsilon)",
        ("tests/laws/test_mechanisms.py::test_densities_of_privunit_differ_by_e_to_the_epsilon",),
    ),
    Mutant(
        "curator's noise halved",
        MECHANISMS,
        "return 2.0 * bound / self.budget.mu if",
        "return bound / self.budget.mu if",
        ("tests/simulation/test_release.py::test_noise_of_the_release_has_the_stated_scale_and_is_independent",),
    ),
    Mutant("a piece with a fifth less noise", ENGINE, "total + sd * np.sqrt", "total + 0.8 * sd * np.sqrt", PIECE),
    Mutant(
        "a piece without noise",
        ENGINE,
        "noised, weight = self._noised(part), ",
        "noised, weight = self.raw.sum * STEP, ",
        PIECE,
    ),
    Mutant(
        "personal budgets without their root",
        ENGINE,
        "np.sqrt(self.open_weight)[..., None]",
        "self.open_weight[..., None]",
        PIECE,
    ),
    Mutant(
        "a smaller budget noised like the largest",
        MECHANISMS,
        "return 1.0 / shares",
        "return 1.0 + 0.0 * shares",
        ("tests/published/test_personal.py",),
    ),
    Mutant(
        "a joint scale that no noise is made for",
        "privreg/published/chain/plans.py",
        "joint_radius(self.norm, 0.5 * self.score.c**2)",
        "joint_radius(self.norm, 0.0)",
        ("tests/published/test_personal.py",),
    ),
    Mutant(
        "reports randomised in too small a ball",
        DEVICES,
        "before - centre, radius, noise)",
        "before - centre, 0.8 * radius, noise)",
        ALONE,
    ),
    Mutant(
        "measures with a fifth less noise",
        DEVICES,
        'plan.radius(role) / (root_of(weight) if role == "measures"',
        'plan.radius(role) * (0.8 if role == "measures" else 1.0) / (root_of(weight) if role == "measures"',
        MEASURES,
    ),
    Mutant(
        "measures that do not know personal budgets",
        DEVICES,
        'root_of(weight) if role == "measures" and',
        '1.0 if role == "measures" and',
        MEASURES,
    ),
    Mutant(
        "what bounds clamp randomised as a score is",
        "privreg/collector/plan.py",
        'if role in {"location", "clamping", "measures"}:',
        'if role in {"location", "measures"}:',
        (f"{RECORDS}::test_what_bounds_clamp_counts_for_no_more_than_its_noise_is_made_for",),
    ),
    Mutant(
        "clamping told of records that have nothing to tell",
        "privreg/simulation/streaming/stream.py",
        "rows.clamped * ~silent[:, None]",
        "rows.clamped",
        ("tests/simulation/test_clamping.py::test_every_source_tells_the_same_of_the_records_that_are_asked",),
    ),
    Mutant(
        "clamping told once more of people who come again",
        "privreg/simulation/streaming/stream.py",
        "rows.clamped * ~silent[:, None]",
        "rows.clamped * (~silent[:, None] if y.ndim == 1 else True)",
        (f"{PERSONS}::test_who_comes_again_reports_zeros",),
    ),
    Mutant(
        "answers of a killed call stay beside the diary",
        "packages/field/privreg_field/device/diary.py",
        "        _swept(self._beside)\n        try:",
        "        try:",
        ("tests/device/test_diary.py::test_answers_of_a_call_that_was_killed_are_gone_after_the_next",),
    ),
    Mutant(
        "people who come once are numbered by the stream, and so are those of a batch",
        "privreg/data/participants.py",
        "self.numbered = False",
        "self.numbered = True",
        (f"{PERSONS}::test_who_comes_again_reports_zeros",),
    ),
    Mutant(
        "late reports with a fifth less noise",
        ENGINE,
        "total + sd * np.sqrt",
        "total + (0.8 if self.delays else 1.0) * sd * np.sqrt",
        ARRIVALS,
    ),
    Mutant("late reports without noise", ENGINE, "or sd <= 0.0:", "or sd <= 0.0 or self.delays:", ARRIVALS),
    Mutant(
        "late reports noised twice",
        FIELD,
        "design.Batch(0, self.total[k], self.weight[k])",
        'design.Batch(0, self.total[k] + np.sqrt(self.weight[k])[..., None] * self.plan.sd("main"), self.weight[k])',
        (f"{LATE}::test_what_came_late_is_summed_as_it_was_noised",),
    ),
    Mutant(
        "arrivals that share their noise",
        ENGINE,
        "total.size).reshape(total.shape)",
        "total[0].size).reshape(total[0].shape)",
        ARRIVALS,
    ),
    # bounds
    Mutant(
        "a factor that is not clipped",
        PLAY,
        "    np.clip(factor, -inverse, inverse, out=factor)\n",
        "",
        (f"{RECORDS}::test_a_score_that_is_wrong_is_biased_and_stays_private",),
    ),
    Mutant(
        "rows longer than the longest are not shortened",
        PLAY,
        "inverse = np.minimum(inverse, 1.0 / state.longest)",
        "inverse = 0.0 * inverse + 1.0 / state.longest",
        (
            "tests/simulation/test_likelihood.py::"
            "test_reports_lie_in_the_ball_however_long_a_row_is_and_shorter_ones_are_divided_by_the_longest",
        ),
    ),
    Mutant(
        "score not shortened",
        KERNELS,
        "norm = abs(factor) * length",
        "norm = 0.0 * abs(factor) * length",
        ("tests/laws/test_scores.py::test_a_report_beyond_its_bound_is_shortened",),
    ),
    Mutant(
        "custom scores unclipped",
        "privreg/families/users.py",
        "np.clip(np.array(values), -1.0, 1.0)",
        "np.array(values)",
        ("tests/laws/test_scores.py::test_a_score_of_ones_own_beyond_its_bound_is_clipped",),
    ),
    Mutant(
        "robust counts over less than their largest size",
        "privreg/protocol/counts.py",
        "    a += c * (1.0 - total)\n    return (a - seen) / (c + abs(a))",
        "    a += c * (1.0 - total)\n    return (a - seen) / c",
        ("tests/laws/test_scores.py::test_unit_scores_lie_within_one_increase_and_reach_their_range",),
    ),
    Mutant(
        "bound before weight",
        KERNELS,
        "factor = _bounded(psi * omega, math.sqrt(norm2), bound)",
        "factor = _bounded(psi, math.sqrt(norm2), bound) * omega",
        ("tests/published/test_chain.py::test_fused_stream_equals_devices_and_collector",),
    ),
    Mutant(
        "curvature not shortened",
        KERNELS,
        "    factor = _bounded(factor, norm2, plan.curvature_bound)\n",
        "",
        ("tests/published/test_chain.py::test_fused_stream_equals_devices_and_collector",),
    ),
    # tables
    Mutant(
        "values of a table as its names",
        "privreg/formula/batches.py",
        "    exog = as_frame(exog)\n    if exog_names",
        "    if exog_names",
        (f"{INDEXES}::test_names_of_another_librarys_columns_are_its_names_and_no_values",),
    ),
    Mutant(
        "rows paired whatever their labels",
        "privreg/data/columns.py",
        "if not found[0][1].equals(index):",
        "if len(found[0][1]) != len(index):",
        (f"{INDEXES}::test_unlike_indexes_are_refused_by_both_names_and_without_a_label",),
    ),
    # nothing to tell
    Mutant(
        "rows that can't be used tell it",
        PLAY,
        "np.where(usable[:, None], z, 0.0), np.where(usable, inverse, 0.0)",
        "z, inverse",
        SILENT,
    ),
    Mutant(
        "responses that are missing tell it",
        PLAY,
        "    if not math.isfinite(float(factor.sum())):\n",
        "    if False:\n",
        SILENT,
    ),
    Mutant("places that are missing tell it", PLAY, "np.where(np.isnan(cube), 0.5, above)", "above", SILENT),
    # private response
    Mutant(
        "half the radius of a response", PLAY, "0.5 * (low + high), 0.5 * (h", "0.5 * (low + high), 0.25 * (h", RESPONSE
    ),
    Mutant("radius by the response itself", PLAY, ", 0.5 * (high - low)", ", 0.5 * np.abs(high - psi)", RESPONSE),
    Mutant("no middle of a response", PLAY, "middle, half = 0.5 * (low + high)", "middle, half = 0.0 * low", RESPONSE),
    Mutant("a response by its weight without a root", PLAY, "radius / root_of(weight)", "radius / weight", RESPONSE),
    # noise is drawn once, secret, and forgotten
    Mutant(
        "no ratchet of pieces",
        ENGINE,
        'derived_key(self.key, "following")',
        "self.key",
        (f"{ROUNDS}::test_a_key_tells_nothing_of_noise_that_was_used",),
    ),
    Mutant(
        "a piece's noise again",
        ENGINE,
        '            self.key = derived_key(self.key, "following")  # the key of noise that was used is forgotten\n'
        "        self.piece += 1\n",
        "            pass\n",
        ONCE,
    ),
    Mutant("blocks of the same noise", ENGINE, "{self.piece} {self.at // self.block + number}", "{self.piece}", ONCE),
    Mutant("pieces of the same key", WORKERS, 'f"piece {number} {k}"', 'f"piece {number}"', TASKS),
    Mutant(
        "a task's pieces of the same noise",
        WORKERS,
        "[None if key is None else key.value for key in keys]",
        "[None if keys[0] is None else keys[0].value for _ in keys]",
        (f"{BLOCKS}::test_every_piece_of_a_task_is_noised_by_its_own_key",),
    ),
    Mutant(
        "a worker's open piece",
        WORKERS,
        "        self.close()\n        whole = np.rint",
        "        whole = np.rint",
        (f"{BLOCKS}::test_what_comes_back_has_its_noise",),
    ),
    Mutant(
        "open pieces are told",
        ENGINE,
        "return Batch(self.begun, self.total.copy(), self.weight.copy())",
        "return Batch(self.begun, self.total + self.raw.sum[..., None, :, :] * STEP, self.weight.copy())",
        (f"{ROUNDS}::test_no_sum_without_noise_is_kept",),
    ),
    Mutant(
        "open pieces are forgotten",
        ENGINE,
        "        if close:\n            self.close()\n        out =",
        "        out =",
        (f"{ROUNDS}::test_a_fit_that_is_kept_goes_on_to_the_same_bits",),
    ),
    Mutant(
        "results without open pieces",
        ENGINE,
        "        self.close()\n        came, some =",
        "        came, some =",
        (f"{ROUNDS}::test_results_hold_what_is_open",),
    ),
    Mutant(
        "the key of open pieces is saved",
        "privreg/simulation/rounds.py",
        "        if close:\n            self.close()\n        return {} if",
        "        return {} if",
        (f"{ROUNDS}::test_a_key_tells_nothing_of_noise_that_was_used",),
    ),
    Mutant(
        "a saved stream keeps its key",
        "privreg/simulation/streaming/stream.py",
        "self._run.renew(fresh_key())  # before writing: were",
        "pass  # before writing: were",
        (f"{ROUNDS}::test_a_saved_stream_without_a_seed_spends_its_key_once",),
    ),
    Mutant(
        "a file keeps its key",
        "privreg/simulation/streaming/stream.py",
        "rest = {k: v for k, v in arrays.items() if k not in secrets}",
        "rest = arrays",
        (f"{ROUNDS}::test_a_saved_stream_without_a_seed_spends_its_key_once",),
    ),
    Mutant(
        "an interrupted update goes on",
        "privreg/simulation/streaming/stream.py",
        "self._broken = True  # an interrupt inside",
        "self._broken = False  # an interrupt inside",
        ("tests/simulation/test_stream.py::test_an_interrupted_update_ends_the_stream",),
    ),
    Mutant(
        "a stream whose results were interrupted goes on",
        "privreg/simulation/streaming/stream.py",
        "self._broken = True  # else",
        "self._broken = False  # else",
        ("tests/simulation/test_stream.py::test_results_that_are_interrupted_while_noise_is_drawn_end_the_stream",),
    ),
    Mutant(
        "no ratchet of blocks of noise",
        "privreg/privacy/noise.py",
        "return following, self._buffer",
        "return key, self._buffer",
        ("tests/privacy/test_noise.py",),
    ),
    Mutant(
        "noise not used up",
        "privreg/privacy/noise.py",
        "        self._used += rows\n\n    def draw",
        "        self._used += rows - 1\n\n    def draw",
        ("tests/privacy/test_noise.py",),
    ),
    Mutant(
        "forks draw the same",
        "privreg/privacy/noise.py",
        "if os.getpid() != process:",
        "if False:",
        (f"{ROUNDS}::test_a_forked_process_gets_no_noise",),
    ),
    # the device in a browser
    Mutant(
        "half the noise in a browser",
        f"{WEB}/answer.js",
        "v + roundedNormal(bits, words)",
        "v + roundedNormal(bits - 1, words)",
        (f"{PAGES}::test_noise_has_the_size_that_the_budget_asks_for",),
    ),
    Mutant(
        "a browser sends what it has not stored",
        f"{WEB}/memory.js",
        "return { result: true, put: entries.map(",
        "return { result: true, none: entries.map(",
        (f"{PAGES}::test_what_is_kept_is_the_noise_and_never_the_answers",),
    ),
    Mutant(
        "a browser keeps the answers",
        f"{WEB}/session.js",
        "state: state.number, receipt: null, body:",
        "state: state.number, receipt: null, answers, body:",
        (f"{PAGES}::test_what_is_kept_is_the_noise_and_never_the_answers",),
    ),
    Mutant(
        "a browser lets states go back",
        f"{WEB}/session.js",
        "if (back || other || torn) {",
        "if (other || torn) {",
        (f"{PAGES}::test_states_that_go_back_or_are_others_are_refused",),
    ),
    Mutant(
        "a browser looks at no signature",
        f"{WEB}/session.js",
        "if (named.has(kid) && (await verifying.verify(named.get(kid), message, sig))) good.add(kid);",
        "if (named.has(kid)) good.add(kid);",
        (f"{PAGES}::test_a_signature_over_other_bytes_is_refused",),
    ),
    Mutant(
        "a browser takes any radius",
        f"{WEB}/lattice.js",
        "return 2n * q * r <= noise;",
        "return q * r <= noise;",
        (f"{PAGES}::test_a_radius_that_doesnt_keep_the_budget_is_refused",),
    ),
    # devices in the field
    Mutant(
        "half the noise in the field",
        DEVICE,
        "v + rounded_normal(bits, words)",
        "v + rounded_normal(bits - 1, words)",
        FARTHEST,
    ),
    Mutant(
        "noise for a ball half as large",
        "privreg/protocol/lattice.py",
        "return 2 * q * radius <= noise",
        "return q * radius <= noise",
        APART,
    ),
    Mutant(
        "indicators in a ball",
        "privreg/protocol/lattice.py",
        "return numbers * (q * radius) ** 2 <= noise**2",
        "return (q * radius) ** 2 <= noise**2",
        APART,
    ),
    Mutant(
        "a number that costs nothing",
        "privreg/protocol/lattice.py",
        "5 * (q * radius) ** 2",
        "4 * (q * radius) ** 2",
        (f"{ANSWERS}::test_radii_are_the_largest_that_keep_the_budget",),
    ),
    Mutant(
        "rounding of matrices not counted",
        "privreg/protocol/lattice.py",
        "numbers * (4 if form == MOMENTS else 1)",
        "numbers * (4 if form == MOMENTS else 0)",
        (f"{SHARED}::test_radii_of_sums_are_the_largest_that_keep_the_budget",),
    ),
    Mutant(
        "switches of twice the radius",
        "privreg/protocol/lattice.py",
        "return q * radius <= noise\n",
        "return q * radius <= 2 * noise\n",
        (f"{SHARED}::test_radii_of_sums_are_the_largest_that_keep_the_budget",),
    ),
    Mutant(
        "one collector plays both",
        "packages/field/privreg_field/wire/collectors.py",
        "out[0][what] == out[1][what]",
        "what is None",
        (f"{SHARED}::test_one_collector_that_plays_both_is_refused",),
    ),
    Mutant(
        "truncation of moments not counted",
        "privreg/protocol/lattice.py",
        "numbers * (4 if form == MOMENTS else 1)",
        "numbers * (0 if form == MOMENTS else 1)",
        (f"{ANSWERS}::test_radii_are_the_largest_that_keep_the_budget",),
    ),
    Mutant(
        "what rounding leaves stays",
        DEVICE,
        "while square > radius * radius:",
        "while square > 2 * radius * radius:",
        (f"{ANSWERS}::test_what_rounding_leaves_is_taken_off_one_by_one_ties_to_the_first",),
    ),
    Mutant("directions of any length", DEVICE, "or not score.dot(u, u) <= 1.0 + score.NEAR_ONE", "", APART),
    Mutant(
        "signatures are not looked at",
        EXCHANGE,
        "kid in named and ed25519.verify(named[kid], message, sig)",
        "kid in named",
        (f"{VISITS}::test_a_forged_plan_is_refused",),
    ),
    Mutant(
        "states may go back",
        EXCHANGE,
        "if back or other or torn:",
        "if other or torn:",
        (f"{VISITS}::test_states_that_go_back_are_refused",),
    ),
    Mutant(
        "a report takes the place of one that was stored before",
        "packages/field/privreg_field/device/memory.py",
        "if any(db.execute(ours, (root, slug)).fetchone() for slug in reports):",
        "if False:",
        (f"{VISITS}::test_of_two_calls_at_once_one_report_is_kept",),
    ),
    Mutant(
        "budgets of a study's analyses add up to more than it says",
        "packages/field/privreg_field/wire/study.py",
        "if analyses.together((p.mu, p.part.people) for p in plans) > Fraction(*plans[0].together) ** 2:",
        "if False:",
        ("tests/field/test_analyses.py::test_plans_that_break_the_whole_budget_are_refused",),
    ),
    Mutant(
        "JavaScript: budgets of a study's analyses add up to more than it says",
        f"{WEB}/plan.js",
        " && kept(plans, within), ",
        ", ",
        ("tests/service/test_analyses.py::test_plans_of_analyses_that_python_refuses_are_refused",),
    ),
    Mutant(
        "an analysis has collectors or columns of its own, of which its people are not told",
        "packages/field/privreg_field/wire/analyses.py",
        "if members.keys() - OWN or OWN & common.keys():",
        "if members.keys() & common.keys():",
        ("tests/field/test_analyses.py::test_plans_that_break_the_whole_budget_are_refused",),
    ),
    Mutant(
        "JavaScript: an analysis has collectors or columns of its own, of which its people are not told",
        f"{WEB}/analyses.js",
        "own.every(([key]) => OWN.has(key)) && ",
        "",
        ("tests/service/test_analyses.py::test_plans_of_analyses_that_python_refuses_are_refused",),
    ),
    Mutant(
        "a device spends one analysis's budget for all",
        SESSION,
        "mu=plan.together,",
        "mu=plan.mu,",
        ("tests/service/test_analyses.py::test_a_device_answers_all_analyses_at_once",),
    ),
    Mutant(
        "weights of a table are not checked",
        "packages/field/privreg_field/wire/study.py",
        "if not kept or tables.distance2(plan.table, columns) > role.radius**2:",
        "if not kept:",
        ("tests/field/test_analyses.py::test_plans_that_break_the_whole_budget_are_refused",),
    ),
    Mutant(
        "a person whose study is split answers every analysis",
        SESSION,
        "p for p in plans if p.part.people[0] <= word < p.part.people[1]",
        "p for p in plans",
        ("tests/service/test_analyses.py::test_people_that_are_split_answer_one_analysis",),
    ),
    Mutant(
        "a new plan of a study asks under other names",
        EXCHANGE,
        "if not s.memory.plans(s.root, plans[0].study) <= set(hashes.values()):",
        "if False:",
        (f"{VISITS}::test_a_plan_that_changes_is_refused",),
    ),
    Mutant(
        "a study is answered again",
        SESSION,
        "if before and not dry_run:",
        "if False:",
        (
            f"{VISITS}::test_a_study_is_answered_once",
            f"{VISITS}::test_the_same_bytes_are_sent_again_even_if_the_state_has_moved_on",
        ),
    ),
    Mutant(
        "consent is not asked for",
        SESSION,
        'if not (agreed if isinstance(agreed, bool) else agreed(f"{asked}\\n\\n{QUESTION}")):',
        "if agreed is False:",
        (f"{VISITS}::test_without_consent_no_state_is_asked_for",),
    ),
    Mutant(
        "a device that nobody watches is silent because of what an answer is",
        SESSION,
        'if doubted and callable(agreed) and not agreed("\\n".join([*doubted, GO_ON])):',
        "if doubted:",
        (f"{VISITS}::test_whoever_agrees_beforehand_is_not_stopped_and_told_afterwards",),
    ),
    Mutant(
        "a radius is not checked",
        "packages/field/privreg_field/wire/study.py",
        "kept = lattice.is_private(role.form, role.numbers, role.radius, plan.mu, plan.bits, plan.distance2(name))",
        "kept = True",
        (f"{VISITS}::test_a_radius_too_large_is_refused_though_it_is_signed",),
    ),
    # devices and two collectors
    Mutant(
        "one collector's signature is enough",
        EXCHANGE,
        "if len(signed) < needed:",
        "if not signed:",
        (f"{PAIR}::test_a_state_that_one_collector_signed_is_refused",),
    ),
    Mutant(
        "a report is made afresh if one collector deleted its share",
        EXCHANGE,
        "    if not any(arrived):\n",
        "    if not all(arrived):\n",
        (f"{PAIR}::test_if_only_one_deleted_its_share_the_person_is_done",),
    ),
    Mutant(
        "whoever says that a share was deleted is believed",
        EXCHANGE,
        "payload = opened(body, kind, (plan.collectors[place].key,))",
        "payload = wire.open_envelope(body, kind).payload",
        (f"{PAIR}::test_nothing_is_made_afresh_because_of_a_forged_word",),
    ),
    Mutant(
        "another token's share was deleted",
        EXCHANGE,
        "(said.letter, said.state, said.ids) == (LETTERS[place], stored.state, stored.token[: messages.ID])",
        "said.letter == LETTERS[place]",
        (f"{PAIR}::test_nothing_is_made_afresh_because_of_a_forged_word",),
    ),
    Mutant(
        "an analyst is one of the two collectors",
        EXCHANGE,
        "if s.root in (one.key, one.seal):",
        "if False:",
        (f"{PAIR}::test_an_analyst_who_is_a_collector_is_refused",),
    ),
    Mutant(
        "a fresh report takes the place of one that is not deleted",
        "packages/field/privreg_field/device/memory.py",
        "AND body = x'' AND state < ?",
        "AND state <= ?",
        (f"{PAIR}::test_of_two_calls_at_once_one_fresh_report_is_sent",),
    ),
    Mutant(
        "a share is no secret",
        "packages/field/privreg_field/device/report/sums.py",
        "second = source(8 * len(a))",
        "second = bytes(8 * len(a))",
        ("tests/device/test_sums.py::test_shares_add_up_and_each_alone_is_what_was_drawn",),
    ),
    Mutant(
        "vectors for two collectors of any length",
        "packages/field/privreg_field/device/report/sums.py",
        "return shortened([round(v * unit) for v in entries], role.radius + math.isqrt(size) // 2 + 2)",
        "return [round(1.01 * v * unit) for v in entries]",
        ("tests/device/test_sums.py::test_whatever_is_told_is_in_the_roles_set",),
    ),
    Mutant(
        "shares are sealed to points of small order",
        "packages/field/privreg_field/device/seal.py",
        "    if not any(out):\n",
        "    if not out:\n",
        ("tests/device/test_seal.py::test_points_of_small_order_are_refused",),
    ),
    Mutant(
        "one-time keys are used twice",
        "packages/field/privreg_field/device/seal.py",
        "encapsulated(key, source(KEY))",
        "encapsulated(key, bytes(KEY))",
        ("tests/device/test_seal.py::test_another_library_opens_what_is_sealed",),
    ),
    Mutant(
        "JavaScript: one collector's signature is enough",
        f"{WEB}/session.js",
        "if (good.size >= needed) return payload;",
        "if (good.size) return payload;",
        (f"{PAIR_PAGES}::test_a_state_that_one_collector_signed_is_refused",),
    ),
    Mutant(
        "JavaScript: a report is made afresh if one collector deleted its share",
        f"{WEB}/session.js",
        "if (!arrived.includes(true)) {",
        "if (arrived.includes(false)) {",
        (f"{PAIR_PAGES}::test_if_only_one_deleted_its_share_the_person_is_done",),
    ),
    Mutant(
        "JavaScript: a share is no secret",
        f"{WEB}/shares.js",
        "const second = source(8 * a.length),",
        "const second = new Uint8Array(8 * a.length),",
        (f"{PAIR_PAGES}::test_shares_are_drawn_anew_and_say_nothing",),
    ),
    # who answers what
    Mutant(
        "a group by what a record holds",
        ENGINE,
        "some = cut(rows, a, b)\n            # not all",
        "at = np.argsort(rows.y[a:b])\n"
        "            some = Block._make(None if c is None else c[a:b][at] for c in rows)\n            # not all",
        (f"{ROUNDS}::test_chunks_change_no_bit",),
    ),
    Mutant(
        "a role by what a record holds",
        KERNELS,
        "is_curvature_turn(position, share):",
        "is_curvature_turn(position + int(y[i] > 0.0), share):",
        ("tests/published/test_chain.py::test_fused_stream_equals_devices_and_collector",),
    ),
    Mutant(
        "reports lost by what they hold",
        FIELD,
        "np.where(lost, 0.0,",
        "np.where(lost & (y > 0.0), 0.0,",
        (f"{LATE}::test_lost_reports_are_counted_by_round_and_independent_of_what_they_hold",),
    ),
    Mutant(
        "rows dealt by a key that anybody knows",
        "privreg/simulation/streaming/stream.py",
        'Key(derived_key(key, "order"))',
        "Key(bytes(32))",
        ("tests/simulation/test_order.py::test_without_a_seed_the_order_is_fresh_and_without_privacy_it_is_fixed",),
    ),
    Mutant(
        "blocks dealt by a key that anybody knows",
        WORKERS,
        "key = PUBLIC if stream.deal_key is None else stream.deal_key",
        "key = PUBLIC",
        (f"{BLOCKS}::test_every_row_is_played_once_in_an_order_that_the_key_chooses",),
    ),
    Mutant(
        "a part with a block too many",
        ENGINE,
        "min(end, self.length * (part + 1))",
        "min(end, self.length * (part + 1) + 1)",
        (f"{ROUNDS}::test_parts_are_runs_of_equal_length",),
    ),
    Mutant(
        "a part loses its last row",
        WORKERS,
        "first=a, rows=b - a)",
        "first=a, rows=b - a - 1)",
        (f"{BLOCKS}::test_row_groups_are_blocks_and_few_large_ones_are_cut",),
    ),
    Mutant(
        "a span begins a row late",
        "privreg/simulation/workers.py",
        "first=span.first + took,",
        "first=span.first + took + 1,",
        (f"{BLOCKS}::test_every_row_is_played_once_in_an_order_that_the_key_chooses",),
    ),
    # what a row may do
    Mutant(
        "no clamping",
        "privreg/data/columns.py",
        "else np.clip(values, low, high)",
        "else values",
        ("tests/formula/test_design.py::test_numbers_are_clamped_for_fitting_and_not_for_prediction",),
    ),
    Mutant(
        "an infinite cell",
        "privreg/data/cells.py",
        "return values if all_finite(values) else np.where",
        "return values if True else np.where",
        (f"{HOSTILE}::test_a_number_is_read_from_each_cell_alone",),
    ),
    Mutant(
        "an unknown level",
        "privreg/data/columns.py",
        "return np.maximum(out, GAP) if lowest < GAP else out",
        "return out",
        (f"{HOSTILE}::test_a_line_of_a_csv_file_spoils_itself_alone",),
    ),
    Mutant(
        "cells of a list read together",
        "privreg/data/cells.py",
        "    if kinds in ({float}, {int}, {bool}):",
        "    if True:",
        (f"{HOSTILE}::test_a_column_of_a_mapping_is_read_cell_by_cell",),
    ),
    Mutant(
        "rows of a list as wide as the first",
        "privreg/data/cells.py",
        "    rows = [row if len(row) == width else [None] * width for row in rows]\n",
        "    rows = [row for row in rows if len(row) == width]\n",
        (f"{HOSTILE}::test_a_row_of_a_list_of_rows_spoils_itself_alone",),
    ),
    Mutant(
        "a mask that is not looked at",
        "privreg/data/columns.py",
        "    column = unmasked(frame[label])\n",
        "    column = frame[label]\n",
        ("tests/data/test_edges.py::test_a_masked_cell_is_a_missing_value_in_every_kind_of_table",),
    ),
    Mutant(
        "rows' own numbers in the collector's database",
        "packages/field/privreg_field/service/store/tables.py",
        "    sqlite_with_rowid=False,  # rows'",
        "    sqlite_with_rowid=True,  # rows'",
        ("tests/service/test_sqlite.py::test_the_order_in_which_reports_came_is_kept_nowhere",),
    ),
    Mutant(
        "a chain that goes on without its state",
        "packages/field/privreg_field/service/scheduler.py",
        "                if not published:\n                    self.chain = before\n",
        "                pass\n",
        ("tests/service/test_store.py::test_a_state_that_could_not_be_published_is_published_later",),
    ),
    Mutant(
        "warnings silenced by several threads at once",
        "privreg/formula/language/rowwise.py",
        "        with _SILENT, np.errstate",
        "        with np.errstate",
        (f"{HOSTILE}::test_threads_leave_the_filters_of_warnings_as_they_are",),
    ),
    Mutant(
        "a function that fails for the records beside it",
        "privreg/formula/language/rowwise.py",
        "                        failed[k] = _fails(fill, slice(k, k + 1))",
        "                        failed[k] = True",
        (f"{HOSTILE}::test_a_function_that_would_end_the_process_spoils_its_row_alone",),
    ),
    Mutant(
        "a function that fails and says nothing of it",
        "privreg/formula/trees/evaluate.py",
        "without if without.any() else None",
        "None",
        (f"{HOSTILE}::test_a_function_that_would_end_the_process_spoils_its_row_alone",),
    ),
    Mutant(
        "a tree that is not finite",
        "privreg/formula/encoding.py",
        "fine = finite if fine is None else np.logical_and(fine, finite)",
        "fine = None",
        ("tests/formula/test_compile.py::test_a_row_whose_term_is_not_finite_has_nothing_to_report",),
    ),
    Mutant(
        "numbers as a reader types them",
        "privreg/data/cells.py",
        "    if isinstance(cell, str):\n        text",
        "    if False:\n        text",
        ("tests/laws/test_cells.py::test_which_texts_are_numbers_and_which_levels",),
    ),
    Mutant(
        "bad bytes are an error",
        "privreg/data/sources/arrow.py",
        'cell.decode("utf-8", "replace")',
        'cell.decode("utf-8")',
        (f"{HOSTILE}::test_a_line_of_a_csv_file_spoils_itself_alone",),
    ),
    Mutant(
        "an open quote takes in the next lines",
        "privreg/data/sources/csv.py",
        "if table.num_rows == lines + quoted:",
        "if True:",
        ("tests/data/test_csv.py::test_two_lines_that_quotes_would_make_one_are_two",),
    ),
    Mutant(
        "a long line is read",
        "privreg/data/sources/csv.py",
        "if last in table.column_names:",
        "if False:",
        (f"{HOSTILE}::test_a_line_of_a_csv_file_spoils_itself_alone",),
    ),
    Mutant(
        "an empty field of a CSV file is missing",
        "privreg/data/sources/csv.py",
        "null_values=_MISSING,",
        "null_values=_MISSING, strings_can_be_null=True,",
        ("tests/laws/test_cells.py::test_a_cell_means_the_same_from_every_source",),
    ),
    Mutant(
        "decimal commas are read by columns",
        "privreg/data/sources/csv.py",
        "if c in commas and array.type != pa.float64():",
        "if False:",
        ("tests/laws/test_cells.py::test_a_decimal_comma_is_read_in_each_cell_alone",),
    ),
    Mutant(
        "pieces come in an order that anybody knows",
        "privreg/data/sources/source.py",
        "partial(dealt, PUBLIC if key is None else key)",
        "partial(dealt, PUBLIC)",
        (
            "tests/data/test_order.py::test_pieces_that_cannot_be_held_together_come_at_random_each_once_from_any_row_on",
        ),
    ),
    Mutant(
        "a curator's curvature of sensitivity 1",
        "privreg/published/descent/theory.py",
        "return math.sqrt(2.0) * steepest",
        "return steepest",
        (f"{IDENTIFIED}::test_sums_of_curvature_of_neighbours_are_as_far_apart_as_claimed_and_never_farther",),
    ),
    Mutant(
        "a curator's curvature with half the noise",
        "privreg/published/descent/results.py",
        "out[places] = sd / math.sqrt(2.0)",
        "out[places] = 0.5 * sd / math.sqrt(2.0)",
        (f"{IDENTIFIED}::test_the_matrix_carries_the_noise_of_its_budget",),
    ),
    Mutant(
        "a curator's curvature for nothing",
        "privreg/published/descent/plan.py",
        "* math.sqrt(steps) / budget.mu / rest",
        "* math.sqrt(steps) / budget.mu",
        (f"{IDENTIFIED}::test_curvature_and_descent_compose_to_the_budget",),
    ),
    Mutant(
        "a curator drops records",
        "privreg/published/descent/descent.py",
        "        x[silent] = 0.0  # adds",
        "        x, y = x[~silent], y[~silent]  # adds",
        (f"{HOSTILE}::test_no_record_changes_whether_a_fit_fails[descent-plain]",),
    ),
    Mutant(
        "parts that are no number",
        "privreg/formula/language/parse.py",
        "not np.all(np.abs(known) <= LARGEST)",
        "False",
        (f"{HOSTILE}::test_a_part_without_columns_that_is_no_number_is_refused",),
    ),
    Mutant(
        "rows looked at together",
        "privreg/formula/design.py",
        "                return None\n        if not parsed.functions:",
        "                continue\n        if True:",
        ("tests/formula/test_checks.py",),
    ),
    # people and accounts
    Mutant(
        "one row too many",
        "privreg/data/participants.py",
        "out[order] = rank >= self.most",
        "out[order] = rank > self.most",
        ("tests/data/test_people.py::test_rows_beyond_the_first_of_their_person",),
    ),
    Mutant(
        "a row without an id counts",
        "privreg/data/participants.py",
        "        out[hashes == NOBODY] = True\n",
        "",
        ("tests/data/test_people.py::test_rows_without_an_id_are_nobodys",),
    ),
    Mutant(
        "a large id is another person's beside one that is missing",
        "privreg/data/participants.py",
        "series = series.astype(object)",
        "series = series.astype(float)",
        ("tests/data/test_people.py::test_a_large_id_is_the_same_persons_beside_one_that_is_missing",),
    ),
    Mutant(
        "an id that was rounded counts",
        "privreg/data/participants.py",
        "exact = np.abs(values) < 2.0 ** min(np.finfo(values.dtype).nmant + 1, 53)",
        "exact = np.isfinite(values)",
        ("tests/data/test_people.py::test_an_id_that_was_rounded_is_nobodys",),
    ),
    Mutant(
        "budgets above the ceiling",
        "privreg/data/participants.py",
        "check_all(budgets > self.mu_max, above)",
        "pass",
        ("tests/data/test_people.py::test_wrong_calls",),
    ),
    Mutant(
        "releases don't add up",
        "privreg/privacy/budget.py",
        "return math.sqrt(math.fsum(m * m for m in mus))",
        "return max(mus, default=0.0)",
        ("tests/privacy/test_ledger.py::test_ledger_adds_up_releases_and_forgets_gone_objects",),
    ),
    Mutant(
        "nothing is entered",
        "privreg/privacy/ledger.py",
        "                met.enter(of, self._entries(here, self._count, mu))\n",
        "",
        ("tests/privacy/test_ledger.py::test_ledger_adds_up_releases_and_forgets_gone_objects",),
    ),
    Mutant(
        "a release is entered after its first report",
        "privreg/simulation/streaming/stream.py",
        "                        if self.charge is not None and not self.again:\n"
        "                            self.charge.enter()\n"
        "                        for some in rows if self._gather is None else self._gather.take(rows):\n"
        "                            self._take(some, read)\n",
        "                        for some in rows if self._gather is None else self._gather.take(rows):\n"
        "                            self._take(some, read)\n"
        "                        if self.charge is not None:\n"
        "                            self.charge.enter()\n",
        (f"{SPENDING}::test_a_release_is_entered_before_its_first_report_and_never_taken_back",),
    ),
    Mutant(
        "a second noise for the same rows counts as the first",
        "privreg/privacy/ledger.py",
        "hashlib.sha256(before.encode() + noise)",
        "hashlib.sha256(before.encode())",
        (f"{SPENDING}::test_a_copy_of_a_checkpoint_counts_by_its_noise",),
    ),
    Mutant(
        "a slice of an Arrow table is other people",
        "privreg/privacy/accounts.py",
        "    if kind.num_fields or len(buffers) < 2 or buffers[1] is None:\n",
        "    if len(buffers) < 9:\n",
        ("tests/laws/test_views.py::test_a_view_is_the_people_it_is_of",),
    ),
    Mutant(
        "a memoryview is other people than the array it looks into",
        "privreg/privacy/accounts.py",
        "        return np.asarray(memoryview(data))\n",
        "        return None\n",
        ("tests/laws/test_views.py::test_what_looks_into_the_memory_of_an_array_is_known_as_it",),
    ),
    Mutant(
        "a buffer of bytes ends with its view",
        "privreg/privacy/accounts.py",
        "kept = None if last is None or tells else root",
        "kept = None if last is None or isinstance(last, bytes | bytearray) else root",
        ("tests/privacy/test_accounts.py::test_a_buffer_is_known_after_its_view_has_gone",),
    ),
    Mutant(
        "views of a buffer of bytes are other people",
        "privreg/privacy/accounts.py",
        "        spans = (*held, *",
        "        spans = (*(), *",
        ("tests/privacy/test_accounts.py::test_all_views_of_a_buffer_are_the_same_people",),
    ),
    Mutant(
        "a query of a table in memory is a table",
        "privreg/privacy/accounts.py",
        "        return Accounts(tuple(watched), lost=True)\n",
        "        return Accounts(tuple(watched), whole=True)\n",
        ("tests/laws/test_views.py::test_rows_of_which_nothing_tells_whose_they_are_are_refused",),
    ),
    Mutant(
        "a mapping of columns that nothing tells of is counted",
        "privreg/privacy/accounts.py",
        "columns.entries], lost)\n",
        "columns.entries])\n",
        ("tests/laws/test_views.py::test_rows_of_which_nothing_tells_whose_they_are_are_refused",),
    ),
    Mutant(
        "memory that others share is forgotten with what was fitted",
        "privreg/privacy/ledger.py",
        "stays=one.owner is None or (one.kept is not None and not seeded)",
        "stays=one.owner is None",
        ("tests/laws/test_views.py::test_nothing_is_taken_for_memory_that_is_gone_nor_forgotten_while_a_view_lives",),
    ),
    Mutant(
        "batches of a stream are charged for each other",
        "privreg/privacy/ledger.py",
        "if less or (stream and not one.shared)]",
        "if less or stream]",
        (f"{SPENDING}::test_batches_of_a_stream_are_entered_each_once",),
    ),
    Mutant(
        "a release that costs more than it did is not entered again",
        "privreg/privacy/ledger.py",
        "cost is None or compose(cost) < least",
        "cost is None or compose(cost) < 0.0 * least",
        ("tests/privacy/test_ledger.py::test_a_release_that_costs_more_than_it_did_is_entered_and_checked_again",),
    ),
    Mutant(
        "rounds far from the estimate say an extra parameter by the noise of its number alone",
        "privreg/collector/aggregate/estimate.py",
        "    if rounds.plan.rules.cornered and rounds.plan.rules.scoring.extra:\n        for k",
        "    if rounds.plan.rules.cornered and not rounds.plan.rules.scoring:\n        for k",
        ("tests/families/test_tobit.py::test_a_round_far_from_the_estimate_hardly_says_sigma",),
    ),
    Mutant(
        "a time below 0 has no place in reports of rows that are to be complete",
        "privreg/means/plan.py",
        "people.id is not None or followed",
        "people.id is not None",
        ("tests/means/test_survival.py::test_a_time_below_0_is_in_the_report_as_any_other_is",),
    ),
    Mutant(
        "people who are in a release twice pay once where it costs more",
        "privreg/privacy/ledger.py",
        "mu * math.sqrt(one.times) * (1.0 - 1e-12)",
        "mu * (1.0 - 1e-12)",
        ("tests/privacy/test_ledger.py::test_people_who_are_in_a_release_twice_are_charged_twice_where_it_costs_more",),
    ),
    Mutant(
        "a way by the model alone leaves no mark, however far",
        "privreg/collector/aggregate/estimate.py",
        "step = step + SPREAD * np.asarray(bread @ way)",
        "step = step + 0.0 * np.asarray(bread @ way)",
        ("tests/families/test_tobit.py::test_what_the_model_has_carried_far_is_marked",),
    ),
    Mutant(
        "slopes by the parameter that reports say are not taken from what the model says",
        "privreg/collector/aggregate/extra.py",
        "(slope * way + wide * log) / (2.0 * STEP))",
        "(slope * way + 0.0 * wide * log) / (2.0 * STEP))",
        ("tests/families/test_tobit.py::test_a_round_that_is_asked_far_from_the_truth_is_led_there",),
    ),
    Mutant(
        "slopes that the model takes from reports are those if a round's state is the truth",
        "privreg/collector/aggregate/extra.py",
        "here + by, there + to, truth)[2]",
        "here + by, (here if by or wider else there) + to, at if by or wider else truth)[2]",
        ("tests/families/test_tobit.py::test_a_round_that_is_asked_far_from_the_truth_is_led_there",),
    ),
    Mutant(
        "the curvature that rounds share is taken for each round's slope",
        "privreg/collector/aggregate/extra.py",
        "off = model.shares @ alone - alone",
        "off = 0.0 * alone",
        ("tests/families/test_tobit.py::test_a_round_that_is_asked_far_from_the_truth_is_led_there",),
    ),
    Mutant(
        "columns of a table are other people once they are by themselves",
        "privreg/privacy/ledger.py",
        "                known.people = first\n",
        "                pass\n",
        ("tests/privacy/test_accounts.py::test_columns_that_were_in_one_table_are_the_same_people_from_then_on",),
    ),
    Mutant(
        "of releases from columns of a table only those from one of them count",
        "privreg/privacy/ledger.py",
        "                    met[id(known.people)] = known.people\n",
        "                    met = {id(known.people): known.people}\n",
        ("tests/privacy/test_accounts.py::test_columns_that_were_in_one_table_are_the_same_people_from_then_on",),
    ),
    Mutant(
        "a limit doesn't ask what groups cost together",
        "privreg/privacy/ledger.py",
        "        for people in self._joined(known):\n",
        "        for people in _by_group(known):\n",
        ("tests/privacy/test_accounts.py::test_a_limit_holds_for_people_whom_a_release_makes_the_same",),
    ),
    Mutant(
        "a batch of others is free once its stream has begun",
        "privreg/privacy/ledger.py",
        "            if here and (math.inf in spent or",
        "            if here and not calls and (math.inf in spent or",
        ("tests/privacy/test_accounts.py::test_a_limit_holds_for_people_whom_a_release_makes_the_same",),
    ),
    Mutant(
        "rows beside others that were fitted without noise are public",
        "privreg/privacy/ledger.py",
        "if not all(public) and any(0.0 < mu < math.inf for mu in costs):",
        "if 0.0 < compose(costs) < math.inf:",
        ("tests/privacy/test_accounts.py::test_rows_beside_others_without_noise_are_not_public",),
    ),
    Mutant(
        "a name is nobody's",
        "privreg/privacy/accounts.py",
        "(*found.entries, *more)",
        "found.entries",
        ("tests/privacy/test_datasets.py::test_releases_of_one_name_add_up_at_every_door",),
    ),
    Mutant(
        "a saved file is unpacked whatever it holds",
        "privreg/base/archive.py",
        "        if sum(sizes.values()) - sizes[_DOCUMENT] > 8 * numbers + 256 * len(sizes):\n",
        "        if False:\n",
        ("tests/base/test_bombs.py::test_what_no_document_needs_is_refused_before_it_is_read",),
    ),
    Mutant(
        "a limit that doesn't hold",
        "privreg/privacy/ledger.py",
        "        if total <= limit * (1 + 1e-12):",
        "        if total <= 2 * limit:",
        ("tests/privacy/test_ledger.py::test_a_limit_refuses_before_anything_is_spent",),
    ),
    # inference
    Mutant(
        "a block off by one",
        "privreg/published/chain/path.py",
        "sums=blocks.sums[1::2]",
        "sums=blocks.sums[::2]",
        ("tests/published/test_blocks.py",),
    ),
    Mutant(
        "bootstraps leave out what is not known of curvature",
        "privreg/fits/rounds.py",
        "Estimate(m.name, seen.cov + unknown, pivot)",
        "Estimate(m.name, seen.cov + (unknown if isinstance(pivot, StudentT) else 0.0), pivot)",
        (
            "tests/collector/inference/test_paths.py::test_bootstraps_count_what_is_not_known_of_the_curvature_as_batch_means_do",
        ),
    ),
    Mutant(
        "what is not known of curvature is left out",
        "privreg/collector/estimation/combination.py",
        "inverse @ left @ inverse + unknown, weights",
        "inverse @ left @ inverse, weights",
        ("tests/collector/test_curvature.py::test_estimates_are_without_bias_and_cover",),
    ),
    Mutant(
        "what noise adds where curvature is not known is left out",
        "privreg/collector/estimation/combination.py",
        "unknown = unknown + TAILS * _noise_by_curvature(inverse, draws[: len(draws) // 2] - curvature.mean, left)",
        "pass",
        ("tests/collector/test_curvature.py::test_noise_is_carried_by_a_curvature_that_is_not_known",),
    ),
    Mutant(
        "truth values of pandas are known by their type",
        "privreg/data/sources/open.py",
        """[held for _, held in table_of(data).holders() if comes_from(held, "pyarrow", "Schema")]""",
        """[__import__("pyarrow").Schema.from_pandas(data)] if hasattr(data, "dtypes") else []""",
        ("tests/data/test_carried.py::test_truth_values_of_pandas_are_refused_in_the_same_words_whatever_is_missing",),
    ),
    Mutant(
        "offsets are not stretched",
        "privreg/collector/rounds.py",
        "        out = out @ progress.stretch\n",
        "        pass\n",
        ("tests/simulation/test_rounds_use.py::test_groups_answer_farther_apart_where_there_is_little_curvature",),
    ),
    Mutant(
        "a device adds no offsets of its group",
        "packages/field/privreg_field/wire/messages.py",
        "return [t + o for t, o in zip(self.theta, self.offsets[group], strict=True)]",
        "return list(self.theta)",
        ("tests/protocol/test_messages.py::test_coefficients_of_groups_may_differ_by_numbers_of_their_own",),
    ),
    Mutant(
        "what offsets add is not taken off",
        "privreg/collector/estimation/combination.py",
        "(mean - bias) @ map_.T",
        "mean @ map_.T",
        ("tests/collector/test_reference_model.py::test_what_offsets_add_to_a_round_s_reports_is_taken_off",),
    ),
    Mutant(
        "covariates are taken to be as wide as their second moments say",
        "privreg/collector/estimation/combination.py",
        "                far = SPREAD * coordinates.unbound(plan, progress, last)\n",
        "                far = np.zeros(len(more))\n",
        ("tests/collector/test_reference_model.py",),
    ),
    Mutant(
        "few records may lie as far out of a number whose bounds are near",
        "privreg/collector/estimation/coordinates.py",
        "out[numbers] = (room / np.maximum(FAR * even + room, 1e-300))[numbers]",
        "out[numbers] = 1.0",
        ("tests/collector/test_reference_model.py",),
    ),
    Mutant(
        "a skewed number is as sure as one whose mean is in the middle of its bounds",
        "privreg/collector/estimation/coordinates.py",
        "np.maximum(FAR * even + room, 1e-300)",
        "np.maximum(FAR + room, 1e-300)",
        ("tests/collector/test_reference_model.py",),
    ),
    Mutant(
        "all directions are taken to follow reports alike",
        "privreg/collector/estimation/curvature.py",
        "GAIN * np.eye(q) if gain is None else gain, ",
        "GAIN * np.eye(q), ",
        ("tests/collector/test_curvature.py",),
    ),
    Mutant(
        "what isn't known of curvature counts to first order",
        "privreg/collector/estimation/combination.py",
        "transpose(0, 2, 1)).mean(axis=0) + bent + bent.T",
        "transpose(0, 2, 1)).mean(axis=0)",
        ("tests/collector/test_curvature.py::test_noise_is_carried_by_a_curvature_that_is_not_known",),
    ),
    Mutant(
        "a noisy standard error is as good as a known one",
        "privreg/collector/estimation/combination.py",
        "(1.0 + 1.959963984540054**2) / 3.0",
        "1.0 / 3.0",
        ("tests/collector/test_curvature.py::test_normal_quantiles_serve_where_a_standard_error_is_noisy",),
    ),
    Mutant(
        "products of the law's covariates are numbers of their own",
        "privreg/collector/estimation/coordinates.py",
        "if not plan.columns.made:",
        "if plan.columns.made or not plan.columns.made:",
        ("tests/collector/test_estimate.py::test_the_law_s_records_have_products_that_are_products",),
    ),
    Mutant(
        "directions alone tell moments, whatever is asked",
        "privreg/collector/covariates/moments.py",
        "out[0] *= math.sqrt(constant2)",
        "out[0] *= 1.0",
        (
            "tests/collector/test_pilots.py::test_rows_that_mostly_lie_in_a_plane_are_not_stretched_without_end",
            "tests/collector/test_estimate.py::test_intervals_hold_where_most_records_lie_in_a_plane",
        ),
    ),
    Mutant(
        "rows are as long however rare a level is",
        "privreg/collector/estimation/coordinates.py",
        "else _needed(plan, scatter) - others",
        "else 0.0",
        ("tests/collector/test_estimate.py::test_slopes_of_levels_are_told_with_few_in_one_of_them",),
    ),
    Mutant(
        "what is compared with a rare reference level passes",
        "privreg/fits/findings.py",
        "few[j] = low[j] if tied[j] else mine[j]",
        "few[j] = low[j]",
        ("tests/results/test_reliability.py::test_a_rare_reference_level_takes_back_all_that_is_compared_with_it",),
    ),
    Mutant(
        "columns that were stretched too far stay so",
        "privreg/collector/covariates/moments.py",
        "rows[j] *= DRAWN_IN * widened / span(scatter, j)",
        "rows[j] *= 1.0",
        ("tests/collector/test_estimate.py::test_a_stretched_column_is_brought_to_a_width_that_reports_tell",),
    ),
    Mutant(
        "covariates of the law go beyond their bounds",
        "privreg/collector/estimation/coordinates.py",
        "points = bounded(points, whitener, _numbers(plan, shares), constant=constant)",
        "",
        ("tests/collector/test_estimate.py::test_an_even_covariate_s_stand_ins_keep_within_its_bounds",),
    ),
    Mutant(
        "secants of asymmetric scores are not of differences",
        "privreg/collector/estimation/reference.py",
        "if model.rules.centre != 0.0 or model.rules.scoring.counts:",
        "if False:",
        ("tests/collector/test_reference_model.py::test_secants_of_states_near_the_truth_are_near_the_tangent",),
    ),
    Mutant(
        "what is left of locations' way is lost in noise",
        "privreg/collector/covariates/moments.py",
        "out[at] += part * whitening.keep(part, noise)",
        "out[at] = deviation[at] * cells.keep(deviation[at], noise)",
        (
            "tests/collector/test_pilots.py::"
            "test_what_is_left_of_many_locations_way_is_believed_though_each_is_lost_in_noise",
        ),
    ),
    Mutant(
        "coefficients are counted of one linear predictor",
        "privreg/simulation/tuning.py",
        "if spec.blocks * p > WIDE and",
        "if p > WIDE and",
        ("tests/simulation/test_many_coefficients.py::test_every_door_refuses_more_and_says_why",),
    ),
    Mutant(
        "public covariates have no more coefficients",
        "privreg/simulation/tuning.py",
        " > WIDE and not spec.scalar:",
        " > WIDE:",
        ("tests/simulation/test_many_coefficients.py::test_sums_and_public_covariates_have_more",),
    ),
    Mutant(
        "of many coefficients a multiple alone is learned",
        "privreg/collector/estimation/curvature.py",
        "mean * np.eye(q) + 0.5 * (deviation + deviation.T)",
        "mean * np.eye(q)",
        ("tests/collector/test_curvature.py",),
    ),
    Mutant(
        "outer quantiles are estimated from the pilot, too",
        "privreg/collector/estimation/combination.py",
        " or rules.centre != 0.0 or",
        " or",
        ("tests/collector/test_estimate.py::test_quantiles_but_the_median_are_estimated_from_main_rounds_alone",),
    ),
    Mutant(
        "groups answer as far apart along a number that few records have",
        "privreg/collector/estimation/coordinates.py",
        "near = 1.0 - np.abs(x.mean(axis=0)) < AT_BOUND * x.std(axis=0)",
        "near = np.zeros(plan.d, dtype=np.bool_)",
        ("tests/collector/test_estimate.py::test_intervals_hold_for_a_number_that_few_records_have",),
    ),
    Mutant(
        "the law alone tells how reports scatter",
        "privreg/collector/estimation/estimate.py",
        "        total = total + left.T @ left\n        freedom += len(weight) - 1.0\n",
        "",
        (
            "tests/collector/test_estimate.py::test_how_reports_scatter_is_in_the_covariance_as_far_as_the_law_may_be_wrong",
        ),
    ),
    Mutant(
        "groups' offsets count as scatter of reports",
        "privreg/collector/estimation/estimate.py",
        " - (answered.x @ m)[np.nonzero(heard)[1]]",
        "",
        (
            "tests/collector/test_estimate.py::test_how_reports_scatter_is_in_the_covariance_as_far_as_the_law_may_be_wrong",
        ),
    ),
    Mutant(
        "studies of other keys and groups don't count in a year",
        "packages/field/privreg_field/device/memory.py",
        "squares([*_budgets(db, _YEAR, clock - YEAR), budget]) > total",
        "own**2 > total",
        (f"{VISITS}::test_what_was_agreed_to_is_what_may_be_spent",),
    ),
    Mutant(
        "a device asks for more than its total of a year",
        SESSION,
        "if squares(year) > s.limits.total**2:",
        "if False:",
        (f"{VISITS}::test_all_studies_share_a_budget_whatever_their_keys_and_groups",),
    ),
    Mutant(
        "a study's times end a device's year",
        "packages/field/privreg_field/device/memory.py",
        'WHERE clock > ? AND p > 0"',
        'WHERE time > ? AND p > 0"',
        (f"{VISITS}::test_no_time_that_a_study_claims_lets_a_device_forget_or_remember",),
    ),
    Mutant(
        "JavaScript: studies of other keys and groups don't count in a year",
        f"{WEB}/session.js",
        "if (!within(this.year, [limits.total])) {",
        "if (false) {",
        (f"{PAGES}::test_all_studies_share_a_budget_whatever_their_keys_and_groups",),
    ),
    Mutant(
        "JavaScript: more is spent than was agreed to",
        f"{WEB}/memory.js",
        "if (!within([report.mu, ...yearOf(all.values(), report.clock)], agreed)) return { result: false };",
        "",
        (f"{PAGES}::test_what_was_agreed_to_is_what_may_be_spent",),
    ),
    Mutant(
        "a plan's texts may have what isn't seen",
        "packages/field/privreg_field/wire/wire.py",
        '        must_show([value], f"{name!r} of {self.what}", lines=lines)\n',
        "",
        (f"{VISITS}::test_what_is_not_seen_is_refused_and_shown_as_a_code_if_it_comes_anyway",),
    ),
    Mutant(
        "JavaScript: a plan's texts may have what isn't seen",
        f"{WEB}/wire.js",
        " && isSeen(v, lines));",
        ");",
        (f"{PAGES}::test_what_is_not_seen_is_refused",),
    ),
    Mutant(
        "a study's text stands as the device's",
        "packages/field/privreg_field/device/consent.py",
        'return [f"  | {line}".rstrip() for line in out]',
        "return out",
        (f"{VISITS}::test_the_studys_text_is_seen_to_be_its_own_and_the_guarantee_comes_last",),
    ),
    Mutant(
        "a diary's report is made before the day on which everybody's is, which tells of its rows",
        "packages/field/privreg_field/device/session.py",
        "if s.clock() < plans[0].diary.until:",
        "if s.clock() < plans[0].diary.until and len(rows) < plans[0].diary.rows:",
        (
            "tests/device/test_diary.py::test_when_a_report_is_made_and_how_large_it_is_say_nothing_of_how_many_rows_there_are",
        ),
    ),
    Mutant(
        "a server is asked whenever a row is added to a diary",
        EXCHANGE,
        'signed = kept or _got(s, "/plan", "the plan", until)',
        'signed = _got(s, "/plan", "the plan", until)',
        ("tests/device/test_diary.py::test_rows_are_kept_until_the_day_of_reports_and_make_one",),
    ),
    Mutant(
        "of rows that are added to a diary at the same time some are lost",
        "packages/field/privreg_field/device/diary.py",
        "os.O_WRONLY | os.O_CREAT | os.O_EXCL",
        "os.O_WRONLY | os.O_CREAT",
        ("tests/device/test_diary.py::test_calls_at_the_same_time_lose_no_row",),
    ),
    Mutant(
        "a diary that was never begun makes the one report",
        "packages/field/privreg_field/device/session.py",
        "            if kept is None:\n",
        "            if False:\n",
        ("tests/device/test_diary.py::test_rows_are_kept_until_the_day_of_reports_and_make_one",),
    ),
    Mutant(
        "rows of a person count whole, each",
        "packages/field/privreg_field/device/report/answer.py",
        "part = weight / ((len(out) or 1) if diary.mean else diary.slots(plan.family))",
        "part = weight",
        ("tests/device/test_diary.py::test_shares_of_adversarial_rows_are_in_their_roles_sets",),
    ),
    # collectors, and who reads them
    Mutant(
        "a clock is believed from its first second on",
        "packages/field/privreg_field/service/scheduler.py",
        "return self._leap is None and self.even() - self._since >= STANDS",
        "return True",
        ("tests/service/test_app.py::test_a_wrong_clock_ends_nothing_for_good",),
    ),
    Mutant(
        "a leap of the clock is believed at once",
        "packages/field/privreg_field/service/scheduler.py",
        "elif now - self._leap[0] >= STANDS:",
        "else:",
        ("tests/service/test_app.py::test_a_leap_that_stands_is_believed",),
    ),
    Mutant(
        "a wrong clock closes a study for good",
        "packages/field/privreg_field/service/scheduler.py",
        "                if not sure:\n                    return False\n",
        "",
        ("tests/service/test_app.py::test_a_wrong_clock_ends_nothing_for_good",),
    ),
    Mutant(
        "a clock that is put back opens a study again",
        "packages/field/privreg_field/service/scheduler.py",
        "return not self.sealed and self.clock()",
        "return self.clock()",
        ("tests/service/test_app.py::test_a_study_ends_when_its_time_has_come_and_no_clock_opens_it_again",),
    ),
    Mutant(
        "an open state has a time after the end",
        "packages/field/privreg_field/service/scheduler.py",
        "return min(when, self.plan.closes) if is_open else when",
        "return when",
        ("tests/service/test_app.py::test_a_first_state_of_a_wrong_clock_is_one_that_devices_take",),
    ),
    Mutant(
        "anybody reads a study's results",
        "packages/field/privreg_field/service/http/handler.py",
        "            self.allow(request, access.RESULTS)\n        if not self.scheduler.states:",
        "            pass\n        if not self.scheduler.states:",
        ("tests/service/test_two_app.py::test_the_dashboard_shows_what_came_here_and_what_both_have_published",),
    ),
    Mutant(
        "public results are public sums and counts",
        "packages/field/privreg_field/service/http/handler.py",
        "        has = access.roles_of",
        "        if self.options.public_results:\n            return\n        has = access.roles_of",
        ("tests/service/test_access.py::test_what_each_address_asks_for",),
    ),
    Mutant(
        "tokens of a new key are refused",
        "packages/field/privreg_field/service/http/handler.py",
        "if token.key and token.key not in self.secrets:",
        "if False:",
        ("tests/service/test_app.py::test_tokens_of_a_key_made_a_moment_ago_are_taken",),
    ),
    Mutant(
        "a full disk is ready",
        "packages/field/privreg_field/service/store/sql.py",
        "        if trial:\n",
        "        if False:\n",
        ("tests/service/test_app.py::test_it_is_ready_only_if_a_report_can_be_kept",),
    ),
    Mutant(
        "one address has all connections",
        "packages/field/privreg_field/service/http/guard.py",
        "if len(same) > self.most:",
        "if False:",
        ("tests/service/test_app.py::test_idle_connections_of_one_address_shut_nobody_out",),
    ),
    Mutant(
        "another program's database gets tables",
        "packages/field/privreg_field/service/store/sqlite.py",
        "if names and not names",
        "if not names and not names",
        ("tests/service/test_sqlite.py::test_another_programs_database_is_let_alone",),
    ),
    Mutant(
        "a share enters two sums",
        SHARES,
        "if row is not None and row.status != UNSUMMED:",
        "if row is not None and row.status == HELD:",
        (f"{SCHEDULERS}::test_who_comes_late_hears_so_of_both_and_begins_anew",),
    ),
    Mutant(
        "a lost batch of a backup says of tokens that it doesn't know that they are in no sum",
        SHARES,
        "if batch == o.LOST and (row is None or row.k != one.state):",
        "if False:",
        (f"{SCHEDULERS}::test_who_came_after_a_backup_does_not_hear_that_a_lost_batch_was_unsummed",),
    ),
    Mutant(
        "a sum leaves for a commitment to nothing",
        "packages/field/privreg_field/wire/peers.py",
        "bool(one.listed) != bool(one.value)",
        "False",
        (f"{SCHEDULERS}::test_a_sum_does_not_leave_without_a_commitment",),
    ),
    Mutant(
        "a sum is believed that the other collector was not sent",
        "packages/field/privreg_field/study/reading/shared.py",
        "if (one.mine, other.mine) != (other.other, one.other):",
        "if False:",
        ("tests/field/test_shared.py::test_a_last_sum_that_the_other_was_not_sent_is_refused",),
    ),
    Mutant(
        "a collector of a backup takes shares to a state that it has signed before",
        "packages/field/privreg_field/service/sums/batch_log.py",
        "if not said.open or self.keys.state(held.k) != held.payload:",
        "if not said.open:",
        (f"{RESTORED}::test_a_collector_that_is_told_an_old_state_as_a_new_one_takes_no_shares_to_it",),
    ),
    Mutant(
        "a collector that is restored keeps the keys of its batches",
        "packages/field/privreg_field/service/commands/collector.py",
        "            _destroy(BatchKeys(store.beside))",
        "            pass",
        ("tests/service/test_copies.py::test_a_collector_of_two_that_is_restored_draws_no_noise_twice",),
    ),
    Mutant(
        "a backup may be served",
        "packages/field/privreg_field/service/store/copies.py",
        "copy(source, made, BACKUP)",
        "copy(source, made)",
        ("tests/service/test_copies.py::test_a_backup_counts_nothing_until_it_is_restored_once",),
    ),
    Mutant(
        "a study counts in the database that it was moved from",
        "packages/field/privreg_field/service/store/sql.py",
        """sa.event.listen(self.engine, "begin", partial(_begin, self.sql(_MOVED), self.slug, str(self)))""",
        "pass",
        ("tests/service/test_copies.py::test_a_study_is_moved_while_it_is_open_and_back",),
    ),
    Mutant(
        "reports and sums are checked at two moments",
        "packages/field/privreg_field/service/store/sql.py",
        'if (now := getattr(self._here, "now", None)) is not None:',
        "if (now := None) is not None:",
        ("tests/service/test_store.py::test_what_is_checked_is_of_one_moment_though_a_server_writes_meanwhile",),
    ),
    Mutant(
        "deleted reports stay in the database's files",
        "packages/field/privreg_field/service/store/sql.py",
        "erased=int(self.clock())))\n        self.compact()",
        "erased=int(self.clock())))",
        ("tests/service/test_copies.py::test_reports_are_erased_once_none_counts_any_more_and_their_sums_stay",),
    ),
    Mutant(
        "rows tell the order in which reports came",
        "packages/field/privreg_field/service/store/postgres.py",
        "FROM {name}_ ORDER BY token_id",
        "FROM {name}_",
        ("tests/service/test_copies.py::test_rows_of_a_sealed_study_tell_no_order_in_which_reports_came",),
    ),
    Mutant(
        "a share opens for whatever state of its number",
        "packages/field/privreg_field/wire/peers.py",
        "letter.encode() + state + bytes",
        "letter.encode() + bytes(HASH) + bytes",
        (f"{SHARED}::test_a_share_opens_for_its_collector_state_and_token_alone",),
    ),
    Mutant(
        "a collector of a backup signs a state again",
        "packages/field/privreg_field/service/sums/scheduler.py",
        "if said.nonces[NONCE:] == self._nonce:",
        "if said.nonces:",
        (f"{RESTORED}::test_a_collector_that_is_asked_to_sign_a_state_again_opens_no_old_share",),
    ),
    Mutant(
        "a collector signs states of whatever time",
        "packages/field/privreg_field/service/sums/scheduler.py",
        "if not max(first, when - STANDS) <= said.time <= when + STANDS:",
        "if False:",
        (f"{RESTORED}::test_b_signs_no_state_whose_time_is_not_its_own",),
    ),
    Mutant(
        "an old answer of the other collector is believed",
        "packages/field/privreg_field/service/sums/peer.py",
        'f"answer {status}") != nonce + wire.hash_of(said):',
        'f"answer {status}")[NONCE:] != wire.hash_of(said):',
        ("tests/service/test_two_app.py::test_an_answer_counts_for_one_message_alone",),
    ),
    Mutant(
        "whoever says that a batch to come was fixed is believed",
        "packages/field/privreg_field/service/sums/scheduler.py",
        "if not self._met or one.state < self.asked:",
        "if True:",
        (f"{RESTORED}::test_nobody_is_believed_who_says_that_a_batch_to_come_was_fixed",),
    ),
    Mutant(
        "what comes to one collector alone ends a batch",
        "packages/field/privreg_field/service/sums/scheduler.py",
        "self._fix(k, offer, ids_of(one.ids), one.people)",
        "self._fix(k, offer, ids_of(one.ids), 0)",
        (f"{RESTORED}::test_shares_that_only_one_of_them_gets_end_no_batch",),
    ),
    Mutant(
        "a browser seals without a trial",
        f"{WEB}/session.js",
        "if (plan.collectors.length) await /** @type {any} */ (this.sharing).check();",
        "",
        ("tests/service/test_js_two_collectors.py::test_what_a_device_lacks_is_refused_before_anything_is_stored",),
    ),
    Mutant(
        "a batch without its key is given a new one",
        "packages/field/privreg_field/service/sums/batch_log.py",
        "self._over or self.keys.get(k) is None:",
        "self._over or (self.keys.get(k) is None and self.keys.make(k, self.states[k].payload) is not None):",
        (f"{SCHEDULERS}::test_a_backup_without_keys_draws_no_second_noise_even_if_the_other_says_nothing_was_fixed",),
    ),
    Mutant(
        "a second list of a batch is answered",
        "packages/field/privreg_field/service/sums/scheduler.py",
        "batch.status not in {FIXED, PUBLISHED} or batch.offer != offer:",
        "batch.status not in {FIXED, PUBLISHED}:",
        (f"{SCHEDULERS}::test_another_list_is_refused_for_ever",),
    ),
    Mutant(
        "a collector of a backup adds a second noise",
        "packages/field/privreg_field/service/sums/batch_log.py",
        "elif k <= self._over or",
        "elif",
        (f"{SCHEDULERS}::test_a_batch_that_was_fixed_before_a_backup_came_back_is_lost",),
    ),
    Mutant(
        "a batch's key stays when it is fixed",
        "packages/field/privreg_field/service/sums/batch_log.py",
        "        self.keys.destroy(k, keep=batch.status == FIXED and not batch.vouched)\n",
        "",
        (f"{SCHEDULERS}::test_keys_and_shares_are_gone_once_a_batch_is_fixed",),
    ),
    Mutant(
        "shares stay when their batch is fixed",
        SHARES,
        ".values(status=status, sealed=None))",
        ".values(status=status))",
        (f"{SCHEDULERS}::test_keys_and_shares_are_gone_once_a_batch_is_fixed",),
    ),
    Mutant(
        "a lost batch forgets what the other has committed to",
        SHARES,
        'value=b"", peer_value=b"")',
        'value=b"", peer_hash=b"", peer_value=b"")',
        (f"{LIAR}::test_no_sum_is_agreed_on_that_was_made_after_the_other_was_known",),
    ),
    Mutant(
        "a lost batch adopts whatever the other signs",
        "packages/field/privreg_field/service/sums/scheduler.py",
        'if heard not in {b"", batch.other} or not',
        "if not",
        (f"{LIAR}::test_a_collector_that_drops_its_sum_and_publishes_another_chooses_no_total",),
    ),
    Mutant(
        "a collector of a backup vouches for what it adopts",
        "packages/field/privreg_field/service/sums/scheduler.py",
        "one.ids, parts[2], heard, parts[1])",
        "one.ids, parts[2], hash_of(parts[1]), parts[1])",
        (f"{LIAR}::test_a_collector_from_a_backup_says_that_nothing_vouches_for_the_sum_that_it_adopts",),
    ),
    Mutant(
        "a collector of a backup takes a second commitment",
        "packages/field/privreg_field/service/sums/scheduler.py",
        " or not self.keys.state(batch.k)",
        "",
        (f"{LIAR}::test_a_collector_from_a_backup_says_that_nothing_vouches_for_the_sum_that_it_adopts",),
    ),
    Mutant(
        "an analyst isn't shown what rests on one collector's word",
        "packages/field/privreg_field/study/reading/shared.py",
        "if not said.vouched):",
        "if False):",
        ("tests/field/test_shared.py::test_an_analyst_sees_which_people_rest_on_one_collectors_word",),
    ),
    Mutant(
        "a sum that wasn't committed to is taken",
        "packages/field/privreg_field/service/sums/scheduler.py",
        "or hash_of(body) != batch.other or not self.fits",
        "or not self.fits",
        (f"{SCHEDULERS}::test_a_batch_of_a_liar_is_lost_or_one_that_both_have",),
    ),
    Mutant(
        "a sum without noise",
        "packages/field/privreg_field/service/sums/sealing.py",
        "(total + np.array(drawn, dtype=np.uint64))",
        "total",
        (f"{SCHEDULERS}::test_a_batch_is_the_sum_of_what_both_have_with_both_noises",),
    ),
    Mutant(
        "a batch of fewer people than the plan says",
        "packages/field/privreg_field/service/sums/batch_log.py",
        "if len(chosen) < max(self._round(k).least, people, 1) or",
        "if",
        (f"{SCHEDULERS}::test_too_few_close_nothing_and_a_goes_on",),
    ),
    Mutant(
        "a state that one of two collectors has signed",
        "packages/field/privreg_field/service/sums/batch_log.py",
        "if not all(any(peer.verified",
        "if not any(any(peer.verified",
        (f"{SCHEDULERS}::test_b_signs_no_state_that_does_not_follow",),
    ),
    Mutant(
        "a share that is bound to nothing",
        "packages/field/privreg_field/service/sums/sealing.py",
        "    except (InvalidTag, ValueError):\n        return None\n",
        "    except (InvalidTag, ValueError):\n        return bytes(WORD * numbers)\n",
        (f"{SCHEDULERS}::test_a_share_sealed_for_something_else_is_refused",),
    ),
    Mutant(
        "forged tokens are taken",
        "packages/field/privreg_field/service/http/handler.py",
        "if not good or token.id in self.revoked:",
        "if token.id in self.revoked:",
        ("tests/service/test_app.py::test_forged_and_taken_back_tokens_are_refused",),
    ),
    Mutant(
        "other bytes of a used token are acknowledged",
        "packages/field/privreg_field/service/store/sql.py",
        "SAME if have == one.body_hash else OTHER",
        "SAME",
        ("tests/service/test_app.py::test_a_report_counts_once",),
    ),
    Mutant(
        "writers of one study in PostgreSQL don't wait for each other",
        "packages/field/privreg_field/service/store/postgres.py",
        "pg_advisory_xact_lock(%s)",
        "%s::bigint",
        ("tests/service/test_postgres.py::test_writers_of_one_study_take_turns_and_readers_never_wait",),
    ),
    Mutant(
        "a round of two collectors takes everybody",
        "packages/field/privreg_field/service/store/shares.py",
        "if out[-1] == o.NEW and len(fresh) >= places:",
        "if False:",
        (f"{SCHEDULERS}::test_a_full_round_leaves_people_for_the_next",),
    ),
    Mutant(
        "shares that one collector lacks keep a round full",
        "packages/field/privreg_field/service/sums/batch_log.py",
        "end + self._lacked - self._came_here()",
        "end - self._came_here()",
        (f"{SCHEDULERS}::test_shares_that_never_reach_the_other_cannot_keep_a_round_full",),
    ),
    Mutant(
        "noise of another width than the records is used",
        "privreg/published/descent/descent.py",
        "if noise.width != x.shape[1]:",
        "if False:",
        ("tests/published/descent/test_fits.py::test_one_record_is_in_one_lane",),
    ),
    Mutant(
        "what was sent again is added again",
        "packages/field/privreg_field/service/store/sql.py",
        "self._fold(c, new)",
        "self._fold(c, arrived)",
        ("tests/service/test_swarm.py::test_all_that_a_swarm_sends_counts_once",),
    ),
    Mutant(
        "devices are told before a report is kept",
        "packages/field/privreg_field/service/store/records.py",
        "            outcomes = [FAILED] * len(some)\n",
        "            outcomes = [NEW] * len(some)\n",
        ("tests/service/test_store.py::test_a_writer_answers_what_could_not_be_kept",),
    ),
    Mutant(
        "an analyst believes any state",
        "packages/field/privreg_field/study/reading/study.py",
        "if not messages.follows(state, chains.present_ask(self._chain), k, before):",
        "if not payload:",
        ("tests/service/test_connect.py::test_what_does_not_bear_out_is_refused",),
    ),
    Mutant(
        "an analyst believes any plan",
        "packages/field/privreg_field/study/servers.py",
        "if not (all(signed) if by_all else any(signed)):",
        "if by_all and not all(signed):",
        ("tests/service/test_connect.py::test_a_plan_that_is_not_the_analysts_is_refused",),
    ),
    Mutant(
        "an analyst believes states that one of two collectors has signed",
        "packages/field/privreg_field/study/servers.py",
        "if not (all(signed) if by_all else any(signed)):",
        "if not any(signed):",
        (
            "tests/field/test_shared.py::test_what_a_collector_says_is_not_believed_if_the_other_or_the_sums_do_not_bear_it_out",
        ),
    ),
    Mutant(
        "sums over different lists are added",
        "packages/field/privreg_field/study/reading/shared.py",
        "if (one.listed, one.people) != (other.listed, other.people):",
        "if one.people != other.people:",
        ("tests/field/test_shared.py::test_sums_over_different_lists_are_not_added",),
    ),
    Mutant(
        "a collector may publish a batch's sum twice, with other noise",
        "packages/field/privreg_field/study/reading/shared.py",
        "if any(old and old != new for old, new in zip_longest(before, now)):",
        "if any(old and not new for old, new in zip_longest(before, now)):",
        ("tests/field/test_shared.py::test_a_sum_that_is_published_twice_is_refused",),
    ),
    Mutant(
        "a swarm adds half the noise",
        "packages/field/privreg_field/study/simulated/devices.py",
        "np.rint(2.0**bits * rng.standard_normal(shape))",
        "np.rint(2.0 ** (bits - 1) * rng.standard_normal(shape))",
        ("tests/service/test_swarm.py::test_a_swarms_noise_is_a_rounded_gaussian",),
    ),
    Mutant(
        "late reports are left out",
        "packages/field/privreg_field/collector/chain.py",
        "if have.people > before.people:",
        "if have.people < before.people:",
        ("tests/service/test_swarm.py::test_all_that_a_swarm_sends_counts_once",),
    ),
    Mutant(
        "states in a valley go on slowly",
        "privreg/collector/rounds.py",
        "return np.asarray(step * (max(most, min(again, most * 2.0 ** (left - 1))) / length))",
        "pass",
        ("tests/collector/test_reach.py::test_a_shortened_step_grows_if_it_goes_on_the_same_way",),
    ),
    Mutant(
        "rounds far from the last state count",
        "privreg/collector/rounds.py",
        "> limit]",
        "> 1e9 * limit]",
        (
            "tests/collector/test_reach.py::"
            "test_rounds_far_from_the_last_state_are_left_behind_once_others_tell_as_much",
        ),
    ),
    Mutant(
        "people of whom a sum of levels was drawn are summed again",
        "privreg/means/stream.py",
        "self._held = [(state, {}) for state in states]",
        "self._held = [(state, waiting) for state, (_, waiting) in zip(states, self._held, strict=True)]",
        (f"{SUMS}::test_a_sum_is_drawn_once_and_nothing_without_noise_is_kept_then",),
    ),
    Mutant(
        "a sum of levels with the noise of one report",
        "privreg/means/mechanisms.py",
        "people + self.sd * root @ normals[:-1]",
        "people + self.sd * normals[:-1]",
        (f"{SUMS}::test_a_sum_drawn_at_once_has_the_mean_and_covariance_of_single_reports",),
    ),
    Mutant(
        "a sum of bits without those of other levels",
        "privreg/means/mechanisms.py",
        "binom.ppf(second, n - people, q)",
        "q * (n - people)",
        (f"{SUMS}::test_a_sum_drawn_at_once_has_the_mean_and_covariance_of_single_reports",),
    ),
    Mutant(
        "two collectors of whom one adds no noise",
        "privreg/means/plan.py",
        "for k in range(self.collectors if",
        "for k in range(1 if",
        (f"{TRUSTED}::test_noise_has_the_variance_that_is_stated_and_is_never_left_out",),
    ),
    Mutant(
        "sums of 0 without noise",
        "privreg/means/stream.py",
        "if isinstance(plan, Sums):  # once",
        "if isinstance(plan, Sums) and raw.any():  # once",
        (f"{TRUSTED}::test_noise_has_the_variance_that_is_stated_and_is_never_left_out",),
    ),
    Mutant(
        "squares weigh more than is free",
        "privreg/means/plan.py",
        "math.sqrt(2.0) * each[self.squared]",
        "2.0 * each[self.squared]",
        (f"{TRUSTED}::test_no_two_records_are_further_apart_than_the_noise_hides",),
    ),
    Mutant(
        "levels that are taken for one apart",
        "privreg/means/plan.py",
        "return bits_sensitivity(2) if item.kind",
        "return bits_sensitivity(1) if item.kind",
        (f"{TRUSTED}::test_no_two_records_are_further_apart_than_the_noise_hides",),
    ),
    Mutant(
        "several rows of a person in one sum",
        "privreg/means/plan.py",
        "if people.max_per_id > 1 and",
        "if people.max_per_id > 9 and",
        (f"{TRUSTED}::test_what_has_no_place_is_refused",),
    ),
    Mutant(
        "moments are not learned",
        "privreg/collector/rounds.py",
        "progress._replace(scatter=scatter)",
        "progress._replace()",
        (f"{ROUNDS}::test_whether_a_private_response_is_missing_is_told_by_noise_alone",),
    ),
    Mutant(
        "a collector that waits a tick before each transaction",
        "packages/field/privreg_field/service/store/records.py",
        "min(2.0 * (time.monotonic() - began), TICK)",
        "TICK",
        (
            "tests/service/test_store.py::"
            "test_a_writer_leaves_half_of_the_time_to_what_answers_and_nobody_waits_longer_than_a_tick",
        ),
    ),
    Mutant(
        "a window of a quantile's density that holds nobody",
        "privreg/collector/aggregate/plan.py",
        "min(max(ratio, few) / rules.ratio, 1.0)",
        "min(ratio / rules.ratio, 1.0)",
        (
            "tests/simulation/test_two_collectors.py::"
            "test_measures_are_those_of_the_last_records_and_have_their_standard_errors[quantile]",
        ),
    ),
    Mutant(
        "one tail",
        "privreg/collector/inference/pivots.py",
        "return np.asarray(2 * stdtr(self.df, -np.abs(t)))",
        "return np.asarray(stdtr(self.df, -np.abs(t)))",
        ("tests/collector/inference/test_methods.py::test_p_values_of_students_t_have_two_tails",),
    ),
)


def control(mutants: Sequence[Mutant]) -> Mutant:
    """A change of nothing, which must pass: were a test to fail in a copy anyway, it would kill whatever is tried."""
    tests = tuple(sorted({path for mutant in mutants for path in mutant.tests}))
    return Mutant("nothing changed", MECHANISMS, "return 2.0 * bound\n", "return 2.0 * bound\n", tests)


def survives(mutant: Mutant, places: Queue[Path]) -> bool:
    """Whether the tests of a mutant pass with it, in a copy of the tree at a place that others use in turn.

    What is compiled is kept by place and text, so that only changed loops are compiled again.
    """
    tree = places.get()
    try:
        return _survives(mutant, tree)
    finally:
        shutil.rmtree(tree)
        places.put(tree)


def _survives(mutant: Mutant, tree: Path) -> bool:
    tree.mkdir()
    for part in ("privreg", "packages", "tests", "benchmarks", "data", "docs", "pyproject.toml", "README.md"):
        source = ROOT / part
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, tree / part)
    path = tree / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: its text stands {text.count(mutant.old)} times in {mutant.file}, not once")
    path.write_text(text.replace(mutant.old, mutant.new))
    kit = str(tree / "packages" / "field")  # before the one that is installed
    env = {**os.environ, "XDG_CACHE_HOME": str(tree.parent / "cache"), "PYTHONPATH": kit}
    env.pop("NUMBA_CACHE_DIR", None)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not browser",
    ]
    whole = [*command, *mutant.tests]
    try:
        done = subprocess.run(whole, cwd=tree, env=env, check=False, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:  # a change after which a test waits for ever doesn't pass
        return False
    if done.returncode not in {0, 1}:
        raise SystemExit(f"{mutant.name}: its tests could not be run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def main(arguments: list[str] | None = None) -> int:
    """Try them; the number of survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", default="1/1", metavar="K/N", help="only part K of N")
    a = parser.parse_args(arguments)
    k, n = map(int, a.part.split("/"))
    chosen = [m for m in MUTANTS if not a.names or m.name in a.names][k - 1 :: n]
    same = control(chosen)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(a.jobs) as pool:
        places: Queue[Path] = Queue()
        for k in range(a.jobs):
            places.put(Path(folder) / str(k))
        jobs = {m.name: pool.submit(survives, m, places) for m in (*chosen, same)}
        untouched = jobs.pop(same.name)
        alive = []
        for name, job in jobs.items():
            survived = job.result()
            print(f"{'SURVIVED' if survived else 'killed'}: {name}", flush=True)
            alive += [name] if survived else []
        if not untouched.result():
            raise SystemExit(
                "the tests fail in a copy in which nothing is changed: what they killed counts for nothing"
            )
    print(f"{len(chosen) - len(alive)} of {len(chosen)} killed")
    return len(alive)


if __name__ == "__main__":
    sys.exit(main())
