"""Files: confined to their folder, whole or not at all, never in another one's place."""

import errno
import json
import os
import resource
import signal
import stat
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.endpoint_types.file.endpoint import FileEndpoint, _unreachable
from integration.endpoint_types.file.folders import TakenError, folder, write_new
from integration.endpoint_types.file.formats import Format
from integration.endpoint_types.file.properties import FileProperties
from integration.endpoint_types.opening import opened
from integration.endpoints.port import Accepted, Refused, Unknown, Unreachable
from integration.endpoints.properties import EndpointSettingsError, read
from tests.contract.endpoint_worlds import an_endpoint, an_outbound_message
from tests.support.growth import grows

pytestmark = pytest.mark.fast


def an_opened(base: Path, **properties) -> FileEndpoint:
    found = read("file", {"file_name": "{message_id}.txt", **properties}, {})
    assert isinstance(found, FileProperties)
    return FileEndpoint(found, base)


def names(root: Path) -> list[str]:
    return sorted(str(one.relative_to(root)) for one in root.rglob("*") if one.is_file())


@pytest.mark.parametrize(
    "key", ["../escaped", "/etc/passwd", "a/b", "..", ".hidden", "a\nb", "a\\b"]
)
def test_no_message_leads_a_file_out_of_the_folder(tmp_path, key):
    endpoint = an_opened(tmp_path / "base", file_name="{key}")
    (tmp_path / "base").mkdir()
    (answer,) = endpoint.deliver([an_outbound_message("m1", key=key)])
    assert (type(answer), answer.code) == (Refused, "FILE_NAME")
    assert names(tmp_path) == []


@pytest.mark.parametrize("below", ["../out", "/etc", "a/../../out", "a//b", "./a"])
def test_no_endpoint_is_kept_outside_the_base_folder(below):
    with pytest.raises(ValueError, match=r"^folder "):
        read("file", {"file_name": "a", "folder": below}, {})


def test_a_link_below_the_base_folder_is_not_followed(tmp_path):
    base, outside = tmp_path / "base", tmp_path / "outside"
    base.mkdir()
    outside.mkdir()
    (base / "in").symlink_to(outside)
    endpoint = an_opened(base, folder="in")
    for answer in (endpoint.deliver([an_outbound_message("m1")])[0], endpoint.connect()):
        assert (type(answer), answer.code) == (Unreachable, "FOLDER_UNUSABLE")
    assert names(outside) == []


def test_a_link_in_the_place_of_the_file_is_no_repeat(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(an_outbound_message("m1").body)
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "m1.txt").symlink_to(secret)
    (answer,) = an_opened(tmp_path / "base").deliver([an_outbound_message("m1")])
    assert (type(answer), answer.code) == (Refused, "FILE_EXISTS")


def test_another_content_is_never_overwritten(tmp_path):
    endpoint = an_opened(tmp_path, file_name="{key}.txt")
    assert isinstance(endpoint.deliver([an_outbound_message("m1")])[0], Accepted)
    assert isinstance(endpoint.deliver([an_outbound_message("m1")])[0], Accepted)
    (answer,) = endpoint.deliver([an_outbound_message("m2")])
    assert (type(answer), answer.code) == (Refused, "FILE_EXISTS")
    assert (tmp_path / "k1.txt").read_bytes() == an_outbound_message("m1").body
    assert names(tmp_path) == ["k1.txt"]


def test_two_writers_of_one_name_do_not_overwrite_each_other(tmp_path):
    with folder(tmp_path, "") as handle:
        write_new(handle, "one", b"first")
        with pytest.raises(TakenError) as taken:
            write_new(handle, "one", b"second")
    assert taken.value.content == b"first"
    assert names(tmp_path) == ["one"]


@contextmanager
def no_room() -> Iterator[None]:
    """As on a full disk: the system lets no file of this process grow beyond some bytes.

    For one call only: the limit holds for the log of the tests, too.
    """
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_folder_without_room_is_an_outage_and_leaves_nothing_behind(tmp_path):
    endpoint = an_opened(tmp_path)
    with no_room():
        (answer,) = endpoint.deliver([an_outbound_message("m1")])
    assert (type(answer), answer.code) == (Unreachable, "FOLDER_FULL")
    assert names(tmp_path) == []


