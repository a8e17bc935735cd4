"""Threads that make calls: what ends is told, what hangs is given up, what raises is caught."""

import threading

import pytest

from integration.delivery.sending.answers import read
from integration.delivery.sending.call_threads import Call, CallThreads
from integration.delivery.snapshot import EndpointSnapshot
from integration.endpoints.port import (
    Accepted,
    Later,
    OutboundMessage,
    Refused,
    Unknown,
    Unreachable,
)
from tests.support.memory.endpoint import MemoryDeliverer

pytestmark = pytest.mark.fast

ENDPOINT = EndpointSnapshot(id=1, name="e", system="s")


def an_outbound_message(message_id: str = "m1") -> OutboundMessage:
    return OutboundMessage(
        message_id=message_id, interface="I", system="s", body=b"{}", content_type="text/plain"
    )


def a_call(deliverer) -> Call:
    return Call(deliverer, ENDPOINT, messages=[an_outbound_message()])


def test_a_finished_call_brings_its_answers_once():
    call_threads = CallThreads()
    call = a_call(MemoryDeliverer())
    call_threads.start(call)
    assert call_threads.finished(5) == [call]
    assert call.answers == [Accepted()]
    assert (call_threads.finished(0), call_threads.in_flight) == ([], set())
    call_threads.close()


def test_a_call_that_hangs_is_given_up_and_its_late_answer_dropped():
    held, entered, threads = threading.Event(), threading.Event(), []

    def hang(_):
        threads.append(threading.current_thread())
        entered.set()
        held.wait(20)

    now = [0.0]
    call_threads = CallThreads(lambda: now[0])
    hanging, quick = a_call(MemoryDeliverer(script=hang)), a_call(MemoryDeliverer())
    call_threads.start(hanging)
    assert entered.wait(5)
    now[0] = 10.0
    assert call_threads.overdue(60) == []
    now[0] = 61.0
    assert call_threads.overdue(60) == [hanging]
    call_threads.start(quick)
    assert call_threads.finished(5) == [quick], "another thread has taken its place"
    held.set()
    assert call_threads.finished(0.1) == []
    call_threads.close()
    threads[0].join(5)
    assert not threads[0].is_alive(), "it would stay as long as the process, with its message"


def test_what_a_batch_leaves_on_its_way_is_no_answer_for_the_next():
    held, entered = threading.Event(), threading.Event()

    def hang(_):
        entered.set()
        held.wait(20)

    call_threads = CallThreads()
    call_threads.start(a_call(MemoryDeliverer(script=hang)))
    assert entered.wait(5)
    call_threads.give_up()
    assert call_threads.in_flight == set()
    held.set()
    of_the_next = a_call(MemoryDeliverer())
    call_threads.start(of_the_next)
    assert call_threads.finished(5) == [of_the_next]
    assert call_threads.finished(0.1) == []
    call_threads.close()


def test_threads_of_calls_given_up_end_also_if_they_come_back_after_the_close():
    held, entered, threads = threading.Event(), threading.Semaphore(0), []

    def hang(_):
        threads.append(threading.current_thread())
        entered.release()
        held.wait(20)

    now = [0.0]
    call_threads = CallThreads(lambda: now[0])
    for number in range(3):
        call_threads.start(a_call(MemoryDeliverer(script=hang)))
        assert entered.acquire(timeout=5)
        now[0] += 61.0
        if number < 2:
            assert len(call_threads.overdue(60)) == 1
    call_threads.close()
    held.set()
    for thread in threads:
        thread.join(5)
    assert [thread.is_alive() for thread in threads] == [False] * 3


def test_a_deliverer_that_raises_is_told_as_a_failure_of_the_call():
    def broken(_):
        raise KeyError("oops")

    call_threads = CallThreads()
    call_threads.start(a_call(MemoryDeliverer(script=broken)))
    [call] = call_threads.finished(5)
    assert isinstance(call.failure, KeyError)
    call_threads.close()


def test_a_call_in_the_own_thread_ends_as_any_other():
    threads = []

    def seen(message):
        threads.append(threading.current_thread())
        if len(threads) == 2:
            raise KeyError("oops")

    call_threads = CallThreads()
    good, bad = a_call(MemoryDeliverer(script=seen)), a_call(MemoryDeliverer(script=seen))
    call_threads.make(good)
    assert call_threads.in_flight == {good}
    assert call_threads.finished(0) == [good]
    assert (good.answers, good.failure) == ([Accepted()], None)
    call_threads.make(bad)
    assert call_threads.finished(0) == [bad]
    assert isinstance(bad.failure, KeyError)
    assert set(threads) == {threading.current_thread()}


@pytest.mark.parametrize(
    ("answer", "idempotent", "free", "code", "kind", "state"),
    [
        (Refused(code="BAD"), False, False, "BAD", "permanent", "FAILED"),
        (Later(), False, False, "NOT_NOW", "transient", "FAILED"),
        (Later(), False, True, "NOT_NOW", "outage", "FAILED"),
        (Unreachable(), False, False, "UNREACHABLE", "outage", "FAILED"),
        (Unknown(), False, False, "DELIVERY_UNKNOWN", "permanent", "UNKNOWN"),
        (Unknown(), False, True, "DELIVERY_UNKNOWN", "permanent", "UNKNOWN"),
        (Unknown(), True, False, "NO_ANSWER", "transient", "FAILED"),
    ],
)
def test_what_an_answer_means_for_its_message(answer, idempotent, free, code, kind, state):
    outcome, of_call = read(answer, is_idempotent=idempotent, is_free=free)
    failure = outcome.failure
    assert (failure.code, failure.kind, of_call) == (code, kind, state)


@pytest.mark.parametrize(
    ("may_be", "charged", "kind"),
    [(True, True, "transient"), (True, False, "outage"), (False, True, "outage")],
)
def test_a_probe_may_count_for_a_message_that_may_be_what_the_endpoint_fails_at(
    may_be, charged, kind
):
    answer = Unreachable(may_be_the_message=may_be)
    outcome, state = read(answer, is_idempotent=False, is_free=False, is_charged=charged)
    assert (outcome.failure.kind, state) == (kind, "FAILED")
