"""Bad partners over HTTP: each way of failing has its answer, its code, and an end."""

import base64
import hmac
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from email.utils import format_datetime
from ipaddress import ip_address

import pytest
from django.utils import timezone

from integration.endpoint_types.addresses import refusal
from integration.endpoint_types.http.answers import answer_to
from integration.endpoint_types.opening import opened
from integration.endpoints.port import Accepted, Later, Refused, Unknown, Unreachable
from integration.endpoints.properties import EndpointSettingsError
from tests.contract.endpoint_worlds import an_endpoint, an_outbound_message
from tests.support.certificates import self_signed
from tests.support.http_partner import HttpPartner

pytestmark = pytest.mark.servers


@pytest.fixture
def partner():
    found = HttpPartner()
    yield found
    found.close()


def asked(partner, path, *, message=None, secrets=None, **properties):
    """The answer of a partner to one message."""
    known = {"url": f"{partner.address}/{path}", "private_network": True, "total_seconds": 20}
    endpoint = opened(an_endpoint("http", known | properties, **(secrets or {})))
    try:
        return endpoint.deliver([message or an_outbound_message("m1")])[0]
    finally:
        endpoint.close()


@pytest.mark.parametrize(
    ("status", "ending", "code"),
    [
        (204, Accepted, ""),
        (400, Refused, "HTTP_REFUSED"),
        (404, Refused, "HTTP_REFUSED"),
        (401, Unreachable, "HTTP_LOGIN_REFUSED"),
        (408, Later, "HTTP_FAILED"),
        (425, Later, "HTTP_FAILED"),
        (429, Unreachable, "HTTP_TOO_MANY"),
        (500, Later, "HTTP_FAILED"),
        (501, Later, "HTTP_FAILED"),
        (502, Unreachable, "HTTP_UNAVAILABLE"),
        (503, Unreachable, "HTTP_UNAVAILABLE"),
        (504, Unknown, "HTTP_NO_ANSWER"),
    ],
)
def test_a_status_has_its_meaning(partner, status, ending, code):
    answer = asked(partner, f"status-{status}")
    assert (type(answer), answer.code, answer.status) == (ending, code, status)


@pytest.mark.parametrize(("status", "may_be"), [(429, False), (502, True), (503, False)])
def test_a_partner_may_be_down_because_of_one_message(partner, status, may_be):
    assert asked(partner, f"status-{status}").may_be_the_message == may_be


@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway_may_say_that_it_never_handed_a_message_on(status):
    said = {"proxy-status": "edge; error=connection_refused"}
    answer = answer_to(status, said, "", success=[range(200, 300)], now=timezone.now())
    assert isinstance(answer, Unreachable)
    assert not answer.may_be_the_message


def test_a_trace_goes_with_the_request_unless_the_endpoint_names_another(partner):
    sent = f"00-{'a' * 32}-{'b' * 16}-01"
    message = an_outbound_message("m1", headers={"traceparent": sent, "tracestate": "v=1"})
    asked(partner, "take", message=message)
    asked(partner, "take", message=message, headers={"Traceparent": "ours"})
    asked(partner, "take", message=an_outbound_message("m2", headers={"traceparent": "none"}))
    got = [(r.headers.get("traceparent"), r.headers.get("tracestate")) for r in partner.requests]
    assert got == [(sent, "v=1"), ("ours", "v=1"), (None, None)]


def signature_by(secret, request):
    """The signature of a request that arrived, reckoned as a receiver does."""
    moment = request.headers["webhook-timestamp"]
    signed = f"{request.headers['webhook-id']}.{moment}.".encode() + request.body
    return "v1," + base64.b64encode(hmac.digest(secret.encode(), signed, "sha256")).decode()


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_requests_are_signed_with_each_secret_so_that_one_can_be_replaced(partner, method):
    secrets = {"signing_secret": "new-secret", "former_signing_secret": "old-secret"}
    headers = {"Webhook-Signature": "forged", "Webhook-Id": "forged"}
    begun = time.time()
    asked(partner, "take", method=method, headers=headers, secrets=secrets)
    [request] = partner.requests
    expected = [signature_by(secret, request) for secret in ("new-secret", "old-secret")]
    assert request.headers["webhook-signature"] == " ".join(expected)
    assert request.headers["webhook-id"] == "m1"
    assert begun - 2 < int(request.headers["webhook-timestamp"]) < begun + 60


