"""What tracking keeps of a message, from the record to the row: ids, key, cause, payload."""

import itertools
import zlib
from typing import Any, ClassVar

import pytest
from django.db import connection, transaction

from integration.delivery.batch_outcome import track_of
from integration.delivery.reading import TRACED_AT_ONCE, Reader
from integration.delivery.snapshot import QueueSnapshot, Service
from integration.delivery.tracked import LARGEST_PAYLOAD_BYTES, Tracked, following
from integration.delivery.unit import Unit
from integration.models import EnterpriseService, MessageTrack, PublishChannel
from integration.store import configuration, tracks
from integration.values import Record
from tests.support.deliveries import a_row, a_track
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ODD = 'tab\tline\nback\\slash "quote" \\N \x01 ä €'


def written(*rows: Any) -> list[MessageTrack]:
    connection.ensure_connection()
    with connection.connection.cursor() as cursor, cursor.copy(tracks.COPY) as copy:
        for piece in tracks.lines((7, 0, 3), rows):
            copy.write(piece)
    return list(MessageTrack.objects.order_by("offset"))


def columns_of(row: MessageTrack) -> dict[str, object]:
    """What a message brought about; not how many came with it, nor when."""
    of_batch = {"id", "at", "batch_rows"}
    names = [field.attname for field in row._meta.fields if field.attname not in of_batch]
    return {name: getattr(row, name) for name in names}


def units(*records: Record, **fields: Any) -> list[Unit]:
    """What a queue reads under these paths."""
    return Reader(a_snapshot(**fields)).units(records)


def a_snapshot(**fields: Any) -> QueueSnapshot:
    names = ("external", "search", "keeps_payload")
    external, search, keeps = (fields.pop(name, "") for name in names)
    follow = following(external, search or [], keeps_payload=bool(keeps))
    return QueueSnapshot(
        id=1, name="q", provider_id=1, provider_name="p", topic="t", sequential=False,
        default_interface="S", services={"S": Service("S", None)},
        followed={} if follow is None else {"S": follow}, **fields,
    )  # fmt: skip


def traced(record: Record, **fields: Any) -> Tracked | None:
    [unit] = units(record, **fields)
    return unit.tracked


def a_record(value: bytes | None, headers: Any = None, key: bytes = b"k", at: int = 5) -> Record:
    return Record(0, at, 1_700_000_000_000, key, value, headers)


class TestRows:
    def test_a_plain_message_has_its_key_and_kafkas_time(self) -> None:
        [row] = written(a_track(1, key=b"A-1"))
        assert (row.key, row.kafka_ms, row.message_id) == ("A-1", 1_700_000_000_000, "id-1")
        assert (row.external_id, row.search_a, row.caused_by, row.payload) == (None,) * 4

    def test_odd_characters_arrive_as_they_are(self) -> None:
        kept = ODD.replace("\x01", "\ufffd")
        rows = written(
            a_track(1, message_id=ODD, key=ODD.encode()),
            a_track(2, message_id=ODD, tracked=Tracked(ODD, None, "b", ODD, b"\\x00\x01")),
            a_track(3, tracked=Tracked(None, "\x01", None, None, None)),
        )
        assert [row.message_id for row in rows] == [kept, kept, "id-3"]
        assert rows[0].key == kept
        assert (rows[1].external_id, rows[1].search_a, rows[1].search_b) == (kept, None, "b")
        assert rows[1].caused_by == kept
        assert bytes(rows[1].payload or b"") == b"\\x00\x01"
        assert rows[2].search_a == "\ufffd", "one sign stands for nothing, and no id is that"

    def test_alone_a_row_is_as_it_is_among_others(self) -> None:
        rows = [
            a_track(1),
            a_track(2, message_id=ODD.replace("\x01", ""), key=b"a\x00b\xff"),
            a_track(
                3, key=b"x" * 5_000, tracked=Tracked("e", None, "\udcff", ODD[:9], b"\\x\x01", 7)
            ),
            a_track(4, key=None, tracked=Tracked(*(None,) * 5)),
        ]
        together = [columns_of(row) for row in written(*rows)]
        MessageTrack.objects.all().delete()
        with connection.cursor() as cursor:
            for row in rows:
                sql = f"WITH fenced AS (SELECT 1) {tracks.INSERT_FENCED}"
                cursor.execute(sql, tracks.values((7, 0, 3), row))
        alone = MessageTrack.objects.order_by("offset")
        assert [row.batch_rows for row in alone] == [1] * 4
        assert [columns_of(row) for row in alone] == together

    @pytest.mark.parametrize("key", [b"\xff\xfe", b"a\x00b", b"x" * 5_000])
    def test_no_key_costs_the_batch(self, key: bytes) -> None:
        assert (
            len(written(a_track(1, key=key), a_track(2, tracked=Tracked("e", *(None,) * 4)))) == 2
        )

    def test_tracked_and_traced_messages_of_a_batch_are_all_there(self) -> None:
        mixed = [
            a_track(n, tracked=Tracked(f"e{n}", *(None,) * 4) if n % 2 else None) for n in range(6)
        ]
        assert [row.external_id for row in written(*mixed)] == [None, "e1", None, "e3", None, "e5"]

    @pytest.mark.parametrize("tracked", [None, Tracked("e", *(None,) * 4)])
    @pytest.mark.parametrize("is_odd", [False, True])
    def test_the_first_row_of_a_copy_stands_for_all(
        self, tracked: Tracked | None, *, is_odd: bool
    ) -> None:
        count = 2 * tracks.LINES_AT_ONCE + 1
        rows = written(
            *(
                a_track(n, key=ODD.encode() if is_odd else b"k", tracked=tracked)
                for n in range(count)
            )
        )
        assert [row.batch_rows for row in rows] == [count, *[None] * (count - 1)]
        assert len({row.at for row in rows}) == 1
        assert [row.id for row in rows] == sorted(row.id for row in rows)


