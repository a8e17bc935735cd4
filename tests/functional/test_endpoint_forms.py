"""Endpoints in the console: forms by type, secrets that stay, tests that are kept, files."""

import dataclasses
import json
from html import unescape
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.test import Client
from django.urls import reverse

from integration.actions import configuration
from integration.endpoints.properties import ENDPOINT_TYPES
from integration.models import (
    ConfigurationChange,
    Endpoint,
    EndpointTest,
    ExternalSystem,
    OutboxRow,
    Provider,
    Queue,
)
from tests.functional.config_world import Config
from tests.support.http_partner import HttpPartner
from tests.support.set_up import forms, limited_to, logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
BEARER = {"auth": "bearer", "token": "tok-s3cret"}


@pytest.fixture
def client() -> Client:
    return logged_in()


def made(client: Client, **values: Any) -> Endpoint:
    answer = client.post(reverse("endpoint-new"), {**forms()["endpoint"], **values})
    assert answer.status_code == 303, unescape(answer.text)
    return Endpoint.objects.latest("pk")


def changed(client: Client, row: Endpoint, **values: Any) -> Any:
    seen = configuration.stamp(Endpoint.objects.get(pk=row.pk))
    known = {**forms()["endpoint"], "system": row.system_id, "seen": seen, **values}
    return client.post(reverse("endpoint-change", args=[row.pk]), known)


@pytest.mark.parametrize("endpoint_type", ENDPOINT_TYPES)
def test_each_property_has_its_place_and_its_help(client: Client, endpoint_type: str) -> None:
    laid = [name for _, names in ENDPOINT_TYPES[endpoint_type].parts for name in names]
    assert sorted(laid) == sorted(
        one.name for one in dataclasses.fields(ENDPOINT_TYPES[endpoint_type])
    )
    assert ENDPOINT_TYPES[endpoint_type].about
    assert ENDPOINT_TYPES[endpoint_type].repeats
    answer = client.get(reverse("endpoint-new"), {"endpoint_type": endpoint_type})
    for name in laid:
        assert f'name="{name}"' in answer.text


def test_the_type_is_chosen_first(client: Client) -> None:
    answer = client.get(reverse("endpoint-new"), {"system": "7"})
    for endpoint_type in ENDPOINT_TYPES:
        assert f"?endpoint_type={endpoint_type}&amp;system=7" in answer.text
    assert "<textarea" not in answer.text


def _a_topic(**values: Any) -> dict[str, Any]:
    """What a person enters for an endpoint that is a topic."""
    Provider.objects.get_or_create(name="main", defaults={"bootstrap_servers": "127.0.0.1:1"})
    return {"provider": "main", "topic": "partner.orders", "keep_headers": "on", **values}


def test_an_endpoint_of_each_type_can_be_made(client: Client) -> None:
    database = {
        "host": "db.example",
        "database": "erp",
        "username": "sluice",
        "table": "orders",
        "columns": "number = {$.order.number}\nid = {message_id}",
        "mode": "upsert",
        "key_columns": "number, id",
        "password": "pw",
    }
    found = {
        "http": made(client, headers="X-Key: {key}\nX-Id: {message_id}"),
        "file": made(client, name="f", endpoint_type="file", file_name="{key}.json", at_once=5),
        "database": made(client, name="d", endpoint_type="database", **database),
        "amqp": made(client, name="q", endpoint_type="amqp", host="mq", address="orders"),
        "python": made(client, name="p", endpoint_type="python", function="plant.send"),
        "kafka": made(client, name="k", endpoint_type="kafka", **_a_topic()),
    }
    assert found["http"].properties["headers"] == {"X-Key": "{key}", "X-Id": "{message_id}"}
    assert found["file"].properties == {"file_name": "{key}.json", "at_once": 5}
    assert found["database"].properties["key_columns"] == ["number", "id"]
    assert json.loads(found["database"].secrets) == {"password": "pw"}
    assert found["amqp"].properties == {"host": "mq", "address": "orders"}
    assert found["kafka"].properties == {"provider": "main", "topic": "partner.orders"}
    for row in found.values():
        page = client.get(reverse("endpoint", args=[row.pk]))
        assert page.status_code == 200
        assert client.get(reverse("endpoint-change", args=[row.pk])).status_code == 200


