"""Publish channels: outbound message types, and the partners that get them."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django import forms
from django.http import HttpRequest

from console.forms.setup_form import SetupForm
from console.layout.access import scope_of
from console.setup.columns import Counted, Named, Switched
from console.setup.filters import words_and_switch
from console.setup.noun import Noun
from console.setup.structures import PathLines
from console.setup.targets import TARGETS
from integration.models import PublishChannel
from integration.selectors.setup import channels as selectors
from integration.selectors.setup import nouns

ENVELOPE_ON: Final = (
    "On: partners get the usual JSON envelope with INTERFACE, SENDER, destination and message id; "
    "from 1,024 characters on the payload in it is compressed. Off: the bare payload, with the "
    "same facts in sluice-* headers."
)


class ChannelForm(SetupForm):
    """An outbound message type."""

    parts = (
        ("", "", ("name", "description", "enabled")),
        ("How a message is written", "", ("format", "envelope", "structure", "key_path")),
        (
            "How it is found again",
            "What tracking keeps of each message, to be searched by.",
            ("external_id_path", "search_paths", "keeps_payload"),
        ),
    )
    search_paths = PathLines(
        required=False,
        label="Search paths",
        help_text="Optional: at most two, one a line. What they find is kept with each message, "
        "and the tracking page finds it by that.",
    )

    class Meta:
        model = PublishChannel
        fields = (
            "name",
            "description",
            "enabled",
            "format",
            "envelope",
            "structure",
            "key_path",
            "external_id_path",
            "search_paths",
            "keeps_payload",
        )
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
        chosen = nouns.structure_named_by(self.entered("structure"))
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

    class Meta:
        fields = ("name", "enabled", "format", "target_count", "structure", "description")

    def render_format(self, record: PublishChannel) -> str:
        wrapped = "in the envelope" if record.envelope else "bare"
        return f"{record.get_format_display()}, {wrapped}"


def _more(request: HttpRequest, channel: PublishChannel) -> Mapping[str, object]:
    scope = scope_of(request.user)
    found = list(selectors.targets(scope).filter(channel=channel))
    return {
        "targets": [(one, selectors.way_of(one.queue, one.endpoint)) for one in found],
        "hidden": channel.targets.count() - len(found),
        "keyed": _keyed(channel.key_path, channel.structure),
        "judged": _judged(channel.structure),
        "tests": selectors.test_messages(channel, scope),
        "target_hindrance": TARGETS.hindrance(request.user),
    }


CHANNELS = Noun(
    one="channel",
    many="channels",
    word="publish channel",
    title="Channels",
    about="An outbound message type: what publish() names, how its messages are written, and which "
    "partners get one.",
    model=PublishChannel,
    form=ChannelForm,
    table=ChannelTable,
    filters=words_and_switch("name", "description"),
    rows=selectors.channels,
    uses=selectors.uses_of_channel,
    stops=selectors.stopped_with_channel,
    more=_more,
    card_page="console/setup/channel.html",
    is_shared=True,
    is_grave=True,
)