class TestTextsMadeWhileReading:
    """What is put together while a message is read says what its ending would put together."""

    HEADERS: ClassVar = [
        None,
        [("sluice-cause", b"the-request")],
        [("sluice-cause", b"tab\tback\\slash \xff")],
        [("MEAMessageID", b"id\\with\nsigns"), ("INTERFACE", b"S")],
        [("INTERFACE", b"Stranger\t")],
    ]
    VALUES: ClassVar = [
        b'{"a": "A-1", "b": 7.50}',
        b'{"a": "tab\\tline\\nback\\\\slash \\u0001 \\ud800", "b": 1}',
        b'{"a": 12, "b": null}',
        b"<a/>",
        b"not readable",
        None,
    ]
    KEYS: ClassVar = [b"k", b"", b"\xff\xfe\t\x01", b"x" * 900]

    def test_every_row_is_the_same(self) -> None:
        told = itertools.product(self.VALUES, self.HEADERS, self.KEYS)
        records = [a_record(*one, at=place) for place, one in enumerate(told)]
        found, unlike = [], {"_state", "id", "at"}
        for writer in (None, tracks.texts):
            with transaction.atomic():
                read = units(
                    *records, external="$.a", search=["$.b"], keeps_payload=True,
                    write_tracks=writer,
                )  # fmt: skip
                rows = written(*(track_of(unit, "APPLIED") for unit in read))
                found.append(
                    [
                        {name: value for name, value in vars(row).items() if name not in unlike}
                        for row in rows
                    ]
                )
                transaction.set_rollback(True)
        assert len(found[0]) == len(records)
        assert found[0] == found[1]

    def test_it_makes_no_difference_how_they_are_read(self) -> None:
        records = [a_record(b'{"a": "A-%d"}' % at, at=at) for at in range(2 * TRACED_AT_ONCE + 7)]
        reader = Reader(a_snapshot(external="$.a", write_tracks=tracks.texts))
        for begin in range(0, len(records) - 3, 20):
            reader.read_ahead(records[begin : begin + 20][: len(records) - 3 - begin])
        found = [unit.tracked for unit in reader.units(records)]
        assert found == [
            unit.tracked
            for unit in units(
                *(a_record(b'{"a": "A-%d"}' % at, at=at) for at in range(len(records))),
                external="$.a",
                write_tracks=tracks.texts,
            )
        ]
        assert all(tracked is not None and tracked.text for tracked in found)

    def test_texts_are_made_where_nothing_needs_a_sign(self) -> None:
        keys = enumerate((b"k", b"tab\t"))
        records = [a_record(b'{"a": "A-1"}', key=key, at=at) for at, key in keys]
        first, second = units(*records, external="$.a", write_tracks=tracks.texts)
        assert first.tracked is not None
        assert first.tracked.text.split("\t")[:5] == ["0", "0", "p~t~0~0", "S", "k"]
        assert second.tracked is not None
        assert second.tracked.text == ""

    def test_a_failure_keeps_its_id_in_the_text(self) -> None:
        reader = Reader(a_snapshot(write_tracks=tracks.texts))
        unit = reader.row_unit(a_row(message_id="the-first"))
        assert unit.tracked is not None
        assert unit.tracked.text.split("\t")[2] == "the-first"

    def test_what_is_not_tracked_costs_nothing(self) -> None:
        record = a_record(b'{"a": 1}', [("sluice-cause", b"c")])
        assert traced(record, external="$.a", tracks=False) is None


