"""Tracked messages over HTTP: the search, the story of one message, and its payload."""

from typing import Final

from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Query, Router

from console.api.errors import BadInputError
from console.api.message_answers import (
    MessageFilters,
    MessagePage,
    MessageStory,
    TrackLine,
)
from console.api.paging import filter_in, no_place
from console.api.payload_answers import ShownPayload
from console.api.routes import reading
from console.layout import trail
from console.layout.access import Right, has, scope_of
from console.tracking.filters import HOURS, TrackFilterForm
from console.tracking.pages import KIND, UNKNOWN, untried, view_of
from integration.selectors.failures.failures import Choices
from integration.selectors.tracking import search
from integration.selectors.tracking.masked import mask_of
from integration.selectors.tracking.rows import Cursor, newest_payload
from integration.selectors.tracking.story import RELATED, Story, story

router: Final = Router(tags=["messages"])
NOT_KEPT: Final = "Tracking did not keep the payload of this message; a failure of it has its own."
NO_ID: Final = "Say whose story is meant: “id” is empty."
NO_CHOICES: Final = Choices(queues=(), systems=())


@reading(router, "/messages", answer=MessagePage)
def find_messages(request: HttpRequest, filters: Query[MessageFilters]) -> MessagePage:
    """Tries of messages by any id, key, trace, service, queue or ending, newest first."""
    scope, may_see = scope_of(request.user), has(request.user, Right.VIEW_PAYLOAD)
    query = filter_in(request.GET, "at", "size")
    if filters.hours and filters.hours not in dict(HOURS):
        raise BadInputError(f"“hours” is one of {', '.join(dict(HOURS))}.")
    form = TrackFilterForm(query, NO_CHOICES, may_see_payload=may_see)
    form.refuse_misread()
    cursor = Cursor.read(filters.at) if filters.at else None
    if filters.at and cursor is None:
        raise no_place("at")
    wanted = form.wanted(timezone.now(), scope)
    page = search.page(wanted, cursor, filters.size)
    other = untried(wanted, page)
    return MessagePage(
        tracks=TrackLine.of_all(page.rows, may_see=may_see),
        count=page.shown_count,
        is_capped=page.is_capped,
        untried=None if other is None else other.message_id,
        next=None if page.next_after is None else str(page.next_after),
    )


@reading(router, "/messages/story", answer=MessageStory)
def read_message(request: HttpRequest, id: str) -> MessageStory:  # noqa: A002 - as on the page
    """What became of a message, by its message id: posts, tries, failures, calls, decisions."""
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    return MessageStory.of(_known(request, id), may_see=may_see)


@reading(router, "/messages/payload", Right.VIEW_PAYLOAD, answer=ShownPayload)
def read_payload(request: HttpRequest, id: str) -> ShownPayload:  # noqa: A002 - as on the page
    """The payload that tracking kept, without what masking rules hide; a reading is noted."""
    message = _known(request, id)
    kept = newest_payload(message.tracks[:RELATED])
    if kept is None:
        raise Http404(NOT_KEPT)
    trail.note_view(request, KIND, "", message.message_id)
    return ShownPayload.of(view_of(kept, mask_of(kept.track)))


def _known(request: HttpRequest, message_id: str) -> Story:
    """The message, if this person may know of it. Raises Http404, BadInputError."""
    if not message_id:
        raise BadInputError(NO_ID)
    found = story(message_id, scope_of(request.user))
    if found is None:
        raise Http404(UNKNOWN)
    return found