def test_without_a_secret_nothing_is_signed(partner):
    asked(partner, "take")
    assert not [name for name in partner.requests[0].headers if name.lower().startswith("webhook")]


def test_the_beginning_of_an_answer_is_kept_as_text_that_can_be_stored(partner):
    assert asked(partner, "status-400").excerpt == "as asked\ufffd"


def test_other_statuses_may_mean_delivered(partner):
    assert isinstance(asked(partner, "status-409", success="200-299, 409"), Accepted)
    assert isinstance(asked(partner, "status-200", success="202"), Refused)


def test_retry_after_is_read_as_seconds_or_a_date_and_bounded(partner):
    assert asked(partner, "after-429?value=7").after_seconds == 7
    assert asked(partner, "after-503?value=999999").after_seconds == 3_600
    assert asked(partner, "after-503?value=soon").after_seconds is None
    at = timezone.now() + timedelta(seconds=100)
    value = format_datetime(at, usegmt=True).replace(" ", "%20")
    assert 80 < asked(partner, f"after-503?value={value}").after_seconds <= 100


@pytest.mark.parametrize("path", ["hang", "drip-head", "drip-body"])
def test_a_partner_that_does_not_end_is_ended(partner, path):
    begun = time.monotonic()
    answer = asked(partner, path, total_seconds=1)
    assert isinstance(answer, Unknown)
    assert answer.code in {"HTTP_NO_ANSWER", "HTTP_BROKEN_OFF"}
    assert 0.9 < time.monotonic() - begun < 15


def test_silence_ends_by_the_time_between_two_pieces(partner):
    begun = time.monotonic()
    assert isinstance(asked(partner, "hang", total_seconds=60, read_seconds=0.3), Unknown)
    assert time.monotonic() - begun < 15


def test_a_reset_leaves_open_whether_it_arrived(partner):
    assert (asked(partner, "reset").code, len(partner.requests)) == ("HTTP_NO_ANSWER", 1)


def test_an_answer_that_breaks_off_is_no_answer(partner):
    answer = asked(partner, "midbody-200")
    assert (type(answer), answer.code, answer.status) == (Unknown, "HTTP_BROKEN_OFF", 200)
    assert answer.excerpt == "begun"
    # What the partner refused, it refused, however its sentence ended.
    assert isinstance(asked(partner, "midbody-400"), Refused)


def test_a_huge_answer_is_not_read(partner):
    answer = asked(partner, "huge", total_seconds=10)
    assert isinstance(answer, Accepted)
    assert len(answer.excerpt) == 2_000
    # What the buffers of two sockets hold, and no more.
    assert partner.sent_bytes < 64 * 2**20


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_on_the_same_host_keeps_method_and_body(partner, status):
    assert isinstance(asked(partner, f"redirect-{status}?to=/take"), Accepted)
    last = partner.requests[-1]
    assert (last.method, last.path, last.body) == ("POST", "/take", an_outbound_message("m1").body)
    assert last.headers["idempotency-key"] == "m1"


def test_a_redirect_to_another_host_is_never_followed(partner):
    other = HttpPartner()
    for to in (f"{other.address}/take", f"http://localhost:{partner.port}/take"):
        answer = asked(partner, f"redirect-301?to={to}")
        assert (type(answer), answer.code) == (Unreachable, "HTTP_REDIRECTED")
    assert not other.requests
    other.close()


def test_redirects_in_a_circle_end(partner):
    answer = asked(partner, "redirect-307?to=/redirect-307%3Fto%3D/redirect-307")
    assert len(partner.requests) <= 4
    assert not isinstance(answer, Accepted)