class TestTraces:
    def test_without_paths_and_headers_there_is_nothing_in_it(self) -> None:
        assert traced(a_record(b'{"a": 1}')) == Tracked(None, None, None, None, None)

    def test_json_paths_find_texts_and_numbers(self) -> None:
        body = b'{"po": {"num": "PO-1", "total": 7.50}, "lines": [{"id": 3}]}'
        found = traced(a_record(body), external="$.po.num", search=["$.po.total", "$.lines[0].id"])
        assert found == Tracked("PO-1", "7.5", "3", None, None)

    def test_xml_paths_find_texts(self) -> None:
        found = traced(
            a_record(b"<PO xmlns='urn:x'><NUM> 7 </NUM></PO>"),
            external="/PO/NUM",
            search=["/PO/NO"],
        )
        assert found == Tracked("7", None, None, None, None)

    @pytest.mark.parametrize(
        "value",
        [b'{"b": 1}', b'{"a": null}', b'{"a": {"b": 1}}', b"[1]", b"<a/>", None],
    )
    def test_a_path_that_finds_nothing_leaves_nothing(self, value: bytes | None) -> None:
        assert traced(a_record(value), external="$.a") == Tracked(None, None, None, None, None)

    def test_what_is_too_long_for_an_id_is_cut(self) -> None:
        found = traced(a_record(b'{"a": "' + b"x" * 10_000 + b'", "b": 1e400}'), external="$.a")
        assert found is not None
        assert len(found.external_id or "") == 200

    def test_a_path_that_is_none_any_more_finds_nothing(self) -> None:
        assert following("$..a..b", ["(/"], keeps_payload=False) is None

    def test_a_header_names_the_cause(self) -> None:
        record = a_record(b'{"a": 1}', [("other", None), ("sluice-cause", b"the-request")])
        assert traced(record) == Tracked(None, None, None, "the-request", None)

    def test_the_payload_is_kept_compressed_unless_it_is_too_large(self) -> None:
        found = traced(a_record(b'{"a": 1}'), keeps_payload=True)
        assert found is not None
        assert zlib.decompress(found.payload or b"") == b'{"a": 1}'
        large = traced(a_record(b'"' + b"x" * LARGEST_PAYLOAD_BYTES + b'"'), keeps_payload=True)
        assert large == Tracked(None, None, None, None, None)


def test_paths_belong_to_services_inbound_and_to_channels_outbound() -> None:
    EnterpriseService.objects.create(interface="In", external_id_path="$.a")
    PublishChannel.objects.create(name="Out", search_paths=["$.b"], keeps_payload=True)
    inbound, outbound = a_queue_row(), a_queue_row(direction="outbound")
    untracked = a_queue_row(tracks=False)
    told = [configuration.snapshot(q.pk, worker="w") for q in (inbound, outbound, untracked)]
    assert [set(one.followed) for one in told] == [{"In"}, {"Out"}, set()]
    assert [one.tracks for one in told] == [True, True, False]
    assert told[1].followed["Out"].keeps_payload
    EnterpriseService.objects.update(external_id_path="$.c")
    assert configuration.snapshot(inbound.pk, worker="w").mark != told[0].mark
