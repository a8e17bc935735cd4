"""Where a request ends is found at the same place however it is cut into pieces."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from gunicorn.config import Config
from gunicorn.http import RequestParser
from hypothesis import given
from hypothesis import strategies as st

from console.server import limits
from console.server.arriving import Arriving, Ending, Head
from tests.support.growth import TEXT_UNITS, slow_parser

GET = b"GET /queues/ HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /es/a/b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{'a'}"
CHUNKS = (
    b"POST /es/a/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\n{'a':\r\n3;name=value\r\n 1}\r\n0\r\nX-Sum: x\r\n\r\n"
)
EMPTY = b"POST /es/a/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
SOUND = (GET, POST, CHUNKS, EMPTY)


@contextmanager
def arriving(most: int = 1_000) -> Iterator[Arriving]:
    coming = Arriving(lambda _: most)
    try:
        yield coming
    finally:
        coming.drop()


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """As where a disk is full: what is written beyond that fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@given(request=st.sampled_from(SOUND), behind=st.sampled_from(SOUND), data=st.data())
def test_a_request_ends_where_it_ends_in_whatever_pieces(
    request: bytes, behind: bytes, data: st.DataObject
) -> None:
    sent = request + behind
    rest, place = b"", 0
    with arriving() as coming:
        while coming.ending is None:
            size = data.draw(st.integers(1, len(sent) - place))
            rest = coming.take(sent[place : place + size])
            place += size
        assert coming.ending is Ending.WHOLE
        with coming.hand_over() as given_:
            assert given_.read() == request
    assert rest + sent[place:] == behind


@pytest.mark.parametrize("field", [b"Content-Length: 300000", b"Transfer-Encoding: chunked"])
def test_where_the_disk_takes_no_more_the_head_alone_is_handed_over(
    field: bytes,
) -> None:
    head = b"POST /es/a/b HTTP/1.1\r\n" + field + b"\r\n\r\n"
    with arriving(most=1_000_000) as coming, files_no_longer_than(100_000):
        coming.take(head + b"30000\r\n")
        while coming.ending is None:
            coming.take(b"x" * 10_000)
        assert coming.ending is Ending.NO_ROOM
        assert coming.on_disk == 0
        with coming.hand_over() as given_:
            assert given_.read() == head


@pytest.mark.parametrize("sent", SOUND)
def test_the_parser_reads_what_is_handed_over_to_its_last_byte(sent: bytes) -> None:
    with arriving() as coming:
        coming.take(sent)
        with coming.hand_over() as given_:
            parsed = next(RequestParser(Config(), iter([given_.read()]), ("127.0.0.1", 1)))
    assert parsed.body.read().startswith(b"{'a'") or sent in {GET, EMPTY}
    assert not parsed.unreader.read()


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Content-Length: -5",
        b"Content-Length: 5_0",
        b"Content-Length: " + b"9" * 30,
    ],
)
def test_what_contradicts_itself_is_handed_over_without_a_body(fields: bytes) -> None:
    with arriving() as coming:
        assert coming.take(b"POST / HTTP/1.1\r\n" + fields + b"\r\n\r\nabc") == b"abc"
        assert coming.ending is Ending.WHOLE


@pytest.mark.parametrize(
    "chunk", [b"x\r\n", b"\r\n", b"5 5\r\n", b"1\r\naa\r\n", b"-1\r\n", b";\r\n"]
)
def test_what_is_no_chunk_is_not_waited_for(chunk: bytes) -> None:
    with arriving() as coming:
        coming.take(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
        assert coming.ending is Ending.WHOLE


def test_more_than_is_waited_for_ends_it() -> None:
    with arriving(100) as announced:
        announced.take(b"POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\n")
        assert announced.ending is Ending.TOO_LARGE
    with arriving(100) as chunked:
        chunked.take(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n")
        assert chunked.ending is None
        chunked.take(b"a" * 101)
        assert chunked.ending is Ending.TOO_LARGE
    with arriving() as endless_head:
        endless_head.take(b"GET / HTTP/1.1\r\nX: " + b"y" * limits.HEAD_BYTES)
        assert endless_head.ending is Ending.TOO_LARGE


def test_only_large_bodies_leave_memory() -> None:
    with arriving(2**20) as coming:
        coming.take(b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n")
        coming.take(b"a" * limits.MEMORY_BYTES)
        assert coming.on_disk == 0
        coming.take(b"a")
        assert coming.on_disk == limits.MEMORY_BYTES + 1


def test_the_field_that_asks_for_leave_is_seen() -> None:
    assert Head([b"POST / HTTP/1.1", b"EXPECT:100-Continue"]).waits_for_leave


@pytest.mark.parametrize("size", [1, 65_536])
@pytest.mark.parametrize("part", [b"1\r\na\r\n", b"\n", b"X: y\r\n", b"\r\n\r"])
def test_arriving_in_pieces_takes_time_in_proportion(part: bytes, size: int) -> None:
    def take(text: bytes) -> None:
        with arriving(2**30) as coming:
            coming.take(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            for place in range(0, len(text), size):
                coming.take(text[place : place + size])

    # Byte by byte each takes as long as a packet.
    assert not slow_parser(take, lambda n: part * n, units=1_000 if size == 1 else TEXT_UNITS)


@pytest.mark.parametrize("size", [1, 1_000])
def test_a_head_that_arrives_in_pieces_takes_time_in_proportion(size: int) -> None:
    def take(text: bytes) -> None:
        with arriving() as coming:
            for place in range(0, len(text), size):
                coming.take(text[place : place + size])

    assert not slow_parser(take, lambda n: b"\r\n\r" * n)
