"""A message to one recipient: one notice, or many together, as mail, JSON and chat. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from integration.counting import so_many

# A message about more than these counts the others: a storm of ten thousand is one short mail.
NAMED: Final = 50
CHAT_NAMED: Final = 20
TEXT_LENGTH: Final = 2_000
CHAT_LENGTH: Final = 300
SUBJECT_LENGTH: Final = 200
LEADS: Final = {"BEGUN": "", "AGAIN": "Still: ", "OVER": "Over: "}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is told of one notice. `number` is the notice's id, `link` the page about it."""

    number: int
    event: str
    kind: str
    title: str
    subject: str
    queue: str
    text: str
    opened_at: datetime
    closed_at: datetime | None = None
    link: str = ""

    @property
    def headline(self) -> str:
        return f"{LEADS[self.event]}{self.title}: {self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `told` are the first NAMED of `count`; `titles` counts all of them by title.

    The id stays the same at each try, so that a receiver knows a repeat. `link` is the page
    *Notices*; empty where nobody has said where the console is.
    """

    id: UUID
    deployment: str
    told: Sequence[Told]
    count: int
    titles: Sequence[tuple[str, int]] = field(default=())
    is_test: bool = False
    link: str = ""

    @property
    def left_out(self) -> int:
        return self.count - len(self.told)


def subject_line(message: Message) -> str:
    """The subject of the mail, also the first line in a chat."""
    if message.is_test:
        return f"[{message.deployment}] A test of notices"
    if message.count == 1:
        headline = message.told[0].headline
    else:
        kinds = ", ".join(
            f"{title} ({count:,})" if count > 1 else title for title, count in message.titles
        )
        headline = f"{so_many(message.count, 'notice')}: {kinds}"
    # A line end would begin another header.
    return " ".join(f"[{message.deployment}] {headline}".split())[:SUBJECT_LENGTH]


def mail_text(message: Message) -> str:
    """The text of the mail."""
    if message.is_test:
        return TEST_TEXT
    parts = [_mail_part(one) for one in message.told]
    if message.count > 1:
        parts = [f"{one.headline}\n{part}" for one, part in zip(message.told, parts, strict=True)]
    if message.left_out:
        parts.append(f"And {message.left_out:,} more: see Notices in the console.")
    if message.link:
        parts.append(message.link)
    return "\n\n".join(parts)


def as_json(message: Message) -> dict[str, Any]:
    """The body of a webhook."""
    return {
        "id": str(message.id),
        "deployment": message.deployment,
        "is_test": message.is_test,
        "count": message.count,
        "left_out": message.left_out,
        "link": message.link or None,
        "notices": [_json_part(one) for one in message.told],
    }


def as_chat(message: Message) -> dict[str, Any]:
    """The body that Slack's incoming webhooks take, and many others with them."""
    lines = [f"*{_escaped(subject_line(message))}*"]
    if message.is_test:
        lines.append(TEST_TEXT)
    elif message.count == 1:
        lines.append(_escaped(message.told[0].text[:TEXT_LENGTH]))
    else:
        shown = message.told[:CHAT_NAMED]
        lines += [f"• {_escaped(f'{o.headline}: {o.text}'[:CHAT_LENGTH])}" for o in shown]
        if more := message.count - len(shown):
            lines.append(f"And {more:,} more: see Notices in the console.")
    return {"text": "\n".join(lines)}


TEST_TEXT: Final = "This is a test: notices of Sluice arrive here. Nothing is wrong."


def _mail_part(one: Told) -> str:
    since = f"Since {one.opened_at:%d %B %Y %H:%M} UTC."
    end = f"\n\nOver since {one.closed_at:%d %B %Y %H:%M} UTC." if one.closed_at else ""
    return f"{one.subject}: {one.text[:TEXT_LENGTH]}\n\n{since}{end}"


def _json_part(one: Told) -> dict[str, Any]:
    return {
        "id": one.number,
        "event": one.event.lower(),
        "kind": one.kind,
        "title": one.title,
        "subject": one.subject,
        "queue": one.queue or None,
        "text": one.text[:TEXT_LENGTH],
        "opened_at": one.opened_at.isoformat(),
        "closed_at": one.closed_at.isoformat() if one.closed_at else None,
        "link": one.link or None,
    }


def _escaped(text: str) -> str:
    """As Slack asks for it: what would begin a link or a mention is text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
