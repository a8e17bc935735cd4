"""Tracked messages: the search, and the page of one message with its whole story."""

import hashlib
from dataclasses import replace
from typing import Final
from urllib.parse import quote, urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from console.layout import reveals, trail
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import SeeOther
from console.layout.standby import from_standby
from console.tracking.filters import TrackFilterForm
from integration.masking.mask import NOTHING, Mask
from integration.selectors import traces
from integration.selectors.failures import failures, payloads
from integration.selectors.tracking import search
from integration.selectors.tracking.masked import mask_of, masked
from integration.selectors.tracking.neighbours import Neighbours, neighbours
from integration.selectors.tracking.rows import Cursor, KeptPayload, TrackRow, newest_payload
from integration.selectors.tracking.schemas import reading_for, schema_of
from integration.selectors.tracking.search import TrackFilter, TrackPage
from integration.selectors.tracking.story import RELATED, Story, posted_as, story

# The audit's name of a tracked message.
KIND: Final = "messagetrack"
Way = tuple[str, TrackRow | None, TrackRow | None]
UNKNOWN: Final = (
    "Nothing is known about this message: tracking is kept for some days, and only for queues that "
    "are tracked."
)


@require_GET
@needs(Right.VIEW)
@from_standby
def track_list(request: HttpRequest) -> HttpResponse:
    scope, may_see = scope_of(request.user), has(request.user, Right.VIEW_PAYLOAD)
    form = TrackFilterForm(request.GET, failures.names(scope), may_see_payload=may_see)
    wanted = form.wanted(timezone.now(), scope)
    cursor = Cursor.read(request.GET.get("at", ""))
    page = search.page(wanted, cursor)
    if may_see:
        page = replace(page, rows=tuple(masked(page.rows)))
    context = {
        "form": form,
        "page": page,
        "known": untried(wanted, page),
        "wanted": wanted,
        "query": form.query(),
        "is_continued": cursor is not None,
        "may_see": may_see,
        "cap": search.COUNT_CAP,
    }
    return render(request, "console/tracking/list.html", context)


@require_GET
@needs(Right.VIEW)
def tracked_message(request: HttpRequest) -> HttpResponse:
    """The message whose id the address names."""
    message_id, scope = request.GET.get("id", ""), scope_of(request.user)
    message = story(message_id, scope) if message_id else None
    if message is None:
        raise Http404(UNKNOWN)
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    last, until = message.last, reveals.revealed_until(request, KIND, subject_of(message_id))
    kept = newest_payload(message.tracks[:RELATED]) if may_see else None
    if kept is not None:
        trail.note_view(request, KIND, "", message_id)
    beside = None if last is None else neighbours(last, message.readable)
    shown = last if kept is None else kept.track
    mask = NOTHING if until is not None else mask_of(shown)
    context = {
        "story": message,
        "events": message.events,
        "last": last if last is None or until is not None else masked([last])[0],
        "may_see": may_see,
        "view": None if kept is None else view_of(kept, mask),
        "revealed_until": until,
        "is_masked": not mask.is_empty,
        "api_query": urlencode({"id": message_id}),
        "asked_id": quote(message_id, safe=""),
        "schema": schema_of(shown),
        "trace": traces.shown(message.trace_id),
        "beside": beside,
        "ways": [] if beside is None else _ways(beside, may_see=may_see),
    }
    return render(request, "console/tracking/message.html", context)


@needs(Right.VIEW, Right.VIEW_PAYLOAD, Right.REVEAL)
def reveal(request: HttpRequest) -> HttpResponse:
    """Show the payload that tracking kept, unmasked for some minutes; or mask it again."""
    message_id = request.POST.get("id", "") or request.GET.get("id", "")
    message = story(message_id, scope_of(request.user)) if message_id else None
    if message is None:
        raise Http404(UNKNOWN)
    back = f"{reverse('tracked-message')}?{urlencode({'id': message_id})}"
    about = (KIND, subject_of(message_id), message_id)
    kept = newest_payload(message.tracks[:RELATED])
    mask = mask_of(message.last if kept is None else kept.track)
    return reveals.decide(request, about, mask, lambda: SeeOther(back))


def view_of(kept: KeptPayload, mask: Mask) -> payloads.PayloadView:
    """The payload by the mask and the schema of the try that kept it, which may not be the last."""
    return payloads.show(kept.payload, [], reading_for(kept.track), mask=mask)


def subject_of(message_id: str) -> str:
    """A number of a message for the audit: its id may be of any length."""
    return hashlib.sha256(message_id.encode()).hexdigest()[:32]


def untried(wanted: TrackFilter, page: TrackPage) -> Story | None:
    """The message of this id where no try of it is listed: it may wait for one, or for Kafka.

    What more messages have than are counted names none of them: a site, an order's kind.
    """
    if not wanted.id or page.is_capped:
        return None
    if any(row.message_id == wanted.id for row in page.rows):
        return None
    return story(wanted.id, wanted.scope) or (
        None if page.rows else posted_as(wanted.id, wanted.scope)
    )


def _ways(beside: Neighbours, *, may_see: bool) -> list[Way]:
    """Previous and next: of the queue, and of the key for those who may see it."""
    ways: list[Way] = [("of the queue", beside.earlier, beside.later)]
    if may_see:
        ways.append(("of the same key", beside.earlier_of_key, beside.later_of_key))
    return [way for way in ways if way[1] is not None or way[2] is not None]