def test_a_secret_is_written_and_never_shown(client: Client) -> None:
    row = made(client, **BEARER)
    assert json.loads(row.secrets) == {"token": "tok-s3cret"}
    for page in ("endpoint", "endpoint-change"):
        text = client.get(reverse(page, args=[row.pk])).text
        assert "tok-s3cret" not in text
    assert "A value is stored" in text
    clone = client.get(reverse("endpoint-new"), {"like": row.pk}).text
    assert "Nothing is stored" in clone
    assert 'value="https://partner.example/in"' in clone
    assert "tok-s3cret" not in json.dumps(
        [[c.before, c.after] for c in ConfigurationChange.objects.all()]
    )


def test_an_empty_secret_keeps_what_is_stored_and_a_choice_removes_it(client: Client) -> None:
    row = made(client, **BEARER)
    assert changed(client, row, auth="bearer", method="PUT").status_code == 303
    row.refresh_from_db()
    assert json.loads(row.secrets) == {"token": "tok-s3cret"}
    assert row.properties["method"] == "PUT"
    refused = changed(client, row, auth="bearer", remove_token="on")
    assert refused.status_code == 422
    assert "Token is missing" in refused.text
    assert changed(client, row, auth="none").status_code == 303
    row.refresh_from_db()
    assert row.secrets == ""


@pytest.mark.parametrize(
    "url",
    ["https://evil.example/in", "http://partner.example/in", "https://partner.example:99/in"],
)
def test_a_stored_secret_goes_nowhere_else(client: Client, url: str) -> None:
    row = made(client, **BEARER)
    refused = changed(client, row, auth="bearer", url=url)
    assert refused.status_code == 422
    assert "Enter it again" in refused.text
    assert changed(client, row, auth="bearer", url=url, token="anew").status_code == 303
    assert changed(client, row, auth="bearer", url=f"{url}/other").status_code == 303


def test_the_type_stays_as_it_is(client: Client) -> None:
    row = made(client)
    changed(client, row, endpoint_type="python", function="plant.send")
    row.refresh_from_db()
    assert row.endpoint_type == "http"


def test_switching_it_off_is_a_change_like_any_other(client: Client) -> None:
    row = made(client)
    assert "Nothing delivers to it yet" in client.get(reverse("endpoint", args=[row.pk])).text
    client.post(reverse("endpoint-switch", args=[row.pk]), {"to": "off", "reason": "repairs"})
    row.refresh_from_db()
    assert not row.enabled
    assert ConfigurationChange.objects.latest("id").reason == "repairs"


def try_it(client: Client, row: Endpoint, **values: str) -> Any:
    return client.post(reverse("endpoint-test", args=[row.pk]), values)


def test_a_test_is_kept_with_what_it_found(client: Client) -> None:
    partner = HttpPartner()
    row = made(client, url=f"{partner.address}/take/{{$.order}}", private_network="on")
    assert try_it(client, row, kind="connect").status_code == 303
    assert not partner.requests
    assert try_it(client, row, kind="sample", body='{"order": 7}', key="k").status_code == 303
    assert partner.requests[0].path == "/take/7"
    assert partner.requests[0].headers["idempotency-key"].startswith("test-")
    assert try_it(client, row, kind="sample", body='{"other": 7}').status_code == 303
    partner.close()
    try_it(client, row, kind="connect")
    found = EndpointTest.objects.filter(endpoint=row).order_by("id")
    assert [(one.kind, one.is_good, one.code) for one in found] == [
        ("connect", True, ""),
        ("sample", True, ""),
        ("sample", False, "TEMPLATE_FIELD_MISSING"),
        ("connect", False, "CONNECTION_FAILED"),
    ]
    page = client.get(reverse("endpoint", args=[row.pk])).text
    assert "CONNECTION_FAILED" in page
    assert "It answered 201." in page
    # What the partner got is in the history of changes; a look at it is not.
    assert ConfigurationChange.objects.filter(kind="endpointtest").count() == 2


