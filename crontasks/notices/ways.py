"""The ways to a recipient: a mail, or a request to a webhook or a chat."""

import json
from datetime import datetime
from smtplib import SMTPRecipientsRefused, SMTPResponseException
from typing import Final, NamedTuple

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from crontasks.models import NoticeRecipient
from crontasks.notices import messages
from crontasks.notices.messages import Message
from integration.endpoint_types.http.endpoint import HttpEndpoint
from integration.endpoint_types.http.properties import HttpProperties
from integration.endpoint_types.http.signing import ID_HEADER, TIMESTAMP_HEADER
from integration.endpoints.port import Accepted, OutboundMessage, Unknown

# A receiver that never answers costs so much time, and nobody else's.
CONNECT_SECONDS: Final = 5.0
TOTAL_SECONDS: Final = 10.0
# What a recipient lacks that an endpoint would have another switch for.
PERMIT_IN_RECIPIENT: Final = (
    "Switch on “May be in a private network” in the recipient if it is meant to be there."
)
# Without a mail server: it takes every mail, and nobody gets one.
PRINTING: Final = "django.core.mail.backends.console.EmailBackend"
NO_SERVER: Final = (
    "There is no mail server. Set SLUICE_EMAIL_URL, or EMAIL_BACKEND in a project of your own."
)


class Failure(NamedTuple):
    """Why nobody confirmed a message, in a sentence; they may have it all the same."""

    text: str
    may_have_arrived: bool = False


def send(recipient: NoticeRecipient | None, message: Message, at: datetime) -> Failure | None:
    """Send it; why that failed, or None. Without a recipient it goes to SLUICE_NOTIFY_EMAILS.

    Returns within the time limits, whatever the other side does.
    """
    if recipient is None or recipient.way == NoticeRecipient.Way.MAIL:
        addresses = settings.SLUICE_NOTIFY_EMAILS if recipient is None else recipient.addresses
        return _mailed(list(addresses), message)
    is_chat = recipient.way == NoticeRecipient.Way.SLACK
    body = messages.as_chat(message) if is_chat else messages.as_json(message)
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return _posted(recipient, message, content, at)


def _mailed(addresses: list[str], message: Message) -> Failure | None:
    if not addresses:
        return None
    if settings.EMAIL_BACKEND == PRINTING:
        return Failure(NO_SERVER)
    connection = get_connection()
    mail = EmailMessage(
        messages.subject_line(message),
        messages.mail_text(message),
        to=addresses,
        # The same at each try: many mailboxes drop what they have already.
        headers={"Message-ID": f"<{message.id}@{settings.SLUICE_DEPLOYMENT}.sluice>"},
        connection=connection,
    )
    is_begun = False
    try:
        with connection:
            is_begun = True
            mail.send()
    except OSError as problem:
        # smtplib's errors are OSErrors, too. A server that answers no has not taken it.
        is_refused = isinstance(problem, SMTPResponseException | SMTPRecipientsRefused)
        return Failure(f"The mail was not taken: {problem}", is_begun and not is_refused)
    return None


def _posted(
    recipient: NoticeRecipient, message: Message, content: bytes, at: datetime
) -> Failure | None:
    properties = HttpProperties(
        url=recipient.url,
        # What is not signed has a time, too; the endpoint puts its own where it signs.
        headers={TIMESTAMP_HEADER: str(int(at.timestamp()))},
        id_header=ID_HEADER,
        signing_secret=recipient.secret,
        connect_seconds=CONNECT_SECONDS,
        read_seconds=TOTAL_SECONDS,
        total_seconds=TOTAL_SECONDS,
        private_network=recipient.private_network,
    )
    endpoint = HttpEndpoint(properties, permit=PERMIT_IN_RECIPIENT)
    try:
        [answer] = endpoint.deliver(
            [
                OutboundMessage(
                    message_id=str(message.id),
                    interface="notice",
                    system="",
                    body=content,
                    content_type="application/json",
                )
            ]
        )
    finally:
        endpoint.close()
    if isinstance(answer, Accepted):
        return None
    return Failure(f"{answer.code}: {answer.text}", isinstance(answer, Unknown))
