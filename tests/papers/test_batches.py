"""Batch means by the number of batches: the loop against a plain one, the stored table against what the page says."""

import numpy as np
import pytest

from benchmarks.papers import batches
from benchmarks.papers.printed import RESULTS
from benchmarks.papers.store import read_table


@pytest.mark.thorough
def test_the_compiled_walk_is_the_plain_one():
    n, ends, sums = 300, np.array([7, 300]), np.zeros((2, 4))
    batches.walk(n, np.random.Generator(np.random.PCG64(3)), ends, sums)
    rng, theta, path = np.random.Generator(np.random.PCG64(3)), np.zeros(4), []
    for i in range(1, n + 1):
        error, x = rng.standard_normal(), [1.0]
        while len(x) < 4:
            z = rng.standard_normal()
            x += [z] if abs(z) <= 1 else []
        score = (float(1.0 + error + sum(x[1:]) <= np.dot(x, theta)) - 0.5) * np.array(x)
        u = np.array([rng.random() - 0.5 for _ in range(4)])
        theta = theta - i**-0.51 * (score - 4.0 * np.copysign(np.log(1.0 - 2.0 * np.abs(u)), u))
        path.append(theta)
    np.testing.assert_allclose(sums, [np.sum(path[:7], axis=0), np.sum(path, axis=0)], rtol=1e-9)


def test_batches_grow_or_are_alike_and_end_with_the_path():
    rules = batches.rules(10**6)
    assert [k for _, k in rules] == [20, 20, 30, 30]
    for (kind, many), ends in rules.items():
        assert len(ends) == many + 1
        assert ends[-1] == 10**6
        sizes = np.diff(ends)
        assert (np.diff(sizes) > 0).all() if kind == "growing" else np.ptp(sizes) <= 1


@pytest.mark.reference
def test_stored_lengths_agree_with_the_printed_ones_for_as_many_batches_as_are_cited():
    table = read_table(RESULTS / "dg-batches.csv")
    assert len(table) == 16
    inside = table["printed_length"].between(table["length_low"], table["length_high"])
    cited, late = table["number"] == table["n"].map({10**6: 30, 10**7: 52}), table["n"] == 10**7
    grows = table["batches"] == "growing"
    assert inside[grows & cited].tolist() == [True] * 4
    assert inside[late & ~(grows & cited)].tolist() == [False] * 6
