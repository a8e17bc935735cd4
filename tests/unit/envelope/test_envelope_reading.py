"""What read() makes of records that are in order: each form of envelope, body and header."""

import base64
import gzip
import json
import zlib
from decimal import Decimal

import pytest
from lxml import etree

from integration.envelope import (
    JSON,
    XML,
    Document,
    Flaw,
    FlawCode,
    FoundingId,
    parse_founding_id,
    read,
)
from integration.envelope.fields import MAX_FIELD_LENGTH

pytestmark = pytest.mark.fast

BODY = '{"assetnum": "AZ163", "siteid": "BEDFORD", "hours": 12.50}'
PARSED = {"assetnum": "AZ163", "siteid": "BEDFORD", "hours": Decimal("12.50")}
SHEET = "<ASSET><ASSETNUM>AZ163</ASSETNUM></ASSET>"


def raw_deflate(plain: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(plain) + stream.flush()


def two_members(plain: bytes) -> bytes:
    return gzip.compress(plain[:7]) + gzip.compress(plain[7:])


def an_envelope(**changes: object) -> bytes:
    fields: dict[str, object] = {
        "interfacetype": "MAXIMO",
        "SENDER": "testkafka",
        "destination": "plant",
        "USER": "wilson",
        "MEAMessageID": "id-1",
        "INTERFACE": "MXASSETInterface",
        "payload": BODY,
        "mimetype": "application/json",
        "destjndiname": "assets",
    }
    fields.update(changes)
    return json.dumps({name: value for name, value in fields.items() if value != "-"}).encode()


def document(value: bytes, headers: list[tuple[str, bytes | None]] | None = None) -> Document:
    found = read(value, headers)
    assert isinstance(found, Document), found
    return found


def packed(plain: str, pack=zlib.compress) -> str:
    return base64.b64encode(pack(plain.encode())).decode()


@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress, raw_deflate, two_members])
@pytest.mark.parametrize("mark", ["1", 1, True, "true"])
def test_a_compressed_payload_is_read_whichever_way_it_was_packed(pack, mark):
    found = document(an_envelope(payload=packed(BODY, pack), compressed=mark))
    assert found.body == PARSED
    assert found.payload == BODY.encode()
    assert found.wrapped


def test_line_breaks_in_base64_are_no_flaw():
    lines = base64.encodebytes(zlib.compress(BODY.encode())).decode()
    assert "\n" in lines
    assert document(an_envelope(payload=lines, compressed="1")).body == PARSED


@pytest.mark.parametrize("mark", ["-", None, "", "0", 0, False, "false"])
def test_a_payload_of_plain_json_text_is_read(mark):
    found = document(an_envelope(compressed=mark))
    assert (found.body, found.payload, found.mimetype) == (PARSED, BODY, JSON)


def test_an_envelope_tells_who_where_and_what():
    found = document(an_envelope())
    assert found.interface == "MXASSETInterface"
    assert found.sender == "testkafka"
    assert found.user == "wilson"
    assert found.destination == "plant"
    assert found.message_id == "id-1"


def test_a_payload_that_is_an_object_keeps_its_own_text():
    inner = '{"b" : [1.10,{"payload":"no"}],  "a":"\\u00e9, \\"q\\""}'
    record = f'\ufeff {{"x": {{"payload": 0}}, "INTERFACE":"A","payload" :\n{inner} , "USER":"u"}}'
    found = document(record.encode())
    assert found.payload == inner
    assert found.body == {"b": [Decimal("1.10"), {"payload": "no"}], "a": 'é, "q"'}


def test_a_payload_of_xml_text_is_read_whatever_its_declaration_says():
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><A>é</A>'
    found = document(an_envelope(payload=text, mimetype="application/json"))
    assert isinstance(found.body, etree._Element)
    assert (found.body.text, found.mimetype, found.payload) == ("é", XML, text)


def test_a_compressed_xml_payload_keeps_its_declared_encoding():
    source = '<?xml version="1.0" encoding="ISO-8859-1"?><A>é</A>'.encode("latin-1")
    envelope = an_envelope(payload=base64.b64encode(zlib.compress(source)).decode(), compressed="1")
    found = document(envelope)
    assert isinstance(found.body, etree._Element)
    assert (found.body.text, found.payload) == ("é", source)


def test_a_bare_body_takes_its_facts_from_headers():
    headers = [
        ("Sluice-Interface", b"A"),
        ("sluice-sender", b"MX"),
        ("sluice-user", b"wilson"),
        ("sluice-message-id", b"7"),
        ("sluice-destination", b"plant"),
        ("traceparent", b"\xff"),
        ("nothing", None),
    ]
    found = document(BODY.encode(), headers)
    assert (found.interface, found.sender, found.user) == ("A", "MX", "wilson")
    assert (found.message_id, found.destination, found.wrapped) == ("7", "plant", False)
    assert found.payload == BODY.encode()


