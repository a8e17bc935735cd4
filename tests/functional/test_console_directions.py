"""Bidirectional control characters of partners are spelt out on every page, and kept in fields."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.layout.bidi import FOUND, HELD, shown
from integration.models import (
    BulkRun,
    ConfigurationChange,
    ErrorAttempt,
    MessageError,
    OutboxRow,
    QueuePartition,
)
from integration.plain import without_bidi
from tests.support.every_page import a_world
from tests.support.rows import a_person, an_envelope
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.timeout(300)]

CONTROLS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
EVIL = "plant\u202e\u2066gpj.exe\u200f\u061c"
RECORD = f'{{"a": "{EVIL}"}}'.encode()
SPELT = r"plant\u202e\u2066gpj.exe\u200f\u061c"


def planted() -> dict[str, Any]:
    """Every text that a partner can bring, wherever the engine keeps it."""
    world = a_world()
    MessageError.objects.update(
        message_id=EVIL,
        interface=EVIL,
        sender=EVIL,
        text=EVIL,
        key=EVIL.encode(),
        payload=an_envelope({"a": EVIL}),
        headers=[[EVIL, "YQ=="]],
    )
    ErrorAttempt.objects.update(text=EVIL)
    QueuePartition.objects.update(state_text=EVIL)
    OutboxRow.objects.update(topic=EVIL, message_id=EVIL, dead_text=EVIL, value=EVIL.encode())
    ConfigurationChange.every.update(name=EVIL, reason=EVIL, after={"name": EVIL})
    BulkRun.objects.update(problem=["SOURCE_CHANGED", EVIL, EVIL], log=EVIL)
    error = MessageError.objects.select_related("queue").get()
    a_track_row(error.queue, message_id=EVIL, interface=EVIL, key=EVIL, payload=EVIL.encode())
    return world


# Pages that show texts of partners.
SPELLING = frozenset(
    {
        "bulk-run",
        "change",
        "changes",
        "failure",
        "failure-list",
        "failures",
        "operation",
        "outbox",
        "outbox-row",
        "overview",
        "queue",
        "tracked-message",
        "tracking",
    }
)


def is_spelt(page: str, name: str) -> bool:
    """Whether a page spells the characters out beside its fields; it has none of them there."""
    beside = HELD.sub("", page)
    assert not FOUND.search(beside.encode()), name
    return SPELT in beside


@pytest.mark.parametrize("page", ["failures", "outbox"])
def test_a_page_spells_them_out(page: str) -> None:
    """That none obeys them is seen below a prefix, in test_mounted_console.py."""
    planted()
    client = Client()
    client.force_login(a_person("Viewers"))
    assert is_spelt(client.get(reverse(page)).text, page)


def test_an_editor_holds_the_true_text_and_saving_it_changes_nothing() -> None:
    world = planted()
    client = Client()
    client.force_login(a_person("Editors"))
    MessageError.objects.update(payload=RECORD)
    page = client.get(reverse("edit", args=[world["error_id"]])).text
    [text] = re.findall(r'<textarea [^>]*id="text"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert EVIL in text
    assert SPELT not in text
    before = MessageError.objects.get()
    sent = {"text": text.replace("&quot;", '"').lstrip("\n"), "version": before.version}
    client.post(reverse("edit", args=[world["error_id"]]), sent)
    after = MessageError.objects.get()
    assert (after.version, after.edited_payload) == (before.version, None)


def test_a_download_is_what_was_sent() -> None:
    world = planted()
    client = Client()
    client.force_login(a_person("Editors"))
    MessageError.objects.update(payload=RECORD)
    answer = client.get(reverse("record", args=[world["error_id"]]))
    assert answer.content == RECORD


def test_every_one_of_them_is_known_and_no_other_character_is_touched() -> None:
    assert without_bidi(CONTROLS) == "".join(f"\\u{ord(one):04x}" for one in CONTROLS)
    assert all(FOUND.fullmatch(one.encode()) for one in CONTROLS)
    rest = "".join(chr(code) for code in range(0x20, 0x3000) if chr(code) not in CONTROLS)
    assert without_bidi(rest) == rest
    assert not FOUND.search(rest.encode())


def test_what_is_in_a_field_is_kept_and_what_is_only_read_is_not() -> None:
    held = f'<textarea name="a">{EVIL}</textarea> <input value="{EVIL}">'
    read = f'<textarea readonly>{EVIL}</textarea> <b title="{EVIL}">{EVIL}</b>'
    assert shown(held + read) == held + read.replace(EVIL, SPELT)
