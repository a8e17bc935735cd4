"""A person's Test of an endpoint: connect only, or send a sample; what was found is kept."""

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any, Final

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.endpoint_types.opening import opened
from integration.endpoints.port import Accepted, Answer, Deliverer, OutboundMessage, Unreachable
from integration.endpoints.properties import ENDPOINT_TYPES, EndpointSettingsError
from integration.models import Endpoint, EndpointTest
from integration.models.fields import SecretUnreadableError
from integration.store.sessions import database_now

# A person waits for it, and so does a process of the console.
MOST_SECONDS: Final = 20.0
LIMITS: Final = ("connect_seconds", "read_seconds", "statement_seconds", "total_seconds")
LARGEST_BYTES: Final = 256 * 1024
SAMPLE: Final = '{"test": true}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The sample to send: a payload as a partner would get it, under an id of its own."""

    body: str = SAMPLE
    interface: str = "TEST"
    key: str = "TEST"


def run_test(endpoint: Endpoint, author: Author, sample: Sample | None) -> EndpointTest:
    """Send the sample, really: the partner gets it, and it is audited like a change.

    Without one it is only found out whether the endpoint can be reached with what is stored.
    """
    begun = time.monotonic()
    try:
        deliverer = opened(_bounded(endpoint))
    except (EndpointSettingsError, SecretUnreadableError) as problem:
        answer: Answer = Unreachable(code=problem.code, text=str(problem))
    else:
        answer = _answered(deliverer, endpoint, sample)
    test = EndpointTest.objects.create(
        endpoint=endpoint,
        kind=EndpointTest.Kind.CONNECT if sample is None else EndpointTest.Kind.SAMPLE,
        at=database_now(),
        actor=author.actor,
        is_good=isinstance(answer, Accepted),
        took_ms=round((time.monotonic() - begun) * 1_000),
        status=answer.status,
        code=answer.code,
        text=answer.text,
        excerpt=answer.excerpt,
    )
    test.refresh_from_db()
    if sample is not None:
        # The audit outlives the endpoint, and is read without the right to see payloads.
        told = {n: v for n, v in configuration.facts(test).items() if n != "excerpt"}
        configuration.record(test, None, told, author)
    return test


def _answered(deliverer: Deliverer, endpoint: Endpoint, sample: Sample | None) -> Answer:
    try:
        if sample is None:
            return deliverer.connect()
        return deliverer.deliver([_outbound_message(endpoint, sample)])[0]
    finally:
        deliverer.close()


def _outbound_message(endpoint: Endpoint, sample: Sample) -> OutboundMessage:
    is_xml = sample.body.lstrip().startswith("<")
    return OutboundMessage(
        message_id=f"test-{uuid.uuid4()}",
        interface=sample.interface,
        system=endpoint.system.name,
        body=sample.body.encode(),
        content_type="application/xml" if is_xml else "application/json",
        key=sample.key,
    )


def _bounded(endpoint: Endpoint) -> Endpoint:
    """The same endpoint with no time limit beyond what a person waits."""
    stored: dict[str, Any] = endpoint.properties if isinstance(endpoint.properties, dict) else {}
    bounded = {
        n: min(v, MOST_SECONDS)
        for n, v in stored.items()
        if n in LIMITS and isinstance(v, int | float)
    }
    properties_class = ENDPOINT_TYPES.get(endpoint.endpoint_type)
    if properties_class is not None and properties_class.waits_at_most:
        bounded.setdefault(properties_class.waits_at_most, MOST_SECONDS)
    return Endpoint(
        name=endpoint.name,
        system=endpoint.system,
        endpoint_type=endpoint.endpoint_type,
        properties={**stored, **bounded},
        secrets=endpoint.secrets,
    )


def mistake_in(sample: Sample) -> str:
    """Return why this sample is not sent, as a sentence; empty when it is."""
    if not sample.body.strip():
        return "Enter what is to be sent."
    if len(sample.body.encode()) > LARGEST_BYTES:
        return f"A sample has at most {LARGEST_BYTES:,} bytes."
    if not sample.body.lstrip().startswith("<"):
        try:
            json.loads(sample.body)
        except (ValueError, RecursionError):
            return "It is neither JSON nor XML."
    return ""
