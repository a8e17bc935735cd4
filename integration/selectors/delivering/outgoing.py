"""The whole way out of one queue that sends: outbox, Kafka, calls under way, what stands still."""

from dataclasses import dataclass
from typing import Final

from integration.models import MessageError, Queue
from integration.policy.states import OPEN, ErrorState
from integration.selectors.delivering import endpoints, open_calls
from integration.selectors.delivering.endpoints import EndpointRow
from integration.selectors.delivering.open_calls import COUNT_CAP, Doubt, Open
from integration.selectors.failures.advice import advice_for
from integration.selectors.failures.payloads import bytes_as_text
from integration.selectors.masking.covers import UNCOVERED, covers_of
from integration.selectors.paging import capped_count

PARKED: Final = "PARKED"
FAILURES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Failure:
    """One open failure with what to do now. `key` is empty where it is not revealed."""

    error: MessageError
    now: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """The page of a queue that sends, beside its position. Counts stop above a cap."""

    endpoints: list[EndpointRow]
    open: Open
    parked: int
    doubts: list[Doubt]
    failures: list[Failure]


def outgoing(queue: Queue, *, reveal: bool) -> Outgoing:
    """Read the page in some ten queries, each bounded by what is open."""
    open_ones = MessageError.objects.filter(queue=queue, state__in=sorted(OPEN))
    # Of parked ones only what they wait for is worth a line.
    last = open_ones.exclude(code=PARKED).order_by("-last_failed_at")
    columns = ("state", "code", "failure_class", "interface", "text", "last_failed_at", "key")
    failures = []
    shown = list(last.only("queue", *columns)[:FAILURES_SHOWN])
    found = covers_of([error.pk for error in shown]) if shown else {}
    for error in shown:
        cover = found.get(error.pk, UNCOVERED)
        error.text = cover.text(error.text, error.code)
        key = cover.key(bytes_as_text(error.key)) if reveal else ""
        failures.append(Failure(error, advice_for(error, queue, error.code), key))
    return Outgoing(
        endpoints=endpoints.of_queue(queue),
        open=open_calls.counts().of_queue(queue.pk),
        parked=capped_count(open_ones.filter(state=ErrorState.PARKED), COUNT_CAP),
        doubts=open_calls.doubts(queue.pk, reveal=reveal),
        failures=failures,
    )
