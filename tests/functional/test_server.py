"""The shipped server at the socket: slow clients, odd framing, answers that nobody reads."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from django.urls import reverse

from devstack.servers import Servers
from integration.models import OutboxRow
from tests.support.gunicorn import Request, ask, shipped_web
from tests.support.hasty import LARGE
from tests.support.http_api import Partner, a_partner
from tests.support.servers import environment_of

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
MANY = 20
JSON = "Content-Type: application/json\r\n"
# Of each side, as it is shipped.
THREADS = 4
HASTY = ("-c", "python:tests.support.hasty", "--workers", "1")


@pytest.fixture(scope="module")
def environment(servers: Servers, django_db_setup: None) -> dict[str, str]:
    return environment_of(servers)


@pytest.fixture(scope="module")
def port(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with shipped_web(environment, tmp_path_factory.mktemp("web")) as found:
        yield found


@pytest.fixture(scope="module")
def hasty_port(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """Deadlines of seconds, and one process alone."""
    with shipped_web(environment, tmp_path_factory.mktemp("hasty"), *HASTY) as found:
        yield found


@pytest.fixture
def mortal_port(environment: dict[str, str], tmp_path: Path) -> Iterator[int]:
    """The same for one test, after which it hangs."""
    with shipped_web(environment, tmp_path, *HASTY) as found:
        yield found


def start_of(partner: Partner, fields: str, more: str = JSON) -> bytes:
    token = f"Authorization: {partner.bearer['Authorization']}\r\n"
    head = f"POST {partner.address()} HTTP/1.1\r\nHost: x\r\n{token}{more}{fields}\r\n\r\n"
    return head.encode()


def line_to(port: int, sent: bytes = b"", *, window: int | None = None) -> socket.socket:
    line = socket.socket()
    line.settimeout(30)
    if window is not None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    line.connect(("127.0.0.1", port))
    line.sendall(sent)
    return line


def answer_on(line: socket.socket) -> tuple[int, bytes]:
    """Status and body; 0 where the connection was closed without an answer."""
    with line, line.makefile("rb") as stream:
        while (start := stream.readline()).startswith(b"HTTP/1.1 1"):
            stream.readline()
        length = 0
        while (field := stream.readline().strip()) and field:
            name, _, value = field.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return (int(start.split()[1]), stream.read(length)) if start else (0, b"")


def code_on(line: socket.socket) -> tuple[int, str]:
    status, body = answer_on(line)
    return status, json.loads(body)["code"]


def has_answer_after_a_byte(line: socket.socket) -> bool:
    line.sendall(b" ")
    try:
        return bool(line.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False


def a_post(partner: Partner) -> Request:
    return Request(
        "POST", partner.address(), {**partner.bearer, "Content-Type": "application/json"}, b"{}"
    )


def slow_starts(partner: Partner) -> list[bytes]:
    """Requests that go no further: in the head, in a body, in a chunk, in a form."""
    return [
        start_of(partner, "Content-Length: 2").removesuffix(b"\r\n\r\n"),
        start_of(partner, "Content-Length: 100") + b"{",
        start_of(partner, "Transfer-Encoding: chunked") + b"64\r\n{",
        b"POST /account/login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nu",
    ]


def test_slow_senders_keep_nobody_waiting(port: int) -> None:
    partner = a_partner()
    with ExitStack() as stack:
        starts = slow_starts(partner) * MANY
        lines = [stack.enter_context(line_to(port, start)) for start in starts]
        for _ in range(4):
            assert ask(port, a_post(partner)).status == 202
            assert ask(port, Request("GET", "/healthz", {})).status == 200
        # They were waited for all the while.
        for line in lines:
            line.setblocking(False)
            with pytest.raises(BlockingIOError):
                line.recv(1)


def test_slow_readers_keep_nobody_waiting(hasty_port: int) -> None:
    partner = a_partner()
    wanted = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        lines = [
            stack.enter_context(line_to(hasty_port, wanted, window=2_048)) for _ in range(MANY)
        ]
        for _ in range(4):
            assert ask(hasty_port, Request("GET", "/healthz", {})).status == 200
            assert ask(hasty_port, a_post(partner)).status == 202
        assert answer_on(lines[0]) == (200, b"x" * LARGE)


def test_a_console_that_hangs_keeps_no_post_waiting(mortal_port: int) -> None:
    partner = a_partner()
    wanted = b"GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(MANY):
            stack.enter_context(line_to(mortal_port, wanted))
        for _ in range(4):
            assert ask(mortal_port, a_post(partner)).status == 202


ODD_CHUNKS = (
    b"x\r\n{}\r\n0\r\n\r\n",
    b"-2\r\n{}\r\n0\r\n\r\n",
    b"2_0\r\n{}\r\n0\r\n\r\n",
    b" 2\r\n{}\r\n0\r\n\r\n",
    b"2\n{}\r\n0\r\n\r\n",
    b"\r\n",
    b"2\r\n{}x\r\n0\r\n\r\n",
    b"2\r\n{}0\r\n\r\n",
    b"2;\x00=\x01\r\n{}\r\n0\r\n\r\n",
    b"f" * 20 + b"\r\n{}",
    b"2" + b" " * 9_000 + b"\r\n{}\r\n0\r\n\r\n",
    b"2\r\n{}\r\n0\r\nTrailer\r\n\r\n",
    b"2\r\n{}\r\n0\r\nA b: c\r\n\r\n",
)


def test_odd_chunks_are_the_senders_mistake(port: int) -> None:
    partner, told = a_partner(), {}
    for body in ODD_CHUNKS:
        line = line_to(port, start_of(partner, "Transfer-Encoding: chunked") + body)
        line.shutdown(socket.SHUT_WR)
        told[body] = code_on(line)
    assert {*told.values()} <= {(400, "BAD_FRAMING"), (400, "BODY_CUT_SHORT")}, told
    assert not OutboxRow.objects.exists()


def test_requests_behind_one_another_are_each_answered(port: int) -> None:
    partner = a_partner()
    sent = start_of(partner, "Content-Length: 2") + b"{}"
    with line_to(port, sent * 3 + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") as line:
        came = b""
        while b'"ok"' not in came:
            piece = line.recv(65_536)
            assert piece
            came += piece
    assert came.count(b"HTTP/1.1 202") == 3
    assert OutboxRow.objects.count() == 3


def test_leave_to_send_is_given(port: int) -> None:
    partner = a_partner()
    with line_to(port, start_of(partner, "Content-Length: 2\r\nExpect: 100-continue")) as line:
        assert line.recv(100).startswith(b"HTTP/1.1 100 ")
        line.sendall(b"{}")
        assert answer_on(line)[0] == 202


def test_a_body_has_an_absolute_limit_whatever_its_pace(hasty_port: int) -> None:
    partner = a_partner()
    line = line_to(hasty_port, start_of(partner, "Content-Length: 1000"))
    line.settimeout(0.1)
    assert any(has_answer_after_a_byte(line) for _ in range(600))
    line.settimeout(30)
    assert code_on(line) == (408, "BODY_TOO_SLOW")
    assert not OutboxRow.objects.exists()


def test_a_head_has_a_limit_too_and_a_form_that_is_cut_off_is_not_acted_on(hasty_port: int) -> None:
    form = b"POST /account/login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nuser"
    slow = [line_to(hasty_port, sent) for sent in (b"GET / HTTP/1.1\r\nHost:", b"", form)]
    assert [answer_on(line)[0] for line in slow] == [408, 0, 408]
    line = line_to(hasty_port, form)
    line.shutdown(socket.SHUT_WR)
    assert answer_on(line)[0] == 0


def test_large_bodies_wait_on_disk_as_far_as_there_is_room(hasty_port: int) -> None:
    partner = a_partner()
    head = start_of(partner, "Content-Length: 200000")
    with line_to(hasty_port, head + b" " * 100_000):
        line = line_to(hasty_port, head + b" " * 100_000)
        assert code_on(line) == (503, "TOO_MANY_LARGE_BODIES")
    assert ask(hasty_port, a_post(partner)).status == 202


def test_large_bodies_that_wait_for_a_thread_take_room_too(mortal_port: int) -> None:
    hangs = b"GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n"
    fields = "POST /account/login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    body = b"x" * 100_000
    with ExitStack() as lines:
        for _ in range(THREADS):
            lines.enter_context(line_to(mortal_port, hangs))
        lines.enter_context(line_to(mortal_port, fields.encode() + body))
        last = lines.enter_context(line_to(mortal_port, fields.encode() + body))
        assert answer_on(last)[0] == 503


@pytest.mark.parametrize("way", ["hang", "seize"])
def test_a_request_that_hangs_costs_a_process_and_no_post(mortal_port: int, way: str) -> None:
    """Also where it lets no other thread run: the parser of a post has no marker here."""
    partner = a_partner()
    call = f"GET /api/{way} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with line_to(mortal_port, call) as line, suppress(ConnectionResetError):
        assert line.recv(1) == b""
    request = a_post(partner)
    for _ in range(100):
        try:
            assert ask(mortal_port, request).status == 202
        except ConnectionError:
            continue
        break
    assert OutboxRow.objects.count() == 1


CONTENT_TYPES = [
    *(f"text/plain; charset={name}" for name in ("base64", "rot13", "undefined", "idna", "none")),
    *('text/plain; charset="a b"', "text/plain; name*=none''x", "text/plain; charset=latin-1"),
]


def test_an_address_is_read_whatever_is_claimed_of_the_body(port: int) -> None:
    for content_type in CONTENT_TYPES:
        asked = Request("GET", f"{reverse('login')}?next=/queues/", {"Content-Type": content_type})
        assert ask(port, asked).status == 200, content_type
