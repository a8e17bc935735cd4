"""A test message of a publish channel: to all its targets, each followed through the outbox."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see
from console.setup.channels import CHANNELS
from console.setup.pages import found_row, refuse
from integration.actions import channeltests as actions
from integration.actions.configuration import Author
from integration.counting import so_many
from integration.envelope import DEFAULT
from integration.errors import IntegrationError
from integration.models import PublishChannel
from integration.selectors.setup import channels as selectors
from integration.selectors.setup.sample_document import sample_of

OTHERS = (
    "This channel also sends to external systems that you may not know of. Ask an administrator "
    "whom nothing limits to send it."
)
NOBODY = (
    "Nothing would be sent: the channel, or each of its targets, is switched off, or it has none. "
    "Add a target or switch one on."
)


class ChannelTestForm(forms.Form):
    """What is published; each field says what becomes of it."""

    payload = forms.CharField(
        strip=False,
        label="Payload",
        max_length=DEFAULT.max_bytes,
        widget=forms.Textarea(attrs={"class": "lines", "rows": 12, "spellcheck": "false"}),
    )
    key = forms.CharField(
        required=False,
        max_length=1_000,
        label="Key",
        help_text="Empty: the channel's key path finds it, or its structure's; without those the "
        "message has none.",
    )
    reason = forms.CharField(
        required=False,
        max_length=500,
        label="Why",
        help_text="Optional. It is kept in the history of changes; the payload is not.",
    )

    def __init__(self, *args: Any, channel: PublishChannel, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        judged = "It is judged as every payload of the channel is"
        if channel.structure is not None and channel.structure.json_schema is not None:
            judged = f"{judged}, also by the JSON Schema of {channel.structure}"
        self.fields[
            "payload"
        ].help_text = f"{channel.get_format_display()}. {judged}: what is refused says why."


@needs(Right.VIEW, Right.OPERATE, Right.EDIT_PAYLOAD)
def send(request: HttpRequest, number: int) -> HttpResponse:
    """The form with a sample, the latest test messages, and the sending."""
    channel: PublishChannel = found_row(request, CHANNELS, number)
    refuse("" if selectors.is_wholly_known(channel, scope_of(request.user)) else OTHERS)
    if request.method != "POST":
        sample = sample_of(channel.structure, is_xml=channel.is_xml)
        form = ChannelTestForm(initial={"payload": sample}, channel=channel)
        return _show(request, channel, form)
    form = ChannelTestForm(request.POST, channel=channel)
    if not form.is_valid() or not _sent(request, channel, form):
        return _show(request, channel, form, status=422)
    return see("channel-test", number)


def _sent(request: HttpRequest, channel: PublishChannel, form: ChannelTestForm) -> bool:
    given = form.cleaned_data
    author = Author(actor_of(request), given["reason"])
    try:
        done = actions.send(channel, given["payload"], given["key"], author)
    except IntegrationError as problem:
        code = getattr(problem, "failure_code", problem.code)
        form.add_error("payload", f"{problem} ({code})")
        return False
    if not done.ids:
        form.add_error(None, NOBODY)
        return False
    count = so_many(len(done.ids), "message")
    text = f"Published: {count}, written to the outbox. Follow each under Test messages."
    messages.success(request, text)
    return True


def _show(
    request: HttpRequest, channel: PublishChannel, form: ChannelTestForm, *, status: int = 200
) -> HttpResponse:
    scope = scope_of(request.user)
    targets = selectors.targets(scope).filter(channel=channel, enabled=True)
    hindrance = "" if selectors.is_wholly_known(channel, scope) else OTHERS
    context = {
        "channel": channel,
        "form": form,
        "hindrance": hindrance,
        "targets": [(one, selectors.way_of(one.queue, one.endpoint)) for one in targets],
        "nobody": "" if targets and channel.enabled else NOBODY,
        "tests": selectors.test_messages(channel, scope),
    }
    return render(request, "console/setup/channel_test.html", context, status=status)
