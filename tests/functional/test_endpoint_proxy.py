"""Partners behind a forward proxy: by a tunnel or forwarded, and what becomes of each failure."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from integration.delivery.outcome import Failed
from integration.delivery.sending.answers import read
from integration.endpoint_types import addresses
from integration.endpoint_types.http.answers import MAYBE_SENT, by_proxy
from integration.endpoint_types.opening import opened
from integration.endpoints.port import Accepted, Answer, Unknown, Unreachable
from integration.resolving import resolved
from tests.contract.endpoint_worlds import an_endpoint, an_outbound_message
from tests.support.certificates import self_signed
from tests.support.forward_proxy import ForwardProxy
from tests.support.http_partner import HttpPartner

pytestmark = pytest.mark.servers
LOGIN = ("sluice", "nobody-may-read-this")
Made = Callable[..., ForwardProxy]


@pytest.fixture
def partner() -> Iterator[HttpPartner]:
    found = HttpPartner()
    yield found
    found.close()


@pytest.fixture
def proxied(settings: Any) -> Iterator[Made]:
    """Make a proxy that the installation names for every endpoint."""
    made: list[ForwardProxy] = []

    def make(*without: str, said: tuple[str, str] = ("", ""), **more: Any) -> ForwardProxy:
        made.append(ForwardProxy(**more))
        settings.SLUICE_HTTP_PROXY = {
            "url": made[-1].url,
            "username": said[0],
            "password": said[1],
        }
        settings.SLUICE_NO_PROXY = list(without)
        return made[-1]

    yield make
    for one in made:
        one.close()


def asked(url: str, *, secrets: dict[str, str] | None = None, **properties: Any) -> Answer:
    known = {"url": url, "private_network": True, "total_seconds": 2, "connect_seconds": 1}
    endpoint = opened(an_endpoint("http", known | properties, **(secrets or {})))
    try:
        [answer] = endpoint.deliver([an_outbound_message("m1")])
        return answer
    finally:
        endpoint.close()


def test_a_message_in_the_clear_is_handed_to_the_proxy(partner: HttpPartner, proxied: Made) -> None:
    proxy = proxied(login=LOGIN, said=LOGIN)
    assert isinstance(asked(f"{partner.address}/take"), Accepted)
    assert proxy.asked == [f"POST {partner.address}/take"]
    assert partner.ids == ["m1"]


def test_with_tls_the_proxy_sees_an_address_and_nothing_else(proxied: Made, tmp_path: Path) -> None:
    certificate, key = self_signed()
    both = tmp_path / "both.pem"
    both.write_text(certificate + key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(both)
    partner = HttpPartner(tls)
    proxy = proxied(login=LOGIN, said=LOGIN)
    try:
        answer = asked(f"https://localhost:{partner.port}/take", ca_certificate=certificate)
        assert isinstance(answer, Accepted)
        assert proxy.asked == [f"CONNECT localhost:{partner.port}"]
        [request] = partner.requests
        assert "proxy-authorization" not in {name.lower() for name in request.headers}
    finally:
        partner.close()


@pytest.mark.parametrize(
    ("scheme", "refuses", "code"),
    [
        ("https", 407, "PROXY_REFUSED"),
        ("http", 407, "PROXY_REFUSED"),
        ("https", 403, "PROXY_REFUSED"),
        ("https", 502, "CONNECTION_FAILED"),
        # As the partner's own: who of them answered cannot be told.
        ("http", 403, "HTTP_REFUSED"),
        ("http", 503, "HTTP_UNAVAILABLE"),
        ("http", 502, "HTTP_NO_ANSWER"),
    ],
)
def test_what_a_proxy_refuses_has_a_code_and_tells_no_secret(
    proxied: Made, scheme: str, refuses: int, code: str
) -> None:
    proxy = proxied(refuses=refuses, said=LOGIN)
    answer = asked(f"{scheme}://partner.invalid:1/take")
    assert answer.code == code
    assert proxy.asked
    assert LOGIN[1] not in repr(answer)
    assert "c2x1aWNl" not in repr(answer), "nor its Base64"


@pytest.mark.parametrize(
    ("path", "status"), [("hang", 504), ("reset", 502), ("status-502", 502), ("status-504", 504)]
)
def test_what_was_handed_on_and_not_answered_may_have_arrived(
    partner: HttpPartner, proxied: Made, path: str, status: int
) -> None:
    proxied(waits=0.2)
    answer = asked(f"{partner.address}/{path}")
    assert (type(answer), answer.code, answer.status) == (Unknown, "HTTP_NO_ANSWER", status)
    assert len(partner.requests) == 1
    for is_idempotent, kind in ((False, "permanent"), (True, "transient")):
        outcome, _ = read(answer, is_idempotent=is_idempotent, is_free=False)
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == kind


@pytest.mark.parametrize("path", ["status-403", "status-503", "status-407"])
def test_what_the_partner_answers_by_a_proxy_keeps_its_meaning(
    partner: HttpPartner, proxied: Made, path: str
) -> None:
    direct = asked(f"{partner.address}/{path}", proxy="none")
    proxied()
    assert asked(f"{partner.address}/{path}") == direct


@pytest.mark.parametrize(
    ("status", "marks", "code"),
    [
        (403, {"X-Squid-Error": "ERR_ACCESS_DENIED 0"}, "PROXY_REFUSED"),
        (403, {"Proxy-Status": "edge; error=http_request_denied"}, "PROXY_REFUSED"),
        (403, {"Proxy-Status": "edge; received-status=403"}, "HTTP_REFUSED"),
        (504, {"X-Squid-Error": "ERR_CONNECT_FAIL 110"}, "HTTP_UNAVAILABLE"),
        (502, {"Proxy-Status": "edge; error=dns_error"}, "HTTP_UNAVAILABLE"),
        (504, {"X-Squid-Error": "ERR_READ_TIMEOUT 0"}, "HTTP_NO_ANSWER"),
        (502, {"Proxy-Status": "a; error=dns_error, b; error=dns_error"}, "HTTP_NO_ANSWER"),
    ],
)
def test_a_proxy_may_say_that_an_answer_is_its_own(
    proxied: Made, status: int, marks: dict[str, str], code: str
) -> None:
    proxied(refuses=status, marks=marks)
    assert asked("http://partner.invalid:1/take").code == code


def test_a_reset_after_the_message_may_be_told_as_503() -> None:
    answer = Unreachable(status=503, excerpt=f"{MAYBE_SENT}. reset reason: termination")
    assert isinstance(by_proxy(answer, {}), Unknown)


@pytest.mark.parametrize("rule", ["127.0.0.0/8", "127.0.0.1", "*"])
def test_a_host_of_the_list_is_reached_without_it(
    partner: HttpPartner, proxied: Made, rule: str
) -> None:
    proxy = proxied("example.org", rule)
    assert isinstance(asked(f"{partner.address}/take"), Accepted)
    assert proxy.asked == []


def test_an_endpoint_may_have_none_or_one_of_its_own(partner: HttpPartner, proxied: Made) -> None:
    default = proxied()
    assert isinstance(asked(f"{partner.address}/take", proxy="none"), Accepted)
    own = ForwardProxy(login=LOGIN)
    try:
        answer = asked(
            f"{partner.address}/take",
            proxy="own",
            proxy_url=own.url,
            proxy_username=LOGIN[0],
            secrets={"proxy_password": LOGIN[1]},
        )
        assert isinstance(answer, Accepted)
        assert own.asked == [f"POST {partner.address}/take"]
    finally:
        own.close()
    assert default.asked == []


def test_what_is_refused_without_a_proxy_is_refused_with_one(
    partner: HttpPartner, proxied: Made
) -> None:
    proxy = proxied()
    for address in (partner.address, "http://169.254.169.254", f"http://localhost:{partner.port}"):
        answer = asked(f"{address}/take", private_network=False)
        assert (type(answer), answer.code) == (Unreachable, "ADDRESS_REFUSED")
    own = asked("http://partner.invalid/", proxy="own", proxy_url=proxy.url, private_network=False)
    assert own.code == "ADDRESS_REFUSED"
    assert proxy.asked == []


def test_a_name_that_only_the_proxy_knows_is_left_to_it(
    partner: HttpPartner, proxied: Made
) -> None:
    proxy = proxied()
    answer = asked(f"http://partner.invalid:{partner.port}/take", private_network=False)
    assert isinstance(answer, Accepted)
    assert proxy.asked == [f"POST http://partner.invalid:{partner.port}/take"]


@pytest.mark.parametrize(
    "problem", [TimeoutError(), socket.gaierror(socket.EAI_AGAIN, "try again"), OSError("no files")]
)
def test_a_name_that_is_not_resolved_in_time_is_not_left_to_the_proxy(
    partner: HttpPartner, proxied: Made, monkeypatch: pytest.MonkeyPatch, problem: OSError
) -> None:
    """It might be a private address: nobody has judged it."""
    granted: list[float] = []

    def late(host: str, port: int, seconds: float) -> list[Any]:
        if host == "127.0.0.1":
            return resolved(host, port, seconds)
        granted.append(seconds)
        raise problem

    monkeypatch.setattr(addresses, "resolved", late)
    proxy = proxied()
    url = f"http://slow.invalid:{partner.port}/take"
    answer = asked(url, private_network=False, connect_seconds=5, total_seconds=60)
    assert (type(answer), answer.code) == (Unreachable, "NAME_NOT_FOUND")
    assert granted == [pytest.approx(5, abs=0.5)]
    assert proxy.asked == []


@pytest.mark.parametrize("says", [None, b"", b"SSH-2.0-OpenSSH\r\n\r\n"])
def test_whatever_goes_wrong_before_the_tunnel_nothing_was_sent(settings: Any, says: bytes) -> None:
    """A proxy that hangs, hangs up, or is none: the message cannot have arrived."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings.SLUICE_HTTP_PROXY = {
            "url": f"http://127.0.0.1:{listener.getsockname()[1]}",
            "username": "",
            "password": "",
        }
        threading.Thread(target=answering, args=(listener, says), daemon=True).start()
        answer = asked("https://partner.invalid/take")
    code = "CONNECT_TIMEOUT" if says is None else "CONNECTION_FAILED"
    assert (type(answer), answer.code) == (Unreachable, code)


def answering(listener: socket.socket, says: bytes | None) -> None:
    with suppress(OSError):
        client, _ = listener.accept()
        with client:
            client.recv(1_024)
            if says is None:
                client.recv(1_024)
            else:
                client.sendall(says)


def test_a_proxy_that_is_away_is_an_outage(settings: Any) -> None:
    settings.SLUICE_HTTP_PROXY = {"url": "http://127.0.0.1:1", "username": "", "password": ""}
    for scheme in ("http", "https"):
        answer = asked(f"{scheme}://partner.invalid/take")
        assert (type(answer), answer.code) == (Unreachable, "CONNECTION_FAILED")


def test_the_connection_is_tried_by_the_same_way(partner: HttpPartner, proxied: Made) -> None:
    proxied(refuses=407)
    endpoint = opened(
        an_endpoint("http", {"url": "https://partner.invalid/", "private_network": True})
    )
    assert endpoint.connect().code == "PROXY_REFUSED"
    endpoint.close()
