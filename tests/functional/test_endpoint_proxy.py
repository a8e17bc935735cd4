"""Partners behind a forward proxy: by a tunnel or forwarded, and what becomes of each failure."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from integration.endpoint_types.opening import opened
from integration.endpoints.port import Accepted, Answer, Unreachable
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
        ("http", 502, "HTTP_UNAVAILABLE"),
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
