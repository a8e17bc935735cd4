"""Answers byte by byte: what is read of them, and when their connection serves again."""

import socket
import ssl
import threading
from contextlib import suppress

import httpcore
import httpx
import pytest

from integration.endpoint_types.exchange import MAX_COOKIES, Exchanges
from integration.endpoint_types.network import Call, Network
from integration.endpoint_types.opening import opened
from integration.endpoints.port import Accepted, Unknown, Unreachable
from tests.contract.endpoint_worlds import an_endpoint, an_outbound_message

pytestmark = pytest.mark.servers

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Script:
    """A partner that gives these answers in turn, whatever is asked; None ends the connection."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests, self.connections = [], 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while self.answers:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                while self.answers and (request := self.request(connection)):
                    self.requests.append(request)
                    answer = self.answers.pop(0)
                    if answer is None:
                        break
                    with suppress(OSError):  # who has read enough does not stay
                        connection.sendall(answer)

    @staticmethod
    def request(connection):
        """Head and body, which are `{}` here."""
        received = b""
        while not received.endswith(b"\r\n\r\n{}"):
            try:
                piece = connection.recv(65_536)
            except OSError:
                return None
            if not piece:
                return None
            received += piece
        return received.decode()


@pytest.fixture
def deliver():
    """Deliver as many messages as the script has answers; the answers of the endpoint."""
    opened_now = []

    def delivered(script, secrets=None, **properties):
        count = len(script.answers)
        opened_now.append(script.socket)
        known = {"url": script.url, "private_network": True, "total_seconds": 1}
        endpoint = opened(an_endpoint("http", known | properties, **(secrets or {})))
        opened_now.append(endpoint)
        return [
            endpoint.deliver([an_outbound_message(f"m{n}", body=b"{}")])[0] for n in range(count)
        ]

    yield delivered
    for one in opened_now:
        one.close()


def test_a_connection_serves_again_and_each_request_comes_whole(deliver):
    script = Script(OK, OK, OK)
    assert [type(a) for a in deliver(script)] == [Accepted] * 3
    assert script.connections == 1
    first = script.requests[0].split("\r\n")
    assert first[0] == "POST / HTTP/1.1"
    assert f"Host: {script.url[7:-1]}" in first
    assert "Content-Length: 2" in first
    assert "Idempotency-Key: m0" in first


@pytest.mark.parametrize(
    "answer",
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"1\r\no\r\n1;a=b\r\nk\r\n0\r\nT: x\r\n\r\n"
        ),
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
    ],
    ids=["chunks", "hints", "patience", "line ends", "folded"],
)
def test_every_way_to_write_an_answer_is_read_to_its_end(deliver, answer):
    script = Script(answer, OK)
    assert [a.excerpt for a in deliver(script)] == ["ok", "ok"]
    assert script.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"HTTP/1.1 500 Another's\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n"
            b"2\r\nok\r\n0\r\n\r\n"
        ),
    ],
    ids=["more than asked for", "closing", "old", "two lengths"],
)
def test_a_connection_in_doubt_is_not_used_again(deliver, answer):
    script = Script(answer, OK)
    found = []
    # Answered on the old connection, the second message would be the script's hidden third.
    answers = threading.Thread(target=lambda: found.extend(deliver(script)))
    answers.start()
    answers.join(5)
    assert [(type(a), a.excerpt) for a in found] == [(Accepted, "ok")] * 2
    assert script.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/2 200\r\n\r\n",
        b"no answer at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
        None,
    ],
    ids=["version", "words", "coded", "endless", "silence"],
)
def test_what_is_no_answer_leaves_open_whether_the_message_arrived(deliver, answer):
    script = Script(answer, OK)
    first, second = deliver(script)
    assert (type(first), first.code) == (Unknown, "HTTP_NO_ANSWER")
    assert isinstance(second, Accepted)


@pytest.mark.parametrize(
    "length",
    [b"Content-Length: 2, 3", b"Content-Length: -2", b"Content Length: 2"],
    ids=["two", "negative", "no header"],
)
def test_an_answer_without_a_length_that_can_be_read_ends_with_its_connection(deliver, length):
    first, second = deliver(Script(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\nok", OK))
    assert (type(first), first.code, first.excerpt) == (Unknown, "HTTP_BROKEN_OFF", "ok")
    assert isinstance(second, Accepted)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n" + b"1" * 9_000,
    ],
    ids=["no size", "too long", "endless size"],
)
def test_chunks_that_make_no_sense_break_the_answer_off(deliver, answer):
    first, second = deliver(Script(answer, OK))
    assert (type(first), first.code, first.excerpt) == (Unknown, "HTTP_BROKEN_OFF", "ok")
    assert isinstance(second, Accepted)


def test_cookies_are_kept_up_to_a_bound(deliver):
    """A partner that names each anew would have all of them read for every message."""
    answers = range(MAX_COOKIES // 20 + 2)
    named = [["node=7", *(f"c{n}-{m}=1" for m in range(20))] for n in answers]
    script = Script(*map(with_cookies, named), OK)
    assert {type(a) for a in deliver(script)} == {Accepted}
    [line] = [line for line in script.requests[-1].splitlines() if line.startswith("Cookie: ")]
    cookies = line.removeprefix("Cookie: ").split("; ")
    assert len(cookies) == MAX_COOKIES
    assert {*named[-1], *named[-2]} <= set(cookies), "those that were set last stay"


def with_cookies(cookies):
    lines = "".join(f"Set-Cookie: {cookie}\r\n" for cookie in cookies)
    return OK.replace(b"\r\n", b"\r\n" + lines.encode(), 1)


def test_an_address_of_ipv6_may_end_with_a_letter(deliver):
    """A proxy takes the request, as no such address is on this machine."""
    script = Script(OK)
    to = {"url": "http://[fd00::a]/", "proxy": "own", "proxy_url": script.url}
    assert [type(a) for a in deliver(script, **to)] == [Accepted]
    lines = script.requests[0].split("\r\n")
    assert lines[0] == "POST http://[fd00::a]/ HTTP/1.1"
    assert "Host: [fd00::a]" in lines


def test_what_cannot_be_a_request_is_told_as_not_sent():
    script, call = Script(OK), Call()
    tls = ssl.create_default_context()
    exchanges = Exchanges(Network(call, private=True), tls, connect_seconds=5, read_seconds=5)
    with call.within(5), pytest.raises(httpcore.LocalProtocolError) as told:
        exchanges.ask("POST", httpx.URL(script.url), {"hunter2:": "x"}, b"{}")
    assert not call.has_sent
    assert "hunter2" not in str(told.value)
    exchanges.close()
    script.socket.close()


def test_a_cookie_of_the_partner_comes_back_to_it(deliver):
    script = Script(OK.replace(b"\r\n", b"\r\nSet-Cookie: node=7\r\n", 1), OK)
    deliver(script)
    assert "cookie" not in script.requests[0].lower()
    assert "Cookie: node=7\r\n" in script.requests[1]


@pytest.mark.parametrize(
    "lines",
    [
        b"Set-Cookie: node=7\r\nX-Message: Buchung \xfcbernommen\r\n",
        b"Set-Cookie: node=7\r\nSet-Cookie: note=\xfcber\r\n",
        b"Set-Cookie: note=a\tb\r\nSet-Cookie: node=7\r\n",
        b"Set-Cookie: node=7\r\nSet-Cookie: n\xf6te\r\n",
    ],
    ids=["another header", "beyond ASCII", "tab", "name alone"],
)
def test_what_a_request_cannot_carry_costs_no_message_and_no_other_cookie(deliver, lines):
    script = Script(OK.replace(b"\r\n", b"\r\n" + lines, 1), OK)
    assert [type(a) for a in deliver(script)] == [Accepted, Accepted]
    assert "Cookie: node=7\r\n" in script.requests[1]


def test_a_login_that_no_header_can_hold_is_never_sent(deliver):
    script = Script(OK)
    secrets = {"api_key": "two\nlines"}
    [answer] = deliver(script, secrets, auth="api_key", api_key_header="X-Key")
    assert (type(answer), answer.code) == (Unreachable, "CONNECTION_FAILED")
    assert "X-Key" in answer.text
    assert "two" not in answer.text
    assert script.requests == []
