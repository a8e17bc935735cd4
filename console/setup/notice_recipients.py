"""Recipients of notices: mail addresses, webhooks, chats; each can be sent a test."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from console.forms.secrets import KeepsSecrets, SecretInput
from console.forms.setup_form import names_in
from console.layout.access import Right, needs
from console.layout.answers import see
from console.setup.lists import Counted, Named, Switched, SwitchFilter, filters_by
from console.setup.noun import Noun
from console.setup.pages import known_row, refuse
from crontasks.models import NoticeRecipient
from crontasks.notices import selectors, sending

PARTS: Final = (
    ("", "", ("name", "description", "enabled", "way")),
    ("Mail", "Only for mail.", ("addresses",)),
    (
        "Webhook or chat",
        "Only for these. An address is stored like a password: who knows it may write there.",
        ("url", "secret", "private_network"),
    ),
)


class Lines(forms.CharField):
    """A list of texts, one a line."""

    widget = forms.Textarea(attrs={"rows": 3, "class": "lines", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        lines = (super().to_python(value) or "").replace(",", "\n").splitlines()
        return [line.strip() for line in lines if line.strip()]


class RecipientForm(KeepsSecrets):
    """A recipient of notices."""

    parts = PARTS
    secret_fields = ("url", "secret")
    addresses = Lines(required=False, label="Addresses", help_text="One per line.")
    url = forms.CharField(
        required=False,
        max_length=2_000,
        label="Address",
        widget=SecretInput(),
        help_text="Begins with https:// (or http://, unencrypted). It gets one POST for each "
        "message.",
    )
    secret = forms.CharField(
        required=False,
        max_length=500,
        label="Secret of the signature",
        widget=SecretInput(),
        help_text="Only for webhooks: id, time and body are signed with it (HMAC-SHA256, as "
        "Standard Webhooks does). Never sent.",
    )

    class Meta:
        model = NoticeRecipient
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "enabled": "Switched on",
            "way": "Told by",
            "private_network": "May be in a private network",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _. Rules refer to it.",
            "description": "Who reads it, in a few words.",
            "enabled": "Off: nothing is sent to it, and what waits for it is dropped.",
            "way": "Chat is the JSON of Slack's incoming webhooks, which other chats take as well.",
            "private_network": "Off: private and loopback addresses are refused.",
        }


class RecipientTable(tables.Table):
    """The list of recipients."""

    name = Named("notice-recipient")
    way = tables.TemplateColumn("{{ record.get_way_display }}", verbose_name="Told by")
    enabled = Switched()
    waiting = Counted("Waiting")
    description = tables.Column()


def _more(_request: HttpRequest, recipient: NoticeRecipient) -> Mapping[str, object]:
    return {"problem": selectors.last_problem(recipient)}


def _stopped(recipient: NoticeRecipient) -> str:
    return f"every notice to {recipient}. What waits for it is dropped."


RECIPIENTS = Noun(
    one="notice-recipient",
    title="Recipients of notices",
    about="Whom rules of notices may name: mail addresses, a webhook, a chat. Where no rule names "
    "one, the addresses of SLUICE_NOTIFY_EMAILS are told.",
    form=RecipientForm,
    table=RecipientTable,
    filters=filters_by("name", "description", enabled=SwitchFilter()),
    rows=selectors.recipients,
    uses=selectors.uses_of_recipient,
    stops=_stopped,
    more=_more,
    is_shared=True,
)


@require_POST
@needs(Right.VIEW, Right.CONFIGURE)
def send_test(request: HttpRequest, number: int) -> HttpResponse:
    """Send a test at once, and say how it was answered."""
    row = known_row(request, RECIPIENTS, number)
    refuse(RECIPIENTS.hindrance(request.user))
    problem = sending.send_test(row)
    if problem:
        messages.warning(request, f"The test was not taken. {problem}")
    else:
        messages.success(request, f"A test was sent to {row}.")
    return see("notice-recipient", number)