def test_what_a_partner_answered_is_for_who_may_see_payloads(client: Client) -> None:
    partner = HttpPartner()
    row = made(client, url=f"{partner.address}/status-422", private_network="on")
    try_it(client, row, kind="sample", body='{"order": 7}')
    partner.close()
    found = EndpointTest.objects.get()
    assert "as asked" in found.excerpt, (found.code, found.text)
    noted = ConfigurationChange.objects.get(kind="endpointtest")
    assert noted.after["code"] == EndpointTest.objects.get().code
    assert "as asked" not in str(noted.after)
    ConfigurationChange.objects.filter(pk=noted.pk).update(after={"excerpt": "as asked"})
    own = reverse("endpoint", args=[row.pk])
    told = [own, reverse("changes"), reverse("change", args=[noted.pk])]
    viewer = logged_in("Viewers")
    assert [one for one in told if "as asked" in viewer.get(one).text] == []
    assert [one for one in told if "as asked" in client.get(one).text] == [own]


@pytest.mark.parametrize("body", ["", "no json", "x" * 300_000])
def test_a_sample_that_cannot_be_sent_is_told(client: Client, body: str) -> None:
    row = made(client)
    answer = try_it(client, row, kind="sample", body=body)
    assert answer.status_code == 422
    assert "Nothing was sent" in answer.text
    assert not EndpointTest.objects.exists()


def test_settings_that_cannot_be_opened_are_what_a_test_finds(client: Client) -> None:
    row = made(client)
    Endpoint.objects.filter(pk=row.pk).update(properties={"url": "https://a.example", "odd": 1})
    try_it(client, row)
    found = EndpointTest.objects.get()
    assert (found.is_good, found.code) == (False, "ENDPOINT_SETTINGS")
    assert "odd" in found.text
    assert client.get(reverse("endpoint", args=[row.pk])).status_code == 200


def test_testing_needs_the_right_to_configure_and_the_system(client: Client) -> None:
    row = made(client)
    assert try_it(logged_in("Operators"), row).status_code == 403
    elsewhere = limited_to(ExternalSystem.objects.create(name="elsewhere"))
    assert try_it(elsewhere, row).status_code == 404
    assert not EndpointTest.objects.exists()


