"""Each kind of bad input ends as a flaw with its own code, and never as an exception."""

import base64
import gzip
import json
import re
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest

from integration.envelope import Flaw, FlawCode, Limits, read
from integration.envelope.flaw import HINTS
from integration.envelope.json_text import is_deeper

pytestmark = pytest.mark.fast

DOC = Path(__file__).parents[3] / "docs" / "envelope.md"

# The founding text's samples of its own messages, letter by letter.
FOUNDING_INBOUND = """\
{
     “interfacetype”: "MAXIMO",
     “SENDER”: "testkafka",
     “destination”: "testkafka",
     “USER”: "wilson",
     “MEAMessageID”: "….",
     “INTERFACE”: "MXASSETInterface",
     “payload”: "{"assetnum":"AZ163","siteid":"BEDFORD"}",
     “mimetype”: "application/json",
    “destjndiname”: "anamitratestcont"
} """
FOUNDING_OUTBOUND = """\
{
      “interfacetype”:”MAXIMO”,
      “INTERFACE”:”MXPRInterface”,
      “payload”:”<base64 encoded compressed xml/json message>”,
      “SENDER”:”MX”,
      “destination”:”<external system name>”,
      “destjndiname”:”<kafka topic name>”,
      “compressed”:”1”,
      “MEAMessageID”:”<providername>~<topic>~<partition>~<offset>”,
      “mimetype”:”application/xml”
}"""


def enveloped(payload: object, **fields: object) -> bytes:
    return json.dumps({"INTERFACE": "A", "payload": payload, **fields}).encode()


def packed(data: bytes) -> bytes:
    return enveloped(base64.b64encode(data).decode(), compressed="1")


def flaw_of(value: bytes, **options: object) -> Flaw:
    found = read(value, **options)
    assert isinstance(found, Flaw), found
    assert found.message
    assert found.hint == HINTS[found.code]
    return found


def test_the_founding_samples_are_held_for_their_curly_quotes():
    for sample in (FOUNDING_INBOUND, FOUNDING_OUTBOUND):
        found = flaw_of(sample.encode())
        assert found.code == "CURLY_QUOTES"
        assert "line 2, column" in found.message


def test_the_founding_sample_with_straight_quotes_is_held_for_its_unescaped_payload():
    straight = re.sub("[“”]", '"', FOUNDING_INBOUND)
    found = flaw_of(straight.encode())
    assert (found.code, "line 8" in found.message) == (FlawCode.UNESCAPED_QUOTES, True)


