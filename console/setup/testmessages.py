"""A test message: written by a person, sent through the outbox, followed to its outcome."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html

from console.forms.placeholders import refuse_placeholder
from console.forms.setup_form import reason_field
from console.layout import trail
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import SeeOther
from console.setup.pages import author_of
from console.setup.queues.pages import known_queue
from crontasks.health.checks import HealthCheck, broken
from crontasks.health.flow import broken_ahead
from integration.actions import testmessages as actions
from integration.actions.configuration import Author
from integration.actions.errors import QueueAtJmsError
from integration.actions.testmessages import OURS, Draft
from integration.envelope import DEFAULT, UnwritableMessage
from integration.models import EnterpriseService, Queue
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.setup import queues as queue_selectors
from integration.selectors.setup import takers
from integration.selectors.setup import testmessages as selectors
from integration.selectors.setup.nouns import chosen
from integration.selectors.setup.samples import sample_for
from integration.selectors.setup.takers import services
from integration.selectors.setup.testmessages import Journey

HEADER: Final = re.compile(r"([\x21-\x39\x3b-\x7e]{1,100}):[ \t]*+(.*)", re.ASCII)
MOST_HEADERS: Final = 50
FILL: Final = "fill"


class TestMessageForm(forms.Form):
    """A test message to send, with the effect of each field beside it."""

    # No test of ours: pytest looks for classes of this name.
    __test__ = False

    interface = forms.CharField(
        required=False,
        max_length=100,
        label="Service (INTERFACE)",
        help_text="The service that processes the message. Empty: the queue's default service.",
    )
    payload = forms.CharField(
        strip=False,
        label="Payload",
        max_length=DEFAULT.max_bytes,
        validators=[refuse_placeholder],
        widget=forms.Textarea(attrs={"class": "lines", "rows": 12, "spellcheck": "false"}),
        help_text="JSON or XML. It is sent as it is, unchecked: send a broken text to see a "
        "failure. A sample is generated from the service's object structure or, without one, "
        "copied from its last stored message.",
    )
    wrapped = forms.BooleanField(
        required=False,
        label="In the envelope",
        help_text="On: wrapped in the usual envelope, with INTERFACE, SENDER and message id. "
        "Off: the bare payload, with the same facts in headers.",
    )
    key = forms.CharField(
        required=False,
        max_length=1_000,
        label="Key",
        help_text="Messages with the same key go to the same partition. Empty: no key.",
    )
    headers = forms.CharField(
        required=False,
        label="Further headers",
        widget=forms.Textarea(attrs={"class": "lines", "rows": 2, "spellcheck": "false"}),
        help_text="One per line, as “name: value”. Message id, sender and “sluice-test: 1” are "
        "added.",
    )
    reason = reason_field("Optional. Kept in the history of changes; the payload is not.")

    def __init__(self, *args: Any, hint: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["interface"].widget.attrs["list"] = "known-services"
        if hint:
            payload = self.fields["payload"]
            payload.help_text = format_html("<strong>{}</strong> {}", hint, payload.help_text)

    def clean_headers(self) -> tuple[tuple[str, str], ...]:
        headers = []
        for number, line in enumerate(str(self.cleaned_data["headers"]).splitlines(), 1):
            if not line.strip():
                continue
            pair = HEADER.fullmatch(line.strip())
            if pair is None:
                raise ValidationError(f"Line {number} is not a header: write “name: value”.")
            if pair[1].lower().startswith(OURS):
                raise ValidationError(
                    f"{pair[1]} is not allowed: names that begin with {OURS} are reserved."
                )
            headers.append((pair[1], pair[2]))
        if len(headers) > MOST_HEADERS:
            raise ValidationError(f"Enter at most {MOST_HEADERS} headers.")
        return tuple(headers)

    def clean_interface(self) -> str:
        return str(self.cleaned_data["interface"]).strip()

    @property
    def draft(self) -> Draft:
        given = {n: value for n, value in self.cleaned_data.items() if n != "reason"}
        return Draft(**given)


@needs(Right.VIEW, Right.OPERATE, Right.EDIT_PAYLOAD)
def send(request: HttpRequest, name: str) -> HttpResponse:
    """The form with a sample filled in, and the sending."""
    queue = known_queue(request, name)
    return sending(request, queue, lambda sent: reverse("test-message-outcome", args=[name, sent]))


@needs(Right.VIEW)
def outcome(request: HttpRequest, name: str, message_id: str) -> HttpResponse:
    """Show where the message is; asks again by itself until the end, or on reload."""
    journey = followed(request, message_id)
    if journey.queue.name != name:
        raise Http404(f"{name} has no such test message.")
    return show_outcome(request, journey, "console/setup/testmessage_outcome.html")


@needs(Right.VIEW, Right.OPERATE, Right.EDIT_PAYLOAD)
def of_service(request: HttpRequest, number: int) -> HttpResponse:
    """The queues that a message of this service may be sent to; the only one at once."""
    service = services(scope_of(request.user)).filter(pk=number).first()
    if service is None:
        raise Http404("There is no such enterprise service; it may have been deleted.")
    known = queue_selectors.readers(scope_of(request.user))
    defaults = list(known.filter(default_service=service))
    if len(defaults) == 1:
        address = reverse("test-message", args=[defaults[0].name])
        return SeeOther(f"{address}?service={number}")
    context = {"service": service, "defaults": defaults, "queues": known}
    return render(request, "console/setup/testmessage_queues.html", context)


def sending(
    request: HttpRequest,
    queue: Queue,
    address: Callable[[str], str],
    *,
    template: str = "console/setup/testmessage.html",
    frame: Mapping[str, object] = MappingProxyType({}),
) -> HttpResponse:
    """The form, or what it says is sent and followed at the address of this message.

    Beside the form stands what is known of the queue and of who takes the message. `frame` is
    what a template other than the usual one shows around it.
    """
    try:
        actions.refuse_jms(queue)
    except QueueAtJmsError as refusal:
        context = {"queue": queue, "refusal": refusal, **frame}
        return render(request, template, context, status=409 if request.method == "POST" else 200)
    status = 200
    if request.method != "POST":
        form = _blank_form(request, queue)
    elif FILL in request.POST:
        form = _filled(request)
    else:
        form, status = TestMessageForm(request.POST), 422
        if sent := _sent(form, queue, author_of(request)):
            return SeeOther(address(sent))
    context = {
        "queue": queue,
        "form": form,
        "services": services(scope_of(request.user)).values_list("interface", flat=True),
        "is_outbound": queue.direction == Queue.Direction.OUTBOUND,
        "taker": _taker(queue, str(form["interface"].value() or "")),
        **frame,
    }
    return render(request, template, context, status=status)


def _blank_form(request: HttpRequest, queue: Queue) -> TestMessageForm:
    """With the service that the address names, else the queue's own, and a sample of it."""
    known = services(scope_of(request.user))
    service = chosen(known, request.GET.get("service", "")) or queue.default_service
    outbound = queue.direction == Queue.Direction.OUTBOUND
    interface = "" if service is None else service.interface
    initial = {"interface": interface or (queue.name if outbound else ""), "wrapped": True}
    return _with_sample(request, service, initial)


