"""Facts in, problems out: each thing that is wrong once, the most urgent first."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from crontasks.problems.facts import Facts, Idle, Problem, Short, Taker, Way
from crontasks.problems.finding import problems
from integration.models import ExternalSystem, Provider, Queue, QueuePartition
from integration.selectors.queues.heads import Head
from integration.selectors.queues.rows import QueueRow, queue_row
from integration.selectors.queues.status import LiveProcesses
from integration.selectors.queues.unhandled import Untaken

pytestmark = pytest.mark.fast
NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
ALL = LiveProcesses(workers=2, relays=1, beats=1)
HEAD = UUID(int=7)


def a_row(
    live_processes: LiveProcesses = ALL, place: dict[str, Any] | None = None, **fields: Any
) -> QueueRow:
    """A queue with one partition at offset 10 of 15, or with none."""
    values: dict[str, Any] = {
        "pk": 1,
        "name": "orders",
        "topic": "t-orders",
        "kind": "sequential",
        "direction": "inbound",
        "provider": Provider(pk=3, name="plant"),
        "changed_at": NOW - timedelta(hours=1),
    }
    queue = Queue(**(values | fields))
    partitions = []
    if place is not None:
        known = {"partition": 0, "next_offset": 10, "high_watermark": 15, "state_since": NOW}
        partitions.append(QueuePartition(queue=queue, **(known | place)))
    return queue_row(queue, partitions, live_processes)


def found(*rows: QueueRow, live_processes: LiveProcesses = ALL, **facts: Any) -> list[Problem]:
    return problems(Facts(now=NOW, live_processes=live_processes, rows=rows, **facts))


def test_where_all_flows_nothing_is_wrong() -> None:
    assert found(a_row(place={})) == []


def test_an_installation_without_queues_lacks_nothing() -> None:
    assert found(live_processes=LiveProcesses()) == []


def test_a_dead_crew_is_told_once_and_not_again_by_every_queue() -> None:
    nobody = LiveProcesses()
    rows = [a_row(nobody, {}, pk=n, name=f"q-{n}") for n in range(3)]
    told = found(*rows, a_row(nobody, pk=9, name="new"), live_processes=nobody)
    assert [one.what for one in told] == ["Worker down", "Beat down", "Relay down"]
    assert {one.way for one in told} == {Way.TERMINAL}


def test_a_spark_driver_is_missed_only_where_bulk_runs_wait_for_one() -> None:
    row = a_row(place={})
    (one,) = found(row, bulk_waiting=2)
    assert (one.what, one.way, one.is_grave) == ("No Spark driver answers", Way.TERMINAL, False)
    assert one.why.startswith("2 bulk runs wait")
    assert "run_spark_driver" in one.next_step
    assert found(row, bulk_waiting=2, live_processes=replace(ALL, drivers=1)) == []


def test_a_rescue_that_stopped_is_told_whatever_else_holds_the_queue_up() -> None:
    full = {"rescue_code": "RESCUE_FULL", "rescue_text": "No room."}
    (one,) = found(a_row(place=full, paused=True))
    assert (one.way, one.subject, one.is_grave) == (Way.QUEUE, "orders", True)
    assert one.why.startswith("RESCUE_FULL")


def test_one_cluster_that_refuses_us_is_one_problem() -> None:
    down = {"state": "OUTAGE", "state_code": "KAFKA_REFUSED", "state_text": "No access."}
    rows = [a_row(place=down, pk=n, name=f"q-{n}") for n in range(4)]
    (one,) = found(*rows, away={"plant": "BROKER_REFUSED: Wrong password."})
    assert (one.what, one.way, one.number) == ("plant refuses us", Way.PROVIDER, 3)
    assert "4 queues wait" in one.why
    assert one.why.endswith("Wrong password.")


def test_a_wrong_protocol_is_no_refusal() -> None:
    said = "The provider plant is set to SSL, but the port a:1 speaks PLAINTEXT."
    (one,) = found(a_row(place={}), away={"plant": f"BROKER_PROTOCOL: {said}"})
    assert one.what == "plant is set to another protocol than its port speaks"
    assert one.why == f"{said} No queue has met it yet."
    down = {"state": "OUTAGE", "state_code": "KAFKA_PROTOCOL", "state_text": said}
    (met,) = found(a_row(place=down))
    assert (met.what, met.way) == (one.what, Way.PROVIDER)


@pytest.mark.parametrize(
    ("code", "state", "what"),
    [
        ("BROKER_CERTIFICATE_EXPIRED", "KAFKA_CERTIFICATE", "do not accept each other"),
        ("CLIENT_CERTIFICATE", "KAFKA_CERTIFICATE", "do not accept each other"),
        ("BROKER_RIGHTS", "KAFKA_RIGHTS", "refuses us a right"),
        ("BROKER_REFUSED", "KAFKA_REFUSED", "refuses us"),
        ("BROKER_REFUSED", "JMS_REFUSED", "refuses us"),
        ("CLIENT_CERTIFICATE", "JMS_CERTIFICATE", "do not accept each other"),
        ("BROKER_UNREACHABLE", "JMS_UNREACHABLE", "does not answer"),
    ],
)
def test_each_refusal_is_told_as_what_it_is(code: str, state: str, what: str) -> None:
    (noticed,) = found(a_row(place={}), away={"plant": f"{code}: The reason."})
    down = {"state": "OUTAGE", "state_code": state, "state_text": "The reason."}
    (met,) = found(a_row(place=down))
    for one in (noticed, met):
        assert what in one.what
        assert "The reason." in one.why
        assert one.way is Way.PROVIDER


@pytest.mark.parametrize(
    "code",
    ["JMS_RIGHTS", "JMS_SELECTOR", "JMS_ADDRESS_REFUSED", "JMS_IN_USE", "JMS_TOO_LARGE"],
)
def test_what_a_jms_broker_refuses_to_one_queue_is_a_problem_of_that_queue(code: str) -> None:
    down = {"state": "OUTAGE", "state_code": code, "state_text": "Its own words."}
    (one,) = found(a_row(place=down))
    assert (one.what, one.way) == ("The JMS broker lets orders read nothing", Way.QUEUE)
    assert "Its own words." in one.why
    assert one.next_step


def test_a_provider_is_told_before_any_queue_has_met_it() -> None:
    (one,) = found(a_row(place={}), away={"plant": "BROKER_UNREACHABLE: Nobody answers."})
    assert one.what == "plant does not answer"


def test_a_provider_that_no_queue_needs_is_nobodys_problem() -> None:
    assert found(a_row(place={}), away={"other": "BROKER_UNREACHABLE: x."}) == []
    assert found(a_row(place={}, paused=True), away={"plant": "BROKER_UNREACHABLE: x."}) == []


def test_a_blocked_head_is_a_sentence_that_leads_to_its_failure() -> None:
    state = {"state": "BLOCKED", "state_code": "HEAD_HELD", "state_error": HEAD}
    since = {"state_since": NOW - timedelta(hours=7), "high_watermark": 4_223}
    waits = {"oldest_waiting_at": NOW - timedelta(days=4), "seen_at": NOW - timedelta(seconds=9)}
    row = a_row(place={**state, **since, **waits})
    (one,) = found(row, heads={HEAD: a_head()})
    assert one.why == (
        "Blocked 7 h by AZ163: siteid missing. At most 4,212 wait behind it, counted 9 s ago; the "
        "first expires Sunday 12:00."
    )
    assert (one.way, one.subject) == (Way.FAILURE, str(HEAD))


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (timedelta(seconds=-30), "How many wait behind it has not been counted yet."),
        (timedelta(seconds=30), "Nothing waited behind it 30 s ago."),
    ],
    ids=["before it was blocked", "since then"],
)
def test_nothing_is_said_to_wait_only_where_it_was_counted(seen: timedelta, told: str) -> None:
    since = NOW - timedelta(minutes=1)
    state = {"state": "BLOCKED", "state_code": "HEAD_HELD", "state_error": HEAD}
    counted = {"state_since": since, "high_watermark": 11, "seen_at": since + seen}
    (one,) = found(a_row(place={**state, **counted}), heads={HEAD: a_head()})
    assert one.why.endswith(told)


def a_head(state: str = "HOLD") -> Head:
    return Head(
        id=HEAD,
        version=1,
        state=state,
        name="AZ163",
        text="siteid missing.",
    )


def test_a_head_that_was_decided_about_waits_for_a_worker() -> None:
    row = a_row(place={"state": "BLOCKED", "state_code": "HEAD_HELD", "state_error": HEAD})
    (one,) = found(row, heads={HEAD: a_head("READY")})
    assert one.next_step.startswith("It was released")
    assert one.way is Way.QUEUE


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ({"state": "BLOCKED", "state_code": "TOPIC_GONE"}, "orders is blocked"),
        (
            {"state": "BRAKED", "state_code": "TOO_MANY_OPEN_ERRORS"},
            "orders is stopped at its failure threshold",
        ),
        ({"state": "WAITING", "state_code": "HANDLER_MISSING"}, "orders waits for a handler"),
        (
            {"state": "WAITING", "state_code": "KEYS_MOVED"},
            "orders waits with a partition that was added",
        ),
        ({"state": "OUTAGE", "state_code": "OUTAGE"}, "orders waits for an outage to end"),
    ],
)
def test_what_stops_one_queue_is_told_with_its_way_out(place: dict[str, str], what: str) -> None:
    (one,) = found(a_row(place=place))
    assert one.what == what
    assert one.why
    assert one.next_step
    assert (one.way, one.subject) == (Way.QUEUE, "orders")


@pytest.mark.parametrize("switch", [{"paused": True}, {"enabled": False}])
def test_what_a_person_stopped_on_purpose_is_no_problem(switch: dict[str, bool]) -> None:
    assert found(a_row(place={"state": "BLOCKED", "state_code": "GAP"}, **switch)) == []


def test_a_system_that_is_off_explains_its_queues() -> None:
    off = ExternalSystem(pk=5, name="sap", enabled=False)
    waiting = {"state": "WAITING", "state_code": "SYSTEM_DISABLED"}
    rows = [a_row(place=waiting, pk=n, name=f"q-{n}", system=off) for n in range(2)]
    (one,) = found(*rows)
    assert one.what == "The external system sap is switched off"
    assert one.why == "q-0 and q-1 belong to it, so what it sends waits."
    assert one.number == 5


def test_a_service_that_is_off_explains_the_queue_that_waits_for_it() -> None:
    row = a_row(place={"state": "WAITING", "state_code": "SERVICE_DISABLED"})
    (one,) = found(row, services_off=[Taker(4, "MXWO", ("orders",), ("orders",))])
    assert one.why == "It takes the messages of orders, so the queue waits."
    (one,) = found(row)
    assert one.what == "orders waits for what is switched off"


def test_a_continuous_queue_puts_the_messages_of_a_service_that_is_off_on_hold() -> None:
    (one,) = found(a_row(place={}), services_off=[Taker(4, "MXWO", ("orders",), ())])
    assert one.why == "It takes the messages of orders, so its messages go on hold."


def test_a_queue_that_no_schedule_starts() -> None:
    paused, missing = Idle("orders", 8, "Consume orders"), Idle("other", None, "")
    told = found(a_row(place={}), idle=[paused, missing])
    assert [one.way for one in told] == [Way.INSTANCE, Way.CONFIGURE_QUEUE]
    assert told[0].number == 8


def test_a_topic_that_forgets_before_the_retries_are_over() -> None:
    (one,) = found(a_row(place={}), short=[Short("orders", "t-orders", 3_600, 21_600)])
    assert "for 1 h, and the retries of one message take 6 h" in one.why


def test_messages_that_leave_kafka_soon_are_told_whatever_holds_them() -> None:
    nearly = NOW - timedelta(days=7) + timedelta(hours=2)
    row = a_row(place={"oldest_waiting_at": nearly}, paused=True)
    (one,) = found(row)
    assert one.why == (
        "5 messages wait and the first leaves Kafka in 2 h: t-orders keeps its messages for 7 d."
    )
    over = a_row(place={"oldest_waiting_at": NOW - timedelta(days=8)})
    assert "may leave Kafka at any moment" in found(over)[0].why
    assert found(a_row(place={"oldest_waiting_at": NOW - timedelta(days=2)})) == []


def test_a_queue_that_was_just_saved_gets_time_for_its_first_run() -> None:
    assert found(a_row(changed_at=NOW - timedelta(seconds=20))) == []
    (one,) = found(a_row())
    assert one.what == "Nobody reads orders"


def test_a_queue_whose_first_run_was_hindered_says_by_what() -> None:
    just_saved = a_row(changed_at=NOW - timedelta(seconds=20))
    (one,) = found(just_saved, hindered={just_saved.id: "The topic t-orders does not exist."})
    assert (one.what, one.why) == ("orders cannot begin", "The topic t-orders does not exist.")


def test_what_no_handler_takes_leads_to_its_service_where_switching_it_off_helps() -> None:
    waits = {"state": "WAITING", "state_code": "HANDLER_MISSING"}
    untaken = {1: Untaken(7, "MXWO")}
    (one,) = found(a_row(place=waits, kind="continuous"), unhandled=untaken)
    assert (one.way, one.number) == (Way.SERVICE, 7)
    assert one.next_step.endswith("its messages are then put on hold, and the others continue.")
    (strict,) = found(a_row(place=waits), unhandled=untaken)
    assert "switch the service off" not in strict.next_step, "a sequential queue waits then, too"


def test_the_most_urgent_comes_first() -> None:
    handler = a_row(place={"state": "WAITING", "state_code": "HANDLER_MISSING"}, name="a")
    gone = a_row(place={"state": "BLOCKED", "state_code": "TOPIC_GONE"}, name="b", pk=2)
    live_processes = LiveProcesses(workers=1, relays=1)
    told = found(
        handler,
        gone,
        live_processes=live_processes,
        away={"plant": "BROKER_REFUSED: x."},
        services_off=[Taker(4, "MXWO", ("c",), ("c",))],
    )
    assert [one.what for one in told] == [
        "Beat down",
        "plant refuses us",
        "b is blocked",
        "a waits for a handler",
        "The service MXWO is switched off",
    ]
