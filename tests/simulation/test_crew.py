"""Threads that share work."""

import threading
import time

import pytest

from privreg.simulation.rounds import Crew


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_come_in_the_order_of_the_work(threads):
    with Crew(threads) as crew:
        assert crew.each([lambda k=k: k * k for k in range(50)]) == [k * k for k in range(50)]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_task_is_done_once_and_ahead_of_time_only_by_other_threads(threads):
    done = []
    with Crew(threads) as crew:
        results = [crew.submit(lambda k=k: done.append((k, threading.get_ident()))) for k in range(50)]
        if threads == 1:
            assert not done
        for result in results:
            result()
    assert sorted(k for k, _ in done) == list(range(50))
    assert len({who for _, who in done}) <= threads
    assert (threading.get_ident() in {who for _, who in done}) == (threads == 1)


def test_other_work_is_done_while_one_thread_is_busy():
    begun, go = threading.Event(), threading.Event()

    def slow():
        begun.set()
        assert go.wait(30)
        return "slow"

    with Crew(2) as crew:
        first = crew.submit(slow)
        assert begun.wait(30)
        crew.submit(go.set)
        assert first() == "slow"


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_task_raises_is_raised_where_its_result_is_asked_for(threads):
    def wrong():
        raise ValueError("no")

    with Crew(threads) as crew:
        bad, good = crew.submit(wrong), crew.submit(lambda: 1)
        assert good() == 1
        with pytest.raises(ValueError, match="no"):
            bad()


def test_what_ends_another_thread_is_raised_where_the_result_is_asked_for():
    def leave():
        raise SystemExit(3)

    with Crew(2) as crew, pytest.raises(SystemExit):
        crew.submit(leave)()


def test_what_nobody_has_begun_is_dropped_at_the_end():
    done, begun = [], threading.Barrier(3)

    def slow():
        begun.wait(30)
        time.sleep(0.05)
        done.append("slow")

    with Crew(2) as crew:
        crew.submit(slow)
        crew.submit(slow)
        begun.wait(30)
        crew.submit(lambda: done.append("late"))
    assert done == ["slow", "slow"]


def test_an_interrupt_is_not_kept_for_later():
    def stop():
        raise KeyboardInterrupt

    with Crew(1) as crew, pytest.raises(KeyboardInterrupt):
        crew.submit(stop)()
