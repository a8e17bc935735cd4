"""The object store never goes back in time, whatever order messages come in."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from integration.handlers import (
    Applied,
    PermanentError,
    Superseded,
    Verdict,
    claim_all,
    claim_newest,
)
from integration.message import Arrival, Message
from integration.models import ObjectStructure, StoredObject
from integration.policy.failure import Failure
from integration.store.objects import UnknownStructureError, store_documents
from integration.testing import a_message

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

WORDS = {Applied(): "applied", Superseded(): "superseded"}


@pytest.fixture
def places() -> ObjectStructure:
    return ObjectStructure.objects.create(name="places", key_paths=["$.location"])


def store_document(structure: ObjectStructure, message: Message) -> Verdict:
    [verdict] = store_documents(structure, [message])
    return verdict


def said(verdicts: list[Any]) -> list[str]:
    return [v.code if isinstance(v, Failure) else WORDS[v] for v in verdicts]


def place(key: str = "HALL", at: int = 1, **members: Any) -> Message:
    return a_message({"location": key, **members}, arrival=Arrival(at, 0))


def test_a_document_is_stored_with_its_provenance(places: ObjectStructure) -> None:
    message = place(price=Decimal("1.50"))
    message.topic_uuid, message.record.partition, message.record.offset = "u-1", 2, 99
    assert store_document(places, message) == Applied()
    stored = StoredObject.objects.get()
    assert (stored.key, stored.version) == ("HALL", 1)
    assert (stored.topic_uuid, stored.partition, stored.offset) == ("u-1", 2, 99)
    assert stored.message_id == message.message_id
    with connection.cursor() as cursor:
        cursor.execute("SELECT document::text FROM integration_storedobject")
        assert json.loads(cursor.fetchone()[0], parse_float=Decimal)["price"] == Decimal("1.50")


def test_an_older_message_that_comes_late_writes_nothing(places: ObjectStructure) -> None:
    assert store_document(places, place(at=5, name="new")) == Applied()
    assert store_document(places, place(at=4, name="old")) == Superseded()
    assert store_document(places, place(at=5, name="again")) == Superseded()
    assert store_document(places, place(at=6, name="newest")) == Applied()
    stored = StoredObject.objects.get()
    assert (stored.document["name"], stored.version) == ("newest", 2)


def test_a_batch_ends_message_by_message(places: ObjectStructure) -> None:
    store_document(places, place("C", at=50))
    messages = [
        place("B", at=11, name="old"),
        place("A", at=12),
        a_message({"name": "keyless"}),
        place("B", at=13, name="new"),
        place("C", at=14),
    ]
    verdicts = store_documents(places, messages)
    assert said(verdicts) == ["superseded", "applied", "NO_KEY", "applied", "superseded"]
    assert StoredObject.objects.get(key="B").document["name"] == "new"


def test_numbers_of_one_value_are_one_key(places: ObjectStructure) -> None:
    for body in ('{"location": 7}', '{"location": 7.0}', '{"location": "7"}'):
        assert store_document(places, a_message(body)) == Applied()
    assert StoredObject.objects.get().version == 3


def test_xml_is_kept_as_it_came() -> None:
    structure = ObjectStructure.objects.create(name="x", key_paths=["//LOCATION", "//SITE"])
    text = '<P xmlns="urn:p"><LOCATION>H1</LOCATION>  <SITE>N</SITE></P>'
    assert store_document(structure, a_message(text)) == Applied()
    stored = StoredObject.objects.get()
    assert (stored.key, stored.xml, stored.document) == ('["H1","N"]', text, None)
    assert not stored.is_deleted
    latin = (
        '<?xml version="1.0" encoding="ISO-8859-1"?><P><LOCATION>H\xe4</LOCATION><SITE>N</SITE></P>'
    )
    assert store_document(structure, a_message(latin.encode("latin-1"))) == Applied()
    kept = StoredObject.objects.get(key='["Hä","N"]').xml
    assert etree.fromstring(kept).findtext("LOCATION") == "Hä"


# --- versions -----------------------------------------------------------------------------------


@pytest.fixture
def orders() -> ObjectStructure:
    return ObjectStructure.objects.create(
        name="orders", key_paths=["$.po"], version_path="$.changed"
    )


def order(changed: object, at: int) -> Message:
    return a_message({"po": "1", "changed": changed}, arrival=Arrival(at, 0))


@pytest.mark.parametrize(
    ("first", "second", "applied"),
    [
        ((2, 1), (1, 2), False),
        ((1, 2), (2, 1), True),
        ((9, 1), (10, 2), True),
        ((1, 1), (1, 2), True),
        ((1, 2), (1, 1), False),
        ((5, 1), (None, 2), True),
        ((5, 2), (None, 1), False),
        ((None, 2), (5, 1), False),
        (("2026-03-01T10:00:00Z", 1), ("2026-03-01T10:30:00+01:00", 2), False),
        (("2026-03-01T10:00:00Z", 1), ("2026-03-01T10:00:00.000001Z", 2), True),
    ],
)
def test_the_version_decides_else_the_arrival(
    orders: ObjectStructure, first: tuple[Any, int], second: tuple[Any, int], applied: bool
) -> None:
    store_document(orders, order(*first))
    assert store_document(orders, order(*second)) == (Applied() if applied else Superseded())
    # One batch of both ends with the same document.
    StoredObject.objects.all().delete()
    store_documents(orders, [order(*first), order(*second)])
    winner = second if applied else first
    assert StoredObject.objects.get().document["changed"] == winner[0]


def test_a_message_without_version_must_be_newer_than_all_that_came(
    orders: ObjectStructure,
) -> None:
    store_document(orders, order(1, at=10))
    assert store_document(orders, order(2, at=5)) == Applied(), "a newer version, come late"
    assert store_document(orders, order(None, at=7)) == Superseded()
    assert store_document(orders, order(None, at=11)) == Applied()


@pytest.mark.parametrize("version", ["yesterday", "1.5", "9" * 40])
def test_a_version_that_is_none_is_told(orders: ObjectStructure, version: str) -> None:
    verdict = store_document(orders, order(version, at=1))
    assert isinstance(verdict, Failure)
    assert (verdict.kind, verdict.code) == ("permanent", "BAD_VERSION")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(1, 50), unique=True, min_size=1, max_size=8), st.data())
def test_the_newest_arrival_stands_whatever_the_batches(
    places: ObjectStructure, arrivals: list[int], data: st.DataObject
) -> None:
    StoredObject.objects.all().delete()
    rest = list(arrivals)
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        store_documents(places, [place(at=at, n=at) for at in rest[:size]])
        del rest[:size]
    assert StoredObject.objects.get().document["n"] == max(arrivals)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(st.none(), st.integers(1, 5)), min_size=2, max_size=6), st.data())
def test_borders_of_batches_change_nothing(
    orders: ObjectStructure, versions: list[int | None], data: st.DataObject
) -> None:
    messages = [order(version, at=at) for at, version in enumerate(versions, 1)]
    StoredObject.objects.all().delete()
    for message in messages:
        store_document(orders, message)
    alone = StoredObject.objects.values("document", "arrival_batch", "sort_version").get()
    StoredObject.objects.all().delete()
    rest = list(messages)
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        store_documents(orders, rest[:size])
        del rest[:size]
    assert StoredObject.objects.values("document", "arrival_batch", "sort_version").get() == alone


# --- deletions ----------------------------------------------------------------------------------


def gone(key: bytes | None, at: int) -> Message:
    return a_message(None, key=key, arrival=Arrival(at, 0))


def test_a_tombstone_is_held_unless_the_structure_deletes(places: ObjectStructure) -> None:
    verdict = store_document(places, gone(b"HALL", 2))
    assert isinstance(verdict, Failure)
    assert verdict.code == "TOMBSTONE"


def test_a_deletion_is_remembered_also_for_an_unknown_key(places: ObjectStructure) -> None:
    places.tombstone = ObjectStructure.Tombstone.DELETE
    places.save()
    assert store_document(places, gone(b"HALL", 5)) == Applied()
    assert StoredObject.objects.get().is_deleted
    assert store_document(places, place(at=4)) == Superseded()
    assert StoredObject.objects.get().is_deleted, "an older document must not bring it back"
    assert store_document(places, place(at=6)) == Applied()
    assert store_document(places, gone(b"HALL", 3)) == Superseded()
    assert not StoredObject.objects.get().is_deleted


def test_a_deletion_has_no_version_so_arrival_decides() -> None:
    structure = ObjectStructure.objects.create(
        name="o", key_paths=["$.po"], version_path="$.changed", tombstone="delete"
    )
    store_document(structure, order(5, at=1))
    assert store_document(structure, gone(b"1", 10)) == Applied()
    assert store_document(structure, order(6, at=9)) == Superseded()
    assert store_document(structure, order(1, at=11)) == Applied()


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (None, "NO_KEY"),
        (b" ", "NO_KEY"),
        (b"\xff", "BAD_KEY"),
        (b"a\0b", "NO_KEY"),
        (b"x" * 2_000, "KEY_TOO_LONG"),
    ],
)
def test_a_tombstone_needs_a_usable_key(places: ObjectStructure, key: Any, code: str) -> None:
    places.tombstone = ObjectStructure.Tombstone.DELETE
    verdict = store_document(places, gone(key, 1))
    assert isinstance(verdict, Failure)
    assert verdict.code == code


def test_a_key_of_several_values_is_an_array() -> None:
    structure = ObjectStructure.objects.create(
        name="two", key_paths=["$.a", "$.b"], tombstone="delete"
    )
    store_document(structure, a_message({"a": 1, "b": "x"}))
    assert store_document(structure, a_message(None, key=b'[1, "x"]')) == Applied()
    assert StoredObject.objects.get().is_deleted
    verdict = store_document(structure, a_message(None, key=b'["1"]'))
    several = ObjectStructure.objects.create(name="several", key_paths=["$..a"])
    two = store_document(several, a_message({"lines": [{"a": 1}, {"a": 2}]}))
    assert said([verdict, two]) == ["BAD_KEY", "KEY_AMBIGUOUS"]
    assert StoredObject.objects.count() == 1


# --- the schema ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ('{"location": "H", "size": 1.5}', None),
        ('{"location": "H", "size": 1.25}', "SCHEMA_VIOLATION"),
        ('{"location": "H", "floor": 2.0}', None),
        ('{"location": "H", "floor": 2.5}', "SCHEMA_VIOLATION"),
        ('{"location": "H", "rate": 0.1}', None),
        ('{"location": "H", "rate": 0.2}', "SCHEMA_VIOLATION"),
        ('{"location": "H", "elsewhere": 1}', "SCHEMA_UNUSABLE"),
        ('{"location": "H", "word": "aab"}', None),
        ('{"location": "H", "word": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}', None),
        (
            '{"location": "H", "word": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"}',
            "SCHEMA_VIOLATION",
        ),
        ('{"location": "H", "again": "aa"}', "SCHEMA_UNUSABLE"),
        ("<P><location>H</location></P>", "NO_KEY"),
    ],
)
def test_the_schema_judges_exact_numbers(document: str, code: str | None) -> None:
    structure = ObjectStructure.objects.create(
        name="s",
        key_paths=["$.location"],
        json_schema={
            "properties": {
                "size": {"multipleOf": 0.5},
                "floor": {"type": "integer"},
                "rate": {"enum": [0.1]},
                "word": {"pattern": "^(a+)+b?$"},
                "again": {"pattern": "(a)\\1"},
                "elsewhere": {"$ref": "https://schemas.invalid/other.json"},
            }
        },
    )
    structure.refresh_from_db()
    verdict = store_document(structure, a_message(document))
    assert (verdict.code if isinstance(verdict, Failure) else None) == code


def test_a_changed_schema_counts_at_once(places: ObjectStructure) -> None:
    assert store_document(places, place()) == Applied()
    places.json_schema = {"required": ["name"]}
    verdict = store_document(places, place(at=2))
    assert isinstance(verdict, Failure)
    assert "name" in verdict.text


# --- the guard for handlers ---------------------------------------------------------------------


def test_a_handler_claims_a_key_for_the_newest_message(places: ObjectStructure) -> None:
    assert claim_newest("places", "H", place(at=5))
    assert not claim_newest("places", "H", place(at=4))
    assert claim_newest("places", "H", place(at=4), version=2) is False
    assert claim_newest("places", "H", place(at=6), version=datetime(2026, 3, 1, tzinfo=UTC))
    with pytest.raises(PermanentError) as refused:
        claim_newest("places", "H", place(at=7), version=10**60)
    assert (refused.value.failure_code, "30 digits" in str(refused.value)) == ("BAD_VERSION", True)
    assert not claim_newest("places", "H", place(at=7), version=datetime(2026, 2, 1, tzinfo=UTC))


def test_claims_of_a_batch_are_answered_one_by_one(places: ObjectStructure) -> None:
    claims = [("A", place(at=1), None), ("B", place(at=2), None), ("A", place(at=3), None)]
    assert claim_all("places", claims) == [False, True, True]
    assert claim_all("places", []) == []


def test_of_claims_with_and_without_a_version_the_last_one_stands(places: ObjectStructure) -> None:
    assert claim_newest("places", "A", place(at=1), version=5)
    claims = [("A", place(at=2), None), ("B", place(at=3), None), ("A", place(at=4), 3)]
    assert claim_all("places", claims) == [False, True, True]
    assert not claim_newest("places", "A", place(at=5), version=2)


def test_a_claim_leaves_a_stored_document_alone(places: ObjectStructure) -> None:
    store_document(places, place(at=1, name="kept"))
    assert claim_newest("places", "HALL", place(at=2))
    assert StoredObject.objects.get().document["name"] == "kept"


def test_an_unknown_structure_is_named() -> None:
    with pytest.raises(UnknownStructureError, match="nowhere"), transaction.atomic():
        claim_newest("nowhere", "H", place())


# --- two at once --------------------------------------------------------------------------------


@contextmanager
def own_connection() -> Iterator[None]:
    try:
        yield
    finally:
        connections.close_all()


@pytest.mark.django_db(transaction=True)
def test_two_batches_over_the_same_keys_neither_deadlock_nor_go_back() -> None:
    structure = ObjectStructure.objects.create(name="places", key_paths=["$.location"])
    keys = [f"K{n:02d}" for n in range(20)]
    barrier = threading.Barrier(2, timeout=30)
    errors: list[BaseException] = []

    def work(offset: int, order: list[str]) -> None:
        with own_connection():
            try:
                for turn in range(10):
                    barrier.wait()
                    at = 2 * turn + offset
                    store_documents(structure, [place(key, at=at, n=at) for key in order])
            except BaseException as e:  # noqa: BLE001 - told to the test's own thread
                errors.append(e)
                barrier.abort()

    threads = [
        threading.Thread(target=work, args=(1, keys)),
        threading.Thread(target=work, args=(2, keys[::-1])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert errors == []
    assert {row.document["n"] for row in StoredObject.objects.all()} == {20}
    assert StoredObject.objects.count() == 20