def _filled(request: HttpRequest) -> TestMessageForm:
    """The same form with a sample of the service that was written into it."""
    named = request.POST.get("interface", "").strip()
    service = services(scope_of(request.user)).filter(interface=named).first()
    given = {name: request.POST.get(name, "") for name in ("interface", "key", "headers", "reason")}
    return _with_sample(request, service, {**given, "wrapped": "wrapped" in request.POST})


def _with_sample(
    request: HttpRequest, service: EnterpriseService | None, initial: Mapping[str, object]
) -> TestMessageForm:
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    sample = sample_for(service, scope_of(request.user), may_see=may_see)
    if sample.source is not None:
        trail.note_view(request, "messageerror", sample.source, "as a sample")
    return TestMessageForm(initial={**initial, "payload": sample.payload}, hint=sample.hint)


def _sent(form: TestMessageForm, queue: Queue, author: Author) -> str | None:
    """The id of the message that was sent; None when the form says why nothing was."""
    if not form.is_valid():
        return None
    try:
        return actions.send(queue, form.draft, author)
    except UnwritableMessage as problem:
        form.add_error("payload", str(problem))
        return None


def followed(request: HttpRequest, message_id: str) -> Journey:
    journey = selectors.journey(message_id, scope_of(request.user))
    if journey is None:
        raise Http404("There is no such test message, or its history was removed.")
    return journey


def show_outcome(
    request: HttpRequest, journey: Journey, template: str, **more: object
) -> HttpResponse:
    """The way with its times; what is missing is looked for when nothing happens."""
    links = _missing(journey, scope_of(request.user)) if journey.is_late else []
    address = request.get_full_path()
    context = {"journey": journey, "missing_links": links, "address": address, **more}
    fragment = "console/setup/_journey.html"
    return render(request, fragment if "HX-Request" in request.headers else template, context)


def _missing(journey: Journey, scope: Scope) -> list[HealthCheck]:
    try:
        return broken_ahead(journey.queue, scope, is_in_kafka=journey.is_sent)
    except OperationalError:
        return [broken("database", "It did not answer in time.", "Check again in a moment.")]


def _taker(queue: Queue, interface: str) -> str:
    """The sentence on what will happen to it."""
    if queue.direction == Queue.Direction.OUTBOUND:
        return "The partner reads it; what happens to it there is not visible here."
    if queue.is_error_queue:
        return "An error queue keeps its messages for people: the message will be put on hold."
    # The engine will ask nobody's limit: the name was typed, and this says what becomes of it.
    named = services(EVERYTHING).filter(interface=interface)
    service = named.first() if interface else queue.default_service
    if service is None:
        what = f"There is no service {interface}" if interface else "No service is named"
        return f"{what}, so the message will be put on hold."
    return takers.effect(service.interface, service.structure)
