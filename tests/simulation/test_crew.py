"""Threads that share work."""

import threading
import time

import pytest

from privreg.simulation.workers.crew import Crew


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_come_in_the_order_of_the_work(threads):
    with Crew(threads) as crew:
        assert crew.each([lambda k=k: k * k for k in range(50)]) == [k * k for k in range(50)]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_task_is_done_once_and_ahead_of_time_only_by_other_threads(threads):
    done = []
    with Crew(threads) as crew:
        tasks = [crew.submit(lambda k=k: done.append((k, threading.get_ident()))) for k in range(50)]
        if threads == 1:
            assert not done
        for task in tasks:
            crew.result(task)
    assert sorted(k for k, _ in done) == list(range(50))
    assert len({who for _, who in done}) <= threads


def test_who_waits_works_on_others():
    begun, go = threading.Event(), threading.Event()

    def slow():
        begun.set()
        assert go.wait(30)
        return "slow"

    with Crew(2) as crew:
        first = crew.submit(slow)
        assert begun.wait(30)  # the other thread is at it
        second = crew.submit(go.set)
        assert crew.result(first) == "slow"
        assert second.done


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_task_raises_is_raised_where_its_result_is_asked_for(threads):
    def wrong():
        raise ValueError("no")

    with Crew(threads) as crew:
        bad, good = crew.submit(wrong), crew.submit(lambda: 1)
        assert crew.result(good) == 1
        with pytest.raises(ValueError, match="no"):
            crew.result(bad)


def test_what_ends_another_thread_is_raised_where_the_result_is_asked_for():
    begun = threading.Event()

    def leave():
        begun.set()
        raise SystemExit(3)

    with Crew(2) as crew:
        task = crew.submit(leave)
        assert begun.wait(30)
        with pytest.raises(SystemExit):
            crew.result(task)


def test_what_nobody_has_begun_is_dropped_at_the_end():
    done, begun = [], threading.Event()

    def slow():
        begun.set()
        time.sleep(0.05)
        done.append("slow")

    with Crew(2) as crew:
        crew.submit(slow)
        assert begun.wait(30)
        late = crew.submit(lambda: done.append("late"))
    assert done == ["slow"]
    assert late.done


def test_nothing_is_kept_of_what_is_over():
    with Crew(2) as crew:
        for k in range(1000):
            crew.result(crew.submit(lambda k=k: k))
        assert len(crew._open) < 10


def test_an_interrupt_is_not_kept_for_later():
    def stop():
        raise KeyboardInterrupt

    with Crew(1) as crew, pytest.raises(KeyboardInterrupt):
        crew.result(crew.submit(stop))
