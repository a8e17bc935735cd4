"""What the operator API says of endpoints at work, and what it takes for them."""

from datetime import datetime
from typing import Annotated, Any, Final

from ninja import Schema
from pydantic import AwareDatetime, Field, StringConstraints

from console.api.routes import Decision, Given, Text
from console.setup.endpoints import TEST_CHARACTERS
from integration.models import Delivery, Endpoint, EndpointCircuit, EndpointTest
from integration.selectors.delivering.endpoints import EndpointDetail, EndpointRow
from integration.selectors.delivering.figures import Window

Name = Annotated[str, StringConstraints(pattern="^[^\x00]*$", max_length=TEST_CHARACTERS)]
Counted = Annotated[int | None, Field(description="null: not known.")]


class Calls(Schema):
    """Calls that ended within `seconds`; half of those measured took at most `p50_ms`."""

    count: int
    delivered: int
    failed: int
    unknown: int
    p50_ms: float | None
    p95_ms: float | None
    last_delivered_at: datetime | None
    seconds: float

    @classmethod
    def of(cls, window: Window) -> "Calls":
        return cls.model_validate(window, from_attributes=True)


class EndpointLine(Schema):
    """An endpoint as it stands; `why` and `next_step` say what that means.

    `waiting` is what its queues have not read. `sending` counts calls under way, `in_doubt`
    messages that may have arrived and wait for a person.
    """

    name: str
    system: str
    endpoint_type: str
    enabled: bool
    paused_until: datetime | None
    standing: str
    why: str
    next_step: str
    waiting: Counted
    sending: int
    in_doubt: int
    queues: list[str]
    last_quarter: Calls

    @classmethod
    def of(cls, row: EndpointRow) -> "EndpointLine":
        return cls(**_facts_of(row))


class EndpointPage(Schema):
    """Endpoints by name; `next` is a value for `after`."""

    endpoints: list[EndpointLine]
    next: str | None


class Circuit(Schema):
    """Whether calls are made: CLOSED takes them; `failures` are those in a row."""

    state: str
    failures: int
    probes: int
    opened_at: datetime | None
    resume_at: datetime | None
    code: str
    text: str


class CallEnding(Schema):
    """Calls of the last day that ended in the same way; `status` is the answer's, or empty."""

    state: str
    status: str
    code: str
    count: int
    last_at: datetime


class EndpointAnswer(Schema):
    """One call and how it ended; `excerpt` is null without the right to see payloads."""

    ended_at: datetime | None
    queue: str
    message_id: str
    attempt: int
    state: str
    status: int | None
    took_ms: int | None
    code: str
    text: str
    excerpt: str | None

    @classmethod
    def of(cls, call: Delivery, *, may_see: bool) -> "EndpointAnswer":
        own = [name for name in cls.model_fields if name not in {"queue", "excerpt"}]
        facts: dict[str, Any] = {name: getattr(call, name) for name in own}
        return cls(**facts, queue=call.queue.name, excerpt=call.excerpt if may_see else None)


class EndpointUse(Schema):
    """A queue that sends to it, with the channels by which it does."""

    queue: str
    is_own: bool
    channels: list[str]
    waiting: Counted


class EndpointTested(Schema):
    """What a test found; `excerpt` is null without the right to see payloads."""

    at: datetime
    actor: str
    kind: str
    is_good: bool
    took_ms: int | None
    status: int | None
    code: str
    text: str
    excerpt: str | None

    @classmethod
    def of(cls, test: EndpointTest, *, may_see: bool) -> "EndpointTested":
        found = cls.model_validate(test, from_attributes=True)
        return found if may_see else found.model_copy(update={"excerpt": None})


class EndpointDetails(EndpointLine):
    """An endpoint with its limits, its circuit, its last answers and who uses it."""

    idempotent: bool
    rate_per_second: float | None
    max_concurrent: int | None
    open_after: int
    circuit: Circuit
    last_day: Calls
    endings: list[CallEnding]
    answers: list[EndpointAnswer]
    uses: list[EndpointUse]
    tests: list[EndpointTested]

    @classmethod
    def of_detail(cls, detail: EndpointDetail, *, may_see: bool) -> "EndpointDetails":
        endpoint = detail.row.endpoint
        return cls(
            **_facts_of(detail.row),
            **{name: getattr(endpoint, name) for name in _LIMITS},
            circuit=Circuit.model_validate(_circuit_of(endpoint), from_attributes=True),
            last_day=Calls.of(detail.day),
            endings=[CallEnding.model_validate(o, from_attributes=True) for o in detail.outcomes],
            answers=[EndpointAnswer.of(call, may_see=may_see) for call in detail.answers],
            uses=[EndpointUse.model_validate(use, from_attributes=True) for use in detail.uses],
            tests=[EndpointTested.of(test, may_see=may_see) for test in detail.tests],
        )


class PauseEndpoint(Decision):
    """Until a time, 30 days ahead at most; needs a reason."""

    until: AwareDatetime


class SampleAsked(Given):
    """What is sent as a sample, to the partner, really."""

    body: Text
    interface: Name = "TEST"
    key: Name = "TEST"


class TestAsked(Given):
    """null: connect only."""

    sample: SampleAsked | None = None


_LIMITS: Final = ("idempotent", "rate_per_second", "max_concurrent", "open_after")


def _circuit_of(endpoint: Endpoint) -> EndpointCircuit:
    """Its own, or where it was never called one that is closed."""
    return getattr(endpoint, "circuit", None) or EndpointCircuit()


def _facts_of(row: EndpointRow) -> dict[str, Any]:
    endpoint = row.endpoint
    own = ("name", "endpoint_type", "enabled", "paused_until")
    return {
        **{name: getattr(endpoint, name) for name in own},
        "system": endpoint.system.name,
        "standing": row.standing.name,
        "why": row.situation.why,
        "next_step": row.situation.next_step,
        "waiting": row.waiting,
        "sending": row.open.sending,
        "in_doubt": row.open.unknown,
        "queues": list(row.queues),
        "last_quarter": Calls.of(row.quarter),
    }
