"""Publish channels: outbound message types, the partners that get them, and test messages."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.forms.placeholders import refuse_placeholder
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
from integration.selectors.setup import nouns, registry
from integration.selectors.setup.samples import sample_of

ENVELOPE_ON: Final = (
    "On: partners get the usual JSON envelope with INTERFACE, SENDER, destination and message id; "
    "payloads of 1,024 characters or more are compressed in it. Off: the bare payload, with the "
    "same facts in sluice-* headers."
)
OTHERS: Final = (
    "This channel also sends to external systems that are hidden from you. Ask an administrator "
    "without that limit to send it."
)
NOBODY: Final = (
    "Nothing would be sent: the channel or all of its targets are switched off, or it has no "
    "target. Add a target or switch one on."
)

PARTS: Final = (
    ("", "", ("name", "description", "enabled")),
    ("How a message is written", "", ("format", "envelope", "structure", "key_path")),
    (
        "Schema registry",
        (
            "For partners who expect Avro, JSON Schema or Protobuf: each payload is checked by a "
            "schema of the registry that belongs to the target's provider, and written by it."
        ),
        ("subject_by", "schema_record", "schema_version"),
    ),
    (
        "How it is found again",
        "The values that tracking keeps for each message, so that you can search by them.",
        ("external_id_path", "search_paths", "keeps_payload"),
    ),
)


class ChannelForm(SetupForm):
    """An outbound message type."""

    parts = PARTS
    search_paths = PathLines(
        required=False,
        label="Search paths",
        help_text="Optional: at most two, one per line. What they find is kept with each message, "
        "so that tracking can be searched by it.",
    )

    class Meta:
        model = PublishChannel
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "enabled": "Switched on",
            "envelope": "In the envelope",
            "key_path": "Key path",
            "subject_by": "Subject named after",
            "schema_record": "Record",
            "schema_version": "Version",
            "external_id_path": "Path of the external id",
            "keeps_payload": "Keep payloads",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "The INTERFACE of its messages, and the name passed to publish(). It is "
            "case-sensitive.",
            "description": "What these messages are about, in a few words.",
            "enabled": "Off: publish() writes nothing for it, and nothing is sent later either.",
            "format": "A payload in the other format is refused when it is published "
            "(PAYLOAD_FORMAT), and its transaction with it.",
            "envelope": ENVELOPE_ON,
            "subject_by": "The strategy by which the subject of the schema is found. It must be in "
            "the registry: Sluice registers none. What kind of schema it is, the registry says.",
            "schema_record": "The full name of the record, for example com.example.Order; only for "
            "subjects that are named after it.",
            "schema_version": "Empty: the latest one, looked for again twice a minute.",
            "external_id_path": "Optional: where the payload contains the partner's own id.",
            "keeps_payload": "On: tracking also keeps each payload, for people with the right to "
            "see payloads. It takes up space in the database until cleanup drops its day.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        structure: Any = self.fields["structure"]
        structure.empty_label = "None: anything in this format is published"
        chosen = nouns.chosen(structure.queryset, self.entered("structure"))
        structure.help_text = _judged(chosen)
        self.fields["key_path"].help_text = _keyed(str(self.entered("key_path") or ""), chosen)
        if self.instance.pk:
            stops = selectors.stopped_with_channel(self.instance)
            self.fields["enabled"].help_text = f"Switching it off stops: {stops}"
        self.fields["subject_by"].choices = PublishChannel.SubjectBy.choices  # type: ignore[attr-defined]
        for name in ("key_path", "external_id_path", "schema_record"):
            self.fields[name].widget.attrs.update({"class": "lines", "spellcheck": "false"})
        self.fields["name"].widget = forms.TextInput(
            attrs={"maxlength": 100, "spellcheck": "false", "autocapitalize": "off"}
        )


def _judged(structure: Any) -> str:
    """The effect of the chosen structure on what is published."""
    if structure is None:
        return "If you choose one, its JSON Schema checks each payload when it is published."
    if structure.json_schema is None:
        return f"{structure} has no JSON Schema: it only gives the key."
    return f"The JSON Schema of {structure} refuses payloads that do not fit (SCHEMA_VIOLATION)."


def _keyed(path: str, structure: Any) -> str:
    """The source of a message's key."""
    begins = "A key passed to publish() takes precedence. "
    if path:
        return f"{begins}Otherwise {path} finds it; a payload without it is refused (NO_KEY)."
    if structure is not None:
        paths = " and ".join(structure.key_paths)
        return f"{begins}Otherwise {paths} of {structure} find it, or the payload is refused."
    return (
        f"{begins}Without a key path or a structure, a message has no key, and messages about one "
        "object may go to different partitions, without order between them."
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
        if record.subject_by:
            return "by a schema of the registry"
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
    about="An outbound message type: the name for publish(), how its messages are written, and "
    "which partners get them.",
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
    """A test message to publish, with the effect of each field beside it."""

    payload = forms.CharField(
        strip=False,
        label="Payload",
        max_length=DEFAULT.max_bytes,
        validators=[refuse_placeholder],
        widget=forms.Textarea(attrs={"class": "lines", "rows": 12, "spellcheck": "false"}),
    )
    key = forms.CharField(
        required=False,
        max_length=1_000,
        label="Key",
        help_text="Empty: the key path of the channel or its structure finds it; without either, "
        "the message has no key.",
    )
    reason = reason_field("Optional. Kept in the history of changes; the payload is not.")

    def __init__(self, *args: Any, channel: PublishChannel, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        checked = "It is checked like every payload of the channel"
        if channel.structure is not None and channel.structure.json_schema is not None:
            checked = f"{checked}, also against the JSON Schema of {channel.structure}"
        format_word = channel.get_format_display()
        self.fields[
            "payload"
        ].help_text = f"{format_word}. {checked}; if it is refused, you see why."


@require_GET
@needs(Right.VIEW)
def subjects(request: HttpRequest, number: int) -> HttpResponse:
    """What the registries say of the subjects that this channel writes by."""
    channel: PublishChannel = known_row(request, CHANNELS, number)
    scope = scope_of(request.user)
    shown = set(selectors.targets(scope).filter(channel=channel).values_list("pk", flat=True))
    context = {"channel": channel, "rows": registry.subjects_of(channel, shown)}
    return render(request, "console/setup/channel_subjects.html", context)


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
    text = f"Published: {count} written to the outbox. Follow each under Test messages."
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