def test_the_founding_names_serve_as_headers_and_ours_win():
    founding = [("INTERFACE", b"A"), ("Sender", b"S"), ("user", b"U"), ("MEAMESSAGEID", b"9")]
    found = document(SHEET.encode(), founding)
    assert (found.interface, found.sender, found.user, found.message_id) == ("A", "S", "U", "9")
    ours = [("sluice-interface", b"B")]
    for headers in (founding + ours, ours + founding):
        assert document(SHEET.encode(), headers).interface == "B"


def test_the_envelope_wins_over_headers_and_headers_fill_its_gaps():
    headers = [("sluice-interface", b"H"), ("sluice-user", b"header-user")]
    found = document(an_envelope(USER="", SENDER=None), headers)
    assert (found.interface, found.user, found.sender) == (
        "MXASSETInterface",
        "header-user",
        None,
    )


@pytest.mark.parametrize(
    ("value", "text"), [(b"J\xf6rg", "Jörg"), ("Jörg".encode(), "Jörg"), (b"\xff\xfe", "ÿþ")]
)
def test_header_bytes_outside_ascii_are_read_as_utf8_else_latin1(value, text):
    assert document(b"{}", [("sluice-user", value)]).user == text


def test_of_a_repeated_header_the_last_counts():
    headers = [("sluice-interface", b"A"), ("sluice-interface", b"B"), ("sluice-interface", None)]
    assert document(b"{}", headers).interface == "B"


def test_an_id_sent_as_a_number_is_a_text():
    assert document(an_envelope(MEAMessageID=12)).message_id == "12"


@pytest.mark.parametrize(
    "text", ['{"payload": "x"}', '{"INTERFACE": "A"}', '{"a": {"payload": 1, "INTERFACE": "A"}}']
)
def test_an_object_that_only_resembles_an_envelope_is_a_bare_body(text):
    found = document(text.encode())
    assert not found.wrapped
    assert found.interface is None
    assert found.body == json.loads(text)


def test_either_of_two_names_beside_payload_makes_an_envelope():
    assert document(b'{"interfacetype": "MAXIMO", "payload": {}}').wrapped
    assert document(b'{"INTERFACE": "A", "payload": {}}').interface == "A"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 9007199254740993),
        ("-0", 0),
        ("1.10", Decimal("1.10")),
        ("1e400", Decimal("1e400")),
        ("0.1000000000000000055511151231257827", Decimal("0.1000000000000000055511151231257827")),
        ('"\\ud83d\\ude00 \\\\ud83d"', "😀 \\ud83d"),
        ("[true, false, null]", [True, False, None]),
        ("\ufeff \r\n\t[1]\n ", [1]),
    ],
)
def test_json_values_are_exact(text, value):
    body = document(text.encode()).body
    assert body == value
    assert type(body) is type(value)
    assert str(body) == str(value)


def test_a_comment_does_not_cut_an_elements_text_in_two():
    body = document(b"\xef\xbb\xbf<A>AZ<!-- x -->163<?y z?>4</A>").body
    assert isinstance(body, etree._Element)
    assert body.text == "AZ1634"


def test_the_word_doctype_in_a_comment_is_not_a_doctype():
    assert document(b"<!-- <!DOCTYPE a> --><a><![CDATA[<!DOCTYPE b>]]></a>").mimetype == XML


def test_the_repr_of_a_document_shows_no_payload():
    assert "AZ163" not in repr(document(an_envelope()))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("main~assets.in~0~42", FoundingId("main", "assets.in", 0, 42)),
        (
            "my~cluster~assets~3~9223372036854775807",
            FoundingId("my~cluster", "assets", 3, 2**63 - 1),
        ),
        ("main~assets~0~9223372036854775808", None),
        ("main~assets~2147483648~0", None),
        ("main~assets~-1~0", None),
        ("main~assets~0~", None),
        ("main~assets~0~²", None),
        ("main~~0~1", None),
        ("4711", None),
        ("", None),
    ],
)
def test_the_founding_message_id_is_understood(text, parts):
    assert parse_founding_id(text) == parts


def test_a_field_is_read_up_to_its_longest():
    longest = "U" * MAX_FIELD_LENGTH
    assert document(an_envelope(USER=longest)).user == longest
    assert document(b"{}", [("sluice-user", longest.encode())]).user == longest
    for found in (
        read(an_envelope(USER=f"{longest}U")),
        read(b"{}", [("sluice-user", b"U" * 501)]),
    ):
        assert isinstance(found, Flaw)
        assert found.code is FlawCode.BAD_FIELD