BOMB = b"[" + b" " * (30 * 2**20) + b"]"
ENTITY_BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha">'
    + b"".join(b'<!ENTITY %c "&%c;&%c;">' % (n + 1, n, n) for n in range(97, 117))
    + b"]><lolz>&u;</lolz>"
)
XML_OUTSIDE = b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>'


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "EMPTY_BODY"),
        (b" \r\n\t", "EMPTY_BODY"),
        (b"\xef\xbb\xbf", "EMPTY_BODY"),
        (b"null", "EMPTY_BODY"),
        (enveloped(None), "EMPTY_BODY"),
        (enveloped(""), "EMPTY_BODY"),
        (enveloped(" null "), "EMPTY_BODY"),
        (b'{"a": "\xff"}', "NOT_UTF8"),
        (b'{"a": "\xc3', "NOT_UTF8"),
        (b'{"a": "\xed\xa0\x80"}', "NOT_UTF8"),
        (gzip.compress(b"{}", mtime=0), "NOT_UTF8"),
        ('{"a": 1}'.encode("utf-16"), "UTF16"),
        ('{"a": 1}'.encode("utf-16-le"), "UTF16"),
        ('{"a": 1}'.encode("utf-16-be"), "UTF16"),
        ('{"a": "é"}'.encode("utf-16-be"), "UTF16"),
        ('{"a": 1}'.encode("utf-32"), "UTF16"),
        ("<a/>".encode("utf-16"), "UTF16"),
        ("<a/>".encode("utf-16-le"), "UTF16"),
        ("<a/>".encode("utf-16-be"), "UTF16"),
        (b'{"a": 1,}', "BAD_JSON"),
        (b"{'a': 1}", "BAD_JSON"),
        (b'{"a": 1} x', "BAD_JSON"),
        (b'{"a": "\n"}', "BAD_JSON"),
        (b'{"a": "\\x"}', "BAD_JSON"),
        (b'{"a": 01}', "BAD_JSON"),
        (b'{"a": +1}', "BAD_JSON"),
        (b"hello", "BAD_JSON"),
        (enveloped("hello"), "BAD_JSON"),
        (b'{"a": "b', "TRUNCATED_JSON"),
        (b'{"a": {"b": 1}', "TRUNCATED_JSON"),
        (b"[tru", "TRUNCATED_JSON"),
        (b'["\\u12', "TRUNCATED_JSON"),
        (enveloped('{"a":'), "TRUNCATED_JSON"),
        ('{"a": ”b”}'.encode(), "CURLY_QUOTES"),
        ('["a”, 1]'.encode(), "TRUNCATED_JSON"),
        (b'{"p": "["a"]"}', "UNESCAPED_QUOTES"),
        (b'{"a": 1, "b": 2, "a": 1}', "DUPLICATE_KEY"),
        (b'[{"a": {"x": 1, "\\u0078": 2}}]', "DUPLICATE_KEY"),
        (enveloped('{"a":1,"a":1}'), "DUPLICATE_KEY"),
        (b"[NaN]", "NOT_A_NUMBER"),
        (b"-Infinity", "NOT_A_NUMBER"),
        (b"1" * 5000, "NUMBER_TOO_LONG"),
        (b"[0." + b"1" * 5000 + b"]", "NUMBER_TOO_LONG"),
        (b"1e5000", "NUMBER_TOO_LONG"),
        (b"1E-5000", "NUMBER_TOO_LONG"),
        (b"1e99999999999999999999", "NUMBER_TOO_LONG"),
        (b'"\\ud800"', "LONE_SURROGATE"),
        (b'"\\ud800 \\udc00"', "LONE_SURROGATE"),
        (b'"\\udc00"', "LONE_SURROGATE"),
        (b'["\\\\\\uD83D\\ud83d\\ude00"]', "LONE_SURROGATE"),
        (b'{"\\udfff": 1}', "LONE_SURROGATE"),
        (b'"a\\u0000"', "NUL_CHARACTER"),
        (b"\0\0\0\0", "NUL_CHARACTER"),
        (packed(zlib.compress(b"\0\0")), "NUL_CHARACTER"),
        (b"[" * 10_000 + b"]" * 10_000, "TOO_DEEP"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "TOO_DEEP"),
        (b"[" * 10_000, "TOO_DEEP"),
        (enveloped("[" * 10_000 + "]" * 10_000), "TOO_DEEP"),
        (packed(zlib.compress(b"[" * 10_000 + b"]" * 10_000)), "TOO_DEEP"),
        (b"<a>" * 10_000 + b"</a>" * 10_000, "TOO_DEEP"),
        (b"<a>" * 10_000, "TOO_DEEP"),
        (b"<a>" * 201 + b"</a>" * 201, "TOO_DEEP"),
        (b'{"a": "' + b"x" * 20_000_000 + b'"}', "TOO_LARGE"),
        (packed(zlib.compress(b'"' + bytes(range(48, 90)) * 300_000 + b'"', 0)), "TOO_LARGE"),
        (packed(gzip.compress(BOMB)), "ZIP_BOMB"),
        (packed(zlib.compress(BOMB)), "ZIP_BOMB"),
        (packed(gzip.compress(gzip.compress(BOMB))), "NOT_UTF8"),
        (packed(gzip.compress(b" " * 2**20) * 30), "ZIP_BOMB"),
        (packed(gzip.compress(b" ", mtime=0) * 1_001), "ZIP_BOMB"),
        (enveloped("&&&&", compressed="1"), "BAD_BASE64"),
        (enveloped("eJyrV", compressed="1"), "BAD_BASE64"),
        (enveloped("eJyr\u00e9", compressed="1"), "BAD_BASE64"),
        (enveloped('{"a": 1}', compressed="1"), "BAD_BASE64"),
        (enveloped(base64.b64encode(zlib.compress(b"{}")).decode()), "UNMARKED_BASE64"),
        (packed(b'{"a": 1}'), "BAD_COMPRESSION"),
        (packed(zlib.compress(b"{}") + b"more"), "BAD_COMPRESSION"),
        (packed(zlib.compress(b"{}")[:-1] + b"\0"), "BAD_COMPRESSION"),
        (packed(zlib.compress(b"{}")[:-3]), "TRUNCATED_COMPRESSION"),
        (packed(gzip.compress(b"{}" * 999)[:-9]), "TRUNCATED_COMPRESSION"),
        (packed(b""), "TRUNCATED_COMPRESSION"),
        (b"<a><b></a>", "BAD_XML"),
        (b"<a/><b/>", "BAD_XML"),
        (b"<a>\xff</a>", "BAD_XML"),
        (b"<a>\x00</a>", "BAD_XML"),
        (b"<!-- a -- b --><a/>", "BAD_XML"),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', "BAD_XML"),
        (b"<a>\n<b>text", "TRUNCATED_XML"),
        (b"<a>\n<b", "TRUNCATED_XML"),
        (enveloped("<a><b/>"), "TRUNCATED_XML"),
        (b"<!DOCTYPE a><a/>", "XML_DOCTYPE"),
        (
            b'<?xml version="1.0"?>\n<!-- x --><!DOCTYPE a SYSTEM "x.dtd"><a/>',
            "XML_DOCTYPE",
        ),
        (b'<?xml version="1.0" encoding="UTF-7"?>+ADw-+ACE-DOCTYPE a><a/>', "XML_DOCTYPE"),
        (ENTITY_BOMB, "XML_ENTITIES"),
        (XML_OUTSIDE, "XML_ENTITIES"),
        (enveloped(ENTITY_BOMB.decode()), "XML_ENTITIES"),
        (b"<a>&nbsp;</a>", "XML_ENTITIES"),
        (enveloped("{}", compressed="gzip"), "BAD_FIELD"),
        (enveloped("{}", compressed=[1]), "BAD_FIELD"),
        (enveloped("{}", USER={}), "BAD_FIELD"),
        (enveloped("{}", SENDER=True), "BAD_FIELD"),
        (enveloped("{}", MEAMessageID="x" * 501), "BAD_FIELD"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else value,
)
def test_bad_input_gets_its_own_code(value, code):
    assert flaw_of(value).code == code


