"""Endpoints at work over HTTP: how each stands, and what people decide about it."""

from functools import partial
from typing import Final

from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from console.api.endpoint_answers import (
    EndpointDetails,
    EndpointLine,
    EndpointPage,
    EndpointTested,
    PauseEndpoint,
    TestAsked,
)
from console.api.errors import BadInputError, RightMissingError
from console.api.paging import page_by_name, refuse_unknown
from console.api.routes import Decision, acting, operation, reading
from console.delivering.verbs import Verb
from console.layout.access import Right, has, scope_of
from console.layout.answers import actor_of
from console.setup.endpoints import ENDPOINTS, TEST_REASON
from console.setup.pages import known_row
from integration.actions import endpoint_switches as switches
from integration.actions import endpoint_test
from integration.actions.configuration import Author
from integration.actions.endpoint_test import Sample
from integration.actions.queues import LONGEST_PAUSE
from integration.selectors.delivering import endpoints

router: Final = Router(tags=["endpoints"])
ONE: Final = "/endpoints/{slug:name}"
NOT_SO_LONG: Final = (
    "A pause ends in the future, 30 days ahead at most; to stop for longer, disable."
)


class EndpointPlace(Schema):
    """The place in the list."""

    after: str | None = Field(None, description="`next` of an earlier answer.")


@reading(router, "/endpoints", answer=EndpointPage)
def list_endpoints(request: HttpRequest, place: Query[EndpointPlace]) -> EndpointPage:
    """Every endpoint by name, 100 a page, as it stands now."""
    refuse_unknown(request, EndpointPlace)
    shown, behind = page_by_name(endpoints.standing(scope_of(request.user)), place.after)
    return EndpointPage(endpoints=[EndpointLine.of(row) for row in shown], next=behind)


@reading(router, ONE, answer=EndpointDetails)
def read_endpoint(request: HttpRequest, name: str) -> EndpointDetails:
    """One endpoint: its circuit, its limits, its last answers and tests, and who uses it."""
    return _shown(request, name)


@acting(router, "POST", f"{ONE}/pauses", Right.VIEW, Right.OPERATE, answer=EndpointDetails)
def pause_endpoint(request: HttpRequest, name: str, asked: PauseEndpoint) -> EndpointDetails:
    """Send nothing to it until a time; needs a reason. Waiting messages stay in Kafka."""
    now = timezone.now()
    if not now < asked.until <= now + LONGEST_PAUSE:
        raise BadInputError(NOT_SO_LONG)
    return _decided(request, name, partial(switches.pause, until=asked.until), asked)


@acting(router, "POST", f"{ONE}/resumptions", Right.VIEW, Right.OPERATE, answer=EndpointDetails)
def resume_endpoint(request: HttpRequest, name: str, asked: Decision) -> EndpointDetails:
    """End the pause; what waits is sent."""
    return _decided(request, name, switches.resume, asked)


@acting(router, "POST", f"{ONE}/enablings", Right.VIEW, Right.OPERATE, answer=EndpointDetails)
def enable_endpoint(request: HttpRequest, name: str, asked: Decision) -> EndpointDetails:
    """Switch it on; what waits is sent."""
    return _decided(request, name, partial(switches.switch, to_on=True), asked)


@acting(router, "POST", f"{ONE}/disablings", Right.VIEW, Right.OPERATE, answer=EndpointDetails)
def disable_endpoint(request: HttpRequest, name: str, asked: Decision) -> EndpointDetails:
    """Switch it off; needs a reason. Waiting messages stay in Kafka until they expire."""
    return _decided(request, name, partial(switches.switch, to_on=False), asked)


@operation(router, "POST", f"{ONE}/tests", Right.VIEW, Right.CONFIGURE, answer=EndpointTested)
def test_endpoint(request: HttpRequest, name: str, asked: TestAsked) -> EndpointTested:
    """Find out whether it can be reached, or send it a sample; it takes 20 seconds at most.

    The call is made outside of any transaction, so it takes no idempotency key.
    """
    row = known_row(request, ENDPOINTS, _id(request, name))
    if hindrance := ENDPOINTS.hindrance(request.user):
        raise RightMissingError(why=hindrance)
    sample = None if asked.sample is None else Sample(**asked.sample.model_dump())
    if sample is not None and (mistake := endpoint_test.mistake_in(sample)):
        raise BadInputError(mistake)
    done = endpoint_test.run_test(row, Author(actor_of(request), TEST_REASON), sample)
    return EndpointTested.of(done, may_see=has(request.user, Right.VIEW_PAYLOAD))


def _decided(request: HttpRequest, name: str, verb: Verb, why: Decision) -> EndpointDetails:
    verb(_id(request, name), Author(actor_of(request), why.reason.strip()))
    return _shown(request, name)


def _id(request: HttpRequest, name: str) -> int:
    """The number of the endpoint, if this person may know of it. Raises Http404."""
    endpoint_id = endpoints.id_of(name, scope_of(request.user))
    if endpoint_id is None:
        raise Http404(f"There is no endpoint {name}.")
    return endpoint_id


def _shown(request: HttpRequest, name: str) -> EndpointDetails:
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    detail = endpoints.detail(name, scope_of(request.user), reveal=may_see)
    if detail is None:
        raise Http404(f"There is no endpoint {name}.")
    return EndpointDetails.of_detail(detail, may_see=may_see)