def fails_for_folders(number: int) -> Callable[[int], None]:
    """As of a disk that writes a file and breaks before its name is safe."""
    flush = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        flush(handle)

    return fsync


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_file_in_its_place_that_the_disk_did_not_confirm_may_have_arrived(
    tmp_path, monkeypatch, number, at_once
):
    endpoint = an_opened(tmp_path, file_name="one", at_once=at_once)
    messages = [an_outbound_message(f"m{n}") for n in range(at_once)]
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fails_for_folders(number))
        for _ in range(2):
            answers = endpoint.deliver(messages)
            assert {(type(one), one.code) for one in answers} == {(Unknown, "FILE_UNCONFIRMED")}
    assert {type(one) for one in endpoint.deliver(messages)} == {Accepted}
    assert names(tmp_path) == ["one"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_that_has_no_sync_of_folders_is_not_asked(tmp_path, monkeypatch, number):
    endpoint, message = an_opened(tmp_path, folder="in/new"), an_outbound_message("m1")
    monkeypatch.setattr(os, "fsync", fails_for_folders(number))
    for answer in (endpoint.connect(), *(endpoint.deliver([message])[0] for _ in range(2))):
        assert isinstance(answer, Accepted), answer


def test_the_connection_test_tells_of_a_disk_that_confirms_no_names(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", fails_for_folders(errno.EIO))
    answer = an_opened(tmp_path).connect()
    assert (type(answer), answer.code) == (Unreachable, "FOLDER_UNUSABLE")
    assert names(tmp_path) == []


@pytest.mark.parametrize("silent", [("link",), ("link", "unlink")])
@pytest.mark.parametrize(
    ("number", "verdict"),
    [(errno.EIO, Unknown), (errno.ESTALE, Unknown), (errno.ENOSPC, Unreachable)],
)
def test_a_file_server_that_does_not_say_whether_the_file_is_there_leaves_it_open(
    tmp_path, monkeypatch, silent, number, verdict
):
    endpoint = an_opened(tmp_path)

    def unheard(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    for call in silent:
        monkeypatch.setattr(os, call, unheard)
    assert type(endpoint.deliver([an_outbound_message("m1")])[0]) is verdict


def test_a_folder_where_nobody_may_write_is_an_outage():
    # No user, not even root, makes a file there.
    endpoint = an_opened(Path("/proc/self"), file_name="{message_id}")
    for answer in (endpoint.deliver([an_outbound_message("m1")])[0], endpoint.connect()):
        assert isinstance(answer, Unreachable)
        assert answer.code in {"FOLDER_READ_ONLY", "FOLDER_UNUSABLE"}


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "FOLDER_FULL"),
        (errno.EDQUOT, "FOLDER_FULL"),
        (errno.EROFS, "FOLDER_READ_ONLY"),
        (errno.EACCES, "FOLDER_READ_ONLY"),
        (errno.EIO, "FOLDER_UNUSABLE"),
    ],
)
def test_what_the_system_says_has_a_code(number, code):
    assert _unreachable(OSError(number, "as it says")).code == code


def test_columns_are_written_with_their_separator(tmp_path):
    columns = {"number": "{$.order.number}", "text": "{$.order.text}", "none": "{$.order.none}"}
    body = json.dumps({"order": {"number": 7, "text": 'a;"b"'}}).encode()
    endpoint = an_opened(tmp_path, file_name="o.csv", format="flat", columns=columns, at_once=2)
    assert endpoint.deliver([an_outbound_message("m1", body=body)] * 2)[1].text
    lines = (tmp_path / "o.csv").read_text().splitlines()
    assert lines == ["number;text;none", '7;"a;""b""";', '7;"a;""b""";']


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_byte_order_mark_is_in_no_file_of_json(tmp_path, at_once):
    """Before an element of an array it would make the file unreadable."""
    endpoint = an_opened(tmp_path, format="json", at_once=at_once)
    messages = [
        an_outbound_message(f"m{at}", body=body)
        for at, body in enumerate(
            [b"\xef\xbb\xbf {}", b'{"a": "\xef\xbb\xbf"}', b"\xef\xbb\xbf[1]\n"]
        )
    ][:at_once]
    assert {type(answer) for answer in endpoint.deliver(messages)} == {Accepted}
    expected = [{}, {"a": "\ufeff"}, [1]]
    written = json.loads((tmp_path / "m0.txt").read_text())
    assert written == (expected if at_once > 1 else {})
    assert {type(answer) for answer in endpoint.deliver(messages)} == {Accepted}