def test_a_file_names_each_secret_by_reference(
    client: Client, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = made(client, **BEARER)
    config = Config(tmp_path)
    _, told = config("export", "--secrets", "env")
    assert "tok-s3cret" not in told
    name = "SLUICE_CONFIG_ENDPOINTS_POST_TOKEN"
    assert f"token: ${{ENV:{name}}}" in told
    assert config("plan", text=config("export")[1]) == (0, "No changes.\n")
    monkeypatch.setenv(name, "tok-anew")
    code, said = config("apply", "--reason", "rotated", "--user", "ada", text=told)
    assert code == 0, said
    row.refresh_from_db()
    assert json.loads(row.secrets) == {"token": "tok-anew"}
    assert "tok-" not in said
    written = told.replace(f"${{ENV:{name}}}", "tok-in-the-file")
    code, said = config("plan", text=written)
    assert (code, "endpoints post, secrets: " in said) == (1, True)
    without = told.replace(f"token: ${{ENV:{name}}}", "odd: kept")
    code, said = config("plan", text=without)
    assert (code, "endpoints post, secrets: " in said) == (1, True)


@pytest.mark.parametrize(
    ("folder", "status"),
    [("mine", 303), ("mine/in", 303), ("theirs", 422), ("mine-too", 422), ("", 422)],
)
def test_files_of_limited_people_stay_in_the_folder_of_their_system(
    folder: str, status: int
) -> None:
    mine = ExternalSystem.objects.create(name="mine")
    sent = {**forms()["endpoint"], "system": mine.pk, "endpoint_type": "file"}
    sent |= {"folder": folder, "file_name": "{message_id}.txt"}
    assert limited_to(mine).post(reverse("endpoint-new"), sent).status_code == status
    assert Endpoint.objects.filter(system=mine).exists() is (status == 303)
    assert logged_in().post(reverse("endpoint-new"), {**sent, "name": "any"}).status_code == 303


class TestTopics:
    """Endpoints to which queues forward."""

    def test_limited_people_forward_to_topics_of_their_own(self) -> None:
        partner = ExternalSystem.objects.get_or_create(name="partner")[0]
        client = limited_to(partner)
        assert made(client, name="k", endpoint_type="kafka", **_a_topic()).pk
        for topic in ("erp.orders", "__consumer_offsets", "no topic"):
            entered = {**forms()["endpoint"], **_a_topic(topic=topic), "endpoint_type": "kafka"}
            answer = client.post(reverse("endpoint-new"), {**entered, "name": "l"})
            assert answer.status_code == 422
            assert "topic" in answer.context["form"].errors

    def test_a_circle_is_refused_above_the_form(self, client: Client) -> None:
        row = made(client, name="k", endpoint_type="kafka", **_a_topic())
        known = {"kind": "continuous", "direction": "outbound", "start_from": "end"}
        provider = Provider.objects.get(name="main")
        Queue.objects.create(name="q", topic="a", provider=provider, endpoint=row, **known)
        answer = changed(client, row, name="k", endpoint_type="kafka", **_a_topic(topic="a"))
        assert answer.status_code == 422
        assert "round for ever" in answer.text
        page = client.get(reverse("endpoint", args=[row.pk])).text
        assert "exactly once" in page
        assert "8 for each queue" not in page

    def test_a_file_carries_it_and_names_what_is_missing(self, client: Client, tmp_path) -> None:
        made(client, name="k", endpoint_type="kafka", **_a_topic())
        config = Config(tmp_path)
        text = config("export")[1]
        assert config("plan", text=text) == (0, "No changes.\n")
        code, said = config("plan", text=text.replace("provider: main", "provider: nobody"))
        assert code
        assert "There is no provider nobody" in said

    @pytest.mark.usefixtures("unanswered")
    def test_the_test_writes_a_sample_to_the_outbox(self, client: Client) -> None:
        row = made(client, name="k", endpoint_type="kafka", **_a_topic())
        address = reverse("endpoint-test", args=[row.pk])
        client.post(address, {"kind": "sample", "body": '{"n": 1}', "key": "k1"})
        sent = OutboxRow.objects.get()
        assert (sent.topic, bytes(sent.key or b""), bytes(sent.value or b"")) == (
            "partner.orders",
            b"k1",
            b'{"n": 1}',
        )
        assert EndpointTest.objects.get().is_good
        client.post(address, {"kind": "connect"})
        assert EndpointTest.objects.latest("pk").code == "BROKER_UNREACHABLE"


class TestLedgers:
    """Database endpoints, each of which keeps the ids of what it has delivered in a table."""

    ORDERS: ClassVar[dict[str, Any]] = {
        "endpoint_type": "database",
        "name": "orders",
        "host": "db.example",
        "database": "erp",
        "username": "sluice",
        "table": "orders",
        "columns": "number = {key}",
        "mode": "insert",
    }
    LINES: ClassVar[dict[str, Any]] = {**ORDERS, "name": "lines", "table": "lines"}

    @pytest.mark.parametrize(
        ("other", "status"),
        [
            ({}, 422),
            ({"host": "DB.example", "port": "5432", "schema": "public"}, 422),
            ({"ledger": "lines_delivered"}, 303),
            ({"message_id_column": "id"}, 303),
            ({"table": "orders"}, 303),
            ({"schema": "archive"}, 303),
        ],
    )
    def test_two_tables_share_none(
        self, client: Client, other: dict[str, Any], status: int
    ) -> None:
        made(client, **self.ORDERS)
        sent = {**forms()["endpoint"], **self.LINES, **other}
        answer = client.post(reverse("endpoint-new"), sent)
        assert answer.status_code == status
        assert ("LEDGER_SHARED" in answer.text) is (status == 422)

    def test_those_that_do_already_can_be_changed_but_not_moved(self, client: Client) -> None:
        row = made(client, **self.ORDERS)
        typed = {"host": "db.example", "database": "erp", "username": "sluice", "table": "lines"}
        typed |= {"columns": {"number": "{key}"}}
        known = {"name": "lines", "system": row.system, "endpoint_type": "database"}
        lines = Endpoint.objects.create(**known, properties=typed)
        same = {**self.LINES, "username": "other"}
        assert changed(client, lines, **same).status_code == 303
        assert changed(client, lines, **self.LINES | {"table": "notes"}).status_code == 422
        assert changed(client, lines, **self.LINES, ledger="lines_delivered").status_code == 303

    def test_a_file_is_refused_as_well(self, client: Client, tmp_path: Path) -> None:
        made(client, **self.ORDERS)
        made(client, **self.LINES, ledger="lines_delivered")
        config = Config(tmp_path)
        text = config("export")[1]
        assert config("plan", text=text) == (0, "No changes.\n")
        told = text.replace("lines_delivered", "sluice_delivered")
        code, said = config("apply", text=told)
        assert (code, "LEDGER_SHARED" in said) == (1, True)