def test_nobody_there_is_an_outage(partner):
    gone = HttpPartner()
    gone.close()
    assert asked(gone, "take").code == "CONNECTION_FAILED"


def test_a_name_without_an_address_is_an_outage(partner):
    answer = asked(partner, "", url="http://nobody.invalid/")
    assert (type(answer), answer.code) == (Unreachable, "NAME_NOT_FOUND")


def test_private_addresses_need_a_permission(partner):
    answer = asked(partner, "take", private_network=False)
    assert (type(answer), answer.code) == (Unreachable, "ADDRESS_REFUSED")
    assert not partner.requests
    for url in (f"http://localhost:{partner.port}/take", f"http://[::1]:{partner.port}/take"):
        assert asked(partner, "", url=url, private_network=False).code == "ADDRESS_REFUSED"


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "fe80::1",
        "fd00:ec2::254",
        "100.100.100.200",
        "0.0.0.0",  # noqa: S104 - never bound
        "224.0.0.1",
    ],
)
def test_addresses_of_clouds_are_never_connected_to(address):
    assert refusal(ip_address(address), private=True)
    assert not refusal(ip_address("10.0.0.1"), private=True)
    assert refusal(ip_address("10.0.0.1"), private=False)
    assert not refusal(ip_address("8.8.8.8"), private=False)


def test_templates_fill_address_and_headers(partner):
    message = an_outbound_message("m 1/2", body=b'{"order": {"number": "../A&B", "qty": 1.50}}')
    headers = {"X-Qty": "{$.order.qty}", "content-type": "application/{system}"}
    url = f"{partner.address}/take/{{$.order.number}}?id={{message_id}}"
    assert isinstance(asked(partner, "", url=url, headers=headers, message=message), Accepted)
    request = partner.requests[0]
    assert request.path == "/take/..%2FA%26B?id=m%201%2F2"
    assert (request.headers["x-qty"], request.headers["content-type"]) == (
        "1.50",
        "application/EAM",
    )


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"url": "/take/{$.order.colour}"}, "TEMPLATE_FIELD_MISSING"),
        ({"headers": {"X-A": "{$.order.colour}"}}, "TEMPLATE_FIELD_MISSING"),
        ({"headers": {"X-A": "{$.order.evil}"}}, "HTTP_HEADER"),
        ({"url": "/take/{$.order.up}/x"}, "HTTP_ADDRESS"),
    ],
)
def test_a_message_that_does_not_fit_the_templates_is_refused(partner, properties, code):
    message = an_outbound_message("m1", body=b'{"order": {"evil": "a\\r\\nX-B: 1", "up": ".."}}')
    if "url" in properties:
        properties = {"url": partner.address + properties["url"]}
    answer = asked(partner, "take", message=message, **properties)
    assert (type(answer), answer.code) == (Refused, code)
    assert not partner.requests


@pytest.mark.parametrize(
    ("properties", "secrets", "header"),
    [
        ({"auth": "basic", "username": "u"}, {"password": "p"}, ("authorization", "Basic dTpw")),
        ({"auth": "bearer"}, {"token": "abc"}, ("authorization", "Bearer abc")),
        ({"auth": "api_key", "api_key_header": "X-Key"}, {"api_key": "k"}, ("x-key", "k")),
    ],
)
def test_logins_are_headers(partner, properties, secrets, header):
    asked(partner, "take", secrets=secrets, **properties)
    assert partner.requests[0].headers[header[0]] == header[1]


def oauth(partner, path="token", **more):
    properties = {
        "url": f"{partner.address}/guarded",
        "private_network": True,
        "auth": "oauth2",
        "token_url": f"{partner.address}/{path}",
        "client_id": "us",
        "scope": "orders",
    }
    return opened(an_endpoint("http", properties | more, client_secret="s"))


