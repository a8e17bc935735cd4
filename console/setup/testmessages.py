"""A test message: written by a person, sent through the outbox, followed to its outcome."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html

from console.layout import trail
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import SeeOther, actor_of, see
from console.layout.asked import number_of
from console.setup.queues.pages import known_queue
from crontasks.health.checks import HealthCheck, broken
from crontasks.health.flow import broken_ahead
from integration.actions import testmessages as actions
from integration.actions.configuration import Author
from integration.actions.testmessages import OURS, Draft
from integration.envelope import DEFAULT, UnwritableMessage
from integration.models import EnterpriseService, Queue
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.setup import queues as queue_setup
from integration.selectors.setup import takers
from integration.selectors.setup import testmessages as selectors
from integration.selectors.setup.services import services
from integration.selectors.setup.stored_sample import Sample, sample_of
from integration.selectors.setup.testmessages import Journey

HEADER: Final = re.compile(r"([\x21-\x39\x3b-\x7e]{1,100}):[ \t]*+(.*)", re.ASCII)
MOST_HEADERS: Final = 50
FILL: Final = "fill"


class TestMessageForm(forms.Form):
    """What is sent; each field says what becomes of it."""

    # No test of ours: pytest looks for classes of this name.
    __test__ = False

    interface = forms.CharField(
        required=False,
        max_length=100,
        label="Service (INTERFACE)",
        help_text="Names what takes the message. Empty: the queue's default service takes it.",
    )
    payload = forms.CharField(
        strip=False,
        label="Payload",
        max_length=DEFAULT.max_bytes,
        widget=forms.Textarea(attrs={"class": "lines", "rows": 12, "spellcheck": "false"}),
        help_text="JSON or XML. It is sent as it stands, unchecked: a broken text shows how a "
        "failure looks. A sample is made up from the service's object structure or, where it has "
        "none, copied from its last message that is stored.",
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
        help_text="Messages of one key go to one partition. Empty: without a key.",
    )
    headers = forms.CharField(
        required=False,
        label="Further headers",
        widget=forms.Textarea(attrs={"class": "lines", "rows": 2, "spellcheck": "false"}),
        help_text="One a line, as “name: value”. Message id, sender and “sluice-test: 1” are "
        "added.",
    )
    reason = forms.CharField(
        required=False,
        max_length=500,
        label="Why",
        help_text="Optional. It is kept in the history of changes; the payload is not.",
    )

    def __init__(self, *args: Any, hint: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["interface"].widget.attrs["list"] = "known-services"
        if hint:
            payload = self.fields["payload"]
            payload.help_text = format_html("<strong>{}</strong> {}", hint, payload.help_text)

    def clean_headers(self) -> tuple[tuple[str, str], ...]:
        found = []
        for number, line in enumerate(str(self.cleaned_data["headers"]).splitlines(), 1):
            if not line.strip():
                continue
            pair = HEADER.fullmatch(line.strip())
            if pair is None:
                raise ValidationError(f"Line {number} is no header: write “name: value”.")
            if pair[1].lower().startswith(OURS):
                raise ValidationError(f"{pair[1]} is Sluice's own: names with {OURS} are taken.")
            found.append((pair[1], pair[2]))
        if len(found) > MOST_HEADERS:
            raise ValidationError(f"At most {MOST_HEADERS} headers can be sent.")
        return tuple(found)

    def clean_interface(self) -> str:
        return str(self.cleaned_data["interface"]).strip()

    @property
    def draft(self) -> Draft:
        given = self.cleaned_data
        return Draft(
            payload=given["payload"],
            interface=given["interface"],
            wrapped=given["wrapped"],
            key=given["key"],
            headers=given["headers"],
        )


@needs(Right.VIEW, Right.OPERATE, Right.EDIT_PAYLOAD)
def send(request: HttpRequest, name: str) -> HttpResponse:
    """The form with a sample filled in, and the sending."""
    queue = known_queue(request, name)
    if request.method != "POST":
        return show_form(request, queue, blank_form(request, queue))
    form = TestMessageForm(request.POST)
    if FILL in request.POST:
        return show_form(request, queue, filled(request))
    message_id = sent(form, queue, Author(actor_of(request), request.POST.get("reason", "")[:500]))
    if message_id is None:
        return show_form(request, queue, form, status=422)
    return see("test-message-outcome", name, message_id)


@needs(Right.VIEW)
def outcome(request: HttpRequest, name: str, message_id: str) -> HttpResponse:
    """Where the message is; asks again by itself until the end, or when the page is reloaded."""
    found = followed(request, message_id)
    if found.queue.name != name:
        raise Http404(f"{name} has no such test message.")
    return show_outcome(request, found, "console/setup/testmessage_outcome.html")


@needs(Right.VIEW, Right.OPERATE, Right.EDIT_PAYLOAD)
def of_service(request: HttpRequest, number: int) -> HttpResponse:
    """The queues that a message of this service may be sent to; the only one at once."""
    service = services(scope_of(request.user)).filter(pk=number).first()
    if service is None:
        raise Http404("There is no such enterprise service (any more).")
    known = queue_setup.readers(scope_of(request.user))
    defaults = list(known.filter(default_service=service))
    if len(defaults) == 1:
        address = reverse("test-message", args=[defaults[0].name])
        return SeeOther(f"{address}?service={number}")
    context = {"service": service, "defaults": defaults, "queues": known}
    return render(request, "console/setup/testmessage_queues.html", context)


def blank_form(request: HttpRequest, queue: Queue) -> TestMessageForm:
    """With the service that the address names, else the queue's own, and a sample of it."""
    number = number_of(request.GET.get("service", ""))
    named = None if number is None else services(scope_of(request.user)).filter(pk=number).first()
    service = named or queue.default_service
    outbound = queue.direction == Queue.Direction.OUTBOUND
    interface = "" if service is None else service.interface
    sample = _sample(request, service)
    initial = {
        "interface": interface or (queue.name if outbound else ""),
        "payload": sample.payload,
        "wrapped": True,
    }
    return TestMessageForm(initial=initial, hint=sample.hint)