def test_xml_documents_are_put_below_one_root(tmp_path):
    endpoint = an_opened(tmp_path, file_name="o.xml", format="xml", at_once=5, root="orders")
    bodies = [b"<?xml version='1.0'?><order>1</order>", "<order>ü</order>".encode()]
    messages = [an_outbound_message(f"m{n}", body=one) for n, one in enumerate(bodies)]
    assert all(isinstance(one, Accepted) for one in endpoint.deliver(messages))
    text = (tmp_path / "o.xml").read_text()
    assert text.splitlines()[1:] == [
        "<orders>",
        "<order>1</order>",
        "<order>ü</order>",
        "</orders>",
    ]
    (answer,) = endpoint.deliver([an_outbound_message("m3", body=b'{"a": 1}')])
    assert (type(answer), answer.code) == (Refused, "FILE_FORMAT")


def test_what_a_file_has_already_is_not_written_again_with_others(tmp_path):
    endpoint = an_opened(tmp_path, file_name="{message_id}.json", format="json", at_once=3)
    messages = [an_outbound_message(f"m{n}") for n in range(4)]
    endpoint.deliver(messages[:2])
    # After a crash the same messages come again, in another company.
    assert all(isinstance(one, Accepted) for one in endpoint.deliver(messages[0:3]))
    assert names(tmp_path) == ["m0.json", "m2.json"]
    rows = [
        row["order"]["number"]
        for n in (0, 2)
        for row in json.loads((tmp_path / f"m{n}.json").read_bytes())
    ]
    assert rows == ["m0", "m1", "m2"]


JSON_LINES = b'{\n  "a": [\n    1\n  ]\n}'
AWKWARD = {
    "raw": [b"x   ", b"x\r\n", b"1,2,,", b"\ttab", b",", b"a\nb", b""],
    "json": [JSON_LINES, b'{"a": 1}\r\n', b"  [1,\n2]  ", b'","'],
    "xml": [b"<a>\n<b>1</b>,\n</a>", b"<a>  </a>\r\n", b"<a>\r\n</a>"],
    "flat": [json.dumps({"a": text}).encode() for text in ("a\nb", "a\rb", 'q"\n"', "x  ", "")],
}


@pytest.mark.parametrize("form", AWKWARD)
@pytest.mark.parametrize("company", ["the same", "with another", "alone"])
def test_a_repeat_finds_its_record_whatever_it_consists_of(tmp_path, form, company):
    bodies = AWKWARD[form]
    shape = {"columns": {"a": "{$.a}"}} if form == "flat" else {}
    endpoint = an_opened(tmp_path, file_name="one", format=form, at_once=20, **shape)
    messages = [an_outbound_message(f"m{n}", body=one) for n, one in enumerate(bodies)]
    endpoint.deliver(messages)
    before = (tmp_path / "one").read_bytes()
    calls = [messages]
    if company == "with another":
        calls = [[one, messages[0]] for one in messages[1:]]
    elif company == "alone":
        calls = [[one] for one in messages]
    for call in calls:
        assert [type(one) for one in endpoint.deliver(call)] == [Accepted] * len(call)
    assert names(tmp_path) == ["one"]
    assert (tmp_path / "one").read_bytes() == before


@pytest.mark.parametrize(
    ("form", "there", "body"),
    [
        ("raw", b"xyz", b"xy"),
        ("raw", b"x", b"x "),
        ("raw", b"a,", b"a"),
        ("json", b'{"a":\n1\n}', b"1"),
        ("json", b'[{"a": 1}]', b'{"a": 1}'),
        ("flat", b'{"a": "x\\ny\\nz"}', b'{"a": "y"}'),
    ],
)
def test_what_only_looks_alike_is_no_repeat(tmp_path, form, there, body):
    shape = {"columns": {"a": "{$.a}"}} if form == "flat" else {}
    endpoint = an_opened(tmp_path, file_name="one", format=form, at_once=2, **shape)
    endpoint.deliver([an_outbound_message("m1", body=there)])
    (answer,) = endpoint.deliver([an_outbound_message("m2", body=body)])
    assert (type(answer), answer.code) == (Refused, "FILE_EXISTS")