def test_a_token_is_kept_and_renewed_once_when_it_is_refused(partner):
    endpoint = oauth(partner)
    assert isinstance(endpoint.deliver([an_outbound_message("m1")])[0], Accepted)
    assert isinstance(endpoint.deliver([an_outbound_message("m2")])[0], Accepted)
    assert len(partner.tokens) == 1
    assert b"grant_type=client_credentials" in partner.requests[0].body
    partner.good_tokens.clear()
    assert isinstance(endpoint.deliver([an_outbound_message("m3")])[0], Accepted)
    assert len(partner.tokens) == 2
    endpoint.close()


def test_without_a_token_nothing_is_sent(partner):
    endpoint = oauth(partner, "token-bad")
    for answer in (endpoint.deliver([an_outbound_message("m1")])[0], endpoint.connect()):
        assert (type(answer), answer.code) == (Unreachable, "TOKEN_REFUSED")
    assert {r.path for r in partner.requests} == {"/token-bad"}
    assert oauth(partner, "huge").deliver([an_outbound_message("m1")])[0].code == "TOKEN_REFUSED"
    endpoint.close()


def test_those_who_wait_for_a_token_get_the_failure_that_they_waited_for(partner):
    """Each asked for itself, one after the other, and their calls were overdue by then."""
    endpoint, at_once = oauth(partner, "token-silent", read_seconds=0.5), threading.Barrier(4)

    def deliver(number):
        at_once.wait(10)
        return endpoint.deliver([an_outbound_message(f"m{number}")])[0]

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(deliver, range(4)))
    assert {(type(a), a.code) for a in answers} == {(Unreachable, "TOKEN_REFUSED")}
    assert [r.path for r in partner.requests] == ["/token-silent"]
    endpoint.deliver([an_outbound_message("later")])
    assert len(partner.requests) == 2, "who comes later asks again"
    endpoint.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of its own authority for localhost and 127.0.0.1, and a server with it."""
    pem, secret = self_signed()
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_text(pem + secret)
    return pem, secret, file


def secured(certificate, *, needs_client=False):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate[2])
    if needs_client:
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(cadata=certificate[0])
    return HttpPartner(tls)


def test_a_certificate_is_judged_by_the_name_that_was_asked_for(certificate):
    partner = secured(certificate)
    url = f"https://localhost:{partner.port}/take"
    assert isinstance(asked(partner, "", url=url, ca_certificate=certificate[0]), Accepted)
    for properties in ({"url": url}, {"ca_certificate": certificate[0]}):
        answer = asked(partner, "take", **properties)
        assert (type(answer), answer.code) == (Unreachable, "CERTIFICATE_REFUSED")
    partner.close()


def test_our_certificate_is_shown_where_the_partner_asks_for_it(certificate):
    partner = secured(certificate, needs_client=True)
    known = {
        "url": f"https://localhost:{partner.port}/take",
        "ca_certificate": certificate[0],
    }
    own = {"client_certificate": certificate[0]}
    secrets = {"client_key": certificate[1]}
    assert isinstance(asked(partner, "", **known, **own, secrets=secrets), Accepted)
    answer = asked(partner, "", **known)
    assert (type(answer), answer.code) == (Unreachable, "TLS_FAILED")
    partner.close()


def test_plain_http_where_tls_is_wanted_is_an_outage(partner):
    answer = asked(partner, "", url=f"https://127.0.0.1:{partner.port}/take")
    assert (type(answer), answer.code) == (Unreachable, "TLS_FAILED")


def test_a_wrong_certificate_is_told_before_anything_is_opened():
    with pytest.raises(EndpointSettingsError) as refused:
        opened(
            an_endpoint(
                "http",
                {"url": "https://a.example", "client_certificate": "-----BEGIN CERTIFICATE-----x"},
                client_key="-----BEGIN PRIVATE KEY-----x",
            )
        )
    assert refused.value.code == "ENDPOINT_SETTINGS"
    assert "certificate" in refused.value.mistakes[0]


def test_secrets_are_in_no_message(partner):
    answer = asked(
        partner, "status-401", auth="basic", username="u", secrets={"password": "hunter2"}
    )
    assert "hunter2" not in repr(answer)
