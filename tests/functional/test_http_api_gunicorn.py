"""The HTTP API as it is shipped, under many senders at once, and without Kafka.

The queues' provider points at a port where nothing listens, and no relay runs: Kafka is down for
as long as these posts arrive. Everything accepted is counted in the database.
"""

import json
import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from devstack.servers import Servers
from integration.models import OutboxRow, Receipt
from tests.support.gunicorn import Request, ask, ask_all, shipped_web
from tests.support.http_api import Partner, a_partner
from tests.support.servers import environment_of

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
POSTS, SENDERS = 400, 32


@pytest.fixture(scope="module")
def port(
    servers: Servers, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    with shipped_web(environment_of(servers), tmp_path_factory.mktemp("web")) as found:
        yield found


def a_post(partner: Partner, body: object, **headers: str) -> Request:
    sent = json.dumps(body).encode()
    kind = {"Content-Type": "application/json"}
    return Request("POST", partner.address(), {**partner.bearer, **kind, **headers}, sent)


def test_hundreds_of_posts_at_once_and_some_of_them_five_times(port: int) -> None:
    strict, loose = a_partner("sequential"), a_partner("continuous")
    posts = [a_post(strict if n % 2 else loose, {"n": n}) for n in range(POSTS)]
    answers = ask_all(port, posts, at_once=SENDERS)
    assert Counter(answer.status for answer in answers) == {202: POSTS}
    ids = {answer.json()["message_id"] for answer in answers}
    assert len(ids) == POSTS
    stored = OutboxRow.objects.filter(state="PENDING").values_list("message_id", "value")
    assert {id_ for id_, _ in stored} == ids
    assert {json.loads(bytes(value))["n"] for _, value in stored} == set(range(POSTS))
    assert Receipt.objects.count() == POSTS

    # Retries that overlap: one message each, and all are told the same.
    again = [
        a_post(partner, {"again": n}, **{"Idempotency-Key": f"again-{n}"})
        for n in range(20)
        for partner in (strict, loose)
        for _ in range(5)
    ]
    told = ask_all(port, again, at_once=SENDERS)
    assert Counter(answer.status for answer in told) == {202: 200}
    assert Counter(answer.json()["repeated"] for answer in told) == {False: 40, True: 160}
    assert len({answer.json()["message_id"] for answer in told}) == 40
    assert OutboxRow.objects.count() == POSTS + 40


def test_giants_slow_ones_and_odd_headers_do_no_harm(port: int) -> None:
    partner = a_partner(max_body_bytes=10_000)
    token = f"Authorization: {partner.bearer['Authorization']}\r\n"
    start = f"POST {partner.address()} HTTP/1.1\r\nHost: x\r\n{token}"
    kind = "Content-Type: application/json\r\n"

    def first_line(head: str, body: bytes = b"") -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
            line.sendall(head.encode() + b"\r\n" + body)
            return line.recv(4_096).partition(b"\r\n")[0]

    # Refused by what it announces: the two gigabytes are never sent.
    giant = f"{start}{kind}Content-Length: 2147483648\r\nConnection: close\r\n"
    assert b"413" in first_line(giant)
    chunked = f"{start}{kind}Transfer-Encoding: chunked\r\nConnection: close\r\n"
    assert b"202" in first_line(chunked, b"2\r\n{}\r\n0\r\n\r\n")
    assert b"413" in first_line(chunked, b"4e20\r\n" + b"1" * 20_000 + b"\r\n0\r\n\r\n")
    assert b"400" in first_line(f"{start}{kind}Content-Length: 2\r\nContent-Length: 3\r\n", b"{}")
    twice = f"{start}{token}{kind}Content-Length: 2\r\nConnection: close\r\n"
    assert b"401" in first_line(twice, b"{}")
    for head in ("X: " + "y" * 20_000 + "\r\n", "".join(f"X-{n}: y\r\n" for n in range(200))):
        assert first_line(f"{start}{kind}{head}Content-Length: 2\r\n", b"{}")[:12] in {
            b"HTTP/1.1 400",
            b"HTTP/1.1 431",
        }
    # Senders that say nothing more hold a thread each for a while, not the HTTP API.
    slow = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(3)]
    for line in slow:
        line.sendall(f"{start}{kind}Content-Length: 100\r\n\r\n{{".encode())
    assert ask(port, a_post(partner, {"n": 1})).status == 202
    for line in slow:
        line.close()
    assert OutboxRow.objects.count() == 2
