"""Blocks of a path: sums between marks, whatever the number of updates, as many as are wanted and no others."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.published.chain import blocks
from privreg.published.chain.blocks import Layout

D = 2


def walked(layout, updates, seed=0):
    """Blocks of a random path, and its running sums and weights after each update, shapes (n, K, d) and (n, K)."""
    rng = np.random.default_rng(seed)
    sums = rng.standard_normal((updates, layout.lanes, D)).cumsum(axis=0)
    weights = rng.uniform(0.1, 1.0, (updates, layout.lanes)).cumsum(axis=0)
    found, counts = blocks.begin(layout, D), []
    while (at := blocks.next_mark(found)) <= updates:
        found = blocks.noted(found, at, sums[at - 1], weights[at - 1])
        counts.append((at, len(found.sums)))
    return found, sums, weights, counts


LAYOUTS = st.builds(
    Layout,
    lanes=st.integers(1, 5),
    spare=st.floats(0.05, 0.95),
    least=st.integers(1, 40),
    edges=st.sets(st.integers(1, 900), max_size=8).map(lambda e: tuple(sorted(e))),
)


@settings(max_examples=100, deadline=None)
@given(layout=LAYOUTS, updates=st.integers(0, 800))
def test_joined_blocks_are_sums_of_the_path_whatever_the_number_of_updates(layout, updates):
    found, sums, weights, _ = walked(layout, updates)
    m, length = len(found.sums), found.length
    assert m == updates // length
    assert length & (length - 1) == 0
    ends = length * np.arange(1, m + 1) - 1
    np.testing.assert_array_equal(found.sums, sums[ends])
    np.testing.assert_array_equal(found.weights, weights[ends])
    past = [e for e in layout.edges if e <= updates]
    np.testing.assert_array_equal(found.edge_sums, sums[np.array(past, dtype=int) - 1])
    by_block, by_weight = blocks.parts(found)
    assert by_block.shape == (m * layout.lanes, D)
    # block after block, lane by lane, what the updates of each added
    for parts, path in ((by_block, sums), (by_weight, weights)):
        own = np.diff(path, axis=0, prepend=0.0)[: m * length]
        each = own.reshape(m, length, *own.shape[1:]).sum(axis=1)
        np.testing.assert_allclose(parts, each.reshape(parts.shape), atol=1e-9)


@settings(max_examples=150, deadline=None)
@given(layout=LAYOUTS, updates=st.integers(1, 800))
def test_there_are_as_many_blocks_as_wanted_and_fewer_than_twice_that(layout, updates):
    *_, counts = walked(layout, updates)
    edges = set(layout.edges)
    for at, count in counts:
        wanted = blocks.wanted(layout, at)
        assert count < 2 * wanted
        assert count >= min(wanted, at) or at in edges  # at an edge the last block is not finished


@pytest.mark.parametrize("spare", [0.2, 0.25, 0.5])
@pytest.mark.parametrize("lanes", [1, 8])
def test_their_number_grows_like_a_power_of_the_updates(spare, lanes):
    layout, found = Layout(lanes, spare, 1), None
    for log2 in (10, 13, 16):
        n, found = 2**log2, blocks.begin(layout, 1)
        while (at := blocks.next_mark(found)) <= n:
            found = blocks.noted(found, at, np.zeros((lanes, 1)), np.full(lanes, float(at)))
        every = lanes * len(found.sums)
        assert (lanes * n) ** spare <= every <= 2 * ((lanes * n) ** spare + lanes)
        assert len(found.sums) * found.length <= n < (len(found.sums) + 1) * found.length
    assert found.length > 2**16 / (2 * (lanes * 2**16) ** spare / lanes + 2) / 2


def test_wanted_is_a_power_of_all_updates_shared_by_the_lanes_and_never_under_the_least():
    assert [blocks.wanted(Layout(1, 0.25, 1), n) for n in (0, 1, 16, 17, 81, 10**8)] == [1, 1, 2, 3, 3, 100]
    assert [blocks.wanted(Layout(8, 0.5, 1), n) for n in (1, 2, 8, 9, 128)] == [1, 1, 1, 2, 4]
    assert [blocks.wanted(Layout(16, 0.25, 64), n) for n in (1, 10**6, 10**9)] == [4, 4, 23]


# --- growing batches ---------------------------------------------------------------------------------------


def test_growing_edges_are_the_published_ones():
    # e_k = n ((k + 1)/(M + 1))^(1/(1 − α)): squares at α = 1/2, cubes at α = 2/3
    assert blocks.growing_edges(2500, 4, 0.5) == (100, 400, 900, 1600, 2500)
    assert blocks.growing_edges(1000, 9, 2 / 3) == (1, 8, 27, 64, 125, 216, 343, 512, 729, 1000)
    # by hand: ln e_0 = ln 10⁶ − ln 21/0.49 = 13.815511 − 6.213310, so e_0 = 2002.6
    published = blocks.growing_edges(10**6, 20, 0.51)
    assert published[0] == 2002
    assert published[-1] == 10**6
    assert len(published) == 21


@settings(deadline=None)
@given(n=st.integers(1, 10**9), batches=st.integers(1, 40), alpha=st.floats(0.01, 0.95))
def test_growing_edges_end_with_the_last_update_and_leave_no_batch_empty(n, batches, alpha):
    edges = blocks.growing_edges(n, batches, alpha)
    assert edges[-1] == n
    assert edges[0] >= 1
    assert all(a < b for a, b in pairwise(edges))
    assert len(edges) <= batches + 1
    assert all(isinstance(e, int) for e in edges)


# --- storage -----------------------------------------------------------------------------------------------

LAYOUT = Layout(2, 0.4, 3, (5, 40, 90))
UPDATES = 71


def saved():
    return blocks.to_arrays(walked(LAYOUT, UPDATES)[0])


@settings(max_examples=60, deadline=None)
@given(layout=LAYOUTS, updates=st.integers(0, 300))
def test_what_was_saved_comes_back_and_goes_on_as_if_nothing_had_happened(layout, updates):
    found, *_ = walked(layout, updates)
    again = blocks.from_arrays(blocks.to_arrays(found), layout, D, updates)
    assert again.layout == layout
    assert (again.length, blocks.next_mark(again)) == (found.length, blocks.next_mark(found))
    for name in ("sums", "weights", "edge_sums"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))


def test_nothing_is_saved_of_paths_that_are_not_cut():
    assert blocks.to_arrays(None) == {}


DAMAGE = {
    "no length": {"length": np.array(0)},
    "a negative length": {"length": np.array(-4)},
    "an endless length": {"length": np.array(1 << 62)},
    "a length that is no whole number": {"length": np.array(4.0)},
    "several lengths": {"length": np.array([4, 4])},
    "another length": {"length": np.array(8)},
    "half the length": {"length": np.array(2)},
    "a length that is no power of 2": {"length": np.array(5)},
    "a sum too few": {"sums": lambda a: a[:-1]},
    "a lane too many": {"sums": lambda a: np.concatenate([a, a], axis=1)},
    "another number of coefficients": {"sums": lambda a: a[..., :1]},
    "weights of another number": {"weights": lambda a: a[:-1]},
    "an edge too few": {"edge_sums": lambda a: a[:-1]},
    "single precision": {"sums": lambda a: a.astype(np.float32)},
    "whole numbers": {"weights": lambda a: np.ones(a.shape, dtype=np.int64)},
    "not a number": {"sums": lambda a: np.where(np.arange(D) == 0, math.nan, a)},
    "an infinite edge": {"edge_sums": lambda a: a + math.inf},
    "weights that fall": {"weights": lambda a: a[::-1].copy()},
    "a negative weight": {"weights": lambda a: a - a[0] - 1.0},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_blocks_are_refused(damage):
    arrays = saved()
    assert blocks.from_arrays(arrays, LAYOUT, D, UPDATES).length == int(arrays["blocks_length"])
    for name, value in DAMAGE[damage].items():
        key = f"blocks_{name}"
        arrays[key] = value(arrays[key]) if callable(value) else value
    with pytest.raises(ValueError, match="blocks"):
        blocks.from_arrays(arrays, LAYOUT, D, UPDATES)


def test_a_path_of_few_updates_has_not_been_cut_coarser():
    layout = Layout(2, 0.4, 40)
    for updates in (0, 1, 19):
        arrays = blocks.to_arrays(walked(layout, updates)[0])
        assert blocks.from_arrays(arrays, layout, D, updates).length == 1
        coarse = {k: v[1::2] if v.ndim else np.array(2) for k, v in arrays.items()}
        with pytest.raises(ValueError, match="never was"):
            blocks.from_arrays(coarse, layout, D, updates)


def test_blocks_of_another_path_are_refused():
    arrays, length = saved(), int(saved()["blocks_length"])
    for layout, d, updates in (
        (LAYOUT, D, UPDATES + length),
        (LAYOUT, D, UPDATES - length),
        (LAYOUT, D + 1, UPDATES),
        (LAYOUT._replace(lanes=3), D, UPDATES),
        (LAYOUT._replace(edges=(5, 40, 60)), D, UPDATES),
    ):
        with pytest.raises(ValueError, match="blocks of"):
            blocks.from_arrays(arrays, layout, d, updates)
