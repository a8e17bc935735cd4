"""Publish channels: outbound message types, the partners that get them, and test messages."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.forms.setup_form import SetupForm, names_in, reason_field
from console.layout.access import Right, needs, scope_of
from console.layout.answers import see
from console.setup.lists import Counted, Named, Switched, SwitchFilter, filters_by
from console.setup.noun import Noun
from console.setup.pages import author_of, known_row, refuse
from console.setup.structures import PathLines
from console.setup.targets import TARGETS
from integration.actions import testmessages as actions
from integration.counting import so_many
from integration.envelope import DEFAULT
from integration.errors import IntegrationError
from integration.models import PublishChannel
from integration.selectors.setup import channels as selectors
from integration.selectors.setup import nouns
from integration.selectors.setup.samples import sample_of

ENVELOPE_ON: Final = (
    "On: partners get the usual JSON envelope with INTERFACE, SENDER, destination and message id; "
    "from 1,024 characters on the payload in it is compressed. Off: the bare payload, with the "
    "same facts in sluice-* headers."
)
OTHERS: Final = (
    "This channel also sends to external systems that you may not know of. Ask an administrator "
    "whom nothing limits to send it."
)
NOBODY: Final = (
    "Nothing would be sent: the channel, or each of its targets, is switched off, or it has none. "
    "Add a target or switch one on."
)

PARTS: Final = (
    ("", "", ("name", "description", "enabled")),
    ("How a message is written", "", ("format", "envelope", "structure", "key_path")),
    (
        "How it is found again",
        "What tracking keeps of each message, to be searched by.",
        ("external_id_path", "search_paths", "keeps_payload"),
    ),
)


class ChannelForm(SetupForm):
    """An outbound message type."""

    parts = PARTS
    search_paths = PathLines(
        required=False,
        label="Search paths",
        help_text="Optional: at most two, one a line. What they find is kept with each message, "
        "and the tracking page finds it by that.",
    )

    class Meta:
        model = PublishChannel
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "enabled": "Switched on",
            "envelope": "In the envelope",
            "key_path": "Key path",
            "external_id_path": "Path of the external id",
            "keeps_payload": "Keep payloads",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "The INTERFACE of its messages, and what publish() names; every letter counts, "
            "capitals too.",
            "description": "What these messages are about, in a few words.",
            "enabled": "Off: publish() writes nothing for it, and nothing of that is sent later.",
            "format": "A payload of the other format is refused where it is published "
            "(PAYLOAD_FORMAT), and the transaction with it.",
            "envelope": ENVELOPE_ON,
            "external_id_path": "Optional: where the payload has the partner's own id of it.",
            "keeps_payload": "On: tracking keeps each payload as well, for people with the right "
            "to see payloads. It takes their space in the database until its day is dropped.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        structure: Any = self.fields["structure"]
        structure.empty_label = "None: anything of the format is published"
        chosen = nouns.chosen(structure.queryset, self.entered("structure"))
        structure.help_text = _judged(chosen)
        self.fields["key_path"].help_text = _keyed(str(self.entered("key_path") or ""), chosen)
        if self.instance.pk:
            stops = selectors.stopped_with_channel(self.instance)
            self.fields["enabled"].help_text = f"Switching it off stops: {stops}"
        for name in ("key_path", "external_id_path"):
            self.fields[name].widget.attrs.update({"class": "lines", "spellcheck": "false"})
        self.fields["name"].widget = forms.TextInput(
            attrs={"maxlength": 100, "spellcheck": "false", "autocapitalize": "off"}
        )


def _judged(structure: Any) -> str:
    """What the chosen structure does to what is published."""
    if structure is None:
        return "With one its JSON Schema judges each payload where it is published."
    if structure.json_schema is None:
        return f"{structure} has no JSON Schema: it gives the key and judges nothing."
    return f"The JSON Schema of {structure} refuses what does not fit it (SCHEMA_VIOLATION)."


def _keyed(path: str, structure: Any) -> str:
    """Where the key of a message comes from."""
    begins = "A key given to publish() wins. "
    if path:
        return f"{begins}Else {path} finds it; a payload without it is refused (NO_KEY)."
    if structure is not None:
        paths = " and ".join(structure.key_paths)
        return f"{begins}Else {paths} of {structure} find it; else the payload is refused."
    return (
        f"{begins}Empty, and without a structure: such a message has no key, and messages about "
        "one thing may land in different partitions, without order between them."
    )


class ChannelTable(tables.Table):
    """The list of channels."""

    name = Named("channel", "Channel")
    enabled = Switched()
    format = tables.Column()
    target_count = Counted("Targets")
    structure = tables.Column(linkify=("structure", [tables.A("structure_id")]))
    description = tables.Column()

    def render_format(self, record: PublishChannel) -> str:
        wrapped = "in the envelope" if record.envelope else "bare"
        return f"{record.get_format_display()}, {wrapped}"


def _more(request: HttpRequest, channel: PublishChannel) -> Mapping[str, object]:
    scope = scope_of(request.user)
    targets = list(selectors.targets(scope).filter(channel=channel))
    return {
        "targets": [(one, selectors.way_of(one.queue, one.endpoint)) for one in targets],
        "hidden": channel.targets.count() - len(targets),
        "keyed": _keyed(channel.key_path, channel.structure),
        "judged": _judged(channel.structure),
        "tests": selectors.test_messages(channel, scope),
        "target_hindrance": TARGETS.hindrance(request.user),
    }


CHANNELS = Noun(
    one="channel",
    title="Channels",
    about="An outbound message type: what publish() names, how its messages are written, and which "
    "partners get one.",
    form=ChannelForm,
    table=ChannelTable,
    filters=filters_by("name", "description", enabled=SwitchFilter()),
    rows=selectors.channels,
    uses=selectors.uses_of_channel,
    stops=selectors.stopped_with_channel,
    more=_more,
    is_shared=True,
    is_grave=True,
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
    reason = reason_field("Optional. It is kept in the history of changes; the payload is not.")

    def __init__(self, *args: Any, channel: PublishChannel, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        judged = "It is judged as every payload of the channel is"
        if channel.structure is not None and channel.structure.json_schema is not None:
            judged = f"{judged}, also by the JSON Schema of {channel.structure}"
        format_word = channel.get_format_display()
        self.fields["payload"].help_text = f"{format_word}. {judged}: what is refused says why."


@needs(Right.VIEW, Right.OPERATE, Right.EDIT_PAYLOAD)
def send_test(request: HttpRequest, number: int) -> HttpResponse:
    """The form with a sample, the latest test messages, and the sending."""
    channel: PublishChannel = known_row(request, CHANNELS, number)
    refuse("" if selectors.is_wholly_known(channel, scope_of(request.user)) else OTHERS)
    if request.method != "POST":
        sample = sample_of(channel.structure, is_xml=channel.is_xml)
        form = ChannelTestForm(initial={"payload": sample}, channel=channel)
        return _show_test(request, channel, form)
    form = ChannelTestForm(request.POST, channel=channel)
    if not form.is_valid() or not _sent(request, channel, form):
        return _show_test(request, channel, form, status=422)
    return see("channel-test", number)


def _sent(request: HttpRequest, channel: PublishChannel, form: ChannelTestForm) -> bool:
    given = form.cleaned_data
    try:
        done = actions.publish(channel, given["payload"], given["key"], author_of(request))
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


def _show_test(
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
