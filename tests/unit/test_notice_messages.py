"""A message of notices as mail, JSON and chat; how it is signed."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from crontasks.notices import messages
from crontasks.notices.messages import Message, Told
from integration.endpoint_types.http.signing import signature

pytestmark = pytest.mark.fast
AT = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
ONE = Told(
    number=1,
    event="BEGUN",
    kind="BLOCKED",
    title="Queue blocked",
    subject="assets[0]",
    queue="assets",
    text="HEAD_HELD: <b>Bad</b> date & more.",
    opened_at=AT,
)


def a_message(*told: Told, count: int = 0, **fields: object) -> Message:
    count = count or len(told)
    made = Message(
        id=UUID(int=5),
        deployment="sluice",
        told=told,
        count=count,
        titles=[("Queue blocked", count)],
    )
    return replace(made, **fields)  # type: ignore[arg-type] # a test's own


def test_one_notice_is_a_mail_as_before():
    message = a_message(ONE)
    assert messages.subject_line(message) == "[sluice] Queue blocked: assets[0]"
    assert messages.mail_text(message) == (
        "assets[0]: HEAD_HELD: <b>Bad</b> date & more.\n\nSince 04 March 2026 05:06 UTC."
    )
    over = replace(ONE, event="OVER", closed_at=AT)
    assert messages.subject_line(a_message(over)).startswith("[sluice] Over: Queue blocked")
    assert "Over since 04 March" in messages.mail_text(a_message(over))
    again = replace(ONE, event="AGAIN")
    assert messages.subject_line(a_message(again)).startswith("[sluice] Still: ")


def test_many_are_one_short_message_that_counts_them():
    message = a_message(*[ONE] * messages.NAMED, count=10_000)
    assert messages.subject_line(message) == "[sluice] 10,000 notices: Queue blocked (10,000)"
    text = messages.mail_text(message)
    assert text.endswith("And 9,950 more: see Notices in the console.")
    assert len(text) < 10_000
    body = messages.as_json(message)
    assert (body["count"], body["left_out"], len(body["notices"])) == (10_000, 9_950, 50)
    assert len(json.dumps(body)) < 50_000
    chat = messages.as_chat(message)["text"]
    assert "And 9,980 more" in chat
    assert len(chat) < 10_000


def test_links_are_told_where_the_console_has_an_address():
    page, queue = "https://shop.test/ops/notices/", "https://shop.test/ops/queues/assets/"
    message = a_message(replace(ONE, link=queue), link=page)
    body = messages.as_json(message)
    assert (body["link"], body["notices"][0]["link"]) == (page, queue)
    assert messages.mail_text(message).endswith(f"UTC.\n\n{page}")
    body = messages.as_json(a_message(ONE))
    assert (body["link"], body["notices"][0]["link"]) == (None, None)


def test_a_text_without_end_is_cut():
    message = a_message(replace(ONE, text="x" * 1_000_000))
    assert len(messages.mail_text(message)) < 3_000
    assert len(json.dumps(messages.as_json(message))) < 3_000
    assert len(messages.as_chat(message)["text"]) < 3_000


def test_a_chat_takes_nothing_for_a_link_or_a_mention():
    chat = messages.as_chat(a_message(replace(ONE, text="<!channel> & <https://a|b>")))
    assert chat == {
        "text": "*[sluice] Queue blocked: assets[0]*\n&lt;!channel&gt; &amp; &lt;https://a|b&gt;"
    }


def test_a_line_end_in_a_subject_begins_no_header():
    line = messages.subject_line(a_message(replace(ONE, subject="a\r\nBcc: x@example.org")))
    assert line == "[sluice] Queue blocked: a Bcc: x@example.org"


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("plain-secret", b"plain-secret"),
        ("whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode(), None),
        ("whsec_not base64", b"whsec_not base64"),
        ("whsec_schlüssel", "whsec_schlüssel".encode()),
    ],
)
def test_the_signature_is_that_of_standard_webhooks(secret: str, key: bytes | None):
    key = key or b"0123456789abcdef01234567"
    expected = base64.b64encode(hmac.digest(key, b'id-1.1700000000.{"a":1}', hashlib.sha256))
    made = signature(secret, "id-1", "1700000000", b'{"a":1}')
    assert made == f"v1,{expected.decode()}"