def sent(form: TestMessageForm, queue: Queue, author: Author) -> str | None:
    """The id of the message that was sent; None when the form says why nothing was."""
    if not form.is_valid():
        return None
    try:
        return actions.send(queue, form.draft, author)
    except UnwritableMessage as problem:
        form.add_error("payload", str(problem))
        return None


def followed(request: HttpRequest, message_id: str) -> Journey:
    found = selectors.journey(message_id, scope_of(request.user))
    if found is None:
        raise Http404("There is no such test message (any more).")
    return found


def show_form(
    request: HttpRequest,
    queue: Queue,
    form: TestMessageForm,
    *,
    template: str = "console/setup/testmessage.html",
    frame: Mapping[str, object] = MappingProxyType({}),
    status: int = 200,
) -> HttpResponse:
    """The form beside what is known of the queue and of who takes the message.

    `frame` is what a template other than the usual one shows around it.
    """
    interface = str(form["interface"].value() or "")
    context = {
        "queue": queue,
        "form": form,
        "services": services(scope_of(request.user)).values_list("interface", flat=True),
        "is_outbound": queue.direction == Queue.Direction.OUTBOUND,
        "taker": _taker(queue, interface),
        **frame,
    }
    return render(request, template, context, status=status)


def show_outcome(
    request: HttpRequest, found: Journey, template: str, **more: object
) -> HttpResponse:
    """The way with its times; what is missing is looked for when nothing happens."""
    links = _missing(found, scope_of(request.user)) if found.is_late else []
    context = {"journey": found, "missing_links": links, "address": request.get_full_path(), **more}
    fragment = "console/setup/_journey.html"
    return render(request, fragment if "HX-Request" in request.headers else template, context)


def _missing(found: Journey, scope: Scope) -> list[HealthCheck]:
    try:
        return broken_ahead(found.queue, scope, is_in_kafka=found.is_sent)
    except OperationalError:
        return [broken("database", "It did not answer in time.", "Look again in a moment.")]


def filled(request: HttpRequest) -> TestMessageForm:
    """The same form with a sample of the service that was written into it."""
    named = request.POST.get("interface", "").strip()
    service = services(scope_of(request.user)).filter(interface=named).first()
    given = {name: request.POST.get(name, "") for name in ("interface", "key", "headers", "reason")}
    wrapped = "wrapped" in request.POST
    sample = _sample(request, service)
    initial = {**given, "wrapped": wrapped, "payload": sample.payload}
    return TestMessageForm(initial=initial, hint=sample.hint)


def _sample(request: HttpRequest, service: EnterpriseService | None) -> Sample:
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    sample = sample_of(service, scope_of(request.user), may_see=may_see)
    if sample.source is not None:
        trail.note_view(request, "messageerror", sample.source, "as a sample")
    return sample


def _taker(queue: Queue, interface: str) -> str:
    """What will become of it, as a sentence."""
    if queue.direction == Queue.Direction.OUTBOUND:
        return "The partner reads it: what becomes of it there is not seen here."
    if queue.is_error_queue:
        return "An error queue keeps what it reads for people: the message will be held."
    # The engine will ask nobody's limit: the name was typed, and what becomes of it is told.
    service = services(EVERYTHING).filter(interface=interface)
    found = service.first() if interface else queue.default_service
    if found is None:
        what = f"There is no service {interface}" if interface else "No service is named"
        return f"{what}, so the message will be held."
    return takers.effect(found.interface, found.structure)