def test_headers_that_no_column_can_hold_are_a_flaw():
    assert flaw_of(b"{}", headers=[("sluice-user", b"a\0b")]).code == FlawCode.BAD_FIELD
    assert flaw_of(b"{}", headers=[("user", b"x" * 501)]).code == FlawCode.BAD_FIELD


def test_a_flaw_of_the_payload_says_that_it_lies_in_the_payload():
    assert flaw_of(enveloped('{"a"\n: x}')).message == (
        "In the payload: Expecting value at line 2, column 3; found 'x'."
    )


def test_messages_quote_no_values():
    secret = "4556737586899855"
    for text in (
        f'{{"card": "{secret}" "x": 1}}',
        f'{{"card": {secret} {secret}}}',
        f"<a><!-- {secret} -- --></a>",
        f"<a><![CDATA[{secret}",
        f"<a>{secret}</b>",
    ):
        assert secret not in flaw_of(text.encode()).message


def test_every_start_of_a_json_text_is_called_truncated():
    text = '{"a": [1, {"b": "c\\u00e9\\n"}, true, null, -12], "d": {}}'
    for length in range(1, len(text)):
        assert flaw_of(text[:length].encode()).code == FlawCode.TRUNCATED_JSON, text[:length]


@pytest.mark.parametrize(
    ("opening", "closing", "levels"),
    [("[", "]", 1), ('{"a":', "}", 1), ('[{"]}": ', " } ]", 2), ('["[", 1, {"\\"": ', "}]", 2)],
)
def test_the_depth_limit_is_exact(opening, closing, levels):
    in_strings = '"[[{{\\"[[\\\\"'
    fitting = opening * (200 // levels) + in_strings + closing * (200 // levels)
    assert not isinstance(read(fitting.encode()), Flaw)
    assert flaw_of(f"[{fitting}]".encode()).code == FlawCode.TOO_DEEP


def test_many_shallow_brackets_are_not_deep():
    assert not isinstance(read(b"[" + b"[{}]," * 5000 + b"0]"), Flaw)
    assert not isinstance(read(b"<r>" + b"<a><b/></a>" * 5000 + b"</r>"), Flaw)


def test_the_costliest_shape_for_the_depth_scan_is_still_linear():
    worst = "[" + ("[" * 200 + "]" * 200 + ",") * 2_000 + "0]"
    assert is_deeper(worst, 200)
    assert not is_deeper(worst, 201)


def test_reading_at_the_end_of_the_stack_is_a_flaw_not_an_exception():
    value = b"[" * 200 + b"]" * 200

    def at_depth(frames: int) -> object:
        return read(value) if frames == 0 else at_depth(frames - 1)

    used = 0
    frame = sys._getframe()
    while frame is not None:
        used, frame = used + 1, frame.f_back
    assert isinstance(at_depth(sys.getrecursionlimit() - used - 60), Flaw)


def test_a_bomb_is_stopped_while_it_grows():
    stream = zlib.compressobj(1)
    bomb = b"".join(stream.compress(bytes(2**22)) for _ in range(32)) + stream.flush()
    record = packed(bomb)
    tracemalloc.start()
    try:
        assert flaw_of(record).code == FlawCode.ZIP_BOMB
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 50 * 2**20  # 128 MiB would come out


def test_a_payload_may_have_a_thousand_members():
    member = gzip.compress(b" ", mtime=0)
    assert not isinstance(read(packed(member * 999 + gzip.compress(b"{}", mtime=0))), Flaw)


def test_a_large_text_is_told_from_base64_in_little_memory():
    record = enveloped("QUJD" * 2**18)
    tracemalloc.start()
    try:
        assert flaw_of(record).code == FlawCode.UNMARKED_BASE64
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 16 * 2**20  # the text is 1 MiB; a step kept for each letter takes 100


def test_a_short_document_may_compress_well():
    plain = json.dumps(["x" * 900_000]).encode()
    squeezed = zlib.compress(plain, 9)
    assert len(plain) > 200 * len(squeezed)
    assert not isinstance(read(packed(squeezed)), Flaw)


def test_limits_can_be_set():
    narrow = Limits(max_bytes=20, max_depth=2)
    assert flaw_of(b" " * 21, limits=narrow).code == FlawCode.TOO_LARGE
    assert flaw_of(b"[[[]]]", limits=narrow).code == FlawCode.TOO_DEEP
    assert flaw_of(b"<a><b><c/></b></a>", limits=Limits(max_depth=2)).code == FlawCode.TOO_DEEP
    for wrong in ({"max_depth": 0}, {"max_depth": 257}, {"max_bytes": 0}):
        with pytest.raises(ValueError, match="must"):
            Limits(**wrong)


def test_the_documentation_explains_exactly_the_codes_there_are():
    explained = re.findall(r"^\| `([A-Z0-9_]+)` \| .+ \| .+ \|$", DOC.read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(FlawCode)
    assert set(HINTS) == set(FlawCode)
