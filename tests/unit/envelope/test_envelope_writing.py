"""What write() puts on the wire: the founding names, no others, readable by any client."""

import base64
import json
import zlib

import pytest

from integration.envelope import Alike, Document, Outgoing, UnwritableMessage, read, write

pytestmark = pytest.mark.fast


def a_message(payload: str | bytes = '{"a": 1.10}', **changes: str) -> Outgoing:
    fields = {
        "interface": "MXPRInterface",
        "sender": "MX",
        "destination": "plant",
        "topic": "orders.out",
        "message_id": "id-1",
    }
    return Outgoing(payload=payload, **{**fields, **changes})


def test_a_small_message_is_written_as_plain_text():
    assert json.loads(write(a_message())) == {
        "interfacetype": "MAXIMO",
        "INTERFACE": "MXPRInterface",
        "payload": '{"a": 1.10}',
        "SENDER": "MX",
        "destination": "plant",
        "destjndiname": "orders.out",
        "MEAMessageID": "id-1",
        "mimetype": "application/json",
    }


def test_a_compressed_message_has_exactly_the_founding_names():
    envelope = json.loads(write(a_message("<A>é</A>", user="wilson"), compress=True))
    assert set(envelope) == {
        *("interfacetype", "INTERFACE", "payload", "SENDER", "destination", "destjndiname"),
        *("compressed", "MEAMessageID", "mimetype", "USER"),
    }
    assert (envelope["compressed"], envelope["mimetype"]) == ("1", "application/xml")
    assert zlib.decompress(base64.b64decode(envelope["payload"])) == "<A>é</A>".encode()


def test_size_decides_when_nobody_else_does():
    assert b'"compressed"' not in write(a_message('"' + "x" * 1021 + '"'))
    assert b'"compressed":"1"' in write(a_message('"' + "x" * 1022 + '"'))
    assert b'"compressed":"1"' in write(a_message(b'"' + b"x" * 1022 + b'"'))
    assert b'"compressed"' not in write(a_message('"' + "x" * 5000 + '"'), compress=False)


@pytest.mark.parametrize("compress", [None, True, False])
@pytest.mark.parametrize(
    "payload",
    [
        '<?xml version="1.0" encoding="ISO-8859-1"?><A>é</A>',
        "<?xml version='1.0' encoding='utf-16' standalone='yes'?><A>é</A>",
        '<?xml version="1.0" encoding="ISO-8859-1"?><A>é</A>'.encode("latin-1"),
        '<?xml version="1.0"?><A>é</A>'.encode(),
    ],
)
def test_xml_survives_its_own_declaration(payload, compress):
    found = read(write(a_message(payload), compress=compress))
    assert isinstance(found, Document)
    assert found.body.text == "é"


def test_half_a_character_cannot_be_written():
    for compress in (True, False):
        with pytest.raises(UnwritableMessage, match="id-1") as caught:
            write(a_message('"\ud83d"'), compress=compress)
        assert caught.value.code == "UNWRITABLE_MESSAGE"


def test_half_a_character_in_one_of_many_cannot_be_written():
    alike = Alike(a_message())
    with pytest.raises(UnwritableMessage, match="id-2"):
        alike.write("id-2", '{"a": "\ud83d"}')
    assert alike.write("id-1", '{"a": 1.10}') == write(a_message())
