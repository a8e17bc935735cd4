"""Each fault of certificates between a port and us has its own code, found without the library."""

import contextlib
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from socket import create_server, socket

import pytest

from devstack.certificates import Authority, Issued
from integration import tls
from integration.kafka.tls import certificates_of, refusal
from integration.tls import Certificates
from tests.support.certificates import a_context

pytestmark = pytest.mark.fast

TRUSTED, STRANGER = Authority("trusted"), Authority("stranger")
EXPIRED = timedelta(hours=-1)
OURS = TRUSTED.client("sluice")


def _serve(server: socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            line = server.accept()[0]
        except OSError:
            return
        with contextlib.suppress(OSError), context.wrap_socket(line, server_side=True) as talking:
            # Who is let in waits no longer for a refusal.
            talking.sendall(b"x")
            talking.recv(1)


@contextmanager
def a_port(shown: Issued, clients: Authority | None = None) -> Iterator[str]:
    """A port that speaks TLS, and lets in only who shows a certificate by `clients`, if given."""
    with create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=[server, a_context(shown, clients)])
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(2)
    thread.join()


def code_of(address: str, certificates: Certificates) -> str:
    found = refusal("plant", [address], certificates)
    assert found is None or address in found.sentence
    return "" if found is None else found.code


KNOWN = Certificates(authorities=TRUSTED.certificate)
WITH_OURS = Certificates(authorities=TRUSTED.certificate, own=OURS.certificate, key=OURS.key)


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        (TRUSTED.server("127.0.0.1"), ""),
        (TRUSTED.server("127.0.0.1", lasting=EXPIRED), "BROKER_CERTIFICATE_EXPIRED"),
        (STRANGER.server("127.0.0.1"), "BROKER_CERTIFICATE_UNTRUSTED"),
        (TRUSTED.server("kafka.example", "10.0.0.1"), "BROKER_CERTIFICATE_NAME"),
    ],
    ids=["valid", "expired", "untrusted", "another's"],
)
def test_a_brokers_certificate_is_judged_as_the_client_judges_it(shown: Issued, code: str) -> None:
    with a_port(shown) as address:
        assert code_of(address, KNOWN) == code


def test_a_name_is_not_looked_at_where_the_provider_says_so() -> None:
    lax = {"ssl.ca.pem": TRUSTED.certificate, "ssl.endpoint.identification.algorithm": "none"}
    with a_port(TRUSTED.server("kafka.example")) as address:
        assert code_of(address, certificates_of(lax)) == ""


def test_a_port_that_wants_our_certificate_says_so() -> None:
    expired = TRUSTED.client("sluice", lasting=EXPIRED)
    unknown = STRANGER.client("sluice")
    with a_port(TRUSTED.server("127.0.0.1"), clients=TRUSTED) as address:
        assert code_of(address, WITH_OURS) == ""
        assert code_of(address, KNOWN) == "CLIENT_CERTIFICATE"
        for wrong in (expired, unknown):
            shown = Certificates(TRUSTED.certificate, wrong.certificate, wrong.key)
            assert code_of(address, shown) == "CLIENT_CERTIFICATE"


def test_what_names_and_dates_are_meant_is_told_and_no_secret_is() -> None:
    with a_port(TRUSTED.server("kafka.example", "10.0.0.1")) as address:
        named = refusal("plant", [address], WITH_OURS)
    with a_port(TRUSTED.server("127.0.0.1", lasting=EXPIRED)) as address:
        dated = refusal("plant", [address], WITH_OURS)
    assert named is not None
    assert dated is not None
    assert "kafka.example, 10.0.0.1" in named.sentence
    assert "it expired on" in dated.sentence
    assert OURS.key not in f"{named} {dated} {WITH_OURS!r}"


def test_a_port_that_tells_nothing_is_left_to_what_the_library_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls, "ASK_SECONDS", 0.1)
    with create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        for addresses in ([address], ["127.0.0.1:1"], ["no port"], [""]):
            assert refusal("plant", addresses, KNOWN) is None
    assert refusal("plant", [address], Certificates(authorities="no PEM")) is None


def test_no_key_stays_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with a_port(TRUSTED.server("127.0.0.1"), clients=TRUSTED) as address:
        assert code_of(address, WITH_OURS) == ""
    assert list(tmp_path.glob("sluice-*")) == []
