"""Partners over HTTP that mean harm or are badly made: nothing of ours stays with them."""

import socket
import ssl
import threading
import time
from contextlib import suppress

import pytest

from integration.endpoints.port import Unknown, Unreachable
from tests.contract.endpoint_worlds import an_outbound_message
from tests.functional import test_endpoint_http as ordinary
from tests.functional.test_endpoint_http import asked

pytestmark = pytest.mark.servers
partner = ordinary.partner
certificate = ordinary.certificate


@pytest.mark.parametrize(
    ("properties", "secrets"),
    [
        ({"auth": "basic", "username": "u"}, {"password": "hunter2"}),
        ({"auth": "bearer"}, {"token": "hunter2"}),
        ({"auth": "api_key"}, {"api_key": "hunter2"}),
    ],
)
def test_secrets_that_a_partner_sends_back_are_not_kept(partner, properties, secrets):
    for code in (400, 500, 200):
        answer = asked(partner, f"echo-{code}", secrets=secrets, **properties)
        assert "[hidden]" in answer.excerpt
        assert "hunter2" not in repr(answer)
        # Of user and password as basic has them.
        assert "dTpodW50ZXIy" not in repr(answer)


def test_tokens_and_their_secret_are_not_kept_either(partner):
    known = {"auth": "oauth2", "client_id": "u", "secrets": {"client_secret": "hunter2"}}
    answer = asked(partner, "echo-400", token_url=f"{partner.address}/token-good", **known)
    assert "authorization: bearer [hidden]" in answer.excerpt.lower()
    answer = asked(partner, "take", token_url=f"{partner.address}/token-echo", **known)
    assert (type(answer), answer.code) == (Unreachable, "TOKEN_REFUSED")
    assert "hunter2" not in repr(answer)
    assert "dTpodW50ZXIy" not in repr(answer)


class RawPartner:
    """A socket that does with its first connection what a test says."""

    def __init__(self, act):
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, args=(act,), daemon=True)
        self._thread.start()

    def _serve(self, act):
        taken, _ = self._server.accept()
        with taken, suppress(OSError):
            act(taken)

    def close(self):
        self._server.close()
        self._thread.join(5)


@pytest.mark.parametrize(
    "body",
    [
        b'{"access_token": "t", "expires_in": 1e999}',
        b'{"access_token": "t", "expires_at": 1e999}',
        b'{"access_token": "t", "expires_in": 1%s}' % (b"0" * 400),
        b"[" * 30_000,
        b'["access_token"]',
        b'{"error": "\\ud800"}',
    ],
    ids=["endless", "endless moment", "huge", "nested", "list", "half a character"],
)
def test_an_answer_that_is_no_token_leaves_the_message_unsent(partner, body):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)

    def answer_once(taken):
        taken.recv(65_536)
        taken.sendall(head + body)

    tokens = RawPartner(answer_once)
    known = {"auth": "oauth2", "client_id": "u", "secrets": {"client_secret": "s"}}
    answer = asked(partner, "take", token_url=f"http://127.0.0.1:{tokens.port}/", **known)
    tokens.close()
    assert (type(answer), answer.code) == (Unreachable, "TOKEN_REFUSED")
    assert partner.requests == []


def test_a_partner_that_reads_slowly_is_ended(partner):
    leaving = threading.Event()

    def sip(taken):
        while not leaving.wait(0.1) and taken.recv(2**20):
            continue

    slow = RawPartner(sip)
    begun = time.monotonic()
    message = an_outbound_message("m1", body=b'"%s"' % (b"x" * 2**26))
    url = f"http://127.0.0.1:{slow.port}/take"
    answer = asked(partner, "", url=url, message=message, total_seconds=3)
    took = time.monotonic() - begun
    leaving.set()
    slow.close()
    assert (type(answer), answer.code) == (Unknown, "HTTP_NO_ANSWER")
    assert took < 15


def test_an_alert_after_the_message_was_taken_leaves_open_whether_it_arrived(certificate, partner):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[2])
    got = bytearray()

    def take_and_alert(taken):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        while not got.endswith(an_outbound_message("m1").body):
            try:
                got.extend(tls.read(65_536))
            except ssl.SSLWantReadError:
                taken.sendall(outgoing.read())
                incoming.write(taken.recv(65_536))
        # A record that nobody can decrypt makes the library say so to the other side.
        incoming.write(b"\x17\x03\x03\x00\x20" + bytes(32))
        with suppress(ssl.SSLError):
            tls.read(1)
        taken.sendall(outgoing.read())

    alerting = RawPartner(take_and_alert)
    url = f"https://localhost:{alerting.port}/take"
    answer = asked(partner, "", url=url, ca_certificate=certificate[0])
    alerting.close()
    assert an_outbound_message("m1").body in bytes(got)
    assert (type(answer), answer.code) == (Unknown, "HTTP_NO_ANSWER")
