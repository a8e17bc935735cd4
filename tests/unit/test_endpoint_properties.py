"""Properties and secrets of endpoints: declared once, judged by name, written about."""

import dataclasses

import pytest

from devstack import paths
from integration.endpoints.declared import declarations, default_of, judged, lines_of, pairs_of
from integration.endpoints.properties import (
    ENDPOINT_TYPES,
    mistakes,
    read,
    read_secrets,
    secret_mistakes,
)
from integration.endpoints.templates import BadTemplateError, Fields, Template
from tests.contract.endpoint_worlds import an_outbound_message
from tests.contract.every_endpoint_world import WORLDS

pytestmark = pytest.mark.fast
URL = {"url": "https://a.example/in"}


@pytest.mark.parametrize("endpoint_type", ENDPOINT_TYPES)
def test_each_property_is_in_the_guide(endpoint_type):
    guide = (paths.ROOT / "docs" / "endpoints.md").read_text()
    for one in dataclasses.fields(ENDPOINT_TYPES[endpoint_type]):
        assert f"\n| `{one.name}` | " in guide


@pytest.mark.parametrize("endpoint_type", ENDPOINT_TYPES)
def test_a_type_with_secrets_says_where_they_go(endpoint_type):
    known = {
        name: one.is_secret for name, one in declarations(ENDPOINT_TYPES[endpoint_type]).items()
    }
    deciding = ENDPOINT_TYPES[endpoint_type].secrets_go_by
    assert bool(deciding) is any(known.values())
    assert not any(known[name] for name in deciding)


@pytest.mark.parametrize("endpoint_type", ENDPOINT_TYPES)
def test_what_counts_beside_a_choice_is_shown_when_it_is_made(endpoint_type):
    sheet = (paths.ROOT / "console/static/console/console.css").read_text()
    for declared in declarations(ENDPOINT_TYPES[endpoint_type]).values():
        other, values = declared.only or ("", ())
        for value in values:
            assert f'[name="{other}"] [value="{value}"]:checked) .only-{other}-{value}' in sheet


def test_each_type_is_held_to_the_contract():
    assert set(WORLDS) == {"memory", *ENDPOINT_TYPES}


@pytest.mark.parametrize("endpoint_type", ENDPOINT_TYPES)
def test_what_a_property_comes_with_may_be_written_down(endpoint_type):
    cls = ENDPOINT_TYPES[endpoint_type]
    known = {n: default_of(cls, n) for n, d in declarations(cls).items() if not d.is_secret}
    assert all("is missing" in told for told in judged(cls, known).values())


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({}, "url is missing"),
        ({"url": "ftp://a.example"}, "begins with http"),
        ({"url": "https://{key}.example/"}, "in its path and query only"),
        ({"url": "https://a.example:99999/"}, "65535"),
        ({"url": "https://a.example/#x"}, "no # part"),
        ({**URL, "method": "TRACE"}, "one of POST"),
        ({**URL, "total_seconds": 0}, "from 0.1 to 600"),
        ({**URL, "total_seconds": True}, "from 0.1 to 600"),
        ({**URL, "private_network": "yes"}, "true or false"),
        ({**URL, "headers": {"Authorization": "x"}}, "must not be Authorization"),
        ({**URL, "headers": {"A": "{odd}"}}, "is no field"),
        ({**URL, "headers": ["A"]}, "names with values"),
        ({**URL, "success": "299-200"}, "must be HTTP statuses"),
        ({**URL, "ca_certificate": "abc"}, "BEGIN CERTIFICATE"),
        ({**URL, "token": "abc"}, "is a secret"),
        ({**URL, "colour": "red"}, "no property of this type"),
        ({**URL, "auth": "basic"}, "username is missing"),
        ([], "names with values"),
    ],
)
def test_a_mistake_is_told(properties, told):
    assert any(told in one for one in mistakes("http", properties).values())
    with pytest.raises(ValueError, match=r"[a-z]"):
        read("http", properties, {})


def test_secrets_are_judged_beside_the_properties():
    secrets = [name for name, one in declarations(ENDPOINT_TYPES["http"]).items() if one.is_secret]
    of_login = ("password", "token", "api_key", "client_secret")
    of_signing = ("signing_secret", "former_signing_secret")
    assert tuple(secrets) == (*of_login, "proxy_password", *of_signing, "client_key")
    assert not secret_mistakes("http", URL, {})
    assert "token" in secret_mistakes("http", {**URL, "auth": "bearer"}, {})
    assert "odd" in secret_mistakes("http", URL, {"odd": "x"})
    assert read_secrets('{"token": "x"}') == {"token": "x"}
    for text in ("no json", "[]", '{"token": 7}'):
        with pytest.raises(ValueError, match="JSON object of names and texts"):
            read_secrets(text)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{{key}}}", "{k1}"),
        ("{$.order.number}-{$.order['lines']}", "m1-3"),
        ("{interface}/{system}/{message_id}", "ORDERS/EAM/m1"),
        ("no field", "no field"),
    ],
)
def test_templates_are_filled(text, filled):
    assert Template(text).filled(Fields(an_outbound_message("m1"))) == filled


def test_xml_fields_are_found_by_their_local_names():
    message = an_outbound_message(
        "m1", body=b'<o:Order xmlns:o="urn:o"><o:NUMBER> 7 </o:NUMBER></o:Order>'
    )
    assert Template("{/Order/NUMBER}").filled(Fields(message)) == "7"


@pytest.mark.parametrize("text", ["{", "}", "{}", "{a{b}}", "{$..a[?(@.b)]..c}", "{nobody}"])
def test_a_template_that_is_none_is_told(text):
    with pytest.raises(BadTemplateError):
        Template(text)


def test_lines_are_read_back():
    pairs = {"X-Key": "{key}", "Y": "a: b"}
    assert pairs_of(lines_of(pairs, ":"), ":") == pairs
    for text in ("lonely", "a:", "a: 1\na: 2"):
        with pytest.raises(ValueError, match=r"not written as|given twice"):
            pairs_of(text, ":")
