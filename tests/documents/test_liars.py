"""Numbers of the page on threats about respondents who lie are those of its formulas."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtri

from privreg.protocol.sums import MOST_NUMBERS, width

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "threat_model.md").read_text("utf-8")


def rows(head):
    """Cells of the table that begins so, without its head."""
    lines = TEXT[TEXT.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_price_of_many_batches():
    found = rows("| ρ |")
    assert [row[0] for row in found] == ["0.01", "0.1", "0.5"]
    for rho, *prices in found:
        made = [math.sqrt(math.pi / 3 * (1 + m * float(rho)) / (1 + float(rho))) for m in (8, 16, 32, 64)]
        assert prices == [f"{price:.2f}" for price in made]


def test_the_size_of_proofs():
    units = {"KB": 1e3, "MB": 1e6}
    found = rows("| report | numbers D |")
    for d, row in zip((4, 10, 23), found, strict=False):
        assert row[:2] == [f"{d} coefficients", f"{width('main', d=d, cornered=True, scaled=True):,}"]
    assert found[-1][1] == f"{MOST_NUMBERS:,}"
    for _, numbers, now, proved, work in found:
        count = int(numbers.replace(",", ""))
        for text, size in ((now, 8 * count), (proved, 16 * 21 * count)):
            value, unit = text.split()
            assert float(value) * units[unit] == pytest.approx(size, rel=0.05)
        assert float(work.split()[0]) == pytest.approx(3 * 21 * count * 0.22e-3, rel=0.05)


@pytest.mark.parametrize(
    ("kind", "shift", "variance"), [("pairs", math.sqrt(3), math.pi / 3), ("median", 1, math.pi / 2)]
)
@pytest.mark.parametrize("k", [2, 6])
def test_how_far_liars_shift_a_combination(kind, shift, variance, k):
    """Of 400 batches at the quantiles of a normal law k go as far as they can, half of them from the lower end."""
    m = 400
    means = ndtri((np.arange(m) + 0.5) / m)
    means[: k // 2] = means[-(k // 2) :] = 1e9
    i, j = np.triu_indices(m)
    found = np.median((means[i] + means[j]) / 2 if kind == "pairs" else means)
    assert found / math.sqrt(variance / m) == pytest.approx(shift * k / math.sqrt(m), rel=0.15)
    assert f"{'√3 · ' * (kind == 'pairs')}k/√m" in TEXT


def test_measured_combinations_are_the_stored_ones():
    lines = (ROOT / "benchmarks" / "results" / "liars.csv").read_text("utf-8").splitlines()
    stored = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    found = rows("| μ | parts |")
    assert len(found) == len(stored) == 14
    for (mu, parts, spoiled, coverage, *numbers), one in zip(found, stored, strict=True):
        assert (float(mu), parts, spoiled) == (float(one["mu"]), one["parts"], one["spoiled"])
        printed = [*map(float, re.findall(r"[\d.]+", coverage)), *map(float, numbers)]
        said = [float(one[name]) for name in ("coverage", "low", "high", "shift", "by_formula", "price")]
        places = [0.05] * 3 + [0.005] * 3
        assert all(abs(a - b) <= most + 1e-9 for a, b, most in zip(printed, said, places, strict=True)), (printed, said)


def test_liars_in_too_many_batches_are_not_borne():
    m = 400
    for share, borne in ((0.28, True), (0.31, False)):
        means = np.zeros(m)
        means[: int(share * m)] = 1e9
        i, j = np.triu_indices(m)
        assert (np.median((means[i] + means[j]) / 2) < 1.0) == borne
    assert re.search(r"below 29% of m", TEXT)