def test_two_equal_messages_are_two_records(tmp_path):
    endpoint = an_opened(tmp_path, file_name="{message_id}", at_once=3)
    messages = [an_outbound_message(f"m{n}", body=b"x") for n in range(2)]
    endpoint.deliver(messages[:1])
    assert all(isinstance(one, Accepted) for one in endpoint.deliver(messages))
    assert names(tmp_path) == ["m0", "m1"]


def pretty(n: int) -> list[bytes]:
    """Records of many lines: n lines in all."""
    body = b"{\n" + b'  "a": 1,\n' * 998 + b'  "b": 2\n}'
    return [body + b" " * at for at in range(n // 1_000)]


@pytest.mark.parametrize("form", ["raw", "flat"])
def test_a_repeat_costs_time_and_memory_as_the_file_is_long(form):
    columns = {"columns": {"a": "{$.a}"}} if form == "flat" else {}
    found = read("file", {"file_name": "a", "format": form, "at_once": 100, **columns}, {})
    assert isinstance(found, FileProperties)
    written = Format(found)

    def look(n: int) -> float:
        quoted = form == "flat"
        records = [b'"%b"\n' % one.replace(b'"', b'""') if quoted else one for one in pretty(n)]
        content = written.whole(records)
        wanted = dict(enumerate([*records[-5:], *(one + b"y" for one in records[:5])]))
        tracemalloc.start()
        try:
            assert written.held(content, wanted) == set(range(5))
            return tracemalloc.get_traced_memory()[1] / len(content)
        finally:
            tracemalloc.stop()

    # Copies of the file, not of each of its windows.
    assert look(20_000) < 4
    assert look(40_000) < 4
    assert not grows(look, 10_000)


@pytest.mark.parametrize("form", ["raw", "json"])
def test_records_that_a_file_does_not_have_are_looked_for_together(form):
    found = read("file", {"file_name": "a", "format": form, "at_once": 100}, {})
    assert isinstance(found, FileProperties)
    written = Format(found)
    records = [b'{"order":\n  "%010d"}' % n for n in range(100_000)]
    content = written.whole(records)

    def seconds(count: int) -> float:
        wanted = {n: b'{"order":\n  "%010d"}' % (200_000 + n) for n in range(count)}
        wanted[-1] = records[99_999]
        began = time.thread_time()
        assert written.held(content, wanted) == {-1}
        return time.thread_time() - began

    few, many = (min(seconds(count) for _ in range(3)) for count in (20, 200))
    assert many < 4 * few


@given(data=st.data())
def test_a_file_has_each_record_as_often_as_it_was_written(data):
    """However many are looked for, of which pieces: `a` and a line end make most neighbours."""
    found = read("file", {"file_name": "a", "at_once": 100}, {})
    assert isinstance(found, FileProperties)
    written, text = Format(found), st.text("ab\n", max_size=200).map(str.encode)
    records = data.draw(st.lists(text, min_size=1, max_size=5))
    others = data.draw(st.lists(text, max_size=20))
    content = written.whole(records)
    wanted = dict(enumerate(records + others))
    alone = {at for at, one in wanted.items() if b"\n" + one + b"\n" in b"\n" + content}
    held = written.held(content, wanted)
    assert held <= alone
    assert {wanted[at] for at in held} == {wanted[at] for at in alone}


def test_a_missing_field_refuses_its_message(tmp_path):
    endpoint = an_opened(tmp_path, file_name="{$.order.colour}.json")
    (answer,) = endpoint.deliver([an_outbound_message("m1")])
    assert (type(answer), answer.code) == (Refused, "TEMPLATE_FIELD_MISSING")
    assert "{$.order.colour}" in answer.text


def test_without_a_base_folder_no_endpoint_writes_files(settings, tmp_path):
    settings.SLUICE_FILES_ROOT = None
    with pytest.raises(EndpointSettingsError, match="SLUICE_FILES_ROOT"):
        opened(an_endpoint("file", {"file_name": "a"}))
    settings.SLUICE_FILES_ROOT = tmp_path
    assert isinstance(opened(an_endpoint("file", {"file_name": "a"})).connect(), Accepted)
    assert names(tmp_path) == []
